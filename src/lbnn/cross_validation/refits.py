"""Examples whose scores do not follow from the posterior of all: the data without them, decomposed anew.

Left-out predictions from one posterior divide by what an example adds to it. That loses digits where an
example is almost determined by the others, where data are close to dependent, and where the density of an
example is so small that rounding exceeds its dependence on the scale; `Examples.rounding` is a bound of this.
Without one example the scale may also be where the posterior has no quadrature nodes, near them or in another
phase; `log_shares_beyond` looks for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import interpolate, special

from lbnn._base.arrays import like, take, to_numpy
from lbnn._base.types import AnyArray, Array, Mask
from lbnn.cross_validation.averages import Scores, left_out_log_weights, reweighted, row_blocks
from lbnn.cross_validation.examples import Examples
from lbnn.cross_validation.fitted import Fitted
from lbnn.data.bases import InputBasis
from lbnn.data.centring import CentredInputs, CentredKernel, Columns, contrasts
from lbnn.data.projection import Projection
from lbnn.data.spectrum import Spectrum
from lbnn.engines.quadrature import QuadratureLaw, first_range, infer_quadrature
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.predict.predictive import Predictive
from lbnn.scale.draws import Draws, Line
from lbnn.scale.measure import unresolved
from lbnn.scale.prior import ScalePrior

_LOST = 1e-9  # bound of what rounding may do to a score, above which it is taken from a refit
_PROBES = (1e-3, 0.5, 1 - 1e-3)  # quantiles of the scale at which the bound is evaluated
_BEYOND = 1e-12  # largest share of the mass of ρ_{−a} or λρ_{−a} that may lie beyond the nodes
_UNVISITED = 0.01  # share of a one-output law beyond the draws from which weighted draws cannot give 1%
_MORE = 10.0  # times the share with all examples: the law of one output is not that of several
_CELL = 0.5  # of a scan in log λ: the log density of one example has structure of order one
_MARGIN = 8.0  # by which a scan exceeds the range of prior, likelihood and draws: a mass there shows
_FARTHEST = 690.0  # |log λ| that a double can hold
_MOST_STEPS = 256  # in a cell: where more would be needed the prior is so narrow that it decides


@dataclass(frozen=True)
class Refits:
    """The data of a posterior without one example, for any of them, with scores of outputs Y Aᵀ."""

    posterior: Fitted
    targets: Array  # Y, (p, n_d)
    centred: bool
    matrix: Array  # A, (outputs, n_d)

    def score(self, a: int) -> tuple[Scores, tuple[str, ...]]:
        """The predictive of example a given the others: draws weighted anew, quadrature nodes of their own.

        Also the messages of a new integral.
        """
        spectrum, point, value, level = self._without(a)
        whole: Any = self.posterior
        without = replace(whole, spectrum=spectrum)
        messages: tuple[str, ...] = ()
        quadrature = whole._left_out_draws.line is not None
        if quadrature:
            anew = infer_quadrature(whole.prior, whole.noise.likelihood(spectrum), True)
            without, messages = replace(without, inference=anew), anew.diagnostics.messages
        part = without._predictive_at(point).parts[0]
        root = part.draws.root
        part = part.affine(self.matrix if root is None else self.matrix @ root, 0.0, level)
        densities: list[Array] = [Predictive((part,))._pointwise_log_density(value)] if quadrature else []
        densities += [np.zeros(1), np.full(1, -np.inf)] if quadrature else []
        if not quadrature:
            terms = np.concatenate([part.point_terms(value, some) for some in part.every(1)])
            weights, *densities = reweighted(part.weights, part.draws.groups, terms.T)
            draws = replace(part.draws, weights=weights[0])
            part = replace(part, process=replace(part.process, draws=draws))
        law = Predictive((part,))
        said = tuple(f"leaving out example {a}: {message}" for message in messages)
        return Scores(value - law._mean, law._variance, *densities), said

    def _without(self, a: int) -> tuple[Spectrum, Projection, Array, float]:
        """Data without a, a as a test point, y_a Aᵀ less the level (1, outputs), and the noise of both."""
        spectrum = self.posterior.spectrum
        basis, kept = spectrum.basis, np.flatnonzero(np.arange(len(self.targets)) != a)
        weights = np.ones(len(self.targets)) if spectrum.weights is None else spectrum.weights
        own = None if spectrum.weights is None else weights[kept]
        columns = Columns.of(self.targets[kept], self.centred, own)
        targets = columns.centred(self.targets[kept])
        if isinstance(basis, InputBasis):
            inputs: AnyArray = basis.training_inputs
            inputs = inputs / like(np.sqrt(weights)[:, None], inputs)
            others, row = take(inputs, kept, axis=0), inputs[a : a + 1, :]
            linear = CentredInputs.of(others, self.centred, own)
            left = linear.spectrum(others, targets, own).scaled(basis.scale * basis.dimension)
            point = left.project(*linear.test(row))
        else:
            vectors = to_numpy(basis.vectors)
            gram = basis.scale * (vectors * basis.eigenvalues) @ vectors.T
            gram = gram / np.sqrt(np.outer(weights, weights))
            others = gram[np.ix_(kept, kept)]
            kernel = CentredKernel.of(others, self.centred, own)
            left = kernel.spectrum(others, targets, own)
            point = left.project(*kernel.test(gram[[a]][:, kept], gram[[a]][:, [a]]))
        value = columns.centred(self.targets[a : a + 1]) @ self.matrix.T
        level = 1 / weights[a] + self.centred / weights[kept].sum()
        return contrasts(left) if self.centred else left, point, value, level


def replace_by_refits(scores: Scores, examples: Examples, refits: Refits) -> tuple[str, ...]:
    """Replace, in place, scores that the posterior cannot give; returns what is to be said of them."""
    posterior, messages = refits.posterior, list[str]()
    draws, count = posterior._left_out_draws, len(refits.targets)
    if count < 2 + refits.centred:
        return ()
    doubtful = lost_digits(posterior, examples, draws)
    if draws.line is not None:
        doubtful |= unresolved_examples(examples, draws, draws.line)
    elif not draws.deterministic and draws.law is not None and not draws.coupling:
        messages += unvisited_messages(unvisited_examples(posterior, examples, draws))
    for a in np.flatnonzero(doubtful):
        found, said = refits.score(int(a))
        messages += said
        for whole, one in zip(scores.fields, found.fields, strict=True):
            whole[a] = one[0]
    return tuple(messages)


def lost_digits(posterior: Fitted, examples: Examples, draws: Draws) -> Mask:
    """Examples for which rounding may change the scores, (p,)."""
    order = np.argsort(draws.ratios.max(axis=1))
    shares = np.cumsum(draws.weights[order])
    probes = order[np.minimum(np.searchsorted(shares, _PROBES), len(order) - 1)]
    derived, count = posterior.spectrum.basis.derives_example_vectors, len(examples.vectors)
    every = (examples.take(rows) for rows in row_blocks(count, len(draws.weights)))
    return np.concatenate([own.rounding(draws, probes, derived) for own in every]) > _LOST


def unresolved_examples(examples: Examples, draws: Draws, line: Line) -> Mask:
    """Mask (p,) of examples whose ρ_{−a} or λρ_{−a} the nodes do not resolve, or do not reach."""
    result = np.empty(len(examples.vectors), bool)
    for rows in row_blocks(len(result), len(draws.weights)):
        own = examples.take(rows)
        log_density = own.log_density(draws, slice(None))
        log_weights, _ = left_out_log_weights(draws.weights, log_density, smooth=False)
        result[rows] = unresolved(log_weights.T) | unresolved((log_weights + line.nodes).T)
        shares, _ = log_shares_beyond(own, line, len(result), math.log(_BEYOND))
        result[rows] |= ~(shares.max(axis=0) < math.log(_BEYOND))
    return result


def unvisited_examples(posterior: Fitted, examples: Examples, draws: Draws) -> Mask:
    """Mask (p,) of examples without which the scale may be where the posterior has no draws.

    No weight of a draw can show that. So the law of one output, uᵀLu for every principal direction u of the
    targets (or every output, if each has its own noise), is integrated without each example, and its mass
    compared with the range of the draws.
    """
    whole: Any = posterior
    prior, units, scales = posterior.prior, whole.noise.deviations, draws.signal
    outputs, count, noise = draws.outputs, len(examples.vectors), float(draws.variances[0])
    directions = np.linalg.svd(examples.targets)[2] if units is None else np.eye(outputs)
    rounding = np.finfo(float).eps * np.trace(scales, axis1=1, axis2=2)
    result = np.zeros(count, bool)
    for j, u in enumerate(directions):
        factor = 1.0 if units is None else float(units[j]) ** -2
        own = ScalePrior(prior.widths, 1, (*prior.layer_variances[:-1], prior.layer_variances[-1] * factor))
        one, rank = examples.along(u), len(examples.eigenvalues)
        law = QuadratureLaw(own, GaussianLikelihood(one.eigenvalues, one.targets, 0.0, rank, noise))
        along = np.einsum("mij,i,j->m", scales, u, u)
        reached = np.log(np.maximum(along, rounding))  # behind a narrow layer uᵀLu may be zero or below
        line = Line(law, np.array([reached.min(), reached.max()]), 1, noise, 0.0)
        for rows in row_blocks(count, len(draws.weights)):
            shares, of_all = log_shares_beyond(one.take(rows), line, count, math.log(_UNVISITED))
            result[rows] |= ~(shares[0] < max(math.log(_UNVISITED), of_all + math.log(_MORE)))
    return result


def log_shares_beyond(examples: Examples, line: Line, count: int, least: float) -> tuple[Array, float]:
    """Log shares of ρ_{−a} and λρ_{−a} beyond the nodes of a line, (2, rows), and that of ρ.

    By sums at equal steps of x = log λ. The log density of `count` examples and of the narrowest layer, n
    units, has a curvature of at most (count + n)/2 at a peak: with steps of one over its root no peak is
    more than 1/8 above the nearest point. That of one example varies less, and is known at the ends of
    cells: where shares that it bounds are below `least` these bounds are returned, else it is interpolated.
    """
    law = line.law
    assert isinstance(law, QuadratureLaw)
    ends, region = line.nodes[[0, -1]], first_range(law.law, law.likelihood.turning_region())
    low = max(min(region[0], ends[0]) - _MARGIN, -_FARTHEST)
    high = min(max(region[1], ends[1]) + _MARGIN, _FARTHEST)
    corners = np.linspace(low, high, math.ceil((high - low) / _CELL) + 1)
    steps = min(math.ceil(_CELL * math.sqrt(0.5 * (count + min(law.prior.widths)))), _MOST_STEPS)
    x = corners[:-1, None] + (corners[1] - low) * (np.arange(steps) + 0.5) / steps  # (cells, steps)
    terms, beyond = law.log_density(x.ravel()).reshape(x.shape), (x < ends[0]) | (x > ends[1])
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        own = -examples.log_density(line.at(corners), slice(None))
        left, right = own[:, :-1], own[:, 1:]
        above = np.maximum(left, right) + np.abs(right - left)
        below = np.minimum(left, right) - np.abs(right - left)
        result = np.empty((2, len(own)))
        for power, each in enumerate((terms, terms + x)):
            there = special.logsumexp(each, b=beyond, axis=1)
            here = special.logsumexp(each, b=~beyond, axis=1)
            result[power] = special.logsumexp(above + there, axis=1)
            result[power] -= special.logsumexp(below + here, axis=1)
    doubtful = np.isfinite(own).all(axis=1) & ~(result.max(axis=0) < least)
    for a in np.flatnonzero(doubtful):
        whole = terms + interpolate.CubicSpline(corners, own[a])(x)
        result[:, a] = [_log_share(each, beyond) for each in (whole, whole + x)]
    return result, _log_share(terms, beyond)


def _log_share(terms: Array, some: Mask) -> float:
    """Log of the share of some in a sum of exponentials of terms, both (cells, steps)."""
    return float(special.logsumexp(terms, b=some) - special.logsumexp(terms))


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
