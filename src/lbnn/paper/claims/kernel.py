"""§IV: the average feature kernel of the first hidden layer."""

from __future__ import annotations

import math

import numpy as np

from lbnn._base.types import Array
from lbnn.network import Network
from lbnn.paper import figures
from lbnn.paper.compare import quadrature, relative_error, rounding, standard_errors, worst_score
from lbnn.paper.registry import Run, claim
from lbnn.paper.routes import dense, scale_laws
from lbnn.paper.routes.problem import (
    Problem,
    ScaleAtoms,
    draw_weights,
    likelihood_weights,
    network_outputs,
    random_problem,
    random_scales,
)

BETA = 4.0


def dense_kernel(problem: Problem, atoms: ScaleAtoms, beta: float, width: int) -> Array:
    """⟨K⟩ = G_xx + E_ρ Δ_L / n_1 by the printed equations."""
    deltas = np.array([dense.kernel_correction(L, problem.gram, problem.Y, beta) for L in atoms.scales])
    return problem.gram + np.tensordot(atoms.dense_weights(problem, beta), deltas, 1) / width


def scalar_correction(problem: Problem, scale: float) -> Array:
    """Δ_λ (35)."""
    G, gamma = problem.gram, np.eye(len(problem.y)) + BETA * scale * problem.gram
    predictor = BETA * G @ np.linalg.solve(gamma, problem.y)
    return scale * np.outer(predictor, predictor) - scale * BETA * G @ np.linalg.solve(gamma, G)


@claim(
    id="kernel.finite-temperature",
    equation="(33), (34)",
    latex=(
        r"\langle K \rangle = G_{xx} + \frac{1}{n_1} \mathbb{E}_{L \sim \rho} \Delta_L",
        (
            r"[\Delta_L]_{\mu\nu} \equiv \beta^2 \operatorname{v}(Y)^\top \Gamma_L^{-1} "
            r"(G_{xx} \chi_{\mu\nu} G_{xx} \otimes L) \Gamma_L^{-1} \operatorname{v}(Y) "
            r"- \beta \operatorname{tr}[\Gamma_L^{-1} (G_{xx} \chi_{\mu\nu} G_{xx} \otimes L)]"
        ),
    ),
    statement="⟨K⟩ = G_xx + E_ρ Δ_L / n_1: three outputs.",
    route="Δ_L entry by entry with dense Kronecker products, averaged over a prior of four scale matrices",
    **rounding(1e-11),
    figure=figures.kernels,
)
def finite_temperature(run: Run) -> float:
    """Compare kernels on the training set."""
    problem, atoms = random_problem(run.rng, outputs=3), random_scales(run.rng)
    kernel = atoms.library_posterior(problem, BETA, width=7).feature_kernel()
    return relative_error(kernel, dense_kernel(problem, atoms, BETA, width=7))


@claim(
    id="kernel.zero-temperature",
    equation="(36)",
    latex=r"\lim_{\beta \to \infty} \Delta_L = Y L^{-1} Y^\top - n_d G_{xx}",
    statement="lim Δ_L = Y L⁻¹ Yᵀ − n_d G_xx: three outputs.",
    route="the printed limit, averaged over a prior of four scale matrices",
    **rounding(1e-10),
    figure=figures.phase,
)
def zero_temperature(run: Run) -> float:
    """Compare kernels on the training set at β = ∞."""
    problem, atoms = random_problem(run.rng, outputs=3), random_scales(run.rng)
    kernel = atoms.library_posterior(problem, math.inf, width=7).feature_kernel()
    return relative_error(kernel, dense_kernel(problem, atoms, math.inf, width=7))


@claim(
    id="kernel.scalar",
    equation="(35)",
    latex=(
        r"\Delta_\lambda = \lambda \beta^2 G_{xx} \Gamma_\lambda^{-1} y y^\top \Gamma_\lambda^{-1} "
        r"G_{xx} - \lambda \beta\, G_{xx} \Gamma_\lambda^{-1} G_{xx}"
    ),
    statement="One output: Δ_λ = λβ² G Γ_λ⁻¹ yyᵀ Γ_λ⁻¹ G − λβ G Γ_λ⁻¹ G.",
    route="adaptive quadrature over λ at depths two and three",
    **quadrature(1e-10),
)
def scalar(run: Run) -> float:
    """Compare kernels on the training set."""
    problem, worst = random_problem(run.rng), 0.0
    for widths in ((5,), (3, 4)):
        delta = scale_laws.average(
            problem.log_weight(widths, BETA), lambda scale: scalar_correction(problem, scale)
        )
        kernel = Network(widths).condition(problem.X, problem.y, BETA).feature_kernel()
        worst = max(worst, relative_error(kernel, problem.gram + delta / widths[0]))
    return worst


