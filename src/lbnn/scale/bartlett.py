"""Unconstrained coordinates of the Bartlett factors in which the prior is standard normal.

Below the diagonal T_ℓ is Gaussian already; a diagonal entry is a χ variable, χ = F⁻¹(Φ(u)) with u ~ N(0, 1).
In these coordinates the tails of the prior are those of a Gaussian: in log-diagonal coordinates the left
tail would be exponential, beyond any Gaussian proposal. Data can still pull a diagonal entry far into its
prior tail, where products of small factors would lie on rings: beyond |u| = 6 the map goes on with log χ
linear in u, and the prior density there is that of log χ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise

import numpy as np
from scipy import special

from lbnn._base.types import Array, Mask

_TABLE_END = 6.0  # Φ(−6) = 1e-9
_FARTHEST_DOWN, _FARTHEST_UP, _FARTHEST_BELOW = 60.0, 1000.0, 1e8  # of diagonal and other coordinates
_TABLE_DENSITY = 32  # points per unit of u: interpolates log χ to 5e-10 or better


@dataclass(frozen=True)
class FactorShape:
    """One factor T_ℓ: lower trapezoidal, for a layer of input width n_{ℓ−1} and prior variance σ_ℓ²."""

    rows: int
    columns: int
    width: int
    variance: float
    degrees: tuple[float, ...]  # of freedom of the χ variables on the diagonal


class BartlettCoordinates:
    """The map u ↦ (T_d, ..., T_2) ↦ T = T_d ⋯ T_2, with its derivative, for batches of u (m, dimension)."""

    def __init__(self, shapes: tuple[FactorShape, ...]) -> None:
        self.shapes = shapes
        self.blocks = [_FactorBlock(shape) for shape in shapes]
        self.dimension = sum(block.size for block in self.blocks)

    @property
    def square(self) -> bool:
        """Whether all factors are square: no layer is narrower than the outputs."""
        return all(shape.rows == shape.columns for shape in self.shapes)

    def factors(self, u: Array) -> list[Array]:
        """T_d, ..., T_2, each (m, rows, columns)."""
        return self.factors_and_slopes(u)[0]

    def factors_and_slopes(self, u: Array) -> tuple[list[Array], list[Array]]:
        """The factors, and the derivatives of the logs of their diagonals in u, each (m, columns)."""
        ends = [0, *accumulate(block.size for block in self.blocks)]
        pieces = [u[:, start:end] for start, end in pairwise(ends)]
        both = [block.factor_and_slope(piece) for block, piece in zip(self.blocks, pieces, strict=True)]
        return [factor for factor, _ in both], [slope for _, slope in both]

    def locate(self, factors: list[Array]) -> Array:
        """u of given factors with positive diagonals, (m, dimension): the inverse of `factors`."""
        return np.concatenate(
            [block.locate(factor) for block, factor in zip(self.blocks, factors, strict=True)], axis=1
        )

    def plausible(self, u: Array) -> Mask:
        """Where neither factors nor their inverses overflow, (m,): otherwise a trajectory has diverged."""
        if u.min(initial=0.0) > -_FARTHEST_DOWN and u.max(initial=0.0) < _FARTHEST_DOWN:
            return np.ones(len(u), bool)
        fine: Mask = np.all(np.abs(u) < _FARTHEST_BELOW, axis=1)
        start = 0
        for block in self.blocks:
            diagonal = u[:, start : start + block.columns]
            fine &= ((diagonal > -_FARTHEST_DOWN) & (diagonal < _FARTHEST_UP)).all(axis=1)
            start += block.size
        return fine

    def log_prior(self, u: Array) -> tuple[Array, Array]:
        """Log prior density of u up to a constant (m,), and its gradient: normal, far out that of log χ."""
        value, gradient = -0.5 * (u**2).sum(axis=1), -u
        self.add_tails(u, value, gradient)
        return value, gradient

    def add_tails(self, u: Array, value: Array, gradient: Array | None = None) -> None:
        """Add to value (m,), in place, what the prior has beyond the normal density of u (m, k)."""
        start = 0
        for block in self.blocks:
            columns = slice(start, start + block.columns)
            if (np.abs(u[:, columns]) > _TABLE_END).any():
                correction, slope = block.tail_correction(u[:, columns])
                value += correction
                if gradient is not None:
                    gradient[:, columns] += slope
            start += block.size

    def pull_back(self, factors: list[Array], slopes: list[Array], gradient: Array) -> Array:
        """Gradient in u (m, dimension) from the gradient in T (m, n_d, columns of T_2).

        ∂/∂T_ℓ = (T_d ⋯ T_{ℓ+1})ᵀ (∂/∂T) (T_{ℓ−1} ⋯ T_2)ᵀ, one layer after the other.
        """
        behind = list(accumulate(factors[:0:-1], lambda product, factor: factor @ product))[::-1]
        pieces = []
        for index, (block, factor, slope) in enumerate(zip(self.blocks, factors, slopes, strict=True)):
            last = index == len(behind)
            local = gradient if last else gradient @ behind[index].swapaxes(1, 2)
            pieces.append(block.pull_back(factor, slope, local))
            if not last:
                gradient = factor.swapaxes(1, 2) @ gradient
        return np.concatenate(pieces, axis=1)


class _FactorBlock:
    """Coordinates of one lower trapezoidal factor: first its diagonal, then what is below it."""

    def __init__(self, shape: FactorShape) -> None:
        self.rows, self.columns, self.degrees = shape.rows, shape.columns, shape.degrees
        self.root = math.sqrt(shape.variance / shape.width)
        self.diagonal = np.arange(shape.columns)
        self.below = np.tril_indices(shape.rows, -1, shape.columns)
        self.size = shape.columns + len(self.below[0])
        self.on_diagonal = self.diagonal * (shape.columns + 1)  # places in a factor, row by row
        below = np.ravel_multi_index(self.below, (shape.rows, shape.columns))
        self.entries = np.concatenate([self.on_diagonal, below])

    def factor_and_slope(self, piece: Array) -> tuple[Array, Array]:
        """Factors (m, rows, columns) at coordinates (m, size), and ∂ log diagonal/∂u (m, columns)."""
        log_chi, slope = _ChiTable.of(self.degrees).log_chi(piece[:, : self.columns])
        factor = np.zeros((len(piece), self.rows, self.columns))
        factor[:, self.diagonal, self.diagonal] = self.root * np.exp(log_chi)
        factor[:, *self.below] = self.root * piece[:, self.columns :]
        return factor, slope

    def locate(self, factor: Array) -> Array:
        """Coordinates (m, size) of factors (m, rows, columns)."""
        log_chi = np.log(factor[:, self.diagonal, self.diagonal] / self.root)
        diagonal = _ChiTable.of(self.degrees).normal(log_chi)
        return np.concatenate([diagonal, factor[:, *self.below] / self.root], axis=1)

    def tail_correction(self, diagonal: Array) -> tuple[Array, Array]:
        """Log density of log χ less −½u² beyond the table, summed over the diagonal (m,), and its slope."""
        end = np.clip(diagonal, -_TABLE_END, _TABLE_END)
        beyond = diagonal != end
        if not beyond.any():
            return np.zeros(len(diagonal)), np.zeros_like(diagonal)
        table, degrees = _ChiTable.of(self.degrees), np.array(self.degrees, float)
        log_chi, slope = table.log_chi(diagonal)
        end_log_chi, _ = table.log_chi(end)
        fall = degrees * (log_chi - end_log_chi) - (np.exp(2 * log_chi) - np.exp(2 * end_log_chi)) / 2
        correction = np.where(beyond, fall + (diagonal**2 - end**2) / 2, 0.0)
        change = np.where(beyond, (degrees - np.exp(2 * log_chi)) * slope + diagonal, 0.0)
        return correction.sum(axis=1), change

    def pull_back(self, factor: Array, slope: Array, gradient: Array) -> Array:
        """Gradient in the coordinates (m, size) from that in the factor (m, rows, columns)."""
        flat = len(gradient), self.rows * self.columns
        entries = gradient.reshape(flat).take(self.entries, axis=1)
        diagonal = factor.reshape(flat).take(self.on_diagonal, axis=1)
        along = entries[:, : self.columns] * diagonal * slope
        return np.concatenate([along, self.root * entries[:, self.columns :]], axis=1)


def product(factors: list[Array]) -> Array | None:
    """Matrix product (m, a, z) of a list of batches (m, a, b), (m, b, c), ...; None for an empty list."""
    total = None
    for factor in factors:
        total = factor if total is None else total @ factor
    return total


class _ChiTable:
    """log χ_k as a function of u, one row for each number of degrees k: cubic Hermite interpolation."""

    def __init__(self, degrees: tuple[float, ...]) -> None:
        column = np.array(degrees, float)[:, None]
        self.grid = (
            np.arange(-int(_TABLE_END) * _TABLE_DENSITY, int(_TABLE_END) * _TABLE_DENSITY + 1)
            / _TABLE_DENSITY
        )
        self.values = _log_chi_quantile(column, self.grid)
        self.slopes = _log_chi_slope(column, self.grid, self.values)

    @staticmethod
    @lru_cache(maxsize=64)
    def of(degrees: tuple[float, ...]) -> _ChiTable:
        return _ChiTable(degrees)

    @cached_property
    def _cells(self) -> tuple[Array, ...]:
        """Of each cell, row after row: left value, rise and bends at both ends; and where each row begins."""
        left, rise, step = self.values[:, :-1], np.diff(self.values), 1 / _TABLE_DENSITY
        bend_left, bend_right = self.slopes[:, :-1] * step - rise, rise - self.slopes[:, 1:] * step
        cells = (each.ravel() for each in (left, rise, bend_left, bend_right))
        return *cells, np.arange(len(left)) * left.shape[1]

    def log_chi(self, u: Array) -> tuple[Array, Array]:
        """Log χ and its derivative in u, both of the shape of u, (m, columns)."""
        *cells, starts = self._cells
        inside = np.clip(u, -_TABLE_END, _TABLE_END)
        position = (inside + _TABLE_END) * _TABLE_DENSITY
        cell = np.clip(position.astype(int), 0, len(self.grid) - 2)
        t = position - cell
        index = (cell + starts).ravel()
        left, rise, bend_left, bend_right = (each.take(index).reshape(u.shape) for each in cells)
        rest, three = 1 - t, 3 * t
        value = left + t * (rise + rest * (rest * bend_left + t * bend_right))
        slope = rise + rest * (1 - three) * bend_left + t * (2 - three) * bend_right
        slope = _TABLE_DENSITY * slope
        return value + slope * (u - inside), slope

    def normal(self, log_chi: Array) -> Array:
        """u at given log χ, both (m, columns): Newton's method from the linear interpolation of the table.

        NaN where log χ is not finite.
        """
        known = np.isfinite(log_chi)
        if not known.all():
            return np.where(known, self.normal(np.where(known, log_chi, self.values[:, 0])), np.nan)
        u = np.empty_like(log_chi)
        for column, values in enumerate(self.values):
            u[:, column] = np.interp(log_chi[:, column], values, self.grid)
        for _ in range(4):
            value, slope = self.log_chi(u)
            u = u + (log_chi - value) / slope
        return u


def _log_chi_quantile(degrees: Array, u: Array) -> Array:
    """½ log of the χ² quantile at probability Φ(u), arrays of the same shape, accurate in both tails."""
    low = special.gammaincinv(degrees / 2, special.ndtr(np.minimum(u, 0)))
    high = special.gammainccinv(degrees / 2, special.ndtr(-np.maximum(u, 0)))
    return 0.5 * np.log(2 * np.where(u < 0, low, high))


def _log_chi_slope(degrees: Array, u: Array, log_chi: Array) -> Array:
    """Normal density over the density of log χ, arrays of the same shape."""
    log_density = degrees * log_chi - np.exp(2 * log_chi) / 2 - special.gammaln(degrees / 2)
    log_density += math.log(2) * (1 - degrees / 2)
    return np.exp(-(u**2) / 2 - 0.5 * math.log(2 * math.pi) - log_density)
