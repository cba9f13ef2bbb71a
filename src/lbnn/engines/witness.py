"""The second witness: an estimate of the evidence that shares no proposal with the first.

The first (`mixture_sampling`) works on the total factor T, with exact laws of its diagonal and inner factors
drawn given T. The second works in the coordinates of all factors, where nothing but their plain product is
needed: importance sampling from the Gaussian at the mode; where its weights do not serve, from a mixture that
is fitted there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.log_sums import normalised
from lbnn._base.progress import Progress
from lbnn._base.quasi_random import normal_points
from lbnn._base.types import Array, IndexArray
from lbnn.engines.adaptation import mixture_of_draws
from lbnn.engines.importance import importance_round
from lbnn.engines.inference import Witness
from lbnn.engines.laplace import laplace_proposal
from lbnn.engines.mixture import Mixture
from lbnn.engines.mixture_sampling import GROUPS, MixtureDraws, WeightedDraws, fitted_mixture, testimony
from lbnn.engines.target import Target
from lbnn.engines.total_target import CentredSpace, FactorSpace, TotalTarget
from lbnn.scale.phases import standard_error
from lbnn.scale.total_factor import turned

_CLIMBERS = 64  # draws among which the start of a search for a mode is the best
_FITTED_FROM = 2048  # draws of the first witness from which the mixture of the second takes its start
_ROUNDS = 4
_ALLOWED_FOR_MEANS = 4.0  # joint errors between two estimates of E L along any axis
_LAST_SIZE = 256  # draws per group, ...
_OF_PRIOR, _OF_MIXTURE = 128, 32  # ... of the prior and of a mixture that has not been fitted


def second_witness(
    target: Target, found: MixtureDraws, first: Witness, seed: int, progress: Progress
) -> Witness | None:
    """The first estimate in the coordinates of all factors that can be trusted; None where none can.

    One that contradicts `first` is kept only if no later one can be trusted: a Gaussian sees one phase.
    """
    frame = found.mixture.parts[int(np.argmax(found.mixture.shares[:-1]))].frame
    turned_target = target.in_frame(frame)
    rng = np.random.default_rng([seed, 5])
    drawn = resampled(found.draws, _FITTED_FROM, rng)
    points = turned_points(drawn, target, turned_target)
    labels = found.mixture.labels(TotalTarget(target).roots_of(drawn))
    best = gaussian_witness(turned_target, points[:_CLIMBERS], seed)
    spaces: list[type[FactorSpace]] = [FactorSpace]
    if target.coordinates.square and len(target.coordinates.shapes) > 1:
        spaces.append(CentredSpace)
    for space in spaces:
        if best is not None and best.agrees_with(first):
            break
        progress.say(f"second witness: {space.name}")
        mixture = mixture_of_draws(space(turned_target), points, labels)
        best = fitted_witness(mixture, rng, progress) or best
    return best


def gaussian_witness(target: Target, candidates: Array, seed: int) -> Witness | None:
    """Importance sampling from the Gaussian at the mode in u near the best candidate, if that serves."""
    proposal = laplace_proposal(target, candidates[np.argmax(target.log_density(candidates))])
    sample = importance_round(target, proposal, seed)
    return testimony("Gaussian at the mode of all factors", sample.log_weights, sample.log_evidence_error)


def fitted_witness(mixture: Mixture, rng: np.random.Generator, progress: Progress) -> Witness | None:
    """Importance sampling from a mixture over the coordinates of all factors, if that serves."""
    mixture, _ = fitted_mixture(mixture, _ROUNDS, rng, progress)
    sample = mixture.sample(_LAST_SIZE, GROUPS, rng)
    draws = WeightedDraws(sample.points, sample.log_weights, sample.groups)
    return testimony(mixture.space.name, draws.log_weights, draws.log_evidence_error)


def resampled(draws: WeightedDraws, size: int, rng: np.random.Generator) -> Array:
    """Points (u) drawn by their weights."""
    return draws.points[rng.choice(len(draws.points), size=size, p=normalised(draws.log_weights))]


def turned_points(points: Array, target: Target, other: Target) -> Array:
    """The same factors in the coordinates of another frame."""
    if other is target:
        return points
    factors = turned(target.coordinates.factors(points), other.rotation.T @ target.rotation)
    return other.coordinates.locate(factors)


def prior_witness(target: Target, seed: int) -> Testimony:
    """Plain draws of the prior, weighted by the likelihood: nothing is known of the posterior."""
    streams = np.random.default_rng([seed, 11]).spawn(GROUPS)
    points = np.concatenate([normal_points(_OF_PRIOR, target.dimension, stream) for stream in streams])
    log_weights = target.log_density(points) + 0.5 * (points**2).sum(axis=1)
    groups = np.repeat(np.arange(GROUPS), _OF_PRIOR)
    log_diagonal = FactorSpace(target).log_diagonal(points)
    return testify("draws of the prior", log_weights, groups, log_diagonal)


def mixture_witness(mixture: Mixture, seed: int) -> Testimony:
    """A few draws of a mixture that has not been fitted."""
    sample = mixture.sample(_OF_MIXTURE, GROUPS, np.random.default_rng([seed, 10]))
    log_diagonal = mixture.space.log_diagonal(sample.roots)
    return testify(mixture.space.name, sample.log_weights, sample.groups, log_diagonal)


def testify(method: str, log_weights: Array, groups: IndexArray, log_diagonal: Array) -> Testimony:
    """Evidence, and E L along the axes of the data, from weighted draws."""
    spread = WeightedDraws(log_diagonal, log_weights, groups).log_evidence_error
    witness = testimony(method, log_weights, spread)
    return Testimony(witness, *weighted_means(log_weights, groups, np.exp(log_diagonal)))


def weighted_means(log_weights: Array, groups: IndexArray, values: Array) -> tuple[Array, Array]:
    """Means of values (m, n), and errors that are no smaller than those of independent draws."""
    weights = normalised(log_weights)
    mean = weights @ values
    independent = np.sqrt((weights[:, None] ** 2 * (values - mean) ** 2).sum(axis=0))
    return mean, np.maximum(standard_error(values, weights, groups), independent)


def means_agree(one: tuple[Array, Array], other: tuple[Array, Array]) -> bool:
    """Whether two pairs of means and errors differ by no more than the errors allow."""
    allowed = _ALLOWED_FOR_MEANS * np.hypot(one[1], other[1])
    return bool((np.abs(one[0] - other[0]) <= allowed).all())


@dataclass(frozen=True)
class Testimony:
    """An estimate of the evidence, None where it cannot be trusted, and of E L_jj with its errors."""

    witness: Witness | None
    mean: Array
    error: Array

    def confirms(self, own: Witness, other: Testimony) -> bool:
        """Whether this can be trusted and agrees with another estimate of evidence and means."""
        if self.witness is None or not self.witness.agrees_with(own):
            return False
        return means_agree((self.mean, self.error), (other.mean, other.error))
