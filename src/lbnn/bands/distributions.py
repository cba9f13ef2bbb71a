"""Distribution functions of shares at a few places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lbnn._base.arrays import (
    add_to_columns,
    device_of,
    largest_rows,
    namespace,
    partial_sums,
    take,
    take_rows,
    to_numpy,
)
from lbnn._base.types import AnyArray, Array
from lbnn.bands.direction_sums import (
    LOG_RATIO,
    LOG_RATIO_SKEWNESS,
    Summary,
)
from lbnn.bands.quadrature import Conditional

#: Places, in posterior deviations from the mean, at which distribution functions are kept.
PLACES = np.sinh(np.linspace(-2.8, 2.8, 57)) / 1.2
#: Directions with the largest weights of which distribution functions of interpolations consist.
_MIXED = 1024
#: Deviations from 0 or 1 from which places of a share approach it geometrically. Places around the mean are a
#: tenth of a deviation apart, so that each is 0.6 of the next.
_NEAR_END = 0.2


def distributions(answers: Summary, found: AnyArray, theta: Array) -> AnyArray:
    """Distribution functions of shares at `PLACES`, (K, places, V).

    Along each of the directions with the largest weights u is taken as lognormal from some point on, with its
    own mean, variance and skewness.
    """
    xp, device = namespace(found), device_of(found)
    steps = device.put(PLACES)[None, :, None]
    places = share_places(answers.share_mean[:, None, :], answers.share_deviation[:, None, :], steps)
    result = xp.zeros_like(places)
    waiting, count = np.arange(int(places.shape[2])), len(theta)
    while len(waiting):
        # of all points, or of half, a quarter …, which are lattices too, the heaviest if they are enough
        some = take(answers.weights, waiting, axis=1)[:count, :]
        order = largest_rows(some, _MIXED)
        weights, total = take_rows(some, order), xp.sum(some, axis=0)
        enough = np.array(to_numpy(xp.sum(weights, axis=0) > 0.999 * total), bool) | (count <= _MIXED)
        own, columns = np.flatnonzero(enough), waiting[enough]
        if len(own):
            order, weights = take(order, own, axis=1), take(weights, own, axis=1)
            weights = weights / xp.sum(weights, axis=0, keepdims=True)
            u, square, skewness = (
                take_rows(take(found[i, ...], columns, axis=1), order)
                for i in (LOG_RATIO, LOG_RATIO + 1, LOG_RATIO_SKEWNESS)
            )
            spread = xp.sqrt(xp.maximum(square - u * u, xp.full_like(square, 1e-24)))
            there, below = take(places, columns, axis=2), _skewed(skewness)
            found_below = []
            for k in range(theta.shape[1]):
                of_band = device.put(np.ascontiguousarray(theta[:, k]))
                direction = xp.reshape(take(of_band, xp.reshape(order, (-1,)), axis=0), order.shape)
                rows = []
                for i in range(len(PLACES)):
                    # share ≤ place ⟺ u ≤ log(part/(1 − part)), part = place/θ_k
                    part = xp.clip(there[k, i, ...][None, :] / direction, 1e-300, 1 - 1e-15)
                    rows.append(xp.sum(weights * below((xp.log(part / (1 - part)) - u) / spread), axis=0))
                found_below.append(xp.stack(rows))
            result = add_to_columns(result, columns, xp.stack(found_below))
        waiting, count = waiting[~enough], count // 2
    return result


def share_places(mean: AnyArray, deviation: AnyArray, steps: AnyArray) -> AnyArray:
    """Places between 0 and 1 for shares: mean + deviation · steps, of shapes that fit together.

    Closer to 0 or 1 than `_NEAR_END` deviations they approach it geometrically: the density of the share of a
    band that is nearly switched off grows without bound towards 0, like the power −1/2 for width one.
    """
    xp = namespace(mean)
    straight, near = mean + deviation * steps, _NEAR_END * deviation + 1e-300
    low, high = (near * xp.exp(xp.clip(each / near - 1, -600.0, 0.0)) for each in (straight, 1 - straight))
    return xp.where(straight < near, low, xp.where(1 - straight < near, 1 - high, straight))


def _normal_distribution(z: AnyArray) -> AnyArray:
    """Φ(z) to 1.5e-4, of any shape."""
    xp = namespace(z)
    z = xp.clip(z, -9.0, 9.0)
    return 1 / (1 + xp.exp(-z * (1.5976 + 0.070566 * z * z)))


def _skewed(skewness: AnyArray) -> Callable[[AnyArray], AnyArray]:
    """Distribution function of ± a lognormal from some point on, standardised, with a skewness of any shape.

    (e^Y − E e^Y)/deviation ≤ z ⟺ (Y − E Y)/σ ≤ log(√w (1 + q z))/√log w with w = e^(σ²) = 1 + q², and the
    skewness is (w + 2) q.
    """
    xp = namespace(skewness)
    sign = xp.where(skewness < 0.0, -xp.ones_like(skewness), xp.ones_like(skewness))
    size = xp.clip(xp.abs(skewness), 1e-3, 4.0)
    root = (1 + 0.5 * size * size + size * xp.sqrt(1 + 0.25 * size * size)) ** (1 / 3)
    w = root + 1 / root - 1
    q, half = xp.sqrt(w - 1), 0.5 * xp.log(w)

    def distribution(z: AnyArray) -> AnyArray:
        """At z, shaped like the skewness."""
        start = xp.maximum(sign * q * z, xp.full_like(z, -1 + 1e-9))
        return _normal_distribution(sign * (xp.log1p(start) + half) / xp.sqrt(2 * half))

    return distribution


def shares_below(conditional: Conditional, theta: Array, places: AnyArray, xp: Any) -> AnyArray:
    """P(share of band k ≤ place) along one direction, (K, places, v): share_k = θ_k e^u/(1 + e^u).

    The probability of a node is spread evenly over its cell.
    """
    mass, lattice, put = conditional.mass, conditional.lattice, device_of(conditional.mass).put
    stride = put(conditional.stride)
    step = float(lattice[1] - lattice[0]) * xp.astype(stride, xp.float64)
    total, nodes = partial_sums(mass), (len(lattice) - 1) // stride
    found = []
    for k, largest in enumerate(theta):
        share = places[k, ...]
        ratio = share / xp.maximum(float(largest) - share, xp.full_like(share, 1e-300))
        edge = xp.log(xp.maximum(ratio, xp.full_like(ratio, 1e-300)))  # u at which the share is the place
        position = (edge - float(lattice[0])) / step + 0.5  # in cells of the target
        node = xp.clip(
            xp.astype(xp.floor(xp.clip(position, -1.0, 1e9)), xp.int64), xp.zeros_like(nodes), nodes
        )
        part = xp.clip(position - xp.astype(node, xp.float64), 0.0, 1.0)
        row = node * stride
        found.append(take_rows(total, row) + take_rows(mass, row) * part)
    return xp.stack(found)
