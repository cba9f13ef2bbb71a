"""Leave-one-out scores of free noise given draws, with and without weights of rows: dense covariances."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from lbnn.cross_validation import left_out_scores
from lbnn.cross_validation.averages import left_out_log_weights
from lbnn.data.spectrum import Spectrum
from lbnn.scale.draws import Draws


@pytest.mark.parametrize("shape", [(5, 9), (7, 2)], ids=["wide", "tall"])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_dense_covariances(shape, weighted):
    """Given Σ and L of every draw, row a of Y given the others from Cov Y = K ⊗ L + diag(1/w) ⊗ Σ."""
    rng = np.random.default_rng(0)
    rows, outputs, count = shape[0], 2, 200
    X, Y = rng.normal(size=shape), rng.normal(size=(rows, outputs))
    w = rng.uniform(0.2, 3.0, rows) if weighted else np.ones(rows)
    draws = Draws(
        np.array([[1.0, 0.0], [0.5, 0.8]]) + 0.02 * rng.normal(size=(count, 2, 2)),
        rng.uniform(0.95, 1.05, (count, 2)),
        np.full(count, 1 / count),
        np.arange(count) % 4,
    )
    spectrum = Spectrum.from_inputs(X, Y, weights=w if weighted else None)
    matrix = rng.normal(size=(3, 2))
    posterior = SimpleNamespace(
        spectrum=spectrum, _left_out_draws=draws, diagnostics=SimpleNamespace(messages=())
    )
    found = left_out_scores(posterior, Y, matrix=matrix)
    gram, a = X @ X.T / shape[1], 1
    here = [2 * a, 2 * a + 1]
    others = [i for i in range(2 * rows) if i not in here]
    means, covariances = np.empty((count, 2)), np.empty((count, 2, 2))
    log_density = np.empty((1, count))
    for s, (basis, ratios) in enumerate(zip(draws.basis, draws.ratios, strict=True)):
        signal, noise = basis @ np.diag(ratios) @ basis.T, basis @ basis.T
        whole = np.kron(gram, signal) + np.kron(np.diag(1 / w), noise)
        gain = whole[np.ix_(here, others)] @ np.linalg.inv(whole[np.ix_(others, others)])
        means[s] = gain @ Y.ravel()[others]
        covariances[s] = whole[np.ix_(here, here)] - gain @ whole[np.ix_(others, here)]
        log_density[0, s] = stats.multivariate_normal(means[s], covariances[s]).logpdf(Y[a])
    weights = np.exp(left_out_log_weights(draws.weights, log_density, smooth=True)[0][0])
    mean = weights @ means
    spread = np.einsum("s,sij->ij", weights, covariances) + np.cov(means.T, aweights=weights, bias=True)
    np.testing.assert_allclose(found.mean[a], matrix @ mean, rtol=1e-8)
    np.testing.assert_allclose(found.variance[a], np.diag(matrix @ spread @ matrix.T), rtol=1e-8)
    log_volume = 0.5 * np.linalg.slogdet(matrix.T @ matrix)[1]
    average = np.log(weights @ np.exp(log_density[0]))
    np.testing.assert_allclose(found.log_density[a], average - log_volume, rtol=1e-8)
