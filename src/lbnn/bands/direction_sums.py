"""Answers as weighted sums over directions, and their errors from two halves of the directions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lbnn._base.arrays import device_of, namespace, take, to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.bands.simplex import SETS, Rule, contrasts, log_directions, log_weights, set_numbers

#: What is found along every direction, as rows of arrays (13, J, V): the log of the integral, and
#: `Conditional.moments`. ω = s/(s + τ), the ratio is s/τ, and a row after a mean is the second moment.
(
    LOG_INTEGRAL,
    FRACTION,  # ω
    _FRACTION_SQUARE,
    SCALE,  # s
    NOISE,  # τ
    LOG_SCALE,
    _LOG_SCALE_SQUARE,
    LOG_NOISE,
    _LOG_NOISE_SQUARE,
    LOG_RATIO,
    _LOG_RATIO_SQUARE,
    LOG_RATIO_SKEWNESS,
    RULE_ERROR,  # relative, of the integral
) = ROWS = range(13)
#: Rows of means that are followed by second moments.
MEANS = FRACTION, LOG_SCALE, LOG_NOISE, LOG_RATIO

#: Temperatures at which moments of a narrow posterior are taken (`moments_of`).
_TEMPERATURES = 4.0 ** np.arange(0, 8)
#: Error of a share that is always small enough: rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Summary:
    """Weighted sums over the directions of a group, on the device of the data; (V,) or (K, V) each."""

    weights: AnyArray  # (J, V)
    log_evidence: AnyArray
    log_evidence_error: AnyArray
    share_mean: AnyArray
    share_deviation: AnyArray
    share_error: AnyArray
    scale_mean: AnyArray
    noise_mean: AnyArray
    log_scale_mean: AnyArray
    log_scale_deviation: AnyArray
    log_noise_mean: AnyArray
    log_noise_deviation: AnyArray
    #: Where interpolated: distribution functions of shares at `PLACES`, (K, places, V).
    distribution: AnyArray | None = None
    #: Of the directions in means and in the errors of means, (J, V), of either sign; `weights` are at least
    #: zero. None without interpolation: `weights`, and the same with the sign of their half.
    mean_weights: AnyArray | None = None
    error_weights: AnyArray | None = None

    def fine(self, target_error: float) -> Mask:
        """Mask (V,) of targets whose errors are small enough."""
        xp = namespace(self.weights)
        shares = xp.all(self.share_error <= target_error * self.share_deviation + ROUNDING, axis=0)
        return np.array(to_numpy(shares & (self.log_evidence_error <= target_error)), bool)

    @property
    def effective_directions(self) -> Array:
        """Effective number of directions, (V,)."""
        return to_numpy(1 / namespace(self.weights).sum(self.weights * self.weights, axis=0))

    def some(self, members: IndexArray) -> Summary:
        """For some of the targets, members (k,)."""
        return Summary(
            *(
                None if each is None else take(each, members, axis=each.ndim - 1)
                for each in vars(self).values()
            )
        )


@dataclass(frozen=True)
class Group:
    """Targets that share their directions, and what was found along these.

    Attributes
    ----------
    columns : (V,)
        The targets, as columns of the block.
    faces : (F, K)
        log θ of directions without weight in sums, the first of all.
    rules : tuple of Rule
    numbers : (J,)
        The directions, as numbers of the search.
    found : (13, J, V) on the device of the data
        Along every direction: log of the integral and `Conditional.moments`. None before the first.
    """

    columns: IndexArray
    faces: Array
    rules: tuple[Rule, ...]
    numbers: IndexArray
    found: AnyArray

    @property
    def count(self) -> int:
        """Directions so far."""
        return len(self.numbers)

    @property
    def log_theta(self) -> Array:
        """The directions, (J, K)."""
        return np.concatenate([self.faces, *(log_directions(rule.points) for rule in self.rules)])

    @property
    def sets(self) -> IndexArray:
        """The half, 0 or 1, that every direction belongs to, (J,); −1 for those of both."""
        return np.concatenate([np.full(len(self.faces), -1), set_numbers(self.rules)])

    def some(self, members: IndexArray) -> Group:
        """Some of the targets, members (k,), with the same directions."""
        if len(members) == len(self.columns):
            return self
        return replace(self, columns=self.columns[members], found=take(self.found, members, axis=2))

    def _log_weights(self) -> Array:
        """Log weights (directions,) of the directions in ∫ d log λ_1 ⋯ d log λ_K."""
        bands = self.rules[0].points.shape[1] + 1
        if bands == 1:
            return np.zeros(1)
        inside = log_weights(self.rules) + 0.5 * math.log(bands)
        return np.concatenate([np.full(len(self.faces), -math.inf), inside])

    def summary(self) -> Summary:
        """Answers and their errors from all directions so far."""
        theta = np.exp(self.log_theta)
        answers = sums(self.found, self._log_weights(), theta)
        if self.count == 1:
            return answers
        return with_errors(answers, *self.errors(answers, theta))

    def errors(self, answers: Summary, theta: Array) -> tuple[AnyArray, AnyArray]:
        """Errors of the log evidence and the shares from two halves of the directions, (V,) and (K, V)."""
        xp, put = namespace(self.found), device_of(self.found).put
        members = put((self.sets == np.arange(SETS)[:, None]).astype(float))  # (SETS, J)
        there, weights, share = put(theta), answers.weights, answers.share_mean
        evidence = _standard_error(members @ weights - 1 / SETS, xp)
        parts = [
            members @ (weights * (there[:, k, None] * self.found[FRACTION, ...] - share[k, None, :]))
            for k in range(there.shape[1])
        ]
        return evidence, xp.stack([_standard_error(each, xp) for each in parts])

    def moments(self) -> tuple[Array, Array]:
        """Posterior means (V, d) and covariances (V, d, d) of z, as NumPy, from the weights."""
        z, put = self.log_theta @ contrasts(self.rules[0].points.shape[1] + 1), device_of(self.found).put
        return moments_of(z, self.found[LOG_INTEGRAL, ...] + put(self._log_weights())[:, None])


def moments_of(z: Array, logs: AnyArray) -> tuple[Array, Array]:
    """Means (V, d) and covariances (V, d, d) of points z (J, d) with log weights (J, V), as NumPy.

    From the weights to the power 1/T, with the lowest of some temperatures T at which enough points count:
    a Gaussian that is narrow among the points has T times its covariance then.
    """
    xp, put, size, count = namespace(logs), device_of(logs).put, z.shape[1], int(logs.shape[1])
    powers = put(np.concatenate([z, (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)], axis=1))
    wanted, waiting = 3.0 * (size + 1), np.arange(count)
    sums, heat = np.empty((count, size + size**2)), np.empty(count)
    for temperature in _TEMPERATURES:
        own = take(logs, waiting, axis=1)
        weights = xp.exp((own - xp.max(own, axis=0, keepdims=True)) / float(temperature))
        weights = weights / xp.sum(weights, axis=0, keepdims=True)
        sums[waiting], heat[waiting] = to_numpy(weights.T @ powers), temperature
        waiting = waiting[to_numpy(1 / xp.sum(weights * weights, axis=0)) < wanted]
        if not len(waiting):
            break
    means = sums[:, :size]
    squares = sums[:, size:].reshape(count, size, size) - means[:, :, None] * means[:, None, :]
    return means, squares / heat[:, None, None] + 1e-10 * np.eye(size)


def sums(found: AnyArray, log_base: Array, theta: Array) -> Summary:
    """Weighted sums over directions θ (J, K) of what was found (13, J, V).

    Their errors are those of the integrals along directions only. An integrand that is wrong by a part ε
    moves means by about ε deviations.
    """
    xp, put = namespace(found), device_of(found).put
    there = put(theta)
    log_evidence, share, weights = share_sums(found[LOG_INTEGRAL, ...], found[FRACTION, ...], log_base, theta)
    square = (there * there).T @ (weights * found[FRACTION + 1, ...])
    variance = xp.maximum(square - share * share, xp.zeros_like(share))
    deviation = xp.sqrt(variance)
    error = xp.sum(weights * xp.abs(found[RULE_ERROR, ...]), axis=0)
    log_noise = _means_and_deviations(weights, found, LOG_NOISE, put(np.zeros((len(theta), 1))))
    return Summary(
        weights,
        log_evidence,
        error,
        share,
        deviation,
        error[None, :] * deviation,
        there.T @ (weights * found[SCALE, ...]),
        xp.sum(weights * found[NOISE, ...], axis=0),
        *_means_and_deviations(weights, found, LOG_SCALE, put(np.log(theta))),
        *(each[0, ...] for each in log_noise),
    )


def share_sums(
    logs: AnyArray, fraction: AnyArray, log_base: Array, theta: Array
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Log evidence (V,), means of shares (K, V) and weights (M, V) from log integrals and E ω at θ (M, K)."""
    xp, put = namespace(logs), device_of(logs).put
    log_terms = logs + put(log_base)[:, None]
    top = xp.max(log_terms, axis=0)
    terms = xp.exp(log_terms - top[None, :])
    total = xp.sum(terms, axis=0)
    weights = terms / total[None, :]
    return top + xp.log(total), put(theta).T @ (weights * fraction), weights  # Σ_j W_j θ_jk E_j ω


