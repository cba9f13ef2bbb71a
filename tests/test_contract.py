"""Every public name that documentation and users' scripts rely on is called once, and answers in its shape.

Numbers are tested elsewhere; here a name that goes, a renamed argument or another shape fails.
"""

from __future__ import annotations

import inspect
import math
import warnings

import numpy as np
import pytest

import lbnn

RNG = np.random.default_rng(0)
X, X_TEST = RNG.normal(size=(12, 5)), RNG.normal(size=(3, 5))
Y = X @ RNG.normal(size=(5, 2)) + 0.5 * RNG.normal(size=(12, 2))
GRAM, CROSS, TEST = X @ X.T / 5, X_TEST @ X.T / 5, X_TEST @ X_TEST.T / 5
MASK = RNG.random(Y.shape) < 0.8
MASK[~MASK.any(axis=1), 0] = True
NET = lbnn.Network(widths=(4,))
POINTS, OUTPUTS = 3, 2


@pytest.fixture(scope="module")
def post():
    return NET.condition(X, Y, beta=4.0, target_error=0.2)


@pytest.fixture(scope="module")
def single():
    return NET.condition(X, Y[:, 0], beta=4.0)


@pytest.fixture(scope="module")
def model():
    return lbnn.LBNNRegressor(depth=2, width=3, average=False, noise="independent").fit(X, Y)


@pytest.fixture(scope="module")
def task():
    pytest.importorskip("xarray")
    return lbnn.benchmark.load("coexist-10")


# ---------------------------------------------------------------------- networks and posteriors


def test_network():
    net = lbnn.Network(widths=(4, 3), prior_variances=(1.0, 2.0, 1.0))
    assert (net.depth, lbnn.Network(widths=()).depth) == (3, 1)
    prior = net.scale_prior(outputs=2)
    assert prior.sample(5, 0).shape == (5, 2, 2)
    assert prior.mean.shape == (2, 2)
    assert np.isfinite(NET.scale_prior(outputs=2).log_density(np.eye(2)))
    law = NET.prior(X[:4], outputs=2)
    assert isinstance(law, lbnn.Predictive)
    assert np.isfinite(law.log_density(Y[:4]))
    plan = NET.choose_engine(12, 2)
    assert plan.engine
    assert plan.reason
    assert all(step.name and step.reason for step in plan.steps)


@pytest.mark.parametrize("noise", ["independent", "per_output", "coupled", "free"])
def test_condition_takes_every_noise(noise):
    beta = [4.0, 2.0] if noise == "per_output" else 4.0
    given = {"noise_covariance": np.eye(2) / 4} if noise == "free" else {}
    beta = None if noise == "free" else beta
    post = NET.condition(X, Y, beta, noise=noise, engine="auto", seed=0, target_error=0.2, **given)
    assert np.isfinite(post.log_evidence)


def test_condition_takes_masks_weights_and_infinite_beta():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        partial = NET.condition(X, Y, 4.0, observed=MASK, target_error=0.2)
        gram = NET.condition_gram(GRAM, Y, 4.0, observed=MASK, target_error=0.2)
    weighted = NET.condition(X, Y, 4.0, weights=np.linspace(1, 2, 12), target_error=0.2)
    zero = NET.condition(X[:4], Y[:4], math.inf, target_error=0.2)
    for post in (partial, weighted, zero):
        assert post.predict(X_TEST).mean.shape == (POINTS, OUTPUTS)
    assert gram.predict(cross_gram=CROSS, test_gram=TEST).mean.shape == (POINTS, OUTPUTS)


def test_condition_gram_and_spectrum():
    post = NET.condition_gram(GRAM, Y, beta=4.0, target_error=0.2)
    assert post.predict(cross_gram=CROSS, test_gram=TEST).mean.shape == (POINTS, OUTPUTS)
    assert post.feature_kernel(cross_gram=CROSS, test_gram=TEST).shape == (POINTS, POINTS)
    for spectrum in (
        lbnn.Spectrum.from_inputs(X, Y),
        lbnn.Spectrum.from_chunks([(X[:6], Y[:6]), (X[6:], Y[6:])]),
        lbnn.Spectrum.from_chunks(lambda: [(X, Y)]),
    ):
        again = NET.condition_spectrum(spectrum, beta=4.0, target_error=0.2)
        assert again.log_evidence == pytest.approx(post.log_evidence, abs=1.0)
    assert lbnn.Spectrum.from_factor
    grid = lbnn.evidence_grid(lbnn.Spectrum.from_inputs(X, Y[:, 0]), widths=[(10,), (5, 5)], betas=[1.0, 4.0])
    assert grid.log_evidence.shape == grid.scale_mean.shape == grid.scale_inverse_mean.shape == (2, 2)


