"""Data in parts and triangular factors: against 60-digit arithmetic, against data in memory, at any cut."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lbnn
from lbnn.data.stream import Blocks
from tests.referees.sixty_digits import exact_spectrum, ill_conditioned

NETWORK = lbnn.Network((20, 20))


def cut(X, y, parts=4):
    return list(zip(np.array_split(X, parts), np.array_split(y, parts), strict=True))


def log_evidence(spectrum, beta):
    return NETWORK.condition_spectrum(spectrum, beta).log_evidence


# ---------------------------------------------------------------------- accuracy

CASES = [(1e1, 0.0), (1e4, 0.0), (1e6, 0.0), (1e8, 0.0), (1e1, 1e2), (1e1, 1e4)]


@pytest.mark.parametrize(("condition", "offset"), CASES)
def test_tall_inputs_and_blocks_against_sixty_digits(condition, offset):
    """As good as the data: no worse than thirty times what one rounding of every entry of X does."""
    X, y = ill_conditioned(condition, offset)
    rounded = X * (1 + 2.0**-52 * np.random.default_rng(9).uniform(-1, 1, (4, *X.shape)))
    truth, others = exact_spectrum(X, y), [exact_spectrum(each, y) for each in rounded]
    for beta in (1e2, 1e6, 1e10):
        expected = log_evidence(truth, beta)
        unavoidable = max(abs(log_evidence(each, beta) - expected) for each in others)
        for spectrum in (lbnn.Spectrum.from_inputs(X, y), lbnn.Spectrum.from_chunks(cut(X, y))):
            error = abs(log_evidence(spectrum, beta) - expected)
            assert error < 30 * unavoidable + 1e-8
            assert spectrum.rounding == 0


@pytest.mark.parametrize(("condition", "offset"), CASES)
def test_moments_warn_where_they_are_wrong(condition, offset):
    """Whatever the error beyond the target, there is a warning, or an error that says what to do."""
    X, y = ill_conditioned(condition, offset)
    truth, wrong = exact_spectrum(X, y), 0
    moments = X.T @ X, X.T @ y, y @ y, len(y)
    if condition >= 1e6 or offset == 1e4:  # beyond what XᵀX can hold in double precision: maybe refused
        try:
            spectrum = lbnn.Spectrum.from_moments(*moments)
        except ValueError:
            with pytest.raises(ValueError, match="use from_inputs, from_chunks, or from_factor"):
                lbnn.Spectrum.from_moments(*moments)
            return
    else:
        spectrum = lbnn.Spectrum.from_moments(*moments)
    for beta in (1e2, 1e6, 1e10):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            post = NETWORK.condition_spectrum(spectrum, beta)
        error = abs(post.log_evidence - log_evidence(truth, beta))
        assert error <= spectrum.rounding * beta + 1e-5
        assert post.diagnostics.ok == (not caught)
        if error > 0.05:
            wrong += 1
            assert "rounding may change the log evidence" in str(caught[0].message)
    if condition == 1e4 or offset:
        assert wrong  # the problem is not an easy one


def test_ordinary_moments_do_not_warn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 20))
    y = X @ rng.normal(size=20) + 0.1 * rng.normal(size=500)
    moments = lbnn.Spectrum.from_moments(X.T @ X, X.T @ y, y @ y, len(y))
    blocks = lbnn.Spectrum.from_chunks(cut(X, y))
    assert moments.rounding * 100.0 < 1e-8
    assert log_evidence(moments, 100.0) == pytest.approx(log_evidence(blocks, 100.0), abs=1e-8)


# ---------------------------------------------------------------------- the same data in other parts


@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("examples", [5, 8, 40])
def test_parts_give_the_spectrum_of_the_whole(examples, outputs):
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(examples, 8)), rng.normal(size=(examples, outputs or 1))
    Y = Y if outputs else Y[:, 0]
    whole = lbnn.Spectrum.from_inputs(X, Y)
    for parts in (1, 3, examples):
        found = lbnn.Spectrum.from_chunks(cut(X, Y, parts))
        assert found.single_output == (outputs is None)
        np.testing.assert_allclose(found.eigenvalues, whole.eigenvalues, rtol=1e-12)
        np.testing.assert_allclose(found.targets**2, whole.targets**2, rtol=1e-9, atol=1e-12)
        assert found.residual == pytest.approx(whole.residual, abs=1e-12)
        X_test = rng.normal(size=(4, 8))
        one, other = (NETWORK.condition_spectrum(each, 5.0, seed=3) for each in (found, whole))
        np.testing.assert_allclose(
            one.predict(X_test).mean, other.predict(X_test).mean, rtol=0.2 if outputs else 1e-9
        )


def test_dependent_inputs_in_parts():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 7))
    y = rng.normal(size=50)
    found = lbnn.Spectrum.from_chunks(cut(X, y))
    assert found.rank == 3
    projector = X @ np.linalg.pinv(X)
    assert found.residual == pytest.approx(float(((y - projector @ y) ** 2).sum()), rel=1e-12)
    assert lbnn.Spectrum.from_inputs(X, y).rank == 3


def test_constant_columns_in_parts():
    X = np.column_stack([np.arange(6.0), np.zeros(6)])
    assert lbnn.Spectrum.from_chunks(cut(X, np.ones(6), 2)).rank == 1


def test_dask_arrays_are_the_same_data():
    import dask.array as da

    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(60, 5)), rng.normal(size=(60, 2))
    lazy = lbnn.Spectrum.from_inputs(da.from_array(X, chunks=(17, 2)), da.from_array(Y, chunks=(25, 1)))
    whole = lbnn.Spectrum.from_inputs(X, Y)
    np.testing.assert_allclose(lazy.eigenvalues, whole.eigenvalues, rtol=1e-12)
    np.testing.assert_allclose(np.abs(lazy.targets), np.abs(whole.targets), rtol=1e-9)
    assert lazy.residual == pytest.approx(whole.residual)
    assert lbnn.Spectrum.from_inputs(da.from_array(X), Y[:, 0]).single_output


def test_factor_of_the_users():
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
    Q, R = np.linalg.qr(X)
    rest = Y - Q @ (Q.T @ Y)
    found = lbnn.Spectrum.from_factor(R, Q.T @ Y, rest.T @ rest, 30)
    whole = lbnn.Spectrum.from_inputs(X, Y)
    np.testing.assert_allclose(found.eigenvalues, whole.eigenvalues, rtol=1e-12)
    beta = [1.0, 30.0]  # noise that differs needs the moments of the rest
    one, other = (NETWORK.condition_spectrum(each, beta, noise="per_output") for each in (found, whole))
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=3 * one.log_evidence_error)


# ---------------------------------------------------------------------- the estimator

FIXED = {"depth": 2, "width": 6, "target_error": 0.3}


def lazy(X, Y):
    """Dask arrays of blocks of rows."""
    import dask.array as da

    return da.from_array(X, chunks=(-(-len(X) // 3), X.shape[1])), Y


@pytest.mark.parametrize("intercept", [True, False])
def test_estimator_of_parts_is_that_of_the_whole(intercept):
    import dask.array as da

    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 5)) + 3.0
    y = X @ rng.normal(size=5) + 0.3 * rng.normal(size=80) + 7.0
    whole = lbnn.LBNNRegressor(fit_intercept=intercept, **FIXED).fit(X, y)
    parts = lbnn.LBNNRegressor(fit_intercept=intercept, **FIXED).fit(Blocks.of(lambda: cut(X, y)), None)
    lazy = lbnn.LBNNRegressor(fit_intercept=intercept, **FIXED).fit(da.from_array(X, chunks=(30, 5)), y)
    for each in (parts, lazy):
        assert each.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1e-6)
        assert each.noise_variance_ == pytest.approx(whole.noise_variance_, rel=1e-4)
        np.testing.assert_allclose(each.coef_, whole.coef_, rtol=1e-4)
        np.testing.assert_allclose(each.predict(X[:9]), whole.predict(X[:9]), rtol=1e-4)
    X_new = rng.normal(size=(13, 5))
    mean, deviation = parts.predict(da.from_array(X_new, chunks=(4, 3)), return_std=True)
    assert mean.chunks == deviation.chunks == ((4, 4, 4, 1),)
    expected = parts.predict(X_new, return_std=True)
    np.testing.assert_allclose(mean.compute(), expected[0], rtol=1e-12)
    np.testing.assert_allclose(deviation.compute(), expected[1], rtol=1e-12)
    with pytest.raises(ValueError, match="leave-one-out scores need the training data"):
        parts.leave_one_out()


def test_estimator_of_several_outputs_in_parts():
    import dask.array as da

    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 4))
    Y = X @ rng.normal(size=(4, 2)) + rng.normal(size=(60, 2))
    settings = {**FIXED, "noise": "independent"}
    whole = lbnn.LBNNRegressor(**settings).fit(X, Y)
    parts = lbnn.LBNNRegressor(**settings).fit(*lazy(X, Y))
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=0.05)
    assert parts.predict(da.from_array(X, chunks=(20, 4))).compute().shape == (60, 2)


@pytest.mark.parametrize("inputs", ["auto", "raw", "standardised"])
@pytest.mark.parametrize("intercept", [True, False])
def test_columns_have_the_same_units_in_parts(inputs, intercept):
    rng = np.random.default_rng(17)
    X = (rng.normal(size=(90, 4)) + 2.0) * [1.0, 300.0, 1e-3, 0.0] + [
        0.0,
        0.0,
        0.0,
        0.1,
    ]  # the last is constant
    y = X[:, :3] @ [1.0, 2e-3, 900.0] + 0.5 * rng.normal(size=90)
    settings = {**FIXED, "column_scales": inputs, "fit_intercept": intercept}
    whole = lbnn.LBNNRegressor(**settings).fit(X, y)
    parts = lbnn.LBNNRegressor(**settings).fit(*lazy(X, y))
    assert parts.kernel_.columns == whole.kernel_.columns
    assert [row.columns for row in parts.candidates_] == [row.columns for row in whole.candidates_]
    if inputs == "auto":
        assert whole.kernel_.columns == "standardised"
        evidences = [[row.log_evidence for row in each.candidates_] for each in (parts, whole)]
        np.testing.assert_allclose(*evidences, atol=1e-3)
    assert parts.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1e-5)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(parts.predict(X[:9]), whole.predict(X[:9]), rtol=1e-4)


def test_compositions_in_parts_keep_their_total(tmp_path):
    rng = np.random.default_rng(18)
    X = rng.normal(size=(60, 3))
    shares = np.exp(0.3 * X @ rng.normal(size=(3, 3)) + 0.1 * rng.normal(size=(60, 3)))
    Y = 100 * shares / shares.sum(axis=1, keepdims=True)
    settings = {**FIXED, "noise": "independent", "column_scales": "raw"}
    whole = lbnn.LBNNRegressor(**settings).fit(X, Y)
    parts = lbnn.LBNNRegressor(**settings).fit(*lazy(X, Y))
    assert any(each.code == "dependent_targets" for each in parts.notices_)
    law = parts.predictive(X[:5]).with_noise()
    np.testing.assert_allclose(law.mean.sum(axis=1), 100.0, rtol=1e-10)
    np.testing.assert_allclose(law.output_covariance.sum(axis=(1, 2)), 0.0, atol=1e-8)
    np.testing.assert_allclose(law.mean, whole.predict(X[:5]), atol=0.1)
    parts.save(tmp_path / "parts.lbnn")
    again = lbnn.LBNNRegressor.load(tmp_path / "parts.lbnn")
    np.testing.assert_array_equal(again.predict(X), parts.predict(X))


def test_constant_targets_in_parts_are_announced():
    X = np.random.default_rng(19).normal(size=(40, 3))
    with pytest.warns(lbnn.DataWarning, match="the targets are constant"):
        model = lbnn.LBNNRegressor(depth=1).fit(*lazy(X, np.full(40, 0.1)))
    np.testing.assert_allclose(model.predict(X), 0.1, rtol=1e-12)


# ---------------------------------------------------------------------- bad input

X3, y3 = np.eye(3), np.ones(3)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        (5, "chunks must be an iterable"),
        ([], "at least one block"),
        ([X3], "must be a pair .X, Y., got ndarray as number 1"),
        ([(X3, y3), (X3[:, :2], y3)], "columns of the first, 3 inputs .* got chunk 2"),
        ([(X3, y3), (X3, np.ones((3, 2)))], "columns of the first"),
        ([(X3, y3), (X3, np.ones(4))], "chunk 2: Y must have shape"),
        ([(X3, y3), (X3 * np.nan, y3)], "chunk 2: X must be finite"),
    ],
)
def test_bad_chunks_are_refused(chunks, message):
    with pytest.raises((TypeError, ValueError), match=message):
        lbnn.Spectrum.from_chunks(chunks)


def test_an_iterator_is_enough():
    """Blocks are read once; `passes` is accepted and has no effect."""
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    found = lbnn.Spectrum.from_chunks(iter(cut(X, y)), passes=2)
    np.testing.assert_allclose(found.eigenvalues, lbnn.Spectrum.from_inputs(X, y).eigenvalues, rtol=1e-12)


def test_no_block_is_lost_to_looking_at_it():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    opened = []

    def chunks():
        opened.append(iter(cut(X, y)))
        return opened[-1]

    assert lbnn.Spectrum.from_chunks(chunks).examples == 40
    assert len(opened) == 1


@pytest.mark.parametrize("offset", [1e2, 1e6, 1e10])
def test_deviations_about_large_means(offset):
    """The triangle of [1 X Y] keeps deviations to rounding of the entries, times a small factor.

    Householder reflections are backward stable: an error of a few ε times the size of the column.
    """
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(300, 4)) + offset, rng.normal(size=(300, 2)) - offset
    triangle = Blocks.of(cut(X, Y, 30)).triangle()
    both = np.hstack([X, Y])
    np.testing.assert_allclose(triangle.means, both.mean(axis=0), rtol=1e-13)
    bound = 50 * np.finfo(float).eps * offset
    np.testing.assert_allclose(triangle.deviations(True), both.std(axis=0), rtol=0, atol=bound)
    rms = np.sqrt((both**2).mean(axis=0))
    np.testing.assert_allclose(triangle.deviations(False), rms, rtol=1e-13)


@pytest.mark.parametrize("name", ["X", "Y"])
def test_a_bad_block_of_a_dask_array_is_named(name):
    import dask.array as da

    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.ones(40)
    (X if name == "X" else y)[25] = np.nan
    with pytest.raises(ValueError, match=rf"block 2 \(rows 20 to 29\): {name} must be finite"):
        lbnn.Spectrum.from_inputs(da.from_array(X, chunks=(10, 3)), y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X3, np.ones(2), 0.0, 9), "Y must have shape"),
        ((X3, y3, np.eye(2), 9), "residual_moment must have shape"),
        ((X3, y3, -1.0, 9), "positive semi-definite"),
        ((X3, y3, 1.0, 2), "at most p rows"),
    ],
)
def test_bad_factors_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        lbnn.Spectrum.from_factor(*arguments)


def test_chunks_are_for_the_linear_kernel():
    with pytest.raises(ValueError, match="kernel='linear', got kernel='rbf'"):
        lbnn.LBNNRegressor(kernel="rbf").fit(*lazy(X3, y3))
