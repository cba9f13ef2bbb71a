"""Advice: what other kernels, scales of columns, or weights of rows would gain.

Everything is computed at infinite width, where evidence and left-out predictions have closed forms.

Rows. The density of row a given the others is Gaussian, with residual e_aj and variance u_j t_a for output j,
t_a = s_a + 1 the variances of function and noise in units u_j of the noise. All that depends on the noise
variance v_a of the row is this density, with t_a = s_a + v_a. With m_a the mean of e_aj²/u_j over the q
outputs its maximum over v_a ≥ 1 is at s_a + v_a = max(t_a, m_a) and gains

    ½ q [m_a/t_a − 1 − log(m_a/t_a)]    where m_a > t_a

(the variance shift model of outliers; Thompson, 1985). A row is named if that is more than ½ log p for the
variance and log p for the choice of the row, so that rows of Gaussian noise hardly ever are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from lbnn._base.arrays import device_of
from lbnn._base.notices import Notice
from lbnn._base.types import Array
from lbnn.data.examples import example_vectors
from lbnn.estimator.fitted import FittedState
from lbnn.estimator.inputs import (
    AUTO,
    InputCandidate,
    Setting,
    make_candidate,
    units_of_columns,
    with_own_scales,
)
from lbnn.estimator.kernels import Kernel, typical_distance
from lbnn.estimator.notices import notice
from lbnn.estimator.prepare import Prepared, prepare
from lbnn.estimator.summary import largest_z, output_names
from lbnn.estimator.table import Table, distinct_rows
from lbnn.posterior import Posterior

_LOOK_ROWS = 200  # rows on which kernels are compared: 0.1 s
_LOOK_FLOATS = 1e8  # of products of rows and columns, beyond which they are not
_FEWEST_TO_COMPARE = 20
_CLEAR_GAIN = 10.0  # nats
_LENGTHS, _SHARES = (0.5, 1.0, 2.0), (0.1, 0.5)  # times the median distance; share of the rbf kernel
_MOST_ROWS_FOR_SCALES, _MOST_COLUMNS_FOR_SCALES = 2000, 5000  # beyond, scales of columns take minutes
_LARGEST_SHARE = 0.2  # of the rows that may be outliers: more are another law of the noise
_FEWEST_ROWS = 8
#: Variance of the function at a row given the others, over that of the median row, from which the row is
#: named: three times its deviation. Of normal inputs in three columns 0.2% of the rows are.
_LARGE_VARIANCE = 9.0
_FEWEST_PAIRS, _LEVEL = 6, 0.01  # rows with both targets, and level of the test for correlated residuals


def advice(model: Any) -> list[Notice]:
    """What could be changed in a fit, the largest gain first.

    Nothing of data that came in blocks, and of incomplete tables what needs no filled-in numbers.
    """
    state: FittedState = model._state
    found: list[Notice] = [*two_values(state), *far_rows(state), *correlated_residuals(state, model.noise_)]
    table = _table(model)
    if table is not None:
        again = prepare(model, table, table.targets)
        if again.chosen.comparable and again.data.noise_variance:
            nonlinear_here = nonlinear(again.setting, again.chosen, errors=True)
            found += [] if nonlinear_here is None else [nonlinear_here]
            found += scales_of_columns(model, again)
            found += odd_rows(again, model.target_names_ and output_names(model))
    return sorted(found, key=lambda each: -each.gain if math.isfinite(each.gain) else math.inf)


def _table(model: Any) -> Table | None:
    """The complete rows of a fit as the state of its predictions has them; None where it does not."""
    state, parameters = model._state, model.get_params(deep=False)
    posterior, transform = state.best.posterior, state.transform
    spectrum, count = posterior.spectrum, len(state.targets)
    if count < 2 or posterior.missing is not None:  # filled-in numbers would count as data
        return None
    weights = spectrum.weights
    roots = np.ones(count) if weights is None else np.sqrt(weights)
    if transform.kernel.name == "precomputed":
        vectors = example_vectors(spectrum) / roots[:, None]
        inputs: Any = (vectors * spectrum.eigenvalues) @ vectors.T
    elif transform.kernel.name == "linear":
        seen = getattr(spectrum.basis, "training_inputs", None)
        if seen is None or not device_of(seen).host:
            return None
        inputs = np.asarray(seen) / roots[:, None] * transform.columns.deviation
    elif len(transform.training_inputs) == count:
        inputs = transform.training_inputs * transform.columns.deviation + transform.columns.offset
    else:
        return None
    observed = np.ones(state.targets.shape, bool)
    centre, single = bool(parameters["fit_intercept"]), state.best.single_output
    return Table(inputs, state.targets, observed, weights, centre, single, state.rows, state.extent)


# ---------------------------------------------------------------------- kernels


def nonlinear(setting: Setting, chosen: InputCandidate, *, errors: bool = False) -> Notice | None:
    """Whether a nonlinear kernel has a clearly higher evidence than the linear one on some rows.

    With `errors` also the left-out errors of both.
    """
    X, count = setting.table.inputs, min(setting.table.count, _LOOK_ROWS)
    if count < _FEWEST_TO_COMPARE or not chosen.comparable or not device_of(X).host:
        return None
    if not setting.table.in_memory or not setting.noise_variance:
        return None
    if chosen.transform.kernel.name != "linear" or count**2 * X.shape[1] > _LOOK_FLOATS:
        return None
    rows = np.sort(np.random.default_rng([setting.seed, 17]).choice(X.shape[0], count, replace=False))
    few = setting.some(rows)
    if setting.table.rows.copies:  # from which a kernel would learn that there is no noise
        rows = rows[distinct_rows(few.table.inputs, few.columns, linear=False).kept]
        few, count = setting.some(rows), len(rows)
    few = _free(few)
    standardised = few.table.standardised()
    # a relation in other units of the columns, or about another level, is still linear
    line = Kernel("linear")
    lines = [make_candidate(each, line, few) for each in units_of_columns(line, "auto", few.table)]
    if not all(each.comparable for each in lines):
        return None
    straight = max(lines, key=lambda each: each.process.score)
    best, gain = straight, -math.inf
    for name, kernels in _tried(standardised.seen(few.table.inputs)).items():
        for kernel in kernels:
            candidate = make_candidate(standardised, kernel, few)
            own = candidate.process.score - straight.process.score - 0.5 * AUTO[name] * math.log(count)
            if own > gain:
                best, gain = candidate, own
    if gain <= _CLEAR_GAIN:
        return None
    told: dict[str, Any] = {"kernel": best.transform.kernel.name, "rows": count}
    if errors:
        both = (RowDensities.of(each, few.columns).error for each in (straight, best))
        told |= dict(zip(("error", "new_error"), both, strict=True))
    return notice("nonlinear", gain, **told)


def _free(setting: Setting) -> Setting:
    """The same rows with an intercept, noise and prior scale by evidence, whatever is given for the fit.

    A missing intercept, or a noise variance that is too small, is no sign of a nonlinear relation.
    """
    weights = setting.table.row_weights
    level = weights @ setting.targets / weights.sum()
    spec = replace(setting.spec, noise_variance=None, prior_scale=None)
    table = replace(setting.table, centre=True)
    return replace(setting, table=table, targets=setting.targets - level, spec=spec)


def _tried(seen: Array) -> dict[str, list[Kernel]]:
    """Few kernels that show a nonlinear relation where there is one."""
    typical = typical_distance(seen)
    both = [
        Kernel("linear+rbf", {"length_scale": typical * length, "share": share})
        for length in _LENGTHS
        for share in _SHARES
    ]
    return {"linear+rbf": both, "relu": [Kernel("relu", {"depth": 2, "bias_variance": 0.1})]}


# ---------------------------------------------------------------------- columns


def scales_of_columns(model: Any, found: Prepared) -> list[Notice]:
    """Whether the evidence pays for scales of single columns, where all have one."""
    rows, columns = found.table.count, found.table.inputs.shape[1]
    one = isinstance(model.column_scales, str) and model.column_scales != "own"
    small = rows <= _MOST_ROWS_FOR_SCALES and columns <= _MOST_COLUMNS_FOR_SCALES
    if not (one and small and found.chosen.transform.kernel.name == "linear"):
        return []
    scaled = with_own_scales(found.chosen, np.arange(columns), found.setting)
    gain = scaled.penalised_evidence - found.chosen.penalised_evidence
    if not scaled.own or gain <= 0:
        return []
    names = getattr(model, "feature_names_in_", None)
    listed = [f"column {k}" if names is None else repr(str(names[k])) for k in scaled.own]
    unit, targets = math.exp(found.units.log_unit), found.setting.columns
    before, after = (unit * RowDensities.of(each, targets).error for each in (found.chosen, scaled))
    return [notice("column_scales", gain, columns=listed, error=before, new_error=after)]


# ---------------------------------------------------------------------- rows


@dataclass(frozen=True)
class RowDensities:
    """Rows given all others at infinite width.

    Attributes
    ----------
    gain : (p,)
        Of the log evidence, from a noise variance of its own.
    z : (p, q)
        Standardised left-out residuals.
    residual : (p, q)
        Left-out residuals, in the units of the search.
    """

    gain: Array
    z: Array
    residual: Array

    @property
    def error(self) -> float:
        """Root mean square of the left-out residuals."""
        return float(np.sqrt((self.residual**2).mean()))

    @property
    def credible_gain(self) -> Array:
        """The gain where residuals of the outputs are correlated, (p,): of as many outputs as vary freely.

        Sums of squares of q residuals with the correlation matrix C vary as those of q²/tr C² independent
        ones.
        """
        sizes = np.sqrt((self.z**2).sum(axis=0, keepdims=True))
        scaled = np.divide(self.z, sizes, out=np.zeros_like(self.z), where=sizes > 0)
        gram = scaled @ scaled.T if len(scaled) < scaled.shape[1] else scaled.T @ scaled
        outputs = self.z.shape[1]
        return self.gain * min(outputs / max(float((gram**2).sum()), 1.0), 1.0)

    @classmethod
    def of(cls, candidate: InputCandidate, targets: Array) -> RowDensities:
        """Of targets of the search (p, q), at the best hyperparameters at infinite width."""
        spectrum, h = candidate.data.spectrum, candidate.process.h
        columns = targets / np.exp(h[:-1] / 2)
        weights = np.ones(len(columns)) if spectrum.weights is None else spectrum.weights
        centred, shares = spectrum.examples < len(columns), weights / weights.sum()
        about = np.sqrt(weights)[:, None] * (columns - centred * (shares @ columns))
        vectors, squares = example_vectors(spectrum), example_vectors(spectrum) ** 2
        inside = vectors.T @ about
        unseen = np.maximum(1 - centred * shares - squares.sum(axis=1), 0.0)
        inverse = 1 / (1 + math.exp(h[-1]) * spectrum.eigenvalues)
        precision = np.maximum(squares @ inverse + unseen, np.finfo(float).tiny)  # 1/t
        weighted = vectors @ (inverse[:, None] * inside) + (about - vectors @ inside)
        residual, total = weighted / precision[:, None], 1 / precision
        plain = residual * np.exp(h[:-1] / 2) / np.sqrt(weights)[:, None]
        if columns.shape[1] > 1 and not candidate.spec.per_output:  # one noise for outputs that have others
            spread = np.sqrt((residual**2 / total[:, None]).mean(axis=0))
            residual = residual / np.maximum(spread, 1.0)
        mean = (residual**2).mean(axis=1)
        ratio = np.maximum(mean / total, 1.0)
        gain = 0.5 * columns.shape[1] * (ratio - 1 - np.log(ratio))
        return cls(gain, residual / np.sqrt(total)[:, None], plain)


def price(rows: int) -> float:
    """What the log evidence must gain for a row to be named."""
    return 1.5 * math.log(max(rows, 2))


def odd_rows(found: Prepared, names: list[str] | None) -> list[Notice]:
    """Rows that the others predict badly, with the error of the others with and without them."""
    count, data = found.table.count, found.data
    if count < _FEWEST_ROWS or not data.spectrum.rank:
        return []
    targets = found.setting.columns
    densities = RowDensities.of(found.chosen, targets)
    size = np.abs(densities.z).max(axis=1)
    far = (densities.credible_gain > price(count)) | (size > largest_z(densities.z.size))
    if not far.any():
        return []
    order = np.flatnonzero(far)[np.argsort(-size[far], kind="stable")]
    outputs = np.abs(densities.z[order]).argmax(axis=1)
    several = names is not None and len(names) == densities.z.shape[1] > 1
    too_many = len(order) > max(_LARGEST_SHARE * count, 1)
    unit, others = math.exp(found.units.log_unit), np.flatnonzero(~far)
    before = after = math.nan
    if not too_many:
        transform = found.chosen.transform
        fewer = found.setting.some(others, gram=transform.kernel.name == "precomputed")
        again = make_candidate(transform.columns, transform.kernel, fewer)
        before = unit * float(np.sqrt((densities.residual[others] ** 2).mean()))
        after = unit * RowDensities.of(again, fewer.columns).error
    told = notice(
        "odd_rows",
        float(densities.gain[order[0]]),
        rows=found.table.rows.kept[order].tolist(),
        z=densities.z[order, outputs].tolist(),
        names=[names[j] if several and names else "" for j in outputs],
        all_rows=count,
        error=before,
        new_error=after,
        too_many=too_many,
    )
    return [told]


def far_rows(state: FittedState) -> list[Notice]:
    """Rows far from all others, near which predictions extrapolate."""
    if len(state.targets) < _FEWEST_ROWS or state.best.posterior.spectrum.rank == 0:
        return []
    own = state.best.function_variance.of_training_rows(state.best.posterior.spectrum, len(state.targets))
    median = float(np.median(own))
    far = np.flatnonzero(own > _LARGE_VARIANCE * median) if median > 0 else np.zeros(0, int)
    if not len(far):
        return []
    far = far[np.argsort(-own[far], kind="stable")]
    ratio = float(own[far[0]] / median)
    return [notice("extrapolation", rows=state.rows.kept[far].tolist(), ratio=ratio)]


# ---------------------------------------------------------------------- targets


def two_values(state: FittedState) -> list[Notice]:
    """Outputs that take two values."""
    if state.best.posterior.missing is not None or len(state.targets) < _FEWEST_ROWS:
        return []
    outputs = [j for j, column in enumerate(state.targets.T) if len(np.unique(column)) == 2]
    return [notice("two_values", outputs=outputs)] if outputs else []


def correlated_residuals(state: FittedState, kind: str) -> list[Notice]:
    """Whether residuals of targets of the same rows are correlated, unlike their noise, in incomplete tables.

    Fisher's transform of every correlation of two outputs, over rows with both, at a level of 1% in all.
    """
    posterior: Posterior = state.best.posterior
    cells = posterior.missing
    if cells is None or kind.startswith("coupled"):
        return []
    plain = cells.targets / np.sqrt(cells.weights)[:, None]
    residuals = np.where(cells.observed, plain - np.asarray(posterior.predict().mean), np.nan)
    found = []
    first, second = np.triu_indices(residuals.shape[1], 1)
    for j, k in zip(first.tolist(), second.tolist(), strict=True):
        both = cells.observed[:, j] & cells.observed[:, k]
        if both.sum() >= _FEWEST_PAIRS:
            r = float(np.corrcoef(residuals[both][:, [j, k]].T)[0, 1])
            found.append((abs(math.atanh(np.clip(r, -0.9999, 0.9999))) * math.sqrt(both.sum() - 3), r, j, k))
    if not found or max(found)[0] < stats.norm.isf(_LEVEL / 2 / len(found)):
        return []
    _, r, j, k = max(found)
    complete = int(cells.observed.all(axis=1).sum())
    return [notice("correlated_residuals", correlation=r, outputs=[j, k], noise=kind, complete=complete)]
