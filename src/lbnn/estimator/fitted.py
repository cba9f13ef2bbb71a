"""Fitted networks in the user's units, and the state of a fitted estimator."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lbnn._base.arrays import device_of, like, namespace
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, Mask
from lbnn.cross_validation import LeaveOneOut, left_out_scores
from lbnn.data.projection import Projection
from lbnn.estimator.inputs import InputTransform
from lbnn.estimator.leverage import Extent, FunctionVariance
from lbnn.estimator.table import Rows, Table
from lbnn.free_noise.posterior import FreeNoisePosterior
from lbnn.posterior import Posterior
from lbnn.predict.predictive import Predictive

_INPUT_BLOCKS = 16  # that rows whose mean is computed at once may fill: products want more than the cache


@dataclass(frozen=True)
class FittedModel:
    """A posterior in whitened units and the way back to the user's.

    Attributes
    ----------
    posterior : Posterior
        Of the network F whose targets Z are those of the search in units of their noise.
    matrix : (n_d, q)
        A: targets are mean + Z Aᵀ. Diagonal, with the deviations of the noise, unless targets are dependent.
    mean : (n_d,)
        Mean of the training targets; zero without an intercept.
    prior_scale : float
        κ, in whitened units.
    log_evidence : float
        In the user's units.
    single_output : bool
        Whether the targets were one-dimensional.
    level_examples : float or None
        Where a level is fitted the number of rows p, or the sum of their weights; else None.
    penalty : float
        Of the log evidence, for the number of hyperparameters fitted.
    log_weight : float
        In a mixture of models, up to a constant.
    noise : str
        Its kind, as the estimator calls it.
    signal : bool
        False for a level and noise alone.
    at_maximum : bool
        Whether its hyperparameters are those that the evidence prefers, not some around them.
    """

    posterior: Posterior
    matrix: Array
    mean: Array
    level_examples: float | None
    prior_scale: float
    log_evidence: float
    single_output: bool
    penalty: float
    log_weight: float
    noise: str
    signal: bool = True
    at_maximum: bool = True

    def __repr__(self) -> str:
        """One line: network, noise and evidence."""
        return f"FittedModel(widths={self.widths}, {self.noise}, log_evidence={self.log_evidence:.6g})"

    @property
    def key(self) -> tuple[Any, ...]:
        """Which candidate it is a model of: widths, kind of noise, and whether there is a signal."""
        return self.widths, self.noise, self.signal

    @property
    def widths(self) -> tuple[int, ...]:
        """Hidden widths."""
        return self.posterior.prior.widths

    @property
    def noise_covariance(self) -> Array:
        """A (ν E[L] + τ I) Aᵀ, (n_d, n_d)."""
        return self.matrix @ self.posterior.noise.mean_covariance(self._scale_mean) @ self.matrix.T

    @property
    def prior_noise(self) -> Array:
        """Noise variance of each output before the data (E L = I), (n_d,)."""
        noise = self.posterior.noise
        return (noise.variance + noise.coupling) * (self.matrix**2).sum(axis=1)

    @property
    def mean_prior_scale(self) -> float:
        """Prior scale in squared units of the targets: geometric mean over outputs."""
        return self.prior_scale * math.exp(float(np.log((self.matrix**2).sum(axis=1)).mean()))

    @property
    def scale_mean(self) -> Array:
        """κ A E[L] Aᵀ, (n_d, n_d): mean covariance of the outputs at an input of mean square one."""
        return self.prior_scale * self.matrix @ self._scale_mean @ self.matrix.T

    @property
    def _scale_mean(self) -> Array:
        """E L in the network's own units, (q, q)."""
        return np.reshape(self.posterior.scale.mean, (self.matrix.shape[1],) * 2)

    def covariance_draws(self) -> tuple[Array, Array, Array]:
        """Weights, signal at a typical row ḡκ A L Aᵀ and noise A (τ I + ν L) Aᵀ: (m,), (m, n_d, n_d) each.

        ḡκ is the mean eigenvalue of the Gram matrix of the training rows, prior scale included. Noise that is
        the same for all draws is one matrix, (1, n_d, n_d).
        """
        measure, noise, spectrum = (
            self.posterior._scale_in_units,
            self.posterior.noise,
            self.posterior.spectrum,
        )
        mean_gram = float(spectrum.eigenvalues.sum()) / max(spectrum.examples, 1)
        own = noise.variance * (self.matrix @ self.matrix.T)[None]
        if noise.coupling:
            own = own + noise.coupling * turned(measure.scales, self.matrix)
        return measure.weights, turned(measure.scales, math.sqrt(mean_gram) * self.matrix), own

    def predictive(self, *test: Any) -> Predictive:
        """The function at test points given as arguments of `Spectrum.project`."""
        return self.predictive_at(self.posterior.spectrum.project(*test))

    def predictive_at(self, projection: Projection) -> Predictive:
        """The function at test points, projected on the training data of this model."""
        levels = self.level_examples if self.posterior.missing is None else 0  # a table has its own
        inner = self.posterior._predictive_at(projection)
        return self.in_units(inner.affine(self.matrix, self.mean, 1 / levels if levels else 0.0))

    def in_units(self, law: Predictive) -> Predictive:
        """A predictive whose results drop the output axis where the targets had none."""
        return replace(law, single_output=self.single_output)

    @property
    def function_variance(self) -> FunctionVariance:
        """Variance of the function at points, from the mean of the scale."""
        mean = self._scale_mean
        if not np.isfinite(mean).all():
            mean = self.posterior.scale.typical * np.eye(len(mean))
        return FunctionVariance.of(self.posterior, mean, self.level_examples)

    def coefficients(self) -> Array:
        """Mean function: weights of the inputs (n_d, n0), or of the training points in a kernel (n_d, p)."""
        spectrum = self.posterior.spectrum
        unit = Projection(np.eye(spectrum.rank))
        inner = self.posterior._differences_at(unit).mean  # E M, (r, q)
        inner = inner.reshape(-1, self.matrix.shape[1])
        roots = None if spectrum.weights is None else np.sqrt(spectrum.weights)
        return self.matrix @ spectrum.basis.function_weights(inner.T, roots)

    @property
    def _level(self) -> Array:
        """Mean of the levels that the posterior of a table with missing targets has, (q,)."""
        nowhere = Projection(np.zeros((1, self.posterior.spectrum.rank)))
        return np.asarray(self.posterior._predictive_at(nowhere).mean).reshape(-1)

    @property
    def centre(self) -> Array:
        """Mean of the targets where the features are zero, (n_d,)."""
        return self.mean if self.posterior.missing is None else self.mean + self.matrix @ self._level

    def leave_one_out(self, targets: Array) -> LeaveOneOut:
        """Scores of the training targets (p, n_d), each given all others, in the user's units."""
        if self.posterior.missing is not None:
            return self._left_out_rows(self.posterior.missing.observed)
        whitened = (targets - self.mean) @ np.linalg.pinv(self.matrix).T
        if self.single_output:
            whitened = whitened[:, 0]
        centred = self.posterior.spectrum.examples < len(targets)
        return left_out_scores(
            self.posterior, whitened, centred=centred, matrix=self.matrix, offset=self.mean
        )

    def _left_out_rows(self, observed: Mask) -> LeaveOneOut:
        """Scores of the observed targets (p, n_d) of every row; outputs are never combined here."""
        scores, units = self.posterior.leave_one_out(), np.diagonal(self.matrix)
        return replace(
            scores,
            mean=self.mean + units * scores.mean,
            variance=units**2 * scores.variance,
            residual=units * scores.residual,
            log_density=scores.log_density - observed @ np.log(units),
        )


