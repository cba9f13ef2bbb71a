"""Real packages: densities agree, adaptors read their results. Needs the dependency group `leaderboard`."""

from __future__ import annotations

import numpy as np
import pytest

from lbnn.benchmark import adaptors, load, score, tasks, to_posteriordb

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


def test_stan_draws():
    stan = pytest.importorskip("stan")
    task = load("plain-15")
    program = task.stan()
    fit = stan.build(program.code, data=program.data, random_seed=1).sample(num_chains=4, num_samples=500)
    draws = adaptors.from_pystan(task, fit)
    frame = np.asarray(fit.to_frame()[[f"z.{k + 1}" for k in range(15)]])  # rows: chains in turn
    np.testing.assert_allclose(draws.transpose(1, 0, 2).reshape(-1, 15), frame)
    assert score(task, draws).passed


def test_numpyro():
    jax = pytest.importorskip("jax")
    infer = pytest.importorskip("numpyro.infer")
    jax.config.update("jax_enable_x64", True)
    task = load("plain-15")
    sampler = infer.MCMC(
        infer.NUTS(adaptors.numpyro_model(task)), num_warmup=500, num_samples=500, num_chains=4,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    sampler.run(jax.random.PRNGKey(0))
    assert score(task, adaptors.from_numpyro(task, sampler)).passed


def test_nutpie():
    jax = pytest.importorskip("jax")
    nutpie = pytest.importorskip("nutpie")
    jax.config.update("jax_enable_x64", True)
    task = load("plain-15")
    model = adaptors.nutpie_model(task)
    trace = nutpie.sample(model, draws=500, tune=500, chains=4, cores=1, seed=1, progress_bar=False)
    assert score(task, adaptors.from_arviz(task, trace)).passed


def test_blackjax():
    jax = pytest.importorskip("jax")
    pytest.importorskip("blackjax")
    jax.config.update("jax_enable_x64", True)
    from lbnn.benchmark.board.methods import blackjax_nuts

    task = load("plain-15")
    assert score(task, blackjax_nuts(task, 0).draws).passed


def test_pymc():
    pymc = pytest.importorskip("pymc")
    task = load("plain-15")
    model = adaptors.pymc_model(task)
    log_density, z = model.compile_logp(), points(task)
    np.testing.assert_allclose([log_density({"z": x}) for x in z], task.log_density(z), rtol=1e-12)
    with model:
        trace = pymc.sample(400, tune=500, chains=2, cores=1, progressbar=False, random_seed=1)
    assert score(task, adaptors.from_arviz(task, trace)).passed


def test_dynesty():
    dynesty = pytest.importorskip("dynesty")
    task = load("deep-7-scalars")
    sampler = dynesty.NestedSampler(
        *adaptors.dynesty_functions(task),
        task.dimension,
        nlive=300,
        sample="rwalk",
        rstate=np.random.default_rng(0),
    )
    sampler.run_nested(print_progress=False)
    results = sampler.results
    assert abs(results.logz[-1] - task.log_evidence) < 4 * results.logzerr[-1]
    assert adaptors.from_dynesty(task, results).shape[0] == 4


def test_laplace():
    """The mode is one of the posterior, and a Gaussian around it is not the posterior."""
    pytest.importorskip("laplace")
    task = load("plain-15")
    fitted = adaptors.laplace_of(task, 0)
    draws = adaptors.from_laplace(task, fitted, size=2_000)
    assert draws.shape == (4, 500, 15)
    mode = fitted.mean.detach().numpy() / np.repeat(task.density.deviations, [12, 3])
    assert np.abs(task.gradient(mode)).max() < 1e-3
    assert not score(task, draws).passed
