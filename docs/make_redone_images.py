"""Draw the pictures of docs/results/redone.md and print its figures.

    .venv/bin/python docs/make_redone_images.py

Everything is exact or an average with a stated error; the data are synthetic.
"""

from __future__ import annotations

import math
import time

import matplotlib.pyplot as plt
import numpy as np
from make_images import IMAGES, style

import lbnn
from lbnn import plots

BLUE, ORANGE, GREEN = plots.COLOURS[:3]


def regression(
    p: int, inputs: int, outputs: int | None, seed: int, noise: float = 0.3
) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian inputs, linear teachers of unit length."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(p, inputs))
    teacher = rng.normal(size=(outputs or 1, inputs))
    Y = X @ (teacher / np.linalg.norm(teacher, axis=1, keepdims=True)).T + noise * rng.normal(
        size=(p, outputs or 1)
    )
    return X, Y[:, 0] if outputs is None else Y


def distance(kernel: np.ndarray, other: np.ndarray) -> float:
    """Relative distance in the Frobenius norm."""
    return float(np.linalg.norm(kernel - other) / np.linalg.norm(other))


def draw_width_and_layer() -> None:
    """redone-kernels.svg: change of the hidden kernels against width, and against the layer."""
    start = time.perf_counter()
    X, y = regression(50, 100, None, 0)
    gram = X @ X.T / X.shape[1]
    widths = np.array([5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000])
    depth = 5
    changes = np.array(
        [
            [
                distance(post.feature_kernel(layer=layer), gram)
                for post in [lbnn.Network((int(n),) * (depth - 1)).condition(X, y, beta=10.0)]
                for layer in range(1, depth)
            ]
            for n in widths
        ]
    )
    slopes = np.log(changes[-1] / changes[-3]) / math.log(widths[-1] / widths[-3])
    ratios = changes[-1] / changes[-1, 0]
    narrow = changes[0] / changes[0, 0]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
    for layer, colour in zip(range(1, depth), plots.COLOURS, strict=False):
        left.loglog(widths, changes[:, layer - 1], "o-", ms=3, color=colour, label=f"layer {layer}")
    left.loglog(widths, changes[-1, 0] * widths[-1] / widths, "--", color="0.5", lw=0.8, label="1/n")
    left.set(xlabel="width n", ylabel="|⟨K_ℓ⟩ − G| / |G|")
    left.legend(frameon=False, fontsize=8)
    layers = np.arange(1, depth)
    right.plot(layers, ratios, "o-", color=BLUE, label=f"n = {widths[-1]}")
    right.plot(layers, changes[2] / changes[2, 0], "s-", color=ORANGE, label=f"n = {widths[2]}")
    right.plot(layers, narrow, "^-", color=GREEN, label=f"n = {widths[0]}")
    right.plot(layers, layers, "--", color="0.5", lw=0.8, label="ℓ")
    right.set(xlabel="layer ℓ", ylabel="change over that of layer 1", xticks=layers)
    right.legend(frameon=False, fontsize=8)
    figure.savefig(IMAGES / "redone-kernels.svg")
    print(f"kernels: slopes at large n {slopes.round(3)}")
    print(f"  ratios at n = 5000 {ratios.round(3)}, at n = 5 {narrow.round(3)}")
    print(f"  {len(widths)} widths in {time.perf_counter() - start:.1f} s")


def draw_evidence() -> None:
    """redone-evidence.svg: zero-temperature evidence against effective depth, for targets of two sizes."""
    start = time.perf_counter()
    X, y = regression(20, 60, None, 1, 0.1)
    depths = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32])
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
    for axes, size in zip(panels, (1.0, 3.0), strict=True):
        shallow = lbnn.Network(()).condition(X, size * y, beta=math.inf).log_evidence
        curves = {}
        for width, colour in zip((20, 50, 100, 400), plots.COLOURS, strict=False):
            networks = [lbnn.Network((width,) * (depth - 1)) for depth in depths]
            values = [each.condition(X, size * y, beta=math.inf).log_evidence - shallow for each in networks]
            curves[width] = (len(y) * (depths - 1) / width, np.array(values))
            axes.plot(*curves[width], "o-", ms=3, color=colour, label=f"width {width}")
        axes.set(xlabel="effective depth p (d − 1)/n", ylabel="log evidence over depth one")
        axes.set_title(f"targets × {size:g}", fontsize=10)
        gaps = [
            _evidence(100, 1 + layers, X, size * y) - _evidence(400, 1 + 4 * layers, X, size * y)
            for layers in (1, 2, 4, 7)
        ]
        print(
            f"evidence, targets × {size:g}: width 100 less width 400 at effective depths 0.2, 0.4, 0.8, 1.4:",
            end=" ",
        )
        print(np.round(gaps, 3))
        for width, (effective, values) in curves.items():
            best = int(values.argmax())
            print(
                f"  width {width}: best depth {depths[best]} of 1 to 32, effective {effective[best]:.2f},",
                end=" ",
            )
            print(f"gain {values[best]:+.2f} nats, at depth 32 {values[-1]:+.2f}")
    panels[0].legend(frameon=False, fontsize=8)
    figure.savefig(IMAGES / "redone-evidence.svg")
    print(f"  {time.perf_counter() - start:.1f} s")


