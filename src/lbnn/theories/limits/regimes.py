"""The regimes of the paper's asymptotics section, as functions of a network and data."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.projection import Projection
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.existence import require_invertible_gram
from lbnn.network import Network
from lbnn.theories.limits.first_order import to_first_order
from lbnn.theories.limits.kernel_saddle import many_output_theory
from lbnn.theories.limits.saddle import find_saddle
from lbnn.theories.limits.setting import Setting
from lbnn.theories.limits.single_scale import at_infinite_width, from_scale
from lbnn.theories.limits.theory import Theory


def infinite_width(net: Network, X: ArrayLike, Y: ArrayLike, beta: float, *, order: int = 1) -> Theory:
    """n → ∞ at fixed p, n_d: the Gaussian process, and the leading corrections to it (eqn:37).

    Parameters
    ----------
    net : Network
        At least one hidden layer.
    X : (p, n0)
    Y : (p,) or (p, n_d)
    beta : float in [0, inf]
    order : {0, 1}
        1: scale, predictor and evidence to first order in 1/n; 0: those of the Gaussian process. Kernels are
        to first order in both, since in the limit itself they do not depend on the data.

    Returns
    -------
    Theory
        ⟨K_ℓ⟩ = v_ℓ [G + (Σ_{k≤ℓ} n_d/n_k) G Γ⁻¹(G_yy − Γ)Γ⁻¹ G] with Γ = G + I/β where all variances are one.
        With one output and v = Σ_ℓ 2/n_ℓ the mean of a predictor with the value μ(λ) at scale λ is
        μ(1) + v [μ′ℓ′ + ½ μ″] at λ = 1, where ℓ(λ) = log p(y | λ); several outputs have gradients and a
        Laplacian over L instead. At order one `predict` gives the Gaussian law that has this mean and
        covariance; that the exact law is not Gaussian is itself a correction of order 1/n.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(5, 9)), rng.normal(size=5)
    >>> net = lbnn.Network(widths=(1000, 1000))
    >>> exact = net.condition(X, y, beta=2.0)
    >>> theory = lbnn.asymptotics.infinite_width(net, X, y, beta=2.0)
    >>> bool(np.abs(exact.feature_kernel(layer=2) - theory.feature_kernel(layer=2)).max() < 1e-4)
    True
    >>> bool(np.abs(exact.predict().mean - theory.predict().mean).max() < 1e-4)
    True
    """
    if order not in (0, 1) or isinstance(order, bool):
        raise ValueError(f"order must be 0 or 1, got {order!r}")
    setting = as_setting(net, Spectrum.from_inputs(X, Y), beta)
    return corrected(setting) if order else wide(setting)


def infinite_data(net: Network, X: ArrayLike, Y: ArrayLike, beta: float = math.inf) -> Theory:
    """p → ∞ at fixed n, n_d and zero temperature: L = S/p (eqn:38).

    The prior of L is neglected, so that L does not depend on the widths and the depth.

    Parameters
    ----------
    net : Network
    X : (p, n0)
    Y : (p,) or (p, n_d)
        Of full output rank, since L is to be invertible.
    beta : float
        math.inf: the theory is for zero temperature only.

    Returns
    -------
    Theory
        Kernel of the first layer: (1 − γ) G + Y (S/p)⁻¹ Yᵀ / n_1.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 300))
    >>> y = 0.1 * X @ rng.normal(size=300)
    >>> net = lbnn.Network(widths=(5,))
    >>> exact = net.condition(X, y, beta=np.inf).scale.mean
    >>> bool(abs(lbnn.asymptotics.infinite_data(net, X, y).scale.mean / exact - 1) < 0.1)
    True
    """
    return large_data(as_setting(net, Spectrum.from_inputs(X, Y), beta))


def proportional(
    net: Network, X: ArrayLike, Y: ArrayLike, beta: float = math.inf, *, as_printed: bool = False
) -> Theory:
    """n, p → ∞ at fixed n_d: the saddle point of L (eqn:39), Li and Sompolinsky's renormalisation.

    At depth two and zero temperature L solves the Riccati equation I − L⁻¹(S/n_1)L⁻¹ − (1 − α)L⁻¹ = 0; deeper
    networks take the saddle point of the product prior, finite temperatures that of the full likelihood.

    Parameters
    ----------
    net : Network
        Every width at least n_d.
    X : (p, n0)
    Y : (p,) or (p, n_d)
    beta : float in (0, inf]
    as_printed : bool
        Give the kernel as the paper prints it (eqn:40), which exceeds the kernel of its own L by γG for α ≤ 1
        (docs/errata.md). Depth two, unit variances and zero temperature only.

    Returns
    -------
    Theory
        With the log evidence at leading order.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(100, 200)), rng.normal(size=100)
    >>> net = lbnn.Network(widths=(200,))
    >>> exact = net.condition(X, y, beta=np.inf).scale.mean
    >>> bool(abs(lbnn.asymptotics.proportional(net, X, y).scale.mean / exact - 1) < 0.02)
    True
    """
    if not isinstance(as_printed, bool):
        raise TypeError(f"as_printed must be True or False, got {as_printed!r}")
    setting = as_setting(net, Spectrum.from_inputs(X, Y), beta)
    return printed(setting) if as_printed else renormalised(setting)


def proportional_expansion(net: Network, X: ArrayLike, Y: ArrayLike, beta: float = math.inf) -> Theory:
    """n, p → ∞ at fixed n_d, to first order in γ (eqn:41): ⟨K⟩ ≈ (1 − γ) G + γ/(1 − α) G_yy.

    This is the kernel of L = (1 − α) I, or of Π_ℓ (1 − p/n_ℓ) I in deeper networks: zero temperature, p below
    every width.

    Parameters
    ----------
    net : Network
    X : (p, n0)
    Y : (p,) or (p, n_d)
    beta : float
        math.inf: the theory is for zero temperature only.

    Returns
    -------
    Theory
    """
    return expanded(as_setting(net, Spectrum.from_inputs(X, Y), beta))


def many_outputs(net: Network, X: ArrayLike, Y: ArrayLike, beta: float = math.inf) -> Theory:
    """n, n_d → ∞ at fixed p: the saddle point of the hidden kernels (eqn:42, eqn:43), Aitchison's limit.

    At depth two and zero temperature K solves G⁻¹ − γK⁻¹G_yyK⁻¹ + (γ − 1)K⁻¹ = 0; at γ = 1 it is
    (G_yyG⁻¹)^{1/2} G.

    Parameters
    ----------
    net : Network
    X : (p, n0)
    Y : (p,) or (p, n_d)
        At zero temperature of full example rank where some width is at most n_d.
    beta : float in (0, inf]

    Returns
    -------
    Theory
        Without a scale. Its predictive is the Gaussian process with the learned kernel.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(2, 5)), rng.normal(size=(2, 30))
    >>> K = lbnn.asymptotics.many_outputs(lbnn.Network(widths=(30,)), X, Y).kernel
    >>> G, G_yy = X @ X.T / 5, Y @ Y.T / 30
    >>> bool(np.allclose(K @ np.linalg.solve(G, K), G_yy))  # gamma = 1
    True
    """
    return dual_saddle(as_setting(net, Spectrum.from_inputs(X, Y), beta))


# ---------------------------------------------------------------------- the theories on decomposed data


def as_setting(net: Network, spectrum: Spectrum, beta: float) -> Setting:
    """The checked setting; every theory is about hidden layers."""
    if not net.widths:
        raise ValueError("limit theories are about hidden layers, got a network of depth one (widths=())")
    if not spectrum.device.host:
        raise ValueError(
            f"limit theories compute with NumPy, got {spectrum!r} of {spectrum.device}: convert "
            "X and Y to NumPy"
        )
    beta = check.inverse_temperature(beta)
    noise_variance = 1 / beta if beta else math.inf
    if noise_variance == 0:
        require_invertible_gram(spectrum)
    return Setting(net, spectrum.scaled(net.prior_variances[0]), noise_variance)


def wide(setting: Setting) -> Theory:
    """Infinite width: L = v I, with kernels to first order in 1/n, as the paper has them (eqn:37)."""
    scale = setting.variance * np.eye(setting.spectrum.outputs)
    return at_infinite_width("infinite width", setting, setting.log_likelihood(scale))


def corrected(setting: Setting) -> Theory:
    """Infinite width, with everything to first order in 1/n."""
    return to_first_order("infinite width, order 1", wide(setting), setting)


def large_data(setting: Setting) -> Theory:
    """Infinite data: L = S/p."""
    _require_zero_temperature(setting, "infinite data")
    _require_full_rank_scale(setting)
    scale = setting.target_square / setting.spectrum.examples
    if np.linalg.matrix_rank(setting.spectrum.targets) < setting.spectrum.outputs:
        raise ValueError(
            "infinite data at zero temperature needs targets of full output rank, got "
            f"rank {np.linalg.matrix_rank(setting.spectrum.targets)} for {setting.spectrum.outputs} outputs"
        )
    return from_scale("infinite data", setting, scale, setting.log_likelihood(scale), aligned=False)


def renormalised(setting: Setting) -> Theory:
    """The saddle point of the prior's rate + log likelihood over L."""
    _require_data(setting)
    _require_full_rank_scale(setting)
    prior = setting.wide_prior
    if setting.noise_variance == 0:
        squares, vectors = np.linalg.eigh(setting.target_square)
        _require_saddle(setting, setting.spectrum.examples, setting.spectrum.outputs)
        values = prior.stationary(np.maximum(squares, 0.0), setting.spectrum.examples)
        scale = (vectors * values) @ vectors.T
    else:
        axes = np.linalg.svd(setting.standardised_targets.T)[0]
        scale = find_saddle(
            prior, setting.likelihood.of_root, setting.change_along_axes, setting.log_scale_range(), axes
        )
    rate = float(prior.rate(np.linalg.eigvalsh(scale)).sum())
    log_evidence = setting.log_likelihood(scale) + rate
    return from_scale("proportional", setting, scale, log_evidence, aligned=True)


