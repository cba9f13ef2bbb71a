"""What data of practice do: units of columns, copies of rows, compositions, kernels."""

from __future__ import annotations

import math
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import rbf_kernel

import lbnn
from lbnn import LBNNRegressor
from lbnn.estimator import averaging
from lbnn.estimator.kernels import Kernel, with_own_length_scales
from lbnn.estimator.table import distinct_rows
from lbnn.scale.measure import effective_atoms
from lbnn.selection import NoiseSpec, infinite_width
from tests.helpers.evidence import evidence_data

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 8))
Y = X @ RNG.normal(size=(8, 2)) + 0.5 * RNG.normal(size=(60, 2))
#: Employment and six columns of the American economy, 1947 to 1962 (Longley, 1967).
LONGLEY = np.array(
    [
        [60323, 83.0, 234289, 2356, 1590, 107608, 1947],
        [61122, 88.5, 259426, 2325, 1456, 108632, 1948],
        [60171, 88.2, 258054, 3682, 1616, 109773, 1949],
        [61187, 89.5, 284599, 3351, 1650, 110929, 1950],
        [63221, 96.2, 328975, 2099, 3099, 112075, 1951],
        [63639, 98.1, 346999, 1932, 3594, 113270, 1952],
        [64989, 99.0, 365385, 1870, 3547, 115094, 1953],
        [63761, 100.0, 363112, 3578, 3350, 116219, 1954],
        [66019, 101.2, 397469, 2904, 3048, 117388, 1955],
        [67857, 104.6, 419180, 2822, 2857, 118734, 1956],
        [68169, 108.4, 442769, 2936, 2798, 120445, 1957],
        [66513, 110.8, 444546, 4681, 2637, 121950, 1958],
        [68655, 112.6, 482704, 3813, 2552, 123366, 1959],
        [69564, 114.2, 502601, 3931, 2514, 125368, 1960],
        [69331, 115.7, 518173, 4806, 2572, 127852, 1961],
        [70551, 116.9, 554894, 4007, 2827, 130081, 1962],
    ]
)
UNITS = 10.0 ** np.array([-4, 3, 0, 2, -1, 4, 1, -3])


# ---------------------------------------------------------------------- units of columns


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_units_of_columns_do_not_matter(kernel):
    """Before: R² of the same data in other units fell from 0.9 to 0."""
    fixed = {"width": (4,), "noise": "independent", "kernel": kernel}
    plain, other = (
        LBNNRegressor(**fixed).fit(X[:40], Y[:40]),
        LBNNRegressor(**fixed).fit(X[:40] * UNITS, Y[:40]),
    )
    assert other.kernel_.columns == "standardised"
    assert other.score(X[40:] * UNITS, Y[40:]) > plain.score(X[40:], Y[40:]) - 0.01
    standard = LBNNRegressor(column_scales="standardised", **fixed).fit(X[:40], Y[:40])
    np.testing.assert_allclose(other.predict(X[40:] * UNITS), standard.predict(X[40:]), rtol=1e-5, atol=1e-6)


def test_coefficients_are_in_the_units_of_the_user():
    model = LBNNRegressor(width=(4,), noise="independent").fit(X * UNITS + 3.0, Y)
    np.testing.assert_allclose(
        (X * UNITS + 3.0) @ model.coef_.T + model.intercept_, model.predict(X * UNITS + 3.0), rtol=1e-8
    )


@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")
def test_the_table_shows_both_and_raw_can_win():
    """Columns of noise that are small: their size says that they do not matter."""
    rng = np.random.default_rng(1)
    wide = np.hstack([X[:40], 0.01 * rng.normal(size=(40, 60))])
    model = LBNNRegressor(depth=1, noise="independent").fit(wide, Y[:40])
    assert model.kernel_.columns == "raw"
    assert {row.columns for row in model.candidates_} == {"raw", "standardised"}
    by_name = {row.columns: row.log_evidence for row in model.candidates_ if not row.widths}
    assert by_name["raw"] > by_name["standardised"] + 3
    forced = LBNNRegressor(depth=1, noise="independent", column_scales="standardised").fit(wide, Y[:40])
    assert forced.log_evidence_ == pytest.approx(by_name["standardised"], abs=1e-6)


# ---------------------------------------------------------------------- copies and replicates


