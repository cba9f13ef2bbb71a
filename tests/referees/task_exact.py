"""Exact expectations of all functions of a task with one output: means and standard deviations by quadrature.

Given λ everything is a Gaussian, a χ² or a gain (see `gains`), and independent. With w_i the coordinate of
the one row of W_1 that the data see along the i-th eigenvector of G, a priori standard normal,

    w_i | λ ~ N(m_i, s_i),   s_i = (1 + g_i λ/τ)⁻¹,   m_i = √(g_i λ) ỹ_i/(τ + g_i λ);

the other weights keep their prior. Averages over λ are sums over the nodes of the posterior's quadrature.
"""

from __future__ import annotations

import math

import numpy as np

from lbnn._base.types import Array
from lbnn.benchmark.density.functions import Functions
from lbnn.posterior import Posterior
from tests.referees.task_gains import Gains

#: Given-λ first and second moments of one function, (m,) each.
Moments = tuple[Array, Array]


class ExactMoments:
    """First and second moments of the functions of one task."""

    def __init__(self, functions: Functions, posterior: Posterior) -> None:
        self.functions, self.density = functions, functions.density
        self.posterior, self.weights = posterior, posterior.scale.weights
        self.scales = posterior.scale.scales[:, 0, 0]
        variances = posterior.prior.layer_variances
        self.gains = Gains(posterior.prior.widths, variances, np.log(self.scales), self.weights)
        self.values = posterior.spectrum.eigenvalues
        self.targets = posterior.spectrum.targets[:, 0]
        signal = self.values * self.scales[:, None]  # g_i λ, (m, r)
        noise = self.density.noise**2
        self.spread = 1 / (1 + signal / noise)
        self.mean = np.sqrt(signal) * self.targets / (noise + signal)
        self.fit = (self.targets**2 / (noise + signal)).sum(axis=1)  # Σ ỹ_i²/(τ + g_i λ)

    def __call__(self) -> tuple[Array, Array]:
        """Means and standard deviations, (functions,) each."""
        given = [
            *self._predictions(),
            *self._norms(),
            (self.gains.x, self.gains.x**2),
            *self._kernel_traces(),
            *self._balances(),
            *self._log_densities(),
        ]
        assert len(given) == len(self.functions.names)
        means = np.array([self.weights @ first for first, _ in given])
        variances = [
            self.weights @ (second - 2 * mean * first + mean**2)
            for mean, (first, second) in zip(means, given, strict=True)
        ]
        return means, np.sqrt(np.maximum(variances, 0.0))

    def _predictions(self) -> list[Moments]:
        """F̂ and F̂² at every test point: moments of Gaussians up to the fourth."""
        _, mean, deviation = self.posterior.predict(self.functions.X_test).marginals(slice(None))
        mean, variance = mean[:, :, 0].T, deviation[:, :, 0].T ** 2  # (points, m)
        second = mean**2 + variance
        fourth = mean**4 + 6 * mean**2 * variance + 3 * variance**2
        return [*zip(mean, second, strict=True), *zip(second, fourth, strict=True)]

    def _norms(self) -> list[Moments]:
        """|W_ℓ|²: for the first layer the row along the data; for others its gain; the rest is χ²."""
        moments = []
        for layer, ((rows, columns), deviation) in enumerate(
            zip(self.density.shapes, self.density.deviations, strict=True)
        ):
            unit = deviation**2
            others = (rows - 1) * columns
            if layer == 0:
                first, variance = self._row_moments(np.ones_like(self.values))
                unseen = columns - len(self.values)
                first, variance = unit * (first + unseen), unit**2 * (variance + 2 * unseen)
            else:
                first = self._gain({layer: 1})
                variance = self._gain({layer: 2}) - first**2
            mean = first + unit * others
            moments.append((mean, variance + 2 * unit**2 * others + mean**2))
        return moments

    def _row_moments(self, factors: Array) -> Moments:
        """Mean and variance of Σ_i factors_i w_i² given λ."""
        mean = (factors * (self.mean**2 + self.spread)).sum(axis=1)
        return mean, (factors**2 * (2 * self.spread**2 + 4 * self.mean**2 * self.spread)).sum(axis=1)

    def _gain(self, powers: dict[int, int]) -> Array:
        """E[Π t^{2k} | λ] for powers k of layers, numbered from one for the second."""
        return self.gains.moment([powers.get(layer, 0) for layer in range(1, len(self.density.shapes))])

    def _partial(self, one: int, other: int = 0) -> Array:
        """E[c_i c_j | λ] of c_i = t_2² ⋯ t_i² (c_1 = 1; index zero leaves a factor out)."""
        powers = [(layer <= one) + (layer <= other) for layer in range(2, len(self.density.shapes) + 1)]
        return self.gains.moment(powers)

    # ------------------------------------------------------------------ kernels

    def _kernel_traces(self) -> list[Moments]:
        """tr K_ℓ by recursion over layers.

        Given the gains and a = (√g_i w_i) layer ℓ is K_ℓ = (c_ℓ a aᵀ + σ_ℓ² Σ_u h_u h_uᵀ)/n_ℓ with n_ℓ − 1
        independent h_u ~ N(0, K_{ℓ−1}), K_0 = G. Fourth moments of Gaussians close the recursion for E tr K,
        E (tr K)² and E tr K²; `shares` writes E tr K_ℓ = Σ_j shares_j c_j |a|² + shares_0 tr G.
        """
        size, square_variance = self._row_moments(self.values)
        size_squared = square_variance + size**2  # E |a|⁴
        inner = self._row_moments(self.values**2)[0]  # E aᵀ G a
        trace, trace_square = float(self.values.sum()), float((self.values**2).sum())
        squared, of_square = np.full_like(size, trace**2), np.full_like(size, trace_square)
        shares = np.array([1.0])
        variances = (1.0, *self.posterior.prior.layer_variances)
        moments = []
        for layer, width in enumerate(self.density.widths, 1):
            variance, others = variances[layer - 1], width - 1
            own = self._partial(layer, layer) * size_squared
            steps = [self._partial(layer, j) for j in range(1, layer)]
            crossed = sum((shares[j] * step for j, step in enumerate(steps, 1)), np.zeros_like(size))
            reach = self._partial(layer)
            with_trace = crossed * size_squared + shares[0] * reach * size * trace
            with_kernel = crossed * size_squared + shares[0] * reach * inner
            squared, of_square = (
                (
                    own
                    + 2 * others * variance * with_trace
                    + variance**2 * (others**2 * squared + 2 * others * of_square)
                )
                / width**2,
                (
                    own
                    + 2 * others * variance * with_kernel
                    + variance**2 * ((others**2 + others) * of_square + others * squared)
                )
                / width**2,
            )
            shares = np.append(others * variance * shares, 1.0) / width
            mean = shares[0] * trace + size * sum(shares[j] * self._partial(j) for j in range(1, layer + 1))
            moments.append((mean, squared))
        return moments

    # ------------------------------------------------------------------ logs

    def _balances(self) -> list[Moments]:
        """log gain_{ℓ+1} − log gain_ℓ; the first layer's gain is independent of the others given λ."""
        count = len(self.density.widths)
        single = [self.gains.log_moments([layer]) for layer in range(count)]
        first, second = self._first_gain()
        above, above_squared = single[0]
        moments = [(above - first, above_squared - 2 * above * first + second)]
        for layer in range(count - 1):
            (low, low_squared), (high, high_squared) = single[layer], single[layer + 1]
            both_squared = self.gains.log_moments([layer, layer + 1])[1]
            moments.append((high - low, 2 * (low_squared + high_squared) - both_squared))
        return moments

    def _first_gain(self) -> Moments:
        """E log Q and E log² Q of the squared norm Q of the row of W_1 along the data.

        With φ(s) = E e^{−sQ}, which is elementary, and γ Euler's constant,
        E log Q = ∫ (e^{−e^u} − φ(e^u)) du and E log² Q = −2 ∫ u (e^{−e^u} − φ(e^u)) du − 2γ E log Q.
        """
        unit, unseen = self.density.deviations[0] ** 2, self.density.X.shape[1] - len(self.values)
        u = np.arange(-80.0, 160.0, 1 / 64)
        s = np.exp(u)
        first, second = np.empty_like(self.scales), np.empty_like(self.scales)
        for node, (mean, spread) in enumerate(zip(self.mean, self.spread, strict=True)):
            # in units of the prior variance; `spread` has one entry for each direction of the data
            stretched = 1 + 2 * s[:, None] * spread
            exponent = -(s[:, None] * mean**2 / stretched).sum(1) - 0.5 * np.log(stretched).sum(1)
            difference = np.exp(-s) - np.exp(exponent - 0.5 * unseen * np.log1p(2 * s))
            first[node] = difference.sum() / 64
            second[node] = -2 * (u * difference).sum() / 64 - 2 * np.euler_gamma * first[node]
        shift = math.log(unit)
        return first + shift, second + 2 * shift * first + shift**2

    def _log_densities(self) -> list[Moments]:
        """Log likelihood and log joint density: their exponents are sums of squares of Gaussians."""
        noise = self.density.noise**2
        outside = self.posterior.spectrum.residual / noise
        signal = self.values * self.scales[:, None]
        left = self.targets / (1 + signal / noise)  # mean of what is left of ỹ_i, (m, r)
        spread = signal * self.spread
        error = (left**2 + spread).sum(axis=1) / noise + outside
        variance = (2 * spread**2 + 4 * left**2 * spread).sum(axis=1) / noise**2
        mean = self.density.log_normaliser - 0.5 * error
        likelihood = mean, 0.25 * variance + mean**2
        columns = [shape[1] for shape in self.density.shapes]
        rates = [width / v for width, v in zip(columns[1:], self.density.prior_variances[1:], strict=True)]
        count = len(rates)
        gains = sum(rate * self._gain({j + 1: 1}) for j, rate in enumerate(rates))
        products = sum(
            rates[i] * rates[j] * self._gain({i + 1: 1, j + 1: 1} if i != j else {i + 1: 2})
            for i in range(count)
            for j in range(count)
        )
        free = self.density.dimension - sum(columns[1:])  # Gaussian directions given λ and the gains
        total = self.fit + outside + gains + free
        constant = self.density.log_normaliser - 0.5 * self.density.dimension * math.log(2 * math.pi)
        joint = constant - 0.5 * total
        joint_variance = 0.25 * (products - gains**2 + 2 * free)
        return [likelihood, (joint, joint_variance + joint**2)]
