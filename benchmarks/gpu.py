"""lbnn on a GPU: `python3 -m benchmarks.gpu --out FILE.json`, about five minutes on one H200.

Each row runs in a process of its own under a time limit, prints its result and adds it to the file at once.
Needs NumPy, SciPy and one of PyTorch, CuPy and JAX with a GPU; `--small` takes small sizes and any device, to
try the script itself.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("torch", "cupy", "jax")
ATOMS = ((3, 8192), (20, 1024), (50, 1024), (100, 256))  # outputs, atoms
SMALL_ATOMS = ((3, 512), (20, 32))
BETA = 4.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="small sizes, any device")
    parser.add_argument("--only", default="", help="comma-separated beginnings of names of rows")
    parser.add_argument("--row", nargs=2, metavar=("NAME", "LIBRARY"), help="one row, in this process")
    options = parser.parse_args()
    if options.row:
        prepare()
        print("RESULT " + json.dumps(ROWS[options.row[0]][0](options.row[1], options.small)))
        return
    results = {"conditions": conditions(), "rows": []}
    provide_metadata()
    for name, library, limit in plan(options.only, options.small):
        started = time.perf_counter()
        answer = in_process(name, library, limit, options.small)
        row = {"row": name, "library": library, "wall": round(time.perf_counter() - started, 1), **answer}
        print(json.dumps(row), flush=True)
        results["rows"].append(row)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


def plan(only: str, small: bool) -> Iterator[tuple[str, str, float]]:
    """Rows for libraries that are there: those over atoms for each of them, others for the first."""
    there = [library for library in LIBRARIES if available(library, small)]
    if not there:
        sys.exit("none of torch, cupy and jax with a GPU is installed here: try --small")
    for name, (_, limit, every) in ROWS.items():
        if any(name.startswith(part) for part in only.split(",")):
            yield from ((name, library, limit) for library in (there if every else there[:1]))


def in_process(name: str, library: str, limit: float, small: bool) -> dict[str, Any]:
    """The result of one row, or what went wrong with it."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--out", os.devnull, "--row", name, library]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment = os.environ | {"PYTHONPATH": paths} | (threads if "atoms" in name else {})
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


# ------------------------------------------------------------------------------------------- libraries


def prepare() -> None:
    """SciPy's copy of array-api-compat where the package itself is not installed."""
    if importlib.util.find_spec("array_api_compat"):
        return
    for name in ("scipy._external.array_api_compat", "scipy._lib.array_api_compat"):
        try:
            sys.modules["array_api_compat"] = importlib.import_module(name)
        except ImportError:
            continue
        for part in ("torch", "cupy"):
            with contextlib.suppress(ImportError):
                sys.modules[f"array_api_compat.{part}"] = importlib.import_module(f"{name}.{part}")
        return


def available(library: str, small: bool) -> bool:
    """Whether a library is installed and sees a GPU; asked in another process."""
    ask = {
        "torch": "import torch; assert torch.cuda.is_available()",
        "cupy": "import cupy; assert cupy.cuda.runtime.getDeviceCount()",
        "jax": "import jax; assert jax.default_backend() == 'gpu'",
    }[library]
    command = f"import {library}" if small else ask
    return subprocess.run([sys.executable, "-c", command], capture_output=True).returncode == 0


def device(library: str) -> Any:
    """The place of arrays of a library: the GPU if there is one."""
    from lbnn._base.arrays import place_of

    if library == "jax":
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        jax = importlib.import_module("jax")
        jax.config.update("jax_enable_x64", True)
        return place_of(jax.numpy.zeros(1))
    if library == "cupy":
        return place_of(importlib.import_module("cupy").zeros(1))
    torch = importlib.import_module("torch")
    return place_of(torch.zeros(1, device="cuda" if torch.cuda.is_available() else "cpu"))


def normal(place: Any, seed: int, *shape: int) -> Any:
    """Standard normal numbers made where they are needed."""
    if place.library == "torch":
        torch = importlib.import_module("torch")
        generator = torch.Generator(device=place.device).manual_seed(seed)
        return torch.randn(shape, dtype=torch.float64, device=place.device, generator=generator)
    if place.library == "cupy":
        return importlib.import_module("cupy").random.default_rng(seed).standard_normal(shape)
    jax = importlib.import_module("jax")
    return jax.random.normal(jax.random.key(seed), shape, dtype=jax.numpy.float64)


