"""Run methods on tasks: each method in a process of its own, every result a file, written in one step.

A run that is stopped goes on where it was: results in the folder that belong to the same task, method and
seed are kept. A method that takes longer than its limit is ended and counts as such; so does one that
raises.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from lbnn._base.files import text_writer, write_atomically
from lbnn.benchmark.board.method import METHODS, Method
from lbnn.benchmark.catalogue import load, tasks
from lbnn.benchmark.report import score
from lbnn.benchmark.task import Task

#: Twelve tasks of all families, small enough for every kind of method, and the two headline ones.
DEFAULT_TASKS = (
    "plain-15",
    "plain-68",
    "plain-40-two-outputs",
    "deep-7-scalars",
    "deep-24",
    "cold-44",
    "few-24",
    "rank-72-bottleneck",
    "rank-48-rank-one-targets",
    "coexist-10",
    "hidden-14",
    "coexist-45",
    "size-10250",
)
DEFAULT_METHODS = (
    "exact",
    "numpyro-nuts",
    "blackjax-nuts",
    "nutpie",
    "mclmc",
    "vi-mean-field",
    "vi-full-rank",
    "laplace",
    "smc",
    "dynesty",
    "ula",
)
_ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
_BINS = 40
_LOST = "the process ended without an answer: out of memory, or a crash of the package"


@dataclass(frozen=True)
class Plan:
    """What to run and where to keep it."""

    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    folder: Path
    seed: int = 0
    limit: float = 90.0  # seconds a method may take for one task
    workers: int = 2
    plugins: tuple[Path, ...] = ()


def run(plan: Plan, tell: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Run what is not there yet and return all results, in the order of methods and tasks."""
    _load_methods(plan.plugins)
    known = {entry.name for entry in tasks()}
    for kind, given, names in ("method", plan.methods, set(METHODS)), ("task", plan.tasks, known):
        unknown = [name for name in given if name not in names]
        if unknown or not given:
            raise ValueError(
                f"a {kind} is one of {', '.join(sorted(names))}, got {', '.join(unknown) or 'none'}"
            )
    results = plan.folder / "results"
    results.mkdir(parents=True, exist_ok=True)
    open_runs = {
        name: [
            task
            for task in plan.tasks
            if _stored(plan, name, task) is None and load(task).dimension <= METHODS[name].largest
        ]
        for name in plan.methods
    }
    with ThreadPoolExecutor(plan.workers) as lanes:
        jobs = [lanes.submit(_run_method, plan, name, todo, tell) for name, todo in open_runs.items() if todo]
        for job in jobs:
            job.result()
    found = [_stored(plan, name, task) for name in plan.methods for task in plan.tasks]
    return [each for each in found if each is not None]


def _load_methods(plugins: Sequence[Path]) -> None:
    """Register the methods of the project and those of the user's files."""
    import lbnn.benchmark.board.methods  # noqa: F401

    for number, path in enumerate(plugins):
        spec = importlib.util.spec_from_file_location(f"lbnn_plugin_{number}", path)
        if spec is None or spec.loader is None or not path.exists():
            raise ValueError(f"a plugin must be a Python file, got {path}")
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _path(plan: Plan, method: str, task: str) -> Path:
    return plan.folder / "results" / f"{method}--{task}.json"


def _stored(plan: Plan, method: str, task: str) -> dict[str, Any] | None:
    """A stored result of the same task and seed; a file that cannot be read is run again."""
    try:
        content = json.loads(_path(plan, method, task).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = content.get("digest") == load(task).digest and content.get("seed") == plan.seed
    return content if same else None


def _run_method(plan: Plan, name: str, todo: list[str], tell: Callable[[str], None]) -> None:
    """All open tasks of one method, in a process that is made anew after a run past the limit."""
    process, connection = _start(plan)
    try:
        for task in todo:
            begin = time.monotonic()
            connection.send((name, task, plan.seed))
            answered = connection.poll(plan.limit)
            content = _received(connection) if answered else {"error": f"ran past {plan.limit:g} s"}
            if not answered or content.get("error") == _LOST:
                process.kill()
                process.join()
                process, connection = _start(plan)
            record = _record(name, task, plan.seed, content, time.monotonic() - begin)
            text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
            write_atomically(_path(plan, name, task), text_writer(text))
            tell(f"{name} on {task}: {record['verdict'][:60]} ({record['seconds']:.1f} s)")
    finally:
        process.kill()
        process.join()


def _received(connection: Connection) -> dict[str, Any]:
    try:
        return dict(connection.recv())
    except EOFError:
        return {"error": _LOST}


def _start(plan: Plan) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("spawn")
    own, other = context.Pipe()
    process = context.Process(target=_serve, args=(other, plan.plugins), daemon=True)
    before = {key: os.environ.get(key) for key in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)  # read by the libraries when the new process starts
    try:
        process.start()
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})
    other.close()
    return process, own


def _serve(connection: Connection, plugins: tuple[Path, ...]) -> None:
    """Answer requests until the process is ended, or the one that asks is."""
    _load_methods(plugins)
    while True:
        try:
            name, task, seed = connection.recv()
        except EOFError:
            return
        connection.send(_measure(METHODS[name], load(task), seed))


def _measure(method: Method, task: Task, seed: int) -> dict[str, Any]:
    """Run and judge; an exception is a result, too."""
    begin = time.perf_counter()
    try:
        outcome = method.run(task, seed)
        seconds = time.perf_counter() - begin
        evidence = outcome.log_evidence
        report = score(
            task,
            outcome.draws,
            log_evidence=evidence if evidence is not None and np.isfinite(evidence) else None,
            log_evidence_error=outcome.log_evidence_error,
            seconds=seconds,
            gradients=outcome.gradients,
        )
    except Exception as problem:
        return {"error": f"{type(problem).__name__}: {problem}", "traceback": traceback.format_exc()[-2000:]}
    return {
        **report.as_json(),
        "seconds": seconds,
        "gradients": outcome.gradients,
        "divergences": outcome.divergences,
        "draws": list(outcome.draws.shape),
        "picture": _picture(task, report.chains.values),
    }


def _picture(task: Task, values: Any) -> dict[str, Any]:
    """Histograms of log tr L: of the draws and exact, on the same bins."""
    from lbnn.benchmark.scorers.ranks import reference_values

    index = task.functions.names.index("log tr L")
    own, exact = values[..., index].ravel(), reference_values(task)[:, index]
    low, high = np.quantile(np.concatenate([own, exact]), [0.002, 0.998])
    edges = np.linspace(low, high, _BINS + 1)
    return {
        "edges": edges.tolist(),
        "draws": (np.histogram(own, edges)[0] / own.size).tolist(),
        "exact": (np.histogram(exact, edges)[0] / exact.size).tolist(),
    }


def _record(name: str, task: str, seed: int, content: dict[str, Any], seconds: float) -> dict[str, Any]:
    package = METHODS[name].package
    version = None
    if package:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            version = None
    base: dict[str, Any] = {
        "method": name,
        "words": METHODS[name].words,
        "package": package,
        "version": version,
        "seed": seed,
    }
    if "error" in content:
        base |= {"task": task, "digest": load(task).digest, "passed": False, "seconds": seconds}
        return base | {"verdict": f"fail: {content['error']}", "error": content["error"]}
    return base | content
