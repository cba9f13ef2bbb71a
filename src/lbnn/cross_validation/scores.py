"""Leave-one-out scores: their computation and what is returned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base.types import Array, IndexArray
from lbnn._base.warn import warn_of
from lbnn.cross_validation.averages import Scores, row_blocks, score
from lbnn.cross_validation.boundary import checked_targets
from lbnn.cross_validation.examples import Examples
from lbnn.cross_validation.fitted import Fitted
from lbnn.cross_validation.refits import Refits, replace_by_refits
from lbnn.engines.policy import POLICY
from lbnn.scale.draws import Draws


@dataclass(frozen=True)
class LeaveOneOut:
    """Predictive of every observation given all others, noise included.

    Attributes
    ----------
    mean, variance : (p, n_d), or (p,) where Y was one-dimensional
        Of each left-out observation.
    residual : shaped like the mean
        Observation less its mean.
    log_density : (p,)
        log p(y_a | Y_{−a}), joint over outputs.
    log_density_error : (p,)
        Its Monte Carlo standard error; zero where the scale is integrated deterministically.
    pareto_k : (p,)
        Tail index of the weights: above 0.7 they are not reliable; −inf where there is no tail, as for
        deterministic engines.
    messages : tuple of str
        What the diagnostics noticed, those of the posterior included.
    """

    mean: Array
    variance: Array
    residual: Array
    log_density: Array
    log_density_error: Array
    pareto_k: Array
    messages: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: the score."""
        return (
            f"LeaveOneOut(examples={len(self.log_density)}, elpd={self.elpd:.6g} ± {self.elpd_error:.2g}, "
            f"ok={self.ok})"
        )

    @property
    def z(self) -> Array:
        """Standardised left-out residuals, residual/√variance, shaped like the mean.

        Examples
        --------
        >>> import numpy as np, lbnn
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(40, 3))
        >>> y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=40)
        >>> y[7] += 5.0
        >>> z = lbnn.Network(widths=(20,)).condition(X, y, beta=100.0).leave_one_out(y).z
        >>> int(np.abs(z).argmax())
        7
        """
        return self.residual / np.sqrt(self.variance)

    @property
    def elpd(self) -> float:
        """Expected log predictive density: the sum of `log_density`."""
        return float(self.log_density.sum())

    @property
    def elpd_error(self) -> float:
        """Standard error of `elpd` for new data, from the spread over examples; inf for a single one."""
        count = len(self.log_density)
        return math.sqrt(count) * float(self.log_density.std(ddof=1)) if count > 1 else math.inf

    @property
    def ok(self) -> bool:
        """Whether all checks of the posterior and of the scores were passed: there are no messages."""
        return not self.messages

    @classmethod
    def of(
        cls, targets: Array, scores: Scores, posterior: tuple[str, ...], refits: tuple[str, ...] = ()
    ) -> LeaveOneOut:
        """Of targets (p, n_d) and their scores, with messages of the posterior and of refits; warns."""
        said = _pareto_messages(scores.pareto_k) + refits
        warn_of(said)
        return cls(
            targets - scores.residual,
            scores.variance,
            scores.residual,
            scores.log_density,
            scores.log_density_error,
            scores.pareto_k,
            posterior + said,
        )

    def single(self) -> LeaveOneOut:
        """The same without the axis of one output."""
        return replace(self, mean=self.mean[:, 0], variance=self.variance[:, 0], residual=self.residual[:, 0])

    def taken(self, rows: IndexArray) -> LeaveOneOut:
        """The scores of some rows (k,), which may repeat."""
        return replace(
            self,
            mean=self.mean[rows],
            variance=self.variance[rows],
            residual=self.residual[rows],
            log_density=self.log_density[rows],
            log_density_error=self.log_density_error[rows],
            pareto_k=self.pareto_k[rows],
        )


