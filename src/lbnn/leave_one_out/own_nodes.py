"""One output: quadrature on nodes of its own where those of the posterior do not resolve ρ_{−a}."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lbnn._base.types import Array, Mask
from lbnn.engines.quadrature import infer_quadrature
from lbnn.leave_one_out.averages import Scores, left_out_log_weights, moments, row_blocks
from lbnn.leave_one_out.examples import LeftOut
from lbnn.likelihood.gaussian import LikelihoodFactor
from lbnn.posterior import Posterior
from lbnn.scale.measure import ScaleMeasure

_HALF_STEP_CHANGE = 1e-5  # of a quadrature on every other node; geometric convergence squares it
_END_SHARE = 1e-12  # largest share of the mass that the outermost nodes may hold


@dataclass(frozen=True)
class _LeftOutFactor(LikelihoodFactor):
    """log p(Y_{−a} | L) = log p(Y | L) − log p(y_a | Y_{−a}, L), less the constant of p(Y | L)."""

    example: LeftOut = field(kw_only=True)

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        return super().log_value(eigenvalues, vectors) - self.example.log_density(eigenvalues, vectors)[0]


def replace_unresolved(scores: Scores, posterior: Posterior, examples: LeftOut) -> tuple[str, ...]:
    """Integrate anew, in place, where the posterior's nodes do not resolve ρ_{−a}; what was noticed."""
    messages: list[str] = []
    for a in np.flatnonzero(unresolved(posterior.scale, examples)):
        example = examples.take(slice(a, a + 1))
        factor = _LeftOutFactor(*_fields(posterior.noise.likelihood(posterior.spectrum)), example=example)
        own = infer_quadrature(posterior.prior, factor, posterior.spectrum.single_output)
        scores.residual[a], scores.variance[a] = moments(own.measure, example, own.measure.weights[None])
        scores.log_density[a] = posterior.log_evidence - own.log_evidence
        messages += [f"leaving out example {a}: {message}" for message in own.diagnostics.messages]
    return tuple(messages)


def _fields(factor: LikelihoodFactor) -> tuple[Any, ...]:
    """In the order of the constructor."""
    data = factor.eigenvalues, factor.targets, factor.residual, factor.examples
    return *data, factor.noise, factor.multiplicity


def unresolved(measure: ScaleMeasure, examples: LeftOut) -> Mask:
    """Where ρ_{−a} or λρ_{−a} change without every other node, or have mass at the ends, (rows,)."""
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
