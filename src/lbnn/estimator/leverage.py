"""How far the training rows reach, and which new rows lie outside: ranges of columns, and leverage.

The variance of the function at a row x, given the noise τ and a scale of eigenvalues l_j, is in the
eigenbasis of the training Gram matrix

    v(x) = Σ_j [ R l_j + Σ_i φ_i² τ l_j/(τ + g_i l_j) + τ/p ],

the last term that of the level. A training row a is measured as a new row is, given the others: with
P_j = (l_j G + τ)⁻¹ on the contrasts, v_a = Σ_j [1/(P_j)_aa − τ]. The leverage of x is v(x)/max_a v_a. Where
new rows have the origin of the training rows, it exceeds one with probability 1/(p + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.arrays import namespace, times, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.notices import Notice
from lbnn._base.types import AnyArray, Array
from lbnn.data.projection import RANK_TOLERANCE, Projection
from lbnn.data.spectrum import Spectrum
from lbnn.estimator.notices import notice
from lbnn.posterior import Posterior

#: Leverage that is reported: the function's deviation is twice that of the farthest training row. Leverage
#: above one by itself happens to one in p + 1 rows of the same origin.
LARGE_LEVERAGE = 4.0
#: A value is reported if it is outside of the training range of its column by more than k times that range.
#: With p normal rows a new one is so with a probability below k^−(p − 1); k makes that this small.
_CHANCE = 1e-6
_MOST_NAMED = 3  # rows that a message names


@dataclass(frozen=True)
class FunctionVariance:
    """v(x) at the posterior mean of the scale, in units of the noise of the whitened outputs.

    Attributes
    ----------
    eigenvalues : (r,)
        g, of the training Gram matrix with its prior scale.
    noise : float
        τ; for noise that passes through the network its coupling ν, with l = 1: all variances scale with L.
    scales : (q,)
        Eigenvalues l of E L.
    level : float
        Variance of the level.
    """

    eigenvalues: Array
    noise: float
    scales: Array
    level: float

    @classmethod
    def of(cls, posterior: Posterior, scale_mean: Array, rows: float | None) -> FunctionVariance:
        """Of a posterior whose scale has this mean (q, q); `rows` is p, or Σw, where there is a level."""
        noise, coupling = posterior.noise.variance, posterior.noise.coupling
        scales = np.maximum(np.linalg.eigvalsh(scale_mean), 0.0)
        if coupling and not noise:
            noise, scales = coupling, np.ones_like(scales)
        level = len(scales) * noise / rows if rows else 0.0
        return cls(posterior.spectrum.eigenvalues, noise, scales, level)

    @cached_property
    def _left(self) -> Array:
        """Σ_j τ l_j/(τ + g_i l_j), (r,)."""
        total = self.noise + np.outer(self.eigenvalues, self.scales)
        share = np.divide(self.noise * self.scales, total, out=np.zeros_like(total), where=total > 0)
        return share.sum(axis=1)

    def at(self, projection: Projection) -> Array:
        """At test points, (p̂,)."""
        explained = projection.explained
        seen = times(explained**2, self._left[:, None])[:, 0]
        return projection.unexplained_diagonal * self.scales.sum() + seen + self.level

    def of_training_rows(self, spectrum: Spectrum, rows: int) -> Array:
        """v_a of the `rows` training rows, each given the others, (p,)."""
        weights = np.ones(rows) if spectrum.weights is None else spectrum.weights
        level = (rows - spectrum.examples) * weights / weights.sum()  # share of the level: w/Σw, or none
        total = self.noise + np.outer(self.eigenvalues, self.scales)
        with np.errstate(divide="ignore", invalid="ignore"):
            precision, seen = 1 / total, 1 - self.noise / total
            result, vectors = np.empty(rows), spectrum.basis.example_rows(spectrum.eigenvalues)
            for block in blocks(rows, spectrum.rank + 3 * len(self.scales)):
                squares = vectors(block) ** 2
                unseen = 1 - level[block] - squares.sum(axis=1)
                unseen[unseen <= RANK_TOLERANCE * rows] = 0.0
                own = squares @ precision
                own[unseen > 0] += unseen[unseen > 0, None] / self.noise
                result[block] = ((squares @ seen + level[block, None]) / own).sum(axis=1)  # (1 − τP)/P
        result /= weights  # rows were multiplied by √w
        return np.nan_to_num(result, nan=0.0, posinf=0.0)


@dataclass(frozen=True)
class Extent:
    """How far the training rows reach.

    Attributes
    ----------
    lowest, highest : (n_features,)
        Of each column, in the user's units; NaN where they are not known.
    rows : int
    variance : float
        The largest v_a; NaN where it is not known.
    """

    lowest: Array
    highest: Array
    rows: int
    variance: float

    @classmethod
    def unknown(cls, columns: int) -> Extent:
        """Of data that are not at hand row by row."""
        return cls(np.full(columns, np.nan), np.full(columns, np.nan), 0, np.nan)

    @classmethod
    def of(cls, X: AnyArray) -> Extent:
        """The ranges of the columns of X (p, n_features); the variance is not known yet."""
        xp = namespace(X)
        return cls(to_numpy(xp.min(X, axis=0)), to_numpy(xp.max(X, axis=0)), X.shape[0], np.nan)

    def leverage(self, variance: Array) -> Array:
        """v(x) relative to the largest of the training rows, (p̂,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(variance == 0, 0.0, variance / self.variance)

    def outside_ranges(self, X: AnyArray, names: Sequence[str] | None) -> Notice | None:
        """What to say of rows (m, n_features) far outside the range of a column, if there are any."""
        if self.rows < 2:
            return None
        xp = namespace(X)
        lowest, highest = to_numpy(xp.min(X, axis=0)), to_numpy(xp.max(X, axis=0))
        beyond = np.maximum(self.lowest - lowest, highest - self.highest)
        allowed = self._allowed
        far = np.flatnonzero(beyond > allowed)
        if not len(far):
            return None
        excess = np.zeros(X.shape[0], bool)
        for each in far:
            excess |= self._beyond(X, int(each)) > allowed[each]
        column = int((beyond - allowed).argmax())
        row = int(self._beyond(X, column).argmax())
        return notice(
            "outside_ranges",
            rows=int(excess.sum()),
            all_rows=X.shape[0],
            columns=len(far),
            row=row,
            column=column if names is None else str(names[column]),
            value=float(X[row, column]),
            lowest=float(self.lowest[column]),
            highest=float(self.highest[column]),
        )

    def _beyond(self, X: AnyArray, column: int) -> Array:
        """How far rows are outside of the range of a column, negative inside, (m,)."""
        values = to_numpy(X[:, column])
        return np.maximum(self.lowest[column] - values, values - self.highest[column])

    @property
    def _allowed(self) -> Array:
        """How far outside of its range a column may be, (n_features,)."""
        size = np.maximum(np.abs(self.lowest), np.abs(self.highest))
        return _CHANCE ** (-1 / (self.rows - 1)) * (self.highest - self.lowest) + 8 * RANK_TOLERANCE * size


def large_leverage(leverage: Array) -> Notice | None:
    """What to say of rows with large leverage (p̂,); None if there are none."""
    far = np.flatnonzero(leverage > LARGE_LEVERAGE)
    if not len(far):
        return None
    worst = far[np.argsort(-leverage[far], kind="stable")][:_MOST_NAMED]
    return notice(
        "large_leverage",
        far=len(far),
        all_rows=len(leverage),
        rows=worst.tolist(),
        leverage=leverage[worst].tolist(),
        limit=LARGE_LEVERAGE,
    )
