"""Signal and noise, each with a covariance of its own, against its peers.

    python benchmarks/free_noise.py null 10 --out results/free_noise_null.json
    python benchmarks/free_noise.py example 10 --out ...
    python benchmarks/free_noise.py signal 10 --out ...
    python benchmarks/free_noise.py heritability 5 --out ...
    python benchmarks/free_noise.py ranks 60 --out ...
    python benchmarks/free_noise.py referee 8 --out ...
    python benchmarks/free_noise.py cost 1 --out ...
    python -m benchmarks.free_noise twins_linnerud 60 --out ...

Seeds that are in the file already are not run again.

Peers: multi-trait GBLUP by maximum likelihood, the conjugate model (matrix normal, inverse Wishart), and a
fit of every output alone.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, special, stats

import lbnn
from lbnn.estimator import fitting

Array = np.ndarray


# ---------------------------------------------------------------------- data


def null_data(seed: int) -> tuple[Array, Array, Array, Array]:
    """Targets of 1 to 4 noise factors, independent of the inputs; flat and decaying spectra of the inputs."""
    rng = np.random.default_rng([27, seed])
    rows, outputs, factors = rng.integers(20, 61), rng.integers(4, 16 if seed % 3 else 36), rng.integers(1, 5)
    X = _inputs(rng, rows + 200, seed % 2 == 1)
    loadings = rng.normal(size=(factors, outputs)) / factors**0.5
    Y = 0.8 * rng.normal(size=(rows + 200, factors)) @ loadings + 0.6 * rng.normal(size=(rows + 200, outputs))
    return X[:rows], Y[:rows], X[rows:], Y[rows:]


def example_data(seed: int) -> tuple[Array, Array, Array, Array]:
    """Three noise factors in 30 rows of 12 outputs, independent of 100 inputs of a flat spectrum."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(230, 100))
    Y = 0.8 * rng.normal(size=(230, 3)) @ rng.normal(size=(3, 12)) / 3**0.5 + 0.6 * rng.normal(size=(230, 12))
    return X[:30], Y[:30], X[30:], Y[30:]


def signal_data(seed: int) -> tuple[Array, Array, Array, Array, Array]:
    """The same with a signal of one direction, of the size of one noise factor; and the noise covariance."""
    rng = np.random.default_rng([28, seed])
    rows, outputs, factors = rng.integers(20, 61), rng.integers(4, 13), rng.integers(1, 5)
    X = _inputs(rng, rows + 200, seed % 2 == 1)
    loadings = 0.8 * rng.normal(size=(factors, outputs)) / factors**0.5
    noise = rng.normal(size=(rows + 200, factors)) @ loadings + 0.6 * rng.normal(size=(rows + 200, outputs))
    function = X @ rng.normal(size=X.shape[1])
    Y = 0.6 * np.outer(function / function.std(), rng.normal(size=outputs)) + noise
    return X[:rows], Y[:rows], X[rows:], Y[rows:], loadings.T @ loadings + 0.36 * np.eye(outputs)


def _inputs(rng: np.random.Generator, rows: int, decaying: bool) -> Array:
    X = rng.normal(size=(rows, 100))
    return X / np.arange(1, 101) ** 0.7 if decaying else X


def heritability_data(seed: int) -> tuple[Array, Array, Array, Array, Array]:
    """Six traits of heritability 0.95 to 0.05, noise correlation 0.7, genetic correlation 0.5."""
    rng = np.random.default_rng([29, seed])
    X, shares = rng.normal(size=(320, 200)), np.linspace(0.95, 0.05, 6)
    signal = X @ (rng.normal(size=(200, 6)) @ np.linalg.cholesky(0.5 * np.eye(6) + 0.5).T) / 200**0.5
    noise = rng.normal(size=(320, 6)) @ np.linalg.cholesky(0.3 * np.eye(6) + 0.7).T
    Y = signal * np.sqrt(shares) + noise * np.sqrt(1 - shares)
    return X[:120], Y[:120], X[120:], Y[120:], shares


# ---------------------------------------------------------------------- peers


