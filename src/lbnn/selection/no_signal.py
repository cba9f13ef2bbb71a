"""Targets without signal: a level and noise. Its evidence has a closed form, and no prior scale is fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lbnn._base.types import Array
from lbnn.selection import gaussian_process
from lbnn.selection.data import EvidenceData
from lbnn.selection.parameters import NoiseSpec, free_parameters, target_variances
from lbnn.selection.width_search import Trial, penalty_of

_FEWEST_EXAMPLES = 5  # fewer show no signal whether there is one or not
_TIE = 0.01  # nats: a maximum of the evidence this near is one without signal


def no_signal(data: EvidenceData, spec: NoiseSpec) -> Trial | None:
    """The candidate whose targets do not depend on the inputs; None where prior scale or zero noise is given.

    It is the Gaussian process at the lower end of the range of κ, where the signal is 1e-8 of the noise, with
    the noise variances that maximise its evidence: mean squares of the targets. The evidence is
    −(p/2) Σ_j (log 2πu_j + 1), of curvature p/2 in each log u_j. It counts as many hyperparameters as the
    Gaussian process, of which it is a limit, so that it is preferred only where no signal raises the
    evidence: data of few examples may have a signal that the evidence does not distinguish from noise.
    """
    few = data.spectrum.examples < _FEWEST_EXAMPLES
    if few or spec.prior_scale is not None or not data.noise_variance or not data.spectrum.rank:
        return None
    kind = replace(spec, coupled=False)
    free = free_parameters(data, kind)
    variances = target_variances(data)
    h = free.base.copy()
    if spec.noise_variance is None:
        h[:-1] = np.log(variances if spec.per_output else np.full(data.outputs, variances.mean()))
    h[-1] = free.lower[-1]
    units = free.directions[:, : free.count - 1]
    h = free.at(np.append(free.nearest(h)[:-1], free.lower[-1]))
    curvature = 0.5 * data.spectrum.examples * units.T @ units
    return Trial(
        (),
        h,
        _log_evidence(data, h),
        0.0,
        on_edge=False,
        noise=kind.noise,
        penalty=penalty_of(free.count, data) - _TIE,
        curvature=curvature,
        directions=units,
        signal=False,
    )


def _log_evidence(data: EvidenceData, h: Array) -> float:
    """Log evidence of the Gaussian process at h (n_d + 1,)."""
    return float(gaussian_process.log_evidence(data, h[None])[0])
