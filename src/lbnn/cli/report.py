"""What terminal, file and JSON show of a fit: what was chosen, what else was tried, how good it is."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import platform
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import typer

import lbnn
from lbnn import plots
from lbnn._base.checkout import commit
from lbnn._base.types import Array
from lbnn._base.warn import collected
from lbnn.cli.columns import Examples
from lbnn.cli.problems import ARGUMENTS, TableWords
from lbnn.estimator import LBNNRegressor
from lbnn.estimator.summary import facts
from lbnn.plots._style import heat_map, plain
from lbnn.plots.page import Document, Grid, Part, Picture, Section, drawing, svg

INTERVAL = 0.9  # of coefficients
_MOST_CANDIDATES = 8  # that are shown
_LARGEST_MATRIX = 8  # targets whose coupling is shown as a matrix; of more, ...
_MOST_PAIRS = 12  # ... so many pairs
_MOST_ROWS = 10  # outliers
_MOST_COEFFICIENTS = 12  # of a target
_MOST_FEATURES = 5000  # whose coefficients get intervals: some ten seconds
MOST_DRAWN = 6  # targets
#: Attributes of the model for programs; arrays are in the order of the targets.
_CHOSEN = (
    *("widths", "noise", "beta", "prior_scale", "noise_variance", "signal_share", "signal_share_interval"),
    *("missing_explained", "log_evidence", "log_evidence_error"),
)
_ROUNDING = 1e-12  # of a correlation: some 100 roundings of the units of the targets


class FitReport:
    """The numbers of a fit, as tables and for programs; those of rows are the model's own facts."""

    def __init__(self, model: LBNNRegressor, examples: Examples) -> None:
        self.model, self.names, self.labels = model, list(examples.Y.columns), examples.labels
        self.notes, self.X, self.Y = examples.notes, examples.X, examples.Y
        self.facts = facts(model)
        words, known = TableWords(examples.labels), {each.code for each in model.notices_}
        self.notices = [*model.notices_, *(each for each in model.diagnose() if each.code not in known)]
        self.said = [each.render(words) for each in self.notices] + [*map(words.message, self.facts.messages)]
        size = np.sqrt(np.diag(np.atleast_2d(model.scale_mean_)))
        self.correlations: Array = np.atleast_2d(model.scale_mean_) / np.outer(size, size)
        #: Whether some targets are coupled by more than rounding: at infinite width none are.
        self.coupled = bool(np.abs(self.correlations - np.eye(len(size))).max() > _ROUNDING)

    def document(self, title: str, origin: dict[str, Any] | None = None) -> Document:
        """What is printed; with an origin what is written, with pictures and coefficients."""
        whole = origin is not None
        sections = [
            Section("What was chosen", self._chosen()),
            Section("Evidence", self._evidence()),
            Section("Coupling of the targets", self._coupling(whole)),
            Section("Leave-one-out predictions", self._left_out(whole)),
            Section("Rows to look at", self._outliers()),
        ]
        if origin is not None:
            sections.append(Section("Coefficients", self._coefficients()))
            sections += origin_sections(self.notes, origin)
        return Document(title, [section for section in sections if section.parts])

    def as_json(self) -> dict[str, Any]:
        """Everything but pictures."""
        model, found, kernel = self.model, self.facts, self.model.kernel_
        chosen = {name: getattr(model, f"{name}_") for name in _CHOSEN}
        described = {"kernel": kernel.name, "kernel_parameters": dict(kernel.parameters)}
        return {
            "rows": len(self.Y),
            "features": model.n_features_in_,
            "targets": self.names,
            "chosen": {**chosen, **described, "column_scales": kernel.columns},
            "models_averaged": len(model._state.models),
            "evidence": [
                {name: value for name, value in vars(each).items() if name not in ("posterior", "kernel")}
                for each in self._candidates()
            ],
            "correlations": self.correlations,
            "left_out": [vars(each) for each in found.outputs],
            "left_out_log_density": found.elpd,
            "left_out_log_density_error": found.elpd_error,
            "outliers": [{**vars(each), "row": self.labels[each.row]} for each in found.outliers],
            "coefficients": [
                dict(zip(("target", "feature", "value", "low", "high", "effect"), each, strict=True))
                for each in self._all_coefficients()
            ],
            "intercept": getattr(model, "intercept_", None),
            "table": self.notes,
            "notices": [
                {"code": each.code, "text": text, "fields": dict(each.fields)}
                for each, text in zip(self.notices, self.said, strict=False)
            ],
        }

    def _chosen(self) -> list[Part]:
        """Network, noise and share of the signal, and what there is to say of the fit."""
        model = self.model
        network = (
            f"depth {len(model.widths_) + 1}, width {shown_widths(model.widths_)}"
            if model.widths_
            else "infinite width (a Gaussian process)"
        )
        lines: list[Part] = [
            counted(len(self.Y), model.n_features_in_, len(self.names)),
            f"Network: {network}; prior scale {shown(model.prior_scale_)}; kernel {model.kernel_}; features "
            f"{model.kernel_.columns}",
            f"Log evidence {model.log_evidence_:.2f} ± {model.log_evidence_error_:.2g}",
        ]
        if len(model._state.models) > 1:
            lines.append(
                f"Predictions average {len(model._state.models)} models, of other noise, scale or width as "
                "well; this is the best of them."
            )
        deviations = np.sqrt(np.atleast_1d(model.noise_variance_))
        intervals = np.reshape(model.signal_share_interval_, (-1, 2))
        rows = [
            (name, shown(deviation), f"{share:.2f}", f"{low:.2f} to {high:.2f}")
            for name, deviation, share, (low, high) in zip(
                self.names, deviations, np.atleast_1d(model.signal_share_), intervals, strict=True
            )
        ]
        caption = "Standard deviation of the noise, and share of the signal in the variance of the target"
        lines.append(Grid(("target", "noise", "share of the signal", "90% interval"), rows, caption))
        missing, explained = self.Y.isna().sum(), np.atleast_1d(model.missing_explained_)
        if missing.any():
            gaps = [
                (name, str(missing[name]), "–" if np.isnan(share) else f"{share:.2f}")
                for name, share in zip(self.names, explained, strict=True)
            ]
            caption = (
                "Missing targets, and the share of their variance that the other targets of the same rows "
                "explain in addition to all other rows"
            )
            lines.append(Grid(("target", "missing", "explained by others"), gaps, caption))
        return [*lines, *(f"Note: {each}" for each in self.said)]

    def _candidates(self) -> list[Any]:
        """Best first, by evidence less penalty."""
        return sorted(self.model.candidates_, key=lambda each: each.penalty - each.log_evidence)

    def _evidence(self) -> list[Part]:
        found = self._candidates()
        if len(found) < 2:
            return []
        best = found[0].log_evidence - found[0].penalty
        rows = [
            (
                shown_widths(each.widths) if each.signal else "no signal",
                each.noise,
                each.columns,
                f"{each.log_evidence:.2f}",
                f"{each.penalty:.2f}",
                f"{abs(best - each.log_evidence + each.penalty):.2f}",  # no minus sign before zero
                shown(each.beta, 3),
                shown(each.prior_scale, 3),
            )
            for each in found[:_MOST_CANDIDATES]
        ]
        header = (
            *("hidden widths", "noise", "features", "log evidence", "penalty"),
            *("below the best", "beta", "prior scale"),
        )
        caption = (
            f"{len(rows)} best of {len(found)} networks, by evidence less a penalty for hyperparameters; a "
            "difference of 3 is a factor of 20 in odds"
        )
        return [Grid(header, rows, caption)]

    def _coupling(self, drawn: bool) -> list[Part]:
        """E L as correlations: the matrix, or its largest entries where it does not fit on a page."""
        names, matrix = self.names, self.correlations
        if len(names) < 2:
            return []
        if not self.coupled:
            return ["At infinite width the scale is fixed: the targets are not coupled."]
        caption = "Correlation of the targets as functions of the features, as learned: the scale E L"
        if len(names) <= _LARGEST_MATRIX:
            rows = [
                (name, *(f"{value:.2f}" for value in row)) for name, row in zip(names, matrix, strict=True)
            ]
            parts: list[Part] = [Grid(("target", *names), rows, caption)]
        else:
            first, second = np.triu_indices(len(names), 1)
            order = np.argsort(-np.abs(matrix[first, second]))[:_MOST_PAIRS]
            pairs = [(names[first[k]], names[second[k]], f"{matrix[first[k], second[k]]:.2f}") for k in order]
            caption = f"{caption}; {len(pairs)} strongest of {len(first)} pairs"
            parts = [Grid(("target", "with", "correlation"), pairs, caption)]
        drawer = panels(lambda axes: _draw_coupling(axes[0], matrix, names))
        return [*parts, Picture("Coupling of the targets, as correlations", drawer)] if drawn else parts

    def _left_out(self, drawn: bool) -> list[Part]:
        """Predictions of every row from all others, beside two baselines."""
        if not self.facts.outputs:
            return []
        rows = [
            (
                name,
                f"{each.r2:.3f}" if np.isfinite(each.r2) else "–",
                *map(shown, (each.error, each.ridge_error, each.mean_error)),
                f"{each.coverage:.0%}",
            )
            for name, each in zip(self.names, self.facts.outputs, strict=True)
        ]
        parts: list[Part] = [
            Grid(
                ("target", "R²", "RMSE", "of ridge", "of mean", "in 90% interval"),
                rows,
                "Each row predicted from all others, beside a ridge regression, whose penalty has the least "
                "left-out error, and the mean of the other rows",
            ),
            f"Log predictive density {self.facts.elpd:.2f} ± {self.facts.elpd_error:.2g}",
        ]
        return [*parts, *(map(self._left_out_picture, range(len(self.names[:MOST_DRAWN]))) if drawn else ())]

    def _left_out_picture(self, output: int) -> Picture:
        def draw(axes: Any) -> None:
            with collected():  # the report has its messages
                plots.left_out(self.model.leave_one_out(), self.model._state.scored_targets, output, axes)

        caption = f"{self.names[output]}: left-out predictions with 90% intervals, and their calibration"
        return Picture(caption, panels(draw, 2))

    def _outliers(self) -> list[Part]:
        found = self.facts.outliers
        rows = [
            (self.labels[each.row], each.output, shown(self.Y[each.output].iloc[each.row]), f"{each.z:+.1f}")
            for each in found[:_MOST_ROWS]
        ]
        caption = (
            "Targets far from the predictions of the other rows: z, (target − prediction)/predicted standard "
            f"deviation, is larger than Gaussian noise explains; {len(rows)} of {len(found)}"
        )
        return [Grid(("row", "target", "value", "z"), rows, caption)] if rows else []

    def _all_coefficients(self) -> list[tuple[str, str, float, float, float, float]]:
        """Target, feature, coefficient, interval and effect, those of a target largest effect first."""
        model, features = self.model, list(self.X.columns)
        if not hasattr(model, "coef_"):
            return []
        values = np.atleast_2d(model.coef_)
        bounds = np.full((2, *values.shape), np.nan)
        if len(features) <= _MOST_FEATURES:
            bounds = np.reshape(model.coefficient_interval(INTERVAL), bounds.shape)
        effects = values * self.X.to_numpy().std(axis=0)
        return [
            (name, features[k], values[j, k], bounds[0, j, k], bounds[1, j, k], effects[j, k])
            for j, name in enumerate(self.names)
            for k in np.argsort(-np.abs(effects[j]), kind="stable")
        ]

    def _coefficients(self) -> list[Part]:
        found = self._all_coefficients()
        parts: list[Part] = []
        for target in self.names[:MOST_DRAWN] if found else ():
            own = [each[1:] for each in found if each[0] == target]
            rows = [
                (feature, shown(value), f"{shown(low)} to {shown(high)}", shown(effect))
                for feature, value, low, high, effect in own[:_MOST_COEFFICIENTS]
            ]
            header = ("feature", "coefficient", f"{INTERVAL:.0%} interval", "effect")
            parts.append(Grid(header, rows, f"{target}: {len(rows)} of {len(own)}, largest effect first"))
        about = (
            "A coefficient is the change of the target for a change of the feature by one unit; its effect, "
            "that for a change by one standard deviation of the feature."
        )
        return [*parts, about] if parts else []


