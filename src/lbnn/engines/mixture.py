"""A mixture of Student laws over the modes of a posterior, each in a frame of its own, and the prior.

Student tails are heavier than those of the posterior, so that the weights stay bounded where a Gaussian's
would not; a part that is close to the prior keeps them bounded everywhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import special

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.quasi_random import uniform_points
from lbnn._base.types import Array, IndexArray
from lbnn.engines.total_target import Space
from lbnn.scale.bartlett import BartlettCoordinates
from lbnn.scale.total_factor import TotalFactorLaw

_FEWEST_DEGREES = 5.0
_EXTRA = 2  # uniforms beside those of the coordinates: choice of the part, radius of the Student law


class Part(Protocol):
    """One part of the mixture: a law of θ in a frame."""

    @property
    def frame(self) -> Array:
        """Orthonormal axes of the outputs, as columns."""
        ...

    def place(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Draws of θ from uniforms (m, dimension + 1)."""
        ...

    def log_density(self, theta: Array) -> Array:
        """Log density of θ, (m,)."""
        ...


@dataclass(frozen=True)
class StudentPart:
    """Student's law around a mode: θ = mean + root ξ."""

    frame: Array
    mean: Array  # (dimension,)
    root: Array  # (dimension, dimension)

    @property
    def degrees(self) -> float:
        """Degrees of freedom: with the dimension, since heavy tails cost draws in many dimensions."""
        return max(_FEWEST_DEGREES, float(len(self.mean)))

    @cached_property
    def _inverse_root(self) -> Array:
        return np.asarray(np.linalg.inv(self.root), float)

    @cached_property
    def _log_constant(self) -> float:
        degrees, dimension = self.degrees, len(self.mean)
        gammas = math.lgamma((degrees + dimension) / 2) - math.lgamma(degrees / 2)
        log_root = float(np.linalg.slogdet(self.root)[1])
        return gammas - dimension / 2 * math.log(degrees * math.pi) - log_root

    def place(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Normal draws over the root of a χ² draw, from quantiles."""
        square = 2 * special.gammaincinv(self.degrees / 2, uniform[:, -1:]) / self.degrees
        return self.mean + (special.ndtri(uniform[:, :-1]) / np.sqrt(square)) @ self.root.T

    def square_distance(self, theta: Array) -> Array:
        """‖ξ‖² at θ, (m,)."""
        return (((theta - self.mean) @ self._inverse_root.T) ** 2).sum(axis=1)

    def log_density(self, theta: Array) -> Array:
        """Log density of θ, (m,)."""
        power = (self.degrees + len(self.mean)) / 2
        return self._log_constant - power * np.log1p(self.square_distance(theta) / self.degrees)


@dataclass(frozen=True)
class PriorPart:
    """A law close to the prior of T."""

    frame: Array
    law: TotalFactorLaw

    def place(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Plain draws: the law has no simple quantiles."""
        return self.law.draw_typical(len(uniform), rng)

    def log_density(self, theta: Array) -> Array:
        """Log density of θ, (m,)."""
        return self.law.log_drawn(theta)


@dataclass(frozen=True)
class Mixture:
    """Parts with their shares."""

    space: Space
    parts: tuple[Part, ...]
    shares: Array  # (parts,), sum 1
    modes: int = 0  # how many of the first parts stand for modes
    tails: bool = False  # whether there are parts for means of L that live in a tail

    def log_densities(self, roots: Array) -> Array:
        """Log density of every part at scales given by roots, in the frameless measure, (m, parts)."""
        columns = []
        for part in self.parts:
            theta = self.space.seen_from(roots, part.frame)
            inside = np.isfinite(theta).all(axis=1)
            column = np.full(len(roots), -np.inf)
            column[inside] = part.log_density(theta[inside]) - self.space.log_volume(theta[inside])
            columns.append(column)
        return np.stack(columns, axis=1)

    def labels(self, roots: Array) -> IndexArray:
        """The part that is most responsible for each of the scales given by roots, (m,)."""
        with np.errstate(divide="ignore"):  # a part may have no share
            return np.argmax(self.log_densities(roots) + np.log(self.shares), axis=1)

    def start(self, coordinates: BartlettCoordinates) -> Array:
        """u of the first part's centre with inner factors at typical values, (D,)."""
        part, law = self.parts[0], TotalFactorLaw(coordinates.shapes)
        assert isinstance(part, StudentPart)
        return coordinates.locate(law.typical_factors(part.mean[None]))[0]

    def sample(self, size: int, groups: int, rng: np.random.Generator) -> MixtureSample:
        """Weighted points in independent groups of so many each: shifted Sobol points through the parts."""
        dimension = self.space.dimension + _EXTRA
        uniform = np.concatenate([uniform_points(size, dimension, stream) for stream in rng.spawn(groups)])
        bounds = np.cumsum(self.shares)
        chosen = np.minimum(np.searchsorted(bounds, uniform[:, 0]), len(self.parts) - 1)
        thetas = np.empty((len(uniform), self.space.dimension))
        log_posterior = np.empty(len(uniform))
        points = np.empty((len(uniform), self.space.target.dimension))
        pieces: list[tuple[IndexArray, Array]] = []
        for index, (part, stream) in enumerate(zip(self.parts, rng.spawn(len(self.parts)), strict=True)):
            here = np.flatnonzero(chosen == index)
            thetas[here] = part.place(uniform[here, 1:], stream)
            evaluated = self.space.evaluate(thetas[here], part.frame, stream)
            pieces.append((here, self.space.roots(thetas[here], part.frame)))
            log_posterior[here], points[here] = evaluated.log_posterior, evaluated.points
        roots = np.empty((len(uniform), *pieces[0][1].shape[1:]))
        for here, own in pieces:
            roots[here] = own
        return MixtureSample(self, roots, points, log_posterior, np.repeat(np.arange(groups), size))


@dataclass(frozen=True)
class MixtureSample:
    """Points of a mixture with the posterior there."""

    mixture: Mixture
    roots: Array  # O T, (m, n, r)
    points: Array  # u, (m, D)
    log_posterior: Array  # (m,)
    groups: IndexArray

    @cached_property
    def log_densities(self) -> Array:
        """Log density of every part, (m, parts)."""
        usable = np.isfinite(self.log_posterior) & np.isfinite(self.roots).reshape(len(self.roots), -1).all(
            axis=1
        )
        result = np.zeros((len(usable), len(self.mixture.parts)))
        result[usable] = self.mixture.log_densities(self.roots[usable])
        return result

    @cached_property
    def log_mixture(self) -> Array:
        """Log density of the mixture, (m,)."""
        return log_sum_exp(self.log_densities, axis=1, weights=self.mixture.shares)

    @property
    def responsibilities(self) -> Array:
        """Share of every part in the density of the mixture at every point, (m, parts)."""
        seen = np.where(np.isfinite(self.log_mixture), self.log_mixture, np.inf)
        return self.mixture.shares * np.exp(self.log_densities - seen[:, None])

    @cached_property
    def log_weights(self) -> Array:
        """Posterior over mixture, in logs, (m,); −inf where a draw has left double precision."""
        return np.where(np.isfinite(self.log_mixture), self.log_posterior - self.log_mixture, -np.inf)
