"""Several outputs by posterior draws of Bartlett factors: of L itself, or of the hidden kernel (dual)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn.engines.inference import ScaleInference
from lbnn.engines.sampled import (
    LARGEST_SAMPLE,
    AtomLaw,
    Draws,
    Effort,
    SampledLaw,
    draw_posterior,
    draw_prior,
)
from lbnn.engines.target import ScaleTarget
from lbnn.likelihood.gaussian import LikelihoodFactor
from lbnn.likelihood.hidden_kernel import DualFactor, dual_prior, last_layer_factor
from lbnn.likelihood.rank_deficient import RegularFactor, zeros_first
from lbnn.scale.measure import ScaleMeasure, Tails
from lbnn.scale.prior import ScalePrior


def infer_primal(
    prior: ScalePrior, factor: LikelihoodFactor, single_output: bool, effort: Effort
) -> ScaleInference:
    """Draw the factors of L."""
    if factor.noise == 0 and not factor.keeps_from_zero:
        return _infer_deficient(prior, factor, single_output, effort)
    axes = principal_axes(factor.pull[:, None] * factor.targets, prior.widths)
    target = ScaleTarget(prior.coordinates, factor, axes)
    draws = draw_prior(target, effort) if factor.flat else draw_posterior(target, effort)
    exists = prior.inverse_mean_exists or factor.keeps_from_zero
    measure = _measure(target.scales(draws.points), draws, prior, single_output, exists)
    law = SampledLaw(target, draws, measure.eigen, effort)
    return _inference(measure.behind(law), draws, factor)


def _infer_deficient(
    prior: ScalePrior, factor: LikelihoodFactor, single_output: bool, effort: Effort
) -> ScaleInference:
    """Zero temperature with targets of deficient rank: see `deficient`."""
    rotation = zeros_first(factor)
    zeros = prior.outputs - int(np.linalg.matrix_rank(factor.targets))
    regular = RegularFactor(factor, rotation[:, :zeros])
    target = ScaleTarget(prior.tilted_coordinates(zeros, factor.examples), regular, rotation, any_frame=False)
    draws = draw_posterior(target, effort)
    exists = min(prior.widths) >= zeros + factor.examples + 2
    measure = _measure(target.scales(draws.points), draws, prior, single_output, exists)
    law = FactorLaw(draws.weights, measure.eigen, target.factors(draws.points))
    moment = prior.log_negative_moment(zeros, factor.examples)
    return _inference(measure.behind(law), replace(draws, log_total=draws.log_total + moment), factor)


def infer_dual(
    prior: ScalePrior, factor: LikelihoodFactor, single_output: bool, effort: Effort
) -> ScaleInference:
    """Draw the factors of the hidden kernel Λ, and L given each of them."""
    coordinates = dual_prior(prior, len(factor.eigenvalues)).coordinates
    axes = principal_axes((factor.pull[:, None] * factor.targets).T, prior.widths)
    target = ScaleTarget(coordinates, DualFactor(factor), axes)
    draws = _affordable(draw_posterior(target, effort), prior.outputs, effort.seed)
    rng = np.random.default_rng([effort.seed, 2])
    kernel_factor = target.factors(draws.points)[0]
    last = last_layer_factor(kernel_factor, prior, factor, rng)
    exists = prior.inverse_mean_exists or factor.keeps_from_zero
    measure = _measure(last @ last.swapaxes(1, 2), draws, prior, single_output, exists)
    inference = _inference(measure.behind(FactorLaw(draws.weights, measure.eigen, [last])), draws, factor)
    return replace(
        inference, diagnostics=replace(draws.diagnostics, engine=f"dual {draws.diagnostics.engine}")
    )


class FactorLaw(AtomLaw):
    """The posterior behind draws whose Bartlett factors (up to a rotation of the outputs) are at hand."""

    def __init__(self, weights: Array, eigen: tuple[Array, Array], factors: list[Array]) -> None:
        super().__init__(weights, eigen)
        self.all_factors = factors

    def factors(self, index: IndexArray) -> list[Array]:
        return [factor[index] for factor in self.all_factors]


def _measure(
    scales: Array, draws: Draws, prior: ScalePrior, single_output: bool, inverse_mean_exists: bool
) -> ScaleMeasure:
    tails = Tails(inverse_mean_exists, prior.exponential_rate, min(prior.widths))
    return ScaleMeasure(scales, draws.weights, single_output, tails, None, draws.groups)


def _inference(measure: ScaleMeasure, draws: Draws, factor: LikelihoodFactor) -> ScaleInference:
    log_evidence = factor.log_constant + draws.log_total
    return ScaleInference(measure, log_evidence, draws.log_total_error, draws.diagnostics)


def _affordable(draws: Draws, outputs: int, seed: int) -> Draws:
    """As many draws as matrices (n_d, n_d) fit into memory, resampled if that is fewer."""
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
