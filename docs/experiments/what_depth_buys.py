"""What depth buys: exact test error, predictive density and coverage of networks and of simpler models.

    python docs/experiments/what_depth_buys.py study              # 104,832 points, into the folder study
    python docs/experiments/what_depth_buys.py small --quick      # 1,664, up to two outputs

Every data set is given to twelve models, all of which know the noise and have the prior variance one at an
input of mean square one: a Gaussian process of fixed scale, the same with its scale by evidence, the
conjugate matrix-t model, and networks of depth two, three and five at three widths. What varies is the number
of examples, of outputs, the rank of the teacher, its size relative to what the prior expects (misfit), the
noise relative to the signal, and the seed. One output is cheap, so that it has most of the seeds. With it go
small sweeps: along the width, along the number of examples, of the kernel over α and γ, with Gaussian
teachers, and the same posteriors again with other draws. A run that was interrupted resumes.
`what_depth_buys_report.py` makes tables and pictures of the folder.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import optimize, special, stats

import lbnn

INPUTS, TEST_POINTS = 50, 100
SEEDS = {4: 4, 2: 8, 1: 200}  # data sets of every cell, by the number of outputs
AXES = {
    "examples": [10, 25, 50, 100],
    "misfit": [0.1, 1.0, 10.0],  # variance of the teacher over that of the prior
    "noise": [0.01, 0.1, 1.0],  # variance of the noise over that of the teacher
}
DEAR = {4: {"noise": [0.1]}}  # less of the grid, by the number of outputs: a posterior takes a second
FULL = 4  # a rank of the teacher that is cut to the number of outputs
QUICK_SEEDS = {2: 2, 1: 8}
QUICK = {**AXES, "examples": [10, 50], "noise": [0.1]}
DEPTHS, WIDTHS = (2, 3, 5), (10, 30, 100)
RATE_WIDTHS = (10, 30, 100, 300, 1000, 3000, 10000)
RATE_EXAMPLES = (12, 25, 50, 100, 200, 400, 800)
KERNEL_WIDTHS, KERNEL_OUTPUTS, ALPHAS = (8, 16, 32, 64), 4, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SIMPLE = ("gp", "gp-eb", "matrix-t")
MODELS = (*SIMPLE, *(f"depth {depth}, width {width}" for depth in DEPTHS for width in WIDTHS))
QUANTITIES = (
    "log_evidence",
    "test_error",
    "test_log_density",
    "test_coverage",
    "kernel_change",
    "scale_mean",
)
TARGET_ERROR = 0.2  # of the log evidence, several outputs; the data sets differ by far more


def problem(rng, seed, examples, outputs, rank, misfit, noise):
    """Gaussian inputs, a linear teacher of that rank and size, and noise."""
    # A product of Gaussian matrices, of that size on average: it varies, the more the smaller the rank.
    rows, inner = examples + TEST_POINTS, min(rank, outputs)
    X = rng.normal(size=(rows, INPUTS))
    teacher = rng.normal(size=(INPUTS, inner)) @ rng.normal(size=(inner, outputs)) / math.sqrt(inner * INPUTS)
    Y = math.sqrt(misfit) * X @ teacher + math.sqrt(noise * misfit) * rng.normal(size=(rows, outputs))
    Y = Y[:, 0] if outputs == 1 else Y
    return X[:examples], Y[:examples], X[examples:], Y[examples:]


def model(model):
    """By its name."""
    if model in SIMPLE:
        return {"gp": lbnn.Network(()), "gp-eb": EmpiricalBayes(), "matrix-t": MatrixT()}[model]
    depth, width = (int(part.split()[1]) for part in model.split(","))
    return lbnn.Network((width,) * (depth - 1))


def beta(noise, misfit):
    """All models know the noise."""
    return 1 / (noise * misfit)


@dataclass(frozen=True)
class EmpiricalBayes:
    """The Gaussian process whose prior variance has the largest evidence."""

    def condition_spectrum(self, spectrum, beta):
        g, squares = spectrum.eigenvalues, (spectrum.targets**2).sum(axis=1)

        def loss(log_scale):
            variance = 1 / beta + math.exp(log_scale) * g
            return float((spectrum.outputs * np.log(variance) + squares / variance).sum())

        best = optimize.minimize_scalar(loss, bounds=(-15.0, 15.0), method="bounded")
        return lbnn.Network((), prior_variances=(math.exp(best.x),)).condition_spectrum(spectrum, beta)


@dataclass(frozen=True)
class MatrixT:
    """L inverse Wishart of mean I, noise of covariance L/β given L: everything in closed form."""

    spread: float = 4.0  # degrees of freedom beyond the least at which E L exists

    def condition_spectrum(self, spectrum, beta):
        return MatrixTPosterior(spectrum, beta, self.spread)


@dataclass(frozen=True)
class MatrixTPosterior:
    """L given the data is inverse Wishart: scale Ψ + S, S = Yᵀ(G + I/β)⁻¹Y, ν + p degrees of freedom."""

    spectrum: lbnn.Spectrum
    beta: float
    spread: float
    log_evidence_error = 0.0

    @property
    def scatter(self):
        """Ψ and S, (n_d, n_d)."""
        data, outputs = self.spectrum, self.spectrum.outputs
        variance = data.eigenvalues[:, None] + 1 / self.beta
        rest = self.beta * data.outside.T @ data.outside
        return self.spread * np.eye(outputs), data.targets.T @ (data.targets / variance) + rest

    @property
    def freedom(self):
        return self.spread + self.spectrum.outputs + 1

    @property
    def log_evidence(self):
        data, (prior, seen), nu = self.spectrum, self.scatter, self.freedom
        count, outputs = data.examples, data.outputs
        inside = np.log(data.eigenvalues + 1 / self.beta).sum()
        outside = (count - data.rank) * math.log(1 / self.beta)
        return float(
            special.multigammaln((nu + count) / 2, outputs)
            - special.multigammaln(nu / 2, outputs)
            - 0.5 * count * outputs * math.log(math.pi)
            + 0.5 * nu * np.linalg.slogdet(prior)[1]
            - 0.5 * outputs * (inside + outside)
            - 0.5 * (nu + count) * np.linalg.slogdet(prior + seen)[1]
        )

    @property
    def scale(self):
        """One atom at the posterior mean of L."""
        mean = sum(self.scatter) / (self.freedom + self.spectrum.examples - self.spectrum.outputs - 1)
        return lbnn.ScaleMeasure.atom(mean, self.spectrum.single_output)

    def predict(self, X_test):
        return MatrixTPredictive(self, self.spectrum.project(X_test), 0.0)


@dataclass(frozen=True)
class MatrixTPredictive:
    """A multivariate t at every point: mean, scale c (Ψ + S)/ν′, ν′ = ν + p − n_d + 1 degrees of freedom."""

    posterior: MatrixTPosterior
    projection: object
    noise: float

    def with_noise(self):
        return MatrixTPredictive(self.posterior, self.projection, 1 / self.posterior.beta)

    @property
    def freedom(self):
        data = self.posterior.spectrum
        return self.posterior.freedom + data.examples - data.outputs + 1

    @property
    def location(self):
        data = self.posterior.spectrum
        gain = np.sqrt(data.eigenvalues) / (data.eigenvalues + 1 / self.posterior.beta)
        return self.projection.explained @ (gain[:, None] * data.targets)

    @property
    def mean(self):
        return self.location[:, 0] if self.posterior.spectrum.single_output else self.location

    @property
    def factor(self):
        """c at every point."""
        noise, g = 1 / self.posterior.beta, self.posterior.spectrum.eigenvalues
        inside = self.projection.explained**2 @ (noise / (g + noise))
        return self.projection.unexplained_diagonal + inside + self.noise

    @property
    def shape(self):
        return sum(self.posterior.scatter) / self.freedom

    def pointwise_log_density(self, values):
        rows, size = np.reshape(values, self.location.shape) - self.location, self.shape.shape[0]
        square = (rows * np.linalg.solve(self.shape, rows.T).T).sum(axis=1) / self.factor
        constant = special.gammaln((self.freedom + size) / 2) - special.gammaln(self.freedom / 2)
        volume = size * np.log(self.factor * self.freedom * math.pi) + np.linalg.slogdet(self.shape)[1]
        return constant - 0.5 * volume - 0.5 * (self.freedom + size) * np.log1p(square / self.freedom)

    def interval(self, probability):
        deviation = np.sqrt(self.factor[:, None] * np.diagonal(self.shape))
        reach = stats.t(self.freedom).ppf((1 + probability) / 2) * deviation
        return np.reshape(self.location - reach, self.mean.shape), np.reshape(
            self.location + reach, self.mean.shape
        )


def ranks(outputs):
    """Of the teacher: with one output there is only one."""
    return [1] if outputs == 1 else [1, FULL]


def store_of(folder, outputs):
    """Where the sweep of so many outputs is kept."""
    return Path(folder) / f"outputs-{outputs}.zarr"


def swept(folder, name, axes, network, quantities, data=problem, beta=beta, **settings):
    """One sweep of the folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return lbnn.sweep(
        axes,
        data=data,
        network=network,
        beta=beta,
        quantities=quantities,
        target_error=TARGET_ERROR,
        store=Path(folder) / name,
        **settings,
    )


