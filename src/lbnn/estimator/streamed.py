"""Data in blocks of rows: units, transforms and predictions without a table in memory.

One pass leaves the triangle of [1 X Y]: means, and the factor X = QR with QᵀY. Rows of QᵀY and of the rest
have the moments of the targets, and columns of R those of the inputs: units are learned from them, and inputs
in other units are Q times R in these units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn.data.centring import CentredInputs, Columns, contrasts
from lbnn.data.spectrum import Spectrum
from lbnn.data.stream import Factor, Stream, Triangle
from lbnn.estimator import columns as column_units
from lbnn.estimator import relevance
from lbnn.estimator.columns import OWN_SCALES, ColumnUnits
from lbnn.estimator.input_search import InputCandidate, comparable, own_scales_of, preferred
from lbnn.estimator.input_transform import InputTransform
from lbnn.estimator.kernels import Kernel
from lbnn.estimator.targets import TargetUnits
from lbnn.selection import EvidenceData, NoiseSpec


@dataclass(frozen=True)
class Summary:
    """What a pass over the blocks leaves.

    Attributes
    ----------
    triangle : Triangle
    factor : Factor
        Of the data about their means, or as they are; columns that vary by rounding only are zero.
    centre, single : bool
        Whether there is a level, and whether targets were one-dimensional.
    """

    triangle: Triangle
    factor: Factor
    centre: bool
    single: bool

    @classmethod
    def of(cls, stream: Stream, centre: bool) -> Summary:
        """Read all blocks."""
        triangle, n0 = stream.triangle(), stream.inputs
        found = cls(triangle, triangle.factor(centre), centre, stream.single)
        varies = column_units.varying(*found._deviations)
        root, targets, outside = found.factor.root, found.factor.targets, found.factor.outside
        factor = Factor(root * varies[:n0], targets * varies[n0:], outside * varies[n0:])
        return replace(found, factor=factor)

    @property
    def inputs(self) -> int:
        """n0."""
        return self.factor.root.shape[1]

    @property
    def means(self) -> Array:
        """What is subtracted from [X Y], (n0 + n_d,)."""
        return self.triangle.means if self.centre else np.zeros_like(self.triangle.means)

    @property
    def targets(self) -> Array:
        """Rows with the moments of the centred targets, (rows, n_d)."""
        return np.vstack([self.factor.targets, self.factor.outside])

    @property
    def _deviations(self) -> tuple[Array, Array]:
        """Deviations of the columns of [X Y] from `means`, and their root mean squares, (n0 + n_d,) each."""
        return self.triangle.deviations(self.centre), self.triangle.deviations(False)

    def units(self, *, may_be_contrasts: bool) -> TargetUnits:
        """Units of the targets."""
        mean, count = self.means[self.inputs :], self.triangle.count
        return TargetUnits.of_rotated(
            self.targets, mean, count, self.centre, self.single, contrasts=may_be_contrasts
        )

    def best_candidate(
        self,
        wanted: str,
        kernel: Kernel,
        group_of: IndexArray | None,
        units: TargetUnits,
        noise_variance: float,
        spec: NoiseSpec,
    ) -> tuple[InputCandidate, list[InputCandidate]]:
        """As `candidates.best_candidate`, for the linear kernel."""
        deviation, size = (each[: self.inputs] for each in self._deviations)
        standardised = ColumnUnits.of_moments(self.means[: self.inputs], deviation, size)
        inner = replace(
            self.factor, targets=units.inner(self.factor.targets), outside=units.inner(self.factor.outside)
        )
        candidates = []
        for each in column_units.candidates(wanted, standardised):
            candidates.append(self._candidate(each, kernel, inner, noise_variance, spec))
            if group_of is not None and comparable(candidates[-1:]):
                scales = own_scales_of(candidates[-1], self._rows(each, inner), group_of)
                rescaled = each.rescaled(scales.variances, OWN_SCALES)
                own = replace(
                    self._candidate(rescaled, kernel, inner, noise_variance, spec),
                    penalty=scales.penalty,
                    own=scales.own,
                )
                candidates += [own] if own.own else []
        return preferred(candidates)

    def _rows(self, columns: ColumnUnits, factor: Factor) -> relevance.Rows:
        """Rows with the moments of the data about their means."""
        return relevance.Rows(
            factor.root / columns.deviation,
            factor.targets,
            (factor.outside**2).sum(axis=0),
            self.triangle.count - self.centre,
        )

    def _candidate(
        self, columns: ColumnUnits, kernel: Kernel, factor: Factor, noise_variance: float, spec: NoiseSpec
    ) -> InputCandidate:
        seen = replace(factor, root=factor.root / columns.deviation)
        spectrum = Spectrum._from_factor(seen, self.triangle.count, self.single)
        rest = np.zeros((0, spectrum.outputs)) if spectrum.outside is None else spectrum.outside
        outside = np.asarray(np.linalg.qr(rest, mode="r"), float)
        if self.centre:
            spectrum = contrasts(spectrum)
        inputs = CentredInputs(Columns(columns.seen(self.means[: self.inputs])))
        transform = InputTransform(columns, kernel, inputs, np.zeros((0, self.inputs)), np.zeros((0, 0)))
        return InputCandidate(transform, EvidenceData(spectrum, outside, noise_variance), spec)


def predict_blocks(estimator: Any, X: Any, return_std: bool, return_cov: bool) -> Any:
    """Predictions at the rows of a dask array, as dask arrays with its blocks of rows."""
    if return_cov:
        raise ValueError(
            "the covariance over all rows does not come in blocks: use return_std, or rows in memory"
        )
    if X.ndim != 2 or X.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X must have {estimator.n_features_in_} features, got X.shape={X.shape}")
    best = estimator.models_[0]
    single, outputs = best.single_output, len(best.mean)
    shape: dict[str, Any] = {"drop_axis": 1} if single else {"chunks": (X.chunks[0], (outputs,))}
    rows = X.rechunk({1: -1})
    names = ("mean", "deviation") if return_std else ("mean",)
    found = [
        rows.map_blocks(_block, estimator, name, dtype=float, meta=np.zeros((0,) * (2 - single)), **shape)
        for name in names
    ]
    return tuple(found) if return_std else found[0]


def _block(X: Array, estimator: Any, name: str) -> Array:
    mean = estimator.predict(X, return_std=name == "deviation")
    return mean[1] if name == "deviation" else mean
