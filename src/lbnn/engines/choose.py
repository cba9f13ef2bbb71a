"""The rule that chooses an engine, and running it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lbnn.engines.atom import identity_scale, infer_atom
from lbnn.engines.bartlett_sampling import infer_dual, infer_primal
from lbnn.engines.draws import Effort
from lbnn.engines.inference import ScaleInference
from lbnn.engines.integrand import IntegrandCheck
from lbnn.engines.quadrature import infer_quadrature
from lbnn.engines.sampled import LARGEST_FITTED
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.plain import PlainLikelihood
from lbnn.scale.measure import eigen
from lbnn.scale.prior import ScalePrior

_ENOUGH = 50  # effective draws by rows, or as many as asked, from which no other route is tried, ok or not
ENGINES = ("atom", "quadrature", "importance", "smc", "dual")


@dataclass(frozen=True)
class EngineChoice:
    """Which engine, and why."""

    engine: str
    reason: str


def choose(prior: ScalePrior, rank: int) -> EngineChoice:
    """The engine that `engine="auto"` takes, for data whose Gram matrix has the given rank.

    1. Depth one: the scale is the identity, one atom.
    2. One output: quadrature over log λ, deterministic.
    3. More outputs than the rank of the data: the dual route, sampled as in 4; where it is not ok, 4 itself.
       Behind a layer narrower than that rank, rows of T are tried first.
    4. Several outputs: importance sampling, from the Gaussian at the only mode or from a mixture over all
       phases, confirmed by an estimate that shares no proposal; where it does not reach the target error,
       sequential Monte Carlo.
    """
    if not prior.widths:
        return EngineChoice("atom", "depth one: the scale is fixed and the posterior is a Gaussian process")
    if prior.outputs == 1:
        return EngineChoice("quadrature", "one output: the scale is a number, integrated deterministically")
    if prior.outputs > rank > 0:
        return EngineChoice("dual", "more outputs than data: the kernel of the last hidden layer is smaller")
    return EngineChoice(
        "importance", "several outputs: importance sampling, smc where its diagnostics say no"
    )


def _by_rows(
    prior: ScalePrior,
    likelihood: GaussianLikelihood,
    single_output: bool,
    effort: Effort,
    check: IntegrandCheck | None,
) -> ScaleInference | None:
    """Rows of T where a layer passes on fewer directions than the data have; None where they do not serve."""
    width = min(prior.widths)
    entries = prior.outputs * width - width * (width - 1) // 2
    if effort.engine != "auto" or width >= len(likelihood.eigenvalues) or entries <= LARGEST_FITTED:
        return None
    if not _primal_exists(prior, likelihood):
        return None
    answer = infer_primal(prior, likelihood, single_output, replace(effort, engine="importance"), check)
    told, enough = answer.diagnostics, 0.0 if effort.rough else max(effort.target_error**-2, _ENOUGH)
    return answer if told.ok or told.effective_sample_size >= enough else None


def infer(
    prior: ScalePrior,
    likelihood: GaussianLikelihood,
    single_output: bool,
    effort: Effort,
    plain: PlainLikelihood | None = None,
) -> ScaleInference:
    """Run the engine asked for, if it applies; its integrand is compared with the plain likelihood."""
    check = None if plain is None or likelihood.flat else IntegrandCheck(plain)
    best = choose(prior, 0 if likelihood.flat or likelihood.dual_deficient else len(likelihood.eigenvalues))
    engine = best.engine if effort.engine == "auto" else effort.engine
    _require_applicable(engine, best, prior, likelihood)
    if engine == "atom":
        answer = infer_atom(identity_scale(prior.outputs, prior.variance), likelihood, single_output)
        return _checked(answer, likelihood, check)
    if engine == "quadrature":
        return _checked(infer_quadrature(prior, likelihood, single_output), likelihood, check)
    if engine == "dual":
        rows = _by_rows(prior, likelihood, single_output, effort, check)
        if rows is not None:
            return rows
        answer = infer_dual(prior, likelihood, single_output, effort, check)
        if answer.diagnostics.ok or effort.engine != "auto" or not _primal_exists(prior, likelihood):
            return answer
        other = infer_primal(prior, likelihood, single_output, effort, check)
        return other if other.diagnostics.ok else answer
    return infer_primal(prior, likelihood, single_output, effort, check)


def _checked(
    answer: ScaleInference, likelihood: GaussianLikelihood, check: IntegrandCheck | None
) -> ScaleInference:
    """The answer of a deterministic engine, its likelihood compared with the plain formula."""
    if check is not None:
        few = check.few(answer.measure.weights)
        scales = answer.measure.scales[few]
        values = likelihood.log_value(*eigen(scales))
        check.scales(scales, likelihood.log_constant + values)
    return answer


def _require_applicable(
    engine: str, best: EngineChoice, prior: ScalePrior, likelihood: GaussianLikelihood
) -> None:
    """Raise unless the engine exists and can solve this problem."""
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {('auto', *ENGINES)}, got {engine!r}")
    fits = {
        "atom": not prior.widths,
        "quadrature": bool(prior.widths) and prior.outputs == 1,
        "dual": bool(prior.widths)
        and not likelihood.flat
        and not likelihood.dual_deficient
        and likelihood.multiplicity == 1,
        "importance": bool(prior.widths),
        "smc": bool(prior.widths),
    }
    if not fits[engine]:
        raise ValueError(f"engine {engine!r} does not apply ({best.reason}): use {best.engine!r} or 'auto'")
    if engine in ("importance", "smc") and not _primal_exists(prior, likelihood):
        raise ValueError(
            "at zero temperature a hidden layer narrower than the outputs is supported with engine 'dual' "
            f"only, got widths={prior.widths} for {prior.outputs} outputs: use a finite beta"
        )


def _primal_exists(prior: ScalePrior, likelihood: GaussianLikelihood) -> bool:
    """Whether L has a density that can be sampled: not at zero temperature behind a bottleneck."""
    return likelihood.noise > 0 or prior.full_rank
