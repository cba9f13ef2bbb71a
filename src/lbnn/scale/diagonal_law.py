"""The law of one diagonal entry of T = T_d ⋯ T_2: the log of a product of independent χ variables.

x = log T_ii = Σ_ℓ log (T_ℓ)_ii with (T_ℓ)_ii² ~ s_ℓ χ²(k_ℓ), so 2x has the law of `GammaProduct`. Sampling
needs it at thousands of points: a spline through nodes that are equidistant in the logarithm of the distance
to the rightmost pole of the Mellin transform. The same nodes hold the typical share of every factor in x.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np
from scipy import interpolate, special

from lbnn._base.types import Array
from lbnn.scale.gamma_product import GammaProduct, split_given

_NEAR_LOGS, _FAR_LOGS = np.linspace(-7, 6, 261), np.linspace(6, 24, 1801)  # of the gap


class DiagonalLaw:
    """Law of x̃ = Σ_ℓ log χ(k_ℓ) over the factors, first to last; scales s_ℓ only shift it."""

    def __init__(self, degrees: tuple[float, ...]) -> None:
        self.degrees = np.asarray(degrees, float)
        self.product = GammaProduct(degrees, float(np.prod(self.degrees)))

    @staticmethod
    @lru_cache(maxsize=256)
    def of(degrees: tuple[float, ...]) -> DiagonalLaw:
        """The law, with its tables made once."""
        return DiagonalLaw(degrees)

    def log_density(self, x: Array) -> tuple[Array, Array]:
        """Log density at x (m,), and its derivative."""
        if len(self.degrees) == 1:
            square = np.exp(2 * x)
            constant = math.log(2) - self.degrees[0] / 2 * math.log(2) - special.gammaln(self.degrees[0] / 2)
            return self.degrees[0] * x - square / 2 + constant, self.degrees[0] - square
        return self._evaluate(x, 0)

    def typical_parts(self, x: Array) -> tuple[Array, Array]:
        """Typical log χ(k_ℓ) of every factor given their sum x, (m, factors), and derivatives in x."""
        if len(self.degrees) == 1:
            return x[:, None], np.ones((len(x), 1))
        return self._evaluate(x, 1)

    def split(self, x: Array, rng: np.random.Generator) -> Array:
        """Draw log χ(k_ℓ) of every factor given their sum, exactly, (m, factors)."""
        if len(self.degrees) == 1:
            return x[:, None]
        log_squares = split_given(self.product.widths, 2 * x - self.product.shift, self._gap(x), rng)
        return 0.5 * (log_squares[:, ::-1] + np.log(self.degrees))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Independent draws of x, (size,)."""
        return 0.5 * np.log(rng.chisquare(self.degrees, size=(size, len(self.degrees)))).sum(axis=1)

    def _gap(self, x: Array) -> Array:
        """Distance of the saddle point from the pole at x (m,), near enough for proposals of `split`."""
        near = self._near[1].x
        gap = np.exp(np.interp(x, near, _NEAR_LOGS))
        outside = (x < near[0]) | (x > near[-1])
        if outside.any():  # rare, and there the search of the saddle point itself is cheap enough
            gap[outside] = self.product.saddle_gap(2 * x[outside] - self.product.shift)
        return gap

    def _evaluate(self, x: Array, which: int) -> tuple[Array, Array]:
        """Value and derivative at x (m,) from the near table, and from the far one where x lies beyond it."""
        near = self._near[which]
        inside = np.maximum(x, near.x[0])
        value, slope = near(inside), near(inside, 1)
        beyond = x > near.x[-1]
        if beyond.any():
            far = self._far[which]
            value[beyond], slope[beyond] = far(x[beyond]), far(x[beyond], 1)
        below = x - inside  # the left tail is exponential
        return value + slope * (below if value.ndim == 1 else below[:, None]), slope

    @cached_property
    def _near(self) -> tuple[interpolate.CubicSpline, interpolate.CubicSpline]:
        return self._tables(_NEAR_LOGS)

    @cached_property
    def _far(self) -> tuple[interpolate.CubicSpline, interpolate.CubicSpline]:
        return self._tables(_FAR_LOGS)

    def _tables(self, log_gap: Array) -> tuple[interpolate.CubicSpline, interpolate.CubicSpline]:
        """Splines of the log density and of the typical parts, from log distances to the pole (k,)."""
        gap = np.exp(log_gap)
        arguments = self.degrees / 2 - self.product.shapes[0] + gap[:, None]
        parts = 0.5 * (special.digamma(arguments) + math.log(2))
        x = parts.sum(axis=1)
        log_density = self.product.log_density(2 * x) + math.log(2)
        return interpolate.CubicSpline(x, log_density), interpolate.CubicSpline(x, parts)
