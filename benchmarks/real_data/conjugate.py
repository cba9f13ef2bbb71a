"""Conjugate Bayesian regression of several outputs: the textbook model with a full noise covariance.

Y | Σ ~ MN(0, I + sG, Σ) after centring, Σ ~ inverse Wishart(νψ I, ν): signal and noise share the covariance Σ
over outputs, which is integrated out, so that predictions are multivariate t. s, ψ and ν by evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from benchmarks.real_data.metrics import LEVEL, squared_distance

BOUNDS = ((-15.0, 25.0), (-15.0, 5.0), (-6.0, 8.0))  # of log s, log ψ, log(ν − n_d + 1)
STARTS = [(signal, size, 1.0) for signal in (-4.0, 0.0, 4.0, 8.0, 12.0) for size in (-6.0, -2.0)]


@dataclass(frozen=True)
class Data:
    """Centred data in the eigenbasis of their Gram matrix: p − 1 contrasts."""

    inputs: np.ndarray
    targets: np.ndarray
    eigenvalues: np.ndarray  # g, (r,)
    basis: np.ndarray  # U, (p, r)

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray) -> Data:
        centred = X - X.mean(axis=0)
        values, vectors = np.linalg.eigh(centred @ centred.T / X.shape[1])
        keep = values > 1e-10 * values[-1]
        return cls(X, Y, values[keep], vectors[:, keep])

    def scatter(self, signal: float) -> np.ndarray:
        """Yᵀ (I + sG)⁻¹ Y of the contrasts, (n_d, n_d)."""
        centred = self.targets - self.targets.mean(axis=0)
        rotated = self.basis.T @ centred
        outside = centred - self.basis @ rotated
        return outside.T @ outside + rotated.T @ (rotated / (1 + signal * self.eigenvalues)[:, None])


def log_evidence(data: Data, signal: float, size: float, freedom: float) -> float:
    """log p(contrasts of Y), the matrix t density."""
    contrasts, outputs = len(data.targets) - 1, data.targets.shape[1]
    prior = freedom * size * np.eye(outputs)
    posterior = prior + data.scatter(signal)
    return float(
        -0.5 * contrasts * outputs * math.log(math.pi)
        + special.multigammaln((freedom + contrasts) / 2, outputs)
        - special.multigammaln(freedom / 2, outputs)
        - 0.5 * outputs * np.log1p(signal * data.eigenvalues).sum()
        + 0.5 * freedom * np.linalg.slogdet(prior)[1]
        - 0.5 * (freedom + contrasts) * np.linalg.slogdet(posterior)[1]
    )


@dataclass(frozen=True)
class StudentT:
    """Multivariate t at each point: scale matrices (p̂, n_d, n_d), one number of degrees of freedom."""

    mean: np.ndarray
    scale: np.ndarray
    freedom: float

    @property
    def _width(self) -> np.ndarray:
        return np.sqrt(np.diagonal(self.scale, axis1=1, axis2=2))

    def marginal_log_density(self, Y: np.ndarray) -> np.ndarray:
        return stats.t.logpdf(Y, self.freedom, self.mean, self._width)

    def joint_log_density(self, Y: np.ndarray) -> np.ndarray:
        triples = zip(Y, self.mean, self.scale, strict=True)
        return np.array([stats.multivariate_t.logpdf(y, m, s, self.freedom) for y, m, s in triples])

    def inside(self, Y: np.ndarray) -> np.ndarray:
        return np.abs(Y - self.mean) <= stats.t.ppf((1 + LEVEL) / 2, self.freedom) * self._width

    def inside_jointly(self, Y: np.ndarray) -> np.ndarray:
        outputs = Y.shape[1]
        distance = squared_distance(self.scale, Y - self.mean) / outputs
        return distance <= stats.f.ppf(LEVEL, outputs, self.freedom)


def predict(data: Data, X_test: np.ndarray, signal: float, size: float, freedom: float) -> StudentT:
    """New observations at each test point, under a flat prior of the level."""
    examples, dimension = data.inputs.shape
    outputs = data.targets.shape[1]
    middle, level = data.inputs.mean(axis=0), data.targets.mean(axis=0)
    cross = (X_test - middle) @ (data.inputs - middle).T @ data.basis / dimension
    shrunken = signal * cross / (1 + signal * data.eigenvalues)
    own = 1 + 1 / examples + signal * ((X_test - middle) ** 2).sum(axis=1) / dimension
    variance = own - signal * (shrunken * cross).sum(axis=1)
    left = freedom + examples - outputs
    scale = (freedom * size * np.eye(outputs) + data.scatter(signal)) / left
    mean = level + shrunken @ (data.basis.T @ (data.targets - level))
    return StudentT(mean, variance[:, None, None] * scale, left)


def fit_predict(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> StudentT:
    """The forecast with the highest evidence."""
    data, outputs = Data.of(X, Y), Y.shape[1]

    def natural(logs: np.ndarray) -> tuple[float, float, float]:
        signal, size, excess = np.exp(logs)
        return signal, size, outputs - 1 + excess

    fits = [
        optimize.minimize(lambda logs: -log_evidence(data, *natural(logs)), start, bounds=BOUNDS)
        for start in STARTS
    ]
    return predict(data, X_test, *natural(min(fits, key=lambda each: each.fun).x))
