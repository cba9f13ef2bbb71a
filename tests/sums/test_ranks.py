"""Simulation-based calibration (Talts et al. 2018): true values have uniform ranks among posterior draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lbnn.sums.chain import Block, draw_prior, features
from lbnn.sums.draws import Draws
from lbnn.sums.effort import sample
from lbnn.sums.table import NOISE_SHAPE, Table

ROWS, OUTPUTS, SETS = 8, 3, 200
RATES = np.array([0.5, 1.0, 2.0])
#: Hidden widths on inputs and on the identity; whether the noise is known; share of missing cells.
KINDS = {
    "one, known, complete": ((2,), None, True, 0.0),
    "one, known, missing": ((2,), None, True, 0.5),
    "one, unknown, missing": ((2,), None, False, 0.4),
    "two, known, missing": ((1,), (1,), True, 0.4),
    "two, unknown, missing": ((2,), (1,), False, 0.3),
    "deep, unknown, missing": ((3, 2, 2), (2, 1), False, 0.3),
}


def ranks(kind, number):
    """Ranks in (0, 1) of a missing or observed cell, its square, an output's scale, a noise; and ok."""
    widths, own, known, missing = KINDS[kind]
    rng = np.random.default_rng([number, *kind.encode()])
    X = rng.normal(size=(ROWS, 5))
    values, vectors = np.linalg.eigh(X @ X.T / 5)
    kept = values > 1e-10
    blocks = [Block.of(widths, 1.0, values[kept], vectors[:, kept], ROWS)]
    blocks += [] if own is None else [Block.of(own, 1.0, np.ones(1), None, ROWS)]
    rows = features(blocks, draw_prior(blocks, 1, rng))[:, 0]
    noise = np.array([0.3, 1.0, 0.5]) if known else RATES / rng.gamma(NOISE_SHAPE, size=OUTPUTS)
    loadings = rng.normal(size=(OUTPUTS, rows.shape[1])) * (1.0 if known else np.sqrt(noise)[:, None])
    table = rows @ loadings.T + np.sqrt(noise) * rng.normal(size=(ROWS, OUTPUTS))
    observed = rng.random((ROWS, OUTPUTS)) >= missing
    observed[0] = True
    observed[:, 0] |= ~observed.any(axis=1)
    checked = Table.of(table, observed, noise if known else None, RATES)
    found = sample(checked, blocks, 0.5, number)
    draws = Draws.of(checked, blocks, found.path, number)
    cell = tuple(np.argwhere(~observed)[0]) if not observed.all() else (1, 1)
    truth = rows[cell[0]] @ loadings[cell[1]]
    ours = (draws.features[cell[0]] * draws.loadings[cell[1]]).sum(axis=1)
    pairs = [
        (truth, ours),
        (truth**2, ours**2),
        ((loadings[0] ** 2).sum(), (draws.loadings[0] ** 2).sum(axis=1)),
    ]
    if not known:
        pairs.append((noise[1], draws.noise[1]))
    return [(own < true).mean() for true, own in pairs], found.diagnostics.ok


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_are_uniform(kind):
    """Kolmogorov–Smirnov, at a probability of 1e-3 over all quantities of all kinds."""
    found = [ranks(kind, number) for number in range(SETS)]
    assert np.mean([ok for _, ok in found]) >= 0.9
    for column in np.array([each for each, _ in found]).T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3 / (4 * len(KINDS))
