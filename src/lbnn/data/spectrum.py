"""Sufficient statistics of the data: everything the posterior of the scale needs, computed once.

G_xx = U diag(g) Uᵀ and ỹ = UᵀY. The posterior of L depends on the data only through (g, ỹ, ‖Y − Uỹ‖², p), so
that after one eigendecomposition every depth, width and temperature costs next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import Place, copied, like, place_of, require_one_place, times, to_numpy
from lbnn._base.condensed import Condensed, condense
from lbnn._base.types import AnyArray, Array
from lbnn.data import streams
from lbnn.data.bases import Basis, GramBasis, InputBasis, given_points
from lbnn.data.decomposition import positive_eigenvectors, rest_of_targets
from lbnn.data.factor import Factor, moment_rounding, tall_factor
from lbnn.data.moments import (
    given_factor,
    given_moments,
    moment_residual,
    require_in_range,
    require_representable,
)
from lbnn.data.projection import FeatureDirections, InputDirections, Projection

#: Condition of XᵀX up to which its eigenvectors keep log evidences to 1e-8; beyond it tall inputs take a QR.
WELL_CONDITIONED = 1e6


@dataclass(frozen=True)
class Spectrum:
    """The eigenvalues of G_xx and the targets in its eigenbasis.

    Make one with `from_inputs`, `from_gram` or `from_moments`.

    Attributes
    ----------
    eigenvalues : (r,)
        The positive eigenvalues g of G_xx.
    targets : (r, n_d)
        ỹ = UᵀY.
    residual : float
        ‖Y − U ỹ‖², the part of the targets outside the range of G_xx.
    examples : int
        p.
    single_output : bool
        Whether Y was one-dimensional; results then drop the output axis.
    outside : (any, n_d) or None
        Rows with the moments of Y − U ỹ, which noise that is not the same for all outputs needs; None where
        they are not known, as from moments.
    rounding : float
        Bound of what rounding does to the log evidence, for each unit of β; 0 where that does not matter.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(8, 20)), rng.normal(size=8)
    >>> spectrum = lbnn.Spectrum.from_inputs(X, y)
    >>> spectrum.eigenvalues.shape, spectrum.targets.shape, spectrum.rank == spectrum.examples
    ((8,), (8, 1), True)
    """

    eigenvalues: Array
    targets: Array
    residual: float
    examples: int
    single_output: bool
    basis: Basis
    outside: Array | None = None
    rounding: float = 0.0

    def __repr__(self) -> str:
        """One line: the sizes."""
        return f"Spectrum(examples={self.examples}, rank={self.rank}, outputs={self.outputs})"

    @property
    def place(self) -> Place:
        """Where the training data live, and heavy work is done."""
        return place_of(self.basis.example)

    @property
    def rank(self) -> int:
        """Number of positive eigenvalues of G_xx."""
        return len(self.eigenvalues)

    @property
    def outputs(self) -> int:
        """n_d."""
        return self.targets.shape[1]

    def project(
        self,
        X_test: ArrayLike | None = None,
        *more: ArrayLike,
        cross_gram: ArrayLike | None = None,
        test_gram: ArrayLike | None = None,
    ) -> Projection:
        """Split test points (the training points by default) into what is explained and the rest.

        Parameters
        ----------
        X_test : (p̂, n0), optional
            Of data from inputs or moments.
        cross_gram : (p̂, p), optional
            Of data from a Gram matrix: the kernel between test and training points; together with
        test_gram : (p̂, p̂), optional
            the kernel among test points. The two may be given without their names, in this order.
        """
        test = given_points(X_test, more, cross_gram, test_gram)
        return self.basis.project(*test) if test else self.basis.training()

    def rounding_message(self, noise: float, target_error: float) -> str:
        """What to say where rounding of moments may matter to the log evidence; empty where it does not.

        `noise` is 1/β, in the units of the targets.
        """
        bound = self.rounding / noise if noise else 0.0
        if bound <= target_error:
            return ""
        return (
            f"moments of the data may have lost the digits that count: rounding may change the log evidence "
            f"by up to {bound:.2g}; use Spectrum.from_inputs, from_chunks with passes=2, or from_factor"
        )

    def scaled(self, variance: float) -> Spectrum:
        """The same data with the Gram matrix multiplied by `variance` (the first layer's prior variance)."""
        if variance == 1.0:
            return self
        result = replace(self, eigenvalues=variance * self.eigenvalues, basis=self.basis.scaled(variance))
        return result.condensed_as(self.condensed and self.condensed.scaled(variance))

    @cached_property
    def condensed(self) -> Condensed | None:
        """A few rows that the likelihood takes for all, at every temperature; None if that saves nothing."""
        return condense(self.eigenvalues, self.targets)

    def condensed_as(self, known: Condensed | None) -> Spectrum:
        """These data, whose condensed form follows from that of others and need not be computed."""
        vars(self)["condensed"] = known
        return self

    @classmethod
    def from_inputs(cls, X: ArrayLike, Y: ArrayLike, *, decompose: str | None = None) -> Spectrum:
        """Build from inputs X (p, n0) and targets Y (p,) or (p, n_d): G_xx = XXᵀ/n0.

        X and Y are arrays of NumPy, PyTorch, JAX or CuPy on one device: all that is large stays there. Dask
        arrays are read by blocks of rows, twice, as `from_chunks` reads its chunks.

        `decompose` has no effect any more and goes away in the next release; "factor" is refused.
        """
        _refuse_factor(decompose)
        if streams.is_dask(X):
            return _from_stream(streams.DaskBlocks.of(X, Y), 2)
        inputs = check.matrix_in_place(X, "X", copy=False)
        targets, single = check.targets(Y, inputs.shape[0])
        require_one_place(X=inputs, Y=targets)
        require_representable(targets, "Y")
        if inputs.shape[0] > inputs.shape[1]:
            return _from_tall_inputs(copied(inputs), targets, single)
        return _from_wide_inputs(inputs, targets, single)

    @classmethod
    def from_gram(cls, gram: ArrayLike, Y: ArrayLike, *, decompose: str | None = None) -> Spectrum:
        """Build from a positive semi-definite kernel matrix (p, p) and targets Y; `decompose` as before."""
        _refuse_factor(decompose)
        matrix = check.square_matrix(gram, "gram")
        size = matrix.shape[0]
        targets, single = check.targets(Y, size)
        require_one_place(gram=matrix, Y=targets)
        require_representable(targets, "Y")
        values, vectors = positive_eigenvectors(matrix, size, "gram")
        rest = rest_of_targets(targets, vectors)
        inside, square = to_numpy(vectors.T @ targets), float((rest**2).sum())
        return cls(values, inside, square, size, single, GramBasis(vectors, values), rest)

    @classmethod
    def from_chunks(cls, chunks: Any, passes: int = 2) -> Spectrum:
        """Build from data in parts, in memory that does not depend on the number of rows.

        Parameters
        ----------
        chunks : function without arguments -> iterable of (X, Y), or an iterable that can be read again
            Blocks of rows: X (rows, n0), Y (rows,) or (rows, n_d).
        passes : 1 or 2
            How often the data are read. One pass accumulates moments, whose rounding grows with the condition
            of X and with β: posteriors warn where it exceeds their target error. A second pass makes the
            triangular factor of X accurate.

        Returns
        -------
        Spectrum
            Without training inputs: ask for predictions at explicit inputs.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> def blocks():
        ...     rng = np.random.default_rng(0)  # or files, row groups, memory maps
        ...     for _ in range(10):
        ...         X = rng.normal(size=(100, 5))
        ...         yield X, X.sum(axis=1) + rng.normal(size=100)
        >>> spectrum = lbnn.Spectrum.from_chunks(blocks)
        >>> spectrum
        Spectrum(examples=1000, rank=5, outputs=1)
        >>> whole = [np.concatenate(part) for part in zip(*blocks())]
        >>> bool(np.allclose(spectrum.eigenvalues, lbnn.Spectrum.from_inputs(*whole).eigenvalues))
        True
        """
        if passes not in (1, 2):
            raise ValueError(f"passes must be 1 or 2, got {passes!r}")
        return _from_stream(streams.Blocks.of(chunks, passes), passes)

    @classmethod
    def from_factor(
        cls, factor: ArrayLike, targets: ArrayLike, residual_moment: ArrayLike, examples: int
    ) -> Spectrum:
        """Build from X = QR: R, the targets QᵀY, and the moments of what Q leaves of them.

        Parameters
        ----------
        factor : (k, n0)
            R, from any QR decomposition of the inputs; k is n0, or p where that is less.
        targets : (k,) or (k, n_d)
            QᵀY.
        residual_moment : number or (n_d, n_d)
            (Y − QQᵀY)ᵀ(Y − QQᵀY).
        examples : int
            p.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(50, 4)), rng.normal(size=50)
        >>> Q, R = np.linalg.qr(X)
        >>> rest = y - Q @ (Q.T @ y)
        >>> spectrum = lbnn.Spectrum.from_factor(R, Q.T @ y, rest @ rest, examples=50)
        >>> bool(np.isclose(spectrum.residual, lbnn.Spectrum.from_inputs(X, y).residual))
        True
        """
        return cls.of_factor(*given_factor(factor, targets, residual_moment, examples))

    @classmethod
    def of_factor(cls, factor: Factor, examples: int, single: bool, inputs: Array | None = None) -> Spectrum:
        """`from_factor` without checks."""
        values, vectors, targets, rest = factor.decomposed(examples)
        dimension = len(vectors)
        basis = InputBasis(FeatureDirections(vectors), dimension, inputs, 1 / dimension)
        return cls(values, targets, float((rest**2).sum()), examples, single, basis, rest)

    @classmethod
    def from_moments(
        cls, input_moment: ArrayLike, cross_moment: ArrayLike, target_moment: ArrayLike, examples: int
    ) -> Spectrum:
        """Build from XᵀX (n0, n0), XᵀY (n0,) or (n0, n_d), YᵀY (n_d, n_d) or a number, and p.

        Moments add up over parts of the data, so that data larger than memory can be streamed. YᵀY enters
        only through its trace. Training inputs are not kept: ask for predictions at explicit inputs.
        """
        return _from_moments(*given_moments(input_moment, cross_moment, target_moment, examples), None)


def _refuse_factor(decompose: str | None) -> None:
    """Raise for the option `decompose="factor"` of release 0.1, which is gone."""
    if decompose not in (None, "eigh"):
        raise ValueError(
            f"data are decomposed by eigenvectors, got decompose={decompose!r}, an option that was removed "
            "in release 0.2 (it was faster at one size on a GPU only): leave it out"
        )


def _from_wide_inputs(inputs: AnyArray, targets: AnyArray, single: bool) -> Spectrum:
    """For p ≤ n0: eigenvectors of the Gram matrix."""
    examples, dimension = inputs.shape
    with np.errstate(over="ignore"):  # `positive_eigenvectors` reports it
        gram = inputs @ inputs.T
        gram /= dimension
    values, vectors = positive_eigenvectors(gram, dimension, "XXᵀ/n0", overwrite=True)
    own, rest = to_numpy(vectors.T @ targets), rest_of_targets(targets, vectors)
    vectors /= like(np.sqrt(dimension * values), vectors)  # in place, and a copy of X only now: memory is
    kept = copied(inputs)  # scarce during eigh
    basis = InputBasis(InputDirections(kept, vectors), dimension, kept, 1 / dimension)
    return Spectrum(values, own, float((rest**2).sum()), examples, single, basis, rest)


def _from_tall_inputs(inputs: AnyArray, targets: AnyArray, single: bool) -> Spectrum:
    """For p > n0: eigenvectors V of XᵀX/n0; U = XV/√(n0 g) is never formed."""
    with np.errstate(over="ignore"):  # `positive_eigenvectors` reports it
        moment, cross = inputs.T @ inputs, inputs.T @ targets
        moment /= inputs.shape[1]
    spectrum = _from_moments(moment, cross, 0.0, inputs.shape[0], single, inputs)
    values = spectrum.eigenvalues
    dependent = len(values) < inputs.shape[1] or values[-1] > WELL_CONDITIONED * values[0]
    if dependent and spectrum.place.host:
        return Spectrum.of_factor(tall_factor(inputs, targets), inputs.shape[0], single, inputs)
    inside = spectrum.targets / np.sqrt(values)[:, None]
    rest: Array = to_numpy(targets) - times(spectrum.project().explained, inside)
    return replace(spectrum, residual=float((rest**2).sum()), outside=rest, rounding=0.0)


def _from_stream(blocks: streams.Stream, passes: int) -> Spectrum:
    """From blocks of rows."""
    moments = blocks.moments()
    if passes == 2:
        return Spectrum.of_factor(blocks.factor(moments, centre=False), moments.count, blocks.single)
    total, n0 = moments.about(centre=False), blocks.inputs
    parts = total[:n0, :n0] / n0, total[:n0, n0:], float(np.trace(total[n0:, n0:]))
    try:
        return _from_moments(*parts, moments.count, blocks.single, None)
    except ValueError as problem:
        raise ValueError(
            "one pass needs inputs that are not close to dependent, got moments that contradict each other "
            "by rounding: use passes=2"
        ) from problem


def _from_moments(
    moment: AnyArray, cross: AnyArray, total: float, examples: int, single: bool, inputs: AnyArray | None
) -> Spectrum:
    """From XᵀX/n0, XᵀY and ‖Y‖²."""
    dimension = moment.shape[0]
    values, vectors = positive_eigenvectors(moment, max(dimension, examples), "XᵀX/n0", overwrite=True)
    if len(values) > examples:
        raise ValueError(f"XᵀX has rank {len(values)} and needs as many examples, got examples={examples}")
    if inputs is None:
        require_in_range(cross, vectors)
    targets = to_numpy(vectors.T @ cross) / np.sqrt(dimension * values)[:, None]
    residual = moment_residual(total, float((targets**2).sum())) if inputs is None else 0.0
    basis = InputBasis(FeatureDirections(vectors), dimension, inputs, 1 / dimension)
    rounding = moment_rounding(values, targets, residual, min(dimension, examples))
    return Spectrum(values, targets, residual, examples, single, basis, rounding=rounding)
