"""The study: every set, every split, every method, one thread; and the command that renews the documents."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import threadpoolctl

import lbnn
from benchmarks.real_data import datasets, peers, tables
from benchmarks.real_data.metrics import Forecast, Mixture, measures
from benchmarks.real_data.tables import OURS, WITH_RBF
from lbnn._base.checkout import provenance

ROOT = Path(__file__).resolve().parent.parent.parent
SPLITS = 10
#: Methods that see the units of columns, and are quick.
RAW = (OURS, "ridge", "PLS", "Bayesian ridge", "GP, linear", "conjugate")


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
    return Mixture.of(model.predictive(X_test).with_noise(), model.log_evidence_)


def study(
    splits: Callable[[str], int],
    names: Iterable[str] = (),
    only: Iterable[str] = (),
    raw: bool = False,
    workers: int = 1,
) -> Iterator[tuple[str, dict]]:
    """Measures of the methods on every split: (set, {shape, test, methods: {name: {measure: [...]}}}).

    `splits` says how many of them a set has.
    """
    chosen = set(names)
    sets = [data for data in datasets.available() if not chosen or data.name in chosen]
    with ProcessPoolExecutor(workers) as pool:
        jobs = [
            (data, [pool.submit(one_split, data, seed, set(only), raw) for seed in range(splits(data.name))])
            for data in sets
        ]
        for data, parts in jobs:
            rows = [part.result() for part in parts]
            columns = {
                name: {key: [row[name][key] for row in rows] for key in rows[0][name]} for name in rows[0]
            }
            result = {"shape": data.shape, "test": data.test, "methods": columns}
            print(tables.one_set(data.name, result), flush=True)
            yield data.name, result


def one_split(data: datasets.DataSet, seed: int, only: set[str], raw: bool) -> dict[str, dict[str, float]]:
    """Measures of the methods (`only` these, or all) on one split, one after the other in one process."""
    methods = {OURS: network, WITH_RBF: nonlinear_network, **peers.methods(data.shape[2], data.train)}
    split = data.split(seed, raw)
    with threadpoolctl.threadpool_limits(1):
        return {name: timed(method, *split) for name, method in methods.items() if not only or name in only}


def timed(method: peers.Method, X, Y, X_test, Y_test) -> dict[str, float]:
    """Measures, and the CPU seconds of fit and prediction (mean and covariance; densities are not counted).

    One thread runs, so that on an idle machine these are the seconds that pass.
    """
    started = time.process_time()
    result = method(X, Y, X_test)
    seconds = time.process_time() - started
    evidence = {"log evidence": float(result.log_evidence)} if isinstance(result, Mixture) else {}
    return {**measures(result, Y_test), **evidence, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_data.study")
    parser.add_argument("names", nargs="*", help="which sets (all)")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--workers", type=int, default=1, help="splits at once, one thread each")
    parser.add_argument("--write", action="store_true", help="renew the documents")
    parser.add_argument(
        "--redraw", action="store_true", help="renew tables and figure from docs/results/real-data.json"
    )
    parser.add_argument("--raw", action="store_true", help="inputs as they are, as a newcomer gives them")
    parser.add_argument(
        "--method",
        action="append",
        default=[],
        help="renew this method alone, on the splits that are stored; the others are kept (repeatable)",
    )
    options = parser.parse_args()
    stored = ROOT / "docs" / "results" / "real-data.json"
    document = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}
    if not options.redraw:
        _measure(document, stored if options.write else None, options)
    if options.write or options.redraw:
        tables.insert(ROOT / "docs" / "results" / "real-data.md", document)
        tables.draw(ROOT / "docs" / "images" / "real-data.svg", document["sets"])


def _measure(document: dict, stored: Path | None, options: argparse.Namespace) -> None:
    """Renew the stored sets (those named or all), with raw columns, or some methods; saved set by set."""
    part = document.setdefault("raw", {}) if options.raw else document
    only = options.method or (RAW if options.raw else ())
    if not (options.method or options.names):
        part |= {"provenance": [], "splits": options.splits, "sets": {}}

    def splits(name: str) -> int:
        """Those that are stored, where one method is to be compared with the others of a set."""
        known = part["sets"][name]["methods"] if options.method else {}
        return max((len(each["joint"]) for each in known.values()), default=options.splits)

    renewed = ", ".join(options.names)
    if options.method:
        renewed = f"{' and '.join(options.method)} on {renewed or 'all sets'}"
    methods = "".join(f"--method {name!r} " for name in options.method)
    command = f"python -m benchmarks.real_data.study {'--raw ' * options.raw}{methods}--write"
    part["provenance"].append(provenance(command, renewed))
    for name, result in study(splits, options.names, only, options.raw, options.workers):
        methods = part["sets"].get(name, {"methods": {}})["methods"] | result["methods"]
        part["sets"][name] = result | {"methods": methods}
        if stored:
            stored.write_text(json.dumps(_rounded(document), indent=1) + "\n", encoding="utf-8")
    if stored:
        stored.write_text(json.dumps(_rounded(document), indent=1) + "\n", encoding="utf-8")


def _rounded(value):
    """Five digits of every number."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, (list, tuple)) else value


if __name__ == "__main__":
    main()
