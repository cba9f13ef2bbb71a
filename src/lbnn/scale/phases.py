"""Phases: the modes of the law of the scale, each with its mass.

From depth three on, an output direction can be fitted or collapsed, and both can be modes of one posterior.
With one output the phases are the modes of the density of x = log λ, cut at the minima between them. The log
density is smooth on a scale of order one in x, so that its slope on a grid shows every turn; each part is
integrated by Gauss–Legendre panels in v, x = peak + width · sinh(v). With several outputs atoms carry labels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from scipy.optimize import elementwise

from lbnn._base.types import Array, IndexArray

_GRID_STEP = 1 / 8  # in log λ; where the slope comes near zero without crossing it ...
_REFINEMENTS = 14  # ... so many halvings look for a crossing: a bump still hidden is below rounding
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(16)
_FIRST_PANELS = 8
_DOUBLINGS = 8
_TOLERANCE = 1e-12  # change of a phase's integrals, in logs, at the last doubling

RealFunction = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Phase:
    """One mode of the law of the scale.

    Attributes
    ----------
    mass : float
        Posterior probability of the phase.
    error : float
        Monte Carlo standard error of `mass`; 0.0 for one output.
    mean_scale : float or (n_d, n_d) array
        E L given the phase; a number when Y was one-dimensional.
    fitted_directions : int
        Number of output directions along which the network's signal exceeds the noise at the mode; the others
        are collapsed.
    """

    mass: float
    error: float
    mean_scale: float | Array
    fitted_directions: int


@dataclass(frozen=True, eq=False, repr=False)
class Phases(Sequence[Phase]):
    """The phases of a law of the scale, largest mass first. Returned by `ScaleMeasure.phases`.

    Examples
    --------
    Ten weights, twenty examples: half of the posterior says that the network does nothing.

    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, teacher = rng.normal(size=(20, 2)), rng.normal(size=2)
    >>> y = X @ teacher / np.linalg.norm(teacher) + 0.1196 * rng.normal(size=20)
    >>> post = lbnn.Network((2, 2), prior_variances=(0.01,) * 3).condition(X, y, beta=1 / 0.1196**2)
    >>> phases = post.scale.phases()
    >>> phases
    Phases(2: mass 0.508, 0 fitted; mass 0.492, 1 fitted)
    >>> phases.mass.round(3), phases.fitted_directions
    (array([0.508, 0.492]), array([0, 1]))
    >>> [f"{phase.mean_scale:.2g}" for phase in phases]
    ['0.00013', '0.35']
    """

    items: tuple[Phase, ...]

    def __post_init__(self) -> None:
        """Largest mass first."""
        object.__setattr__(self, "items", tuple(sorted(self.items, key=lambda phase: -phase.mass)))

    def __repr__(self) -> str:
        """One line: the masses, with their errors where they have any."""
        return f"Phases({len(self)}: {'; '.join(_describe(phase) for phase in self)})"

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Phase]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> Phase: ...
    @overload
    def __getitem__(self, index: slice) -> Phases: ...
    def __getitem__(self, index: int | slice) -> Phase | Phases:
        return Phases(self.items[index]) if isinstance(index, slice) else self.items[index]

    @property
    def mass(self) -> Array:
        """Posterior probability of every phase, (phases,); they sum to one."""
        return np.array([phase.mass for phase in self.items])

    @property
    def error(self) -> Array:
        """Monte Carlo standard error of every mass, (phases,)."""
        return np.array([phase.error for phase in self.items])

    @property
    def mean_scale(self) -> Array:
        """E L given each phase, (phases, n_d, n_d), or (phases,) when Y was one-dimensional."""
        return np.array([phase.mean_scale for phase in self.items])

    @property
    def fitted_directions(self) -> IndexArray:
        """Number of fitted output directions of every phase, (phases,)."""
        return np.array([phase.fitted_directions for phase in self.items], dtype=np.intp)


def _describe(phase: Phase) -> str:
    error = f" ± {phase.error:.1g}" if phase.error else ""
    return f"mass {phase.mass:.3g}{error}, {phase.fitted_directions} fitted"


def single_phase(mean_scale: Array, single_output: bool, fitted: int | None = None) -> Phases:
    """All mass in one phase of mean L (n_d, n_d); its rank counts as fitted unless a number is given."""
    directions = int(np.linalg.matrix_rank(mean_scale, hermitian=True)) if fitted is None else fitted
    return Phases((Phase(1.0, 0.0, _shaped(mean_scale, single_output), directions),))


def phases_of_labels(
    matrices: Array,
    weights: Array,
    groups: IndexArray | None,
    labels: IndexArray,
    fitted: Sequence[int] | IndexArray,
    single_output: bool,
) -> Phases:
    """Phases of weighted atoms that carry labels.

    Parameters
    ----------
    matrices : (m, n_d, n_d) array
        Scales L, or roots F of L = F Fᵀ with fewer columns than rows, (m, n_d, k).
    weights : (m,) array
        Normalised.
    groups : (m,) array or None
        Independent replicates, from which errors come; None for atoms without Monte Carlo error.
    labels : (m,) array of int
        Phase of every atom: 0, 1, ...
    fitted : sequence of int
        Number of fitted directions of every label.
    single_output : bool
        Whether the scales are numbers to the user.

    Returns
    -------
    Phases
        Labels without weight are left out.

    Examples
    --------
    >>> import numpy as np
    >>> scales = np.array([0.0, 1.0, 3.0, 0.0])[:, None, None] * np.eye(2)
    >>> groups, labels = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])
    >>> phases_of_labels(scales, np.full(4, 0.25), groups, labels, (0, 2), False).mean_scale[:, 0, 0]
    array([0., 2.])
    """
    found = []
    for label in np.unique(labels):
        inside = (labels == label).astype(float)
        mass = float(weights @ inside)
        if mass > 0:
            mean = average_scale(matrices, weights * inside) / mass
            error = float(standard_error(inside, weights, groups))
            found.append(Phase(mass, error, _shaped(mean, single_output), int(fitted[label])))
    return Phases(tuple(found))


def average_scale(matrices: Array, weights: Array) -> Array:
    """Σ_s w_s L_s (n_d, n_d) of scales (m, n_d, n_d), or of roots of them (m, n_d, k), k < n_d."""
    if matrices.shape[2] == matrices.shape[1]:
        return np.tensordot(weights, matrices, axes=1)
    weighted = matrices * np.sqrt(weights)[:, None, None]
    flat = weighted.transpose(1, 0, 2).reshape(matrices.shape[1], -1)
    return flat @ flat.T


def standard_error(values: Array, weights: Array, groups: IndexArray | None) -> Array:
    """Standard error of Σ_s w_s values_s, values (m, ...), from the spread of independent groups (m,)."""
    if groups is None:
        return np.zeros(values.shape[1:])
    names = np.unique(groups)
    centred = values - np.tensordot(weights, values, axes=1)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    if len(starts) == len(names):  # groups one after the other
        ends = [*starts[1:], len(groups)]
        parts = [weights[a:b] @ centred[a:b].reshape(b - a, -1) for a, b in zip(starts, ends, strict=True)]
    else:
        parts = [weights[here] @ centred[here].reshape(here.sum(), -1) for here in groups == names[:, None]]
    spread = _root_of_squares(np.stack(parts)).reshape(values.shape[1:])
    return spread * math.sqrt(len(names) / (len(names) - 1))


def error_of_independent(values: Array, weights: Array) -> Array:
    """The same for independent draws: √(Σ_s w_s² (values_s − mean)²), values (m, ...), weights (m,)."""
    centred = values - np.tensordot(weights, values, axes=1)
    return _root_of_squares((weights * centred.T).T)


def _root_of_squares(values: Array) -> Array:
    """√(Σ_s values_s²), values (m, ...), where the squares themselves may leave the range of a double."""
    largest = np.abs(values).max(axis=0)
    return largest * np.sqrt(((values / np.where(largest > 0, largest, 1.0)) ** 2).sum(axis=0))


def _shaped(scale: Array, single_output: bool) -> float | Array:
    """A matrix (n_d, n_d), or its entry when Y was one-dimensional."""
    return float(scale[0, 0]) if single_output else scale


# ---------------------------------------------------------------------- one output


@dataclass(frozen=True)
class LogScaleDensity:
    """A smooth density of x = log λ with all that matters of it between `low` and `high`."""

    log_density: RealFunction  # up to a constant
    slope: RealFunction  # its derivative
    rounding: RealFunction  # what rounding may do to it
    low: float
    high: float


@dataclass(frozen=True)
class Mode:
    """A peak of a density of x = log λ and what lies between the minima on its sides."""

    location: float
    mass: float
    mean_scale: float  # E e^x given the mode
    converged: bool


def modes(density: LogScaleDensity) -> list[Mode]:
    """The modes from left to right, their masses to 1e-10."""
    peaks, valleys = _turns(density)
    ends = [density.low, *valleys, density.high]
    parts = [
        _integrals(density, peak, start, end)
        for peak, (start, end) in zip(peaks, itertools.pairwise(ends), strict=True)
    ]
    log_total = np.logaddexp.reduce([log_mass for log_mass, _, _ in parts])
    return [
        Mode(peak, math.exp(log_mass - log_total), math.exp(log_moment - log_mass), converged)
        for peak, (log_mass, log_moment, converged) in zip(peaks, parts, strict=True)
    ]


def _turns(density: LogScaleDensity) -> tuple[list[float], list[float]]:
    """Peaks and the minima between them; a dip that rounding could have made is none."""
    points = _stationary_points(density)
    heights = density.log_density(points)
    noise = density.rounding(points)
    turns = list(zip(points.tolist(), heights.tolist(), noise.tolist(), strict=True))
    while len(turns) > 1:
        rises = [abs(a[1] - b[1]) - a[2] - b[2] for a, b in itertools.pairwise(turns)]
        smallest = int(np.argmin(rises))
        if rises[smallest] > 0:
            break
        turns = _without(turns, smallest)
    return [turn[0] for turn in turns[::2]], [turn[0] for turn in turns[1::2]]


def _without(turns: list[Any], smallest: int) -> list[Any]:
    """Turns, peak first and last, without a neighbouring peak and minimum: the lower peak of the dip goes."""
    valley = smallest if smallest % 2 else smallest + 1
    peak = valley - 1 if turns[valley - 1][1] < turns[valley + 1][1] else valley + 1
    return [turn for index, turn in enumerate(turns) if index not in (valley, peak)]


def _stationary_points(density: LogScaleDensity) -> Array:
    """Zeros (k,) of the slope, peak first and last; an end is a peak where the density falls from it."""
    x, slope = _refined_grid(density)
    rising = np.concatenate([[True], slope > 0, [False]])
    padded = np.concatenate([x[:1], x, x[-1:]])
    change = np.flatnonzero(rising[:-1] != rising[1:])
    left, right = padded[change], padded[change + 1]
    points = left.copy()
    inside = left < right
    if inside.any():
        points[inside] = elementwise.find_root(density.slope, (left[inside], right[inside])).x
    return points


def _refined_grid(density: LogScaleDensity) -> tuple[Array, Array]:
    """A grid (k,) and the slope on it, with more points where a peak and a minimum may hide between two."""
    count = max(65, math.ceil((density.high - density.low) / _GRID_STEP) + 1)
    x = np.linspace(density.low, density.high, count)
    slope = density.slope(x)
    index = _near_misses(slope)
    index = index[np.abs(slope[index]) * (x[1] - x[0]) > density.rounding(x[index])]
    if not len(index):
        return x, slope
    points, values = _zoom(density.slope, x, slope, index)
    points, unique = np.unique(np.concatenate([x, points]), return_index=True)
    return points, np.concatenate([slope, values])[unique]


def _near_misses(slope: Array) -> IndexArray:
    """Numbers (k,) of grid points where the slope (n,) comes near zero and goes away without crossing."""
    size, sign = np.abs(slope), np.sign(slope)
    near = (size[1:-1] < size[:-2]) & (size[1:-1] <= size[2:])
    near &= (sign[:-2] == sign[1:-1]) & (sign[2:] == sign[1:-1])
    return np.flatnonzero(near) + 1


def _zoom(slope: RealFunction, x: Array, values: Array, index: IndexArray) -> tuple[Array, Array]:
    """All points (k,) and values (k,) on the way to the smallest |slope| near x[index], by halving."""
    around = index[:, None] + np.arange(-1, 2)
    points, sizes = x[around], values[around]  # (k, 3): left, best, right
    found_points, found_values = [], []
    for _ in range(_REFINEMENTS):
        between = (points[:, :-1] + points[:, 1:]) / 2
        new = slope(between.ravel()).reshape(between.shape)
        found_points.append(between.ravel())
        found_values.append(new.ravel())
        five = np.stack([points[:, 0], between[:, 0], points[:, 1], between[:, 1], points[:, 2]], axis=1)
        five_values = np.stack([sizes[:, 0], new[:, 0], sizes[:, 1], new[:, 1], sizes[:, 2]], axis=1)
        best = 1 + np.abs(five_values[:, 1:4]).argmin(axis=1)
        take = best[:, None] + np.arange(-1, 2)
        points, sizes = np.take_along_axis(five, take, 1), np.take_along_axis(five_values, take, 1)
    return np.concatenate(found_points), np.concatenate(found_values)


def _integrals(density: LogScaleDensity, peak: float, start: float, end: float) -> tuple[float, float, bool]:
    """Log of ∫ e^f dx and of ∫ e^{f + x} dx between two cuts, and whether they converged to 1e-12."""
    step, width = 1e-4, end - start
    left, right = density.slope(np.array([peak - step, peak + step]))
    curvature = (left - right) / (2 * step)
    if curvature > 0:
        width = min(width, 1 / math.sqrt(curvature))
    first, last = math.asinh((start - peak) / width), math.asinh((end - peak) / width)
    previous, converged = np.full(2, np.nan), False
    rounding = 16 * float(density.rounding(np.array([peak]))[0])
    for doubling in range(_DOUBLINGS + 1):
        edges = np.linspace(first, last, (_FIRST_PANELS << doubling) + 1)
        half = np.diff(edges)[:, None] / 2
        v = (edges[:-1, None] + half * (1 + _PANEL_NODES)).ravel()
        x = peak + width * np.sinh(v)
        log_terms = density.log_density(x) + np.log((half * _PANEL_WEIGHTS).ravel() * width * np.cosh(v))
        current = np.array([np.logaddexp.reduce(log_terms), np.logaddexp.reduce(log_terms + x)])
        converged = bool(np.abs(current - previous).max() < _TOLERANCE + rounding)
        if converged:
            break
        previous = current
    return float(current[0]), float(current[1]), converged
