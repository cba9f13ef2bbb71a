"""Left-out rows of a table with missing cells: dense algebra over the observed cells, draw by draw.

With Q the precision of the observed cells given L (levels of flat prior integrated out), the cells A of a row
given all others are Gaussian with the precision Q_AA and the residual Q_AA⁻¹ (Qy)_A.
"""

from __future__ import annotations

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import lower_roots
from lbnn._base.types import Array, IndexArray
from lbnn.cross_validation.averages import Scores, reweighted
from lbnn.cross_validation.scores import LeaveOneOut
from lbnn.data.examples import level_of
from lbnn.data.missing import MissingCells, smallest_eigenvalue
from lbnn.data.spectrum import Spectrum
from lbnn.scale.measure import ScaleMeasure

_MOST_CELLS = 2000  # a factorisation of so many takes half a second
_WORK = 4e10  # operations of all factorisations: some seconds
_FEWEST, _MOST = 64, 1024  # draws that are kept


def left_out_rows(
    spectrum: Spectrum, cells: MissingCells, noise: float, measure: ScaleMeasure, messages: tuple[str, ...]
) -> LeaveOneOut:
    """Score the observed cells of every row given those of all others; NaN for cells that are missing."""
    count = int(cells.observed.sum())
    if count > _MOST_CELLS:
        raise ValueError(
            f"leave-one-out scores with missing cells are available for up to {_MOST_CELLS} observed ones, "
            f"got {count}: use rows without missing cells"
        )
    chosen, weights = measure._thinned(int(np.clip(_WORK / (2.0 * count**3 + 1e4), _FEWEST, _MOST)))
    groups = None if measure.groups is None else measure.groups[chosen]
    kept = measure.scales_of(chosen)
    rows, outputs = np.nonzero(cells.observed)
    features = cells.features(spectrum)
    gram, y = features @ features.T, cells.targets[rows, outputs]
    smallest = smallest_eigenvalue(spectrum)
    if cells.centred:  # a variance of the level, which is free: of no effect, and C is not singular
        level = level_of(spectrum, len(gram))
        gram = gram + float(spectrum.eigenvalues.mean()) * np.outer(level, level)
    gram = gram[np.ix_(rows, rows)]
    levels = np.sqrt(cells.weights)[rows, None] * (outputs[:, None] == np.arange(cells.observed.shape[1]))
    residuals, variances = np.empty((2, len(kept), len(y)))
    densities_of_rows = np.empty((len(cells.observed), len(kept)))
    for block in blocks(len(kept), 3 * len(y) ** 2):
        scales = kept[block]
        covariances = gram * scales[:, outputs[:, None], outputs]
        covariances[:, np.arange(len(y)), np.arange(len(y))] += noise
        floors = noise + smallest * np.asarray(np.linalg.eigvalsh(scales)[:, 0], float)
        precisions = _precisions(covariances, floors, levels if cells.centred else None)
        residuals[block], variances[block], densities_of_rows[:, block] = _rows_given_others(
            precisions, precisions @ y, rows
        )
    own, *densities = reweighted(weights, groups, densities_of_rows)
    mean = (own[rows].T * residuals).sum(axis=0)
    spread = (own[rows].T * (variances + (residuals - mean) ** 2)).sum(axis=0)
    scaled = np.sqrt(cells.weights[rows])  # rows were multiplied by √w
    residual, variance = (np.full(cells.observed.shape, np.nan) for _ in range(2))
    residual[rows, outputs], variance[rows, outputs] = mean / scaled, spread / scaled**2
    densities[0] += 0.5 * cells.observed.sum(axis=1) * np.log(cells.weights)
    targets = np.where(cells.observed, cells.targets / np.sqrt(cells.weights)[:, None], np.nan)
    return LeaveOneOut.of(targets, Scores(residual, variance, *densities), messages)


def _precisions(covariances: Array, floors: Array, level: Array | None) -> Array:
    """C⁻¹ (s, k, k), or with levels H (k, n_d) of flat prior C⁻¹ − C⁻¹H(HᵀC⁻¹H)⁻¹HᵀC⁻¹.

    No eigenvalue of a C is below its floor.
    """
    white = np.linalg.inv(lower_roots(covariances, floors))
    if level is not None:
        seen = white @ level
        transposed = seen.swapaxes(1, 2)
        white = white - seen @ np.linalg.solve(transposed @ seen, transposed @ white)
    return np.asarray(white.swapaxes(1, 2) @ white)


def _rows_given_others(precisions: Array, pulled: Array, rows: IndexArray) -> tuple[Array, Array, Array]:
    """Residuals and variances of cells (s, k), and log densities of the rows (p, s), from Q and Qy."""
    residuals, variances = np.empty((2, *pulled.shape))
    starts = np.flatnonzero(np.diff(rows, prepend=-1))  # cells are sorted by row, and no row is empty
    densities = np.empty((len(starts), len(pulled)))
    for row, cells in enumerate(np.split(np.arange(len(rows)), starts[1:])):
        blocks_of_row, pull = precisions[:, cells[:, None], cells], pulled[:, cells]
        covariances = np.linalg.inv(blocks_of_row)
        shift = (covariances @ pull[:, :, None])[:, :, 0]
        residuals[:, cells], variances[:, cells] = shift, np.diagonal(covariances, axis1=1, axis2=2)
        logs = np.linalg.slogdet(blocks_of_row)[1] - len(cells) * np.log(2 * np.pi)
        densities[row] = 0.5 * (logs - (pull * shift).sum(axis=1))
    return residuals, variances, densities
