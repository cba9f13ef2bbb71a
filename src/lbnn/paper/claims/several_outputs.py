"""§III-B and §III-C, several outputs: what the average over a matrix does that a number cannot."""

from __future__ import annotations

import math

import numpy as np

from lbnn._base.types import Array
from lbnn.network import Network
from lbnn.paper import figures
from lbnn.paper.compare import (
    mean_and_error,
    score_against,
    score_between,
    standard_errors,
    weighted_mean_and_error,
)
from lbnn.paper.registry import Run, claim
from lbnn.paper.routes import cone
from lbnn.paper.routes.problem import (
    Problem,
    draw_weights,
    likelihood_weights,
    network_outputs,
    random_problem,
)
from lbnn.posterior import Posterior

BETA = 4.0
WIDTH = 8
REPLICATES = 16
WIDTHS = (4, 12, 36)


@claim(
    id="several-outputs.coupling",
    equation="§III-B, (13), (16)",
    latex=(
        r"\frac{d\rho}{d\varpi} \propto \det(\Gamma_L)^{-1/2} \exp\left(-\tfrac{1}{2} \beta\, "
        r"\operatorname{v}(Y)^\top \Gamma_L^{-1} \operatorname{v}(Y)\right), \quad d = 1: \; L = I_{n_d}"
    ),
    statement=(
        "Depth lets a network couple its outputs as the data ask, which a single layer cannot: E_ρ L_12 "
        "has the sign of the targets' correlation, and at depth one outputs stay independent."
    ),
    route=(
        "(13) times the Wishart density integrated over the cone of 2 × 2 matrices; 16 runs; standard errors"
    ),
    **standard_errors(8, REPLICATES),
    figure=figures.coupling,
)
def coupling(run: Run) -> float:
    """Compare E L and the evidence for targets that agree and targets that oppose each other."""
    base, scores = random_problem(run.rng, examples=4), []
    for sign in (1.0, -1.0):
        Y = 2 * np.column_stack([base.y, sign * base.y + 0.2 * run.rng.standard_normal(4)])
        problem = Problem(base.X, Y, base.X_test)
        nodes, weights, log_evidence = cone.integrate(scale_law(problem, WIDTH), points=31)
        exact = cone.average(nodes, weights, lambda L: L)
        run.record[f"E L_12, targets of correlation near {sign:+.0f}"] = round(float(exact[0, 1]), 4)
        single_layer = Network(()).condition(problem.X, problem.Y, BETA).predict(problem.X_test)
        if sign * exact[0, 1] <= 0 or np.any(single_layer.covariance[:, 0, :, 1]):
            return math.inf
        estimate = mean_and_error([scale_and_evidence(problem, seed) for seed in run.seeds(REPLICATES)])
        scores.append(score_against(np.append(exact, log_evidence), estimate))
    return max(scores)


def scale_and_evidence(problem: Problem, seed: int) -> Array:
    """The library's E L and log evidence."""
    post = Network((WIDTH,)).condition(problem.X, problem.Y, BETA, target_error=0.02, seed=seed)
    return np.append(post.scale.mean, post.log_evidence)


def scale_law(problem: Problem, width: int) -> cone.LogDensity:
    """Log of ϖ(L) N(v(Y); 0, G_xx ⊗ L + I/β), two outputs and depth two: its integral is the evidence."""
    y = problem.Y.reshape(-1)

    def log_density(L: Array) -> Array:
        covariances = np.einsum("pq,mij->mpiqj", problem.gram, L).reshape(len(L), len(y), len(y))
        covariances = covariances + np.eye(len(y)) / BETA
        quadratic = np.linalg.solve(covariances, np.broadcast_to(y[:, None], (len(L), len(y), 1)))[..., 0] @ y
        log_det = np.linalg.slogdet(2 * math.pi * covariances)[1]
        return np.asarray(cone.log_wishart(L, np.eye(2), width) - 0.5 * (quadratic + log_det))

    return log_density


@claim(
    id="several-outputs.total-covariance",
    equation="(15), (16)",
    latex=(
        r"\operatorname{cov}(\hat{F}_{\hat{\mu} j}, \hat{F}_{\hat{\nu} k}) = \mathbb{E}_\rho "
        r"[\Sigma_L]_{\hat{\mu} j, \hat{\nu} k} + \operatorname{cov}_\rho([\mu_L]_{\hat{\mu} j}, "
        r"[\mu_L]_{\hat{\nu} k})"
    ),
    statement=(
        "Predictive mean and second moments across points and outputs are those of the network's weights, "
        "by the law of total covariance: two outputs, depth three."
    ),
    route="weights drawn from the prior and weighted by the likelihood; 16 runs; standard errors",
    **standard_errors(14, REPLICATES),
)
def total_covariance(run: Run) -> float:
    """Compare four means and ten second moments."""
    problem, widths, beta = random_problem(run.rng, examples=3, inputs=5, points=2, outputs=2), (4, 3), 2.0
    weights = draw_weights(run.rng, (5, *widths, 2), run.draws(400_000))
    shares = likelihood_weights(network_outputs(problem.X, weights), problem.Y, beta)
    draws = network_outputs(problem.X_test, weights).reshape(-1, 4)
    rows, columns = np.triu_indices(4)
    simulated = weighted_mean_and_error(np.column_stack([draws, draws[:, rows] * draws[:, columns]]), shares)
    runs = [
        Network(widths).condition(problem.X, problem.Y, beta, target_error=0.02, seed=seed)
        for seed in run.seeds(REPLICATES)
    ]
    own = mean_and_error([first_two_moments(post, problem.X_test) for post in runs])
    return score_between(own, simulated)


def first_two_moments(posterior: Posterior, X_test: Array) -> Array:
    """Means and second moments of all outputs at all points."""
    pred = posterior.predict(X_test)
    mean = pred.mean.reshape(-1)
    second = pred.covariance.reshape(len(mean), len(mean)) + np.outer(mean, mean)
    return np.append(mean, second[np.triu_indices(len(mean))])


@claim(
    id="several-outputs.dimension-reduction",
    equation="§III-C",
    latex=r"n_0 n_1 + n_1 n_2 \;\; \longrightarrow \;\; \tfrac{1}{2} n_2 (n_2 + 1) \leq n_2^2",
    statement=(
        "Sampling the scale instead of the weights gives the same posterior in a space whose "
        "dimension does not grow with the width: three outputs, depth two."
    ),
    route="weights drawn from the prior and weighted by the likelihood; 16 runs; standard errors of E L",
    **standard_errors(6 * len(WIDTHS), REPLICATES),
)
def dimension_reduction(run: Run) -> float:
    """Compare E L with the average of W_2 W_2ᵀ over the weights."""
    problem, beta = random_problem(run.rng, examples=3, inputs=4, outputs=3), 1.0
    upper, scores = np.triu_indices(3), []
    for width in WIDTHS:
        weights = draw_weights(run.rng, (4, width, 3), run.draws(100_000))
        shares = likelihood_weights(network_outputs(problem.X, weights), problem.Y, beta)
        scales = (weights[1] @ weights[1].swapaxes(1, 2))[:, *upper]
        runs = [
            Network((width,)).condition(problem.X, problem.Y, beta, target_error=0.02, seed=seed)
            for seed in run.seeds(REPLICATES)
        ]
        own = mean_and_error([np.asarray(post.scale.mean)[upper] for post in runs])
        scores.append(score_between(own, weighted_mean_and_error(scales, shares)))
    return max(scores)
