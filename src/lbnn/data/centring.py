"""Centred data. A flat prior of the level leaves the p − 1 contrasts of the data, which centring keeps.

The centred Gram matrix has the eigenvector 1 with the eigenvalue 0: its other eigenvectors are contrasts, so
that the evidence of centred data with p − 1 instead of p is the evidence with the level integrated out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lbnn._base.arrays import device_of, like, namespace, times, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array
from lbnn.data.bases import GramBasis, InputBasis
from lbnn.data.projection import RANK_TOLERANCE, Directions
from lbnn.data.spectrum import Spectrum


@dataclass(frozen=True)
class Columns:
    """Columns less their means, or as they are (zero means)."""

    means: Array  # (n,)

    @classmethod
    def of(cls, array: AnyArray, centre: bool, weights: Array | None = None) -> Columns:
        """Means (k,) of the columns of an array (p, k), weighted by weights (p,) if given, or zeros."""
        if not centre:
            return cls(np.zeros(array.shape[1]))
        if weights is None:
            return cls(to_numpy(namespace(array).mean(array, axis=0)))
        return cls(to_numpy(like(weights / weights.sum(), array) @ array))

    def centred(self, array: AnyArray) -> AnyArray:
        """The array (m, k) less the means."""
        return array - like(self.means, array)

    def centred_training(self, array: AnyArray, overwrite: bool = False) -> AnyArray:
        """`centred` of (p, k), where a column that varies by rounding only becomes zero.

        With `overwrite` an array of NumPy is changed: it may take most of the memory.
        """
        size = column_sizes(array)
        if overwrite and isinstance(array, np.ndarray):
            array -= self.means
            centred = array
        else:
            centred = self.centred(array)
        spread = column_sizes(centred)
        varies = (spread > 4 * RANK_TOLERANCE * size) | (self.means == 0)
        return centred if varies.all() else centred * like(varies.astype(float), array)


def column_sizes(array: AnyArray) -> Array:
    """max |entry| of each column of (p, k), (k,); without a copy."""
    xp = namespace(array)
    return to_numpy(xp.maximum(xp.max(array, axis=0), -xp.min(array, axis=0)))


@dataclass(frozen=True)
class CentredInputs:
    """Inputs of the linear kernel: the network's input is x − mean."""

    columns: Columns
    centre: bool = False

    @classmethod
    def of(cls, X: AnyArray, centre: bool, weights: Array | None = None) -> CentredInputs:
        """From the training inputs (p, n0): their (weighted) means, or zeros without centring."""
        return cls(Columns.of(X, centre, weights), centre)

    def packed(self) -> tuple[dict[str, Any], Array]:
        """Kind and means (n0,), for a file."""
        return {"kind": "inputs"}, self.columns.means

    def spectrum(
        self, X: AnyArray, targets: Array, weights: Array | None = None, overwrite: bool = False
    ) -> Spectrum:
        """The training data X (p, n0), targets (p, n_d), with the noise variance τ/w of the rows."""
        centred = self.columns.centred_training(X, overwrite)
        if not self.centre or X.shape[0] < 2:
            return Spectrum.from_inputs(centred, like(targets, X), weights=weights, copy=False)
        return _of_input_contrasts(centred, targets, weights)

    def test(self, X: AnyArray) -> tuple[AnyArray, ...]:
        """Test points (p̂, n0) as arguments of `Posterior.predict`."""
        return (self.columns.centred(X),)


@dataclass(frozen=True)
class CentredKernel:
    """A kernel of features less their means over the training points."""

    means: Array  # of the training Gram matrix over one index, (p,); zeros without centring
    grand_mean: float
    centre: bool

    shares: Array | None = None  # of the training points in the means, w/Σw, (p,); None where all are equal

    @classmethod
    def of(cls, gram: Array, centre: bool, weights: Array | None = None) -> CentredKernel:
        """From the training Gram matrix (p, p): its (weighted) means, or zeros without centring."""
        if not centre:
            return cls(np.zeros(len(gram)), 0.0, False)
        if weights is None:
            return cls(gram.mean(axis=0), float(gram.mean()), True)
        shares = weights / weights.sum()
        return cls(shares @ gram, float(shares @ gram @ shares), True, shares)

    def packed(self) -> tuple[dict[str, Any], Array]:
        """Kind, numbers and means (p,), for a file."""
        shares = None if self.shares is None else self.shares.tolist()
        header = {"kind": "kernel", "grand_mean": self.grand_mean, "centre": self.centre, "shares": shares}
        return header, self.means

    def spectrum(
        self, gram: Array, targets: Array, weights: Array | None = None, overwrite: bool = False
    ) -> Spectrum:
        """The training data, gram (p, p) and targets (p, n_d); a gram constant to rounding counts as zero.

        Nothing is overwritten.
        """
        centred = gram - self.means[:, None] - self.means + self.grand_mean
        rounding = 4 * RANK_TOLERANCE * len(gram) * float(np.abs(gram).max())
        if self.centre and float(np.abs(centred).max()) <= rounding:
            centred = np.zeros_like(centred)
        centred = (centred + centred.T) / 2
        if not self.centre or len(gram) < 2:
            return Spectrum.from_gram(centred, targets, weights=weights)
        return _of_contrasts(centred, targets, weights, float(np.abs(gram).max()))

    def test(self, cross: Array, gram: Array) -> tuple[Array, ...]:
        """Cross kernel (p̂, p) and test kernel (p̂, p̂) as arguments of `Posterior.predict`."""
        own = self._own_means(cross)
        return self.cross(cross), gram - own[:, None] - own + self.grand_mean

    def cross(self, cross: Array) -> Array:
        """The centred cross kernel (p̂, p) alone."""
        return cross - self._own_means(cross)[:, None] - self.means + self.grand_mean

    def _own_means(self, cross: Array) -> Array:
        """Means over the training points of each row of a cross kernel, (p̂,); zeros without centring."""
        if not self.centre:
            return np.zeros(len(cross))
        return cross.mean(axis=1) if self.shares is None else cross @ self.shares


