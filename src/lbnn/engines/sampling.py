"""Estimates of one posterior in Bartlett coordinates, each made once, and the answers that rest on them.

A method `…_answer` is what a line of the table of engines does: an estimate, and where it reaches the target
error, the first check that can be had. `last` says that no other line of this matrix follows: then there is
an answer, ok or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from lbnn._base.small_matrices import one_sign
from lbnn._base.types import Array
from lbnn.engines.estimate import Answer, Call, Estimate
from lbnn.engines.importance import (
    GaussianProposal,
    gaussian_importance,
    gaussian_of,
    gaussian_round,
    laplace_proposal,
    prior_points,
    weighted_draws,
)
from lbnn.engines.inference import Diagnostics, EvidenceEstimate
from lbnn.engines.mixture import Mixture, factors_estimate, laplace_mixture, mixture_estimate
from lbnn.engines.policy import GROUPS
from lbnn.engines.quadrature import rank_one_estimate
from lbnn.engines.relative_rows import plain_estimate, relative_gaussian, relative_rows_apply
from lbnn.engines.rowwise import row_estimates
from lbnn.engines.smc import Path, smc_estimate
from lbnn.engines.spectral import reverse_estimate, spectral_estimate
from lbnn.engines.target import Target, log_diagonal, turned_points
from lbnn.engines.total_target import FactorSpace, TotalTarget
from lbnn.engines.verdict import (
    TAKE_OR_RAISE,
    agree,
    can_check,
    evidence_agrees,
    forecast,
    in_words,
    reaches,
    verdict,
)
from lbnn.likelihood.gaussian import GaussianLikelihood

_FEWEST_OF_PRIOR = 1024
_PILOT = 128  # draws by which two starts of sequential Monte Carlo are compared
_CLIMBERS = 64  # draws among which the start of a search for a mode is the best
_FITTED_FROM = 2048  # draws to which the mixture of a cross-check is fitted at first


class Sampling:
    """Estimates of the posterior of one target, and what answers rest on them."""

    def __init__(self, target: Target, call: Call, narrow: bool = False, completed: bool = False) -> None:
        """Of a problem where spectral moves serve (`narrow`), or with `completed` targets."""
        self.target, self.call, self.policy = target, call, call.policy
        law = TotalTarget(target).law
        self.narrow = narrow or law.columns < law.rows
        self.small = law.dimension <= self.policy.most_for_mixture
        self.curved = target.dimension <= self.policy.most_for_curvature
        others_follow = self.narrow or (self.small and not completed)
        self.limited = others_follow or call.options.rough  # rows are given little work

    # ---------------------------------------------------------------- estimates, each made once

    @cached_property
    def rows(self) -> tuple[Estimate, Estimate | None] | None:
        """Draws by rows in the better order of the axes, and in the other one."""
        return row_estimates(self.target, self.call, self.limited)

    @cached_property
    def fitted(self) -> tuple[Estimate, Mixture]:
        """Draws of a mixture over all modes of the posterior of T, fitted to it."""
        self.call.progress.say("modes of the posterior")
        return mixture_estimate(laplace_mixture(TotalTarget(self.target)), self.call)

    @cached_property
    def relative(self) -> bool:
        """Whether the Gaussian at the mode has rows of T_d measured by its square block."""
        return relative_rows_apply(self.target) and not self.small

    @cached_property
    def mode(self) -> tuple[Target, GaussianProposal]:
        """The Gaussian at the mode of all factors, with the target in whose coordinates it is."""
        if self.relative:
            return relative_gaussian(self.target)
        return self.target, laplace_proposal(self.target, policy=self.policy)

    @cached_property
    def other_mode(self) -> tuple[Target, GaussianProposal]:
        """The same with other axes: strongest first, or those in which the scale is diagonal at the mode."""
        if self.relative:
            return relative_gaussian(self.target, strongest_first=True)
        mode = self.mode[1].mean
        frame = one_sign(np.linalg.eigh(self.target.scales(mode[None])[0]).eigenvectors[:, ::-1])
        other = self.target.in_frame(frame)
        return other, laplace_proposal(other, turned_points(mode[None], self.target, other)[0], self.policy)

    @cached_property
    def gaussian(self) -> Estimate:
        """Draws of the Gaussian at the mode of all factors."""
        return gaussian_importance(*self.mode, self.call, "Gaussian at the mode", self.target)

    # ---------------------------------------------------------------- answers

    def checked(
        self,
        estimate: Estimate,
        checks: Iterable[Estimate | None],
        needs_check: bool = True,
        more: tuple[str, ...] = (),
    ) -> Answer:
        """The answer with the first check that can be trusted and agrees, else with the last that can be.

        Of the checks of a path, the first that can be trusted.
        """
        trusted = None
        for check in () if self.call.options.rough else checks:
            if check is not None and can_check(check, self.policy):
                trusted = check
                settled = agree(estimate, check, self.policy) or self._is_low(estimate, check)
                if settled or not estimate.weighted:
                    break
        needs_check &= not self.call.options.rough
        name = "importance" if estimate.weighted else "smc"
        return verdict(name, estimate, trusted, self.call, needs_check=needs_check, more=more)

    def _is_low(self, estimate: Estimate, check: Estimate) -> bool:
        """Whether a check is higher by more than chance, which no other check settles.

        A check that misses a part of the posterior is low, and another one may see that part (4 of the 240
        truth problems that were looked at). None was higher: an estimate that is low misses a part itself, or
        its density is wrong, as it then is in every check that shares the density.
        """
        higher = check.log_evidence > estimate.log_evidence
        return higher and not evidence_agrees(estimate, check, self.policy)

    def prior_answer(self, last: bool) -> Answer:
        """Independent draws of the prior, for data that say nothing: as many as the target error asks for."""
        count = max(_FEWEST_OF_PRIOR, self.call.target_error**-2)
        points = prior_points(self.target, 1 << math.ceil(math.log2(count / GROUPS)), self.call)
        diagonal = log_diagonal(self.target, points, self.target.rotation)
        groups = np.repeat(np.arange(GROUPS), len(points) // GROUPS)
        estimate = Estimate(
            "draws of the prior", np.zeros(len(points)), groups, diagonal, lambda: points, 0.0, 0.0
        )
        return Answer(estimate, 0.0, Diagnostics("prior", float(len(points))))

    def quadrature_answer(self, last: bool) -> Answer:
        """Deterministic evidence and independent draws of data of rank one: there is nothing to check."""
        estimate, doubts = rank_one_estimate(self.target, self.call)
        own = self.target.likelihood  # of the kernel itself `run` says that it is dual
        name = "quadrature" if isinstance(own, GaussianLikelihood) and own.of_kernel else "dual quadrature"
        return verdict(name, estimate, None, self.call, needs_check=False, advice=TAKE_OR_RAISE, more=doubts)

    def gaussian_answer(self, last: bool) -> Answer | None:
        """The Gaussian at the mode, where it is ok: it misses other phases, and is checked with other axes.

        One that has seen the posterior from all sides needs no check where rows do not apply.
        """
        found = self.gaussian
        if not last and not reaches(found, self.call):
            return None
        answer = self.checked(plain_estimate(found), self._other_axes(found))
        alone = len(answer.diagnostics.estimates) == 1 and found.effective_share >= self.policy.gaussian_alone
        if alone and self.rows is None:
            answer = self.checked(plain_estimate(found), (), needs_check=False)
        return answer if last or answer.diagnostics.ok else None

    def _other_axes(self, found: Estimate) -> Iterator[Estimate]:
        """Draws of the Gaussian with other axes, where these can be had."""
        other, proposal = self.other_mode
        if other is not self.target:
            size = 2 * len(found.log_weights) // GROUPS  # in other axes fewer of them are effective
            name = "Gaussian at the mode with other axes"
            yield gaussian_round(other, proposal, self.call, name, self.target, size)

    def rows_answer(self, last: bool) -> Answer | None:
        """Rows where they apply and serve; their answer as it is where nothing comes after, or no Hessian."""
        if self.rows is None:
            return self.gaussian_answer(last) if last else None
        estimate, _ = self.rows
        if not last and (self._hopeless(estimate) or (self.curved and not reaches(estimate, self.call))):
            return None
        answer = self.answer_of_rows
        return answer if answer.diagnostics.ok or last or not (self.small or self.narrow) else None

    @cached_property
    def answer_of_rows(self) -> Answer:
        """The better order of the axes, checked by the other one, else by the Gaussian at the mode."""
        assert self.rows is not None
        estimate, other = self.rows
        pace = in_words(forecast(estimate, self.call))
        more = () if reaches(estimate, self.call) else (f"by rows the target error would take about {pace}",)

        def checks() -> Iterator[Estimate | None]:
            yield other
            if self.curved and (other is None or not can_check(other, self.policy)):
                best = estimate.points[np.argmax(estimate.log_weights)]
                yield self._near(self.target, best, "Gaussian at the mode near the best row draw")

        return self.checked(estimate, checks(), more=more)

    def _near(self, target: Target, start: Array, method: str) -> Estimate:
        """One round of the Gaussian at the mode near start (k,)."""
        proposal = laplace_proposal(target, start, self.policy)
        return gaussian_round(target, proposal, self.call, method, self.target)

    def _hopeless(self, rows: Estimate) -> bool:
        """Whether rows behind a narrow layer are too few for others not to be preferred."""
        return self.narrow and rows.effective_sample_size < min(
            self.policy.fewest_narrow_rows, self.call.effective
        )

    def mixture_answer(self, last: bool) -> Answer | None:
        """A mixture over all phases, where it reaches the target error or nothing comes after."""
        estimate, mixture = self.fitted
        if not last and not reaches(estimate, self.call):
            return None
        answer = self.checked(estimate, self._of_factors(estimate, mixture))
        alone = len(answer.diagnostics.estimates) == 1 and not self.call.options.rough
        return None if alone and not last else answer

    def _of_factors(self, estimate: Estimate, mixture: Mixture) -> Iterator[Estimate]:
        """Estimates that need nothing but the plain product of all factors, then rows of T.

        A Gaussian covers one phase; so a mixture follows that is fitted to draws of the first estimate.
        """
        turned = self.target.in_frame(mixture.parts[int(np.argmax(mixture.shares[:-1]))].frame)
        drawn = self._drawn(estimate, "draws that checks start from")
        climbers = turned_points(drawn[:_CLIMBERS], self.target, turned)
        best = climbers[np.argmax(turned.log_density(climbers))]
        yield self._near(turned, best, "Gaussian at the mode near the best draw")
        labels = mixture.labels(TotalTarget(self.target).roots_of(drawn))
        yield factors_estimate(FactorSpace(turned), self.target, drawn, labels, self.call)
        if self.rows is not None:
            yield self.rows[0]

    def _drawn(self, estimate: Estimate, stream: str) -> Array:
        """Draws of an estimate by their weights, (`_FITTED_FROM`, D)."""
        rng = self.call.stream(stream)
        return estimate.points[rng.choice(len(estimate.weights), size=_FITTED_FROM, p=estimate.weights)]

    def spectral_answer(self, last: bool) -> Answer:
        """Sequential Monte Carlo in spectral coordinates, with the check of another sampler."""
        needs_check = not self.call.options.rough
        check = self._spectral_check() if needs_check else None
        beside = check.error if isinstance(check, EvidenceEstimate) else math.inf
        estimate = spectral_estimate(self.target, self.call, beside)
        return verdict("smc", estimate, check, self.call, needs_check=needs_check)

    def _spectral_check(self) -> Estimate | EvidenceEstimate:
        """Rows, if they can be trusted and their two orders of the axes agree; else the reverse way."""
        if self.rows is not None and can_check(self.rows[0], self.policy):
            first, other = self.rows
            doubted = other is not None and can_check(other, self.policy)
            if other is None or not doubted or agree(first, other, self.policy):
                return first
        return reverse_estimate(self.target, self.call)

    def smc_answer(self, last: bool) -> Answer | None:
        """Sequential Monte Carlo with Hamiltonian moves, from a mixture or from the Gaussian at the mode."""
        answer = self._after_mixture() if self.small else self._in_many_dimensions()
        return answer if last or answer.diagnostics.ok else None

    def _after_mixture(self) -> Answer:
        """From the best mode, or from the moments of the mixture, whose evidence is the better one.

        Moves give the means, where weights have a tail; the mixture, if it agrees, has the log evidence (26
        truth problems: sequential Monte Carlo was low by 1.7 of its errors on average, by 4.1 in one). A
        mixture with a heavy tail looks better than it is: it agrees with what misses the same part. So it
        confirms a path only with as many effective draws as an answer has (five layers of four units: both
        low by 0.55 with errors of 0.04, where the mixture had some hundred of 16,384).
        """
        found, _ = self.fitted
        best = found.points[np.argmax(self.target.log_density(found.points))]
        moments = gaussian_of(self._drawn(found, "draws that a path starts from"), self.policy)
        start, _ = self._smoothest([laplace_proposal(self.target, best, self.policy), moments])

        def checks() -> Iterator[Estimate | None]:
            yield found if found.effective_sample_size >= self.policy.fewest_effective else None
            yield None if self.rows is None else self.rows[0]

        answer = self.checked(smc_estimate(self.target, start, self.call), checks())
        error = found.independent_error
        by_found = answer.diagnostics.ok and answer.diagnostics.estimates[-1].method == found.method
        if not by_found or error > self.call.target_error:
            return answer
        told = replace(answer.estimate, log_evidence=found.log_evidence, log_evidence_error=error)
        first = replace(answer.diagnostics, estimates=answer.diagnostics.estimates[::-1])
        return replace(answer, estimate=told, log_evidence_error=error, diagnostics=first)

    def _in_many_dimensions(self) -> Answer:
        """From the Gaussian at the mode or with the moments of rows, checked by either if they can.

        Behind a narrow layer else by one round of a path from the Gaussian with other axes first. (20 tables
        with 24 to 50 outputs behind 5 to 15 units: the Gaussian alone was right wherever it could check, and
        served in 5.)
        """
        rows = None if self.rows is None or self._hopeless(self.rows[0]) else self.rows[0]
        target, start = self.mode
        if not self.relative:
            moments = [] if rows is None else [gaussian_of(rows.points, self.policy)]
            start, roughness = self._smoothest([start, *moments])
            if rows is not None and _interdecile(rows.log_weights) < roughness:
                return self.answer_of_rows  # what a path from a worse start would end in is worse still
        estimate = plain_estimate(smc_estimate(target, start, self.call, self.target))

        def checks() -> Iterator[Estimate | None]:
            yield rows
            if self.curved or self.relative:
                yield plain_estimate(self.gaussian)
            if self.relative and reaches(estimate, self.call):
                path = Path(*self.other_mode, self.call.within("another start"), axes=self.target)
                again = plain_estimate(path.round())
                self.call.spend(path.work)
                yield replace(again, method=f"{again.method} from another start")

        return self.checked(estimate, checks())

    def _smoothest(self, starts: list[GaussianProposal]) -> tuple[GaussianProposal, float]:
        """The start of a path with the smallest interdecile range of log weights, and that range.

        Coupled noise with missing cells has narrow maxima of little mass at nearly singular scales. A path
        from there stays there: it was low by 7 nats, from the moments of the draws by less than its error.
        """
        rough = [
            _interdecile(weighted_draws(self.target, start, _PILOT, self.call.stream(f"start {number}"))[1])
            for number, start in enumerate(starts)
        ]
        best = int(np.argmin(rough))
        return starts[best], rough[best]


def _interdecile(log_weights: Array) -> float:
    """Range of the middle four fifths of log weights (m,); infinite where many draws have none."""
    low, high = np.quantile(log_weights, (0.1, 0.9), method="nearest")
    return float(high - low) if np.isfinite(low) else math.inf
