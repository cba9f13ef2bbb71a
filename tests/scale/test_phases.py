"""Phases of the scale and its density: against mpmath, closed forms, plain grids, and other units."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

import lbnn
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.phases import LogScaleDensity, modes, phases_of_labels, single_phase
from tests.helpers.problems import make_problem

often = settings(
    max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
DATA = make_problem(5, 8, seed=81)


def teacher_problem(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Twenty examples of a unit teacher on two inputs."""
    rng = np.random.default_rng(0)
    X, teacher = rng.normal(size=(20, 2)), rng.normal(size=2)
    return X, X @ (teacher / np.linalg.norm(teacher)) + noise * rng.normal(size=20)


def posterior(widths: tuple[int, ...], variance: float, noise: float) -> lbnn.Posterior:
    """The teacher problem, the same prior variance for every layer."""
    network = lbnn.Network(widths, (variance,) * (len(widths) + 1))
    return network.condition(*teacher_problem(noise), beta=1 / noise**2)


COEXIST = posterior((2, 2), 0.01, 0.1196)
HIDDEN = posterior((2, 2, 2), 0.02, 0.135)


# ---------------------------------------------------------------- two phases, against mpmath


def log_bessel(variance: float, x: mpmath.mpf) -> mpmath.mpf:
    """Log density of log λ for λ = variance · χ²(2)/2 · χ²(2)/2: 2 λ/v · K_0(2 √(λ/v))."""
    ratio = mpmath.e**x / variance
    return mpmath.log(2 * ratio * mpmath.besselk(0, 2 * mpmath.sqrt(ratio)))


def log_meijer(variance: float, x: mpmath.mpf) -> mpmath.mpf:
    """Log density of log λ for λ = variance times a product of three χ²(2)/2: G³⁰₀₃(λ/v | 1, 1, 1)."""
    return mpmath.log(mpmath.meijerg([[], []], [[1, 1, 1], []], mpmath.e**x / variance))


def log_likelihood(noise: float, first: float) -> Callable:
    """Log N(y; 0, λ G + τ) as a function of log λ, G = σ_1² XXᵀ/2, by the two eigenvalues of XᵀX."""
    X, y = teacher_problem(noise)
    values, vectors = np.linalg.eigh(X.T @ X)
    inside = (vectors.T @ X.T @ y) ** 2 / values
    tau = mpmath.mpf(noise) ** 2
    rest = 18 * mpmath.log(tau) + float(y @ y - inside.sum()) / tau + 20 * mpmath.log(2 * mpmath.pi)

    def value(x: mpmath.mpf) -> mpmath.mpf:
        variances = [tau + float(g) * first * mpmath.e**x / 2 for g in values]
        terms = [mpmath.log(v) + float(z) / v for v, z in zip(variances, inside, strict=True)]
        return -(rest + sum(terms)) / 2

    return value


def by_mpmath(log_density: Callable, valley: float, ends: tuple[float, ...], size: float) -> list[float]:
    """Log of the total (about `size`), mass of the lower phase, mean of the lower and of the upper phase."""
    with mpmath.workdps(20):
        cut = mpmath.findroot(lambda x: mpmath.diff(log_density, x), valley)
        parts = []
        for power in (0, 1):
            weighted = lambda x, power=power: mpmath.e ** (log_density(x) - size + power * x)  # noqa: E731
            parts.append((mpmath.quad(weighted, [*ends, cut]), mpmath.quad(weighted, [cut, -2, -1, 0, 2])))
        (low, high), (low_moment, high_moment) = parts
        found = mpmath.log(low + high) + size, low / (low + high), low_moment / low, high_moment / high
        return [float(value) for value in found]


#: Log evidence, mass of the collapsed phase, mean scale of the collapsed and the fitted phase. By `by_mpmath`
#: with the arguments of `test_references_by_mpmath`, which agree to 1e-13 with those of finer subdivisions.
COEXIST_REFERENCE = -225.34104401887774, 0.5082035563135805, 0.00012824128887174184, 0.3491460388787309
HIDDEN_REFERENCE = -162.85452301077473, 1.5967865865415117e-07, 8.407105125359694e-06, 0.5690120719839924