def _draw_coupling(axes: Any, matrix: Array, names: Sequence[str]) -> None:
    heat_map(axes, matrix, 1.0, digits=2 if len(names) <= _LARGEST_MATRIX else None)
    if len(names) <= 20:
        labels = [plain(name) for name in names]
        axes.set_xticks(range(len(names)), labels, rotation=90)
        axes.set_yticks(range(len(names)), labels)


def panels(draw: Callable[[Any], object], count: int = 1) -> Callable[[], str]:
    """A picture that `draw` draws into axes beside each other."""

    def picture() -> str:
        from matplotlib.figure import Figure

        with drawing():
            figure = Figure(figsize=(3.6 * max(count, 2), 3.6), layout="constrained")
            draw(figure.subplots(1, count, squeeze=False)[0])
            return svg(figure)

    return picture


# ---------------------------------------------------------------------- where a report comes from


def origin_of(data: Path) -> dict[str, Any]:
    """Version, command, date and file, as JSON takes them."""
    with data.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "version": lbnn.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "command": shlex.join(["lbnn", *ARGUMENTS.get()]),
        "date": datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="minutes"),
        "file": data.name,
        "bytes": data.stat().st_size,
        "sha256": digest,
    }


def origin_sections(notes: Sequence[str], origin: dict[str, Any]) -> list[Section]:
    """What was done to the table, and the last section of a report."""
    rows = [(name, str(value)) for name, value in origin.items() if value]
    return [
        Section("The table", [*notes] or ["All rows of the file were used as they are."]),
        Section("How this was made", [Grid((), rows)]),
    ]


