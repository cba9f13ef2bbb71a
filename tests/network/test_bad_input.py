"""Every rule of behaviour at the boundary: the error, its kind, and that its message states the rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lbnn
from lbnn import Network, Spectrum
from tests.helpers.problems import make_problem

DATA = make_problem(5, 8, seed=131)
NETWORK = Network((4, 3))
POST = NETWORK.condition(DATA.X, DATA.Y, 4.0)
GRAM_POST = NETWORK.condition_gram(DATA.gram, DATA.Y, 4.0)
PRED = POST.predict(DATA.X_test)
MOMENTS = DATA.X.T @ DATA.X, DATA.X.T @ DATA.Y, DATA.Y @ DATA.Y
RAGGED, OBJECTS = [[1.0, 2.0], [3.0]], np.array([[1.0, None], [2.0, 3.0]], dtype=object)


# ---------------------------------------------------------------- networks


@pytest.mark.parametrize("width", [0, -1, 2.5, math.nan, math.inf])
def test_width_that_is_no_positive_integer(width: float) -> None:
    with pytest.raises(ValueError, match="every hidden width must be a positive integer, got"):
        Network((5, width))


@pytest.mark.parametrize("width", ["3", True, None, 3 + 0j, (3,)])
def test_width_that_is_no_number(width: Any) -> None:
    with pytest.raises(TypeError, match="every hidden width must be a positive integer, got"):
        Network((5, width))


@pytest.mark.parametrize("widths", [5, "55", ("3",), (True,), ((3,),)])
def test_widths_of_a_wrong_type_are_wrong_values_too(widths: Any) -> None:
    """Widths that are not positive integers are a ValueError, whatever they are instead."""
    with pytest.raises(ValueError, match=r"positive integers?.*, got"):
        Network(widths)


@pytest.mark.parametrize("widths", [5, 5.0, "55"])
def test_widths_that_are_no_sequence(widths: Any) -> None:
    with pytest.raises(TypeError, match="widths must be a sequence of positive integers"):
        Network(widths)


def test_width_beyond_double_precision() -> None:
    for width in (10**15 + 1, 10**300, 10**400):
        with pytest.raises(ValueError, match="every hidden width must be at most 10"):
            Network((width,))


@pytest.mark.parametrize("widths", [[4, 3], (4.0, 3.0), np.array([4, 3]), (np.int32(4), 3), iter([4, 3])])
def test_widths_in_any_sequence_of_whole_numbers(widths: Any) -> None:
    """Equal networks are equal, hashable, and hold plain integers."""
    network = Network(widths)
    assert network == NETWORK
    assert hash(network) == hash(NETWORK)
    assert network.widths == (4, 3)
    assert all(type(width) is int for width in network.widths)


@pytest.mark.parametrize(
    "variances", [(), (1.0, 1.0), (1.0,) * 4, (1.0, 0.0, 1.0), (1.0, -1.0, 1.0), [[1.0] * 3], 1.0]
)
def test_wrong_prior_variances(variances: Any) -> None:
    with pytest.raises(ValueError, match="prior_variances must be 3 positive numbers, one per layer, got"):
        Network((4, 3), prior_variances=variances)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_prior_variances_must_be_finite(value: float) -> None:
    with pytest.raises(ValueError, match="prior_variances must be finite"):
        Network((4, 3), prior_variances=(1.0, value, 1.0))


@pytest.mark.parametrize("variances", [("a", "b", "c"), (1.0, None, 1.0), (1.0, 1j, 1.0), "111"])
def test_prior_variances_that_are_no_numbers(variances: Any) -> None:
    with pytest.raises(TypeError, match="prior_variances must be"):
        Network((4, 3), prior_variances=variances)


@pytest.mark.parametrize("outputs", [0, -1, 1.5])
def test_outputs_must_be_positive(outputs: float) -> None:
    with pytest.raises(ValueError, match="outputs must be a positive integer, got"):
        NETWORK.scale_prior(outputs)
    with pytest.raises(ValueError, match="outputs must be a positive integer, got"):
        NETWORK.prior(DATA.X, outputs=outputs)


# ---------------------------------------------------------------- arrays

MATRIX_ENTRIES: dict[str, Callable[[Any], Any]] = {
    "X": lambda value: NETWORK.condition(value, DATA.Y, 4.0),
    "gram": lambda value: NETWORK.condition_gram(value, DATA.Y, 4.0),
    "X_test": POST.predict,
    "cross_gram": lambda value: GRAM_POST.predict(cross_gram=value, test_gram=DATA.test_gram),
    "test_gram": lambda value: GRAM_POST.predict(cross_gram=DATA.cross.T, test_gram=value),
    "input_moment": lambda value: Spectrum.from_moments(value, *MOMENTS[1:], 5),
}
ARRAY_ENTRIES: dict[str, Callable[[Any], Any]] = {
    **MATRIX_ENTRIES,
    "Y": lambda value: NETWORK.condition(DATA.X, value, 4.0),
    "cross_moment": lambda value: Spectrum.from_moments(MOMENTS[0], value, MOMENTS[2], 5),
    "target_moment": lambda value: Spectrum.from_moments(*MOMENTS[:2], value, 5),
    "F": PRED.log_density,
    "J": PRED.mgf,
    "q": PRED.quantile,
    "probability": PRED.interval,
    "L": NETWORK.scale_prior(1).log_density,
}
arrays = pytest.mark.parametrize("name", ARRAY_ENTRIES)
matrices = pytest.mark.parametrize("name", MATRIX_ENTRIES)


@arrays
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_arrays_must_be_finite(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be finite, got 1 NaN or infinite values"):
        ARRAY_ENTRIES[name]([[1.0, value], [2.0, 3.0]])


@arrays
def test_arrays_must_be_rectangular(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be a rectangular array of numbers"):
        ARRAY_ENTRIES[name](RAGGED)


@arrays
def test_arrays_must_be_real(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be real, got complex"):
        ARRAY_ENTRIES[name](DATA.X + 1j)


@arrays
@pytest.mark.parametrize(
    "value", [None, "text", [["a", "b"]], OBJECTS, {"a": 1}], ids=lambda v: type(v).__name__
)
def test_arrays_must_hold_numbers(name: str, value: Any) -> None:
    if name in ("X_test", "cross_gram", "test_gram") and value is None:
        return  # not given: predict(None) is predict(), the training points
    with pytest.raises(TypeError, match=f"^{name} must be an array of numbers, got"):
        ARRAY_ENTRIES[name](value)


@matrices
@pytest.mark.parametrize("shape", [(), (8,), (2, 8, 1), (0, 8), (5, 0), (0,)], ids=str)
def test_matrices_must_be_two_dimensional_and_not_empty(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=rf"^{name} must be two-dimensional and not empty, got {name}.shape="
    ):
        MATRIX_ENTRIES[name](np.ones(shape))


@pytest.mark.parametrize("shape", [(), (4,), (6,), (8, 5), (5, 1, 1), (0,), (5, 0)], ids=str)
def test_targets_must_match_the_examples(shape: tuple[int, ...]) -> None:
    rule = r"Y must have shape \(p,\) or \(p, outputs\) with p = 5 examples, got Y.shape="
    with pytest.raises(ValueError, match=rule):
        NETWORK.condition(DATA.X, np.ones(shape), 4.0)
    with pytest.raises(ValueError, match=rule):
        NETWORK.condition_gram(DATA.gram, np.ones(shape), 4.0)


@pytest.mark.parametrize("method", ["log_density", "mgf", "cgf", "characteristic"])
@pytest.mark.parametrize("shape", [(), (2,), (4,), (3, 1), (1, 3)], ids=str)
def test_values_must_be_shaped_like_the_mean(method: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must be shaped like the mean, \(3,\), got [FJ].shape="):
        getattr(PRED, method)(np.ones(shape))


@pytest.mark.parametrize("kind", [list, tuple, np.float32, np.int64, np.bool_, np.asfortranarray])
def test_arrays_of_any_real_kind_are_taken(kind: Any) -> None:
    """Lists, other dtypes and other memory layouts give what float64 arrays give."""
    X, Y = np.rint(3 * DATA.X) > 0, np.rint(DATA.Y) > 0
    if kind in (list, tuple):
        got = NETWORK.condition(kind(map(kind, X)), kind(Y), 4.0)
    elif isinstance(kind, type):
        got = NETWORK.condition(X.astype(kind), Y.astype(kind), 4.0)
    else:
        got = NETWORK.condition(kind(X), kind(Y), 4.0)
    expected = NETWORK.condition(X.astype(float), Y.astype(float), 4.0)
    assert got.log_evidence == pytest.approx(expected.log_evidence, rel=1e-13)


# ---------------------------------------------------------------- beta


@pytest.mark.parametrize("beta", [-1.0, -math.inf, math.nan, np.float64(-1e-300)])
def test_beta_must_not_be_negative(beta: float) -> None:
    with pytest.raises(ValueError, match=r"beta must be a number in \[0, inf\], got"):
        NETWORK.condition(DATA.X, DATA.Y, beta)


@pytest.mark.parametrize("beta", ["4", True, 4 + 0j, [4.0], (4.0,)])
def test_beta_must_be_a_number(beta: Any) -> None:
    with pytest.raises(TypeError, match=r"beta must be a number in \[0, inf\], got"):
        NETWORK.condition(DATA.X, DATA.Y, beta)


def test_beta_is_needed() -> None:
    for beta in ((), (None,)):
        with pytest.raises(TypeError, match="beta is needed: the noise variance of the targets is 1/beta"):
            NETWORK.condition(DATA.X, DATA.Y, *beta)


def test_beta_must_have_an_inverse() -> None:
    with pytest.raises(ValueError, match="beta must be 0 or large enough that 1/beta is finite"):
        NETWORK.condition(DATA.X, DATA.Y, 1e-310)


@pytest.mark.parametrize("beta", [4, np.float32(4.0), np.int64(4)])
def test_beta_of_any_real_kind(beta: Any) -> None:
    assert NETWORK.condition(DATA.X, DATA.Y, beta).log_evidence == POST.log_evidence


# ---------------------------------------------------------------- gram matrices


def test_gram_must_be_square() -> None:
    with pytest.raises(ValueError, match=r"gram must be square, got gram.shape=\(5, 8\)"):
        NETWORK.condition_gram(DATA.X, DATA.Y, 4.0)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_gram_must_be_symmetric(size: float) -> None:
    lopsided = DATA.gram.copy()
    lopsided[0, 1] += 1e-8
    with pytest.raises(ValueError, match="gram must be symmetric, got max"):
        NETWORK.condition_gram(size * lopsided, DATA.Y, 4.0)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_gram_must_be_positive_semidefinite(size: float) -> None:
    values, vectors = np.linalg.eigh(DATA.gram)
    values[0] = -1e-6 * values[-1]
    with pytest.raises(ValueError, match="gram must be positive semi-definite, got eigenvalues from -"):
        NETWORK.condition_gram(size * (vectors * values) @ vectors.T, DATA.Y, 4.0)
    with pytest.raises(ValueError, match="gram must be positive semi-definite, got eigenvalues from -"):
        NETWORK.condition_gram(-size * np.eye(5), DATA.Y, 4.0)


def test_gram_with_rounding_errors_is_taken() -> None:
    """A Gram matrix that is asymmetric and indefinite by rounding only."""
    low_rank = DATA.X[:, :3] @ DATA.X[:, :3].T / 3
    noise = 1e-16 * np.random.default_rng(0).standard_normal((5, 5))
    post = NETWORK.condition_gram(low_rank + noise, DATA.Y, 4.0)
    assert post.spectrum.rank == 3
    expected = NETWORK.condition(DATA.X[:, :3], DATA.Y, 4.0).log_evidence
    assert post.log_evidence == pytest.approx(expected, rel=1e-10)


def test_test_gram_must_be_symmetric_and_square() -> None:
    with pytest.raises(ValueError, match="test_gram must be symmetric"):
        GRAM_POST.predict(cross_gram=DATA.cross.T, test_gram=DATA.test_gram + np.triu(np.ones((3, 3)), 1))
    with pytest.raises(ValueError, match="test_gram must be square"):
        GRAM_POST.predict(cross_gram=DATA.cross.T, test_gram=DATA.cross.T)


@pytest.mark.parametrize(
    "cross", [DATA.cross, DATA.cross.T[:2], DATA.cross.T[:, :4]], ids=["T", "rows", "columns"]
)
def test_cross_gram_must_fit(cross: np.ndarray) -> None:
    with pytest.raises(
        ValueError, match=r"cross_gram must have shape \(p̂, p\) = \(3, 5\), got cross_gram.shape="
    ):
        GRAM_POST.predict(cross_gram=cross, test_gram=DATA.test_gram)


CONSISTENT = "cross_gram and test_gram must form a positive semi-definite matrix with the training gram"


def test_test_points_must_have_room_for_what_the_data_explain() -> None:
    """cross_gram too large for test_gram."""
    with pytest.raises(ValueError, match=CONSISTENT):
        GRAM_POST.predict(cross_gram=3 * DATA.cross.T, test_gram=DATA.test_gram)


def test_cross_gram_must_lie_in_the_range_of_the_gram() -> None:
    """A covariance with something that has no variance."""
    low_rank = NETWORK.condition_gram(np.diag([1.0, 1.0, 0.0]), np.ones(3), 4.0)
    with pytest.raises(ValueError, match=CONSISTENT):
        low_rank.predict(cross_gram=[[0.0, 0.0, 0.5]], test_gram=[[1.0]])


def test_test_gram_must_be_positive_semidefinite() -> None:
    """Indefinite although its diagonal has room: correlation above one between two new points."""
    with pytest.raises(ValueError, match="positive semi-definite"):
        GRAM_POST.predict(cross_gram=np.zeros((2, 5)), test_gram=[[1.0, 5.0], [5.0, 1.0]])


# ---------------------------------------------------------------- predictions


def test_test_inputs_must_have_the_training_dimension() -> None:
    with pytest.raises(ValueError, match=r"X_test must have n0 = 8 columns, got X_test.shape=\(5, 7\)"):
        POST.predict(DATA.X[:, :7])
    with pytest.raises(ValueError, match="X_test must have n0 = 8 columns"):
        POST.feature_kernel(DATA.X[:, :7])


def test_number_of_arrays_follows_the_way_in() -> None:
    by_name = GRAM_POST.predict(cross_gram=DATA.cross.T, test_gram=DATA.test_gram).mean
    np.testing.assert_array_equal(GRAM_POST.predict(DATA.cross.T, DATA.test_gram).mean, by_name)
    for method in (POST.predict, POST.feature_kernel):
        with pytest.raises(TypeError, match="test points are one array X_test"):
            method(DATA.cross.T, DATA.test_gram)
    with pytest.raises(TypeError, match="test points are one array X_test"):
        POST.predict(cross_gram=DATA.cross.T, test_gram=DATA.test_gram)
    with pytest.raises(
        TypeError, match=r"after a Gram matrix, test points are cross_gram and test_gram, got one array"
    ):
        GRAM_POST.predict(DATA.cross.T)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, 1.5, [0.5, 1.0], [[0.0]]])
def test_levels_must_be_probabilities(q: Any) -> None:
    with pytest.raises(ValueError, match="q must lie strictly between 0 and 1, got"):
        PRED.quantile(q)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, 95])
def test_interval_must_be_a_probability(probability: float) -> None:
    with pytest.raises(ValueError, match="probability must lie strictly between 0 and 1, got"):
        PRED.interval(probability)


SAMPLERS: dict[str, Callable[[Any, Any], Any]] = {
    "predictive": PRED.sample,
    "scale": POST.scale.sample,
    "scale prior": NETWORK.scale_prior(2).sample,
}
samplers = pytest.mark.parametrize("sampler", SAMPLERS)


@samplers
@pytest.mark.parametrize("size", [0, -1, 2.5, math.nan])
def test_size_must_be_positive(sampler: str, size: float) -> None:
    with pytest.raises(ValueError, match="size must be a positive integer, got"):
        SAMPLERS[sampler](size, 0)


@samplers
@pytest.mark.parametrize("size", ["3", None, True, (2, 3)])
def test_size_must_be_an_integer(sampler: str, size: Any) -> None:
    with pytest.raises(TypeError, match="size must be a positive integer, got"):
        SAMPLERS[sampler](size, 0)


@samplers
@pytest.mark.parametrize("rng", [None, 1.0, "0", True, np.random.RandomState(0), -1])
def test_rng_must_be_a_seed_or_a_generator(sampler: str, rng: Any) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=r"seed must be a non-negative int or a numpy.random.Generator"
    ):
        SAMPLERS[sampler](3, rng)


# ---------------------------------------------------------------- engines


@pytest.mark.parametrize("engine", ["magic", "", "Quadrature"])
def test_engine_must_be_known(engine: str) -> None:
    with pytest.raises(ValueError, match="engine must be one of"):
        NETWORK.condition(DATA.X, DATA.Y, 4.0, engine=engine)


@pytest.mark.parametrize(("widths", "engine"), [((4, 3), "atom"), ((), "quadrature")])
def test_engine_must_apply(widths: tuple[int, ...], engine: str) -> None:
    with pytest.raises(ValueError, match=f"engine '{engine}' does not apply"):
        Network(widths).condition(DATA.X, DATA.Y, 4.0, engine=engine)


@pytest.mark.parametrize("seed", [None, -1, 1.5, "0"])
def test_seed_must_be_an_integer(seed: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="non-negative int"):
        NETWORK.condition(DATA.X, DATA.Y, 4.0, seed=seed)


# ---------------------------------------------------------------- moments


def test_input_moment_must_be_a_gram_matrix() -> None:
    with pytest.raises(ValueError, match="input_moment must be square"):
        Spectrum.from_moments(DATA.X, *MOMENTS[1:], 5)
    with pytest.raises(ValueError, match="input_moment must be symmetric"):
        Spectrum.from_moments(MOMENTS[0] + np.triu(np.ones((8, 8))), *MOMENTS[1:], 5)
    with pytest.raises(ValueError, match="positive semi-definite"):
        Spectrum.from_moments(-MOMENTS[0], *MOMENTS[1:], 5)


@pytest.mark.parametrize("shape", [(), (7,), (5, 8), (8, 0), (8, 1, 1)], ids=str)
def test_cross_moment_must_have_one_row_per_input(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"cross_moment must be XᵀY with n0 = 8 rows, got cross_moment.shape="
    ):
        Spectrum.from_moments(MOMENTS[0], np.ones(shape), MOMENTS[2], 5)


@pytest.mark.parametrize("shape", [(2,), (2, 2), (0,)], ids=str)
def test_target_moment_must_fit_the_outputs(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="target_moment must be YᵀY for 1 outputs, got shape"):
        Spectrum.from_moments(*MOMENTS[:2], np.ones(shape), 5)


@pytest.mark.parametrize("examples", [0, -1, 2.5])
def test_examples_must_be_positive(examples: float) -> None:
    with pytest.raises(ValueError, match="examples must be a positive integer"):
        Spectrum.from_moments(*MOMENTS, examples)


@pytest.mark.parametrize("total", [0.0, -1.0, 0.5 * MOMENTS[2]])
def test_moments_must_explain_no_more_than_there_is(total: float) -> None:
    """YᵀY smaller than what XᵀY says the inputs explain."""
    with pytest.raises(ValueError, match="must come from the same data"):
        Spectrum.from_moments(*MOMENTS[:2], total, 5)


def test_moments_of_rank_above_the_number_of_examples() -> None:
    """XᵀX of rank five cannot come from two examples."""
    with pytest.raises(ValueError, match="examples"):
        Spectrum.from_moments(*MOMENTS, 2)


def test_cross_moment_must_lie_in_the_range_of_the_inputs() -> None:
    """XᵀY with a component where XᵀX has none."""
    with pytest.raises(ValueError, match="same data"):
        Spectrum.from_moments(np.diag([1.0, 0.0]), [0.5, 5.0], 40.0, 5)


def test_moments_keep_no_training_inputs() -> None:
    post = NETWORK.condition_spectrum(Spectrum.from_moments(*MOMENTS, 5), 4.0)
    with pytest.raises(ValueError, match="training inputs are not kept with moments: pass X_test"):
        post.predict()
    with pytest.raises(ValueError, match="training inputs are not kept with moments: pass X_test"):
        post.feature_kernel()


# ---------------------------------------------------------------- scale prior


def test_density_of_the_scale_has_its_rules() -> None:
    with pytest.raises(ValueError, match=r"L must have shape \(..., 2, 2\), got L.shape=\(3, 3\)"):
        Network((5,)).scale_prior(2).log_density(np.eye(3))
    for widths in ((5, 5), (1,)):
        with pytest.raises(ValueError, match="density of L is known in closed form for one output, or"):
            Network(widths).scale_prior(2).log_density(np.eye(2))


# ---------------------------------------------------------------- extremes


def answer_or_reason(network: Network, X: np.ndarray, Y: np.ndarray, beta: float) -> lbnn.Posterior | str:
    """The posterior, or what the library says of why there is none that it stands by."""
    try:
        return network.condition(X, Y, beta)
    except (ValueError, lbnn.AccuracyWarning) as reason:
        return str(reason)


def assert_answer_or_advice(outcome: lbnn.Posterior | str) -> None:
    """Finite numbers, or a message that says what to do; never a bare overflow, never NaN."""
    if isinstance(outcome, str):
        assert "rescale" in outcome
    else:
        assert math.isfinite(outcome.log_evidence)
        assert np.isfinite(outcome.predict(DATA.X_test).mean).all()


@pytest.mark.parametrize("beta", [4.0, math.inf])
@pytest.mark.parametrize("size", [1e40, 1e160, 1e300])
def test_extreme_inputs(size: float, beta: float) -> None:
    assert_answer_or_advice(answer_or_reason(NETWORK, size * DATA.X, DATA.Y, beta))
    assert_answer_or_advice(answer_or_reason(NETWORK, DATA.X / size, DATA.Y, 4.0))


@pytest.mark.parametrize("beta", [4.0, math.inf])
@pytest.mark.parametrize("size", [1e40, 1e160, 1e300])
def test_extreme_targets(size: float, beta: float) -> None:
    assert_answer_or_advice(answer_or_reason(NETWORK, DATA.X, size * DATA.Y, beta))
    assert_answer_or_advice(answer_or_reason(NETWORK, DATA.X, DATA.Y / size, beta))


@pytest.mark.parametrize("widths", [(10**12,), (10**15,), (1,) * 200], ids=["1e12", "1e15", "1x200"])
@pytest.mark.parametrize("variance", [1.0, 1e-200, 1e200])
def test_extreme_networks(widths: tuple[int, ...], variance: float) -> None:
    network = Network(widths, (1.0, variance, *[1.0] * (len(widths) - 1)))
    assert_answer_or_advice(answer_or_reason(network, DATA.X, DATA.Y, 4.0))


# ---------------------------------------------------------------- nothing is changed


def test_arguments_are_not_changed() -> None:
    """Read-only arrays go in, and are the same afterwards."""
    arrays = [
        array.copy() for array in (DATA.X, DATA.Y, DATA.X_test, DATA.gram, DATA.cross.T, DATA.test_gram)
    ]
    for array in arrays:
        array.flags.writeable = False
    X, Y, X_test, gram, cross, test_gram = arrays
    for pred in (
        NETWORK.condition(X, Y, 4.0).predict(X_test),
        NETWORK.condition_gram(gram, Y, 4.0).predict(cross_gram=cross, test_gram=test_gram),
    ):
        pred.log_density(Y[:3])
        pred.mgf(Y[:3])
        pred.sample(2, 0)
    for array, original in zip(arrays[:3], (DATA.X, DATA.Y, DATA.X_test), strict=True):
        np.testing.assert_array_equal(array, original)


def test_later_changes_of_the_arguments_do_not_matter() -> None:
    """Answers that are computed late do not read the caller's arrays again."""
    X, Y, X_test = DATA.X.copy(), DATA.Y.copy(), DATA.X_test.copy()
    post = NETWORK.condition(X, Y, 4.0)
    pred = post.predict(X_test)
    for array in (X, Y, X_test):
        array[:] = math.nan
    np.testing.assert_array_equal(pred.mean, PRED.mean)
    np.testing.assert_array_equal(pred.covariance, PRED.covariance)
    np.testing.assert_array_equal(post.feature_kernel(), POST.feature_kernel())