def left_out_scores(
    posterior: Fitted,
    Y: ArrayLike,
    *,
    centred: bool = False,
    matrix: Array | None = None,
    offset: Array | float = 0.0,
) -> LeaveOneOut:
    """Score every example given all others: what `Posterior.leave_one_out` computes.

    Parameters
    ----------
    posterior : Posterior or FreeNoisePosterior
        From inputs or a Gram matrix, with beta > 0.
    Y : (p, n_d), or (p,) for one output
        The targets that the posterior was conditioned on.
    centred : bool
        Whether an intercept of flat prior was handled by centring: inputs (or the Gram matrix) and targets
        were centred and the spectrum counts p − 1 examples. Y itself may then be given with its mean.
    matrix, offset : (m, n_d) and (m,), optional
        A and b: scores are those of observations Y Aᵀ + b, with A of full column rank.
    """
    columns, one_dimensional = checked_targets(posterior, Y, centred)
    draws, given = posterior._left_out_draws, posterior.spectrum.weights
    A = np.eye(columns.shape[1]) if matrix is None else matrix
    outward = A if draws.root is None else A @ draws.root
    weights = np.ones(len(columns)) if given is None else given
    noise = getattr(posterior, "noise", None)  # one with a covariance of its own has a prior, too
    if len(columns) == 1 and noise is not None:
        found = _only_row(posterior, columns @ A.T, A, draws, offset)
        return found.single() if one_dimensional else found
    rows = np.sqrt(weights)[:, None] * columns
    examples = Examples.of(posterior.spectrum, draws.root, rows, centred)
    every = (examples.take(some) for some in row_blocks(len(columns), len(draws.weights)))
    parts = [score(some, draws, outward).fields for some in every]
    residual, variance, log_density, *rest = (np.concatenate(each) for each in zip(*parts, strict=True))
    log_density += 0.5 * columns.shape[1] * np.log(weights)  # from densities of rows times √w
    log_density -= float(np.log(np.linalg.svd(outward, compute_uv=False)).sum())
    scores = Scores(residual / np.sqrt(weights)[:, None], variance / weights[:, None], log_density, *rest)
    refits = replace_by_refits(scores, examples, Refits(posterior, columns, centred, A))
    found = LeaveOneOut.of(columns @ A.T + offset, scores, posterior.diagnostics.messages, refits)
    return found.single() if one_dimensional else found


def _only_row(posterior: Fitted, value: Array, A: Array, draws: Draws, offset: Array | float) -> LeaveOneOut:
    """The only row (1, outputs) given none: its law is that of the prior, and its density the evidence.

    Weights of draws of the posterior would have the tail of the prior over the posterior.
    """
    spectrum = posterior.spectrum
    covariance = (float(spectrum.eigenvalues.sum()) + draws.coupling) * posterior.prior.mean
    if not draws.coupling:
        root = np.eye(len(covariance)) if draws.root is None else draws.root
        covariance = covariance + float(draws.variances[0]) * root @ root.T
    weight = 1.0 if spectrum.weights is None else float(spectrum.weights[0])
    variance = np.einsum("ij,jk,ik->i", A, covariance, A)[None] / weight
    log_volume = float(np.log(np.linalg.svd(A, compute_uv=False)).sum())
    log_density = np.array([posterior.log_evidence - log_volume])
    error, shape = np.array([posterior.log_evidence_error]), np.array([-np.inf])
    scores = Scores(value, variance, log_density, error, shape)
    return LeaveOneOut.of(value + offset, scores, posterior.diagnostics.messages)


def _pareto_messages(shapes: Array) -> tuple[str, ...]:
    """What to say of tail indices of the weights of examples, (p,)."""
    bad = np.flatnonzero(shapes > POLICY.largest_k)
    if not len(bad):
        return ()
    worst = int(shapes.argmax())
    return (
        f"leave-one-out weights have a Pareto k above {POLICY.largest_k} for {len(bad)} of {len(shapes)} "
        f"examples (largest {shapes[worst]:.2f}, at example {worst}), whose scores are not reliable: "
        "condition with a smaller target_error, or refit without them",
    )
