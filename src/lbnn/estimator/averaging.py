"""Hyperparameters that the data leave open are integrated: a design around the maxima of the evidence.

The evidence of a network near its maximum φ* is close to a Gaussian in the logarithms φ of noise and signal,
with the curvature C that the search has learned. Points φ_i = φ* + C^{−½} ξ_i, in pairs ±ξ at the distance √k
along orthogonal directions, have the covariance of that Gaussian. Each is conditioned, with the weight

    w_i ∝ p(Y | φ_i) exp(½ |ξ_i|²),

which is the same for all where the evidence is that Gaussian. No weight may exceed √n times the mean, which
bounds their variance (Ionides, 2008). Predictions are the mixture. Networks that the evidence does not
distinguish share the points.

Where the maximum is at the end of a range, noise or signal vanish there and the evidence becomes flat: it
says that they are small, not how small. Points then follow the evidence at infinite width over the whole
range, with a prior that is uniform in the standard deviation of what vanishes (Gelman, 2006): uniform in its
logarithm, all of its mass would be at the end of the range, wherever that is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lbnn._base.notices import Notice
from lbnn._base.types import Array
from lbnn._base.warn import collected
from lbnn.estimator.fitted import FittedModel
from lbnn.estimator.notices import notice
from lbnn.selection import (
    NOISE_RANGE,
    RATIO_RANGE,
    EvidenceData,
    Trial,
    log_evidence,
    without_noise,
    without_signal,
)

_UNCERTAIN = 0.2  # standard deviation of the log of a noise variance from which it is integrated
_FEW, _MANY = 8, 32  # points, in pairs: where a posterior is drawn, and where it is cheap
_SMALLEST_SHARE = 0.2  # of the best evidence from which a network gets points
_MOST_NETWORKS = 3
_FEWEST_DRAWS = 32.0  # effective, of one model of the mixture
_EDGE_GRID = 81  # steps of 0.3 in the logarithms of noise and signal
_LARGEST_UNSEEN_RATIO = 10.0  # of signal and noise up to which a signal may hide from the evidence
COARSE = 0.3  # target error of the posteriors at the draws: the mixture averages them


def matters(candidate: Trial, data: EvidenceData) -> bool:
    """Whether the noise is uncertain enough at the maximum of the evidence for one value to mislead."""
    if candidate.on_edge:
        return along_edge(data, candidate) is not None
    if not candidate.curvature.size:
        return False
    spread = candidate.directions[:-1] @ np.linalg.inv(candidate.curvature) @ candidate.directions[:-1].T
    return float(np.sqrt(np.diagonal(spread)).max()) > _UNCERTAIN


def contenders(candidates: Sequence[Trial]) -> list[Trial]:
    """Trials, best first, with evidence near that of the best."""
    least = candidates[0].score + math.log(_SMALLEST_SHARE)
    return [each for each in candidates[:_MOST_NETWORKS] if each.score > least]


def models_around(
    data: EvidenceData,
    candidates: Sequence[Trial],
    best: FittedModel,
    fitted: Callable[[Trial], FittedModel],
    seed: int,
) -> tuple[FittedModel, ...]:
    """The best model, and those that `fitted` makes at hyperparameters around the best candidates."""
    chosen = contenders(candidates)
    total = special.logsumexp([candidate.score for candidate in chosen])
    models: list[FittedModel] = []
    for number, candidate in enumerate(chosen):
        points = _MANY if data.outputs == 1 or not candidate.widths else _FEW
        pairs = max(1, round(points / 2 * math.exp(candidate.score - total)))
        places, log_shares = _places(data, candidate, pairs, [seed, 16, number])
        with collected():  # the accuracy of one of them does not matter; `doubts` counts those of few draws
            around = [fitted(replace(candidate, h=h)) for h in places]
        evidences = np.array([model.log_evidence for model in around])
        log_weights = truncated(evidences - log_shares) + candidate.score - total
        models += [
            replace(model, log_weight=log_weight, at_maximum=False)
            for model, log_weight in zip(around, log_weights, strict=True)
        ]
    least = min(model.log_weight for model in models)
    return (replace(best, log_weight=least), *models)


def _places(data: EvidenceData, candidate: Trial, pairs: int, seed: Sequence[int]) -> tuple[Array, Array]:
    """Hyperparameters h (2 pairs, n_d + 1) and the log of what their evidence is to be divided by."""
    line = along_edge(data, candidate) if candidate.on_edge else None
    if line is not None:
        return line.places(2 * pairs)
    white = directions(pairs, candidate.curvature.shape[0], seed)
    return np.stack([_moved(candidate, each).h for each in white]), -0.5 * (white**2).sum(axis=1)


@dataclass(frozen=True)
class EdgeDensity:
    """A density of hyperparameters h + t d + s e over a grid, t from the end of a range inwards.

    Attributes
    ----------
    start, inward, across : (n_d + 1,)
        h at the end of the range, d and e.
    t, s : (k,) and (m,)
    log_density : (k, m)
        Evidence at infinite width times the prior of t.
    """

    start: Array
    inward: Array
    across: Array
    t: Array
    s: Array
    log_density: Array
    log_evidence: Array

    def places(self, count: int) -> tuple[Array, Array]:
        """Points of equal probability, (count, n_d + 1), and the evidence at infinite width there."""
        density = np.exp(self.log_density - self.log_density.max())
        along = np.cumsum(density.sum(axis=1)) / density.sum()
        order = np.argsort([_reversed_bits(number) for number in range(count)], kind="stable")
        rows = np.searchsorted(along, (np.arange(count) + 0.5) / count)
        columns = [
            int(np.searchsorted(np.cumsum(density[row]) / density[row].sum(), (place + 0.5) / count))
            for row, place in zip(rows, order, strict=True)
        ]
        found = self.start + np.outer(self.t[rows], self.inward) + np.outer(self.s[columns], self.across)
        return found, self.log_evidence[rows, columns]


def along_edge(data: EvidenceData, candidate: Trial) -> EdgeDensity | None:
    """The density of the hyperparameters of a candidate without noise or signal; None at other ends."""
    outputs, h = data.outputs, candidate.h
    noiseless = without_noise(candidate, data)
    inward, across, width = np.zeros(outputs + 1), np.zeros(outputs + 1), 6.0
    if noiseless.any():
        inward[:-1], across[-1] = noiseless, 1.0
        inward[-1] = -1.0 if noiseless.all() else 0.0  # the signal stays, in the units of the targets
        length = -math.log(NOISE_RANGE[0])
    elif without_signal(candidate, data):
        inward[-1], across[:-1], width = 1.0, 1.0, 3.0
        length = -math.log(RATIO_RANGE[0]) + math.log(_LARGEST_UNSEEN_RATIO)
    else:
        return None
    t, s = np.linspace(0.0, length, _EDGE_GRID), np.linspace(-width, width, _EDGE_GRID)
    places = h + t[:, None, None] * inward + s[None, :, None] * across
    evidence = log_evidence(data, places.reshape(-1, outputs + 1)).reshape(len(t), len(s))
    return EdgeDensity(h, inward, across, t, s, evidence + 0.5 * t[:, None], evidence)


def _reversed_bits(number: int) -> float:
    """Van der Corput's sequence: the bits of a number mirrored at the point."""
    result, part = 0.0, 0.5
    while number:
        result, number, part = result + part * (number & 1), number >> 1, part / 2
    return result


