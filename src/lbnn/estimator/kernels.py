"""Kernels with parameters: those that are given, and those that the evidence chooses.

A family is a function of the rows and of its parameters. Distances of stationary kernels are in units of a
length scale, one for all columns or one for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import optimize
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import pairwise_kernels

from lbnn._base.types import Array, IndexArray
from lbnn.data.network_kernels import WEIGHT_VARIANCES, kernel_of

Parameters = dict[str, Any]

_STEPS = np.arange(-3.0, 6.0)  # powers of two of the median distance that are tried as length scales, ...
_REFINEMENTS = (0.5, 0.25)  # ... and of the best of them
_ROWS_FOR_DISTANCE = 500  # whose median distance is taken


def _squared_distance(left: Array, right: Array, length_scale: Any) -> Array:
    return cdist(left / length_scale, right / length_scale, "sqeuclidean")


def _rbf(left: Array, right: Array, length_scale: Any) -> Array:
    return np.exp(-0.5 * _squared_distance(left, right, length_scale))


def _matern(order: float) -> Callable[..., Array]:
    def kernel(left: Array, right: Array, length_scale: Any) -> Array:
        scaled = math.sqrt(2 * order) * np.sqrt(_squared_distance(left, right, length_scale))
        polynomial = {0.5: 1.0, 1.5: 1 + scaled, 2.5: 1 + scaled + scaled**2 / 3}[order]
        return polynomial * np.exp(-scaled)

    return kernel


def _rational_quadratic(left: Array, right: Array, length_scale: Any, alpha: float) -> Array:
    return (1 + _squared_distance(left, right, length_scale) / (2 * alpha)) ** -alpha


def _polynomial(left: Array, right: Array, degree: float, coef0: float = 1.0) -> Array:
    return (left @ right.T / left.shape[1] + coef0) ** degree


def _linear_and_rbf(left: Array, right: Array, length_scale: Any, share: float) -> Array:
    """A share of the rbf kernel, of variance one, and the rest of the linear one, xᵀx'/n0."""
    return (1 - share) * (left @ right.T) / left.shape[1] + share * _rbf(left, right, length_scale)


def _network(activation: str) -> Callable[..., Array]:
    """The kernel of an infinitely wide network with this activation."""

    def kernel(
        left: Array, right: Array, depth: int, bias_variance: float, weight_variance: float | None = None
    ) -> Array:
        weights = WEIGHT_VARIANCES[activation] if weight_variance is None else weight_variance
        return kernel_of(activation, left, right, int(depth), weights, bias_variance)

    return kernel


#: Tried depths (number of weight matrices) and variances of biases; inputs of unit size make ones typical.
_DEPTHS, _BIASES = (2, 3, 4, 6), (0.1, 0.0, 1.0, 10.0)
#: The degree of nonlinearity of activations that are not homogeneous.
_WEIGHTS = (2.0, 0.1, 0.5, 8.0)


@dataclass(frozen=True)
class Family:
    """A kernel, and the values that are tried of each parameter but the length scale."""

    function: Callable[..., Array]
    stationary: bool = True
    grids: dict[str, tuple[float, ...]] = field(default_factory=dict)


