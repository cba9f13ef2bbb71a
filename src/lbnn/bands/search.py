"""Directions of a block of targets: the integrals along them, and the prior between them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from lbnn._base.arrays import device_of, free_floats, namespace, take, to_numpy
from lbnn._base.threads import on_every_core, one_ahead
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.bands.data import BandKernels, BandTargets
from lbnn.bands.direction_sums import Group
from lbnn.bands.prior import BandPriors, PriorTable
from lbnn.bands.quadrature import QUICK, Directions, Line
from lbnn.bands.simplex import Rule, face_directions, log_directions

#: Floors of the coordinates of interpolation for a band of white noise, by τ/s of the targets.
_FLOORS = np.array([1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001])
_PRIOR_STEP = math.log(3.0)  # of the logs of floors that are set by priors


class Search:
    """The directions of a block of targets, and the integrals along them."""

    def __init__(
        self, kernels: BandKernels, targets: BandTargets, priors: BandPriors, target_error: float
    ) -> None:
        self.kernels, self.targets, self.priors, self.target_error = kernels, targets, priors, target_error
        self.device = device_of(targets.values)
        self.log_theta: list[Array] = []
        self.lines: dict[int, Line] = {}  # those that are still there in the second pass
        self._room = free_floats(self.device) // 2

    @property
    def price(self) -> float:
        """Cost of an eigendecomposition in units of that of a target along a direction.

        Operations of `eigh` count 10 r³ on the host and 50 r³ on other devices; a target has 2r² of
        projections and nodes that take the time of some 3·10⁵ (measured at r = 30 to 500 on one core, 2000 on
        an H200).
        """
        rank = self.kernels.rank
        return (10.0 if self.device.host else 50.0) * rank**3 / (2 * rank**2 + 3e5)

    def chunk(self, points: int) -> int:
        """Targets whose values at so many points are held at a time."""
        return max(1, self.device.block_floats * (16 if self.device.host else 1) // points)

    def floors(self, log_scale: Array, log_noise: Array, columns: IndexArray) -> Array:
        """Logs (V, K) of the shares θ_k of the signal at which a band begins to matter, in coarse steps.

        For targets (V,) with these logs of the total scale and of the noise variance. To the likelihood it
        matters where its variance along its own eigenvectors, tr G²/tr G times s θ_k, is that of the noise:
        as a function of θ_k the likelihood is singular at −τ/(s g) for eigenvalues g of the band. To the
        prior it matters where s θ_k is the prior mean of λ_k: from there on a larger θ_k makes s smaller.
        Below, the log density of log λ_k is a straight line.
        """
        levels = np.log(_FLOORS)
        nearest = levels[np.argmin(np.abs(log_noise - log_scale - levels[:, None]), axis=0)]
        noise = nearest[:, None] + self._whiteness
        units = to_numpy(self.targets.log_units)[columns]
        prior = self._prior_means - (log_scale + units)[:, None]
        return np.where(prior < noise, _PRIOR_STEP * np.floor(prior / _PRIOR_STEP), noise)

    @cached_property
    def _prior_means(self) -> Array:
        """Logs of the prior means of λ_k, (K,), for kernels of mean diagonal one."""
        return np.array([law.shift for law in self.priors.laws]) + self.priors.log_sizes

    @cached_property
    def _whiteness(self) -> Array:
        """Logs of tr G/tr G², (K,), one for white noise."""
        xp = namespace(self.kernels.grams[0])
        squares = np.array([float(xp.sum(gram * gram)) for gram in self.kernels.grams])
        return np.asarray(np.log(self.kernels.examples / squares), np.float64)

    @cached_property
    def _tables(self) -> tuple[PriorTable, ...]:
        return self.priors.each(QUICK.table_step, self.device)

    def log_prior(self, log_theta: Array, log_scale: AnyArray, columns: IndexArray) -> AnyArray:
        """Σ_k log π_k(log s + log θ_k) for directions (M, K) and log s (M, v) of some targets (v,)."""
        xp, put = namespace(log_scale), self.device.put
        x = log_scale + take(self.targets.log_units, put(columns), axis=0)[None, :]
        total = xp.zeros_like(x)
        for k, table in enumerate(self._tables):
            total = total + table.value(x + put(np.ascontiguousarray(log_theta[:, k]))[:, None], xp)
        return total

    def with_faces(self, group: Group) -> Group:
        """The group with the directions on the faces of the simplex, the first of all."""
        faces = face_directions(len(self.kernels.used))
        numbers, found = self._along(group, faces)
        return replace(group, faces=faces, numbers=numbers, found=found)

    def with_rule(self, group: Group, rule: Rule) -> Group:
        """The group with the points of a further rule, or with the further ones of the last."""
        again = bool(group.rules) and group.rules[-1].shift is rule.shift
        new = rule.points[len(group.rules[-1].points) if again else 0 :]
        numbers, found = self._along(group, log_directions(new))
        both = [each for each in (group.found, found) if each is not None]
        all_found = both[0] if len(both) == 1 else namespace(found).concat(both, axis=1)
        rules = (*(group.rules[:-1] if again else group.rules), rule)
        return replace(group, rules=rules, numbers=np.concatenate([group.numbers, numbers]), found=all_found)

    def _along(self, group: Group, logs: Array) -> tuple[IndexArray, AnyArray]:
        """Numbers (n,) of directions log θ (n, K), and what is found along them for targets, (13, n, V)."""
        everything = len(group.columns) == self.targets.count
        targets = self.targets if everything else self.targets.some(group.columns)
        directions = Directions(self.kernels, targets, self.priors)
        found: list[AnyArray | None] = [None] * len(logs)
        before, xp = len(self.log_theta), directions.xp

        def integrate(number: int, line: Line) -> None:
            if (1 + len(self.lines)) * self.kernels.rank**2 <= self._room:
                self.lines[before + number] = line
            conditional = directions.given(line)
            found[number] = xp.stack([conditional.log_integral, *conditional.moments(xp)])

        if self.device.host:
            integrate(0, directions.line(logs[0]))  # sets the range of the lattice
            on_every_core(
                lambda number: integrate(number, directions.line(logs[number])), range(1, len(logs))
            )
        else:
            for number, line in enumerate(one_ahead(directions.line, list(logs))):
                integrate(number, line)
        self.log_theta.extend(logs)
        return before + np.arange(len(logs)), xp.stack(found, axis=1)
