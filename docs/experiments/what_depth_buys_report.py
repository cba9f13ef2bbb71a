"""What depth buys: tables and pictures from the store that `what_depth_buys.py` fills.

python docs/experiments/what_depth_buys_report.py run.zarr

Differences between models are paired: both saw the same data set. Errors are standard errors over data sets.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from lbnn import plots
from lbnn._base.types import Array
from lbnn.sweeps import open_sweep

DOCS = Path(__file__).resolve().parent.parent
NETWORKS = "networks"
CHOSEN = "network by evidence"
BASELINES = {"gp": "fixed scale", "gp-eb": "scale by evidence", "matrix-t": "matrix-t"}
#: Outputs and rank of the teacher; with one output the rank says nothing, so one of its values is shown.
TASKS = {
    "1 output": (1, 1),
    "2 outputs, rank 1": (2, 1),
    "2 outputs, full rank": (2, 4),
    "4 outputs, rank 1": (4, 1),
    "4 outputs, full rank": (4, 4),
}


class Study:
    """The store in memory, and means over its data sets."""

    def __init__(self, path: Path) -> None:
        self.data = open_sweep(path).load()
        self.models = [str(name) for name in self.data["model"].values]
        self.deep = [name for name in self.models if name.startswith("depth")]
        outputs, ranks = (self.data[name].values.tolist() for name in ("outputs", "rank"))
        self.tasks = {name: each for name, each in TASKS.items() if each[0] in outputs and each[1] in ranks}
        done = self.data["status"] > 0
        self.points, self.seeds = int(done.sum()), self.data.sizes["seed"]
        self.warned = int((self.data["status"] == 2).sum())
        self.failed = int((self.data["status"] == 3).sum())

    def values(self, variable: str, model: str, **at: Any) -> Array:
        """One number for every data set: of a model, or of the network with the largest evidence."""
        chosen = self.data.sel(at)
        if model != CHOSEN:
            return np.ravel(chosen[variable].sel(model=model))
        deep = chosen.sel(model=self.deep)
        best = np.asarray(deep["log_evidence"].fillna(-np.inf).argmax("model"))
        return np.ravel(np.take_along_axis(_last(deep[variable]), best[..., None], axis=-1))

    def gain(self, variable: str, model: str, base: str, **at: Any) -> tuple[float, float]:
        """Mean of model − base over data sets, per output where it is a log density, and its error."""
        difference = self.values(variable, model, **at) - self.values(variable, base, **at)
        if variable == "test_log_density":
            difference = difference / at["outputs"]
        return mean_and_error(difference)


def _last(array: Any) -> Array:
    return np.asarray(array.transpose(..., "model"))


def mean_and_error(values: Array) -> tuple[float, float]:
    """Of the values that are numbers."""
    found = values[np.isfinite(values)]
    if len(found) < 2:
        return float(found.mean()) if len(found) else np.nan, np.nan
    return float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found)))


def with_error(pair: tuple[float, float]) -> str:
    """0.123 ± 0.004, with a minus sign."""
    return f"{pair[0]:+.3f} ± {pair[1]:.3f}".replace("-", "−")


def table(header: list[str], rows: list[list[str]]) -> str:
    """In Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# ---------------------------------------------------------------------- tables


def gains(study: Study) -> str:
    """Log density gained by the network that the evidence prefers."""
    rows = []
    for name, (outputs, rank) in study.tasks.items():
        for misfit in study.data["misfit"].values.tolist():
            at = {"outputs": outputs, "rank": rank, "misfit": misfit}
            cells = [with_error(study.gain("test_log_density", CHOSEN, base, **at)) for base in BASELINES]
            rows.append([name, f"{misfit:g}", *cells])
    return table(["task", "misfit", *(f"against {name}" for name in BASELINES.values())], rows)


def errors(study: Study) -> str:
    """Test error relative to that of the baseline."""
    rows = []
    for name, (outputs, rank) in study.tasks.items():
        cells = []
        for base in BASELINES:
            at = {"outputs": outputs, "rank": rank}
            ratio = study.values("test_error", CHOSEN, **at) / study.values("test_error", base, **at)
            mean, error = mean_and_error(np.log(ratio))
            cells.append(f"{100 * np.expm1(mean):+.1f}% ± {100 * error:.1f}".replace("-", "−"))
        rows.append([name, *cells])
    return table(["task", *(f"against {name}" for name in BASELINES.values())], rows)


