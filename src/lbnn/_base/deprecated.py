"""Former names, which keep working with a `DeprecationWarning` for one release: all of them, in one place.

Docs/names.md shows the same table to users; a test compares the two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lbnn._base.warn import warn

#: Names of the package: former name, and what to use in its place.
NAMES = {
    "EngineChoice": "Plan",
    "leave_one_out": "Posterior.leave_one_out",
}

#: Attributes of public classes: former name -> name. Names with an underscore are not public any more.
ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "Diagnostics": {"witnesses": "estimates"},
    "Posterior": {"predictive_at": "_predictive_at", "scale_in_units": "_scale_in_units"},
    "Predictive": {"place": "device", "point_terms": "_point_terms", "scale_values": "_scale_values"},
    "NetworkPredictive": {
        "gaussians_of": "_gaussians_of",
        "pointwise_with_level": "_pointwise_with_level",
        "rotated_moments": "_rotated_moments",
    },
    "ScaleMeasure": {"draw": "_sample", "with_law": "_with_law"},
    "ScalePrior": {
        "log_negative_moment": "_log_negative_moment",
        "tilted_coordinates": "_tilted_coordinates",
    },
    "Spectrum": {
        "condensed": "gauss_rule",
        "of_factor": "_from_factor",
        "place": "device",
        "rounding_message": "_rounding_message",
    },
}

#: Arguments of public functions: former name -> name.
ARGUMENTS = {"rng": "seed"}

#: Values of parameters: parameter -> former value -> value.
VALUES: Mapping[str, Mapping[str, str]] = {"noise": {"isotropic": "independent", "evidence": "auto"}}

#: Functions of `lbnn.archive`: former name -> what to use in its place.
ARCHIVE = {"pack_posterior": "Posterior.save", "unpack_posterior": "Posterior.load"}

Class = TypeVar("Class", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])


def announce(old: str, new: str) -> None:
    """Warn that a former name was used, at the caller's line."""
    warn(f"{old} is now {new}; the former name goes away in the next release", DeprecationWarning)


def current_value(parameter: str, value: Any) -> Any:
    """The value of a parameter, from a former name of it with a warning.

    Examples
    --------
    >>> current_value("noise", "coupled")
    'coupled'
    """
    known = VALUES[parameter]
    if not isinstance(value, str) or value not in known:
        return value
    announce(f"{parameter}={value!r}", f"{parameter}={known[value]!r}")
    return known[value]


def renamed_argument(old: str) -> Callable[[Function], Function]:
    """Let a function take an argument by its former name, too."""
    new = ARGUMENTS[old]

    def wrap(function: Function) -> Function:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                announce(f"the argument {old!r} of {function.__qualname__}", repr(new))
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return inner  # type: ignore[return-value]

    return wrap


def former_attributes(cls: Class) -> Class:
    """Let objects of a class, and of those that inherit from it, answer to former names of attributes."""

    def answer(self: Any, name: str) -> Any:
        for parent in type(self).__mro__:
            new = ATTRIBUTES.get(parent.__name__, {}).get(name)
            if new is not None:
                hint = new if not new.startswith("_") else f"internal ({new})"
                announce(f"{parent.__name__}.{name}", hint)
                return getattr(self, new)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    cls.__getattr__ = answer  # type: ignore[attr-defined]
    return cls
