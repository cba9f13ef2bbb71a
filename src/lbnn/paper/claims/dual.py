"""§VI: the adaptive-kernel interpretation. Integrating W_d out instead of W_1 mixes over kernels.

At depth two K = X W_1ᵀ W_1 Xᵀ / n_1 ~ Wishart_p(G_xx/n_1, n_1), and the targets given K are Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lbnn._base.types import Array
from lbnn.matrix_gig.distribution import MatrixGIG
from lbnn.network import Network
from lbnn.paper.compare import (
    absolute_error,
    mean_and_error,
    quadrature,
    relative_error,
    score_against,
    score_between,
    standard_errors,
)
from lbnn.paper.registry import Run, claim
from lbnn.paper.routes import cone
from lbnn.paper.routes.problem import Problem, random_problem
from lbnn.posterior import Posterior

BETA = 4.0
WIDTH = 10
REPLICATES = 16


def kernel_law(problem: Problem) -> cone.LogDensity:
    """Log of Wishart_2(K; G_xx/n_1, n_1) Π_j N(y_j; 0, K + I/β), two examples: integrates to the evidence."""

    def log_density(K: Array) -> Array:
        covariances = K + np.eye(2) / BETA
        explained = np.einsum("pj,mpq,qj->m", problem.Y, np.linalg.inv(covariances), problem.Y)
        log_det = problem.Y.shape[1] * np.linalg.slogdet(2 * math.pi * covariances)[1]
        return np.asarray(cone.log_wishart(K, problem.gram, WIDTH) - 0.5 * (explained + log_det))

    return log_density


@claim(
    id="dual.kernel-mixture",
    equation="§VI, (20), (34)",
    latex=(
        r"K \sim \mathcal{W}_p(n_1^{-1} G_{xx}, n_1), \quad Y \mid K \sim \mathcal{MN}(0, K + \beta^{-1} "
        r"I_p, I_{n_d})"
    ),
    statement=(
        "Mixing over the scale (primal) and over the hidden kernel (dual) are one posterior: evidence and "
        "⟨K⟩ of depth two agree. One output."
    ),
    route="the mixture over kernels, integrated over the cone of 2 × 2 matrices: no scale λ anywhere",
    **quadrature(1e-9),
)
def kernel_mixture(run: Run) -> float:
    """Compare log evidence and the average kernel of two examples."""
    problem = random_problem(run.rng, examples=2)
    nodes, weights, log_evidence = cone.integrate(kernel_law(problem))
    post = Network((WIDTH,)).condition(problem.X, problem.y, BETA)
    return max(
        absolute_error(post.log_evidence, log_evidence),
        relative_error(post.feature_kernel(), cone.average(nodes, weights, lambda K: K)),
    )


@claim(
    id="dual.many-outputs",
    equation="§VI, (13), (34)",
    latex=(
        r"\langle K \rangle = \mathbb{E}_{K \mid Y} K = G_{xx} + \frac{1}{n_1} \mathbb{E}_{L \sim \rho} "
        r"\Delta_L"
    ),
    statement=(
        "The same with more outputs than examples, where the dual integral has p(p+1)/2 = 3 dimensions and "
        "the primal one n_d(n_d+1)/2 = 10."
    ),
    route=(
        "the mixture over kernels on the cone of 2 × 2 matrices; 16 runs over 4 × 4 scales; standard errors"
    ),
    **standard_errors(4, REPLICATES),
)
def many_outputs(run: Run) -> float:
    """Compare log evidence and the average kernel, the library sampling the scale."""
    problem = random_problem(run.rng, examples=2, outputs=4)
    nodes, weights, log_evidence = cone.integrate(kernel_law(problem))
    exact = np.append(cone.average(nodes, weights, lambda K: K)[np.triu_indices(2)], log_evidence)
    return score_against(exact, replicated(problem, run, "importance", kernel_and_evidence))


@claim(
    id="dual.engine",
    equation="§VI",
    latex=r"\mathbb{E}_{L \sim \varpi}\, p(Y \mid L) = \mathbb{E}_{K \sim \mathcal{W}}\, p(Y \mid K)",
    statement=(
        "The library's dual engine, which samples the p × p hidden kernel and then draws L given it, gives "
        "the evidence, ⟨K⟩ and E L of its primal engine: three examples, four outputs."
    ),
    route="primal engine against dual engine, which share no factor; 16 runs each; standard errors",
    **standard_errors(17, REPLICATES),
)
def engine(run: Run) -> float:
    """Compare the two engines."""
    problem = random_problem(run.rng, examples=3, outputs=4)
    return score_between(
        replicated(problem, run, "importance", everything), replicated(problem, run, "dual", everything)
    )


def kernel_and_evidence(post: Posterior) -> Array:
    """⟨K⟩ and log evidence."""
    kernel = post.feature_kernel()
    return np.append(kernel[np.triu_indices(len(kernel))], post.log_evidence)


def everything(post: Posterior) -> Array:
    """⟨K⟩, log evidence and E L."""
    scale = np.asarray(post.scale.mean)
    return np.append(kernel_and_evidence(post), scale[np.triu_indices(len(scale))])


def replicated(
    problem: Problem, run: Run, engine: str, statistic: Callable[[Posterior], Array]
) -> tuple[Array, Array]:
    """A statistic of the posterior over independent runs: mean and standard error."""
    runs = [
        Network((WIDTH,)).condition(problem.X, problem.Y, BETA, engine=engine, seed=seed)
        for seed in run.seeds(REPLICATES)
    ]
    return mean_and_error([statistic(post) for post in runs])


@claim(
    id="dual.zero-temperature",
    equation="§VI, (30), (36)",
    latex=(
        (
            r"\beta \to \infty: \quad K \sim \mathcal{MGIG}_p\left(Y Y^\top, n_1 G_{xx}^{-1}, \frac{n_1 - "
            r"n_d}{2}\right)"
        ),
        (
            r"\mathbb{E} K = \left(1 - \frac{n_d}{n_1}\right) G_{xx} + \frac{1}{n_1} Y\, \mathbb{E}_{L \sim "
            r"\rho}[L^{-1}]\, Y^\top"
        ),
    ),
    statement=(
        "At zero temperature the hidden kernel itself is MGIG, and its mean is the ⟨K⟩ that the scale "
        "gives: one output, two examples."
    ),
    route="the mean of `MatrixGIG` over kernels, against E λ⁻¹ of the scale",
    **quadrature(1e-9),
)
def zero_temperature(run: Run) -> float:
    """Compare the mean of the law of K with the library's feature kernel."""
    problem = random_problem(run.rng, examples=2)
    law = MatrixGIG(np.outer(problem.y, problem.y), WIDTH * np.linalg.inv(problem.gram), (WIDTH - 1) / 2)
    post = Network((WIDTH,)).condition(problem.X, problem.y, math.inf)
    return relative_error(post.feature_kernel(), law.mean)
