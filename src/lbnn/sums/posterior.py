"""What a sum of networks says given a table: evidence, shares, the table completed, predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array, Mask
from lbnn.data.examples import example_vectors
from lbnn.data.projection import Projection
from lbnn.data.spectrum import Spectrum
from lbnn.engines.inference import Diagnostics
from lbnn.engines.policy import GROUPS
from lbnn.predict.quantile import mixture_quantile
from lbnn.sums.chain import Block, coloured
from lbnn.sums.draws import Draws

_ROWS = 2_000_000  # numbers (draws, rows, n_d) that are held at a time


@dataclass(frozen=True, repr=False)
class SumPredictive:
    """The law of all outputs at some points: of the function, or after `with_noise()` of observations.

    Every draw is a Gaussian at each point. Means and variances are averages over draws of those given the
    features of the rows, with the loadings integrated out.

    Attributes
    ----------
    mean, variance, standard_deviation : (points, n_d)
        Without the output axis where Y had none.
    mean_error : like mean
        Monte Carlo standard error of the mean.
    noisy : bool
        Whether these are observations.
    """

    draws: Draws
    blocks: tuple[Block, ...]
    single_output: bool
    explained: (
        Array  # features of the points that their kernel with the table's rows determines, (points, m, K)
    )
    unexplained: tuple[Array, ...]  # of every block, a root E (points, any) of what is left of its kernel
    noisy: bool = False

    def __repr__(self) -> str:
        """One line: points and outputs."""
        return f"SumPredictive(points={self.shape[0]}, outputs={self.shape[1]}, noisy={self.noisy})"

    @property
    def shape(self) -> tuple[int, int]:
        """(points, n_d)."""
        return len(self.explained), len(self.draws.loadings)

    def with_noise(self) -> SumPredictive:
        """The predictive of observations rather than of the function."""
        return replace(self, noisy=True)

    @property
    def mean(self) -> Array:
        """Posterior means, (points, n_d)."""
        return self._given_back(self._means[0])

    @property
    def mean_error(self) -> Array:
        """Monte Carlo standard errors of the means, (points, n_d)."""
        return self._given_back(self._means[1])

    @property
    def variance(self) -> Array:
        """Posterior variances, (points, n_d)."""
        return self._given_back(self._variance.copy())

    @property
    def standard_deviation(self) -> Array:
        """Square root of `variance`, (points, n_d)."""
        return self._given_back(np.sqrt(self._variance))

    @cached_property
    def _means(self) -> tuple[Array, Array]:
        """Means over draws and their errors from the groups, each (points, n_d)."""
        draws = self.draws
        by_group = np.stack(
            [
                _product(self.explained[:, own], draws.mean_loadings[:, own]) / np.count_nonzero(own)
                for own in (draws.groups == group for group in range(GROUPS))
            ]
        )
        return by_group.mean(axis=0), by_group.std(axis=0, ddof=1) / math.sqrt(GROUPS)

    @cached_property
    def _variance(self) -> Array:
        """Variance of the means given the features, and the mean of the variances, (points, n_d)."""
        draws, mean = self.draws, self._means[0]
        between = np.zeros(self.shape)
        for s in range(len(draws)):
            between += (self.explained[:, s] @ draws.mean_loadings[:, s].T - mean) ** 2
        first, second = np.triu_indices(self.explained.shape[2])
        twice = np.where(first == second, 1.0, 2.0)
        within = _product(
            self.explained[..., first] * self.explained[..., second],
            twice * draws.loading_covariance[..., first, second],
        )
        total = (between + np.maximum(within, 0.0)) / len(draws)
        for part, root, rest in zip(draws.parts(self.blocks), draws.roots, self._rest, strict=True):
            loads = coloured(draws.mean_loadings[..., part], root.swapaxes(1, 2))
            covariance = draws.loading_covariance[..., part, part]
            spread = (covariance * (root @ root.swapaxes(1, 2))).sum(axis=(2, 3))
            total += np.outer(rest, ((loads**2).sum(axis=2) + spread).mean(axis=1))
        return total + draws.mean_noise.mean(axis=1) if self.noisy else total

    @cached_property
    def _rest(self) -> list[Array]:
        """Unexplained kernel of every point, for every block, (points,)."""
        return [(root**2).sum(axis=1) for root in self.unexplained]

    def _gaussians(self, rows: slice) -> tuple[Array, Array]:
        """Means and deviations (m, rows, n_d) of the draws, given loadings and noise."""
        draws = self.draws
        means = self.explained[rows].swapaxes(0, 1) @ draws.loadings.transpose(1, 2, 0)
        variances = np.zeros_like(means)
        for factor, rest in zip(draws.factors(self.blocks), self._rest, strict=True):
            variances += rest[rows][:, None] * (factor**2).sum(axis=2).T[:, None]
        if self.noisy:
            variances += draws.noise.T[:, None]
        return means, np.sqrt(variances)

    def _row_blocks(self) -> list[slice]:
        step = max(1, _ROWS // (len(self.draws) * self.shape[1]))
        return [slice(first, first + step) for first in range(0, self.shape[0], step)]

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of every output at every point, of shape np.shape(q) + shape of the mean."""
        levels = check.probability(q, "q")
        weights = np.full(len(self.draws), 1 / len(self.draws))
        result = np.empty((levels.size, *self.shape))
        for rows in self._row_blocks():
            means, deviations = self._gaussians(rows)
            for number, level in enumerate(levels.ravel()):
                result[number, rows] = mixture_quantile(float(level), weights, means, deviations)
        return self._given_back(result.reshape(levels.shape + self.shape))

    def interval(self, probability: float = 0.95) -> tuple[Array, Array]:
        """Equal-tailed interval of every output at every point: two ends, each shaped like the mean."""
        level = float(check.probability(probability, "probability"))
        low, high = self.quantile([(1 - level) / 2, (1 + level) / 2])
        return low, high

    def marginal_log_density(self, F: ArrayLike) -> Array:
        """Log density of every output at every point by itself, shaped like F and the mean."""
        values = check.like_mean(F, self.shape, self.single_output, "F")
        result = np.empty(self.shape)
        for rows in self._row_blocks():
            means, deviations = self._gaussians(rows)
            if not (deviations > 0).all():
                raise ValueError(
                    "the law of the function at rows of the table has no density given the draws, got "
                    "noise-free points: ask the predictive of observations, with_noise()"
                )
            logs = -0.5 * ((values[rows] - means) / deviations) ** 2 - np.log(deviations)
            top = logs.max(axis=0)
            result[rows] = top + np.log(np.exp(logs - top).mean(axis=0)) - 0.5 * math.log(2 * math.pi)
        return self._given_back(result)

    def sample(self, size: int, seed: int | np.random.Generator) -> Array:
        """Draw jointly over points and outputs, (size, points, n_d)."""
        rng, count = check.generator(seed), check.positive_integer(size, "size")
        draws = self.draws
        chosen = rng.integers(len(draws), size=count)
        result = np.empty((count, *self.shape))
        parts, factors = list(draws.parts(self.blocks)), draws.factors(self.blocks)
        for number, s in enumerate(chosen):
            result[number] = self.explained[:, s] @ draws.loadings[:, s].T
            for part, factor, root in zip(parts, factors, self.unexplained, strict=True):
                if root.shape[1]:
                    new = root @ rng.standard_normal((root.shape[1], part.stop - part.start))
                    result[number] += new @ factor[:, s].T
            if self.noisy:
                result[number] += np.sqrt(draws.noise[:, s]) * rng.standard_normal(self.shape)
        return self._given_back(result)

    def _given_back(self, values: Array) -> Any:
        """Without the output axis where Y had none."""
        return values[..., 0] if self.single_output else values


