"""Bands: the user's entry. Several kernels, each behind a network of its own, for many targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import device_of, namespace, take
from lbnn._base.blocks import blocks as slices
from lbnn._base.errors import DataWarning
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn._base.warn import warn
from lbnn.bands.block_posterior import BlockPosterior
from lbnn.bands.data import (
    BandKernels,
    BandsData,
    finite_targets,
    kernels_of_blocks,
    kernels_of_grams,
    reproduced,
    squared_units,
)
from lbnn.bands.inference import infer_block
from lbnn.bands.predictive import BandsPredictive, Conditioned, test_kernels
from lbnn.bands.prior import BandPriors
from lbnn.bands.simplex import MOST_BANDS
from lbnn.network import TARGET_ERROR, Network, Seed

#: Directions at most, by default.
MOST_DIRECTIONS = 2048

#: Targets of a block, which chooses its own directions: larger ones save eigendecompositions, smaller ones
#: memory.
_HOST_BLOCK, _DEVICE_BLOCK = 4096, 1 << 17


class Settings(NamedTuple):
    """Standard error aimed at, directions of a target at most, and seed."""

    target_error: float
    most_directions: int
    seed: int


@dataclass(frozen=True, init=False)
class Bands:
    """A sum of deep linear Bayesian networks, one for each band of inputs: y = Σ_k f_k(x_k) + noise.

    Given the scales λ_k of the networks, y ~ N(0, τ I + Σ_k λ_k G_k) with G_k = X_k X_kᵀ/n_k; a priori the
    λ_k are independent, each with the law of its network (a product of Gammas). The posterior is an
    integral over all λ_k and τ, for every target by itself.

    Parameters
    ----------
    networks : sequence of Network
        One for each band, each with at least one hidden layer. `prior_variances` set the prior scale of a
        band.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> blocks = [rng.normal(size=(60, 20)), rng.normal(size=(60, 30))]
    >>> Y = blocks[0] @ rng.normal(size=(20, 4)) / 20**0.5 + 0.5 * rng.normal(size=(60, 4))
    >>> fit = lbnn.Bands([lbnn.Network((5,)), lbnn.Network((5,))]).condition(blocks, Y)
    >>> fit.share_mean.shape, bool(fit.ok.all()), bool((fit.share_mean[:, 0] > fit.share_mean[:, 1]).all())
    ((4, 2), True, True)
    >>> fit.predict(blocks).mean.shape
    (60, 4)
    """

    networks: tuple[Network, ...]

    def __init__(self, networks: Sequence[Network]) -> None:
        listed = tuple(networks)
        if not listed or not all(isinstance(each, Network) for each in listed):
            raise TypeError(f"networks must be one lbnn.Network for each band, got {networks!r}")
        if len(listed) > MOST_BANDS:
            raise ValueError(
                f"there may be at most {MOST_BANDS} bands, got {len(listed)}: the simplex of their shares "
                "has too many dimensions for the integral; join columns into fewer bands"
            )
        flat = [number for number, each in enumerate(listed) if not each.widths]
        if flat:
            raise ValueError(
                "the network of a band needs a hidden layer, without which its scale is not random, got "
                f"widths=() in bands {flat}: a wide layer, Network((1000,)), is close to it"
            )
        object.__setattr__(self, "networks", listed)

    def condition(
        self,
        blocks: Sequence[ArrayLike],
        Y: ArrayLike,
        *,
        kernels: bool = False,
        noise_variance: float | ArrayLike | None = None,
        noise_scale: float | ArrayLike | None = None,
        target_error: float = TARGET_ERROR,
        max_directions: int = MOST_DIRECTIONS,
        seed: Seed = 0,
        warn_of_errors: bool = True,
    ) -> BandsFit:
        """Condition every target on the data.

        Parameters
        ----------
        blocks : K arrays (p, n_k), or K kernels (p, p) with kernels=True
            Inputs of the bands, in the order of the networks. All arrays are of one library, on one device.
        Y : (p, V) or (p,)
            Targets, without a level. `lbnn.BandedRegressor` integrates one out. Centring targets and inputs
            is nearly the same if there are far fewer columns than rows, and an error if there are as many.
            One that is not finite, all zero, or reproduced exactly by inputs of fewer columns than rows does
            not stop the others: its answers are NaN, and `dead_targets` has its number.
        kernels : bool
            Whether `blocks` are kernel matrices.
        noise_variance : float or (V,), optional
            The noise variance, if it is known. Otherwise it is integrated out: its square root has a half-
            Cauchy prior whose scale is the root mean square of the target, so that the prior follows the
            units of the target.
        noise_scale : float or (V,), optional
            The scale of that half-Cauchy prior, instead of the root mean square of the target.
        target_error : float
            Standard error aimed at: of log evidences, and of the mean of every share in units of its
            posterior standard deviation.
        max_directions : int
            Directions, each with an eigendecomposition, that one target is integrated over at most; the first
            (32 for two bands, 71 for three, 143 for four, 575 for six and at least that many for more) are
            always computed. They are shared by targets with similar answers. Targets that would need more are
            not `ok`.
        seed : int, numpy.random.SeedSequence or numpy.random.Generator
        warn_of_errors : bool
            Whether to give a `DataWarning` for targets without an answer, and an `AccuracyWarning` for others
            that are not `ok`.

        Returns
        -------
        BandsFit
        """
        settings = Settings(
            float(check.probability(target_error, "target_error")),
            check.positive_integer(max_directions, "max_directions"),
            check.seed(seed),
        )
        data = self._data(blocks, Y, kernels, noise_variance, noise_scale)
        fit = BandsFit(self, data, settings, self._posteriors(data, settings))
        if warn_of_errors:
            fit.warn(range(fit._data.count))
        return fit

    def _data(
        self, blocks: Sequence[Any], Y: Any, kernels: bool, noise_variance: Any, noise_scale: Any
    ) -> BandsData:
        """The data of `condition`, checked."""
        listed = list(blocks)
        if len(listed) != len(self.networks):
            raise ValueError(
                f"blocks must be one for each of the {len(self.networks)} networks, got {len(listed)}"
            )
        first = np.array([network.prior_variances[0] for network in self.networks])
        data = (kernels_of_grams if kernels else kernels_of_blocks)(listed, first)
        targets, live, count = finite_targets(Y, data.examples)
        if noise_variance is None:
            exact = reproduced(targets, data)
            if exact.all():
                raise ValueError(
                    "unknown noise needs targets that are not all zero, and that inputs of fewer columns "
                    f"than rows do not reproduce exactly, got none among {count}: for centred data use "
                    "lbnn.BandedRegressor, which accounts for the degree of freedom of the intercept, or "
                    "give noise_variance"
                )
            targets, live = take(targets, np.flatnonzero(~exact), axis=1), live[~exact]
        units, given = _units(targets, live, count, noise_variance, noise_scale)
        size = _HOST_BLOCK if data.device.host else _DEVICE_BLOCK
        return BandsData(data, targets, units, given, live, count, tuple(slices(len(live), 1, size)))

    def _posteriors(self, data: BandsData, settings: Settings) -> tuple[BlockPosterior, ...]:
        """The posteriors of live targets, block by block."""
        priors = self._priors(data.kernels)
        return tuple(
            infer_block(
                data.kernels,
                data.block(part),
                priors,
                settings.target_error,
                settings.most_directions,
                np.random.SeedSequence([settings.seed, number]),
            )
            for number, part in enumerate(data.parts)
        )

    def _restored(
        self,
        blocks: Sequence[Array],
        Y: Array,
        kernels: bool,
        noise_variance: Array | None,
        target_error: float,
        posteriors: tuple[BlockPosterior, ...],
    ) -> BandsFit:
        """A fit of K blocks (p, n_k) or kernels (p, p) and Y (p, V) whose posteriors were kept in a file."""
        data = self._data(blocks, Y, kernels, noise_variance, None)
        return BandsFit(self, data, Settings(target_error, MOST_DIRECTIONS, 0), posteriors)

    def _priors(self, kernels: BandKernels) -> BandPriors:
        laws = [self.networks[band].scale_prior(1).log_scale_law for band in kernels.used]
        return BandPriors(tuple(laws), np.log(kernels.sizes[kernels.used]))


@dataclass(frozen=True, repr=False)
class BandsFit:
    """The posterior of every target given its data.

    Attributes
    ----------
    log_evidence, log_evidence_error : (V,)
        Log density of each target, and its standard error.
    scale_mean : (V, K)
        Posterior means of the scales λ_k.
    share_mean, share_deviation, share_error : (V, K)
        Posterior mean and standard deviation of the share of the variance that band k explains, λ_k ḡ_k/(τ +
        Σ_l λ_l ḡ_l) with ḡ_k the mean diagonal of G_k, and the standard error of the mean.
    noise_mean : (V,)
        Posterior mean of the noise variance τ.
    log_scale_mean, log_scale_deviation : (V, K)
        Posterior means and standard deviations of log λ_k; of a band of zeros, those of the prior.
    log_noise_mean, log_noise_deviation : (V,)
        The same of log τ.
    effective_directions : (V,)
        1/Σ_j w_j² for the weights of the directions.
    direction_count : (V,)
        Directions that were computed for each target.
    ok : (V,) of bool
        Whether the stated errors, from two sets of directions and from finer rules along each of them, are
        within the target error.
    dead_targets : (n,)
        Numbers of targets that have no answer, where all others are NaN: not finite, all zero, or reproduced
        exactly by inputs of fewer columns than rows.
    """

    bands: Bands
    _data: BandsData = field(repr=False)
    _settings: Settings = field(repr=False)
    _posteriors: tuple[BlockPosterior, ...] = field(repr=False)

    def __repr__(self) -> str:
        kernels = self._kernels
        return (
            f"BandsFit(bands={len(kernels.sizes)}, examples={kernels.examples}, targets={self._data.count}, "
            f"directions={self.directions}, ok={int(self.ok.sum())})"
        )

    @property
    def _kernels(self) -> BandKernels:
        return self._data.kernels

    def warn(self, names: Sequence[Any]) -> None:
        """Warn of targets without an answer, by their names (V,), and of others that are not ok."""
        dead, count = self.dead_targets, self._data.count
        if len(dead):
            shown = ", ".join(str(names[each]) for each in dead[:10]) + (", …" if len(dead) > 10 else "")
            warn(
                f"{len(dead)} of {count} targets have no answer, which is NaN: each must be finite, not all "
                "zero (with an intercept: not constant), and more than what inputs of fewer columns than "
                f"rows reproduce exactly, got targets {shown} (dead_targets)",
                DataWarning,
            )
        missing = count - int(np.count_nonzero(self.ok)) - len(dead)
        if missing:
            warn(
                f"{missing} of {count} targets have stated errors above target_error="
                f"{self._settings.target_error:g} (ok is False): increase max_directions="
                f"{self._settings.most_directions}, or target_error"
            )

    @cached_property
    def log_evidence(self) -> Array:
        """Log evidence of every target, (V,)."""
        return self._joined("log_evidence") - 0.5 * self._kernels.examples * np.log(self._all_units)

    @cached_property
    def log_evidence_error(self) -> Array:
        """Its numerical error, (V,)."""
        return self._joined("log_evidence_error")

    @cached_property
    def noise_mean(self) -> Array:
        """Posterior mean of the noise variance, (V,)."""
        return self._joined("noise_mean") * self._all_units

    @cached_property
    def effective_directions(self) -> Array:
        """Number of directions that carry the posterior, (V,)."""
        return self._joined("effective_directions")

    @cached_property
    def scale_mean(self) -> Array:
        """Posterior mean of the scales of the bands, (V, K)."""
        prior = [float(network.scale_prior(1).variance) for network in self.bands.networks]
        inner = (
            self._joined("scale_mean") * self._all_units[:, None] / self._kernels.sizes[self._kernels.used]
        )
        return self._of_all_bands(inner, np.array(prior))

    @cached_property
    def log_scale_mean(self) -> Array:
        """Posterior mean of the logarithms of the scales, (V, K)."""
        sizes = np.log(self._kernels.sizes[self._kernels.used])
        inner = self._joined("log_scale_mean") + np.log(self._all_units)[:, None] - sizes
        return self._of_all_bands(inner, self._prior_logs().mean)

    @cached_property
    def log_scale_deviation(self) -> Array:
        """Posterior standard deviation of the logarithms of the scales, (V, K)."""
        return self._of_all_bands(self._joined("log_scale_deviation"), np.sqrt(self._prior_logs().variance))

    @cached_property
    def log_noise_mean(self) -> Array:
        """Posterior mean of the logarithm of the noise variance, (V,)."""
        return self._joined("log_noise_mean") + np.log(self._all_units)

    @cached_property
    def log_noise_deviation(self) -> Array:
        """Posterior standard deviation of the logarithm of the noise variance, (V,)."""
        return self._joined("log_noise_deviation")

    def _prior_logs(self) -> BandPriors:
        """The priors of log λ_k of all bands."""
        laws = [network.scale_prior(1).log_scale_law for network in self.bands.networks]
        return BandPriors(tuple(laws), np.zeros(len(laws)))

    @cached_property
    def share_mean(self) -> Array:
        """Posterior mean of the bands' shares of the variance, (V, K)."""
        return self._of_all_bands(self._joined("share_mean"))

    @cached_property
    def share_deviation(self) -> Array:
        """Posterior standard deviation of the shares, (V, K)."""
        return self._of_all_bands(self._joined("share_deviation"))

    @cached_property
    def share_error(self) -> Array:
        """Numerical error of `share_mean`, (V, K)."""
        return self._of_all_bands(self._joined("share_error"))

    @cached_property
    def ok(self) -> Mask:
        """Mask (V,) of targets whose errors are within the target error."""
        found = np.zeros(self._data.count, bool)
        found[self._data.live] = np.concatenate([e.ok(self._settings.target_error) for e in self._posteriors])
        return found

    @property
    def dead_targets(self) -> IndexArray:
        """Numbers of targets without an answer."""
        return np.setdiff1d(np.arange(self._data.count), self._data.live)

    @property
    def directions(self) -> int:
        """Eigendecompositions of all blocks together."""
        return sum(len(each.log_directions) for each in self._posteriors)

    @cached_property
    def direction_count(self) -> Array:
        """Number of directions that were computed, (V,)."""
        return self._joined("direction_count")

    def share_interval(self, probability: float = 0.9) -> Array:
        """Central intervals of the shares, (V, K, 2)."""
        level = float(check.probability(probability, "probability"))
        return self.share_quantile([(1 - level) / 2, (1 + level) / 2])

    def share_quantile(self, q: ArrayLike) -> Array:
        """Quantiles (V, K, levels) of the shares, to about a hundredth of a posterior standard deviation."""
        levels = np.atleast_1d(check.probability(q, "q"))
        found = self._of_all_targets(np.concatenate([_quantiles(e, levels) for e in self._posteriors]))
        return np.stack([self._of_all_bands(found[..., i]) for i in range(len(levels))], axis=-1)

    def without(self, band: int) -> BandsFit:
        """The posterior without one band: its scale is zero, a face of the simplex.

        The difference of the two log evidences is the evidence for the band.
        """
        number = range(len(self.bands.networks))[band]
        if len(self._kernels.used) < 2:
            raise ValueError("a fit needs a band, got one band that is not zero")
        data = replace(self._data, kernels=self._kernels.without(number))
        return BandsFit(self.bands, data, self._settings, self.bands._posteriors(data, self._settings))

    def evidence_for_bands(self) -> Array:
        """Log evidence of all bands less that without band k, (V, K); one fit for each band."""
        columns = [
            self.log_evidence - self.without(band).log_evidence
            if self._kernels.sizes[band] > 0
            else 0 * self.log_evidence
            for band in range(len(self.bands.networks))
        ]
        return np.stack(columns, axis=1)

    def predict(
        self,
        blocks: Sequence[ArrayLike] | None = None,
        *,
        cross_kernels: Sequence[ArrayLike] | None = None,
        test_diagonals: Sequence[ArrayLike] | None = None,
    ) -> BandsPredictive:
        """The predictive distribution of the function at new inputs; `.with_noise()` for observations.

        Parameters
        ----------
        blocks : K arrays (m, n_k)
            New inputs of the bands.
        cross_kernels : K arrays (m, p)
            For a fit of kernels: between new and training inputs.
        test_diagonals : K arrays (m,), optional
            For a fit of kernels: k(x, x) at the new inputs, which deviations need.
        """
        first_variances = np.array([network.prior_variances[0] for network in self.bands.networks])
        test = test_kernels(self._kernels, first_variances, blocks, cross_kernels, test_diagonals)
        priors, error = self.bands._priors(self._kernels), self._settings.target_error
        return BandsPredictive(
            Conditioned(self._data, priors, self._posteriors, error, self._dual_of_live), test
        )

    @cached_property
    def dual_coefficients(self) -> AnyArray:
        """α_k in the means f_k(x) = Σ_i k_k(x, x_i) α_ki of the bands, (K, p, V), where the data are."""
        return self._data.of_all(self._dual_of_live)

    @cached_property
    def _dual_of_live(self) -> AnyArray:
        """The same of live targets, (K, p, L)."""
        xp, device = namespace(self._data.Y), device_of(self._data.Y)
        inner = xp.concat([each.dual_coefficients for each in self._posteriors], axis=2)
        units = xp.sqrt(device.put(self._data.units))
        scaled = inner * units[None, None, :]
        if self._kernels.basis is not None:
            scaled = xp.stack([self._kernels.basis @ scaled[k, ...] for k in range(scaled.shape[0])])
        sizes = self._kernels.sizes[self._kernels.used]
        full = [device.zeros(self._kernels.examples, len(self._data.units)) for _ in self.bands.networks]
        for position, band in enumerate(self._kernels.used):
            full[band] = scaled[position, ...] / float(sizes[position])
        return xp.stack(full)

    @cached_property
    def _all_units(self) -> Array:
        """Squared units of all targets, (V,)."""
        return self._of_all_targets(self._data.units)

    def _joined(self, name: str) -> Array:
        """A quantity of all targets, (V, ...)."""
        return self._of_all_targets(np.concatenate([getattr(each, name) for each in self._posteriors]))

    def _of_all_targets(self, live: Array) -> Array:
        """Values (V, ...) of all targets, NaN for the dead, from those (L, ...) of the live."""
        if len(live) == self._data.count:
            return live
        full = np.full((self._data.count, *live.shape[1:]), np.nan)
        full[self._data.live] = live
        return full

    def _of_all_bands(self, inner: Array, others: Array | None = None) -> Array:
        """Columns (V, K) of all bands from those that are not zero; `others` (K,), or zeros, for the rest."""
        fill = np.zeros(len(self.bands.networks)) if others is None else others
        full = np.tile(fill, (len(inner), 1))
        full[self.dead_targets] = np.nan
        full[:, self._kernels.used] = inner
        return full


