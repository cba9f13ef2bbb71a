"""The equation of each view and the words around it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """Title of a view, its equation, and what the symbols are."""

    title: str
    latex: str
    reading: str


WORDS: dict[str, Words] = {
    "scale": Words(
        "Scale",
        r"p(L \mid Y) \propto \varpi(L) \, | \Gamma_L |^{-1/2} \exp \left( - \frac{\beta}{2} "
        r"y^\top \Gamma_L^{-1} y \right), \quad \Gamma_L = I + \beta \, L \otimes G",
        "The network is a Gaussian process whose scale L (a number λ for one output) is random; the data act "
        "on it.",
    ),
    "function": Words(
        "Function",
        r"p(f \mid Y) = \int \mathcal{N} ( f ; \mu_L , \Sigma_L ) \, \mathrm{d} \rho (L)",
        "Predictions are a mixture of Gaussian processes over the posterior ρ of the scale. Kernel "
        "exp(−(x − x′)²/2).",
    ),
    "theories": Words(
        "Theories",
        r"n \to \infty , \quad p \to \infty , \quad n, p \to \infty \ ( \alpha = p / n_1 ) , \quad "
        r"n, n_d \to \infty \ ( \gamma = n_d / n_1 )",
        "Each limit theory of the paper against the exact answer.",
    ),
}
