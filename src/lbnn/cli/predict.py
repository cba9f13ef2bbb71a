"""`lbnn predict`: means, intervals and scores from a model and a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from lbnn._base.types import Array, Mask
from lbnn.cli.columns import (
    IdColumn,
    MissingValues,
    Preparation,
    absent_cells,
    named_columns,
    numbers,
    require_distinct,
    row_labels,
)
from lbnn.cli.files import check_outputs, check_suffix, safe_for_spreadsheets, write_together
from lbnn.cli.models import NamedModel, load_model
from lbnn.cli.options import Debug, Force, with_groups
from lbnn.cli.problems import BadInputError, TableWords, console, listed, say, working
from lbnn.cli.reading import Reading, Table, read_table
from lbnn.cli.report import counted, shown
from lbnn.estimator import BandedRegressor, LBNNRegressor
from lbnn.estimator.leverage import large_leverage
from lbnn.plots.page import Grid, show_grid

EXAMPLES = """
Examples:
  lbnn predict model.lbnn new.csv
  lbnn predict model.lbnn new.csv -o predictions.parquet --interval 0.5
  lbnn predict model.lbnn new.csv -o out.csv --joint-covariance covariance.npz

For every target t the output has t (the mean), t_std, t_low and t_high, of
new measurements: noise included. The column leverage is above 1 if a row is
farther out than every training row, so that the prediction is an
extrapolation.
"""
LEVERAGE = "leverage"  # the column
OUT_FORMATS = (".csv", ".parquet")
COVARIANCE_FORMATS = (".npz", ".csv")
_ROWS_AT_ONCE = 1000  # a kernel among all rows may not fit into memory
_MOST_SHOWN = 10  # rows, without --out


ModelFile = Annotated[Path, typer.Argument(help="Model file, from lbnn fit")]
NewRows = Annotated[Path, typer.Argument(help="Table with the features")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Predictions, .csv or .parquet", metavar="FILE"),
]
Interval = Annotated[float, typer.Option(help="Probability of the intervals")]
JointCovariance = Annotated[
    Path | None,
    typer.Option(help="Covariance over all rows and targets: .npz or .csv", metavar="FILE"),
]
GivenTargets = Annotated[
    bool, typer.Option("--given", help="Predict targets given those of the same row that the table has")
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="A category that the fit has not seen is an error, not its first level"),
]
MissingFeatures = Annotated[
    MissingValues | None,
    typer.Option("--missing", help="Missing features, if not as in the fit"),
]


@with_groups
def predict(
    *,
    model: ModelFile,
    data: NewRows,
    out: Out = None,
    interval: Interval = 0.9,
    joint_covariance: JointCovariance = None,
    given: GivenTargets = False,
    strict: Strict = False,
    id_column: IdColumn = None,
    missing: MissingFeatures = None,
    reading: Reading,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Predict the targets of new rows with a fitted model.

    Targets that the table has score the predictions; with --given they are
    used to predict the other targets of the same row.

    Columns are found by name; those that the model was not fitted with are listed
    and not used. Without --out the first rows are printed.
    """
    check_suffix(out, OUT_FORMATS, "--out")
    check_suffix(joint_covariance, COVARIANCE_FORMATS, "--joint-covariance")
    check_outputs([out, joint_covariance], [model, data], force)
    if not 0 < interval < 1:
        raise BadInputError(f"--interval must lie strictly between 0 and 1, got {interval}")
    fitted = load_model(model)
    _check_law(fitted, joint_covariance is not None, given)
    table = read_table(data, reading, fitted.preparation.columns)
    preparation = _preparation(fitted, table, id_column, missing)
    ids = preparation.id_column
    table = preparation.kept(table)
    X = preparation.features(table, strict)[fitted.features]
    truth = _targets(fitted, table, given)
    present = np.isfinite(truth)
    complete: Mask = np.asarray(present.all(axis=1))
    partly: Mask = np.asarray(present.any(axis=1) & ~complete)
    known = np.where(partly[:, None], truth, np.nan) if given and partly.any() else None
    if known is not None:
        say(f"{counted(int(partly.sum()))} with some of the targets: the others are predicted given these")
    endings = ("", "_std", "_low", "_high")
    require_distinct([name + end for name in fitted.targets for end in endings], "columns of the output")
    with working("predicting"):
        parts = list(_predictions(fitted, X, truth, known, interval))
    frame = pd.concat([part for part, _ in parts], ignore_index=True)
    _require_finite(fitted, frame, table)
    _say_extrapolations(fitted, X, frame, row_labels(table, ids))
    if complete.any():
        density = np.concatenate([own for _, own in parts])[complete]
        _print_scores(fitted, frame[complete], truth[complete], density, data.name, interval)
    if ids is not None:
        require_distinct([ids, *frame.columns], "columns of the output")
        frame.insert(0, ids, table.frame[ids].to_numpy())
    writers: dict[Path, Callable[[Path], object]] = {}
    if out is not None:
        writers[out] = lambda path: _write_table(frame, path)
    if joint_covariance:
        joint = fitted.estimator.predictive(X).with_noise().covariance
        covariance = joint.reshape((len(X) * len(fitted.targets),) * 2)
        writers[joint_covariance] = lambda path: _write_covariance(covariance, fitted.targets, len(X), path)
    if out is None:
        show_grid(_first_rows(frame, row_labels(table, ids), ids), console())
    if writers:
        write_together(writers)


