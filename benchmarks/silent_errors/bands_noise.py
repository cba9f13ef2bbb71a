"""Bands with unknown noise behind networks of widths 1 to 100,000.

The referee draws the Gamma factors of the scales, from an adapted proposal with importance weights, and
integrates over the log of the noise variance with the trapezoid rule on a dense grid, after one dense
eigendecomposition for each draw. It shares no code with the library.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from benchmarks.silent_errors.judgement import Judgement

Array = NDArray[np.float64]

_SETS, _DRAWS = 32, 512  # independent sets of draws, from which the referee's errors come
_ADAPTED, _ENOUGH = 3000, 300  # draws of a step of adaptation, and effective draws of which it keeps
_COMPONENTS = 4
_FREEDOM = 5.0  # of Student's t
_STEP = 0.1  # in log τ: its posterior deviation is at least √(2/p) = 0.18 for 60 rows
_REACH = 40.0, 14.0  # below and above the log of the mean square: the prior falls like √τ and 1/√τ
#: Means of scales and noise have no stated error: they may be off by so many posterior deviations.
_ALLOWED = 0.02


@dataclass(frozen=True)
class Problem:
    """One target (p,) with its blocks (p, n_k) and the hidden widths of every band."""

    name: str
    blocks: list[Array]
    y: Array
    widths: list[tuple[int, ...]]


def problems(count: int, seed: int) -> Iterator[Problem]:
    """One to four bands of few or many columns; widths alike, or each from 1 to 10⁵ by itself."""
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        bands, p = 1 + number % 4, int(rng.choice([6, 10, 16, 25, 40, 60]))
        few = rng.random() < 0.5
        columns = rng.integers(1, max(2, p // 4), bands) if few else rng.integers(p // 2, 2 * p, bands)
        depth = 1 + (rng.random() < 0.3)
        wide = 10 ** rng.uniform(0, 5, (bands, depth))
        if rng.random() < 0.4:  # alike
            wide[:] = wide[0, 0]
        blocks = [rng.normal(size=(p, each)) * rng.gamma(1.0, size=each) for each in columns]
        parts = rng.dirichlet(np.full(bands, 0.7))
        y = rng.normal(size=p) * 10 ** rng.uniform(-1.5, 0.5)
        for block, part in zip(blocks, parts, strict=True):
            own = block @ rng.normal(size=block.shape[1])
            y = y + np.sqrt(part / np.mean(own**2)) * own
        y = y * 10 ** rng.uniform(-0.7, 0.7)
        widths = [tuple(int(each) for each in row) for row in wide]
        yield Problem(f"seed {seed}, {number}: p={p}, columns={columns}, widths={widths}", blocks, y, widths)


def judge(problem: Problem) -> list[Judgement]:
    """Log evidence, and means of scales, shares and noise."""
    import lbnn

    started = time.process_time()
    networks = [lbnn.Network(each) for each in problem.widths]
    fit = lbnn.Bands(networks).condition(problem.blocks, problem.y)
    seconds = time.process_time() - started
    truth, error, deviation = Referee(problem).answers()
    bands = len(networks)
    mine = np.concatenate([fit.log_evidence, fit.noise_mean, fit.scale_mean[0], fit.share_mean[0]])
    stated = np.concatenate([fit.log_evidence_error, _ALLOWED * deviation[1 : 2 + bands], fit.share_error[0]])
    names = ["log evidence", "noise", *(f"{what} {k}" for what in ("scale", "share") for k in range(bands))]
    return [
        Judgement(
            f"{problem.name}, {name}",
            float(mine[i]),
            float(stated[i]),
            float(truth[i]),
            float(error[i]),
            bool(fit.ok[0]),
            seconds=seconds if i == 0 else 0.0,
        )
        for i, name in enumerate(names)
    ]


class Referee:
    """The posterior of the logs of all Gamma factors, standardised by their priors, for one target."""

    def __init__(self, problem: Problem) -> None:
        self.y, p = problem.y, len(problem.y)
        self.grams = np.stack([each @ each.T / each.shape[1] for each in problem.blocks])
        self.sizes = np.trace(self.grams, axis1=1, axis2=2) / p
        self.half = np.concatenate([np.array(each) for each in problem.widths]) / 2
        self.band = np.repeat(np.arange(len(problem.widths)), [len(each) for each in problem.widths])
        self.mean = special.digamma(self.half) - np.log(self.half)
        self.deviation = np.sqrt(special.polygamma(1, self.half))
        middle = np.log(self.y @ self.y / p)
        self.log_noise = np.arange(middle - _REACH[0], middle + _REACH[1], _STEP)
        z = (self.log_noise - middle) / 2
        self.log_noise_prior = -np.log(np.pi) - np.logaddexp(z, -z)  # √τ half-Cauchy

    def prior_draws(self, count: int, rng: np.random.Generator) -> Array:
        """Standardised logs of the factors, (count, d)."""
        # log of a Gamma of shape a is that of shape a + 1 plus log(uniform)/a, which is never log 0
        logs = np.log(rng.gamma(self.half + 1, 1 / self.half, (count, len(self.half))))
        return (logs + np.log(rng.random(logs.shape)) / self.half - self.mean) / self.deviation

    def log_prior(self, x: Array) -> Array:
        """Log density (n,) of standardised logs x (n, d)."""
        logs = self.mean + self.deviation * x
        # a (log λ − λ + 1) without cancellation, plus a log a − a − log Γ(a)
        constant = self.half * np.log(self.half) - self.half - special.gammaln(self.half)
        large = self.half > 1e3
        constant[large] = 0.5 * np.log(self.half[large] / (2 * np.pi)) - 1 / (12 * self.half[large])
        terms = constant - self.half * (np.expm1(np.minimum(logs, 300.0)) - logs) + np.log(self.deviation)
        return np.asarray(terms.sum(axis=1))

    def scales(self, x: Array) -> Array:
        """λ (n, K)."""
        logs = self.mean + self.deviation * x
        return np.exp(np.stack([logs[:, self.band == k].sum(axis=1) for k in range(len(self.grams))], axis=1))

    def log_likelihood(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """Log likelihood (n,) of x (n, d); over the noise E τ, E τ² and E 1/(τ + Σ_k λ_k ḡ_k) given it."""
        logs, noise, square, inverse = (np.empty(len(x)) for _ in range(4))
        scales = self.scales(x)
        for part in np.array_split(np.arange(len(x)), max(1, len(x) // 64)):
            g, U = np.linalg.eigh(np.tensordot(scales[part], self.grams, axes=1))
            e = np.einsum("spi,p->si", U, self.y) ** 2
            tau = np.exp(self.log_noise)
            v = np.maximum(g, 0)[:, None, :] + tau[:, None]  # (part, grid, p)
            terms = self.log_noise_prior - 0.5 * (np.log(v) + e[:, None, :] / v).sum(axis=2)
            logs[part] = special.logsumexp(terms, axis=1) + np.log(_STEP)
            weight = special.softmax(terms, axis=1)
            whole = scales[part] @ self.sizes
            noise[part], square[part] = weight @ tau, weight @ tau**2
            inverse[part] = (weight / (tau + whole[:, None])).sum(axis=1)
        return logs - 0.5 * len(self.y) * np.log(2 * np.pi), noise, square, inverse

    def answers(self) -> tuple[Array, Array, Array]:
        """Log evidence, E τ, E λ_k and E share_k, their errors, and rough posterior deviations."""
        rng = np.random.default_rng(1)
        mixture = self._adapted(rng)
        found = []
        for _ in range(_SETS):
            x = _drawn(mixture, _DRAWS, rng)
            likelihood, noise, square, inverse = self.log_likelihood(x)
            logs = self.log_prior(x) + likelihood - _density(mixture, x)
            scales = self.scales(x)
            values = np.column_stack([noise, scales, scales * self.sizes * inverse[:, None]])
            weight = np.exp(logs - logs.max())
            within = np.zeros_like(values)
            within[:, 0] = square - noise**2  # variances given the scales
            found.append((logs.max() + np.log(weight.mean()), weight, values, within))
        top = max(each[0] for each in found)
        parts = np.exp([each[0] - top for each in found])  # evidences of the sets
        evidence = top + np.log(parts.mean())
        error = parts.std(ddof=1) / parts.mean() / np.sqrt(_SETS)
        # means over all sets: ratios of sums, with linearised errors
        sums = np.array(
            [part * (w / w.sum()) @ values for part, (_, w, values, _) in zip(parts, found, strict=True)]
        )
        mean = sums.sum(axis=0) / parts.sum()
        errors = (sums - parts[:, None] * mean).std(axis=0, ddof=1) / parts.mean() / np.sqrt(_SETS)
        squares = np.array(
            [
                part * (w / w.sum()) @ ((values - mean) ** 2 + within)
                for part, (_, w, values, within) in zip(parts, found, strict=True)
            ]
        )
        deviation = np.sqrt(squares.sum(axis=0) / parts.sum())
        return (
            np.concatenate([[evidence], mean]),
            np.concatenate([[error], errors]),
            np.concatenate([[1.0], deviation]),
        )

    def _adapted(self, rng: np.random.Generator) -> Any:
        """A mixture of Student's t close to the posterior, by way of growing powers of the likelihood."""
        x, power, after = self.prior_draws(_ADAPTED, rng), 0.0, 0
        prior = self.log_prior(x)
        proposed, mixture = prior, None
        while after < 3:
            likelihood = self.log_likelihood(x)[0]

            def effective(power: float) -> float:
                weights = special.softmax(prior + power * likelihood - proposed)  # noqa: B023
                return float(1 / (weights**2).sum())

            low, high = power, 1.0
            if effective(1.0) < _ENOUGH:
                for _ in range(30):
                    middle = (low + high) / 2
                    low, high = (middle, high) if effective(middle) > _ENOUGH else (low, middle)
                high = low
            power = max(high, power + 1e-9)
            after += power >= 1
            mixture = _fitted(x, special.softmax(prior + power * likelihood - proposed), rng)
            x = _drawn(mixture, _ADAPTED, rng)
            prior, proposed = self.log_prior(x), _density(mixture, x)
        return mixture


