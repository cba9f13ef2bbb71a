"""Make the reference values of several outputs (numpy, scipy; cupy if there is an accelerator).

    python -m studies.references.make_several_outputs estimate FILE.jsonl [--processes 16] [--seconds 500]
    python -m studies.references.make_several_outputs anneal FILE.jsonl [--accelerator] [--particles 1024]
    python -m studies.references.make_several_outputs assemble FILE.jsonl ...         -> several_outputs.json

`estimate` adds one line for every problem and route of importance sampling, `anneal` one for every problem
and number of directions that the prior is widened to; what a file holds already is not made again. `assemble`
asks which routes agree, and does the problems with one example, which are exact. `--only` takes names that
begin so, `--effort` multiplies the draws of the fits (for what is not settled), `--moves` are the Hamiltonian
moves at each temperature (two are few for sharp data: estimates then come out low by some tenths).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from studies.references import brute_force
from studies.references.brute_force import Estimate
from tests.referees.one_example import one_example
from tests.reference.several_outputs_cases import Case, all_cases

TARGET = Path(__file__).resolve().parents[2] / "tests" / "reference" / "several_outputs.json"
Task = tuple[str, str]


def problems(only: str) -> list[Case]:
    """Problems that need drawing."""
    return [case for case in all_cases() if len(case.X) > 1 and case.name.startswith(tuple(only.split(",")))]


def fields(estimate: Estimate) -> dict[str, Any]:
    values = dict(vars(estimate))
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in values.items()}


def read(paths: list[Path]) -> dict[str, list[Estimate]]:
    """Estimates by problem."""
    result: dict[str, list[Estimate]] = {}
    for line in (line for path in paths if path.exists() for line in path.read_text().splitlines()):
        values = json.loads(line)
        name, values["scale_mean"] = values.pop("name"), np.array(values["scale_mean"])
        values["scale_error"] = np.array(values["scale_error"])
        result.setdefault(name, []).append(Estimate(**values))
    return result


def importance_tasks(cases: list[Case]) -> Iterator[Task]:
    for route in brute_force.ROUTES:
        yield from ((case.name, route) for case in cases)


def annealing_tasks(cases: list[Case]) -> Iterator[Task]:
    """The plain way for all, then all directions, then the numbers between."""
    for missing in range(-1, 4):
        for case in cases:
            fitted = 0 if missing < 0 else case.outputs - missing
            if missing < 0 or (fitted > 0 and brute_force.is_widened(case, fitted)):
                yield case.name, f"annealed {fitted}"


def work(job: tuple[Task, argparse.Namespace]) -> str:
    """One estimate as a line; empty if time is up or if it failed, which is printed."""
    (name, route), options = job
    if time.time() > options.deadline:
        return ""
    case = next(case for case in all_cases() if case.name == name)
    start = time.time()
    try:
        estimate = _estimate(case, route, options)
    except (np.linalg.LinAlgError, FloatingPointError, ValueError) as error:
        print(name, route, "failed:", error, flush=True)
        return ""
    value, error = estimate.log_evidence, estimate.error
    print(f"{name} {route} {value:.4f} ± {error:.4f} in {time.time() - start:.1f} s", flush=True)
    return json.dumps({"name": name, **fields(estimate)})


def _estimate(case: Case, route: str, options: argparse.Namespace) -> Estimate:
    if route in brute_force.ROUTES:
        limits = {"aim": options.aim, "most": options.most, "effort": options.effort}
        return brute_force.by_importance(case, route, options.seed, **limits)
    counts = int(route.split()[1]), options.particles, options.seed
    return brute_force.by_annealing(case, *counts, moves=options.moves, xp=_arrays(options))


def _arrays(options: argparse.Namespace) -> Any:
    if not options.accelerator:
        return np
    import cupy

    return cupy


def compute(options: argparse.Namespace, path: Path) -> None:
    """Do the tasks that the file does not hold yet; every result is written at once."""
    known = {(name, one.route) for name, estimates in read([path]).items() for one in estimates}
    kind = importance_tasks if options.what == "estimate" else annealing_tasks
    tasks = [task for task in kind(problems(options.only)) if task not in known]
    jobs = [(task, options) for task in tasks]
    with get_context("spawn").Pool(options.processes) as pool, path.open("a") as file:
        for line in pool.imap_unordered(work, jobs):
            if line:
                file.write(line + "\n")
                file.flush()


def entry(case: Case, estimates: list[Estimate]) -> dict[str, Any]:
    """What is stored of one problem."""
    value, routes = brute_force.settled(estimates)
    return {
        "name": case.name,
        "log_evidence": round(value.log_evidence, 6),
        "error": rounded(value.error),
        "effective": round(value.effective),
        "scale_mean": rounded(value.scale_mean),
        "scale_error": rounded(value.scale_error),
        "routes": by_route(estimates),
        "agreed": routes,
        "settled": bool(routes),
    }


def by_route(estimates: list[Estimate]) -> dict[str, list[float]]:
    """Log evidence and error of each; a second estimate by the same route gets a number."""
    result: dict[str, list[float]] = {}
    for one in estimates:
        times = sum(key.split(" #")[0] == one.route for key in result)
        key = f"{one.route} #{times + 1}" if times else one.route
        result[key] = [round(one.log_evidence, 4), rounded(one.error)]
    return result


def exact_entry(case: Case) -> dict[str, Any]:
    value = one_example(case)
    shape = value.scale_mean.shape
    return {
        "name": case.name,
        "log_evidence": value.log_evidence,
        "error": 1e-10,
        "effective": None,
        "scale_mean": value.scale_mean.tolist(),
        "scale_error": np.full(shape, 1e-10).tolist(),
        "routes": {},
        "agreed": ["one-dimensional integral"],
        "settled": True,
    }


def rounded(values: Any) -> Any:
    """Seven digits."""
    if np.ndim(values):
        return [rounded(value) for value in values]
    return float(f"{values:.7g}")


def assemble(paths: list[Path]) -> None:
    estimates, old = read(paths), json.loads(TARGET.read_text()) if TARGET.exists() else []
    exact = {one["name"]: one for one in old if one["name"].startswith("single")}
    entries = []
    for case in all_cases():
        if case.name in estimates:
            entries.append(entry(case, estimates[case.name]))
        elif len(case.X) == 1:
            entries.append(exact.get(case.name) or exact_entry(case))
    TARGET.write_text("[\n" + ",\n".join(json.dumps(one) for one in entries) + "\n]\n")
    missing = [one["name"] for one in entries if not one["settled"]]
    print(f"{len(entries)} entries, {len(entries) - len(missing)} settled; not settled: {missing}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["estimate", "anneal", "assemble"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--effort", type=int, default=1)
    parser.add_argument("--aim", type=float, default=0.004)
    parser.add_argument("--most", type=int, default=400_000)
    parser.add_argument("--particles", type=int, default=256)
    parser.add_argument("--moves", type=int, default=2)
    parser.add_argument("--accelerator", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    options.deadline = time.time() + options.seconds
    if options.what == "assemble":
        assemble(options.files)
    else:
        compute(options, options.files[0])


if __name__ == "__main__":
    main()
