"""Examples whose scores the posterior cannot give: the data without them, decomposed anew.

Left-out predictions from one posterior divide by what an example adds to it. That loses digits where the
others determine an example almost entirely, where data are close to dependent, and where an example is so
improbable that its log density hides how it depends on the scale. And without one example the scale may be
where the posterior has no quadrature nodes. A bound decides (`Examples.rounding`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base import check
from lbnn._base.arrays import like, take, to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.cross_validation.averages import Scores, left_out_log_weights, moments, row_blocks, score
from lbnn.cross_validation.examples import Examples, LeftOut, RefittedExample
from lbnn.cross_validation.fitted import Fitted
from lbnn.data.bases import GramBasis, InputBasis
from lbnn.data.centring import CentredKernel, Columns, contrasts
from lbnn.data.projection import FeatureDirections, Projection
from lbnn.data.spectrum import Spectrum
from lbnn.engines.quadrature import QuadratureLaw, infer_quadrature
from lbnn.predict.conditional import ConditionalProcess
from lbnn.scale.measure import ScaleMeasure, unresolved

_LOST = 1e-9  # bound of what rounding may do to a score, above which it is taken from a refit
_PROBES = (1e-3, 0.5, 1 - 1e-3)  # quantiles of the scale at which the bound is evaluated


@dataclass(frozen=True)
class Refits:
    """The data of a posterior without one example, for any of them."""

    posterior: Fitted
    targets: Array  # (p, n_d), in units of the noise, without the weights of rows
    centred: bool
    weights: Array  # of rows, (p,)

    def example(self, a: int) -> tuple[Spectrum, RefittedExample]:
        """The data without example a, and the example as a test point of them."""
        noise, centred = self.posterior.noise, self.centred
        kept = np.flatnonzero(np.arange(len(self.targets)) != a)
        columns = Columns.of(self.targets[kept], centred, self.weights[kept])
        targets = columns.centred(self.targets[kept])
        spectrum, point = self._without(a, kept, targets)
        spectrum = contrasts(spectrum) if centred else spectrum
        process = ConditionalProcess(spectrum.eigenvalues, spectrum.targets, noise.variance)
        level = noise.variance / self.weights[kept].sum() if centred else 0.0
        own_noise = noise.variance / self.weights[a]
        explained = to_numpy(point.explained)[:, -spectrum.rank :] if spectrum.rank else np.zeros((1, 0))
        own = float(point.unexplained_diagonal[0])
        value = columns.centred(self.targets[a : a + 1])
        return spectrum, RefittedExample(process, explained, own, own_noise + level, value)

    def _without(self, a: int, kept: IndexArray, targets: Array) -> tuple[Spectrum, Projection]:
        """Data of the examples kept (p − 1,) with targets (p − 1, n_d), and example a as a test point."""
        basis = self.posterior.spectrum.basis
        if isinstance(basis, InputBasis):
            return self._inputs_without(basis, a, kept, targets)
        return self._gram_without(basis, a, kept, targets)

    def _inputs_without(
        self, basis: InputBasis, a: int, kept: IndexArray, targets: Array
    ) -> tuple[Spectrum, Projection]:
        """`_without` from inputs: kept (p − 1,), targets (p − 1, n_d)."""
        inputs: AnyArray = basis.training_inputs
        if self.posterior.spectrum.weights is not None:
            inputs = inputs / like(np.sqrt(self.weights)[:, None], inputs)
        others = take(inputs, kept, axis=0)
        columns = Columns.of(others, self.centred, self.weights[kept])
        spectrum = Spectrum.from_inputs(
            columns.centred_training(others), like(targets, inputs), weights=self.weights[kept]
        )
        spectrum = spectrum.scaled(basis.scale * basis.dimension)
        return spectrum, spectrum.project(columns.centred(inputs[a : a + 1, :]))

    def _gram_without(
        self, basis: GramBasis, a: int, kept: IndexArray, targets: Array
    ) -> tuple[Spectrum, Projection]:
        """`_without` from a Gram matrix: kept (p − 1,), targets (p − 1, n_d)."""
        vectors = to_numpy(basis.vectors)
        gram = basis.scale * (vectors * basis.eigenvalues) @ vectors.T
        if self.posterior.spectrum.weights is not None:
            gram = gram / np.sqrt(np.outer(self.weights, self.weights))
        kernel = CentredKernel.of(gram[np.ix_(kept, kept)], self.centred, self.weights[kept])
        spectrum = kernel.spectrum(
            gram[np.ix_(kept, kept)], targets, check.row_weights(self.weights[kept], len(kept))
        )
        return spectrum, spectrum.project(*kernel.test(gram[[a]][:, kept], gram[[a]][:, [a]]))


def replace_by_refits(
    scores: Scores, posterior: Fitted, examples: LeftOut, matrix: Array, refits: Refits
) -> tuple[str, ...]:
    """Replace, in place, scores of outputs Y Aᵀ, A (m, n_d), that the posterior cannot give.

    Returns the messages of new integrals.
    """
    if not isinstance(examples, Examples) or len(refits.targets) < 2 + refits.centred:
        return ()
    measure, messages = posterior._scale_in_units, list[str]()
    quadrature = isinstance(measure.law, QuadratureLaw)
    doubtful = lost_digits(posterior, examples)
    if quadrature:
        doubtful |= unresolved_examples(measure, examples)
    for a in np.flatnonzero(doubtful):
        spectrum, example = refits.example(int(a))
        if not quadrature:  # the draws of the posterior, weighted anew
            found = score(measure, example, matrix)
            for whole, one in zip(scores.fields, found.fields, strict=True):
                whole[a] = one[0]
            continue
        own = infer_quadrature(
            posterior.prior, posterior.noise.likelihood(spectrum), posterior.spectrum.single_output
        )
        only = own.measure.weights[None]
        scores.residual[a], scores.variance[a] = moments(own.measure, example, only, matrix)
        scores.log_density[a] = own.measure.log_expect_exp(_log_density(example)).real
        messages += [f"leaving out example {a}: {message}" for message in own.diagnostics.messages]
    return tuple(messages)


def _log_density(example: RefittedExample):  # type: ignore[no-untyped-def]
    return lambda values, vectors: example.log_density(values, vectors)[0]


def lost_digits(posterior: Fitted, examples: Examples) -> Mask:
    """Examples for which rounding may change the scores, (p,)."""
    measure = posterior._scale_in_units
    values, vectors = measure.eigen
    order = np.argsort(values.max(axis=1))
    shares = np.cumsum(measure.weights[order])
    probes = order[np.minimum(np.searchsorted(shares, _PROBES), len(order) - 1)]
    basis = posterior.spectrum.basis
    tall = isinstance(basis, InputBasis) and isinstance(basis.directions, FeatureDirections)
    bound = np.concatenate(
        [
            examples.take(rows).rounding(values[probes], vectors[probes], tall)
            for rows in row_blocks(len(examples.vectors), measure)
        ]
    )
    return np.asarray(bound > _LOST)


def unresolved_examples(measure: ScaleMeasure, examples: LeftOut) -> Mask:
    """Mask (p,) of examples whose ρ_{−a} or λρ_{−a} the nodes do not resolve."""
    log_scales = np.log(measure.scales[:, 0, 0])
    result = np.empty(examples.extent[0], bool)
    for rows in row_blocks(len(result), measure):
        log_weights, _ = left_out_log_weights(measure, examples.take(rows).log_density(*measure.eigen))
        result[rows] = unresolved(log_weights.T) | unresolved((log_weights + log_scales).T)
    return result
