"""The engines: a plan is executed, and its answer made into a measure of the scale.

`infer` is the entry: prior × likelihood → measure, evidence, diagnostics. `Sampling` runs the steps that
draw, for the scale L or for the kernel of the last hidden layer; an estimate that was made is kept, so that
nothing is drawn twice. The one budget and the random streams are those of the `Call`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from lbnn._base.small_matrices import one_sign
from lbnn._base.types import Array, IndexArray
from lbnn.engines.estimate import Answer, Call, Estimate
from lbnn.engines.importance import (
    GaussianProposal,
    gaussian_importance,
    gaussian_of,
    gaussian_round,
    laplace_proposal,
    nearby_proposal,
    prior_importance,
    prior_points,
    weighted_draws,
)
from lbnn.engines.inference import Diagnostics, EvidenceEstimate, InferenceOptions, ScaleInference
from lbnn.engines.integrand import IntegrandCheck
from lbnn.engines.laws import FactorLaw, SampledLaw
from lbnn.engines.mixture import (
    Mixture,
    factors_estimate,
    laplace_mixture,
    mixture_estimate,
    unfitted_estimate,
)
from lbnn.engines.policy import GROUPS
from lbnn.engines.quadrature import infer_quadrature, rank_one_estimate
from lbnn.engines.relative_rows import plain_estimate, relative_gaussian, relative_rows_apply
from lbnn.engines.rowwise import rough_rows, row_estimates
from lbnn.engines.smc import Path, smc_estimate
from lbnn.engines.spectral import reverse_estimate, spectral_estimate
from lbnn.engines.strategy import Plan, Problem, Step, plan, scale_steps
from lbnn.engines.target import ScaleLikelihood, Target, log_diagonal, turned_points
from lbnn.engines.total_target import FactorSpace, TotalTarget
from lbnn.engines.verdict import (
    TAKE_OR_RAISE,
    agree,
    can_check,
    evidence_agrees,
    in_words,
    means_message,
    reaches,
    verdict,
)
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.hidden_kernel import dual, dual_prior, primal_factors
from lbnn.likelihood.observed import CellsOfKernel
from lbnn.likelihood.plain import PlainFormula
from lbnn.likelihood.root import Scatter
from lbnn.scale.bartlett import product
from lbnn.scale.layer_factors import layer_factors
from lbnn.scale.measure import ScaleMeasure, Tails, eigen
from lbnn.scale.prior import ScalePrior

_LARGEST_SAMPLE = 1 << 25  # floats that atoms or their coordinates may fill
_MOST_ATOMS = 8192  # of sequential Monte Carlo, whose neighbouring draws are correlated
_FEWEST_OF_PRIOR = 1024
_PILOT = 128  # draws by which two starts of sequential Monte Carlo are compared
_CLIMBERS = 64  # draws among which the start of a search for a mode is the best
#: Operations of a gradient up to which a table with missing cells is treated as any other likelihood:
#: mixtures over all modes then take seconds, and rows for the completed table once missed 0.2 nats.
_CHEAP = 5e6
_FITTED_FROM = 2048  # draws to which the mixture of a cross-check is fitted at first


def infer(
    prior: ScalePrior,
    likelihood: ScaleLikelihood,
    single_output: bool,
    options: InferenceOptions,
    plain: PlainFormula | None = None,
) -> ScaleInference:
    """Plan and run; the integrand is compared with the plain likelihood where that is given."""
    check = None if plain is None or likelihood.flat else IntegrandCheck(plain)
    steps = plan(problem_of(prior, likelihood), options.engine, options.rough)
    if steps.engine in ("atom", "quadrature"):
        answer = (
            infer_atom(prior, likelihood, single_output)
            if steps.engine == "atom"
            else infer_quadrature(prior, _gaussian(likelihood), single_output)
        )
        if check is not None:
            scales = answer.measure.scales[check.few(answer.measure.weights)]
            values = likelihood.log_constant + likelihood.log_value(*eigen(scales))
            lost = check.scales(scales, values, options.target_error)
            return answer.doubted(lost) if lost else answer
        return answer
    run = Run(prior, likelihood, single_output, Call(options), check)
    try:
        return run(steps)
    finally:
        run.call.progress.close()


def infer_atom(prior: ScalePrior, likelihood: ScaleLikelihood, single_output: bool) -> ScaleInference:
    """Depth one: L is fixed, and the posterior is a Gaussian process."""
    measure = ScaleMeasure.atom(prior.variance * np.eye(prior.outputs), single_output)
    log_evidence = likelihood.log_constant + float(likelihood.log_value(*measure.eigen)[0])
    return ScaleInference(measure, log_evidence, 0.0, Diagnostics("atom", math.inf))


def _gaussian(likelihood: object) -> GaussianLikelihood:
    """The likelihood, where a plan asks for what only data with common axes have."""
    assert isinstance(likelihood, GaussianLikelihood)
    return likelihood


def _cells(likelihood: ScaleLikelihood) -> CellsOfKernel | None:
    """A table with missing cells as a function of the hidden kernel, where it is one."""
    return None if isinstance(likelihood, GaussianLikelihood) else likelihood.kernel


def problem_of(prior: ScalePrior, likelihood: ScaleLikelihood) -> Problem:
    """What a plan depends on."""
    scale, deficient = likelihood.noise_variance > 0 or prior.full_rank, _is_deficient(likelihood)
    if isinstance(likelihood, GaussianLikelihood):
        rank, one = len(likelihood.eigenvalues), likelihood.multiplicity == 1
        kernel = one and not (likelihood.flat or likelihood.dual_deficient)
        number = one and (likelihood.noise_variance > 0 or bool(likelihood.targets.any()))
        rank = 0 if likelihood.flat else rank
        return Problem(prior.widths, prior.outputs, rank, kernel, scale, deficient, number=number)
    cells = likelihood.kernel
    return Problem(
        prior.widths,
        prior.outputs,
        len(likelihood.eigenvalues) if cells is None else cells.rank,
        cells is not None,
        scale,
        deficient,
        completed=likelihood.operations > _CHEAP and likelihood.surrogate is not None,
        number=False,
        complete=False,
    )


def _is_deficient(likelihood: ScaleLikelihood) -> bool:
    """Whether a singularity at singular scales is taken into the prior.

    Of tables with missing cells it is integrable, and what is left of it is for the samplers.
    """
    noiseless = likelihood.noise_variance == 0 and not likelihood.flat
    return noiseless and isinstance(likelihood, GaussianLikelihood) and not likelihood.keeps_from_zero


class Run:
    """One call for several outputs: the samplings of the scale and of the hidden kernel, each made once."""

    def __init__(
        self,
        prior: ScalePrior,
        likelihood: ScaleLikelihood,
        single_output: bool,
        call: Call,
        check: IntegrandCheck | None,
    ) -> None:
        self.prior, self.likelihood, self.single_output = prior, likelihood, single_output
        self.problem, self.call, self.check = problem_of(prior, likelihood), call, check
        self.samplings: dict[str, Sampling] = {}

    def __call__(self, steps: Plan) -> ScaleInference:
        """Part by part, each for one matrix: the first answer that is ok, or else the first that there is."""
        answers: list[ScaleInference] = []
        parts = steps.parts()
        for number, part in enumerate(parts):
            answer = self._sampling(part[0].of).run(part)
            if answer is None:
                continue
            inference = self._inference(part[0].of, answer)
            rows_first = number == 0 < len(parts) - 1 and part[0].of == "scale"
            rough = self.call.options.rough  # one of many models: the first answer will do
            if inference.diagnostics.ok or rough or (rows_first and self._serves(answer)):
                return inference
            if not rows_first:
                answers.append(inference)
        return answers[0]

    def _serves(self, answer: Answer) -> bool:
        """Whether rows before the kernel have as many draws as asked for, ok or not."""
        wanted = max(self.call.target_error**-2, self.call.policy.rows_before_kernel)
        return answer.diagnostics.effective_sample_size >= wanted

    def _sampling(self, of: str) -> Sampling:
        """The sampling of L or of the kernel, made once: what it has drawn is kept."""
        if of not in self.samplings:
            spectral = of == "scale" and self.problem.spectral(self.call.policy)
            self.samplings[of] = Sampling(
                self._target(of), self.call.within(of), spectral, self.problem.completed
            )
        return self.samplings[of]

    def _target(self, of: str) -> Target:
        if of == "kernel":
            return dual_target(self.prior, self.likelihood)
        if self.problem.deficient:
            return deficient_target(self.prior, _gaussian(self.likelihood))
        return primal_target(self.prior, self.likelihood)

    def _target_of(self, answer: Answer, of: str) -> Target:
        """The target whose coordinates the draws of an answer have."""
        return answer.estimate.target or self._sampling(of).target

    def _inference(self, of: str, answer: Answer) -> ScaleInference:
        if of == "kernel":
            return self._of_kernel(answer)
        return self._of_deficient(answer) if self.problem.deficient else self._of_scale(answer)

    def _of_scale(self, answer: Answer) -> ScaleInference:
        """Draws of L by its Bartlett factors in the axes of the data."""
        target, likelihood = self._target_of(answer, "scale"), self.likelihood
        answer = self._affordable(answer, "scale")
        measure = self._measure(target.scales(answer.points), answer, self._inverse_mean_exists)
        lost = ""
        if self.check is not None:
            few = self.check.few(answer.weights)
            values = likelihood.log_constant + target.integrand(answer.points[few])
            lost = self.check.scales(measure.scales[few], values, self.call.target_error)
        kept = replace(answer, estimate=answer.estimate.stored())
        options, policy = self.call.options, self.call.policy
        law = SampledLaw(target, kept, measure.scales, self.prior, options, draw_posterior, policy)
        inference = _inference(measure._with_law(law), answer, likelihood.log_constant)
        return inference.doubted(lost) if lost else inference

    def _of_deficient(self, answer: Answer) -> ScaleInference:
        """The same where the determinant of the outputs without targets was taken into the prior."""
        target, prior, likelihood = self._target_of(answer, "scale"), self.prior, self.likelihood
        zeros = _gaussian(target.likelihood).zeros
        null = target.rotation[:, :zeros]
        exists = min(prior.widths) >= zeros + likelihood.examples + 2
        measure = self._measure(target.scales(answer.points), answer, exists)
        if self.check is not None:
            few = self.check.few(answer.weights)
            values = target.integrand(answer.points[few])
            block = null.T @ measure.scales[few] @ null  # C, whose determinant was taken out
            values = values - 0.5 * likelihood.examples * np.linalg.slogdet(block)[1]
            self.check.scales(measure.scales[few], likelihood.log_constant + values, self.call.target_error)
        law = FactorLaw(answer.weights, measure.scales, target.factors(answer.points))
        moment = prior._log_negative_moment(zeros, likelihood.examples)
        return _inference(measure._with_law(law), answer, likelihood.log_constant + moment)

    def _of_kernel(self, answer: Answer) -> ScaleInference:
        """Draws of the factors of the last hidden kernel Λ, and of those of L given each of them."""
        target, prior = self._target_of(answer, "kernel"), self.prior
        likelihood = self.likelihood
        answer = self._affordable(answer, "kernel")
        if self.check is not None:
            few = self.check.few(answer.weights)
            values = target.integrand(answer.points[few])
            self.check.kernels(target.scales(answer.points[few]), likelihood.log_constant + values)
        rng = self.call.stream("factors of the scale given the kernel")
        reverse = dual_prior(prior, self.problem.rank)
        kernel_factors = layer_factors(target.factors(answer.points), reverse, rng)
        own = _cells(likelihood) or _gaussian(likelihood)
        factors = primal_factors(kernel_factors, prior, own, rng)
        root = product(factors)
        assert root is not None
        measure = self._measure(root @ root.swapaxes(1, 2), answer, self._inverse_mean_exists)
        law = FactorLaw(answer.weights, measure.scales, factors)
        inference = _inference(measure._with_law(law), answer, likelihood.log_constant)
        told = replace(inference.diagnostics, engine=f"dual {answer.diagnostics.engine}")
        with np.errstate(divide="ignore"):
            few_draws = means_message(answer.estimate, np.log((root**2).sum(axis=2)), self.call.policy)
        return replace(inference, diagnostics=told.with_message(few_draws) if few_draws else told)

    def _affordable(self, answer: Answer, of: str) -> Answer:
        """The draws, resampled to fewer where so many matrices (n_d, n_d) would not fit into memory."""
        most = max(_LARGEST_SAMPLE // self.prior.outputs**2, 1)
        if len(answer.points) <= most:
            return answer
        rng = self.call.stream(f"draws of the {of} that are kept")
        index = np.sort(rng.choice(len(answer.points), size=most, p=answer.weights))
        size = min(answer.diagnostics.effective_sample_size, float(len(np.unique(index))))
        kept = _taken(answer.estimate, index, np.zeros(most))
        return replace(
            answer, estimate=kept, diagnostics=replace(answer.diagnostics, effective_sample_size=size)
        )

    @property
    def _inverse_mean_exists(self) -> bool:
        return self.prior.inverse_mean_exists or self.likelihood.keeps_from_zero

    def _measure(self, scales: Array, answer: Answer, inverse_mean_exists: bool) -> ScaleMeasure:
        """The measure with scales (m, n_d, n_d)."""
        tails = Tails(inverse_mean_exists, self.prior.exponential_rate, min(self.prior.widths))
        groups = answer.estimate.groups
        return ScaleMeasure(scales, answer.weights, self.single_output, tails, None, groups)


def _inference(measure: ScaleMeasure, answer: Answer, log_constant: float) -> ScaleInference:
    """The answer, with what the target leaves out of the log evidence put back, for all estimates."""
    diagnostics = answer.diagnostics.shifted(log_constant)
    return ScaleInference(measure, log_constant + answer.log_evidence, answer.log_evidence_error, diagnostics)


def _taken(estimate: Estimate, index: IndexArray | slice, log_weights: Array | None = None) -> Estimate:
    """Some of the draws of an estimate, index (k,)."""
    weights = estimate.log_weights[index] if log_weights is None else log_weights
    return replace(
        estimate,
        log_weights=weights,
        groups=estimate.groups[index],
        log_diagonal=estimate.log_diagonal[index],
        locate=lambda: estimate.points[index],
    )


# ---------------------------------------------------------------- targets


def primal_target(prior: ScalePrior, likelihood: ScaleLikelihood) -> Target:
    """The posterior of L in the axes of the data, whatever signs a library gives to eigenvectors."""
    axes = one_sign(principal_axes(likelihood.gradient_rows, prior.widths))
    return Target(prior.coordinates, likelihood, axes)


def deficient_target(prior: ScalePrior, likelihood: GaussianLikelihood) -> Target:
    """Zero temperature with targets of deficient rank; outputs are turned so that zero targets come first.

    There det(C)^{−p/2}, C the leading block of L, is singular where C is, and nothing in the data keeps L
    away. Bartlett factors are triangular, so that it only takes p degrees of freedom off their first diagonal
    entries: it belongs to the prior, and what remains is bounded.
    """
    rank = int(np.linalg.matrix_rank(likelihood.targets))
    right, zeros = np.linalg.svd(likelihood.targets, full_matrices=True).Vh, prior.outputs - rank
    rotation = one_sign(np.concatenate([right[rank:], right[:rank]]).T)
    coordinates = prior._tilted_coordinates(zeros, likelihood.examples)
    return Target(coordinates, replace(likelihood, zeros=zeros), rotation, any_frame=False)


def dual_target(prior: ScalePrior, likelihood: ScaleLikelihood) -> Target:
    """The posterior of the last hidden kernel Λ in the axes of the data."""
    cells = _cells(likelihood)
    data = dual(_gaussian(likelihood)) if cells is None else cells
    rank = len(likelihood.eigenvalues) if cells is None else cells.rank
    coordinates = dual_prior(prior, rank).coordinates
    return Target(coordinates, data, principal_axes(data.gradient_rows, prior.widths))


def principal_axes(rows: Array, widths: tuple[int, ...]) -> Array:
    """Orthonormal axes of the columns of `rows` (m, n), as columns (n, n): weakest first.

    Then a weak direction of L is one small diagonal entry. Behind a bottleneck, where the last rows of T are
    combinations of the first, the strongest come first.
    """
    axes = np.linalg.svd(rows, full_matrices=len(rows) < rows.shape[1]).Vh.T
    return axes if min(widths) < len(axes) else axes[:, ::-1].copy()


# ---------------------------------------------------------------- steps


def draw_posterior(target: Target, options: InferenceOptions, call: Call | None = None) -> Answer:
    """The answer for any target in Bartlett coordinates, by the steps for a matrix of its size.

    Data with common axes and noise have spectral moves behind a narrow layer, as in `infer`.
    """
    own = call or Call(options)
    law, likelihood = TotalTarget(target).law, target.likelihood
    widths = tuple(shape.width for shape in reversed(target.coordinates.shapes))
    problem = Problem(widths, law.rows, law.rows, kernel=False)
    if isinstance(likelihood, GaussianLikelihood) and likelihood.noise_variance and not likelihood.of_kernel:
        kernel = not likelihood.dual_deficient and likelihood.multiplicity == 1
        problem = replace(problem, rank=len(likelihood.eigenvalues), kernel=kernel)
    sampling = Sampling(target, own, problem.spectral(own.policy))
    steps = scale_steps(problem, options.engine, options.rough, own.policy)
    try:
        answer = sampling.run(steps)
    finally:
        own.progress.close()
    assert answer is not None  # the last step always answers
    return answer


class Sampling:
    """Estimates of one posterior in Bartlett coordinates, each made once, and the steps that ask for them."""

    def __init__(self, target: Target, call: Call, spectral: bool = False, completed: bool = False) -> None:
        """Of a problem where `spectral` moves serve, or with `completed` targets (see `Problem`)."""
        self.target, self.call, self.policy = target, call, call.policy
        law = TotalTarget(target).law
        self.narrow = spectral or law.columns < law.rows
        self.small = law.dimension <= call.policy.most_for_mixture
        self.limited = self.narrow or (self.small and not completed)  # other estimates follow: little work
        own = target.likelihood
        rows = isinstance(own, GaussianLikelihood) and not (own.of_kernel or own.zeros)
        self.complete = rows or isinstance(own, Scatter)  # data with common axes, as a function of L

    def run(self, steps: tuple[Step, ...]) -> Answer | None:
        """The answer of the first step that serves; None where a single step of rows does not apply."""
        for number, step in enumerate(steps):
            method = getattr(self, f"_{step.name.replace(' ', '_')}")
            answer: Answer | None = method(last=number + 1 == len(steps))
            if answer is not None:
                return answer
        return None

    # -- estimates, each made once

    @cached_property
    def rows(self) -> tuple[Estimate, Estimate | None, float | None] | None:
        """Draws by rows in the better order of the axes, those in the other, and seconds that are missing."""
        return row_estimates(self.target, self.call, self.limited)

    @cached_property
    def answer_of_rows(self) -> Answer:
        """The better order of the axes, checked by the other one, or by the Gaussian at the mode."""
        assert self.rows is not None
        estimate, check, seconds = self.rows
        if check is not None and not can_check(check, self.policy):
            check = None
        if check is None and self.target.dimension <= self.policy.most_for_curvature:
            best = estimate.points[np.argmax(estimate.log_weights)]
            check = self._gaussian_check(self.target, best, "Gaussian at the mode near the best row draw")
        more = [] if seconds is None else [f"by rows the target error would take about {in_words(seconds)}"]
        return verdict("importance", estimate, check, self.call, more=more)

    @cached_property
    def few_rows(self) -> Estimate | None:
        """A few dozen effective draws by rows; None where these cannot be had."""
        return rough_rows(self.target, self.call)

    @cached_property
    def laplace(self) -> Mixture:
        """One part for every mode of the posterior of T."""
        self.call.progress.say("modes of the posterior")
        return laplace_mixture(TotalTarget(self.target))

    @cached_property
    def fitted(self) -> tuple[Estimate, Mixture]:
        """Draws of a mixture fitted to the posterior of T."""
        return mixture_estimate(self.laplace, self.call)

    @cached_property
    def mode(self) -> GaussianProposal:
        """The Gaussian at the mode of all factors."""
        return laplace_proposal(self.target, policy=self.policy)

    @cached_property
    def gaussian(self) -> Estimate:
        """Draws of the Gaussian at the mode of all factors."""
        return gaussian_importance(self.target, self.mode, self.call, "Gaussian at the mode")

    @cached_property
    def relative(self) -> tuple[Target, GaussianProposal] | None:
        """The posterior with rows of T_d measured by its square block, and the Gaussian at its mode."""
        return relative_gaussian(self.target) if relative_rows_apply(self.target) else None

    @cached_property
    def other_relative(self) -> tuple[Target, GaussianProposal]:
        """The same with the strongest axes first: T is another matrix, and so is its square block."""
        return relative_gaussian(self.target, strongest_first=True)

    # -- steps

    def _prior(self, last: bool) -> Answer:
        """Independent draws of the prior, for data that say nothing: as many as the target error asks for."""
        count = max(_FEWEST_OF_PRIOR, self.call.target_error**-2)
        points = prior_points(self.target, 1 << math.ceil(math.log2(count / GROUPS)), self.call)
        diagonal = log_diagonal(self.target, points, self.target.rotation)
        groups = np.repeat(np.arange(GROUPS), len(points) // GROUPS)
        estimate = Estimate(
            "draws of the prior", np.zeros(len(points)), groups, diagonal, lambda: points, 0.0, 0.0
        )
        return Answer(estimate, 0.0, Diagnostics("prior", float(len(points))))

    def _quadrature(self, last: bool) -> Answer:
        """Deterministic evidence and independent draws: there is nothing to check."""
        target = self.target
        estimate, doubts = rank_one_estimate(target, self.call)
        name = "quadrature" if _gaussian(target.likelihood).of_kernel else "dual quadrature"
        return verdict(name, estimate, None, self.call, needs_check=False, advice=TAKE_OR_RAISE, more=doubts)

    def _rough_rows(self, last: bool) -> Answer | None:
        """A few dozen effective draws by rows, without a check; None where these cannot be had."""
        few = self.few_rows
        return None if few is None else verdict("importance", few, None, self.call, needs_check=False)

    def _rows(self, last: bool) -> Answer | None:
        """Rows where they apply and serve; their answer as it is where nothing comes after."""
        if self.rows is None:
            return None
        estimate = self.rows[0]
        many = self.target.dimension > self.policy.most_for_curvature
        if not last and (self._hopeless(estimate) or not (reaches(estimate, self.call) or many)):
            return None
        answer = self.answer_of_rows
        return answer if answer.diagnostics.ok or last or not (self.small or self.narrow) else None

    def _gaussian(self, last: bool) -> Answer | None:
        """The Gaussian at the only mode, if it is nearly the posterior and another estimate agrees."""
        mixture = self.laplace
        if mixture.modes > 1:
            return None
        turned = self.target.in_frame(mixture.parts[0].frame)
        proposal = nearby_proposal(turned, mixture.start(turned.coordinates), self.policy)
        method = "Gaussian at the mode of all factors"
        estimate = gaussian_importance(turned, proposal, self.call, method, self.target)
        serves = reaches(estimate, self.call) and estimate.effective_share >= self.policy.gaussian_share
        if not serves:
            return None
        for check in self._quick_checks(mixture):
            if can_check(check, self.policy) and agree(estimate, check, self.policy):
                return verdict("importance", estimate, check, self.call)
        return None

    def _quick_checks(self, mixture: Mixture) -> Iterator[Estimate]:
        """Draws of the prior; a few of the mixture, unless it has parts for means carried by a tail."""
        yield prior_importance(self.target, self.call)
        if not mixture.tails:
            yield unfitted_estimate(mixture, self.call)

    def _mixture(self, last: bool) -> Answer | None:
        """A mixture over all phases, where it reaches the target error or nothing comes after."""
        estimate, mixture = self.fitted
        if self.call.options.rough and estimate.effective_sample_size >= self.policy.rough_effective / 4:
            return verdict("importance", estimate, None, self.call, needs_check=False)
        if not last and not reaches(estimate, self.call):
            return None
        trusted: Estimate | None = None
        for check in self._checks(estimate, mixture):
            if can_check(check, self.policy):
                trusted = check
                if agree(estimate, check, self.policy) or self._is_low(estimate, check):
                    break
        if trusted is None and not last and not self.complete:
            return None  # a path that starts from the moments of these draws can check them
        return verdict("importance", estimate, trusted, self.call)

    def _is_low(self, estimate: Estimate, check: Estimate) -> bool:
        """Whether a check is higher by more than chance, which no other check settles.

        A check that misses a part of the posterior is low, and another one may see that part (4 of the 240
        truth problems that were looked at). None was higher: an estimate that is low misses a part itself, or
        its density is wrong, as it then is in every check that shares the density.
        """
        higher = check.log_evidence > estimate.log_evidence
        return higher and not evidence_agrees(estimate, check, self.policy)

    def _checks(self, estimate: Estimate, mixture: Mixture) -> Iterator[Estimate]:
        """Estimates that need nothing but the plain product of all factors, then rows of T.

        A Gaussian covers one phase; so a mixture follows that is fitted to draws of the first estimate.
        """
        turned = self.target.in_frame(mixture.parts[int(np.argmax(mixture.shares[:-1]))].frame)
        rng = self.call.stream("draws that checks start from")
        drawn = estimate.points[rng.choice(len(estimate.weights), size=_FITTED_FROM, p=estimate.weights)]
        climbers = turned_points(drawn[:_CLIMBERS], self.target, turned)
        best = climbers[np.argmax(turned.log_density(climbers))]
        proposal = laplace_proposal(turned, best, self.policy)
        yield gaussian_round(
            turned, proposal, self.call, "Gaussian at the mode near the best draw", self.target
        )
        labels = mixture.labels(TotalTarget(self.target).roots_of(drawn))
        yield factors_estimate(FactorSpace(turned), self.target, drawn, labels, self.call)
        if self.rows is not None:
            yield self.rows[0]

    def _relative_gaussian(self, last: bool) -> Answer | None:
        return self.relative_answer

    @cached_property
    def relative_draws(self) -> Estimate:
        """Draws of the Gaussian at the mode in relative coordinates."""
        assert self.relative is not None
        return gaussian_importance(*self.relative, self.call, "relative rows", self.target)

    @cached_property
    def relative_answer(self) -> Answer | None:
        """The Gaussian at the mode in relative coordinates, if it is ok; checked with other axes first."""
        if self.relative is None or not reaches(self.relative_draws, self.call):
            return None
        found, (other, beside) = self.relative_draws, self.other_relative
        method, size = "relative rows with the axes in another order", len(found.log_weights) // GROUPS
        check = gaussian_round(other, beside, self.call, method, self.target, size)
        trusted = check if can_check(check, self.policy) else None
        alone = found.effective_share >= self.policy.gaussian_alone
        estimate = plain_estimate(found, self.relative[0])
        answer = verdict("importance", estimate, trusted, self.call, needs_check=not alone)
        return answer if answer.diagnostics.ok else None

    def _wide_gaussian(self, last: bool) -> Answer | None:
        """The Gaussian at the mode in many dimensions, where it is ok; where nothing follows, it or rows."""
        if not last and not reaches(self.gaussian, self.call):
            return None
        fewer = self.gaussian.effective_sample_size
        if last and self.rows is not None and fewer < self.rows[0].effective_sample_size:
            return self.answer_of_rows
        alone = self.gaussian.effective_share >= self.policy.gaussian_alone
        answer = verdict("importance", self.gaussian, self._turned_check(), self.call, needs_check=not alone)
        return answer if last or answer.diagnostics.ok else None

    def _turned_check(self) -> Estimate | None:
        """The Gaussian at the mode in the frame in which the scale is diagonal there, if that serves."""
        mode = self.mode.mean
        frame = one_sign(np.linalg.eigh(self.target.scales(mode[None])[0]).eigenvectors[:, ::-1])
        other = self.target.in_frame(frame)
        if other is self.target:
            return None
        start = turned_points(mode[None], self.target, other)[0]
        return self._gaussian_check(other, start, "Gaussian at the mode in another frame")

    def _gaussian_check(self, target: Target, start: Array, method: str) -> Estimate | None:
        """One round of the Gaussian at the mode near start (k,), if it can check another estimate."""
        proposal = laplace_proposal(target, start, self.policy)
        check = gaussian_round(target, proposal, self.call, method, self.target)
        return check if can_check(check, self.policy) else None

    def _spectral_smc(self, last: bool) -> Answer:
        """Sequential Monte Carlo in spectral coordinates, with the check of another sampler."""
        needs_check = not self.call.options.rough
        check = self._spectral_check() if needs_check else None
        beside = check.error if isinstance(check, EvidenceEstimate) else math.inf
        estimate = spectral_estimate(self.target, self.call, beside)
        answer = verdict("smc", estimate, check, self.call, needs_check=needs_check, advice=TAKE_OR_RAISE)
        return self._thinned(answer)

    def _spectral_check(self) -> Estimate | EvidenceEstimate:
        """Rows, if they can be trusted and their two orders of the axes agree; else the reverse way."""
        if self.rows is not None and can_check(self.rows[0], self.policy):
            first, other, _ = self.rows
            doubted = other is not None and can_check(other, self.policy)
            if other is None or not doubted or agree(first, other, self.policy):
                return first
        return reverse_estimate(self.target, self.call)

    def _smc(self, last: bool) -> Answer | None:
        """Sequential Monte Carlo; its check is the mixture, or rows and the Gaussian in many dimensions."""
        answer = self._smc_after_mixture() if self.small else self._smc_in_many_dimensions()
        return answer if last or answer.diagnostics.ok else None

    def _smc_after_mixture(self) -> Answer:
        found, _ = self.fitted
        best = found.points[np.argmax(self.target.log_density(found.points))]
        index = self.call.stream("draws that a path starts from").choice(
            len(found.weights), size=_FITTED_FROM, p=found.weights
        )
        mode = laplace_proposal(self.target, best, self.policy)
        start, _ = self._smoothest([mode, gaussian_of(found.points[index], self.policy)])
        estimate = smc_estimate(self.target, start, self.call)
        if self.call.options.engine != "smc" and self._mixture_is_better(found, estimate):
            return verdict("importance", found, estimate, self.call, advice=TAKE_OR_RAISE)
        if found.heavy_tailed(
            self.policy
        ):  # looks better than it is: it agrees with what misses the same part
            rows = None if self.call.options.engine == "smc" or self.rows is None else self.rows[0]
            check = rows if rows is not None and can_check(rows, self.policy) else None
            return self._thinned(verdict("smc", estimate, check, self.call))
        return self._thinned(self._with_evidence_of(found, verdict("smc", estimate, found, self.call)))

    def _with_evidence_of(self, found: Estimate, answer: Answer) -> Answer:
        """The answer with the log evidence of a mixture that confirms it and reaches the target error.

        Moves give the means, where the mixture's weights have a tail; its log evidence is the better one (26
        truth problems: sequential Monte Carlo was low by 1.7 of its errors on average, by 4.1 in one).
        """
        error = found.independent_error
        if not answer.diagnostics.ok or error > self.call.target_error:
            return answer
        told = replace(answer.estimate, log_evidence=found.log_evidence, log_evidence_error=error)
        first = replace(answer.diagnostics, estimates=answer.diagnostics.estimates[::-1])
        return replace(answer, estimate=told, log_evidence_error=error, diagnostics=first)

    def _mixture_is_better(self, found: Estimate, estimate: Estimate) -> bool:
        """Whether of two that miss the target error the mixture's draws come nearer, without heavy tails."""
        missed = not reaches(estimate, self.call)
        heavy = found.heavy_tailed(self.policy)
        return missed and not heavy and found.log_evidence_error < estimate.log_evidence_error

    def _smc_in_many_dimensions(self) -> Answer:
        """From the Gaussian at the mode, relative to the square block of T_d behind a narrow layer."""
        rows = None if self.call.options.engine == "smc" or self.rows is None else self.rows[0]
        if rows is not None and self._hopeless(rows):
            rows = None
        check = rows if rows is not None and can_check(rows, self.policy) else None
        if self.relative is not None:
            return self._smc_in_relative_rows(check)
        start, roughness = self._start(rows)
        if rows is not None and _interdecile(rows.log_weights) < roughness:
            return self.answer_of_rows  # what a path from a worse start would end in is worse still
        estimate = smc_estimate(self.target, start, self.call)
        if check is None and self.target.dimension <= self.policy.most_for_curvature:
            check = None if self.gaussian.heavy_tailed(self.policy) else self.gaussian
        return self._thinned(verdict("smc", estimate, check, self.call))

    def _smc_in_relative_rows(self, check: Estimate | None) -> Answer:
        """Behind a narrow last layer: from the Gaussian at the mode, whose draws check it if they can.

        Else one round of a path from the Gaussian with other axes first. (20 tables with 24 to 50 outputs
        behind 5 to 15 units: the Gaussian alone was right wherever it could check, and served in 5.)
        """
        assert self.relative is not None
        estimate = self._in_plain_rows(smc_estimate(*self.relative, self.call), self.relative[0])
        if check is None and can_check(self.relative_draws, self.policy):
            check = self.relative_draws
        if check is None and reaches(estimate, self.call):
            path = Path(*self.other_relative, self.call.within("another start"))
            check = self._in_plain_rows(path.round(), self.other_relative[0])
            check = replace(check, method=f"{check.method} from another start")
            self.call.spend(path.work)
        return self._thinned(verdict("smc", estimate, check, self.call))

    def _in_plain_rows(self, estimate: Estimate, relative: Target) -> Estimate:
        """Draws in relative coordinates in plain ones, and E L along the axes of all other estimates."""
        plain = plain_estimate(estimate, relative)
        assert plain.target is not None
        return replace(plain, log_diagonal=log_diagonal(plain.target, plain.points, self.target.rotation))

    def _hopeless(self, rows: Estimate) -> bool:
        """Whether rows behind a narrow layer are too few for others not to be preferred."""
        return self.narrow and rows.effective_sample_size < self.policy.fewest_narrow_rows

    def _start(self, rows: Estimate | None) -> tuple[GaussianProposal, float]:
        """The Gaussian at the mode, or that with the moments of rows: where log weights vary less."""
        moments = [] if rows is None else [gaussian_of(rows.points, self.policy)]
        return self._smoothest([self.mode, *moments])

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

    def _thinned(self, answer: Answer) -> Answer:
        """As many draws as fit into memory; an odd stride, so that islands (a power of two) keep as many."""
        each, count = max(self.target.dimension, self.target.rows**2), len(answer.estimate.log_weights)
        stride = math.ceil(count / min(_MOST_ATOMS, max(_LARGEST_SAMPLE // each, 1)))
        keep = slice(None, None, stride + 1 - stride % 2)
        return replace(answer, estimate=_taken(answer.estimate, keep))


def _interdecile(log_weights: Array) -> float:
    """Range of the middle four fifths of log weights (m,); infinite where many draws have none."""
    low, high = np.quantile(log_weights, (0.1, 0.9), method="nearest")
    return float(high - low) if np.isfinite(low) else math.inf
