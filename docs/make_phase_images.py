"""Draw the pictures of docs/two-ways.md and print its figures: `.venv/bin/python docs/make_phase_images.py`.

Five minutes. Everything but the chains is exact.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from make_images import IMAGES, style
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap
from scipy import special

import lbnn
from lbnn import plots

BLUE, ORANGE, GREEN = plots.COLOURS[:3]
SHADES = LinearSegmentedColormap.from_list("phases", [BLUE, "white", ORANGE])
VARIANCES = np.geomspace(1e-3, 0.5, 16)
NEAR = 0.5 * np.sinh(3 * np.linspace(-1, 1, 37)) / math.sinh(3)  # log of noise over that of even odds
BAND = math.log(99)  # log odds of 1% and of 99%
WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def data(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Twenty examples of two inputs, a teacher of unit length."""
    rng = np.random.default_rng(0)
    X, teacher = rng.normal(size=(20, 2)), rng.normal(size=2)
    return X, X @ (teacher / np.linalg.norm(teacher)) + noise * rng.normal(size=20)


def posterior(widths: Sequence[int], variance: float, noise: float) -> lbnn.Posterior:
    """The same prior variance in every layer."""
    network = lbnn.Network(widths, prior_variances=(variance,) * (len(widths) + 1))
    return network.condition(*data(noise), beta=1 / noise**2)


TEN = posterior((2, 2), 0.01, 0.1196)
FOURTEEN = posterior((2, 2, 2), 0.02, 0.135)


# ---------------------------------------------------------------------- two peaks


def log_density(post: lbnn.Posterior, x: np.ndarray) -> np.ndarray:
    """Of log λ."""
    return post.scale.log_density(np.exp(x)) + x


def valley(post: lbnn.Posterior) -> float:
    """The minimum between two peaks of the density of log λ, on a grid of 1e-3."""
    x = np.linspace(-16.0, 1.0, 17_001)
    values = log_density(post, x)
    turns = 1 + np.flatnonzero(np.diff(values)[:-1] * np.diff(values)[1:] < 0)
    assert len(turns) == 3
    heights = values[turns]
    print(f"peaks {heights[0]:.2f} and {heights[2]:.2f}, minimum {heights[1]:.2f} at {x[turns[1]]:.2f}")
    print(f"the minimum is {heights[0] - heights[1]:.1f} and {heights[2] - heights[1]:.1f} nats below them")
    return float(x[turns[1]])


def draw_density() -> None:
    """two-ways-density.svg: log density of log λ of ten and of fourteen weights."""
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained", sharey=True)
    x = np.linspace(-26.0, 2.0, 800)
    for axes, post, name in zip(panels, (TEN, FOURTEEN), ("ten weights", "fourteen weights"), strict=True):
        cut, phases = valley(post), post.scale.phases()
        print(name, phases, f"log evidence {post.log_evidence:.2f}, masses {phases.mass}")
        values = log_density(post, x)
        for side, colour in (x <= cut, ORANGE), (x >= cut, BLUE):
            axes.plot(x[side], values[side], color=colour)
        axes.plot(
            x, post.prior.log_scale_law.log_density(x), color="0.4", ls="--", lw=1, label="before the data"
        )
        axes.axvline(cut, color="0.7", lw=0.8)
        for phase in phases:
            colour = BLUE if phase.fitted_directions else ORANGE
            place = 0.97 if phase.fitted_directions else 0.03
            side = "right" if phase.fitted_directions else "left"
            text = f"{'fitted' if phase.fitted_directions else 'collapsed'}\nmass {mass_text(phase.mass)}"
            axes.text(
                place, 0.97, text, color=colour, ha=side, va="top", transform=axes.transAxes, fontsize=9
            )
        axes.set(xlabel="log λ", ylim=(-40, 12))
        axes.set_title(name, fontsize=10)
    panels[0].set_ylabel("log density of log λ")
    panels[0].legend(frameon=False, fontsize=9, loc="lower left")
    figure.savefig(IMAGES / "two-ways-density.svg")


