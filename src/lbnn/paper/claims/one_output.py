"""§III-B, one output: the scale is a number λ, and averages over it are one-dimensional integrals."""

from __future__ import annotations

import math

import numpy as np

from lbnn._base.types import Array
from lbnn.network import Network
from lbnn.paper import figures
from lbnn.paper.compare import (
    absolute_error,
    quadrature,
    relative_error,
    rounding,
    standard_errors,
    worst_score,
)
from lbnn.paper.registry import Run, claim
from lbnn.paper.routes import dense, scale_laws
from lbnn.paper.routes.problem import (
    Problem,
    ScaleAtoms,
    draw_weights,
    likelihood_weights,
    network_outputs,
    random_problem,
)

BETA = 4.0
WIDTHS = ((5,), (3, 4))


def scalar_mean(problem: Problem, scale: float) -> Array:
    """μ_λ (19)."""
    gamma = np.eye(len(problem.y)) + BETA * scale * problem.gram
    return scale * BETA * problem.cross.T @ np.linalg.solve(gamma, problem.y)


def scalar_covariance(problem: Problem, scale: float) -> Array:
    """Σ_λ (18)."""
    gamma = np.eye(len(problem.y)) + BETA * scale * problem.gram
    explained = problem.cross.T @ np.linalg.solve(gamma, problem.cross)
    return scale * problem.test_gram - BETA * scale**2 * explained


@claim(
    id="one-output.cumulants",
    equation="(14), (15), (16)",
    latex=(
        r"\langle \hat{f} \rangle = \nabla_j \log Z \big|_{j=0}, \quad \operatorname{cov}(\hat{f}) = "
        r"\nabla_j \nabla_j^\top \log Z \big|_{j=0}"
    ),
    statement="Mean and covariance are the first derivatives of the generating function at J = 0.",
    route="fourth-order differences of the characteristic function, depth three",
    tolerance=1e-7,
    tolerance_reason=(
        "differences of fourth order with a step of 0.005 standard deviations: truncation 10⁻⁹, "
        "rounding 10⁻¹⁶/0.005²"
    ),
)
def cumulants(run: Run) -> float:
    """Differentiate log E exp(i t jᵀf̂) numerically at t = 0."""
    problem = random_problem(run.rng)
    pred = Network((3, 4)).condition(problem.X, problem.y, BETA).predict(problem.X_test)
    source = run.rng.standard_normal(3)
    h = 0.005 / math.sqrt(float(source @ pred.covariance @ source) + float(source @ pred.mean) ** 2)
    one, two = (np.log(pred.characteristic(step * h * source)) for step in (1, 2))
    first = (8 * one.imag - two.imag) / (6 * h)  # odd in t
    second = (16 * one.real - two.real) / (6 * h**2)  # even in t
    exact = float(source @ pred.covariance @ source)
    return max(abs(first - float(source @ pred.mean)) / math.sqrt(exact), abs(second + exact) / exact)


@claim(
    id="one-output.density",
    equation="(17), (20)",
    latex=(
        r"\frac{d\rho}{d\varpi} \propto \det(\Gamma_\lambda)^{-1/2} \exp\left(-\tfrac{1}{2} \beta\, "
        r"y^\top \Gamma_\lambda^{-1} y\right), \quad \Gamma_\lambda \equiv I_p + \beta \lambda G_{xx}"
    ),
    statement="One output: dρ/dϖ ∝ det(Γ_λ)^{−1/2} exp(−½ β yᵀΓ_λ⁻¹y); its normaliser is the evidence.",
    route="adaptive quadrature over λ: evidence and E λ at depths two and three",
    **quadrature(1e-10),
    figure=figures.scale,
)
def scalar_density(run: Run) -> float:
    """Compare log evidence and the posterior mean of the scale."""
    problem, worst = random_problem(run.rng), 0.0
    for widths in WIDTHS:
        post = Network(widths).condition(problem.X, problem.y, BETA)
        average = scale_laws.average(problem.log_weight(widths, BETA), lambda scale: scale)
        worst = max(
            worst,
            absolute_error(post.log_evidence, problem.log_evidence(widths, BETA)),
            relative_error(post.scale.mean, average),
        )
    return worst