def _fitted(x: Array, weights: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Weights, centres and scale matrices of a mixture, by expectation maximisation; the last is wide."""
    mean = weights @ x
    whole = np.einsum("s,si,sj->ij", weights, x - mean, x - mean) + 1e-6 * np.eye(x.shape[1])
    centres = x[rng.choice(len(x), _COMPONENTS, p=weights)]
    matrices, parts = np.tile(whole, (_COMPONENTS, 1, 1)), np.full(_COMPONENTS, 1 / _COMPONENTS)
    for _ in range(20):
        logs = np.stack(
            [
                np.log(part) + stats.multivariate_normal.logpdf(x, centre, matrix)
                for part, centre, matrix in zip(parts, centres, matrices, strict=True)
            ]
        ).reshape(_COMPONENTS, -1)
        own = weights * special.softmax(logs, axis=0)
        totals = own.sum(axis=1) + 1e-12
        parts, centres = totals / totals.sum(), own @ x / totals[:, None]
        for k in range(_COMPONENTS):
            off = x - centres[k]
            matrices[k] = (own[k, :, None] * off).T @ off / totals[k] + 0.02 * whole
    return (
        np.append(0.85 * parts, 0.15),
        np.vstack([centres, mean]),
        np.concatenate([1.2 * matrices, 3 * whole[None]]),
    )


def _drawn(mixture: tuple[Array, Array, Array], count: int, rng: np.random.Generator) -> Array:
    """Draws (count, d) of a mixture of Student's t from a scrambled Sobol sequence."""
    parts, centres, matrices = mixture
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # counts need not be powers of two
        uniform = stats.qmc.Sobol(centres.shape[1] + 2, rng=rng).random(count)
    which = np.searchsorted(np.cumsum(parts)[:-1], uniform[:, 0])
    tiny = np.finfo(float).eps
    normal = special.ndtri(np.clip(uniform[:, 1:-1], tiny, 1 - tiny))
    stretch = np.sqrt(_FREEDOM / stats.chi2(_FREEDOM).ppf(np.clip(uniform[:, -1], 1e-9, 1 - tiny)))
    roots = np.linalg.cholesky(matrices)
    return np.asarray(centres[which] + stretch[:, None] * np.einsum("sij,sj->si", roots[which], normal))


def _density(mixture: tuple[Array, Array, Array], x: Array) -> Array:
    """Log density (n,) of a mixture of Student's t at x (n, d)."""
    logs = [
        np.log(part) + stats.multivariate_t.logpdf(x, centre, matrix, _FREEDOM)
        for part, centre, matrix in zip(*mixture, strict=True)
    ]
    return np.asarray(special.logsumexp(np.reshape(logs, (len(logs), -1)), axis=0))
