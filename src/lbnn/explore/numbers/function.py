"""The predictive band on a line, beside that of the Gaussian process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lbnn._base.types import Array
from lbnn.explore.numbers.answer import Value, evidence_of, written
from lbnn.explore.problem import network
from lbnn.explore.state import FARTHEST, Point, State
from lbnn.explore.table import Table
from lbnn.network import Network
from lbnn.plots.scale import log_scale_density, posterior_range, prior_range
from lbnn.posterior import Posterior

_DRAWS, _POINTS = 8, 160
GRID = np.linspace(-FARTHEST, FARTHEST, 161)
LEVELS = (0.05, 0.25, 0.75, 0.95)
_EDGE = -1  # point of the grid whose numbers are named


@dataclass(frozen=True)
class Band:
    """Mean (161,) and quantiles (4, 161) along the grid."""

    mean: Array
    quantiles: Array

    @property
    def width(self) -> float:
        """From 5 to 95% at the last point of the grid."""
        return float(self.quantiles[-1, _EDGE] - self.quantiles[0, _EDGE])


@dataclass(frozen=True)
class ScaleLaw:
    """Densities of log λ along λ, (160,) each, before and after the data."""

    scale_before: Array
    before: Array
    scale_after: Array
    after: Array


@dataclass(frozen=True)
class Draws:
    """Functions drawn from the posterior: first a scale λ, then a function of the process with that scale.

    Attributes
    ----------
    scales : (k,)
        λ of each, in increasing order.
    functions : (k, 161)
        Along the grid.
    heights : (k,)
        Density of log λ at each, where it stands on the curve.
    """

    scales: Array
    functions: Array
    heights: Array


@dataclass(frozen=True)
class FunctionNumbers:
    """The network and the Gaussian process on the same points; the law of the scale and draws come later."""

    points: tuple[Point, ...]
    posterior: Posterior
    process: Posterior
    band: Band
    process_band: Band
    law: ScaleLaw | None = None
    draws: Draws | None = None

    @property
    def values(self) -> tuple[Value, ...]:
        return (
            evidence_of(self.posterior),
            Value("log evidence of the process", self.process.log_evidence),
            Value("E λ", float(self.posterior.scale.mean)),
            Value("upper 95% at x = 5", float(self.band.quantiles[-1, _EDGE])),
            Value("upper 95% of the process at x = 5", float(self.process_band.quantiles[-1, _EDGE])),
        )

    @property
    def sentence(self) -> str:
        ratio = self.band.width / self.process_band.width
        return (
            f"Far from the points the network's 90% band is {written(round(ratio, 3))} times as wide as the "
            "process's: the network takes its scale from the data, the process cannot. Each thin curve is a "
            "function drawn from the posterior; the dot of its colour on the law of λ is the scale it was "
            "drawn with. Drag the points up and down."
        )

    @property
    def messages(self) -> tuple[str, ...]:
        return self.posterior.diagnostics.messages

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        columns = [
            GRID,
            self.band.mean,
            *self.band.quantiles,
            self.process_band.mean,
            *self.process_band.quantiles,
        ]
        names = ["mean", *(f"quantile {level:g}" for level in LEVELS)]
        return ("x", *names, *(f"process {name}" for name in names)), zip(*columns, strict=True)


def kernel(a: Array, b: Array) -> Array:
    """exp(−(a − b)²/2)."""
    return np.exp(-0.5 * (a[:, None] - b) ** 2)


def numbers(state: State, table: Table | None = None) -> Iterator[FunctionNumbers]:
    """The numbers of the view of the function; the table of the user plays no part in it."""
    x, y = (np.array(column) for column in zip(*state.points, strict=True))
    total = float(np.prod(state.prior_variances))
    networks = network(state), Network((), [total])
    posteriors = [each.condition_gram(kernel(x, x), y, state.beta) for each in networks]
    bands = [_band(each, x) for each in posteriors]
    found = FunctionNumbers(state.points, posteriors[0], posteriors[1], bands[0], bands[1])
    yield found
    if state.depth > 1:
        law = _law(posteriors[0])
        draws = _draws(posteriors[0], state.prior_variances[0], x, y, state.beta)
        yield replace(found, law=law, draws=draws)


def _law(posterior: Posterior) -> ScaleLaw:
    before, after = prior_range(posterior.prior, _POINTS), posterior_range(posterior, _POINTS)
    return ScaleLaw(
        np.exp(before),
        np.exp(posterior.prior.log_scale_law.log_density(before)),
        np.exp(after),
        np.exp(log_scale_density(posterior, after)),
    )


def _draws(posterior: Posterior, first_variance: float, x: Array, y: Array, beta: float) -> Draws:
    """Scales from their law, and one function each: given λ the network is a process of variance σ_1² λ."""
    rng = np.random.default_rng(0)
    scales = np.sort(np.asarray(posterior.scale.sample(_DRAWS, seed=rng), float).ravel())
    grams = {"cross_gram": kernel(GRID, x), "test_gram": kernel(GRID, GRID)}
    functions = [
        Network((), [first_variance * scale]).condition_gram(kernel(x, x), y, beta).predict(**grams)
        for scale in scales
    ]
    paths = np.array([np.ravel(each.sample(1, seed=rng)) for each in functions])
    return Draws(scales, paths, np.exp(log_scale_density(posterior, np.log(scales))))


def _band(posterior: Posterior, x: Array) -> Band:
    predictive = posterior.predict(cross_gram=kernel(GRID, x), test_gram=kernel(GRID, GRID))
    quantiles = np.array([predictive.quantile(level) for level in LEVELS])
    return Band(np.asarray(predictive.mean), quantiles)
