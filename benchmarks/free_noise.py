"""Noise with a covariance of its own: data without a signal, and traits of known heritability beside peers.

    python -m benchmarks.free_noise null 14 --first 40
    python -m benchmarks.free_noise example 10
    python -m benchmarks.free_noise heritability 6

Peers: multi-trait GBLUP by maximum likelihood, the conjugate model, and a fit of every trait alone.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from typing import Any

import numpy as np
from scipy import optimize, stats

import lbnn
from benchmarks.real_data import conjugate

Array = np.ndarray


# ---------------------------------------------------------------------- data


def null_data(seed: int) -> tuple[Array, Array, Array, Array]:
    """Targets of 1 to 4 noise factors, independent of the inputs; flat and decaying spectra of the inputs."""
    rng = np.random.default_rng([27, seed])
    rows, outputs, factors = rng.integers(20, 61), rng.integers(4, 16 if seed % 3 else 36), rng.integers(1, 5)
    X = _inputs(rng, rows + 200, seed % 2 == 1)
    loadings = rng.normal(size=(factors, outputs)) / factors**0.5
    Y = 0.8 * rng.normal(size=(rows + 200, factors)) @ loadings + 0.6 * rng.normal(size=(rows + 200, outputs))
    return X[:rows], Y[:rows], X[rows:], Y[rows:]


def example_data(seed: int) -> tuple[Array, Array, Array, Array]:
    """Three noise factors in 30 rows of 12 outputs, independent of 100 inputs of a flat spectrum."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(230, 100))
    Y = 0.8 * rng.normal(size=(230, 3)) @ rng.normal(size=(3, 12)) / 3**0.5 + 0.6 * rng.normal(size=(230, 12))
    return X[:30], Y[:30], X[30:], Y[30:]


def _inputs(rng: np.random.Generator, rows: int, decaying: bool) -> Array:
    X = rng.normal(size=(rows, 100))
    return X / np.arange(1, 101) ** 0.7 if decaying else X


def heritability_data(seed: int) -> tuple[Array, Array, Array, Array, Array]:
    """Six traits of heritability 0.95 to 0.05, noise correlation 0.7, genetic correlation 0.5."""
    rng = np.random.default_rng([29, seed])
    X, shares = rng.normal(size=(320, 200)), np.linspace(0.95, 0.05, 6)
    signal = X @ (rng.normal(size=(200, 6)) @ np.linalg.cholesky(0.5 * np.eye(6) + 0.5).T) / 200**0.5
    noise = rng.normal(size=(320, 6)) @ np.linalg.cholesky(0.3 * np.eye(6) + 0.7).T
    Y = signal * np.sqrt(shares) + noise * np.sqrt(1 - shares)
    return X[:120], Y[:120], X[120:], Y[120:], shares


# ---------------------------------------------------------------------- multi-trait GBLUP


