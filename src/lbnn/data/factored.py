"""One output without every eigenvector: the Gram matrix as it is, factorised at a few scales.

The posterior of one output meets the data through two curves of s = log(λ/τ),

    A = log det(I + e^s G),   B = yᵀ (I + e^s G)⁻¹ y,

and test points through two more. Each value costs one Cholesky factorisation, a small part of an
eigendecomposition on a GPU. A survey by Lanczos steps gives both curves roughly and everywhere: Gauss rules
whose nodes stand for the eigenvalues. `FactoredSpectrum` shows these rules as the data, so that an engine can
look for the posterior; what it finds is made exact by factorisations there (`likelihood.factored`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from lbnn._base import check
from lbnn._base.arrays import (
    add_to_diagonal,
    cholesky,
    namespace,
    place_of,
    require_one_place,
    row_squares,
    solve_lower,
    to_numpy,
    within_memory,
)
from lbnn._base.errors import NotFactorised
from lbnn._base.types import AnyArray, Array

_PROBES = 32  # random vectors of the survey's log determinant
_STEPS = 64  # of Lanczos
_SMALLEST = 1e-18  # node, of the largest, that stands for an eigenvalue of zero


@dataclass(frozen=True)
class FactoredPoints:
    """Test points: K between them and the training points, and their own inputs or kernel."""

    cross: AnyArray  # (p̂, p)
    inputs: AnyArray | None  # (p̂, n0)
    kernel: AnyArray | None  # (p̂, p̂)
    scale: float  # of the squares of inputs

    @property
    def diagonal(self) -> Array:
        """Prior variances at λ = 1, (p̂,), as NumPy."""
        if self.kernel is not None:
            return to_numpy(namespace(self.kernel).linalg.diagonal(self.kernel))
        return self.scale * row_squares(self.inputs)

    @property
    def gram(self) -> AnyArray:
        """Prior covariance at λ = 1, (p̂, p̂)."""
        return self.kernel if self.inputs is None else self.scale * (self.inputs @ self.inputs.T)


@dataclass(frozen=True)
class FactoredGram:
    """A Gram matrix variance · G and targets y of one output, where they live; the basis of factored data."""

    gram: AnyArray  # G, (p, p)
    targets: AnyArray  # y, (p, 1)
    inputs: AnyArray | None  # X, (p, n0); None for a kernel
    variance: float = 1.0

    @property
    def example(self) -> AnyArray:
        """An array of the place of the data."""
        return self.gram

    def solve(self, log_ratio: float, right: AnyArray) -> tuple[float, AnyArray]:
        """A and F⁻¹ right (p, k) at s = `log_ratio`, where F Fᵀ = I + e^s · variance · G."""
        size, place = self.gram.shape[0], place_of(self.gram)
        purpose = f"a Cholesky factorisation of {size} × {size}"
        factor = within_memory(lambda: self._factor(log_ratio), place, 3.0 * size**2, purpose)
        if factor is None:
            raise NotFactorised
        diagonal = to_numpy(namespace(factor).linalg.diagonal(factor))
        return 2 * float(np.log(diagonal).sum()), solve_lower(factor, right)

    def _factor(self, log_ratio: float) -> AnyArray | None:
        return cholesky(add_to_diagonal((math.exp(log_ratio) * self.variance) * self.gram, 1.0))

    def training(self) -> FactoredPoints:
        """The training points themselves."""
        return FactoredPoints(self.variance * self.gram, None, self.variance * self.gram, 1.0)

    def project(self, *test: ArrayLike) -> FactoredPoints:
        """Test points: X_test, or for a kernel cross_gram and test_gram."""
        if self.inputs is None:
            return self._kernel_points(test)
        if len(test) != 1:
            raise TypeError(f"test points are one array X_test of shape (p̂, n0), got {len(test)} arrays")
        inputs, dimension = check.matrix_in_place(test[0], "X_test"), self.inputs.shape[1]
        require_one_place(X=self.inputs, X_test=inputs)
        if inputs.shape[1] != dimension:
            raise ValueError(
                f"X_test must have n0 = {dimension} columns, got X_test.shape={tuple(inputs.shape)}"
            )
        scale = self.variance / dimension
        return FactoredPoints(scale * (inputs @ self.inputs.T), inputs, None, scale)

    def _kernel_points(self, test: tuple[ArrayLike, ...]) -> FactoredPoints:
        if len(test) != 2:
            raise TypeError(
                f"after a Gram matrix, test points are cross_gram and test_gram, got {len(test)} arrays"
            )
        cross, gram = check.matrix_in_place(test[0], "cross_gram"), check.square_matrix(test[1], "test_gram")
        require_one_place(gram=self.gram, cross_gram=cross, test_gram=gram)
        expected = gram.shape[0], self.gram.shape[0]
        if tuple(cross.shape) != expected:
            raise ValueError(
                f"cross_gram must have shape (p̂, p) = {expected}, got cross_gram.shape={tuple(cross.shape)}"
            )
        return FactoredPoints(self.variance * cross, None, self.variance * gram, 1.0)

    def scaled(self, variance: float) -> FactoredGram:
        return replace(self, variance=variance * self.variance)


def factorised(decompose: str) -> bool:
    """Whether data are to be factorised rather than decomposed."""
    if decompose not in ("eigh", "factor"):
        raise ValueError(f"decompose must be 'eigh' or 'factor', got {decompose!r}")
    return decompose == "factor"


def surveyed(data: FactoredGram) -> tuple[Array, Array, tuple[tuple[Array, Array], ...]]:
    """Nodes (k,) and targets (k, 1) that stand for yᵀ f(G) y, and for each probe a rule of tr f(G)."""
    outputs, size = data.targets.shape[1], data.gram.shape[0]
    if outputs != 1:
        raise ValueError(
            f"decompose='factor' is for one output, got {outputs}: use decompose='eigh' for several"
        )
    (values, shares), *probes = survey_rules(data)
    targets = np.sqrt(shares * float((to_numpy(data.targets) ** 2).sum()))[:, None]
    return values, targets, tuple((nodes, size * weights) for nodes, weights in probes)


def survey_rules(data: FactoredGram) -> list[tuple[Array, Array]]:
    """Gauss rules of the Gram matrix, nodes and weights of sum one: of y first, then of random signs."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (data.gram.shape[0], _PROBES))
    there = place_of(data.gram)
    return lanczos_rules(data.gram, namespace(data.gram).concat([data.targets, there.put(signs)], axis=1))


