"""Zero temperature: closed forms, the matrix generalised inverse Gaussian, existence, the approach to it."""

from __future__ import annotations

import math
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from scipy import special

import lbnn
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.scale.gamma_product import GammaProduct
from tests.helpers.lattice import TwoOutputLattice, combined
from tests.helpers.problems import Array, Problem, make_problem
from tests.referees import weight_space
from tests.referees.matrix_gig import PlaneReferee
from tests.referees.statistics import assert_agrees

REPLICATE_FREEDOM = 7  # errors come from eight replicates
VARIANCES = (0.8, 1.4, 0.9)  # of the first layers, as many as a network has

# p, n0, n_d, widths
CASES = {
    "wide": (6, 10, 3, (9,)),
    "narrow": (5, 9, 3, (3,)),
    "p above n_1": (9, 12, 2, (4,)),
    "p below n_d": (3, 8, 5, (7,)),
    "deep": (5, 9, 3, (6, 7)),
    "deep narrow": (6, 9, 2, (3, 2)),
}


def network(widths: tuple[int, ...]) -> lbnn.Network:
    return lbnn.Network(widths, prior_variances=VARIANCES[: len(widths) + 1])


@lru_cache
def case(name: str) -> tuple[Problem, lbnn.Network, lbnn.Posterior]:
    p, inputs, outputs, widths = CASES[name]
    data = make_problem(p, inputs, outputs, seed=500 + p, points=4, signal=1.2)
    return data, network(widths), network(widths).condition(data.X, data.Y, math.inf, target_error=0.02)


def kernels(data: Problem) -> tuple[Array, Array, Array]:
    """G_xx, G_xx̂ and G_x̂x̂ with the first layer's variance."""
    return tuple(VARIANCES[0] * part for part in (data.gram, data.cross, data.test_gram))


# ---------------------------------------------------------------- closed forms given the measure


