"""Marginal and joint coverage of the estimator over synthetic data sets, for each of six sizes.

    python -m benchmarks.coverage --sets 300 --workers 16 --out coverage.jsonl [--noise correlated]

Outputs are three factors of fifteen inputs and noise of unequal size, independent between outputs (which
the estimator can say) or correlated (which it cannot say of a signal of low rank as well). Each set has
forty further rows, on which 90% intervals (each output) and 90% ellipsoids (all outputs) are tried, of the
best model and of the mixture that `average="auto"` makes, from one fit. Both come from draws of it.

One line for every set goes into the file as soon as it is known, and sets that are there are not done again.
With `--seconds` no set is begun after that time.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

SIZES = ((20, 1), (20, 4), (50, 4), (30, 10), (30, 21), (50, 35))
INPUTS, FACTORS, TEST, DRAWS, LEVEL = 15, 3, 40, 1000, 0.9
MEASURES = ("marginal", "joint", "density")


def problem(rows: int, outputs: int, seed: int, noise: str = "correlated") -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of training and test rows together."""
    rng = np.random.default_rng([14, rows, outputs, seed])
    weights = rng.normal(size=(INPUTS, FACTORS)) @ rng.normal(size=(FACTORS, outputs))
    mixing = (rng.normal(size=(outputs, outputs)) / np.sqrt(outputs) + np.eye(outputs)) / 2
    if noise == "independent":
        mixing = np.eye(outputs) / np.sqrt(2)
    mixing = mixing * np.exp(0.5 * rng.normal(size=outputs))
    X = rng.normal(size=(rows + TEST, INPUTS))
    Y = X @ weights / np.sqrt(INPUTS * FACTORS) + rng.normal(size=(rows + TEST, outputs)) @ mixing
    return X, Y


def one(job: tuple[int, int, int, str]) -> dict[str, Any]:
    """Coverage and seconds of one data set."""
    import lbnn

    rows, outputs, seed, noise = job
    X, Y = problem(rows, outputs, seed, noise)
    targets = Y[:, 0] if outputs == 1 else Y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = lbnn.LBNNRegressor(average="auto").fit(X[:rows], targets[:rows])
        seconds = time.process_time() - start
        best = measured(model.models_[0].predictive(*model._state.transform.test(X[rows:], None)), Y[rows:])
        mixed = measured(model.predictive(X[rows:]), Y[rows:]) if len(model.models_) > 1 else best
    return {
        "size": f"{rows}x{outputs}",
        "seed": seed,
        "noise": noise,
        "best": best,
        "auto": mixed,
        "seconds": seconds,
        "total": time.process_time() - start,
        "models": len(model.models_),
        "widths": model.widths_,
        "ok": bool(model.posterior_.diagnostics.ok),
    }


def measured(predictive: Any, Y: np.ndarray) -> tuple[float, float, float]:
    """Coverage of each output, of all together, and log density for each output."""
    law = predictive.with_noise()
    draws = law.sample(DRAWS, 0).reshape(DRAWS, *Y.shape)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    covariance = law.output_covariance.reshape(len(Y), Y.shape[1], Y.shape[1])
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))
    own, drawn = (
        (np.einsum("mjk,...mk->...mj", whitening, each - draws.mean(axis=0)) ** 2).sum(axis=-1)
        for each in (Y, draws)
    )
    jointly = own <= np.quantile(drawn, LEVEL, axis=0)
    density = law.pointwise_log_density(Y.reshape(law.mean.shape)).mean() / Y.shape[1]
    return float(np.mean((low <= Y) & (high >= Y))), float(jointly.mean()), float(density)


def table(lines: list[dict[str, Any]]) -> None:
    """Means and standard errors over the sets of every size."""
    sizes = defaultdict(list)
    for line in lines:
        sizes[line["noise"], line["size"]].append(line)
    for (noise, size), own in sizes.items():
        mixed = f"{np.mean([line['models'] > 1 for line in own]):.0%}"
        ok = f"{np.mean([line['ok'] for line in own]):.0%}"
        seconds, total = (np.mean([line[name] for line in own]) for name in ("seconds", "total"))
        print(f"{noise} {size}: {len(own)} sets, mixed {mixed}, ok {ok}, {seconds:.1f} of {total:.1f} s")
        for kind in ("best", "auto"):
            values = np.array([line[kind] for line in own])
            errors = values.std(axis=0, ddof=1) / np.sqrt(len(own)) if len(own) > 1 else values[0] * np.nan
            told = zip(MEASURES, values.mean(axis=0), errors, strict=True)
            print(f"  {kind} " + ", ".join(f"{name} {mean:.3f} ± {error:.3f}" for name, mean, error in told))


def main() -> None:
    """Run what is not in the file yet, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--sizes", default=",".join(f"{p}x{n}" for p, n in SIZES))
    parser.add_argument("--noise", default="independent", help="independent, correlated, or both, by comma")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    began = time.monotonic()
    lines = (
        [json.loads(each) for each in options.out.read_text().splitlines()] if options.out.exists() else []
    )
    known = {(line["noise"], line["size"], line["seed"]) for line in lines}
    jobs = [
        (*map(int, size.split("x")), seed, noise)
        for seed in range(options.sets)
        for noise in options.noise.split(",")
        for size in reversed(options.sizes.split(","))
        if (noise, size, seed) not in known
    ]
    with ProcessPoolExecutor(options.workers) as pool, options.out.open("a", encoding="utf-8") as file:
        running: set[Future[dict[str, Any]]] = set()
        while jobs or running:
            while jobs and len(running) < options.workers and time.monotonic() - began < options.seconds:
                running.add(pool.submit(one, jobs.pop(0)))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for each in done:
                lines.append(each.result())
                file.write(json.dumps(lines[-1]) + "\n")
                file.flush()
    table(lines)


if __name__ == "__main__":
    main()
