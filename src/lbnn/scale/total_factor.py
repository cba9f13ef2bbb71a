"""The total factor T = T_d ⋯ T_2 of L = T Tᵀ: all of the network above its first layer that meets the data.

θ holds the logs of the diagonal of T and its entries below, n_d(n_d + 1)/2 numbers at every depth. The inner
factors are integrated by drawing them given T, which is possible exactly, row by row:

- the diagonal entries of T are products of independent χ variables, T_ii = Π_ℓ (T_ℓ)_ii; their law is known
  (`DiagonalLaw`), and so is that of the parts given the product;
- given the diagonals of row i, and the rows above it in every factor, what row i of T has to the left of the
  diagonal is Gaussian with mean zero: Σ_ℓ A_ℓ b_ℓᵀ P_ℓ, with b_ℓ the entries of row i of T_ℓ, A_ℓ the product
  of the diagonal entries (i, i) of the factors above T_ℓ, and P_ℓ the product of the factors below it.

So the prior density of T is Π_i p(T_ii) · E Π_i N(row i; 0, V_i), the mean being over inner factors. With one
hidden layer there are none. Behind a narrow layer T_d and T are lower trapezoidal, the other factors square:
rows below the square block of T are those of T_d times all others, and Gaussian given these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special, stats

from lbnn._base.log_sums import log_sum_exp
from lbnn._base.small_matrices import lower_root, solve_transposed, solve_upper, triangular_root
from lbnn._base.types import Array
from lbnn.scale.bartlett import FactorShape
from lbnn.scale.diagonal_law import DiagonalLaw

_TAIL = 4.0  # degrees of freedom of the Student law that stands for rows of T under the prior


@dataclass(frozen=True)
class InnerDraws:
    """Prior density of T at θ as averages over inner factors, and one draw of all factors for each θ."""

    log_density: Array  # (m,)
    factors: list[Array]  # T_d, ..., T_2 with product T, each (m, rows, columns)


class TotalFactorLaw:
    """Prior law of T = T_d ⋯ T_2 (n, r) for the given factors: T_d (n, r) first, then (r, r) each."""

    def __init__(self, shapes: tuple[FactorShape, ...]) -> None:
        self.shapes = shapes
        self.rows, self.columns = shapes[0].rows, shapes[-1].columns
        self.scales = np.array([shape.variance / shape.width for shape in shapes])  # s_ℓ
        self.diagonal = np.arange(self.columns)
        self.below = np.tril_indices(self.rows, -1, self.columns)
        self.dimension = self.columns + len(self.below[0])
        self.shift = 0.5 * float(np.log(self.scales).sum())

    @cached_property
    def diagonal_marginals(self) -> list[DiagonalLaw]:
        """Law of every diagonal entry, without the scales."""
        return [DiagonalLaw.of(tuple(shape.degrees[i] for shape in self.shapes)) for i in self.diagonal]

    @property
    def typical_logs(self) -> Array:
        """Logs of the diagonal of T that are typical under the prior, (r,)."""
        return self.shift + 0.5 * np.log(np.array([law.degrees for law in self.diagonal_marginals])).sum(
            axis=1
        )

    def matrices(self, theta: Array) -> Array:
        """T at θ, (m, n, r)."""
        total = np.zeros((len(theta), self.rows, self.columns))
        total[:, self.diagonal, self.diagonal] = np.exp(theta[:, : self.columns])
        total[:, *self.below] = theta[:, self.columns :]
        return total

    def coordinates(self, total: Array) -> Array:
        """θ of lower trapezoidal T with positive diagonal, (m, dimension)."""
        logs = np.log(total[:, self.diagonal, self.diagonal])
        return np.concatenate([logs, total[:, *self.below]], axis=1)

    def pull_back(self, total: Array, gradient: Array) -> Array:
        """Gradient in θ (m, k) from the gradient in T (m, rows, columns)."""
        along = gradient[:, self.diagonal, self.diagonal] * total[:, self.diagonal, self.diagonal]
        return np.concatenate([along, gradient[:, *self.below]], axis=1)

    def log_volume(self, theta: Array) -> Array:
        """Log of dA/dθ (m,), A = T Q any root of L: the measure that rotations of the outputs leave alone."""
        return theta[:, : self.columns] @ (self.columns - self.diagonal).astype(float)

    def log_typical(self, theta: Array) -> tuple[Array, Array]:
        """Log prior density with inner factors at their typical values, (m,), and its gradient in θ."""
        logs, rows = theta[:, : self.columns], theta[:, self.columns :]
        value, slope = self.log_diagonal(logs)
        log_variance, slope_own, slope_other = self.log_typical_variance(logs)
        square = rows**2 * np.exp(-log_variance)
        value = value - 0.5 * (math.log(2 * math.pi) + log_variance + square).sum(axis=1)
        change = 0.5 * (square - 1)
        gradient = np.concatenate([slope, -rows * np.exp(-log_variance)], axis=1)
        if len(self.shapes) == 1:
            return value, gradient
        for column in range(self.columns):
            own, other = self.below[0] == column, self.below[1] == column
            gradient[:, column] += (change * slope_own)[:, own].sum(axis=1)
            gradient[:, column] += (change * slope_other)[:, other].sum(axis=1)
        return value, gradient

    def log_typical_variance(self, logs: Array) -> tuple[Array, Array, Array]:
        """Log variance of every entry below the diagonal of T, (m, entries), with its two derivatives.

        log Σ_ℓ s_ℓ (A_ℓ)_i² (P_ℓ)_jj² at the typical parts of rows i and j; derivatives in the logs of T_ii
        and T_jj.
        """
        i, j = self.below
        if len(self.shapes) == 1:  # entries of the one factor
            constant, none = (
                np.full((len(logs), len(i)), math.log(self.scales[0])),
                np.zeros((len(logs), len(i))),
            )
            return constant, none, none
        above, above_slope, under, under_slope = self._typical_products(logs)
        terms = np.log(self.scales) + 2 * (above[:, i] + under[:, j]) + self._reach
        peak = terms.max(axis=2, keepdims=True)
        shares = np.exp(terms - peak)
        total = shares.sum(axis=2, keepdims=True)
        shares /= total
        slope_own = 2 * (shares * above_slope[:, i]).sum(axis=2)
        slope_other = 2 * (shares * under_slope[:, j]).sum(axis=2)
        return (peak + np.log(total))[:, :, 0], slope_own, slope_other

    def log_diagonal(self, logs: Array) -> tuple[Array, Array]:
        """Log density (m,) of the logarithms of the diagonal (m, columns) and its gradient."""
        both = [law.log_density(logs[:, i] - self.shift) for i, law in enumerate(self.diagonal_marginals)]
        value = np.sum([value for value, _ in both], axis=0)
        return value, np.stack([slope for _, slope in both], axis=1)

    def _typical_products(self, logs: Array) -> tuple[Array, Array, Array, Array]:
        """Logs of A_ℓ (m, n, factors) and of the diagonal of P_ℓ (m, r, factors), and derivatives."""
        half = 0.5 * np.log(self.scales)
        parts = np.zeros((len(logs), self.rows, len(self.shapes)))
        slopes = np.zeros_like(parts)
        for i, law in enumerate(self.diagonal_marginals):
            parts[:, i], slopes[:, i] = law.typical_parts(logs[:, i] - self.shift)
        parts = parts + half
        above, above_slope = _products_before(parts), _products_before(slopes)
        first = slice(self.columns)
        under = _products_before(parts[:, first, ::-1])[:, :, ::-1]
        under_slope = _products_before(slopes[:, first, ::-1])[:, :, ::-1]
        return above, above_slope, under, under_slope

    def typical_loads(self, logs: Array) -> tuple[Array, Array]:
        """s_ℓ (A_ℓ)_i² and (P_ℓ)_jj² at typical parts, each (m, n, factors): v_ij is their product over ℓ."""
        above, _, under, _ = self._typical_products(logs)
        return self.scales * np.exp(2 * above), np.exp(2 * under)

    def typical_loads_along(self, axis: int, logs: Array) -> tuple[Array, Array]:
        """`typical_loads` of one row at given logs of its diagonal entry, each (m, factors)."""
        parts = self.diagonal_marginals[axis].typical_parts(logs - self.shift)[0] + 0.5 * np.log(self.scales)
        under = _products_before(parts[:, ::-1])[:, ::-1]
        return self.scales * np.exp(2 * _products_before(parts)), np.exp(2 * under)

    @cached_property
    def _reach(self) -> Array:
        """0 where a factor has the row of an entry of T, −inf where it has not, (entries, factors)."""
        beyond = self.below[0] >= self.columns
        return np.where(beyond[:, None] & (np.arange(len(self.shapes)) > 0), -np.inf, 0.0)

    def typical_factors(self, theta: Array) -> list[Array]:
        """Factors (m, rows, columns) with product T.

        The inner ones are diagonal and typical given the diagonal of T.
        """
        half = 0.5 * np.log(self.scales)
        parts = np.stack(
            [
                law.typical_parts(theta[:, i] - self.shift)[0] + half
                for i, law in enumerate(self.diagonal_marginals)
            ],
            axis=1,
        )
        inner = []
        for k in range(1, len(self.shapes)):
            factor = np.zeros((len(theta), self.columns, self.columns))
            factor[:, self.diagonal, self.diagonal] = np.exp(parts[:, :, k])
            inner.append(factor)
        return [self.matrices(theta) / np.exp(parts[:, :, 1:].sum(axis=2))[:, None, :], *inner]

    def sample_typical(self, size: int, rng: np.random.Generator) -> Array:
        """Draws close to the prior of T: exact diagonals, Student rows below, (size, dimension).

        Behind one unit draws of the prior: T is a length and a uniform direction.
        """
        if self._is_vector:
            directions = rng.standard_normal((size, self.rows, 1))
            directions *= np.sign(directions[:, :1]) / np.linalg.norm(directions, axis=1, keepdims=True)
            lengths = np.exp(self._square.sample_typical(size, rng))
            return self.coordinates(lengths[:, :, None] * directions)
        logs = np.stack([law.sample(size, rng) + self.shift for law in self.diagonal_marginals], axis=1)
        spread = np.exp(0.5 * self.log_typical_variance(logs)[0])
        return np.concatenate([logs, spread * rng.standard_t(_TAIL, size=spread.shape)], axis=1)

    def log_drawn(self, theta: Array) -> Array:
        """Log density of `sample_typical`, (m,)."""
        if self._is_vector:
            log_length = np.log(np.linalg.norm(self.matrices(theta), axis=1))
            return self._square.log_drawn(log_length) + self._log_turned(theta, log_length)
        logs = theta[:, : self.columns]
        half = 0.5 * self.log_typical_variance(logs)[0]
        student = stats.t.logpdf(theta[:, self.columns :] * np.exp(-half), _TAIL) - half
        return self.log_diagonal(logs)[0] + student.sum(axis=1)

    def integrate(self, theta: Array, copies: int, rng: np.random.Generator) -> InnerDraws:
        """Prior density of T at θ (m, k) with the inner factors integrated by so many draws for each θ."""
        log_diagonal, _ = self.log_diagonal(theta[:, : self.columns])
        total = self.matrices(theta)
        if len(self.shapes) == 1:
            square = theta[:, self.columns :] ** 2 / self.scales[0]
            log_rows = -0.5 * (math.log(2 * math.pi * self.scales[0]) + square).sum(axis=1)
            return InnerDraws(log_diagonal + log_rows, [total])
        if self.columns < self.rows:
            return self._integrate_narrow(theta, total, copies, rng)
        recursion = RowRecursion(self, np.repeat(total, copies, axis=0), rng)
        log_rows = recursion.run().reshape(len(theta), copies)
        chosen = np.argmax(log_rows + rng.gumbel(size=log_rows.shape), axis=1)
        index = np.arange(len(theta)) * copies + chosen
        log_mean = log_sum_exp(log_rows, axis=1) - math.log(copies)
        return InnerDraws(log_diagonal + log_mean, [factor[index] for factor in recursion.factors])

    def _integrate_narrow(
        self, theta: Array, total: Array, copies: int, rng: np.random.Generator
    ) -> InnerDraws:
        """The same behind a layer of r < n units, by the singular values s of T = U diag(s) Vᵀ.

        Rotations of the outputs do not change the law of a root A = T Q (n, r) of L, nor do those of the
        right side: A = U Z with U uniform, dA ∝ |det Z|^{n−r} dU dZ, and Z (r, r) the root of a scale of r
        outputs whose first factor has n, n − 1, ... degrees. The density of Z at diag(s) is averaged over
        inner factors; with one unit none are left. (In T as it stands all rows below the square block are
        small where the inner factors are. Few of their draws given the diagonal are: log evidences were low
        by 0.1.)
        """
        left, values, _ = np.linalg.svd(total, full_matrices=False)
        diagonal = np.zeros((len(theta), self._square.dimension))
        diagonal[:, : self.columns] = np.log(values)
        found = self._square.integrate(diagonal, copies, rng)
        first, *others = found.factors
        factors = rotate_factors([left @ first, *others], np.eye(self.rows))
        return InnerDraws(found.log_density + self._log_turned(theta, diagonal), factors)

    def _log_turned(self, theta: Array, diagonal: Array) -> Array:
        """Log density of θ (m, k) over that of Z in the coordinates of diag(s), (m,)."""
        logs = diagonal[:, : self.columns].sum(axis=1)
        volumes = self.log_volume(theta) - self._square.log_volume(diagonal)
        return np.asarray(volumes - (self.rows - self.columns) * logs + self._log_stiefel)

    @property
    def _is_vector(self) -> bool:
        """Whether T is a vector behind several layers, one of them of one unit."""
        return self.columns == 1 < min(self.rows, len(self.shapes))

    @cached_property
    def _square(self) -> TotalFactorLaw:
        """Law of Z (r, r) in A = U Z."""
        first = self.shapes[0]
        degrees = tuple(float(self.rows - i) for i in range(self.columns))
        return TotalFactorLaw((replace(first, rows=self.columns, degrees=degrees), *self.shapes[1:]))

    @cached_property
    def _log_stiefel(self) -> float:
        """Log volume of the rotations O(r) less that of the orthonormal U (n, r)."""
        rows, columns = self.rows, self.columns
        gammas = special.multigammaln(rows / 2, columns) - special.multigammaln(columns / 2, columns)
        return float(gammas) - 0.5 * columns * (rows - columns) * math.log(math.pi)


class RowRecursion:
    """Inner factors drawn row by row given T (m, n, r), with the density of every row of T on the way."""

    def __init__(self, law: TotalFactorLaw, total: Array, rng: np.random.Generator) -> None:
        """For given T (m, rows, columns)."""
        self.law, self.total, self.rng = law, total, rng
        self.factors = [np.zeros((len(total), shape.rows, shape.columns)) for shape in law.shapes]
        # products of the factors below each: P of the last one is the identity
        self.under = [np.zeros((len(total), shape.columns, law.columns)) for shape in law.shapes]
        self.under[-1][:] = np.eye(law.columns)

    def run(self) -> Array:
        """Go through all rows: Σ_i log N(row i; 0, V_i), (m,)."""
        log_density = np.zeros(len(self.total))
        for row in range(self.law.rows):
            diagonal = self._diagonal(row)
            if row:
                loads = self._loads(row, diagonal)
                root = triangular_root(np.concatenate(loads, axis=1))  # V = rootᵀ root
                self.choose_row(row, root)
                log_density += self._entries(row, loads, root)
            self._extend_products(row)
        return log_density

    def choose_row(self, row: int, root: Array) -> None:
        """Where T is not given: choose its row, with V = rootᵀ root (m, width, width) and the rows above."""

    def _diagonal(self, row: int) -> Array:
        """Draw the diagonal entries of this row in the factors, (m, factors), given T_ii if T has one."""
        law = self.law
        entries = np.ones((len(self.total), len(law.shapes)))
        if row < law.columns:
            logs = np.log(self.total[:, row, row]) - law.shift
            entries = np.exp(law.diagonal_marginals[row].split(logs, self.rng) + 0.5 * np.log(law.scales))
            for k, factor in enumerate(self.factors):
                factor[:, row, row] = entries[:, k]
        return entries

    def _loads(self, row: int, diagonal: Array) -> list[Array]:
        """√s_ℓ A_ℓ P_ℓ (m, width, width) of every factor that has the row: row = Σ_ℓ b_ℓ · load."""
        law = self.law
        above = np.cumprod(np.concatenate([np.ones((len(diagonal), 1)), diagonal], axis=1), axis=1)
        width = min(row, law.columns)
        return [
            (math.sqrt(law.scales[k]) * above[:, k])[:, None, None] * self.under[k][:, :width, :width]
            for k in range(len(law.shapes) if row < law.columns else 1)
        ]

    def _entries(self, row: int, loads: list[Array], root: Array) -> Array:
        """Log density (m,) of the row of T left of its diagonal, and a draw of its parts in every factor."""
        width = root.shape[2]
        wanted = self.total[:, row, :width]
        white = solve_transposed(root, wanted)
        free = [self.rng.standard_normal(load.shape[:2]) for load in loads]
        drawn = sum((z[:, None, :] @ load)[:, 0] for z, load in zip(free, loads, strict=True))
        # Matheron's rule: a free draw, moved onto the row that is wanted
        move = solve_upper(root, solve_transposed(root, wanted - drawn))[:, :, None]
        for k, (z, load) in enumerate(zip(free, loads, strict=True)):
            b = math.sqrt(self.law.scales[k]) * (z + (load @ move)[:, :, 0])
            self.factors[k][:, row, : b.shape[1]] = b
        log_root = np.log(np.abs(np.diagonal(root, axis1=1, axis2=2))).sum(axis=1)
        return -0.5 * width * math.log(2 * math.pi) - log_root - 0.5 * (white**2).sum(axis=1)

    def _extend_products(self, row: int) -> None:
        """The row of every product of factors below another, from the bottom up, where these have it."""
        for k in range(len(self.factors) - 2, -1, -1) if row < self.law.columns else ():
            entries = self.factors[k + 1][:, None, row, : row + 1]
            self.under[k][:, row] = (entries @ self.under[k + 1][:, : row + 1])[:, 0]


def rotate_factors(factors: list[Array], rotation: Array) -> list[Array]:
    """Lower trapezoidal factors (m, rows, columns) of rotation · T_d ⋯ T_2, up to a rotation on the right.

    One rotation (n, n) for all, or one for each, (m, n, n).
    """
    result, left = [], rotation
    for factor in factors:
        lower, right = lower_root(left @ factor)
        result.append(lower)
        left = right.swapaxes(1, 2)
    return result


def _products_before(parts: Array) -> Array:
    """Sums of the parts (..., k) before each along the last axis (exclusive cumulative sums)."""
    return np.cumsum(parts, axis=-1) - parts
