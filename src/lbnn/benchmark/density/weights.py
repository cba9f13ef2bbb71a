"""The joint density of data and weights, with its gradient, in NumPy.

The flat vector z holds W_1, ..., W_d row by row in units of their prior standard deviations, so that it is
standard normal a priori:

    z_ℓ = √(n_{ℓ−1}/σ_ℓ²) W_ℓ,   log p(z, Y) = Σ log N(z_i; 0, 1) + Σ log N(Y; X W_1ᵀ⋯W_dᵀ, noise²).

All constants are kept: the integral of the density over z is the evidence.

With M views an example is M rows ψ_1, ..., ψ_M of X, the network has M outputs, and the one target of the
example is Σ_m [W_d⋯W_1 ψ_m]_m: gated and convolutional networks are of this kind (`lbnn.views`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array


@dataclass(frozen=True, eq=False)
class WeightDensity:
    """Data and a network, as a density of the flat vector of its weights.

    Attributes
    ----------
    X, Y : (p, n0) and (p, n_d) arrays
        With views: (p M, n0), the views of the first example first, and (p, 1).
    widths : tuple of int
        n_1..n_{d−1}.
    prior_variances : tuple of float
        σ_1²..σ_d².
    noise : float
        Standard deviation of the targets' noise.
    views : int
        M; zero where every example is one row of X.

    Examples
    --------
    >>> import numpy as np
    >>> density = WeightDensity(np.eye(2), np.ones((2, 1)), (3,), (1.0, 1.0), 0.5)
    >>> density.dimension, [weight.shape for weight in density.unflatten(np.zeros((4, 9)))]
    (9, [(4, 3, 2), (4, 1, 3)])
    """

    X: Array
    Y: Array
    widths: tuple[int, ...]
    prior_variances: tuple[float, ...]
    noise: float
    views: int = 0

    @property
    def channels(self) -> int:
        """Rows of W_d: n_d, or M."""
        return self.views or self.Y.shape[1]

    @cached_property
    def shapes(self) -> list[tuple[int, int]]:
        """(n_ℓ, n_{ℓ−1}) of every layer, as in `torch.nn.Linear`."""
        sizes = (self.X.shape[1], *self.widths, self.channels)
        return [(rows, columns) for columns, rows in pairwise(sizes)]

    @cached_property
    def deviations(self) -> list[float]:
        """Prior standard deviation σ_ℓ/√n_{ℓ−1} of a weight of every layer."""
        return [
            math.sqrt(variance / columns)
            for variance, (_, columns) in zip(self.prior_variances, self.shapes, strict=True)
        ]

    @cached_property
    def ends(self) -> list[int]:
        """Where every layer ends in the flat vector."""
        return [int(end) for end in np.cumsum([rows * columns for rows, columns in self.shapes])]

    @property
    def dimension(self) -> int:
        """Number of weights."""
        return self.ends[-1]

    @property
    def log_normaliser(self) -> float:
        """Log of (2π noise²)^{−p n_d/2}."""
        return -self.Y.size * (0.5 * math.log(2 * math.pi) + math.log(self.noise))

    # ------------------------------------------------------------------ coordinates

    def unflatten(self, z: ArrayLike) -> list[Array]:
        """Weights W_1 (..., n_1, n_0), ..., W_d (..., n_d, n_{d−1}) of flat vectors z (..., dimension)."""
        array = self._checked(z)
        return [
            deviation * part.reshape(*array.shape[:-1], *shape)
            for part, shape, deviation in zip(
                np.split(array, self.ends[:-1], axis=-1), self.shapes, self.deviations, strict=True
            )
        ]

    def flatten(self, weights: Sequence[ArrayLike]) -> Array:
        """Flat vectors (..., dimension) of weights W_1, ..., W_d."""
        arrays = [check.real_array(weight, f"W_{layer}") for layer, weight in enumerate(weights, 1)]
        given = [array.shape[-2:] for array in arrays]
        leading = {array.shape[:-2] for array in arrays}
        if given != self.shapes or len(leading) != 1:
            raise ValueError(
                f"weights must be {len(self.shapes)} arrays that end in the shapes {self.shapes}, got "
                f"{[array.shape for array in arrays]}"
            )
        parts = [
            (array / deviation).reshape(*array.shape[:-2], -1)
            for array, deviation in zip(arrays, self.deviations, strict=True)
        ]
        return np.concatenate(parts, axis=-1)

    # ------------------------------------------------------------------ densities

    def log_prior(self, z: ArrayLike) -> Array:
        """Log N(z; 0, I), (...,)."""
        array = self._checked(z)
        return -0.5 * ((array**2).sum(-1) + self.dimension * math.log(2 * math.pi))

    def log_likelihood(self, z: ArrayLike) -> Array:
        """Log N(Y; X W_1ᵀ⋯W_dᵀ, noise²), (...,)."""
        residual = self.predictions(self.product(self.unflatten(z)), self.X) - self.Y.T
        return self.log_normaliser - 0.5 * (residual**2).sum((-2, -1)) / self.noise**2

    def log_density(self, z: ArrayLike) -> Array:
        """Log p(z, Y), (...,): its exponential integrates to the evidence."""
        return self.log_prior(z) + self.log_likelihood(z)

    def gradient(self, z: ArrayLike) -> Array:
        """∂ log p(z, Y)/∂z, (..., dimension)."""
        array = self._checked(z)
        weights = self.unflatten(array)
        above = self.tails(weights)  # W_d ⋯ W_{ℓ+1}, from ℓ = d down to 1
        product = above[-1] @ weights[0]
        residual = self.predictions(product, self.X) - self.Y.T
        pulled = residual @ self._read(self.X)  # back through what `predictions` does
        below = -pulled.reshape(product.shape) / self.noise**2  # times (W_{ℓ−1} ⋯ W_1)ᵀ on the way up
        parts = []
        for weight, upper, deviation in zip(weights, reversed(above), self.deviations, strict=True):
            slope = upper.swapaxes(-1, -2) @ below
            parts.append(deviation * slope.reshape(*array.shape[:-1], -1))
            below = below @ weight.swapaxes(-1, -2)
        return np.concatenate(parts, axis=-1) - array

    def tails(self, weights: Sequence[Array]) -> list[Array]:
        """I, W_d, W_d W_{d−1}, ..., W_d ⋯ W_2: what stands above every layer, from the top."""
        outputs = self.channels
        identity = np.broadcast_to(np.eye(outputs), (*weights[0].shape[:-2], outputs, outputs))
        found = [identity]
        for weight in weights[:0:-1]:
            found.append(found[-1] @ weight)
        return found

    def product(self, weights: Sequence[Array]) -> Array:
        """W_d ⋯ W_1, (..., n_d, n_0)."""
        return self.tails(weights)[-1] @ weights[0]

    def predictions(self, product: Array, X: Array) -> Array:
        """Targets without noise (..., n_d, p) of products (..., n_d, n0) at inputs X (p, n0).

        With views (..., 1, p), of products (..., M, n0) at X (p M, n0).
        """
        if self.views:
            product = product.reshape(*product.shape[:-2], 1, -1)
        return product @ self._read(X).T

    def _read(self, X: Array) -> Array:
        """X itself, or with views the M rows of every example beside each other, (p, M n0)."""
        return X.reshape(-1, self.views * X.shape[1]) if self.views else X

    def _checked(self, z: ArrayLike) -> Array:
        array = np.asarray(z, float)
        if array.ndim == 0 or array.shape[-1] != self.dimension:
            raise ValueError(
                f"z must have the {self.dimension} weights on its last axis, got z.shape={array.shape}"
            )
        return array
