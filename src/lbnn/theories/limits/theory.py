"""What a limit theory returns: the answers of an exact posterior, in the limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.projection import Projection
from lbnn.data.spectrum import Spectrum
from lbnn.predict.predictive import Predictive
from lbnn.scale.measure import ScaleMeasure

KernelOfLayer = Callable[[Projection, int], Array]
PredictiveOf = Callable[[Projection], Predictive]


@dataclass(frozen=True)
class Theory:
    """One limit theory for one network and one data set. Returned by the functions of `lbnn.asymptotics`.

    Attributes
    ----------
    name : str
    scale : ScaleMeasure or None
        One atom where the theory fixes L; None where it has no L (many outputs).
    log_evidence : float or None
        At leading order, where the saddle point gives it.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(20, 40)), rng.normal(size=(20, 2))
    >>> theory = lbnn.asymptotics.proportional(lbnn.Network(widths=(50,)), X, Y)
    >>> theory.kernel.shape, theory.scale.mean.shape, theory.predict(X[:3]).mean.shape
    ((20, 20), (2, 2), (3, 2))
    """

    name: str
    spectrum: Spectrum
    scale: ScaleMeasure | None
    log_evidence: float | None
    layers: int  # hidden layers whose kernels the theory gives
    kernel_at: KernelOfLayer
    _predictive_at: PredictiveOf

    def __repr__(self) -> str:
        """One line: name, data and evidence."""
        evidence = "" if self.log_evidence is None else f", log_evidence={self.log_evidence:.6g}"
        data = f"examples={self.spectrum.examples}, outputs={self.spectrum.outputs}"
        return f"Theory({self.name!r}, {data}{evidence})"

    @property
    def kernel(self) -> Array:
        """⟨K⟩ of the first hidden layer on the training inputs, (p, p)."""
        return self.feature_kernel()

    def feature_kernel(
        self,
        X_test: ArrayLike | None = None,
        *more: ArrayLike,
        cross_gram: ArrayLike | None = None,
        test_gram: ArrayLike | None = None,
        layer: int = 1,
    ) -> Array:
        """⟨K_ℓ⟩ on the training inputs or at test points, as `Posterior.feature_kernel`, (p̂, p̂)."""
        number = check.positive_integer(layer, "layer")
        if number > self.layers:
            raise ValueError(f"{self.name} gives kernels of layers 1 to {self.layers}, got layer={number}")
        points = self.spectrum.project(X_test, *more, cross_gram=cross_gram, test_gram=test_gram)
        return np.asarray(self.kernel_at(points, number))

    def predict(
        self,
        X_test: ArrayLike | None = None,
        *more: ArrayLike,
        cross_gram: ArrayLike | None = None,
        test_gram: ArrayLike | None = None,
    ) -> Predictive:
        """The predictive at X_test (p̂, n0), as `Posterior.predict`; the training points by default."""
        points = self.spectrum.project(X_test, *more, cross_gram=cross_gram, test_gram=test_gram)
        return self._predictive_at(points)
