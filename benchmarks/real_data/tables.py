"""Tables and the figure of the study, from its results alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from benchmarks.real_data.metrics import MEASURES, mean_and_error

OURS = "lbnn"
COLUMNS = (*MEASURES, "seconds")
TICKS = (-1, -0.4, -0.2, 0, 0.2, 0.4, 1, 2, 4, 8, 16)
#: Okabe and Ito's colours, which the colour-blind tell apart, and a marker each.
LOOKS = {
    "ridge": ("#999999", "v"),
    "ridge, full covariance": ("#0072B2", "o"),
    "PLS": ("#009E73", "s"),
    "Bayesian ridge": ("#E69F00", "^"),
    "Gaussian process": ("#D55E00", "D"),
    "GPyTorch ICM": ("#CC79A7", "P"),
    "conjugate": ("#000000", "*"),
}


def one_set(name: str, result: dict) -> str:
    """A plain table of one set: means over splits."""
    lines = [f"{name} {tuple(result['shape'])}, {result['test']} test points"]
    lines.append(f"  {'':24}" + "".join(f"{column:>15}" for column in COLUMNS))
    for method, values in result["methods"].items():
        numbers = "".join(f"{np.mean(values[column]):15.3f}" for column in COLUMNS)
        lines.append(f"  {method:24}{numbers}")
    return "\n".join(lines)


def difference(result: dict, peer: str, measure: str = "joint") -> tuple[float, float]:
    """Peer less lbnn in one measure, mean over splits and standard error."""
    ours, theirs = (np.array(result["methods"][name][measure]) for name in (OURS, peer))
    return mean_and_error(theirs - ours, result["shape"][0], result["test"])


def best_peer(result: dict, measure: str) -> str:
    """The peer with the lowest mean."""
    candidates = [name for name in result["methods"] if name != OURS]
    return min(candidates, key=lambda name: float(np.mean(result["methods"][name][measure])))


def markdown(sets: dict) -> str:
    """All tables of the study."""
    return "\n\n".join([summary(sets), *(measure_table(sets, column) for column in COLUMNS)])


def summary(sets: dict) -> str:
    """lbnn against the best peer of each set, in joint density and in error."""
    lines = [
        "**Against the best peer of each set** (chosen after the fact, to lbnn's disadvantage). Difference: "
        "peer less lbnn, positive where lbnn is better, ± one standard error.",
        "",
        "| set | p × n0 × n_d | joint NLPD: lbnn | best peer | | difference "
        "| RMSE: lbnn | best peer | | difference |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, result in sets.items():
        cells = [name, " × ".join(map(str, result["shape"]))]
        for measure in ("joint", "rmse"):
            peer = best_peer(result, measure)
            ours, theirs = (np.mean(result["methods"][each][measure]) for each in (OURS, peer))
            mean, error = difference(result, peer, measure)
            cells += [number(ours), number(theirs), peer, f"{number(mean, '+')} ± {error:.3f}"]
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
    methods = [OURS, *LOOKS]
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
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: float | None, best: bool) -> str:
    if value is None:
        return "–"
    return f"**{number(value)}**" if best else number(value)


def number(value: float, sign: str = "") -> str:
    return f"{value:{sign}.3f}".replace("-", "\N{MINUS SIGN}")


def insert(file: Path, document: dict) -> None:
    """Put the tables between the two marks of the page."""
    text = file.read_text(encoding="utf-8")
    note = "Measured with: " + "; at the end ".join(document["conditions"]) + "."
    block = f"<!-- tables -->\n{note}\n\n{markdown(document['sets'])}\n<!-- end of tables -->"
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
        figure, axes = plt.subplots(figsize=(8.4, 0.52 * len(sets) + 1.4), layout="constrained")
        for row, result in enumerate(sets.values()):
            _draw_row(axes, row, result)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(sets)), list(sets))
        axes.set_ylim(len(sets) - 0.5, -0.5)
        axes.set_xscale("symlog", linthresh=0.5, linscale=1.5)
        axes.set_xticks(TICKS, [f"{tick:g}".replace("-", "\N{MINUS SIGN}") for tick in TICKS])
        axes.set_xlim(-1.5, 24)
        axes.set_xlabel("joint NLPD per output, peer less lbnn: to the right lbnn is better")
        for edge in range(1, len(sets)):
            axes.axhline(edge - 0.5, color="#dddddd", linewidth=0.6, zorder=0)
        handles = [
            plt.Line2D([], [], color=c, marker=m, linestyle="", label=name) for name, (c, m) in LOOKS.items()
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
        figure.savefig(file)
        plt.close(figure)


def _draw_row(axes, row: int, result: dict) -> None:
    peers = [name for name in LOOKS if name in result["methods"]]
    for place, peer in enumerate(peers):
        colour, marker = LOOKS[peer]
        mean, error = difference(result, peer)
        height = row + 0.7 * (place - (len(peers) - 1) / 2) / max(len(LOOKS) - 1, 1)
        axes.errorbar(mean, height, xerr=error, color=colour, marker=marker, markersize=4.5, linewidth=1.1)