class GBLUP:
    """vec Y ~ N(1bᵀ, G ⊗ K + R ⊗ I) with unconstrained G and R by maximum likelihood."""

    def fit(self, X: Array, Y: Array) -> GBLUP:
        self.X, self.level, self.X_level = X, Y.mean(axis=0), X.mean(axis=0)
        centred = X - self.X_level
        kernel = centred @ centred.T / X.shape[1]
        self.values, self.vectors = (each[..., 1:] for each in np.linalg.eigh(kernel))  # without 1
        self.values = np.maximum(self.values, 0.0)
        self.targets = self.vectors.T @ (Y - self.level)
        outputs = Y.shape[1]
        lower = np.tril_indices(outputs)
        start = np.linalg.cholesky(np.cov(Y.T) / 2 + 1e-8 * np.eye(outputs))
        x = np.concatenate([start[lower] / math.sqrt(max(self.values.mean(), 1e-12)), start[lower]])
        best = optimize.minimize(
            self._negative, x, (lower, outputs), jac=True, method="L-BFGS-B", options={"maxiter": 500}
        )
        self.G, self.R = (_square(part, lower, outputs) for part in np.split(best.x, 2))
        return self

    def _negative(self, x: Array, lower: Any, outputs: int) -> tuple[float, Array]:
        roots = [np.zeros((outputs, outputs)) for _ in range(2)]
        for root, part in zip(roots, np.split(x, 2), strict=True):
            root[lower] = part
        G, R = (root @ root.T for root in roots)
        value, to_g, to_r = 0.0, np.zeros((outputs, outputs)), np.zeros((outputs, outputs))
        for g, row in zip(self.values, self.targets, strict=True):
            inverse = np.linalg.inv(g * G + R + 1e-10 * np.eye(outputs))
            fit = inverse @ row
            value += 0.5 * (row @ fit - np.linalg.slogdet(inverse)[1])
            slope = 0.5 * (inverse - np.outer(fit, fit))
            to_g, to_r = to_g + g * slope, to_r + slope
        slopes = [(2 * slope @ root)[lower] for slope, root in zip((to_g, to_r), roots, strict=True)]
        return value, np.concatenate(slopes)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Means and covariances of observations across outputs at each point."""
        cross = (X - self.X_level) @ (self.X - self.X_level).T / X.shape[1] @ self.vectors  # (p̂, r)
        own = ((X - self.X_level) ** 2).mean(axis=1)
        means, outputs = np.zeros((len(X), len(self.G))), len(self.G)
        covariances = own[:, None, None] * self.G + (1 + 1 / len(self.X)) * self.R
        for i, (g, row) in enumerate(zip(self.values, self.targets, strict=True)):
            gain = self.G @ np.linalg.inv(g * self.G + self.R + 1e-10 * np.eye(outputs))
            means += np.outer(cross[:, i], gain @ row)
            covariances -= (cross[:, i] ** 2)[:, None, None] * (gain @ self.G)
        return means + self.level, covariances

    def log_density(self, X: Array, Y: Array) -> Array:
        means, covariances = self.predict(X)
        return np.array(
            [
                stats.multivariate_normal(m, c, allow_singular=True).logpdf(y)
                for m, c, y in zip(means, covariances, Y, strict=True)
            ]
        )

    def shares(self) -> Array:
        signal = self.values.mean() * np.diag(self.G)
        return signal / (signal + np.diag(self.R))


def _square(part: Array, lower: Any, outputs: int) -> Array:
    root = np.zeros((outputs, outputs))
    root[lower] = part
    return root @ root.T


class Conjugate:
    """Y | B, Σ ~ MN(1bᵀ + XB, I, Σ), B | Σ ~ MN(0, κ I, Σ), Σ inverse Wishart; κ by evidence."""

    def fit(self, X: Array, Y: Array) -> Conjugate:
        self.X_level, self.level = X.mean(axis=0), Y.mean(axis=0)
        centred, targets = X - self.X_level, Y - self.level
        rows, self.outputs = Y.shape
        self.U, self.sizes, self.V = np.linalg.svd(centred, full_matrices=False)
        prior, self.degrees0 = np.diag(targets.var(axis=0)), self.outputs + 2.0

        def scatter(log_kappa: float) -> tuple[Array, Array]:
            g = math.exp(log_kappa) * self.sizes**2
            z = self.U.T @ targets
            return targets.T @ targets - z.T @ (z * (g / (1 + g))[:, None]), g

        def negative(log_kappa: float) -> float:
            left, g = scatter(log_kappa)
            degrees = self.degrees0 + rows - 1
            return 0.5 * (self.outputs * np.log1p(g).sum() + degrees * np.linalg.slogdet(prior + left)[1])

        found = optimize.minimize_scalar(negative, bounds=(-20, 10), method="bounded").x
        left, g = scatter(found)
        self.kappa, self.g, self.rows = math.exp(found), g, rows
        self.psi, self.degrees = prior + left, self.degrees0 + rows - 1
        self.B = self.V.T @ ((self.kappa * self.sizes / (1 + g))[:, None] * (self.U.T @ targets))
        return self

    def predict(self, X: Array) -> Array:
        return (X - self.X_level) @ self.B + self.level

    def log_density(self, X: Array, Y: Array) -> Array:
        along = (X - self.X_level) @ self.V.T
        own = self.kappa * (((X - self.X_level) ** 2).sum(axis=1) - along**2 @ (self.g / (1 + self.g)))
        degrees = self.degrees - self.outputs + 1
        means = self.predict(X)
        return np.array(
            [
                stats.multivariate_t(m, (1 + 1 / self.rows + v) * self.psi / degrees, df=degrees).logpdf(y)
                for m, v, y in zip(means, own, Y, strict=True)
            ]
        )


# ---------------------------------------------------------------------- studies


def null(seed: int) -> dict[str, Any]:
    """The default fit of data without signal."""
    X, Y, X_test, Y_test = null_data(seed)
    return _of_fit(X, Y, X_test, Y_test) | {"rows": len(X), "outputs": Y.shape[1]}


def example(seed: int) -> dict[str, Any]:
    """The same for the data of `example_data`."""
    return _of_fit(*example_data(seed))


def signal(seed: int) -> dict[str, Any]:
    """The default fit of data with signal, and that of an oracle who knows Σ."""
    X, Y, X_test, Y_test, noise = signal_data(seed)
    white = np.linalg.inv(np.linalg.cholesky(noise)).T
    oracle = lbnn.LBNNRegressor(noise="independent").fit(X, Y @ white)
    lead = _lead(oracle)
    result = _of_fit(X, Y, X_test, Y_test) | {"rows": len(X), "outputs": Y.shape[1], "oracle_lead": lead}
    back = np.linalg.inv(white)
    result["oracle_r2"] = _r2(Y_test, oracle.predict(X_test) @ back, Y.mean(axis=0))
    return result


def _of_fit(X: Array, Y: Array, X_test: Array, Y_test: Array) -> dict[str, Any]:
    began = time.process_time()
    model = lbnn.LBNNRegressor().fit(X, Y)
    return {
        "noise": model.noise_,
        "signal": bool(model.evidence_table_[0]["signal"]),
        "lead": _lead(model),
        "train_r2": _r2(Y, model.predict(X), Y.mean(axis=0)),
        "test_r2": _r2(Y_test, model.predict(X_test), Y.mean(axis=0)),
        "messages": list(model.messages_),
        "cpu_s": time.process_time() - began,
    }


def _lead(model: Any) -> float:
    """Nats by which the best candidate with signal leads the best one without, whatever their noise."""
    best = {
        flag: max(
            (row["log_evidence"] - row["penalty"] for row in model.evidence_table_ if row["signal"] is flag),
            default=-math.inf,
        )
        for flag in (True, False)
    }
    return best[True] - best[False]


def _r2(Y: Array, mean: Array, level: Array) -> float:
    """Beside the mean of the training rows, averaged over outputs."""
    return float(1 - (((Y - mean) ** 2).sum(axis=0) / ((Y - level) ** 2).sum(axis=0)).mean())


def heritability(seed: int) -> dict[str, Any]:
    """Errors, densities and shares of the signal, beside the peers."""
    X, Y, X_test, Y_test, shares = heritability_data(seed)
    size = Y_test.std(axis=0)
    began = time.process_time()
    free = lbnn.LBNNRegressor(noise="free").fit(X, Y)
    seconds = time.process_time() - began
    alone = [lbnn.LBNNRegressor().fit(X, Y[:, j]) for j in range(6)]
    gblup, conjugate = GBLUP().fit(X, Y), Conjugate().fit(X, Y)
    means = {
        "free": free.predict(X_test),
        "alone": np.column_stack([each.predict(X_test) for each in alone]),
        "gblup": gblup.predict(X_test)[0],
        "conjugate": conjugate.predict(X_test),
    }
    densities = {
        "free": free.predictive(X_test).with_noise().pointwise_log_density(Y_test),
        "alone": sum(
            each.predictive(X_test).with_noise().pointwise_log_density(Y_test[:, j])
            for j, each in enumerate(alone)
        ),
        "gblup": gblup.log_density(X_test, Y_test),
        "conjugate": conjugate.log_density(X_test, Y_test),
    }
    low, high = free.signal_share_interval_.T
    return {
        "error": {
            name: float((np.sqrt(((Y_test - mean) ** 2).mean(axis=0)) / size).mean())
            for name, mean in means.items()
        },
        "log_density": {name: float(np.mean(value)) for name, value in densities.items()},
        "shares": free.signal_share_.tolist(),
        "gblup_shares": gblup.shares().tolist(),
        "covered": ((low <= shares) & (shares <= high)).tolist(),
        "coverage_90": _joint_coverage(free.predictive(X_test).with_noise(), Y_test),
        "messages": list(free.messages_),
        "cpu_s": seconds,
    }


def _joint_coverage(law: Any, Y: Array) -> float:
    """Rows inside the ellipsoid that holds 0.9 of a Gaussian with the predictive's moments."""
    deviation = Y - law.mean
    squares = np.einsum("mj,mjk,mk->m", deviation, np.linalg.inv(law.output_covariance), deviation)
    return float((squares <= stats.chi2(Y.shape[1]).ppf(0.9)).mean())


