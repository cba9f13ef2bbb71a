"""Limit theories of the scale: their defining equations, brute-force saddle points, and the exact answer."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import linalg, optimize, stats

import lbnn
from lbnn import asymptotics
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.hidden_kernel import dual
from lbnn.theories.limits import saddle
from lbnn.theories.limits.kernel_saddle import _change_along_axes
from lbnn.theories.limits.regimes import as_setting
from lbnn.theories.limits.saddle import LogScaleObjective
from lbnn.theories.limits.wide_prior import WidePrior
from tests.helpers.problems import Problem, make_problem, random_rotation

Array = NDArray[np.float64]

DATA = make_problem(6, 9, 2, seed=501, signal=1.6)
RATIOS = (0.1, 1.0, 1.07, 3.0, 15.0)  # α = p/n_1
ratios = pytest.mark.parametrize("alpha", RATIOS)


def with_square(square: Array, examples: int) -> tuple[Array, Array]:
    """Inputs and targets with G_xx = I and Yᵀ G⁻¹ Y = square, for p = examples."""
    axes = random_rotation(examples, seed=7)[:, : len(square)]
    return math.sqrt(examples) * np.eye(examples), axes @ linalg.cholesky(square)


def random_square(outputs: int, condition: float, size: float, seed: int) -> Array:
    axes = random_rotation(outputs, seed)
    return size * (axes * np.geomspace(1 / condition, 1, outputs)) @ axes.T


def proportional_problem(alpha: float, condition: float = 10.0) -> tuple[lbnn.Network, Array, Array, Array]:
    """Network, X, Y and S at this ratio of examples to units."""
    width = 10 if alpha > 1.07 else 100
    examples = round(alpha * width)
    square = random_square(3, condition, 2.0 * examples, seed=502)
    return lbnn.Network((width,)), *with_square(square, examples), square


def relative(value: Any, exact: Any) -> float:
    return float(np.linalg.norm(np.asarray(value) - exact) / np.linalg.norm(exact))


# ---------------------------------------------------------------------- the Riccati equation (eqn:39)


@ratios
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e10])
def test_riccati_residual(alpha: float, condition: float) -> None:
    """L² − (1 − α)L − S/n_1 = 0, and L is positive definite, symmetric and commutes with S."""
    net, X, Y, square = proportional_problem(alpha, condition)
    scale = asymptotics.proportional(net, X, Y).scale.mean
    alpha, width = len(X) / net.widths[0], net.widths[0]
    residual = scale @ scale - square / width - (1 - alpha) * scale
    assert np.abs(residual).max() < 1e-12 * np.abs(scale @ scale).max()
    np.testing.assert_allclose(scale, scale.T, rtol=0, atol=1e-15 * np.abs(scale).max())
    np.testing.assert_allclose(scale @ square, square @ scale, rtol=0, atol=1e-13 * np.abs(square).max())
    assert np.linalg.eigvalsh(scale)[0] > 0
    if condition == 1.0:  # as printed, with inverses, which magnify rounding by the condition number
        inverse = np.linalg.inv(scale)
        printed = np.eye(3) - inverse @ (square / width) @ inverse - (1 - alpha) * inverse
        assert np.abs(printed).max() < 1e-12 * max(1.0, np.abs(inverse).max() ** 2)


@pytest.mark.parametrize("squares", [(1e-8, 1.0, 1e8), (0.0, 2.0, 50.0)])
def test_roots_to_rounding_however_small(squares: tuple[float, ...]) -> None:
    """The positive root of l² − (1 − α) v l − s v/n = 0, in its stable form."""
    width, variance, count = 40, 1.7, 60 if squares[0] else 25
    s = np.array(squares)
    half = 0.5 * (1 - count / width) * variance
    root = np.sqrt(half**2 + s * variance / width)
    expected = half + root if half > 0 else s * variance / width / (root - half)
    np.testing.assert_allclose(WidePrior((width,), variance).stationary(s, count), expected, rtol=1e-13)


@ratios
def test_kernel_is_that_of_its_scale(alpha: float) -> None:
    """⟨K⟩ = (1 − γ) G + Y L⁻¹ Yᵀ / n_1 by dense algebra, with a Gram matrix that is not diagonal."""
    net = lbnn.Network((10,))
    data = make_problem(round(alpha * 10), 2 * round(alpha * 10), 3, seed=503)
    theory = asymptotics.proportional(net, data.X, data.Y)
    expected = 0.7 * data.gram + data.Y @ np.linalg.solve(theory.scale.mean, data.Y.T) / 10
    np.testing.assert_allclose(theory.kernel, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("alpha", [0.1, 0.6, 0.95])
def test_matrix_function_form(alpha: float) -> None:
    """½G[(1 + α − 2γ)I + ((1 − α)²I + 4γG⁻¹G_yy)^{1/2}], by SciPy's matrix square root, for α < 1."""
    width = 20
    data = make_problem(round(alpha * width), 3 * width, 3, seed=504)
    identity = np.eye(len(data.X))
    inner = (1 - alpha) ** 2 * identity + 4 * np.linalg.solve(data.gram, data.Y @ data.Y.T) / width
    expected = 0.5 * data.gram @ ((1 + alpha - 6 / width) * identity + linalg.sqrtm(inner).real)
    theory = asymptotics.proportional(lbnn.Network((width,)), data.X, data.Y)
    np.testing.assert_allclose(theory.kernel, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@ratios
def test_as_printed(alpha: float) -> None:
    """Printed less derived is γG for α ≤ 1; above, also (α − 1) G on the directions that carry no targets."""
    width = 20
    data = make_problem(round(alpha * width), 3 * round(alpha * width), 3, seed=505)
    net = lbnn.Network((width,))
    printed = asymptotics.proportional(net, data.X, data.Y, as_printed=True)
    derived = asymptotics.proportional(net, data.X, data.Y)
    values, vectors = np.linalg.eigh(data.gram)
    root = (vectors * np.sqrt(values)) @ vectors.T
    seen = np.linalg.svd(np.linalg.solve(root, data.Y), full_matrices=False)[0]
    empty = root @ (np.eye(len(root)) - seen @ seen.T) @ root
    expected = 3 / width * data.gram + max(len(data.X) / width - 1, 0) * empty
    tolerance = 1e-11 * printed.kernel.max()
    np.testing.assert_allclose(printed.kernel - derived.kernel, expected, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(printed.scale.mean, derived.scale.mean)
    assert printed.log_evidence == derived.log_evidence
    points = np.concatenate([data.X, data.X_test])
    at_points = printed.feature_kernel(points) - derived.feature_kernel(points)
    np.testing.assert_allclose(at_points[: len(data.X), : len(data.X)], expected, rtol=0, atol=tolerance)


def test_expansion_in_gamma() -> None:
    """(1 − γ)G + γ/(1 − α) G_yy, and what the saddle point adds is of second order in γG_yy."""
    data, net = make_problem(6, 20, 2, seed=506), lbnn.Network((15,))

    def gap(size: float) -> float:
        Y = size * data.Y
        first = asymptotics.proportional_expansion(net, data.X, Y)
        expected = (1 - 2 / 15) * data.gram + (Y @ Y.T / 15) / (1 - 6 / 15)
        np.testing.assert_allclose(first.kernel, expected, rtol=1e-11, atol=1e-13)
        return float(np.linalg.norm(asymptotics.proportional(net, data.X, Y).kernel - first.kernel))

    assert gap(0.02) / gap(0.01) == pytest.approx(16, rel=0.01)


def test_expansion_in_deep_networks() -> None:
    """L = v Π (1 − p/n_ℓ) is the saddle point of vanishing targets."""
    net = lbnn.Network((30, 20, 25), (1.3, 0.7, 1.9, 1.1))
    first = asymptotics.proportional_expansion(net, DATA.X, DATA.Y)
    saddle = asymptotics.proportional(net, DATA.X, 1e-6 * DATA.Y)
    expected = 0.7 * 1.9 * 1.1 * (1 - 6 / 30) * (1 - 6 / 20) * (1 - 6 / 25) * np.eye(2)
    np.testing.assert_allclose(first.scale.mean, expected, rtol=1e-14)
    np.testing.assert_allclose(saddle.scale.mean, expected, rtol=1e-8, atol=1e-10)
    for layer in (1, 2, 3):
        small = asymptotics.proportional_expansion(net, DATA.X, 1e-6 * DATA.Y).feature_kernel(layer=layer)
        np.testing.assert_allclose(saddle.feature_kernel(layer=layer), small, rtol=1e-8, atol=1e-10)


# ---------------------------------------------------------------------- the prior at leading order


WIDE = [
    WidePrior((30,), 1.0),
    WidePrior((20, 35), 1.4),
    WidePrior((12, 50, 31), 0.3),
    WidePrior((9,) * 6, 2.0),
]
VALUES = np.array([1e-4, 0.3, 1.0, 1.4, 7.0, 60.0])
wide_priors = pytest.mark.parametrize("prior", WIDE, ids=lambda prior: str(prior.widths))


@wide_priors
def test_rate_is_a_constrained_maximum(prior: WidePrior) -> None:
    """ψ(l) = max Σ (n_ℓ/2)(log c_ℓ − c_ℓ + 1) over factors with v Π c_ℓ = l, by a general optimiser."""
    widths = np.array(prior.widths, float)

    def cost(free: Array, log_product: float) -> float:
        logs = np.append(free, log_product - free.sum())
        return -0.5 * float((widths * (logs - np.exp(logs) + 1)).sum())

    for value, rate in zip(VALUES, prior.rate(VALUES), strict=True):
        log_product = math.log(value / prior.variance)
        start = np.full(len(widths) - 1, log_product / len(widths)) + 0.1
        best = (
            optimize.minimize(cost, start, (log_product,), method="BFGS", tol=1e-9).fun
            if len(start)
            else cost(start, log_product)
        )
        assert rate == pytest.approx(-best, rel=1e-8, abs=1e-8)
    assert prior.rate(np.array([prior.variance]))[0] == 0


@wide_priors
def test_layer_values_and_slope(prior: WidePrior) -> None:
    """The c_ℓ multiply to l/v, n_ℓ(1 − c_ℓ) is the same in every layer, and dψ/d log l is half of it."""
    layers = prior.layer_values(VALUES)
    np.testing.assert_allclose(prior.variance * layers.prod(axis=1), VALUES, rtol=1e-12)
    tensions = np.array(prior.widths) * (1 - layers)
    slope = prior.log_slope(VALUES)
    np.testing.assert_allclose(tensions, np.repeat(2 * slope[:, None], len(prior.widths), axis=1), atol=1e-10)
    step = 1e-4
    difference = prior.rate(VALUES * math.exp(step)) - prior.rate(VALUES * math.exp(-step))
    np.testing.assert_allclose(slope, difference / (2 * step), rtol=1e-6, atol=1e-6)


def test_rate_is_the_leading_order_of_the_prior() -> None:
    """(1/n) log density of log λ tends to ψ/n: differences between two scales, at growing widths."""
    gaps = []
    for n in (100, 1000):
        widths = (n, 2 * n)
        exact = lbnn.Network(widths).scale_prior(1)
        x = np.log([0.6, 1.5])
        log_density = np.asarray(exact.log_scale_law.log_density(x))
        rate = WidePrior(widths, 1.0).rate(np.exp(x))
        gaps.append(abs(np.diff(log_density)[0] - np.diff(rate)[0]) / n)
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.1)
    assert gaps[1] < 1e-3


# ---------------------------------------------------------------------- saddle points by brute force


def dense_log_density(data: Problem, scale: Array, variance: float, beta: float) -> float:
    """log N(vec Y; 0, σ_1² G ⊗ L + I/β)."""
    noise = 0.0 if math.isinf(beta) else 1 / beta
    covariance = np.kron(variance * data.gram, scale) + noise * np.eye(data.Y.size)
    return float(stats.multivariate_normal.logpdf(data.Y.ravel(), np.zeros(data.Y.size), covariance))


def brute_force(net: lbnn.Network, data: Problem, beta: float) -> tuple[float, list[Array]]:
    """Maximum over full factor matrices T_2..T_d of Σ (n_ℓ/2)(log det C_ℓ − tr C_ℓ + n_d) + log p(Y | L)."""
    outputs, layers = data.columns.shape[1], len(net.widths)
    first, *others = net.prior_variances

    def objective(flat: Array) -> float:
        factors = flat.reshape(layers, outputs, outputs)
        total = np.eye(outputs)
        value = 0.0
        for width, variance, factor in zip(net.widths, others, factors, strict=True):
            square = factor @ factor.T
            value += 0.5 * width * (np.linalg.slogdet(square)[1] - np.trace(square) + outputs)
            total = math.sqrt(variance) * factor @ total
        return -value - dense_log_density(data, total @ total.T, first, beta)

    rng = np.random.default_rng(508)
    start = (np.eye(outputs) + 0.4 * rng.standard_normal((layers, outputs, outputs))).ravel()
    found = optimize.minimize(objective, start, method="BFGS", options={"gtol": 1e-4})
    return -found.fun, list(found.x.reshape(layers, outputs, outputs))


@pytest.mark.parametrize("beta", [3.0, math.inf])
@pytest.mark.parametrize(
    "net", [lbnn.Network((7,)), lbnn.Network((9, 14), (1.3, 0.8, 1.5)), lbnn.Network((8, 5, 20))], ids=str
)
def test_saddle_by_brute_force(net: lbnn.Network, beta: float) -> None:
    """Independent factors from a start that is not aligned reach the same maximum, and are aligned."""
    value, factors = brute_force(net, DATA, beta)
    theory = asymptotics.proportional(net, DATA.X, DATA.Y, beta=beta)
    assert theory.log_evidence == pytest.approx(value, abs=1e-6)
    product = np.eye(2)
    for variance, factor in zip(net.prior_variances[1:], factors, strict=True):
        product = math.sqrt(variance) * factor @ product
    np.testing.assert_allclose(theory.scale.mean, product @ product.T, rtol=1e-3, atol=1e-4)
    values = np.linalg.eigvalsh(theory.scale.mean)
    cheapest = WidePrior(net.widths, math.prod(net.prior_variances[1:])).layer_values(values)
    found = np.stack([np.sort(np.linalg.svd(factor, compute_uv=False)) ** 2 for factor in factors], axis=1)
    np.testing.assert_allclose(found, cheapest, rtol=2e-3)


@pytest.mark.parametrize("beta", [0.3, 40.0])
def test_saddle_is_stationary(beta: float) -> None:
    """Finite differences of Σψ + log p(Y | L), by dense algebra, vanish in every direction of L."""
    net = lbnn.Network((9, 14), (1.3, 0.8, 1.5))
    scale = asymptotics.proportional(net, DATA.X, DATA.Y, beta=beta).scale.mean
    prior, step = WidePrior(net.widths, 0.8 * 1.5), 1e-4

    def value(matrix: Array) -> float:
        return float(prior.rate(np.linalg.eigvalsh(matrix)).sum()) + dense_log_density(
            DATA, matrix, 1.3, beta
        )

    for direction in ([[1, 0], [0, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 1]]):
        change = step * np.array(direction, float)
        assert value(scale + change) < value(scale) > value(scale - change)
        assert abs(value(scale + change) - value(scale - change)) / (2 * step) < 1e-5


def test_cold_limit_of_the_saddle() -> None:
    """β → ∞: the zero-temperature saddle, at rate 1/β."""
    net = lbnn.Network((9, 14))
    cold = asymptotics.proportional(net, DATA.X, DATA.Y)
    gaps = [
        relative(asymptotics.proportional(net, DATA.X, DATA.Y, beta=beta).scale.mean, cold.scale.mean)
        for beta in (1e4, 1e5)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.05)
    warm = asymptotics.proportional(net, DATA.X, DATA.Y, beta=1e7)
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-3)
    np.testing.assert_allclose(warm.kernel, cold.kernel, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("beta", [0.5, 20.0, math.inf])
def test_one_output_is_a_scalar_equation(beta: float) -> None:
    """n_1(1 − c_1) = n_2(1 − c_2) = Σ_i [1 − y_i²/D_i] g_i λ/D_i with D_i = g_i λ + 1/β, by bisection."""
    net = lbnn.Network((12, 30), (1.3, 0.8, 1.5))
    data = make_problem(5, 9, seed=509)
    values, vectors = np.linalg.eigh(1.3 * data.gram)
    targets, noise = vectors.T @ data.Y, 1 / beta

    def imbalance(first: float) -> float:
        second = 1 - 12 * (1 - first) / 30
        scale = 0.8 * 1.5 * first * second
        total = values * scale + noise
        return 12 * (1 - first) - float(((1 - targets**2 / total) * values * scale / total).sum())

    first = optimize.brentq(imbalance, 1e-6, 50.0, xtol=1e-15)
    expected = 0.8 * 1.5 * first * (1 - 12 * (1 - first) / 30)
    theory = asymptotics.proportional(net, data.X, data.Y, beta=beta)
    assert theory.scale.mean == pytest.approx(expected, rel=1e-9)


def warm_objective() -> LogScaleObjective:
    """Two outputs, two hidden layers, β = 3."""
    values, vectors = np.linalg.eigh(DATA.gram)
    factor = GaussianLikelihood(values, vectors.T @ DATA.Y, 0.0, 6, 1 / 3.0)
    return LogScaleObjective(WidePrior((9, 14), 1.2), factor.of_root, 2)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_gradient_in_the_logarithm(spread: float) -> None:
    """Derivatives in H = log L, also where its eigenvalues coincide, by central differences."""
    objective = warm_objective()
    point = np.array([0.2, 0.0, 0.2]) + spread * np.array([0.9, -0.7, -0.4])
    gradient = objective.value_and_gradient(point)[1]
    for index in range(3):
        step = 1e-5 * np.eye(3)[index]
        rise = objective.value_and_gradient(point + step)[0] - objective.value_and_gradient(point - step)[0]
        assert gradient[index] == pytest.approx(rise / 2e-5, rel=1e-6, abs=1e-7)


def test_search_that_stops_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its last steps the search is not stationary to rounding, and no saddle is returned."""
    monkeypatch.setattr(saddle, "_newton", lambda gradient, point: point)
    with pytest.raises(ArithmeticError, match="must be stationary to 1e-08, got"):
        asymptotics.proportional(lbnn.Network((9, 14)), DATA.X, DATA.Y, beta=3.0)


@pytest.mark.parametrize("seed", [7, 8, 17, 20, 24, 36])
@pytest.mark.parametrize("widths", [(36, 4), (4, 4, 4)])
def test_targets_far_from_the_prior_are_found(seed, widths):
    """From the prior's own scale the search used to lose its way where targets are 400 times as large."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4, 6))
    Y = 400 * X @ rng.normal(size=(6, 4)) / math.sqrt(6)
    warm = asymptotics.proportional(lbnn.Network(widths), X, Y, beta=1e6)
    cold = asymptotics.proportional(lbnn.Network(widths), X, Y)
    np.testing.assert_allclose(
        warm.scale.mean, cold.scale.mean, rtol=1e-4, atol=1e-4 * np.abs(cold.scale.mean).max()
    )
    assert asymptotics.proportional(lbnn.Network(widths), X, Y, beta=0.01).scale.mean.shape == (4, 4)


def highest_on_a_line(prior: WidePrior, gram: Array, squares: Array, count: int, beta: float) -> float:
    """The largest ψ(l) + log p of one direction, `count` targets at each eigenvalue of G, by a dense scan."""
    logs = np.linspace(-20.0, 30.0, 200_001)
    variances = 1 / beta + gram[:, None] * np.exp(logs)
    terms = count * np.log(2 * np.pi * variances) + squares[:, None] / variances
    return float((prior.rate(np.exp(logs)) - 0.5 * terms.sum(axis=0)).max())


@pytest.mark.parametrize("widths", [(20, 2), (5, 5, 50), (50, 5, 5)])
def test_highest_of_several_saddles(widths: tuple[int, ...]) -> None:
    """Weak inputs and large targets: a fitted direction is thousands of nats above one left to the noise."""
    rng = np.random.default_rng(3)
    X, y, beta = 0.05 * rng.normal(size=(5, 4)), 3000 * rng.normal(size=5), 1e-3
    left, singular, _ = np.linalg.svd(X, full_matrices=False)
    fitted = left.T @ y
    expected = highest_on_a_line(WidePrior(widths, 1.0), singular**2 / 4, fitted**2, 1, beta)
    rest = float(y @ y - fitted @ fitted)
    expected += 0.5 * math.log(beta / (2 * math.pi)) - 0.5 * beta * rest  # one direction without inputs
    theory = asymptotics.proportional(lbnn.Network(widths), X, y, beta=beta)
    assert theory.log_evidence == pytest.approx(expected, abs=1e-5 * abs(expected))
    assert theory.scale.mean > 1000


def test_highest_of_several_saddles_of_hidden_kernels() -> None:
    """Orthogonal inputs of one length, orthogonal targets: every example is a problem of one number."""
    net, beta, size = lbnn.Network((20, 5, 5)), 1e-3, 0.05
    targets = 3000 * np.array([[3.0, 0.0, 0.0], [0.0, 0.001, 0.0]])
    theory = asymptotics.many_outputs(net, size * np.eye(2), targets, beta=beta)
    gram, prior = np.array([size**2 / 2]), WidePrior(net.widths, 1.0)
    expected = sum(highest_on_a_line(prior, gram, (row @ row)[None], 3, beta) for row in targets)
    assert theory.log_evidence == pytest.approx(expected, abs=1e-5 * abs(expected))


def test_change_along_axes() -> None:
    """Both closed forms against the likelihood itself."""
    setting = as_setting(lbnn.Network((9, 14)), lbnn.Spectrum.from_inputs(DATA.X, DATA.Y), 3.0)
    hidden = dual(setting.likelihood)
    for change, likelihood, size in (
        (setting.change_along_axes, setting.likelihood, 2),
        (partial(_change_along_axes, setting), hidden, 6),
    ):
        values, axes = np.linspace(0.5, 2.0, size), random_rotation(size, seed=3)
        grid, other = np.array([0.01, 1.0, 30.0]), size - 1
        moved = np.repeat(values[None], 4, axis=0)
        moved[:3, other] = grid
        heights = likelihood.log_value(moved, np.repeat(axes[None], 4, axis=0))
        found = change(values, axes, grid)[:, other]
        np.testing.assert_allclose(found, heights[:3] - heights[3], rtol=1e-10)
