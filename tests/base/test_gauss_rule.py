"""A few rows in the place of all: against plain sums, on spectra and targets that are not typical."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import lbnn
from lbnn._base import gauss_rule as rule
from lbnn._base.gauss_rule import make_gauss_rule
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.noise.noise import Noise
from tests.helpers.problems import random_scale

ROWS = 500


def spectrum_of(name: str) -> np.ndarray:
    """Eigenvalues g, (ROWS,)."""
    rng = np.random.default_rng(5)
    marchenko = np.linalg.eigvalsh(np.cov(rng.standard_normal((ROWS, 900)), bias=True))
    return {
        "random inputs": marchenko,
        "condition 1e16": np.geomspace(1e-16, 1.0, ROWS),
        "power law": np.arange(1.0, ROWS + 1) ** -3,
        "two clusters": np.repeat([1e-9, 1.0], ROWS // 2) * (1 + 1e-3 * rng.random(ROWS)),
        "all equal": np.full(ROWS, 3.0),
        "one apart": np.append(np.linspace(1.0, 2.0, ROWS - 1), 1e8),
        "tiny units": 1e-8 * marchenko,
        "huge units": 1e8 * marchenko,
    }[name]


def targets_of(name: str, g: np.ndarray) -> np.ndarray:
    """Targets ỹ in the eigenbasis, (ROWS, 3)."""
    rng = np.random.default_rng(6)
    noise = rng.standard_normal((len(g), 3))
    teacher = np.sqrt(g / g.max())[:, None] * noise + 0.1 * rng.standard_normal((len(g), 3))
    return {
        "teacher": teacher,
        "without noise": np.sqrt(g / g.max())[:, None] * noise,
        "units 1e8 apart": teacher * [1e-8, 1.0, 1e8],
        "rank one": np.outer(noise[:, 0], [1.0, -2.0, 0.5]),
        "nearly rank one": np.outer(noise[:, 0], [1.0, -2.0, 0.5]) + 1e-9 * noise,
        "one output without targets": teacher * [1.0, 0.0, 1.0],
        "along few rows": np.where(np.arange(len(g))[:, None] % 200 == 0, noise, 0.0),
        "weak and strong rows apart": np.where(
            g[:, None] > np.median(g), noise * [1, 0, 0], noise * [0, 1, 1]
        ),
    }[name]


SPECTRA = (
    "random inputs", "condition 1e16", "power law", "two clusters", "all equal", "one apart", "tiny units",
    "huge units",
)  # fmt: skip
TARGETS = (
    "teacher", "without noise", "units 1e8 apart", "rank one", "nearly rank one", "along few rows",
    "one output without targets", "weak and strong rows apart",
)  # fmt: skip


def plain(g: np.ndarray, y: np.ndarray, noise: float) -> GaussianLikelihood:
    return GaussianLikelihood(g, y, 0.0, len(g), noise)


def scales_for(y: np.ndarray) -> np.ndarray:
    """Scales from tiny to huge, in units of the outputs; some with eigenvalues that are equal, or nearly."""
    units = np.sqrt((y**2).mean(axis=0) + 1e-30)
    turned = [
        size * units[:, None] * random_scale(3, seed) * units
        for seed, size in enumerate([1e-12, 1e-3, 1.0, 1e4])
    ]
    axes = np.linalg.qr(np.random.default_rng(7).standard_normal((3, 3))).Q
    near = [(axes * [1.0, 1.0 + gap, 2.0]) @ axes.T for gap in (0.0, 1e-15, 1e-9, 1e-4)]
    return np.array([*turned, *near, np.eye(3)])


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_few_rows_have_the_sums_of_all(spectrum: str, targets: str) -> None:
    """Value and gradient at every temperature, to rounding of the sums of all rows."""
    g = spectrum_of(spectrum)
    y = targets_of(targets, g)
    few = make_gauss_rule(g, y)
    assert few is not None
    assert len(few.nodes) < ROWS / 2
    assert (few.counts > 0).all()
    values, vectors = np.linalg.eigh(scales_for(y))
    values = np.maximum(values, 1e-30 * values[:, -1:])
    typical = float(np.median(g))
    for noise in (0.0, 1e-14 * typical, 1e-4 * typical, typical, 1e10 * typical):
        whole = plain(g, y, noise)
        got = replace(whole, gauss_rule=few)
        roots = np.sqrt(values)[:, None, :]
        expected, slope = whole.of_root.value_and_gradient(vectors * roots)
        variance = noise + g[:, None] * values[:, None, :]
        rotated = y @ vectors
        size = (np.abs(np.log(variance)) + rotated**2 / variance).sum(axis=(1, 2))
        blur = 50 * np.finfo(float).eps * (np.abs(y) @ np.abs(vectors))  # what rounding may do to ỹV itself
        size = 1e-12 * size + ((2 * np.abs(rotated) + blur) * blur / variance).sum(axis=(1, 2))
        found, few_slope = got.of_root.value_and_gradient(vectors * roots)
        assert (np.abs(found - expected) <= size).all()
        assert (np.abs(got.log_value(values, vectors) - whole.log_value(values, vectors)) <= size).all()
        # in the eigenbasis of each scale, relative to the root of the diagonals' product
        inner, other = (vectors.swapaxes(1, 2) @ each / (2 * roots) for each in (few_slope, slope))
        weighted, vague = (np.sqrt(g)[:, None] * each / variance for each in (rotated, blur))
        root = np.sqrt((weighted**2 + g[:, None] / variance).sum(axis=1))
        slack = np.sqrt((vague**2).sum(axis=1))
        allowed = 1e-11 * root[:, :, None] * root[:, None, :] + slack[:, :, None] * (root + slack)[:, None, :]
        allowed = allowed + 1e-14 * np.abs(slope).max(axis=(1, 2), keepdims=True)  # of the rotation back
        assert (np.abs(inner - other) <= allowed + allowed.swapaxes(1, 2)).all()


def test_gradient_is_the_derivative_of_the_value() -> None:
    """By divided differences, at scales whose eigenvalues are equal, nearly equal and far apart."""
    g = spectrum_of("random inputs")
    y = targets_of("teacher", g)
    likelihood = replace(plain(g, y, 0.1), gauss_rule=make_gauss_rule(g, y))
    rng = np.random.default_rng(8)
    for scale in scales_for(y)[2:]:
        direction = rng.standard_normal((3, 3))
        direction = (direction + direction.T) / 2
        step = 1e-6 * float(np.linalg.eigvalsh(scale)[0])
        sides = [
            likelihood.log_value(*np.linalg.eigh((scale + sign * step * direction)[None]))[0]
            for sign in (1, -1)
        ]
        root = np.linalg.cholesky(scale)  # with the change ½ D F⁻ᵀ of a root F the scale changes by D
        gradient = likelihood.of_root.value_and_gradient(root[None])[1][0]
        slope = 0.5 * float((gradient * np.linalg.solve(root, direction).T).sum())
        assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(
            slope, rel=1e-4, abs=1e-4 * np.abs(gradient).max()
        )


def test_other_units_of_the_same_data() -> None:
    """A Gram matrix that is larger, outputs in other units: the rule follows without being made again."""
    g = spectrum_of("random inputs")
    y, units = targets_of("teacher", g), np.array([0.1, 1.0, 10.0])
    few = make_gauss_rule(g, y)
    assert few is not None
    direct = make_gauss_rule(1e3 * g, y * units)
    assert direct is not None
    moved = few.scaled(1e3).in_units(units)
    values, vectors = np.linalg.eigh(scales_for(y * units))
    one, other = (
        replace(plain(1e3 * g, y * units, 0.3), gauss_rule=each).log_value(values, vectors)
        for each in (moved, direct)
    )
    np.testing.assert_allclose(one, other, rtol=1e-11)


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_few_rows_stay_as_they_are(rows: int) -> None:
    """There is nothing to condense."""
    assert make_gauss_rule(np.linspace(1.0, 2.0, rows), np.ones((rows, 2))) is None


# ---------------------------------------------------------------- what watches over it


def test_a_rule_that_is_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too few nodes the check fails and all rows are summed; without it, numbers would be wrong."""
    g = spectrum_of("condition 1e16")
    y = targets_of("teacher", g)
    values, vectors = np.linalg.eigh(scales_for(y))
    expected = plain(g, y, 1e-8).log_value(values, vectors)
    monkeypatch.setattr(rule, "nodes_for", lambda half: 3)
    assert make_gauss_rule(g, y) is None
    monkeypatch.setattr(rule, "accurate", lambda *_: True)
    wrong = replace(plain(g, y, 1e-8), gauss_rule=make_gauss_rule(g, y)).log_value(values, vectors)
    assert np.abs(wrong - expected).max() > 1e-6


