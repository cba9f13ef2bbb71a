"""§V: the limit theories, and scale mixing by hand (§VI)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy import linalg, stats

from lbnn import asymptotics
from lbnn._base.types import Array
from lbnn.network import Network
from lbnn.paper import figures
from lbnn.paper.compare import extrapolate, relative_error, rounding
from lbnn.paper.registry import Run, claim
from lbnn.paper.routes.problem import Problem, random_problem
from lbnn.predict.predictive import Predictive
from lbnn.theories.convergence import study
from lbnn.theories.scale_mixing import ScaleMixture

BETA = 4.0
EXTRAPOLATED = (
    "sizes n, 2n and 4n are extrapolated in 1/n, which leaves an error of third order in it times constants "
    "that grow with the fixed sizes"
)


def orthogonal_problem(examples: int, square: float) -> tuple[Array, Array]:
    """Inputs with G_xx = I and one output with yᵀy = square: all that zero temperature depends on."""
    signs = np.where(np.arange(examples) % 2, 1.0, -1.0)
    return math.sqrt(examples) * np.eye(examples), math.sqrt(square / examples) * signs


def saddle_scale(net: Network, X: Array, Y: Array) -> Array:
    """L at the saddle point, (n_d, n_d)."""
    measure = asymptotics.proportional(net, X, Y).scale
    assert measure is not None
    return measure.scales[0]


def riccati_kernel(problem: Problem, width: int) -> Array:
    """SciPy's solution of K G⁻¹ K + (γ − 1) K − γ G_yy = 0 (42), as aX + Xaᵀ − X b X + q = 0."""
    gamma = problem.Y.shape[1] / width
    half = 0.5 * (1 - gamma) * np.eye(len(problem.gram))
    root = np.linalg.cholesky(np.linalg.inv(problem.gram))
    return linalg.solve_continuous_are(half, root, problem.Y @ problem.Y.T / width, np.eye(len(root)))


@claim(
    id="asymptotics.gaussian-process",
    equation="§V-A",
    latex=r"L_\ast = \mathbb{E}_{L \sim \varpi} L = I_{n_d}",
    statement="n → ∞: the predictor is that of the Gaussian process with L = I; one output, depth three.",
    route="the Gaussian process by dense algebra, against widths of 10³, 2·10³ and 4·10³, extrapolated",
    tolerance=1e-7,
    tolerance_reason=EXTRAPOLATED,
)
def gaussian_process(run: Run) -> float:
    """Compare extrapolated means and covariances with the Gaussian process."""
    problem = random_problem(run.rng)
    solve = np.linalg.solve(problem.gram + np.eye(5) / BETA, np.column_stack([problem.y, problem.cross]))
    mean = problem.cross.T @ solve[:, 0]
    covariance = problem.test_gram - problem.cross.T @ solve[:, 1:]

    def moments(width: int) -> Array:
        pred = Network((width, width)).condition(problem.X, problem.y, BETA).predict(problem.X_test)
        return np.column_stack([pred.mean, pred.covariance])

    return relative_error(extrapolate(moments, 1_000), np.column_stack([mean, covariance]))


