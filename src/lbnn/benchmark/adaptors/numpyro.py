"""NumPyro: the task as a model of one site z, and the draws of an MCMC object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lbnn._base.types import Array
from lbnn.benchmark.adaptors.calls import MISSING, arguments, checked
from lbnn.benchmark.task import Task


def numpyro_model(task: Task) -> Callable[[], None]:
    """A model with the site z (standard normal) and the log likelihood as a factor."""
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions

    density = task.jax()

    def model() -> None:
        z = numpyro.sample("z", distributions.Normal(jnp.zeros(task.dimension), 1.0).to_event(1))
        numpyro.factor("log likelihood", density.log_likelihood(z))

    return model


def from_numpyro(task: Task, mcmc: Any = MISSING) -> Array:
    """Draws of an `MCMC` object, or of a dictionary of samples grouped by chain."""
    known, result = arguments("from_numpyro", task, mcmc)
    samples = result.get_samples(group_by_chain=True) if hasattr(result, "get_samples") else result
    return checked("from_numpyro", known, samples["z"])
