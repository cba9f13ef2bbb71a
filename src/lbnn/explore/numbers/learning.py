"""Error against the number of examples, averaged over Gaussian data, with the limit theories beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lbnn._base.warn import collected
from lbnn.explore.numbers.answer import Value, written
from lbnn.explore.problem import network
from lbnn.explore.state import State
from lbnn.explore.table import Table
from lbnn.learning_curves.curve import LearningCurve, learning_curve
from lbnn.learning_curves.sampled import FEWEST_DRAWS

TARGET_ERROR = 0.03  # relative standard error
MOST_DRAWS = 2_000
_PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0, 1.5, 2.0)  # of the number of inputs


@dataclass(frozen=True)
class LearningNumbers:
    """A learning curve; `rough` if it is from a few data sets only."""

    state: State
    curve: LearningCurve
    rough: bool = False

    @property
    def place(self) -> int:
        """Position of the examples of the controls among those of the curve."""
        return int(np.flatnonzero(self.curve.examples == self.state.examples)[0])

    @property
    def values(self) -> tuple[Value, ...]:
        at, curve = self.place, self.curve
        return (
            Value("error of the mean", float(curve.error[at]), float(curve.error_error[at])),
            Value("error of a draw", float(curve.gibbs_error[at]), float(curve.gibbs_error_error[at])),
            Value("mean of λ", float(curve.scale_mean[at]), float(curve.scale_mean_error[at])),
            Value("log evidence", float(curve.log_evidence[at]), float(curve.log_evidence_error[at])),
        )

    @property
    def sentence(self) -> str:
        at, curve = self.place, self.curve
        size, error = written(self.state.size**2), written(float(curve.error[at]))
        about = "From a few data sets, and being refined: on" if self.rough else "On"
        return (
            f"{about} average over data sets of {self.state.examples} examples the squared error of the "
            f"predictive mean is {error}; without data it is {size}, the square of the teacher's size. "
            "Bars are two standard errors, dashed lines limit theories at infinite size; the dotted line "
            "marks where you are."
        )

    @property
    def messages(self) -> tuple[str, ...]:
        file = "the curve is for Gaussian inputs and a linear teacher; your file is not used"
        return ((file,) if self.state.source == "file" else ()) + self.curve.messages

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        curve, names = self.curve, ("error", "gibbs_error", "scale_mean", "log_evidence")
        header = ["examples", *(column for name in names for column in (name, f"{name}_error"))]
        header += [f"error, {theory}" for theory in curve.limits]
        lines = (
            [
                int(curve.examples[i]),
                *(float(getattr(curve, column)[i]) for name in names for column in (name, f"{name}_error")),
                *(float(limit.error[i]) for limit in curve.limits.values()),
            ]
            for i in range(len(curve.examples))
        )
        return header, lines


def sizes(state: State) -> list[int]:
    """Numbers of examples of the curve, that of the controls among them.

    At zero temperature at most as many as inputs.
    """
    found = {max(1, round(part * state.inputs)) for part in _PARTS} | {state.examples}
    return sorted(each for each in found if math.isfinite(state.beta) or each <= state.inputs)


def numbers(state: State, table: Table | None = None) -> Iterator[LearningNumbers]:
    """First from a few data sets, then as precise as `TARGET_ERROR`."""
    yield rough(state, table)
    yield LearningNumbers(state, _curve(state.core(), TARGET_ERROR, MOST_DRAWS))


def rough(state: State, table: Table | None = None) -> LearningNumbers:
    """From a few data sets at three sizes; at zero temperature, where each size is an integral, at one."""
    every = sizes(state)
    few = (state.examples,) if math.isinf(state.beta) else (every[0], state.examples, every[-1])
    return LearningNumbers(
        state, _curve(state.core(), 0.9, FEWEST_DRAWS, tuple(sorted(set(few)))), rough=True
    )


@lru_cache(maxsize=64)
def _curve(
    state: State, target_error: float, most: int, only: tuple[int, ...] | None = None
) -> LearningCurve:
    if state.beta == 0:
        raise ValueError("a learning curve needs a positive β: at β = 0 the data are ignored")
    if math.isinf(state.beta) and state.examples > state.inputs:
        raise ValueError(
            f"at zero temperature there may be at most as many examples as inputs, got {state.examples} of "
            f"{state.inputs}"
        )
    with collected():  # the curve has its messages
        return learning_curve(
            network(state),
            sizes(state) if only is None else only,
            state.inputs,
            state.size,
            state.noise,
            state.beta,
            target_error=target_error,
            max_draws=most,
            seed=state.seed,
        )
