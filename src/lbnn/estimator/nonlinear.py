"""Whether a nonlinear kernel has the higher evidence: a quick look in every linear fit, and kernel="auto"."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lbnn._base.arrays import device_of
from lbnn._base.types import AnyArray, Array
from lbnn.estimator.columns import ColumnUnits, candidates
from lbnn.estimator.input_search import InputCandidate, Setting, best_candidate, comparable, make_candidate
from lbnn.estimator.kernels import Kernel, typical_distance

#: Kernels that "auto" compares, and the number of parameters that the evidence chooses in each.
AUTO = {"linear": 0, "linear+rbf": 2, "relu": 2}
NOT_LINEAR = "the relation is not linear"  # how the advice begins
_LOOK_ROWS = 200  # rows of the quick look: 0.1 s
_LOOK_FLOATS = 1e8  # of products of rows and columns, beyond which there is no look
_FEWEST_ROWS = 20
_CLEAR_GAIN = 10.0  # nats
_LENGTHS, _SHARES = (0.5, 1.0, 2.0), (0.1, 0.5)  # times the median distance; share of the rbf kernel


def look(X: AnyArray, chosen: InputCandidate, setting: Setting) -> str:
    """What to say where a nonlinear kernel has a clearly higher evidence than the linear one on some rows."""
    count = min(X.shape[0], _LOOK_ROWS)
    if count < _FEWEST_ROWS or not comparable([chosen]) or not device_of(X).host:
        return ""
    if chosen.transform.kernel.metric != "linear" or count**2 * X.shape[1] > _LOOK_FLOATS:
        return ""
    rows = np.sort(np.random.default_rng([setting.seed, 17]).choice(X.shape[0], count, replace=False))
    part, few = np.asarray(X)[rows], _free(setting.of_rows(rows))
    columns = ColumnUnits.standardised(part, few.centre, few.weights)
    # a relation in other units of the columns, or about another level, is still linear
    lines = [
        make_candidate(each, Kernel("linear", {}), part, few) for each in candidates("evidence", columns)
    ]
    if not comparable(lines):
        return ""
    linear = max(each.process.penalised_evidence for each in lines)
    gains = {
        name: max(make_candidate(columns, each, part, few).process.penalised_evidence for each in kernels)
        - linear
        - 0.5 * AUTO[name] * math.log(count)
        for name, kernels in _tried(columns.seen(part)).items()
    }
    best = max(gains, key=lambda name: gains[name])
    if gains[best] <= _CLEAR_GAIN:
        return ""
    return (
        f"{NOT_LINEAR}: kernel={best!r} raises the log evidence by {gains[best]:.0f} on "
        f"{count} rows. Use kernel={best!r}, or kernel='auto', which compares kernels"
    )


def _free(setting: Setting) -> Setting:
    """The same rows with an intercept, noise and prior scale by evidence, whatever is given for the fit.

    A missing intercept, or a noise variance that is too small, is no sign of a nonlinear relation.
    """
    targets, weights = setting.targets, setting.weights
    level = targets.mean(axis=0) if weights is None else weights @ targets / weights.sum()
    spec = replace(setting.spec, noise_variance=None, prior_scale=None)
    return replace(setting, targets=targets - level, centre=True, spec=spec)


def _tried(seen: Array) -> dict[str, list[Kernel]]:
    """Few kernels that show a nonlinear relation where there is one."""
    typical = typical_distance(seen)
    both = [
        Kernel("linear+rbf", {"length_scale": typical * length, "share": share})
        for length in _LENGTHS
        for share in _SHARES
    ]
    return {"linear+rbf": both, "relu": [Kernel("relu", {"depth": 2, "bias_variance": 0.1})]}


def best_kernel(X: AnyArray, wanted: str, setting: Setting) -> str:
    """The kernel of `AUTO` with the highest evidence at infinite width, less ½ log p for each parameter."""
    found = {}
    for name, parameters in AUTO.items():
        candidate = best_candidate(X, wanted, Kernel(name, {}), None, setting)[0]
        if not comparable([candidate]):
            return "linear"
        found[name] = candidate.penalised_evidence - 0.5 * parameters * math.log(len(X))
    return max(found, key=lambda name: found[name])
