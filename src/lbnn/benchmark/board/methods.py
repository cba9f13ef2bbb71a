"""The methods of the leaderboard.

To add one's own, write a function and register it:

    from lbnn.benchmark.board.method import Outcome, method

    @method("my-sampler", "what it is", package="my_package")
    def my_sampler(task, seed):
        draws = ...  # (chains, draws, task.dimension), from task.log_density, task.gradient or task.jax()
        return Outcome(draws)

`lbnn benchmark run --plugin my_file.py --methods my-sampler,exact` runs it. Settings are each package's
defaults where it has any; chains start where the package starts them, or at draws of the prior.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lbnn._base.types import Array
from lbnn.benchmark.adaptors import (
    dynesty_functions,
    from_arrays,
    from_arviz,
    from_blackjax,
    from_dynesty,
    from_laplace,
    from_numpyro,
    laplace_of,
    numpyro_model,
    nutpie_model,
    pymc_model,
)
from lbnn.benchmark.adaptors.laplace import log_evidence_of
from lbnn.benchmark.board.method import Outcome, method
from lbnn.benchmark.task import Task

CHAINS, WARMUP, DRAWS = 4, 1_000, 1_000
SMC_PARTICLES = 500
SVI_STEPS = 2_000


@method("exact", "independent exact draws: the control", largest=10**6)
def exact(task: Task, seed: int) -> Outcome:
    """The control."""
    size = max(400, min(CHAINS * DRAWS, 2 * 10**7 // task.dimension))
    draws = from_arrays(task, task.reference(size, seed + 1), CHAINS)
    error = task.log_evidence_error or None
    return Outcome(draws, task.log_evidence, error)


@method("numpyro-nuts", "NumPyro, NUTS, default start (uniform in ±2)", package="numpyro")
def numpyro_nuts(task: Task, seed: int) -> Outcome:
    """NumPyro's NUTS, chains in parallel on one core."""
    jax = _jax()
    from numpyro.infer import MCMC, NUTS

    sampler = MCMC(
        NUTS(numpyro_model(task)),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.PRNGKey(seed), extra_fields=("num_steps", "diverging"))
    extra = sampler.get_extra_fields()
    return Outcome(
        from_numpyro(task, sampler),
        gradients=float(extra["num_steps"].sum()),
        divergences=int(extra["diverging"].sum()),
    )


@method("blackjax-nuts", "BlackJAX, NUTS, start at the prior", package="blackjax")
def blackjax_nuts(task: Task, seed: int) -> Outcome:
    """BlackJAX's NUTS with window adaptation."""
    jax = _jax()
    import blackjax

    log_density = task.jax().log_density
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)

    def chain(key: Any, start: Any) -> Any:
        warm_key, key = jax.random.split(key)
        (state, parameters), _ = adaptation.run(warm_key, start, num_steps=WARMUP)
        kernel = blackjax.nuts(log_density, **parameters).step

        def step(state: Any, key: Any) -> Any:
            state, info = kernel(key, state)
            return state, (state.position, info.num_integration_steps, info.is_divergent)

        return jax.lax.scan(step, state, jax.random.split(key, DRAWS))[1]

    keys = jax.random.split(jax.random.PRNGKey(seed), CHAINS)
    positions, steps, divergent = jax.jit(jax.vmap(chain))(keys, task.prior_draws(CHAINS, seed))
    return Outcome(
        from_blackjax(task, positions), gradients=float(steps.sum()), divergences=int(divergent.sum())
    )


@method("nutpie", "nutpie, start at the prior", package="nutpie")
def nutpie_nuts(task: Task, seed: int) -> Outcome:
    """Nutpie with its own adaptation of the mass matrix."""
    _jax()
    import nutpie

    trace = nutpie.sample(
        nutpie_model(task),
        draws=DRAWS,
        tune=400,
        chains=CHAINS,
        cores=1,
        seed=seed,
        progress_bar=False,
        save_warmup=False,
    )
    statistics = trace.sample_stats
    return Outcome(
        from_arviz(task, trace),
        gradients=float(statistics.n_steps.sum()),
        divergences=int(statistics.diverging.sum()),
    )


