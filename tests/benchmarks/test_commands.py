"""Every file of benchmarks is run by `python -m benchmarks`, has a command line, or serves those that do."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.__main__ import MEASURED_HERE, OWN_COMMAND_LINE

FOLDER = Path(__file__).parents[2] / "benchmarks"
SERVING = {"__init__", "__main__", "many_output_tables", "nuts", "release_tasks", "timing"}


def functions(name: str) -> set[str]:
    """Top-level functions of a benchmark, without importing it (its peers may not be installed)."""
    tree = ast.parse((FOLDER / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", MEASURED_HERE)
def test_what_make_bench_runs_can_be_run(name):
    assert "run" in functions(name)


@pytest.mark.parametrize("name", OWN_COMMAND_LINE)
def test_longer_ones_have_a_command_line(name):
    assert "main" in functions(name)


def test_no_file_is_forgotten():
    files = {path.stem for path in FOLDER.glob("*.py")}
    assert files == SERVING | set(MEASURED_HERE) | set(OWN_COMMAND_LINE) - {"gpu.__main__", "real_data.study"}
