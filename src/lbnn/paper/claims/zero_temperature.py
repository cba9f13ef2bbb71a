"""§III-C: the limit β → ∞, where the network interpolates."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from lbnn._base.types import Array
from lbnn.matrix_gig.distribution import MatrixGIG
from lbnn.network import Network
from lbnn.paper.compare import (
    absolute_error,
    log_ratio_error,
    mean_and_error,
    quadrature,
    relative_error,
    rounding,
    score_against,
    standard_errors,
)
from lbnn.paper.registry import Run, claim
from lbnn.paper.routes import cone, dense, scale_laws
from lbnn.paper.routes.problem import Problem, library_likelihood, random_problem, random_scales
from lbnn.posterior import Posterior

WIDTH = 6
REPLICATES = 16
INF = math.inf


def inverse_gaussian(problem: Problem) -> tuple[float, float, float]:
    """Order, a and b of the law of λ at depth two: (29) with n_2 = 1 is λ^{order−1} exp(−(aλ + b/λ)/2)."""
    return (WIDTH - len(problem.y)) / 2, float(WIDTH), float(problem.target_square[0, 0])


@claim(
    id="zero-temperature.given-scale",
    equation="(24), (25)",
    latex=(
        r"\mu_L \to (G_{x\hat{x}}^\top G_{xx}^{-1} \otimes I)\, \operatorname{v}(Y), \quad \Sigma_L \to "
        r"(G_{\hat{x}\hat{x}} - G_{x\hat{x}}^\top G_{xx}^{-1} G_{x\hat{x}}) \otimes L"
    ),
    statement="μ_L → (G_x̂x G_xx⁻¹ ⊗ I) v(Y) and Σ_L → (G_x̂x̂ − G_x̂x G_xx⁻¹ G_xx̂) ⊗ L: three outputs.",
    route="dense Kronecker products",
    **rounding(1e-10),
)
def given_scale(run: Run) -> float:
    """Compare mean and covariance for a single scale matrix at β = ∞."""
    problem, atom = random_problem(run.rng, outputs=3), random_scales(run.rng, count=1)
    pred = atom.library_posterior(problem, INF).predict(problem.X_test)
    mean = dense.mean(atom.scales[0], problem.gram, problem.cross, problem.Y, INF)
    covariance = dense.covariance(atom.scales[0], problem.gram, problem.cross, problem.test_gram, INF)
    return max(
        relative_error(pred.mean.reshape(-1), mean),
        relative_error(pred.covariance.reshape(covariance.shape), covariance),
    )


@claim(
    id="zero-temperature.least-norm",
    equation="(26)",
    latex=r"\lim_{\beta \to \infty} \langle \hat{F} \rangle = G_{x\hat{x}}^\top G_{xx}^{-1} Y",
    statement="lim ⟨F̂⟩ = G_x̂x G_xx⁻¹ Y, the least-norm solution of XW = Y, at every depth.",
    route="least squares by singular values",
    **rounding(1e-10),
)
def least_norm(run: Run) -> float:
    """Compare means at depths two and five."""
    problem = random_problem(run.rng)
    solution = np.linalg.lstsq(problem.X, problem.y)[0]
    errors = [
        relative_error(condition(problem, widths).predict(problem.X_test).mean, problem.X_test @ solution)
        for widths in ((WIDTH,), (2, 3, 4, 5))
    ]
    return max(errors)


@claim(
    id="zero-temperature.covariance",
    equation="(27), (30)",
    latex=(
        r"\lim_{\beta \to \infty} \operatorname{cov}(\hat{F}_{\hat{\mu} j}, \hat{F}_{\hat{\nu} k}) = "
        r"(G_{\hat{x}\hat{x}} - G_{x\hat{x}}^\top G_{xx}^{-1} G_{x\hat{x}})_{\hat{\mu}\hat{\nu}} \; "
        r"\lim_{\beta \to \infty} \mathbb{E}_{L \sim \rho} L_{jk}"
    ),
    statement="lim cov f̂ = (G_x̂x̂ − G_x̂x G_xx⁻¹ G_xx̂) E λ, depth two, one output.",
    route="E λ of the generalised inverse Gaussian law, a ratio of Bessel functions",
    tolerance=1e-10,
    tolerance_reason=(
        "both routes are exact: rounding of a ratio of SciPy's Bessel functions (10⁻¹³) and of dense matrices"
    ),
)
def covariance(run: Run) -> float:
    """Compare covariances and the scale's first two moments and reciprocal mean."""
    problem = random_problem(run.rng)
    law = inverse_gaussian(problem)
    post = condition(problem, (WIDTH,))
    moments = {power: scale_laws.inverse_gaussian_moment(law[0], power, *law[1:]) for power in (-1, 1, 2)}
    return max(
        relative_error(post.predict(problem.X_test).covariance, problem.unexplained * moments[1]),
        relative_error(post.scale.mean, moments[1]),
        relative_error(post.scale.expect(lambda scale: scale**2), moments[2]),
        relative_error(post.scale.inverse_mean, moments[-1]),
    )


