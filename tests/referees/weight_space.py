"""Weight-space Monte Carlo for deep linear networks; it knows nothing of scale mixtures.

Prior: entries of W_l are N(0, sigma_l^2 / n_{l-1}). Likelihood: exp(-beta/2 ||X W_1^T ... W_d^T - Y||^2).
All chains advance together: weights are arrays (chains, n_l, n_{l-1}).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class WeightSpaceDraws:
    """Draws shaped (chains, kept, ...) of the functionals that the theory speaks about."""

    predictions: Array
    """F_test, (chains, kept, p_test, n_d)."""
    kernel: Array
    """X W_1^T W_1 X^T / n_1, (chains, kept, p, p)."""
    scale: Array
    """W_d ... W_2 W_2^T ... W_d^T, (chains, kept, n_d, n_d)."""
    squared_norms: Array
    """||W_l||^2, (chains, kept, d)."""


@dataclass(frozen=True)
class WeightedEstimate:
    """Self-normalised importance-sampling means with delta-method standard errors."""

    predictions: Array
    predictions_error: Array
    kernel: Array
    kernel_error: Array
    scale: Array
    scale_error: Array
    log_evidence: float
    """log of E_prior N(Y; F, I / beta), with the Gaussian's normalisation."""
    log_evidence_error: float
    effective_sample_size: float


@dataclass(frozen=True)
class _Layers:
    """Layer sizes n_0..n_d and the prior precision n_{l-1} / sigma_l^2 of every layer."""

    sizes: tuple[int, ...]
    precisions: tuple[float, ...]

    @property
    def depth(self) -> int:
        return len(self.precisions)


def describe_layers(
    inputs: int, widths: Sequence[int], outputs: int, prior_variances: Sequence[float] | None = None
) -> _Layers:
    """Collect sizes and prior precisions of the network."""
    sizes = (inputs, *widths, outputs)
    variances = [1.0] * (len(sizes) - 1) if prior_variances is None else list(prior_variances)
    precisions = tuple(fan_in / variance for fan_in, variance in zip(sizes[:-1], variances, strict=True))
    return _Layers(sizes, precisions)


def draw_prior(layers: _Layers, chains: int, rng: np.random.Generator) -> list[Array]:
    """Independent prior weights, one set per chain."""
    return [
        rng.standard_normal((chains, layers.sizes[i + 1], layers.sizes[i])) / math.sqrt(layers.precisions[i])
        for i in range(layers.depth)
    ]


def transpose(matrices: Array) -> Array:
    """Swap the last two axes."""
    return np.swapaxes(matrices, -1, -2)


def network_outputs(X: Array, weights: Sequence[Array]) -> Array:
    """F = X W_1^T ... W_d^T for every chain."""
    features = X
    for W in weights:
        features = features @ transpose(W)
    return features


def feature_kernel(X: Array, weights: Sequence[Array]) -> Array:
    """K = X W_1^T W_1 X^T / n_1 for every chain."""
    features = X @ transpose(weights[0])
    return features @ transpose(features) / weights[0].shape[-2]


def scale_matrix(weights: Sequence[Array]) -> Array:
    """L = W_d ... W_2 W_2^T ... W_d^T for every chain; the identity at depth one."""
    chains, outputs = weights[0].shape[0], weights[-1].shape[-2]
    product = np.broadcast_to(np.eye(outputs), (chains, outputs, outputs))
    for W in reversed(weights[1:]):
        product = product @ W
    return product @ transpose(product)


# ---------------------------------------------------------------- block Gibbs


