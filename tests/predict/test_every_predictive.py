"""One surface: every predictive has every public method, with the same shapes, or raises with the reason."""

from __future__ import annotations

import inspect
import math
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import lbnn
from lbnn.predict.mixture import Mixture
from tests.helpers.predictives import affine
from tests.helpers.problems import make_problem

SURFACE = {
    "mean", "variance", "standard_deviation", "covariance", "output_covariance",
    "log_density", "pointwise_log_density", "quantile", "interval", "sample",
    "mgf", "cgf", "characteristic", "with_noise",
}  # fmt: skip


def made(outputs):
    """A predictive of every kind, of the function and of observations."""
    problem = make_problem(14, 8, outputs, seed=2)
    X, Y, X_test = problem.X, problem.Y, problem.X_test
    quick = {"target_error": 0.3}
    network = lbnn.Network((6,))
    model = lbnn.LBNNRegressor(depth=2, width=4, target_error=0.3).fit(X, Y)
    inner = network.condition(X, Y, 4.0, **quick).predict(X_test)
    size = outputs or 1
    certain = affine(inner, 2 * np.eye(size), np.ones(size), 0.0, outputs is None)
    laws = {
        "network": inner,
        "prior": network.prior(X_test, outputs, **quick),
        "theory": lbnn.asymptotics.infinite_width(network, X, Y, 4.0, order=0).predict(X_test),
        "expansion": lbnn.asymptotics.infinite_width(network, X, Y, 4.0).predict(X_test),
        "scale mixture": lbnn.ScaleMixture().condition(X, Y, 4.0).predict(X_test),
        "coupled": network.condition(X, Y, 4.0, noise="coupled", **quick).predict(X_test),
        "affine": certain,
        "estimator": model.predictive(X_test),
        "average": lbnn.Predictive.average((inner, certain), np.array([0.3, 0.7])),
    }
    if outputs:
        betas = np.arange(1.0, outputs + 1)
        laws["per output"] = network.condition(X, Y, betas, noise="per_output", **quick).predict(X_test)
        observed = network.condition(X, Y, 4.0, noise="coupled", **quick).predict(X_test[:1]).with_noise()
        laws["given one"] = observed.given(np.array([[np.nan] * (outputs - 1) + [0.3]]))
    noisy = {f"{name}, observed": law.with_noise() for name, law in laws.items() if name != "prior"}
    return laws | noisy


LAWS = {
    f"{name}, {outputs or 'no axis'}": law for outputs in (None, 2) for name, law in made(outputs).items()
}
every = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def subclasses(kind):
    return {kind, *(each for child in kind.__subclasses__() for each in subclasses(child))}


def test_the_base_has_the_whole_surface_and_every_kind_of_predictive_is_walked():
    public = {name for name in dir(Mixture) if not name.startswith("_")}
    assert public >= SURFACE
    concrete = {kind for kind in subclasses(Mixture) if not inspect.isabstract(kind)}
    assert concrete == {type(law) for law in LAWS.values()}
    assert {kind.__name__ for kind in concrete} <= set(lbnn.__all__)


def test_a_predictive_that_lacks_a_method_cannot_be_made():
    names = {
        "_log_density",
        "_sample",
        "marginals",
        "_cgf",
        "_characteristic",
        "with_noise",
        "_mean",
        "_covariance",
        "device",
        "gaussians",
    }
    assert names <= Mixture.__abstractmethods__

    class Lacking(lbnn.Predictive):
        with_noise = Mixture.with_noise

    Lacking.__abstractmethods__ = frozenset({"with_noise"})
    with pytest.raises(TypeError, match="with_noise"):
        Lacking(LAWS["network, 2"].parts)


@every
def test_moments_have_their_shapes_and_agree(law):
    points, outputs = law.shape
    shape = (points,) if law.single_output else (points, outputs)
    assert law.mean.shape == law.variance.shape == law.standard_deviation.shape == shape
    assert law.output_covariance.shape == (points, outputs, outputs)
    assert law.covariance.shape == ((points, points) if law.single_output else (points, outputs) * 2)
    dense = law.covariance.reshape(points, outputs, points, outputs)
    np.testing.assert_allclose(law.output_covariance, np.einsum("mjmk->mjk", dense), atol=1e-10)
    np.testing.assert_allclose(law.standard_deviation**2, law.variance, rtol=1e-12)


def answer(method, argument):
    """A number, or None where a ValueError says why not and what to do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        try:
            return method(argument)
        except ValueError:
            with pytest.raises(ValueError, match=r": use with_noise\(\)"):
                method(argument)


@every
def test_densities_quantiles_and_draws(law):
    points, shape = law.shape[0], law.mean.shape
    joint, pointwise = answer(law.log_density, law.mean), answer(law.pointwise_log_density, law.mean)
    assert joint is None or isinstance(joint, float)
    assert pointwise is None or pointwise.shape == (points,)
    assert law.quantile([0.1, 0.5, 0.9]).shape == (3, *shape)
    low, high = law.interval(0.9)
    assert (low <= high).all()
    np.testing.assert_allclose(law.quantile(0.05), low)
    draws = law.sample(2000, 1)
    assert draws.shape == (2000, *shape)
    assert (np.abs(draws.mean(0) - law.mean) < 0.3 * law.standard_deviation + 1e-9).all()


@every
def test_generating_functions_have_the_moments_for_derivatives(law):
    J = np.zeros(law.mean.shape)
    assert law.cgf(J) == pytest.approx(0.0, abs=1e-9)
    assert law.characteristic(J) == pytest.approx(1.0, abs=1e-9)
    J.flat[0] = step = 1e-3 / law.standard_deviation.flat[0]
    slope = (law.characteristic(J) - law.characteristic(-J)).imag / (2 * step)
    size = abs(law.mean.flat[0]) + law.standard_deviation.flat[0]
    assert slope == pytest.approx(law.mean.flat[0], abs=1e-4 * size)
    ahead, behind = law.cgf(J), law.cgf(-J)
    if math.isfinite(ahead) and math.isfinite(behind):
        assert (ahead + behind) / step**2 == pytest.approx(law.variance.flat[0], rel=1e-2)
        assert law.mgf(J) == pytest.approx(math.exp(ahead))


@every
def test_wrong_shapes_are_refused_by_name(law):
    for method, name in ((law.log_density, "F"), (law.pointwise_log_density, "F"), (law.cgf, "J")):
        with pytest.raises(ValueError, match=f"^{name} must be shaped like the mean"):
            method(np.zeros((7, 7, 7)))


@every
def test_every_predictive_shows_itself(law):
    assert repr(law).startswith(f"{type(law).__name__}(")
    assert f"points={law.shape[0]}, outputs={law.shape[1]}, noisy={law.noisy}" in repr(law)
    tree = ElementTree.fromstring(law._repr_html_())
    assert tree.find("table") is not None


def test_observations_of_observations_are_the_same():
    for name in ("network, 2", "coupled, 2", "estimator, 2"):
        once = LAWS[name].with_noise()
        np.testing.assert_array_equal(once.with_noise().covariance, once.covariance)


@every
def test_every_predictive_can_be_given_outputs(law):
    """Nothing known changes no mean; everything known is the value with no variance left."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        nothing = law.given(np.full(law.mean.shape, np.nan))
        np.testing.assert_allclose(nothing.mean, law.mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(nothing.variance, law.variance, rtol=1e-8, atol=1e-10)
        everything = law.given(law.mean)
    np.testing.assert_array_equal(everything.mean, law.mean)
    assert (everything.variance == 0).all()
