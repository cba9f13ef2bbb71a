"""What makes two sweeps the same: axes, functions by their code, quantities, version."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np


def specification(
    axes: dict[str, tuple[Any, ...]], functions: dict[str, Any], quantities: dict[str, str], settings: Any
) -> str:
    """A sweep as JSON text: two with the same text fill a store with the same numbers."""
    about = {
        "lbnn": metadata.version("lbnn"),
        "axes": {name: list(values) for name, values in axes.items()},
        **{name: signature(function) for name, function in functions.items()},
        "quantities": quantities,
        **settings,
    }
    return json.dumps(about, indent=1, ensure_ascii=False)


def differences(ours: str, theirs: str) -> str:
    """Where two specifications differ, both sides shown; of the axes those that do."""
    left, right = json.loads(ours), json.loads(theirs)
    axes = differences_between(_named(right.pop("axes", {})), _named(left.pop("axes", {})))
    return "; ".join(part for part in (axes, differences_between(right, left)) if part)


def differences_between(
    right: dict[str, Any], left: dict[str, Any], sides: tuple[str, str] = ("the store has", "this sweep")
) -> str:
    """Entries of two descriptions that differ, those of a store and of a sweep unless `sides` says others."""
    names = [name for name in dict.fromkeys([*right, *left]) if left.get(name) != right.get(name)]
    if list(right) != list(left) and not names:
        return f"the order: {sides[0]} {', '.join(right)}, {sides[1]} {', '.join(left)}"
    return "; ".join(_difference(name, right.get(name), left.get(name), sides) for name in names)


def _named(axes: dict[str, Any]) -> dict[str, Any]:
    return {f"axis {name}": values for name, values in axes.items()}


def _difference(name: str, theirs: Any, ours: Any, sides: tuple[str, str]) -> str:
    """Both sides of one entry; of long lists from the first value that differs."""
    where = ""
    if isinstance(theirs, list) and isinstance(ours, list):
        pairs = enumerate(zip(theirs, ours, strict=False))
        first = next((n for n, (a, b) in pairs if a != b), min(len(theirs), len(ours)))
        if first > _SHOWN_BEFORE:
            start = first - _SHOWN_BEFORE
            where = f" from value {start + 1} on"
            theirs, ours = theirs[start:], ours[start:]
    return f"{name}{where}: {sides[0]} {_short(theirs)}, {sides[1]} {_short(ours)}"


#: What a number of the sweep depends on beside its specification.
_COMPARED = ("lbnn", "source", "numpy", "scipy", "blas")
#: Folders of the package that no number of a sweep depends on.
_NOT_COMPUTED_WITH = {"archive", "benchmark", "cli", "estimator", "explore", "paper", "plots"}
_SHOWN_BEFORE = 1  # values of a long list that are shown before the first that differs


def compared(provenance: dict[str, str]) -> dict[str, str]:
    """The part of a provenance that numbers depend on."""
    return {name: provenance.get(name, "unknown") for name in _COMPARED}


def provenance(commit: str) -> dict[str, str]:
    """With what a store was made."""
    versions = {name: metadata.version(name) for name in ("lbnn", "numpy", "scipy", "zarr")}
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    made = {
        **versions,
        "source": source_digest(),
        "python": platform.python_version(),
        "blas": f"{blas['name']} {blas['version']}",
    }
    return made | ({"commit": commit} if commit else {})


@functools.cache
def source_digest() -> str:
    """A digest of the code that sweeps run: also in a checkout with changes, and without Git."""
    package = Path(__file__).resolve().parent.parent
    found = hashlib.blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if inside.parts[0] not in _NOT_COMPUTED_WITH:
            found.update(inside.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def signature(thing: Any) -> str:
    """A function's name and a digest of its code; a plain value as it is written.

    Values that a function closes over, and its defaults, count where they are plain; what its globals hold
    does not.
    """
    if thing is None or isinstance(thing, bool | int | float | str):
        return repr(thing)
    name = getattr(thing, "__qualname__", type(thing).__name__)
    return f"{name} #{hashlib.blake2b(_contents(thing).encode(), digest_size=6).hexdigest()}"


def _contents(thing: Any) -> str:
    if isinstance(thing, functools.partial):
        bound = [_plain(each) for each in (*thing.args, *sorted(thing.keywords.items()))]
        return f"{_contents(thing.func)}{bound}"
    function: Callable[..., Any] = getattr(thing, "__func__", thing)
    code = getattr(function, "__code__", None)
    if code is None:
        called = getattr(getattr(thing, "__call__", None), "__func__", None)  # noqa: B004
        return "" if called is None else _code(called.__code__) + _plain(vars(thing))
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    kept = [*(getattr(function, "__defaults__", None) or ()), *cells]
    return _code(code) + repr([_plain(value) for value in kept])


def _code(code: CodeType) -> str:
    """Instructions, names and constants; not the lines where they stand."""
    constants = [_constant(each) for each in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, constants))


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _code(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _plain(value: Any) -> str:
    """Plain values by what they are, others by their type."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, np.ndarray):
        return hashlib.blake2b(value.tobytes(), digest_size=6).hexdigest()
    if isinstance(value, list | tuple | set | frozenset):
        return repr([_plain(each) for each in value])
    if isinstance(value, dict):
        return repr([(name, _plain(each)) for name, each in value.items()])
    return _contents(value) if callable(value) else type(value).__qualname__


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 120 else f"{text[:80]} … ({len(text)} characters)"
