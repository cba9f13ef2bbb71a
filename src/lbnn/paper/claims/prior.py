"""§II and §III-A: the function-space prior is a scale mixture of matrix Gaussians."""

from __future__ import annotations

import math

import numpy as np
from scipy import integrate, special, stats

from lbnn.data.projection import Projection
from lbnn.network import Network
from lbnn.paper.compare import (
    absolute_error,
    log_ratio_error,
    quadrature,
    relative_error,
    rounding,
    standard_errors,
    worst_score,
)
from lbnn.paper.registry import Run, claim
from lbnn.paper.routes import dense, scale_laws
from lbnn.paper.routes.problem import draw_weights, random_problem
from lbnn.predict.predictive import Predictive
from lbnn.predict.process import Process
from lbnn.scale.draws import Draws
from lbnn.scale.measure import ScaleMeasure

SCALES = np.geomspace(1e-6, 30.0, 60)


@claim(
    id="prior.matrix-gaussian",
    equation="(4), (5), (6)",
    latex=(
        r"F = X W_1^\top (W_2^\top \cdots W_d^\top) \sim \mathcal{MN}_{p \times n_d}(0, G_{xx}, L)",
        r"L \equiv W_d \cdots W_2 W_2^\top \cdots W_d^\top",
    ),
    statement="Given W_2..W_d, F ~ MN(0, G_xx, L) with L = W_d⋯W_2W_2ᵀ⋯W_dᵀ.",
    route="covariance of the linear map W_1 ↦ X W_1ᵀ Aᵀ, A = W_d⋯W_2, written out",
    **rounding(1e-13),
)
def matrix_gaussian(run: Run) -> float:
    """Compare cov v(F) with the covariance of an atom measure at L."""
    X = run.rng.standard_normal((4, 6))
    _, W2, W3 = (W[0] for W in draw_weights(run.rng, (6, 5, 4, 3), 1))
    lifted = np.kron(X, W3 @ W2) / math.sqrt(X.shape[1])  # v(F) = (X ⊗ A) v(W_1ᵀ)
    nothing = Projection(np.zeros((len(X), 0)), hidden=X / math.sqrt(X.shape[1]))
    draws = Draws.of(ScaleMeasure.atom(W3 @ W2 @ W2.T @ W3.T, False), math.inf)
    predictive = Predictive.of(Process.of(draws, np.zeros(0), np.zeros((0, 3))), nothing, False)
    return relative_error(predictive.covariance.reshape(12, 12), lifted @ lifted.T)


@claim(
    id="prior.scale-mixture",
    equation="(7)",
    latex=(
        r"p_d(F \mid X) = \mathbb{E}_{L \sim \varpi} \left[ (2\pi)^{-n_d p/2} \det(L \otimes "
        r"G_{xx})^{-1/2} \operatorname{etr}\left(-\tfrac{1}{2} L^{-1} F^\top G_{xx}^{-1} F\right) "
        r"\right]"
    ),
    statement="p_d(F|X) = E_ϖ N(F; 0, G_xx ⊗ L): depths two and three, one output.",
    route="adaptive quadrature over λ with Gamma and Bessel K densities",
    **quadrature(1e-10),
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
    latex=(
        r"[W_\ell]_{ij} \sim \mathcal{N}(0, n_{\ell-1}^{-1})",
        r"p_d(F \mid X) = \mathbb{E}_{W_2 \ldots W_d} \mathcal{N}(\operatorname{v}(F); 0, G_{xx} \otimes L)",
    ),
    statement="p_d(F|X) is the average over the weights W_2..W_d of N(F; 0, G_xx ⊗ L), depth four.",
    route="weights drawn from the prior, in standard errors",
    **standard_errors(1),
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
    latex=r"L \sim \mathcal{W}_{n_2}(n_1^{-1} I_{n_2}, n_1)",
    statement="Depth two: L ~ Wishart(I/n_1, n_1).",
    route="the Wishart density written out with the multivariate Gamma function",
    **rounding(1e-12),
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
    id="prior.wishart-moments",
    equation="§III-A",
    latex=(
        r"\operatorname{cov}(L_{ij}, L_{kl}) = \frac{1}{n_1} (\delta_{ik} \delta_{jl} + \delta_{il} "
        r"\delta_{jk})"
    ),
    statement="Depth two: mean and covariance of the entries of L are those of Wishart(I/n_1, n_1).",
    route="closed forms against the library's Bartlett draws, three outputs, in standard errors",
    **standard_errors(27),
)
def wishart_moments(run: Run) -> float:
    """Compare the six means and the 21 second moments about them."""
    n, upper = 5, np.triu_indices(3)
    draws = Network((n,)).scale_prior(3).sample(run.draws(200_000), run.rng)[:, *upper]
    deviations = draws - np.eye(3)[upper]
    rows, columns = np.triu_indices(6)
    delta, (i, j) = np.eye(3), np.array(upper)
    k, m = i[columns], j[columns]
    exact = (delta[i[rows], k] * delta[j[rows], m] + delta[i[rows], m] * delta[j[rows], k]) / n
    statistics = np.column_stack([deviations, deviations[:, rows] * deviations[:, columns]])
    return worst_score(np.append(np.zeros(6), exact), statistics)


