"""The prior of the scale at leading order in the widths: one rate for each eigenvalue of L.

Each layer's factor C_ℓ = T_ℓ T_ℓᵀ has the density exp{(n_ℓ/2)(log det C_ℓ − tr C_ℓ)} up to terms that do not
grow with n_ℓ. For a given product L the cheapest factors share its eigenvectors (singular values of products
are log-majorised by products of singular values, and the rate is convex in their logarithms), so that

    log ϖ(L) ≈ Σ_j ψ(l_j),   ψ(l) = max { Σ_ℓ (n_ℓ/2)(log c_ℓ − c_ℓ + 1) : v Π_ℓ c_ℓ = l }.

At the maximum n_ℓ(1 − c_ℓ) is the same for every layer. The factor c of the narrowest layer, with
r_ℓ = n_min/n_ℓ, gives the others without cancellation: c_ℓ = (1 − r_ℓ) + r_ℓ c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import elementwise

from lbnn._base.types import Array


@dataclass(frozen=True)
class WidePrior:
    """The rate ψ of the eigenvalues of L, for hidden widths n_1..n_{d−1} and E L = variance · I."""

    widths: tuple[int, ...]
    variance: float

    @cached_property
    def _ratios(self) -> Array:
        return min(self.widths) / np.asarray(self.widths, float)

    def factors(self, values: Array) -> Array:
        """c_ℓ of every layer at eigenvalues l (..., n), (..., n, layers)."""
        return self._layer_factors(self._narrowest_factor(np.log(values / self.variance)))

    def rate(self, values: Array) -> Array:
        """ψ(l), zero at l = v."""
        factors = self.factors(values)
        return 0.5 * (np.asarray(self.widths, float) * (np.log(factors) - factors + 1)).sum(axis=-1)

    def log_slope(self, values: Array) -> Array:
        """dψ/d log l = n_ℓ(1 − c_ℓ)/2, the same for every layer."""
        return 0.5 * min(self.widths) * (1 - self._narrowest_factor(np.log(values / self.variance)))

    def stationary(self, squares: Array, count: float) -> Array:
        """The l with dψ/d log l = ½(count − s/l) for every s: the saddle at zero temperature, (n,).

        For depth two this is the Riccati equation l² − (1 − count/n_1) v l − s v/n_1 = 0.
        """
        narrowest = min(self.widths)

        def imbalance(log_factor: Array, square: Array) -> Array:
            factor = np.exp(log_factor)
            scale = self.variance * np.exp(self._log_product(factor))
            return narrowest * (1 - factor) - count + square / scale

        guess = np.log(np.maximum(1 - count / narrowest, 0) + np.sqrt(squares / (narrowest * self.variance)))
        factor = np.exp(_root(imbalance, guess, (squares,)))
        return self.variance * np.exp(self._log_product(factor))

    def _narrowest_factor(self, log_product: Array) -> Array:
        """The c with Π_ℓ c_ℓ = exp(log_product): between that product and its root of order d − 1."""
        if len(self.widths) == 1:
            return np.exp(log_product)
        guess = log_product / len(self.widths)
        return np.exp(_root(lambda x, y: self._log_product(np.exp(x)) - y, guess, (log_product,)))

    def _log_product(self, factor: Array) -> Array:
        return np.log(self._layer_factors(factor)).sum(axis=-1)

    def _layer_factors(self, factor: Array) -> Array:
        return (1 - self._ratios) + self._ratios * factor[..., None]


def _root(function: Callable[..., Array], guess: Array, arguments: tuple[Array, ...]) -> Array:
    """Roots of a monotone function, one for each entry, to rounding."""
    bracket = elementwise.bracket_root(function, guess - 0.5, guess + 0.5, args=arguments, maxiter=200)
    found = elementwise.find_root(
        function,
        bracket.bracket,
        args=arguments,
        tolerances={"xatol": 1e-14, "xrtol": 1e-15, "fatol": 0.0, "frtol": 0.0},
    )
    if not found.success.all():
        raise ArithmeticError(
            "a factor of the scale must fit into double precision, got none: rescale the data"
        )
    return found.x
