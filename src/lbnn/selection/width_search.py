"""The search over widths and depths, with one kind of noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lbnn._base.types import Array, Mask
from lbnn.selection import gaussian_process
from lbnn.selection.coupled import coupled
from lbnn.selection.data import EvidenceData
from lbnn.selection.finite_width import POINTS, confirmed_evidence, network_evidence
from lbnn.selection.optimise import Optimum, maximise
from lbnn.selection.parameters import (
    AT_EDGE,
    NOISE_RANGE,
    RATIO_RANGE,
    FreeParameters,
    NoiseSpec,
    free_parameters,
    target_variances,
)

#: Widths tried, from wide to narrow; the integers between are tried next to the best of them.
WIDTHS = (128, 64, 32, 20, 12, 8, 5, 3, 2, 1)
_CLEAR_DROP = 3.0  # nats below the best at which a width is clearly worse
_TOO_UNCERTAIN = 0.5  # error from which an estimate rests on a few draws and says nothing of a width
_UNCERTAIN = 0.15  # error above which the evidence of a contender is computed again, ...
_REFINEMENT = 8  # ... with so many times the points
_SEARCH_MISSES = 3.0  # nats by which the evidence of a search may be low: 0.4 to 5 were seen
_MOST_CONFIRMED = 4  # rows of one kind of noise: each costs as much as a final posterior
_CONFIRMED_ERROR = 0.1  # target error of the engines for rows that may choose the model
#: Beyond so many outputs widths differ by tens of nats: fewer steps are made for each, and the best of them
#: is confirmed. Wider networks, whose evidence takes ten seconds, are left to infinite width and, where they
#: couple outputs, to coupled noise. One unit of the noise for all comes first, since a network explains much
#: of what makes outputs unequal; units of their own are then tried near the widths that it prefers.
MANY_OUTPUTS = 32
_NARROW = 20
_MIDDLE = 8  # of the widths for many outputs: where their search begins
_EVALUATIONS, _FEW_EVALUATIONS = 12, 5
_TOLERANCE = 0.02  # nats left on the table by the search for one network


@dataclass(frozen=True, eq=False)
class Trial:
    """One network with the hyperparameters that maximise its evidence.

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
    noise : str
        "independent", "per_output", "coupled" or "coupled_per_output".
    penalty : float
        ½ log p for each hyperparameter that was fitted: what its maximum has over its average (BIC).
    curvature : (k, k)
        Of the negative log evidence in the free parameters φ at the maximum; empty where there are none.
    directions : (n_d + 1, k)
        How h moves with φ.
    signal : bool
        False for a level and noise alone.
    noise_width : int or None
        Number of noise factors where the noise has a covariance of its own.
    same_factors : bool
        Whether the signal passes through the factors of that noise.
    """

    widths: tuple[int, ...]
    h: Array
    log_evidence: float
    error: float
    on_edge: bool
    noise: str = "independent"
    penalty: float = 0.0
    curvature: Array = field(default_factory=lambda: np.zeros((0, 0)))
    directions: Array = field(default_factory=lambda: np.zeros((0, 0)))
    signal: bool = True
    noise_width: int | None = None
    same_factors: bool = False

    @property
    def coupled(self) -> bool:
        """Whether noise passes through the network."""
        return self.noise.startswith("coupled")

    @property
    def score(self) -> float:
        """What candidates are ranked by: the log evidence less its penalty and two errors.

        The error of n weighted draws is √(Σw² − 1/n), near one where a single draw has all the weight. Such
        an estimate must not be chosen: division by 1 − error² makes the deduction infinite there.
        """
        if self.error >= 1:
            return -np.inf
        return self.log_evidence - self.penalty - 2 * self.error / (1 - self.error**2)


def infinite_width(data: EvidenceData, spec: NoiseSpec) -> Trial:
    """The Gaussian process with the hyperparameters that maximise its evidence."""
    free = free_parameters(data, spec)
    best = gaussian_process.optima(data, spec)[0]
    penalty = penalty_of(free.count, data)
    return _candidate((), free, best, 0.0, spec.units, penalty)


def without_noise(candidate: Trial, data: EvidenceData) -> Mask:
    """Which outputs a candidate at the end of a range fits without noise, (n_d,); constant ones have none."""
    lowest = np.log(NOISE_RANGE[0] * target_variances(data)) + AT_EDGE
    exact = signal_to_noise(candidate, data) > math.log(RATIO_RANGE[1]) - AT_EDGE
    varying = (data.spectrum.targets**2).sum(axis=0) + data.residuals > 0
    return candidate.on_edge & ((candidate.h[:-1] < lowest) | exact) & varying


def without_signal(candidate: Trial, data: EvidenceData) -> bool:
    """Whether a candidate at the end of a range has no signal."""
    return candidate.on_edge and signal_to_noise(candidate, data) < math.log(RATIO_RANGE[0]) + AT_EDGE


def signal_to_noise(candidate: Trial, data: EvidenceData) -> float:
    """Log of κ times the mean eigenvalue of G, of which `RATIO_RANGE` is the range."""
    mean = float(data.spectrum.eigenvalues.mean()) if data.spectrum.rank else 1.0
    return float(candidate.h[-1]) + math.log(mean)


def _candidate(
    widths: tuple[int, ...], free: FreeParameters, top: Optimum, error: float, noise: str, penalty: float
) -> Trial:
    """A network at a maximum of its evidence."""
    return Trial(
        widths,
        free.at(top.phi),
        top.value,
        error,
        free.on_edge(top.phi),
        noise,
        penalty,
        top.curvature,
        free.directions,
    )


def penalty_of(count: int, data: EvidenceData) -> float:
    """½ log p for each of so many fitted hyperparameters."""
    return 0.5 * count * math.log(max(data.spectrum.examples, 1))


class WidthSearch:
    """The candidates visited so far, with one kind of noise."""

    def __init__(
        self,
        data: EvidenceData,
        spec: NoiseSpec,
        seed: int,
        rival: float = -np.inf,
        evaluated: Callable[[], None] = lambda: None,
    ) -> None:
        self.data = coupled(data) if spec.coupled else data
        self.spec, self.free = spec, free_parameters(data, spec)
        self.seed, self.rival, self.evaluated = seed, rival, evaluated
        self.penalty = penalty_of(self.free.count, data)
        self.starts = gaussian_process.optima(data, spec)
        self.candidates: list[Trial] = []
        self.optima: dict[tuple[int, ...], Optimum] = {}

    def visit_infinite_width(self, known: Trial | None) -> Trial:
        """The Gaussian process; one that is known from a search in the same units of noise is taken over."""
        if known is None:
            self.record((), self.starts[0], 0.0)
        else:
            self.candidates.append(known)
        return self.candidates[-1]

    def visit_widths(self, layers: int, widest: int, known: Trial | None = None) -> None:
        """Widest first, until two steps in a row are clearly worse, then the integers next to the best.

        With many outputs, from a middle width or that of a network `known` from other units of the noise.
        """
        widths = [width for width in WIDTHS if width <= widest]
        if self._many:
            self._visit_from_the_middle(layers, [each for each in widths if each <= _NARROW], known)
        else:
            start = self.visit_from_all((widths[0],) * layers)
            self._visit_narrower(layers, widths[1:], start)
        for width in _between(self.best.widths):
            self.visit((width,) * layers, self.optima[self.best.widths])

    def _visit_narrower(self, layers: int, widths: Sequence[int], start: Optimum) -> None:
        """Until two steps in a row are clearly worse."""
        drops = 0
        for width in widths:
            start = self.visit((width,) * layers, start)
            last = self.candidates[-1]  # an estimate from a few draws is too low to compare
            drops = drops + 1 if self._is_worse(last) and last.error < _TOO_UNCERTAIN else 0
            if drops == 2:
                break

    def _visit_from_the_middle(self, layers: int, widths: Sequence[int], known: Trial | None) -> None:
        """Narrower widths, and wider ones while they help: a wide layer before many outputs takes longest."""
        middle = known.widths[0] if known else _MIDDLE
        first = min(widths, key=lambda width: abs(math.log(width / middle)))
        if known is None:
            start = self.visit_from_all((first,) * layers)
        else:
            start = self.visit((first,) * layers, replace(self.starts[0], phi=self.free.nearest(known.h)))
        place = widths.index(first)
        self._visit_narrower(layers, widths[place + 1 :], start)
        for width in reversed(widths[:place]):
            if self.best.widths and self.best.widths[0] < first:
                break
            start = self.visit((width,) * layers, start)
            if self._is_worse(self.candidates[-1]):
                break

    def _is_worse(self, candidate: Trial) -> bool:
        """Whether a candidate is clearly worse than the best."""
        return self.best.log_evidence - candidate.log_evidence > _CLEAR_DROP

    def visit_coupled_widths(self, layers: int) -> None:
        """Widths 2 n_d, 1.4 n_d and n_d; if 2 n_d is the best of them, 4 n_d, 8 n_d, ... while that helps.

        For coupled noise, whose networks are at least as wide as the outputs are many.
        """
        outputs = self.data.outputs
        start = self.visit_from_all((2 * outputs,) * layers)
        for width in (outputs,) if self._many else dict.fromkeys((round(1.4 * outputs), outputs)):
            start = self.visit((width,) * layers, start)
        wide = 2 * outputs
        while self._best_finite == (wide,) * layers and wide < WIDTHS[0]:
            start = self.optima[self._best_finite]
            wide *= 2
            self.visit((wide,) * layers, start)

    @property
    def _many(self) -> bool:
        return self.data.outputs > MANY_OUTPUTS

    @property
    def _best_finite(self) -> tuple[int, ...]:
        """The best finite widths so far."""
        finite = [candidate for candidate in self.candidates if candidate.widths]
        return max(finite, key=lambda candidate: candidate.log_evidence).widths

    def visit_depth_three(self) -> None:
        """Depth three at the best width and at a wider one, or at the widest where infinite width is best."""
        width = self.best.widths[0] if self.best.widths else max(self.optima)[0]
        start = self.optima[width,]
        for each in (width, self._wider(width))[: 2 if self.best.widths else 1]:
            start = self.visit((each, each), start)

    def _wider(self, width: int) -> int:
        """The next larger width of the list."""
        if self.spec.coupled:
            return 2 * width
        return min((wider for wider in WIDTHS if wider > width), default=2 * width)

    def visit_from_all(self, widths: tuple[int, ...]) -> Optimum:
        """The network of these widths, its evidence maximised from every maximum at infinite width."""
        optima = [self._climb(widths, start) for start in self.starts]
        best, error = max(optima, key=lambda pair: pair[0].value)
        return self.record(widths, best, error)

    def visit(self, widths: tuple[int, ...], start: Optimum) -> Optimum:
        """The network of these widths, its evidence maximised from one start."""
        return self.record(widths, *self._climb(widths, start))

    def record(self, widths: tuple[int, ...], optimum: Optimum, error: float) -> Optimum:
        """Keep the optimum of a network, as a trial."""
        self.optima[widths] = optimum
        noise = self.spec.noise if widths else self.spec.units
        self.candidates.append(_candidate(widths, self.free, optimum, error, noise, self.penalty))
        return optimum

    def confirm(self, leader: float) -> None:
        """Evidence by the engines for the candidates that may lead: that of the search may be too low.

        The search compares h for one network, with the same random numbers at every h; its error does
        not include what all of its draws miss (three outputs, widths (2, 10): low by 0.4 to 5 nats).
        """
        if self.data.outputs == 1:
            return
        lowest = leader - _SEARCH_MISSES
        close = [
            each for each in self.candidates if each.widths and each.log_evidence - each.penalty > lowest
        ]
        close.sort(key=lambda each: -each.score)
        if self._many and len(close) < 2:
            return
        for each in close[: 2 if self._many else _MOST_CONFIRMED]:
            value, error = confirmed_evidence(self.data, each.widths, each.h, _CONFIRMED_ERROR, self.seed)
            self.candidates[self.candidates.index(each)] = replace(each, log_evidence=value, error=error)

    @property
    def best(self) -> Trial:
        """The best so far."""
        return max(self.candidates, key=lambda candidate: candidate.score)

    def _climb(self, widths: tuple[int, ...], start: Optimum) -> tuple[Optimum, float]:
        if not widths:
            return start, 0.0
        h = rank_limited_start(self.data, self.free.at(start.phi), min(widths))
        evidence = network_evidence(self.data, widths, h, self.seed)

        def watched(h: Array) -> tuple[float, Array]:
            """The evidence and its gradient at h (n_d + 1,), announced."""
            found = evidence(h)
            self.evaluated()
            return found

        phi = self.free.nearest(h)
        own = self.best.log_evidence if self.candidates else -np.inf
        rival = max(own, self.rival + self.penalty) - _CLEAR_DROP
        top = maximise(
            watched,
            self.free,
            phi,
            start.curvature,
            tolerance=_TOLERANCE,
            evaluations=_FEW_EVALUATIONS if self._many else _EVALUATIONS,
            rival=rival,
        )
        if evidence.error > _UNCERTAIN and top.value > rival and not self._many:
            return self._refined(widths, top)
        return top, evidence.error

    def _refined(self, widths: tuple[int, ...], top: Optimum) -> tuple[Optimum, float]:
        """The evidence of a contender computed again where it is uncertain: more points, another seed."""
        h, seed = self.free.at(top.phi), self.seed + 1
        finer = network_evidence(self.data, widths, h, seed, _REFINEMENT * POINTS)
        return replace(top, value=finer(h)[0]), finer.error


def rank_limited_start(data: EvidenceData, h: Array, rank: int) -> Array:
    """A start h (n_d + 1,), with more noise, for a network of rank `rank`.

    The noise is raised by the part of the signal at h that such a network cannot fit: of ỹᵀ diag(κg/(1 + κg))
    ỹ / p in whitened units, the eigenvalues beyond the `rank` largest ones.
    """
    if rank >= data.outputs or not data.noise_variance:
        return h
    likelihood = data.likelihood(h)
    seen = likelihood.eigenvalues / (1 + likelihood.eigenvalues)
    signal = likelihood.targets.T @ (seen[:, None] * likelihood.targets) / data.spectrum.examples
    values, vectors = np.linalg.eigh(signal)
    left = (vectors[:, : data.outputs - rank] ** 2) @ values[: data.outputs - rank]
    rise = np.append(np.log1p(np.maximum(left, 0.0)), 0.0)
    rise[-1] = -rise[:-1].mean()  # the prior scale in the units of the targets stays
    return h + rise


def _between(widths: tuple[int, ...]) -> tuple[int, ...]:
    """Integers next to a width of the list that are not on it, at most one on either side."""
    if not widths or widths[0] > WIDTHS[0] // 4:
        return ()
    position = WIDTHS.index(widths[0])
    wider, narrower = WIDTHS[position - 1], WIDTHS[min(position + 1, len(WIDTHS) - 1)]
    middle = {round((widths[0] * other) ** 0.5) for other in (wider, narrower)}
    return tuple(sorted(middle - set(WIDTHS)))
