"""Rows that the others predict badly: what a noise variance of their own would gain.

At infinite width the density of row a given the others is Gaussian, with residual e_aj and variance u_j t_a
for output j, t_a = s_a + 1 the variances of function and noise in units u_j of the noise. All that depends
on the noise variance v_a of the row is this density, with t_a = s_a + v_a. With m_a the mean of e_aj²/u_j
over the q outputs its maximum over v_a ≥ 1 is at s_a + v_a = max(t_a, m_a) and gains

    ½ q [m_a/t_a − 1 − log(m_a/t_a)]    where m_a > t_a

(the variance shift model of outliers; Thompson, 1985). A row is named if that is more than ½ log p for the
variance and log p for the choice of the row, so that rows of Gaussian noise hardly ever are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lbnn._base.types import Array, IndexArray
from lbnn.data.examples import example_vectors
from lbnn.estimator.input_search import InputCandidate
from lbnn.estimator.summary import largest_z

_LARGEST_SHARE = 0.2  # of the rows that may be outliers: more are another law of the noise
_MOST_FLOATS = 4e7  # of the eigenvectors over the rows, up to which every fit looks at its rows
_FEWEST_ROWS = 8
_MOST_NAMED = 5


@dataclass(frozen=True)
class RowDensities:
    """Rows given all others at infinite width.

    Attributes
    ----------
    gain : (p,)
        Of the log evidence, from a noise variance of its own.
    z : (p, q)
        Standardised left-out residuals.
    """

    gain: Array
    z: Array

    @property
    def credible_gain(self) -> Array:
        """The gain where residuals of the outputs are correlated, (p,): of as many outputs as vary freely.

        Sums of squares of q residuals with the correlation matrix C vary as those of q²/tr C² independent
        ones.
        """
        sizes = np.sqrt((self.z**2).sum(axis=0, keepdims=True))
        scaled = np.divide(self.z, sizes, out=np.zeros_like(self.z), where=sizes > 0)
        gram = scaled @ scaled.T if len(scaled) < scaled.shape[1] else scaled.T @ scaled
        outputs = self.z.shape[1]
        return self.gain * min(outputs / max(float((gram**2).sum()), 1.0), 1.0)

    @classmethod
    def of(cls, candidate: InputCandidate, targets: Array) -> RowDensities:
        """Of the targets of the search, (p,) or (p, q), at the best hyperparameters at infinite width."""
        spectrum, h = candidate.data.spectrum, candidate.process.h
        columns = targets.reshape(len(targets), -1) / np.exp(h[:-1] / 2)
        weights = np.ones(len(columns)) if spectrum.weights is None else spectrum.weights
        centred, shares = spectrum.examples < len(columns), weights / weights.sum()
        about = np.sqrt(weights)[:, None] * (columns - centred * (shares @ columns))
        vectors, squares = example_vectors(spectrum), example_vectors(spectrum) ** 2
        inside = vectors.T @ about
        unseen = np.maximum(1 - centred * shares - squares.sum(axis=1), 0.0)
        inverse = 1 / (1 + math.exp(h[-1]) * spectrum.eigenvalues)
        precision = np.maximum(squares @ inverse + unseen, np.finfo(float).tiny)  # 1/t
        weighted = vectors @ (inverse[:, None] * inside) + (about - vectors @ inside)
        residual, total = weighted / precision[:, None], 1 / precision
        if columns.shape[1] > 1 and not candidate.spec.per_output:  # one noise for outputs that have others
            spread = np.sqrt((residual**2 / total[:, None]).mean(axis=0))
            residual = residual / np.maximum(spread, 1.0)
        mean = (residual**2).mean(axis=1)
        ratio = np.maximum(mean / total, 1.0)
        gain = 0.5 * columns.shape[1] * (ratio - 1 - np.log(ratio))
        return cls(gain, residual / np.sqrt(total)[:, None])


def price(rows: int) -> float:
    """What the log evidence must gain for a row to be named."""
    return 1.5 * math.log(max(rows, 2))


def unusual_rows(candidate: InputCandidate, targets: Array, numbers: IndexArray, names: list[str]) -> str:
    """What to say of rows that the others predict badly; empty if there are none.

    Parameters
    ----------
    candidate : InputCandidate
    targets : (p,) or (p, q)
        Of the search.
    numbers : (p,)
        Of the rows in the user's table.
    names : list of str
        Of the targets; those of the search are other ones where targets are dependent.
    """
    count, rank = len(targets), candidate.data.spectrum.rank
    if count < _FEWEST_ROWS or not rank or count * rank > _MOST_FLOATS:
        return ""
    found = RowDensities.of(candidate, targets)
    size = np.abs(found.z).max(axis=1)
    far = np.flatnonzero((found.credible_gain > price(count)) | (size > largest_z(found.z.size)))
    if not len(far):
        return ""
    listed = far[np.argsort(-size[far], kind="stable")]
    named = []
    for row in listed[:_MOST_NAMED]:
        output = int(np.abs(found.z[row]).argmax())
        where = f", {names[output]}" if len(names) == found.z.shape[1] > 1 else ""
        named.append(f"row {numbers[row]} (z = {found.z[row, output]:+.1f}{where})")
    more = f" and {len(far) - _MOST_NAMED} more" if len(far) > _MOST_NAMED else ""
    top = int(found.gain.argmax())
    if len(far) > max(_LARGEST_SHARE * count, 1):
        return (
            f"{len(far)} of {count} rows are far from what the others predict: {', '.join(named)}{more}. "
            "These are too many for outliers: the noise variance 1/beta is too small if it is given, or the "
            "noise is not Gaussian, or its variance differs between rows"
        )
    return (
        f"{len(far)} row{'s are' if len(far) > 1 else ' is'} far from what the others predict: "
        f"{', '.join(named)}{more}. A noise variance of its own for row {numbers[top]} would raise the log "
        f"evidence by {found.gain[top]:.1f}: check these rows, and leave them out or give them smaller "
        "weights if they are wrong"
    )
