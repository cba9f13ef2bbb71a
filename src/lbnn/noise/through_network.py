"""Data with noise that passes through the network: its covariance across outputs is learned with the scale.

Give every example a private input, orthogonal to all others: the Gram matrix becomes G + ν I, and given L the
targets are MN(0, G + ν I, L), function and noise ν L together. This is the zero-temperature problem of a
network on a nonsingular Gram matrix. Of the data its likelihood needs the scatter S = Yᵀ(G + ν I)⁻¹Y alone:

    log p(Y | L) = −½ tr L⁻¹S − ½ p log det L − ½ n_d log det(G + ν I) + constant,

so that for S of full rank it is written with n_d rows R, RᵀR = S, instead of p: rows √ḡ R with
eigenvalues ḡ, the geometric mean of those of G + ν I, each row standing for p/n_d directions.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lbnn._base.types import Array
from lbnn.data.missing import MissingCells
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.existence import require_zero_temperature
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.scale.prior import ScalePrior


def require(prior: ScalePrior, spectrum: Spectrum, nu: float) -> None:
    """Raise unless function plus noise has a density: by the rule of zero temperature for G + ν I."""
    values, targets = _every_row(spectrum, nu)
    try:
        require_zero_temperature(prior, replace(spectrum, eigenvalues=values, targets=targets))
    except ValueError as error:
        raise ValueError(
            "coupled noise passes through the network, so that every hidden width must be at least "
            "min(p, n_d), and at least n_d + p − q where the targets have a rank q below min(p, n_d), "
            f"got widths={prior.widths}, p = {spectrum.examples}, n_d = {spectrum.outputs}, rank(Y) = "
            f"{np.linalg.matrix_rank(targets)}: use noise='independent' or wider hidden layers"
        ) from error


def require_table(prior: ScalePrior, cells: MissingCells) -> None:
    """Raise unless hidden layers are as wide as the outputs, and wide enough for dependent targets.

    Given L the observed cells have a density, and so has their law before the data, which is finite for
    almost all targets. For targets that are dependent it is under the rule of complete tables, for some of
    the outputs in the rows that have them (see `likelihood.existence`).
    """
    outputs = prior.outputs
    if not prior.full_rank:
        raise ValueError(
            f"coupled noise with missing targets needs hidden widths of at least n_d = {outputs}, got "
            f"widths={prior.widths}: use noise='independent' or wider hidden layers"
        )
    for some, rows, rank in cells.dependent_outputs() if prior.widths else ():
        if min(prior.widths) < len(some) + rows - rank:
            raise ValueError(
                "coupled noise needs targets that are linearly independent, or hidden widths of at least "
                f"{len(some) + rows - rank}, got {rows} rows of rank {rank} for outputs {some} and "
                f"widths={prior.widths}: leave outputs out, or use noise='independent'"
            )


def likelihood(spectrum: Spectrum, nu: float) -> GaussianLikelihood:
    """From n_d rows, which stand for all examples, where the targets have full rank; else from all p."""
    values, targets = _every_row(spectrum, nu)
    each = 1.0
    if spectrum.examples >= spectrum.outputs > 1:
        root = scatter_root(spectrum, nu)
        if int(np.linalg.matrix_rank(root)) == spectrum.outputs:
            log_mean = float(np.log(values).mean())
            values = np.full(len(root), math.exp(log_mean))
            targets, each = np.sqrt(values)[:, None] * root, spectrum.examples / len(root)
    return GaussianLikelihood(
        values, targets, 0.0, spectrum.examples, 0.0, each, log_jacobian=spectrum.log_jacobian
    )


def scatter_root(spectrum: Spectrum, nu: float) -> Array:
    """R with RᵀR = Yᵀ(G + ν I)⁻¹Y, (≤ n_d, n_d)."""
    assert spectrum.outside is not None
    inside = spectrum.targets / np.sqrt(spectrum.eigenvalues + nu)[:, None]
    rows = np.concatenate([inside, spectrum.outside / math.sqrt(nu)])
    return np.asarray(np.linalg.qr(rows, mode="r"), float)


def _every_row(spectrum: Spectrum, nu: float) -> tuple[Array, Array]:
    """The eigenvalues g + ν of the range of G and ν outside it, (p,), and their targets (p, n_d)."""
    rows = outside_rows(spectrum)
    values = np.concatenate([spectrum.eigenvalues + nu, np.full(len(rows), nu)])
    return values, np.concatenate([spectrum.targets, rows])


def outside_rows(spectrum: Spectrum) -> Array:
    """Rows (p − r, n_d) with the moments of the targets outside the range of G."""
    assert spectrum.outside is not None
    rows = np.zeros((spectrum.examples - spectrum.rank, spectrum.outputs))
    sizes, axes = np.linalg.svd(np.linalg.qr(spectrum.outside, mode="r"), full_matrices=False)[1:]
    kept = min(len(rows), len(sizes))
    rows[:kept] = (sizes[:, None] * axes)[:kept]
    return rows