@pytest.mark.parametrize("part", ["nodes", "counts", "eigenvalues", "targets"])
def test_the_check_sees_every_part(part: str) -> None:
    """A part in 1e9 off in one number of any part of the rule is found."""
    g = spectrum_of("random inputs")
    y = targets_of("teacher", g)
    few = make_gauss_rule(g, y)
    assert few is not None
    assert rule.accurate(few, g, y)
    array = getattr(few, part).copy()
    array[np.unravel_index(np.argmax(np.abs(array)), array.shape)] *= 1 + 1e-6
    assert not rule.accurate(replace(few, **{part: array}), g, y)


def test_posteriors_do_not_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers with one and with several outputs, with the rule and without."""
    rng = np.random.default_rng(9)
    X = rng.standard_normal((150, 200))
    Y = X @ rng.standard_normal((200, 2)) / math.sqrt(200) + 0.3 * rng.standard_normal((150, 2))
    noises = ({"beta": 10.0}, {"beta": [3.0, 30.0], "noise": "per_output"})

    def answers() -> list[float]:
        several = [lbnn.Network((20,)).condition(X, Y, **noise).log_evidence for noise in noises]
        one = [
            lbnn.Network((5, 5), (2.0, 1.0, 1.0)).condition(X, Y[:, 0], beta).log_evidence
            for beta in (1e-6, 10.0, 1e9, math.inf)
        ]
        return several + one

    assert Noise.independent(0.1).likelihood(lbnn.Spectrum.from_inputs(X, Y)).gauss_rule is not None
    with_rule = answers()
    monkeypatch.setattr("lbnn.data.spectrum.make_gauss_rule", lambda *_: None)
    assert Noise.independent(0.1).likelihood(lbnn.Spectrum.from_inputs(X, Y)).gauss_rule is None
    np.testing.assert_allclose(with_rule, answers(), rtol=1e-11)
