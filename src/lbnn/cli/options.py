"""Options that several commands share, one by one and in groups.

A group is a dataclass. `with_groups` makes a command that takes groups into one whose options are the fields
of these, in the order of its parameters.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from lbnn.cli.problems import MORE, BadInputError
from lbnn.estimator.settings import KERNELS, NOISES

BY_EVIDENCE = "evidence"
SCALES = ("auto", "raw", "standardised", "own")

Number = TypeVar("Number", int, float)

AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON")]
Force = Annotated[bool, typer.Option("--force", help="Replace outputs that exist")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error", rich_help_panel=MORE)]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random numbers", rich_help_panel=MORE)]


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta[MORE] = True
        typer.echo(context.get_help())
        raise typer.Exit


More = Annotated[
    bool,
    typer.Option("--more", help="Show all options", is_eager=True, callback=_show_all),
]


def _more(name: str, text: str, metavar: str | None = None, **settings: Any) -> Any:
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=MORE, **settings)


@dataclass(frozen=True)
class ModelOptions:
    """Parameters of every estimator that a command fits."""

    prior_scale: Annotated[
        str, _more("--prior-scale", "Prior variance of the network: a number, or evidence", "NUMBER")
    ] = BY_EVIDENCE
    noise: Annotated[str, _more("--noise", f"Kind of noise: {', '.join(NOISES)}", "KIND")] = "auto"
    kernel: Annotated[
        str, _more("--kernel", "auto, linear, rbf, linear+rbf or relu, with parameters by evidence", "NAME")
    ] = "linear"
    column_scales: Annotated[
        str, _more("--column-scales", f"Scales of the features: {', '.join(SCALES)}", "KIND")
    ] = "auto"
    no_intercept: Annotated[bool, _more("--no-intercept", "Fit no intercept")] = False
    target_error: Annotated[
        float,
        _more("--target-error", "Monte Carlo error of the final answer", min=0.0005, max=0.9),
    ] = 0.1
    seed: Seed = 0

    def settings(self) -> dict[str, Any]:
        """Parameters of the estimator."""
        kernels = [name for name in KERNELS if name != "precomputed"]
        return {
            "prior_scale": number_or_evidence(self.prior_scale, "--prior-scale"),
            "noise": one_of(self.noise, NOISES, "--noise"),
            "kernel": one_of(self.kernel, kernels, "--kernel"),
            "column_scales": one_of(self.column_scales, SCALES, "--column-scales"),
            "fit_intercept": not self.no_intercept,
            "target_error": self.target_error,
            "random_state": self.seed,
        }


def one_of(text: str, known: Any, option: str) -> str:
    """One of the words that an option allows."""
    if text not in known:
        raise BadInputError(f"{option} must be one of {', '.join(known)}, got {text!r}")
    return text


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


def number_or_evidence(text: str, option: str) -> float | str:
    """A positive number, or the word evidence."""
    if text == BY_EVIDENCE:
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:
        raise BadInputError(f"{option} must be a positive number or {BY_EVIDENCE}, got {text!r}")
    return value


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