def _check_law(model: NamedModel, joint: bool, given: bool) -> None:
    """Raise where the model has no such law: joint over rows, or given some targets."""
    if isinstance(model.estimator, BandedRegressor) and (joint or given):
        raise BadInputError(
            "--joint-covariance and --given are for a model of one network, got one of bands, whose targets "
            "are independent"
        )
    if joint and given:
        raise BadInputError("--joint-covariance is of targets that are all unknown, got --given as well")


def _preparation(
    model: NamedModel, table: Table, id_column: str | None, missing: MissingValues | None
) -> Preparation:
    """How features are made; raises where a column is missing, and lists those that are not used."""
    found = model.preparation
    absent = [name for name in found.columns if name not in table.columns]
    if absent:
        hint = "" if len(table.columns) > 1 else f", only {table.columns[0]!r}: is --sep right?"
        raise BadInputError(
            f"{table.path}: the model needs its {len(found.columns)} features, got no column "
            f"{listed(absent)}{hint}"
        )
    if id_column is not None:
        named_columns([id_column], table, "--id")
    else:
        id_column = found.id_column if found.id_column in table.columns else None
    spare = [name for name in table.columns if name not in {*found.columns, *model.targets, id_column}]
    if spare:
        say(f"Not used: {listed(spare)}")
    if missing is MissingValues.median and not found.medians:
        raise BadInputError(
            "--missing median needs the medians of the fit, got a model without: fit with --missing median"
        )
    kind = found.missing if missing is None else missing.value
    medians = found.medians if kind == MissingValues.median else {}
    return replace(found, missing=kind, medians=medians, id_column=id_column)


def _targets(model: NamedModel, table: Table, used: bool) -> Array:
    """Targets that the table has, (rows, n_d), NaN where it has none; texts are an error if they are used."""
    values = np.full((len(table.frame), len(model.targets)), np.nan)
    there = [name for name in model.targets if name in table.columns]
    try:
        found = numbers(table, there, there).mask(absent_cells(table, there))
    except BadInputError as problem:
        if used:
            raise
        say(f"Not scored: {problem}")
        return values
    values[:, [model.targets.index(name) for name in there]] = found
    return values


def _say_extrapolations(model: NamedModel, X: Any, frame: Any, labels: list[str]) -> None:
    """Name rows far outside the range of the training rows, and rows of large leverage."""
    if isinstance(model.estimator, LBNNRegressor):
        said = model.estimator._state.extent.outside_ranges(X.to_numpy(), model.features)
        if said is not None:
            say(f"lbnn: warning: {said.render(TableWords(labels))}")
    if LEVERAGE in frame and LEVERAGE not in model.targets:
        said = large_leverage(frame[LEVERAGE].to_numpy())
        if said is not None:
            say(f"lbnn: warning: {said.render(TableWords(labels))}")


