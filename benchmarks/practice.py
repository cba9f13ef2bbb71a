"""Data that practitioners bring, with the defaults: run it with two versions in turn.

    python -m benchmarks.practice --splits 5 --out after.json [--only units,copies]
    python -m benchmarks.practice --compare before.json after.json

Every case gives numbers for each split; the table has means and standard errors. Only calls that both trees
know are made, so that the same file serves both (copy it into the tree before).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1

import lbnn


def scores(model, X, Y, X_test, Y_test) -> dict[str, float]:
    """Error in deviations of the targets, log density per output, coverage of 90% intervals, CPU seconds."""
    start = time.process_time()  # other processes may share the machine
    model.fit(X, Y)
    seconds = time.process_time() - start
    law = model.predictive(X_test).with_noise()
    low, high = law.interval(0.9)
    error = np.sqrt(np.mean((law.mean - Y_test) ** 2) / np.mean((Y_test - Y_test.mean(axis=0)) ** 2))
    density = law.pointwise_log_density(Y_test).mean() / law.shape[1]
    inside = np.mean((low < Y_test) & (Y_test < high))
    return {
        "error": float(error),
        "log density": float(density),
        "inside": float(inside),
        "CPU seconds": seconds,
    }


def units(seed: int, **parameters) -> dict[str, float]:
    """Diabetes with columns in their own units: 150 rows train."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:150], order[150:350]
    return scores(lbnn.LBNNRegressor(**parameters), X[train], y[train], X[test], y[test])


def units_rbf(seed: int) -> dict[str, float]:
    """The same with kernel="rbf"."""
    return units(seed, kernel="rbf")


def friedman_rbf(seed: int) -> dict[str, float]:
    """Friedman's function, columns in units from 1e-3 to 1e3, kernel="rbf"."""
    X, y = make_friedman1(350, noise=1.0, random_state=seed)
    X = X * 10.0 ** np.linspace(-3, 3, 10)
    return scores(lbnn.LBNNRegressor(kernel="rbf"), X[:150], y[:150], X[150:], y[150:])


def copies(seed: int) -> dict[str, float]:
    """Sixty rows of 150 collinear columns, four of them copied."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(260, 10)) @ rng.normal(size=(10, 150)) + 0.1 * rng.normal(size=(260, 150))
    y = X[:, :10].sum(axis=1) + 3.0 * rng.normal(size=260)
    rows = np.append(np.arange(60), rng.choice(60, 4, replace=False))
    model = lbnn.LBNNRegressor()
    found = scores(model, X[rows], y[rows], X[60:], y[60:])
    return found | {"noise deviation, true 3": float(np.sqrt(model.noise_variance_))}


def composition(seed: int) -> dict[str, float]:
    """Four shares that add up to 100."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(160, 8))
    parts = np.exp(X @ rng.normal(size=(8, 4)) / 4 + 0.3 * rng.normal(size=(160, 4)))
    Y = 100 * parts / parts.sum(axis=1, keepdims=True)
    model = lbnn.LBNNRegressor().fit(X[:60], Y[:60])
    law = model.predictive(X[60:]).with_noise()
    low, high = law.interval(0.9)
    total = np.sqrt(np.maximum(law.output_covariance.sum(axis=(1, 2)), 0)).mean()
    inside = float(np.mean((low < Y[60:]) & (Y[60:] < high)))
    return {"deviation of the total": float(total), "inside": inside}


def outliers(seed: int) -> dict[str, float]:
    """Nats by which densities at 10 and 30 deviations miss log p(Y, y) − log p(Y), from other fits."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(41, 10)), rng.normal(size=(41, 3))
    given = {"depth": 2, "width": 5, "beta": 1.0, "prior_scale": 1.0, "noise": "coupled", "average": False}
    given |= {"fit_intercept": False, "target_error": 0.03}
    if "column_scales" in lbnn.LBNNRegressor().get_params():
        given["column_scales"] = "raw"
    model, found = lbnn.LBNNRegressor(**given).fit(X[:40], Y[:40]), {}
    law = model.predictive(X[40:]).with_noise()
    for far in (10, 30):
        y = law.mean + far * np.sqrt(np.diagonal(law.output_covariance, axis1=1, axis2=2))
        truth = lbnn.LBNNRegressor(**given).fit(X, np.vstack([Y[:40], y])).log_evidence_ - model.log_evidence_
        found[f"missed at {far}"] = float(abs(law.pointwise_log_density(y)[0] - truth))
    return found


def many_outputs(seed: int) -> dict[str, float]:
    """35 outputs of three factors, 120 rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(170, 20))
    Y = X @ rng.normal(size=(20, 3)) @ rng.normal(size=(3, 35)) / 8 + rng.normal(size=(170, 35))
    return scores(lbnn.LBNNRegressor(), X[:120], Y[:120], X[120:], Y[120:])


CASES: tuple[Callable[[int], dict[str, float]], ...] = (
    units, units_rbf, friedman_rbf, copies, composition, outliers, many_outputs,
)  # fmt: skip


def spread(values: list[float]) -> str:
    """Mean and standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):.3g} ± {error:.1g}"


def comparison(before: dict, after: dict) -> str:
    """Both runs as a table; a case that was not run has a dash."""
    lines = ["| case | | before | after |", "|---|---|---|---|"]
    for case in CASES:
        rows = [run.get(case.__name__, []) for run in (before, after)]
        title = (case.__doc__ or "").rstrip(".")
        for name in dict.fromkeys(key for run in rows for row in run for key in row):
            cells = [spread([row[name] for row in run]) if run else "–" for run in rows]
            lines.append(f"| {title} | {name} | {cells[0]} | {cells[1]} |".replace("-", "\N{MINUS SIGN}"))
            title = ""
    return "\n".join(lines)


def main() -> None:
    """Run the cases and print means with standard errors."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", default="")
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--out", type=Path, help="where the numbers go")
    task.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"), help="print a table")
    options = parser.parse_args()
    if options.compare:
        print(comparison(*(json.loads(file.read_text(encoding="utf-8")) for file in options.compare)))
        return
    wanted, found = set(filter(None, options.only.split(","))), {}
    for case in CASES:
        if wanted and case.__name__ not in wanted:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lbnn.AccuracyWarning)
            found[case.__name__] = rows = [case(seed) for seed in range(options.splits)]
        options.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
        for name in rows[0]:
            print(f"{case.__name__:20} {name:26} {spread([row[name] for row in rows])}", flush=True)


if __name__ == "__main__":
    main()