def sample_posterior(
    X: Array,
    Y: Array,
    widths: Sequence[int],
    beta: float,
    *,
    chains: int,
    sweeps: int,
    burn_in: int,
    seed: int,
    prior_variances: Sequence[float] | None = None,
    X_test: Array,
    rescale: bool = True,
) -> WeightSpaceDraws:
    """Run independent Gibbs chains from prior draws; keep every one of `sweeps` sweeps after `burn_in`."""
    rng = np.random.default_rng(seed)
    layers = describe_layers(X.shape[1], widths, Y.shape[1], prior_variances)
    weights = draw_prior(layers, chains, rng)
    p, p_test, outputs = X.shape[0], X_test.shape[0], Y.shape[1]
    draws = WeightSpaceDraws(
        predictions=np.empty((chains, sweeps, p_test, outputs)),
        kernel=np.empty((chains, sweeps, p, p)),
        scale=np.empty((chains, sweeps, outputs, outputs)),
        squared_norms=np.empty((chains, sweeps, layers.depth)),
    )
    for step in range(-burn_in, sweeps):
        gibbs_sweep(weights, X, Y, beta, layers, rng, rescale=rescale)
        if step >= 0:
            draws.predictions[:, step] = network_outputs(X_test, weights)
            draws.kernel[:, step] = feature_kernel(X, weights)
            draws.scale[:, step] = scale_matrix(weights)
            draws.squared_norms[:, step] = np.stack([np.sum(W**2, axis=(1, 2)) for W in weights], axis=1)
    return draws


def gibbs_sweep(
    weights: list[Array],
    X: Array,
    Y: Array,
    beta: float,
    layers: _Layers,
    rng: np.random.Generator,
    *,
    rescale: bool = True,
) -> None:
    """Redraw every layer given the others, then rescale adjacent layers; in place.

    `Y` may be (p, n_d), shared, or (chains, p, n_d), one data set per chain.
    """
    outputs = layers.sizes[-1]
    for i in range(layers.depth):
        below = network_outputs(X, weights[:i])
        above = np.eye(outputs)
        for W in reversed(weights[i + 1 :]):
            above = above @ W
        weights[i] = draw_layer(below, above, Y, beta, layers.precisions[i], weights[i].shape, rng)
    if rescale:
        for i in range(layers.depth - 1):
            rescale_units(weights, i, layers.precisions, rng)


def draw_layer(
    below: Array,
    above: Array,
    Y: Array,
    beta: float,
    precision: float,
    shape: tuple[int, ...],
    rng: np.random.Generator,
) -> Array:
    """Draw W from its Gaussian conditional in F = A W^T B^T, with A = `below` and B = `above`.

    Row-major v(W^T) has precision beta (A^T A) kron (B^T B) + tau I and linear term beta v(A^T Y B);
    in the eigenbases of A^T A and B^T B it is diagonal.
    """
    chains, units, fan_in = shape
    below_values, below_basis = np.linalg.eigh(transpose(below) @ below)
    above_values, above_basis = np.linalg.eigh(transpose(above) @ above)
    precisions = precision + beta * np.maximum(below_values[..., :, None] * above_values[..., None, :], 0.0)
    linear = beta * transpose(below @ below_basis) @ Y @ (above @ above_basis)
    noise = rng.standard_normal((chains, fan_in, units))
    rotated = linear / precisions + noise / np.sqrt(precisions)
    return above_basis @ transpose(rotated) @ transpose(below_basis)


def rescale_units(
    weights: list[Array], lower: int, precisions: Sequence[float], rng: np.random.Generator
) -> None:
    """Scale every hidden unit's incoming weights by c and its outgoing weights by 1/c; in place.

    The likelihood is unchanged. With i incoming and o outgoing weights the map has Jacobian c^(i-o), so
    under the group's invariant measure dc/c the conditional density of t = log(c) is
    exp((i - o) t - (a e^{2t} + b e^{-2t}) / 2), a and b being precision times squared norm of the incoming
    and of the outgoing weights. Its mode moves with the orbit (a shift of t) and its curvature there depends
    on a b only, which is invariant: a Student-t proposal about the mode is an independence Metropolis move.
    """
    incoming, outgoing = weights[lower], weights[lower + 1]
    a = precisions[lower] * np.sum(incoming**2, axis=2)
    b = precisions[lower + 1] * np.sum(outgoing**2, axis=1)
    excess = incoming.shape[2] - outgoing.shape[1]
    log_scale = propose_log_scale(a, b, excess, rng)
    weights[lower] = incoming * np.exp(log_scale)[:, :, None]
    weights[lower + 1] = outgoing * np.exp(-log_scale)[:, None, :]


