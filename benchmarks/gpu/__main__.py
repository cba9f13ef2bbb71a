"""lbnn on a GPU: `python3 -m benchmarks.gpu --out FILE.json`, about five minutes on one H200.

Each row runs in a process of its own under a time limit, prints its result and adds it to the file at once.
Needs NumPy, SciPy and one of PyTorch, CuPy and JAX with a GPU; `--small` takes small sizes and any device, to
try the script itself; `--limit` gives rows another limit, for those that do not come to their end.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu import bands, many_outputs, one_posterior
from benchmarks.gpu.devices import LIBRARIES, available, prepare

ROOT = Path(__file__).resolve().parent.parent.parent

#: Each row: what it runs, and its time limit in seconds.
ROWS: dict[str, tuple[Callable[[str, bool], dict[str, Any]], float]] = {
    "posterior": (one_posterior.whole, 75.0),
    "agreement": (one_posterior.agreement, 75.0),
    "many outputs, posterior": (many_outputs.posterior, 60.0),
    "bands": (bands.whole, 240.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="small sizes, any device")
    parser.add_argument("--only", default="", help="comma-separated beginnings of names of rows")
    parser.add_argument("--limit", type=float, help="seconds for each row, in the place of its own limit")
    parser.add_argument("--row", nargs=2, metavar=("NAME", "LIBRARY"), help="one row, in this process")
    options = parser.parse_args()
    if options.row:
        prepare()
        print("RESULT " + json.dumps(ROWS[options.row[0]][0](options.row[1], options.small)))
        return
    results = {"provenance": [conditions()], "rows": []}
    provide_metadata()
    for name, library, limit in plan(options.only, options.small):
        started = time.perf_counter()
        answer = in_process(name, library, options.limit or limit, options.small)
        row = {"row": name, "library": library, "wall": round(time.perf_counter() - started, 1), **answer}
        print(json.dumps(row), flush=True)
        results["rows"].append(row)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


def plan(only: str, small: bool) -> Iterator[tuple[str, str, float]]:
    """Rows for the first library that is there."""
    there = [library for library in LIBRARIES if available(library, small)]
    if not there:
        sys.exit("none of torch, cupy and jax with a GPU is installed here: try --small")
    for name, (_, limit) in ROWS.items():
        if any(name.startswith(part) for part in only.split(",")):
            yield name, there[0], limit


def in_process(name: str, library: str, limit: float, small: bool) -> dict[str, Any]:
    """The result of one row, or what went wrong with it."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--out", os.devnull, "--row", name, library]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths}
    try:
        done = subprocess.run(
            command + ["--small"] * small,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired as late:
        return {"error": f"over its limit of {limit:.0f} s", "output": text(late.stdout)[-1500:]}
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        return {"error": done.stderr[-1500:], "output": done.stdout[-500:]}
    return json.loads(lines[-1].removeprefix("RESULT "))


def provide_metadata() -> None:
    """A version of lbnn for processes to come, where the checkout is not installed."""
    try:
        importlib.metadata.version("lbnn")
    except importlib.metadata.PackageNotFoundError:
        folder = tempfile.mkdtemp(prefix="lbnn-metadata-")
        about = Path(folder) / "lbnn-0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lbnn\nVersion: 0\n")
        os.environ["PYTHONPATH"] = folder


def text(output: Any) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def conditions() -> dict[str, Any]:
    """When, with what, and on which machine."""
    versions = "import json, numpy, scipy\nv = {'numpy': numpy.__version__, 'scipy': scipy.__version__}\n"
    versions += "for name in ('torch', 'cupy', 'jax'):\n    try: v[name] = __import__(name).__version__\n"
    versions += "    except Exception: pass\n"
    found = subprocess.run(
        [sys.executable, "-c", versions + "print(json.dumps(v))"], capture_output=True, text=True
    )
    card = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "commit": said(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]),
        "machine": f"{said(card)}; {os.cpu_count()} CPU cores",
        "command": "python3 -m benchmarks.gpu --out gpu.json",
        "python": sys.version.split()[0],
        **json.loads(found.stdout or "{}"),
    }


def said(command: list[str]) -> str:
    """What a command prints, nothing where it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


if __name__ == "__main__":
    main()
