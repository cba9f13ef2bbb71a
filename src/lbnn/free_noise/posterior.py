"""FreeNoisePosterior: a network and a noise covariance of its own, conditioned on data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lbnn import archive
from lbnn._base.errors import DataWarning
from lbnn._base.types import Array
from lbnn._base.warn import warn, warn_of
from lbnn.cross_validation import LeaveOneOut, kept_targets, left_out_scores
from lbnn.data.projection import Projection
from lbnn.data.spectrum import Spectrum
from lbnn.engines import InferenceOptions
from lbnn.engines.conditioned import Conditioned
from lbnn.engines.signal_noise import SignalNoiseInference, infer_signal_noise
from lbnn.free_noise.target import given_target
from lbnn.predict.predictive import Predictive
from lbnn.predict.process import Process
from lbnn.scale.draws import Draws
from lbnn.scale.prior import ScalePrior

#: What a file of `FreeNoisePosterior.save` holds.
KIND = "free-noise posterior"


@dataclass(frozen=True, repr=False)
class FreeNoisePosterior(Conditioned):
    """The posterior of signal and noise. Returned by `Network.condition(..., noise_network=...)`.

    Row i of the targets in the eigenbasis of the Gram matrix has the covariance Σ + g_i L across outputs.

    Attributes
    ----------
    prior : ScalePrior
        Law of the network's scale L before the data.
    spectrum : Spectrum
        The data, with the first layer's prior variance in the Gram matrix.
    inference : SignalNoiseInference
        Draws of L and Σ, the evidence and diagnostics.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(15, 20))
    >>> noise = rng.normal(size=(15, 1)) @ np.ones((1, 2)) + 0.3 * rng.normal(size=(15, 2))
    >>> given = {"noise": "free", "noise_network": lbnn.Network((1,)), "target_error": 0.2}
    >>> post = lbnn.Network(widths=(5,)).condition(X, noise, beta=10.0, **given)
    >>> post.predict(X[:3]).with_noise().mean.shape
    (3, 2)
    >>> post.noise_covariance.shape
    (2, 2)
    """

    prior: ScalePrior
    spectrum: Spectrum
    inference: SignalNoiseInference

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        shares = ", ".join(f"{each:.2f}" for each in self.signal_share()[:12])
        return self._card([("noise", "free"), ("share of the signal", shares)])

    @property
    def _examples(self) -> int:
        return self.spectrum.examples

    @property
    def _found(self) -> SignalNoiseInference:
        return self.inference

    # ------------------------------------------------------------------ what was found

    @property
    def missing(self) -> None:
        """Every target is known: missing cells are for independent noise."""
        return

    @property
    def draws(self) -> Draws:
        """Weighted draws of signal and noise: `.signal` and `.noise` are (m, n_d, n_d)."""
        return self.inference.draws

    @property
    def signal_covariance(self) -> Array:
        """E L, (n_d, n_d): of the outputs at an input of mean square one."""
        return self.draws.average(self.draws.signal)

    @property
    def noise_covariance(self) -> Array:
        """E Σ, (n_d, n_d)."""
        return self.draws.average(self.draws.noise)

    def signal_share(self) -> Array:
        """Posterior mean of ḡ L_jj/(ḡ L_jj + Σ_jj), the share of the signal (heritability), (n_d,).

        ḡ is the mean of the diagonal of the Gram matrix.
        """
        return self.draws.average(self.draws.signal_shares(self.mean_gram))

    @property
    def mean_gram(self) -> float:
        """ḡ, tr G/p."""
        return self.spectrum.mean_gram

    # ------------------------------------------------------------------ predictions

    def predict(
        self,
        X_test: ArrayLike | None = None,
        *,
        cross_gram: ArrayLike | None = None,
        test_gram: ArrayLike | None = None,
    ) -> Predictive:
        """The posterior predictive of the function; `.with_noise()` for observations.

        Parameters
        ----------
        X_test : (p̂, n0), optional
            Test inputs; the training points by default.
        cross_gram, test_gram : (p̂, p) and (p̂, p̂), optional
            After `condition_gram`, in the place of X_test.
        """
        return self._predictive_at(self.spectrum.project(X_test, cross_gram=cross_gram, test_gram=test_gram))

    def _differences_at(self, projection: Projection) -> Predictive:
        """The predictive of differences of the function between points, projected."""
        return self._predictive_at(projection)

    def _predictive_at(self, projection: Projection) -> Predictive:
        """At projected test points."""
        return Predictive.of(self._predictions, projection, self.spectrum.single_output)

    @cached_property
    def _predictions(self) -> Process:
        """The Gaussian processes given the draws."""
        return Process.of(self.draws, self.spectrum.eigenvalues, self.spectrum.targets)

    def leave_one_out(self, Y: ArrayLike | None = None) -> LeaveOneOut:
        """Score every example given all others, without refitting.

        Parameters
        ----------
        Y : (p, n_d), optional
            The targets that the posterior was conditioned on; needed where it does not keep them.
        """
        targets = kept_targets(self.spectrum) if Y is None else Y
        return left_out_scores(self, targets, centred=len(np.asarray(targets)) > self.spectrum.examples)

    @property
    def _left_out_draws(self) -> Draws:
        """The draws."""
        return self.draws

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior to a file; loading it executes no code (see docs/data-and-files.md)."""
        archive.write(path, KIND, *self._packed())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FreeNoisePosterior:
        """Read a posterior; a file that holds none, or is damaged, raises a ValueError."""
        return cls._unpacked(*archive.read(path, KIND))

    def _packed(self) -> archive.Packed:
        return archive.pack_signal_noise(self.prior, self.spectrum, self.inference)

    @classmethod
    def _unpacked(cls, header: dict[str, Any], arrays: dict[str, Any]) -> FreeNoisePosterior:
        return cls(*archive.unpack_signal_noise(header, arrays))


def condition_free(
    prior: ScalePrior,
    spectrum: Spectrum,
    noise_variance: float,
    noise_prior: ScalePrior,
    options: InferenceOptions,
) -> FreeNoisePosterior:
    """The posterior of signal and noise Σ = noise_variance · I + L₂; an answer that is not ok warns."""
    if options.engine not in ("auto", "smc"):
        raise ValueError(f"noise_network is integrated by engine='smc', got engine={options.engine!r}")
    if noise_prior.full_rank and spectrum.outputs > spectrum.examples:
        warn(
            f"noise_network leads to a noise covariance of full rank, with {spectrum.outputs} outputs and "
            f"{spectrum.examples} rows: with more outputs than rows it depends mainly on the prior. Use a "
            f"noise_network with fewer units than rows, whose factors are added to I/beta",
            DataWarning,
        )
    inference = infer_signal_noise(given_target(prior, spectrum, noise_variance, noise_prior), options)
    warn_of(inference.diagnostics.messages)
    return FreeNoisePosterior(prior, spectrum, inference)