def run(folder, seeds=None, grid=None, **settings):
    """The study: a sweep for every number of outputs; `settings` are those of `lbnn.sweep`."""
    for outputs, count in (seeds or SEEDS).items():
        task = {"outputs": [outputs], "rank": ranks(outputs)}
        less = {} if grid else DEAR.get(outputs, {})
        axes = {"seed": range(count), **task, **(grid or AXES), **less, "model": MODELS}
        swept(folder, store_of(folder, outputs).name, axes, model, QUANTITIES, **settings)


def gaussian_problem(rng, seed, examples, outputs, misfit, noise):
    """The same with a teacher that the Gaussian process of fixed scale expects, but for the misfit."""
    rows = examples + TEST_POINTS
    X, teacher = rng.normal(size=(rows, INPUTS)), rng.normal(size=(INPUTS, outputs)) / math.sqrt(INPUTS)
    Y = math.sqrt(misfit) * X @ teacher + math.sqrt(noise * misfit) * rng.normal(size=(rows, outputs))
    Y = Y[:, 0] if outputs == 1 else Y
    return X[:examples], Y[:examples], X[examples:], Y[examples:]


def run_gaussian(folder, seeds, **settings):
    """What the network costs where the simplest model is right."""
    grid = {"outputs": [1, 2], "examples": [10, 50], "misfit": AXES["misfit"], "noise": [0.1]}
    axes = {"seed": range(seeds), **grid, "model": MODELS}
    return swept(
        folder,
        "gaussian.zarr",
        axes,
        model,
        ("log_evidence", "test_log_density"),
        gaussian_problem,
        **settings,
    )


