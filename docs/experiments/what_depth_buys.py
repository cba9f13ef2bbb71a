"""What depth buys: exact test error, predictive density and coverage of networks and of simpler models.

    python docs/experiments/what_depth_buys.py run.zarr              # 103,680 posteriors
    python docs/experiments/what_depth_buys.py small.zarr --quick    # 576, at one noise and up to two outputs

Every data set is given to twelve models, all of which know the noise and have the prior variance one at an
input of mean square one: a Gaussian process of fixed scale, the same with its scale by evidence, the
conjugate matrix-t model, and networks of depth two, three and five at three widths. What varies is the number
of examples, of outputs, the rank of the teacher, its size relative to what the prior expects (misfit), the
noise relative to the signal, and the seed. A run that was interrupted resumes.
`what_depth_buys_report.py` makes tables and pictures of the store.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import optimize, special, stats

import lbnn

INPUTS, TEST_POINTS, SEEDS = 50, 100, 40
AXES = {
    "examples": [10, 25, 50, 100],
    "outputs": [1, 2, 4],
    "rank": [1, 4],  # at most that of the outputs
    "misfit": [0.1, 1.0, 10.0],  # variance of the teacher over that of the prior
    "noise": [0.01, 0.1, 1.0],  # variance of the noise over that of the teacher
}
QUICK = {**AXES, "examples": [10, 50], "outputs": [1, 2], "noise": [0.1]}
DEPTHS, WIDTHS = (2, 3, 5), (10, 30, 100)
RATE_WIDTHS = (10, 30, 100, 300, 1000, 3000, 10000)
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


def problem(rng, seed, examples, outputs, rank, misfit, noise):
    """Gaussian inputs, a linear teacher of that rank and size, and noise."""
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


def run(store, seeds=SEEDS, grid=None, **settings):
    """The sweep; `settings` are those of `lbnn.sweep`."""
    axes = {"seed": range(seeds), **(grid or AXES), "model": MODELS}
    return lbnn.sweep(
        axes,
        data=problem,
        network=model,
        beta=beta,
        quantities=QUANTITIES,
        target_error=0.2,
        store=store,
        **settings,
    )


def network(depth, width):
    """Depth one is the Gaussian process of fixed scale, whatever the width."""
    return lbnn.Network((width,) * (depth - 1))


def run_rates(store, seeds, **settings):
    """How networks of one output approach that process as their width grows."""
    fixed = {"examples": [50], "outputs": [1], "rank": [1], "misfit": [1.0, 10.0], "noise": [0.1]}
    axes = {"seed": range(seeds), **fixed, "depth": [1, *DEPTHS], "width": RATE_WIDTHS}
    quantities = ("log_evidence", "test_log_density")
    return lbnn.sweep(
        axes, data=problem, network=network, beta=beta, quantities=quantities, store=store, **settings
    )


def rates_store(store):
    """Where the rates are kept: beside the store of the study."""
    return Path(store).with_name(f"{Path(store).stem}-rates.zarr")


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    seeds = options.seeds or (2 if options.quick else SEEDS)
    run_rates(rates_store(options.store), 10, workers=0)
    print(run(options.store, seeds, QUICK if options.quick else AXES, workers=options.workers))


if __name__ == "__main__":
    main()
