"""`lbnn predict`: means, intervals and scores from a model and a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from lbnn._base.files import write_atomically
from lbnn._base.types import Array
from lbnn.cli.document import Grid, show_grid
from lbnn.cli.files import check_outputs, check_suffix, tell_written
from lbnn.cli.large import LargeTable, Writer, is_large
from lbnn.cli.modelling import fit_scores
from lbnn.cli.models import NamedModel, load_model
from lbnn.cli.options import Debug, Force
from lbnn.cli.problems import BadInputError, console, working
from lbnn.cli.tables import FORMATS, Table, listed, read_table, require_distinct

EXAMPLES = """
[bold]Examples[/bold]
lbnn predict model.lbnn new.csv --out predictions.csv
lbnn predict model.lbnn new.csv -o predictions.parquet --interval 0.5
lbnn predict model.lbnn new.csv -o out.csv --joint-covariance covariance.npz

For every target t the output has t (the mean), t_std, t_low and t_high, of
new measurements: noise included. Where the table has the targets as well,
the scores of the predictions are printed.
"""
COVARIANCE_FORMATS = (".npz", ".csv")
_ROWS_AT_ONCE = 1000


def predict(
    model: Annotated[Path, typer.Argument(help="Model file, from lbnn fit.", show_default=False)],
    data: Annotated[
        Path, typer.Argument(help="Table with the features: .csv or .parquet.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Predictions, .csv or .parquet.", metavar="FILE", show_default=False
        ),
    ],
    interval: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.9,
    joint_covariance: Annotated[
        Path | None,
        typer.Option(
            help="Also write the covariance over all rows and targets: .npz or .csv.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Predict the targets of new rows with a fitted model.

    Columns are found by name; those that the model does not know are listed
    and not used.
    """
    check_suffix(out, FORMATS, "--out")
    check_suffix(joint_covariance, COVARIANCE_FORMATS, "--joint-covariance")
    check_outputs([out, joint_covariance], [model, data], force)
    if not 0 < interval < 1:
        raise BadInputError(f"--interval must lie strictly between 0 and 1, got {interval}")
    fitted = load_model(model)
    if is_large(data):
        if joint_covariance:
            raise BadInputError(f"--joint-covariance is for tables that fit into memory, got {data}")
        write_atomically(out, lambda path: _predict_parts(fitted, LargeTable.of(data), interval, path))
        tell_written(out)
        return
    table = read_table(data)
    names, X = fitted.targets, _features(fitted, table)
    with working("predicting"):
        parts = [_predictions(law, names, interval) for law in _in_parts(fitted, X)]
    frame = pd.concat(parts, ignore_index=True)
    _print_scores(fitted, X, frame, table, interval)
    write_atomically(out, lambda path: _write_table(frame, path))
    if joint_covariance:
        joint = fitted.estimator.predictive(X).with_noise().covariance
        covariance = joint.reshape((len(X) * len(names),) * 2)
        write_atomically(joint_covariance, lambda path: _write_covariance(covariance, names, len(X), path))
    tell_written(out, joint_covariance)


def _predict_parts(model: NamedModel, table: LargeTable, interval: float, path: Path) -> None:
    """Predict a file some rows at a time, and write them as they come."""
    _require_features(model, table)
    typer.echo(f"{table.path} has {table.rows:,} rows: reading it in parts; predictions are not scored")
    writer = Writer(path, csv=path.suffix.lower() == ".csv")
    with working("predicting"):
        for X in table.parts(model.features):
            for law in _in_parts(model, X):
                writer.add(_predictions(law, model.targets, interval))
    writer.close()


def _features(model: NamedModel, table: Table) -> Any:
    """The columns that the model was fitted with, in its order."""
    _require_features(model, table)
    return table.numbers(model.features)


def _require_features(model: NamedModel, table: Table | LargeTable) -> None:
    """Raise where a column is missing; tell of those that are not used."""
    absent = [name for name in model.features if name not in table.columns]
    if absent:
        raise BadInputError(
            f"{table.path}: the model needs its {len(model.features)} features, "
            f"got no column {listed(absent)}"
        )
    spare = [name for name in table.columns if name not in model.features + model.targets]
    if spare:
        typer.echo(f"Not used: {listed(spare)}")


def _in_parts(model: NamedModel, X: Any) -> Iterator[Any]:
    """The law of new measurements, some rows at a time: a kernel among all rows may not fit into memory."""
    for start in range(0, len(X), _ROWS_AT_ONCE):
        yield model.estimator.predictive(X.iloc[start : start + _ROWS_AT_ONCE]).with_noise()


def _predictions(predictive: Any, names: list[str], probability: float) -> Any:
    """One row per row of the data, four columns per target."""
    low, high = predictive.interval(probability)
    parts = {"": predictive.mean, "_std": np.sqrt(predictive.variance), "_low": low, "_high": high}
    require_distinct([name + ending for name in names for ending in parts], "columns of the output")
    columns = {ending: np.reshape(values, (-1, len(names))) for ending, values in parts.items()}
    return pd.DataFrame(
        {name + ending: values[:, j] for j, name in enumerate(names) for ending, values in columns.items()}
    )


def _write_table(frame: Any, path: Path) -> None:
    if path.suffix.lower() == ".csv":
        frame.to_csv(path, index=False)
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
        typer.echo(f"Not scored: {incomplete}")
        return
    rows = [_score_row(frame, name, truth[:, j]) for j, name in enumerate(model.targets)]
    header = "target", "R²", "RMSE", f"in {probability:.0%} interval"
    show_grid(Grid(header, rows, f"Against the targets in {table.path.name}, {len(truth)} rows"), console())
    density = _log_densities(model, X, truth)
    error = f" ± {density.std(ddof=1) / np.sqrt(len(density)):.2g}" if len(density) > 1 else ""
    console().print(f"Log predictive density {density.mean():.3f}{error} a row\n")


def _log_densities(model: NamedModel, X: Any, truth: Array) -> Array:
    """log p of the targets of every row, joint over targets, (rows,)."""
    laws = _in_parts(model, X)
    pieces = np.split(truth, range(_ROWS_AT_ONCE, len(truth), _ROWS_AT_ONCE))
    shaped = [(law, piece.reshape(law.mean.shape)) for law, piece in zip(laws, pieces, strict=True)]
    return np.concatenate([law.pointwise_log_density(piece) for law, piece in shaped])


def _score_row(frame: Any, name: str, truth: Array) -> tuple[str, str, str, str]:
    inside = (frame[f"{name}_low"] <= truth) & (truth <= frame[f"{name}_high"])
    return name, *fit_scores(truth, frame[name].to_numpy()), f"{inside.mean():.0%}"
