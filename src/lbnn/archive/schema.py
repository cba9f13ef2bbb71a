"""Dataclasses as plain numbers, lists and named arrays, and back.

A dataclass becomes a dict of its fields with the name of its class, an array a reference to its name: the
fields that lead to it. An array that stands in two places is stored once. What comes back has the types that
the fields declare, or a ValueError names what does not.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from lbnn._base.arrays import to_numpy
from lbnn._base.types import IndexArray, Mask

Packed = tuple[dict[str, Any], dict[str, NDArray[Any]]]


def packed(**parts: Any) -> Packed:
    """A header for JSON and arrays; arrays of other libraries are stored, and come back, as NumPy."""
    arrays: dict[str, Any] = {}
    header = {name: _tree(part, name, arrays) for name, part in parts.items()}
    return header, {name: to_numpy(array) for name, array in arrays.items()}


def _tree(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    """A value as it stands in a header; its arrays are added to those that there are."""
    if is_dataclass(value):
        content = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        return _tree(content, path, arrays) | {"class": type(value).__name__}
    if isinstance(value, dict):
        return {key: _tree(each, f"{path}.{key}", arrays) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_tree(each, f"{path}.{number}", arrays) for number, each in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    name = next((known for known, array in arrays.items() if array is value), path)
    arrays[name] = value
    return {"array": name}


def unpacked(tree: Any, hint: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """The value of that type that was packed; any exception where there is none."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if isinstance(tree, dict) and "array" in tree:
        array = arrays[tree["array"]]
        expected = np.intp if IndexArray in kinds else np.bool_ if Mask in kinds else np.float64
        require(array.dtype == expected, f"{tree['array']} of dtype {array.dtype}")
        return array
    if isinstance(tree, dict):
        known = [kind for kind in kinds if getattr(kind, "__name__", "") == tree["class"]]
        require(bool(known), f"{tree['class']} in a place of {hint}")
        own = known[0]
        hints = get_type_hints(own)
        content = {key: unpacked(each, hints[key], arrays) for key, each in tree.items() if key != "class"}
        return own(**content)
    if isinstance(tree, list):
        return tuple(unpacked(each, get_args(hint)[0], arrays) for each in tree)
    whole = type(tree) is int and float in kinds  # a float may be given as an int
    require(type(tree) in kinds or whole, f"{tree!r} in a place of {hint}")
    return tree


def require(condition: bool, what: str) -> None:
    """Raise a ValueError unless parts fit together."""
    if not condition:
        raise ValueError(f"inconsistent: {what}")
