"""Draws of T row by row: proposals for many outputs, at any depth.

The diagonal comes from the laws of its entries (`axis_laws`). Given the rows above, row j of T is a
regression: target j is y_j = x·z + T_jj z_j + noise with z the latent variables of the rows above, whose mean
b and covariance N given the targets above are known by filtering (Kalman's recursion, one row at a time). To
second order in x

    precision of x = V⁻¹ + Σ [b bᵀ + N (c − y_j²/D)]/D,   linear term Σ b y_j/D,   D = e + T_jj² + E xᵀNx,

sums over examples. Only sums over groups of examples are kept: Σ b bᵀ, Σ b y and N, n_d² numbers each. Deeper
networks: V is the covariance of the row given the inner factors' rows above, which are drawn with it, exactly
(`RowWalk`), so that a draw is one of all factors and nothing is left to average. No matrix has more than n_d
rows. Behind a layer of k < n_d units there are k latent variables, and rows below the k-th are regressions on
all of them, without a T_jj of their own.

Without filtering (`EntryProposal`) every entry is drawn by its own precision given the diagonal, at a cost
of n_d² a draw: enough where the widths are far above the outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import solve_transposed, solve_upper
from lbnn._base.threads import on_every_core
from lbnn._base.types import Array
from lbnn.engines.axis_laws import FLATTEST, AxisLaws
from lbnn.engines.examples import Groups
from lbnn.scale.total_factor import RowWalk, TotalFactorLaw

_STATE_FLOATS = 1 << 19  # of the filter of one block of draws: stays in the cache
_INFLATION = 0.5  # over √(entries): behind a bottleneck draws are that much wider, as at a mode (`laplace`)
_SETTLING = 2  # rounds between the variance of a target and the spread of the row that adds to it


@dataclass(frozen=True)
class ProposedDraws:
    """Draws of all factors with log prior over proposal, in the frame of the proposal."""

    total: Array  # T, (m, n, n)
    factors: list[Array]  # T_d, ..., T_2, each (m, n, n)
    log_ratio: Array  # (m,)


class RowProposal:
    """A law of T that is close to the posterior, in one frame of the outputs."""

    def __init__(self, law: TotalFactorLaw, laws: AxisLaws, groups: Groups) -> None:
        self.law, self.laws, self.groups = law, laws, groups

    def draw(self, uniform: Array, rng: np.random.Generator) -> ProposedDraws:
        """Draws from uniforms (m, n) for the diagonal and a stream for the rest."""
        logs, log_drawn = self.laws.draw(uniform)
        log_prior, _ = self.law.log_diagonal(logs)
        floats = 3 * len(self.groups) * self.law.rows * self.law.columns
        pieces = list(blocks(len(logs), floats, _STATE_FLOATS))
        walks = [
            _FilteredWalk(self.law, logs[piece], self.groups, stream)
            for piece, stream in zip(pieces, rng.spawn(len(pieces)), strict=True)
        ]
        on_every_core(_FilteredWalk.walk, walks)
        return ProposedDraws(
            np.concatenate([walk.total for walk in walks]),
            [np.concatenate(each) for each in zip(*(walk.factors for walk in walks), strict=True)],
            np.concatenate([walk.log_ratio for walk in walks]) + log_prior - log_drawn,
        )


class EntryProposal(RowProposal):
    """Every entry below the diagonal by its own precision given the diagonal: depth two."""

    def draw(self, uniform: Array, rng: np.random.Generator) -> ProposedDraws:
        """Draws from uniforms (m, n) for the diagonal and a stream for the rest."""
        logs, log_drawn = self.laws.draw(uniform)
        total, ratio = np.zeros((*logs.shape, self.law.rows)), np.empty(len(logs))
        pieces = list(blocks(len(logs), len(self.groups) * self.law.rows**2, _STATE_FLOATS))

        def fill(piece: tuple[slice, np.random.Generator]) -> None:
            block, stream = piece
            total[block], ratio[block] = self._entries(np.exp(logs[block]), stream)

        on_every_core(fill, zip(pieces, rng.spawn(len(pieces)), strict=True))
        log_prior, _ = self.law.log_diagonal(logs)
        return ProposedDraws(total, [total], ratio + log_prior - log_drawn)

    def _entries(self, diagonal: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """T (m, n, n) with the given diagonal (m, n), and log prior over proposal of its entries below."""
        groups, scale = self.groups, self.law.scales[0]
        weights = 1 / (groups.noise + diagonal[:, None] ** 2)  # 1/D, (m, groups, n)
        fit = groups.squares * weights**2
        half = weights.swapaxes(1, 2) @ (fit - 0.5 * groups.count * weights)
        slope = (fit - groups.count * weights).sum(axis=1)  # 2 G_jj
        curvature = (half + half.swapaxes(1, 2)) * diagonal[:, None, :] ** 2 - slope[:, :, None]
        precision = np.maximum(1 + scale * curvature, FLATTEST)  # in units of the prior's
        linear = np.einsum("mgj,gjk,mgk->mjk", weights, groups.moments, weights * diagonal[:, None, :])
        noise = rng.standard_normal(precision.shape)
        white = math.sqrt(scale) * linear / precision + noise / np.sqrt(precision)
        below = np.tril_indices(self.law.rows, -1)
        total = np.tril(math.sqrt(scale) * white, -1) + diagonal[:, :, None] * np.eye(self.law.rows)
        ratio = 0.5 * (noise**2 - white**2 - np.log(precision))[:, *below].sum(axis=1)
        return total, ratio


class _FilteredWalk(RowWalk):
    """One pass down the rows of a block of draws, with the filter of every group of examples."""

    def __init__(self, law: TotalFactorLaw, logs: Array, groups: Groups, rng: np.random.Generator) -> None:
        index, count = np.arange(law.columns), len(groups)
        total = np.zeros((len(logs), law.rows, law.columns))
        total[:, index, index] = np.exp(logs)
        super().__init__(law, total, rng)
        self.groups, self.index = groups, index
        shape = (count, len(logs), law.columns, law.columns)
        # single precision: a proposal need not be exact, and these are what the time goes into
        self.spread = np.zeros(shape, np.float32)  # N, covariance of the latent variables given targets above
        self.square = np.zeros(shape, np.float32)  # Σ b bᵀ of their means
        self.cross = np.zeros((*shape[:3], law.rows), np.float32)  # Σ b yᵀ with the targets below
        self.moments = groups.moments.astype(np.float32)
        narrow = law.columns < law.rows
        self.wider = 1 + _INFLATION / math.sqrt(len(law.below[0])) if narrow else 1.0
        self.log_ratio = np.zeros(len(logs))  # log prior over proposal of the entries below the diagonal

    def walk(self) -> None:
        """Choose all rows."""
        if len(self.law.shapes) > 1:
            self.run()
            return
        root = np.full(len(self.total), math.sqrt(self.law.scales[0]))
        for row in range(1, self.law.rows):
            self._filter(row - 1)
            self._choose(row, root)
        self.factors[0][:] = self.total

    def choose_row(self, row: int, root: Array) -> None:
        """The row of T given V = rootᵀ root and the rows above."""
        self._filter(row - 1)
        self._choose(row, root)

    def _choose(self, row: int, root: Array) -> None:
        """Draw x = rootᵀ w with w Gaussian: precision R Rᵀ = 1 + root A rootᵀ, the prior's is 1."""
        variance = self._variance(row, root)
        excess = self.groups.count[:, row, None] - self.groups.moments[:, row, row, None] / variance
        width = min(row, self.law.columns)
        linear = _weighted(1 / variance, self.cross[:, :, :width, row])
        try:
            lower = np.linalg.cholesky(self._precision(row, root, variance, excess))
        except np.linalg.LinAlgError:  # the data ask for a larger T_jj: without what pushes x away from zero
            precision = self._precision(row, root, variance, np.maximum(excess, 0.0))
            lower = np.linalg.cholesky(_definite(precision))
        upper = np.ascontiguousarray(lower.swapaxes(1, 2))
        scalar = root.ndim == 1
        linear = root[:, None] * linear if scalar else (root @ linear[:, :, None])[:, :, 0]
        noise = self.rng.standard_normal(linear.shape)
        white = solve_upper(upper, solve_transposed(upper, linear) + self.wider * noise)
        entries = root[:, None] * white if scalar else (white[:, None, :] @ root)[:, 0]
        self.total[:, row, :width] = entries
        log_root = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        self.log_ratio += 0.5 * (noise**2 - white**2).sum(axis=1) - log_root + width * math.log(self.wider)

    def _variance(self, row: int, root: Array) -> Array:
        """D = e + T_jj² and what x adds to it on average, E xᵀNx, settled between them, (groups, m)."""
        square, spread = (
            np.diagonal(each[:, :, :row, :row], axis1=2, axis2=3) for each in (self.square, self.spread)
        )  # of the latent variables of the rows above, as many as T has columns
        prior = (root**2)[:, None] if root.ndim == 1 else (root**2).sum(axis=1)  # diagonal of V, (m, row)
        own = self.total[:, row, row] if row < self.law.columns else np.zeros(len(self.total))
        alone = self.groups.noise[:, row, None] + own**2
        variance = alone
        for _ in range(_SETTLING):
            excess = self.groups.count[:, row, None] - self.groups.moments[:, row, row, None] / variance
            data = ((square + excess[..., None] * spread) / variance[..., None]).sum(axis=0)
            entries = prior / np.maximum(1 + prior * data, FLATTEST)
            variance = alone + (spread * entries).sum(axis=-1)
        return variance

    def _precision(self, row: int, root: Array, variance: Array, excess: Array) -> Array:
        data = _weighted(1 / variance, self.square[:, :, :row, :row])
        data += _weighted(excess / variance, self.spread[:, :, :row, :row])
        scalar = root.ndim == 1
        precision = (root**2)[:, None, None] * data if scalar else root @ data @ root.swapaxes(1, 2)
        index = self.index[:row]
        precision[:, index, index] += 1
        return precision

    def _filter(self, row: int) -> None:
        """Let the latent variables see target `row`: rank-one updates of N, Σ b bᵀ and Σ b yᵀ."""
        entries = self.total[:, row, : row + 1].astype(np.float32)
        upto, after = slice(row + 1), slice(row + 1, None)
        if row < self.law.columns:
            self.spread[:, :, row, row] = 1
        spread, square = self.spread[:, :, upto, upto], self.square[:, :, upto, upto]
        along = (spread @ entries[:, :, None])[..., 0]  # N f, (groups, m, row + 1)
        noise = self.groups.noise[:, row, None].astype(np.float32)
        gain = along / (noise + (along * entries).sum(axis=-1))[..., None]
        seen, explained = self.cross[:, :, upto, row], (square @ entries[:, :, None])[..., 0]
        rest = self.moments[:, row, row, None] - ((2 * seen - explained) * entries).sum(axis=-1)
        change = seen - explained + 0.5 * rest[..., None] * gain
        left = np.stack([gain, change], axis=-1)
        square += left @ left[..., ::-1].swapaxes(-1, -2)
        spread -= gain[..., :, None] * along[..., None, :]
        later = self.cross[:, :, upto, after]
        surprise = self.moments[:, row, None, after] - (entries[:, None, :] @ later)[:, :, 0]
        later += gain[..., :, None] * surprise[:, :, None, :]


def _definite(precision: Array) -> Array:
    """Matrices (m, k, k) with small eigenvalues raised; the prior's, one, where they are not finite."""
    broken = ~np.isfinite(precision).all(axis=(1, 2), keepdims=True)
    values, vectors = np.linalg.eigh(np.where(broken, np.eye(precision.shape[1]), precision))
    raised = np.maximum(values, np.maximum(FLATTEST, 1e-6 * values[:, -1:]))
    return np.asarray((vectors * raised[:, None, :]) @ vectors.swapaxes(1, 2), float)


def _weighted(weights: Array, stack: NDArray[np.float32]) -> Array:
    """Sum over groups (the first axis) of a stack (groups, m, ...) with weights (groups, m)."""
    shape = (*weights.shape, *([1] * (stack.ndim - 2)))
    factors = weights.reshape(shape).astype(np.float32)
    total = factors[0] * stack[0]
    for factor, each in zip(factors[1:], stack[1:], strict=True):
        total += factor * each
    return total.astype(float)
