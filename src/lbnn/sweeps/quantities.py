"""What a sweep computes at every point: named quantities, errors of limit theories, functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.sweeps.axes import ContractError, Coordinates, parameters
from lbnn.theories.comparison import QUANTITIES as COMPARED
from lbnn.theories.comparison import Truth
from lbnn.theories.limits.regimes import THEORIES, as_setting

#: Mass of the intervals whose coverage is counted.
COVERED = 0.9


class NotApplicableError(Exception):
    """The quantity has no meaning at this point: it is NaN there, and the message says why."""


@dataclass(frozen=True)
class Problem:
    """One data set: its inputs and targets, test points if there are any, and its spectrum."""

    X: Array | None
    Y: Array | None
    X_test: Array | None
    Y_test: Array | None
    spectrum: Spectrum


@dataclass
class Point:
    """One point of the grid, conditioned."""

    coordinates: Coordinates
    problem: Problem
    network: Any
    beta: float
    posterior: Any

    @cached_property
    def latent(self) -> Any:
        """The law of the function at the test inputs."""
        if self.problem.X_test is None:
            raise NotApplicableError("it needs test points: let data return X, Y, X_test, Y_test")
        return self.posterior.predict(self.problem.X_test)

    @cached_property
    def predictive(self) -> Any:
        """The law of observations at the test inputs."""
        return self.latent.with_noise()

    def offer(self, name: str) -> Any:
        """An axis, or one of `OFFERED`."""
        if name in self.coordinates:
            return self.coordinates[name]
        return getattr(self if hasattr(type(self), name) or name in vars(self) else self.problem, name)


#: Names that a function of the user's may take, besides the axes.
OFFERED = ("posterior", "network", "beta", "latent", "predictive", "X", "Y", "X_test", "Y_test", "spectrum")


@dataclass(frozen=True)
class SweepQuantity:
    """A number at every point, by name.

    Parameters
    ----------
    name : str
    function : callable
        Takes by name what it needs: axes, posterior, network, beta, spectrum, X, Y, X_test, Y_test, and
        latent and predictive, the laws of the function and of observations at X_test. Returns a number, or
        (number, error) where `with_error`.
    definition, units : str
        Kept in the dataset's attributes.
    with_error : bool
        Whether its Monte Carlo error is kept as the variable name_error.

    Examples
    --------
    >>> import lbnn
    >>> lbnn.SweepQuantity("narrowest", lambda network: min(network.widths), "least hidden width").name
    'narrowest'
    """

    name: str
    function: Callable[..., Any]
    definition: str = ""
    units: str = "1"
    with_error: bool = False

    def __call__(self, point: Point) -> tuple[float, float]:
        """Value and error (NaN where none is kept)."""
        names = self.takes(tuple(point.coordinates))
        result = self.function(**{name: point.offer(name) for name in names})
        if self.with_error and not (isinstance(result, tuple) and len(result) == 2):
            raise ContractError(f"quantity {self.name!r} must return (number, error), got {result!r}")
        value, error = result if self.with_error else (result, math.nan)
        return _number(value, self.name), _number(error, self.name)

    def takes(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """What the function takes by name, of `OFFERED` and the axes."""
        return _taken(self, axes)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables that it fills."""
        return (self.name, f"{self.name}_error") if self.with_error else (self.name,)


@lru_cache  # asked at every point
def _taken(quantity: SweepQuantity, axes: tuple[str, ...]) -> tuple[str, ...]:
    return parameters(quantity.function, f"quantity {quantity.name!r}", [*OFFERED, *axes])


def _number(value: Any, name: str) -> float:
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "biuf":
        raise ContractError(
            f"quantity {name!r} must return a number, got {type(value).__name__} of shape {array.shape}"
        )
    return float(array)


# ---------------------------------------------------------------------- named ones


def _log_evidence(posterior: Any) -> tuple[float, float]:
    return posterior.log_evidence, posterior.log_evidence_error


def _scale_mean(posterior: Any) -> tuple[float, float]:
    scale = posterior.scale
    traces = scale.variances.mean(axis=1)
    return float(scale.average(traces)), float(scale.standard_error(traces))


def _scale_inverse_mean(posterior: Any) -> tuple[float, float]:
    scale = posterior.scale
    if not scale.tails.inverse_mean_exists:
        return math.inf, 0.0
    traces = (1 / scale.eigen[0]).mean(axis=1)
    return float(scale.average(traces)), float(scale.standard_error(traces))


def _effective_sample_size(posterior: Any) -> float:
    return posterior.diagnostics.effective_sample_size


def _kernel_change(posterior: Any, network: Any) -> float:
    if not getattr(network, "widths", ()):
        raise NotApplicableError("there is no hidden layer")
    return posterior.kernel_change()


def _test_error(latent: Any, Y_test: Array) -> float:
    return float(((latent.mean - Y_test) ** 2).mean())


