"""LBNNRegressor: the scikit-learn estimator. Needs the extra `sklearn`."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from lbnn._base.arrays import namespace, require_one_device, to_numpy
from lbnn._base.blocks import blocks
from lbnn._base.notices import Notice
from lbnn._base.types import AnyArray, Array
from lbnn.cross_validation import LeaveOneOut
from lbnn.data.stream import is_dask
from lbnn.estimator import cells, diagnose, impute, saving, settings, summary
from lbnn.estimator.fitted import FittedState
from lbnn.estimator.fitting import (
    Candidate,
    Fits,
    Searched,
    average,
    candidates_of,
    lead_over_no_signal,
    search_networks,
)
from lbnn.estimator.left_out import CLEAR_LEAD, contradiction
from lbnn.estimator.leverage import large_leverage
from lbnn.estimator.notices import notice
from lbnn.estimator.prepare import Prepared, prepare
from lbnn.estimator.shares import correlations
from lbnn.estimator.table import checked_table, double_of
from lbnn.predict.predictive import Predictive

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
    noise : "auto", "independent", "per_output", "coupled", "coupled_per_output" or "free"
        As in `Network.condition`: one noise variance for all outputs; one each (outputs are whitened by their
        noise, and prior variances are proportional to noise variances); noise that passes through the
        network, so that its covariance across outputs is learned, with one unit for all outputs or one each;
        or noise with a covariance of its own beside that of the signal ("free"), both integrated over, with
        widths by evidence. "auto" takes the kind with the highest evidence.
    kernel : str or callable
        "linear" (XXᵀ/n_features), "precomputed", one of "rbf", "linear+rbf" and "relu" (an infinitely wide
        network, `lbnn.network_kernel`), whose parameters are chosen by evidence; "auto", the one of "linear",
        "linear+rbf" and "relu" with the highest evidence at infinite width; or a function of two arrays of
        rows, such as a kernel of `sklearn.gaussian_process.kernels`, which is taken as it is.
    column_scales : "auto", "raw", "standardised", "own" or list of lists of columns
        Whether the network (or the kernel) gets columns as they are or divided by their standard deviations;
        "auto" takes what has the higher evidence at infinite width. "own": each column may have a scale of
        its own (automatic relevance determination), the prior variance of its coefficients with the linear
        kernel, a length scale with "rbf" and "linear+rbf"; where the evidence at infinite width gains more
        than a penalty for each. Groups: the same with one scale for each group, columns by number or by
        name; columns that are not listed form one more group. For blocks such as 400 genes and 10
        covariates, whose numbers of columns say nothing about their importance.
    beta : "evidence" or float in (0, inf]
        1/(noise variance) in the units of the targets; with unequal noise, of its geometric mean; with
        coupled noise, of its prior mean.
    prior_scale : "evidence" or float
        Prior variance of an output at an input with mean square one (a kernel value of one), in squared
        units of the targets; with unequal noise, its geometric mean.
    fit_intercept : bool
        Whether there is a level b; otherwise data are taken as they are.
    missing_targets : "error" or "allow"
        Whether NaN in y is an error or a target that was not measured. "allow" fits the observed targets
        alone: noise, scale and width by their evidence, for every kind of noise but "free".
    average : bool or "auto"
        "auto" integrates over hyperparameters and networks if noise variances are uncertain by more than a
        fifth: predictions are then a mixture of models around the best. False takes the best candidate. True
        averages over all candidates, each at its best hyperparameters, with their evidence as weights.
    target_error : float
        Monte Carlo error aimed at in the final answer, as in `Network.condition`.
    random_state : int, RandomState or None
        Seed of the draws; one output needs none.

    Attributes
    ----------
    coef_ : (n_targets, n_features), or (n_features,) for a one-dimensional target
        Weights of the mean function; linear kernel only.
    intercept_ : (n_targets,) or float
        Linear kernel only.
    dual_coef_ : (n_targets, n_samples) or (n_samples,)
        Weights of the centred kernel; other kernels only.
    kernel_ : Kernel
        With the parameters that the evidence has chosen, and the units of the columns: `.name`,
        `.parameters`, `.columns`.
    column_scales_ : (n_features,)
        The network's or the kernel's input is (x − constant) times this: relative prior standard
        deviations of the coefficients, in the user's units.
    widths_, noise_, beta_, prior_scale_ : tuple of int, str, float, float
        Of the best candidate; widths are () for the Gaussian process.
    noise_variance_, noise_covariance_ : (n_targets,) and (n_targets, n_targets), or floats
        Posterior mean covariance of the noise, averaged over the candidates, and its diagonal.
    scale_mean_ : (n_targets, n_targets) or float
        Posterior mean covariance of the outputs at an input of mean square one: how outputs are coupled.
    signal_share_, signal_share_interval_ : (n_targets,) and (n_targets, 2), or float and (2,)
        Posterior mean and 90% interval of the share of the signal in the variance of an output at a typical
        training row (heritability), with noise and prior scale integrated where they are not given, and
        averaged over networks with evidence near the largest (`average=False`: of the best).
    log_evidence_, log_evidence_error_ : float
        Of the best candidate, from the final posterior.
    candidates_ : list of Candidate
        Every candidate, best first: `.widths`, `.noise`, `.kernel`, `.columns`, `.beta`, `.prior_scale`,
        `.log_evidence`, `.log_evidence_error`, `.penalty`, `.signal`, `.weight` (its share of the
        predictions) and `.posterior` (in whitened units, where it was computed).
    missing_explained_ : (n_targets,)
        Share of the variance of the missing targets of each output that the other targets of the same rows
        explain, in addition to the other rows; NaN for outputs without missing targets.
    notices_ : tuple of Notice
        What there is to say of the fit: `.code`, `.text` and `.fields`.
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
        noise: str = "auto",
        kernel: Any = "linear",
        column_scales: Any = "auto",
        beta: Any = "evidence",
        prior_scale: Any = "evidence",
        fit_intercept: bool = True,
        missing_targets: str = "error",
        average: Any = "auto",
        target_error: float = 0.1,
        random_state: Any = 0,
    ) -> None:
        self.depth = depth
        self.width = width
        self.noise = noise
        self.kernel = kernel
        self.column_scales = column_scales
        self.beta = beta
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.missing_targets = missing_targets
        self.average = average
        self.target_error = target_error
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Declare to scikit-learn that a precomputed kernel is indexed on both axes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
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
        Dask arrays are read once, by blocks of rows, and `predict` of a dask array is one.
        """
        self._forget()
        self._validate_params()
        settings.network_shapes(self.depth, self.width)  # raises before the work begins
        table = checked_table(self, X, y, sample_weight)
        found = prepare(self, table, table.filled())
        with threadpool_limits(limits=1, user_api="blas"):  # small matrices: threads would only wait
            searched = search_networks(self, found)
            if not table.complete:  # once more with drawn targets in the place of means
                found = prepare(self, table, cells.completed(found, searched.trials[0], found.setting.seed))
                searched = search_networks(self, found)
            fits = average(self, found, searched)
        return self._describe(found, searched, fits)

    def _forget(self) -> None:
        """Remove what a former fit left."""
        for name in [name for name in vars(self) if name.endswith("_") or name in ("_state", "_weights")]:
            delattr(self, name)

    def _describe(self, found: Prepared, searched: Searched, fits: Fits) -> LBNNRegressor:
        """Attributes, and what there is to say of the fit."""
        table, best = found.table, fits.models[0].posterior
        transform = found.chosen.transform
        targets = found.filled[: len(table.rows.kept)]
        share = fits.signal_share
        state = FittedState.of(fits.models, transform, targets, table, share)
        explained = np.full(len(found.units.mean), np.nan)
        explained = explained if table.complete else cells.explained_by_rows(best)
        self._set(state, candidates_of(found, fits), explained, table.target_names)
        self.notices_ = (*fits.notices, *self._noticed(state, found, searched, fits))
        for each in self.notices_:
            each.warn()
        return self

    def _noticed(self, state: FittedState, found: Prepared, searched: Searched, fits: Fits) -> list[Notice]:
        """What there is to say of data and fit, beside the accuracy of the posteriors."""
        chosen, best, said = found.chosen, fits.trials[0], searched.notices
        notices = list(said)
        if chosen.transform.feature_map.size:
            functions = len(chosen.transform.training_inputs)
            dropped = chosen.dropped
            rows = len(state.targets)
            notices.append(notice("kernel_approximated", rows=rows, functions=functions, dropped=dropped))
        notices += settings.notices_of_best(best, found.data, len(fits.models) > 1, said)
        if self.kernel == "linear" and chosen.transform.columns.name != "own" and found.table.complete:
            notices = _with_nonlinear(notices, diagnose.nonlinear(found.setting, chosen))
        lead = lead_over_no_signal(fits.trials, found, searched.specs)
        several = found.data.spectrum.examples >= settings.FEWEST_TO_SHOW_SIGNAL
        constant = any(each.code == "constant_targets" for each in said)
        if best.signal and 0 <= lead <= CLEAR_LEAD and several and not constant:
            notices.append(notice("weak_signal", lead=lead))
        notices += contradiction(state, best, lead, fits.without_signal)
        notices += found.table.notices()
        if not isinstance(self.column_scales, str) or self.column_scales == "own":
            notices += self._own_scales(chosen.own)
        return notices

    def _own_scales(self, own: Sequence[int]) -> list[Notice]:
        """Which columns or groups have a scale of their own, for the linear kernel."""
        if self.kernel_.name != "linear":
            return []
        if not isinstance(self.column_scales, str):
            return [notice("own_scales", columns=list(own), kind="group")]
        names = getattr(self, "feature_names_in_", None)
        columns = [k if names is None else repr(str(names[k])) for k in own]
        return [notice("own_scales", columns=columns, kind="column")]

    def _set(
        self,
        state: FittedState,
        candidates: list[Candidate],
        explained: Array,
        target_names: list[str] | None,
    ) -> None:
        """The fitted attributes, of a fit or of a file."""
        best, single, kernel = state.best, state.best.single_output, state.transform.kernel
        self._state, self.candidates_, self.target_names_ = state, candidates, target_names
        self.missing_explained_ = explained
        self.widths_, self.noise_, self.prior_scale_ = best.widths, best.noise, best.mean_prior_scale
        self.log_evidence_, self.log_evidence_error_ = best.log_evidence, best.posterior.log_evidence_error
        covariance, prior_noise = state.noise_covariance, best.prior_noise
        self.noise_covariance_ = float(covariance[0, 0]) if single else covariance
        self.noise_variance_ = float(covariance[0, 0]) if single else np.diagonal(covariance).copy()
        self.beta_ = math.exp(-float(np.log(prior_noise).mean())) if prior_noise.all() else math.inf
        share, interval = state.signal_share[:, 0], state.signal_share[:, 1:]
        self.signal_share_ = float(share[0]) if single else share
        self.signal_share_interval_ = interval[0] if single else interval
        self.scale_mean_ = float(best.scale_mean[0, 0]) if single else best.scale_mean
        self.kernel_ = replace(kernel, columns=state.transform.columns.name)
        self.column_scales_ = 1 / state.transform.columns.deviation
        self._weights = state.coefficients()
        shaped = self._weights[0] if single else self._weights
        if kernel.name != "linear":
            self.dual_coef_ = shaped
            return
        coefficients, intercept = state.transform.in_units_of_columns(self._weights, state.centre)
        self.coef_ = coefficients[0] if single else coefficients
        self.intercept_ = float(intercept[0]) if single else intercept

    def impute(self, *, return_std: bool = False, draws: int | None = None, random_state: Any = 0) -> Any:
        """The training targets with the missing ones filled in; fit with missing_targets="allow".

        Parameters
        ----------
        return_std : bool
            Also return the posterior deviation of every missing target, as it would be measured; zero where
            it was observed.
        draws : int, optional
            Return so many completed tables, whose missing targets are drawn jointly given the observed ones
            (multiple imputation), in the place of the posterior means.
        random_state : int, RandomState or None
            Of the draws.

        Returns
        -------
        (n_samples, n_targets), or (n_samples,) for a one-dimensional target
            With `draws` a leading axis of that length; with `return_std` a pair.

        Notes
        -----
        Rows without any target have no part in the fit: theirs are predictions at their inputs.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(40, 4))
        >>> Y = X @ np.ones((4, 2)) + 0.3 * rng.normal(size=(40, 2))
        >>> Y[::5, 0] = np.nan
        >>> model = lbnn.LBNNRegressor(width=2, depth=2, missing_targets="allow").fit(X, Y)
        >>> filled, deviation = model.impute(return_std=True)
        >>> bool(np.isfinite(filled).all()), bool((deviation[::5, 0] > 0.1).all()), float(deviation[1, 0])
        (True, True, 0.0)
        >>> model.impute(draws=3).shape
        (3, 40, 2)
        """
        check_is_fitted(self)
        if not len(self._state.targets):
            raise ValueError("targets are imputed of rows in memory, got a fit of data in blocks of rows")
        if draws is not None and return_std:
            raise ValueError(
                "impute gives draws or deviations, got both draws and return_std=True: ask twice"
            )
        state = self._state
        left_out = self.predictive(state.left_inputs).with_noise() if len(state.left_inputs) else None
        if draws is not None:
            count = check.positive_integer(draws, "draws")
            rng = np.random.default_rng(settings.drawn_seed(random_state))
            found = impute.draws(state, left_out, count, rng)
            return found[:, :, 0] if state.best.single_output else found
        mean, deviation = impute.moments(state, left_out)
        if state.best.single_output:
            mean, deviation = mean[:, 0], deviation[:, 0]
        return (mean, deviation) if return_std else mean

    def diagnose(self) -> list[Notice]:
        """Advice, the largest gain of the log evidence first.

        Whether the relation is nonlinear, whether columns differ in importance, rows that the others predict
        badly, rows far from all others, outputs of two values, and residuals that are correlated though the
        noise is not. Gains, and left-out errors with and without the change, are those at infinite width.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-2, 2, size=(60, 2))
        >>> y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60)
        >>> model = lbnn.LBNNRegressor(depth=1).fit(X, y)
        >>> model.diagnose()[0].code
        'nonlinear'
        """
        check_is_fitted(self)
        return diagnose.advice(self)

    def correlations(self, of: str = "signal") -> tuple[Array, Array]:
        """Posterior means and deviations of correlations across outputs, (n_targets, n_targets) each.

        Given that both outputs vary: a model without signal among those averaged has no correlations of it
        and does not count; NaN where no model has any.

        Parameters
        ----------
        of : "signal" or "noise"

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(30, 4))
        >>> Y = X @ np.ones((4, 2)) + rng.normal(size=(30, 2))
        >>> mean, deviation = lbnn.LBNNRegressor(width=2).fit(X, Y).correlations("signal")
        >>> bool(mean[0, 1] > 0.5)
        True
        """
        check_is_fitted(self)
        if of not in ("signal", "noise"):
            raise ValueError(f"correlations are those of 'signal' or 'noise', got {of!r}")
        return correlations(self._state.models, self._state.weights, of)

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
            return _predict_blocks(self, X, return_std, return_cov)
        inputs = self._checked(X)
        far = self._state.extent.outside_ranges(inputs, getattr(self, "feature_names_in_", None))
        if far is not None:
            far.warn()
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
        far = large_leverage(np.concatenate([part for part in leverage if part is not None]))
        if far is not None:
            far.warn()

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
        if self.kernel_.name != "linear":
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
        inputs = validate_data(self, X, reset=False, dtype=double_of(X, self.kernel))
        require_one_device(**{"X of the fit": self._state.best.posterior.spectrum.basis.example, "X": inputs})
        return inputs

    def _predictive(self, X: AnyArray, test_gram: ArrayLike | None = None) -> Predictive:
        if self.kernel_.name == "precomputed" and test_gram is None:
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
        saving.write(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LBNNRegressor:
        """Read a fitted estimator; a file that holds none, or is damaged, raises a ValueError."""
        found: LBNNRegressor = saving.read(path, cls)
        return found


def _with_nonlinear(notices: list[Notice], found: Notice | None) -> list[Notice]:
    """The notice of a nonlinear relation, which stands in the place of missing signal."""
    if found is None:
        return notices
    if not any(each.code == "no_signal" for each in notices):
        return [*notices, found]
    told = notice("no_signal", kernel=found.fields["kernel"])
    return [told if each.code == "no_signal" else each for each in notices]


def _at_once(X: AnyArray) -> Iterator[slice]:
    """Blocks of test points (m, n0) whose uncertainty is computed at once."""
    return blocks(X.shape[0], max(X.shape[1], _INPUT_FLOATS // _POINTS_AT_ONCE), _INPUT_FLOATS)


def _predict_blocks(estimator: LBNNRegressor, X: Any, return_std: bool, return_cov: bool) -> Any:
    """Predictions at the rows of a dask array, as dask arrays with its blocks of rows."""
    if return_cov:
        raise ValueError(
            "the covariance over all rows does not come in blocks: use return_std, or rows in memory"
        )
    if X.ndim != 2 or X.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X must have {estimator.n_features_in_} features, got X.shape={X.shape}")
    single, outputs = estimator._state.best.single_output, len(estimator._state.best.mean)
    shape: dict[str, Any] = {"drop_axis": 1} if single else {"chunks": (X.chunks[0], (outputs,))}
    rows, empty = X.rechunk({1: -1}), np.zeros((0,) * (2 - single))

    def mean(block: Array) -> Array:
        return np.asarray(estimator.predict(block))

    def deviation(block: Array) -> Array:
        return np.asarray(estimator.predict(block, return_std=True)[1])

    wanted = (mean, deviation) if return_std else (mean,)
    found = [rows.map_blocks(each, dtype=float, meta=empty, **shape) for each in wanted]
    return tuple(found) if return_std else found[0]
