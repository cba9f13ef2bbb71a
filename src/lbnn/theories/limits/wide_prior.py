"""The prior of the scale at leading order in the widths: one rate for each eigenvalue of L.

Each layer's C_ℓ = T_ℓ T_ℓᵀ has the density exp{(n_ℓ/2)(log det C_ℓ − tr C_ℓ)} up to terms that do not
grow with n_ℓ. For a given product L the most probable C_ℓ share its eigenvectors (singular values of products
are log-majorised by products of singular values, and the rate is convex in their logarithms), so that

    log ϖ(L) ≈ Σ_j ψ(l_j),   ψ(l) = max { Σ_ℓ (n_ℓ/2)(log c_ℓ − c_ℓ + 1) : v Π_ℓ c_ℓ = l }.

At the maximum n_ℓ(1 − c_ℓ) is the same for every layer. The value c of the narrowest layer, with
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
        """Narrowest width over each width, (d − 1,)."""
        return min(self.widths) / np.asarray(self.widths, float)

    def layer_values(self, values: Array) -> Array:
        """c_ℓ, the eigenvalues of each layer's C_ℓ where those of L are l (..., n): (..., n, layers)."""
        return self._all_layers(self._narrowest_value(np.log(values / self.variance)))

    def rate(self, values: Array) -> Array:
        """ψ(l), shaped like l, zero at l = v."""
        c = self.layer_values(values)
        return 0.5 * (np.asarray(self.widths, float) * (np.log(c) - c + 1)).sum(axis=-1)

    def log_slope(self, values: Array) -> Array:
        """dψ/d log l = n_ℓ(1 − c_ℓ)/2, shaped like l, the same for every layer."""
        return 0.5 * min(self.widths) * (1 - self._narrowest_value(np.log(values / self.variance)))

    def stationary(self, squares: Array, count: float) -> Array:
        """The l with dψ/d log l = ½(count − s/l) for every s: the saddle at zero temperature, (n,).

        For depth two this is the Riccati equation l² − (1 − count/n_1) v l − s v/n_1 = 0.
        """
        narrowest = min(self.widths)

        def imbalance(log_narrowest: Array, square: Array) -> Array:
            """What the stationary point makes zero, shaped like the squares."""
            narrowest_value = np.exp(log_narrowest)
            scale = self.variance * np.exp(self._log_product(narrowest_value))
            return narrowest * (1 - narrowest_value) - count + square / scale

        guess = np.log(np.maximum(1 - count / narrowest, 0) + np.sqrt(squares / (narrowest * self.variance)))
        found = np.exp(_root(imbalance, guess, (squares,)))
        return self.variance * np.exp(self._log_product(found))

    def _narrowest_value(self, log_product: Array) -> Array:
        """The c with Π_ℓ c_ℓ = exp(log_product), of the same shape.

        It lies between that product and its root of order d − 1.
        """
        if len(self.widths) == 1:
            return np.exp(log_product)
        guess = log_product / len(self.widths)
        return np.exp(_root(lambda x, y: self._log_product(np.exp(x)) - y, guess, (log_product,)))

    def _log_product(self, narrowest: Array) -> Array:
        """log Π_ℓ c_ℓ, shaped like the value of the narrowest layer."""
        return np.log(self._all_layers(narrowest)).sum(axis=-1)

    def _all_layers(self, narrowest: Array) -> Array:
        """c_ℓ = (1 − r_ℓ) + r_ℓ c (..., d − 1) of every layer, given that of the narrowest (...)."""
        return (1 - self._ratios) + self._ratios * narrowest[..., None]


def _root(function: Callable[..., Array], guess: Array, arguments: tuple[Array, ...]) -> Array:
    """Roots of a monotone function, shaped like the guess, one for each entry, to rounding."""
    bracket = elementwise.bracket_root(function, guess - 0.5, guess + 0.5, args=arguments, maxiter=200)
    found = elementwise.find_root(
        function,
        bracket.bracket,
        args=arguments,
        tolerances={"xatol": 1e-14, "xrtol": 1e-15, "fatol": 0.0, "frtol": 0.0},
    )
    if not found.success.all():
        raise ArithmeticError(
            "the saddle point must fit into double precision, got values that do not: rescale the data"
        )
    return found.x
