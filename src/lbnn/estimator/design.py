"""Hyperparameters that the data leave open are integrated: a design around the maxima of the evidence.

The evidence of a network near its maximum φ* is close to a Gaussian in the logarithms φ of noise and signal,
with the curvature C that the search has learned. Points φ_i = φ* + C^{−½} ξ_i, in pairs ±ξ at the distance √k
along orthogonal directions, have the covariance of that Gaussian. Each is conditioned, with the weight

    w_i ∝ p(Y | φ_i) exp(½ |ξ_i|²),

which is the same for all where the evidence is that Gaussian. No weight may exceed √n times the mean, which
bounds their variance (Ionides, 2008). Predictions are the mixture. Networks that the evidence does not tell
apart share the points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from lbnn._base.types import Array
from lbnn._base.warn import collected
from lbnn.estimator.model import FittedModel, fit_model
from lbnn.estimator.targets import TargetUnits
from lbnn.selection import Candidate, EvidenceData

_UNCERTAIN = 0.2  # standard deviation of the log of a noise variance from which it is integrated
_FEW, _MANY = 8, 32  # points, in pairs: where a posterior is drawn, and where it is cheap
_SMALLEST_SHARE = 0.2  # of the best evidence from which a network gets points
_MOST_NETWORKS = 3
_FEWEST_DRAWS = 32.0  # effective, of one model of the mixture
_COARSE = 0.3  # target error of the posteriors at the draws: the mixture averages them


def matters(candidate: Candidate) -> bool:
    """Whether the noise is uncertain enough at the maximum of the evidence for one value to mislead."""
    if not candidate.curvature.size or candidate.on_edge:
        return False
    spread = candidate.directions[:-1] @ np.linalg.inv(candidate.curvature) @ candidate.directions[:-1].T
    return float(np.sqrt(np.diagonal(spread)).max()) > _UNCERTAIN


def integrated_models(
    data: EvidenceData,
    candidates: Sequence[Candidate],
    best: FittedModel,
    units: TargetUnits,
    level_examples: float | None,
    **effort: Any,
) -> tuple[tuple[FittedModel, ...], list[str]]:
    """Models at draws of the hyperparameters around the best candidates, the best one first; what to say."""
    leads = [
        each.penalised_evidence - candidates[0].penalised_evidence for each in candidates[:_MOST_NETWORKS]
    ]
    chosen = [number for number, lead in enumerate(leads) if lead > math.log(_SMALLEST_SHARE)]
    total = special.logsumexp([candidates[number].penalised_evidence for number in chosen])
    models: list[FittedModel] = []
    for number in chosen:
        candidate = candidates[number]
        points = _MANY if data.outputs == 1 or not candidate.widths else _FEW
        pairs = max(1, round(points / 2 * math.exp(candidate.penalised_evidence - total)))
        white = directions(pairs, candidate.curvature.shape[0], [effort["seed"], 16, number])
        coarse = {**effort, "target_error": max(_COARSE, effort["target_error"]), "rough": True}
        around = [_quietly(data, _moved(candidate, each), units, level_examples, **coarse) for each in white]
        evidences = np.array([model.log_evidence for model in around])
        log_weights = (
            truncated(evidences + 0.5 * (white**2).sum(axis=1)) + candidate.penalised_evidence - total
        )
        models += [
            replace(model, log_weight=log_weight)
            for model, log_weight in zip(around, log_weights, strict=True)
        ]
    least = min(model.log_weight for model in models)
    return (replace(best, log_weight=least), *models), _doubts(models)


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


def _moved(candidate: Candidate, white: Array) -> Candidate:
    """The candidate at φ* + C^{−½} ξ."""
    root = np.linalg.cholesky(np.linalg.inv(candidate.curvature))
    return replace(candidate, h=candidate.h + candidate.directions @ (root @ white))


def _doubts(models: Sequence[FittedModel]) -> list[str]:
    """One message that counts the models of the mixture whose draws are few."""
    few = sum(model.posterior.diagnostics.effective_sample_size < _FEWEST_DRAWS for model in models)
    if not few:
        return []
    return [
        f"{few} of {len(models)} posteriors of the mixture over hyperparameters rest on fewer than "
        f"{_FEWEST_DRAWS:g} effective draws: average=False takes the best model alone, which has its own "
        "diagnostics"
    ]


def _quietly(
    data: EvidenceData, candidate: Candidate, units: TargetUnits, *level: Any, **effort: Any
) -> FittedModel:
    """A model whose accuracy does not matter by itself; `_doubts` says how many have few draws."""
    with collected():
        return fit_model(data, candidate, units, *level, **effort)
