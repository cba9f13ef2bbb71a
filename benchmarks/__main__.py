from __future__ import annotations

import argparse
import importlib
import pkgutil

import threadpoolctl

import benchmarks
from benchmarks.timing import busy, conditions

OWN_COMMAND_LINE = {"against_truth", "explore_latency", "gpu", "traced_edges"}
SHARED = {"__main__", "nuts", "release_tasks", "timing"} | OWN_COMMAND_LINE


def main() -> None:
    names = sorted({module.name for module in pkgutil.iter_modules(benchmarks.__path__)} - SHARED)
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which to run: {', '.join(names)} (all)")
    parser.add_argument("--repeats", type=int, default=7, help="repeats that medians are taken of")
    parser.add_argument("--threads", type=int, help="BLAS threads; one where other processes hold a core")
    options = parser.parse_args()
    for unknown in set(options.names) - set(names):
        parser.error(f"there is no benchmark {unknown!r}; there are {', '.join(names)}")
    if options.threads:
        threadpoolctl.threadpool_limits(options.threads)
    print(conditions())
    if busy():
        print("The machine is shared with other processes: compare ratios, not seconds.")
    for name in options.names or names:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"\n== {name}: {(module.__doc__ or '').strip()}\n", flush=True)
        module.run(options.repeats)
    print(f"\n{conditions()}")


if __name__ == "__main__":
    main()
