"""Many outputs: importance sampling of T row by row, at any depth, checked in another order of the axes.

The diagonal comes from the laws of its entries (`axis_laws`). Given the rows above, row j of T is a
regression: target j is y_j = x·z + T_jj z_j + noise with z the latent variables of the rows above, whose mean
b and covariance N given the targets above are known by filtering (Kalman's recursion, one row at a time). To
second order in x

    precision of x = V⁻¹ + Σ [b bᵀ + N (c − y_j²/D)]/D,   linear term Σ b y_j/D,   D = e + T_jj² + E xᵀNx,

sums over examples. Only sums over groups of examples are kept: Σ b bᵀ, Σ b y and N, n_d² numbers each. Deeper
networks: V is the covariance of the row given the inner factors' rows above, which are drawn with it, exactly
(`RowWalk`), so that a draw is one of all factors and nothing is left to average. No matrix has more than n_d
rows. Behind a layer of k < n_d units there are k latent variables, and rows below the k-th are regressions on
all of them, without a T_jj of their own. Without filtering (`EntryProposal`) every entry is drawn by its own
precision given the diagonal, at a cost of n_d² a draw: enough where the widths are far above the outputs.

The order of the axes of the outputs is free, and T is another matrix in every order: its diagonal holds what
each axis has beyond those before it. So two orders share neither coordinates nor laws of the diagonal nor
regressions. Axes that the data fit come before those that are lost in the noise, whose latent variables would
explain nothing and only blur the others; the first order has the strongest axis of either kind first, the
second the weakest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lbnn._base.blocks import PRODUCT_FLOATS, blocks
from lbnn._base.quasi_random import uniform_points
from lbnn._base.small_matrices import solve_transposed, solve_upper
from lbnn._base.threads import on_every_core
from lbnn._base.types import Array, IndexArray
from lbnn.engines.axis_laws import FLATTEST, AxisLaws, Examples, Groups, examples_of
from lbnn.engines.estimate import Call, Estimate
from lbnn.engines.grow import grow, missing_for
from lbnn.engines.policy import GROUPS
from lbnn.engines.target import Target
from lbnn.engines.verdict import agree, can_check, reaches
from lbnn.scale.measure import effective_atoms
from lbnn.scale.total_factor import RowRecursion, TotalFactorLaw, rotate_factors

_PILOT = 8  # draws per group of a pilot
_WELL, _POORLY = 0.25, 0.05  # effective draws per draw of a pilot: it serves from, hardly below
_FEWEST, _FEW, _MANY = 2, 5, 16  # groups of examples
_MOST = 64  # ... behind a bottleneck, where they are cheap
_FITTED = 2.0  # squared targets over the largest of noise alone from which an axis counts as fitted
_ENTRIES_FROM = 64  # outputs from which entries by themselves are worth a try: rows cost more with n_d³
_GROUP_WIDTH = 0.1
_LARGEST = 1 << 25  # floats that coordinates or scales of all draws may fill
_TRUSTED = 64  # draws per group from which the share of effective draws is taken for what it is
_AGAIN = 4  # times as many draws where two orders of the axes differ
_CHECK = 200.0  # effective draws aimed at by the other order of the axes
_HEAVY = 0.7  # tail index with which no draws are added behind a narrow layer ...
_EARLY, _HEAVIER = 32, 1.0  # ... and of the evidence alone after so many per group, where its error is 0.2
_STATE_FLOATS = 1 << 20  # of the filter of one block of draws: longer loops, still in the cache
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


class _FilteredWalk(RowRecursion):
    """One pass down the rows of a block of draws, with the filter of every group of examples."""

    def __init__(self, law: TotalFactorLaw, logs: Array, groups: Groups, rng: np.random.Generator) -> None:
        index, count = np.arange(law.columns), len(groups)
        total = np.zeros((len(logs), law.rows, law.columns))
        total[:, index, index] = np.exp(logs)
        super().__init__(law, total, rng)
        self.groups, self.index = groups, index
        shape = (count, law.columns, law.columns, len(logs))  # draws last: loops over them are long
        # single precision: a proposal need not be exact, and these are what the time goes into
        self.spread = np.zeros(shape, np.float32)  # N, covariance of the latent variables given targets above
        self.square = np.zeros(shape, np.float32)  # Σ b bᵀ of their means
        self.cross = np.zeros((count, law.columns, law.rows, len(logs)), np.float32)  # Σ b yᵀ, targets below
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
            self.choose_row(row, root)
        self.factors[0][:] = self.total

    def choose_row(self, row: int, root: Array) -> None:
        """Draw the row of T given the rows above, with V = rootᵀ root (m, row, row), or root² for all (m,).

        x = rootᵀ w with w Gaussian, of precision R Rᵀ = 1 + root A rootᵀ.
        """
        self._filter(row - 1)
        variance = self._variance(row, root)
        excess = self.groups.count[:, row, None] - self.groups.moments[:, row, row, None] / variance
        width = min(row, self.law.columns)
        linear = _weighted(1 / variance, self.cross[:, :width, row])
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
        index = self.index[:row]  # of the latent variables of the rows above, as many as T has columns
        square, spread = self.square[:, index, index], self.spread[:, index, index]  # (groups, width, m)
        prior = root**2 if root.ndim == 1 else (root**2).sum(axis=1).T  # diagonal of V, (width, m)
        own = self.total[:, row, row] if row < self.law.columns else np.zeros(len(self.total))
        alone = self.groups.noise[:, row, None] + own**2
        variance = alone
        for _ in range(_SETTLING):
            excess = self.groups.count[:, row, None] - self.groups.moments[:, row, row, None] / variance
            data = ((square + excess[:, None] * spread) / variance[:, None]).sum(axis=0)
            entries = prior / np.maximum(1 + prior * data, FLATTEST)
            variance = alone + (spread * entries).sum(axis=1)
        return variance

    def _precision(self, row: int, root: Array, variance: Array, excess: Array) -> Array:
        """1 + root A rootᵀ, (m, row, row)."""
        data = _weighted(1 / variance, self.square[:, :row, :row])
        data += _weighted(excess / variance, self.spread[:, :row, :row])
        scalar = root.ndim == 1
        precision = (root**2)[:, None, None] * data if scalar else root @ data @ root.swapaxes(1, 2)
        index = self.index[:row]
        precision[:, index, index] += 1
        return precision

    def _filter(self, row: int) -> None:
        """Condition the latent variables on target `row`: rank-one updates of N, Σ b bᵀ and Σ b yᵀ."""
        entries = np.ascontiguousarray(self.total[:, row, : row + 1].T, np.float32)  # (width, m)
        upto, after = slice(row + 1), slice(row + 1, None)
        if row < self.law.columns:
            self.spread[:, row, row] = 1
        spread, square = self.spread[:, upto, upto], self.square[:, upto, upto]
        along = (spread * entries).sum(axis=2)  # N f, (groups, width, m)
        noise = self.groups.noise[:, row, None].astype(np.float32)
        gain = along / (noise + (along * entries).sum(axis=1))[:, None]
        seen, explained = self.cross[:, upto, row], (square * entries).sum(axis=2)
        rest = self.moments[:, row, row, None] - ((2 * seen - explained) * entries).sum(axis=1)
        change = seen - explained + 0.5 * rest[:, None] * gain
        one_way = gain[:, :, None] * change[:, None]
        square += one_way
        square += one_way.swapaxes(1, 2)
        spread -= gain[:, :, None] * along[:, None]
        later = self.cross[:, upto, after]
        surprise = self.moments[:, row, after, None] - (entries[:, None] * later).sum(axis=1)
        later += gain[:, :, None] * surprise[:, None]


def _definite(precision: Array) -> Array:
    """Matrices (m, k, k) with small eigenvalues raised; the prior's, one, where they are not finite."""
    broken = ~np.isfinite(precision).all(axis=(1, 2), keepdims=True)
    values, vectors = np.linalg.eigh(np.where(broken, np.eye(precision.shape[1]), precision))
    raised = np.maximum(values, np.maximum(FLATTEST, 1e-6 * values[:, -1:]))
    return np.asarray((vectors * raised[:, None, :]) @ vectors.swapaxes(1, 2), float)


