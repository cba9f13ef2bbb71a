"""The posteriors of relu_posteriors.py by two other routes, where these can reach.

    python docs/experiments/relu_checks.py posteriors.npz

Importance sampling from the prior of the hidden weights (NumPy) for the log evidence and predictive means,
and NUTS over all weights, last layer included (NumPyro, four chains), for means and variances.
"""

import sys

import numpy as np
from relu_posteriors import NOISE, RUNS, problem

PROBLEMS = (
    (2, 2, 5, 0.3),
    (2, 2, 5, 1.0),
    (2, 3, 5, 1.0),
    (5, 2, 20, 0.3),
    (5, 3, 20, 0.3),
    (2, 2, 100, 1.0),
)


def features(weights, X):
    """h_{d−1} of draws of hidden weights [(m, n, n'), ...], (m, p, n)."""
    h = np.broadcast_to(X / np.sqrt(X.shape[1]), (len(weights[0]), *X.shape))
    for W in weights:
        h = np.sqrt(2 / W.shape[1]) * np.maximum(h @ W.transpose(0, 2, 1), 0)
    return h


def importance(inputs, depth, width, size, draws, seed=0):
    """Log evidence, its standard error, effective draws, predictive mean."""
    X, y, X_test, _ = problem(inputs, size)
    rng, logs, means = np.random.default_rng(seed), [], []
    block = max(1, 2_000_000 // (width * max(width, 12)))
    for _ in range(0, draws, block):
        shapes = [(width, inputs)] + [(width, width)] * (depth - 2)
        weights = [rng.normal(size=(block, *shape)) for shape in shapes]
        both = features(weights, np.concatenate([X, X_test]))
        train, test = both[:, : len(X)], both[:, len(X) :]
        K = train @ train.transpose(0, 2, 1) + NOISE**2 * np.eye(len(X))
        root = np.linalg.cholesky(K)
        z = np.linalg.solve(root, np.broadcast_to(y[:, None], (block, len(y), 1)))[:, :, 0]
        log_det = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        logs.append(-0.5 * ((z**2).sum(axis=1) + log_det + len(y) * np.log(2 * np.pi)))
        alpha = np.linalg.solve(root.transpose(0, 2, 1), z[:, :, None])
        means.append((test @ (train.transpose(0, 2, 1) @ alpha))[:, :, 0])
    logs = np.concatenate(logs)
    w = np.exp(logs - logs.max())
    mean = w @ np.concatenate(means) / w.sum()
    error = w.std() / np.sqrt(len(w)) / w.mean()
    return np.log(w.mean()) + logs.max(), error, w.sum() ** 2 / (w**2).sum(), mean


def nuts(inputs, depth, width, size):
    """Predictive means and variances of f by NUTS over all weights, with the largest R-hat of the means."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    jax.config.update("jax_enable_x64", True)
    X, y, X_test, _ = problem(inputs, size)

    def model():
        h, last = jnp.asarray(np.concatenate([X, X_test])) / np.sqrt(inputs), inputs
        for layer in range(depth - 1):
            W = numpyro.sample(f"W{layer}", dist.Normal(0, 1).expand([width, last]).to_event(2))
            h, last = np.sqrt(2 / width) * jax.nn.relu(h @ W.T), width
        w = numpyro.sample("w", dist.Normal(0, 1).expand([width]).to_event(1))
        f = numpyro.deterministic("f", h @ w)
        numpyro.sample("y", dist.Normal(f[: len(y)], NOISE), obs=y)

    kernel = numpyro.infer.NUTS(model, target_accept_prob=0.9)
    sampler = numpyro.infer.MCMC(
        kernel, num_warmup=1000, num_samples=2000, num_chains=4, chain_method="vectorized", progress_bar=False
    )
    sampler.run(jax.random.PRNGKey(0))
    f = np.asarray(sampler.get_samples(group_by_chain=True)["f"])[:, :, len(y) :]
    summary = numpyro.diagnostics.summary({"f": f}, group_by_chain=True)["f"]
    return (
        f.mean(axis=(0, 1)),
        f.var(axis=(0, 1)),
        float(summary["r_hat"].max()),
        float(summary["n_eff"].min()),
    )


def main(path):
    """Print the distances for every problem."""
    stored = np.load(path)
    for inputs, depth, width, size in PROBLEMS:
        name = f"{inputs}-{depth}-{width}-{size}"
        evidences = [float(stored[f"{name}/evidence/{k}"]) for k in range(RUNS)]
        mean = np.mean([stored[f"{name}/mean/{k}"] for k in range(RUNS)], axis=0)
        deviation = np.sqrt(np.mean([stored[f"{name}/variance/{k}"] for k in range(RUNS)], axis=0))
        value, error, effective, other = importance(inputs, depth, width, size, 400_000)
        print(
            f"{name}: tempered {np.mean(evidences):.3f} (range {np.ptp(evidences):.3f}), "
            f"prior draws {value:.3f} ± {error:.3f} ({effective:.0f} effective); "
            f"means differ by {np.abs((other - mean) / deviation).max():.3f} deviations at most",
            flush=True,
        )
        if width <= 5:
            other, variance, r_hat, effective = nuts(inputs, depth, width, size)
            print(
                f"    NUTS: means differ by {np.abs((other - mean) / deviation).max():.3f} deviations, "
                f"deviations by {np.abs(np.sqrt(variance) / deviation - 1).max():.3f}; "
                f"largest R-hat {r_hat:.3f}, fewest effective {effective:.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1])
