"""The likelihood of a table with a few missing cells, from the eigenvectors of the complete one.

Fill the m missing cells with any numbers. With the covariance K of all cells of Y, the precision of the
missing ones given the observed ones is P = (K⁻¹)_mm, and with v = (K⁻¹Y)_m their mean is less than what was
filled in by P⁻¹v. So

    log p(Y_obs | L) = log p(Y | L) − log p(Y_mis | Y_obs, L)
                     = log p(Y | L) + ½ m log 2π − ½ log det P + ½ vᵀ P⁻¹ v,

and in the eigenbases of G and L, with D_il = τ + g_i l_l,

    P_cc' = Σ_l V_jl V_kl [Σ_i U_ai U_bi/D_il + (I − UUᵀ)_ab/τ]   for the cells c = (a, j), c' = (b, k).

One eigendecomposition serves, as for complete tables, and a scale takes m³ operations beside those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from lbnn._base.arrays import HOST, Device
from lbnn._base.types import Array, IndexArray
from lbnn.likelihood.gaussian import GaussianLikelihood

_OVERHEAD = 2e6  # operations in the time that Python takes for one scale, some 0.4 ms
_TURNS = 4  # of completing the table and estimating the scale, for proposals
_SMALLEST = 0.01  # eigenvalue of that estimate, relative to the largest


@dataclass(frozen=True)
class Elimination:
    """The missing cells given the observed ones and one scale."""

    root: Array  # lower R with R Rᵀ = P, (m, m)
    shift: Array  # mean of the missing cells less what was filled in, (m,)
    log_value: float  # −½ log det P + ½ vᵀ P⁻¹ v


@dataclass(frozen=True)
class PartialLikelihood:
    """log p(Y_obs | L) as a function of L, with its gradient."""

    complete: GaussianLikelihood  # of the filled table
    vectors: Array  # U of the rows that lack cells, (k, r)
    unseen: Array  # I − UUᵀ, less the level where there is one, between these rows, (k, k)
    rest: Array  # targets of these rows outside the range of G, (k, n_d)
    rows: IndexArray  # of each missing cell, among these rows, (m,)
    outputs: IndexArray  # of each missing cell, (m,)
    log_extra: float = 0.0  # levels and weights of rows

    # -- what the engines ask of every likelihood

    flat = False
    keeps_from_zero = False
    dual_deficient = True  # there is no form in the kernel of the hidden layer
    multiplicity = 1.0
    units = None
    device: Device = HOST

    @property
    def noise_variance(self) -> float:
        """τ."""
        return self.complete.noise_variance

    @property
    def eigenvalues(self) -> Array:
        """g, (r,)."""
        return self.complete.eigenvalues

    @property
    def examples(self) -> int:
        """Rows of the table."""
        return self.complete.examples

    @property
    def targets(self) -> Array:
        """ỹ of the filled table, (r, n_d)."""
        return self.complete.targets

    @property
    def output_units(self) -> Array:
        """Ones (n_d,)."""
        return self.complete.output_units

    @property
    def log_constant(self) -> float:
        """The part that does not depend on L."""
        return self.complete.log_constant + 0.5 * len(self.rows) * math.log(2 * math.pi) + self.log_extra

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient, for planning."""
        count, rank = len(self.rows), len(self.eigenvalues)
        own = count**2 * (count + rank * self.targets.shape[1])
        return self.complete.operations + 2.0 * own + _OVERHEAD

    @property
    def gradient_rows(self) -> Array:
        """Those of the filled table, (r, n_d)."""
        return self.complete.gradient_rows

    @property
    def target_moment(self) -> Array:
        """That of the filled table, (n_d, n_d)."""
        return self.complete.target_moment

    # -- value and gradient

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        """Log p(Y_obs | L) less `log_constant`, for scales V diag(l) Vᵀ: l (m, n_d), V (m, n_d, n_d)."""
        result = self.complete.log_value(eigenvalues, vectors)
        own = [self.eliminate(*each).log_value for each in zip(eigenvalues, vectors, strict=True)]
        return np.asarray(result + np.array(own))

    def value_and_gradient(self, eigenvalues: Array, vectors: Array) -> tuple[Array, Array]:
        """`log_value` (m,) and its gradient in L (m, n_d, n_d).

        It is that of the table completed by the mean of the missing cells given L, and what their precision
        adds: with S = R⁻¹ (K⁻¹)_m: in the eigenbases, V [½ Σ_i g_i Σ_c S_cil S_cil'] Vᵀ.
        """
        value = self.complete.log_value(eigenvalues, vectors)
        gradient = np.empty_like(vectors)
        for number, (values, axes) in enumerate(zip(eigenvalues, vectors, strict=True)):
            gone = self.eliminate(values, axes)
            value[number] += gone.log_value
            if not math.isfinite(gone.log_value):
                value[number], gradient[number] = -math.inf, 0.0
                continue
            variance = self.noise_variance + np.outer(self.eigenvalues, values)
            strength = np.sqrt(self.eigenvalues)[:, None] / variance  # √g/D, (r, n_d)
            taught = strength * (self.completed(gone.shift) @ axes)
            inner = taught.T @ taught
            inner[np.diag_indices(len(inner))] -= (self.eigenvalues[:, None] / variance).sum(axis=0)
            cells = self.vectors[self.rows][:, :, None] * (axes[self.outputs][:, None, :] * strength)
            solved = linalg.solve_triangular(
                gone.root, cells.reshape(len(cells), -1), lower=True, check_finite=False
            ).reshape(-1, len(values))
            inner += solved.T @ solved
            gradient[number] = 0.5 * axes @ inner @ axes.T
        return value, gradient

    def eliminate(self, values: Array, axes: Array) -> Elimination:
        """The missing cells given one scale V diag(l) Vᵀ, l (n_d,), V (n_d, n_d)."""
        inverse = 1 / (self.noise_variance + np.outer(self.eigenvalues, values))  # 1/D, (r, n_d)
        along = axes[self.outputs]  # V_jl of every cell, (m, n_d)
        weighted = self.vectors @ (inverse * (self.targets @ axes)) + (self.rest @ axes) / self.noise_variance
        pulled = (along * weighted[self.rows]).sum(axis=1)  # v
        precision = np.zeros((len(along), len(along)))
        for number in range(len(values)):
            rows = (self.vectors * inverse[:, number]) @ self.vectors.T + self.unseen / self.noise_variance
            precision += np.outer(along[:, number], along[:, number]) * rows[np.ix_(self.rows, self.rows)]
        try:
            root = np.linalg.cholesky(precision)
        except np.linalg.LinAlgError:  # scales beyond double precision
            return Elimination(np.eye(len(along)), np.zeros(len(along)), -math.inf)
        white = linalg.solve_triangular(root, pulled, lower=True, check_finite=False)
        shift = -linalg.solve_triangular(root, white, lower=True, trans=1, check_finite=False)
        value = -float(np.log(np.diagonal(root)).sum()) + 0.5 * float(white @ white)
        return Elimination(np.asarray(root, float), shift, value)

    @cached_property
    def surrogate(self) -> GaussianLikelihood:
        """A likelihood of a complete table that is close to this one, from which proposals are made.

        That of the table completed at an estimate of L, to the power of the share of cells that were observed
        (log determinants count that share, and so do squares of targets). L is estimated by moments,
        E ỹ_i ỹ_iᵀ = τ I + g_i L, in turns with the completion; what is unknown of the missing cells counts.
        """
        outputs, rank = self.targets.shape[1], len(self.eigenvalues)
        scale, targets = np.eye(outputs), self.targets
        for _ in range(_TURNS):
            values, axes = np.linalg.eigh(scale)
            gone = self.eliminate(values, axes)
            targets = self.completed(gone.shift)
            size = float(values.mean())
            weights = self.eigenvalues / (self.noise_variance + self.eigenvalues * size) ** 2
            moment = targets.T @ (weights[:, None] * targets) + self._spread(gone, weights)
            moment -= self.noise_variance * float(weights.sum()) * np.eye(outputs)
            values, axes = np.linalg.eigh(moment / float(weights @ self.eigenvalues))
            scale = (axes * np.maximum(values, _SMALLEST * max(float(values.max()), 0.0) + 1e-12)) @ axes.T
        share = 1 - len(self.rows) / (outputs * max(self.examples, rank))
        return replace(self.complete, targets=math.sqrt(share) * targets, multiplicity=share, gauss_rule=None)

    def _spread(self, gone: Elimination, weights: Array) -> Array:
        """Σ_i w_i cov(ỹ_i) of the missing cells given the others, (n_d, n_d)."""
        covariance = linalg.cho_solve((gone.root, True), np.eye(len(gone.root)), check_finite=False)
        rows = (self.vectors * weights) @ self.vectors.T
        result = np.zeros((self.targets.shape[1],) * 2)
        terms = covariance * rows[np.ix_(self.rows, self.rows)]
        np.add.at(result, (self.outputs[:, None], self.outputs), terms)
        return result

    def completed(self, shift: Array) -> Array:
        """ỹ of the table with the missing cells shifted, (r, n_d)."""
        added = np.zeros((len(self.vectors), self.targets.shape[1]))
        np.add.at(added, (self.rows, self.outputs), shift)
        return np.asarray(self.targets + self.vectors.T @ added)