def directions(pairs: int, dimension: int, seed: Sequence[int]) -> Array:
    """Points ξ, −ξ at the distance √k, along orthogonal directions while there are any, (2 pairs, k)."""
    rng = np.random.default_rng(seed)
    frames = [
        np.linalg.qr(rng.standard_normal((dimension, dimension)))[0].T for _ in range(-(-pairs // dimension))
    ]
    half = math.sqrt(dimension) * np.concatenate(frames)[:pairs]
    return np.concatenate([half, -half])


def truncated(log_weights: Array) -> Array:
    """Normalised log weights, none of which exceeds √n times their mean."""
    most = special.logsumexp(log_weights) - 0.5 * math.log(len(log_weights))
    cut = np.minimum(log_weights, most)
    return np.asarray(cut - special.logsumexp(cut))


def _moved(candidate: Trial, white: Array) -> Trial:
    """The candidate at φ* + C^{−½} ξ."""
    root = np.linalg.cholesky(np.linalg.inv(candidate.curvature))
    return replace(candidate, h=candidate.h + candidate.directions @ (root @ white))


def doubts(models: Sequence[FittedModel]) -> list[Notice]:
    """One notice that counts the models of the mixture whose draws are few."""
    few = sum(model.posterior.diagnostics.effective_sample_size < _FEWEST_DRAWS for model in models)
    return [notice("few_draws", models=few, all_models=len(models), fewest=_FEWEST_DRAWS)] if few else []
