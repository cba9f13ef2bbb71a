"""“Copy as Python”: the lines of `lbnn` that make the picture and print the numbers of a view."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lbnn.explore.numbers.learning import MOST_DRAWS, TARGET_ERROR, sizes
from lbnn.explore.numbers.scale import COMPANIONS
from lbnn.explore.numbers.theories import TheoryNumbers, grown_size
from lbnn.explore.state import State
from lbnn.explore.table import Table

_IMPORTS = ["import numpy as np", "", "import lbnn", "import lbnn.plots", ""]


def code(state: State, table: Table | None, numbers: Any) -> str:
    """Lines that run as they are; each value of the page is printed as `name = number`."""
    lines = _VIEWS[state.view](state, table, numbers)
    needed = ["import math", ""] if any("math." in line for line in lines) else []
    return "\n".join([*needed, *_IMPORTS, *lines]) + "\n"


# ---------------------------------------------------------------------- parts


def _number(value: float) -> str:
    return "math.inf" if math.isinf(value) else repr(value)


def _network(state: State) -> str:
    widths, variances = state.network_widths, state.prior_variances
    shown = f"({widths[0]},) * {len(widths)}" if len(widths) > 2 and len(set(widths)) == 1 else repr(widths)
    if set(variances) == {1.0}:
        return f"lbnn.Network({shown})"
    return f"lbnn.Network({shown}, prior_variances={list(variances)})"


def _data(state: State, table: Table | None) -> list[str]:
    """X and Y by the recipe of `problem.data`."""
    if state.source == "file" and table is not None:
        return [*_file(state, table), ""]
    lines = [f"rng, inputs, noise = (np.random.default_rng([{state.seed}, stream]) for stream in range(3))"]
    lines += _drawn(str(state.examples), str(state.inputs), str(state.outputs), state)
    return [*lines, *(["Y = Y[:, 0]"] if state.outputs == 1 else []), ""]


def _drawn(p: str, n0: str, nd: str, state: State) -> list[str]:
    r = state.rank
    return [
        f"teacher = rng.normal(size=({n0}, {r})) @ rng.normal(size=({r}, {nd})) / math.sqrt({n0} * {r})",
        f"X = inputs.normal(size=({p}, {n0}))",
        f"Y = {state.size!r} * X @ teacher + {state.noise!r} * noise.normal(size=({p}, {nd}))",
    ]


def _file(state: State, table: Table) -> list[str]:
    targets = repr(table.targets[0]) if len(table.targets) == 1 else repr(list(table.targets))
    return [
        "import pandas as pd",
        "",
        f"features, targets = {list(table.features)!r}, {targets}",
        *(table.steps or [f"table = pd.read_csv({table.name!r})"]),
        f"table = table[{list(table.features + table.targets)!r}]",
        "table = (table - table.mean()) / table.std(ddof=0)",
        f"X, Y = (table[names].to_numpy()[:{state.examples}] for names in (features, targets))",
    ]


def _evidence(name: str = "post") -> str:
    return f'print("log evidence =", {name}.log_evidence)'


# ---------------------------------------------------------------------- views


def _scale(state: State, table: Table | None, numbers: Any) -> list[str]:
    outputs = len(table.targets) if state.source == "file" and table is not None else state.outputs
    if outputs > 1:
        return _scale_matrix(state, table)
    depths = [state.depth, *(depth for depth in COMPANIONS if depth != state.depth)]
    networks = [f"    {_network(state.at_depth(depth))}," for depth in depths]
    return [
        *_data(state, table),
        "networks = [  # the network of the page, and others beside it",
        *networks,
        "]",
        f"posteriors = [net.condition(X, Y, beta={_number(state.beta)}) for net in networks]",
        "post = posteriors[0]",
        'print("E λ =", post.scale.mean)',
        'print("E λ before the data =", post.prior.variance)',
        _evidence(),
        'print("effective draws =", post.diagnostics.effective_sample_size)  # inf: nothing is drawn',
        'lbnn.plots.scale_density(posteriors).figure.savefig("scale.svg")',
    ]


def _scale_matrix(state: State, table: Table | None) -> list[str]:
    return [
        *_data(state, table),
        f"post = {_network(state)}.condition(X, Y, beta={_number(state.beta)})",
        "for row, column in zip(*np.tril_indices(len(post.scale.mean))):",
        '    print(f"E L {row + 1}{column + 1} = {post.scale.mean[row, column]}")',
        _evidence(),
        'print("effective draws =", post.diagnostics.effective_sample_size)',
        "",
        "import matplotlib.pyplot as plt",
        "",
        "angles = np.linspace(0, 2 * np.pi, 73)",
        "circle = np.stack([np.cos(angles), np.sin(angles)])",
        "figure, axes = plt.subplots()",
        "",
        "",
        "def draw(L, style, **options):  # {x : xᵀ L⁻¹ x = 1} of the first two outputs",
        "    values, vectors = np.linalg.eigh(L[:2, :2])",
        "    axes.plot(*(vectors * np.sqrt(np.maximum(values, 0))) @ circle, style, **options)",
        "",
        "",
        "for L in post.scale.sample(40, seed=0):",
        '    draw(L, "C0-", alpha=0.25)',
        'draw(post.prior.mean, "C1--")',
        'draw(post.scale.mean, "C0-", linewidth=3)',
        'axes.set(aspect="equal", xlabel="output 1", ylabel="output 2")',
        'figure.savefig("ellipse.svg")',
    ]


def _function(state: State, table: Table | None, numbers: Any) -> list[str]:
    total = float(math.prod(state.prior_variances))
    x, y = zip(*state.points, strict=True)
    beta = _number(state.beta)
    return [
        f"x = np.array({list(x)})",
        f"y = np.array({list(y)})",
        "grid = np.linspace(-5, 5, 161)",
        "",
        "",
        "def kernel(a, b):",
        "    return np.exp(-0.5 * (a[:, None] - b) ** 2)",
        "",
        "",
        f"post = {_network(state)}.condition_gram(kernel(x, x), y, beta={beta})",
        f"process = lbnn.Network((), [{total!r}]).condition_gram(kernel(x, x), y, beta={beta})",
        "grams = {'cross_gram': kernel(grid, x), 'test_gram': kernel(grid, grid)}",
        "band, process_band = post.predict(**grams), process.predict(**grams)",
        _evidence(),
        'print("log evidence of the process =", process.log_evidence)',
        'print("E λ =", post.scale.mean)',
        'print("upper 95% at x = 5 =", band.quantile(0.95)[-1])',
        'print("upper 95% of the process at x = 5 =", process_band.quantile(0.95)[-1])',
        'axes = lbnn.plots.predictive_band(band, grid, label="network", probability=0.9)',
        "lbnn.plots.predictive_band(",
        '    process_band, grid, axes, "Gaussian process", probability=0.9, colour=lbnn.plots.COLOURS[1]',
        ")",
        "axes.plot(grid, band.sample(8, seed=0).T, linewidth=0.8)  # functions drawn from the posterior",
        'axes.plot(x, y, "ko")',
        'axes.figure.savefig("band.svg")',
    ]


def _features(state: State, table: Table | None, numbers: Any) -> list[str]:
    layer = state.shown_layer
    between = float(math.prod(state.prior_variances[1:layer]))
    return [
        *_data(state, table),
        f"post = {_network(state)}.condition(X, Y, beta={_number(state.beta)})",
        f"G = {state.prior_variances[0] * between!r} * X @ X.T / X.shape[1]",
        f"K = post.feature_kernel(layer={layer})",
        "targets = np.atleast_2d(Y.T).T @ np.atleast_2d(Y.T)  # YYᵀ",
        "",
        "",
        "def alignment(A, B):",
        "    return (A * B).sum() / (np.linalg.norm(A) * np.linalg.norm(B))",
        "",
        "",
        'print("change of the kernel =", np.linalg.norm(K - G) / np.linalg.norm(G))',
        'print("alignment of G =", alignment(G, targets))',
        f'print("alignment of ⟨K⟩ at layer {layer} =", alignment(K, targets))',
        _evidence(),
        f'lbnn.plots.kernel_panels(post, Y, layer={layer})[0].figure.savefig("kernels.svg")',
    ]


def _theories(state: State, table: Table | None, numbers: Any) -> list[str]:
    assert isinstance(numbers, TheoryNumbers)
    sizes = sorted({each.size for each in numbers.sizes})
    here, quantity = sizes.index(grown_size(state)), state.quantity
    return [
        *_problem_of_size(state, table, sizes),
        f"quantity, here = {quantity!r}, {here}  # where the page is",
        "results = [",
        f"    lbnn.compare(*problem(n), beta={_number(state.beta)}, quantities=(quantity,)) for n in sizes",
        "]",
        "for row in results[here].rows:",
        '    print(row.theory, "=", row.error)',
        'print("change of the kernel =", results[here].exact.kernel_change())',
        "",
        "import matplotlib.pyplot as plt",
        "",
        "figure, axes = plt.subplots()",
        "for theory in results[here].theories:",
        "    rows = [(n, row) for n, each in zip(sizes, results) for row in each.rows]",
        "    found = [(n, abs(row.error), 2 * row.monte_carlo) for n, row in rows if row.theory == theory]",
        "    if found:",
        "        axes.errorbar(*zip(*found), label=theory)",
        'axes.set(xscale="log", yscale="log", xlabel="size", ylabel=f"error of the {quantity}")',
        "axes.legend()",
        'figure.savefig("theories.svg")',
    ]  # fmt: skip


def _learning(state: State, table: Table | None, numbers: Any) -> list[str]:
    at = sizes(state).index(state.examples)
    return [
        "curve = lbnn.learning_curve(",
        f"    {_network(state)}, {sizes(state)}, {state.inputs}, {state.size!r}, {state.noise!r},",
        f"    {_number(state.beta)}, target_error={TARGET_ERROR}, max_draws={MOST_DRAWS}, seed={state.seed},",
        ")",
        f'print("error of the mean =", curve.error[{at}])',
        f'print("error of a draw =", curve.gibbs_error[{at}])',
        f'print("mean of λ =", curve.scale_mean[{at}])',
        f'print("log evidence =", curve.log_evidence[{at}])',
        'lbnn.plots.learning_curves([curve]).figure.savefig("learning.svg")',
    ]


def _problem_of_size(state: State, table: Table | None, sizes: Sequence[int]) -> list[str]:
    """`sizes` and a function `problem(n)` that gives network, X and Y at each of them."""
    base = grown_size(state)
    if state.source == "file" and table is not None:
        body = [*_file(state, table), ""]
        p = f"{state.examples} * n // {base}" if "data" in state.growth else str(state.examples)
        inside = [f"    return {_scaled_network(state, base)}, X[:{p}], Y[:{p}]"]
        body[-2] = body[-2].replace(f"[:{state.examples}]", "")
    else:
        body = []
        p, n0, nd = (
            f"{size} * n // {base}" if name in state.growth else str(size)
            for name, size in (("data", state.examples), ("data", state.inputs), ("outputs", state.outputs))
        )
        rngs = f"(np.random.default_rng([{state.seed}, stream]) for stream in range(3))"
        inside = [
            f"    p, n0, nd = {p}, {n0}, {nd}",
            f"    rng, inputs, noise = {rngs}",
            *(f"    {line}" for line in _drawn("p", "n0", "nd", state)),
            f"    return {_scaled_network(state, base)}, X, Y[:, 0] if nd == 1 else Y",
        ]
    return [*body, f"sizes = {list(sizes)}", "", "", "def problem(n):", *inside, "", ""]


def _scaled_network(state: State, base: int) -> str:
    if "width" not in state.growth:
        return _network(state)
    widths = ", ".join(f"{width} * n // {base}" for width in state.network_widths)
    variances = "" if set(state.prior_variances) == {1.0} else f", {list(state.prior_variances)}"
    return f"lbnn.Network([{widths}]{variances})"


_VIEWS: dict[str, Callable[[State, Table | None, Any], list[str]]] = {
    "scale": _scale,
    "function": _function,
    "features": _features,
    "theories": _theories,
    "learning": _learning,
}
