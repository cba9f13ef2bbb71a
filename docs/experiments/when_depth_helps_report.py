"""Tables and pictures of docs/results/when-depth-helps.md from docs/results/when-depth-helps.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).resolve().parent.parent
INDEX = {"scale_mean": 0, "log_evidence": 1, "error": 2, "gibbs_error": 3}
BETTER = {"error": -1, "gibbs_error": -1, "log_evidence": 1}


def name(widths: list[int]) -> str:
    """`3 × 10`: depth and width."""
    return "1" if not widths else f"{len(widths) + 1} × {widths[0]}"


def best(point: dict[str, Any], quantity: str) -> tuple[dict[str, Any], float, float]:
    """The network with the best average, its advantage over depth one, and the error of that."""
    sign, index = BETTER[quantity], INDEX[quantity]
    found = max(point["networks"], key=lambda each: sign * each["mean"][index])
    return found, sign * found["gain"][index], found["gain_error"][index]


def winners(points: list[dict[str, Any]]) -> str:
    """The best network by error, Gibbs error and evidence at every point."""
    lines = [
        "| n0 | p/n0 | teacher | noise | error of the mean: best | gain | Gibbs error: best | gain "
        "| log evidence: best | gain, nats | error at depth one |",
        "|" + " --- |" * 11,
    ]
    for point in points:
        one = point["networks"][0]
        cells = [f"{point['inputs']}", f"{point['ratio']:g}", f"{point['norm']:g}", f"{point['noise']:g}"]
        for quantity in ("error", "gibbs_error"):
            found, gain, error = best(point, quantity)
            base = one["mean"][INDEX[quantity]]
            cells += [name(found["widths"]), f"{100 * gain / base:.1f}({100 * error / base:.1f})%"]
        found, gain, error = best(point, "log_evidence")
        cells += [name(found["widths"]), f"{gain:.2f}({error:.2f})"]
        cells.append(f"{one['mean'][2]:.3g}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def misled(points: list[dict[str, Any]]) -> str:
    """Errors of the theories over all points and networks with hidden layers, by n0."""
    lines = [
        "| n0 | theory | E λ: median | worst | error of the mean: median | worst | Gibbs error: median "
        "| worst | log evidence, nats: median | worst | same best network by Gibbs error |",
        "|" + " --- |" * 11,
    ]
    for inputs in sorted({point["inputs"] for point in points}):
        here = [point for point in points if point["inputs"] == inputs]
        for theory in ("infinite width", "proportional"):
            cells = [f"{inputs}", theory]
            for quantity in ("scale_mean", "error", "gibbs_error", "log_evidence"):
                index, gaps = INDEX[quantity], []
                for point in here:
                    for each in point["networks"][1:]:
                        gap = each["limits"][theory][index] - each["mean"][index]
                        relative = quantity in ("scale_mean", "error", "gibbs_error")
                        gaps.append(abs(gap / each["mean"][index]) if relative else abs(gap))
                form = "{:.1f}%" if relative else "{:.2f}"
                factor = 100 if relative else 1
                cells += [form.format(factor * np.median(gaps)), form.format(factor * np.max(gaps))]
            agree = 0
            for point in here:
                exact = best(point, "gibbs_error")[0]["widths"]
                guess = min(point["networks"], key=lambda each: each["limits"][theory][3])
                agree += guess["widths"] == exact
            cells.append(f"{agree} of {len(here)}")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def slopes(approaches: list[dict[str, Any]]) -> str:
    """Relative distance of the replica curve from the exact one, and its slope in n0."""
    sizes = sorted({each["inputs"] for each in approaches})
    lines = [
        "| depth | quantity | " + " | ".join(f"n0 = {each}" for each in sizes) + " | slope |",
        "|" + " --- |" * (len(sizes) + 3),
    ]
    for depth in sorted({each["depth"] for each in approaches}):
        for quantity in ("scale_mean", "error", "gibbs_error"):
            gaps = [
                abs(each[quantity][1] / each[quantity][0] - 1)
                for size in sizes
                for each in approaches
                if each["inputs"] == size and each["depth"] == depth
            ]
            slope = np.polyfit(np.log(sizes[2:]), np.log(gaps[2:]), 1)[0]
            found = [f"{each:.2e}" for each in gaps]
            cells = [f"{depth}", quantity.replace("_", " "), *found, f"{slope:.3f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def pictures(document: dict[str, Any]) -> None:
    """The approach to the replica curve, and gains of depth over the sizes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lbnn import plots
    from lbnn.paper.curves import size_curves

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for column, depth in enumerate((2, 3)):
        here = [each for each in document["approach"] if each["depth"] == depth]
        names = ("scale_mean", "error", "gibbs_error")
        gaps = [[abs(each[q][1] / each[q][0] - 1) for each in here] for q in names]
        labels = ["E λ", "error", "Gibbs error"]
        size_curves(axes[column], [each["inputs"] for each in here], gaps, labels=labels, slope=-1)
        axes[column].set(xlabel="inputs $n_0$", ylabel="relative distance to the replica curve")
        axes[column].set_title(f"depth {depth}")
    figure.savefig(DOCS / "images" / "when-depth-helps-approach.svg")
    plt.close(figure)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", sharey=True)
    for ax, norm in zip(axes, (0.3, 1.0, 3.0), strict=True):
        for number, inputs in enumerate((20, 100, 1000)):
            here = [
                each
                for each in document["points"]
                if each["norm"] == norm and each["inputs"] == inputs and each["noise"] == 0.5
            ]
            gains = [100 * best(each, "gibbs_error")[1] / each["networks"][0]["mean"][3] for each in here]
            ratios = [each["ratio"] for each in here]
            colour, marker = plots.COLOURS[number], "osD"[number]
            ax.plot(ratios, gains, marker=marker, color=colour, label=f"$n_0$ = {inputs}")
        ax.set(title=f"|w| = {norm:g}, noise 0.5", xlabel="$p/n_0$", xscale="log")
        ax.set_xticks(ratios, [f"{each:g}" for each in ratios])
        ax.minorticks_off()
    axes[0].set_ylabel("Gibbs error saved by depth, %")
    axes[0].legend(frameon=False)
    figure.savefig(DOCS / "images" / "when-depth-helps-gain.svg")
    plt.close(figure)


def put(page: str, label: str, text: str) -> str:
    """The page with the text between <!-- label --> and <!-- /label -->."""
    start, end = f"<!-- {label} -->\n", f"\n<!-- /{label} -->"
    before, rest = page.split(start)
    return before + start + text + end + rest.split(end)[1]


def report() -> None:
    """Renew the tables of the page and the pictures."""
    document = json.loads((DOCS / "results" / "when-depth-helps.json").read_text())
    tables = {
        "winners": winners(document["points"]),
        "misled": misled(document["points"]),
        "slopes": slopes(document["approach"]),
    }
    page = DOCS / "results" / "when-depth-helps.md"
    text = page.read_text()
    for label, table in tables.items():
        print(table, end="\n\n")
        text = put(text, label, table)
    page.write_text(text)
    pictures(document)
