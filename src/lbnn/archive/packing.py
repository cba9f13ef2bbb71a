"""A posterior as header and arrays, and back: the same numbers without running an engine again.

Stored is what cannot be recomputed: the data, their eigenvectors, the draws. Atoms, weights and laws follow
from these by the operations that made them, so that they are the same to the last bit on the same machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array, IndexArray
from lbnn.archive.container import AnyArray
from lbnn.archive.schema import Packed, packed, require, unpacked
from lbnn.data.bases import InputBasis
from lbnn.data.missing import MissingCells
from lbnn.data.spectrum import Spectrum
from lbnn.data.view_data import ViewData
from lbnn.engines import Diagnostics, InferenceOptions, ScaleInference
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

Parts = tuple[ScalePrior, Spectrum, Noise, ScaleInference, MissingCells | None]


def pack(
    prior: ScalePrior,
    spectrum: Spectrum,
    noise: Noise,
    inference: ScaleInference,
    missing: MissingCells | None = None,
) -> Packed:
    """Take the parts of a posterior apart, into a header for JSON and arrays: what `unpack` needs."""
    found = _found(inference) | {"scale": _of_measure(inference.measure)}
    return packed(prior=prior, spectrum=spectrum, noise=noise, missing=missing, **found)


def pack_views(prior: ScalePrior, data: ViewData, noise: float, inference: ScaleInference) -> Packed:
    """The same for observations through views; the kernel follows from their features."""
    kept = data if data.features is None else replace(data, kernel=np.zeros(0))
    found = _found(inference) | {"scale": _of_measure(inference.measure)}
    return packed(prior=prior, data=kept, noise_variance=noise, **found)


def pack_signal_noise(prior: ScalePrior, spectrum: Spectrum, inference: SignalNoiseInference) -> Packed:
    """The same for signal and noise, each with a covariance of its own."""
    draws = replace(inference.draws, law=None, line=None)
    return packed(prior=prior, spectrum=spectrum, draws=draws, **_found(inference))


def _found(inference: ScaleInference | SignalNoiseInference) -> dict[str, Any]:
    """The evidence with its error, and the diagnostics."""
    evidence = inference.log_evidence, inference.log_evidence_error
    return {"evidence": evidence, "diagnostics": inference.diagnostics}


@contextmanager
def _parts_of(header: dict[str, Any], arrays: dict[str, AnyArray], what: str) -> Iterator[_Parts]:
    """The parts of a posterior; a ValueError where they are not those of one."""
    try:
        yield _Parts(header, arrays)
    except Exception as error:  # what a header of something else leads to cannot be listed
        raise ValueError(f"header and arrays must be those of {what}, got others ({error!r})") from error


class _Parts:
    """What was packed, part by part."""

    def __init__(self, header: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        self.header, self.arrays = header, arrays

    def __call__(self, name: str, hint: Any) -> Any:
        """A part of this type."""
        return unpacked(self.header[name], hint, self.arrays)

    @property
    def prior(self) -> ScalePrior:
        """Of a network that there is."""
        found: ScalePrior = self("prior", ScalePrior)
        widths = check.widths(found.widths)
        if found.layer_variances:  # none given: ones
            check.prior_variances(found.layer_variances, len(widths))
        check.positive_integer(found.outputs, "outputs")
        return found

    @property
    def found(self) -> tuple[float, float, Diagnostics]:
        """Evidence, its error, and the diagnostics."""
        value, error = self("evidence", tuple[float, ...])
        return value, error, self("diagnostics", Diagnostics)

    def spectrum(self, outputs: int) -> Spectrum:
        """Data of so many outputs, whose parts fit together."""
        found: Spectrum = self("spectrum", Spectrum)
        targets, basis, outside, weights = found.targets, found.basis, found.outside, found.weights
        require(found.eigenvalues.ndim == 1 and targets.ndim == 2, "dimensions of eigenvalues and targets")
        require(found.rank == len(targets) == basis.rank, "rank of eigenvalues, targets and basis")
        require(found.outputs == outputs, "outputs of network and targets differ")
        require(outside is None or outside.shape[1:] == targets.shape[1:], "shape of the targets outside")
        require(weights is None or (weights.ndim == 1 and bool((weights > 0).all())), "weights of rows")
        if isinstance(basis, InputBasis):
            inputs, held, coordinates = basis.training_inputs, basis.directions, basis.training_coordinates
            rows = basis.dimension if held.inputs is None else len(held.inputs)
            require(held.columns.shape == (rows, found.rank), "inputs and directions")
            require(held.inputs is None or held.inputs is inputs, "inputs of data and directions")
            require(inputs is None or inputs.shape[1] == basis.dimension, "columns of the inputs")
            shape = None if inputs is None else (len(inputs), found.rank)
            require(coordinates is None or coordinates.shape == shape, "coordinates of the inputs")
        return found

    @property
    def noise(self) -> Noise:
        """Of variances that are not negative, in orthonormal axes."""
        found: Noise = self("noise", Noise)
        deviations, axes = found.deviations, found.axes
        require(found.variance >= 0 and 0 <= found.coupling < np.inf, "a negative noise variance")
        require(deviations is None or bool((deviations > 0).all()), "deviations of the noise")
        orthonormal = axes is None or np.allclose(axes.T @ axes, np.eye(len(axes)))
        require(orthonormal, "axes of the noise, which must be orthonormal")
        return found

    @property
    def missing(self) -> MissingCells | None:
        """Of a table whose parts have one shape."""
        found: MissingCells | None = self("missing", MissingCells | None)
        if found is not None:
            table = found.observed.shape
            require(table == found.targets.shape and found.weights.shape == table[:1], "shape of the table")
        return found


def unpack(header: dict[str, Any], arrays: dict[str, AnyArray]) -> Parts:
    """Prior, data, noise and inference of the posterior that was packed, with the same numbers."""
    with _parts_of(header, arrays, "a posterior") as parts:
        prior, noise, missing = parts.prior, parts.noise, parts.missing
        spectrum, (evidence, error, diagnostics) = parts.spectrum(prior.outputs), parts.found
        data: ScaleLikelihood = noise.likelihood(spectrum)
        if missing is not None:
            table = noise.table_data(spectrum, missing)
            data = observed_likelihood(table, missing, noise.variance, prior.widths)
        measure = _measure(header["scale"], arrays, prior, data, spectrum.single_output)
        if isinstance(measure.law, QuadratureLaw):
            again = data.log_constant + measure.law.nodes.log_total
            require(bool(np.isclose(again, evidence, rtol=_SAME_EVIDENCE, atol=_SAME_EVIDENCE)), "evidence")
        return prior, spectrum, noise, ScaleInference(measure, evidence, error, diagnostics), missing


def unpack_views(
    header: dict[str, Any], arrays: dict[str, AnyArray]
) -> tuple[ScalePrior, ViewData, float, ScaleInference]:
    """What `pack_views` has packed."""
    with _parts_of(header, arrays, "a posterior of views") as parts:
        prior, data, noise = parts.prior, parts("data", ViewData), parts("noise_variance", float)
        if data.features is not None:
            kernel = np.einsum("ami,bni->ambn", data.features, data.features, optimize=True)
            data = replace(data, kernel=kernel)
        require(data.channels == prior.outputs, "channels of network and views differ")
        likelihood = ViewLikelihood(
            ViewDesign.of_blocks(data.kernel), data.observations, data.residual, data.examples, noise
        )
        measure = _measure(header["scale"], arrays, prior, likelihood, False)
        return prior, data, noise, ScaleInference(measure, *parts.found)


def unpack_signal_noise(
    header: dict[str, Any], arrays: dict[str, AnyArray]
) -> tuple[ScalePrior, Spectrum, SignalNoiseInference]:
    """Prior, data and inference of the posterior that was packed, with the same numbers."""
    with _parts_of(header, arrays, "a posterior") as parts:
        prior, draws = parts.prior, parts("draws", Draws)
        count, outputs = len(draws.weights), prior.outputs
        require(draws.basis.shape == (count, outputs, outputs), "shape of the draws")
        require(draws.ratios.shape == (count, outputs), "shape of the ratios")
        require(draws.groups.shape == (count,), "shape of the groups")
        require(bool(np.isfinite(draws.log_volumes).all()), "singular draws")
        return prior, parts.spectrum(outputs), SignalNoiseInference(draws, *parts.found)


# ---------------------------------------------------------------------- the law of the scale


def _of_measure(measure: ScaleMeasure) -> dict[str, Any]:
    """What a measure is made of: draws in Bartlett coordinates or factors, from which scales follow."""
    law = measure.law
    if law is None:
        require(len(measure.weights) == 1, "atoms without a law behind them")
        return {"law": "atom", "scale": measure.matrices[0]}
    if isinstance(law, QuadratureLaw):
        return {"law": "quadrature"}
    common = {"tails": measure.tails, "groups": measure.groups}
    if isinstance(law, SampledLaw):
        answer = law.answer
        return common | {
            "law": "sampled",
            "options": law.options,
            "total": (answer.log_evidence, answer.log_evidence_error),
            "diagnostics": answer.diagnostics,
            "points": answer.points,
            "log_weights": answer.estimate.log_weights,
            "rotation": law.target.rotation,
        }
    if not isinstance(law, FactorLaw):
        raise TypeError(f"a law of type {type(law).__name__} has no place in an archive")
    found = common | {"law": "factors", "weights": law.weights, "factors": law.all_factors}
    if not np.array_equal(_held(law.all_factors), measure.matrices):  # not the same to the last bit
        found["scales"] = measure.matrices
    return found


def _measure(
    header: dict[str, Any],
    arrays: dict[str, AnyArray],
    prior: ScalePrior,
    data: ScaleLikelihood,
    single_output: bool,
) -> ScaleMeasure:
    """The measure of a scale that `_of_measure` has taken apart."""

    def part(name: str, hint: Any = Array) -> Any:
        """A part of this type."""
        return unpacked(header[name], hint, arrays)

    if header["law"] == "atom":
        scale = part("scale")
        require(scale.shape == prior.mean.shape, "shape of the scale")
        return ScaleMeasure.atom(scale, single_output)
    if header["law"] == "quadrature":  # deterministic
        assert isinstance(data, GaussianLikelihood)
        return infer_quadrature(prior, data, single_output).measure
    tails, groups = part("tails", Tails), part("groups", IndexArray)
    if header["law"] == "sampled":
        points, log_weights = part("points"), part("log_weights")
        target = Target(prior.coordinates, data, part("rotation"))
        require(points.shape == (len(log_weights), target.dimension), "shape of the draws")
        require(groups.shape == log_weights.shape, "shape of the groups")
        require(target.rotation.shape == prior.mean.shape, "shape of the rotation")
        log_total, error = part("total", tuple[float, ...])
        diagonal = np.zeros((len(points), 0))  # of a cross-check, which was made
        estimate = Estimate("stored", log_weights, groups, diagonal, Located(points), log_total, error)
        answer = Answer(estimate, error, part("diagnostics", Diagnostics))
        options = part("options", InferenceOptions)
        measure = ScaleMeasure(target.held(points), answer.weights, single_output, tails, None, groups)
        return measure._with_law(SampledLaw(target, answer, measure.matrices, prior, options, draw_posterior))
    require(header["law"] == "factors", f"law of kind {header['law']!r}")
    factors, weights = list(part("factors", tuple[Array, ...])), part("weights")
    scales = part("scales") if "scales" in header else _held(factors)
    require(weights.shape == groups.shape == (len(scales),), "numbers of weights, groups and scales")
    require(all(len(factor) == len(scales) for factor in factors), "numbers of factors and scales")
    measure = ScaleMeasure(scales, weights, single_output, tails, None, groups)
    return measure._with_law(FactorLaw(weights, measure.matrices, factors))


def _held(factors: list[Array]) -> Array:
    """T (m, n_d, k) of every draw where k < n_d, else T Tᵀ, from factors (m, rows, columns)."""
    total = product(factors)
    if total is None:
        raise ValueError("a network with a hidden layer has factors")
    return total if total.shape[2] < total.shape[1] else total @ total.swapaxes(1, 2)
