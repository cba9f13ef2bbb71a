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
_AS_LIST = 500  # numbers up to which an array is written as such


def pack(array: Array) -> Any:
    """A JSON value that gives the array back exactly: numbers, or for large ones half-precision bytes."""
    if array.size <= _AS_LIST:
        return array.tolist()
    kind = "<f2" if (array.astype(np.float16) == array).all() else "<f8"
    content = base64.b64encode(array.astype(kind).tobytes()).decode("ascii")
    return {"dtype": kind, "shape": list(array.shape), "base64": content}


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


def encode_answers(answers: Answers) -> dict[str, Any]:
    """The answers as JSON values."""
    expectations, phases = answers.expectations, answers.phases
    return {
        "grade": answers.grade,
        "log_evidence": answers.log_evidence,
        "log_evidence_error": answers.log_evidence_error,
        "functions": list(expectations.names),
        "mean": expectations.mean.tolist(),
        "standard_deviation": expectations.standard_deviation.tolist(),
        "error": expectations.error.tolist(),
        "skewness": [float(f"{value:.3g}") for value in expectations.skewness],
        "kurtosis": [float(f"{value:.3g}") for value in expectations.kurtosis],
        "phases": {
            "mass": phases.mass.tolist(),
            "error": phases.error.tolist(),
            "fitted_directions": phases.fitted_directions.tolist(),
            "cuts": phases.cuts.tolist(),
            "threshold": phases.threshold,
        },
    }


def decode_answers(content: dict[str, Any]) -> Answers:
    """The other way."""
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


def check(content: Any, source: str) -> dict[str, Any]:
    """The content of a task's file, or an error that says what is wrong with it."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        given = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise ValueError(
            f"a task's file must have the format {FORMAT!r}, got {given!r} in {source}: "
            "read it with the version of lbnn that wrote it"
        )
    if content.get("digest") != digest(content):
        raise ValueError(
            f"the numbers of a task never change under its name, but the digest of {source} is not that of "
            "its content: reinstall lbnn, or give your own task a name and a digest of its own"
        )
    return content