def coverage(study: Study) -> str:
    """Share of test targets in 90% intervals, by misfit."""
    rows = []
    for model in [*BASELINES, CHOSEN, *study.deep]:
        cells = [mean_and_error(study.values("test_coverage", model, misfit=m)) for m in _misfits(study)]
        rows.append([BASELINES.get(model, model), *(f"{mean:.3f} ± {error:.3f}" for mean, error in cells)])
    return table(["model", *(f"misfit {misfit:g}" for misfit in _misfits(study))], rows)


def winners(study: Study) -> str:
    """How often each model has the largest log density on the test points."""
    rows = []
    for name, (outputs, rank) in study.tasks.items():
        at = {"outputs": outputs, "rank": rank}
        groups = [*BASELINES, CHOSEN]
        scores = np.stack([study.values("test_log_density", model, **at) for model in groups])
        known = np.isfinite(scores).all(axis=0)
        best = scores[:, known].argmax(axis=0)
        shares = [f"{np.mean(best == number):.0%}" for number in range(len(groups))]
        rows.append([name, *shares, str(int(known.sum()))])
    return table(["task", *BASELINES.values(), CHOSEN, "data sets"], rows)


def _misfits(study: Study) -> list[float]:
    return study.data["misfit"].values.tolist()


def widths_of(study: Study) -> dict[int, list[int]]:
    """Widths of every depth."""
    found: dict[int, list[int]] = {}
    for name in study.deep:
        depth, width = (int(part.split()[1]) for part in name.split(","))
        found.setdefault(depth, []).append(width)
    return found


def vanishing(rates: Any) -> tuple[str, dict[str, Any]]:
    """Distance of networks from the Gaussian process that they become, against the width, at misfit ten."""
    rows, curves = [], {}
    density = rates["test_log_density"].sel(misfit=10.0).squeeze()
    widths = density["width"].values.tolist()
    for depth in density["depth"].values.tolist()[1:]:
        gains = np.asarray((density.sel(depth=depth) - density.sel(depth=1)).transpose("width", "seed"))
        pairs = [mean_and_error(each) for each in gains]
        means, bars = (np.array(each) for each in zip(*pairs, strict=True))
        slope = np.polyfit(np.log(widths[-3:]), np.log(np.abs(means[-3:])), 1)[0]
        rows.append([str(depth), *(with_error(pair) for pair in pairs), f"{slope:.2f}".replace("-", "−")])
        curves[depth] = (widths, means, bars)
    return table(["depth", *(f"width {width}" for width in widths), "slope of the last three"], rows), curves


# ---------------------------------------------------------------------- pictures


def draw_phases(study: Study, path: Path) -> None:
    """Who wins by how much: log density gained over the scale by evidence, over examples and misfit."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(study.tasks), figsize=(13, 3.1), sharey=True, layout="constrained")
    examples, misfits = study.data["examples"].values.tolist(), _misfits(study)
    cells = {
        name: [
            [
                study.gain("test_log_density", CHOSEN, "gp-eb", outputs=o, rank=r, examples=p, misfit=m)
                for p in examples
            ]
            for m in misfits
        ]
        for name, (o, r) in study.tasks.items()
    }
    limit = np.nanmax(np.abs([[[pair[0] for pair in row] for row in each] for each in cells.values()]))
    for ax, (name, rows) in zip(np.atleast_1d(panels), cells.items(), strict=True):
        values = np.array([[pair[0] for pair in row] for row in rows])
        image = ax.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit, origin="lower", aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            error = rows[row][column][1]
            text = f"{value:+.2f}\n±{error:.2f}".replace("-", "−")
            dark = abs(value) > 0.6 * limit
            ax.text(
                column, row, text, ha="center", va="center", fontsize=7, color="white" if dark else "black"
            )
        ax.set_xticks(range(len(examples)), examples)
        ax.set_yticks(range(len(misfits)), [f"{misfit:g}" for misfit in misfits])
        ax.set(xlabel="examples", title=name)
    np.atleast_1d(panels)[0].set_ylabel("misfit")
    figure.colorbar(image, ax=panels, label="nats per test target")
    save(figure, path)


def draw_vanishing(curves: dict[int, Any], path: Path) -> None:
    """Distance from the Gaussian process of fixed scale against the width."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.2, 3.6), layout="constrained")
    sizes = next(iter(curves.values()))[0]
    means, bars = (np.stack([np.abs(curve[part]) for curve in curves.values()]) for part in (1, 2))
    plots.convergence(sizes, means, bars, [f"depth {depth}" for depth in curves], ax)
    ax.set_ylabel("nats per test target over the\nGaussian process of fixed scale")
    save(figure, path)


