"""A guided tour: states in an order that explains, each with the control that made the difference."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lbnn.explore.presets import PRESETS
from lbnn.explore.state import State


@dataclass(frozen=True)
class Step:
    """One step: a title, two sentences, the control that is pointed at, and the state that is shown."""

    title: str
    words: str
    control: str
    state: State


_START = State(depth=2, widths=(10,), size=0.5)
_LARGE = next(each.state for each in PRESETS if each.name == "Targets too large for the prior")

STEPS: tuple[Step, ...] = (
    Step(
        "One hidden layer",
        "A network with one hidden layer of ten units is a Gaussian process whose scale λ is random: the "
        "dashed "
        "curve is its law before any data. The targets here are half as large as that law expects.",
        "depth",
        _START,
    ),
    Step(
        "Make the targets larger",
        "The targets are now three times as large as expected, and the law of λ after the data (solid) "
        "has moved "
        "to the right. The network has learned one number from the data: how large the function is.",
        "size",
        replace(_START, size=3.0),
    ),
    Step(
        "Now add depth",
        "With six layers the law before the data is much wider, because λ is a product of more random "
        "factors. "
        "So it resists less, and the data move it farther.",
        "depth",
        replace(_START, size=3.0, depth=6),
    ),
    Step(
        "Make it wide",
        "At width 1000 each factor is nearly one, and so is λ, whatever the data say. This is the limit of "
        "infinite width, where the network is a Gaussian process of fixed scale.",
        "widths",
        replace(_START, size=3.0, depth=6, widths=(1000,)),
    ),
    Step(
        "What it does to a function",
        "The same on a line: the band of the network has the width of the data, that of the Gaussian process "
        "(dotted) is the prior's. Each thin curve is a function from the posterior, drawn with the λ of "
        "its dot.",
        "points",
        _LARGE,
    ),
    Step(
        "Two outputs",
        "With two outputs the scale is a matrix L, drawn as ellipses. These targets follow one "
        "direction, so the "
        "ellipse after the data leans that way: depth couples the outputs.",
        "outputs",
        State(outputs=2, rank=1, widths=(10,), size=1.0),
    ),
    Step(
        "What the layers learn",
        "The kernel of the hidden units has moved from that of the inputs towards the targets, YYᵀ. A "
        "wide network "
        "would not have moved.",
        "layer",
        next(each.state for each in PRESETS if each.name == "Features turn to the targets"),
    ),
)
