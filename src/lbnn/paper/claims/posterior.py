"""§III-B and the appendix, several outputs: the predictive is a scale average of Gaussian processes.

The identities hold for every prior of L, so a prior of a few scale matrices tests them with plain sums.
"""

from __future__ import annotations

import math

import numpy as np

from lbnn._base.types import Array
from lbnn.network import Network
from lbnn.paper.compare import absolute_error, relative_error, rounding
from lbnn.paper.registry import Run, claim
from lbnn.paper.routes import dense
from lbnn.paper.routes.problem import (
    Problem,
    ScaleAtoms,
    library_likelihood,
    random_problem,
    random_scales,
)

BETA = 4.0


def dense_moments(problem: Problem, atoms: ScaleAtoms, beta: float) -> tuple[Array, Array, Array]:
    """μ_L and Σ_L of every scale and the weights of ρ, all by the printed equations."""
    means = [dense.mean(L, problem.gram, problem.cross, problem.Y, beta) for L in atoms.scales]
    covariances = [
        dense.covariance(L, problem.gram, problem.cross, problem.test_gram, beta) for L in atoms.scales
    ]
    return np.array(means), np.array(covariances), atoms.dense_weights(problem, beta)


@claim(
    id="posterior.given-scale",
    equation="(10), (11), (12)",
    latex=(
        r"\Gamma_L \equiv I_{p n_d} + \beta G_{xx} \otimes L",
        (
            r"\Sigma_L \equiv G_{\hat{x}\hat{x}} \otimes L - \beta (G_{x\hat{x}}^\top \otimes L) "
            r"\Gamma_L^{-1} (G_{x\hat{x}} \otimes L)"
        ),
        r"\mu_L \equiv \beta (G_{x\hat{x}}^\top \otimes L) \Gamma_L^{-1} \operatorname{v}(Y)",
    ),
    statement="Given L, the predictive is N(μ_L, Σ_L) with Γ_L = I + β G_xx ⊗ L: three outputs.",
    route="dense Kronecker products",
    **rounding(1e-11),
)
def given_scale(run: Run) -> float:
    """Compare mean and covariance for a single scale matrix."""
    problem = random_problem(run.rng, outputs=3)
    atom = random_scales(run.rng, count=1)
    means, covariances, _ = dense_moments(problem, atom, BETA)
    predictive = atom.library_posterior(problem, BETA).predict(problem.X_test)
    return max(
        relative_error(predictive.mean.reshape(-1), means[0]),
        relative_error(predictive.covariance.reshape(covariances[0].shape), covariances[0]),
    )


@claim(
    id="posterior.scale-density",
    equation="(13)",
    latex=(
        r"\frac{d\rho}{d\varpi} \propto \det(\Gamma_L)^{-1/2} \exp\left(-\tfrac{1}{2} \beta\, "
        r"\operatorname{v}(Y)^\top \Gamma_L^{-1} \operatorname{v}(Y)\right)"
    ),
    statement="dρ/dϖ ∝ det(Γ_L)^{−1/2} exp(−½ β v(Y)ᵀ Γ_L⁻¹ v(Y)): three outputs.",
    route="dense Kronecker products, differences between scales",
    **rounding(1e-11),
)
def scale_density(run: Run) -> float:
    """Compare log densities up to their common constant."""
    problem, atoms = random_problem(run.rng, outputs=3), random_scales(run.rng, count=12)
    value = library_likelihood(problem, BETA).log_value(*np.linalg.eigh(atoms.scales))
    reference = np.array([dense.log_scale_density(L, problem.gram, problem.Y, BETA) for L in atoms.scales])
    return absolute_error(value - value[0], reference - reference[0])


