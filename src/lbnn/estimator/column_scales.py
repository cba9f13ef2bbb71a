"""A prior scale for each column of the inputs, or for each group of columns, by evidence.

At infinite width the outputs, in units of their noise, have the covariance K = I + X diag(s) Xᵀ over the
rows, with s_k the prior variance of the coefficients of column k: the same for all columns of a group. With
the noise u_j at its best the log evidence of N contrasts and q outputs is, up to a constant,

    f(s) = −½ q log det K − ½ N Σ_j log u_j,    u_j = z_jᵀ K⁻¹ z_j / N,

and its gradient in log s_k is ½ s_k [Σ_j (x_kᵀ K⁻¹ z_j)²/u_j − q x_kᵀ K⁻¹ x_k].

The maximum over hundreds of scales fits the noise: with more columns than rows it interpolates. So columns
share one scale, and get one of their own one after the other, in the order of what the evidence gains, while
that is more than a penalty: ½ log N for the scale and half the log of the number of groups it could have been
(the extended BIC of Chen and Chen, 2008). What stays together may still carry signal, as in a ridge
regression.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from lbnn._base.types import Array, IndexArray
from lbnn.selection import NOISE_RANGE, NoiseSpec

_RANGE = math.log(1e8)  # of the variances s, on either side of the common one
_LARGEST_RATIO = 1e12  # of signal and noise: beyond, K has lost the digits of the noise
_MOST_STEPS = 200
_FACTORS = np.exp(np.linspace(-8.0, 12.0, 41))  # of a group's variance that are tried at first


@dataclass(frozen=True)
class Rows:
    """Rows with the moments of centred data: at most as many as there are columns.

    Attributes
    ----------
    inputs : (m, n0)
    targets : (m, q)
    residual : (q,)
        Squares of the targets outside of the span of the rows.
    count : int
        N, the number of contrasts.
    """

    inputs: Array
    targets: Array
    residual: Array
    count: int

    @classmethod
    def of(cls, inputs: Array, targets: Array, centred: bool) -> Rows:
        """From centred inputs (p, n0) and targets (p,) or (p, q)."""
        columns = targets.reshape(len(targets), -1)
        count, nothing = len(inputs) - centred, np.zeros(columns.shape[1])
        if len(inputs) <= inputs.shape[1]:
            return cls(inputs, columns, nothing, count)
        basis, root = np.linalg.qr(inputs)
        inside = basis.T @ columns
        return cls(root, inside, np.maximum((columns**2).sum(axis=0) - (inside**2).sum(axis=0), 0.0), count)


@dataclass(frozen=True)
class Scales:
    """What the evidence prefers.

    Attributes
    ----------
    variances : (n0,)
        Prior variances s of the coefficients, relative: the Gram matrix keeps its trace.
    penalty : float
        Of the log evidence, for the scales beyond one for all columns.
    own : tuple of int
        Groups with a scale of their own, in the order in which they got it.
    """

    variances: Array
    penalty: float
    own: tuple[int, ...]


def own_scales(rows: Rows, group_of: IndexArray, spec: NoiseSpec, start: float) -> Scales:
    """Scales of groups of columns by evidence at infinite width.

    Parameters
    ----------
    rows : Rows
    group_of : (n0,)
        Number of the group of each column.
    spec : NoiseSpec
        Whether outputs have units of their own, and the noise where it is given.
    start : float
        Log of the common s that the evidence prefers.
    """
    own: list[int] = []
    groups, penalty = int(group_of.max()) + 1, 0.0
    logs = np.full(1, start)  # of s: of the columns that share one, then of those in `own`
    while len(own) < min(groups, rows.count // 2):
        part = _parts(group_of, own)
        group, gain, size = _best_split(rows, np.exp(logs[part]), group_of, own, spec)
        price = 0.5 * (math.log(rows.count) + math.log(groups - len(own)))
        tried, value = _climb(rows, _parts(group_of, [*own, group]), np.append(logs, size), spec, start)
        before = log_evidence(rows, np.exp(logs[part]), spec)[0]
        if max(gain, value - before) <= price:
            break
        own, logs, penalty = [*own, group], tried, penalty + price
    variances = np.exp(logs[_parts(group_of, own)])
    squares = (rows.inputs**2).sum(axis=0)
    return Scales(variances * squares.sum() / (squares @ variances), penalty, tuple(own))


def _parts(group_of: IndexArray, own: Sequence[int]) -> IndexArray:
    """For each column 0 where it shares the common scale, else 1 + the position of its group in `own`."""
    result = np.zeros_like(group_of)
    for number, group in enumerate(own):
        result[group_of == group] = 1 + number
    return result


def _climb(rows: Rows, part: IndexArray, logs: Array, spec: NoiseSpec, start: float) -> tuple[Array, float]:
    """The best log variances of the parts near given ones, and the log evidence there."""
    largest = math.log(_LARGEST_RATIO / max(float((rows.inputs**2).sum()), np.finfo(float).tiny))
    bounds = [(start - _RANGE, max(min(start + _RANGE, largest), start))] * len(logs)

    def negative(theta: Array) -> tuple[float, Array]:
        value, slope = log_evidence(rows, np.exp(theta[part]), spec)
        return -value, -np.asarray(np.bincount(part, slope, len(logs)), float)

    found = optimize.minimize(
        negative, logs, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _MOST_STEPS}
    )
    return np.asarray(found.x, float), -float(found.fun)


def _best_split(
    rows: Rows, variances: Array, group_of: IndexArray, own: Sequence[int], spec: NoiseSpec
) -> tuple[int, float, float]:
    """The group that gains most from a scale of its own: its number, the gain and log s.

    With S = X_gᵀK⁻¹X_g = V diag(λ) Vᵀ and Q = VᵀX_gᵀK⁻¹Z diag(u)^{−½} a change a of the group's variance
    changes the log evidence at the present noise by ½ Σ_i [a |Q_i|²/(1 + a λ_i) − q log(1 + a λ_i)].
    """
    factor, units = _factor(rows, variances), _units(rows, variances, spec)
    inverse = linalg.cho_solve(factor, rows.inputs, check_finite=False)
    pulls = inverse.T @ rows.targets / np.sqrt(units)  # x_kᵀK⁻¹z_j/√u_j, (n0, q)
    free = np.setdiff1d(group_of, own)
    gains, sizes = np.empty(len(free)), np.empty(len(free))
    for number, group in enumerate(free):
        members = np.flatnonzero(group_of == group)
        values, axes = np.linalg.eigh(rows.inputs[:, members].T @ inverse[:, members])
        squares = ((axes.T @ pulls[members]) ** 2).sum(axis=1)
        change = (_FACTORS[:, None] - 1) * variances[members[0]]  # a, (k, 1)
        grown = np.maximum(1 + change * np.maximum(values, 0.0), np.finfo(float).tiny)
        gain = 0.5 * (change * squares / grown - pulls.shape[1] * np.log(grown)).sum(axis=1)
        best = int(gain.argmax())
        gains[number], sizes[number] = gain[best], math.log(_FACTORS[best] * variances[members[0]])
    top = int(gains.argmax())
    return int(free[top]), float(gains[top]), float(sizes[top])


def _factor(rows: Rows, variances: Array) -> tuple[Array, bool]:
    """Cholesky's factor of K."""
    covariance = np.eye(len(rows.inputs)) + (rows.inputs * variances) @ rows.inputs.T
    factor, lower = linalg.cho_factor(covariance, lower=True, check_finite=False)
    return np.asarray(factor, float), bool(lower)


