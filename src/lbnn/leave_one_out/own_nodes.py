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
from lbnn.scale.measure import ScaleMeasure

_HALF_STEP_CHANGE = 1e-5  # of a quadrature on every other node; geometric convergence squares it
_END_SHARE = 1e-12  # largest share of the mass that the outermost nodes may hold


@dataclass(frozen=True)
class _LeftOutLikelihood(GaussianLikelihood):
    """log p(Y_{−a} | L) = log p(Y | L) − log p(y_a | Y_{−a}, L), less the constant of p(Y | L)."""

    example: LeftOut = field(kw_only=True)

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        return super().log_value(eigenvalues, vectors) - self.example.log_density(eigenvalues, vectors)[0]


def replace_unresolved(scores: Scores, posterior: Posterior, examples: LeftOut) -> tuple[str, ...]:
    """Replace, in place, the scores whose ρ_{−a} the posterior's nodes do not resolve.

    Returns the messages of the new integrals.
    """
    messages: list[str] = []
    likelihood = posterior.noise.likelihood(posterior.spectrum)
    whole = {each.name: getattr(likelihood, each.name) for each in fields(likelihood)}
    for a in np.flatnonzero(unresolved(posterior.scale, examples)):
        example = examples.take(slice(a, a + 1))
        own = infer_quadrature(
            posterior.prior, _LeftOutLikelihood(**whole, example=example), posterior.spectrum.single_output
        )
        scores.residual[a], scores.variance[a] = moments(own.measure, example, own.measure.weights[None])
        scores.log_density[a] = posterior.log_evidence - own.log_evidence
        messages += [f"leaving out example {a}: {message}" for message in own.diagnostics.messages]
    return tuple(messages)


def unresolved(measure: ScaleMeasure, examples: LeftOut) -> Mask:
    """Where ρ_{−a} or λρ_{−a} integrates to another value on every other node, or has mass at the ends."""
    values = measure.scales[:, 0, 0]
    result = np.empty(examples.extent[0], bool)
    for rows in row_blocks(len(result), measure):
        log_weights, _ = left_out_log_weights(measure, examples.take(rows).log_density(*measure.eigen))
        result[rows] = False
        for terms in (np.exp(log_weights), np.exp(log_weights) * values):
            total = terms.sum(axis=1)
            change = np.abs(2 * terms[:, ::2].sum(axis=1) / total - 1)
            ends = np.maximum(terms[:, 0], terms[:, -1]) / total
            result[rows] |= (change > _HALF_STEP_CHANGE) | (ends > _END_SHARE)
    return result