def ranks(seed: int) -> dict[str, Any]:
    """Ranks of true covariances among draws, for data of the prior (uniform if the posterior is right)."""
    rng = np.random.default_rng([30, seed])
    X, beta = rng.normal(size=(12, 8)), 2.0
    network, noise = lbnn.Network((2,)), lbnn.Network((1,))
    L, L2 = network.scale_prior(2).sample(1, rng)[0], noise.scale_prior(2).sample(1, rng)[0]
    values, vectors = np.linalg.eigh(L)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    F = X @ rng.normal(size=(8, 2)) @ root.T / 8**0.5
    own = np.linalg.cholesky(L2 + np.eye(2) / beta)
    Y = F + rng.normal(size=(12, 2)) @ own.T
    post = network.condition(X, Y, beta=beta, noise="free", noise_network=noise, target_error=0.2, seed=seed)
    draws = post.draws
    truth = {
        "signal_00": L[0, 0],
        "signal_01": L[0, 1],
        "noise_00": (own @ own.T)[0, 0],
        "noise_01": (own @ own.T)[0, 1],
        "log_det_noise": np.linalg.slogdet(own @ own.T)[1],
    }
    seen = {
        "signal_00": draws.signal[:, 0, 0],
        "signal_01": draws.signal[:, 0, 1],
        "noise_00": draws.noise[:, 0, 0],
        "noise_01": draws.noise[:, 0, 1],
        "log_det_noise": 2 * draws.log_volumes,
    }
    return {name: float(draws.weights @ (seen[name] < truth[name])) for name in truth}


