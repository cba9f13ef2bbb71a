"""Several outputs: engines that draw against a lattice, weight-space chains, quadrature and each other."""

from __future__ import annotations

import math
import tracemalloc
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn.engines import run as engine_run
from lbnn.engines.laws import SampledLaw
from lbnn.engines.policy import POLICY
from tests.helpers import lattice
from tests.helpers.lattice import AtomMixture, TwoOutputLattice, combined
from tests.helpers.problems import Array, Problem, make_problem, random_rotation
from tests.referees import kronecker
from tests.referees.statistics import assert_agrees

REPLICATE_FREEDOM = 7  # errors come from eight replicates
ISLAND_FREEDOM = 15  # ... or from sixteen islands


def run(
    widths: tuple[int, ...], data: Problem, beta: float, variances: tuple[float, ...] | None = None, **kw: Any
) -> lbnn.Posterior:
    return lbnn.Network(widths, prior_variances=variances).condition(data.X, data.Y, beta, **kw)


def freedom(post: lbnn.Posterior) -> int:
    return REPLICATE_FREEDOM if "importance" in post.diagnostics.engine else ISLAND_FREEDOM


# ---------------------------------------------------------------- (a) a lattice for two outputs

LATTICES = {
    "warm": TwoOutputLattice(make_problem(5, 8, 2, seed=201), 6, 4.0),
    "zero temperature": TwoOutputLattice(make_problem(4, 7, 2, seed=202), 5, math.inf),
    "narrow": TwoOutputLattice(make_problem(6, 8, 2, seed=203, signal=2.0), 2, 10.0),
}


@pytest.mark.parametrize("name", LATTICES)
def test_lattice_has_converged(name: str) -> None:
    """Halving the number of nodes changes nothing: the referee is exact to 1e-6."""
    fine = LATTICES[name]
    coarse = TwoOutputLattice(fine.data, fine.width, fine.beta, nodes=60)
    assert abs(fine.log_evidence - coarse.log_evidence) < 1e-6
    np.testing.assert_allclose(fine.mean, coarse.mean, rtol=1e-6)
    np.testing.assert_allclose(fine.predictive[1], coarse.predictive[1], rtol=1e-6)


@pytest.mark.parametrize("name", LATTICES)
def test_lattice_has_the_paper_s_likelihood(name: str) -> None:
    """Its two-by-two algebra against dense Kronecker products."""
    grid = LATTICES[name]
    for log_first, log_second, below in [(0.1, -0.3, 0.4), (-1.0, 0.5, -0.8)]:
        C = np.array([[math.exp(log_first), 0.0], [below, math.exp(log_second)]])
        args = C @ C.T, grid.data.gram, grid.data.columns
        exact = kronecker.log_likelihood(*args, grid.beta)
        point = (np.array([value]) for value in (log_first, log_second, below))
        np.testing.assert_allclose(grid._log_likelihood(*point), exact, rtol=1e-12)


@pytest.mark.parametrize("engine", ["importance", "smc"])
@pytest.mark.parametrize("name", LATTICES)
def test_evidence_and_scale_against_the_lattice(name: str, engine: str) -> None:
    """Log evidence, E L and E L² within the stated errors, which are small."""
    grid = LATTICES[name]
    post = run((grid.width,), grid.data, grid.beta, engine=engine, target_error=0.02)
    exact = np.array([grid.log_evidence]), grid.mean, np.tensordot(grid.weights, grid.scales @ grid.scales, 1)
    second, second_error = post.scale.expect_with_error(lambda L: L @ L)
    found = np.array([post.log_evidence]), post.scale.mean, second
    errors = np.array([post.log_evidence_error]), post.scale.mean_error, second_error
    for value, error, truth in zip(found, errors, exact, strict=True):
        assert_agrees(value, error, truth, comparisons=54, degrees_of_freedom=freedom(post))
    assert post.log_evidence_error < 0.02
    assert np.max(post.scale.mean_error) < 0.03 * np.trace(grid.mean)


