"""Hamiltonian Monte Carlo over the weights of a network of depth two: what one does without the scale.

Independent chains side by side, each started from a draw of the prior; the step size is tuned during the
first half, which is dropped.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array
from lbnn.paper.routes.problem import Problem

LEAPFROG_STEPS = 12
ACCEPTANCE = 0.8


@dataclass(frozen=True)
class WeightRun:
    """Draws of L = W_2 W_2ᵀ, (iterations, chains, n_d, n_d), and the seconds of the whole run."""

    scales: Array
    seconds: float

    @property
    def chain_means(self) -> Array:
        """Average of every chain, (chains, n_d, n_d): independent replicates."""
        return np.asarray(self.scales.mean(axis=0), np.float64)

    @property
    def effective_draws(self) -> float:
        """Draws of L worth as much as the run: chains × Var L / Var(chain mean), median of the entries."""
        within = self.scales.var(axis=(0, 1))
        between = self.chain_means.var(axis=0, ddof=1)
        return float(np.median(within / between) * self.scales.shape[1])


def sample(
    problem: Problem, width: int, beta: float, iterations: int, chains: int, rng: np.random.Generator
) -> WeightRun:
    """Draw from the posterior of (W_1, W_2)."""
    started = time.perf_counter()
    inputs, outputs = problem.X.shape[1], problem.Y.shape[1]
    first = rng.standard_normal((chains, width, inputs)) / math.sqrt(inputs)
    second = rng.standard_normal((chains, outputs, width)) / math.sqrt(width)
    target, step, scales = _Target(problem, width, beta), 0.1, []
    state = first, second
    for iteration in range(2 * iterations):
        state, accepted = _move(target, state, step * rng.uniform(0.8, 1.2), rng)
        if iteration < iterations:
            step *= math.exp((accepted - ACCEPTANCE) / math.sqrt(iteration + 1))
        else:
            scales.append(state[1] @ state[1].swapaxes(1, 2))
    return WeightRun(np.array(scales), time.perf_counter() - started)


State = tuple[Array, Array]


@dataclass(frozen=True)
class _Target:
    problem: Problem
    width: int
    beta: float

    def value_and_gradient(self, state: State) -> tuple[Array, State]:
        """Log posterior (chains,) of prior (2) and likelihood (3), and its gradient."""
        first, second = state
        X, inputs = self.problem.X, self.problem.X.shape[1]
        hidden = X @ first.swapaxes(1, 2)
        residual = hidden @ second.swapaxes(1, 2) - self.problem.Y
        value = -0.5 * (
            self.beta * (residual**2).sum((1, 2))
            + inputs * (first**2).sum((1, 2))
            + self.width * (second**2).sum((1, 2))
        )
        of_first = -self.beta * second.swapaxes(1, 2) @ (residual.swapaxes(1, 2) @ X) - inputs * first
        of_second = -self.beta * residual.swapaxes(1, 2) @ hidden - self.width * second
        return value, (of_first, of_second)


def _move(target: _Target, state: State, step: float, rng: np.random.Generator) -> tuple[State, float]:
    """One trajectory of every chain; masses are the prior's precisions, so that the prior is isotropic."""
    masses = target.problem.X.shape[1], target.width
    momenta = [math.sqrt(m) * rng.standard_normal(w.shape) for m, w in zip(masses, state, strict=True)]
    value, gradient = target.value_and_gradient(state)
    start = value - _kinetic(momenta, masses)
    moved = list(state)
    for _ in range(LEAPFROG_STEPS):
        for part in range(2):
            momenta[part] = momenta[part] + 0.5 * step * gradient[part]
            moved[part] = moved[part] + step * momenta[part] / masses[part]
        value, gradient = target.value_and_gradient((moved[0], moved[1]))
        momenta = [p + 0.5 * step * g for p, g in zip(momenta, gradient, strict=True)]
    chance = np.exp(np.minimum(value - _kinetic(momenta, masses) - start, 0.0))
    accepted = rng.uniform(size=len(chance)) < chance
    kept = [np.where(accepted[:, None, None], new, old) for new, old in zip(moved, state, strict=True)]
    return (kept[0], kept[1]), float(chance.mean())


def _kinetic(momenta: list[Array], masses: tuple[int, int]) -> Array:
    energies = [0.5 * (p**2).sum((1, 2)) / m for p, m in zip(momenta, masses, strict=True)]
    return np.asarray(energies[0] + energies[1], np.float64)
