"""What the posterior of a block of targets is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class BandsOptions:
    """Standard error aimed at, most directions of a target, seed, and the function that reports progress."""

    target_error: float
    most_directions: int
    seed: int
    say: Callable[[str], None] = lambda message: None
