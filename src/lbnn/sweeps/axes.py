"""Axes of a sweep: checked coordinates, which function takes which of them, a seed for every point."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np

#: Of an axis: coordinates are held in memory and compared one by one. Of a grid: at a tenth of a millisecond
#: for each, the least that was measured, the points of the largest take three hours on one core.
MOST_VALUES, MOST_POINTS = 1_000_000, 100_000_000

Coordinates = dict[str, Any]  # of a point or a data set: Python numbers, strings and booleans by axis


class ContractError(ValueError):
    """A function of the user's gives something of the wrong kind, whatever the coordinates."""


@dataclass(frozen=True)
class Axes:
    """Names and values of the axes, in the order of the grid's dimensions."""

    values: dict[str, tuple[Any, ...]]

    @classmethod
    def of(cls, axes: Any, reserved: Iterable[str] = ()) -> Axes:
        """Check `{name: values}`: names that functions can take, values that are distinct and plain."""
        if not isinstance(axes, Mapping) or not axes:
            raise TypeError(
                f"axes must be a mapping of names to values, with at least one axis, got {axes!r}"
            )
        taken = set(reserved)
        for name in axes:
            if not isinstance(name, str) or not name.isidentifier():
                raise ValueError(f"the name of an axis must be one that a function can take, got {name!r}")
            if name in taken:
                raise ValueError(f"an axis needs a name that is not a variable's, got {name!r}")
        made = cls({name: _plain_values(name, values) for name, values in axes.items()})
        if made.points > MOST_POINTS:
            sizes = " × ".join(f"{size:,} {name}" for name, size in zip(made.names, made.shape, strict=True))
            raise ValueError(f"a sweep may have {MOST_POINTS:,} points, got {made.points:,}: {sizes}")
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """Names, in order."""
        return tuple(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values along each axis."""
        return tuple(len(values) for values in self.values.values())

    @property
    def points(self) -> int:
        """Number of points of the grid."""
        return math.prod(self.shape)

    def at(self, index: Sequence[int]) -> Coordinates:
        """Coordinates of the point with this index."""
        return {name: values[i] for (name, values), i in zip(self.values.items(), index, strict=True)}

    def within(self, names: Iterable[str], region: Sequence[slice]) -> Iterable[tuple[int, ...]]:
        """All combinations of indices along some axes within a rectangle, in the order of the grid."""
        places = [self.names.index(name) for name in names]
        return product(*(range(region[place].start, region[place].stop) for place in places))


def _plain_values(name: str, values: Any) -> tuple[Any, ...]:
    """The values of one axis as Python numbers, strings or booleans of one kind."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"axis {name!r} must be a sequence of values, got {values!r}")
    listed = list(islice(values, MOST_VALUES + 1))
    if len(listed) > MOST_VALUES:
        count = f"{len(values):,}" if isinstance(values, Sized) else "more"
        raise ValueError(f"axis {name!r} may have {MOST_VALUES:,} values, got {count}")
    array = np.asarray(listed)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "biufUT":
        raise ValueError(
            f"axis {name!r} must hold numbers, strings or booleans of one kind, at least one, "
            f"got {array.dtype} values of shape {array.shape}"
        )
    plain = tuple(array.tolist())
    if any(value != value for value in plain):
        raise ValueError(f"axis {name!r} must have no NaN, got {plain}")
    if len(set(plain)) < len(plain):
        twice = sorted(value for value, count in Counter(plain).items() if count > 1)[:5]
        raise ValueError(f"values of axis {name!r} must be distinct, got {twice} more than once")
    return plain


def parameters(function: Callable[..., Any], what: str, known: Iterable[str]) -> tuple[str, ...]:
    """The names that a function takes, all of them known; what it needs beyond is an error."""
    if not callable(function):
        raise TypeError(f"{what} must be a function, got {function!r}")
    known, names = set(known), []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ValueError(
                f"{what} must name the axes that it takes, got the parameter {parameter}: write them out"
            )
        if parameter.name in known:
            names.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise ValueError(
                f"{what} needs {parameter.name!r}, which is no axis; it may take {', '.join(sorted(known))}"
            )
    return tuple(names)


def require_taken(axes: Axes, takers: Mapping[str, Sequence[str]]) -> None:
    """Raise unless some function takes every axis: along others nothing would change."""
    unused = [name for name in axes.names if not any(name in names for names in takers.values())]
    if unused:
        raise ValueError(
            f"every axis must be taken by {', '.join(takers)}, got {', '.join(map(repr, unused))}, "
            "which none of them names as a parameter"
        )


def coordinate_seed(base: int, purpose: str, coordinates: Mapping[str, Any]) -> int:
    """A seed that follows from the coordinates alone: 63 bits of their hash.

    Examples
    --------
    >>> here = {"depth": 2, "beta": 0.5}
    >>> coordinate_seed(0, "engine", here) == coordinate_seed(0, "engine", dict(reversed(here.items())))
    True
    """
    named = sorted((name, _exactly(value)) for name, value in coordinates.items())
    text = json.dumps([base, purpose, named])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def _exactly(value: Any) -> str:
    """A number by all of its bits; 2 and 2.0 are the same."""
    if isinstance(value, str | bool):
        return repr(value)
    return float(value).hex()
