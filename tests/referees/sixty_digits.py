"""Spectra of ill-conditioned tall inputs in sixty digits."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np

import lbnn


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