def test_posterior(post, tmp_path):
    assert post.log_evidence_error >= 0
    first, second = post.sample_weights(5, 0)
    assert (first.shape, second.shape) == ((5, 4, 5), (5, 2, 4))
    assert post.feature_kernel().shape == (12, 12)
    assert post.feature_kernel(X_TEST, layer=1).shape == (POINTS, POINTS)
    told = post.diagnostics
    assert told.engine
    assert told.effective_sample_size > 0
    assert told.pareto_k is None or told.pareto_k < 1
    assert isinstance(told.ok, bool)
    assert not told.ok or not told.messages
    assert all(np.isfinite(each.log_evidence) for each in told.estimates)
    post.save(tmp_path / "model.lbnn")
    assert lbnn.Posterior.load(tmp_path / "model.lbnn").log_evidence == post.log_evidence
    assert post.leave_one_out().mean.shape == (12, OUTPUTS)


def test_scale(post, single):
    scale = post.scale
    for value in (scale.mean, scale.inverse_mean, scale.mean_error, scale.inverse_mean_error):
        assert value.shape == (OUTPUTS, OUTPUTS)
    assert np.isfinite(scale.expect(np.trace))
    assert scale.sample(4, 0).shape == (4, OUTPUTS, OUTPUTS)
    assert len(scale.atoms) == len(scale.weights)
    assert scale.effective_sample_size > 0
    for phase in scale.phases():
        assert phase.mass > 0
        assert phase.error >= 0
        assert phase.mean_scale.shape == (OUTPUTS, OUTPUTS)
        assert phase.fitted_directions >= 0
    assert isinstance(float(single.scale.mean), float)
    assert single.log_evidence_error == 0.0


def test_predictive(post, single):
    pred = post.predict(X_TEST)
    for value in (
        pred.mean,
        pred.variance,
        pred.standard_deviation,
        pred.quantile(0.3),
        *pred.interval(0.95),
    ):
        assert value.shape == (POINTS, OUTPUTS)
    assert pred.output_covariance.shape == (POINTS, OUTPUTS, OUTPUTS)
    assert pred.covariance.shape == (POINTS, OUTPUTS, POINTS, OUTPUTS)
    assert pred.sample(4, 0).shape == (4, POINTS, OUTPUTS)
    noisy, value = pred.with_noise(), np.zeros((POINTS, OUTPUTS))
    assert np.isfinite(noisy.log_density(value))
    assert noisy.pointwise_log_density(value).shape == (POINTS,)
    J = np.full((POINTS, OUTPUTS), 1e-3)
    assert pred.mgf(J) == pytest.approx(math.exp(pred.cgf(J)))
    assert abs(pred.characteristic(J)) <= 1
    functions = ((call, J) for call in (pred.mgf, pred.cgf, pred.characteristic))
    for call, argument in ((noisy.log_density, value), (pred.quantile, 0.3), *functions):
        found, error = call(argument, return_error=True)
        np.testing.assert_array_equal(found, call(argument))
        assert np.shape(error) == np.shape(found)
    found, error = post.feature_kernel(return_error=True)
    assert found.shape == error.shape == (12, 12)
    known = np.full((POINTS, OUTPUTS), np.nan)
    known[:, 0] = pred.mean[:, 0]
    given = noisy.given(known)
    assert isinstance(given, lbnn.Given)
    assert given.mean.shape == (POINTS, OUTPUTS)
    assert given.given(known).mean.shape == (POINTS, OUTPUTS)
    one = single.predict(X_TEST)
    assert one.mean.shape == one.variance.shape == (POINTS,)
    assert one.covariance.shape == (POINTS, POINTS)


def test_views():
    views = lbnn.views.gates(X, RNG.random((12, 3)))
    post = NET.condition_views(views, Y[:, 0], 4.0, target_error=0.3)
    assert post.predict(views=views[:2]).mean.shape == (2,)
    assert lbnn.views.tasks(X, np.arange(12) % 3).shape == (12, 3, 5)
    assert lbnn.views.patches(RNG.normal(size=(2, 4, 4)), 2, 2).shape == (2, 4, 4)
    assert lbnn.views.paths(RNG.normal(size=(2, 6, 5)), RNG.random((3, 6))).shape == (2, 3, 5)


def test_condition_sum():
    fit = lbnn.condition_sum([NET, NET], [X, None], Y, observed=MASK, target_error=0.9, seed=0)
    assert np.isfinite([fit.log_evidence, fit.log_evidence_error]).all()
    assert fit.noise_mean.shape == (OUTPUTS,)
    assert isinstance(fit.diagnostics.ok, bool)
    assert fit.share_mean.shape == (2, OUTPUTS)
    assert fit.share_interval(0.9).shape == (2, OUTPUTS, 2)
    assert fit.predict([X_TEST, None]).mean.shape == (POINTS, OUTPUTS)
    assert fit.cells.with_noise().variance.shape == Y.shape
    grams = lbnn.condition_sum([NET], [GRAM], Y, beta=4.0, observed=MASK, kernels=True, target_error=0.9)
    assert grams.predict([CROSS], [TEST]).mean.shape == (POINTS, OUTPUTS)
    with pytest.raises(ValueError, match="noise_variance"):
        lbnn.condition_sum([NET], [X], Y, 0.1, beta=4.0)


