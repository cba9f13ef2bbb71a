"""Bands on a GPU: p = 2000, 100,000 targets, three bands, from no signal to little noise."""

from __future__ import annotations

import time
import warnings
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.gpu.devices import device, normal

BANDS = 3


def data(place: Any, examples: int, targets: int) -> tuple[list[Any], Any, np.ndarray[Any, Any]]:
    """Blocks, targets of variance one, their ratios of signal and noise, 0.01 to 10; bands off in 30%."""
    rng = np.random.default_rng(0)
    blocks = [
        normal(place, band, examples, columns) for band, columns in enumerate((800, 1000, 1500)[:BANDS])
    ]
    scales = rng.gamma(1.0, 1.0, (BANDS, targets)) * (rng.random((BANDS, targets)) < 0.7)
    ratio = 10 ** rng.uniform(-2, 1, targets)
    scales *= ratio / np.maximum(scales.sum(axis=0), 1e-9)
    Y = normal(place, 99, examples, targets)
    for band, block in enumerate(blocks):
        columns = int(block.shape[1])
        signal = block @ normal(place, 10 + band, columns, targets) / columns**0.5
        Y = Y + signal * place.put(np.sqrt(scales[band]))[None, :]
    return blocks, Y / place.put(np.sqrt(1 + scales.sum(axis=0)))[None, :], ratio


def measure(
    library: str, examples: int, targets: int, directions: int, target_error: float
) -> dict[str, Any]:
    import lbnn

    place = device(library)
    bands = lbnn.Bands([lbnn.Network((5,))] * BANDS)
    warnings.simplefilter("ignore", lbnn.AccuracyWarning)
    small = data(place, 200, 300)
    bands.condition(small[0], small[1], target_error=0.2, max_directions=150)  # loads the libraries
    blocks, Y, ratio = data(place, examples, targets)
    started = time.perf_counter()
    fit = bands.condition(blocks, Y, target_error=target_error, max_directions=directions)
    seconds = time.perf_counter() - started
    relative = (fit.share_error / fit.share_deviation).max(axis=1)
    edges = [0.01, 0.1, 1.0, 10.0]
    result: dict[str, Any] = {
        "library": library,
        "p": examples,
        "targets": targets,
        "bands": BANDS,
        "directions": fit.directions,
        "seconds": seconds,
        "ok": float(fit.ok.mean()),
        "share error at most a tenth of its deviation": float((relative <= 0.1).mean()),
        "the same by ratio of signal and noise": {
            f"{low} to {high}": float((relative[(ratio >= low) & (ratio < high)] <= 0.1).mean())
            for low, high in pairwise(edges)
        },
        "relative error, quantiles 50% 90% 95% 99%": np.quantile(relative, [0.5, 0.9, 0.95, 0.99]).tolist(),
        "effective directions, quantiles 5% 50% 95%": np.quantile(
            fit.effective_directions, [0.05, 0.5, 0.95]
        ).tolist(),
    }
    if library == "torch":
        import torch

        if torch.cuda.is_available():
            result["peak GB"] = torch.cuda.max_memory_allocated() / 1e9
            result["device"] = torch.cuda.get_device_name()
    return result


def whole(library: str, small: bool) -> dict[str, Any]:
    """Three bands, the error of every band's share at most a tenth of its posterior deviation."""
    if small:
        return measure(library, 60, 50, 120, 0.1)
    return measure(library, 2000, 100_000, 1500, 0.1)
