"""The peers: NumPyro's NUTS and nutpie, on the weights of a network of depth two.

Both get the same jitted log density and gradient, in float64 and on one thread, in coordinates in which the
prior is standard normal. NumPyro keeps the unit mass matrix of those coordinates (adapting one was no better
at 10,250 and 42,000 weights and slower at 210,000, after warm-ups this short); nutpie adapts its own. Both
start from a draw of the prior. Of each draw only the functions of interest are kept.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# XLA reads these once, when it starts: one thread.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
os.environ["NPROC"] = "1"

import jax
import jax.numpy as jnp
import numpyro
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import NUTS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # arviz announces its next version
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

jax.config.update("jax_enable_x64", True)

VERSIONS = (
    f"jax {jax.__version__}, numpyro {numpyro.__version__}, nutpie {nutpie.__version__}; XLA on one thread"
)


@dataclass(frozen=True)
class Chain:
    """Functions of the draws of one chain, and what they cost in CPU seconds without compilation."""

    values: np.ndarray  # (draws, functions)
    warmup: int
    warmup_seconds: float
    seconds: float
    gradients: float  # per draw
    divergences: int

    @property
    def effective_sample_size(self) -> np.ndarray:
        return effective_sample_size(self.values[None])


class WeightSpace:
    """Posterior of W_1 (n_1, n0) and W_2 (n_d, n_1), as a vector of standard normals a priori."""

    def __init__(
        self, X: np.ndarray, Y: np.ndarray, X_test: np.ndarray, width: int, beta: float, seed: int
    ) -> None:
        self.X, self.Y, self.X_test = (jnp.asarray(array) for array in (X, Y, X_test))
        self.width, self.beta, self.seed = width, beta, seed
        self.inputs, self.outputs = X.shape[1], Y.shape[1]
        self.dimension = width * (self.inputs + self.outputs)
        self.start = np.random.default_rng([seed, 0]).standard_normal(self.dimension)

    def weights(self, z: jax.Array) -> tuple[jax.Array, jax.Array]:
        split = self.width * self.inputs
        first = z[:split].reshape(self.width, self.inputs) / math.sqrt(self.inputs)
        return first, z[split:].reshape(self.outputs, self.width) / math.sqrt(self.width)

    def potential(self, z: jax.Array) -> jax.Array:
        """Minus the log posterior density, up to a constant."""
        first, second = self.weights(z)
        misfit = self.X @ first.T @ second.T - self.Y
        return 0.5 * (z @ z) + 0.5 * self.beta * jnp.sum(misfit * misfit)

    def parts(self, z: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Predictions at the test points, and L."""
        first, second = self.weights(z)
        return self.X_test @ first.T @ second.T, second @ second.T


def functions(predictions: object, scale: object) -> np.ndarray:
    """Predictions (p̂, n_d) and L to the vector of the predictions and log det L."""
    return np.append(np.asarray(predictions), np.linalg.slogdet(np.asarray(scale))[1])


def sample_numpyro(space: WeightSpace, warmup: int, draws: int) -> Chain:
    kernel = NUTS(potential_fn=space.potential, adapt_mass_matrix=False)
    state = kernel.init(jax.random.PRNGKey(space.seed), warmup, jnp.asarray(space.start), (), {})

    def transition(state: object) -> tuple:
        after = kernel.sample(state, (), {})
        return after, space.parts(after.z), after.num_steps, after.diverging

    step = jax.jit(transition).lower(state).compile()
    started = time.process_time()
    for _ in range(warmup):
        state = step(state)[0]
    jax.block_until_ready(state)
    warm = time.process_time()
    values, gradients, divergences = [], 0, 0
    for _ in range(draws):
        state, parts, steps, diverging = step(state)
        values.append(functions(*parts))
        gradients, divergences = gradients + int(steps), divergences + int(diverging)
    seconds = time.process_time() - warm
    return Chain(np.array(values), warmup, warm - started, seconds, gradients / draws, divergences)


def sample_nutpie(space: WeightSpace, warmup: int, draws: int) -> Chain:
    slope = jax.jit(jax.value_and_grad(lambda z: -space.potential(z)))
    parts = jax.jit(space.parts)
    jax.block_until_ready((slope(space.start), parts(space.start)))
    finished = []  # CPU time at the end of every draw, warm-up included

    def make_log_density() -> Callable:
        def log_density(z: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = slope(z)
            return float(value), np.asarray(gradient)

        return log_density

    def make_expand(*_: object) -> Callable:
        def expand(z: np.ndarray) -> dict[str, np.ndarray]:
            finished.append(time.process_time())
            return {"values": functions(*parts(z))}

        return expand

    count = len(functions(*parts(space.start)))
    model = from_pyfunc(
        space.dimension,
        make_log_density,
        make_expand,
        [np.dtype("float64")],
        [(count,)],
        ["values"],
        make_initial_point_fn=lambda _: space.start,
    )
    started = time.process_time()
    trace = nutpie.sample(
        model,
        draws=draws,
        tune=warmup,
        chains=1,
        cores=1,
        seed=space.seed,
        progress_bar=False,
        save_warmup=False,
    )
    warm = finished[warmup - 1]
    return Chain(
        np.asarray(trace.posterior["values"])[0],
        warmup,
        warm - started,
        finished[-1] - warm,
        float(trace.sample_stats["n_steps"].mean()),
        int(trace.sample_stats["diverging"].sum()),
    )
