"""Predictions of bands: a mixture of Gaussians over directions, signal-to-noise ratios and noise variances.

Along one direction, with Φ = K_*θ U at new inputs and k_**θ their kernel, given u and τ

    mean Σ_i Φ_i ỹ_i e^u/(1 + e^u g_i),   variance s (k_**θ − Σ_i Φ_i² e^u/(1 + e^u g_i)),   s = τ e^u.

Means come from the dual coefficients of the fit, variances by the same sums over the lattice of u as the
posterior. For the spread of means, densities and quantiles, the law of u along each direction is replaced by
a Gauss rule of its own, and that of log τ given u by two points with its mean and variance.

With three bands or more, means and variances are interpolated between directions, which takes weights of
either sign. A density needs weights that are at least zero. It is a mixture over the directions with those,
shifted and scaled at every point to the interpolated mean and variance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lbnn._base import check
from lbnn._base.arrays import device_of, namespace, to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn._base.warn import warn
from lbnn.bands.block_posterior import BlockPosterior
from lbnn.bands.data import BandKernels, BandsData, BandTargets
from lbnn.bands.prior import BandPriors
from lbnn.bands.quadrature import Conditional, Directions, Line

#: Nodes of Gauss rules for u with a deviation below one, and for others. Sigmoids are analytic within π of
#: the real axis: five deviations of one to either side leave ρ^(−2n) = 2e-5, ρ = π/5 + √(1 + (π/5)²), with
#: nine. Of 14 problems with wide or long-tailed laws of u all deviations of predictions were right to 1e-4.
_FEW, _MANY = 9, 21
_GRID = np.sinh(np.linspace(-3.0, 3.0, 61)) / np.sinh(3.0) * 10.0  # deviations from the mean, for quantiles


@dataclass(frozen=True)
class TestKernels:
    """New inputs for the bands that are not zero, in units of mean diagonal one.

    Attributes
    ----------
    cross : tuple of (m, p)
        K_*k.
    diagonals : tuple of (m,) or None
        k_k(x, x).
    """

    __test__ = False  # not a test of pytest

    cross: tuple[AnyArray, ...]
    diagonals: tuple[AnyArray, ...] | None


def test_kernels(
    kernels: BandKernels, variances: Array, blocks: Any, cross_kernels: Any, diagonals: Any
) -> TestKernels:
    """Check new inputs (m, n_k), or kernels (m, p) with the training inputs."""
    if kernels.blocks is not None:
        if blocks is None:
            raise ValueError("a fit of inputs predicts at inputs, got none: give one block for each band")
        listed = _checked(blocks, [int(each.shape[1]) for each in kernels.blocks], "block")
        cross, own = [], []
        for band in kernels.used:
            unit = float(variances[band]) / listed[band].shape[1] / float(kernels.sizes[band])
            cross.append(unit * (listed[band] @ kernels.blocks[band].T))
            own.append(unit * namespace(listed[band]).sum(listed[band] * listed[band], axis=1))
        return TestKernels(tuple(cross), tuple(own))
    if cross_kernels is None:
        raise ValueError("a fit of kernels predicts from kernels, got none: give cross_kernels")
    listed = _checked(cross_kernels, [kernels.examples] * len(kernels.sizes), "cross kernel")
    units = {band: float(variances[band]) / float(kernels.sizes[band]) for band in kernels.used}
    cross = [units[band] * listed[band] for band in kernels.used]
    if diagonals is None:
        return TestKernels(tuple(cross), None)
    device = device_of(listed[0])
    own = [
        units[band] * device.put(check.real_array(diagonals[band], "test_diagonals")) for band in kernels.used
    ]
    return TestKernels(tuple(cross), tuple(own))


test_kernels.__test__ = False  # type: ignore[attr-defined]


def _checked(arrays: Any, columns: Sequence[int], name: str) -> list[AnyArray]:
    """The arrays (m, columns) of all bands, if they fit together."""
    listed = list(arrays)
    if len(listed) != len(columns):
        raise ValueError(f"there must be one {name} for each of {len(columns)} bands, got {len(listed)}")
    checked = [check.matrix_in_place(each, f"{name} {number}") for number, each in enumerate(listed)]
    for number, (each, wanted) in enumerate(zip(checked, columns, strict=True)):
        if int(each.shape[1]) != wanted or each.shape[0] != checked[0].shape[0]:
            raise ValueError(
                f"{name} {number} must have shape ({int(checked[0].shape[0])}, {wanted}), "
                f"got {tuple(each.shape)}"
            )
    return checked


@dataclass(frozen=True)
class Conditioned:
    """All that predictions need of a fit: data, priors and the posteriors of blocks of targets.

    Attributes
    ----------
    data : BandsData
    priors : BandPriors
    posteriors : tuple of BlockPosterior
    target_error : float
    dual : (K, p, L)
        Coefficients of the kernels of all bands, as given, in the posterior mean.
    """

    data: BandsData
    priors: BandPriors
    posteriors: tuple[BlockPosterior, ...]
    target_error: float
    dual: AnyArray


@dataclass(frozen=True, repr=False)
class BandsPredictive:
    """The predictive distribution at m new inputs for V targets, each (point, target) by itself."""

    fit: Conditioned
    test: TestKernels
    noise: bool = False

    def __repr__(self) -> str:
        points, targets = int(self.test.cross[0].shape[0]), self.fit.data.count
        return f"BandsPredictive(points={points}, targets={targets}, noise={self.noise})"

    def with_noise(self) -> BandsPredictive:
        """The predictive distribution of observations rather than of the function."""
        return replace(self, noise=True)

    @cached_property
    def contributions(self) -> AnyArray:
        """Posterior means of each band's function, (K, m, V); they add up to the mean."""
        data, dual = self.fit.data, self.fit.dual
        rows, columns = int(self.test.cross[0].shape[0]), int(dual.shape[2])
        found = [device_of(dual).zeros(rows, columns) for _ in data.kernels.sizes]
        for cross, band in zip(self.test.cross, data.kernels.used, strict=True):
            found[band] = float(data.kernels.sizes[band]) * (cross @ dual[int(band), ...])
        return data.of_all(namespace(dual).stack(found))

    @cached_property
    def mean(self) -> AnyArray:
        """(m, V)."""
        return namespace(self.fit.dual).sum(self.contributions, axis=0)

    @property
    def variance(self) -> Array:
        """(m, V), as NumPy."""
        return self._moments.variance

    @property
    def standard_deviation(self) -> Array:
        """(m, V), as NumPy."""
        return np.sqrt(self.variance)

    @property
    def mean_error(self) -> Array:
        """Numerical error of the mean from two halves of the directions, (m, V)."""
        return self._moments.mean_error

    @property
    def standard_deviation_error(self) -> Array:
        """Numerical error of the standard deviation from two halves of the directions, (m, V)."""
        return self._moments.deviation_error

    @cached_property
    def _moments(self) -> _Moments:
        """Variances, their errors and those of the means, and the moments of the mixture of densities.

        NaN for targets without an answer, as their mean.
        """
        mean = to_numpy(self.mean)
        # of value − mean and its square, with the weights of a mixture, of means and of errors
        first, second = (np.stack([0 * mean] * 3) for _ in range(2))
        total = np.zeros(mean.shape[1])  # of the weights of errors
        for each in self._along_directions():
            offsets = each.means - mean[:, each.columns]  # (a, m, v)
            own = np.einsum("av,amv->mv", each.weights, offsets)
            square = np.einsum("av,amv->mv", each.weights, offsets**2) + each.variance
            total[each.columns] += each.kinds[2]
            for kind, weights in enumerate(each.kinds):
                first[kind][:, each.columns] += weights * own
                second[kind][:, each.columns] += weights * square
        variance, error = second[1], np.abs(second[2] - total * second[1])
        unknown = error >= variance  # also where it is negative; that of the mixture is positive
        error = np.where(unknown, error + np.abs(second[0] - variance), error)
        variance = np.where(unknown, second[0], variance)
        # in units of deviations: of the mean and of the deviation
        errors = np.stack([np.abs(first[2]) / np.sqrt(variance), error / (2 * variance)])
        # two halves differ little by chance now and then: not below the root mean square of the target
        errors = np.maximum(errors, np.sqrt(np.mean(errors**2, axis=(0, 1))))
        self._warn_of(errors[1])
        of_mean, of_deviation = errors * np.sqrt(variance)
        return _Moments(variance, of_mean, of_deviation, first[0], second[0] - first[0] ** 2)

    def _warn_of(self, errors: Array) -> None:
        """Name deviations with large errors (m, V), in units of them, of targets that are ok.

        Targets that are not were named by the fit, if that was wished.
        """
        allowed, live = self.fit.target_error, self.fit.data.live
        ok = np.concatenate([each.ok(allowed) for each in self.fit.posteriors])
        count = np.count_nonzero((errors[:, live] > allowed) & ok)
        if count:
            warn(
                f"{count} of {errors[:, live].size} predictive standard deviations have numerical errors "
                f"above {allowed:g} of themselves (standard_deviation_error): fit with a smaller target_error"
            )

    def pointwise_log_density(self, F: ArrayLike) -> Array:
        """Log density at F (m, V) for every point and target, (m, V)."""
        values, shape = check.real_array(F, "F"), tuple(self.mean.shape)
        if values.shape != shape:
            raise ValueError(f"F must be shaped like the mean, {shape}, got F.shape={values.shape}")
        total = np.where(np.isnan(to_numpy(self.mean)), np.nan, -np.inf)
        for columns, weights, means, variances in self._atoms():
            z = (values[None][:, :, columns] - means) ** 2 / variances
            with np.errstate(divide="ignore"):
                terms = np.log(weights)[:, None, :] - 0.5 * (z + np.log(2 * np.pi * variances))
            total[:, columns] = np.logaddexp(total[:, columns], special.logsumexp(terms, axis=0))
        return total

    def distribution(self, F: ArrayLike) -> Array:
        """P(value ≤ F) for F (m, V) or (n, m, V)."""
        values = np.asarray(F, float)
        total = np.zeros(values.shape) + 0 * to_numpy(self.mean)
        for columns, weights, means, variances in self._atoms():
            for weight, mean, variance in zip(weights, means, variances, strict=True):
                total[..., columns] += weight * special.ndtr(
                    (values[..., columns] - mean) / np.sqrt(variance)
                )
        return total

    def quantile(self, q: float) -> Array:
        """Quantiles (m, V): from the distribution function at 61 values around the mean."""
        return self._quantiles(check.probability(q, "q"))[0]

    def interval(self, probability: float) -> tuple[Array, Array]:
        """Central intervals: lower and upper ends, (m, V) each."""
        level = float(check.probability(probability, "probability"))
        low, high = self._quantiles(np.array([(1 - level) / 2, (1 + level) / 2]))
        return low, high

    def _quantiles(self, levels: ArrayLike) -> Array:
        """Quantiles (levels, m, V)."""
        mean, deviation = to_numpy(self.mean), self.standard_deviation
        grid = mean + deviation * _GRID[:, None, None]
        heights, wanted = self.distribution(grid), special.ndtri(np.atleast_1d(levels))
        found = np.full((len(wanted), *mean.shape), np.nan)
        for m, v in np.argwhere(~np.isnan(mean)):
            own = np.maximum.accumulate(heights[:, m, v])
            rising = np.concatenate([[True], np.diff(own) > 0])
            normal = special.ndtri(np.clip(own[rising], 1e-15, 1 - 1e-15))  # nearly straight
            found[:, m, v] = np.interp(wanted, normal, grid[rising, m, v])
        return found

    def _atoms(self) -> Iterator[tuple[IndexArray, Array, Array, Array]]:
        """For every direction: its targets, weights (a, v), means and variances (a, m, v) of the atoms.

        Of the mixture, shifted and scaled to the mean and the variance of every point.
        """
        mean, moments = to_numpy(self.mean), self._moments
        stretch = np.sqrt(moments.variance / moments.mixture_variance)
        for each in self._along_directions():
            own, columns = stretch[:, each.columns], each.columns
            middle = mean[:, columns]
            means = middle + own * (each.means - middle - moments.mixture_offset[:, columns])
            at_nodes = own**2 * each.variances()
            for sign in (-1, 1):  # two values of τ given u, with its mean and the deviation of its logarithm
                factor = np.exp(sign * each.spread) / np.cosh(each.spread)
                variances = np.maximum(factor[:, None, :] * at_nodes, np.finfo(float).tiny)
                yield columns, each.kinds[0] * each.weights / 2, means, variances

    def _along_directions(self) -> Iterator[_Along]:
        """The laws along every direction that has weight, in the units of the data."""
        if self.test.diagonals is None:
            raise ValueError(
                "deviations need k(x, x) at the new inputs, got cross kernels only: give test_diagonals"
            )
        data = self.fit.data
        for part, posterior in zip(data.parts, self.fit.posteriors, strict=True):
            block, units, live = data.block(part), data.units[part], data.live[part]
            directions = Directions(data.kernels, block, self.fit.priors)
            for log_theta, columns, kinds in posterior.by_direction():
                line = directions.line(log_theta)
                targets = block.some(columns)
                conditional = directions.given(line, targets)
                laws = self._given(line, conditional, targets, units[columns])
                yield _Along(live[columns], kinds, *laws)

    def _given(
        self, line: Line, conditional: Conditional, targets: BandTargets, units: Array
    ) -> tuple[Any, ...]:
        """Weights, means, spread, variance and variances of `_Along`, for targets with squared units (v,)."""
        theta, basis, system = np.exp(line.log_direction), self.fit.data.kernels.basis, line.system
        assert self.test.diagonals is not None
        cross, own = (
            sum(float(weight) * each for weight, each in zip(theta, parts, strict=True))
            for parts in (self.test.cross, self.test.diagonals)
        )
        features = to_numpy((cross if basis is None else cross @ basis) @ system.vectors)  # Φ
        prior, projected = to_numpy(own)[:, None], to_numpy(system.vectors.T @ targets.values)
        squares, lattice = features**2, conditional.lattice[:, None]
        noise = to_numpy(conditional.mass * conditional.noise)
        scale = noise * np.exp(lattice)
        factors = 1 / (np.exp(-lattice) + system.values)  # (M, r)
        variance = prior * scale.sum(axis=0) - squares @ (factors.T @ scale) + self.noise * noise.sum(axis=0)
        weights, u, levels, spread = _gauss_rule(conditional)
        inverse, values = np.exp(-u), system.values[:, None]
        means = np.stack([features @ (projected / (each + values)) for each in inverse])

        def variances() -> Array:
            """At the nodes, (a, m, v); the rule is a little off the lattice, whose mean they are given."""
            left = np.stack([np.maximum(prior - squares @ (1 / (each + values)), 0.0) for each in inverse])
            found = levels[:, None, :] * (np.exp(u)[:, None, :] * left + self.noise)
            return found * (variance * units / np.einsum("av,amv->mv", weights, found))

        return weights, means * np.sqrt(units), spread, variance * units, variances


