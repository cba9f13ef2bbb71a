"""Densities at each point by itself, at outliers too: against evidences of data with one point more."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import lbnn
from lbnn.predict import predictive
from lbnn.predict.part import Part
from lbnn.scale.draws import Draws
from tests.helpers.predictives import affine


def problem(outputs, seed=0):
    rng = np.random.default_rng(seed)
    X, test = rng.normal(size=(30, 10)), rng.normal(size=(3, 10))
    Y = X[:, :outputs] @ rng.normal(size=(outputs, outputs)) + 0.3 * rng.normal(size=(30, outputs))
    return X, Y, test, rng.normal(size=outputs)


@pytest.mark.parametrize(
    ("widths", "noise"),
    [((4,), "independent"), ((4,), "coupled"), ((4,), "per_output"), ((5, 5), "independent")],
)
@pytest.mark.parametrize("deviations", [0.5, 20.0])
def test_an_outlier_has_the_evidence_that_it_adds(widths, noise, deviations):
    """p(y | Y) = p(Y, y)/p(Y), each by a run of its own; own atoms are off by up to 10⁴."""
    X, Y, test, direction = problem(3)
    network, beta = lbnn.Network(widths), np.array([5.0, 4.0, 6.0]) if noise == "per_output" else 5.0
    posterior = network.condition(X, Y, beta, noise=noise, target_error=0.05)
    law = posterior.predict(test[:1]).with_noise()
    y = law.mean + deviations * law.standard_deviation * direction
    joint = network.condition(
        np.vstack([X, test[:1]]), np.vstack([Y, y]), beta, noise=noise, target_error=0.05, seed=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        density = law.pointwise_log_density(y)[0]
    # 50 effective draws, the fewest that are accepted, have an error of 0.14
    error = np.hypot(0.14, np.hypot(joint.log_evidence_error, posterior.log_evidence_error))
    assert abs(density - (joint.log_evidence - posterior.log_evidence)) < 3 * error


def test_quadrature_nodes_are_chosen_anew_for_a_far_outlier():
    X, Y, test, _ = problem(1)
    law = lbnn.Network((6,)).condition(X, Y[:, 0], beta=5.0).predict(test).with_noise()
    far = law.mean + np.array([0.3, 30.0, 1e6]) * law.standard_deviation
    each = [
        lbnn.Network((6,)).condition(X, Y[:, 0], beta=5.0).predict(point[None]).with_noise().log_density([y])
        for point, y in zip(test, far, strict=True)
    ]
    np.testing.assert_allclose(law.pointwise_log_density(far), each, rtol=1e-9)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("noisy", [True, False])
def test_a_level_is_noise_of_another_size(outputs, noisy):
    """With a level the point has another noise variance than the data: the function at 30 deviations, too."""
    X, Y, test, direction = problem(outputs)
    posterior = lbnn.Network((4,)).condition(X, Y, beta=5.0)
    inner = posterior.predict(test[:1])
    inner = inner.with_noise() if noisy else inner
    law = affine(inner, 2 * np.eye(outputs), np.ones(outputs), level_variance=0.01)
    y = law.mean + 30 * law.standard_deviation * direction
    fine = lbnn.Network((4,)).condition(X, Y, beta=5.0, seed=3).predict(test[:1])
    wide = affine(fine.with_noise() if noisy else fine, 2 * np.eye(outputs), np.ones(outputs), 0.01)
    # the level as one more input of variance one, seen by this point alone, is the same law up to order 1/β
    assert np.isfinite(law.pointwise_log_density(y)).all()
    assert abs(law.pointwise_log_density(y)[0] - wide.pointwise_log_density(y)[0]) < 0.5
    if noisy:
        assert law.pointwise_log_density(y)[0] == pytest.approx(law.log_density(y), abs=0.5)


def test_units_of_outputs_do_not_matter_at_an_outlier():
    X, Y, test, direction = problem(3)
    inner = lbnn.Network((4,)).condition(X, Y, beta=5.0).predict(test[:1]).with_noise()
    y = inner.mean + 20 * direction
    units = np.diag([1e3, 1.0, 1e-3])
    outer = affine(inner, units, np.zeros(3))
    assert outer.pointwise_log_density(y @ units)[0] == pytest.approx(
        inner.pointwise_log_density(y)[0], abs=1e-6
    )


def test_atoms_without_a_law_say_what_they_rest_on():
    X, Y, test, direction = problem(3)
    law = lbnn.Network((4,)).condition(X, Y, beta=5.0).predict(test).with_noise()
    bare = replace(law, parts=(replace(law.parts[0], evidence=None),))
    far = law.mean + np.array([[0.0], [0.5], [30.0]]) * direction
    with pytest.warns(lbnn.AccuracyWarning, match="1 of 3 densities rest on fewer than 50 effective draws"):
        bare.pointwise_log_density(far)


def test_a_singular_draw_of_coupled_noise_has_no_density_elsewhere():
    """Beside other draws it counts with its weight and density zero; alone it determines the outputs."""
    X, Y, test, _ = problem(2)
    posterior = lbnn.Network((4,)).condition(X, Y, beta=5.0, noise="coupled")
    (part,) = posterior.predict(test).with_noise().parts
    regular = posterior.scale.scales[:1]
    both = np.concatenate([regular, np.diag([1.0, 0.0])[None]])

    def terms(scales, weights, values):
        draws = Draws.of(lbnn.ScaleMeasure(scales, weights, False), 0.0, 0.2)
        return replace(part, process=part.process.with_draws(draws)).point_terms(values, slice(None))

    values = part.mean + 0.1
    of_two, of_one = terms(both, np.array([0.25, 0.75]), values), terms(regular, np.ones(1), values)
    np.testing.assert_allclose(of_two[0], of_one[0], rtol=1e-12)
    assert (of_two[1] == -np.inf).all()
    with pytest.raises(ValueError, match="do not determine"):
        terms(both[1:], np.ones(1), values)


def test_at_most_twenty_points_are_integrated_anew_and_the_others_are_named(monkeypatch):
    """With one warning for all of them."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 6)), rng.normal(size=(30, 2))
    law = lbnn.Network((5,)).condition(X, Y, beta=4.0).predict(X[:23]).with_noise()
    asked = []

    def evidence_of(self, values):
        asked.append(values)
        return -1.0

    monkeypatch.setattr(Part, "evidence_of", evidence_of)
    far = law.mean + 400 * law.standard_deviation
    with pytest.warns(lbnn.AccuracyWarning, match="of 23 densities rest on fewer than 50") as caught:
        found = law.pointwise_log_density(far)
    assert len(caught) == 1
    assert len(asked) == 20
    assert np.count_nonzero(found == -1.0) == 20
    assert (found[found != -1.0] < -10).all()


