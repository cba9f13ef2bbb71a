"""Noise that passes through the network: its covariance across outputs is learned with the scale.

Give every example a private input, orthogonal to all others: the Gram matrix becomes G + ν I, and given L the
targets are MN(0, G + ν I, L), function and noise ν L together. This is the zero-temperature problem of a
network on a nonsingular Gram matrix. Of the data its likelihood needs the scatter S = Yᵀ(G + ν I)⁻¹Y alone:

    log p(Y | L) = −½ tr L⁻¹S − ½ p log det L − ½ n_d log det(G + ν I) + constant,

so that for S of full rank it is written with n_d rows R, RᵀR = S, instead of p: rows √ḡ R with
eigenvalues ḡ, the geometric mean of those of G + ν I, each row standing for p/n_d directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lbnn._base import check
from lbnn._base.types import Array
from lbnn.data.missing import MissingCells
from lbnn.data.private_inputs import with_private_inputs
from lbnn.data.projection import PrivateProjection, Projection
from lbnn.data.spectrum import Spectrum
from lbnn.likelihood.existence import require_zero_temperature
from lbnn.likelihood.gaussian import GaussianLikelihood
from lbnn.likelihood.plain import PlainLikelihood
from lbnn.noise.kind import Noise, targets_outside
from lbnn.scale.prior import ScalePrior


@dataclass(frozen=True, repr=False)
class CoupledNoise(Noise):
    """Noise of the covariance ν L given L, ν = 1/β."""

    nu: float
    outside: Array  # rows with the moments of the targets outside the range of G, (any, n_d)

    kind: ClassVar[str] = "coupled"

    @property
    def variance(self) -> float:
        """Zero: all of the noise scales with L."""
        return 0.0

    @property
    def coupling(self) -> float:
        """ν."""
        return self.nu

    def require(self, prior: ScalePrior, spectrum: Spectrum) -> None:
        """Raise unless function plus noise has a density: by the rule of zero temperature for G + ν I."""
        rows = self._every_row(spectrum)
        try:
            require_zero_temperature(
                prior, replace(spectrum, eigenvalues=rows.eigenvalues, targets=rows.targets)
            )
        except ValueError as error:
            raise ValueError(
                "coupled noise passes through the network, so that every hidden width must be at least "
                "min(p, n_d), and at least n_d + p − q where the targets have a rank q below min(p, n_d), "
                f"got widths={prior.widths}, p = {spectrum.examples}, n_d = {spectrum.outputs}, rank(Y) = "
                f"{np.linalg.matrix_rank(rows.targets)}: use noise='independent' or wider hidden layers"
            ) from error

    def with_rows(self, spectrum: Spectrum) -> CoupledNoise:
        return replace(self, outside=targets_outside(spectrum, self.kind))

    def likelihood(self, spectrum: Spectrum) -> GaussianLikelihood:
        """From n_d rows where the targets have full rank, else from all p."""
        if spectrum.examples >= spectrum.outputs > 1:
            root = self.scatter_root(spectrum)
            if int(np.linalg.matrix_rank(root)) == spectrum.outputs:
                return self._scatter_factor(spectrum, root)
        return self._every_row(spectrum)

    def plain_likelihood(self, spectrum: Spectrum) -> PlainLikelihood:
        """Rows of the covariance (g + ν) L, and ν L outside the range of G."""
        return PlainLikelihood(
            spectrum.eigenvalues,
            spectrum.targets,
            np.zeros(spectrum.outputs),
            self.nu,
            self._outside_rows(spectrum),
            spectrum.examples - spectrum.rank,
            spectrum.log_jacobian,
        )

    def scatter_root(self, spectrum: Spectrum) -> Array:
        """R with RᵀR = Yᵀ(G + ν I)⁻¹Y, (≤ n_d, n_d)."""
        inside = spectrum.targets / np.sqrt(self.eigenvalues(spectrum))[:, None]
        rows = np.concatenate([inside, self.outside / math.sqrt(self.nu)])
        return np.asarray(np.linalg.qr(rows, mode="r"), float)

    def transform_projection(self, projection: Projection, spectrum: Spectrum) -> Projection:
        """Private inputs of training examples do not reach test points: Φ shrinks by √(g/(g + ν))."""
        total = self.eigenvalues(spectrum)
        return PrivateProjection(projection, spectrum.eigenvalues / total, self.nu / total)

    def require_table(self, prior: ScalePrior, cells: MissingCells) -> None:
        """Raise unless hidden layers are as wide as the outputs, and wide enough for dependent targets.

        Given L the observed cells have a density, and so has their law before the data, which is finite for
        almost all targets. For targets that are dependent it is under the rule of complete tables, for some
        of the outputs in the rows that have them (see `likelihood.existence`).
        """
        outputs = prior.outputs
        if not prior.full_rank:
            raise ValueError(
                f"coupled noise with missing targets needs hidden widths of at least n_d = {outputs}, got "
                f"widths={prior.widths}: use noise='independent' or wider hidden layers"
            )
        for some, rows, rank in cells.dependent_outputs() if prior.widths else ():
            if min(prior.widths) < len(some) + rows - rank:
                raise ValueError(
                    "coupled noise needs targets that are linearly independent, or hidden widths of at least "
                    f"{len(some) + rows - rank}, got {rows} rows of rank {rank} for outputs {some} and "
                    f"widths={prior.widths}: leave outputs out, or use noise='independent'"
                )

    def table_data(self, spectrum: Spectrum, cells: MissingCells) -> Spectrum:
        """With an input of its own for every row."""
        return with_private_inputs(spectrum, cells.targets, self.nu, cells.centred)

    def _scatter_factor(self, spectrum: Spectrum, root: Array) -> GaussianLikelihood:
        """The likelihood from a root R (k, n_d) of the scatter, whose rows stand for all examples."""
        examples, unseen = spectrum.examples, spectrum.examples - spectrum.rank
        log_mean = (np.log(self.eigenvalues(spectrum)).sum() + unseen * math.log(self.nu)) / examples
        values = np.full(len(root), math.exp(log_mean))
        targets = np.sqrt(values)[:, None] * root
        each = examples / len(root)
        return GaussianLikelihood(
            values, targets, 0.0, examples, 0.0, each, log_jacobian=spectrum.log_jacobian
        )

    def _every_row(self, spectrum: Spectrum) -> GaussianLikelihood:
        """The eigenvalues g + ν of the range of G and ν outside it, each with its targets."""
        rows = self._outside_rows(spectrum)
        values = np.concatenate([self.eigenvalues(spectrum), np.full(len(rows), self.nu)])
        targets = np.concatenate([spectrum.targets, rows])
        return GaussianLikelihood(
            values, targets, 0.0, spectrum.examples, 0.0, log_jacobian=spectrum.log_jacobian
        )

    def _outside_rows(self, spectrum: Spectrum) -> Array:
        """Rows (p − r, n_d) with the moments of the targets outside the range of G."""
        unseen = spectrum.examples - spectrum.rank
        rows = np.zeros((unseen, spectrum.outputs))
        _, sizes, axes = np.linalg.svd(self.outside, full_matrices=False)
        kept = min(unseen, len(sizes))
        rows[:kept] = (sizes[:, None] * axes)[:kept]
        return rows

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {"kind": self.kind, "nu": self.nu}, {"noise.outside": self.outside}

    @classmethod
    def unpacked(cls, header: dict[str, Any], arrays: dict[str, Array]) -> CoupledNoise:
        nu, outside = float(header["nu"]), arrays["noise.outside"]
        if not 0 < nu < math.inf or outside.ndim != 2:
            raise ValueError(f"coupled noise must be positive and finite, got {nu}")
        return cls(nu, outside)

    @classmethod
    def of(cls, beta: Any, spectrum: Spectrum) -> CoupledNoise:
        """Beta is a positive finite number."""
        number = check.inverse_temperature(beta)
        if not 0 < number < math.inf:
            raise ValueError(
                "noise='coupled' has the covariance L/beta given L, for 0 < beta < inf, got "
                f"beta={number:g}: use noise='independent'"
            )
        outside = np.linalg.qr(targets_outside(spectrum, cls.kind), mode="r")
        return cls(1 / number, np.asarray(outside, float))
