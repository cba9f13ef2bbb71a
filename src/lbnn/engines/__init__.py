"""Engines: prior × likelihood factor → ScaleInference. One file each, one rule that chooses."""

from __future__ import annotations

from dataclasses import dataclass

from lbnn.engines.atom import identity_scale, infer_atom
from lbnn.engines.inference import Diagnostics, ScaleInference
from lbnn.engines.quadrature import infer_quadrature
from lbnn.engines.sampled import Effort, SampledLaw, draw_posterior
from lbnn.engines.target import ScaleTarget
from lbnn.likelihood import LikelihoodFactor
from lbnn.scale_measure import ScaleMeasure, Tails
from lbnn.scale_prior import ScalePrior

__all__ = ["Diagnostics", "Effort", "EngineChoice", "ScaleInference", "choose_engine", "infer"]

ENGINES = ("atom", "quadrature", "importance", "smc")


@dataclass(frozen=True)
class EngineChoice:
    """Which engine, and why."""

    engine: str
    reason: str


def choose_engine(prior: ScalePrior) -> EngineChoice:
    """The engine that `engine="auto"` takes.

    1. Depth one: the scale is the identity, one atom.
    2. One output: quadrature over log λ, deterministic.
    3. Several outputs: importance sampling; if its own diagnostics (effective sample size, Pareto k, error of
       the evidence) do not reach the target error, sequential Monte Carlo.
    """
    if not prior.widths:
        return EngineChoice("atom", "depth one: the scale is fixed and the posterior is a Gaussian process")
    if prior.outputs == 1:
        return EngineChoice("quadrature", "one output: the scale is a number, integrated deterministically")
    return EngineChoice(
        "importance", "several outputs: importance sampling, and smc where its diagnostics say no"
    )


def infer(prior: ScalePrior, factor: LikelihoodFactor, single_output: bool, effort: Effort) -> ScaleInference:
    """Run the engine asked for."""
    if effort.engine not in ("auto", *ENGINES):
        raise ValueError(f"engine must be one of {('auto', *ENGINES)}, got {effort.engine!r}")
    best = choose_engine(prior)
    engine = best.engine if effort.engine == "auto" else effort.engine
    if engine != best.engine and (engine == "atom" or best.engine == "atom" or engine == "quadrature"):
        raise ValueError(f"engine {engine!r} does not apply ({best.reason}): use {best.engine!r} or 'auto'")
    if engine == "atom":
        return infer_atom(identity_scale(prior.outputs, prior.variance), factor, single_output)
    if engine == "quadrature":
        return infer_quadrature(prior, factor, single_output)
    return _infer_sampled(prior, factor, single_output, effort)


def _infer_sampled(
    prior: ScalePrior, factor: LikelihoodFactor, single_output: bool, effort: Effort
) -> ScaleInference:
    target = ScaleTarget(prior.coordinates, factor)
    draws = draw_posterior(target, effort)
    tails = Tails(prior.inverse_mean_exists or factor.keeps_from_zero, prior.exponential_rate)
    measure = ScaleMeasure(
        target.scales(draws.points), draws.weights, single_output, tails, None, draws.groups
    )
    law = SampledLaw(target, draws, measure.eigen, effort)
    log_evidence = factor.log_constant + draws.log_total
    return ScaleInference(measure.behind(law), log_evidence, draws.log_total_error, draws.diagnostics)
