"""Draws of signal and noise in the basis that makes both diagonal.

Every draw has a scale L = M diag(l) Mᵀ and noise of the covariance τ M Mᵀ across outputs. The outputs Y M⁻ᵀ
are then independent, each a Gaussian process of scale l_j with noise of variance τ. For a covariance of noise

    τ I                 M = V, the eigenvectors of L; only those of positive eigenvalues, (n_d, k), are held,
    ν L                 M = V √diag(λ) with the eigenvalues λ of L, l = 1 and τ = ν,
    Σ, drawn beside L   M from both, τ = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn.scale.measure import DensityLaw, Law, ScaleMeasure, eigen

_ROUNDING = 3e-16  # eigenvalues of a scale, in units of n_d times the largest, that are zero
_LARGEST = 345.0  # |log λ| of a square root that can be squared again


@dataclass(frozen=True)
class Line:
    """The law of L = λ I behind quadrature nodes."""

    law: DensityLaw
    nodes: Array  # of x = log λ, (m,)
    outputs: int
    variance: float
    coupling: float

    def log_density(self, x: Array) -> Array:
        """Of x = log λ, (m,)."""
        return self.law.log_density(x)

    def at(self, x: Array) -> Draws:
        """Draws of equal weights at x (m,)."""
        values = np.repeat(np.exp(x)[:, None], self.outputs, axis=1)
        axes = np.broadcast_to(np.eye(self.outputs), (len(x), self.outputs, self.outputs))
        weights = np.full(len(x), 1 / len(x))
        return Draws._of_eigen(values, axes, weights, self.variance, self.coupling)

    @cached_property
    def beyond(self) -> Array:
        """Points beyond the nodes, ever farther apart, at which mass would show, (k,)."""
        steps = 0.5 * 1.5 ** np.arange(16)
        x = np.concatenate([self.nodes[0] - steps, self.nodes[-1] + steps])
        return x[np.abs(x) < 2 * _LARGEST]


@dataclass(frozen=True)
class Draws:
    """Weighted draws: noise τ M Mᵀ and scale M diag(l) Mᵀ.

    Attributes
    ----------
    basis : (m, n_d, k)
        M: invertible, or for k < n_d orthonormal columns, to which the noise adds all other directions.
    ratios : (m, k)
        l, signal in units of the noise; zero without signal.
    weights : (m,)
    groups : (m,) or None
        Independent replicate of every draw; None where the draws carry no Monte Carlo error.
    variance : (m,) or number
        τ: 0 at zero temperature, infinite at β = 0.
    rate : float or None
        Supremum of c with E exp(½ c l_max(L)) finite, L in the user's outputs; None where it is not known.
    narrowest : float
        Hidden width that decides which densities of the function have poles.
    root : (n_d, n_d) or None
        B, from these outputs to the user's: the scale there is B L Bᵀ.
    coupling : float
        ν: the noise is so many times the scale.
    law : Law or None
        The posterior behind the draws.
    line : Line or None
        The same where it is that of one number.
    """

    basis: Array
    ratios: Array
    weights: Array
    groups: IndexArray | None = None
    variance: Array | float = 1.0
    rate: float | None = None
    narrowest: float = math.inf
    root: Array | None = None
    coupling: float = 0.0
    law: Law | None = None
    line: Line | None = None
    back: Array | None = None  # M⁻¹ where it is known without inversion

    @classmethod
    def of(
        cls,
        measure: ScaleMeasure,
        variance: float,
        coupling: float = 0.0,
        root: Array | None = None,
        *,
        square: bool = False,
    ) -> Draws:
        """Of a measure of scales L with noise of the covariance τ I, or of ν L alone (the coupling ν).

        With `square` every M is square, behind narrow layers, too.
        """
        law, count = measure.law, len(measure.weights)
        line = None
        if isinstance(law, DensityLaw) and count > 1:
            line = Line(law, np.log(measure.matrices[:, 0, 0]), measure.outputs, variance, coupling)
        whole = square or coupling or not variance  # singular directions have draws of their own
        values, axes = eigen(measure.scales) if measure.narrow and whole else measure.eigen
        result = cls._of_eigen(values, axes, measure.weights, variance, coupling, square=square)
        rate, narrowest = measure.tails.exponential_rate, measure.tails.narrowest
        result = replace(result, groups=measure.groups, rate=rate, narrowest=narrowest)
        return replace(result, root=root, law=law, line=line)

    @classmethod
    def _of_eigen(
        cls,
        values: Array,
        axes: Array,
        weights: Array,
        variance: float,
        coupling: float,
        *,
        square: bool = False,
    ) -> Draws:
        """Of scales V diag(λ) Vᵀ: λ (m, k), ascending, and V (m, n_d, k)."""
        outputs, columns = axes.shape[1:]
        values = np.where(values > _ROUNDING * outputs * values[:, -1:], values, 0.0)
        if coupling:  # the columns of a singular draw are zero, and so are those of its inverse
            roots = np.sqrt(values)
            inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
            back = axes.swapaxes(1, 2) * inverse[:, :, None]
            basis = axes * roots[:, None]
            ones = np.ones_like(values)
            return cls(basis, ones, weights, variance=coupling, coupling=coupling, back=back)
        null = int((values == 0).sum(axis=1).min(initial=columns - 1)) if variance and not square else 0
        kept = axes[:, :, null:]
        return cls(kept, values[:, null:], weights, variance=variance, back=kept.swapaxes(1, 2))

    @property
    def deterministic(self) -> bool:
        """Whether the draws carry no Monte Carlo error."""
        return self.groups is None

    @property
    def outputs(self) -> int:
        """n_d."""
        return self.basis.shape[1]

    @cached_property
    def variances(self) -> Array:
        """τ of every draw, (m,)."""
        return np.broadcast_to(np.asarray(self.variance, float), self.weights.shape)

    @cached_property
    def inverse(self) -> Array:
        """M⁻¹, (m, k, n_d)."""
        return np.asarray(np.linalg.inv(self.basis), float) if self.back is None else self.back

    @cached_property
    def log_volumes(self) -> Array:
        """log |det M|, (m,); −inf of a singular draw."""
        if self.back is not None and not self.coupling:
            return np.zeros(len(self.weights))
        return np.asarray(np.linalg.slogdet(self.basis)[1], float)

    @property
    def signal(self) -> Array:
        """L, (m, n_d, n_d)."""
        return (self.basis * self.ratios[:, None, :]) @ self.basis.swapaxes(1, 2)

    @property
    def noise(self) -> Array:
        """Σ = τ M Mᵀ, (m, n_d, n_d)."""
        return self.variances[:, None, None] * self.basis @ self.basis.swapaxes(1, 2)

    def signal_shares(self, mean_gram: float) -> Array:
        """ḡ L_jj/(ḡ L_jj + Σ_jj), (m, n_d)."""
        squares = self.basis**2
        signal = mean_gram * (squares * self.ratios[:, None, :]).sum(axis=2)
        return np.asarray(signal / (signal + self.variances[:, None] * squares.sum(axis=2)))

    def in_units(self, matrix: Array) -> Draws:
        """Of outputs Y Dᵀ with an invertible D (n_d, n_d)."""
        return replace(self, basis=matrix @ self.basis, back=None)

    def average(self, values: Array) -> Array:
        """Σ_s w_s values_s, values (m, ...)."""
        return np.tensordot(self.weights, values, axes=1)

    def taken(self, index: IndexArray) -> Draws:
        """Some of the draws (k,), of equal weights."""
        return replace(
            self,
            basis=self.basis[index],
            ratios=self.ratios[index],
            weights=np.full(len(index), 1 / len(index)),
            groups=None if self.groups is None else self.groups[index],
            variance=self.variances[index],
            back=None if self.back is None else self.back[index],
        )

    def thinned(self, most: int, rng: np.random.Generator) -> Draws:
        """At most so many draws, resampled in proportion to their weights."""
        if len(self.weights) <= most:
            return self
        bounds = np.cumsum(self.weights) / self.weights.sum()
        places = (np.arange(most) + rng.random()) / most
        return self.taken(np.minimum(np.searchsorted(bounds, places), len(bounds) - 1))

    def resampled(self, size: int, rng: np.random.Generator) -> Draws:
        """So many draws of equal weights: from the law of a number, or of those that there are."""
        if self.line is not None and self.law is not None:
            numbers = np.log(self.law.sample(size, rng)[:, 0, 0])
            return self.line.at(np.clip(numbers, -2 * _LARGEST, 2 * _LARGEST))
        shares = self.weights / math.fsum(self.weights)
        return self.taken(rng.choice(len(shares), size=size, p=shares))
