"""Small regression problems that the tests share; only numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Data and their Gram matrices, as the referees want them (`cross` is (p, p̂), `columns` is (p, n_d))."""

    X: Array
    Y: Array
    X_test: Array

    @property
    def columns(self) -> Array:
        return self.Y.reshape(len(self.X), -1)

    @cached_property
    def gram(self) -> Array:
        return self.X @ self.X.T / self.X.shape[1]

    @cached_property
    def cross(self) -> Array:
        return self.X @ self.X_test.T / self.X.shape[1]

    @cached_property
    def test_gram(self) -> Array:
        return self.X_test @ self.X_test.T / self.X.shape[1]


def make_problem(
    p: int, inputs: int, outputs: int | None = None, *, seed: int, points: int = 3, signal: float = 1.0
) -> Problem:
    """Noisy linear data; Y is one-dimensional when `outputs` is None."""
    rng = np.random.default_rng(seed)
    X, X_test = rng.standard_normal((p, inputs)), rng.standard_normal((points, inputs))
    channels = () if outputs is None else (outputs,)
    Y = signal * X @ rng.standard_normal((inputs, *channels)) / math.sqrt(inputs)
    return Problem(X, Y + 0.3 * rng.standard_normal((p, *channels)), X_test)


def random_scale(outputs: int, seed: int) -> Array:
    """Make a well-conditioned symmetric positive-definite matrix."""
    root = np.random.default_rng(seed).standard_normal((outputs, outputs))
    return root @ root.T + 0.5 * np.eye(outputs)


def random_rotation(size: int, seed: int) -> Array:
    """Make an orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


def narrow_per_output(number: int) -> dict[str, Any]:
    """A random network with layers narrower than the outputs, and a noise precision of each output."""
    rng = np.random.default_rng([number, 24])
    outputs = int(rng.integers(2, 6))
    widths = rng.integers(1, 9, size=int(rng.integers(1, 4)))
    widths[rng.integers(len(widths))] = rng.integers(1, outputs)
    p, inputs = int(rng.integers(1, 5)), int(rng.integers(2, 7))
    return {
        "widths": tuple(int(width) for width in widths),
        "variances": tuple(float(each) for each in np.exp(0.5 * rng.normal(size=len(widths) + 1))),
        "X": rng.normal(size=(p, inputs)),
        "Y": math.exp(0.7 * rng.normal()) * rng.normal(size=(p, outputs)),
        "beta": np.exp(rng.uniform(-1.5, 3.0, size=outputs)),
    }
