"""Observed cells given a root of the scale, or of the hidden kernel, and what is integrated with them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import lbnn
from lbnn.likelihood.observed import CellsOfKernel, CellsOfScale
from lbnn.noise.missing import observed_likelihood, plain_cells
from tests.views.test_missing import cells_of, table


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("rows", "outputs", "width"), [(9, 4, 2), (4, 7, 2), (4, 7, 6)])
def test_values_and_gradients_are_those_of_the_dense_covariance(rows, outputs, width, weighted, centred):
    rng = np.random.default_rng(1)
    X, Y, observed = table(rows, outputs, 5, 6 if rows > 4 else 9)
    weights = rng.gamma(2.0, size=rows) if weighted else None
    spectrum, cells = cells_of(X, Y, observed, weights, centred=centred)
    likelihood = observed_likelihood(spectrum, cells, 0.3, (width, 9))
    plain = plain_cells(spectrum, cells, 0.3)
    forms = [
        (likelihood.narrow, CellsOfScale, outputs, plain.log_value),
        (likelihood.kernel, CellsOfKernel, spectrum.rank, plain.log_kernel_value),
    ]
    assert (likelihood.kernel is None) == (outputs <= spectrum.rank)
    for own, kind, size, formula in forms:
        if own is None:
            continue
        assert isinstance(own, kind)
        frame = np.linalg.qr(rng.normal(size=(size, size)))[0]
        own, root = own.in_frame(frame), rng.normal(size=(3, size, width))
        values, gradient = own.value_and_gradient(root)
        seen = frame @ root
        expected = [formula(each @ each.T) for each in seen]
        for value, (other, bound) in zip(values + likelihood.log_constant, expected, strict=True):
            assert value == pytest.approx(other, abs=max(bound, 1e-9))
        np.testing.assert_allclose(own.log_value(root), values, rtol=1e-12)
        change = rng.normal(size=root.shape)
        ahead, behind = (own.log_value(root + step * change) for step in (1e-5, -1e-5))
        np.testing.assert_allclose((gradient * change).sum(axis=(1, 2)), (ahead - behind) / 2e-5, rtol=1e-5)


def one_unit(gram, Y, observed, noise):
    """Log evidence and E L_jj behind one hidden unit, for two rows: a grid over the unit's activations.

    Given the activations h ~ N(0, G) at both rows the outputs are independent regressions on h.
    """
    root = np.linalg.cholesky(gram)
    z = np.arange(-7.0, 7.001, 0.02)
    h = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
    h = h[h[:, 0] > 0]  # the law is even
    logs = math.log(2 * 0.02**2 / (2 * math.pi)) - 0.5 * (h**2).sum(axis=1)
    h = h @ root.T
    squares = np.zeros((len(h), Y.shape[1]))
    for j, seen in enumerate(observed.T):
        own, y = h[:, seen], Y[seen, j]
        precision = 1 + (own**2).sum(axis=1) / noise
        mean = own @ y / noise / precision
        squares[:, j] = mean**2 + 1 / precision
        logs -= 0.5 * (np.log(precision) + len(y) * math.log(2 * math.pi * noise))
        logs -= 0.5 * (y @ y / noise - mean**2 * precision)
    return float(special.logsumexp(logs)), special.softmax(logs) @ squares


def test_two_rows_of_a_hundred_outputs_behind_one_unit():
    """280 seconds were not enough with matrices of a hundred rows and columns for every draw."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 6)), rng.normal(size=(2, 100))
    observed = rng.random((2, 100)) < 0.8
    observed[:, ~observed.any(axis=0)] = True
    posterior = lbnn.Network((1,)).condition(X, Y, 2.0, observed=observed, seed=0)
    expected, squares = one_unit(X @ X.T / 6, Y, observed, 0.5)
    assert posterior.diagnostics.ok
    assert abs(posterior.log_evidence - expected) < 4 * posterior.log_evidence_error
    z = (np.diagonal(posterior.scale.mean) - squares) / np.diagonal(posterior.scale.mean_error)
    assert np.sqrt((z**2).mean()) < 2
    assert np.abs(z).max() < 5


@pytest.mark.parametrize("widths", [(2,), (3, 2), (8, 9)])
def test_more_outputs_than_rows_against_draws_of_the_hidden_units(widths):
    rng = np.random.default_rng(5)
    rows, outputs, noise = 3, 15, 0.7
    X, Y = rng.normal(size=(rows, 4)), 0.7 * rng.normal(size=(rows, outputs))
    observed = rng.random((rows, outputs)) < 0.7
    observed[:, ~observed.any(axis=0)] = True
    hidden = np.broadcast_to(np.linalg.cholesky(X @ X.T / 4), (200_000, rows, rows))
    sizes = (rows, *widths)
    for before, width in zip((None, *sizes[1:]), widths, strict=False):
        hidden = hidden @ rng.normal(size=(len(hidden), hidden.shape[2], width))
        hidden = hidden if before is None else hidden / math.sqrt(before)
    kernel = hidden @ hidden.swapaxes(1, 2) / widths[-1]
    logs = np.zeros(len(kernel))
    for j, seen in enumerate(observed.T):
        covariance = kernel[:, seen][:, :, seen] + noise * np.eye(seen.sum())
        y = np.broadcast_to(Y[seen, j, None], (len(kernel), seen.sum(), 1))
        white = np.linalg.solve(covariance, y)[..., 0] @ Y[seen, j]
        logs -= 0.5 * (np.linalg.slogdet(2 * math.pi * covariance)[1] + white)
    weights = np.exp(logs - logs.max())
    expected = logs.max() + math.log(weights.mean())
    error = weights.std() / weights.mean() / math.sqrt(len(weights))
    assert error < 0.05
    posterior = lbnn.Network(widths).condition(X, Y, 1 / noise, observed=observed, seed=3)
    assert posterior.diagnostics.ok
    assert abs(posterior.log_evidence - expected) < 4 * math.hypot(error, posterior.log_evidence_error)