@method("mclmc", "BlackJAX, microcanonical Langevin, unadjusted, tuned", largest=100_000, package="blackjax")
def mclmc(task: Task, seed: int) -> Outcome:
    """Microcanonical Langevin Monte Carlo."""
    jax = _jax()
    import blackjax

    log_density = task.jax().log_density
    kernel = blackjax.mcmc.mclmc.build_kernel()
    thin, length = 5, DRAWS if task.dimension <= 1_000 else 100

    def chain(key: Any, start: Any) -> Any:
        init_key, tune_key, run_key = jax.random.split(key, 3)
        state = blackjax.mcmc.mclmc.init(start, log_density, init_key)
        state, tuned, _ = blackjax.mclmc_find_L_and_step_size(
            kernel, thin * length, state, tune_key, logdensity_fn=log_density
        )

        def step(state: Any, key: Any) -> Any:
            def small_step(state: Any, own: Any) -> Any:
                settings = tuned.inverse_mass_matrix, tuned.L, tuned.step_size
                return kernel(own, state, log_density, *settings)[0], None

            state = jax.lax.scan(small_step, state, jax.random.split(key, thin))[0]
            return state, state.position

        return jax.lax.scan(step, state, jax.random.split(run_key, length))[1]

    keys = jax.random.split(jax.random.PRNGKey(seed), CHAINS)
    positions = jax.jit(jax.vmap(chain))(keys, task.prior_draws(CHAINS, seed))
    return Outcome(from_blackjax(task, positions), gradients=2.0 * CHAINS * thin * length)


@method(
    "vi-mean-field", "NumPyro, Gaussian with a diagonal covariance, ELBO", largest=100_000, package="numpyro"
)
def vi_mean_field(task: Task, seed: int) -> Outcome:
    """Mean-field variational inference."""
    from numpyro.infer.autoguide import AutoNormal

    return _variational(task, seed, AutoNormal)


@method("vi-full-rank", "NumPyro, Gaussian with a full covariance, ELBO", package="numpyro")
def vi_full_rank(task: Task, seed: int) -> Outcome:
    """Full-rank variational inference."""
    from numpyro.infer.autoguide import AutoMultivariateNormal

    return _variational(task, seed, AutoMultivariateNormal)