@claim(
    id="asymptotics.predictor-corrections",
    equation="§V-A",
    latex=(
        r"\mathbb{E} f(L) = f(I) + v \Big[\langle \nabla f, \nabla \ell \rangle + \frac12 \Delta f\Big] + "
        r"\mathcal{O}(n^{-2}), \quad v = \sum_\ell 2/n_\ell, \quad \ell(L) = \log p(Y \mid L)"
    ),
    statement=(
        "Perturbation theory in 1/n gives the corrections to predictor statistics: n times the distance of "
        "mean and covariance from the Gaussian process tends to a first-order term (one output, d = 3)."
    ),
    route="exact moments for widths (n, 2n), n = 10³, 2·10³ and 4·10³, extrapolated in 1/n",
    tolerance=1e-6,
    tolerance_reason=EXTRAPOLATED,
)
def predictor_corrections(run: Run) -> float:
    """Compare extrapolated corrections of mean and covariance with those of the theory."""
    problem = random_problem(run.rng)

    def moments(predictive: Predictive) -> Array:
        return np.column_stack([predictive.mean, predictive.covariance])

    def correction(width: int, order: int | None) -> Array:
        """Width times the distance from the Gaussian process: of the theory, or (None) exactly."""
        net, data = Network((width, 2 * width)), (problem.X, problem.y, BETA)
        process = asymptotics.infinite_width(net, *data, order=0).predict(problem.X_test)
        if order is None:
            own = net.condition(*data).predict(problem.X_test)
        else:
            own = asymptotics.infinite_width(net, *data, order=order).predict(problem.X_test)
        return width * (moments(own) - moments(process))

    exact = extrapolate(lambda width: correction(width, None), 1_000)
    return relative_error(exact, extrapolate(lambda width: correction(width, 1), 1_000))


@claim(
    id="asymptotics.layer-kernels",
    equation="(37)",
    latex=(
        r"\langle K_\ell \rangle = G_{xx} + \Big(\sum_{k \leq \ell} \frac{n_d}{n_k}\Big) G_{xx} "
        r"\Gamma_\infty^{-1} (G_{yy} - \Gamma_\infty) \Gamma_\infty^{-1} G_{xx} + \mathcal{O}(n^{-2})"
    ),
    statement=(
        "The leading correction of the kernel of layer ℓ is that of the first layer with Σ 1/n_k in the "
        "place of 1/n_1 (the form of Zavatone-Veth et al. 2021, of which (37) is ℓ = 1)."
    ),
    route="exact kernels of both layers for widths (n, 3n), n = 10³, 2·10³ and 4·10³, extrapolated in 1/n",
    tolerance=1e-7,
    tolerance_reason=EXTRAPOLATED,
)
def layer_kernels(run: Run) -> float:
    """Compare n (⟨K_ℓ⟩ − G) with the printed form, for both hidden layers."""
    problem = random_problem(run.rng)
    gamma = problem.gram + np.eye(5) / BETA
    middle = np.linalg.solve(gamma, problem.gram)
    delta = middle.T @ (np.outer(problem.y, problem.y) - gamma) @ middle
    worst = 0.0
    for layer, shares in ((1, 1.0), (2, 1 + 1 / 3)):

        def correction(width: int, layer: int = layer) -> Array:
            post = Network((width, 3 * width)).condition(problem.X, problem.y, BETA)
            return width * (post.feature_kernel(layer=layer) - problem.gram)

        worst = max(worst, relative_error(extrapolate(correction, 1_000), shares * delta))
    return worst


@claim(
    id="asymptotics.infinite-data",
    equation="(38)",
    latex=(
        r"\langle K \rangle \approx (1 - \gamma) G_{xx} + \frac{1}{n_1} Y \Big( \frac{1}{p} Y^\top "
        r"G_{xx}^{-1} Y \Big)^{-1} Y^\top"
    ),
    statement="p → ∞ at fixed n: the scale concentrates at L = YᵀG_xx⁻¹Y/p; one output.",
    route="exact E λ and the learned part of ⟨K⟩ at p = 100, 200 and 400, n_1 = 5, extrapolated in 1/p",
    tolerance=1e-4,
    tolerance_reason=EXTRAPOLATED,
)
def infinite_data(run: Run) -> float:
    """Compare E λ with y G⁻¹ y / p, and n_1 (⟨K⟩ − (1 − γ)G) with y (s/p)⁻¹ yᵀ."""
    square = 2.0

    def moments(examples: int) -> Array:
        X, y = orthogonal_problem(examples, square * examples)
        scale = Network((5,)).condition(X, y, math.inf).scale
        return np.array([scale.mean / square, scale.inverse_mean * square])

    problem = random_problem(run.rng, outputs=2)
    kernel = asymptotics.infinite_data(Network((7,)), problem.X, problem.Y).kernel
    printed = (1 - 2 / 7) * problem.gram + problem.Y @ np.linalg.solve(
        problem.target_square / 5, problem.Y.T
    ) / 7
    return max(relative_error(extrapolate(moments, 100), np.ones(2)), relative_error(kernel, printed))


