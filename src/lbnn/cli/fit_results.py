"""The numbers of a fit, for its report and for `--json`: what was chosen, how good it is, what to look at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from lbnn._base.types import Array
from lbnn._base.warn import collected
from lbnn.cli.problems import TableWords
from lbnn.cross_validation import LeaveOneOut
from lbnn.estimator.summary import Facts, facts

LEVELS = (0.5, 0.9, 0.99)  # of the intervals whose coverage is counted
INTERVAL = 0.9  # of coefficients
#: Variance of the function at a row given the others, over that of the median row, from which the row is
#: listed: twice its deviation. Of normal inputs in three columns 2% of the rows are listed.
_LARGE_VARIANCE = 4.0
_ROUNDING = 1e-12  # of a correlation: some 100 roundings of the units of the targets
_FEATURES_AT_ONCE = 100  # whose joint covariance is formed
_MOST_FEATURES = 5000  # whose coefficients get intervals: some ten seconds


@dataclass(frozen=True)
class Rows:
    """The rows of a fit: features and targets as frames, and what each row is called."""

    X: Any
    Y: Any
    labels: Sequence[str]


@dataclass(frozen=True)
class FitResults:
    """What a fit found.

    Attributes
    ----------
    model : LBNNRegressor
    names : list of str
        Columns of the table that are predicted.
    rows : int
    data : Rows, optional
        None where the file was read in parts.
    scores : LeaveOneOut, optional
        Of the same rows.
    found : Facts
    notes : list of str
        What was done to the table.
    """

    model: Any
    names: list[str]
    rows: int
    data: Rows | None
    scores: LeaveOneOut | None
    found: Facts
    notes: list[str]

    @classmethod
    def of(
        cls, model: Any, names: Sequence[str], rows: int, data: Rows | None, notes: Sequence[str]
    ) -> FitResults:
        """Of a fitted `LBNNRegressor`."""
        scores = None
        if data is not None:
            with collected():  # the scores have them as messages
                scores = model.leave_one_out()
        return cls(model, list(names), rows, data, scores, facts(model), list(notes))

    @property
    def targets(self) -> Array:
        """Of the rows, as they are fitted, (rows, n_d)."""
        return np.asarray(self.model._state.scored_targets)

    @cached_property
    def messages(self) -> list[str]:
        """What the fit and the left-out predictions noticed, and advice."""
        labels = () if self.data is None else self.data.labels
        words = TableWords(labels)
        known = {each.code for each in self.model.notices_}
        advice = [each for each in self.model.diagnose() if each.code not in known]
        found = [each.render(words) for each in (*self.model.notices_, *advice)]
        found += [words.message(each) for each in (self.scores.messages if self.scores else ())]
        kept = self.model._state.rows.kept  # what scores call examples

        def named(match: re.Match[str]) -> str:
            return str(labels[kept[int(match[1])]]) if labels else match[0]

        return [re.sub(r"\bexample (\d+)\b", named, message) for message in dict.fromkeys(found)]

    # ------------------------------------------------------------------ what was chosen

    def chosen(self) -> dict[str, Any]:
        """Network, noise and evidence."""
        model = self.model
        deviations = np.sqrt(np.atleast_1d(model.noise_variance_))
        shares = np.atleast_1d(model.signal_share_).tolist()
        intervals = np.reshape(model.signal_share_interval_, (-1, 2)).tolist()
        return {
            "depth": len(model.widths_) + 1,
            "widths": list(model.widths_),
            "noise": model.noise_,
            "noise_deviation": dict(zip(self.names, deviations.tolist(), strict=True)),
            "signal_share": dict(zip(self.names, shares, strict=True)),
            "signal_share_interval": dict(zip(self.names, intervals, strict=True)),
            "beta": model.beta_,
            "prior_scale": model.prior_scale_,
            "inputs": model.kernel_.columns,
            "kernel": model.kernel_.name,
            "kernel_parameters": dict(model.kernel_.parameters),
            "log_evidence": model.log_evidence_,
            "log_evidence_error": model.log_evidence_error_,
            "models_averaged": len(model._state.models),
        }

    def candidates(self) -> list[dict[str, Any]]:
        """The evidence table, best first by evidence less penalty."""
        table = sorted(self.model.candidates_, key=lambda each: each.penalty - each.log_evidence)
        best = table[0].log_evidence - table[0].penalty
        return [
            {
                "depth": len(each.widths) + 1,
                **{name: value for name, value in vars(each).items() if name not in ("posterior", "kernel")},
                "kernel_parameters": dict(each.kernel.parameters),
                "below_the_best": best - each.log_evidence + each.penalty,
            }
            for each in table
        ]

    def correlations(self) -> Array:
        """E L as correlations of the targets, (n_d, n_d)."""
        scale = np.atleast_2d(self.model.scale_mean_)
        size = np.sqrt(np.diag(scale))
        return scale / np.outer(size, size)

    @property
    def coupled(self) -> bool:
        """Whether some targets are coupled by more than rounding: at infinite width none are."""
        correlations = self.correlations()
        return bool(np.abs(correlations - np.eye(len(correlations))).max() > _ROUNDING)

    # ------------------------------------------------------------------ rows predicted from all others

    def left_out(self) -> list[dict[str, Any]]:
        """For each target: errors beside those of a ridge and of the mean, z, and coverage of intervals."""
        if self.data is None or self.scores is None:
            return []
        truth = self.targets
        z, residual = (np.reshape(each, truth.shape) for each in (self.scores.z, self.scores.residual))
        reach = special.ndtri((1 + np.array(LEVELS)) / 2)
        baselines = {each.name: each for each in self.found.outputs}
        rows = []
        for j, name in enumerate(self.names):
            known = baselines.get(name)
            rows.append(
                {
                    "target": name,
                    "r2": known.r2 if known else float("nan"),
                    "rmse": float(np.sqrt((residual[:, j] ** 2).mean())),
                    "rmse_of_ridge": known.ridge_error if known else float("nan"),
                    "rmse_of_mean": known.mean_error if known else float("nan"),
                    "mean_z": float(z[:, j].mean()),
                    "sd_z": float(z[:, j].std()),
                    "coverage": {
                        str(level): float((np.abs(z[:, j]) < each).mean())
                        for level, each in zip(LEVELS, reach, strict=True)
                    },
                }
            )
        return rows

    def outliers(self) -> list[dict[str, Any]]:
        """Rows whose left-out residuals are larger than Gaussian noise makes them, largest first."""
        if self.data is None or self.scores is None:
            return []
        truth = self.targets
        mean = np.reshape(self.scores.mean, truth.shape)
        found = [(each, self.names.index(each.output)) for each in self.found.outliers]
        return [
            {
                "row": self.data.labels[each.row],
                "target": self.names[j],
                "value": float(truth[each.row, j]),
                "predicted": float(mean[each.row, j]),
                "z": each.z,
            }
            for each, j in found
        ]

    def leverage(self) -> list[dict[str, Any]]:
        """Rows whose features are far from those of all others, farthest first.

        The number is the variance of the function at the row given the others, over that of the median row.
        """
        state = self.model._state
        if self.data is None or len(state.targets) < 3:
            return []
        best = state.best
        own = best.function_variance.of_training_rows(best.posterior.spectrum, len(state.targets))
        median = float(np.median(own))
        ratio = (own / median if median else np.zeros_like(own))[state.rows.stands_for]
        far = [row for row in np.argsort(-ratio, kind="stable") if ratio[row] > _LARGE_VARIANCE]
        return [{"row": self.data.labels[row], "variance": float(ratio[row])} for row in far]

    # ------------------------------------------------------------------ coefficients

    def coefficients(self) -> Coefficients | None:
        """Of the linear kernel; None for others."""
        if not hasattr(self.model, "coef_"):
            return None
        matrix = np.atleast_2d(self.model.coef_)
        features = [str(name) for name in self.model.feature_names_in_]
        units = None if self.data is None else self.data.X.to_numpy().std(axis=0)
        return Coefficients(features, self.names, matrix, _coefficient_deviations(self.model), units)

    def as_json(self) -> dict[str, Any]:
        """Everything but pictures."""
        coefficients = self.coefficients()
        scores = self.scores
        return {
            "rows": self.rows,
            "features": self.model.n_features_in_,
            "targets": self.names,
            "chosen": self.chosen(),
            "evidence": self.candidates(),
            "correlations": self.correlations() if len(self.names) > 1 else None,
            "left_out": self.left_out(),
            "left_out_log_density": None if scores is None else scores.elpd,
            "left_out_log_density_error": None if scores is None else scores.elpd_error,
            "outliers": self.outliers(),
            "large_leverage": self.leverage(),
            "coefficients": coefficients.rows() if coefficients is not None else None,
            "intercept": dict(zip(self.names, np.atleast_1d(self.model.intercept_), strict=True))
            if coefficients is not None
            else None,
            "table": self.notes,
            "messages": self.messages,
        }


@dataclass(frozen=True)
class Coefficients:
    """Of a linear fit.

    Attributes
    ----------
    features, targets : list of str
    values : (n_d, n_features)
        In the units of the table.
    deviations : (n_d, n_features), optional
        Posterior standard deviations; None for very many features.
    units : (n_features,), optional
        Standard deviations of the features; None where the file was read in parts.
    """

    features: list[str]
    targets: list[str]
    values: Array
    deviations: Array | None
    units: Array | None

    @property
    def reach(self) -> float:
        """Half the width of the interval, in standard deviations."""
        return float(special.ndtri((1 + INTERVAL) / 2))

    def rows(self) -> list[dict[str, Any]]:
        """One for each target and feature, those of a target largest effect first."""
        units = np.ones(len(self.features)) if self.units is None else self.units
        found = []
        for j, target in enumerate(self.targets):
            for k in np.argsort(-np.abs(self.values[j] * units), kind="stable"):
                value = float(self.values[j, k])
                half = float("nan") if self.deviations is None else self.reach * float(self.deviations[j, k])
                found.append(
                    {
                        "target": target,
                        "feature": self.features[k],
                        "value": value,
                        "low": value - half,
                        "high": value + half,
                        "effect": value * float(units[k]) if self.units is not None else float("nan"),
                    }
                )
        return found


def _coefficient_deviations(model: Any) -> Array | None:
    """Posterior deviations of `coef_`, (n_d, n_features): of f(e_k) − f(0), for some features at a time."""
    count = model.n_features_in_
    if count > _MOST_FEATURES:
        return None
    outputs = len(np.atleast_2d(model.coef_))
    parts = []
    for start in range(0, count, _FEATURES_AT_ONCE):
        chosen = np.eye(min(_FEATURES_AT_ONCE, count - start), count, k=start)
        points, size = np.vstack([np.zeros(count), chosen]), 1 + len(chosen)
        law = model._state.predictive(points, None)  # without the names of columns, which take longer
        covariance = np.reshape(law.covariance, (size, outputs, size, outputs))
        own = np.einsum("iaja->aij", covariance)
        parts.append(own[:, 1:, 1:].diagonal(axis1=1, axis2=2) + own[:, :1, 0] - 2 * own[:, 0, 1:])
    return np.sqrt(np.maximum(np.hstack(parts), 0.0))
