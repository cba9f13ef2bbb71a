"""Array functions of the core have docstrings that name shapes; folders name every module that they hold."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.code_size import (
    CORE,
    Count,
    Definition,
    Docstrings,
    count,
    handles_arrays,
    names_shapes,
    tokens,
    walk,
)

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "lbnn"
COUNTS = count(PACKAGE)
FOLDERS = sorted(file.parent for file in PACKAGE.glob("*/__init__.py"))


@pytest.mark.parametrize("folder", [name for name in CORE if name in COUNTS])
def test_array_functions_have_docstrings_that_name_shapes(folder):
    """`python -m benchmarks.code_size` counts them; the docstring of an overridden method counts, too."""
    found: Count = COUNTS[folder]
    allowed = max(2, 0.02 * found.array_functions)  # zero at the time of writing
    assert found.without_docstring <= allowed
    assert found.without_shape <= allowed


def test_the_count_finds_what_it_is_for():
    tree = ast.parse(
        "class A:\n"
        "    def f(self, x: Array) -> Array:\n        '''Of (m, k).'''\n"
        "    def g(self, x: Array) -> Array:\n        '''Nothing (of use).'''\n"
        "class B(A):\n"
        "    def f(self, x: Array) -> Array: ...\n"
        "    def g(self, x: Array) -> Array: ...\n"
        "def h(names: dict[str, Array]) -> None: ...\n"
    )
    docstrings = Docstrings([tree])
    methods = {
        (node.name, each.name): Definition(each, node.name)
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for each in node.body
    }
    named = {key: names_shapes(docstrings.of(each)) for key, each in methods.items()}
    assert named == {("A", "f"): True, ("A", "g"): False, ("B", "f"): True, ("B", "g"): False}
    assert not handles_arrays(tree.body[-1])


def test_tokens_are_those_of_code_alone():
    text = "'''A module.'''\ndef f(x):  # of two\n    '''What it does,\n    at length.'''\n    return x + 1\n"
    assert tokens(text, ast.parse(text)) == 10  # def f ( x ) : return x + 1


def test_a_walk_counts_the_functions_of_a_folder_alone():
    tree = ast.parse("x = 1\n")
    assert walk(lambda: tokens("x = 1\n", tree), ROOT / "benchmarks") == (2, 1)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_folder_and_architecture_name_every_module(folder):
    """The docstring of the folder, or that of a subfolder, and the table of docs/architecture.md."""
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| `{folder.name}` |"))
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__", "__main__"}
    modules |= {file.parent.name for file in folder.glob("*/__init__.py")}
    unnamed = {name for name in modules if f"`{name}`" not in said and f"`{name}`" not in row}
    assert not unnamed, f"{folder.name} does not name {sorted(unnamed)}"