def _of_contrasts(centred: Array, targets: Array, weights: Array | None, scale: float) -> Spectrum:
    """The spectrum of a centred Gram matrix (p, p), with eigenvectors that are contrasts to rounding.

    Those of the matrix itself mix with the level, whose eigenvalue is zero, as theirs come near to rounding,
    and lose a part of the targets: smooth kernels have many of that kind. So the eigenvalues are those of
    the p − 1 other coordinates after a reflection that makes the level the first of p. With row weights all
    of this is said of rows times √w, whose level is √w. `scale` is the largest entry before it was centred.
    """
    level, rows = _level(len(centred), weights), _times_level(targets, weights)
    matrix = centred if weights is None else _times_level(_times_level(centred, weights).T, weights)
    largest = scale if weights is None else scale * float(weights.max())
    reduced = _reflected(_reflected(matrix, level).T, level)[1:, 1:]
    spectrum = Spectrum.from_gram((reduced + reduced.T) / 2, _reflected(rows, level)[1:], scale=largest)
    basis = spectrum.basis
    assert isinstance(basis, GramBasis)
    vectors = _as_contrasts(basis.vectors, level)
    return replace(spectrum, examples=len(centred), basis=replace(basis, vectors=vectors), weights=weights)


def _level(rows: int, weights: Array | None) -> Array:
    """The level of rows times √w, of length one: √w/|√w|, (p,)."""
    if weights is None:
        return np.full(rows, 1 / math.sqrt(rows))
    return np.sqrt(weights / weights.sum())


def _times_level(rows: AnyArray, weights: Array | None) -> AnyArray:
    """Rows (p, ...) times √w."""
    if weights is None:
        return rows
    return rows * like(np.sqrt(weights).reshape(-1, *(1,) * (rows.ndim - 1)), rows)


def _of_input_contrasts(centred: AnyArray, targets: Array, weights: Array | None) -> Spectrum:
    """The spectrum of centred inputs (p, n0), from the p − 1 contrasts of the same reflection.

    The array of the inputs is taken over: it becomes a part of the result.

    Rounding of the means leaves a level in the centred inputs, which would count as a direction of its own
    and mix with small ones; as a contrast it is not there.
    """
    level = _level(centred.shape[0], weights)
    own = _reflected(_times_level(targets, weights), level)[1:]
    rows = _times_level(centred, weights)  # a new array, which may take most of the memory: ...
    rows = _reflected(rows, level, overwrite=True)  # ... no second one is made
    spectrum = Spectrum.from_inputs(rows[1:, :], like(own, centred), copy=False)
    basis, kept = spectrum.basis, _reflected(rows, level, overwrite=True)  # a reflection undoes itself
    assert isinstance(basis, InputBasis)
    directions, coordinates = basis.directions, basis.training_coordinates
    if directions.inputs is not None:
        directions = Directions(_as_contrasts(directions.columns, level), kept)
    basis = replace(
        basis,
        directions=directions,
        training_inputs=kept,
        training_coordinates=None if coordinates is None else _as_contrasts(coordinates, level),
    )
    return replace(spectrum, examples=centred.shape[0], basis=basis, weights=weights)


def _as_contrasts(columns: AnyArray, level: Array) -> AnyArray:
    """Columns (p − 1, k) of reflected coordinates as contrasts of the examples, (p, k)."""
    none = device_of(columns).zeros(1, columns.shape[1])
    return _reflected(namespace(columns).concat([none, columns]), level)


def _reflected(rows: AnyArray, level: Array, *, overwrite: bool = False) -> AnyArray:
    """Householder's reflection of rows (p, ...) that takes the level, of length one, to the first axis.

    With `overwrite` an array of NumPy is changed, with a copy of a few of its rows at a time.
    """
    normal = level.copy()
    normal[0] += 1
    there = like(normal / np.linalg.norm(normal), rows)
    along = 2 * (there @ rows)
    if not isinstance(rows, np.ndarray):
        return rows - (there[:, None] * along if rows.ndim == 2 else there * along)
    result = rows if overwrite else np.empty_like(rows)
    for some in blocks(len(rows), along.size):
        np.subtract(rows[some], np.multiply.outer(there[some], along), out=result[some])
    return result


def contrasts(spectrum: Spectrum) -> Spectrum:
    """Centred data counted as p − 1 contrasts.

    Where rounding has left a positive eigenvalue for the level, the smallest of p, it is dropped.
    """
    fewer = spectrum.examples - 1
    if spectrum.rank <= fewer:
        return replace(spectrum, examples=fewer)
    return replace(
        spectrum,
        eigenvalues=spectrum.eigenvalues[1:],
        targets=spectrum.targets[1:],
        examples=fewer,
        basis=spectrum.basis.without_first(),
    )


def outside_range(spectrum: Spectrum, targets: Array) -> Array:
    """Rows R (≤ n_d, n_d) with RᵀR = YᵀY of the targets (p, n_d) outside the range of G; none at full rank.

    Targets are as they were given, without the weights of rows that the spectrum has.
    """
    columns = _times_level(targets.reshape(len(targets), -1), spectrum.weights)
    if spectrum.rank == spectrum.examples:
        return np.zeros((0, columns.shape[1]))
    inside = spectrum.targets / np.sqrt(spectrum.eigenvalues)[:, None]
    rest = columns - times(spectrum.basis.training().explained, inside)
    return np.asarray(np.linalg.qr(rest, mode="r"), float)
