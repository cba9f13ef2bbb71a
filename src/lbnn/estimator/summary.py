"""What a fit found, as numbers and as text: the model, its rivals, and how well the rows predict each other.

`facts` collects the numbers; `text` writes them down. Reports take the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from lbnn._base.types import Array, IndexArray
from lbnn._base.warn import collected
from lbnn.cross_validation import LeaveOneOut
from lbnn.data.examples import example_vectors
from lbnn.data.spectrum import Spectrum
from lbnn.estimator.fitting import Candidate

COVERAGE = 0.9  # of the intervals whose coverage is counted
#: Expected number of rows of Gaussian noise that would be called outliers.
FALSE_ALARMS = 0.01
_PENALTIES = 10.0 ** np.arange(
    -6.0, 6.25, 0.5
)  # of the ridge, relative to the mean eigenvalue of the Gram matrix
_MOST_RIVALS = 5
_MOST_OUTPUTS = 20  # that a text lists one by one
_MOST_NAMED = 8  # rows


@dataclass(frozen=True)
class OutputFacts:
    """One output: its noise, and left-out errors beside those of two baselines.

    Attributes
    ----------
    name : str
    deviation, noise : float
        Standard deviations of the targets and of the noise.
    error, ridge_error, mean_error : float
        Root mean squares of left-out residuals: of the fit, of a ridge regression whose penalty has the
        least such error, and of the mean of the other rows.
    r2 : float
        1 − error²/mean_error².
    coverage : float
        Share of the rows in their left-out 90% interval.
    """

    name: str
    deviation: float
    noise: float
    error: float
    ridge_error: float
    mean_error: float
    r2: float
    coverage: float


@dataclass(frozen=True)
class Outlier:
    """A row that the others predict badly: its number, the output and the standardised left-out residual."""

    row: int
    output: str
    z: float


@dataclass(frozen=True)
class Facts:
    """What a fit found.

    Attributes
    ----------
    rows, columns : int
    outputs : tuple of OutputFacts
        Empty where training rows are not known (data in chunks) or there are too few.
    outliers : tuple of Outlier
        Largest first.
    elpd, elpd_error : float
        Sum of left-out log densities and its standard error.
    messages : tuple of str
        What was noticed about the left-out predictions, beside the messages of the fit.
    """

    rows: int
    columns: int
    outputs: tuple[OutputFacts, ...]
    outliers: tuple[Outlier, ...]
    elpd: float
    elpd_error: float
    messages: tuple[str, ...] = ()


def facts(model: Any) -> Facts:
    """The numbers of a fitted estimator."""
    state = model._state
    count = len(state.rows.stands_for)
    if len(state.targets) < 3 or state.best.posterior.missing is not None:
        return Facts(count, model.n_features_in_, (), (), float("nan"), float("nan"))
    with collected():  # they are in the summary
        scores = model.leave_one_out()
    said = {str(each) for each in model.notices_}
    messages = tuple(each for each in scores.messages if each not in said)
    kept = state.rows.scored
    names, targets = output_names(model), state.targets[kept]
    best = state.best
    centred = best.posterior.spectrum.examples < len(state.targets)
    ridge = ridge_residuals(best.posterior.spectrum, state.targets, centred)[kept]
    residual, z = (np.reshape(each, targets.shape) for each in (scores.residual, scores.z))
    noise = np.sqrt(np.atleast_1d(model.noise_variance_))
    outputs = tuple(
        _of_output(name, targets[:, j], noise[j], residual[:, j], ridge[:, j], z[:, j], centred)
        for j, name in enumerate(names)
    )
    found = outliers(scores, names, np.flatnonzero(state.rows.stands_for >= 0))
    return Facts(count, model.n_features_in_, outputs, found, scores.elpd, scores.elpd_error, messages)


def _of_output(
    name: str, targets: Array, noise: float, residual: Array, ridge: Array, z: Array, centred: bool
) -> OutputFacts:
    about = targets - targets.mean() if centred else targets
    deviation = _root_mean_square(about)
    others = len(about) - 1  # y_a less their mean is y_a less the mean of all, times p/(p − 1)
    from_others = about * (others + 1) / others if centred else about
    error, alone = _root_mean_square(residual), _root_mean_square(from_others)
    reach = special.ndtri((1 + COVERAGE) / 2)
    return OutputFacts(
        name,
        deviation,
        float(noise),
        error,
        _root_mean_square(ridge),
        alone,
        1 - (error / alone) ** 2 if alone else float("nan"),
        float((np.abs(z) < reach).mean()),
    )


def _root_mean_square(values: Array) -> float:
    return float(np.sqrt((values**2).mean()))


def ridge_residuals(spectrum: Spectrum, targets: Array, centred: bool) -> Array:
    """Left-out residuals of ridge regressions of the targets (p, n_d), (p, n_d).

    The penalty of each output is the one with the least sum of squares. With P = (G/λ + I)⁻¹ on the contrasts
    the residuals are (PY)_a/P_aa.
    """
    vectors = example_vectors(spectrum)
    weights = np.ones(len(targets)) if spectrum.weights is None else spectrum.weights
    shares, roots = weights / weights.sum(), np.sqrt(weights)[:, None]
    about = roots * (targets - centred * (shares @ targets))  # rows of weight w are multiplied by √w
    inside = vectors.T @ about
    unseen = np.maximum(1 - centred * shares - (vectors**2).sum(axis=1), 0.0)
    rest, squares = about - vectors @ inside, vectors**2
    best, least = about.copy(), np.full(about.shape[1], np.inf)
    mean = float(spectrum.eigenvalues.mean()) if spectrum.rank else 1.0
    for penalty in _PENALTIES:
        inverse = 1 / (1 + spectrum.eigenvalues / (penalty * mean))
        precision = squares @ inverse + unseen
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = (vectors @ (inverse[:, None] * inside) + rest) / precision[:, None]
        total = np.where(np.isfinite(residual).all(axis=0), (residual**2).sum(axis=0), np.inf)
        better = total < least
        best[:, better], least[better] = residual[:, better], total[better]
    return best / roots


def outliers(scores: LeaveOneOut, names: Sequence[str], numbers: IndexArray) -> tuple[Outlier, ...]:
    """Rows whose left-out residuals are larger than Gaussian noise would make them, by their numbers."""
    z = scores.z.reshape(len(scores.z), -1)
    far = np.argwhere(np.abs(z) > largest_z(z.size))
    found = [Outlier(int(numbers[row]), names[j], float(z[row, j])) for row, j in far]
    return tuple(sorted(found, key=lambda each: -abs(each.z)))


def largest_z(count: int) -> float:
    """Size that so many standard normal numbers exceed with an expected number of `FALSE_ALARMS`."""
    return float(-special.ndtri(FALSE_ALARMS / (2 * max(count, 1))))


def output_names(model: Any) -> list[str]:
    """Names of the outputs: those of the targets, or y, or y0, y1, ..."""
    count = len(model._state.best.mean)
    if model.target_names_ is not None:
        return [str(name) for name in model.target_names_]
    return ["y"] if count == 1 else [f"y{number}" for number in range(count)]


# ---------------------------------------------------------------------- as text


def text(model: Any) -> str:
    """All of it as lines of text."""
    found = facts(model)
    remarks = [f"Note: {each}" for each in model.notices_]
    if found.outliers:
        remarks.append(f"Note: {named_outliers(found.outliers, len(found.outputs))}")
    parts = [_chosen(model, found), _rivals(model), _left_out(found), remarks]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _chosen(model: Any, found: Facts) -> list[str]:
    outputs, noise = len(model._state.best.mean), np.sqrt(np.atleast_1d(model.noise_variance_))
    network = _network(model.candidates_[0])
    lines = [
        f"LBNNRegressor: {found.rows} rows, {found.columns} columns, {outputs} output{'s' * (outputs > 1)}",
        f"  network       {network}",
        f"  noise         {model.noise_}; standard deviation {_listed(noise)}",
        f"  prior scale   {model.prior_scale_:.4g}",
        f"  inputs        {model.kernel_.columns}, kernel {model.kernel_}",
        f"  log evidence  {model.log_evidence_:.2f} ± {model.log_evidence_error_:.2g}",
    ]
    if outputs > 1:
        lines.append(f"  signal share  {_listed(model.signal_share_)}")
    models = len(model._state.models)
    if models > 1:
        lines.append(f"  predictions   averaged over {models} models; this is the best of them")
    return lines


def network_name(widths: Sequence[int]) -> str:
    """A network in words."""
    if not widths:
        return "infinite width (the Gaussian process)"
    return f"depth {len(widths) + 1}, hidden width {', '.join(map(str, widths))}"


def _network(candidate: Candidate) -> str:
    return network_name(candidate.widths) if candidate.signal else "no signal"


def _noise_name(candidate: Candidate) -> str:
    """A kind of noise; with a covariance of its own the number of its factors."""
    width = candidate.noise_width
    if width is None:
        return candidate.noise
    shared = " that carry the signal too" if candidate.same_factors else ""
    return f"{candidate.noise}, {width} factor{'s' * (width != 1)}{shared}"


def _listed(values: Array) -> str:
    shown = ", ".join(f"{value:.4g}" for value in values[:_MOST_OUTPUTS])
    return shown + (f", ... ({len(values)} in all)" if len(values) > _MOST_OUTPUTS else "")


def _rivals(model: Any) -> list[str]:
    """The best candidates by evidence less their penalty."""
    table = sorted(model.candidates_, key=lambda each: each.penalty - each.log_evidence)
    if len(table) < 2:
        return []
    top = table[0].log_evidence - table[0].penalty
    shown = table[: _MOST_RIVALS + 1]
    if all(each.signal for each in shown):
        shown += [each for each in table if not each.signal][:1]
    rows = [
        (_network(each), _noise_name(each), each.columns, f"{each.log_evidence - each.penalty - top:.2f}")
        for each in shown
    ]
    title = f"Log evidence less its penalty, relative to the best ({len(table)} candidates)"
    return [title, *_table(("network", "noise", "inputs", "difference"), rows)]


def _left_out(found: Facts) -> list[str]:
    if not found.outputs:
        return []
    shown = found.outputs[:_MOST_OUTPUTS]
    rows = [
        (
            each.name,
            f"{each.r2:.3f}",
            f"{each.error:.4g}",
            f"{each.ridge_error:.4g}",
            f"{each.mean_error:.4g}",
            f"{each.coverage:.0%}",
            f"{each.noise:.4g}",
        )
        for each in shown
    ]
    more = len(found.outputs) - len(shown)
    header = ("output", "R²", "error", "of ridge", "of mean", f"in {COVERAGE:.0%}", "noise")
    return [
        "Each row predicted from all others (root mean square errors)",
        *_table(header, rows),
        *([f"  and {more} more outputs"] if more else []),
        f"  log density {found.elpd:.2f} ± {found.elpd_error:.2g}",
        *(f"  {message}" for message in found.messages),
    ]


def named_outliers(rows: Sequence[Outlier], outputs: int) -> str:
    """Rows by number with their standardised left-out residuals."""
    named = ", ".join(
        f"row {each.row}{f' ({each.output})' if outputs > 1 else ''}: {each.z:+.1f}"
        for each in rows[:_MOST_NAMED]
    )
    more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
    return (
        f"residuals of more standard deviations than Gaussian noise has, given all other rows: {named}{more}"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns: the first to the left, the others to the right."""
    widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]
    return [
        "  "
        + row[0].ljust(widths[0])
        + "".join("  " + row[k].rjust(widths[k]) for k in range(1, len(header)))
        for row in (header, *rows)
    ]
