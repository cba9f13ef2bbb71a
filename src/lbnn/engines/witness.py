"""The second witness: an estimate of the evidence that shares no proposal with the first.

The first (`mixture_sampling`) works on the total factor T, with exact laws of its diagonal and inner factors
drawn given T. The second works in the coordinates of all factors, where nothing but their plain product is
needed: importance sampling from the Gaussian at the mode; where its weights do not serve, from a mixture that
is fitted there; and where that does not either, sequential Monte Carlo from the prior, which knows nothing of
modes.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from lbnn._base.progress import Progress
from lbnn._base.types import Array
from lbnn.engines.adaptation import mixture_of_draws
from lbnn.engines.importance import importance_round
from lbnn.engines.inference import Witness
from lbnn.engines.laplace import laplace_proposal
from lbnn.engines.mixture import Mixture
from lbnn.engines.mixture_sampling import GROUPS, MixtureDraws, WeightedDraws, fitted_mixture, testimony
from lbnn.engines.smc import prior_path
from lbnn.engines.target import Target
from lbnn.engines.total_target import CentredSpace, FactorSpace
from lbnn.scale.total_factor import turned

_CLIMBERS = 64  # draws among which the start of a search for a mode is the best
_FITTED_FROM = 2048  # draws of the first witness from which the mixture of the second takes its start
_ROUNDS = 4
_LAST_SIZE = 256  # draws per group


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
    best = gaussian_witness(turned_target, points[:_CLIMBERS], seed)
    spaces: list[type[FactorSpace]] = [FactorSpace]
    if target.coordinates.square and len(target.coordinates.shapes) > 1:
        spaces.append(CentredSpace)
    for space in spaces:
        if best is not None and best.agrees_with(first):
            break
        progress.say(f"second witness: {space.name}")
        mixture = mixture_of_draws(space(turned_target), points, found.labels(drawn))
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
    return draws.points[rng.choice(len(draws.points), size=size, p=special.softmax(draws.log_weights))]


def turned_points(points: Array, target: Target, other: Target) -> Array:
    """The same factors in the coordinates of another frame."""
    if other is target:
        return points
    factors = turned(target.coordinates.factors(points), other.rotation.T @ target.rotation)
    return other.coordinates.locate(factors)


def tempered_witness(target: Target, seed: int, progress: Progress) -> Witness:
    """Sequential Monte Carlo along the powers of the likelihood, from the prior."""
    sample = prior_path(target, seed, progress).round()
    return Witness("tempering from the prior", sample.log_evidence, sample.log_evidence_error)
