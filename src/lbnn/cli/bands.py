"""`lbnn fit --band`: bands of features, each with a scale of its own."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from lbnn import plots
from lbnn.cli.columns import Examples
from lbnn.cli.options import BY_EVIDENCE, ModelOptions
from lbnn.cli.problems import BadInputError, listed, working
from lbnn.cli.report import MOST_DRAWN, counted, origin_sections, panels, shown, shown_widths
from lbnn.estimator import BandedRegressor
from lbnn.plots._style import plain
from lbnn.plots.page import Document, Grid, Part, Picture, Section

#: Parameters of a fit that bands do not have, by their options.
_WITHOUT = {"--depth": "depth", "--noise": "noise", "--kernel": "kernel", "--column-scales": "column_scales"}


def fit_bands(examples: Examples, bands: Sequence[str], settings: dict[str, Any]) -> BandsReport:
    """Fit a `BandedRegressor`; options that it does not have must be as they are by default."""
    usual = {**ModelOptions().settings(), "depth": BY_EVIDENCE}
    given = [option for option, name in _WITHOUT.items() if settings[name] != usual[name]]
    if given:
        raise BadInputError(f"{given[0]} is for fits without --band, got both: bands take --width 3 or 3,3")
    beta, scale = settings["beta"], settings["prior_scale"]
    if beta == np.inf:
        raise BadInputError("--band needs noise, got --beta inf")
    model = BandedRegressor(
        [_band(each, list(examples.X.columns)) for each in bands],
        width=settings["width"],
        noise_variance=None if beta == BY_EVIDENCE else 1 / beta,
        prior_scale=1.0 if scale == BY_EVIDENCE else scale,
        **{name: settings[name] for name in ("fit_intercept", "target_error", "random_state")},
    )
    with working("integrating over the scales of the bands"):
        model.fit(examples.X, examples.Y)
    return BandsReport(model, examples)


def _band(text: str, features: list[str]) -> tuple[str, list[str]]:
    """Name and features of `name=a,b` or `name=a_*`."""
    name, sign, patterns = text.partition("=")
    if not sign or not name.strip():
        raise BadInputError(f"--band must be NAME=COLUMNS, as nir='nir_*' or lab=ph,salt, got {text!r}")
    chosen: list[str] = []
    for pattern in map(str.strip, patterns.split(",")):
        matched = [each for each in features if each == pattern or fnmatchcase(each, pattern)]
        if not matched:
            raise BadInputError(f"--band {name.strip()}: no feature is {pattern!r}")
        chosen += [each for each in matched if each not in chosen]
    return name.strip(), chosen


class BandsReport:
    """The numbers of a fit by bands, as tables and for programs."""

    said: Sequence[str] = ()  # the estimator warns of what it has to say

    def __init__(self, model: BandedRegressor, examples: Examples) -> None:
        self.model, self.names, self.notes = model, list(examples.Y.columns), examples.notes
        self.rows, self.intervals = len(examples.Y), model.band_share_intervals(0.9)
        used = {name for _, own in model.bands for name in own}
        self.unused = [name for name in examples.X.columns if name not in used]

    def document(self, title: str, origin: dict[str, Any] | None = None) -> Document:
        """What is printed; with an origin what is written, with the picture."""
        model = self.model
        lines: list[Part] = [
            counted(self.rows, model.n_features_in_, len(self.names)),
            f"Networks of widths {shown_widths(model.widths_)} for {len(model.band_names_)} bands; "
            f"{np.count_nonzero(model.ok_)} of {len(self.names)} targets have reached the target error",
        ]
        if self.unused:
            lines.append(f"In no band, not used: {listed(self.unused)}")
        caption = "Share of the variance (90% intervals), and standard deviation of the noise"
        header = ("target", *model.band_names_, "noise")
        bands: list[Part] = [Grid(header, [*map(self._row, range(len(self.names)))], caption)]
        if origin is None:
            return Document(title, [Section("What was chosen", lines), Section("Bands", bands)])
        about = "Share of the variance that each band explains, with 90% intervals"
        drawn = len(self.names[:MOST_DRAWN])
        bands.append(Picture(about, panels(self._draw, drawn)))
        sections = [Section("What was chosen", lines), Section("Bands", bands)]
        return Document(title, [*sections, *origin_sections(self.notes, origin)])

    def _row(self, v: int) -> tuple[str, ...]:
        model = self.model
        if v in model.dead_targets_:
            return (self.names[v], *["–"] * (len(model.band_names_) + 1))
        shares = zip(model.band_shares_[v], self.intervals[v], strict=True)
        cells = [f"{share:.2f} ({low:.2f} to {high:.2f})" for share, (low, high) in shares]
        return (self.names[v], *cells, shown(np.sqrt(model.noise_variance_[v])))

    def _draw(self, axes: Any) -> None:
        for target, own in enumerate(axes):
            drawn = plots.band_shares(self.model.fit_, target, own, names=self.model.band_names_)
            drawn.set_title(plain(self.names[target]))

    def as_json(self) -> dict[str, Any]:
        """Everything but the picture."""
        model = self.model
        targets = [
            {
                "target": name,
                "shares": dict(zip(model.band_names_, model.band_shares_[v], strict=True)),
                "intervals": dict(zip(model.band_names_, self.intervals[v], strict=True)),
                "noise_deviation": np.sqrt(model.noise_variance_[v]),
                "ok": model.ok_[v],
            }
            for v, name in enumerate(self.names)
        ]
        return {"widths": model.widths_, "bands": model.band_names_, "targets": targets, "table": self.notes}
