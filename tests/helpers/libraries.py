"""Array libraries that tests run with: array-api-strict always, PyTorch and JAX among the slow tests."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import pytest

from lbnn._base.arrays import Device, device_of

every_library = pytest.mark.parametrize(
    "library",
    [
        "array_api_strict",
        pytest.param("torch", marks=pytest.mark.slow),
        pytest.param("jax", marks=pytest.mark.slow),
    ],
)


@functools.cache
def device(library: str) -> Device:
    """Where arrays of a library live on this machine; skips the test where it is not installed."""
    if library == "numpy":
        return device_of(np.zeros(1))
    module = pytest.importorskip(library)
    if library == "jax":
        module.config.update("jax_enable_x64", True)
        module = importlib.import_module("jax.numpy")
    return device_of(module.asarray(np.zeros(1)))


def put(array: Any, library: str) -> Any:
    """A NumPy array as an array of a library."""
    return device(library).put(np.asarray(array, dtype=float))
