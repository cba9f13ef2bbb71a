"""Answers with several outputs against the referee's: |error| / stated error, share of ok, seconds.

    python -m benchmarks.against_truth --out FILE [--names designed rand] [--seeds 3] [--processes 2]

The problems and their truth are in tests/reference (several_outputs_cases.py, several_outputs.json); none is
drawn from the prior. Run with OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import lbnn
from tests.reference.several_outputs_cases import Case, all_cases

TRUTH = Path(__file__).resolve().parent.parent / "tests" / "reference" / "several_outputs.json"


def answer(task: tuple[Case, dict, int, float]) -> dict:
    """One posterior, and how far it is from the truth in units of what it states."""
    case, truth, seed, target_error = task
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = lbnn.Network(case.widths, case.variances)
        try:
            post = network.condition(case.X, case.Y, case.beta, seed=seed, target_error=target_error)
        except Exception as error:  # a crash is a finding, not the end of the run
            return {"name": case.name, "seed": seed, "failed": repr(error)}
    seconds = time.process_time() - start
    row = {
        "name": case.name,
        "depth": case.depth,
        "outputs": case.outputs,
        "seed": seed,
        "ok": bool(post.diagnostics.ok),
        "engine": post.diagnostics.engine,
        "methods": [each.method for each in post.diagnostics.estimates],
        "log_evidence": post.log_evidence,
        "error": post.log_evidence_error,
        "seconds": seconds,
        "messages": list(post.diagnostics.messages),
        "settled": bool(truth["settled"]),
    }
    row["z"] = (post.log_evidence - truth["log_evidence"]) / math.hypot(
        post.log_evidence_error, truth["error"]
    )
    if truth.get("scale_mean") is not None and hasattr(post.scale, "mean_error"):
        own, stated = np.asarray(post.scale.mean), np.asarray(post.scale.mean_error)
        joint = np.hypot(stated, np.asarray(truth["scale_error"]))
        row["z_scale"] = np.diag((own - np.asarray(truth["scale_mean"])) / joint).tolist()
    return row


def summary(rows: list[dict]) -> str:
    """Coverage and shares, for depth two and deeper."""
    lines = [
        "| depth | posteriors | ok | beyond 4 | beyond 6 | worst | E L beyond 4 | median s |",
        "|" + "---|" * 8,
    ]
    for label, deep in (("2", False), ("3–8", True)):
        some = [row for row in rows if "z" in row and row["settled"] and (row["depth"] > 2) == deep]
        fine = [row for row in some if row["ok"]]
        if not fine:
            continue
        z = np.abs([row["z"] for row in fine])
        scale = np.abs([value for row in fine for value in row.get("z_scale", [])])
        lines.append(
            f"| {label} | {len(some)} | {len(fine) / len(some):.1%} | {(z > 4).sum()} | {(z > 6).sum()} | "
            f"{z.max():.1f} | {(scale > 4).sum()} of {len(scale)} | "
            f"{np.median([row['seconds'] for row in some]):.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--names", nargs="*", default=["issue", "designed", "rand", "single"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--target-error", type=float, default=0.05)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    truths = {row["name"]: row for row in json.loads(TRUTH.read_text(encoding="utf-8"))}
    tasks = [
        (case, truths[case.name], seed, options.target_error)
        for seed in range(options.seeds)
        for case in all_cases()
        if case.name in truths and case.name.startswith(tuple(options.names))
    ]
    rows = []
    with ProcessPoolExecutor(options.processes) as pool:
        for number, row in enumerate(pool.map(answer, tasks), 1):
            rows.append(row)
            if number % 20 == 0 or number == len(tasks):
                print(f"{number} of {len(tasks)}", flush=True)
                options.out.write_text(json.dumps(rows), encoding="utf-8")
    print(summary(rows))
    for row in rows:
        if "failed" in row:
            print(row)


if __name__ == "__main__":
    main()
