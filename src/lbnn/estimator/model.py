"""Fitted networks in the user's units, and the state of a fitted estimator."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from lbnn._base.arrays import like, to_numpy
from lbnn._base.types import Array
from lbnn.data.bases import GramBasis, InputBasis
from lbnn.data.centring import CentredInputs, CentredKernel, Columns, contrasts, outside_range
from lbnn.data.projection import TrainingProjection
from lbnn.data.spectrum import Spectrum
from lbnn.data.streams import Stream
from lbnn.leave_one_out import LeaveOneOut, leave_one_out
from lbnn.posterior import Posterior
from lbnn.predict.affine import AffinePredictive
from lbnn.predict.average import MixturePredictive
from lbnn.selection import Candidate, EvidenceData, condition, coupled


@dataclass(frozen=True)
class TargetUnits:
    """Targets are unit · (targets of the search) + mean."""

    mean: Array  # (n_d,)
    unit: float
    single_output: bool


@dataclass(frozen=True)
class FittedModel:
    """A posterior in whitened units and the way back to the user's.

    Attributes
    ----------
    posterior : Posterior
        Of the network that sees (targets − mean)/deviations.
    deviations : (n_d,)
        The diagonal of A; with noise, its standard deviations.
    mean : (n_d,)
        Mean of the training targets; zero without an intercept.
    prior_scale : float
        κ, in whitened units.
    log_evidence : float
        In the user's units.
    single_output : bool
        Whether the targets were one-dimensional.
    level_examples : int or None
        p where a level is fitted, else None.
    penalty : float
        Of the log evidence, for the number of hyperparameters fitted.
    """

    posterior: Posterior
    deviations: Array
    mean: Array
    level_examples: int | None
    prior_scale: float
    log_evidence: float
    single_output: bool
    penalty: float

    def __repr__(self) -> str:
        """One line: network, noise and evidence."""
        return (
            f"FittedModel(widths={self.widths}, {self.posterior.noise}, log_evidence={self.log_evidence:.6g})"
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """Hidden widths."""
        return self.posterior.prior.widths

    @property
    def noise_covariance(self) -> Array:
        """A (ν E[L] + τ I) Aᵀ, (n_d, n_d)."""
        scale_mean = np.reshape(self.posterior.scale.mean, (len(self.deviations),) * 2)
        inner = self.posterior.noise.mean_covariance(scale_mean)
        return self.deviations[:, None] * inner * self.deviations

    @property
    def prior_noise(self) -> Array:
        """Noise variance of each output before the data (E L = I), (n_d,)."""
        noise = self.posterior.noise
        return (noise.variance + noise.coupling) * self.deviations**2

    @property
    def mean_prior_scale(self) -> float:
        """Prior scale in squared units of the targets: geometric mean over outputs."""
        return self.prior_scale * math.exp(2 * float(np.log(self.deviations).mean()))

    @property
    def scale_mean(self) -> Array:
        """κ A E[L] Aᵀ, (n_d, n_d): mean covariance of the outputs at an input of mean square one."""
        mean = np.reshape(self.posterior.scale.mean, (len(self.deviations),) * 2)
        return self.prior_scale * self.deviations[:, None] * mean * self.deviations

    def predictive(self, *test: Any) -> AffinePredictive:
        """The function at test points given as `Spectrum.project` wants them."""
        noise, share = self.posterior.noise, 1 / self.level_examples if self.level_examples else 0.0
        inner = self.posterior.predictive_at(self.posterior.spectrum.project(*test))
        inner = replace(inner, projection=inner.projection.shifted(share * noise.coupling))
        matrix, level = np.diag(self.deviations), share * noise.variance
        return AffinePredictive(inner, matrix, self.mean, level, self.single_output)

    def coefficients(self) -> Array:
        """Mean function: weights of the inputs (n_d, n0), or of the training points in a kernel (n_d, p)."""
        spectrum = self.posterior.spectrum
        along, basis = self.posterior.predictive_at(TrainingProjection(np.eye(spectrum.rank))), spectrum.basis
        inner = along.mean.reshape(spectrum.rank, len(self.deviations))  # E M, (r, n_d)
        if isinstance(basis, InputBasis):
            weights = math.sqrt(basis.scale) * to_numpy(
                basis.directions.combine(like(inner.T, basis.example))
            )
        else:
            assert isinstance(basis, GramBasis)
            weights = math.sqrt(basis.scale) * (inner.T / np.sqrt(basis.eigenvalues)) @ basis.vectors.T
        return self.deviations[:, None] * weights

    def leave_one_out(self, targets: Array) -> LeaveOneOut:
        """Scores of the training targets (p, n_d), each given all others, in the user's units."""
        whitened = (targets - self.mean) / self.deviations
        if self.single_output:
            whitened = whitened[:, 0]
        inner = leave_one_out(
            self.posterior, whitened, centred=self.posterior.spectrum.examples < len(targets)
        )
        return inner.in_units(self.deviations, self.mean)


