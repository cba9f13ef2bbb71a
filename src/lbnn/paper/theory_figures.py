"""The figure of the limit theories."""

from __future__ import annotations

from lbnn.paper.curves import size_curves
from lbnn.paper.figures import new_figure
from lbnn.paper.registry import Picture, Run
from lbnn.plots._style import MINUS
from lbnn.theories.convergence import REGIMES

#: The paper's regimes.
REGIMES_SHOWN = ("infinite width", "infinite data", "proportional", "many outputs")


def convergence(run: Run) -> Picture:
    """Errors of the theories against the growing size, as the check recorded them."""
    figure, (axes,) = new_figure()
    record = run.record
    size_curves(
        axes,
        record["size"],
        [record[name] for name in REGIMES_SHOWN],
        [record[f"{name}, standard error"] for name in REGIMES_SHOWN],
        [_label(name, record[f"{name}, rate"]) for name in REGIMES_SHOWN],
        slope=-1,
    )
    axes.set(xlabel="growing size", ylabel="relative error of the kernel")
    return Picture(
        figure,
        "Error of each limit theory against the exact kernel as its size grows (geometric mean over four "
        "data sets), with the fitted slopes; bars are two standard errors over data sets. Every theory "
        "converges at about one over the size (dashed). "
        "Relative to the change of the kernel, for many outputs to the kernel.",
        "Four curves on logarithmic axes that fall along a line of slope minus one.",
    )


def _label(name: str, rate: float) -> str:
    growing = REGIMES[name].growing.replace("n_1", "$n_1$").replace("n_d", "$n_d$")
    return f"{name}, {growing}: slope {rate:.2f}".replace("-", MINUS)