#: Kernels whose parameters the evidence chooses where they are not given.
FAMILIES: dict[str, Family] = {
    "rbf": Family(_rbf),
    "matern12": Family(_matern(0.5)),
    "matern32": Family(_matern(1.5)),
    "matern52": Family(_matern(2.5)),
    "rational_quadratic": Family(_rational_quadratic, grids={"alpha": (1.0, 0.1, 0.3, 3.0, 10.0)}),
    "polynomial": Family(_polynomial, stationary=False, grids={"degree": (2, 1, 3, 4)}),
    "linear+rbf": Family(_linear_and_rbf, grids={"share": (0.5, 0.01, 0.03, 0.1, 0.9)}),
    "relu": Family(_network("relu"), stationary=False, grids={"depth": _DEPTHS, "bias_variance": _BIASES}),
    "erf": Family(
        _network("erf"),
        stationary=False,
        grids={"depth": _DEPTHS, "bias_variance": _BIASES, "weight_variance": _WEIGHTS},
    ),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel with all its parameters: one of ours, or one of scikit-learn's, or a function."""

    metric: Any
    parameters: Parameters

    def matrix(self, left: Array, right: Array) -> Array:
        """Kernel matrix of rows (p, n0) and (p', n0), (p, p')."""
        if self.metric == "precomputed":
            return left
        if self.ours:
            return FAMILIES[self.metric].function(left, right, **self._shaped)
        return np.asarray(pairwise_kernels(left, right, metric=self.metric, **self.parameters))

    @property
    def ours(self) -> bool:
        """Whether the parameters are of a family here; with others, such as gamma, it is scikit-learn's."""
        if not isinstance(self.metric, str) or self.metric not in FAMILIES:
            return False
        return set(self.parameters) <= {"length_scale", "coef0", *FAMILIES[self.metric].grids}

    @property
    def complete(self) -> bool:
        """Whether there is nothing to choose."""
        if not self.ours:
            return True
        family = FAMILIES[self.metric]
        wanted = {*family.grids} | ({"length_scale"} if family.stationary else set())
        return wanted <= set(self.parameters)

    @property
    def _shaped(self) -> Parameters:
        return {
            name: np.asarray(value, float) if name == "length_scale" else value
            for name, value in self.parameters.items()
        }


def chosen(kernel: Kernel, X: Array, evidence: Callable[[Kernel], float]) -> Kernel:
    """The kernel with the parameters that are not given chosen by evidence: one after the other, twice.

    Length scales are tried over eight octaves around the median distance of the rows X, then closer to the
    best.
    """
    family = FAMILIES[kernel.metric]
    free_grids = {name: values for name, values in family.grids.items() if name not in kernel.parameters}
    free_length = family.stationary and "length_scale" not in kernel.parameters
    typical = typical_distance(X)
    start = {name: values[0] for name, values in free_grids.items()}
    if free_length:
        start["length_scale"] = typical
    best = Kernel(kernel.metric, {**start, **kernel.parameters})
    found = {_key(best): evidence(best)}

    def better(current: Kernel, name: str, values: Any) -> Kernel:
        tried = [Kernel(kernel.metric, {**current.parameters, name: value}) for value in values]
        for each in tried:
            if _key(each) not in found:
                found[_key(each)] = evidence(each)
        return max([current, *tried], key=lambda each: found[_key(each)])

    for _ in range(2 if len(free_grids) + free_length > 1 else 1):
        if free_length:
            best = better(best, "length_scale", typical * 2.0**_STEPS)
            for step in _REFINEMENTS:
                here = best.parameters["length_scale"]
                best = better(best, "length_scale", [here * 2.0**-step, here * 2.0**step])
        for name, values in free_grids.items():
            best = better(best, name, values)
    return best


def _key(kernel: Kernel) -> tuple[Any, ...]:
    return tuple(sorted(kernel.parameters.items()))


def typical_distance(X: Array) -> float:
    """Median distance between rows; one where all are the same."""
    rows = X[:: max(1, len(X) // _ROWS_FOR_DISTANCE)]
    distances = cdist(rows, rows)[np.triu_indices(len(rows), 1)]
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else 1.0


# ---------------------------------------------------------------------- a length scale for each column

_LONGEST = math.log(1e3)  # of a length scale, relative to the common one: a column that does not matter


def with_own_length_scales(
    kernel: Kernel, X: Array, Z: Array, h: Array, group_of: IndexArray
) -> tuple[Kernel, float]:
    """The kernel with a length scale for each group of columns that the evidence at infinite width prefers.

    From the common length scale and the hyperparameters h at it: noise units u_j and κ. With K = I + κ G and
    α = K⁻¹ Z diag(u)^{−½}, the gradient of the log evidence −½ Σ_j [log det K + z_jᵀK⁻¹z_j/u_j + p log u_j]
    in any parameter is ½ Σ_ab (α αᵀ − n_d K⁻¹)_ab ∂(κG)_ab. Returns also the gain of the log evidence.

    Parameters
    ----------
    X : (p, n0)
        Rows in the units of the kernel.
    Z : (p, n_d)
        Centred targets.
    h : (n_d + 1,)
        log u and log κ at the common length scale.
    group_of : (n0,)
        Number of the group of each column.
    """
    common, groups = float(kernel.parameters["length_scale"]), int(group_of.max()) + 1
    others = {name: value for name, value in kernel.parameters.items() if name != "length_scale"}
    function = FAMILIES[kernel.metric].function
    centring = np.eye(len(X)) - 1 / len(X)

    def negative(theta: Array) -> tuple[float, Array]:
        lengths, log_units, log_scale = common * np.exp(theta[group_of]), theta[groups:-1], theta[-1]
        gram = function(X, X, length_scale=lengths, **others)
        covariance = np.eye(len(X)) + math.exp(log_scale) * (centring @ gram @ centring)
        root = np.linalg.cholesky(covariance)
        inverse = np.linalg.inv(covariance)
        whitened = Z * np.exp(-log_units / 2)
        alpha = inverse @ whitened
        misfit = (whitened * alpha).sum(axis=0)
        log_determinant = 2 * float(np.log(np.diagonal(root)).sum())
        value = 0.5 * (Z.shape[1] * log_determinant + misfit.sum() + (len(Z) - 1) * log_units.sum())
        inner = centring @ (alpha @ alpha.T - Z.shape[1] * inverse) @ centring
        weight = 0.5 * math.exp(log_scale) * inner
        slopes = np.empty_like(theta)
        step = 1e-4  # the kernel itself is smooth: central differences of it along each group are accurate
        for k in range(groups):
            longer = np.exp(step * (group_of == k))
            ahead, behind = lengths * longer, lengths / longer
            change = function(X, X, length_scale=ahead, **others) - function(
                X, X, length_scale=behind, **others
            )
            slopes[k] = (weight * change).sum() / (2 * step)
        slopes[groups:-1] = 0.5 * misfit - 0.5 * (len(Z) - 1)
        slopes[-1] = (weight * gram).sum()
        return value, -slopes

    start = np.concatenate([np.zeros(groups), h])
    bounds = [(-_LONGEST, _LONGEST)] * groups + [(each - 12, each + 12) for each in h]
    found = optimize.minimize(
        negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60}
    )
    lengths = common * np.exp(found.x[group_of])
    gain = negative(start)[0] - float(found.fun)
    return Kernel(kernel.metric, {**others, "length_scale": lengths.tolist()}), gain
