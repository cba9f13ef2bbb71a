"""ViewPosterior: a network conditioned on observations that see its outputs through views."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from lbnn import archive
from lbnn._base import check
from lbnn._base.types import Array, IndexArray
from lbnn.cross_validation import LeaveOneOut
from lbnn.cross_validation.averages import Scores, reweighted
from lbnn.data.view_data import ViewData, checked_views
from lbnn.engines import ScaleInference
from lbnn.engines.conditioned import Conditioned
from lbnn.predict.dense_part import DensePart
from lbnn.predict.predictive import Predictive
from lbnn.predict.view_process import TestViews, ViewProcess
from lbnn.predict.weights import sample_view_weights
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.prior import ScalePrior

KIND = "posterior of views"  # in the header of a file
_WORK = 2e10  # operations that predictions may take: some seconds
_FEWEST_ATOMS = 400  # to which draws are thinned at most: an error of 0.05 posterior deviations


@dataclass(frozen=True, repr=False)
class ViewPosterior(Conditioned):
    """The posterior of a network that is observed through views. Returned by `condition_views`.

    Attributes
    ----------
    prior : ScalePrior
        Law of the scale of the M channels before the data.
    data : ViewData
        Observations and views.
    noise_variance : float
        1/β.
    inference : ScaleInference
        What the engine found.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20, 3))
    >>> views = lbnn.views.gates(x, np.stack([x[:, 0] > 0, x[:, 0] <= 0], axis=1))
    >>> post = lbnn.Network(widths=(10,)).condition_views(views, np.abs(x[:, 0]), beta=100.0)
    >>> post.predict(views=views[:2]).mean.shape, post.scale.mean.shape
    ((2,), (2, 2))
    """

    _channels: ClassVar[str] = "channels"

    prior: ScalePrior
    data: ViewData
    noise_variance: float
    inference: ScaleInference

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        return self._card([])

    @property
    def _examples(self) -> int:
        return self.data.examples

    @property
    def _found(self) -> ScaleInference:
        return self.inference

    @property
    def scale(self) -> ScaleMeasure:
        """The posterior of the scale L over the M channels; `scale.phases()` are its modes."""
        return self.inference.measure

    # ------------------------------------------------------------------ predictions

    def predict(
        self,
        views: ArrayLike | None = None,
        *,
        cross_gram: ArrayLike | None = None,
        test_gram: ArrayLike | None = None,
    ) -> Predictive:
        """The posterior predictive of the function at test points.

        Parameters
        ----------
        views : (p̂, M, n0), optional
            Views of the test points; the training points by default.
        cross_gram, test_gram : (p̂, M, p, M) and (p̂, M, p̂, M), optional
            After a kernel between views, instead of `views`: the kernels between test and training views
            and among test views.

        Returns
        -------
        Predictive
            `.with_noise()` for observations.
        """
        test = self._test(views, cross_gram, test_gram)
        chosen, weights = self._kept
        scales = self.scale.scales_of(chosen)
        means, variances = self._process.moments(test, scales)
        groups = self.scale.groups
        part = DensePart(
            weights,
            means[:, :, None],
            lambda rows: variances[:, rows, None, None],
            lambda number: self._process.joint(test, scales[number]),
            scales,
            (self.noise_variance, 0.0),
            None if groups is None else groups[chosen],
            self.scale.law,
            lambda point, value, noise, _: self._process.extended(test, point, float(value[0]), noise),
        )
        return Predictive((part,), single_output=True)

    def _test(
        self, views: ArrayLike | None, cross_gram: ArrayLike | None, test_gram: ArrayLike | None
    ) -> TestViews:
        """Test points from views (p̂, M, n0), or from kernels (p̂, M, p, M) and (p̂, M, p̂, M)."""
        data = self.data
        if views is None and cross_gram is None and test_gram is None:
            return self._training
        if data.features is None:
            if cross_gram is None or test_gram is None or views is not None:
                raise TypeError(
                    "after a kernel between views test points are cross_gram and test_gram, got "
                    f"{'views' if views is not None else 'one of them'}"
                )
            return self._kernel_test(cross_gram, test_gram)
        if views is None or cross_gram is not None or test_gram is not None:
            raise TypeError("after views test points are views of shape (p̂, M, n0), got kernels")
        array = checked_views(views)
        expected = data.features.shape[1:]
        if array.ndim != 3 or array.shape[1:] != expected:
            raise ValueError(
                f"views at test points must have shape (p̂, M, n0) with (M, n0) = {expected}, as in training, "
                f"got views.shape={array.shape}"
            )
        return TestViews.of_features(self._feature_scale * array, data)

    def _kernel_test(self, cross_gram: ArrayLike, test_gram: ArrayLike) -> TestViews:
        """Test points from kernels (p̂, M, p, M) and (p̂, M, p̂, M)."""
        cross, gram = check.real_array(cross_gram, "cross_gram"), check.real_array(test_gram, "test_gram")
        count, channels = self.data.examples, self.data.channels
        if cross.ndim != 4 or cross.shape[1:] != (channels, count, channels):
            raise ValueError(
                f"cross_gram must have shape (p̂, {channels}, {count}, {channels}), got "
                f"cross_gram.shape={cross.shape}"
            )
        if gram.shape != (len(cross), channels, len(cross), channels):
            raise ValueError(
                f"test_gram must have shape (p̂, M, p̂, M) = {(len(cross), channels) * 2}, got "
                f"test_gram.shape={gram.shape}"
            )
        return TestViews.of_kernel(self._variance * cross, self._variance * gram)

    @property
    def _training(self) -> TestViews:
        """The training points themselves."""
        data = self.data
        if data.features is None:
            return TestViews.of_kernel(data.kernel, data.kernel)
        features = data.features
        if data.basis is not None:
            features = np.einsum("pq,qmi->pmi", data.basis, features)
        return TestViews.of_features(features, data)

    @property
    def _feature_scale(self) -> float:
        assert self.data.features is not None
        return math.sqrt(self._variance / self.data.features.shape[2])

    @property
    def _variance(self) -> float:
        """σ_1²."""
        return self.data.variance

    @cached_property
    def _process(self) -> ViewProcess:
        return ViewProcess(self.data, self.noise_variance)

    @cached_property
    def _kept(self) -> tuple[IndexArray, Array]:
        """Draws that predictions use, (m,), and their weights (m,): all, or as many as the work allows."""
        each = float(len(self.data.observations)) ** 3 + 1e4
        return self.scale._thinned(max(int(_WORK / each), _FEWEST_ATOMS))

    # ------------------------------------------------------------------ weights

    def sample_weights(self, size: int, seed: int | np.random.Generator) -> list[Array]:
        """Draw all weights from their exact posterior.

        Parameters
        ----------
        size : int
        seed : int or numpy.random.Generator

        Returns
        -------
        list of arrays
            W_1 (size, n_1, n0), ..., W_d (size, M, n_{d−1}): y_μ = Σ_m [W_d ⋯ W_1 ψ_m(x_μ)]_m + noise.
        """
        count, generator = check.positive_integer(size, "size"), check.generator(seed)
        if self.data.features is None:
            raise ValueError("weights act on views: condition on views (p, M, n0), got a kernel between them")
        law = self.scale.law
        factors = [] if law is None else law.sample_factors(count, generator)
        return sample_view_weights(count, factors, self.prior, self.data, self.noise_variance, generator)

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior to a file; loading it executes no code (see docs/data-and-files.md)."""
        packed = archive.pack_views(self.prior, self.data, self.noise_variance, self.inference)
        archive.write(path, KIND, *packed)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ViewPosterior:
        """Read a posterior; a file that holds none, or is damaged, raises a ValueError."""
        return cls(*archive.unpack_views(*archive.read(path, KIND)))

    # ------------------------------------------------------------------ leaving one out

    def leave_one_out(self) -> LeaveOneOut:
        """Score every observation given all others.

        Returns
        -------
        LeaveOneOut
            `.mean`, `.variance` and `.log_density` of each left-out observation, noise included.
        """
        chosen, weights = self._kept
        kept = self.scale.groups
        groups = None if kept is None else kept[chosen]
        scales, given = self.scale.scales_of(chosen), self.data.given
        precision, residual = np.empty((2, len(given), len(scales)))
        for block, diagonal, alpha in self._process.precisions(scales):
            precision[:, block], residual[:, block] = diagonal.T, (alpha / diagonal).T
        log_density = 0.5 * (np.log(precision / (2 * np.pi)) - residual**2 * precision)
        own, *densities = reweighted(weights, groups, log_density)
        mean = (own * residual).sum(axis=1)
        variance = (own * (1 / precision + (residual - mean[:, None]) ** 2)).sum(axis=1)
        scores = Scores(mean[:, None], variance[:, None], *densities)
        return LeaveOneOut.of(given[:, None], scores, self.diagnostics.messages).single()
