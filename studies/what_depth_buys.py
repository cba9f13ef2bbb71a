"""What depth buys: exact test error, predictive density and coverage of networks and of simpler models.

    python -m studies.what_depth_buys run FOLDER      # 38 processor minutes; a run that stops resumes
    python -m studies.what_depth_buys report FOLDER   # tables, the picture and what-depth-buys.json

Every data set is given to twelve models, all of which know the noise and have the prior variance one at an
input of mean square one: a Gaussian process of fixed scale, the same with its scale by evidence, the
conjugate matrix-t model, and networks of depth two, three and five at three widths. What varies is the number
of examples, of outputs, the rank of the teacher, its size relative to what the prior expects (misfit), the
noise relative to the signal, and the seed. With one output two smaller sweeps go along the width and along
the number of examples. Differences between models are paired, and their errors are those of an average over
the cells of the design, from the spread over seeds within each cell.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import optimize, special, stats

import lbnn
from lbnn._base.checkout import provenance

STORED = Path(__file__).with_name("what-depth-buys.json")
IMAGE = STORED.parent.parent / "docs" / "images" / "what-depth-buys-winners.svg"
INPUTS, TEST_POINTS = 50, 100
SEEDS = {4: 4, 2: 8, 1: 200}  # data sets of every cell, by the number of outputs
AXES = {
    "examples": [10, 25, 50, 100],
    "misfit": [0.1, 1.0, 10.0],  # variance of the teacher over that of the prior
    "noise": [0.01, 0.1, 1.0],  # variance of the noise over that of the teacher
}
FULL = 4  # a rank of the teacher that is cut to the number of outputs
DEPTHS, WIDTHS = (2, 3, 5), (10, 30, 100)
RATE_WIDTHS = (10, 30, 100, 300, 1000, 3000, 10000)
RATE_EXAMPLES = (12, 25, 50, 100, 200, 400, 800)
SIMPLE = {"gp": "fixed scale", "gp-eb": "scale by evidence", "matrix-t": "matrix-t"}
CHOSEN = "network by evidence"
MODELS = (*SIMPLE, *(f"depth {depth}, width {width}" for depth in DEPTHS for width in WIDTHS))
QUANTITIES = ("log_evidence", "test_error", "test_log_density", "test_coverage")
TARGET_ERROR = 0.2  # of the log evidence, several outputs; the data sets differ by far more


def problem(rng, seed, examples, outputs, rank, misfit, noise):
    """Gaussian inputs, a linear teacher of that rank and size, and noise."""
    # A product of Gaussian matrices, of that size on average: it varies, the more the smaller the rank.
    rows, inner = examples + TEST_POINTS, min(rank, outputs)
    X = rng.normal(size=(rows, INPUTS))
    teacher = rng.normal(size=(INPUTS, inner)) @ rng.normal(size=(inner, outputs)) / math.sqrt(inner * INPUTS)
    Y = math.sqrt(misfit) * X @ teacher + math.sqrt(noise * misfit) * rng.normal(size=(rows, outputs))
    Y = Y[:, 0] if outputs == 1 else Y
    return X[:examples], Y[:examples], X[examples:], Y[examples:]


def model(model):
    """By its name."""
    if model in SIMPLE:
        return {"gp": lbnn.Network(()), "gp-eb": EmpiricalBayes(), "matrix-t": MatrixT()}[model]
    depth, width = (int(part.split()[1]) for part in model.split(","))
    return lbnn.Network((width,) * (depth - 1))


def beta(noise, misfit):
    """All models know the noise."""
    return 1 / (noise * misfit)


@dataclass(frozen=True)
class EmpiricalBayes:
    """The Gaussian process whose prior variance has the largest evidence."""

    def condition_spectrum(self, spectrum, beta):
        g, squares = spectrum.eigenvalues, (spectrum.targets**2).sum(axis=1)

        def loss(log_scale):
            variance = 1 / beta + math.exp(log_scale) * g
            return float((spectrum.outputs * np.log(variance) + squares / variance).sum())

        best = optimize.minimize_scalar(loss, bounds=(-15.0, 15.0), method="bounded")
        return lbnn.Network((), prior_variances=(math.exp(best.x),)).condition_spectrum(spectrum, beta)


@dataclass(frozen=True)
class MatrixT:
    """L inverse Wishart of mean I, noise of covariance L/β given L: everything in closed form."""

    spread: float = 4.0  # degrees of freedom beyond the least at which E L exists

    def condition_spectrum(self, spectrum, beta):
        return MatrixTPosterior(spectrum, beta, self.spread)


@dataclass(frozen=True)
class MatrixTPosterior:
    """L given the data is inverse Wishart: scale Ψ + S, S = Yᵀ(G + I/β)⁻¹Y, ν + p degrees of freedom."""

    spectrum: lbnn.Spectrum
    beta: float
    spread: float
    log_evidence_error = 0.0

    @property
    def scatter(self):
        """Ψ and S, (n_d, n_d)."""
        data, outputs = self.spectrum, self.spectrum.outputs
        variance = data.eigenvalues[:, None] + 1 / self.beta
        rest = self.beta * data.outside.T @ data.outside
        return self.spread * np.eye(outputs), data.targets.T @ (data.targets / variance) + rest

    @property
    def freedom(self):
        return self.spread + self.spectrum.outputs + 1

    @property
    def log_evidence(self):
        data, (prior, seen), nu = self.spectrum, self.scatter, self.freedom
        count, outputs = data.examples, data.outputs
        inside = np.log(data.eigenvalues + 1 / self.beta).sum()
        outside = (count - data.rank) * math.log(1 / self.beta)
        return float(
            special.multigammaln((nu + count) / 2, outputs)
            - special.multigammaln(nu / 2, outputs)
            - 0.5 * count * outputs * math.log(math.pi)
            + 0.5 * nu * np.linalg.slogdet(prior)[1]
            - 0.5 * outputs * (inside + outside)
            - 0.5 * (nu + count) * np.linalg.slogdet(prior + seen)[1]
        )

    @property
    def scale(self):
        """One atom at the posterior mean of L."""
        mean = sum(self.scatter) / (self.freedom + self.spectrum.examples - self.spectrum.outputs - 1)
        return lbnn.ScaleMeasure.atom(mean, self.spectrum.single_output)

    def predict(self, X_test):
        return MatrixTPredictive(self, self.spectrum.project(X_test), 0.0)


@dataclass(frozen=True)
class MatrixTPredictive:
    """A multivariate t at every point: mean, scale c (Ψ + S)/ν′, ν′ = ν + p − n_d + 1 degrees of freedom."""

    posterior: MatrixTPosterior
    projection: object
    noise: float

    def with_noise(self):
        return MatrixTPredictive(self.posterior, self.projection, 1 / self.posterior.beta)

    @property
    def freedom(self):
        data = self.posterior.spectrum
        return self.posterior.freedom + data.examples - data.outputs + 1

    @property
    def location(self):
        data = self.posterior.spectrum
        gain = np.sqrt(data.eigenvalues) / (data.eigenvalues + 1 / self.posterior.beta)
        return self.projection.explained @ (gain[:, None] * data.targets)

    @property
    def mean(self):
        return self.location[:, 0] if self.posterior.spectrum.single_output else self.location

    @property
    def factor(self):
        """c at every point."""
        noise, g = 1 / self.posterior.beta, self.posterior.spectrum.eigenvalues
        inside = self.projection.explained**2 @ (noise / (g + noise))
        return self.projection.unexplained_diagonal + inside + self.noise

    @property
    def shape(self):
        return sum(self.posterior.scatter) / self.freedom

    def pointwise_log_density(self, values):
        rows, size = np.reshape(values, self.location.shape) - self.location, self.shape.shape[0]
        square = (rows * np.linalg.solve(self.shape, rows.T).T).sum(axis=1) / self.factor
        constant = special.gammaln((self.freedom + size) / 2) - special.gammaln(self.freedom / 2)
        volume = size * np.log(self.factor * self.freedom * math.pi) + np.linalg.slogdet(self.shape)[1]
        return constant - 0.5 * volume - 0.5 * (self.freedom + size) * np.log1p(square / self.freedom)

    def interval(self, probability):
        deviation = np.sqrt(self.factor[:, None] * np.diagonal(self.shape))
        reach = stats.t(self.freedom).ppf((1 + probability) / 2) * deviation
        return np.reshape(self.location - reach, self.mean.shape), np.reshape(
            self.location + reach, self.mean.shape
        )


# ---------------------------------------------------------------------- the sweeps


def run(folder, seeds=SEEDS, grid=AXES, rates=(60, 40), **settings):
    """All sweeps of the folder; `settings` are those of `lbnn.sweep`."""
    fixed = {"rank": [FULL], "misfit": [1.0, 10.0], "noise": [0.1]}
    widths = tuple(f"depth {depth}, width {width}" for depth in DEPTHS for width in RATE_WIDTHS)
    along = ("gp", "gp-eb", "depth 3, width 30")
    one = {"outputs": [1], "examples": [50], "model": ("gp", *widths)}
    two = {"outputs": [1, 2], "examples": RATE_EXAMPLES, "model": along}
    sweeps = {"widths": {"seed": range(rates[0])} | fixed | one}
    sweeps["examples"] = {"seed": range(rates[1])} | fixed | two
    for outputs, count in seeds.items():
        task = {"seed": range(count), "outputs": [outputs], "rank": [1] if outputs == 1 else [1, FULL]}
        less = {"noise": [0.1]} if outputs == 4 else {}  # there a posterior takes a second
        sweeps[f"outputs-{outputs}"] = task | grid | less | {"model": MODELS}
    for name, axes in sweeps.items():
        lbnn.sweep(
            axes,
            data=problem,
            network=model,
            beta=beta,
            quantities=QUANTITIES,
            target_error=TARGET_ERROR,
            store=Path(folder) / f"{name}.zarr",
            **settings,
        )


# ---------------------------------------------------------------------- the tables


def mean_and_error(values):
    """Mean over the cells of a design and its standard error, from values (seeds, cells)."""
    values = np.reshape(values, (len(values), -1))
    return values.mean(), np.sqrt((values.var(axis=0, ddof=1) / len(values)).sum()) / values.shape[1]


def tasks(folder):
    """Sweeps by number of outputs and rank, with the network of the highest evidence as one more model."""
    for path in sorted(Path(folder).glob("outputs-*.zarr")):
        sweep = lbnn.open_sweep(path).load()[list(QUANTITIES)]
        deep = sweep.sel(model=[name for name in sweep["model"].values if name not in SIMPLE])
        chosen = deep.isel(model=deep["log_evidence"].argmax("model")).drop_vars("model")
        outputs = int(sweep["outputs"][0])
        for rank in sweep["rank"].values:
            kind = f", {'rank 1' if rank == 1 else 'full rank'}" if outputs > 1 else ""
            name = f"{outputs} output{'s' * (outputs > 1)}{kind}"
            yield name, outputs, sweep.sel(rank=rank, outputs=outputs), chosen.sel(rank=rank, outputs=outputs)


def gain(ours, theirs, outputs):
    """Log predictive density per target gained."""
    gaps = (ours["test_log_density"] - theirs["test_log_density"]) / outputs
    return mean_and_error(gaps.transpose("seed", ...).values)


def by_misfit(folder):
    """Of each task and misfit: log density per target gained, relative error, coverage of 90% intervals."""
    for name, outputs, sweep, chosen in tasks(folder):
        for misfit in sweep["misfit"].values:
            ours, here = chosen.sel(misfit=misfit), sweep.sel(misfit=misfit)
            row = [gain(ours, here.sel(model=each), outputs) for each in SIMPLE]
            for each in ("gp", "gp-eb"):
                gaps = np.log(ours["test_error"]) - np.log(here.sel(model=each)["test_error"])
                mean, error = mean_and_error(gaps.transpose("seed", ...).values)
                row.append((100 * math.expm1(mean), 100 * error))
            laws = [*(here.sel(model=each) for each in SIMPLE), ours]
            row += [mean_and_error(100 * law["test_coverage"].transpose("seed", ...).values) for law in laws]
            yield [name, f"{misfit:g}"], row


def by_model(folder):
    """Of each network at misfit one: log density per target gained over the scale by evidence."""
    for name, outputs, sweep, _ in tasks(folder):
        here = sweep.sel(misfit=1.0)
        base, models = here.sel(model="gp-eb"), [each for each in here["model"].values if each not in SIMPLE]
        yield [name], [gain(here.sel(model=each), base, outputs) for each in models]


def by_size(folder):
    """Log density per target gained along the width, and along the number of examples."""
    sweeps = [lbnn.open_sweep(Path(folder) / f"{name}.zarr").load() for name in ("widths", "examples")]
    for misfit in (1.0, 10.0):
        widths, examples = (sweep["test_log_density"].sel(misfit=misfit).squeeze() for sweep in sweeps)
        for depth in DEPTHS:
            ours = widths.sel(model=[f"depth {depth}, width {width}" for width in RATE_WIDTHS])
            gaps = (ours - widths.sel(model="gp")).transpose("seed", "model").values
            yield [f"width, depth {depth}", f"{misfit:g}"], [mean_and_error(each) for each in gaps.T]
        for base in ("gp", "gp-eb"):
            for outputs in examples["outputs"].values:
                here = examples.sel(outputs=outputs) / outputs
                gaps = here.sel(model="depth 3, width 30") - here.sel(model=base)
                name = f"examples, {outputs} outputs, over {SIMPLE[base]}"
                row = [mean_and_error(each) for each in gaps.transpose("examples", "seed").values]
                yield [name, f"{misfit:g}"], row


def report(folder):
    """Print the tables, store them, and draw who is best."""
    stored = {"provenance": [provenance("python -m studies.what_depth_buys run")], "tables": {}}
    for rows in (by_misfit, by_model, by_size):
        cells = [
            [*names, *(f"{mean:+.3f} ± {error:.3f}" for mean, error in row)] for names, row in rows(folder)
        ]
        stored["tables"][rows.__name__] = lines = ["| " + " | ".join(each) + " |" for each in cells]
        print("\n".join(lines))
    STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draw(folder)


def draw(folder):
    """Over examples and misfit: the model of the highest mean log density and its margin over the next."""
    import matplotlib.pyplot as plt

    from lbnn.plots import COLOURS

    found = list(tasks(folder))
    figure, panels = plt.subplots(1, len(found), figsize=(13.6, 3.4), sharey=True, layout="constrained")
    names, colours = (*SIMPLE.values(), CHOSEN), ("#8c8c8c", COLOURS[0], COLOURS[2], COLOURS[1])
    for axes, (task, outputs, sweep, chosen) in zip(panels, found, strict=True):
        for row, column in np.ndindex(len(sweep["misfit"]), len(sweep["examples"])):
            at = {"misfit": row, "examples": column}
            laws = [*(sweep.isel(at).sel(model=each) for each in SIMPLE), chosen.isel(at)]
            order = np.argsort([-float(law["test_log_density"].mean()) for law in laws])
            margin, error = gain(laws[order[0]], laws[order[1]], outputs)
            strength = min(1.0, 0.25 + 3.75 * margin) if margin > 2 * error else 0.15
            axes.add_patch(plt.Rectangle((column, row), 1, 1, color=colours[order[0]], alpha=strength, lw=0))
            axes.text(column + 0.5, row + 0.5, f"{margin:+.2f}\n±{error:.2f}", ha="center", va="center")
        axes.set(title=task, xlabel="examples", xlim=(0, column + 1), ylim=(0, row + 1))
        axes.set_xticks(np.arange(column + 1) + 0.5, sweep["examples"].values)
        axes.set_yticks(np.arange(row + 1) + 0.5, sweep["misfit"].values)
    panels[0].set_ylabel("misfit")
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=colour, label=name)
        for name, colour in zip(names, colours, strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(names), frameon=False)
    figure.savefig(IMAGE, metadata={"Date": None})


if __name__ == "__main__":
    {"run": run, "report": report}[sys.argv[1]](sys.argv[2])
