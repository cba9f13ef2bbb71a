"""§III-B and §III-C, several outputs: what the average over a matrix does that a number cannot."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from lbnn._base.types import Array
from lbnn.network import Network
from lbnn.paper import figures
from lbnn.paper.compare import (
    extrapolate,
    mean_and_error,
    score_against,
    score_between,
    standard_errors,
    weighted_mean_and_error,
)
from lbnn.paper.registry import Run, claim
from lbnn.paper.routes import cone, dense
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


# ---------------------------------------------------------------------- two outputs, depth three


@claim(
    id="several-outputs.prior-density",
    equation="(7)",
    latex=(
        r"p_d(F \mid X) = \mathbb{E}_{L \sim \varpi} \left[ |2 \pi\, G_{xx} \otimes L|^{-1/2} "
        r"\exp\left(-\tfrac12 \operatorname{tr}(G_{xx}^{-1} F L^{-1} F^\top)\right) \right]"
    ),
    statement="The density of the function-space prior with two outputs, depth three.",
    route="dense Gaussian densities averaged over weights of the upper layers drawn from the prior; 16 runs",
    **standard_errors(3, REPLICATES),
)
def prior_density(run: Run) -> float:
    """Compare densities relative to that of independent outputs, at three matrices F."""
    problem, widths = random_problem(run.rng, examples=3, outputs=2), (5, 4)
    scales = drawn_scales(run.rng, widths, run.draws(200_000))
    inverse, log_volume = np.linalg.inv(problem.gram), np.linalg.slogdet(scales)[1]
    base = np.linalg.slogdet(2 * math.pi * problem.gram)[1]
    values = [run.rng.uniform(0.7, 1.5) * problem.Y for _ in range(3)]
    ratios = []
    for F in values:
        square = F.T @ inverse @ F
        fit = np.einsum("mij,ij->m", np.linalg.inv(scales), square)
        ratios.append(np.exp(-0.5 * (fit + 3 * log_volume - np.trace(square))))
    simulated = weighted_mean_and_error(np.stack(ratios, axis=1))
    priors = [
        Network(widths).prior(problem.X, 2, target_error=0.02, seed=seed) for seed in run.seeds(REPLICATES)
    ]
    own = mean_and_error(
        [
            [math.exp(prior.log_density(F) + base + 0.5 * np.trace(F.T @ inverse @ F)) for F in values]
            for prior in priors
        ]
    )
    return score_between(own, simulated)


def drawn_scales(rng: np.random.Generator, widths: tuple[int, int], count: int) -> Array:
    """L = W_3 W_2 W_2ᵀ W_3ᵀ of two outputs from weights of the prior, (count, 2, 2)."""
    _, lower, upper = draw_weights(rng, (1, *widths, 2), count)
    root = upper @ lower
    return np.asarray(root @ root.swapaxes(1, 2))


@claim(
    id="several-outputs.generating-function",
    equation="(14)",
    latex=(
        r"Z(i J) = \mathbb{E}_{L \sim \rho} \exp\left( i\, \operatorname{v}(J)^\top \mu_L - \tfrac12 "
        r"\operatorname{v}(J)^\top \Sigma_L \operatorname{v}(J) \right)"
    ),
    statement="The generating function of the predictor along imaginary sources: two outputs, depth three.",
    route="weights drawn from the prior and weighted by the likelihood; 16 runs; standard errors",
    **standard_errors(6, REPLICATES),
)
def generating_function(run: Run) -> float:
    """Compare real and imaginary parts at three sources."""
    problem, widths, beta = random_problem(run.rng, examples=3, inputs=5, points=2, outputs=2), (4, 3), 2.0
    weights = draw_weights(run.rng, (5, *widths, 2), run.draws(400_000))
    shares = likelihood_weights(network_outputs(problem.X, weights), problem.Y, beta)
    sources = run.rng.standard_normal((3, 2, 2))
    phases = np.exp(1j * np.einsum("mpj,spj->ms", network_outputs(problem.X_test, weights), sources))
    simulated = weighted_mean_and_error(np.column_stack([phases.real, phases.imag]), shares)
    found = []
    for seed in run.seeds(REPLICATES):
        post = Network(widths).condition(problem.X, problem.Y, beta, target_error=0.02, seed=seed)
        values = np.array([post.predict(problem.X_test).characteristic(source) for source in sources])
        found.append(np.append(values.real, values.imag))
    return score_between(mean_and_error(found), simulated)


@claim(
    id="several-outputs.wide-kernel",
    equation="(37)",
    latex=(
        r"n_1 (\langle K \rangle - G_{xx}) \to n_d\, G_{xx} \Gamma_\infty^{-1} (G_{yy} - \Gamma_\infty) "
        r"\Gamma_\infty^{-1} G_{xx}"
    ),
    statement="The leading correction of the feature kernel of two outputs, depth three.",
    route="(33) entry by entry at L = I, against kernels at n_1 = 300, 600 and 1200, extrapolated; 16 runs",
    **standard_errors(6, REPLICATES),
)
def wide_kernel(run: Run) -> float:
    """Compare the six entries of n_1 (⟨K⟩ − G), extrapolated in 1/n."""
    problem = random_problem(run.rng, examples=3, outputs=2)
    expected = dense.kernel_correction(np.eye(2), problem.gram, problem.Y, BETA)
    upper = np.triu_indices(3)

    def correction(width: int, seed: int) -> Array:
        net = Network((width, 2 * width))
        post = net.condition(problem.X, problem.Y, BETA, target_error=0.02, seed=seed)
        return width * (np.asarray(post.feature_kernel()) - problem.gram)[upper]

    own = mean_and_error([extrapolate(partial(correction, seed=seed), 300) for seed in run.seeds(REPLICATES)])
    return score_against(expected[upper], own)


@claim(
    id="several-outputs.infinite-data",
    equation="(38)",
    latex=r"L_\ast = \frac{1}{p} Y^\top G_{xx}^{-1} Y \quad (p \to \infty, \; \beta \to \infty)",
    statement="With much data at zero temperature the scale is S/p, whatever the widths; two outputs, d = 3.",
    route="orthogonal inputs, p = 100 to 400, extrapolated in 1/p, for widths (4, 6) and (9, 5); 16 runs",
    **standard_errors(6, REPLICATES),
)
def infinite_data(run: Run) -> float:
    """Compare E L, extrapolated from p = 100, 200 and 400, with S/p: three entries at two pairs of widths."""
    square = np.array([[1.5, 0.6], [0.6, 0.8]])  # S/p
    directions = np.linalg.qr(run.rng.standard_normal((100, 2)))[0]
    upper, scores = np.triu_indices(2), []

    def mean_scale(widths: tuple[int, int], size: int, *, seed: int) -> Array:
        """E L of p = size examples with G_xx = I: targets in two directions, of which p S follows."""
        Y = np.zeros((size, 2))
        Y[:100] = directions @ np.linalg.cholesky(size * square).T
        post = Network(widths).condition_gram(np.eye(size), Y, math.inf, target_error=0.02, seed=seed)
        return np.asarray(post.scale.mean)[upper]

    for widths in ((4, 6), (9, 5)):
        found = [extrapolate(partial(mean_scale, widths, seed=seed), 100) for seed in run.seeds(REPLICATES)]
        scores.append(score_against(square[upper], mean_and_error(found)))
    return max(scores)
