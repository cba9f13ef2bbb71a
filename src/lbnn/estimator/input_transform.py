"""From the user's inputs to those of the network: units of columns, a kernel if there is one, centring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import AnyArray, Array
from lbnn.data.centring import CentredInputs, CentredKernel
from lbnn.estimator.columns import ColumnUnits
from lbnn.estimator.kernels import Kernel


@dataclass(frozen=True)
class InputTransform:
    """From the user's inputs to the arguments of `Spectrum.project`.

    Attributes
    ----------
    columns : ColumnUnits
    kernel : Kernel
    inputs : CentredInputs or CentredKernel
        Of inputs or features, or of a kernel matrix.
    training_inputs : (k, n0)
        Rows that the kernel is taken with, in its units; empty for the linear kernel.
    feature_map : (k, m) or (0, 0)
        Where the kernel is approximated: its values with the k rows, times this, are features.
    """

    columns: ColumnUnits
    kernel: Kernel
    inputs: CentredInputs | CentredKernel
    training_inputs: Array
    feature_map: Array

    def features(self, X: AnyArray) -> AnyArray:
        """What the mean function is a linear function of: (p̂, n0), (p̂, m) or the centred kernel (p̂, p)."""
        if isinstance(self.inputs, CentredKernel):
            return self.inputs.cross(self.kernel.matrix(self.columns.seen(X), self.training_inputs))
        return self.inputs.columns.centred(self._linear(X))

    def test(self, X: AnyArray, test_gram: ArrayLike | None = None) -> tuple[AnyArray, ...]:
        """Test points as arguments of `Spectrum.project`; `test_gram` is the kernel among them."""
        if not isinstance(self.inputs, CentredKernel):
            return self.inputs.test(self._linear(X))
        seen = self.columns.seen(X)
        gram = (
            self.kernel.matrix(seen, seen)
            if test_gram is None
            else check.square_matrix(test_gram, "test_gram")
        )
        return self.inputs.test(self.kernel.matrix(seen, self.training_inputs), gram)

    def _linear(self, X: AnyArray) -> AnyArray:
        seen = self.columns.seen(X)
        if not self.feature_map.size:
            return seen
        return self.kernel.matrix(seen, self.training_inputs) @ self.feature_map

    def in_units_of_columns(self, weights: Array, level: Array) -> tuple[Array, Array]:
        """Coefficients (n_d, n0) and intercept (n_d,) in the user's units, for the linear kernel."""
        assert isinstance(self.inputs, CentredInputs)
        coefficients = weights / self.columns.deviation
        centre = self.columns.offset + self.columns.deviation * self.inputs.columns.means
        return coefficients, np.asarray(level - coefficients @ centre)
