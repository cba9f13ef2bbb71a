"""Checks at the boundary: public entries check their arguments here, the maths inside does not.

Each function returns the cleaned value or raises an error that states the rule and what was given.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from lbnn._base import arrays
from lbnn._base.errors import ArgumentError
from lbnn._base.types import AnyArray, Array

_LARGEST_INTEGER = 10**15  # doubles hold these exactly
#: Sizes of data whose squares, and ratios of squares, neither overflow nor lose digits to underflow: small
#: singular values may be 1e-16 of the largest, and their squares are divided by one another.
_LARGEST_SIZE = 1e100


def real_array(value: Any, name: str, copy: bool = True) -> Array:
    """Convert to a float64 array of finite numbers of any shape; without a copy it may be the caller's own.

    Arrays of other libraries come to the host.
    """
    unmasked(value, name)
    try:
        raw = arrays.to_numpy(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers, got a ragged sequence") from error
    if np.iscomplexobj(raw):
        raise TypeError(f"{name} must be real, got complex numbers")
    if raw.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be an array of numbers, got {_describe(value, raw)}")
    array = raw.astype(np.float64, copy=copy)
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be finite, got {np.count_nonzero(~np.isfinite(array))} NaN or infinite values"
        )
    return array


def unmasked(value: Any, name: str) -> None:
    """Raise where a masked array, or a sequence of them, hides values: NumPy's conversion would show them."""
    parts = value if isinstance(value, list | tuple) else (value,)
    masks = [each.mask for each in parts if isinstance(each, np.ma.MaskedArray)]
    count = sum(int(np.count_nonzero(mask)) for mask in masks)
    if count:
        raise ValueError(
            f"{name} must have a number in every place, got a masked array with {count} masked values: drop "
            "their rows, or fill them"
        )


def size(largest: float, name: str, power: int = 1) -> None:
    """Raise unless the largest entry of an array is zero or far from overflow and underflow.

    `power` is 2 for arrays of products of data, such as Gram matrices.
    """
    bound = _LARGEST_SIZE**power
    if largest > bound or 0 < largest < 1 / bound:
        raise ValueError(
            f"the largest entry of {name} must be zero or between {1 / bound:g} and {bound:g}, since its "
            f"powers are computed, got {largest:.3g}: rescale {name}"
        )


def matrix(value: Any, name: str, copy: bool = True) -> Array:
    """Convert to a matrix (m, n) of finite numbers with at least one row and one column."""
    return _two_dimensional(real_array(value, name, copy), name)


def matrix_in_place(value: Any, name: str, copy: bool = True) -> AnyArray:
    """`matrix` (m, n) that stays in the library and on the device of its array; NumPy's is copied."""
    return _two_dimensional(_real_in_place(value, name, copy), name)


def square_matrix(value: Any, name: str) -> AnyArray:
    """Convert to a symmetric matrix (n, n) where it is held; asymmetry beyond rounding is an error."""
    array = matrix_in_place(value, name)
    if array.shape[0] != array.shape[1]:
        raise ValueError(f"{name} must be square, got {name}.shape={_shape(array)}")
    asymmetry = arrays.largest(array - array.T)
    if asymmetry > 1e-10 * arrays.largest(array):
        raise ValueError(f"{name} must be symmetric, got max|{name} − {name}ᵀ| = {asymmetry:.3g}")
    return (array + array.T) / 2


def targets(value: Any, examples: int) -> tuple[AnyArray, bool]:
    """Convert Y of shape (p,) or (p, n_d) to (p, n_d) in its library, and whether it was (p,)."""
    array = _real_in_place(value, "Y")
    if array.ndim not in (1, 2) or array.shape[0] != examples or 0 in array.shape:
        raise ValueError(
            f"Y must have shape (p,) or (p, outputs) with p = {examples} examples, "
            f"got Y.shape={_shape(array)}"
        )
    return (array[:, None] if array.ndim == 1 else array), array.ndim == 1


def row_weights(value: Any, rows: int, name: str = "weights") -> Array | None:
    """Check weights of rows (p,): positive finite numbers; None where all are one, or none given."""
    if value is None:
        return None
    weights = real_array(value, name)
    if weights.shape != (rows,):
        raise ValueError(
            f"{name} must have one number for each of the {rows} rows, got {name}.shape={weights.shape}"
        )
    if not (weights > 0).all():
        raise ValueError(
            f"{name} must be positive, since a row of weight w has the noise variance 1/(beta w), got "
            f"{np.count_nonzero(~(weights > 0))} that are not: leave these rows out"
        )
    return None if (weights == 1).all() else weights


