"""What depth buys: tables and pictures from the folder that `what_depth_buys.py` fills.

    python docs/experiments/what_depth_buys_report.py study

Differences between models are paired: both saw the same data set. The design is fixed (examples, misfit,
noise), so that errors are those of an average over its cells: from the spread over seeds within each cell.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from what_depth_buys import KERNEL_OUTPUTS
from what_depth_buys_data import BASELINES, CHOSEN, Pair, Study, as_array, mean_and_error
from what_depth_buys_pictures import draw_kernels, draw_phases, draw_vanishing, draw_winners, signed

from lbnn import open_sweep
from lbnn._base.checkout import provenance
from lbnn._base.types import Array

DOCS = Path(__file__).resolve().parent.parent
#: Sweeps that go with the study.
SMALL = ("gaussian", "widths", "examples", "kernels", "repeats")


def with_error(pair: Pair, digits: int = 3) -> str:
    """+0.123 ± 0.004, with a minus sign."""
    return f"{signed(pair[0], digits)} ± {pair[1]:.{digits}f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """In Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# ---------------------------------------------------------------------- who wins


def gains(study: Study) -> str:
    """Log density gained by the network that the evidence prefers."""
    rows = [
        [
            task,
            f"{misfit:g}",
            *(with_error(study.gain(CHOSEN, base, task, misfit=misfit)) for base in BASELINES),
        ]
        for task in study.tasks
        for misfit in study.misfits
    ]
    return table(["task", "misfit", *(f"against {name}" for name in BASELINES.values())], rows)


def noises(study: Study) -> str:
    """The same against the scale by evidence, over the noise."""
    rows = []
    for task, (outputs, _) in study.tasks.items():
        asked = study.sweeps[outputs]["noise"].values
        cells = [
            with_error(study.gain(CHOSEN, "gp-eb", task, noise=noise)) if noise in asked else "–"
            for noise in study.noises
        ]
        rows.append([task, *cells])
    return table(["task", *(f"noise {noise:g}" for noise in study.noises)], rows)


def networks(study: Study) -> str:
    """Every network by itself against the scale by evidence, where the prior expects the right size."""
    rows = []
    for model in study.deep:
        fits = [with_error(study.gain(model, "gp-eb", task, misfit=1.0)) for task in study.tasks]
        rows.append([model, *fits])
    return table(["misfit 1", *study.tasks], rows)


def errors(study: Study) -> str:
    """Test error relative to that of the baseline; matrix-t has the mean of the fixed scale."""
    rows = []
    for task in study.tasks:
        for misfit in study.misfits:
            cells = []
            for base in ("gp", "gp-eb"):
                ours, theirs = (
                    np.log(study.values("test_error", model, task, misfit=misfit)) for model in (CHOSEN, base)
                )
                mean, error = mean_and_error(ours - theirs)
                cells.append(f"{signed(100 * np.expm1(mean), 1)}% ± {100 * error:.1f}")
            rows.append([task, f"{misfit:g}", *cells])
    return table(["task", "misfit", "against fixed scale", "against scale by evidence"], rows)


def gaussian(sweep: Any) -> str:
    """Gains where the teacher is Gaussian, so that at misfit one the fixed scale is right."""
    deep = [str(name) for name in sweep["model"].values if str(name).startswith("depth")]
    rows = []
    for outputs in sweep["outputs"].values.tolist():
        for misfit in sweep["misfit"].values.tolist():
            here = sweep.sel(outputs=outputs, misfit=misfit, model=[*BASELINES, *deep])
            density, evidence = (as_array(here[name]) for name in ("test_log_density", "log_evidence"))
            best = len(BASELINES) + evidence[..., len(BASELINES) :].argmax(axis=-1)
            ours = np.take_along_axis(density, best[..., None], axis=-1)
            differences = (ours - density[..., : len(BASELINES)]).reshape(len(ours), -1, len(BASELINES))
            cells = [with_error(mean_and_error(each / outputs)) for each in np.moveaxis(differences, -1, 0)]
            rows.append([f"{outputs} output{'s' * (outputs > 1)}", f"{misfit:g}", *cells])
    return table(["task", "misfit", *(f"against {name}" for name in BASELINES.values())], rows)


