"""The Gaussian process given one scale, for observations through views: dense algebra in the reduced rows.

With C(L) = τ I + Σ L_mm' K_mm' and the kernel k̂(L) = Σ L_mm' K̂_mm' between test and training views,

    mean k̂ C⁻¹ y,   covariance Σ L_mm' K̂̂_mm' − k̂ C⁻¹ k̂ᵀ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lbnn._base.blocks import blocks
from lbnn._base.small_matrices import inverses, lower_roots
from lbnn._base.types import Array
from lbnn._base.warn import warn
from lbnn.data.view_data import ViewData
from lbnn.likelihood.views import ViewDesign, ViewLikelihood
from lbnn.predict.left_over import cancelled, left_over, lost, root_of


@dataclass(frozen=True)
class TestViews:
    """Views at test points, projected on the training rows."""

    cross: Array  # K̂, (p̂, M, q, M)
    own: Array  # of every point with itself, (p̂, M, M)
    gram: Array | None  # among test points, (p̂, M, p̂, M) ...
    features: Array | None  # ... or features (p̂, M, n) of which it is made

    __test__ = False  # not a test, whatever pytest thinks of its name

    @classmethod
    def of_features(cls, features: Array, data: ViewData) -> TestViews:
        """From features (p̂, M, n) in the units of the training features."""
        assert data.features is not None
        cross = np.einsum("ami,bni->ambn", features, data.features, optimize=True)
        return cls(cross, np.einsum("ami,ani->amn", features, features), None, features)

    @classmethod
    def of_kernel(cls, cross: Array, gram: Array) -> TestViews:
        """From kernels (p̂, M, p, M) with the training views and (p̂, M, p̂, M) among test views."""
        return cls(cross, np.einsum("aman->amn", gram), gram, None)

    @property
    def points(self) -> int:
        """p̂."""
        return len(self.own)

    def among(self, scale: Array) -> Array:
        """Σ L_mm' K̂̂_mm', (p̂, p̂)."""
        if self.gram is not None:
            return np.einsum("ambn,mn->ab", self.gram, scale)
        assert self.features is not None
        seen = _seen(self.features, scale)
        return np.asarray(seen @ seen.T)


def _seen(features: Array, scale: Array) -> Array:
    """Features (k, M n) whose inner products are the kernel at a scale (M, M), from features (k, M, n)."""
    return np.einsum("ami,mk->aki", features, root_of(scale)).reshape(len(features), -1)


@dataclass(frozen=True)
class ViewProcess:
    """Gaussian processes given scales, for one data set and one noise variance."""

    data: ViewData
    noise: float

    def covariances(self, scales: Array) -> Array:
        """C(L), (k, q, q)."""
        size = len(self.data.observations)
        flat = self.data.kernel.transpose(1, 3, 0, 2).reshape(self.data.channels**2, -1)
        result = (scales.reshape(len(scales), -1) @ flat).reshape(-1, size, size)
        result[:, np.arange(size), np.arange(size)] += self.noise
        return np.asarray(result)

    def moments(self, test: TestViews, scales: Array) -> tuple[Array, Array]:
        """Means and variances of the function at test points given every scale, (m, p̂) each."""
        means, variances, priors = np.empty((3, len(scales), test.points))
        for block, lower, cross in self._factorised(test, scales):
            white = np.linalg.solve(lower, self.data.observations)
            seen = np.linalg.solve(lower, cross.swapaxes(1, 2))  # R⁻¹k̂ᵀ, (k, q, p̂)
            means[block] = np.einsum("kq,kqp->kp", white, seen)
            priors[block] = np.einsum("kmn,amn->ka", scales[block], test.own)
            variances[block] = priors[block] - (seen**2).sum(axis=1)
        if self.data.features is None or test.features is None:
            if lost(variances, priors).any():
                warn(
                    "data with so little noise leave less of the function's variance than rounding of the "
                    "kernel between views does: do not trust it, or give views of shape (p, M, n0)"
                )
            return means, np.maximum(variances, 0.0)
        few = cancelled(variances, priors)
        for number in np.flatnonzero(few.any(axis=1)):
            own = self._left_over(test.features[few[number]], scales[number])
            variances[number, few[number]] = np.diagonal(own)
        return means, variances

    def _left_over(self, features: Array, scale: Array) -> Array:
        """Covariance (k, k) at points with features (k, M, n), as a sum of positive terms."""
        assert self.data.features is not None
        return left_over(_seen(self.data.features, scale), _seen(features, scale), self.noise)

    def joint(self, test: TestViews, scale: Array) -> Array:
        """Covariance of the function over test points given one scale, (p̂, p̂)."""
        _, lower, cross = next(self._factorised(test, scale[None]))
        seen, prior = np.linalg.solve(lower[0], cross[0].T), test.among(scale)
        result = np.asarray(prior - seen.T @ seen)
        if test.features is not None and cancelled(np.diagonal(result), np.diagonal(prior)).any():
            return self._left_over(test.features, scale)
        return result

    def extended(self, test: TestViews, point: int, value: float, noise: float) -> ViewLikelihood:
        """The likelihood of the observations and of one more at a test point, with this noise variance."""
        data, size = self.data, len(self.data.observations)
        kernel = np.empty((size + 1, data.channels) * 2)
        kernel[:size, :, :size], kernel[size, :, :size] = data.kernel, test.cross[point]
        kernel[:size, :, size] = test.cross[point].transpose(1, 2, 0)
        kernel[size, :, size] = test.own[point]
        return ViewLikelihood(
            ViewDesign.of_blocks(kernel),
            np.append(data.observations, value),
            data.residual,
            data.examples + 1,
            self.noise,
            row_noise=np.append(np.full(size, self.noise), noise),
        )

    def _factorised(self, test: TestViews, scales: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Lower roots (k, p, p) of C(L) and k̂(L) (k, p̂, p), for blocks of scales (m, M, M)."""
        size, points = len(self.data.observations), test.points
        flat = test.cross.transpose(1, 3, 0, 2).reshape(self.data.channels**2, -1)
        for block in blocks(len(scales), 4 * size * (size + points)):
            own = scales[block]
            cross = (own.reshape(len(own), -1) @ flat).reshape(-1, points, size)
            yield block, lower_roots(self.covariances(own), np.full(len(own), self.noise)), cross

    def precisions(self, scales: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Diagonal of C⁻¹ and C⁻¹y over all p observations, (k, p) each, for blocks of scales."""
        size, basis = len(self.data.observations), self.data.basis
        for block in blocks(len(scales), 8 * size**2):
            covariances = self.covariances(scales[block])
            inverse = inverses(lower_roots(covariances, np.full(len(covariances), self.noise)))
            alpha = inverse @ self.data.observations
            if basis is None:
                yield block, np.diagonal(inverse, axis1=1, axis2=2), alpha
                continue
            unseen = np.maximum(1 - (basis**2).sum(axis=1), 0.0) / self.noise
            diagonal = np.einsum("pq,kqr,pr->kp", basis, inverse, basis, optimize=True) + unseen
            yield block, diagonal, alpha @ basis.T + self.data.outside / self.noise
