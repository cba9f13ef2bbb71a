"""The table of a fit: checked rows with a mask of observed targets, weights, copies and names.

Rows that share their inputs only are data, and their likelihood is the ordinary one: they determine the
noise. Copies that agree in every digit are nearly always an accident. Where the inputs distinguish all other
rows, the noise would be learned from the copies alone, and the evidence grows without bound as it goes to
zero: there each is counted once.

Data in blocks of rows are the triangle of [1 X Y]: a small table with the moments of all rows, and a count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.utils.validation import validate_data

from lbnn._base import check
from lbnn._base.arrays import device_of, namespace, require_one_device, take, times, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.notices import Notice
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.data.centring import Columns
from lbnn.data.missing import MissingCells
from lbnn.data.projection import RANK_TOLERANCE
from lbnn.data.stream import DaskBlocks, Factor, Stream, is_dask
from lbnn.estimator.leverage import Extent
from lbnn.estimator.notices import notice
from lbnn.estimator.units import ColumnUnits, TargetUnits, varying

#: Smallest deviation of a combination of standardised targets, relative to the largest, ...
_DEPENDENT = 1e-8
#: ... and where it is the square root of a moment, which is known to rounding of the largest.
_DEPENDENT_BY_MOMENTS = 1e-6


@dataclass(frozen=True)
class Rows:
    """Which rows are counted, and which of them stands for each row of the table.

    Attributes
    ----------
    kept : (k,)
        Rows that are counted, in the order of the table.
    stands_for : (p,)
        Position in `kept` of the row that each row of the table is counted as; −1 of rows left out.
    copies, replicates : int
        Rows that agree with another in inputs and targets, and in inputs only.
    """

    kept: IndexArray
    stands_for: IndexArray
    copies: int = 0
    replicates: int = 0

    @classmethod
    def all(cls, count: int, copies: int = 0, replicates: int = 0) -> Rows:
        """Every row for itself."""
        return cls(np.arange(count), np.arange(count), copies, replicates)

    @classmethod
    def weighted(cls, weights: Array) -> Rows:
        """Rows of positive weight, each for itself; those of weight zero have no score (−1)."""
        kept = np.flatnonzero(weights)
        stands_for = np.full(len(weights), -1)
        stands_for[kept] = np.arange(len(kept))
        return cls(kept, stands_for)

    @property
    def dropped(self) -> bool:
        """Whether some rows are not counted."""
        return len(self.kept) < len(self.stands_for)

    @property
    def scored(self) -> IndexArray:
        """Counted row that each row of the table stands for, without rows of weight zero, (rows,)."""
        return self.stands_for[self.stands_for >= 0]


@dataclass(frozen=True)
class Table:
    """What `fit` was given, without the rows that are not counted.

    Attributes
    ----------
    inputs : (p, n0), or (p, p) for a precomputed kernel
    targets : (p, n_d)
        Anything where they were not observed.
    observed : (p, n_d)
        Which targets were observed.
    weights : (p,) or None
        Of the rows; None where all are one.
    centre, single : bool
        Whether there is a level, and whether targets were one-dimensional.
    rows : Rows
        Which rows of the user's table these are.
    extent : Extent
        How far all rows of the user's table reach.
    target_names : list of str or None
    left_inputs : (q, n0)
        Inputs of the rows that were left out, without any target or of weight zero.
    left_targets : (q, n_d)
        Their targets, NaN where missing.
    """

    inputs: AnyArray
    targets: Array
    observed: Mask
    weights: Array | None
    centre: bool
    single: bool
    rows: Rows
    extent: Extent
    target_names: list[str] | None = None
    left_inputs: Array = field(default_factory=lambda: np.empty((0, 0)), kw_only=True)
    left_targets: Array = field(default_factory=lambda: np.empty((0, 0)), kw_only=True)

    @property
    def complete(self) -> bool:
        """Whether every target was observed."""
        return bool(self.observed.all())

    @property
    def in_memory(self) -> bool:
        """Whether there are rows, not only their moments."""
        return len(self.rows.kept) > 0

    @property
    def count(self) -> int:
        """Number of examples, p."""
        return len(self.targets)

    @property
    def level_examples(self) -> float | None:
        """Where a level is fitted p, or the sum of the weights; None without one."""
        if not self.centre:
            return None
        return float(self.count if self.weights is None else self.weights.sum())

    @property
    def row_weights(self) -> Array:
        """Weights of the rows, ones where none are given, (p,)."""
        return np.ones(self.count) if self.weights is None else self.weights

    def filled(self) -> Array:
        """Targets (p, n_d) with the mean of the observed ones in the place of missing ones."""
        if self.complete:
            return self.targets
        shares = self.row_weights[:, None] * self.observed
        means = (shares * np.where(self.observed, self.targets, 0.0)).sum(axis=0) / shares.sum(axis=0)
        return np.where(self.observed, self.targets, means)

    def units(self, targets: Array, contrasts: bool) -> tuple[TargetUnits, Array]:
        """Units of filled targets (p, n_d), and the targets of the search, (p,) or (p, q).

        With `contrasts` only of combinations that vary.
        """
        level = Columns.of(targets, self.centre, self.weights)
        return self._units(level.centred_training(targets), level.means, _DEPENDENT if contrasts else 0.0)

    def _units(self, centred: Array, mean: Array, smallest: float) -> tuple[TargetUnits, Array]:
        freedom = self.count - self.centre
        units = TargetUnits.of(centred, mean, self.count, freedom, self.single, smallest)
        inner = units.inner(centred)
        return units, inner[:, 0] if self.single else inner

    def standardised(self) -> ColumnUnits:
        """Units in which columns have variance one."""
        return ColumnUnits.standardised(self.inputs, self.centre, self.weights)

    def some(self, rows: IndexArray) -> Table:
        """The same with some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(
            self,
            inputs=np.asarray(self.inputs)[rows],
            targets=self.targets[rows],
            observed=self.observed[rows],
            weights=weights,
        )

    def cells(self, inner: Array, h: Array) -> MissingCells:
        """Of whitened data, from filled targets of the search, (p, n_d)."""
        targets = np.sqrt(self.row_weights)[:, None] * inner / np.exp(h[:-1] / 2)
        return MissingCells(self.observed, targets, self.row_weights, self.centre)

    def notices(self) -> list[Notice]:
        """What there is to say of rows and cells."""
        found = []
        if self.rows.copies:
            found.append(notice("copies", rows=self.rows.copies, dropped=self.rows.dropped))
        if self.rows.replicates:
            found.append(notice("replicates", rows=self.rows.replicates))
        if not self.complete:
            counts = (~self.observed).sum(axis=0).tolist()
            found.append(notice("missing_cells", counts=counts, rows=self.count))
            if self.rows.dropped:
                found.append(notice("rows_left_out", rows=len(self.rows.stands_for) - self.count))
        return found


