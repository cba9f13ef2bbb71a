"""A noise covariance that is given: the two-phase and the outlying problems, and the law of the scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import lbnn

SKEW = np.array([[1.0, 0.3], [0.3, 2.0]])


def test_one_output_has_the_evidence_of_its_noise_variance():
    """Two phases. A sampler from the near one said −180.511 ± 0.003, ok, and E L = 0.00013."""
    network = lbnn.Network((3, 1), (1, 0.01, 0.01))
    post = network.condition([[1.0]], [[10.4]], noise="free", noise_covariance=[[0.3]], seed=1)
    known = network.condition([[1.0]], [[10.4]], beta=1 / 0.3)
    assert post.diagnostics.ok
    assert post.log_evidence == pytest.approx(known.log_evidence, abs=1e-12)
    np.testing.assert_allclose(post.scale.mean, known.scale.mean)


@pytest.fixture(scope="module")
def turned():
    """Noise of a covariance QDQᵀ for targets Z Qᵀ, and noise of the variances D for Z."""
    rng = np.random.default_rng(3)
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    X, Z, variances = rng.normal(size=(7, 4)), rng.normal(size=(7, 3)), np.array([0.03, 0.2, 1.0])
    network, options = lbnn.Network((4, 5)), {"target_error": 0.2, "seed": 2}
    covariance = axes * variances @ axes.T
    one = network.condition(X, Z @ axes.T, noise="free", noise_covariance=covariance, **options)
    other = network.condition(X, Z, 1 / variances, noise="per_output", **options)
    return axes, one, other


def test_turned_targets_have_the_turned_posterior(turned):
    """Up to the error of two runs, as eigenvectors have signs and rounding of their own."""
    axes, one, other = turned
    error = math.hypot(one.log_evidence_error, other.log_evidence_error)
    assert abs(one.log_evidence - other.log_evidence) < 4 * error
    spread = 4 * np.hypot(one.scale.mean_error, axes @ other.scale.mean_error @ axes.T)
    mean = axes @ other.scale.mean @ axes.T
    assert (np.abs(one.scale.mean - mean) < np.maximum(spread, 0.2 * np.abs(mean).max())).all()


def test_the_law_of_the_scale_is_that_of_its_atoms(turned):
    """Averages, tilted averages, draws and phases, in the user's outputs."""
    _, post, _ = turned
    scale, noise = post.scale, post.noise
    np.testing.assert_allclose(noise.root @ noise.root.T, post.noise_covariance)
    tilt = 0.1 * (np.diag([0.3, -0.2, 0.1]) + 0.05)

    def exponent(values, vectors):
        """Tr A L."""
        return np.einsum("jk,mkl,ml,mjl->m", tilt, vectors, values, vectors)

    plain = special.logsumexp(np.einsum("jk,mkj->m", tilt, scale.scales), b=scale.weights)
    assert scale.log_expect_exp(exponent).real == pytest.approx(plain, abs=1e-10)
    draws = scale.sample(4000, 1)
    deviation = np.sqrt(scale.average((scale.scales - scale.mean) ** 2) / 4000)
    assert (np.abs(draws.mean(axis=0) - scale.mean) < 5 * deviation).all()
    factors = scale.law.sample_factors(3, np.random.default_rng(0))
    again = scale.law.sample(3, np.random.default_rng(0))
    total = factors[0] @ factors[1]
    np.testing.assert_allclose(total @ total.swapaxes(1, 2), again)
    phases = scale.phases()
    np.testing.assert_allclose(np.tensordot(phases.mass, phases.mean_scale, 1), scale.mean)


def test_a_diagonal_covariance_is_noise_per_output():
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    network = lbnn.Network((4,))
    one = network.condition(X, Y, noise="free", noise_covariance=np.diag([2.0, 0.5]))
    assert one.log_evidence == network.condition(X, Y, [0.5, 2.0], noise="per_output").log_evidence
    one = network.condition(X, Y, noise="free", noise_covariance=2 * np.eye(2))
    assert one.log_evidence == network.condition(X, Y, 0.5).log_evidence


def test_an_outlying_row_of_steep_columns_is_that_of_draws_of_the_prior():
    """Columns fall as 10^(−j^0.7): the sampler was low by 3 to 9 stated errors in four of seven."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 6)) / 10
    Y = rng.normal(size=(10, 3)) * 10.0 ** (-(np.arange(1, 4) ** 0.7))
    Y[3] *= 8
    covariance = 0.05 * (np.eye(3) + 0.5)
    post = lbnn.Network((4, 4)).condition(X, Y, noise="free", noise_covariance=covariance)
    count = 200_000
    inner = rng.standard_normal((count, 4, 4)) / 2
    last = rng.standard_normal((count, 3, 4)) / 2 @ inner
    scales = last @ last.swapaxes(1, 2)
    values, axes = np.linalg.eigh(X @ X.T / 6)
    logs = np.zeros(count)
    for g, row in zip(np.maximum(values, 0.0), axes.T @ Y, strict=True):
        total = g * scales + covariance
        fit = np.linalg.solve(total, np.broadcast_to(row[:, None], (count, 3, 1)))[:, :, 0] @ row
        logs -= 0.5 * (np.linalg.slogdet(2 * math.pi * total)[1] + fit)
    weights = np.exp(logs - logs.max())
    expected = float(logs.max()) + math.log(weights.mean())
    error = weights.std() / weights.mean() / math.sqrt(count)
    assert error < 0.05
    assert post.diagnostics.ok
    assert abs(post.log_evidence - expected) < 4 * math.hypot(error, post.log_evidence_error)


def test_damaged_axes_are_refused():
    post = lbnn.Network(()).condition(np.eye(3), np.eye(3)[:, :2], noise="free", noise_covariance=SKEW)
    header, arrays = post._packed()
    with pytest.raises(ValueError, match="orthonormal"):
        lbnn.Posterior._unpacked(header, arrays | {"noise.axes": np.ones((2, 2))})
