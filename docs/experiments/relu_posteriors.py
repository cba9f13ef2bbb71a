"""Posteriors of small ReLU networks by tempered Hamiltonian Monte Carlo, for `relu_reach.py`.

    python docs/experiments/relu_posteriors.py OUT.npz [--quick]

Needs JAX (an accelerator helps: six minutes on one H200, hours on a CPU). A network of depth d is

    z_1 = W_1 x/√n0,   h_ℓ = √(2/n_ℓ) relu(z_ℓ),   z_{ℓ+1} = W_{ℓ+1} h_ℓ,   f = w·h_{d−1},

standard normal weights, so that E f(x)² = |x|²/n0. The last layer is integrated analytically: given the
hidden weights, y ~ N(0, ΦΦᵀ + τ) and f at new inputs is Gaussian. These are drawn by sequential Monte Carlo
from the prior to the posterior: temperatures chosen so that 70% of the particles stay effective, systematic
resampling, HMC moves at every temperature with a step size adapted to an acceptance of 0.8. Independent runs
check each other.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

INPUTS, WIDTHS, DEPTHS, SIZES = (2, 5), (5, 20, 100), (2, 3, 4), (0.3, 1.0, 3.0)
EXAMPLES, TESTS, NOISE = 12, 20, 0.1
RUNS, PARTICLES, MOVES, LEAPS = 3, 4096, 8, 10
SECONDS = 3600.0  # after which no further problem is begun
GRID = np.linspace(-9.0, 9.0, 401)  # places of a predictive density, in its own standard deviations
MOST_STAGES = 80


def problem(inputs, size):
    """Inputs, targets, test inputs and truth: a smooth function that is not drawn from any of the models."""
    rng = np.random.default_rng(1000 * inputs)
    X, X_test = rng.normal(size=(EXAMPLES, inputs)), rng.normal(size=(TESTS, inputs))
    directions, phases = rng.normal(size=(3, inputs)) / np.sqrt(inputs), rng.uniform(0, 2 * np.pi, 3)

    def truth(Z):
        return size * np.sin(1.5 * Z @ directions.T + phases).sum(axis=1) / np.sqrt(1.5)

    y = truth(X) + NOISE * rng.normal(size=EXAMPLES)
    return X, y, X_test, truth(X_test)


def features(weights, X):
    """h_{d−1} at every input, (p, n)."""
    h = X / np.sqrt(X.shape[1])
    for W in weights:
        h = np.sqrt(2.0 / W.shape[0]) * jax.nn.relu(h @ W.T)
    return h


def log_likelihood(weights, X, y):
    """log N(y; 0, ΦΦᵀ + τ)."""
    Phi = features(weights, X)
    root = jnp.linalg.cholesky(Phi @ Phi.T + NOISE**2 * jnp.eye(len(y)))
    z = jax.scipy.linalg.solve_triangular(root, y, lower=True)
    return -0.5 * (z @ z) - jnp.log(jnp.diagonal(root)).sum() - 0.5 * len(y) * np.log(2 * np.pi)


def predict(weights, X, y, X_test):
    """Mean and variance of f at test inputs given the hidden weights."""
    Phi, test = features(weights, X), features(weights, X_test)
    root = jnp.linalg.cholesky(Phi @ Phi.T + NOISE**2 * jnp.eye(len(y)))
    cross = jax.scipy.linalg.solve_triangular(root, Phi @ test.T, lower=True)
    mean = cross.T @ jax.scipy.linalg.solve_triangular(root, y, lower=True)
    return mean, (test**2).sum(axis=1) - (cross**2).sum(axis=0)


def predict_all(flat, X, y, X_test, shapes):
    """`predict` for every particle, (particles, tests) each."""
    return jax.vmap(lambda each: predict(split(each, shapes), X, y, X_test))(flat)


@partial(jax.jit, static_argnames=("shapes",))
def start(key, X, y, shapes):
    """Prior draws: a flat array (particles, dimension), and their log likelihoods."""
    flat = jax.random.normal(key, (PARTICLES, sum(a * b for a, b in shapes)))
    return flat, jax.vmap(lambda each: log_likelihood(split(each, shapes), X, y))(flat)


def split(flat, shapes):
    """Hidden weight matrices from a flat vector."""
    parts, place = [], 0
    for a, b in shapes:
        parts.append(flat[place : place + a * b].reshape(a, b))
        place += a * b
    return parts


@partial(jax.jit, static_argnames=("shapes",))
def move(key, flat, X, y, temperature, step, shapes):
    """HMC moves of every particle; new particles, log likelihoods, acceptance."""

    def energy(each):
        ll = log_likelihood(split(each, shapes), X, y)
        return 0.5 * (each @ each) - temperature * ll, ll

    slope = jax.grad(energy, has_aux=True)

    def one(each, key):
        first, second, third = jax.random.split(key, 3)
        momentum = jax.random.normal(first, each.shape)
        own = step * jnp.exp(0.3 * jax.random.normal(third))
        before, ll_before = energy(each)

        def leap(state, _):
            q, p = state
            q = q + own * p
            return (q, p - own * slope(q)[0]), None

        half = momentum - 0.5 * own * slope(each)[0]
        (q, p), _ = jax.lax.scan(leap, (each, half), None, length=LEAPS)
        p = p + 0.5 * own * slope(q)[0]  # the last step of the momentum was half a step too long
        after, ll_after = energy(q)
        log_ratio = before + 0.5 * momentum @ momentum - after - 0.5 * p @ p
        log_ratio = jnp.where(jnp.isfinite(log_ratio), log_ratio, -jnp.inf)
        accept = jnp.log(jax.random.uniform(second)) < log_ratio
        return (
            jnp.where(accept, q, each),
            jnp.where(accept, ll_after, ll_before),
            jnp.minimum(1.0, jnp.exp(log_ratio)),
        )

    keys = jax.random.split(key, len(flat))
    new, ll, rate = jax.vmap(one)(flat, keys)
    return new, ll, rate.mean()


def next_temperature(ll, now):
    """The highest temperature at which 70% of the particles stay effective."""
    ll = np.asarray(ll)

    def share(to):
        w = (to - now) * (ll - ll.max())
        w = np.exp(w)
        return w.sum() ** 2 / (w**2).sum() / len(w)

    if share(1.0) >= 0.7:
        return 1.0
    low, high = now, 1.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) >= 0.7 else (low, middle)
    return low


def run(X, y, shapes, seed):
    """Particles at temperature one, and the log evidence."""
    rng, key = np.random.default_rng(seed), jax.random.PRNGKey(seed)
    key, own = jax.random.split(key)
    flat, ll = start(own, X, y, shapes)
    now, log_evidence, stages, step = 0.0, 0.0, 0, 0.5 / flat.shape[1] ** 0.25
    while now < 1.0 and stages < MOST_STAGES:
        to = next_temperature(ll, now)
        log_w = (to - now) * np.asarray(ll)
        top = log_w.max()
        w = np.exp(log_w - top)
        log_evidence += top + np.log(w.mean())
        places = (rng.random() + np.arange(len(w))) / len(w)
        index = np.minimum(np.searchsorted(np.cumsum(w) / w.sum(), places), len(w) - 1)
        flat = flat[jnp.asarray(index)]
        now, stages = to, stages + 1
        for _ in range(MOVES * (3 if now == 1.0 else 1)):
            key, own = jax.random.split(key)
            flat, ll, rate = move(own, flat, X, y, now, step, shapes)
            step *= float(np.exp(0.6 * (float(rate) - 0.8)))
    return flat, log_evidence, stages, float(rate)


def density(means, variances, centre, deviation):
    """The predictive density of observations on GRID, (tests, grid)."""
    places = centre[:, None] + deviation[:, None] * GRID
    total = variances + NOISE**2
    scores = (places[None] - means[:, :, None]) ** 2 / total[:, :, None]
    return (np.exp(-0.5 * scores) / np.sqrt(2 * np.pi * total)[:, :, None]).mean(axis=0)


def main(out, quick):
    """All problems, stored after each."""
    results, begin = {}, time.time()
    for inputs in INPUTS:
        for depth in DEPTHS:
            for width in WIDTHS:
                shapes = ((width, inputs),) + ((width, width),) * (depth - 2)
                for size in SIZES:
                    if quick and (width > 5 or depth > 2 or inputs > 2):
                        continue
                    if time.time() - begin > SECONDS:
                        continue
                    X, y, X_test, _ = problem(inputs, size)
                    name = f"{inputs}-{depth}-{width}-{size}"
                    for number in range(RUNS):
                        flat, log_evidence, stages, rate = run(X, y, shapes, number)
                        means, variances = map(np.asarray, predict_all(flat, X, y, X_test, shapes))
                        if number == 0:
                            centre = means.mean(axis=0)
                            deviation = np.sqrt(means.var(axis=0) + variances.mean(axis=0) + NOISE**2)
                        results[f"{name}/evidence/{number}"] = log_evidence
                        results[f"{name}/mean/{number}"] = means.mean(axis=0)
                        results[f"{name}/variance/{number}"] = means.var(axis=0) + variances.mean(axis=0)
                        results[f"{name}/density/{number}"] = density(
                            means, variances, centre, deviation
                        ).astype(np.float32)
                        results[f"{name}/stages/{number}"] = [stages, rate]
                    results[f"{name}/centre"], results[f"{name}/deviation"] = centre, deviation
                    evidences = [results[f"{name}/evidence/{k}"] for k in range(RUNS)]
                    print(
                        f"{time.time() - begin:6.0f} s  {name:14} log evidence {np.round(evidences, 2)} "
                        f"stages {stages} acceptance {rate:.2f}",
                        flush=True,
                    )
                    np.savez_compressed(out, **results)


if __name__ == "__main__":
    main(sys.argv[1], "--quick" in sys.argv)
