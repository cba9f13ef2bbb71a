"""Maximise a log evidence over the free hyperparameters, from its value and gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from lbnn._base.types import Array
from lbnn.selection.parameters import FreeParameters

#: Log evidence at h and its gradient ∂/∂h.
Evidence = Callable[[Array], tuple[float, Array]]

_LONGEST_STEP = 1.0  # largest change of a parameter (a logarithm) in one step
_SMALLEST_GAIN = 0.1  # share of the gain promised by the gradient that a step must bring to be kept


@dataclass(frozen=True)
class Optimum:
    """Where a search stands: φ, the log evidence, its gradient, and the estimate of the curvature so far."""

    phi: Array  # (k,)
    value: float
    gradient: Array  # (k,)
    curvature: Array  # of the negative log evidence, (k, k), positive definite


def maximise(
    evidence: Evidence,
    free: FreeParameters,
    start: Array,
    curvature: Array,
    *,
    tolerance: float,
    evaluations: int = 60,
    rival: float = -np.inf,
) -> Optimum:
    """The maximum by quasi-Newton steps in the box, from start (k,) and curvature (k, k).

    One evaluation is expensive, so `curvature` is that of a neighbouring problem to begin with, and every
    evaluation updates it, whether its step is accepted or not. A search that would need ten steps like its
    next one to come near `rival`, a log evidence that is known, ends early.
    """

    def evaluate(phi: Array, curvature: Array) -> Optimum:
        """Value and gradient at φ (k,), with the curvature (k, k) known there."""
        value, gradient = evidence(free.at(phi))
        return Optimum(phi, value, gradient @ free.directions, curvature)

    here, longest = evaluate(free.inside(start), curvature), _LONGEST_STEP
    for _ in range(evaluations - 1):
        step = _step(here, free, longest)
        promised = float(here.gradient @ step)
        if promised < 2 * tolerance or here.value + 10 * promised < rival:
            break
        there = evaluate(here.phi + step, here.curvature)
        learned = _learn(here.curvature, step, here.gradient - there.gradient)
        if there.value > here.value + _SMALLEST_GAIN * promised / 2:
            here, longest = there, _LONGEST_STEP
        else:
            longest = float(np.abs(step).max()) / 3
        here = Optimum(here.phi, here.value, here.gradient, learned)
    return here


def positive_definite(matrix: Array) -> Array:
    """A curvature (k, k) whose eigenvalues are made positive, and no smaller than one."""
    symmetric = (matrix + matrix.T) / 2
    try:  # a tenth of the time of eigenvectors where there is nothing to be changed
        np.linalg.cholesky(symmetric - np.eye(len(symmetric)))
        return symmetric
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(symmetric)
    return (vectors * np.maximum(np.abs(values), 1.0)) @ vectors.T


def _step(here: Optimum, free: FreeParameters, longest: float) -> Array:
    """The quasi-Newton step (k,) of the parameters that the box does not hold, shortened and kept inside."""
    # parameters that are not at an edge which the gradient points across
    moving = ~(
        ((here.phi <= free.lower) & (here.gradient < 0)) | ((here.phi >= free.upper) & (here.gradient > 0))
    )
    step = np.zeros_like(here.phi)
    step[moving] = _solve(here.curvature[np.ix_(moving, moving)], here.gradient[moving])
    step *= min(1.0, longest / max(float(np.abs(step).max(initial=0.0)), 1e-300))
    return free.inside(here.phi + step) - here.phi


def _solve(curvature: Array, gradient: Array) -> Array:
    """C⁻¹ g (k,) for C (k, k); eigenvalues are bounded below where rounding of updates left it indefinite."""
    try:
        return np.asarray(linalg.cho_solve(linalg.cho_factor(curvature), gradient))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(curvature)
        along = vectors.T @ gradient
        return np.asarray(vectors @ (along / np.maximum(values, 1e-10 * values.max(initial=1.0))))


def _learn(curvature: Array, step: Array, change: Array) -> Array:
    """The BFGS update of a curvature (k, k); skipped where the log evidence is not concave along the step."""
    bend, known = float(step @ change), curvature @ step
    if bend <= 1e-3 * float(step @ known):
        return curvature
    return curvature + np.outer(change, change) / bend - np.outer(known, known) / float(step @ known)
