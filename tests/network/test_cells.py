"""The predictive of a table's own rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lbnn
from tests.helpers.problems import make_problem


def test_depth_one_is_the_gaussian_given_the_observed_cells():
    problem = make_problem(9, 6, 2, seed=3)
    observed = np.random.default_rng(1).random(problem.Y.shape) < 0.7
    observed[~observed.any(axis=1), 0] = True
    cells = lbnn.Network(()).condition(problem.X, problem.Y, 4.0, observed=observed).cells
    for j in range(2):
        seen = observed[:, j]
        solved = np.linalg.solve(
            problem.gram[np.ix_(seen, seen)] + np.eye(seen.sum()) / 4, problem.gram[seen]
        )
        assert_allclose(cells.mean[:, j], solved.T @ problem.Y[seen, j], rtol=1e-9)
        variance = np.diag(problem.gram) - np.einsum("ia,ia->a", problem.gram[seen], solved)
        assert_allclose(cells.variance[:, j], variance, rtol=1e-8)
    assert_allclose(cells.with_noise().variance, cells.variance + 0.25)


def test_what_is_refused():
    problem = make_problem(9, 6, 2, seed=3)
    net = lbnn.Network((4,))
    with pytest.raises(ValueError, match="coupled noise"):
        _ = net.condition(problem.X, problem.Y, 4.0, noise="coupled", target_error=0.3).cells
    with pytest.raises(ValueError, match="weights of rows"):
        _ = net.condition(problem.X, problem.Y, 4.0, weights=np.arange(1.0, 10.0), target_error=0.3).cells
