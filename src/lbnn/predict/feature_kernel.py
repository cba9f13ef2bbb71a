"""The average feature kernels of the hidden layers.

The first layer's is the paper's, ⟨K⟩ = G + n_1⁻¹ E Δ_L (eqn:featurekernel), K = X W_1ᵀW_1 Xᵀ / n_1. In the
eigenbasis, for points Φ, R,

    ⟨K⟩ = R + Φ { (1 − k/n_1) I + n_1⁻¹ E[ diag_i Σ_j (1 + g_i l_j/τ)⁻¹ + B Bᵀ ] } Φᵀ,
    B_ij = √(g_i l_j) z_ij / (τ + g_i l_j),

with the k = n_d eigenvalues of L, or those that a layer narrower than the outputs leaves it. This holds at
every temperature and does not cancel G against itself when n_1 is small.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from lbnn._base.arrays import Device, device_of, like
from lbnn._base.blocks import PRODUCT_FLOATS, blocks
from lbnn._base.types import AnyArray, Array
from lbnn.data.projection import Projection
from lbnn.predict.conditional import ConditionalProcess
from lbnn.scale.measure import ScaleMeasure


def average_feature_kernel(
    projection: Projection, process: ConditionalProcess, measure: ScaleMeasure, width: float
) -> AnyArray:
    """⟨K⟩ at the projected points, (p̂, p̂), in their library; `width` is n_1."""
    explained = projection.explained
    retained = 1 - measure.eigen[0].shape[1] / width + _average_shrinkage(process, measure) / width
    kernel = projection.unexplained_gram + (explained * like(retained, explained)) @ explained.T
    return kernel + explained @ _learned_part(process, measure, device_of(explained)) @ explained.T / width


def _learned_part(process: ConditionalProcess, measure: ScaleMeasure, device: Device) -> AnyArray:
    """E[B Bᵀ], (r, r), on a device."""
    total = device.zeros(len(process.eigenvalues), len(process.eigenvalues))
    for block in blocks(len(measure.weights), process.targets.size, PRODUCT_FLOATS):
        features = device.put(_weighted_features(process, measure, block))
        total += features @ features.T
    return total


def _average_shrinkage(process: ConditionalProcess, measure: ScaleMeasure) -> Array:
    """E Σ_j (1 + g_i l_j/τ)⁻¹, (r,)."""
    total = np.zeros(len(process.eigenvalues))
    for block in blocks(len(measure.weights), process.targets.size):
        shrinkage = process.shrinkage(measure.eigen[0][block]).sum(2)
        total += measure.weights[block] @ shrinkage
    return total


def _weighted_features(process: ConditionalProcess, measure: ScaleMeasure, block: slice) -> Array:
    """√w_s B_s of a block of atoms side by side, (r, atoms · n_d)."""
    values, vectors = measure.eigen[0][block], measure.eigen[1][block]
    features = process.learned_features(values, vectors) * np.sqrt(measure.weights[block, None, None])
    return features.transpose(1, 0, 2).reshape(
        len(process.eigenvalues), features.shape[0] * features.shape[2]
    )


def average_layer_kernels(
    projection: Projection,
    process: ConditionalProcess,
    measure: ScaleMeasure,
    widths: tuple[int, ...],
    variances: tuple[float, ...],
) -> Iterator[AnyArray]:
    """⟨K_ℓ⟩, K_ℓ = X W_1ᵀ⋯W_ℓᵀ W_ℓ⋯W_1 Xᵀ / n_ℓ, at the projected points, (p̂, p̂) for ℓ = 1, 2, ..., d − 1.

    Of the n_ℓ units of a layer r_ℓ directions depend on the data (`_seen_part`); the others repeat the layer
    below: ⟨K_ℓ⟩ = ⟨seen⟩/n_ℓ + (1 − r_ℓ/n_ℓ) σ_ℓ² ⟨K_{ℓ−1}⟩, up from the first layer.
    """
    kernel = average_feature_kernel(projection, process, measure, widths[0])
    yield kernel
    for number in range(2, len(widths) + 1):
        width, variance = widths[number - 1], variances[number - 2]
        seen, directions = _seen_part(projection, process, measure, number, len(widths) + 1)
        kernel = seen / width + (1 - directions / width) * variance * kernel
        yield kernel


def average_layer_kernel(
    projection: Projection,
    process: ConditionalProcess,
    measure: ScaleMeasure,
    widths: tuple[int, ...],
    variances: tuple[float, ...],
    layer: int,
) -> AnyArray:
    """⟨K_ℓ⟩ of one layer, (p̂, p̂); those below it are computed on the way."""
    kernels = average_layer_kernels(projection, process, measure, widths, variances)
    return next(islice(kernels, layer - 1, None))


def _seen_part(
    projection: Projection, process: ConditionalProcess, measure: ScaleMeasure, layer: int, depth: int
) -> tuple[AnyArray, int]:
    """E[A Aᵀ] (p̂, p̂) with A = X̂ Mᵀ (T_ℓ ⋯ T_2)ᵀ, and the number r_ℓ of columns of A.

    M = P_1 W_1 is that of `weights`.

    Given T = V diag(√l) Oᵀ the columns of M O are Gaussian and independent, with means and variances as in
    the first layer; C = T_ℓ ⋯ T_2 O mixes them.
    """
    assert measure.law is not None  # networks with two hidden layers come from engines that know their law
    lower, total = measure.law.partial_products(layer), measure.law.partial_products(depth)
    left, roots, right = np.linalg.svd(total, full_matrices=False)
    mixing = lower @ right.swapaxes(1, 2)  # C, (m, r_ℓ, r_1)
    gains = (mixing**2).sum(axis=1)  # (m, r_1)
    rank, device = len(process.eigenvalues), device_of(projection.explained)
    learned, spread = device.zeros(rank, rank), np.zeros(rank)
    for block in blocks(len(measure.weights), rank * max(mixing.shape[1:]), PRODUCT_FLOATS):
        values, weights = roots[block] ** 2, measure.weights[block]
        features = process.learned_features(values, left[block]) @ mixing[block].swapaxes(1, 2)
        features *= np.sqrt(weights)[:, None, None]
        flat = device.put(features.transpose(1, 0, 2).reshape(rank, features.shape[0] * features.shape[2]))
        learned += flat @ flat.T
        spread += np.einsum("s,sij,sj->i", weights, process.shrinkage(values), gains[block])
    explained = projection.explained
    seen = explained @ learned @ explained.T + (explained * like(spread, explained)) @ explained.T
    return seen + projection.unexplained_gram * float(measure.weights @ gains.sum(axis=1)), mixing.shape[1]