def _real_in_place(value: Any, name: str, copy: bool = True) -> AnyArray:
    """An array of any shape with finite real entries, in the library in which it was given."""
    host = arrays.device_of(value).host
    return real_array(value, name, copy) if host else arrays.real_numbers(value, name)


def _two_dimensional(array: AnyArray, name: str) -> AnyArray:
    """The matrix (m, n), if it is one and not empty."""
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must be two-dimensional and not empty, got {name}.shape={_shape(array)}")
    return array


def _shape(array: AnyArray) -> tuple[int, ...]:
    """The shape of an array of any shape, as a tuple of Python."""
    return tuple(array.shape)


def positive_integer(value: Any, name: str) -> int:
    """Check for a whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentError(f"{name} must be a positive integer, got {value!r}")
    number: Any = value
    if not 1 <= number < math.inf or number != int(number):
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    if number > _LARGEST_INTEGER:
        raise ValueError(f"{name} must be at most 10^15, which doubles hold exactly, got {value!r}")
    return int(number)


def widths(value: Any) -> tuple[int, ...]:
    """Check the hidden widths n_1..n_{d−1}: a sequence of positive integers, () for depth one."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ArgumentError(
            f"widths must be a sequence of positive integers such as (50, 50) or (), got {value!r}"
        )
    return tuple(positive_integer(width, "every hidden width") for width in value)


def prior_variances(value: Any, depth: int) -> tuple[float, ...]:
    """Check the layers' prior variances: None for all ones, or one positive number per layer."""
    if value is None:
        return (1.0,) * depth
    array = real_array(value, "prior_variances")
    if array.shape != (depth,) or (array <= 0).any():
        raise ValueError(f"prior_variances must be {depth} positive numbers, one per layer, got {value!r}")
    return tuple(float(variance) for variance in array)


def inverse_temperature(value: Any) -> float:
    """Check beta: a number in [0, inf]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentError(f"beta must be a number in [0, inf], got {value!r}")
    beta = float(value)
    if math.isnan(beta) or beta < 0:
        raise ValueError(f"beta must be a number in [0, inf], got {beta}")
    if math.isinf(1 / beta if beta else 1.0):
        raise ValueError(f"beta must be 0 or large enough that 1/beta is finite, got {beta}")
    return beta


def finite_number(value: Any, name: str) -> float:
    """Check for one finite real number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    if not math.isfinite(float(value)):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return float(value)


def probability(value: Any, name: str) -> Array:
    """Check an array of any shape for probabilities strictly between zero and one."""
    array = real_array(value, name)
    if ((array <= 0) | (array >= 1)).any():
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}")
    return array


def generator(seed: Any) -> np.random.Generator:
    """Turn an int seed or a numpy Generator into a Generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or seed < 0:
        raise TypeError(f"seed must be a non-negative int or a numpy.random.Generator, got {seed!r}")
    return np.random.default_rng(int(seed))


def seed(value: Any) -> int:
    """Turn an int, a SeedSequence or a Generator into an int seed; a Generator moves on by one number."""
    if isinstance(value, np.random.SeedSequence):
        return int(value.generate_state(1, np.uint64)[0] >> np.uint64(1))
    if isinstance(value, np.random.Generator):
        return int(value.integers(2**63))
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
        raise TypeError(
            "seed must be a non-negative int, a numpy.random.SeedSequence or a numpy.random.Generator, "
            f"got {value!r}"
        )
    return int(value)


def like_mean(value: Any, shape: tuple[int, ...], single_output: bool, name: str) -> Array:
    """Check an array shaped like the predictive mean and return it as (p̂, n_d)."""
    array = real_array(value, name)
    expected = shape[:1] if single_output else shape
    if array.shape != expected:
        raise ValueError(f"{name} must be shaped like the mean, {expected}, got {name}.shape={array.shape}")
    return array.reshape(shape)


def like_mean_or_missing(value: Any, shape: tuple[int, ...], single_output: bool, name: str) -> Array:
    """Check an array shaped like the predictive mean, NaN or masked where nothing is known; as (p̂, n_d)."""
    if isinstance(value, np.ma.MaskedArray):
        value = np.where(value.mask, np.nan, value.data)
    given = np.asarray(arrays.to_numpy(value), dtype=np.float64)
    missing = np.isnan(given)
    filled = np.where(missing, 0.0, given)
    return np.where(
        missing.reshape(-1), np.nan, like_mean(filled, shape, single_output, name).reshape(-1)
    ).reshape(shape)


def _describe(value: Any, raw: np.ndarray[Any, Any]) -> str:
    return repr(value) if raw.ndim == 0 else f"an array of dtype {raw.dtype}"