@pytest.mark.parametrize("name", LATTICES)
def test_averages_over_seeds_converge_to_the_lattice(name: str) -> None:
    """Sixteen seeds together: no bias beyond 1e-3 of E L, of the predictive covariance or in log evidence."""
    grid = LATTICES[name]
    posts = [run((grid.width,), grid.data, grid.beta, target_error=0.02, seed=s) for s in range(16)]
    predictives = [post.predict(grid.data.X_test) for post in posts]
    scale = np.trace(grid.mean)
    assert np.abs(np.mean([post.scale.mean for post in posts], axis=0) - grid.mean).max() < 2e-3 * scale
    mean, covariance = grid.predictive
    found = np.mean([pred.covariance for pred in predictives], axis=0)
    assert np.abs(found - covariance).max() < 2e-3 * np.abs(covariance).max()
    assert np.abs(np.mean([pred.mean for pred in predictives], axis=0) - mean).max() < 1e-3
    assert abs(np.mean([post.log_evidence for post in posts]) - grid.log_evidence) < 5e-3


def coverage_of(posts: list[lbnn.Posterior], grid: TwoOutputLattice) -> tuple[float, float]:
    """Share of runs whose log evidence, and tr E L, are within two stated errors of the truth."""
    evidence = [abs(p.log_evidence - grid.log_evidence) < 2 * p.log_evidence_error for p in posts]
    traces = [p.scale.expect_with_error(np.trace) for p in posts]
    trace = [abs(value - np.trace(grid.mean)) < 2 * error for value, error in traces]
    return float(np.mean(evidence)), float(np.mean(trace))


@pytest.mark.parametrize(
    "name", [name if name == "warm" else pytest.param(name, marks=pytest.mark.slow) for name in LATTICES]
)
def test_stated_errors_cover_the_lattice(name: str) -> None:
    """150 seeds as users run them: two errors cover as often as for a t law with seven degrees of freedom."""
    grid = LATTICES[name]
    posts = [run((grid.width,), grid.data, grid.beta, seed=seed) for seed in range(150)]
    nominal = 1 - 2 * stats.t.sf(2, REPLICATE_FREEDOM)
    least = stats.binom.ppf(1e-3 / 6, 150, nominal) / 150
    coverage = coverage_of(posts, grid)
    assert min(coverage) >= least, f"coverage of evidence and trace {coverage}, nominal {nominal:.3f}"


def test_layer_variances_against_the_lattice() -> None:
    """σ_1² multiplies the Gram matrix, σ_2² the scale."""
    data, variances = make_problem(5, 8, 2, seed=204), (0.6, 1.8)
    post = run((4,), data, 4.0, variances)
    scaled = Problem(math.sqrt(0.6) * data.X, data.Y, math.sqrt(0.6) * data.X_test)
    grid = TwoOutputLattice(scaled, 4, 4.0, variance=1.8)
    error = post.log_evidence_error
    assert_agrees(post.log_evidence, error, grid.log_evidence, degrees_of_freedom=REPLICATE_FREEDOM)
    assert_agrees(
        post.scale.mean, post.scale.mean_error, grid.mean, degrees_of_freedom=REPLICATE_FREEDOM, comparisons=5
    )


@pytest.mark.parametrize("width", [5, 8])
def test_zero_temperature_with_targets_of_deficient_rank(width: int) -> None:
    """Y = y cᵀ of rank one: the lattice wants the zero output first, the library any direction c."""
    base = make_problem(3, 7, seed=205)
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    Y = np.stack([np.zeros(3), base.Y], axis=1)
    grid = TwoOutputLattice(Problem(base.X, Y, base.X_test), width, math.inf)
    post = run((width,), Problem(base.X, Y @ turn, base.X_test), math.inf, target_error=0.02)
    options = {"comparisons": 12, "degrees_of_freedom": freedom(post)}
    assert_agrees(post.log_evidence, post.log_evidence_error, grid.log_evidence, **options)
    assert_agrees(post.scale.mean, post.scale.mean_error, turn.T @ grid.mean @ turn, **options)
    assert np.isfinite(post.scale.inverse_mean).all() == (width >= 6)  # n_1 ≥ n_d + p − q + 2


# ---------------------------------------------------------------- (b) weight-space Gibbs chains

GIBBS = {
    "two outputs": ((4,), 2, None),
    "three layers, variances": ((4, 5), 3, (1.5, 0.6, 2.0)),
    "four layers": ((5, 4, 4), 2, None),
    "bottleneck": ((5, 2, 4), 3, None),
}
GIBBS_SEEDS = 6


