"""`lbnn sweep-report`: a page about a sweep: heat maps, curves, and the points that warned or failed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from lbnn import plots
from lbnn._base.extras import needed
from lbnn._base.files import text_writer, write_atomically
from lbnn.cli.files import check_outputs, check_suffix, tell_written
from lbnn.cli.options import Debug, Force
from lbnn.cli.problems import BadInputError
from lbnn.paper.page import images
from lbnn.paper.registry import Picture
from lbnn.sweeps import STATUS, open_sweep
from lbnn.sweeps.quantities import RESERVED

EXAMPLES = """
[bold]Examples[/bold]
lbnn sweep-report run.zarr
lbnn sweep-report run.zarr --x beta --by width --at depth=3 -o page.html
"""
_MOST_LISTED = 200  # warned and failed points in the table
_MOST_CURVES = 8
_REPLICATES = "seed"


def sweep_report(
    store: Annotated[Path, typer.Argument(help="Store, from lbnn sweep.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Page, .html; STORE.html by default.", metavar="FILE", show_default=False
        ),
    ] = None,
    x: Annotated[
        str, typer.Option("--x", help="Axis of the curves.", metavar="AXIS", show_default=False)
    ] = "",
    by: Annotated[
        str, typer.Option("--by", help="A curve for each of its values.", metavar="AXIS", show_default=False)
    ] = "",
    at: Annotated[
        list[str], typer.Option("--at", help="Value of another axis, name=value.", show_default=False)
    ] = [],  # noqa: B006
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Write a page about a sweep, finished or not.

    Of every variable a heat map over two axes and curves along one of them,
    averaged over the axis seed if there is one; other axes stand at their
    middle value unless --at says where.
    """
    page = out or store.with_suffix(".html")
    check_suffix(page, (".html",), "--out")
    check_outputs([page], [], force)
    dataset = open_sweep(store).load()
    write_atomically(page, text_writer(report_page(dataset, store.name, x, by, _given(at))))
    tell_written(page)


def _given(pairs: Sequence[str]) -> dict[str, str]:
    if any("=" not in pair for pair in pairs):
        raise BadInputError(f"--at must be name=value, got {', '.join(pairs)}")
    return {pair.split("=", 1)[0].strip(): pair.split("=", 1)[1].strip() for pair in pairs}


def report_page(dataset: Any, name: str, x: str, by: str, given: Mapping[str, str]) -> str:
    """The page as text."""
    across, curves = _drawn(dataset, x, by)
    at = _places(dataset, {across, curves}, given)
    status = np.asarray(dataset["status"])
    counts = {word: int((status == number).sum()) for number, word in STATUS.items()}
    variables = [each for each in dataset.data_vars if _is_drawn(dataset, str(each))]
    with images.drawing():
        pictures = [
            images.save(picture)
            for variable in variables
            for picture in _pictures(dataset, str(variable), across, curves, at)
        ]
    about = {str(variable): dataset[variable].attrs for variable in variables}
    words = [
        {"name": key, "definition": own.get("definition", ""), "units": own.get("units", "1")}
        for key, own in about.items()
    ]
    each = len(pictures) // max(len(variables), 1)
    groups = [pictures[start * each : (start + 1) * each] for start in range(len(variables))]
    return _template().render(
        name=name,
        counts=counts,
        axes={str(axis): _summary(dataset[axis].values.tolist()) for axis in dataset.dims},
        at={axis: _shown(value) for axis, value in at.items()},
        sections=list(zip(words, groups, strict=True)),
        points=_points(dataset, status),
        left=max(0, counts["warned"] + counts["failed"] - _MOST_LISTED),
        provenance=json.loads(dataset.attrs.get("provenance", "{}")),
        specification=dataset.attrs.get("lbnn_sweep", ""),
    )


def _is_drawn(dataset: Any, name: str) -> bool:
    own = name not in RESERVED and not (name.endswith("_error") and name.removesuffix("_error") in dataset)
    return own and bool(np.isfinite(np.asarray(dataset[name], float)).any())


def _drawn(dataset: Any, x: str, by: str) -> tuple[str, str]:
    """The axis across, and the one of the curves: those with the most values, unless named."""
    names = [str(name) for name in dataset.dims]
    for name in filter(None, (x, by)):
        if name not in names:
            raise BadInputError(f"an axis must be among {', '.join(names)}, got {name}")
    free = sorted((n for n in names if n not in (_REPLICATES, x, by)), key=lambda n: -dataset.sizes[n])
    across = x or (free.pop(0) if free else names[0])
    few = [name for name in free if 1 < dataset.sizes[name] <= _MOST_CURVES]
    return across, by or (few[0] if few else "")


def _places(dataset: Any, drawn: set[str], given: Mapping[str, str]) -> dict[str, Any]:
    """Values of the axes that are not drawn: as given, or in the middle."""
    found = {}
    unknown = [name for name in given if name not in dataset.dims or name in drawn]
    if unknown:
        raise BadInputError(f"--at must name axes that are not drawn, got {', '.join(unknown)}")
    for name in map(str, dataset.dims):
        values = dataset[name].values.tolist()
        if name in given:
            matching = [value for value in values if given[name] in (str(value), _shown(value))]
            if not matching:
                raise BadInputError(f"--at {name} must be one of {_summary(values)}, got {given[name]}")
            found[name] = matching[0]
        elif name not in drawn | {_REPLICATES}:
            found[name] = values[len(values) // 2]
    return found


def _pictures(dataset: Any, variable: str, across: str, curves: str, at: Mapping[str, Any]) -> list[Picture]:
    """Curves, and a heat map where there are two axes."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    plots.sweep_curves(dataset, variable, across, curves or None, ax, at=at)
    found = [Picture(figure, "", f"{variable} along {across}")]
    if curves:
        figure, ax = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
        plots.sweep_map(dataset, variable, across, curves, ax, at=at)
        found.append(Picture(figure, "", f"{variable} over {across} and {curves}"))
    return found


def _points(dataset: Any, status: Any) -> list[dict[str, str]]:
    """Warned and failed points, failed first."""
    found: list[dict[str, str]] = []
    for number in (3, 2):
        for index in np.argwhere(status == number)[: _MOST_LISTED - len(found)]:
            places = {
                str(name): _shown(dataset[name].values.tolist()[i])
                for name, i in zip(dataset["status"].dims, index, strict=True)
            }
            message = str(dataset["message"].values[tuple(index)])
            found.append({"status": STATUS[number], **places, "message": message})
    return found


def _summary(values: Sequence[Any]) -> str:
    shown = [_shown(value) for value in values]
    return ", ".join(shown) if len(shown) <= 12 else f"{shown[0]} to {shown[-1]}, {len(shown)} values"


def _shown(value: Any) -> str:
    return f"{value:.4g}".replace("inf", "∞") if isinstance(value, float) else str(value)


def _template() -> Any:
    """The page's template; its style is that of the report about the paper."""
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(needed("the page", "jinja2", "report")) from error
    templates = Environment(
        loader=ChoiceLoader([PackageLoader("lbnn.cli"), PackageLoader("lbnn.paper.page")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("sweep.html")
