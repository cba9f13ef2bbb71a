"""An infinitely wide network whose last-layer variance is random (Lee et al. 2021).

Its scale is L = s I, with one number s for all outputs and any prior of s. The posterior of s is that of the
scale of a network with one output. A network of finite width has a random scale without such a prior, and a
matrix L that couples the outputs, which s I does not.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from lbnn._base import check
from lbnn._base.log_integrals import Nodes
from lbnn._base.types import Array
from lbnn._base.warn import warn_of
from lbnn.data.spectrum import Spectrum
from lbnn.engines import Diagnostics, ScaleInference
from lbnn.engines.quadrature import QuadratureLaw, messages
from lbnn.likelihood.existence import require_invertible_gram
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.noise.noise import Noise
from lbnn.posterior import Posterior
from lbnn.scale.measure import Exponent, ScaleMeasure, Tails
from lbnn.scale.prior import ScalePrior

_TAIL = 300.0  # |log s| at which the slope of the log prior is taken for that of its tail


@dataclass(frozen=True)
class ScaleMixture:
    """A Gaussian process of random scale: the infinitely wide network with a random last-layer variance s.

    Parameters
    ----------
    prior : frozen continuous distribution of scipy.stats
        Law of s with a smooth density on all positive numbers; by default the inverse Gamma law with shape 2
        and mean 1.
    exponential_rate : float
        Supremum of c with E exp(½ c s) finite, which generating functions need: 0 for the inverse Gamma and
        log-normal laws, 2/scale for a Gamma law.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> from scipy import stats
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(10, 20)), rng.normal(size=10)
    >>> by_hand = lbnn.ScaleMixture(stats.gamma(25, scale=1 / 25)).condition(X, y, beta=4.0)
    >>> by_depth = lbnn.Network(widths=(50,)).condition(X, y, beta=4.0)  # one output: the same law
    >>> bool(np.isclose(by_hand.log_evidence, by_depth.log_evidence, rtol=1e-9))
    True
    """

    prior: Any = field(default_factory=lambda: stats.invgamma(2.0, scale=1.0))
    exponential_rate: float = 0.0

    def __repr__(self) -> str:
        """One line: the law and its parameters."""
        keywords = [f"{name}={value!r}" for name, value in self.prior.kwds.items()]
        law = f"{self.prior.dist.name}({', '.join([*map(repr, self.prior.args), *keywords])})"
        return f"ScaleMixture({law}, exponential_rate={self.exponential_rate:g})"

    def __post_init__(self) -> None:
        """Raise unless the prior is a law on all positive numbers, and the rate a number of at least zero."""
        rate = self.exponential_rate
        if isinstance(rate, bool) or not isinstance(rate, numbers.Real) or not float(rate) >= 0:
            raise ValueError(f"exponential_rate must be a number of at least zero, got {rate!r}")
        if not (hasattr(self.prior, "logpdf") and hasattr(self.prior, "args")):  # frozen ones have both
            raise TypeError(
                f"prior must be a frozen continuous distribution of scipy.stats, got {self.prior!r}"
            )
        low, high = (float(end) for end in self.prior.support())
        if low != 0 or math.isfinite(high):  # the quadrature converges fast for smooth densities only
            raise ValueError(
                f"prior must be a law on all positive numbers, got support from {low:g} to {high:g}"
            )

    def condition(self, X: ArrayLike, Y: ArrayLike, beta: float) -> Posterior:
        """Condition on inputs X (p, n0) and targets Y (p,) or (p, n_d); beta in (0, inf].

        Returns
        -------
        Posterior
            Of a network without finite hidden layers: it has no feature kernel and no weights to draw.
        """
        return self.condition_spectrum(Spectrum.from_inputs(X, Y), beta)

    def condition_spectrum(self, spectrum: Spectrum, beta: float) -> Posterior:
        """Condition on data that are already decomposed."""
        beta = check.inverse_temperature(beta)
        if beta == 0:
            raise ValueError("beta must be positive, got beta=0: the posterior is the prior")
        if math.isinf(beta):
            require_invertible_gram(spectrum)
        law = IsotropicLaw(self.prior, _stacked_likelihood(spectrum, 1 / beta), spectrum.outputs)
        nodes = law.scalar.nodes
        tails = Tails(law.scalar.inverse_integrable, self.exponential_rate)
        measure = ScaleMeasure(law.matrices(nodes.x), nodes.weights, spectrum.single_output, tails, law)
        diagnostics = Diagnostics("quadrature", math.inf, ok=nodes.converged, messages=messages(nodes))
        warn_of(diagnostics.messages)
        log_evidence = law.scalar.likelihood.log_constant + nodes.log_total
        inference = ScaleInference(measure, log_evidence, 0.0, diagnostics)
        return Posterior(ScalePrior((), spectrum.outputs), spectrum, Noise.independent(1 / beta), inference)


@dataclass(frozen=True)
class LogScaleLaw:
    """The prior of x = log s, in the form that the quadrature over log λ takes."""

    prior: Any

    def log_density(self, x: Array) -> Array:
        """Log density of x (m,)."""
        return np.asarray(self.prior.logpdf(np.exp(x))) + x

    saddle_log_density = log_density

    @property
    def left_exponent(self) -> float:
        """The a with density of x ~ e^{a x} for x → −∞; infinite where it falls faster."""
        return self._exponent(-1)

    @property
    def right_exponent(self) -> float:
        """The a with density of x ~ e^{−a x} for x → ∞; infinite where it falls faster."""
        return self._exponent(1)

    def location(self, power: float) -> float:
        """A point near the mass of s^power times the density: where the search for a range begins."""
        quantile = 0.5 + 0.49 * math.tanh(power)
        return math.log(float(self.prior.ppf(quantile)))

    def _exponent(self, side: int) -> float:
        """The rate at which the log density falls towards −∞ (side −1) or ∞ (side 1)."""
        with np.errstate(all="ignore"):
            near, far = self.log_density(side * np.array([_TAIL, _TAIL + 20.0]))
        return float(near - far) / 20.0 if math.isfinite(far) and math.isfinite(near) else math.inf


class MixedScaleLaw(QuadratureLaw):
    """The posterior of log s."""

    def __init__(self, prior: Any, likelihood: GaussianLikelihood) -> None:
        self.law: LogScaleLaw = LogScaleLaw(prior)  # type: ignore[assignment]
        self.likelihood = likelihood

    @cached_property
    def nodes(self) -> Nodes:
        """Nodes good for the moments of s that exist; its mean must."""
        decay = self.law.right_exponent + len(self.likelihood.eigenvalues) / 2
        if decay <= 1:
            raise ValueError(
                "the posterior mean of the scale must exist: tail exponent of the prior + rank(G)·n_d/2 > 1, "
                f"got {decay:g}: use a prior with a lighter tail, or more data"
            )
        if (
            self.likelihood.noise_variance == 0
            and not self.likelihood.targets.any()
            and self._lost >= self.law.left_exponent
        ):
            raise ValueError(
                "at zero temperature and zero targets the prior must keep the scale from zero, left exponent "
                f"> p·n_d/2 = {self._lost:g}, got {self.law.left_exponent:g}: use a finite beta"
            )
        powers = (-1, 0, 1) if self.inverse_integrable else (0, 1)
        return self._integrate(None, (*powers, 2) if decay > 2 else powers)

    @property
    def _lost(self) -> float:
        """The likelihood at zero temperature and zero targets is s^{−lost}: this power, p·n_d/2."""
        return len(self.likelihood.eigenvalues) / 2


class IsotropicLaw:
    """The law of L = s I behind the quadrature nodes."""

    def __init__(self, prior: Any, likelihood: GaussianLikelihood, outputs: int) -> None:
        self.scalar, self.outputs = MixedScaleLaw(prior, likelihood), outputs

    def matrices(self, x: Array) -> Array:
        """s I, (m, n_d, n_d)."""
        return np.exp(x)[:, None, None] * np.eye(self.outputs)

    def log_expect_exp(self, exponent: Exponent) -> complex:
        def of_number(values: Array, vectors: Array) -> Any:
            """The exponent at s I for numbers s (m, 1), (m,)."""
            identities = np.broadcast_to(np.eye(self.outputs), (len(values), self.outputs, self.outputs))
            return exponent(np.repeat(values, self.outputs, axis=1), identities)

        return self.scalar.log_expect_exp(of_number)

    def log_density(self, x: Array) -> Array:
        """Log density of x = log s, (m,)."""
        return self.scalar.log_density(x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws of s I, (size, n_d, n_d)."""
        return self.scalar.sample(size, rng) * np.eye(self.outputs)

    def sample_factors(self, size: int, rng: np.random.Generator) -> list[Array]:
        """An error: there is no finite list of factors (size, rows, columns)."""
        raise ValueError("an infinitely wide network has no finite list of weights to draw")

    def partial_products(self, layer: int) -> Array:
        """An error: there are no finite hidden layers with products (m, rows, columns)."""
        raise ValueError("an infinitely wide network has no finite hidden layers")


def _stacked_likelihood(spectrum: Spectrum, noise_variance: float) -> GaussianLikelihood:
    """p(Y | s I): that of one output with n_d times the examples, the outputs stacked."""
    outputs = spectrum.outputs
    return GaussianLikelihood(
        np.repeat(spectrum.eigenvalues, outputs),
        spectrum.targets.reshape(-1, 1),
        spectrum.residual,
        spectrum.examples * outputs,
        noise_variance,
    )
