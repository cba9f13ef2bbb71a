"""Plain Hamiltonian Monte Carlo on the weights of a task, with what may be wrong about it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lbnn.benchmark.task import Task

Kernel = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def hamiltonian(
    task: Task,
    step: float = 0.15,
    leaps: int = 10,
    *,
    prior_precision: float = 1.0,
    noise_precision: float = 1.0,
    accept: bool = True,
) -> Kernel:
    """Hamiltonian Monte Carlo on all chains at once, with what may be wrong about it."""

    def energy(z: np.ndarray) -> np.ndarray:
        return -prior_precision * task.log_prior(z) - noise_precision * task.log_likelihood(z)

    def slope(z: np.ndarray) -> np.ndarray:
        return noise_precision * (-task.gradient(z) - z) + prior_precision * z

    def kernel(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        start = momentum = rng.standard_normal(z.shape)
        new, length = z, step * rng.uniform(0.8, 1.2)
        with np.errstate(over="ignore", invalid="ignore"):  # of trajectories that diverge and are refused
            for _ in range(leaps):
                momentum = momentum - 0.5 * length * slope(new)
                new = new + length * momentum
                momentum = momentum - 0.5 * length * slope(new)
            lost = energy(new) - energy(z) + 0.5 * ((momentum**2).sum(1) - (start**2).sum(1))
            diverged = ~(lost < 1_000)  # refused even where there is no accept step, as a user would
            take = ~diverged & ((np.log(rng.random(len(z))) < -lost) | (not accept))
        return np.where(take[:, None], new, z)

    return kernel


def chains_from(task: Task, kernel: Kernel, start: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Every state of chains from the start on, (chains, draws, dimension): no warm-up."""
    rng, z, kept = np.random.default_rng(seed), start, []
    for _ in range(draws):
        z = kernel(z, rng)
        kept.append(z)
    return np.stack(kept, axis=1)
