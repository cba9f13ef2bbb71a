"""Bartlett factors of a chain of Gaussian weights of which some columns are known.

A sampler that works with hidden activities has W_ℓ on their span and nothing of it beside the span. In a
basis of the units that starts with this span W_ℓ = [B, G], B known and G Gaussian, and the factor T of T Q
= W_ℓ follows without any matrix of the layer's width:
G Gᵀ is replaced by its own Bartlett factor. What the factors below need is Q on the span.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lbnn._base.types import Array


def bartlett_draws(size: int, rows: int, width: int, rng: np.random.Generator) -> Array:
    """Lower trapezoidal T, (size, rows, columns), with T Tᵀ = G Gᵀ in law, G Gaussian (rows, width)."""
    columns = min(rows, width)
    factors = np.tril(rng.standard_normal((size, rows, columns)), -1)
    diagonal = np.arange(columns)
    factors[:, diagonal, diagonal] = np.sqrt(rng.chisquare(width - diagonal, (size, columns)))
    return factors


def lower_factor(matrices: Array) -> tuple[Array, Array]:
    """T (m, a, a), lower with a positive diagonal, and Q (m, a, b) with T Q = A (m, a, b).

    The rows of Q are orthonormal.
    """
    orthogonal, upper = np.linalg.qr(matrices.swapaxes(1, 2))
    signs = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return (upper * signs[:, :, None]).swapaxes(1, 2), (orthogonal * signs[:, None, :]).swapaxes(1, 2)


def factors_of_known(
    output: Array, steps: Sequence[Array], widths: Sequence[int], rng: np.random.Generator
) -> tuple[list[Array], Array]:
    """Factors of weights that are known on k columns each, outermost first, and Q of the last on these.

    Parameters
    ----------
    output : (N, n_d, k)
        The outermost weights on the first k units of the layer below.
    steps : sequence of (N, k, k)
        The weights below, in order, on the first k units of the layer below them; they map into the first
        k units.
    widths : sequence of int
        Width of the layer below each of the weights, len(steps) + 1 numbers, none below k.
    rng : numpy.random.Generator
        For what is not known.
    """
    factors, known, fixed = [], output, output.shape[2]
    last = None
    for number, width in enumerate(widths):
        if last is not None:
            known = last @ steps[number - 1]
        full = known
        if width > fixed:
            free = bartlett_draws(len(known), known.shape[1], width - fixed, rng)
            full = np.concatenate([known, free], axis=2)
        factor, orthogonal = lower_factor(full)
        factors.append(factor)
        last = orthogonal[:, :, :fixed]
    assert last is not None
    return factors, last
