"""Limit theories against the exact answer, their invariances, and what they refuse."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import lbnn
from lbnn import asymptotics
from tests.helpers.problems import make_problem, random_rotation

Array = NDArray[np.float64]
Theories = Callable[..., asymptotics.Theory]

DATA = make_problem(6, 9, 2, seed=511, signal=1.6)
ONE = make_problem(6, 9, seed=512, signal=1.6)


def smooth_problem(examples: int) -> tuple[Array, Array]:
    """Diagonal inputs and one output, of one shape for every number of examples, so that rates are clean."""
    place = (np.arange(examples) + 0.5) / examples
    roots = np.sqrt(stats.gamma(2).ppf(place))
    targets = 1.5 * np.cos(3 * np.pi * place + 0.4) + 0.5
    return np.diag(math.sqrt(examples) * roots), roots * targets


def relative(value: Any, exact: Any) -> float:
    return float(np.linalg.norm(np.asarray(value) - exact) / np.linalg.norm(exact))


# ---------------------------------------------------------------------- infinite width


@pytest.mark.parametrize("beta", [0.0, 0.5, 30.0, math.inf])
@pytest.mark.parametrize("variances", [(1.0, 1.0, 1.0), (1.3, 0.6, 1.7)])
def test_wide_kernels_of_every_layer(beta: float, variances: tuple[float, ...]) -> None:
    """The error of ⟨K_ℓ⟩ to first order falls like 1/n², for unequal widths and variances, at every layer."""
    shape = np.array([2, 1])
    points = np.concatenate([ONE.X, ONE.X_test])
    for layer in (1, 2):
        gaps, corrections = [], []
        for n in (1000, 10000):
            net = lbnn.Network(tuple(int(w) for w in n * shape), variances)
            exact = net.condition(ONE.X, ONE.Y, beta).feature_kernel(points, layer=layer)
            theory = asymptotics.infinite_width(net, ONE.X, ONE.Y, beta)
            gaps.append(np.linalg.norm(theory.feature_kernel(points, layer=layer) - exact))
            bare = math.prod(variances[:layer]) * points @ points.T / points.shape[1]
            corrections.append(np.linalg.norm(exact - bare))
        if beta == 0:
            assert gaps[0] < 1e-12
            continue
        assert gaps[0] / gaps[1] == pytest.approx(100, rel=0.05)
        assert gaps[1] < 0.01 * corrections[1]  # a correction that is wrong by 1% would be seen


@pytest.mark.parametrize("beta", [0.5, math.inf])
def test_wide_kernel_as_printed(beta: float) -> None:
    """G + γ G Γ⁻¹(G_yy − Γ)Γ⁻¹ G with Γ = G + I/β (eqn:37), two outputs; the second layer adds n_d/n_2."""
    theory = asymptotics.infinite_width(lbnn.Network((50, 20)), DATA.X, DATA.Y, beta)
    noisy = DATA.gram + np.eye(6) / beta
    inner = np.linalg.solve(noisy, np.linalg.solve(noisy, DATA.Y @ DATA.Y.T / 2 - noisy).T)
    shift = DATA.gram @ inner @ DATA.gram
    for layer, gamma in ((1, 2 / 50), (2, 2 / 50 + 2 / 20)):
        np.testing.assert_allclose(
            theory.feature_kernel(layer=layer), DATA.gram + gamma * shift, rtol=1e-9, atol=1e-11
        )


@pytest.mark.parametrize("beta", [0.7, math.inf])
def test_wide_predictive_is_the_gaussian_process(beta: float) -> None:
    """Mean, covariance and evidence are those of depth one with the product of all variances."""
    net = lbnn.Network((5, 7), (1.3, 0.6, 1.7))
    theory = asymptotics.infinite_width(net, DATA.X, DATA.Y, beta, order=0)
    flat = lbnn.Network((), (1.3 * 0.6 * 1.7,)).condition(DATA.X, DATA.Y, beta)
    own, expected = theory.predict(DATA.X_test), flat.predict(DATA.X_test)
    np.testing.assert_allclose(own.mean, expected.mean, rtol=1e-11)
    np.testing.assert_allclose(own.covariance, expected.covariance, rtol=1e-10, atol=1e-13)
    assert theory.log_evidence == pytest.approx(flat.log_evidence, rel=1e-12)


@pytest.mark.parametrize("beta", [2.0, math.inf])
def test_proportional_at_infinite_width(beta: float) -> None:
    """With p fixed and n → ∞ the saddle point joins the Gaussian process; kernels differ by 1/n² only."""
    scales, kernels = [], []
    for n in (10**4, 10**5):
        net = lbnn.Network((n, 2 * n), (1.3, 0.6, 1.7))
        saddle = asymptotics.proportional(net, DATA.X, DATA.Y, beta=beta)
        wide = asymptotics.infinite_width(net, DATA.X, DATA.Y, beta, order=0)
        scales.append(relative(saddle.scale.mean, wide.scale.mean))
        kernels.append(relative(saddle.feature_kernel(layer=2), wide.feature_kernel(layer=2)))
    assert scales[0] / scales[1] == pytest.approx(10, rel=0.05)
    assert kernels[0] / kernels[1] == pytest.approx(100, rel=0.05)
    assert saddle.log_evidence == pytest.approx(wide.log_evidence, abs=1e-2)


# ---------------------------------------------------------------------- proportional


@pytest.mark.parametrize(
    ("alpha", "shape", "beta"),
    [
        (0.5, (1,), math.inf),
        (1.07, (1,), math.inf),
        (3.0, (1,), math.inf),
        (0.5, (1, 2), math.inf),
        (2.0, (3, 1, 2), math.inf),
        (0.5, (2, 1), 3.0),
        (15.0, (1,), 1.0),
    ],
)
def test_proportional_rate(alpha: float, shape: tuple[int, ...], beta: float) -> None:
    """One output, n and p growing together: scale and kernels of every layer are wrong by order 1/n."""
    gaps = []
    for n in (10, 40) if alpha > 3 else (40, 160):
        net = lbnn.Network(tuple(n * each for each in shape))
        X, y = smooth_problem(round(alpha * n))
        exact, theory = net.condition(X, y, beta), asymptotics.proportional(net, X, y, beta=beta)
        errors = [relative(theory.scale.mean, exact.scale.mean)]
        for layer in range(1, len(shape) + 1):
            bare = exact.feature_kernel(layer=layer) - X @ X.T / len(X)
            given = theory.feature_kernel(layer=layer) - X @ X.T / len(X)
            errors.append(relative(given, bare))
        gaps.append(errors)
    factor = np.array(gaps[0]) / gaps[1]
    assert (factor > 3.0).all(), factor
    assert (factor < 5.2).all(), factor
    assert max(gaps[1]) < 0.05


@pytest.mark.parametrize(("width", "examples"), [(400, 200), (150, 160), (100, 300), (20, 300)])
def test_kernel_within_a_percent(width: int, examples: int) -> None:
    """Three outputs at α = 0.5, 1.07, 3 and 15: right to 1%, far above the Monte Carlo error."""
    data = make_problem(examples, 2 * examples, 3, seed=513, signal=1.5)
    net, quantities = lbnn.Network((width,)), ("kernel correction",)
    result = lbnn.compare(net, data.X, data.Y, math.inf, quantities=quantities, target_error=0.02)
    row = next(row for row in result.rows if row.theory == "proportional")
    assert row.error < 0.01
    assert row.monte_carlo < 0.001
    assert result.error("proportional, as printed", "kernel correction") > 0.05


def test_leading_evidence() -> None:
    """log p(Y) less its leading order stays of order one while both grow like n."""
    gaps = []
    for n in (100, 400):
        X, y = smooth_problem(n // 2)
        net = lbnn.Network((n, n))
        gaps.append(
            asymptotics.proportional(net, X, y).log_evidence - net.condition(X, y, math.inf).log_evidence
        )
    assert abs(gaps[0] - gaps[1]) < 0.05
    assert abs(gaps[1]) < 1.0


# ---------------------------------------------------------------------- infinite data


def test_infinite_data_formulas() -> None:
    """L = S/p and ⟨K⟩ = (1 − γ)G + Y(S/p)⁻¹Yᵀ/n_1, by dense algebra."""
    theory = asymptotics.infinite_data(lbnn.Network((7, 4)), DATA.X, DATA.Y)
    square = DATA.Y.T @ np.linalg.solve(DATA.gram, DATA.Y)
    np.testing.assert_allclose(theory.scale.mean, square / 6, rtol=1e-11)
    expected = (1 - 2 / 7) * DATA.gram + DATA.Y @ np.linalg.solve(square / 6, DATA.Y.T) / 7
    np.testing.assert_allclose(theory.kernel, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("widths", [(6,), (9, 5)])
def test_infinite_data_rate(widths: tuple[int, ...]) -> None:
    """E λ tends to S/p, and the kernel to the theory's, at rate 1/p."""
    net, gaps = lbnn.Network(widths), []
    for examples in (100, 400):
        X, y = smooth_problem(examples)
        y *= 0.5  # where S/p is near one terms of order 1/p cancel
        exact, theory = net.condition(X, y, math.inf), asymptotics.infinite_data(net, X, y)
        learned, given = exact.feature_kernel() - X @ X.T / examples, theory.kernel - X @ X.T / examples
        gaps.append([relative(theory.scale.mean, exact.scale.mean), relative(given, learned)])
    np.testing.assert_allclose(np.array(gaps[0]) / gaps[1], 4, rtol=0.1)


