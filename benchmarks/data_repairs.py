"""what outside checks found wrong in how data are taken in, line by line, to be run on two versions.

python -m benchmarks.data_repairs
PYTHONPATH=/path/to/another/version/src python -m benchmarks.data_repairs
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import lbnn
from benchmarks import ill_conditioned
from lbnn._base.arrays import to_numpy
from tests.referees.sixty_digits import exact_data


def replicates(examples: int, inputs: int, distance: float, beta: float) -> str:
    """The last row is the one before, up to a small distance; depth one."""
    worst: dict[str, float] = {}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(examples, inputs))
        X[-1] = X[-2] + distance * rng.normal(size=inputs)
        errors = relative_errors(X, rng.normal(size=examples), rng.normal(size=(3, inputs)), (), beta)
        worst = {name: max(error, worst.get(name, 0.0)) for name, error in errors.items()}
    return described(worst)


def depth_three() -> str:
    """4 × 7 with one relative singular value of 1e-8, generic targets, β = 1e8, widths (3, 5)."""
    return described(relative_errors(*with_small_value((4, 7), 1e-8, 0), (3, 5), 1e8))


def with_small_value(shape: tuple[int, int], small: float, seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(size, min(shape))))[0] for size in shape)
    values = np.append(np.ones(min(shape) - 1), small)
    return (left * values) @ right.T, rng.normal(size=shape[0]), rng.normal(size=(3, shape[1]))


def relative_errors(
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    widths: tuple[int, ...],
    beta: float,
    library: str = "numpy",
) -> dict[str, float]:
    """Against sixty digits, relative to the largest entry; of the log evidence in nats."""
    network, put = lbnn.Network(widths), np.asarray if library == "numpy" else __import__(library).asarray
    post = network.condition(put(X), put(y), beta)
    law = post.predict(put(X_test))
    truth = exact_data(X, y, X_test).answers(network, beta)
    errors = {"log evidence": abs(post.log_evidence - float(truth["log evidence"][0]))}
    for name, found in (("mean", law.mean), ("variance", law.variance)):
        errors[name] = float(np.abs(to_numpy(found) - truth[name]).max() / np.abs(truth[name]).max())
    return errors


def described(errors: dict[str, float]) -> str:
    return ", ".join(f"{name} off by {error:.1e}" for name, error in errors.items())


def very_wide() -> str:
    """20 × 100,000 with replicate rows 1e-6 apart."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 100_000))
    X = np.concatenate([X, X + 1e-6 * rng.normal(size=X.shape)])
    return f"rank {lbnn.Spectrum.from_inputs(X, rng.normal(size=20)).rank} of 20"


def diagonal() -> str:
    """Diagonal inputs over fourteen decades."""
    wrong = refused = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        size, beta = 3 + seed % 6, float(10 ** rng.uniform(0, 16))
        X = np.diag(10.0 ** -np.linspace(0, 14, size))
        X_test = rng.normal(size=(2, size)) * np.diagonal(X)
        try:
            errors = relative_errors(X, X @ rng.normal(size=size), X_test, (5,), beta)
        except ValueError:
            refused += 1
            continue
        wrong += max(errors.values()) > 1e-8
    return f"{wrong} of 40 off by more than 1e-8, {refused} refused"


def intercept() -> str:
    """The estimator with intercept, given noise and prior scale: those of the first 300 problems."""
    problems = [seed for seed in range(300) if ill_conditioned.make_problem(seed).way == "intercept"]
    rows = [ill_conditioned.judged(seed) for seed in problems if small(seed)]
    wrong = [row for row in rows if row["verdict"] == "WRONG"]
    worst = max((row["mean"]["error"] / row["mean"]["size"] for row in wrong), default=0.0)
    return f"{len(wrong)} of {len(rows)} beyond 1e3 × one rounding of X, their means off by up to {worst:.1e}"


def small(seed: int) -> bool:
    return min(ill_conditioned.make_problem(seed).X.shape) <= 16


def other_arrays() -> str:
    """Tall arrays of array-api-strict."""
    errors = [
        relative_errors(
            *with_small_value((12, 4), 10.0 ** -(3 + seed), seed), (3, 5), 1e6, "array_api_strict"
        )
        for seed in range(12)
    ]
    nats = [each["log evidence"] for each in errors]
    return f"{sum(each > 1e-6 for each in nats)} of 12 above 1e-6 nats, worst {max(nats):.1e}"


def other_rows() -> str:
    """`from_chunks` where the second pass gives other rows."""
    seeds = iter(range(100))

    def chunks() -> Any:
        rng = np.random.default_rng(next(seeds))
        return [(rng.normal(size=(20, 4)), rng.normal(size=20)) for _ in range(3)]

    return f"log evidence {log_evidence(chunks):.2f}"


