"""Posterior: a network conditioned on data. Predictions, feature kernel, evidence, scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lbnn._types import Array
from lbnn.conditional import ConditionalProcess
from lbnn.engines import Diagnostics, ScaleInference
from lbnn.feature_kernel import average_feature_kernel
from lbnn.predictive import Predictive
from lbnn.scale_measure import ScaleMeasure
from lbnn.scale_prior import ScalePrior
from lbnn.spectrum import Spectrum


@dataclass(frozen=True)
class Posterior:
    """The posterior of a deep linear network. Returned by `Network.condition`.

    Examples
    --------
    >>> import math, numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(6, 10)), rng.normal(size=6)
    >>> post = lbnn.Network(widths=(5, 5)).condition(X, y, beta=math.inf)
    >>> bool(np.allclose(post.predict().mean, y))  # zero temperature interpolates
    True
    >>> post.diagnostics.engine
    'quadrature'
    """

    prior: ScalePrior
    spectrum: Spectrum
    noise: float  # 1/β
    inference: ScaleInference

    @property
    def log_evidence(self) -> float:
        """Log p(Y | X): log E_ϖ of the normalised likelihood (β/2π)^{p n_d/2} exp(−β/2 ‖F − Y‖²).

        At zero temperature the prior density of Y; −inf at β = 0, where every Y is infinitely unlikely.
        """
        return self.inference.log_evidence

    @property
    def log_evidence_error(self) -> float:
        """Standard error of `log_evidence`; 0.0 where it is deterministic."""
        return self.inference.log_evidence_error

    @property
    def scale(self) -> ScaleMeasure:
        """ρ, the posterior of the scale L = W_d ⋯ W_2 W_2ᵀ ⋯ W_dᵀ."""
        return self.inference.measure

    @property
    def diagnostics(self) -> Diagnostics:
        """How the answer was computed and whether it supports itself."""
        return self.inference.diagnostics

    def predict(self, *test: Any) -> Predictive:
        """The posterior predictive of the network's outputs.

        Parameters
        ----------
        *test
            X_test (p̂, n0); after `condition_gram`, cross_gram (p̂, p) and test_gram (p̂, p̂); nothing for the
            training points.
        """
        return Predictive(self.spectrum.project(*test), self._process, self.scale)

    def feature_kernel(self, *test: Any) -> Array:
        """⟨K⟩, the posterior mean of K = X W_1ᵀW_1 Xᵀ / n_1, on the training or the given points, (p̂, p̂)."""
        if not self.prior.widths:
            raise ValueError("a feature kernel needs a hidden layer, got a network of depth one (widths=())")
        return average_feature_kernel(
            self.spectrum.project(*test), self._process, self.scale, self.prior.widths[0]
        )

    @property
    def _process(self) -> ConditionalProcess:
        return ConditionalProcess(self.spectrum.eigenvalues, self.spectrum.targets, self.noise)
