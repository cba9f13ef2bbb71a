"""Bands against himalaya's random search: time, predictions, shares, coverage on the same candidates.

    python -m benchmarks.bands_himalaya --out bands-himalaya.json

himalaya searches the same kernel weights that lbnn integrates over, with 20 values of its ridge parameter
and five folds. Needs himalaya. Times are CPU seconds of the whole process, all threads.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

RATIOS = (0.03, 0.1, 0.3, 1.0, 3.0)
COLUMNS = (100, 200, 300, 400)


def problem(examples: int, targets: int, seed: int) -> dict[str, Any]:
    """Four bands, a third of their shares zero; five ratios of signal and noise."""
    rng = np.random.default_rng(seed)
    ratio = np.repeat(RATIOS, -(-targets // len(RATIOS)))[:targets]
    parts = rng.gamma(0.7, 1.0, (len(COLUMNS), targets)) * (rng.random((len(COLUMNS), targets)) < 0.67)
    parts[0] += parts.sum(axis=0) == 0
    scales = ratio * parts / parts.sum(axis=0)
    X = [rng.normal(size=(2 * examples, columns)) for columns in COLUMNS]
    signal = sum(
        np.sqrt(scale) * (each @ rng.normal(size=(each.shape[1], targets))) / np.sqrt(each.shape[1])
        for each, scale in zip(X, scales, strict=True)
    )
    noisy = signal + rng.normal(size=signal.shape)
    return {
        "train": [each[:examples] for each in X],
        "test": [each[examples:] for each in X],
        "Y": noisy[:examples],
        "truth": signal[examples:],
        "Y_test": noisy[examples:],
        "ratio": ratio,
        "shares": (scales / (1 + ratio)).T,
    }


def ours(data: dict[str, Any], directions: int, error: float, width: Any) -> dict[str, Any]:
    import lbnn

    edges = np.cumsum([0, *COLUMNS])
    bands = [(f"band {k}", slice(edges[k], edges[k + 1])) for k in range(len(COLUMNS))]
    X, X_test = np.hstack(data["train"]), np.hstack(data["test"])
    started, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        model = lbnn.BandedRegressor(bands, max_directions=directions, target_error=error, width=width).fit(
            X, data["Y"]
        )
    seconds, wall = time.process_time() - started, time.perf_counter() - wall
    interval = model.band_share_intervals(0.9)
    some = slice(0, 40)
    mean, deviation = model.predict(X_test[some], return_std=True)
    inside = np.abs(data["Y_test"][some] - mean) < 1.6449 * deviation
    return {
        "seconds": seconds,
        "wall": wall,
        "widths": list(model.widths_),
        "directions": model.fit_.directions,
        "weights": np.exp(np.concatenate([each.log_directions for each in model.fit_._posteriors])),
        "mean": model.predict(X_test),
        "shares": model.band_shares_,
        "ok": model.ok_,
        "inside": (interval[..., 0] <= data["shares"]) & (data["shares"] <= interval[..., 1]),
        "upper": interval[..., 1],
        "covered": inside.mean(axis=0),
    }


def himalaya(data: dict[str, Any], weights: Any) -> dict[str, Any]:
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    centred = [each - each.mean(axis=0) for each in data["train"]]
    sizes = [float((each**2).sum() / len(each)) for each in centred]
    alphas = np.logspace(-5, 5, 20)
    started, wall = time.process_time(), time.perf_counter()
    kernels = np.stack([each @ each.T / size for each, size in zip(centred, sizes, strict=True)])
    level = data["Y"].mean(axis=0)
    model = MultipleKernelRidgeCV(
        kernels="precomputed",
        solver="random_search",
        solver_params={"n_iter": weights, "alphas": alphas, "progress_bar": False},
        cv=5,
        random_state=0,
    ).fit(kernels, data["Y"] - level)
    seconds, wall = time.process_time() - started, time.perf_counter() - wall
    cross = np.stack(
        [
            (test - train.mean(axis=0)) @ each.T / size
            for test, train, each, size in zip(data["test"], data["train"], centred, sizes, strict=True)
        ]
    )
    scale = np.exp(np.asarray(model.deltas_)).T
    total = np.asarray(model.deltas_)
    log_alpha = -np.log(np.exp(total).sum(axis=0))
    edges = (np.isclose(log_alpha, np.log(alphas[0]), atol=0.3)) | (
        np.isclose(log_alpha, np.log(alphas[-1]), atol=0.3)
    )
    return {
        "seconds": seconds,
        "wall": wall,
        "mean": level + model.predict(cross),
        "shares": scale / (1 + scale.sum(axis=1, keepdims=True)),
        "at the edge of the grid": float(edges.mean()),
    }


def by_ratio(values: Any, ratio: Any) -> dict[str, float]:
    return {f"{each:g}": float(np.mean(values[ratio == each])) for each in RATIOS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--targets", type=int, default=1000)
    parser.add_argument("--directions", type=int, default=512)
    parser.add_argument("--target-error", type=float, default=0.1)
    parser.add_argument("--width", default="evidence")
    parser.add_argument("--alone", action="store_true", help="without himalaya")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    data = problem(given.examples, given.targets, 0)
    width = given.width if given.width == "evidence" else tuple(map(int, given.width.split(",")))
    mine = ours(data, given.directions, given.target_error, width)
    weights = mine.pop("weights")
    theirs = None if given.alone else himalaya(data, weights)
    ratio = data["ratio"]
    result: dict[str, Any] = {
        "p": given.examples,
        "targets": given.targets,
        "candidates": mine["directions"],
        "widths": mine["widths"],
        "CPU seconds": mine["seconds"],
        "wall seconds": mine["wall"],
        "ok": by_ratio(mine["ok"], ratio),
        "90% intervals of shares that hold the truth, bands that are not zero": {
            f"{each:g}": float(mine["inside"][ratio == each][data["shares"][ratio == each] > 0].mean())
            for each in RATIOS
        },
        "upper ends of 90% intervals, bands that are zero": {
            f"{each:g}": float(mine["upper"][ratio == each][data["shares"][ratio == each] == 0].mean())
            for each in RATIOS
        },
        "90% intervals of predictions that hold the value": by_ratio(mine["covered"], ratio),
    }
    if theirs is not None:
        result |= {
            "himalaya: CPU seconds": theirs["seconds"],
            "himalaya: wall seconds": theirs["wall"],
            "time over himalaya's": mine["seconds"] / theirs["seconds"],
            "himalaya at the edge of its grid": theirs["at the edge of the grid"],
        }
    for name, each in (("lbnn", mine), ("himalaya", theirs)):
        if each is None:
            continue
        lost = ((each["mean"] - data["truth"]) ** 2).mean(axis=0) / (data["truth"] ** 2).mean(axis=0)
        result[f"{name}: squared error of the function over its variance"] = by_ratio(lost, ratio)
        off = np.sqrt(((each["shares"] - data["shares"]) ** 2).mean(axis=1))
        result[f"{name}: error of shares"] = by_ratio(off, ratio)
    print(json.dumps(result, indent=1))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
