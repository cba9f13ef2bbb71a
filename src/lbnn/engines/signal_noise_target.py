"""The posterior of signal and noise in coordinates in which their prior is standard normal.

The scale of the network, L̃ = O T Tᵀ Oᵀ, and that of the noise have Bartlett coordinates (`scale.bartlett`)
each. Units of the outputs, where they are not given, have coordinates of their own (`UnitPrior`):

    L = a L̃ a,                Σ = b (q I + r L̃₂) b,      a and b diagonal, q and r numbers,
    L = a (s I + t L̃₂) a,     the same Σ,

the second where signal and noise pass through the same factors, beside a signal and a noise that each output
has for itself.

Every part has a method `differentiable`: its value, and the map that takes a gradient in the value back to
one in the coordinates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import optimize, special

from lbnn._base.blocks import PRODUCT_FLOATS, blocks
from lbnn._base.types import Array, IndexArray, Mask
from lbnn.likelihood.signal_and_noise import Roots, SignalNoiseLikelihood
from lbnn.scale.bartlett import BartlettCoordinates, product
from lbnn.scale.prior import ScalePrior

_FARTHEST_UNIT = 30.0  # of a coordinate of the units, in prior deviations: beyond, a trajectory has diverged
_FARTHEST_WEIGHT = 1e8
_SMALLEST_FACTOR = 1e-3  # singular value of a root at a mode, relative to the largest, where one is zero


@dataclass(frozen=True)
class Units:
    """Logarithms of a, b (m, n_d) and of q, r, s, t (m,)."""

    signal: Array
    noise: Array
    independent: Array
    shared: Array
    own_signal: Array  # log s and log t; −∞ and 0 where the signal has a network of its own
    shared_signal: Array


@dataclass(frozen=True)
class GivenUnits:
    """Units that are given: L = L̃ and Σ = τ I + L̃₂."""

    outputs: int
    log_variance: float  # log τ

    @property
    def dimension(self) -> int:
        """Nothing is free."""
        return 0

    @property
    def same_factors(self) -> bool:
        """The signal has a network of its own."""
        return False

    def differentiable(self, w: Array) -> tuple[Units, Callable[[Units], Array]]:
        """The same for every draw w (m, 0): no coordinates, no gradient."""
        ones = np.zeros((len(w), self.outputs))
        zeros, nothing = np.zeros(len(w)), np.full(len(w), -np.inf)
        units = Units(ones, ones, np.full(len(w), self.log_variance), zeros, nothing, zeros)
        return units, lambda _: np.zeros((len(w), 0))

    def plausible(self, w: Array) -> Mask:
        """All of (m,)."""
        return np.ones(len(w), bool)


@dataclass(frozen=True)
class UnitPrior:
    """Variances of the outputs, shares of the signal in them, and of factors in the noise.

    With v_j the log of the variance of output j and h_j the share of the signal in it, both relative to an
    input of mean square ḡ,

        log a_j² = v_j + log h_j − log ḡ,     log b_j² = v_j + log(1 − h_j),     q = 1 − r,     s = 1 − t.

    v_j, logit h_j, logit q and logit s are normal, the first two with a part that all outputs share and a
    part for each output.

    Attributes
    ----------
    log_variances : (n_d,)
        Medians of v.
    log_gram : float
        log ḡ.
    common, own : float
        Standard deviations of the parts of v; an own part whose deviation is zero has no coordinates.
    common_share, own_share : float
        Standard deviations of the parts of logit h, likewise.
    factors : float
        Standard deviation of logit q and logit s.
    with_signal, with_shared : bool
        Whether there is a signal, and noise that is correlated across outputs.
    same_factors : bool
        Whether signal and noise pass through the same factors.
    """

    log_variances: Array
    log_gram: float
    common: float
    own: float
    common_share: float
    own_share: float
    factors: float
    with_signal: bool
    with_shared: bool
    same_factors: bool = False

    @property
    def outputs(self) -> int:
        """n_d."""
        return len(self.log_variances)

    @property
    def dimension(self) -> int:
        """Of variances and of shares 1 or 1 + n_d each, and one for the factors of noise and of signal."""
        variances, shares = (1 + self.outputs * (own > 0) for own in (self.own, self.own_share))
        return variances + shares * self.with_signal + self.with_shared + self.same_factors

    def differentiable(self, w: Array) -> tuple[Units, Callable[[Units], Array]]:
        """Units at standard normal coordinates w (m, dimension)."""
        start = 1 + self.outputs * (self.own > 0)
        log_variance = self.log_variances + _common_and_own(w[:, :start], self.common, self.own)
        signal, noise, share = np.full_like(log_variance, -np.inf), 0.5 * log_variance, None
        if self.with_signal:
            end = start + 1 + self.outputs * (self.own_share > 0)
            logit = _common_and_own(w[:, start:end], self.common_share, self.own_share)
            logit = np.broadcast_to(logit, noise.shape)
            signal = 0.5 * (log_variance - self.log_gram + special.log_expit(logit))
            noise, share = 0.5 * (log_variance + special.log_expit(-logit)), special.expit(logit)
        zeros, nothing = np.zeros(len(w)), np.full(len(w), -np.inf)
        end = self.dimension - self.same_factors
        noise_parts, from_noise_parts = (zeros, nothing), None
        if self.with_shared:
            noise_parts, from_noise_parts = _two_parts(w[:, end - 1], self.factors)
        signal_parts, from_signal_parts = (nothing, zeros), None
        if self.same_factors:
            signal_parts, from_signal_parts = _two_parts(w[:, end], self.factors)

        def pull_back(slopes: Units) -> Array:
            """Slopes along the units, (m, outputs) each, as slopes along w, (m, k)."""
            by_variance = 0.5 * slopes.noise
            if share is not None:
                by_variance = by_variance + 0.5 * slopes.signal
            columns = _to_common_and_own(by_variance, self.common, self.own)
            if share is not None:
                by_logit = 0.5 * ((1 - share) * slopes.signal - share * slopes.noise)
                columns += _to_common_and_own(by_logit, self.common_share, self.own_share)
            if from_noise_parts is not None:
                columns.append(from_noise_parts(slopes.independent, slopes.shared))
            if from_signal_parts is not None:
                columns.append(from_signal_parts(slopes.own_signal, slopes.shared_signal))
            return np.concatenate(columns, axis=1)

        return Units(signal, noise, *noise_parts, *signal_parts), pull_back

    def plausible(self, w: Array) -> Mask:
        """Where no coordinate (m, dimension) is absurd, (m,): otherwise a trajectory has diverged."""
        return np.asarray(np.all(np.abs(w) < _FARTHEST_UNIT, axis=1))


def _two_parts(w: Array, deviation: float) -> tuple[tuple[Array, Array], Callable[[Array, Array], Array]]:
    """log q and log(1 − q), (m,) each, for logit q = deviation · w (m,); and their slopes as one in w."""
    odds = deviation * w
    q = special.expit(odds)
    parts = special.log_expit(odds), special.log_expit(-odds)
    return parts, lambda first, second: (deviation * ((1 - q) * first - q * second))[:, None]


def _common_and_own(w: Array, common: float, own: float) -> Array:
    """common · w_0 + own · w_j, (m, n_d), or (m, 1) where w is (m, 1)."""
    return common * w[:, :1] + own * w[:, 1:] if own else common * w


def _to_common_and_own(slopes: Array, common: float, own: float) -> list[Array]:
    """Gradient in w, as a list of columns, from that in common · w_0 + own · w_j (m, n_d)."""
    return [common * slopes.sum(axis=1, keepdims=True), *([own * slopes] if own else ())]


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

    def differentiable(self, u: Array) -> tuple[Array, Callable[[Array], Array]]:
        """The same (m, n, columns) for every draw: no coordinates, no gradient."""
        return np.broadcast_to(self.matrix, (len(u), *self.matrix.shape)), lambda _: np.zeros((len(u), 0))

    def log_prior_tails(self, u: Array, gradient: Array) -> float:
        """Zero for u (m, 0)."""
        return 0.0

    def plausible(self, u: Array) -> Mask:
        """All of (m,)."""
        return np.ones(len(u), bool)


@dataclass(frozen=True)
class LastWeights:
    """W_2/√n_1 of a network of depth two that is narrower than its outputs: Gaussian entries.

    The posterior is invariant under rotations of the hidden units, so a search for a mode finds its way from
    every start. For draws see `aligned`.
    """

    outputs: int
    columns: int
    deviation: float  # of an entry, σ_2/√n_1
    prior: ScalePrior

    @property
    def dimension(self) -> int:
        """Number of weights."""
        return self.outputs * self.columns

    def differentiable(self, u: Array) -> tuple[Array, Callable[[Array], Array]]:
        """The weights (m, n_d, n_1), which are linear in u."""
        root = self.deviation * u.reshape(len(u), self.outputs, self.columns)
        return root, lambda slope: self.deviation * slope.reshape(len(u), -1)

    def log_prior_tails(self, u: Array, gradient: Array) -> float:
        """Zero for u (m, k): the prior is normal."""
        return 0.0

    def plausible(self, u: Array) -> Mask:
        """Mask (m,) of weights that doubles can square."""
        return np.asarray((np.abs(u) < _FARTHEST_WEIGHT).all(axis=1))

    def aligned(self, u: Array) -> tuple[BartlettRoot, Array]:
        """Bartlett coordinates in the axes of the weights at u (k,), and those of these weights, (k',)."""
        axes, sizes, _ = np.linalg.svd(self.differentiable(u[None])[0][0])
        factor = np.zeros((self.outputs, self.columns))
        np.fill_diagonal(factor, np.maximum(sizes, _SMALLEST_FACTOR * sizes[0]))
        coordinates = self.prior.coordinates
        return BartlettRoot(coordinates, axes), coordinates.locate([factor[None]])[0]


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

    def differentiable(self, u: Array) -> tuple[Array, Callable[[Array], Array]]:
        """O T, (m, n_d, columns), and the way back through the product of the factors."""
        factors, slopes = self.coordinates.factors_and_slopes(u)
        total = product(factors)
        assert total is not None
        return self.axes @ total, lambda slope: np.asarray(
            self.coordinates.pull_back(factors, slopes, self.axes.T @ slope)
        )

    def log_prior_tails(self, u: Array, gradient: Array) -> Array:
        """Of the diagonals of the factors, (m,)."""
        tails = np.zeros(len(u))
        self.coordinates.add_tails(u, tails, gradient)
        return tails

    def plausible(self, u: Array) -> Mask:
        """Mask (m,) where neither factors nor their inverses overflow."""
        return self.coordinates.plausible(u)


#: Coordinates u of a root of a scale in which its prior is standard normal, but for far tails.
RootCoordinates = GivenRoot | LastWeights | BartlettRoot


def root_coordinates(prior: ScalePrior, axes: Array) -> RootCoordinates:
    """Coordinates of a root of a network's scale.

    `axes` (n, n) of the outputs are columns, strongest first.
    """
    if not prior.widths:
        return GivenRoot(np.sqrt(prior.variance) * np.eye(prior.outputs))
    if len(prior.widths) == 1 and prior.widths[0] < prior.outputs:
        width = prior.widths[0]
        return LastWeights(prior.outputs, width, float(np.sqrt(prior.variance / width)), prior)
    narrow = min(prior.widths) < prior.outputs
    return BartlettRoot(prior.coordinates, axes if narrow else axes[:, ::-1].copy())


@dataclass(frozen=True)
class SignalNoiseTarget:
    """log posterior(u) = log prior(u) + log p(Y | L, Σ), up to a constant.

    Attributes
    ----------
    signal, noise : RootCoordinates
        Of the two scales; of the signal nothing where it passes through the factors of the noise.
    unit_prior : UnitPrior or GivenUnits
    likelihood : SignalNoiseLikelihood
    """

    signal: RootCoordinates
    noise: RootCoordinates
    unit_prior: UnitPrior | GivenUnits
    likelihood: SignalNoiseLikelihood

    @cached_property
    def ends(self) -> tuple[int, int]:
        """Where the coordinates of the signal end, and those of the noise."""
        return self.signal.dimension, self.signal.dimension + self.noise.dimension

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.ends[1] + self.unit_prior.dimension

    @property
    def _signal_columns(self) -> int:
        """k_1, of the root of L."""
        if self.unit_prior.same_factors:
            return self.noise.columns + self.likelihood.outputs
        return self.signal.columns

    @property
    def operations(self) -> float:
        """Rough number of floating-point operations of one gradient."""
        rows, outputs = len(self.likelihood.targets) + len(self.likelihood.outside), self.likelihood.outputs
        width = self._signal_columns + self.noise.columns
        return 5e4 + 12.0 * rows * outputs * width + 30.0 * outputs * width**2

    # ------------------------------------------------------------------ coordinates

    def roots(self, u: Array) -> Roots:
        """Signal and noise at u (m, D)."""
        return self._differentiable_roots(u)[0]

    def _differentiable_roots(self, u: Array) -> tuple[Roots, Callable[[Roots], Array]]:
        """Signal and noise at u (m, D), and from a gradient in them to one in u."""
        first, second = self.ends
        signal, from_signal = self.signal.differentiable(u[:, :first])
        noise, from_noise = self.noise.differentiable(u[:, first:second])
        units, from_units = self.unit_prior.differentiable(u[:, second:])
        a = np.exp(units.signal + 0.5 * units.shared_signal[:, None])[:, :, None]
        b = np.exp(units.noise + 0.5 * units.shared[:, None])[:, :, None]
        same = self.unit_prior.same_factors
        factors = a * (noise if same else signal)
        own = np.exp(units.signal + 0.5 * units.own_signal[:, None])  # of a √s I, (m, n_d)
        both = _beside_diagonal(factors, own) if same else factors
        roots = Roots(both, b * noise, 2 * units.noise + units.independent[:, None])

        def pull_back(slopes: Roots) -> Array:
            """Slopes along the roots, (m, outputs, any) each, as slopes along u, (m, D)."""
            by_noise = (slopes.noise * roots.noise).sum(axis=2)
            to_factors = slopes.signal[:, :, : factors.shape[2]]
            by_factors = (to_factors * factors).sum(axis=2)
            by_own = np.zeros_like(by_factors)
            if same:
                by_own = own * np.diagonal(slopes.signal[:, :, factors.shape[2] :], axis1=1, axis2=2)
            to_units = Units(
                by_factors + by_own,
                by_noise + 2 * slopes.log_variances,
                slopes.log_variances.sum(axis=1),
                0.5 * by_noise.sum(axis=1),
                0.5 * by_own.sum(axis=1),
                0.5 * by_factors.sum(axis=1),
            )
            to_signal, to_noise = a * to_factors, b * slopes.noise
            if same:
                to_signal, to_noise = to_signal[:, :, :0], to_noise + to_signal
            parts = from_signal(to_signal), from_noise(to_noise), from_units(to_units)
            return np.concatenate(parts, axis=1)

        return roots, pull_back

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
        roots, pull_back = self._differentiable_roots(u)
        value, slopes = self.likelihood.value_and_gradient(roots)
        assert slopes is not None
        return value, pull_back(slopes)

    def _log_prior(self, u: Array) -> tuple[Array, Array]:
        """Log prior (m,) and gradient (m, k): standard normal but for the tails of diagonals."""
        value, gradient = -0.5 * (u**2).sum(axis=1), -u
        for coordinates, part in self._parts():
            value = value + coordinates.log_prior_tails(u[:, part], gradient[:, part])
        return value, gradient

    def _parts(self) -> Iterator[tuple[RootCoordinates, slice]]:
        first, second = self.ends
        yield self.signal, slice(0, first)
        yield self.noise, slice(first, second)

    def _blocks(self, u: Array) -> Iterator[tuple[slice, IndexArray]]:
        """Blocks of points u (m, k), and those of them whose factors do not overflow."""
        fine = self.unit_prior.plausible(u[:, self.ends[1] :])
        for coordinates, part in self._parts():
            fine &= coordinates.plausible(u[:, part])
        # four arrays (k_1, rows) of the rows as the likelihood sees them, and four of the size of the roots
        rows, width = len(self.likelihood.targets), self._signal_columns
        floats = 4 * rows * width + 4 * self.likelihood.outputs * (width + self.noise.columns)
        for block in blocks(len(u), floats, PRODUCT_FLOATS):
            if fine[block].any():
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


def _beside_diagonal(factors: Array, own: Array) -> Array:
    """[B, diag(own)], (m, n_d, k + n_d), for B (m, n_d, k)."""
    return np.concatenate([factors, own[:, :, None] * np.eye(own.shape[1])], axis=2)


def aligned(target: SignalNoiseTarget, seed: int = 0) -> tuple[SignalNoiseTarget, Array]:
    """The same posterior in coordinates for draws, and a mode of it, (D,), sought from a random start.

    Weights of a narrow network can be rotated among its hidden units. Draws that are spread over all
    rotations have a covariance much wider than the posterior around any of them, and moves in its units are
    too long: they needed three times as many gradients. A lower trapezoidal root with a positive diagonal has
    no such freedom. In the axes of the root at a mode its diagonal is far from zero for every factor that the
    data determine.
    """
    begin = 0.1 * np.random.default_rng(seed).standard_normal(target.dimension)  # zero is a saddle point
    mode = mode_from(target, begin)
    first, second = target.ends
    parts, places = [], []
    for coordinates, place in ((target.signal, mode[:first]), (target.noise, mode[first:second])):
        moved = coordinates.aligned(place) if isinstance(coordinates, LastWeights) else (coordinates, place)
        parts.append(moved[0])
        places.append(moved[1])
    return replace(target, signal=parts[0], noise=parts[1]), np.concatenate([*places, mode[second:]])


def mode_from(target: SignalNoiseTarget, begin: Array) -> Array:
    """The mode of the posterior to which a search from u (D,) leads, (D,)."""

    def negative(u: Array) -> tuple[float, Array]:
        """Minus the log posterior and its gradient at u (D,); far out a large number."""
        value, gradient = target.value_and_gradient(u[None])
        return -max(float(value[0]), -1e100), -gradient[0]

    return optimize.minimize(negative, begin, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x


def fitted_starts(target: SignalNoiseTarget, mode: Array) -> Iterator[Array]:
    """Where searches for other modes begin, (D,) each: at a mode (D,), with other roots of the scales.

    Behind two layers of weights or more a direction can be fitted or collapse, and both can be modes.
    """
    if not (_is_deep(target.signal) or _is_deep(target.noise)):
        return
    likelihood = target.likelihood
    rows = np.concatenate([likelihood.targets, likelihood.outside])
    strengths = float(likelihood.eigenvalues.sum()), float(likelihood.examples)
    first, second = target.ends
    signals, noises = (
        [*_phase_roots(root, rows / np.sqrt(strength)), mode[part]]
        for root, strength, part in zip(
            (target.signal, target.noise), strengths, (slice(0, first), slice(first, second)), strict=True
        )
    )
    rng = np.random.default_rng(2)
    for signal, noise in itertools.product(signals, noises):
        begin = np.concatenate([signal, noise, mode[second:]])
        yield begin + 0.1 * rng.standard_normal(len(begin))  # zero is a saddle point


def _is_deep(root: RootCoordinates) -> bool:
    return isinstance(root, BartlettRoot) and len(root.coordinates.shapes) > 1


def _phase_roots(root: RootCoordinates, rows: Array) -> Iterator[Array]:
    """Coordinates (k,) of a typical root, and of a deep one that fits the strongest axis of rows, and all."""
    if not isinstance(root, BartlettRoot):
        return
    sizes = ((rows @ root.axes) ** 2).sum(axis=0)[: root.columns]
    order = np.argsort(-sizes)
    for count in sorted({0, 1, root.columns}) if _is_deep(root) else (0,):
        factors = root.coordinates.factors(np.zeros((1, root.dimension)))
        fitted = order[:count][sizes[order[:count]] > 0]
        for factor in factors:
            factor[0, fitted, fitted] = sizes[fitted] ** (0.5 / len(factors))
        yield root.coordinates.locate(factors)[0]