# ---------------------------------------------------------------------- along the width and the examples


def network(depth, width):
    """Depth one is the Gaussian process of fixed scale, whatever the width."""
    return lbnn.Network((width,) * (depth - 1))


def run_widths(folder, seeds, **settings):
    """How networks of one output approach that process as their width grows."""
    fixed = {"examples": [50], "outputs": [1], "rank": [1], "misfit": [1.0, 10.0], "noise": [0.1]}
    axes = {"seed": range(seeds), **fixed, "depth": [1, *DEPTHS], "width": RATE_WIDTHS}
    return swept(folder, "widths.zarr", axes, network, ("log_evidence", "test_log_density"), **settings)


def run_examples(folder, seeds, **settings):
    """How models agree as examples grow."""
    fixed = {"outputs": [1, 2], "rank": [FULL], "misfit": [1.0, 10.0], "noise": [0.1]}
    models = ("gp", "gp-eb", "depth 3, width 30")
    axes = {"seed": range(seeds), "examples": RATE_EXAMPLES, **fixed, "model": models}
    return swept(folder, "examples.zarr", axes, model, ("test_error", "test_log_density"), **settings)


# ---------------------------------------------------------------------- the kernel over α and γ


def kernel_problem(rng, seed, alpha, width):
    """p = α n_1 examples of 4 n_1 inputs: all sizes but the outputs grow with the width."""
    examples, inputs = round(alpha * width), 4 * width
    X = rng.normal(size=(examples, inputs))
    teacher = rng.normal(size=(inputs, KERNEL_OUTPUTS)) / math.sqrt(inputs)
    return X, X @ teacher + math.sqrt(0.1) * rng.normal(size=(examples, KERNEL_OUTPUTS))


def run_kernels(folder, seeds, **settings):
    """‖⟨K⟩ − G‖/‖G‖ over α = p/n_1 and γ = n_d/n_1, at misfit one and noise 0.1."""
    axes = {"seed": range(seeds), "alpha": ALPHAS, "width": KERNEL_WIDTHS, "depth": DEPTHS}
    return swept(folder, "kernels.zarr", axes, network, ("kernel_change",), kernel_problem, 10.0, **settings)


# ---------------------------------------------------------------------- the same again, with other draws


def repeated(depth, width, repeat):
    """The number of the repetition changes the seed of the draws and nothing else."""
    return network(depth, width)


def run_repeats(folder, repeats, **settings):
    """Posteriors of several outputs with other draws of the scale: what Monte Carlo adds."""
    fixed = {"seed": [0], "outputs": [2, 4], "rank": [FULL], "noise": [0.1]}
    grid = {"examples": AXES["examples"], "misfit": AXES["misfit"]}
    axes = {**fixed, **grid, "depth": [3], "width": [10], "repeat": range(repeats)}
    quantities = ("log_evidence", "test_error", "test_log_density", "test_coverage")
    return swept(folder, "repeats.zarr", axes, repeated, quantities, **settings)


# ---------------------------------------------------------------------- the command line


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    start = time.perf_counter()
    try:
        run_all(options.folder, options.quick, workers=options.workers)
    finally:
        keep_time(options.folder, time.perf_counter() - start)


def run_all(folder, quick, **settings):
    """The small sweeps, then the study."""
    run_widths(folder, 4 if quick else 60, **settings)
    run_kernels(folder, 1 if quick else 8, **settings)
    run_examples(folder, 2 if quick else 40, **settings)
    run_repeats(folder, 2 if quick else 8, **settings)
    run_gaussian(folder, 2 if quick else 20, **settings)
    run(folder, QUICK_SEEDS if quick else SEEDS, QUICK if quick else None, **settings)


def keep_time(folder, seconds):
    """Add to the hours of the clock and of the processors that the folder took, over all starts."""
    file = folder / "time.json"
    known = json.loads(file.read_text()) if file.exists() else {"seconds": 0.0, "processor_seconds": 0.0}
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor = sum(each.ru_utime + each.ru_stime for each in used)
    added = {"seconds": seconds, "processor_seconds": processor}
    file.write_text(json.dumps({name: round(known[name] + value, 1) for name, value in added.items()}))


if __name__ == "__main__":
    main()
