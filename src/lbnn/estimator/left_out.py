"""Whether left-out predictions bear out the signal that the evidence found.

The evidence compares models under the assumption that one of them is right. Noise that is correlated across
outputs, for one, is fitted as a signal by a model of independent noise, and wins by many nats. Predictions of
examples that were left out need no such assumption.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import stats

from lbnn._base.notices import Notice
from lbnn._base.types import Array, Mask
from lbnn._base.warn import collected
from lbnn.estimator.fitted import FittedModel, FittedState, FreeNoiseModel
from lbnn.estimator.notices import notice
from lbnn.scale.measure import ScaleMeasure
from lbnn.selection import Trial

#: Rows up to which left-out predictions are computed in every fit: 0.05 s for 50 rows, 1% of a fit. The cost
#: grows with the square of the rows.
_MOST_ROWS = 1000
_MOST_WORK = 1e9  # products, a second or two
CLEAR_LEAD = 1.0  # nats: below, the evidence itself does not tell a signal from none
_FEWEST_ROWS = 10  # below, the squared error of left-out predictions says next to nothing


def contradiction(
    state: FittedState, chosen: Trial, lead: float, without: FittedModel | None = None
) -> list[Notice]:
    """What is said where left-out predictions contradict a signal.

    Parameters
    ----------
    state : FittedState
    chosen : Trial
        The one that the evidence prefers.
    lead : float
        Its log evidence less that of the same targets without signal, both less their penalties; NaN where
        hyperparameters were given, and the evidence did not choose.
    without : FittedModel, optional
        Noise alone, correlated across outputs, where that was tried.
    """
    if (
        not chosen.signal
        or chosen.on_edge
        or not lead > CLEAR_LEAD
        or not _FEWEST_ROWS <= len(state.targets) <= _MOST_ROWS
    ):
        return []
    explained, gain, error = left_out_support(state, without)
    # a model without signal but with the same noise is so close that a gain within its error is none
    if explained > 0 and gain > (0.0 if without is None else error):
        return []
    reason = None
    if state.targets.shape[1] > 1:
        reason = "correlated_noise"
    elif state.best.posterior.spectrum.examples == len(state.targets):  # one less with an intercept
        reason = "no_intercept"
    correlated = without is not None
    return [
        notice(
            "left_out", lead=lead, r2=explained, nats=gain, error=error, reason=reason, correlated=correlated
        )
    ]


def left_out_support(state: FittedState, without: FittedModel | None = None) -> tuple[float, float, float]:
    """R² of left-out predictions, nats of their log density over that without signal, and its standard error.

    Without signal rows are of the model `without`, or of `without_signal`. The error is that of a sum of as
    many differences as there are rows, from their spread.
    """
    with collected():  # scores of single examples have messages of their own, in `leave_one_out`
        scores = _cheaper(state).leave_one_out(state.targets)
        alone = without_signal(_free_combinations(state))
        if without is not None:
            alone = without.leave_one_out(state.targets).log_density
    explained = left_out_r2(state.targets, np.reshape(scores.mean, state.targets.shape))
    gains = scores.log_density - alone
    return explained, float(gains.sum()), float(gains.std(ddof=1) * math.sqrt(len(gains)))


def _free_combinations(state: FittedState) -> Array:
    """The targets, or orthonormal combinations of them that vary where others do not, (p, q).

    The density of shares that add up to 100 is one of their combinations, with the same volume.
    """
    matrix = state.best.matrix
    if matrix.shape[1] == matrix.shape[0]:
        return state.targets
    axes = np.linalg.svd(matrix, full_matrices=False).U
    return np.asarray(state.targets @ axes, float)


def _cheaper(state: FittedState) -> FittedModel:
    """The best model, with the mean of its scale in the place of many draws where there are many outputs.

    Left-out scores need a product of rows, directions, outputs and draws: 14 s for 300 rows of 50 outputs.
    """
    model = state.best
    if isinstance(model, FreeNoiseModel):  # which has few draws
        return model
    measure, (rows, outputs) = model.posterior.scale, state.targets.shape
    if len(measure.weights) * rows * model.posterior.spectrum.rank * outputs < _MOST_WORK:
        return model
    mean = ScaleMeasure.atom(np.atleast_2d(measure.mean), measure.single_output)
    inference = replace(model.posterior.inference, measure=mean)
    return replace(model, posterior=replace(model.posterior, inference=inference))


def left_out_r2(targets: Array, means: Array) -> float:
    """Share of the variance that left-out means (p, n_d) explain, beside the mean of the other rows.

    The average over outputs that vary, as in scikit-learn's `r2_score`; NaN where none does.
    """
    alone = (targets - targets.mean(axis=0)) * len(targets) / (len(targets) - 1)
    total, left = (alone**2).sum(axis=0), ((targets - means) ** 2).sum(axis=0)
    varying = _varying(targets)
    return float(1 - (left[varying] / total[varying]).mean()) if varying.any() else math.nan


def without_signal(targets: Array) -> Array:
    """Log density of every row given the others where inputs say nothing, (p,).

    Student's law with the mean and variance of the other rows, for each output that varies.
    """
    count = len(targets)
    centred = targets - targets.mean(axis=0)
    varying = _varying(targets)
    centred = centred[:, varying]
    total = (centred**2).sum(axis=0)
    others = np.maximum(total - centred**2 * count / (count - 1), np.finfo(float).eps * total)
    spread = np.sqrt(others / (count - 2) * count / (count - 1))
    distance = centred * count / (count - 1) / spread
    return np.asarray((stats.t.logpdf(distance, count - 2) - np.log(spread)).sum(axis=1))


def _varying(targets: Array) -> Mask:
    """Outputs that vary by more than the rounding of their mean, (n_d,)."""
    centred = targets - targets.mean(axis=0)
    rounding = len(targets) * np.finfo(float).eps
    return np.asarray((centred**2).sum(axis=0) > rounding**2 * (targets**2).sum(axis=0))
