"""BandedRegressor: bands of columns, each with a scale of its own. Needs the extra `sklearn`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from lbnn import archive
from lbnn._base.types import Array, IndexArray, Mask
from lbnn.bands import Bands, BandsFit, BandsPredictive
from lbnn.bands.block_posterior import BlockPosterior
from lbnn.estimator.settings import as_seed
from lbnn.network import Network

# : Networks that `width="evidence"` compares, from one that switches bands on and off to one near a fixed
# scale.
CANDIDATES: tuple[tuple[int, ...], ...] = ((1, 1), (1,), (3, 3), (3,), (10,))
_LOOKED_AT = 32  # targets whose evidence is summed to choose among them
_ROUGH = 0.3  # error of their log evidences; differences between candidates are summed over targets

#: Kind of its files, and the layout of their header and arrays.
KIND, LAYOUT = "banded regressor", 3


class BandedRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Regression on bands of columns, each with a random scale of its own, for every target by itself.

    y = level + Σ_k f_k(x_k) + noise with a flat prior of the level. Scales and noise are integrated out;
    nothing is chosen by cross-validation. Targets are divided by their deviations and kernels by their mean
    diagonals, so that units do not matter.

    Parameters
    ----------
    bands : list of (name, columns) or (name, columns, kernel)
        Columns are names, numbers, a slice or a mask; every column is in one band at most. The kernel is
        "linear" or what `sklearn.metrics.pairwise.pairwise_kernels` takes (computed with its default
        parameters), or a callable of two arrays. With kernel="precomputed" a list of names.
    kernel : "linear" or "precomputed"
        Kernel of bands that name none. "precomputed": X is (n_bands, n_samples, n_samples), as for himalaya.
    width : "evidence", int or tuple of int
        Hidden widths of the network of every band. "evidence" takes the candidate with the highest log
        evidence, summed over targets (at most 32 of them).
    prior_scale : float
        Prior mean of the variance that a band explains, in units of the variance of the target.
    noise_variance : float, (n_targets,) or None
        Known noise variances; None integrates over them (`Bands.condition`).
    fit_intercept : bool
    target_error, max_directions
        As in `Bands.condition`.
    random_state : int, RandomState or None

    Attributes
    ----------
    band_names_ : list of str
    dead_targets_ : (n,)
        Numbers of targets without an answer: constant, not finite, or reproduced exactly by columns fewer
        than samples. Theirs is NaN everywhere, and `ok_` is False.
    band_shares_ : (n_targets, n_bands)
        Posterior mean of the share of variance that each band explains.
    log_evidence_, noise_variance_, ok_ : (n_targets,)
        Log evidence, posterior mean of the noise variance, and whether the stated errors are within the
        target error.
    widths_ : tuple of int
        As chosen or given.
    evidence_table_ : list of dict
        The candidates, best first.
    fit_ : BandsFit
        The posterior, in units of the targets' deviations.

    Notes
    -----
    With unknown noise, data that fewer columns than samples reproduce exactly are refused: their density is
    not bounded. `check_regressors_no_decision_function` of scikit-learn has such data, and is the one check
    of its `check_estimator` that is not passed.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 30))
    >>> Y = X[:, :10] @ rng.normal(size=(10, 3)) + 2 * rng.normal(size=(60, 3))
    >>> model = lbnn.BandedRegressor(bands=[("a", slice(0, 10)), ("b", slice(10, 30))], width=3).fit(X, Y)
    >>> mean, deviation = model.predict(X[:5], return_std=True)
    >>> mean.shape, model.band_shares_.shape
    ((5, 3), (3, 2))
    >>> bool((model.band_shares_[:, 0] > model.band_shares_[:, 1]).all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "bands": [list, tuple],
        "kernel": [StrOptions({"linear", "precomputed"})],
        "width": [StrOptions({"evidence"}), Interval(Integral, 1, None, closed="left"), tuple, list],
        "prior_scale": [Interval(Real, 0, None, closed="neither")],
        "noise_variance": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "fit_intercept": ["boolean"],
        "target_error": [Interval(Real, 0, 1, closed="neither")],
        "max_directions": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        bands: Any,
        *,
        kernel: str = "linear",
        width: Any = "evidence",
        prior_scale: float = 1.0,
        noise_variance: Any = None,
        fit_intercept: bool = True,
        target_error: float = 0.1,
        max_directions: int = 1024,
        random_state: Any = 0,
    ) -> None:
        self.bands = bands
        self.kernel = kernel
        self.width = width
        self.prior_scale = prior_scale
        self.noise_variance = noise_variance
        self.fit_intercept = fit_intercept
        self.target_error = target_error
        self.max_directions = max_directions
        self.random_state = random_state

    # ------------------------------------------------------------------ fit

    def fit(self, X: ArrayLike, y: ArrayLike) -> BandedRegressor:
        """Condition every target on the data.

        Parameters
        ----------
        X : (n_samples, n_features), or (n_bands, n_samples, n_samples) for precomputed kernels
        y : (n_samples,) or (n_samples, n_targets)
            One target that is constant or not finite does not stop the others (`dead_targets_`).
        """
        self._validate_params()
        self._columns: list[IndexArray] | None = None
        self.band_names_ = self._names()
        data, targets, single = self._training(X, y)
        inner = self._prepare(data, targets, single)
        if isinstance(self.width, str):
            table = self._compare(inner)
            self.evidence_table_ = table
            widths = table[0]["widths"]
        else:
            widths = (int(self.width),) if isinstance(self.width, Integral) else tuple(self.width)
            self.evidence_table_ = []
        fit = self._condition(widths, inner, self.target_error, self.max_directions)
        self.widths_ = widths
        self._describe(fit)
        fit.warn(list(getattr(y, "columns", range(len(self.ok_)))))
        return self

    def _training(self, X: Any, y: Any) -> tuple[Any, Array, bool]:
        """Inputs or kernels, targets (p, V), and whether there was one target without a second axis."""
        if self.kernel == "precomputed":
            data = np.asarray(X, dtype=np.float64)
            if data.ndim != 3 or data.shape[1] != data.shape[2] or len(data) != len(self.band_names_):
                raise ValueError(
                    f"precomputed kernels must have shape ({len(self.band_names_)}, n_samples, n_samples), "
                    f"one for each band, got {data.shape}"
                )
            if not np.isfinite(data).all():
                raise ValueError("precomputed kernels must be finite, got NaN or infinite values")
        else:
            data = validate_data(self, X, dtype=np.float64)
            self._columns = self._resolve()
        if y is None:
            raise ValueError("BandedRegressor requires y to be passed, but the target y is None")
        targets = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite=False, input_name="y")
        if targets.ndim > 2:
            raise ValueError(f"y must have one axis or two, got y.shape={targets.shape}")
        check_consistent_length(targets, data if self._columns is not None else data[0])
        if not np.isfinite(targets).reshape(len(targets), -1).all(axis=0).any():
            check_array(targets, ensure_2d=False, input_name="y")  # says what is wrong with every target
        return data, np.reshape(targets, (len(targets), -1)), targets.ndim == 1

    def _names(self) -> list[str]:
        if not len(self.bands):
            raise ValueError("bands must be a list of (name, columns), got none")
        names = [each if isinstance(each, str) else str(each[0]) for each in self.bands]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"every band needs a name of its own, got {sorted(twice)} more than once")
        return names

    def _resolve(self) -> list[IndexArray]:
        """Numbers of the columns of every band, checked."""
        known = {name: number for number, name in enumerate(getattr(self, "feature_names_in_", []))}
        taken: dict[int, str] = {}
        found = []
        for band in self.bands:
            if isinstance(band, str) or not 2 <= len(band) <= 3:
                raise ValueError(f"a band is (name, columns) or (name, columns, kernel), got {band!r}")
            name, columns = band[0], _indices(band[0], band[1], self.n_features_in_, known)
            if not len(columns):
                raise ValueError(f"every band needs a column, got none in band {name!r}")
            for column in columns:
                if int(column) in taken:
                    raise ValueError(
                        "a column is in one band at most: its scale would be that of two bands, got column "
                        f"{int(column)} in bands {taken[int(column)]!r} and {name!r}"
                    )
                taken[int(column)] = name
            found.append(columns)
        return found

    def _kernels(self) -> list[Any]:
        """The kernel of every band."""
        named = [None if isinstance(band, str) or len(band) < 3 else band[2] for band in self.bands]
        return [self.kernel if each is None else each for each in named]

    @property
    def _linear(self) -> bool:
        return self.kernel != "precomputed" and all(each == "linear" for each in self._kernels())

    def _prepare(self, data: Any, targets: Array, single: bool) -> list[Array]:
        """Blocks of inputs or kernels, less their level, and targets in units of their deviations."""
        if len(targets) < 2 + self.fit_intercept:
            raise ValueError(
                f"scales and noise need {2 + self.fit_intercept} samples or more, "
                f"got n_samples={len(targets)}"
            )
        self._single, self._X, self._targets = single, data, targets
        self._level = targets.mean(axis=0) if self.fit_intercept else np.zeros(targets.shape[1])
        contrasts = self._contrasts(targets)
        self._unit = np.sqrt((contrasts**2).mean(axis=0))
        largest = np.abs(targets).max(axis=0)
        self._unit = np.where(self._unit > 1e-14 * largest, self._unit, np.nan)  # also where NaN
        if np.isnan(self._unit).all():
            raise ValueError(
                "one target at least must vary and be finite, got constants in all of "
                f"{len(self._unit)} targets"
            )
        self._inner_targets = contrasts / self._unit
        if self._linear:
            assert self._columns is not None
            given = [data[:, columns] for columns in self._columns]
            inner = [self._contrasts(block) for block in given]
            sizes = [float((block**2).mean()) for block in inner]
        else:
            given = [self._gram(number, None) for number in range(len(self.bands))]
            inner = [_symmetric(self._contrasts(self._contrasts(gram).T)) for gram in given]
            sizes = [float(np.trace(gram)) / len(gram) for gram in inner]
        self._means = [self.fit_intercept * each.mean(axis=0) for each in given]
        power = 2 if self._linear else 1  # of numbers that have the units of a kernel
        constant = [
            name
            for name, size, each in zip(self.band_names_, sizes, given, strict=True)
            if size <= 1e-20 * float((np.abs(each) ** power).max())
        ]
        if constant:
            raise ValueError(
                f"the columns of a band must vary, got constants in bands {constant}: leave them out"
            )
        self._sizes = np.array(sizes)
        return inner

    def _contrasts(self, rows: Array) -> Array:
        """Rows (p, ...) without their level: p − 1 of them, or all without an intercept."""
        if not self.fit_intercept:
            return rows
        normal = np.full(len(rows), 1 / math.sqrt(len(rows)))
        normal[0] += 1
        normal /= np.linalg.norm(normal)
        return (rows - np.multiply.outer(normal, 2 * (normal @ rows)))[1:]

    def _gram(self, number: int, X: Any) -> Array:
        """The kernel of a band at the training inputs, or between X and these."""
        if self.kernel == "precomputed":
            return np.asarray(self._X[number] if X is None else X[number])
        assert self._columns is not None
        columns = self._columns[number]
        own = self._X[:, columns]
        return _kernel(self._kernels()[number], own if X is None else X[:, columns], own)

    def _networks(self, widths: Sequence[int]) -> Bands:
        layers = [1.0] * len(widths)
        return Bands([Network(tuple(widths), (self.prior_scale / size, *layers)) for size in self._sizes])

    def _condition(
        self,
        widths: Sequence[int],
        inner: list[Array],
        error: float,
        directions: int,
        some: Any = slice(None),
    ) -> BandsFit:
        """The posterior of some targets, without warnings."""
        return self._networks(widths).condition(
            inner,
            self._inner_targets[:, some],
            kernels=not self._linear,
            noise_variance=self._noise_units(some),
            target_error=error,
            max_directions=directions,
            seed=as_seed(self.random_state),
            warn_of_errors=False,
        )

    def _compare(self, inner: list[Array]) -> list[dict[str, Any]]:
        """Log evidence of the candidates, summed over some targets, best first."""
        alive = np.flatnonzero(~np.isnan(self._unit))
        places = np.linspace(0, len(alive) - 1, min(len(alive), _LOOKED_AT))
        some = alive[np.unique(places.round().astype(int))]
        fits = {widths: self._condition(widths, inner, _ROUGH, 8, some) for widths in CANDIDATES}
        table = [
            {
                "widths": widths,
                "log_evidence": float(np.nansum(fit.log_evidence)),
                "error": float(np.sqrt(np.nansum(fit.log_evidence_error**2))),
                "targets": len(some),
            }
            for widths, fit in fits.items()
        ]
        return sorted(table, key=lambda row: -row["log_evidence"])

    def _describe(self, fit: BandsFit) -> BandedRegressor:
        self.fit_ = fit
        rows = self._inner_targets.shape[0]
        self.band_shares_, self.ok_, self.dead_targets_ = fit.share_mean, fit.ok, fit.dead_targets
        self.log_evidence_ = fit.log_evidence - rows * np.log(self._unit)
        self.noise_variance_ = fit.noise_mean * self._unit**2
        return self

    # ------------------------------------------------------------------ predictions

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Mean of the targets at X, and on request standard deviations of observations, noise included.

        Parameters
        ----------
        X : (n_samples, n_features), or (n_bands, n_samples, n_training) for precomputed kernels
        """
        law = self.predictive(X).with_noise()
        column = 0 if self._single else slice(None)
        if not return_std:
            return law.mean[:, column]
        return law.mean[:, column], law.standard_deviation[:, column]

    def predictive(self, X: ArrayLike) -> BandedPredictive:
        """The predictive distribution of the function at X; `.with_noise()` for observations."""
        check_is_fitted(self, "fit_")
        level = self.fit_.noise_mean / len(self._targets) if self.fit_intercept else np.zeros(len(self._unit))
        return BandedPredictive(self._predictive(self._checked(X)), self._level, self._unit, level)

    def contributions(self, X: ArrayLike) -> Array:
        """What every band adds to the mean of the targets, (n_bands, n_samples, n_targets)."""
        return np.asarray(self._predictive(self._checked(X)).contributions) * self._unit

    def band_share_intervals(self, probability: float = 0.9) -> Array:
        """Central posterior intervals of the shares, (n_targets, n_bands, 2)."""
        check_is_fitted(self, "fit_")
        return self.fit_.share_interval(probability)

    def summary(self) -> str:
        """Describe the fit as text."""
        check_is_fitted(self, "fit_")
        answered, lines = np.setdiff1d(np.arange(len(self.ok_)), self.dead_targets_), []
        lines.append(
            f"{len(self.band_names_)} bands, {len(self._targets)} samples, {len(self._unit)} targets, "
            f"networks of widths {self.widths_}; {np.count_nonzero(self.ok_)} of {len(self.ok_)} targets ok "
            f"({self.fit_.directions} directions)"
        )
        if len(self.dead_targets_):
            lines.append(f"{len(self.dead_targets_)} targets have no answer (dead_targets_)")
        # quantiles, of one posterior or of one number of every target: the middle is inside of the ends
        levels = [0.05, 0.5, 0.95]
        if len(answered) == 1:
            of = "median and 90% interval of the posterior"
            rows = list(self.fit_.share_quantile(levels)[answered[0]])
        else:
            of = f"posterior means of {len(answered)} targets: median, and 5% to 95% of the targets"
            rows = list(np.quantile(self.band_shares_[answered], levels, axis=0).T)
        lines.append(f"{'band':20} {'share':>10}  {of}")
        lines += [
            f"{name:20} {middle:10.3f}  {low:.3f} to {high:.3f}"
            for name, (low, middle, high) in zip(self.band_names_, rows, strict=True)
        ]
        return "\n".join(lines)

    def _checked(self, X: Any) -> Array:
        check_is_fitted(self, "fit_")
        if self.kernel == "precomputed":
            data = np.asarray(X, dtype=np.float64)
            if data.ndim != 3 or len(data) != len(self.band_names_) or data.shape[2] != len(self._targets):
                raise ValueError(
                    f"precomputed kernels must have shape ({len(self.band_names_)}, n, "
                    f"{len(self._targets)}), got {data.shape}"
                )
            return data
        return validate_data(self, X, reset=False, dtype=np.float64)

    def _predictive(self, data: Array) -> Any:
        if self._linear:
            assert self._columns is not None
            blocks = [data[:, each] - mean for each, mean in zip(self._columns, self._means, strict=True)]
            return self.fit_.predict(blocks)
        cross: list[Array] = []
        diagonals: list[Array] = []
        for number, means in enumerate(self._means):
            gram = self._gram(number, data)
            own = gram.mean(axis=1) if self.fit_intercept else np.zeros(len(gram))
            grand = float(means.mean())
            cross.append(self._contrasts((gram - own[:, None] - means + grand).T).T)
            if self.kernel != "precomputed":
                assert self._columns is not None
                rows, kernel = data[:, self._columns[number]], self._kernels()[number]
                each = np.array([_kernel(kernel, row[None], row[None])[0, 0] for row in rows])
                diagonals.append(each - 2 * own + grand)
        return self.fit_.predict(cross_kernels=cross, test_diagonals=diagonals or None)

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file; loading it executes no code."""
        check_is_fitted(self, "fit_")
        about = {
            "layout": LAYOUT,
            "parameters": self.get_params(deep=False) | {"random_state": as_seed(self.random_state)},
            "widths": self.widths_,
            "feature_names": list(getattr(self, "feature_names_in_", [])),
            "single": self._single,
            "blocks": len(self.fit_._posteriors),
            "table": self.evidence_table_,
        }
        arrays = {"X": np.asarray(self._X), "y": self._targets}
        for number, posterior in enumerate(self.fit_._posteriors):
            arrays |= {f"block{number}.{name}": value for name, value in posterior.arrays().items()}
        archive.write(path, KIND, _plain(about), arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BandedRegressor:
        """Read a fitted estimator; a file that holds none raises a ValueError."""
        about, arrays = archive.read(path, KIND)
        if about.get("layout") != LAYOUT:
            raise ValueError(
                f"{os.fspath(path)!r} must hold a BandedRegressor in layout {LAYOUT}, got layout "
                f"{about.get('layout')!r} of another version of lbnn: fit it again, or load it there"
            )
        try:
            return cls._unpacked(_restored(about), arrays)
        except Exception as error:  # what a header of something else leads to cannot be listed
            raise ValueError(
                f"{os.fspath(path)!r} must hold a fitted BandedRegressor, got {error!r}"
            ) from error

    @classmethod
    def _unpacked(cls, about: dict[str, Any], arrays: dict[str, Array]) -> BandedRegressor:
        """The estimator from what `save` has written."""
        model = cls(**about["parameters"])
        model.band_names_, model._columns = model._names(), None
        model.widths_, model.evidence_table_ = about["widths"], about["table"]
        if model.kernel != "precomputed":
            model.n_features_in_ = arrays["X"].shape[1]
            if about["feature_names"]:
                model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
            model._columns = model._resolve()
        inner = model._prepare(arrays["X"], arrays["y"], bool(about["single"]))
        blocks: list[dict[str, Array]] = [{} for _ in range(about["blocks"])]
        for name, value in arrays.items():
            if name.startswith("block"):
                number, _, own = name.removeprefix("block").partition(".")
                blocks[int(number)][own] = value
        fit = model._networks(model.widths_)._restored(
            inner,
            model._inner_targets,
            not model._linear,
            model._noise_units(slice(None)),
            model.target_error,
            tuple(BlockPosterior.of_arrays(each) for each in blocks),
        )
        return model._describe(fit)

    def _noise_units(self, some: Any) -> Array | None:
        """Known noise variances of some targets in units of their deviations."""
        if self.noise_variance is None:
            return None
        given = np.broadcast_to(np.asarray(self.noise_variance, float), self._unit.shape)
        # a target without a unit has no answer, whatever its noise is
        return np.asarray((given / np.where(np.isnan(self._unit), 1.0, self._unit) ** 2)[some])


@dataclass(frozen=True)
class BandedPredictive:
    """A `BandsPredictive` in units of the targets, with their level; targets are independent of each other.

    Attributes
    ----------
    inner : BandsPredictive
        In units of the targets' deviations.
    level, unit, level_variance : (n_targets,)
        Mean of the training targets, their deviations, and the variance of the level, in squared units of
        these.
    """

    inner: BandsPredictive
    level: Array
    unit: Array
    level_variance: Array

    def with_noise(self) -> BandedPredictive:
        """The distribution of observations rather than of the function."""
        return replace(self, inner=self.inner.with_noise())

    @property
    def answered(self) -> Mask:
        """Which targets the fit has answered, (n_targets,); the others are NaN."""
        data = self.inner.fit.data
        return np.asarray(np.isin(np.arange(data.count), data.live), bool)

    def given(self, Y: ArrayLike) -> BandedPredictive:
        """Other targets of the same rows carry no information: the distribution as it is."""
        return self

    @property
    def mean(self) -> Array:
        """(n, n_targets)."""
        return self.level + self.unit * self.inner.mean

    @property
    def variance(self) -> Array:
        """(n, n_targets)."""
        return self.unit**2 * (self.inner.variance + self.level_variance)

    @property
    def standard_deviation(self) -> Array:
        """(n, n_targets)."""
        return np.sqrt(self.variance)

    @property
    def mean_error(self) -> Array:
        """Numerical error of the mean, (n, n_targets)."""
        return self.unit * self.inner.mean_error

    @property
    def standard_deviation_error(self) -> Array:
        """Numerical error of the standard deviation, (n, n_targets)."""
        inside = self.inner.standard_deviation * self.inner.standard_deviation_error
        return self.unit**2 * inside / self.standard_deviation

    def interval(self, probability: float) -> tuple[Array, Array]:
        """Central intervals, (n, n_targets) each: those without the level's error, widened by it."""
        wider = np.sqrt(1 + self.level_variance / self.inner.variance)
        low, high = self.inner.interval(probability)
        ends = [
            self.level + self.unit * (self.inner.mean + wider * (end - self.inner.mean))
            for end in (low, high)
        ]
        return ends[0], ends[1]

    def pointwise_log_density(self, F: ArrayLike) -> Array:
        """Log density at F (n, n_targets), summed over targets that the fit has answered, (n,)."""
        wider = np.sqrt(1 + self.level_variance / self.inner.variance)
        z = (np.reshape(np.asarray(F, float), self.mean.shape) - self.level) / self.unit
        inside = self.inner.mean + (z - self.inner.mean) / wider
        inside = np.where(self.answered, inside, 0.0)
        each = self.inner.pointwise_log_density(inside) - np.log(self.unit * wider)
        return np.asarray(each[:, self.answered].sum(axis=1), np.float64)


