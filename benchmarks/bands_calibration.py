"""Calibration of bands: targets drawn from the prior, ranks of scales, shares and noise in their posteriors.

    python -m benchmarks.bands_calibration --bands 3 --out bands-calibration.json

The noise has its half-Cauchy prior with a given scale, so that the data come from the model exactly. Ranks
are posterior probabilities of smaller values: of the share and the scale of every band and of the noise
variance. They should be uniform; p-values are those of Kolmogorov and Smirnov's test.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

WIDTHS = ((5,), (3, 4), (2,), (10,), (3,), (1,))


def campaign(
    bands: int, targets: int, examples: int, directions: int, error: float, seed: int
) -> dict[str, Any]:
    import lbnn

    rng = np.random.default_rng(seed)
    networks = [lbnn.Network(widths) for widths in WIDTHS[:bands]]
    columns = rng.integers(examples // 4, examples, bands)
    blocks = [rng.normal(size=(examples, each)) for each in columns]
    sizes = np.array([(block**2).sum() / block.shape[1] / examples for block in blocks])
    scales = np.stack([network.scale_prior(1).sample(targets, rng)[:, 0, 0] for network in networks], axis=1)
    noise = np.abs(rng.standard_cauchy(targets)) ** 2
    Y = np.sqrt(noise) * rng.normal(size=(examples, targets))
    for block, scale in zip(blocks, scales.T, strict=True):
        Y += np.sqrt(scale / block.shape[1]) * (block @ rng.normal(size=(block.shape[1], targets)))
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        fit = lbnn.Bands(networks).condition(
            blocks, Y, noise_scale=1.0, target_error=error, max_directions=directions, seed=seed
        )
    seconds = time.process_time() - started
    shares = scales * sizes / (noise[:, None] + scales @ sizes[:, None])
    levels = np.linspace(0.005, 0.995, 199)
    quantiles = fit.share_quantile(levels)
    ranks = np.array(
        [
            [np.interp(shares[v, k], quantiles[v, k], levels, left=0.0, right=1.0) for k in range(bands)]
            for v in range(targets)
        ]
    )
    p_values = [float(stats.kstest(each, "uniform").pvalue) for each in ranks.T]
    interval = fit.share_interval(0.9)
    inside = (interval[..., 0] <= shares) & (shares <= interval[..., 1])
    off = (shares - fit.share_mean) / fit.share_deviation
    return {
        "bands": bands,
        "targets": targets,
        "examples": examples,
        "directions": fit.directions,
        "CPU seconds": seconds,
        "ok": float(fit.ok.mean()),
        "p-values of uniform ranks": p_values,
        "smallest p-value times the number of tests": min(p_values) * bands,
        "90% intervals that hold the share": float(inside.mean()),
        "the same for each band": inside.mean(axis=0).tolist(),
        "standardised differences of shares, mean in standard errors": (
            off.mean(axis=0) / (off.std(axis=0) / np.sqrt(targets))
        ).tolist(),
        "standardised differences of shares, deviation": off.std(axis=0).tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bands", type=int, nargs="+", default=[3, 4, 5, 6])
    parser.add_argument("--targets", type=int, default=500)
    parser.add_argument("--examples", type=int, default=30)
    parser.add_argument("--directions", type=int, default=1500)
    parser.add_argument("--target-error", type=float, default=0.1)
    parser.add_argument("--seed", type=int, help="of data and directions; the number of bands without")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = []
    for bands in given.bands:
        seed = bands if given.seed is None else given.seed
        found.append(
            campaign(bands, given.targets, given.examples, given.directions, given.target_error, seed)
        )
        print(json.dumps(found[-1], indent=1), flush=True)
        if given.out:
            given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
