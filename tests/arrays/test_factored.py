"""One output by Cholesky factorisations against the eigendecomposition, and where they are not enough."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lbnn
from lbnn._base.arrays import place_of, to_numpy
from lbnn._base.errors import NotFactorised
from lbnn.data.factored import FactoredGram, lanczos_rules
from lbnn.data.spectrum import FactoredSpectrum
from lbnn.engines.factored import infer_factored
from lbnn.likelihood.factored import Correction, chebyshev_points, factored_likelihood
from tests.helpers.libraries import every_library, place, put

AIM = 1e-8


def data(p: int, n0: int, noise: float = 0.3, size: float = 1.0, seed: int = 0) -> tuple:
    rng = np.random.default_rng(seed)
    X, X_test = rng.standard_normal((p, n0)), rng.standard_normal((5, n0))
    return X, size * X @ rng.standard_normal(n0) / math.sqrt(n0) + noise * rng.standard_normal(p), X_test


PROBLEMS = {
    "wide": (data(200, 280), (50,), 10.0),
    "deep": (data(200, 120), (5,) * 3, 10.0),
    "small targets": (data(250, 600, 0.1, 0.3), (20,), 100.0),
    "narrow, tall": (data(300, 30), (2,), 10.0),
    "depth one": (data(150, 200), (), 4.0),
    "prior variances": (data(200, 250, 0.5), (20, 20), 4.0),
}


def both(name: str) -> tuple[lbnn.Posterior, lbnn.Posterior]:
    (X, y, _), widths, beta = PROBLEMS[name]
    variances = (0.7, *[1.3] * len(widths)) if name == "prior variances" else None
    network = lbnn.Network(widths, variances)
    spectrum = lbnn.Spectrum.from_inputs(X, y, decompose="factor")
    return network.condition_spectrum(spectrum, beta), network.condition(X, y, beta)


@pytest.mark.parametrize("name", PROBLEMS)
def test_same_posterior_and_predictions(name: str) -> None:
    got, expected = both(name)
    assert isinstance(got.spectrum, FactoredSpectrum)  # no eigendecomposition after all
    assert got.log_evidence == pytest.approx(expected.log_evidence, rel=AIM / 100)
    assert got.scale.mean == pytest.approx(expected.scale.mean, rel=AIM)
    assert got.scale.inverse_mean == pytest.approx(expected.scale.inverse_mean, rel=AIM)
    X_test = PROBLEMS[name][0][2]
    law, reference = got.predict(X_test), expected.predict(X_test)
    for statistic in ("mean", "variance", "covariance", "standard_deviation", "output_covariance"):
        one, other = getattr(law, statistic), getattr(reference, statistic)
        np.testing.assert_allclose(one, other, rtol=0, atol=AIM * np.abs(other).max())
    np.testing.assert_allclose(law.quantile([0.05, 0.9]), reference.quantile([0.05, 0.9]), rtol=AIM)
    noisy, noisy_reference = law.with_noise(), reference.with_noise()
    np.testing.assert_allclose(noisy.variance, noisy_reference.variance, rtol=AIM)
    F = np.ones(len(X_test))
    np.testing.assert_allclose(
        noisy.pointwise_log_density(F), noisy_reference.pointwise_log_density(F), rtol=AIM
    )
    np.testing.assert_allclose(got.predict().mean, expected.predict().mean, rtol=0, atol=AIM)


def test_kernel_matrix() -> None:
    X, y, X_test = data(150, 3)
    square = lambda a, b: ((a[:, None] - b) ** 2).sum(axis=2)  # noqa: E731
    gram, cross, test = (np.exp(-square(*pair) / 2) for pair in ((X, X), (X_test, X), (X_test, X_test)))
    network = lbnn.Network((10, 10))
    spectrum = lbnn.Spectrum.from_gram(gram, y, decompose="factor")
    law = network.condition_spectrum(spectrum, 4.0).predict(cross, test)
    reference = network.condition_gram(gram, y, 4.0).predict(cross, test)
    np.testing.assert_allclose(law.mean, reference.mean, rtol=0, atol=AIM)
    np.testing.assert_allclose(law.covariance, reference.covariance, rtol=0, atol=AIM)


@every_library
def test_factorisations_of_any_library(library: str) -> None:
    (X, y, X_test), widths, beta = PROBLEMS["wide"]
    spectrum = lbnn.Spectrum.from_inputs(put(X, library), put(y, library), decompose="factor")
    got = lbnn.Network(widths).condition_spectrum(spectrum, beta)
    reference = lbnn.Network(widths).condition(X, y, beta)
    assert got.log_evidence == pytest.approx(reference.log_evidence, rel=AIM / 100)
    law = got.predict(put(X_test, library))
    assert place_of(law.variance) == place(library)
    np.testing.assert_allclose(to_numpy(law.variance), reference.predict(X_test).variance, rtol=AIM)
    covariance = reference.predict(X_test).covariance
    np.testing.assert_allclose(to_numpy(law.covariance), covariance, rtol=0, atol=AIM)


@pytest.mark.parametrize("seed", range(12))
def test_random_problems_are_right_or_decomposed(seed: int) -> None:
    """Any widths, noise and size of targets: where a few factorisations are not enough, eigh answers."""
    rng = np.random.default_rng([9, seed])
    p, n0 = int(rng.integers(5, 120)), int(rng.integers(3, 150))
    widths = tuple(int(width) for width in rng.integers(1, 40, size=int(rng.integers(0, 6))))
    beta, size = 10 ** rng.uniform(-2, 5), 10 ** rng.uniform(-2, 2)
    X, y, X_test = data(p, n0, 1 / math.sqrt(beta), size, seed)
    network = lbnn.Network(widths)
    spectrum = lbnn.Spectrum.from_inputs(X, y, decompose="factor")
    got, expected = network.condition_spectrum(spectrum, beta), network.condition(X, y, beta)
    assert got.log_evidence == pytest.approx(expected.log_evidence, rel=AIM, abs=AIM)
    assert got.scale.mean == pytest.approx(expected.scale.mean, rel=AIM)
    law, reference = got.predict(X_test), expected.predict(X_test)
    np.testing.assert_allclose(law.mean, reference.mean, rtol=0, atol=AIM * np.abs(reference.mean).max())
    prior = float(expected.scale.mean) * (X_test**2).sum(axis=1) / n0
    assert (np.abs(law.variance - reference.variance) <= AIM * prior).all()


def test_two_phases_are_left_to_the_eigendecomposition() -> None:
    """Fitted and collapsed phases several e-folds apart, both with mass."""
    X, y, _ = data(6, 30, 0.5, 0.8, seed=3)
    network = lbnn.Network((2,) * 6)
    spectrum = lbnn.Spectrum.from_inputs(X, y, decompose="factor")
    got, expected = network.condition_spectrum(spectrum, 10.0), network.condition(X, y, 10.0)
    assert not isinstance(got.spectrum, FactoredSpectrum)
    assert got.log_evidence == pytest.approx(expected.log_evidence, rel=1e-12)


def test_a_survey_that_was_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanczos steps cut so short that they miss the data: noticed, and decomposed."""
    monkeypatch.setattr("lbnn.data.factored._STEPS", 2)
    X, y, _ = data(150, 160)
    X = X * np.geomspace(1e-3, 1.0, 160)
    spectrum = lbnn.Spectrum.from_inputs(X, y, decompose="factor")
    likelihood = factored_likelihood(spectrum, 0.01)
    with pytest.raises(NotFactorised):
        infer_factored(lbnn.Network((10,)).scale_prior(1), likelihood, True)
    got = lbnn.Network((10,)).condition_spectrum(spectrum, 100.0)
    assert got.log_evidence == pytest.approx(
        lbnn.Network((10,)).condition(X, y, 100.0).log_evidence, rel=1e-12
    )


