"""One rectangle of points: data made and decomposed once for all networks, temperatures in batches."""

from __future__ import annotations

import inspect
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn._base.warn import collected
from lbnn.data.spectrum import Spectrum
from lbnn.network import Network
from lbnn.selection.grid import evidence_grid
from lbnn.sweeps.axes import Axes, ContractError, Coordinates, coordinate_seed
from lbnn.sweeps.quantities import NotApplicableError, Point, Problem, SweepQuantity

Region = tuple[slice, ...]

OK, WARNED, FAILED = 1, 2, 3
_LONGEST_MESSAGE = 400
_KEPT_PROBLEMS = 2  # data sets whose spectrum a worker keeps for its next chunk


@dataclass(frozen=True)
class Work:
    """A sweep as workers need it."""

    axes: Axes
    data: Callable[..., Any]
    network: Callable[..., Any]
    beta: Any  # a number, or a function of `beta_takes`
    data_takes: tuple[str, ...]  # axes, and rng
    network_takes: tuple[str, ...]
    beta_takes: tuple[str, ...]
    noise: str
    target_error: float
    seed: int
    quantities: tuple[SweepQuantity, ...]
    key: str  # the specification's digest

    @property
    def data_axes(self) -> tuple[str, ...]:
        """Axes that the data depend on, in the order of the grid."""
        return tuple(name for name in self.axes.names if name in self.data_takes)

    @property
    def other_axes(self) -> tuple[str, ...]:
        """The rest: networks and temperatures of one data set."""
        return tuple(name for name in self.axes.names if name not in self.data_takes)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables but status and message."""
        return tuple(name for quantity in self.quantities for name in quantity.variables)


@dataclass
class Answer:
    """A point of the grid, at its place within the chunk, and what is known of it."""

    coordinates: Coordinates
    place: tuple[int, ...]
    values: dict[str, float] = field(default_factory=dict)
    status: int = OK
    messages: list[str] = field(default_factory=list)
    problem: Exception | None = None  # why it failed, the first time

    def fail(self, where: str, problem: Exception) -> None:
        """The point failed there."""
        self.status, self.problem = FAILED, self.problem or problem
        text = " ".join(str(problem).split())
        known = isinstance(problem, ContractError)
        self.messages.append(f"{where}: {text}" if known else f"{where}: {type(problem).__name__}: {text}")

    @property
    def message(self) -> str:
        """All messages in one line."""
        return "; ".join(dict.fromkeys(self.messages))[:_LONGEST_MESSAGE]


@dataclass
class Chunk:
    """The answers of a rectangle of points, as arrays."""

    values: dict[str, Array]
    status: np.ndarray[Any, np.dtype[np.int8]]
    message: np.ndarray[Any, Any]

    @classmethod
    def empty(cls, shape: Sequence[int], variables: Sequence[str]) -> Chunk:
        """Nothing known yet."""
        arrays = {name: np.full(shape, np.nan) for name in variables}
        return cls(arrays, np.zeros(shape, np.int8), np.full(shape, "", dtype=object))

    def put(self, answer: Answer) -> None:
        """One point's answer."""
        for name, value in answer.values.items():
            self.values[name][answer.place] = value
        self.status[answer.place], self.message[answer.place] = answer.status, answer.message

    def counts(self) -> tuple[int, int, int]:
        """Points that are ok, warned, failed."""
        ok, warned, failed = (int((self.status == kind).sum()) for kind in (OK, WARNED, FAILED))
        return ok, warned, failed


#: Limits of BLAS threads belong to the process: one chunk at a time in each.
_ALONE = threading.Lock()


def compute(work: Work, region: Region) -> Chunk:
    """All points of a rectangle of the grid; whatever fails is kept as that point's message."""
    shape = [part.stop - part.start for part in region]
    chunk = Chunk.empty(shape, work.variables)
    with _ALONE, one_blas_thread():
        for indices in work.axes.within(work.data_axes, region):
            answers = _points(work, region, dict(zip(work.data_axes, indices, strict=True)))
            _answer_group(work, answers)
            for answer in answers:
                chunk.put(answer)
    return chunk


