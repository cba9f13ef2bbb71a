"""Infinite width: the evidence of the Gaussian process in closed form, for many hyperparameters at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from lbnn._base.types import Array
from lbnn.selection.data import EvidenceData
from lbnn.selection.optimise import Optimum, maximise, positive_definite
from lbnn.selection.parameters import FreeParameters, NoiseSpec, free_parameters, target_variances

_GRID = 241
_STARTS = 3  # local maxima of the grid that are followed up


def log_evidence(data: EvidenceData, h: Array) -> Array:
    """log p(Y | h) at L = I, for h of shape (k, n_d + 1) -> (k,)."""
    eigenvalues, squares = data.spectrum.eigenvalues, data.spectrum.targets**2
    units, examples = np.exp(h[:, :-1]), data.spectrum.examples
    variance = data.noise_variance + np.exp(h[:, -1:]) * eigenvalues
    misfit = (1 / variance) @ squares + (data.residuals if data.noise_variance else 0.0)
    constant = data.spectrum.log_jacobian - 0.5 * examples * data.outputs * math.log(2 * math.pi)
    return constant - 0.5 * (
        data.outputs * np.log(variance).sum(1) + (misfit / units + examples * h[:, :-1]).sum(1)
    )


def evidence_and_gradient(data: EvidenceData, h: Array) -> tuple[float, Array]:
    """Log evidence and its gradient in h (n_d + 1,): the likelihood at L = I.

    With D_i = τ + κ g_i, s_i = κ g_i/D_i and m_j = Σ_i ỹ_ij²/D_i + residual_j the gradient is ½ (m_j/u_j −
    p) in log u_j and −½ Σ_ij s_i (1 − ỹ_ij²/(u_j D_i)) in log κ.
    """
    terms = _terms(data, h)
    by_unit = 0.5 * (terms.misfit - data.spectrum.examples)
    by_scale = -0.5 * (data.outputs * terms.share.sum() - (terms.share @ terms.squares).sum())
    return float(log_evidence(data, h[None])[0]), np.append(by_unit, by_scale)


def curvature(data: EvidenceData, h: Array) -> Array:
    """Minus the second derivatives of the log evidence in h, (n_d + 1, n_d + 1)."""
    terms = _terms(data, h)
    squares, share = terms.squares.sum(axis=1), terms.share
    result = np.zeros((data.outputs + 1,) * 2)
    np.fill_diagonal(result, np.append(0.5 * terms.misfit, 0.0))
    result[-1, :-1] = result[:-1, -1] = 0.5 * share @ terms.squares
    result[-1, -1] = 0.5 * (share * (1 - share) * (data.outputs - squares) + share**2 * squares).sum()
    return result


@dataclass(frozen=True)
class _Terms:
    """What the derivatives are made of."""

    share: Array  # s_i = κ g_i/D_i, (r,)
    squares: Array  # ỹ_ij²/(u_j D_i), (r, n_d)
    misfit: Array  # their sums over i, with the targets outside the range of G, (n_d,)


def _terms(data: EvidenceData, h: Array) -> _Terms:
    """Terms of the log evidence at h (n_d + 1,)."""
    signal, units = np.exp(h[-1]) * data.spectrum.eigenvalues, np.exp(h[:-1])
    variance = data.noise_variance + signal
    squares = data.spectrum.targets**2 / variance[:, None] / units
    outside = data.residuals / units if data.noise_variance else 0.0
    return _Terms(signal / variance, squares, squares.sum(axis=0) + outside)


def optima(data: EvidenceData, spec: NoiseSpec) -> list[Optimum]:
    """Local maxima of the evidence at infinite width, best first; searched once for each unit of the noise.

    At infinite width coupled noise is independent noise, so that the two share their search.
    """
    key = replace(spec, coupled=False)
    if key not in data.found:
        data.found[key] = search(data, key, free_parameters(data, key))
    return list(data.found[key])


def search(data: EvidenceData, spec: NoiseSpec, free: FreeParameters) -> list[Optimum]:
    """Local maxima of the evidence at infinite width, best first: a wide grid, then BFGS."""
    line = _grid(data, spec, free)
    grid = np.stack([free.nearest(h) for h in line])
    values = log_evidence(data, np.stack([free.at(phi) for phi in grid]))
    tops = [_climb(data, free, _polished(data, spec, free, line, index)) for index in _peaks(values)]
    return _distinct(sorted(tops, key=lambda optimum: -optimum.value))


def prefers_own_units(data: EvidenceData, spec: NoiseSpec) -> bool:
    """Whether noise units of their own are worth ½ log p for each of the n_d − 1 further parameters.

    Where noise has no range (one example, zero temperature) they are not.
    """
    if spec.noise_variance == 0 or data.spectrum.examples < 2:
        return False
    equal, own = (
        optima(data, each)[0].value
        for each in (replace(spec, per_output=False), replace(spec, per_output=True))
    )
    return own - equal > 0.5 * (data.outputs - 1) * math.log(data.spectrum.examples)


def _climb(data: EvidenceData, free: FreeParameters, start: Array) -> Optimum:
    """A local maximum from start (k,), with the true curvature there."""

    def evidence(h: Array) -> tuple[float, Array]:
        """Log evidence and gradient at h (n_d + 1,)."""
        return evidence_and_gradient(data, h)

    def curved(phi: Array) -> Array:
        """Curvature (k, k) at φ (k,), made positive definite."""
        return positive_definite(free.along(curvature(data, free.at(phi))))

    top = maximise(evidence, free, start, curved(start), tolerance=1e-9)
    return replace(top, curvature=curved(top.phi))


def _polished(data: EvidenceData, spec: NoiseSpec, free: FreeParameters, line: Array, index: int) -> Array:
    """A point of the grid (k,), moved to the maximum along the line where units are at their best there."""
    if spec.noise_variance is not None or spec.prior_scale is not None or not 0 < index < len(line) - 1:
        return free.nearest(line[index])

    def at(log_scale: float) -> Array:
        """h (n_d + 1,) with the best noise variances at a prior scale."""
        scale = np.full((1, 1), log_scale)
        return np.append(_best_log_units(data, spec, scale)[0], log_scale)

    ends = line[index - 1, -1], line[index + 1, -1]
    found = optimize.minimize_scalar(
        lambda log_scale: -float(log_evidence(data, at(log_scale)[None])[0]),
        bounds=ends,
        method="bounded",
        options={"xatol": 1e-7},
    )
    return free.nearest(at(float(found.x)))


def _grid(data: EvidenceData, spec: NoiseSpec, free: FreeParameters) -> Array:
    """Hyperparameters along one line through the box, (k, n_d + 1): the other ones at their best or typical.

    Given κ the best noise variances are averages: u_j = [Σ_i ỹ_ij²/(1 + κ g_i) + residual_j]/p.
    """
    if not free.count:
        return free.base[None]
    if spec.prior_scale is not None:
        shifts = np.linspace(free.lower - free.lower, free.upper - free.lower, _GRID) + free.lower
        return np.stack([free.at(phi) for phi in shifts])
    log_scale = np.linspace(free.lower[-1], free.upper[-1], _GRID)[:, None]
    if spec.noise_variance is not None:
        return np.hstack([np.broadcast_to(free.base[:-1], (_GRID, data.outputs)), log_scale])
    return np.hstack([_best_log_units(data, spec, log_scale), log_scale])


def _best_log_units(data: EvidenceData, spec: NoiseSpec, log_scale: Array) -> Array:
    """Log of the best noise variances (m, n_d) at prior scales with logarithms (m, 1)."""
    weights = 1 / (1 + np.exp(log_scale) * data.spectrum.eigenvalues)
    misfit = weights @ data.spectrum.targets**2 + data.residuals
    if not spec.per_output:
        misfit = np.broadcast_to(misfit.mean(axis=1, keepdims=True), misfit.shape)
    floor = np.finfo(float).tiny * target_variances(data)
    return np.log(misfit / max(data.spectrum.examples, 1) + floor)


def _peaks(values: Array) -> list[int]:
    """Indices of the highest local maxima of values (n,)."""
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    peaks = np.flatnonzero((padded[1:-1] >= padded[:-2]) & (padded[1:-1] > padded[2:]))
    return sorted(peaks.tolist(), key=lambda index: -values[index])[:_STARTS]


def _distinct(optima: list[Optimum]) -> list[Optimum]:
    """Optima that differ by more than the search's own tolerance."""
    kept: list[Optimum] = []
    for optimum in optima:
        if all(np.abs(optimum.phi - other.phi).max(initial=0.0) > 0.1 for other in kept):
            kept.append(optimum)
    return kept
