"""The data of bands: kernels in units of their own and targets in units of theirs.

Given the scales, y ~ N(0, τ I + Σ_k λ_k G_k). Kernels are divided by their mean diagonals, so that λ_k
becomes the mean prior variance of band k, and every target by a unit of its own. Where the inputs have fewer
columns than rows, all of it is rotated to the range of the inputs; what targets have outside of it is noise
whatever the scales are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.arrays import Device, device_of, eigh, largest, namespace, require_one_device, take, to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray, Mask

#: Eigenvalues of a kernel below −(this · p · largest) show that it is not positive semi-definite.
_NEGATIVE = 1e-10
_ROUNDING = 10.0  # times p times the precision of doubles: relative size of what is zero but for rounding


@dataclass(frozen=True)
class BandKernels:
    """Kernels G_k of the bands, each with mean diagonal one, in the range of the inputs.

    Attributes
    ----------
    grams : tuple of (r, r)
        Of bands that are not zero.
    sizes : (K,)
        Mean diagonals of the kernels of all bands as given; zero for a band of zeros.
    basis : (p, r) or None
        Orthonormal columns that span the range; None for the identity.
    blocks : tuple of (p, n_k) or None
        The inputs, where they were given.
    examples : int
        p.
    """

    grams: tuple[AnyArray, ...]
    sizes: Array
    basis: AnyArray | None
    blocks: tuple[AnyArray, ...] | None
    examples: int

    @property
    def device(self) -> Device:
        """Library and device of the arrays."""
        return device_of(self.grams[0] if self.grams else (self.blocks or [np.zeros(1)])[0])

    @property
    def used(self) -> IndexArray:
        """Numbers of the bands that are not zero, (used,)."""
        return np.flatnonzero(self.sizes > 0)

    @property
    def rank(self) -> int:
        """r."""
        return int(self.grams[0].shape[0]) if self.grams else 0

    def combined(self, direction: Array) -> AnyArray:
        """Σ_k θ_k G_k for θ (bands that are not zero), (r, r)."""
        total = float(direction[0]) * self.grams[0]
        for weight, gram in zip(direction[1:], self.grams[1:], strict=True):
            total = total + float(weight) * gram
        return total

    def without(self, band: int) -> BandKernels:
        """The same data without one band."""
        position = int(np.searchsorted(self.used, band))
        kept = tuple(each for number, each in enumerate(self.grams) if number != position)
        sizes = self.sizes.copy()
        if sizes[band] > 0:
            sizes[band] = 0.0
            return replace(self, grams=kept, sizes=sizes)
        return self


def kernels_of_blocks(blocks: Any, first_variances: Array) -> BandKernels:
    """From K blocks of inputs (p, n_k): G_k = σ_1² X_k X_kᵀ / n_k."""
    checked = [check.matrix_in_place(block, f"block {number}") for number, block in enumerate(blocks)]
    require_one_device(**{f"block {number}": each for number, each in enumerate(checked)})
    rows = [int(each.shape[0]) for each in checked]
    if len(set(rows)) > 1:
        raise ValueError(f"all blocks must have the same rows, got blocks of {rows} rows")
    xp = namespace(checked[0])
    columns = sum(int(each.shape[1]) for each in checked)
    basis, inner = None, checked
    if columns < rows[0]:
        basis = xp.linalg.qr(xp.concat(checked, axis=1))[0]
        inner = [basis.T @ each for each in checked]
    grams = [
        float(variance) / each.shape[1] * (each @ each.T)
        for each, variance in zip(inner, first_variances, strict=True)
    ]
    return _normalised(grams, rows[0], basis, tuple(checked))


def kernels_of_grams(kernels: Any, first_variances: Array) -> BandKernels:
    """From K kernels (p, p), which must be positive semi-definite."""
    grams = []
    for number, (kernel, variance) in enumerate(zip(kernels, first_variances, strict=True)):
        gram = check.square_matrix(kernel, f"kernel {number}")
        lowest = float(eigh(gram)[0][0])
        if lowest < -_NEGATIVE * gram.shape[0] * largest(gram):
            raise ValueError(
                f"every kernel must be positive semi-definite, got kernel {number} with an eigenvalue "
                f"of {lowest:.3g}"
            )
        grams.append(float(variance) * gram)
    rows = [int(each.shape[0]) for each in grams]
    if len(set(rows)) > 1:
        raise ValueError(f"all kernels must have the same rows, got kernels of {rows} rows")
    require_one_device(**{f"kernel {number}": each for number, each in enumerate(grams)})
    return _normalised(grams, rows[0], None, None)


def _normalised(grams: list[AnyArray], examples: int, basis: Any, blocks: Any) -> BandKernels:
    """Kernels (p, p) divided by their mean diagonal entries."""
    xp = namespace(grams[0])
    sizes = np.array([float(xp.linalg.trace(each)) / examples for each in grams])
    if not (sizes > 0).any():
        raise ValueError("one band at least must not be zero, got zeros only in all bands")
    kept = tuple(each / float(size) for each, size in zip(grams, sizes, strict=True) if size > 0)
    return BandKernels(kept, sizes, basis, blocks, examples)


@dataclass(frozen=True)
class BandTargets:
    """A block of targets in units of their own, in the range of the inputs.

    Attributes
    ----------
    values : (r, V)
    residual : (V,) on the device of the values
        Squared norm outside the range.
    log_units : (V,) on the device of the values
        Logarithms of the squared units.
    given_noise : bool
        Whether the squared unit is the noise variance, which is then known; otherwise it is the scale of the
        prior of the noise variance.
    examples : int
        p.
    """

    values: AnyArray
    residual: AnyArray
    log_units: AnyArray
    given_noise: bool
    examples: int

    @property
    def count(self) -> int:
        """Number of targets."""
        return int(self.values.shape[1])

    def some(self, columns: IndexArray) -> BandTargets:
        """Some of the targets, columns (k,)."""
        device = device_of(self.values)
        where = device.put(columns)
        return replace(
            self,
            values=take(self.values, where, axis=1),
            residual=take(self.residual, where, axis=0),
            log_units=take(self.log_units, where, axis=0),
        )


def targets_in_units(Y: AnyArray, units: Array, given_noise: bool, kernels: BandKernels) -> BandTargets:
    """Targets (p, V) divided by the roots of squared units (V,), in the basis of the kernels."""
    xp, device = namespace(Y), device_of(Y)
    scaled = Y / xp.sqrt(device.put(units))
    if kernels.basis is None:
        inner, residual = scaled, xp.zeros_like(scaled[0, :])
    else:
        inner = kernels.basis.T @ scaled
        outside = scaled - kernels.basis @ inner
        residual = xp.sum(outside * outside, axis=0)
    return BandTargets(inner, residual, device.put(np.log(units)), given_noise, int(Y.shape[0]))


@dataclass(frozen=True)
class BandsData:
    """All targets with an answer, and the kernels.

    Attributes
    ----------
    kernels : BandKernels
    Y : (p, L)
    units : (L,)
        Squared units of the targets, which are noise variances if `given_noise`.
    given_noise : bool
    live : (L,)
        Numbers of these targets among those given.
    count : int
        V, the number of targets given.
    parts : tuple of slice
        Blocks of these targets, each of which chooses its own directions.
    """

    kernels: BandKernels
    Y: AnyArray
    units: Array
    given_noise: bool
    live: IndexArray
    count: int
    parts: tuple[slice, ...]

    def block(self, part: slice) -> BandTargets:
        """Some of the targets in units of their own."""
        return targets_in_units(self.Y[:, part], self.units[part], self.given_noise, self.kernels)

    def of_all(self, answers: AnyArray) -> AnyArray:
        """Answers (..., V) of all targets, NaN where there is none, from those (..., L) of these targets."""
        if len(self.live) == self.count:
            return answers
        none = namespace(answers).full_like(answers[..., :1], np.nan)
        place = np.full(self.count, len(self.live))
        place[self.live] = np.arange(len(self.live))
        both = namespace(answers).concat([answers, none], axis=-1)
        return take(both, device_of(answers).put(place), axis=answers.ndim - 1)


def squared_units(Y: AnyArray) -> Array:
    """Mean squares of targets (p, V), as NumPy."""
    return to_numpy(namespace(Y).mean(Y * Y, axis=0))


def finite_targets(Y: Any, examples: int) -> tuple[AnyArray, IndexArray, int]:
    """Targets (p, L) that are finite, their numbers (L,), and how many were given."""
    device = device_of(Y)
    array = np.asarray(Y) if device.host else Y
    if array.ndim == 2 and array.shape[0] == examples and (not device.host or array.dtype.kind == "f"):
        xp, count = namespace(array), int(array.shape[1])
        live = np.flatnonzero(to_numpy(xp.all(xp.isfinite(array), axis=0)))
        if 0 < len(live) < count:
            return check.targets(take(array, live, axis=1), examples)[0], live, count
    checked = check.targets(Y, examples)[0]
    return checked, np.arange(int(checked.shape[1])), int(checked.shape[1])


def reproduced(Y: AnyArray, kernels: BandKernels) -> Mask:
    """Mask (V,) of targets (p, V) that are zero, or that the bands of a rank below p reproduce exactly.

    Then the likelihood grows without bound as τ falls, like τ to the power (rank − p)/2, and the prior of τ,
    like τ^(−1/2), does not prevent it: evidence and noise would be made of rounding.
    """
    xp, device = namespace(Y), device_of(Y)
    equal = np.full(len(kernels.grams), 1 / len(kernels.grams))
    values, vectors = eigh(kernels.combined(equal))
    small = float(_ROUNDING * kernels.examples * np.finfo(float).eps)
    lost = np.flatnonzero(values <= small * values[-1])
    if kernels.rank - len(lost) == kernels.examples:
        return np.array(to_numpy(xp.all(Y == 0.0, axis=0)), bool)
    inner = Y if kernels.basis is None else kernels.basis.T @ Y
    outside = take(vectors, device.put(lost), axis=1).T @ inner
    left = xp.sum(outside * outside, axis=0)
    if kernels.basis is not None:
        outside = Y - kernels.basis @ inner
        left = left + xp.sum(outside * outside, axis=0)
    return np.array(to_numpy(left <= small**2 * xp.sum(Y * Y, axis=0)), bool)
