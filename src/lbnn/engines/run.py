"""The engines: a plan is followed, and its answer made into a measure of the scale.

`infer` is the entry: prior × likelihood → measure, evidence, diagnostics. The steps of the plan ask the
`Sampling` of their matrix, L or the kernel of the last hidden layer, for an answer; what it has drawn is
kept, so that nothing is drawn twice. The one budget and the random streams are those of the `Call`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lbnn._base.small_matrices import one_sign
from lbnn._base.types import Array
from lbnn.engines.estimate import Answer, Call
from lbnn.engines.inference import Diagnostics, InferenceOptions, ScaleInference
from lbnn.engines.integrand import IntegrandCheck
from lbnn.engines.laws import AtomLaw, FactorLaw, SampledLaw
from lbnn.engines.policy import POLICY, ROUGH
from lbnn.engines.quadrature import infer_quadrature
from lbnn.engines.sampling import Sampling
from lbnn.engines.table import Problem, Side, Step, plan, steps_of
from lbnn.engines.target import ScaleLikelihood, Target
from lbnn.engines.verdict import means_message
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.hidden_kernel import dual, dual_prior, primal_factors
from lbnn.likelihood.observed import CellsOfKernel
from lbnn.likelihood.plain import PlainFormula
from lbnn.scale.bartlett import product
from lbnn.scale.layer_factors import layer_factors
from lbnn.scale.measure import ScaleMeasure, Tails, eigen
from lbnn.scale.prior import ScalePrior

_LARGEST_SAMPLE = 1 << 25  # floats that atoms or their coordinates may fill
_LARGEST_ROOTS = 1 << 23  # ... and roots of them, of which five copies exist while they are drawn: 0.3 GB
_OF_KERNEL = 2.0  # times as many effective draws of the hidden kernel: E L given each of them varies, too
_MOST_ATOMS = 8192  # of sequential Monte Carlo, whose neighbouring draws are correlated
#: Operations of a gradient up to which a table with missing cells is treated as any other likelihood:
#: mixtures over all modes then take seconds, and rows for the completed table once missed 0.2 nats.
_CHEAP = 5e6


def infer(
    prior: ScalePrior,
    likelihood: ScaleLikelihood,
    single_output: bool,
    options: InferenceOptions,
    plain: PlainFormula | None = None,
) -> ScaleInference:
    """Plan and run; the integrand is compared with the plain likelihood where that is given."""
    check = None if plain is None or likelihood.flat else IntegrandCheck(plain)
    policy = ROUGH if options.rough else POLICY
    steps = plan(problem_of(prior, likelihood), options.engine, policy)
    if steps.engine in ("atom", "quadrature"):
        answer = (
            infer_atom(prior, likelihood, single_output)
            if steps.engine == "atom"
            else infer_quadrature(prior, _gaussian(likelihood), single_output)
        )
        if check is not None:
            scales = answer.measure.scales_of(check.few(answer.measure.weights))
            values = likelihood.log_constant + likelihood.log_value(*eigen(scales))
            lost = check.scales(scales, values, options.target_error)
            return answer.doubted(lost) if lost else answer
        return answer
    run = Run(prior, likelihood, single_output, Call(options, policy), check)
    try:
        return run(steps.steps)
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

    def __call__(self, steps: Sequence[Step]) -> ScaleInference:
        """The first answer that is ok, or else the one with the smallest error."""
        found: list[ScaleInference] = []
        for of, answer in answers(steps, self._sampling):
            found.append(self._of_kernel(answer) if of == "kernel" else self._of_scale(answer))
            if found[-1].diagnostics.ok or self.call.options.rough:  # one of many models: any answer will do
                return found[-1]
        return min(found, key=lambda inference: inference.log_evidence_error)

    def _sampling(self, of: str) -> Sampling:
        """The sampling of L or of the kernel, made once: what it has drawn is kept."""
        if of not in self.samplings:
            policy, call = self.call.policy, self.call.within(of)
            if of == "kernel":
                call = replace(
                    call, policy=replace(policy, fewest_effective=_OF_KERNEL * policy.fewest_effective)
                )
            narrow = Side(self.problem, of, policy).spectral
            self.samplings[of] = Sampling(self._target(of), call, narrow, self.problem.completed)
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

    def _of_scale(self, answer: Answer) -> ScaleInference:
        """Draws of L by its Bartlett factors in the axes of the data.

        For targets of deficient rank without noise the determinant of L's block C along the outputs without
        targets is in the prior, and its moment in the evidence.
        """
        target, prior, likelihood, options = (
            self._target_of(answer, "scale"),
            self.prior,
            self.likelihood,
            self.call.options,
        )
        answer = self._affordable(answer, "scale")
        matrices, deficient = target.held(answer.points), self.problem.deficient
        zeros = _gaussian(target.likelihood).zeros if deficient else 0
        exists = (
            min(prior.widths) >= zeros + likelihood.examples + 2 if deficient else self._inverse_mean_exists
        )
        measure = self._measure(matrices, answer, exists)
        lost = ""
        if self.check is not None:
            few = self.check.few(answer.weights)
            scales = measure.scales_of(few)
            values = likelihood.log_constant + target.integrand(answer.points[few])
            if deficient:
                null = target.rotation[:, :zeros]
                values -= 0.5 * likelihood.examples * np.linalg.slogdet(null.T @ scales @ null)[1]
            lost = self.check.scales(scales, values, self.call.target_error)
        constant = likelihood.log_constant
        law: AtomLaw
        if deficient:
            law = FactorLaw(answer.weights, matrices, target.factors(answer.points))
            constant += prior._log_negative_moment(zeros, likelihood.examples)
        else:
            kept = replace(answer, estimate=answer.estimate.stored())
            law = SampledLaw(target, kept, matrices, prior, options, draw_posterior, self.call.policy)
        inference = _inference(measure._with_law(law), answer, constant)
        return inference.doubted(lost) if lost else inference

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
        narrow = root.shape[2] < root.shape[1]
        held = root if narrow else root @ root.swapaxes(1, 2)
        measure = self._measure(held, answer, self._inverse_mean_exists)
        law = FactorLaw(answer.weights, held, factors)
        inference = _inference(measure._with_law(law), answer, likelihood.log_constant)
        told = replace(inference.diagnostics, engine=f"dual {answer.diagnostics.engine}")
        with np.errstate(divide="ignore"):
            few_draws = means_message(answer.estimate, np.log((root**2).sum(axis=2)), self.call.policy)
        return replace(inference, diagnostics=told.with_message(few_draws) if few_draws else told)

    def _affordable(self, answer: Answer, of: str) -> Answer:
        """As many draws as fit into memory with their scales, or roots of them behind a narrow layer.

        Weighted ones are resampled; of those of a path every so many, an odd number, so that islands (a power
        of two) keep as many.
        """
        estimate, target = answer.estimate, self._target_of(answer, of)
        count, outputs, narrowest = (
            len(estimate.log_weights),
            self.prior.outputs,
            min(self.prior.widths),
        )
        scales, roots = _LARGEST_SAMPLE // outputs**2, _LARGEST_ROOTS // (outputs * narrowest)
        most = min(roots if narrowest < outputs else scales, _LARGEST_SAMPLE // target.dimension)
        most = max(most if estimate.weighted else min(most, _MOST_ATOMS), 1)
        if count <= most:
            return answer
        if estimate.weighted:
            rng = self.call.stream(f"draws of the {of} that are kept")
            index = np.sort(rng.choice(count, size=most, p=answer.weights))
            log_weights, size = np.zeros(most), float(len(np.unique(index)))
        else:
            stride = math.ceil(count / most)
            index = np.arange(0, count, stride + 1 - stride % 2)
            log_weights, size = estimate.log_weights[index], math.inf
        kept = replace(
            estimate,
            log_weights=log_weights,
            groups=estimate.groups[index],
            log_diagonal=estimate.log_diagonal[index],
            locate=lambda: estimate.points[index],
        )
        size = min(answer.diagnostics.effective_sample_size, size)
        told = replace(answer.diagnostics, effective_sample_size=size)
        return replace(answer, estimate=kept, diagnostics=told)

    @property
    def _inverse_mean_exists(self) -> bool:
        return self.prior.inverse_mean_exists or self.likelihood.keeps_from_zero

    def _measure(self, matrices: Array, answer: Answer, inverse_mean_exists: bool) -> ScaleMeasure:
        """The measure with scales (m, n_d, n_d), or roots of them (m, n_d, k)."""
        tails = Tails(inverse_mean_exists, self.prior.exponential_rate, min(self.prior.widths))
        groups = answer.estimate.groups
        return ScaleMeasure(matrices, answer.weights, self.single_output, tails, None, groups)


def _inference(measure: ScaleMeasure, answer: Answer, log_constant: float) -> ScaleInference:
    """The answer, with what the target leaves out of the log evidence put back, for all estimates."""
    diagnostics = answer.diagnostics.shifted(log_constant)
    return ScaleInference(measure, log_constant + answer.log_evidence, answer.log_evidence_error, diagnostics)


def answers(steps: Sequence[Step], sampling_of: Callable[[str], Sampling]) -> Iterator[tuple[str, Answer]]:
    """The first answer of every matrix, in the order in which they are found; its last step answers."""
    found: set[str] = set()
    for number, step in enumerate(steps):
        if step.of not in found and step.answer is not None:
            last = all(other.of != step.of for other in steps[number + 1 :])
            answer = step.answer(sampling_of(step.of), last)
            if answer is not None:
                found.add(step.of)
                yield step.of, answer


def draw_posterior(target: Target, options: InferenceOptions, call: Call | None = None) -> Answer:
    """The answer for any target in Bartlett coordinates, by the steps for a matrix of its size.

    Data with common axes and noise have spectral moves behind a narrow layer, as in `infer`.
    """
    own, likelihood = call or Call(options), target.likelihood
    widths = tuple(shape.width for shape in reversed(target.coordinates.shapes))
    problem = Problem(widths, target.rows, target.rows, kernel=False)
    if isinstance(likelihood, GaussianLikelihood) and likelihood.noise_variance and not likelihood.of_kernel:
        kernel = not likelihood.dual_deficient and likelihood.multiplicity == 1
        problem = replace(problem, rank=len(likelihood.eigenvalues), kernel=kernel)
    side = Side(problem, "scale", own.policy, moves=options.engine != "importance")
    sampling = Sampling(target, own, side.spectral)
    try:
        return next(answers(steps_of(side), lambda _: sampling))[1]
    finally:
        own.progress.close()


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
