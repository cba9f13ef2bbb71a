"""Examples whose scores do not follow from the posterior of all: the data without them, decomposed anew.

Left-out predictions from one posterior divide by what an example adds to it. That loses digits where an
example is almost determined by the others, where data are close to dependent, and where the density of an
example is so small that rounding exceeds its dependence on the scale; `Examples.rounding` is a bound of this.
Without one example the scale may also be where the posterior has no quadrature nodes, near them or in another
phase; `mass_beyond_nodes` looks for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lbnn._base import check
from lbnn._base.arrays import like, take, to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.cross_validation.averages import Scores, left_out_log_weights, moments, row_blocks, score
from lbnn.cross_validation.examples import Examples, LeftOut, RefittedExample
from lbnn.cross_validation.fitted import Fitted
from lbnn.cross_validation.left_out_scan import LeftOutScan
from lbnn.data.bases import GramBasis, InputBasis
from lbnn.data.centring import CentredKernel, Columns, contrasts
from lbnn.data.projection import Projection
from lbnn.data.spectrum import Spectrum
from lbnn.engines.quadrature import QuadratureLaw, infer_quadrature
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.predict.conditional import ConditionalProcess
from lbnn.scale.measure import Exponent, ScaleMeasure, unresolved
from lbnn.scale.prior import ScalePrior

_LOST = 1e-9  # bound of what rounding may do to a score, above which it is taken from a refit
_PROBES = (1e-3, 0.5, 1 - 1e-3)  # quantiles of the scale at which the bound is evaluated
_BEYOND = 1e-12  # largest share of the mass of ρ_{−a} or λρ_{−a} that may lie beyond the nodes
_UNVISITED = 0.01  # share of a one-output law beyond the draws from which weighted draws cannot give 1%
_MORE = 10.0  # times the share with all examples: the law of one output is not that of several


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
    measure, messages = posterior._scale_in_units, list[str]()
    quadrature = isinstance(measure.law, QuadratureLaw)
    if not isinstance(examples, Examples):
        if quadrature:
            integrate_anew(scores, measure, examples, matrix)
        return ()
    if len(refits.targets) < 2 + refits.centred:
        return ()
    doubtful = lost_digits(posterior, examples)
    if quadrature:
        doubtful |= unresolved_examples(measure, examples)
    elif not measure.deterministic:
        messages += unvisited_messages(unvisited_examples(posterior, examples))
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
        scores.log_density[a] = own.measure.log_expect_exp(_log_density(example, 1)).real
        messages += [f"leaving out example {a}: {message}" for message in own.diagnostics.messages]
    return tuple(messages)


def integrate_anew(scores: Scores, measure: ScaleMeasure, examples: LeftOut, matrix: Array) -> None:
    """Replace scores of outputs Y Aᵀ, A (m, n_d), whose integrals over the scale need nodes of their own.

    For examples with private inputs, whose residuals are known to all digits at every scale.
    """
    law = measure.law
    assert isinstance(law, QuadratureLaw)
    for a in np.flatnonzero(unresolved_examples(measure, examples)):
        example = examples.take(slice(a, a + 1))
        nodes = law.nodes_of(_log_density(example, -1))
        own = ScaleMeasure(np.exp(nodes.x)[:, None, None], nodes.weights, measure.single_output)
        scores.residual[a], scores.variance[a] = moments(own, example, own.weights[None], matrix)
        scores.log_density[a] = law.nodes.log_total - nodes.log_total


def _log_density(example: LeftOut, sign: int) -> Exponent:
    """±log p(y_a | Y_{−a}, L) of one example, for scales of eigenvalues (m, n_d) and eigenvectors, (m,)."""
    return lambda values, vectors: sign * example.log_density(values, vectors)[0]


def lost_digits(posterior: Fitted, examples: Examples) -> Mask:
    """Examples for which rounding may change the scores, (p,)."""
    measure = posterior._scale_in_units
    values, vectors = measure.eigen
    order = np.argsort(values.max(axis=1))
    shares = np.cumsum(measure.weights[order])
    probes = order[np.minimum(np.searchsorted(shares, _PROBES), len(order) - 1)]
    derived = posterior.spectrum.basis.derives_example_vectors
    bound = np.concatenate(
        [
            examples.take(rows).rounding(values[probes], vectors[probes], derived)
            for rows in row_blocks(len(examples.vectors), measure)
        ]
    )
    return np.asarray(bound > _LOST)


def unresolved_examples(measure: ScaleMeasure, examples: LeftOut) -> Mask:
    """Mask (p,) of examples whose ρ_{−a} or λρ_{−a} the nodes do not resolve, or do not reach."""
    log_scales = np.log(measure.scales[:, 0, 0])
    result = np.empty(examples.extent[0], bool)
    for rows in row_blocks(len(result), measure):
        own = examples.take(rows)
        log_weights, _ = left_out_log_weights(measure, own.log_density(*measure.eigen))
        result[rows] = unresolved(log_weights.T) | unresolved((log_weights + log_scales).T)
        result[rows] |= mass_beyond_nodes(measure, own, len(result))
    return result


def mass_beyond_nodes(measure: ScaleMeasure, examples: LeftOut, count: int) -> Mask:
    """Mask (rows,) of examples without which the scale has mass where the posterior has no nodes."""
    law = measure.law
    assert isinstance(law, QuadratureLaw)
    scan = LeftOutScan.of(law, examples, count, (law.nodes.x[0], law.nodes.x[-1]))
    return ~(scan.log_shares_beyond(examples, math.log(_BEYOND)).max(axis=0) < math.log(_BEYOND))


def unvisited_examples(posterior: Fitted, examples: Examples) -> Mask:
    """Mask (p,) of examples without which the scale may be where the posterior has no draws.

    No weight of a draw can show that. So the law of one output, uᵀLu for every principal direction u of the
    targets (or every output, if each has its own noise), is integrated without each example, and its mass
    compared with the range of the draws.
    """
    prior, measure, units = posterior.prior, posterior._scale_in_units, posterior.noise.deviations
    outputs, count = examples.targets.shape[1], examples.extent[0]
    directions = np.linalg.svd(examples.targets)[2] if units is None else np.eye(outputs)
    rounding = np.finfo(float).eps * np.trace(measure.scales, axis1=1, axis2=2)
    result = np.zeros(count, bool)
    for j, u in enumerate(directions):
        factor = 1.0 if units is None else float(units[j]) ** -2
        own = ScalePrior(prior.widths, 1, (*prior.layer_variances[:-1], prior.layer_variances[-1] * factor))
        one = examples.along(u)
        noise, rank = examples.noise_variance, len(one.eigenvalues)
        law = QuadratureLaw(own, GaussianLikelihood(one.eigenvalues, one.targets, 0.0, rank, noise))
        along = np.einsum("mij,i,j->m", measure.scales, u, u)
        draws = np.log(np.maximum(along, rounding))  # behind a narrow layer uᵀLu may be zero or below
        low, high = float(draws.min()), float(draws.max())
        for rows in row_blocks(count, measure):
            scan = LeftOutScan.of(law, one.take(rows), count, (low, high))
            allowed = max(math.log(_UNVISITED), scan.log_share_of_all + math.log(_MORE))
            result[rows] |= ~(scan.log_shares_beyond(one.take(rows), allowed)[0] < allowed)
    return result


def unvisited_messages(unvisited: Mask) -> tuple[str, ...]:
    """What to say of examples (p,) without which the scale may be where no draw is."""
    found = np.flatnonzero(unvisited)
    if not len(found):
        return ()
    return (
        f"without example {found[0]} ({len(found)} of {len(unvisited)} in all) the scale of an output has "
        "mass where the posterior of all examples has no draws: do not rely on its leave-one-out scores; "
        "condition on the other examples and predict it instead",
    )