@dataclass(frozen=True)
class StreamedTable(Table):
    """Data in blocks of rows: R of the inputs about their means, and rows with the moments of the targets.

    Attributes
    ----------
    examples : int
        Number of rows of the data.
    means : (n0 + n_d,)
        What was subtracted from [X Y].
    deviations, sizes : (n0 + n_d,)
        Deviations of the columns of [X Y] from `means`, and their root mean squares.
    """

    examples: int = 0
    means: Array = field(default_factory=lambda: np.zeros(0))
    deviations: Array = field(default_factory=lambda: np.zeros(0))
    sizes: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, stream: Stream, centre: bool) -> StreamedTable:
        """Read all blocks; columns that vary by rounding only become zero."""
        triangle, n0 = stream.triangle(), stream.inputs
        deviations, sizes = triangle.deviations(centre), triangle.deviations(False)
        means = triangle.means if centre else np.zeros_like(triangle.means)
        factor, varies = triangle.factor(centre), varying(deviations, sizes)
        targets = np.vstack([factor.targets, factor.outside]) * varies[n0:]
        extent, observed = Extent.unknown(n0), np.ones(targets.shape, bool)
        numbers = triangle.count, means, deviations, sizes
        root = factor.root * varies[:n0]
        return cls(root, targets, observed, None, centre, stream.single, Rows.all(0), extent, None, *numbers)

    @property
    def count(self) -> int:
        """Number of examples, p."""
        return self.examples

    def units(self, targets: Array, contrasts: bool) -> tuple[TargetUnits, Array]:
        """Units of the targets, and rows of the search with their moments."""
        mean = self.means[self.inputs.shape[1] :]
        return self._units(targets, mean, _DEPENDENT_BY_MOMENTS if contrasts else 0.0)

    def standardised(self) -> ColumnUnits:
        """Units in which columns have variance one."""
        n0 = self.inputs.shape[1]
        return ColumnUnits.of_moments(self.means[:n0], self.deviations[:n0], self.sizes[:n0])

    def factor(self, columns: ColumnUnits, inner: Array) -> Factor:
        """X = QR for inputs in these units, with targets of the search (any, q)."""
        rank = len(self.inputs)
        return Factor(self.inputs / columns.deviation, inner[:rank], inner[rank:])