def test_answers_may_be_changed_by_their_owner() -> None:
    """Writing into a result does not change the next one."""
    pred = POST.predict(DATA.X_test)
    for name in ("mean", "variance", "covariance", "output_covariance"):
        before = getattr(pred, name).copy()
        getattr(pred, name)[...] = 0.0
        np.testing.assert_array_equal(getattr(pred, name), before)
    kernel = POST.feature_kernel().copy()
    POST.feature_kernel()[...] = 0.0
    np.testing.assert_array_equal(POST.feature_kernel(), kernel)


def test_posterior_is_of_the_public_kind() -> None:
    """Public classes are what the entry points return."""
    assert isinstance(POST, lbnn.Posterior)
    assert isinstance(PRED, lbnn.Predictive)
    assert isinstance(POST.scale, lbnn.ScaleMeasure)
    assert isinstance(NETWORK.scale_prior(1), lbnn.ScalePrior)
    assert isinstance(POST.spectrum, lbnn.Spectrum)
    assert NETWORK.depth == 3


def test_slips_get_a_sentence_that_says_what_to_write():
    X, y, network = np.eye(4), np.ones(4), lbnn.Network((3,))
    for call in (
        lambda: network.condition(X, y),
        lambda: network.condition_gram(X, y),
        lambda: network.condition_spectrum(lbnn.Spectrum.from_inputs(X, y)),
    ):
        with pytest.raises(TypeError, match=r"beta is needed: .* is 1/beta.*LBNNRegressor"):
            call()
    with pytest.raises(ValueError, match=r"got 0\.25: a noise variance of 0\.25 is given as beta=4"):
        network.condition(X, y, 4.0, noise=0.25)
    for wrong in ("independant", "independent noise"):
        with pytest.raises(ValueError, match="did you mean 'independent'"):
            network.condition(X, y, 4.0, noise=wrong)
        with pytest.raises(ValueError, match="did you mean 'independent'"):
            network.choose_engine(4, 1, noise=wrong)
    for settings in ({"depth": 3}, {}, {"widths": (5, 5), "depth": 3}):
        with pytest.raises(TypeError, match=r"given by its hidden widths.*\(50, 50\)\) has depth 3"):
            lbnn.Network(**settings)
