"""The evidence of views and missing targets against a referee that shares no code: prior draws of weights.

`python -m benchmarks.views_truth --problems 60 --out docs/results/views-truth.json`; results are stored after
every problem, and those that the file has are not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path

import numpy as np

import lbnn
from lbnn._base.checkout import provenance
from tests.views import referee

KINDS = ("gated-2", "gated-3", "conv", "tasks", "cells")
LARGEST_ERROR = 0.2  # of a referee that judges


def problem(kind, rng):
    """Views (p, M, n0) of one kind and observations that are not drawn from the prior."""
    count = int(rng.integers(5, 31))
    if kind == "cells":
        return _table(count, rng)
    if kind.startswith("gated"):
        channels = int(kind[-1])
        x = rng.normal(size=(count, 3))
        scores = x @ rng.normal(size=(3, channels))
        views = x[:, None, :] * (scores == scores.max(axis=1, keepdims=True))[:, :, None]
    elif kind == "conv":
        views = lbnn.views.patches(rng.normal(size=(count, 8)), size=2, stride=2)
    else:
        x = rng.normal(size=(count, 3))
        views = lbnn.views.tasks(x, rng.integers(0, 3, count), 3)
    y = rng.standard_t(4, size=count) * rng.gamma(2.0) + views[:, 0] @ rng.normal(size=views.shape[2])
    return views, y


def _table(count, rng):
    """The observed cells of a table of 2 or 3 outputs with missing cells, as tasks; no row is empty."""
    outputs = int(rng.integers(2, 4))
    rows = max(count // outputs, 3)
    observed = rng.random((rows, outputs)) < 0.7
    observed[np.arange(rows), np.arange(rows) % outputs] = True  # every row and every output has some
    a, j = np.nonzero(observed)
    x = rng.normal(size=(rows, 3))
    y = rng.standard_t(4, size=len(a)) * rng.gamma(2.0) + x[a] @ rng.normal(size=3)
    return lbnn.views.tasks(x[a], j, outputs), y, x, observed


def conditioned(widths, kind, data, beta, **options):
    """The posterior given views, or given the observed cells of a table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind != "cells":
            return lbnn.Network(widths).condition_views(data[0], data[1], beta, **options)
        _, y, x, observed = data
        table = np.full(observed.shape, np.nan)
        table[observed] = y
        return lbnn.Network(widths).condition(x, table, beta, observed=observed, **options)


def network(rng):
    """Widths of a network of depth 2 to 4."""
    return tuple(int(w) for w in rng.integers(2, 21, size=int(rng.integers(1, 4))))


def judged(number, draws):
    """Evidence of one problem against the referee: difference in joint errors, ok, seconds."""
    rng = np.random.default_rng([28, number])
    kind = KINDS[number % len(KINDS)]
    data = problem(kind, rng)
    views, y = data[:2]
    widths, beta = network(rng), float(10 ** rng.uniform(-1, 0.7))
    began = time.process_time()
    post = conditioned(widths, kind, data, beta)
    seconds = time.process_time() - began
    value, error, _, size = referee.evidence_by_prior_draws(views, y, widths, 1 / beta, draws, rng)
    name = "prior draws"
    if size < 1000:  # too few of the prior's draws are where the data are
        name, size = "annealed weights", None
        value, error = referee.evidence_by_annealing(views, y, widths, 1 / beta, rng)
    joint = math.hypot(error, post.log_evidence_error)
    return {
        "number": number,
        "kind": kind,
        "observations": len(y),
        "widths": widths,
        "beta": beta,
        "log_evidence": post.log_evidence,
        "error": post.log_evidence_error,
        "referee_method": name,
        "referee": value,
        "referee_error": error,
        "referee_effective": size,
        "z": (post.log_evidence - value) / joint,
        "ok": post.diagnostics.ok,
        "seconds": seconds,
    }


def summary(rows):
    """Counts, and the largest difference among answers that are ok and whose referee can judge them."""
    certain = [row for row in rows if row["referee_error"] < LARGEST_ERROR]
    return {
        "problems": len(rows),
        "ok": sum(row["ok"] for row in rows),
        "judged": len(certain),
        "largest_z_where_ok": max((abs(row["z"]) for row in certain if row["ok"]), default=0.0),
        "mean_seconds": float(np.mean([row["seconds"] for row in rows])),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--draws", type=int, default=60_000)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = json.loads(options.out.read_text())["problems"] if options.out.exists() else []
    origin = provenance(f"python -m benchmarks.views_truth --problems {options.problems} --out FILE")
    for number in sorted(set(range(options.problems)) - {row["number"] for row in rows}):
        rows.append(judged(number, options.draws))
        print(json.dumps(rows[-1]), flush=True)
        stored = {"summary": summary(rows), "problems": rows, "provenance": [origin]}
        options.out.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
