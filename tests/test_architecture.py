"""Imports flow one way: a module imports only modules that come before it in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "lbnn"

#: The order of import as docs/architecture.md states it: the block after the heading "Import order".
ORDER = tuple(
    re.search(
        r"## Import order.*?```text\n(.*?)```",
        (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )[1].split()
)

#: What a room may know nothing of, whatever the order (docs/architecture.md, the table of rooms).
STRANGERS = {
    "spectrum": {"scale_prior", "likelihood", "engines", "network"},
    "scale_prior": {"spectrum", "likelihood", "projection"},
    "likelihood": {"scale_prior", "spectrum", "engines"},
    "scale_measure": {"scale_prior", "spectrum", "engines"},
    "engines": {"spectrum", "projection", "conditional", "predictive", "feature_kernel"},
    "predictive": {"spectrum", "scale_prior", "engines"},
    "feature_kernel": {"spectrum", "scale_prior", "engines"},
}


def module_name(file: Path) -> str:
    """`engines/atom.py` is `engines.atom`; a package's `__init__.py` has the package's name."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "lbnn"


MODULES = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def imports(name: str) -> set[str]:
    """The modules of lbnn that a module imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import; the house writes them out"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    inside = {each.removeprefix("lbnn.") for each in found if each == "lbnn" or each.startswith("lbnn.")}
    return {each for each in inside if each in MODULES} - {name, "lbnn"}


def place(name: str) -> int:
    """Position in the order; a package listed by its name alone stands for its modules."""
    while name not in ORDER and "." in name:
        name = name.rpartition(".")[0]
    return ORDER.index(name)


@pytest.mark.parametrize("name", MODULES)
def test_module_has_a_place(name):
    assert name in ORDER or name.partition(".")[0] in ORDER, (
        f"{name} is new: give it a place in the import order in docs/architecture.md"
    )


@pytest.mark.parametrize("name", MODULES)
def test_module_imports_only_earlier_ones(name):
    later = {each for each in imports(name) if place(each) > place(name)}
    assert not later, f"{name} imports {sorted(later)}, which come after it in docs/architecture.md"


@pytest.mark.parametrize(("room", "strangers"), STRANGERS.items())
def test_room_knows_nothing_of(room, strangers):
    for name in MODULES:
        if name.partition(".")[0] == room:
            known = {each.partition(".")[0] for each in imports(name)} & strangers
            assert not known, f"{name} imports {sorted(known)}"


def test_order_names_no_module_twice():
    assert len(set(ORDER)) == len(ORDER)