def finish(place: Any, array: Any) -> None:
    """Wait until an array has been computed."""
    from lbnn._base.arrays import to_numpy

    to_numpy(array.reshape(-1)[:1])


def timed(work: Callable[[], Any], place: Any, repeats: int = 1) -> tuple[float, Any]:
    """Least seconds of a few runs, and the last result, which is an array or a tuple that begins with one."""
    best, result = float("inf"), None
    for _ in range(repeats):
        result = None
        started = time.perf_counter()
        result = work()
        finish(place, result[0] if isinstance(result, tuple) else result)
        best = min(best, time.perf_counter() - started)
    return best, result


# ------------------------------------------------------------------------------------------- rows


def problem(place: Any, examples: int, inputs: int, outputs: int, tests: int = 1000) -> tuple[Any, Any, Any]:
    """X, Y and X_test on the device: a linear teacher with noise."""
    X, X_test = normal(place, 0, examples, inputs), normal(place, 1, tests, inputs)
    noise = 0.5 * normal(place, 3, examples, outputs)
    return X, X @ normal(place, 2, inputs, outputs) / inputs**0.5 + noise, X_test


def warm(place: Any) -> None:
    """Load the device's libraries."""
    import lbnn

    X, Y, X_test = problem(place, 300, 400, 4, 10)
    prediction = lbnn.Network((50,)).condition(X, Y, BETA).predict(X_test)
    finish(place, prediction.variance)


def posterior(library: str, small: bool) -> dict[str, Any]:
    """Whole posterior with mean and variance at 1,000 points, n_d = 4, against Gram + eigh."""
    import lbnn

    place = device(library)
    warm(place)
    examples = 500 if small else 20_000
    X, Y, X_test = problem(place, examples, examples, 4)
    xp = place.xp
    floor, _ = timed(lambda: tuple(xp.linalg.eigh(X @ X.T / examples)), place)
    print(f"floor {floor:.2f} s", flush=True)
    network, started = lbnn.Network((50,)), time.perf_counter()
    post = network.condition(X, Y, BETA)
    fit = time.perf_counter() - started
    prediction = post.predict(X_test)
    finish(place, prediction.mean), finish(place, prediction.variance)
    whole = time.perf_counter() - started
    engine = time.perf_counter()
    network.condition_spectrum(post.spectrum, BETA)
    engine = time.perf_counter() - engine
    single = time.perf_counter()
    one = lbnn.Network((50, 50)).condition(X, Y[:, 0], BETA).predict(X_test)
    finish(place, one.mean), finish(place, one.variance)
    single = time.perf_counter() - single
    return {
        "p": examples,
        "floor": floor,
        "whole": whole,
        "ratio": whole / floor,
        "fit": fit,
        "engine alone": engine,
        "one output, depth three, whole": single,
        "ok": post.diagnostics.ok,
    }


