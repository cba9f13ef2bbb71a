"""The quadrature over λ: identities that need no quadrature, hard posteriors, draws, and its own limits."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

import lbnn
from lbnn.engines.quadrature import infer_quadrature
from lbnn.likelihood.gaussian import GaussianLikelihood
from tests.helpers.dense_mixture import log_evidence_by_mellin
from tests.helpers.problems import make_problem

DATA = make_problem(5, 8, seed=81)
NETWORKS = [(4,), (1,), (3, 5), (2, 1, 6), (50, 50), (1,) * 12]
networks = pytest.mark.parametrize("widths", NETWORKS, ids=str)


def log_integrand(network: lbnn.Network, gram: np.ndarray, y: np.ndarray, beta: float) -> Callable:
    """Log of π(x) N(y; 0, e^x G + 1/β) from the prior's density and dense algebra, as a function of x."""
    prior = network.scale_prior(1)
    noise = np.eye(len(y)) / beta

    def value(x: float) -> float:
        scale = math.exp(x)
        law = stats.multivariate_normal(cov=scale * gram + noise)
        return float(prior.log_density(scale)) + x + float(law.logpdf(y))

    return value


# ---------------------------------------------------------------- zero temperature without quadrature


@networks
@pytest.mark.parametrize("size", [1e-4, 1.0, 1e3])
def test_zero_temperature_evidence_is_the_density_of_one_more_layer(
    widths: tuple[int, ...], size: float
) -> None:
    """The integral over λ against one Mellin inversion, targets small, typical and large."""
    network, y = lbnn.Network(widths), size * DATA.Y
    post = network.condition(DATA.X, y, math.inf)
    expected = log_evidence_by_mellin(widths, 1.0, DATA.gram, y)
    assert post.log_evidence == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_zero_temperature_evidence_with_prior_variances() -> None:
    """σ_1² is in G, σ_2² σ_3² in λ."""
    network = lbnn.Network((3, 5), (0.4, 2.0, 1.7))
    post = network.condition(DATA.X, DATA.Y, math.inf)
    expected = log_evidence_by_mellin((3, 5), 3.4, 0.4 * DATA.gram, DATA.Y)
    assert post.log_evidence == pytest.approx(expected, rel=1e-11)


@networks
def test_zero_temperature_evidence_is_the_prior_density(widths: tuple[int, ...]) -> None:
    """p(y | X) at β = ∞ is prior(X).log_density(y), the paper's p_d(F | X)."""
    network = lbnn.Network(widths, (0.4, *[1.3] * len(widths)))
    expected = network.condition(DATA.X, DATA.Y, math.inf).log_evidence
    assert network.prior(DATA.X).log_density(DATA.Y) == pytest.approx(expected, rel=1e-11)


def test_prior_density_is_a_meijer_g_function() -> None:
    """One point, two hidden layers: p(F) = √(ab/2πG)/Γ(a)Γ(b) · G³⁰₀₃(F² a b/2G | a−½, b−½, 0), by mpmath."""
    a, b, F, gram = 1.5, 2.5, 0.7, float(DATA.X[0] @ DATA.X[0]) / 8
    with mpmath.workdps(30):
        value = mpmath.meijerg([[], []], [[a - 0.5, b - 0.5, 0], []], F**2 * a * b / (2 * gram))
        value *= mpmath.sqrt(a * b / (2 * mpmath.pi * gram)) / (mpmath.gamma(a) * mpmath.gamma(b))
        expected = float(mpmath.log(value))
    assert lbnn.Network((3, 5)).prior(DATA.X[:1]).log_density([F]) == pytest.approx(expected, rel=1e-11)


# ---------------------------------------------------------------- finite temperature


