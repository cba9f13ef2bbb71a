"""Leave-one-out where the posterior without one row has a phase that the posterior of all rows has not."""

from __future__ import annotations

import numpy as np
import pytest

import lbnn

X = np.array(
    [
        [-0.24867639, -0.50227103],
        [0.41627638, -0.39659876],
        [0.0031838, -0.31657842],
        [0.27540613, 0.16618138],
    ]
)
Y = np.array([694.17373611, -475.86267871, 1020.25115373, -76.32705713])
NETWORK = lbnn.Network((30, 2), (0.16014561126057714, 3.2141163419329053, 0.6891231908873802))
BETA = 0.0019632906673885263


@pytest.mark.xfail(
    reason="nodes are those of the posterior of all rows: without row 1, E λ is 11,800, not 2.3"
)
def test_a_phase_that_one_row_suppresses_is_found():
    left = NETWORK.condition(X, Y, BETA).leave_one_out(Y)
    others = np.arange(4) != 1
    refit = NETWORK.condition(X[others], Y[others], BETA).predict(X[1:2]).with_noise()
    np.testing.assert_allclose(left.mean[1], refit.mean[0], rtol=1e-8)
    np.testing.assert_allclose(left.variance[1], refit.variance[0], rtol=1e-8)
