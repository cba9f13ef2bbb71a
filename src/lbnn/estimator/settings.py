"""What the estimator's parameters mean to the search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions

from lbnn._base import check
from lbnn._base.arrays import device_of, to_numpy
from lbnn._base.types import Array, IndexArray, Mask
from lbnn.engines import ENGINES
from lbnn.estimator import relevance
from lbnn.estimator.columns import RAW, STANDARDISED
from lbnn.estimator.input_transform import InputTransform
from lbnn.estimator.kernels import FAMILIES
from lbnn.noise.make import KINDS
from lbnn.selection import (
    Candidate,
    EvidenceData,
    NoiseSpec,
    Shapes,
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

#: What scikit-learn checks of every parameter.
CONSTRAINTS: dict[str, list[Any]] = {
    "depth": [_EVIDENCE, Interval(Integral, 1, None, closed="left")],
    "width": [_EVIDENCE, Interval(Integral, 1, None, closed="left"), tuple, list],
    "beta": [_EVIDENCE, Interval(Real, 0, None, closed="neither"), Options(Real, {math.inf})],
    "prior_scale": [_EVIDENCE, Interval(Real, 0, None, closed="neither")],
    "noise": [StrOptions(set(NOISES))],
    "inputs": [StrOptions({"evidence", RAW, STANDARDISED})],
    "kernel": [StrOptions({*PAIRWISE_KERNEL_FUNCTIONS, *FAMILIES, "auto", "precomputed"}), callable],
    "kernel_params": [dict, None],
    "ard": ["boolean"],
    "groups": [list, tuple, None],
    "fit_intercept": ["boolean"],
    "average": ["boolean", StrOptions({"auto"})],
    "missing_targets": [StrOptions({"error", "allow"})],
    "engine": [StrOptions({"auto", *ENGINES})],
    "target_error": [Interval(Real, 0, 1, closed="neither")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}

CONSTANT_TARGETS = (
    "the targets are constant, and the evidence of their noise has no maximum: noise_variance_ is 1e-10, the "
    "lower end of its range for targets of variance one. Give beta if you know the noise"
)


def few_rows_for_covariances(outputs: int, rows: int) -> str:
    """What is said of noise='free' with more outputs than rows."""
    return (
        f"noise='free' with {outputs} outputs and {rows} degrees of freedom in the rows: covariances of full "
        "rank would rest on their prior, and are not tried. Only models with few noise factors and one "
        "noise variance for each output are tried"
    )


def dependent_targets(count: int) -> str:
    """What is said of targets that fulfil linear relations."""
    relations = "one linear combination" if count == 1 else f"{count} linear combinations"
    return (
        f"{relations} of the targets {'does' if count == 1 else 'do'} not vary (as in compositions): the "
        "others are modelled, and predictions fulfil the relation exactly"
    )


def approximate_kernel(rows: int, transform: InputTransform, dropped: float) -> str:
    """What is said of a kernel that is not decomposed exactly."""
    return (
        f"the kernel of {rows} rows is approximated by the functions of {len(transform.training_inputs)} of "
        f"them: {dropped:.2g} of its variance at the training points is left out, with the uncertainty "
        "that these functions cannot represent"
    )


def long_search(outputs: int, seconds: float) -> str:
    """What is said where the search over networks takes long."""
    return (
        f"fitting {outputs} outputs will take about {max(seconds / 60, 1):.0f} "
        f"{'minutes' if seconds >= 90 else 'minute'}, most of it for comparing networks of different widths "
        "(verbose=1 shows the progress). Faster: depth=1, which is a Gaussian process in closed form; a "
        "given width, such as depth=2, width=5; or lbnn.BandedRegressor, which fits each output separately"
    )


def own_scales(own: Sequence[int], kind: str, names: Any) -> str:
    """What is said of columns or groups with a prior scale of their own."""
    if not own:
        return f"one prior scale for all columns: no {kind} gains enough evidence from a scale of its own"
    listed = ", ".join(str(each) if names is None else repr(str(names[each])) for each in own[:10])
    more = f" and {len(own) - 10} more" if len(own) > 10 else ""
    return f"{kind}s with a prior scale of their own, in the order of their evidence: {listed}{more}"


def may_be_contrasts(noise: str, beta: Any) -> bool:
    """Whether combinations of targets that do not vary are left out: not where each has its own noise."""
    return not noise.endswith("per_output") and beta != math.inf


CONSTANT_INPUTS = "the inputs do not vary: all networks are the same, and prior_scale_ is a convention"
FEWEST_TO_SHOW_SIGNAL = 5  # examples: fewer cannot show one, or its absence
NO_SIGNAL = (
    "the evidence prefers targets without signal: these examples do not show that the targets depend on the "
    "inputs, and predictions are near their mean. More rows, other columns or a nonlinear kernel "
    "(kernel='linear+rbf') may show a signal"
)
#: The same where a nonlinear kernel was found to show one.
NO_LINEAR_SIGNAL = (
    "the evidence prefers no signal to a linear function of the inputs: predictions of the linear kernel are "
    "near the mean of the targets"
)


def few_rows(examples: int) -> str:
    """What is said of noise that so few examples cannot show."""
    freedom = "1 degree of freedom" if examples == 1 else f"{examples} degrees of freedom"
    return (
        f"the rows have {freedom}, too few to distinguish a signal from noise: noise_variance_, "
        "signal_share_ and intervals rest on their priors. Give beta = 1/(noise variance) if you know it"
    )


def weak_signal(lead: float) -> str:
    """What is said where the evidence prefers a signal to none by so few nats."""
    return (
        f"the evidence prefers a signal only slightly over targets without signal, by {lead:.2g} nats: "
        f"these examples do not show clearly that the targets depend on the inputs. More rows, other "
        f"columns or separate scales of columns (ard=True) may show it"
    )


_AT_AN_END = (
    "the best hyperparameters are at the end of the ranges searched: give beta or prior_scale if you know "
    "them"
)


def without_noise_message(outputs: Sequence[int], data: EvidenceData, averaged: bool) -> str:
    """What is said where some of the outputs are fitted without noise."""
    which = "the targets are" if len(outputs) == data.outputs else f"outputs {list(outputs)} are"
    reason = (
        "The kernel matrix of the rows has full rank (at least as many columns as rows, or a kernel that is "
        "not linear), so that functions of the inputs pass through any targets"
        if data.spectrum.rank == data.spectrum.examples
        else "The usual reason: the targets are a function of the columns, or a column was computed from them"
    )
    known = (
        "predictions average over smaller and larger noise"
        if averaged
        else "intervals are too narrow if the measurements have noise"
    )
    return (
        f"{which} fitted without noise, and the evidence does not say how small it is: {known}. Give beta "
        f"= 1/(noise variance) if you know it. {reason}"
    )


def at_edge_message(candidate: Candidate, data: EvidenceData, averaged: bool) -> str:
    """What is said of hyperparameters at the end of their ranges: which end, and what to do."""
    noiseless = np.flatnonzero(without_noise(candidate, data)).tolist()
    if noiseless:
        return without_noise_message(noiseless, data, averaged)
    return NO_SIGNAL if without_signal(candidate, data) else _AT_AN_END


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


def given(beta: Any, prior_scale: Any, unit: float) -> NoiseSpec:
    """The hyperparameters that are given, for targets divided by `unit`."""
    return NoiseSpec(
        None if isinstance(beta, str) else 1 / (float(beta) * unit**2),
        None if isinstance(prior_scale, str) else float(prior_scale) / unit**2,
    )


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


def require_streamable(kernel: Any) -> None:
    """Raise where settings do not go with data that are read in chunks."""
    if kernel != "linear":
        raise ValueError(
            f"data in chunks are for kernel='linear', got kernel={kernel!r}: a kernel matrix of all rows "
            "would not fit either"
        )


def double_of(X: Any, kernel: Any) -> Any:
    """float64 of NumPy, or of the library of X where scikit-learn dispatches to it."""
    device = device_of(X)
    if device.host or not get_config()["array_api_dispatch"]:
        return np.float64
    if kernel != "linear":
        raise ValueError(
            f"arrays of other libraries are for kernel='linear', got kernel={kernel!r} and {device}: "
            "convert X to NumPy"
        )
    return device.xp.float64


def as_seed(random_state: Any) -> int:
    """An int as it is; one that is drawn from anything else that scikit-learn takes."""
    return int(random_state) if isinstance(random_state, Integral) else drawn_seed(random_state)


def drawn_seed(random_state: Any) -> int:
    """A seed that is drawn from whatever scikit-learn takes."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def row_weights(sample_weight: Any, rows: int) -> Array | None:
    """Weights of rows, some of them perhaps zero; None where all are one."""
    if sample_weight is None:
        return None
    weights = check.real_array(sample_weight, "sample_weight")
    if weights.shape != (rows,):
        raise ValueError(
            f"sample_weight must have one number for each of the {rows} rows, got "
            f"sample_weight.shape={weights.shape}"
        )
    if (weights < 0).any() or not weights.any():
        raise ValueError(
            "sample_weight must be positive, or zero for rows that are left out, got "
            f"{np.count_nonzero(weights < 0)} negative and {np.count_nonzero(weights > 0)} positive weights"
        )
    return None if (weights == 1).all() else weights