@claim(
    id="asymptotics.riccati",
    equation="(39)",
    latex=r"I_{n_2} - L^{-1} \Big( \frac{Y^\top G_{xx}^{-1} Y}{n_1} \Big) L^{-1} - (1 - \alpha) L^{-1} = 0",
    statement="n, p → ∞: the saddle point solves a Riccati equation; three outputs, α = 5/7 and 5/3.",
    route="SciPy's solver of continuous algebraic Riccati equations",
    **rounding(1e-12),
)
def riccati(run: Run) -> float:
    """Compare scales."""
    problem, worst = random_problem(run.rng, outputs=3), 0.0
    for width in (7, 3):
        scale = saddle_scale(Network((width,)), problem.X, problem.Y)
        half = 0.5 * (1 - 5 / width) * np.eye(3)
        reference = linalg.solve_continuous_are(half, np.eye(3), problem.target_square / width, np.eye(3))
        worst = max(worst, relative_error(scale, reference))
    return worst


@claim(
    id="asymptotics.renormalisation",
    equation="(39)",
    latex=r"\lim_{n \to \infty} \mathbb{E}_\rho L = L_\ast, \quad \alpha = p/n_1 \text{ fixed}",
    statement="n, p → ∞ at depth two and three: E λ tends to the saddle point, also above α = 1; one output.",
    route="exact E λ at n = 100, 200 and 400, extrapolated in 1/n, for α = 1/2 and 2",
    tolerance=1e-6,
    tolerance_reason=EXTRAPOLATED,
)
def renormalisation(run: Run) -> float:
    """Compare exact means with the limit, which does not depend on n at fixed s/n and p/n."""
    worst = 0.0
    for hidden in (1, 2):
        for ratio in (0.5, 2.0):

            def mean(width: int, hidden: int = hidden, ratio: float = ratio) -> float:
                X, y = orthogonal_problem(int(ratio * width), 1.5 * ratio * width)
                return float(Network((width,) * hidden).condition(X, y, math.inf).scale.mean)

            X, y = orthogonal_problem(int(ratio * 100), 1.5 * ratio * 100)
            limit = float(saddle_scale(Network((100,) * hidden), X, y)[0, 0])
            worst = max(worst, relative_error(extrapolate(mean, 100), limit))
    return worst


@claim(
    id="asymptotics.proportional-kernel",
    equation="(40)",
    latex=(
        r"\langle K \rangle \approx \frac{1}{2} G_{xx} \Big[ (1 + \alpha) I_p + \Big( (1 - \alpha)^2 I_p "
        r"+ 4 \gamma G_{xx}^{-1} G_{yy} \Big)^{1/2} \Big]"
    ),
    statement="n, p → ∞: the kernel of the saddle point; α = 5/7, three outputs.",
    route="the corrected matrix function by SciPy's square root; the printed one must exceed it by γG_xx",
    **rounding(1e-11),
    correction=(
        "(1 + α) should read (1 + α − 2γ): as printed, ⟨K⟩ exceeds the kernel of the saddle point (39), and "
        "the expansion (41), by γG_xx. The form holds for α ≤ 1 only; (1 − γ)G + YL⁻¹Yᵀ/n_1 for every α."
    ),
)
def proportional_kernel(run: Run) -> float:
    """Compare both kernels with matrix functions."""
    problem, net = random_problem(run.rng, outputs=3), Network((7,))
    alpha, gamma = 5 / 7, 3 / 7
    ratio = np.linalg.solve(problem.gram, problem.Y @ problem.Y.T) / 3
    root = linalg.sqrtm((1 - alpha) ** 2 * np.eye(5) + 4 * gamma * ratio).real
    corrected = 0.5 * problem.gram @ ((1 + alpha - 2 * gamma) * np.eye(5) + root)
    kernel = asymptotics.proportional(net, problem.X, problem.Y).kernel
    printed = asymptotics.proportional(net, problem.X, problem.Y, as_printed=True).kernel
    return max(relative_error(kernel, corrected), relative_error(printed - kernel, gamma * problem.gram))


