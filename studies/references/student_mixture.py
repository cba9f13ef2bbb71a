"""Mixtures of Student laws, fitted by climbing from many starts and by rounds of weighted draws."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .several_outputs import Draws, Target

Array = NDArray[np.float64]

FREEDOM = 5.0


class StudentMixture:
    """Shares, means and scale matrices; FREEDOM degrees of freedom."""

    def __init__(self, shares: Array, means: Array, scales: Array) -> None:
        self.shares, self.means, self.scales = np.asarray(shares) / np.sum(shares), means, scales
        self.roots = np.linalg.cholesky(scales)
        self.inverses = np.linalg.inv(self.roots)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draw with stratified parts."""
        levels = (np.arange(size) + rng.random(size)) / size
        part = np.minimum(np.searchsorted(np.cumsum(self.shares), levels), len(self.shares) - 1)
        normal = rng.standard_normal((size, self.means.shape[1]))
        stretched = normal * np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size))[:, None]
        return self.means[part] + np.einsum("nab,nb->na", self.roots[part], stretched)

    def distances(self, points: Array) -> Array:
        """Squared Mahalanobis distances, (points, parts)."""
        pairs = zip(self.means, self.inverses, strict=True)
        return np.stack([np.sum(((points - mean) @ root.T) ** 2, 1) for mean, root in pairs], 1)

    def log_parts(self, distances: Array) -> Array:
        d = self.means.shape[1]
        constant = (
            math.lgamma((FREEDOM + d) / 2) - math.lgamma(FREEDOM / 2) - d / 2 * math.log(FREEDOM * math.pi)
        )
        roots = np.log(np.diagonal(self.inverses, axis1=1, axis2=2)).sum(1) + np.log(self.shares)
        return constant + roots - (FREEDOM + d) / 2 * np.log1p(distances / FREEDOM)

    def log_density(self, points: Array) -> Array:
        return special.logsumexp(self.log_parts(self.distances(points)), axis=1)


@dataclass(frozen=True)
class Proposal:
    """A Student mixture in θ, and with probability `prior_share` the prior itself."""

    mixture: StudentMixture
    prior_share: float

    def draw(self, target: Target, size: int, rng: np.random.Generator) -> Draws:
        count = int(rng.binomial(size, self.prior_share))
        points = self.mixture.sample(size - count, rng)
        return target.complete(points, rng).joined(target.prior_draws(count, rng))

    def log_over_prior(self, draws: Draws) -> Array:
        """Log density of the proposal relative to the prior's, where inner draws are the same."""
        ratio = self.mixture.log_density(draws.points) - draws.log_prior
        return np.logaddexp(math.log(self.prior_share), math.log1p(-self.prior_share) + ratio)

    def log_weights(self, draws: Draws) -> Array:
        values = draws.log_likelihood - self.log_over_prior(draws)
        return np.where(np.isneginf(draws.log_prior), -np.inf, values)


# -------------------------------------------------------------------- modes


def start_points(target: Target, random: int, rng: np.random.Generator) -> Array:
    """Every set of fitted directions along the data's axes, fits in random axes, and draws of the prior."""
    n, data = target.outputs, target.likelihood
    fitted = np.maximum(data.strengths, 1e-12)
    typical = np.exp([2 * row.mean for row in target.rows])
    small = np.minimum(typical, 0.3 * data.noise / (len(data.eigenvalues) * data.eigenvalues.max()))
    sets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    scales = [np.diag(np.where(chosen, fitted, small)) for chosen in sets]
    for _ in range(random):
        axes = np.linalg.qr(rng.standard_normal((n, n)))[0][:, : rng.integers(1, n + 1)]
        scales.append(axes @ (axes.T * fitted) @ axes @ axes.T + np.diag(small))
    roots = np.linalg.cholesky(data.turn.T @ np.array(scales) @ data.turn)
    points = np.concatenate([target.point(roots), target.prior_draws(random, rng).points])
    points[:, :n] = np.clip(points[:, :n], target.low + 0.1, target.high - 0.1)
    return points