# ---------------------------------------------------------------------- units and symmetries

EVERY: dict[str, Theories] = {
    "infinite width": lambda net, X, Y, beta: asymptotics.infinite_width(net, X, Y, beta),
    "infinite width, order 0": lambda net, X, Y, beta: asymptotics.infinite_width(net, X, Y, beta, order=0),
    "infinite data": lambda net, X, Y, beta: asymptotics.infinite_data(net, X, Y),
    "proportional": lambda net, X, Y, beta: asymptotics.proportional(net, X, Y),
    "first order": lambda net, X, Y, beta: asymptotics.proportional_expansion(net, X, Y),
    "many outputs": lambda net, X, Y, beta: asymptotics.many_outputs(net, X, Y),
    "proportional, warm": lambda net, X, Y, beta: asymptotics.proportional(net, X, Y, beta=beta),
    "many outputs, warm": lambda net, X, Y, beta: asymptotics.many_outputs(net, X, Y, beta=beta),
}
every = pytest.mark.parametrize("theory", EVERY.values(), ids=EVERY.keys())


@every
def test_variances_are_units(theory: Theories) -> None:
    """σ_ℓ² only set units: L carries σ_2²⋯σ_d², K_ℓ carries σ_1²⋯σ_ℓ², targets and noise all of them."""
    a, b, c = 1.7, 0.6, 2.3
    unit = theory(lbnn.Network((20, 13)), DATA.X, DATA.Y / math.sqrt(a * b * c), 2.0 * a * b * c)
    scaled = theory(lbnn.Network((20, 13), (a, b, c)), DATA.X, DATA.Y, 2.0)
    if unit.scale is not None and scaled.scale is not None:
        np.testing.assert_allclose(scaled.scale.mean, b * c * unit.scale.mean, rtol=1e-8, atol=1e-12)
    for layer in range(1, unit.layers + 1):
        expected = math.prod((a, b)[:layer]) * unit.feature_kernel(DATA.X_test, layer=layer)
        np.testing.assert_allclose(scaled.feature_kernel(DATA.X_test, layer=layer), expected, rtol=1e-8)
    own, other = scaled.predict(DATA.X_test), unit.predict(DATA.X_test)
    np.testing.assert_allclose(own.mean, math.sqrt(a * b * c) * other.mean, rtol=1e-8)
    np.testing.assert_allclose(own.variance, a * b * c * other.variance, rtol=1e-8)
    if unit.log_evidence is not None:
        assert scaled.log_evidence == pytest.approx(unit.log_evidence - 6 * math.log(a * b * c), rel=1e-9)


