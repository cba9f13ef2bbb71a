"""NUTS (NumPyro) on all weights of a gated and a convolutional network, against the stored answers.

`python benchmarks/views_nuts.py [--out FILE]`: needs NumPyro. Both tasks have one phase. Means and squares
of predictions are compared in standard errors of the draws, whose effective number is NumPyro's.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import jax
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

import lbnn.benchmark as bench
from lbnn.benchmark.adaptors import from_numpyro, numpyro_model


def compared(name, warmup, draws):
    """Differences of means and of second moments of all predictions in standard errors, and the verdict."""
    task = bench.load(name)
    kernel = NUTS(numpyro_model(task), target_accept_prob=0.95)
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=4,
        chain_method="sequential",
        progress_bar=False,
    )
    began = time.process_time()
    mcmc.run(jax.random.PRNGKey(0))
    z = from_numpyro(task, mcmc)
    values, known = task.functions(z), task.expectations
    chosen = [i for i, each in enumerate(task.functions.names) if each.startswith("F[")]
    rows = {}
    for i in chosen:
        own = values[..., i]
        error = math.hypot(own.std() / math.sqrt(float(effective_sample_size(own))), known.error[i])
        rows[task.functions.names[i]] = float(own.mean() - known.mean[i]) / error
    verdict = bench.score(task, z).verdict
    return {
        "task": name,
        "weights": task.dimension,
        "draws": 4 * draws,
        "differences_in_errors": rows,
        "largest": max(abs(value) for value in rows.values()),
        "verdict": verdict,
        "seconds": time.process_time() - began,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", nargs="+", default=["gated-20", "conv-64"])
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=2500)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = []
    for name in options.tasks:
        rows.append(compared(name, options.warmup, options.draws))
        print(json.dumps(rows[-1]), flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
