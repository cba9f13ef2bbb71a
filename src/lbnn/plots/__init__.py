"""Pictures of posteriors: functions that take posteriors and return matplotlib axes.

Every function draws on the axes `ax` if they are given, and else on those of a new figure, and returns them.

Needs matplotlib, the extra `plots`. One file for each subject: `scale`, `band`, `bands`, `matrices`,
`curves`, `learning`, `phase`, `theories`, `fitted`, `sweeps`; `_style` is shared. Imports the objects it
draws; computes nothing of its own.
"""

from __future__ import annotations

from typing import Any

from lbnn._base.deprecated import announce
from lbnn.plots._style import COLOURS
from lbnn.plots.band import predictive_band
from lbnn.plots.bands import band_evidence, band_share_map, band_shares
from lbnn.plots.curves import convergence, speed
from lbnn.plots.fitted import (
    calibration_curve,
    coefficients,
    evidence_over_widths,
    measured_against_predicted,
    standardised_residuals,
)
from lbnn.plots.learning import learning_curves
from lbnn.plots.matrices import coupling_matrix, kernel_panels
from lbnn.plots.phase import phase_diagram
from lbnn.plots.scale import scale_density
from lbnn.plots.sweeps import sweep_curves, sweep_map
from lbnn.plots.theories import comparison
from lbnn.posterior import Posterior

__all__ = [
    "COLOURS",
    "band_evidence",
    "band_share_map",
    "band_shares",
    "calibration_curve",
    "coefficients",
    "comparison",
    "convergence",
    "coupling_matrix",
    "evidence_over_widths",
    "kernel_panels",
    "learning_curves",
    "measured_against_predicted",
    "phase_diagram",
    "predictive_band",
    "scale_density",
    "speed",
    "standardised_residuals",
    "sweep_curves",
    "sweep_map",
]


def __getattr__(name: str) -> Any:
    """The former function `kernel_change`."""
    if name != "kernel_change":
        raise AttributeError(f"module 'lbnn.plots' has no attribute {name!r}")
    announce("lbnn.plots.kernel_change", "Posterior.kernel_change")
    return Posterior.kernel_change
