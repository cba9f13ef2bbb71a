"""`lbnn.learning_curve`: averages over Gaussian data, against the number of examples."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn._base.warn import warn_of
from lbnn.learning_curves.gaussian_data import Teacher, log_norm_law
from lbnn.learning_curves.interpolation import exact_point
from lbnn.learning_curves.limits import LIMITS, Asymptotics, LimitCurve, limit_curve
from lbnn.learning_curves.sampled import FEWEST_DRAWS, QUANTITIES, Problem, sample_point
from lbnn.network import Network
from lbnn.scale.gamma_product import GammaProduct


@dataclass(frozen=True)
class LearningCurve:
    """Averages over data sets, one for each number of examples. Returned by `learning_curve`.

    Every quantity q has its error in q_error: the standard error of a Monte Carlo average; where the
    average is an integral, zero, or what a coarser rule says differently if that is more than 1e-7 of it.

    Attributes
    ----------
    examples : (m,) array of int
    inputs : int
    scale_mean : (m,) array
        E λ, the posterior mean of the scale.
    log_evidence : (m,) array
        Log p(y | X).
    error : (m,) array
        (E f(x) − wᵀx)², the squared error of the predictive mean at a new input.
    gibbs_error : (m,) array
        E (f(x) − wᵀx)², the squared error of a function drawn from the posterior.
    draws : (m,) array of int
        Number of data sets drawn; 0 where the average is an integral.
    """

    network: Network
    examples: Any
    inputs: int
    teacher_norm: float | str
    noise: float
    beta: float
    draws: Any
    scale_mean: Array
    scale_mean_error: Array
    log_evidence: Array
    log_evidence_error: Array
    error: Array
    error_error: Array
    gibbs_error: Array
    gibbs_error_error: Array
    messages: tuple[str, ...] = field(default=())

    @cached_property
    def limits(self) -> dict[str, LimitCurve]:
        """The curves of infinite size, p, n0 → ∞ at fixed p/n0, with the scale of each limit theory.

        "infinite width": λ at its prior mean. "proportional": widths grow with p, the replica result of
        Zavatone-Veth, Tong and Pehlevan (2022). "infinite data" and "proportional, first order": zero
        temperature only. A teacher from the prior has the mean square of its norm.
        """
        if isinstance(self.teacher_norm, str):
            square = math.prod(self.network.prior_variances)
        else:
            square = self.teacher_norm**2
        points = [
            Asymptotics(int(count), self.inputs, square, self.noise**2, 1 / self.beta)
            for count in self.examples
        ]
        return {
            theory: limit_curve(theory, points, self.network.widths, self.network.prior_variances)
            for theory in LIMITS
        }

    def __repr__(self) -> str:
        """One line: the network, the sizes and the teacher."""
        norm = self.teacher_norm if isinstance(self.teacher_norm, str) else f"{self.teacher_norm:g}"
        return (
            f"LearningCurve(widths={self.network.widths}, {len(self.examples)} sizes from "
            f"{self.examples.min()} to {self.examples.max()} examples, inputs={self.inputs}, "
            f"teacher_norm={norm}, noise={self.noise:g}, beta={self.beta:g})"
        )


def learning_curve(
    net: Network,
    examples: Sequence[int],
    inputs: int,
    teacher_norm: float | str = 1.0,
    noise: float = 0.0,
    beta: float = math.inf,
    *,
    target_error: float = 0.01,
    max_draws: int = 20_000,
    seed: int = 0,
) -> LearningCurve:
    """Average error and evidence of a one-output network over Gaussian data with a linear teacher.

    y = X w + noise · ε, X (p, n0) and ε of standard normal entries, |w| = teacher_norm, new inputs of the
    same law. Under the network's prior E |w|² is the product of the prior variances, one by default, and the
    noise variance that it assumes is 1/beta.

    At zero temperature (p ≤ n0) the averages are integrals over two to four variables. Otherwise data sets
    are drawn in bidiagonal form, 3 min(p, n0) random numbers each, until all averages are known to
    `target_error`; given the data nothing is approximated.

    Parameters
    ----------
    net : Network
    examples : sequence of int
        Numbers of examples p.
    inputs : int
        n0.
    teacher_norm : float or "prior"
        |w|; "prior" draws w from the network's own prior.
    noise : float
        Standard deviation of the noise in the targets.
    beta : float in (0, inf]
        Inverse noise variance that the network assumes; it need not be 1/noise².
    target_error : float
        Relative standard error to stop at; absolute for a log evidence below one.
    max_draws : int
        Most data sets that are drawn for one number of examples.
    seed : int
        Networks and teachers with the same seed have the same data.

    Returns
    -------
    LearningCurve
        With the limit theories beside it in `limits`.

    Examples
    --------
    >>> import math, lbnn
    >>> deep = lbnn.learning_curve(lbnn.Network((20, 20)), [10, 30, 50], inputs=60, teacher_norm=0.3)
    >>> deep.error.round(4)  # |w|² (1 − p/n0)
    array([0.075, 0.045, 0.015])
    >>> shallow = lbnn.learning_curve(lbnn.Network(()), [10, 30, 50], 60, 0.3)
    >>> bool((deep.gibbs_error < shallow.gibbs_error).all())
    True
    >>> (deep.limits["proportional"].scale_mean / deep.scale_mean).round(2)
    array([0.96, 0.95, 0.97])
    >>> noisy = lbnn.learning_curve(lbnn.Network((20, 20)), [30], 60, 0.3, noise=0.1, beta=100.0)
    >>> bool(noisy.error_error[0] < 0.01 * noisy.error[0])
    True
    """
    sizes, count = _sizes(examples), check.positive_integer(inputs, "inputs")
    inverse_temperature = check.inverse_temperature(beta)
    if inverse_temperature == 0:
        raise ValueError("beta must be positive, got 0: without data there is no learning curve")
    norm = _norm(teacher_norm)
    deviation = _not_negative(noise, "noise")
    if math.isinf(inverse_temperature) and max(sizes) > count:
        raise ValueError(
            "zero temperature needs at most as many examples as inputs, as no linear function interpolates "
            f"more noisy targets, got {max(sizes)} examples of {count} inputs: take a finite beta"
        )
    wanted = float(check.probability(target_error, "target_error"))
    most = check.positive_integer(max_draws, "max_draws")
    if most < FEWEST_DRAWS:
        raise ValueError(f"max_draws must be at least {FEWEST_DRAWS} for an error to be stated, got {most}")
    start = check.seed(seed)
    points = []
    for size in sizes:
        problem = _problem(net, size, count, Teacher(norm, deviation), inverse_temperature)
        exact = math.isinf(inverse_temperature)
        points.append(exact_point(problem) if exact else sample_point(problem, wanted, most, start))
    messages = tuple(message for point in points for message in point.messages)
    warn_of(messages)
    averages = {
        f"{name}{end}": np.array([getattr(point, of)[row] for point in points])
        for row, name in enumerate(QUANTITIES)
        for end, of in (("", "mean"), ("_error", "error"))
    }
    return LearningCurve(
        network=net,
        examples=np.array(sizes),
        inputs=count,
        teacher_norm="prior" if norm is None else norm,
        noise=deviation,
        beta=inverse_temperature,
        draws=np.array([len(point.values) for point in points]),
        messages=messages,
        **averages,
    )


def _problem(net: Network, examples: int, inputs: int, teacher: Teacher, beta: float) -> Problem:
    variance = math.prod(net.prior_variances)
    return Problem(
        examples,
        inputs,
        teacher,
        1 / beta,
        GammaProduct(net.widths, variance) if net.widths else None,
        log_norm_law(net.widths, inputs, variance),
        variance,
        net.prior_variances[0],
    )


def _sizes(examples: Any) -> list[int]:
    if isinstance(examples, str | numbers.Real):
        raise TypeError(f"examples must be a sequence of positive integers, got {examples!r}")
    sizes = [check.positive_integer(_plain(each), "every number of examples") for each in examples]
    if not sizes:
        raise ValueError("examples must name at least one number of examples, got none")
    return sizes


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _norm(value: Any) -> float | None:
    """|w|, None for a teacher from the prior."""
    if isinstance(value, str):
        if value != "prior":
            raise ValueError(f'teacher_norm must be a number or "prior", got {value!r}')
        return None
    return _not_negative(value, "teacher_norm")


def _not_negative(value: Any, name: str) -> float:
    number = check.finite_number(_plain(value), name)
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {number:g}")
    return number
