"""Linear networks by neural-tangents 0.6.5, into neural_tangents.json.

    pip install neural-tangents==0.6.5 jax==0.4.30 jaxlib==0.4.30  # jax 0.9 has no jax.core.Jaxpr
    python studies/references/make_neural_tangents.py

Kernels of the last hidden layer of networks drawn from the prior, their first two moments, and their average
under the likelihood (importance weights); the infinitely wide kernel and its Gaussian process.
"""

from __future__ import annotations

import json
import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import neural_tangents as nt
import numpy as np
from neural_tangents import stax

jax.config.update("jax_enable_x64", True)

DRAWS, GROUPS = 200_000, 50
CASES: list[dict[str, Any]] = [
    {"widths": [30], "variances": [1.0, 1.0], "beta": 2.0},
    {"widths": [40, 25], "variances": [1.3, 0.8, 1.4], "beta": 1.0},
]


def hidden_layers(case: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The network up to its last hidden layer: init, apply, kernel functions."""
    deviations = [math.sqrt(variance) for variance in case["variances"]]
    layers = zip(case["widths"], deviations, strict=False)
    return stax.serial(*[stax.Dense(width, W_std=deviation, b_std=None) for width, deviation in layers])


def draw_kernels(case: dict[str, Any], X: np.ndarray) -> np.ndarray:
    """Empirical kernels of the last hidden layer, (DRAWS, p, p)."""
    init_fn, apply_fn, _ = hidden_layers(case)
    empirical = nt.empirical_nngp_fn(apply_fn)
    one = jax.jit(jax.vmap(lambda key: empirical(X, None, init_fn(key, X.shape)[1])))
    keys = jax.random.split(jax.random.PRNGKey(30), DRAWS)
    return np.concatenate([np.asarray(one(block)) for block in np.split(np.asarray(keys), 20)])


def grouped(values: np.ndarray) -> dict[str, Any]:
    """Mean and standard error over groups (GROUPS, ...)."""
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return {"mean": values.mean(axis=0).tolist(), "error": error.tolist()}


def posterior_kernels(
    case: dict[str, Any], gram: np.ndarray, Y: np.ndarray, kernels: np.ndarray
) -> np.ndarray:
    """Σ w K less mean K plus its expectation, in each group; w = p(Y | K)."""
    covariance = case["variances"][-1] * kernels + np.eye(len(Y)) / case["beta"]
    fit = (np.linalg.solve(covariance, np.broadcast_to(Y, (len(kernels), *Y.shape))) * Y).sum(axis=(1, 2))
    log_weights = -0.5 * (Y.shape[1] * np.linalg.slogdet(covariance)[1] + fit)
    weights = np.exp(log_weights - log_weights.max()).reshape(GROUPS, -1)
    groups = kernels.reshape(GROUPS, -1, *gram.shape)
    weighted = np.einsum("gs,gsij->gij", weights / weights.sum(axis=1, keepdims=True), groups)
    return weighted - groups.mean(axis=1) + math.prod(case["variances"][:-1]) * gram


def answers(case: dict[str, Any], X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> dict[str, Any]:
    """Everything that the tests compare."""
    kernels = draw_kernels(case, X)
    groups = kernels.reshape(GROUPS, -1, len(X), len(X))
    network = stax.serial(
        hidden_layers(case), stax.Dense(1, W_std=math.sqrt(case["variances"][-1]), b_std=None)
    )
    both = np.concatenate([X, X_test])
    wide = np.asarray(network[2](both, None, "nngp"))
    train, cross, test = wide[: len(X), : len(X)], wide[len(X) :, : len(X)], wide[len(X) :, len(X) :]
    predict = nt.predict.gp_inference(train, Y, diag_reg=1 / case["beta"], diag_reg_absolute_scale=True)
    process = predict(get="nngp", k_test_train=cross, k_test_test=test)
    return {
        "kernel": grouped(groups.mean(axis=1)),
        "square": grouped((groups**2).mean(axis=1)),
        "posterior_kernel": grouped(posterior_kernels(case, X @ X.T / X.shape[1], Y, kernels)),
        "wide_kernel": wide.tolist(),
        "wide_mean": np.asarray(process.mean).tolist(),
        "wide_covariance": np.asarray(process.covariance).tolist(),
    }


def main() -> None:
    rng = np.random.default_rng(31)
    entries = []
    for case in CASES:
        X, X_test = rng.standard_normal((3, 5)).round(3), rng.standard_normal((2, 5)).round(3)
        Y = (2.0 * rng.standard_normal((3, 2))).round(3)
        data = {"X": X.tolist(), "Y": Y.tolist(), "X_test": X_test.tolist()}
        entries.append({**case, **data, **answers(case, X, Y, X_test)})
    content = {
        "neural_tangents": version("neural-tangents"),
        "draws": DRAWS,
        "groups": GROUPS,
        "cases": entries,
    }
    (Path(__file__).resolve().parents[2] / "tests" / "reference" / "neural_tangents.json").write_text(
        json.dumps(content) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