# ---------------------------------------------------------------------- checks


def checked_table(model: Any, X: Any, y: Any, sample_weight: ArrayLike | None) -> Table:
    """The table of a fit, after everything that can be wrong with the data was looked at."""
    if is_dask(X) or isinstance(X, Stream):
        return _streamed(model, X, y, sample_weight)
    check.unmasked(X, "X")
    check.unmasked(y, "y")
    names = names_of_targets(y)
    if model.missing_targets == "allow":
        y, observed = _split_missing(y)
    else:
        _require_complete_rows(y)
        observed = None
    double = double_of(X, model.kernel)
    inputs, y = validate_data(model, X, y, multi_output=True, y_numeric=True, dtype=double)
    require_one_device(X=inputs, y=y)
    targets = np.asarray(to_numpy(y), dtype=np.float64)
    single, columns = targets.ndim == 1, targets.reshape(len(targets), -1)
    precomputed = isinstance(model.kernel, str) and model.kernel == "precomputed"
    extent = Extent.unknown(model.n_features_in_) if precomputed else Extent.of(inputs)
    observed = np.ones(columns.shape, bool) if observed is None else observed
    weights = _weights_of_told(_row_weights(sample_weight, len(columns)), observed)
    rows = _counted_rows(model, inputs, columns, weights)
    left = np.flatnonzero(rows.stands_for < 0)
    left_inputs = np.asarray(to_numpy(take(inputs, left, axis=0)))
    left_targets = np.where(observed, columns, np.nan)[left]
    if rows.dropped:
        inputs, columns, observed = take(inputs, rows.kept, axis=0), columns[rows.kept], observed[rows.kept]
        weights = None if weights is None else weights[rows.kept]
    if weights is not None and (weights == 1).all():
        weights = None
    if not observed.all():
        _require_noise(model)
    return Table(
        inputs,
        columns,
        observed,
        weights,
        model.fit_intercept,
        single,
        rows,
        extent,
        names,
        left_inputs=left_inputs,
        left_targets=left_targets,
    )


def _streamed(model: Any, X: Any, y: Any, sample_weight: Any) -> StreamedTable:
    if sample_weight is not None:
        raise ValueError("sample_weight is for rows in memory, got dask arrays")
    if model.kernel != "linear":
        raise ValueError(
            f"data in chunks are for kernel='linear', got kernel={model.kernel!r}: a kernel matrix of all "
            "rows would not fit either"
        )
    stream = X if isinstance(X, Stream) else DaskBlocks.of(X, y)
    model.n_features_in_ = stream.inputs
    return StreamedTable.of(stream, model.fit_intercept)


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


def names_of_targets(y: Any) -> list[str] | None:
    """Names of the columns of a table, or of a series; None where there are none."""
    columns = getattr(y, "columns", None)
    if columns is not None:
        return [str(name) for name in columns]
    name = getattr(y, "name", None) if getattr(y, "ndim", None) == 1 else None
    return None if name is None else [str(name)]


