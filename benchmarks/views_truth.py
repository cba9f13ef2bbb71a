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

import lbnn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.views import referee


def problem(kind, rng):
    """Views (p, M, n0) of one kind and observations that are not drawn from the prior."""
    count = int(rng.integers(5, 31))
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


def network(rng):
    """Widths of a network of depth 2 to 4."""
    return tuple(int(w) for w in rng.integers(2, 21, size=int(rng.integers(1, 4))))


def truth(problems, draws):
    """Evidence against prior draws: difference in joint errors, ok, seconds, for every problem."""
    rows = []
    for number in range(problems):
        rng = np.random.default_rng([28, number])
        kind = ("gated-2", "gated-3", "conv", "tasks")[number % 4]
        views, y = problem(kind, rng)
        widths, beta = network(rng), float(10 ** rng.uniform(-1, 0.7))
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            post = lbnn.Network(widths).condition_views(views, y, beta)
        seconds = time.process_time() - began
        value, error, _, size = referee.evidence_by_prior_draws(views, y, widths, 1 / beta, draws, rng)
        joint = math.hypot(error, post.log_evidence_error)
        row = {
            "kind": kind,
            "observations": len(y),
            "widths": widths,
            "beta": beta,
            "log_evidence": post.log_evidence,
            "error": post.log_evidence_error,
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
    for kind in ("gated-2", "conv", "tasks"):
        found = []
        for number in range(count):
            rng = np.random.default_rng([29, number])
            views, _ = problem(kind, rng)
            test = problem(kind, rng)[0][:1]
            widths, beta = (4, 3), 2.0
            product = np.eye(views.shape[1])
            above = views.shape[1]
            for width in reversed(widths):
                product = product @ rng.normal(size=(above, width)) / math.sqrt(width)
                above = width
            product = product @ rng.normal(size=(above, views.shape[2])) / math.sqrt(views.shape[2])
            y = np.einsum("ami,mi->a", views, product) + rng.normal(size=len(views)) / math.sqrt(beta)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                post = lbnn.Network(widths).condition_views(views, y, beta, target_error=0.1)
                draws = post.predict(views=test).sample(99, rng)[:, 0]
            found.append(int((draws < np.einsum("ami,mi->a", test, product)[0]).sum()))
        bins = np.histogram(found, bins=10, range=(0, 100))[0]
        chi = float(((bins - count / 10) ** 2 / (count / 10)).sum())
        result[kind] = {"bins": bins.tolist(), "chi_square_9": chi}
        print(kind, result[kind], flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--draws", type=int, default=60_000)
    parser.add_argument("--ranks", type=int, default=60)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    rows = truth(options.problems, options.draws)
    judged = [row for row in rows if row["referee_effective"] > 300]
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