@claim(
    id="asymptotics.convergence",
    equation="(37)–(40)",
    statement="Three outputs, n_1 = 400, p = 200: the saddle point gives ⟨K⟩ − G_xx to one per cent.",
    route="exact ⟨K⟩ by importance sampling; below, every theory along growing sizes",
    tolerance=0.01,
    tolerance_reason="the size of the 1/n correction that the limit leaves out, about 2/n_1 relative",
    figure=figures.convergence,
)
def convergence(run: Run) -> float:
    """Kernel error at the stated size; rates of the theories go into the record."""
    for regime in figures.REGIMES_SHOWN:
        sizes = (20, 40) if run.quick else (40, 80, 160)
        result = study(regime, sizes, data_sets=4, target_error=0.05, seed=run.seed)
        run.record["size"] = result.sizes.tolist()
        run.record[regime] = result.errors.tolist()
        run.record[f"{regime}, standard error"] = result.error_bars.tolist()
        run.record[f"{regime}, rate"] = result.rate
    final = study("proportional", (200, 400), data_sets=1, target_error=0.03, seed=run.seed)
    return float(final.errors[-1])


@claim(
    id="asymptotics.growing-outputs",
    equation="§V-C",
    latex=r"n_d = n^{1/2}: \quad \|\langle K \rangle - K_\ast\| / \|\langle K \rangle - G_{xx}\| \sim n_d/n",
    statement=(
        "The saddle point holds beyond n_d² ~ n^(1/3), where corrections to it cannot be excluded in "
        "general: at n_d = n^(1/2) its error still falls, as n_d/n."
    ),
    route="exact kernels at n = 64, 144, 256, 400 with p = n/2; slope of the log error; distance from −1/2",
    tolerance=0.2,
    tolerance_reason=(
        "the standard error of the slope, about 0.05, and terms of higher order in n_d/n, 1/8 at the "
        "smallest size; corrections that stay would give the distance 1/2"
    ),
)
def growing_outputs(run: Run) -> float:
    """Compare the rate with that of n_d/n."""
    sizes = (64, 144) if run.quick else (64, 144, 256, 400)
    result = study("proportional, n_d = √n", sizes, data_sets=4, target_error=0.05, seed=run.seed)
    run.record["size"], run.record["error"] = result.sizes.tolist(), result.errors.tolist()
    return abs(result.rate + 0.5)


@claim(
    id="asymptotics.expansion",
    equation="(41)",
    latex=(
        r"\langle K \rangle \approx (1 - \gamma) G_{xx} + \frac{\gamma}{1 - \alpha} G_{yy} "
        r"+ \mathcal{O}(\gamma^2)"
    ),
    statement="(41) is the kernel of the saddle point to first order in γG_yy.",
    route="the order of the difference, measured by halving Y: fourth order in Y is second order in γG_yy",
    tolerance=0.02,
    tolerance_reason="the next order leaves a change of the exponent of the size of γG_yy",
)
def expansion(run: Run) -> float:
    """The exponent of the remainder, less four."""
    problem, net = random_problem(run.rng, outputs=2), Network((15,))

    def remainder(size: float) -> float:
        arguments = (net, problem.X, size * problem.Y)
        difference = (
            asymptotics.proportional(*arguments).kernel
            - asymptotics.proportional_expansion(*arguments).kernel
        )
        return float(np.abs(difference).max())

    return abs(math.log2(remainder(0.02) / remainder(0.01)) - 4)