def winners(study: Study) -> str:
    """How often each model has the largest log density on the test points."""
    groups, rows = [*BASELINES, CHOSEN], []
    for task in study.tasks:
        scores = np.stack([study.values("test_log_density", model, task) for model in groups])
        best = scores.argmax(axis=0)
        shares = [f"{np.mean(best == number):.0%}" for number in range(len(groups))]
        rows.append([task, *shares, f"{best.size:,}"])
    return table(["task", *BASELINES.values(), CHOSEN, "data sets"], rows)


def choices(study: Study) -> str:
    """How often the evidence chooses each network, by misfit."""
    tasks = [next(iter(study.tasks)), list(study.tasks)[-1]]
    header = ["network", *(f"{task}, misfit {misfit:g}" for task in tasks for misfit in study.misfits)]
    columns = []
    for task in tasks:
        for misfit in study.misfits:
            evidence = np.stack(
                [study.values("log_evidence", model, task, misfit=misfit) for model in study.deep]
            )
            best = evidence.argmax(axis=0)
            columns.append([f"{np.mean(best == number):.0%}" for number in range(len(study.deep))])
    rows = [[model, *cells] for model, *cells in zip(study.deep, *columns, strict=True)]
    return table(header, rows)


def coverage(study: Study) -> str:
    """Share of test targets in 90% intervals, by misfit, for the first task and the last."""
    tasks, rows = [next(iter(study.tasks)), list(study.tasks)[-1]], []
    for model in [*BASELINES, CHOSEN, *study.deep]:
        cells = []
        for task in tasks:
            for misfit in study.misfits:
                mean, error = mean_and_error(study.values("test_coverage", model, task, misfit=misfit))
                cells.append(f"{100 * mean:.1f} ± {100 * error:.1f}")
        rows.append([BASELINES.get(model, model), *cells])
    header = ["model", *(f"{task}, misfit {misfit:g}" for task in tasks for misfit in study.misfits)]
    return table(header, rows)


def phase_cells(study: Study) -> dict[str, list[list[Pair]]]:
    """Gain over the scale by evidence, over misfit and examples."""
    return {
        task: [
            [study.gain(CHOSEN, "gp-eb", task, examples=p, misfit=misfit) for p in study.examples]
            for misfit in study.misfits
        ]
        for task in study.tasks
    }


def winner_cells(study: Study) -> dict[str, list[list[tuple[str, Pair]]]]:
    """The model with the largest mean density and its margin over the next, over misfit and examples."""
    names = {**BASELINES, CHOSEN: CHOSEN}

    def cell(task: str, misfit: float, p: int) -> tuple[str, Pair]:
        at = {"examples": p, "misfit": misfit}
        means = {model: study.values("test_log_density", model, task, **at).mean() for model in names}
        first, second = sorted(means, key=lambda model: -means[model])[:2]
        return names[first], study.gain(first, second, task, **at)

    return {
        task: [[cell(task, misfit, p) for p in study.examples] for misfit in study.misfits]
        for task in study.tasks
    }


# ---------------------------------------------------------------------- how the difference vanishes


def slope(sizes: Array, values: Array) -> str:
    """Slope of log |mean| against log size with its jackknife error, values (seeds, sizes)."""
    total, count = values.sum(axis=0), len(values)
    means = np.vstack([total / count, (total - values) / (count - 1)])
    if (np.abs(means[0]) < 2 * values.std(axis=0, ddof=1) / np.sqrt(count)).any():
        return "–"  # not known to differ from zero
    found = np.polyfit(np.log(sizes), np.log(np.abs(means)).T, 1)[0]
    error = np.sqrt((count - 1) * found[1:].var())
    return f"{signed(found[0], 2)} ± {error:.2f}"


