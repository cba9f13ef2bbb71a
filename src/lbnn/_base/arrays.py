"""Arrays of any kind: the one module that uses the namespaces of the array API standard.

Heavy work follows X: its Gram matrix, eigenvectors and projected test points stay in the library and on the
device of X (NumPy, PyTorch, JAX, CuPy, array-api-strict). What is small comes back as NumPy, and all control
is NumPy: quadrature, searches, random numbers. PyTorch and CuPy need the package array-api-compat besides.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from lbnn._base.extras import needed
from lbnn._base.types import AnyArray, Array

#: Name of a library (first part of the module of its arrays) and the module that follows the standard.
_NAMESPACES = {
    "numpy": "numpy",
    "torch": "array_api_compat.torch",
    "cupy": "array_api_compat.cupy",
    "jax": "jax.numpy",
    "array_api_strict": "array_api_strict",
}
_HOST_BLOCK = 1 << 17  # floats of a batch on the host, where elementwise work stays in the cache
_DEVICE_BLOCK = 1 << 26  # floats of a batch on other devices, where few large calls are best

Result = TypeVar("Result")


@dataclass(frozen=True)
class Device:
    """Library and device of arrays.

    Examples
    --------
    >>> import numpy as np
    >>> device_of(np.ones(3)) == HOST
    True
    >>> HOST.put(np.ones(3))
    array([1., 1., 1.])
    """

    library: str
    native: Any = None  # the library's own name of the device

    @property
    def xp(self) -> Any:
        """The namespace of the array API standard."""
        return _namespace(self.library)

    @property
    def host(self) -> bool:
        """Whether these are NumPy arrays."""
        return self.library == "numpy"

    @property
    def block_floats(self) -> int:
        """Floats that one block of a batched evaluation should hold here."""
        return _HOST_BLOCK if self.host else _DEVICE_BLOCK

    def zeros(self, *shape: int) -> AnyArray:
        """Zeros of any shape, in float64."""
        return (
            np.zeros(shape) if self.host else self.xp.zeros(shape, dtype=self.xp.float64, device=self.native)
        )

    def put(self, values: NDArray[Any]) -> AnyArray:
        """A NumPy array of any shape as an array of this library on this device."""
        if self.host:
            return values
        plain = np.ascontiguousarray(values)
        if not plain.flags.writeable:  # PyTorch warns of memory that it may not write
            plain = plain.copy()
        return self.xp.asarray(plain, device=self.native)

    def __hash__(self) -> int:  # not every library's devices have one
        return hash((self.library, str(self.native)))

    def __str__(self) -> str:
        return "NumPy" if self.host else f"{self.library} on {self.native}"


HOST = Device("numpy")


def device_of(array: AnyArray) -> Device:
    """The device of an array of any shape; lists, tables and all that NumPy converts count as NumPy."""
    library = _library(array)
    return HOST if library == "numpy" else Device(library, getattr(array, "device", None))


def namespace(array: AnyArray) -> Any:
    """The namespace of the array API standard that an array of any shape belongs to."""
    return _namespace(_library(array))


def to_numpy(array: AnyArray) -> Array:
    """An array of any library and any shape as NumPy; NumPy arrays as they are."""
    library = _library(array)
    if library == "torch":
        return array.detach().cpu().numpy()
    if library == "cupy":
        return array.get()
    return np.asarray(array) if library == "numpy" else np.array(array)


def like(values: NDArray[Any], reference: AnyArray) -> AnyArray:
    """A NumPy array of any shape in the namespace and on the device of another array."""
    return values if isinstance(reference, np.ndarray) else device_of(reference).put(values)


def require_one_device(**arrays: AnyArray) -> None:
    """Raise unless all of these arrays are of one library and on one device."""
    devices = {name: device_of(array) for name, array in arrays.items()}
    first, *others = devices.values()
    if any(other != first for other in others):
        given = ", ".join(f"{name} of {device}" for name, device in devices.items())
        raise ValueError(
            f"{' and '.join(devices)} must be arrays of one library on one device, since all work follows X, "
            f"got {given}: convert one of them"
        )


def largest(array: AnyArray) -> float:
    """max |entry| of an array of any shape; 0 of an empty one. Without a copy: inputs may be large."""
    if 0 in array.shape:
        return 0.0
    xp = namespace(array)
    return max(float(xp.max(array)), -float(xp.min(array)))


def real_numbers(array: AnyArray, name: str) -> AnyArray:
    """Check an array of any shape that is not NumPy's: finite, real; converted to float64."""
    xp, library = namespace(array), _library(array)
    if library == "torch" and array.requires_grad:
        raise ValueError(
            f"{name} must not require gradients, which are not recorded, got requires_grad=True: "
            f"use {name}.detach()"
        )
    if not xp.isdtype(array.dtype, ("bool", "integral", "real floating")):
        raise TypeError(f"{name} must be an array of real numbers, got dtype {array.dtype}")
    if array.dtype != xp.float64:
        array = _as_double(array, name, xp)
    # not count_nonzero, which came with the standard of 2024
    count = int(xp.sum(xp.astype(~xp.isfinite(array), xp.int64)))
    if count:
        raise ValueError(f"{name} must be finite, got {count} NaN or infinite values")
    return array


