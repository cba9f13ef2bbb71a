"""Ways to and from other packages: a task as their model, their results as draws (chains, draws, dimension).

Each package is imported where it is used. Imports `benchmark.task`.
"""

from __future__ import annotations

from lbnn.benchmark.adaptors.arrays import from_arrays, from_weights
from lbnn.benchmark.adaptors.arviz import from_arviz, to_arviz
from lbnn.benchmark.adaptors.blackjax import from_blackjax
from lbnn.benchmark.adaptors.dynesty import dynesty_functions, from_dynesty
from lbnn.benchmark.adaptors.files import from_files
from lbnn.benchmark.adaptors.laplace import from_laplace, laplace_of
from lbnn.benchmark.adaptors.numpyro import from_numpyro, numpyro_model
from lbnn.benchmark.adaptors.nutpie import nutpie_model
from lbnn.benchmark.adaptors.pymc import pymc_model
from lbnn.benchmark.adaptors.stan import from_cmdstanpy, from_pystan

__all__ = [
    "dynesty_functions",
    "from_arrays",
    "from_arviz",
    "from_blackjax",
    "from_cmdstanpy",
    "from_dynesty",
    "from_files",
    "from_laplace",
    "from_numpyro",
    "from_pystan",
    "from_weights",
    "laplace_of",
    "numpyro_model",
    "nutpie_model",
    "pymc_model",
    "to_arviz",
]
