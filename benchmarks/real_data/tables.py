"""Tables and the figure of the study, from its results alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.real_data.metrics import MEASURES, mean_and_error

OURS, WITH_RBF = "lbnn", "lbnn, linear+rbf"
COLUMNS = (*MEASURES, "seconds")
FRAME = (-1.5, 40.0)  # marks beyond are not shown: the tables have them
TICKS = (-4, -2, -1, -0.4, -0.2, 0, 0.2, 0.4, 1, 2, 4, 8, 16, 32)
#: Okabe and Ito's colours, which the colour-blind tell apart, and a marker each.
LOOKS = {
    WITH_RBF: ("#56B4E9", "X"),
    "ridge": ("#999999", "v"),
    "ridge, full covariance": ("#0072B2", "o"),
    "PLS": ("#009E73", "s"),
    "Bayesian ridge": ("#E69F00", "^"),
    "GP, linear": ("#D55E00", "D"),
    "conjugate": ("#000000", "*"),
    "GPyTorch ICM": ("#CC79A7", "P"),
    "GP, rbf": ("#D55E00", "d"),
    "forest": ("#009E73", "<"),
    "forest, tuned": ("#009E73", ">"),
    "boosting": ("#0072B2", "<"),
    "boosting, tuned": ("#0072B2", ">"),
}
LINEAR = (
    "ridge", "ridge, full covariance", "PLS", "Bayesian ridge", "GP, linear", "conjugate", "GPyTorch ICM",
)  # fmt: skip
NONLINEAR = ("GP, rbf", "forest", "forest, tuned", "boosting", "boosting, tuned")


def one_set(name: str, result: dict) -> str:
    """A plain table of one set: means over splits."""
    lines = [f"{name} {tuple(result['shape'])}, {result['test']} test points"]
    lines.append(f"  {'':24}" + "".join(f"{column:>15}" for column in COLUMNS))
    for method, values in result["methods"].items():
        numbers = "".join(f"{np.mean(values[column]):15.3f}" for column in COLUMNS)
        lines.append(f"  {method:24}{numbers}")
    return "\n".join(lines)


def difference(result: dict, peer: str, measure: str = "joint", ours: str = OURS) -> tuple[float, float]:
    """Peer minus lbnn in one measure, mean over splits and standard error."""
    own, theirs = (np.array(result["methods"][name][measure]) for name in (ours, peer))
    return mean_and_error(theirs - own, result["shape"][0], result["test"])


def best_peer(result: dict, measure: str, among: Iterable[str] = (*LINEAR, *NONLINEAR)) -> str:
    """The peer with the lowest mean."""
    candidates = [name for name in among if name in result["methods"]]
    return min(candidates, key=lambda name: float(np.mean(result["methods"][name][measure])))


def markdown(document: dict) -> str:
    """All tables of the study."""
    sets = document["sets"]
    parts = [
        summary(sets, OURS, LINEAR, "`LBNNRegressor()` against the best linear peer of each set"),
        summary(
            sets, OURS, NONLINEAR, "`LBNNRegressor()` against the best of trees and the GP with an rbf kernel"
        ),
        summary(sets, WITH_RBF, NONLINEAR, '`kernel="linear+rbf"` against the same'),
        choice(sets),
        *(measure_table(sets, column) for column in COLUMNS),
    ]
    if "raw" in document:
        parts += [raw_table(document, measure) for measure in ("rmse", "joint")]
    return "\n\n".join(parts)


def summary(sets: dict, ours: str, among: Iterable[str], title: str) -> str:
    """Ours against the best peer of each set, in joint density and in error."""
    lines = [
        f"**{title}** (chosen after the fact, to lbnn's disadvantage). Difference: "
        "peer minus lbnn, positive where lbnn is better, ± one standard error.",
        "",
        "| set | p × n0 × n_d | joint NLPD: lbnn | best peer | | difference "
        "| RMSE: lbnn | best peer | | difference |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, result in sets.items():
        cells = [_label(name, sets), " × ".join(map(str, result["shape"]))]
        for measure in ("joint", "rmse"):
            peer = best_peer(result, measure, among)
            own, theirs = (np.mean(result["methods"][each][measure]) for each in (ours, peer))
            mean, error = difference(result, peer, measure, ours)
            cells += [number(own), number(theirs), peer, f"{number(mean, '+')} ± {error:.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def choice(sets: dict) -> str:
    """Which of our two kernels the evidence of the training part takes, and what that gives."""
    lines = [
        f"**Linear or linear+rbf, by evidence.** Log evidence of {WITH_RBF} minus that of {OURS}, mean over "
        "splits; in how many splits it is higher; scores of the one chosen in each split.",
        "",
        "| set | log evidence, difference | linear+rbf chosen | joint NLPD: linear | linear+rbf | chosen "
        "| RMSE: linear | linear+rbf | chosen |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, result in sets.items():
        linear, curved = (result["methods"][each] for each in (OURS, WITH_RBF))
        gain = np.subtract(curved["log evidence"], linear["log evidence"])
        cells = [name, number(gain.mean(), "+", 1), f"{(gain > 0).sum()} of {len(gain)}"]
        for measure in ("joint", "rmse"):
            taken = np.where(gain > 0, curved[measure], linear[measure])
            cells += [number(np.mean(each)) for each in (linear[measure], curved[measure], taken)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def raw_table(document: dict, measure: str) -> str:
    """One measure with columns as they are, and its change against standardised columns, same splits."""
    raw, splits = document["raw"], document["raw"]["splits"]
    methods = list(next(iter(raw["sets"].values()))["methods"])
    lines = [
        f"**{TITLES[measure]} with columns in their original units** ({splits} splits); in brackets, the "
        "difference from standardised columns.",
        "",
        "| set | " + " | ".join(methods) + " |",
        "|---" * (len(methods) + 1) + "|",
    ]
    both = (raw["sets"], document["sets"])
    for name in raw["sets"]:
        cells = [name]
        for method in methods:
            now, then = (np.array(sets[name]["methods"][method][measure]) for sets in both)
            now, then = (each[: min(len(now), len(then))] for each in (now, then))
            cells.append(f"{number(now.mean())} ({number((now - then).mean(), '+')})")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


TITLES = {
    "rmse": "Root mean square error",
    "marginal": "Marginal negative log predictive density",
    "joint": "Joint negative log predictive density per output",
    "covers": "Share of targets in their 90% intervals",
    "covers jointly": "Share of test points in their joint 90% ellipsoid",
    "seconds": "Seconds of fit and prediction",
}


def measure_table(sets: dict, measure: str) -> str:
    """One measure: sets in rows, methods in columns; the lowest in bold where low is good."""
    present = {method for result in sets.values() for method in result["methods"]}
    methods = [method for method in (OURS, *LOOKS) if method in present]
    lines = [
        f"**{TITLES[measure]}**",
        "",
        "| set | " + " | ".join(methods) + " |",
        "|---" * (len(methods) + 1) + "|",
    ]
    for name, result in sets.items():
        means = {key: float(np.mean(values[measure])) for key, values in result["methods"].items()}
        best = min(means, key=means.__getitem__) if measure in ("rmse", "marginal", "joint") else None
        cells = [_cell(means.get(method), method == best) for method in methods]
        lines.append(f"| {_label(name, sets)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _label(name: str, sets: dict) -> str:
    """The name of a set; with its number of splits where others have more."""
    counts = {each: len(result["methods"][OURS]["joint"]) for each, result in sets.items()}
    return name if counts[name] == max(counts.values()) else f"{name} ({counts[name]} splits)"


def _cell(value: float | None, best: bool) -> str:
    if value is None:
        return "–"
    return f"**{number(value)}**" if best else number(value)


def number(value: float, sign: str = "", digits: int = 3) -> str:
    return f"{value:{sign}.{digits}f}".replace("-", "\N{MINUS SIGN}")


def insert(file: Path, document: dict) -> None:
    """Put the tables between the two marks of the page."""
    text = file.read_text(encoding="utf-8")
    block = f"<!-- tables -->\n{markdown(document)}\n<!-- end of tables -->"
    renewed, count = re.subn(
        r"<!-- tables -->.*<!-- end of tables -->", lambda _: block, text, flags=re.DOTALL
    )
    assert count == 1, f"{file} has no place for the tables"
    file.write_text(renewed, encoding="utf-8")


def draw(file: Path, sets: dict) -> None:
    """Differences in joint density, peer less lbnn: a row for each set, a mark for each peer."""
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # same results, same bytes
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style = {"svg.hashsalt": "lbnn", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(style):
        figure, panels = plt.subplots(
            1, 2, figsize=(10.5, 0.52 * len(sets) + 1.8), layout="constrained", sharey=True
        )
        _draw_panel(panels[0], sets, LINEAR, "linear peers")
        _draw_panel(panels[1], sets, (WITH_RBF, *NONLINEAR), "nonlinear ones, and lbnn with linear+rbf")
        panels[0].set_yticks(range(len(sets)), list(sets))
        panels[0].set_ylim(len(sets) - 0.5, -0.5)
        figure.supxlabel("joint NLPD per output, peer less lbnn: to the right lbnn is better", fontsize=10)
        figure.savefig(file)
        plt.close(figure)


def _draw_panel(axes, sets: dict, peers: tuple[str, ...], title: str) -> None:
    from matplotlib.lines import Line2D

    for row, result in enumerate(sets.values()):
        _draw_row(axes, row, result, [name for name in peers if name in result["methods"]])
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=0.5, linscale=1.5)
    low, high = (float(np.clip(end, *FRAME)) for end in axes.get_xlim())
    axes.set_xlim(low, high)
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}".replace("-", "\N{MINUS SIGN}") for tick in ticks], fontsize=8)
    axes.minorticks_off()
    for edge in range(1, len(sets)):
        axes.axhline(edge - 0.5, color="#dddddd", linewidth=0.6, zorder=0)
    handles = [Line2D([], [], color=LOOKS[n][0], marker=LOOKS[n][1], linestyle="", label=n) for n in peers]
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 3}
    axes.legend(handles=handles, title=title, frameon=False, fontsize=8, **place)


def _draw_row(axes, row: int, result: dict, peers: list[str]) -> None:
    for place, peer in enumerate(peers):
        colour, marker = LOOKS[peer]
        mean, error = difference(result, peer)
        height = row + 0.72 * (place - (len(peers) - 1) / 2) / max(len(peers) - 1, 1)
        axes.errorbar(mean, height, xerr=error, color=colour, marker=marker, markersize=4.5, linewidth=1.1)