def test_rules_of_lanczos_integrate_polynomials() -> None:
    """vᵀ f(G) v for polynomials of degree below twice the steps, and eigenvectors, which end at once."""
    rng = np.random.default_rng(1)
    root = rng.standard_normal((70, 70)) / 8
    matrix, starts = root @ root.T, rng.standard_normal((70, 2))
    vector = np.linalg.eigh(matrix).eigenvectors[:, :1]
    rules = lanczos_rules(matrix, np.concatenate([starts, vector], axis=1))
    for (nodes, weights), start in zip(rules, starts.T, strict=False):
        for power in (0, 1, 5):
            exact = start @ np.linalg.matrix_power(matrix, power) @ start / (start @ start)
            assert weights @ nodes**power == pytest.approx(exact, rel=1e-10)
    assert len(rules[2][0]) <= 3


def test_correction_is_its_series_inside_and_its_ends_outside() -> None:
    points = chebyshev_points(-1.0, 3.0, 6)
    assert set(points.round(12)) <= set(chebyshev_points(-1.0, 3.0, 12).round(12))
    correction = Correction(-1.0, 3.0, np.array([2.0, 1.0]), 2)
    np.testing.assert_allclose(correction(np.array([-9.0, -1.0, 1.0, 3.0, 9.0])), [1.0, 1.0, 2.0, 3.0, 3.0])