def _indices(name: Any, columns: Any, count: int, known: dict[str, int]) -> IndexArray:
    """Numbers of columns that are given as names, numbers, a slice or a mask."""
    if not isinstance(columns, slice):
        columns = [columns] if isinstance(columns, str) else list(columns)
        unknown = [each for each in columns if isinstance(each, str) and each not in known]
        if unknown:
            raise ValueError(f"the columns of a band must be columns of X, got {unknown} in band {name!r}")
        columns = [known[each] if isinstance(each, str) else each for each in columns]
        if any(each < 0 for each in columns):
            raise ValueError(
                f"columns must be numbers from 0 to {count - 1}, got {columns!r} in band {name!r}"
            )
    try:
        return np.arange(count)[columns]
    except IndexError as error:
        raise ValueError(
            f"columns must be numbers from 0 to {count - 1}, or a mask of length {count}, got {columns!r} in "
            f"band {name!r}"
        ) from error


def _plain(value: Any) -> Any:
    """Parameters as JSON has them: tuples and slices are named, arrays are lists."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        listed = [_plain(each) for each in value]
        return {"tuple": listed} if isinstance(value, tuple) else listed
    if isinstance(value, slice):
        return {"slice": _plain([value.start, value.stop, value.step])}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"a file holds numbers and text, no functions, got {value!r}")


def _restored(value: Any) -> Any:
    """The inverse of `_plain`."""
    if isinstance(value, list):
        return [_restored(each) for each in value]
    if not isinstance(value, dict):
        return value
    for kind in (tuple, slice):
        if kind.__name__ in value:
            listed = _restored(value[kind.__name__])
            return tuple(listed) if kind is tuple else slice(*listed)
    return {name: _restored(each) for name, each in value.items()}


def _kernel(kernel: Any, left: Array, right: Array) -> Array:
    if callable(kernel):
        return np.asarray(kernel(left, right), float)
    if kernel == "linear":
        return left @ right.T / left.shape[1]
    return np.asarray(pairwise_kernels(left, right, metric=kernel), float)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2
