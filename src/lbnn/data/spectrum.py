"""Sufficient statistics of the data: everything the posterior of the scale needs, computed once.

G_xx = U diag(g) Uᵀ and ỹ = UᵀY. The posterior of L depends on the data only through (g, ỹ, ‖Y − Uỹ‖², p), so
that after one eigendecomposition every depth, width and temperature costs next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lbnn import _validation as check
from lbnn._types import Array
from lbnn.projection import (
    RANK_TOLERANCE,
    Directions,
    FeatureDirections,
    GramProjection,
    InputDirections,
    InputProjection,
    PrivateProjection,
    Projection,
    TrainingProjection,
    positive_part,
)

#: Grams and moments that are inconsistent beyond this fraction of their scale are refused.
_GRAM_TOLERANCE = 1e-8
_LARGEST_TARGET = 1e100


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

    def __repr__(self) -> str:
        """One line: the sizes."""
        return f"Spectrum(examples={self.examples}, rank={self.rank}, outputs={self.outputs})"

    @property
    def rank(self) -> int:
        """Number of positive eigenvalues of G_xx."""
        return len(self.eigenvalues)

    @property
    def outputs(self) -> int:
        """n_d."""
        return self.targets.shape[1]

    def project(self, *test: Any) -> Projection:
        """Split test points (the training points by default) into what is explained and the rest."""
        return self.basis.project(*test) if test else self.basis.training()

    def scaled(self, variance: float) -> Spectrum:
        """The same data with the Gram matrix multiplied by `variance` (the first layer's prior variance)."""
        if variance == 1.0:
            return self
        return replace(self, eigenvalues=variance * self.eigenvalues, basis=self.basis.scaled(variance))

    @classmethod
    def from_inputs(cls, X: Any, Y: Any) -> Spectrum:
        """Build from inputs X (p, n0) and targets Y (p,) or (p, n_d): G_xx = XXᵀ/n0."""
        inputs = check.matrix(X, "X")
        targets, single = check.targets(Y, len(inputs))
        _require_representable(targets, "Y")
        if inputs.shape[0] > inputs.shape[1]:
            return _from_tall_inputs(inputs, targets, single)
        return _from_wide_inputs(inputs, targets, single)

    @classmethod
    def from_gram(cls, gram: Any, Y: Any) -> Spectrum:
        """Build from a positive semi-definite kernel matrix (p, p) and targets Y."""
        matrix = check.square_matrix(gram, "gram")
        targets, single = check.targets(Y, len(matrix))
        _require_representable(targets, "Y")
        values, vectors = _eigh(matrix, len(matrix), "gram")
        basis = GramBasis(vectors, values)
        return cls(values, vectors.T @ targets, _residual(targets, vectors), len(matrix), single, basis)

    @classmethod
    def from_moments(
        cls, input_moment: Any, cross_moment: Any, target_moment: Any, examples: Any
    ) -> Spectrum:
        """Build from XᵀX (n0, n0), XᵀY (n0,) or (n0, n_d), YᵀY (n_d, n_d) or a number, and p.

        Moments add up over parts of the data, so that data larger than memory can be streamed. YᵀY enters
        only through its trace. Training inputs are not kept: ask for predictions at explicit inputs.
        """
        moment = check.square_matrix(input_moment, "input_moment")
        cross, single = _cross_moment(cross_moment, len(moment))
        square = check.real_array(target_moment, "target_moment")
        if square.size != cross.shape[1] ** 2:
            raise ValueError(
                f"target_moment must be YᵀY for {cross.shape[1]} outputs, got shape {square.shape}"
            )
        count = check.positive_integer(examples, "examples")
        _require_representable(cross, "XᵀY")
        total = float(np.trace(square.reshape(cross.shape[1], -1)))
        return _from_moments(moment / len(moment), cross, total, count, single, None)


@dataclass(frozen=True)
class InputBasis:
    """Where test points are inputs."""

    directions: Directions
    dimension: int  # n0
    training_inputs: Array | None
    scale: float  # variance / n0

    def project(self, *test: Any) -> InputProjection:
        if len(test) != 1:
            raise TypeError(f"test points are one array X_test of shape (p̂, n0), got {len(test)} arrays")
        inputs = check.matrix(test[0], "X_test")
        if inputs.shape[1] != self.dimension:
            raise ValueError(
                f"X_test must have n0 = {self.dimension} columns, got X_test.shape={inputs.shape}"
            )
        return InputProjection(self.directions, inputs, self.scale)

    def training(self) -> TrainingProjection:
        if self.training_inputs is None:
            raise ValueError(
                "the training inputs are not kept with moments: pass X_test explicitly, got none"
            )
        return TrainingProjection(np.sqrt(self.scale) * self.directions.coordinates(self.training_inputs))

    def scaled(self, variance: float) -> InputBasis:
        return replace(self, scale=variance * self.scale)


@dataclass(frozen=True)
class GramBasis:
    """Where test points are rows of a kernel."""

    vectors: Array  # U, (p, r)
    eigenvalues: Array  # of the Gram matrix as given, (r,)
    scale: float = 1.0

    def project(self, *test: Any) -> GramProjection:
        if len(test) != 2:
            raise TypeError(
                f"with a Gram matrix, predict takes (cross_gram, test_gram), got {len(test)} arrays"
            )
        cross, gram = check.matrix(test[0], "cross_gram"), check.square_matrix(test[1], "test_gram")
        if cross.shape != (len(gram), len(self.vectors)):
            raise ValueError(
                f"cross_gram must have shape (p̂, p) = {(len(gram), len(self.vectors))}, "
                f"got cross_gram.shape={cross.shape}"
            )
        explained = cross @ self.vectors / np.sqrt(self.eigenvalues)
        rest = _unexplained(gram, cross, explained, self)
        return GramProjection(np.sqrt(self.scale) * explained, self.scale * rest)

    def training(self) -> TrainingProjection:
        return TrainingProjection(np.sqrt(self.scale * self.eigenvalues) * self.vectors)

    def scaled(self, variance: float) -> GramBasis:
        return replace(self, scale=variance * self.scale)


@dataclass(frozen=True)
class PrivateBasis:
    """Where every training example also has a private input, orthogonal to all others: G + ν I."""

    inner: InputBasis | GramBasis
    eigenvalues: Array  # g, without the private inputs, (r,)
    private: float  # ν
    outside: Array  # rows with the moments of the targets outside the range of G, (≤ n_d, n_d)

    def project(self, *test: Any) -> PrivateProjection:
        """The function at test points: private inputs of training examples do not reach there."""
        return PrivateProjection(self.inner.project(*test), self.seen)

    def training(self) -> PrivateProjection:
        return PrivateProjection(self.inner.training(), self.seen)

    @property
    def seen(self) -> Array:
        """g/(g + ν), the share of each training direction that is not private, (r,)."""
        return self.eigenvalues / (self.eigenvalues + self.private)

    def scaled(self, variance: float) -> PrivateBasis:
        inner = self.inner.scaled(variance)
        return replace(
            self, inner=inner, eigenvalues=variance * self.eigenvalues, private=variance * self.private
        )


Basis = InputBasis | GramBasis | PrivateBasis


def with_private_inputs(spectrum: Spectrum, private: float, outside: Array) -> Spectrum:
    """The data with the Gram matrix G + ν I, whose eigenvalues outside the range of G are all ν = `private`.

    `outside` (≤ n_d, n_d) has the moments YᵀY of the targets there. The eigenvalues and targets listed are
    those of the range of G, which is what predictions need.
    """
    assert not isinstance(spectrum.basis, PrivateBasis)
    basis = PrivateBasis(spectrum.basis, spectrum.eigenvalues, private, outside)
    return replace(spectrum, eigenvalues=spectrum.eigenvalues + private, basis=basis)


def _from_wide_inputs(inputs: Array, targets: Array, single: bool) -> Spectrum:
    """P ≤ n0: eigenvectors of the Gram matrix."""
    examples, dimension = inputs.shape
    with np.errstate(over="ignore"):  # `_eigh` reports it
        gram = inputs @ inputs.T / dimension
    values, vectors = _eigh(gram, dimension, "XXᵀ/n0")
    directions = InputDirections(inputs, vectors / np.sqrt(dimension * values))
    basis = InputBasis(directions, dimension, inputs, 1 / dimension)
    return Spectrum(values, vectors.T @ targets, _residual(targets, vectors), examples, single, basis)


def _from_tall_inputs(inputs: Array, targets: Array, single: bool) -> Spectrum:
    """P > n0: eigenvectors of XᵀX/n0, and U = XV/√(n0 g) never formed."""
    with np.errstate(over="ignore"):  # `_eigh` reports it
        moment, cross = inputs.T @ inputs / inputs.shape[1], inputs.T @ targets
    spectrum = _from_moments(moment, cross, 0.0, len(inputs), single, inputs)
    rest = targets - spectrum.project().explained @ (
        spectrum.targets / np.sqrt(spectrum.eigenvalues)[:, None]
    )
    return replace(spectrum, residual=float((rest**2).sum()))


def _from_moments(
    moment: Array, cross: Array, total: float, examples: int, single: bool, inputs: Array | None
) -> Spectrum:
    """From XᵀX/n0, XᵀY and ‖Y‖²."""
    dimension = len(moment)
    values, vectors = _eigh(moment, max(dimension, examples), "XᵀX/n0")
    if len(values) > examples:
        raise ValueError(f"XᵀX has rank {len(values)} and needs as many examples, got examples={examples}")
    if inputs is None:
        _require_in_range(cross, vectors)
    targets = vectors.T @ cross / np.sqrt(dimension * values)[:, None]
    residual = _moment_residual(total, float((targets**2).sum())) if inputs is None else 0.0
    basis = InputBasis(FeatureDirections(vectors), dimension, inputs, 1 / dimension)
    return Spectrum(values, targets, residual, examples, single, basis)


def _eigh(gram: Array, size: int, name: str) -> tuple[Array, Array]:
    """Positive eigenvalues and their eigenvectors; an indefinite matrix is an error."""
    if not np.isfinite(gram).all():
        raise ValueError(
            f"{name} must be representable in double precision, got values that overflow: rescale X"
        )
    values, vectors = np.linalg.eigh(gram)
    if values[0] < -_GRAM_TOLERANCE * max(values[-1], 0.0):
        raise ValueError(
            f"{name} must be positive semi-definite, got eigenvalues from {values[0]:.3g} to {values[-1]:.3g}"
        )
    keep = positive_part(values, size)
    return values[keep], vectors[:, keep]


def _residual(targets: Array, vectors: Array) -> float:
    """‖Y − UUᵀY‖²; exactly zero where U is square."""
    if vectors.shape[0] == vectors.shape[1]:
        return 0.0
    return float(((targets - vectors @ (vectors.T @ targets)) ** 2).sum())


def _require_in_range(cross: Array, vectors: Array) -> None:
    """XᵀY has no component where XᵀX has none."""
    outside = float(np.abs(cross - vectors @ (vectors.T @ cross)).max())
    if outside > _GRAM_TOLERANCE * float(np.abs(cross).max()):
        raise ValueError(
            "input_moment and cross_moment must come from the same data, got a cross_moment with "
            f"{outside:.3g} outside the range of input_moment"
        )


def _require_representable(targets: Array, name: str) -> None:
    """Squares of targets enter everywhere."""
    if np.abs(targets).max() > _LARGEST_TARGET:
        raise ValueError(f"{name} must be below {_LARGEST_TARGET:g} in size, got larger values: rescale Y")


def _moment_residual(total: float, explained: float) -> float:
    """‖Y‖² − ‖ỹ‖²: not negative for moments of the same data; rounding of the difference counts as zero."""
    if explained > total * (1 + _GRAM_TOLERANCE):
        raise ValueError(
            "input_moment, cross_moment and target_moment must come from the same data, got targets of "
            f"squared norm {total:.6g} of which the inputs explain {explained:.6g}"
        )
    return total - explained if total - explained > 100 * RANK_TOLERANCE * total else 0.0


def _cross_moment(value: Any, dimension: int) -> tuple[Array, bool]:
    array = check.real_array(value, "cross_moment")
    if array.ndim not in (1, 2) or array.shape[0] != dimension or array.size == 0:
        raise ValueError(
            f"cross_moment must be XᵀY with n0 = {dimension} rows, got cross_moment.shape={array.shape}"
        )
    return array.reshape(dimension, -1), array.ndim == 1


def _unexplained(gram: Array, cross: Array, explained: Array, basis: GramBasis) -> Array:
    """R = G_x̂x̂ − ΦΦᵀ, for test points that form a positive semi-definite matrix with the training Gram.

    Points whose unexplained variance is at the rounding of the difference count as explained entirely.
    """
    scale = max(float(np.abs(gram).max()), float(basis.eigenvalues.max(initial=0.0)))
    outside = np.abs(cross - (cross @ basis.vectors) @ basis.vectors.T).max()
    rest = gram - explained @ explained.T
    diagonal = np.diagonal(rest)
    if not _is_semidefinite(rest, _GRAM_TOLERANCE * scale) or outside > _GRAM_TOLERANCE * scale:
        raise ValueError(
            "cross_gram and test_gram must form a positive semi-definite matrix with the training gram, got "
            f"unexplained variances from {diagonal.min():.3g} and {outside:.3g} outside the range of gram"
        )
    known = diagonal <= RANK_TOLERANCE * len(basis.vectors) * scale
    rest[known, :] = rest[:, known] = 0.0
    return rest


def _is_semidefinite(matrix: Array, tolerance: float) -> bool:
    """Whether no eigenvalue is below −tolerance."""
    try:
        np.linalg.cholesky(matrix + tolerance * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return not tolerance  # all matrices are zero
    return True