class GBLUP:
    """vec Y ~ N(1bᵀ, G ⊗ K + R ⊗ I) with unconstrained G and R by maximum likelihood."""

    def fit(self, X: Array, Y: Array) -> GBLUP:
        self.X, self.level, self.X_level = X, Y.mean(axis=0), X.mean(axis=0)
        centred = X - self.X_level
        kernel = centred @ centred.T / X.shape[1]
        self.values, self.vectors = (each[..., 1:] for each in np.linalg.eigh(kernel))  # without 1
        self.values = np.maximum(self.values, 0.0)
        self.targets = self.vectors.T @ (Y - self.level)
        outputs = Y.shape[1]
        lower = np.tril_indices(outputs)
        start = np.linalg.cholesky(np.cov(Y.T) / 2 + 1e-8 * np.eye(outputs))
        x = np.concatenate([start[lower] / math.sqrt(max(self.values.mean(), 1e-12)), start[lower]])
        best = optimize.minimize(
            self._negative, x, (lower, outputs), jac=True, method="L-BFGS-B", options={"maxiter": 500}
        )
        self.G, self.R = (_square(part, lower, outputs) for part in np.split(best.x, 2))
        return self

    def _negative(self, x: Array, lower: Any, outputs: int) -> tuple[float, Array]:
        roots = [np.zeros((outputs, outputs)) for _ in range(2)]
        for root, part in zip(roots, np.split(x, 2), strict=True):
            root[lower] = part
        G, R = (root @ root.T for root in roots)
        value, to_g, to_r = 0.0, np.zeros((outputs, outputs)), np.zeros((outputs, outputs))
        for g, row in zip(self.values, self.targets, strict=True):
            inverse = np.linalg.inv(g * G + R + 1e-10 * np.eye(outputs))
            fit = inverse @ row
            value += 0.5 * (row @ fit - np.linalg.slogdet(inverse)[1])
            slope = 0.5 * (inverse - np.outer(fit, fit))
            to_g, to_r = to_g + g * slope, to_r + slope
        slopes = [(2 * slope @ root)[lower] for slope, root in zip((to_g, to_r), roots, strict=True)]
        return value, np.concatenate(slopes)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Means and covariances of observations across outputs at each point."""
        cross = (X - self.X_level) @ (self.X - self.X_level).T / X.shape[1] @ self.vectors  # (p̂, r)
        own = ((X - self.X_level) ** 2).mean(axis=1)
        means, outputs = np.zeros((len(X), len(self.G))), len(self.G)
        covariances = own[:, None, None] * self.G + (1 + 1 / len(self.X)) * self.R
        for i, (g, row) in enumerate(zip(self.values, self.targets, strict=True)):
            gain = self.G @ np.linalg.inv(g * self.G + self.R + 1e-10 * np.eye(outputs))
            means += np.outer(cross[:, i], gain @ row)
            covariances -= (cross[:, i] ** 2)[:, None, None] * (gain @ self.G)
        return means + self.level, covariances

    def log_density(self, X: Array, Y: Array) -> Array:
        means, covariances = self.predict(X)
        return np.array(
            [
                stats.multivariate_normal(m, c, allow_singular=True).logpdf(y)
                for m, c, y in zip(means, covariances, Y, strict=True)
            ]
        )


def _square(part: Array, lower: Any, outputs: int) -> Array:
    root = np.zeros((outputs, outputs))
    root[lower] = part
    return root @ root.T


# ---------------------------------------------------------------------- studies


def without_signal(X: Array, Y: Array, X_test: Array, Y_test: Array) -> dict[str, Any]:
    """R² of the default fit on new rows, beside the mean of the training rows."""
    began = time.process_time()
    model = lbnn.LBNNRegressor().fit(X, Y)
    seconds = time.process_time() - began
    left, level = ((Y_test - mean) ** 2 for mean in (model.predict(X_test), Y.mean(axis=0)))
    r2 = float(1 - (left.sum(axis=0) / level.sum(axis=0)).mean())
    return {"noise": model.noise_, "R2": r2, "CPU seconds": seconds}


def heritability(seed: int) -> dict[str, Any]:
    """Errors in standard deviations of a trait, log densities a row, and intervals of the heritability."""
    X, Y, X_test, Y_test, shares = heritability_data(seed)
    free = lbnn.LBNNRegressor(noise="free").fit(X, Y)
    alone = [lbnn.LBNNRegressor().fit(X, y) for y in Y.T]
    gblup, student = GBLUP().fit(X, Y), conjugate.fit_predict(X, Y, X_test)
    laws = [free.predictive(X_test).with_noise(), *(each.predictive(X_test).with_noise() for each in alone)]
    means = {"free": laws[0].mean, "alone": np.column_stack([law.mean for law in laws[1:]])}
    means |= {"GBLUP": gblup.predict(X_test)[0], "conjugate": student.mean}
    densities = {
        "free": laws[0].pointwise_log_density(Y_test),
        "alone": sum(law.pointwise_log_density(y) for law, y in zip(laws[1:], Y_test.T, strict=True)),
        "GBLUP": gblup.log_density(X_test, Y_test),
        "conjugate": student.joint_log_density(Y_test),
    }
    low, high = free.signal_share_interval_.T
    size = Y_test.std(axis=0)
    return {
        "error": {
            name: float((np.sqrt(((Y_test - mean) ** 2).mean(axis=0)) / size).mean())
            for name, mean in means.items()
        },
        "log density": {name: float(np.mean(value)) for name, value in densities.items()},
        "covered": int(((low <= shares) & (shares <= high)).sum()),
    }


STUDIES = {
    "null": lambda seed: without_signal(*null_data(seed)),
    "example": lambda seed: without_signal(*example_data(seed)),
    "heritability": heritability,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    for seed in range(options.first, options.first + options.count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print(json.dumps({"seed": seed} | STUDIES[options.study](seed)), flush=True)


if __name__ == "__main__":
    main()