@claim(
    id="kernel.reciprocal-mean",
    equation="(30), (36)",
    latex=(
        r"\lim_{\beta \to \infty} \langle K \rangle = \left(1 - \frac{n_d}{n_1}\right) G_{xx} + "
        r"\frac{1}{n_1} Y\, \mathbb{E}_{L \sim \rho}[L^{-1}]\, Y^\top"
    ),
    statement="At zero temperature ⟨K⟩ needs E L⁻¹ only: depth two, one output.",
    route="E λ⁻¹ of the generalised inverse Gaussian law, a ratio of Bessel functions",
    tolerance=1e-10,
    tolerance_reason=(
        "both routes are exact: rounding of a ratio of SciPy's Bessel functions (10⁻¹³) and of dense matrices"
    ),
)
def reciprocal_mean(run: Run) -> float:
    """Compare kernels with a closed form."""
    problem, width = random_problem(run.rng), 6
    order, square = (width - len(problem.y)) / 2, float(problem.target_square[0, 0])
    inverse = scale_laws.inverse_gaussian_moment(order, -1, width, square)
    reference = (1 - 1 / width) * problem.gram + inverse / width * np.outer(problem.y, problem.y)
    return relative_error(
        Network((width,)).condition(problem.X, problem.y, math.inf).feature_kernel(), reference
    )


@claim(
    id="kernel.predictor-product",
    equation="(35)",
    latex=(
        r"\lambda \beta^2 G_{xx} \Gamma_\lambda^{-1} y y^\top \Gamma_\lambda^{-1} G_{xx} = \mu_\lambda "
        r"\mu_\lambda^\top / \lambda"
    ),
    statement="The first term of Δ_λ is the outer product of the mean training-set predictor with itself.",
    route="the library's mean and kernel for a single λ",
    **rounding(1e-10),
    correction="With the mean predictor μ_λ of (19) the first term is μ_λ μ_λᵀ / λ.",
)
def predictor_product(run: Run) -> float:
    """Compare the kernel of one atom with μμᵀ/λ less the second term."""
    problem, scale, width = random_problem(run.rng), 0.6, 5
    post = ScaleAtoms(np.array([[[scale]]]), np.ones(1)).library_posterior(problem, BETA, width)
    mean = post.predict().mean[:, 0]
    gamma = np.eye(len(problem.y)) + BETA * scale * problem.gram
    second = scale * BETA * problem.gram @ np.linalg.solve(gamma, problem.gram)
    reference = problem.gram + (np.outer(mean, mean) / scale - second) / width
    return relative_error(post.feature_kernel(), reference)


@claim(
    id="kernel.definition",
    equation="(31), (32)",
    latex=r"K \equiv \frac{1}{n_1} X W_1 W_1^\top X^\top",
    statement="K is the kernel of the first hidden layer's activations.",
    route="weights drawn from the prior and weighted by the likelihood, depth three, in standard errors",
    **standard_errors(9),
    correction="(31) should read K = X W_1ᵀ W_1 Xᵀ / n_1; as printed the shapes match only if n_0 = n_1.",
)
def definition(run: Run) -> float:
    """Compare ⟨K⟩ with importance sampling in weight space."""
    problem, widths, beta = random_problem(run.rng, examples=3, inputs=5), (4, 3), 1.0
    weights = draw_weights(run.rng, (5, *widths, 1), run.draws(400_000))
    shares = likelihood_weights(network_outputs(problem.X, weights), problem.Y, beta)
    hidden = problem.X @ weights[0].swapaxes(1, 2)
    kernel = Network(widths).condition(problem.X, problem.y, beta).feature_kernel()
    return worst_score(kernel, hidden @ hidden.swapaxes(1, 2) / widths[0], shares)