def _weighted(weights: Array, stack: NDArray[np.float32]) -> Array:
    """Sum over groups (the first axis) of a stack (groups, ..., m) with weights (groups, m): (m, ...)."""
    shape = (len(weights), *([1] * (stack.ndim - 2)), weights.shape[1])
    factors = weights.reshape(shape).astype(np.float32)
    total = factors[0] * stack[0]
    for factor, each in zip(factors[1:], stack[1:], strict=True):
        total += factor * each
    return np.array(np.moveaxis(total, -1, 0), float, order="C")


# ---------------------------------------------------------------- sampling


@dataclass(frozen=True)
class Candidate:
    """A proposal in one frame, and what it is called."""

    target: Target
    law: TotalFactorLaw
    frame: Array
    proposal: RowProposal
    name: str

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one draw with its likelihood."""
        rows, columns, layers = self.law.rows, self.law.columns, len(self.law.shapes)
        if isinstance(self.proposal, EntryProposal):
            return 0.5 * self.target.operations
        inner = 0.0 if layers == 1 else 300.0 * layers * rows * columns**2
        regression = rows * columns * (10.0 * len(self.proposal.groups) * rows + 0.1 * columns**2)
        return 0.5 * self.target.operations + regression + inner

    @property
    def quick(self) -> bool:
        """Whether this costs little and approximates much."""
        return isinstance(self.proposal, EntryProposal) or len(self.proposal.groups) <= _FEWEST

    def sample(self, size: int, rng: np.random.Generator) -> RowSample:
        """Weighted draws in independent groups of so many each."""
        uniform = [uniform_points(size, self.law.columns, stream) for stream in rng.spawn(GROUPS)]
        began = time.perf_counter()
        drawn = self.proposal.draw(np.concatenate(uniform), rng)
        fine = np.flatnonzero(np.isfinite(drawn.total).all(axis=(1, 2)) & np.isfinite(drawn.log_ratio))
        log_weights = np.full(len(drawn.total), -np.inf)  # of draws beyond double precision

        def weigh(block: slice) -> None:
            own = fine[block]
            likelihood = self.target.log_likelihood(drawn.total[own], self.frame)
            log_weights[own] = drawn.log_ratio[own] + np.where(np.isnan(likelihood), -np.inf, likelihood)

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            on_every_core(weigh, blocks(len(fine), 4 * self.law.rows**2, PRODUCT_FLOATS))
        return RowSample(self, drawn.factors, drawn.total, log_weights, time.perf_counter() - began)


@dataclass(frozen=True)
class RowSample:
    """Weighted draws of one candidate."""

    candidate: Candidate
    factors: list[Array]
    total: Array
    log_weights: Array
    seconds: float

    @property
    def share(self) -> float:
        """Effective draws per draw."""
        return float(effective_atoms(self.log_weights)) / len(self.log_weights)

    @cached_property
    def estimate(self) -> Estimate:
        """What these draws say."""
        return Estimate.of_weights(
            self.candidate.name,
            self.log_weights,
            self.log_diagonal,
            self._points,
            "largest_row_k",
            self.seconds,
        )

    @property
    def heavy_tailed(self) -> bool:
        """Whether the weights, for the evidence or E L, have so heavy a tail that more draws hardly help.

        Nine outputs, three units: the tail index of E L fell from 0.89 at 2,048 draws to 0.70 at 56,880.
        """
        tail, count = self.estimate.pareto_k or 0.0, len(self.log_weights) // GROUPS
        if count < _TRUSTED:
            narrow = self.candidate.law.columns < self.candidate.law.rows
            return narrow and count >= _EARLY and tail > _HEAVIER
        return max(tail, float(self.estimate.mean_tails.max())) > _HEAVY

    @cached_property
    def log_diagonal(self) -> Array:
        """Logs of the diagonal of L along the axes of the data, (m, n)."""
        turn = self.candidate.target.rotation.T @ self.candidate.frame
        with np.errstate(divide="ignore"):
            return np.log(((turn @ self.total) ** 2).sum(axis=2))

    def _points(self) -> Array:
        """The coordinates u of the target, (m, D)."""
        target = self.candidate.target
        same = self.candidate.frame is target.rotation
        factors = (
            self.factors if same else rotate_factors(self.factors, target.rotation.T @ self.candidate.frame)
        )
        return target.coordinates.locate(factors)

    def joined(self, other: RowSample) -> RowSample:
        """Both samples of one candidate, group by group."""
        return RowSample(
            self.candidate,
            [_by_group(one, two) for one, two in zip(self.factors, other.factors, strict=True)],
            _by_group(self.total, other.total),
            _by_group(self.log_weights, other.log_weights),
            self.seconds + other.seconds,
        )

    def largest_size(self, work: float) -> int:
        """Draws per group that memory and so many operations allow."""
        target = self.candidate.target
        most = min(_LARGEST / max(target.dimension, target.rows**2), work / self.candidate.operations)
        return max(_PILOT, int(most / GROUPS))


def proposals(target: Target) -> Iterator[list[Candidate]]:
    """For each order of the axes the proposals to try; none where rows do not apply."""
    first = examples_of(target.likelihood, target.rotation)
    if first is None or not (target.coordinates.square or first.noise.all()):
        return
    law = TotalFactorLaw(target.coordinates.shapes)
    if not target.any_frame:
        yield _plans(target, law, target.rotation, first, "rows of T")
        return
    names = ("rows of T, strongest axis first", "rows of T, weakest axis first")
    for order, name in zip(_orders(law, first), names, strict=True):
        frame = target.rotation[:, order]
        examples = examples_of(target.likelihood, frame)
        assert examples is not None
        yield _plans(target, law, frame, examples, name)


def _orders(law: TotalFactorLaw, first: Examples) -> tuple[IndexArray, IndexArray]:
    """Two orders (rows,) of the axes: fitted ones first, strongest or weakest of them ahead.

    Behind a bottleneck the axes of the data come strongest first, and as many can be fitted as it passes on.
    """
    place = np.arange(law.rows)  # the axes of the data come weakest first
    if law.columns < law.rows:
        return place, np.append(place[: law.columns][::-1], _swapped(place[law.columns :]))
    weights = 1 / (first.noise + (first.rows**2).mean(axis=0))
    edge = _FITTED * (1 + math.sqrt(law.rows / len(first.rows))) ** 2  # noise alone reaches half of it
    unfitted = (weights * (first.rows**2 - edge * first.count * first.noise)).sum(axis=0) < 0
    fitted, lost = place[~unfitted], place[unfitted][::-1]
    return np.append(fitted[::-1], lost), np.append(fitted, _swapped(lost))


def _swapped(axes: IndexArray) -> IndexArray:
    """Axes (k,) with neighbours exchanged."""
    pairs = len(axes) // 2 * 2
    return np.append(axes[:pairs].reshape(-1, 2)[:, ::-1].ravel(), axes[pairs:])


def _plans(
    target: Target, law: TotalFactorLaw, frame: Array, examples: Examples, name: str
) -> list[Candidate]:
    """Proposals in a frame (n, n).

    With very many outputs single entries, then rows with ever more groups of examples.
    """
    laws = AxisLaws(law, examples)
    if law.columns < law.rows:  # rows without a T_jj see the noise alone, and so differ more
        groups = examples.grouped(0.0, _GROUP_WIDTH, _MOST)
        return [Candidate(target, law, frame, RowProposal(law, laws, groups), name)]
    fewest, few, many = (
        examples.grouped(laws.reference, _GROUP_WIDTH, most) for most in (_FEWEST, _FEW, _MANY)
    )
    wide = len(law.shapes) == 1 and law.columns == law.rows >= _ENTRIES_FROM
    plans: list[RowProposal] = [EntryProposal(law, laws, many)] if wide else []
    for groups in (fewest, few, many) if wide else (few, many):
        if not plans or len(groups) > len(plans[-1].groups) or isinstance(plans[-1], EntryProposal):
            plans.append(RowProposal(law, laws, groups))
    return [Candidate(target, law, frame, plan, name) for plan in plans]


def best_pilot(plans: list[Candidate], rng: np.random.Generator) -> RowSample:
    """The pilot of the proposal that gives most effective draws for its work."""
    pilots: list[RowSample] = []
    for plan in plans:
        pilots.append(plan.sample(_PILOT, rng))
        if pilots[-1].share >= (_WELL if plan.quick else _POORLY):
            break
    return min(pilots, key=lambda pilot: pilot.candidate.operations / pilot.share)


def row_estimates(
    target: Target, call: Call, limited: bool = False
) -> tuple[Estimate, Estimate | None] | None:
    """Draws in the better order of the axes and in the other one; None where rows do not apply.

    With `limited` work, where other estimates follow, they are given up early.
    """
    rng, policy = call.stream("rows of T"), call.policy
    call.progress.say("proposals for the rows of T")
    pilots = [best_pilot(plans, rng) for plans in proposals(target)]
    if not pilots:
        return None
    pilots.sort(key=lambda pilot: pilot.candidate.operations / pilot.share)
    little = policy.narrow_row_work * (0.1 / min(call.target_error, 0.1)) ** 2
    most = call.work(min(policy.row_work, little) if limited else policy.row_work)

    def enough(found: Estimate) -> bool:
        return reaches(found, call) or (limited and first.sample.heavy_tailed)

    def enough_to_check(found: Estimate) -> bool:
        return found.effective_sample_size >= _CHECK and can_check(found, policy)

    first = Rows(pilots[0], most, rng, call)
    found, check = first.grown(missing_for(call), enough), None
    hopeless = limited and not reaches(found, call)  # others answer then
    if len(pilots) > 1 and not (hopeless or call.options.rough):
        other = Rows(pilots[1], most / 2, rng, call)
        check = other.grown(lambda found: _CHECK / found.effective_sample_size, enough_to_check)
        if can_check(check, policy) and not agree(found, check, policy):
            call.progress.say("the two orders differ: more draws of both")  # chance goes away with more draws
            found, check = (each.drawn(_AGAIN * each.size) for each in (first, other))
        call.spend(len(check.log_weights) * other.sample.candidate.operations)
    call.spend(len(found.log_weights) * first.sample.candidate.operations)
    return found, check


class Rows:
    """Draws in one order of the axes, to which more are added."""

    def __init__(self, pilot: RowSample, work: float, rng: np.random.Generator, call: Call) -> None:
        self.sample, self.most, self.rng, self.call = pilot, pilot.largest_size(work), rng, call

    @property
    def size(self) -> int:
        """Draws per group."""
        return len(self.sample.log_weights) // GROUPS

    def drawn(self, size: int) -> Estimate:
        """So many draws per group in all, or as many as are allowed."""
        more, own = min(size, self.most) - self.size, self.sample.candidate
        if more > 0:
            self.call.progress.say(f"importance sampling by {own.name}, {GROUPS * size} draws")
            self.sample = self.sample.joined(own.sample(more, self.rng))
        return self.sample.estimate

    def grown(self, missing: Callable[[Estimate], float], enough: Callable[[Estimate], bool]) -> Estimate:
        """More draws until enough."""
        return grow(self.drawn, self.sample.estimate, self.most, missing, enough)


def _by_group(one: Array, two: Array) -> Array:
    """Arrays (m, ...) of draws in groups of equal size, joined within the groups."""
    parts = [each.reshape(GROUPS, -1, *each.shape[1:]) for each in (one, two)]
    joined = np.concatenate(parts, axis=1)
    return joined.reshape(-1, *one.shape[1:])
