"""Constraints of the parameters; networks, kinds of noise and hyperparameters that they allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions

from lbnn._base import check
from lbnn._base.notices import Notice
from lbnn._base.types import Array, IndexArray
from lbnn.estimator.kernels import FAMILIES
from lbnn.estimator.notices import notice
from lbnn.estimator.units import OWN, RAW, STANDARDISED, TargetUnits
from lbnn.noise.make import KINDS
from lbnn.selection import (
    EvidenceData,
    NoiseSpec,
    Shapes,
    Trial,
    coupled,
    prefers_own_units,
    without_noise,
    without_signal,
)

_EVIDENCE = StrOptions({"evidence"})
#: Outputs up to which noise="auto" tries coupled noise: at 100 its evidence takes 5 s and rests on one draw
#: (error 0.7 to 1), at 50 it takes 1 s and has an error of 0.07.
_MOST_COUPLED = 64
#: Kinds of noise: those of `Network.condition`, one of them in units for each output, and the best of all.
NOISES = ("auto", *KINDS, "coupled_per_output")
#: Kernels by name.
KERNELS = ("linear", *FAMILIES, "auto", "precomputed")
FEWEST_TO_SHOW_SIGNAL = 5  # examples: fewer cannot show one, or its absence

#: What scikit-learn checks of every parameter.
CONSTRAINTS: dict[str, list[Any]] = {
    "depth": [_EVIDENCE, Interval(Integral, 1, None, closed="left")],
    "width": [_EVIDENCE, Interval(Integral, 1, None, closed="left"), tuple, list],
    "noise": [StrOptions(set(NOISES))],
    "kernel": [StrOptions(set(KERNELS)), callable],
    "column_scales": [StrOptions({"auto", RAW, STANDARDISED, OWN}), list, tuple],
    "beta": [_EVIDENCE, Interval(Real, 0, None, closed="neither"), Options(Real, {math.inf})],
    "prior_scale": [_EVIDENCE, Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "missing_targets": [StrOptions({"error", "allow"})],
    "average": ["boolean", StrOptions({"auto"})],
    "target_error": [Interval(Real, 0, 1, closed="neither")],
    "random_state": ["random_state"],
}


def may_be_contrasts(noise: str, beta: Any) -> bool:
    """Whether combinations of targets that do not vary are left out: not where each has its own noise."""
    return not noise.endswith("per_output") and beta != math.inf


def network_shapes(depth: Any, width: Any) -> Shapes:
    """The networks that `depth` and `width` leave as candidates."""
    layers = None if isinstance(depth, str) else int(depth) - 1
    if isinstance(width, (tuple, list)):
        widths = check.widths(width)
        if layers not in (None, len(widths)):
            raise ValueError(
                f"a network of depth {layers + 1} has {layers} hidden widths, got width={widths}"
            )
        return Shapes(fixed=(widths,))
    if layers == 0:
        if not isinstance(width, str):
            raise ValueError(f"depth one has no hidden layer, got width={width!r}: use width='evidence'")
        return Shapes(fixed=((),))
    if isinstance(width, str):
        return Shapes(depth=None if layers is None else layers + 1)
    each = (int(width),)
    return Shapes(fixed=(each, each * 2) if layers is None else (each * layers,))


def given(model: Any, units: TargetUnits) -> NoiseSpec:
    """The hyperparameters that are given, in the units of the search."""
    unit = math.exp(units.log_unit)
    return NoiseSpec(
        None if isinstance(model.beta, str) else 1 / (float(model.beta) * unit**2),
        None if isinstance(model.prior_scale, str) else float(model.prior_scale) / unit**2,
    )


def settled(
    noise: str, spec: NoiseSpec, data: EvidenceData, shapes: Shapes, dependent: int
) -> tuple[list[NoiseSpec], Shapes, list[Notice]]:
    """What is searched; what the data do not determine is set by convention, with a notice.

    `dependent` is the number of combinations of the targets that do not vary.
    """
    require_examples(data, spec)
    constant, freedom, notices = constant_outputs(data), data.spectrum.examples, []
    if spec.noise_variance is None and constant:
        own = noise == "per_output"
        every = len(constant) == data.outputs
        notices.append(
            notice("constant_targets")
            if every
            else notice("constant_output", outputs=constant, own_noise=own)
        )
    few = freedom < FEWEST_TO_SHOW_SIGNAL and len(constant) < data.outputs
    if few and spec.noise_variance is None:
        notices.append(notice("few_rows", freedom=freedom))
    if dependent:
        notices.append(notice("dependent_targets", count=dependent))
    if noise == "free" and data.outputs > freedom:
        notices.append(notice("few_rows_for_covariances", outputs=data.outputs, freedom=freedom))
    if not data.spectrum.rank:
        notices.append(notice("constant_inputs"))
        spec = NoiseSpec(spec.noise_variance, spec.prior_scale or 1.0)
        shapes = Shapes(fixed=((),)) if shapes.fixed is None else shapes
    return noise_specs(noise, spec, data, shapes, bool(dependent)), shapes, notices


def notices_of_best(best: Trial, data: EvidenceData, averaged: bool, said: Sequence[Notice]) -> list[Notice]:
    """What is said of a best trial without noise or signal, beside what is known of the data."""
    codes = {each.code for each in said}
    if "constant_targets" in codes:
        return []
    noiseless = np.flatnonzero(without_noise(best, data)).tolist()
    if best.on_edge and "few_rows" not in codes:
        if noiseless:
            every, rank = len(noiseless) == data.outputs, data.spectrum.rank == data.spectrum.examples
            return [
                notice("without_noise", outputs=noiseless, every=every, full_rank=rank, averaged=averaged)
            ]
        return [notice("no_signal", kernel=None) if without_signal(best, data) else notice("at_end")]
    few = data.spectrum.examples < FEWEST_TO_SHOW_SIGNAL
    return [] if best.signal or few else [notice("no_signal", kernel=None)]


def noise_unit(beta: Any) -> float:
    """Of the noise variances that the search is about: one, or zero at zero temperature."""
    return 0.0 if beta == math.inf else 1.0


def noise_specs(
    noise: str, basic: NoiseSpec, data: EvidenceData, shapes: Shapes, dependent: bool
) -> list[NoiseSpec]:
    """The kinds of noise to be compared; with one output there is one kind."""
    if data.outputs == 1:
        return [basic]
    if dependent and noise == "auto":  # contrasts have no units of their own
        specs = [replace(basic, coupled=kind) for kind in (True, False)]
        return [spec for spec in specs if not spec.coupled or _can_couple(spec, data)]
    if noise == "free":
        _require_free(basic, data)
        return [basic]
    if noise != "auto":
        spec = replace(basic, per_output=noise.endswith("per_output"), coupled=noise.startswith("coupled"))
        _require_noise(spec, data, shapes)
        return [spec]
    units = (False, True) if not constant_outputs(data) and prefers_own_units(data, basic) else (False,)
    kinds = (True, False) if data.outputs <= _MOST_COUPLED else (False,)
    specs = [replace(basic, per_output=own, coupled=kind) for kind in kinds for own in units]
    return [spec for spec in specs if not spec.coupled or _can_couple(spec, data)]


def _require_free(basic: NoiseSpec, data: EvidenceData) -> None:
    """Raise where noise with a covariance of its own cannot be fitted."""
    constant = constant_outputs(data)
    if not data.spectrum.rank or constant:
        raise ValueError(
            "noise='free' needs inputs and outputs that vary, got "
            f"{f'constant outputs {constant}' if constant else 'constant inputs'}: leave them out, or use "
            "noise='independent'"
        )
    if basic.noise_variance is not None or basic.prior_scale is not None:
        raise ValueError(
            "noise='free' integrates over noise and prior scale, got beta or prior_scale: leave them at "
            "'evidence', or use Network.condition with noise_covariance"
        )


def _can_couple(spec: NoiseSpec, data: EvidenceData) -> bool:
    return spec.noise_variance != 0 and coupled(data).exists(spec.per_output)


def _require_noise(spec: NoiseSpec, data: EvidenceData, shapes: Shapes) -> None:
    """Raise where a kind of noise that is asked for has no posterior."""
    name = f"noise={spec.noise!r}"
    if spec.noise != "independent" and spec.noise_variance == 0:
        raise ValueError(f"{name} needs noise, got beta=inf: use noise='independent'")
    narrow = [widths for widths in shapes.fixed or () if widths and min(widths) < data.outputs]
    if spec.coupled and narrow:
        raise ValueError(
            f"{name} needs hidden widths of at least the number of outputs, got width={narrow[0]} with "
            f"{data.outputs} outputs: use noise='independent' or 'per_output'"
        )
    if spec.coupled and not _can_couple(spec, data):
        raise ValueError(
            f"{name} needs inputs that vary and targets of which every combination varies and has noise, got "
            f"{data.spectrum.examples} contrasts of {data.outputs} outputs without: use noise='independent'"
        )


def as_seed(random_state: Any) -> int:
    """An int as it is; one that is drawn from anything else that scikit-learn takes."""
    return int(random_state) if isinstance(random_state, Integral) else drawn_seed(random_state)


def drawn_seed(random_state: Any) -> int:
    """A seed that is drawn from whatever scikit-learn takes."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def column_numbers(columns: Sequence[Any], count: int, names: Any) -> IndexArray:
    """Columns that are given by number or by name, as numbers."""
    number = {str(name): k for k, name in enumerate(names)} if names is not None else {}
    found = [number.get(each, -1) if isinstance(each, str) else int(each) for each in columns]
    wrong = [each for each, k in zip(columns, found, strict=True) if not 0 <= k < count]
    if wrong or not found:
        raise ValueError(
            f"columns are numbers from 0 to {count - 1}, or names where X is a table, got "
            f"{wrong[0] if wrong else 'none'!r}"
        )
    return np.array(found, int)


def require_examples(data: EvidenceData, spec: NoiseSpec) -> None:
    """Raise where the noise is to be inferred from one example whose level takes it up."""
    if spec.noise_variance is None and not data.spectrum.examples:
        raise ValueError(
            "the noise of the targets cannot be inferred from one sample with an intercept, got n_samples=1: "
            "give beta, or set fit_intercept=False"
        )


def constant_outputs(data: EvidenceData) -> list[int]:
    """Outputs that do not vary."""
    varying = (data.spectrum.targets**2).sum(axis=0) + data.residuals > 0
    return np.flatnonzero(~varying).tolist()


def comparison_spec(noise: str, basic: NoiseSpec, targets: Array, examples: int) -> NoiseSpec:
    """The hyperparameters at which transforms of the inputs are compared.

    With a noise unit for each output, so that units of outputs do not matter, unless it is to be one for all.
    """
    several = targets.ndim == 2 and targets.shape[1] > 1
    own = noise in ("auto", "free") or noise.endswith("per_output")
    varying = bool((targets**2).sum(axis=0).all())
    return replace(
        basic, per_output=several and own and varying and basic.noise_variance != 0 and examples > 2
    )
