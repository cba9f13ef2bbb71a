"""Warnings and errors of the library's own."""

from __future__ import annotations


class AccuracyWarning(UserWarning):
    """An answer that its own diagnostics do not support; the message says what to try next."""


class DataWarning(UserWarning):
    """Something about the data that changes how an accurate answer is to be read or what to try next."""


class ExtrapolationWarning(DataWarning):
    """Predictions at rows that lie outside of the training data."""


class ArgumentError(TypeError, ValueError):
    """An argument of a wrong type that is not an allowed value either, such as a width of "3"."""


class LikelihoodMismatch(RuntimeError):  # noqa: N818
    """The likelihood that an engine integrated is not that of the data: an error of the library."""
