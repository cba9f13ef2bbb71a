"""Warnings and errors of the library's own."""

from __future__ import annotations


class AccuracyWarning(UserWarning):
    """An answer that its own diagnostics do not support; the message says what to try next."""


class LikelihoodMismatch(RuntimeError):  # noqa: N818
    """The likelihood that an engine integrated is not that of the data: an error of the library."""


class NotFactorised(Exception):  # noqa: N818
    """A few factorisations do not give a posterior: it is too wide, or asks for digits that they lose."""
