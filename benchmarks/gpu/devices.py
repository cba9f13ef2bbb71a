"""Libraries with a GPU: arrays, problems and times there."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

LIBRARIES = ("torch", "cupy", "jax")
BETA = 4.0


def prepare() -> None:
    """SciPy's copy of array-api-compat where the package itself is not installed."""
    if importlib.util.find_spec("array_api_compat"):
        return
    for name in ("scipy._external.array_api_compat", "scipy._lib.array_api_compat"):
        try:
            sys.modules["array_api_compat"] = importlib.import_module(name)
        except ImportError:
            continue
        for part in ("torch", "cupy"):
            with contextlib.suppress(ImportError):
                sys.modules[f"array_api_compat.{part}"] = importlib.import_module(f"{name}.{part}")
        return


def available(library: str, small: bool) -> bool:
    """Whether a library is installed and sees a GPU; asked in another process."""
    ask = {
        "torch": "import torch; assert torch.cuda.is_available()",
        "cupy": "import cupy; assert cupy.cuda.runtime.getDeviceCount()",
        "jax": "import jax; assert jax.default_backend() == 'gpu'",
    }[library]
    command = f"import {library}" if small else ask
    return subprocess.run([sys.executable, "-c", command], capture_output=True).returncode == 0


def device(library: str) -> Any:
    """The place of arrays of a library: the GPU if there is one."""
    from lbnn._base.arrays import device_of

    if library == "jax":
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        jax = importlib.import_module("jax")
        jax.config.update("jax_enable_x64", True)
        return device_of(jax.numpy.zeros(1))
    if library == "cupy":
        return device_of(importlib.import_module("cupy").zeros(1))
    torch = importlib.import_module("torch")
    return device_of(torch.zeros(1, device="cuda" if torch.cuda.is_available() else "cpu"))


def normal(place: Any, seed: int, *shape: int) -> Any:
    """Standard normal numbers made where they are needed."""
    if place.library == "torch":
        torch = importlib.import_module("torch")
        generator = torch.Generator(device=place.native).manual_seed(seed)
        return torch.randn(shape, dtype=torch.float64, device=place.native, generator=generator)
    if place.library == "cupy":
        return importlib.import_module("cupy").random.default_rng(seed).standard_normal(shape)
    jax = importlib.import_module("jax")
    return jax.random.normal(jax.random.key(seed), shape, dtype=jax.numpy.float64)


def problem(place: Any, examples: int, inputs: int, outputs: int, tests: int = 1000) -> tuple[Any, Any, Any]:
    """X, Y and X_test on the device: a linear teacher with noise."""
    X, X_test = normal(place, 0, examples, inputs), normal(place, 1, tests, inputs)
    noise = 0.5 * normal(place, 3, examples, outputs)
    return X, X @ normal(place, 2, inputs, outputs) / inputs**0.5 + noise, X_test


def warm(place: Any) -> None:
    """Load the device's libraries."""
    import lbnn

    X, Y, X_test = problem(place, 300, 400, 4, 10)
    prediction = lbnn.Network((50,)).condition(X, Y, BETA).predict(X_test)
    finish(place, prediction.variance)


def finish(place: Any, array: Any) -> None:
    """Wait until an array has been computed."""
    from lbnn._base.arrays import to_numpy

    to_numpy(array.reshape(-1)[:1])


def timed(work: Callable[[], Any], place: Any, repeats: int = 1) -> tuple[float, Any]:
    """Least seconds of a few runs, and the last result, which is an array or a tuple that begins with one."""
    best, result = float("inf"), None
    for _ in range(repeats):
        result = None
        started = time.perf_counter()
        result = work()
        finish(place, result[0] if isinstance(result, tuple) else result)
        best = min(best, time.perf_counter() - started)
    return best, result
