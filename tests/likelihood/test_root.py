"""Likelihoods as functions of a root of the scale, against the densities of all rows in 60 digits."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from lbnn._base.gauss_rule import make_gauss_rule
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.hidden_kernel import dual

DRAWS = 3
REGULAR = 1e-10  # relative, of values and of gradients in units of their largest entry


def exact(strengths, targets, noise, root, units=None, multiplicity=1.0, zeros=0):
    """Σ_i log N(ỹ_i; 0, τ + g_i D F Fᵀ D) + ½ p log det C without 2π, and its gradient in F (n, k)."""
    with mpmath.workdps(60):
        n, k = root.shape
        stretch = np.ones(n) if units is None else units
        rows_of = zip(stretch.tolist(), root.tolist(), strict=True)
        seen = mpmath.matrix([[mpmath.mpf(d) * mpmath.mpf(f) for f in row] for d, row in rows_of])
        value, slope = mpmath.mpf(0), mpmath.zeros(n, k)
        for strength, row in zip(strengths.tolist(), targets.tolist(), strict=True):
            covariance = mpmath.mpf(strength) * seen * seen.T + mpmath.mpf(noise) * mpmath.eye(n)
            inverse = covariance**-1
            alpha = inverse * mpmath.matrix(row)
            square = (mpmath.matrix(row).T * alpha)[0]
            value -= (multiplicity * mpmath.log(mpmath.det(covariance)) + square) / 2
            slope += mpmath.mpf(strength) * (alpha * (alpha.T * seen) - multiplicity * (inverse * seen))
        if zeros:
            block = seen[:zeros, :] * seen[:zeros, :].T
            value += len(targets) * mpmath.log(mpmath.det(block)) / 2
            change = len(targets) * (block**-1 * seen[:zeros, :])
            for i in range(zeros):
                for j in range(k):
                    slope[i, j] += change[i, j]
        return float(value), stretch[:, None] * np.array(slope.tolist(), float)


def of(likelihood: GaussianLikelihood, root: np.ndarray) -> tuple[float, np.ndarray]:
    own = likelihood
    return exact(
        own.eigenvalues, own.targets, own.noise_variance, root, own.units, own.multiplicity, own.zeros
    )


def rows(rng, count, outputs, noise, **more):
    g = np.sort(np.exp(rng.standard_normal(count)))[::-1]
    return GaussianLikelihood(
        g, rng.standard_normal((count, outputs)) * (1 + np.sqrt(g))[:, None], 0.0, count, noise, **more
    )


def condensed(rng):
    g, y = np.sort(rng.uniform(1, 3, size=120))[::-1], rng.standard_normal((120, 2))
    rule = make_gauss_rule(g, y)
    assert rule is not None
    return GaussianLikelihood(g, y, 0.0, 120, 0.5, gauss_rule=rule)


def deficient(rng):
    own = rows(rng, 7, 4, 0.0)
    return replace(own, targets=own.targets * [0, 0, 1, 1], zeros=2)


UNITS = np.array([0.3, 2.0, 1.0, 0.7])
#: A likelihood, outputs and columns of roots.
PROBLEMS = {
    "independent": (lambda rng: rows(rng, 9, 4, 0.3), 4, 4),
    "one output": (lambda rng: rows(rng, 9, 1, 0.3), 1, 1),
    "fewer rows than outputs": (lambda rng: rows(rng, 2, 4, 0.3), 4, 4),
    "per output": (lambda rng: rows(rng, 9, 4, 1.0, units=UNITS), 4, 4),
    "rows that stand for many": (lambda rng: rows(rng, 5, 3, 0.3, multiplicity=2.5), 3, 3),
    "a few rows for all": (condensed, 2, 2),
    "narrow": (lambda rng: rows(rng, 9, 5, 0.3), 5, 2),
    "narrow, fewer rows": (lambda rng: rows(rng, 2, 5, 0.3), 5, 3),
    "narrow, per output": (lambda rng: rows(rng, 9, 4, 1.0, units=UNITS), 4, 2),
    "narrow, a few rows for all": (condensed, 2, 1),
    "without noise": (lambda rng: rows(rng, 7, 4, 0.0), 4, 4),
    "without noise, more columns": (lambda rng: rows(rng, 7, 4, 0.0), 4, 6),
    "without noise, in units": (lambda rng: rows(rng, 7, 4, 0.0, units=UNITS), 4, 4),
    "coupled": (lambda rng: rows(rng, 3, 3, 0.0, multiplicity=4.5), 3, 3),
    "targets of deficient rank": (deficient, 4, 4),
    "hidden kernel": (lambda rng: dual(rows(rng, 4, 9, 0.3)), 4, 4),
    "hidden kernel, narrow": (lambda rng: dual(rows(rng, 4, 9, 0.3)), 4, 2),
    "hidden kernel, fewer outputs": (lambda rng: dual(rows(rng, 4, 2, 0.3)), 4, 4),
    "hidden kernel without noise": (lambda rng: dual(rows(rng, 4, 9, 0.0)), 4, 4),
}


def lower(rng, rows, columns):
    """Lower trapezoidal T, (DRAWS, rows, columns)."""
    total = np.tril(rng.standard_normal((DRAWS, rows, columns)))
    index = np.arange(min(rows, columns))
    total[:, index, index] = np.abs(total[:, index, index]) + 0.3
    return total


def expected(likelihood, roots):
    """Values and gradients in F in 60 digits."""
    both = [of(likelihood, each) for each in roots]
    return np.array([value for value, _ in both]), np.stack([slope for _, slope in both])


def errors(found, wanted):
    """Relative: of values, and of gradients in units of the largest entry of each."""
    value = np.abs(found[0] - wanted[0]) / (1 + np.abs(wanted[0]))
    slope = np.abs(found[1] - wanted[1]).max((1, 2)) / np.abs(wanted[1]).max((1, 2))
    return float(value.max()), float(slope.max())


@pytest.mark.parametrize("frames", ["none", "one", "each"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_value_and_gradient(name, frames):
    """In the axes of the outputs, in another frame, and in a frame for each draw."""
    make, outputs, columns = PROBLEMS[name]
    rng = np.random.default_rng([outputs, columns, len(name)])
    likelihood, total = make(rng), lower(rng, outputs, columns)
    turns = np.linalg.qr(rng.standard_normal((DRAWS, outputs, outputs))).Q
    frame = {"none": np.eye(outputs), "one": turns[0], "each": turns}[frames]
    if name == "targets of deficient rank":  # zero targets come first in the frame
        likelihood = replace(likelihood, targets=likelihood.targets @ turns[0].T)
        frame = turns[0]
        wanted = expected(replace(likelihood, targets=likelihood.targets @ frame), total)
    else:
        value, slope = expected(likelihood, frame @ total)
        wanted = value, np.swapaxes(frame, -1, -2) @ slope
    own = likelihood.in_frame(frame)
    found = own.value_and_gradient(total)
    if columns == outputs:  # the lower triangle is what factors have
        found, wanted = ((each[0], np.tril(each[1])) for each in (found, wanted))
    assert max(errors(found, wanted)) < REGULAR
    np.testing.assert_allclose(own.log_value(total), found[0], rtol=1e-13)


@pytest.mark.parametrize("name", ["independent", "per output", "without noise", "hidden kernel"])
def test_scales_by_eigenvalues_and_eigenvectors(name):
    make, outputs, _ = PROBLEMS[name]
    rng = np.random.default_rng(3)
    likelihood, root = make(rng), rng.standard_normal((DRAWS, outputs, outputs))
    found = likelihood.log_value(*np.linalg.eigh(root @ root.swapaxes(1, 2)))
    np.testing.assert_allclose(found, expected(likelihood, root)[0], rtol=REGULAR)


def test_any_root_of_a_scale_has_the_same_value_and_gradient():
    """F Q for F, Q orthogonal: no form of F is preferred."""
    rng = np.random.default_rng(5)
    for noise in (0.3, 0.0):
        own = rows(rng, 7, 4, noise).of_root
        root, turn = lower(rng, 4, 4), np.linalg.qr(rng.standard_normal((4, 4))).Q
        value, slope = own.value_and_gradient(root @ turn)
        dense = own.value_and_gradient(root @ np.diag([1.0, -1.0, 1.0, 1.0]) @ turn)[0]
        np.testing.assert_allclose(dense, value, rtol=1e-12)
        np.testing.assert_allclose(value, own.log_value(root), rtol=1e-12)
        step = 1e-6 * rng.standard_normal(root.shape)
        change = own.log_value(root @ turn + step) - own.log_value(root @ turn - step)
        np.testing.assert_allclose(change, 2 * (slope * step).sum((1, 2)), rtol=1e-6)


def test_many_draws_are_those_one_by_one():
    """Blocks, and draws of which some need singular values, change nothing."""
    rng = np.random.default_rng(7)
    for own in (rows(rng, 9, 4, 1e-4).of_root, rows(rng, 9, 4, 0.0).of_root):
        root = lower(rng, 4, 4)[rng.integers(DRAWS, size=3000)]
        root = root * 10.0 ** rng.uniform(-4, 4, size=(3000, 1, 1))
        value, slope = own.value_and_gradient(root)
        for k in range(0, 3000, 501):
            one, its_slope = own.value_and_gradient(root[k : k + 1])
            np.testing.assert_allclose(value[k], one[0], rtol=1e-12)
            np.testing.assert_allclose(
                slope[k], its_slope[0], rtol=1e-10, atol=1e-12 * np.abs(slope[k]).max()
            )


def test_data_that_say_nothing():
    for own in (rows(np.random.default_rng(0), 3, 2, np.inf), rows(np.random.default_rng(0), 0, 2, 1.0)):
        for columns in (2, 1):
            value, slope = own.in_frame(np.eye(2)).value_and_gradient(np.ones((3, 2, columns)))
            assert not value.any()
            assert not slope.any()


def test_a_narrow_layer_without_noise_is_refused():
    with pytest.raises(ValueError, match="no layer is narrower than the outputs"):
        rows(np.random.default_rng(0), 5, 3, 0.0).of_root.log_value(np.ones((1, 3, 2)))


# ---------------------------------------------------------------- digits where directions differ in size


def graded(rng, kind, n, k):
    """A root (n, k) over six decades."""
    root, sizes, index = np.tril(rng.standard_normal((n, k))), 10.0 ** -np.linspace(0, 6, n), np.arange(k)
    root[index, index] = np.abs(root[index, index]) + 0.3
    turns = (np.linalg.qr(rng.standard_normal((size, size))).Q for size in (n, k))
    return {
        "rows that fall": sizes[:, None] * root,
        "rows that rise": sizes[::-1, None] * root,
        "columns that fall": root * sizes[:k],
        "any directions": next(turns) @ np.diag(sizes)[:, :k] @ next(turns),
    }[kind]


#: Errors of value and gradient, ten to a thousand times the largest of 20 problems of each kind.
DIGITS = {
    ("rows that fall", 1e-8): (1e-12, 1e-12),
    ("rows that rise", 1e-8): (1e-12, 1e-12),
    ("columns that fall", 1e-8): (1e-8, 1e-7),
    ("any directions", 1e-8): (1e-9, 1e-10),
    ("rows that fall", 1e-14): (1e-12, 1e-11),
    ("rows that rise", 1e-14): (1e-12, 1e-11),
    ("any directions", 1e-14): (1e-6, 1e-8),
    ("rows that fall", 0.0): (1e-13, 1e-13),
    ("rows that rise", 0.0): (1e-13, 1e-13),
    ("columns that fall", 0.0): (1e-8, 1e-6),
}


@pytest.mark.parametrize(("kind", "noise"), DIGITS)
def test_digits(kind, noise):
    """Targets that the scale itself could have made."""
    rng, n, worst = np.random.default_rng(2), 4, np.zeros(2)
    for _ in range(5):
        root, g = graded(rng, kind, n, n), np.exp(rng.standard_normal(8))
        seen = np.sqrt(g)[:, None] * (rng.standard_normal((8, n)) @ root.T)
        targets = seen + np.sqrt(noise) * rng.standard_normal((8, n))
        likelihood = GaussianLikelihood(g, targets, 0.0, 8, noise)
        found = likelihood.of_root.value_and_gradient(root[None])
        both = [(value, np.tril(slope)) for value, slope in (found, expected(likelihood, root[None]))]
        worst = np.maximum(worst, errors(*both))
    assert (worst <= DIGITS[kind, noise]).all()


def test_directions_far_below_rounding_of_the_scale():
    """T = diag(1, 1e-12): L has an eigenvalue below its rounding; log det and trace are known exactly."""
    likelihood = GaussianLikelihood(np.ones(2), np.diag([1.0, 1e-12]), 0.0, 2, 0.0)
    value = likelihood.of_root.log_value(np.diag([1.0, 1e-12])[None])[0]
    assert value == pytest.approx(2 * 12 * np.log(10) - 1.0, rel=1e-14)


@pytest.mark.parametrize(("noise", "largest"), [(1e-2, 1e-12), (1e-8, 1e-9), (1e-12, 1e-5)])
def test_narrow_roots_keep_the_value_at_little_noise(noise, largest):
    """Outside of a narrow root the targets are a difference, which is taken before it is squared."""
    rng = np.random.default_rng(4)
    root, g = rng.standard_normal((1, 5, 2)), np.exp(rng.standard_normal(8))
    seen = np.sqrt(g)[:, None] * (rng.standard_normal((8, 2)) @ root[0].T)
    likelihood = GaussianLikelihood(g, seen + np.sqrt(noise) * rng.standard_normal((8, 5)), 0.0, 8, noise)
    found = errors(likelihood.of_root.value_and_gradient(root), expected(likelihood, root))
    assert max(found) < largest


# ---------------------------------------------------------------- slopes along the targets


@pytest.mark.parametrize("name", ["independent", "per output", "narrow", "hidden kernel, narrow"])
@pytest.mark.parametrize("axis", [1, 2])
def test_slopes_along_targets(name, axis):
    """The value where one output, or one row, is 1 ± ε times as large."""
    make, outputs, columns = PROBLEMS[name]
    rng = np.random.default_rng(6)
    own, root = make(rng).of_root, rng.standard_normal((DRAWS, outputs, columns))
    found = own.target_slopes(root, axis)
    for k in range(found.shape[1]):
        units = np.ones(own.targets.shape)
        units[(slice(None), k) if axis == 1 else k] += 1e-5
        ahead, behind = (
            replace(own, targets=own.targets * each).log_value(root) for each in (units, 2 - units)
        )
        np.testing.assert_allclose(found[:, k], (ahead - behind) / 2e-5, rtol=1e-6, atol=1e-7)


def test_slopes_along_targets_without_noise():
    rng = np.random.default_rng(6)
    own, root = rows(rng, 7, 4, 0.0).of_root, rng.standard_normal((DRAWS, 4, 4))
    found = own.target_slopes(root)
    for k in range(4):
        units = np.ones(4)
        units[k] += 1e-5
        ahead, behind = (replace(own, root=own.root * each).log_value(root) for each in (units, 2 - units))
        np.testing.assert_allclose(found[:, k], (ahead - behind) / 2e-5, rtol=1e-6)
