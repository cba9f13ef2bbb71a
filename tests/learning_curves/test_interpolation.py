"""Zero temperature by quadrature: against closed forms, simulated data, the bidiagonal form."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

import lbnn
from lbnn.learning_curves import interpolation, sampled
from lbnn.learning_curves.curve import _problem
from lbnn.learning_curves.gaussian_data import Teacher


def simulate_s(p, n0, norm, noise, size, rng):
    """yᵀG⁻¹y from whole data sets."""
    X = rng.normal(size=(size, p, n0))
    y = norm * X[:, :, 0] + noise * rng.normal(size=(size, p))
    gram = X @ X.transpose(0, 2, 1) / n0
    return np.einsum("mp,mp->m", y, np.linalg.solve(gram, y[:, :, None])[:, :, 0])


@pytest.mark.parametrize(
    ("p", "n0", "norm", "noise"), [(1, 1, 1.0, 0.5), (1, 4, 1.0, 0.5), (2, 3, 0.5, 1.0), (6, 20, 1.5, 0.3)]
)
def test_law_of_s_against_simulated_data(p, n0, norm, noise):
    """E 1/(1 + s/t) at five t, quantiles of s, within 4 standard errors."""
    problem = _problem(lbnn.Network((4,)), p, n0, Teacher(norm, noise), math.inf)
    data = interpolation._variables(problem, 97, False)
    s = simulate_s(p, n0, norm, noise, 40_000, np.random.default_rng([p, n0]))
    for t in np.quantile(s, (0.05, 0.25, 0.5, 0.75, 0.95)):
        drawn = 1 / (1 + s / t)
        exact = data.weights @ (1 / (1 + data.s / t))
        assert abs(drawn.mean() - exact) < 4 * drawn.std() / math.sqrt(len(s))


@pytest.mark.parametrize(
    "net", [lbnn.Network((10, 10), prior_variances=[1.3, 0.7, 1.1]), lbnn.Network((3,)), lbnn.Network(())]
)
@pytest.mark.parametrize(
    ("p", "n0", "norm", "noise"),
    [
        (6, 12, 1.5, 0.5),
        pytest.param(1, 5, 1.0, 0.3, marks=pytest.mark.slow),
        pytest.param(5, 30, 1.0, 0.0, marks=pytest.mark.slow),
        pytest.param(3, 9, 0.0, 1.0, marks=pytest.mark.slow),
        (5, 6, "prior", 0.0),
        pytest.param(5, 20, "prior", 0.3, marks=pytest.mark.slow),
    ],
)
def test_quadrature_against_the_bidiagonal_form(net, p, n0, norm, noise):
    """The limit of small temperature by draws: four quantities within 4.5 errors, 72 comparisons."""
    exact = lbnn.learning_curve(net, [p], n0, norm, noise)
    teacher = Teacher(None if norm == "prior" else norm, noise)
    drawn = sampled.sample_point(_problem(net, p, n0, teacher, 1e9), 0.01, 1500, 11)
    for number, name in enumerate(sampled.QUANTITIES):
        error = math.hypot(drawn.error[number], getattr(exact, f"{name}_error")[0])
        assert abs(drawn.mean[number] - getattr(exact, name)[0]) < 4.5 * error + 1e-7, name


def test_closed_forms():
    """The error of the interpolator of least norm; depth one; and the mean of λ at depth two given s."""
    curve = lbnn.learning_curve(lbnn.Network((7,)), [2, 5, 8], 12, 1.3, 0.4)
    p = curve.examples
    np.testing.assert_allclose(curve.error, 1.69 * (1 - p / 12) + 0.16 * p / (12 - p - 1), rtol=1e-12)
    np.testing.assert_allclose(curve.gibbs_error, curve.error + (1 - p / 12) * curve.scale_mean, rtol=1e-10)
    one = lbnn.learning_curve(lbnn.Network((), prior_variances=[2.0]), [4], 12, 1.3, 0.0)
    s = 1.69 * 4  # E yᵀG⁻¹y = n0 |w|² p/n0
    log_det = sum(special.digamma((12 - i) / 2) + math.log(2 / 12) for i in range(4))
    expected = -2 * math.log(2 * math.pi) - 2 * math.log(2) - log_det / 2 - s / 4
    assert one.log_evidence[0] == pytest.approx(expected, rel=1e-8)
    assert one.scale_mean[0] == pytest.approx(1.0, rel=1e-12)
    assert one.draws[0] == 0


def test_functions_of_s_against_bessel_functions():
    """At depth two ∫ ϖ λ^{−p/2} e^{−s/2λ} is a Bessel function, and E λ a ratio of two."""
    n, p = 5, 7
    problem = _problem(lbnn.Network((n,)), p, 9, Teacher(1.0, 0.5), math.inf)
    s = np.array([1e-6, 0.1, 3.0, 200.0, 1e7])
    log_z, mean = interpolation._functions_of(problem, s)
    order = (n - p) / 2
    for number, each in enumerate(s):
        root = mpmath.sqrt(n * each)
        ratio = mpmath.sqrt(each / n) * mpmath.besselk(order + 1, root) / mpmath.besselk(order, root)
        total = mpmath.mpf(n / 2) ** (n / 2) / mpmath.gamma(n / 2) * 2 * mpmath.mpf(each / n) ** (order / 2)
        assert log_z[number] == pytest.approx(
            float(mpmath.log(total * mpmath.besselk(order, root))), rel=1e-9, abs=1e-9
        )
        assert mean[number] == pytest.approx(float(ratio), rel=1e-9)


def test_power_laws_take_over_smoothly():
    """Beyond the cap of s the power law meets the integral within its stated e⁻¹⁰."""
    problem = _problem(lbnn.Network((5,)), 3, 9, Teacher(1.0, 0.5), math.inf)
    cap = 5 * math.exp(2 * interpolation._LARGEST_LAYER)
    s = np.array([1.0, cap, 100 * cap])
    _, mean = interpolation._functions_of(problem, s)
    root = mpmath.sqrt(5 * s[2])
    exact = mpmath.sqrt(s[2] / 5) * mpmath.besselk(2, root) / mpmath.besselk(1, root)
    assert mean[2] == pytest.approx(float(exact), rel=1e-4)


def test_averages_that_do_not_exist_are_infinite():
    """p near n0 with noise: E R needs n0 − p > 1; E λ ~ s^{1/2} at depth two needs more than p < n0."""
    square = lbnn.learning_curve(lbnn.Network((4,)), [10], 10, 1.0, 0.5)
    assert square.error[0] == square.gibbs_error[0] == square.scale_mean[0] == math.inf
    assert square.log_evidence[0] == -math.inf
    deeper = lbnn.learning_curve(lbnn.Network((4, 4)), [10], 10, 1.0, 0.5)
    assert math.isfinite(deeper.log_evidence[0])
    near = lbnn.learning_curve(lbnn.Network((4,)), [9], 10, 1.0, 0.5)
    assert near.error[0] == math.inf
    assert math.isfinite(near.scale_mean[0])
    assert math.isfinite(lbnn.learning_curve(lbnn.Network((4,)), [10], 10, 1.0, 0.0).gibbs_error[0])


@pytest.mark.slow
def test_prior_teacher_without_noise():
    """Data from the model: Gibbs error twice the error, E E λ = v."""
    net = lbnn.Network((6, 3), prior_variances=[0.5, 1.0, 2.0])
    curve = lbnn.learning_curve(net, [3, 6], 8, "prior")
    np.testing.assert_allclose(curve.gibbs_error, 2 * curve.error, rtol=1e-4)
    np.testing.assert_allclose(curve.scale_mean, 2.0, rtol=1e-4)


def test_log_odds_rule():
    rule = interpolation.log_odds_rule(2.5, 4.0, 49)
    u = special.expit(rule.nodes)
    law = stats.beta(2.5, 4.0)
    for power in (1, 2, 0.5):
        exact = integrate.quad(lambda x: x**power * law.pdf(x), 0, 1)[0]  # noqa: B023
        assert rule.weights @ u**power == pytest.approx(exact, rel=1e-10)


def test_ten_thousand_examples():
    curve = lbnn.learning_curve(lbnn.Network((5000, 5000)), [10_000], 20_000, 1.5, 0.5)
    limit = curve.limits["proportional"]
    assert curve.gibbs_error[0] == pytest.approx(limit.gibbs_error[0], rel=1e-3)
