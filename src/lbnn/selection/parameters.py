"""Which hyperparameters are free: h = base + M φ, and where φ is searched."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lbnn._base.types import Array
from lbnn.selection.data import EvidenceData

#: Noise variances are searched between these multiples of the variance of the targets, ...
NOISE_RANGE = (1e-10, 10.0)
#: ... and the ratio of signal to noise, κ · mean eigenvalue of G, between these.
RATIO_RANGE = (1e-8, 1e15)

AT_EDGE = 0.5  # distance of a logarithm from the end of its range


@dataclass(frozen=True)
class NoiseSpec:
    """What is given and what the evidence chooses; None means free.

    Variances are those of the targets in the units of the search.
    """

    noise_variance: float | None = None  # geometric mean over outputs; 0 at zero temperature
    prior_scale: float | None = None
    per_output: bool = False  # whether outputs have noise units of their own
    coupled: bool = False  # whether noise passes through the network

    @property
    def noise(self) -> str:
        """The kind of noise by name."""
        if self.coupled:
            return "coupled_per_output" if self.per_output else "coupled"
        return self.units

    @property
    def units(self) -> str:
        """The kind of noise at infinite width, where coupled noise is independent noise."""
        return "per_output" if self.per_output else "independent"


@dataclass(frozen=True)
class FreeParameters:
    """The affine map φ ↦ h = (log u, log κ) and the box of φ."""

    base: Array  # (n_d + 1,)
    directions: Array  # M, (n_d + 1, k)
    lower: Array  # (k,)
    upper: Array  # (k,)

    @property
    def count(self) -> int:
        """Number of free parameters, k."""
        return len(self.lower)

    def at(self, phi: Array) -> Array:
        """The hyperparameters h = base + M φ, (n_d + 1,), of φ (k,)."""
        return self.base + (phi if self._plain else self.directions @ phi)

    def inside(self, phi: Array) -> Array:
        """The nearest point (k,) of the box."""
        return np.clip(phi, self.lower, self.upper)

    def nearest(self, h: Array) -> Array:
        """The φ (k,) of the box whose h is nearest to a given one (n_d + 1,)."""
        if not self.count:
            return np.zeros(0)
        return self.inside(h - self.base if self._plain else self._inverse @ (h - self.base))

    def along(self, curvature: Array) -> Array:
        """Second derivatives (n_d + 1, n_d + 1) in h as those in φ, Mᵀ C M (k, k)."""
        return curvature if self._plain else self.directions.T @ curvature @ self.directions

    @cached_property
    def _plain(self) -> bool:
        """Whether M = I: products with it would take most of the time where there are many outputs."""
        square = self.directions.shape[0] == self.directions.shape[1]
        return square and np.array_equal(self.directions, np.eye(len(self.directions)))

    @cached_property
    def _inverse(self) -> Array:
        """Pseudoinverse of M, (k, n_d + 1)."""
        return np.asarray(np.linalg.pinv(self.directions), float)

    def on_edge(self, phi: Array) -> bool:
        """Whether φ (k,) is at the edge of the box, or so near that the evidence has become flat."""
        return bool((np.minimum(phi - self.lower, self.upper - phi) < AT_EDGE).any())


def free_parameters(data: EvidenceData, spec: NoiseSpec) -> FreeParameters:
    """The parameters that a specification leaves to the evidence.

    The prior scale in the units of the targets is κ times the geometric mean of the u_j: where it is given,
    log κ = log(prior scale) − mean log u.
    """
    outputs = data.outputs
    units, log_variance = _unit_directions(data, spec)
    base, columns = np.zeros(outputs + 1), np.zeros((outputs + 1, units.shape[1]))
    base[:-1], columns[:-1] = _given_units(data, spec), units
    lower = log_variance + math.log(NOISE_RANGE[0])
    upper = log_variance + math.log(NOISE_RANGE[1])
    if spec.noise_variance is not None:  # deviations of log u from its mean
        lower, upper = lower - log_variance, upper - log_variance - math.log(NOISE_RANGE[0])
    if spec.prior_scale is not None:
        base[-1] = math.log(spec.prior_scale) - base[:-1].mean()
        columns[-1] = -columns[:-1].mean(axis=0)
        return FreeParameters(base, columns, lower, upper)
    log_mean = math.log(float(data.spectrum.eigenvalues.mean())) if data.spectrum.rank else 0.0
    scale = np.zeros((outputs + 1, 1))
    scale[-1] = 1.0
    ends = [math.log(end) - log_mean for end in RATIO_RANGE]
    return FreeParameters(
        base, np.hstack([columns, scale]), np.append(lower, ends[0]), np.append(upper, ends[1])
    )


def target_variances(data: EvidenceData) -> Array:
    """Mean square of each output, (n_d,); outputs without any variation take the average of the others."""
    squares = ((data.spectrum.targets**2).sum(axis=0) + data.residuals) / max(data.spectrum.examples, 1)
    average = float(squares.mean())
    return np.where(squares > 0, squares, average if average > 0 else 1.0)


def _unit_directions(data: EvidenceData, spec: NoiseSpec) -> tuple[Array, Array]:
    """Directions of log u (n_d, k) and the log variances of the targets that each stands for (k,)."""
    outputs, variances = data.outputs, target_variances(data)
    if not spec.per_output:
        free = spec.noise_variance is None
        return np.ones((outputs, int(free))), np.full(int(free), math.log(float(variances.mean())))
    if spec.noise_variance is None:
        return np.eye(outputs), np.log(variances)
    return np.eye(outputs) - 1 / outputs, np.log(variances)


def _given_units(data: EvidenceData, spec: NoiseSpec) -> float:
    """log u where it is given; without noise the units of the data themselves."""
    if spec.noise_variance is None:
        return 0.0
    given = spec.noise_variance or float(target_variances(data).mean())
    return math.log(given)
