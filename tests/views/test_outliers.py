"""Densities of outlying points against the difference of two log evidences: with the point and without it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import lbnn
from lbnn.scale.measure import effective_atoms

NETWORK, BETA = lbnn.Network((6, 5)), 4.0
LARGEST = 4.0  # joint errors; a density carries an error of 0.1 itself


def table(seed, outputs, rows=12, inputs=3):
    """Inputs, targets, which of them were observed, and one test input."""
    rng = np.random.default_rng([31, seed])
    X = rng.normal(size=(rows, inputs))
    observed = rng.random((rows, outputs)) < 0.7
    observed[np.arange(rows), np.arange(rows) % outputs] = True
    Y = X @ rng.normal(size=(inputs, outputs)) + 0.5 * rng.normal(size=(rows, outputs))
    return X, Y, observed, rng.normal(size=(1, inputs))


def from_evidence(post, more):
    """Log density as a difference of log evidences, and its error with that of the density that is tested."""
    error = math.hypot(post.log_evidence_error, more.log_evidence_error)
    return more.log_evidence - post.log_evidence, math.hypot(error, 0.1)


def from_draws(law, y):
    """The average over the draws alone, and how many of them count."""
    (part,) = law.parts
    terms = np.log(part.weights)[:, None] + part.point_terms(y, slice(None))
    return float(np.logaddexp.reduce(terms[:, 0])), float(effective_atoms(terms)[0])


@pytest.mark.parametrize(
    ("noise", "outputs", "deviations"),
    [
        ("coupled", 2, 10),
        ("independent", 3, 30),
        pytest.param("coupled", 3, 30, marks=pytest.mark.slow),
        pytest.param("coupled", 4, 15, marks=pytest.mark.slow),
        pytest.param("independent", 4, 15, marks=pytest.mark.slow),
    ],
)
def test_outlying_rows_of_tables_with_missing_cells(noise, outputs, deviations):
    X, Y, observed, x = table(5, outputs)
    post = NETWORK.condition(X, Y, BETA, observed=observed, noise=noise)
    law = post.predict(x).with_noise()
    y = law.mean + deviations * law.standard_deviation * (-1.0) ** np.arange(outputs)
    mask = np.concatenate([observed, np.ones((1, outputs), bool)])
    both = np.concatenate([X, x]), np.concatenate([Y, y])
    more = NETWORK.condition(*both, BETA, observed=mask, noise=noise, seed=1)
    exact, error = from_evidence(post, more)
    assert abs(law.pointwise_log_density(y)[0] - exact) < LARGEST * error
    assert abs(law.log_density(y) - exact) < LARGEST * error  # one point: the same
    if noise == "coupled":  # where the draws alone are wrong by far
        average, effective = from_draws(law, y)
        assert effective < 50
        assert abs(average - exact) > 10 * error


@pytest.mark.parametrize("noisy", [True, False])
def test_outlying_observations_through_views(noisy):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(6, 10))  # more inputs than observations: the scale decides how far values may be
    views = lbnn.views.gates(x, np.stack([x[:, 0] > 0, x[:, 0] <= 0], axis=1).astype(float))
    y = np.abs(x[:, 0]) + 0.1 * rng.normal(size=6)
    far = rng.normal(size=(1, 2, 10))  # both gates open
    network, beta = lbnn.Network((4, 4)), 100.0
    post = network.condition_views(views, y, beta)
    law = post.predict(views=far)
    law = law.with_noise() if noisy else law
    value = law.mean + 10 * law.standard_deviation
    average, effective = from_draws(law, value[:, None])
    assert effective < 50
    found = law.pointwise_log_density(value)[0]
    if noisy:
        more = network.condition_views(np.concatenate([views, far]), np.append(y, value), beta, seed=1)
        exact, error = from_evidence(post, more)
        assert abs(found - exact) < LARGEST * error
        assert abs(average - exact) > 3 * error
    else:  # noise is small beside the function's deviation of some units
        assert abs(found - law.with_noise().pointwise_log_density(value)[0]) < 0.5


def test_outlying_rows_of_averages_over_models():
    """Every model is integrated anew: from its few draws no share of the density follows."""
    X, Y, observed, x = table(5, 2)
    mask, laws, exact, errors = np.concatenate([observed, np.ones((1, 2), bool)]), [], [], []
    y = np.array([[30.0, -30.0]])
    for width in (5, 40):
        network = lbnn.Network((width,))
        post = network.condition(X, Y, BETA, observed=observed, noise="coupled")
        both = np.concatenate([X, x]), np.concatenate([Y, y])
        more = network.condition(*both, BETA, observed=mask, noise="coupled", seed=1)
        laws.append(post.predict(x).with_noise())
        difference, error = from_evidence(post, more)
        exact.append(difference)
        errors.append(error)
    mixture = lbnn.Predictive.average(tuple(laws), np.array([0.3, 0.7]))
    expected = np.logaddexp(*(np.log([0.3, 0.7]) + exact))
    assert abs(mixture.pointwise_log_density(y)[0] - expected) < LARGEST * max(errors)
    assert expected - from_draws(laws[1], y)[0] > 10  # what its draws alone would say


def test_row_weights_and_levels_of_outlying_rows():
    """Given levels the new cell is less a mean of observed cells: by dense algebra at one scale."""
    X, Y, observed, x = table(6, 3)
    model = lbnn.LBNNRegressor(missing_targets="allow", noise="coupled", width=8, depth=2)
    targets = np.where(observed, Y, np.nan)
    law = model.fit(X, targets, sample_weight=np.linspace(0.5, 2.0, len(X))).predictive(x).with_noise()
    inner = replace(law.parts[0], matrix=None, offset=0.0)
    y = inner.mean + 3.0
    joint = inner.extended(0, y[0], *inner.noise)
    own = inner.law.target.likelihood
    values, vectors = np.linalg.eigh(inner.scales[:5])
    ratio = joint.log_value(values, vectors) + joint.log_constant
    ratio -= own.log_value(values, vectors) + own.log_constant
    assert np.allclose(ratio, inner.point_terms(y, slice(5))[:, 0], atol=1e-7)


def test_points_too_many_for_integrals_are_named(monkeypatch):
    X, Y, observed, x = table(5, 2)
    law = NETWORK.condition(X, Y, BETA, observed=observed, noise="coupled").predict(x).with_noise()
    y = law.mean + 20 * law.standard_deviation
    monkeypatch.setattr("lbnn.predict.predictive.MOST_WORK", 1.0)
    with pytest.warns(lbnn.AccuracyWarning, match="1 of 1 densities rest on fewer than 50"):
        law.pointwise_log_density(y)


def test_averages_over_models_have_one_bound_for_their_integrals(monkeypatch):
    """The point farther out is integrated for both models, the other for none, and a message says so."""
    X, Y, observed, x = table(5, 2)
    points = np.concatenate([x, x + 0.1])
    posts = [lbnn.Network((n,)).condition(X, Y, BETA, observed=observed, noise="coupled") for n in (5, 40)]
    laws = tuple(post.predict(points).with_noise() for post in posts)
    mixture, y = lbnn.Predictive.average(laws, np.array([0.3, 0.7])), np.array([[30.0, -30.0]] * 2)
    with np.errstate(divide="ignore"):
        terms = [
            np.log(part.share * part.weights)[:, None] + part.point_terms(y, slice(None))
            for part in mixture.parts
        ]
    drawn = np.logaddexp.reduce(np.concatenate(terms))
    far, near = np.argsort(drawn)
    there = [post.predict(points[[far]]).with_noise() for post in posts]
    alone = lbnn.Predictive.average(there, mixture.shares)
    once = sum(law.parts[0].work for law in laws)
    monkeypatch.setattr("lbnn.predict.predictive.MOST_WORK", 1.5 * once)
    with pytest.warns(lbnn.AccuracyWarning, match="1 of 2 densities rest on fewer than 20"):
        found = mixture.pointwise_log_density(y)
    assert found[far] == pytest.approx(alone.pointwise_log_density(y[:1])[0], abs=1e-9)
    assert found[near] == pytest.approx(drawn[near], abs=1e-9)