def turned(scales: Array, matrix: Array) -> Array:
    """A L Aᵀ of scales (m, q, q), (m, n_d, n_d); A (n_d, q) is diagonal unless targets are dependent."""
    units = np.diagonal(matrix)
    if matrix.shape[0] == matrix.shape[1] and not (matrix - np.diag(units)).any():
        return np.asarray(scales * np.outer(units, units), float)
    return np.asarray(matrix @ scales @ matrix.T, float)


@dataclass(frozen=True)
class FreeNoiseModel(FittedModel):
    """A posterior of signal and noise, and the way to the user's units."""

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


@dataclass(frozen=True)
class FittedState:
    """Everything that predictions need.

    Attributes
    ----------
    models : tuple of FittedModel
        Best first.
    transform : InputTransform
        From the user's inputs to those of the network.
    targets : (k, n_d)
        Of the rows that are counted; none where data came in blocks.
    rows : Rows
    extent : Extent
        How far the training rows reach.
    signal_share : (n_d, 3)
        Share of the signal of each output: posterior mean, and the ends of its 90% interval.
    left_inputs, left_targets : (q, n0), (q, n_d)
        Rows without any target, or of weight zero, that were left out; NaN where a target is missing.
    """

    models: tuple[FittedModel, ...]
    transform: InputTransform
    targets: Array
    rows: Rows
    extent: Extent
    signal_share: Array
    left_inputs: Array
    left_targets: Array

    @classmethod
    def of(
        cls,
        models: tuple[FittedModel, ...],
        transform: InputTransform,
        targets: Array,
        table: Table,
        signal_share: Array,
    ) -> FittedState:
        """The state of a fit; the leverage of its training rows is measured here."""
        rows, extent = table.rows, table.extent
        if len(targets) > 1:
            best = models[0]
            own = best.function_variance.of_training_rows(best.posterior.spectrum, len(targets))
            extent = replace(extent, variance=float(own.max()))
        left = table.left_inputs, table.left_targets
        return cls(models, transform, targets, rows, extent, signal_share, *left)

    @property
    def best(self) -> FittedModel:
        """The model that the evidence prefers."""
        return self.models[0]

    @property
    def weights(self) -> Array:
        """Posterior probabilities of the models, (models,)."""
        return special.softmax(np.array([model.log_weight for model in self.models]))

    @property
    def noise_covariance(self) -> Array:
        """Averaged over the models, (n_d, n_d)."""
        return np.tensordot(self.weights, np.stack([each.noise_covariance for each in self.models]), axes=1)

    @property
    def centre(self) -> Array:
        """Mean of the targets where the features are zero, averaged over the models, (n_d,)."""
        return np.asarray(self.weights @ np.stack([model.centre for model in self.models]))

    def coefficients(self) -> Array:
        """Weights of the mean function, averaged over the models, (n_d, n0) or (n_d, p).

        Of inputs (or of a kernel) in the units of the network's inputs.
        """
        return np.tensordot(self.weights, np.stack([model.coefficients() for model in self.models]), axes=1)

    def mean(self, X: AnyArray, weights: Array) -> AnyArray:
        """Of the targets at X, from the weights of the mean function."""
        centre, parts = self.centre, []
        widest = max(X.shape[1], weights.shape[1])  # inputs, or kernels with the training points
        for rows in blocks(X.shape[0], widest, _INPUT_BLOCKS * device_of(X).block_floats):
            features = self.transform.features(X[rows, :])
            parts.append(features @ like(weights.T, features) + like(centre, features))
        found = namespace(X).concat(parts)
        return found[:, 0] if self.best.single_output else found

    def predictive(self, X: AnyArray, test_gram: ArrayLike | None) -> Predictive:
        """The function at test points; `test_gram` instead of the kernel among them."""
        best = self.best.posterior.spectrum
        seen = best.project(*self.transform.test(X, test_gram))
        leverage = self.extent.leverage(self.best.function_variance.at(seen))
        components = tuple(  # models differ in the prior scale: test points are projected once
            model.predictive_at(seen.scaled(model.posterior.spectrum.basis.scale / best.basis.scale))
            for model in self.models
        )
        return replace(Predictive.average(components, self.weights), leverage=leverage)

    def coefficient_law(self, rows: Array) -> Predictive:
        """Changes of the function along rows (k, n0) of the network's inputs, without a level."""
        best = self.best.posterior.spectrum
        seen = best.project(like(rows, best.basis.example))
        components = tuple(
            model.in_units(
                model.posterior._differences_at(
                    seen.scaled(model.posterior.spectrum.basis.scale / best.basis.scale)
                ).affine(model.matrix)
            )
            for model in self.models
        )
        return Predictive.average(components, self.weights)

    def leave_one_out(self) -> LeaveOneOut:
        """Scores of all rows of the table, from the best model; copies have the score of what they copy.

        Rows of weight zero have none.
        """
        if not len(self.targets):
            raise ValueError("leave-one-out scores need the training data, got a fit of data in chunks")
        return self.best.leave_one_out(self.targets).taken(self.rows.scored)

    @property
    def scored_targets(self) -> Array:
        """Targets of the rows of `leave_one_out`, (rows, n_d)."""
        return self.targets[self.rows.scored]
