"""Quadrature over log λ on a likelihood that is exact only where the posterior is.

A survey of the data says where that may be; factorisations there make it exact (`likelihood.factored`).
"""

from __future__ import annotations

import numpy as np

from lbnn._base.errors import NotFactorised
from lbnn._base.types import Array
from lbnn.engines.atom import identity_scale, infer_atom
from lbnn.engines.inference import ScaleInference
from lbnn.engines.quadrature import QuadratureLaw, infer_quadrature
from lbnn.likelihood.factored import Correction, FactoredLikelihood
from lbnn.scale.prior import ScalePrior

_DROP = 45.0  # nats below the top at which the survey is good enough
_ERRORS = 6.0  # standard errors by which the survey may be wrong
_WIDEST = 8.0  # e-folds of λ beyond which an eigendecomposition is cheaper
_POINTS = 400
_TRIES = 3


def infer_factored(
    prior: ScalePrior, likelihood: FactoredLikelihood, single_output: bool
) -> tuple[ScaleInference, FactoredLikelihood]:
    """Posterior of λ, and the likelihood with its correction; raises `NotFactorised` beyond a few points."""
    if not prior.widths:
        x = float(np.log(prior.variance))
        exact = likelihood.corrected(x, x)
        return infer_atom(identity_scale(1, prior.variance), exact, single_output), exact
    low, high = _relevant(prior, likelihood)
    for _ in range(_TRIES):
        if high - low > _WIDEST:
            raise NotFactorised
        exact = likelihood.corrected(low, high)
        found_low, found_high = _relevant(prior, exact)
        _require_sound(likelihood, exact.correction)
        if low <= found_low and found_high <= high:
            return infer_quadrature(prior, exact, single_output), exact
        low, high = min(low, found_low), max(high, found_high)
    raise NotFactorised


def _require_sound(survey: FactoredLikelihood, correction: Correction | None) -> None:
    """Raise where the survey was off by more than it said: it may have missed a part of the posterior."""
    assert correction is not None
    x = correction.nodes
    off = np.abs(correction(x) - correction(x[:1]))
    if (off > 1.0 + _ERRORS * survey.deviation(x, float(x[0]))).any():
        raise NotFactorised


def _relevant(prior: ScalePrior, likelihood: FactoredLikelihood) -> tuple[float, float]:
    """Range of log λ in which the density, or its product with a power of λ, may be near its top."""
    law = QuadratureLaw(prior, likelihood)
    nodes, powers = law.nodes, (-1, 0, 1, 2) if law.inverse_integrable else (0, 1, 2)
    x = np.linspace(nodes.x[0], nodes.x[-1], _POINTS)
    values, keep = _log_integrand(law, x), np.zeros(_POINTS, bool)
    peak = float(x[np.argmax(values)])
    unknown = 0.0 if likelihood.correction is not None else _ERRORS * likelihood.deviation(x, peak)
    for power in powers:
        tilted = values + power * x
        keep |= tilted + unknown >= tilted.max() - _DROP
    first, last = np.flatnonzero(keep)[[0, -1]]
    return float(x[max(first - 1, 0)]), float(x[min(last + 1, _POINTS - 1)])


def _log_integrand(law: QuadratureLaw, x: Array) -> Array:
    return law.law.log_density(x) + law.likelihood.log_value(np.exp(x)[:, None], np.ones((len(x), 1, 1)))