def curve(values: Array) -> tuple[list[Pair], Array, Array]:
    """Means and errors of values (seeds, sizes), as pairs and as arrays; for pictures without sign."""
    pairs = [mean_and_error(column[:, None]) for column in values.T]
    means, bars = np.array(pairs).T
    return pairs, np.abs(means), bars


def over_widths(sweep: Any) -> tuple[str, dict[str, Any]]:
    """Distance of networks from the Gaussian process that they become, against the width."""
    rows, curves, widths = [], {}, sweep["width"].values
    for misfit in sweep["misfit"].values.tolist():
        density = (
            sweep["test_log_density"].sel(misfit=misfit).squeeze(["examples", "outputs", "rank", "noise"])
        )
        for depth in density["depth"].values.tolist()[1:]:
            values = np.asarray((density.sel(depth=depth) - density.sel(depth=1)).transpose("seed", "width"))
            pairs, means, bars = curve(values)
            cells = [with_error(pair) for pair in pairs]
            rows.append([f"{misfit:g}", str(depth), *cells, slope(widths[-3:], values[:, -3:])])
            curves[f"depth {depth}, misfit {misfit:g}"] = widths, means, bars
    header = ["misfit", "depth", *(f"width {width}" for width in widths), "slope of the last three"]
    return table(header, rows), curves


def over_examples(sweep: Any) -> tuple[str, dict[str, Any]]:
    """Distance of one network from both Gaussian processes, against the number of examples."""
    rows, curves, sizes = [], {}, sweep["examples"].values
    network = str(sweep["model"].values[-1])
    for base in ("gp", "gp-eb"):
        for outputs in sweep["outputs"].values.tolist():
            for misfit in sweep["misfit"].values.tolist():
                density = (
                    sweep["test_log_density"].sel(outputs=outputs, misfit=misfit).squeeze(["rank", "noise"])
                )
                difference = (density.sel(model=network) - density.sel(model=base)) / outputs
                values = np.asarray(difference.transpose("seed", "examples"))
                pairs, means, bars = curve(values)
                name = f"{BASELINES[base]}, {outputs} output{'s' * (outputs > 1)}"
                cells = [with_error(pair) for pair in pairs]
                rows.append([name, f"{misfit:g}", *cells, slope(sizes[-3:], values[:, -3:])])
                if (values.mean(axis=0) > 0).all():
                    curves[f"over {name}, misfit {misfit:g}"] = sizes, means, bars
    header = ["against", "misfit", *(f"{p} examples" for p in sizes), "slope of the last three"]
    return table(header, rows), curves


def kernels(sweep: Any) -> tuple[str, dict[int, Array]]:
    """Change of the kernel over α and γ."""
    rows, maps = [], {}
    widths = sweep["width"].values[::-1]  # γ grows
    alphas = sweep["alpha"].values.tolist()
    for depth in sweep["depth"].values.tolist():
        values = sweep["kernel_change"].sel(depth=depth).transpose("seed", "width", "alpha")
        maps[depth] = np.asarray(values.sel(width=widths).mean("seed"))
        for width in widths.tolist():
            each = np.asarray(values.sel(width=width))
            cells = [mean_and_error(column[:, None]) for column in each.T]
            text = [f"{mean:.3f} ± {error:.3f}" for mean, error in cells]
            rows.append([str(depth), f"{KERNEL_OUTPUTS / width:g}", *text])
    return table(["depth", "γ", *(f"α = {alpha:g}" for alpha in alphas)], rows), maps


def repeats(sweep: Any, study: Study) -> str:
    """What other draws of the scale change, against what other data sets change."""
    rows = []
    for outputs in sweep["outputs"].values.tolist():
        if outputs not in study.sweeps:
            continue
        here = sweep["test_log_density"].sel(outputs=outputs) / outputs
        draws = float(np.sqrt(here.var("repeat", ddof=1).mean()))
        task = f"{outputs} outputs, full rank"
        model = f"depth {int(sweep['depth'][0])}, width {int(sweep['width'][0])}"
        gain = study.values("test_log_density", model, task) - study.values("test_log_density", "gp-eb", task)
        data = float(np.sqrt(gain.var(axis=0, ddof=1).mean()))
        rows.append([str(outputs), f"{draws:.4f}", f"{data:.3f}"])
    return table(["outputs", "other draws", "other data sets"], rows)


