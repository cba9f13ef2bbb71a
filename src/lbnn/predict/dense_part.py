"""Test points given draws that share no axes with the data: a table with missing cells, views.

No basis makes the Gaussian process given a scale diagonal. So each draw has a mean and a covariance of its
own at the test points, computed once from the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from lbnn._base.arrays import HOST, Device
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.likelihood.views import ViewLikelihood
from lbnn.predict.gaussian import checked_log_gaussian
from lbnn.predict.outputs import Outputs, Terms, group_deviations
from lbnn.scale.measure import ExtendableLaw, Law

_FLOATS = 1 << 22  # of the covariances of a block of points: 32 MB


@dataclass(frozen=True)
class DensePart(Outputs):
    """A posterior at p̂ test points, from the Gaussians given each draw of the scale.

    Attributes
    ----------
    shares_of_draws : (m,)
        Weights of the draws, normalised.
    means : (m, p̂, n_d)
        Given each draw.
    covariances : function of points (k,) -> (m, k, n_d, n_d)
        Across outputs at single points, given each draw, of the function.
    joint : function of the number of a draw -> (p̂ n_d, p̂ n_d)
        Over points and outputs, of the function.
    scales : (m, n_d, n_d)
        The draws.
    noise : (float, float)
        τ and ν: an observation given a draw L has noise of the covariance τ I + ν L.
    groups : (m,), optional
        Independent replicate of every draw.
    law : Law, optional
        The posterior behind the draws.
    extended : function of (point, values (n_d,), noise variance, ν) -> ViewLikelihood, optional
        Likelihood of the data and of one point with them. Where few draws count for a point, its log density
        is the log evidence of both less that of the data.
    """

    shares_of_draws: Array
    means: Array
    covariances: Callable[[IndexArray], Array]
    joint: Callable[[int], Array]
    scales: Array
    noise: tuple[float, float]
    groups: IndexArray | None = None
    law: Law | None = None
    extended: Callable[[int, Array, float, float], ViewLikelihood] | None = None

    @property
    def weights(self) -> Array:
        """Of the draws, (m,)."""
        return self.shares_of_draws

    def weighted(self, weights: Array) -> DensePart:
        return replace(self, shares_of_draws=weights, extended=None)

    @property
    def size(self) -> tuple[int, int]:
        """p̂ and n_d."""
        return self.means.shape[1], self.means.shape[2]

    @property
    def device(self) -> Device:
        """NumPy."""
        return HOST

    @property
    def deterministic(self) -> bool:
        """Whether there is one draw."""
        return len(self.weights) == 1

    @property
    def work(self) -> float:
        """Operations of a gradient of an integral at one point."""
        if self.extended is None or not isinstance(self.law, ExtendableLaw):
            return 0.0
        return self.extended(0, np.zeros(self.size[1]), self.noise[0], self.noise[1]).operations

    def taken(self, rows: IndexArray) -> DensePart:
        """At some of the points (k,)."""
        outputs, extended = self.size[1], self.extended
        cells = (rows[:, None] * outputs + np.arange(outputs)).ravel()
        return replace(
            self,
            means=self.means[:, rows],
            covariances=lambda some: self.covariances(rows[some]),
            joint=lambda number: self.joint(number)[np.ix_(cells, cells)],
            extended=None if extended is None else lambda point, *given: extended(int(rows[point]), *given),
        )

    def every(self, points: int) -> Iterator[slice]:
        """All draws."""
        return iter((slice(None),))

    # ------------------------------------------------------------------ moments

    @cached_property
    def _mean_sums(self) -> Array:
        """Σ weight times mean by groups of draws, in units of the network, (G, p̂, n_d)."""
        return np.stack([np.tensordot(self.weights[own], self.means[own], 1) for own in self._groups])

    @cached_property
    def _groups(self) -> list[IndexArray]:
        """Numbers of the draws (k,) of every group."""
        if self.groups is None:
            return [np.arange(len(self.weights))]
        return [np.flatnonzero(self.groups == group) for group in np.unique(self.groups)]

    @property
    def group_weights(self) -> Array:
        """(G,)."""
        return np.array([self.weights[own].sum() for own in self._groups])

    @property
    def mean(self) -> Array:
        """(p̂, q)."""
        return self.outward(self._mean_sums.sum(axis=0)) + self.offset

    @property
    def mean_error(self) -> Array:
        """Monte Carlo standard error of the mean, (p̂, q)."""
        apart = self.outward(group_deviations(self._mean_sums, self.group_weights))
        return np.asarray(np.sqrt((apart**2).sum(axis=0)))

    def seconds(self, full: bool, grouped: bool = False) -> Array:
        """Σ weight · second moments about the mean, by groups or in one: (G, p̂, q), or (G, p̂, q, q)."""
        points, outputs = self.size
        groups = self._groups if grouped else [np.arange(len(self.weights))]
        shape = (len(groups), points, *self.shape[1:]) + (self.shape[1:] if full else ())
        result, mean = np.empty(shape), self._mean_sums.sum(axis=0)
        for block in blocks(points, len(self.weights) * outputs**2, _FLOATS):
            rows = np.arange(points)[block]
            apart = self.means[:, rows] - mean[rows]
            squares = self.observed_covariances(rows) + apart[..., :, None] * apart[..., None, :]
            if self.matrix is not None:
                squares = self.matrix @ squares @ self.matrix.T
            values = squares if full else np.diagonal(squares, axis1=2, axis2=3)
            for number, own in enumerate(groups):
                result[number, rows] = np.tensordot(self.weights[own], values[own], 1)
        return result

    @property
    def _noise(self) -> Array:
        """τ I + ν L given each draw, (m, n_d, n_d) or (1, n_d, n_d)."""
        own = self.noise[0] * np.eye(self.size[1])[None]
        return own + self.noise[1] * self.scales if self.noise[1] else own

    def observed_covariances(self, rows: IndexArray) -> Array:
        """Across outputs at some points given each draw, with noise and level, (m, k, n_d, n_d)."""
        found = self.covariances(rows)
        return found + self.own * self._noise[:, None] if self.own else found

    def _joint_observed(self, number: int) -> Array:
        """Over points and outputs given one draw, with noise and level, (p̂ n_d, p̂ n_d)."""
        points = self.size[0]
        among = float(self.noisy) * np.eye(points) + self.level
        noise = self._noise
        return self.joint(number) + np.kron(among, noise[number if len(noise) > 1 else 0])

    @property
    def covariance(self) -> AnyArray:
        """Over points and outputs, (p̂, q, p̂, q)."""
        points, outputs = self.size
        apart = np.sqrt(self.weights)[:, None] * (self.means - self._mean_sums.sum(axis=0)).reshape(
            len(self.weights), -1
        )
        total = apart.T @ apart
        for number in np.flatnonzero(self.weights):
            total += self.weights[number] * self._joint_observed(int(number))
        total = total.reshape(points, outputs, points, outputs)
        if self.matrix is None:
            return total
        return np.einsum("aj,mjnk,bk->manb", self.matrix, total, self.matrix, optimize=True)

    # ------------------------------------------------------------------ Gaussians given draws

    def gaussians(self, full: bool = True) -> tuple[Array, Array]:
        """Means (m, p̂, q), and covariances (m, p̂, q, q) or deviations (m, p̂, q)."""
        covariances = self.observed_covariances(np.arange(self.size[0]))
        if self.matrix is not None:
            covariances = self.matrix @ covariances @ self.matrix.T
        means = self.outward(self.means) + self.offset
        return means, covariances if full else np.sqrt(np.diagonal(covariances, axis1=2, axis2=3))

    def point_terms(self, values: Array, some: Any) -> Array:
        """Log densities of values (p̂, q) at single points given draws, (m, p̂)."""
        covariances = self.observed_covariances(np.arange(self.size[0]))
        outputs, deviations = self.size[1], self.inner(values) - self.means
        flat = checked_log_gaussian(
            deviations.reshape(-1, outputs), covariances.reshape(-1, outputs, outputs)
        )
        return np.asarray((flat.reshape(deviations.shape[:2]) - self.log_volume)[some])

    def tail_terms(self, values: Array, some: Any, sign: float) -> Array:
        """Log probabilities below (sign 1) or above (−1) values (p̂,) of one output given draws, (m, p̂)."""
        means, deviations = self.gaussians(full=False)
        scores = (values - means[:, :, 0]) / deviations[:, :, 0]
        return np.asarray(special.log_ndtr(sign * scores)[some])

    def joint_terms(self, values: Array) -> Terms:
        """Log densities of values (p̂, q) at all points together given draws, (m, 1)."""
        inner = self.inner(values)
        found = np.full((len(self.weights), 1), -np.inf)
        for number in np.flatnonzero(self.weights):
            deviation = (inner - self.means[number]).reshape(1, -1)
            found[number] = checked_log_gaussian(deviation, self._joint_observed(int(number))[None])
        found -= len(values) * self.log_volume
        return lambda part, rows, some: found[some]

    def source_terms(self, source: Array, unit: complex) -> Terms:
        """Log E exp(unit tr JᵀF̂) given draws, (m, 1), for J (p̂, q)."""
        inner = (source if self.matrix is None else source @ self.matrix).ravel()
        linear = self.means.reshape(len(self.weights), -1) @ inner + (source * self.offset).sum()
        numbers = range(len(self.weights))
        spread = np.array([inner @ self._joint_observed(number) @ inner for number in numbers])
        found = (unit * linear + 0.5 * unit**2 * spread)[:, None]
        return lambda part, rows, some: found[some]

    def finite(self, source: Array) -> bool:
        """Of J (p̂, q): always for one Gaussian; else that depends on scales that no draw reaches."""
        if self.deterministic:
            return True
        raise ValueError(
            "moment generating functions are not available for draws without common axes, which do not say "
            "where they are infinite: use characteristic, which exists everywhere"
        )

    def evidence_of(self, values: Array) -> float | None:
        """Log density of values (1, q) at one point, as a difference of two log evidences, or None."""
        if self.extended is None or not isinstance(self.law, ExtendableLaw) or len(values) > 1:
            return None
        variance, coupling = self.noise
        joint = self.extended(0, self.inner(values)[0], self.own * variance, self.own * coupling)
        return self.law.log_ratio(joint) - self.log_volume

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """So many draws over points and outputs, (size, p̂, q)."""
        shares = self.weights / self.weights.sum()
        chosen, counts = np.unique(rng.choice(len(shares), size=size, p=shares), return_counts=True)
        parts = []
        for number, count in zip(chosen, counts, strict=True):
            values, vectors = np.linalg.eigh(self._joint_observed(int(number)))
            white = np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal((count, len(values)))
            parts.append(self.means[number] + (white @ vectors.T).reshape(count, *self.size))
        return self.outward(np.concatenate(parts)[rng.permutation(size)]) + self.offset
