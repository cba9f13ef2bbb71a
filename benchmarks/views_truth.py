"""Views and missing targets against a referee that shares no code: prior draws of weights, and ranks.

`python benchmarks/views_truth.py --problems 24 --ranks 60 --out benchmarks/stored/views_truth.json`
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import stats

import lbnn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
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


def truth(problems, draws, first=0, kinds=KINDS):
    """Evidence against prior draws: difference in joint errors, ok, seconds, for problems of some kinds."""
    rows = []
    for number in range(first, problems):
        rng = np.random.default_rng([28, number])
        kind = KINDS[number % len(KINDS)]
        if kind not in kinds:
            continue
        data = problem(kind, rng)
        views, y = data[:2]
        widths, beta = network(rng), float(10 ** rng.uniform(-1, 0.7))
        began = time.process_time()
        post = conditioned(widths, kind, data, beta)
        seconds = time.process_time() - began
        value, error, _, size = referee.evidence_by_prior_draws(views, y, widths, 1 / beta, draws, rng)
        name = "prior draws"
        if size < 1000:  # too few of the prior's draws are where the data are
            name, size = "annealed weights", math.nan
            value, error = referee.evidence_by_annealing(views, y, widths, 1 / beta, rng)
        joint = math.hypot(error, post.log_evidence_error)
        row = {
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
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def ranks(count):
    """Ranks of the true function at a test point among draws of its posterior, over data of the prior."""
    result = {}
    for kind in KINDS:
        if kind != "gated-3":
            found = [_rank(kind, number) for number in range(count)]
            bins = np.histogram(found, bins=10, range=(0, 100))[0]
            chi = float(((bins - count / 10) ** 2 / (count / 10)).sum())
            probability = float(stats.chi2.sf(chi, 9))
            result[kind] = {"sets": count, "bins": bins.tolist(), "chi_square_9": chi, "p": probability}
            print(kind, result[kind], flush=True)
    return result


def _rank(kind, number):
    """Of the true function among 99 draws, for one data set of the prior."""
    rng = np.random.default_rng([29, number])
    data, widths, beta = problem(kind, rng), (4, 3), 2.0
    views = data[0]
    test = views[:1] + 0.3 * rng.normal(size=views[:1].shape) * (views[:1] != 0)
    product, above = np.eye(views.shape[1]), views.shape[1]
    for width in reversed(widths):
        product = product @ rng.normal(size=(above, width)) / math.sqrt(width)
        above = width
    product = product @ rng.normal(size=(above, views.shape[2])) / math.sqrt(views.shape[2])
    y = np.einsum("ami,mi->a", views, product) + rng.normal(size=len(views)) / math.sqrt(beta)
    post = conditioned(widths, kind, (views, y, *data[2:]), beta, target_error=0.1)
    truth = np.einsum("ami,mi->a", test, product)[0]
    if kind != "cells":
        return int((post.predict(views=test).sample(99, rng)[:, 0] < truth).sum())
    output = int(np.flatnonzero(test[0].any(axis=1))[0])
    draws = post.predict(test[:, output]).sample(99, rng)[:, 0, output]
    return int((draws < truth).sum())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--draws", type=int, default=60_000)
    parser.add_argument("--ranks", type=int, default=60)
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    rows = truth(options.problems, options.draws, options.first, options.kinds)
    judged = [row for row in rows if row["referee_error"] < LARGEST_ERROR]
    summary = {
        "problems": len(rows),
        "judged": len(judged),
        "ok": sum(row["ok"] for row in rows),
        "largest_z_where_ok": max((abs(row["z"]) for row in judged if row["ok"]), default=0.0),
        "ranks": ranks(options.ranks),
    }
    print(json.dumps(summary))
    if options.out is not None:
        options.out.write_text(json.dumps({"summary": summary, "problems": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
