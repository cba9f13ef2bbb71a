"""Whole posteriors: time against Gram + eigh, agreement with NumPy."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.gpu.devices import BETA, device, finish, problem, timed, warm


def whole(library: str, small: bool) -> dict[str, Any]:
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
