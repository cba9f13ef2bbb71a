"""Moments of the gains of the layers given their product, for one output.

With one output λ = Π_ℓ t_ℓ², t_ℓ² = σ_ℓ² χ²(n_{ℓ−1})/n_{ℓ−1} for ℓ = 2, ..., d, and the data depend on λ
alone. Weighting a χ²(n) by its k-th power gives χ²(n + 2k), so that moments given λ are ratios of two
densities of log λ. Logs of one gain, or of two neighbours together, have the density p(y) π_rest(x − y) given
x = log λ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from lbnn._base.log_integrals import integrate
from lbnn._base.types import Array, IndexArray
from lbnn.scale.gamma_product import GammaProduct

_LEAST_WEIGHT = 1e-20  # of a node whose conditional moments are worth an integral


class Gains:
    """Conditional moments of t_2², ..., t_d² at nodes x = log λ (m,) of weights (m,)."""

    def __init__(self, widths: Sequence[int], variances: Sequence[float], x: Array, weights: Array) -> None:
        self.widths, self.variances, self.x, self.weights = tuple(widths), tuple(variances), x, weights
        self.law = GammaProduct(widths, math.prod(variances))
        self.log_density = self.law.log_density(x)

    def moment(self, powers: Sequence[int]) -> Array:
        """E[Π_ℓ t_ℓ^{2 k_ℓ} | λ] at every node, for one power k_ℓ per layer 2, ..., d."""
        if not any(powers):
            return np.ones_like(self.x)
        raised = [width + 2 * power for width, power in zip(self.widths, powers, strict=True)]
        growth = math.prod(new / old for new, old in zip(raised, self.widths, strict=True))
        weighted = GammaProduct(raised, math.prod(self.variances) * growth)
        log_size = sum(
            power * math.log(2 * variance / width)
            + float(special.gammaln(width / 2 + power) - special.gammaln(width / 2))
            for width, variance, power in zip(self.widths, self.variances, powers, strict=True)
        )
        return np.exp(log_size + weighted.log_density(self.x) - self.log_density)

    def log_moments(self, layers: Sequence[int]) -> tuple[Array, Array]:
        """E[y | λ] and E[y² | λ] of y = Σ log t_ℓ² over some of the layers (numbered from 0), (m,) each."""
        if len(layers) == len(self.widths):
            return self.x, self.x**2
        chosen = self._law_of(layers)
        rest = self._law_of([layer for layer in range(len(self.widths)) if layer not in layers])
        first, second = np.zeros_like(self.x), np.zeros_like(self.x)
        kept = self.weights > _LEAST_WEIGHT
        first[kept], second[kept] = _split_moments(chosen, rest, self.x[kept])
        return first, second

    def _law_of(self, layers: Sequence[int]) -> GammaProduct:
        return GammaProduct(
            [self.widths[layer] for layer in layers], math.prod(self.variances[layer] for layer in layers)
        )


def _split_moments(chosen: GammaProduct, rest: GammaProduct, totals: Array) -> tuple[Array, Array]:
    """E y and E y² for the densities ∝ p_chosen(y) p_rest(total − y), one for each total (m,)."""

    def rough(y: Array, which: IndexArray) -> Array:
        left = totals[which, None] - y
        return (chosen.saddle_log_density(y.ravel()) + rest.saddle_log_density(left.ravel())).reshape(y.shape)

    def exact(y: Array, which: IndexArray) -> Array:
        left = totals[which, None] - y
        return (chosen.log_density(y.ravel()) + rest.log_density(left.ravel())).reshape(y.shape)

    ends = np.sort([np.full(len(totals), chosen.location(0.0)), totals - rest.location(0.0)], axis=0)
    found = integrate(exact, rough, ends[0] - 1, ends[1] + 1)
    assert found.converged.all(), "the density of a gain given the product is smooth"
    moments = [[nodes.weights @ nodes.x, nodes.weights @ nodes.x**2] for nodes in found.nodes if nodes]
    first, second = np.array(moments).reshape(-1, 2).T
    return first, second