def library_functional(post: lbnn.Posterior, data: Problem, depth: int) -> Array:
    """F̂, F̂F̂ᵀ, K_1..K_{d−1}, L and L² as the library has them: `lattice.weight_functional` less the norms."""
    pred = post.predict(data.X_test)
    mean = pred.mean.ravel()
    second = pred.covariance.reshape(len(mean), -1) + np.outer(mean, mean)
    kernels = [post.feature_kernel(layer=layer) for layer in range(1, depth)]
    parts = [mean, second, *kernels, post.scale.mean, post.scale.expect(lambda L: L @ L)]
    return np.concatenate([np.ravel(part) for part in parts])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        if name in ("three layers, variances", "four layers", "bottleneck")
        else name
        for name in GIBBS
    ],
)
def test_everything_against_gibbs_chains_over_the_weights(name: str) -> None:
    """Predictive moments, the kernel of every layer, and the scale: both Monte Carlo errors combined."""
    widths, outputs, variances = GIBBS[name]
    data, depth = make_problem(4, 6, outputs, seed=210, points=2, signal=1.5), len(widths) + 1
    chains, chains_error = lattice.gibbs_functionals(
        data, widths, 4.0, lattice.weight_functional(data), seed=211, prior_variances=variances
    )
    runs = np.stack(
        [
            library_functional(run(widths, data, 4.0, variances, seed=seed), data, depth)
            for seed in range(GIBBS_SEEDS)
        ]
    )
    count = runs.shape[1]
    assert len(chains) == count + depth
    error = combined(runs.std(0, ddof=1) / math.sqrt(GIBBS_SEEDS), chains_error[:count])
    assert_agrees(runs.mean(0), error, chains[:count], comparisons=4 * count, degrees_of_freedom=50)
    assert np.median(error / (np.abs(chains[:count]) + 0.1)) < 0.02


# ---------------------------------------------------------------- (c) one output, three engines

ONE_OUTPUT = [((4,), 4.0), ((5, 3), 20.0), ((3, 4, 3), math.inf)]


@pytest.mark.parametrize("engine", ["importance", "smc"])
@pytest.mark.parametrize(("widths", "beta"), ONE_OUTPUT, ids=str)
def test_one_output_by_sampling_agrees_with_quadrature(
    widths: tuple[int, ...], beta: float, engine: str
) -> None:
    """Evidence, moments of λ, and the predictive, within the stated errors."""
    data = make_problem(5, 8, seed=220)
    exact, post = run(widths, data, beta), run(widths, data, beta, engine=engine)
    assert exact.diagnostics.engine == "quadrature"
    assert post.diagnostics.engine == engine
    freedoms = {"comparisons": 60, "degrees_of_freedom": freedom(post)}
    assert_agrees(post.log_evidence, post.log_evidence_error, exact.log_evidence, **freedoms)
    for fn in (lambda s: s, np.log, np.sqrt):
        assert_agrees(*post.scale.expect_with_error(fn), exact.scale.expect(fn), **freedoms)
    if math.isfinite(beta):
        means = lambda s: kronecker.mu_lambda(s, data.gram, data.cross, data.Y, beta)  # noqa: E731
        mean, error = post.scale.expect_with_error(means)
        np.testing.assert_allclose(post.predict(data.X_test).mean, mean, rtol=1e-9)
        assert_agrees(mean, error, exact.predict(data.X_test).mean, **freedoms)
    np.testing.assert_allclose(
        post.predict(data.X_test).covariance,
        exact.predict(data.X_test).covariance,
        rtol=0.1,
        atol=0.1 * exact.predict(data.X_test).variance.max(),
    )


# ---------------------------------------------------------------- (d) engines, limits, symmetries

PAIRS = [((6,), 3, 4.0), ((5, 6), 2, 20.0), ((6, 2), 3, 4.0), ((6, 5), 3, math.inf)]


@pytest.mark.parametrize(("widths", "outputs", "beta"), PAIRS, ids=str)
def test_importance_sampling_and_sequential_monte_carlo_agree(
    widths: tuple[int, ...], outputs: int, beta: float
) -> None:
    data = make_problem(6, 9, outputs, seed=230)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)  # agreement within errors is the question here
        first = run(widths, data, beta, engine="importance")
    second = run(widths, data, beta, engine="smc")
    assert first.diagnostics.pareto_k is not None
    assert second.diagnostics.stages > 0
    error = math.hypot(first.log_evidence_error, second.log_evidence_error)
    assert_agrees(first.log_evidence, error, second.log_evidence, comparisons=40, degrees_of_freedom=12)
    assert_agrees(
        first.scale.mean,
        combined(first.scale.mean_error, second.scale.mean_error),
        second.scale.mean,
        comparisons=40,
        degrees_of_freedom=12,
    )


