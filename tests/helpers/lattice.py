"""Several outputs by brute force; above all two outputs, by a lattice over the Cholesky factor of L.

With one hidden layer the prior is Wishart, L = C Cᵀ with C_11² ~ σ² χ²(n)/n, C_22² ~ σ² χ²(n − 1)/n and
C_21 ~ N(0, σ²/n). The integral over (log C_11, log C_22, C_21) is taken with the trapezoid rule, which
converges geometrically. Shares no code with the library; two-by-two matrices are inverted by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from tests.helpers.problems import Array, Problem
from tests.referees import weight_space

_NEGLIGIBLE = 25.0  # nats below the peak at which the integrand is cut off: 1e-11


@dataclass(frozen=True)
class TwoOutputLattice:
    """Posterior of L (2, 2) at depth two, as a lattice of weighted nodes; β = inf is zero temperature."""

    data: Problem
    width: int
    beta: float
    variance: float = 1.0
    nodes: int = 90  # per axis
    noises: tuple[float, ...] | None = None  # one per example, instead of 1/β for all: dense algebra

    @property
    def log_evidence(self) -> float:
        """Log ∫ dϖ p(Y | L)."""
        return self._lattice[0]

    @property
    def scales(self) -> Array:
        """L of the nodes that count, (m, 2, 2)."""
        return self._lattice[1]

    @property
    def weights(self) -> Array:
        """Their posterior weights, (m,)."""
        return self._lattice[2]

    @property
    def mean(self) -> Array:
        """E L."""
        return np.tensordot(self.weights, self.scales, axes=1)

    @cached_property
    def predictive(self) -> tuple[Array, Array]:
        """Mean (p̂, 2) and covariance (p̂, 2, p̂, 2) at the test points: the law of total covariance."""
        noise = 0.0 if math.isinf(self.beta) else 1 / self.beta
        values, vectors = np.linalg.eigh(self.data.gram)
        features, targets = self.data.cross.T @ vectors, vectors.T @ self.data.columns
        means = np.zeros((len(self.scales), len(features), 2))
        covariance = np.einsum("mn,jk->mjnk", self.data.test_gram, self.mean)
        for g, a, y in zip(values, features.T, targets, strict=True):
            gain = self.scales @ np.linalg.inv(g * self.scales + noise * np.eye(2))
            means += a[:, None] * (gain @ y)[:, None, :]
            explained = np.einsum("s,sjk->jk", self.weights, gain @ self.scales)
            covariance -= np.einsum("m,n,jk->mjnk", a, a, explained)
        mean = np.tensordot(self.weights, means, axes=1)
        spread = means - mean
        return mean, covariance + np.einsum("s,smj,snk->mjnk", self.weights, spread, spread)

    @cached_property
    def _lattice(self) -> tuple[float, Array, Array]:
        lowest = -30.0 if self.noises is None else -10.0  # singular to dense algebra below
        box = self._support(np.array([[lowest, 3.0], [lowest, 3.0], [-12.0, 12.0]]))
        box = self._support(box)
        log_terms, axes, cell = self._integrand(box, self.nodes)
        log_evidence = float(special.logsumexp(log_terms)) + math.log(cell)
        keep = np.nonzero(log_terms > log_terms.max() - _NEGLIGIBLE)
        scales = _scale(*(axis[index] for axis, index in zip(axes, keep, strict=True)))
        log_weights = log_terms[keep]
        return log_evidence, scales, np.exp(log_weights - special.logsumexp(log_weights))

    def _support(self, box: Array) -> Array:
        """The part of the box where the integrand counts, from a coarse look with a margin of one cell."""
        log_terms, axes, _ = self._integrand(box, 61)
        counts = np.nonzero(log_terms > log_terms.max() - _NEGLIGIBLE)
        ends = [
            (axis[max(i.min() - 1, 0)], axis[min(i.max() + 1, 60)])
            for axis, i in zip(axes, counts, strict=True)
        ]
        return np.array(ends)

    def _integrand(self, box: Array, nodes: int) -> tuple[Array, list[Array], float]:
        """Log prior + log likelihood on the lattice, its axes, and the volume of a cell."""
        axes = [np.linspace(low, high, nodes) for low, high in box]
        first, second, below = np.meshgrid(*axes, indexing="ij", sparse=True)
        n, unit = self.width, self.variance / self.width
        log_prior = _log_density_of_log_chi(first - 0.5 * math.log(unit), n)
        log_prior = log_prior + _log_density_of_log_chi(second - 0.5 * math.log(unit), n - 1)
        log_prior = log_prior - 0.5 * (below**2 / unit + math.log(2 * math.pi * unit))
        cell = math.prod(float(axis[1] - axis[0]) for axis in axes)
        return log_prior + self._log_likelihood(first, second, below), axes, cell

    def _log_likelihood(self, first: Array, second: Array, below: Array) -> Array:
        """Σ_i log N(ỹ_i; 0, g_i L + I/β) over the eigenvectors of G."""
        if self.noises is not None:
            return self._dense_log_likelihood(first, second, below)
        noise = 0.0 if math.isinf(self.beta) else 1 / self.beta
        values, vectors = np.linalg.eigh(self.data.gram)
        a, b, c = np.exp(2 * first), np.exp(first) * below, below**2 + np.exp(2 * second)
        shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
        total = np.full(shape, -len(values) * math.log(2 * math.pi))
        for g, (y, z) in zip(values, vectors.T @ self.data.columns, strict=True):
            determinant = g * g * a * np.exp(2 * second) + noise * (g * (a + c) + noise)
            quadratic = y * y * (g * c + noise) - 2 * y * z * g * b + z * z * (g * a + noise)
            total -= 0.5 * (np.log(determinant) + quadratic / determinant)
        return total

    def _dense_log_likelihood(self, first: Array, second: Array, below: Array) -> Array:
        """Log N(v(Y); 0, G ⊗ L + noises ⊗ I), with one factorisation for every node."""
        assert self.noises is not None
        coordinates = [axis.ravel() for axis in np.broadcast_arrays(first, second, below)]
        scales, result = _scale(*coordinates), np.empty(len(coordinates[0]))
        y, diagonal = self.data.columns.ravel(), np.diag(np.repeat(self.noises, 2))
        for start in range(0, len(result), 20_000):
            block = slice(start, start + 20_000)
            covariance = _kron(self.data.gram, scales[block]) + diagonal
            quadratic = np.linalg.solve(covariance, np.broadcast_to(y[:, None], (len(covariance), len(y), 1)))
            log_det = np.linalg.slogdet(covariance)[1]
            result[block] = -0.5 * (quadratic[..., 0] @ y + log_det + len(y) * math.log(2 * math.pi))
        return result.reshape(np.broadcast_shapes(first.shape, second.shape, below.shape))


def _log_density_of_log_chi(u: Array, degrees: int) -> Array:
    """Log density of log χ_k at u: k u − e^{2u}/2 + constant."""
    constant = (1 - degrees / 2) * math.log(2) - float(special.gammaln(degrees / 2))
    return degrees * u - np.exp(2 * u) / 2 + constant


def _scale(first: Array, second: Array, below: Array) -> Array:
    """C Cᵀ, (m, 2, 2)."""
    a, b = np.exp(2 * first), np.exp(first) * below
    return np.stack([a, b, b, below**2 + np.exp(2 * second)], axis=-1).reshape(-1, 2, 2)


# ---------------------------------------------------------------- dense mixtures over given atoms


class AtomMixture:
    """The predictive of several outputs over given atoms, with one dense Gaussian for every atom."""

    def __init__(self, data: Problem, beta: float, atoms: Array, weights: Array) -> None:
        noise = 0.0 if math.isinf(beta) else 1 / beta
        cross, test = _kron(data.cross.T, atoms), _kron(data.test_gram, atoms)
        noisy = _kron(data.gram, atoms) + noise * np.eye(data.columns.size)
        gain = np.linalg.solve(noisy, cross.swapaxes(1, 2)).swapaxes(1, 2)
        self.weights, self.shape = weights, (len(data.X_test), data.columns.shape[1])
        self.means, self.covariances = gain @ data.columns.ravel(), test - gain @ cross.swapaxes(1, 2)

    def log_density(self, F: Array, noise: float = 0.0) -> float:
        """Log Σ_s w_s N(v(F); μ_s, Σ_s + noise)."""
        covariances = self.covariances + noise * np.eye(F.size)
        rest = F.ravel() - self.means
        quadratic = np.einsum("si,si->s", rest, np.linalg.solve(covariances, rest[..., None])[..., 0])
        log_terms = -0.5 * (quadratic + np.linalg.slogdet(covariances)[1] + F.size * math.log(2 * math.pi))
        return float(special.logsumexp(log_terms, b=self.weights))

    def moments(self) -> tuple[Array, Array]:
        """Mean (p̂, n_d) and covariance (p̂, n_d, p̂, n_d)."""
        mean = self.weights @ self.means
        covariance = np.tensordot(self.weights, self.covariances, axes=1)
        covariance = covariance + (self.means - mean).T @ (self.weights[:, None] * (self.means - mean))
        return mean.reshape(self.shape), covariance.reshape(*self.shape, *self.shape)

    def log_generating_function(self, J: Array) -> float:
        """Log Σ_s w_s exp(Jᵀμ_s + ½ JᵀΣ_s J)."""
        linear, quadratic = self._exponents(J)
        return float(special.logsumexp(linear + 0.5 * quadratic, b=self.weights))

    def characteristic(self, J: Array) -> complex:
        """Σ_s w_s exp(i Jᵀμ_s − ½ JᵀΣ_s J)."""
        linear, quadratic = self._exponents(J)
        return complex(np.sum(self.weights * np.exp(1j * linear - 0.5 * quadratic)))

    def distribution(self, q: float, point: int, output: int, noise: float = 0.0) -> float:
        """P(F_{point, output} ≤ q)."""
        index = point * self.shape[1] + output
        means, variances = self.means[:, index], self.covariances[:, index, index]
        return float(self.weights @ special.ndtr((q - means) / np.sqrt(variances + noise)))

    def _exponents(self, J: Array) -> tuple[Array, Array]:
        source = J.ravel()
        return self.means @ source, np.einsum("i,sij,j->s", source, self.covariances, source)


def _kron(left: Array, scales: Array) -> Array:
    """A ⊗ L_s for every atom, (m, rows, columns)."""
    blocks = np.einsum("mn,sjk->smjnk", left, scales)
    return blocks.reshape(len(scales), left.shape[0] * scales.shape[1], left.shape[1] * scales.shape[2])


def combined(first: Array | float, second: Array | float) -> Array:
    """Standard error of a difference of independent estimates."""
    return np.hypot(first, second)


# ---------------------------------------------------------------- Gibbs chains


def gibbs_functionals(
    data: Problem,
    widths: Sequence[int],
    beta: float,
    functional: Callable[[list[Array]], Array],
    *,
    seed: int,
    chains: int = 300,
    sweeps: int = 300,
    burn_in: int = 50,
    prior_variances: Sequence[float] | None = None,
) -> tuple[Array, Array]:
    """Posterior mean of functional(weights), (chains, k) per sweep, and its standard error, each (k,)."""
    rng = np.random.default_rng(seed)
    layers = weight_space.describe_layers(data.X.shape[1], widths, data.columns.shape[1], prior_variances)
    weights = weight_space.draw_prior(layers, chains, rng)
    total = np.zeros((1, 1))
    for step in range(-burn_in, sweeps):
        weight_space.gibbs_sweep(weights, data.X, data.columns, beta, layers, rng)
        if step >= 0:
            total = total + functional(weights)
    return weight_space.chain_mean_and_error(total[:, None] / sweeps)


def layer_kernels(X: Array, weights: list[Array]) -> list[Array]:
    """K_ℓ = X W_1ᵀ⋯W_ℓᵀ W_ℓ⋯W_1 Xᵀ / n_ℓ of every hidden layer, each (draws, p, p)."""
    kernels = []
    for number in range(1, len(weights)):
        features = weight_space.network_outputs(X, weights[:number])
        kernels.append(features @ features.swapaxes(1, 2) / features.shape[2])
    return kernels


def flatten(*arrays: Array) -> Array:
    """Arrays (draws, ...) side by side, (draws, k)."""
    return np.concatenate([a.reshape(len(a), -1) for a in arrays], axis=1)


def weight_functional(data: Problem) -> Callable[[list[Array]], Array]:
    """F̂, F̂F̂ᵀ, K_1..K_{d−1}, L, L² and ‖W_ℓ‖², side by side."""

    def functional(weights: list[Array]) -> Array:
        F = weight_space.network_outputs(data.X_test, weights).reshape(len(weights[0]), -1)
        L = weight_space.scale_matrix(weights)
        norms = [np.sum(W**2, axis=(1, 2)) for W in weights]
        return flatten(F, F[:, :, None] * F[:, None, :], *layer_kernels(data.X, weights), L, L @ L, *norms)

    return functional
