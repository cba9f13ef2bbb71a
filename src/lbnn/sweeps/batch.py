"""Many temperatures of one network with one output at once, where the batched quadrature is there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lbnn.data.spectrum import Spectrum
from lbnn.network import Network
from lbnn.selection.grid import evidence_grid

#: Quantities that the batched quadrature knows.
BATCHED = {"log_evidence", "scale_mean", "scale_inverse_mean"}


def batch(network: Any, spectrum: Spectrum, betas: Sequence[float]) -> list[dict[str, float]] | None:
    """Values of `BATCHED` with their errors (zero) at every β; None for what is not a plain network.

    With one output the law of the scale depends on the product of the prior variances: that of the first
    layer multiplies the Gram matrix with the others, which multiply λ.
    """
    if type(network) is not Network:
        return None
    later = math.prod(network.prior_variances[1:])
    data = spectrum.scaled(network.prior_variances[0] * later)
    grid = evidence_grid(data, [network.widths], list(betas))
    rows = zip(
        grid.log_evidence[0], later * grid.scale_mean[0], grid.scale_inverse_mean[0] / later, strict=True
    )
    return [
        {
            "log_evidence": float(evidence),
            "log_evidence_error": 0.0,
            "scale_mean": float(mean),
            "scale_mean_error": 0.0,
            "scale_inverse_mean": float(inverse),
            "scale_inverse_mean_error": 0.0,
        }
        for evidence, mean, inverse in rows
    ]
