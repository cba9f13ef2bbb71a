"""From a state to a network, data and their posterior."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from lbnn._base.types import Array
from lbnn.explore.state import State
from lbnn.network import Network
from lbnn.posterior import Posterior

#: Standard error aimed at where draws are needed: two outputs behind many layers take a second.
TARGET_ERROR = 0.2
_KEPT = 24  # posteriors; with 200 examples and two outputs some megabytes each


def network(state: State) -> Network:
    """The network of the controls."""
    return Network(state.network_widths, state.prior_variances)


def data(state: State) -> tuple[Array, Array]:
    """X (p, n_0), and Y (p, n_d), or (p,) for one output.

    A teacher of the chosen rank, inputs and noise come from random numbers of their own, so that more
    examples are added to those that were there.
    """
    p, n0, nd, rank = state.examples, state.inputs, state.outputs, state.rank
    rng, inputs, noise = (np.random.default_rng([state.seed, stream]) for stream in range(3))
    teacher = rng.normal(size=(n0, rank)) @ rng.normal(size=(rank, nd)) / math.sqrt(n0 * rank)
    X = inputs.normal(size=(p, n0))
    Y = state.size * X @ teacher + state.noise * noise.normal(size=(p, nd))
    return X, Y[:, 0] if nd == 1 else Y


@lru_cache(maxsize=_KEPT)
def _posterior(state: State) -> Posterior:
    X, Y = data(state)
    return network(state).condition(X, Y, beta=state.beta, target_error=TARGET_ERROR)


def posterior(state: State) -> Posterior:
    """The posterior of the controls; kept, so that pictures share it.

    Examples
    --------
    >>> from lbnn.explore.problem import posterior
    >>> from lbnn.explore.state import State
    >>> posterior(State(examples=10)).diagnostics.engine
    'quadrature'
    """
    return _posterior(state.core())
