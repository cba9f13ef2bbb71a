"""Per-output noise behind layers narrower than the outputs, against weighted draws of the prior.

    python -m benchmarks.narrow_per_output --out FILE [--problems 300] [--first 0] [--draws 200000]

Random problems: two to five outputs, a narrowest layer of 1 to n_d − 1 units, depth two to four, one to four
examples, noise variances over two decades. The referee draws the weights of all layers above the first from
the prior and evaluates the dense density of all targets; problems that leave it fewer than 1000 effective
draws are counted apart. Run with OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from pathlib import Path

import numpy as np
from scipy import special

import lbnn

_BLOCK = 20_000
_FEWEST = 1000  # effective draws of the referee


def problem(number: int) -> dict:
    """One random problem."""
    rng = np.random.default_rng([number, 24])
    outputs = int(rng.integers(2, 6))
    widths = rng.integers(1, 9, size=int(rng.integers(1, 4)))
    widths[rng.integers(len(widths))] = rng.integers(1, outputs)
    p, inputs = int(rng.integers(1, 5)), int(rng.integers(2, 7))
    return {
        "widths": tuple(int(width) for width in widths),
        "variances": tuple(float(each) for each in np.exp(0.5 * rng.normal(size=len(widths) + 1))),
        "X": rng.normal(size=(p, inputs)),
        "Y": math.exp(0.7 * rng.normal()) * rng.normal(size=(p, outputs)),
        "beta": np.exp(rng.uniform(-1.5, 3.0, size=outputs)),
    }


def referee(case: dict, draws: int, seed: int = 7) -> dict:
    """Log evidence and E L_jj from draws of the prior, with standard errors."""
    rng = np.random.default_rng(seed)
    X, Y, beta = case["X"], case["Y"], case["beta"]
    (p, inputs), outputs = X.shape, Y.shape[1]
    gram = case["variances"][0] * X @ X.T / inputs
    logs, diagonals = [], []
    for _ in range(draws // _BLOCK):
        root = np.eye(outputs)
        layers = zip(case["widths"][::-1], case["variances"][:0:-1], strict=True)
        for width, variance in layers:
            root = root @ (rng.standard_normal((_BLOCK, root.shape[-1], width)) * math.sqrt(variance / width))
        scales = root @ root.swapaxes(1, 2)
        covariance = np.einsum("ab,mjk->majbk", gram, scales)
        covariance = covariance + np.einsum("ab,jk->ajbk", np.eye(p), np.diag(1 / beta))
        lower = np.linalg.cholesky(covariance.reshape(_BLOCK, p * outputs, p * outputs))
        white = np.linalg.solve(lower, np.broadcast_to(Y.ravel(), (_BLOCK, p * outputs))[..., None])[..., 0]
        determinant = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        logs.append(-determinant - 0.5 * ((white**2).sum(axis=1) + p * outputs * math.log(2 * math.pi)))
        diagonals.append(np.diagonal(scales, axis1=1, axis2=2))
    log, diagonal = np.concatenate(logs), np.concatenate(diagonals)
    weights = special.softmax(log)
    mean = weights @ diagonal
    return {
        "log_evidence": float(special.logsumexp(log)) - math.log(len(log)),
        "error": math.sqrt(float((weights**2).sum()) - 1 / len(log)),
        "mean": mean,
        "mean_error": np.sqrt(weights**2 @ (diagonal - mean) ** 2),
        "effective": float(1 / (weights**2).sum()),
    }


def compared(number: int, draws: int) -> dict:
    """The answer beside the referee's, differences in joint standard errors."""
    case = problem(number)
    truth = referee(case, draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = lbnn.Network(case["widths"], case["variances"])
        post = network.condition(case["X"], case["Y"], case["beta"], noise="per_output", seed=number)
    mean, error = np.diagonal(post.scale.mean), np.diagonal(post.scale.mean_error)
    return {
        "number": number,
        "widths": case["widths"],
        "outputs": case["Y"].shape[1],
        "ok": bool(post.diagnostics.ok),
        "effective": truth["effective"],
        "z": (post.log_evidence - truth["log_evidence"])
        / math.hypot(post.log_evidence_error, truth["error"]),
        "z_scale": ((mean - truth["mean"]) / np.hypot(error, truth["mean_error"])).tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--draws", type=int, default=200_000)
    options = parser.parse_args()
    rows = []
    for number in range(options.first, options.first + options.problems):
        rows.append(compared(number, options.draws))
        options.out.write_text(json.dumps(rows), encoding="utf-8")
    served = [row for row in rows if row["effective"] >= _FEWEST]
    fine = [row for row in served if row["ok"]]
    z = np.abs([row["z"] for row in fine])
    scale = np.abs([value for row in fine for value in row["z_scale"]])
    print(
        f"{len(rows)} problems, {len(served)} that the referee can judge, {len(fine)} of these ok; evidence: "
        f"{(z > 3).sum()} beyond 3 errors, {(z > 5).sum()} beyond 5, worst {z.max():.1f}; E L: "
        f"{(scale > 3).sum()} of {scale.size} beyond 3, {(scale > 5).sum()} beyond 5, worst {scale.max():.1f}"
    )


if __name__ == "__main__":
    main()
