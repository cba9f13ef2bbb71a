"""Transforms of targets: evidence with the Jacobian, predictions in the user's units, advice."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

import lbnn
from lbnn import LBNNRegressor
from lbnn.predict.transformed import TRANSFORMS, TransformedPredictive

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Z = X @ np.array([0.8, -0.5, 0.0]) + 0.4 * RNG.normal(size=80)
FIXED = {"depth": 1, "noise": "independent"}


@pytest.mark.parametrize("name", list(TRANSFORMS))
def test_transforms_are_increasing_and_inverted(name):
    transform = TRANSFORMS[name]
    y = np.linspace(0.05, 0.95, 50)
    np.testing.assert_allclose(transform.inverse(transform.forward(y)), y, rtol=1e-12)
    slope = (transform.forward(y + 1e-6) - transform.forward(y - 1e-6)) / 2e-6
    np.testing.assert_allclose(transform.log_slope(y), np.log(slope), atol=1e-6)


@pytest.mark.parametrize("name", list(TRANSFORMS))
def test_densities_moments_quantiles_and_draws_belong_together(name):
    """The density integrates to one, to the mean and the variance; quantiles to their levels."""
    transform = TRANSFORMS[name]
    y = transform.inverse(0.3 * Z if name == "logit" else 0.3 * Z + 3.0)
    model = LBNNRegressor(target_transform=name, **FIXED).fit(X[:40], y[:40])
    law = model.predictive(X[40:41]).with_noise()
    grid = transform.inverse(np.linspace(*law.predictive.quantile([1e-7, 1 - 1e-7])[:, 0], 4001))
    points = model.predictive(np.repeat(X[40:41], len(grid), axis=0)).with_noise()
    density = np.exp(points.pointwise_log_density(grid))
    total = [integrate.trapezoid(density * grid**k, grid) for k in range(3)]
    assert total[0] == pytest.approx(1.0, abs=1e-4)
    assert law.mean[0] == pytest.approx(total[1], rel=1e-3)
    assert law.variance[0] == pytest.approx(total[2] - total[1] ** 2, rel=1e-2)
    assert integrate.trapezoid(density[grid < law.quantile(0.8)[0]], grid[grid < law.quantile(0.8)[0]]) == (
        pytest.approx(0.8, abs=2e-3)
    )
    draws = law.sample(4000, 0)[:, 0]
    assert (
        stats.kstest(
            draws, lambda v: np.interp(v, grid, integrate.cumulative_trapezoid(density, grid, initial=0))
        ).pvalue
        > 1e-3
    )


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_the_unit_of_the_targets_does_not_decide_on_a_transform(unit):
    """The log of targets that vary by a thousandth is linear: it gains nothing, whatever their unit."""
    y = unit * (1000 + Z)
    plain = LBNNRegressor(**FIXED).fit(X, y)  # no DataWarning
    log = LBNNRegressor(target_transform="log", **FIXED).fit(X, y)
    assert log.log_evidence_ == pytest.approx(plain.log_evidence_, abs=0.1)


def test_evidence_has_the_jacobian_and_auto_takes_the_best(tmp_path):
    y = np.exp(1.5 * Z)
    log = LBNNRegressor(target_transform="log", **FIXED).fit(X, y)
    inner = LBNNRegressor(**FIXED).fit(X, np.log(y))
    slopes = (len(y) - 1) * np.log(y).mean()  # of the contrasts
    assert log.log_evidence_ == pytest.approx(inner.log_evidence_ - slopes)
    assert log.evidence_table_[0]["log_evidence"] == pytest.approx(log.log_evidence_, abs=1e-6)
    with pytest.warns(lbnn.DataWarning) as caught:
        plain = LBNNRegressor(**FIXED).fit(X, y)
    assert any("target_transform='log' raises the log evidence by" in str(each.message) for each in caught)
    assert log.log_evidence_ > plain.log_evidence_ + 20
    auto = LBNNRegressor(target_transform="auto", **FIXED).fit(X, y)
    assert auto.target_transform_ == "log"
    assert LBNNRegressor(target_transform="auto", **FIXED).fit(X, Z).target_transform_ is None
    mean, deviation = auto.predict(X[:5], return_std=True)
    law = auto.predictive(X[:5]).with_noise()
    assert isinstance(law, TransformedPredictive)
    np.testing.assert_allclose(mean, law.quantile(0.5))
    assert (law.interval(0.99)[0] > 0).all()
    assert (deviation > 0).all()
    auto.save(tmp_path / "model.lbnn")
    np.testing.assert_allclose(LBNNRegressor.load(tmp_path / "model.lbnn").predict(X[:5]), mean)


def test_shares_are_noticed_though_they_are_not_skewed():
    with pytest.warns(lbnn.DataWarning, match=r"target_transform='logit' raises"):
        LBNNRegressor(**FIXED).fit(X, special.expit(2.0 * (Z - np.median(Z))))


def test_units_of_lognormal_targets_do_not_matter():
    y = np.exp(Z)
    small, large = (LBNNRegressor(target_transform="log", **FIXED).fit(X, c * y) for c in (1e-3, 1e3))
    np.testing.assert_allclose(large.predict(X[:5]), 1e6 * small.predict(X[:5]), rtol=1e-6)


def test_what_is_known_of_some_outputs():
    Y = np.exp(np.column_stack([Z, Z + 0.1 * RNG.normal(size=80)]))
    model = LBNNRegressor(width=(4,), noise="coupled", target_transform="log", average=False).fit(X, Y)
    law = model.predictive(X[:3]).with_noise()
    known = law.given(np.column_stack([np.full(3, np.nan), Y[:3, 1]]))
    assert (known.variance[:, 0] < law.variance[:, 0]).all()
    with pytest.raises(ValueError, match="sample"):
        _ = law.covariance


def test_bad_targets_and_two_levels():
    with pytest.raises(ValueError, match="targets above 0"):
        LBNNRegressor(target_transform="log").fit(X, Z)
    with pytest.raises(ValueError, match="between 0 and inf"):
        LBNNRegressor(target_transform="log", **FIXED).fit(X, np.exp(Z)).predictive(
            X[:1]
        ).pointwise_log_density([-1.0])
    with pytest.warns(lbnn.DataWarning, match="two values"):
        LBNNRegressor(**FIXED).fit(X, (Z > 0).astype(float))
    with pytest.raises(ValueError, match="rows in memory"):
        LBNNRegressor(target_transform="log").fit_chunks([(X, np.exp(Z))])


@pytest.mark.parametrize("name", ["log", "logit"])
def test_left_out_densities_are_those_of_the_targets(name):
    """From a fit of the transformed targets, with the slopes of the transform written out."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 3))
    inner = X @ [0.5, 0.2, 0.0] + 0.3 * rng.normal(size=20)
    y = np.exp(inner) if name == "log" else 1 / (1 + np.exp(-inner))
    slopes = 1 / y if name == "log" else 1 / (y * (1 - y))
    transformed = lbnn.LBNNRegressor(target_transform=name).fit(X, y).leave_one_out()
    plain = lbnn.LBNNRegressor().fit(X, inner).leave_one_out()
    np.testing.assert_allclose(transformed.log_density, plain.log_density + np.log(slopes), rtol=1e-6)
    np.testing.assert_allclose(transformed.mean, plain.mean, rtol=1e-6)


