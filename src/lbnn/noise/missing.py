"""Tables with missing cells: the likelihood of the observed ones.

The data are those of `Noise.table_data`, in which the noise is τ I: noise that passes through the network is
there a part of the function, and τ is zero.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np

from lbnn._base.types import Array
from lbnn.data.examples import example_vectors, level_of
from lbnn.data.missing import MissingCells, ObservedRows, elimination_is_cheaper
from lbnn.data.projection import RANK_TOLERANCE
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.missing import PartialLikelihood
from lbnn.likelihood.observed import CellsOfKernel, CellsOfScale
from lbnn.likelihood.plain import PlainCells, PlainElimination, PlainFormula
from lbnn.likelihood.views import CellDesign, ViewLikelihood
from lbnn.noise.noise import Noise

_DENSE_WORK = 5e8  # operations, some 50 ms, up to which the integrand is compared with the dense covariance
_MOST_WORK = 5e10  # ... and beyond which with nothing
_OfRoot = TypeVar("_OfRoot", CellsOfScale, CellsOfKernel)
_EIGEN = 10.0  # operations of a symmetric eigenvalue problem with its vectors, over the cube of its size
_FILLING_TURNS = 12  # of completing a table and estimating its scale: errors shrink by the missing share each
_SMALLEST = 1e-9  # eigenvalue of that estimate, relative to the largest


def observed_likelihood(
    spectrum: Spectrum, cells: MissingCells, noise: float, widths: tuple[int, ...]
) -> PartialLikelihood | ViewLikelihood:
    """log p(Y_obs | L), in the cheapest of three forms for a network of these hidden widths.

    By eliminating the missing cells, from the observed ones, or, behind a layer narrower than the outputs,
    from a root of L.
    """
    likelihood = scale_likelihood(spectrum, cells, noise)
    narrowest, outputs = min(widths, default=spectrum.outputs), spectrum.outputs
    if not 0 < noise < math.inf:
        return likelihood
    rows, less = cells.rows(spectrum), likelihood.log_constant
    narrow = _of_root(CellsOfScale, rows, cells, noise, narrowest, less)
    if outputs > spectrum.rank:
        likelihood = replace(likelihood, kernel=_of_root(CellsOfKernel, rows, cells, noise, narrowest, less))
    if narrowest < outputs and narrow.operations < likelihood.operations + _EIGEN * outputs**3:
        likelihood = replace(likelihood, narrow=narrow)
    return likelihood


def _of_root(
    kind: type[_OfRoot], rows: ObservedRows, cells: MissingCells, noise: float, width: int, less: float
) -> _OfRoot:
    """The observed cells as a function of a root with so many columns, less a constant."""
    unseen = cells.examples - len(rows.targets)
    constant = cells.log_jacobian - 0.5 * cells.examples * math.log(2 * math.pi) - less
    constant -= 0.5 * (unseen * math.log(noise) + rows.residual / noise)
    outputs = cells.observed.shape[1]
    return kind(rows.features, rows.targets, rows.outputs, outputs, noise, width, constant)


def scale_likelihood(
    spectrum: Spectrum, cells: MissingCells, noise: float
) -> PartialLikelihood | ViewLikelihood:
    """As a function of L: by eliminating the missing cells, or from the observed ones."""
    if elimination_is_cheaper(cells, spectrum.rank):
        return partial_likelihood(spectrum, cells, noise)
    rows = cells.rows(spectrum)
    design = CellDesign(rows.features @ rows.features.T, rows.outputs, spectrum.outputs)
    return ViewLikelihood(
        design,
        rows.targets,
        rows.residual,
        cells.examples,
        noise,
        cells.log_jacobian,
        partial_likelihood(spectrum, cells, noise),
        rows.smallest,
    )


def partial_likelihood(spectrum: Spectrum, cells: MissingCells, noise: float) -> PartialLikelihood:
    """By eliminating the missing cells from the complete table."""
    complete = Noise.independent(noise).likelihood(spectrum)
    complete = replace(complete, gauss_rule=None, log_jacobian=0.0)
    rows, outputs = cells.cells
    lacking, position = np.unique(rows, return_inverse=True)
    vectors = example_vectors(spectrum)
    level = level_of(spectrum, len(vectors)) if cells.centred else np.zeros(len(vectors))
    own, part = vectors[lacking], level[lacking]
    unseen, rest = np.zeros((len(lacking),) * 2), np.zeros((len(lacking), spectrum.outputs))
    if spectrum.rank < spectrum.examples:
        unseen = np.eye(len(lacking)) - own @ own.T - np.outer(part, part)
        rest = cells.targets[lacking] - np.outer(part, level @ cells.targets) - own @ spectrum.targets
        spanned = np.diagonal(unseen) <= RANK_TOLERANCE * len(vectors)
        unseen[spanned], unseen[:, spanned], rest[spanned] = 0.0, 0.0, 0.0
    extra = cells.log_jacobian + cells.log_levels
    return PartialLikelihood(complete, own, unseen, rest, position.reshape(-1), outputs, extra)


def level_shares(cells: MissingCells) -> Array:
    """Share of a unit of every row that lacks cells (times √w) in the level of the complete table, (k,)."""
    lacking = np.unique(cells.cells[0])
    if not cells.centred:
        return np.zeros(len(lacking))
    return np.sqrt(cells.weights[lacking]) / cells.weights.sum()


def refilled(spectrum: Spectrum, cells: MissingCells, noise: Noise) -> tuple[Spectrum, MissingCells]:
    """The same table with missing cells filled by their means at L = I, where little cancels.

    Without independent noise they are filled at an estimate of L: along outputs that are nearly dependent the
    density falls off so fast that other numbers would count for far more than the data.
    """
    likelihood = partial_likelihood(noise.table_data(spectrum, cells), cells, noise.variance)
    scale = np.eye(spectrum.outputs)
    if not noise.variance:
        scale = likelihood.estimate(_FILLING_TURNS, _SMALLEST)[0]
    shift = likelihood.eliminate(scale).shifts[0]
    targets = cells.targets.copy()
    targets[cells.cells] += shift
    return with_targets(spectrum, cells, targets)


def with_targets(spectrum: Spectrum, cells: MissingCells, targets: Array) -> tuple[Spectrum, MissingCells]:
    """The same inputs with other (scaled) targets (p, n_d)."""
    vectors = example_vectors(spectrum)
    level = level_of(spectrum, len(vectors)) if cells.centred else np.zeros(len(vectors))
    own = vectors.T @ targets
    rest = targets - np.outer(level, level @ targets) - vectors @ own
    if spectrum.rank == spectrum.examples:
        rest = np.zeros_like(rest)
    changed = replace(spectrum, targets=own, residual=float((rest**2).sum()), outside=rest)
    return changed, replace(cells, targets=targets)


def plain_formula(spectrum: Spectrum, cells: MissingCells, noise: float) -> PlainFormula | None:
    """What the integrand is compared with: the dense covariance of the observed cells while that is small.

    Beyond, the complete table by its plain formula less the missing cells; nothing where both are large.
    """
    dense = plain_cells(spectrum, cells, noise)
    if dense.operations <= _DENSE_WORK:
        return dense
    other = plain_elimination(spectrum, cells, noise)
    best = min(dense, other, key=lambda plain: plain.operations)
    return best if best.operations <= _MOST_WORK else None


def plain_elimination(spectrum: Spectrum, cells: MissingCells, noise: float) -> PlainElimination:
    """The complete table less the missing cells, each by dense algebra."""
    fast = partial_likelihood(spectrum, cells, noise)
    complete = replace(Noise.independent(noise).plain_likelihood(spectrum), log_jacobian=0.0)
    rows, outputs = fast.rows, fast.outputs
    unseen = fast.unseen[np.ix_(rows, rows)] * (outputs[:, None] == outputs)
    return PlainElimination(
        complete, fast.vectors[rows], outputs, unseen, fast.rest[rows, outputs], fast.log_extra
    )


def plain_cells(spectrum: Spectrum, cells: MissingCells, noise: float) -> PlainCells:
    """The same by dense algebra over the observed cells."""
    return PlainCells(
        cells.features(spectrum), cells.targets, cells.observed, cells.weights, cells.centred, noise
    )