def propose_log_scale(a: Array, b: Array, excess: int, rng: np.random.Generator) -> Array:
    """Take one Metropolis step from t = 0 for exp(excess t - (a e^{2t} + b e^{-2t}) / 2), elementwise."""
    degrees = 4.0
    discriminant = np.sqrt(excess**2 + 4 * a * b)
    mode = 0.5 * np.log(_positive_root(a, b, excess, discriminant))
    width = 1 / np.sqrt(2 * discriminant)
    proposal = mode + width * rng.standard_t(degrees, size=a.shape)

    def log_weight(t: Array) -> Array:
        log_target = excess * t - 0.5 * (a * np.exp(2 * t) + b * np.exp(-2 * t))
        log_proposal = -0.5 * (degrees + 1) * np.log1p(((t - mode) / width) ** 2 / degrees)
        return log_target - log_proposal

    with np.errstate(over="ignore"):
        log_ratio = log_weight(proposal) - log_weight(np.zeros_like(proposal))
    return np.where(np.log(rng.random(a.shape)) < log_ratio, proposal, 0.0)


def _positive_root(a: Array, b: Array, excess: int, discriminant: Array) -> Array:
    """Solve for the positive u = e^{2t} with a u^2 - excess u - b = 0, without cancellation."""
    if excess >= 0:
        return (excess + discriminant) / (2 * a)
    return 2 * b / (discriminant - excess)


# ---------------------------------------------------------------- judging the chains


def chain_mean_and_error(values: Array) -> tuple[Array, Array]:
    """Mean of draws (chains, kept, ...) and its standard error from the spread of the chain means."""
    chain_means = np.asarray(values).mean(axis=1)
    return chain_means.mean(axis=0), chain_means.std(axis=0, ddof=1) / math.sqrt(len(chain_means))


def autocorrelation_time(values: Array) -> Array:
    """Return kept * variance of chain means / variance of draws: 1 for independent draws."""
    values = np.asarray(values)
    spread = values.reshape(-1, *values.shape[2:]).var(axis=0)
    return values.shape[1] * values.mean(axis=1).var(axis=0, ddof=1) / spread


def split_r_hat(values: Array) -> Array:
    """Potential scale reduction of the half-chains: near one when the chains have forgotten their start."""
    values = np.asarray(values)
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, half : 2 * half]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    return np.sqrt((half - 1) / half + between / within)


# ---------------------------------------------------------------- importance sampling from the prior


def prior_weighted(
    X: Array,
    Y: Array,
    widths: Sequence[int],
    beta: float,
    size: int,
    seed: int,
    X_test: Array,
    *,
    prior_variances: Sequence[float] | None = None,
) -> WeightedEstimate:
    """Self-normalised importance sampling: weights from the prior, weighted by the likelihood."""
    rng = np.random.default_rng(seed)
    layers = describe_layers(X.shape[1], widths, Y.shape[1], prior_variances)
    weights = draw_prior(layers, size, rng)
    residuals = network_outputs(X, weights) - Y
    log_weights = -0.5 * beta * np.sum(residuals**2, axis=(1, 2))
    normalisation = 0.5 * Y.size * math.log(beta / (2 * math.pi))
    relative = np.exp(log_weights - log_weights.max())
    shares = relative / relative.sum()
    predictions, predictions_error = _weighted_mean(network_outputs(X_test, weights), shares)
    kernel, kernel_error = _weighted_mean(feature_kernel(X, weights), shares)
    scale, scale_error = _weighted_mean(scale_matrix(weights), shares)
    return WeightedEstimate(
        predictions=predictions,
        predictions_error=predictions_error,
        kernel=kernel,
        kernel_error=kernel_error,
        scale=scale,
        scale_error=scale_error,
        log_evidence=normalisation + float(log_weights.max()) + math.log(relative.mean()),
        log_evidence_error=float(relative.std(ddof=1) / relative.mean() / math.sqrt(size)),
        effective_sample_size=float(1 / np.sum(shares**2)),
    )


def _weighted_mean(values: Array, shares: Array) -> tuple[Array, Array]:
    """Mean under normalised weights, and its delta-method standard error."""
    mean = np.tensordot(shares, values, axes=1)
    return mean, np.sqrt(np.tensordot(shares**2, (values - mean) ** 2, axes=1))
