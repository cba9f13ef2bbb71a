"""Random ill-conditioned problems of one output against sixty digits.

Inputs of every shape (2 to 60 examples and inputs) with one to five small singular values, 1e-2 to 1e-14 of
the others; depth one to four; β from 1e-4 to 1e16 and ∞; with and without intercept; NumPy, array-api-strict
and PyTorch; `from_inputs`, `from_gram`, `from_chunks` with one pass and two. The error of log evidence, means
and variances is compared with what one rounding of every entry of X (or of the Gram matrix) does to the exact
answer: at most a thousand times that is allowed, or a warning, or a refusal.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import lbnn
from lbnn._base.arrays import to_numpy
from tests.referees.sixty_digits import ExactData, exact_data, exact_gram

ALLOWED = 1e3  # times what one rounding does
#: Relative error of an answer that counts as right whatever one rounding does: that of the quadrature.
FLOOR = 1e-10
ROUNDINGS = 2  # random ones, of which the larger effect counts
WAYS = ("from_inputs", "intercept", "from_gram", "blocks", "moments")
LIBRARIES = ("numpy", "array_api_strict", *(("torch",) if find_spec("torch") else ()))


@dataclass(frozen=True)
class Problem:
    """One problem; `way` is how the data are handed over."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    widths: tuple[int, ...]
    beta: float
    way: str
    library: str

    @property
    def network(self) -> lbnn.Network:
        return lbnn.Network(self.widths)


def make_problem(seed: int) -> Problem:
    """Draw a problem."""
    rng = np.random.default_rng([seed, 24])
    way = str(rng.choice(WAYS, p=[0.4, 0.2, 0.15, 0.15, 0.1]))
    kind = str(rng.choice(["wide", "tall", "square"], p=[0.4, 0.35, 0.25]))
    sizes = np.sort(np.rint(np.exp(rng.uniform(math.log(2), math.log(60), 2))).astype(int))
    p, n0 = {"wide": sizes, "tall": sizes[::-1], "square": sizes[[0, 0]]}[kind]
    directions = min(p, n0)
    left, right = (np.linalg.qr(rng.normal(size=(size, directions)))[0] for size in (p, n0))
    values = rng.uniform(0.5, 2, directions)
    small = min(int(rng.integers(1, 6)), directions - 1)
    values[:small] = 10 ** -rng.uniform(2, 14, small)
    X = (left * values) @ right.T * math.sqrt(p * n0)
    X = X + (rng.normal(size=n0) if way == "intercept" else 0.0)
    y = rng.normal(size=p) if rng.random() < 0.5 else X @ rng.normal(size=n0) / math.sqrt(n0)
    combined = rng.normal(size=(1, p)) @ X / math.sqrt(p)  # explained entirely
    X_test = np.concatenate([rng.normal(size=(2, n0)), combined, X[:1]])
    depth = int(rng.integers(1, 5))
    widths = tuple(int(w) for w in rng.integers(1, 21, depth - 1))
    if way == "intercept":  # the estimator has one width for all layers
        widths = widths[:1] * len(widths)
    zero = p <= n0 and way != "intercept" and rng.random() < 0.2
    beta = math.inf if zero else float(10 ** rng.uniform(-4, 16))
    library = str(rng.choice(LIBRARIES)) if way in ("from_inputs", "from_gram") else "numpy"
    return Problem(X, y, X_test, widths, beta, way, library)


def put(array: np.ndarray, library: str) -> Any:
    """An array of a library."""
    if library == "numpy":
        return array
    module = __import__(library)
    return module.asarray(array.copy())


