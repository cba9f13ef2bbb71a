"""Outliers, far quantiles and points near the data: against dense grids, closed forms and many digits."""

from __future__ import annotations

import math
import tracemalloc

import mpmath
import numpy as np
import pytest
from scipy import stats

import lbnn
from lbnn.predict import outputs, part
from tests.helpers.predictives import affine
from tests.referees.dense_line import Line
from tests.referees.far_cases import wrong_cases

NOISE = 30530.29794880848


def noisy(value: float = 8902.143856103869) -> tuple[lbnn.Predictive, Line, float]:
    """An outlier that a far scale explains better than noise, beyond the posterior's quadrature nodes."""
    X, y = np.array([[1.0]]), np.array([0.5])
    predictive = lbnn.Network((3, 2)).condition(X, y, beta=1 / NOISE).predict(X).with_noise()
    return predictive, Line(X, y, X[0], (3, 2), (1.0, 1.0, 1.0), NOISE), value


def test_an_outlier_beyond_the_nodes() -> None:
    predictive, line, value = noisy()
    exact = line.log_density(value, noisy=True)
    assert predictive.pointwise_log_density([value])[0] == pytest.approx(exact, rel=1e-11)
    assert predictive.log_density([value]) == pytest.approx(exact, rel=1e-11)


def test_the_posterior_s_nodes_alone_miss_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look beyond the nodes the answer is 31 nats low."""
    monkeypatch.setattr(outputs, "mass_beyond", lambda line, terms, totals: np.zeros(len(totals), bool))
    predictive, line, value = noisy()
    assert predictive.pointwise_log_density([value])[0] < line.log_density(value, noisy=True) - 30


def test_outliers_of_many_sizes_together() -> None:
    """A whole row of them at once, ordinary values among them, in any order."""
    line = noisy()[1]
    values = np.array([0.0, 100.0, -3000.0, 8000.0, 9000.0, -2e4, 1e6])
    many = lbnn.Network((3, 2)).condition([[1.0]], [0.5], 1 / NOISE).predict(np.ones((7, 1))).with_noise()
    exact = [line.log_density(value, noisy=True) for value in values]
    np.testing.assert_allclose(many.pointwise_log_density(values), exact, rtol=1e-10)
    np.testing.assert_allclose(many.pointwise_log_density(values[::-1]), exact[::-1], rtol=1e-10)


@pytest.mark.parametrize(("name", "cases"), [("densities", 10), ("quantiles", 6), ("student", 30)])
def test_a_few_random_cases(name: str, cases: int) -> None:
    assert not wrong_cases(name, cases, seed=11)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["densities", "quantiles", "student", "leave_one_out"])
def test_many_random_cases(name: str) -> None:
    assert not wrong_cases(name, 500, seed=12)


@pytest.mark.parametrize("shape", [1.2, 2.0, 5.0])
@pytest.mark.parametrize("level", [1e-9, 1e-15, 1e-30, 1e-100, 1 - 1e-12])
def test_quantiles_of_a_student_law(shape: float, level: float) -> None:
    """s ~ inverse Gamma: y is Student, with tails in which scales are asked for that no moment needs."""
    mixture = lbnn.ScaleMixture(stats.invgamma(shape, scale=1.0))
    X, y, x = np.array([[1.0, 0.0]]), np.array([0.7]), np.array([[0.3, 1.2]])
    predictive = mixture.condition(X, y, math.inf).predict(x)
    unit = math.sqrt(0.72 * (1 + 0.49) / (shape + 0.5))
    standard = stats.t(2 * shape + 1)
    below = student_quantile(min(level, 1 - level), 2 * shape + 1)
    exact = 0.21 + unit * (below if level < 0.5 else -below)
    assert predictive.quantile(level)[0] == pytest.approx(exact, rel=1e-12)
    shown = predictive.pointwise_log_density([exact])[0]
    assert shown == pytest.approx(standard.logpdf((exact - 0.21) / unit) - math.log(unit), rel=1e-11)


def student_quantile(level: float, freedom: float) -> float:
    """By mpmath: SciPy 1.15 has eleven digits of it."""

    def difference(t: mpmath.mpf) -> mpmath.mpf:
        ratio = freedom / (freedom + t * t)
        return mpmath.log(mpmath.betainc(freedom / 2, 0.5, 0, ratio, regularized=True) / (2 * level))

    with mpmath.workdps(40):
        start = mpmath.mpf(stats.t(freedom).ppf(level))
        return float(mpmath.findroot(difference, (start, start * (1 + mpmath.mpf(10) ** -6))))


@pytest.mark.parametrize("level", [1e-6, 1e-15, 1e-60])
def test_quantiles_of_a_product_of_normals(level: float) -> None:
    """Networks of width one at zero inputs of data: a product of three normal weights (Meijer's G)."""
    q = lbnn.Network((1, 1)).prior(np.ones((1, 1)), outputs=1).quantile(level)[0, 0]
    with mpmath.workdps(30):
        # P(|W1 W2 W3| > q) = G^{4,0}_{1,4}(q²/8 | 1; 0, ½, ½, ½)/π^{3/2}
        half = mpmath.mpf(1) / 2
        tail = mpmath.meijerg([[], [1]], [[0, half, half, half], []], mpmath.mpf(float(q)) ** 2 / 8)
        assert float(tail / mpmath.pi**1.5 / 2 / mpmath.mpf(level)) == pytest.approx(1, rel=1e-9)


def test_affine_and_averaged_quantiles_are_those_of_their_parts() -> None:
    """Units, mirrored or not, and a mixture with itself change nothing."""
    mixture = lbnn.ScaleMixture(stats.invgamma(1.2, scale=1.0))
    inner = mixture.condition(np.array([[1.0, 0.0]]), np.array([0.7]), math.inf).predict([[0.3, 1.2]])
    tail = 2.0**-44  # whose complement is a double
    low, high = inner.quantile([tail, 1 - tail])[:, 0]
    mirrored = affine(inner, np.array([[-2.0]]), np.array([5.0]), single_output=True)
    np.testing.assert_allclose(
        mirrored.quantile([1 - tail, tail])[:, 0], [5 - 2 * low, 5 - 2 * high], rtol=1e-12
    )
    both = lbnn.Predictive.average((inner, inner), np.array([0.3, 0.7]))
    np.testing.assert_allclose(both.quantile([tail, 1 - tail])[:, 0], [low, high], rtol=1e-12)


# ---------------------------------------------------------------- joint densities near the data


def many_digits(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, f: np.ndarray, beta: float, noisy: bool
) -> float:
    """Log p(f | y) at depth one, from Cholesky factors of 60 digits."""
    with mpmath.workdps(60):
        rows = mpmath.matrix(np.vstack([X, X_test]).tolist())
        gram = rows * rows.T / X.shape[1]
        for i in range(len(X) + noisy * len(X_test)):
            gram[i, i] += 1 / mpmath.mpf(beta)
        values = mpmath.matrix([float(v) for v in np.concatenate([y, f])])

        def log_density(count: int) -> mpmath.mpf:
            root = mpmath.cholesky(gram[:count, :count])
            white = mpmath.lu_solve(root, values[:count, 0])
            logs = sum(mpmath.log(root[i, i]) for i in range(count))
            return -logs - sum(w * w for w in white) / 2 - count * mpmath.log(2 * mpmath.pi) / 2

        return float(log_density(len(X) + len(X_test)) - log_density(len(X)))


@pytest.mark.parametrize("beta", [1e4, 1e8, 1e14])
@pytest.mark.parametrize("noisy", [True, False])
def test_joint_density_near_training_points(beta: float, noisy: bool) -> None:
    """Three points at a distance of 1e-6 from training points: the rounding of inputs, ε/σ, and no more."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 8))
    y, X_test = X @ rng.normal(size=8), X[:3] + 1e-6 * rng.normal(size=(3, 8))
    predictive = lbnn.Network(()).condition(X, y, beta).predict(X_test)
    predictive = predictive.with_noise() if noisy else predictive
    f = predictive.mean + predictive.standard_deviation * rng.normal(size=3)
    exact = many_digits(X, y, X_test, f, beta, noisy)
    assert predictive.log_density(f) == pytest.approx(
        exact, abs=64 * np.finfo(float).eps * math.sqrt(beta) + 1e-10
    )


def test_roots_and_gram_matrices_give_the_same_densities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both keep their digits, for several outputs too."""
    rng = np.random.default_rng(1)
    X, Y, X_test = rng.normal(size=(6, 9)), rng.normal(size=(6, 2)), rng.normal(size=(3, 9))
    post = lbnn.Network((8,)).condition(X, Y, 5.0)
    for predictive in (post.predict(X_test), post.predict(X_test).with_noise()):
        monkeypatch.undo()
        by_gram = predictive.log_density(predictive.mean)
        monkeypatch.setattr(part, "_GRAM_ROUNDING", 0.0)
        assert predictive.log_density(predictive.mean) == pytest.approx(by_gram, rel=1e-11)


# ---------------------------------------------------------------- memory and cost


def test_pointwise_densities_in_little_memory() -> None:
    """20,000 points and 20 inputs, observations that are ordinary: a few times the input, not dozens."""
    rng = np.random.default_rng(2)
    X, X_test = rng.normal(size=(100, 20)), rng.normal(size=(20_000, 20))
    predictive = (
        lbnn.Network((10,)).condition(X, X[:, 0] + rng.normal(size=100), 1.0).predict(X_test).with_noise()
    )
    tracemalloc.start()
    predictive.pointwise_log_density(X_test[:, 0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * X_test.nbytes


@pytest.mark.parametrize("points", [5, 200])
def test_variances_from_second_moments_are_those_of_the_atoms(points: int) -> None:
    """Few points by the means of every atom, many by their second moments: the same as full covariances."""
    rng = np.random.default_rng(3)
    X, X_test = rng.normal(size=(80, 100)), rng.normal(size=(points, 100))
    Y = X @ rng.normal(size=(100, 3)) / 5
    predictive = lbnn.Network((6,)).condition(X, Y, 10.0).predict(X_test)
    full = np.diagonal(predictive.output_covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(predictive.variance, full, rtol=1e-10)
    matrix = rng.normal(size=(2, 3))
    image = affine(predictive, matrix, np.zeros(2), 0.3)
    expected = np.diagonal(image.output_covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(image.variance, expected, rtol=1e-10)
