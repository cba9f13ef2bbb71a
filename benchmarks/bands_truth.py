"""Bands against importance sampling with dense algebra, on targets that are not drawn from the prior.

    python -m benchmarks.bands_truth --bands 3 4 --problems 39 --out bands-truth.json

Signal-to-noise ratios from 0.001 to 10,000 and without noise, one band tiny, two bands nearly equal, targets
times 0.01, 30 and a million, outliers, 3 to 60 examples. The reference shares no code with lbnn: Gamma
densities, Cholesky factors of τ I + Σ_k λ_k G_k, and draws of (log λ_1, …, log λ_K, log τ) from a mixture of
Student's t that is fitted to the posterior, raised to powers that grow to one. Its errors are those of eight
independent sets of draws. Every difference is in units of the stated and the reference's error together.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Array = NDArray[np.float64]

KINDS = (
    "ratio 0.001",
    "ratio 1",
    "ratio 100, one band",
    "ratio 10,000",
    "no noise",
    "no signal",
    "a tiny band",
    "two bands nearly equal",
    "targets times 1e6",
    "targets times 30",
    "targets times 0.01",
    "few columns",
    "outliers",
)
_REPLICATES = 8
_COMPONENTS = 6
_FREEDOM = 5.0


def problem(bands: int, number: int) -> dict[str, Any]:
    """Blocks with three new rows, a target, widths; every thirteenth problem is of the same kind."""
    rng = np.random.default_rng([bands, number])
    kind = KINDS[number % len(KINDS)]
    p = int(rng.choice([3, 5, 8, 12, 20, 30, 45, 60]))
    columns = rng.integers(max(2, p // 2), 2 * p + 2, bands)
    if kind == "few columns":
        p, columns = max(p, 12), rng.integers(1, 4, bands)
    if kind == "no noise":  # the inputs span everything: otherwise the density of the data is not bounded
        columns = rng.integers(p, 2 * p + 2, bands)
    blocks = [rng.normal(size=(p + 3, each)) * rng.gamma(1.0, size=each) for each in columns]
    if kind == "two bands nearly equal":
        blocks[1] = blocks[0] + 0.03 * rng.normal(size=blocks[0].shape)
    parts = rng.dirichlet(np.full(bands, 0.7))
    if kind == "ratio 100, one band":
        parts = np.eye(bands)[rng.integers(bands)]
    signal = np.zeros(p + 3)
    for block, part in zip(blocks, parts, strict=True):
        own = block @ rng.normal(size=block.shape[1])
        signal += np.sqrt(part / np.mean(own[:p] ** 2)) * own
    ratio = {
        "ratio 0.001": 1e-3,
        "ratio 1": 1.0,
        "ratio 100, one band": 100.0,
        "ratio 10,000": 1e4,
        "no noise": np.inf,
        "no signal": 0.0,
        "few columns": 30.0,
    }.get(kind, 10.0 ** rng.uniform(-1, 2))
    noise = rng.standard_cauchy(p) if kind == "outliers" else rng.normal(size=p)
    y = (signal[:p] if ratio else 0.0) + (0.0 if np.isinf(ratio) else noise / np.sqrt(ratio or 1.0))
    if kind == "a tiny band":
        blocks[-1] = 1e-3 * blocks[-1]
    if kind.startswith("targets times"):
        y = float(kind.split()[-1]) * y
    widths = [int(each) for each in rng.choice([1, 2, 3, 5, 10], bands)]
    return {
        "kind": kind,
        "p": p,
        "y": y,
        "widths": widths,
        "old": [block[:p] for block in blocks],
        "new": [block[p:] for block in blocks],
    }


# ------------------------------------------------------------------ the reference


class Reference:
    """The posterior of x = (log λ_1, …, log λ_K, log τ) for one target."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.y, self.widths, self.p = data["y"], np.array(data["widths"]), data["p"]
        old, new = data["old"], data["new"]
        self.grams = np.stack([each @ each.T / each.shape[1] for each in old])
        self.cross = np.stack([a @ b.T / b.shape[1] for a, b in zip(new, old, strict=True)])
        self.own = np.stack([(each**2).mean(axis=1) for each in new])
        self.unit = float(self.y @ self.y / self.p)
        self.sizes = np.trace(self.grams, axis1=1, axis2=2) / self.p

    def prior_draws(self, count: int, rng: np.random.Generator) -> Array:
        scales = np.log(rng.gamma(self.widths / 2, 2 / self.widths, (count, len(self.widths))) + 1e-300)
        noise = np.log(self.unit) + 2 * np.log(np.abs(rng.standard_cauchy(count)) + 1e-300)
        return np.column_stack([scales, noise])

    def log_prior(self, x: Array) -> Array:
        """Of log λ_k, λ_k = χ²(n)/n, and of log τ with √τ half-Cauchy, (n,)."""
        half = self.widths / 2
        z = x[:, :-1] + np.log(half)
        t = (x[:, -1] - np.log(self.unit)) / 2
        scales = half * z - np.exp(np.minimum(z, 700.0)) - special.gammaln(half)
        return np.asarray(scales.sum(axis=1) - np.log(np.pi) - np.logaddexp(t, -t))

    def log_likelihood(self, x: Array) -> Array:
        """(n,): the Cholesky factor of [[C, y], [yᵀ, large]] has L⁻¹ y in its last row."""
        found = np.empty(len(x))
        for part in np.array_split(np.arange(len(x)), max(1, len(x) * self.p**2 // 2_000_000)):
            full = np.zeros((len(part), self.p + 1, self.p + 1))
            full[:, :-1, :-1] = self.covariances(x[part])
            full[:, -1, :-1] = self.y
            full[:, -1, -1] = 1e300
            root = np.linalg.cholesky(full)
            logs = np.log(np.diagonal(root, axis1=1, axis2=2)[:, :-1]).sum(axis=1)
            found[part] = -logs - 0.5 * (root[:, -1, :-1] ** 2).sum(axis=1)
        return found - 0.5 * self.p * np.log(2 * np.pi)

    def covariances(self, x: Array) -> Array:
        total = np.tensordot(np.exp(x[:, :-1]), self.grams, axes=1)
        # rounding of the kernels would make a covariance without noise indefinite
        noise = np.exp(x[:, -1]) + 1e-14 * np.trace(total, axis1=1, axis2=2)
        total[:, np.arange(self.p), np.arange(self.p)] += noise[:, None]
        return total

    def answers(
        self, count: int, predicted: int, seed: int
    ) -> list[tuple[Array, Array, float, Array, Array]]:
        """Draws, weights, log evidence, and means and variances of new values of sets of draws."""
        rng = np.random.default_rng(seed)
        x, mixture, power = self.prior_draws(4000, rng), None, 0.0
        prior, likelihood = self.log_prior(x), self.log_likelihood(x)
        proposed, after = prior, 0
        while after < 4:
            # the largest power with enough effective draws
            low, high = power, 1.0
            if _effective(prior + likelihood - proposed) < 300:
                for _ in range(30):
                    middle = (low + high) / 2
                    many = _effective(prior + middle * likelihood - proposed) > 300
                    low, high = (middle, high) if many else (low, middle)
                high = max(low, power + 1e-12)
            power = high
            after += power == 1.0
            weights = _normalised(prior + power * likelihood - proposed)
            mixture = _fitted(x, weights, rng)
            x = _drawn(mixture, 4000, rng)
            prior, likelihood, proposed = self.log_prior(x), self.log_likelihood(x), _density(mixture, x)
        found = []
        for _ in range(_REPLICATES):
            x = _drawn(mixture, count, rng)
            logs = self.log_prior(x) + self.log_likelihood(x) - _density(mixture, x)
            weights = _normalised(logs)
            evidence = float(special.logsumexp(logs) - np.log(count))
            chosen = rng.choice(count, predicted, p=weights)
            found.append((x, weights, evidence, *self.predictions(x[chosen])))
        return found

    def predictions(self, x: Array) -> tuple[Array, Array]:
        """Means and variances (draws, m) of the function at new inputs."""
        scales = np.exp(x[:, :-1])
        there = np.tensordot(scales, self.cross, axes=1)
        right = np.concatenate([np.broadcast_to(self.y, (len(x), 1, self.p)), there], axis=1)
        solved = np.linalg.solve(self.covariances(x), np.swapaxes(right, 1, 2))
        explained = np.einsum("smp,spm->sm", there, solved[:, :, 1:])
        return np.einsum("smp,sp->sm", there, solved[:, :, 0]), scales @ self.own - explained


def _effective(logs: Array) -> float:
    weights = _normalised(logs)
    return float(1 / (weights**2).sum())


def _normalised(logs: Array) -> Array:
    return np.asarray(np.exp(logs - special.logsumexp(logs)))


def _fitted(x: Array, weights: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Weights, centres and scale matrices of a mixture, by expectation maximisation; the last is wide."""
    mean = weights @ x
    whole = np.einsum("s,si,sj->ij", weights, x - mean, x - mean) + 1e-6 * np.eye(x.shape[1])
    centres = x[rng.choice(len(x), _COMPONENTS, p=weights)]
    matrices, parts = np.tile(whole, (_COMPONENTS, 1, 1)), np.full(_COMPONENTS, 1 / _COMPONENTS)
    for _ in range(25):
        logs = np.stack(
            [
                np.log(part) + stats.multivariate_normal.logpdf(x, centre, matrix)
                for part, centre, matrix in zip(parts, centres, matrices, strict=True)
            ]
        )
        own = weights * np.exp(logs - special.logsumexp(logs, axis=0))
        totals = own.sum(axis=1) + 1e-12
        parts, centres = totals / totals.sum(), own @ x / totals[:, None]
        for k in range(_COMPONENTS):
            off = x - centres[k]
            matrices[k] = (own[k, :, None] * off).T @ off / totals[k] + 0.02 * whole
    return (
        np.append(0.85 * parts, 0.15),
        np.vstack([centres, mean]),
        np.concatenate([1.2 * matrices, 3 * whole[None]]),
    )


def _drawn(mixture: tuple[Array, Array, Array], count: int, rng: np.random.Generator) -> Array:
    parts, centres, matrices = mixture
    size = centres.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # counts need not be powers of two
        uniform = stats.qmc.Sobol(size + 2, rng=rng).random(count)
    which = np.searchsorted(np.cumsum(parts)[:-1], uniform[:, 0])
    tiny = np.finfo(float).eps
    normal = special.ndtri(np.clip(uniform[:, 1:-1], tiny, 1 - tiny))
    stretch = np.sqrt(_FREEDOM / stats.chi2(_FREEDOM).ppf(np.clip(uniform[:, -1], 1e-9, 1 - tiny)))
    roots = np.linalg.cholesky(matrices)
    return np.asarray(centres[which] + stretch[:, None] * np.einsum("sij,sj->si", roots[which], normal))


def _density(mixture: tuple[Array, Array, Array], x: Array) -> Array:
    logs = [
        np.log(part) + stats.multivariate_t.logpdf(x, centre, matrix, _FREEDOM)
        for part, centre, matrix in zip(*mixture, strict=True)
    ]
    return np.asarray(special.logsumexp(logs, axis=0))


# ------------------------------------------------------------------ the comparison


def _mean_and_error(values: Any) -> tuple[Array, Array]:
    """Of independent sets, (sets, ...)."""
    listed = np.asarray(values, float)
    return listed.mean(axis=0), listed.std(axis=0, ddof=1) / np.sqrt(len(listed))


def compare(bands: int, number: int, target_error: float, count: int) -> dict[str, Any]:
    import lbnn

    data = problem(bands, number)
    started = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", lbnn.AccuracyWarning)
        networks = [lbnn.Network((width,)) for width in data["widths"]]
        fit = lbnn.Bands(networks).condition(data["old"], data["y"], target_error=target_error)
        law = fit.predict(data["new"])
        ends = np.array([law.quantile(q)[:, 0] for q in (0.025, 0.975)])
        deviation = law.standard_deviation[:, 0]
    seconds = time.process_time() - started
    reference = Reference(data)
    sets = reference.answers(count, max(count // 4, 500), number)
    reference_seconds = time.process_time() - started - seconds

    evidence, evidence_error = _mean_and_error([each[2] for each in sets])

    def shares(x: Array) -> Array:
        scales = np.exp(x[:, :-1]) * reference.sizes
        return np.asarray(scales / (np.exp(x[:, -1]) + scales.sum(axis=1))[:, None])

    share, share_error = _mean_and_error([weights @ shares(x) for x, weights, *_ in sets])
    share_ends = fit.share_quantile([0.05, 0.95])[0]  # (K, 2)
    below, below_error = _mean_and_error(
        [
            [weights @ (shares(x) <= end) for end in share_ends.T]  # a share is never above
            for x, weights, *_ in sets
        ]
    )
    mean, mean_error = _mean_and_error([means.mean(axis=0) for *_, means, _ in sets])
    middle = mean
    spread, spread_error = _mean_and_error(
        [np.sqrt((variances + (means - middle) ** 2).mean(axis=0)) for *_, means, variances in sets]
    )
    under, under_error = _mean_and_error(
        [
            [
                special.ndtr((end - means) / np.sqrt(np.maximum(variances, 1e-300))).mean(axis=0)
                for end in ends
            ]
            for *_, means, variances in sets
        ]
    )

    def far(difference: Any, stated: Any, other: Any) -> float:
        return float(np.max(np.abs(difference) / np.hypot(stated, other)))

    weights = np.concatenate([each[1] for each in sets]) / len(sets)
    tails = np.array([[0.025], [0.975]])
    return {
        "bands": bands,
        "problem": number,
        "kind": data["kind"],
        "p": data["p"],
        "ok": bool(fit.ok[0]),
        "directions": int(fit.directions),
        "warnings": [str(each.message) for each in caught],
        "CPU seconds": seconds,
        "reference: CPU seconds": reference_seconds,
        "reference: effective draws": float(1 / (weights**2).sum()),
        "log evidence": float(fit.log_evidence[0]),
        "log evidence, stated error": float(fit.log_evidence_error[0]),
        "log evidence, difference": float(fit.log_evidence[0] - evidence),
        "log evidence, reference's error": float(evidence_error),
        "differences in errors": {
            "log evidence": far(fit.log_evidence[0] - evidence, fit.log_evidence_error[0], evidence_error),
            "shares": far(fit.share_mean[0] - share, fit.share_error[0] + 1e-9, share_error),
            "predictive mean": far(law.mean[:, 0] - mean, law.mean_error[:, 0], mean_error),
            "predictive deviation": far(deviation - spread, law.standard_deviation_error[:, 0], spread_error),
        },
        "shares, largest difference in deviations": float(
            np.max(np.abs(fit.share_mean[0] - share) / fit.share_deviation[0])
        ),
        "predictive mean, largest difference in deviations": float(
            np.max(np.abs(law.mean[:, 0] - mean) / spread)
        ),
        "predictive deviation, largest relative difference": float(np.max(np.abs(deviation / spread - 1))),
        "ends of 95% intervals of predictions, largest difference of probability": float(
            np.max(np.abs(under - tails))
        ),
        "the reference's error of these": float(under_error.max()),
        "ends of 90% intervals of shares, largest difference of probability": float(
            np.max(np.abs(below - np.array([[0.05], [0.95]])))
        ),
        "and of these": float(below_error.max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bands", type=int, nargs="+", default=[3, 4])
    parser.add_argument("--problems", type=int, default=39)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--target-error", type=float, default=0.05)
    parser.add_argument("--draws", type=int, default=4096, help="of each of eight sets")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = []
    for bands in given.bands:
        for number in range(given.first, given.first + given.problems):
            if KINDS[number % len(KINDS)] not in given.kinds:
                continue
            found.append(compare(bands, number, given.target_error, given.draws))
            print(json.dumps(found[-1]), flush=True)
            if given.out:
                given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
