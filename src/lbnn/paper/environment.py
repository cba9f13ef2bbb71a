"""What a reader needs to repeat a run: versions, machine, seed, date, duration."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

import lbnn
from lbnn._base.checkout import commit as commit

LIBRARIES = ("numpy", "scipy", "matplotlib", "jinja2", "latex2mathml")


@dataclass(frozen=True)
class Environment:
    """One run of the report."""

    seed: int
    quick: bool
    seconds: float

    def rows(self) -> dict[str, str]:
        """Names and values as the page prints them."""
        versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        rows = {
            "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "Duration": f"{self.seconds:.0f} s",
            "Seed": str(self.seed),
            "Monte Carlo draws": "a tenth (--quick)" if self.quick else "all",
            "Versions": ", ".join([f"lbnn {lbnn.__version__}", *versions]),
            "Python": f"{platform.python_implementation()} {platform.python_version()}",
            "Machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
            "Linear algebra": f"{blas['name']} {blas['version']}",
        }
        return rows | ({"Commit": commit()} if commit() else {})
