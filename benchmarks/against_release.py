"""this checkout against release 0.1.0, installed beside it: CPU seconds on one thread, medians, ratios.

The release is taken from git (commit 295b6ee) into a temporary folder and imported by a process of its own;
the two take turns, so that both meet the same conditions. Data are drawn anew in each from the same seed. The
last column is the relative difference between the answers of the two. Then: `condition`, mean and variance
over one Gram matrix and one eigh (CPU seconds on one thread), and the largest memory above X.
The first call of each task is not counted: modules are imported by it.

    python -m benchmarks.against_release [--commit COMMIT] [--tasks "n_d = 20" ...] [--repeats 3]

compares with another commit, the first table alone, and those tasks whose names begin so.
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

import numpy as np

import lbnn
from benchmarks import release_tasks
from benchmarks.timing import median_seconds

ROOT = Path(__file__).resolve().parent.parent
RELEASE = "295b6ee"
#: How many times faster than the release each task is meant to be; None where nothing is promised.
AIMS = {"2,000 posteriors of one output, p = 200": 40.0, "n_d = 3, p = 100": 2.5, "n_d = 10, p = 2000": 6.0}
#: Tasks that take a minute and more each time: with `--tasks` only, and the first call counts.
MINUTES = ("n_d = 50, p = 300", "n_d = 100, p = 300", "416 problems with known answers")
FLOORS = (  # p, n0, n_d, widths, test points, aim
    (2000, 2500, 4, (100,), 200, 1.15),
    (500, 800, 1, (100,) * 9, 100, 1.15),
)
MEMORY_EXAMPLES, MEMORY_AIM = 5000, 3.3


def run(repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if not export(Path(folder), RELEASE):
            return
        tasks = tuple(name for name in release_tasks.TASKS if name not in MINUTES)
        compare_speed(Path(folder) / "src", tasks, repeats)
        floor_table(repeats)
        memory_table(Path(folder) / "src")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--commit", default=RELEASE)
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
    print(f"{'':52} {'release ms':>11} {'here ms':>9} {'times':>7} {'aim':>5} {'difference':>11}")
    for task in tasks:
        seconds: dict[str, list[float]] = {name: [] for name in releases}
        values = {}
        for turn in range(task in MINUTES, repeats + 1):
            for name, process in releases.items():
                taken, values[name] = ask(process, task)
                if turn:
                    seconds[name].append(taken)
        old, new = (statistics.median(seconds[name]) for name in ("release", "here"))
        aim = AIMS.get(task)
        note = "" if aim is None else "ok" if old / new >= aim else "below the aim"
        difference = abs(values["here"] / values["release"] - 1)
        print(
            f"{task:52} {1e3 * old:11.2f} {1e3 * new:9.2f} {old / new:7.1f} {aim or '':>5} "
            f"{difference:11.1e}  {note}",
            flush=True,
        )


def floor_table(repeats: int) -> None:
    print(
        f"\n{'p':>6} {'n0':>6} {'n_d':>4} {'points':>7} {'floor s':>9} {'all s':>9} {'over floor':>11} "
        f"{'aim':>6}"
    )
    for examples, inputs, outputs, widths, points, aim in FLOORS:
        X, Y, X_test = release_tasks.data(examples, inputs, outputs)
        network, targets = lbnn.Network(widths), Y[:, 0] if outputs == 1 else Y

        def floor(X: np.ndarray = X) -> object:
            return np.linalg.eigh(X @ X.T / X.shape[1])

        def everything(X=X, targets=targets, network=network, X_test=X_test[:points]) -> object:
            predictive = network.condition(X, targets, beta=release_tasks.BETA).predict(X_test)
            return predictive.mean, predictive.variance

        seconds = median_seconds({"floor": floor, "all": everything}, repeats)
        ratio = seconds["all"] / seconds["floor"]
        print(
            f"{examples:6} {inputs:6} {outputs:4} {points:7} {seconds['floor']:9.4f} {seconds['all']:9.4f} "
            f"{ratio:11.3f} {aim:6}  {'ok' if ratio <= aim else 'above the aim'}",
            flush=True,
        )


_MEMORY = """
import resource, sys
import numpy as np
import lbnn
examples = int(sys.argv[1])
rng = np.random.default_rng(0)
X, Y, X_test = rng.standard_normal((examples, examples)), rng.standard_normal((examples, 3)), None
X_test = rng.standard_normal((200, examples))
lbnn.Network((50,)).condition(X[:50], Y[:50], 4.0).predict(X_test).variance  # what libraries keep
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
predictive = lbnn.Network((50,)).condition(X, Y, 4.0).predict(X_test)
predictive.mean, predictive.variance
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / 8 / examples**2)
"""


def memory_table(release: Path, examples: int = MEMORY_EXAMPLES) -> None:
    """Largest resident memory of fit, mean and variance above X, in p² doubles, n0 = p and three outputs."""
    found = {}
    for name, source in (("release", release), ("here", ROOT / "src")):
        made = subprocess.run(
            [sys.executable, "-c", _MEMORY, str(examples)],
            env=os.environ | {"PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=True,
        )
        found[name] = float(made.stdout)
    note = "ok" if found["here"] <= MEMORY_AIM else "above the aim"
    print(
        f"\nmemory above X at p = n0 = {examples}: {found['release']:.2f} p² doubles in the release, "
        f"{found['here']:.2f} here, aim {MEMORY_AIM}  {note}"
    )


if __name__ == "__main__":
    main()