@claim(
    id="zero-temperature.scale-density",
    equation="(28)",
    latex=(
        r"\frac{d\rho}{d\varpi} \propto \frac{1}{\det(L)^{p/2}} \operatorname{etr}\left(-\tfrac{1}{2} "
        r"Y^\top G_{xx}^{-1} Y L^{-1}\right)"
    ),
    statement="dρ/dϖ ∝ det(L)^{−p/2} etr(−½ YᵀG_xx⁻¹Y L⁻¹): three outputs.",
    route="the printed density, differences between scales",
    **rounding(1e-9),
)
def scale_density(run: Run) -> float:
    """Compare log densities up to their common constant, relative to their size."""
    problem, atoms = random_problem(run.rng, outputs=3), random_scales(run.rng, count=12)
    value = library_likelihood(problem, INF).log_value(*np.linalg.eigh(atoms.scales))
    reference = np.array([dense.log_scale_density(L, problem.gram, problem.Y, INF) for L in atoms.scales])
    return log_ratio_error(value - value[0], reference - reference[0])


@claim(
    id="zero-temperature.two-layer-density",
    equation="(29), (30)",
    latex=(
        r"\frac{d\rho}{dL} \propto \det(L)^{(n_1 - p)/2 - (n_2 + 1)/2} "
        r"\operatorname{etr}\left(-\tfrac{1}{2} (n_1 L + Y^\top G_{xx}^{-1} Y L^{-1})\right)"
    ),
    statement="Depth two, one output: λ is generalised inverse Gaussian, GIG((n_1 − p)/2, n_1, yᵀG_xx⁻¹y).",
    route="its density with a Bessel function K for normaliser; the evidence in closed form",
    tolerance=1e-10,
    tolerance_reason=(
        "both routes are exact: rounding of SciPy's Bessel functions (10⁻¹³) and of dense matrices"
    ),
)
def two_layer_density(run: Run) -> float:
    """Compare log ϖ + log p(y|λ) − log p(y) with the law's log density."""
    problem, scales = random_problem(run.rng), np.geomspace(0.02, 20.0, 40)
    order, a, b = inverse_gaussian(problem)
    log_normaliser = scale_laws.log_inverse_gaussian_normaliser(order, a, b)
    reference = (order - 1) * np.log(scales) - 0.5 * (a * scales + b / scales) - log_normaliser
    post, factor = condition(problem, (WIDTH,)), library_likelihood(problem, INF)
    log_likelihood = factor.log_constant + factor.log_value(scales[:, None], np.ones((len(scales), 1, 1)))
    value = post.prior.log_density(scales) + log_likelihood - post.log_evidence
    return max(log_ratio_error(value, reference), absolute_error(post.log_evidence, log_evidence(problem)))


def log_evidence(problem: Problem) -> float:
    """Log p_2(y | X) = log ∫ ϖ(λ) N(y; 0, λG) dλ, a Bessel function K."""
    shape = WIDTH / 2
    log_prior_constant = shape * math.log(shape) - math.lgamma(shape)
    log_gaussian_constant = dense.log_gaussian(np.zeros(len(problem.y)), problem.gram)
    law = inverse_gaussian(problem)
    return log_prior_constant + log_gaussian_constant + scale_laws.log_inverse_gaussian_normaliser(*law)


@claim(
    id="zero-temperature.mgig",
    equation="(29), (30)",
    latex=r"L \sim \mathcal{MGIG}_{n_2}\left(Y^\top G_{xx}^{-1} Y, n_1 I_{n_2}, \frac{n_1 - p}{2}\right)",
    statement="Depth two, two outputs: `MatrixGIG` is the law (29), with its normaliser, E L and E L⁻¹.",
    route="the printed density integrated over the cone of 2 × 2 matrices, wide and narrow; standard errors",
    **standard_errors(14),
)
def mgig(run: Run) -> float:
    """Compare normaliser, mean and reciprocal mean for ν = (n_1 − p)/2 of either sign."""
    problem, scores = random_problem(run.rng, outputs=2), []
    for width in (3, 9):
        law = MatrixGIG(problem.target_square, width * np.eye(2), (width - len(problem.y)) / 2)
        nodes, weights, log_normalizer = cone.integrate(matrix_law(problem, width))
        mean, inverse = (cone.average(nodes, weights, each) for each in (lambda L: L, np.linalg.inv))
        normalizer = np.array(law.log_normalizer), np.array(law.log_normalizer_error)
        scores += [
            score_against(log_normalizer, normalizer),
            score_against(mean, (law.mean, law.mean_error)),
            score_against(inverse, (law.inverse_mean, law.inverse_mean_error)),
        ]
    return max(scores)