def _curve(places: Array, heights: Array) -> tuple[Array, Array]:
    """A distribution function (k,) at increasing arguments (k,)."""
    unique, first = np.unique(places, return_index=True)
    last = np.append(first[1:], len(places)) - 1
    return unique, np.maximum.accumulate(heights[last])


def _quantiles(posterior: BlockPosterior, levels: Array) -> Array:
    """Quantiles of the shares of a block, (V, K, levels)."""
    shape = posterior.share_mean.shape
    found = np.empty((*shape, len(levels)))
    for v, k in np.ndindex(shape):
        place, height = _curve(posterior.share_places[v, k], posterior.share_distribution[v, k])
        rising = np.concatenate([[True], np.diff(height) > 0])
        found[v, k] = np.interp(levels, height[rising], place[rising])
    return found


def _units(
    Y: AnyArray, live: IndexArray, count: int, noise_variance: Any, noise_scale: Any
) -> tuple[Array, bool]:
    """Squared units of the live targets (L,), and whether they are known noise variances."""
    if noise_variance is not None and noise_scale is not None:
        raise ValueError("at most one of noise_variance and noise_scale can be given, got both")
    if noise_variance is not None:
        return _positive(noise_variance, "noise_variance", count)[live], True
    if noise_scale is not None:
        return _positive(noise_scale, "noise_scale", count)[live] ** 2, False
    return squared_units(Y), False


def _positive(value: Any, name: str, count: int) -> Array:
    """A positive number for each target, (V,)."""
    array = check.real_array(value, name)
    if array.shape not in ((), (count,)) or (array <= 0).any():
        raise ValueError(
            f"{name} must be positive, one number or one for each of {count} targets, got {value!r}"
        )
    return np.broadcast_to(array, (count,)).copy()
