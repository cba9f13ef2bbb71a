"""States with a story: where to begin, and the paper's regimes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lbnn.explore.state import State


@dataclass(frozen=True)
class Preset:
    """A state, its name, and what it shows."""

    name: str
    story: str
    state: State


PRESETS: tuple[Preset, ...] = (
    Preset(
        "Where to begin",
        "Targets half as large as the prior expects, three layers of weights: the data shrink the scale.",
        State(),
    ),
    Preset(
        "Wide: nothing is learned",
        "At width 1000 the scale stays close to one, and the network is nearly the Gaussian process.",
        State(widths=(1000,), depth=2),
    ),
    Preset(
        "Narrow and deep: heavy tails",
        "Depth ten at width three: before the data the scale ranges over many powers of ten.",
        State(depth=10, widths=(3,)),
    ),
    Preset(
        "Zero temperature",
        "β = ∞: the network goes through every point, and what is left to learn is the scale.",
        State(view="function", depth=4, widths=(5,), beta=math.inf),
    ),
    Preset(
        "Two coupled outputs",
        "Two outputs that follow one direction: depth couples them, and the ellipse of L leans.",
        State(outputs=2, rank=1, widths=(10,), size=1.0),
    ),
    Preset(
        "Targets too large for the prior",
        "Targets ten times larger than expected: depth lets the scale grow, and the band with it.",
        State(
            view="function",
            depth=6,
            widths=(5,),
            points=(
                (-3.2, -6.0),
                (-2.6, -11.0),
                (-1.7, -7.0),
                (-0.9, 4.0),
                (-0.2, 12.0),
                (0.6, 9.0),
                (1.3, -2.0),
            ),
        ),
    ),
    Preset(
        "The paper: infinite width",
        "The width grows, the data stay: the error of the first-order theory falls as one over its square.",
        State(view="theories", depth=2, widths=(40,), examples=10, inputs=20, beta=4.0, size=1.5, noise=0.0),
    ),
    Preset(
        "The paper: infinite data",
        "Ever more data at width four and zero temperature: the data alone determine the scale.",
        State(
            view="theories",
            depth=2,
            widths=(4,),
            examples=40,
            inputs=80,
            beta=math.inf,
            size=1.5,
            noise=0.0,
            growth="data",
            quantity="scale",
        ),
    ),
    Preset(
        "The paper: width and data together",
        "Li and Sompolinsky's limit: p/n fixed, one renormalised scale.",
        State(
            view="theories",
            depth=2,
            widths=(80,),
            examples=40,
            inputs=80,
            beta=math.inf,
            size=1.5,
            noise=0.0,
            growth="width and data",
            quantity="scale",
        ),
    ),
)