def mass_text(mass: float) -> str:
    """Three digits, or a power of ten."""
    if mass > 0.001:
        return f"{mass:.3f}" if mass < 0.9995 else "1.000"
    digits, power = f"{mass:.1e}".split("e-")
    return f"{digits}·10⁻" + str(int(power)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


# ---------------------------------------------------------------------- the diagram


def log_odds(widths: Sequence[int], variance: float, noise: float) -> tuple[float, int]:
    """Log odds of collapsed against fitted, at most 60 either way, and the number of phases."""
    with warnings.catch_warnings(action="ignore", category=lbnn.AccuracyWarning):
        phases = posterior(widths, variance, noise).scale.phases()  # integrates each phase by itself
    masses = [max(float(phases.mass[phases.fitted_directions == k].sum()), math.exp(-60)) for k in (0, 1)]
    return math.log(masses[0] / masses[1]), len(phases)


def transition(widths: Sequence[int], variance: float) -> np.ndarray:
    """Noise, log odds of collapsed, number of phases: (rows, 3), fine where the odds are even."""
    low, high = 0.01, 10.0
    while high / low > 1.002:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if log_odds(widths, variance, middle)[0] > 0 else (middle, high)
    cells = [(noise, *log_odds(widths, variance, noise)) for noise in (low, high)]
    if cells[0][2] + cells[1][2] > 2:  # two peaks
        cells = [(noise, *log_odds(widths, variance, noise)) for noise in low * np.exp(NEAR)]
    else:
        half = len(NEAR) // 2
        cells = [cells[0]] * half + [cells[1]] * (len(NEAR) - half)
    return np.array([(0.01, -60.0, 1), *cells, (10.0, 60.0, 1)])


def shade(axes: Axes, columns: Sequence[float], networks: Sequence[tuple[Sequence[int], float]]) -> QuadMesh:
    """Mass of the collapsed phase as colour over columns and noise; dashes at 1% and 99%, dots at 50%."""
    cells = np.stack([transition(widths, variance) for widths, variance in networks], axis=1)
    noise, odds, count = np.moveaxis(cells, -1, 0)
    place = np.broadcast_to(np.asarray(columns, float), noise.shape)
    image = axes.pcolormesh(
        place, noise, special.expit(odds), cmap=SHADES, vmin=0, vmax=1, shading="gouraud", rasterized=True
    )
    axes.set(yscale="log", ylim=(0.02, 1.0))
    edges = []
    for index, column in enumerate(columns):
        levels = np.interp([-BAND, 0.0, BAND], odds[:, index], np.log(noise[:, index]))
        edges.append(np.exp(levels))
        ends = f"1% at {edges[-1][0]:.4f}, 50% at {edges[-1][1]:.4f}, 99% at {edges[-1][2]:.4f}"
        print(f"  {column:.3g}: {count[:, index].max():.0f} phases, collapsed {ends}")
    two = count.max(axis=0) > 1
    axes.plot(columns, np.array(edges)[:, 1], color="0.3", lw=0.8, ls=":")
    for edge in (0, 2):
        axes.plot(columns, np.where(two, np.array(edges)[:, edge], np.nan), color="black", lw=0.8, ls="--")
    return image


def draw_diagram() -> None:
    """two-ways-diagram.svg: mass of the collapsed phase over prior variance and noise, three depths."""
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.4), layout="constrained", sharey=True)
    for axes, depth in zip(panels, (2, 3, 5), strict=True):
        print(f"depth {depth}, width 2")
        image = shade(axes, VARIANCES, [((2,) * (depth - 1), variance) for variance in VARIANCES])
        axes.set(xscale="log", xlabel="prior variance of every layer")
        axes.set_title(f"depth {depth}, width 2", fontsize=10)
    panels[0].set_ylabel("noise")
    panels[1].plot(0.01, 0.1196, "o", color="black", markersize=4)
    figure.colorbar(image, ax=panels, label="mass of the collapsed phase", shrink=0.9)
    figure.savefig(IMAGES / "two-ways-diagram.svg", dpi=200)


