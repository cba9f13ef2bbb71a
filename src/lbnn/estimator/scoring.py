"""Predictive distributions through pipelines and searches, and the score of densities for scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline

from lbnn._base.arrays import to_numpy
from lbnn.predict.predictive import Predictive


def predictive(estimator: Any, X: ArrayLike) -> Predictive:
    """The predictive distribution of a fitted estimator at X, through a pipeline or a search around it.

    Parameters
    ----------
    estimator : LBNNRegressor or BandedRegressor, Pipeline that ends with one, or GridSearchCV and the like
    X : (n_samples, n_features)
        As the pipeline takes it.

    Returns
    -------
    Predictive
        Of the function; `.with_noise()` for observations.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 5))
    >>> y = X @ np.arange(5.0) + rng.normal(size=40)
    >>> pipeline = make_pipeline(StandardScaler(), lbnn.LBNNRegressor(depth=1)).fit(X, y)
    >>> low, high = lbnn.predictive(pipeline, X[:3]).with_noise().interval(0.9)
    >>> bool((low < high).all())
    True
    """
    if isinstance(estimator, Pipeline):
        return predictive(estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X)
    if hasattr(estimator, "best_estimator_"):
        return predictive(estimator.best_estimator_, X)
    if not hasattr(estimator, "predictive"):
        raise TypeError(
            "a predictive distribution needs an LBNNRegressor or BandedRegressor, at the end of a pipeline "
            f"or as best_estimator_ of a search, got {type(estimator).__name__}"
        )
    law: Predictive = estimator.predictive(X)
    return law


def density_score(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Mean log density of observations, jointly over outputs: larger is better.

    For `scoring` in `cross_val_score` and `GridSearchCV`; through pipelines as `predictive`.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from sklearn.model_selection import cross_val_score
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 5))
    >>> y = X @ np.arange(5.0) + rng.normal(size=40)
    >>> scores = cross_val_score(lbnn.LBNNRegressor(depth=1), X, y, scoring=lbnn.density_score, cv=4)
    >>> scores.shape
    (4,)
    """
    return float(np.mean(to_numpy(predictive(estimator, X).with_noise().pointwise_log_density(y))))
