"""The law of every diagonal entry of T given the others at their centres: proposals for many outputs.

Along the axes of the data the likelihood of a diagonal T is a product over the axes. Entries below the
diagonal are integrated by their curvature there: with l_j = T_jj², D_ij = e_ij + l_j and v_jk the prior
variance of T_jk,

    precision of T_jk = 1/v_jk + a_jk l_k − 2 G_jj,
    G_jj = ½ Σ_i (y_ij²/D_ij − c_ij)/D_ij,   a_jk = Σ_i (y_ij²/D_ij + y_ik²/D_ik − c_ij)/(D_ij D_ik),

which couples the axes weakly. So each axis is a problem of one variable, tabulated over all of its range: it
shows every phase of its axis (fitted, collapsed), and draws of all axes together hold all of their
combinations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array
from lbnn.engines.examples import Examples, Groups
from lbnn.scale.total_factor import TotalFactorLaw

_SCAN = np.arange(-30.0, 15.0, 0.125)  # logs of a diagonal entry, relative to the prior's typical one
_NODES = 161  # of a table
_DEPTH = 35.0  # nats below its peak at which a table ends
_ROUNDS = 8
_SETTLED = 0.2  # change of a centre, in standard deviations, at which rounds end
FLATTEST = 0.25  # precision that an entry keeps at least, in units of the prior's
_LEVELS = 128  # of noise, by which very many examples are told apart along an axis
_GROUP_WIDTH, _MOST_GROUPS = 0.15, 32
_TAIL_SHARE = 0.3  # draws of which one axis or other comes from the flattened law


@dataclass(frozen=True)
class _Table:
    """A density of one variable, linear between equidistant nodes."""

    nodes: Array
    density: Array
    below: Array  # mass left of every node

    @classmethod
    def of(cls, nodes: Array, log_density: Array) -> _Table:
        return cls._normalised(nodes, np.exp(log_density - log_density.max()))

    @classmethod
    def _normalised(cls, nodes: Array, density: Array) -> _Table:
        below = np.append(0.0, np.cumsum(density[1:] + density[:-1])) * 0.5 * (nodes[1] - nodes[0])
        return cls(nodes, density / below[-1], below / below[-1])

    @property
    def mean(self) -> float:
        return float(self.nodes @ self.density / self.density.sum())

    @property
    def deviation(self) -> float:
        square = (self.nodes - self.mean) ** 2 @ self.density / self.density.sum()
        return float(np.sqrt(square))

    def with_tails(self, share: float) -> _Table:
        """A share of the draws from the root of the density, which is flatter."""
        flat = self._normalised(self.nodes, np.sqrt(self.density))
        return self._normalised(self.nodes, (1 - share) * self.density + share * flat.density)

    def quantile(self, uniform: Array) -> tuple[Array, Array]:
        """Points at given probabilities, and the log density there."""
        cell = np.clip(np.searchsorted(self.below, uniform) - 1, 0, len(self.nodes) - 2)
        left, right = self.density[cell], self.density[cell + 1]
        slope = (right - left) / (self.nodes[1] - self.nodes[0])
        rest = uniform - self.below[cell]
        height = np.sqrt(np.maximum(left**2 + 2 * slope * rest, np.finfo(float).tiny))
        return self.nodes[cell] + 2 * rest / (left + height), np.log(height)


class AxisLaws:
    """Laws of the logs of the diagonal of T, one for each axis, independent of each other."""

    def __init__(self, law: TotalFactorLaw, examples: Examples) -> None:
        self.law, self.examples = law, examples
        self.merged = examples if len(examples.rows) <= 2 * _LEVELS else examples.merged(_LEVELS)
        typical = 0.5 * np.log(np.array([each.degrees for each in law.laws])).sum(axis=1)
        self._scans = (law.shift + typical)[:, None] + _SCAN
        own = [self._along(axis, scan) for axis, scan in enumerate(self._scans)]
        self.centres = np.array([scan[np.argmax(h)] for scan, h in zip(self._scans, own, strict=True)])
        tables = self._settle()
        share = min(0.1, _TAIL_SHARE / law.rows)
        self.tables = [table.with_tails(share) for table in tables]

    @property
    def reference(self) -> float:
        """A squared diagonal entry in the middle of all."""
        return float(np.exp(2 * np.median(self.centres)))

    def draw(self, uniform: Array) -> tuple[Array, Array]:
        """Logs of the diagonal (m, n) from uniforms, and their log density (m,)."""
        both = [table.quantile(column) for table, column in zip(self.tables, uniform.T, strict=True)]
        return np.stack([logs for logs, _ in both], axis=1), np.sum([log for _, log in both], axis=0)

    def _settle(self) -> list[_Table]:
        """Tables at centres that agree with them."""
        tables: list[_Table] = []
        for _ in range(_ROUNDS):
            groups = self.examples.grouped(self.reference, _GROUP_WIDTH, _MOST_GROUPS)
            others = _Others(self.law, groups, self.centres)
            tables = [self._tabulate(axis, others) for axis in range(self.law.columns)]
            means = np.array([table.mean for table in tables])
            moved = np.abs(means - self.centres) / np.array([table.deviation for table in tables])
            self.centres = means
            if moved.max() < _SETTLED:
                break
        return tables

    def _tabulate(self, axis: int, others: _Others) -> _Table:
        """The law of one axis over the range in which it has mass."""
        nodes = self._scans[axis]
        for _ in range(3):
            height = self._height(axis, nodes, others)
            seen = np.flatnonzero(height > height.max() - _DEPTH)
            first, last = max(seen[0] - 1, 0), min(seen[-1] + 1, len(nodes) - 1)
            if 2 * (last - first) >= _NODES:
                return _Table.of(nodes[first : last + 1], height[first : last + 1])
            nodes = np.linspace(nodes[first], nodes[last], _NODES)
        return _Table.of(nodes, self._height(axis, nodes, others))

    def _height(self, axis: int, nodes: Array, others: _Others) -> Array:
        """Log density of one axis with the entries of its row and column integrated."""
        with np.errstate(over="ignore", invalid="ignore"):  # the ends of the scan
            height = self._along(axis, nodes) - others.half_log_precisions(axis, nodes)
        return np.where(np.isnan(height), -np.inf, height)

    def _along(self, axis: int, logs: Array) -> Array:
        """Log prior and log likelihood of a diagonal T along one axis, (m,)."""
        noise, count, rows = (
            each[:, axis, None] for each in (self.merged.noise, self.merged.count, self.merged.rows)
        )
        variance, square = noise + np.exp(2 * logs), rows**2
        log_likelihood = -0.5 * (count * np.log(variance) + square / variance).sum(axis=0)
        return log_likelihood + self.law.laws[axis].log_density(logs - self.law.shift)[0]


class _Others:
    """All axes at their centres, as the law of one of them sees the others."""

    def __init__(self, law: TotalFactorLaw, groups: Groups, centres: Array) -> None:
        self.law, self.groups = law, groups
        self.squares = np.zeros(law.rows)  # rows behind a bottleneck have no diagonal entry
        self.squares[: law.columns] = np.exp(2 * centres)
        self.weights, self.excess, self.slope = _expansion(
            groups.noise, groups.count, groups.squares, self.squares
        )
        self.above, self.under = law.typical_loads(centres[None])

    def half_log_precisions(self, axis: int, logs: Array) -> Array:
        """½ Σ log of the precisions, in units of the prior's, of the row and the column of one axis, (m,)."""
        groups = self.groups
        noise, count, squares = (each[:, axis, None] for each in (groups.noise, groups.count, groups.squares))
        own = np.exp(2 * logs)
        weights, excess, slope = _expansion(noise, count, squares, own)
        curvature = weights.T @ self.excess + excess.T @ self.weights  # a_jk, (m, n)
        above, under = self.law.typical_loads_along(axis, logs)
        first = slice(self.law.columns)
        row = 1 + above @ self.under[0].T * (curvature[:, first] * self.squares[first] - 2 * slope[:, None])
        column = 1 + under @ self.above[0].T * (curvature * own[:, None] - 2 * self.slope)
        both = np.concatenate([row[:, :axis], column[:, axis + 1 :]], axis=1)
        return 0.5 * np.log(np.maximum(both, FLATTEST)).sum(axis=1)


def _expansion(noise: Array, count: Array, squares: Array, scale: Array) -> tuple[Array, Array, Array]:
    """1/D and y²/D² − c/(2D) (groups, m), whose products sum to a_jk, and G_jj (m,)."""
    weights = 1 / (noise + scale)
    fit = squares * weights**2
    return weights, fit - 0.5 * count * weights, 0.5 * (fit - count * weights).sum(axis=0)
