"""Every text of the estimator, once: a function of the words and of the fields of its notice.

The name of the function is the code of the notice. `notice` makes one; what it becomes when it is warned of
stands beside the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lbnn._base.errors import AccuracyWarning, DataWarning, ExtrapolationWarning
from lbnn._base.notices import Notice, Words

_TEXTS: dict[str, tuple[Callable[..., str], type[Warning] | None]] = {}
_MOST_LISTED = 10


def notice(code: str, gain: float = math.nan, **fields: Any) -> Notice:
    """A notice by its code and fields, and what the log evidence gains if it is advice."""
    write, category = _TEXTS[code]
    told = fields if math.isnan(gain) else {**fields, "gain": gain}
    return Notice(code, told, write, category, gain)


def _text(category: type[Warning] | None = None) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Keep a text by its name, with the warning that it becomes."""

    def keep(write: Callable[..., str]) -> Callable[..., str]:
        _TEXTS[write.__name__] = write, category
        return write

    return keep


def _listed(names: Sequence[Any]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(str(each) for each in names[:_MOST_LISTED]) + more


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"


# ---------------------------------------------------------------------- accuracy


@_text(AccuracyWarning)
def not_ok(words: Words, message: str) -> str:
    """What the diagnostics of a posterior say."""
    return words.message(message)


@_text(AccuracyWarning)
def few_draws(words: Words, models: int, all_models: int, fewest: float) -> str:
    """Models of a mixture with few draws."""
    return (
        f"{models} of {all_models} posteriors of the mixture over hyperparameters rest on fewer than "
        f"{fewest:g} effective draws: {words.setting('average', False)} takes the best model alone, which "
        "has its own diagnostics"
    )


@_text(AccuracyWarning)
def left_out(
    words: Words, lead: float, r2: float, nats: float, error: float, reason: str | None, correlated: bool
) -> str:
    """Left-out predictions contradict a signal."""
    reasons = {
        "correlated_noise": "The signal may be noise that is correlated across outputs. ",
        "no_intercept": f"The model has no intercept ({words.setting('fit_intercept', False)}), and may need "
        "one. ",
    }
    return (
        f"the evidence prefers a signal to none by {lead:.3g} nats, but left-out predictions do not support "
        f"it: their R² is {r2:.2g}, and their log density is {abs(nats):.3g} ± {error:.2g} nats "
        f"{'above' if nats >= 0 else 'below'} that of the mean and {'co' * correlated}variance of the other "
        f"rows alone. {reasons.get(reason or '', '')}Do not rely on these predictions"
    )


@_text(AccuracyWarning)
def kernel_approximated(words: Words, rows: int, functions: int, dropped: float) -> str:
    """A kernel that is not decomposed exactly."""
    return (
        f"the kernel of {rows} rows is approximated by the functions of {functions} of them: {dropped:.2g} "
        "of its variance at the training points is left out, with the uncertainty that these functions "
        "cannot represent"
    )


# ---------------------------------------------------------------------- data, warned of


@_text(DataWarning)
def constant_targets(words: Words) -> str:
    """All targets are constant."""
    return (
        "the targets are constant, and the evidence of their noise has no maximum: noise_variance_ is 1e-10, "
        f"the lower end of its range for targets of variance one. Give {words.parameter('beta')} if you know "
        "the noise"
    )


@_text(DataWarning)
def few_rows(words: Words, freedom: int) -> str:
    """Rows that cannot show their noise."""
    return (
        f"the rows have {'1 degree' if freedom == 1 else f'{freedom} degrees'} of freedom, too few to "
        "distinguish a signal from noise: noise_variance_, signal_share_ and intervals rest on their priors. "
        f"Give {words.parameter('beta')} = 1/(noise variance) if you know it"
    )


@_text(DataWarning)
def constant_inputs(words: Words) -> str:
    """Inputs that do not vary."""
    return "the inputs do not vary: all networks are the same, and prior_scale_ is a convention"


@_text(DataWarning)
def at_end(words: Words) -> str:
    """Hyperparameters at the end of a range."""
    return (
        "the best hyperparameters are at the end of the ranges searched: give "
        f"{words.parameter('beta')} or {words.parameter('prior_scale')} if you know them"
    )


@_text(DataWarning)
def without_noise(words: Words, outputs: Sequence[int], every: bool, full_rank: bool, averaged: bool) -> str:
    """Outputs that are fitted without noise."""
    reason = (
        "The kernel matrix of the rows has full rank (at least as many columns as rows, or a kernel that is "
        "not linear), so that functions of the inputs pass through any targets"
        if full_rank
        else "The usual reason: the targets are a function of the columns, or a column was computed from them"
    )
    known = (
        "predictions average over smaller and larger noise"
        if averaged
        else "intervals are too narrow if the measurements have noise"
    )
    return (
        f"{'the targets are' if every else f'outputs {list(outputs)} are'} fitted without noise, and the "
        f"evidence does not say how small it is: {known}. Give {words.parameter('beta')} = 1/(noise "
        f"variance) if you know it. {reason}"
    )


@_text(DataWarning)
def no_signal(words: Words, kernel: str | None) -> str:
    """The evidence prefers none; `kernel` is one that shows a signal."""
    if kernel is None:
        return (
            "the evidence prefers targets without signal: these examples do not show that the targets depend "
            "on the inputs, and predictions are near their mean. More rows, other columns or a nonlinear "
            f"kernel ({words.setting('kernel', 'linear+rbf')}) may show a signal"
        )
    return (
        "the evidence prefers no signal to a linear function of the inputs: predictions of the linear kernel "
        f"are near the mean of the targets. {words.setting('kernel', kernel)} shows a signal"
    )


@_text(DataWarning)
def weak_signal(words: Words, lead: float) -> str:
    """A signal that is hardly preferred to none."""
    return (
        f"the evidence prefers a signal only slightly over targets without signal, by {lead:.2g} nats: these "
        "examples do not show clearly that the targets depend on the inputs. More rows, other columns or "
        f"separate scales of columns ({words.setting('column_scales', 'own')}) may show it"
    )


@_text(DataWarning)
def long_search(words: Words, outputs: int, seconds: float) -> str:
    """A search over networks that takes long."""
    return (
        f"fitting {outputs} outputs will take about {max(seconds / 60, 1):.0f} "
        f"{'minutes' if seconds >= 90 else 'minute'}, most of it for comparing networks of different widths. "
        f"Faster: {words.setting('depth', 1)}, which is a Gaussian process in closed form; a given width, "
        f"such as {words.setting('depth', 2)}, {words.setting('width', 5)}; or lbnn.BandedRegressor, which "
        "fits each output separately"
    )


# ---------------------------------------------------------------------- data, not warned of


@_text()
def constant_output(words: Words, outputs: Sequence[int], own_noise: bool) -> str:
    """Some outputs are constant."""
    which = f"outputs {list(outputs)} are constant: "
    if own_noise:
        return f"{which}their noise is at the lower end of its range"
    return (
        f"{which}under one noise variance for all outputs their predictions have the uncertainty of the "
        f"others. Leave them out, or use {words.setting('noise', 'per_output')}"
    )


@_text()
def dependent_targets(words: Words, count: int) -> str:
    """Targets that fulfil linear relations."""
    relations = "one linear combination" if count == 1 else f"{count} linear combinations"
    return (
        f"{relations} of the targets {'does' if count == 1 else 'do'} not vary (as in compositions): the "
        "others are modelled, and predictions fulfil the relation exactly"
    )


@_text()
def few_rows_for_covariances(words: Words, outputs: int, freedom: int) -> str:
    """Noise with a covariance of its own, and more outputs than rows."""
    return (
        f"{words.setting('noise', 'free')} with {outputs} outputs and {freedom} degrees of freedom in the "
        "rows: covariances of full rank would rest on their prior, and are not tried. Only models with few "
        "noise factors and one noise variance for each output are tried"
    )


@_text()
def copies(words: Words, rows: int, dropped: bool) -> str:
    """Rows that agree with others in inputs and targets."""
    found = f"{rows} {'row is a copy' if rows == 1 else 'rows are copies'} of another, targets included: "
    if not dropped:
        return f"{found}they count as measurements of their own"
    return (
        f"{found}copies are counted once, since the noise would be learned from them alone and vanish. If "
        f"they are measurements that agree, give {words.parameter('beta')}"
    )


@_text()
def replicates(words: Words, rows: int) -> str:
    """Rows with the inputs of others."""
    return f"{rows} {'row has' if rows == 1 else 'rows have'} the inputs of another, other targets"


@_text()
def missing_cells(words: Words, counts: Sequence[int], rows: int) -> str:
    """How many targets were missing, output by output."""
    listed = ", ".join(f"{count}" for count in counts[:12]) + (", ..." if len(counts) > 12 else "")
    return (
        f"{sum(counts)} of {rows * len(counts)} targets were missing ({listed} of the {rows} rows of each "
        "output): the fit is that of the observed ones"
    )


@_text()
def rows_left_out(words: Words, rows: int) -> str:
    """Rows without any target."""
    return f"{_counted(rows, 'row')} without any target {'is' if rows == 1 else 'are'} left out"


@_text()
def own_scales(words: Words, columns: Sequence[Any], kind: str) -> str:
    """Columns or groups with a prior scale of their own."""
    if not columns:
        return f"one prior scale for all columns: no {kind} gains enough evidence from a scale of its own"
    return f"{kind}s with a prior scale of their own, in the order of their evidence: {_listed(columns)}"


# ---------------------------------------------------------------------- advice


def _errors(before: float, after: float) -> str:
    """Left-out errors without and with the change."""
    return (
        f"the left-out error falls from {before:.4g} to {after:.4g}"
        if after < before
        else (f"the left-out error does not fall ({before:.4g} to {after:.4g})")
    )


@_text()
def nonlinear(
    words: Words, kernel: str, gain: float, rows: int, error: float = math.nan, new_error: float = math.nan
) -> str:
    """A nonlinear kernel has the higher evidence."""
    told = "" if math.isnan(new_error) else f", and {_errors(error, new_error)}"
    return (
        f"the relation is not linear: {words.setting('kernel', kernel)} raises the log evidence by "
        f"{gain:.0f} on {rows} rows{told}"
    )


@_text()
def column_scales(words: Words, columns: Sequence[Any], gain: float, error: float, new_error: float) -> str:
    """Columns gain from scales of their own."""
    return (
        f"columns differ in importance: {words.setting('column_scales', 'own')} raises the log evidence by "
        f"{gain:.1f} with scales of {_listed(columns)}, and {_errors(error, new_error)}"
    )


@_text()
def odd_rows(
    words: Words,
    rows: Sequence[int],
    z: Sequence[float],
    names: Sequence[str],
    all_rows: int,
    gain: float,
    error: float,
    new_error: float,
    too_many: bool,
) -> str:
    """Rows that the others predict badly; `names` are those of their outputs, largest residual first."""
    named = ", ".join(
        f"{words.row(row)} (z = {size:+.1f}{f', {name}' if name else ''})"
        for row, size, name in zip(rows[:5], z, names, strict=False)
    )
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    found = f"{len(rows)} of {all_rows} rows {'is' if len(rows) == 1 else 'are'} far from what the others"
    if too_many:
        return (
            f"{found} predict: {named}{more}. These are too many for outliers: the noise variance "
            f"1/{words.parameter('beta')} is too small if it is given, or the noise is not Gaussian, or its "
            "variance differs between rows"
        )
    return (
        f"{found} predict: {named}{more}. A noise variance of its own for the first would raise the log "
        f"evidence by {gain:.1f}, and without these rows {_errors(error, new_error)}: check them, and leave "
        "them out or give them smaller weights if they are wrong"
    )


@_text()
def extrapolation(words: Words, rows: Sequence[int], ratio: float) -> str:
    """Training rows far from all others."""
    named = ", ".join(words.row(row) for row in rows[:5]) + (", ..." if len(rows) > 5 else "")
    return (
        f"{_counted(len(rows), 'row')} {'lies' if len(rows) == 1 else 'lie'} far from all others ({named}): "
        f"given the others the variance of the function there is up to {ratio:.3g} times that of the median "
        "row, so that predictions near them rest on few rows"
    )


@_text()
def correlated_residuals(
    words: Words, correlation: float, outputs: Sequence[int], noise: str, complete: int
) -> str:
    """Residuals of targets of the same rows are correlated, unlike their noise."""
    first, second = outputs
    return (
        f"residuals of targets of the same rows are correlated (largest: {correlation:.2f}, of outputs "
        f"{first} and {second}), but the noise of the best model is {noise}: joint densities are lower than "
        f"they could be; compare with {words.setting('noise', 'coupled')}, or with a fit of the {complete} "
        "complete rows, whose noise may have any covariance"
    )


@_text()
def two_values(words: Words, outputs: Sequence[int]) -> str:
    """Outputs with two values."""
    return (
        f"outputs {list(outputs)} take two values: a classifier would give their probabilities; intervals "
        "here are those of Gaussian noise and reach beyond the two values"
    )


# ---------------------------------------------------------------------- predictions


def _rows(count: int, total: int) -> str:
    return f"{count} of {total} rows {'is' if count == 1 else 'are'}"


@_text(ExtrapolationWarning)
def outside_ranges(
    words: Words,
    rows: int,
    all_rows: int,
    columns: int,
    row: int,
    column: Any,
    value: float,
    lowest: float,
    highest: float,
) -> str:
    """New rows outside of the range of a column; the farthest of them."""
    name = repr(column) if isinstance(column, str) else f"column {column}"
    return (
        f"{_rows(rows, all_rows)} far outside the range of the training data, in "
        f"{_counted(columns, 'column')}: {words.row(row)} has {name} = {value:.4g}, "
        f"training rows have {lowest:.4g} to {highest:.4g}. "
        f"Predictions there are extrapolations: check the units, and see {words.leverage}"
    )


@_text(ExtrapolationWarning)
def large_leverage(
    words: Words, far: int, all_rows: int, rows: Sequence[int], leverage: Sequence[float], limit: float
) -> str:
    """New rows farther out than all training rows; the farthest of them."""
    named = ", ".join(f"{words.row(row)} ({size:.3g})" for row, size in zip(rows, leverage, strict=True))
    return (
        f"{_rows(far, all_rows)} farther out than every training row, with a leverage above {limit:g}: "
        f"{named}. Predictions there are extrapolations, and their intervals are valid only if the relation "
        "holds there too"
    )