def referee(seed: int) -> dict[str, Any]:
    """Two outputs: log evidence and means by four million draws of both priors, with the dense likelihood."""
    rng = np.random.default_rng([31, seed])
    rows, beta = int(rng.integers(5, 13)), float(rng.uniform(1, 6))
    X, Y = rng.normal(size=(rows, 6)), rng.standard_t(4, size=(rows, 2)) @ rng.normal(size=(2, 2))
    network, noise = lbnn.Network((int(rng.integers(1, 6)),)), lbnn.Network((int(rng.integers(1, 4)),))
    post = network.condition(X, Y, beta=beta, noise="free", noise_network=noise, target_error=0.05, seed=seed)
    values, vectors = np.linalg.eigh(X @ X.T / 6)
    values, rotated = np.maximum(values, 0.0), vectors.T @ Y
    logs, sums = [], []
    for block in range(40):
        count = 100_000
        L = network.scale_prior(2).sample(count, [seed, block, 1][0] * 1000 + block)
        S = noise.scale_prior(2).sample(count, 10**6 + seed * 1000 + block) + np.eye(2) / beta
        log = np.zeros(count)
        for g, row in zip(values, rotated, strict=True):
            a, b, c = (g * L + S)[:, 0, 0], (g * L + S)[:, 0, 1], (g * L + S)[:, 1, 1]
            det = a * c - b * b
            fit = (c * row[0] ** 2 - 2 * b * row[0] * row[1] + a * row[1] ** 2) / det
            log -= 0.5 * (np.log(det) + fit + 2 * math.log(2 * math.pi))
        top = special.logsumexp(log)
        weights = np.exp(log - top)
        logs.append(top - math.log(count))
        sums.append((weights @ L[:, 0, 0], weights @ S[:, 0, 1]))
    shares = special.softmax(logs)
    total = special.logsumexp(logs) - math.log(len(logs))
    error = float(np.std(np.exp(np.array(logs) - total), ddof=1) / math.sqrt(len(logs)))
    means = shares @ np.array(sums)
    spread = np.sqrt(len(logs)) * np.std(shares[:, None] * (np.array(sums) - means), axis=0, ddof=1)
    found = post.signal_covariance[0, 0], post.noise_covariance[0, 1]
    return {
        "rows": rows,
        "widths": [network.widths[0], noise.widths[0]],
        "ok": post.diagnostics.ok,
        "log_evidence": post.log_evidence,
        "error": post.log_evidence_error,
        "truth": float(total),
        "truth_error": error,
        "z": float((post.log_evidence - total) / math.hypot(error, post.log_evidence_error)),
        "means": [float(each) for each in found],
        "true_means": means.tolist(),
        "true_mean_errors": spread.tolist(),
    }


