"""Canonical matrix generalised inverse Gaussians, MGIG(diag(δ), I, ν), δ ascending: draws row by row.

The density is ∝ det(X)^{ν − (N+1)/2} etr(−½ Δ X⁻¹ − ½ X), Δ = diag(δ). With X = T Tᵀ, T lower triangular,
row k of T depends on the rows above it by S = T⁻¹ Δ T⁻ᵀ of these alone:

    q = T_kk²              has density ∝ q^{ν − (k−1)/2 − 1} exp(−½ (q + δ_k/q)) det(I + S/q)^{−½},
    (T_k1, ..., T_k,k−1)   given q is N(0, (I + S/q)⁻¹).

But for the determinant the q are independent generalised inverse Gaussians. The determinant is nearly a power
of each q, and so q is drawn with another order; what is left of it is the importance weight. It has moments
of every order, since a power of q is left between exponentials of q and of 1/q. With at most one positive δ
the determinant is one: Wishart laws and N = 1 are drawn directly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from lbnn._base.log_sums import normalised
from lbnn._base.types import Array
from lbnn.engines.inference import Diagnostics, InferenceOptions
from lbnn.engines.pareto import pareto_k
from lbnn.engines.policy import POLICY

Estimate = tuple[Array, Array]  # values (N,) and the covariance (N, N) of their errors

_BLOCK = 4096  # draws at a time
_MOST, _SMALL = 1 << 30, 10  # draws × max(N, 10)³ after which they are taken as they are: about 10 s
_MEAN_FIELD_STEPS, _DAMPING = 60, 0.3
_FITS, _FIT_DRAWS = 8, 2000  # rounds of fitting the orders, and draws of each
#: Probability that draws which miss nothing are said to.
_FALSE_ALARM = 1e-4


@dataclass(frozen=True)
class Draws:
    """Weighted draws of T; the mean of the weights is the normaliser.

    Attributes
    ----------
    factors, inverses : (m, N, N)
        T and T⁻¹.
    log_squares : (m, N)
        log T_kk².
    log_weights : (m,)
    """

    factors: Array
    inverses: Array
    log_squares: Array
    log_weights: Array


def draw(delta: Array, nu: float, orders: Array, size: int, rng: np.random.Generator) -> Draws:
    """Draws of MGIG(diag(δ), I, ν) for δ (N,) ascending; q_k has the order orders[k], of (N,)."""
    count = len(delta)
    factors, inverses = np.zeros((2, size, count, count))
    log_squares, log_weights = np.zeros((size, count)), np.zeros(size)
    for k, (value, order) in enumerate(zip(delta, orders, strict=True)):
        root = math.sqrt(value)
        if value > 0:
            squares = stats.geninvgauss.rvs(order, root, scale=root, size=size, random_state=rng)
        else:
            squares = 2 * rng.gamma(order, size=size)
        scaled = inverses[:, :k, :k] * np.sqrt(delta[:k] / squares[:, None, None])  # S/q = scaled scaledᵀ
        precision = np.linalg.cholesky(np.eye(k) + scaled @ scaled.swapaxes(1, 2))
        normal = rng.standard_normal((size, k, 1))
        row = np.linalg.solve(precision.swapaxes(1, 2), normal).swapaxes(1, 2)
        factors[:, k, :k], factors[:, k, k] = row[:, 0], np.sqrt(squares)
        inverses[:, k, k] = 1 / factors[:, k, k]
        inverses[:, k, :k] = -(row @ inverses[:, :k, :k])[:, 0] * inverses[:, k, k, None]
        log_squares[:, k] = np.log(squares)
        log_weights += log_gig_normalizer(value, order) + k / 2 * math.log(2 * math.pi)
        log_weights += (nu - k / 2 - order) * log_squares[:, k]
        log_weights -= np.log(np.diagonal(precision, axis1=1, axis2=2)).sum(axis=1)
    return Draws(factors, inverses, log_squares, log_weights)


def fitted_orders(delta: Array, nu: float, rng: np.random.Generator) -> Array:
    """Orders (N,) of the q_k for which log weights vary least: regressed on log q in a few rounds of draws.

    Adding the coefficients to the orders takes their part out of the log weights.
    """
    orders, positive = mean_field_orders(delta, nu), delta > 0
    found: list[tuple[float, Array]] = []
    for _ in range(_FITS):
        draws = draw(delta, nu, orders, _FIT_DRAWS, rng)
        found.append((float(draws.log_weights.std()), orders))
        centred = draws.log_squares - draws.log_squares.mean(axis=0)
        orders = orders.copy()
        orders[positive] += np.linalg.lstsq(
            centred[:, positive], draws.log_weights - draws.log_weights.mean()
        )[0]
    return min(found, key=lambda each: each[0])[1]


def mean_field_orders(delta: Array, nu: float) -> Array:
    """Orders (N,) with the slopes of log det(I + S/q) where every q is at its mode and S its own average.

    From S_kk = (δ_k + tᵀ S t)/q_k with t ~ N(0, (I + S/q_k)⁻¹), off-diagonal elements left out.
    """
    plain = nu - np.arange(len(delta)) / 2
    orders = plain
    for _ in range(_MEAN_FIELD_STEPS):
        spread = np.sqrt(orders**2 + delta)
        squares = np.where(orders > 0, orders + spread, delta / np.where(orders > 0, 1.0, spread - orders))
        slopes, diagonal = np.zeros((2, len(delta)))
        for k, square in enumerate(squares):
            shares = diagonal[:k] / (diagonal[:k] + square)
            slopes[:k] += 0.5 * shares
            slopes[k] += 0.5 * shares.sum()
            diagonal[k] = delta[k] / square + shares.sum()
        orders = orders + _DAMPING * (plain + slopes - orders)
    return orders


class Canonical:
    """The law of one δ (N,) and ν: log normaliser, diagonals of E X and E X⁻¹, draws.

    Both means are diagonal, since the law does not change when the sign of a coordinate does. Where δ has m
    zeros, their block of X is a Wishart matrix, T beside it standard normal, and T Tᵀ of the other r rows and
    columns of T is C, which is MGIG(diag(δ > 0), I, ν − m/2).
    """

    def __init__(self, delta: Array, nu: float, options: InferenceOptions) -> None:
        self.delta, self.nu, self.options = delta, nu, options
        self.zeros = int((delta == 0).sum())
        self.direct = len(delta) - self.zeros < 2  # draws have equal weights

    @cached_property
    def _orders(self) -> Array:
        """Orders of the q_k, (N,)."""
        if self.direct:
            return self.nu - np.arange(len(self.delta)) / 2
        return fitted_orders(self.delta, self.nu, np.random.default_rng([self.options.seed, 0]))

    @cached_property
    def _draws(self) -> tuple[Array, Array]:
        """Diagonals of C and C⁻¹, (m, 2r), and log weights (m,): twice as many until they are enough."""
        rng, core = np.random.default_rng([self.options.seed, 1]), slice(self.zeros, None)
        blocks: list[tuple[Array, Array]] = []
        while True:
            for _ in range(max(len(blocks), 1)):
                draws = draw(self.delta, self.nu, self._orders, _BLOCK, rng)
                squares = draws.factors[:, core, core] ** 2, draws.inverses[:, core, core] ** 2
                diagonals = np.concatenate([squares[0].sum(axis=2), squares[1].sum(axis=1)], axis=1)
                blocks.append((diagonals, draws.log_weights))
            found, logs = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
            spent = 2 * len(logs) * max(len(self.delta), _SMALL) ** 3 > _MOST
            if self.direct or spent or not self._lacking(found, logs):
                return found, logs

    def _lacking(self, found: Array, log_weights: Array) -> list[str]:
        """What weighted draws (m, 2r), (m,) lack for the target error, in words."""
        target, tail, lacking = self.options.target_error, pareto_k(log_weights), []
        weights = normalised(log_weights)
        size, wanted = 1 / (weights**2).sum(), max(target**-2, POLICY.fewest_effective)
        if tail > POLICY.largest_k:
            below = f"(should be below {POLICY.largest_k:g})"
            lacking.append(f"the weights have a Pareto k of {tail:.2f} {below}")
        if size < wanted:
            lacking.append(f"{size:.0f} draws are effective ({wanted:.0f} are needed)")
        mean, covariance = weighted_mean(weights, found)
        largest = np.sqrt(np.diagonal(covariance) / (weights @ (found - mean) ** 2)).max()
        if largest > target:
            lacking.append(f"the error of a mean is {largest:.2g} standard deviations")
        # exactly E C_kk − δ_k E (C⁻¹)_kk = 2ν − m: the law of C under C → (1 + ε) C (1 + ε)
        values, inverses = np.split(found, 2, axis=1)
        balance = values - self.delta[self.zeros :] * inverses - (2 * self.nu - self.zeros)
        excess, covariance = weighted_mean(weights, balance)
        score = np.abs(excess) / np.maximum(np.sqrt(np.diagonal(covariance)), 1e-10 * np.abs(values).max())
        if score.max() > stats.norm.isf(_FALSE_ALARM / (2 * len(score))):
            lacking.append("the means contradict each other: the draws miss a part of the law")
        return lacking

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """Of the draws behind normaliser and means, if there are any."""
        if self.direct:
            return Diagnostics("bessel" if self.delta.any() else "wishart", math.inf)
        lacking, logs = self._lacking(*self._draws), self._draws[1]
        message = (
            "importance sampling is not accurate enough for a target error of "
            f"{self.options.target_error:g}: {', '.join(lacking)}: use the stated errors, or raise "
            "target_error"
        )
        size = float(1 / (normalised(logs) ** 2).sum())
        return Diagnostics("importance", size, pareto_k(logs), messages=(message,) if lacking else ())

    @cached_property
    def log_normalizer(self) -> tuple[float, float]:
        """Value and standard error: the mean of the weights."""
        logs = self._draws[1]
        weights = np.exp(logs - logs.max())
        error = float(weights.std() / weights.mean()) / math.sqrt(len(logs))
        return float(logs.max()) + math.log(weights.mean()), error

    @property
    def mean(self) -> Estimate:
        """Diagonal of E X: 2ν in the block of zeros, m more than that of E C in the other."""
        along = np.eye(len(self.delta))[:, self.zeros :]
        return self._means(1, np.where(self.delta > 0, self.zeros, 2 * self.nu), along)

    @property
    def inverse_mean(self) -> Estimate:
        """Diagonal of E X⁻¹: that of E C⁻¹, and (1 + tr E C⁻¹)/(2ν − m − 1) in the block of zeros."""
        excess = 2 * self.nu - self.zeros - 1
        along = np.eye(len(self.delta))[:, self.zeros :]
        along[: self.zeros] = 1 / excess if excess > 0 else 0.0
        return self._means(-1, np.where(self.delta > 0, 0.0, 1 / excess if excess > 0 else math.inf), along)

    def _means(self, power: int, known: Array, along: Array) -> Estimate:
        """known + along c, (N,), for the diagonal c (r,) of E C or E C⁻¹: in Bessel functions for r = 1."""
        delta, order = self.delta[self.zeros :], self.nu - self.zeros / 2
        if self.direct:
            logs = [
                log_gig_normalizer(each, order + power) - log_gig_normalizer(each, order) for each in delta
            ]
            return known + along @ np.exp(logs), np.zeros((len(known), len(known)))
        found, log_weights = self._draws
        value, covariance = weighted_mean(normalised(log_weights), np.split(found, 2, axis=1)[power < 0])
        return known + along @ value, along @ covariance @ along.T

    def weighted_sample(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draws of X (size, N, N) and log weights (size,)."""
        sizes = [min(_BLOCK, size - start) for start in range(0, size, _BLOCK)]
        blocks = [draw(self.delta, self.nu, self._orders, each, rng) for each in sizes]
        scales = np.concatenate([each.factors @ each.factors.swapaxes(1, 2) for each in blocks])
        return scales, np.concatenate([each.log_weights for each in blocks])


