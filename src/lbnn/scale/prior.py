"""The prior ϖ of the scale L = W_d ⋯ W_2 W_2ᵀ ⋯ W_dᵀ: the Bartlett product.

W_ℓ is Gaussian, so W_d = T_d Q_d (lower triangular times orthonormal rows) and Q_d W_{d−1} is Gaussian again:

    L = T Tᵀ,   T = T_d ⋯ T_2,
    (T_ℓ)_ii² ~ σ_ℓ² χ²(n_{ℓ−1} − i + 1)/n_{ℓ−1},   (T_ℓ)_ij ~ N(0, σ_ℓ²/n_{ℓ−1}) for i > j,

independent over ℓ. The cost does not depend on the widths.

Where a layer is narrower than the outputs, the decomposition starts at the narrowest layer, of r units. Below
it rows go on as above. Above it columns take the place of rows, W_{m+1} = Q R, and W_{m+2} Q is Gaussian
again: T_d is (n_d, r) and lower trapezoidal, all other factors are (r, r). So this is the product of a
network with the narrowest layer last: the order of the hidden widths does not change the law of L (weak
commutation; Ipsen and Kieburg, 2014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import stats

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.scale.bartlett import BartlettCoordinates, FactorShape, product
from lbnn.scale.gamma_product import GammaProduct


@dataclass(frozen=True)
class ScalePrior:
    """Law of the scale matrix L of a network with given hidden widths.

    Attributes
    ----------
    widths : tuple of int
        n_1..n_{d−1}; () makes L the identity.
    outputs : int
        n_d.
    layer_variances : tuple of float
        Prior variances σ_2²..σ_d² of the layers in L, ones by default. (The first layer's variance multiplies
        the Gram matrix: W_1 is not part of L.)

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> prior = lbnn.Network(widths=(50, 50)).scale_prior(outputs=2)
    >>> prior.mean
    array([[1., 0.],
           [0., 1.]])
    >>> prior.sample(1000, seed=0).shape
    (1000, 2, 2)
    """

    widths: tuple[int, ...]
    outputs: int
    layer_variances: tuple[float, ...] = ()

    @property
    def variance(self) -> float:
        """Π_ℓ σ_ℓ² over the layers in L."""
        return math.prod(self.layer_variances)

    @property
    def mean(self) -> Array:
        """E L = variance · I, (n_d, n_d)."""
        return self.variance * np.eye(self.outputs)

    @property
    def inverse_mean_exists(self) -> bool:
        """Whether E L⁻¹ is finite: a product of inverse Wishart means, each needing n_ℓ ≥ n_d + 2."""
        return all(width >= self.outputs + 2 for width in self.widths)

    @property
    def exponential_rate(self) -> float:
        """Supremum of c with E exp(½ c l_max(L)) finite: Wishart tails at depth two, heavier ones deeper."""
        if not self.widths:
            return math.inf
        return self.widths[0] / self.variance if len(self.widths) == 1 else 0.0

    @property
    def full_rank(self) -> bool:
        """Whether L is invertible: no hidden layer is narrower than the output."""
        return all(width >= self.outputs for width in self.widths)

    @cached_property
    def log_scale_law(self) -> GammaProduct:
        """Law of log λ for one output and depth two or more."""
        return _gamma_product(self.widths, self.variance)

    @property
    def narrowest(self) -> int:
        """Place in `widths` of the layer that comes last in `coordinates`: the last one if none is narrow."""
        last = len(self.widths) - 1
        return last if self.full_rank else last - int(np.argmin(self.widths[::-1]))

    @cached_property
    def coordinates(self) -> BartlettCoordinates:
        """Standard normal coordinates of T_d (n_d, r), and of the other factors, (r, r)."""
        return self._tilted_coordinates(0, 0)

    def _tilted_coordinates(self, first: int, fewer: int) -> BartlettCoordinates:
        """Coordinates for ϖ weighted by det(C)^{−fewer/2}, C the leading block of L of size `first`.

        The weight takes `fewer` degrees of freedom off the leading diagonal entries of every factor.
        """
        shapes, rows = [], self.outputs
        variances = self.layer_variances or (1.0,) * len(self.widths)
        place = self.narrowest
        widths = (*self.widths[:place], *self.widths[place + 1 :], *self.widths[place : place + 1])
        for width, variance in zip(reversed(widths), reversed(variances), strict=True):
            columns = min(rows, width)
            degrees = tuple(float(width - i - (fewer if i < first else 0)) for i in range(columns))
            shapes.append(FactorShape(rows, columns, width, variance, degrees))
            rows = columns
        return BartlettCoordinates(tuple(shapes))

    def _log_negative_moment(self, first: int, fewer: int) -> float:
        """log E det(C)^{−fewer/2}, C the leading block of L of size `first`: a product of χ moments."""
        total = 0.0
        variances = self.layer_variances or (1.0,) * len(self.widths)
        for width, variance in zip(self.widths, variances, strict=True):
            for i in range(first):
                half = (width - i) / 2
                total += math.lgamma(half - fewer / 2) - math.lgamma(half)
                total -= fewer / 2 * math.log(2 * variance / width)
        return total

    def sample(self, size: int, seed: Any) -> Array:
        """Draw independent scale matrices.

        Parameters
        ----------
        size : int
            Number of draws.
        seed : int or numpy.random.Generator

        Returns
        -------
        (size, n_d, n_d) array
        """
        generator = check.generator(seed)
        count = check.positive_integer(size, "size")
        u = generator.standard_normal((count, self.coordinates.dimension))
        factor = product(self.coordinates.factors(u) if self.widths else [np.stack([self.mean] * count)])
        assert factor is not None
        return factor @ factor.swapaxes(1, 2)

    def log_density(self, L: Any) -> Array | float:
        """Log density of ϖ with respect to Lebesgue measure on symmetric matrices, where a form is known.

        Known for one output at any depth (Gamma, Bessel K, Meijer G) and for several outputs at depth two
        (Wishart, n_1 ≥ n_d).

        Parameters
        ----------
        L : (n_d, n_d) or (..., n_d, n_d) array
            For one output also a number or an array of numbers λ.

        Returns
        -------
        float or array over the leading axes; −inf outside the positive definite matrices.
        """
        array = check.real_array(L, "L")
        if not self.widths:
            raise ValueError("at depth one L is the identity and has no density, got widths=()")
        if self.outputs == 1:
            return self._log_density_of_number(array)
        return self._log_density_of_wishart(array)

    def _log_density_of_number(self, array: Array) -> Array | float:
        """Of one output: at scales (...,) or (..., 1, 1)."""
        values = array[..., 0, 0] if array.shape[-2:] == (1, 1) else array
        result = np.full(values.shape, -np.inf)
        positive = values > 0
        x = np.log(values[positive])
        result[positive] = self.log_scale_law.log_density(x) - x
        return float(result) if result.ndim == 0 else result

    def _log_density_of_wishart(self, array: Array) -> Array | float:
        """At depth two: at scales (..., n_d, n_d)."""
        if len(self.widths) > 1 or not self.full_rank:
            raise ValueError(
                "the density of L is known in closed form for one output, or at depth two with n_1 ≥ n_d, "
                f"got widths={self.widths} and outputs={self.outputs}"
            )
        if array.ndim < 2 or array.shape[-2:] != self.mean.shape:
            raise ValueError(
                f"L must have shape (..., {self.outputs}, {self.outputs}), got L.shape={array.shape}"
            )
        law = stats.wishart(self.widths[0], self.mean / self.widths[0])
        return _log_density_on_cone(law.logpdf, array)


@lru_cache(maxsize=64)
def _gamma_product(widths: tuple[int, ...], variance: float) -> GammaProduct:
    """One law for all data sets and temperatures: its tables are made once."""
    return GammaProduct(widths, variance)


def _log_density_on_cone(log_density: Any, array: Array) -> Array | float:
    """Evaluate a density of SciPy's on (..., n, n), −inf outside the positive definite matrices."""
    matrices = array.reshape(-1, *array.shape[-2:])
    inside = np.linalg.eigvalsh(matrices)[:, 0] > 0
    result = np.full(len(matrices), -np.inf)
    if inside.any():
        result[inside] = log_density(np.moveaxis(matrices[inside], 0, -1))
    shaped = result.reshape(array.shape[:-2])
    return float(shaped) if shaped.ndim == 0 else shaped
