"""Transforms of the inputs: units of the columns, kernel and its parameters, compared by evidence.

The network depends on the inputs through their Gram matrix alone. Transforms are compared at infinite width,
where the evidence has a closed form; the network is then sought with the best of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.arrays import to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.data.bases import GRAM_TOLERANCE, GramBasis
from lbnn.data.centring import CentredInputs, CentredKernel, Columns
from lbnn.estimator import columns as column_units
from lbnn.estimator import relevance
from lbnn.estimator.columns import OWN_SCALES, ColumnUnits
from lbnn.estimator.input_transform import InputTransform
from lbnn.estimator.kernels import FAMILIES, Kernel, chosen, with_own_length_scales
from lbnn.estimator.model import decompose
from lbnn.selection import Candidate, EvidenceData, NoiseSpec, infinite_width

_MOST_EXACT_ROWS = 4000  # up to which a kernel is decomposed exactly
_LANDMARKS = 1500  # beyond: rows whose kernel functions span the approximate one
_ROWS_TO_CHOOSE = 1000  # on which parameters of a kernel are chosen


@dataclass(frozen=True)
class Setting:
    """What all candidates share: targets of the search, intercept, noise, given hyperparameters, seed."""

    targets: Array  # (p,) or (p, q)
    centre: bool
    noise_variance: float
    spec: NoiseSpec
    seed: int
    weights: Array | None = None  # of rows, (p,)

    def of_rows(self, rows: IndexArray) -> Setting:
        """The same for some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, targets=self.targets[rows], weights=weights)

    def decomposed(
        self, points: AnyArray, linear: bool, overwrite: bool = False
    ) -> tuple[CentredInputs | CentredKernel, EvidenceData]:
        """The data with these inputs, features or kernel matrix; inputs may be overwritten."""
        return decompose(
            points,
            self.targets,
            linear=linear,
            centre=self.centre,
            noise_variance=self.noise_variance,
            weights=self.weights,
            overwrite=overwrite,
        )


@dataclass(frozen=True)
class InputCandidate:
    """The data after one transform of the inputs.

    Attributes
    ----------
    transform : InputTransform
    data : EvidenceData
    spec : NoiseSpec
        Hyperparameters that are given in the comparison.
    dropped : float
        Share of the kernel's variance at the training points that the features lack.
    penalty : float
        Of the log evidence, for scales of columns that were fitted.
    own : tuple of int
        Groups of columns with a scale of their own.
    """

    transform: InputTransform
    data: EvidenceData
    spec: NoiseSpec
    dropped: float = 0.0
    penalty: float = 0.0
    own: tuple[int, ...] = ()

    @property
    def penalised_evidence(self) -> float:
        """What candidates are ranked by: the log evidence of the Gaussian process less penalties."""
        return self.process.penalised_evidence - self.penalty

    @cached_property
    def process(self) -> Candidate:
        """The Gaussian process with the hyperparameters that its evidence prefers."""
        return infinite_width(self.data, self.spec)


def make_candidate(columns: ColumnUnits, kernel: Kernel, X: AnyArray, setting: Setting) -> InputCandidate:
    """The data after one transform of the inputs and one eigendecomposition."""
    seen, linear, empty = columns.seen(X), kernel.metric == "linear", np.zeros((0, 0))
    if linear:
        inputs, data = setting.decomposed(seen, linear=True, overwrite=seen is not X)
        kept = np.zeros((0, X.shape[1]))
        return InputCandidate(InputTransform(columns, kernel, inputs, kept, empty), data, setting.spec)
    if len(X) > _MOST_EXACT_ROWS and kernel.metric != "precomputed":
        return _approximate_candidate(columns, kernel, seen, setting)
    gram = kernel.matrix(seen, seen)
    inputs, data = setting.decomposed(gram, linear=False)
    return InputCandidate(InputTransform(columns, kernel, inputs, seen, empty), data, setting.spec)


def _approximate_candidate(
    columns: ColumnUnits, kernel: Kernel, seen: Array, setting: Setting
) -> InputCandidate:
    """The kernel projected on the functions k(·, x_a) of some rows a (Nyström's method)."""
    rng = np.random.default_rng([setting.seed, 14])
    landmarks = seen[np.sort(rng.choice(len(seen), _LANDMARKS, replace=False))]
    values, vectors = np.linalg.eigh(kernel.matrix(landmarks, landmarks))
    kept = values > 1e-10 * values[-1]
    # G = ΦΦᵀ/n0 of the linear kernel: features are multiplied by √n0
    feature_map = vectors[:, kept] / np.sqrt(values[kept]) * np.sqrt(kept.sum())
    features = kernel.matrix(seen, landmarks) @ feature_map
    blocks = [seen[start : start + 256] for start in range(0, len(seen), 256)]
    total = sum(float(np.trace(kernel.matrix(block, block))) for block in blocks)
    dropped = 1 - float((features**2).sum()) / kept.sum() / total
    inputs, data = setting.decomposed(features, linear=True)
    transform = InputTransform(columns, kernel, inputs, landmarks, feature_map)
    return InputCandidate(transform, data, setting.spec, max(dropped, 0.0))