def spectra(rows=30, columns=90):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 6)) @ rng.normal(size=(6, columns)) + 0.1 * rng.normal(size=(rows, columns))
    return X, X[:, :6].sum(axis=1) + 2.0 * rng.normal(size=rows)


def test_copies_of_rows_do_not_remove_the_noise():
    """Before: noise variance 1e-10 after three of thirty rows were copied."""
    X, y = spectra()
    again = np.append(np.arange(30), [3, 7, 7])
    model = LBNNRegressor().fit(X, y)
    copied = LBNNRegressor().fit(X[again], y[again])
    told = next(each for each in copied.notices_ if each.code == "copies")
    assert told.fields == {"rows": 3, "dropped": True}
    assert copied.noise_variance_ == pytest.approx(model.noise_variance_, rel=1e-6)
    np.testing.assert_allclose(copied.predict(X), model.predict(X), rtol=1e-6)
    left_out, expected = copied.leave_one_out(), model.leave_one_out()
    np.testing.assert_allclose(left_out.mean, expected.mean[again], rtol=1e-6)


def test_replicates_are_data():
    """Rows that share inputs and not targets tell the noise: deviations 2 of them, and none is dropped."""
    X, y = spectra(40)
    rng = np.random.default_rng(4)
    again = np.append(np.arange(40), np.arange(20))
    targets = np.append(y, y[:20] + 2.0 * np.sqrt(2) * rng.normal(size=20))
    model = LBNNRegressor().fit(X[again], targets)
    assert model.leave_one_out().mean.shape == (60,)
    assert any("20 rows have the inputs of another" in message for message in map(str, model.notices_))
    assert 1.0 < np.sqrt(model.noise_variance_) < 4.0


def test_copies_of_tall_data_are_counted_and_said():
    rows = distinct_rows(np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0))
    assert not rows.dropped
    assert (rows.copies, rows.replicates) == (60, 0)
    assert distinct_rows(X, Y).copies == 0


@pytest.mark.parametrize("kernel", ["rbf", "linear+rbf"])
def test_copies_do_not_remove_the_noise_of_a_kernel(kernel):
    """More rows than columns, but a kernel tells all of them apart: noise of 1e-10 with copies, before."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 3))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=60)
    again = np.append(np.arange(60), [3, 7, 7])
    model = LBNNRegressor(kernel=kernel).fit(X, y)
    copied = LBNNRegressor(kernel=kernel).fit(X[again], y[again])
    assert copied.noise_variance_ == pytest.approx(model.noise_variance_, rel=1e-6)
    linear = LBNNRegressor().fit(X[again], y[again])  # has fewer columns than rows, which tell the noise
    assert not linear._state.rows.dropped


def test_the_ends_of_the_ranges_are_told_apart():
    """Before: "the data are fitted without noise, or they show no signal"."""
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(20, 50))
    with pytest.warns(lbnn.DataWarning, match=r"fitted without noise.*kernel matrix of the rows has full"):
        LBNNRegressor().fit(Z, Z @ rng.normal(size=50))
    with pytest.warns(lbnn.DataWarning, match="fitted without noise.*targets are a function of the columns"):
        LBNNRegressor(kernel="rbf", depth=1).fit(Z[:, :1], np.sin(Z[:, 0]))
    with pytest.warns(lbnn.DataWarning, match="without signal"):
        LBNNRegressor(depth=1).fit(X, np.random.default_rng(5).normal(size=60))
    exact = np.column_stack([X @ np.arange(8), Y[:, 0]])
    with pytest.warns(
        lbnn.DataWarning, match=r"outputs \[0\] are fitted without noise.*a function of the columns"
    ):
        LBNNRegressor(depth=1, noise="per_output").fit(X, exact)


def test_noise_at_the_end_of_its_range_is_integrated():
    """Longley's data: NLPD 39.9 with the noise at 1e-10 and errors of 17.8 deviations, before."""
    y, Z = LONGLEY[:, 0], LONGLEY[:, 1:]
    order = np.random.default_rng(7).permutation(16)
    train, test = order[:11], order[11:]
    with pytest.warns(lbnn.DataWarning, match="predictions average over smaller and larger noise"):
        model = LBNNRegressor(kernel="linear+rbf").fit(Z[train], y[train])
    law = model.predictive(Z[test]).with_noise()
    assert -law.pointwise_log_density(y[test]).mean() < 9.0
    assert (np.abs(y[test] - law.mean) < 4 * law.standard_deviation).all()
    with pytest.warns(lbnn.DataWarning, match="too narrow"):
        alone = LBNNRegressor(kernel="linear+rbf", average=False).fit(Z[train], y[train])
    assert model.noise_variance_ > 1e4 * alone.noise_variance_


