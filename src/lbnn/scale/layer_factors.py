"""Bartlett factors of every layer, from the factors in which the narrowest layer comes last.

The activities of the narrowest layer, of k units, span k directions of every layer above it. In a basis of
the units that starts with this span W_ℓ = [B, G], B known and G Gaussian, and the factor T of T Q = W_ℓ
follows without any matrix of the layer's width: G Gᵀ is replaced by its own Bartlett factor. What the factors
below need is Q on the span. L does not depend on G.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lbnn._base.types import Array
from lbnn.scale.prior import ScalePrior
from lbnn.scale.total_factor import rotate_factors


def layer_factors(factors: list[Array], prior: ScalePrior, rng: np.random.Generator) -> list[Array]:
    """T_d, ..., T_2 (m, r_ℓ, r_{ℓ−1}) of the layers, r_{ℓ−1} = min(r_ℓ, n_{ℓ−1}), and L as it was.

    Parameters
    ----------
    factors : list of (m, rows, columns) arrays
        Of `prior.coordinates`, up to a rotation of the outputs.
    prior : ScalePrior
    rng : numpy.random.Generator
        For the weights beside the span of the narrowest layer.
    """
    place = prior.narrowest
    above = len(prior.widths) - 1 - place
    if not above:
        return factors
    whites = [
        factor / math.sqrt(shape.variance / shape.width)
        for factor, shape in zip(factors, prior.coordinates.shapes, strict=True)
    ]
    upper, turn = factors_of_known(whites[0], whites[1 : above + 1], prior.widths[place:][::-1], rng)
    variances = prior.layer_variances or (1.0,) * len(prior.widths)
    units = [math.sqrt(variance / width) for variance, width in zip(variances, prior.widths, strict=True)]
    lower = rotate_factors(whites[above + 1 :], turn)
    return [unit * factor for unit, factor in zip(reversed(units), [*upper, *lower], strict=True)]


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
