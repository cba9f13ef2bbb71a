"""Every limit theory against the exact answer, at the size of the controls and at smaller and larger ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from lbnn.explore.numbers.answer import Value, written
from lbnn.explore.problem import TARGET_ERROR, data, network, posterior, rough_posterior
from lbnn.explore.state import State
from lbnn.explore.table import Table
from lbnn.theories.comparison import compare
from lbnn.theories.limits.regimes import THEORIES

#: Theories by the time they take: those of a matrix of the outputs, then the one of a matrix of the examples.
QUICK = tuple(name for name in THEORIES if name != "many outputs")
SLOW = ("many outputs",)
_FACTORS = (0.125, 0.25, 0.5, 2.0, 4.0, 8.0)  # of the size of the controls


@dataclass(frozen=True)
class Errors:
    """Errors of theories at one size, each with the Monte Carlo error of the exact side; who is left out."""

    size: int
    rows: tuple[tuple[str, float, float], ...]
    left_out: tuple[tuple[str, str], ...]
    messages: tuple[str, ...]


@dataclass(frozen=True)
class TheoryNumbers:
    """Errors along the size that grows, and where the present network stands on the phase diagram.

    Attributes
    ----------
    here : Errors
        At the size of the controls.
    sizes : tuple of Errors
        At all sizes done so far, `here` included, in increasing order.
    alpha, gamma, change : float
        p/n_1, n_d/n_1 and ‖⟨K⟩ − G‖/‖G‖ of the present network.
    """

    state: State
    here: Errors
    sizes: tuple[Errors, ...]
    alpha: float
    gamma: float
    change: float
    complete: bool = False
    rough: bool = False

    @property
    def values(self) -> tuple[Value, ...]:
        errors = tuple(Value(name, error, monte_carlo) for name, error, monte_carlo in self.here.rows)
        return (*errors, Value("change of the kernel", self.change))

    @property
    def sentence(self) -> str:
        if self.rough:
            return (
                "The exact answer is being computed; the star on the map is a rough estimate from draws of "
                "the prior."
            )
        if not self.here.rows:
            return "No limit theory applies here; the reasons are below."
        unit = " nats" if self.state.quantity == "log evidence" else ""
        closest = closest_of(self.here.rows)
        name, error, _ = closest[0]
        if len(closest) == 1:
            found = (
                f"Of the theories that apply, “{name}” is closest in {self.state.quantity}: off by "
                f"{written(abs(error))}{unit}"
            )
        else:
            names = ", ".join(f"“{each}” ({written(abs(off))}{unit})" for each, off, _ in closest)
            found = (
                f"The Monte Carlo error of the exact answer does not distinguish between {names} in "
                f"{self.state.quantity}: they are closest together"
            )
        return (
            f"{found}. Errors fall where a theory's own size grows, with the slopes in the legend; the "
            f"dotted "
            "line marks where you are, bars are two Monte Carlo errors of the exact side."
        )

    @property
    def messages(self) -> tuple[str, ...]:
        reasons = tuple(f"{name} does not apply: {reason}" for name, reason in self.here.left_out)
        return self.here.messages + reasons

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        lines = (
            (each.size, name, self.state.quantity, error, monte_carlo)
            for each in self.sizes
            for name, error, monte_carlo in each.rows
        )
        return (self.state.growth, "theory", "quantity", "error", "Monte Carlo error"), lines


def closest_of(rows: Sequence[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """The theory with the smallest error, and those within two Monte Carlo errors of it.

    Examples
    --------
    >>> [name for name, _, _ in closest_of([("a", 0.10, 0.01), ("b", -0.11, 0.01), ("c", 0.2, 0.01)])]
    ['a', 'b']
    """
    ordered = sorted(rows, key=lambda row: abs(row[1]))
    _, best, noise = ordered[0]
    return [row for row in ordered if abs(row[1]) - abs(best) <= 2 * max(noise, row[2])]


def slope_of(theory: str, sizes: Sequence[Errors]) -> float | None:
    """Slope of log error against log size, by least squares over the sizes where the error is not noise.

    None where there are fewer than three of them.
    """
    points = [
        (math.log(each.size), math.log(abs(error)))
        for each in sizes
        for name, error, noise in each.rows
        if name == theory and math.isfinite(error) and abs(error) > max(4 * noise, 1e-12)
    ]
    if len(points) < 3:
        return None
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def numbers(state: State, table: Table | None = None) -> Iterator[TheoryNumbers]:
    """First the present size, then the others one by one, and last the theory that takes longest."""
    if state.depth == 1:
        raise ValueError("theories are compared at depth 2 or more, got depth 1")
    here = posterior(state, table)
    width = state.network_widths[0]
    place = here.spectrum.examples / width, here.prior.outputs / width, here.kernel_change()
    states = {each: grown(state, each) for each in _FACTORS}
    others = [each for each in states.values() if each is not None]
    present = _errors(state, QUICK, table)
    found = {present.size: present}
    yield TheoryNumbers(state, present, _ordered(found), *place)
    for other in others:
        errors = _errors_or_none(other, QUICK, table)
        if errors is not None:
            found[errors.size] = errors
            yield TheoryNumbers(state, present, _ordered(found), *place)
    for each in (state, *others):
        size = grown_size(each)
        late = _errors_or_none(each, SLOW, table)
        if size in found and late is not None:
            found[size] = _joined(found[size], late)
            yield TheoryNumbers(state, found[present.size], _ordered(found), *place)
    yield TheoryNumbers(state, found[present.size], _ordered(found), *place, complete=True)


def rough(state: State, table: Table | None = None) -> TheoryNumbers:
    """The place on the map, from weighted draws of the prior; errors are still to come."""
    if state.depth == 1:
        raise ValueError("theories are compared at depth 2 or more, got depth 1")
    here = rough_posterior(state, table)
    width = state.network_widths[0]
    nothing = Errors(grown_size(state), (), (), here.diagnostics.messages)
    place = here.spectrum.examples / width, here.prior.outputs / width, here.kernel_change()
    return TheoryNumbers(state, nothing, (nothing,), *place, rough=True)


def grown(state: State, factor: float) -> State | None:
    """The problem with its sizes multiplied, or None where that leaves the range of the controls."""
    changes: dict[str, object] = {}
    if "width" in state.growth:
        changes["widths"] = tuple(_times(width, factor) for width in state.widths)
    if "data" in state.growth:
        changes |= {"examples": _times(state.examples, factor), "inputs": _times(state.inputs, factor)}
    if "outputs" in state.growth:
        changes["outputs"] = _times(state.outputs, factor)
    if any(value == 0 or (isinstance(value, tuple) and 0 in value) for value in changes.values()):
        return None
    try:
        return replace(state, **changes)  # type: ignore[arg-type]
    except ValueError:  # outside the range of the controls
        return None


def _times(size: int, factor: float) -> int:
    """The size times the factor where that is a whole number, else 0."""
    return int(size * factor) if (size * factor).is_integer() else 0


def grown_size(state: State) -> int:
    """The number on the axis."""
    return state.examples if state.growth == "data" else state.network_widths[0]


def _errors(state: State, names: tuple[str, ...], table: Table | None) -> Errors:
    return _cached_errors(state.core(), state.quantity, grown_size(state), names, table)


def _errors_or_none(state: State, names: tuple[str, ...], table: Table | None) -> Errors | None:
    """None where the exact answer does not exist at that size."""
    try:
        return _errors(state, names, table)
    except ValueError:
        return None


@lru_cache(maxsize=512)
def _cached_errors(
    state: State, quantity: str, size: int, names: tuple[str, ...], table: Table | None
) -> Errors:
    X, Y = data(state, table)
    result = compare(
        network(state), X, Y, state.beta, quantities=(quantity,), theories=names, target_error=TARGET_ERROR
    )
    rows = tuple((row.theory, row.error, row.monte_carlo) for row in result.rows)
    return Errors(size, rows, tuple(result.left_out.items()), result.exact.diagnostics.messages)


def _joined(early: Errors, late: Errors) -> Errors:
    return replace(early, rows=early.rows + late.rows, left_out=early.left_out + late.left_out)


def _ordered(found: dict[int, Errors]) -> tuple[Errors, ...]:
    return tuple(found[size] for size in sorted(found))
