"""Pareto smoothed importance sampling by ArviZ: writes psis.json. ArviZ is no dependency of the project.

    python -m venv /tmp/arviz && /tmp/arviz/bin/pip install arviz==0.23.4
    PYTHONPATH=. /tmp/arviz/bin/python -m tests.reference.make_psis

Log weights k E with E standard exponential have a Pareto tail of shape k; normal ones a lighter tail.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np

PSIS = Path(__file__).with_name("psis.json")
#: name: (law, spread of the log weights, number). ArviZ takes ⌈3√m⌉ weights as the tail, the library ⌊3√m⌋;
#: the tails are the same where √m is an integer.
CASES = {
    "bounded": ("uniform", 1.0, 900),
    "light": ("exponential", 0.2, 1600),
    "middle": ("exponential", 0.5, 2500),
    "heavy": ("exponential", 0.9, 400),
    "hopeless": ("exponential", 2.0, 10_000),
    "normal": ("normal", 1.5, 4900),
    "few": ("exponential", 0.5, 100),  # a fifth of them
    "uneven root": ("exponential", 0.6, 1000),
}


def log_weights(name: str) -> np.ndarray:
    """The weights before smoothing, rounded, so that the last digits of a logarithm do not matter."""
    law, spread, number = CASES[name]
    random = np.random.default_rng(list(CASES).index(name))
    draws = {
        "uniform": random.uniform,
        "exponential": random.standard_exponential,
        "normal": random.standard_normal,
    }
    return np.round(spread * draws[law](size=number), 9)


def main() -> None:
    """Needs ArviZ."""
    import arviz
    import scipy

    cases = {}
    for name in CASES:
        smoothed, shape = arviz.psislw(log_weights(name))
        cases[name] = {
            "sum": float(log_weights(name).sum()),  # of the weights before, to notice other random streams
            "pareto_k": float(shape),
            "largest": sorted(map(float, np.asarray(smoothed)))[::-1][:20],  # log weights, normalised
        }
    versions = {"arviz": arviz.__version__, "numpy": np.__version__, "scipy": scipy.__version__}
    document = {"versions": versions | {"python": platform.python_version()}, "cases": cases}
    PSIS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