@claim(
    id="one-output.generating-function",
    equation="(18), (19), (21)",
    latex=(
        r"Z(\beta, j) = \mathbb{E}_{\lambda \sim \rho} \exp\left(\mu_\lambda^\top j + \tfrac{1}{2} "
        r"j^\top \Sigma_\lambda j\right)"
    ),
    statement="One output: Z(β, j) = E_ρ exp(μ_λᵀj + ½ jᵀΣ_λ j).",
    route="adaptive quadrature over λ at depth two, for j inside the domain",
    **quadrature(1e-10),
    correction="Z is the moment generating function (the text calls it the cumulant generating function).",
)
def scalar_generating_function(run: Run) -> float:
    """Compare Z(j) for jᵀRj at half of n_1, the edge of its domain."""
    problem, width = random_problem(run.rng), 5
    j = run.rng.standard_normal(3)
    j *= math.sqrt(0.5 * width / float(j @ problem.unexplained @ j))
    log_ratio = log_tilted(problem, (width,), j) - problem.log_evidence((width,), BETA)
    predictive = Network((width,)).condition(problem.X, problem.y, BETA).predict(problem.X_test)
    return absolute_error(predictive.cgf(j), log_ratio)


def log_tilted(problem: Problem, widths: tuple[int, ...], j: Array) -> float:
    """Log ∫ ϖ(λ) N(y; 0, λG + I/β) exp(μ_λᵀj + ½ jᵀΣ_λ j) dλ."""
    log_weight = problem.log_weight(widths, BETA)

    def log_integrand(t: float) -> float:
        scale = math.exp(t)
        exponent = dense.log_generating_function(
            scalar_mean(problem, scale), scalar_covariance(problem, scale), j
        )
        return log_weight(scale) + t + exponent

    return scale_laws.log_integral(log_integrand)


@claim(
    id="one-output.moments",
    equation="(17), (18), (19), (22), (23)",
    latex=(
        r"\langle \hat{f} \rangle = \mathbb{E}_{\lambda \sim \rho}\, \mu_\lambda, \quad "
        r"\operatorname{cov}(\hat{f}) = \mathbb{E}_{\lambda \sim \rho} \Sigma_\lambda + "
        r"\operatorname{cov}_{\lambda \sim \rho}(\mu_\lambda)"
    ),
    statement="One output: ⟨f̂⟩ = E_ρ μ_λ and cov f̂ = E_ρ Σ_λ + cov_ρ(μ_λ).",
    route="adaptive quadrature over λ at depths two and three",
    **quadrature(1e-10),
    figure=figures.bands,
)
def scalar_moments(run: Run) -> float:
    """Compare predictive mean and covariance."""
    problem, worst = random_problem(run.rng), 0.0
    for widths in WIDTHS:
        log_weight = problem.log_weight(widths, BETA)
        mean = scale_laws.average(log_weight, lambda scale: scalar_mean(problem, scale))
        second = scale_laws.average(log_weight, lambda scale: second_moment(problem, scale))
        pred = Network(widths).condition(problem.X, problem.y, BETA).predict(problem.X_test)
        worst = max(
            worst,
            relative_error(pred.mean, mean),
            relative_error(pred.covariance, second - np.outer(mean, mean)),
        )
    return worst


def second_moment(problem: Problem, scale: float) -> Array:
    """Σ_λ + μ_λ μ_λᵀ."""
    mean = scalar_mean(problem, scale)
    return scalar_covariance(problem, scale) + np.outer(mean, mean)


@claim(
    id="one-output.kronecker",
    equation="(17), (18), (19)",
    latex=(
        (
            r"\Gamma_\lambda \equiv I_p + \beta \lambda G_{xx}, \quad \mu_\lambda \equiv \lambda "
            r"\beta\, G_{x\hat{x}}^\top \Gamma_\lambda^{-1} y"
        ),
        (
            r"\Sigma_\lambda \equiv \lambda G_{\hat{x}\hat{x}} - \beta \lambda^2 G_{x\hat{x}}^\top "
            r"\Gamma_\lambda^{-1} G_{x\hat{x}}"
        ),
    ),
    statement="For n_d = 1 the Kronecker form reduces to Γ_λ, Σ_λ, μ_λ.",
    route="both forms and the library's Gaussian process at one λ",
    **rounding(1e-11),
)
def kronecker_reduction(run: Run) -> float:
    """Compare three computations of the same Gaussian process."""
    problem, scale = random_problem(run.rng), 0.7
    atom = ScaleAtoms(np.array([[[scale]]]), np.ones(1))
    mean = dense.mean(atom.scales[0], problem.gram, problem.cross, problem.Y, BETA)
    covariance = dense.covariance(atom.scales[0], problem.gram, problem.cross, problem.test_gram, BETA)
    pred = atom.library_posterior(problem, BETA).predict(problem.X_test)
    return max(
        relative_error(mean, scalar_mean(problem, scale)),
        relative_error(covariance, scalar_covariance(problem, scale)),
        relative_error(pred.mean[:, 0], scalar_mean(problem, scale)),
        relative_error(pred.covariance[:, 0, :, 0], scalar_covariance(problem, scale)),
    )


