"""From a state to a network and data: the recipe that the page's lines of Python repeat."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.engines import Diagnostics, ScaleInference
from lbnn.explore.state import State
from lbnn.explore.table import Table
from lbnn.network import Network
from lbnn.noise.make import make_noise
from lbnn.posterior import Posterior
from lbnn.scale.measure import ScaleMeasure, eigen

#: Standard error aimed at where draws are needed: that of `Network.condition`.
TARGET_ERROR = 0.05
_ROUGH_DRAWS = 1000  # a tenth of a second of four outputs behind nineteen layers
_KEPT = 24  # posteriors; with 200 examples and four outputs some megabytes each


def network(state: State) -> Network:
    """The network of the controls."""
    return Network(state.network_widths, state.prior_variances)


def data(state: State, table: Table | None = None) -> tuple[Array, Array]:
    """X (p, n_0), and Y (p, n_d), or (p,) for one output.

    A teacher of the chosen rank, inputs and noise come from random numbers of their own, so that more
    examples are added to those that were there.
    """
    if state.source == "file":
        return _rows(state, table)
    p, n0, nd, rank = state.examples, state.inputs, state.outputs, state.rank
    rng, inputs, noise = (np.random.default_rng([state.seed, stream]) for stream in range(3))
    teacher = rng.normal(size=(n0, rank)) @ rng.normal(size=(rank, nd)) / math.sqrt(n0 * rank)
    X = inputs.normal(size=(p, n0))
    Y = state.size * X @ teacher + state.noise * noise.normal(size=(p, nd))
    return X, Y[:, 0] if nd == 1 else Y


def _rows(state: State, table: Table | None) -> tuple[Array, Array]:
    """The first rows of the user's table."""
    if table is None:
        raise ValueError("source=file needs a data file: pick one on the page, or start `lbnn explore FILE`")
    X, Y = table.X[: state.examples], table.Y[: state.examples]
    return X, Y[:, 0] if Y.shape[1] == 1 else Y


@lru_cache(maxsize=_KEPT)
def _spectrum(state: State, table: Table | None) -> Spectrum:
    return Spectrum.from_inputs(*data(state, table))


@lru_cache(maxsize=_KEPT)
def _posterior(state: State, table: Table | None) -> Posterior:
    return network(state).condition_spectrum(
        _spectrum(state.data(), table), state.beta, target_error=TARGET_ERROR
    )


def outputs(state: State, table: Table | None = None) -> int:
    """Number of outputs of the data."""
    return len(table.targets) if state.source == "file" and table is not None else state.outputs


@lru_cache(maxsize=_KEPT)
def _rough_posterior(state: State, table: Table | None) -> Posterior:
    spectrum, law = _spectrum(state.data(), table), network(state)
    prior, noise = law.scale_prior(spectrum.outputs), make_noise("independent", state.beta, spectrum)
    own = spectrum.scaled(law.prior_variances[0])
    noise.require(prior, own)
    likelihood = noise.likelihood(own)
    scales = prior.sample(_ROUGH_DRAWS, seed=0)
    with np.errstate(all="ignore"):  # at zero temperature singular draws have no density
        log_weights = np.nan_to_num(likelihood.log_value(*eigen(scales)), nan=-np.inf, posinf=-np.inf)
    best = float(log_weights.max())
    weights = np.exp(log_weights - best) if np.isfinite(best) else np.ones(_ROUGH_DRAWS)
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    message = (
        f"A rough picture: {_ROUGH_DRAWS} draws of the prior weighted by the likelihood, worth "
        f"{effective:.0f} independent draws. None of its numbers is exact"
    )
    log_evidence = best + float(np.log(weights.mean())) + likelihood.log_constant
    measure = ScaleMeasure(scales, weights / weights.sum(), spectrum.single_output)
    diagnostics = Diagnostics("rough", effective, ok=False, messages=(message,))
    inference = ScaleInference(measure, log_evidence, float("inf"), diagnostics)
    return Posterior(prior, own, noise, inference)


def rough_posterior(state: State, table: Table | None = None) -> Posterior:
    """A stand-in for `posterior` that takes a tenth of a second whatever the state: weighted prior draws.

    Examples
    --------
    >>> from lbnn.explore.problem import rough_posterior
    >>> from lbnn.explore.state import State
    >>> rough_posterior(State(examples=10, outputs=2)).diagnostics.ok
    False
    """
    return _rough_posterior(state.core(), table)


def posterior(state: State, table: Table | None = None) -> Posterior:
    """The posterior of the controls; kept, so that views share it.

    Examples
    --------
    >>> from lbnn.explore.problem import posterior
    >>> from lbnn.explore.state import State
    >>> posterior(State(examples=10)).diagnostics.engine
    'quadrature'
    """
    return _posterior(state.core(), table)
