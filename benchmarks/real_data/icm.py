"""GPyTorch's multitask model with a linear kernel (the intrinsic coregionalisation model), trained by Adam.

Y_ij = m_j + f_ij + ε_ij, cov(f_ij, f_kl) = G_ik B_jl, B = W Wᵀ + diag(v), ε_ij ~ N(0, δ_j). Training is
GPyTorch's own. Predictions are its formula in closed form: in units of the noise, along the eigenvectors of
B, the tasks are independent processes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import gpytorch
import numpy as np
import torch

from benchmarks.real_data.metrics import Gaussian


@dataclass(frozen=True)
class Trained:
    """Hyperparameters after training."""

    mean: np.ndarray  # m, (n_d,)
    tasks: np.ndarray  # B times the variance of the linear kernel, (n_d, n_d)
    noise: np.ndarray  # δ, (n_d,)


class Model(gpytorch.models.ExactGP):
    """As in GPyTorch's tutorial on multitask regression, with a linear kernel."""

    def __init__(self, X, Y, likelihood, rank: int) -> None:
        super().__init__(X, Y, likelihood)
        tasks = Y.shape[1]
        self.mean_module = gpytorch.means.MultitaskMean(gpytorch.means.ConstantMean(), num_tasks=tasks)
        self.covar_module = gpytorch.kernels.MultitaskKernel(
            gpytorch.kernels.LinearKernel(), num_tasks=tasks, rank=rank
        )

    def forward(self, X):
        return gpytorch.distributions.MultitaskMultivariateNormal(self.mean_module(X), self.covar_module(X))


def train(X: np.ndarray, Y: np.ndarray, rank: int, steps: int, rate: float) -> Trained:
    """Maximise the marginal likelihood by `steps` steps of Adam."""
    model = fit(X, Y, rank, steps, rate)
    kernel, likelihood = model.covar_module, model.likelihood
    variance = kernel.data_covar_module.variance.item()
    with torch.no_grad():
        return Trained(
            np.array([each.constant.item() for each in model.mean_module.base_means]),
            variance * kernel.task_covar_module.covar_matrix.to_dense().numpy(),
            (likelihood.task_noises + likelihood.noise).numpy(),
        )


def fit(X: np.ndarray, Y: np.ndarray, rank: int, steps: int, rate: float) -> Model:
    """The trained model itself."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs, targets = torch.from_numpy(X), torch.from_numpy(Y)
    likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=Y.shape[1]).double()
    model = Model(inputs, targets, likelihood, rank).double()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jitter added to a nearly singular Gram matrix
        for _ in range(steps):
            optimiser.zero_grad()
            loss = -objective(model(inputs), targets)
            loss.backward()
            optimiser.step()
    return model


def forecast(trained: Trained, X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Gaussian:
    """The predictive of observations at each test point."""
    root = np.sqrt(trained.noise)
    strengths, vectors = np.linalg.eigh(trained.tasks / np.outer(root, root))
    values, basis = np.linalg.eigh(X @ X.T)
    targets = basis.T @ ((Y - trained.mean) / root) @ vectors
    cross = X_test @ X.T @ basis
    gain = strengths / (1 + np.maximum(values, 0.0)[:, None] * strengths)  # b_j / (1 + g_i b_j)
    prior = (X_test**2).sum(axis=1)[:, None] * strengths
    variance = prior - cross**2 @ (gain * strengths) + 1
    mean = trained.mean + (cross @ (gain * targets)) @ vectors.T * root
    across = root[:, None] * vectors
    return Gaussian(mean, (across * variance[:, None, :]) @ across.T)