def test_matrix_gig():
    law = lbnn.MatrixGIG(psi=np.eye(2), phi=np.eye(2), nu=1.5)
    for value in (law.mode, law.mean, law.inverse_mean, law.mean_error):
        assert value.shape == (2, 2)
    assert np.isfinite([law.log_density(np.eye(2)), law.log_normalizer]).all()
    assert law.sample(3, 0).shape == (3, 2, 2)


# ---------------------------------------------------------------------- theories, learning curves, sweeps


def test_theories():
    theories = lbnn.asymptotics
    results = [
        theories.infinite_width(NET, X[:4], Y[:4], 4.0),
        theories.infinite_width(NET, X[:4], Y[:4], 4.0, order=0),
        theories.infinite_data(lbnn.Network((2,)), X[:5], Y[:5]),
        theories.proportional(NET, X[:4], Y[:4], as_printed=False),
        theories.many_outputs(NET, X[:4], Y[:4]),
    ]
    for theory in results:
        assert theory.kernel.shape == 2 * (len(theory.kernel),)
        assert theory.predict(X_TEST).mean.shape == (POINTS, OUTPUTS)
        assert theory.scale is None or theory.scale.mean.shape == (OUTPUTS, OUTPUTS)
    assert lbnn.compare(NET, X[:4], Y[:4, 0], 4.0).theories
    assert callable(lbnn.convergence.study)


def test_learning_curve():
    curve = lbnn.learning_curve(
        lbnn.Network((5,)), examples=[4, 8], inputs=10, teacher_norm=1.0, noise=0.1, beta=math.inf
    )
    for name in ("scale_mean", "log_evidence", "error", "gibbs_error"):
        assert getattr(curve, name).shape == getattr(curve, f"{name}_error").shape == (2,)


def test_sweep(tmp_path):
    pytest.importorskip("zarr")
    found = lbnn.sweep(
        {"seed": range(2), "width": [3, 30]},
        data=lambda seed: (X, Y[:, 0] + seed),
        network=lambda width: lbnn.Network((width,)),
        beta=4.0,
        quantities=["log_evidence", "scale_mean"],
        store=tmp_path / "run.zarr",
        client=None,
        workers=0,
        progress=False,
    )
    assert found["log_evidence"].shape == (2, 2)


# ---------------------------------------------------------------------- the estimator, bands


PARAMETERS = (
    *("depth", "width", "noise", "kernel", "column_scales", "beta", "prior_scale", "fit_intercept"),
    *("missing_targets", "average", "target_error", "random_state"),
)
GONE = ("inputs", "ard", "groups", "robust", "target_transform", "engine", "verbose", "kernel_params")


def test_estimator_takes_its_parameters():
    assert tuple(inspect.signature(lbnn.LBNNRegressor).parameters) == PARAMETERS
    for name in GONE:
        with pytest.raises(TypeError, match=name):
            lbnn.LBNNRegressor(**{name: None})
    for noise in ("per_output", "coupled", "free"):
        fit = lbnn.LBNNRegressor(depth=2, width=2, noise=noise, average=False, target_error=0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lbnn.AccuracyWarning)
            fit.fit(X, Y)
        assert fit.noise_covariance_.shape == (OUTPUTS, OUTPUTS)


def test_what_a_fit_says(model):
    assert isinstance(model.notices_, tuple)
    for notice in (*model.notices_, *model.diagnose()):
        assert notice.code
        assert str(notice) == notice.text
    (best, *_) = model.candidates_
    for name in ("widths", "noise", "kernel", "columns", "beta", "prior_scale", "log_evidence", "weight"):
        assert hasattr(best, name)
    assert best.log_evidence_error >= 0
    assert best.posterior.log_evidence < 0
    for part in ("signal", "noise"):
        mean, deviation = model.correlations(part)
        assert mean.shape == deviation.shape == (OUTPUTS, OUTPUTS)
    for name in ("messages_", "evidence_table_", "models_", "posterior_", "fit_chunks"):
        assert not hasattr(model, name)