@claim(
    id="zero-temperature.generating-functions",
    equation="(30)",
    latex=(r"\mathbb{E} \operatorname{etr}(J L), \quad \mathbb{E} \operatorname{etr}(J L^{-1})",),
    statement="Both generating functions are ratios of Bessel functions of matrix argument (III-C), n_2 = 2.",
    route="the printed density times the exponential, integrated over the cone of 2 × 2 matrices",
    **standard_errors(4),
)
def generating_functions(run: Run) -> float:
    """Compare for ν = (n_1 − p)/2 of either sign."""
    problem, scores = random_problem(run.rng, outputs=2), []
    J = np.array([[0.3, 0.1], [0.1, -0.2]])
    for width in (3, 9):
        law = MatrixGIG(problem.target_square, width * np.eye(2), (width - len(problem.y)) / 2)
        nodes, weights, _ = cone.integrate(matrix_law(problem, width))
        tilts = np.einsum("ij,mij->m", J, nodes), np.einsum("ij,mij->m", J, np.linalg.inv(nodes))
        both = law.log_mgf(J, return_error=True), law.log_inverse_mgf(J, return_error=True)
        for tilt, found in zip(tilts, both, strict=True):
            value, error = np.asarray(found, float).reshape(2, 1)
            scores.append(score_against(np.log(weights @ np.exp(tilt)), (value, error)))
    return max(scores)


def matrix_law(problem: Problem, width: int) -> cone.LogDensity:
    """Log of (29), n_2 = 2, without its normalisation."""
    power, square = (width - len(problem.y)) / 2 - 1.5, problem.target_square

    def log_density(L: Array) -> Array:
        trace = width * np.trace(L, axis1=1, axis2=2) + np.einsum("ij,mji->m", square, np.linalg.inv(L))
        return np.asarray(power * np.linalg.slogdet(L)[1] - 0.5 * trace)

    return log_density


@claim(
    id="zero-temperature.mgig-posterior",
    equation="(27), (30)",
    latex=(
        r"\operatorname{cov}(\hat{F}_{\hat{\mu} j}, \hat{F}_{\hat{\nu} k}) \to (G_{\hat{x}\hat{x}} - "
        r"G_{x\hat{x}}^\top G_{xx}^{-1} G_{x\hat{x}})_{\hat{\mu}\hat{\nu}} \; \mathbb{E}_{\mathcal{MGIG}} "
        r"L_{jk}"
    ),
    statement="Depth two, two outputs: the posterior of L at β = ∞ has the mean of the MGIG law.",
    route="the printed density (29) integrated over the cone of 2 × 2 matrices; 16 runs; standard errors",
    **standard_errors(4, REPLICATES),
)
def mgig_posterior(run: Run) -> float:
    """Compare E L, and log evidence with the integral of (7)."""
    problem = random_problem(run.rng, outputs=2)
    nodes, weights, log_normaliser = cone.integrate(matrix_law(problem, WIDTH))
    constant = WIDTH * math.log(WIDTH / 2) - special.multigammaln(WIDTH / 2, 2)  # of the Wishart density
    constant += 2 * dense.log_gaussian(np.zeros(len(problem.y)), problem.gram)
    exact = cone.average(nodes, weights, lambda L: L)
    runs = [
        Network((WIDTH,)).condition(problem.X, problem.Y, INF, target_error=0.02, seed=seed)
        for seed in run.seeds(REPLICATES)
    ]
    statistics = [np.append(post.scale.mean, post.log_evidence) for post in runs]
    return score_against(np.append(exact, log_normaliser + constant), mean_and_error(statistics))


