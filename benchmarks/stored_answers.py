"""Answers of the engines, stored with their errors and CPU seconds, and compared with those of other code.

    python -m benchmarks.stored_answers run . FILE                        # of this checkout, resumable
    python -m benchmarks.stored_answers run . NEW ../other OLD --sets truth tables   # two checkouts in turn
    python -m benchmarks.stored_answers compare OLD NEW

The sets are the problems of tests/reference with a known truth, those with 60 digits, narrow layers, tables
with many outputs and default fits. Every checkout answers in a process of its own with one BLAS thread; given
several, they take turns at every problem, so that the ratio of their CPU seconds holds on a busy machine.
`benchmarks/results` has the answers of commit fec1f94; CPU seconds of other machines do not enter ratios.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lbnn
from benchmarks import default_fits, many_output_tables, narrow_layers
from lbnn._base.checkout import commit
from tests.reference.cases import CASES
from tests.reference.several_outputs_cases import all_cases

ROOT = Path(__file__).resolve().parent.parent
Row = dict[str, Any]
Make = Callable[[int], Row]
BEYOND = 4.5  # joint errors


def posterior_row(network: lbnn.Network, *data: Any, **options: Any) -> Row:
    """What one posterior states, and its CPU seconds."""
    start = time.process_time()
    post = network.condition(*data, **options)
    seconds, told = time.process_time() - start, post.diagnostics
    mean, error = np.asarray(post.scale.mean), np.asarray(getattr(post.scale, "mean_error", 0.0))
    if mean.ndim:
        mean, error = np.diag(mean), np.diag(error)
    return {
        "log_evidence": post.log_evidence,
        "error": post.log_evidence_error,
        "ok": bool(told.ok),
        "seconds": round(seconds, 4),
        "engine": told.engine,
        "methods": [each.method for each in told.estimates],
        "scale_mean": [float(f"{each:.12g}") for each in np.atleast_1d(mean)],
        "scale_error": [float(f"{each:.3g}") for each in np.atleast_1d(error)],
    }


def fit_row(X: np.ndarray, Y: np.ndarray) -> Row:
    """What a default fit chooses, its warnings, and its CPU seconds."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        model = lbnn.LBNNRegressor().fit(X, Y)
        seconds = time.process_time() - start
    told = [f"{each.category.__name__}: {each.message}" for each in caught]
    ok = bool(model.candidates_[0].posterior.diagnostics.ok)
    post = model.candidates_[0].posterior
    return {
        "log_evidence": post.log_evidence,
        "error": post.log_evidence_error,
        "ok": ok,
        "seconds": round(seconds, 4),
        "engine": post.diagnostics.engine,
        "depth": len(model.widths_) + 1,
        "told": told,
    }


def reference_row(name: str) -> Row:
    """A deterministic answer with one output, with predictions at three points."""
    case = next(case for case in CASES if case.name == name)
    X, y, X_test = case.data()
    network = lbnn.Network(case.widths)
    row = posterior_row(network, X, y, case.beta)
    found = network.condition(X, y, case.beta).predict(X_test)
    return row | {"mean": found.mean.tolist(), "variance": found.variance.tolist()}


