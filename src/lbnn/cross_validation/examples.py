"""Examples given all others and a draw: the precision P_j in the eigenbasis of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn.data.examples import example_vectors, level_of
from lbnn.data.projection import RANK_TOLERANCE
from lbnn.data.spectrum import Spectrum
from lbnn.scale.draws import Draws


@dataclass(frozen=True)
class Examples:
    """Some examples a in the eigenbasis of the data: all that P_j needs, for any draw."""

    vectors: Array  # U_a, (rows, r)
    unseen: Array  # (I − UUᵀ)_aa on contrasts, (rows,); zero where the directions span all
    rest: Array  # ((I − UUᵀ)Y)_a, (rows, n_d)
    eigenvalues: Array  # g, (r,)
    targets: Array  # ỹ, (r, n_d)

    @classmethod
    def of(cls, spectrum: Spectrum, root: Array | None, Y: Array, centred: bool) -> Examples:
        """All examples, rows and targets Y (p, n_d) times √w, in the units Y B⁻ᵀ of a root B (n_d, n_d)."""
        vectors, unseen, rest = example_vectors(spectrum), np.zeros(len(Y)), np.zeros_like(Y)
        if spectrum.rank < spectrum.examples:
            level = level_of(spectrum, len(Y)) if centred else np.zeros(len(Y))
            unseen = 1 - level**2 - np.einsum("ai,ai->a", vectors, vectors)
            rest = Y - np.outer(level, level @ Y) - vectors @ spectrum.targets
            spanned = unseen <= RANK_TOLERANCE * len(Y)
            unseen[spanned], rest[spanned] = 0.0, 0.0
        targets = spectrum.targets
        if root is not None:
            rest, targets = (np.asarray(np.linalg.solve(root, each.T).T) for each in (rest, targets))
        return cls(vectors, unseen, rest, spectrum.eigenvalues, targets)

    def take(self, rows: slice) -> Examples:
        """Some of the examples."""
        return replace(self, vectors=self.vectors[rows], unseen=self.unseen[rows], rest=self.rest[rows])

    def along(self, direction: Array) -> Examples:
        """The same examples with one output Y u, u (n_d,)."""
        u = direction[:, None]
        return replace(self, targets=self.targets @ u, rest=self.rest @ u)

    def given(self, draws: Draws, some: Any) -> tuple[Array, Array]:
        """(P_j)_aa and (P_j Y M⁻ᵀ)_a/(P_j)_aa of some draws, (rows, b, k) each."""
        inverse, outside = self._inverse(draws, some)
        axes = draws.inverse[some].transpose(2, 0, 1).reshape(self.rest.shape[1], -1)  # side by side
        flat = inverse.reshape(len(inverse), axes.shape[1])
        precision = self.vectors**2 @ flat + self.unseen[:, None] * outside
        weighted = self.vectors @ (flat * (self.targets @ axes)) + (self.rest @ axes) * outside
        shape = len(self.vectors), *inverse.shape[1:]
        return precision.reshape(shape), (weighted / precision).reshape(shape)

    def _inverse(self, draws: Draws, some: Any) -> tuple[Array, float]:
        """1/(τ + g l) of some draws, (r, b, k), and 1/τ, or one without noise, where nothing is unseen.

        At zero temperature L is invertible, and its eigenvalues are kept above zero.
        """
        noise, ratios = float(draws.variances[0]), draws.ratios[some]
        if not noise:
            ratios = np.maximum(ratios, np.finfo(float).eps ** 2 * ratios.max(axis=1, keepdims=True))
        return 1 / (noise + self.eigenvalues[:, None, None] * ratios), 1 / noise if noise else 1.0

    def log_density(self, draws: Draws, some: Any) -> Array:
        """log p(y_a | Y_{−a}, L) of some draws, (rows, b)."""
        precision, residual = self.given(draws, some)
        terms = np.log(precision / (2 * math.pi)) - residual * (residual * precision)
        return np.asarray(0.5 * terms.sum(axis=2) - draws.log_volumes[some])

    def moments(self, draws: Draws, some: Any, matrix: Array) -> tuple[Array, Array]:
        """Residual y_a − E[y_a | Y_{−a}, L] and its variance in outputs of Y Aᵀ, (b, rows, outputs) each."""
        precision, residual = self.given(draws, some)
        back = (matrix @ draws.basis[some]).swapaxes(1, 2)
        return residual.transpose(1, 0, 2) @ back, (1 / precision).transpose(1, 0, 2) @ back**2

    def rounding(self, draws: Draws, some: IndexArray, from_inputs: bool) -> Array:
        """What rounding may do to the scores: bound of relative errors and of log weights, (rows,).

        The data are known up to a relative change of ε: a Gram matrix up to δG of the size ε g_1, inputs up
        to δX of the size ε√g_1 (`from_inputs`, for tall data, whose directions are not taken from XXᵀ). With
        P = (lG + τ)⁻¹, g_1 the largest eigenvalue and w = Py, to first order

            |δP_aa| ≤ ε l g_1 |Pe_a|²,   |δw_a| ≤ ε l g_1 |Pe_a| |w| + ε|y| |Pe_a|,

        and with inputs one of the two factors |P·| √g_1 l is |Xᵀ P·| l: small where the data fit. The score
        takes the variance 1/P_aa, the residual w_a/P_aa and the log density −w_a²/2P_aa from them.
        """
        inverse, outside = self._inverse(draws, some)
        axes, squares = draws.inverse[some].swapaxes(1, 2), self.vectors**2  # (b, n_d, k)
        targets, rest = ((each @ axes).transpose(1, 0, 2) for each in (self.targets, self.rest * outside))
        precision, residual = self.given(draws, some)
        weights = self.eigenvalues[:, None, None] * inverse**2
        whole = np.sqrt((self.targets**2).sum() + (self.rest**2).sum())  # |y|
        own = np.sqrt(np.tensordot(squares, inverse**2, 1) + (self.unseen * outside**2)[:, None, None])
        fitted = np.sqrt(((targets * inverse) ** 2).sum(axis=0) + (rest**2).sum(axis=0))  # |w|
        root = math.sqrt(self.eigenvalues.max(initial=0.0))
        seen, pulled = root * own, root * fitted
        if from_inputs:  # |Xᵀ P e_a| and |Xᵀ w|
            seen, pulled = np.sqrt(np.tensordot(squares, weights, 1)), np.sqrt((targets**2 * weights).sum(0))
        pull = draws.ratios[some] * root
        relative = 2 * pull * own * seen / precision + 1
        shift = pull * (own * pulled + seen * fitted) + whole * own
        weight = residual**2 * precision * relative + 2 * np.abs(residual) * shift
        mean = shift / precision / np.maximum(1 / np.sqrt(precision), whole)
        return np.asarray(np.finfo(float).eps * (relative + weight + mean).max(axis=(1, 2)))