@pytest.mark.slow
def test_references_by_mpmath() -> None:
    """Bessel K and Meijer G in 20 digits, integrated on both sides of the minimum (minutes)."""
    data = log_likelihood(0.1196, 0.01)
    found = by_mpmath(lambda x: log_bessel(1e-4, x) + data(x), -3.42, (-60, -25, -14, -10, -7), -225.0)
    np.testing.assert_allclose(found, COEXIST_REFERENCE, rtol=1e-12)
    data = log_likelihood(0.135, 0.02)
    ends = (-60, -40, -25, -18, -14, -11, -8)
    found = by_mpmath(lambda x: log_meijer(8e-6, x) + data(x), -4.0, ends, -178.0)
    np.testing.assert_allclose(found, HIDDEN_REFERENCE, rtol=1e-12)


def test_ten_weights_in_two_phases() -> None:
    """Half of the posterior is fitted, half is collapsed."""
    evidence, collapsed, low, high = COEXIST_REFERENCE
    assert COEXIST.log_evidence == pytest.approx(evidence, rel=1e-12)
    phases = COEXIST.scale.phases()
    assert phases.mass[1] == pytest.approx(0.492, abs=5e-4)
    np.testing.assert_allclose(phases.mass, [collapsed, 1 - collapsed], rtol=1e-10)
    np.testing.assert_allclose(phases.mean_scale, [low, high], rtol=1e-10)
    assert phases.fitted_directions.tolist() == [0, 1]
    assert phases.error.tolist() == [0.0, 0.0]


def test_fourteen_weights_hide_a_phase() -> None:
    """The phase around the origin holds e^−15.65 of the mass."""
    evidence, collapsed, low, high = HIDDEN_REFERENCE
    assert HIDDEN.log_evidence == pytest.approx(evidence, rel=1e-12)
    phases = HIDDEN.scale.phases()
    assert phases.fitted_directions.tolist() == [1, 0]
    assert math.log(phases.mass[1]) == pytest.approx(-15.65, abs=5e-3)
    np.testing.assert_allclose(phases.mass, [1 - collapsed, collapsed], rtol=1e-10)
    np.testing.assert_allclose(phases.mean_scale, [high, low], rtol=1e-10)


def test_phases_are_those_of_the_weights() -> None:
    """Exact draws of all ten weights: a fitted network explains the targets, the others give about zero."""
    W1, W2, W3 = COEXIST.sample_weights(4_000, 3)
    X, y = teacher_problem(0.1196)
    outputs = (W3 @ W2 @ W1)[:, 0] @ X.T
    share = ((outputs - y) ** 2).sum(1) / (y @ y)
    assert not ((share > 0.7) & (share < 0.8)).any()
    count = int((share < 0.75).sum())
    assert stats.binomtest(count, 4_000, 1 - COEXIST_REFERENCE[1]).pvalue > 1e-3


# ---------------------------------------------------------------- the birth of a phase


def upper_slope(noise: float) -> Callable:
    """Slope of the log density of log λ for widths (2, 2) from closed forms: (log K_0)′ = −K_1/K_0."""
    X, y = teacher_problem(noise)
    g, vectors = np.linalg.eigh(X.T @ X)
    squares = (vectors.T @ X.T @ y) ** 2 / g

    def slope(x: np.ndarray) -> np.ndarray:
        z = 2 * np.exp(x / 2) / 1e-2
        signal = g * 0.01 * np.exp(x)[:, None] / 2
        data = -0.5 * (signal / (noise**2 + signal) * (1 - squares / (noise**2 + signal))).sum(1)
        return 1 - z / 2 * special.kve(1, z) / special.kve(0, z) + data

    return slope


def largest_upper_slope(noise: float) -> float:
    """Above zero if and only if there is a second peak: a zoom on the closed form."""
    slope, low, high = upper_slope(noise), -4.0, 2.0
    for _ in range(8):
        x = np.linspace(low, high, 4_001)
        best = int(np.clip(slope(x).argmax(), 1, 3_999))
        low, high = x[best - 1], x[best + 1]
    return float(slope(x)[best])


def birth() -> float:
    """The noise at which the fitted phase of the teacher problem is born, by bisection."""
    low, high = 0.1196, 1.0
    assert largest_upper_slope(low) > 0 > largest_upper_slope(high)
    while high - low > 1e-13:
        middle = (low + high) / 2
        low, high = (middle, high) if largest_upper_slope(middle) > 0 else (low, middle)
    return low


