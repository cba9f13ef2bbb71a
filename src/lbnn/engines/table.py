"""The table of engines: what is tried for a problem, in which order, what checks it, and why.

`plan` draws nothing and uses no data, only their sizes: depth, outputs, the rank of the Gram matrix, the
narrowest layer, and which forms of the likelihood exist. A step of a plan is a line of `TABLE` that applies
to one matrix, L or the kernel of the last hidden layer; `lbnn.engines.run` follows the steps. A step whose
estimate falls short is followed by the next one; its draws are kept and serve as a start or a check of what
comes after.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from scipy.special import digamma, polygamma

from lbnn.engines.estimate import Answer
from lbnn.engines.policy import POLICY, Policy
from lbnn.engines.sampling import Sampling

ENGINES = ("atom", "quadrature", "importance", "smc", "dual")


@dataclass(frozen=True)
class Problem:
    """What a plan depends on.

    Attributes
    ----------
    widths : tuple of int
        Hidden widths.
    outputs : int
        n_d.
    rank : int
        Of the Gram matrix; 0 where the data say nothing.
    kernel : bool
        Whether the likelihood has a form in the hidden kernel: one noise variance for all outputs, and at
        zero temperature targets of full example rank.
    scale : bool
        Whether L has a density that can be sampled: not at zero temperature behind a narrow layer.
    deficient : bool
        Whether a singularity at zero temperature is taken into the prior (targets of deficient rank).
    completed : bool
        Whether targets are missing and a completed table gives proposals.
    number : bool
        Whether p(Y | λ) has a form where the hidden kernel is a number λ: complete targets, and at zero
        temperature not all zero.
    complete : bool
        Whether the data are rows with common axes: no targets are missing.
    """

    widths: tuple[int, ...]
    outputs: int
    rank: int
    kernel: bool = True
    scale: bool = True
    deficient: bool = False
    completed: bool = False
    number: bool = True
    complete: bool = True


@dataclass(frozen=True)
class Side:
    """A problem as a question about one matrix: "scale" (L) or "kernel" (of the last hidden layer)."""

    problem: Problem
    of: str
    policy: Policy
    moves: bool = True  # whether moves of particles may be tried

    @property
    def rows(self) -> int:
        """Of the matrix."""
        return self.problem.outputs if self.of == "scale" else self.problem.rank

    @property
    def columns(self) -> int:
        """Of its triangular root T: the narrowest layer, or as many as rows."""
        return min(self.rows, *self.problem.widths)

    @property
    def entries(self) -> int:
        """Of T."""
        return self.rows * self.columns - self.columns * (self.columns - 1) // 2

    @property
    def dimension(self) -> int:
        """Coordinates of all factors whose product T is."""
        columns = self.columns
        return self.entries + (len(self.problem.widths) - 1) * columns * (columns + 1) // 2

    @property
    def few(self) -> bool:
        """Whether the modes of T can be listed."""
        return self.entries <= self.policy.most_for_mixture

    @property
    def narrow(self) -> bool:
        """Whether a layer passes on fewer directions than the matrix has rows."""
        return self.columns < self.rows

    @property
    def relative(self) -> bool:
        """Whether rows of T_d are measured by its square block (`relative_rows`)."""
        return self.narrow and self.of == "scale" and not self.few

    @property
    def shallow(self) -> bool:
        """Whether there is one hidden layer, and so one phase."""
        return len(self.problem.widths) == 1

    @property
    def spectral(self) -> bool:
        """Whether spectral moves serve, up to the size where they are the first path that is tried."""
        return self.can_be_spectral(self.policy.most_for_spectral)

    def can_be_spectral(self, most: int) -> bool:
        """Whether `spectral.sample_narrow` serves: a narrow layer, positive noise variance, moderate sizes.

        `kernel` says that all outputs have one noise variance, and `scale` that it is not zero (L behind a
        narrow layer has no density otherwise). A layer as wide as the outputs counts as narrow from six
        outputs on (widths (6, 6), n_d = 6: −79.04 ± 0.05, a mixture −79.06 ± 0.07, Hamiltonian moves −80.10
        ± 0.07). With fewer outputs mixtures and Hamiltonian moves answer; columns that leave each other no
        direction missed a phase in 2 of 11 truth problems with three and four outputs.
        """
        own, width = self.problem, min(self.problem.widths)
        size = max(own.outputs, own.rank) * width
        rows = own.kernel and own.complete and own.scale and own.rank > 0
        if not (self.moves and self.of == "scale" and rows and size <= most):
            return False
        narrow = self.narrow or (width == self.rows and self.entries >= self.policy.most_fitted)
        return narrow and _log_condition(own.widths) <= self.policy.most_log_condition

    @property
    def exact(self) -> bool:
        """Whether rows and spectral moves are all that is tried: mixtures of so many entries are slow."""
        return self.spectral and self.entries > self.policy.most_fitted_narrow

    @property
    def rows_first(self) -> bool:
        """Whether rows are tried before mixtures: of a completed table, or where there are no phases."""
        one = self.shallow and self.narrow and self.entries > self.policy.most_fitted
        return self.problem.completed or one or self.exact or not self.few

    @property
    def curved(self) -> bool:
        """Whether a Hessian of all coordinates costs less than it brings."""
        return self.dimension <= self.policy.most_for_curvature


def _log_condition(widths: tuple[int, ...]) -> float:
    """A log condition number that few draws of the innermost matrix of the spectral moves exceed.

    That matrix is a product of Wishart matrices of all layers but the narrowest, of width m. Of the Lyapunov
    exponents of such a product, logs of squared Bartlett diagonals, the largest and the smallest are
    Σ_k log χ²(n_k) and Σ_k log χ²(n_k − m + 1): the difference of their means, and four standard deviations.
    """
    layers = sorted(widths)[1:]
    least, most = ([0.5 * (width - less) for width in layers] for less in (min(widths) - 1, 0))
    mean = sum(float(digamma(high) - digamma(low)) for high, low in zip(most, least, strict=True))
    variance = sum(float(polygamma(1, each)) for each in (*least, *most))
    return mean + 4 * math.sqrt(variance)


Answering = Callable[[Sampling, bool], Answer | None]


@dataclass(frozen=True)
class Engine:
    """One line of the table: a family, when it is tried, what answers, what checks it, and why."""

    name: str
    applies: Callable[[Side], bool]
    answer: Answering
    check: str
    reason: str


_ORDER, _AXES = "rows in another order of the axes", "the same with other axes first"
_REVERSE = "rows, else annealing from the posterior to the prior (log evidence only)"

TABLE = (
    Engine(
        "gaussian",
        lambda side: side.relative or (not side.few and side.shallow and not side.narrow and side.curved),
        Sampling.gaussian_answer,
        _AXES,
        "one phase, or a narrow layer, where rows of T are measured by its square block: the Gaussian at the "
        "mode takes a tenth of a second",
    ),
    Engine(
        "rows",
        lambda side: side.rows_first,
        Sampling.rows_answer,
        _ORDER,
        "many entries of T: rows are regressions on those above, and their cost grows slowly",
    ),
    Engine(
        "mixture",
        lambda side: side.few and not side.exact,
        Sampling.mixture_answer,
        "the Gaussian at the mode of all factors, else a mixture fitted to all factors, else rows",
        "several modes, or one that is far from Gaussian: a mixture over all phases",
    ),
    Engine(
        "rows",
        lambda side: not side.rows_first and side.moves,
        Sampling.rows_answer,
        _ORDER,
        "where the mixture leaves the mean of L to a tail, rows often have none",
    ),
    Engine(
        "gaussian",
        lambda side: not (side.few or side.relative or (side.shallow and not side.narrow)) and side.curved,
        Sampling.gaussian_answer,
        _AXES,
        "nearly the posterior where layers are wide",
    ),
    Engine(
        "spectral smc",
        lambda side: side.spectral,
        Sampling.spectral_answer,
        _REVERSE,
        "a narrow layer, perhaps with more units than the targets need: exact moves of directions of L",
    ),
    Engine(
        "smc",
        lambda side: side.moves and not side.spectral,
        Sampling.smc_answer,
        "the mixture, or rows, else the Gaussian, else a path from another start",
        "where importance sampling does not reach the target error",
    ),
    Engine(
        "spectral smc",
        lambda side: (
            not (side.few or side.spectral) and side.can_be_spectral(side.policy.most_for_last_spectral)
        ),
        Sampling.spectral_answer,
        _REVERSE,
        "a narrow layer where no Gaussian is near the posterior: exact moves take half a minute",
    ),
)


@dataclass(frozen=True)
class Step:
    """One estimate that is tried: its name, of which matrix, what checks it, and why it is tried there."""

    name: str
    of: str  # "scale" (L) or "kernel" (of the last hidden layer)
    check: str
    reason: str
    answer: Answering | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """One line."""
        checked = f"; check: {self.check}" if self.check else ""
        return f"{self.name} ({self.of}): {self.reason}{checked}"

    @property
    def family(self) -> str:
        """Draws with weights, or moves of particles."""
        return "smc" if self.name.endswith("smc") else "importance"

    @property
    def engine(self) -> str:
        """What `diagnostics.engine` says of it."""
        return f"dual {self.family}" if self.of == "kernel" else self.family


@dataclass(frozen=True, repr=False)
class Plan:
    """What is done for a problem, in order: printable, and what runs.

    Attributes
    ----------
    engine : str
        Name of the engine of the first step, as `diagnostics.engine` has it if that step serves.
    reason : str
        Why.
    steps : tuple of Step
        Every estimate that may be tried, each with its name and reason; a later one only if those before fall
        short.
    """

    engine: str
    reason: str
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        """One line: the engine and the names of the steps."""
        names = ", ".join(step.name for step in self.steps)
        return f"Plan(engine={self.engine!r}, steps=({names}))"

    def __str__(self) -> str:
        """The engine with its reason, then one line for every step."""
        lines = [f"{self.engine}: {self.reason}"]
        return "\n".join([*lines, *(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))])


def plan(problem: Problem, engine: str = "auto", policy: Policy = POLICY) -> Plan:
    """What is done for a problem; a ValueError where the engine asked for does not apply."""
    named = {"dual importance": "dual", "dual quadrature": "quadrature"}  # as plans and diagnostics call them
    engine = named.get(engine, engine)
    if engine not in ("auto", *ENGINES):
        raise ValueError(f"engine must be one of {('auto', *ENGINES)}, got {engine!r}")
    best = _without_draws(problem) or _by_draws(problem, policy)
    own = "dual" if best.steps[0].of == "kernel" else best.engine
    own = named.get(best.engine, own)
    without_draws = engine in ("atom", "quadrature")
    if engine == "auto" or (without_draws and engine == own):
        return best
    dual = problem.kernel and problem.rank > 0
    if without_draws or not problem.widths or (engine == "dual" and not dual):
        raise ValueError(f"engine {engine!r} does not apply ({best.reason}): use {own!r} or 'auto'")
    if not problem.rank:
        return best
    if engine != "dual" and not problem.scale:
        raise ValueError(
            "at zero temperature a hidden layer narrower than the outputs is supported with engine 'dual' "
            f"only, got widths={problem.widths} for {problem.outputs} outputs: use a finite beta"
        )
    side = Side(problem, "kernel" if engine == "dual" else "scale", policy, moves=engine != "importance")
    steps = tuple(step for step in steps_of(side) if engine in ("dual", step.family))
    return Plan(steps[0].engine, f"engine {engine!r} was asked for", steps)


def steps_of(side: Side) -> tuple[Step, ...]:
    """The lines of the table that apply to one matrix."""
    lines = (line for line in TABLE if line.applies(side))
    return tuple(Step(line.name, side.of, line.check, line.reason, line.answer) for line in lines)


def _without_draws(problem: Problem) -> Plan | None:
    """The plan where the answer is known, or an integral over a number."""
    of, answer = "scale", None
    if not problem.widths:
        name, reason = "atom", "depth one: the scale is fixed and the posterior is a Gaussian process"
    elif problem.outputs == 1:
        name, reason = "quadrature", "one output: the scale is a number, integrated deterministically"
    elif not problem.rank:
        name, reason = "prior", "the data carry no information about the scale: its posterior is its prior"
        answer = Sampling.prior_answer
    elif problem.rank == 1 and problem.number:
        name, reason = (
            "quadrature",
            "data of rank one: the hidden kernel is a number, integrated deterministically",
        )
        answer = Sampling.quadrature_answer
        if problem.deficient or not problem.scale:  # draws of L without a density
            of = "kernel"
    else:
        return None
    engine = "dual quadrature" if answer is Sampling.quadrature_answer else name
    return Plan(engine, reason, (Step(name, of, "", reason, answer),))


def _by_draws(problem: Problem, policy: Policy) -> Plan:
    """Draws of L, of the smaller hidden kernel where there are more outputs than data, or of both in turn.

    Behind a layer that passes on fewer directions than the data have, the kernel is a narrow matrix too, with
    the same difficulties: L comes first then, and alone where spectral moves serve.
    """
    scale, kernel = (Side(problem, of, policy) for of in ("scale", "kernel"))
    reason = "several outputs: importance sampling, smc where it falls short"
    sides: tuple[Side, ...] = (scale,)
    if problem.kernel and problem.outputs > problem.rank:
        alone = not problem.scale or (problem.complete and problem.outputs > policy.most_outputs_by_rows)
        narrow = problem.complete and kernel.narrow and not (scale.few or alone)
        if narrow:
            reason = "more outputs than data behind a narrow layer: first the scale, then the kernel"
        else:
            reason = "more outputs than data: the kernel of the last hidden layer is smaller than the scale"
        if alone:
            sides = (kernel,)
        elif not (kernel.narrow and scale.exact):
            sides = (scale, kernel) if narrow else (kernel, scale)
    steps = [step for side in sides for step in steps_of(side)]
    steps.sort(key=lambda step: step.family)  # draws of both matrices before moves for either
    return Plan(steps[0].engine, reason, tuple(steps))