def draw_widths() -> None:
    """two-ways-width.svg: mass of the collapsed phase over width and noise, depth three and five."""
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained", sharey=True)
    for axes, depth, variance in zip(panels, (3, 5), (0.01, 0.1), strict=True):
        print(f"depth {depth}, prior variance {variance}")
        image = shade(axes, WIDTHS, [((width,) * (depth - 1), variance) for width in WIDTHS])
        axes.set_xscale("log", base=2)
        axes.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
        axes.set(xlabel="width of the hidden layers")
        axes.minorticks_off()
        axes.set_title(f"depth {depth}, prior variance {variance:g}", fontsize=10)
    panels[0].set_ylabel("noise")
    figure.colorbar(image, ax=panels, label="mass of the collapsed phase", shrink=0.9)
    figure.savefig(IMAGES / "two-ways-width.svg", dpi=200)


# ---------------------------------------------------------------------- what it does


def draw_consequences() -> None:
    """two-ways-consequences.svg: a predictive density of two parts, and the evidence of each phase."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
    with np.errstate(over="ignore"):
        draw_predictive(left)
    draw_branches(right)
    figure.savefig(IMAGES / "two-ways-consequences.svg")


def draw_predictive(axes: Axes) -> None:
    """Distribution function of the output at the teacher's own direction, where the truth is one."""
    teacher = np.linalg.lstsq(*data(0.0), rcond=None)[0]
    levels = np.linspace(0.002, 0.998, 250)
    for noise, colour in (0.11, BLUE), (0.1196, GREEN), (0.126, ORANGE):
        predictive = posterior((2, 2), 0.01, noise).predict(teacher[None])
        name = f"noise {noise:g}, mean {float(predictive.mean[0]):.2f}"
        axes.plot(
            [float(predictive.quantile(level)[0]) for level in levels], levels, color=colour, label=name
        )
    axes.set(xlabel="output at the teacher's direction", ylabel="probability of less", xlim=(-0.1, 1.6))
    axes.legend(frameon=False, fontsize=9, loc="lower right")


def draw_branches(axes: Axes) -> None:
    """Log evidence against the noise, and the parts that the two phases contribute."""
    noises, whole = np.linspace(0.1065, 0.1285, 31), []
    parts: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    for noise in noises:
        post = posterior((2, 2), 0.01, noise)
        whole.append(post.log_evidence)
        for phase in post.scale.phases():
            parts[phase.fitted_directions].append((noise, post.log_evidence + math.log(phase.mass)))
    for fitted, colour, name in (1, BLUE, "fitted phase alone"), (0, ORANGE, "collapsed phase alone"):
        axes.plot(*np.array(parts[fitted]).T, color=colour, label=name)
    axes.plot(noises, whole, color="black", lw=2.5, alpha=0.4, label="log evidence")
    axes.set(xlabel="noise", ylabel="nats")
    axes.legend(frameon=False, fontsize=9)


# ---------------------------------------------------------------------- chains


