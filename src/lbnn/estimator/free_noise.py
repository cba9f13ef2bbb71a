"""Fitted models whose noise has a covariance of its own, and whether they are tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from lbnn._base.types import Array
from lbnn._base.warn import collected
from lbnn.estimator.extent import FunctionVariance
from lbnn.estimator.model import FittedModel, log_unit_jacobian
from lbnn.estimator.targets import TargetUnits
from lbnn.free_noise.posterior import FreeNoisePosterior
from lbnn.posterior import Posterior
from lbnn.selection import Candidate, EvidenceData, Shapes
from lbnn.selection.free_noise import (
    FreeNoise,
    FreeNoiseSearch,
    candidate_of,
    final_posterior,
    posterior_without_signal,
)

#: Rows, outputs and targets up to which a covariance of the noise is tried by itself: 8 s at 50 × 10,
#: 17 s at 120 × 35.
_MOST_ROWS, _MOST_OUTPUTS, _MOST_TARGETS = 400, 100, 5000
_FEWEST_ROWS = 10
#: Standard deviations of Schott's statistic from which left-out residuals may be correlated: it is exceeded
#: by 7% of uncorrelated ones, which costs time only.
_CORRELATED = 1.5
#: Nats by which one kind of noise must lead for the other to be left out of the average.
CLEAR_LEAD = 4.6  # a weight of 0.01
#: Nats by which the evidence of a comparison of widths may be too low: up to 2 were seen.
SCREENING_BIAS = 2.0


@dataclass(frozen=True)
class FreeNoiseModel(FittedModel):
    """A posterior of signal and noise, and the way to the user's units."""

    def __repr__(self) -> str:
        """One line: network, noise and evidence."""
        return f"FreeNoiseModel(widths={self.widths}, log_evidence={self.log_evidence:.6g})"

    @property
    def free(self) -> FreeNoisePosterior:
        """The posterior."""
        return cast(FreeNoisePosterior, self.posterior)

    @property
    def noise_covariance(self) -> Array:
        """A E[Σ] Aᵀ, (n_d, n_d)."""
        return self.matrix @ self.free.noise_covariance @ self.matrix.T

    @property
    def prior_noise(self) -> Array:
        """Mean noise variance of each output, (n_d,)."""
        return np.diagonal(self.noise_covariance).copy()

    @property
    def mean_prior_scale(self) -> float:
        """Mean signal variance at an input of mean square one: geometric mean over outputs."""
        variances = np.maximum(np.diagonal(self.scale_mean), np.finfo(float).tiny)
        return math.exp(float(np.log(variances).mean()))

    @property
    def _scale_mean(self) -> Array:
        return self.free.signal_covariance

    def covariance_draws(self) -> tuple[Array, Array, Array]:
        """Weights, signal at a typical input and noise: (m,), (m, n_d, n_d) each."""
        draws = self.free.draws
        signal = self.matrix @ (self.free.mean_gram * draws.signal) @ self.matrix.T
        return draws.weights, signal, self.matrix @ draws.noise @ self.matrix.T

    @property
    def function_variance(self) -> FunctionVariance:
        """Variance of the function at points, for the mean ratios of signal to noise."""
        draws = self.free.draws
        level = draws.outputs / self.level_examples if self.level_examples else 0.0
        return FunctionVariance(
            self.free.spectrum.eigenvalues, 1.0, np.asarray(draws.average(draws.ratios)), level
        )


def may_be_free(kind: str, data: EvidenceData, shapes: Shapes, given: bool) -> bool:
    """Whether noise with a covariance of its own is a candidate where the evidence chooses the kind."""
    rows, outputs = data.spectrum.examples, data.outputs
    sized = _FEWEST_ROWS <= rows <= _MOST_ROWS and 2 <= outputs <= _MOST_OUTPUTS
    sized = sized and rows * outputs <= _MOST_TARGETS
    searched = kind == "auto" and not given and shapes == Shapes() and data.spectrum.weights is None
    return sized and searched and data.noise_variance > 0 and data.spectrum.rank > 0


def residuals_correlate(model: FittedModel, targets: Array) -> bool:
    """Whether left-out residuals are correlated across outputs, by Schott's test (2005), at any p and n_d.

    Σ_{i<j} r_ij² less its mean n_d (n_d − 1)/(2f) has the variance n_d (n_d − 1)(f − 1)/(f² (f + 2)), with f
    degrees of freedom, here p − 1.
    """
    with collected():
        residual = np.reshape(model.leave_one_out(targets).residual, targets.shape)
    centred = residual - residual.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    white = centred[:, lengths > 0] / lengths[lengths > 0]
    outputs, degrees = white.shape[1], len(white) - 1
    squares = 0.5 * (float(((white.T @ white) ** 2).sum()) - outputs)
    mean = outputs * (outputs - 1) / (2 * degrees)
    deviation = math.sqrt(outputs * (outputs - 1) * (degrees - 1) / (degrees**2 * (degrees + 2)))
    return bool(outputs > 1 and squares - mean > _CORRELATED * deviation)


def search_free(
    data: EvidenceData, shapes: Shapes, seed: int, report: Callable[[Candidate], None]
) -> list[FreeNoise]:
    """Pairs of widths of signal and noise, best first; widths of the signal that are given are kept."""
    signals: Sequence[tuple[int, ...] | None] | None = shapes.fixed
    if signals is None and shapes.depth is not None:
        layers = shapes.depth - 1
        signals = [(width,) * layers for width in (3, data.outputs)] if layers else [()]
    return FreeNoiseSearch(data, seed, report).run(signals)


def fit_free(
    data: EvidenceData,
    pairs: Sequence[FreeNoise],
    units: TargetUnits,
    level_examples: float | None,
    **effort: Any,
) -> tuple[FreeNoiseModel, list[Candidate]]:
    """The average over pairs of widths as one model, and what the table says of them."""
    posterior, averaged = final_posterior(
        data, pairs, target_error=effort["target_error"], seed=effort["seed"]
    )
    evidence = posterior.log_evidence + log_unit_jacobian(data, units)
    model = _model(posterior, evidence, averaged[0].log_prior_odds, units, level_examples)
    return model, [candidate_of(data, each) for each in averaged]


def fit_without_signal(
    data: EvidenceData, pairs: Sequence[FreeNoise], units: TargetUnits, level_examples: float | None
) -> FreeNoiseModel | None:
    """The best model of noise alone, of the pairs that were compared; None where none was."""
    posterior = posterior_without_signal(data, pairs)
    if posterior is None:
        return None
    return _model(posterior, posterior.log_evidence, 0.0, units, level_examples)


def _model(
    posterior: FreeNoisePosterior,
    evidence: float,
    log_prior_odds: float,
    units: TargetUnits,
    level_examples: float | None,
) -> FreeNoiseModel:
    return FreeNoiseModel(
        cast(Posterior, posterior),
        units.matrix,
        units.mean,
        level_examples,
        1.0,
        evidence,
        units.single_output,
        -log_prior_odds,
        evidence + log_prior_odds,
    )