def cost(seed: int) -> dict[str, Any]:
    """CPU seconds of the default fit with and without the candidate of free noise."""
    result, tried = {}, fitting.may_be_free
    for rows, outputs in ((30, 12), (50, 10), (120, 35)):
        rng = np.random.default_rng([32, seed])
        X = rng.normal(size=(rows, 60))
        noise = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, outputs))
        Y = X[:, :3] @ rng.normal(size=(3, outputs)) + noise + rng.normal(size=(rows, outputs))
        for kind, rule in (("with", tried), ("without", lambda *_: False)):
            fitting.may_be_free = rule
            began = time.process_time()
            lbnn.LBNNRegressor().fit(X, Y)
            result[f"{rows} x {outputs}, {kind}"] = time.process_time() - began
    fitting.may_be_free = tried
    return result


def twins(name: str, seed: int) -> dict[str, Any]:
    """Joint coverage on Gaussian data like a set of the study of real data, on the study's split.

    Targets are drawn from the predictive of the default fit to all rows, at these rows; for cells, whose
    2,019 rows are too many for that, they are least squares and Gaussian errors with the covariance of its
    residuals.
    """
    from benchmarks.real_data import datasets, further, metrics, study

    data = getattr(datasets, name)()
    like = further.gaussian_twin(data, seed) if name == "cells" else replace(data, targets=_drawn(name)[seed])
    X, Y, X_test, Y_test = like.split(seed)
    model = lbnn.LBNNRegressor()
    law = study.forecast(model, X, Y, X_test)
    found = {key: value for key, value in metrics.measures(law, Y_test).items() if key.startswith("covers")}
    return found | {"noise": model.noise_, "signal": bool(model.evidence_table_[0]["signal"])}


@lru_cache(maxsize=1)
def _drawn(name: str) -> Array:
    """Targets (200, p, n_d) from the predictive of the default fit to a set."""
    from benchmarks.real_data import datasets

    data = getattr(datasets, name)()
    X, Y = (datasets.standardised(values, values)[0] for values in (data.inputs, data.targets))
    draws = lbnn.LBNNRegressor().fit(X, Y).predictive(X).with_noise().sample(200, 1)
    return np.reshape(draws, (200, *Y.shape))


STUDIES: dict[str, Callable[[int], dict[str, Any]]] = {
    "null": null,
    "example": example,
    "signal": signal,
    "heritability": heritability,
    "ranks": ranks,
    "referee": referee,
    "cost": cost,
    **{f"twins_{name}": partial(twins, name) for name in ("linnerud", "fermentation", "nutrimouse", "cells")},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = json.loads(options.out.read_text())["results"] if options.out.exists() else []
    known = {row["seed"] for row in rows}
    for seed in range(options.first, options.first + options.count):
        if seed in known:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows.append({"seed": seed} | STUDIES[options.study](seed))
        print(json.dumps(rows[-1]), flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        command = f"python benchmarks/free_noise.py {options.study} {options.count} --first {options.first}"
        options.out.write_text(json.dumps({"command": command, "results": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
