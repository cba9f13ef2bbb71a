"""The leaderboard as a page in the look of the report, and as one JSON file."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import lbnn
from lbnn._base.colours import COLOURS
from lbnn._base.files import bytes_writer, text_writer, write_atomically
from lbnn.benchmark.catalogue import load, tasks
from lbnn.paper.environment import commit
from lbnn.paper.page.images import Image, drawing, save
from lbnn.paper.page.render import templates_of
from lbnn.paper.registry import Picture

EXAMPLE = """\
# my_sampler.py
from lbnn.benchmark.board.method import Outcome, method

@method("my-sampler", "what it is")
def my_sampler(task, seed):
    z = task.prior_draws(4, seed)                 # also at hand: task.jax(), task.torch(), task.stan()
    draws = my_chains(task.log_density, task.gradient, z)
    return Outcome(draws)                         # (chains, draws, task.dimension)

# lbnn benchmark run --plugin my_sampler.py --methods my-sampler,exact
"""


def write_page(results: Sequence[dict[str, Any]], folder: Path, seconds: float) -> Path:
    """Write index.html and board.json, each in one step, and return the page's path."""
    text = json.dumps(list(results), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    page = render(results, seconds)
    write_atomically(folder / "board.json", text_writer(text))
    write_atomically(folder / "index.html", bytes_writer(page.encode()))
    return folder / "index.html"


def render(results: Sequence[dict[str, Any]], seconds: float) -> str:
    """The whole page."""
    cells = {(result["method"], result["task"]): result for result in results}
    entries = [_Entry(name) for name in dict.fromkeys(result["task"] for result in results)]
    methods = [
        {"name": name, **{key: result.get(key) for key in ("words", "package", "version")}}
        for name, result in {result["method"]: result for result in results}.items()
    ]
    template = templates_of("lbnn.benchmark.board", "lbnn.paper.page").get_template("board.html")
    rows = {
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Computing": f"{seconds:.0f} s of methods",
        "Versions": f"lbnn {lbnn.__version__}, Python {platform.python_version()}, numpy {np.__version__}",
        "Machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }
    environment = rows | ({"Commit": commit()} if commit() else {})
    return template.render(
        results=results,
        methods=methods,
        tasks=entries,
        cell=lambda method, task: cells.get((method, task)),
        numbers=numbers,
        images=_images(results),
        passed=sum(bool(result["passed"]) for result in results),
        seconds=seconds,
        example=EXAMPLE,
        environment=environment,
    )


class _Entry:
    """What the page says about a task."""

    def __init__(self, name: str) -> None:
        task = load(name)
        self.name, self.dimension, self.grade = name, task.dimension, task.grade
        self.difficulty = next(entry.difficulty for entry in tasks() if entry.name == name)
        self.log_evidence = task.log_evidence
        masses = ", ".join(f"{mass:.3g}" for mass in task.phases.mass)
        self.phases = "one phase" if len(task.phases) == 1 else f"phases of mass {masses}"


def numbers(result: dict[str, Any]) -> list[str]:
    """ESS claimed and true, true ESS per second, r̂ of raw weights, Δ log evidence."""
    speed, blind = result.get("speed", {}), result.get("blind", {})
    evidence = next((each for each in result.get("scores", []) if each["name"] == "evidence"), None)
    values = [
        (speed.get("claimed ESS"), "{:,.0f}"),
        (speed.get("true ESS"), "{:,.0f}"),
        (speed.get("true ESS per second"), "{:,.3g}"),
        (blind.get("largest r̂ of a weight"), "{:.3f}"),
        (evidence["details"]["difference"] if evidence else None, "{:+.2f}"),
    ]
    return ["–" if value is None else shape.format(value).replace("-", "−") for value, shape in values]


def _images(results: Sequence[dict[str, Any]]) -> dict[str, Image]:
    """One figure per task: a small panel for each method."""
    images = {}
    for task in dict.fromkeys(result["task"] for result in results):
        shown = [result for result in results if result["task"] == task and result.get("picture")]
        if shown:
            with drawing():
                images[task] = save(Picture(_panels(shown), caption="", alt=task))
    return images


def _panels(shown: list[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    columns = min(6, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(1.75 * columns, 1.35 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, result in zip(panels, shown, strict=False):
        edges = np.array(result["picture"]["edges"])
        axes.stairs(result["picture"]["exact"], edges, fill=True, color="0.6", alpha=0.6)
        colour = COLOURS[2] if result["passed"] else COLOURS[1]
        axes.stairs(result["picture"]["draws"], edges, color=colour, lw=1.4)
        axes.set_title(result["method"], fontsize=7)
        axes.set_yticks([])
        axes.tick_params(labelsize=6)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    return figure