@claim(
    id="posterior.generating-function",
    equation="(8), (9), (14)",
    latex=(
        r"Z(\beta, J) = \mathbb{E}_{L \sim \rho} \exp\left(\mu_L^\top \operatorname{v}(J) + \tfrac{1}{2} "
        r"\operatorname{v}(J)^\top \Sigma_L \operatorname{v}(J)\right)"
    ),
    statement="Z(β, J) = E_ρ exp(μ_Lᵀ v(J) + ½ v(J)ᵀ Σ_L v(J)): three outputs.",
    route="dense Kronecker products, averaged over a prior of four scale matrices",
    **rounding(1e-11),
    correction="(8) should read etr(J W_d⋯W_1 X̂ᵀ): J is p̂ × n_d, as in (9) and (14), and not its transpose.",
)
def generating_function(run: Run) -> float:
    """Compare log Z(J) and the characteristic function."""
    problem, atoms = random_problem(run.rng, outputs=3), random_scales(run.rng)
    source = 0.5 * run.rng.standard_normal((3, 3))
    means, covariances, weights = dense_moments(problem, atoms, BETA)
    j = source.reshape(-1)
    quadratic = np.einsum("i,sij,j->s", j, covariances, j)
    predictive = atoms.library_posterior(problem, BETA).predict(problem.X_test)
    return max(
        absolute_error(predictive.cgf(source), math.log(weights @ np.exp(means @ j + 0.5 * quadratic))),
        absolute_error(predictive.characteristic(source), weights @ np.exp(1j * means @ j - 0.5 * quadratic)),
    )


@claim(
    id="posterior.mean",
    equation="(15)",
    latex=(
        r"\langle \hat{F}_{\hat{\mu} j} \rangle = \mathbb{E}_{L \sim \rho}\, \mu_L^\top "
        r"\operatorname{v}(\chi_{\hat{\mu} j})"
    ),
    statement="⟨F̂⟩ = E_ρ μ_L: three outputs.",
    route="dense Kronecker products, averaged over a prior of four scale matrices",
    **rounding(1e-11),
)
def mean(run: Run) -> float:
    """Compare predictive means."""
    problem, atoms = random_problem(run.rng, outputs=3), random_scales(run.rng)
    means, _, weights = dense_moments(problem, atoms, BETA)
    predictive = atoms.library_posterior(problem, BETA).predict(problem.X_test)
    return relative_error(predictive.mean.reshape(-1), weights @ means)


@claim(
    id="posterior.covariance",
    equation="(16)",
    latex=(
        r"\operatorname{cov}(\hat{F}_{\hat{\mu} j}, \hat{F}_{\hat{\nu} k}) = \mathbb{E}_{L \sim \rho}\, "
        r"\operatorname{v}(\chi_{\hat{\mu} j})^\top \Sigma_L \operatorname{v}(\chi_{\hat{\nu} k}) + "
        r"\operatorname{cov}_{L \sim \rho}\left(\mu_L^\top \operatorname{v}(\chi_{\hat{\mu} j}), \mu_L^\top "
        r"\operatorname{v}(\chi_{\hat{\nu} k})\right)"
    ),
    statement="cov F̂ = E_ρ Σ_L + cov_ρ(μ_L), the law of total covariance: three outputs.",
    route="dense Kronecker products, averaged over a prior of four scale matrices",
    **rounding(1e-11),
)
def covariance(run: Run) -> float:
    """Compare predictive covariances."""
    problem, atoms = random_problem(run.rng, outputs=3), random_scales(run.rng)
    means, covariances, weights = dense_moments(problem, atoms, BETA)
    deviations = means - weights @ means
    total = np.tensordot(weights, covariances, 1) + (weights[:, None] * deviations).T @ deviations
    predictive = atoms.library_posterior(problem, BETA).predict(problem.X_test)
    return relative_error(predictive.covariance.reshape(total.shape), total)


@claim(
    id="posterior.training-set",
    equation="§III-B",
    latex=r"\hat{X} = X: \quad G_{x\hat{x}} \gets G_{xx}, \quad G_{\hat{x}\hat{x}} \gets G_{xx}",
    statement="The training-set predictor follows with G_xx̂ ← G_xx.",
    route="dense Kronecker products with X̂ = X",
    **rounding(1e-11),
)
def training_set(run: Run) -> float:
    """Compare the predictive at the training points, asked for without test inputs."""
    problem, atoms = random_problem(run.rng, outputs=2), random_scales(run.rng, outputs=2)
    at_training = Problem(problem.X, problem.Y, problem.X)
    means, covariances, weights = dense_moments(at_training, atoms, BETA)
    deviations = means - weights @ means
    total = np.tensordot(weights, covariances, 1) + (weights[:, None] * deviations).T @ deviations
    predictive = atoms.library_posterior(problem, BETA).predict()
    return max(
        relative_error(predictive.mean.reshape(-1), weights @ means),
        relative_error(predictive.covariance.reshape(total.shape), total),
    )