def test_the_design_at_an_end_follows_evidence_and_prior():
    """Weighted draws against a dense sum over the same density, for noise that vanishes."""
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(20, 50))
    data = evidence_data(Z, Z @ rng.normal(size=50), centre=False)
    best = infinite_width(data, NoiseSpec())
    assert best.on_edge
    line = averaging.along_edge(data, best)
    places, _ = line.places(2000)
    weights = np.exp(line.log_density - line.log_density.max())
    mean = (weights.sum(axis=1) @ line.t) / weights.sum()
    assert (places[:, 0] - best.h[0]).mean() == pytest.approx(mean, abs=0.2)
    spread = (weights.sum(axis=0) @ line.s) / weights.sum()
    assert (places.sum(axis=1) - best.h.sum()).mean() == pytest.approx(spread, abs=0.2)


# ---------------------------------------------------------------------- compositions


@pytest.fixture(scope="module")
def composition():
    rng = np.random.default_rng(6)
    parts = np.exp(X[:, :4] + 0.3 * rng.normal(size=(60, 4)))
    shares = 100 * parts / parts.sum(axis=1, keepdims=True)
    model = LBNNRegressor().fit(X, shares)
    assert [each.fields["count"] for each in model.notices_ if each.code == "dependent_targets"] == [1]
    return shares, model


def test_the_total_of_a_composition_is_certain(composition):
    """Before: predicted deviation of the total 11.4, true 0."""
    shares, model = composition
    law = model.predictive(X[:5]).with_noise()
    np.testing.assert_allclose(law.mean.sum(axis=1), 100)
    np.testing.assert_allclose(law.output_covariance.sum(axis=(1, 2)), 0, atol=1e-9)
    np.testing.assert_allclose(law.sample(10, 0).sum(axis=2), 100)
    assert np.isfinite(law.pointwise_log_density(shares[:5])).all()
    with pytest.raises(ValueError, match="linear relation"):
        law.pointwise_log_density(shares[:5] + 1)
    z = (shares - model.leave_one_out().mean) / np.sqrt(model.leave_one_out().variance)
    assert 0.8 < z.std() < 1.2


def test_densities_of_a_composition_are_those_of_its_contrasts(composition):
    """In the plane: the density of three of four shares, times the slope √4 of the plane over them."""
    _, model = composition
    law = model.predictive(X[:3]).with_noise()
    gaussian = LBNNRegressor(depth=1, noise="independent")
    gaussian.fit(X, composition[0])
    law = gaussian.predictive(X[:3]).with_noise()
    covariance = law.output_covariance[:, :3, :3]
    from scipy import stats

    expected = [
        stats.multivariate_normal(np.zeros(3), each).logpdf([1.0, -2.0, 3.0]) - np.log(2)
        for each in covariance
    ]
    shift = np.array([1.0, -2.0, 3.0, -2.0])
    np.testing.assert_allclose(law.pointwise_log_density(law.mean + shift), expected, rtol=1e-8)


def test_order_and_units_of_a_composition_do_not_matter(composition):
    shares, model = composition
    order = [2, 0, 3, 1]
    other = LBNNRegressor().fit(X, shares[:, order] / 100)
    assert other.candidates_[0].noise == model.candidates_[0].noise
    np.testing.assert_allclose(
        100 * other.predict(X)[:, np.argsort(order)], model.predict(X), rtol=0.02, atol=0.3
    )


