"""Kernels, and their parameters that the evidence chooses.

Distances of stationary kernels are in units of a length scale, one for all columns or one for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import optimize
from scipy.spatial.distance import cdist

from lbnn._base.types import Array, IndexArray
from lbnn.data.network_kernels import WEIGHT_VARIANCES, kernel_of

_STEPS = np.arange(-3.0, 6.0)  # powers of two of the median distance that are tried as length scales, ...
_REFINEMENTS = (0.5, 0.25)  # ... and of the best of them
_ROWS_FOR_DISTANCE = 500  # whose median distance is taken


def _squared_distance(left: Array, right: Array, length_scale: Any) -> Array:
    return cdist(left / length_scale, right / length_scale, "sqeuclidean")


def _rbf(left: Array, right: Array, length_scale: Any) -> Array:
    return np.exp(-0.5 * _squared_distance(left, right, length_scale))


def _linear_and_rbf(left: Array, right: Array, length_scale: Any, share: float) -> Array:
    """A share of the rbf kernel, of variance one, and the rest of the linear one, xᵀx'/n0."""
    return (1 - share) * (left @ right.T) / left.shape[1] + share * _rbf(left, right, length_scale)


def _relu(left: Array, right: Array, depth: float, bias_variance: float) -> Array:
    """The kernel of an infinitely wide network of rectified linear units."""
    return kernel_of("relu", left, right, int(depth), WEIGHT_VARIANCES["relu"], float(bias_variance))


#: Kernels whose parameters the evidence chooses: the function, and the values that are tried of each
#: parameter but the length scale, the first of them to begin with.
FAMILIES: dict[str, tuple[Callable[..., Array], dict[str, tuple[float, ...]]]] = {
    "rbf": (_rbf, {}),
    "linear+rbf": (_linear_and_rbf, {"share": (0.5, 0.01, 0.03, 0.1, 0.9)}),
    "relu": (_relu, {"depth": (2, 3, 4, 6), "bias_variance": (0.1, 0.0, 1.0, 10.0)}),
}


def stationary(name: str) -> bool:
    """Whether a kernel of this name has a length scale."""
    return name in ("rbf", "linear+rbf")


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters.

    Attributes
    ----------
    metric : str or callable
        "linear", "precomputed", a name of `FAMILIES`, or a function of two arrays of rows.
    parameters : dict
        Those that the evidence has chosen.
    columns : str
        Units of the columns that it gets: "raw", "standardised" or "own".
    """

    metric: Any
    parameters: Mapping[str, Any] = field(default_factory=dict)
    columns: str = "raw"

    @property
    def name(self) -> str:
        """Its name; "callable" of a function."""
        return self.metric if isinstance(self.metric, str) else "callable"

    @property
    def has_parameters(self) -> bool:
        """Whether there is something to choose."""
        return self.name in FAMILIES

    def __str__(self) -> str:
        """The name and the parameters."""
        name = (
            self.metric
            if isinstance(self.metric, str)
            else getattr(self.metric, "__name__", str(self.metric))
        )
        shown = ", ".join(
            f"{key} {', '.join(f'{each:.4g}' for each in np.atleast_1d(value))}"
            for key, value in self.parameters.items()
        )
        return f"{name} ({shown})" if shown else name

    def matrix(self, left: Array, right: Array) -> Array:
        """Kernel matrix of rows (p, n0) and (p', n0), (p, p')."""
        if self.metric == "precomputed":
            return left
        if not isinstance(self.metric, str):
            found = np.asarray(self.metric(left, right), float)
            if found.shape != (len(left), len(right)):
                raise ValueError(
                    f"a kernel takes two arrays of rows and gives a matrix, here {(len(left), len(right))}, "
                    f"got an array of shape {found.shape}"
                )
            return found
        shaped = {key: np.asarray(value, float) for key, value in self.parameters.items()}
        return FAMILIES[self.metric][0](left, right, **shaped)


def chosen(name: str, X: Array, evidence: Callable[[Kernel], float]) -> Kernel:
    """The kernel with the parameters that the evidence prefers: one after the other, twice.

    Length scales are tried over eight octaves around the median distance of the rows X, then closer to the
    best.
    """
    grids, free_length, typical = FAMILIES[name][1], stationary(name), typical_distance(X)
    start: dict[str, Any] = {key: values[0] for key, values in grids.items()}
    if free_length:
        start["length_scale"] = typical
    best = Kernel(name, start)
    found = {_key(best): evidence(best)}

    def better(current: Kernel, key: str, values: Any) -> Kernel:
        tried = [Kernel(name, {**current.parameters, key: value}) for value in values]
        for each in tried:
            if _key(each) not in found:
                found[_key(each)] = evidence(each)
        return max([current, *tried], key=lambda each: found[_key(each)])

    for _ in range(2 if len(grids) + free_length > 1 else 1):
        if free_length:
            best = better(best, "length_scale", typical * 2.0**_STEPS)
            for step in _REFINEMENTS:
                here = best.parameters["length_scale"]
                best = better(best, "length_scale", [here * 2.0**-step, here * 2.0**step])
        for key, values in grids.items():
            best = better(best, key, values)
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
    function = FAMILIES[kernel.name][0]
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
