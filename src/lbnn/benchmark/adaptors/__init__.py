"""Draws (chains, draws, dimension) from arrays, weight matrices and ArviZ, and a task's draws for ArviZ.

ArviZ's data are xarray's. Imports `benchmark.task`.
"""

from __future__ import annotations

from lbnn.benchmark.adaptors.arrays import from_arrays, from_weights
from lbnn.benchmark.adaptors.arviz import from_arviz, to_arviz

__all__ = ["from_arrays", "from_arviz", "from_weights", "to_arviz"]