def test_partly_missing_targets_are_refused_with_a_way_out():
    holes = Y.copy()
    holes[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN in 1 rows .*given\(Y\)"):
        LBNNRegressor().fit(X, holes)


@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")
def test_uncertain_hyperparameters_are_integrated():
    """Few rows: the mixture is wider than the best model, and covers better; many rows: one model."""
    rng = np.random.default_rng(11)
    inside = {False: [], "auto": []}
    for seed in range(12):
        Z = rng.normal(size=(112, 8))
        y = Z @ rng.normal(size=8) / 3 + rng.normal(size=112)
        for average, found in inside.items():
            model = LBNNRegressor(depth=1, average=average, column_scales="raw").fit(Z[:12], y[:12])
            low, high = model.predictive(Z[12:]).with_noise().interval(0.9)
            found.append(((low < y[12:]) & (y[12:] < high)).mean())
        many = LBNNRegressor(depth=1, average="auto", column_scales="raw").fit(Z[:110], y[:110])
        assert len(many._state.models) == 1, seed
    gain = np.subtract(inside["auto"], inside[False])
    assert gain.mean() > 3 * gain.std(ddof=1) / math.sqrt(len(gain))
    assert abs(np.mean(inside["auto"]) - 0.9) < 2 * np.std(inside["auto"], ddof=1) / math.sqrt(len(gain))


def test_models_of_the_mixture_with_few_draws_are_counted(monkeypatch):
    monkeypatch.setattr("lbnn.estimator.averaging._FEWEST_DRAWS", 1e9)
    model = LBNNRegressor(width=(3,), average="auto")
    with pytest.warns(lbnn.AccuracyWarning, match="8 of 8 posteriors of the mixture"):
        model.fit(X[:12], Y[:12])
    assert any("average=False" in message for message in map(str, model.notices_))


# ---------------------------------------------------------------------- kernels


@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")
def test_length_scales_are_found():
    rng = np.random.default_rng(7)
    x = rng.uniform(-3, 3, size=(60, 1))
    y = np.sin(4 * x[:, 0]) + 0.1 * rng.normal(size=60)
    new = np.linspace(-2.8, 2.8, 50)[:, None]
    for kernel in ("rbf", "linear+rbf"):
        model = LBNNRegressor(kernel=kernel, depth=1).fit(x, y)
        assert model.score(new, np.sin(4 * new[:, 0])) > 0.9, kernel
    given = LBNNRegressor(kernel=RBF(30.0), depth=1).fit(x, y)
    assert given.score(new, np.sin(4 * new[:, 0])) < 0.5


def test_kernels_are_those_of_their_formulas():
    a, b = X[:4], X[4:7]
    np.testing.assert_allclose(
        Kernel("rbf", {"length_scale": 2.0}).matrix(a, b), rbf_kernel(a, b, gamma=1 / 8), rtol=1e-12
    )
    taken = LBNNRegressor(kernel=RBF(2.0), depth=1, beta=1.0, prior_scale=1.0, column_scales="raw").fit(
        a, a[:, 0]
    )
    np.testing.assert_allclose(taken._state.transform.kernel.matrix(a, b), rbf_kernel(a, b, gamma=1 / 8))


def test_a_kernel_function_gives_a_matrix():
    with pytest.raises(ValueError, match=r"two arrays of rows and gives a matrix, here \(60, 60\)"):
        LBNNRegressor(kernel=lambda one, other: (one * other[: len(one)]).sum(axis=1)).fit(X, Y)


def test_a_length_scale_for_each_column_drops_columns_of_noise():
    rng = np.random.default_rng(8)
    Z = rng.normal(size=(80, 5))
    y = np.sin(2 * Z[:, 0]) + Z[:, 1] ** 2 + 0.1 * rng.normal(size=80)
    model = LBNNRegressor(kernel="rbf", column_scales="own", depth=1).fit(Z[:60], y[:60])
    common = LBNNRegressor(kernel="rbf", depth=1, column_scales="standardised").fit(Z[:60], y[:60])
    lengths = np.array(model.kernel_.parameters["length_scale"])
    assert lengths[2:].min() > 3 * lengths[:2].max()
    assert model.log_evidence_ > common.log_evidence_ + 10
    assert model.score(Z[60:], y[60:]) > common.score(Z[60:], y[60:])


def test_gradient_of_the_length_scales_climbs_the_evidence():
    """The gain that the closed form promises is the difference of the evidences of the two fits."""
    rng = np.random.default_rng(9)
    Z = rng.normal(size=(30, 2))
    y = np.sin(2 * Z[:, 0]) + 0.1 * rng.normal(size=30)
    y = y - y.mean()
    start = Kernel("rbf", {"length_scale": 1.0})
    h = np.array([np.log(0.02), np.log(50.0)])
    own, gain = with_own_length_scales(start, Z, y[:, None], h, np.arange(Z.shape[1]))
    fixed = {"depth": 1, "column_scales": "raw"}
    before = LBNNRegressor(beta=50.0, prior_scale=1.0, kernel=RBF(1.0), **fixed).fit(Z, y)
    after = LBNNRegressor(kernel=RBF(own.parameters["length_scale"]), **fixed).fit(Z, y)
    assert after.log_evidence_ - before.log_evidence_ == pytest.approx(gain, abs=1e-3)


@pytest.mark.slow
def test_many_rows_with_a_kernel_are_approximated_and_said():
    rng = np.random.default_rng(10)
    Z = rng.uniform(-2, 2, size=(5000, 3))
    y = np.sin(2 * Z[:, 0]) * Z[:, 1] + 0.1 * rng.normal(size=5000)
    with pytest.warns(lbnn.AccuracyWarning, match="approximated"):
        model = LBNNRegressor(kernel="rbf", depth=1).fit(Z[:4500], y[:4500])
    assert model.score(Z[4500:], y[4500:]) > 0.97
    deviation = model.predict(Z[4500:], return_std=True)[1]
    assert 0.09 < deviation.mean() < 0.12


def test_nothing_is_said_of_ordinary_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LBNNRegressor(width=(3,)).fit(X, Y).notices_ == ()


def test_density_of_a_mixture_integrated_anew_is_that_of_its_models(monkeypatch):
    """Points with few effective draws, all models that matter: the average over models with their weights."""
    model = LBNNRegressor(width=(3,)).fit(X[:12], Y[:12])
    law = model.predictive(X[12:16]).with_noise()
    assert len(law.parts) > 2
    values = Y[12:16].reshape(law.shape)
    drawn = law.pointwise_log_density(values)
    models = [replace(law, parts=(replace(part, share=1.0),)) for part in law.parts]
    by_model = np.stack([each.pointwise_log_density(values) for each in models])
    expected = special.logsumexp(by_model, axis=0, b=law.shares[:, None])
    monkeypatch.setattr(
        lbnn.Predictive, "_few", lambda self, terms, found: (np.ones(terms.shape[1], bool), 1.0)
    )
    np.testing.assert_allclose(law.pointwise_log_density(values), expected, atol=0.02)
    with np.errstate(divide="ignore"):
        shares = [np.log(part.share * part.weights)[:, None] for part in law.parts]
    terms = [log + part.point_terms(values, slice(None)) for log, part in zip(shares, law.parts, strict=True)]
    effective = effective_atoms(np.concatenate(terms))  # the average of n draws has the relative error 1/√n
    assert (np.abs(drawn - expected) < 4 / np.sqrt(effective)).all()
    assert effective.min() > 20


@pytest.mark.parametrize("given", [{}, {"fit_intercept": False}, {"column_scales": "standardised"}])
@pytest.mark.filterwarnings("ignore::lbnn.DataWarning")
def test_inputs_are_neither_changed_nor_kept_and_copied_at_most_twice(given):
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(100, 4)) @ rng.normal(size=(4, 20_000))
    X = (factors + rng.normal(size=factors.shape)) * rng.uniform(0.5, 2.0, size=20_000)
    y, before, new = factors[:, 0] + 0.5 * rng.normal(size=100), X.copy(), np.tile(X, (10, 1))
    lbnn.LBNNRegressor(depth=1, beta=4.0, **given).fit(X[:, :10], y)  # what is imported or computed once
    tracemalloc.start()
    model = lbnn.LBNNRegressor(depth=1, beta=4.0, **given).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    before_predictions = tracemalloc.get_traced_memory()[0]
    model.predict(new, return_std=True)
    more = tracemalloc.get_traced_memory()[1] - before_predictions
    tracemalloc.stop()
    assert peak < 2.4 * X.nbytes  # some megabytes are blocks of constant size
    assert more < 0.8 * new.nbytes
    np.testing.assert_array_equal(X, before)
    mean = model.predict(before[:5], return_std=True)
    X[:] = 0.0
    np.testing.assert_array_equal(model.predict(before[:5], return_std=True), mean)


def test_too_few_rows_to_distinguish_a_signal_from_noise_are_announced():
    X, y = np.array([[1.0, 2.0], [4.0, 5.0], [2.0, 0.0]]), np.array([3.0, 7.0, 4.0])
    with pytest.warns(
        lbnn.DataWarning, match="2 degrees of freedom, too few to distinguish a signal from noise"
    ):
        lbnn.LBNNRegressor(depth=1).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lbnn.LBNNRegressor(depth=1, beta=1.0).fit(X, y)  # what the message says to do