def _as_double(array: AnyArray, name: str, xp: Any) -> AnyArray:
    """The array, of any shape, in float64, where its library and device have that."""
    rule = f"{name} must be an array that can hold float64, in which everything is computed"
    if _library(array) == "jax" and xp.asarray(0.0).dtype != xp.float64:
        raise ValueError(f"{rule}, got JAX with 32-bit numbers: jax.config.update('jax_enable_x64', True)")
    try:
        return xp.astype(array, xp.float64)
    except (TypeError, RuntimeError) as error:  # devices without double precision
        raise ValueError(f"{rule}, got {array.dtype} on {array.device}: move it to the CPU") from error


def add_to_diagonal(matrices: AnyArray, values: AnyArray | float) -> AnyArray:
    """Matrices (..., n, n) plus diag(values), values (..., n) or a number; NumPy's are changed in place."""
    size = matrices.shape[-1]
    if isinstance(matrices, np.ndarray):
        index = np.arange(size)
        matrices[..., index, index] += values
        return matrices
    unit = namespace(matrices).eye(size, dtype=matrices.dtype, device=matrices.device)
    return matrices + unit * (values if isinstance(values, float) else values[..., None, :])


def times(features: AnyArray, coefficients: Array) -> Array:
    """Features (p̂, r) of any library times NumPy coefficients (r, k), computed there, as NumPy (p̂, k)."""
    if isinstance(features, np.ndarray):
        return features @ coefficients
    return to_numpy(features @ like(coefficients, features))


def take(array: AnyArray, indices: AnyArray, axis: int) -> AnyArray:
    """Some entries of an array of any shape along an axis; indices (k,) on the same device, or NumPy's."""
    if isinstance(array, np.ndarray):
        return array.take(indices, axis=axis)
    xp, there = namespace(array), like(indices, array) if isinstance(indices, np.ndarray) else indices
    if _library(array) == "torch":  # its `take` in the standard's form looks for negative indices first
        return xp.index_select(array, axis, there)
    return xp.take(array, there, axis=axis)


def largest_rows(array: AnyArray, count: int) -> AnyArray:
    """Indices (count, k) of the largest entries of each column of an array (m, k), the largest first."""
    if isinstance(array, np.ndarray):
        return np.argsort(-array, axis=0, kind="stable")[:count]
    return namespace(array).argsort(array, axis=0, descending=True)[:count, :]


def with_columns(matrix: AnyArray, first: AnyArray, others: AnyArray) -> AnyArray:
    """Columns first (m, a) and others (m, k − a) side by side, (m, k); NumPy's are written into `matrix`."""
    if not isinstance(matrix, np.ndarray):
        return namespace(matrix).concat([first, others], axis=1)
    count = first.shape[1]
    matrix[:, :count], matrix[:, count:] = first, others
    return matrix


def partial_sums(array: AnyArray) -> AnyArray:
    """Sums of the first k rows of an array (m, ...), for k = 0 to m: (m + 1, ...)."""
    if isinstance(array, np.ndarray):  # NumPy has the function of the standard from 2.1 on
        return np.concatenate([np.zeros_like(array[:1]), np.cumsum(array, axis=0)])
    return namespace(array).cumulative_sum(array, axis=0, include_initial=True)


def take_rows(array: AnyArray, indices: AnyArray) -> AnyArray:
    """array[indices[i, j], j] for an array (m, k) and indices (n, k): other rows for each column, (n, k)."""
    if isinstance(array, np.ndarray):
        return np.take_along_axis(array, indices, axis=0)
    if _library(array) == "torch":
        return namespace(array).gather(array, 0, indices)
    return namespace(array).take_along_axis(array, indices, axis=0)


def add_to_columns(array: AnyArray, columns: AnyArray, values: AnyArray) -> AnyArray:
    """The array (..., k) with values (..., n) added to n different columns; in place where that is possible.

    Columns are NumPy indices.
    """
    library = _library(array)
    if library == "jax":
        return array.at[..., columns].add(values)
    if library == "array_api_strict":  # has no assignment to columns
        xp = namespace(array)
        chosen = np.zeros((len(columns), array.shape[-1]))
        chosen[np.arange(len(columns)), columns] = 1.0
        return array + xp.matmul(values, like(chosen, array))
    if library == "torch":  # without a copy of the columns
        return array.index_add_(array.ndim - 1, like(columns, array), values)
    array[..., columns] += values
    return array


def transposed(matrices: AnyArray) -> AnyArray:
    """Matrices (..., n, k) with the last two axes exchanged (not every library's arrays have .mT)."""
    if isinstance(matrices, np.ndarray):
        return matrices.swapaxes(-1, -2)
    return namespace(matrices).matrix_transpose(matrices)


