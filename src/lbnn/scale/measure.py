"""ScaleMeasure: a probability measure over scale matrices as weighted atoms, however it was made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import special

from lbnn._base import check
from lbnn._base.blocks import blocks
from lbnn._base.types import Array, ComplexArray, IndexArray, Mask
from lbnn.scale.phases import Phases, average_scale, error_of_independent, single_phase, standard_error

_HALF_STEP_CHANGE = 1e-5  # of a quadrature on every other node; geometric convergence squares it
_END_SHARE = 1e-12  # largest share of the mass that the outermost nodes may hold

_PRODUCTS = 1 << 22  # floats of scales (m, rows, n_d) that are made from roots at once
_MOST_ENTRIES = 1000  # entries of L over which a design effect is averaged: all of them up to 44 outputs

#: h of a tilted average E exp h(L), for scales given by eigenvalues (m, k) and eigenvectors (m, n_d, k).
Exponent = Callable[[Array, Array], Array | ComplexArray]


class Law(Protocol):
    """The law that the atoms stand for: averages and draws that need more than the atoms."""

    def log_expect_exp(self, exponent: Exponent) -> complex:
        """Log E exp(exponent(L)), integrated anew where the exponent moves the mass off the atoms."""
        ...

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws from the law rather than from quadrature nodes, (size, n_d, n_d)."""
        ...

    def sample_factors(self, size: int, rng: np.random.Generator) -> list[Array]:
        """Draws of the Bartlett factors T_d, ..., T_2 of L = T Tᵀ, each (size, rows, columns)."""
        ...

    def partial_products(self, layer: int) -> Array:
        """T_ℓ ⋯ T_2 of every atom, (m, r_ℓ, r_1): the identity for layer one, T for layer d."""
        ...


@runtime_checkable
class PhasedLaw(Protocol):
    """A law with computable phases; atoms without one count as a single phase."""

    def phases(self, measure: ScaleMeasure) -> Phases:
        """Phases of the law behind the atoms of `measure`."""
        ...


@runtime_checkable
class ExtendableLaw(Protocol):
    """A posterior that can be integrated anew with more data."""

    def log_ratio(self, likelihood: Any) -> float:
        """Log evidence of data that include the own ones, given by their likelihood, less the own one."""
        ...


@runtime_checkable
class DensityLaw(Protocol):
    """A law of a number λ with a density."""

    def log_density(self, x: Array) -> Array:
        """Log density of x = log λ, (m,)."""
        ...


@dataclass(frozen=True)
class Tails:
    """What the atoms do not determine of the law of L: which of its integrals converge."""

    inverse_mean_exists: bool = True
    exponential_rate: float = math.inf  # supremum of c with E exp(½ c l_max) finite
    narrowest: float = math.inf  # hidden width that decides which negative moments of L exist


def eigen(scales: Array) -> tuple[Array, Array]:
    """Eigenvalues l (m, n_d) and eigenvectors V (m, n_d, n_d) of scales (m, n_d, n_d)."""
    if scales.shape[1] == 1:
        return scales[:, 0, :], np.ones_like(scales)
    values, vectors = np.linalg.eigh(scales)
    return np.maximum(values, 0.0), vectors  # a scale is a Gram matrix: negative values are rounding


def eigen_of_roots(roots: Array) -> tuple[Array, Array]:
    """Eigenvalues l (m, k) of L = F Fᵀ that need not be zero, and eigenvectors (m, n_d, k): F (m, n_d, k)."""
    frame, square = np.linalg.qr(roots)
    values, vectors = np.linalg.eigh(square @ square.swapaxes(1, 2))
    return np.maximum(values, 0.0), frame @ vectors


@dataclass(frozen=True)
class Atoms:
    """Scales (m, n_d, n_d), or roots F of L = F Fᵀ with fewer columns than rows, (m, n_d, k).

    Their eigenvectors are computed once for a law and the measure that it stands behind.
    """

    matrices: Array

    @property
    def narrow(self) -> bool:
        """Whether these are roots."""
        return self.matrices.shape[2] < self.matrices.shape[1]

    @cached_property
    def eigen(self) -> tuple[Array, Array]:
        """l (m, k) and V (m, n_d, k); k = n_d of scales, the number of columns of roots."""
        return eigen_of_roots(self.matrices) if self.narrow else eigen(self.matrices)


