"""Annealing from the prior in the space of weights W_d … W_2: a witness that shares nothing with the others.

It knows neither Bartlett factors nor eigenbases of L: L = A Aᵀ, A = W_d ⋯ W_2 with Gaussian weights. Islands
of particles go from the prior to the posterior by tempered likelihoods, with resampling inside each island
and Hamiltonian moves; their spread is the error. Where a phase gets its mass only at the end (a transition of
the first order), the estimate comes out low. Hence more ways: first with a prior that is widened towards the
strongest `fitted` directions of the data, so that they are easily fitted, and then with the data kept and the
prior narrowed again. Each way follows one phase and is low where others carry the mass: the highest counts.
`xp` is numpy, or cupy for many particles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ISLANDS, LEAPS, KEPT = 16, 8, 0.8


@dataclass(frozen=True)
class Annealed:
    """Log evidence with its error over islands, E L with errors, and the number of temperatures."""

    log_evidence: float
    error: float
    scale_mean: np.ndarray
    scale_error: np.ndarray
    temperatures: int


class WeightModel:
    """Log likelihood of A and its gradient, from data rotated by the eigenvectors of G."""

    def __init__(
        self,
        widths: Sequence[int],
        variances: Sequence[float],
        beta: float,
        X: Any,
        Y: Any,
        *,
        fitted: int = 0,
        xp: Any = np,
    ) -> None:
        values, vectors = np.linalg.eigh(X @ X.T * (variances[0] / X.shape[1]))
        rank, (p, n) = min(X.shape), Y.shape
        self.axes = np.linalg.svd(vectors[:, -rank:].T @ Y, full_matrices=True)[2].T
        targets = vectors.T @ Y @ self.axes
        rest = np.sum(targets[:-rank] ** 2) * beta - (p - rank) * n * math.log(beta)
        self.constant = -0.5 * (p * n * math.log(2 * math.pi) + rest)
        self.xp, self.noise = xp, 1 / beta
        self.values, self.targets = xp.asarray(np.maximum(values[-rank:], 0.0)), xp.asarray(targets[-rank:])
        sizes = [*widths, n]
        self.shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
        log_excess = _log_excess(variances, np.mean(self._strengths()[:fitted])) if fitted else 0.0
        self.excess = [xp.full((rows, 1), log_excess) for rows, _ in self.shapes]
        self.excess[-1][fitted:] -= len(widths) * log_excess
        plain = [math.sqrt(v / w) for v, w in zip(variances[1:], widths, strict=True)]
        self.deviations = [s * xp.exp(e) for s, e in zip(plain, self.excess, strict=True)]

    def _strengths(self) -> np.ndarray:
        """Mean square of the targets over the eigenvalue, for each axis."""
        values = np.asarray(self.values.tolist())
        ratios = np.asarray(self.targets.tolist()) ** 2 / np.maximum(values, 1e-3 * values.max())[:, None]
        return np.maximum(ratios.mean(0), 1e-12)

    def product(self, weights: list[Any]) -> Any:
        A = self.deviations[0] * weights[0]
        for deviation, W in zip(self.deviations[1:], weights[1:], strict=True):
            A = deviation * (W @ A)
        return A

    def log_likelihood(self, A: Any, gradient: bool) -> tuple[Any, Any]:
        """Log density of Y given A, and its gradient in L."""
        L = A @ A.swapaxes(-1, -2)
        M = self.values[:, None, None] * L[:, None] + self.noise * self.xp.eye(L.shape[-1])
        inverse, log_determinant = swept(M, self.xp)
        solved = self.xp.sum(inverse * self.targets[:, None, :], -1)
        square = self.xp.sum(solved * self.targets, -1)
        value = self.constant - 0.5 * self.xp.sum(log_determinant + square, -1)
        if not gradient:
            return value, None
        outer = solved[..., :, None] * solved[..., None, :] - inverse
        return value, 0.5 * self.xp.sum(self.values[:, None, None] * outer, 1)

    def with_gradient(self, weights: list[Any]) -> tuple[Any, list[Any]]:
        """Log likelihood and its gradient in the standard normal weights."""
        right = [None]
        for deviation, W in zip(self.deviations, weights, strict=True):
            right.append(deviation * (W if right[-1] is None else W @ right[-1]))
        value, slope = self.log_likelihood(right[-1], True)
        left, gradients = 2 * (slope @ right[-1]), []
        left = left.swapaxes(-1, -2)  # gradient in A, transposed: (n_1, n_d)
        for layer in range(len(weights) - 1, -1, -1):
            inner = left if right[layer] is None else right[layer] @ left
            gradients.append(self.deviations[layer] * inner.swapaxes(-1, -2))
            left = left @ (self.deviations[layer] * weights[layer])
        return value, gradients[::-1]


def _log_excess(variances: Sequence[float], strength: float) -> float:
    """By how much, in logs, each layer must be widened so that the prior reaches the strength."""
    return max(0.0, 0.5 * (math.log(strength) - float(np.sum(np.log(variances[1:])))) / (len(variances) - 1))


def swept(M: Any, xp: Any) -> tuple[Any, Any]:
    """Inverses and log determinants of positive definite matrices, by sweeping one pivot after the other."""
    M, log_determinant = M.copy(), 0.0
    for k in range(M.shape[-1]):
        pivot = M[..., k, k].copy()
        row = M[..., k, :] / pivot[..., None]
        row[..., k] = 0.0
        M -= M[..., :, k, None] * row[..., None, :]
        M[..., k, :] = row
        M[..., :, k] = -M[..., :, k] / pivot[..., None]
        M[..., k, k] = 1 / pivot
        log_determinant = log_determinant + xp.log(pivot)
    return M, log_determinant


class Annealer:
    """Islands × particles that share one ladder of temperatures and one step size."""

    def __init__(self, model: WeightModel, particles: int, seed: int, moves: int = 2) -> None:
        self.model, self.xp, self.particles, self.moves = model, model.xp, particles, moves
        self.rng = self.xp.random.default_rng(seed)
        total = ISLANDS * particles
        self.weights = [self.rng.standard_normal((total, *shape)) for shape in model.shapes]
        self.values = model.log_likelihood(model.product(self.weights), False)[0]
        self.temperature, self.step, self.ladder = 0.0, 0.3, 0
        self.log_evidence = np.zeros(ISLANDS)

    def run(self) -> Annealed:
        """Go all the way; points that lose their digits are refused without a word."""
        with np.errstate(all="ignore"):
            return self._run()

    def _run(self) -> Annealed:
        while self.temperature < 1:
            increment = self._largest(lambda amount: amount * self.values, 1 - self.temperature)
            self._resample(increment * self.values)
            self.temperature += increment
            self._mix()
        left = 1.0 if float(abs(self.model.excess[0]).max()) > 0 else 0.0
        while left > 1e-9:
            left -= self._narrow(left)
            self._mix()
        return self._result()

    def _mix(self) -> None:
        self.ladder += 1
        for _ in range(self.moves):
            self._move()

    def _narrow(self, most: float) -> float:
        """Take a share of the excess from the prior's deviations; weights stay, but their units change."""
        energies = [0.5 * self.xp.sum(W**2, 2) for W in self.weights]
        groups = list(zip(energies, self.weights, self.model.excess, strict=True))

        def logs(share: float) -> Any:
            steps = [share * excess[:, 0] for *_, excess in groups]
            terms = [
                self.xp.sum(W.shape[2] * step - self.xp.expm1(2 * step) * energy, 1)
                for (energy, W, _), step in zip(groups, steps, strict=True)
            ]
            return sum(terms)

        share = self._largest(logs, most)
        self._resample(logs(share))
        factors = [self.xp.exp(share * excess) for excess in self.model.excess]
        self.weights = [factor * W for factor, W in zip(factors, self.weights, strict=True)]
        self.model.deviations = [s / factor for s, factor in zip(self.model.deviations, factors, strict=True)]
        return share

    def _resample(self, logs: Any) -> None:
        """Count the increments in the evidence and resample within the islands."""
        logs = logs.reshape(ISLANDS, -1)
        top = logs.max(1, keepdims=True)
        raised = self.xp.exp(logs - top)
        self.log_evidence += self._numpy(top[:, 0] + self.xp.log(raised.mean(1)))
        levels = self.xp.cumsum(raised, 1) / raised.sum(1, keepdims=True) + self.xp.arange(ISLANDS)[:, None]
        points = (self.xp.arange(self.particles) + self.rng.random((ISLANDS, 1))) / self.particles
        chosen = self.xp.searchsorted(levels.ravel(), (points + self.xp.arange(ISLANDS)[:, None]).ravel())
        chosen = self.xp.minimum(chosen, len(self.values) - 1)
        self.weights, self.values = [W[chosen] for W in self.weights], self.values[chosen]

    def _largest(self, logs: Callable[[float], Any], most: float) -> float:
        """The largest amount up to `most` at which a share KEPT of the particles is effective."""
        low, high = 0.0, most
        if self._effective(logs(high)) > KEPT:
            return most
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if self._effective(logs(middle)) > KEPT else (low, middle)
        return high

    def _effective(self, logs: Any) -> float:
        raised = self.xp.exp(logs - logs.max())
        return float(raised.sum() ** 2 / (raised**2).sum() / raised.size)

    def _move(self) -> None:
        """One Hamiltonian move of every particle with a jittered step; then adapt the step."""
        start = [self.rng.standard_normal(W.shape) for W in self.weights]
        step = self.step * (0.7 + 0.6 * self.rng.random((len(self.values), 1, 1)))
        weights, momenta, value = self._leapfrog(self.weights, start, step)
        before = self.temperature * self.values - self._energy(self.weights) - self._energy(start)
        after = self.temperature * value - self._energy(weights) - self._energy(momenta)
        chance = self.xp.exp(self.xp.minimum(self.xp.nan_to_num(after - before, nan=-np.inf), 0.0))
        accepted = self.rng.random(len(chance)) < chance
        self.values = self.xp.where(accepted, value, self.values)
        pairs = zip(weights, self.weights, strict=True)
        self.weights = [self.xp.where(accepted[:, None, None], new, old) for new, old in pairs]
        self.step = min(1.0, self.step * math.exp(0.8 * (float(chance.mean()) - 0.75)))

    def _leapfrog(
        self, weights: list[Any], momenta: list[Any], step: Any
    ) -> tuple[list[Any], list[Any], Any]:
        """Splitting with the exact rotation of the Gaussian prior, kicks by the tempered likelihood."""
        cosine, sine = self.xp.cos(step), self.xp.sin(step)
        value, gradients = self.model.with_gradient(weights)
        for _ in range(LEAPS):
            half = 0.5 * step * self.temperature
            momenta = [m + half * g for m, g in zip(momenta, gradients, strict=True)]
            pairs = list(zip(weights, momenta, strict=True))
            weights = [cosine * w + sine * m for w, m in pairs]
            momenta = [cosine * m - sine * w for w, m in pairs]
            value, gradients = self.model.with_gradient(weights)
            momenta = [m + half * g for m, g in zip(momenta, gradients, strict=True)]
        return weights, momenta, value

    def _energy(self, arrays: list[Any]) -> Any:
        return 0.5 * sum(self.xp.sum(a**2, (1, 2)) for a in arrays)

    def _numpy(self, array: Any) -> np.ndarray:
        return array if self.xp is np else self.xp.asnumpy(array)

    def _result(self) -> Annealed:
        A = self.model.product(self.weights)
        L = self._numpy(A @ A.swapaxes(-1, -2))
        islands = L.reshape(ISLANDS, -1, *L.shape[1:]).mean(1)
        share = np.exp(self.log_evidence - self.log_evidence.max())
        error = share.std(ddof=1) / share.mean() / math.sqrt(ISLANDS)
        islands = self.model.axes @ islands @ self.model.axes.T
        mean = np.tensordot(share / share.sum(), islands, 1)
        spread = np.sqrt(np.tensordot((share / share.sum()) ** 2, (islands - mean) ** 2, 1))
        value = float(self.log_evidence.max() + math.log(share.mean()))
        return Annealed(value, float(error), mean, spread * math.sqrt(ISLANDS / (ISLANDS - 1)), self.ladder)
