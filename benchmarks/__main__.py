from __future__ import annotations

import argparse
import importlib

import threadpoolctl

from benchmarks.timing import busy, conditions

MEASURED_HERE = ("cost", "several_outputs")
#: Longer runs, each with a command line of its own: python -m benchmarks.NAME --help
OWN_COMMAND_LINE = (
    *("against_release", "against_truth", "bands_calibration", "bands_himalaya", "code_size"),
    *(
        "coverage",
        "default_fits",
        "engine_faults",
        "free_noise",
        "gpu",
        "many_outputs_truth",
        "narrow_layers",
    ),
    *("practice", "real_data.study", "silent_errors", "stored_answers", "views_real"),
)


def main() -> None:
    names = MEASURED_HERE
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        epilog=f"With a command line of their own, python -m benchmarks.NAME: {', '.join(OWN_COMMAND_LINE)}.",
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"which to run: {', '.join(names)} (all)")
    parser.add_argument("--repeats", type=int, default=3, help="repeats that medians are taken of")
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
