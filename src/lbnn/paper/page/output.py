"""The files of a report: written completely, or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lbnn._base.files import bytes_writer, write_atomically
from lbnn.paper.environment import Environment
from lbnn.paper.page.images import Image, files
from lbnn.paper.page.render import render
from lbnn.paper.registry import Outcome

FIGURES = "figures"


def write(outcomes: Sequence[Outcome], folder: Path, environment: Environment) -> list[Path]:
    """Write index.html, claims.json and figures/, and return their paths.

    Everything is made first; then each file is written beside its place and moved into it, the page last. So
    a run that fails leaves an older report as it was.
    """
    images = files(outcomes)
    contents = {f"{FIGURES}/{name}.svg": image.svg for name, image in images.items()}
    contents |= {f"{FIGURES}/{name}.png": image.png for name, image in images.items()}
    contents["claims.json"] = claims_json(outcomes, images).encode()
    contents["index.html"] = render(outcomes, environment, images).encode()
    stale = _figures_of_last_report(folder)
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, bytes_writer(data))
    for path in stale - {folder / name for name in contents}:
        path.unlink(missing_ok=True)
    return [folder / name for name in contents]


def claims_json(outcomes: Sequence[Outcome], images: dict[str, Image]) -> str:
    """The claims as a JSON list of objects."""
    figures = {name: [f"{FIGURES}/{name}.{kind}" for kind in ("svg", "png")] for name in images}
    records = [outcome.as_json() | {"figures": figures.get(outcome.claim.id, [])} for outcome in outcomes]
    return json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _figures_of_last_report(folder: Path) -> set[Path]:
    """Figures that the claims.json in the folder lists; none where there is no readable one."""
    try:
        records = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
        names = {name for record in records for name in record.get("figures", [])}
    except (OSError, ValueError, AttributeError, TypeError):
        return set()
    return {folder / FIGURES / Path(name).name for name in names}