BIRTH = birth()


@pytest.mark.parametrize("step", [1e-1, 1e-3, 1e-5, 1e-6])
def test_a_phase_counts_from_its_birth(step: float) -> None:
    """A dip of step^{3/2} nats (10⁻⁹ at the last) separates; on the other side of the birth there is none."""
    two, one = (posterior((2, 2), 0.01, BIRTH * (1 + sign * step)).scale.phases() for sign in (-1, 1))
    assert (len(two), len(one)) == (2, 1)
    assert two.mass.sum() == pytest.approx(1.0, rel=1e-14)


# ---------------------------------------------------------------- one phase


@pytest.mark.parametrize("beta", [0.0, 0.3, 1e4, math.inf])
@pytest.mark.parametrize("widths", [(4,), (1,), (3, 5), (10**6,) * 2, (1,) * 9], ids=str)
def test_targets_of_the_prior_give_one_phase(widths: tuple[int, ...], beta: float) -> None:
    """Mass one, the mean of the whole law; with data that say nothing no direction is fitted."""
    scale = lbnn.Network(widths).condition(DATA.X, DATA.Y, beta).scale
    (phase,) = scale.phases()
    assert (phase.mass, phase.error) == (1.0, 0.0)
    assert phase.mean_scale == pytest.approx(scale.mean, rel=1e-10)
    assert phase.fitted_directions == {0.0: 0, math.inf: 1}.get(beta, phase.fitted_directions)


@pytest.mark.filterwarnings("ignore:quadrature over the scale did not converge")  # nor need it
@pytest.mark.parametrize("beta", [1e12, 1e25, 1e30])
def test_a_plateau_is_one_phase(beta: float) -> None:
    """Width one, one target of zero: the density of log λ is flat to rounding over up to 69 e-folds."""
    scale = lbnn.Network((1,)).condition_gram([[1.0]], [0.0], beta).scale
    (phase,) = scale.phases()
    assert phase.mass == 1.0
    assert phase.mean_scale == pytest.approx(scale.mean, rel=1e-6)


def test_phases_where_the_quadrature_does_not_converge() -> None:
    """Two needles, 200 targets each: the phases are integrated one by one. By the trapezoid rule for each."""
    g, y = np.repeat([1.0, 1e12], 200), np.repeat([math.sqrt(34.2), 1.0], 200)
    with pytest.warns(lbnn.AccuracyWarning, match="did not converge"):
        post = lbnn.Network((1,) * 9).condition_gram(np.diag(g), y, 1.0)
    x = np.concatenate([np.linspace(-140, -20, 8_001), np.linspace(1.0, 5.0, 2_001)])
    steps = np.repeat([120 / 8_000, 4 / 2_000], [8_001, 2_001])
    variance = 1 + np.exp(x)[:, None] * [1.0, 1e12]
    log_values = post.prior.log_density(np.exp(x)) + x
    log_values -= 100 * (np.log(variance) + np.array([34.2, 1.0]) / variance).sum(1)
    mass = steps * np.exp(log_values - log_values.max())
    expected = mass[x > 0].sum() / mass.sum()
    assert 1e-4 < expected < 1e-3
    phases = post.scale.phases()
    assert phases.mass[phases.fitted_directions == 1][0] == pytest.approx(expected, rel=1e-9)
    assert phases.mass[phases.fitted_directions == 0][0] == pytest.approx(1 - expected, rel=1e-9)


def test_column_targets_give_matrices() -> None:
    """Y of shape (p, 1): mean scales of shape (1, 1)."""
    X, y = teacher_problem(0.1196)
    phases = lbnn.Network((2, 2), (0.01,) * 3).condition(X, y[:, None], 1 / 0.1196**2).scale.phases()
    assert phases.mean_scale.shape == (2, 1, 1)
    np.testing.assert_array_equal(phases.mean_scale[:, 0, 0], COEXIST.scale.phases().mean_scale)


