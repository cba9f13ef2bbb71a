"""What the estimator's parameters mean to the search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lbnn import _validation as check
from lbnn.evidence_search import Choice, EvidenceData, Shapes, coupled, prefers_own_units

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


def given(beta: Any, prior_scale: Any, unit: float) -> Choice:
    """The hyperparameters that are given, for targets divided by `unit`."""
    return Choice(
        None if isinstance(beta, str) else 1 / (float(beta) * unit**2),
        None if isinstance(prior_scale, str) else float(prior_scale) / unit**2,
    )


def noise_choices(noise: str, basic: Choice, data: EvidenceData, shapes: Shapes) -> list[Choice]:
    """The kinds of noise to be compared; with one output there is one kind."""
    if data.outputs == 1:
        return [basic]
    coupling = _coupling(noise, basic, data, shapes)
    if noise != "evidence":
        return [replace(basic, per_output=noise in ("per_output", "coupled_per_output"), coupled=coupling)]
    units = (False, True) if not constant_outputs(data) and prefers_own_units(data, basic) else (False,)
    kinds = (True, False) if coupling else (False,)
    return [replace(basic, per_output=own, coupled=kind) for kind in kinds for own in units]


def _coupling(noise: str, basic: Choice, data: EvidenceData, shapes: Shapes) -> bool:
    """Whether coupled noise is a candidate; where it is asked for and has no posterior, that is an error."""
    if noise not in ("isotropic", "evidence") and basic.noise_variance == 0:
        raise ValueError(f"noise={noise!r} needs noise, got beta=inf: use noise='isotropic'")
    if noise in ("isotropic", "per_output"):
        return False
    narrow = [widths for widths in shapes.fixed or () if widths and min(widths) < data.outputs]
    if noise != "evidence" and narrow:
        raise ValueError(
            f"noise={noise!r} needs hidden widths of at least the number of outputs, got "
            f"width={narrow[0]} with {data.outputs} outputs: use noise='isotropic' or 'per_output'"
        )
    possible = basic.noise_variance != 0 and coupled(data).exists
    if noise != "evidence" and not possible:
        raise ValueError(
            f"noise={noise!r} needs targets of which every combination varies and inputs that vary, got "
            f"{data.spectrum.examples} contrasts of {data.outputs} outputs: use noise='isotropic'"
        )
    return possible


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
