"""LBNNRegressor: the scikit-learn estimator. Needs the extra `sklearn`."""

from __future__ import annotations

import math
import os
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from lbnn._base.arrays import namespace, place_of, require_one_place, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array
from lbnn.data.centring import CentredInputs, CentredKernel
from lbnn.data.streams import Blocks, DaskBlocks, Stream, is_dask
from lbnn.estimator import fitting, prediction, saving, settings
from lbnn.estimator.model import FittedState, TargetUnits, decompose, decompose_stream, table_row
from lbnn.leave_one_out import LeaveOneOut
from lbnn.predict.affine import AffinePredictive
from lbnn.predict.average import MixturePredictive
from lbnn.selection import EvidenceData, search

_POINTS_AT_ONCE = 1024  # test points whose kernel matrix is held at once


class LBNNRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Regression with a deep linear Bayesian network of finite width, its hyperparameters chosen by evidence.

    Y = 1bᵀ + F(X − mean) + noise with a flat prior of the level b and F a deep linear network: a Gaussian
    process whose covariance across outputs is learned. A narrow network is Bayesian reduced-rank regression.

    Parameters
    ----------
    depth : "evidence" or int
        Number of weight matrices. "evidence" compares one (the Gaussian process), two and three.
    width : "evidence", int or tuple of int
        Hidden widths: one for all hidden layers, or one each. "evidence" compares a ladder of widths and
        infinite width, the Gaussian process, whatever the depth.
    beta : "evidence" or float in (0, inf]
        1/(noise variance) in the units of the targets; with unequal noise, of its geometric mean; with
        coupled noise, of its prior mean.
    prior_scale : "evidence" or float
        Prior variance of an output at an input with mean square one (a kernel value of one), in squared
        units of the targets; with unequal noise, its geometric mean.
    noise : "evidence", "isotropic", "per_output", "coupled" or "coupled_per_output"
        One noise variance for all outputs; one each (outputs are whitened by their noise, and prior variances
        are proportional to noise variances); noise that passes through the network, so that its covariance
        across outputs is learned, with one unit for all outputs or one each; or the best of these.
    kernel : str or callable
        "linear" (XXᵀ/n_features), "precomputed", or what `sklearn.metrics.pairwise.pairwise_kernels` takes.
    kernel_params : dict, optional
        Parameters of the kernel.
    fit_intercept : bool
        Whether there is a level b; otherwise data are taken as they are.
    average : bool
        Average over the candidates with their evidence as weights instead of taking the best.
    engine : str
        As in `Network.condition`, for the final answer.
    target_error : float
        Monte Carlo error aimed at in the final answer, as in `Network.condition`.
    random_state : int, RandomState or None
        Seed of the draws; one output needs none.
    verbose : int
        Whether to print a line for every candidate.

    Attributes
    ----------
    coef_ : (n_targets, n_features), or (n_features,) for a one-dimensional target
        Weights of the mean function; linear kernel only.
    intercept_ : (n_targets,) or float
        Linear kernel only.
    dual_coef_ : (n_targets, n_samples) or (n_samples,)
        Weights of the centred kernel; other kernels only.
    beta_, prior_scale_ : float
        As chosen or given.
    noise_covariance_, noise_variance_ : (n_targets, n_targets) and (n_targets,), or floats
        Posterior mean covariance of the noise, and its diagonal.
    depth_, widths_ : int, tuple of int
        Of the best candidate; 1 and () for the Gaussian process.
    scale_mean_ : (n_targets, n_targets) or float
        Posterior mean covariance of the outputs at an input of mean square one: how outputs are coupled.
    log_evidence_, log_evidence_error_ : float
        Of the best candidate, from the final posterior.
    evidence_table_ : list of dict
        Every candidate: depth, widths, noise, beta, prior_scale, log_evidence, its error and its penalty
        for fitted hyperparameters, at_edge; best first.
    posterior_ : Posterior
        Of the best candidate, in whitened units.
    models_, model_weights_ : tuple of FittedModel, (models,)
        What predictions come from: the best candidate, or those averaged.
    messages_ : tuple of str
        What was noticed during the fit.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 60))
    >>> Y = X @ rng.normal(size=(60, 1)) @ rng.normal(size=(1, 3)) + rng.normal(size=(40, 3))
    >>> model = lbnn.LBNNRegressor().fit(X, Y)
    >>> mean, deviation = model.predict(X[:2], return_std=True)
    >>> mean.shape, deviation.shape, model.scale_mean_.shape
    ((2, 3), (2, 3), (3, 3))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = settings.CONSTRAINTS

    def __init__(
        self,
        *,
        depth: Any = "evidence",
        width: Any = "evidence",
        beta: Any = "evidence",
        prior_scale: Any = "evidence",
        noise: str = "evidence",
        kernel: Any = "linear",
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        average: bool = False,
        engine: str = "auto",
        target_error: float = 0.1,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.depth = depth
        self.width = width
        self.beta = beta
        self.prior_scale = prior_scale
        self.noise = noise
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.average = average
        self.engine = engine
        self.target_error = target_error
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that a precomputed kernel is indexed on both axes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    # ------------------------------------------------------------------ fit

    def fit(self, X: ArrayLike, y: ArrayLike) -> LBNNRegressor:
        """Choose hyperparameters by evidence and condition on the data.

        Parameters
        ----------
        X : (n_samples, n_features), or (n_samples, n_samples) for a precomputed kernel
        y : (n_samples,) or (n_samples, n_targets)

        Notes
        -----
        Dask arrays are read by blocks of rows, twice, and `predict` of a dask array is one; see `fit_chunks`.
        """
        if is_dask(X):
            return self._fit_stream(DaskBlocks.of(X, y))
        self._validate_params()
        inputs, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=self._double(X))
        require_one_place(X=inputs, y=y)
        targets = np.asarray(to_numpy(y), dtype=np.float64)
        linear, noise = self.kernel == "linear", 0.0 if self.beta == math.inf else 1.0
        points = inputs if linear else self._kernel_matrix(inputs, inputs)
        parts = decompose(points, targets, linear=linear, centre=self.fit_intercept, noise=noise)
        kept = np.zeros((0, inputs.shape[1])) if linear else inputs
        return self._fit_parts(*parts, kept, targets.reshape(len(targets), -1))

    def fit_chunks(self, chunks: Any) -> LBNNRegressor:
        """`fit` for data in parts, read twice, in memory that does not depend on the number of rows.

        Parameters
        ----------
        chunks : function without arguments -> iterable of (X, y), or an iterable that can be read again
            Blocks of rows, as for `lbnn.Spectrum.from_chunks`. Of the linear kernel only.
        """
        return self._fit_stream(Blocks.of(chunks, passes=2))

    def _fit_stream(self, stream: Stream) -> LBNNRegressor:
        self._validate_params()
        if self.kernel != "linear":
            raise ValueError(
                f"data in chunks are for kernel='linear', got kernel={self.kernel!r}: a kernel matrix of all "
                "rows would not fit either"
            )
        self.n_features_in_ = stream.inputs
        noise = 0.0 if self.beta == math.inf else 1.0
        parts = decompose_stream(stream, centre=self.fit_intercept, noise=noise)
        return self._fit_parts(*parts, np.zeros((0, stream.inputs)), np.zeros((0, parts[1].outputs)))

    def _fit_parts(
        self,
        centred: CentredInputs | CentredKernel,
        data: EvidenceData,
        units: TargetUnits,
        kept: Array,
        targets: Array,
    ) -> LBNNRegressor:
        """Search and condition, after the eigendecomposition; `kept` are training inputs of a kernel."""
        shapes = settings.network_shapes(self.depth, self.width)
        given = settings.given(self.beta, self.prior_scale, units.unit)
        choices, shapes, messages = fitting.settle(given, self.noise, data, shapes)
        level_examples = data.spectrum.examples + 1 if self.fit_intercept else None
        effort: dict[str, Any] = {
            "engine": self.engine,
            "target_error": self.target_error,
            "seed": self._seed(),
        }
        report = fitting.reporter(data, units, self.verbose)
        with threadpool_limits(limits=1, user_api="blas"):  # small matrices: threads would only wait
            candidates = search(data, choices, shapes, seed=effort["seed"], report=report)
            counted = fitting.counted(candidates) if self.average else 1
            models = fitting.final_models(data, candidates[:counted], units, level_examples, **effort)
        if candidates[0].on_edge:
            messages.append(settings.ON_EDGE)
        state = FittedState(models, centred, kept, targets)
        table = [table_row(candidate, data, units) for candidate in candidates]
        return self._describe(state, table, messages)

    def _kernel_matrix(self, left: Array, right: Array) -> Array:
        if self.kernel == "precomputed":
            return left
        return np.asarray(pairwise_kernels(left, right, metric=self.kernel, **(self.kernel_params or {})))

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _describe(
        self, state: FittedState, table: list[dict[str, Any]], messages: list[str]
    ) -> LBNNRegressor:
        """Set the fitted attributes."""
        best, single = state.best, state.best.single_output
        self._state, self.evidence_table_, self.messages_ = state, table, tuple(messages)
        self.models_, self.model_weights_, self.posterior_ = state.models, state.weights, best.posterior
        self.widths_, self.depth_ = best.widths, len(best.widths) + 1
        self.log_evidence_, self.log_evidence_error_ = best.log_evidence, best.posterior.log_evidence_error
        covariance, prior_noise = best.noise_covariance, best.prior_noise
        self.noise_covariance_ = float(covariance[0, 0]) if single else covariance
        self.noise_variance_ = float(covariance[0, 0]) if single else np.diagonal(covariance).copy()
        self.beta_ = math.exp(-float(np.log(prior_noise).mean())) if prior_noise.all() else math.inf
        self.prior_scale_ = best.mean_prior_scale
        self.scale_mean_ = float(best.scale_mean[0, 0]) if single else best.scale_mean
        self._weights = state.coefficients()
        shaped = self._weights[0] if single else self._weights
        if isinstance(state.inputs, CentredKernel):
            self.dual_coef_ = shaped
            return self
        intercept = best.mean - self._weights @ state.inputs.columns.means
        self.coef_, self.intercept_ = shaped, float(intercept[0]) if single else intercept
        return self

    # ------------------------------------------------------------------ predictions

    def predict(self, X: ArrayLike, return_std: bool = False, return_cov: bool = False) -> Any:
        """Mean of the targets at X, and on request their uncertainty, noise included.

        Parameters
        ----------
        X : (n_samples, n_features), or (n_samples, n_training) for a precomputed kernel
        return_std : bool
            Also return standard deviations of observations, shaped like the mean.
        return_cov : bool
            Also return the covariance of observations over points and outputs: (n, n_targets, n, n_targets),
            or (n, n) for a one-dimensional target.

        Notes
        -----
        For the function without its noise, quantiles, densities and draws see `predictive`.
        """
        if return_std and return_cov:
            raise RuntimeError("at most one of return_std and return_cov can be asked for")
        if is_dask(X):
            check_is_fitted(self)
            return prediction.by_blocks(self, X, return_std, return_cov)
        inputs = self._checked(X)
        mean = prediction.mean(self._state, inputs, self._kernel_matrix, self._weights)
        if return_cov:
            return mean, self._predictive(inputs).with_noise().covariance
        if return_std:
            return mean, self._standard_deviations(inputs)
        return mean

    def predictive(
        self, X: ArrayLike, *, test_gram: ArrayLike | None = None
    ) -> AffinePredictive | MixturePredictive:
        """The predictive distribution of the function at X; `.with_noise()` for observations.

        Parameters
        ----------
        X : (n_samples, n_features), or (n_samples, n_training) for a precomputed kernel
        test_gram : (n_samples, n_samples), optional
            For a precomputed kernel: the kernel among the test points.

        Returns
        -------
        AffinePredictive, or MixturePredictive where models were averaged
        """
        return self._predictive(self._checked(X), test_gram)

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draw observations jointly over points and outputs.

        Returns
        -------
        (n, n_targets, n_samples) array, or (n, n_samples) for a one-dimensional target
        """
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        draws = self.predictive(X).with_noise().sample(n_samples, int(seed))
        return namespace(draws).moveaxis(draws, 0, -1)

    def leave_one_out(self) -> LeaveOneOut:
        """Score every training example given all others, without refits.

        From the best candidate at the hyperparameters of all data: these are not chosen anew.
        """
        check_is_fitted(self)
        if not len(self._state.targets):
            raise ValueError("leave-one-out scores need the training data, got a fit of data in chunks")
        return self._state.best.leave_one_out(self._state.targets)

    def _checked(self, X: ArrayLike) -> AnyArray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=self._double(X))

    def _double(self, X: Any) -> Any:
        """float64 of NumPy, or of the library of X where scikit-learn dispatches to it."""
        place = place_of(X)
        if place.host or not get_config()["array_api_dispatch"]:
            return np.float64
        if self.kernel != "linear":
            raise ValueError(
                f"arrays of other libraries are for kernel='linear', got kernel={self.kernel!r} and {place}: "
                "convert X to NumPy"
            )
        return place.xp.float64

    def _predictive(
        self, X: Array, test_gram: ArrayLike | None = None
    ) -> AffinePredictive | MixturePredictive:
        if self.kernel == "precomputed" and test_gram is None:
            raise ValueError(
                "the uncertainty at test points needs the kernel among them, got a precomputed cross kernel "
                "only: use predictive(X, test_gram=...)"
            )
        return prediction.predictive(self._state, X, self._kernel_matrix, test_gram)

    def _standard_deviations(self, X: AnyArray) -> AnyArray:
        parts = [
            self._predictive(X[rows, :]).with_noise().standard_deviation
            for rows in blocks(X.shape[0], 1, _POINTS_AT_ONCE)
        ]
        return namespace(X).concat(parts)

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file that executes nothing when loaded (see docs/archive.md)."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        about = {
            "parameters": saving.plain_parameters(self.get_params(deep=False)),
            "features": self.n_features_in_,
            "feature_names": None if names is None else [str(name) for name in names],
            "table": self.evidence_table_,
            "messages": list(self.messages_),
        }
        saving.write(path, about, self._state)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LBNNRegressor:
        """Read a fitted estimator; a file that is not one, or not whole, is a ValueError."""
        about, state = saving.read(path)
        estimator = cls(**about["parameters"])
        estimator.n_features_in_ = about["features"]
        if about["feature_names"] is not None:
            estimator.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        table = [{**row, "widths": tuple(row["widths"])} for row in about["table"]]
        return estimator._describe(state, table, about["messages"])
