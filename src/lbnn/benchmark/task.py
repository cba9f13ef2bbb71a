"""A task: data, a network, and the known answers about its posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.html import card
from lbnn._base.types import Array, IndexArray
from lbnn.benchmark.density.functions import Functions
from lbnn.benchmark.density.other_languages import (
    DensityFunctions,
    StanProgram,
    jax_density,
    stan_program,
    torch_density,
)
from lbnn.benchmark.density.weights import WeightDensity
from lbnn.benchmark.reference.answers import (
    Answers,
    Expectations,
    TaskPhases,
    UnsupportedPosteriorError,
    as_views,
    condition,
)
from lbnn.posterior import Posterior
from lbnn.views.posterior import ViewPosterior

DRAWS_OF_ONE_INFERENCE = 1_000  # with several outputs: few against what its scales are worth
_REFERENCE_ERROR = 0.008  # aimed at by these inferences: about 30,000 effective scales

_ATTEMPTS = 4  # at an inference: the tail index of gated-37 is 0.45 to 0.53, where 0.5 is the limit


@dataclass(frozen=True, eq=False)
class Task:
    """A posterior of all weights of a deep linear network with known answers. Made by `lbnn.benchmark.load`.

    Attributes
    ----------
    name, family, summary : str
        `summary` says what is hard and what a wrong answer looks like.
    density : WeightDensity
        Data and network.
    functions : Functions
        What a posterior is judged by; `functions(z)` gives the values.
    answers : Answers
        Grade, expectations, evidence, phases.
    digest : str
        Of the stored numbers, which never change under the same name.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> task = lbnn.benchmark.load("coexist-10")
    >>> task
    Task('coexist-10', grade A, 10 weights, family coexistence)
    >>> z = task.reference(1000, seed=0)  # exact independent draws
    >>> z.shape, task.log_density(z).shape, task.gradient(z).shape
    ((1000, 10), (1000,), (1000, 10))
    >>> round(task.log_evidence, 2), task.phases
    (-225.34, TaskPhases(2: mass 0.5082, 0 fitted; mass 0.4918, 1 fitted))
    >>> mean, deviation, error = task.expectations["log tr L"]
    >>> round(mean, 3), error
    (-5.719, 0.0)
    """

    name: str
    family: str
    summary: str
    density: WeightDensity
    functions: Functions
    answers: Answers
    digest: str

    def __repr__(self) -> str:
        """One line: name, grade, size."""
        return f"Task({self.name!r}, grade {self.grade}, {self.dimension} weights, family {self.family})"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        rows = [
            ("family", self.family),
            ("grade", self.grade),
            ("weights", self.dimension),
            ("hidden widths", self.density.widths),
            ("data", f"{len(self.Y)} examples, {self.X.shape[1]} inputs, {self.density.channels} outputs"),
            *([("views", self.density.views)] if self.density.views else []),
            ("noise", self.density.noise),
            ("log evidence", f"{self.log_evidence:.6g} ± {self.log_evidence_error:.2g}"),
            ("phases", "; ".join(f"{mass:.3g}" for mass in self.phases.mass)),
        ]
        return card(self.name, rows)

    # ------------------------------------------------------------------ data and density

    @property
    def X(self) -> Array:  # noqa: N802
        """Inputs, (p, n0); with M views their rows, (p M, n0)."""
        return self.density.X

    @property
    def views(self) -> Array | None:
        """Views (p, M, n0) as `Network.condition_views` takes them; None for tasks without."""
        return as_views(self.density, self.X)

    @property
    def Y(self) -> Array:  # noqa: N802
        """Targets, (p, n_d); with views (p, 1)."""
        return self.density.Y

    @property
    def X_test(self) -> Array:  # noqa: N802
        """Test points of the functions, (p̂, n0); with views (p̂ M, n0)."""
        return self.functions.X_test

    @property
    def test_points(self) -> int:
        """p̂."""
        return len(self.X_test) // max(self.density.views, 1)

    @property
    def dimension(self) -> int:
        """Number of weights."""
        return self.density.dimension

    def flatten(self, weights: Any) -> Array:
        """Flat vectors of weights W_1, ..., W_d, shaped as in `torch.nn.Linear` and `sample_weights`."""
        return self.density.flatten(weights)

    def unflatten(self, z: ArrayLike) -> list[Array]:
        """Weights of flat vectors."""
        return self.density.unflatten(z)

    def log_prior(self, z: ArrayLike) -> Array:
        """Log N(z; 0, I)."""
        return self.density.log_prior(z)

    def log_likelihood(self, z: ArrayLike) -> Array:
        """Log p(Y | z)."""
        return self.density.log_likelihood(z)

    def log_density(self, z: ArrayLike) -> Array:
        """Log p(z, Y), with all constants: it integrates to the evidence."""
        return self.density.log_density(z)

    def gradient(self, z: ArrayLike) -> Array:
        """Gradient of `log_density`."""
        return self.density.gradient(z)

    def jax(self) -> DensityFunctions:
        """The density in JAX, for one vector z."""
        return jax_density(self.density)

    def torch(self) -> DensityFunctions:
        """The density in PyTorch, for vectors z of float64."""
        return torch_density(self.density)

    def stan(self) -> StanProgram:
        """A Stan program with its data; its `log_prob` is `log_density`."""
        return stan_program(self.density)

    # ------------------------------------------------------------------ answers

    @property
    def grade(self) -> str:
        """A: one output, no Monte Carlo error. B: several outputs or views, stated error, two estimates."""
        return self.answers.grade

    @property
    def expectations(self) -> Expectations:
        """Means and standard deviations of `functions`."""
        return self.answers.expectations

    @property
    def log_evidence(self) -> float:
        """Log p(Y)."""
        return self.answers.log_evidence

    @property
    def log_evidence_error(self) -> float:
        """Standard error of `log_evidence`; zero for grade A."""
        return self.answers.log_evidence_error

    @property
    def phases(self) -> TaskPhases:
        """Phases of the posterior with their masses."""
        return self.answers.phases

    def phase_of(self, z: ArrayLike) -> IndexArray:
        """Index of the phase of every vector z."""
        tail = self.density.tails(self.unflatten(z))[-1]
        return self.phases.of(tail @ tail.swapaxes(-1, -2))

    # ------------------------------------------------------------------ draws

    def prior_draws(self, size: int, seed: int) -> Array:
        """Draws from the prior, (size, dimension)."""
        count = check.positive_integer(size, "size")
        return check.generator(seed).standard_normal((count, self.dimension))

    def reference(self, size: int, seed: int) -> Array:
        """Exact posterior draws, (size, dimension).

        Independent for grade A. For grade B scales are resampled from weighted draws: every 1,000 come from
        an inference of their own with about 30,000 effective scales.
        """
        count, number = check.positive_integer(size, "size"), check.seed(seed)
        if self.grade == "A":
            return self.flatten(self.posterior.sample_weights(count, number))
        parts = math.ceil(count / DRAWS_OF_ONE_INFERENCE)
        sizes = [len(part) for part in np.array_split(np.arange(count), parts)]
        seeds = np.random.SeedSequence(number).spawn(parts)
        draws = [
            _supported(self.functions, own).sample_weights(part, np.random.default_rng(own))
            for part, own in zip(sizes, seeds, strict=True)
        ]
        return np.concatenate([self.flatten(weights) for weights in draws])

    def predict(self) -> Any:
        """The exact posterior predictive at the test points."""
        views = as_views(self.density, self.X_test)
        if views is None:
            return self.posterior.predict(self.X_test)
        return self.posterior.predict(views=views)

    @cached_property
    def posterior(self) -> Posterior | ViewPosterior:
        """The posterior behind the task."""
        return condition(self.functions, 0)


def _supported(functions: Functions, seed: np.random.SeedSequence) -> Posterior | ViewPosterior:
    """One inference that its diagnostics support, with another seed where they do not."""
    *attempts, last = seed, *seed.spawn(_ATTEMPTS - 1)
    for own in attempts:
        try:
            return condition(functions, check.seed(own), _REFERENCE_ERROR)
        except UnsupportedPosteriorError:
            continue
    return condition(functions, check.seed(last), _REFERENCE_ERROR)