def test_wide_networks_are_gaussian_processes() -> None:
    """Deviations of evidence, mean and covariance from depth one fall like 1/n."""
    data = make_problem(5, 8, 2, seed=231)
    limit = run((), data, 4.0)
    gaps = []
    for width in (1_000, 100_000):
        post = run((width, width), data, 4.0)
        pred, flat = post.predict(data.X_test), limit.predict(data.X_test)
        gaps.append(
            [
                abs(post.log_evidence - limit.log_evidence),
                np.abs(pred.mean - flat.mean).max(),
                np.abs(pred.covariance - flat.covariance).max(),
                np.abs(post.feature_kernel(layer=2) - data.gram).max(),
            ]
        )
    assert max(gaps[0]) < 0.02
    assert gaps[1][0] < 2e-3 + 4 * post.log_evidence_error  # a Monte Carlo estimate
    assert max(gaps[1][1:]) < 2e-3
    assert gaps[1][0] < 0.05 * gaps[0][0] + 3 * post.log_evidence_error


def test_rotated_outputs_rotate_the_answers() -> None:
    """Y R has the evidence of Y, scale RᵀLR, means F R; a permutation is a rotation."""
    data = make_problem(5, 8, 3, seed=232)
    post = run((5, 6), data, 4.0)
    for rotation in (random_rotation(3, 233), np.eye(3)[[2, 0, 1]]):
        turned = run((5, 6), Problem(data.X, data.Y @ rotation, data.X_test), 4.0, seed=1)
        error = math.hypot(post.log_evidence_error, turned.log_evidence_error)
        assert_agrees(turned.log_evidence, error, post.log_evidence, comparisons=40, degrees_of_freedom=12)
        _, scale_error = post.scale.expect_with_error(lambda L, R=rotation: R.T @ L @ R)
        assert_agrees(
            turned.scale.mean,
            combined(turned.scale.mean_error, scale_error),
            rotation.T @ post.scale.mean @ rotation,
            comparisons=40,
            degrees_of_freedom=12,
        )
        pred, turned_pred = post.predict(data.X_test), turned.predict(data.X_test)
        np.testing.assert_allclose(turned_pred.mean, pred.mean @ rotation, atol=0.02)


@pytest.mark.parametrize("engine", ["importance", "smc", "dual"])
def test_same_seed_same_answer_other_seed_other_answer(engine: str) -> None:
    data = make_problem(4, 8, 3, seed=234)
    posts = [run((5,), data, 4.0, engine=engine, seed=seed) for seed in (3, 3, 4)]
    assert posts[0].log_evidence == posts[1].log_evidence
    np.testing.assert_array_equal(posts[0].scale.atoms, posts[1].scale.atoms)
    np.testing.assert_array_equal(posts[0].scale.weights, posts[1].scale.weights)
    assert posts[0].log_evidence != posts[2].log_evidence
    error = math.hypot(posts[0].log_evidence_error, posts[2].log_evidence_error)
    assert_agrees(posts[0].log_evidence, error, posts[2].log_evidence, degrees_of_freedom=12)


def test_gram_and_inputs_give_the_same_posterior() -> None:
    """The maths needs X through its Gram matrix only; same seed, same numbers."""
    data = make_problem(5, 8, 2, seed=235)
    post = run((5, 4), data, 4.0)
    from_gram = lbnn.Network((5, 4)).condition_gram(data.gram, data.Y, 4.0)
    assert post.log_evidence == pytest.approx(from_gram.log_evidence, abs=1e-9)
    pred, gram_pred = (
        post.predict(data.X_test),
        from_gram.predict(cross_gram=data.cross.T, test_gram=data.test_gram),
    )
    np.testing.assert_allclose(pred.covariance, gram_pred.covariance, atol=1e-8)
    np.testing.assert_allclose(post.feature_kernel(layer=2), from_gram.feature_kernel(layer=2), atol=1e-8)


def test_more_examples_than_inputs() -> None:
    """A Gram matrix of rank n0 < p: evidence and mean as from the dense mixture over the same atoms."""
    data = make_problem(9, 4, 2, seed=236)
    post = run((5,), data, 4.0)
    mixture = AtomMixture(data, 4.0, post.scale.atoms, post.scale.weights)
    mean, covariance = mixture.moments()
    np.testing.assert_allclose(post.predict(data.X_test).mean, mean, atol=1e-9)
    np.testing.assert_allclose(post.predict(data.X_test).covariance, covariance, atol=1e-9)
    grid = TwoOutputLattice(data, 5, 4.0)
    assert_agrees(
        post.log_evidence, post.log_evidence_error, grid.log_evidence, degrees_of_freedom=freedom(post)
    )