@claim(
    id="asymptotics.many-outputs",
    equation="(42), (43)",
    latex=(
        r"G_{xx}^{-1} - \gamma K^{-1} G_{yy} K^{-1} + (\gamma - 1) K^{-1} = 0",
        r"\langle K \rangle \approx \frac{1}{2} G_{xx} \Big[ (1 - \gamma) I_p + \Big( (1 - \gamma)^2 I_p "
        r"+ 4 \gamma G_{xx}^{-1} G_{yy} \Big)^{1/2} \Big]",
    ),
    statement="n, n_d → ∞: the kernel solves a Riccati equation, also for γ ≥ 1; at γ = 1 it is a root.",
    route="SciPy's Riccati solver for γ = 0.5, 1 and 2; SciPy's matrix square root at γ = 1",
    **rounding(1e-11),
)
def many_outputs(run: Run) -> float:
    """Compare kernels."""
    problem, worst = random_problem(run.rng, outputs=12), 0.0
    for width in (24, 12, 6):
        kernel = asymptotics.many_outputs(Network((width,)), problem.X, problem.Y).kernel
        worst = max(worst, relative_error(kernel, riccati_kernel(problem, width)))
    root = linalg.sqrtm(np.linalg.solve(problem.gram, problem.Y @ problem.Y.T / 12)).real
    at_one = asymptotics.many_outputs(Network((12,)), problem.X, problem.Y).kernel
    return max(worst, relative_error(at_one, problem.gram @ root))


@claim(
    id="asymptotics.naive-laplace",
    equation="(43), §V-D",
    statement=(
        "The many-outputs kernel is that of a naive Laplace approximation over L that keeps the terms of "
        "order γ, at α → 0."
    ),
    route="the mode in L of det(L)^{(n_1 − n_d)/2} etr(−½ n_1 L − ½ S L⁻¹), eigenvalue by eigenvalue",
    **rounding(1e-11),
)
def naive_laplace(run: Run) -> float:
    """Compare kernels: (1 − γ)G + Y L⁻¹ Yᵀ/n_1 with L of full output rank on the span of the targets."""
    problem, width = random_problem(run.rng, outputs=12), 24
    squares, vectors = np.linalg.eigh(problem.target_square)
    squares, vectors = squares[-5:], vectors[:, -5:]  # the targets have rank five
    half = 0.5 * (1 - 12 / width)
    values = half + np.sqrt(half**2 + squares / width)
    learned = problem.Y @ (vectors / values) @ vectors.T @ problem.Y.T / width
    kernel = asymptotics.many_outputs(Network((width,)), problem.X, problem.Y).kernel
    return relative_error(kernel, (1 - 12 / width) * problem.gram + learned)


@claim(
    id="asymptotics.scale-mixing",
    equation="§VI",
    statement=(
        "Scale mixing by hand (a random last-layer variance at infinite width) is the mixture that depth "
        "brings by itself for one output; over several outputs its scale stays a multiple of I."
    ),
    route=(
        "a Gamma(n_1/2) variance against the network of depth two; an inverse Gamma variance at zero "
        "temperature against SciPy's multivariate Student t density"
    ),
    tolerance=1e-9,
    tolerance_reason="quadratures of the library that agree to 10⁻⁹ by their own criterion",
)
def scale_mixing(run: Run) -> float:
    """Compare evidences, means and the shape of E L."""
    problem = random_problem(run.rng, outputs=2)
    by_hand = ScaleMixture(stats.gamma(3.5, scale=1 / 3.5)).condition(problem.X, problem.y, BETA)
    by_depth = Network((7,)).condition(problem.X, problem.y, BETA)
    student = stats.multivariate_t(np.zeros(10), np.kron(problem.gram, np.eye(2)) / 2, df=4)
    mixed = ScaleMixture().condition(problem.X, problem.Y, math.inf)
    mean = np.asarray(mixed.scale.mean)
    return max(
        abs(by_hand.log_evidence - by_depth.log_evidence),
        relative_error(
            by_hand.predict(problem.X_test).covariance, by_depth.predict(problem.X_test).covariance
        ),
        abs(mixed.log_evidence - float(student.logpdf(problem.Y.reshape(-1)))),
        relative_error(mean, mean[0, 0] * np.eye(2)),
    )