def derivatives(target: Target, points: Array, step: float = 1e-3) -> tuple[Array, Array]:
    """Gradients and Hessians of the smooth log posterior, by differences."""
    d = target.dimension
    first, second = np.triu_indices(d, 1)
    moves = step * np.concatenate([np.zeros((1, d)), np.eye(d), np.eye(d)[first] + np.eye(d)[second]])
    up, down = (target.smooth(points[:, None] + sign * moves) for sign in (1, -1))
    centre, even = up[:, :1], up + down
    H = np.zeros((len(points), d, d))
    H[:, range(d), range(d)] = even[:, 1 : d + 1] - 2 * centre
    singles = even[:, 1 : d + 1]
    mixed = even[:, d + 1 :] + 2 * centre - singles[:, first] - singles[:, second]
    H[:, first, second] = H[:, second, first] = mixed / 2
    return (up - down)[:, 1 : d + 1] / (2 * step), H / step**2


def climb(target: Target, points: Array, steps: int = 60) -> tuple[Array, Array]:
    """Damped Newton steps of all points together, each until it stops; curvatures count by their size."""
    points, values, damping = points.copy(), target.smooth(points), np.full(len(points), 0.1)
    active = np.arange(len(points))
    for _ in range(steps):
        move = _newton(target, points[active], damping[active])
        proposed = target.smooth(points[active] + move)
        better = proposed >= values[active]
        small = better & (proposed < values[active] + 1e-5)
        points[active[better]] += move[better]
        values[active] = np.maximum(values[active], proposed)
        damping[active] = np.where(better, 0.3 * damping[active], 8 * damping[active] + 0.1)
        active = active[~small & (damping[active] < 1e8)]
        if not len(active):
            break
    return points, values


def _newton(target: Target, points: Array, damping: Array) -> Array:
    gradient, H = derivatives(target, points)
    curvature, axes = np.linalg.eigh(-np.clip(np.nan_to_num(H), -1e12, 1e12))
    along = np.einsum("nab,na->nb", axes, np.clip(np.nan_to_num(gradient), -1e12, 1e12))
    scaled = along / (np.maximum(abs(curvature), 0.01) * (1 + damping[:, None]))
    move = np.einsum("nab,nb->na", axes, scaled)
    return move * np.minimum(1, 1.5 / np.maximum(abs(move).max(1, keepdims=True), 1e-300))


@dataclass(frozen=True)
class Mode:
    """A local maximum of the smooth log posterior and its Laplace mass."""

    point: Array
    covariance: Array
    log_mass: float


def find_modes(target: Target, random: int, rng: np.random.Generator) -> list[Mode]:
    """Distinct modes, highest first, down to sixty nats below the best."""
    points, values = climb(target, start_points(target, random, rng))
    hessians = derivatives(target, points)[1]
    modes: list[Mode] = []
    for index in np.argsort(-values):
        if values[index] < values.max() - 60 or not np.all(np.isfinite(hessians[index])):
            continue
        curvature, axes = np.linalg.eigh(-hessians[index])
        curvature = np.clip(curvature, 0.05, 1e8)
        mode = Mode(points[index], (axes / curvature) @ axes.T, values[index] - 0.5 * np.log(curvature).sum())
        if all(_distance(mode.point, other) > 1 for other in modes):
            modes.append(mode)
    return modes


def _distance(point: Array, mode: Mode) -> float:
    gap = point - mode.point
    return float(gap @ np.linalg.solve(mode.covariance, gap))


# -------------------------------------------------------------------- adaptation


def first_proposal(modes: list[Mode]) -> Proposal:
    """Each mode in a narrow and a wide part, by Laplace mass but none below a fiftieth of the best."""
    masses = np.array([mode.log_mass for mode in modes])
    shares = np.exp(np.maximum(masses - masses.max(), -4.0))
    means = np.array([mode.point for mode in modes] * 2)
    scales = [1.2 * mode.covariance for mode in modes] + [5.0 * mode.covariance for mode in modes]
    return Proposal(StudentMixture(np.r_[2 * shares, shares], means, np.array(scales)), 0.2)


