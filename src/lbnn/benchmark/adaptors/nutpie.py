"""nutpie: the task as a compiled model; `from_arviz` reads what `nutpie.sample` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.benchmark.task import Task


def nutpie_model(task: Task, start: Callable[[int], Array] | None = None) -> Any:
    """A model for `nutpie.sample` with the variable z; chains start at draws of the prior.

    The density and its gradient are those of JAX, compiled.
    """
    import jax
    from nutpie.compiled_pyfunc import from_pyfunc

    value_and_gradient = jax.jit(jax.value_and_grad(task.jax().log_density))
    value_and_gradient(np.zeros(task.dimension))

    def make_log_density() -> Callable[[Array], tuple[float, Array]]:
        def log_density(z: Array) -> tuple[float, Array]:
            value, slope = value_and_gradient(z)
            return float(value), np.asarray(slope, dtype=np.float64)

        return log_density

    def make_expand(*_: Any) -> Callable[[Array], dict[str, Array]]:
        return lambda z: {"z": np.asarray(z, dtype=np.float64)}

    return from_pyfunc(
        task.dimension,
        make_log_density,
        make_expand,
        [np.dtype(np.float64)],
        [(task.dimension,)],
        ["z"],
        make_initial_point_fn=start or (lambda seed: task.prior_draws(1, seed)[0]),
    )
