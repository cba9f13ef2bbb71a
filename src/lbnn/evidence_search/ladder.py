"""The walk over widths and depths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lbnn._types import Array
from lbnn.evidence_search import gaussian_process
from lbnn.evidence_search.data import EvidenceData
from lbnn.evidence_search.finite_width import POINTS, network_evidence
from lbnn.evidence_search.optimise import Optimum, maximise
from lbnn.evidence_search.parameters import Choice, FreeParameters, free_parameters

#: Widths tried, from wide to narrow; the integers between are tried around the best of them.
LADDER = (128, 64, 32, 20, 12, 8, 5, 3, 2, 1)
_CLEAR_DROP = 3.0  # nats below the best at which a width is clearly worse
_UNTOLD = 0.5  # error from which an estimate rests on a few draws
_COARSE = 0.15  # error above which the evidence of a contender is computed again, ...
_MORE = 8  # ... with so many times the points
_TOLERANCE = 0.02  # nats left on the table by the search for one network

Report = Callable[["Candidate"], None]


@dataclass(frozen=True)
class Shapes:
    """Which networks are candidates.

    Attributes
    ----------
    fixed : tuple of tuple of int, optional
        These widths only.
    depth : int, optional
        Equal widths from the ladder at this depth; None for depth two, and depth three near the best width.
    """

    fixed: tuple[tuple[int, ...], ...] | None = None
    depth: int | None = None


@dataclass(frozen=True)
class Candidate:
    """One network with the hyperparameters that its evidence prefers.

    Attributes
    ----------
    widths : tuple of int
        Hidden widths; () is infinite width, the Gaussian process.
    h : (n_d + 1,)
        log u and log κ.
    log_evidence, error : float
        Of the targets in the units of the search, and its Monte Carlo standard error.
    on_edge : bool
        Whether the search ended at the edge of its ranges.
    """

    widths: tuple[int, ...]
    h: Array
    log_evidence: float
    error: float
    on_edge: bool

    @property
    def supported(self) -> float:
        """The log evidence less two errors: what the estimate vouches for, by which candidates are ranked."""
        return self.log_evidence - 2 * self.error


def search(
    data: EvidenceData, choice: Choice, shapes: Shapes, *, seed: int = 0, report: Report = lambda _: None
) -> list[Candidate]:
    """Every candidate tried, best first."""
    walk = _Walk(data, free_parameters(data, choice), seed, report)
    starts = gaussian_process.search(data, choice, walk.free)
    if shapes.fixed is not None:
        for widths in shapes.fixed:
            walk.visit_from_all(widths, starts)
    else:
        walk.record((), starts[0], 0.0)
        walk.down((shapes.depth or 2) - 1, starts)
        if shapes.depth is None:
            walk.deeper()
    return sorted(walk.candidates, key=lambda candidate: -candidate.supported)


class _Walk:
    """The candidates visited so far."""

    def __init__(self, data: EvidenceData, free: FreeParameters, seed: int, report: Report) -> None:
        self.data, self.free, self.seed, self.report = data, free, seed, report
        self.candidates: list[Candidate] = []
        self.optima: dict[tuple[int, ...], Optimum] = {}

    def down(self, layers: int, starts: list[Optimum]) -> None:
        """Down the ladder until two steps in a row are clearly worse, then the integers around the best."""
        start, drops = self.visit_from_all((LADDER[0],) * layers, starts), 0
        for width in LADDER[1:]:
            start = self.visit((width,) * layers, start)
            drops = drops + 1 if self._clearly_worse(self.candidates[-1]) else 0
            if drops == 2:
                break
        for width in _between(self.best.widths):
            self.visit((width,) * layers, self.optima[self.best.widths])

    def _clearly_worse(self, candidate: Candidate) -> bool:
        """Whether a candidate falls behind; an estimate without support (it is too low) does not tell."""
        return candidate.error < _UNTOLD and candidate.log_evidence < self.best.log_evidence - _CLEAR_DROP

    def deeper(self) -> None:
        """Depth three at the best width and at the next wider one of the ladder."""
        if not self.best.widths:
            self.visit((LADDER[0],) * 2, self.optima[LADDER[:1]])
            return
        (width,) = self.best.widths
        start = self.optima[width,]
        for each in (width, min((wider for wider in LADDER if wider > width), default=2 * width)):
            start = self.visit((each, each), start)

    def visit_from_all(self, widths: tuple[int, ...], starts: list[Optimum]) -> Optimum:
        """The best of the climbs from several starts."""
        optima = [self._climb(widths, start) for start in starts]
        best, error = max(optima, key=lambda pair: pair[0].value)
        return self.record(widths, best, error)

    def visit(self, widths: tuple[int, ...], start: Optimum) -> Optimum:
        """Climb from one start."""
        return self.record(widths, *self._climb(widths, start))

    def record(self, widths: tuple[int, ...], optimum: Optimum, error: float) -> Optimum:
        """Keep a candidate."""
        h, edge = self.free.at(optimum.phi), self.free.on_edge(optimum.phi)
        self.optima[widths] = optimum
        self.candidates.append(Candidate(widths, h, optimum.value, error, edge))
        self.report(self.candidates[-1])
        return optimum

    @property
    def best(self) -> Candidate:
        """The best so far."""
        return max(self.candidates, key=lambda candidate: candidate.supported)

    def _climb(self, widths: tuple[int, ...], start: Optimum) -> tuple[Optimum, float]:
        if not widths:
            return start, 0.0
        h = rank_limited_start(self.data, self.free.at(start.phi), min(widths))
        evidence = network_evidence(self.data, widths, h, self.seed)
        phi = self.free.nearest(h)
        rival = self.best.log_evidence - _CLEAR_DROP if self.candidates else -np.inf
        top = maximise(
            evidence, self.free, phi, start.curvature, tolerance=_TOLERANCE, evaluations=12, rival=rival
        )
        if evidence.error > _COARSE and top.value > rival:
            return self._again(widths, top)
        return top, evidence.error

    def _again(self, widths: tuple[int, ...], top: Optimum) -> tuple[Optimum, float]:
        """A contender whose evidence is uncertain, with more points and new ones."""
        h = self.free.at(top.phi)
        finer = network_evidence(self.data, widths, h, self.seed + 1, _MORE * POINTS)
        return replace(top, value=finer(h)[0]), finer.error


def rank_limited_start(data: EvidenceData, h: Array, rank: int) -> Array:
    """H with the noise raised by what a network of that rank leaves over of the fit at h.

    The signal that the data show, ỹᵀ diag(κg/(1 + κg)) ỹ / p in whitened units, less its leading part.
    """
    if rank >= data.outputs or not data.noise:
        return h
    factor = data.factor(h)
    seen = factor.eigenvalues / (1 + factor.eigenvalues)
    signal = factor.targets.T @ (seen[:, None] * factor.targets) / data.spectrum.examples
    values, vectors = np.linalg.eigh(signal)
    left = (vectors[:, : data.outputs - rank] ** 2) @ values[: data.outputs - rank]
    rise = np.append(np.log1p(np.maximum(left, 0.0)), 0.0)
    rise[-1] = -rise[:-1].mean()  # the prior scale in the units of the targets stays
    return h + rise


def _between(widths: tuple[int, ...]) -> tuple[int, ...]:
    """Integers next to a width of the ladder that are not on it, at most one on either side."""
    if not widths or widths[0] > LADDER[0] // 4:
        return ()
    position = LADDER.index(widths[0])
    wider, narrower = LADDER[position - 1], LADDER[min(position + 1, len(LADDER) - 1)]
    middle = {round((widths[0] * other) ** 0.5) for other in (wider, narrower)}
    return tuple(sorted(middle - set(LADDER)))