@pytest.mark.parametrize("name", ["sqrt", "logit"])
def test_moments_of_gaussians_at_every_deviation(name):
    """Against adaptive quadrature with breaks where the inverse bends, a route of its own."""
    transform = TRANSFORMS[name]
    for m, s in [(0.3, 0.3), (-3.0, 1.0), (2.0, 2.0), (10.0, 3.0), (-3.0, 10.0), (2.0, 30.0), (10.0, 100.0)]:
        bends = [each for each in (0.0, -5.0, 5.0, -40.0, 40.0) if abs(each - m) < 12 * s]
        breaks = np.unique([m - 12 * s, m - 4 * s, m, m + 4 * s, m + 12 * s, *bends])

        def average(of, m=m, s=s, breaks=breaks):
            def weighted(z):
                return of(transform.inverse(z)) * stats.norm.pdf(z, m, s)

            return sum(integrate.quad(weighted, *ends)[0] for ends in pairwise(breaks))

        mean = average(lambda y: y)
        found = transform.moments(np.array([m]), np.array([s]))
        assert found[0][0] == pytest.approx(mean, rel=1e-8)
        assert found[1][0] == pytest.approx(average(lambda y, mean=mean: (y - mean) ** 2), rel=1e-7)
    certain = transform.moments(np.array([1.7]), np.array([1e-9]))[1][0]  # Σ = s² (dy/dz)²
    slope = 2 * 1.7 if name == "sqrt" else special.expit(1.7) * special.expit(-1.7)
    assert certain == pytest.approx(1e-18 * slope**2, rel=1e-5)


def test_means_of_exponentials_are_infinite_where_the_generating_function_is():
    """Fewer rows than columns, so that the inputs leave some of the function free (R > 0)."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(12, 20))
    y = np.exp(0.4 * inputs[:, 0])
    points = np.vstack([s * rng.normal(size=20) for s in (0.3, 1.0, 2.0, 4.0)] + [inputs[0]])
    finite = []
    for width in [(30,), (30, 30)]:
        model = LBNNRegressor(width=width, target_transform="log", beta=20.0, prior_scale=6.0).fit(inputs, y)
        law = model.predictive(points).with_noise()
        for power, moment in ((1, law.mean), (2, law.variance + law.mean**2)):
            exact = np.array([law.predictive.mgf(power * row) for row in np.eye(len(points))])
            finite.append(np.isfinite(exact).tolist())
            np.testing.assert_allclose(moment[np.isfinite(exact)], exact[np.isfinite(exact)], rtol=1e-8)
            assert not np.isfinite(moment[~np.isfinite(exact)]).any()
        np.testing.assert_allclose(model.predict(points), np.exp(law.predictive.quantile(0.5)))
    assert finite[0] == [True, True, True, False, True]
    assert finite[2] == finite[3] == [False, False, False, False, True]


def test_known_values_outside_the_range_are_refused():
    Y = np.exp(np.column_stack([Z, Z + 0.1 * RNG.normal(size=80)]))
    law = LBNNRegressor(target_transform="log", **FIXED).fit(X, Y).predictive(X[:1]).with_noise()
    for value in (-1.0, 0.0):
        with pytest.raises(ValueError, match="between 0 and inf"):
            law.given([[value, np.nan]])