def test_modes_of_a_mixture_of_normals() -> None:
    """Three peaks, 0.02 to 4 wide, the smallest of mass 1e-6: masses and means of truncated normals."""
    weights, centres, widths = (
        np.array([0.3, 1e-6, 0.7]),
        np.array([-40.0, -9.0, 1.0]),
        np.array([4.0, 0.3, 0.02]),
    )

    def terms(x: np.ndarray) -> np.ndarray:
        return np.log(weights) + stats.norm.logpdf(x[:, None], centres, widths)

    def slope(x: np.ndarray) -> np.ndarray:
        return (special.softmax(terms(x), axis=1) * (centres - x[:, None]) / widths**2).sum(1)

    density = LogScaleDensity(
        lambda x: special.logsumexp(terms(x), axis=1), slope, lambda x: np.full(len(x), 1e-13), -90.0, 10.0
    )
    found = modes(density)
    valleys = [
        optimize.brentq(lambda x: slope(np.array([x]))[0], *ends) for ends in ((-15, -9.5), (-8.5, 0.95))
    ]
    cuts = np.array([-np.inf, *valleys, np.inf])
    for power, got in (
        (0, [mode.mass for mode in found]),
        (1, [mode.mass * mode.mean_scale for mode in found]),
    ):
        shifted, factor = centres + power * widths**2, np.exp(power * centres + power * widths**2 / 2)
        parts = np.diff(stats.norm.cdf(cuts[:, None], shifted, widths), axis=0) @ (weights * factor)
        np.testing.assert_allclose(got, parts / weights.sum(), rtol=1e-8)
    assert all(mode.converged for mode in found)


@pytest.mark.parametrize(("rounding", "count"), [(1e-11, 1), (1e-16, 31)])
def test_ripples_of_rounding_are_no_phases(rounding: float, count: int) -> None:
    """Ripples of 10⁻¹², period 0.99, on what is flatter than them for |x| < 15.4: none, or 31 peaks."""
    density = LogScaleDensity(
        lambda x: -((x / 30) ** 40) + 1e-12 * np.cos(20 * x / np.pi),
        lambda x: -40 / 30 * (x / 30) ** 39 - 20 / np.pi * 1e-12 * np.sin(20 * x / np.pi),
        lambda x: np.full(len(x), rounding),
        -40.0,
        40.0,
    )
    assert len(modes(density)) == count


# ---------------------------------------------------------------- random problems


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, lbnn.Network, float]:
    """A teacher that does not fit the prior, near the noise at which it begins to be followed."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    p, inputs = draw(st.integers(5, 30)), draw(st.integers(1, 4))
    X, teacher = rng.normal(size=(p, inputs)), rng.normal(size=inputs)
    X *= 10.0 ** rng.uniform(0, draw(st.sampled_from([0, 2])), size=inputs)
    signal, errors = X @ teacher / np.linalg.norm(teacher), rng.normal(size=p)
    widths = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=4)))
    variance = draw(st.sampled_from([0.003, 0.01, 0.03, 0.3]))
    network = lbnn.Network(widths, (variance,) * (len(widths) + 1))
    noise = following_noise(network, X, signal, errors) * draw(st.sampled_from([0.8, 0.95, 1.0, 1.05]))
    return X, signal + noise * errors, network, 1 / noise**2


def following_noise(network: lbnn.Network, X: np.ndarray, signal: np.ndarray, errors: np.ndarray) -> float:
    """The noise at which E λ is thirty times that of the prior."""
    low, high = 1e-2, 1e2
    while high / low > 1.01:
        noise = math.sqrt(low * high)
        with warnings.catch_warnings(action="ignore", category=lbnn.AccuracyWarning):
            mean = network.condition(X, signal + noise * errors, 1 / noise**2).scale.mean
        low, high = (noise, high) if mean > 30 * network.scale_prior(1).variance else (low, noise)
    return noise


def converged(network: lbnn.Network, X: np.ndarray, y: np.ndarray, beta: float) -> lbnn.Posterior:
    """The posterior, where its quadrature serves (two narrow peaks far apart may be too much for it)."""
    with warnings.catch_warnings(action="ignore", category=lbnn.AccuracyWarning):
        post = network.condition(X, y, beta)
    assume(post.diagnostics.ok)
    return post


def on_a_grid(network: lbnn.Network, X: np.ndarray, y: np.ndarray, beta: float, x: np.ndarray) -> np.ndarray:
    """Log density of log λ up to a constant, from the eigenvalues of the dense Gram matrix.

    The prior in closed form for one and two hidden layers (Gamma, Bessel K), else by the tested `ScalePrior`.
    """
    widths, variances = network.widths, network.prior_variances
    g, vectors = np.linalg.eigh(variances[0] * X @ X.T / X.shape[1])
    spread = np.maximum(g, 0.0) * np.exp(x)[:, None] + 1 / beta
    data = -0.5 * (np.log(spread) + (vectors.T @ y) ** 2 / spread).sum(1)
    if len(widths) == 1:
        return data + stats.loggamma.logpdf(x, widths[0] / 2, math.log(2 * variances[1] / widths[0]))
    if len(widths) == 2:
        a, b = widths[0] / 2, widths[1] / 2
        shifted = x + math.log(a * b / (variances[1] * variances[2]))
        z = 2 * np.exp(shifted / 2)
        return data + (a + b) / 2 * shifted + np.log(special.kve(a - b, z)) - z
    return data + network.scale_prior(1).log_density(np.exp(x)) + x


def dips(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Where the minima between peaks are, and the shallowest of them."""
    steps = np.diff(values)
    turns = 1 + np.flatnonzero(steps[:-1] * steps[1:] <= 0)
    heights = np.abs(np.diff(values[turns]))
    return turns[1::2], float(heights.min()) if len(turns) > 1 else math.inf


