"""The study: every set, every split, every method, one thread; and the command that renews the documents."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import threadpoolctl

import lbnn
from benchmarks.real_data import datasets, peers, tables
from benchmarks.real_data.metrics import Forecast, Mixture, measures
from benchmarks.real_data.tables import OURS
from benchmarks.timing import conditions

ROOT = Path(__file__).resolve().parent.parent.parent
SPLITS = 10


def network(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """LBNNRegressor, all defaults."""
    return forecast(lbnn.LBNNRegressor(), X, Y, X_test)


def nonlinear_network(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """LBNNRegressor with the sum of a linear and a squared-exponential kernel."""
    return forecast(lbnn.LBNNRegressor(kernel="linear+rbf"), X, Y, X_test)


def forecast(model, X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """What a fitted LBNNRegressor says of observations at X_test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)  # the scores tell
        model.fit(X, Y[:, 0] if Y.shape[1] == 1 else Y)
    return Mixture.of(model.predictive(X_test).with_noise())


def study(
    splits: int, names: Iterable[str] = (), only_ours: bool = False, raw: bool = False, workers: int = 1
) -> dict:
    """Measures of every method on every split: {set: {shape, test, methods: {name: {measure: [...]}}}}."""
    chosen, results = set(names), {}
    sets = [data for data in datasets.available() if not chosen or data.name in chosen]
    with ProcessPoolExecutor(workers) as pool:
        jobs = {
            data.name: [pool.submit(one_split, data, seed, only_ours, raw) for seed in range(splits)]
            for data in sets
        }
        for data in sets:
            rows = [job.result() for job in jobs[data.name]]
            columns = {
                name: {key: [row[name][key] for row in rows] for key in rows[0][name]} for name in rows[0]
            }
            results[data.name] = {"shape": data.shape, "test": data.test, "methods": columns}
            print(tables.one_set(data.name, results[data.name]), flush=True)
    return results


def one_split(data: datasets.DataSet, seed: int, only_ours: bool, raw: bool) -> dict[str, dict[str, float]]:
    """Measures of every method on one split."""
    own = {OURS: network, f"{OURS}, linear+rbf": nonlinear_network}
    methods = {**own, **({} if only_ours else peers.methods(data.shape[2]))}
    split = data.split(seed, raw)
    with threadpoolctl.threadpool_limits(1):
        return {name: timed(method, *split) for name, method in methods.items()}


def timed(method: peers.Method, X, Y, X_test, Y_test) -> dict[str, float]:
    """Measures, and the seconds of fit and prediction (mean and covariance; densities are not counted)."""
    started = time.perf_counter()
    result = method(X, Y, X_test)
    seconds = time.perf_counter() - started
    return {**measures(result, Y_test), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_data.study")
    parser.add_argument("names", nargs="*", help="which sets (all)")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--workers", type=int, default=1, help="splits at once, one thread each")
    parser.add_argument("--write", action="store_true", help="renew the documents")
    parser.add_argument(
        "--redraw", action="store_true", help="renew tables and figure from docs/real-data.json"
    )
    parser.add_argument("--raw", action="store_true", help="inputs as they are, as a newcomer gives them")
    parser.add_argument("--ours", action="store_true", help="renew our rows alone; the peers' are kept")
    options = parser.parse_args()
    stored = ROOT / "docs" / "real-data.json"
    document = json.loads(stored.read_text(encoding="utf-8")) if options.redraw or options.ours else {}
    if options.ours:
        _renew_ours(document, options.names)
    elif not options.redraw:
        started = conditions()
        sets = study(options.splits, options.names, raw=options.raw, workers=options.workers)
        document = {"conditions": [started, conditions()], "splits": options.splits, "sets": sets}
    if options.write or options.redraw or options.ours:
        stored.write_text(json.dumps(_rounded(document), indent=1) + "\n", encoding="utf-8")
        tables.insert(ROOT / "docs" / "real-data.md", document)
        tables.draw(ROOT / "docs" / "images" / "real-data.svg", document["sets"])
    else:
        print(tables.markdown(document["sets"]))


def _renew_ours(document: dict, names: Iterable[str]) -> None:
    """The same splits with the estimator as it is now; seconds are those of another run than the peers'."""
    for name, result in study(document["splits"], names, only_ours=True).items():
        document["sets"][name]["methods"].update(result["methods"])
    document["conditions"].append(f"rows of {OURS} renewed: {conditions()}")


def _rounded(value):
    """Five digits of every number."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, (list, tuple)) else value


if __name__ == "__main__":
    main()
