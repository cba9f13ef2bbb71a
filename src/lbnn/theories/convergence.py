"""How fast each limit theory approaches the exact answer: errors along a growing size, and their rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.network import Network, Seed
from lbnn.theories.comparison import QUANTITIES, compare

#: Not one: prior and data would then agree on the scale, and leading errors would cancel.
_TEACHER_SCALE = 1.5


@dataclass(frozen=True)
class Sizes:
    """The sizes of one problem: p examples of 2p inputs, n_d outputs, hidden widths."""

    examples: int
    outputs: int
    widths: tuple[int, ...]


@dataclass(frozen=True)
class Regime:
    """A limit: which theory, which sizes grow with n, and at which temperature."""

    theory: str
    growing: str  # what n stands for
    sizes: Callable[[int], Sizes] = field(repr=False)
    default: tuple[int, ...]
    quantity: str = "kernel correction"
    beta: float = math.inf


#: The paper's regimes at depth two, and two deeper or warmer ones. n is the growing size.
REGIMES = {
    "infinite width": Regime(
        "infinite width", "n_1", lambda n: Sizes(10, 2, (n,)), (40, 80, 160, 320, 640), beta=4.0
    ),
    "infinite width, depth three": Regime(
        "infinite width", "n_1 = n_2", lambda n: Sizes(10, 2, (n, n)), (40, 80, 160, 320, 640), beta=4.0
    ),
    "infinite data": Regime("infinite data", "p", lambda n: Sizes(n, 2, (4,)), (40, 80, 160, 320)),
    "proportional": Regime("proportional", "n_1 = 2p", lambda n: Sizes(n // 2, 3, (n,)), (40, 80, 160, 320)),
    "proportional, α = 3": Regime(
        "proportional", "n_1 = p/3", lambda n: Sizes(3 * n, 3, (n,)), (20, 40, 80, 160)
    ),
    "proportional, depth three, β = 4": Regime(
        "proportional", "n_1 = n_2 = 2p", lambda n: Sizes(n // 2, 3, (n, n)), (40, 80, 160, 320), beta=4.0
    ),
    "proportional, n_d = √n": Regime(
        "proportional", "n_1 = 2p", lambda n: Sizes(n // 2, round(math.sqrt(n)), (n,)), (32, 64, 128, 256)
    ),
    "many outputs": Regime(
        "many outputs", "n_1 = 2 n_d", lambda n: Sizes(4, n // 2, (n,)), (20, 40, 80, 160), "kernel"
    ),
}


@dataclass(frozen=True)
class ConvergenceStudy:
    """Errors of one theory along a growing size. Returned by `study`.

    Attributes
    ----------
    regime : str
    growing : str
        What the sizes are.
    quantity : str
        A key of `comparison.QUANTITIES`.
    sizes : (k,)
    errors : (k,)
        Geometric mean over data sets.
    error_bars : (k,)
        Its standard error over data sets; NaN for one.
    monte_carlo : (k,)
        Monte Carlo error of the exact side: errors near it are noise.
    rate, rate_error : float
        Slope of log error against log size by least squares, averaged over data sets, and its standard error.
    """

    regime: str
    growing: str
    quantity: str
    sizes: Array
    errors: Array
    error_bars: Array
    monte_carlo: Array
    rate: float
    rate_error: float

    def __repr__(self) -> str:
        """One line: the regime, its sizes and the rate."""
        return (
            f"ConvergenceStudy({self.regime!r}, {self.quantity!r}, sizes={self.sizes.astype(int).tolist()}, "
            f"rate={self.rate:.3g} ± {self.rate_error:.2g})"
        )


def study(
    regime: str,
    sizes: Sequence[int] | None = None,
    *,
    quantity: str | None = None,
    data_sets: int = 4,
    target_error: float = 0.02,
    seed: Seed = 0,
) -> ConvergenceStudy:
    """Grow the sizes of a regime and measure how the theory's error falls.

    Inputs are Gaussian with n0 = 2p columns, targets come from a random linear teacher of scale 1.5.

    Parameters
    ----------
    regime : str
        A key of `REGIMES`.
    sizes : sequence of int, optional
        Values of n, increasing; those of the regime by default.
    quantity : str, optional
        A key of `comparison.QUANTITIES`; the kernel by default.
    data_sets : int
        Random data sets at each size.
    target_error : float
        Of the exact side, see `Network.condition`.
    seed : int, numpy.random.SeedSequence or numpy.random.Generator

    Returns
    -------
    ConvergenceStudy

    Examples
    --------
    >>> import lbnn
    >>> result = lbnn.convergence.study("infinite width", sizes=(40, 160), data_sets=1, target_error=0.1)
    >>> -1.3 < result.rate < -0.7
    True
    """
    if regime not in REGIMES:
        raise ValueError(f"regime must be one of {tuple(REGIMES)}, got {regime!r}")
    chosen = REGIMES[regime]
    kind = chosen.quantity if quantity is None else quantity
    if kind not in QUANTITIES:
        raise ValueError(f"quantity must be one of {tuple(QUANTITIES)}, got {quantity!r}")
    given = chosen.default if sizes is None else sizes
    steps = [check.positive_integer(n, "every size") for n in given]
    count = check.positive_integer(data_sets, "data_sets")
    if len(steps) < 2 or sorted(set(steps)) != steps:
        raise ValueError(f"sizes must be at least two increasing integers, got {sizes!r}")
    root, measured = check.seed(seed), np.empty((2, len(steps), count))
    for number, n in enumerate(steps):
        for data_set in range(count):
            rng = np.random.default_rng([root, data_set])
            measured[:, number, data_set] = _measured(chosen, n, rng, kind, target_error)
    logs = np.log(measured[0])  # (sizes, data sets)
    slopes = np.polyfit(np.log(steps), logs, 1)[0]
    errors = np.exp(logs.mean(axis=1))
    return ConvergenceStudy(
        regime,
        chosen.growing,
        kind,
        np.asarray(steps, float),
        errors,
        errors * _standard_error(logs),
        np.sqrt((measured[1] ** 2).mean(axis=1)),
        float(slopes.mean()),
        float(_standard_error(slopes[None])[0]),
    )


def _measured(
    regime: Regime, n: int, rng: np.random.Generator, quantity: str, target_error: float
) -> tuple[float, float]:
    """Error of the theory at one size, and the Monte Carlo error of the exact side."""
    sizes = regime.sizes(n)
    inputs = 2 * sizes.examples
    X, X_test = rng.standard_normal((sizes.examples, inputs)), rng.standard_normal((5, inputs))
    teacher = _TEACHER_SCALE * rng.standard_normal((inputs, sizes.outputs)) / math.sqrt(inputs)
    found = compare(
        Network(sizes.widths), X, X @ teacher, regime.beta, X_test,
        quantities=(quantity,), theories=(regime.theory,), target_error=target_error,
    ).row(regime.theory, quantity)  # fmt: skip
    return abs(found.error), found.monte_carlo


def _standard_error(values: Array) -> Array:
    """Of the mean over the last axis of (..., n); NaN for one value."""
    count = values.shape[-1]
    if count == 1:
        return np.full(values.shape[:-1], math.nan)
    return values.std(axis=-1, ddof=1) / math.sqrt(count)
