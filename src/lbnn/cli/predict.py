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
from lbnn.cli.document import Grid, show_grid
from lbnn.cli.files import check_outputs, check_suffix, safe_for_spreadsheets, write_together
from lbnn.cli.large import LargeTable, Writer, is_large, require_plain
from lbnn.cli.modelling import fit_scores
from lbnn.cli.models import NamedModel, load_model
from lbnn.cli.options import (
    Debug,
    Decimal,
    Encoding,
    Force,
    IdColumn,
    MissingTexts,
    MissingValues,
    Separator,
    SheetName,
)
from lbnn.cli.preparing import Preparation, require_id
from lbnn.cli.problems import BadInputError, console, say, with_options, working
from lbnn.cli.reading import Dialect
from lbnn.cli.tables import Table, listed, read_table, require_distinct
from lbnn.estimator import BandedRegressor, LBNNRegressor
from lbnn.estimator.extent import large_leverage

EXAMPLES = """
[bold]Examples[/bold]
lbnn predict model.lbnn new.csv --out predictions.csv
lbnn predict model.lbnn new.csv -o predictions.parquet --interval 0.5
lbnn predict model.lbnn new.csv -o out.csv --joint-covariance covariance.npz

For every target t the output has t (the mean), t_std, t_low and t_high, of
new measurements: noise included. The column leverage is above 1 if a row is
farther out than every training row, so that the prediction is an
extrapolation. If the table has the targets as well, the predictions are scored.
"""
LEVERAGE = "leverage"  # the column
OUT_FORMATS = (".csv", ".parquet")
COVARIANCE_FORMATS = (".npz", ".csv")
_ROWS_AT_ONCE = 1000


ModelFile = Annotated[Path, typer.Argument(help="Model file, from lbnn fit.", show_default=False)]
NewRows = Annotated[
    Path, typer.Argument(help="Table with the features: .csv, .tsv, .xlsx or .parquet.", show_default=False)
]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="Predictions, .csv or .parquet.", metavar="FILE", show_default=False),
]
Interval = Annotated[float, typer.Option(help="Probability of the intervals.")]
JointCovariance = Annotated[
    Path | None,
    typer.Option(
        help="Also write the covariance over all rows and targets: .npz or .csv.",
        metavar="FILE",
        show_default=False,
    ),
]
MissingFeatures = Annotated[
    MissingValues | None,
    typer.Option(
        "--missing",
        help="What to do with missing features, if not the same as in the fit.",
        show_default=False,
    ),
]


