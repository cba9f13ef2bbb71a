"""Every function of `lbnn.plots`, drawn once, to be looked at: `python docs/make_gallery.py FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import lbnn
from lbnn import plots

GALLERY: dict[str, Callable[[], Any]] = {}


def picture(function: Callable[[], Any]) -> Callable[[], Any]:
    """A picture of the gallery, by the name of the function that it shows."""
    GALLERY[function.__name__] = function
    return function


@lru_cache
def data() -> tuple[Any, Any]:
    """Inputs and three targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 12))
    return X, X @ rng.normal(size=(12, 3)) / 3 + 0.3 * rng.normal(size=(40, 3))


@lru_cache
def several() -> lbnn.Posterior:
    """Of three outputs."""
    return lbnn.Network((6, 6)).condition(*data(), beta=10.0)


@lru_cache
def model() -> lbnn.LBNNRegressor:
    """Fitted to the data."""
    return lbnn.LBNNRegressor().fit(*data())


@lru_cache
def sweep() -> xr.Dataset:
    """As `lbnn.sweep` gives it."""
    rng = np.random.default_rng(1)
    axes = {"seed": range(5), "width": [5, 20, 80], "beta": np.geomspace(1, 1000, 6)}
    error = 1 / np.log(3 + axes["beta"]) + 0.1 / np.sqrt(axes["width"])[:, None]
    values = error + 0.03 * rng.normal(size=(5, 3, 6))
    return xr.Dataset({"test_error": (tuple(axes), values)}, axes)


@picture
def calibration_curve() -> Any:  # noqa: D103
    return plots.calibration_curve(model().leave_one_out(), data()[1])


@picture
def coefficients() -> Any:  # noqa: D103
    deviations = np.full((3, 12), 0.08)
    names = [f"feature {j}" for j in range(12)]
    return plots.coefficients(model().coef_, deviations=deviations, features=names, targets=["a", "b", "c"])


@picture
def comparison() -> Any:  # noqa: D103
    X, Y = data()
    return plots.comparison(lbnn.compare(lbnn.Network((30,)), X[:10], Y[:10, 0], beta=4.0))


@picture
def convergence() -> Any:  # noqa: D103
    sizes = [40, 80, 160, 320]
    errors = [[0.1, 0.05, 0.026, 0.012], [0.2, 0.11, 0.08, 0.07]]
    return plots.convergence(sizes, errors, [[0.01] * 4] * 2, ["infinite width", "proportional"])


@picture
def coupling_matrix() -> Any:  # noqa: D103
    return plots.coupling_matrix(several(), labels=["fat", "water", "protein"])


@picture
def evidence_over_widths() -> Any:  # noqa: D103
    return plots.evidence_over_widths(model().evidence_table_)


@picture
def kernel_panels() -> Any:  # noqa: D103
    return plots.kernel_panels(several(), data()[1])[0]


@picture
def measured_against_predicted() -> Any:  # noqa: D103
    return plots.measured_against_predicted(model().leave_one_out(), data()[1])


@picture
def phase_diagram() -> Any:  # noqa: D103
    rng = np.random.default_rng(2)
    found = []
    for examples in (6, 12, 24):
        for outputs in (1, 2, 4):
            X = rng.normal(size=(examples, 30))
            Y = X @ rng.normal(size=(30, outputs)) / 4
            found.append(lbnn.Network((8,)).condition(X, Y, beta=20.0, target_error=0.2))
    return plots.phase_diagram(found)


@lru_cache
def bands() -> Any:
    """Two bands and forty targets, of which the first band explains less and less."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(60, 40)), rng.normal(size=(60, 40))
    share = np.linspace(1, 0, 40)
    Y = first @ rng.normal(size=(40, 40)) * share + second @ rng.normal(size=(40, 40)) * (1 - share)
    fitted = lbnn.Bands([lbnn.Network((5,)), lbnn.Network((5,))])
    return fitted.condition([first, second], Y / np.sqrt(40) + 0.3 * rng.normal(size=Y.shape))


@picture
def band_shares() -> Any:  # noqa: D103
    return plots.band_shares(bands(), 5, names=["first", "second"])


@picture
def band_share_map() -> Any:  # noqa: D103
    return plots.band_share_map(bands(), 0, name="first")


@picture
def band_evidence() -> Any:  # noqa: D103
    gain = bands().log_evidence - bands().log_evidence.min()
    return plots.band_evidence(np.stack([gain, gain[::-1]], axis=1), names=["first", "second"])


@picture
def learning_curves() -> Any:  # noqa: D103
    curve = lbnn.learning_curve(lbnn.Network((20,)), [2, 5, 10, 15, 19], inputs=20, teacher_norm=0.5)
    return plots.learning_curves(curve, "gibbs_error")


@picture
def predictive_band() -> Any:  # noqa: D103
    t = np.linspace(-1, 1, 60)
    powers = t[:, None] ** np.arange(5)
    post = lbnn.Network((5,)).condition(powers[::10], np.sin(3 * t[::10]), beta=100.0)
    return plots.predictive_band(post.predict(powers), t, label="depth 2")


@picture
def scale_density() -> Any:  # noqa: D103
    X, Y = data()
    nets = [lbnn.Network((5,) * depth) for depth in (1, 3, 9)]
    return plots.scale_density([net.condition(X, Y[:, 0], beta=10.0) for net in nets])


@picture
def speed() -> Any:  # noqa: D103
    return plots.speed([5, 50, 500], [[9e4, 9e4, 8e4], [1e3, 1e2, 20]], labels=["scale", "weights"])


@picture
def standardised_residuals() -> Any:  # noqa: D103
    return plots.standardised_residuals(model().leave_one_out(), data()[1])


@picture
def sweep_curves() -> Any:  # noqa: D103
    return plots.sweep_curves(sweep(), "test_error", x="beta", by="width")


@picture
def sweep_map() -> Any:  # noqa: D103
    return plots.sweep_map(sweep(), "test_error", x="beta", y="width")


def main(folder: str = "build/gallery") -> None:
    """Write every picture, and all of them on one sheet."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for name, draw in GALLERY.items():
        draw().figure.savefig(out / f"{name}.png", dpi=80)
        plt.close("all")
    sheet, places = plt.subplots(7, 3, figsize=(21, 35), layout="constrained")
    for place, name in zip(places.flat, GALLERY, strict=False):
        place.imshow(plt.imread(out / f"{name}.png"))
        place.set_title(name)
        place.axis("off")
    sheet.savefig(out / "sheet.png", dpi=70)


if __name__ == "__main__":
    main(*sys.argv[1:])
