"""ScaleMeasure: a probability measure over scale matrices as weighted atoms, however it was made."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import special

from lbnn._base import check
from lbnn._base.errors import AccuracyWarning
from lbnn._base.types import Array, ComplexArray, IndexArray

#: A log factor on scales, given by eigenvalues (m, n_d) and eigenvectors (m, n_d, n_d), to values (m,).
LogFactor = Callable[[Array, Array], Array | ComplexArray]


class Law(Protocol):
    """The law behind the atoms: what it can do better than a sum over them."""

    def log_expect_exp(self, log_factor: LogFactor) -> complex:
        """Log E exp(log_factor(L)), with atoms chosen for this factor where the own ones do not serve."""
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


@dataclass(frozen=True)
class Tails:
    """What the atoms cannot tell about the law of L: which of its integrals converge."""

    inverse_mean_exists: bool = True
    exponential_rate: float = math.inf  # supremum of κ with E exp(½ κ l_max) finite
    narrowest: float = math.inf  # hidden width that decides which negative moments of L exist


@dataclass(frozen=True)
class ScaleMeasure:
    """A law of the scale matrix L, held as weighted atoms.

    Quadrature nodes, weighted draws, equal-weight draws and the single atoms of the limit theories are all
    of this kind, so that what is computed from them is written once.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> post = lbnn.Network(widths=(10,)).condition(rng.normal(size=(5, 8)), np.ones(5), beta=1.0)
    >>> bool(np.isclose(post.scale.expect(lambda scale: scale), post.scale.mean))
    True
    """

    scales: Array  # (m, n_d, n_d)
    weights: Array  # (m,), normalised
    single_output: bool
    tails: Tails = Tails()
    law: Law | None = None
    groups: IndexArray | None = (
        None  # (m,), independent replicates; None where the atoms carry no Monte Carlo error
    )

    def __repr__(self) -> str:
        """One line: the atoms can be thousands."""
        return f"ScaleMeasure({len(self.weights)} atoms of shape {self.atoms.shape[1:]}, mean={self.mean!r})"

    @classmethod
    def atom(cls, scale: Array, single_output: bool) -> ScaleMeasure:
        """All mass on one scale matrix (n_d, n_d)."""
        return cls(scale[None], np.ones(1), single_output)

    def behind(self, law: Law) -> ScaleMeasure:
        """The same atoms with the law behind them."""
        return replace(self, law=law)

    @property
    def atoms(self) -> Array:
        """The scales L_s, (m, n_d, n_d), or (m,) when Y was one-dimensional."""
        return self.scales[:, 0, 0] if self.single_output else self.scales

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
        """Eigenvalues l (m, n_d) and eigenvectors V (m, n_d, n_d) of every atom."""
        if self.scales.shape[1] == 1:
            return self.scales[:, 0, :], np.ones_like(self.scales)
        values, vectors = np.linalg.eigh(self.scales)
        return np.maximum(values, 0.0), vectors  # a scale is a Gram matrix: negative values are rounding

    @property
    def mean(self) -> Array | float:
        """E L."""
        return self._shaped(self.average(self.scales))

    @property
    def inverse_mean(self) -> Array | float:
        """E L⁻¹; infinite (on the diagonal, undefined off it) where the integral diverges."""
        if not self.tails.inverse_mean_exists:
            return self._shaped(np.where(np.eye(self.scales.shape[1]) > 0, np.inf, np.nan))
        values, vectors = self.eigen
        return self._shaped(self.average((vectors / values[:, None, :]) @ vectors.swapaxes(1, 2)))

    def expect(self, fn: Callable[[Array], Any]) -> Any:
        """E fn(L) for fn of one atom: a matrix, or a number when Y was one-dimensional."""
        return self.average(np.stack([np.asarray(fn(atom)) for atom in self.atoms]))[()]

    def expect_with_error(self, fn: Callable[[Array], Any]) -> tuple[Any, Any]:
        """E fn(L) and its Monte Carlo standard error (zero where the atoms carry none)."""
        values = np.stack([np.asarray(fn(atom), float) for atom in self.atoms])
        return self.average(values)[()], self.standard_error(values)[()]

    @property
    def mean_error(self) -> Array | float:
        """Monte Carlo standard error of `mean`, entry by entry."""
        return self._shaped(self.standard_error(self.scales))

    def standard_error(self, values: Array) -> Array:
        """Standard error of `average(values)`, from the spread of the independent groups of atoms."""
        if self.groups is None:
            return np.zeros(values.shape[1:])
        labels = np.unique(self.groups)
        centred = values - self.average(values)
        parts = [
            np.tensordot(self.weights[here], centred[here], axes=1) for here in self.groups == labels[:, None]
        ]
        return np.sqrt((np.stack(parts) ** 2).sum(axis=0) * len(labels) / (len(labels) - 1))

    def average(self, values: Array) -> Array:
        """Σ_s w_s values_s over the leading axis."""
        return np.tensordot(self.weights, values, axes=1)

    def log_expect_exp(self, log_factor: LogFactor) -> complex:
        """Log E exp(log_factor(L)): the tilted normaliser behind densities and generating functions."""
        if self.law is not None:
            return self.law.log_expect_exp(log_factor)
        return complex(special.logsumexp(log_factor(*self.eigen), b=self.weights.astype(complex)))

    def warn_of_few(self, log_factors: Array, fewest: float) -> None:
        """Warn where E exp(log_factors), (m, k) at the atoms, rests on fewer than so many draws."""
        if self.deterministic:
            return
        with np.errstate(divide="ignore"):  # weights may have underflowed to zero
            effective = effective_atoms(np.log(self.weights)[:, None] + log_factors)
        few = np.count_nonzero(effective < fewest)
        if few:
            warnings.warn(
                f"{few} of {len(effective)} averages over the scale rest on fewer than {fewest:g} effective "
                f"draws (fewest {effective.min():.1f}, number {effective.argmin()}): use a smaller "
                "target_error, or for densities log_density at one point",
                AccuracyWarning,
                stacklevel=3,
            )

    def sample(self, size: int, rng: Any) -> Array:
        """Draw scales: from the continuous law behind a quadrature, by resampling the atoms otherwise.

        Parameters
        ----------
        size : int
        rng : int or numpy.random.Generator

        Returns
        -------
        (size, n_d, n_d) array, or (size,) when Y was one-dimensional
        """
        draws = self.draw(check.positive_integer(size, "size"), check.generator(rng))
        return draws[:, 0, 0] if self.single_output else draws

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """`sample` without the checks, always (size, n_d, n_d)."""
        if self.law is not None:
            return self.law.sample(size, rng)
        return self.scales[rng.choice(len(self.weights), size=size, p=self.weights)]

    def _shaped(self, value: Array) -> Array | float:
        return float(value[0, 0]) if self.single_output else value


def effective_atoms(log_terms: Array) -> Array:
    """(Σt)²/Σt² over the leading axis: how many terms of a sum count."""
    return np.exp(2 * special.logsumexp(log_terms, axis=0) - special.logsumexp(2 * log_terms, axis=0))
