"""Test points of a fitted estimator: centred as training points were, through the kernel if there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import like
from lbnn._base.types import AnyArray, Array
from lbnn.data.centring import CentredKernel
from lbnn.estimator.model import FittedState
from lbnn.predict.affine import AffinePredictive
from lbnn.predict.average import MixturePredictive

KernelMatrix = Callable[[Array, Array], Array]


def mean(state: FittedState, X: AnyArray, kernel: KernelMatrix, weights: Array) -> AnyArray:
    """Of the targets at X, from the weights (n_d, n0) or (n_d, p) of the mean function."""
    if isinstance(state.inputs, CentredKernel):
        features = state.inputs.cross(kernel(X, state.training_inputs))
    else:
        features = state.inputs.columns.centred(X)
    found = features @ like(weights.T, features) + like(state.best.mean, features)
    return found[:, 0] if state.best.single_output else found


def predictive(
    state: FittedState, X: AnyArray, kernel: KernelMatrix, test_gram: ArrayLike | None
) -> AffinePredictive | MixturePredictive:
    """The function at X; `test_gram` in the place of the kernel among these points."""
    if not isinstance(state.inputs, CentredKernel):
        return state.predictive(*state.inputs.test(X))
    gram = kernel(X, X) if test_gram is None else check.square_matrix(test_gram, "test_gram")
    return state.predictive(*state.inputs.test(kernel(X, state.training_inputs), gram))


def by_blocks(estimator: Any, X: Any, return_std: bool, return_cov: bool) -> Any:
    """Predictions at the rows of a dask array, as dask arrays with its blocks of rows."""
    if return_cov:
        raise ValueError(
            "the covariance over all rows does not come in blocks: use return_std, or rows in memory"
        )
    if X.ndim != 2 or X.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X must have {estimator.n_features_in_} features, got X.shape={X.shape}")
    single, outputs = estimator._state.best.single_output, len(estimator._state.best.mean)
    shape: dict[str, Any] = {"drop_axis": 1} if single else {"chunks": (X.chunks[0], (outputs,))}
    rows = X.rechunk({1: -1})
    names = ("mean", "deviation") if return_std else ("mean",)
    found = [
        rows.map_blocks(_block, estimator, name, dtype=float, meta=np.zeros((0,) * (2 - single)), **shape)
        for name in names
    ]
    return tuple(found) if return_std else found[0]


def _block(X: Array, estimator: Any, name: str) -> Array:
    mean = estimator.predict(X, return_std=name == "deviation")
    return mean[1] if name == "deviation" else mean