@dataclass(frozen=True, repr=False)
class ScaleDraws:
    """Equally weighted draws of the scale L = F Fᵀ of one network.

    Attributes
    ----------
    factor : (m, n_d, k)
        F.
    """

    factor: Array

    def __repr__(self) -> str:
        """One line: the sizes."""
        return "ScaleDraws(draws={}, outputs={}, columns={})".format(*self.factor.shape)

    @property
    def mean(self) -> Array:
        """E L, (n_d, n_d)."""
        columns = self.factor.transpose(1, 0, 2).reshape(self.factor.shape[1], -1)
        return columns @ columns.T / len(self.factor)


@dataclass(frozen=True, repr=False)
class SumPosterior:
    """Posterior of a sum of networks given the observed cells of a table.

    Attributes
    ----------
    log_evidence, log_evidence_error : float
    diagnostics : Diagnostics
        `ok` only where the error is as small as asked, with the path from the prior and the path back in
        agreement, groups of draws have mixed, and draws from another start agree.
    noise_mean : (n_d,)
        Posterior mean of the noise variance of every output.
    share_mean : (blocks, n_d)
        Posterior mean of the share that a block has of the variance of an output, noise included: L_jj times
        the mean diagonal of the kernel, over the sum of these and the noise variance.
    cells : SumPredictive
        Predictive of the table's own rows, what they share beyond a kernel included.
    scales : tuple of ScaleDraws
        `factor` (m, n_d, k), draws of a root F of the scale of every block, all prior variances included:
        the block has the covariance F Fᵀ G across outputs, in its kernel G; `mean` (n_d, n_d) of F Fᵀ.
        `scale` is that of the only block.
    """

    blocks: tuple[Block, ...]
    spectra: tuple[Spectrum | None, ...]
    kernels: bool
    targets: Array  # (p, n_d), NaN where not observed
    observed: Mask
    single_output: bool
    log_evidence: float
    log_evidence_error: float
    diagnostics: Diagnostics
    draws: Draws = field(repr=False)

    def __repr__(self) -> str:
        """One line: sizes, and the log evidence with its error."""
        return (
            f"SumPosterior(blocks={len(self.blocks)}, rows={self.targets.shape[0]}, outputs="
            f"{self.targets.shape[1]}, log_evidence={self.log_evidence:.4g} ± {self.log_evidence_error:.2g}, "
            f"ok={self.diagnostics.ok})"
        )

    @property
    def noise_mean(self) -> Array:
        """Posterior means of the noise variances, (n_d,)."""
        return np.asarray(self.draws.mean_noise.mean(axis=1))

    @cached_property
    def _shares(self) -> Array:
        """Draws of the shares, (blocks, n_d, m)."""
        sizes = np.array(
            [
                _mean_diagonal(block) * (factor**2).sum(axis=2)
                for block, factor in zip(self.blocks, self.draws.factors(self.blocks), strict=True)
            ]
        )
        return np.asarray(sizes / (sizes.sum(axis=0) + self.draws.noise))

    @property
    def share_mean(self) -> Array:
        """Posterior means of the shares, (blocks, n_d)."""
        return np.asarray(self._shares.mean(axis=2))

    def share_interval(self, probability: float = 0.9) -> Array:
        """Equal-tailed intervals of the shares, (blocks, n_d, 2)."""
        level = float(check.probability(probability, "probability"))
        ends = np.quantile(self._shares, [(1 - level) / 2, (1 + level) / 2], axis=2)
        return np.moveaxis(ends, 0, -1)

    @property
    def scales(self) -> tuple[ScaleDraws, ...]:
        """The scale of every block: draws of its roots, and its mean."""
        return tuple(
            ScaleDraws(block.scale * factor.swapaxes(0, 1))
            for factor, block in zip(self.draws.factors(self.blocks), self.blocks, strict=True)
        )

    @property
    def scale(self) -> ScaleDraws:
        """That of the only block."""
        if len(self.blocks) > 1:
            raise ValueError(f"a sum of {len(self.blocks)} networks has as many scales: use scales[number]")
        return self.scales[0]

    @cached_property
    def cells(self) -> SumPredictive:
        """Predictive of the rows of the table."""
        nothing = tuple(np.zeros((len(self.targets), 0)) for _ in self.blocks)
        return SumPredictive(self.draws, self.blocks, self.single_output, self.draws.features, nothing)

    def predict(
        self,
        test_blocks: ArrayLike | Sequence[ArrayLike | None],
        test_kernels: ArrayLike | Sequence[ArrayLike] | None = None,
    ) -> SumPredictive:
        """The predictive of new rows.

        Parameters
        ----------
        test_blocks : sequence of (points, n_b), or of (points, p) with kernels
            Inputs of every block, or kernels between the points and the rows of the table; None for a block
            on the identity, of which new rows have a part of their own. Of one block also without a list.
        test_kernels : sequence of (points, points), optional
            With kernels: among the points; needed there.
        """
        if len(self.blocks) == 1 and np.ndim(cast(Any, test_blocks)) == 2:
            test_blocks = [cast(ArrayLike, test_blocks)]
            test_kernels = None if test_kernels is None else [cast(ArrayLike, test_kernels)]
        given = list(cast(Sequence[Any], test_blocks))
        if len(given) != len(self.blocks):
            raise ValueError(
                f"there must be one block of points for each of {len(self.blocks)} networks, got {len(given)}"
            )
        within = [None] * len(given) if test_kernels is None else list(cast(Sequence[Any], test_kernels))
        if self.kernels and (len(within) != len(given) or test_kernels is None):
            raise ValueError(
                "a posterior of kernels predicts from kernels between points and rows and among points: give "
                "test_kernels, one for each block"
            )
        counts = {np.shape(each)[0] for each in given if each is not None}
        if len(counts) > 1:
            raise ValueError(f"all blocks must have the same points, got blocks of {sorted(counts)} points")
        points = counts.pop() if counts else 1
        explained, unexplained = [], []
        for number, (block, spectrum) in enumerate(zip(self.blocks, self.spectra, strict=True)):
            rows, rest = _projected(block, spectrum, given[number], within[number], self.kernels, points)
            explained.append(
                (rows @ self.draws.state.latent[number].reshape(block.rank, -1)).reshape(
                    points, -1, block.columns
                )
            )
            unexplained.append(rest)
        return SumPredictive(
            self.draws, self.blocks, self.single_output, np.concatenate(explained, axis=2), tuple(unexplained)
        )

    def impute(self, draws: int | None = None, *, return_std: bool = False, seed: int = 0) -> Any:
        """The table with its missing cells filled.

        Parameters
        ----------
        draws : int, optional
            Multiple imputation: so many tables, with missing observations drawn jointly; by default their
            posterior means.
        return_std : bool
            Without draws: also the deviations of the missing observations, zero at observed cells.

        Returns
        -------
        (p, n_d), or two such, or (draws, p, n_d)
        """
        cells = self.cells.with_noise()
        observed = self.observed[:, 0] if self.single_output else self.observed
        own = self.targets[:, 0] if self.single_output else self.targets
        if draws is not None:
            return np.where(observed, own, cells.sample(draws, seed))
        filled = np.where(observed, own, cells.mean)
        return (filled, np.where(observed, 0.0, cells.standard_deviation)) if return_std else filled


