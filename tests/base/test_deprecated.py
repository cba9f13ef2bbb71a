"""Former names: each warns, does what the present name does, and stands in the table of docs/names.md."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import lbnn
from lbnn import archive
from lbnn._base import deprecated
from tests.archive.make_files import FOLDER, data

X, Y, X_TEST = data()
POST = lbnn.Network((3,)).condition(X, Y[:, 0], 4.0)
PAGE = (Path(__file__).parents[2] / "docs" / "names.md").read_text(encoding="utf-8")

OBJECTS = {
    "Diagnostics": POST.diagnostics,
    "Posterior": POST,
    "Predictive": POST.predict(X_TEST),
    "NetworkPredictive": POST.predict(X_TEST),
    "ScaleMeasure": POST.scale,
    "ScalePrior": POST.prior,
    "Spectrum": POST.spectrum,
}


def former(message: str = "is now"):
    return pytest.warns(DeprecationWarning, match=message)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [(name, old, new) for name, pairs in deprecated.ATTRIBUTES.items() for old, new in pairs.items()],
)
def test_former_attribute_is_the_present_one(name, old, new):
    thing = OBJECTS[name]
    with former(rf"{name}\.{old} is now .*{new}"):
        found = getattr(thing, old)
    expected = getattr(thing, new)
    assert found == expected if callable(found) else repr(found) == repr(expected)


@pytest.mark.parametrize("thing", OBJECTS.values(), ids=OBJECTS)
def test_other_attributes_are_missing_as_ever(thing):
    with pytest.raises(AttributeError, match=f"{type(thing).__name__}.*nonsense"):
        thing.nonsense  # noqa: B018
    assert not hasattr(thing, "__wrong__")


@pytest.mark.parametrize(
    "draw",
    [
        POST.sample_weights,
        POST.scale.sample,
        POST.prior.sample,
        POST.predict(X_TEST).sample,
        lbnn.MatrixGIG(np.eye(2), np.eye(2), 1.0).sample,
        lbnn.MatrixGIG(np.eye(2), np.eye(2), 1.0).weighted_sample,
    ],
    ids=lambda draw: draw.__qualname__,
)
def test_seed_was_called_rng(draw):
    with former("'rng' of .* is now 'seed'"):
        found = draw(3, rng=5)
    for one, other in zip(found, draw(3, seed=5), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(TypeError, match="seed must be a non-negative int"):
        draw(3, seed="a")


def test_former_names_of_the_package():
    with former(r"lbnn\.EngineChoice is now lbnn\.Plan"):
        assert lbnn.EngineChoice is lbnn.Plan
    with former("is now posterior.leave_one_out"):
        scores = lbnn.leave_one_out(POST, Y[:, 0])
    np.testing.assert_allclose(scores.mean, POST.leave_one_out().mean, rtol=1e-12)


def test_former_names_of_archives(tmp_path):
    with former("is now Posterior.save"):
        packed = archive.pack_posterior(POST)
    archive.write(tmp_path / "file", "posterior", *packed)
    with former("is now Posterior.load"):
        again = archive.unpack_posterior(*archive.read(tmp_path / "file", "posterior"))
    assert again.log_evidence == lbnn.Posterior.load(tmp_path / "file").log_evidence == POST.log_evidence


@pytest.mark.parametrize(("old", "new"), deprecated.VALUES["noise"].items())
def test_former_kinds_of_noise(old, new):
    settings = {"depth": 1, "average": False}
    with former(f"noise='{old}' is now noise='{new}'"):
        before = lbnn.LBNNRegressor(noise=old, **settings).fit(X, Y)
    after = lbnn.LBNNRegressor(noise=new, **settings).fit(X, Y)
    assert before.log_evidence_ == after.log_evidence_
    assert before.get_params()["noise"] == old  # scikit-learn's rule: parameters are kept as given


@pytest.mark.parametrize("name", ["one", "two"])
def test_posteriors_of_files_written_before(name):
    expected = json.loads((FOLDER / "answers.json").read_text())[name]
    post = lbnn.Posterior.load(FOLDER / f"{name}.lbnn")
    np.testing.assert_allclose(post.predict(X_TEST).variance, expected, rtol=1e-10)
    with pytest.raises(ValueError, match=r"does not keep them: use leave_one_out\(Y\)"):
        post.leave_one_out()
    assert math.isfinite(post.leave_one_out(Y[:, 0] if name == "one" else Y).elpd)


def test_page_lists_every_former_name():
    pairs = [
        *deprecated.NAMES.items(),
        *deprecated.ARCHIVE.items(),
        *deprecated.ARGUMENTS.items(),
        *(pair for each in deprecated.ATTRIBUTES.values() for pair in each.items()),
        *deprecated.VALUES["noise"].items(),
    ]
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    missing = [
        old
        for old, new in pairs
        if not any(old in row.split("|")[1] and new in row.split("|")[2] for row in rows)
    ]
    assert not missing
