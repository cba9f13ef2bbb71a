"""The answers of a task computed: by quadrature for one output, by replicated inference for several."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, stats

from lbnn._base.types import Array, IndexArray
from lbnn.benchmark.density.functions import Functions
from lbnn.benchmark.reference.answers import Answers, Expectations, TaskPhases, condition
from lbnn.posterior import Posterior
from lbnn.views.posterior import ViewPosterior
from tests.referees.task_exact import ExactMoments

REPLICATES = 16  # independent inferences of a task with several outputs; errors come from their spread
REPLICATE_DRAWS = 4_000
SHAPE_DRAWS = 20_000  # for skewness and kurtosis, which only decide whether a mean of draws is nearly normal


def answer(functions: Functions) -> Answers:
    """Grade A by quadrature for one output, grade B by replicated inference for several."""
    return _exact(functions) if functions.density.channels == 1 else _estimated(functions)


# ---------------------------------------------------------------------- one output


def _exact(functions: Functions) -> Answers:
    posterior = condition(functions, 0)
    assert isinstance(posterior, Posterior)
    mean, deviation = ExactMoments(functions, posterior)()
    # fewer draws of large networks, whose functions are nearly normal
    draws = max(500, min(SHAPE_DRAWS, 5 * 10**7 // functions.density.dimension))
    values = functions(functions.density.flatten(posterior.sample_weights(draws, 0)))
    skewness, kurtosis = _shape(values)
    expectations = Expectations(functions.names, mean, deviation, np.zeros_like(mean), skewness, kurtosis)
    return Answers("A", expectations, posterior.log_evidence, 0.0, _exact_phases(posterior))


def _exact_phases(posterior: Posterior) -> TaskPhases:
    found = sorted(posterior.scale.phases(), key=lambda phase: float(np.mean(phase.mean_scale)))
    return TaskPhases(
        np.array([phase.mass for phase in found]),
        np.zeros(len(found)),
        np.array([phase.fitted_directions for phase in found], dtype=np.intp),
        _valleys(posterior, len(found) - 1),
        _threshold(posterior),
    )


def _valleys(posterior: Posterior, count: int) -> Array:
    """The minima of the density of x = log λ between its peaks."""
    if count == 0:
        return np.empty(0)
    nodes = np.log(posterior.scale.scales[:, 0, 0])

    def log_density(x: Array | float) -> Array:
        return np.asarray(posterior.scale.log_density(np.exp(x))) + x

    grid = np.linspace(nodes[0], nodes[-1], 20_001)
    values = log_density(grid)
    inner = 1 + np.flatnonzero((values[1:-1] < values[:-2]) & (values[1:-1] < values[2:]))
    assert len(inner) == count, "every phase but the last ends at a minimum of the density"
    return np.array(
        [
            optimize.minimize_scalar(
                lambda x: float(log_density(x)),
                bounds=(grid[k - 1], grid[k + 1]),
                method="bounded",
                options={"xatol": 1e-12},
            ).x
            for k in inner
        ]
    )


def _threshold(posterior: Posterior | ViewPosterior) -> float:
    """noise²/g_max; with views g are the eigenvalues of the signal's covariance at L = I."""
    if isinstance(posterior, ViewPosterior):
        signal = np.einsum("ambm->ab", posterior.data.kernel)
        return float(posterior.noise_variance / np.linalg.eigvalsh(signal)[-1])
    return float(posterior.noise.variance / posterior.spectrum.eigenvalues.max())


# ---------------------------------------------------------------------- several outputs


def _estimated(functions: Functions) -> Answers:
    """Averages over independent inferences; errors from the spread between them."""
    posteriors = [condition(functions, seed) for seed in range(REPLICATES)]
    found = [_replicate(functions, posterior, seed) for seed, posterior in enumerate(posteriors)]
    values = np.stack([each for each, _ in found])  # (replicates, draws, functions)
    mean, error = _replicated(values.mean(axis=1))
    deviation = np.sqrt(((values - mean) ** 2).mean(axis=(0, 1)))
    expectations = Expectations(
        functions.names, mean, deviation, error, *_shape(values.reshape(-1, len(mean)))
    )
    evidences = np.array([posterior.log_evidence for posterior in posteriors])
    ratio, ratio_error = _replicated(np.exp(evidences - evidences.max())[:, None])
    fitted = np.stack([counts for _, counts in found])  # numbers of fitted directions, (replicates, draws)
    numbers = np.unique(fitted)
    mass, spread = _replicated(np.stack([(fitted == number).mean(axis=1) for number in numbers], axis=1))
    threshold = _threshold(posteriors[0])
    phases = TaskPhases(mass, spread, numbers.astype(np.intp), np.empty(0), threshold)
    return Answers(
        "B",
        expectations,
        float(evidences.max() + math.log(float(ratio[0]))),
        float(ratio_error[0] / ratio[0]),
        phases,
    )


def _replicate(
    functions: Functions, posterior: Posterior | ViewPosterior, seed: int
) -> tuple[Array, IndexArray]:
    """Functions (draws, functions) and numbers of fitted directions (draws,), from one inference."""
    density = functions.density
    size = max(500, min(REPLICATE_DRAWS, 2 * 10**7 // density.dimension))
    weights = posterior.sample_weights(size, seed)
    tails = density.tails(weights)[-1]
    fitted = np.linalg.eigvalsh(tails @ tails.swapaxes(1, 2)) > _threshold(posterior)
    return functions(density.flatten(weights)), fitted.sum(-1)


def _replicated(estimates: Array) -> tuple[Array, Array]:
    """Mean and standard error over replicates (leading axis)."""
    return estimates.mean(axis=0), estimates.std(axis=0, ddof=1) / math.sqrt(len(estimates))


def _shape(values: Array) -> tuple[Array, Array]:
    return np.asarray(stats.skew(values, axis=0)), np.asarray(stats.kurtosis(values, axis=0))
