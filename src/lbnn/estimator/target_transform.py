"""Targets that are not Gaussian: transforms by evidence, with the Jacobian, and what to say of others.

The evidence of targets y is that of z = t(y) times Π |t'(y)|, so that transforms compare on the same footing.
They are compared at infinite width.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lbnn._base.types import Array
from lbnn.predict.transformed import TRANSFORMS

_CLEAR_GAIN = 10.0  # nats from which a transform is recommended
_FEWEST_ROWS = 10
_MOST_ROWS = 1000  # up to which every fit compares transforms: another decomposition for each


def require(name: str, targets: Array) -> None:
    """Raise where a transform is not defined at some of the targets."""
    transform = TRANSFORMS[name]
    if not transform.takes(targets):
        raise ValueError(
            f"target_transform={name!r} needs targets above {transform.lowest:g}"
            f"{f' and below {transform.highest:g}' if np.isfinite(transform.highest) else ''}, got targets "
            f"from {targets.min():.4g} to {targets.max():.4g}"
        )


def applied(name: str | None, targets: Array, intercept: bool) -> tuple[Array, float]:
    """Transformed targets, and the log of the Jacobian of the data.

    With an intercept the evidence is that of p − 1 contrasts, so that one slope of each output, their
    geometric mean, does not count: a transform that is nearly linear in the range of the targets gains
    nothing, whatever their unit. (With all p slopes the log of targets near 1e-5 gained 11.5 nats for every
    output.)
    """
    if name is None:
        return targets, 0.0
    transform, rows = TRANSFORMS[name], len(targets)
    share = (rows - 1) / rows if intercept else 1.0
    return transform.forward(targets), share * float(transform.log_slope(targets).sum())


def log_slopes(name: str, transformed: Array) -> Array:
    """Σ_j log t'(y_j) of rows t(y) (rows, n_d), (rows,): from log densities of t(y) to those of y."""
    transform = TRANSFORMS[name]
    return transform.log_slope(transform.inverse(transformed)).sum(axis=1)


def candidates(targets: Array) -> list[str]:
    """Transforms that are defined at all targets and not alike."""
    possible = [name for name, transform in TRANSFORMS.items() if transform.takes(targets)]
    if "log" in possible and "log1p" in possible:  # counts have zeros: for them it is log1p
        possible.remove("log1p")
    return possible


def chosen(targets: Array, evidence: Callable[[Array], float], intercept: bool) -> str | None:
    """The transform with the highest evidence, None for none; `evidence` of transformed targets."""
    if not np.ptp(targets, axis=0).all():
        return None
    found: dict[str | None, float] = {None: evidence(targets)}
    for name in candidates(targets):
        transformed, jacobian = applied(name, targets, intercept)
        found[name] = evidence(transformed) + jacobian
    return max(found, key=lambda name: found[name])


def advice(targets: Array, evidence: Callable[[Array], float], intercept: bool) -> str:
    """What to say of targets that are not Gaussian; empty where there is nothing to say."""
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
    for name in possible:
        transformed, jacobian = applied(name, targets, intercept)
        gains[name] = evidence(transformed) + jacobian - plain
    best = max(gains, key=lambda name: gains[name])
    if gains[best] <= _CLEAR_GAIN:
        return ""
    return (
        f"target_transform={best!r} raises the log evidence by {gains[best]:.1f}, Jacobian included: the "
        "targets are not Gaussian as they are"
    )


def _skewed(columns: Array) -> bool:
    """Whether some output has a skewness that would be rare for Gaussian targets (four standard errors)."""
    centred = columns - columns.mean(axis=0)
    skewness = (centred**3).mean(axis=0) / (centred**2).mean(axis=0) ** 1.5
    return bool((np.abs(skewness) > 4 * np.sqrt(6 / len(columns))).any())