@every
@settings(max_examples=3, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), factor=st.floats(0.2, 5.0))
def test_symmetries(theory: Theories, seed: int, factor: float) -> None:
    """Outputs turn with L; examples permute with K; input units are those of the first layer."""
    turn, order = random_rotation(2, seed), np.random.default_rng(seed).permutation(6)
    plain = theory(lbnn.Network((20, 13)), DATA.X, DATA.Y, 2.0)
    net = lbnn.Network((20, 13), (1 / factor**2, 1.0, 1.0))
    other = theory(net, factor * DATA.X[order], DATA.Y[order] @ turn, 2.0)
    if plain.scale is not None and other.scale is not None:
        np.testing.assert_allclose(other.scale.mean, turn.T @ plain.scale.mean @ turn, rtol=1e-7, atol=1e-8)
    kernel = plain.kernel[np.ix_(order, order)]
    np.testing.assert_allclose(other.kernel, kernel, rtol=1e-7, atol=1e-8 * np.abs(kernel).max())
    mean = other.predict(factor * DATA.X_test).mean
    np.testing.assert_allclose(mean, plain.predict(DATA.X_test).mean @ turn, rtol=1e-7, atol=1e-8)
    if plain.log_evidence is not None:
        assert other.log_evidence == pytest.approx(plain.log_evidence, rel=1e-9)


