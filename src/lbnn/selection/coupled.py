"""The data of the search where noise passes through the network.

Whitened targets are MN(0, I + κG, L): the hyperparameters h = (log u, log κ) and their ranges are those of
independent noise (see `data`), and at L = I, infinite width, the two are one model. With K = I + κG and the
scatter S = Y_wᵀ K⁻¹ Y_w,

    f(h; L) = −½ tr L⁻¹S − ½ p log det L − ½ n_d log det K − (p/2) Σ_j log u_j + constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lbnn._base.types import Array
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.root import Scatter
from lbnn.noise.noise import Noise
from lbnn.selection.data import EvidenceData
from lbnn.selection.parameters import NOISE_RANGE

_ROUNDING = 1e-16  # relative variance that may be rounding of targets without noise


@dataclass(frozen=True)
class CoupledData(EvidenceData):
    """Centred data under coupled noise."""

    def exists(self, per_output: bool) -> bool:
        """Whether the targets determine an invertible L, and the evidence a noise that is not zero.

        For the first every combination of the targets must vary. For the second: with targets of rank q
        outside the range of G, of rank r, the evidence at the best L goes as κ^{½ [p (n_d − q) − n_d r]} for
        large κ, which must not grow. Variances count relative to the largest: in all as the smallest noise of
        the search does, outside if they are more than rounding. With units for each output, outputs are given
        the same variance first.
        """
        rows = np.concatenate([self.spectrum.targets, self.outside])
        lengths = np.linalg.norm(rows, axis=0)
        if not self.spectrum.rank or not lengths.all():
            return False
        units = lengths if per_output else np.ones_like(lengths)
        largest = float(np.linalg.norm(rows / units, 2))
        inside = _rank(rows / units, NOISE_RANGE[0] * largest**2)
        outside = _rank(self.outside / units, _ROUNDING * largest**2)
        growth = self.spectrum.examples * (self.outputs - outside) - self.outputs * self.spectrum.rank
        return inside == self.outputs and growth <= 0

    def noise_at(self, h: Array) -> Noise:
        """Noise of the covariance L in whitened units, at h (n_d + 1,)."""
        return Noise.coupled(1.0)

    def likelihood(self, h: Array) -> GaussianLikelihood:
        """log p(Y_w | L) at h (n_d + 1,), from n_d rows."""
        return self.noise_at(h).likelihood(self.whitened(h).scaled(math.exp(h[-1])))

    def slopes(self, h: Array, roots: Array) -> Array:
        """∂f/∂h at scales F Fᵀ with roots F (m, n_d, k), (m, n_d + 1).

        ∂S/∂log u_j halves row and column j, and ∂S/∂log κ = −Y_wᵀ K⁻¹ (κG) K⁻¹ Y_w.
        """
        data, own = self.whitened(h).scaled(math.exp(h[-1])), self.likelihood(h).of_root
        assert isinstance(own, Scatter)
        variance = self.noise_at(h).eigenvalues(data)
        seen = 1 - 1 / variance
        change = replace(own, root=data.targets * np.sqrt(seen / variance)[:, None])
        by_scale = -0.5 * (change.target_slopes(roots).sum(axis=1) + self.outputs * seen.sum())
        return np.column_stack([-0.5 * own.target_slopes(roots) - 0.5 * data.examples, by_scale])


def _rank(rows: Array, smallest: float) -> int:
    """Number of combinations of the columns of (m, n_d) with a sum of squares above the smallest."""
    return int((np.linalg.svd(rows, compute_uv=False) ** 2 > smallest).sum())


def coupled(data: EvidenceData) -> CoupledData:
    """The same data; for the engines a problem without independent noise."""
    return CoupledData(data.spectrum, data.outside, 0.0)