def agreement(library: str, small: bool) -> dict[str, Any]:
    """The device's answers against NumPy's on the same numbers: differences relative to the largest entry."""
    import numpy as np

    import lbnn
    from lbnn._base.arrays import to_numpy

    place = device(library)
    warm(place)
    examples = 400 if small else 5_000
    X, Y, X_test = problem(place, examples, examples + examples // 5, 4)
    result: dict[str, Any] = {"p": examples}
    started = time.perf_counter()
    host = lbnn.Spectrum.from_inputs(to_numpy(X), to_numpy(Y))
    result["NumPy spectrum, all cores, s"] = time.perf_counter() - started
    there = lbnn.Spectrum.from_inputs(X, Y)
    for name, outputs, widths in (("one output", 1, (50, 50)), ("four outputs", 4, (50,))):
        answers = []
        for spectrum, points in ((host, to_numpy(X_test)), (there, X_test)):
            data = spectrum if outputs == 4 else first_output(spectrum)
            post = lbnn.Network(widths).condition_spectrum(data, BETA)
            law = post.predict(points)
            answers.append([np.asarray(post.log_evidence), to_numpy(law.mean), to_numpy(law.variance)])
        for part, a, b in zip(("log evidence", "mean", "variance"), *answers, strict=True):
            result[f"{name}: {part}"] = float(np.abs(a - b).max() / np.abs(a).max())
    return result


def first_output(spectrum: Any) -> Any:
    import dataclasses

    outside = spectrum.outside[:, :1]
    return dataclasses.replace(
        spectrum,
        targets=spectrum.targets[:, :1],
        residual=float((outside**2).sum()),
        outside=outside,
        single_output=True,
    )


def atoms(library: str, small: bool) -> dict[str, Any]:
    """Value and gradient of the log posterior over atoms, against NumPy on one core."""
    import numpy as np

    from lbnn._base.arrays import HOST
    from lbnn.engines import target as module

    place = device(library)
    warm(place)
    result: dict[str, Any] = {}
    for outputs, count in SMALL_ATOMS if small else ATOMS:
        host, there = (scale_target(where, outputs) for where in (HOST, place))
        u = np.random.default_rng(0).standard_normal((count, host.dimension))
        module._WORTH_MOVING = 0.0
        there.value_and_gradient(u), there.value_and_gradient(u)
        device_time, (value, gradient) = min_seconds(lambda: there.value_and_gradient(u), 5)  # noqa: B023
        few = max(1, count // 16)  # NumPy's time is proportional to the number of atoms
        host_time, (host_value, host_gradient) = min_seconds(lambda: host.value_and_gradient(u[:few]), 2)  # noqa: B023
        points = place.put(u)
        factors = host.coordinates.factors(points)[0]
        grams = factors @ place.xp.matrix_transpose(factors)
        eigen, _ = timed(lambda: place.xp.linalg.eigh(grams)[0], place, 3)  # noqa: B023
        result[f"{outputs} x {count}"] = {
            "device ms": 1e3 * device_time,
            "one core ms": 1e3 * host_time * count / few,
            "ratio": host_time * count / few / device_time,
            "eigh alone on the device ms": 1e3 * eigen,
            "value differs by": float(np.abs(value[:few] / host_value - 1).max()),
            "gradient differs by": float(
                np.abs(gradient[:few] - host_gradient).max() / np.abs(host_gradient).max()
            ),
        }
        print(outputs, count, result[f"{outputs} x {count}"], flush=True)
    return result


def scale_target(place: Any, outputs: int, examples: int = 0, width: int = 0) -> Any:
    """The posterior of L in its coordinates, for data at a place."""
    import numpy as np

    import lbnn
    from lbnn.engines.bartlett_sampling import principal_axes
    from lbnn.engines.target import ScaleTarget
    from lbnn.noise.independent import IndependentNoise

    rng, size = np.random.default_rng(1), examples or max(200, 4 * outputs)
    X, Y = rng.standard_normal((size, size + 20)), rng.standard_normal((size, outputs))
    spectrum = lbnn.Spectrum.from_inputs(place.put(X), place.put(Y))
    likelihood = IndependentNoise(1 / BETA).likelihood(spectrum)
    widths = (width or 4 * outputs,)
    axes = principal_axes(likelihood.gradient_weights[:, None] * likelihood.targets, widths)
    return ScaleTarget(lbnn.Network(widths).scale_prior(outputs).coordinates, likelihood, axes)


def min_seconds(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    best, result = float("inf"), None
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - started)
    return best, result


def factor(library: str, small: bool) -> dict[str, Any]:
    """One output, depth three, mean and variance at 1,000 points: eigenvectors against factorisations."""
    import numpy as np

    import lbnn
    from lbnn._base.arrays import to_numpy

    place, network = device(library), lbnn.Network((50, 50))
    warm(place)
    result: dict[str, Any] = {}
    sizes = (600, 1000) if small else (5_000, 10_000, 20_000, 30_000, 50_000)
    for examples in sizes:
        inputs, row, answers = min(examples, 20_000), {}, {}
        X, Y, X_test = problem(place, examples, inputs, 1)
        for decompose in ("factor", "eigh") if examples < 50_000 else ("factor",):
            started = time.perf_counter()
            spectrum = lbnn.Spectrum.from_inputs(X, Y[:, 0], decompose=decompose)
            data = time.perf_counter() - started
            post = network.condition_spectrum(spectrum, BETA)
            law = post.predict(X_test)
            answers[decompose] = [np.asarray(post.log_evidence), to_numpy(law.mean), to_numpy(law.variance)]
            row[f"{decompose} s"] = time.perf_counter() - started
            row[f"{decompose}: Gram and survey or eigh s"] = data
            if decompose == "factor":
                row["nodes"] = (
                    len(post.spectrum.nodes) if hasattr(post.spectrum, "nodes") else "fell back to eigh"
                )
            del spectrum, post, law
        if "eigh" in answers:
            row["ratio"] = row["eigh s"] / row["factor s"]
            for part, a, b in zip(("log evidence", "mean", "variance"), *answers.values(), strict=True):
                row[f"{part} differs by"] = float(np.abs(a - b).max() / np.abs(a).max())
        result[f"p = {examples}, n0 = {inputs}"] = row
        print(examples, row, flush=True)
        del X, Y, X_test
    return result


def many_profile(library: str, small: bool) -> dict[str, Any]:
    """n_d = 1000, n_1 = 4000, p = 2000: what one gradient costs, and the search for the mode."""
    import numpy as np

    from lbnn.engines import target as module
    from lbnn.engines.laplace import find_mode

    place = device(library)
    warm(place)
    module._WORTH_MOVING = 0.0
    outputs, examples, width = (40, 80, 160) if small else (1000, 2000, 4000)
    started = time.perf_counter()
    target = scale_target(place, outputs, examples, width)
    result: dict[str, Any] = {"coordinates": target.dimension, "spectrum s": time.perf_counter() - started}
    u = np.random.default_rng(0).standard_normal((4, target.dimension))
    target.value_and_gradient(u[:1])
    result["gradient, one atom, s"] = min_seconds(lambda: target.value_and_gradient(u[:1]), 3)[0]
    result["gradient, four atoms, s"] = min_seconds(lambda: target.value_and_gradient(u), 2)[0]
    total = place.put(np.tril(np.random.default_rng(1).standard_normal((outputs, outputs))))
    result["eigh of one L, s"] = timed(lambda: place.xp.linalg.eigh(total @ total.T)[0], place, 3)[0]
    print(result, flush=True)
    started = time.perf_counter()
    mode = find_mode(target, np.zeros(target.dimension))
    result["mode by L-BFGS s"] = time.perf_counter() - started
    gradient = target.value_and_gradient(mode[None])[1][0]
    result["largest slope left at the mode"] = float(np.abs(gradient).max())
    result["dense curvature would take GB"] = 8e-9 * target.dimension**2
    return result


def many_outputs(library: str, small: bool) -> dict[str, Any]:
    """n_d = 1000, n_1 = 4000, p = 2000: the posterior as `condition` finds it."""
    import warnings

    import lbnn

    place = device(library)
    warm(place)
    outputs, examples, width = (40, 80, 160) if small else (1000, 2000, 4000)
    X, Y, _ = problem(place, examples, examples + 500, outputs, 10)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = lbnn.Network((width,)).condition(X, Y, BETA)
    seconds = time.perf_counter() - started
    diagnostics = post.diagnostics
    return {
        "seconds": seconds,
        "ok": diagnostics.ok,
        "engine": diagnostics.engine,
        "effective draws": diagnostics.effective_sample_size,
        "messages": list(diagnostics.messages),
    }


#: Each row: what it runs, its time limit in seconds, and whether it is run with every library.
ROWS: dict[str, tuple[Callable[[str, bool], dict[str, Any]], float, bool]] = {
    "posterior": (posterior, 75.0, False),
    "agreement": (agreement, 75.0, False),
    "atoms": (atoms, 75.0, True),
    "factor": (factor, 120.0, False),
    "many outputs, profile": (many_profile, 75.0, False),
    "many outputs, posterior": (many_outputs, 60.0, False),
}


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
        "gpu": said(card),
        "cpu cores": os.cpu_count(),
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
