"""Posterior draws of a sum of networks, with loadings and noise drawn given the features of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn.engines.policy import GROUPS
from lbnn.sums.chain import Block, State, coloured, features
from lbnn.sums.path import Path
from lbnn.sums.table import Table

#: Draws that are kept for predictions, and the numbers that they may hold together (160 MB).
_MOST_DRAWS, _MOST_NUMBERS = 768, 2e7


@dataclass(frozen=True)
class Draws:
    """Equally weighted draws, in the units of the targets.

    Attributes
    ----------
    state : State
    features : (p, m, K)
        C.
    roots : tuple of (m, k, k)
        R with R Rᵀ = S for every block.
    loadings : (n_d, m, K)
        T.
    noise : (n_d, m)
        τ.
    mean_loadings : (n_d, m, K)
        E[T | H].
    loading_covariance : (n_d, m, K, K)
        Of T given H.
    mean_noise : (n_d, m)
        E[τ | H].
    groups : (m,)
        Independent group of every draw.
    """

    state: State
    features: Array
    roots: tuple[Array, ...]
    loadings: Array
    noise: Array
    mean_loadings: Array
    loading_covariance: Array
    mean_noise: Array
    groups: IndexArray

    @classmethod
    def of(cls, table: Table, blocks: Sequence[Block], path: Path, seed: int) -> Draws:
        """From the final states of a path: evenly spaced ones of every group."""
        (p, outputs), K = table.targets.shape, sum(block.columns for block in blocks)
        each = p * K + outputs * K * (K + 2) + sum(b.rank * b.columns for b in blocks)
        own = path.by_group(np.arange(len(path.groups)))
        count = int(np.clip(min(_MOST_DRAWS, _MOST_NUMBERS / each) / GROUPS, 2, own.shape[1]))
        chosen: IndexArray = own[:, np.linspace(0, own.shape[1] - 1, count).astype(int)].ravel()
        state = path.final.take(chosen)
        rows = features(blocks, state)
        fits = table.regressions(rows)
        rng = np.random.default_rng([seed, 1])
        white, deviations = table.draw(fits, 1.0, rng)
        spread = table.precision[..., None] + fits.values
        if table.variances is None:
            shape, rate = table.noise_law(fits, 1.0)
            noise, mean_noise = deviations**2, rate / (shape - 1)
            units = np.ones((outputs, 1, 1))
        else:
            noise = mean_noise = np.broadcast_to(table.variances[:, None], deviations.shape)
            units = np.sqrt(table.variances)[:, None, None]
        mean = (fits.vectors @ (fits.moments / spread)[..., None])[..., 0] * units
        covariance = (fits.vectors / spread[..., None, :]) @ fits.vectors.swapaxes(-1, -2)
        loadings = white * np.sqrt(noise)[..., None]
        identity = [np.broadcast_to(np.eye(b.columns), (len(chosen), b.columns, b.columns)) for b in blocks]
        roots = tuple(
            np.asarray(np.linalg.cholesky(layers[-1]) if layers else eye, float)
            for layers, eye in zip(state.layers, identity, strict=True)
        )
        return cls(
            state,
            rows,
            roots,
            loadings,
            noise,
            mean,
            covariance * mean_noise[..., None, None],
            mean_noise,
            path.groups[chosen],
        )

    def __len__(self) -> int:
        return len(self.groups)

    def parts(self, blocks: Sequence[Block]) -> Iterator[slice]:
        """Columns of every block among all K."""
        first = 0
        for block in blocks:
            yield slice(first, first + block.columns)
            first += block.columns

    def factors(self, blocks: Sequence[Block]) -> list[Array]:
        """T R of every block, (n_d, m, k)."""
        return [
            coloured(self.loadings[..., part], root.swapaxes(1, 2))
            for part, root in zip(self.parts(blocks), self.roots, strict=True)
        ]