def log_evidence(rows: Rows, variances: Array, spec: NoiseSpec) -> tuple[float, Array]:
    """f(s) up to a constant, and its gradient in log s (n0,)."""
    X, Z, outputs = rows.inputs, rows.targets, rows.targets.shape[1]
    factor = _factor(rows, variances)
    log_determinant = 2 * float(np.log(np.diagonal(factor[0])).sum())
    solved = linalg.cho_solve(factor, np.hstack([Z, X]), check_finite=False)
    fit, inverse = solved[:, :outputs], solved[:, outputs:]
    misfit = (Z * fit).sum(axis=0) + rows.residual
    units = _best_units(rows, misfit, spec)
    value = -0.5 * (outputs * log_determinant + (misfit / units + rows.count * np.log(units)).sum())
    determined = (X * inverse).sum(axis=0)
    slope = 0.5 * variances * (((X.T @ fit) ** 2 / units).sum(axis=1) - outputs * determined)
    return value, slope


def _units(rows: Rows, variances: Array, spec: NoiseSpec) -> Array:
    """u at the given scales, (q,)."""
    fit = linalg.cho_solve(_factor(rows, variances), rows.targets, check_finite=False)
    return _best_units(rows, (rows.targets * fit).sum(axis=0) + rows.residual, spec)


def _best_units(rows: Rows, misfit: Array, spec: NoiseSpec) -> Array:
    """u, (q,): given, or at its best for each output or for all, within the range of the search."""
    if spec.noise_variance is not None:
        return np.full(len(misfit), spec.noise_variance)
    lowest = NOISE_RANGE[0] * ((rows.targets**2).sum(axis=0) + rows.residual) / rows.count
    best = np.maximum(misfit / rows.count, np.maximum(lowest, np.finfo(float).tiny))
    return best if spec.per_output else np.full(len(best), best.mean())


def groups_of_columns(
    groups: Sequence[Sequence[int | str]], columns: int, names: Sequence[str] | None
) -> IndexArray:
    """The group of each column, (n0,); columns that no group names form one more.

    Examples
    --------
    >>> groups_of_columns([[0, 2], [3]], 5, None).tolist()
    [0, 2, 0, 1, 2]
    """
    number = {str(name): k for k, name in enumerate(names)} if names is not None else {}
    result = np.full(columns, -1)
    for group, members in enumerate(groups):
        for member in members:
            column = number.get(member, -1) if isinstance(member, str) else int(member)
            if not 0 <= column < columns:
                raise ValueError(
                    f"groups are lists of columns, by number from 0 to {columns - 1} or by name where X is a "
                    f"table, got {member!r}"
                )
            if result[column] >= 0:
                raise ValueError(f"a column belongs to one group, got column {member!r} in two")
            result[column] = group
    if not len(groups) or not np.isin(np.arange(len(groups)), result).all():
        raise ValueError(f"every group needs a column, got groups={groups!r}")
    return np.where(result < 0, len(groups), result)