def _projected(
    block: Block, spectrum: Spectrum | None, given: Any, within: Any, kernels: bool, points: int
) -> tuple[Array, Array]:
    """Rows (points, r) with features rows @ Z, and a root of what the table's rows do not explain."""
    if given is None:
        if block.root is not None:
            raise ValueError("only a block on the identity has no inputs, got None for another block")
        return np.zeros((points, block.rank)), block.scale * np.eye(points)
    if spectrum is None:
        raise ValueError("a block that was None is None for new rows too, got an array")
    projection: Projection = (
        spectrum.project(cross_gram=given, test_gram=within) if kernels else spectrum.project(given)
    )
    explained = np.asarray(projection.explained)
    if block.root is None:  # Z stands in the rows themselves, not in the eigenvectors
        explained = explained @ example_vectors(spectrum).T
    return block.scale * explained, block.scale * np.asarray(projection.unexplained_root)


def _mean_diagonal(block: Block) -> float:
    """Mean of the diagonal of L Lᵀ."""
    return block.unit**2 if block.root is None else float((block.root**2).sum() / block.examples)


def _product(rows: Array, loadings: Array) -> Array:
    """Σ over draws and columns of rows (points, m, K) and loadings (n_d, m, K): (points, n_d)."""
    return rows.reshape(len(rows), -1) @ loadings.reshape(len(loadings), -1).T