def copied(array: AnyArray) -> AnyArray:
    """A copy of an array of any shape, so that later changes of the caller's array change nothing here."""
    return array.copy() if isinstance(array, np.ndarray) else namespace(array).asarray(array, copy=True)


def row_squares(matrix: AnyArray) -> Array:
    """Σ_j matrix_ij², (rows,), as NumPy."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", matrix, matrix), float)
    return to_numpy(namespace(matrix).sum(matrix * matrix, axis=1))


def row_sizes(matrix: AnyArray) -> Array:
    """max_j |matrix_ij|, (rows,), as NumPy."""
    xp = namespace(matrix)
    return to_numpy(xp.max(xp.abs(matrix), axis=1))


def eigh(matrix: AnyArray, overwrite: bool = False) -> tuple[Array, AnyArray]:
    """Eigenvalues (n,), ascending, as NumPy and eigenvectors (n, n) of a symmetric matrix (n, n).

    NumPy's may be computed in the memory of the matrix.
    """
    if isinstance(matrix, np.ndarray):
        if not overwrite:
            return np.linalg.eigh(matrix)
        return linalg.eigh(matrix.T, driver="evd", overwrite_a=True, check_finite=False)
    values, vectors = namespace(matrix).linalg.eigh(matrix)
    return to_numpy(values), vectors


def svd(matrix: AnyArray) -> tuple[AnyArray, Array, AnyArray]:
    """A (n, n), σ (n,) and B (n, n) with matrix = A diag(σ) B, σ descending, as NumPy."""
    options = {}
    if _library(matrix) == "torch" and matrix.is_cuda:
        options = {"driver": "gesvd"}  # its own choice, Jacobi's method, stops at 1e-12 (PyTorch 2.11, 5000²)
    left, values, right = namespace(matrix).linalg.svd(matrix, full_matrices=False, **options)
    return left, to_numpy(values), right


def cholesky(matrix: AnyArray) -> AnyArray | None:
    """Lower triangular F (n, n) with F Fᵀ = matrix (n, n); None where it is not positive definite."""
    xp = namespace(matrix)
    try:
        factor = xp.linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError) as error:
        if _out_of_memory(error):
            raise
        return None
    return factor if bool(xp.all(xp.isfinite(factor))) else None  # JAX and CuPy leave NaN


def within_memory(work: Callable[[], Result], device: Device, floats: float, purpose: str) -> Result:
    """The result of `work`; a device that runs out of memory is a `MemoryError` that says how much is needed.

    The error is raised after the failed work has gone, so that it keeps none of its arrays alive.
    """
    try:
        return work()
    except Exception as error:
        if not _out_of_memory(error):
            raise
    _release(device)
    raise MemoryError(
        f"{purpose} needs about {8e-9 * floats:.3g} GB of memory in float64, got too little free memory "
        f"({device}): free some, take fewer examples, or accumulate moments (Spectrum.from_moments)"
    )


def free_floats(device: Device) -> int:
    """Floats that there is free memory for on a device; 2^28 (2 GB) where its library does not report it."""
    known = str(device.native).startswith("cuda") if device.library == "torch" else device.library == "cupy"
    if not known:
        return 1 << 28
    if device.library == "torch":
        torch = importlib.import_module("torch").cuda
        unused = torch.memory_reserved(device.native) - torch.memory_allocated(device.native)
        return int((torch.mem_get_info(device.native)[0] + unused) // 8)
    cupy = importlib.import_module("cupy")
    with device.native:
        unused = cupy.get_default_memory_pool().free_bytes()
        return int((cupy.cuda.runtime.memGetInfo()[0] + unused) // 8)


def _out_of_memory(error: Exception) -> bool:
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or (type(error).__name__ == "JaxRuntimeError" and "RESOURCE_EXHAUSTED" in str(error))


def _release(device: Device) -> None:
    """Give cached device memory back."""
    if device.library == "torch" and str(device.native).startswith("cuda"):
        importlib.import_module("torch").cuda.empty_cache()
    if device.library == "cupy":
        importlib.import_module("cupy").get_default_memory_pool().free_all_blocks()


def _library(array: AnyArray) -> str:
    """Name of the library of an array of any shape; what is not of another one is left to NumPy."""
    if isinstance(array, np.ndarray):
        return "numpy"
    name = type(array).__module__.partition(".")[0]
    name = "jax" if name == "jaxlib" else name
    return name if name == "jax" or (name in _NAMESPACES and hasattr(array, "device")) else "numpy"


@cache
def _namespace(library: str) -> Any:
    if library == "numpy":
        return np
    try:
        return importlib.import_module(_NAMESPACES[library])
    except ImportError as error:
        raise ImportError(needed(f"an array of {library}", "array-api-compat", "arrays")) from error
