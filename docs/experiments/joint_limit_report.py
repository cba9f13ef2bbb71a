"""Joint limit: extrapolation to 1/n → 0, tables and picture. Used by `joint_limit.py`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from lbnn._base.checkout import provenance
from lbnn._base.types import Array

DOCS = Path(__file__).resolve().parent.parent

#: What is measured, and its name in tables.
QUANTITIES = {
    "scale": "tr E L / n_d",
    "kernel": "‖⟨K⟩ − G‖ / ‖G‖",
    "evidence": "log evidence / (p n_d)",
    "test": "relative test error of the mean",
    "variance": "variance per point",
}
#: The kernel's gap is a distance between matrices; of the others it is theory − exact.
GAP_OF_KERNEL = "‖K − ⟨K⟩‖ / ‖⟨K⟩ − G‖"


def extrapolate(sizes: Iterable[int], samples: list[Array]) -> dict[str, Any]:
    """Weighted straight line in 1/n through the means over data sets.

    The spread over data sets is smoothed by a power law in n before it becomes an error bar: a dozen data
    sets know their mean far better than their spread.
    """
    n = np.array(list(sizes), float)
    counts = np.array([len(each) for each in samples], float)
    means = np.array([each.mean() for each in samples])
    spreads = np.array([each.std(ddof=1) for each in samples])
    exponent, log_level = np.polyfit(np.log(n), np.log(spreads), 1, w=np.sqrt(counts - 1))
    errors = np.exp(log_level) * n**exponent / np.sqrt(counts)
    line, later = fit_line(1 / n, means, errors), fit_line(1 / n[1:], means[1:], errors[1:])
    return {
        "n": n.astype(int).tolist(),
        "means": means.tolist(),
        "errors": errors.tolist(),
        "spread_exponent": float(exponent),
        "limit": line,
        "limit_without_smallest": later,
    }


def fit_line(x: Array, y: Array, errors: Array) -> dict[str, float]:
    """Intercept with its error, slope, χ² and its p-value."""
    design = np.stack([np.ones_like(x), x], axis=1) / errors[:, None]
    covariance = np.linalg.inv(design.T @ design)
    value, slope = covariance @ design.T @ (y / errors)
    square = float((((y - value - slope * x) / errors) ** 2).sum())
    freedom = len(x) - 2
    return {
        "value": float(value),
        "error": float(math.sqrt(covariance[0, 0])),
        "slope": float(slope),
        "chi2": square,
        "freedom": freedom,
        "p_value": float(stats.chi2.sf(square, freedom)),
    }


def study(records: dict[int, list[dict[str, Any]]]) -> dict[str, Any]:
    """Everything about one case: limits of the exact quantities, of every theory, and of the gaps between."""
    sizes = sorted(records)

    def along(*path: str) -> dict[str, Any]:
        return extrapolate(sizes, [np.array([_pick(each, path) for each in records[n]]) for n in sizes])

    first = records[sizes[0]][0]
    return costs(records) | {
        "exact": {name: along("exact", name) for name in QUANTITIES},
        **{
            kind: {
                theory: {name: along(kind, theory, name) for name in values}
                for theory, values in first[kind].items()
            }
            for kind in ("theories", "gaps")
        },
    }


def costs(records: dict[int, list[dict[str, Any]]]) -> dict[str, Any]:
    """How the exact side was computed at each size."""

    def average(n: int, *path: str) -> float:
        return float(np.mean([_pick(each, path) for each in records[n]]))

    return {
        "data_sets": {n: len(found) for n, found in records.items()},
        "engines": {n: sorted({each["engine"] for each in found}) for n, found in records.items()},
        "warned": {n: sum(not each["ok"] for each in found) for n, found in records.items()},
        "seconds": float(sum(each["seconds"] for found in records.values() for each in found)),
        "seconds_each": {n: average(n, "seconds") for n in records},
        "monte_carlo": {
            n: {name: average(n, "monte_carlo", name) for name in found[0]["monte_carlo"]}
            for n, found in records.items()
        },
    }


def _pick(record: dict[str, Any], path: Iterable[str]) -> Any:
    for key in path:
        record = record[key]
    return record


# ---------------------------------------------------------------------- reporting


def compact(fit: dict[str, float]) -> str:
    """Value and error as 0.1932(21): the last digits are uncertain by 21."""
    digits = max(1 - math.floor(math.log10(fit["error"])), 0)
    return f"{fit['value']:.{digits}f}({round(fit['error'] * 10**digits)})"


def limit_table(studies: dict[str, dict[str, Any]]) -> str:
    """The exact quantities at n → ∞."""
    rows = []
    for each in studies.values():
        fitted = [each["exact"][name] for name in QUANTITIES]
        sizes = f"{fitted[0]['n'][0]} to {fitted[0]['n'][-1]}"
        limits = [compact(fit["limit"]) for fit in fitted]
        rows.append([each["label"], sizes, *limits, *fit_quality(fitted), f"{sum(each['warned'].values())}"])
    return _table(["case", "n", *QUANTITIES.values(), *FIT_QUALITY, "warned"], rows)


FIT_QUALITY = ("least p of χ²", "largest shift")


def fit_quality(fitted: list[dict[str, Any]]) -> tuple[str, str]:
    """The least p-value, and the largest move without the smallest n in units of the error there."""
    shifts = [
        abs(fit["limit_without_smallest"]["value"] - fit["limit"]["value"])
        / fit["limit_without_smallest"]["error"]
        for fit in fitted
    ]
    return f"{min(fit['limit']['p_value'] for fit in fitted):.2g}", f"{max(shifts):.1f}"


#: Columns of the table of gaps.
GAPS = (
    ("proportional", "kernel"),
    ("many outputs", "kernel"),
    ("Laplace in L", "kernel"),
    ("Laplace in K", "kernel"),
    ("proportional", "scale"),
    ("Laplace in L", "scale"),
    ("proportional", "evidence"),
    ("many outputs", "evidence"),
)


def gap_table(studies: dict[str, dict[str, Any]]) -> str:
    """Theory less exact at n → ∞."""
    rows = []
    for each in studies.values():
        fitted = [each["gaps"][theory][name] for theory, name in GAPS if theory in each["gaps"]]
        cells = [_gap(each["gaps"], theory, name) for theory, name in GAPS]
        rows.append([each["label"], *cells, *fit_quality(fitted)])
    return _table(["case", *(f"{name}, {theory}" for theory, name in GAPS), *FIT_QUALITY], rows)


def _gap(gaps_of: dict[str, Any], theory: str, quantity: str) -> str:
    return compact(gaps_of[theory][quantity]["limit"]) if theory in gaps_of else "–"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


#: Same numbers, same bytes.
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "lbnn",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(studies: dict[str, dict[str, Any]], path: Path) -> None:
    """Four panels: scale and gaps along 1/n, and the gaps in the limit against γ and against α."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.2), layout="constrained")
        _draw_scale(axes[0, 0], studies["centre"])
        _draw_gaps(axes[0, 1], studies["centre"])
        outputs = {0.125: "fewest outputs", 0.25: "few outputs", 0.5: "centre", 1.0: "most outputs"}
        examples = {0.125: "fewest examples", 0.25: "few examples", 0.5: "centre", 1.0: "most examples"}
        _draw_limits(axes[1, 0], {ratio: studies[name] for ratio, name in outputs.items()}, "γ", "α = ½")
        _draw_limits(axes[1, 1], {ratio: studies[name] for ratio, name in examples.items()}, "α", "γ = ½")
        handles, labels = axes[0, 1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


COLOURS = {
    "exact": "black",
    "proportional": "#0072b2",
    "many outputs": "#d55e00",
    "Laplace in L": "#009e73",
    "Laplace in K": "#cc79a7",
}


def _draw_line(axes: Any, fitted: dict[str, Any], name: str) -> None:
    """Means over data sets against 1/n, the fit, and its end at 1/n = 0."""
    colour, limit = COLOURS[name], fitted["limit"]
    x = 1 / np.array(fitted["n"], float)
    axes.errorbar(x, fitted["means"], fitted["errors"], fmt="o", ms=3.5, color=colour, label=name)
    ends = np.array([0, x.max()])
    axes.plot(ends, limit["value"] + limit["slope"] * ends, color=colour, lw=1)
    axes.errorbar(
        [0], [limit["value"]], [limit["error"]], fmt="s", ms=4, mfc="white", color=colour, clip_on=False
    )


def _draw_scale(axes: Any, case: dict[str, Any]) -> None:
    shown = {"exact": case["exact"]["scale"]} | {
        name: case["theories"][name]["scale"] for name in ("proportional", "Laplace in L")
    }
    for name, fitted in shown.items():
        _draw_line(axes, fitted, name)
        point = (0.104, fitted["limit"]["value"] + 0.104 * fitted["limit"]["slope"])
        axes.annotate(name, point, (0, 4), textcoords="offset points", ha="center", color=COLOURS[name])
    axes.set(xlabel="1/n", ylabel=QUANTITIES["scale"], title="scale, α = γ = ½, β = 10, depth 2")


def _draw_gaps(axes: Any, case: dict[str, Any]) -> None:
    for name, fitted in case["gaps"].items():
        _draw_line(axes, fitted["kernel"], name)
    axes.set(
        xlabel="1/n", ylabel=GAP_OF_KERNEL, title="kernel gaps, α = γ = ½, β = 10, depth 2", ylim=(0, None)
    )


def _draw_limits(axes: Any, cases: dict[float, dict[str, Any]], ratio: str, fixed: str) -> None:
    for name, colour in list(COLOURS.items())[1:]:
        gaps = {at: case["gaps"].get(name) for at, case in cases.items()}
        found = {at: gap["kernel"]["limit"] for at, gap in gaps.items() if gap is not None}
        values, errors = [fit["value"] for fit in found.values()], [fit["error"] for fit in found.values()]
        axes.errorbar(list(found), values, errors, fmt="s-", ms=4, mfc="white", lw=1, color=colour)
    axes.set(xscale="log", yscale="log", xlabel=ratio, ylabel=f"{GAP_OF_KERNEL} at n → ∞")
    axes.set_title(f"kernel gaps in the limit, {fixed}")
    axes.set_xticks(list(cases), ["⅛", "¼", "½", "1"])
    axes.minorticks_off()
    axes.set_yticks([0.03, 0.1, 0.3, 1.0], ["0.03", "0.1", "0.3", "1"])


def rounded(value: Any) -> Any:
    """Six significant digits, for a file that can be read and compared."""
    if isinstance(value, dict):
        return {str(key): rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write(studies: dict[str, dict[str, Any]]) -> None:
    """Numbers, picture, and the tables of the page."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(rounded(each), ensure_ascii=False)}"
        for name, each in studies.items()
    ]
    origin = [provenance("python docs/experiments/joint_limit.py")]
    lines.insert(0, f'"provenance": {json.dumps(origin)}')
    (DOCS / "results" / "joint-limit.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    draw(studies, DOCS / "images" / "joint-limit.svg")
    page = DOCS / "results" / "joint-limit.md"
    content = page.read_text(encoding="utf-8")
    for name, table in (("limits", limit_table(studies)), ("gaps", gap_table(studies))):
        before, after = content.split(f"<!-- {name} -->")[0], content.split(f"<!-- /{name} -->")[1]
        content = f"{before}<!-- {name} -->\n{table}\n<!-- /{name} -->{after}"
    page.write_text(content, encoding="utf-8")


def read() -> dict[str, dict[str, Any]]:
    """The numbers of the last full run."""
    numbers: dict[str, Any] = json.loads((DOCS / "results" / "joint-limit.json").read_text(encoding="utf-8"))
    del numbers["provenance"]
    return numbers
