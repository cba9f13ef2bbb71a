"""The posterior of signal and noise in coordinates in which their prior is standard normal.

The scale of the network, L̃ = O T Tᵀ Oᵀ, and that of the noise have Bartlett coordinates (`scale.bartlett`)
each. Units of the outputs, where they are not given, have coordinates of their own (`UnitPrior`):

    L = a L̃ a,      Σ = b (q I + r L̃₂) b,      a and b diagonal, q and r numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import special

from lbnn._base.blocks import blocks
from lbnn._base.types import Array, IndexArray, Mask
from lbnn.likelihood.signal_and_noise import Roots, SignalNoiseLikelihood
from lbnn.scale.bartlett import BartlettCoordinates, product
from lbnn.scale.prior import ScalePrior

_FARTHEST_LOG = 40.0  # of a log variance from its median: beyond, a trajectory has diverged
_FARTHEST_WEIGHT = 1e8


@dataclass(frozen=True)
class Units:
    """Logarithms of a, b (m, n_d) and of q, r (m,)."""

    signal: Array
    noise: Array
    independent: Array
    shared: Array


@dataclass(frozen=True)
class GivenUnits:
    """Units that are given: L = L̃ and Σ = τ I + L̃₂."""

    outputs: int
    log_variance: float  # log τ

    @property
    def dimension(self) -> int:
        """Nothing is free."""
        return 0

    def units(self, w: Array) -> Units:
        """The same for every draw w (m, 0)."""
        ones = np.zeros((len(w), self.outputs))
        return Units(ones, ones, np.full(len(w), self.log_variance), np.zeros(len(w)))

    def pull_back(self, w: Array, slopes: Units) -> Array:
        """No coordinates, no gradient: (m, 0)."""
        return np.zeros((len(w), 0))

    def plausible(self, w: Array) -> Mask:
        """All of (m,)."""
        return np.ones(len(w), bool)


@dataclass(frozen=True)
class UnitPrior:
    """Log-normal units: log a_j² = log s_j + common + own_j, likewise b; q = 1 − r by a logistic normal.

    How much the units of outputs differ is learned: own_j has a standard deviation σ of its own, log-normal,
    one for the signal and one for the noise.

    Attributes
    ----------
    log_signal, log_noise : (n_d,)
        Medians of log a² and log b².
    common : float
        Standard deviation of what all outputs share.
    own, own_spread : float
        Median of σ, and standard deviation of log σ.
    share : float
        Standard deviation of logit q.
    with_signal, with_shared : bool
        Whether there is a signal, and noise that is correlated across outputs.
    """

    log_signal: Array
    log_noise: Array
    common: float
    own: float
    own_spread: float
    share: float
    with_signal: bool
    with_shared: bool

    @property
    def outputs(self) -> int:
        """n_d."""
        return len(self.log_noise)

    @property
    def dimension(self) -> int:
        """For noise and signal a common unit, σ and one unit for each output; and q."""
        return (2 + self.outputs) * (1 + self.with_signal) + self.with_shared

    def units(self, w: Array) -> Units:
        """At standard normal coordinates w (m, dimension)."""
        width = 2 + self.outputs
        noise = 0.5 * (self.log_noise + self._deviations(w[:, :width]))
        signal = np.broadcast_to(0.5 * self.log_signal, noise.shape)
        if self.with_signal:
            signal = signal + 0.5 * self._deviations(w[:, width : 2 * width])
        if not self.with_shared:
            return Units(signal, noise, np.zeros(len(w)), np.full(len(w), -np.inf))
        logit = self.share * w[:, -1]
        return Units(signal, noise, special.log_expit(logit), special.log_expit(-logit))

    def plausible(self, w: Array) -> Mask:
        """Where variances are within e^±40 of their medians, (m,): otherwise a trajectory has diverged."""
        width = 2 + self.outputs
        fine: Mask = np.all(np.abs(w) < _FARTHEST_LOG, axis=1)
        for part in (w[:, :width], w[:, width : 2 * width])[: 1 + self.with_signal]:
            near = np.where(fine[:, None], part, 0.0)
            fine &= np.all(np.abs(self._deviations(near)) < _FARTHEST_LOG, axis=1)
        return fine

    def _deviations(self, w: Array) -> Array:
        """Common and own parts of log a² or log b², (m, n_d)."""
        return self.common * w[:, :1] + self._sigma(w)[:, None] * w[:, 2:]

    def _sigma(self, w: Array) -> Array:
        """Spread of the units of outputs, (m,)."""
        return self.own * np.exp(self.own_spread * w[:, 1])

    def pull_back(self, w: Array, slopes: Units) -> Array:
        """Gradient in w from that in the logarithms, (m, dimension)."""
        width, columns = 2 + self.outputs, []
        for number, slope in enumerate([slopes.noise] + [slopes.signal] * self.with_signal):
            part = w[:, number * width : (number + 1) * width]
            sigma = self._sigma(part)
            by_sigma = self.own_spread * sigma * (part[:, 2:] * slope).sum(axis=1)
            columns += [0.5 * self.common * slope.sum(axis=1, keepdims=True), 0.5 * by_sigma[:, None]]
            columns.append(0.5 * sigma[:, None] * slope)
        if self.with_shared:
            q = special.expit(self.share * w[:, -1])
            columns.append((self.share * ((1 - q) * slopes.independent - q * slopes.shared))[:, None])
        return np.concatenate(columns, axis=1)


class RootCoordinates(Protocol):
    """Coordinates u of a root of a scale in which its prior is standard normal, but for far tails."""

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        ...

    @property
    def columns(self) -> int:
        """Of the root."""
        ...

    def root(self, u: Array) -> Array:
        """(m, n_d, columns) at u (m, dimension)."""
        ...

    def pull_back(self, u: Array, slope: Array) -> Array:
        """Gradient in u (m, k) from that in the root (m, n, columns)."""
        ...

    def log_prior_tails(self, u: Array, gradient: Array) -> Array | float:
        """What the log prior has beyond a normal one, (m,); its gradient (m, k) is added in place."""
        ...

    def plausible(self, u: Array) -> Mask:
        """Where nothing overflows, (m,)."""
        ...


@dataclass(frozen=True)
class GivenRoot:
    """A root (n_d, columns) that is given; no columns for a scale of zero."""

    matrix: Array

    @property
    def dimension(self) -> int:
        """Nothing is free."""
        return 0

    @property
    def columns(self) -> int:
        """Of the root."""
        return self.matrix.shape[1]

    def root(self, u: Array) -> Array:
        """The same (m, n, columns) for every draw."""
        return np.broadcast_to(self.matrix, (len(u), *self.matrix.shape))

    def pull_back(self, u: Array, slope: Array) -> Array:
        """No coordinates, no gradient: (m, 0)."""
        return np.zeros((len(u), 0))

    def log_prior_tails(self, u: Array, gradient: Array) -> float:
        """Zero for u (m, 0)."""
        return 0.0

    def plausible(self, u: Array) -> Mask:
        """All of (m,)."""
        return np.ones(len(u), bool)


@dataclass(frozen=True)
class LastWeights:
    """W_2/√n_1 of a network of depth two that is narrower than its outputs: Gaussian entries.

    In Bartlett coordinates the positive diagonal is a barrier between signs and orders of the factors; here
    the posterior is invariant under rotations of the hidden units, and trajectories go around.
    """

    outputs: int
    columns: int
    deviation: float  # of an entry, σ_2/√n_1

    @property
    def dimension(self) -> int:
        """Number of weights."""
        return self.outputs * self.columns

    def root(self, u: Array) -> Array:
        """(m, n_d, n_1)."""
        return self.deviation * u.reshape(len(u), self.outputs, self.columns)

    def pull_back(self, u: Array, slope: Array) -> Array:
        """Gradient (m, k) in the weights, which enter linearly."""
        return self.deviation * slope.reshape(len(u), -1)

    def log_prior_tails(self, u: Array, gradient: Array) -> float:
        """Zero for u (m, k): the prior is normal."""
        return 0.0

    def plausible(self, u: Array) -> Mask:
        """Mask (m,) of weights that doubles can square."""
        return np.asarray((np.abs(u) < _FARTHEST_WEIGHT).all(axis=1))


@dataclass(frozen=True)
class BartlettRoot:
    """O T_d ⋯ T_2: any network of depth two or more, in axes O of the outputs."""

    coordinates: BartlettCoordinates
    axes: Array

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.coordinates.dimension

    @property
    def columns(self) -> int:
        """The narrowest layer, or n_d."""
        return self.coordinates.shapes[-1].columns

    def root(self, u: Array) -> Array:
        """O T, (m, n_d, columns)."""
        total = product(self.coordinates.factors(u))
        assert total is not None
        return self.axes @ total

    def pull_back(self, u: Array, slope: Array) -> Array:
        """Gradient in u (m, k) through the product of the factors."""
        factors, slopes = self.coordinates.factors_and_slopes(u)
        return self.coordinates.pull_back(factors, slopes, self.axes.T @ slope)

    def log_prior_tails(self, u: Array, gradient: Array) -> Array:
        """Of the diagonals of the factors, (m,)."""
        tails = np.zeros(len(u))
        self.coordinates.add_tails(u, tails, gradient)
        return tails

    def plausible(self, u: Array) -> Mask:
        """Mask (m,) where neither factors nor their inverses overflow."""
        return self.coordinates.plausible(u)


def root_coordinates(prior: ScalePrior, axes: Array) -> RootCoordinates:
    """Coordinates of a root of a network's scale.

    `axes` (n, n) of the outputs are columns, strongest first.
    """
    if not prior.widths:
        return GivenRoot(np.sqrt(prior.variance) * np.eye(prior.outputs))
    if len(prior.widths) == 1 and prior.widths[0] < prior.outputs:
        width = prior.widths[0]
        return LastWeights(prior.outputs, width, float(np.sqrt(prior.variance / width)))
    narrow = min(prior.widths) < prior.outputs
    return BartlettRoot(prior.coordinates, axes if narrow else axes[:, ::-1].copy())


@dataclass(frozen=True)
class SignalNoiseTarget:
    """log posterior(u) = log prior(u) + log p(Y | L, Σ), up to a constant.

    Attributes
    ----------
    signal, noise : RootCoordinates
        Of the two scales.
    unit_prior : UnitPrior or GivenUnits
    likelihood : SignalNoiseLikelihood
    """

    signal: RootCoordinates
    noise: RootCoordinates
    unit_prior: UnitPrior | GivenUnits
    likelihood: SignalNoiseLikelihood

    @cached_property
    def _ends(self) -> tuple[int, int]:
        return self.signal.dimension, self.signal.dimension + self.noise.dimension

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self._ends[1] + self.unit_prior.dimension

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient."""
        rows, outputs = len(self.likelihood.targets) + len(self.likelihood.outside), self.likelihood.outputs
        width = self.signal.columns + self.noise.columns
        return 5e4 + 12.0 * rows * outputs * width + 30.0 * outputs * width**2

    # ------------------------------------------------------------------ coordinates

    def roots(self, u: Array) -> Roots:
        """Signal and noise at u (m, D)."""
        first, second = self._ends
        units = self.unit_prior.units(u[:, second:])
        return Roots(
            np.exp(units.signal)[:, :, None] * self.signal.root(u[:, :first]),
            np.exp(units.noise + 0.5 * units.shared[:, None])[:, :, None]
            * self.noise.root(u[:, first:second]),
            2 * units.noise + units.independent[:, None],
        )

    def log_density(self, u: Array) -> Array:
        """Log posterior up to a constant, (m,); −inf where factors or their inverses would overflow."""
        result = np.full(len(u), -np.inf)
        for block, fine in self._blocks(u):
            points = u[block][fine]
            result[block][fine] = self._log_prior(points)[0] + self.likelihood.log_value(self.roots(points))
        return result

    def integrand(self, u: Array) -> Array:
        """log p(Y | L, Σ) at u, (m,)."""
        return self.likelihood.log_constant + self.likelihood.log_value(self.roots(u))

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """`log_density` (m,) and its gradient in u (m, k) (zero where factors would overflow)."""
        value, gradient = np.full(len(u), -np.inf), np.zeros_like(u)
        for block, fine in self._blocks(u):
            points = u[block][fine]
            log_prior, prior_slope = self._log_prior(points)
            log_likelihood, slope = self._differentiate(points)
            value[block][fine], gradient[block][fine] = log_prior + log_likelihood, prior_slope + slope
        return value, gradient

    def _differentiate(self, u: Array) -> tuple[Array, Array]:
        """Log likelihood (m,) and its gradient in u (m, k), through units and factors."""
        first, second = self._ends
        roots = self.roots(u)
        value, slopes = self.likelihood.value_and_gradient(roots)
        assert slopes is not None
        by_variance = slopes.log_variances
        by_noise, by_signal = slopes.noise * roots.noise, slopes.signal * roots.signal
        units = self.unit_prior.units(u[:, second:])
        to_units = Units(
            by_signal.sum(axis=2),
            by_noise.sum(axis=2) + 2 * by_variance,
            by_variance.sum(axis=1),
            0.5 * by_noise.sum(axis=(1, 2)),
        )
        scaled = np.exp(units.signal)[:, :, None] * slopes.signal
        shared = np.exp(units.noise + 0.5 * units.shared[:, None])[:, :, None] * slopes.noise
        return value, np.concatenate(
            [
                self.signal.pull_back(u[:, :first], scaled),
                self.noise.pull_back(u[:, first:second], shared),
                self.unit_prior.pull_back(u[:, second:], to_units),
            ],
            axis=1,
        )

    def _log_prior(self, u: Array) -> tuple[Array, Array]:
        """Log prior (m,) and gradient (m, k): standard normal but for the tails of diagonals."""
        value, gradient = -0.5 * (u**2).sum(axis=1), -u
        for coordinates, part in self._parts():
            value = value + coordinates.log_prior_tails(u[:, part], gradient[:, part])
        return value, gradient

    def _parts(self) -> Iterator[tuple[RootCoordinates, slice]]:
        first, second = self._ends
        yield self.signal, slice(0, first)
        yield self.noise, slice(first, second)

    def _blocks(self, u: Array) -> Iterator[tuple[slice, IndexArray]]:
        """Blocks of points u (m, k), and those of them whose factors do not overflow."""
        fine = self.unit_prior.plausible(u[:, self._ends[1] :])
        for coordinates, part in self._parts():
            fine &= coordinates.plausible(u[:, part])
        rows = len(self.likelihood.targets) + len(self.likelihood.outside)
        for block in blocks(len(u), 4 * rows * self.likelihood.outputs):
            yield block, np.flatnonzero(fine[block])

    def log_diagonals(self, u: Array) -> Array:
        """log L_jj and log Σ_jj, those that are not given, of which averages are compared, (m, any)."""
        roots, columns = self.roots(u), []
        free = self.unit_prior.dimension > 0
        if roots.signal.shape[2] and (free or self.signal.dimension):
            columns.append(np.log((roots.signal**2).sum(axis=2)))
        if free or self.noise.dimension:
            columns.append(np.log((roots.noise**2).sum(axis=2) + np.exp(roots.log_variances)))
        return np.concatenate(columns, axis=1)
