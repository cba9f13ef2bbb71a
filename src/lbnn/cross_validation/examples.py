"""Examples given all others and a scale: the precision P_j in the eigenbasis of the data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.types import Array
from lbnn.data.examples import example_vectors, level_of
from lbnn.data.projection import RANK_TOLERANCE
from lbnn.data.spectrum import Spectrum
from lbnn.predict.conditional import ConditionalProcess


class LeftOut(ABC):
    """Some examples: their predictive given all other examples and a scale, for any scale."""

    @property
    @abstractmethod
    def extent(self) -> tuple[int, int]:
        """Number of examples, and of floats for each of them and each eigenvector of L: sizes of blocks."""

    @abstractmethod
    def take(self, rows: slice) -> LeftOut:
        """Some of the examples."""

    @abstractmethod
    def precision_and_residual(self, scale_values: Array, scale_vectors: Array) -> tuple[Array, Array]:
        """(P_j)_aa and (P_j Y V_j)_a/(P_j)_aa for scales l (m, n_d), V (m, n_d, n_d): (rows, m, n_d) each."""

    def log_density(self, scale_values: Array, scale_vectors: Array) -> Array:
        """log p(y_a | Y_{−a}, L), (rows, m)."""
        precision, residual = self.precision_and_residual(scale_values, scale_vectors)
        terms = np.log(precision / (2 * math.pi)) - residual * (residual * precision)
        return 0.5 * terms.sum(axis=2)

    def moments(self, scale_values: Array, scale_vectors: Array, matrix: Array) -> tuple[Array, Array]:
        """Residual y_a − E[y_a | Y_{−a}, L] and its variance in outputs of Y Aᵀ, (m, rows, outputs) each."""
        precision, residual = self.precision_and_residual(scale_values, scale_vectors)
        back = (matrix @ scale_vectors).swapaxes(1, 2)
        return residual.transpose(1, 0, 2) @ back, (1 / precision).transpose(1, 0, 2) @ back**2


@dataclass(frozen=True)
class RefittedExample(LeftOut):
    """One example as a test point of the data without it: sums of positive terms, nothing cancels."""

    process: ConditionalProcess  # of the other examples
    explained: Array  # Φ, (1, r)
    unexplained: float  # R
    noise_variance: float  # of the observation, and of the level
    value: Array  # y_a, (1, n_d)

    @property
    def extent(self) -> tuple[int, int]:
        return 1, self.explained.shape[1]

    def take(self, rows: slice) -> RefittedExample:
        return self

    def precision_and_residual(self, scale_values: Array, scale_vectors: Array) -> tuple[Array, Array]:
        mean = (self.explained @ self.process.rotated_mean(scale_values, scale_vectors))[:, 0]
        seen = (self.explained**2 @ self.process.shrunken_scale(scale_values))[:, 0]
        variance = self.unexplained * scale_values + seen + self.noise_variance
        return 1 / variance[None], ((self.value @ scale_vectors)[:, 0] - mean)[None]


@dataclass(frozen=True)
class PrivateExamples(LeftOut):
    """Examples with private inputs: P_j = K⁻¹/l_j with K = G + ν I, so that residuals do not depend on L."""

    variance: Array  # 1/(K⁻¹)_aa, (rows,)
    residual: Array  # (K⁻¹Y)_a/(K⁻¹)_aa, (rows, n_d)

    @classmethod
    def of(cls, spectrum: Spectrum, private: float, Y: Array, centred: bool) -> PrivateExamples:
        """All examples of a data set, rows and targets Y (p, n_d) times √w."""
        vectors = example_vectors(spectrum)
        unseen, rest = unseen_part(spectrum, vectors, Y, centred)
        eigenvalues = spectrum.eigenvalues + private
        precision = vectors**2 @ (1 / eigenvalues) + unseen / private
        weighted = vectors @ (spectrum.targets / eigenvalues[:, None]) + rest / private
        return cls(1 / precision, weighted / precision[:, None])

    @property
    def extent(self) -> tuple[int, int]:
        return len(self.variance), 1

    def take(self, rows: slice) -> PrivateExamples:
        return PrivateExamples(self.variance[rows], self.residual[rows])

    def precision_and_residual(self, scale_values: Array, scale_vectors: Array) -> tuple[Array, Array]:
        precision = 1 / (self.variance[:, None, None] * scale_values)
        return precision, np.einsum("ak,mkj->amj", self.residual, scale_vectors)


@dataclass(frozen=True)
class Examples(LeftOut):
    """Some examples a in the eigenbasis of the data: all that P_j needs, for any scale."""

    vectors: Array  # U_a, (rows, r)
    unseen_precision: Array  # (I − UUᵀ)_aa / τ, (rows,)
    unseen_targets: Array  # ((I − UUᵀ)Y)_a / τ, (rows, n_d)
    eigenvalues: Array  # g, (r,)
    targets: Array  # ỹ, (r, n_d)
    noise_variance: float  # τ

    @property
    def extent(self) -> tuple[int, int]:
        rows, rank = self.vectors.shape
        return rows, rank

    @classmethod
    def of(cls, spectrum: Spectrum, noise_variance: float, Y: Array, centred: bool) -> Examples:
        """All examples of a data set, rows and targets Y (p, n_d) times √w."""
        vectors = example_vectors(spectrum)
        unseen, rest = unseen_part(spectrum, vectors, Y, centred)
        if noise_variance > 0:
            unseen, rest = unseen / noise_variance, rest / noise_variance
        return cls(vectors, unseen, rest, spectrum.eigenvalues, spectrum.targets, noise_variance)

    def take(self, rows: slice) -> Examples:
        """Some of the examples."""
        return replace(
            self,
            vectors=self.vectors[rows],
            unseen_precision=self.unseen_precision[rows],
            unseen_targets=self.unseen_targets[rows],
        )

    def along(self, direction: Array) -> Examples:
        """The same examples with one output Y u, u (n_d,)."""
        return replace(
            self,
            targets=self.targets @ direction[:, None],
            unseen_targets=self.unseen_targets @ direction[:, None],
        )

    @cached_property
    def _squares(self) -> Array:
        """Entrywise squares of U_a, (rows, r)."""
        return self.vectors**2

    def rounding(self, scale_values: Array, scale_vectors: Array, from_inputs: bool) -> Array:
        """What rounding may do to the scores: bound of relative errors and of log weights, (rows,).

        The data are known up to a relative change of ε: a Gram matrix up to δG of the size ε g_1, inputs up
        to δX of the size ε√g_1 (`from_inputs`, for tall data, whose directions are not taken from XXᵀ). With
        P = (lG + τ)⁻¹, g_1 the largest eigenvalue and w = Py, to first order

            |δP_aa| ≤ ε l g_1 |Pe_a|²,   |δw_a| ≤ ε l g_1 |Pe_a| |w| + ε|y| |Pe_a|,

        and with inputs one of the two factors |P·| √g_1 l is |Xᵀ P·| l: small where the data fit. The score
        takes the variance 1/P_aa, the residual w_a/P_aa and the log density −w_a²/2P_aa from them.
        """
        result = np.zeros(len(self.vectors))
        largest, size = self.eigenvalues.max(initial=0.0), np.sqrt((self.targets**2).sum(axis=0))
        rest = self.unseen_targets
        for values, axes in zip(scale_values, scale_vectors, strict=True):
            inverse = 1 / (self.noise_variance + np.outer(self.eigenvalues, self._positive(values[None])[0]))
            rotated, weights = self.targets @ axes, self.eigenvalues[:, None] * inverse**2
            precision, residual = (
                each[:, 0] for each in self.precision_and_residual(values[None], axes[None])
            )
            own = np.sqrt(self._squares @ inverse**2 + self._unseen_square[:, None])  # |Pe_a|
            fitted = np.sqrt((rotated**2 * inverse**2).sum(axis=0) + ((rest @ axes) ** 2).sum(axis=0))  # |w|
            pull = values * math.sqrt(largest)
            if from_inputs:
                seen = np.sqrt(self._squares @ weights)  # |Xᵀ P e_a|
                change = 2 * pull * own * seen
                shift = pull * (own * np.sqrt((rotated**2 * weights).sum(axis=0)) + seen * fitted)
            else:
                change = pull * math.sqrt(largest) * own**2
                shift = pull * math.sqrt(largest) * own * fitted
            whole = np.sqrt(size @ size + (rest**2).sum() * self.noise_variance**2)
            shift = shift + whole * own
            relative = change / precision + 1
            weight = residual**2 * precision * relative + 2 * np.abs(residual) * shift
            mean = shift / precision / np.maximum(1 / np.sqrt(precision), whole)
            result = np.maximum(result, (relative + weight + mean).max(axis=1))
        return np.finfo(float).eps * result

    @property
    def _unseen_square(self) -> Array:
        """(I − UUᵀ)_aa / τ², (rows,)."""
        return (
            self.unseen_precision / self.noise_variance if self.noise_variance > 0 else self.unseen_precision
        )

    def precision_and_residual(self, scale_values: Array, scale_vectors: Array) -> tuple[Array, Array]:
        """(P_j)_aa and (P_j Y V_j)_a/(P_j)_aa for scales l (m, n_d), V (m, n_d, n_d): (rows, m, n_d) each."""
        axes = scale_vectors.transpose(1, 0, 2).reshape(scale_values.shape[1], -1)  # V side by side
        inverse = 1 / (self.noise_variance + np.outer(self.eigenvalues, self._positive(scale_values)))
        precision = self._squares @ inverse + self.unseen_precision[:, None]
        weighted = self.vectors @ (inverse * (self.targets @ axes)) + self.unseen_targets @ axes
        shape = len(self.vectors), *scale_values.shape
        return precision.reshape(shape), (weighted / precision).reshape(shape)

    def _positive(self, scale_values: Array) -> Array:
        """Eigenvalues of L (m, n_d), kept above zero at zero temperature, where L is invertible."""
        if self.noise_variance > 0:
            return scale_values
        return np.maximum(scale_values, np.finfo(float).eps ** 2 * scale_values.max(axis=1, keepdims=True))


def unseen_part(spectrum: Spectrum, vectors: Array, Y: Array, centred: bool) -> tuple[Array, Array]:
    """(I − UUᵀ)_aa (p,) and ((I − UUᵀ)Y)_a (p, n_d) on contrasts; zero where the directions span all."""
    unseen, rest = np.zeros(len(Y)), np.zeros_like(Y)
    if spectrum.rank < spectrum.examples:
        level = level_of(spectrum, len(Y)) if centred else np.zeros(len(Y))
        unseen = 1 - level**2 - np.einsum("ai,ai->a", vectors, vectors)
        rest = Y - np.outer(level, level @ Y) - vectors @ spectrum.targets
        spanned = unseen <= RANK_TOLERANCE * len(Y)
        unseen[spanned], rest[spanned] = 0.0, 0.0
    return unseen, rest
