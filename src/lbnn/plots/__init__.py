"""Pictures of posteriors: functions that take posteriors and return matplotlib axes.

Every function draws on the axes `ax` if they are given, and else on those of a new figure, and returns them.

Needs matplotlib, the extra `plots`. One file for each subject: `scale`, `band`, `bands`, `matrices`,
`learning`, `theories`, `fitted`; `_style` is shared; `page` is the document of reports. Imports the objects
it draws; computes nothing of its own.
"""

from lbnn.plots._style import COLOURS
from lbnn.plots.band import predictive_band
from lbnn.plots.bands import band_shares
from lbnn.plots.fitted import left_out
from lbnn.plots.learning import learning_curves
from lbnn.plots.matrices import coupling_matrix, kernel_panels
from lbnn.plots.scale import scale_density
from lbnn.plots.theories import comparison

__all__ = [
    "COLOURS",
    "band_shares",
    "comparison",
    "coupling_matrix",
    "kernel_panels",
    "learning_curves",
    "left_out",
    "predictive_band",
    "scale_density",
]
