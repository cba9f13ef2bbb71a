"""States that fit the observed cells, from which posterior draws start as a check.

Where the posterior has a collapsed and a fitted phase, particles that start at the prior may stay in the
first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lbnn._base.types import Array
from lbnn.sums.chain import Block, State, draw_prior
from lbnn.sums.moves import draw_latent
from lbnn.sums.table import Table


def fitted_start(table: Table, blocks: Sequence[Block], m: int, rng: np.random.Generator) -> State:
    """m particles in which every block has loadings along the leading directions of the targets."""
    state = draw_prior(blocks, m, rng)
    rms = np.sqrt(table.squares / table.counts)  # (n_d, 1)
    deviations = np.broadcast_to(0.5 * rms if table.variances is None else np.ones_like(rms), (len(rms), m))
    white = table.targets / np.where(rms > 0, rms, 1.0).T
    directions = np.linalg.svd(white, full_matrices=False)[2].T  # (n_d, any)
    loadings, layers = [], []
    for block, latent, own in zip(blocks, state.latent, state.layers, strict=True):
        share = ((block.spread(latent) ** 2).sum() / latent.shape[1] / len(table.targets)) / table.precision
        excess = float(np.median((rms / deviations[:, :1]) ** 2 / share))
        growth = excess ** (1 / (len(own) + 1))  # of the variance, for every factor alike
        layers.append(tuple(growth ** (i + 1) * each for i, each in enumerate(own)))
        loadings.append(
            _along(directions, block.columns, m, rng) * np.sqrt(growth / table.precision)[..., None]
        )
    start = State(state.latent, tuple(layers))
    fitted = draw_latent(table, blocks, start, np.concatenate(loadings, axis=2), deviations, 1.0, rng)
    return State(tuple(fitted), start.layers)


def _along(directions: Array, columns: int, m: int, rng: np.random.Generator) -> Array:
    """Loadings (n_d, m, columns) of unit variance: the leading directions, rotated; beyond them normal."""
    count, known = directions.shape
    result = rng.standard_normal((count, m, columns))
    k = min(known, columns)
    leading = np.sqrt(count) * directions[:, :k]
    rotations = np.linalg.qr(rng.standard_normal((m, columns, columns)))[0]
    result[..., :k] = leading[:, None]
    return np.ascontiguousarray((result.swapaxes(0, 1) @ rotations).swapaxes(0, 1))
