"""Missing targets in real tables: the fit of the observed cells against dropping rows and filling with means.

A share of the training cells is removed at random. Scores are on test rows with all targets, in units of the
training targets: negative joint log density for each target, and mean squared error. The three ways have the
same split and the same missing cells, so that differences are paired.
`python benchmarks/views_real.py --sets linnerud soils pulp_fibre --splits 2 --out FILE`

Results are stored after every comparison; those that the file has are not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import lbnn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.real_data import datasets, further
from lbnn._base.checkout import provenance

SHARES = (0.1, 0.3, 0.5)
COMMAND = "OPENBLAS_NUM_THREADS=1 python benchmarks/views_real.py --sets SET --splits N --out FILE"


def scored(model, X, Y, X_test, Y_test):
    """Negative joint log density for each target, mean squared error, and CPU seconds; None without a fit."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        law = model.fit(X, Y).predictive(X_test).with_noise()
    fitted = time.process_time()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        densities = -np.asarray(law.pointwise_log_density(Y_test)) / Y.shape[1]
    return {
        "density": float(densities.mean()),
        "median_density": float(np.median(densities)),
        "worst_density": float(densities.max()),
        "error": float(np.mean((law.mean - Y_test) ** 2)),
        "seconds": fitted - began,
        "density_seconds": time.process_time() - fitted,
        "density_messages": [str(each.message) for each in told],
    }


def comparison(data, share, number, noise):
    """Scores of the three ways on one split, with one share of cells removed."""
    X, Y, X_test, Y_test = data.split(number)
    rng = np.random.default_rng([29, number, round(100 * share)])
    observed = rng.random(Y.shape) >= share
    observed[~observed.any(axis=1), 0] = True
    missing = np.where(observed, Y, np.nan)
    complete = observed.all(axis=1)
    means = np.where(observed, Y, np.nanmean(missing, axis=0))
    result = {
        "set": data.name,
        "share": share,
        "split": number,
        "noise": noise,
        "complete_rows": int(complete.sum()),
    }
    aware = lbnn.LBNNRegressor(missing_targets="allow", noise=noise)
    result["aware"] = scored(aware, X, missing, X_test, Y_test)
    result["messages"] = list(aware.messages_)
    if complete.sum() >= 5:
        result["rows"] = scored(lbnn.LBNNRegressor(noise=noise), X[complete], Y[complete], X_test, Y_test)
    result["filled"] = scored(lbnn.LBNNRegressor(noise=noise), X, means, X_test, Y_test)
    return result


def summary(rows):
    """For each set and share: mean scores of the ways, and what the fit of the observed cells gains.

    Gains are paired over splits, with the standard error of their mean; splits with fewer than five complete
    rows have no fit of these.
    """
    result = []
    for name, share in dict.fromkeys((row["set"], row["share"]) for row in rows):
        own = [row for row in rows if (row["set"], row["share"]) == (name, share)]
        entry = {"set": name, "share": share, "splits": len(own)}
        entry["aware"] = _mean_scores([row["aware"] for row in own])
        for way in ("rows", "filled"):
            pairs = [(row["aware"], row[way]) for row in own if way in row]
            if pairs:
                entry[way] = _mean_scores([other for _, other in pairs]) | {"splits": len(pairs)}
                entry[way] |= {f"{score}_gain": _gain(pairs, score) for score in ("density", "error")}
        result.append(entry)
    return result


def _mean_scores(scores):
    names = ("density", "median_density", "error", "seconds", "density_seconds")
    known = [name for name in names if all(name in each for each in scores)]  # older files have fewer
    return {name: float(np.mean([each[name] for each in scores])) for name in known}


def _gain(pairs, score):
    """Mean of the other's score less that of the observed cells, and its standard error."""
    gains = np.array([other[score] - aware[score] for aware, other in pairs])
    return [float(gains.mean()), float(gains.std(ddof=1) / len(gains) ** 0.5) if len(gains) > 1 else None]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", nargs="+", default=["linnerud", "soils", "pulp_fibre"])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES)
    parser.add_argument("--noise", default="auto")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of CPU, after which none begins")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    rows = []
    if options.out is not None and options.out.exists():
        rows = json.loads(options.out.read_text())["splits"]
    known = {(row["set"], row["share"], row["split"], row["noise"]) for row in rows}
    for number in range(options.first, options.splits):  # a run that is cut has all sets and shares
        for name in options.sets:
            data = (getattr(datasets, name, None) or getattr(further, name))()
            for share in options.shares:
                if (data.name, share, number, options.noise) in known:
                    continue
                if time.process_time() > options.seconds:
                    return
                rows.append(comparison(data, share, number, options.noise))
                print(json.dumps(rows[-1]), flush=True)
                if options.out is not None:
                    stored = {"provenance": [provenance(COMMAND)], "summary": summary(rows), "splits": rows}
                    options.out.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
