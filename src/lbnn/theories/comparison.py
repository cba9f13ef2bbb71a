"""Every limit theory beside the exact answer: relative errors, and how well the exact side is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.html import table as html_table
from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.network import TARGET_ERROR, Network, Seed
from lbnn.posterior import Posterior
from lbnn.predict.feature_kernel import average_feature_kernel
from lbnn.predict.predictive import Predictive
from lbnn.predict.process import Process
from lbnn.scale.draws import Draws
from lbnn.scale.measure import ScaleMeasure
from lbnn.theories.limits.regimes import THEORIES, as_setting
from lbnn.theories.limits.theory import Theory
from lbnn.theories.views import saddle_errors, view_saddle
from lbnn.views.posterior import ViewPosterior

#: What is compared, and in which units the error is given.
QUANTITIES = {
    "kernel": "‖K − ⟨K⟩‖ / ‖⟨K⟩‖",
    "kernel correction": "‖K − ⟨K⟩‖ / ‖⟨K⟩ − G‖",
    "scale": "‖L − E L‖ / ‖E L‖",
    "mean": "‖mean − exact‖ / ‖exact‖",
    "covariance": "‖cov − exact‖ / ‖exact‖, across outputs at each point",
    "log evidence": "log p − exact, in nats",
}
#: Quantities that have the answer of another one, in other units.
_SOURCES = {"kernel correction": "kernel"}


@dataclass(frozen=True)
class Discrepancy:
    """One theory and one quantity: its error, and the Monte Carlo error of the exact side in its units."""

    theory: str
    quantity: str
    error: float
    monte_carlo: float


@dataclass(frozen=True)
class Comparison:
    """Limit theories against the exact posterior. Returned by `compare`.

    Attributes
    ----------
    exact : Posterior or ViewPosterior
    theories : dict of Theory, or of ViewSaddle
        Those that apply, by name; for views "saddle".
    left_out : dict of str
        Why the others do not apply.
    rows : tuple of Discrepancy
    """

    exact: Posterior | ViewPosterior
    theories: dict[str, Any]
    left_out: dict[str, str]
    rows: tuple[Discrepancy, ...]

    def error(self, theory: str, quantity: str) -> float:
        """The error of one theory in one quantity."""
        return self.row(theory, quantity).error

    def row(self, theory: str, quantity: str) -> Discrepancy:
        """The discrepancy of one theory in one quantity."""
        for row in self.rows:
            if (row.theory, row.quantity) == (theory, quantity):
                return row
        raise ValueError(
            f"no theory {theory!r} with quantity {quantity!r} was compared, "
            f"got theories {tuple(self.theories)} and quantities among {tuple(QUANTITIES)}"
        )

    def __repr__(self) -> str:
        """One line: the network and the names of the theories."""
        return f"Comparison(widths={self.exact.prior.widths}, theories={tuple(self.theories)})"

    def _repr_html_(self) -> str:
        """A table of the errors."""
        caption = f"{self.exact!r}: errors of limit theories"
        table = html_table(("theory", *QUANTITIES), self.grid(), caption)
        reasons = "".join(f"<li>{escape(f'{name}: {reason}')}</li>" for name, reason in self.left_out.items())
        return table + (f"<p>Not compared:</p><ul>{reasons}</ul>" if reasons else "")

    def grid(self) -> list[tuple[str, ...]]:
        """The errors as text: a line for each theory, a cell for each quantity; then Monte Carlo errors."""
        errors = {(row.theory, row.quantity): row.error for row in self.rows}
        known = {row.quantity: row.monte_carlo for row in self.rows}
        lines = [
            (name, *(_cell(errors.get((name, each)), 2) for each in QUANTITIES)) for name in self.theories
        ]
        return [*lines, ("Monte Carlo", *(_cell(known.get(each), 1) for each in QUANTITIES))]

    def table(self) -> str:
        """The errors as text: one line for each theory, one column for each quantity."""
        grid = [("theory", *QUANTITIES), *self.grid()]
        lines = [f"{line[0]:26}" + "".join(f"{cell:>19}" for cell in line[1:]) for line in grid]
        return "\n".join(lines + [f"{name}: {reason}" for name, reason in self.left_out.items()])


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}g}".replace("inf", "∞")


def compare(
    net: Network,
    X: ArrayLike,
    Y: ArrayLike,
    beta: float,
    X_test: ArrayLike | None = None,
    *,
    quantities: Sequence[str] = tuple(QUANTITIES),
    theories: Sequence[str] = tuple(THEORIES),
    target_error: float = TARGET_ERROR,
    seed: Seed = 0,
) -> Comparison:
    """Compare limit theories, all that apply by default, with the exact answer.

    Parameters
    ----------
    net : Network
        With at least one hidden layer.
    X : (p, n0), or (p, M, n0)
        With three axes they are views (`lbnn.views`), of a network with one hidden layer: the saddle point of
        gated and convolutional networks is compared.
    Y : (p,) or (p, n_d)
    beta : float in (0, inf]
    X_test : (p̂, n0) or (p̂, M, n0), optional
        Where predictors are compared; the training inputs by default.
    quantities : sequence of str
        Keys of `QUANTITIES`; covariances of many outputs take time.
    theories : sequence of str
        Names of the theories to compare, such as "infinite width" or "proportional"; only these are computed.
        "many outputs" solves a problem of the size of the data and takes the longest.
    target_error, seed
        As in `Network.condition`: how well the exact side is to be known.

    Returns
    -------
    Comparison
        `table()` is text; `lbnn.plots.comparison` draws it.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(40, 60)), rng.normal(size=40)
    >>> result = lbnn.compare(lbnn.Network(widths=(80,)), X, y, beta=np.inf)
    >>> sorted(result.theories)[:3]
    ['infinite data', 'infinite width', 'infinite width, order 1']
    >>> result.error("proportional", "kernel") < result.error("infinite width", "kernel")
    True
    """
    if np.ndim(X) == 3:
        return _compare_views(net, X, Y, beta, X_test, target_error=target_error, seed=seed)
    _require_known(quantities, tuple(QUANTITIES), "quantities")
    _require_known(theories, tuple(THEORIES), "theories")
    spectrum = Spectrum.from_inputs(X, Y)
    setting = as_setting(net, spectrum, beta)
    if math.isinf(setting.noise_variance):
        raise ValueError("theories are compared for beta > 0, got beta=0: the posterior is the prior")
    exact = net.condition_spectrum(spectrum, beta, target_error=target_error, seed=seed)
    found, left_out = {}, {}
    for name in theories:
        try:
            found[name] = THEORIES[name](setting)
        except (ValueError, ArithmeticError) as reason:
            left_out[name] = str(reason)
    truth = Truth(exact, net.widths[0], X_test, quantities)
    rows = [row for name, theory in found.items() for row in truth.judge(name, theory)]
    return Comparison(exact, found, left_out, tuple(rows))


def _compare_views(
    net: Network, views: ArrayLike, y: ArrayLike, beta: float, views_test: ArrayLike | None, **effort: Any
) -> Comparison:
    """The saddle point of one hidden layer seen through views (p, M, n0), and the exact posterior."""
    saddle, array = view_saddle(net, views, y, beta), check.real_array(views, "views")
    exact = net.condition_views(array, y, beta, **effort)
    if not isinstance(exact, ViewPosterior):
        raise ValueError(
            f"theories of views are compared for two views and more, got views.shape={array.shape}: "
            "lbnn.compare(network, views[:, 0], y, beta)"
        )
    test = array if views_test is None else check.real_array(views_test, "views")
    errors = saddle_errors(exact, saddle, test)
    rows = tuple(Discrepancy("saddle", quantity, *each) for quantity, each in errors.items())
    return Comparison(exact, {"saddle": saddle}, {}, rows)


def _require_known(names: Sequence[str], known: tuple[str, ...], what: str) -> None:
    """Raise unless every name is known; a string is not a list of names."""
    if isinstance(names, str):
        raise ValueError(f"{what} must be a sequence of names, got the string {names!r}: use ({names!r},)")
    for name in names:
        if name not in known:
            raise ValueError(f"{what} must be among {known}, got {name!r}")


class Truth:
    """The exact answers with their Monte Carlo errors, computed once."""

    def __init__(
        self, exact: Posterior, width: int, X_test: ArrayLike | None, quantities: Sequence[str]
    ) -> None:
        """The exact answers at X_test (p̂, n0), and their errors."""
        self.exact, self.X_test, self.quantities = exact, X_test, quantities
        training, points = exact.spectrum.project(), exact.spectrum.project(X_test)
        process = exact._process

        def predictive(measure: ScaleMeasure) -> Predictive:
            draws = Draws.of(measure, exact.noise.variance)
            data = Process.of(draws, exact.spectrum.eigenvalues, exact.spectrum.targets)
            return Predictive.of(data, points, exact.spectrum.single_output)

        statistics: dict[str, Callable[[ScaleMeasure], Array]] = {
            "kernel": lambda measure: average_feature_kernel(training, process, measure, width),
            "scale": lambda measure: measure.average_scale,
            "mean": lambda measure: predictive(measure).mean,
            "covariance": lambda measure: predictive(measure).output_covariance,
        }
        asked = {_SOURCES.get(quantity, quantity) for quantity in quantities} & set(statistics)
        self.values = {name: statistics[name](exact.scale) for name in asked}
        self.errors = {name: group_error(exact.scale, statistics[name], self.values[name]) for name in asked}
        self.gram = training.explained @ training.explained.T

    def judge(self, name: str, theory: Theory) -> list[Discrepancy]:
        """The discrepancies of one theory in what was asked and what it answers."""
        rows = [self._row(name, theory, quantity) for quantity in self.quantities]
        return [row for row in rows if row is not None]

    def _row(self, name: str, theory: Theory, quantity: str) -> Discrepancy | None:
        if quantity == "log evidence":
            if theory.log_evidence is None:
                return None
            difference = theory.log_evidence - self.exact.log_evidence
            return Discrepancy(name, quantity, difference, self.exact.log_evidence_error)
        source = _SOURCES.get(quantity, quantity)
        given, exact = self._answer(theory, source), self.values[source]
        if given is None:
            return None
        size = float(np.linalg.norm(exact - self.gram if quantity in _SOURCES else exact)) or math.nan
        error = float(np.linalg.norm(given - exact))
        return Discrepancy(name, quantity, error / size, self.errors[source] / size)

    def _answer(self, theory: Theory, source: str) -> Array | None:
        """What a theory says of a source: kernel (p, p), scale (n_d, n_d), mean (p̂, n_d) or covariance."""
        if source == "kernel":
            return theory.kernel
        if source == "scale":
            return None if theory.scale is None else theory.scale.average_scale
        predictive = theory.predict(self.X_test)
        return predictive.mean if source == "mean" else predictive.output_covariance


def group_error(measure: ScaleMeasure, statistic: Callable[[ScaleMeasure], Array], value: Array) -> float:
    """Monte Carlo error of a statistic of any shape, as a norm, from independent groups of atoms."""
    if measure.groups is None:
        return 0.0
    labels = np.unique(measure.groups)
    total = 0.0
    for label in labels:
        here = measure.groups == label
        share = float(measure.weights[here].sum())
        part = replace(
            measure,
            matrices=measure.matrices[here],
            weights=measure.weights[here] / share,
            law=None,
            groups=None,
        )
        total += share**2 * float(((statistic(part) - value) ** 2).sum())
    return math.sqrt(total * len(labels) / (len(labels) - 1))
