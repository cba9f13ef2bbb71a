"""Many outputs: importance sampling of T by rows, vouched for by the same in another order of the axes.

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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import stats

from lbnn._base.blocks import PRODUCT_FLOATS, blocks
from lbnn._base.progress import Progress
from lbnn._base.quasi_random import uniform_points
from lbnn._base.threads import on_every_core
from lbnn._base.types import Array, IndexArray
from lbnn.engines.axis_laws import AxisLaws
from lbnn.engines.examples import Examples, examples_of
from lbnn.engines.inference import Witness
from lbnn.engines.mixture_sampling import GROUPS, ROUGH, WeightedDraws
from lbnn.engines.pareto import pareto_k
from lbnn.engines.row_proposal import EntryProposal, RowProposal
from lbnn.engines.target import ScaleTarget, Target
from lbnn.engines.witness import Testimony, testify
from lbnn.scale.measure import effective_atoms
from lbnn.scale.total_factor import TotalFactorLaw, turned

_PILOT = 8  # draws per group of a pilot
_WELL, _POORLY = 0.25, 0.05  # effective draws per draw of a pilot: it serves from, hardly below
_FEWEST, _FEW, _MANY = 2, 5, 16  # groups of examples
_MOST = 64  # ... behind a bottleneck, where they are cheap
_FITTED = 2.0  # squared targets over the largest of noise alone from which an axis counts as fitted
_ENTRIES_FROM = 64  # outputs from which entries by themselves are worth a try: rows cost more with n_d³
_GROUP_WIDTH = 0.1
_FEWEST_EFFECTIVE = 400
_RESERVE = 1.3  # draws beyond what the pilot says are needed
_WORK = 2e11  # rough operations that the draws of one estimate may take: a minute on one core
# ... behind a bottleneck, times target_error⁻² (at 0.1 or less): where weights have a tail, more do not help
_NARROW_WORK = 3e7
_LARGEST = 1 << 25  # floats that coordinates or scales of all draws may fill
_TRUSTED = 64  # draws per group from which the share of effective draws is taken for what it is
_HOPELESS = 10.0  # times the draws allowed beyond which none are made
_ROUGH_WORK = 2e9  # operations of a rough answer
_AGAIN = 4  # times as many draws where two orders of the axes differ
_TESTIMONY = 200  # effective draws aimed at by a witness
_LARGEST_K = (
    0.6  # tail index of weights that are not trusted: at 0.65 to 0.76 an order of the axes was 0.15 low
)
_INCURABLE = 0.7  # ... and with which none are added behind a bottleneck
_ALARM = 4.6e-3  # chance that means along any axis are called different: four errors for eight axes


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

    @property
    def incurable(self) -> bool:
        """Whether a narrow layer leaves weights with such a tail that more draws would not help."""
        law, enough = self.candidate.law, len(self.log_weights) >= _TRUSTED * GROUPS
        return law.columns < law.rows and enough and self.weighted.pareto_k > _INCURABLE

    @property
    def roughness(self) -> float:
        """Range of the middle four fifths of the log weights."""
        return interdecile(self.log_weights)

    @cached_property
    def log_diagonal(self) -> Array:
        """Logs of the diagonal of L along the axes of the data, (m, n)."""
        turn = self.candidate.target.rotation.T @ self.candidate.frame
        with np.errstate(divide="ignore"):
            return np.log(((turn @ self.total) ** 2).sum(axis=2))

    @cached_property
    def weighted(self) -> WeightedDraws:
        """Weights with what they tell of evidence and means; the points are the logs of L_jj."""
        log_terms = self.log_weights[:, None] + self.log_diagonal
        largest_k = max(pareto_k(column) for column in log_terms.T)
        return WeightedDraws(
            self.log_diagonal,
            self.log_weights,
            self.groups,
            effective_atoms(log_terms),
            largest_k,
            _LARGEST_K,
        )

    @property
    def groups(self) -> IndexArray:
        """Group of every draw."""
        return np.repeat(np.arange(GROUPS), len(self.log_weights) // GROUPS)

    @property
    def points(self) -> Array:
        """The coordinates u of the target, (m, D)."""
        target = self.candidate.target
        same = self.candidate.frame is target.rotation
        factors = self.factors if same else turned(self.factors, target.rotation.T @ self.candidate.frame)
        return target.coordinates.locate(factors)

    @property
    def testimony(self) -> Testimony:
        """Evidence and E L_jj, as a witness gives them."""
        told = testify(self.candidate.name, self.log_weights, self.groups, self.log_diagonal)
        return told if self.weighted.pareto_k < _LARGEST_K else replace(told, witness=None)

    @property
    def own_witness(self) -> Witness:
        """What these draws say of the evidence."""
        draws = self.weighted
        return Witness(self.candidate.name, draws.log_evidence, draws.log_evidence_error)

    def joined(self, other: RowSample) -> RowSample:
        """Both samples of one candidate, group by group."""
        return RowSample(
            self.candidate,
            [_by_group(one, two) for one, two in zip(self.factors, other.factors, strict=True)],
            _by_group(self.total, other.total),
            _by_group(self.log_weights, other.log_weights),
            self.seconds + other.seconds,
        )

    def grown(self, work: float, rng: np.random.Generator) -> RowSample:
        """Several times as many draws, if so much work allows more at all."""
        have = len(self.log_weights) // GROUPS
        more = min((_AGAIN - 1) * have, self.largest_size(work) - have)
        return self if more <= 0 else self.joined(self.candidate.sample(more, rng))

    def size_for(self, effective: float) -> int:
        """Draws per group that so many effective draws ask for."""
        return max(_PILOT, math.ceil(_RESERVE * effective / max(self.share, 1e-9) / GROUPS))

    def forecast(self, size: int) -> float:
        """Seconds that so many draws per group would take."""
        return self.seconds * size * GROUPS / len(self.log_weights)

    def largest_size(self, work: float) -> int:
        """Draws per group that memory and so many operations allow."""
        target = self.candidate.target
        most = min(_LARGEST / max(target.dimension, target.rows**2), work / self.candidate.operations)
        return max(_PILOT, int(most / GROUPS))


def interdecile(log_weights: Array) -> float:
    """Range of the middle four fifths of log weights; infinite where many draws have none."""
    low, high = np.quantile(log_weights, (0.1, 0.9), method="nearest")
    return float(high - low) if np.isfinite(low) else math.inf


def proposals(target: Target) -> Iterator[list[Candidate]]:
    """For each order of the axes the proposals to try; none where rows do not apply."""
    likelihood = target.likelihood if isinstance(target, ScaleTarget) else None
    first = examples_of(likelihood, target.rotation)
    if first is None or not (target.coordinates.square or first.noise.all()):
        return
    law = TotalFactorLaw(target.coordinates.shapes)
    if not target.any_frame:
        yield _plans(target, law, target.rotation, first, "rows of T")
        return
    names = ("rows of T, strongest axis first", "rows of T, weakest axis first")
    for order, name in zip(_orders(law, first), names, strict=True):
        frame = target.rotation[:, order]
        examples = examples_of(likelihood, frame)
        assert examples is not None
        yield _plans(target, law, frame, examples, name)


def _orders(law: TotalFactorLaw, first: Examples) -> tuple[IndexArray, IndexArray]:
    """Two orders of the axes: fitted ones first, strongest or weakest of them ahead.

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
    """Neighbours in each other's place."""
    pairs = len(axes) // 2 * 2
    return np.append(axes[:pairs].reshape(-1, 2)[:, ::-1].ravel(), axes[pairs:])


