"""Modes of the posterior of T: one search from every phase that the axes of the data suggest.

In the axes of the data the likelihood of a diagonal L is a product over axes, so every axis is a problem of
one variable whose peaks a scan finds: an output direction can be *fitted*, or *collapsed* towards zero where
the prior keeps mass. Searches start from the combinations of these peaks, in the frame in which the stronger
directions come first, and end in the frame in which L is diagonal.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.types import Array, IndexArray
from lbnn.engines.axis_laws import examples_of
from lbnn.engines.total_target import TotalTarget
from lbnn.likelihood.gaussian import GaussianLikelihood

_SCAN = np.arange(-40.0, 25.0, 0.5)  # logs of a diagonal entry of T, relative to the prior's typical one
_MOST_STARTS = 16
_DIAGONAL = 0.05  # entries below the diagonal, in deviations of the prior, that need no frame of their own
_RANDOM_STARTS = (1, 1)  # at depth two, and deeper
_DIFFERENCE = 1e-4
_APART = 0.75  # distance between peaks of two scans above which they are two
_MOST_STEPS = 30
_CUTS = np.array([1.0, 0.5, 0.25, 0.05, 0.005])  # of a step that are tried
_FLATTEST, _LONGEST = 0.05, 3.0  # curvature below which a step is not trusted, and its length in units
_CONVERGED = 1e-2  # gain in nats at which a search ends: a tenth of a standard deviation from the mode
_SAME = 4.0  # square distance in standard deviations below which modes are the same
WIDEST = 3.0  # standard deviation allowed to a mode, in units of the prior's
_HEAVY = 2.0  # E l²/(E l)² above which the mean of a squared diagonal entry lives in a tail
_NEGLIGIBLE = 40.0  # nats below the highest at which a mode is left out


@dataclass(frozen=True)
class Mode:
    """A local maximum of the posterior of T: L is diagonal in its frame, largest first."""

    frame: Array
    theta: Array
    height: float  # log posterior there, with inner factors at typical values
    units: Array  # of the coordinates, (dimension,)
    hessian: Array  # of the negative log posterior, in these units
    tilt: int = -1  # axis j if it is a mode of the posterior times L_jj


def find_modes(target: TotalTarget, scans: list[AxisScan]) -> list[Mode]:
    """All modes found from combinations of peaks along axes of the data, and from draws of the prior."""
    begin = [starts(target, target.axes, scans)]
    begin += [starts(target, frame, scan_axes(target, frame)) for frame in target.target.frames[1:]]
    if target.target.any_frame:
        begin.append(_random_starts(target))
    thetas, frames = (np.concatenate(each) for each in zip(*begin, strict=True))
    modes = _distinct(target, climb(target, thetas, frames))
    return [mode for mode in modes if mode.height > modes[0].height - _NEGLIGIBLE]


def _distinct(target: TotalTarget, modes: list[Mode]) -> list[Mode]:
    """Modes without repeats, highest first."""
    result: list[Mode] = []
    for mode in sorted(modes, key=lambda mode: -mode.height):
        if not any(_same(target, mode, other) for other in result):
            result.append(mode)
    return result


@dataclass(frozen=True)
class AxisScan:
    """Log posterior of a diagonal T along one axis of the data.

    The prior depends on the place of the axis: where it leads, and where it comes last, behind the others,
    which is where it collapses most easily.
    """

    logs: Array  # of the diagonal entry
    leading: Array
    last: Array

    def peaks(self) -> list[tuple[float, float]]:
        """The highest peak where the axis leads, and the highest other one, there or where it comes last."""
        (first, *others) = _local_maxima(self.logs, self.leading)
        return [first, *_apart(others + _local_maxima(self.logs, self.last), first[0])]

    @property
    def spread(self) -> float:
        """E l² / (E l)² of the squared entry l: large where its mean is carried by the tail of its law."""
        log_total, log_first, log_second = (
            log_sum_exp(self.leading + power * self.logs) for power in (0, 2, 4)
        )
        return float(np.exp(min(log_second + log_total - 2 * log_first, 700.0)))


def _apart(peaks: list[tuple[float, float]], from_: float) -> list[tuple[float, float]]:
    """The first of the peaks that is another one."""
    return [peak for peak in peaks if abs(peak[0] - from_) > _APART][:1]


def _local_maxima(logs: Array, height: Array) -> list[tuple[float, float]]:
    """Positions and heights of the local maxima of a scan (k,), highest first."""
    padded = np.concatenate([[-np.inf], height, [-np.inf]])
    top = np.flatnonzero((padded[1:-1] >= padded[:-2]) & (padded[1:-1] > padded[2:]))
    return sorted(((float(logs[i]), float(height[i])) for i in top), key=lambda peak: -peak[1])


def scan_axes(target: TotalTarget, frame: Array) -> list[AxisScan]:
    """One scan for every axis of a frame (n, n): first leading, then last behind the peaks of all others."""
    law = target.law
    middle = law.typical_logs
    places = [0 if target.target.any_frame else min(axis, law.columns - 1) for axis in range(law.rows)]
    logs = np.stack([middle[place] + _SCAN for place in places])
    leading = _scan_leading(target, frame, places, logs)
    peaks = logs[np.arange(law.rows), leading.argmax(axis=1)]
    last = _scan_last(target, frame, peaks, logs)
    return [AxisScan(*each) for each in zip(logs, leading, last, strict=True)]


def _scan_leading(target: TotalTarget, frame: Array, places: list[int], logs: Array) -> Array:
    """Log posterior of a diagonal T along every axis, the others at values typical a priori, (axes, m)."""
    law, likelihood = target.law, target.target.likelihood
    if isinstance(likelihood, GaussianLikelihood) and likelihood.units is None and not likelihood.flat:
        rows = examples_of(likelihood, frame)  # a product over axes, whatever the others are
        assert rows is not None
        height = np.stack([rows.merged.log_likelihood(axis, each) for axis, each in enumerate(logs)])
    else:
        height = _likelihood_scan(target, frame, places, logs)
    for axis, place in enumerate(places):
        height[axis] += law.diagonal_marginals[place].log_density(logs[axis] - law.shift)[0]
    return np.where(np.isnan(height), -np.inf, height)


def _likelihood_scan(target: TotalTarget, frame: Array, places: list[int], logs: Array) -> Array:
    """Log likelihood of a diagonal T along every axis, (axes, m), for any likelihood."""
    law = target.law
    every = np.arange(law.rows)
    orders = [np.roll(every, -axis) if target.target.any_frame else every for axis in every]
    theta = np.zeros((*logs.shape, law.dimension))
    theta[:, :, : law.columns] = law.typical_logs
    theta[every, :, places] = logs
    total = law.matrices(theta.reshape(-1, law.dimension))
    frames = _each_its_own(frame, orders, logs.shape[1])
    return target.target.log_likelihood(total, frames).reshape(logs.shape)


def _scan_last(target: TotalTarget, frame: Array, peaks: Array, logs: Array) -> Array:
    """Log posterior along every axis if it comes last in its frame, the others at their peaks, (axes, m)."""
    law = target.law
    alone = len(law.shapes) == 1  # one hidden layer has no collapsed phase
    if not target.target.any_frame or law.columns < law.rows or alone:
        return np.full(logs.shape, -np.inf)
    others = [
        [other for other in np.argsort(-peaks, kind="stable") if other != axis] for axis in range(law.rows)
    ]
    theta = np.zeros((*logs.shape, law.dimension))
    theta[:, :, : law.rows - 1] = peaks[np.array(others, int)][:, None, :]
    theta[:, :, law.rows - 1] = logs
    orders = [np.array([*before, axis]) for axis, before in enumerate(others)]
    height = target.typical_value(
        theta.reshape(-1, law.dimension), _each_its_own(frame, orders, logs.shape[1])
    )
    return np.where(np.isnan(height), -np.inf, height).reshape(logs.shape)


def _each_its_own(frame: Array, orders: list[IndexArray], count: int) -> Array:
    """The frame with its axes in each of the orders, for so many points each, (orders · count, n, n)."""
    return np.stack([frame[:, order] for order in orders]).repeat(count, axis=0)


def starts(target: TotalTarget, frame: Array, scans: list[AxisScan]) -> tuple[Array, Array]:
    """Points θ (m, k) and frames (m, n, n) to start from.

    They are combinations of the peaks along the axes of a frame (n, n).
    """
    law = target.law
    combinations = _combinations([scan.peaks() for scan in scans])
    if target.target.any_frame:
        return _ordered(target, frame, combinations)
    theta = np.stack([_diagonal(target, logs[: law.columns]) for logs in combinations])
    return theta, np.repeat(frame[None], len(theta), axis=0)


def _ordered(target: TotalTarget, axes: Array, combinations: list[Array]) -> tuple[Array, Array]:
    """θ (m, k) of diagonal T with given logs along the axes, strongest first, and frames (m, n, n)."""
    thetas, frames = [], []
    for logs in combinations:
        for chosen in _leading(np.argsort(-logs, kind="stable"), target.law.columns):
            thetas.append(_diagonal(target, logs[chosen[: target.law.columns]]))
            frames.append(axes[:, chosen])
    return np.stack(thetas[:_MOST_STARTS]), np.stack(frames[:_MOST_STARTS])


def find_tails(target: TotalTarget, scans: list[AxisScan]) -> list[Mode]:
    """Modes of the posterior times L_jj for the axes j along which the mean of L is carried by a tail."""
    best = np.array([scan.peaks()[0][0] for scan in scans])
    heavy = [axis for axis, scan in enumerate(scans) if scan.spread > _HEAVY]
    if not heavy:
        return []
    thetas, frames = [], []
    for axis in heavy:
        logs = best.copy()
        logs[axis] = max(logs[axis], float(target.law.typical_logs[0]))
        order = np.argsort(-logs, kind="stable") if target.target.any_frame else np.arange(len(logs))
        if target.law.columns < target.law.rows:  # behind a bottleneck the axis must lead
            order = np.array([axis, *(other for other in order if other != axis)])
        thetas.append(_diagonal(target, logs[order[: target.law.columns]]))
        frames.append(target.axes[:, order])
    return climb(target, np.stack(thetas), np.stack(frames), np.array(heavy))


def _random_starts(target: TotalTarget) -> tuple[Array, Array]:
    """Draws θ (m, k) of the prior in random frames (m, n, n), which do not depend on the data."""
    count = _RANDOM_STARTS[min(len(target.law.shapes), 2) - 1]
    rng = np.random.default_rng(0)
    frames = np.linalg.qr(rng.standard_normal((count, target.law.rows, target.law.rows))).Q
    return target.law.sample_typical(count, rng), np.asarray(frames, float)


def _leading(order: IndexArray, columns: int) -> list[IndexArray]:
    """Orders (n,) of the axes, strongest first; behind a bottleneck every choice of those that lead."""
    if columns == len(order):
        return [order]
    choices = itertools.islice(itertools.combinations(order, columns), _MOST_STARTS)
    return [np.array([*lead, *(axis for axis in order if axis not in lead)]) for lead in choices]


def _diagonal(target: TotalTarget, logs: Array) -> Array:
    """θ (k,) of a diagonal T with these logarithms (columns,)."""
    theta = np.zeros(target.law.dimension)
    theta[: len(logs)] = logs
    return theta


def _combinations(peaks: list[list[tuple[float, float]]]) -> list[Array]:
    """Logs (n,) of the diagonal for combinations of the two highest peaks of every axis, closest first."""
    two = [axis[:2] for axis in peaks]
    doubtful = [i for i, axis in enumerate(two) if len(axis) > 1]
    doubtful.sort(key=lambda i: two[i][0][1] - two[i][1][1])
    free = doubtful[: _MOST_STARTS.bit_length() - 1]
    result = []
    for picks in itertools.product((0, 1), repeat=len(free)):
        logs = np.array([axis[0][0] for axis in two])
        for i, pick in zip(free, picks, strict=True):
            logs[i] = two[i][pick][0]
        result.append(logs)
    return result


def climb(target: TotalTarget, theta: Array, frames: Array, tilt: IndexArray | None = None) -> list[Mode]:
    """Modes above the starts θ (k, dimension) in their frames (k, n, n), each in its own frame.

    With `tilt` (k,) modes of the posterior times L_jj, along axes j of the data. Starts that lead out of
    double precision are dropped, and so are those that lead out of the scan: where the deviations of the
    entries below go to zero with the diagonal of T, the density of θ has no bound, but no mass.
    """
    theta = _maximise(target, theta, frames, tilt)
    roots = frames @ target.law.matrices(theta)
    frames, theta = frames.copy(), theta.copy()
    turn = [k for k in range(len(theta)) if target.target.any_frame and _oblique(target, theta[k], roots[k])]
    for k in turn:
        frames[k] = target.diagonalising_frame(roots[k])
        theta[k] = target.to_coordinates(roots[k, None], frames[k])[0]
    if turn:
        theta[turn] = _maximise(target, theta[turn], frames[turn], None if tilt is None else tilt[turn])
    heights = _tilted_value(target, theta, frames, tilt)
    finite = np.isfinite(heights) & np.isfinite(theta).all(axis=1)
    inside = finite & (theta[:, : target.law.columns] > target.law.typical_logs + _SCAN[0]).all(axis=1)
    fine = np.flatnonzero(inside if inside.any() else finite)
    frames, theta = frames[fine], theta[fine]
    tilts = np.full(len(fine), -1) if tilt is None else tilt[fine]
    units = coordinate_units(target, theta)
    hessian = _derivatives(target, theta, frames, units, None if tilt is None else tilts)[1]
    return [
        Mode(frames[k], theta[k], float(heights[fine[k]]), units[k], hessian[k], int(tilts[k]))
        for k in range(len(fine))
    ]


def _oblique(target: TotalTarget, theta: Array, root: Array) -> bool:
    """Whether a scale with θ (k,) and root (n, columns) needs a frame of its own.

    It does where it is far from diagonal, or out of order.
    """
    if not np.isfinite(root).all():
        return False
    logs, entries = theta[: target.law.columns], theta[target.law.columns :]
    size = np.abs(entries) / coordinate_units(target, theta[None])[0, target.law.columns :]
    return not bool((size < _DIAGONAL).all() and (np.diff(logs) < _DIAGONAL).all())


def _maximise(target: TotalTarget, theta: Array, frames: Array, tilt: IndexArray | None) -> Array:
    """Newton's method for all starts θ (m, k) at once.

    Steps go along the absolute curvature and are cut where needed.
    """
    best = theta.copy()
    value = _tilted_value(target, best, frames, tilt)
    active = np.flatnonzero(np.isfinite(value))
    for _ in range(_MOST_STEPS):
        if not len(active):
            break
        own = None if tilt is None else tilt[active]
        step, promise = _newton_steps(target, best[active], frames[active], own)
        trials = best[active, None] + _CUTS[:, None] * step[:, None]
        flat = trials.reshape(-1, theta.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            repeated = None if own is None else own.repeat(len(_CUTS))
            reached = _tilted_value(target, flat, frames[active].repeat(len(_CUTS), axis=0), repeated)
        reached = np.where(np.isnan(reached), -np.inf, reached).reshape(len(active), -1)
        top = reached.argmax(axis=1)
        gain = reached[np.arange(len(active)), top] - value[active]
        better = gain > 0
        moved = active[better]
        best[moved] = trials[better, top[better]]
        value[moved] += gain[better]
        active = active[better & (np.maximum(promise, gain) > _CONVERGED)]
    return best


def _newton_steps(
    target: TotalTarget, theta: Array, frames: Array, tilt: IndexArray | None
) -> tuple[Array, Array]:
    """Steps (k, dimension) and the gain that the quadratic model promises, (k,)."""
    units = coordinate_units(target, theta)
    gradient, hessian = _derivatives(target, theta, frames, units, tilt, central=False)
    values, vectors = np.linalg.eigh(hessian)
    along = (vectors.swapaxes(1, 2) @ gradient[:, :, None])[:, :, 0]
    size = along / np.maximum(np.abs(values), _FLATTEST)
    size = np.clip(size, -_LONGEST, _LONGEST)
    return units * (vectors @ size[:, :, None])[:, :, 0], (size * along).sum(axis=1)


def _derivatives(
    target: TotalTarget,
    theta: Array,
    frames: Array,
    units: Array,
    tilt: IndexArray | None,
    central: bool = True,
) -> tuple[Array, Array]:
    """Gradient (k, D) and Hessian (k, D, D) of the negative log posterior in the given units.

    By differences of gradients, central ones for the shape of a mode; ahead only for a step towards it.
    """
    count, dimension = theta.shape
    steps = _DIFFERENCE * units[:, None, :] * np.eye(dimension)
    sides = [theta[:, None] + steps, theta[:, None] - steps] if central else [theta[:, None] + steps]
    points = np.concatenate([theta[:, None], *sides], axis=1)
    each = points.shape[1]
    repeated = None if tilt is None else tilt.repeat(each)
    slopes = _tilted(target, points.reshape(-1, dimension), frames.repeat(each, axis=0), repeated)[1]
    slopes = slopes * units.repeat(each, axis=0)
    slopes = slopes.reshape(count, -1, dimension)
    ahead = slopes[:, 1 : dimension + 1]
    behind, width = (slopes[:, dimension + 1 :], 2) if central else (slopes[:, :1], 1)
    hessian = (behind - ahead) / (width * _DIFFERENCE)
    return slopes[:, 0], (hessian + hessian.swapaxes(1, 2)) / 2


def _tilted_value(target: TotalTarget, theta: Array, frames: Array, tilt: IndexArray | None) -> Array:
    """Typical log posterior, plus log L_jj along axes of the data if there are tilts, (k,)."""
    value = target.typical_value(theta, frames)
    if tilt is None:
        return value
    size = (_along(target, theta, frames, tilt)[2] ** 2).sum(axis=1)  # 0 behind a bottleneck: no start
    return np.where(size > 0, value + np.log(np.where(size > 0, size, 1.0)), -np.inf)


def _tilted(target: TotalTarget, theta: Array, frames: Array, tilt: IndexArray | None) -> tuple[Array, Array]:
    """`_tilted_value` (m,) and its gradient (m, k)."""
    value, gradient = target.typical(theta, frames)
    if tilt is None:
        return value, gradient
    total, axis, row = _along(target, theta, frames, tilt)
    size = (row**2).sum(axis=1)
    safe = np.where(size > 0, size, 1.0)
    slope = 2 * axis[:, :, None] * row[:, None, :] / safe[:, None, None]
    value = np.where(size > 0, value + np.log(safe), -np.inf)
    return value, gradient + target.law.pull_back(total, slope)


def _along(target: TotalTarget, theta: Array, frames: Array, tilt: IndexArray) -> tuple[Array, Array, Array]:
    """T (m, n, columns), the tilted axes (m, n) of the data in the frames, and the rows of T along them."""
    total = target.law.matrices(theta)
    axis = (frames.swapaxes(1, 2) @ target.axes.T[tilt][:, :, None])[:, :, 0]
    return total, axis, (axis[:, None, :] @ total)[:, 0]


def coordinate_units(target: TotalTarget, theta: Array) -> Array:
    """One for logs of the diagonal, the prior's typical deviation for entries below, (k, dimension)."""
    log_variance = target.law.log_typical_variance(theta[:, : target.law.columns])[0]
    return np.concatenate([np.ones((len(theta), target.law.columns)), np.exp(0.5 * log_variance)], axis=1)


def _same(target: TotalTarget, one: Mode, other: Mode) -> bool:
    """Whether a mode lies within the Gaussian of another, higher one: on a ridge, or where all is flat."""
    seen = target.to_coordinates(target.roots(one.theta[None], one.frame), other.frame)[0]
    if not np.isfinite(seen).all():  # a zero on the diagonal: infinitely far away
        return False
    away = (seen - other.theta) / other.units
    values, vectors = np.linalg.eigh(other.hessian)
    return bool(((vectors.T @ away) ** 2 * np.maximum(values, WIDEST**-2)).sum() < _SAME)
