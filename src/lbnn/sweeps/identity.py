"""What makes two sweeps the same: axes, functions by their code, quantities, version."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Callable
from importlib import metadata
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
    """Where two specifications differ, both sides shown."""
    left, right = json.loads(ours), json.loads(theirs)
    lines = [
        f"{name}: the store has {_short(right.get(name))}, this sweep {_short(left.get(name))}"
        for name in dict.fromkeys([*right, *left])
        if left.get(name) != right.get(name)
    ]
    return "; ".join(lines)


def provenance(commit: str) -> dict[str, str]:
    """With what a store was made."""
    versions = {name: metadata.version(name) for name in ("lbnn", "numpy", "scipy", "zarr")}
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    made = {**versions, "python": platform.python_version(), "blas": f"{blas['name']} {blas['version']}"}
    return made | ({"commit": commit} if commit else {})


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