def lanczos_rules(matrix: AnyArray, starts: AnyArray) -> list[tuple[Array, Array]]:
    """For each start v (columns): nodes and weights of Gauss's rule for f ↦ vᵀ f(matrix) v / vᵀv.

    Plain Lanczos steps, all starts at once; lost orthogonality repeats nodes and leaves the rule what it is.
    """
    xp = namespace(matrix)
    sizes = xp.sqrt(xp.sum(starts * starts, axis=0))
    now = starts / xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    before, step = xp.zeros_like(now), xp.zeros_like(sizes)
    diagonals, steps = [], []
    for _ in range(min(_STEPS, matrix.shape[0])):
        new = matrix @ now - before * step
        diagonal = xp.sum(now * new, axis=0)
        new = new - now * diagonal
        step = xp.sqrt(xp.sum(new * new, axis=0))
        before, now = now, new / xp.where(step > 0, step, xp.ones_like(step))
        diagonals.append(diagonal)
        steps.append(step)
    return [
        _rule(*each)
        for each in zip(to_numpy(xp.stack(diagonals)).T, to_numpy(xp.stack(steps)).T, strict=True)
    ]


def _rule(diagonal: Array, steps: Array) -> tuple[Array, Array]:
    """Nodes and weights of a tridiagonal matrix, cut where the steps came to an end in rounding."""
    small = np.flatnonzero(steps < 1e-13 * np.abs(diagonal).max())
    count = int(small[0]) + 1 if len(small) else len(steps)
    nodes, vectors = linalg.eigh_tridiagonal(diagonal[:count], steps[: count - 1])
    return np.maximum(nodes, _SMALLEST * np.abs(nodes).max()), vectors[0] ** 2
