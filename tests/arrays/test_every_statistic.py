"""The same answers from every library: several outputs, kinds of noise, ways in, all statistics."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import lbnn
from lbnn._base.arrays import HOST, device_of, to_numpy
from tests.helpers.libraries import device, every_library, put
from tests.helpers.problems import make_problem

ONE, TALL = make_problem(12, 20, seed=1, points=4), make_problem(25, 8, seed=2, points=4)
TWO = make_problem(12, 20, 2, seed=3, points=4)
#: Data, widths, beta, noise.
PROBLEMS: dict[str, tuple[Any, tuple[int, ...], Any, str]] = {
    "one output": (ONE, (5, 6), 4.0, "independent"),
    "tall": (TALL, (5,), 100.0, "independent"),
    "depth one": (TWO, (), 2.0, "independent"),
    "two outputs": (TWO, (5, 6), 4.0, "independent"),
    "zero temperature": (TWO, (9,), math.inf, "independent"),
    "per output": (TWO, (6,), (1.0, 9.0), "per_output"),
    "coupled": (TWO, (30,), 3.0, "coupled"),
    "bottleneck": (TWO, (1, 4), 4.0, "independent"),
    "no information": (TWO, (6,), 0.0, "independent"),
}
STATISTICS = {
    "mean": lambda law: law.mean,
    "variance": lambda law: law.variance,
    "standard deviation": lambda law: law.standard_deviation,
    "output covariance": lambda law: law.output_covariance,
    "covariance": lambda law: law.covariance,
    "quantiles": lambda law: law.quantile([0.1, 0.5]),
    "lower end": lambda law: law.interval(0.9)[0],
}
problems = pytest.mark.parametrize("name", PROBLEMS)


@functools.cache
def posterior(name: str, library: str) -> lbnn.Posterior:
    data, widths, beta, noise = PROBLEMS[name]
    return lbnn.Network(widths).condition(put(data.X, library), put(data.Y, library), beta, noise=noise)


def both(name: str, library: str) -> tuple[lbnn.Predictive, lbnn.Predictive]:
    """The predictive of the library and that of NumPy."""
    X_test = PROBLEMS[name][0].X_test
    return tuple(posterior(name, each).predict(put(X_test, each)) for each in (library, "numpy"))  # type: ignore[return-value]


def same(got: Any, expected: Any, library: str, rtol: float = 1e-8) -> None:
    assert device_of(got) == device(library)
    np.testing.assert_allclose(to_numpy(got), expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@every_library
@problems
def test_evidence_and_scale(name: str, library: str) -> None:
    """What is small is NumPy."""
    got, expected = posterior(name, library), posterior(name, "numpy")
    assert got.log_evidence == pytest.approx(expected.log_evidence, rel=1e-9)
    assert isinstance(got.spectrum.eigenvalues, np.ndarray)
    assert isinstance(got.spectrum.targets, np.ndarray)
    assert type(got.scale.mean) is type(expected.scale.mean)
    np.testing.assert_allclose(got.scale.mean, expected.scale.mean, rtol=1e-8, atol=1e-9)


@every_library
@problems
@pytest.mark.parametrize("statistic", STATISTICS)
def test_moments_and_quantiles(name: str, library: str, statistic: str) -> None:
    got, expected = both(name, library)
    same(STATISTICS[statistic](got), STATISTICS[statistic](expected), library)


@every_library
@problems
def test_training_points_and_observations(name: str, library: str) -> None:
    got, expected = posterior(name, library).predict(), posterior(name, "numpy").predict()
    same(got.mean, expected.mean, library)
    if PROBLEMS[name][2] == 0.0:
        return
    same(got.with_noise().covariance, expected.with_noise().covariance, library)


@every_library
@pytest.mark.parametrize("name", ["one output", "two outputs", "per output", "coupled"])
def test_densities_and_generating_functions(name: str, library: str) -> None:
    got, expected = both(name, library)
    F = 0.1 * np.ones(expected.mean.shape)
    there = put(F, library)
    same(
        got.with_noise().pointwise_log_density(there), expected.with_noise().pointwise_log_density(F), library
    )
    for law, reference in ((got, expected), (got.with_noise(), expected.with_noise())):
        assert law.log_density(there) == pytest.approx(reference.log_density(F), rel=1e-6)
        assert law.cgf(there) == pytest.approx(reference.cgf(F), rel=1e-6)
        assert law.characteristic(there) == pytest.approx(reference.characteristic(F), rel=1e-6)


@every_library
@pytest.mark.parametrize("name", ["one output", "tall", "two outputs", "zero temperature", "coupled"])
def test_feature_kernels(name: str, library: str) -> None:
    X_test, last = PROBLEMS[name][0].X_test, len(PROBLEMS[name][1])
    got = posterior(name, library).feature_kernel(put(X_test, library), layer=last)
    same(got, posterior(name, "numpy").feature_kernel(X_test, layer=last), library)
    same(posterior(name, library).feature_kernel(), posterior(name, "numpy").feature_kernel(), library)
    pairs = zip(
        posterior(name, library).feature_kernels(), posterior(name, "numpy").feature_kernels(), strict=True
    )
    for kernel, expected in pairs:
        same(kernel, expected, library)
    change = posterior(name, library).kernel_change(last)
    assert change == pytest.approx(posterior(name, "numpy").kernel_change(last), rel=1e-7)


@every_library
@pytest.mark.parametrize("name", ["one output", "two outputs", "depth one"])
def test_draws_have_the_law_they_are_drawn_from(name: str, library: str) -> None:
    """Eigenvectors have other signs in other libraries, so that draws agree in law and not one by one."""
    law, size = both(name, library)[0], 4000
    draws = law.sample(size, 0)
    assert device_of(draws) == device(library)
    flat = to_numpy(draws).reshape(size, -1)
    deviation = to_numpy(law.standard_deviation).ravel()
    errors = (flat.mean(axis=0) - to_numpy(law.mean).ravel()) / (deviation / math.sqrt(size))
    assert np.abs(errors).max() < 4.5
    weights = posterior(name, library).sample_weights(3, seed=0)
    assert all(isinstance(each, np.ndarray) for each in weights)


@every_library
def test_weights_reproduce_the_mean(library: str) -> None:
    """W_d ⋯ W_1 x over posterior draws of the weights against the mean of the predictive."""
    post = posterior("one output", library)
    first, second, third = post.sample_weights(4000, seed=1)
    outputs = (third @ second @ first)[:, 0] @ ONE.X_test.T
    law = post.predict(put(ONE.X_test, library))
    errors = (outputs.mean(axis=0) - to_numpy(law.mean)) / (
        to_numpy(law.standard_deviation) / math.sqrt(4000)
    )
    assert np.abs(errors).max() < 4.5


@every_library
def test_gram_and_moments(library: str) -> None:
    network = lbnn.Network((6, 6))
    gram, cross = TWO.X @ TWO.X.T / 20, TWO.X_test @ TWO.X.T / 20
    test = TWO.X_test @ TWO.X_test.T / 20
    expected = network.condition_gram(gram, TWO.Y, 4.0).predict(cross, test)
    got = network.condition_gram(put(gram, library), put(TWO.Y, library), 4.0)
    law = got.predict(cross_gram=put(cross, library), test_gram=put(test, library))
    same(law.mean, expected.mean, library)
    same(law.covariance, expected.covariance, library)
    moments = TALL.X.T @ TALL.X, TALL.X.T @ TALL.Y, float(TALL.Y @ TALL.Y)
    spectrum = lbnn.Spectrum.from_moments(put(moments[0], library), *moments[1:], len(TALL.X))
    law = network.condition_spectrum(spectrum, 4.0).predict(put(TALL.X_test, library))
    same(law.variance, network.condition(TALL.X, TALL.Y, 4.0).predict(TALL.X_test).variance, library)


@every_library
@pytest.mark.parametrize("widths", [(20,), (20, 12)])
@pytest.mark.parametrize("beta", [4.0, math.inf])
def test_dual_route_where_the_data_live(beta: float, widths: tuple[int, ...], library: str) -> None:
    data = make_problem(3, 6, 8, seed=4)
    network = lbnn.Network(widths)
    expected = network.condition(data.X, data.Y, beta)
    got = network.condition(put(data.X, library), put(data.Y, library), beta)
    assert got.diagnostics.engine.startswith("dual")
    assert got.log_evidence == pytest.approx(expected.log_evidence, rel=1e-6)


@every_library
def test_many_outputs(library: str) -> None:
    """Ten outputs, T row by row."""
    data = make_problem(14, 16, 10, seed=5)
    network = lbnn.Network((30, 30))
    expected = network.condition(data.X, data.Y, 4.0)
    got = network.condition(put(data.X, library), put(data.Y, library), 4.0)
    assert got.diagnostics.estimates[0].method.startswith("rows of T")
    assert got.log_evidence == pytest.approx(expected.log_evidence, rel=1e-7)
    same(got.predict(put(data.X_test, library)).mean, expected.predict(data.X_test).mean, library, 1e-6)


@every_library
@pytest.mark.parametrize("smallest", [1e-2, 1e-4])
def test_tall_inputs_close_to_dependent(smallest: float, library: str) -> None:
    """NumPy's go through a factor, others through XᵀX, which keeps fewer digits (docs/data-and-files.md)."""
    X = TALL.X * np.geomspace(smallest, 1.0, TALL.X.shape[1])
    expected = lbnn.Spectrum.from_inputs(X, TALL.Y)
    got = lbnn.Spectrum.from_inputs(put(X, library), put(TALL.Y, library))
    lost = 1e-15 / smallest**2
    np.testing.assert_allclose(got.eigenvalues, expected.eigenvalues, rtol=100 * lost)
    network = lbnn.Network((6,))
    found, exact = (network.condition_spectrum(each, 4.0).log_evidence for each in (got, expected))
    assert found == pytest.approx(exact, abs=100 * lost)


def test_large_batches_of_numpy_data_stay_on_the_host() -> None:
    assert posterior("two outputs", "numpy").spectrum.device == HOST
