"""Small ReLU networks against their NNGP kernel times a random scale.

    python docs/experiments/relu_posteriors.py posteriors.npz       # JAX, an accelerator
    python docs/experiments/relu_reach.py posteriors.npz

Reads the exact posteriors, computes the approximations, and writes docs/results/relu-reach.json
and the tables of docs/results/relu-reach.md.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

import lbnn
from lbnn._base.checkout import provenance

DOCS = Path(__file__).resolve().parent.parent
INPUTS, WIDTHS, DEPTHS, SIZES = (2, 5), (5, 20, 100), (2, 3, 4), (0.3, 1.0, 3.0)
EXAMPLES, TESTS, NOISE, RUNS = 12, 20, 0.1, 3
GRID = np.linspace(-9.0, 9.0, 401)
NAMES = ("NNGP", "scale of a linear network", "scale of matched variance")


def problem(inputs: int, size: float):
    """As in relu_posteriors.py."""
    rng = np.random.default_rng(1000 * inputs)
    X, X_test = rng.normal(size=(EXAMPLES, inputs)), rng.normal(size=(TESTS, inputs))
    directions, phases = rng.normal(size=(3, inputs)) / np.sqrt(inputs), rng.uniform(0, 2 * np.pi, 3)

    def truth(Z):
        return size * np.sin(1.5 * Z @ directions.T + phases).sum(axis=1) / np.sqrt(1.5)

    return X, truth(X) + NOISE * rng.normal(size=EXAMPLES), X_test, truth(X_test)


def networks(width: int, depth: int) -> dict[str, lbnn.Network]:
    """The law of the scale of each approximation.

    A layer of n relu units multiplies the squared norm of its input by (2/n) Σ relu(z)², of mean one and
    variance 5/n; a layer of n linear units by χ²(n)/n, of variance 2/n: 2n/5 linear units have the variance
    of n relu units.
    """
    hidden = depth - 1
    return dict(
        zip(
            NAMES,
            (lbnn.Network(()), lbnn.Network((width,) * hidden), lbnn.Network((2 * width // 5,) * hidden)),
            strict=True,
        )
    )


def approximation(net, X, y, X_test, depth, places):
    """Log evidence, mean and variance of f, density of observations at places (tests, grid), 90% interval."""
    gram, cross, test = (
        lbnn.network_kernel(*pair, activation="relu", depth=depth) / 2  # the first layer has variance one
        for pair in ((X,), (X, X_test), (X_test,))
    )
    post = net.condition_gram(gram, y, beta=NOISE**-2)
    latent = post.predict(cross, test)
    observed = latent.with_noise()
    weights, means, deviations = observed.marginals(slice(0, TESTS))
    means, deviations = (each.reshape(len(weights), TESTS, 1) for each in (means, deviations))
    scores = (places - means) / deviations
    density = np.tensordot(weights, np.exp(-0.5 * scores**2) / deviations, axes=1) / math.sqrt(2 * math.pi)
    return post.log_evidence, latent.mean, latent.variance, density, observed.interval(0.9)


def divergence(exact, other, step):
    """KL of the exact predictive from another, average over test points; densities (tests, grid)."""
    ratio = np.log(np.maximum(exact, 1e-300)) - np.log(np.maximum(other, 1e-300))
    return float(((exact * ratio).sum(axis=1) * step).mean())


def compare(stored, name, inputs, depth, width, size):
    """All numbers of one problem."""
    X, y, X_test, truth = problem(inputs, size)
    centre, deviation = stored[f"{name}/centre"], stored[f"{name}/deviation"]
    places, step = centre[:, None] + deviation[:, None] * GRID, deviation * (GRID[1] - GRID[0])
    runs = [stored[f"{name}/density/{k}"].astype(float) for k in range(RUNS)]
    runs = [each / (each.sum(axis=1) * step)[:, None] for each in runs]
    exact = np.mean(runs, axis=0)
    evidences = np.array([float(stored[f"{name}/evidence/{k}"]) for k in range(RUNS)])
    means = np.array([stored[f"{name}/mean/{k}"] for k in range(RUNS)])
    variances = np.array([stored[f"{name}/variance/{k}"] for k in range(RUNS)])
    apart = [divergence(runs[k], np.mean(runs[:k] + runs[k + 1 :], axis=0), step) for k in range(RUNS)]
    row = {
        "inputs": inputs,
        "depth": depth,
        "width": width,
        "size": size,
        "log_evidence": float(evidences.mean()),
        "log_evidence_range": float(np.ptp(evidences)),
        "runs_apart": float(np.mean(apart)),
        "mean": means.mean(axis=0).round(5).tolist(),
        "variance": variances.mean(axis=0).round(6).tolist(),
        "error": float(((means.mean(axis=0) - truth) ** 2).mean()),
        "approximations": {},
    }
    for label, net in networks(width, depth).items():
        log_evidence, mean, variance, density, (low, high) = approximation(net, X, y, X_test, depth, places)
        inside = (places >= low[:, None]) & (places <= high[:, None])
        row["approximations"][label] = {
            "log_evidence": log_evidence,
            "divergence": divergence(exact, density, step),
            "coverage": float(((exact * inside).sum(axis=1) * step).mean()),
            "mean_distance": float(np.sqrt(((mean - means.mean(axis=0)) ** 2 / deviation**2).mean())),
            "variance_ratio": float(np.mean(variance) / variances.mean()),
            "error": float(((mean - truth) ** 2).mean()),
        }
    return row


def table(rows):
    """One line for each problem: evidence, KL and coverage of every approximation."""
    lines = [
        "| inputs | depth | width | size of targets | log evidence, exact | NNGP minus exact | linear scale "
        "| matched | KL: NNGP | linear scale | matched | between runs | 90% coverage: NNGP | linear scale "
        "| matched |",
        "|" + " --- |" * 15,
    ]
    for row in rows:
        found = [row["approximations"][name] for name in NAMES]
        cells = [f"{row['inputs']}", f"{row['depth']}", f"{row['width']}", f"{row['size']:g}"]
        cells += [f"{row['log_evidence']:.2f}({row['log_evidence_range']:.2f})"]
        cells += [f"{each['log_evidence'] - row['log_evidence']:+.2f}" for each in found]
        cells += [f"{each['divergence']:.4f}" for each in found] + [f"{row['runs_apart']:.4f}"]
        cells += [f"{each['coverage']:.3f}" for each in found]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(rows):
    """By width and size of targets: mean absolute error of the log evidence, mean KL, mean coverage."""
    lines = [
        "| width | size of targets | error of log evidence: NNGP | linear scale | matched | KL: NNGP "
        "| linear scale | matched | between runs | coverage: NNGP | linear scale | matched |",
        "|" + " --- |" * 12,
    ]
    for width in WIDTHS:
        for size in SIZES:
            here = [row for row in rows if row["width"] == width and row["size"] == size]
            cells = [str(width), f"{size:g}"]
            for key, digits in (("log_evidence", 2), ("divergence", 4), ("coverage", 3)):
                for name in NAMES:
                    values = [
                        abs(row["approximations"][name][key] - row["log_evidence"])
                        if key == "log_evidence"
                        else row["approximations"][name][key]
                        for row in here
                    ]
                    cells.append(f"{np.mean(values):.{digits}f}")
                if key == "divergence":
                    cells.append(f"{np.mean([row['runs_apart'] for row in here]):.4f}")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def put(page: str, name: str, text: str) -> str:
    """The page with the text between <!-- name --> and <!-- /name -->."""
    start, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
    before, rest = page.split(start)
    return before + start + text + end + rest.split(end)[1]


def main(path: str) -> None:
    """Compare on every problem; write the document and the tables."""
    stored = np.load(path)
    rows = []
    for inputs in INPUTS:
        for depth in DEPTHS:
            for width in WIDTHS:
                for size in SIZES:
                    name = f"{inputs}-{depth}-{width}-{size}"
                    rows.append(compare(stored, name, inputs, depth, width, size))
    document = {
        "provenance": [provenance("python docs/experiments/relu_reach.py posteriors.npz")],
        "settings": {"examples": EXAMPLES, "tests": TESTS, "noise": NOISE, "runs": RUNS},
        "rows": rows,
    }
    (DOCS / "results" / "relu-reach.json").write_text(json.dumps(document) + "\n")
    page = DOCS / "results" / "relu-reach.md"
    print(summary(rows))
    print(table(rows))
    if page.exists():
        text = put(put(page.read_text(), "summary", summary(rows)), "all", table(rows))
        page.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