@pytest.fixture(scope="module")
def narrow_law():
    """Four outputs behind two units, and values at five points that its own draws do not reach."""
    rng = np.random.default_rng(4)
    X, test = rng.normal(size=(12, 8)), rng.normal(size=(4, 8))
    Y = rng.normal(size=(12, 1)) * rng.normal(size=4) + 0.3 * rng.normal(size=(12, 4))
    network = lbnn.Network((2,))
    posterior = network.condition(X, Y, beta=8.0)
    far = 12 * rng.normal(size=(4, 4)) * np.arange(1, 5)[:, None]
    return posterior.predict(test).with_noise(), far, (network, X, Y, test, posterior.log_evidence)


def test_an_outlier_behind_a_narrow_layer_is_a_difference_of_evidences(narrow_law):
    law, far, (network, X, Y, test, log_evidence) = narrow_law
    for number, own in enumerate(law.pointwise_log_density(far)):
        rows = np.vstack([X, test[number]]), np.vstack([Y, far[number]])
        joint = network.condition(*rows, beta=8.0, seed=5)
        assert abs(own - (joint.log_evidence - log_evidence)) < 4 * np.hypot(0.14, joint.log_evidence_error)


def test_more_outliers_than_can_be_integrated_have_one_warning(narrow_law, monkeypatch):
    """Those of the smallest densities are integrated anew, the others keep the average of the draws."""
    law, far, _ = narrow_law
    every = law.pointwise_log_density(far)
    monkeypatch.setattr(predictive, "MOST_POINTS", 2)
    with pytest.warns(lbnn.AccuracyWarning, match="2 of 4 densities rest on fewer than 50"):
        some = law.pointwise_log_density(far)
    assert (np.abs(some - every) < 0.5).sum() == 2