@claim(
    id="posterior.single-layer",
    equation="§III-B",
    latex=(
        r"d = 1: \quad L = I_{n_d}, \quad \langle \hat{F} \rangle = G_{x\hat{x}}^\top (G_{xx} + "
        r"I_p/\beta)^{-1} Y"
    ),
    statement="Depth one is Gaussian process regression, L = I.",
    route="the textbook predictor G_x̂x (G_xx + I/β)⁻¹ Y, its covariance and the marginal likelihood",
    **rounding(1e-11),
)
def single_layer(run: Run) -> float:
    """Compare a network without hidden layers with regression, output by output."""
    problem = random_problem(run.rng, outputs=2)
    post = Network(()).condition(problem.X, problem.Y, BETA)
    pred = post.predict(problem.X_test)
    noisy = problem.gram + np.eye(len(problem.gram)) / BETA
    covariance = problem.test_gram - problem.cross.T @ np.linalg.solve(noisy, problem.cross)
    evidence = sum(dense.log_gaussian(column, noisy) for column in problem.Y.T)
    return max(
        relative_error(pred.mean, problem.cross.T @ np.linalg.solve(noisy, problem.Y)),
        relative_error(pred.covariance[:, 0, :, 0], covariance),
        relative_error(pred.covariance[:, 1, :, 1], covariance),
        float(np.abs(pred.covariance[:, 0, :, 1]).max()),
        absolute_error(post.log_evidence, evidence),
    )


@claim(
    id="posterior.appendix",
    equation="(44)–(50)",
    latex=(
        (
            r"\det(\tilde{G}_{xx} \otimes L) \det(A) = \det(\Gamma_L), \quad A = \begin{bmatrix} \beta "
            r"I & 0 \\ 0 & 0 \end{bmatrix} + \tilde{G}_{xx}^{-1} \otimes L^{-1}"
        ),
        (
            r"\tfrac{1}{2} b^\top A^{-1} b - \tfrac{1}{2} \beta \operatorname{tr}(Y Y^\top) = "
            r"-\tfrac{1}{2} \beta\, \operatorname{v}(Y)^\top \Gamma_L^{-1} \operatorname{v}(Y) + \mu_L^\top "
            r"\operatorname{v}(J) + \tfrac{1}{2} \operatorname{v}(J)^\top \Sigma_L \operatorname{v}(J)"
        ),
    ),
    statement="det(G̃ ⊗ L) det A = det Γ_L; ½bᵀA⁻¹b − ½β tr YYᵀ is the sum of the exponents of (13), (14).",
    route="the appendix's Gaussian integral with the joint Gram matrix, dense",
    **rounding(1e-9),
)
def appendix(run: Run) -> float:
    """Compare the integral with the library's evidence and generating function of one scale."""
    problem, atom = random_problem(run.rng, outputs=2), random_scales(run.rng, outputs=2, count=1)
    source, L = 0.5 * run.rng.standard_normal((3, 2)), atom.scales[0]
    joint = np.block([[problem.gram, problem.cross], [problem.cross.T, problem.test_gram]])
    size = problem.Y.size
    likelihood = np.diag(np.where(np.arange(len(joint) * len(L)) < size, BETA, 0.0))
    A: Array = likelihood + np.kron(np.linalg.inv(joint), np.linalg.inv(L))
    b = np.append(BETA * problem.Y, source)
    exponent = 0.5 * float(b @ np.linalg.solve(A, b)) - 0.5 * BETA * float((problem.Y**2).sum())
    integral = exponent - 0.5 * dense.log_det(np.kron(joint, L)) - 0.5 * dense.log_det(A)
    normaliser = 0.5 * size * math.log(BETA / (2 * math.pi))
    factor = library_likelihood(problem, BETA)
    own = factor.log_constant + float(factor.log_value(*np.linalg.eigh(L[None]))[0])
    cgf = atom.library_posterior(problem, BETA).predict(problem.X_test).cgf(source)
    return absolute_error(own + cgf, integral + normaliser)