@dataclass(frozen=True)
class _Along:
    """The predictive distribution along one direction, for the targets to which it matters.

    Attributes
    ----------
    columns : (v,)
    kinds : (3, v)
        Weights of the direction in the mixture, in means and in their errors.
    weights, means : (a, v), (a, m, v)
        Of Gaussian atoms.
    spread : (a, v)
        Deviation of log τ given u.
    variance : (m, v)
        E[variance | direction], from the lattice of u.
    variances : function () -> (a, m, v)
        Those of the atoms, given the mean of τ: half of the work, which only densities need.
    """

    columns: IndexArray
    kinds: Array
    weights: Array
    means: Array
    spread: Array
    variance: Array
    variances: Callable[[], Array]


@dataclass(frozen=True)
class _Moments:
    """Moments of a prediction and of the mixture of its densities, (m, V) each.

    Attributes
    ----------
    variance
        With the weights of means.
    mean_error, deviation_error
        Numerical errors of the mean and of the standard deviation.
    mixture_offset, mixture_variance
        Mean, less that of the prediction, and variance of the mixture.
    """

    variance: Array
    mean_error: Array
    deviation_error: Array
    mixture_offset: Array
    mixture_variance: Array


def _gauss_rule(conditional: Conditional) -> tuple[Array, Array, Array, Array]:
    """Weights, u, E[τ | u] and the deviation of log τ at the nodes of a Gauss rule, (nodes, v) each.

    A rule for polynomials in x = 1/(1 + exp(−(u − m)/w)), m the mean of u and w its deviation, or one: means
    of predictions are sums of such sigmoids of width one. Three-term recurrence by Stieltjes' procedure on
    the lattice, nodes from the tridiagonal matrix.
    """
    mass, u = to_numpy(conditional.mass), conditional.lattice[:, None]
    mean = (mass * u).sum(axis=0)
    deviation = np.sqrt((mass * (u - mean) ** 2).sum(axis=0))
    width = np.maximum(deviation, 1.0)
    x, size = special.expit((u - mean) / width), _FEW if deviation.max() < 1 else _MANY
    before, here = np.zeros_like(mass), np.ones_like(mass)
    matrices = np.zeros((mass.shape[1], size, size))
    for i in range(size):
        norm = (mass * here**2).sum(axis=0)
        root = np.sqrt(np.where(norm > 1e-26, norm, 0.0))  # zero where the law has fewer points
        here = np.divide(here, root, out=np.zeros_like(here), where=root > 0)
        matrices[:, i, i] = (mass * x * here**2).sum(axis=0)
        if i:
            matrices[:, i, i - 1] = matrices[:, i - 1, i] = root
        before, here = here, (x - matrices[:, i, i]) * here - (root * before if i else 0.0)
    values, vectors = np.linalg.eigh(matrices)
    nodes = mean + width * special.logit(np.clip(values.T, 1e-300, 1 - 1e-16))
    known = np.where(mass > 0, u, np.nan)
    nodes = np.clip(nodes, np.nanmin(known, axis=0), np.nanmax(known, axis=0))
    stride, columns = conditional.stride, np.arange(mass.shape[1])
    position = (nodes - u[0]) / ((conditional.lattice[1] - conditional.lattice[0]) * stride)
    whole = np.minimum(np.floor(position + 1e-9).astype(int), (len(mass) - 1) // stride)
    far, low = position - whole, whole * stride
    noise, spread = to_numpy(conditional.noise), to_numpy(conditional.noise_spread)
    above = np.minimum(low + stride, len(mass) - 1)
    high = np.where(noise[above, columns] > 0, above, low)
    low_noise, high_noise = np.log(noise[low, columns]), np.log(noise[high, columns])
    return (
        vectors[:, 0, :].T ** 2,
        nodes,
        np.exp((1 - far) * low_noise + far * high_noise),
        spread[low, columns],
    )
