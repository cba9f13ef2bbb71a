"""The law of Gaussian data with a linear teacher, in bidiagonal form.

X (p, n0) has independent standard normal entries and y = X w + σ ε. Householder reflections from the left and
from the right, the first of which fixes the direction of w, bring X to bidiagonal form (Golub and Kahan):

    X = U B Vᵀ,   V e_1 = w/|w|,   B_kk ~ χ(p − k + 1),   B_{k,k+1} ~ χ(n0 − k),   all independent,

because a reflection that is chosen from one row or column leaves the others standard normal. Uᵀε is standard
normal and independent of B, so that Uᵀy = |w| B_11 e_1 + σ ε'. A network depends on the data up to rotations:
B and Uᵀy, some 3 min(p, n0) random numbers, have the exact law of the whole problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from lbnn._base.types import Array
from lbnn.scale.gamma_product import GammaProduct


@dataclass(frozen=True)
class Teacher:
    """y = X w + σ ε with |w| = `norm`; a norm of None is |w| of a network drawn from its prior."""

    norm: float | None
    noise: float


@dataclass(frozen=True)
class BidiagonalData:
    """Draws of data sets in bidiagonal form; m draws, r = min(p, n0)."""

    examples: int  # p
    inputs: int  # n0
    diagonal: Array  # B_kk, (m, r)
    upper: Array  # B_{k,k+1}, (m, r); the last is zero where p ≥ n0
    targets: Array  # Uᵀy in the range of B, (m, r)
    residual: Array  # |y|² outside of it, (m,)
    norms: Array  # |w|, (m,)

    @property
    def columns(self) -> int:
        """Number of columns of B: directions of the inputs that the data span."""
        return self.diagonal.shape[1] + (self.examples < self.inputs)

    def take(self, rows: slice) -> BidiagonalData:
        """Some of the draws."""
        return BidiagonalData(
            self.examples,
            self.inputs,
            self.diagonal[rows],
            self.upper[rows],
            self.targets[rows],
            self.residual[rows],
            self.norms[rows],
        )

    def gram(self) -> tuple[Array, Array]:
        """B Bᵀ/n0: its diagonal (m, r), and the entries beside it (m, r), the last of which is zero."""
        beside = np.zeros_like(self.upper)
        beside[:, :-1] = self.upper[:, :-1] * self.diagonal[:, 1:]
        return (self.diagonal**2 + self.upper**2) / self.inputs, beside / self.inputs

    def to_inputs(self, vectors: Array) -> Array:
        """Bᵀ times vectors (m, r), (m, columns)."""
        result = np.zeros((len(vectors), self.columns))
        result[:, : vectors.shape[1]] = self.diagonal * vectors
        result[:, 1:] += (self.upper * vectors)[:, : self.columns - 1]
        return result


def sample_data(
    examples: int, inputs: int, teacher: Teacher, prior_law: GammaProduct, size: int, rng: np.random.Generator
) -> BidiagonalData:
    """Independent data sets; `prior_law` is the law of log |w|² that a norm of None is drawn from."""
    rank = min(examples, inputs)
    steps = np.arange(1, rank + 1)
    diagonal = np.sqrt(2 * rng.standard_gamma((examples - steps + 1) / 2, (size, rank)))
    upper = np.sqrt(2 * rng.standard_gamma((inputs - steps) / 2, (size, rank)))  # χ(0) is zero
    targets = teacher.noise * rng.standard_normal((size, rank))
    residual = teacher.noise**2 * rng.chisquare(examples - rank, size) if examples > rank else np.zeros(size)
    norms = np.full(size, teacher.norm) if teacher.norm is not None else sample_norms(prior_law, size, rng)
    targets[:, 0] += norms * diagonal[:, 0]
    return BidiagonalData(examples, inputs, diagonal, upper, targets, residual, norms)


def sample_norms(law: GammaProduct, size: int, rng: np.random.Generator) -> Array:
    """|w| of networks drawn from their prior, (size,)."""
    logs = np.full(size, law.shift)
    for width in law.widths:
        logs += np.log(rng.chisquare(width, size) / width)
    return np.exp(logs / 2)


def log_norm_law(widths: tuple[int, ...], inputs: int, variance: float) -> GammaProduct:
    """The prior law of log |w|² for the linear map w of a network: λ σ_1² χ²(n0)/n0."""
    return GammaProduct((*widths, inputs), variance)


def expected_log_determinant(examples: int, inputs: int) -> float:
    """E log det(X Xᵀ/n0) for p ≤ n0: det(X Xᵀ) is a product of independent χ²(n0 − i), i < p."""
    half = (inputs - np.arange(examples)) / 2
    return float((special.digamma(half) + math.log(2)).sum()) - examples * math.log(inputs)
