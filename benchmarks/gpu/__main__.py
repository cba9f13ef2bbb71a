"""lbnn on a GPU: `python3 -m benchmarks.gpu --out FILE.json`, about five minutes on one H200.

Needs NumPy, SciPy and one of PyTorch, CuPy and JAX with a GPU; `--small` takes small sizes and any device, to
try the script itself. Each row is added to the file at once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu import bands, one_posterior
from benchmarks.gpu.devices import LIBRARIES, available, prepare

ROWS: dict[str, Callable[[str, bool], dict[str, Any]]] = {
    "posterior": one_posterior.whole,
    "agreement": one_posterior.agreement,
    "bands": bands.whole,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="small sizes, any device")
    parser.add_argument("--only", nargs="*", default=list(ROWS), choices=ROWS)
    options = parser.parse_args()
    library = next((each for each in LIBRARIES if available(each, options.small)), None)
    if library is None:
        sys.exit("none of torch, cupy and jax with a GPU is installed here: try --small")
    prepare()
    from lbnn._base.checkout import provenance

    card = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    origin = provenance("python3 -m benchmarks.gpu --out gpu.json")
    if not options.small:
        found = subprocess.run(card, capture_output=True, text=True).stdout.strip()
        origin["machine"] = f"{found}; {os.cpu_count()} CPU cores"
    results: dict[str, Any] = {"provenance": [origin], "rows": []}
    for name in options.only:
        started = time.perf_counter()
        row = {"row": name, "library": library} | ROWS[name](library, options.small)
        results["rows"].append(row | {"wall": round(time.perf_counter() - started, 1)})
        print(json.dumps(results["rows"][-1]), flush=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