@pytest.mark.parametrize("name", CASES)
def test_mean_is_the_least_norm_interpolant(name: str) -> None:
    """Whatever the scale: X̂ X⁺ Y."""
    data, _, post = case(name)
    expected = data.X_test @ np.linalg.pinv(data.X) @ data.Y
    np.testing.assert_allclose(post.predict(data.X_test).mean, expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(post.predict().mean, data.Y, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(post.predict().variance, 0, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_covariance_is_that_of_a_gaussian_process_times_the_mean_scale(name: str) -> None:
    """(G_x̂x̂ − G_x̂x G⁻¹ G_xx̂) ⊗ E L."""
    data, _, post = case(name)
    gram, cross, test = kernels(data)
    rest = test - cross.T @ np.linalg.solve(gram, cross)
    expected = np.einsum("mn,jk->mjnk", rest, post.scale.mean)
    np.testing.assert_allclose(post.predict(data.X_test).covariance, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_kernel_by_the_mean_of_the_inverse_scale(name: str) -> None:
    """(1 − n_d/n_1) G + Y E[L⁻¹] Yᵀ / n_1."""
    data, net, post = case(name)
    gram, width = kernels(data)[0], net.widths[0]
    inverse = post.scale.expect(np.linalg.inv)
    expected = (1 - data.Y.shape[1] / width) * gram + data.Y @ inverse @ data.Y.T / width
    scale = np.abs(expected).max()
    np.testing.assert_allclose(post.feature_kernel(), expected, rtol=1e-7, atol=1e-8 * scale)


@pytest.mark.parametrize("name", CASES)
def test_mean_scale_commutes_with_the_targets(name: str) -> None:
    """E L and S = YᵀG⁻¹Y have common axes at any depth, within the errors of E L.

    In the axes of S the off-diagonal of E L is zero: only degenerate axes are free (the null space of S).
    """
    data, _, post = case(name)
    statistic = data.Y.T @ np.linalg.solve(kernels(data)[0], data.Y)
    axes = np.linalg.eigh(statistic)[1]
    value, error = post.scale.expect_with_error(lambda L: axes.T @ L @ axes)
    below = np.tril_indices(len(axes), -1)
    comparisons = len(CASES) * 10
    options = {"comparisons": comparisons, "degrees_of_freedom": REPLICATE_FREEDOM}
    assert_agrees(value[below], error[below], np.zeros(len(below[0])), **options)
    assert (error[below] < 0.1 * np.diag(value).max()).all()


# ---------------------------------------------------------------- depth two is a MatrixGIG

SHALLOW = ["wide", "narrow", "p above n_1"]


def mgig(data: Problem, net: lbnn.Network, target_error: float = 0.01) -> lbnn.MatrixGIG:
    """Law of L: MGIG(YᵀG⁻¹Y, n_1 I/σ_2², (n_1 − p)/2)."""
    (width,), outputs = net.widths, data.Y.shape[1]
    statistic = data.Y.T @ np.linalg.solve(kernels(data)[0], data.Y)
    phi = width / VARIANCES[1] * np.eye(outputs)
    nu = (width - len(data.X)) / 2
    return lbnn.MatrixGIG((statistic + statistic.T) / 2, phi, nu, target_error=target_error)


def log_evidence_of(law: lbnn.MatrixGIG | PlaneReferee, data: Problem, width: int) -> float:
    """Wishart and matrix Gaussian constants: E_ϖ MN(Y; 0, G, L) = normaliser of the product over theirs."""
    p, outputs = data.Y.shape
    log_wishart = special.multigammaln(width / 2, outputs) + width * outputs / 2 * math.log(
        2 * VARIANCES[1] / width
    )
    log_gauss = p * outputs / 2 * math.log(2 * math.pi) + outputs / 2 * np.linalg.slogdet(kernels(data)[0])[1]
    return law.log_normalizer - log_wishart - log_gauss


@pytest.mark.parametrize("name", SHALLOW)
def test_scale_is_a_matrix_generalised_inverse_gaussian(name: str) -> None:
    """Evidence, E L and E L⁻¹, within the errors of both."""
    data, net, post = case(name)
    law = mgig(data, net)
    options = {"comparisons": 3 * 19, "degrees_of_freedom": REPLICATE_FREEDOM}
    error = math.hypot(post.log_evidence_error, law.log_normalizer_error)
    assert_agrees(post.log_evidence, error, log_evidence_of(law, data, net.widths[0]), **options)
    assert 0 < error < 0.03
    value, error = post.scale.expect_with_error(lambda L: L)
    np.testing.assert_allclose(value, post.scale.mean, rtol=1e-12)
    assert_agrees(value, combined(error, law.mean_error), law.mean, **options)
    value, error = post.scale.expect_with_error(np.linalg.inv)
    np.testing.assert_allclose(value, post.scale.inverse_mean, rtol=1e-8)
    assert_agrees(value, combined(error, law.inverse_mean_error), law.inverse_mean, **options)


def test_evidence_with_constants_by_hand() -> None:
    """Two outputs: by a lattice over L, and by the constants above."""
    data = make_problem(3, 6, 2, seed=505)
    drawn = mgig(data, network((5,)))
    law = PlaneReferee(drawn.psi, drawn.phi, drawn.nu, inverse=False)
    scaled = Problem(math.sqrt(VARIANCES[0]) * data.X, data.Y, data.X_test)
    grid = TwoOutputLattice(scaled, 5, math.inf, variance=VARIANCES[1])
    assert log_evidence_of(law, data, 5) == pytest.approx(grid.log_evidence, abs=1e-8)
    np.testing.assert_allclose(law.expect("mean"), grid.mean, rtol=1e-7)


@pytest.mark.slow
def test_hidden_kernel_is_a_matrix_generalised_inverse_gaussian() -> None:
    """The dual side: K ~ MGIG(YYᵀ, n_1 G⁻¹/σ_2², (n_1 − n_d)/2) when Y has rank p; ⟨K⟩ and the evidence."""
    data, net, post = case("p below n_d")
    assert post.diagnostics.engine.startswith("dual")
    gram, (width,), (p, outputs) = kernels(data)[0], net.widths, data.Y.shape
    back = np.linalg.inv(gram)
    law = lbnn.MatrixGIG(
        data.Y @ data.Y.T,
        width / VARIANCES[1] * (back + back.T) / 2,
        (width - outputs) / 2,
        target_error=0.01,
    )
    log_wishart = special.multigammaln(width / 2, p) + width * p / 2 * math.log(2 * VARIANCES[1] / width)
    log_wishart += width / 2 * np.linalg.slogdet(gram)[1]
    expected = law.log_normalizer - log_wishart - p * outputs / 2 * math.log(2 * math.pi)
    error = math.hypot(post.log_evidence_error, law.log_normalizer_error)
    assert_agrees(post.log_evidence, error, expected, comparisons=10, degrees_of_freedom=REPLICATE_FREEDOM)
    # ⟨K⟩ carries no stated error: from independent seeds
    runs = np.stack(
        [
            net.condition(data.X, data.Y, math.inf, target_error=0.03, seed=s).feature_kernel()
            for s in range(8)
        ]
    )
    spread = runs.std(axis=0, ddof=1) / math.sqrt(8)
    expected = law.mean / VARIANCES[1]
    assert_agrees(
        runs.mean(axis=0), combined(spread, law.mean_error / VARIANCES[1]), expected, degrees_of_freedom=7
    )


# ---------------------------------------------------------------- the way to the limit

POWERS = range(2, 9)


def test_approach_of_one_output_is_linear_in_the_noise() -> None:
    """β (quantity − limit) settles, ten times closer for ten times β: evidence, E L, predictive variance."""
    data = make_problem(5, 9, seed=506)
    net = lbnn.Network((4, 6))

    def quantities(beta: float) -> Array:
        post = net.condition(data.X, data.Y, beta)
        return np.array([post.log_evidence, post.scale.mean, *post.predict(data.X_test).variance])

    limit = quantities(math.inf)
    scaled = np.stack([10.0**k * (quantities(10.0**k) - limit) for k in POWERS])
    steps = np.abs(scaled[1:] / scaled[:-1] - 1).max(axis=1)
    assert (np.abs(scaled[-1]) > 1e-3).all()
    np.testing.assert_allclose(steps[1:4] / steps[:3], 0.1, rtol=0.3)
    assert steps[3] < 1e-3
    for beta in (1e8, 1e12, 1e15):
        np.testing.assert_allclose(quantities(beta), limit, rtol=1e2 / beta + 1e-12)


def test_slope_of_the_evidence_at_zero_noise() -> None:
    """d log p(Y)/dτ at τ = 0 is ½ E Σ_i [z_i²/(g_i λ)² − 1/(g_i λ)], from the measure at zero temperature."""
    data = make_problem(5, 9, seed=506)
    net = lbnn.Network((4, 6))
    post = net.condition(data.X, data.Y, math.inf)
    values, vectors = np.linalg.eigh(data.gram)
    z = vectors.T @ data.Y
    slope = post.scale.expect(lambda s: 0.5 * np.sum(z**2 / (values * s) ** 2 - 1 / (values * s)))
    found = 1e6 * (net.condition(data.X, data.Y, 1e6).log_evidence - post.log_evidence)
    assert found == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("name", ["wide", "p above n_1", "deep"])
def test_approach_of_several_outputs(name: str) -> None:
    """On the same atoms the evidence approaches its limit like 1/β: E p(Y | L, β)/p(Y | L, ∞) − 1."""
    limit = case(name)[2]
    spectrum = limit.spectrum
    log_values = [
        GaussianLikelihood(
            spectrum.eigenvalues, spectrum.targets, spectrum.residual, spectrum.examples, 10.0**-power
        ).log_value(*limit.scale.eigen)
        for power in (6, 8, 10, math.inf)
    ]
    counts = limit.scale.weights > 1e-30
    changes = [
        limit.scale.weights[counts] @ np.expm1((each - log_values[-1])[counts]) for each in log_values[:-1]
    ]
    assert abs(changes[0]) < 1e-3
    np.testing.assert_allclose(np.divide(changes[:-1], changes[1:]), 100, rtol=0.02)


@pytest.mark.parametrize("power", [2, 3, 4, 6, 8, 10])
def test_approach_of_two_outputs_on_the_lattice(power: int) -> None:
    """Evidence and E L at every temperature against deterministic integrals, within errors."""
    data = make_problem(5, 9, 2, seed=507)
    grid = TwoOutputLattice(data, 6, 10.0**power)
    post = lbnn.Network((6,)).condition(data.X, data.Y, 10.0**power, target_error=0.02)
    options = {"comparisons": 6 * 5, "degrees_of_freedom": REPLICATE_FREEDOM}
    assert_agrees(post.log_evidence, post.log_evidence_error, grid.log_evidence, **options)
    assert_agrees(post.scale.mean, post.scale.mean_error, grid.mean, **options)
    limit = TwoOutputLattice(data, 6, math.inf)
    assert abs(grid.log_evidence - limit.log_evidence) < 30 * 10.0**-power + 1e-7


@pytest.mark.parametrize("beta", [1e8, 1e12, 1e15])
@pytest.mark.parametrize("name", CASES)
def test_very_large_beta_is_the_limit(name: str, beta: float) -> None:
    """Evidence and E L within errors: the draws are not the same, since proposals are fitted to the data."""
    data, net, limit = case(name)
    post = net.condition(data.X, data.Y, beta, target_error=0.02)
    assert post.diagnostics.ok
    options = {"comparisons": 3 * len(CASES) * 5, "degrees_of_freedom": REPLICATE_FREEDOM}
    error = math.hypot(post.log_evidence_error, limit.log_evidence_error)
    assert_agrees(post.log_evidence, error, limit.log_evidence, **options)
    both = combined(post.scale.mean_error, limit.scale.mean_error)
    assert_agrees(post.scale.mean, both, limit.scale.mean, **options)
    mean = limit.predict(data.X_test).mean  # the interpolant, whatever the scale
    np.testing.assert_allclose(post.predict(data.X_test).mean, mean, atol=1e4 / beta + 1e-9)


# ---------------------------------------------------------------- existence

DATA = make_problem(4, 9, 3, seed=508)


def targets_of_rank(rank: int, p: int = 4, outputs: int = 3) -> Array:
    rng = np.random.default_rng(509)
    return rng.standard_normal((p, rank)) @ rng.standard_normal((rank, outputs))


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("extra", [(), (0,), (3,)])
def test_targets_of_deficient_rank_need_wide_layers(rank: int, extra: tuple[int, ...]) -> None:
    """Exactly n_d + p − q = 7 − q hidden units in every layer, depth two and three; one less is an error."""
    needed, Y = 7 - rank, targets_of_rank(rank)
    deeper = tuple(needed + more for more in extra)
    post = lbnn.Network((needed, *deeper)).condition(DATA.X, Y, math.inf, target_error=0.1)
    assert math.isfinite(post.log_evidence)
    np.testing.assert_allclose(post.predict(DATA.X).mean, Y, atol=1e-9)
    rule = rf"rank q < min\(p, n_d\).*every hidden width is at least n_d \+ p − q = {needed}, got widths=.*"
    rule += rf"p = 4, n_d = 3, rank\(Y\) = {rank}: use a finite beta"
    for widths in ((needed - 1, *deeper), (*deeper, needed - 1)):
        with pytest.raises(ValueError, match=rule):
            lbnn.Network(widths).condition(DATA.X, Y, math.inf)


@pytest.mark.parametrize("widths", [(3,), (3, 3), (3, 9), (8, 3)], ids=str)
def test_targets_of_full_rank_need_layers_as_wide_as_the_outputs(widths: tuple[int, ...]) -> None:
    """Q = n_d: any width of at least n_d, though below n_d + p; one less cannot interpolate."""
    assert math.isfinite(
        lbnn.Network(widths).condition(DATA.X, DATA.Y, math.inf, target_error=0.1).log_evidence
    )
    narrow = tuple(2 if width == min(widths) else width for width in widths)
    with pytest.raises(ValueError, match=r"at least min\(p, n_d\) = 3 for targets to have a density"):
        lbnn.Network(narrow).condition(DATA.X, DATA.Y, math.inf)


def test_fewer_examples_than_outputs() -> None:
    """Q = p: the dual route, any width of at least p; below it, and for q < p, the rules again."""
    data = make_problem(2, 8, 4, seed=510)
    for width in (2, 3, 9):
        post = lbnn.Network((width,)).condition(data.X, data.Y, math.inf, target_error=0.1)
        assert post.diagnostics.engine.startswith("dual")
        assert math.isfinite(post.log_evidence)
    with pytest.raises(ValueError, match=r"at least min\(p, n_d\) = 2 .*got widths=\(1,\)"):
        lbnn.Network((1,)).condition(data.X, data.Y, math.inf)
    single = data.Y[:, :1] * np.ones(4)
    assert math.isfinite(
        lbnn.Network((5,)).condition(data.X, single, math.inf, target_error=0.1).log_evidence
    )
    with pytest.raises(ValueError, match=r"n_d \+ p − q = 5"):
        lbnn.Network((4,)).condition(data.X, single, math.inf)


def test_deep_bottlenecks_are_for_the_dual_route() -> None:
    """p ≤ width < n_d at depth three: the dual computes it, other engines say so."""
    data = make_problem(2, 8, 4, seed=510)
    assert math.isfinite(
        lbnn.Network((4, 4)).condition(data.X, data.Y, math.inf, target_error=0.1).log_evidence
    )
    post = lbnn.Network((4, 3)).condition(data.X, data.Y, math.inf, target_error=0.1)
    assert post.diagnostics.engine.startswith("dual")
    assert math.isfinite(post.log_evidence)
    with pytest.raises(ValueError, match="supported with engine 'dual' only"):
        lbnn.Network((4, 3)).condition(data.X, data.Y, math.inf, engine="importance")


@pytest.mark.parametrize("rank", [0, 1])
def test_the_rule_is_where_the_evidence_stops_diverging(rank: int) -> None:
    """Two outputs on the lattice: at n_d + p − q the evidence converges as β grows, one below it grows.

    One below, ∫ l^{−1} dl is cut off at l ≈ 1/β: p(Y) grows by the same amount for every factor of β.
    """
    data = make_problem(3, 9, 2, seed=511)
    Y = data.Y * ([0.0, 0.0] if rank == 0 else [0.0, 1.0])
    data = Problem(data.X, Y, data.X_test)
    needed = 2 + 3 - rank

    def evidences(width: int) -> Array:
        return np.exp([TwoOutputLattice(data, width, beta).log_evidence for beta in (1e4, 1e6, 1e8, 1e10)])

    settled, growing = evidences(needed), evidences(needed - 1)
    steps = np.diff(settled)
    assert (np.abs(steps[1:]) < 0.2 * np.abs(steps[:-1])).all()  # a factor 10^{-1} for every 10², β^{-1/2}
    growth = np.diff(growing)
    assert (growth[1:] > 0.9 * growth[:-1]).all()


@pytest.mark.parametrize("widths", [(4,), (4, 4)], ids=str)
def test_zero_targets_one_below_the_rule_diverge_logarithmically(widths: tuple[int, ...]) -> None:
    """One output: p(0) at width p grows like (log β)^{layers}; deterministic at every temperature."""
    data = make_problem(4, 9, seed=512)
    betas = 10.0 ** np.array([5, 7, 9, 11])
    values = np.exp([lbnn.Network(widths).condition(data.X, np.zeros(4), b).log_evidence for b in betas])
    differences = np.diff(values, n=len(widths))
    np.testing.assert_allclose(differences, differences[0], rtol=1e-2)
    np.testing.assert_allclose(np.diff(values, n=len(widths) + 1), 0, atol=1e-2 * differences[0])


# ---------------------------------------------------------------- deficient rank

DEFICIENT = {
    "rank two": ((8,), 2),
    "rank one": ((9,), 1),
    "zero": ((10,), 0),
    "deep": ((8, 9), 2),
}


def deficient(name: str, beta: float, **options: float) -> tuple[Array, lbnn.Posterior]:
    widths, rank = DEFICIENT[name]
    Y = targets_of_rank(rank)
    return Y, network(widths).condition(DATA.X, Y, beta, target_error=0.02, **options)


@pytest.mark.parametrize("name", DEFICIENT)
def test_deficient_rank_is_the_limit_of_large_beta(name: str) -> None:
    """Three units above the rule the noise of 1e-6 is negligible: evidence and E L within errors."""
    _, post = deficient(name, math.inf)
    _, finite = deficient(name, 1e6)
    options = {"comparisons": 4 * 10, "degrees_of_freedom": REPLICATE_FREEDOM}
    error = math.hypot(post.log_evidence_error, finite.log_evidence_error)
    assert_agrees(post.log_evidence, error, finite.log_evidence, **options)
    assert error < 0.05
    assert_agrees(
        post.scale.mean,
        combined(post.scale.mean_error, finite.scale.mean_error),
        finite.scale.mean,
        **options,
    )


def test_deficient_rank_at_the_rule_itself() -> None:
    """The approach is slow there, as β^{−1/2}: on the lattice, and β = 1e6 is measurably not the limit."""
    data = make_problem(3, 9, 2, seed=511)
    data = Problem(data.X, data.Y * [0.0, 1.0], data.X_test)
    post = lbnn.Network((4,)).condition(data.X, data.Y, math.inf, target_error=0.01)
    values = [TwoOutputLattice(data, 4, beta).log_evidence for beta in (1e6, 1e8, 1e10, 1e12)]
    steps = np.diff(values)
    np.testing.assert_allclose(steps[1:] / steps[:-1], 0.1, rtol=0.05)
    limit = values[-1] + steps[-1] / 9  # the rest of the geometric series
    assert_agrees(post.log_evidence, post.log_evidence_error, limit, degrees_of_freedom=REPLICATE_FREEDOM)
    assert post.log_evidence_error < 0.01


def test_deficient_primal_and_dual_agree() -> None:
    """Q = p < n_d: the primal problem is deficient, the dual one is not."""
    data = make_problem(2, 8, 4, seed=510)
    primal = network((8,)).condition(data.X, data.Y, math.inf, engine="importance", target_error=0.02)
    dual = network((8,)).condition(data.X, data.Y, math.inf, engine="dual", target_error=0.02)
    options = {"comparisons": 33, "degrees_of_freedom": REPLICATE_FREEDOM}
    error = math.hypot(primal.log_evidence_error, dual.log_evidence_error)
    assert_agrees(primal.log_evidence, error, dual.log_evidence, **options)
    for fn in (lambda L: L, np.linalg.inv):
        (value, value_error), (other, other_error) = (
            post.scale.expect_with_error(fn) for post in (primal, dual)
        )
        assert_agrees(value, combined(value_error, other_error), other, **options)


def test_dual_does_not_apply_to_deficient_example_rank() -> None:
    with pytest.raises(ValueError, match="engine 'dual' does not apply"):
        lbnn.Network((9,)).condition(DATA.X, targets_of_rank(2), math.inf, engine="dual")


@pytest.mark.parametrize("widths", [(5,), (8,), (6, 9)], ids=str)
def test_zero_targets_by_sampling_agree_with_quadrature(widths: tuple[int, ...]) -> None:
    """One output, y = 0: everything is in the tilted prior; closed forms."""
    data = make_problem(4, 9, seed=512)
    exact = network(widths).condition(data.X, np.zeros(4), math.inf)
    post = network(widths).condition(data.X, np.zeros(4), math.inf, engine="importance", target_error=0.004)
    options = {"comparisons": 6, "degrees_of_freedom": REPLICATE_FREEDOM}
    assert_agrees(post.log_evidence, post.log_evidence_error, exact.log_evidence, **options)
    assert post.log_evidence_error < 4e-3
    value, error = post.scale.expect_with_error(lambda s: s)
    assert_agrees(value, error, exact.scale.mean, **options)
    shapes = np.array(widths) / 2
    closed = np.prod((shapes - 2) / shapes) * math.prod(VARIANCES[1 : len(widths) + 1])
    assert exact.scale.mean == pytest.approx(closed, rel=1e-9)  # χ² of n − p degrees of freedom over n


@pytest.mark.parametrize("name", DEFICIENT)
def test_inverse_mean_of_deficient_posteriors(name: str) -> None:
    """E L⁻¹ exists from n_d + p − q + 2 units on; below it is infinite on the diagonal."""
    widths, rank = DEFICIENT[name]
    exists = min(widths) >= 7 - rank + 2
    inverse = deficient(name, math.inf)[1].scale.inverse_mean
    assert np.isfinite(inverse).all() == exists
    just_below = lbnn.Network((7 - rank + 1,)).condition(DATA.X, targets_of_rank(rank), math.inf)
    assert np.isinf(np.diag(just_below.scale.inverse_mean)).all()


@pytest.mark.parametrize("name", [*DEFICIENT, "full rank", "fewer examples"])
def test_sampled_weights_interpolate(name: str) -> None:
    """W_d ⋯ W_1 X is Y for every draw, and its scale has the mean of the measure."""
    if name in DEFICIENT:
        Y, post = deficient(name, math.inf)
        data = Problem(DATA.X, Y, DATA.X_test)
    else:
        data, _, post = case("wide" if name == "full rank" else "p below n_d")
    weights = post.sample_weights(2000, 513)
    outputs = weight_space.network_outputs(data.X, weights)
    size = max(1.0, np.abs(data.Y).max())
    np.testing.assert_allclose(outputs, np.broadcast_to(data.Y, outputs.shape), atol=1e-5 * size)
    scales = weight_space.scale_matrix(weights)
    error = combined(scales.std(axis=0) / math.sqrt(1000), post.scale.mean_error)
    assert_agrees(scales.mean(axis=0), error, post.scale.mean, comparisons=6 * 25)


# ---------------------------------------------------------------- deep evidence


@pytest.mark.parametrize("widths", [(4,), (5, 3), (4, 7, 6), (1, 2), (30, 40, 50)], ids=str)
def test_one_output_has_one_more_gamma_factor(widths: tuple[int, ...]) -> None:
    """y = √λ z: ‖G^{−½}y‖² is λ χ²(p), a product of Gammas with one more factor, uniform on the sphere."""
    p = 4
    data = make_problem(p, 9, seed=514)
    net = lbnn.Network(widths, prior_variances=(*VARIANCES, 1.1)[: len(widths) + 1])
    post = net.condition(data.X, data.Y, math.inf)
    gram = VARIANCES[0] * data.gram
    square = float(data.Y @ np.linalg.solve(gram, data.Y))
    law = GammaProduct((*widths, p), variance=p * math.prod(net.prior_variances[1:]))
    log_sphere = math.log(2) + p / 2 * math.log(math.pi) - math.lgamma(p / 2)  # area
    # density of s = r²: f(s) ds = area r^{p−1} dr · p(y);  log-density is in x = log s
    log_radial = law.log_density(np.array([math.log(square)]))[0] - math.log(square) + math.log(2)
    expected = log_radial - log_sphere - (p / 2 - 1) * math.log(square) - 0.5 * np.linalg.slogdet(gram)[1]
    assert post.log_evidence == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("widths", [(4,), (5, 3), (4, 7, 6)], ids=str)
def test_one_output_is_a_meijer_g_function(widths: tuple[int, ...]) -> None:
    """E λ^{−p/2} e^{−s/2λ} by mpmath: Π Γ(n/2)⁻¹ G^{d,0}_{0,d}(z | n_ℓ/2, p/2) up to powers of z."""
    p = 4
    data = make_problem(p, 9, seed=514)
    post = lbnn.Network(widths).condition(data.X, data.Y, math.inf)
    square = float(data.Y @ np.linalg.solve(data.gram, data.Y))
    shapes = [n / 2 for n in widths]
    with mpmath.workdps(30):
        z = mpmath.mpf(square) / 2 * mpmath.fprod(shapes)
        # s = λ χ²(p): density of the product of Gammas (rate one) at z is G(z | a − 1)/Π Γ(a)
        bessel = mpmath.meijerg([[], []], [[*(a - 1 for a in shapes), mpmath.mpf(p) / 2 - 1], []], z)
        log_density = mpmath.log(bessel) - sum(mpmath.loggamma(a) for a in [*shapes, p / 2])
        log_radial = float(log_density + mpmath.log(mpmath.fprod(shapes) / 2))
    log_sphere = math.log(2) + p / 2 * math.log(math.pi) - math.lgamma(p / 2)
    expected = log_radial + math.log(2) - log_sphere - (p / 2 - 1) * math.log(square)
    expected -= 0.5 * np.linalg.slogdet(data.gram)[1]
    assert post.log_evidence == pytest.approx(expected, rel=1e-10)


def brute_force(
    F: Array, gram: Array, widths: tuple[int, ...], variances: tuple[float, ...], size: int, seed: int
) -> tuple[float, float, Array, Array]:
    """log E_ϖ MN(F; 0, G, L), its error, E L and its error: L from weights W_2..W_d of the prior."""
    rng, (p, outputs) = np.random.default_rng(seed), F.shape
    sizes, factor = (*widths, outputs), np.broadcast_to(np.eye(outputs), (size, outputs, outputs))
    for fan_in, fan_out, variance in zip(sizes[-2::-1], sizes[:0:-1], variances[::-1], strict=True):
        factor = factor @ (math.sqrt(variance / fan_in) * rng.standard_normal((size, fan_out, fan_in)))
    scales = factor @ factor.swapaxes(1, 2)
    statistic = F.T @ np.linalg.solve(gram, F)
    exponent = np.trace(np.linalg.solve(scales, np.broadcast_to(statistic, scales.shape)), axis1=1, axis2=2)
    log_terms = -0.5 * (p * np.linalg.slogdet(scales)[1] + exponent)
    log_terms -= 0.5 * (p * outputs * math.log(2 * math.pi) + outputs * np.linalg.slogdet(gram)[1])
    terms = np.exp(log_terms - log_terms.max())
    shares = terms / terms.sum()
    mean = np.tensordot(shares, scales, axes=1)
    mean_error = np.sqrt(np.tensordot(shares**2, (scales - mean) ** 2, axes=1))
    error = terms.std() / terms.mean() / math.sqrt(size)
    return math.log(terms.mean()) + float(log_terms.max()), error, mean, mean_error


@pytest.mark.parametrize("widths", [(5, 4), (3, 6), (4, 5, 4)], ids=str)
def test_two_outputs_deep_against_prior_weights(widths: tuple[int, ...]) -> None:
    """Depth three and four: evidence and E L by weights of the prior, within errors."""
    data = make_problem(3, 7, 2, seed=515)
    variances = (*VARIANCES, 1.2)[: len(widths) + 1]
    net = lbnn.Network(widths, prior_variances=variances)
    post = net.condition(data.X, data.Y, math.inf, target_error=0.02)
    value, error, mean, mean_error = brute_force(
        data.Y, VARIANCES[0] * data.gram, widths, variances[1:], 200_000, 516
    )
    options = {"comparisons": 15, "degrees_of_freedom": REPLICATE_FREEDOM}
    assert_agrees(post.log_evidence, math.hypot(post.log_evidence_error, error), value, **options)
    assert math.hypot(post.log_evidence_error, error) < 0.03
    assert_agrees(post.scale.mean, combined(post.scale.mean_error, mean_error), mean, **options)


@pytest.mark.slow
def test_two_outputs_deep_against_gibbs_chains() -> None:
    """Weight-space chains at β = 300 and the posterior at zero temperature differ by O(1/β) only."""
    data = make_problem(3, 7, 2, seed=517, signal=1.5)
    post = lbnn.Network((5, 4)).condition(data.X, data.Y, math.inf, target_error=0.02)
    draws = weight_space.sample_posterior(
        data.X, data.Y, (5, 4), 300.0, chains=300, sweeps=400, burn_in=200, seed=518, X_test=data.X_test
    )
    assert weight_space.split_r_hat(draws.scale).max() < 1.1
    mean, error = weight_space.chain_mean_and_error(draws.scale)
    finite = lbnn.Network((5, 4)).condition(data.X, data.Y, 300.0, target_error=0.02)
    options = {"comparisons": 8, "degrees_of_freedom": REPLICATE_FREEDOM}
    assert_agrees(finite.scale.mean, combined(finite.scale.mean_error, error), mean, **options)
    shift = finite.scale.mean - post.scale.mean  # the same draws: a small and certain correction
    assert_agrees(post.scale.mean + shift, combined(post.scale.mean_error, error), mean, **options)
    assert np.abs(shift).max() < 0.1


# ---------------------------------------------------------------- the function-space prior


@pytest.mark.parametrize("widths", [(6,), (5, 6)], ids=str)
def test_prior_density_is_the_zero_temperature_evidence(widths: tuple[int, ...]) -> None:
    """net.prior(X).log_density(F), the evidence of F at β = ∞, and brute force over prior weights."""
    data = make_problem(3, 7, 2, seed=519)
    net = network(widths)
    F = data.Y
    density = net.prior(data.X, outputs=2, target_error=0.01).log_density(F)
    post = net.condition(data.X, F, math.inf, target_error=0.02)
    value, error, _, _ = brute_force(
        F, VARIANCES[0] * data.gram, widths, VARIANCES[1 : len(widths) + 1], 200_000, 520
    )
    options = {"comparisons": 6, "degrees_of_freedom": REPLICATE_FREEDOM}
    assert_agrees(post.log_evidence, math.hypot(post.log_evidence_error, error), value, **options)
    # the density carries no stated error: from the spread of independent seeds
    runs = [net.prior(data.X, outputs=2, target_error=0.01, seed=seed).log_density(F) for seed in range(8)]
    spread = float(np.std(runs, ddof=1))
    assert_agrees(np.mean(runs), math.hypot(spread / math.sqrt(8), error), value, **options)
    assert_agrees(density, math.hypot(spread, post.log_evidence_error), post.log_evidence, **options)


def test_prior_density_of_two_outputs_is_the_lattice_s() -> None:
    """Depth two: the zero-temperature lattice is deterministic."""
    data = make_problem(3, 7, 2, seed=519)
    exact = TwoOutputLattice(data, 6, math.inf).log_evidence
    runs = [
        lbnn.Network((6,)).prior(data.X, outputs=2, target_error=0.01, seed=seed).log_density(data.Y)
        for seed in range(8)
    ]
    assert_agrees(np.mean(runs), np.std(runs, ddof=1) / math.sqrt(8), exact, degrees_of_freedom=7)


@pytest.mark.parametrize("widths", [(), (3,), (2, 4)], ids=str)
def test_prior_density_of_one_output_integrates_to_one(widths: tuple[int, ...]) -> None:
    """One example: over log |f|, by the trapezoid rule; deterministic."""
    x = np.random.default_rng(521).standard_normal((1, 5))
    prior = network(widths).prior(x)
    t = np.arange(-40, 6.0, 0.2)
    values = np.array([math.exp(prior.log_density([math.exp(s)]) + s) for s in t])
    assert 2 * 0.2 * values.sum() == pytest.approx(1, abs=1e-9)


def test_prior_density_of_two_outputs_integrates_to_one() -> None:
    """One example, two outputs: the density only depends on |F|."""
    x = np.random.default_rng(522).standard_normal((1, 5))
    prior = network((6,)).prior(x, outputs=2, target_error=0.01)
    t = np.arange(-6, 3.0, 0.1)
    values = np.array([math.exp(prior.log_density([[math.exp(s), 0.0]]) + 2 * s) for s in t])
    assert 2 * math.pi * 0.1 * values.sum() == pytest.approx(1, abs=1e-3)
