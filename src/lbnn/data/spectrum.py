"""Sufficient statistics of the data: everything the posterior of the scale needs, computed once.

G_xx = U diag(g) Uᵀ and ỹ = UᵀY. The posterior of L depends on the data only through (g, ỹ, ‖Y − Uỹ‖², p), so
that after one eigendecomposition every depth, width and temperature costs next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import (
    Place,
    copied,
    eigh,
    largest,
    like,
    namespace,
    place_of,
    require_one_place,
    times,
    to_numpy,
    within_memory,
)
from lbnn._base.condensed import Condensed, condense
from lbnn._base.types import AnyArray, Array
from lbnn.data.bases import GRAM_TOLERANCE, Basis, GramBasis, InputBasis
from lbnn.data.factored import FactoredGram, survey_rules
from lbnn.data.projection import (
    RANK_TOLERANCE,
    FeatureDirections,
    InputDirections,
    Projection,
    positive_eigen,
)

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
    outside : (any, n_d) or None
        Rows with the moments of Y − U ỹ, which noise that is not the same for all outputs needs; None where
        they are not known, as from moments.

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
        test = _test_points(X_test, more, cross_gram, test_gram)
        return self.basis.project(*test) if test else self.basis.training()

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
    def from_inputs(cls, X: ArrayLike, Y: ArrayLike, *, decompose: str = "eigh") -> Spectrum:
        """Build from inputs X (p, n0) and targets Y (p,) or (p, n_d): G_xx = XXᵀ/n0.

        X and Y are arrays of NumPy, PyTorch, JAX or CuPy on one device: all that is large stays there.

        decompose="factor" is for one output and very many examples on a GPU: Cholesky factorisations at some
        ten scales in the place of one eigendecomposition, at 0 < beta < inf (see docs/arrays.md).
        """
        inputs = check.matrix_in_place(X, "X", copy=False)
        targets, single = check.targets(Y, inputs.shape[0])
        require_one_place(X=inputs, Y=targets)
        _require_representable(targets, "Y")
        if _factorised(decompose):
            gram = inputs @ inputs.T
            gram /= inputs.shape[1]
            return _factored(FactoredGram(gram, targets, copied(inputs)), single)
        if inputs.shape[0] > inputs.shape[1]:
            return _from_tall_inputs(copied(inputs), targets, single)
        return _from_wide_inputs(inputs, targets, single)

    @classmethod
    def from_gram(cls, gram: ArrayLike, Y: ArrayLike, *, decompose: str = "eigh") -> Spectrum:
        """Build from a positive semi-definite kernel matrix (p, p) and targets Y; `decompose` as before."""
        matrix = check.square_matrix(gram, "gram")
        size = matrix.shape[0]
        targets, single = check.targets(Y, size)
        require_one_place(gram=matrix, Y=targets)
        _require_representable(targets, "Y")
        if _factorised(decompose):
            return _factored(FactoredGram(matrix, targets, None), single)
        values, vectors = _eigh(matrix, size, "gram")
        rest = _rest(targets, vectors)
        inside, square = to_numpy(vectors.T @ targets), float((rest**2).sum())
        return cls(values, inside, square, size, single, GramBasis(vectors, values), rest)

    @classmethod
    def from_moments(
        cls, input_moment: ArrayLike, cross_moment: ArrayLike, target_moment: ArrayLike, examples: int
    ) -> Spectrum:
        """Build from XᵀX (n0, n0), XᵀY (n0,) or (n0, n_d), YᵀY (n_d, n_d) or a number, and p.

        Moments add up over parts of the data, so that data larger than memory can be streamed. YᵀY enters
        only through its trace. Training inputs are not kept: ask for predictions at explicit inputs.
        """
        moment = check.square_matrix(input_moment, "input_moment")
        dimension = moment.shape[0]
        cross, single = _cross_moment(cross_moment, dimension)
        square = check.real_array(target_moment, "target_moment")
        if square.size != cross.shape[1] ** 2:
            raise ValueError(
                f"target_moment must be YᵀY for {cross.shape[1]} outputs, got shape {square.shape}"
            )
        count = check.positive_integer(examples, "examples")
        _require_representable(cross, "XᵀY")
        total = float(np.trace(square.reshape(cross.shape[1], -1)))
        return _from_moments(moment / dimension, like(cross, moment), total, count, single, None)


@dataclass(frozen=True)
class FactoredSpectrum(Spectrum):
    """Data of one output that are factorised where it matters, by `from_inputs(..., decompose="factor")`.

    `eigenvalues` and `targets` are a Gauss rule of yᵀ f(G) y, not those of G; `probes` holds one rule of
    tr f(G) for each random vector. Test points are `FactoredPoints`.
    """

    basis: FactoredGram  # type: ignore[assignment]
    probes: tuple[tuple[Array, Array], ...] = ()  # nodes and weights, which sum to p
    nodes: Array | None = None  # log λ at which an inference has factorised

    @property
    def rank(self) -> int:
        """p: directions of eigenvalue zero are not told apart."""
        return self.examples

    def scaled(self, variance: float) -> FactoredSpectrum:
        """The same data with the Gram matrix multiplied by `variance`."""
        if variance == 1.0:
            return self
        probes = tuple((variance * nodes, weights) for nodes, weights in self.probes)
        basis = self.basis.scaled(variance)
        return replace(self, eigenvalues=variance * self.eigenvalues, basis=basis, probes=probes)

    @property
    def survey(self) -> Condensed:
        """The rules as rows that stand for the data."""
        nodes, counts = (np.concatenate(each) for each in zip(*self.probes, strict=True))
        return Condensed(nodes, counts / len(self.probes), self.eigenvalues, self.targets)

    def decomposed(self) -> Spectrum:
        """The same data after an eigendecomposition, for what needs one."""
        data = self.basis
        targets = data.targets[:, 0] if self.single_output else data.targets
        if data.inputs is None:
            return Spectrum.from_gram(data.gram, targets).scaled(data.variance)
        return Spectrum.from_inputs(data.inputs, targets).scaled(data.variance)


def _factorised(decompose: str) -> bool:
    """Whether the data are to be factorised rather than decomposed."""
    if decompose not in ("eigh", "factor"):
        raise ValueError(f"decompose must be 'eigh' or 'factor', got {decompose!r}")
    return decompose == "factor"


def _factored(data: FactoredGram, single: bool) -> FactoredSpectrum:
    """The survey of a Gram matrix as data of one output."""
    outputs, size = data.targets.shape[1], data.gram.shape[0]
    if outputs != 1:
        raise ValueError(
            f"decompose='factor' is for one output, got {outputs}: use decompose='eigh' for several"
        )
    (values, shares), *probes = survey_rules(data)
    targets = np.sqrt(shares * float((to_numpy(data.targets) ** 2).sum()))[:, None]
    rules = tuple((nodes, size * weights) for nodes, weights in probes)
    return FactoredSpectrum(values, targets, 0.0, size, single, data, probes=rules)


def _test_points(
    X_test: ArrayLike | None,
    more: tuple[ArrayLike, ...],
    cross_gram: ArrayLike | None,
    test_gram: ArrayLike | None,
) -> tuple[ArrayLike, ...]:
    """The arrays that describe test points: none for the training points, X_test, or the two kernels."""
    if cross_gram is None and test_gram is None:
        return () if X_test is None and not more else (X_test, *more)  # type: ignore[arg-type]
    if X_test is not None or more:
        raise TypeError("test points are X_test or else cross_gram with test_gram, got both")
    if cross_gram is None or test_gram is None:
        missing = "cross_gram" if cross_gram is None else "test_gram"
        raise TypeError(f"cross_gram and test_gram are given together, got no {missing}")
    return cross_gram, test_gram


def _from_wide_inputs(inputs: AnyArray, targets: AnyArray, single: bool) -> Spectrum:
    """For p ≤ n0: eigenvectors of the Gram matrix."""
    examples, dimension = inputs.shape
    with np.errstate(over="ignore"):  # `_eigh` reports it
        gram = inputs @ inputs.T
        gram /= dimension
    values, vectors = _eigh(gram, dimension, "XXᵀ/n0", overwrite=True)
    own, rest = to_numpy(vectors.T @ targets), _rest(targets, vectors)
    vectors /= like(np.sqrt(dimension * values), vectors)  # in place, and a copy of X only now: memory is
    kept = copied(inputs)  # scarce during eigh
    basis = InputBasis(InputDirections(kept, vectors), dimension, kept, 1 / dimension)
    return Spectrum(values, own, float((rest**2).sum()), examples, single, basis, rest)


def _from_tall_inputs(inputs: AnyArray, targets: AnyArray, single: bool) -> Spectrum:
    """For p > n0: eigenvectors V of XᵀX/n0; U = XV/√(n0 g) is never formed."""
    with np.errstate(over="ignore"):  # `_eigh` reports it
        moment, cross = inputs.T @ inputs, inputs.T @ targets
        moment /= inputs.shape[1]
    spectrum = _from_moments(moment, cross, 0.0, inputs.shape[0], single, inputs)
    inside = spectrum.targets / np.sqrt(spectrum.eigenvalues)[:, None]
    seen: Array = times(spectrum.project().explained, inside)
    rest: Array = to_numpy(targets) - seen
    return replace(spectrum, residual=float((rest**2).sum()), outside=rest)


def _from_moments(
    moment: AnyArray, cross: AnyArray, total: float, examples: int, single: bool, inputs: AnyArray | None
) -> Spectrum:
    """From XᵀX/n0, XᵀY and ‖Y‖²."""
    dimension = moment.shape[0]
    values, vectors = _eigh(moment, max(dimension, examples), "XᵀX/n0", overwrite=True)
    if len(values) > examples:
        raise ValueError(f"XᵀX has rank {len(values)} and needs as many examples, got examples={examples}")
    if inputs is None:
        _require_in_range(cross, vectors)
    targets = to_numpy(vectors.T @ cross) / np.sqrt(dimension * values)[:, None]
    residual = _moment_residual(total, float((targets**2).sum())) if inputs is None else 0.0
    basis = InputBasis(FeatureDirections(vectors), dimension, inputs, 1 / dimension)
    return Spectrum(values, targets, residual, examples, single, basis)


def _eigh(gram: AnyArray, size: int, name: str, overwrite: bool = False) -> tuple[Array, AnyArray]:
    """Positive eigenvalues and their eigenvectors, in the memory of a matrix that is ours to overwrite."""
    xp, count = namespace(gram), gram.shape[0]
    if not bool(xp.all(xp.isfinite(gram))):
        raise ValueError(
            f"{name} must be representable in double precision, got values that overflow: rescale X"
        )
    purpose = f"the eigendecomposition of {name} ({count} × {count})"
    values, vectors = within_memory(lambda: eigh(gram, overwrite), place_of(gram), 5.0 * count**2, purpose)
    if values[0] < -GRAM_TOLERANCE * max(values[-1], 0.0):
        raise ValueError(
            f"{name} must be positive semi-definite, got eigenvalues from {values[0]:.3g} to {values[-1]:.3g}"
        )
    return positive_eigen(values, vectors, size)


def _rest(targets: AnyArray, vectors: AnyArray) -> Array:
    """Y − UUᵀY, (p, n_d), as NumPy; no rows where U is square."""
    if vectors.shape[0] == vectors.shape[1]:
        return np.zeros((0, targets.shape[1]))
    return to_numpy(targets - vectors @ (vectors.T @ targets))


def _require_in_range(cross: AnyArray, vectors: AnyArray) -> None:
    """Raise unless XᵀY lies in the range of XᵀX, as moments of the same data do."""
    outside = largest(cross - vectors @ (vectors.T @ cross))
    if outside > GRAM_TOLERANCE * largest(cross):
        raise ValueError(
            "input_moment and cross_moment must come from the same data, got a cross_moment with "
            f"{outside:.3g} outside the range of input_moment"
        )


def _require_representable(targets: AnyArray, name: str) -> None:
    """Raise where the squares of targets, which enter everywhere, would overflow."""
    if largest(targets) > _LARGEST_TARGET:
        raise ValueError(f"{name} must be below {_LARGEST_TARGET:g} in size, got larger values: rescale Y")


def _moment_residual(total: float, explained: float) -> float:
    """‖Y‖² − ‖ỹ‖², where rounding counts as zero; raises if negative, as for moments of different data."""
    if explained > total * (1 + GRAM_TOLERANCE):
        raise ValueError(
            "input_moment, cross_moment and target_moment must come from the same data, got targets of "
            f"squared norm {total:.6g} of which the inputs explain {explained:.6g}"
        )
    return total - explained if total - explained > 100 * RANK_TOLERANCE * total else 0.0


def _cross_moment(value: ArrayLike, dimension: int) -> tuple[Array, bool]:
    array = check.real_array(value, "cross_moment")
    if array.ndim not in (1, 2) or array.shape[0] != dimension or array.size == 0:
        raise ValueError(
            f"cross_moment must be XᵀY with n0 = {dimension} rows, got cross_moment.shape={array.shape}"
        )
    return array.reshape(dimension, -1), array.ndim == 1