def predict(
    model: ModelFile,
    data: NewRows,
    out: Out,
    interval: Interval = 0.9,
    joint_covariance: JointCovariance = None,
    id_column: IdColumn = None,
    missing: MissingFeatures = None,
    sep: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: SheetName = None,
    na: MissingTexts = [],  # noqa: B006
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Predict the targets of new rows with a fitted model.

    Where a row has some of the targets, the others are predicted given these;
    where every row has all of them, the predictions are scored instead.

    Columns are found by name; those that the model was not fitted with are listed
    and not used.
    """
    check_suffix(out, OUT_FORMATS, "--out")
    check_suffix(joint_covariance, COVARIANCE_FORMATS, "--joint-covariance")
    check_outputs([out, joint_covariance], [model, data], force)
    if not 0 < interval < 1:
        raise BadInputError(f"--interval must lie strictly between 0 and 1, got {interval}")
    fitted = load_model(model)
    if is_large(data):
        require_plain(data, {"--joint-covariance": joint_covariance is not None, "--na": bool(na)})
        large = LargeTable.of(data)
        ids = id_column or _id_of_fit(fitted, large)
        preparation = _preparation(fitted, large, ids, missing)
        write_together({out: lambda path: _predict_parts(fitted, large, preparation, ids, interval, path)})
    else:
        na = na or fitted.preparation.na
        table = read_table(data, Dialect.of(sep, decimal, encoding, sheet, na))
        ids = id_column or _id_of_fit(fitted, table)
        preparation = _preparation(fitted, table, ids, missing)
        _predict_table(fitted, table, preparation, ids, interval, out, joint_covariance)


def _id_of_fit(model: NamedModel, table: Table | LargeTable) -> str | None:
    """The column that named rows in the fit, if this table has it."""
    name = model.preparation.id_column
    return name if name in table.columns else None


def _predict_table(
    model: NamedModel,
    table: Table,
    preparation: Preparation,
    id_column: str | None,
    interval: float,
    out: Path,
    joint_covariance: Path | None,
) -> None:
    """Predict a table that is held in memory, score it where it has the targets, and write it."""
    names = model.targets
    if joint_covariance and isinstance(model.estimator, BandedRegressor):
        raise BadInputError(
            "--joint-covariance is for a model of one network, got one of bands, whose targets are "
            "independent: leave it out"
        )
    X, rows = _features(model, preparation, table)
    table = replace(table, frame=table.frame[rows])
    known = _known_targets(model, table)
    if joint_covariance and known is not None:
        raise BadInputError(
            "--joint-covariance is of rows whose targets are all unknown, got rows that have some of them: "
            "leave the columns of the targets out"
        )
    with working("predicting"):
        parts = [
            _predictions(law, names, interval, part, leverage)
            for (law, leverage), part in zip(_in_parts(model, X, known), _row_parts(table), strict=True)
        ]
    frame = pd.concat(parts, ignore_index=True)
    _say_extrapolations(model, X, frame, _labels(table, id_column))
    if known is None:
        _print_scores(model, X, frame, table, interval)
    if id_column is not None:
        _insert_ids(frame, id_column, table)
    writers: dict[Path, Callable[[Path], object]] = {out: lambda path: _write_table(frame, path)}
    if joint_covariance:
        joint = model.estimator.predictive(X).with_noise().covariance
        covariance = joint.reshape((len(X) * len(names),) * 2)
        writers[joint_covariance] = lambda path: _write_covariance(covariance, names, len(X), path)
    write_together(writers)


def _predict_parts(
    model: NamedModel,
    table: LargeTable,
    preparation: Preparation,
    id_column: str | None,
    interval: float,
    path: Path,
) -> None:
    """Predict a file some rows at a time, and write them as they come."""
    say(
        f"{table.path} has {table.rows:,} rows: reading it in parts; predictions are not scored, and targets "
        "that it has are not used"
    )
    read = [
        *preparation.columns,
        *([id_column] if id_column and id_column not in preparation.columns else []),
    ]
    writer = Writer(path, csv=path.suffix.lower() == ".csv")

    def prepared(part: Table) -> tuple[Any, Table]:
        X, rows = _features(model, preparation, part)
        return X, replace(part, frame=part.frame[rows])

    with working("predicting"):
        for X, part in table.parts(read, prepared):
            predicted = [
                _predictions(law, model.targets, interval, rows, leverage)
                for (law, leverage), rows in zip(_in_parts(model, X), _row_parts(part), strict=True)
            ]
            if predicted:
                frame = pd.concat(predicted, ignore_index=True)
                _say_extrapolations(model, X, frame, _labels(part, id_column))
                if id_column is not None:
                    _insert_ids(frame, id_column, part)
                writer.add(safe_for_spreadsheets(frame) if writer.csv else frame)
    writer.close()


def _insert_ids(frame: Any, id_column: str, table: Table) -> None:
    require_distinct([id_column, *frame.columns], "columns of the output")
    frame.insert(0, id_column, table.frame[id_column].to_numpy())


def _preparation(
    model: NamedModel, table: Table | LargeTable, id_column: str | None, missing: MissingValues | None
) -> Preparation:
    """How features are made; raises where a column is missing, and lists those that are not used."""
    require_id(table, id_column)
    preparation = model.preparation
    absent = [name for name in preparation.columns if name not in table.columns]
    if absent:
        raise BadInputError(
            f"{table.path}: the model needs its {len(preparation.columns)} features, "
            f"got no column {listed(absent)}"
        )
    known = {*preparation.columns, *model.targets, id_column}
    spare = [name for name in table.columns if name not in known]
    if spare:
        say(f"Not used: {listed(spare)}")
    if missing is None:
        return preparation
    if missing is MissingValues.median and not preparation.medians:
        raise BadInputError(
            "--missing median needs the medians of the fit, got a model without: fit with --missing median"
        )
    return replace(preparation, missing=missing.value)


def _features(model: NamedModel, preparation: Preparation, table: Table) -> tuple[Any, Array]:
    """The features that the model was fitted with, in its order, and the rows (a mask) that have them."""
    X, rows = preparation.features(table)
    return X[model.features], rows


def _known_targets(model: NamedModel, table: Table) -> Array | None:
    """Targets of rows that have some of them, (rows, n_d), NaN where missing; None without such rows."""
    there = [name for name in model.targets if name in table.columns]
    values = np.full((len(table.frame), len(model.targets)), np.nan)
    for name in there:
        column = pd.to_numeric(table.frame[name], errors="coerce")
        if (column.isna() & table.frame[name].notna()).any():
            table.numbers([name])  # says which value is no number
        values[:, model.targets.index(name)] = column
    present = np.isfinite(values)
    if not present.any() or present.all() or len(model.targets) == 1:
        return None
    partly = present.any(axis=1) & ~present.all(axis=1)
    count = int(partly.sum())
    if not count:
        return None
    say(
        f"{count} {'row has' if count == 1 else 'rows have'} some of the targets: the others are "
        "predicted given these. Leave the columns out to predict without them"
    )
    return np.where(present & partly[:, None], values, np.nan)  # rows that have all are predicted without


def _labels(table: Table, id_column: str | None) -> list[str]:
    """What rows are called in messages: their ids, or lines of the file."""
    if id_column is not None:
        return [str(name) for name in table.frame[id_column]]
    return [f"{table.unit} {number}" for number in table.frame.index]


def _say_extrapolations(model: NamedModel, X: Any, frame: Any, labels: list[str]) -> None:
    """Name rows far outside the range of the training rows, and rows of large leverage."""
    if isinstance(model.estimator, LBNNRegressor):
        said = model.estimator._state.extent.outside_ranges(X.to_numpy(), model.features, labels)
        if said:
            say(f"lbnn: warning: {with_options(said)}")
    if LEVERAGE in frame and LEVERAGE not in model.targets:
        said = large_leverage(frame[LEVERAGE].to_numpy(), labels)
        if said:
            say(f"lbnn: warning: {said}")


def _in_parts(model: NamedModel, X: Any, known: Array | None = None) -> Iterator[tuple[Any, Array | None]]:
    """The law of new measurements and the leverage of rows, some rows at a time.

    A kernel among all rows may not fit into memory.
    """
    for start in range(0, len(X), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        law = model.estimator.predictive(X.iloc[rows])
        leverage, law = getattr(law, "leverage", None), law.with_noise()
        yield law if known is None else law.given(known[rows]), leverage


def _row_parts(table: Table) -> Iterator[Table]:
    """The rows of the table in the parts of `_in_parts`."""
    for start in range(0, len(table.frame), _ROWS_AT_ONCE):
        yield replace(table, frame=table.frame[start : start + _ROWS_AT_ONCE])


def _predictions(
    predictive: Any, names: list[str], probability: float, rows: Table, leverage: Array | None
) -> Any:
    """One row for each of `rows`, four columns for each target, and the leverage where it is known."""
    low, high = predictive.interval(probability)
    parts = {"": predictive.mean, "_std": np.sqrt(predictive.variance), "_low": low, "_high": high}
    require_distinct([name + ending for name in names for ending in parts], "columns of the output")
    columns = {ending: np.reshape(values, (-1, len(names))) for ending, values in parts.items()}
    _require_finite(columns, names, rows, getattr(predictive, "answered", np.ones(len(names), bool)))
    found = {
        name + ending: values[:, j] for j, name in enumerate(names) for ending, values in columns.items()
    }
    if leverage is not None and np.isfinite(leverage).all() and LEVERAGE not in found:
        found[LEVERAGE] = leverage
    return pd.DataFrame(found)


def _require_finite(columns: dict[str, Array], names: list[str], rows: Table, answered: Mask) -> None:
    """Raise for predictions that are no numbers: a table with empty cells would look like an answer.

    Columns of targets that the fit has not answered (n_targets,) are empty.
    """
    wrong = ~np.all([np.isfinite(values) for values in columns.values()], axis=0) & answered
    if wrong.any():
        targets = [name for name, any_wrong in zip(names, wrong.any(axis=0), strict=True) if any_wrong]
        raise BadInputError(
            f"predictions must be finite, got {int(wrong.sum())} that are not, of {listed(targets)} in "
            f"{rows.rows(list(rows.frame.index[wrong.any(axis=1)]))}: the features there are too large for "
            "floating-point arithmetic"
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


# ---------------------------------------------------------------------- scores


def _print_scores(model: NamedModel, X: Any, frame: Any, table: Table, probability: float) -> None:
    """How good the predictions were, where the truth is in the table."""
    if not set(model.targets) <= set(table.columns):
        return
    try:
        truth = table.numbers(model.targets).to_numpy()
    except BadInputError as incomplete:
        say(f"Not scored: {incomplete}")
        return
    rows = []
    for name, own in zip(model.targets, truth.T, strict=True):
        if frame[name].isna().all():  # the fit has no answer for it
            continue
        inside = (frame[f"{name}_low"] <= own) & (own <= frame[f"{name}_high"])
        rows.append((name, *fit_scores(own, frame[name].to_numpy()), f"{inside.mean():.0%}"))
    header = "target", "R²", "RMSE", f"in {probability:.0%} interval"
    show_grid(
        Grid(
            header,
            rows,
            f"Against the targets in {table.path.name}, {len(truth)} {'row' if len(truth) == 1 else 'rows'}",
        ),
        console(),
    )
    density = _log_densities(model, X, truth)
    error = f" ± {density.std(ddof=1) / np.sqrt(len(density)):.2g}" if len(density) > 1 else ""
    console().print(f"Log predictive density {density.mean():.3f}{error} a row\n")


def _log_densities(model: NamedModel, X: Any, truth: Array) -> Array:
    """log p of the targets of every row, joint over targets, (rows,)."""
    laws = (law for law, _ in _in_parts(model, X))
    pieces = np.split(truth, range(_ROWS_AT_ONCE, len(truth), _ROWS_AT_ONCE))
    shaped = [(law, piece.reshape(law.mean.shape)) for law, piece in zip(laws, pieces, strict=True)]
    return np.concatenate([law.pointwise_log_density(piece) for law, piece in shaped])