@claim(
    id="kernel.generating-function",
    equation="(51), (52)",
    latex=(
        r"Z(\beta, J) = \mathbb{E}_{W_1, \ldots, W_d \mid X, Y} \operatorname{etr}\left(-\frac{1}{2 "
        r"n_1} J X W_1^\top W_1 X^\top\right)"
    ),
    statement="Varying the kernel's generating function with respect to J at J = 0 gives ⟨K⟩: two outputs.",
    route="complex-step derivative of the Gaussian integral, over a prior of four scale matrices",
    **rounding(1e-10),
    correction=(
        "(52) lacks a factor det(I + G_xx J/n_1)^{(n_d − n_1)/2}, without which the derivative misses "
        "(1 − n_d/n_1) G_xx. The source is J in (32) and −J/2 in (51): the derivatives are ⟨K⟩ and −⟨K⟩/2."
    ),
)
def generating_function(run: Run) -> float:
    """Compare ⟨K⟩ with −2 ∂ log Z / ∂J, one symmetric direction at a time."""
    problem, atoms = random_problem(run.rng, examples=4, outputs=2), random_scales(run.rng, outputs=2)
    width, step = 7, 1e-30
    kernel = atoms.library_posterior(problem, BETA, width).feature_kernel()
    reference = np.empty_like(kernel)
    for mu in range(4):
        for nu in range(4):
            direction = np.zeros((4, 4), complex)
            direction[mu, nu] += 0.5j * step
            direction[nu, mu] += 0.5j * step
            reference[mu, nu] = -2 * kernel_partition(problem, atoms, direction, width) / step
    return relative_error(kernel, reference)


def kernel_partition(problem: Problem, atoms: ScaleAtoms, source: np.ndarray, width: int) -> float:
    """Imaginary part of log Z(J) for J of infinitesimal imaginary size: (52), corrected."""
    G, outputs = problem.gram, atoms.scales.shape[1]
    y, total = problem.Y.reshape(-1), 0j
    lost = np.linalg.det(np.eye(len(G)) + G @ source / width) ** ((outputs - width) / 2)
    for L, weight in zip(atoms.scales, atoms.prior_weights, strict=True):
        precision = np.kron(np.linalg.inv(G) + source / width, np.linalg.inv(L)) + BETA * np.eye(len(y))
        exponent = 0.5 * BETA**2 * y @ np.linalg.solve(precision, y) - 0.5 * BETA * y @ y
        determinant = np.linalg.det(np.kron(G, L)) * np.linalg.det(precision)
        total += weight * determinant**-0.5 * np.exp(exponent)
    return float((lost * total).imag / total.real)


@claim(
    id="kernel.infinite-width",
    equation="§IV, (37)",
    latex=(
        r"\langle K \rangle = G_{xx} + \gamma\, G_{xx} \Gamma_\infty^{-1} (G_{yy} - \Gamma_\infty) "
        r"\Gamma_\infty^{-1} G_{xx} + \mathcal{O}(\gamma^{-2}), \quad \Gamma_\infty \equiv G_{xx} + "
        r"I_p/\beta"
    ),
    statement="Δ_λ at λ = 1 is the leading correction: n_1 (⟨K⟩ − G_xx) → Δ_1 at rate 1/n.",
    route="the printed Δ_1, for widths of 10⁴ and 3·10⁴ at depth three, extrapolated in 1/n",
    tolerance=1e-5,
    tolerance_reason=(
        "extrapolation in 1/n from widths of 10⁴ leaves an error of order n⁻², 10⁻⁸, times constants "
        "of order ten to a hundred"
    ),
    correction="The remainder of (37) should read O(γ²), γ = n_d/n.",
    figure=figures.infinite_width,
)
def infinite_width(run: Run) -> float:
    """Compare Richardson's extrapolation of n_1 (⟨K⟩ − G) with Δ_1."""
    problem = random_problem(run.rng)
    leading = scalar_correction(problem, 1.0)
    widths = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
    corrections = []  # n_1 (⟨K⟩ − G_xx) at depth three
    for width in widths:
        kernel = Network((width, width)).condition(problem.X, problem.y, BETA).feature_kernel()
        corrections.append(width * (kernel - problem.gram))
    run.record["width"] = list(widths)
    run.record["distance"] = [relative_error(each, leading) for each in corrections]
    return relative_error(1.5 * corrections[-1] - 0.5 * corrections[-2], leading)
