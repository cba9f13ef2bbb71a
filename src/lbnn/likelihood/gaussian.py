"""The Gaussian likelihood: the rows by which the data weigh a scale matrix.

With L = V diag(l) Vᵀ, z = ỹV and the noise variance τ = 1/β, the targets given L are independent in the
eigenbasis, z_ij ~ N(0, τ + g_i l_j), so that

    log p(Y | L) = −½ Σ_ij [log(τ + g_i l_j) + z_ij² / (τ + g_i l_j)] + constant.

This is the paper's dρ/dϖ with its normalisation, and τ = 0 is the zero-temperature limit of it (the prior
density of Y): one formula for every temperature. Targets may be given in units of their own, Y D with D
diagonal (`units`), where each output has a noise variance of its own: then D L D stands instead of L. What is
computed from the rows, as a function of a root of L, is in `root`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.gauss_rule import GaussRule
from lbnn._base.types import Array
from lbnn.likelihood.root import Gaussian, Scatter


@dataclass(frozen=True)
class GaussianLikelihood:
    """log p(Y | L) as a function of L, for one data set and one noise variance."""

    eigenvalues: Array  # g, (r,)
    targets: Array  # ỹ, (r, n_d)
    residual: float  # ‖Y‖² outside the range of G
    examples: int
    noise_variance: float  # τ = 1/β: 0 at zero temperature, inf at β = 0
    multiplicity: float = 1.0  # directions that a row stands for, the others without targets: weight of log D
    gauss_rule: GaussRule | None = None  # a few rows with the same sums, for value and gradient
    units: Array | None = (
        None  # diagonal of D, (n_d,): targets and noise are those of Y D, whose scale is D L D
    )
    log_jacobian: float = 0.0  # from densities of Y D, or of weighted rows, to those of Y
    zeros: int = 0  # outputs, first in every frame, whose determinant is left to the prior: `Scatter.without`
    of_kernel: bool = False  # a function of the hidden kernel: examples stand for outputs

    @property
    def flat(self) -> bool:
        """Whether the data say nothing about L."""
        return math.isinf(self.noise_variance) or not len(self.eigenvalues)

    @property
    def log_constant(self) -> float:
        """The part of log p(Y | L) that does not depend on L; −inf at β = 0."""
        if not self.examples:
            return 0.0
        if math.isinf(self.noise_variance):
            return -math.inf
        outputs = self.targets.shape[1]
        constant = -0.5 * self.examples * outputs * math.log(2 * math.pi)
        unseen = self.examples - round(self.multiplicity * len(self.eigenvalues))
        if unseen:
            constant -= 0.5 * (
                unseen * outputs * math.log(self.noise_variance) + self.residual / self.noise_variance
            )
        return constant + self.log_jacobian

    @property
    def output_units(self) -> Array:
        """The diagonal of D, (n_d,): ones where the targets are in the units of L."""
        return np.ones(self.targets.shape[1]) if self.units is None else self.units

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient, for planning."""
        return float(self._rows.targets.size * (30 + 4 * self.targets.shape[1]))

    @cached_property
    def _rows(self) -> GaussRule:
        """The rows that value and gradient are summed over."""
        if self.gauss_rule is not None:
            return self.gauss_rule
        counts = np.full(len(self.eigenvalues), self.multiplicity)
        return GaussRule(self.eigenvalues, counts, self.eigenvalues, self.targets)

    @property
    def gradient_rows(self) -> Array:
        """√g_i d_j ỹ_ij/(τ + g_i d_j²), (r, n_d): half their Gram matrix is a gradient at L = I."""
        if self.flat:
            return np.zeros_like(self.targets)
        values, units = self.eigenvalues[:, None], self.output_units
        return np.sqrt(values) * units / (self.noise_variance + values * units**2) * self.targets

    @property
    def target_moment(self) -> Array:
        """D ỹᵀỹ D, (n_d, n_d): what it costs to leave targets to the noise."""
        rows = self.targets * self.output_units
        return rows.T @ rows

    @property
    def dual_deficient(self) -> bool:
        """Whether p(Y | Λ) cannot be used.

        It has one noise variance for all outputs, and at zero temperature it is singular where the targets
        have less than full example rank.
        """
        if self.units is not None:
            return True
        return self.noise_variance == 0 and int(np.linalg.matrix_rank(self.targets)) < len(self.eigenvalues)

    @property
    def keeps_from_zero(self) -> bool:
        """Whether the data exclude singular L: zero temperature and targets of full output rank."""
        if self.noise_variance > 0 or not len(self.eigenvalues):
            return False
        return int(np.linalg.matrix_rank(self.targets)) == self.targets.shape[1]

    @cached_property
    def of_root(self) -> Gaussian | Scatter:
        """log p(Y | L) less `log_constant`, as a function of a root of L."""
        outputs = self.targets.shape[1]
        if self.flat:
            none = np.zeros(0)
            return Gaussian(none, none, none, np.zeros((0, outputs)), 1.0)
        if self.noise_variance > 0:
            basis = None if self.units is None else np.diag(self.units)
            return Gaussian(*self._rows.arrays, self.noise_variance, basis)
        # Σ_i ỹ_i ỹ_iᵀ/g_i in the units of L, and what of log det (g D L D) does not depend on L
        count = self.multiplicity * len(self.eigenvalues)
        logs = self.multiplicity * outputs * float(np.log(self.eigenvalues).sum())
        logs += 2 * count * float(np.log(self.output_units).sum())
        root = self.targets / np.sqrt(self.eigenvalues)[:, None] / self.output_units
        triangle = np.asarray(np.linalg.qr(root, mode="r"), float)
        return Scatter(triangle, np.full(outputs, count), -0.5 * logs)

    def in_frame(self, frame: Array) -> Gaussian | Scatter:
        """The same as a function of T with F = O T, for a frame O (n_d, n_d), or one for each draw."""
        own = self.of_root.in_frame(frame)
        return own.without(self.zeros) if isinstance(own, Scatter) else own

    def log_value(self, eigenvalues: Array, vectors: Array) -> Array:
        """Log p(Y | L) less `log_constant`, for scales V diag(l) Vᵀ: l (m, n_d), V (m, n_d, n_d) -> (m,)."""
        return self.of_root.log_value_at(eigenvalues, vectors)

    def turning_region(self) -> tuple[float, float] | None:
        """Range of log l that holds every extremum of log p(Y | L); None where the data say nothing.

        For larger l every term falls with l; for smaller l no term falls faster than l^{−1/2}.
        """
        if self.flat:
            return None
        floor = self.noise_variance / float(self.eigenvalues.sum())
        with np.errstate(over="ignore"):
            peaks = ((self.targets**2).sum(1) - self.noise_variance) / self.eigenvalues
        turns = np.append(peaks[peaks > 0], floor) if floor > 0 else peaks[peaks > 0]
        return (math.log(turns.min()), math.log(turns.max())) if len(turns) else None