def draw_kernels(study: Study, path: Path) -> None:
    """‖⟨K⟩ − G‖/‖G‖ over α = p/n₁, coloured by γ = n_d/n₁, a panel for every depth; misfit one, full rank."""
    import matplotlib.pyplot as plt

    depths = widths_of(study)
    figure, panels = plt.subplots(1, len(depths), figsize=(10, 3.4), sharey=True, layout="constrained")
    for ax, (depth, widths) in zip(np.atleast_1d(panels), depths.items(), strict=True):
        ax.set(xscale="log", yscale="log", xlabel=r"$\alpha = p/n_1$", title=f"depth {depth}")
        for number, outputs in enumerate(study.data["outputs"].values.tolist()):
            for width, marker in zip(widths, "os^D", strict=False):
                changes = [
                    mean_and_error(
                        study.values(
                            "kernel_change",
                            f"depth {depth}, width {width}",
                            outputs=outputs,
                            rank=4,
                            misfit=1.0,
                            examples=p,
                        )
                    )
                    for p in study.data["examples"].values.tolist()
                ]
                alphas = study.data["examples"].values / width
                means, bars = (np.array(each) for each in zip(*changes, strict=True))
                label = f"$n_d$ = {outputs}, $n_1$ = {width}"
                ax.errorbar(
                    alphas, means, 2 * bars, marker=marker, ms=4, color=plots.COLOURS[number], label=label
                )
    np.atleast_1d(panels)[0].set_ylabel(r"$\Vert\langle K\rangle - G\Vert\,/\,\Vert G\Vert$")
    np.atleast_1d(panels)[-1].legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """As SVG, without a date, letters as paths."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "lbnn", "svg.fonttype": "path"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def write(study: Study, rates: Any, folder: Path) -> None:
    """Tables into the page, pictures, and the tables' numbers as JSON."""
    slopes, curves = vanishing(rates)
    made = json.loads(study.data.attrs["provenance"])
    conditions = {"commit": made.get("commit", "unknown"), "posteriors": study.points, "seeds": study.seeds}
    conditions |= {"warned": study.warned, "failed": study.failed}
    tables = {
        "run": " · ".join(f"{name}: {value}" for name, value in conditions.items()),
        "gains": gains(study),
        "errors": errors(study),
        "winners": winners(study),
        "coverage": coverage(study),
        "vanishing": slopes,
    }
    page = folder / "what-depth-buys.md"
    content = page.read_text(encoding="utf-8")
    for name, text in tables.items():
        before, after = content.split(f"<!-- {name} -->")[0], content.split(f"<!-- /{name} -->")[1]
        content = f"{before}<!-- {name} -->\n{text}\n<!-- /{name} -->{after}"
    page.write_text(content, encoding="utf-8")
    stored = {"conditions": conditions, "tables": {name: text.splitlines() for name, text in tables.items()}}
    (folder / "what-depth-buys.json").write_text(
        json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    draw_phases(study, folder / "images" / "what-depth-buys-phases.svg")
    draw_vanishing(curves, folder / "images" / "what-depth-buys-width.svg")
    draw_kernels(study, folder / "images" / "what-depth-buys-kernel.svg")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder with the page")
    options = parser.parse_args()
    rates = open_sweep(options.store.with_name(f"{options.store.stem}-rates.zarr")).load()
    write(Study(options.store), rates, options.docs)


if __name__ == "__main__":
    main()
