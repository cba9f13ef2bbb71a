"""What the estimator's parameters mean to the search."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lbnn import _validation as check
from lbnn.evidence_search import Choice, EvidenceData, Shapes

CONSTANT_TARGETS = (
    "the targets are constant, and the evidence of their noise has no maximum: noise_variance_ is 1e-10, the "
    "lower end of its range for targets of variance one. Give beta if you know the noise"
)
CONSTANT_INPUTS = "the inputs do not vary: all networks are the same, and prior_scale_ is a convention"
ON_EDGE = (
    "the best hyperparameters are at the edge of the ranges searched: the data are fitted without noise, or "
    "they show no signal"
)


def network_shapes(depth: Any, width: Any) -> Shapes:
    """The networks that `depth` and `width` leave as candidates."""
    layers = None if isinstance(depth, str) else int(depth) - 1
    if isinstance(width, (tuple, list)):
        return Shapes(fixed=(_matching(check.widths(width), layers),))
    if layers == 0:
        if not isinstance(width, str):
            raise ValueError(f"depth one has no hidden layer, got width={width!r}: use width='evidence'")
        return Shapes(fixed=((),))
    if isinstance(width, str):
        return Shapes(depth=None if layers is None else layers + 1)
    each = (int(width),)
    return Shapes(fixed=(each, each * 2) if layers is None else (each * layers,))


def _matching(widths: tuple[int, ...], layers: int | None) -> tuple[int, ...]:
    if layers not in (None, len(widths)):
        raise ValueError(f"a network of depth {layers + 1} has {layers} hidden widths, got width={widths}")
    return widths


def given(beta: Any, prior_scale: Any, per_output: bool, unit: float) -> Choice:
    """The hyperparameters that are given, for targets divided by `unit`."""
    if beta == math.inf and per_output:
        raise ValueError("noise='per_output' needs noise, got beta=inf: use noise='isotropic'")
    return Choice(
        None if isinstance(beta, str) else 1 / (float(beta) * unit**2),
        None if isinstance(prior_scale, str) else float(prior_scale) / unit**2,
        per_output,
    )


def require_examples(data: EvidenceData, choice: Choice) -> None:
    """The noise is inferred from two examples or more, or one that has no level to take it up."""
    if choice.noise_variance is None and not data.spectrum.examples:
        raise ValueError(
            "the noise of the targets cannot be inferred from one sample with an intercept, got n_samples=1: "
            "give beta, or set fit_intercept=False"
        )


def constant_outputs(data: EvidenceData) -> list[int]:
    """Outputs that do not vary."""
    varying = (data.spectrum.targets**2).sum(axis=0) + data.residuals > 0
    return np.flatnonzero(~varying).tolist()
