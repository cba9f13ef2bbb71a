"""Observations that see a network through several views, reduced to the span of their features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.bases import GRAM_TOLERANCE


@dataclass(frozen=True)
class ViewData:
    """Observations y with their views, in units in which inner products of features are the kernel.

    With more observations than features (p > M n0) rows are reduced to the span of the features by a QR
    decomposition: nothing is lost but ‖y‖² outside of it.

    Attributes
    ----------
    features : (q, M, n0) or None
        √(σ_1²/n0) ψ, reduced; None where the kernel between views was given.
    kernel : (q, M, q, M)
        Inner products of the features.
    observations : (q,)
        y in the span of the features.
    residual : float
        ‖y‖² outside of it.
    basis : (p, q) or None
        Orthonormal columns Q with y = Q observations + rest; None where rows are not reduced (q = p).
    outside : (p,)
        The rest.
    variance : float
        σ_1², the first layer's prior variance.
    """

    features: Array | None
    kernel: Array
    observations: Array
    residual: float
    basis: Array | None
    outside: Array
    variance: float

    @classmethod
    def of_views(cls, views: Array, y: Array, variance: float) -> ViewData:
        """From views (p, M, n0) and observations (p,), with the first layer's prior variance."""
        examples, channels, dimension = views.shape
        features = math.sqrt(variance / dimension) * views
        if examples <= channels * dimension:
            return cls(features, _inner(features), y, 0.0, None, np.zeros(examples), variance)
        basis, root = np.linalg.qr(features.reshape(examples, -1))
        reduced = root.reshape(-1, channels, dimension)
        own = basis.T @ y
        rest = y - basis @ own
        return cls(reduced, _inner(reduced), own, float(rest @ rest), basis, rest, variance)

    @classmethod
    def of_kernel(cls, kernel: Array, y: Array, variance: float) -> ViewData:
        """From the kernel between all views, (p, M, p, M)."""
        return cls(None, variance * kernel, y, 0.0, None, np.zeros(len(y)), variance)

    @property
    def channels(self) -> int:
        """M."""
        return self.kernel.shape[1]

    @property
    def examples(self) -> int:
        """p."""
        return len(self.outside)

    @cached_property
    def given(self) -> Array:
        """The observations as they were given, (p,)."""
        own = self.observations if self.basis is None else self.basis @ self.observations
        return own + self.outside


def _inner(features: Array) -> Array:
    """Inner products (p, M, p, M) of features (p, M, k)."""
    return np.asarray(np.einsum("ami,bni->ambn", features, features, optimize=True))


def checked_views(value: ArrayLike, name: str = "views") -> Array:
    """Views (p, M, n0), or a kernel between them (p, M, p, M), of finite numbers that are not all zero."""
    array = check.real_array(value, name)
    if array.ndim not in (3, 4) or 0 in array.shape:
        raise ValueError(
            f"{name} must have shape (p, M, n0): for each of p observations M vectors of n0 numbers; or, as "
            f"a kernel between them, (p, M, p, M), got {name}.shape={array.shape}"
        )
    check.size(float(np.abs(array).max()), name, power=array.ndim - 2)
    return array


def require_kernel(kernel: Array) -> None:
    """Raise unless a kernel between views (p, M, p, M) is symmetric and positive semi-definite."""
    examples, channels = kernel.shape[:2]
    if kernel.shape[2:] != (examples, channels):
        raise ValueError(
            f"a kernel between views must have shape (p, M, p, M), got views.shape={kernel.shape}"
        )
    matrix = kernel.reshape(examples * channels, -1)
    size = float(np.abs(matrix).max())
    if float(np.abs(matrix - matrix.T).max()) > 1e-10 * size:
        raise ValueError("a kernel between views must be symmetric, got K(a, m; b, n) unlike K(b, n; a, m)")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -GRAM_TOLERANCE * size * len(matrix):
        raise ValueError(
            "a kernel between views must be positive semi-definite, got a matrix with the eigenvalue "
            f"{smallest:.3g}"
        )