def _variational(task: Task, seed: int, guide_of: Any) -> Outcome:
    jax = _jax()
    from numpyro import optim
    from numpyro.infer import SVI, Trace_ELBO

    model = numpyro_model(task)
    guide = guide_of(model)
    steps = SVI_STEPS if task.dimension <= 1_000 else SVI_STEPS // 4
    inference = SVI(model, guide, optim.ClippedAdam(0.01), Trace_ELBO(4))
    result = inference.run(jax.random.PRNGKey(seed), steps, progress_bar=False)
    size = max(400, min(CHAINS * DRAWS, 2 * 10**7 // task.dimension))
    draws = guide.sample_posterior(jax.random.PRNGKey(seed + 1), result.params, sample_shape=(size,))["z"]
    bound = -float(Trace_ELBO(200).loss(jax.random.PRNGKey(seed + 2), result.params, model, guide))
    return Outcome(from_arrays(task, np.asarray(draws, float), CHAINS), bound, gradients=4.0 * steps)


@method("laplace", "laplace-torch, all weights, full Hessian (Gauss–Newton)", package="laplace-torch")
def laplace(task: Task, seed: int) -> Outcome:
    """A Gaussian at the mode."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    fitted = laplace_of(task, seed)
    return Outcome(from_laplace(task, fitted, CHAINS * DRAWS), log_evidence_of(fitted))


@method("smc", "BlackJAX, tempered SMC from the prior, HMC moves, four runs", package="blackjax")
def smc(task: Task, seed: int) -> Outcome:
    """Adaptive tempering; the spread of four runs is the claimed error of the log evidence."""
    jax = _jax()
    import blackjax
    from blackjax.smc import resampling

    density = task.jax()
    jnp = jax.numpy
    leaps, moves = 10, 5

    def kernel_of(step_size: float) -> Any:
        return blackjax.adaptive_tempered_smc(
            density.log_prior,
            density.log_likelihood,
            blackjax.hmc.build_kernel(),
            blackjax.hmc.init,
            {
                "step_size": jnp.array([step_size]),
                "inverse_mass_matrix": jnp.ones((1, task.dimension)),
                "num_integration_steps": jnp.array([leaps]),
            },
            resampling.systematic,
            0.5,
            num_mcmc_steps=moves,
        )

    def advance(key: Any, state: Any, step_size: Any) -> Any:
        state, info = kernel_of(step_size).step(key, state)
        return state, info.log_likelihood_increment, info.update_info.acceptance_rate.mean()

    step = jax.jit(advance)
    particles, evidences, stages = [], [], 0
    key = jax.random.PRNGKey(seed)
    for run in range(CHAINS):
        state = kernel_of(0.1).init(jnp.asarray(task.prior_draws(SMC_PARTICLES, seed * CHAINS + run)))
        evidence, step_size = 0.0, 0.1
        while float(state.tempering_param) < 1 and stages < 1_000:
            key, own = jax.random.split(key)
            state, increment, accepted = step(own, state, step_size)
            evidence, stages = evidence + float(increment), stages + 1
            step_size = min(max(step_size * math.exp(float(accepted) - 0.8), 1e-4), 0.5)
        particles.append(np.asarray(state.particles, float))
        evidences.append(evidence)
    value = float(np.logaddexp.reduce(evidences) - math.log(CHAINS))
    error = float(np.std(evidences, ddof=1) / math.sqrt(CHAINS))
    return Outcome(np.stack(particles), value, error, gradients=float(stages * moves * leaps * SMC_PARTICLES))


@method("dynesty", "dynesty, nested sampling, random walks, 300 live points", largest=25, package="dynesty")
def nested(task: Task, seed: int) -> Outcome:
    """Nested sampling, where the dimension allows."""
    from dynesty import NestedSampler

    sampler = NestedSampler(
        *dynesty_functions(task),
        task.dimension,
        nlive=300,
        sample="rwalk",
        rstate=np.random.default_rng(seed),
    )
    sampler.run_nested(dlogz=0.05, print_progress=False)
    results = sampler.results
    return Outcome(
        from_dynesty(task, results, seed, CHAINS), float(results.logz[-1]), float(results.logzerr[-1])
    )


@method("ula", "unadjusted Langevin from the prior, small fixed step, as theorists use it", largest=100_000)
def unadjusted_langevin(task: Task, seed: int) -> Outcome:
    """z ← z + h ∇log p + √(2h) ξ with h a tenth of 1/(1 + curvature), over 40,000 steps."""
    rng = np.random.default_rng(seed)
    z = task.prior_draws(CHAINS, seed)
    step = 0.1 / (1 + prior_curvature(task))
    length, thin = (DRAWS, 40) if task.dimension <= 1_000 else (100, 10)
    draws = np.empty((CHAINS, length, task.dimension))
    for index in range(-length // 2, length):
        for _ in range(thin):
            with np.errstate(over="ignore", invalid="ignore"):
                z = z + step * task.gradient(z) + math.sqrt(2 * step) * rng.standard_normal(z.shape)
        if index >= 0:
            draws[:, index] = z
    return Outcome(draws, gradients=float(CHAINS * length * thin * 1.5))


def prior_curvature(task: Task) -> float:
    """g_max Π σ_ℓ²/noise²: the likelihood's curvature along one layer at typical weights of the prior."""
    density = task.density
    inputs = density.X.reshape(len(density.Y), -1)  # with views those of an example beside each other
    largest: Array = np.linalg.norm(inputs, 2) ** 2 / density.X.shape[1]
    return float(largest) * math.prod(density.prior_variances) / density.noise**2


@method("pymc", "PyMC, NUTS", package="pymc")
def pymc_nuts(task: Task, seed: int) -> Outcome:
    """PyMC's NUTS."""
    import pymc

    with pymc_model(task):
        trace = pymc.sample(
            DRAWS, tune=WARMUP, chains=CHAINS, cores=1, progressbar=False, random_seed=seed + 1
        )
    statistics = trace.sample_stats
    return Outcome(
        from_arviz(task, trace),
        gradients=float(statistics.n_steps.sum()),
        divergences=int(statistics.diverging.sum()),
    )


def _jax() -> Any:
    """JAX in double precision."""
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax
