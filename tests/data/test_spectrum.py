"""Three ways into a Spectrum give one object, and test points split exactly into explained and rest."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn import Spectrum
from tests.helpers.problems import Problem, make_problem, random_rotation

SHAPES = [(4, 9), (6, 6), (11, 3), (1, 5), (5, 1)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"p{s[0]}-n{s[1]}")


def from_inputs(data: Problem) -> Spectrum:
    return Spectrum.from_inputs(data.X, data.Y)


def from_gram(data: Problem) -> Spectrum:
    return Spectrum.from_gram(data.gram, data.Y)


def from_moments(data: Problem) -> Spectrum:
    return Spectrum.from_moments(data.X.T @ data.X, data.X.T @ data.Y, data.Y.T @ data.Y, len(data.X))


ways = pytest.mark.parametrize("make", [from_inputs, from_gram, from_moments])


def duplicated(data: Problem) -> Problem:
    """Every example twice: rank at most half of p."""
    return Problem(np.concatenate([data.X, data.X]), np.concatenate([data.Y, data.Y + 0.1]), data.X_test)


def assert_statistics(spectrum: Spectrum, data: Problem, rank: int) -> None:
    """Eigenvalues, squared targets per eigenvalue, residual and p, straight from the definitions."""
    values, vectors = np.linalg.eigh(data.gram)
    values, vectors = values[len(values) - rank :], vectors[:, len(values) - rank :]
    rotated = vectors.T @ data.columns
    size = float(np.sum(data.columns**2))
    assert (spectrum.rank, spectrum.examples, spectrum.outputs) == (rank, *data.columns.shape)
    np.testing.assert_allclose(spectrum.eigenvalues, values, rtol=1e-10)
    np.testing.assert_allclose(spectrum.targets**2, rotated**2, rtol=1e-8, atol=1e-11 * size)
    assert spectrum.residual == pytest.approx(size - np.sum(rotated**2), abs=1e-10 * size)


@ways
@shapes
def test_sufficient_statistics(make: Callable[[Problem], Spectrum], shape: tuple[int, int]) -> None:
    """(g, ỹ², residual, p) are those of G = XXᵀ/n0, whichever way in."""
    data = make_problem(*shape, seed=41)
    assert_statistics(make(data), data, min(shape))


@ways
def test_rank_deficient_data(make: Callable[[Problem], Spectrum]) -> None:
    """Duplicated examples are found out: rank 4 of 8, and the residual is what the duplicates disagree on."""
    data = duplicated(make_problem(4, 9, seed=42))
    assert_statistics(make(data), data, 4)
    assert make(data).residual == pytest.approx(4 * 0.1**2 / 2, rel=1e-9)


@ways
def test_several_outputs(make: Callable[[Problem], Spectrum]) -> None:
    """The same with three outputs, where YᵀY is a matrix."""
    data = make_problem(7, 4, 3, seed=43)
    assert_statistics(make(data), data, 4)


@pytest.mark.parametrize("shape", [(4, 9), (11, 3)], ids=str)
@pytest.mark.parametrize("widths", [(), (3,), (2, 4)], ids=str)
def test_posterior_is_the_same_whichever_way_in(widths: tuple[int, ...], shape: tuple[int, int]) -> None:
    """Evidence, scale and predictions from inputs, Gram matrix and moments agree."""
    data, network = make_problem(*shape, seed=44), lbnn.Network(widths, (0.7, *[1.3] * len(widths)))
    posts = [network.condition_spectrum(make(data), 3.0) for make in (from_inputs, from_gram, from_moments)]
    inputs, kernels = {"X_test": data.X_test}, {"cross_gram": data.cross.T, "test_gram": data.test_gram}
    preds = [post.predict(**test) for post, test in zip(posts, (inputs, kernels, inputs), strict=True)]
    for post, pred in zip(posts[1:], preds[1:], strict=True):
        assert post.log_evidence == pytest.approx(posts[0].log_evidence, rel=1e-11)
        assert post.scale.mean == pytest.approx(posts[0].scale.mean, rel=1e-11)
        np.testing.assert_allclose(pred.mean, preds[0].mean, rtol=1e-9)
        np.testing.assert_allclose(pred.covariance, preds[0].covariance, rtol=1e-9, atol=1e-12)


def test_moments_add_up_over_parts_of_the_data() -> None:
    """Streaming: sums of moments of three chunks are the moments of the whole."""
    data = make_problem(30, 5, 2, seed=45)
    parts = np.split(np.arange(30), [7, 18])
    inputs = sum(data.X[part].T @ data.X[part] for part in parts)
    cross = sum(data.X[part].T @ data.Y[part] for part in parts)
    target = sum(data.Y[part].T @ data.Y[part] for part in parts)
    streamed = Spectrum.from_moments(inputs, cross, target, sum(len(part) for part in parts))
    assert_statistics(streamed, data, 5)


@pytest.mark.parametrize("target", [lambda y: y @ y, lambda y: np.array([[y @ y]])], ids=["number", "matrix"])
def test_target_moment_may_be_a_number(target: Callable[[np.ndarray], object]) -> None:
    """For one output YᵀY is a number or a 1×1 matrix."""
    data = make_problem(9, 4, seed=46)
    spectrum = Spectrum.from_moments(data.X.T @ data.X, data.X.T @ data.Y, target(data.Y), 9)
    assert_statistics(spectrum, data, 4)


def test_moments_of_targets_without_residual() -> None:
    """Targets that the inputs explain entirely leave a residual of exactly zero, not of rounding."""
    data = make_problem(9, 4, seed=47)
    y = data.X @ np.array([1.0, -2.0, 0.5, 3.0])
    assert Spectrum.from_moments(data.X.T @ data.X, data.X.T @ y, y @ y, 9).residual == 0.0


# ---------------------------------------------------------------- scaling


@ways
def test_scaled_multiplies_the_gram_matrix(make: Callable[[Problem], Spectrum]) -> None:
    """scaled(v) of X is the spectrum of √v X, for the statistics and for test points."""
    data, variance = make_problem(4, 9, seed=48), 2.7
    root = math.sqrt(variance)
    bigger = Problem(root * data.X, data.Y, root * data.X_test)
    scaled = make(data).scaled(variance)
    assert_statistics(scaled, bigger, 4)
    test = (data.cross.T, data.test_gram) if make is from_gram else (data.X_test,)
    projection = scaled.project(*test)
    whole = projection.explained @ projection.explained.T + projection.unexplained_gram
    np.testing.assert_allclose(whole, bigger.test_gram, rtol=1e-10, atol=1e-12)


def test_scaling_by_one_changes_nothing() -> None:
    """scaled(1.0) is the spectrum itself."""
    spectrum = from_inputs(make_problem(4, 9, seed=48))
    assert spectrum.scaled(1.0) is spectrum


# ---------------------------------------------------------------- test points


def projection_of(make: Callable[[Problem], Spectrum], data: Problem):  # type: ignore[no-untyped-def]
    test = (data.cross.T, data.test_gram) if make is from_gram else (data.X_test,)
    return make(data).project(*test)


@ways
@shapes
def test_projection_splits_the_test_gram(make: Callable[[Problem], Spectrum], shape: tuple[int, int]) -> None:
    """ΦΦᵀ + R = G_x̂x̂, and ΦΦᵀ = G_x̂x G⁺ G_xx̂."""
    data = make_problem(*shape, seed=49)
    projection = projection_of(make, data)
    explained = projection.explained @ projection.explained.T
    by_definition = data.cross.T @ np.linalg.pinv(data.gram, rcond=1e-12) @ data.cross
    np.testing.assert_allclose(explained, by_definition, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(explained + projection.unexplained_gram, data.test_gram, rtol=1e-9, atol=1e-12)


@ways
@shapes
def test_rest_has_one_value_in_three_forms(
    make: Callable[[Problem], Spectrum], shape: tuple[int, int]
) -> None:
    """R, its diagonal and its factor agree."""
    projection = projection_of(make, make_problem(*shape, seed=50))
    rest, factor = projection.unexplained_gram, projection.unexplained_root
    np.testing.assert_allclose(factor @ factor.T, rest, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(projection.unexplained_diagonal, np.diag(rest), rtol=1e-10, atol=1e-13)


@ways
def test_points_in_the_span_are_explained_exactly(make: Callable[[Problem], Spectrum]) -> None:
    """Training inputs and their combinations have R = 0, not rounding."""
    data = make_problem(4, 9, seed=51)
    inside = Problem(data.X, data.Y, np.stack([data.X[1], 2 * data.X[0] - data.X[3], np.zeros(9)]))
    np.testing.assert_array_equal(projection_of(make, inside).unexplained_gram, np.zeros((3, 3)))


def test_small_rests_are_accurate() -> None:
    """A point 1e-9 away from the span has R = |1e-9 · outside|²/n0 to ten digits, far below rounding of G."""
    data = make_problem(4, 9, seed=52)
    basis = random_rotation(9, 53)
    X = data.X @ basis[:, :8] @ basis[:, :8].T
    tilted = X[:1] + 1e-9 * basis[:, 8]
    rest = Spectrum.from_inputs(X, data.Y).project(tilted).unexplained_diagonal
    # the point's own rounding, eps·|x| against 1e-9, is 1e-7 relative
    assert rest[0] == pytest.approx(1e-18 / 9, rel=1e-6, abs=0)


def test_small_rests_of_collinear_inputs() -> None:
    """Singular values from 1 to 1e-6 leave rounding of 1e-10 in the directions, and none of it in R."""
    basis, left = random_rotation(9, 53), random_rotation(6, 54)
    X = (left * np.geomspace(1.0, 1e-6, 6)) @ basis[:, :6].T
    tilted = X[:1] + 1e-5 * basis[:, 6:] @ np.array([1.0, 2.0, 2.0]) / 3
    rest = Spectrum.from_inputs(X, np.ones(6)).project(tilted).unexplained_diagonal
    # the point's own rounding, eps·|x| against 1e-5, is 4e-11 relative
    assert rest[0] == pytest.approx(1e-10 / 9, rel=4e-11, abs=0)


@pytest.mark.parametrize("shape", [(4, 9), (11, 3)], ids=str)
def test_training_projection_reproduces_the_gram(shape: tuple[int, int]) -> None:
    """project() without arguments is project(X): ΦΦᵀ = G, R = 0."""
    data = make_problem(*shape, seed=54)
    for spectrum in (from_inputs(data), from_gram(data)):
        own = spectrum.project()
        np.testing.assert_allclose(own.explained @ own.explained.T, data.gram, rtol=1e-10, atol=1e-13)
        assert not own.unexplained_gram.any()
        assert not own.unexplained_diagonal.any()
        assert own.unexplained_root.shape == (shape[0], 0)


def test_test_points_by_name() -> None:
    """project(X_test=...) and project(cross_gram=..., test_gram=...) are the positional calls."""
    data = make_problem(5, 9, seed=56)
    inputs, gram = from_inputs(data), from_gram(data)
    cross, test = data.X_test @ data.X.T / 9, data.X_test @ data.X_test.T / 9
    np.testing.assert_array_equal(
        inputs.project(X_test=data.X_test).explained, inputs.project(data.X_test).explained
    )
    named, placed = gram.project(cross_gram=cross, test_gram=test), gram.project(cross, test)
    np.testing.assert_array_equal(named.explained, placed.explained)
    np.testing.assert_array_equal(named.unexplained_gram, placed.unexplained_gram)
    with pytest.raises(TypeError, match="X_test or else cross_gram with test_gram, got both"):
        gram.project(data.X_test, cross_gram=cross, test_gram=test)
    with pytest.raises(TypeError, match="given together, got no test_gram"):
        gram.project(cross_gram=cross)
    with pytest.raises(TypeError, match="given together, got no cross_gram"):
        gram.project(test_gram=test)
    with pytest.raises(TypeError, match="test points are one array X_test"):
        inputs.project(cross_gram=cross, test_gram=test)
    with pytest.raises(TypeError, match="cross_gram and test_gram, got one array"):
        gram.project(X_test=data.X_test)


# ---------------------------------------------------------------- nothing to learn from


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)], ids=str)
@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize("widths", [(), (4, 2)], ids=str)
def test_zero_inputs_teach_nothing(shape: tuple[int, int], beta: float, widths: tuple[int, ...]) -> None:
    """X = 0: the evidence is that of pure noise and the predictive is the prior."""
    data, network = make_problem(*shape, seed=55), lbnn.Network(widths)
    post = network.condition(np.zeros(shape), data.Y, beta)
    noise = stats.norm(scale=1 / math.sqrt(beta)).logpdf(data.Y).sum() if beta else -math.inf
    assert post.log_evidence == pytest.approx(noise, rel=1e-12)
    assert post.spectrum.rank == 0
    pred, prior = post.predict(data.X_test), network.prior(data.X_test)
    np.testing.assert_array_equal(pred.mean, np.zeros(3))
    np.testing.assert_allclose(pred.covariance, prior.covariance, rtol=1e-12)
    np.testing.assert_array_equal(post.predict().variance, np.zeros(shape[0]))
    assert pred.log_density(np.ones(3)) == pytest.approx(prior.log_density(np.ones(3)), rel=1e-12)
