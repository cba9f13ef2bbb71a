"""When the zero-temperature posterior exists.

At β = ∞ the network interpolates, which needs an invertible Gram matrix, and the law of L,

    dρ ∝ dϖ(L) · det(L)^{−p/2} etr(−½ Y'G⁻¹Y L⁻¹),

must be integrable. For one output and y ≠ 0 the exponential closes the singularity at λ = 0 whatever the
network. For y = 0 what is left is E λ^{−p/2} = Π_ℓ E (χ²(n_ℓ)/n_ℓ)^{−p/2}, which is finite if and only if
every hidden width exceeds p. At depth one there is no scale to integrate.
"""

from __future__ import annotations

from lbnn.scale_prior import ScalePrior
from lbnn.spectrum import Spectrum


def require_zero_temperature(prior: ScalePrior, spectrum: Spectrum) -> None:
    """Raise a ValueError that names the rule that is broken."""
    if spectrum.rank < spectrum.examples:
        raise ValueError(
            "zero temperature (beta=inf) needs an invertible Gram matrix, so that the training data can be "
            f"interpolated, got rank {spectrum.rank} with p = {spectrum.examples} examples: use a finite beta"
        )
    if prior.outputs == 1 and not spectrum.targets.any():
        _require_wider_than_data(prior, spectrum.examples)


def _require_wider_than_data(prior: ScalePrior, examples: int) -> None:
    if any(width <= examples for width in prior.widths):
        raise ValueError(
            "at zero temperature with targets that are all zero the posterior exists only if every hidden "
            f"width exceeds p, got widths={prior.widths} with p = {examples} examples: use a finite beta"
        )
