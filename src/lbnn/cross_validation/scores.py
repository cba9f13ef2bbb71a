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
from lbnn.cross_validation.examples import Examples, LeftOut, PrivateExamples
from lbnn.cross_validation.fitted import Fitted
from lbnn.cross_validation.refits import Refits, replace_by_refits
from lbnn.engines.policy import POLICY


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
    posterior : Posterior
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
    root, measure = posterior.noise.root, posterior._scale_in_units
    outward = np.eye(columns.shape[1]) if matrix is None else matrix
    if root is not None:
        columns, outward = np.asarray(np.linalg.solve(root, columns.T).T, float), outward @ root
    given = posterior.spectrum.weights
    weights = np.ones(len(columns)) if given is None else given
    if len(columns) == 1:
        return _only_row(posterior, columns @ outward.T, outward, one_dimensional, offset)
    examples = _left_out(posterior, np.sqrt(weights)[:, None] * columns, centred)
    parts = [score(measure, examples.take(rows), outward) for rows in row_blocks(len(columns), measure)]
    scores = Scores(*(np.concatenate(each) for each in zip(*(p.fields for p in parts), strict=True)))
    scores = scores.of_rows(weights, columns.shape[1])
    refits = Refits(posterior, columns, centred, weights)
    messages = replace_by_refits(scores, posterior, examples, outward, refits)
    messages = pareto_messages(scores.pareto_k) + messages
    warn_of(messages)
    mean, variance = columns @ outward.T - scores.residual + offset, scores.variance
    log_volume = float(np.log(np.linalg.svd(outward, compute_uv=False)).sum())
    return LeaveOneOut(
        mean[:, 0] if one_dimensional else mean,
        variance[:, 0] if one_dimensional else variance,
        scores.residual[:, 0] if one_dimensional else scores.residual,
        scores.log_density - log_volume,
        scores.log_density_error,
        scores.pareto_k,
        posterior.diagnostics.messages + messages,
    )


def _only_row(
    posterior: Fitted, value: Array, outward: Array, one_dimensional: bool, offset: Array | float
) -> LeaveOneOut:
    """The only row (1, outputs) given none: its law is that of the prior, and its density the evidence.

    Weights of draws of the posterior would have the tail of the prior over the posterior.
    """
    noise, spectrum, prior = posterior.noise, posterior.spectrum, posterior.prior
    outputs = spectrum.outputs
    root = np.eye(outputs) if noise.root is None else noise.root
    scale = np.linalg.solve(root, np.linalg.solve(root, prior.mean).T)  # E L in units of the noise
    weight = 1.0 if spectrum.weights is None else float(spectrum.weights[0])
    covariance = float(spectrum.eigenvalues.sum()) * scale + noise.mean_covariance(scale)
    variance = np.einsum("ij,jk,ik->i", outward, covariance, outward)[None] / weight
    volume = np.linalg.svd(outward @ np.linalg.inv(root), compute_uv=False)  # of the outputs in their units
    shape: tuple[int, ...] = (1,) if one_dimensional else value.shape
    return LeaveOneOut(
        np.broadcast_to(offset, value.shape).reshape(shape) + 0.0,
        variance.reshape(shape),
        value.reshape(shape),
        np.array([posterior.log_evidence - float(np.log(volume).sum())]),
        np.array([posterior.log_evidence_error]),
        np.array([-np.inf]),
        posterior.diagnostics.messages,
    )


def _left_out(posterior: Fitted, columns: Array, centred: bool) -> LeftOut:
    """Examples of a posterior with targets (p, n_d) in units of the noise."""
    noise, spectrum = posterior.noise, posterior.noise.in_units(posterior.spectrum)
    if noise.coupling:
        return PrivateExamples.of(spectrum, noise.coupling, columns, centred)
    return Examples.of(spectrum, noise.variance, columns, centred)


def pareto_messages(shapes: Array) -> tuple[str, ...]:
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