def weighted_mean(weights: Array, values: Array) -> Estimate:
    """Average (N,) of values (m, N) with weights (m,) of sum one; covariance by the delta method."""
    mean = weights @ values
    deviations = weights[:, None] * (values - mean)
    return mean, deviations.T @ deviations


def log_gig_normalizer(delta: float, order: float) -> float:
    """log ∫ q^{order−1} exp(−½(q + δ/q)) dq: 2 K_order(√δ) δ^{order/2}, or 2^order Γ(order) for δ = 0."""
    if delta == 0:
        return order * math.log(2) + math.lgamma(order)
    return math.log(2) + log_bessel_k(order, math.sqrt(delta)) + 0.5 * order * math.log(delta)


def log_bessel_k(order: float, argument: float) -> float:
    """log K_ν(z) for z > 0 and any order: half of ∫ exp(−z cosh t + ν t) dt, by the trapezoid rule."""
    order = abs(order)
    peak = math.asinh(order / argument)
    width = (order**2 + argument**2) ** -0.25
    farthest = math.asinh((2 * order + 100) / argument) + 2
    step = min(0.1, 0.3 * width)
    nearest = max(-farthest, peak - 60 * max(width, 1 / max(order, 0.1)))
    t = np.arange(nearest, farthest + step, step)
    log_terms = order * (t - peak) - 2 * argument * np.sinh((t - peak) / 2) * np.sinh((t + peak) / 2)
    total = float(np.exp(np.maximum(log_terms, -700.0)).sum()) * step
    return order * peak - argument * math.cosh(peak) + math.log(total / 2)
