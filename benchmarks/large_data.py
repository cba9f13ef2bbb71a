"""Large data: accuracy of moments and of one pass against 60 digits; rows a second and memory of one pass.

python -m benchmarks.large_data --rows 5000000 --inputs 500 --workers 2 --memory 2GiB   # 20 GB of data
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import lbnn
from benchmarks.timing import conditions
from lbnn.data.stream import Triangle
from tests.referees.sixty_digits import exact_spectrum, ill_conditioned

NETWORK = lbnn.Network((20, 20))


def accuracy() -> None:
    """Errors of the log evidence."""
    print("| condition | offset | β | from_inputs | moments | their bound | one pass | one rounding of X |")
    print("|---|---|---|---|---|---|---|---|")
    for condition, offset in [(1e1, 0), (1e3, 0), (1e4, 0), (1e6, 0), (1e8, 0), (1e1, 1e2), (1e1, 1e4)]:
        X, y = ill_conditioned(condition, offset, examples=200, inputs=8, seed=0)
        truth = exact_spectrum(X, y)
        nudged = exact_spectrum(X * (1 + 2.0**-52 * np.random.default_rng(1).uniform(-1, 1, X.shape)), y)
        chunks = list(zip(np.array_split(X, 4), np.array_split(y, 4), strict=True))
        for beta in (1e2, 1e6, 1e10):
            expected = _log_evidence(truth, beta)
            cells = []
            ways = {
                "inputs": (lbnn.Spectrum.from_inputs, X, y),
                "moments": (lbnn.Spectrum.from_moments, X.T @ X, X.T @ y, y @ y, len(y)),
                "blocks": (lbnn.Spectrum.from_chunks, chunks),
            }
            for name, (way, *data) in ways.items():
                try:
                    found = way(*data)
                    cells.append(f"{abs(_log_evidence(found, beta) - expected):.0e}")
                    bound = f"{found.rounding * beta:.0e}"
                except ValueError:
                    cells.append("refused")
                    bound = "–"
                cells += [bound] if name == "moments" else []
            change = f"{abs(_log_evidence(nudged, beta) - expected):.0e}"
            print(f"| {condition:.0e} | {offset:g} | {beta:.0e} | {' | '.join(cells)} | {change} |")


def _log_evidence(spectrum, beta):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        return NETWORK.condition_spectrum(spectrum, beta).log_evidence


def _block(seed: int, rows: int, inputs: int):
    rng = np.random.Generator(np.random.SFC64(seed))
    X = rng.standard_normal((rows, inputs), dtype=np.float32).astype(float)
    return X, X[:, :10].sum(axis=1) + 0.5 * rng.standard_normal(rows)


def throughput(rows: int, inputs: int, workers: int, memory: str, block: int = 20_000) -> None:
    """One pass over generated dask arrays on workers with little memory, against the bare product XᵀX.

    Blocks are made when they are read: nothing is on disk.
    """
    from distributed import Client, LocalCluster

    making, bare = _processor_seconds(block, inputs)
    count = rows // block
    X, y = _generated(count, block, inputs)
    options = {"n_workers": workers, "threads_per_worker": 1, "memory_limit": memory}
    with LocalCluster(**options, dashboard_address=None) as cluster, Client(cluster) as client:
        client.run(lambda: __import__("lbnn") and None)
        client.register_plugin(_progress(count))
        before = sum(client.run(time.process_time).values())
        start = time.perf_counter()
        spectrum = lbnn.Spectrum.from_inputs(X, y)
        seconds = time.perf_counter() - start
        used = sum(client.run(time.process_time).values()) - before
        peaks = client.run(_peak)
    gigabytes = 8 * count * block * inputs / 1e9
    print(f"{spectrum}: {gigabytes:.1f} GB in {seconds:.0f} s on {workers} workers of {memory}")
    print(f"  {count * block / seconds:,.0f} rows a second; processor seconds of the workers {used:.0f}")
    product, made = count * bare, count * making
    print(f"  of these {made:.0f} make the data; the rest is {(used - made) / product:.1f} bare products")
    print(f"  the bare product alone: {workers * block / bare:,.0f} rows a second on {workers} cores")
    print(f"  peak memory of the workers {', '.join(f'{peak / 2**30:.2f} GiB' for peak in peaks.values())}")


def _processor_seconds(block: int, inputs: int) -> tuple[float, float]:
    """Of making one block and of the bare product; what the triangle takes is printed."""
    X, y = _block(0, block, inputs)
    bare = min(_timed(lambda: X.T @ X) for _ in range(5))
    making = min(_timed(lambda: _block(1, block, inputs)) for _ in range(3))
    triangle = min(_timed(lambda: Triangle.of(X, y[:, None])) for _ in range(3))
    print(f"processor seconds of a block of {block:,} × {inputs}: making it {making:.2f}")
    print(f"  the bare product {bare:.3f}, the triangle {triangle:.3f}", flush=True)
    return making, bare


def _generated(count: int, block: int, inputs: int):
    """X and y as dask arrays of so many blocks."""
    import dask.array as da
    from dask.delayed import delayed

    pairs = [delayed(_block, nout=2)(seed, block, inputs) for seed in range(count)]
    X = da.concatenate([da.from_delayed(pair[0], (block, inputs), float) for pair in pairs])
    return X, da.concatenate([da.from_delayed(pair[1], (block,), float) for pair in pairs])


def _progress(total: int):
    """Prints how many blocks are summarised, ten times."""
    from distributed import SchedulerPlugin

    class Progress(SchedulerPlugin):
        name, done, began = "progress", 0, time.perf_counter()

        def transition(self, key, start, finish, *args, **kwargs):
            if finish == "memory" and start == "processing" and "_triangle_of" in str(key):
                self.done += 1
                if self.done * 10 // total > (self.done - 1) * 10 // total:
                    print(
                        f"  {self.done} of {total} blocks after {time.perf_counter() - self.began:.0f} s",
                        flush=True,
                    )

    return Progress()


def _timed(work) -> float:
    """Processor time: the machine may be shared."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _peak() -> int:
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(repeats: int = 3) -> None:
    accuracy()
    throughput(200_000, 500, 2, "2GiB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_data")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--inputs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--accuracy", action="store_true", help="the table of errors only")
    options = parser.parse_args()
    print(conditions())
    if options.accuracy:
        accuracy()
    else:
        throughput(options.rows, options.inputs, options.workers, options.memory)


if __name__ == "__main__":
    main()
