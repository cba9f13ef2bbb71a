"""Calibration of networks with views and of tables with missing cells: ranks on data drawn from the prior.

The true weights are one more draw of the posterior, so ranks of true quantities among posterior draws are
uniform. Ranked are the function at a test point, log tr L, and the share of the first channel in the trace.
`python -m benchmarks.views_ranks --sets 200 --out docs/results/views-ranks.json`; results are stored after
every twenty sets, and those that the file has are not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import stats

import lbnn
from lbnn._base.checkout import provenance

KINDS = ("gated-2", "gated-3", "conv", "tasks", "paths", "cells", "cells, coupled noise")
QUANTITIES = ("function at a test point", "log tr L", "share of the first channel")
WIDTHS, BETA, DRAWS = (4, 3), 2.0, 99


def design(kind, rng):
    """Views (p + 1, M, n0), the last of a test point; for tables also the inputs and the mask."""
    count = int(rng.integers(8, 16))
    if kind.startswith("gated"):
        channels = int(kind[-1])
        x = rng.normal(size=(count + 1, 3))
        scores = x @ rng.normal(size=(3, channels))
        return lbnn.views.gates(x, (scores == scores.max(axis=1, keepdims=True)).astype(float)), None
    if kind == "conv":
        return lbnn.views.patches(rng.normal(size=(count + 1, 6)), size=2, stride=2), None
    if kind == "paths":
        attention = rng.dirichlet(np.ones(4), size=(count + 1, 2))
        return lbnn.views.paths(rng.normal(size=(count + 1, 4, 3)), attention), None
    if kind == "tasks":
        return lbnn.views.tasks(rng.normal(size=(count + 1, 3)), rng.integers(0, 2, count + 1), 2), None
    outputs = int(rng.integers(2, 4))
    x, observed = rng.normal(size=(count + 1, 3)), rng.random((count, outputs)) < 0.7
    observed[np.arange(count), np.arange(count) % outputs] = True  # every row and every output has some
    a, j = np.nonzero(observed)
    views = lbnn.views.tasks(np.concatenate([x[a], x[-1:]]), np.append(j, 0), outputs)
    return views, (x[:-1], observed)


def ranks_of(kind, number):
    """Ranks (3,) of true quantities among draws, and whether the answer is ok, for one data set."""
    rng = np.random.default_rng([29, KINDS.index(kind), number])
    views, table = design(kind, rng)
    coupled = "coupled" in kind
    scale_root = np.eye(views.shape[1])
    for width in reversed(WIDTHS):
        scale_root = scale_root @ rng.normal(size=(scale_root.shape[1], width)) / math.sqrt(width)
    inputs = views.shape[2]
    product = scale_root @ rng.normal(size=(scale_root.shape[1], inputs)) / math.sqrt(inputs)
    values = np.einsum("ami,mi->a", views, product)
    noise = rng.normal(size=len(views) - 1) / math.sqrt(BETA)
    if coupled:  # noise of a row has the covariance L/β
        assert table is not None
        rows = rng.normal(size=(len(table[0]), scale_root.shape[1])) @ scale_root.T / math.sqrt(BETA)
        noise = rows[table[1]]
    y = values[:-1] + noise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = lbnn.Network(WIDTHS)
        if table is None:
            post = network.condition_views(views[:-1], y, BETA, target_error=0.1)
            functions = post.predict(views=views[-1:]).sample(DRAWS, rng)[:, 0]
        else:
            x, observed = table
            targets = np.full(observed.shape, np.nan)
            targets[observed] = y
            more = {"noise": "coupled"} if coupled else {}
            post = network.condition(x, targets, BETA, observed=observed, target_error=0.1, **more)
            functions = post.predict(views[-1:, 0]).sample(DRAWS, rng)[:, 0, 0]
    scales = post.scale.sample(DRAWS, rng)
    scale = scale_root @ scale_root.T
    drawn = (functions, np.trace(scales, axis1=1, axis2=2), scales[:, 0, 0])
    drawn = (drawn[0], drawn[1], drawn[2] / drawn[1])
    true = (values[-1], np.trace(scale), scale[0, 0] / np.trace(scale))
    return [int((own < value).sum()) for own, value in zip(drawn, true, strict=True)], post.diagnostics.ok


def uniform(ranks):
    """Counts in ten bins, and the p-values of the chi-square and the Kolmogorov-Smirnov test."""
    bins = np.histogram(ranks, bins=10, range=(0, DRAWS + 1))[0]
    expected = len(ranks) / 10
    chi = float(((bins - expected) ** 2 / expected).sum())
    spread = (np.asarray(ranks) + np.random.default_rng(0).random(len(ranks))) / (DRAWS + 1)
    return {
        "bins": bins.tolist(),
        "p_chi_square": float(stats.chi2.sf(chi, 9)),
        "p_kolmogorov": float(stats.kstest(spread, "uniform").pvalue),
    }


def summary(found):
    """Of the ranks, verdicts and seconds of one kind."""
    columns = np.array([ranks for ranks, _, _ in found]).T
    return {
        "sets": len(found),
        "ok": sum(ok for _, ok, _ in found),
        "seconds": sum(seconds for _, _, seconds in found),
        "quantities": {name: uniform(own) for name, own in zip(QUANTITIES, columns, strict=True)},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    found = json.loads(options.out.read_text())["found"] if options.out.exists() else {}
    origin = provenance(f"python -m benchmarks.views_ranks --sets {options.sets} --out FILE")
    for kind in options.kinds:
        own = found.setdefault(kind, [])
        while len(own) < options.sets:
            began = time.process_time()
            own.append([*ranks_of(kind, len(own)), time.process_time() - began])
            if len(own) % 20 == 0:
                ranks = {each: summary(found[each]) for each in KINDS if found.get(each)}
                stored = {"ranks": ranks, "found": found, "provenance": [origin]}
                options.out.write_text(json.dumps(stored) + "\n")
        print(json.dumps({kind: summary(own)}), flush=True)


if __name__ == "__main__":
    main()