def _plans(
    target: Target, law: TotalFactorLaw, frame: Array, examples: Examples, name: str
) -> list[Candidate]:
    """With very many outputs entries by themselves, then rows with ever more groups of examples."""
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


@dataclass(frozen=True)
class RowAnswer:
    """Draws that reach what was asked, or as many as could be had, and what another order says."""

    sample: RowSample
    other_sample: RowSample | None
    target_error: float

    @cached_property
    def other(self) -> Testimony | None:
        """What the other order of the axes says."""
        return None if self.other_sample is None else self.other_sample.testimony

    @property
    def seconds_needed(self) -> float | None:
        """Forecast where the target error was not reached."""
        if self.sample.weighted.reaches(self.target_error):
            return None
        return self.sample.forecast(self.sample.size_for(effective_draws(self.target_error)))

    @property
    def contradicted(self) -> bool:
        """Whether the two orders differ in evidence or means by more than chance allows."""
        witness = None if self.other is None else self.other.witness
        if witness is None:
            return False
        return not (witness.agrees_with(self.sample.own_witness) and self.means_agree)

    @property
    def hardly_serves(self) -> bool:
        """Whether draws behind a bottleneck are so unequal that other estimates are to be preferred."""
        law = self.sample.candidate.law
        return law.columns < law.rows and self.sample.weighted.effective_sample_size < _TESTIMONY

    @property
    def means_agree(self) -> bool:
        """Whether the two orders agree on E L along every axis, allowing for the number of axes."""
        if self.other is None or self.other.witness is None:
            return True
        own = self.sample.testimony
        allowed = stats.t.isf(_ALARM / len(own.mean), GROUPS - 1) * np.hypot(own.error, self.other.error)
        return bool((np.abs(own.mean - self.other.mean) <= allowed).all())


