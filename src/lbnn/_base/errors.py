"""Warnings that the library raises."""

from __future__ import annotations


class AccuracyWarning(UserWarning):
    """An answer that its own diagnostics do not support; the message says what to try next."""