def printed(setting: Setting) -> Theory:
    """The same saddle point with the kernel of (40): ½ G [(1 + α) I + ((1 − α)² I + 4γ G⁻¹G_yy)^{1/2}]."""
    net, data = setting.network, setting.spectrum
    _require_zero_temperature(setting, "the printed kernel")
    if len(net.widths) != 1 or set(net.prior_variances) != {1.0}:
        raise ValueError(
            f"the printed kernel is for depth two and unit variances, got widths={net.widths} and "
            f"prior_variances={net.prior_variances}"
        )

    def kernel_at(projection: Projection, layer: int) -> Array:
        """⟨K⟩ (p̂, p̂) as the paper prints it."""
        alpha = data.examples / net.widths[0]
        vectors, singular, _ = np.linalg.svd(data.targets / np.sqrt(data.eigenvalues)[:, None])
        squares = np.zeros(data.examples)
        squares[: len(singular)] = singular**2 / net.widths[0]
        inner = 0.5 * ((1 + alpha) + np.sqrt((1 - alpha) ** 2 + 4 * squares))
        root = projection.explained @ vectors
        return (root * inner) @ root.T + projection.unexplained_gram

    return replace(renormalised(setting), name="proportional, as printed", layers=1, kernel_at=kernel_at)


def expanded(setting: Setting) -> Theory:
    """First order in γ: L = v Π_ℓ (1 − p/n_ℓ) I."""
    _require_zero_temperature(setting, "the expansion in γ")
    _require_full_rank_scale(setting)
    examples, narrowest = setting.spectrum.examples, min(setting.widths)
    if examples >= narrowest:
        raise ValueError(
            "the expansion in γ needs fewer examples than the narrowest layer has units, "
            f"got {examples} examples for width {narrowest}"
        )
    value = setting.variance * math.prod(1 - examples / width for width in setting.widths)
    scale = value * np.eye(setting.spectrum.outputs)
    return from_scale("proportional, first order", setting, scale, None, aligned=True)


