"""Posterior: a network conditioned on data. Predictions, feature kernel, evidence, scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.bases import InputBasis
from lbnn.data.spectrum import Spectrum
from lbnn.engines import Diagnostics, ScaleInference
from lbnn.predict.conditional import ConditionalProcess
from lbnn.predict.feature_kernel import average_layer_kernel
from lbnn.predict.mixture import Predictive
from lbnn.predict.weights import sample_weights
from lbnn.scale.measure import ScaleMeasure
from lbnn.scale.prior import ScalePrior


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

    def __repr__(self) -> str:
        """One line: network, data, evidence, engine."""
        return (
            f"Posterior(widths={self.prior.widths}, examples={self.spectrum.examples}, "
            f"outputs={self.prior.outputs}, log_evidence={self.log_evidence:.6g}, "
            f"engine={self.diagnostics.engine!r}, ok={self.diagnostics.ok})"
        )

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

    def feature_kernel(self, *test: Any, layer: int = 1) -> Array:
        """⟨K_ℓ⟩, the posterior mean of K_ℓ = X W_1ᵀ⋯W_ℓᵀ W_ℓ⋯W_1 Xᵀ / n_ℓ.

        Parameters
        ----------
        *test
            As in `predict`; nothing for the training points.
        layer : int
            Hidden layer ℓ, from 1 (the paper's kernel) to d − 1.

        Returns
        -------
        (p̂, p̂) array
        """
        widths, number = self.prior.widths, check.positive_integer(layer, "layer")
        if number > len(widths):
            raise ValueError(
                f"layer must be a hidden layer, from 1 to {len(widths)}, got layer={number}"
                if widths
                else "a feature kernel needs a hidden layer, got a network of depth one (widths=())"
            )
        return average_layer_kernel(
            self.spectrum.project(*test),
            self._process,
            self.scale,
            widths,
            self.prior.layer_variances,
            number,
        )

    def sample_weights(self, size: int, rng: Any) -> list[Array]:
        """Draw all weights from their exact posterior.

        Independent given independent draws of the scale: so for one output and at depth one; with several
        outputs scales are resampled from the atoms of `scale`.

        Parameters
        ----------
        size : int
        rng : int or numpy.random.Generator

        Returns
        -------
        list of arrays
            W_1 (size, n_1, n_0), ..., W_d (size, n_d, n_{d−1}).
        """
        count, generator = check.positive_integer(size, "size"), check.generator(rng)
        if not isinstance(self.spectrum.basis, InputBasis):
            raise ValueError(
                "weights act on inputs: condition on inputs X, got a posterior from a Gram matrix"
            )
        factors = [] if self.scale.law is None else self.scale.law.sample_factors(count, generator)
        return sample_weights(
            count,
            factors,
            self.prior.widths,
            self.prior.layer_variances,
            self._process,
            self.spectrum.basis,
            generator,
        )

    @property
    def _process(self) -> ConditionalProcess:
        return ConditionalProcess(self.spectrum.eigenvalues, self.spectrum.targets, self.noise)
