"""laplace-torch: a network at its posterior mode with a Gaussian around it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.benchmark.adaptors.arrays import from_arrays
from lbnn.benchmark.task import Task


def laplace_of(task: Task, seed: int, hessian_structure: str = "full", steps: int = 200) -> Any:
    """A fitted `laplace.Laplace` over all weights, at the mode that L-BFGS reaches from a draw of the prior.

    The network is a sequence of `torch.nn.Linear` layers without biases, with views followed by the sum of
    output m at view m; prior precisions are one per weight.
    """
    import torch
    from laplace import Laplace
    from torch.utils.data import DataLoader, TensorDataset

    density = task.density
    layers = [torch.nn.Linear(columns, rows, bias=False).double() for rows, columns in density.shapes]
    network = torch.nn.Sequential(*layers, *([_readout()] if density.views else []))
    start = task.unflatten(task.prior_draws(1, seed)[0])
    with torch.no_grad():
        for layer, weight in zip(layers, start, strict=True):
            layer.weight.copy_(torch.from_numpy(weight))
    inputs = density.X if task.views is None else task.views
    X, Y = torch.from_numpy(inputs), torch.from_numpy(density.Y)
    optimiser = torch.optim.LBFGS(network.parameters(), max_iter=50, line_search_fn="strong_wolfe")

    def energy() -> Any:
        optimiser.zero_grad()
        penalty = sum(
            (layer.weight**2).sum() / deviation**2
            for layer, deviation in zip(layers, density.deviations, strict=True)
        )
        value = 0.5 * ((network(X) - Y) ** 2).sum() / density.noise**2 + 0.5 * penalty
        value.backward()
        return value

    for _ in range(max(1, steps // 50)):
        optimiser.step(energy)
    precision = np.concatenate(
        [
            np.full(rows * columns, deviation**-2)
            for (rows, columns), deviation in zip(density.shapes, density.deviations, strict=True)
        ]
    )
    laplace = Laplace(
        network,
        "regression",
        subset_of_weights="all",
        hessian_structure=hessian_structure,
        sigma_noise=density.noise,
        prior_precision=torch.from_numpy(precision),
    )
    laplace.fit(DataLoader(TensorDataset(X, Y), batch_size=len(X)))
    return laplace


def _readout() -> Any:
    """A module from outputs (p, M, M) at M views of p examples to their targets (p, 1)."""
    import torch

    class Readout(torch.nn.Module):  # type: ignore[misc]
        def forward(self, outputs: Any) -> Any:
            return torch.diagonal(outputs, dim1=-2, dim2=-1).sum(-1, keepdim=True)

    return Readout()


def from_laplace(task: Task, laplace: Any, size: int = 4_000, chains: int = 4) -> Array:
    """Draws of the Gaussian, in the task's coordinates."""
    flat = laplace.sample(size).detach().cpu().numpy()
    parts = np.split(flat, task.density.ends[:-1], axis=1)
    scaled = [part / deviation for part, deviation in zip(parts, task.density.deviations, strict=True)]
    return from_arrays(task, np.concatenate(scaled, axis=1), chains)


def log_evidence_of(laplace: Any) -> float:
    """The Laplace approximation of the log evidence."""
    value = float(laplace.log_marginal_likelihood())
    return value if math.isfinite(value) else -math.inf