def _row_weights(sample_weight: Any, rows: int) -> Array | None:
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


def _weights_of_told(weights: Array | None, observed: Mask) -> Array | None:
    """Weights of rows, zero for those without any target, which carry no information."""
    told = observed.any(axis=1)
    if told.all():
        return weights
    return told.astype(float) if weights is None else np.where(told, weights, 0.0)


def _require_complete_rows(y: Any) -> None:
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


def _split_missing(y: Any) -> tuple[Any, Mask | None]:
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


def _require_noise(model: Any) -> None:
    """Raise where parameters do not go with missing targets."""
    if model.noise == "free":
        raise ValueError(
            "noise='free' is for rows that have all of their targets, got missing targets: use 'auto', "
            "'independent', 'per_output', 'coupled' or 'coupled_per_output'"
        )
    if model.beta == math.inf:
        raise ValueError("missing targets need noise, got beta=inf: give a finite beta, or leave it out")


# ---------------------------------------------------------------------- copies and replicates


def _counted_rows(model: Any, X: AnyArray, targets: Array, weights: Array | None) -> Rows:
    """Rows to be counted; all of them where the noise is given, or the kernel, or weights are."""
    precomputed = isinstance(model.kernel, str) and model.kernel == "precomputed"
    if weights is not None:
        if precomputed and not weights.all():
            raise ValueError(
                "with a precomputed kernel rows of weight zero cannot be left out by themselves, got "
                f"{np.count_nonzero(weights == 0)} of them: leave out their rows and columns"
            )
        return Rows.weighted(weights)
    if precomputed or not isinstance(model.beta, str):
        return Rows.all(len(targets))
    return distinct_rows(X, targets, linear=isinstance(model.kernel, str) and model.kernel == "linear")


def distinct_rows(X: AnyArray, Y: Array, linear: bool = True) -> Rows:
    """Rows to be counted, for inputs (p, n0) of any library and targets (p, n_d).

    Features of a kernel that is not `linear` distinguish all points.
    """
    points = _points(X)
    whole = _groups(np.column_stack([points, Y]))
    alike, copies = len(Y) - _count(points), len(Y) - _count(whole)
    if not copies or (linear and _rank(X) < _count(points) - 1):
        return Rows.all(len(Y), copies, alike - copies)
    kept = np.sort(np.unique(whole, return_index=True)[1])
    position = np.empty(_count(whole), int)
    position[whole[kept]] = np.arange(len(kept))
    return Rows(kept, position[whole], copies, alike - copies)


def _points(X: AnyArray) -> IndexArray:
    """A number for each row of inputs, the same for equal rows, (p,).

    Rows are compared only where their products with one vector agree up to rounding, so that next to nothing
    leaves a device, and few rows are sorted.
    """
    direction = np.random.default_rng(0).uniform(1.0, 2.0, X.shape[1])
    mark = times(X, direction[:, None])[:, 0]
    size = np.concatenate(  # in blocks of rows: X may take most of the memory
        [
            times(namespace(X).abs(X[some, :]), direction[:, None])[:, 0]
            for some in blocks(X.shape[0], X.shape[1], device_of(X).block_floats)
        ]
    )
    order = np.argsort(mark)
    near = np.diff(mark[order]) <= X.shape[1] * RANK_TOLERANCE * (size[order][1:] + size[order][:-1])
    alike = order[np.append(near, False) | np.append(False, near)]
    result = np.arange(len(mark))
    if len(alike):
        groups = _groups(to_numpy(take(X, alike, axis=0)))
        result[alike] = alike[np.unique(groups, return_index=True)[1]][groups]
    return _groups(result)


def _groups(array: Array | IndexArray) -> IndexArray:
    """A number for each row, the same for equal rows, (p,)."""
    return np.unique(array, axis=0, return_inverse=True)[1].reshape(-1)


def _count(groups: IndexArray) -> int:
    return int(groups.max()) + 1


def _rank(X: AnyArray) -> int:
    """Of the centred inputs."""
    xp = namespace(X)
    return int(xp.linalg.matrix_rank(X - xp.mean(X, axis=0)))
