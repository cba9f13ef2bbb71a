"""Tasks: densities, exact answers by other routes, files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import lbnn
from lbnn.benchmark import load, tasks
from lbnn.benchmark.reference import store
from tests.benchmark.mpmath_evidence import log_evidence
from tests.referees import make_tasks
from tests.referees.task_answers import answer
from tests.referees.task_recipes import FAMILIES, RECIPES
from tests.views import referee

NAMES = [recipe.name for recipe in RECIPES]
SIZE = {"size-10250": 1_000}  # draws of a large network
GRADE_A = [recipe.name for recipe in RECIPES if recipe.channels == 1]


def test_twenty_eight_tasks_in_seven_families():
    entries = tasks()
    assert len(entries) == 28 == len({entry.name for entry in entries})
    assert tuple(dict.fromkeys(entry.family for entry in entries)) == FAMILIES
    for entry in entries:
        task = load(entry.name)
        assert (task.dimension, task.grade, task.summary) == (entry.dimension, entry.grade, entry.difficulty)
        assert task.functions.names == task.expectations.names
        assert len(entry.difficulty) > 60
    assert [entry.name for entry in entries] == NAMES
    assert lbnn.benchmark.load("coexist-10") is load("coexist-10")


def test_stored_data_are_those_of_the_recipes():
    for recipe in RECIPES:
        task, (X, Y, X_test) = load(recipe.name), recipe.data()
        np.testing.assert_array_equal(task.X, X)
        np.testing.assert_allclose(task.Y, Y, rtol=1e-13, atol=1e-13)  # by a product of matrices
        np.testing.assert_array_equal(task.X_test, X_test)


def test_headline_numbers():
    ten, fourteen = load("coexist-10"), load("hidden-14")
    assert ten.dimension == 10
    assert fourteen.dimension == 14
    assert ten.phases.mass[1] == pytest.approx(0.492, abs=5e-4)
    assert ten.phases.fitted_directions.tolist() == [0, 1]
    assert fourteen.log_evidence == pytest.approx(-162.85, abs=6e-3)


@pytest.mark.parametrize(
    "name", ["plain-15", "deep-24", "plain-40-two-outputs", "cold-44", "gated-37", "conv-64"]
)
def test_gradient_is_that_of_the_density(name):
    task = load(name)
    z = np.concatenate([task.prior_draws(2, 0), task.reference(2, 1)])
    direction = np.random.default_rng(2).standard_normal(z.shape)
    step = 1e-6
    slope = (task.log_density(z + step * direction) - task.log_density(z - step * direction)) / (2 * step)
    exact = (task.gradient(z) * direction).sum(1)
    np.testing.assert_allclose(slope, exact, rtol=1e-6, atol=1e-6 * np.abs(task.gradient(z)).max())


def test_flatten_is_the_inverse_of_unflatten_and_follows_the_layers():
    task = load("plain-102-three-outputs")
    weights = task.posterior.sample_weights(5, 0)
    z = task.flatten(weights)
    for own, back in zip(weights, task.unflatten(z), strict=True):
        np.testing.assert_allclose(own, back, rtol=1e-14)
    first = weights[0].reshape(5, -1) * math.sqrt(task.X.shape[1])
    np.testing.assert_allclose(z[:, : first.shape[1]], first, rtol=1e-14)
    predictions = (
        task.X_test @ weights[0].swapaxes(1, 2) @ weights[1].swapaxes(1, 2) @ weights[2].swapaxes(1, 2)
    )
    np.testing.assert_allclose(task.functions(z)[:, :9], predictions.reshape(5, -1), rtol=1e-12, atol=1e-14)


def test_answers_against_weighted_draws_of_the_prior():
    """A route that shares nothing with the scale: importance sampling in weight space from the prior."""
    task = load("few-24")
    z = task.prior_draws(200_000, 3)
    log_weights = task.log_likelihood(z)
    weights = np.exp(log_weights - log_weights.max())
    total, n = weights.sum(), len(z)
    estimate = log_weights.max() + math.log(total / n)
    error = weights.std() / weights.mean() / math.sqrt(n)
    assert abs(estimate - task.log_evidence) < 4 * error < 0.05
    values, known = task.functions(z), task.expectations
    mean = weights @ values / total
    errors = np.sqrt(((weights[:, None] * (values - mean)) ** 2).sum(0)) / total
    assert np.abs((mean - known.mean) / errors).max() < 4.2  # 19 functions
    second = weights @ (values - known.mean) ** 2 / total
    deviation_error = (
        np.sqrt(((weights[:, None] * ((values - known.mean) ** 2 - second)) ** 2).sum(0)) / total
    )
    light = known.kurtosis < 30
    z_scores = (second - known.standard_deviation**2) / deviation_error
    assert np.abs(z_scores[light]).max() < 4.2
    assert light.sum() > 12


@pytest.mark.parametrize(
    "name",
    [
        "gated-20",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("gated-37", "conv-64", "conv-84")),
    ],
)
def test_evidence_of_views_against_annealing_in_the_weights(name):
    """A route that shares nothing with the scale, and the targets view by view."""
    task = load(name)
    assert task.views is not None
    weights = task.unflatten(task.prior_draws(3, 0))
    product = weights[-1]
    for weight in weights[-2::-1]:
        product = product @ weight
    expected = [
        [sum(own[m] @ views[m] for m in range(len(views))) for views in task.views] for own in product
    ]
    residual = (np.array(expected) - task.Y[:, 0]) / task.density.noise
    log_likelihood = task.density.log_normaliser - 0.5 * (residual**2).sum(axis=1)
    np.testing.assert_allclose(task.log_likelihood(task.flatten(weights)), log_likelihood, rtol=1e-12)
    deviation = math.sqrt(math.prod(task.density.prior_variances))
    value, error = referee.evidence_by_annealing(
        deviation * task.views, task.Y[:, 0], task.density.widths, task.density.noise**2,
        np.random.default_rng(0), steps=100,
    )  # fmt: skip
    assert error < 0.1
    assert abs(value - task.log_evidence) < 4.5 * math.hypot(error, task.log_evidence_error)


@pytest.mark.parametrize(
    "name",
    [
        "coexist-10",
        "cold-210",
        "rank-72-bottleneck",
        "gated-20",
        pytest.param("gated-37", marks=pytest.mark.slow),
        pytest.param("conv-64", marks=pytest.mark.slow),
        pytest.param("conv-84", marks=pytest.mark.slow),
        pytest.param("rank-48-rank-one-targets", marks=pytest.mark.slow),
        pytest.param("size-10250", marks=pytest.mark.slow),
    ],
)
def test_exact_draws_have_the_stored_expectations(name):
    task = load(name)
    values, known = task.functions(task.reference(SIZE.get(name, 5_000), 11)), task.expectations
    error = np.hypot(known.standard_deviation / math.sqrt(len(values)), known.error)
    z = np.abs(values.mean(0) - known.mean) / error
    assert z[known.kurtosis < 500].max() < 4.5
    again = task.reference(len(values), 12)
    share = np.bincount(task.phase_of(again), minlength=len(task.phases)) / len(values)
    np.testing.assert_allclose(share, task.phases.mass, atol=0.03)


def test_stored_answers_are_those_that_quadrature_gives():
    for name in ("plain-15", "cold-210"):
        task = load(name)
        fresh = answer(task.functions)
        np.testing.assert_allclose(fresh.expectations.mean, task.expectations.mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            fresh.expectations.standard_deviation, task.expectations.standard_deviation, rtol=1e-8
        )
        assert fresh.log_evidence == pytest.approx(task.log_evidence, abs=1e-10)
        np.testing.assert_allclose(fresh.phases.mass, task.phases.mass, rtol=1e-9)
        np.testing.assert_allclose(fresh.phases.cuts, task.phases.cuts, atol=1e-5)


def test_layers_of_one_output_are_balanced_as_symmetry_asks():
    """With equal variances, E|W_1|² less its unseen rows equals E|W_d|²: rescaling between layers is free."""
    task = load("coexist-10")
    first, last = task.expectations["|W_1|²"][0], task.expectations["|W_3|²"][0]
    assert first - 0.01 == pytest.approx(last, abs=1e-12)  # one unseen row of two weights of variance 0.005
    assert task.expectations["balance_2"][0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_evidence_against_mpmath():
    check_evidence("plain-15", 45, -25)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in GRADE_A if not name.startswith("size")])
def test_evidence_of_every_small_task_against_mpmath(name):
    check_evidence(name, 110)


def check_evidence(name, digits, lowest=-45):
    task = load(name)
    density = task.density
    exact = log_evidence(
        task.X, task.Y[:, 0], density.widths, density.prior_variances, density.noise, digits, lowest
    )
    assert task.log_evidence == pytest.approx(exact, abs=1e-10)


# ---------------------------------------------------------------------- files


def test_unknown_task_is_named_with_a_hint():
    with pytest.raises(ValueError, match="did you mean 'coexist-10'"):
        load("coexist-11")
    with pytest.raises(ValueError, match="family must be one of plain, deep"):
        tasks("easy")


def test_file_of_another_version_or_changed_numbers_does_not_load():
    content = json.loads((make_tasks.FOLDER / "plain-15.json").read_text(encoding="utf-8"))
    assert store.check(content, "plain-15") is content
    cases = {
        "'lbnn-benchmark/2' for plain-15": content | {"format": "lbnn-benchmark/2"},
        "never change": content | {"log_evidence": -8.0},
        "'list'": [1, 2],
    }
    for message, bad in cases.items():
        with pytest.raises(ValueError, match=message):
            store.check(bad, "plain-15")


def test_arrays_survive_packing():
    rng = np.random.default_rng(0)
    for array in (
        rng.normal(size=(3, 4)),
        rng.normal(size=(40, 30)),
        rng.normal(size=(40, 30)).astype("<f2"),
    ):
        np.testing.assert_array_equal(
            store.unpack(json.loads(json.dumps(make_tasks.pack(array.astype(float))))), array
        )


def test_wrong_shapes_are_refused():
    task = load("plain-15")
    with pytest.raises(ValueError, match="15 weights on its last axis"):
        task.log_density(np.zeros(14))
    with pytest.raises(ValueError, match="arrays that end in the shapes"):
        task.flatten([np.zeros((3, 4)), np.zeros((3, 1))])
    with pytest.raises(KeyError, match="expectations are known of"):
        task.expectations["nothing"]