@every
def test_two_ways_to_ask(theory: Theories) -> None:
    """Training points by name and by default agree; the representation is one line."""
    answer = theory(lbnn.Network((20, 13)), DATA.X, DATA.Y, 2.0)
    np.testing.assert_allclose(answer.feature_kernel(DATA.X), answer.kernel, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(answer.predict(DATA.X).mean, answer.predict().mean, rtol=1e-9, atol=1e-12)
    assert answer.name in repr(answer)
    assert "\n" not in repr(answer)


def test_one_dimensional_targets_drop_the_axis() -> None:
    for theory in EVERY.values():
        answer, column = (theory(lbnn.Network((20, 13)), ONE.X, Y, 2.0) for Y in (ONE.Y, ONE.Y[:, None]))
        mean = column.predict(ONE.X_test).mean
        assert mean.shape == (3, 1)
        np.testing.assert_array_equal(answer.predict(ONE.X_test).mean, mean[:, 0])
        if answer.scale is not None:
            assert answer.scale.mean == column.scale.mean[0, 0]


# ---------------------------------------------------------------------- what is refused


def test_refusals() -> None:
    """Each rule is named, with what was given."""
    flat, wide, narrow = lbnn.Network(()), lbnn.Network((20,)), lbnn.Network((1,))
    deep, X, Y = lbnn.Network((20, 20)), DATA.X, DATA.Y
    twice = np.stack([Y[:, 0], 2 * Y[:, 0]], axis=1)
    tall = make_problem(9, 3, 2, seed=514)
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("depth one", lambda: asymptotics.infinite_width(flat, X, Y, 1.0)),
        ("depth one", lambda: asymptotics.many_outputs(flat, X, Y)),
        ("beta", lambda: asymptotics.infinite_width(wide, X, Y, -1.0)),
        ("beta=0", lambda: asymptotics.proportional(wide, X, Y, beta=0.0)),
        ("beta=0", lambda: asymptotics.many_outputs(wide, X, Y, beta=0.0)),
        ("invertible Gram", lambda: asymptotics.proportional(wide, tall.X, tall.Y)),
        ("invertible Gram", lambda: asymptotics.infinite_width(wide, tall.X, tall.Y, math.inf)),
        ("at least n_d", lambda: asymptotics.proportional(narrow, X, Y)),
        ("at least n_d", lambda: asymptotics.infinite_data(narrow, X, Y)),
        ("rank 1 for 2 outputs", lambda: asymptotics.infinite_data(wide, X, twice)),
        ("rank 1", lambda: asymptotics.proportional(lbnn.Network((6,)), X, twice)),
        ("rank 2", lambda: asymptotics.many_outputs(lbnn.Network((2,)), X, Y)),
        ("fewer examples", lambda: asymptotics.proportional_expansion(lbnn.Network((6,)), X, Y)),
        ("depth two and unit", lambda: asymptotics.proportional(deep, X, Y, as_printed=True)),
        ("zero temperature", lambda: asymptotics.proportional(wide, X, Y, as_printed=True, beta=2.0)),
        ("zero temperature", lambda: asymptotics.infinite_data(wide, X, Y, 2.0)),
        ("zero temperature", lambda: asymptotics.proportional_expansion(wide, X, Y, 2.0)),
        ("layers 1 to 1", lambda: asymptotics.proportional(wide, X, Y).feature_kernel(layer=2)),
        ("layers 1 to 1", lambda: asymptotics.infinite_data(deep, X, Y).feature_kernel(layer=2)),
    ]
    for rule, call in cases:
        with pytest.raises(ValueError, match=rule):
            call()


#: Of networks that see their inputs as they are; `view_saddle` takes views.
THEORIES = [name for name in asymptotics.__all__ if name.islower() and name != "view_saddle"]


@pytest.mark.parametrize("name", THEORIES)
def test_beta_is_the_fourth_argument_of_every_theory(name: str) -> None:
    function = getattr(asymptotics, name)
    parameters = list(inspect.signature(function).parameters.values())
    assert [each.name for each in parameters[:4]] == ["net", "X", "Y", "beta"]
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters[4:])
    net = lbnn.Network((20,))
    placed, named = (function(net, DATA.X, DATA.Y, math.inf), function(net, DATA.X, DATA.Y, beta=math.inf))
    np.testing.assert_array_equal(placed.kernel, named.kernel)
    with pytest.raises(TypeError, match="beta must be a number"):
        function(net, DATA.X, DATA.Y, True)  # was as_printed


def test_test_points_by_name() -> None:
    theory = asymptotics.proportional(lbnn.Network((20,)), DATA.X, DATA.Y)
    np.testing.assert_array_equal(theory.predict(X_test=DATA.X_test).mean, theory.predict(DATA.X_test).mean)
    np.testing.assert_array_equal(
        theory.feature_kernel(X_test=DATA.X_test, layer=1), theory.feature_kernel(DATA.X_test)
    )
    with pytest.raises(TypeError, match="one array X_test"):
        theory.predict(cross_gram=DATA.cross, test_gram=DATA.test_gram)


def test_targets_of_low_rank_where_the_prior_holds() -> None:
    """n_1 > p: a direction without targets has l = 1 − α, as its Riccati equation says."""
    twice = np.stack([DATA.Y[:, 0], 2 * DATA.Y[:, 0]], axis=1)
    scale = asymptotics.proportional(lbnn.Network((8,)), DATA.X, twice).scale.mean
    assert np.linalg.eigvalsh(scale)[0] == pytest.approx(1 - 6 / 8, rel=1e-12)
