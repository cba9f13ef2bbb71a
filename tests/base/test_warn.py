"""Warnings point at the caller's line; seeds and tables of text."""

from __future__ import annotations

import warnings
from pathlib import PureWindowsPath

import numpy as np
import pytest

import lbnn
from lbnn._base import check, log_integrals
from lbnn._base import warn as warn_module
from lbnn._base.html import card
from lbnn._base.warn import warn
from tests.helpers.problems import make_problem


def here(call):
    """The file and the messages of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(each.filename, str(each.message)) for each in caught]


def test_warning_points_at_the_caller():
    assert here(lambda: warn("look")) == [(__file__, "look")]


def test_files_of_the_package_are_known_under_windows(monkeypatch):
    monkeypatch.setattr(warn_module, "Path", PureWindowsPath)
    monkeypatch.setattr(warn_module, "_PACKAGE", PureWindowsPath(r"C:\site-packages\lbnn"))
    assert warn_module._of_package(r"C:\site-packages\lbnn\engines\run.py")
    assert not warn_module._of_package(r"C:\site-packages\lbnn_other\run.py")


@pytest.fixture
def unconverged(monkeypatch):
    """Quadrature that never reaches its tolerance."""
    monkeypatch.setattr(log_integrals, "_TOLERANCE", -1.0)


@pytest.mark.usefixtures("unconverged")
@pytest.mark.parametrize(
    "call",
    [
        lambda data: lbnn.Network((4,)).condition(data.X, data.Y, 3.0),
        lambda data: lbnn.Network((4,)).condition_gram(data.gram, data.Y, 3.0),
        lambda data: lbnn.Network((4,)).prior(data.X),
        lambda data: lbnn.ScaleMixture().condition(data.X, data.Y, 3.0),
        lambda data: lbnn.Network((4,)).condition(data.X, data.Y, 3.0).leave_one_out(),
    ],
    ids=["condition", "condition_gram", "prior", "scale mixture", "leave_one_out"],
)
def test_every_inference_that_is_not_ok_warns_at_the_caller_s_line(call):
    data = make_problem(6, 9, seed=1)
    found = here(lambda: call(data))
    assert any("did not converge" in message for _, message in found)
    assert all(file == __file__ for file, _ in found)


def test_seed_is_an_int_a_sequence_or_a_generator():
    assert check.seed(np.int64(7)) == 7
    assert check.seed(np.random.SeedSequence(3)) == check.seed(np.random.SeedSequence(3))
    rng = np.random.default_rng(3)
    assert check.seed(rng) != check.seed(rng)
    for value in (None, 1.5, -1, True, "0", np.random.RandomState(0), np.random.PCG64(1)):
        with pytest.raises(
            TypeError, match=r"^seed must be a non-negative int, a numpy.random.SeedSequence or"
        ):
            check.seed(value)


@pytest.mark.parametrize(
    "seed", [np.random.SeedSequence(5), np.random.default_rng(5)], ids=["sequence", "generator"]
)
def test_networks_take_any_seed(seed):
    data, net = make_problem(6, 9, 2, seed=1), lbnn.Network((4,))
    one = net.condition(data.X, data.Y, 3.0, target_error=0.3, seed=seed)
    other = net.condition(data.X, data.Y, 3.0, target_error=0.3, seed=9)
    assert one.log_evidence != other.log_evidence
    net.prior(data.X, 2, target_error=0.3, seed=seed)
    with pytest.raises(TypeError, match=r"^seed must be"):
        net.condition(data.X, data.Y, 3.0, seed="now")


def test_text_is_escaped():
    text = card("<b>", [("a & b", "<script>")])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_posterior_shows_itself():
    data = make_problem(6, 9, 2, seed=1)
    post = lbnn.Network((4,)).condition(data.X, data.Y, 3.0, target_error=0.3)
    text = post._repr_html_()
    assert "log evidence" in text
    assert "importance" in text
