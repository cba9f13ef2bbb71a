"""Predictive: outputs at test points, a mixture of Gaussians over draws of one posterior or of several."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lbnn._base import check
from lbnn._base.arrays import Device, like, namespace
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn._base.warn import collected, warn
from lbnn.data.projection import Projection
from lbnn.predict.given import Given
from lbnn.predict.mixture import Mixture
from lbnn.predict.outputs import Outputs, Terms, group_deviations
from lbnn.predict.part import Evidence, Part
from lbnn.predict.process import Process
from lbnn.predict.quantile import mixture_quantile, tail_quantile
from lbnn.predict.tilted import Averages

_MARGINAL_FLOATS = 1 << 21  # means of one block of points given every draw
_SETTLED_POINTS = 4096  # of which far quantiles are solved for together
_FEWEST = 50.0  # effective draws that a density should rest on: 10 or 20 were seen to miss a nat
_FEWEST_OF_TRANSFORM = 100.0  # ... and an exponential moment, whose terms grow with the scale
_FEWEST_OF_MODELS = 20.0  # of several models together: half and twice as many differ by 0.03 nats
_SMALLEST_SHARE = 0.01  # of the density at a point, or of all models, from which one is integrated anew there
MOST_POINTS = 20  # of one call that are integrated anew
#: Operations of a gradient, summed over the points and models that are integrated anew in one call: about a
#: minute (57 s for nine models at one point, 141 observations).
MOST_WORK = 1.2e8


@dataclass(frozen=True, repr=False)
class Predictive(Mixture):
    """Outputs at p̂ test points: of the function, or after `with_noise()` of observations.

    Returned by `Posterior.predict`, `Network.prior` and the like. Every statistic is that of a mixture of
    Gaussians over the draws of the scale; none is a Gaussian approximation.

    Attributes
    ----------
    parts : tuple
        A posterior at the points, or several, each with its share: a Bayesian average over models.
    single_output : bool
        Whether results drop the output axis.
    leverage : (p̂,), optional
        Variance of the function at each point, relative to the largest that a training row has given the
        other rows: above one the point is farther out than every training row. None where training rows are
        not known.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, X_test = rng.normal(size=(10, 30)), rng.normal(size=(3, 30))
    >>> pred = lbnn.Network(widths=(20, 20)).condition(X, X[:, 0], beta=100.0).predict(X_test)
    >>> pred
    Predictive(points=3, outputs=1, noisy=False)
    >>> low, high = pred.interval(0.9)
    >>> bool((low < pred.mean).all() and (pred.mean < high).all())
    True
    >>> bool(np.allclose(pred.with_noise().variance, pred.variance + 1 / 100))
    True
    """

    parts: tuple[Outputs, ...]
    single_output: bool = False
    leverage: Array | None = None

    @classmethod
    def of(
        cls, process: Process, points: Projection, single_output: bool, evidence: Evidence | None = None
    ) -> Predictive:
        """One posterior at projected test points."""
        return cls((Part.of(process, points, evidence),), single_output)

    @classmethod
    def average(cls, laws: Iterable[Predictive], weights: ArrayLike) -> Predictive:
        """The average over models at the same points, with their posterior probabilities (models,).

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(10, 30)), rng.normal(size=10)
        >>> laws = [lbnn.Network(widths=(n,)).condition(X, y, beta=4.0).predict(X[:2]) for n in (3, 30)]
        >>> both = lbnn.Predictive.average(laws, [0.25, 0.75])
        >>> bool(np.allclose(both.mean, 0.25 * laws[0].mean + 0.75 * laws[1].mean))
        True
        """
        every, shares = tuple(laws), np.asarray(weights, float)
        parts = [
            replace(part, share=float(share) * part.share)
            for law, share in zip(every, shares, strict=True)
            for part in law.parts
        ]
        return replace(every[0], parts=tuple(parts))

    def affine(self, matrix: ArrayLike, offset: ArrayLike = 0.0, level: float = 0.0) -> Predictive:
        """Outputs F̂ Aᵀ + offset, with a level that is shared by all points.

        Parameters
        ----------
        matrix : (q, n_d)
            A, of full column rank. With more rows than columns outputs fulfil linear relations, and densities
            are those in the plane of the outputs that do.
        offset : (q,) or number
        level : float
            Covariance of the level, in units of the covariance of the noise.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.normal(size=(10, 30)), rng.normal(size=(10, 2))
        >>> inner = lbnn.Network(widths=(20,)).condition(X, Y, beta=4.0).predict(X[:3])
        >>> bool(np.allclose(inner.affine(10 * np.eye(2), [1.0, 2.0]).mean, 10 * inner.mean + [1.0, 2.0]))
        True
        """
        A, moved = check.real_array(matrix, "matrix"), check.real_array(offset, "offset")
        parts = tuple(part.affine(A, moved, float(level)) for part in self.parts)
        return replace(self, parts=parts, single_output=self.single_output and len(A) == 1)

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, n_d)."""
        return self.parts[0].shape

    @property
    def device(self) -> Device:
        """That of the test points."""
        return self.parts[0].device

    @property
    def noisy(self) -> bool:
        """Whether these are observations rather than the function."""
        return self.parts[0].noisy

    @property
    def shares(self) -> Array:
        """Of the parts, (parts,)."""
        return np.array([part.share for part in self.parts])

    # ------------------------------------------------------------------ moments

    @cached_property
    def _means(self) -> Array:
        """Of the parts, (parts, p̂, n_d)."""
        return np.stack([part.mean for part in self.parts])

    @property
    def _mean(self) -> Array:
        return np.tensordot(self.shares, self._means, axes=1)

    @property
    def mean_error(self) -> AnyArray:
        """Monte Carlo standard error of the mean, (p̂, n_d); zeros where the draws carry none."""
        squares = [part.mean_error**2 for part in self.parts]
        return self._given_back(np.sqrt(np.tensordot(self.shares**2, np.stack(squares), axes=1)))

    @cached_property
    def _variance(self) -> Array:
        """Within parts and between them."""
        within = sum(part.share * part.seconds(False)[0] for part in self.parts)
        return np.asarray(within + np.tensordot(self.shares, (self._means - self._mean) ** 2, axes=1))

    @property
    def variance_error(self) -> AnyArray:
        """Monte Carlo standard error of the variance, (p̂, n_d); zeros where the draws carry none.

        Of one model; between models it is that within each of them.
        """
        total = np.zeros(self.shape)
        for part in self.parts:
            apart = group_deviations(part.seconds(False, grouped=True), part.group_weights)
            total += part.share**2 * (apart**2).sum(axis=0)
        return self._given_back(np.sqrt(total))

    @cached_property
    def _output_covariance(self) -> Array:
        within = sum(part.share * part.seconds(True)[0] for part in self.parts)
        apart = self._means - self._mean
        return np.asarray(within + np.einsum("s,smj,smk->mjk", self.shares, apart, apart))

    @property
    def _covariance(self) -> AnyArray:
        total: AnyArray = 0.0
        for part in self.parts:
            total = total + part.share * part.covariance
        if len(self.parts) == 1:
            return total
        apart = (self._means - self._mean).reshape(len(self.parts), -1)
        roots = like(np.sqrt(self.shares)[:, None] * apart, total)
        return total + namespace(total).reshape(roots.T @ roots, self.shape * 2)

    # ------------------------------------------------------------------ densities

    def _averages(self, terms: Terms | list[Terms], count: int, *, pointwise: bool = True) -> list[Averages]:
        """Averages of integrands (count,) over the draws of every part."""
        each = terms if isinstance(terms, list) else [terms] * len(self.parts)
        return [
            part.averages(own, count, pointwise=pointwise) for part, own in zip(self.parts, each, strict=True)
        ]

    def _shared(self, found: list[Averages]) -> Array:
        """Log of share times average of every part, (parts, k)."""
        with np.errstate(divide="ignore"):
            return np.log(self.shares)[:, None] + np.stack([each.log_value for each in found])

    def _effective(self, values: Array, found: list[Averages]) -> Array:
        """Log of the effective draws of all parts, (k,); infinite for quadrature nodes."""
        with np.errstate(divide="ignore"):
            shares = 2 * np.log(self.shares)
        squares = [share + each.log_squares for share, each in zip(shares, found, strict=True)]
        total = special.logsumexp(np.stack(squares), axis=0)
        return np.asarray(2 * special.logsumexp(values.real, axis=0) - total)

    def _few(self, values: Array, found: list[Averages]) -> tuple[Mask, float]:
        """Where few draws of all parts count, (k,), and how many should."""
        own = [part.share**2 * (part.weights**2).sum() for part in self.parts if not part.deterministic]
        fewest = _FEWEST if len(self.parts) == 1 else _FEWEST_OF_MODELS
        fewest = min(fewest, 0.5 / sum(own)) if own else 0.0
        with np.errstate(divide="ignore"):
            return np.asarray(self._effective(values, found) < np.log(fewest)), fewest

    def _settled(self, found: list[Averages], points: Array, rows: list[IndexArray]) -> Array:
        """Log densities (k,), each of values (p̂, n_d) at some points; those of few draws are integrated anew.

        `rows` are the points of each. For one of few draws all parts that count are integrated, or none.
        """
        values = self._shared(found).real
        few, fewest = self._few(values, found)
        if few.any():
            work, said = 0.0, list[str]()
            smallest = np.argsort(special.logsumexp(values, axis=0), kind="stable")
            for number in smallest[few[smallest]][:MOST_POINTS].tolist():  # far out the draws are worst
                counts = values[:, number] > values[:, number].max() + math.log(_SMALLEST_SHARE)
                # From few draws a density may be wrong by many nats, so that no share follows from it.
                own = [2 * each.log_value[number].real - each.log_squares[number] for each in found]
                unknown = np.array(own) < math.log(_FEWEST_OF_MODELS)
                counts |= unknown & (self.shares > _SMALLEST_SHARE)
                asked = [k for k in np.flatnonzero(counts) if not self.parts[k].deterministic]
                work += sum(self.parts[k].work for k in asked)
                if work > MOST_WORK:
                    break
                with collected() as messages:
                    some = [self.parts[k].taken(rows[number]) for k in asked]
                    here = points[rows[number]]
                    anew = [math.inf if each.has_pole(here) else each.evidence_of(here) for each in some]
                if None not in anew:
                    values[asked, number] = np.log(self.shares[asked]) + np.array(anew, float)
                    few[number] = False
                said += messages
            if said:
                others = (
                    f" (and {len(said) - 1} more points, with errors of other sizes)" if len(said) > 1 else ""
                )
                warn(said[0] + others)
        _warn_of_few(few, fewest)
        return np.asarray(special.logsumexp(values, axis=0), float)

    def _pointwise_log_density(self, values: Array) -> Array:
        found = self._averages(lambda part, rows, some: part.point_terms(values[rows], some), len(values))
        rows = [np.array([number]) for number in range(len(values))]
        return self._settled(found, values, rows)

    def _log_density(self, values: Array) -> float:
        terms = [part.joint_terms(values) for part in self.parts]
        if any(part.has_pole(values) for part in self.parts if part.share):
            return math.inf
        found = self._averages(terms, 1, pointwise=False)
        return float(self._settled(found, values, [np.arange(len(values))])[0])

    # ------------------------------------------------------------------ quantiles and draws

    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """The Gaussians at one point: log weights (m,), means (m, n_d) and covariances (m, n_d, n_d)."""
        found = [part.taken(np.array([row])).gaussians() for part in self.parts]
        means, covariances = (np.concatenate([each[k][:, 0] for each in found]) for k in (0, 1))
        with np.errstate(divide="ignore"):  # weights may have underflowed to zero
            return np.log(self._weights), means, covariances

    @property
    def _weights(self) -> Array:
        """Of all draws of all parts, (m,)."""
        return np.concatenate([part.share * part.weights for part in self.parts])

    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """Weights (m,), means and standard deviations (m, rows, n_d) of the Gaussians at points."""
        index = np.arange(self.shape[0])[rows]
        found = [part.taken(index).gaussians(False) for part in self.parts]
        means, deviations = (np.concatenate([each[k] for each in found]) for k in (0, 1))
        return self._weights, means, deviations

    def _quantiles(self, levels: Sequence[float]) -> Array:
        """Marginals have work of their own for every draw: few, large blocks of points."""
        result, draws = np.empty((len(levels), *self.shape)), len(self._weights)
        for rows in blocks(self.shape[0], draws * max(self.shape[1], 8), _MARGINAL_FLOATS):
            marginals = self.marginals(rows)
            for number, level in enumerate(levels):
                result[number, rows] = mixture_quantile(level, *marginals)
        if self.shape[1] == 1 and all(part.deterministic for part in self.parts):
            for number, level in enumerate(levels):
                self._settle(level, result[number, :, 0])
        return result

    def _settle(self, level: float, values: Array) -> None:
        """Improve, in place, quantiles (p̂,) of one output that the nodes do not resolve, as in far tails."""
        sign, random = 1.0 if level <= 0.5 else -1.0, np.flatnonzero(self._variance[:, 0] > 0)
        for block in blocks(len(random), 1, _SETTLED_POINTS):
            index = random[block]
            far = index[np.any([each.anew for each in self._tails(index, values[index], sign)[0]], axis=0)]
            if len(far):

                def log_tails(here: IndexArray, q: Array, far: IndexArray = far) -> tuple[Array, Array]:
                    """Log probabilities and densities at q (k,) of the points `here` (k,)."""
                    probability, density = (
                        special.logsumexp(self._shared(each).real, axis=0)
                        for each in self._tails(far[here], q, sign)
                    )
                    return probability, density

                values[far] = tail_quantile(level, values[far], log_tails)

    def _tails(self, index: IndexArray, values: Array, sign: float) -> tuple[list[Averages], list[Averages]]:
        """Probabilities below (sign 1) or above (−1) values (k,) of one output at points, and densities."""
        some = replace(self, parts=tuple(part.taken(index) for part in self.parts))
        return (
            some._averages(lambda part, rows, some: part.tail_terms(values[rows], some, sign), len(index)),
            some._averages(lambda part, rows, some: part.point_terms(values[rows, None], some), len(index)),
        )

    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        """Each draw from a part of its own."""
        if len(self.parts) == 1:
            return self.parts[0].sample(size, rng)
        chosen = rng.choice(len(self.parts), size=size, p=self.shares / self.shares.sum())
        draws = np.empty((size, *self.shape))
        for number, part in enumerate(self.parts):
            here = chosen == number
            if here.any():
                draws[here] = part.sample(int(here.sum()), rng)
        return draws

    # ------------------------------------------------------------------ generating functions

    def _log_transform(self, source: Array, unit: complex) -> complex:
        """Log E exp(unit tr JᵀF̂), for J (p̂, n_d)."""
        terms = [part.source_terms(source, unit) for part in self.parts]
        found = self._averages(terms, 1, pointwise=False)
        values = self._shared(found)
        if unit.imag == 0:
            effective = self._effective(values, found)
            _warn_of_few(effective < math.log(_FEWEST_OF_TRANSFORM), _FEWEST_OF_TRANSFORM, "averages")
        return complex(special.logsumexp(values, axis=0)[0])

    def _cgf(self, source: Array) -> float:
        """Infinite where that of any part is."""
        if not all(part.finite(source) for part in self.parts if part.share):
            return math.inf
        return self._log_transform(source, 1.0 + 0j).real

    def _characteristic(self, source: Array) -> complex:
        return cmath.exp(self._log_transform(source, 1j))

    # ------------------------------------------------------------------ errors

    def _without_groups(self) -> Iterator[list[Mixture]]:
        for number, part in enumerate(self.parts):
            if part.groups is not None:
                before, after = self.parts[:number], self.parts[number + 1 :]
                others = part.without_groups(part.groups)
                yield [replace(self, parts=(*before, other, *after)) for other in others]

    # ------------------------------------------------------------------ known outputs, observations

    def given(self, Y_partial: ArrayLike) -> Given:
        """The predictive of each point given the outputs that are known there.

        Parameters
        ----------
        Y_partial : shaped like the mean
            Values of known outputs, NaN for the others. For measured values call `with_noise()` first.

        Returns
        -------
        Given
            The exact conditional distribution: the draws are reweighted by the known values, and each
            Gaussian is conditioned on them.
        """
        known = check.like_mean_or_missing(Y_partial, self.shape, self.single_output, "Y_partial")
        return Given(self, known)

    def with_noise(self) -> Predictive:
        """The predictive of observations rather than of the function."""
        return replace(self, parts=tuple(part.observed() for part in self.parts))


def _warn_of_few(few: Mask, fewest: float, what: str = "densities") -> None:
    """Warn of averages (k,) for which only few draws count."""
    if few.any():
        warn(
            f"{np.count_nonzero(few)} of {len(few)} {what} rest on fewer than {fewest:.3g} effective draws "
            "of the scale, as at outliers: do not rely on them, or on averages that include them; the log "
            "evidence with these rows among the data minus that without them is exact"
        )