def dual_saddle(setting: Setting) -> Theory:
    """The saddle point of the prior's rate + log likelihood over hidden kernels."""
    _require_data(setting)
    if setting.noise_variance == 0:
        _require_saddle(setting, setting.spectrum.outputs, setting.spectrum.examples)
    return many_output_theory("many outputs", setting)


#: Every theory, in the order of the paper.
THEORIES = {
    "infinite width": wide,
    "infinite width, order 1": corrected,
    "infinite data": large_data,
    "proportional": renormalised,
    "proportional, as printed": printed,
    "proportional, first order": expanded,
    "many outputs": dual_saddle,
}


def _require_data(setting: Setting) -> None:
    if math.isinf(setting.noise_variance):
        raise ValueError("beta must be positive for a saddle point between prior and data, got beta=0")


def _require_zero_temperature(setting: Setting, theory: str) -> None:
    if setting.noise_variance > 0:
        raise ValueError(f"{theory} is for zero temperature, got beta={1 / setting.noise_variance:g}")


def _require_full_rank_scale(setting: Setting) -> None:
    if min(setting.widths) < setting.spectrum.outputs:
        raise ValueError(
            "a theory with one invertible scale needs every width to be at least n_d, "
            f"got widths={setting.widths} for {setting.spectrum.outputs} outputs"
        )


def _require_saddle(setting: Setting, count: int, size: int) -> None:
    """Raise where the saddle point at zero temperature does not exist.

    In a direction without targets the likelihood drives L to zero as l^{−count/2}, the prior holds it up as
    l^{n_ℓ/2}: every width must exceed `count`. `size` is the full rank of the targets.
    """
    rank = int(np.linalg.matrix_rank(setting.spectrum.targets))
    if rank < size and min(setting.widths) <= count:
        raise ValueError(
            "at zero temperature the saddle point exists if the targets have full rank or every width "
            f"exceeds {count}, got targets of rank {rank} (full: {size}) and widths={setting.widths}"
        )