@claim(
    id="asymptotics.depth-and-width",
    equation="§VI",
    latex=r"d, n \to \infty,\; d/n = t: \quad \log \lambda \to \mathcal{N}(-t, 2 t) \text{ under } \varpi",
    statement="Where depth grows with width the scale stays random: log λ tends to a Gaussian under ϖ.",
    route="SciPy's normal density, against hidden layers (n, ..., n), n/2 of them, n = 32, 64 and 128",
    tolerance=1e-3,
    tolerance_reason=(
        "n, 2n and 4n are extrapolated in 1/n; the density of a sum of log χ² differs from the normal by "
        "terms in 1/n (Edgeworth), of which the third is left: 1/32³ times constants of order ten"
    ),
)
def depth_and_width(run: Run) -> float:
    """Compare densities of log λ over four standard deviations with N(−1/2, 1)."""
    points = -0.5 + np.linspace(-2, 2, 9)

    def density(width: int) -> Array:
        prior = Network((width,) * (width // 2)).scale_prior(outputs=1)
        return np.array([math.exp(prior.log_density(math.exp(t)) + t) for t in points])

    run.record["distance"] = [relative_error(density(n), stats.norm(-0.5).pdf(points)) for n in (32, 64, 128)]
    return relative_error(extrapolate(density, 32), stats.norm(-0.5).pdf(points))


@claim(
    id="asymptotics.few-examples",
    equation="(41), (37)",
    latex=(
        r"(1 - \gamma) G_{xx} + \frac{\gamma}{1 - \alpha} G_{yy} = G_{xx} + \gamma (G_{yy} - G_{xx}) + "
        r"\mathcal{O}(\alpha \gamma)"
    ),
    statement=(
        "The expansion in γ joins the result at finite p for α ≪ 1: their difference is α γ G_yy to leading "
        "order; three outputs."
    ),
    route="the two theories of the library at widths of 1000, 2000 and 4000, extrapolated in 1/n",
    tolerance=1e-6,
    tolerance_reason=EXTRAPOLATED + "; rounding of kernels of order one is multiplied by n², 10⁷",
)
def few_examples(run: Run) -> float:
    """Compare n² (K_(41) − K_(37)) / (p n_d) with G_yy."""
    problem = random_problem(run.rng, examples=5, outputs=3)

    def difference(width: int) -> Array:
        net, data = Network((width,)), (problem.X, problem.Y, math.inf)
        gap = (
            asymptotics.proportional_expansion(net, *data).kernel
            - asymptotics.infinite_width(net, *data).kernel
        )
        return np.asarray(width**2 * gap / 15)

    return relative_error(extrapolate(difference, 1000), problem.Y @ problem.Y.T / 3)


@claim(
    id="asymptotics.proportional-predictor",
    equation="§V-C",
    statement=(
        "The saddle point gives the predictor, too: its mean and covariance approach the exact ones where n "
        "and p grow together, at a finite temperature; one output, depths two and three."
    ),
    route="orthogonal inputs with the exact answers at n = 2p = 200, 400 and 800, extrapolated in 1/n",
    tolerance=1e-4,
    tolerance_reason=EXTRAPOLATED,
)
def proportional_predictor(run: Run) -> float:
    """Compare mean and variance at a training point of orthogonal inputs, where G_xx = I."""

    def moments(width: int, layers: int, exact: bool) -> Array:
        X, y = orthogonal_problem(width // 2, 0.8 * width)
        net = Network((width,) * layers)
        found = net.condition(X, y, BETA) if exact else asymptotics.proportional(net, X, y, BETA)
        pred = found.predict(X[:1])
        return np.append(pred.mean, pred.variance)

    gaps = []
    for layers in (1, 2):
        exact, theory = (
            extrapolate(partial(moments, layers=layers, exact=each), 200) for each in (True, False)
        )
        gaps.append(relative_error(exact, theory))
    return max(gaps)
