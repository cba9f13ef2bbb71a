"""What stops a practitioner, one case for each item of which a number can be measured.

    python -m benchmarks.practice_items [--splits 3] --out docs/results/practice.json

Each case gives numbers for several seeds; the file has their medians and their worst values.
"""

from __future__ import annotations

import argparse
import io
import json
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lbnn
from lbnn._base.checkout import provenance

#: J. W. Longley, JASA 62 (1967): employment, then deflator, GNP, unemployed, armed forces, population, year.
LONGLEY = np.loadtxt(
    io.StringIO(
        """
    60323 83.0 234289 2356 1590 107608 1947
    61122 88.5 259426 2325 1456 108632 1948
    60171 88.2 258054 3682 1616 109773 1949
    61187 89.5 284599 3351 1650 110929 1950
    63221 96.2 328975 2099 3099 112075 1951
    63639 98.1 346999 1932 3594 113270 1952
    64989 99.0 365385 1870 3547 115094 1953
    63761 100.0 363112 3578 3350 116219 1954
    66019 101.2 397469 2904 3048 117388 1955
    67857 104.6 419180 2822 2857 118734 1956
    68169 108.4 442769 2936 2798 120445 1957
    66513 110.8 444546 4681 2637 121950 1958
    68655 112.6 482704 3813 2552 123366 1959
    69564 114.2 502601 3931 2514 125368 1960
    69331 115.7 518173 4806 2572 127852 1961
    70551 116.9 554894 4007 2827 130081 1962
    """
    )
)


def error(model: Any, X: np.ndarray, truth: np.ndarray) -> float:
    """Of the mean function at X, in standard deviations of the true one."""
    return float(np.sqrt(np.mean((model.predict(X) - truth) ** 2)) / truth.std())


def seconds(call: Callable[[], Any]) -> float:
    """CPU seconds of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def sparse(seed: int) -> dict[str, float]:
    """1. Five of 100 columns matter, 80 rows: ard=True against the default."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(580, 100)), np.zeros(100)
    weights[:5] = rng.normal(size=5)
    f = X @ weights
    y = f + 0.5 * f.std() * rng.normal(size=580)
    models = {"error": lbnn.LBNNRegressor(), "error with ard": lbnn.LBNNRegressor(ard=True)}
    return {name: error(each.fit(X[:80], y[:80]), X[80:], f[80:]) for name, each in models.items()}


def edge(seed: int) -> dict[str, float]:
    """2. Longley's data, 11 rows train, kernel="linear+rbf": density of the five others."""
    order = np.random.default_rng(seed).permutation(16)
    train, test = LONGLEY[order[:11]], LONGLEY[order[11:]]
    model = lbnn.LBNNRegressor(kernel="linear+rbf").fit(train[:, 1:], train[:, 0])
    law = model.predictive(test[:, 1:]).with_noise()
    z = (test[:, 0] - law.mean) / law.standard_deviation
    density = -law.pointwise_log_density(test[:, 0]).mean() - np.log(train[:, 0].std())
    return {"NLPD": float(density), "largest |z|": float(np.abs(z).max())}


def outlier(seed: int) -> dict[str, float]:
    """4. One of 60 rows is off by 20 deviations of the noise: error, named or not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(560, 8))
    f = X @ rng.normal(size=8) / 2
    y = f + rng.normal(size=560)
    y[7] += 20.0
    model = lbnn.LBNNRegressor().fit(X[:60], y[:60])
    named = any("row 7" in message for message in model.messages_)
    return {"error": error(model, X[60:], f[60:]), "row named": float(named)}


def units(seed: int) -> dict[str, float]:
    """5. New rows in units a thousand times smaller: warned of, and leverage."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 6)) + 3
    model = lbnn.LBNNRegressor().fit(X, X @ rng.normal(size=6) + rng.normal(size=60))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.predict(1000 * X[:5])
    told = any(issubclass(each.category, lbnn.ExtrapolationWarning) for each in caught)
    leverage = np.asarray(model.predictive(1000 * X[:5]).leverage)
    return {"warned": float(told), "least leverage": float(leverage.min())}


def deviations(seed: int) -> dict[str, float]:
    """6. 1000 rows, 10,000 columns: CPU seconds of the fit, of 100 means and of 100 deviations."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(1100, 10))
    X = factors @ rng.normal(size=(10, 10_000)) + rng.normal(size=(1100, 10_000))
    y = factors[:, 0] + rng.normal(size=1100)
    model = lbnn.LBNNRegressor()
    return {
        "fit": seconds(lambda: model.fit(X[:1000], y[:1000])),
        "means": seconds(lambda: model.predict(X[1000:])),
        "deviations": seconds(lambda: model.predict(X[1000:], return_std=True)),
    }


def many(rows: int, columns: int, outputs: int, seed: int) -> dict[str, float]:
    """A fit of outputs of five factors, in CPU seconds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    mixed = X @ rng.normal(size=(columns, 5)) @ rng.normal(size=(5, outputs)) / np.sqrt(5 * columns)
    Y, model = mixed + rng.normal(size=mixed.shape), lbnn.LBNNRegressor()
    found = seconds(lambda: model.fit(X, Y))
    return {"CPU seconds": found, "ok": float(model.posterior_.diagnostics.ok)}


def fifty(seed: int) -> dict[str, float]:
    """7. 50 outputs, 300 rows, 2000 columns."""
    return many(300, 2000, 50, seed)


def hundred(seed: int) -> dict[str, float]:
    """7. 100 outputs, 200 rows, 5000 columns."""
    return many(200, 5000, 100, seed)


def two_hundred(seed: int) -> dict[str, float]:
    """7. 200 outputs, 300 rows, 1000 columns."""
    return many(300, 1000, 200, seed)


def memory(seed: int) -> dict[str, float]:
    """8. 2000 rows, 20,000 columns, all in units of their own: copies of X above X in a fit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 20_000))
    X *= np.exp(rng.normal(size=20_000))
    y = X[:, :50] @ rng.normal(size=50) + rng.normal(size=2000)
    tracemalloc.start()
    lbnn.LBNNRegressor(depth=1).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"copies of X": peak / X.nbytes}


#: Each case with the number of seeds that it is tried with, at most.
CASES: dict[Callable[[int], dict[str, float]], int] = {
    sparse: 10, edge: 10, outlier: 10, units: 3, deviations: 1, fifty: 2, hundred: 2, two_hundred: 2,
    memory: 1,
}  # fmt: skip


def main() -> None:
    """Run the cases; the file is written after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", default="", help="names of cases, by comma")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    found: dict[str, Any] = {"provenance": [provenance("python -m benchmarks.practice_items")]}
    if options.out.exists() and wanted:
        found = json.loads(options.out.read_text(encoding="utf-8"))
    for case, most in CASES.items():
        if wanted and case.__name__ not in wanted:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = [case(seed) for seed in range(min(options.splits, most))]
        found[case.__name__] = {"what": case.__doc__, "seeds": len(rows)} | {
            name: {
                "median": float(np.median([row[name] for row in rows])),
                "least": float(min(row[name] for row in rows)),
                "most": float(max(row[name] for row in rows)),
            }
            for name in rows[0]
        }
        print(case.__name__, json.dumps(found[case.__name__]), flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