def _predictions(
    model: NamedModel, X: Any, truth: Array, known: Array | None, probability: float
) -> Iterator[Any]:
    """Four columns for each target, leverage where it is known, and log densities of the truth; in parts.

    Densities are NaN unless a row has all targets.
    """
    shape = (-1, len(model.targets))
    for start in range(0, len(X), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        law = model.estimator.predictive(X.iloc[rows])
        leverage, law = getattr(law, "leverage", None), law.with_noise()
        density = np.full(len(truth[rows]), np.nan)
        complete: Mask = np.asarray(np.isfinite(truth[rows]).all(axis=1))
        if complete.any():
            mean = np.nan_to_num(law.mean)
            own = np.where(complete[:, None], truth[rows], mean.reshape(shape)).reshape(mean.shape)
            density = np.where(complete, law.pointwise_log_density(own), np.nan)
        law = law if known is None else law.given(known[rows])
        low, high = law.interval(probability)
        parts = {"": law.mean, "_std": np.sqrt(law.variance), "_low": low, "_high": high}
        values = {ending: np.reshape(part, shape) for ending, part in parts.items()}
        found = {
            name + end: part[:, j] for j, name in enumerate(model.targets) for end, part in values.items()
        }
        if leverage is not None and np.isfinite(leverage).all() and LEVERAGE not in found:
            found[LEVERAGE] = leverage
        yield pd.DataFrame(found), density


def _require_finite(model: NamedModel, frame: Any, table: Table) -> None:
    """Raise for predictions that are no numbers: a table with empty cells would look like an answer.

    Columns of targets that the fit has not answered are empty.
    """
    dead = getattr(model.estimator, "dead_targets_", ())
    names = [name for j, name in enumerate(model.targets) if j not in dead]
    columns = {name: [name, f"{name}_std", f"{name}_low", f"{name}_high"] for name in names}
    wrong = pd.DataFrame({name: ~np.isfinite(frame[own]).all(axis=1) for name, own in columns.items()})
    if wrong.to_numpy().any():
        rows = table.rows(list(table.frame.index[wrong.any(axis=1).to_numpy()]))
        targets = listed([name for name in wrong if wrong[name].any()])
        raise BadInputError(
            f"predictions must be finite, got others of {targets} in {rows}: the features there are too "
            "large for floating-point arithmetic"
        )


def _first_rows(frame: Any, labels: list[str], ids: str | None) -> Grid:
    """What is shown where nothing is written."""
    shown_frame = frame.drop(columns=[] if ids is None else [ids]).head(_MOST_SHOWN)
    rows = [
        (label, *map(shown, values)) for label, values in zip(labels, shown_frame.to_numpy(), strict=False)
    ]
    return Grid(
        ("row", *shown_frame.columns), rows, f"{len(rows)} of {counted(len(frame))}; --out writes all"
    )


def _write_table(frame: Any, path: Path) -> None:
    if path.suffix.lower() == ".csv":
        safe_for_spreadsheets(frame).to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)


def _write_covariance(covariance: Array, names: list[str], rows: int, path: Path) -> None:
    """Row and column i of the matrix are row i // n_d of the data (from 0) and target i % n_d."""
    if path.suffix.lower() == ".npz":
        with path.open("wb") as file:
            np.savez_compressed(file, covariance=covariance, targets=np.array(names), rows=rows)
        return
    labels = [f"{row}:{name}" for row in range(1, rows + 1) for name in names]
    pd.DataFrame(covariance, index=labels, columns=labels).to_csv(path, index_label="row:target")


def _print_scores(
    model: NamedModel, frame: Any, truth: Array, density: Array, name: str, probability: float
) -> None:
    """How good the predictions of rows were whose targets (m, n_d) the table has."""
    rows = []
    for target, own in zip(model.targets, truth.T, strict=True):
        if frame[target].isna().all():  # the fit has no answer for it
            continue
        inside = (frame[f"{target}_low"] <= own) & (own <= frame[f"{target}_high"])
        error, about = own - frame[target].to_numpy(), own - own.mean()
        r2 = f"{1 - (error @ error) / (about @ about):.3f}" if about.any() else "–"
        rows.append((target, r2, shown(np.sqrt((error @ error) / len(own))), f"{inside.mean():.0%}"))
    header = "target", "R²", "RMSE", f"in {probability:.0%} interval"
    show_grid(Grid(header, rows, f"Against the targets in {name}, {counted(len(truth))}"), console())
    error = f" ± {density.std(ddof=1) / np.sqrt(len(density)):.2g}" if len(density) > 1 else ""
    console().print(f"Log predictive density {density.mean():.3f}{error} a row\n")
