"""The average feature kernel of the first hidden layer.

⟨K⟩ = G + n_1⁻¹ E Δ_L (eqn:featurekernel), K = X W_1ᵀW_1 Xᵀ / n_1. In the eigenbasis, for points Φ, R,

    ⟨K⟩ = R + Φ { (1 − n_d/n_1) I + n_1⁻¹ E[ diag_i Σ_j (1 + g_i l_j/τ)⁻¹ + B Bᵀ ] } Φᵀ,
    B_ij = √(g_i l_j) z_ij / (τ + g_i l_j),

which holds at every temperature and does not cancel G against itself when n_1 is small.
"""

from __future__ import annotations

import numpy as np

from lbnn._types import Array
from lbnn.conditional import ConditionalProcess
from lbnn.likelihood import PRODUCT_FLOATS, blocks
from lbnn.projection import Projection
from lbnn.scale_measure import ScaleMeasure


def average_feature_kernel(
    projection: Projection, process: ConditionalProcess, measure: ScaleMeasure, width: int
) -> Array:
    """⟨K⟩ at the projected points, (p̂, p̂); `width` is n_1."""
    explained = projection.explained
    retained = 1 - process.outputs / width + _average_shrinkage(process, measure) / width
    kernel = projection.unexplained_gram + (explained * retained) @ explained.T
    return kernel + explained @ _learned_part(process, measure) @ explained.T / width


def _learned_part(process: ConditionalProcess, measure: ScaleMeasure) -> Array:
    """E[B Bᵀ], (r, r)."""
    total = np.zeros((len(process.eigenvalues), len(process.eigenvalues)))
    for block in blocks(len(measure.weights), process.targets.size, PRODUCT_FLOATS):
        features = _weighted_features(process, measure, block)
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
    return features.transpose(1, 0, 2).reshape(len(process.eigenvalues), -1)
