"""BlackJAX: states with positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn._base.types import Array


def from_blackjax(states: Any) -> Array:
    """Draws of BlackJAX states (or their positions) stacked over chains and draws, (chains, draws, dimension)."""
    return np.asarray(getattr(states, "position", states), float)
