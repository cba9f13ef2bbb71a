"""Several outputs by posterior draws of Bartlett factors: of L itself, or of the hidden kernel (dual)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lbnn._types import Array, IndexArray
from lbnn.dual import DualFactor, dual_prior, last_layer_factor
from lbnn.engines.inference import ScaleInference
from lbnn.engines.sampled import LARGEST_SAMPLE, AtomLaw, Draws, Effort, SampledLaw, draw_posterior
from lbnn.engines.target import ScaleTarget
from lbnn.likelihood import LikelihoodFactor
from lbnn.scale_measure import ScaleMeasure, Tails
from lbnn.scale_prior import ScalePrior


def infer_primal(
    prior: ScalePrior, factor: LikelihoodFactor, single_output: bool, effort: Effort
) -> ScaleInference:
    """Draw the factors of L."""
    target = ScaleTarget(prior.coordinates, factor)
    draws = draw_posterior(target, effort)
    measure = _measure(target.scales(draws.points), draws, prior, factor, single_output)
    law = SampledLaw(target, draws, measure.eigen, effort)
    return _inference(measure.behind(law), draws, factor)


def infer_dual(
    prior: ScalePrior, factor: LikelihoodFactor, single_output: bool, effort: Effort
) -> ScaleInference:
    """Draw the factors of the hidden kernel Λ, and L given each of them."""
    target = ScaleTarget(dual_prior(prior, len(factor.eigenvalues)).coordinates, DualFactor(factor))
    draws = _affordable(draw_posterior(target, effort), prior.outputs, effort.seed)
    rng = np.random.default_rng([effort.seed, 2])
    kernel_factor = target.coordinates.factors(draws.points)[0]
    last = last_layer_factor(kernel_factor, prior, factor, rng)
    measure = _measure(last @ last.swapaxes(1, 2), draws, prior, factor, single_output)
    inference = _inference(measure.behind(DualLaw(draws.weights, measure.eigen, last)), draws, factor)
    return replace(
        inference, diagnostics=replace(draws.diagnostics, engine=f"dual {draws.diagnostics.engine}")
    )


class DualLaw(AtomLaw):
    """The posterior behind draws of L that were made through the hidden kernel."""

    def __init__(self, weights: Array, eigen: tuple[Array, Array], last: Array) -> None:
        super().__init__(weights, eigen)
        self.last = last

    def factors(self, index: IndexArray) -> list[Array]:
        return [self.last[index]]


def _measure(
    scales: Array, draws: Draws, prior: ScalePrior, factor: LikelihoodFactor, single_output: bool
) -> ScaleMeasure:
    tails = Tails(prior.inverse_mean_exists or factor.keeps_from_zero, prior.exponential_rate)
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
