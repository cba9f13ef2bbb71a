"""A posterior as header and arrays, and back: the same numbers without running an engine again.

Stored is what cannot be recomputed: the data, their eigenvectors, the draws. Atoms, weights and laws follow
from these by the operations that made them, so that they are the same to the last bit on the same machine.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.archive.container import AnyArray
from lbnn.data.bases import unpack_basis
from lbnn.data.missing import MissingCells
from lbnn.data.spectrum import Spectrum
from lbnn.data.view_data import ViewData
from lbnn.engines import Diagnostics, EvidenceEstimate, InferenceOptions, ScaleInference
from lbnn.engines.estimate import Answer, Estimate, Located
from lbnn.engines.laws import FactorLaw, SampledLaw
from lbnn.engines.quadrature import QuadratureLaw, infer_quadrature
from lbnn.engines.run import draw_posterior
from lbnn.engines.signal_noise import SignalNoiseInference
from lbnn.engines.target import ScaleLikelihood, Target
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.views import ViewDesign, ViewLikelihood
from lbnn.noise.missing import observed_likelihood
from lbnn.noise.noise import Noise
from lbnn.scale.bartlett import product
from lbnn.scale.draws import Draws
from lbnn.scale.measure import ScaleMeasure, Tails
from lbnn.scale.prior import ScalePrior

_SAME_EVIDENCE = 1e-6  # relative difference of a recomputed evidence: other machines round differently

Packed = tuple[dict[str, Any], dict[str, AnyArray]]
Parts = tuple[ScalePrior, Spectrum, Noise, ScaleInference, MissingCells | None]


def pack(
    prior: ScalePrior,
    spectrum: Spectrum,
    noise: Noise,
    inference: ScaleInference,
    missing: MissingCells | None = None,
) -> Packed:
    """Take the parts of a posterior apart, into a header for JSON and arrays: what `unpack` needs."""
    spectrum_header, arrays = _pack_spectrum(spectrum)
    noise_header, noise_arrays = noise.packed()
    scale_header, scale_arrays = _pack_measure(inference.measure)
    header = {
        **_common_header(prior, inference),
        "noise": noise_header,
        "spectrum": spectrum_header,
        "scale": scale_header,
    }
    if missing is not None:
        header["missing"] = {"centred": missing.centred}
        arrays = arrays | {
            "missing.observed": missing.observed.astype(float),
            "missing.targets": missing.targets,
            "missing.weights": missing.weights,
        }
    return header, arrays | noise_arrays | scale_arrays


def _common_header(prior: ScalePrior, inference: ScaleInference | SignalNoiseInference) -> dict[str, Any]:
    """What the headers of all posteriors have: the prior, the evidence and the diagnostics."""
    return {
        "widths": list(prior.widths),
        "outputs": prior.outputs,
        "layer_variances": list(prior.layer_variances),
        "log_evidence": inference.log_evidence,
        "log_evidence_error": inference.log_evidence_error,
        "diagnostics": _pack_diagnostics(inference.diagnostics),
    }


def pack_views(prior: ScalePrior, data: ViewData, noise: float, inference: ScaleInference) -> Packed:
    """The same for observations through views."""
    scale_header, scale_arrays = _pack_measure(inference.measure)
    header = {
        **_common_header(prior, inference),
        "noise_variance": noise,
        "first_variance": data.variance,
        "residual": data.residual,
        "scale": scale_header,
    }
    given = {
        "views.features": data.features,
        "views.kernel": data.kernel if data.features is None else None,
        "views.observations": data.observations,
        "views.basis": data.basis,
        "views.outside": data.outside,
    }
    arrays = {name: array for name, array in given.items() if array is not None}
    return header, arrays | scale_arrays


def unpack_views(
    header: dict[str, Any], arrays: dict[str, AnyArray]
) -> tuple[ScalePrior, ViewData, float, ScaleInference]:
    """What `pack_views` has packed."""
    try:
        return _unpack_views(header, arrays)
    except Exception as error:  # what a header of something else leads to cannot be listed
        raise ValueError(
            f"header and arrays must be those of a posterior of views, got others ({error!r})"
        ) from error


def _unpack_views(
    header: dict[str, Any], arrays: dict[str, AnyArray]
) -> tuple[ScalePrior, ViewData, float, ScaleInference]:
    prior, features = _unpack_prior(header), arrays.get("views.features")
    if features is None:
        kernel = arrays["views.kernel"]
    else:
        kernel = np.einsum("ami,bni->ambn", features, features, optimize=True)
    data = ViewData(
        features,
        kernel,
        arrays["views.observations"],
        float(header["residual"]),
        arrays.get("views.basis"),
        arrays["views.outside"],
        float(header["first_variance"]),
    )
    _require(data.channels == prior.outputs, "channels of network and views differ")
    noise = float(header["noise_variance"])
    likelihood = ViewLikelihood(
        ViewDesign.of_blocks(kernel), data.observations, data.residual, data.examples, noise
    )
    measure = _unpack_measure(header["scale"], arrays, prior, likelihood, False)
    evidence, error = float(header["log_evidence"]), float(header["log_evidence_error"])
    diagnostics = _unpack_diagnostics(header["diagnostics"])
    return prior, data, noise, ScaleInference(measure, evidence, error, diagnostics)


def _unpack_missing(header: dict[str, Any], arrays: dict[str, AnyArray]) -> MissingCells | None:
    if "missing" not in header:
        return None
    observed, targets, weights = (arrays[f"missing.{name}"] for name in ("observed", "targets", "weights"))
    _require(observed.shape == targets.shape and weights.shape == observed.shape[:1], "shape of the table")
    return MissingCells(observed.astype(bool), targets, weights, bool(header["missing"]["centred"]))


def unpack(header: dict[str, Any], arrays: dict[str, AnyArray]) -> Parts:
    """Prior, data, noise and inference of the posterior that was packed, with the same numbers."""
    try:
        return _unpack(header, arrays)
    except Exception as error:  # what a header of something else leads to cannot be listed
        raise ValueError(f"header and arrays must be those of a posterior, got others ({error!r})") from error


def pack_signal_noise(prior: ScalePrior, spectrum: Spectrum, inference: SignalNoiseInference) -> Packed:
    """The parts of a posterior of signal and noise, each with a covariance of its own."""
    spectrum_header, arrays = _pack_spectrum(spectrum)
    header = {
        **_common_header(prior, inference),
        "spectrum": spectrum_header,
    }
    draws = inference.draws
    assert draws.groups is not None
    return header, arrays | {
        "draws.basis": draws.basis,
        "draws.ratios": draws.ratios,
        "draws.weights": draws.weights,
        "draws.groups": draws.groups,
    }


def unpack_signal_noise(
    header: dict[str, Any], arrays: dict[str, AnyArray]
) -> tuple[ScalePrior, Spectrum, SignalNoiseInference]:
    """Prior, data and inference of the posterior that was packed, with the same numbers."""
    try:
        prior, spectrum = _unpack_prior(header), _unpack_spectrum(header["spectrum"], arrays)
        groups = arrays["draws.groups"]
        draws = Draws(arrays["draws.basis"], arrays["draws.ratios"], arrays["draws.weights"], groups)
        count, outputs = len(draws.weights), prior.outputs
        _require(draws.basis.shape == (count, outputs, outputs), "shape of the draws")
        _require(draws.ratios.shape == (count, outputs), "shape of the ratios")
        _require(groups.shape == (count,), "shape of the groups")
        _require(bool(np.isfinite(draws.log_volumes).all()), "singular draws")
        evidence = float(header["log_evidence"]), float(header["log_evidence_error"])
        diagnostics = _unpack_diagnostics(header["diagnostics"])
        return prior, spectrum, SignalNoiseInference(draws, *evidence, diagnostics)
    except Exception as error:  # what a header of something else leads to cannot be listed
        raise ValueError(f"header and arrays must be those of a posterior, got others ({error!r})") from error


def _unpack(header: dict[str, Any], arrays: dict[str, AnyArray]) -> Parts:
    for name, array in arrays.items():
        expected = np.intp if name == "draws.groups" else np.float64
        _require(array.dtype == expected, f"{name} of dtype {array.dtype}")
    prior = _unpack_prior(header)
    spectrum, noise = _unpack_spectrum(header["spectrum"], arrays), Noise.unpacked(header["noise"], arrays)
    _require(spectrum.outputs == prior.outputs, "outputs of network and targets differ")
    missing = _unpack_missing(header, arrays)
    data: ScaleLikelihood = noise.likelihood(spectrum)
    if missing is not None:
        table = noise.table_data(spectrum, missing)
        data = observed_likelihood(table, missing, noise.variance, prior.widths)
    measure = _unpack_measure(header["scale"], arrays, prior, data, spectrum.single_output)
    evidence, error = float(header["log_evidence"]), float(header["log_evidence_error"])
    if isinstance(measure.law, QuadratureLaw):
        again = data.log_constant + measure.law.nodes.log_total
        _require(bool(np.isclose(again, evidence, rtol=_SAME_EVIDENCE, atol=_SAME_EVIDENCE)), "evidence")
    diagnostics = _unpack_diagnostics(header["diagnostics"])
    return prior, spectrum, noise, ScaleInference(measure, evidence, error, diagnostics), missing


def _unpack_prior(header: dict[str, Any]) -> ScalePrior:
    widths, variances = check.widths(header["widths"]), tuple(header["layer_variances"])
    if variances:  # none given: ones
        variances = check.prior_variances(variances, len(widths))
    return ScalePrior(widths, check.positive_integer(header["outputs"], "outputs"), variances)


def _pack_diagnostics(diagnostics: Diagnostics) -> dict[str, Any]:
    header = asdict(diagnostics)
    return header | {name: list(header[name]) for name in ("messages", "estimates")}


def _unpack_diagnostics(header: dict[str, Any]) -> Diagnostics:
    estimates = tuple(EvidenceEstimate(**each) for each in header["estimates"])
    return Diagnostics(**(header | {"messages": tuple(header["messages"]), "estimates": estimates}))


# ---------------------------------------------------------------------- data


def _pack_spectrum(spectrum: Spectrum) -> Packed:
    basis_header, arrays = spectrum.basis.packed()
    header = {
        "residual": spectrum.residual,
        "examples": int(spectrum.examples),
        "single_output": spectrum.single_output,
        "basis": basis_header,
    }
    if spectrum.outside is not None:
        arrays = arrays | {"outside": spectrum.outside}
    if spectrum.weights is not None:
        arrays = arrays | {"weights": spectrum.weights}
    return header, arrays | {"eigenvalues": spectrum.eigenvalues, "targets": spectrum.targets}


def _unpack_spectrum(header: dict[str, Any], arrays: dict[str, AnyArray]) -> Spectrum:
    basis = unpack_basis(header["basis"], arrays)
    values, targets = arrays["eigenvalues"], arrays["targets"]
    _require(values.ndim == 1 and targets.ndim == 2, "dimensions of eigenvalues and targets")
    _require(len(values) == len(targets) == basis.rank, "rank of eigenvalues, targets and basis")
    residual, examples = float(header["residual"]), int(header["examples"])
    outside = arrays.get("outside")  # not in files of release 0.1
    _require(outside is None or outside.shape[1:] == targets.shape[1:], "shape of the targets outside")
    single, weights = bool(header["single_output"]), arrays.get("weights")
    _require(weights is None or (weights.ndim == 1 and bool((weights > 0).all())), "weights of rows")
    return Spectrum(values, targets, residual, examples, single, basis, outside, weights=weights)


# ---------------------------------------------------------------------- the law of the scale


def _pack_measure(measure: ScaleMeasure) -> Packed:
    law = measure.law
    if law is None:
        _require(len(measure.scales) == 1, "atoms without a law behind them")
        return {"law": "atom"}, {"scale": measure.scales[0]}
    if isinstance(law, QuadratureLaw):
        return {"law": "quadrature"}, {}
    if isinstance(law, SampledLaw):
        return _pack_sampled(law, measure.tails)
    if isinstance(law, FactorLaw):
        return _pack_factors(law, measure)
    raise TypeError(f"a law of type {type(law).__name__} has no place in an archive")


def _unpack_measure(
    header: dict[str, Any],
    arrays: dict[str, AnyArray],
    prior: ScalePrior,
    data: ScaleLikelihood,
    single_output: bool,
) -> ScaleMeasure:
    if header["law"] == "atom":
        _require(arrays["scale"].shape == prior.mean.shape, "shape of the scale")
        return ScaleMeasure.atom(arrays["scale"], single_output)
    if header["law"] == "quadrature":  # deterministic
        assert isinstance(data, GaussianLikelihood)
        return infer_quadrature(prior, data, single_output).measure
    if header["law"] == "sampled":
        return _unpack_sampled(header, arrays, prior, data, single_output)
    _require(header["law"] == "factors", f"law of kind {header['law']!r}")
    return _unpack_factors(header, arrays, single_output)


def _pack_sampled(law: SampledLaw, tails: Tails) -> Packed:
    """Draws in Bartlett coordinates; factors and scales follow from them."""
    answer = law.answer
    header = {
        "law": "sampled",
        "tails": asdict(tails),
        "effort": asdict(law.options) | {"seed": int(law.options.seed)},
        "log_total": answer.log_evidence,
        "log_total_error": answer.log_evidence_error,
        "diagnostics": _pack_diagnostics(answer.diagnostics),
    }
    arrays: dict[str, AnyArray] = {
        "draws.points": answer.points,
        "draws.log_weights": answer.estimate.log_weights,
        "draws.groups": answer.estimate.groups,
        "draws.rotation": law.target.rotation,
    }
    return header, arrays


def _unpack_sampled(
    header: dict[str, Any],
    arrays: dict[str, AnyArray],
    prior: ScalePrior,
    data: ScaleLikelihood,
    single_output: bool,
) -> ScaleMeasure:
    points, log_weights, groups = (arrays[f"draws.{name}"] for name in ("points", "log_weights", "groups"))
    target = Target(prior.coordinates, data, arrays["draws.rotation"])
    _require(points.shape == (len(log_weights), target.dimension), "shape of the draws")
    _require(groups.shape == log_weights.shape, "shape of the groups")
    _require(target.rotation.shape == prior.mean.shape, "shape of the rotation")
    log_total, error = float(header["log_total"]), float(header["log_total_error"])
    diagonal = np.zeros((len(points), 0))  # of a cross-check, which was made
    estimate = Estimate("stored", log_weights, groups, diagonal, Located(points), log_total, error)
    answer = Answer(estimate, error, _unpack_diagnostics(header["diagnostics"]))
    tails, options = Tails(**header["tails"]), InferenceOptions(**header["effort"])
    measure = ScaleMeasure(target.scales(points), answer.weights, single_output, tails, None, groups)
    return measure._with_law(SampledLaw(target, answer, measure.scales, prior, options, draw_posterior))


def _pack_factors(law: FactorLaw, measure: ScaleMeasure) -> Packed:
    """Bartlett factors; the scales only where their product is not the same to the last bit."""
    assert measure.groups is not None  # draws come in groups
    header = {"law": "factors", "tails": asdict(measure.tails), "count": len(law.all_factors)}
    arrays: dict[str, AnyArray] = {"draws.weights": law.weights, "draws.groups": measure.groups}
    arrays |= {f"draws.factor.{number}": factor for number, factor in enumerate(law.all_factors)}
    if not np.array_equal(_squared(law.all_factors), measure.scales):
        arrays["draws.scales"] = measure.scales
    return header, arrays


def _unpack_factors(header: dict[str, Any], arrays: dict[str, AnyArray], single_output: bool) -> ScaleMeasure:
    factors = [arrays[f"draws.factor.{number}"] for number in range(header["count"])]
    weights, groups = arrays["draws.weights"], arrays["draws.groups"]
    scales = arrays["draws.scales"] if "draws.scales" in arrays else _squared(factors)
    _require(weights.shape == groups.shape == (len(scales),), "numbers of weights, groups and scales")
    _require(all(len(factor) == len(scales) for factor in factors), "numbers of factors and scales")
    measure = ScaleMeasure(scales, weights, single_output, Tails(**header["tails"]), None, groups)
    return measure._with_law(FactorLaw(weights, measure.scales, factors))


def _squared(factors: list[Array]) -> Array:
    """T Tᵀ (m, n_d, n_d) of every draw, from factors (m, rows, columns)."""
    total = product(factors)
    if total is None:
        raise ValueError("a network with a hidden layer has factors")
    return total @ total.swapaxes(1, 2)


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"inconsistent: {what}")
