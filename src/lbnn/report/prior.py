"""§II and §III-A: the function-space prior is a scale mixture of matrix Gaussians."""

from __future__ import annotations

import math

import numpy as np
from scipy import integrate, special, stats

from lbnn.conditional import ConditionalProcess
from lbnn.network import Network
from lbnn.predictive import Predictive
from lbnn.projection import FeatureDirections, InputProjection
from lbnn.report import dense, scale_laws
from lbnn.report.compare import (
    absolute_error,
    log_ratio_error,
    relative_error,
    score_limit,
    worst_score,
)
from lbnn.report.problem import draw_weights, random_problem
from lbnn.report.registry import Run, claim
from lbnn.scale_measure import ScaleMeasure

SCALES = np.geomspace(1e-6, 30.0, 60)


@claim(
    id="prior.matrix-gaussian",
    equation="(4), (5), (6)",
    statement="Given W_2..W_d, F ~ MN(0, G_xx, L) with L = W_d⋯W_2W_2ᵀ⋯W_dᵀ.",
    route="covariance of the linear map W_1 ↦ X W_1ᵀ Aᵀ, A = W_d⋯W_2, written out",
    tolerance=1e-13,
)
def matrix_gaussian(run: Run) -> float:
    """Compare cov v(F) with the covariance of an atom measure at L."""
    X = run.rng.standard_normal((4, 6))
    _, W2, W3 = (W[0] for W in draw_weights(run.rng, (6, 5, 4, 3), 1))
    lifted = np.kron(X, W3 @ W2) / math.sqrt(X.shape[1])  # v(F) = (X ⊗ A) v(W_1ᵀ)
    nothing = InputProjection(FeatureDirections(np.zeros((6, 0))), X, 1 / X.shape[1])
    process = ConditionalProcess(np.zeros(0), np.zeros((0, 3)), math.inf)
    predictive = Predictive(nothing, process, ScaleMeasure.atom(W3 @ W2 @ W2.T @ W3.T, False))
    return relative_error(predictive.covariance.reshape(12, 12), lifted @ lifted.T)


@claim(
    id="prior.scale-mixture",
    equation="(7)",
    statement="p_d(F|X) = E_ϖ N(F; 0, G_xx ⊗ L): depths two and three, one output.",
    route="adaptive quadrature over λ with Gamma and Bessel K densities",
    tolerance=1e-10,
)
def scale_mixture(run: Run) -> float:
    """Compare log p_d with quadrature."""
    problem, worst = random_problem(run.rng, examples=3), 0.0
    for widths in ((5,), (1,), (1, 4), (3, 2)):
        value = Network(widths).prior(problem.X).log_density(problem.y)
        worst = max(worst, absolute_error(value, problem.log_evidence(widths, math.inf)))
    return worst


@claim(
    id="prior.scale-mixture-weights",
    equation="(2), (7)",
    statement="p_d(F|X) is the average over the weights W_2..W_d of N(F; 0, G_xx ⊗ L), depth four.",
    route="weights drawn from the prior, in standard errors",
    tolerance=score_limit(1),
)
def scale_mixture_weights(run: Run) -> float:
    """Compare p_d with an average over simulated weights."""
    problem, widths = random_problem(run.rng, examples=3), (6, 4, 5)
    weights = draw_weights(run.rng, (problem.X.shape[1], *widths, 1), run.draws(200_000))
    product = weights[3] @ weights[2] @ weights[1]
    scale = (product**2).sum((1, 2))
    log_constant = dense.log_gaussian(np.zeros(3), problem.gram)
    densities = np.exp(log_constant - 1.5 * np.log(scale) - 0.5 * problem.target_square[0, 0] / scale)
    return worst_score(math.exp(Network(widths).prior(problem.X).log_density(problem.y)), densities)


@claim(
    id="prior.wishart",
    equation="§III-A",
    statement="Depth two: L ~ Wishart(I/n_1, n_1).",
    route="the Wishart density written out with the multivariate Gamma function",
    tolerance=1e-12,
)
def wishart(run: Run) -> float:
    """Compare log densities of 3×3 scales."""
    n, k = 7, 3
    roots = run.rng.standard_normal((20, k, k + 3))
    scales = roots @ roots.swapaxes(1, 2)
    constant = 0.5 * n * k * math.log(n / 2) - special.multigammaln(n / 2, k)
    reference = [
        constant + 0.5 * (n - k - 1) * dense.log_det(L) - 0.5 * n * float(np.trace(L)) for L in scales
    ]
    return log_ratio_error(Network((n,)).scale_prior(k).log_density(scales), reference)


