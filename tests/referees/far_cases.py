"""Far answers of one output beside dense grids: densities of outliers, far quantiles, left-out examples.

Problems are not drawn from the prior. A case fails if an answer is off by more than 1e-8: log densities
relative to one plus their size, quantiles relative to their distance from zero or from the median, left-out
means relative to the targets or the deviation, variances to themselves. Answers that warn, or are refused,
are counted apart; cases in which the arithmetic of the grid (dense_line.py) has lost the digits are left out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

import lbnn
from lbnn.cross_validation import left_out_scores
from tests.referees.dense_line import Line, log_prior

ALLOWED = 1e-8
_REFEREE = 1e-11  # relative error of the referee's predictive variance from which a case is left out
WIDTHS = ((1,), (2,), (3,), (10,), (100,), (3, 2), (1, 1), (5, 5), (30, 2), (50, 50))


def random_problem(rng: np.random.Generator, least: int = 1) -> tuple[Line, float]:
    """Data, network and test point, and beta, on scales that have nothing to do with each other."""
    examples, inputs = int(rng.integers(least, 6)), int(rng.integers(1, 6))
    X = rng.normal(size=(examples, inputs)) * 10.0 ** rng.uniform(-1, 1)
    teacher = rng.normal(size=inputs)
    y = (X @ teacher + 10.0 ** rng.uniform(-4, 1) * rng.normal(size=examples)) * 10.0 ** rng.uniform(-3, 3)
    near = rng.random() < 0.2
    test = X[0] + 10.0 ** rng.uniform(-3, 0) * rng.normal(size=inputs) if near else rng.normal(size=inputs)
    widths = WIDTHS[rng.integers(len(WIDTHS))]
    variances = tuple(10.0 ** rng.uniform(-1, 1, size=len(widths) + 1))
    zero = examples <= inputs and rng.random() < 0.1
    beta = math.inf if zero else float(10.0 ** rng.uniform(-5, 6))
    if not zero and rng.random() < 0.5:  # noise above the function: outliers move the scale far
        function = math.prod(variances) * float((test**2).mean())
        beta = float(10.0 ** rng.uniform(-5, 2)) / function
    return Line(X, y, test, widths, variances, 1 / beta), beta


def aimed(line: Line, rng: np.random.Generator) -> float:
    """Standard deviations of the noise at which a far scale begins to explain an outlier better."""
    function = line.variances[0] * float((line.test**2).mean())
    far = math.log(line.noise / function) + rng.uniform(-2, 4)
    price = -float(log_prior(np.array([far], np.longdouble), line.widths, math.prod(line.variances[1:]))[0])
    return math.sqrt(2 * max(price, 1.0)) * rng.uniform(0.7, 1.5)


def density_case(rng: np.random.Generator) -> dict[str, Any]:
    """An outlier, up to a thousand standard deviations away."""
    line, beta = random_problem(rng)
    noisy = bool(rng.random() < 0.5) and beta < math.inf
    post = lbnn.Network(line.widths, line.variances).condition(line.X, line.y, beta)
    pred = post.predict(line.test[None])
    pred = pred.with_noise() if noisy else pred
    if not pred.variance[0] > 0:
        return {"skipped": "no density"}
    away = 10.0 ** rng.uniform(-1, 3.5) * rng.choice([-1, 1])
    if noisy and rng.random() < 0.7:
        away = aimed(line, rng)
    value = float(pred.mean[0] + away * pred.standard_deviation[0])
    if line.lost_digits(noisy) * (1 + away**2) > _REFEREE:
        return {"skipped": "referee"}
    got, exact = float(pred.pointwise_log_density([value])[0]), line.log_density(value, noisy)
    return {"error": abs(got - exact) / (1 + abs(exact)), "what": f"{line} {beta=} {noisy=} {value=}"}


def quantile_case(rng: np.random.Generator) -> dict[str, Any]:
    """A level down to 1e-15, at both ends."""
    line, beta = random_problem(rng)
    noisy = bool(rng.random() < 0.5) and beta < math.inf
    tail = 10.0 ** rng.uniform(-15, -0.31)
    level = tail if rng.random() < 0.5 else 1 - tail
    sign, tail = (1.0, level) if level <= 0.5 else (-1.0, 1 - level)
    post = lbnn.Network(line.widths, line.variances).condition(line.X, line.y, beta)
    pred = post.predict(line.test[None])
    pred = pred.with_noise() if noisy else pred
    if not pred.variance[0] > 0:
        return {"skipped": "no density"}
    if line.lost_digits(noisy) * 1e2 > _REFEREE:
        return {"skipped": "referee"}
    got, middle = float(pred.quantile(level)[0]), float(pred.quantile(0.5)[0])
    excess = line.log_tail(got, sign, noisy) - math.log(tail)
    slope = line.log_density(got, noisy) - math.log(tail)  # of the log probability
    size = max(abs(got), abs(got - middle))
    return {"error": abs(excess) / math.exp(slope) / size, "what": f"{line} {beta=} {noisy=} {level=}"}


def student_case(rng: np.random.Generator) -> dict[str, Any]:
    """A far quantile of a Student law: infinite width, a scale of inverse Gamma law, no noise."""
    shape, scale = float(rng.uniform(1.1, 6)), float(10.0 ** rng.uniform(-2, 2))
    examples = int(rng.integers(1, 9))
    X, test = rng.normal(size=(examples, 12)), rng.normal(size=12)
    y = rng.normal(size=examples) * 10.0 ** rng.uniform(-2, 2)
    tail = 10.0 ** rng.uniform(-15, -0.31)
    level = tail if rng.random() < 0.5 else 1 - tail
    gram, cross = X @ X.T / 12, X @ test / 12
    mean = cross @ np.linalg.solve(gram, y)
    unexplained = test @ test / 12 - cross @ np.linalg.solve(gram, cross)
    freedom = 2 * shape + examples
    unit = math.sqrt(unexplained * (scale + 0.5 * y @ np.linalg.solve(gram, y)) / (shape + examples / 2))
    mixture = lbnn.ScaleMixture(stats.invgamma(shape, scale=scale))
    got = float(mixture.condition(X, y, math.inf).predict(test[None]).quantile(level)[0])
    exact = mean + unit * (stats.t.ppf(level, freedom) if level <= 0.5 else -stats.t.ppf(1 - level, freedom))
    size = max(abs(exact), abs(exact - mean))
    return {"error": abs(got - exact) / size, "what": f"{shape=} {scale=} {X=} {y=} {test=} {level=}"}


def left_out_case(rng: np.random.Generator) -> dict[str, Any]:
    """One example of a data set, given the others; every second one has an outlier or low noise."""
    line, beta = random_problem(rng, least=2)
    y, a = line.y.copy(), int(rng.integers(len(line.y)))
    if rng.random() < 0.3:
        y[rng.integers(len(y))] += 10.0 ** rng.uniform(0, 3) * np.abs(y).max()
    if rng.random() < 0.3 and beta < math.inf:
        beta *= 10.0 ** rng.uniform(0, 4)
    kept = np.arange(len(y)) != a
    left = Line(line.X[kept], y[kept], line.X[a], line.widths, line.variances, 1 / beta)
    if left.lost_digits(True) > _REFEREE:
        return {"skipped": "referee"}
    post = lbnn.Network(line.widths, line.variances).condition(line.X, y, beta)
    scores = left_out_scores(post, y)
    mean, variance = left.moments(True)
    density = left.log_density(float(y[a]), True)
    errors = (
        abs(scores.mean[a] - mean) / max(math.sqrt(variance), np.abs(y).max()),
        abs(scores.variance[a] / variance - 1),
        abs(scores.log_density[a] - density) / (1 + abs(density)),
    )
    return {
        "error": max(errors),
        "errors": errors,
        "what": f"{line.X=} {y=} {line.widths} {line.variances} {beta=} {a=}",
    }


CASES: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "densities": density_case,
    "quantiles": quantile_case,
    "student": student_case,
    "leave_one_out": left_out_case,
}


def one(case: Callable[[np.random.Generator], dict[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
    """A case, with what was said about it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            row = case(rng)
        except (ValueError, np.linalg.LinAlgError) as refusal:
            return {"refused": str(refusal)}
    accuracy = [str(each.message) for each in said if issubclass(each.category, lbnn.AccuracyWarning)]
    return row | ({"warned": accuracy} if accuracy else {})


def wrong_cases(name: str, cases: int, seed: int) -> list[dict[str, Any]]:
    """Those of so many cases that are wrong without a warning."""
    rows, number = [], 0
    while len(rows) < cases:
        row = one(CASES[name], np.random.default_rng([seed, number])) | {"number": number}
        number += 1
        if "error" in row:
            rows.append(row)
    return [row for row in rows if "warned" not in row and not row["error"] <= ALLOWED]