@claim(
    id="prior.gamma",
    equation="§III-A",
    latex=r"\lambda \sim \operatorname{Gamma}(n_1/2, 2/n_1)",
    statement="Depth two, one output: λ ~ Gamma(n_1/2, 2/n_1).",
    route="SciPy's Gamma density",
    **rounding(1e-12),
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
    latex=(
        r"\varpi(\lambda) = \frac{2 (ab)^{(a+b)/2} \lambda^{(a+b)/2 - 1}}{\Gamma(a) \Gamma(b)} "
        r"K_{a-b}(2 \sqrt{ab\lambda}), \quad a = \frac{n_1}{2},\; b = \frac{n_2}{2}"
    ),
    statement="Depth three, one output: the density of λ is a Bessel function K.",
    route="closed form with SciPy's kve",
    **rounding(1e-12),
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
    latex=(
        r"\varpi(\lambda) = \frac{1}{\lambda} \prod_\ell \frac{1}{\Gamma(n_\ell/2)} \; "
        r"G^{d-1,0}_{0,d-1}\left(\lambda \prod_\ell \frac{n_\ell}{2} \,\Big|\, \frac{n_1}{2}, \ldots, "
        r"\frac{n_{d-1}}{2} \right)"
    ),
    statement="Depth four, one output: the density of λ (a Meijer G-function).",
    route="the Bessel K density of two layers integrated over the third",
    **quadrature(1e-11),
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
    latex=(
        r"\mathbb{E}_\varpi \lambda^s = \prod_{\ell=1}^{d-1} \frac{\Gamma(n_\ell/2 + "
        r"s)}{\Gamma(n_\ell/2) (n_\ell/2)^s}"
    ),
    statement="Any depth, one output: E λ^s = Π_ℓ Γ(n_ℓ/2 + s) / (Γ(n_ℓ/2) (n_ℓ/2)^s).",
    route="the library's density at depths 6 and 10, integrated",
    tolerance=1e-10,
    tolerance_reason=(
        "the trapezoid rule on 4001 points is exact to rounding here; the density itself has a "
        "relative error of about 10⁻¹³"
    ),
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
    latex=(
        r"\mathbb{E}_\varpi L = I_{n_d}, \quad \mathbb{E}_\varpi \log\det L = \sum_{\ell=1}^{d-1} "
        r"\sum_{i=1}^{n_d} \left[ \psi\left(\frac{n_\ell - i + 1}{2}\right) + \log\frac{2}{n_\ell} "
        r"\right]"
    ),
    statement="E L = I, and E log det L is a sum of digamma functions: three outputs, depth three.",
    route="closed forms for products of Wishart matrices against the library's draws, in standard errors",
    **standard_errors(7),
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
    latex=(
        r"[W_\ell]_{ij} \sim \mathcal{N}(0, \sigma_\ell^2/n_{\ell-1}) \;\; \Longleftrightarrow \;\; x "
        r"\mapsto \sigma_1 \cdots \sigma_d\, x"
    ),
    statement="Layer variances σ_ℓ² can be absorbed into the input.",
    route="a network of unit variances on the input times Πσ_ℓ",
    **rounding(1e-11),
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