@dataclass(frozen=True)
class ScaleMeasure:
    """A law of the scale matrix L, held as weighted atoms.

    Quadrature nodes, weighted draws, equal-weight draws and the single atoms of the limit theories are all
    of this kind, so that what is computed from them is written once. Behind a layer narrower than the outputs
    the atoms are held by roots F (n_d, k), L = F Fᵀ.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> post = lbnn.Network(widths=(10,)).condition(rng.normal(size=(5, 8)), np.ones(5), beta=1.0)
    >>> bool(np.isclose(post.scale.expect(lambda scale: scale), post.scale.mean))
    True
    """

    matrices: Array  # L (m, n_d, n_d), or roots of it (m, n_d, k), k < n_d
    weights: Array  # (m,), normalised
    single_output: bool
    tails: Tails = Tails()
    law: Law | None = None
    groups: IndexArray | None = (
        None  # (m,), independent replicates; None where the atoms carry no Monte Carlo error
    )

    def __repr__(self) -> str:
        """One line: number of atoms and their mean."""
        shape = () if self.single_output else (self.outputs, self.outputs)
        return f"ScaleMeasure({len(self.weights)} atoms of shape {shape}, mean={self.mean!r})"

    @classmethod
    def atom(cls, scale: Array, single_output: bool) -> ScaleMeasure:
        """All mass on one scale matrix (n_d, n_d)."""
        return cls(scale[None], np.ones(1), single_output)

    def _with_law(self, law: Law) -> ScaleMeasure:
        """The same atoms with the law that they stand for."""
        return replace(self, law=law)

    @property
    def outputs(self) -> int:
        """n_d."""
        return self.matrices.shape[1]

    @property
    def narrow(self) -> bool:
        """Whether the atoms are held by roots with fewer columns than rows."""
        return self.matrices.shape[2] < self.outputs

    @cached_property
    def scales(self) -> Array:
        """L of every atom, (m, n_d, n_d)."""
        return self.matrices @ self.matrices.swapaxes(1, 2) if self.narrow else self.matrices

    def scales_of(self, chosen: IndexArray) -> Array:
        """L of some atoms (k,), (k, n_d, n_d)."""
        held = self.matrices[chosen]
        return held @ held.swapaxes(1, 2) if self.narrow else held

    @property
    def atoms(self) -> Array:
        """The scales L_s, (m, n_d, n_d), or (m,) when Y was one-dimensional."""
        return self.scales[:, 0, 0] if self.single_output else self.scales

    @property
    def factor(self) -> Array:
        """A root F of every atom, L = F Fᵀ: (m, n_d, k), or (m,) when Y was one-dimensional.

        k is the width of the narrowest layer, n_d at most.
        """
        if self.narrow:
            return self.matrices
        values, vectors = self.eigen
        roots = vectors * np.sqrt(values)[:, None, :]
        return np.abs(roots[:, 0, 0]) if self.single_output else roots

    @cached_property
    def variances(self) -> Array:
        """The diagonal of L of every atom, (m, n_d)."""
        if self.narrow:
            return np.einsum("mjk,mjk->mj", self.matrices, self.matrices)
        return np.diagonal(self.matrices, axis1=1, axis2=2)

    @property
    def average_scale(self) -> Array:
        """E L, (n_d, n_d)."""
        return average_scale(self.matrices, self.weights)

    def image(self, matrix: Array) -> Array:
        """A L Aᵀ of every atom, or A F of roots, for a matrix A (n_d, n_d)."""
        moved = matrix @ self.matrices
        return moved if self.narrow else moved @ matrix.T

    @property
    def deterministic(self) -> bool:
        """Whether the atoms carry no Monte Carlo error: quadrature nodes or one atom."""
        return self.groups is None

    @property
    def effective_sample_size(self) -> float:
        """1/Σw², infinite where the atoms carry no Monte Carlo error."""
        return np.inf if self.deterministic else float(1 / (self.weights**2).sum())

    @cached_property
    def eigen(self) -> tuple[Array, Array]:
        """Eigenvalues l (m, k) and eigenvectors V (m, n_d, k) of every atom; of roots, those they span."""
        known = getattr(self.law, "atoms", None)
        if isinstance(known, Atoms) and known.matrices is self.matrices:
            return known.eigen
        return Atoms(self.matrices).eigen

    @property
    def mean(self) -> Array | float:
        """E L, (n_d, n_d), or a number when Y was one-dimensional."""
        return self._shaped(self.average_scale)

    @cached_property
    def typical(self) -> float:
        """The average eigenvalue of E L: the size of a scale."""
        return float(self.average(self.variances).mean())

    @property
    def inverse_mean(self) -> Array | float:
        """E L⁻¹, (n_d, n_d); infinite (on the diagonal, undefined off it) where the integral diverges."""
        if self.narrow or not self.tails.inverse_mean_exists:
            return self._shaped(np.where(np.eye(self.outputs) > 0, np.inf, np.nan))
        return self._shaped(self.average(self._inverses))

    @property
    def inverse_mean_error(self) -> Array | float:
        """Monte Carlo standard error of `inverse_mean`, (n_d, n_d); undefined where E L⁻¹ is infinite."""
        if not self.tails.inverse_mean_exists:
            return self._shaped(np.full(self.scales.shape[1:], np.nan))
        return self._shaped(self.standard_error(self._inverses))

    @property
    def _inverses(self) -> Array:
        """L⁻¹ of every atom, (m, n_d, n_d)."""
        values, vectors = self.eigen
        # an eigenvalue is known to rounding of the largest: zero, of draws of negligible weight, is not exact
        known = np.maximum(values, np.finfo(float).eps * values.max(axis=1, keepdims=True))
        return (vectors / known[:, None, :]) @ vectors.swapaxes(1, 2)

    def expect(self, fn: Callable[[Array], Any]) -> Any:
        """E fn(L) for fn of one atom: a matrix (n_d, n_d), or a number when Y was one-dimensional."""
        return self.average(self._values(fn))[()]

    def expect_with_error(self, fn: Callable[[Array], Any]) -> tuple[Any, Any]:
        """E fn(L) and its Monte Carlo standard error (zero where the atoms carry none)."""
        values = self._values(fn)
        return self.average(values)[()], self.standard_error(values)[()]

    def _values(self, fn: Callable[[Array], Any]) -> Array:
        """fn of every atom, (m, ...); zero for atoms of weight zero, where fn may be infinite."""
        there = self.weights > 0
        found = np.stack([np.asarray(fn(self._atom(int(s)))) for s in np.flatnonzero(there)])
        values = np.zeros((len(there), *found.shape[1:]), found.dtype)
        values[there] = found
        return values

    def _atom(self, number: int) -> Any:
        """L of one atom: a matrix (n_d, n_d), or a number when Y was one-dimensional."""
        held = self.matrices[number]
        return self._shaped(held @ held.T if self.narrow else held)

    @property
    def mean_error(self) -> Array | float:
        """Monte Carlo standard error of `mean`, entry by entry, (n_d, n_d)."""
        if not self.narrow:
            return self._shaped(self.standard_error(self.matrices))
        across = self.matrices.swapaxes(1, 2)
        rows = blocks(self.outputs, len(self.weights) * self.outputs, _PRODUCTS)
        return np.concatenate([self.standard_error(self.matrices[:, own] @ across) for own in rows])

    def standard_error(self, values: Array) -> Array:
        """Standard error of `average(values)`, values (m, ...), from independent groups of atoms.

        The spread of few groups can be small by chance: with 16 of them one entry of E L was off by 5.05
        stated errors (3.50 now). So the variance is no smaller than the mean of two: that of the groups, and
        that of independent atoms times the design effect of the whole sample.
        """
        error = standard_error(values, self.weights, self.groups)
        if self.groups is None:
            return error
        independent = error_of_independent(values, self.weights)
        return np.maximum(error, np.sqrt(0.5) * np.hypot(error, np.sqrt(self._design_effect) * independent))

    @cached_property
    def _design_effect(self) -> float:
        """Variance of an average over that of as many independent atoms, averaged over the entries of L."""
        rows, columns = np.triu_indices(self.outputs)
        some = slice(None, None, -(-len(rows) // _MOST_ENTRIES))
        rows, columns = rows[some], columns[some]
        if self.narrow:
            entries = np.einsum("mek,mek->me", self.matrices[:, rows], self.matrices[:, columns])
        else:
            entries = self.matrices[:, rows, columns]
        independent = error_of_independent(entries, self.weights)
        seen = independent > 0
        spread = standard_error(entries, self.weights, self.groups)
        return float(((spread[seen] / independent[seen]) ** 2).mean()) if seen.any() else 1.0

    def average(self, values: Array) -> Array:
        """Σ_s w_s values_s over the leading axis of values (m, ...)."""
        return np.tensordot(self.weights, values, axes=1)

    def phases(self) -> Phases:
        """The phases of the law: which output directions are fitted, and how probable that is.

        With one output they are the modes of the density of log λ, cut at the minima between its peaks, with
        masses that carry no Monte Carlo error. Every minimum deeper than rounding counts; peaks that are e⁻⁶⁰
        of the highest, or lower, are left out. The number of modes depends on the coordinate: log λ is ours,
        because the prior of log λ has one mode at every depth and width. A single atom is one phase.

        Returns
        -------
        Phases
            Largest mass first; `.mass`, `.error`, `.mean_scale` and `.fitted_directions` are arrays.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> post = lbnn.Network(widths=(10,)).condition(np.eye(4), np.ones(4), beta=1.0)
        >>> post.scale.phases()
        Phases(1: mass 1, 0 fitted)
        """
        if isinstance(self.law, PhasedLaw):
            return self.law.phases(self)
        if self.deterministic and len(self.weights) > 1:
            raise ValueError(
                "phases are known for networks and for laws that name them, got the law "
                f"{type(self.law).__name__} of {len(self.weights)} atoms: use atoms and weights"
            )
        fitted = self.matrices.shape[2] if self.narrow else None
        return single_phase(self.average_scale, self.single_output, fitted)

    def log_density(self, value: Any) -> Array | float:
        """Posterior log density of the scale λ of one output, with respect to dλ.

        log ϖ(λ) + log p(Y | λ) − log p(Y); add log λ for the density of log λ.

        Parameters
        ----------
        value : number or array of numbers
            λ; for Y of shape (p, 1) also (..., 1, 1) matrices, as `sample` draws them.

        Returns
        -------
        float or array
            −inf for λ ≤ 0.

        Examples
        --------
        The posterior at β = 0 is the prior, here χ²(4)/4:

        >>> import numpy as np, lbnn
        >>> scale = lbnn.Network(widths=(4,)).condition(np.eye(3), np.ones(3), beta=0.0).scale
        >>> scale.log_density([0.5, 0.0])  # log(4 λ) − 2 λ
        array([-0.30685282,        -inf])
        """
        array = check.real_array(value, "value")
        if self.outputs != 1:
            raise ValueError(
                "log_density is known for one output, got a law of scale matrices of shape "
                f"{(self.outputs, self.outputs)}: use sample, expect or phases, or ask output by output"
            )
        if not isinstance(self.law, DensityLaw):
            raise ValueError(
                "log_density needs a scale with a density: at least one hidden layer of finite width, got "
                + (
                    f"a single atom at λ = {self.matrices[0, 0, 0]:g}"
                    if len(self.weights) == 1
                    else f"the law {type(self.law).__name__}"
                )
            )
        values = array[..., 0, 0] if not self.single_output and array.shape[-2:] == (1, 1) else array
        result = np.full(values.shape, -np.inf)
        positive = values > 0
        x = np.log(values[positive])
        result[positive] = self.law.log_density(x) - x
        return float(result) if result.ndim == 0 else result

    def log_expect_exp(self, exponent: Exponent) -> complex:
        """Log E exp(exponent(L)): the tilted normaliser behind densities and generating functions."""
        if self.law is not None:
            return self.law.log_expect_exp(exponent)
        return complex(special.logsumexp(exponent(*self.eigen), b=self.weights.astype(complex)))

    def sample(self, size: int, seed: Any) -> Array:
        """Draw scales: from the continuous law behind a quadrature, by resampling the atoms otherwise.

        Parameters
        ----------
        size : int
        seed : int or numpy.random.Generator

        Returns
        -------
        (size, n_d, n_d) array, or (size,) when Y was one-dimensional
        """
        draws = self._sample(check.positive_integer(size, "size"), check.generator(seed))
        return draws[:, 0, 0] if self.single_output else draws

    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        """`sample` without the checks, always (size, n_d, n_d)."""
        if self.law is not None:
            return self.law.sample(size, rng)
        return self.scales_of(rng.choice(len(self.weights), size=size, p=self.weights))

    def _thinned(self, most: int) -> tuple[IndexArray, Array]:
        """At most so many atoms and weights, (k,) each: all with weight, or equal ones by resampling.

        Those without weight may be singular in double precision, and then have no density.
        """
        counted = np.flatnonzero(self.weights)
        if len(counted) <= most:
            return counted, self.weights[counted]
        positions = (np.arange(most) + 0.5) / most * self.weights.sum()
        chosen = np.searchsorted(np.cumsum(self.weights), positions)
        return np.minimum(chosen, len(self.weights) - 1), np.full(most, 1 / most)

    def _shaped(self, value: Array) -> Array | float:
        """A matrix (n_d, n_d), or its entry when Y was one-dimensional."""
        return float(value[0, 0]) if self.single_output else value


def effective_atoms(log_terms: Array) -> Array:
    """(Σt)²/Σt² over the leading axis of log terms (m, ...): how many terms of a sum count."""
    top = log_terms.max(axis=0)
    terms = np.exp(log_terms - np.where(np.isfinite(top), top, 0.0))
    with np.errstate(invalid="ignore"):  # no term at all counts as none can tell
        return np.asarray(terms.sum(axis=0) ** 2 / (terms**2).sum(axis=0))


def unresolved(log_terms: Array) -> Mask:
    """Columns (nodes, k) -> (k,) of a trapezoid rule that its nodes do not resolve.

    Where the sum over every other node is another one, or mass is left at the ends.
    """
    terms = np.exp(log_terms - log_terms.max(axis=0))
    total = terms.sum(axis=0)
    change = np.abs(2 * terms[::2].sum(axis=0) / total - 1)
    ends = np.maximum(terms[0], terms[-1]) / total
    return np.asarray((change > _HALF_STEP_CHANGE) | (ends > _END_SHARE))
