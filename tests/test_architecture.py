"""Folders in the order of docs/architecture.md, imports one way, no algorithm in an `__init__`."""

from __future__ import annotations

import ast
import functools
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "lbnn"

#: The folders in the order of import, as docs/architecture.md lists them after the heading "Import order".
ORDER = tuple(
    re.search(
        r"## Import order.*?```text\n(.*?)```",
        (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )[1].split()
)

#: Files that stand at the top of the package: everything else is in a folder.
TOP = {"__init__", "network", "posterior", "asymptotics", "convergence"}

#: Public modules that hold names and nothing else.
THIN = {"asymptotics", "convergence"}

#: What a folder or a module may not import, whatever the order (docs/architecture.md, the table of folders).
STRANGERS = {
    "scale": {"data"},
    "likelihood.gaussian": {"scale", "data"},
    "likelihood.root": {"scale", "data"},
    "scale.measure": {"scale.prior"},
    "engines": {"data", "noise"},
    "predict": {"engines", "noise"},
    "predict.part": {"data.spectrum", "scale.prior"},
    "predict.feature_kernel": {"data.spectrum", "scale.prior"},
    "matrix_gig": {"data.spectrum", "noise", "predict"},
    "selection": {"theories", "cross_validation"},
    "archive": {"predict"},
}


def module_name(file: Path) -> str:
    """`engines/smc.py` is `engines.smc`; a package's `__init__.py` has the package's name."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "lbnn"


MODULES = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}
NAMES_ONLY = sorted(name for name, file in MODULES.items() if file.name == "__init__.py" or name in THIN)


def folder(name: str) -> str:
    return name.partition(".")[0]


def within(name: str, place: str) -> bool:
    """Whether a module is the place or in it."""
    return name == place or name.startswith(f"{place}.")


@functools.cache
def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


@functools.cache
def imports(name: str) -> set[str]:
    """The modules of lbnn that a module imports, wherever in the file."""
    found = set()
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import; write the whole name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    inside = {each.removeprefix("lbnn.") for each in found if each == "lbnn" or each.startswith("lbnn.")}
    return {each for each in inside if each in MODULES} - {name, "lbnn"}


def test_every_folder_is_listed_once_and_exists():
    assert len(set(ORDER)) == len(ORDER)
    assert {folder(name) for name in MODULES} == set(ORDER), "list every folder in docs/architecture.md"


def test_only_folders_and_public_modules_at_the_top():
    assert {file.stem for file in PACKAGE.glob("*.py")} == TOP
    assert {file.name for file in PACKAGE.iterdir() if file.is_file()} - {"py.typed"} == {
        f"{name}.py" for name in TOP
    }
    assert all((file.parent / "__init__.py").exists() for file in MODULES.values())


@pytest.mark.parametrize("name", MODULES)
def test_module_imports_only_earlier_folders(name):
    later = {each for each in imports(name) if ORDER.index(folder(each)) > ORDER.index(folder(name))}
    assert not later, f"{name} imports {sorted(later)}, which come after it in docs/architecture.md"


def test_no_circle_within_a_folder():
    """Importing names by way of a folder's `__init__` counts as importing the folder."""
    graph = {name: {each for each in imports(name) if folder(each) == folder(name)} for name in MODULES}
    for name in graph:  # a module does not wait for the `__init__` of its own folder
        graph[name] -= {each for each in graph[name] if within(name, each)}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(f"modules import each other: {' -> '.join(circle.args[1])}")


@pytest.mark.parametrize(("place", "strangers"), STRANGERS.items())
def test_folder_does_not_import(place, strangers):
    inside = [name for name in MODULES if within(name, place)]
    assert inside, f"{place} is gone: bring STRANGERS up to date"
    for name in inside:
        known = {each for each in imports(name) for stranger in strangers if within(each, stranger)}
        assert not known, f"{name} imports {sorted(known)}"


@pytest.mark.parametrize("name", NAMES_ONLY)
def test_holds_names_and_no_algorithm(name):
    """A docstring, imports, assignments; functions only where Python asks for them (`__getattr__`)."""
    body = tree(name).body
    assert ast.get_docstring(tree(name)), f"{name} does not say what it holds"
    made = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    assert {node.name for node in made} <= {"__getattr__", "__dir__"}, f"{name} defines {made}"
    loops = [node for node in body if isinstance(node, ast.For | ast.While | ast.With | ast.Try)]
    assert not loops, f"{name} does something when it is imported"


@pytest.mark.parametrize("folder", sorted(file.parent.name for file in PACKAGE.glob("*/__init__.py")))
def test_folder_says_what_it_may_know(folder):
    said = ast.get_docstring(tree(folder)) or ""
    assert re.search("Imports|Knows", said), f"{folder} does not say what it imports"