@claim(
    id="zero-temperature.evidence",
    equation="(7), (28)",
    latex=r"\lim_{\beta \to \infty} p(Y \mid X, \beta) = p_d(Y \mid X)",
    statement="The evidence at zero temperature is the prior density of the targets, p_d(Y|X).",
    route="N(y; 0, λG) integrated over λ, depth three",
    **quadrature(1e-10),
)
def evidence(run: Run) -> float:
    """Compare log evidence with an integral of printed densities."""
    problem, widths = random_problem(run.rng), (3, 4)
    reference = problem.log_evidence(widths, math.inf)
    return absolute_error(condition(problem, widths).log_evidence, reference)


@claim(
    id="zero-temperature.limit",
    equation="§III-C",
    latex=r"\beta \Gamma_L^{-1} \to G_{xx}^{-1} \otimes L^{-1}",
    statement="The limit β → ∞ of the posterior is the zero-temperature posterior.",
    route="Richardson extrapolation in 1/β of finite-temperature answers by quadrature over λ, depth two",
    tolerance=1e-9,
    tolerance_reason=(
        "extrapolation from noise of 10⁻⁴ of the smallest eigenvalue leaves an error of third order, "
        "about 10⁻¹²; the integrals have 10⁻¹²"
    ),
)
def limit(run: Run) -> float:
    """Extrapolate E λ and the variances to 1/β = 0."""
    problem = random_problem(run.rng)
    tau = 1e-4 * float(np.linalg.eigvalsh(problem.gram)[0])
    coarse, middle, fine = (moments_at(problem, 1 / (factor * tau)) for factor in (4, 2, 1))
    first, second = 2 * middle - coarse, 2 * fine - middle
    extrapolated = (4 * second - first) / 3
    post = condition(problem, (WIDTH,))
    exact = np.append(post.predict(problem.X_test).variance, post.scale.mean)
    return relative_error(exact, extrapolated)


def moments_at(problem: Problem, beta: float) -> Array:
    """Variances at the test points and E λ, by quadrature over λ of the printed equations."""

    def moments(scale: float) -> Array:
        L = np.array([[scale]])
        mean = dense.mean(L, problem.gram, problem.cross, problem.Y, beta)
        covariance = dense.covariance(L, problem.gram, problem.cross, problem.test_gram, beta)
        return np.concatenate([mean, mean**2 + np.diagonal(covariance), [scale]])

    averages = scale_laws.average(problem.log_weight((WIDTH,), beta), moments)
    points = len(problem.X_test)
    return np.append(averages[points:-1] - averages[:points] ** 2, averages[-1])


@claim(
    id="zero-temperature.existence",
    equation="§III-C",
    latex=(
        r"\int \det(L)^{-p/2} \operatorname{etr}\left(-\tfrac{1}{2} Y^\top G_{xx}^{-1} Y L^{-1}\right) "
        r"d\varpi(L) < \infty"
    ),
    statement="The zero-temperature posterior exists where the integral over the scale converges.",
    route="E λ^{−p/2} of a product of Gammas in closed form, for y = 0, on both sides of the edge",
    **rounding(1e-10),
    correction=(
        "The text assumes it. One output: for y ≠ 0 always; for y = 0 only if every hidden width exceeds "
        "p, and then p_d(0|X) = (2π)^{−p/2} det(G_xx)^{−1/2} Π_ℓ Γ((n_ℓ−p)/2) (n_ℓ/2)^{p/2} / Γ(n_ℓ/2)."
    ),
)
def existence(run: Run) -> float:
    """Compare the evidence of y = 0 with the closed form, and count wrong answers about existence."""
    problem = random_problem(run.rng)
    p = len(problem.y)
    zero = Problem(problem.X, 0 * problem.Y, problem.X_test)
    wrong = sum(exists(zero, widths) != (min(widths) > p) for widths in ((p,), (p + 1,), (p, 9), (p + 1, 9)))
    wrong += sum(not exists(problem, widths) for widths in ((1,), (1, 1), (p, 2)))
    a = np.array([p + 1, p + 3]) / 2
    moment = float((special.gammaln(a - p / 2) - special.gammaln(a) + p / 2 * np.log(a)).sum())
    reference = dense.log_gaussian(np.zeros(p), problem.gram) + moment
    return wrong + absolute_error(condition(zero, (p + 1, p + 3)).log_evidence, reference)


def exists(problem: Problem, widths: tuple[int, ...]) -> bool:
    """Whether the library conditions at zero temperature, or refuses and says that this is why."""
    try:
        condition(problem, widths)
    except ValueError as error:
        if "zero temperature" not in str(error):
            raise
        return False
    return True


def condition(problem: Problem, widths: tuple[int, ...]) -> Posterior:
    """The library's posterior of the first output at zero temperature."""
    return Network(widths).condition(problem.X, problem.y, INF)
