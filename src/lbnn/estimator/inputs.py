"""From the user's inputs to those of the network: units of columns, kernel and its parameters, by evidence.

The network depends on the inputs through their Gram matrix alone. Transforms are compared at infinite width,
where the evidence has a closed form; the network is then sought with the best of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.data.bases import GRAM_TOLERANCE, GramBasis
from lbnn.data.centring import CentredInputs, CentredKernel, Columns, contrasts, outside_range
from lbnn.data.spectrum import Spectrum
from lbnn.estimator import column_scales
from lbnn.estimator.kernels import Kernel, chosen, with_own_length_scales
from lbnn.estimator.table import StreamedTable, Table
from lbnn.estimator.units import RAW, ColumnUnits
from lbnn.selection import EvidenceData, NoiseSpec, Trial, infinite_width

#: Kernels that "auto" compares, and the number of parameters that the evidence chooses in each.
AUTO = {"linear": 0, "linear+rbf": 2, "relu": 2}
_MOST_EXACT_ROWS = 4000  # up to which a kernel is decomposed exactly
_LANDMARKS = 1500  # beyond: rows whose kernel functions span the approximate one
_ROWS_TO_CHOOSE = 1000  # on which parameters of a kernel are chosen


@dataclass(frozen=True)
class InputTransform:
    """From the user's inputs to the arguments of `Spectrum.project`.

    Attributes
    ----------
    columns : ColumnUnits
    kernel : Kernel
    inputs : CentredInputs or CentredKernel
        Of inputs or features, or of a kernel matrix.
    training_inputs : (k, n0)
        Rows that the kernel is taken with, in its units; empty for the linear kernel.
    feature_map : (k, m) or (0, 0)
        Where the kernel is approximated: its values with the k rows, times this, are features.
    """

    columns: ColumnUnits
    kernel: Kernel
    inputs: CentredInputs | CentredKernel
    training_inputs: Array
    feature_map: Array

    def features(self, X: AnyArray) -> AnyArray:
        """What the mean function is a linear function of: (p̂, n0), (p̂, m) or the centred kernel (p̂, p)."""
        if isinstance(self.inputs, CentredKernel):
            return self.inputs.cross(self.kernel.matrix(self.columns.seen(X), self.training_inputs))
        return self.inputs.columns.centred(self._linear(X))

    def test(self, X: AnyArray, test_gram: ArrayLike | None = None) -> tuple[AnyArray, ...]:
        """Test points as arguments of `Spectrum.project`; `test_gram` is the kernel among them."""
        if not isinstance(self.inputs, CentredKernel):
            return self.inputs.test(self._linear(X))
        seen = self.columns.seen(X)
        gram = (
            self.kernel.matrix(seen, seen)
            if test_gram is None
            else check.square_matrix(test_gram, "test_gram")
        )
        return self.inputs.test(self.kernel.matrix(seen, self.training_inputs), gram)

    def _linear(self, X: AnyArray) -> AnyArray:
        seen = self.columns.seen(X)
        if not self.feature_map.size:
            return seen
        return self.kernel.matrix(seen, self.training_inputs) @ self.feature_map

    def in_units_of_columns(self, weights: Array, level: Array) -> tuple[Array, Array]:
        """Coefficients (n_d, n0) and intercept (n_d,) in the user's units, for the linear kernel."""
        assert isinstance(self.inputs, CentredInputs)
        coefficients = weights / self.columns.deviation
        centre = self.columns.offset + self.columns.deviation * self.inputs.columns.means
        return coefficients, np.asarray(level - coefficients @ centre)


