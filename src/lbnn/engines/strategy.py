"""Which estimates are tried for a problem, in which order, and what checks each: a pure function.

`plan` draws nothing and uses no data, only their sizes: depth, outputs, the rank of the Gram matrix, the
narrowest layer, and which forms of the likelihood exist. `lbnn.engines.run` executes it step by step. A step
whose estimate falls short is followed by the next one; its draws are kept and serve as a start or a check of
what comes after.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import digamma, polygamma

from lbnn.engines.policy import POLICY, Policy

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

    def entries(self, of: str) -> int:
        """Entries of the triangular root T of the scale, or of the kernel."""
        rows = self.outputs if of == "scale" else self.rank
        columns = min(rows, *self.widths)
        return rows * columns - columns * (columns - 1) // 2

    def dimension(self, of: str) -> int:
        """Coordinates of all factors whose product T is."""
        columns = min(self.outputs if of == "scale" else self.rank, *self.widths)
        return self.entries(of) + (len(self.widths) - 1) * columns * (columns + 1) // 2

    def narrow(self, of: str) -> bool:
        """Whether a layer passes on fewer directions than the matrix has rows."""
        return min(self.widths) < (self.outputs if of == "scale" else self.rank)

    @property
    def rank_one(self) -> bool:
        """Whether the hidden kernel is a number that is integrated by quadrature."""
        return self.rank == 1 and self.number

    def spectral(self, policy: Policy, most: int | None = None) -> bool:
        """Whether `spectral.sample_narrow` serves: a narrow layer, positive noise variance, moderate sizes.

        `kernel` says that all outputs have one noise variance, and `scale` that it is not zero (L behind a
        narrow layer has no density otherwise). A layer as wide as the outputs counts as narrow from six
        outputs on (widths (6, 6), n_d = 6: −79.04 ± 0.05, a mixture −79.06 ± 0.07, Hamiltonian moves −80.10
        ± 0.07). With fewer outputs mixtures and Hamiltonian moves answer; columns that leave each other no
        direction missed a phase in 2 of 11 truth problems with three and four outputs.
        """
        width = min(self.widths)
        narrow = width < self.outputs or (
            width == self.outputs and self.entries("scale") >= policy.most_fitted
        )
        size = max(self.outputs, self.rank) * width
        rows = self.kernel and self.complete and self.scale
        if not (rows and narrow and size <= (most or policy.most_for_spectral)):
            return False
        return self._log_condition() <= policy.most_log_condition

    def _log_condition(self) -> float:
        """A log condition number that few draws of the innermost matrix of the spectral moves exceed.

        That matrix is a product of Wishart matrices of all layers but the narrowest, of width m. Of the
        Lyapunov exponents of such a product, logs of squared Bartlett diagonals, the largest and the smallest
        are Σ_k log χ²(n_k) and Σ_k log χ²(n_k − m + 1): the difference of their means, and four standard
        deviations.
        """
        layers = sorted(self.widths)[1:]
        least, most = ([0.5 * (width - less) for width in layers] for less in (min(self.widths) - 1, 0))
        mean = sum(float(digamma(high) - digamma(low)) for high, low in zip(most, least, strict=True))
        variance = sum(float(polygamma(1, each)) for each in (*least, *most))
        return mean + 4 * math.sqrt(variance)


@dataclass(frozen=True)
class Step:
    """One estimate that is tried: its name, of which matrix, what checks it, and why it is tried there."""

    name: str
    of: str  # "scale" (L) or "kernel" (of the last hidden layer)
    check: str
    reason: str

    def __str__(self) -> str:
        """One line."""
        checked = f"; check: {self.check}" if self.check else ""
        return f"{self.name} ({self.of}): {self.reason}{checked}"


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

    def parts(self) -> list[tuple[Step, ...]]:
        """Consecutive steps of one matrix."""
        groups: list[list[Step]] = []
        for step in self.steps:
            if not groups or groups[-1][-1].of != step.of:
                groups.append([])
            groups[-1].append(step)
        return [tuple(group) for group in groups]


def plan(problem: Problem, engine: str = "auto", rough: bool = False, policy: Policy = POLICY) -> Plan:
    """What is done for a problem; a ValueError where the engine asked for does not apply."""
    named = {"dual importance": "dual", "dual quadrature": "quadrature"}  # as plans and diagnostics call them
    engine = named.get(engine, engine)
    if engine not in ("auto", *ENGINES):
        raise ValueError(f"engine must be one of {('auto', *ENGINES)}, got {engine!r}")
    best = _choice(problem, rough, policy)
    if engine == "auto":
        return best
    if engine not in _applicable(problem):
        own = "dual" if best.steps[0].of == "kernel" else named.get(best.engine, best.engine)
        raise ValueError(f"engine {engine!r} does not apply ({best.reason}): use {own!r} or 'auto'")
    if engine in ("atom", "quadrature"):
        return best
    if engine == "dual":
        steps = _sampling(problem, "kernel", "auto", rough, policy)
        return Plan(_name(steps[0]), "the hidden kernel was asked for", steps)
    if not problem.scale:
        raise ValueError(
            "at zero temperature a hidden layer narrower than the outputs is supported with engine 'dual' "
            f"only, got widths={problem.widths} for {problem.outputs} outputs: use a finite beta"
        )
    if not problem.rank:
        return best
    steps = _sampling(problem, "scale", engine, rough, policy)
    return Plan(engine, f"engine {engine!r} was asked for", steps)


def scale_steps(problem: Problem, engine: str, rough: bool, policy: Policy) -> tuple[Step, ...]:
    """Steps for the scale alone, whatever else there is: for a target that is given."""
    engine = engine if engine in ("importance", "smc") else "auto"
    return _sampling(problem, "scale", engine, rough, policy)


def _applicable(problem: Problem) -> tuple[str, ...]:
    if not problem.widths:
        return ("atom",)
    several = ("importance", "smc", *(("dual",) if problem.kernel and problem.rank else ()))
    return ("quadrature", *several) if problem.outputs == 1 or problem.rank_one else several


def _choice(problem: Problem, rough: bool, policy: Policy) -> Plan:
    """The plan of engine="auto"."""
    if not problem.widths:
        reason = "depth one: the scale is fixed and the posterior is a Gaussian process"
        return Plan("atom", reason, (Step("atom", "scale", "", reason),))
    if problem.outputs == 1:
        reason = "one output: the scale is a number, integrated deterministically"
        return Plan("quadrature", reason, (Step("quadrature", "scale", "", reason),))
    if not problem.rank:
        reason = "the data carry no information about the scale: its posterior is its prior"
        return Plan("prior", reason, (Step("prior", "scale", "", reason),))
    if problem.rank_one:
        reason = "data of rank one: the hidden kernel is a number, integrated deterministically"
        of = "kernel" if problem.deficient or not problem.scale else "scale"  # draws of L without a density
        return Plan("dual quadrature", reason, (Step("quadrature", of, "", reason),))
    if problem.kernel and problem.outputs > problem.rank:
        steps = _more_outputs_than_data(problem, rough, policy)
        reason = "more outputs than data: the kernel of the last hidden layer is smaller than the scale"
        if steps[0].of == "scale":
            then = "smc" if all(step.of == "scale" for step in steps) else "the kernel"
            reason = f"more outputs than data behind a narrow layer: rows of the scale's root, then {then}"
        return Plan(_name(steps[0]), reason, steps)
    steps = _sampling(problem, "scale", "auto", rough, policy)
    return Plan(_name(steps[0]), "several outputs: importance sampling, smc where it falls short", steps)


def _name(step: Step) -> str:
    """What `diagnostics.engine` says of a step."""
    own = "smc" if step.name in ("smc", "spectral smc") else "importance"
    return f"dual {own}" if step.of == "kernel" else own


def _more_outputs_than_data(problem: Problem, rough: bool, policy: Policy) -> tuple[Step, ...]:
    """Steps for the hidden kernel; before them rows behind a narrow layer, after them those of the scale.

    Those of the scale alone where a layer passes on fewer directions than the data have and spectral moves
    apply: the kernel is then a narrow matrix too, with the same difficulties.
    """
    kernel = _sampling(problem, "kernel", "auto", rough, policy)
    if not problem.scale:
        return kernel
    if not problem.complete:
        return (*kernel, *_sampling(problem, "scale", "auto", rough, policy))
    scale = _sampling(problem, "scale", "auto", rough, policy)
    if problem.narrow("kernel") and _rows_and_spectral(problem, "scale", policy):
        return scale
    if min(problem.widths) < problem.rank and problem.entries("scale") > policy.most_for_mixture:
        reason = "a layer passes on fewer directions than the data have, and rows take them one by one"
        first = Step("rough rows" if rough else "rows", "scale", "" if rough else _OTHER_ORDER, reason)
        relative = Step("relative gaussian", "scale", _OTHER_AXES, _RELATIVE)
        return (*((relative,) if problem.narrow("scale") and not rough else ()), first, *kernel, *scale)
    return (*kernel, *scale)


_OTHER_ORDER = "rows in another order of the axes"
_ROWS = "many entries of T: rows are regressions on those above, and their cost grows slowly"
_COMPLETED = "missing targets: rows for a completed table, whose posterior is close, weighted"
_OTHER_AXES = "the same with other axes first"
_RELATIVE = "a narrow layer: the Gaussian at the mode, rows of T measured by its square block"
_ROWS_AFTER = "where the mixture leaves the mean of L to a tail, rows often have none"
_GAUSSIAN = "if one mode is found, the Gaussian there is nearly the posterior where layers are wide"
_MIXTURE = "several modes, or one that is far from Gaussian: a mixture over all phases"
_SMC = "where importance sampling does not reach the target error"
_SPECTRAL = "a narrow layer, perhaps with more units than the targets need: exact moves of directions of L"
_SPECTRAL_LAST = "a narrow layer where no Gaussian is near the posterior: exact moves take half a minute"
_REVERSE = "rows, else annealing from the posterior to the prior (log evidence only)"


def _sampling(problem: Problem, of: str, engine: str, rough: bool, policy: Policy) -> tuple[Step, ...]:
    """Steps for one matrix: up to `Policy.most_for_mixture` entries of T, and beyond."""
    small = problem.entries(of) <= policy.most_for_mixture
    if engine == "auto" and not rough and _rows_and_spectral(problem, of, policy):
        rows = Step(
            "rows", of, _OTHER_ORDER, "rows are regressions on those above, where all units are needed"
        )
        spectral = Step("spectral smc", of, _REVERSE, _SPECTRAL)
        if small or not problem.narrow(of):
            return rows, spectral
        return Step("relative gaussian", of, _OTHER_AXES, _RELATIVE), rows, spectral
    if rough:
        few = Step("rough rows", of, "", "a few dozen draws are enough: rows, if they apply")
        if small:
            mixture = Step("mixture", of, "", "a few dozen draws are enough")
            rest = (mixture, _smc(problem, of, policy)) if engine == "auto" else (mixture,)
            first = problem.completed or _few_rows_serve(problem, of, policy)
            return (few, *rest) if first else rest
        return (few, *_sampling(problem, of, engine, False, policy))
    return _few_entries(problem, of, engine, policy) if small else _many_entries(problem, of, engine, policy)


def _few_rows_serve(problem: Problem, of: str, policy: Policy) -> bool:
    """Whether rows are tried before mixtures: one hidden layer, so that there are no phases, and narrow."""
    one = len(problem.widths) == 1
    return one and problem.narrow(of) and problem.entries(of) > policy.most_fitted


def _rows_and_spectral(problem: Problem, of: str, policy: Policy) -> bool:
    """Whether rows and spectral moves are all that is tried: mixtures of so many entries are not fitted."""
    return of == "scale" and problem.spectral(policy) and problem.entries(of) > policy.most_fitted_narrow


def _few_entries(problem: Problem, of: str, engine: str, policy: Policy) -> tuple[Step, ...]:
    if engine == "smc":
        return (Step("smc", of, "the mixture", _SMC),)
    rows = Step(
        "rows", of, _OTHER_ORDER, "one narrow layer: no phases to be looked for, and too many entries"
    )
    if problem.completed:
        rows = Step("rows", of, _OTHER_ORDER, _COMPLETED)
    steps = [rows] if problem.completed or _few_rows_serve(problem, of, policy) else []
    steps.append(Step("gaussian", of, "draws of the prior, else of a mixture", _GAUSSIAN))
    check = "the Gaussian at the mode of all factors, else a mixture fitted to all factors, else rows"
    steps.append(Step("mixture", of, check, _MIXTURE))
    if engine == "auto" and rows not in steps:
        steps.append(Step("rows", of, _OTHER_ORDER, _ROWS_AFTER))
    return tuple(steps) if engine == "importance" else (*steps, _smc(problem, of, policy))


def _smc(problem: Problem, of: str, policy: Policy) -> Step:
    """Sequential Monte Carlo after a mixture: with spectral moves where they apply, else Hamiltonian ones."""
    if of == "scale" and problem.spectral(policy):
        return Step("spectral smc", of, _REVERSE, _SPECTRAL)
    return Step("smc", of, "the mixture", _SMC)


def _many_entries(problem: Problem, of: str, engine: str, policy: Policy) -> tuple[Step, ...]:
    rows = Step("rows", of, _OTHER_ORDER, _ROWS)
    last: tuple[Step, ...] = ()
    if engine == "auto" and of == "scale" and problem.spectral(policy, policy.most_for_last_spectral):
        last = (Step("spectral smc", of, _REVERSE, _SPECTRAL_LAST),)
    if engine == "auto" and of == "scale" and problem.narrow(of):
        relative = Step("relative gaussian", of, _OTHER_AXES, _RELATIVE)
        smc = Step("smc", of, "rows, else the Gaussian, else a path from another start", _SMC)
        return (relative, rows, smc, *last)
    gaussian = Step(
        "wide gaussian", of, "the Gaussian in another frame", "nearly the posterior where layers are wide"
    )
    if problem.dimension(of) > policy.most_for_curvature and engine != "smc":
        why = "too many dimensions for a Hessian: draws around the centre, where rows do not apply"
        return (rows, Step("wide gaussian", of, "", why), Step("smc", of, "", _SMC), *last)
    smc = Step("smc", of, "rows, else the Gaussian", _SMC)
    if engine == "smc":
        return (smc,)
    if engine == "importance":
        return rows, gaussian
    # one wide layer has no phases that a Gaussian misses: it takes 0.1 s, rows that fall short up to 20
    first = len(problem.widths) == 1 and not problem.narrow(of)
    return (*((gaussian, rows) if first else (rows, gaussian)), smc, *last)
