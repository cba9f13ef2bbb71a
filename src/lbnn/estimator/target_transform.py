"""Targets that are not Gaussian: what a transform of them would gain at infinite width, and what to say.

The evidence of targets y is that of z = t(y) times Π |t'(y)|, so that transforms compare on the same footing.
With an intercept it is that of p − 1 contrasts, so that one slope of each output, their geometric mean, does
not count: a transform that is nearly linear in the range of the targets gains nothing, whatever their unit.
(With all p slopes the log of targets near 1e-5 gained 11.5 nats for every output.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special

from lbnn._base.types import Array

_CLEAR_GAIN = 10.0  # nats from which a transform is recommended
_FEWEST_ROWS = 10
_MOST_ROWS = 1000  # up to which every fit compares transforms: another decomposition for each

#: Transforms by name: the function t, log t', and the ends that all targets must be strictly between.
TRANSFORMS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array], float, float]] = {
    "log": (np.log, lambda y: -np.log(y), 0.0, math.inf),
    "log1p": (np.log1p, lambda y: -np.log1p(y), -1.0, math.inf),
    "sqrt": (np.sqrt, lambda y: -math.log(2.0) - 0.5 * np.log(y), 0.0, math.inf),
    "logit": (special.logit, lambda y: -np.log(y) - np.log1p(-y), 0.0, 1.0),
}


def candidates(targets: Array) -> list[str]:
    """Transforms that are defined at all targets and not alike."""
    possible = [
        name
        for name, (_, _, lowest, highest) in TRANSFORMS.items()
        if (targets > lowest).all() and (targets < highest).all()
    ]
    if "log" in possible and "log1p" in possible:  # counts have zeros: for them it is log1p
        possible.remove("log1p")
    return possible


def advice(targets: Array, evidence: Callable[[Array], float], intercept: bool) -> str:
    """What to say of targets that are not Gaussian, with the evidence of transformed ones; or nothing."""
    columns = targets.reshape(len(targets), -1)
    if not _FEWEST_ROWS <= len(columns) <= _MOST_ROWS or not np.ptp(columns, axis=0).all():
        return ""
    levels = [len(np.unique(column)) for column in columns.T]
    if min(levels) == 2:
        return (
            "some targets take two values: a classifier would give their probabilities; intervals here are "
            "those of Gaussian noise and reach beyond the two values"
        )
    possible = candidates(targets)
    shares = "logit" in possible  # which may be symmetric about one half
    if not possible or not (shares or _skewed(columns)):
        return ""
    plain, gains = evidence(targets), {}
    counted = (len(columns) - 1) / len(columns) if intercept else 1.0
    for name in possible:
        forward, log_slope, _, _ = TRANSFORMS[name]
        gains[name] = evidence(forward(targets)) + counted * float(log_slope(targets).sum()) - plain
    best = max(gains, key=lambda name: gains[name])
    if gains[best] <= _CLEAR_GAIN:
        return ""
    return (
        f"the {best} of the targets raises the log evidence by {gains[best]:.1f}, Jacobian included: the "
        "targets are not Gaussian as they are. Transform them before the fit; in Python, scikit-learn's "
        "TransformedTargetRegressor does so"
    )


def _skewed(columns: Array) -> bool:
    """Whether some output has a skewness that would be rare for Gaussian targets (four standard errors)."""
    centred = columns - columns.mean(axis=0)
    skewness = (centred**3).mean(axis=0) / (centred**2).mean(axis=0) ** 1.5
    return bool((np.abs(skewness) > 4 * np.sqrt(6 / len(columns))).any())