@often
@given(problem=problems())
def test_phases_of_random_problems(problem: tuple[np.ndarray, np.ndarray, lbnn.Network, float]) -> None:
    """Number of phases, masses and means on a plain grid; masses sum to one, means to the mean."""
    X, y, network, beta = problem
    post = converged(network, X, y, beta)
    scale, phases = post.scale, post.scale.phases()
    assert phases.mass.sum() == pytest.approx(1.0, rel=1e-12)
    assert phases.mass @ phases.mean_scale == pytest.approx(scale.mean, rel=1e-10)
    assert (np.diff(phases.mass) <= 0).all()
    ends = np.log(scale.atoms[[0, -1]])
    x = np.linspace(*ends, 8_001)
    log_values = on_a_grid(network, X, y, beta, x)
    cuts, shallowest = dips(log_values)
    assume(shallowest > 1e-9)  # what a grid can tell from rounding
    assert len(phases) == len(cuts) + 1
    density = np.exp(log_values - log_values.max())
    below = integrate.cumulative_trapezoid(density, x, initial=0)
    expected = np.diff(np.concatenate([[0.0], below[cuts], below[-1:]])) / below[-1]
    slack = (x[1] - x[0]) * density[cuts].max(initial=0.0) / below[-1]  # the cuts are points of the grid
    np.testing.assert_allclose(phases.mass, np.sort(expected)[::-1], rtol=0, atol=slack + 1e-9)


