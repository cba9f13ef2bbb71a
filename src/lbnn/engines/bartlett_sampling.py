"""Several outputs by posterior draws of Bartlett factors: of L itself, or of the hidden kernel (dual)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lbnn._base.small_matrices import one_sign
from lbnn._base.types import Array, IndexArray
from lbnn.engines.draws import LARGEST_SAMPLE, Draws, Effort
from lbnn.engines.inference import Diagnostics, ScaleInference
from lbnn.engines.integrand import IntegrandCheck
from lbnn.engines.laws import AtomLaw, SampledLaw
from lbnn.engines.mixture_sampling import FEWEST_FOR_MEANS, LARGEST_K
from lbnn.engines.pareto import pareto_k
from lbnn.engines.sampled import draw_posterior, draw_prior
from lbnn.engines.target import ScaleTarget
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.hidden_kernel import HiddenKernelLikelihood, dual_prior, primal_factors
from lbnn.likelihood.rank_deficient import RegularLikelihood, zeros_first
from lbnn.scale.bartlett import product
from lbnn.scale.measure import ScaleMeasure, Tails, effective_atoms
from lbnn.scale.prior import ScalePrior


def primal_target(prior: ScalePrior, likelihood: GaussianLikelihood) -> ScaleTarget:
    """The posterior of L in the axes of the data, whatever signs a library gives to eigenvectors."""
    axes = one_sign(principal_axes(likelihood.gradient_rows, prior.widths))
    return ScaleTarget(prior.coordinates, likelihood, axes)


def deficient_target(prior: ScalePrior, likelihood: GaussianLikelihood) -> tuple[ScaleTarget, Array]:
    """Zero temperature with targets of deficient rank, and the outputs without targets (n_d, zeros)."""
    rotation = zeros_first(likelihood)
    zeros = prior.outputs - int(np.linalg.matrix_rank(likelihood.targets))
    null = rotation[:, :zeros]
    coordinates = prior.tilted_coordinates(zeros, likelihood.examples)
    return ScaleTarget(coordinates, RegularLikelihood(likelihood, null), rotation, any_frame=False), null


def dual_target(prior: ScalePrior, likelihood: GaussianLikelihood) -> ScaleTarget:
    """The posterior of the last hidden kernel Λ in the axes of the data."""
    coordinates = dual_prior(prior, len(likelihood.eigenvalues)).coordinates
    axes = principal_axes(likelihood.gradient_rows.T, prior.widths)
    return ScaleTarget(coordinates, HiddenKernelLikelihood(likelihood), axes)


def infer_primal(
    prior: ScalePrior,
    likelihood: GaussianLikelihood,
    single_output: bool,
    effort: Effort,
    check: IntegrandCheck | None = None,
) -> ScaleInference:
    """Posterior of L by draws of its Bartlett factors in the axes of the data."""
    if likelihood.noise == 0 and not likelihood.keeps_from_zero:
        return _infer_deficient(prior, likelihood, single_output, effort, check)
    target = primal_target(prior, likelihood)
    draws = draw_prior(target, effort) if likelihood.flat else draw_posterior(target, effort)
    exists = prior.inverse_mean_exists or likelihood.keeps_from_zero
    measure = _measure(target.scales(draws.points), draws, prior, single_output, exists)
    if check is not None:
        few = check.few(draws.weights)
        values = target.integrand(draws.points[few], len(draws.points))
        check.scales(measure.scales[few], likelihood.log_constant + values)
    law = SampledLaw(target, draws, measure.scales, effort)
    return _inference(measure.with_law(law), draws, likelihood.log_constant)


def _infer_deficient(
    prior: ScalePrior,
    likelihood: GaussianLikelihood,
    single_output: bool,
    effort: Effort,
    check: IntegrandCheck | None = None,
) -> ScaleInference:
    """Zero temperature with targets of deficient rank: see `likelihood.rank_deficient`."""
    target, null = deficient_target(prior, likelihood)
    zeros = null.shape[1]
    draws = draw_posterior(target, effort)
    exists = min(prior.widths) >= zeros + likelihood.examples + 2
    measure = _measure(target.scales(draws.points), draws, prior, single_output, exists)
    if check is not None:
        few = check.few(draws.weights)
        values = target.integrand(draws.points[few], len(draws.points))
        block = null.T @ measure.scales[few] @ null  # C, whose determinant was taken out
        values = values - 0.5 * likelihood.examples * np.linalg.slogdet(block)[1]
        check.scales(measure.scales[few], likelihood.log_constant + values)
    law = FactorLaw(draws.weights, measure.scales, target.factors(draws.points))
    moment = prior.log_negative_moment(zeros, likelihood.examples)
    return _inference(measure.with_law(law), draws, likelihood.log_constant + moment)


def infer_dual(
    prior: ScalePrior,
    likelihood: GaussianLikelihood,
    single_output: bool,
    effort: Effort,
    check: IntegrandCheck | None = None,
) -> ScaleInference:
    """Draw the factors of the last hidden kernel Λ, and those of L given each of them."""
    target = dual_target(prior, likelihood)
    draws = _affordable(draw_posterior(target, effort), prior.outputs, effort.seed)
    if check is not None:
        few = check.few(draws.weights)
        values = target.integrand(draws.points[few], len(draws.points))
        check.kernels(target.scales(draws.points[few]), likelihood.log_constant + values)
    rng = np.random.default_rng([effort.seed, 2])
    factors = primal_factors(target.factors(draws.points), prior, likelihood, rng)
    root = product(factors)
    assert root is not None
    exists = prior.inverse_mean_exists or likelihood.keeps_from_zero
    measure = _measure(root @ root.swapaxes(1, 2), draws, prior, single_output, exists)
    law = FactorLaw(draws.weights, measure.scales, factors)
    inference = _inference(measure.with_law(law), draws, likelihood.log_constant)
    told = replace(inference.diagnostics, engine=f"dual {draws.diagnostics.engine}")
    return replace(inference, diagnostics=_with_means(told, draws, root))


def _with_means(told: Diagnostics, draws: Draws, root: Array) -> Diagnostics:
    """Not ok where E L rests on few draws: those of Λ were chosen for Λ, and L is drawn given each."""
    with np.errstate(divide="ignore"):
        log_terms = draws.log_weights[:, None] + np.log((root**2).sum(axis=2))
    fewest = float(effective_atoms(log_terms).min())
    largest = max(pareto_k(column) for column in log_terms.T)
    if fewest >= FEWEST_FOR_MEANS and largest < LARGEST_K:
        return told
    message = (
        f"the mean of the scale rests on {fewest:.0f} effective draws (Pareto k {largest:.2f}, should be "
        f"below {LARGEST_K:g}): do not trust E L and what rests on it; a smaller target_error draws more"
    )
    return replace(told, ok=False, messages=(*told.messages, message))


class FactorLaw(AtomLaw):
    """The posterior behind draws that are stored with their Bartlett factors (up to a rotation)."""

    def __init__(self, weights: Array, scales: Array, factors: list[Array]) -> None:
        super().__init__(weights, scales)
        self.all_factors = factors

    def factors(self, index: IndexArray) -> list[Array]:
        return [each[index] for each in self.all_factors]


def _measure(
    scales: Array, draws: Draws, prior: ScalePrior, single_output: bool, inverse_mean_exists: bool
) -> ScaleMeasure:
    tails = Tails(inverse_mean_exists, prior.exponential_rate, min(prior.widths))
    return ScaleMeasure(scales, draws.weights, single_output, tails, None, draws.groups)


def _inference(measure: ScaleMeasure, draws: Draws, log_constant: float) -> ScaleInference:
    """The answer, with what the target leaves out of the log evidence put back, for the witnesses as well."""
    diagnostics = draws.diagnostics.shifted(log_constant)
    return ScaleInference(measure, log_constant + draws.log_total, draws.log_total_error, diagnostics)


def _affordable(draws: Draws, outputs: int, seed: int) -> Draws:
    """The draws, resampled to fewer where so many matrices (n_d, n_d) would not fit into memory."""
    most = max(LARGEST_SAMPLE // outputs**2, 1)
    if len(draws.points) <= most:
        return draws
    rng = np.random.default_rng([seed, 3])
    index = np.sort(rng.choice(len(draws.points), size=most, p=draws.weights))
    size = min(draws.diagnostics.effective_sample_size, float(len(np.unique(index))))
    return replace(
        draws,
        points=draws.points[index],
        log_weights=np.zeros(most),
        groups=draws.groups[index],
        diagnostics=replace(draws.diagnostics, effective_sample_size=size),
    )


def principal_axes(rows: Array, widths: tuple[int, ...]) -> Array:
    """Orthonormal axes of the columns of `rows` (m, n), as columns (n, n): weakest first.

    Then a weak direction of L is one small diagonal entry. Behind a bottleneck, where the last rows of T are
    combinations of the first, the strongest come first.
    """
    axes = np.linalg.svd(rows, full_matrices=len(rows) < rows.shape[1]).Vh.T
    return axes if min(widths) < len(axes) else axes[:, ::-1].copy()
