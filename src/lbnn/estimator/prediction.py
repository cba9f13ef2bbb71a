"""Test points of a fitted estimator: centred as training points were, through the kernel if there is one."""

from __future__ import annotations

from collections.abc import Callable

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
