"""Kernels of infinitely wide nonlinear networks (NNGP): closed forms, layer by layer.

A network z_1 = W_1 x + b_1, z_{ℓ+1} = W_{ℓ+1} φ(z_ℓ) + b_{ℓ+1} with Gaussian weights of variance σ_w²/n_{ℓ−1}
and biases of variance σ_b² is, at infinite width, a Gaussian process with the kernel

    K_1(x, x') = σ_b² + σ_w² xᵀx'/n0,   K_{ℓ+1}(x, x') = σ_b² + σ_w² E φ(u)φ(v),   (u, v) ~ N(0, K_ℓ).

With a = E u², b = E v², c = E uv the averages are

    relu   √(ab) (sin θ + (π − θ) cos θ)/2π, cos θ = c/√(ab)              (Cho and Saul, 2009)
    erf    (2/π) arcsin(2c/√((1 + 2a)(1 + 2b)))                           (Williams, 1998)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array


def _relu(c: Array, a: Array, b: Array) -> Array:
    """E[φ(u) φ(v)], φ = relu, for Gaussian u, v.

    Covariance c and variances a, b are arrays of the same shape.
    """
    size = np.sqrt(a * b)
    cosine = np.divide(c, size, out=np.zeros_like(c), where=size > 0)
    cosine = np.clip(cosine, -1.0, 1.0)  # beyond by rounding
    angle = np.arccos(cosine)
    sine = np.sqrt((1 - cosine) * (1 + cosine))  # 1 − cos² has lost the sine of a small angle
    return size * (sine + (math.pi - angle) * cosine) / (2 * math.pi)


def _erf(c: Array, a: Array, b: Array) -> Array:
    """The same for φ = erf, arrays of the same shape."""
    return 2 / math.pi * np.arcsin(np.clip(2 * c / np.sqrt((1 + 2 * a) * (1 + 2 * b)), -1.0, 1.0))


#: E φ(u)φ(v) as a function of E uv, E u² and E v², by activation.
ACTIVATIONS: dict[str, Callable[[Array, Array, Array], Array]] = {"relu": _relu, "erf": _erf}

#: σ_w² where it is not given: two keeps the size of relu units from layer to layer.
WEIGHT_VARIANCES = {"relu": 2.0, "erf": 1.0}


def network_kernel(
    X: ArrayLike,
    X_test: ArrayLike | None = None,
    *,
    activation: str = "relu",
    depth: int = 2,
    weight_variance: float | None = None,
    bias_variance: float = 0.0,
) -> Array:
    """Kernel of an infinitely wide network with a nonlinear activation, for `Network.condition_gram`.

    Parameters
    ----------
    X : (p, n0)
    X_test : (m, n0), optional
        X itself by default.
    activation : "relu" or "erf"
    depth : int
        Number of weight matrices, as `Network.depth`; 1 is the linear kernel.
    weight_variance : float, optional
        σ_w² of every layer; 2 for relu, 1 for erf by default.
    bias_variance : float
        σ_b² of every layer.

    Returns
    -------
    (m, p) array
        Kernel between rows of X_test and of X.

    Notes
    -----
    A finite relu network is not this kernel times the scale λ of a linear network; how far that approximation
    reaches is measured in the documentation (*How far linear theory reaches*).

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, X_test = rng.normal(size=(30, 3)), rng.normal(size=(5, 3))
    >>> gram = lbnn.network_kernel(X, activation="relu", depth=3)
    >>> bool(np.allclose(np.diag(gram), 2 * (X**2).mean(axis=1)))  # relu layers keep the size of the first
    True
    >>> post = lbnn.Network(widths=(50,)).condition_gram(gram, np.sin(X[:, 0]), beta=100.0)
    >>> cross = lbnn.network_kernel(X, X_test, activation="relu", depth=3)
    >>> post.predict(cross, lbnn.network_kernel(X_test, activation="relu", depth=3)).mean.shape
    (5,)
    """
    left = check.matrix(X, "X")
    right = left if X_test is None else check.matrix(X_test, "X_test")
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"X and X_test must have the same number of columns, got {left.shape[1]} and {right.shape[1]}"
        )
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    layers = check.positive_integer(depth, "depth")
    weights = WEIGHT_VARIANCES[activation] if weight_variance is None else weight_variance
    weights, biases = (
        check.finite_number(weights, "weight_variance"),
        check.finite_number(bias_variance, "bias_variance"),
    )
    if weights <= 0 or biases < 0:
        raise ValueError(
            f"weight_variance must be positive and bias_variance not negative, got {weights:g} and {biases:g}"
        )
    return kernel_of(activation, right, left, layers, weights, biases)


def kernel_of(
    activation: str, left: Array, right: Array, depth: int, weight_variance: float, bias_variance: float
) -> Array:
    """`network_kernel` between rows of `left` (m, n0) and `right` (p, n0), unchecked: (m, p)."""
    average = ACTIVATIONS[activation]
    inputs = left.shape[1]

    def layer(value: Array) -> Array:
        """Covariance before the activation of the next layer, of any shape."""
        return bias_variance + weight_variance * value

    cross = layer(left @ right.T / inputs)
    own = layer((left**2).sum(axis=1) / inputs)
    other = layer((right**2).sum(axis=1) / inputs)
    for _ in range(depth - 1):
        cross = layer(average(cross, own[:, None], other[None, :]))
        own, other = layer(average(own, own, own)), layer(average(other, other, other))
    return cross
