"""Missing targets in real tables: the fit of the observed cells against dropping rows and filling with means.

    python -m benchmarks.views_real --sets linnerud soils pulp_fibre --splits 4

A share of the training cells is removed at random. Scores are on test rows with all targets, in units of the
training targets: negative joint log density for each target, and mean squared error. The three ways have the
same split and the same missing cells, so that gains over them are paired.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import lbnn
from benchmarks.real_data import datasets, further

SHARES = (0.1, 0.3, 0.5)
LEAST = 5  # complete rows that are fitted


def scored(model, X, Y, X_test, Y_test) -> tuple[float, float]:
    """Negative joint log density for each target, and mean squared error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        law = model.fit(X, Y).predictive(X_test).with_noise()
        density = -np.mean(law.pointwise_log_density(Y_test)) / Y.shape[1]
    return float(density), float(np.mean((law.mean - Y_test) ** 2))


def comparison(data, share, number) -> dict[str, tuple[float, float]]:
    """Scores of the three ways on one split, with one share of cells removed."""
    X, Y, X_test, Y_test = data.split(number)
    observed = np.random.default_rng([29, number, round(100 * share)]).random(Y.shape) >= share
    observed[~observed.any(axis=1), 0] = True
    missing, complete = np.where(observed, Y, np.nan), observed.all(axis=1)
    filled = np.where(observed, Y, np.nanmean(missing, axis=0))
    aware = lbnn.LBNNRegressor(missing_targets="allow")
    found = {"observed": scored(aware, X, missing, X_test, Y_test)}
    if complete.sum() >= LEAST:
        found["rows"] = scored(lbnn.LBNNRegressor(), X[complete], Y[complete], X_test, Y_test)
    return found | {"filled": scored(lbnn.LBNNRegressor(), X, filled, X_test, Y_test)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=["linnerud", "soils", "pulp_fibre"])
    parser.add_argument("--splits", type=int, default=4)
    options = parser.parse_args()
    for name in options.sets:
        data = (getattr(datasets, name, None) or getattr(further, name))()
        for share in SHARES:
            rows = [comparison(data, share, number) for number in range(options.splits)]
            density, error = np.mean([row["observed"] for row in rows], axis=0)
            print(f"{name}, {share:.0%} missing: density {density:.3f}, squared error {error:.3f}")
            for way in ("rows", "filled"):
                gains = [row[way][0] - row["observed"][0] for row in rows if way in row]
                if len(gains) > 1:
                    gain, spread = np.mean(gains), np.std(gains, ddof=1) / len(gains) ** 0.5
                    print(f"  gain over {way}: {gain:+.3f} ± {spread:.3f}, {len(gains)} splits", flush=True)


if __name__ == "__main__":
    main()