@claim(
    id="one-output.weight-space",
    equation="(1), (2), (3), (15), (16)",
    latex=(
        r"x \mapsto W_d \cdots W_1 x, \quad [W_\ell]_{ij} \sim \mathcal{N}(0, n_{\ell-1}^{-1})",
        (
            r"p(\mathcal{D} \mid W_1, \ldots, W_d) \propto \exp\left(-\frac{\beta}{2} \sum_{\mu=1}^{p} "
            r"\Vert f(x_\mu) - y_\mu \Vert^2\right)"
        ),
    ),
    statement="Predictive mean and second moments are those of the network's weights: depth three.",
    route="weights drawn from the prior and weighted by the likelihood, in standard errors",
    **standard_errors(6),
)
def weight_space(run: Run) -> float:
    """Compare moments with importance sampling in weight space."""
    problem, widths = random_problem(run.rng, examples=3, inputs=5, points=2), (4, 3)
    beta = 1.0
    weights = draw_weights(run.rng, (5, *widths, 1), run.draws(400_000))
    shares = likelihood_weights(network_outputs(problem.X, weights), problem.Y, beta)
    draws = network_outputs(problem.X_test, weights)[..., 0]
    squares = draws[:, :, None] * draws[:, None, :]
    pred = Network(widths).condition(problem.X, problem.y, beta).predict(problem.X_test)
    second = pred.covariance + np.outer(pred.mean, pred.mean)
    statistics = np.column_stack([draws, squares.reshape(len(draws), -1)])
    return worst_score(np.append(pred.mean, second), statistics, shares)


@claim(
    id="one-output.domain",
    equation="(14), (21)",
    latex=(
        r"Z(\beta, J) < \infty \;\; \Longleftrightarrow \;\; \lambda_{\max}(J^\top R J) < n_1 \; (d = "
        r"2), \quad R J = 0 \; (d \geq 3)"
    ),
    statement="The moment generating function exists where the average over the scale converges.",
    route="growth of the integrand for λ → ∞ from the printed densities, on both sides of the edge",
    tolerance=0.0,
    tolerance_reason="a count of wrong answers: none is allowed",
    correction=(
        "With R = G_x̂x̂ − G_x̂x G_xx⁻¹ G_xx̂: at depth two Z(J) is finite only if the largest eigenvalue of "
        "JᵀRJ is below n_1, at depth three or more only if RJ = 0. The characteristic function always exists."
    ),
)
def domain(run: Run) -> float:
    """Count where library and integrand disagree about convergence; one output."""
    problem, wrong = random_problem(run.rng), 0
    direction = run.rng.standard_normal(3)
    direction /= math.sqrt(float(direction @ problem.unexplained @ direction))
    for widths in WIDTHS:
        pred = Network(widths).condition(problem.X, problem.y, BETA).predict(problem.X_test)
        for fraction in (0.0, 0.2, 0.9, 1.1):
            j = math.sqrt(fraction * widths[0]) * direction
            wrong += math.isfinite(pred.cgf(j)) != integrand_falls(problem, widths, j)
            wrong += not abs(pred.characteristic(j)) <= 1.0 + 1e-12
    return float(wrong)


def integrand_falls(problem: Problem, widths: tuple[int, ...], j: Array) -> bool:
    """Whether ϖ(λ) exp(½ jᵀΣ_λ j) decreases between two very large scales."""
    log_prior = scale_laws.log_prior_density(widths)
    low, high = (
        log_prior(scale) + 0.5 * float(j @ scalar_covariance(problem, scale) @ j) for scale in (1e3, 1e4)
    )
    return high < low
