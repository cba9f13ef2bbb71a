"""How commands fail: one line on stderr, an exit code, and a traceback only for those who ask."""

from __future__ import annotations

import contextlib
import os
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from lbnn._base.notices import Words

#: Exit codes: 0 is success.
FAILURE = 1  # a claim fails, or the run did
BAD_INPUT = 2  # usage, data or files that break a rule; also what typer gives for a wrong option

#: The panel of options that help shows with --more.
MORE = "More"

#: What the running command was called with, its name first.
ARGUMENTS: ContextVar[tuple[str, ...]] = ContextVar("lbnn_arguments", default=())


class BadInputError(Exception):
    """The user's data, files or options break a rule; the message states it and what was given."""


class Command(TyperCommand):
    """A command that reports problems without a traceback, unless --debug is given."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        """Remember what the command was called with, for reports."""
        ARGUMENTS.set((info_name or "", *args))
        return super().make_context(info_name, args, *rest, **extra)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Options by their panels; those under "More" where they are asked for."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            record = parameter.get_help_record(ctx)
            if record and (panel != MORE or ctx.meta.get(MORE)):
                panels.setdefault(panel, []).append(record)
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples, line by line."""
        formatter.write(f"\n{(self.epilog or '').strip()}\n")

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        debug = bool(ctx.params.get("debug"))
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except Exception as problem:
                if hasattr(problem, "exit_code") or isinstance(problem, typer.Abort | BrokenPipeError):
                    raise  # typer's own way of ending
                _complain(problem, debug)
                bad_input = isinstance(
                    problem, BadInputError | ValueError
                )  # the library's rules are ValueErrors
                raise typer.Exit(BAD_INPUT if bad_input else FAILURE) from problem


def _complain(problem: BaseException, debug: bool) -> None:
    """`lbnn: rule, what was given`, in one line."""
    if debug:
        typer.echo("".join(traceback.format_exception(problem)), err=True)
    message = " ".join(str(problem).split())
    expected = isinstance(problem, BadInputError | ValueError | OSError)
    kind = "" if expected else f"{type(problem).__name__}: "
    typer.echo(f"lbnn: {kind}{message}", err=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    notice, words = getattr(message, "notice", None), TableWords()
    text = words.message(str(message)) if notice is None else notice.render(words)
    typer.echo(f"lbnn: warning: {text}", err=True)


def say(text: str) -> None:
    """Say what was done on the way, beside the results: on stderr, so that stdout can be read by programs."""
    typer.echo(text, err=True)


class TableWords(Words):
    """How texts name rows and parameters on the command line: rows by their labels, parameters as options.

    Examples
    --------
    >>> from lbnn.cli.problems import TableWords
    >>> words = TableWords(["P1", "P2"])
    >>> words.row(1), words.setting("kernel", "relu"), words.setting("fit_intercept", False)
    ('P2', '--kernel relu', '--no-intercept')
    """

    leverage = "the column leverage"

    def __init__(self, labels: Sequence[str] = ()) -> None:
        self.labels = labels

    def row(self, number: int) -> str:
        """Its label."""
        return self.labels[number] if number < len(self.labels) else super().row(number)

    def parameter(self, name: str) -> str:
        """An option."""
        return f"--{name.replace('_', '-')}"

    def setting(self, name: str, value: Any) -> str:
        """An option with its value."""
        return _SWITCHES.get((name, value), f"{self.parameter(name)} {value}")

    def message(self, text: str) -> str:
        """A text of the inference itself."""
        return text.replace("target_error", self.parameter("target_error"))


#: Options without a value.
_SWITCHES = {
    ("average", True): "--average",
    ("average", False): "--no-average",
    ("fit_intercept", False): "--no-intercept",
}


def warn_once(messages: Iterable[str]) -> None:
    """Say what the library warned of, each message once."""
    for message in dict.fromkeys(messages):
        say(f"lbnn: warning: {message}")


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first few names, for a message; those without end are cut."""
    rest = len(names) - most
    shown = (name if len(name) <= 80 else f"{name[:77]}..." for name in names[:most])
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def console() -> Console:
    """Where commands print: as wide as the terminal, plain text when piped."""
    width = None if "COLUMNS" in os.environ or Console().is_terminal else 120
    return Console(width=width, highlight=False, soft_wrap=False)


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Say that something takes its time, in a terminal."""
    with Console(stderr=True).status(what):
        yield
