"""Options of a model, shared by the commands that fit one, and numbers as they are printed."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.metrics import mean_squared_error, r2_score

from lbnn._base.types import Array
from lbnn.cli.options import numbers_of
from lbnn.cli.problems import BadInputError
from lbnn.estimator.settings import KERNELS, NOISES

BY_EVIDENCE = "evidence"

PriorScale = Annotated[
    str,
    typer.Option("--prior-scale", help="Prior variance of the network: a number, or evidence to choose it."),
]


Noise = Annotated[
    str,
    typer.Option(
        "--noise",
        help="independent: one noise variance for all targets; per_output: one for each; coupled: noise is "
        "correlated over targets as the signal is; coupled_per_output: in units of its own for each; free: "
        "noise with a covariance of its own; auto: the best.",
    ),
]
Kernel = Annotated[
    str,
    typer.Option(
        "--kernel",
        help="linear; rbf, linear+rbf or relu, their parameters by evidence; or auto: the best of linear, "
        "linear+rbf and relu.",
    ),
]


class Scales(enum.StrEnum):
    """Scales in which features are seen."""

    auto = "auto"
    raw = "raw"
    standardised = "standardised"
    own = "own"


ColumnScales = Annotated[
    Scales,
    typer.Option(
        "--column-scales",
        help="Features as they are (raw), divided by their standard deviations (standardised), whichever the "
        "evidence prefers (auto), or each with a scale of its own where the evidence gains (own).",
    ),
]
TargetError = Annotated[
    float, typer.Option("--target-error", min=0.0005, max=0.9, help="Monte Carlo error of the final answer.")
]
NoIntercept = Annotated[bool, typer.Option("--no-intercept", help="Fit no intercept.", show_default=False)]


def number_or_evidence(text: str, option: str) -> float | str:
    """A positive number, or the word evidence."""
    if text == BY_EVIDENCE:
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:
        raise BadInputError(f"{option} must be a positive number or {BY_EVIDENCE}, got {text!r}")
    return value


def noise_of(text: str) -> str:
    """A kind of noise."""
    if text not in NOISES:
        raise BadInputError(f"--noise must be one of {', '.join(NOISES)}, got {text!r}")
    return text


def depth_of(text: str) -> int | str:
    """A depth, or the word evidence."""
    if text == BY_EVIDENCE:
        return text
    if not text.isdecimal() or int(text) < 1:
        raise BadInputError(f"--depth must be a whole number from 1 on, or {BY_EVIDENCE}, got {text!r}")
    return int(text)


def width_of(text: str) -> int | tuple[int, ...] | str:
    """A width for all hidden layers, one width for each, or the word evidence."""
    if text == BY_EVIDENCE:
        return text
    widths = numbers_of(text, int, "--width")
    if min(widths) < 1:
        raise BadInputError(f"--width must be positive whole numbers, got {text!r}")
    return widths[0] if len(widths) == 1 else tuple(widths)


def kernel_of(text: str) -> str:
    """The name of a kernel that takes rows of a table."""
    known = [name for name in KERNELS if name != "precomputed"]
    if text not in known:
        raise BadInputError(f"--kernel must be one of {', '.join(known)}, got {text!r}")
    return text


@dataclass(frozen=True)
class ModelOptions:
    """Options of every command that fits an estimator."""

    prior_scale: PriorScale = BY_EVIDENCE
    noise: Noise = "auto"
    kernel: Kernel = "linear"
    column_scales: ColumnScales = Scales.auto
    no_intercept: NoIntercept = False
    target_error: TargetError = 0.1

    def settings(self, seed: int) -> dict[str, Any]:
        """Parameters of the estimator."""
        return {
            "column_scales": self.column_scales.value,
            "target_error": self.target_error,
            "prior_scale": number_or_evidence(self.prior_scale, "--prior-scale"),
            "noise": noise_of(self.noise),
            "kernel": kernel_of(self.kernel),
            "fit_intercept": not self.no_intercept,
            "random_state": seed,
        }


def shown(value: Any, digits: int = 4) -> str:
    """A number as tables show it."""
    if value is None:
        return "–"
    number = float(value)
    return f"{number:.{digits}g}" if math.isfinite(number) else str(number).replace("inf", "∞")


def fit_scores(truth: Array, prediction: Array) -> tuple[str, str]:
    """R² and root mean squared error of one target as tables show them; no R² for a constant target."""
    r_squared = f"{r2_score(truth, prediction):.3f}" if np.ptp(truth) > 0 else "–"
    return r_squared, shown(math.sqrt(mean_squared_error(truth, prediction)))


def counted_rows(count: int) -> str:
    """1 row, 2 rows."""
    return f"{count} row{'s' * (count != 1)}"


def counted(rows: int, features: int, targets: int) -> str:
    """20 rows, 3 features, 1 target."""
    numbers = (rows, "row"), (features, "feature"), (targets, "target")
    return ", ".join(f"{number} {name}{'s' * (number != 1)}" for number, name in numbers)


def shown_widths(widths: Any) -> str:
    """Hidden widths: (20, 20), or ∞ for the Gaussian process."""
    return " × ".join(str(width) for width in widths) if widths else "∞"
