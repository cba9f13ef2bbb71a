"""The numbers of every view by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lbnn.explore.numbers import features, function, learning, scale, theories

#: For each view, the numbers as they get better.
NUMBERS: dict[str, Callable[..., Any]] = {
    "scale": scale.numbers,
    "function": function.numbers,
    "features": features.numbers,
    "theories": theories.numbers,
    "learning": learning.numbers,
}
#: For each view whose numbers may take long, those that are there at once.
ROUGH: dict[str, Callable[..., Any]] = {
    "scale": scale.rough,
    "features": features.rough,
    "theories": theories.rough,
    "learning": learning.rough,
}
