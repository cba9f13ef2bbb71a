"""Options that several commands share, one by one and in groups.

A group is a dataclass. `with_groups` makes a command that takes groups into one whose options are the fields
of these, in the order of its parameters.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from lbnn.cli.problems import BadInputError

AsJson = Annotated[
    bool, typer.Option("--json", help="Print the results as JSON instead of tables.", show_default=False)
]


class MissingTargetValues(enum.StrEnum):
    """What is done about missing targets."""

    error = "error"
    allow = "allow"


MissingTargets = Annotated[
    MissingTargetValues,
    typer.Option(
        "--missing-targets",
        help="Rows that lack some of their targets: an error (or as --missing says), or allow, to fit what "
        "was measured.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        help="Column of positive weights: the noise variance of a row is divided by its weight.",
        metavar="NAME",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace outputs that exist.", show_default=False)]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", show_default=False)]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random numbers.")]


Number = TypeVar("Number", int, float)


def numbers_of(text: str, kind: Callable[[str], Number], option: str) -> list[Number]:
    """Numbers given as `1,2,3`."""
    try:
        values = [kind(part) for part in text.split(",") if part.strip()]
    except ValueError as problem:
        rule = "whole numbers" if kind is int else "numbers"
        raise BadInputError(f"{option} must be {rule} separated by commas, got {text!r}") from problem
    if not values:
        raise BadInputError(f"{option} must have at least one number, got {text!r}")
    return values


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which takes keywords only, with an option for each field of the groups that it takes."""
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters
    groups = {name: hints[name] for name in parameters if is_dataclass(hints[name])}

    def flat(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    found = [
        option
        for name, parameter in parameters.items()
        for option in (
            _options_of(groups[name]) if name in groups else [parameter.replace(annotation=hints[name])]
        )
    ]
    flat.__name__, flat.__doc__, flat.__module__ = command.__name__, command.__doc__, command.__module__
    flat.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    flat.__annotations__ = {each.name: each.annotation for each in found}
    return flat


def _options_of(group: Any) -> Iterator[inspect.Parameter]:
    """The fields of a group as parameters."""
    hints = get_type_hints(group, include_extras=True)
    for each in fields(group):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        missing = inspect.Parameter.empty if default is MISSING else default
        yield inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=missing, annotation=hints[each.name]
        )
