"""The law of every diagonal entry of T given the others at their centres: proposals for many outputs.

Along the axes of the data the likelihood of a diagonal T is a product over the axes. Entries below the
diagonal are integrated by their curvature there: with l_j = T_jj², D_ij = e_ij + l_j and v_jk the prior
variance of T_jk,

    precision of T_jk = 1/v_jk + a_jk l_k − 2 G_jj,
    G_jj = ½ Σ_i (y_ij²/D_ij − c_ij)/D_ij,   a_jk = Σ_i (y_ij²/D_ij + y_ik²/D_ik − c_ij)/(D_ij D_ik),

which couples the axes weakly. So each axis is a problem of one variable, tabulated over all of its range: it
shows every phase of its axis (fitted, collapsed), and draws of all axes together hold all of their
combinations.

What they use of a likelihood are the data as rows y = T z + noise (`Examples`): with L = T Tᵀ in a frame of
the outputs, a row of targets divided by √g is y ~ N(0, L + e), e = τ/g, the sum of T z, z standard normal,
and independent noise. Rows of similar noise are put into one group, of which only the moments matter. This
approximates: what is made of it is for proposals, never for a density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.types import Array
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.missing import PartialLikelihood
from lbnn.likelihood.views import ViewLikelihood
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
class Examples:
    """Rows of targets y ~ N(0, L + diag(e)) along the axes of a frame."""

    rows: Array  # y, (rows, n)
    noise: Array  # e, (rows, n)
    count: Array  # how often a row counts in the determinant, (rows, n)

    def grouped(self, reference: float, width: float, most: int) -> Groups:
        """Rows whose e + reference lies within a factor e^width together, in at most so many groups."""
        total = self.noise.mean(axis=1) + reference
        place = np.log(total / total.min())
        bins = min(most, max(1, math.ceil(float(place.max()) / width)))
        labels = np.minimum((place / max(float(place.max()), 1e-12) * bins).astype(int), bins - 1)
        groups = [self._group(labels == label, reference) for label in np.unique(labels)]
        noise, count, moments = (np.stack(each) for each in zip(*groups, strict=True))
        return Groups(noise, count, moments)

    def log_likelihood(self, axis: int, logs: Array) -> Array:
        """Of a diagonal T along one axis, at logs (m,) of its entry, (m,): −½ Σ_i (c log D + y²/D)."""
        variance = self.noise[:, axis, None] + np.exp(2 * logs)
        square = self.rows[:, axis, None] ** 2
        return np.asarray(
            -0.5 * (self.count[:, axis, None] * np.log(variance) + square / variance).sum(axis=0)
        )

    @cached_property
    def merged(self) -> Examples:
        """Rows of about the same noise as one where there are many, Σ y² along every axis kept.

        For one axis at a time.
        """
        most = _LEVELS
        if len(self.rows) <= 2 * most or not (self.noise > 0).all():
            return self
        level = np.log(self.noise.mean(axis=1))
        cells = (level - level.min()) / max(float(np.ptp(level)), 1e-12) * most
        order = np.argsort(cells)
        first = np.flatnonzero(np.diff(np.minimum(cells[order].astype(int), most - 1), prepend=-1))

        def sums(each: Array) -> Array:
            """Sums of rows (p, n) over the rows that are merged."""
            return np.add.reduceat(each[order], first, axis=0)

        noise = np.exp(sums(np.log(self.noise)) / sums(np.ones_like(self.noise)))
        return Examples(np.sqrt(sums(self.rows**2)), noise, sums(self.count))

    def _group(self, own: Array, reference: float) -> tuple[Array, Array, Array]:
        """Noise and count (n,) and moments (n, n) of one group.

        Rows are shrunk so that y/(e + reference) stays.
        """
        inverse = 1 / (self.noise[own] + reference)
        noise = np.maximum(1 / inverse.mean(axis=0) - reference, 0.0)
        rows = self.rows[own] * inverse / inverse.mean(axis=0)
        return noise, self.count[own].sum(axis=0), rows.T @ rows


@dataclass(frozen=True)
class Groups:
    """Groups of rows of the same noise."""

    noise: Array  # e, (groups, n)
    count: Array  # (groups, n)
    moments: Array  # Σ y yᵀ, (groups, n, n)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.noise)

    @property
    def squares(self) -> Array:
        """Σ y_j², (groups, n)."""
        return np.diagonal(self.moments, axis1=1, axis2=2)


def examples_of(likelihood: object, frame: Array) -> Examples | None:
    """The rows behind a likelihood in a frame (n, n); None where it is not of this kind."""
    if isinstance(likelihood, GaussianLikelihood):
        return _of_gaussian(likelihood, frame)
    if isinstance(likelihood, ViewLikelihood | PartialLikelihood):  # weights correct what proposals miss
        return None if likelihood.surrogate is None else _of_gaussian(likelihood.surrogate, frame)
    return None


def _of_gaussian(factor: GaussianLikelihood, frame: Array) -> Examples:
    """The rows of a Gaussian likelihood in the units of L and a frame (n, n).

    Where outputs differ in noise, an axis of the frame has the average along it.
    """
    units, noise = factor.output_units, (factor.noise_variance / factor.eigenvalues)[:, None]
    rows = factor.targets / units @ frame / np.sqrt(factor.eigenvalues)[:, None]
    noise = np.broadcast_to(noise, rows.shape) if factor.units is None else noise * (units**-2 @ frame**2)
    count = np.full(rows.shape, factor.multiplicity)
    count[:, : factor.zeros] = 0.0  # the determinant of these axes was taken out
    return Examples(rows, noise, count)


@dataclass(frozen=True)
class _Table:
    """A density of one variable, linear between equidistant nodes."""

    nodes: Array
    density: Array
    below: Array  # mass left of every node

    @classmethod
    def of(cls, nodes: Array, log_density: Array) -> _Table:
        """From a log density (k,) at nodes (k,)."""
        return cls._normalised(nodes, np.exp(log_density - log_density.max()))

    @classmethod
    def _normalised(cls, nodes: Array, density: Array) -> _Table:
        """From a density (k,) at nodes (k,), up to a constant."""
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
        """Points (m,) at given probabilities (m,), and the log density there."""
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
        self._scans = law.typical_logs[:, None] + _SCAN
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
        """Log density of one axis at nodes (k,) with the entries of its row and column integrated."""
        with np.errstate(over="ignore", invalid="ignore"):  # the ends of the scan
            height = self._along(axis, nodes) - others.half_log_precisions(axis, nodes)
        return np.where(np.isnan(height), -np.inf, height)

    def _along(self, axis: int, logs: Array) -> Array:
        """Log prior and log likelihood of a diagonal T along one axis, (m,)."""
        log_prior = self.law.diagonal_marginals[axis].log_density(logs - self.law.shift)[0]
        return self.examples.merged.log_likelihood(axis, logs) + log_prior


class _Others:
    """All axes at their centres, as they enter the law of one of them."""

    def __init__(self, law: TotalFactorLaw, groups: Groups, centres: Array) -> None:
        """With the logarithms of the diagonal at centres (columns,)."""
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