def one_blas_thread() -> Any:
    """Linear algebra on one thread: matrices are small, and workers share the cores."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1, user_api="blas")


def _points(work: Work, region: Region, data_index: dict[str, int]) -> list[Answer]:
    """The points of one data set within a rectangle, to be answered."""
    found, starts, others = [], [part.start for part in region], work.other_axes
    for indices in work.axes.within(others, region):
        index = data_index | dict(zip(others, indices, strict=True))
        point = tuple(index[name] for name in work.axes.names)
        place = tuple(i - start for i, start in zip(point, starts, strict=True))
        found.append(Answer(work.axes.at(point), place))
    return found


# ---------------------------------------------------------------------- the points of one data set


def _answer_group(work: Work, answers: Sequence[Answer]) -> None:
    """Fill the answers of all points of one data set: in batches where that is possible, else one by one."""
    problem = data_of(work, answers)
    if problem is not None:
        for answer in _not_batched(work, problem, answers):
            answer_point(work, problem, answer)


def data_of(work: Work, answers: Sequence[Answer]) -> Problem | None:
    """The data set of these points; None, and they have failed, where it cannot be made."""
    try:
        return problem_at(work, answers[0].coordinates)
    except Exception as error:
        for answer in answers:
            answer.fail("data", error)
        return None


#: Quantities that the batched quadrature knows.
_BATCHED = {"log_evidence", "scale_mean", "scale_inverse_mean"}


def _not_batched(work: Work, problem: Problem, answers: Sequence[Answer]) -> Sequence[Answer]:
    """Answer many temperatures of a network with one output at once, and return the other points.

    Networks whose points are not answered without a warning or an error are left for the single quadrature.
    """
    asked = {quantity.name for quantity in work.quantities}
    if problem.spectrum.outputs > 1 or work.noise != "independent" or not asked <= _BATCHED:
        return answers
    families: dict[tuple[Any, ...], list[Answer]] = {}  # points that differ in nothing that the network takes
    for answer in answers:
        key = tuple(_of(answer.coordinates, work.network_takes).values())
        families.setdefault(key, []).append(answer)
    left: list[Answer] = []
    for family in families.values():
        try:
            network = network_at(work, family[0].coordinates)
            betas = [_beta(work, answer.coordinates) for answer in family]
            with messages_of_point() as messages:
                found = batch(network, problem.spectrum, betas)
        except Exception:
            found = None  # said again, point by point
        if found is None or messages:
            left += family
            continue
        for answer, values in zip(family, found, strict=True):
            answer.values.update({name: values.get(name, 0.0) for name in work.variables})
    return left


def batch(network: Any, spectrum: Spectrum, betas: Sequence[float]) -> list[dict[str, float]] | None:
    """Log evidence, E λ and E λ⁻¹ at every β, without Monte Carlo error; None for other models.

    With one output the law of the scale depends on the product of the prior variances: that of the first
    layer multiplies the Gram matrix with the others, which multiply λ.
    """
    if type(network) is not Network:
        return None
    later = math.prod(network.prior_variances[1:])
    grid = evidence_grid(spectrum.scaled(network.prior_variances[0] * later), [network.widths], list(betas))
    columns = grid.log_evidence[0], later * grid.scale_mean[0], grid.scale_inverse_mean[0] / later
    names = ("log_evidence", "scale_mean", "scale_inverse_mean")
    return [dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)]


def answer_point(work: Work, problem: Problem, answer: Answer) -> None:
    """Condition one network and compute what is asked."""
    with messages_of_point() as messages:
        try:
            point = conditioned(work, problem, answer.coordinates)
        except Exception as error:
            answer.fail("posterior", error)
        else:
            for quantity in work.quantities:
                _fill(answer, quantity, point)
    if messages and answer.status == OK:
        answer.status = WARNED
    answer.messages += [" ".join(each.split()) for each in messages]


@contextmanager
def messages_of_point() -> Iterator[list[str]]:
    """What the library would warn of, and floating-point errors of NumPy, as messages.

    Other warnings, such as those of the functions that the user gave, take Python's own way: to record them
    as well one would have to change filters that belong to the whole process.
    """
    with collected() as messages:

        def note(kind: str, flag: int) -> None:
            messages.append(f"{kind} encountered in floating-point arithmetic")

        with np.errstate(divide="call", over="call", invalid="call", call=note):
            yield messages


def _fill(answer: Answer, quantity: SweepQuantity, point: Point) -> None:
    """One quantity at one point: a value, NaN where it has no meaning, or that point's failure."""
    try:
        answer.values.update(zip(quantity.variables, quantity(point), strict=False))
    except NotApplicableError as reason:
        answer.messages.append(f"{quantity.name} does not apply: {reason}")
    except Exception as error:
        answer.fail(quantity.name, error)


