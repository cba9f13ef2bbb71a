"""Sufficient statistics of the data: everything the posterior of the scale needs, computed once.

G_xx = U diag(g) Uᵀ and ỹ = UᵀY. The posterior of L depends on the data only through (g, ỹ, ‖Y − Uỹ‖², p), so
that after one eigendecomposition every depth, width and temperature costs next to nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import Device, copied, device_of, largest, like, require_one_device, times, to_numpy
from lbnn._base.gauss_rule import GaussRule, make_gauss_rule
from lbnn._base.types import AnyArray, Array
from lbnn.data.bases import Basis, GramBasis, InputBasis, given_points
from lbnn.data.decomposition import (
    SmallerSide,
    positive_eigenvectors,
    rest_of_targets,
    singular_vectors,
)
from lbnn.data.moments import (
    given_factor,
    given_moments,
    moment_residual,
    moment_rounding,
    require_in_range,
)
from lbnn.data.projection import (
    RANK_TOLERANCE,
    Directions,
    Projection,
    gram_root,
    positive_part,
)
from lbnn.data.stream import Blocks, DaskBlocks, Factor, Stream, is_dask

_MOST_DECOMPOSED = 600  # rows of which singular values are taken (0.3 s), of more those of the Gram matrix
_SMALL_SHARE = 1e-10  # by which rounding of moments may change predictions, as a share, without a warning


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
        For data from moments: a bound of the effect of rounding ỹ and the residual on the log evidence, for
        each unit of β. Zero for other data.
    eigenvalue_error : float
        For data from moments or a Gram matrix: ε g_max, the accuracy of the eigenvalues. Zero for data from
        inputs or a factor, whose eigenvalues are as accurate as the data.
    weights : (rows,) or None
        Row weights w: the noise variance of row a is τ/w_a. Eigenvalues, targets and basis are those of rows
        multiplied by √w_a, whose noise is τ; None where all weights are one.

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
    eigenvalue_error: float = 0.0
    weights: Array | None = None
    #: What is computed at most once; a spectrum made by `dataclasses.replace` starts with nothing.
    _computed: dict[str, Any] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        """One line: the sizes."""
        return f"Spectrum(examples={self.examples}, rank={self.rank}, outputs={self.outputs})"

    @property
    def device(self) -> Device:
        """Library and device of the training data, where heavy work is done."""
        return device_of(self.basis.example)

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
        if self.weights is None:
            return self.basis.project(*test) if test else self.basis.training()
        roots = np.sqrt(self.weights)
        if not test:
            rows = self.basis.training().explained
            return Projection(rows / like(roots[:, None], rows))
        return self.basis.project(*self.basis.weighted_points(test, roots))

    @property
    def log_jacobian(self) -> float:
        """From densities of the rows times √w to those of the rows: ½ n_d Σ_a log w_a.

        Of p − 1 contrasts the level has the weight Σ_a w_a, which is taken out relative to p.
        """
        if self.weights is None:
            return 0.0
        levels = len(self.weights) - self.examples
        logs = float(np.log(self.weights).sum()) - levels * math.log(float(self.weights.mean()))
        return 0.5 * self.outputs * logs

    def _rounding_shares(
        self, noise_variance: float, scale: Array, coupling: float = 0.0
    ) -> tuple[Array, float]:
        """What an error δ of the eigenvalues may change: variances, as shares (r, n_d), and log p(Y | L).

        With L = Σ_j l_j v_j v_jᵀ and D_ij = τ + (g_i + ν) l_j, log p(Y | L) = −½ Σ_ij [log D_ij +
        (ỹ_i·v_j)²/D_ij] changes by at most ½ Σ_ij s_ij (1 + (ỹ_i·v_j)²/D_ij), s_ij = δ l_j/D_ij.

        Parameters
        ----------
        noise_variance, coupling : float
            τ = 1/β, in the units of the targets, and ν, that of noise which passes through the network.
        scale : (n_d, n_d)
            L.
        """
        values, vectors = np.linalg.eigh(scale)
        values = np.maximum(values, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):  # directions without scale and without noise
            variance = noise_variance + (self.eigenvalues[:, None] + coupling) * values
            shares = np.where(values > 0, self.eigenvalue_error * values / variance, 0.0)
            fits = np.where(values > 0, (self.targets @ vectors) ** 2 / variance, 0.0)
        return shares, 0.5 * float((shares * (1 + fits)).sum())

    def _rounding_message(
        self, noise_variance: float, scale: Array, target_error: float, coupling: float = 0.0
    ) -> str:
        """What to say where rounding matters to the log evidence at L (n_d, n_d); empty where it does not.

        Arguments as of `_rounding_shares`, L at its posterior mean; `target_error` is of the log evidence.
        """
        size = float(np.linalg.eigvalsh(scale)[-1])
        noise = noise_variance + coupling * size
        if not self.eigenvalue_error or not 0 < noise + size < math.inf:
            return ""
        shares, evidence = self._rounding_shares(noise_variance, scale, coupling)
        of_moments, relative = isinstance(self.basis, InputBasis), 0.0
        lost = self._lost_signal(noise, size)
        if of_moments:
            evidence += self.rounding / noise if noise else 0.0
            relative = max(float(shares.max(initial=0.0)), math.sqrt(min(lost, 1.0)))
        elif lost:
            unseen = (self.examples - self.rank) * self.outputs
            evidence += 0.5 * (unseen * math.log1p(lost) + self.residual / noise * (1 - 1 / (1 + lost)))
        if evidence <= target_error and relative <= _SMALL_SHARE:
            return ""
        data, advice = (
            ("moments of the data", "Spectrum.from_inputs, from_chunks, or from_factor")
            if of_moments
            else ("the Gram matrix", "Spectrum.from_inputs where there are inputs, or less extreme beta")
        )
        predictions = f" and predictions by {relative:.2g} of themselves" if of_moments else ""
        return (
            f"{data} may not be accurate enough: rounding may change the log evidence by up to "
            f"{evidence:.2g}{predictions}; use {advice}"
        )

    def _lost_signal(self, noise_variance: float, scale: float) -> float:
        """g l/τ of the largest eigenvalue g that may have been taken for zero; 0 where none has been.

        Such a direction would change means by the square root of that, as a share, and log p(Y | l) by half
        of log(1 + g l/τ) and of what its targets have lost to the noise.
        """
        dimension = self.basis.most_directions(self.examples)
        if self.rank == min(self.examples, dimension):
            return 0.0
        largest_lost = max(self.examples, dimension) * self.eigenvalue_error
        return scale * largest_lost / noise_variance if noise_variance else math.inf

    def scaled(self, variance: float) -> Spectrum:
        """The same data with the Gram matrix multiplied by `variance` (the first layer's prior variance)."""
        if variance == 1.0:
            return self
        result = replace(
            self,
            eigenvalues=variance * self.eigenvalues,
            basis=self.basis.scaled(variance),
            eigenvalue_error=variance * self.eigenvalue_error,
        )
        return result._with_rule(self.gauss_rule and self.gauss_rule.scaled(variance))

    def with_scaled_targets(
        self, factors: Array, targets: Array, residual: float, outside: Array | None
    ) -> Spectrum:
        """The same inputs with targets Y diag(factors), whose ỹ (r, n_d), residual and outside are given."""
        result = replace(self, targets=targets, residual=residual, outside=outside)
        return result._with_rule(self.gauss_rule and self.gauss_rule.in_units(factors))

    def turned(self, axes: Array) -> Spectrum:
        """The same inputs with targets Y Q, for orthonormal axes Q (n_d, n_d)."""
        outside = None if self.outside is None else self.outside @ axes
        result = replace(self, targets=self.targets @ axes, outside=outside)
        return result._with_rule(self.gauss_rule and self.gauss_rule.turned(axes))

    @property
    def mean_gram(self) -> float:
        """tr G_xx/p, the mean square of an input."""
        return float(self.eigenvalues.sum()) / max(self.examples, 1)

    def with_rows(self, explained: Array, rest: Array, targets: Array) -> Spectrum:
        """These data and more rows, Φ (k, r) with the unexplained Gram matrix R (k, k) and targets (k, n_d).

        For likelihoods: the basis stays that of these data, and the row weights are left out.
        """
        rank, root = self.rank, gram_root(rest)
        rows = np.zeros((rank + len(targets), rank + root.shape[1]))
        rows[np.arange(rank), np.arange(rank)] = np.sqrt(self.eigenvalues)
        rows[rank:] = np.concatenate([explained, root], axis=1)
        if len(rows) <= _MOST_DECOMPOSED:
            axes, sizes, _ = np.linalg.svd(rows)
            values = np.pad(sizes**2, (0, len(rows) - len(sizes)))
        else:
            values, axes = np.linalg.eigh(rows @ rows.T)
        kept = positive_part(values, len(values))
        rotated = axes.T @ np.concatenate([self.targets, targets])
        outside, lost = self.outside, rotated[~kept]
        return replace(
            self,
            eigenvalues=values[kept],
            targets=rotated[kept],
            residual=self.residual + float((lost**2).sum()),
            examples=self.examples + len(targets),
            outside=None if outside is None else np.concatenate([outside, lost]),
            weights=None,
        )

    @property
    def gauss_rule(self) -> GaussRule | None:
        """A few rows that the likelihood takes for all, at every temperature; None if that saves nothing."""
        if "gauss_rule" not in self._computed:
            self._computed["gauss_rule"] = make_gauss_rule(self.eigenvalues, self.targets)
        return self._computed["gauss_rule"]

    def _with_rule(self, rule: GaussRule | None) -> Spectrum:
        """A spectrum that was just made, with a rule that follows from another one's."""
        self._computed["gauss_rule"] = rule
        return self

    @classmethod
    def from_inputs(
        cls,
        X: ArrayLike,
        Y: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        copy: bool = True,
    ) -> Spectrum:
        """Build from inputs X (p, n0) and targets Y (p,) or (p, n_d): G_xx = XXᵀ/n0.

        X and Y are arrays of NumPy, PyTorch, JAX or CuPy on one device: all that is large stays there. Dask
        arrays are read by blocks of rows, as `from_chunks` reads its chunks.

        `weights` (p,) are positive: row a has the noise variance 1/(β w_a).

        With ``copy=False`` X is kept as it is, which saves memory, and must not be changed afterwards.
        """
        if is_dask(X):
            if weights is not None:
                raise ValueError(
                    "row weights are for rows in memory, got a dask array: multiply the rows of X and Y by "
                    "the roots of their weights"
                )
            return _from_stream(DaskBlocks.of(X, Y))
        inputs = check.matrix_in_place(X, "X", copy=False)
        targets, single = check.targets(Y, inputs.shape[0])
        require_one_device(X=inputs, Y=targets)
        row_weights = check.row_weights(weights, inputs.shape[0])
        if row_weights is not None:
            inputs, targets = _weighted(inputs, row_weights), _weighted(targets, row_weights)
        check.size(largest(inputs), "X")
        check.size(largest(targets), "Y")
        return replace(_from_inputs(inputs, targets, single, copy), weights=row_weights)

    @classmethod
    def from_gram(
        cls,
        gram: ArrayLike,
        Y: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        scale: float = 0.0,
    ) -> Spectrum:
        """Build from a positive semi-definite kernel matrix (p, p) and targets Y; the rest as before.

        `scale` is the largest number of which entries of the matrix are differences, as of a centred kernel:
        eigenvalues below the rounding of such numbers count as zero.
        """
        matrix = check.square_matrix(gram, "gram")
        size = matrix.shape[0]
        targets, single = check.targets(Y, size)
        require_one_device(gram=matrix, Y=targets)
        row_weights = check.row_weights(weights, size)
        if row_weights is not None:
            targets = _weighted(targets, row_weights)
            matrix = _weighted(_weighted(matrix, row_weights).T, row_weights)
        check.size(largest(matrix), "gram", power=2)
        check.size(largest(targets), "Y")
        values, vectors = positive_eigenvectors(matrix, size, "gram", scale=scale)
        rest = rest_of_targets(targets, vectors)
        inside, square = to_numpy(vectors.T @ targets), float((rest**2).sum())
        error = RANK_TOLERANCE * float(values.max(initial=scale if len(values) else 0.0))
        return cls(
            values,
            inside,
            square,
            size,
            single,
            GramBasis(vectors, values),
            rest,
            eigenvalue_error=error,
            weights=row_weights,
        )

    @classmethod
    def from_chunks(cls, chunks: Any, passes: int | None = None) -> Spectrum:
        """Build from data in parts, read once, in memory that does not depend on the number of rows.

        Parameters
        ----------
        chunks : iterable of (X, Y), or a function without arguments that gives one
            Blocks of rows: X (rows, n0), Y (rows,) or (rows, n_d).
        passes : int, optional
            Without effect: one pass is as accurate as the data allow.

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
        return _from_stream(Blocks.of(chunks))

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
        return cls._from_factor(*given_factor(factor, targets, residual_moment, examples))

    @classmethod
    def _from_factor(
        cls, factor: Factor, examples: int, single: bool, inputs: Array | None = None
    ) -> Spectrum:
        """`from_factor` without checks; training inputs (p, n0) if they are kept."""
        values, vectors, targets, rest = factor.decomposed(examples)
        dimension = len(vectors)
        basis = InputBasis(Directions(vectors), dimension, inputs, 1 / dimension)
        return cls(values, targets, float((rest**2).sum()), examples, single, basis, rest)

    @classmethod
    def from_moments(
        cls, input_moment: ArrayLike, cross_moment: ArrayLike, target_moment: ArrayLike, examples: int
    ) -> Spectrum:
        """Build from XᵀX (n0, n0), XᵀY (n0,) or (n0, n_d), YᵀY (n_d, n_d) or a number, and p.

        Moments add up over parts of the data, so that data larger than memory can be streamed. YᵀY enters
        only through its trace. Training inputs are not kept: ask for predictions at explicit inputs.
        """
        return _from_moments(*given_moments(input_moment, cross_moment, target_moment, examples))


def _weighted(rows: AnyArray, weights: Array) -> AnyArray:
    """Rows (p, any) times √w."""
    return rows * like(np.sqrt(weights)[:, None], rows)


def _from_inputs(inputs: AnyArray, targets: AnyArray, single: bool, copy: bool) -> Spectrum:
    """X (p, n0), Y (p, n_d): by the Gram matrix of the smaller side, or by singular vectors."""
    side = SmallerSide.of(inputs)
    if side.weak:
        return _of_singular_vectors(inputs, targets, single, side, copy)
    if inputs.shape[0] <= inputs.shape[1]:
        return _of_example_vectors(side.eigenvalues, side.vectors, inputs, targets, single, copy)
    return _of_input_vectors(side.eigenvalues, side.vectors, inputs, targets, single, copy)


def _of_example_vectors(
    values: Array, vectors: AnyArray, inputs: AnyArray, targets: AnyArray, single: bool, copy: bool
) -> Spectrum:
    """For p ≤ n0: U (p, r), eigenvectors of XXᵀ/n0."""
    examples, dimension = inputs.shape
    own, rest = to_numpy(vectors.T @ targets), rest_of_targets(targets, vectors)
    vectors /= like(np.sqrt(dimension * values), vectors)  # in place, and a copy of X only now: memory is
    kept = copied(inputs) if copy else inputs  # scarce during eigh
    basis = InputBasis(Directions(vectors, kept), dimension, kept, 1 / dimension)
    return Spectrum(values, own, float((rest**2).sum()), examples, single, basis, rest)


def _of_input_vectors(
    values: Array, vectors: AnyArray, inputs: AnyArray, targets: AnyArray, single: bool, copy: bool
) -> Spectrum:
    """For p > n0: V (n0, r), eigenvectors of XᵀX/n0; U = XV/√(n0 g) is not kept."""
    examples, dimension = inputs.shape
    kept = copied(inputs) if copy else inputs
    basis = InputBasis(Directions(vectors), dimension, kept, 1 / dimension)
    own = to_numpy(vectors.T @ (kept.T @ targets)) / np.sqrt(dimension * values)[:, None]
    rest: Array = to_numpy(targets) - times(basis.training().explained, own / np.sqrt(values)[:, None])
    return Spectrum(values, own, float((rest**2).sum()), examples, single, basis, rest)


def _of_singular_vectors(
    inputs: AnyArray, targets: AnyArray, single: bool, side: SmallerSide, copy: bool
) -> Spectrum:
    """For X (p, n0) of any condition: X = U diag(σ) Vᵀ."""
    examples, dimension = inputs.shape
    values, left, right = singular_vectors(inputs, max(examples, dimension), side)
    own, rest = to_numpy(left.T @ targets), rest_of_targets(targets, left)
    left *= like(values, left)
    kept = copied(inputs) if copy else inputs
    basis = InputBasis(Directions(right), dimension, kept, 1 / dimension, left)
    eigenvalues = values**2 / dimension
    return Spectrum(eigenvalues, own, float((rest**2).sum()), examples, single, basis, rest)


def _from_stream(blocks: Stream) -> Spectrum:
    """From blocks of rows."""
    triangle = blocks.triangle()
    return Spectrum._from_factor(triangle.factor(centre=False), triangle.count, blocks.single)


def _from_moments(moment: AnyArray, cross: AnyArray, total: float, examples: int, single: bool) -> Spectrum:
    """From XᵀX/n0 (n0, n0), XᵀY (n0, n_d) and ‖Y‖²."""
    dimension = moment.shape[0]
    size = max(dimension, examples)
    values, vectors = positive_eigenvectors(moment, size, "XᵀX/n0", overwrite=True)
    if len(values) > examples:
        raise ValueError(f"XᵀX has rank {len(values)} and needs as many examples, got examples={examples}")
    top = float(values.max(initial=0.0))
    require_in_range(cross, vectors, total, RANK_TOLERANCE * size * dimension * top)
    targets = to_numpy(vectors.T @ cross) / np.sqrt(dimension * values)[:, None]
    explained = float((targets**2).sum())
    directions = min(dimension, examples)
    rounding = moment_rounding(values, targets, max(total - explained, 0.0), directions)
    residual = moment_residual(
        total, explained, rounding, top / float(values.min(initial=top)) if top else 1.0
    )
    basis = InputBasis(Directions(vectors), dimension, None, 1 / dimension)
    error = RANK_TOLERANCE * top
    return Spectrum(
        values, targets, residual, examples, single, basis, rounding=rounding, eigenvalue_error=error
    )