def _evidence(width: int, depth: int, X: np.ndarray, y: np.ndarray) -> float:
    return lbnn.Network((width,) * (depth - 1)).condition(X, y, beta=math.inf).log_evidence


def similarity(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine between two kernels."""
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


def draw_layers() -> None:
    """redone-layers.svg: kernels between that of the inputs and that of the outputs, layer by layer."""
    start = time.perf_counter()
    X, Y = regression(8, 20, 3, 2, 0.1)
    inputs, outputs = X @ X.T / X.shape[1], Y @ Y.T / Y.shape[1]
    figure, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    for width, colour in (3, BLUE), (10, ORANGE), (100, GREEN):
        post = lbnn.Network((width,) * 3).condition(X, Y, beta=100.0, target_error=0.03)
        kernels = [inputs] + [post.feature_kernel(layer=layer) for layer in (1, 2, 3)] + [outputs]
        to_inputs = [similarity(kernel, inputs) for kernel in kernels]
        to_outputs = [similarity(kernel, outputs) for kernel in kernels]
        axes.plot(range(5), to_inputs, "o-", ms=3, color=colour, label=f"width {width}")
        axes.plot(range(5), to_outputs, "s--", ms=3, color=colour)
        print(f"layers: width {width}, ok {post.diagnostics.ok}")
        print(f"  to inputs {np.round(to_inputs, 3)}, to outputs {np.round(to_outputs, 3)}")
    axes.set(ylabel="cosine (— to inputs, - - to outputs)", xticks=range(5))
    axes.set_xticklabels(["inputs", "K_1", "K_2", "K_3", "outputs"])
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(IMAGES / "redone-layers.svg")
    print(f"  {time.perf_counter() - start:.1f} s")


def draw_renormalisation() -> None:
    """redone-renormalisation.svg: the scale of the kernel renormalisation theory against the exact law."""
    start = time.perf_counter()
    figure, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    for alpha, colour in (0.5, BLUE), (2.0, ORANGE):
        widths, exact, spread, theory = [5, 10, 20, 50, 100, 200, 400], [], [], []
        for n in widths:
            p = round(alpha * n)
            X, y = regression(p, 4 * max(p, 10), None, 3, 0.1)
            network = lbnn.Network((n,))
            post = network.condition(X, y, beta=math.inf)
            exact.append(post.scale.mean)
            spread.append(math.sqrt(post.scale.expect(lambda s: s**2) - post.scale.mean**2))
            theory.append(float(lbnn.asymptotics.proportional(network, X, y).scale.mean))
        ratio = np.array(exact) / np.array(theory)
        axes.errorbar(
            widths,
            ratio,
            np.array(spread) / np.array(theory),
            fmt="o-",
            ms=3,
            color=colour,
            label=f"p = {alpha:g} n",
        )
        print(f"renormalisation, p/n = {alpha}: E λ over theory {ratio.round(3)}")
        print(f"  sd/mean {np.round(np.array(spread) / np.array(exact), 3)}")
    axes.axhline(1, color="0.5", lw=0.8, ls="--")
    axes.set(xscale="log", xlabel="width n", ylabel="exact λ (mean ± sd) / theory")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(IMAGES / "redone-renormalisation.svg")
    print(f"  {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    with style():
        draw_width_and_layer()
        draw_evidence()
        draw_layers()
        draw_renormalisation()