@often
@given(problem=problems(), factor=st.sampled_from([1e-3, 0.3, 7.0, 1e3]))
def test_other_units_give_the_same_masses(
    problem: tuple[np.ndarray, np.ndarray, lbnn.Network, float], factor: float
) -> None:
    """Targets in other units against β and the last variance; inputs against the first; order of layers."""
    X, y, network, beta = problem
    phases = converged(network, X, y, beta).scale.phases()
    first, *inner, last = network.prior_variances
    others = [
        (X, factor * y, (first, *inner, factor**2 * last), beta / factor**2, factor**2, network.widths),
        (X / factor, y, (factor**2 * first, *inner, last), beta, 1.0, network.widths),
        (X, y, (first / factor, *inner, factor * last), beta, factor, network.widths[::-1]),
    ]
    for inputs, targets, variances, precision, unit, widths in others:
        other = converged(lbnn.Network(widths, variances), inputs, targets, precision).scale.phases()
        np.testing.assert_allclose(other.mass, phases.mass, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(other.mean_scale, unit * phases.mean_scale, rtol=1e-8)
        assert other.fitted_directions.tolist() == phases.fitted_directions.tolist()


# ---------------------------------------------------------------- atoms and labels


@pytest.mark.parametrize("outputs", [1, 3])
def test_one_atom_is_one_phase(outputs: int) -> None:
    """Depth one, and a theory with one scale."""
    Y = DATA.Y if outputs == 1 else np.outer(DATA.Y, [1.0, 2.0, 3.0])
    for scale in (
        lbnn.Network((), (0.5,)).condition(DATA.X, Y, 2.0).scale,
        lbnn.asymptotics.infinite_width(lbnn.Network((9,)), DATA.X, Y, 2.0).scale,
    ):
        (phase,) = scale.phases()
        assert (phase.mass, phase.error, phase.fitted_directions) == (1.0, 0.0, outputs)
        np.testing.assert_allclose(phase.mean_scale, scale.mean)
        assert isinstance(phase.mean_scale, float) == (outputs == 1)


def labelled_draws() -> tuple[ScaleMeasure, np.ndarray]:
    """Weighted 2 × 2 scales in eight groups, with labels 0, 1, 2; label 1 has no weight."""
    rng = np.random.default_rng(5)
    roots = rng.normal(size=(400, 2, 2))
    weights, labels = rng.exponential(size=400), rng.integers(0, 3, size=400)
    weights[labels == 1] = 0.0
    groups = np.arange(400) % 8
    measure = ScaleMeasure(roots @ roots.swapaxes(1, 2), weights / weights.sum(), False, groups=groups)
    return measure, labels


def test_labels_make_phases_with_errors() -> None:
    """Masses and their errors are averages of indicators; the means add up."""
    measure, labels = labelled_draws()
    phases = phases_of_labels(measure.scales, measure.weights, measure.groups, labels, (0, 1, 2), False)
    assert len(phases) == 2
    for phase in phases:
        inside = (labels == phase.fitted_directions).astype(float)
        assert phase.mass == pytest.approx(measure.average(inside), rel=1e-14)
        assert phase.error == pytest.approx(float(measure.standard_error(inside)), rel=1e-12)
        assert phase.error > 0
    np.testing.assert_allclose(np.tensordot(phases.mass, phases.mean_scale, 1), measure.mean, rtol=1e-13)


def test_error_of_a_mass_is_its_spread_over_repetitions() -> None:
    """Equal weights, 50 independent groups: the stated error is the binomial one within its own 10%."""
    rng = np.random.default_rng(6)
    labels = (rng.random(100_000) < 0.3).astype(int)
    scales, weights = np.ones((100_000, 1, 1)), np.full(100_000, 1e-5)
    phases = phases_of_labels(scales, weights, np.arange(100_000) % 50, labels, (0, 1), True)
    expected = math.sqrt(0.3 * 0.7 / 100_000)
    np.testing.assert_allclose(phases.error, expected, rtol=4 / math.sqrt(2 * 49))  # four deviations
    assert phases.mean_scale.tolist() == [1.0, 1.0]


def test_draws_without_labels_are_one_phase() -> None:
    """No law that names phases behind the draws; a deterministic law must name them."""
    measure, _ = labelled_draws()
    (phase,) = measure.phases()
    assert (phase.mass, phase.fitted_directions) == (1.0, 2)
    np.testing.assert_array_equal(phase.mean_scale, measure.mean)
    with pytest.raises(ValueError, match="phases are known for networks"):
        ScaleMeasure(measure.scales, measure.weights, False).phases()


def test_phases_are_a_sequence_in_order_of_mass() -> None:
    """Slices, iteration, a short repr with errors where there are any."""
    measure, labels = labelled_draws()
    phases = phases_of_labels(measure.scales, measure.weights, measure.groups, labels, (0, 1, 2), False)
    assert phases[0].mass > phases[1].mass
    assert [phase.mass for phase in phases] == phases.mass.tolist()
    assert isinstance(phases[:1], lbnn.Phases)
    assert isinstance(phases[-1], lbnn.Phase)
    assert len(phases[:1]) == 1
    assert repr(phases).count("±") == 2
    assert repr(COEXIST.scale.phases()) == "Phases(2: mass 0.508, 0 fitted; mass 0.492, 1 fitted)"
    assert repr(single_phase(np.eye(3), False)) == "Phases(1: mass 1, 3 fitted)"


# ---------------------------------------------------------------- the density of the scale


@pytest.mark.parametrize("beta", [0.1, 10.0, 1e5])
@pytest.mark.parametrize("widths", [(1,), (3, 5), (1, 1, 1)], ids=str)
def test_density_by_dense_algebra(widths: tuple[int, ...], beta: float) -> None:
    """log ϖ(λ) + log N(y; 0, λG + 1/β) − log p(y), and it integrates to one."""
    network = lbnn.Network(widths, (0.7, *[1.3] * len(widths)))
    post = network.condition(DATA.X, DATA.Y, beta)
    for scale in (1e-6, 0.3, 1.0, 20.0):
        law = stats.multivariate_normal(cov=0.7 * scale * DATA.gram + np.eye(5) / beta)
        expected = network.scale_prior(1).log_density(scale) + law.logpdf(DATA.Y) - post.log_evidence
        assert post.scale.log_density(scale) == pytest.approx(expected, rel=1e-10)
    total, _ = integrate.quad_vec(
        lambda x: np.exp(post.scale.log_density(np.exp([x])) + x), -80.0, 12.0, epsrel=1e-10, epsabs=1e-13
    )
    assert total[0] == pytest.approx(1.0, rel=1e-9)


def test_density_without_data_is_the_prior() -> None:
    """β = 0, any depth."""
    values = np.array([1e-9, 0.2, 3.0])
    for widths in ((4,), (2, 7), (1, 1, 5)):
        post = lbnn.Network(widths).condition(DATA.X, DATA.Y, 0.0)
        np.testing.assert_allclose(post.scale.log_density(values), post.prior.log_density(values), rtol=1e-12)


def test_density_at_zero_temperature_is_generalised_inverse_gaussian() -> None:
    """Depth two: GIG((n − p)/2, n, yᵀG⁻¹y)."""
    psi = float(DATA.Y @ np.linalg.solve(DATA.gram, DATA.Y))
    law = stats.geninvgauss((4 - 5) / 2, math.sqrt(4 * psi), scale=math.sqrt(psi / 4))
    scale = lbnn.Network((4,)).condition(DATA.X, DATA.Y, math.inf).scale
    values = np.array([[0.05, 0.4], [1.0, 7.0]])
    np.testing.assert_allclose(scale.log_density(values), law.logpdf(values), rtol=1e-9, atol=1e-9)


def test_density_at_the_ends_of_the_doubles() -> None:
    """−inf at and below zero; finite or −inf, without a warning, at every positive double."""
    values = np.array([-1.0, 0.0, 5e-324, 1e-310, 1e-300, 1e300])
    for beta in (0.0, 4.0, math.inf):
        for size in (1e-10, 1.0, 1e10):
            scale = lbnn.Network((3, 5)).condition(size * DATA.X, DATA.Y, beta).scale
            result = scale.log_density(values)
            assert result[:2].tolist() == [-math.inf, -math.inf]
            assert not np.isnan(result).any()
            assert (result < 0).all()
    tiny = lbnn.Network((9,)).condition(1e-9 * DATA.X, np.zeros(5), math.inf).scale  # λ^{(9−5)/2 − 1}
    one, other = tiny.log_density([1e-300, 1e-100])
    assert other - one == pytest.approx(200 * math.log(10), rel=1e-10)


def test_density_keeps_the_shape_of_what_is_asked() -> None:
    """A number to a number; (..., 1, 1) matrices to (...) when Y was a column."""
    X, y = DATA.X, DATA.Y
    scale, column = (lbnn.Network((4,)).condition(X, each, 2.0).scale for each in (y, y[:, None]))
    assert isinstance(scale.log_density(0.3), float)
    assert scale.log_density(np.full((2, 1, 1), 0.3)).shape == (2, 1, 1)
    draws = column.sample(7, 0)
    assert column.log_density(draws).shape == (7,)
    np.testing.assert_allclose(column.log_density(draws), scale.log_density(draws[:, 0, 0]), rtol=1e-12)
    assert column.log_density(0.3) == pytest.approx(scale.log_density(0.3), rel=1e-12)


def test_density_says_where_there_is_none() -> None:
    """Depth one, several outputs, and arguments that are no numbers."""
    with pytest.raises(ValueError, match=r"needs a scale with a density.*a single atom at λ = 1"):
        lbnn.Network((), (0.5,)).condition(DATA.X, DATA.Y, 2.0).scale.log_density(1.0)
    measure, _ = labelled_draws()
    with pytest.raises(ValueError, match=r"known for one output.*use sample, expect or phases"):
        measure.log_density(np.eye(2))
    with pytest.raises(ValueError, match="value must be finite"):
        COEXIST.scale.log_density([1.0, math.nan])
    with pytest.raises(TypeError, match="value must be an array of numbers"):
        COEXIST.scale.log_density("large")
