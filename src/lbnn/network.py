"""Network: the user's entry. Widths and prior variances, and nothing of numerics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.arrays import device_of
from lbnn._base.types import Array, Mask
from lbnn._base.warn import warn_of
from lbnn.data.missing import MissingCells, checked_table
from lbnn.data.projection import Projection
from lbnn.data.spectrum import Spectrum
from lbnn.data.view_data import ViewData, checked_views, require_kernel
from lbnn.engines import InferenceOptions, Plan, Problem, infer, plan
from lbnn.free_noise.posterior import condition_free
from lbnn.free_noise.target import noise_variance
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.plain import PlainViews
from lbnn.likelihood.views import ViewDesign, ViewLikelihood
from lbnn.noise.make import given_noise, make_noise, noise_kind
from lbnn.noise.missing import observed_likelihood, plain_formula, refilled
from lbnn.noise.noise import Noise
from lbnn.posterior import Posterior, WithoutData
from lbnn.predict.predictive import Predictive
from lbnn.predict.process import Process
from lbnn.scale.draws import Draws
from lbnn.scale.prior import ScalePrior
from lbnn.sums.condition import by_chains, condition_block
from lbnn.views.posterior import ViewPosterior

#: What `seed` may be.
Seed = int | np.random.SeedSequence | np.random.Generator

#: Default standard error aimed at by engines that draw: 400 effective draws.
TARGET_ERROR = 0.05


@dataclass(frozen=True, init=False)
class Network:
    """A deep linear Bayesian network x ↦ W_d ⋯ W_1 x with [W_ℓ]_ij ~ N(0, σ_ℓ²/n_{ℓ−1}).

    Parameters
    ----------
    widths : sequence of int
        Hidden widths n_1..n_{d−1}; () is depth one, the Gaussian process.
    prior_variances : sequence of float, optional
        σ_1²..σ_d², one per layer; ones by default.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(20, 50)), rng.normal(size=20)
    >>> post = lbnn.Network(widths=(30, 30)).condition(X, y, beta=4.0)
    >>> post.predict(rng.normal(size=(3, 50))).mean.shape
    (3,)
    """

    widths: tuple[int, ...]
    prior_variances: tuple[float, ...]

    def __init__(
        self,
        widths: Sequence[int] | None = None,
        prior_variances: Sequence[float] | None = None,
        *,
        depth: None = None,
    ) -> None:
        if widths is None or depth is not None:
            raise TypeError(
                "a network is given by its hidden widths, one for each layer but the last, got "
                f"widths={widths!r}, depth={depth!r}: Network(widths=(50, 50)) has depth 3"
            )
        object.__setattr__(self, "widths", check.widths(widths))
        object.__setattr__(self, "prior_variances", check.prior_variances(prior_variances, self.depth))

    @property
    def depth(self) -> int:
        """Number of weight matrices, d."""
        return len(self.widths) + 1

    def scale_prior(self, outputs: int) -> ScalePrior:
        """ϖ, the prior law of the scale L over `outputs` output channels."""
        return ScalePrior(self.widths, check.positive_integer(outputs, "outputs"), self.prior_variances[1:])

    def choose_engine(
        self,
        examples: int,
        outputs: int,
        *,
        inputs: int | None = None,
        noise: str = "independent",
        zero_temperature: bool = False,
    ) -> Plan:
        """Plan what `condition` does by default for data of this size, and why; nothing is drawn.

        Parameters
        ----------
        examples, outputs : int
            p and n_d.
        inputs : int, optional
            n0; by default as many as examples, or more. The rank of the Gram matrix is the smaller of the
            two.
        noise : str
            As in `condition`; "free" is noise with a covariance that is given (one that is learned is always
            integrated by sequential Monte Carlo).
        zero_temperature : bool
            Whether beta is infinite; targets of full rank are assumed.

        Returns
        -------
        Plan
            `.engine`, `.reason` and `.steps`, each with a name and a reason; `print` shows all of it.

        Examples
        --------
        >>> import lbnn
        >>> lbnn.Network(widths=(50,)).choose_engine(examples=100, outputs=1).engine
        'quadrature'
        >>> print(lbnn.Network(widths=(50,)).choose_engine(examples=100, outputs=5, inputs=3))
        dual importance: more outputs than data: the kernel of the last hidden layer is smaller than the scale
          1. mixture (kernel): ...
          ...
        """
        count = check.positive_integer(examples, "examples")
        rank = count if inputs is None else min(count, check.positive_integer(inputs, "inputs"))
        number = check.positive_integer(outputs, "outputs")
        coupled = noise_kind(noise) == "coupled"
        rank = (number if count >= number else count) if coupled else rank  # of function and noise together
        noiseless = coupled or zero_temperature
        return plan(
            Problem(
                self.widths,
                number,
                rank,
                kernel=noise not in ("per_output", "free"),
                scale=not noiseless or all(width >= number for width in self.widths),
                deficient=noiseless and rank < number,
            )
        )

    def prior(
        self,
        X: ArrayLike,
        outputs: int | None = None,
        *,
        target_error: float = TARGET_ERROR,
        seed: Seed = 0,
    ) -> Predictive:
        """The function-space prior of the outputs at inputs X.

        Parameters
        ----------
        X : (p, n0)
        outputs : int, optional
            Number of outputs; None for one output without an output axis, as with a one-dimensional Y.
        target_error, seed
            As in `condition`.

        Returns
        -------
        Predictive
            Its `log_density(F)` is the paper's p_d(F | X).
        """
        inputs = check.matrix(X, "X")
        options = _options("auto", target_error, seed)
        count = 1 if outputs is None else check.positive_integer(outputs, "outputs")
        points, dimension = inputs.shape
        features = math.sqrt(self.prior_variances[0] / dimension) * inputs
        projection = Projection(device_of(inputs).zeros(points, 0), hidden=features)
        no_data = GaussianLikelihood(np.zeros(0), np.zeros((0, count)), 0.0, 0, math.inf)
        inference = infer(self.scale_prior(count), no_data, outputs is None, options)
        warn_of(inference.diagnostics.messages)
        process = Process.of(Draws.of(inference.measure, math.inf), no_data.eigenvalues, no_data.targets)
        return Predictive.of(process, projection, outputs is None, WithoutData.of(inference.measure))

    def condition(
        self,
        X: ArrayLike,
        Y: ArrayLike,
        beta: float | ArrayLike | None = None,
        *,
        observed: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        noise: str = "independent",
        noise_covariance: ArrayLike | None = None,
        noise_network: Network | None = None,
        engine: str = "auto",
        target_error: float = TARGET_ERROR,
        seed: Seed = 0,
    ) -> Posterior:
        """Condition on inputs X and targets Y.

        Parameters
        ----------
        X : (p, n0)
        Y : (p,) or (p, n_d)
        beta : float in [0, inf], or (n_d,) with noise="per_output"
            Inverse temperature: the noise variance of the targets is 1/beta; math.inf is zero temperature.
        observed : (p, n_d) of bool, optional
            Which targets were observed; the others may be NaN. Every row and every output needs one. For
            0 < beta < inf and noise="independent", "coupled" or, without weights and for narrow networks,
            "per_output".
        weights : (p,), optional
            Positive weights of the rows: the noise variance of row i is 1/(beta weights[i]), whatever the
            kind of noise. At zero temperature they have no effect.
        noise : "independent", "per_output", "coupled" or "free"
            "independent": variance 1/beta for every output. "per_output": variance 1/beta[j] for output j,
            under the same prior of the network; all beta equal is "independent". "coupled": the noise passes
            through the network, so that given the scale L its covariance across outputs is L/beta; this
            needs 0 < beta < inf and hidden widths of at least min(p, n_d). "free": the noise has a covariance
            of its own, which is given (noise_covariance) or learned (noise_network).
        noise_covariance : (n_d, n_d), optional
            With noise="free": the covariance Σ of the noise, positive definite; beta is then None.
        noise_network : Network, optional
            With noise="free": Σ = I/beta + L₂ with L₂ the scale of this network, as of a network on inputs
            that are private to each example. A narrow one makes noise of few factors.
        engine : str
            "auto" (see `choose_engine`), "importance", "smc", "dual", "quadrature" or "atom".
        target_error : float
            Standard error aimed at by engines that draw: of the log evidence, and of posterior means in
            units of posterior standard deviations.
        seed : int, numpy.random.SeedSequence or numpy.random.Generator
            Seed of engines that draw; deterministic ones ignore it.

        Returns
        -------
        Posterior, or FreeNoisePosterior with noise_network, or SumPosterior
            The last for tables with missing cells: with noise="per_output", and (noise="independent", no
            weights) behind a layer of at most eight units, fewer than outputs, from 1000 observed cells, or
            400 from three units on. See `condition_sum`, for which a target error of 0.5 is in reach.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X, Y, net = rng.normal(size=(20, 30)), rng.normal(size=(20, 2)), lbnn.Network(widths=(10,))
        >>> unequal = net.condition(X, Y, beta=[1.0, 100.0], noise="per_output")
        >>> unequal.predict(X[:3]).with_noise().variance.shape
        (3, 2)
        >>> net.condition(X, Y, beta=4.0, noise="coupled").noise.kind
        'coupled'
        >>> post = net.condition(X, Y, beta=4.0, weights=np.where(np.arange(20) < 10, 1.0, 0.1))
        >>> post.predict(X[:3]).mean.shape
        (3, 2)

        Outputs are dependent, so that the observed cells of one inform the missing cells of the other:

        >>> observed = rng.random((20, 2)) < 0.8
        >>> observed[:, 0] |= ~observed[:, 1]
        >>> net.condition(X, Y, beta=4.0, observed=observed).predict(X[:3]).mean.shape
        (3, 2)
        """
        options = _options(engine, target_error, seed)
        _require_covariance_of_free(noise, noise_covariance, noise_network)
        if observed is not None:
            table, mask = _observed_table(Y, observed, noise)
            if mask is not None:
                make = partial(Spectrum.from_inputs, X, weights=weights)
                return _partial_posterior(self, make, table, mask, beta, noise, options)
        spectrum = Spectrum.from_inputs(X, Y, weights=weights)
        return self._conditioned(spectrum, beta, noise, noise_covariance, noise_network, options)

    def condition_gram(
        self,
        gram: ArrayLike,
        Y: ArrayLike,
        beta: float | ArrayLike | None = None,
        *,
        observed: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        noise: str = "independent",
        noise_covariance: ArrayLike | None = None,
        noise_network: Network | None = None,
        engine: str = "auto",
        target_error: float = TARGET_ERROR,
        seed: Seed = 0,
    ) -> Posterior:
        """Condition on any positive semi-definite kernel matrix (p, p) instead of G_xx, as `condition`."""
        options = _options(engine, target_error, seed)
        if observed is not None:
            _require_covariance_of_free(noise, noise_covariance, noise_network)
            table, mask = _observed_table(Y, observed, noise)
            if mask is not None:
                make = partial(Spectrum.from_gram, gram, weights=weights)
                return _partial_posterior(self, make, table, mask, beta, noise, options, kernels=True)
        spectrum = Spectrum.from_gram(gram, Y, weights=weights)
        return self._conditioned(spectrum, beta, noise, noise_covariance, noise_network, options)

    def _conditioned(
        self,
        spectrum: Spectrum,
        beta: Any,
        noise: str,
        noise_covariance: ArrayLike | None,
        noise_network: Network | None,
        options: InferenceOptions,
    ) -> Posterior:
        """The posterior with any kind of noise; noise_covariance (n_d, n_d) for noise="free"."""
        _require_covariance_of_free(noise, noise_covariance, noise_network)
        given, unknown = noise_covariance is not None, noise_network is not None
        if noise != "free":
            return condition_with(self, spectrum, make_noise(noise, beta, spectrum), options)
        if given == unknown:
            raise ValueError(
                "noise='free' needs one of noise_covariance, a positive definite (n_d, n_d) matrix, and "
                "noise_network, the network whose scale is the covariance of the noise less I/beta, got "
                f"{'both' if given else 'neither'}"
            )
        if noise_network is None:
            if beta is not None:
                raise ValueError(
                    "with noise_covariance the noise is given, and beta must be None, got beta too"
                )
            return condition_with(self, spectrum, given_noise(noise_covariance, spectrum), options)
        if noise_network.prior_variances[0] != 1:
            raise ValueError(
                "the first layer of noise_network acts on inputs private to each example: its prior "
                f"variance must be one, got prior_variances={noise_network.prior_variances}"
            )
        variance = noise_variance(beta)
        own = noise_network.scale_prior(spectrum.outputs)
        if not own.widths:  # a scale that is σ² I
            known = Noise.independent(variance + own.variance)
            return condition_with(self, spectrum, known, options)
        data, prior = spectrum.scaled(self.prior_variances[0]), self.scale_prior(spectrum.outputs)
        free = condition_free(prior, data, variance, own, options)
        return cast(Posterior, free)  # callers that ask for noise_network know what they get

    def condition_views(
        self,
        views: ArrayLike,
        y: ArrayLike,
        beta: float,
        *,
        engine: str = "auto",
        target_error: float = TARGET_ERROR,
        seed: Seed = 0,
    ) -> Posterior | ViewPosterior:
        """Condition on observations y_μ = Σ_m [W_d ⋯ W_1 ψ_m(x_μ)]_m + noise, through M views ψ_m of x_μ.

        The views are fixed functions of x, linear or not: gates (a network that is piecewise linear), patches
        of an image (a convolutional layer), attention paths, tasks. `lbnn.views` makes them. The trunk may
        have any widths; gates in every layer are another model.

        Parameters
        ----------
        views : (p, M, n0)
            ψ_m(x_μ); or the kernel between them, (p, M, p, M).
        y : (p,)
        beta : float in (0, inf)
            The noise variance is 1/beta.
        engine, target_error, seed
            As in `condition`.

        Returns
        -------
        ViewPosterior
            A `Posterior` where there is one view (M = 1): that is `condition` on its inputs.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> images = rng.normal(size=(30, 4, 4))
        >>> views = lbnn.views.patches(images, size=2, stride=2)
        >>> views.shape
        (30, 4, 4)
        >>> y = views[:, 0].sum(axis=1) + 0.1 * rng.normal(size=30)
        >>> post = lbnn.Network(widths=(20,)).condition_views(views, y, beta=100.0)
        >>> int(np.argmax(np.diag(post.scale.mean)))  # the patch that matters
        0
        """
        options = _options(engine, target_error, seed)
        array = checked_views(views)
        if array.ndim == 4:
            require_kernel(array)
        observations = check.real_array(y, "y")
        if observations.shape != array.shape[:1]:
            raise ValueError(
                f"y must have one number for each of the {len(array)} observations, got "
                f"y.shape={observations.shape}"
            )
        if not array.any():
            raise ValueError("views must not all be zero, since y is then noise alone, got zeros only")
        if array.shape[1] == 1:
            if array.ndim == 4:
                return self.condition_gram(
                    array[:, 0, :, 0], y, beta, engine=engine, target_error=target_error, seed=seed
                )
            return self.condition(array[:, 0], y, beta, engine=engine, target_error=target_error, seed=seed)
        number = check.inverse_temperature(beta)
        if not 0 < number < math.inf:
            raise ValueError(
                f"observations through several views need noise, 0 < beta < inf, got beta={number:g}"
            )
        return _view_posterior(self, array, observations, 1 / number, options)

    def condition_spectrum(
        self,
        spectrum: Spectrum,
        beta: float | ArrayLike | None = None,
        *,
        noise: str = "independent",
        engine: str = "auto",
        target_error: float = TARGET_ERROR,
        seed: Seed = 0,
    ) -> Posterior:
        """Condition on data that are already decomposed, with beta a number or (n_d,), for every network."""
        options = _options(engine, target_error, seed)
        return condition_with(self, spectrum, make_noise(noise, beta, spectrum), options)


def _require_covariance_of_free(noise: str, covariance: Any, network: Network | None) -> None:
    """Raise where a covariance of the noise is given for noise that takes none."""
    if noise != "free" and (covariance is not None or network is not None):
        raise ValueError(
            f"noise_covariance and noise_network are for noise='free', got them with noise={noise!r}"
        )


def _observed_table(Y: ArrayLike, observed: ArrayLike, noise: str) -> tuple[Array, Mask | None]:
    """Targets (p, n_d) and which of them were observed; None for the mask where all were."""
    if noise not in ("independent", "coupled", "per_output"):
        raise ValueError(
            "missing targets are for noise='independent', 'coupled' or 'per_output', got "
            f"noise={noise!r}: condition_sum has a second network, on the identity, for noise of its own"
        )
    return checked_table(Y, observed)


def condition_with(
    network: Network, spectrum: Spectrum, noise: Noise, options: InferenceOptions
) -> Posterior:
    """The posterior of a network given data and a noise object; answers that are not ok warn."""
    posterior = posterior_with(network, spectrum, noise, options)
    warn_of(posterior.diagnostics.messages)
    return posterior


def posterior_with(
    network: Network, spectrum: Spectrum, noise: Noise, options: InferenceOptions
) -> Posterior:
    """The same without warnings: its diagnostics say whether it is ok."""
    data, prior = spectrum.scaled(network.prior_variances[0]), network.scale_prior(spectrum.outputs)
    noise.require(prior, data)
    plain = noise.plain_likelihood(data)
    inference = infer(prior, noise.likelihood(data), data.single_output, options, plain)
    scales = noise.scale_in_units(inference.measure, network.depth)
    mean = scales.average_scale
    lost = noise.in_units(data)._rounding_message(noise.variance, mean, options.target_error, noise.coupling)
    if lost:
        inference = inference.doubted(lost)
    return Posterior(prior, data, noise, inference)


def _partial_posterior(
    network: Network,
    make: Callable[[Array], Spectrum],
    table: Array,
    observed: Mask,
    beta: float | ArrayLike | None,
    kind: str,
    options: InferenceOptions,
    *,
    kernels: bool = False,
) -> Posterior:
    """The posterior given the cells of a table (p, n_d) that are observed; answers that are not ok warn.

    `make` decomposes inputs or kernel together with a filled table.
    """
    filled = np.where(observed, table, 0.0)
    filled = np.where(observed, table, filled.sum(axis=0) / observed.sum(axis=0))
    spectrum = make(filled)
    ordinary = kind == "independent" and spectrum.weights is None and options.engine == "auto"
    if kind == "per_output" or (ordinary and spectrum.rank and by_chains(network.widths, observed)):
        if spectrum.weights is not None:
            raise ValueError("missing targets with noise='per_output' take no weights of rows, got weights")
        known = beta if kind == "per_output" else check.inverse_temperature(beta)
        error, seed = options.target_error, options.seed
        found = condition_block(network, spectrum, kernels, filled, observed, known, error, seed)
        return cast(Posterior, found)  # as with noise_network
    data, prior = spectrum.scaled(network.prior_variances[0]), network.scale_prior(spectrum.outputs)
    noise = make_noise(kind, beta, data)
    own = np.ones(len(table)) if spectrum.weights is None else spectrum.weights
    cells = MissingCells(observed, np.sqrt(own)[:, None] * filled, own, centred=False)
    noise.require_table(prior, cells)
    posterior = table_posterior(prior, data, noise, cells, options)
    warn_of(posterior.diagnostics.messages)
    return posterior


def table_posterior(
    prior: ScalePrior,
    data: Spectrum,
    noise: Noise,
    cells: MissingCells,
    options: InferenceOptions,
) -> Posterior:
    """The posterior given the observed cells of a table, filled with any numbers, without warnings."""
    data, cells = refilled(data, cells, noise)
    table = noise.table_data(data, cells)
    likelihood = observed_likelihood(table, cells, noise.variance, prior.widths)
    plain = plain_formula(table, cells, noise.variance)
    inference = infer(prior, likelihood, False, options, plain)
    mean = inference.measure.average_scale
    lost = data._rounding_message(noise.variance, mean, options.target_error, noise.coupling)
    if lost:
        inference = inference.doubted(lost)
    return Posterior(prior, data, noise, inference, cells)


def _view_posterior(
    network: Network, views: Array, y: Array, noise: float, options: InferenceOptions
) -> ViewPosterior:
    """The posterior given views (p, M, n0) or their kernel (p, M, p, M); answers that are not ok warn."""
    variance = network.prior_variances[0]
    if views.ndim == 4:
        data, design = ViewData.of_kernel(views, y, variance), ViewDesign.of_blocks(variance * views)
        plain = PlainViews(variance * views, y, noise)
    else:
        data = ViewData.of_views(views, y, variance)
        design = ViewDesign.of_blocks(data.kernel)
        features = math.sqrt(variance / views.shape[2]) * views
        kernel = np.einsum("ami,bni->ambn", features, features, optimize=True)
        plain = PlainViews(kernel, y, noise, features)
    prior = network.scale_prior(views.shape[1])
    likelihood = ViewLikelihood(design, data.observations, data.residual, len(y), noise)
    inference = infer(prior, likelihood, False, options, plain)
    warn_of(inference.diagnostics.messages)
    return ViewPosterior(prior, data, noise, inference)


def _options(engine: str, target_error: float, seed: Seed) -> InferenceOptions:
    return InferenceOptions(float(check.probability(target_error, "target_error")), check.seed(seed), engine)