class WeightSpace:
    """Potential energy of the weights z, standard normal a priori, of a network with widths two."""

    def __init__(self, hidden: int, variance: float, noise: float) -> None:
        X, y = data(noise)
        self.shapes = [(2, 2)] * hidden + [(1, 2)]
        self.scale, self.beta = math.sqrt(variance / 2), 1 / noise**2
        self.gram, self.cross, self.square = X.T @ X, X.T @ y, float(y @ y)
        self.dimension = 4 * hidden + 2

    def weights(self, z: np.ndarray) -> list[np.ndarray]:
        """W_1, ..., W_d of every chain."""
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])[:-1]
        parts = np.split(self.scale * z, ends, axis=1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def flat(self, weights: list[np.ndarray]) -> np.ndarray:
        """The other way."""
        return np.concatenate([each.reshape(len(each), -1) for each in weights], axis=1) / self.scale

    def potential(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """−log posterior up to a constant, and its gradient."""
        weights = self.weights(z)
        above = [np.broadcast_to(np.eye(1), (len(z), 1, 1))]  # W_d ⋯ W_{ℓ+1}, from the top
        for weight in weights[:0:-1]:
            above.append(above[-1] @ weight)
        total = (above[-1] @ weights[0])[:, 0]
        residual = total @ self.gram - self.cross
        energy = (total * (residual - self.cross)).sum(1) + self.square
        below = self.beta * residual[:, :, None]  # W_{ℓ−1} ⋯ W_1 times the gradient in the product
        gradients = []
        for weight, upper in zip(weights, above[::-1], strict=True):
            gradients.append(upper.swapaxes(1, 2) @ below.swapaxes(1, 2))
            below = weight @ below
        value = 0.5 * (z**2).sum(1) + 0.5 * self.beta * energy
        return value, z + self.scale**2 * self.flat(gradients)

    def log_scale(self, z: np.ndarray) -> np.ndarray:
        """log λ."""
        upper = self.weights(z)[-1]
        for weight in self.weights(z)[-2:0:-1]:
            upper = upper @ weight
        return np.log((upper**2).sum((1, 2)))


def hamiltonian_chains(
    space: WeightSpace, z: np.ndarray, draws: int, step: float, leaps: int, seed: int
) -> tuple[np.ndarray, float]:
    """Plain Hamiltonian Monte Carlo: log λ along every chain (draws, chains), and the share accepted."""
    rng = np.random.default_rng(seed)
    energy, slope = space.potential(z)
    path, accepted = [], 0.0
    for _ in range(draws):
        start = rng.standard_normal(z.shape)
        new, momentum, new_slope = z, start, slope
        length = step * rng.uniform(0.8, 1.2)
        for _ in range(leaps):
            momentum = momentum - 0.5 * length * new_slope
            new = new + length * momentum
            new_energy, new_slope = space.potential(new)
            momentum = momentum - 0.5 * length * new_slope
        lost = new_energy - energy + 0.5 * ((momentum**2).sum(1) - (start**2).sum(1))
        take = np.log(rng.random(len(z))) < -lost
        z, slope = np.where(take[:, None], new, z), np.where(take[:, None], new_slope, slope)
        energy = np.where(take, new_energy, energy)
        accepted += take.mean() / draws
        path.append(space.log_scale(z))
    return np.array(path), accepted


def check_gradient(space: WeightSpace) -> None:
    """Central differences; and exact draws of the weights have the λ of the exact law."""
    z, step = 5 * np.random.default_rng(1).standard_normal((3, space.dimension)), 1e-6
    _, gradient = space.potential(z)
    for k, unit in enumerate(np.eye(space.dimension)):
        slope = (space.potential(z + step * unit)[0] - space.potential(z - step * unit)[0]) / (2 * step)
        np.testing.assert_allclose(slope, gradient[:, k], rtol=1e-5, atol=1e-4)


def draw_chains() -> None:
    """two-ways-chains.svg: chains that start from the prior and chains that start from fitted networks."""
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained", sharey=True)
    x = np.linspace(-22.0, 1.0, 400)
    for axes, post, hidden, noise, name in zip(
        panels, (TEN, FOURTEEN), (2, 3), (0.1196, 0.135), ("ten weights", "fourteen weights"), strict=True
    ):
        variance = post.prior.layer_variances[0]
        space, cut = WeightSpace(hidden, variance, noise), valley(post)
        check_gradient(space)
        print("height of the pass:", pass_height(space))
        exact = space.flat(post.sample_weights(2_000, 1))
        fitted = exact[space.log_scale(exact) > cut][:200]
        prior = np.random.default_rng(3).standard_normal((200, space.dimension))
        path, accepted = hamiltonian_chains(space, np.concatenate([prior, fitted]), 2_000, 0.3, 20, seed=2)
        inside = path > cut
        report_chains(name, path, inside, accepted, post)
        for chain in range(4):
            axes.plot(path[:1000, chain], color=ORANGE, lw=0.4, alpha=0.7, rasterized=True)
            axes.plot(path[:1000, 200 + chain], color=BLUE, lw=0.4, alpha=0.7, rasterized=True)
        axes.axhline(cut, color="0.5", lw=0.8, ls="--")
        density = np.exp(log_density(post, x))
        axes.fill_betweenx(x, 1020, 1020 + 150 * density / density.max(), color="0.6", lw=0)
        axes.set(xlabel="draw of the chain", xlim=(0, 1180), ylim=(-22, 2))
        axes.set_xticks([0, 500, 1000])
        axes.set_title(name, fontsize=10)
        axes.text(500, 0.1, "began fitted", color=BLUE, ha="center", va="bottom", fontsize=9)
        axes.text(500, cut - 0.4, "began in the prior", color=ORANGE, ha="center", va="top", fontsize=9)
        axes.text(1010, cut - 0.4, "exact", color="0.4", ha="left", va="top", fontsize=9)
    panels[0].set_ylabel("log λ")
    figure.savefig(IMAGES / "two-ways-chains.svg", dpi=200)


def report_chains(
    name: str, path: np.ndarray, inside: np.ndarray, accepted: float, post: lbnn.Posterior
) -> None:
    """What a user would see of the first two hundred chains, and what is true."""
    crossings = int((inside[1:] != inside[:-1]).sum())
    kept, phases = path[1000:, :200], post.scale.phases()
    shrink = [split_r_hat(kept[:, first : first + 4]) for first in range(0, 200, 4)]
    fitted = float(phases.mass[phases.fitted_directions == 1].sum())
    print(f"{name}: accepted {accepted:.3f}; {crossings} crossings in {inside.size} draws of 400 chains")
    print(
        f"  began in the prior: fitted {inside[0, :200].sum()} at first, {inside[-1, :200].sum()} at the end"
    )
    print(f"  began fitted: {inside[-1, 200:].sum()} of {inside.shape[1] - 200} fitted at the end")
    print(f"  split r-hat of log λ, fifty runs of four chains: median {np.median(shrink):.3f}")
    print(f"  runs with r-hat above 1.01: {np.sum(np.array(shrink) > 1.01)}; true fitted mass {fitted:.9f}")


def split_r_hat(chains: np.ndarray) -> float:
    """√(total variance / variance within) of halves of chains (draws, chains)."""
    halves = np.concatenate(np.split(chains, 2), axis=1)
    within, between = halves.var(0, ddof=1).mean(), halves.mean(0).var(ddof=1)
    return math.sqrt((len(halves) - 1) / len(halves) + between / within)


def pass_height(space: WeightSpace) -> str:
    """Potential energy over that at the origin, along |product| = ω with weights as small as can be."""
    angles = np.linspace(0, 2 * np.pi, 2_001)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    sizes = np.linspace(0, 1.2, 2_401)
    depth = len(space.shapes)
    quadratic, linear = (circle @ space.gram * circle).sum(1), circle @ space.cross
    fit = np.array([(size**2 * quadratic - 2 * size * linear).min() for size in sizes])
    energy = 0.5 * depth * (sizes / space.scale**depth) ** (2 / depth) + 0.5 * space.beta * fit
    top = int(energy[:400].argmax())
    least = top + int(energy[top:].argmin())
    return f"{energy[top]:.1f} over the origin, {energy[top] - energy[least]:.1f} over the fitted minimum"


if __name__ == "__main__":
    with style():
        draw_density()
        draw_consequences()
        draw_chains()
        draw_diagram()
        draw_widths()
