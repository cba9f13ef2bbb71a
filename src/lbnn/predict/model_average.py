"""The average of predictives over models: a mixture of mixtures."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lbnn._base.arrays import Device, like, namespace
from lbnn._base.blocks import blocks
from lbnn._base.types import AnyArray, Array, IndexArray, Mask
from lbnn.predict.atoms import MOST_WORK, warn_of_few
from lbnn.predict.predictive import LogTails, Predictive, average, log_average
from lbnn.scale.measure import effective_atoms

_FEWEST_DRAWS = 20.0  # effective ones of all models together: half and twice as many differ by 0.03 nats
_SMALLEST_SHARE = 0.01  # of the density at a point, or of all models, from which one is integrated anew there


@dataclass(frozen=True, repr=False)
class MixturePredictive(Predictive):
    """A mixture of predictives at the same points: a Bayesian average over models.

    Attributes
    ----------
    components : tuple of Predictive
    weights : (models,)
        Posterior probabilities of the models; they sum to one.
    leverage : (p̂,), optional
        As in `AffinePredictive`, of the best model.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(10, 30)), rng.normal(size=10)
    >>> parts = tuple(lbnn.Network(widths=(n,)).condition(X, y, beta=4.0).predict(X[:2]) for n in (3, 30))
    >>> both = lbnn.MixturePredictive(parts, np.array([0.25, 0.75]))
    >>> bool(np.allclose(both.mean, 0.25 * parts[0].mean + 0.75 * parts[1].mean))
    True
    """

    components: tuple[Predictive, ...]
    weights: Array
    leverage: Array | None = None

    def __repr__(self) -> str:
        """One line: models, points and outputs."""
        return (
            f"MixturePredictive(models={len(self.components)}, points={self.shape[0]}, "
            f"outputs={self.shape[1]}, noisy={self.noisy})"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(p̂, n_d)."""
        return self.components[0].shape

    @property
    def device(self) -> Device:
        """That of the test points."""
        return self.components[0].device

    @property
    def noisy(self) -> bool:
        """Whether these are observations rather than the function."""
        return self.components[0].noisy

    @property
    def single_output(self) -> bool:
        """Whether results drop the output axis."""
        return self.components[0].single_output

    def _scale_values(self) -> tuple[Array, Array]:
        """Of all models, each in units of its own."""
        parts = [component._scale_values() for component in self.components]
        shares = [weight * part[1] for weight, part in zip(self.weights, parts, strict=True)]
        return np.concatenate([part[0] for part in parts]), np.concatenate(shares)

    # ------------------------------------------------------------------ moments

    @property
    def _mean(self) -> Array:
        """(p̂, n_d)."""
        return average(self.weights, [component._mean for component in self.components])

    @property
    def _output_covariance(self) -> Array:
        """Covariance across outputs at each point, within models and between them, (p̂, n_d, n_d)."""
        within = average(self.weights, [component._output_covariance for component in self.components])
        return within + np.einsum("s,smj,smk->mjk", self.weights, self._deviations, self._deviations)

    @property
    def _variance(self) -> Array:
        """The diagonals of these alone."""
        within = average(self.weights, [component._variance for component in self.components])
        return within + np.tensordot(self.weights, self._deviations**2, axes=1)

    @property
    def _covariance(self) -> AnyArray:
        """Within models and between them."""
        points, outputs = self.shape
        roots = np.sqrt(self.weights)[:, None] * self._deviations.reshape(len(self.weights), -1)
        total: AnyArray = 0.0
        for weight, component in zip(self.weights, self.components, strict=True):
            total = total + float(weight) * component._covariance
        between = like(roots, total).T @ like(roots, total)
        return total + namespace(total).reshape(between, (points, outputs, points, outputs))

    @property
    def _deviations(self) -> Array:
        """Means of the models less their average, (models, p̂, n_d)."""
        means = np.stack([component._mean for component in self.components])
        return means - average(self.weights, list(means))

    # ------------------------------------------------------------------ densities, quantiles and draws

    def _log_density(self, values: Array) -> float:
        terms = np.array([component._log_density(values) for component in self.components])
        return float(log_average(self.weights, terms))

    def _pointwise_log_density(self, values: Array) -> Array:
        """From the draws of all models together where enough of them count, else by an integral."""
        if any(each._point_terms(values[:1], rows=slice(0, 1)) is None for each in self.components):
            terms = np.stack([component._pointwise_log_density(values) for component in self.components])
            return log_average(self.weights, terms)
        with np.errstate(divide="ignore"):
            shares = np.log(self.weights)
        by_model, asked = self._from_draws(values, shares)
        if asked.any():  # at each point all models that count are integrated, or none
            work = np.cumsum([each._integral_work() for each in self.components] @ asked)
            left = asked.any(axis=0) & (work > MOST_WORK)
            asked[:, left] = False
            warn_of_few(left, _FEWEST_DRAWS)
        for number in np.flatnonzero(asked.any(axis=1)):
            own = np.where(asked[number][:, None], values, np.nan)  # NaN: nothing is integrated there
            anew = shares[number] + self.components[number]._pointwise_log_density(own)
            by_model[number] = np.where(asked[number], anew, by_model[number])
        return np.asarray(special.logsumexp(by_model, axis=0), float)

    def _from_draws(self, values: Array, shares: Array) -> tuple[Array, Mask]:
        """Log of share times density of models at points, and where to integrate anew, (models, p̂) each."""
        by_model = np.empty((len(shares), len(values)))
        asked = np.zeros(by_model.shape, bool)
        atoms = len(self.marginals(slice(0, 1))[0])
        for rows in blocks(len(values), atoms * self.shape[1], 1 << 20):
            terms = [each._point_terms(values[rows], rows=rows) for each in self.components]
            weighted = [share + each for share, each in zip(shares, terms, strict=True) if each is not None]
            here = np.stack([special.logsumexp(each, axis=0) for each in weighted])
            doubtful = effective_atoms(np.concatenate(weighted)) < _FEWEST_DRAWS
            counts = here > here.max(axis=0) + math.log(_SMALLEST_SHARE)
            # From few draws a density may be wrong by many nats, so that no share follows from it.
            own = np.stack([effective_atoms(each) for each in weighted]) < _FEWEST_DRAWS
            counts |= own & (shares > math.log(_SMALLEST_SHARE))[:, None]
            asked[:, rows] = doubtful & counts
            by_model[:, rows] = here
        return by_model, asked

    def marginals(self, rows: slice) -> tuple[Array, Array, Array]:
        """All Gaussians of all models at some points."""
        parts = [component.marginals(rows) for component in self.components]
        weights = [share * part[0] for share, part in zip(self.weights, parts, strict=True)]
        means, deviations = ([part[k] for part in parts] for k in (1, 2))
        return np.concatenate(weights), np.concatenate(means), np.concatenate(deviations)

    def log_tails(self, rows: IndexArray, values: Array, sign: float) -> LogTails | None:
        """Averages over models, if every one of them has its own."""
        parts = [component.log_tails(rows, values, sign) for component in self.components]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        probability, density = (
            log_average(self.weights, np.stack([getattr(part, name) for part in known]))
            for name in ("probability", "density")
        )
        return LogTails(probability, density, np.any([part.anew for part in known], axis=0))

    def gaussians(self, row: int) -> tuple[Array, Array, Array]:
        """All Gaussians of all models at one point."""
        parts = [component.gaussians(row) for component in self.components]
        with np.errstate(divide="ignore"):
            shares = np.log(self.weights)
        log_weights = [share + part[0] for share, part in zip(shares, parts, strict=True)]
        means, covariances = ([part[k] for part in parts] for k in (1, 2))
        return np.concatenate(log_weights), np.concatenate(means), np.concatenate(covariances)

    def _sample(self, size: int, rng: np.random.Generator) -> Array:
        """Each draw from a model of its own."""
        chosen = rng.choice(len(self.weights), size=size, p=self.weights)
        draws = np.empty((size, *self.shape))
        for number, component in enumerate(self.components):
            here = chosen == number
            if here.any():
                draws[here] = component._sample(int(here.sum()), rng)
        return draws

    # ------------------------------------------------------------------ generating functions, observations

    def _cgf(self, source: Array) -> float:
        """Infinite where that of any model is."""
        return float(log_average(self.weights, np.array([each._cgf(source) for each in self.components])))

    def _characteristic(self, source: Array) -> complex:
        return complex(self.weights @ np.array([each._characteristic(source) for each in self.components]))

    def with_noise(self) -> MixturePredictive:
        """The predictive of observations rather than of the function."""
        return replace(self, components=tuple(component.with_noise() for component in self.components))
