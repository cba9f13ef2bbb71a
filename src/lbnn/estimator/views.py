"""Ways to see the inputs: units of the columns, kernel and its parameters, compared by evidence.

What the network sees of the inputs is their Gram matrix, whatever it was made of. Views are compared at
infinite width, where the evidence has a closed form; the network is then sought in the best of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lbnn._base.arrays import to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.data.centring import CentredInputs, CentredKernel, Columns
from lbnn.estimator import columns as column_units
from lbnn.estimator import relevance
from lbnn.estimator.columns import OWN_SCALES, ColumnUnits
from lbnn.estimator.kernels import FAMILIES, Kernel, chosen, with_own_length_scales
from lbnn.estimator.model import decompose
from lbnn.estimator.seeing import Seeing
from lbnn.selection import Candidate, Choice, EvidenceData, infinite_width

_MOST_EXACT_ROWS = 4000  # up to which a kernel is decomposed exactly
_LANDMARKS = 1500  # beyond: rows whose kernel functions span the approximate one
_ROWS_TO_CHOOSE = 1000  # on which parameters of a kernel are chosen


@dataclass(frozen=True)
class Setting:
    """What all views share: targets of the search, the level, noise, and what is given of hyperparameters."""

    targets: Array  # (p,) or (p, q)
    centre: bool
    noise: float
    choice: Choice
    seed: int
    weights: Array | None = None  # of rows, (p,)

    def of_rows(self, rows: IndexArray) -> Setting:
        """The same for some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, targets=self.targets[rows], weights=weights)

    def decomposed(
        self, points: AnyArray, linear: bool
    ) -> tuple[CentredInputs | CentredKernel, EvidenceData]:
        """The data with these inputs, features or kernel matrix."""
        return decompose(
            points,
            self.targets,
            linear=linear,
            centre=self.centre,
            noise=self.noise,
            weights=self.weights,
        )


@dataclass(frozen=True)
class View:
    """Data in one way of seeing the inputs.

    Attributes
    ----------
    seeing : Seeing
    data : EvidenceData
    choice : Choice
        Of the hyperparameters at which views are compared.
    dropped : float
        Share of the kernel's variance at the training points that the features lack.
    penalty : float
        Of the log evidence, for scales of columns that were fitted.
    own : tuple of int
        Groups of columns with a scale of their own.
    """

    seeing: Seeing
    data: EvidenceData
    choice: Choice
    dropped: float = 0.0
    penalty: float = 0.0
    own: tuple[int, ...] = ()

    @property
    def supported(self) -> float:
        """What views are ranked by."""
        return self.process.supported - self.penalty

    @cached_property
    def process(self) -> Candidate:
        """The Gaussian process with the hyperparameters that its evidence prefers."""
        return infinite_width(self.data, self.choice)


def make_view(columns: ColumnUnits, kernel: Kernel, X: AnyArray, setting: Setting) -> View:
    """The data as one view sees them, after their one eigendecomposition."""
    seen, linear, empty = columns.seen(X), kernel.metric == "linear", np.zeros((0, 0))
    if linear:
        inputs, data = setting.decomposed(seen, linear=True)
        kept = np.zeros((0, X.shape[1]))
        return View(Seeing(columns, kernel, inputs, kept, empty), data, setting.choice)
    if len(X) > _MOST_EXACT_ROWS and kernel.metric != "precomputed":
        return _approximate_view(columns, kernel, seen, setting)
    gram = kernel.matrix(seen, seen)
    inputs, data = setting.decomposed(gram, linear=False)
    return View(Seeing(columns, kernel, inputs, seen, empty), data, setting.choice)


def _approximate_view(columns: ColumnUnits, kernel: Kernel, seen: Array, setting: Setting) -> View:
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
    seeing = Seeing(columns, kernel, inputs, landmarks, feature_map)
    return View(seeing, data, setting.choice, max(dropped, 0.0))


def best_view(
    X: AnyArray, wanted: str, kernel: Kernel, group_of: IndexArray | None, setting: Setting
) -> tuple[View, list[View]]:
    """The view of highest evidence at infinite width, and the others.

    With `group_of` (n0,) groups of columns may have scales of their own.
    """
    units = (
        [ColumnUnits.raw(X.shape[1])]
        if kernel.metric == "precomputed"
        else column_units.candidates(wanted, ColumnUnits.standardised(X, setting.centre, setting.weights))
    )
    views = []
    for each in units:
        views.append(make_view(each, _completed(kernel, each, X, group_of, setting), X, setting))
        if kernel.metric == "linear" and group_of is not None and comparable(views[-1:]):
            views.append(_with_own_scales(views[-1], X, group_of, setting))
    return preferred([each for each in views if each.own or each.seeing.columns.name != OWN_SCALES])


def _with_own_scales(view: View, X: AnyArray, group_of: IndexArray, setting: Setting) -> View:
    """The view with a prior scale for each group of columns, for the linear kernel."""
    columns = view.seeing.columns
    seen = to_numpy(columns.seen(X))
    centred = Columns.of(seen, setting.centre, setting.weights).centred_training(seen)
    targets = setting.targets.reshape(len(seen), -1)
    if setting.weights is not None:  # rows times √w have the noise of rows of weight one
        roots = np.sqrt(setting.weights)[:, None]
        centred, targets = roots * centred, roots * targets
    scales = own_scales_of(view, relevance.Rows.of(centred, targets, setting.centre), group_of)
    rescaled = columns.rescaled(scales.variances, OWN_SCALES)
    return replace(
        make_view(rescaled, view.seeing.kernel, X, setting), penalty=scales.penalty, own=scales.own
    )


def own_scales_of(view: View, rows: relevance.Rows, group_of: IndexArray) -> relevance.Scales:
    """Scales of groups of columns, from the common one of a view of the same rows."""
    start = float(view.process.h[-1]) - np.log(rows.inputs.shape[1])  # G = XXᵀ/n0
    return relevance.own_scales(rows, group_of, view.choice, start)


def preferred(views: list[View]) -> tuple[View, list[View]]:
    """The view of highest evidence, and the others."""
    if len(views) == 1 or not comparable(views):
        return views[0], []
    views.sort(key=lambda view: -view.supported)  # the first of equals stays first
    return views[0], views[1:]


def comparable(views: list[View]) -> bool:
    """Whether there are data and inputs that tell views apart."""
    return all(view.data.spectrum.examples > 1 and view.data.spectrum.rank > 0 for view in views)


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
    best = chosen(kernel, seen, _evidence_of(columns, part, few))
    if group_of is None or not FAMILIES[kernel.metric].stationary or "length_scale" in kernel.parameters:
        return best
    common = make_view(columns, best, part, few).process
    targets = few.targets.reshape(len(part), -1)
    own, _ = with_own_length_scales(best, seen, targets, common.h, group_of)
    penalty = 0.5 * group_of.max() * np.log(len(part))
    gain = make_view(columns, own, part, few).process.supported - common.supported
    return own if gain > penalty else best


def _evidence_of(columns: ColumnUnits, X: Array, setting: Setting) -> Callable[[Kernel], float]:
    def evidence(kernel: Kernel) -> float:
        return make_view(columns, kernel, X, setting).process.supported

    return evidence