def decompose(
    points: Array, y: Array, *, linear: bool, centre: bool, noise: float
) -> tuple[CentredInputs | CentredKernel, EvidenceData, TargetUnits]:
    """Data after their one eigendecomposition, targets in units of their own size.

    Parameters
    ----------
    points : (p, n0) inputs where `linear`, else a (p, p) kernel matrix
    y : (p,) or (p, n_d)
    linear, centre : bool
    noise : float
        1, or 0 at zero temperature.
    """
    columns = y.reshape(len(y), -1)
    level = Columns.of(columns, centre)
    centred = level.centred_training(columns)
    size = math.sqrt(float((centred**2).mean()) * len(y) / max(len(y) - centre, 1))
    units = TargetUnits(level.means, size if size > 0 else 1.0, y.ndim == 1)
    targets = (centred / units.unit).reshape(y.shape)
    inputs = CentredInputs.of(points, centre) if linear else CentredKernel.of(points, centre)
    spectrum = inputs.spectrum(points, targets)
    if centre:
        spectrum = contrasts(spectrum)
    return inputs, EvidenceData(spectrum, outside_range(spectrum, targets), noise), units


def decompose_stream(
    stream: Stream, *, centre: bool, noise: float
) -> tuple[CentredInputs, EvidenceData, TargetUnits]:
    """`decompose` for data in blocks of rows, which are read twice."""
    moments, n0 = stream.moments(), stream.inputs
    factor = stream.factor(moments, centre)
    means = moments.means if centre else np.zeros_like(moments.means)
    square = float(np.trace(moments.about(centre)[n0:, n0:])) / factor.targets.shape[1]
    size = math.sqrt(square / max(moments.count - centre, 1))
    units = TargetUnits(means[n0:], size if size > 0 else 1.0, stream.single)
    scaled = replace(factor, targets=factor.targets / units.unit, outside=factor.outside / units.unit)
    spectrum = Spectrum.of_factor(scaled, moments.count, stream.single)
    rest = np.zeros((0, spectrum.outputs)) if spectrum.outside is None else spectrum.outside
    outside = np.asarray(np.linalg.qr(rest, mode="r"), float)
    if centre:
        spectrum = contrasts(spectrum)
    return CentredInputs(Columns(means[:n0])), EvidenceData(spectrum, outside, noise), units


def fit_model(
    data: EvidenceData, candidate: Candidate, units: TargetUnits, level_examples: int | None, **effort: Any
) -> FittedModel:
    """Condition one candidate; `level_examples` is p where a level is fitted."""
    seen = coupled(data) if candidate.coupled else data
    posterior = condition(seen, candidate.widths, candidate.h, **effort)
    jacobian = data.log_jacobian(candidate.h) + log_unit_jacobian(data, units)
    return FittedModel(
        posterior,
        units.unit * np.exp(candidate.h[:-1] / 2),
        units.mean,
        level_examples,
        math.exp(candidate.h[-1]),
        posterior.log_evidence + jacobian,
        units.single_output,
        candidate.penalty,
    )


def log_unit_jacobian(data: EvidenceData, units: TargetUnits) -> float:
    """From densities of the search's targets to those of the user's."""
    return -data.spectrum.examples * data.outputs * math.log(units.unit)


def table_row(candidate: Candidate, data: EvidenceData, units: TargetUnits) -> dict[str, Any]:
    """One line of the evidence table, in the user's units."""
    log_unit = float(candidate.h[:-1].mean()) + 2 * math.log(units.unit)
    return {
        "depth": len(candidate.widths) + 1,
        "widths": candidate.widths,
        "noise": candidate.noise,
        "beta": math.exp(-log_unit) if data.noise else math.inf,
        "prior_scale": math.exp(float(candidate.h[-1]) + log_unit),
        "log_evidence": candidate.log_evidence + log_unit_jacobian(data, units),
        "error": candidate.error,
        "penalty": candidate.penalty,
        "at_edge": candidate.on_edge,
    }


@dataclass(frozen=True)
class FittedState:
    """Everything that predictions need."""

    models: tuple[FittedModel, ...]
    inputs: CentredInputs | CentredKernel
    training_inputs: Array  # of kernels that are computed; empty for the linear one
    targets: Array  # (p, n_d); no rows where data came in blocks

    @property
    def best(self) -> FittedModel:
        """The model that the evidence prefers."""
        return self.models[0]

    @property
    def weights(self) -> Array:
        """Posterior probabilities of the models, (models,)."""
        return special.softmax(np.array([model.log_evidence - model.penalty for model in self.models]))

    def coefficients(self) -> Array:
        """Weights of the mean function, averaged over the models, (n_d, n0) or (n_d, p)."""
        return np.tensordot(self.weights, np.stack([model.coefficients() for model in self.models]), axes=1)

    def predictive(self, *test: Array) -> AffinePredictive | MixturePredictive:
        """The function at centred test points."""
        components = tuple(model.predictive(*test) for model in self.models)
        return components[0] if len(components) == 1 else MixturePredictive(components, self.weights)
