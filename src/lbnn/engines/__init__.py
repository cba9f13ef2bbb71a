"""Engines: prior × likelihood factor → ScaleInference. One file each, one rule that chooses."""

from __future__ import annotations

from dataclasses import dataclass

from lbnn.engines.atom import identity_scale, infer_atom
from lbnn.engines.inference import Diagnostics, ScaleInference
from lbnn.engines.quadrature import infer_quadrature
from lbnn.likelihood import LikelihoodFactor
from lbnn.scale_prior import ScalePrior

__all__ = ["Diagnostics", "EngineChoice", "ScaleInference", "choose_engine", "infer"]

ENGINES = ("atom", "quadrature")


@dataclass(frozen=True)
class EngineChoice:
    """Which engine, and why."""

    engine: str
    reason: str


def choose_engine(prior: ScalePrior) -> EngineChoice:
    """The engine that `engine="auto"` takes.

    1. Depth one: the scale is the identity, one atom.
    2. One output: quadrature over log λ, deterministic.
    """
    if not prior.widths:
        return EngineChoice("atom", "depth one: the scale is fixed and the posterior is a Gaussian process")
    if prior.outputs == 1:
        return EngineChoice("quadrature", "one output: the scale is a number")
    raise NotImplementedError(
        "several outputs need depth one (widths=()) in this version, "
        f"got outputs={prior.outputs} with widths={prior.widths}"
    )


def infer(prior: ScalePrior, factor: LikelihoodFactor, single_output: bool, engine: str) -> ScaleInference:
    """Run the chosen engine."""
    best = choose_engine(prior)
    if engine not in ("auto", *ENGINES):
        raise ValueError(f"engine must be one of {('auto', *ENGINES)}, got {engine!r}")
    if engine not in ("auto", best.engine):
        raise ValueError(
            f"engine {engine!r} does not apply here ({best.reason}): use {best.engine!r} or 'auto'"
        )
    if best.engine == "atom":
        return infer_atom(identity_scale(prior.outputs, prior.variance), factor, single_output)
    return infer_quadrature(prior, factor, single_output)
