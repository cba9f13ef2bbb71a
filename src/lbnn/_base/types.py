"""Array types used throughout: float64 and complex128 NumPy arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
IndexArray = NDArray[np.intp]
Mask = NDArray[np.bool_]
