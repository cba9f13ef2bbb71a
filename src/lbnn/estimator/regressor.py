"""LBNNRegressor: the scikit-learn estimator. Needs the extra `sklearn`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from lbnn._base import check
from lbnn._base.arrays import namespace, require_one_device, take, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.errors import DataWarning, ExtrapolationWarning
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn._base.warn import warn, warn_of
from lbnn.cross_validation import LeaveOneOut
from lbnn.data.stream import Blocks, DaskBlocks, Stream, is_dask
from lbnn.estimator import (
    fitting,
    missing,
    nonlinear,
    row_noise,
    saving,
    settings,
    summary,
    target_transform,
)
from lbnn.estimator.extent import Extent, large_leverage
from lbnn.estimator.free_noise import FreeNoiseModel
from lbnn.estimator.input_search import (
    InputCandidate,
    Setting,
    best_candidate,
    comparable,
)
from lbnn.estimator.kernels import Kernel
from lbnn.estimator.left_out import CLEAR_LEAD, contradiction
from lbnn.estimator.model import FittedState
from lbnn.estimator.rows import Rows, distinct_rows
from lbnn.estimator.shares import correlations
from lbnn.estimator.streamed import Summary, predict_blocks
from lbnn.estimator.targets import TargetUnits
from lbnn.estimator.training import Training
from lbnn.predict.predictive import Predictive
from lbnn.selection import NoiseSpec, search

_COEFFICIENT_FLOATS = 1 << 22  # of the rows of a block of coefficients
_POINTS_AT_ONCE = 1024  # test points whose kernel matrix is held at once, ...
_INPUT_FLOATS = 1 << 21  # ... and of their inputs, of which an uncertainty takes six copies


class LBNNRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Regression with a deep linear Bayesian network of finite width, its hyperparameters chosen by evidence.

    Y = 1bᵀ + F(X − mean) + noise with a flat prior of the level b and F a deep linear network: a Gaussian
    process whose covariance across outputs is learned. A narrow network is Bayesian reduced-rank regression.

    Parameters
    ----------
    depth : "evidence" or int
        Number of weight matrices. "evidence" compares one (the Gaussian process), two and three.
    width : "evidence", int or tuple of int
        Hidden widths: one for all hidden layers, or one each. "evidence" compares widths from 128 down
        to 1 and infinite width, the Gaussian process, whatever the depth.
    beta : "evidence" or float in (0, inf]
        1/(noise variance) in the units of the targets; with unequal noise, of its geometric mean; with
        coupled noise, of its prior mean.
    prior_scale : "evidence" or float
        Prior variance of an output at an input with mean square one (a kernel value of one), in squared
        units of the targets; with unequal noise, its geometric mean.
    noise : "auto", "independent", "per_output", "coupled", "coupled_per_output" or "free"
        As in `Network.condition`: one noise variance for all outputs; one each (outputs are whitened by their
        noise, and prior variances are proportional to noise variances); noise that passes through the
        network, so that its covariance across outputs is learned, with one unit for all outputs or one each;
        or noise with a covariance of its own beside that of the signal ("free"), both integrated over, with
        widths by evidence. "auto" takes the kind with the highest evidence.
    inputs : "evidence", "raw" or "standardised"
        Whether the network (or the kernel) gets columns as they are or divided by their standard deviations;
        "evidence" takes what has the higher evidence at infinite width. Kernels other than "linear" that get
        raw columns depend on the units of these.
    kernel : str or callable
        "linear" (XXᵀ/n_features), "precomputed", one of "rbf", "matern12", "matern32", "matern52",
        "rational_quadratic", "polynomial", "linear+rbf" and "relu", "erf" (infinitely wide networks,
        `lbnn.network_kernel`), whose parameters are chosen by evidence where they are not given; "auto", the
        one of "linear", "linear+rbf" and "relu" with the highest evidence at infinite width; or what
        `sklearn.metrics.pairwise.pairwise_kernels` takes.
    kernel_params : dict, optional
        Parameters of the kernel: "length_scale" (a number, or one for each column), "alpha", "degree",
        "coef0", "share" of the rbf kernel in "linear+rbf", "depth", "bias_variance" and "weight_variance" of
        networks, or scikit-learn's.
    ard : bool
        Whether each column may have a scale of its own (automatic relevance determination): the prior
        variance of its coefficients with the linear kernel, a length scale with others. Chosen by evidence at
        infinite width, and taken if the evidence gains more than a penalty for the number of relevant
        columns.
    groups : list of lists of columns, optional
        The same with one scale for each group, columns by number or by name; columns that are not listed form
        one more group. For blocks such as 400 genes and 10 covariates, whose numbers of columns say nothing
        about their importance.
    fit_intercept : bool
        Whether there is a level b; otherwise data are taken as they are.
    average : bool or "auto"
        "auto" integrates over hyperparameters and networks if noise variances are uncertain by more than a
        fifth: predictions are then a mixture of models around the best. False takes the best candidate. True
        averages over all candidates, each at its best hyperparameters, with their evidence as weights.
    missing_targets : "error" or "allow"
        Whether NaN in y is an error or a target that was not measured. "allow" fits the observed targets
        alone: noise, scale and width by their evidence, for every kind of noise but "free".
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
    signal_share_, signal_share_interval_ : (n_targets,) and (n_targets, 2), or float and (2,)
        Posterior mean and 90% interval of the share of the signal in the variance of an output at a typical
        training row (heritability), with noise and prior scale integrated where they are not given, and
        averaged over networks with evidence near the largest (`average=False`: of the best).
    signal_correlation_, noise_correlation_ : (n_targets, n_targets)
        Posterior mean correlations of signal and noise across outputs, ...
    signal_correlation_error_, noise_correlation_error_ : (n_targets, n_targets)
        ... and their posterior standard deviations.
    noise_covariance_, noise_variance_ : (n_targets, n_targets) and (n_targets,), or floats
        Posterior mean covariance of the noise, averaged over `models_`, and its diagonal.
    depth_, widths_ : int, tuple of int
        Of the best candidate; 1 and () for the Gaussian process.
    scale_mean_ : (n_targets, n_targets) or float
        Posterior mean covariance of the outputs at an input of mean square one: how outputs are coupled.
    log_evidence_, log_evidence_error_ : float
        Of the best candidate, from the final posterior.
    evidence_table_ : list of dict
        Every candidate: depth, widths, noise, inputs, kernel_params, beta, prior_scale, log_evidence, its
        error and its penalty for fitted hyperparameters, at_edge, signal (False for a level and noise alone),
        noise_width (number of noise factors with noise="free"), same_factors (whether the signal passes
        through them, too); best first.
    inputs_, kernel_, kernel_params_ : str, str or function, dict
        As chosen or given; inputs_ is "own scales" where `ard` or `groups` were taken.
    column_scales_ : (n_features,)
        The network's or the kernel's input is (x − constant) times this: relative prior standard
        deviations of the coefficients, in the user's units.
    posterior_ : Posterior
        Of the best candidate, in whitened units.
    models_, model_weights_ : tuple of FittedModel, (models,)
        What predictions come from: the best candidate, or those averaged.
    missing_counts_ : (n_targets,)
        Missing targets of each output, of the rows that are counted.
    missing_explained_ : (n_targets,)
        Share of the variance of the missing targets of each output that the other targets of the same rows
        explain, in addition to the other rows; NaN for outputs without missing targets.
    messages_ : tuple of str
        Warnings and notes of the fit.
    noise_ : str
        Kind of the noise of the best candidate, as in `noise`.
    target_names_ : list of str or None
        Columns of y where it was a table, or the name of a series.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 60))
    >>> Y = X @ rng.normal(size=(60, 1)) @ np.ones((1, 3)) + rng.normal(size=(40, 3))
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
        noise: str = "auto",
        inputs: str = "evidence",
        kernel: Any = "linear",
        kernel_params: dict[str, Any] | None = None,
        ard: bool = False,
        groups: Any = None,
        fit_intercept: bool = True,
        average: Any = "auto",
        missing_targets: str = "error",
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
        self.inputs = inputs
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.ard = ard
        self.groups = groups
        self.fit_intercept = fit_intercept
        self.average = average
        self.missing_targets = missing_targets
        self.engine = engine
        self.target_error = target_error
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """Declare to scikit-learn that a precomputed kernel is indexed on both axes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a fit was completed."""
        return hasattr(self, "_state")

    # ------------------------------------------------------------------ fit

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> LBNNRegressor:
        """Choose hyperparameters by evidence and condition on the data.

        Parameters
        ----------
        X : (n_samples, n_features), or (n_samples, n_samples) for a precomputed kernel
        y : (n_samples,) or (n_samples, n_targets)
        sample_weight : (n_samples,), optional
            The noise variance of row i is that of a row of weight one divided by sample_weight[i]: known
            differences of precision. Rows of weight zero are left out. (A weight of two stands for one
            measurement with half the variance. Two copies of a row are two measurements that agree, which is
            also evidence of small noise.)

        Notes
        -----
        Dask arrays are read by blocks of rows, twice, and `predict` of a dask array is one; see `fit_chunks`.
        """
        if is_dask(X):
            if sample_weight is not None:
                raise ValueError("sample_weight is for rows in memory, got dask arrays")
            return self._fit_stream(DaskBlocks.of(X, y))
        training = self._checked_training(X, y, sample_weight)
        return self._fit_rows(training) if training.observed is None else self._fit_table(training)

    def _forget(self) -> None:
        """Remove what a former fit left."""
        for name in [name for name in vars(self) if name.endswith("_") or name in ("_state", "_weights")]:
            delattr(self, name)

    def _checked_training(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Training:
        """The rows that are counted, after everything that can be wrong with them was looked at."""
        self._forget()
        self._validate_params()
        settings.network_shapes(self.depth, self.width)  # raises before the work begins
        check.unmasked(X, "X")
        check.unmasked(y, "y")
        self.target_names_ = settings.names_of_targets(y)
        observed: Mask | None = None
        if self.missing_targets == "allow":
            y, observed = settings.split_missing(y)
        else:
            settings.require_complete_rows(y)
        double = settings.double_of(X, self.kernel)
        inputs, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=double)
        require_one_device(X=inputs, y=y)
        targets = np.asarray(to_numpy(y), dtype=np.float64)
        extent = Extent.unknown(self.n_features_in_) if self.kernel == "precomputed" else Extent.of(inputs)
        weights = settings.row_weights(sample_weight, len(targets))
        if observed is not None:
            weights = settings.weights_of_told(weights, observed)
        rows = self._rows(inputs, targets, weights)
        if rows.dropped:
            inputs, targets = take(inputs, rows.kept, axis=0), targets[rows.kept]
            weights = None if weights is None else weights[rows.kept]
        told = None if observed is None or observed[rows.kept].all() else observed[rows.kept]
        self.missing_counts_ = np.zeros(1 if targets.ndim == 1 else targets.shape[1], int)
        self.missing_explained_ = np.full(len(self.missing_counts_), np.nan)
        return Training(inputs, targets, weights, told, rows, extent)

    def _fit_rows(self, training: Training) -> LBNNRegressor:
        """Fit rows that have all of their targets: the inputs at infinite width, then networks."""
        inputs, weights, kind = training.inputs, training.weights, self.noise
        group_of, kernel = self._group_of(), self._kernel()
        if self.kernel == "auto":
            setting = self._setting(training.targets, weights, kind)[1]
            kernel = Kernel(nonlinear.best_kernel(inputs, self.inputs, setting), {})

        def best(targets: Array) -> tuple[TargetUnits, Setting, InputCandidate, list[InputCandidate]]:
            """The best transform of the inputs at infinite width, and the others."""
            units, setting = self._setting(targets, weights, kind)
            return units, setting, *best_candidate(inputs, self.inputs, kernel, group_of, setting)

        def evidence(of: Array) -> float:
            """Of transformed targets, at infinite width."""
            units, _, found, _ = best(of)
            jacobian = -found.data.spectrum.examples * found.data.outputs * units.log_unit
            return found.penalised_evidence + jacobian

        units, setting, chosen, others = best(training.targets)
        said = self._advice(training, evidence, units, setting, chosen, group_of)
        columns = training.targets.reshape(len(training.targets), -1)
        return self._fit_candidates(
            chosen, others, kind, units, columns, training.rows, training.extent, said
        )

    def _advice(
        self,
        training: Training,
        evidence: Callable[[Array], float],
        units: TargetUnits,
        setting: Setting,
        chosen: InputCandidate,
        group_of: IndexArray | None,
    ) -> list[str]:
        """What the evidence at infinite width says of other transforms, kernels and single rows.

        `evidence` is that of transformed targets; units, setting and candidate are those that were chosen.
        """
        if not chosen.data.noise_variance:
            return []
        advice = ""
        # relations such as a sum of 100 do not survive a transform of the targets
        if comparable([chosen]) and not units.dependent:
            advice = target_transform.advice(training.targets, evidence, self.fit_intercept)
        if self.kernel == "linear" and group_of is None and not advice:
            advice = nonlinear.look(training.inputs, chosen, setting)
        names = self.target_names_ or []
        unusual = row_noise.unusual_rows(chosen, setting.targets, training.rows.kept, names)
        return [each for each in (unusual, advice) if each]

    def _fit_table(self, training: Training) -> LBNNRegressor:
        """Fit the observed cells of a table of targets (p, n_d), filled anyhow."""
        inputs, targets, weights, kind = training.inputs, training.targets, training.weights, self.noise
        observed, rows = training.observed, training.rows
        assert observed is not None
        settings.require_table(kind, self.beta)
        if self.kernel == "auto":
            raise ValueError("kernel='auto' compares complete targets, got missing ones: give a kernel")
        self.missing_counts_ = (~observed).sum(axis=0)
        table = missing.Table.of(observed, weights, self.fit_intercept)
        seed, shapes = settings.as_seed(self.random_state), settings.network_shapes(self.depth, self.width)
        filled = table.filled(targets)
        for last in (False, True):  # a table filled with means, then one that is drawn given the observed
            units, setting = self._setting(filled, weights, "per_output")
            chosen, _ = best_candidate(inputs, self.inputs, self._kernel(), self._group_of(), setting)
            specs, searched, notices = fitting.settle(self._given(units), kind, chosen.data, shapes, units)
            report = fitting.reporter(chosen.data, units, self.verbose)
            data = missing.FilledData(chosen.data, setting.targets, table, units)
            with threadpool_limits(limits=1, user_api="blas"):
                found = search(chosen.data, specs, searched, seed=seed, report=report)
                candidates = missing.with_posterior(data, found)
                if not last:
                    filled = missing.completed_targets(data, candidates[0], seed)
                    continue
                effort = {"engine": self.engine, "target_error": self.target_error, "seed": seed}
                candidates, models, share = missing.final_tables(
                    data, candidates, specs[0], self.average, **effort
                )
        self.missing_explained_ = missing.explained_by_rows(models[0].posterior)
        state = FittedState.of(models, chosen.transform, filled, rows, training.extent, share)
        empty = len(rows.stands_for) - len(rows.kept)
        notices += fitting.said_of_best(candidates[0], chosen.data, len(models) > 1, notices)
        warn_of(notices, DataWarning)
        notices.append(settings.missing_message(observed, empty))
        if not candidates[0].coupled:
            notices += missing.correlated_residuals(models[0].posterior, candidates[0].noise)
        messages = [*models[0].posterior.diagnostics.messages, *notices, *self._said_of_scales(chosen)]
        return self._describe(state, fitting.evidence_table(candidates, chosen, [], units), messages)

    def _setting(self, targets: Array, weights: Array | None, kind: str) -> tuple[TargetUnits, Setting]:
        """Units of the targets, and what all transforms of the inputs share."""
        units, inner = TargetUnits.of(
            targets, self.fit_intercept, weights, contrasts=settings.may_be_contrasts(kind, self.beta)
        )
        spec = settings.comparison_spec(kind, self._given(units), inner, len(inner))
        noise, seed = settings.noise_unit(self.beta), settings.as_seed(self.random_state)
        return units, Setting(inner, self.fit_intercept, noise, spec, seed, weights)

    def fit_chunks(self, chunks: Any) -> LBNNRegressor:
        """`fit` for data in parts, read once, in memory that does not depend on the number of rows.

        Parameters
        ----------
        chunks : iterable of (X, y), or a function without arguments that gives one
            Blocks of rows, as for `lbnn.Spectrum.from_chunks`. Of the linear kernel only. Copies of rows are
            not looked for.
        """
        return self._fit_stream(Blocks.of(chunks))

    def _fit_stream(self, stream: Stream) -> LBNNRegressor:
        self._forget()
        self._validate_params()
        kind = self.noise
        settings.require_streamable(self.kernel)
        settings.network_shapes(self.depth, self.width)
        self.n_features_in_, self.target_names_ = stream.inputs, None
        summary = Summary.of(stream, self.fit_intercept)
        units = summary.units(may_be_contrasts=settings.may_be_contrasts(kind, self.beta))
        inner, examples = units.inner(summary.targets), summary.triangle.count
        self.missing_counts_ = np.zeros(len(units.mean), int)
        self.missing_explained_ = np.full(len(units.mean), np.nan)
        spec = settings.comparison_spec(kind, self._given(units), inner, examples)
        noise, group_of = settings.noise_unit(self.beta), self._group_of()
        found = summary.best_candidate(self.inputs, self._kernel(), group_of, units, noise, spec)
        extent = Extent.unknown(self.n_features_in_)
        return self._fit_candidates(*found, kind, units, np.zeros((0, len(units.mean))), Rows.all(0), extent)

    def _fit_candidates(
        self,
        chosen: InputCandidate,
        others: list[InputCandidate],
        kind: str,
        units: TargetUnits,
        targets: Array,
        rows: Rows,
        extent: Extent,
        said: Sequence[str] = (),
    ) -> LBNNRegressor:
        """Search and condition, after the eigendecomposition; `kind` of noise, `targets` that are kept."""
        shapes = settings.network_shapes(self.depth, self.width)
        settled = fitting.settle(self._given(units), kind, chosen.data, shapes, units)
        fits = fitting.fit_networks(
            settled,
            chosen.data,
            units,
            self.fit_intercept,
            targets,
            kind,
            average=self.average,
            verbose=self.verbose,
            engine=self.engine,
            target_error=self.target_error,
            seed=settings.as_seed(self.random_state),
        )
        candidates, models, notices, doubts = fits.candidates, fits.models, fits.notices, fits.accuracy
        if chosen.transform.feature_map.size:
            doubts.append(settings.approximate_kernel(len(targets), chosen.transform, chosen.dropped))
        notices += [rows.message] * (bool(rows.message) and rows.dropped)
        notices += said
        constant = settings.CONSTANT_TARGETS in notices
        several = chosen.data.spectrum.examples >= settings.FEWEST_TO_SHOW_SIGNAL
        if any(each.startswith(nonlinear.NOT_LINEAR) for each in said):
            notices = [settings.NO_LINEAR_SIGNAL if each == settings.NO_SIGNAL else each for each in notices]
        state = FittedState.of(models, chosen.transform, targets, rows, extent, fits.signal_share)
        lead = fitting.lead_over_no_signal(candidates, chosen.data, settled[0])
        weak = candidates[0].signal and 0 <= lead <= CLEAR_LEAD and several and not constant
        notices += [settings.weak_signal(lead)] * weak
        doubts += [said for said in [contradiction(state, candidates[0], lead, fits.without_signal)] if said]
        warn_of(doubts)
        warn_of(notices, DataWarning)
        messages = [*doubts, *notices, *self._said_of_scales(chosen)]
        messages += [rows.message] * (bool(rows.message) and not rows.dropped)
        return self._describe(state, fitting.evidence_table(candidates, chosen, others, units), messages)

    def _rows(self, X: AnyArray, targets: Array, weights: Array | None) -> Rows:
        """Rows to be counted; all of them where the noise is given, or the kernel, or weights are."""
        if weights is not None:
            if self.kernel == "precomputed" and not weights.all():
                raise ValueError(
                    "with a precomputed kernel rows of weight zero cannot be left out by themselves, got "
                    f"{np.count_nonzero(weights == 0)} of them: leave out their rows and columns"
                )
            return Rows.weighted(weights)
        if self.kernel == "precomputed" or not isinstance(self.beta, str):
            return Rows.all(len(targets))
        return distinct_rows(X, targets.reshape(len(targets), -1), linear=self.kernel == "linear")

    def _group_of(self) -> IndexArray | None:
        """The group of each column that may have a scale of its own; None where all have one."""
        return settings.groups_of_columns(
            self.ard,
            self.groups,
            self.kernel,
            self.beta,
            self.n_features_in_,
            getattr(self, "feature_names_in_", None),
        )

    def _said_of_scales(self, chosen: InputCandidate) -> list[str]:
        """Which columns or groups have a scale of their own, where that was asked for."""
        if not (self.ard or self.groups) or self.kernel != "linear":
            return []
        kind = "column" if self.groups is None else "group"
        names = getattr(self, "feature_names_in_", None) if self.groups is None else None
        return [settings.own_scales(chosen.own, kind, names)]

    def _given(self, units: TargetUnits) -> NoiseSpec:
        """The hyperparameters that are given, in the units of the search."""
        return settings.given(self.beta, self.prior_scale, math.exp(units.log_unit))

    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, dict(self.kernel_params or {}))

    def _describe(
        self, state: FittedState, table: list[dict[str, Any]], messages: list[str]
    ) -> LBNNRegressor:
        """Set the fitted attributes."""
        best, single = state.best, state.best.single_output
        self._state, self.evidence_table_, self.messages_ = state, table, tuple(messages)
        self.models_, self.model_weights_, self.posterior_ = state.models, state.weights, best.posterior
        self.widths_, self.depth_ = best.widths, len(best.widths) + 1
        self.log_evidence_, self.log_evidence_error_ = best.log_evidence, best.posterior.log_evidence_error
        covariance, prior_noise = state.noise_covariance, best.prior_noise
        self.noise_covariance_ = float(covariance[0, 0]) if single else covariance
        self.noise_variance_ = float(covariance[0, 0]) if single else np.diagonal(covariance).copy()
        self.beta_ = math.exp(-float(np.log(prior_noise).mean())) if prior_noise.all() else math.inf
        self.prior_scale_ = best.mean_prior_scale
        free = isinstance(best, FreeNoiseModel)
        rows = (row["noise"] for row in table if row["widths"] == best.widths and row["noise"] != "free")
        self.noise_ = "free" if free else next(rows)
        share, interval = state.signal_share[:, 0], state.signal_share[:, 1:]
        self.signal_share_ = float(share[0]) if single else share
        self.signal_share_interval_ = interval[0] if single else interval
        found = correlations(state.models, state.weights)
        self.signal_correlation_, self.noise_correlation_ = found.signal, found.noise
        self.signal_correlation_error_, self.noise_correlation_error_ = found.signal_error, found.noise_error
        self.scale_mean_ = float(best.scale_mean[0, 0]) if single else best.scale_mean
        self._weights = state.coefficients()
        shaped = self._weights[0] if single else self._weights
        self.kernel_ = state.transform.kernel.metric
        self.column_scales_ = 1 / state.transform.columns.deviation
        self.inputs_, self.kernel_params_ = state.transform.columns.name, state.transform.kernel.parameters
        if state.transform.kernel.metric != "linear":
            self.dual_coef_ = shaped
            return self
        coefficients, intercept = state.transform.in_units_of_columns(self._weights, state.centre)
        self.coef_ = coefficients[0] if single else coefficients
        self.intercept_ = float(intercept[0]) if single else intercept
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
        For the function without its noise, quantiles, densities and draws see `predictive`. Rows that are
        far outside the ranges of the training columns, and with `return_std` or `return_cov` rows of large
        leverage, are announced by an `lbnn.ExtrapolationWarning`.
        """
        if return_std and return_cov:
            raise RuntimeError("at most one of return_std and return_cov can be asked for")
        if is_dask(X):
            check_is_fitted(self)
            return predict_blocks(self, X, return_std, return_cov)
        inputs = self._checked(X)
        message = self._state.extent.outside_ranges(inputs, getattr(self, "feature_names_in_", None))
        if message:
            warn(message, ExtrapolationWarning)
        mean = self._state.mean(inputs, self._weights)
        if return_cov:
            law = self._predictive(inputs)
            self._warn_of_leverage([law.leverage])
            return mean, law.with_noise().covariance
        if return_std:
            return mean, self._standard_deviations(inputs)
        return mean

    @staticmethod
    def _warn_of_leverage(leverage: Sequence[Array | None]) -> None:
        message = large_leverage(np.concatenate([part for part in leverage if part is not None]))
        if message:
            warn(message, ExtrapolationWarning)

    def predictive(self, X: ArrayLike, *, test_gram: ArrayLike | None = None) -> Predictive:
        """The predictive distribution of the function at X; `.with_noise()` for observations.

        Parameters
        ----------
        X : (n_samples, n_features), or (n_samples, n_training) for a precomputed kernel
        test_gram : (n_samples, n_samples), optional
            For a precomputed kernel: the kernel among the test points.

        Returns
        -------
        Predictive
        """
        return self._predictive(self._checked(X), test_gram)

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0) -> AnyArray:
        """Draw observations jointly over points and outputs.

        Returns
        -------
        (n, n_targets, n_samples) array, or (n, n_samples) for a one-dimensional target
        """
        draws = self.predictive(X).with_noise().sample(n_samples, settings.drawn_seed(random_state))
        return namespace(draws).moveaxis(draws, 0, -1)

    def leave_one_out(self) -> LeaveOneOut:
        """Score every training example given all others, without refits.

        From the best candidate at the hyperparameters of all data: these are not chosen anew.
        """
        check_is_fitted(self)
        return self._state.leave_one_out()

    def coefficients(self, columns: Sequence[int | str]) -> Predictive:
        """The posterior of coefficients of the linear kernel, in the user's units: one point for each column.

        Parameters
        ----------
        columns : sequence of columns, by number or by name

        Returns
        -------
        Predictive
            With `mean`, `standard_deviation`, `interval`, `covariance`, `sample`, ..., of shape
            (len(columns), n_targets), or (len(columns),) for a one-dimensional target.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(60, 3))
        >>> y = X @ [1.0, 2.0, 0.0] + 0.5 * rng.normal(size=60)
        >>> law = lbnn.LBNNRegressor(depth=1).fit(X, y).coefficients([0, 1])
        >>> low, high = law.interval(0.95)
        >>> bool((low < [1.0, 2.0]).all() and (high > [1.0, 2.0]).all())
        True
        """
        check_is_fitted(self)
        if self._state.transform.kernel.metric != "linear":
            raise ValueError(f"coefficients are those of kernel='linear', got kernel={self.kernel!r}")
        names = getattr(self, "feature_names_in_", None)
        chosen = settings.column_numbers(columns, self.n_features_in_, names)
        rows = np.zeros((len(chosen), self.n_features_in_))
        rows[np.arange(len(chosen)), chosen] = self.column_scales_[chosen]
        return self._state.coefficient_law(rows)

    def coefficient_interval(self, probability: float = 0.95) -> tuple[Array, Array]:
        """Equal-tailed intervals of all coefficients of the linear kernel: two arrays shaped like `coef_`."""
        parts = [
            self.coefficients(range(self.n_features_in_)[some]).interval(probability)
            for some in blocks(self.n_features_in_, self.n_features_in_, _COEFFICIENT_FLOATS)
        ]
        low, high = (np.concatenate([to_numpy(part[k]) for part in parts]) for k in (0, 1))
        return low.T, high.T

    def summary(self) -> str:
        """Describe the fit as text: the model and its closest competitors, and left-out predictions.

        Left-out R², root mean square errors and the coverage of 90% intervals are given together with the
        errors of a ridge regression, whose penalty has the least left-out error, and of the mean of the other
        rows.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(40, 5))
        >>> y = X @ [1.0, 2.0, 0.0, 0.0, 0.0] + rng.normal(size=40)
        >>> print(lbnn.LBNNRegressor(depth=1).fit(X, y).summary())
        LBNNRegressor: 40 rows, 5 columns, 1 output
          network       infinite width (the Gaussian process)
        ...
        Each row predicted from all others (root mean square errors)
          output     R²  error  of ridge  of mean  in 90%   noise
          y       ...
        """
        check_is_fitted(self)
        return summary.text(self)

    def _html_repr(self) -> str:
        """scikit-learn's diagram, and under it what was chosen."""
        diagram = str(estimator_html_repr(self))
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        return f"{diagram}<pre>{escape(self.summary())}</pre>"

    def _checked(self, X: ArrayLike) -> AnyArray:
        check_is_fitted(self)
        check.unmasked(X, "X")
        inputs = validate_data(self, X, reset=False, dtype=settings.double_of(X, self.kernel))
        require_one_device(**{"X of the fit": self.posterior_.spectrum.basis.example, "X": inputs})
        return inputs

    def _predictive(self, X: AnyArray, test_gram: ArrayLike | None = None) -> Predictive:
        if self.kernel == "precomputed" and test_gram is None:
            raise ValueError(
                "the uncertainty at test points needs the kernel among them, got a precomputed cross kernel "
                "only: use predictive(X, test_gram=...)"
            )
        return self._state.predictive(X, test_gram)

    def _standard_deviations(self, X: AnyArray) -> AnyArray:
        parts, leverage = [], []
        for rows in _at_once(X):
            law = self._predictive(X[rows, :])
            parts.append(law.with_noise().standard_deviation)
            leverage.append(law.leverage)
        self._warn_of_leverage(leverage)
        return namespace(X).concat(parts)

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file; loading it executes no code (see docs/data-and-files.md)."""
        check_is_fitted(self)
        saving.write(path, saving.description(self), self._state)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LBNNRegressor:
        """Read a fitted estimator; a file that holds none, or is damaged, raises a ValueError."""
        about, state = saving.read(path)
        try:
            return cls._described_as(about, state)
        except Exception as error:  # what a header of something else leads to cannot be listed
            raise saving.refusal(path, error) from error

    @classmethod
    def _described_as(cls, about: dict[str, Any], state: FittedState) -> LBNNRegressor:
        """The estimator that a header and the state of its predictions describe."""
        estimator = cls(**about["parameters"])
        estimator.n_features_in_ = int(about["features"])
        if about["feature_names"] is not None:
            estimator.feature_names_in_ = np.array([str(name) for name in about["feature_names"]], object)
        names = about.get("target_names")
        outputs = len(state.best.mean)
        estimator.missing_counts_ = np.array(about.get("missing_counts", [0] * outputs), int)
        shares = about.get("missing_explained", [None] * outputs)
        estimator.missing_explained_ = np.array([np.nan if each is None else each for each in shares])
        estimator.target_names_ = None if names is None else [str(name) for name in names]
        table = [{**row, "widths": tuple(row["widths"])} for row in about["table"]]
        return estimator._describe(state, table, about["messages"])


def _at_once(X: AnyArray) -> Iterator[slice]:
    """Blocks of test points (m, n0) whose uncertainty is computed at once."""
    return blocks(X.shape[0], max(X.shape[1], _INPUT_FLOATS // _POINTS_AT_ONCE), _INPUT_FLOATS)