def _test_variance(predictive: Any) -> float:
    return float(predictive.variance.mean())


def _test_log_density(predictive: Any, Y_test: Array) -> float:
    return float(predictive.pointwise_log_density(Y_test).mean())


def _test_coverage(predictive: Any, Y_test: Array) -> float:
    low, high = predictive.interval(COVERED)
    return float(((low <= Y_test) & (Y_test <= high)).mean())


#: Quantities by name. Others are "THEORY:QUANTITY_error" (proportional:kernel_error).
QUANTITIES = {
    each.name: each
    for each in (
        SweepQuantity("log_evidence", _log_evidence, "log p(Y | X)", "nats", True),
        SweepQuantity("scale_mean", _scale_mean, "tr E L / n_d", "1", True),
        SweepQuantity("scale_inverse_mean", _scale_inverse_mean, "tr E L⁻¹ / n_d", "1", True),
        SweepQuantity("kernel_change", _kernel_change, "‖⟨K⟩ − G‖ / ‖G‖ of the first hidden layer"),
        SweepQuantity("effective_sample_size", _effective_sample_size, "1/Σw² of the draws of L", "draws"),
        SweepQuantity(
            "test_error", _test_error, "mean squared error of the predictive mean", "squared units of Y"
        ),
        SweepQuantity("test_variance", _test_variance, "mean predictive variance", "squared units of Y"),
        SweepQuantity(
            "test_log_density",
            _test_log_density,
            "mean log predictive density of an observation, jointly over outputs",
            "nats per test point",
        ),
        SweepQuantity("test_coverage", _test_coverage, f"share of test targets in {COVERED:.0%} intervals"),
    )
}


def theory_error(
    posterior: Any, network: Any, spectrum: Spectrum, beta: float, X_test: Any, *, pair: Any
) -> Any:
    """The error of a limit theory, as `lbnn.compare` gives it, with that of the exact side."""
    theory, quantity = pair
    try:
        limit = THEORIES[theory](as_setting(network, spectrum, beta))
    except (ValueError, ArithmeticError) as reason:
        raise NotApplicableError(str(reason)) from reason
    found = Truth(posterior, network.widths[0], X_test, (quantity,)).judge(theory, limit)
    if not found:
        raise NotApplicableError(f"the theory {theory!r} has no {quantity}")
    return found[0].error, found[0].monte_carlo


def _theory_quantity(name: str) -> SweepQuantity | None:
    """`proportional:kernel_error`: a theory and a compared quantity, spaces and commas as underscores."""
    theory, _, rest = name.partition(":")
    theories = {_as_name(each): each for each in THEORIES}
    compared = {f"{_as_name(each)}_error": each for each in COMPARED}
    if theory not in theories or rest not in compared:
        return None
    pair = theories[theory], compared[rest]
    definition = f"{pair[0]} against exact: {COMPARED[pair[1]]}"
    return SweepQuantity(name, partial(theory_error, pair=pair), definition, with_error=True)


def _as_name(words: str) -> str:
    return words.replace(",", "").replace(" ", "_")


def resolve(quantities: Any, axes: Sequence[str]) -> tuple[SweepQuantity, ...]:
    """Quantities from names, functions and `SweepQuantity` objects."""
    if isinstance(quantities, str | Mapping) or not isinstance(quantities, Sequence) or not quantities:
        raise TypeError(f"quantities must be a sequence of names or functions, got {quantities!r}")
    found = tuple(_one(each) for each in quantities)
    names = [variable for each in found for variable in each.variables]
    twice = sorted({name for name in names if names.count(name) > 1} | {*names} & {*axes, *RESERVED})
    if twice:
        raise ValueError(f"names of quantities must be distinct and not those of axes, got {twice}")
    for each in found:
        each.takes(tuple(axes))
    return found


#: Variables that every store has.
RESERVED = ("status", "message")


def _one(quantity: Any) -> SweepQuantity:
    if isinstance(quantity, SweepQuantity):
        return quantity
    if callable(quantity):
        name = getattr(quantity, "__name__", "")
        if not name.isidentifier():
            raise ValueError(
                f"a function needs a name to be a quantity, got {quantity!r}: use "
                "lbnn.SweepQuantity(name, function)"
            )
        return SweepQuantity(name, quantity, (quantity.__doc__ or "").strip().partition("\n")[0])
    found = QUANTITIES.get(quantity) if isinstance(quantity, str) else None
    if found is None and isinstance(quantity, str):
        found = _theory_quantity(quantity)
    if found is None:
        raise ValueError(
            f"a quantity must be a function or among {', '.join(QUANTITIES)}, or THEORY:QUANTITY_error with "
            f"a theory among {', '.join(map(_as_name, THEORIES))} and a quantity among "
            f"{', '.join(map(_as_name, COMPARED))}, got {quantity!r}"
        )
    return found