def draw_rows(target: Target, target_error: float, seed: int, progress: Progress) -> RowAnswer | None:
    """Draws by the better order of the axes, with the other one as witness; None where rows do not apply."""
    rng = np.random.default_rng([seed, 20])
    progress.say("proposals for the rows of T")
    pilots = [best_pilot(plans, rng) for plans in proposals(target)]
    if not pilots:
        return None
    pilots.sort(key=lambda pilot: pilot.candidate.operations / pilot.share)
    effective = effective_draws(target_error)
    law = pilots[0].candidate.law
    narrow = law.columns < law.rows
    work = min(_WORK, _NARROW_WORK / min(target_error, 0.1) ** 2) if narrow else _WORK
    sample = enough(pilots[0], effective, lambda own: own.weighted.reaches(target_error), work, rng, progress)
    if len(pilots) == 1:
        return RowAnswer(sample, None, target_error)
    progress.say(f"second witness: {pilots[1].candidate.name}")
    other = enough(pilots[1], _TESTIMONY, _can_testify, work / 2, rng, progress)
    answer = RowAnswer(sample, other, target_error)
    if answer.contradicted:  # a difference by chance goes away with more draws, another one shows
        progress.say("the two orders differ: more draws of both")
        answer = RowAnswer(sample.grown(work, rng), other.grown(work, rng), target_error)
    return answer


def rough_rows(target: Target, seed: int, progress: Progress) -> RowSample | None:
    """A few dozen effective draws in one order of the axes; None where these cannot be had."""
    rng = np.random.default_rng([seed, 20])
    plans = next(proposals(target), None)
    if plans is None:
        return None
    sample = enough(best_pilot(plans, rng), ROUGH, _is_rough, _ROUGH_WORK, rng, progress)
    return sample if sample.weighted.effective_sample_size >= ROUGH / 2 else None


def _is_rough(sample: RowSample) -> bool:
    return sample.weighted.effective_sample_size >= ROUGH


def effective_draws(target_error: float) -> float:
    """How many a target error asks for."""
    return max(target_error**-2, _FEWEST_EFFECTIVE)


def _can_testify(sample: RowSample) -> bool:
    return sample.weighted.effective_sample_size >= _TESTIMONY and sample.testimony.witness is not None


def enough(
    pilot: RowSample,
    effective: float,
    reached: Callable[[RowSample], bool],
    work: float,
    rng: np.random.Generator,
    progress: Progress,
) -> RowSample:
    """Draws are added until what is asked for is reached or no more are allowed."""
    sample, most = pilot, pilot.largest_size(work)
    while not reached(sample):
        have = len(sample.log_weights) // GROUPS
        wanted = max(sample.size_for(effective), math.ceil(1.5 * have))
        more = min(wanted, 4 * have if have < _TRUSTED else wanted, most) - have
        if more <= 0 or (have >= _TRUSTED and wanted > _HOPELESS * most) or sample.incurable:
            return sample
        progress.say(f"importance sampling by rows, {GROUPS * (have + more)} draws")
        sample = sample.joined(pilot.candidate.sample(more, rng))
    return sample


def _by_group(one: Array, two: Array) -> Array:
    """Arrays of draws in groups of equal size, joined within the groups."""
    parts = [each.reshape(GROUPS, -1, *each.shape[1:]) for each in (one, two)]
    joined = np.concatenate(parts, axis=1)
    return joined.reshape(-1, *one.shape[1:])
