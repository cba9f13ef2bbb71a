"""LBNNRegressor with its defaults beside what practitioners use, on repeated random splits of real sets.

    python -m benchmarks.real_data.study [names] [--further] [--splits 5] [--methods lbnn ridge] [--out FILE]

With `--further` the sets on which no rule of the estimator was made. One thread; seconds are CPU seconds of
fit and prediction. Splits that the file has are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import threadpoolctl

import lbnn
from benchmarks.real_data import datasets, further, peers
from benchmarks.real_data.metrics import MEASURES, Forecast, Mixture, mean_and_error, measures
from lbnn._base.checkout import provenance


def forecast(model, X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """What a fitted LBNNRegressor says of observations at X_test."""
    model.fit(X, Y[:, 0] if Y.shape[1] == 1 else Y)
    return Mixture.of(model.predictive(X_test).with_noise())


def methods(data: datasets.DataSet) -> dict[str, peers.Method]:
    """Ours and the peers that can be run on a set."""
    own = {
        "lbnn": lambda *split: forecast(lbnn.LBNNRegressor(), *split),
        "lbnn, linear+rbf": lambda *split: forecast(lbnn.LBNNRegressor(kernel="linear+rbf"), *split),
    }
    return own | peers.methods(data.shape[2])


def measured(method: peers.Method, split: tuple[np.ndarray, ...]) -> dict[str, float]:
    """Measures of a method on one split, and CPU seconds."""
    started = time.process_time()
    with threadpoolctl.threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scores tell
        found = method(*split[:3])
        seconds = time.process_time() - started
        return measures(found, split[3]) | {"seconds": seconds}


def table(data: datasets.DataSet, rows: list[dict[str, dict[str, float]]]) -> str:
    """Means over splits with the errors of paired differences from the first method."""
    lines = [f"{data.name} {data.shape}, {data.test} test points, {len(rows)} splits"]
    names = list(rows[0])
    for name in names:
        cells = [f"{np.mean([row[name][key] for row in rows]):10.3f}" for key in (*MEASURES, "seconds")]
        gaps = np.array([row[name]["joint"] - row[names[0]]["joint"] for row in rows])
        mean, error = mean_and_error(gaps, data.shape[0], data.test) if len(rows) > 1 else (gaps[0], np.nan)
        lines.append(f"  {name:24}{''.join(cells)}   joint less that of {names[0]} {mean:+.3f} ± {error:.3f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="which sets (all)")
    parser.add_argument("--further", action="store_true")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--methods", nargs="*", help="which methods (all)")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    known = json.loads(options.out.read_text()) if options.out and options.out.exists() else {"sets": {}}
    command = (
        f"python -m benchmarks.real_data.study {'--further ' * options.further}--splits {options.splits}"
    )
    known["provenance"] = [*known.get("provenance", []), provenance(command)]
    for data in further.available() if options.further else datasets.available():
        if options.names and data.name not in options.names:
            continue
        rows = known["sets"].setdefault(data.name, [])
        chosen = {n: f for n, f in methods(data).items() if not options.methods or n in options.methods}
        for seed in range(len(rows), options.splits):
            split = data.split(seed)
            rows.append({name: measured(method, split) for name, method in chosen.items()})
            if options.out:
                options.out.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        print(table(data, rows), flush=True)


if __name__ == "__main__":
    main()
