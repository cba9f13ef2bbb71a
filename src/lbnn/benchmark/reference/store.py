"""Tasks as small JSON files: data, answers, and a digest over both. A file that was changed does not load."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.benchmark.reference.answers import Answers, Expectations, TaskPhases

FORMAT = "lbnn-benchmark/1"


def unpack(value: Any) -> Array:
    """The array behind a JSON value."""
    if isinstance(value, list):
        return np.array(value, float)
    content = np.frombuffer(base64.b64decode(value["base64"]), value["dtype"])
    return content.reshape(value["shape"]).astype(float)


def digest(content: dict[str, Any]) -> str:
    """SHA-256 of the content without its own digest, in canonical JSON."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def decode_answers(content: dict[str, Any]) -> Answers:
    """The answers from JSON values."""
    phases = content["phases"]
    columns = ("mean", "standard_deviation", "error", "skewness", "kurtosis")
    return Answers(
        content["grade"],
        Expectations(tuple(content["functions"]), *(np.array(content[name], float) for name in columns)),
        content["log_evidence"],
        content["log_evidence_error"],
        TaskPhases(
            np.array(phases["mass"], float),
            np.array(phases["error"], float),
            np.array(phases["fitted_directions"], dtype=np.intp),
            np.array(phases["cuts"], float),
            phases["threshold"],
        ),
    )


def check(content: Any, name: str) -> dict[str, Any]:
    """The content of a task's file, or an error that says what is wrong with it."""
    given = content.get("format") if isinstance(content, dict) else type(content).__name__
    if given != FORMAT:
        raise ValueError(f"the file of a task must have the format {FORMAT!r}, got {given!r} for {name}")
    if content.get("digest") != digest(content):
        raise ValueError(
            f"the numbers of a task never change under its name, but the digest of {name} is not that of "
            "its content: reinstall lbnn"
        )
    return content
