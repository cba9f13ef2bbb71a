"""The saddle point of a network seen through views, beside the exact answer: from which width it serves."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.network import TARGET_ERROR, Network, Seed
from lbnn.theories.discrepancy import Discrepancy
from lbnn.theories.view_saddle import ViewSaddle, view_saddle
from lbnn.views.posterior import ViewPosterior

_WIDEST = 1 << 12  # from which narrower networks are tried
_THEORY = "saddle"


@dataclass(frozen=True)
class ViewComparison:
    """The saddle point of a network seen through views against its posterior. Returned by `lbnn.compare`.

    Attributes
    ----------
    exact : ViewPosterior
    saddle : ViewSaddle
    rows : tuple of Discrepancy
        Of the scale L, of predictive means and variances (relative, as norms), and of the log evidence (a
        difference).
    """

    exact: ViewPosterior
    saddle: ViewSaddle
    rows: tuple[Discrepancy, ...]
    network: Network
    views: Array
    observations: Array
    beta: float

    def error(self, quantity: str) -> float:
        """The error in "scale", "mean", "variance" or "log evidence"."""
        for row in self.rows:
            if row.quantity == quantity:
                return row.error
        known = tuple(row.quantity for row in self.rows)
        raise ValueError(f"quantity must be one of {known}, got {quantity!r}")

    def __repr__(self) -> str:
        """One line: the exact side and the errors of the saddle."""
        errors = ", ".join(f"{row.quantity} {row.error:.2g}" for row in self.rows)
        return f"ViewComparison(widths={self.network.widths}, channels={self.exact.prior.outputs}: {errors})"

    def _repr_html_(self) -> str:
        """The table, for notebooks."""
        return f"<pre>{escape(self.table())}</pre>"

    def table(self) -> str:
        """One line for each quantity: the error of the saddle, and how well the exact answer is known."""
        lines = [f"{'quantity':14}{'saddle':>12}{'Monte Carlo':>14}"]
        lines += [f"{row.quantity:14}{row.error:>12.2g}{row.monte_carlo:>14.1g}" for row in self.rows]
        return "\n".join(lines)

    def width_within(self, tolerance: float = 0.01, *, target_error: float = 0.03, seed: Seed = 0) -> int:
        """The smallest power of two from which, as a width, the saddle has the trace of E L.

        Parameters
        ----------
        tolerance : float
            Of the trace, relative.
        target_error, seed
            As in `Network.condition`, for the exact answers, whose Monte Carlo errors should be well below
            the tolerance. Answers that are not ok warn.

        Returns
        -------
        int

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> views = lbnn.views.patches(rng.normal(size=(20, 4)), size=2, stride=2)
        >>> y = views[:, 0].sum(axis=1) + 0.1 * rng.normal(size=20)
        >>> comparison = lbnn.compare(lbnn.Network(widths=(4,)), views, y, beta=100.0)
        >>> comparison.width_within(0.02) >= 16
        True
        """
        wanted = float(check.probability(tolerance, "tolerance"))
        found, width = None, _WIDEST
        while width >= 1 and self._trace_error(width, target_error, seed) <= wanted:
            found, width = width, width // 2
        if found is None:
            raise ValueError(
                f"at width {_WIDEST} the saddle is not yet within {wanted:g} of the trace of E L"
            )
        return found

    def _trace_error(self, width: int, target_error: float, seed: Seed) -> float:
        """|tr L at the saddle / tr E L − 1| with another number of hidden units."""
        network = Network((width,), self.network.prior_variances)
        exact = network.condition_views(
            self.views, self.observations, self.beta, target_error=target_error, seed=seed
        )
        saddle = view_saddle(network, self.views, self.observations, self.beta)
        return abs(float(np.trace(saddle.scale)) / float(np.trace(exact.scale.mean)) - 1)


def compare_views(
    network: Network,
    views: ArrayLike,
    y: ArrayLike,
    beta: float,
    views_test: ArrayLike | None = None,
    *,
    target_error: float = TARGET_ERROR,
    seed: Seed = 0,
) -> ViewComparison:
    """`lbnn.compare` with views (p, M, n0): the saddle point of one hidden layer, and the exact posterior."""
    saddle = view_saddle(network, views, y, beta)
    array, observations = check.real_array(views, "views"), check.real_array(y, "y")
    exact = network.condition_views(array, observations, beta, target_error=target_error, seed=seed)
    if not isinstance(exact, ViewPosterior):
        raise ValueError(
            f"theories of views are compared for two views and more, got views.shape={array.shape}: "
            "lbnn.compare(network, views[:, 0], y, beta)"
        )
    test = array if views_test is None else check.real_array(views_test, "views")
    own, theirs = exact.predict(views=test), saddle.predict(test)
    weights, means, deviations = own.marginals(slice(None))
    squares = deviations**2 + (means - own.mean[:, None]) ** 2  # one output: (atoms, points, 1)
    scale_error = _error_of_mean(exact.scale.weights, exact.scale.scales)
    rows = (
        _relative("scale", saddle.scale, np.asarray(exact.scale.mean), scale_error),
        _relative("mean", theirs.mean, own.mean, _error_of_mean(weights, means)),
        _relative("variance", theirs.variance, own.variance, _error_of_mean(weights, squares)),
        Discrepancy(
            _THEORY, "log evidence", saddle.log_evidence - exact.log_evidence, exact.log_evidence_error
        ),
    )
    return ViewComparison(exact, saddle, rows, network, array, observations, float(beta))


def _relative(quantity: str, given: Array, exact: Array, error: Array) -> Discrepancy:
    size = float(np.linalg.norm(exact))
    return Discrepancy(
        _THEORY, quantity, float(np.linalg.norm(given - exact)) / size, float(np.linalg.norm(error)) / size
    )


def _error_of_mean(weights: Array, values: Array) -> Array:
    """Standard errors of the weighted mean of values (m, ...), (...)."""
    centred = values - np.average(values, axis=0, weights=weights)
    return np.sqrt(np.average(centred**2, axis=0, weights=weights**2) * (weights**2).sum())
