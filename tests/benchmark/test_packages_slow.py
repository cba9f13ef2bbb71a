"""Densities in other languages agree. Needs JAX, PyTorch, and posteriordb with PyStan."""

from __future__ import annotations

import numpy as np
import pytest

from lbnn.benchmark import load, tasks, to_posteriordb

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of the packages
NAMES = [entry.name for entry in tasks()]


def points(task):
    return np.concatenate([task.prior_draws(3, 0), task.reference(3, 1)])


def assert_same(task, values, gradients):
    """Densities to 1e-10 and gradients to 1e-8, relative where they are above one."""
    z = points(task)
    exact, slope = task.log_density(z), task.gradient(z)
    assert (np.abs(np.asarray(values) - exact) / np.maximum(1, np.abs(exact))).max() < 1e-10
    size = np.maximum(1, np.abs(slope).max(axis=1, keepdims=True))
    assert (np.abs(np.asarray(gradients) - slope) / size).max() < 1e-8


@pytest.mark.parametrize("name", NAMES)
def test_jax_density(name):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    task = load(name)
    density = task.jax().log_density
    z = points(task)
    assert_same(task, [density(x) for x in z], [jax.grad(density)(x) for x in z])


@pytest.mark.parametrize("name", NAMES)
def test_torch_density(name):
    torch = pytest.importorskip("torch")
    task = load(name)
    z = torch.tensor(points(task), requires_grad=True)
    values = task.torch().log_density(z)
    values.sum().backward()
    assert_same(task, values.detach().numpy(), z.grad.numpy())


@pytest.mark.parametrize("name", ["coexist-10", "cold-44", "plain-40-two-outputs", "gated-20", "conv-64"])
def test_stan_density_through_posteriordb(name, tmp_path):
    """The exported program compiles, and its log density is the task's: the stated constant is zero."""
    stan = pytest.importorskip("stan")
    posteriordb = pytest.importorskip("posteriordb")
    task = load(name)
    to_posteriordb(task, tmp_path, draws=20)
    database = posteriordb.PosteriorDatabase(str(tmp_path))
    posterior = database.posterior(database.posterior_names()[0])
    method = "analytical" if task.grade == "A" else "importance_resampling"
    assert posterior.reference_draws_info()["inference"]["method"] == method
    assert len(posterior.reference_draws()) == 10
    model = stan.build(posterior.model.stan_code(), data=posterior.data.values(), random_seed=1)
    z = points(task)
    assert_same(task, [model.log_prob(list(x)) for x in z], [model.grad_log_prob(list(x)) for x in z])
