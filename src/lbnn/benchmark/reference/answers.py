"""The answers of a task: expectations, evidence, phases; and the posterior behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn._base.warn import collected
from lbnn.benchmark.density.functions import Functions
from lbnn.benchmark.density.weights import WeightDensity
from lbnn.network import Network
from lbnn.posterior import Posterior
from lbnn.views.posterior import ViewPosterior

TARGET_ERROR = 0.02


@dataclass(frozen=True, eq=False)
class Expectations:
    """Posterior means and standard deviations of the functions of a task.

    Attributes
    ----------
    names : tuple of str
    mean, standard_deviation : (functions,) arrays
    error : (functions,) array
        Standard error of `mean`: zero for one output.
    skewness, kurtosis : (functions,) arrays
        Of single draws, estimated: they determine how many draws a mean needs to be nearly normal.
    """

    names: tuple[str, ...]
    mean: Array
    standard_deviation: Array
    error: Array
    skewness: Array
    kurtosis: Array

    def __repr__(self) -> str:
        """One line: how many, and how well they are known."""
        worst = float((self.error / self.standard_deviation).max())
        return f"Expectations({len(self.names)} functions, largest error {worst:.2g} standard deviations)"

    def __getitem__(self, name: str) -> tuple[float, float, float]:
        """Mean, standard deviation and error of one function."""
        if name not in self.names:
            raise KeyError(f"expectations are known of {', '.join(self.names)}; got {name!r}")
        index = self.names.index(name)
        return float(self.mean[index]), float(self.standard_deviation[index]), float(self.error[index])


@dataclass(frozen=True, eq=False)
class TaskPhases:
    """The phases of a task, from collapsed to fitted.

    With one output they are the modes of the density of log λ, cut at its minima (`cuts`). With several a
    phase is the number of fitted directions: eigenvalues l of L with g_max l > noise².
    """

    mass: Array
    error: Array
    fitted_directions: IndexArray
    cuts: Array  # of log λ; empty with several outputs
    threshold: float  # of an eigenvalue of L: noise²/g_max

    def __len__(self) -> int:
        return len(self.mass)

    def __repr__(self) -> str:
        """One line: masses and fitted directions."""
        parts = [f"mass {m:.4g}, {f} fitted" for m, f in zip(self.mass, self.fitted_directions, strict=True)]
        return f"TaskPhases({len(self)}: {'; '.join(parts)})"

    def of(self, scales: Array) -> IndexArray:
        """Index of the phase of every scale L (..., n_d, n_d); −1 for a number of directions without mass."""
        if scales.shape[-1] == 1:
            with np.errstate(divide="ignore"):
                return np.searchsorted(self.cuts, np.log(scales[..., 0, 0]))
        count = (np.linalg.eigvalsh(scales) > self.threshold).sum(-1)
        index = np.searchsorted(self.fitted_directions, count).clip(max=len(self) - 1)
        return np.where(self.fitted_directions[index] == count, index, -1)


@dataclass(frozen=True, eq=False)
class Answers:
    """All that a task stores beside its data."""

    grade: str
    expectations: Expectations
    log_evidence: float
    log_evidence_error: float
    phases: TaskPhases


def as_views(density: WeightDensity, X: Array) -> Array | None:
    """Views (p, M, n0) from their rows X (p M, n0); None for a task without views."""
    return X.reshape(-1, density.views, X.shape[1]) if density.views else None


class UnsupportedPosteriorError(ValueError):
    """A posterior whose diagnostics are not ok."""


def condition(
    functions: Functions, seed: int, target_error: float = TARGET_ERROR
) -> Posterior | ViewPosterior:
    """The posterior of a task; with several outputs or views two estimates have to agree."""
    density = functions.density
    single, views = density.channels == 1, as_views(density, density.X)
    network = Network(density.widths, density.prior_variances)
    beta, y = 1 / density.noise**2, density.Y[:, 0]
    posterior: Posterior | ViewPosterior
    with collected() as messages:
        if views is not None:
            posterior = network.condition_views(views, y, beta=beta, target_error=target_error, seed=seed)
        else:
            targets = y if single else density.Y
            posterior = network.condition(density.X, targets, beta=beta, target_error=target_error, seed=seed)
    if messages:
        told = "; ".join(messages)
        raise UnsupportedPosteriorError(f"a task needs a posterior that its diagnostics support, got {told}")
    estimates, ok = posterior.diagnostics.estimates, posterior.diagnostics.ok
    agree = len(estimates) > 1 and ok
    if not single and not agree:
        raise UnsupportedPosteriorError(
            f"a task with several outputs needs two estimates that agree, got {estimates}"
        )
    return posterior