def answers(problem: Problem) -> dict[str, np.ndarray]:
    """Of the library: log evidence, and mean and variance of the function at the test points."""
    X, y, X_test, beta = problem.X, problem.y, problem.X_test, problem.beta
    if problem.way == "intercept":
        width = problem.widths[0] if problem.widths else "evidence"
        settings = {"depth": len(problem.widths) + 1, "width": width, "prior_scale": 1.0}
        model = lbnn.LBNNRegressor(beta=beta, column_scales="raw", average=False, **settings).fit(X, y)
        return _of(model.log_evidence_, model.predictive(X_test))
    if problem.way == "from_gram":
        gram, cross, test = (put(each, problem.library) for each in kernels(X, X_test))
        post = problem.network.condition_gram(gram, put(y, problem.library), beta)
        return _of(post.log_evidence, post.predict(cross_gram=cross, test_gram=test))
    X, y, X_test = (put(each, problem.library) for each in (X, y, X_test))
    if problem.way == "from_inputs":
        post = problem.network.condition(X, y, beta)
    else:
        cuts = np.array_split(np.arange(len(X)), min(3, len(X)))
        spectrum = (
            lbnn.Spectrum.from_chunks([(X[rows], y[rows]) for rows in cuts])
            if problem.way == "blocks"
            else lbnn.Spectrum.from_moments(X.T @ X, X.T @ y, y.T @ y, len(X))
        )
        post = problem.network.condition_spectrum(spectrum, beta)
    return _of(post.log_evidence, post.predict(X_test))


def _of(log_evidence: float, law: Any) -> dict[str, np.ndarray]:
    mean, variance = to_numpy(law.mean), to_numpy(law.variance)
    return {"log evidence": np.array([log_evidence]), "mean": mean, "variance": variance}


def kernels(X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gram matrix, cross kernel and test kernel of the linear kernel."""
    n0 = X.shape[1]
    return X @ X.T / n0, X_test @ X.T / n0, X_test @ X_test.T / n0


def exact_answers(problem: Problem, rng: np.random.Generator | None = None) -> dict[str, np.ndarray]:
    """Of sixty digits; after one random rounding of the entries where there is a generator."""
    exact: ExactData
    X, centre = problem.X, problem.way == "intercept"
    if problem.way == "from_gram" and rng is not None:
        gram, cross, test = kernels(X, problem.X_test)
        noise = _rounding(gram.shape, rng)
        rounded = gram * (1 + np.triu(noise) + np.triu(noise, 1).T)
        exact = exact_gram(rounded, problem.y, cross, np.diagonal(test))
    else:
        rounded = X if rng is None else X * (1 + _rounding(X.shape, rng))
        exact = exact_data(rounded, problem.y, problem.X_test, centre=centre)
    found = exact.answers(problem.network, problem.beta)
    if centre:
        found["variance"] = found["variance"] + 1 / problem.beta / len(X)  # of the level
    return found


def _rounding(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return 2.0**-52 * rng.uniform(-1, 1, shape)


def judged(seed: int) -> dict[str, Any]:
    """One problem: its verdict, and the largest ratio of an error to what is allowed."""
    problem = make_problem(seed)
    shape = "x".join(str(each) for each in problem.X.shape)
    row: dict[str, Any] = {"seed": seed, "way": problem.way, "library": problem.library, "shape": shape}
    row |= {"depth": len(problem.widths) + 1, "beta": problem.beta, "warned": False}
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = answers(problem)
    except ValueError as refused:
        return row | {"verdict": "refused", "message": str(refused)}
    row["warned"] = any(issubclass(each.category, lbnn.AccuracyWarning) for each in caught)
    rng = np.random.default_rng([seed, 25])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = exact_answers(problem)
        others = [_or_none(problem, rng) for _ in range(ROUNDINGS)]
    for name, expected in truth.items():
        error = float(np.abs(found[name] - expected).max())
        size = float(np.abs(expected).max())
        effects = [
            math.inf if each is None else float(np.abs(each[name] - expected).max()) for each in others
        ]
        row[name] = {"error": error, "size": size, "one rounding": max(effects)}
    ratios = [
        0.0 if each["error"] <= FLOOR * each["size"] else each["error"] / max(each["one rounding"], 1e-300)
        for each in (row[name] for name in truth)
    ]
    row["ratio"] = max(ratios)
    right = row["ratio"] <= ALLOWED
    return row | {"verdict": "right" if right else "warned" if row["warned"] else "WRONG"}


def _or_none(problem: Problem, rng: np.random.Generator) -> dict[str, np.ndarray] | None:
    """None where one rounding takes the posterior away."""
    try:
        return exact_answers(problem, rng)
    except ValueError:
        return None