def many_outputs_fit(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Data of a default fit with 35 outputs, of rank 35 or six."""
    rng = np.random.default_rng([number, 35])
    X, rank = rng.normal(size=(120, 20)), (6, 35)[number % 2]
    Y = X @ rng.normal(size=(20, rank)) @ rng.normal(size=(rank, 35)) / math.sqrt(20 * rank)
    return X, Y + 0.5 * rng.normal(size=Y.shape)


def problems() -> Iterator[tuple[str, int, Make]]:
    """Set, number of seeds, name and how to answer of every problem: "set/name", seeds, function."""
    for case in all_cases():
        network = lbnn.Network(case.widths, case.variances)
        data = case.X, case.Y, case.beta
        yield f"truth/{case.name}", 2, _of(network, *data, target_error=0.05)
    for problem in (*narrow_layers.NAMED, *map(narrow_layers.random_problem, range(narrow_layers.RANDOM))):
        name = f"narrow/{problem.seed}-{problem.examples}-{problem.outputs}"
        yield name, 1, _of(lbnn.Network(problem.widths), *problem.data(), problem.beta)
    for label, tables, error in (
        ("tables", many_output_tables.TABLES, 0.05),
        ("behind-narrow", many_output_tables.BEHIND_NARROW, 0.1),
    ):
        for table in tables:
            name = f"{label}/{table.seed}"
            yield name, 1, _of(lbnn.Network(table.widths), *table.data(), table.beta, target_error=error)
    for each in CASES:
        yield f"reference/{each.name}", 1, lambda _, name=each.name: reference_row(name)
    for kind, (make, count, _) in default_fits.KINDS.items():
        for number in range(count):
            data = make(np.random.default_rng([number, len(kind)]))
            yield f"fits/{kind}-{number}", 1, lambda _, data=data: fit_row(*data)
    for number in range(2):
        yield f"fits-35/{number}", 1, lambda _, number=number: fit_row(*many_outputs_fit(number))


def _of(network: lbnn.Network, *data: Any, **options: Any) -> Make:
    return lambda seed: posterior_row(network, *data, seed=seed, **options)


def work() -> None:
    """Answer the keys "set/name/seed" that come in, a line each, with rows."""
    every = {name: make for name, _, make in problems()}
    posterior_row(lbnn.Network((4,)), np.eye(3), np.eye(3), 1.0)  # imports are not timed
    for line in sys.stdin:
        name, _, seed = line.strip().rpartition("/")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                row = every[name](int(seed))
            except Exception as error:  # a crash is a finding, not the end of the run
                row = {"failed": repr(error), "ok": False, "seconds": 0.0}
        print(json.dumps({"key": line.strip(), "commit": commit(), **row}, ensure_ascii=False), flush=True)


def worker(checkout: Path) -> subprocess.Popen[str]:
    """A process that answers with the code of a checkout and the problems of this one."""
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment = os.environ | threads | {"PYTHONPATH": str(checkout.resolve() / "src")}
    command = [sys.executable, "-m", "benchmarks.stored_answers", "work"]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def stored(file: Path) -> dict[str, Row]:
    """Rows of a file by their keys."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def run(pairs: list[tuple[Path, Path]], sets: Iterable[str], seeds: int) -> None:
    """Append to every file the answers of its checkout that it does not have."""
    workers = [worker(checkout) for checkout, _ in pairs]
    known = [stored(file) for _, file in pairs]
    for wanted in sets:
        names = [(name, most) for name, most, _ in problems() if name.startswith(f"{wanted}/")]
        keys = [f"{name}/{seed}" for seed in range(seeds) for name, most in names if seed < most]
        for key in keys:
            for (_, file), process, before in zip(pairs, workers, known, strict=True):
                if key in before:
                    continue
                assert process.stdin
                assert process.stdout
                print(key, file=process.stdin, flush=True)
                line = process.stdout.readline()
                with file.open("a", encoding="utf-8") as out:
                    out.write(line)
    for process in workers:
        process.communicate()


def distances(old: Row, new: Row) -> tuple[float, float]:
    """Difference of log evidences in joint errors, and the largest one of E L; relative where exact."""
    joint = math.hypot(old["error"], new["error"]) or max(abs(old["log_evidence"]), 1.0)
    evidence = (new["log_evidence"] - old["log_evidence"]) / joint
    if "scale_mean" not in old:
        return evidence, 0.0
    before, after, first, second = (
        np.array(row[key]) for key in ("scale_mean", "scale_error") for row in (old, new)
    )
    errors = np.hypot(first, second)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(after - before) / np.where(errors > 0, errors, np.abs(before))
    return evidence, float(np.nanmax(gaps, initial=0.0))


def truth_distance(name: str, row: Row, truths: dict[str, Row]) -> float | None:
    """Difference from a known log evidence in joint errors."""
    known = truths.get(name.split("/")[1]) if name.startswith("truth/") else None
    if known is None or not known["settled"]:
        return None
    return (row["log_evidence"] - known["log_evidence"]) / math.hypot(row["error"], known["error"])


def compare(old: dict[str, Row], new: dict[str, Row]) -> str:
    """Agreement in joint errors, shares of ok, rms of z and ratios of CPU seconds, by set."""
    path = ROOT / "tests" / "reference" / "several_outputs.json"
    truths = {row["name"]: row for row in json.loads(path.read_text(encoding="utf-8"))}
    head = "| set | both | ok old | ok new | beyond 4.5 | rms | worst | E L worst | z of truth: rms | worst "
    lines = [head + "| CPU ratio: sum | median |", "|---" * 12 + "|"]
    notes = []
    for wanted in dict.fromkeys(key.split("/")[0] for key in new):
        keys = [key for key in new if key in old and key.startswith(f"{wanted}/")]
        if not keys:
            continue
        fine = [key for key in keys if old[key]["ok"] and new[key]["ok"]]
        gaps = np.array([distances(old[key], new[key]) for key in fine]).reshape(-1, 2)
        z = np.array(
            [
                found
                for key in keys
                if new[key]["ok"] and (found := truth_distance(key, new[key], truths)) is not None
            ]
        )
        here = [key for key in keys if old[key].get("machine") == new[key].get("machine")] or keys
        seconds = np.array([[old[key]["seconds"], new[key]["seconds"]] for key in here]) + 1e-4
        ratios = seconds[:, 1] / seconds[:, 0]
        size = np.abs(gaps).max(axis=1, initial=0.0)
        cells = [
            wanted,
            len(keys),
            *(sum(rows[key]["ok"] for key in keys) for rows in (old, new)),
            (size > BEYOND).sum(),
            f"{_rms(gaps[:, 0]):.3g}",
            f"{np.abs(gaps[:, 0]).max(initial=0.0):.3g}",
            f"{gaps[:, 1].max(initial=0.0):.3g}",
            f"{_rms(z):.2f}" if len(z) else "",
            f"{np.abs(z).max():.1f}" if len(z) else "",
            f"{seconds[:, 1].sum() / seconds[:, 0].sum():.2f} of {seconds[:, 0].sum():.0f} s",
            f"{np.median(ratios):.2f}",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
        notes += [f"ok → not ok: {key}" for key in keys if old[key]["ok"] > new[key]["ok"]]
        notes += [f"not ok → ok: {key}" for key in keys if old[key]["ok"] < new[key]["ok"]]
        notes += [
            f"{gap[0]:+.1f}, E L {gap[1]:.1f}: {key}"
            for key, gap, far in zip(fine, gaps, size > BEYOND, strict=True)
            if far
        ]
    return "\n".join([*lines, *notes])


def _rms(values: np.ndarray) -> float:
    return math.sqrt(float((values**2).mean())) if len(values) else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "compare", "work"))
    parser.add_argument("paths", nargs="*", type=Path, help="checkout and file in turn, or two files")
    default = ["narrow", "tables", "truth", "behind-narrow", "reference", "fits", "fits-35"]
    parser.add_argument("--sets", nargs="*", default=default)
    parser.add_argument("--seeds", type=int, default=2, help="of the problems with a known truth")
    options = parser.parse_args()
    if options.what == "work":
        work()
    elif options.what == "run":
        run(
            list(zip(options.paths[::2], options.paths[1::2], strict=True)),
            options.sets,
            options.seeds,
        )
    else:
        print(compare(*map(stored, options.paths)))


if __name__ == "__main__":
    main()
