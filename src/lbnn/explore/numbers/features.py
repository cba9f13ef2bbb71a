"""The kernels of the hidden layers between the Gram matrices of inputs and targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lbnn._base.types import Array
from lbnn.explore.numbers.answer import Value, evidence_of, written
from lbnn.explore.problem import data, posterior, rough_posterior
from lbnn.explore.state import State
from lbnn.explore.table import Table
from lbnn.plots.matrices import input_gram
from lbnn.posterior import Posterior


@dataclass(frozen=True)
class FeatureNumbers:
    """Kernels on the training points, (p, p) each, and their alignment with the targets.

    Attributes
    ----------
    layer : int
    before : (p, p)
        The prior mean of K_ℓ: G, times the prior variances of the layers between, which are one by default.
    learned : (p, p)
        ⟨K_ℓ⟩.
    targets : (p, p)
        YYᵀ.
    alignments : (layers + 1,)
        Of G and of ⟨K_1⟩, ⟨K_2⟩, ... with YYᵀ; NaN where not computed yet.
    """

    posterior: Posterior
    layer: int
    before: Array
    learned: Array
    targets: Array
    alignments: Array

    @property
    def change(self) -> float:
        """‖⟨K⟩ − G‖ / ‖G‖."""
        return float(np.linalg.norm(self.learned - self.before) / np.linalg.norm(self.before))

    @property
    def values(self) -> tuple[Value, ...]:
        return (
            Value("change of the kernel", self.change),
            Value("alignment of G", float(self.alignments[0])),
            Value(f"alignment of ⟨K⟩ at layer {self.layer}", float(self.alignments[self.layer])),
            evidence_of(self.posterior),
        )

    @property
    def sentence(self) -> str:
        return (
            f"Layer {self.layer} of {len(self.alignments) - 1} has moved by {self.change:.1%} of G: its "
            f"alignment with YYᵀ is {written(float(self.alignments[self.layer]))}, that of the inputs "
            f"{written(float(self.alignments[0]))}. Red is positive, blue negative, up to "
            f"{_size(self.before):.2g} in G, {_size(self.learned - self.before):.2g} in the change and "
            f"{_size(self.targets):.2g} in YYᵀ."
        )

    @property
    def messages(self) -> tuple[str, ...]:
        return self.posterior.diagnostics.messages

    def table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        lines = (
            (row + 1, column + 1, before, self.learned[row, column], self.targets[row, column])
            for (row, column), before in np.ndenumerate(self.before)
        )
        return ("example", "other example", "G", f"K of layer {self.layer}", "YY'"), lines


def _size(matrix: Array) -> float:
    """The largest entry."""
    return float(np.abs(matrix).max())


def alignment(kernel: Array, other: Array) -> float:
    """tr(K M)/(‖K‖ ‖M‖), one where the two are proportional."""
    size = float(np.linalg.norm(kernel) * np.linalg.norm(other))
    return float((kernel * other).sum()) / size if size else float("nan")


def numbers(state: State, table: Table | None = None) -> Iterator[FeatureNumbers]:
    """First the layer that is shown, then the alignments of all of them."""
    if state.depth == 1:
        raise ValueError("features need a hidden layer, got depth 1: choose depth 2 or more")
    yield from _of(posterior(state, table), state, table)


def rough(state: State, table: Table | None = None) -> FeatureNumbers:
    """The layer that is shown, from weighted draws of the prior."""
    if state.depth == 1:
        raise ValueError("features need a hidden layer, got depth 1: choose depth 2 or more")
    return next(_of(rough_posterior(state, table), state, table))


def _of(here: Posterior, state: State, table: Table | None) -> Iterator[FeatureNumbers]:
    """First the layer that is shown, then the alignments of all of them."""
    Y = data(state, table)[1].reshape(here.spectrum.examples, -1)
    targets, gram, layer = Y @ Y.T, input_gram(here), state.shown_layer
    alignments = np.full(state.depth, np.nan)
    alignments[0] = alignment(gram, targets)
    first = None
    for number, kernel in enumerate(here.feature_kernels(), 1):
        alignments[number] = alignment(kernel, targets)
        if number == layer:
            before = gram * float(np.prod(state.prior_variances[1:number]))
            first = FeatureNumbers(here, layer, before, kernel, targets, alignments.copy())
            yield first
    if first is not None and layer < state.depth - 1:
        yield replace(first, alignments=alignments)
