"""This checkout beside another commit, in turns: CPU seconds on one thread, medians, ratios.

    python -m benchmarks.against_release COMMIT [--tasks "n_d = 20" ...] [--repeats 3]

The other commit is taken from git into a temporary folder and imported by a process of its own, so that both
meet the same conditions. Data are drawn anew in each from the same seed. The last column is the relative
difference between the two answers. The first call of each task is not counted: modules are imported by it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from benchmarks import release_tasks

ROOT = Path(__file__).resolve().parent.parent
#: Tasks that take a minute and more each time, the first call of which counts.
MINUTES = ("n_d = 50, p = 300", "n_d = 100, p = 300", "416 problems with known answers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--tasks", nargs="*", default=[""], help="beginnings of names")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    tasks = tuple(name for name in release_tasks.TASKS if name.startswith(tuple(options.tasks)))
    with tempfile.TemporaryDirectory() as folder:
        if export(Path(folder), options.commit):
            compare_speed(Path(folder) / "src", tasks, options.repeats)


def compare_speed(release: Path, tasks: tuple[str, ...], repeats: int) -> None:
    """The first table, with the release's package in a folder."""
    releases = {"release": worker(release), "here": worker(ROOT / "src")}
    try:
        speed_table(releases, tasks, repeats)
    finally:
        for process in releases.values():
            process.stdin.close()
            process.wait()


def export(folder: Path, commit: str) -> bool:
    """Write the package of a commit into a folder; whether git has it."""
    made = subprocess.run(
        ["git", "archive", commit, "src/lbnn"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    if made.returncode:
        print(f"commit {commit} is not in this checkout: nothing to compare with")
        return False
    archive = folder / "release.tar"
    archive.write_bytes(made.stdout)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return True


def worker(source: Path, *arguments: str) -> subprocess.Popen:
    """A process that imports lbnn from a folder and answers tasks, on one thread."""
    environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.release_tasks", *arguments]
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def ask(process: subprocess.Popen, task: str) -> tuple[float, float]:
    """CPU seconds of one run of a task, and what came out."""
    process.stdin.write(f"{task}\n")
    process.stdin.flush()
    seconds, value = process.stdout.readline().split()
    return float(seconds), float(value)


def speed_table(releases: dict[str, subprocess.Popen], tasks: tuple[str, ...], repeats: int) -> None:
    print(f"{'':52} {'release ms':>11} {'here ms':>9} {'times':>7} {'difference':>11}")
    for task in tasks:
        seconds: dict[str, list[float]] = {name: [] for name in releases}
        values = {}
        for turn in range(task in MINUTES, repeats + 1):
            for name, process in releases.items():
                taken, values[name] = ask(process, task)
                if turn:
                    seconds[name].append(taken)
        old, new = (statistics.median(seconds[name]) for name in ("release", "here"))
        difference = abs(values["here"] / values["release"] - 1)
        print(
            f"{task:52} {1e3 * old:11.2f} {1e3 * new:9.2f} {old / new:7.1f} {difference:11.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