@claim(
    id="prior.gamma",
    equation="§III-A",
    statement="Depth two, one output: λ ~ Gamma(n_1/2, 2/n_1).",
    route="SciPy's Gamma density",
    tolerance=1e-12,
)
def gamma(run: Run) -> float:
    """Compare log densities from deep in one tail to deep in the other."""
    errors = [
        log_ratio_error(
            Network((n,)).scale_prior(1).log_density(SCALES), stats.gamma.logpdf(SCALES, n / 2, scale=2 / n)
        )
        for n in (1, 2, 10, 1000)
    ]
    return max(errors)


@claim(
    id="prior.bessel",
    equation="§III-A",
    statement="Depth three, one output: the density of λ is a Bessel function K.",
    route="closed form with SciPy's kve",
    tolerance=1e-12,
)
def bessel(run: Run) -> float:
    """Compare log densities from deep in one tail to deep in the other."""
    errors = [
        log_ratio_error(
            Network(widths).scale_prior(1).log_density(SCALES),
            [scale_laws.log_prior_density(widths)(scale) for scale in SCALES],
        )
        for widths in ((1, 1), (2, 7), (50, 40))
    ]
    return max(errors)


@claim(
    id="prior.meijer",
    equation="§III-A",
    statement="Depth four, one output: the density of λ (a Meijer G-function).",
    route="the Bessel K density of two layers integrated over the third",
    tolerance=1e-11,
)
def meijer(run: Run) -> float:
    """Compare log densities at fewer scales: every reference value is an integral."""
    scales = SCALES[::4]
    errors = [
        log_ratio_error(
            Network(widths).scale_prior(1).log_density(scales),
            [scale_laws.log_prior_density(widths)(scale) for scale in scales],
        )
        for widths in ((1, 2, 3), (20, 30, 25))
    ]
    return max(errors)


@claim(
    id="prior.mellin-moments",
    equation="§III-A",
    statement="Any depth, one output: E λ^s = Π_ℓ Γ(n_ℓ/2 + s) / (Γ(n_ℓ/2) (n_ℓ/2)^s).",
    route="the library's density at depths 6 and 10, integrated",
    tolerance=1e-10,
)
def mellin_moments(run: Run) -> float:
    """Compare moments of order 0, ½, 1 and 2 of the density of log λ."""
    worst = 0.0
    for widths in ((3,) * 5, (10, 20) * 4 + (5,)):
        prior = Network(widths).scale_prior(1)
        x = np.linspace(-40.0, 30.0, 4001)
        log_density = np.asarray(prior.log_density(np.exp(x))) + x
        a = np.array(widths) / 2
        for s in (0.0, 0.5, 1.0, 2.0):
            exact = float((special.gammaln(a + s) - special.gammaln(a) - s * np.log(a)).sum())
            integral = float(integrate.trapezoid(np.exp(log_density + s * x - exact), x))
            worst = max(worst, abs(integral - 1))
    return worst


@claim(
    id="prior.scale-draws",
    equation="(6)",
    statement="E L = I, and E log det L is a sum of digamma functions: three outputs, depth three.",
    route="closed forms for products of Wishart matrices against the library's draws, in standard errors",
    tolerance=score_limit(7),
)
def scale_draws(run: Run) -> float:
    """Compare averages of the library's Bartlett draws with closed forms."""
    widths, k = (5, 4), 3
    draws = Network(widths).scale_prior(k).sample(run.draws(200_000), run.rng)
    log_det = sum(float(special.digamma((n - np.arange(k)) / 2).sum()) + k * math.log(2 / n) for n in widths)
    statistics = np.column_stack([draws[:, *np.triu_indices(k)], np.linalg.slogdet(draws)[1]])
    return worst_score(np.append(np.eye(k)[np.triu_indices(k)], log_det), statistics)


@claim(
    id="prior.variances",
    equation="§II",
    statement="Layer variances σ_ℓ² can be absorbed into the input.",
    route="a network of unit variances on the input times Πσ_ℓ",
    tolerance=1e-11,
    correction=(
        "Holds for the outputs. The first layer's feature kernel scales with σ_1² alone, so for it only σ_1 "
        "can be absorbed. The printed variance σ_ℓ²/n_ℓ should read σ_ℓ²/n_{ℓ−1}."
    ),
)
def variances(run: Run) -> float:
    """Compare predictive moments and evidence; the kernels differ by σ_2² σ_3²."""
    problem, sigma2 = random_problem(run.rng), np.array([0.5, 3.0, 1.4])
    own = Network((4, 6), prior_variances=sigma2.tolist()).condition(problem.X, problem.y, beta=3.0)
    factor = math.sqrt(sigma2.prod())
    unit = Network((4, 6)).condition(factor * problem.X, problem.y, beta=3.0)
    pred, unit_pred = own.predict(problem.X_test), unit.predict(factor * problem.X_test)
    return max(
        relative_error(pred.mean, unit_pred.mean),
        relative_error(pred.covariance, unit_pred.covariance),
        absolute_error(own.log_evidence, unit.log_evidence),
        relative_error(sigma2[1:].prod() * own.feature_kernel(), unit.feature_kernel()),
    )
