"""Where the scale has its mass without one example: a scan of one-output densities in log λ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from lbnn._base.types import Array, Mask
from lbnn.cross_validation.examples import LeftOut
from lbnn.engines.quadrature import QuadratureLaw, first_range

_CELL = 0.5  # of the scan in log λ: the density of one example has structure of order one
_MOST_STEPS = 256  # in a cell: where more would be needed the prior is so narrow that it decides
_MARGIN = 5.0  # by which the scan is extended where the integrand has not fallen at its ends
_FALLEN = 60.0  # e-folds below its maximum from which a tail holds no mass, as in `_base.log_integrals`
_FARTHEST = 690.0  # |log λ| that a double can hold


@dataclass(frozen=True)
class LeftOutScan:
    """Where ρ_{−a} = ρ/p(y_a | Y_{−a}, λ) has its mass, by sums at equal steps of x = log λ.

    The log density of p examples and of the narrowest layer, n units, has a curvature of at most (p + n)/2
    at a peak: with steps of one over its root no peak is more than 1/8 above the nearest point. The density
    of one example varies less: it is taken at the ends of coarser cells, and at every point only where that
    may matter.
    """

    law: QuadratureLaw
    x: Array  # points, cells × steps in each of them
    log_all: Array  # log ρ at the points, up to a constant, (cells, steps)
    corners: Array  # ends of the cells, (cells + 1,)
    log_density: Array  # log p(y_a | Y_{−a}, λ) at the corners, (rows, cells + 1)
    beyond: Mask  # points beyond the range that was asked about, (cells, steps)

    @classmethod
    def of(
        cls, law: QuadratureLaw, examples: LeftOut, count: int, range_: tuple[float, float]
    ) -> LeftOutScan:
        """A scan of `count` examples that reaches as far as any ρ_{−a} or λρ_{−a} has mass."""
        low, high = first_range(law.law, law.likelihood.turning_region())
        low, high = min(low, range_[0]) - _MARGIN, max(high, range_[1]) + _MARGIN
        extending = np.array([True, True])  # at the left, and at the right
        while extending.any():
            low, high = max(low, -_FARTHEST), min(high, _FARTHEST)
            corners = np.linspace(low, high, math.ceil((high - low) / _CELL) + 1)
            own = _log_density_at(examples, corners)
            values = law.log_density(corners) - own
            powers = np.stack([values, values + corners])
            ends = powers[:, :, [0, -1]] > powers.max(axis=2, keepdims=True) - _FALLEN
            extending = ends.any(axis=(0, 1)) & [low > -_FARTHEST, high < _FARTHEST]
            low, high = low - _MARGIN * extending[0], high + _MARGIN * extending[1]
        cell = corners[1] - corners[0]
        steps = math.ceil(cell * math.sqrt(0.5 * (count + min(law.prior.widths))))
        x = corners[:-1, None] + cell * (np.arange(min(steps, _MOST_STEPS)) + 0.5) / min(steps, _MOST_STEPS)
        log_all = law.log_density(x.ravel()).reshape(x.shape)
        return cls(law, x, log_all, corners, own, (x < range_[0]) | (x > range_[1]))

    @property
    def log_share_of_all(self) -> float:
        """Log share of ρ beyond the range."""
        return float(special.logsumexp(self.log_all, b=self.beyond) - special.logsumexp(self.log_all))

    def log_shares_beyond(self, examples: LeftOut, threshold: float) -> Array:
        """Log shares of ρ_{−a} and λρ_{−a} beyond the range, (2, rows).

        Where upper bounds are below the threshold they are returned instead.
        """
        left, right = -self.log_density[:, :-1], -self.log_density[:, 1:]
        change = np.abs(right - left)
        result = np.stack(
            [
                self._log_share(np.maximum(left, right) + change, np.minimum(left, right) - change, power)
                for power in (0, 1)
            ]
        )
        for a in np.flatnonzero(~(result.max(axis=0) < threshold)):
            own = -_log_density_at(examples.take(slice(a, a + 1)), self.x.ravel()).reshape(self.x.shape)
            for power in (0, 1):
                terms = self.log_all + own + power * self.x
                result[power, a] = special.logsumexp(terms, b=self.beyond) - special.logsumexp(terms)
        return result

    def _log_share(self, above: Array, below: Array, power: int) -> Array:
        """Upper bound (rows,) of the log share of λ^power ρ_{−a} beyond the range.

        From bounds of −log p(y_a | Y_{−a}, λ) in the cells, (rows, cells) each.
        """
        terms = self.log_all + power * self.x
        with np.errstate(divide="ignore"):  # cells without points beyond, or within
            there = special.logsumexp(terms, b=self.beyond, axis=1)
            here = special.logsumexp(terms, b=~self.beyond, axis=1)
        return special.logsumexp(above + there, axis=1) - special.logsumexp(below + here, axis=1)


def _log_density_at(examples: LeftOut, x: Array) -> Array:
    """log p(y_a | Y_{−a}, λ) at x = log λ (m,), (rows, m)."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return examples.log_density(np.exp(x)[:, None], np.ones((len(x), 1, 1)))
