"""The moves leave the posterior as it is: weighted draws of the prior, before and after one sweep."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from lbnn.sums.chain import Block, draw_prior, features
from lbnn.sums.moves import TOLERANCE, conjugate_gradients, gauge, sweep
from lbnn.sums.table import Table

DRAWS = 30_000


def block(widths, p, seed=None):
    """On inputs of six columns, or on the identity."""
    if seed is None:
        return Block.of(widths, 1.0, np.ones(1), None, p)
    X = np.random.default_rng(seed).normal(size=(p, 6))
    values, vectors = np.linalg.eigh(X @ X.T / 6)
    return Block.of(widths, 1.0, values, vectors, p)


def statistics(table, blocks, state):
    """Functions of the state whose averages are compared, (any, m)."""
    H = features(blocks, state)
    rows = [*(H[0] * H[1]).T, *(H[2] ** 2).T, np.abs(H).sum(axis=(0, 2))]
    rows += [np.log(np.linalg.det(layer)) for own in state.layers for layer in own]
    fits = table.regressions(H)
    return np.array([*rows, table.log_likelihood(fits.values, fits.moments**2, 1.0)])


@pytest.mark.parametrize("power", [1.0, 0.2])
@pytest.mark.parametrize("noise", [None, np.array([0.5, 2.0, 1.0])], ids=["unknown", "known"])
@pytest.mark.parametrize(
    "blocks",
    [[block((2,), 4, 0)], [block((2, 3), 4, 0), block((1,), 4)], [block((3, 2, 2), 4, 1), block((2,), 4, 2)]],
    ids=["one", "two", "deep"],
)
def test_one_sweep_leaves_the_posterior(blocks, noise, power):
    """Weights of the states before the sweep; five paired standard errors for some 90 averages."""
    rng = np.random.default_rng(5)
    Y, observed = rng.normal(size=(4, 3)), np.ones((4, 3), bool)
    observed[[0, 1, 2], [0, 1, 1]] = False
    table = Table.of(Y, observed, noise)
    state = draw_prior(blocks, DRAWS, rng)
    fits = table.regressions(features(blocks, state))
    log_weights = table.log_likelihood(fits.values, fits.moments**2, power)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    before = statistics(table, blocks, state)
    state, _ = sweep(table, blocks, state, fits, power, rng)
    change = statistics(table, blocks, state) - before
    error = np.sqrt((weights * (change - (change @ weights)[:, None])) ** 2 @ np.ones(DRAWS))
    np.testing.assert_array_less(np.abs(change @ weights), 5 * error)


def test_gauge_leaves_its_own_law():
    """One column: exact draws of a generalised inverse Gaussian, its mean a ratio of Bessel functions."""
    draws, order, phi, psi = 40_000, -1.5, 2.0, 3.0
    one = np.ones((draws, 1, 1))
    squares = gauge(order, phi * one, psi * one, np.random.default_rng(0))[:, 0, 0] ** 2
    root = np.sqrt(phi * psi)
    mean = np.sqrt(psi / phi) * special.kv(order + 1, root) / special.kv(order, root)
    assert abs(squares.mean() - mean) < 5 * squares.std() / np.sqrt(draws)


def test_conjugate_gradients_solve_every_system():
    """To a thousandth of a deviation √(eᵀAe/8); the preconditioner, I, bounds it since A ≥ I."""
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, 8, 8))  # of three particles, with four rows and two columns
    matrices = roots @ roots.swapaxes(1, 2) + np.eye(8)
    right = rng.normal(size=(4, 3, 2))

    def vector(x):
        return x.transpose(1, 0, 2).reshape(3, 8, 1)

    def apply(x):
        return (matrices @ vector(x)).reshape(3, 4, 2).transpose(1, 0, 2)

    error = vector(conjugate_gradients(apply, right, np.ones((4, 3, 2))))
    error -= np.linalg.solve(matrices, vector(right))
    squares = (error.swapaxes(1, 2) @ matrices @ error).ravel()
    np.testing.assert_array_less(np.sqrt(squares / 8), TOLERANCE)
