"""Tilted averages from posterior draws that are moved to where the integrand has its mass.

With draws v of the posterior π, weights w and any shift u = v + δ,

    E_π h = ∫ π(u) h(u) du = Σ_s w_s  π(v_s + δ) h(v_s + δ) / π(v_s),

so that δ may be chosen for few terms to dominate no longer: the mean of π h less that of π. It is approached
in steps: while only few draws count, h is tempered until enough of them do. (Moment matching by shifts, as
for leave-one-out densities: Paananen, Piironen, Bürkner and Vehtari, 2021.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize, special

from lbnn._base.types import Array
from lbnn.engines.importance import LARGEST_K
from lbnn.engines.pareto import pareto_k
from lbnn.scale.measure import effective_atoms

_SHARE = 0.3  # of the effective draws that must count for the mean to which draws are moved
_MOST_SHIFTS = 30
_PROGRESS, _MOST_IDLE = (
    1.1,
    4,
)  # given up when so many shifts in a row did not bring this many times the draws

LogDensity = Callable[[Array], Array]


def log_tilted_average(
    points: Array, log_weights: Array, log_own: Array, log_tilted: LogDensity, fewest: float
) -> float | None:
    """log E_π h, or None where too few draws count wherever they are moved.

    Parameters
    ----------
    points : (m, D)
        Draws v of π.
    log_weights : (m,)
        Their normalised log weights.
    log_own : (m,)
        log π at the draws, up to a constant ...
    log_tilted : function of (m, D) -> (m,)
        ... and log π h up to the same.
    fewest : float
        Effective draws that an answer must rest on.
    """
    mean = np.exp(log_weights) @ points
    shift, most, idle = np.zeros_like(mean), 1.0, 0
    for _ in range(_MOST_SHIFTS):
        log_terms = log_weights + log_tilted(points + shift) - log_own
        log_terms[np.isnan(log_terms)] = -np.inf
        effective = float(effective_atoms(log_terms))
        if effective >= fewest and pareto_k(log_terms) < LARGEST_K:
            return float(special.logsumexp(log_terms))
        idle = 0 if effective > _PROGRESS * most else idle + 1
        if idle == _MOST_IDLE:
            return None
        most = max(most, effective)
        shift = shift + _tempered(log_weights, log_terms) @ points - mean
    return None


def _tempered(log_weights: Array, log_terms: Array) -> Array:
    """Normalised weights between those of the draws and those of the terms, of which enough count, (m,)."""
    change = np.where(np.isfinite(log_terms), log_terms - log_weights, -np.inf)
    change = np.maximum(change, change.max() - 1e6)  # draws that do not count at any temperature
    goal = _SHARE * float(effective_atoms(log_weights))

    def excess(power: float) -> float:
        return float(effective_atoms(log_weights + power * change)) - goal

    power = 1.0 if excess(1.0) >= 0 else float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-6))
    log_tempered = log_weights + power * change
    return np.exp(log_tempered - special.logsumexp(log_tempered))
