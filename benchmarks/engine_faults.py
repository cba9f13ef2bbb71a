"""Faults planted in the engines: is the answer still right, or does it say that it is not?

    python -m benchmarks.engine_faults [--only rows] [--out FILE]

A fault is planted in the likelihood that is integrated, or in one proposal of a family; then data are
conditioned on, and the answer is compared with that of the engines as they are. A fault passes where the
answer is right within its error, where it is not ok, or where an error is raised; it is missed where a wrong
answer is ok. "not reached" means that no call went through the place of the fault.

`LIKELIHOOD` and `PROPOSALS` name the places by module and attribute; after a change of the code these are the
lines to be brought up to date, and a place that is not found is named under the table.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import math
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import lbnn
from lbnn._base.checkout import commit
from tests.reference.several_outputs_cases import all_cases

NATS = 1.0  # by which a constant is wrong
UNIT = 1.5  # of one output, where a unit is dropped
LONGER = 1.25  # the scale as it is seen, over what it is
ASIDE = 0.3  # by which coordinates are moved, in standard deviations or in logs
RIGHT = 4.5  # joint errors
PATIENCE = 60  # seconds after which a call is given up

Wrapped = Callable[..., Any]
Wrap = Callable[[Wrapped], Wrapped]
REACHED: list[str] = []
LOST: set[str] = set()


# ---------------------------------------------------------------------- planting


@contextlib.contextmanager
def planted(places: tuple[str, ...], wrap: Wrap) -> Iterator[None]:
    """Replace functions, methods and properties, "module:name" or "module:Class.name", by what wrap makes."""
    undo: list[tuple[Any, str, Any]] = []
    for place in places:
        module, _, path = place.partition(":")
        *owners, name = path.split(".")
        try:
            owner = functools.reduce(getattr, owners, importlib.import_module(module))
            original = vars(owner)[name]
        except (ImportError, AttributeError, KeyError):
            LOST.add(place)
            continue
        if isinstance(original, property):
            assert original.fget is not None
            changed: Any = property(_noted(wrap(original.fget)))
        else:
            changed = _noted(wrap(original))
        # a function may have been imported elsewhere under its name
        homes = [owner] if owners else [each for key, each in sys.modules.items() if key.startswith("lbnn")]
        for home in homes:
            if vars(home).get(name) is original:
                undo.append((home, name, original))
                setattr(home, name, changed)
    try:
        yield
    finally:
        for home, name, original in undo:
            setattr(home, name, original)


def _noted(function: Wrapped) -> Wrapped:
    @functools.wraps(function)
    def wrapper(*args: Any, **named: Any) -> Any:
        REACHED.append(function.__name__)
        return function(*args, **named)

    return wrapper


def more(nats: float) -> Wrap:
    """A number or the first of several results is larger by so many nats."""

    def wrap(original: Wrapped) -> Wrapped:
        @functools.wraps(original)
        def wrapper(*args: Any, **named: Any) -> Any:
            found = original(*args, **named)
            return (found[0] + nats, *found[1:]) if isinstance(found, tuple) else found + nats

        return wrapper

    return wrap


def seen_through(first: float, others: float) -> Wrap:
    """A likelihood that sees D L D in the place of L: D has one number for the first output."""

    def wrap(original: Wrapped) -> Wrapped:
        @functools.wraps(original)
        def wrapper(self: Any, one: Any, *rest: Any, **named: Any) -> Any:
            return original(self, *_changed(one, rest, first, others), **named)

        return wrapper

    return wrap


def _changed(one: Any, rest: tuple[Any, ...], first: float, others: float) -> tuple[Any, ...]:
    """The scale as a likelihood is given it, D L D: eigenvalues and vectors, a root, or two roots."""
    if hasattr(one, "signal"):
        return replace(one, signal=_units(one.signal.shape[1], first, others)[:, None] * one.signal), *rest
    if one.ndim == 2 and len(rest) == 1:
        root = _units(one.shape[1], first, others)[:, None] * rest[0] * np.sqrt(one)[:, None, :]
        axes, sizes, _ = np.linalg.svd(root)
        return sizes**2, axes, *rest[1:]
    if one.ndim == 2:  # eigenvalues, projections and noise of a narrow posterior, whose axes are its own
        return one * (0.5 * (first + others)) ** 2, *rest
    return _units(one.shape[1], first, others)[:, None] * one, *rest  # a root, in any frame


def _units(outputs: int, first: float, others: float) -> np.ndarray:
    return np.array([first] + [others] * (outputs - 1))


def at(first: float = 1.0, aside: float = 0.0, which: int = -1) -> Wrap:
    """A density taken at coordinates of which the first has another unit, or which are moved."""

    def wrap(original: Wrapped) -> Wrapped:
        @functools.wraps(original)
        def wrapper(*args: Any, **named: Any) -> Any:
            changed = list(args)
            points = np.array(changed[which], float)
            points += aside
            points[(slice(None), 0) if points.ndim > 1 else ()] *= first
            changed[which] = points
            return original(*changed, **named)

        return wrapper

    return wrap


def after(change: Callable[[Any], Any]) -> Wrap:
    """What is returned is changed."""

    def wrap(original: Wrapped) -> Wrapped:
        @functools.wraps(original)
        def wrapper(*args: Any, **named: Any) -> Any:
            return change(original(*args, **named))

        return wrapper

    return wrap


# ---------------------------------------------------------------------- the places, and what is wrong there

#: Where log p(Y | L) is evaluated.
LIKELIHOOD = (
    "lbnn.likelihood.root:Gaussian.log_value_at",
    "lbnn.likelihood.root:Gaussian._evaluate",
    "lbnn.likelihood.root:Scatter.log_value_at",
    "lbnn.likelihood.root:Scatter._evaluate",
    "lbnn.likelihood.signal_and_noise:SignalNoiseLikelihood.value_and_gradient",
)
#: ... of a table with missing cells, which uses that of a complete one, ...
OF_CELLS = (
    "lbnn.likelihood.missing:PartialLikelihood.log_value",
    "lbnn.likelihood.missing:PartialLikelihood.value_and_gradient",
)
#: ... and once more by the moves behind a narrow layer.
OF_MOVES = ("lbnn.engines.spectral_moves:log_likelihood",)
#: The part of log p(Y | L) that does not depend on L.
CONSTANTS = (
    "lbnn.likelihood.gaussian:GaussianLikelihood.log_constant",
    "lbnn.likelihood.missing:PartialLikelihood.log_constant",
    "lbnn.likelihood.signal_and_noise:SignalNoiseLikelihood.log_constant",
)
#: The law of log λ, which quadrature integrates.
LINE = ("lbnn.scale.gamma_product:GammaProduct.log_density",)


@dataclass(frozen=True)
class Fault:
    """What is wrong, where, and in answers of which families."""

    name: str
    families: tuple[str, ...]
    places: tuple[str, ...]
    wrap: Wrap


def _tilted_rows(drawn: Any) -> Any:
    with np.errstate(divide="ignore"):
        return replace(drawn, log_ratio=drawn.log_ratio + 0.5 * np.log(np.abs(drawn.total[:, 0, 0])))


def _longer_rows(drawn: Any) -> Any:
    root = math.sqrt(LONGER)
    return replace(drawn, total=root * drawn.total, factors=[root * drawn.factors[0], *drawn.factors[1:]])


def _one_group(sample_first: bool) -> Wrap:
    """Weights of one group alone count where a mixture is adapted, or where particles are resampled."""

    def wrap(original: Wrapped) -> Wrapped:
        @functools.wraps(original)
        def adapted(sample: Any, *rest: Any, **named: Any) -> Any:
            size = len(sample.log_weights) // 16
            lost = np.arange(len(sample.log_posterior)) >= size
            return original(
                replace(sample, log_posterior=np.where(lost, -np.inf, sample.log_posterior)), *rest, **named
            )

        @functools.wraps(original)
        def resampled(log_weights: np.ndarray, *rest: Any, **named: Any) -> Any:
            index = original(log_weights, *rest, **named).reshape(len(log_weights), -1)
            return np.tile(index[0], len(index))

        return adapted if sample_first else resampled

    return wrap


def _one_group_of_path(original: Wrapped) -> Wrapped:
    @functools.wraps(original)
    def wrapper(path: Any) -> None:
        original(path)
        path.particles = path.particles.take(np.tile(np.arange(path.per_group), path.groups))

    return wrapper


def _moved_particles(original: Wrapped) -> Wrapped:
    """Density and gradient of a neighbouring point."""

    @functools.wraps(original)
    def wrapper(path: Any, white: np.ndarray) -> Any:
        return replace(original(path, white + ASIDE), white=white)

    return wrapper


def _tilted_path(original: Wrapped) -> Wrapped:
    """The density of the start in a wrong unit."""

    @functools.wraps(original)
    def wrapper(particles: Any) -> Any:
        white = particles.white.copy()
        white[:, 0] *= UNIT
        return original(replace(particles, white=white))

    return wrapper


EVERY = (
    *("quadrature", "rank one", "gaussian", "mixture", "rows", "wide", "kernel", "narrow", "smc"),
    *("per output", "zero temperature", "coupled", "given covariance"),
)
OF_STUDENTS = ("lbnn.engines.mixture:StudentPart.log_density",)
OF_GAUSSIANS = ("lbnn.engines.importance:_log_weights",)
OF_ROWS = ("lbnn.engines.rowwise:RowProposal.draw", "lbnn.engines.rowwise:EntryProposal.draw")
OF_PATHS = ("lbnn.engines.smc:bridge",)
OF_FREE = (
    "lbnn.engines.signal_noise_target:SignalNoiseTarget.log_density",
    "lbnn.engines.signal_noise_target:SignalNoiseTarget.value_and_gradient",
)
MIXED = ("gaussian", "mixture", "per output", "two phases", "missing cells", "coupled")
NEARLY_GAUSSIAN = ("rows", "kernel", "zero temperature", "given covariance")
BY_ROWS = ("rows", "wide", "many cells")

PROPOSALS = (
    Fault("gaussian: constant", NEARLY_GAUSSIAN, OF_GAUSSIANS, more(NATS)),
    Fault("gaussian: unit", NEARLY_GAUSSIAN, OF_GAUSSIANS, at(UNIT)),
    Fault("gaussian: shifted", NEARLY_GAUSSIAN, OF_GAUSSIANS, at(aside=ASIDE)),
    Fault("mixture: constant", MIXED, OF_STUDENTS, more(NATS)),
    Fault("mixture: unit", MIXED, OF_STUDENTS, at(UNIT)),
    Fault("mixture: shifted", MIXED, OF_STUDENTS, at(aside=ASIDE)),
    Fault(
        "rows: constant",
        BY_ROWS,
        OF_ROWS,
        after(lambda drawn: replace(drawn, log_ratio=drawn.log_ratio + NATS)),
    ),
    Fault("rows: unit", BY_ROWS, OF_ROWS, after(_tilted_rows)),
    Fault("rows: shifted", BY_ROWS, OF_ROWS, after(_longer_rows)),
    Fault("path: constant of a bridge", ("smc", "free noise"), OF_PATHS, more(0.3 * NATS)),
    Fault("path: unit of the start", ("smc",), ("lbnn.engines.smc:Particles.log_start",), _tilted_path),
    Fault("path: shifted", ("smc",), ("lbnn.engines.smc:Path.evaluate",), _moved_particles),
    Fault("free noise: unit", ("free noise",), OF_FREE, at(UNIT)),
    Fault("free noise: shifted", ("free noise",), OF_FREE, at(aside=ASIDE)),
    Fault(
        "narrow: constant of a map",
        ("narrow",),
        ("lbnn.engines.spectral:_spectral_map",),
        after(lambda found: (found[0], found[1] + 0.1 * NATS)),
    ),
    Fault(
        "narrow: unit of the prior",
        ("narrow",),
        ("lbnn.engines.spectral_moves:log_prior",),
        lambda original: functools.wraps(original)(
            lambda posterior, particles, chain: (
                original(posterior, particles, chain) + 0.5 * np.log(particles.values[:, 0])
            )
        ),
    ),
    Fault(
        "narrow: shifted",
        ("narrow",),
        ("lbnn.engines.spectral:_round",),
        after(lambda sample: replace(sample, roots=math.sqrt(LONGER) * sample.roots)),
    ),
    Fault("line: constant", ("quadrature", "rank one"), LINE, more(NATS)),
    Fault("line: unit", ("quadrature", "rank one"), LINE, at(UNIT)),
    Fault("line: shifted", ("quadrature", "rank one"), LINE, at(aside=ASIDE)),
    Fault(
        "a phase lost: all but the highest",
        ("two phases", "mixture"),
        ("lbnn.engines.modes:find_modes",),
        after(lambda modes: modes[:1]),
    ),
    Fault(
        "a phase lost: the highest",
        ("two phases", "mixture"),
        ("lbnn.engines.modes:find_modes",),
        after(lambda modes: modes[1:] or modes),
    ),
    Fault(
        "adaptation keeps one group: mixture",
        ("mixture", "per output"),
        ("lbnn.engines.mixture:adapted",),
        _one_group(True),
    ),
    Fault(
        "adaptation keeps one group: path",
        ("smc", "free noise"),
        ("lbnn.engines.smc:resample",),
        _one_group(False),
    ),
    Fault(
        "adaptation keeps one group: narrow",
        ("narrow",),
        ("lbnn.engines.spectral:_Path.resample",),
        _one_group_of_path,
    ),
)
INTEGRANDS = tuple(
    Fault(f"{label}: {kind}", families, places, wrap)
    for label, families, places in (
        ("likelihood", (*EVERY, "free noise", "two phases"), LIKELIHOOD),
        ("cells", ("missing cells", "many cells"), OF_CELLS),
        ("moves", ("narrow",), OF_MOVES),
    )
    for kind, wrap in (
        ("constant", more(NATS)),
        ("unit", seen_through(UNIT, 1.0)),
        ("shifted E L", seen_through(math.sqrt(LONGER), math.sqrt(LONGER))),
    )
)
FAULTS = (
    *INTEGRANDS,
    Fault(
        "constant of the data", (*EVERY, "free noise", "missing cells", "many cells"), CONSTANTS, more(NATS)
    ),
    *PROPOSALS,
)


# ---------------------------------------------------------------------- problems


def _data(
    examples: int, inputs: int, outputs: int, seed: int, rank: int = 99
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, rank = rng.normal(size=(examples, inputs)), min(rank, outputs)
    signal = X @ rng.normal(size=(inputs, rank)) @ rng.normal(size=(rank, outputs)) / math.sqrt(inputs * rank)
    return X, signal + 0.4 * rng.normal(size=signal.shape)


def _holes(Y: np.ndarray) -> np.ndarray:
    observed = np.random.default_rng(7).random(Y.shape) > 0.1
    observed[:, 0] = True
    return observed


def problems() -> dict[str, Callable[[int], Any]]:
    """A posterior as a function of the seed, by the family that answers."""
    case = next(each for each in all_cases() if each.name == "rand-085")

    def of(
        widths: tuple[int, ...], data: tuple[np.ndarray, np.ndarray], *beta: Any, **options: Any
    ) -> Callable[[int], Any]:
        return lambda seed: lbnn.Network(widths).condition(*data, *beta, seed=seed, **options)

    three, cells, many = _data(20, 5, 3, 1), _data(20, 5, 3, 2), _data(40, 15, 8, 11)
    one = _data(20, 5, 1, 3)
    covariance = np.array([[0.3, 0.1], [0.1, 0.2]])
    learned = {"noise": "free", "noise_network": lbnn.Network((6,))}
    return {
        "quadrature": of((4, 3), (one[0], one[1][:, 0]), 5.0),
        "rank one": of((4, 3), _data(1, 4, 3, 4), 5.0),
        "gaussian": of((40,), three, 5.0),
        "mixture": of((3, 4), three, 20.0),
        "two phases": lambda seed: lbnn.Network(case.widths, case.variances).condition(
            case.X, case.Y, case.beta, seed=seed
        ),
        "rows": of((24,), _data(60, 20, 16, 5), 5.0),
        "wide": of((30, 30), _data(30, 20, 12, 5), 5.0),
        "kernel": of((20,), _data(3, 6, 8, 6), 5.0),
        "narrow": of((3,), _data(20, 30, 12, 7, rank=1), 100.0),
        "smc": of((4,), _data(20, 5, 2, 8), 5.0, engine="smc"),
        "per output": of((6, 5), three, [2.0, 8.0, 30.0], noise="per_output"),
        "zero temperature": of((8,), _data(6, 9, 3, 9), math.inf),
        "coupled": of((8,), three, 5.0, noise="coupled"),
        "given covariance": of((6,), _data(15, 4, 2, 10), noise="free", noise_covariance=covariance),
        "free noise": of((6,), _data(15, 4, 2, 10), 20.0, **learned),
        "missing cells": of((6,), cells, 5.0, observed=_holes(cells[1])),
        "many cells": of((12,), many, 5.0, observed=_holes(many[1])),
    }


# ---------------------------------------------------------------------- verdicts


@dataclass(frozen=True)
class Found:
    """What a posterior states: log evidence and E L, with errors."""

    log_evidence: float
    error: float
    mean: np.ndarray
    mean_error: np.ndarray
    ok: bool

    @classmethod
    def of(cls, post: Any) -> Found:
        """What is compared; errors of the mean where they are stated."""
        if hasattr(post, "scale"):
            mean, error = np.asarray(post.scale.mean), np.asarray(getattr(post.scale, "mean_error", 0.0))
        else:  # noise of its own
            draws, weights = post.inference.draws.signal, post.inference.draws.weights
            mean = np.einsum("m,mjk->jk", weights, draws)
            spread = np.einsum("m,mjk->jk", weights, (draws - mean) ** 2)
            error = np.sqrt(spread / post.diagnostics.effective_sample_size)
        return cls(post.log_evidence, post.log_evidence_error, mean, error, bool(post.diagnostics.ok))

    def distance(self, other: Found) -> float:
        """Largest difference in joint errors; relative to 1e-6 where there are none."""
        error = math.hypot(self.error, other.error) or 1e-6 * max(abs(other.log_evidence), 1.0) / RIGHT
        joint = np.hypot(self.mean_error, other.mean_error)
        joint = np.where(joint > 0, joint, 1e-6 * np.abs(other.mean).max() / RIGHT)
        if self.mean.ndim == 2:  # entries beside the diagonal are not stated with an error of their own
            means = np.abs(np.diag((self.mean - other.mean) / joint))
        else:
            means = np.abs((self.mean - other.mean) / joint)
        return max(abs(self.log_evidence - other.log_evidence) / error, float(np.max(means)))


def _given_up(*_: object) -> None:
    raise TimeoutError


def judge(fault: Fault, make: Callable[[int], Any], right: Found) -> str:
    """The verdict on one fault in one family."""
    REACHED.clear()
    with warnings.catch_warnings(), planted(fault.places, fault.wrap), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        signal.signal(signal.SIGALRM, _given_up)
        signal.alarm(PATIENCE)
        try:
            found = Found.of(make(0))
        except TimeoutError:
            return f"no answer in {PATIENCE} s"
        except Exception as error:
            return f"raises {type(error).__name__}"
        finally:
            signal.alarm(0)
    if not REACHED:
        return "not reached"
    distance = found.distance(right)
    if distance <= RIGHT:
        return f"right ({distance:.1f})"
    return f"MISSED ({distance:.1f})" if found.ok else f"not ok ({distance:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    every = problems()
    chosen = options.only.split(",") if options.only else list(every)
    rows: list[dict[str, Any]] = []
    print(f"commit {commit()}\n| family | fault | verdict | CPU s |\n|---|---|---|---|")
    for family in chosen:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            right = Found.of(every[family](1))
        for fault in FAULTS:
            if family not in fault.families:
                continue
            start = time.process_time()
            said = judge(fault, every[family], right)
            seconds = time.process_time() - start
            rows.append({"family": family, "fault": fault.name, "verdict": said})
            print(f"| {family} | {fault.name} | {said} | {seconds:.1f} |", flush=True)
        if options.out:
            options.out.write_text(
                json.dumps({"commit": commit(), "rows": rows}, indent=1) + "\n", encoding="utf-8"
            )
    missed = [row for row in rows if row["verdict"].startswith("MISSED")]
    print(f"{len(rows)} faults, {len(missed)} missed")
    if LOST:
        print("places that are not found: " + ", ".join(sorted(LOST)))


if __name__ == "__main__":
    main()
