"""One atom: depth one (L = I), and any theory that fixes the scale."""

from __future__ import annotations

import math

import numpy as np

from lbnn._base.types import Array
from lbnn.engines.inference import Diagnostics, ScaleInference
from lbnn.engines.target import ScaleLikelihood
from lbnn.scale.measure import ScaleMeasure


def infer_atom(scale: Array, likelihood: ScaleLikelihood, single_output: bool) -> ScaleInference:
    """All posterior mass on `scale` (n_d, n_d): a Gaussian process."""
    measure = ScaleMeasure.atom(scale, single_output)
    log_evidence = likelihood.log_constant + float(likelihood.log_value(*measure.eigen)[0])
    return ScaleInference(measure, log_evidence, 0.0, Diagnostics("atom", math.inf))


def identity_scale(outputs: int, variance: float) -> Array:
    """variance · I, the scale of a network of depth one, (n_d, n_d)."""
    return variance * np.eye(outputs)