# ---------------------------------------------------------------- (e) the predictive

DATA = make_problem(4, 9, 3, seed=240, points=4)
POST = run((6, 5), DATA, 4.0, target_error=0.02)
PRED = POST.predict(DATA.X_test)
MIXTURE = AtomMixture(DATA, 4.0, POST.scale.atoms, POST.scale.weights)


def test_moments_over_the_atoms() -> None:
    mean, covariance = MIXTURE.moments()
    np.testing.assert_allclose(PRED.mean, mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(PRED.covariance, covariance, rtol=1e-8, atol=1e-11)


def test_covariance_of_one_point_is_a_block_of_the_whole() -> None:
    for pred, noise in ((PRED, 0.0), (PRED.with_noise(), 0.25)):
        blocks = np.einsum("mjmk->mjk", pred.covariance)
        np.testing.assert_allclose(pred.output_covariance, blocks, rtol=1e-11)
        np.testing.assert_allclose(pred.variance, np.diagonal(blocks, axis1=1, axis2=2), rtol=1e-11)
        np.testing.assert_allclose(blocks, PRED.output_covariance + noise * np.eye(3), rtol=1e-11)


def test_mean_and_kernel_over_the_atoms_by_the_paper_s_formulas() -> None:
    """⟨K⟩ = G + E Δ_L / n_1 with dense Kronecker products."""
    exact = kronecker.average_kernel(POST.scale.atoms[:200], np.full(200, 1 / 200), DATA.gram, DATA.Y, 4.0, 6)
    few = lbnn.ScaleMeasure(POST.scale.atoms[:200], np.full(200, 1 / 200), False)
    post = lbnn.Posterior(
        POST.prior, POST.spectrum, POST.noise, lbnn.engines.ScaleInference(few, 0.0, 0.0, POST.diagnostics)
    )
    np.testing.assert_allclose(post.feature_kernel(), exact, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("noisy", [False, True])
def test_sample_moments(noisy: bool) -> None:
    pred = PRED.with_noise() if noisy else PRED
    draws = pred.sample(100_000, 241).reshape(100_000, -1)
    error = draws.std(0) / math.sqrt(len(draws))
    assert_agrees(draws.mean(0), error, pred.mean.ravel(), comparisons=300)
    centred = draws - pred.mean.ravel()
    products = centred[:, :, None] * centred[:, None, :]
    error = products.std(0) / math.sqrt(len(draws))
    assert_agrees(products.mean(0), error, pred.covariance.reshape(12, 12), comparisons=300)


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_log_density_over_the_atoms(noise: float) -> None:
    """Against one dense Gaussian for every atom, near the mean and some deviations off."""
    pred = replace(PRED, parts=(replace(PRED.parts[0], evidence=None),))  # the draws and nothing else
    pred = pred.with_noise() if noise else pred
    rng = np.random.default_rng(242)
    for distance in (0.0, 0.5, 1.0):
        F = pred.mean + distance * np.sqrt(pred.variance) * rng.standard_normal(pred.shape)
        assert pred.log_density(F) == pytest.approx(MIXTURE.log_density(F, noise), abs=1e-8)


@pytest.mark.parametrize("q", [0.001, 0.3, 0.5, 0.99])
def test_quantiles_over_the_atoms(q: float) -> None:
    for pred, noise in ((PRED, 0.0), (PRED.with_noise(), 0.25)):
        values = pred.quantile(q)
        assert values.shape == (4, 3)
        levels = [[MIXTURE.distribution(values[m, j], m, j, noise) for j in range(3)] for m in range(4)]
        np.testing.assert_allclose(levels, q, rtol=1e-8)


def test_interval_is_a_pair_of_quantiles() -> None:
    low, high = PRED.interval(0.9)
    np.testing.assert_allclose([low, high], PRED.quantile([0.05, 0.95]), rtol=1e-12)


def test_characteristic_function_over_the_atoms() -> None:
    rng = np.random.default_rng(243)
    for size in (0.1, 1.0):
        J = size * rng.standard_normal((4, 3))
        assert PRED.characteristic(J) == pytest.approx(MIXTURE.characteristic(J), abs=1e-10)
        blur = math.exp(-0.125 * float((J**2).sum()))
        assert PRED.with_noise().characteristic(J) == pytest.approx(
            blur * MIXTURE.characteristic(J), abs=1e-10
        )


def test_generating_function_over_the_atoms() -> None:
    """Depth two: finite near zero, infinite beyond the largest eigenvalue n_1 of JᵀRJ."""
    post = run((5,), DATA, 4.0)
    pred = post.predict(DATA.X_test)
    mixture = AtomMixture(DATA, 4.0, post.scale.atoms, post.scale.weights)
    J = 0.5 * np.random.default_rng(244).standard_normal((4, 3))
    assert pred.cgf(J) == pytest.approx(mixture.log_generating_function(J), abs=1e-9)
    assert pred.mgf(J) == pytest.approx(math.exp(pred.cgf(J)), rel=1e-12)
    rest = DATA.test_gram - DATA.cross.T @ np.linalg.solve(DATA.gram, DATA.cross)
    critical = math.sqrt(5 / np.linalg.eigvalsh(J.T @ rest @ J)[-1])
    assert pred.mgf(1.001 * critical * J) == math.inf
    assert PRED.mgf(1e-3 * J) == math.inf  # deeper networks: only where RJ = 0


def test_tilts_beyond_the_atoms_are_announced() -> None:
    """Just inside the domain a few atoms carry the whole average."""
    pred = run((5,), DATA, 4.0).predict(DATA.X_test)
    J = np.random.default_rng(244).standard_normal((4, 3))
    rest = DATA.test_gram - DATA.cross.T @ np.linalg.solve(DATA.gram, DATA.cross)
    critical = math.sqrt(5 / np.linalg.eigvalsh(J.T @ rest @ J)[-1])
    with pytest.warns(lbnn.AccuracyWarning, match="averages rest on fewer than 100 effective draws"):
        assert math.isfinite(pred.cgf(0.99 * critical * J))


# ------------------------------------------ densities far away


def spy_on_ratios(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    original = SampledLaw.log_ratio

    def log_ratio(self: SampledLaw, likelihood: Any) -> float:
        calls.append(1)
        return original(self, likelihood)

    monkeypatch.setattr(SampledLaw, "log_ratio", log_ratio)
    return calls


@pytest.mark.parametrize("distance", [0.5, 6.0])
def test_log_density_is_a_ratio_of_evidences(distance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """p(Ŷ | Y) = p(Y, Ŷ)/p(Y); far away the atoms do not serve and a run of its own does."""
    calls = spy_on_ratios(monkeypatch)
    Y_test = PRED.mean + distance * np.random.default_rng(245).choice([-1.0, 1.0], size=(4, 3))
    found = PRED.with_noise().log_density(Y_test)
    assert bool(calls) == (distance > 1)
    joint = run(
        (6, 5), Problem(np.vstack([DATA.X, DATA.X_test]), np.vstack([DATA.Y, Y_test]), DATA.X_test), 4.0
    )
    # three Monte Carlo estimates enter: the joint evidence, that of the training data, and the library's own
    error = math.hypot(joint.log_evidence_error, POST.log_evidence_error) * math.sqrt(2)
    assert_agrees(
        found, max(error, 0.02), joint.log_evidence - POST.log_evidence, comparisons=2, degrees_of_freedom=12
    )


def joint_lattice(data: Problem, width: int, beta: float, F: Array, noise: float) -> TwoOutputLattice:
    """Evidence of training targets with noise 1/β and of F at the test points with its noise, together."""
    joint = Problem(np.vstack([data.X, data.X_test]), np.vstack([data.Y, F]), data.X_test)
    training = 0.0 if math.isinf(beta) else 1 / beta
    if noise == training:
        return TwoOutputLattice(joint, width, beta)
    noises = (training,) * len(data.X) + (noise,) * len(F)
    return TwoOutputLattice(joint, width, beta, nodes=48, noises=noises)


FAR = [(4.0, 0.25, 2), pytest.param(4.0, 0.0, 2, marks=pytest.mark.slow), (math.inf, 0.0, 2), (4.0, 0.25, 1)]


@pytest.mark.parametrize(("beta", "noise", "points"), FAR, ids=str)
def test_far_log_density_against_the_lattice(
    beta: float, noise: float, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p(Y, F̂)/p(Y), both by lattices: with noise, noise-free, and at zero temperature."""
    calls = spy_on_ratios(monkeypatch)
    data = make_problem(3, 7, 2, seed=248, points=points)
    post = run((4,), data, beta)
    pred = post.predict(data.X_test).with_noise() if noise else post.predict(data.X_test)
    F = pred.mean + 6 * np.random.default_rng(246).choice([-1.0, 1.0], size=pred.shape)
    exact = joint_lattice(data, 4, beta, F, noise).log_evidence - TwoOutputLattice(data, 4, beta).log_evidence
    assert pred.log_density(F) == pytest.approx(exact, abs=0.1)
    assert calls


@pytest.mark.parametrize("distance", [0.0, 1.0])
def test_noise_free_density_at_fewer_points_than_outputs(distance: float) -> None:
    """Singular scales are then infinitely likely: right to 0.1, or announced."""
    data = make_problem(3, 7, 2, seed=249, points=1)
    pred = run((4,), data, 4.0).predict(data.X_test)
    F = pred.mean + distance
    exact = joint_lattice(data, 4, 4.0, F, 0.0).log_evidence - TwoOutputLattice(data, 4, 4.0).log_evidence
    with warnings.catch_warnings(record=True) as announced:
        warnings.simplefilter("always", lbnn.AccuracyWarning)
        found = pred.log_density(F)
    assert announced or found == pytest.approx(exact, abs=0.1)


# ------------------------------------------ memory


@pytest.mark.slow
def test_memory_is_linear_in_the_number_of_test_points() -> None:
    """p = 2000, p̂ = 10,000, n_d = 10 within 2 GiB: nothing of size p̂² or atoms × p̂ × n_d."""
    rng = np.random.default_rng(247)
    X, X_test = rng.standard_normal((2000, 2500)), rng.standard_normal((10_000, 2500))
    Y = X @ rng.standard_normal((2500, 10)) / 50 + 0.3 * rng.standard_normal((2000, 10))
    post = lbnn.Network((50,)).condition(X, Y, 4.0)
    tracemalloc.start()
    pred = post.predict(X_test)
    shapes = pred.mean.shape, pred.variance.shape, pred.output_covariance.shape
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"peak of predict, mean, variance, output_covariance: {peak / 2**30:.2f} GiB")
    assert shapes == ((10_000, 10), (10_000, 10), (10_000, 10, 10))
    assert peak < 2 * 2**30


# ---------------------------------------------------------------- (f) the prior


def test_prior_moments() -> None:
    """Cov F = σ_1² G ⊗ E L, and E F⁴ = 3 G² E L_jj² with E L_jj² = Π σ⁴ (1 + 2/n)."""
    data, variances = make_problem(3, 5, 2, seed=250), (0.7, 1.6, 1.2)
    prior = lbnn.Network((4, 6), prior_variances=variances).prior(data.X, outputs=2)
    assert (prior.mean == 0).all()
    exact = 0.7 * 1.6 * 1.2 * np.einsum("mn,jk->mjnk", data.gram, np.eye(2))
    np.testing.assert_allclose(prior.covariance, exact, atol=0.06)
    draws = prior.sample(200_000, 251)
    fourth = draws**4
    square = (1.6 * 1.2) ** 2 * (1 + 2 / 4) * (1 + 2 / 6)
    exact_fourth = np.broadcast_to(3 * square * (0.7 * np.diag(data.gram)[:, None]) ** 2, (3, 2))
    np.testing.assert_allclose(fourth.mean(0), exact_fourth, rtol=0.25)


def test_prior_density_is_the_zero_temperature_evidence() -> None:
    """p_d(F | X), three ways: the prior, the evidence at β = ∞, and the lattice."""
    data = make_problem(4, 7, 2, seed=252)
    prior = lbnn.Network((5,)).prior(data.X, outputs=2)
    evidence = run((5,), data, math.inf)
    grid = TwoOutputLattice(data, 5, math.inf)
    assert_agrees(
        evidence.log_evidence,
        evidence.log_evidence_error,
        grid.log_evidence,
        degrees_of_freedom=REPLICATE_FREEDOM,
    )
    factor_error = 0.1  # the prior's own draws: 1024 of them, at least 50 effective
    assert len(prior.parts[0].weights) >= 1024
    assert prior.log_density(data.Y) == pytest.approx(grid.log_evidence, abs=3 * factor_error)


# ---------------------------------------------------------------- (g) diagnostics

HARD = make_problem(20, 30, 2, seed=260)


def test_importance_sampling_that_falls_short_warns_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(POLICY, mixture_work=1e6)  # no draws beyond the rounds of fitting
    monkeypatch.setattr(engine_run, "POLICY", few)
    with pytest.warns(lbnn.AccuracyWarning, match="try engine='smc'"):
        post = run((2,) * 5, HARD, 100.0, engine="importance", target_error=0.004)
    assert not post.diagnostics.ok
    assert post.diagnostics.engine == "importance"
    assert "try engine='smc'" in post.diagnostics.messages[0]


def test_engines_are_named_and_quiet_where_they_serve() -> None:
    data = make_problem(6, 9, 2, seed=261)
    easy = run((30,), data, 4.0)
    assert (easy.diagnostics.engine, easy.diagnostics.ok, easy.diagnostics.messages) == (
        "importance",
        True,
        (),
    )
    assert easy.diagnostics.pareto_k is not None
    assert easy.diagnostics.pareto_k < 0.7
    assert easy.diagnostics.effective_sample_size >= 400
    moved = run((3, 3, 3, 3), data, 4.0, engine="smc")
    assert (moved.diagnostics.engine, moved.diagnostics.ok) == ("smc", True)
    assert moved.diagnostics.pareto_k is None
    assert moved.diagnostics.stages >= 1


def test_automatic_choice() -> None:
    """The four rules, in order."""
    choose = lambda widths, p, n: lbnn.Network(widths).choose_engine(examples=p, outputs=n).engine  # noqa: E731
    assert choose((), 10, 3) == "atom"
    assert choose((5, 5), 10, 1) == "quadrature"
    assert choose((50,), 10, 11) == "dual importance"
    assert choose((5,), 10, 11) == "importance"  # behind a narrow layer rows come first
    assert choose((5,), 10, 10) == "importance"
    assert choose((50, 50), 10, 11) == "dual importance"
    assert lbnn.Network((5,)).choose_engine(examples=4, outputs=9).reason.startswith("more outputs")


def test_smaller_target_error_gives_smaller_errors() -> None:
    data = make_problem(6, 9, 2, seed=262)
    errors = {t: run((4,), data, 4.0, target_error=t).log_evidence_error for t in (0.2, 0.02)}
    assert errors[0.02] < 0.02
    assert errors[0.02] < errors[0.2]


@pytest.mark.parametrize("target_error", [0.0, -0.1, 1.5, math.nan, "small"])
def test_bad_target_error(target_error: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="target_error"):
        run((4,), HARD, 4.0, target_error=target_error)


@pytest.mark.parametrize("engine", ["nuts", "", "quadrature", "atom"])
def test_engine_that_does_not_exist_or_apply(engine: str) -> None:
    with pytest.raises(ValueError, match="engine"):
        run((4,), HARD, 4.0, engine=engine)


def test_dual_engine_needs_a_hidden_layer() -> None:
    with pytest.raises(ValueError, match="'dual' does not apply"):
        run((), HARD, 4.0, engine="dual")


def assert_honest(values: Array, errors: Array, groups: int) -> None:
    """Spread over seeds against stated errors: variance ratio F-distributed, two-sided."""
    ratio = values.var(ddof=1) / np.mean(errors**2)
    law = stats.f(len(values) - 1, len(values) * (groups - 1))
    p_value = 2 * min(law.cdf(ratio), law.sf(ratio))
    assert p_value > 1e-3 / 4, f"variance ratio {ratio:.2f}, p = {p_value:.2g}"


def test_stated_errors_are_honest() -> None:
    """Forty seeds: log evidence and E L[0, 0] scatter as much as their errors say."""
    data = make_problem(5, 8, 2, seed=263)
    posts = [run((5,), data, 4.0, seed=seed, target_error=0.1) for seed in range(40)]
    groups = 8
    evidence = np.array([[post.log_evidence, post.log_evidence_error] for post in posts])
    assert_honest(*evidence.T, groups)
    scale = np.array([[post.scale.mean[0, 0], post.scale.mean_error[0, 0]] for post in posts])
    assert_honest(*scale.T, groups)
    grid = TwoOutputLattice(data, 5, 4.0)
    assert_agrees(evidence[:, 0].mean(), evidence[:, 0].std() / math.sqrt(40), grid.log_evidence)
    assert_agrees(scale[:, 0].mean(), scale[:, 0].std() / math.sqrt(40), grid.mean[0, 0])


def test_rank_of_atoms_is_that_of_the_bottleneck() -> None:
    """Hidden width one: every atom of L has rank one, and the inverse mean is infinite."""
    data = make_problem(5, 8, 3, seed=264)
    post = run((4, 1), data, 4.0)
    assert np.linalg.matrix_rank(post.scale.atoms[:50], tol=1e-9).max() == 1
    assert np.isinf(np.diag(post.scale.inverse_mean)).all()