def adapt(
    target: Target, proposal: Proposal, rounds: int, size: int, parts: int, rng: np.random.Generator
) -> tuple[Proposal, float]:
    """Rounds of draws; each adds a part at the heaviest point and refits all. Also the effective share."""
    used: list[Proposal] = []
    pool: list[Draws] = []
    for _ in range(rounds):
        used, pool = [*used[-2:], proposal], [*pool[-2:], proposal.draw(target, size, rng)]
        share = effective_size(proposal.log_weights(pool[-1])) / size
        draws = pool[0]
        for more in pool[1:]:
            draws = draws.joined(more)
        log_mixed = special.logsumexp([one.log_over_prior(draws) for one in used], axis=0) - math.log(
            len(used)
        )
        weights = draws.log_likelihood - log_mixed
        weights[np.isneginf(draws.log_prior) | ~np.isfinite(draws.points).all(1)] = -np.inf
        proposal = refit(proposal, draws, weights - special.logsumexp(weights), parts)
    return proposal, share


def effective_size(log_weights: Array) -> float:
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / np.sum(weights**2))


def refit(proposal: Proposal, draws: Draws, log_weights: Array, parts: int) -> Proposal:
    """Two steps of weighted expectation-maximisation, with weights cut so that no point decides alone."""
    inside = np.isfinite(log_weights)
    points = draws.points[inside]
    weights = np.exp(np.minimum(log_weights[inside], -math.log(max(20.0, 0.02 * len(points)))))
    weights /= weights.sum()
    from_prior = proposal.prior_share * np.exp(-proposal.log_over_prior(draws)[inside])
    mixture = proposal.mixture
    if len(mixture.shares) < parts:
        mixture = _with_part_at(mixture, points, weights, int(np.argmax(log_weights[inside])))
    for _ in range(2):
        mixture = _maximised(mixture, points, weights * (1 - from_prior))
    return Proposal(mixture, float(np.clip(weights @ from_prior, 0.05, 0.9)))


def _with_part_at(mixture: StudentMixture, points: Array, weights: Array, index: int) -> StudentMixture:
    """Add a part about one point with the spread of its neighbours."""
    spread = weights @ (points - weights @ points) ** 2 + 1e-12
    nearest = np.argsort(np.sum((points - points[index]) ** 2 / spread, 1))[: max(len(points) // 20, 100)]
    local = weights[nearest] + 1 / len(points)
    gaps = points[nearest] - points[index]
    scale = (gaps.T * (local / local.sum())) @ gaps + 1e-3 * np.diag(spread)
    means, scales = np.vstack([mixture.means, points[index]]), np.concatenate([mixture.scales, scale[None]])
    return StudentMixture(np.r_[mixture.shares, 0.1], means, scales)


def _maximised(mixture: StudentMixture, points: Array, weights: Array) -> StudentMixture:
    """One step of expectation-maximisation; parts that own nearly nothing are dropped."""
    d, distances = points.shape[1], mixture.distances(points)
    owned = special.softmax(mixture.log_parts(distances), axis=1) * weights[:, None]
    total = owned.sum(0)
    total /= total.sum()
    owned /= np.maximum(owned.sum(0), 1e-300)
    pull = owned * (FREEDOM + d) / (FREEDOM + distances)
    kept = np.flatnonzero(total > min(1e-3, total.max() / 2))
    fitted = [_moments(points, owned[:, k], pull[:, k], mixture.means[k], mixture.scales[k]) for k in kept]
    means, scales = (np.array(values) for values in zip(*fitted, strict=True))
    return StudentMixture(np.maximum(total[kept], 0.005), means, scales)


def _moments(points: Array, owned: Array, pull: Array, mean: Array, scale: Array) -> tuple[Array, Array]:
    """Weighted mean and scale matrix, drawn to the old ones where few points speak."""
    d, effective = len(mean), 1 / np.sum(owned**2)
    if effective < 1 + d / 2:
        return mean, scale
    new = pull @ points / pull.sum()
    gaps = points - new
    keep = d / (d + effective)
    fresh = (gaps.T * pull) @ gaps
    mixed = (1 - keep) * fresh + keep * scale
    return new, mixed + 1e-9 * np.trace(mixed) / d * np.eye(d)
