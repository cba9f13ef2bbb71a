"""The files of a report: written completely, or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lbnn.report.environment import Environment
from lbnn.report.images import Image, files
from lbnn.report.page import render
from lbnn.report.registry import Outcome

FIGURES = "figures"


def write(outcomes: Sequence[Outcome], folder: Path, environment: Environment) -> list[Path]:
    """Write index.html, claims.json and figures/, and return their paths.

    Everything is made first; then each file is written beside its place and moved into it, the page last. So
    a run that fails leaves an older report as it was.
    """
    images = files(outcomes)
    contents = {f"{FIGURES}/{name}": data for name, data in _image_files(images).items()}
    contents["claims.json"] = claims_json(outcomes, images).encode()
    contents["index.html"] = render(outcomes, environment, images).encode()
    stale = _figures_of_last_report(folder)
    for name, data in contents.items():
        _replace(folder / name, data)
    for path in stale - {folder / name for name in contents}:
        path.unlink(missing_ok=True)
    return [folder / name for name in contents]


def claims_json(outcomes: Sequence[Outcome], images: dict[str, Image]) -> str:
    """The claims as a JSON list of objects."""
    records = [
        outcome.as_json() | {"figures": _paths(outcome.claim.id) if outcome.claim.id in images else []}
        for outcome in outcomes
    ]
    return json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _paths(claim_id: str) -> list[str]:
    return [f"{FIGURES}/{claim_id}.{kind}" for kind in ("svg", "png")]


def _image_files(images: dict[str, Image]) -> dict[str, bytes]:
    return {f"{name}.svg": image.svg for name, image in images.items()} | {
        f"{name}.png": image.png for name, image in images.items()
    }


def _figures_of_last_report(folder: Path) -> set[Path]:
    """Figures that the claims.json in the folder lists; none where there is no readable one."""
    try:
        records = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
        names = {name for record in records for name in record.get("figures", [])}
    except (OSError, ValueError, AttributeError, TypeError):
        return set()
    return {folder / FIGURES / Path(name).name for name in names}


def _replace(path: Path, data: bytes) -> None:
    """Write beside the file, then move into its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
