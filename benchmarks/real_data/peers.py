"""The peers. Each is a function (X, Y, X_test) -> Forecast of observations, with the outputs it was given.

Models that state a predictive distribution are taken at their word. The others (ridge, PLS) get a normal one
whose covariance is that of residuals left out in cross-validation, which is what a careful user would do by
hand; it holds the noise, its correlation over outputs, and the uncertainty of the fit on average.
Trees come with their defaults, as a newcomer runs them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import BayesianRidge, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multioutput import MultiOutputRegressor

from benchmarks.real_data import conjugate
from benchmarks.real_data.metrics import Forecast, Gaussian

Method = Callable[[np.ndarray, np.ndarray, np.ndarray], Forecast]

ALPHAS = np.logspace(-5, 6, 45)
SMALLEST_VARIANCE = 1e-6  # of residuals, in units of the targets' variance
COMPONENTS = 20
FOLDS = KFold(5, shuffle=True, random_state=0)
MOST_LENGTHS, MOST_LEARNING = 40, 500  # inputs with their own length scale; rows that it is learned from
TREES = 500


def ridge(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """RidgeCV, one penalty for each output; variances of its leave-one-out residuals."""
    mean, residuals = _ridge(X, Y, X_test)
    return Gaussian.constant(mean, np.diag(residuals.var(axis=0) + SMALLEST_VARIANCE))


def ridge_covariance(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """RidgeCV; full covariance of its leave-one-out residuals, shrunk by Ledoit and Wolf."""
    mean, residuals = _ridge(X, Y, X_test)
    return Gaussian.constant(mean, shrunk_covariance(residuals))


def partial_least_squares(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """PLSRegression, components by 5-fold cross-validation; full covariance of those residuals, shrunk."""
    largest = min(COMPONENTS, X.shape[1], len(X) - -(-len(X) // FOLDS.n_splits) - 1)
    left_out = [
        Y - cross_val_predict(PLSRegression(count, scale=False), X, Y, cv=FOLDS).reshape(Y.shape)
        for count in range(1, largest + 1)
    ]
    best = int(np.argmin([(residuals**2).sum() for residuals in left_out]))
    mean = PLSRegression(best + 1, scale=False).fit(X, Y).predict(X_test).reshape(len(X_test), -1)
    return Gaussian.constant(mean, shrunk_covariance(left_out[best]))


def bayesian_ridge(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """BayesianRidge for each output; its own standard deviations."""
    return _output_by_output(lambda: BayesianRidge(max_iter=1000), X, Y, X_test)


def gaussian_process(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """GaussianProcessRegressor for each output, a linear kernel and noise, default optimiser."""
    scale = np.sqrt(X.shape[1])  # keeps the kernel's constant within scikit-learn's default bounds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a parameter at the end of its range
        return _output_by_output(linear_process, X / scale, Y, X_test / scale)


def linear_process() -> GaussianProcessRegressor:
    """The kernel family of a linear network."""
    return GaussianProcessRegressor(ConstantKernel() * DotProduct() + WhiteKernel())


def learned_process(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """GaussianProcessRegressor for each output, squared-exponential with learned length scales.

    One for each input up to 40 inputs, else one for all: with one for each of 120 inputs, its 90% intervals
    covered 26% on nutrimouse. They begin at √n0, the typical distance of standardised inputs: from one,
    scikit-learn's default, all rows are strangers where there are many inputs, and the optimiser stays with
    pure noise. They are learned from at most 500 rows; predictions are from all.
    """
    inputs = X.shape[1]
    start = np.sqrt(inputs) * np.ones(inputs if inputs <= MOST_LENGTHS else 1)

    def make() -> GaussianProcessRegressor:
        kernel = ConstantKernel() * RBF(start, (1e-2, 1e5)) + WhiteKernel()
        return GaussianProcessRegressor(kernel, normalize_y=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if len(X) <= MOST_LEARNING:
            return _output_by_output(make, X, Y, X_test)
        rows = np.random.default_rng(0).choice(len(X), MOST_LEARNING, replace=False)
        kernels = iter([make().fit(X[rows], y[rows]).kernel_ for y in Y.T])
        return _output_by_output(
            lambda: GaussianProcessRegressor(next(kernels), optimizer=None, normalize_y=True), X, Y, X_test
        )


def random_forest(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """RandomForestRegressor of 500 trees; full covariance of its out-of-bag residuals, shrunk."""
    targets = Y[:, 0] if Y.shape[1] == 1 else Y
    forest = RandomForestRegressor(TREES, oob_score=True, random_state=0).fit(X, targets)
    residuals = Y - forest.oob_prediction_.reshape(Y.shape)
    return Gaussian.constant(forest.predict(X_test).reshape(len(X_test), -1), shrunk_covariance(residuals))


def gradient_boosting(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """HistGradientBoostingRegressor for each output; covariance of 5-fold residuals, shrunk."""
    model = MultiOutputRegressor(HistGradientBoostingRegressor(random_state=0))
    residuals = Y - cross_val_predict(model, X, Y, cv=FOLDS)
    return Gaussian.constant(model.fit(X, Y).predict(X_test), shrunk_covariance(residuals))


def methods(outputs: int) -> dict[str, Method]:
    """The peers by name."""
    several: dict[str, Method] = {"ridge, full covariance": ridge_covariance} if outputs > 1 else {}
    return several | {
        "ridge": ridge,
        "PLS": partial_least_squares,
        "Bayesian ridge": bayesian_ridge,
        "GP, linear": gaussian_process,
        "conjugate": conjugate.fit_predict,
        "GP, rbf": learned_process,
        "forest": random_forest,
        "boosting": gradient_boosting,
    }


def shrunk_covariance(residuals: np.ndarray) -> np.ndarray:
    """Ledoit and Wolf's covariance of residuals (p, n_d), about zero."""
    shrunk = LedoitWolf(assume_centered=True).fit(residuals).covariance_
    return shrunk + SMALLEST_VARIANCE * np.eye(len(shrunk))


def _ridge(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and leave-one-out residuals."""
    fitted = RidgeCV(ALPHAS, alpha_per_target=Y.shape[1] > 1).fit(X, Y)
    penalties = np.broadcast_to(fitted.alpha_, Y.shape[1])
    residuals = np.column_stack([leave_one_out(X, *pair) for pair in zip(Y.T, penalties, strict=True)])
    return fitted.predict(X_test).reshape(len(X_test), -1), residuals


def leave_one_out(X: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """(y − Hy)_i / (1 − H_ii), residuals of ridge regression with an intercept when i is left out, (p,)."""
    vectors, values, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    hat = (vectors * (values**2 / (values**2 + penalty))) @ vectors.T + 1 / len(X)
    return (y - hat @ y) / (1 - np.diagonal(hat))


def _output_by_output(make: Callable, X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    parts = [make().fit(X, y).predict(X_test, return_std=True) for y in Y.T]
    mean, deviation = (np.column_stack(part) for part in zip(*parts, strict=True))
    return Gaussian.independent(mean, np.sqrt(deviation**2 + SMALLEST_VARIANCE))