@pytest.mark.parametrize("beta", [0.1, 10.0, 1e5])
@pytest.mark.parametrize("widths", [(1,), (3, 5), (1, 1, 1)], ids=str)
def test_evidence_and_moments_by_adaptive_quadrature(widths: tuple[int, ...], beta: float) -> None:
    """log p(y), E λ, E λ² and E √λ by Gauss–Kronrod over log λ."""
    network = lbnn.Network(widths)
    post = network.condition(DATA.X, DATA.Y, beta)
    integrand = log_integrand(network, DATA.gram, DATA.Y, beta)

    def moments(x: float) -> np.ndarray:
        return math.exp(integrand(x) - post.log_evidence) * np.exp(x * np.array([0.0, 1.0, 2.0, 0.5]))

    total, _ = integrate.quad_vec(moments, -80.0, 12.0, epsrel=1e-10, epsabs=1e-13)
    assert total[0] == pytest.approx(1.0, rel=1e-9)
    assert post.scale.mean == pytest.approx(total[1], rel=1e-9)
    assert post.scale.expect(lambda scale: scale**2) == pytest.approx(total[2], rel=1e-9)
    assert post.scale.expect(math.sqrt) == pytest.approx(total[3], rel=1e-9)


def bimodal_problem(group: int, square: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues 1 with targets that want λ ~ 30, and 1e12 with targets that want λ < 1e-12."""
    gram = np.diag(np.repeat([1.0, 1e12], group))
    return gram, np.repeat([math.sqrt(square), 1.0], group)


@pytest.mark.parametrize("group", [1, 3, 30])
def test_two_modes_far_apart(group: int) -> None:
    """A posterior with modes at λ ~ 1e-12 and λ ~ 10 under the broad prior of nine layers of width one."""
    gram, y = bimodal_problem(group, 34.3)
    network = lbnn.Network((1,) * 9)
    post = network.condition_gram(gram, y, 1.0)
    x = np.linspace(-120.0, 20.0, 7_001)  # trapezoid: peaks are wider than 0.2, the step is 0.02
    scale = np.exp(x)[:, None]
    variance = 1 + np.diag(gram) * scale
    log_values = network.scale_prior(1).log_density(scale[:, 0]) + x
    log_values += stats.norm.logpdf(y, scale=np.sqrt(variance)).sum(1)
    weights = np.exp(log_values - special.logsumexp(log_values))
    low = weights[x < -12].sum()
    assert 0.05 < low < 0.95, "the problem must have two modes that matter"
    step = 140.0 / 7_000
    assert post.log_evidence == pytest.approx(special.logsumexp(log_values) + math.log(step), rel=1e-10)
    assert post.scale.mean == pytest.approx(weights @ np.exp(x), rel=1e-9)
    smooth = post.scale.expect(lambda value: special.expit(-12 - math.log(value)))
    assert smooth == pytest.approx(weights @ special.expit(-12 - x), rel=1e-9)
    draws = post.scale.sample(20_000, 82)
    assert stats.binomtest(int((draws < math.exp(-12)).sum()), 20_000, low).pvalue > 1e-3 / 3


@pytest.mark.parametrize("widths", [(1,) * 3, (20,) * 5], ids=str)
def test_many_examples_make_a_narrow_posterior(widths: tuple[int, ...]) -> None:
    """p = 300 equal eigenvalues: the likelihood sees ‖y‖² only, so that the trapezoid rule is one line."""
    p, beta = 300, 50.0
    y = np.random.default_rng(83).standard_normal(p)
    network = lbnn.Network(widths)
    post = network.condition_gram(np.eye(p), y, beta)
    centre = math.log(y @ y / p - 1 / beta)
    x = centre + np.linspace(-2.0, 2.0, 4001)
    variance = np.exp(x) + 1 / beta
    log_values = network.scale_prior(1).log_density(np.exp(x)) + x
    log_values -= 0.5 * (p * np.log(2 * np.pi * variance) + y @ y / variance)
    assert post.log_evidence == pytest.approx(special.logsumexp(log_values) + math.log(0.001), rel=1e-12)
    weights = np.exp(log_values - special.logsumexp(log_values))
    assert post.scale.mean == pytest.approx(weights @ np.exp(x), rel=1e-10)


# ---------------------------------------------------------------- draws


@pytest.mark.parametrize("beta", [0.0, 4.0, 1e6, math.inf])
@pytest.mark.parametrize("widths", [(1,), (3, 5), (1,) * 9], ids=str)
def test_draws_of_the_scale_follow_the_quadrature(widths: tuple[int, ...], beta: float) -> None:
    """Kolmogorov–Smirnov against the distribution function of the adaptive integrand on a fine grid."""
    post = lbnn.Network(widths).condition(DATA.X, DATA.Y, beta)
    draws = np.log(post.scale.sample(20_000, 84))
    x = np.linspace(draws.min() - 25.0, draws.max() + 5.0, 4_001)
    log_values = lbnn.Network(widths).scale_prior(1).log_density(np.exp(x)) + x
    if beta:
        values, vectors = np.linalg.eigh(DATA.gram)
        variance = values * np.exp(x)[:, None] + 1 / beta
        log_values = log_values - 0.5 * (np.log(variance) + (vectors.T @ DATA.Y) ** 2 / variance).sum(1)
    density = np.exp(log_values - log_values.max())
    distribution = integrate.cumulative_simpson(density, x=x, initial=0)
    uniform = np.interp(draws, x, distribution / distribution[-1])
    assert stats.kstest(uniform, stats.uniform.cdf).pvalue > 1e-3 / 12
    assert len(np.unique(draws)) == len(draws)


def test_draws_of_the_scale_have_its_tails() -> None:
    """The probability transform of 10⁶ stratified draws is uniform, to 1% in tails of 5e-7."""

    class Stratified(np.random.Generator):
        def random(self, size: int) -> np.ndarray:  # type: ignore[override]
            return (np.arange(size) + 0.5) / size

    post = lbnn.Network((4,)).condition(DATA.X, np.zeros(5), 0.0)
    draws = post.scale.sample(1_000_000, Stratified(np.random.PCG64(0)))
    law = stats.gamma(2.0, scale=0.5)
    np.testing.assert_allclose(law.cdf(draws), (np.arange(1_000_000) + 0.5) / 1e6, rtol=0, atol=2e-6)
    assert law.cdf(draws[0]) == pytest.approx(0.5e-6, rel=1e-2)
    assert law.sf(draws[-1]) == pytest.approx(0.5e-6, rel=1e-2)


def test_same_seed_same_draws_of_the_scale() -> None:
    """An int seed and a Generator of that seed give the same draws."""
    scale = lbnn.Network((4,)).condition(DATA.X, DATA.Y, 2.0).scale
    np.testing.assert_array_equal(scale.sample(9, 5), scale.sample(9, np.random.default_rng(5)))


# ---------------------------------------------------------------- the measure


def test_expect_takes_functions_of_any_shape() -> None:
    """expect of numbers, vectors and matrices; weights are normalised."""
    scale = lbnn.Network((4, 3)).condition(DATA.X, DATA.Y, 2.0).scale
    assert scale.weights.sum() == pytest.approx(1.0, rel=1e-14)
    assert scale.expect(lambda value: 1.0) == pytest.approx(1.0, rel=1e-14)
    both = scale.expect(lambda value: np.array([[value, 1 / value], [1.0, value**2]]))
    assert both[0, 0] == pytest.approx(scale.mean, rel=1e-13)
    assert both[0, 1] == pytest.approx(scale.inverse_mean, rel=1e-13)
    assert both[1, 1] > scale.mean**2


@pytest.mark.parametrize("beta", [0.0, 3.0])
@pytest.mark.parametrize(("widths", "finite"), [((2,), False), ((3,), True), ((9, 2), False), ((9, 3), True)])
def test_inverse_mean_at_finite_temperature(widths: tuple[int, ...], finite: bool, beta: float) -> None:
    """E 1/λ is finite if and only if every width exceeds two: the density falls like λ^{n/2 − 1} at zero."""
    inverse = lbnn.Network(widths).condition(DATA.X, DATA.Y, beta).scale.inverse_mean
    assert math.isfinite(inverse) == finite
    if not finite:
        assert inverse == math.inf


@pytest.mark.parametrize("widths", [(3,), (3, 5), (40, 30)], ids=str)
def test_inverse_mean_of_the_prior(widths: tuple[int, ...]) -> None:
    """β = 0: E 1/λ = Π n/(n − 2) / variance, also where 1/λ has no second moment."""
    network = lbnn.Network(widths, (0.3, 0.5, *[2.0] * (len(widths) - 1)))
    variance = math.prod(network.prior_variances[1:])
    expected = math.prod(n / (n - 2) for n in widths) / variance
    got = network.condition(DATA.X, DATA.Y, 0.0).scale.inverse_mean
    assert got == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("width", "finite"), [(6, False), (7, False), (8, True)])
def test_inverse_mean_at_zero_temperature_with_zero_targets(width: int, finite: bool) -> None:
    """y = 0, p = 5: λ^{(n−p)/2 − 1}, so that E 1/λ needs n > p + 2."""
    inverse = lbnn.Network((width,)).condition(DATA.X, np.zeros(5), math.inf).scale.inverse_mean
    expected = width / (width - 5 - 2) if finite else math.inf
    assert inverse == pytest.approx(expected, rel=1e-11)


def test_inverse_mean_at_zero_temperature() -> None:
    """y ≠ 0 keeps λ from zero at any width; depth two is GIG((n − p)/2, n, yᵀG⁻¹y)."""
    psi = float(DATA.Y @ np.linalg.solve(DATA.gram, DATA.Y))
    law = stats.geninvgauss((1 - 5) / 2, math.sqrt(psi), scale=math.sqrt(psi))
    scale = lbnn.Network((1,)).condition(DATA.X, DATA.Y, math.inf).scale
    assert scale.mean == pytest.approx(law.mean(), rel=1e-9)
    inverse_law = stats.geninvgauss((5 - 1) / 2, math.sqrt(psi), scale=1 / math.sqrt(psi))
    assert scale.inverse_mean == pytest.approx(inverse_law.mean(), rel=1e-9)


# ---------------------------------------------------------------- what it says of itself


@pytest.mark.parametrize(("widths", "engine"), [((), "atom"), ((4,), "quadrature"), ((3, 5), "quadrature")])
def test_diagnostics_name_the_engine(widths: tuple[int, ...], engine: str) -> None:
    """Deterministic engines: infinite effective sample size, no warning; naming them changes nothing."""
    network = lbnn.Network(widths)
    post = network.condition(DATA.X, DATA.Y, 4.0)
    found = post.diagnostics
    assert (found.engine, found.effective_sample_size, found.pareto_k) == (engine, math.inf, None)
    assert (found.ok, found.messages) == (True, ())
    assert post.scale.effective_sample_size == math.inf
    named = network.condition(DATA.X, DATA.Y, 4.0, engine=engine, seed=99)
    assert named.log_evidence == post.log_evidence


def test_a_quadrature_that_does_not_converge_says_so() -> None:
    """200 targets on each of two eigenvalues 1e12 apart are two needles: a warning, and ok is False."""
    gram, y = bimodal_problem(200, 34.2)
    with pytest.warns(lbnn.AccuracyWarning, match="did not converge"):
        post = lbnn.Network((1,) * 9).condition_gram(gram, y, 1.0)
    assert not post.diagnostics.ok
    assert "did not converge" in post.diagnostics.messages[0]


def test_the_higher_of_two_needles_is_not_missed() -> None:
    """10⁴ targets on each of two eigenvalues: two modes narrower than the scan, the upper one higher."""
    group, square, prior = 10_000, 34.27, lbnn.Network((1,) * 9).scale_prior(1)
    eigenvalues, targets = np.repeat([1.0, 1e12], group), np.repeat([math.sqrt(square), 1.0], group)
    factor = GaussianLikelihood(eigenvalues, targets[:, None], 0.0, 2 * group, 1.0)
    inference = infer_quadrature(prior, factor, True)
    x = np.linspace(2.0, 3.5, 15_001)  # the upper mode alone; it is 0.014 wide
    scale = np.exp(x)
    log_values = prior.log_density(scale) + x - group * math.log(2 * math.pi)
    log_values -= 0.5 * group * (np.log1p(scale) + square / (1 + scale))
    log_values -= 0.5 * group * (np.log1p(1e12 * scale) + 1 / (1 + 1e12 * scale))
    expected = special.logsumexp(log_values) + math.log(1e-4)
    assert inference.log_evidence == pytest.approx(expected, rel=1e-11) or not inference.diagnostics.ok


def test_scales_beyond_double_precision_are_refused() -> None:
    """The law of 400 layers of width one spreads over e^±690."""
    with pytest.raises(ValueError, match=r"must fit into double precision, \|log λ\| < 690"):
        lbnn.Network((1,) * 400).condition(DATA.X, DATA.Y, 4.0)