@dataclass(frozen=True)
class Setting:
    """What all candidates share: the table, targets of the search, noise, given hyperparameters, seed."""

    table: Table
    targets: Array  # (p,) or (p, q)
    spec: NoiseSpec
    noise_variance: float
    seed: int

    def some(self, rows: IndexArray, *, gram: bool = False) -> Setting:
        """The same for some of the rows; of a kernel matrix `gram` also for these columns."""
        table = self.table.some(rows)
        table = replace(table, inputs=table.inputs[:, rows]) if gram else table
        return replace(self, table=table, targets=self.targets[rows])

    @property
    def columns(self) -> Array:
        """Targets of the search, (p, q)."""
        return self.targets.reshape(len(self.targets), -1)

    def decomposed(
        self, points: AnyArray, linear: bool, overwrite: bool = False
    ) -> tuple[CentredInputs | CentredKernel, EvidenceData]:
        """The data with these inputs, features or kernel matrix, after their one eigendecomposition.

        Inputs may be overwritten.
        """
        centre, weights = self.table.centre, self.table.weights
        inputs: CentredInputs | CentredKernel
        inputs = (CentredInputs if linear else CentredKernel).of(points, centre, weights)
        spectrum = inputs.spectrum(points, self.targets, weights, overwrite)
        if centre:
            spectrum = contrasts(spectrum)
        return inputs, EvidenceData(spectrum, outside_range(spectrum, self.targets), self.noise_variance)


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
        return self.process.score - self.penalty

    @cached_property
    def process(self) -> Trial:
        """The Gaussian process with the hyperparameters that its evidence prefers."""
        return infinite_width(self.data, self.spec)

    @property
    def comparable(self) -> bool:
        """Whether there are data and inputs by which candidates can be compared."""
        return self.data.spectrum.examples > 1 and self.data.spectrum.rank > 0

    @property
    def has_digits(self) -> bool:
        """Whether a centred kernel varies by more than the rounding that a Gram matrix may have.

        Of columns in small units kernels with a constant are nearly constant, and predictions would be
        refused.
        """
        spectrum = self.data.spectrum
        largest = float(spectrum.eigenvalues.max(initial=0.0))
        return spectrum.eigenvalue_error * spectrum.examples <= GRAM_TOLERANCE * largest

    def without_inputs(self) -> InputCandidate:
        """The same where only the evidence is still needed: its copy of the inputs is given back."""
        process = self.process
        spectrum = replace(self.data.spectrum, basis=GramBasis(np.zeros((0, 0)), np.zeros(0)))
        result = replace(self, data=replace(self.data, spectrum=spectrum))
        vars(result)["process"] = process
        return result


def make_candidate(columns: ColumnUnits, kernel: Kernel, setting: Setting) -> InputCandidate:
    """The data after one transform of the inputs and one eigendecomposition."""
    table, empty = setting.table, np.zeros((0, 0))
    kept = np.zeros((0, table.inputs.shape[1]))
    if isinstance(table, StreamedTable):
        means, data = _streamed(columns, table, setting)
        return InputCandidate(InputTransform(columns, kernel, means, kept, empty), data, setting.spec)
    seen = columns.seen(table.inputs)
    if kernel.name == "linear":
        inputs, data = setting.decomposed(seen, linear=True, overwrite=seen is not table.inputs)
        return InputCandidate(InputTransform(columns, kernel, inputs, kept, empty), data, setting.spec)
    if len(seen) > _MOST_EXACT_ROWS and kernel.name != "precomputed":
        return _approximate_candidate(columns, kernel, seen, setting)
    inputs, data = setting.decomposed(kernel.matrix(seen, seen), linear=False)
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


def _streamed(
    columns: ColumnUnits, table: StreamedTable, setting: Setting
) -> tuple[CentredInputs, EvidenceData]:
    """`Setting.decomposed` of a table that was read in blocks."""
    spectrum = Spectrum._from_factor(
        table.factor(columns, setting.columns), table.count, setting.targets.ndim == 1
    )
    rest = np.zeros((0, spectrum.outputs)) if spectrum.outside is None else spectrum.outside
    outside = np.asarray(np.linalg.qr(rest, mode="r"), float)
    if table.centre:
        spectrum = contrasts(spectrum)
    means = columns.seen(table.means[: table.inputs.shape[1]])
    return CentredInputs(Columns(means)), EvidenceData(spectrum, outside, setting.noise_variance)


# ---------------------------------------------------------------------- what the evidence prefers


