"""How much of each output is signal, and how outputs correlate, for all that a fit leaves open.

The share of the signal s = ρ/(1 + ρ) follows from its ratio to the noise, ρ = ḡκL_jj in whitened units, with
ḡ the mean eigenvalue of the Gram matrix. Noise u and prior scale κ were chosen at a maximum of the evidence;
for an interval that is calibrated they are integrated again.

Where L is known up to κ (one output, or infinite width) ρ is ḡκ: the evidence at infinite width is integrated
over u in closed form, and over ρ on a grid. The prior of s is Beta(½, ½), uniform in the standard deviation
of what vanishes at either end (Gelman, 2006). A finite network of one output has the same law of s, since a
flat prior of log κ hides the law of λ.

With several outputs behind a finite network, log ρ_j = log(ḡκL_jj) given the hyperparameters φ is known from
draws of L. Along the line on which log κ is most uncertain, φ* + t C⁻¹b/√(bᵀC⁻¹b) with b = ∂log κ/∂φ,
posteriors at a few t give the evidence and the mean of log ρ. What is uncertain across the line moves log ρ
linearly (∂f/∂φ the slope of the log likelihood given L),

    ∂E[log ρ_j]/∂φ = b + Cov(log L_jj, ∂f/∂φ).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special
from scipy.interpolate import CubicSpline

from lbnn._base.blocks import blocks
from lbnn._base.types import Array, Mask
from lbnn._base.warn import collected
from lbnn.estimator.fitted import FittedModel, turned
from lbnn.selection import EvidenceData, NoiseSpec, Trial

INTERVAL = 0.9  # probability of the interval of the share of the signal
_GRID = 2000  # of arcsin √s: ends of intervals to 1e-3
#: Standard deviations at which a posterior is computed along the line: beyond them is 1% of a Gaussian.
_NODES = (-2.4, -1.2, 0.0, 1.5, 3.0)
_STEPS = 31  # between the first and the last of them
_MOST_OUTPUTS = 32  # of which that many posteriors are computed; log κ is narrow with more
_ACROSS = special.ndtri((np.arange(16) + 0.5) / 16)  # equally probable normal deviations

#: Of one output: values and their masses, (m,) each.
Law = tuple[Array, Array]


@dataclass(frozen=True)
class ShareSearch:
    """What the laws of the shares are computed from.

    Attributes
    ----------
    data : EvidenceData
    given : NoiseSpec
        Hyperparameters that are given.
    fitted : callable
        The model of a trial; its accuracy may be coarse.
    observed : float
        Share of the cells that were observed: `data` of an incomplete table are completed, and their
        evidence counts as much.
    """

    data: EvidenceData
    given: NoiseSpec
    fitted: Callable[[Trial], FittedModel]
    observed: float = 1.0

    def laws(self, trials: Sequence[Trial], best: FittedModel) -> list[Law]:
        """Of every output, averaged over trials of which the first is the model `best`."""
        several = trials[: len(trials) if self.data.outputs > 1 else 1]
        weights = special.softmax([each.score for each in several])
        nodes = _NODES if self.data.outputs <= _MOST_OUTPUTS else (0.0,)
        with collected():  # of posteriors whose average counts
            parts = [self._of(trials[0], best, nodes)]
            parts += [self._of(each, self.fitted(each), (0.0,)) for each in several[1:]]
        return mixed(parts, weights)

    def _of(self, trial: Trial, model: FittedModel, nodes: Sequence[float]) -> list[Law]:
        known = self.given.noise_variance is not None and self.given.prior_scale is not None
        varies = self.data.spectrum.targets.any() and self.data.spectrum.rank
        if known or not self.data.noise_variance or not varies:
            return drawn_laws(model)
        single = self.data.outputs == 1 and self.given.prior_scale is None
        if single or not trial.widths or trial.on_edge:
            return [self.ratio_law(trial)] * len(model.matrix)
        return self._along_line(trial, model, np.array(nodes))

    def ratio_law(self, trial: Trial) -> Law:
        """The share at infinite width: a grid of s = sin² θ, of equal prior masses, and its posterior."""
        data, examples, units = self.data, self.data.spectrum.examples, trial.h[:-1]
        eigenvalues, targets = data.spectrum.eigenvalues, data.spectrum.targets
        share = np.sin((np.arange(_GRID) + 0.5) * (np.pi / 2 / _GRID)) ** 2
        scale = share / (1 - share) * examples / eigenvalues.sum()  # κ = ρ/ḡ
        variance = 1 + scale[:, None] * eigenvalues
        misfit = (1 / variance) @ targets**2 + data.residuals  # m, (grid, n_d)
        if self.given.noise_variance is not None:
            terms = misfit / np.exp(units)
        elif self.given.prior_scale is not None:  # κu stays
            log_units = units + (trial.h[-1] - np.log(scale))[:, None]
            terms = misfit / np.exp(log_units) + examples * log_units
        elif "per_output" in trial.noise:  # ∫ u^{−p/2} exp(−m/2u) du/u ∝ m^{−p/2}
            terms = examples * np.log(misfit[:, misfit.any(axis=0)])  # constant outputs say nothing
        else:
            terms = examples * data.outputs * np.log(misfit.sum(axis=1, keepdims=True))
        log_density = -0.5 * (terms.sum(axis=1) + data.outputs * np.log(variance).sum(axis=1))
        return share, special.softmax(self.observed * log_density)

    def _along_line(self, trial: Trial, model: FittedModel, nodes: Array) -> list[Law]:
        """Several outputs behind a finite network: draws of log ρ at nodes, moved to steps between them."""
        covariance = np.linalg.inv(trial.curvature)
        slope = trial.directions[-1]
        line = covariance @ slope / np.sqrt(slope @ covariance @ slope)
        models, draws = [], []
        for t in nodes:
            there = replace(trial, h=trial.h + trial.directions @ line * t)
            models.append(self.fitted(there) if t else model)
            draws.append(self._log_ratios(there, models[-1]))
        means, response = (
            np.stack([masses @ ratios for masses, ratios, _ in draws]),
            draws[len(nodes) // 2][2],
        )
        across = np.einsum("jk,kl,jl->j", response, covariance, response)
        if len(nodes) > 1:
            steps = np.linspace(nodes[0], nodes[-1], _STEPS)
            evidence = np.array([each.log_evidence for each in models])
            moved, log_density = (CubicSpline(nodes, each)(steps) for each in (means, evidence))
            across = np.maximum(across - (response @ line) ** 2, 0)
        else:  # linear along the line as well
            steps, moved, log_density = nodes, means, np.zeros(1)
        weights, nearest = special.softmax(log_density), np.abs(steps[:, None] - nodes).argmin(axis=1)
        laws = []
        for j, deviation in enumerate(np.sqrt(across)):
            values = [
                draws[n][1][:, j]
                + moved[a, j]
                - means[n, j]
                + deviation * np.resize(np.roll(_ACROSS, a), len(draws[n][0]))
                for a, n in enumerate(nearest)
            ]
            masses = [weight * draws[n][0] for weight, n in zip(weights, nearest, strict=True)]
            laws.append((special.expit(np.concatenate(values)), np.concatenate(masses)))
        return laws

    def _log_ratios(self, trial: Trial, model: FittedModel) -> tuple[Array, Array, Array]:
        """Masses (m,) and draws (m, n_d) of log ρ, and its response to φ, (n_d, k)."""
        measure, spectrum = model.posterior._scale_in_units, self.data.spectrum
        constant = trial.h[-1] + np.log(spectrum.eigenvalues.sum() / spectrum.examples)
        if trial.coupled:  # noise and signal have the covariance L: their ratio is ḡκ
            ratios = np.full((len(measure.weights), len(model.matrix)), constant)
            return measure.weights, ratios, np.tile(trial.directions[-1], (ratios.shape[1], 1))
        variances = np.diagonal(turned(measure.scales, model.matrix), axis1=1, axis2=2)
        ratios = constant + np.log(variances / (model.matrix**2).sum(axis=1))
        values, axes = measure.eigen
        roots = axes * np.sqrt(values)[:, None, :]
        slopes = self.observed * self.data.slopes(trial.h, roots) @ trial.directions
        about = measure.weights[:, None] * (ratios - measure.weights @ ratios)
        return measure.weights, ratios, trial.directions[-1] + about.T @ slopes


def drawn_laws(model: FittedModel) -> list[Law]:
    """Of draws of the covariances of signal and noise, (m,) each; no signal where both vanish."""
    masses, *covariances = model.covariance_draws()
    signal, noise = (np.diagonal(each, axis1=1, axis2=2) for each in covariances)
    with np.errstate(invalid="ignore"):
        values = np.nan_to_num(signal / (signal + noise))
    return [(each, masses) for each in values.T]


def mixed(parts: Sequence[Sequence[Law]], weights: Array) -> list[Law]:
    """Mixtures of the laws of every output."""
    shares = [zip(*laws, strict=True) for laws in zip(*parts, strict=True)]
    return [
        (np.concatenate(values), np.concatenate([w * each for w, each in zip(weights, masses, strict=True)]))
        for values, masses in shares
    ]


def means_and_intervals(laws: Sequence[Law]) -> Array:
    """Mean and the ends of the equal-tailed interval, (n_d, 3)."""
    tail = (1 - INTERVAL) / 2
    return np.array([[m @ v / m.sum(), *_quantiles(v, m, (tail, 1 - tail))] for v, m in laws])


def correlations(models: Sequence[FittedModel], weights: Array, of: str) -> tuple[Array, Array]:
    """Posterior means and deviations of correlations "signal" or "noise" of the mixture, (n_d, n_d) each."""
    parts = []
    for share, model in zip(weights, models, strict=True):
        masses, signal, noise = model.covariance_draws()
        parts.append((share * masses, signal if of == "signal" else noise))
    return _moments(parts)


def _moments(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Mean and standard deviation of correlations, (n_d, n_d) each, given that both outputs vary; else NaN.

    From parts with masses (m,) and covariances (m, n_d, n_d), or (1, n_d, n_d) where all draws have the same.
    A model without signal has no correlations of it, and does not count. In blocks of draws: 200 outputs have
    300 MB of them.
    """
    size = parts[0][1].shape[1]
    total, mean, square = np.zeros((3, size, size))
    for masses, covariances in parts:
        mass = masses if len(covariances) == len(masses) else masses.sum(keepdims=True)
        for block in blocks(len(mass), size**2):
            values, both = _correlation(covariances[block])
            total += np.tensordot(mass[block], both, axes=1)
            mean += np.tensordot(mass[block], values, axes=1)
            square += np.tensordot(mass[block], values**2, axes=1)
    with np.errstate(invalid="ignore"):
        mean, square = mean / total, square / total
    deviation: Array = np.sqrt(np.maximum(square - mean**2, 0.0))
    return mean, deviation


def _correlation(covariances: Array) -> tuple[Array, Mask]:
    """Correlations of covariances, (m, n_d, n_d), zero where an output does not vary, and where both do."""
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    both = (inverse[:, :, None] > 0) & (inverse[:, None, :] > 0)
    values = covariances * inverse[:, :, None] * inverse[:, None, :]
    index = np.arange(values.shape[1])
    values[:, index, index] = both[:, index, index]  # one, to the last digit
    return values, both


def _quantiles(values: Array, mass: Array, levels: Sequence[float]) -> Array:
    """Of weighted values (m,), by linear interpolation of their distribution function."""
    order = np.argsort(values)
    ends = np.cumsum(mass[order])
    return np.interp(levels, (ends - 0.5 * mass[order]) / ends[-1], values[order])