def require_complete_rows(y: Any) -> None:
    """Raise where rows have some of their targets only."""
    try:
        array = to_numpy(y)
    except ValueError:
        return  # scikit-learn says what is wrong with it
    if array.ndim != 2 or array.dtype.kind != "f":
        return
    missing = np.isnan(array)
    partly = missing.any(axis=1) & ~missing.all(axis=1)
    if partly.any():
        raise ValueError(
            f"every row needs all of its targets, got NaN in {np.count_nonzero(partly)} rows that have other "
            "targets: missing_targets='allow' takes NaN for targets that were not measured (what is known of "
            "new rows can be used with predictive(X).with_noise().given(Y))"
        )


def split_missing(y: Any) -> tuple[Any, Mask | None]:
    """Targets with the mean of each output in the place of NaN, and which were observed; None if all were."""
    try:
        if hasattr(y, "isna"):  # pandas, whose NA is no number
            numbers = np.asarray(y.to_numpy(dtype=float, na_value=np.nan))
        else:
            numbers = np.asarray(to_numpy(y), dtype=float)
    except (TypeError, ValueError):
        return y, None  # scikit-learn says what is wrong with it
    missing = np.isnan(numbers)
    if not missing.any() or numbers.ndim not in (1, 2):
        return y, None
    observed = ~missing.reshape(len(numbers), -1)
    if not observed.any(axis=0).all():
        raise ValueError(
            "every output needs at least one observed target, got none for outputs "
            f"{np.flatnonzero(~observed.any(axis=0)).tolist()}: leave them out"
        )
    with np.errstate(invalid="ignore"):
        means = np.nanmean(numbers, axis=0)
    return np.where(missing, means, numbers), observed