def _means_and_deviations(
    weights: AnyArray, found: AnyArray, row: int, offsets: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """Mean and deviation (K, V) of a logarithm plus offsets (J, K), from weights (J, V)."""
    xp, mean, square = namespace(weights), found[row, ...], found[row + 1, ...]
    # from the middle, so that little is lost in differences of squares
    middle = xp.sum(weights * mean, axis=0)
    variance = xp.sum(weights * (square - 2 * mean * middle + middle * middle), axis=0)
    offset = offsets.T @ weights
    both = offsets.T @ (weights * (mean - middle))
    variance = variance + 2 * both + (offsets * offsets).T @ weights - offset * offset
    return middle + offset, xp.sqrt(xp.maximum(variance, xp.zeros_like(variance)))


def half_signs(sets: IndexArray) -> Array:
    """±1 for directions (J,) of the first and of the second half, 0 for those of both.

    With two halves the standard error of Σ_j w_j x_j = 0, `_standard_error`, is |Σ_j ±w_j x_j|.
    """
    return np.where(sets < 0, 0.0, 1.0 - 2.0 * sets)


def with_errors(answers: Summary, evidence: AnyArray, shares: AnyArray) -> Summary:
    """Answers whose sums over directions have errors in the log evidence (V,) and the shares (K, V).

    Two halves differ little by chance now and then; all K + 1 differences of a target are one size in units
    of deviations, and no stated error is below their root mean square. To these come the errors along
    directions, which both halves share.
    """
    xp, deviation = namespace(evidence), answers.share_deviation
    # all weight on one direction has no deviation: no such error is small, and its square is a double
    relative = xp.clip(shares / xp.maximum(deviation, xp.full_like(deviation, 1e-300)), 0.0, 1e100)
    typical = xp.sqrt((evidence**2 + xp.sum(relative**2, axis=0)) / (1 + shares.shape[0]))
    errors = xp.maximum(evidence, typical), xp.maximum(shares, typical[None, :] * deviation)
    return replace(
        answers,
        log_evidence_error=answers.log_evidence_error + errors[0],
        share_error=answers.share_error + errors[1],
    )


def _standard_error(of_sets: AnyArray, xp: Any) -> AnyArray:
    """Standard error of a sum whose parts from each of the sets (SETS, V) would all have mean zero."""
    return xp.sqrt(SETS / (SETS - 1) * xp.sum(of_sets * of_sets, axis=0))
