"""One posterior at test points: a mixture of Gaussians over its draws, and all sums over them.

Given a draw (`predict.process`) the outputs F M⁻ᵀ are independent. So variances, densities and draws are
those of numbers; outputs are F Aᵀ + offset, and a level, of so many times the noise's covariance, is shared
by all points. Averages of exponentials over quadrature nodes are integrals anew where nodes do not give them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import special

from lbnn._base.arrays import Device, device_of, eigh, like, namespace, times, to_numpy
from lbnn._base.types import AnyArray, Array, IndexArray
from lbnn.data.projection import RANK_TOLERANCE, Projection, positive_part
from lbnn.predict.outputs import LOG_TWO_PI, Outputs, Terms, group_deviations
from lbnn.predict.process import FLOATS, Process
from lbnn.scale.draws import Draws, Line

_LITTLE = 1e-9  # noise in units of the function's variance, which changes a log density by as much
_SMALLEST_SIZE = (
    1e-5  # of the function's variances, relative to the largest, to which such noise can be added
)
_GRAM_ROUNDING = 1e-11  # error of a Gram matrix relative to the noise, above which its root is decomposed

#: What is computed for every point, once.
_AT_POINTS = ("reference", "features", "squares", "rest")


class Evidence(Protocol):
    """Where more data with the own ones have a log evidence."""

    def log_density_of_rows(self, explained: Array, rest: Array, values: Array) -> float:
        """Of rows Φ (k, r), R (k, k) and values (k, n_d): the log evidence with them less that without."""
        ...


@dataclass(frozen=True)
class Rows:
    """Rows whose log density given a draw, of the covariance τ + g l or g l alone, is that of test points."""

    eigenvalues: Array  # (k,)
    targets: Array  # (k, n_d)
    with_data: bool  # with noise, and together with the data


@dataclass(frozen=True)
class Part(Outputs):
    """A posterior at p̂ test points, with a share of a mixture of several.

    Attributes
    ----------
    process : Process
    points : Projection
        Φ and R of the test points.
    evidence : Evidence, optional
        Log density of outlying points, integrated anew.
    """

    process: Process
    points: Projection
    evidence: Evidence | None = None

    @classmethod
    def of(cls, process: Process, points: Projection, evidence: Evidence | None = None) -> Part:
        """Test points, all of whose Gram matrix is unexplained without data."""
        nothing = process.prior or not points.explained.shape[1]
        return cls(process, points.without_data() if nothing else points, evidence=evidence)

    @property
    def draws(self) -> Draws:
        """Of signal and noise."""
        return self.process.draws

    @property
    def weights(self) -> Array:
        """Of the draws, (m,)."""
        return self.draws.weights

    @property
    def groups(self) -> IndexArray | None:
        """Independent replicate of every draw, (m,)."""
        return self.draws.groups

    def weighted(self, weights: Array) -> Part:
        process = self.process.weighted(weights)
        some = replace(self, process=process, evidence=None)
        vars(some).update({name: getattr(self, name) for name in _AT_POINTS})
        return some

    @property
    def deterministic(self) -> bool:
        """Whether the draws are quadrature nodes, or one."""
        return self.draws.deterministic

    @property
    def size(self) -> tuple[int, int]:
        """p̂ and n_d."""
        return self.points.explained.shape[0], self.draws.outputs

    @property
    def device(self) -> Device:
        """That of the test points."""
        return device_of(self.points.explained)

    @property
    def line(self) -> Line | None:
        """Of the draws."""
        return self.draws.line

    @property
    def group_weights(self) -> Array:
        """(G,)."""
        return self.process.group_weights

    def every(self, points: int) -> Iterator[slice]:
        """All draws, in blocks for so many points."""
        return self.process.every(points)

    def observed(self) -> Part:
        """Of observations."""
        if self.process.prior:
            raise ValueError("observations have finite variance only for beta > 0, got beta=0")
        return super().observed()

    @property
    def plane(self) -> bool:
        """Whether the function lies in a plane of outputs, to which the noise adds all other directions."""
        return self.draws.basis.shape[2] < self.draws.outputs

    def axes(self, some: Any) -> Array:
        """A M of some draws, (b, q, k)."""
        basis = self.draws.basis[some]
        return basis if self.matrix is None else self.matrix @ basis

    @cached_property
    def _spread(self) -> Array:
        """A Aᵀ, (q, q)."""
        return np.eye(self.shape[1]) if self.matrix is None else self.matrix @ self.matrix.T

    def taken(self, rows: IndexArray) -> Part:
        """At some of the points (k,)."""
        some = replace(self, points=self.points.taken(rows))
        known = vars(self)
        vars(some).update({name: known[name][rows] for name in _AT_POINTS if name in known})
        vars(some)["rest"] = self.rest[rows]
        return some

    # ------------------------------------------------------------------ products with test points, done once

    @cached_property
    def reference(self) -> Array:
        """Mean of the network at the middle of the draws, (p̂, n_d)."""
        return times(self.points.explained, self.process.reference)

    @property
    def start(self) -> Array:
        """The same in outputs, (p̂, q)."""
        return self.outward(self.reference) + self.offset

    @cached_property
    def features(self) -> Array:
        """Coefficients at the points for white means, (p̂, size)."""
        process, explained = self.process, self.points.explained
        if process.basis[1] is None:
            return to_numpy(explained) * process.front
        return times(explained, process.features())

    @cached_property
    def squares(self) -> Array:
        """Φ²/p in the basis, (p̂, K): times τ l ratio these are variances."""
        squares = self.points.explained**2
        inverse, P = 1 / self.process.middle[2], self.process.basis[1]
        return to_numpy(squares) * inverse if P is None else times(squares, inverse[:, None] * P)

    @cached_property
    def rest(self) -> Array:
        """diag R, (p̂,)."""
        return np.asarray(self.points.unexplained_diagonal, float)

    def white(self, some: Any) -> Array:
        """Means of the independent outputs less those at the middle, (p̂, b, k)."""
        columns = self.process.columns(some)
        flat = self.features @ columns.reshape(len(columns), math.prod(columns.shape[1:]))
        return np.asarray(flat.reshape(len(flat), *columns.shape[1:]))

    def variances(self, some: Any) -> Array:
        """Of the independent outputs, (p̂, b, k); without noise where this goes beyond their plane."""
        left = self.process.left(some)
        total = (self.squares @ left.reshape(len(left), -1)).reshape(-1, *left.shape[1:])
        total += self.rest[:, None, None] * self.draws.ratios[some]
        if self.own and not self.plane:
            total += self.own * self.draws.variances[some, None]
        return np.asarray(total)

    # ------------------------------------------------------------------ moments, by groups of draws

    @cached_property
    def _mean_change(self) -> Array:
        """Mean less that at the middle, (p̂, q)."""
        return self.outward(self.features @ self.process.mean_sums.sum(axis=0))

    @property
    def mean(self) -> Array:
        """(p̂, q)."""
        return self.start + self._mean_change

    @property
    def mean_error(self) -> Array:
        """Monte Carlo standard error of the mean, (p̂, q)."""
        apart = group_deviations(self.process.mean_sums, self.process.group_weights)
        apart = self.outward(apart)
        return np.sqrt(sum(((self.features @ each) ** 2 for each in apart), np.zeros(self.shape)))

    def _within(self, some: IndexArray, full: bool) -> Array:
        """Weighted sums of A M (A M)ᵀ times τ l ratio, l and τ of some draws: (K + 2, q, q), or diagonals."""
        axes, ratios = self.axes(some), self.draws.ratios[some]
        noise = np.broadcast_to(self.draws.variances[some, None], ratios.shape)
        factors = np.concatenate([self.process.left(some), ratios[None], noise[None]])
        factors *= self.weights[some, None]
        if not full:
            return np.tensordot(factors, (axes**2).transpose(0, 2, 1), 2)
        flat = axes.transpose(1, 0, 2).reshape(self.shape[1], -1)
        return np.stack([(flat * each.ravel()) @ flat.T for each in factors])

    def _deviations(self, some: IndexArray) -> Array:
        """√weight times means of some draws less their average, (b, p̂, q)."""
        means = self.white(some).transpose(1, 0, 2) @ self.axes(some).swapaxes(1, 2) - self._mean_change
        means *= np.sqrt(self.weights[some])[:, None, None]
        return np.asarray(means)

    def _moments(self, some: IndexArray) -> Array:
        """Second moments of √weight times coefficients of means less their average, (q, size, size)."""
        columns = self.process.columns(some).transpose(1, 0, 2) @ self.axes(some).swapaxes(1, 2)
        columns -= self.outward(self.process.mean_sums.sum(axis=0))
        columns *= np.sqrt(self.weights[some])[:, None, None]
        flat = columns.transpose(2, 1, 0)  # (q, size, b)
        return np.asarray(flat @ flat.swapaxes(1, 2))

    def _blocks(self, grouped: bool) -> Iterator[tuple[int, IndexArray]]:
        """Blocks (k,) of draws for work at the test points, with their group."""
        widest = max(self.shape[1], self.draws.basis.shape[2])
        return self.process.blocks(3 * (self.process.size + self.shape[0]) * widest, grouped)

    def seconds(self, full: bool, grouped: bool = False) -> Array:
        """Σ weight · second moments about the mean, by groups or in one: (G, p̂, q), or matrices (G, p̂, q, q).

        Where there are more points than coefficients, the spread of means is a quadratic form of moments of
        these.
        """
        (points, q), size = self.shape, self.process.size
        count = len(self.group_weights) if grouped else 1
        within: list[Any] = [0.0] * count
        spread: list[Any] = [0.0] * count
        draws, k = len(self.weights), self.draws.basis.shape[2]
        by_moments = not (full or grouped) and (draws + points) * size * q < draws * points * k
        for group, some in self._blocks(grouped):
            within[group] = within[group] + self._within(some, full)
            if by_moments:
                spread[group] = spread[group] + self._moments(some)
            elif full:
                flat = self._deviations(some).transpose(1, 2, 0)
                spread[group] = spread[group] + flat @ flat.swapaxes(1, 2)
            else:
                spread[group] = spread[group] + np.einsum("bpa,bpa->pa", *2 * (self._deviations(some),))
        if by_moments:
            spread = [
                np.stack([((self.features @ each) * self.features).sum(axis=1) for each in spread[0]], axis=1)
            ]
        own = np.full((points, 1), 0.0 if self.plane else self.own)
        features = np.concatenate([self.squares, self.rest[:, None], own], axis=1)
        total = np.stack([np.tensordot(features, a, 1) + b for a, b in zip(within, spread, strict=True)])
        if self.plane and self.own:
            noise = self.own * self._plane_noise * (self._spread if full else np.diagonal(self._spread))
            total += np.multiply.outer(self.group_weights if grouped else np.ones(1), noise)[:, None]
        return total

    @property
    def _plane_noise(self) -> float:
        """τ, which draws of a plane have in common."""
        return float(self.draws.variances[0])

    @property
    def covariance(self) -> AnyArray:
        """Over points and outputs, where the points are, (p̂, q, p̂, q)."""
        (points, q), process, explained = self.shape, self.process, self.points.explained
        within: Any = 0.0
        flat: AnyArray = 0.0
        for _, some in self._blocks(False):
            within = within + self._within(some, True)
            columns = like(self._deviations(some).reshape(len(some), -1), explained)
            flat = flat + columns.T @ columns
        P, noise = process.basis[1], within[-1]
        if self.plane:
            noise = self._plane_noise * self._spread
        along = within[:-2] if P is None else np.tensordot(P, within[:-2], 1)
        along = along / process.middle[2][:, None, None]
        xp, one = namespace(explained), device_of(explained).put(np.eye(points))
        shared = self.points.unexplained_gram
        parts = [
            shared * float(within[-2][a, c])
            + (explained * like(along[:, a, c], explained)) @ explained.T
            + (self.level + float(self.noisy) * one) * float(noise[a, c])
            for a in range(q)
            for c in range(q)
        ]
        total = xp.permute_dims(xp.reshape(xp.stack(parts), (q, q, points, points)), (2, 0, 3, 1))
        return total + xp.reshape(flat, (points, q, points, q))

    # ------------------------------------------------------------------ Gaussians given draws

    def gaussians(self, full: bool = True) -> tuple[Array, Array]:
        """Means (m, p̂, q), and covariances (m, p̂, q, q) or deviations (m, p̂, q)."""
        count, (points, q) = len(self.weights), self.shape
        means = np.empty((count, points, q))
        spread = np.empty((count, points, q, q) if full else (count, points, q))
        noise = self.own * self._plane_noise * self._spread if self.plane else np.zeros((q, q))
        for some in self.process.every(points):
            outward, variances = self.axes(some), self.variances(some).transpose(1, 0, 2)
            means[some] = self.white(some).transpose(1, 0, 2) @ outward.swapaxes(1, 2) + self.start
            if full:
                scaled = outward[:, None] * variances[:, :, None]
                spread[some] = scaled @ outward[:, None].swapaxes(2, 3) + noise
            else:
                spread[some] = np.sqrt(variances @ outward.swapaxes(1, 2) ** 2 + np.diagonal(noise))
        return means, spread

    def require_density(self, own: float) -> None:
        """Raise for the function behind a bottleneck, which has no density over all outputs."""
        if self.plane and not own:
            raise ValueError(
                "behind a hidden layer narrower than the outputs, noise-free outputs have no density here, "
                f"got scales of rank {self.draws.basis.shape[2]} for {self.draws.outputs} outputs: use "
                "with_noise()"
            )

    def point_terms(self, values: Array, some: Any) -> Array:
        """Log densities at points given draws, (b, P): −inf where a draw is singular.

        A point that every draw determines has no density.
        """
        self.require_density(self.own)
        draws = self.draws
        apart = self.inner(values) - self.reference
        side_by_side = draws.inverse[some].transpose(2, 0, 1).reshape(draws.outputs, -1)
        variances = self.variances(some)
        if self.plane:
            variances += self.own * self._plane_noise
        white = (apart @ side_by_side).reshape(variances.shape)
        positive = (variances > 0).all(axis=2) & np.isfinite(draws.log_volumes[some])
        if not positive.any(axis=1).all() and variances.shape[1]:
            self._refuse_determined()
        with np.errstate(divide="ignore", invalid="ignore"):
            deviations = white - self.white(some)
            logs = -0.5 * (LOG_TWO_PI + np.log(variances) + deviations**2 / variances).sum(axis=2)
        if self.plane:
            seen = white.transpose(1, 0, 2) @ draws.inverse[some]  # (b, P, n_d)
            missed = ((apart - seen) ** 2).sum(axis=2).T
            logs += _log_normal(missed, self.own * self._plane_noise, draws.outputs - variances.shape[2])
        logs = np.where(positive, logs - draws.log_volumes[some], -np.inf)
        return np.asarray(logs.T - self.log_volume)

    def _refuse_determined(self) -> None:
        """Raise where every draw determines the outputs at a point."""
        free = np.zeros(len(self.rest), bool)
        for some in self.process.every(len(free)):
            regular = np.isfinite(self.draws.log_volumes[some]) & (self.weights[some] > 0)
            free |= ((self.variances(some) > 0).all(axis=2) & regular).any(axis=1)
        if not free.all():
            raise ValueError(
                "outputs have a density only at points that the training data do not determine, got "
                f"{np.count_nonzero(~free)} points of variance zero: use with_noise()"
            )

    def tail_terms(self, values: Array, some: Any, sign: float) -> Array:
        """Log probabilities below (sign 1) or above (−1) values (P,) of one output, (b, P)."""
        outward = self.axes(some)[:, 0, 0]
        deviations = values[:, None] - self.start - self.white(some)[:, :, 0] * outward
        scores = deviations / np.sqrt(self.variances(some)[:, :, 0] * outward**2)
        return np.asarray(special.log_ndtr(sign * scores).T)

    # ------------------------------------------------------------------ joint densities

    def _joint_rows(self, values: Array) -> Rows | None:
        """Rows whose log density makes that of values (p̂, n_d) given draws; None where there are none.

        With noise p(Ŷ | Y) = p(Y, Ŷ)/p(Y). Without data, and at zero temperature, F̂ − E F̂ has the covariance
        R ⊗ L.
        """
        process, points = self.process, len(values)
        whitening = self._whitening(points)
        if whitening is not None:
            root, explained = whitening[0], to_numpy(self.points.explained)
            both = np.concatenate([process.targets, root @ values])
            return Rows(*self._joint_eigen(root @ explained, root, both), True)
        if self.draws.variances.any():  # of the function, or with a level alone
            return None
        g, axes = eigh(self.points.unexplained_gram)
        self._require_rank(int(positive_part(g, points).sum()))
        return Rows(g, times(axes.T, values - self.reference), False)

    def _require_rank(self, rank: int) -> None:
        """Raise where the function at some points follows from that at others, or from the data."""
        if rank < self.size[0]:
            raise ValueError(
                "outputs have a joint density only at points that neither others nor, at zero temperature,"
                f" the training data determine, got {self.size[0]} points of rank {rank}: use with_noise()"
            )

    def _whitening(self, points: int) -> tuple[Array, float] | None:
        """C = (noise + level 11ᵀ)^{−½} (k, k), which makes them noise of the data, and log det C."""
        if points == 1 and self.own and self.draws.variances.all():
            return np.full((1, 1), self.own**-0.5), -0.5 * math.log(self.own)
        if not self.noisy or not self.draws.variances.all():
            return None
        growth = 1 + points * self.level
        return np.eye(points) + (growth**-0.5 - 1) / points, -0.5 * math.log(growth)

    def _joint_eigen(self, explained: Array, root: Array, both: Array) -> tuple[Array, Array]:
        """Eigenvalues (r + k,) of the Gram matrix of data and test points, and targets along them.

        Of its root where signal is so much larger than noise that the matrix has lost its digits.
        """
        process, (size, variance, _) = self.process, self.process.middle
        g, rank = process.eigenvalues, len(process.eigenvalues)
        if (
            g.max()
            * max(size, float(self.weights @ self.draws.ratios.mean(axis=1)))
            / variance
            * np.finfo(float).eps
            > _GRAM_ROUNDING
        ):
            rest = _triangle((root @ to_numpy(self.points.unexplained_root)).T).T
            rows = np.zeros((rank + len(root), rank + rest.shape[1]))
            rows[np.arange(rank), np.arange(rank)] = np.sqrt(g)
            rows[rank:] = np.concatenate([explained, rest], axis=1)
            left, sizes, _ = np.linalg.svd(rows, full_matrices=True)
            values = np.zeros(len(rows))
            values[: len(sizes)] = sizes**2
        else:
            cross = np.sqrt(g) * explained
            below = explained @ explained.T + root @ to_numpy(self.points.unexplained_gram) @ root.T
            values, left = np.linalg.eigh(np.block([[np.diag(g), cross.T], [cross, below]]))
        return np.where(positive_part(values, len(values)), values, 0.0), left.T @ both

    def joint_terms(self, values: Array) -> Terms:
        """Log densities of values (p̂, q) at all points together given draws, (b, 1)."""
        whitening, inner = self._whitening(len(values)), self.inner(values)
        self.require_density(float(whitening is not None))
        rows, constant = self._joint_rows(inner), -len(values) * self.log_volume
        constant += 0.0 if whitening is None else whitening[1] * self.draws.outputs
        if rows is None:
            level = np.full((len(values), 1), math.sqrt(self.level))
            known = [to_numpy(each) for each in (self.points.explained, self.points.unexplained_root)]
            self._require_rank(int(np.linalg.matrix_rank(np.concatenate([*known, level], axis=1))))
            return lambda part, _, some: (part._dense_terms(inner, some) + constant)[:, None]
        missed = inner if whitening is None else whitening[0] @ inner
        return lambda part, _, some: (part._rows_terms(rows, missed, some) + constant)[:, None]

    def _rows_terms(self, rows: Rows, test: Array, some: Any) -> Array:
        """Log density of test rows (k, n_d), in units of their noise, given draws, (b,)."""
        draws = self.draws
        total = self.process.log_rows(rows.eigenvalues, rows.targets, some, rows.with_data)
        if rows.with_data:
            total -= self.process.log_data[some]
        if self.plane:
            inverse = draws.inverse[some]
            missed = test - (test @ inverse.swapaxes(1, 2)) @ inverse
            free = len(test) * (draws.outputs - inverse.shape[1])
            total += _log_normal((missed**2).sum(axis=(1, 2)), self._plane_noise, free)
        return np.where(
            np.isfinite(draws.log_volumes[some]), total - len(test) * draws.log_volumes[some], -np.inf
        )

    def has_pole(self, values: Array) -> bool:
        """Whether the function has infinite density at values (p̂, q): narrow layers, and values of low rank.

        Values without noise of rank q < n_d in p rows leave det(L)^{−p/2} on n_d − q outputs, which is
        bounded where the narrowest layer has n_d + p − q units.
        """
        if self.own or math.isinf(self.draws.narrowest) or self.draws.line is not None:
            return False
        rows = self.inner(values)
        rows = rows if self.draws.variances.any() else rows - self.reference
        rank = int(np.linalg.matrix_rank(rows))
        return rank < min(rows.shape) and self.draws.narrowest < sum(rows.shape) - rank

    def _dense_terms(self, inner: Array, some: Any) -> Array:
        """Log densities of function values (p̂, n_d) given draws, (b,), by factors of their covariances."""
        draws, process, points = self.draws, self.process, len(inner)
        explained, pole = to_numpy(self.points.explained), process.middle[2]
        rest = to_numpy(self.points.unexplained_root)
        if rest.shape[1] > points:
            rest = _triangle(rest.T).T
        apart = inner - self.reference
        result = np.empty(len(draws.weights[some]))
        every = np.arange(len(draws.weights))[some]
        left = process.ratio(some, np.arange(len(pole))) / pole[:, None, None]
        left *= draws.variances[some, None] * draws.ratios[some]  # (r, b, k)
        means = self.white(some)
        for number, s in enumerate(every):
            residuals = (apart @ draws.inverse[s].T - means[:, number]).T  # (k, p̂)
            seen = explained * np.sqrt(left[:, number].T)[:, None]
            free = rest * np.sqrt(draws.ratios[s])[:, None, None]
            shared = np.full((len(free), points, 1), math.sqrt(self.level * draws.variances[s]))
            factors = np.concatenate([seen, free, shared], axis=2).swapaxes(1, 2)
            roots = _triangle(factors)
            sizes = np.abs(np.diagonal(roots, axis1=1, axis2=2))
            result[number] = -np.inf
            if sizes.all():
                fit = np.linalg.solve(roots.swapaxes(1, 2), residuals[:, :, None])
                result[number] = -np.log(sizes).sum() - 0.5 * ((fit**2).sum() + inner.size * LOG_TWO_PI)
        return result - points * draws.log_volumes[some]

    # ------------------------------------------------------------------ generating functions

    def source_terms(self, source: Array, unit: complex) -> Terms:
        """Log E exp(unit tr JᵀF̂) given draws, (b, 1), for J (p̂, q)."""
        S = source if self.matrix is None else source @ self.matrix
        seen, total = times(self.points.explained.T, S), S.sum(axis=0)  # ΦᵀJA, (r, n_d)
        rest = S.T @ times(self.points.unexplained_gram, S)
        noise = self.level * np.outer(total, total) + float(self.noisy) * S.T @ S
        every = np.arange(len(seen))
        linear = float((seen * self.process.reference).sum() + (source * self.offset).sum())

        def terms(part: Part, _: IndexArray, some: Any) -> Array:
            """Of a part with these or other draws, (b, 1)."""
            process, draws = part.process, part.draws
            basis = draws.basis[some]  # (b, n_d, k)
            ratio = process.ratio(some, every)
            along = (seen @ basis.transpose(1, 0, 2).reshape(len(S.T), -1)).reshape(ratio.shape)
            white = process.targets @ draws.inverse[some].transpose(2, 0, 1).reshape(len(S.T), -1)
            change = (process.front[:, None, None] * ratio * white.reshape(ratio.shape) * along).sum(axis=0)
            mean = (change * process.excess(some)).sum(axis=1)
            variance = draws.variances[some, None]
            square = (along**2 * ratio / process.middle[2][:, None, None]).sum(axis=0) * variance
            square = (square + np.einsum("saj,ab,sbj->sj", basis, rest, basis, optimize=True)) * draws.ratios[
                some
            ]
            spread = square.sum(axis=1)
            if part.plane:
                spread = spread + np.trace(noise) * part._plane_noise
            else:
                spread = spread + (
                    np.einsum("saj,ab,sbj->s", basis, noise, basis, optimize=True) * variance[:, 0]
                )
            here = linear + ((process.reference - self.process.reference) * seen).sum()
            return np.asarray((unit * (here + mean) + 0.5 * unit**2 * spread)[:, None])

        return terms

    def finite(self, source: Array) -> bool:
        """Whether E exp(tr JᵀF̂), J (p̂, q), is finite: by the tail of L, of which JᵀRJ and ν L are seen."""
        rate, coupling = self.draws.rate, self.draws.coupling
        if rate is None:
            raise ValueError(
                "moment generating functions are not available for draws that do not say where they are "
                "infinite, got noise of its own: use characteristic, which exists everywhere"
            )
        if math.isinf(rate):
            return True
        S = source if self.matrix is None else source @ self.matrix
        S = S if self.draws.root is None else S @ np.linalg.inv(self.draws.root)
        seen, total = times(self.points.explained.T, S), S.sum(axis=0)
        hidden = (
            seen * np.sqrt(coupling / (self.process.eigenvalues + coupling))[:, None]
            if coupling
            else 0 * seen
        )
        free = S.T @ times(self.points.unexplained_gram, S) + hidden.T @ hidden
        free = free + coupling * (float(self.noisy) * S.T @ S + self.level * np.outer(total, total))
        largest = float(np.linalg.eigvalsh(free)[-1])
        size = largest + float(np.linalg.eigvalsh(seen.T @ seen)[-1])
        return largest <= RANK_TOLERANCE * len(S) * size or largest < rate

    # ------------------------------------------------------------------ averages of exponentials

    def along(self, terms: Terms, rows: IndexArray) -> Callable[[Array], Array]:
        """Terms (m, k) as a function of x = log λ of the line (m,)."""
        line = self.draws.line
        assert line is not None
        first = replace(self, process=self.process.with_draws(self.draws))

        def at(x: Array) -> Array:
            """At x (m,), (m, k)."""
            part = replace(first, process=first.process.with_draws(line.at(x)))
            vars(part).update({name: getattr(first, name) for name in _AT_POINTS})
            return np.concatenate([terms(part, rows, some) for some in part.process.every(len(rows))])

        return at

    # ------------------------------------------------------------------ outlying points, draws

    def evidence_of(self, values: Array) -> float | None:
        """Log density of values (p̂, q) at all points, as a difference of two log evidences, or None."""
        whitening = self._whitening(len(values))
        if whitening is None and not self.level:
            whitening = self._little_noise(len(values))
        if self.evidence is None or whitening is None:
            return None
        root, log_size = whitening
        single = len(values) == 1  # of which R is at hand
        rest = self.rest[None] if single else to_numpy(self.points.unexplained_gram)
        found = self.evidence.log_density_of_rows(
            root @ to_numpy(self.points.explained), root @ rest @ root.T, root @ self.inner(values)
        )
        return found + log_size * self.draws.outputs - len(values) * self.log_volume

    def _little_noise(self, points: int) -> tuple[Array, float] | None:
        """`_whitening` (k, k) of noise so small beside the function's variance that it does not matter."""
        variances, unit = self.draws.variances, np.eye(points)
        if not variances.all():
            return unit, 0.0
        likely = slice(best := int(self.weights.argmax()), best + 1)
        left = self.process.left(likely)[:, 0] / self.process.middle[2][self.process.basis[0], None]
        explained = to_numpy(self.points.explained)
        rest = self.rest[None] if points == 1 else to_numpy(self.points.unexplained_gram)
        P = self.process.basis[1]
        along = left if P is None else P @ left
        sizes = np.concatenate(
            [
                np.linalg.eigvalsh((explained * each) @ explained.T + ratio * rest)
                for each, ratio in zip(along.T, self.draws.ratios[best], strict=True)
            ]
        )
        if not sizes.min() > _SMALLEST_SIZE * sizes.max():
            return None
        share = _LITTLE * float(sizes.min()) / float(variances[best])
        return unit / math.sqrt(share), -0.5 * points * math.log(share)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """So many draws over points and outputs, (size, p̂, q), each given a draw of signal and noise."""
        points, q = self.shape
        explained, root = self.points.explained, self.points.unexplained_root
        result, process = (
            np.empty((size, points, q)),
            self.process.with_draws(self.draws.resampled(size, rng)),
        )
        part = replace(self, process=process)
        draws, every = process.draws, np.arange(len(process.eigenvalues))
        k, n_d, reference = draws.basis.shape[2], draws.outputs, times(explained, process.reference)
        each = (2 * len(every) + 3 * points + root.shape[1]) * max(k, q)
        step = max(1, FLOATS // each)
        for some in (slice(start, min(start + step, size)) for start in range(0, size, step)):
            count = len(draws.weights[some])
            ratio = process.ratio(some, every)
            variance, ratios = draws.variances[some, None], draws.ratios[some]
            white = (process.targets @ draws.inverse[some].transpose(2, 0, 1).reshape(n_d, -1)).reshape(
                ratio.shape
            )
            coefficients = process.front[:, None, None] * ratio * process.excess(some) * white
            spread = np.sqrt(ratio / process.middle[2][:, None, None] * variance * ratios)
            coefficients += spread * rng.standard_normal(spread.shape)
            drawn = _times(explained, coefficients)
            drawn += _times(root, rng.standard_normal((root.shape[1], count, k))) * np.sqrt(ratios)
            noise_axes = n_d if self.plane else k
            noise = math.sqrt(self.level) * rng.standard_normal((1, count, noise_axes))
            noise = noise + float(self.noisy) * rng.standard_normal((points, count, noise_axes))
            noise = noise * np.sqrt(variance)
            outward = part.axes(some).swapaxes(1, 2)
            result[some] = (drawn if self.plane else drawn + noise).transpose(1, 0, 2) @ outward + self.offset
            result[some] += self.outward(reference)
            if self.plane and self.own:
                result[some] += self.outward(noise.transpose(1, 0, 2))
        return result


def _times(features: AnyArray, coefficients: Array) -> Array:
    """Features (p̂, r) times coefficients (r, b, k), (p̂, b, k)."""
    flat = times(features, coefficients.reshape(len(coefficients), math.prod(coefficients.shape[1:])))
    return flat.reshape(len(flat), *coefficients.shape[1:])


def _triangle(rows: Array) -> Array:
    """R of rows (..., m, n), (..., min(m, n), n)."""
    return np.asarray(np.linalg.qr(rows, mode="r"), float)


def _log_normal(squares: Array, variance: float, count: int) -> Array:
    """Log density (b, ...) of so many independent numbers with sums of squares (b, ...)."""
    return np.asarray(-0.5 * (squares / variance + count * (LOG_TWO_PI + math.log(variance))))
