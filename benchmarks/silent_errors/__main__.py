"""Run a family: ``python -m benchmarks.silent_errors FAMILY --count 100 --seed 1 --workers 2``."""

from __future__ import annotations

import argparse
import importlib
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from benchmarks.silent_errors.judgement import Judgement


def judged(task: tuple[str, Any]) -> list[Judgement]:
    """Judgements of one problem: a family may compare several numbers of one answer."""
    family, problem = task
    judge: Callable[[Any], Judgement | list[Judgement]] = importlib.import_module(
        f"benchmarks.silent_errors.{family}"
    ).judge
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # answers that are not ok are announced by warnings
        found = judge(problem)
    return found if isinstance(found, list) else [found]


def table(found: list[Judgement]) -> str:
    """The count of answers that are ok and of those that are silently wrong, and the worst."""
    ok = [each for each in found if each.ok]
    wrong = [each for each in found if each.silently_wrong]
    z = np.array([each.z for each in ok])
    lines = [
        f"{len(found)} comparisons, {len(ok)} ok ({len(ok) / len(found):.1%}), {len(wrong)} silently wrong,"
        f" {sum(each.seconds for each in found):.0f} CPU s"
    ]
    if len(ok):
        lines.append(
            f"of those that are ok: rms of z {np.sqrt(np.mean(z**2)):.2f}, worst {np.abs(z).max():.2f}"
        )
    lines += [
        f"  {each.name}: {each.answer:.6g} ± {each.error:.2g}, referee {each.truth:.6g}"
        f" ± {each.truth_error:.2g}, z = {each.z:.1f}"
        for each in wrong[:20]
    ]
    return "\n".join(lines)


def main() -> None:
    """Read the arguments, judge the problems, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    module = importlib.import_module(f"benchmarks.silent_errors.{options.family}")
    tasks = [(options.family, each) for each in module.problems(options.count, options.seed)]
    found: list[Judgement] = []
    left_out = 0
    with ProcessPoolExecutor(options.workers) as pool:
        for number, more in enumerate(pool.map(judged, tasks), 1):
            found += more
            left_out += not more
            if number % max(len(tasks) // 10, 1) == 0:
                print(f"{number} of {len(tasks)}", flush=True)
    if left_out:
        print(f"{left_out} problems left out, for which the referee is not reliable")
    print(table(found))


if __name__ == "__main__":
    main()