def best_inputs(
    kernel: Kernel, wanted: str, group_of: IndexArray | None, setting: Setting
) -> tuple[InputCandidate, list[InputCandidate]]:
    """The candidate of highest evidence at infinite width, and the others, of which evidence is left.

    `wanted` are units of columns, "auto" for the better ones. With `group_of` (n0,) groups of columns may
    have scales of their own.
    """
    candidates = []
    for each in units_of_columns(kernel, wanted, setting.table):
        candidates.append(make_candidate(each, _completed(kernel, each, group_of, setting), setting))
        if kernel.name == "linear" and group_of is not None and candidates[-1].comparable:
            scaled = with_own_scales(candidates[-1], group_of, setting)
            candidates += [scaled] if scaled.own else []
    if kernel.name not in ("linear", "precomputed"):
        candidates = [each for each in candidates if each.has_digits] or candidates
    if len(candidates) == 1 or not all(each.comparable for each in candidates):
        return candidates[0], []
    candidates.sort(key=lambda candidate: -candidate.penalised_evidence)  # the first of equals stays first
    return candidates[0], [each.without_inputs() for each in candidates[1:]]


def units_of_columns(kernel: Kernel, wanted: str, table: Table) -> list[ColumnUnits]:
    """The units of columns to be compared: the one that is wanted, or both where they differ."""
    raw = ColumnUnits.raw(table.inputs.shape[1])
    if kernel.name == "precomputed" or wanted == RAW:
        return [raw]
    standardised = table.standardised()
    if wanted == standardised.name:
        return [standardised]
    return [raw] if standardised.alike else [raw, standardised]


def with_own_scales(candidate: InputCandidate, group_of: IndexArray, setting: Setting) -> InputCandidate:
    """The candidate with a prior scale for each group of columns, for the linear kernel."""
    columns, rows = candidate.transform.columns, _moments(candidate.transform.columns, setting)
    start = float(candidate.process.h[-1]) - math.log(rows.inputs.shape[1])  # G = XXᵀ/n0
    scales = column_scales.own_scales(rows, group_of, candidate.spec, start)
    rescaled = make_candidate(columns.rescaled(scales.variances), candidate.transform.kernel, setting)
    return replace(rescaled, penalty=scales.penalty, own=scales.own)


def _moments(columns: ColumnUnits, setting: Setting) -> column_scales.Rows:
    """Rows with the moments of the data about their means."""
    table = setting.table
    if isinstance(table, StreamedTable):
        factor = table.factor(columns, setting.columns)
        outside = (factor.outside**2).sum(axis=0)
        return column_scales.Rows(factor.root, factor.targets, outside, table.count - table.centre)
    seen = to_numpy(columns.seen(table.inputs))
    centred = Columns.of(seen, table.centre, table.weights).centred_training(seen)
    roots = np.sqrt(table.row_weights)[:, None]  # rows times √w have the noise of rows of weight one
    return column_scales.Rows.of(roots * centred, roots * setting.columns, table.centre)


def _completed(kernel: Kernel, columns: ColumnUnits, group_of: IndexArray | None, setting: Setting) -> Kernel:
    """The kernel for columns in these units, with its parameters chosen by evidence."""
    if not kernel.has_parameters:
        return kernel
    rows, table = np.arange(setting.table.count), setting.table
    if len(rows) > _ROWS_TO_CHOOSE:
        rows = np.sort(np.random.default_rng([setting.seed, 15]).choice(len(rows), _ROWS_TO_CHOOSE, False))
    few, seen = setting.some(rows), columns.seen(np.asarray(table.inputs)[rows])
    if len(rows) < 3 or not np.ptp(seen, axis=0).any():
        return chosen(kernel.name, seen, lambda _: 0.0)
    best = chosen(kernel.name, seen, lambda each: make_candidate(columns, each, few).process.score)
    if group_of is None:
        return best
    common = make_candidate(columns, best, few).process
    own, _ = with_own_length_scales(best, seen, few.columns, common.h, group_of)
    penalty = 0.5 * group_of.max() * np.log(len(rows))
    gain = make_candidate(columns, own, few).process.score - common.score
    return own if gain > penalty else best


def best_kernel(wanted: str, setting: Setting) -> str:
    """The kernel of `AUTO` with the highest evidence at infinite width, less ½ log p for each parameter."""
    found = {}
    for name, parameters in AUTO.items():
        candidate = best_inputs(Kernel(name), wanted, None, setting)[0]
        if not candidate.comparable:
            return "linear"
        found[name] = candidate.penalised_evidence - 0.5 * parameters * math.log(setting.table.count)
    return max(found, key=lambda name: found[name])