def test_what_needs_eigenvectors_says_so() -> None:
    X, y, X_test = data(60, 80)
    spectrum = lbnn.Spectrum.from_inputs(X, y, decompose="factor")
    network = lbnn.Network((30,))
    post = network.condition_spectrum(spectrum, 4.0)
    law, F = post.predict(X_test), np.ones(5)
    for ask in (
        lambda: law.log_density(F),
        lambda: law.sample(2, 0),
        lambda: law.cgf(F),
        lambda: law.characteristic(F),
        post.feature_kernel,
        post.feature_kernels,
        post.kernel_change,
        lambda: post.sample_weights(2, 0),
        lambda: network.condition_spectrum(spectrum, 4.0, noise="coupled"),
        lambda: network.condition_spectrum(spectrum, math.inf),
        lambda: network.condition_spectrum(spectrum, 0.0),
        lambda: lbnn.leave_one_out(post, y),
    ):
        with pytest.raises(ValueError, match="decompose='eigh'"):
            ask()
    with pytest.raises(ValueError, match="for one output, got 2"):
        lbnn.Spectrum.from_inputs(X, np.stack([y, y], axis=1), decompose="factor")
    with pytest.raises(ValueError, match="decompose must be 'eigh' or 'factor'"):
        lbnn.Spectrum.from_inputs(X, y, decompose="cholesky")
    blocks = pytest.importorskip("dask.array").from_array(X, chunks=(20, 80))
    with pytest.raises(ValueError, match="got a dask array: use decompose='eigh'"):
        lbnn.Spectrum.from_inputs(blocks, y, decompose="factor")
    with pytest.raises(ValueError, match="engine 'auto'"):
        network.condition_spectrum(spectrum, 4.0, engine="smc")
    with pytest.raises(ValueError, match="n0 = 80"):
        post.predict(X_test[:, :3])


def test_an_indefinite_matrix_is_refused() -> None:
    indefinite = np.diag([1.0, -1.0, 2.0])
    spectrum = lbnn.Spectrum.from_gram(indefinite, np.ones(3), decompose="factor")
    with pytest.raises(ValueError, match="positive semi-definite"):
        lbnn.Network((4,)).condition_spectrum(spectrum, 4.0)
    with pytest.raises(NotFactorised):
        FactoredGram(indefinite, np.ones((3, 1)), None).solve(2.0, np.ones((3, 1)))
