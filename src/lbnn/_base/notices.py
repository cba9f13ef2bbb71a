"""Notices: what an answer has to say of itself or of its data, as objects with a code, fields and a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lbnn._base.warn import warn


class Words:
    """How texts name rows and parameters: as Python does."""

    leverage = "predictive(X).leverage"  # where the leverage of new rows is found

    def row(self, number: int) -> str:
        """A row of the user's table, by its position."""
        return f"row {number}"

    def parameter(self, name: str) -> str:
        """A parameter of the estimator."""
        return name

    def setting(self, name: str, value: Any) -> str:
        """A parameter with its value."""
        return f"{name}={value!r}"

    def message(self, text: str) -> str:
        """A text of the inference itself, which names parameters as Python does."""
        return text


PYTHON = Words()


@dataclass(frozen=True)
class Notice:
    """Something that a fit has to say.

    Attributes
    ----------
    code : str
        What it is about, as "no_signal".
    fields : dict
        The numbers and names that the text mentions.
    write : callable
        The text, from words and the fields as keywords.
    category : type of Warning, optional
        What it becomes when it is warned of; None for what is not.
    gain : float
        Of advice: what the log evidence gains, in nats.
    """

    code: str
    fields: Mapping[str, Any]
    write: Callable[..., str]
    category: type[Warning] | None = None
    gain: float = math.nan

    def render(self, words: Words = PYTHON) -> str:
        """The text, with rows and parameters named by `words`."""
        return self.write(words, **self.fields)

    @property
    def text(self) -> str:
        """The text, in Python's words."""
        return self.render()

    def __str__(self) -> str:
        """The text."""
        return self.text

    def __repr__(self) -> str:
        """The code and the text."""
        return f"Notice({self.code}: {self.text})"

    def warn(self, *, at_once: bool = False) -> None:
        """Warn of it, if it is one to be warned of; the warning has it as its attribute `notice`."""
        if self.category is not None:
            warning: Any = self.category(self.text)
            warning.notice = self
            warn(warning, at_once=at_once)
