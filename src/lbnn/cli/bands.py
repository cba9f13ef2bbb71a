"""`lbnn fit --band`: bands of features, each with a scale of its own."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import typer

from lbnn import plots
from lbnn._base.files import text_writer
from lbnn.cli.columns import Examples
from lbnn.cli.files import write_together
from lbnn.cli.modelling import BY_EVIDENCE, ModelOptions, counted, shown, shown_widths
from lbnn.cli.models import model_writer
from lbnn.cli.problems import BadInputError, console, working
from lbnn.cli.provenance import origin, origin_section, print_json, table_section
from lbnn.estimator import BandedRegressor
from lbnn.plots._style import plain
from lbnn.plots.page import Document, Grid, Part, Picture, Section, drawing, svg

_MOST_TARGETS = 6  # whose shares are drawn


def fit_bands(
    data: Path,
    examples: Examples,
    bands: Sequence[str],
    size: dict[str, Any],
    shared: dict[str, Any],
    out: Path,
    report: Path | None,
    as_json: bool,
) -> None:
    """Fit a `BandedRegressor` to a table, print its report and write what was asked for."""
    settings = _settings(size, shared)
    found = [_band(each, list(examples.X.columns)) for each in bands]
    unused = [name for name in examples.X.columns if not any(name in own for _, own in found)]
    model = BandedRegressor(found, **settings)
    with working("integrating over the scales of the bands"):
        model.fit(examples.X, examples.Y)
    names = list(examples.Y.columns)
    document = bands_report(model, names, unused, f"Fit of {', '.join(names)} to {data.name}, by bands")
    from_where = origin(data)
    written = {out: model_writer(model, names, examples.preparation)}
    if not as_json:
        document.show(console())
        typer.echo()
    if report:
        caption = "Share of the variance that each band explains, with 90% intervals"
        document.sections[-1].parts.append(Picture(caption, lambda: _picture(model, names)))
        document.sections += [table_section(examples.notes), origin_section(from_where)]
        written[report] = text_writer(document.rendered(report.suffix))
    write_together(written, quiet=as_json)
    if as_json:
        print_json({**_numbers(model, names), "table": examples.notes, "origin": from_where})


def _numbers(model: Any, names: list[str]) -> dict[str, Any]:
    """What was found, for programs."""
    intervals = model.band_share_intervals(0.9)
    found = [
        {
            "target": target,
            "shares": dict(zip(model.band_names_, model.band_shares_[v], strict=True)),
            "intervals": dict(zip(model.band_names_, intervals[v], strict=True)),
            "noise_deviation": float(np.sqrt(model.noise_variance_[v])),
            "ok": bool(model.ok_[v]),
        }
        for v, target in enumerate(names)
    ]
    return {"widths": model.widths_, "bands": list(model.band_names_), "targets": found}


def _settings(size: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """Options of `lbnn fit` as bands take them; others must be as they are by default."""
    if shared["kernel"] != "linear":
        raise BadInputError(
            f"--band is for the linear kernel on the command line, got --kernel {shared['kernel']}"
        )
    options = {"--noise": "noise", "--column-scales": "column_scales"}
    usual = ModelOptions().settings(0)
    given = [option for option, name in options.items() if shared[name] != usual[name]]
    if given:
        raise BadInputError(f"{given[0]} is for fits without --band, got both")
    if size["depth"] != BY_EVIDENCE:
        raise BadInputError("--band takes hidden widths, as --width 3 or --width 3,3, got --depth")
    beta = size["beta"]
    if beta == np.inf:
        raise BadInputError("--band needs noise, got --beta inf")
    return {
        "width": size["width"],
        "noise_variance": None if isinstance(beta, str) else 1 / float(beta),
        "prior_scale": 1.0 if isinstance(shared["prior_scale"], str) else shared["prior_scale"],
        "fit_intercept": shared["fit_intercept"],
        "target_error": shared["target_error"],
        "random_state": shared["random_state"],
    }


def _band(text: str, features: list[str]) -> tuple[str, list[str]]:
    """Name and features of `name=a,b` or `name=a_*`."""
    name, sign, listed = text.partition("=")
    if not sign or not name.strip():
        raise BadInputError(f"--band must be NAME=COLUMNS, as nir='nir_*' or lab=ph,salt, got {text!r}")
    chosen: list[str] = []
    for pattern in (part.strip() for part in listed.split(",")):
        matched = [each for each in features if each == pattern or fnmatchcase(each, pattern)]
        if not matched:
            raise BadInputError(f"--band {name.strip()}: no feature is {pattern!r}")
        chosen += [each for each in matched if each not in chosen]
    return name.strip(), chosen


def bands_report(model: Any, names: list[str], unused: list[str], title: str) -> Document:
    """The document for a fitted `BandedRegressor`."""
    intervals = model.band_share_intervals(0.9)
    lines: list[Part] = [
        counted(len(model._targets), model.n_features_in_, len(names)),
        f"Networks of widths {shown_widths(model.widths_)} for {len(model.band_names_)} bands; "
        f"{np.count_nonzero(model.ok_)} of {len(names)} targets have reached the target error",
    ]
    if unused:
        lines.append(f"In no band, not used: {', '.join(unused[:10])}{' …' if len(unused) > 10 else ''}")
    rows = [
        (
            target,
            *(
                "–"
                if v in model.dead_targets_
                else f"{model.band_shares_[v, k]:.2f} ({intervals[v, k, 0]:.2f} to {intervals[v, k, 1]:.2f})"
                for k in range(len(model.band_names_))
            ),
            "–" if v in model.dead_targets_ else shown(float(np.sqrt(model.noise_variance_[v]))),
        )
        for v, target in enumerate(names)
    ]
    header = ("target", *model.band_names_, "noise")
    shares = Grid(header, rows, "Share of the variance (90% intervals), and standard deviation of the noise")
    return Document(title, [Section("What was chosen", lines), Section("Bands", [shares])])


def _picture(model: Any, names: list[str]) -> str:
    from matplotlib.figure import Figure

    drawn = names[:_MOST_TARGETS]
    with drawing():
        figure = Figure(figsize=(3.2 * len(drawn), 2.6), layout="constrained")
        axes = figure.subplots(1, len(drawn), squeeze=False)
        for target, (name, own) in enumerate(zip(drawn, axes[0], strict=True)):
            plots.band_shares(model.fit_, target, own, names=model.band_names_).set_title(plain(name))
        return svg(figure)