def best_candidate(
    X: AnyArray, wanted: str, kernel: Kernel, group_of: IndexArray | None, setting: Setting
) -> tuple[InputCandidate, list[InputCandidate]]:
    """The candidate of highest evidence at infinite width, and the others.

    With `group_of` (n0,) groups of columns may have scales of their own.
    """
    units = (
        [ColumnUnits.raw(X.shape[1])]
        if kernel.metric == "precomputed"
        else column_units.candidates(wanted, ColumnUnits.standardised(X, setting.centre, setting.weights))
    )
    candidates = []
    for each in units:
        candidates.append(make_candidate(each, _completed(kernel, each, X, group_of, setting), X, setting))
        if kernel.metric == "linear" and group_of is not None and comparable(candidates[-1:]):
            candidates.append(_with_own_scales(candidates[-1], X, group_of, setting))
    if kernel.metric not in ("linear", "precomputed"):
        candidates = [each for each in candidates if _has_digits(each)] or candidates
    return preferred([each for each in candidates if each.own or each.transform.columns.name != OWN_SCALES])


def _has_digits(candidate: InputCandidate) -> bool:
    """Whether a centred kernel varies by more than the rounding that a Gram matrix may have.

    Of columns in small units kernels with a constant are nearly constant, and predictions would be refused.
    """
    spectrum = candidate.data.spectrum
    largest = float(spectrum.eigenvalues.max(initial=0.0))
    return spectrum.eigenvalue_error * spectrum.examples <= GRAM_TOLERANCE * largest


def _with_own_scales(
    candidate: InputCandidate, X: AnyArray, group_of: IndexArray, setting: Setting
) -> InputCandidate:
    """The candidate with a prior scale for each group of columns, for the linear kernel."""
    columns = candidate.transform.columns
    seen = to_numpy(columns.seen(X))
    centred = Columns.of(seen, setting.centre, setting.weights).centred_training(seen)
    targets = setting.targets.reshape(len(seen), -1)
    if setting.weights is not None:  # rows times √w have the noise of rows of weight one
        roots = np.sqrt(setting.weights)[:, None]
        centred, targets = roots * centred, roots * targets
    scales = own_scales_of(candidate, relevance.Rows.of(centred, targets, setting.centre), group_of)
    rescaled = columns.rescaled(scales.variances, OWN_SCALES)
    return replace(
        make_candidate(rescaled, candidate.transform.kernel, X, setting),
        penalty=scales.penalty,
        own=scales.own,
    )


def own_scales_of(candidate: InputCandidate, rows: relevance.Rows, group_of: IndexArray) -> relevance.Scales:
    """Scales of groups of columns, from the common one of a candidate of the same rows."""
    start = float(candidate.process.h[-1]) - np.log(rows.inputs.shape[1])  # G = XXᵀ/n0
    return relevance.own_scales(rows, group_of, candidate.spec, start)


def preferred(candidates: list[InputCandidate]) -> tuple[InputCandidate, list[InputCandidate]]:
    """The candidate of highest evidence, and the others."""
    if len(candidates) == 1 or not comparable(candidates):
        return candidates[0], []
    candidates.sort(key=lambda candidate: -candidate.penalised_evidence)  # the first of equals stays first
    return candidates[0], [_without_inputs(each) for each in candidates[1:]]


def _without_inputs(candidate: InputCandidate) -> InputCandidate:
    """A candidate of which only the evidence is still needed: its copy of the inputs is given back."""
    process = candidate.process
    spectrum = replace(candidate.data.spectrum, basis=GramBasis(np.zeros((0, 0)), np.zeros(0)))
    result = replace(candidate, data=replace(candidate.data, spectrum=spectrum))
    vars(result)["process"] = process
    return result


def comparable(candidates: list[InputCandidate]) -> bool:
    """Whether there are data and inputs by which candidates can be compared."""
    return all(
        candidate.data.spectrum.examples > 1 and candidate.data.spectrum.rank > 0 for candidate in candidates
    )


def _completed(
    kernel: Kernel, columns: ColumnUnits, X: AnyArray, group_of: IndexArray | None, setting: Setting
) -> Kernel:
    """The kernel for columns in these units, with the parameters that are not given chosen by evidence."""
    if kernel.complete and not (group_of is not None and kernel.ours):
        return kernel
    rows = np.arange(len(X))
    if len(X) > _ROWS_TO_CHOOSE:
        rows = np.sort(np.random.default_rng([setting.seed, 15]).choice(len(X), _ROWS_TO_CHOOSE, False))
    part, few = X[rows], setting.of_rows(rows)
    seen = columns.seen(part)
    if len(part) < 3 or not np.ptp(seen, axis=0).any():
        return chosen(kernel, seen, lambda _: 0.0)
    best = chosen(
        kernel, seen, lambda each: make_candidate(columns, each, part, few).process.penalised_evidence
    )
    if group_of is None or not FAMILIES[kernel.metric].stationary or "length_scale" in kernel.parameters:
        return best
    common = make_candidate(columns, best, part, few).process
    targets = few.targets.reshape(len(part), -1)
    own, _ = with_own_length_scales(best, seen, targets, common.h, group_of)
    penalty = 0.5 * group_of.max() * np.log(len(part))
    gain = make_candidate(columns, own, part, few).process.penalised_evidence - common.penalised_evidence
    return own if gain > penalty else best
