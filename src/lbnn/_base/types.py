"""Array types used throughout: float64 and complex128 NumPy arrays, and arrays of any library."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
IndexArray = NDArray[np.intp]
Mask = NDArray[np.bool_]
#: An array of any library that follows the array API standard (see `arrays`).
AnyArray: TypeAlias = Any
