"""Engines: prior × likelihood factor → scale measure, evidence, diagnostics.

`table` says what is tried for a problem (`plan`, which draws nothing), `run` follows it (`infer`),
`sampling` makes the estimates and answers that its lines name, `verdict` decides whether an answer is ok,
`policy` holds the thresholds of these decisions. What is tried: `quadrature` (one output), and samplers
that return an `Estimate` each: `importance`, `mixture`, `rowwise`, `relative_rows`, `spectral`, `smc`;
`grow` is their loop. `inference` holds the types of questions and answers, `conditioned` what every
posterior answers, `laws` what stands behind weighted draws. Coordinates: `target`, `total_target`; phases:
`modes`, `axis_laws`; weights: `estimate`, `pareto`; moves: `spectral_moves`. `integrand` compares what was
integrated with the plain formula. Signal and noise with a covariance each: `signal_noise`,
`signal_noise_target`. Imports `scale` and `likelihood`; nothing of inputs, noise or predictions.
"""

from lbnn.engines.inference import Diagnostics, EvidenceEstimate, InferenceOptions, ScaleInference
from lbnn.engines.run import infer
from lbnn.engines.table import ENGINES, Plan, Problem, Step, plan

__all__ = [
    "ENGINES",
    "Diagnostics",
    "EvidenceEstimate",
    "InferenceOptions",
    "Plan",
    "Problem",
    "ScaleInference",
    "Step",
    "infer",
    "plan",
]
