"""Complete tables with 8 to 50 outputs, most of which no referee answers: what two estimates must agree on.

`TABLES` have hidden widths from a fifth of the outputs to ten times as many, depth two to four, a noise
precision over two decades, and a signal of any rank. `BEHIND_NARROW` have 24 to 50 outputs behind layers of 5
to 15 units, data of the layer's rank, and noise below the signal. `benchmarks.stored_answers` runs both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Table:
    """Size of one problem; its data follow from the seed."""

    examples: int
    inputs: int
    outputs: int
    widths: tuple[int, ...]
    rank: int
    beta: float
    decades: float  # over which the deviations of the inputs fall
    seed: int

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs, and targets of a linear teacher with a signal of mean square one."""
        rng = np.random.default_rng([self.seed, 45, self.outputs])
        X = rng.normal(size=(self.examples, self.inputs)) * 10.0 ** -np.linspace(0, self.decades, self.inputs)
        signal = X @ rng.normal(size=(self.inputs, self.rank)) @ rng.normal(size=(self.rank, self.outputs))
        signal /= math.sqrt((signal**2).mean())
        return X, signal + rng.normal(size=signal.shape) / math.sqrt(self.beta)


def table(number: int) -> Table:
    """One of the complete tables with 8 to 50 outputs."""
    rng = np.random.default_rng([number, 45])
    outputs, layers = int(rng.integers(8, 51)), int(rng.integers(1, 4))
    widths = tuple(max(2, round(outputs * 10 ** rng.uniform(math.log10(0.2), 1))) for _ in range(layers))
    examples, inputs = (round(10 ** rng.uniform(1.1, 2.1)) for _ in range(2))
    rank = int(rng.integers(1, min(outputs, inputs) + 1))
    beta, decades = float(10 ** rng.uniform(0, 2)), float(rng.uniform(0, 1))
    return Table(examples, inputs, outputs, widths, rank, beta, decades, number)


def behind_narrow(number: int) -> Table:
    """One of the tables behind a narrow layer; every fourth has another layer, twice as wide."""
    rng = np.random.default_rng([number, 46])
    outputs, width = int(rng.integers(24, 51)), int(rng.integers(5, 16))
    widths = (width, 2 * width) if number % 8 == 3 else (2 * width, width) if number % 8 == 7 else (width,)
    examples = int(rng.integers(50, 121))
    return Table(examples, examples, outputs, widths, width, float(10 ** rng.uniform(0.5, 1.5)), 1.0, number)


TABLES = tuple(table(number) for number in range(60))
BEHIND_NARROW = tuple(behind_narrow(number) for number in range(20))