def used_iterator() -> str:
    """A function that gives the same iterator again; three blocks of twenty rows."""
    rng = np.random.default_rng(0)
    blocks = iter([(rng.normal(size=(20, 4)), rng.normal(size=20)) for _ in range(3)])
    return f"{lbnn.Spectrum.from_chunks(lambda: blocks, passes=1).examples} of 60 rows"


def log_evidence(chunks: Any) -> float:
    return lbnn.Network((5,)).condition_spectrum(lbnn.Spectrum.from_chunks(chunks), 4.0).log_evidence


def huge_chunks(size: float) -> str:
    """Inputs of extreme size in two passes."""
    rng = np.random.default_rng(0)
    blocks = [(size * rng.normal(size=(20, 4)), rng.normal(size=20)) for _ in range(3)]
    return f"log evidence {log_evidence(blocks):.2f}"


def dask_block() -> str:
    """A NaN in a block of a dask array."""
    import dask.array as da

    X = np.ones((40, 3))
    X[25, 1] = np.nan
    return str(lbnn.Spectrum.from_inputs(da.from_array(X, chunks=(10, 3)), np.ones(40)))


def beside_another() -> str:
    """Variance at one point of a polynomial kernel, alone and beside a far one."""

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (1 + np.outer(a, b)) ** 5

    x = np.linspace(-1, 1, 4)
    post = lbnn.Network((5,)).condition_gram(kernel(x, x), np.sin(x), 1e3)
    near, both = np.array([1.6]), np.array([1.6, 100.0])
    alone = post.predict(cross_gram=kernel(near, x), test_gram=kernel(near, near)).variance[0]
    beside = post.predict(cross_gram=kernel(both, x), test_gram=kernel(both, both)).variance[0]
    return f"{alone:.4f} alone, {beside:.4f} beside x = 100"


def tiny() -> str:
    """X ~ 1e-150, y ~ 1e-160, β = ∞: by how much the units change the log evidence beyond their Jacobian."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4, 6)), rng.normal(size=4)
    network = lbnn.Network((3,))
    expected = network.condition(X, 1e-10 * y, math.inf).log_evidence + 4 * 150 * math.log(10)
    return f"off by {abs(network.condition(1e-150 * X, 1e-160 * y, math.inf).log_evidence - expected):.1e}"


def masked() -> str:
    """A masked array with values behind its mask."""
    X = np.ma.array(np.eye(4), mask=np.eye(4) > 0)
    return f"taken as rank {lbnn.Spectrum.from_inputs(X, np.ones(4)).rank}"


def moments() -> str:
    """Correct moments of inputs whose XᵀX has a condition of about 1e14."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 4))
        X[:, 3] = X[:, 2] + 1e-7 * rng.normal(size=30)
        y = rng.normal(size=30) + 1e7 * (X[:, 3] - X[:, 2])
        lbnn.Spectrum.from_moments(X.T @ X, X.T @ y, y @ y, 30)
    return "50 of 50 taken"


LINES: dict[str, Callable[[], str]] = {
    "5 × 5, replicate 1e-6, β = 1": lambda: replicates(5, 5, 1e-6, 1.0),
    "20 × 20, replicate 1e-6, β = 1e4": lambda: replicates(20, 20, 1e-6, 1e4),
    "10 × 20, replicate 1e-7, β = 1e4": lambda: replicates(10, 20, 1e-7, 1e4),
    "depth three, 4 × 7, one of 1e-8": depth_three,
    "20 × 100,000, replicates 1e-6": very_wide,
    "diagonal over 14 decades": diagonal,
    "estimator with intercept": intercept,
    "tall arrays of other libraries": other_arrays,
    "second pass with other rows": other_rows,
    "iterator used twice": used_iterator,
    "chunks × 1e300": lambda: huge_chunks(1e300),
    "chunks × 1e-300": lambda: huge_chunks(1e-300),
    "NaN in a dask block": dask_block,
    "kernel, a point beside another": beside_another,
    "X ~ 1e-150, y ~ 1e-160": tiny,
    "masked values": masked,
    "correct moments, condition 1e14": moments,
}


def main() -> None:
    """Print every line; warnings and refusals are part of the answer."""
    for name, line in LINES.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = line()
            except Exception as refused:  # what a user would see
                found = f"{type(refused).__name__}: {refused}"
        kinds = sorted({each.category.__name__ for each in caught})
        print(f"{name:34} {found}", f"  [{', '.join(kinds)}]" if kinds else "", flush=True)


if __name__ == "__main__":
    main()