# ---------------------------------------------------------------------- the page


def commits(every: list[Any]) -> str:
    """Of the sweeps, as their stores name them."""
    found = {json.loads(each.attrs["provenance"]).get("commit", "unknown") for each in every}
    return ", ".join(sorted(found))


def conditions(folder: Path, study: Study, small: dict[str, Any]) -> dict[str, Any]:
    """What was run: numbers of points, hours."""
    every = [*study.sweeps.values(), *small.values()]
    status = [np.ravel(each["status"]) for each in every]
    beside = sum(each["status"].size for each in small.values())
    found = {"posteriors": sum(map(len, status)) - beside}
    found |= {"posteriors of the small sweeps": beside, "to do": study.unfinished}
    found |= {name: sum(int((each == kind).sum()) for each in status) for name, kind in _AMISS.items()}
    found |= {
        f"data sets of {n} output{'s' * (n > 1)}": each["status"].size // len(study.models)
        for n, each in study.sweeps.items()
    }
    clock = folder / "time.json"
    if clock.exists():
        found |= {name: round(value / 60) for name, value in json.loads(clock.read_text()).items()}
        found["minutes"], found["processor minutes"] = found.pop("seconds"), found.pop("processor_seconds")
    return found


_AMISS = {"warned": 2, "failed": 3}


def write(folder: Path, docs: Path) -> None:
    """Tables into the page, pictures, and the tables as JSON."""
    study = Study(folder)
    small = {name: open_sweep(folder / f"{name}.zarr").load() for name in SMALL}
    about = conditions(folder, study, small)
    by_width, width_curves = over_widths(small["widths"])
    by_examples, example_curves = over_examples(small["examples"])
    changes, maps = kernels(small["kernels"])
    tables = {
        "gains": gains(study),
        "noises": noises(study),
        "gaussian": gaussian(small["gaussian"]),
        "networks": networks(study),
        "errors": errors(study),
        "winners": winners(study),
        "choices": choices(study),
        "coverage": coverage(study),
        "widths": by_width,
        "examples": by_examples,
        "kernels": changes,
        "repeats": repeats(small["repeats"], study),
    }
    fill(docs / "results" / "what-depth-buys.md", tables)
    origin = provenance("python docs/experiments/what_depth_buys.py study")
    origin["commit"] = commits([*study.sweeps.values(), *small.values()])
    stored = {
        "provenance": [origin],
        "run": about,
        "tables": {name: text.splitlines() for name, text in tables.items()},
    }
    (docs / "results" / "what-depth-buys.json").write_text(
        json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    images, kernel = docs / "images", small["kernels"]
    draw_winners(winner_cells(study), study.examples, study.misfits, images / "what-depth-buys-winners.svg")
    draw_phases(phase_cells(study), study.examples, study.misfits, images / "what-depth-buys-phases.svg")
    draw_vanishing(width_curves, example_curves, images / "what-depth-buys-vanishing.svg")
    alphas, gammas = kernel["alpha"].values.tolist(), (KERNEL_OUTPUTS / kernel["width"].values[::-1]).tolist()
    draw_kernels(maps, alphas, gammas, images / "what-depth-buys-kernel.svg")


def fill(page: Path, tables: dict[str, str]) -> None:
    """Put tables between their marks."""
    content = page.read_text(encoding="utf-8")
    for name, text in tables.items():
        before, after = content.split(f"<!-- {name} -->")[0], content.split(f"<!-- /{name} -->")[1]
        content = f"{before}<!-- {name} -->\n{text}\n<!-- /{name} -->{after}"
    page.write_text(content, encoding="utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder with the page")
    options = parser.parse_args()
    write(options.folder, options.docs)


if __name__ == "__main__":
    main()
