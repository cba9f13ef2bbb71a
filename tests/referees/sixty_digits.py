"""Ill-conditioned data in sixty digits: eigenvalues, targets and test points, rounded at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mpmath
import numpy as np

import lbnn
from lbnn.data.bases import InputBasis
from lbnn.data.projection import Directions, Projection


def ill_conditioned(
    condition: float, offset: float = 0.0, examples: int = 120, inputs: int = 6, seed: int = 5
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of a condition, targets of size one in all of their directions, noise of 1e-5."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(examples, inputs)))[0]
    right = np.linalg.qr(rng.normal(size=(inputs, inputs)))[0]
    X = (left * np.geomspace(1, 1 / condition, inputs)) @ right * np.sqrt(examples * inputs) + offset
    y = left @ rng.normal(size=inputs) * np.sqrt(examples) + 1e-5 * rng.normal(size=examples)
    return X, y


def exact_spectrum(X: np.ndarray, y: np.ndarray) -> lbnn.Spectrum:
    """The spectrum in 60 digits, rounded at the end."""
    with mpmath.workdps(60):
        inputs, targets = mpmath.matrix(X.tolist()), mpmath.matrix(y.tolist())
        values, vectors = mpmath.eigsy(inputs.T * inputs)
        along = vectors.T * (inputs.T * targets)
        rotated = [along[i] / mpmath.sqrt(values[i]) for i in range(X.shape[1])]
        residual = sum(v**2 for v in targets) - sum(v**2 for v in rotated)
        g = np.array([float(value / X.shape[1]) for value in values])
        return replace(
            lbnn.Spectrum.from_inputs(X, y),
            eigenvalues=g,
            targets=np.array([[float(v)] for v in rotated]),
            residual=float(residual),
        )


@dataclass(frozen=True)
class ExactData:
    """What sixty digits make of inputs, one-dimensional targets and test inputs."""

    spectrum: lbnn.Spectrum
    points: Projection
    level: float = 0.0  # mean of the targets, where there is an intercept

    def answers(self, network: lbnn.Network, beta: float) -> dict[str, np.ndarray]:
        """Log evidence, and mean and variance of the function at the test points."""
        post = network.condition_spectrum(self.spectrum, beta)
        law = post._predictive_at(self.points)
        return {
            "log evidence": np.array([post.log_evidence]),
            "mean": law.mean + self.level,
            "variance": law.variance,
        }


def exact_data(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, *, centre: bool = False) -> ExactData:
    """Of inputs; with `centre` less their means, and p − 1 contrasts are counted."""
    with mpmath.workdps(60):
        inputs, targets, test = (mpmath.matrix(each.tolist()) for each in (X, y, X_test))
        level = mpmath.mpf(0)
        if centre:
            means = [mpmath.fsum(inputs[:, j]) / len(X) for j in range(X.shape[1])]
            level = mpmath.fsum(targets) / len(X)
            for matrix in (inputs, test):
                for i in range(matrix.rows):
                    for j, mean in enumerate(means):
                        matrix[i, j] -= mean
            targets = targets.apply(lambda value: value - level)
        gram = inputs * inputs.T if len(X) <= X.shape[1] else inputs.T * inputs
        cross = test * inputs.T if len(X) <= X.shape[1] else test
        values, vectors = mpmath.eigsy(gram)
        along = vectors.T * (targets if len(X) <= X.shape[1] else inputs.T * targets)
        seen = cross * vectors
        wide = len(X) <= X.shape[1]
        sizes = [mpmath.fsum(test[i, j] ** 2 for j in range(X.shape[1])) for i in range(len(X_test))]
        return _rounded(values, along, seen, sizes, targets, X.shape, wide, wide, float(level), centre)


def exact_gram(gram: np.ndarray, y: np.ndarray, cross: np.ndarray, sizes: np.ndarray) -> ExactData:
    """Of a kernel matrix, of which eigenvalues that are not positive count as zero."""
    with mpmath.workdps(60):
        values, vectors = mpmath.eigsy(mpmath.matrix(gram.tolist()))
        targets = mpmath.matrix(y.tolist())
        seen = mpmath.matrix(cross.tolist()) * vectors
        lengths = [mpmath.mpf(float(each)) for each in sizes]
        return _rounded(
            values, vectors.T * targets, seen, lengths, targets, (len(y), 1), True, True, 0.0, False
        )


def _rounded(values, along, seen, sizes, targets, shape, by_examples, cross, level, centre) -> ExactData:
    """From eigenvalues n0 g, UᵀY or VᵀXᵀY, X̂XᵀU or X̂V, and n0 G_x̂x̂."""
    kept = [i for i in range(len(values)) if values[i] > mpmath.mpf(10) ** -40 * max(values)]
    roots = {i: mpmath.sqrt(values[i]) for i in kept}
    own = [along[i] if by_examples else along[i] / roots[i] for i in kept]
    features = [[seen[a, i] / roots[i] if cross else seen[a, i] for i in kept] for a in range(len(sizes))]
    rest = mpmath.fsum(v**2 for v in targets) - mpmath.fsum(v**2 for v in own)
    unseen = [
        sizes[a] - mpmath.fsum(v**2 for v in features[a]) for a in range(len(sizes))
    ]  # not below 1e-40 but for rounding of sixty digits
    examples, dimension = shape
    spectrum = lbnn.Spectrum(
        np.array([float(values[i] / dimension) for i in kept]),
        np.array([[float(v)] for v in own]),
        max(float(rest), 0.0) if len(kept) < examples - centre else 0.0,
        examples - centre,
        True,
        InputBasis(Directions(np.zeros((dimension, len(kept)))), dimension, None, 1 / dimension),
    )
    scale = mpmath.mpf(1) / dimension
    points = Projection(
        np.array([[float(mpmath.sqrt(scale) * v) for v in row] for row in features]).reshape(len(sizes), -1),
        gram=np.diag([max(float(scale * v), 0.0) for v in unseen]),
    )
    return ExactData(spectrum, points, level)
