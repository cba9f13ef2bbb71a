"""Predictions from a few nodes in log g: against sums over every direction of the data and every atom."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import lbnn
from lbnn._base import chebyshev_panels as module
from lbnn.predict.network import NetworkPredictive

ROWS = 160


def data(outputs: int, condition: float, size: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs whose Gram matrix has that condition, targets of a teacher, test inputs and training ones."""
    rng = np.random.default_rng(4)
    left, right = (np.linalg.qr(rng.standard_normal((n, ROWS))).Q for n in (ROWS, ROWS + 40))
    X = np.sqrt(ROWS + 40) * (left * np.geomspace(condition**-0.5, 1.0, ROWS)) @ right.T
    Y = size * (
        X @ rng.standard_normal((ROWS + 40, outputs)) / 10 + 0.1 * rng.standard_normal((ROWS, outputs))
    )
    return X, Y, np.concatenate([rng.standard_normal((4, ROWS + 40)), X[:3]])


def summed(post: lbnn.Posterior, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, output covariance, and means and deviations given every atom, by the formulas of μ_L and Σ_L."""
    g, targets, noise = post.spectrum.eigenvalues, post.spectrum.targets, post.noise.variance
    projection, weights = post.spectrum.project(X_test), post.scale.weights
    means, covariances = [], []
    for scale in post.scale.scales:
        values, vectors = np.linalg.eigh(scale)
        variance = noise + np.outer(g, np.maximum(values, 0.0))
        coefficients = (
            np.sqrt(g)[:, None] * np.maximum(values, 0) * (targets @ vectors) / variance
        ) @ vectors.T
        means.append(projection.explained @ coefficients)
        left = noise * np.maximum(values, 0.0) / variance
        inner = np.einsum("mi,ia,ja,ka->mjk", projection.explained**2, left, vectors, vectors, optimize=True)
        covariances.append(inner + projection.unexplained_diagonal[:, None, None] * scale)
    means, covariances = np.array(means), np.array(covariances)
    mean = np.tensordot(weights, means, axes=1)
    spread = np.einsum("s,smj,smk->mjk", weights, means - mean, means - mean)
    covariance = np.tensordot(weights, covariances, axes=1) + spread
    return mean, covariance, means, np.sqrt(np.diagonal(covariances, axis1=2, axis2=3))


@pytest.mark.parametrize("widths", [(2,), (1,)])
def test_directions_that_a_narrow_layer_does_not_pass_on(widths: tuple[int, ...]) -> None:
    """Their eigenvalues are zero in every atom, and they are summed as one."""
    X, Y, X_test = data(4, 100.0, 1.0)
    post = lbnn.Network(widths).condition(X, Y, 10.0)
    mean, covariance, _, _ = summed(post, X_test)
    pred = post.predict(X_test)
    np.testing.assert_allclose(pred.mean, mean, rtol=1e-9, atol=1e-10 * np.abs(mean).max())
    size = np.abs(covariance).max()
    np.testing.assert_allclose(pred.output_covariance, covariance, rtol=1e-8, atol=1e-10 * size)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(pred.variance, variance, rtol=1e-8, atol=1e-10 * size)


@pytest.mark.parametrize("beta", [1e-6, 10.0, 1e9])
@pytest.mark.parametrize(("outputs", "condition", "size"), [(1, 30.0, 1.0), (1, 1e4, 1e-3), (2, 100.0, 10.0)])
def test_moments_and_quantiles(outputs: int, condition: float, size: float, beta: float) -> None:
    """Mean, covariance across outputs and quantiles, at new points and at training points."""
    X, Y, X_test = data(outputs, condition, size)
    post = lbnn.Network((20,)).condition(X, Y, beta)
    pred = post.predict(X_test)
    assert isinstance(pred, NetworkPredictive)
    assert len(pred.process.rows.nodes) < ROWS
    mean, covariance, means, deviations = summed(post, X_test)
    np.testing.assert_allclose(pred.mean, mean, rtol=1e-11, atol=1e-12 * np.abs(mean).max())
    roots = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    scaled = (pred.output_covariance - covariance) / (roots[:, :, None] * roots[:, None, :])
    rounding = (1e-15 * np.abs(mean) / roots).max() ** 2  # the sum here takes the spread from whole means
    assert np.abs(scaled).max() < 1e-10 + rounding
    level = pred.quantile(0.2)
    probability = np.einsum("s,smj->mj", post.scale.weights, special.ndtr((level - means) / deviations))
    np.testing.assert_allclose(probability, 0.2, rtol=1e-6)


def test_full_covariance_has_the_output_covariances_on_its_diagonal() -> None:
    """And is symmetric and positive."""
    X, Y, X_test = data(2, 100.0, 1.0)
    pred = lbnn.Network((20, 20)).condition(X, Y, 10.0).predict(X_test)
    full = pred.covariance
    np.testing.assert_allclose(np.einsum("mjmk->mjk", full), pred.output_covariance, rtol=1e-11)
    flat = full.reshape(14, 14)
    np.testing.assert_allclose(flat, flat.T, rtol=1e-11)
    assert np.linalg.eigvalsh(flat)[0] > 0


def test_too_few_nodes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that do not resolve the gains give way to the rows themselves; unchecked, answers are wrong."""
    X, Y, X_test = data(1, 1e6, 1.0)
    post = lbnn.Network((20,)).condition(X, Y, 100.0)
    right = post.predict(X_test).mean
    monkeypatch.setattr(module, "nodes_for", lambda half: 3)
    watched = lbnn.Network((20,)).condition(X, Y, 100.0).predict(X_test)
    np.testing.assert_allclose(watched.mean, right, rtol=1e-12)
    monkeypatch.setattr(module, "accurate", lambda *_: True)
    wrong = lbnn.Network((20,)).condition(X, Y, 100.0).predict(X_test).mean
    assert np.abs(wrong - right).max() > 1e-7 * np.abs(right).max()


def test_averages_over_atoms_are_taken_once() -> None:
    """Predictions of one posterior share them."""
    X, Y, X_test = data(1, 30.0, 1.0)
    post = lbnn.Network((20,)).condition(X, Y, 100.0)
    one, other = post.predict(X_test), post.predict(X_test[:2])
    assert one._curves is other._curves  # type: ignore[union-attr]
    np.testing.assert_allclose(one.mean[:2], other.mean, rtol=1e-13)


@pytest.mark.parametrize("beta", [1e-200, 1e-20, 1e20, 1e200])
def test_ends_of_the_temperatures(beta: float) -> None:
    """Far out predictions are finite, and at training points without noise quantiles are the targets."""
    X, Y, X_test = data(1, 30.0, 1.0)
    pred = lbnn.Network((5,)).condition(X, Y[:, 0], beta).predict(X_test)
    assert (pred.variance > 0).all()
    low, high = pred.interval(0.9)
    assert (low <= pred.mean).all()
    assert (pred.mean <= high).all()
    if beta > 1:
        np.testing.assert_allclose(low[4:], Y[:3, 0], rtol=1e-8)
        np.testing.assert_allclose(high[4:], Y[:3, 0], rtol=1e-8)


@pytest.mark.parametrize("widths", [(2,), (9,)])
def test_more_outputs_than_rows(widths: tuple[int, ...]) -> None:
    """Means are then sums over atoms at the rows, and behind a narrow layer through few directions."""
    rng = np.random.default_rng(8)
    X, X_test = rng.normal(size=(4, 30)), rng.normal(size=(5, 30))
    Y = X @ rng.normal(size=(30, 2)) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(4, 5))
    post = lbnn.Network(widths).condition(X, Y, 20.0, seed=1)
    mean, covariance, _, _ = summed(post, X_test)
    pred = post.predict(X_test)
    assert pred._curves is not None  # type: ignore[attr-defined]
    assert pred._curves.narrow == (widths == (2,))  # type: ignore[attr-defined]
    np.testing.assert_allclose(pred.mean, mean, rtol=1e-9, atol=1e-11 * np.abs(mean).max())
    size = np.abs(covariance).max()
    np.testing.assert_allclose(pred.output_covariance, covariance, rtol=1e-8, atol=1e-10 * size)
    matrix = rng.normal(size=(2, 5))
    variance = np.einsum("kj,mjl,kl->mk", matrix, covariance, matrix)
    np.testing.assert_allclose(pred.variance_of(matrix), variance, rtol=1e-8)  # type: ignore[attr-defined]