def conditioned(work: Work, problem: Problem, coordinates: Coordinates) -> Point:
    """The posterior at one point, with the seed of its coordinates."""
    network = network_at(work, coordinates)
    beta = _beta(work, coordinates)
    offered = {
        "noise": work.noise,
        "target_error": work.target_error,
        "seed": coordinate_seed(work.seed, "engine", coordinates),
    }
    taken = {name: offered[name] for name in _options(network.__class__)}
    posterior = network.condition_spectrum(problem.spectrum, beta, **taken)
    return Point(coordinates, problem, network, beta, posterior)


def _beta(work: Work, coordinates: Coordinates) -> float:
    return work.beta(**_of(coordinates, work.beta_takes)) if callable(work.beta) else work.beta


def network_at(work: Work, coordinates: Coordinates) -> Any:
    """The network, or another model that can be conditioned on a spectrum."""
    network = work.network(**_of(coordinates, work.network_takes))
    if not hasattr(network, "condition_spectrum"):
        raise ContractError(
            "network must return an lbnn.Network, or a model with condition_spectrum(spectrum, beta), got "
            f"{network!r}"
        )
    return network


@lru_cache
def _options(model: Any) -> tuple[str, ...]:
    """Which of noise, target_error and seed a model's `condition_spectrum` takes."""
    known = inspect.signature(model.condition_spectrum).parameters
    return tuple(name for name in ("noise", "target_error", "seed") if name in known)


# ---------------------------------------------------------------------- data sets

_PROBLEMS: OrderedDict[tuple[Any, ...], Problem] = OrderedDict()


def problem_at(work: Work, coordinates: Coordinates) -> Problem:
    """The data set at these coordinates; the last few are kept, for chunks that share one."""
    own = _of(coordinates, work.data_axes)
    key = work.key, *own.values()
    if key not in _PROBLEMS:
        _PROBLEMS[key] = _make_problem(work, own)
        while len(_PROBLEMS) > _KEPT_PROBLEMS:
            _PROBLEMS.popitem(last=False)
    _PROBLEMS.move_to_end(key)
    return _PROBLEMS[key]


def _make_problem(work: Work, coordinates: Coordinates) -> Problem:
    """Call `data` and decompose what it returns."""
    arguments = dict(coordinates)
    if "rng" in work.data_takes:
        arguments["rng"] = np.random.default_rng(coordinate_seed(work.seed, "data", coordinates))
    made = work.data(**arguments)
    if isinstance(made, Spectrum):
        return Problem(None, None, None, None, made)
    if not isinstance(made, tuple | list) or len(made) not in (2, 4):
        count = f" of {len(made)}" if isinstance(made, tuple | list) else ""
        raise ContractError(
            "data must return X, Y or X, Y, X_test, Y_test, or an lbnn.Spectrum, got "
            f"{type(made).__name__}{count}"
        )
    return _checked_problem(*made)


def _checked_problem(X: Any, Y: Any, X_test: Any = None, Y_test: Any = None) -> Problem:
    """Shapes that fit together; the rules about X and Y are those of `Spectrum.from_inputs`."""
    try:
        spectrum = Spectrum.from_inputs(X, Y)
        inputs, targets = check.matrix(X, "X"), check.real_array(Y, "Y")
        if X_test is None:
            return Problem(inputs, targets, None, None, spectrum)
        test_inputs, test_targets = check.matrix(X_test, "X_test"), check.real_array(Y_test, "Y_test")
    except (TypeError, ValueError) as error:
        raise ContractError(f"data: {error}") from error
    expected = (len(test_inputs), *targets.shape[1:])
    if test_inputs.shape[1] != inputs.shape[1] or test_targets.shape != expected:
        raise ContractError(
            f"data: X_test and Y_test must have shapes (p̂, {inputs.shape[1]}) and {expected}, got "
            f"{test_inputs.shape} and {test_targets.shape}"
        )
    return Problem(inputs, targets, test_inputs, test_targets, spectrum)


def _of(coordinates: Coordinates, names: Sequence[str]) -> Coordinates:
    return {name: coordinates[name] for name in names if name in coordinates}