def print_json(results: dict[str, Any]) -> None:
    """Print results for programs; NaN is null, infinity the text inf."""
    typer.echo(json.dumps(plain_numbers(results), indent=2, ensure_ascii=False, allow_nan=False, default=str))


def plain_numbers(value: Any) -> Any:
    """The same for JSON: NaN is null, infinity a text, tuples and arrays are lists.

    Examples
    --------
    >>> from lbnn.cli.report import plain_numbers
    >>> plain_numbers({"a": (1, float("inf")), "b": float("nan")})
    {'a': [1, 'inf'], 'b': None}
    """
    if isinstance(value, dict):
        return {str(key): plain_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_numbers(each) for each in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain_numbers(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


# ---------------------------------------------------------------------- numbers as tables show them


def shown(value: Any, digits: int = 4) -> str:
    """A number, with so many digits."""
    number = math.nan if value is None else float(value)
    if math.isnan(number):
        return "–"
    return f"{number:.{digits}g}".replace("inf", "∞")


def counted(*counts: int) -> str:
    """20 rows, 3 features, 1 target."""
    words = zip(counts, ("row", "feature", "target"), strict=False)
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for count, name in words)


def shown_widths(widths: Any) -> str:
    """Hidden widths: 20 × 20, or ∞ for the Gaussian process."""
    return " × ".join(map(str, widths)) or "∞"
