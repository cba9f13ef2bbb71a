"""Warnings and errors of the library's own."""

from __future__ import annotations


class AccuracyWarning(UserWarning):
    """An answer that its own diagnostics do not support; the message says what to try next."""
