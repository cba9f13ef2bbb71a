"""Moment, cumulant and characteristic functions: values, derivatives, and where they exist."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from tests.helpers.dense_mixture import DenseMixture
from tests.helpers.problems import make_problem

DATA = make_problem(4, 9, seed=101, points=2)
J = np.array([0.4, -0.7])
DIRECTION = np.array([0.3, -0.5, 0.2, 0.6])


def unexplained(beta: float) -> np.ndarray:
    """R = G_x̂x̂ − G_x̂x G⁻¹ G_xx̂; data that count for nothing explain nothing."""
    if beta == 0:
        return DATA.test_gram
    return DATA.test_gram - DATA.cross.T @ np.linalg.solve(DATA.gram, DATA.cross)


# ---------------------------------------------------------------- derivatives at the origin


@pytest.mark.parametrize("beta", [0.5, 100.0, math.inf])
@pytest.mark.parametrize("widths", [(), (4,), (3, 5)], ids=str)
def test_derivatives_of_the_cumulant_function(widths: tuple[int, ...], beta: float) -> None:
    """At J = 0, at the training points: log Z = 0, its gradient is the mean, its Hessian the covariance."""
    pred, h = lbnn.Network(widths).condition(DATA.X, DATA.Y, beta).predict(), 1e-3
    assert pred.cgf(np.zeros(4)) == pytest.approx(0.0, abs=1e-13)
    up, down = pred.cgf(h * DIRECTION), pred.cgf(-h * DIRECTION)
    assert (up - down) / (2 * h) == pytest.approx(DIRECTION @ pred.mean, rel=1e-5)
    variance = DIRECTION @ pred.covariance @ DIRECTION
    assert (up + down) / h**2 == pytest.approx(variance, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("beta", [0.0, 0.5, 100.0, math.inf])
@pytest.mark.parametrize("widths", [(), (4,), (3, 5), (1, 1, 1)], ids=str)
def test_derivatives_of_the_characteristic_function(widths: tuple[int, ...], beta: float) -> None:
    """At J = 0, at new points and any depth: log φ(hJ) = i h Jᵀmean − ½ h² Jᵀ cov J + …"""
    pred, h = lbnn.Network(widths).condition(DATA.X, DATA.Y, beta).predict(DATA.X_test), 1e-3
    assert pred.characteristic(np.zeros(2)) == pytest.approx(1.0, abs=1e-13)
    value = np.log(pred.characteristic(h * J))
    assert value.imag / h == pytest.approx(J @ pred.mean, rel=1e-4, abs=1e-12)
    assert -2 * value.real / h**2 == pytest.approx(J @ pred.covariance @ J, rel=1e-4)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("size", [0.5, 10.0, 300.0])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1e4, math.inf])
@pytest.mark.parametrize("widths", [(4,), (3, 5), (1, 2, 1)], ids=str)
def test_characteristic_function(widths: tuple[int, ...], beta: float, size: float) -> None:
    """E exp(i JᵀF) by brute force; at large |J| it is tiny and lives where λ is small."""
    network = lbnn.Network(widths)
    pred = network.condition(DATA.X, DATA.Y, beta).predict(DATA.X_test)
    expected = DenseMixture(network, DATA, beta).characteristic(size * J)
    assert pred.characteristic(size * J) == pytest.approx(expected, rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("size", [0.1, 0.9])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1e4, math.inf])
def test_generating_function_inside_its_domain(beta: float, size: float) -> None:
    """Depth two: log E exp(JᵀF) by brute force, at a fraction of the way to the boundary."""
    network = lbnn.Network((5,), (0.8, 1.7))
    pred = network.condition(DATA.X, DATA.Y, beta).predict(DATA.X_test)
    source = size * J * math.sqrt(5 / (0.8 * 1.7 * J @ unexplained(beta) @ J))
    expected = DenseMixture(network, DATA, beta).log_generating_function(source)
    assert pred.cgf(source) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert pred.mgf(source) == pytest.approx(math.exp(expected), rel=1e-8)


def test_generating_function_of_the_prior_at_depth_two() -> None:
    """E exp(JᵀF) = (1 − σ² JᵀGJ/n)^{−n/2}, up to the boundary."""
    n, variances = 5, (0.8, 1.7)
    pred = lbnn.Network((n,), variances).prior(DATA.X_test)
    for fraction in (0.1, 0.9, 0.999, 1 - 1e-6):
        source = J * math.sqrt(fraction * n / (0.8 * 1.7 * J @ DATA.test_gram @ J))
        # 1 − fraction is known to eps/(1 − fraction)
        expected = -n / 2 * math.log1p(-fraction)
        assert pred.cgf(source) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("beta", [0.5, 100.0, math.inf])
@pytest.mark.parametrize("widths", [(), (4,)], ids=str)
def test_noise_multiplies_the_generating_functions(widths: tuple[int, ...], beta: float) -> None:
    """With noise: log Z + |J|²/2β and φ · exp(−|J|²/2β)."""
    pred = lbnn.Network(widths).condition(DATA.X, DATA.Y, beta).predict(DATA.X_test)
    blur = 0.5 * float(J @ J) / beta
    assert pred.with_noise().cgf(J) == pytest.approx(pred.cgf(J) + blur, rel=1e-12)
    expected = pred.characteristic(J) * math.exp(-blur)
    assert pred.with_noise().characteristic(J) == pytest.approx(expected, rel=1e-12)


def test_generating_function_beyond_the_largest_double() -> None:
    """Zero temperature at training points: log Z = Jᵀy; Z overflows to inf, its log does not."""
    pred = lbnn.Network((3, 5)).condition(DATA.X, DATA.Y, math.inf).predict()
    source = 2000 * DATA.Y / (DATA.Y @ DATA.Y)
    assert pred.cgf(source) == pytest.approx(2000.0, rel=1e-12)
    assert pred.mgf(source) == math.inf
    assert pred.mgf(-source) == 0.0


# ---------------------------------------------------------------- domain


@pytest.mark.parametrize("variances", [(1.0, 1.0), (0.8, 1.7)])
@pytest.mark.parametrize("beta", [0.0, 0.5, math.inf])
@pytest.mark.parametrize("n_1", [2, 9])
def test_domain_at_depth_two(n_1: int, beta: float, variances: tuple[float, float]) -> None:
    """Finite for σ_1² σ_2² JᵀRJ < n_1, inf from there on; R is what the training inputs do not explain."""
    pred = lbnn.Network((n_1,), variances).condition(DATA.X, DATA.Y, beta).predict(DATA.X_test)
    edge = J * math.sqrt(n_1 / (math.prod(variances) * J @ unexplained(beta) @ J))
    assert math.isfinite(pred.cgf(0.999 * edge))
    assert pred.cgf(1.001 * edge) == math.inf
    assert pred.mgf(1.001 * edge) == math.inf


@pytest.mark.parametrize("widths", [(3, 5), (50, 50), (2, 2, 2)], ids=str)
@pytest.mark.parametrize("beta", [0.5, math.inf])
def test_domain_of_deeper_networks(widths: tuple[int, ...], beta: float) -> None:
    """inf at every new point for J ≠ 0, however small; finite at training points and at J = 0."""
    post = lbnn.Network(widths).condition(DATA.X, DATA.Y, beta)
    pred = post.predict(DATA.X_test)
    assert pred.cgf(1e-3 * J) == math.inf
    assert pred.mgf(1e-3 * J) == math.inf
    assert pred.mgf(np.zeros(2)) == pytest.approx(1.0, rel=1e-12)
    assert math.isfinite(post.predict().cgf(3 * DIRECTION))
    assert math.isfinite(post.predict(DATA.X).cgf(3 * DIRECTION))
    assert abs(pred.characteristic(1e-3 * J)) < 1


@pytest.mark.parametrize("beta", [0.5, math.inf])
def test_domain_follows_what_the_source_sees(beta: float) -> None:
    """Depth three: a difference of new points that the training inputs explain has all its moments."""
    post = lbnn.Network((3, 5)).condition(DATA.X, DATA.Y, beta)
    fresh = DATA.X_test[0]
    same = post.predict(np.stack([fresh, fresh]))
    assert same.mgf([1.0, -1.0]) == pytest.approx(1.0, rel=1e-9)
    shifted = post.predict(np.stack([fresh + DATA.X[0], fresh]))
    expected = post.predict(DATA.X[:1]).mgf([1.0])
    assert shifted.mgf([1.0, -1.0]) == pytest.approx(expected, rel=1e-9)
    assert shifted.mgf([1.0, 1.0]) == math.inf


@pytest.mark.parametrize("widths", [(4,), (3, 5)], ids=str)
def test_domain_of_the_gram_route(widths: tuple[int, ...]) -> None:
    """The same rule where R is a difference of matrices."""
    post = lbnn.Network(widths).condition_gram(DATA.gram, DATA.Y, 2.0)
    pred = post.predict(cross_gram=DATA.cross.T, test_gram=DATA.test_gram)
    edge = J * math.sqrt(widths[0] / (J @ unexplained(2.0) @ J))
    assert math.isfinite(pred.cgf(0.999 * edge)) == (len(widths) == 1)
    assert pred.cgf(1.001 * edge) == math.inf
    known = post.predict(cross_gram=DATA.gram[:1], test_gram=DATA.gram[:1, :1])
    assert known.mgf([1.0]) == pytest.approx(post.predict().mgf([1.0, 0.0, 0.0, 0.0]), rel=1e-9)
    assert math.isfinite(known.mgf([1.0]))


def test_depth_one_is_gaussian_everywhere() -> None:
    """log Z = Jᵀmean + ½ Jᵀ cov J for every J, also with several outputs."""
    data = make_problem(4, 9, 3, seed=102, points=2)
    pred = lbnn.Network(()).condition(data.X, data.Y, 2.0).predict(data.X_test)
    source = 10 * np.array([[0.3, -0.2, 0.5], [0.1, 0.4, -0.6]])
    quadratic = np.einsum("mj,mjnk,nk->", source, pred.covariance, source)
    linear = np.sum(pred.mean * source)
    assert pred.cgf(source) == pytest.approx(linear + 0.5 * quadratic, rel=1e-11)
    expected = np.exp(0.1j * linear - 0.5 * 0.01 * quadratic)
    assert pred.characteristic(0.1 * source) == pytest.approx(expected, rel=1e-10)
