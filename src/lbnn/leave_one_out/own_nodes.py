"""One output: quadrature on nodes of its own where those of the posterior do not resolve ρ_{−a}."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from lbnn._base.types import Array, Mask
from lbnn.engines.quadrature import infer_quadrature
from lbnn.leave_one_out.averages import Scores, left_out_log_weights, moments, row_blocks
from lbnn.leave_one_out.examples import LeftOut
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.posterior import Posterior
from lbnn.scale.measure import ScaleMeasure, unresolved


@dataclass(frozen=True)
class _LeftOutLikelihood(GaussianLikelihood):
    """log p(Y_{−a} | L) = log p(Y | L) − log p(y_a | Y_{−a}, L), less the constant of p(Y | L)."""

    example: LeftOut = field(kw_only=True)

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        return super().log_value(eigenvalues, vectors) - self.example.log_density(eigenvalues, vectors)[0]


def replace_unresolved(
    scores: Scores, posterior: Posterior, examples: LeftOut, matrix: Array
) -> tuple[str, ...]:
    """Replace, in place, the scores whose ρ_{−a} the posterior's nodes do not resolve.

    Returns the messages of the new integrals.
    """
    messages: list[str] = []
    likelihood = posterior.noise.likelihood(posterior.spectrum)
    whole = {each.name: getattr(likelihood, each.name) for each in fields(likelihood)}
    for a in np.flatnonzero(unresolved_examples(posterior.scale, examples)):
        example = examples.take(slice(a, a + 1))
        own = infer_quadrature(
            posterior.prior, _LeftOutLikelihood(**whole, example=example), posterior.spectrum.single_output
        )
        scores.residual[a], scores.variance[a] = moments(
            own.measure, example, own.measure.weights[None], matrix
        )
        scores.log_density[a] = posterior.log_evidence - own.log_evidence
        messages += [f"leaving out example {a}: {message}" for message in own.diagnostics.messages]
    return tuple(messages)


def unresolved_examples(measure: ScaleMeasure, examples: LeftOut) -> Mask:
    """Examples for which the nodes resolve ρ_{−a} or λρ_{−a} not."""
    log_scales = np.log(measure.scales[:, 0, 0])
    result = np.empty(examples.extent[0], bool)
    for rows in row_blocks(len(result), measure):
        log_weights, _ = left_out_log_weights(measure, examples.take(rows).log_density(*measure.eigen))
        result[rows] = unresolved(log_weights.T) | unresolved((log_weights + log_scales).T)
    return result