def weights_of_told(weights: Array | None, observed: Mask) -> Array | None:
    """Weights of rows, zero for those without any target, which carry no information."""
    told = observed.any(axis=1)
    if told.all():
        return weights
    return told.astype(float) if weights is None else np.where(told, weights, 0.0)


def require_table(noise: str, beta: Any) -> None:
    """Raise where settings do not go with missing targets."""
    if noise == "free":
        raise ValueError(
            "noise='free' is for rows that have all of their targets, got missing targets: use 'auto', "
            "'independent', 'per_output', 'coupled' or 'coupled_per_output'"
        )
    if beta == math.inf:
        raise ValueError("missing targets need noise, got beta=inf: give a finite beta, or leave it out")


def missing_message(observed: Mask, empty: int) -> str:
    """How many targets were missing, output by output."""
    counts = (~observed).sum(axis=0)
    listed = ", ".join(f"{count}" for count in counts[:12]) + (", ..." if len(counts) > 12 else "")
    rows = f"; {empty} rows without any target are left out" if empty else ""
    return (
        f"{counts.sum()} of {observed.size} targets were missing ({listed} of the {len(observed)} rows of "
        f"each output): the fit is that of the observed ones{rows}"
    )


def groups_of_columns(
    ard: bool, groups: Any, kernel: Any, beta: Any, columns: int, names: Any
) -> IndexArray | None:
    """The group of each column that may have a scale of its own, (n0,); None where all have one."""
    if not ard and groups is None:
        return None
    if ard and groups is not None:
        raise ValueError("a scale is for each column or for each group, got ard=True and groups: give one")
    ours = isinstance(kernel, str) and kernel in FAMILIES
    if kernel != "linear" and not (ours and FAMILIES[kernel].stationary):
        raise ValueError(
            "scales of columns are for kernel='linear' and for kernels with a length scale, got "
            f"kernel={kernel!r}: leave out ard and groups"
        )
    if beta == math.inf:
        raise ValueError(
            "scales of columns are chosen where there is noise, got beta=inf: leave out ard and groups"
        )
    return np.arange(columns) if groups is None else relevance.groups_of_columns(groups, columns, names)


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


def names_of_targets(y: Any) -> list[str] | None:
    """Names of the columns of a table, or of a series; None where there are none."""
    columns = getattr(y, "columns", None)
    if columns is not None:
        return [str(name) for name in columns]
    name = getattr(y, "name", None) if getattr(y, "ndim", None) == 1 else None
    return None if name is None else [str(name)]


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
