"""BlackJAX: states with positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbnn._base.types import Array


def from_blackjax(states: Any) -> Array:
    """Draws of states, or of positions, that are stacked as (chains, draws, dimension)."""
    return np.asarray(getattr(states, "position", states), float)