def test_estimator(model, tmp_path):
    mean, deviation = model.predict(X_TEST, return_std=True)
    assert mean.shape == deviation.shape == (POINTS, OUTPUTS)
    assert model.predict(X_TEST, return_cov=True)[1].shape[0] == POINTS
    assert model.leave_one_out().mean.shape == (12, OUTPUTS)
    assert model.signal_share_.shape == (OUTPUTS,)
    assert model.signal_share_interval_.shape == (OUTPUTS, 2)
    assert np.isfinite(model.log_evidence_)
    for each in model.notices_ + tuple(model.diagnose()):
        assert (str(each), type(each.code)) == (each.text, str)
    best = model.candidates_[0]
    assert (best.widths, best.noise, best.columns) == (model.widths_, model.noise_, model.kernel_.columns)
    assert (best.kernel.name, best.weight, best.posterior.prior.widths) == ("linear", 1.0, (3,))
    assert best.beta > 0 < best.prior_scale
    assert best.log_evidence_error >= 0
    assert best.log_evidence == max(each.log_evidence for each in model.candidates_)
    for of in ("signal", "noise"):
        assert [each.shape for each in model.correlations(of)] == [(OUTPUTS, OUTPUTS)] * 2
    assert model.predictive(X_TEST).leverage.shape == (POINTS,)
    assert "depth" in model.summary().lower()
    model.save(tmp_path / "model.lbnn")
    again = lbnn.LBNNRegressor.load(tmp_path / "model.lbnn")
    np.testing.assert_array_equal(again.predict(X_TEST), mean)
    weighted = lbnn.LBNNRegressor(depth=1, noise="independent", average=False)
    assert weighted.fit(X, Y[:, 0], sample_weight=np.linspace(1, 2, 12)).predict(X_TEST).shape == (POINTS,)


def test_estimator_of_incomplete_tables():
    model = lbnn.LBNNRegressor(depth=2, width=2, missing_targets="allow", average=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        model.set_params(target_error=0.3).fit(X, np.where(MASK, Y, np.nan))
    assert model.predict(X_TEST).shape == (POINTS, OUTPUTS)
    filled, deviation = model.impute(return_std=True)
    np.testing.assert_array_equal(filled[MASK], Y[MASK])
    assert ((deviation > 0) == ~MASK).all()
    assert model.impute().shape == Y.shape
    assert model.impute(draws=20, random_state=0).shape == (20, *Y.shape)
    cells = NET.condition(X, Y, 4.0, observed=MASK, target_error=0.3).cells
    assert cells.mean.shape == cells.variance.shape == cells.with_noise().variance.shape == Y.shape


def test_bands():
    blocks, tests = [X[:, :2], X[:, 2:]], [X_TEST[:, :2], X_TEST[:, 2:]]
    bands = lbnn.Bands([lbnn.Network((5,)), lbnn.Network((5, 5))])
    fit = bands.condition(blocks, Y, noise_variance=None, target_error=0.1, seed=0)
    assert fit.log_evidence.shape == fit.log_evidence_error.shape == fit.noise_mean.shape == (OUTPUTS,)
    assert fit.scale_mean.shape == fit.share_mean.shape == (OUTPUTS, 2)
    assert fit.share_interval(0.9).shape == (OUTPUTS, 2, 2)
    assert fit.ok.dtype == bool
    assert fit.predict(tests).mean.shape == fit.predict(tests).standard_deviation.shape == (POINTS, OUTPUTS)
    model = lbnn.BandedRegressor(bands=[("a", [0, 1]), ("b", [2, 3, 4])], width=3).fit(X, Y)
    assert model.predict(X_TEST, return_std=True)[1].shape == (POINTS, OUTPUTS)
    assert model.band_shares_.shape == (OUTPUTS, 2)


# ---------------------------------------------------------------------- reference posteriors, command line


def test_benchmark(task):
    assert "coexist-10" in {entry.name for entry in lbnn.benchmark.tasks()}
    z = task.reference(8, 0)
    assert z.shape == (8, task.dimension)
    for density in (task.log_density, task.log_likelihood, task.log_prior):
        assert density(z).shape == (8,)
    assert task.gradient(z).shape == z.shape
    assert np.isfinite(task.log_evidence)
    assert len(task.phases) == 2
    assert len(task.expectations["log likelihood"]) == 3
    assert len(task.functions(z)) == 8
    np.testing.assert_allclose(task.flatten(task.unflatten(z)), z)
    draws = task.reference(400, 1).reshape(4, 100, -1)
    verdict = lbnn.benchmark.score(task, draws, log_evidence=None, seconds=None).verdict
    assert verdict.startswith(("pass", "fail"))
    still = lbnn.benchmark.invariance(task, lambda z, rng: z)
    assert still.verdict.startswith(("pass", "fail"))


def test_commands():
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from lbnn.cli.app import app

    for command in ("fit", "predict", "evidence", "compare", "reproduce", "explore", "sweep"):
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0, command
    said = CliRunner().invoke(app, ["explore", "--help"], env={"COLUMNS": "200"}).output
    assert all(option in said for option in ("--host", "--port", "--no-browser"))


def test_every_listed_name_is_there():
    for name in lbnn.__all__:
        assert getattr(lbnn, name) is not None
