"""Evidence of one output over a grid of networks and noise variances, from one spectrum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array, Mask
from lbnn.data.spectrum import Spectrum
from lbnn.engines.quadrature import integrate_over_noise
from lbnn.network import Network
from lbnn.noise.noise import Noise

_FEWEST = 3  # noise variances from which batching pays


@dataclass(frozen=True)
class EvidenceGrid:
    """Evidence and scale of every network at every noise variance. Returned by `evidence_grid`.

    Attributes
    ----------
    widths : tuple of tuples of int
    betas : (m,) array
    log_evidence, scale_mean, scale_inverse_mean : (len(widths), m) arrays
        Log p(Y | X), E λ and E λ⁻¹, each to rounding as from `Network.condition_spectrum`; E λ⁻¹ is infinite
        where its integral diverges.
    single : (len(widths), m) array of bool
        Points that were computed by the quadrature for a single posterior.
    """

    widths: tuple[tuple[int, ...], ...]
    betas: Array
    log_evidence: Array
    scale_mean: Array
    scale_inverse_mean: Array
    single: Mask

    def __repr__(self) -> str:
        """One line: the sizes and the best point."""
        row, column = np.unravel_index(np.argmax(self.log_evidence), self.log_evidence.shape)
        return (
            f"EvidenceGrid({len(self.widths)} networks × {len(self.betas)} betas, best widths="
            f"{self.widths[row]} at beta={self.betas[column]:.4g})"
        )


def evidence_grid(spectrum: Spectrum, widths: Sequence[Sequence[int]], betas: ArrayLike) -> EvidenceGrid:
    """Log evidence, E λ and E λ⁻¹ for many networks and noise variances at once: one output.

    The same numbers as `Network(widths).condition_spectrum(spectrum, beta)` for every pair, a hundred times
    faster: all noise variances of a network are integrated together. Where that does not converge, and at the
    limits beta = 0 and inf, the single quadrature answers.

    Parameters
    ----------
    spectrum : Spectrum
        Of data with one output.
    widths : sequence of sequences of int
        Hidden widths of each network; () is depth one.
    betas : sequence of float in [0, inf]
        Inverse temperatures.

    Returns
    -------
    EvidenceGrid

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(30, 50)), rng.normal(size=30)
    >>> spectrum = lbnn.Spectrum.from_inputs(X, y)
    >>> grid = lbnn.evidence_grid(spectrum, widths=[(10,), (10, 10)], betas=np.geomspace(0.1, 100, 20))
    >>> grid.log_evidence.shape
    (2, 20)
    >>> one = lbnn.Network((10, 10)).condition_spectrum(spectrum, grid.betas[3])
    >>> bool(np.isclose(grid.log_evidence[1, 3], one.log_evidence, rtol=1e-12))
    True
    """
    if spectrum.outputs != 1:
        raise ValueError(
            f"evidence_grid integrates over the scale of one output, got data with {spectrum.outputs}: "
            "condition each network by itself"
        )
    networks, listed = tuple(Network(each) for each in widths), np.asarray(betas)
    if not networks or listed.ndim != 1 or not len(listed):
        raise ValueError(
            "widths and betas must name at least one network and one number each, got "
            f"{len(networks)} networks and betas of shape {listed.shape}"
        )
    values = np.array([check.inverse_temperature(beta) for beta in listed.tolist()])
    answers = np.empty((3, len(networks), len(values)))
    single = np.ones(answers.shape[1:], bool)
    for row, network in enumerate(networks):
        _batch(network, spectrum, values, answers[:, row], single[row])
        for column in np.flatnonzero(single[row]):
            answers[:, row, column] = _one(network, spectrum, float(values[column]))
    log_evidence, mean, inverse_mean = answers
    every = tuple(network.widths for network in networks)
    return EvidenceGrid(every, values, log_evidence, mean, inverse_mean, single)


def _batch(network: Network, spectrum: Spectrum, betas: Array, answers: Array, single: Mask) -> None:
    """Fill in answers (3, betas) that converge in one batch for betas (n,), and unmark them."""
    inside = np.flatnonzero((betas > 0) & (betas < math.inf))
    if not network.widths or not spectrum.rank or len(inside) < _FEWEST:
        return
    prior = network.scale_prior(1)
    likelihoods = [Noise.independent(1 / beta).likelihood(spectrum) for beta in betas[inside]]
    found, accurate = integrate_over_noise(prior.log_scale_law, likelihoods)
    if not accurate:
        return
    constants, total = np.array([each.log_constant for each in likelihoods]), found.log_total()
    inverse = found.log_total(-1) if -1 in found.powers else np.full(len(total), np.inf)
    done = found.converged
    moments = [np.exp((each - total)[done]) for each in (found.log_total(1), inverse)]
    answers[:, inside[done]] = np.stack([(constants + total)[done], *moments])
    single[inside[done]] = False


def _one(network: Network, spectrum: Spectrum, beta: float) -> tuple[float, float, float]:
    posterior = network.condition_spectrum(spectrum, beta)
    scale = posterior.scale
    return posterior.log_evidence, float(np.squeeze(scale.mean)), float(np.squeeze(scale.inverse_mean))
