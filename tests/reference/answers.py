"""Answers of the library at full precision, stored before code moves and compared after.

    OPENBLAS_NUM_THREADS=1 python tests/reference/answers.py write tests/reference/answers.json
    OPENBLAS_NUM_THREADS=1 python tests/reference/answers.py compare tests/reference/answers.json

Only public names are used, so that the same script runs on either side of a move. Deterministic answers must
agree to 1e-13 of the answer's largest entry, sampled ones exactly; both on the same machine with the same
versions of NumPy and SciPy and with one BLAS thread, since the order of sums depends on their number.
These are not reference values: that an answer is right is said elsewhere; here only that it has not changed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
    sys.exit("answers.py needs OPENBLAS_NUM_THREADS=1: sums depend on the number of threads")

import numpy as np
import pandas as pd
from scipy import stats
from typer.testing import CliRunner

import lbnn
from lbnn.cli.app import app
from lbnn.cross_validation import left_out_scores

TOLERANCE = 1e-13  # of the largest entry of a deterministic answer
FIXED, DRAWN = "deterministic", "sampled"
INF = math.inf

Answer = tuple[str, str, Any]  # name, kind, value


def data(p: int, n0: int, outputs: int | None, seed: int) -> tuple[Any, Any, Any]:
    """Noisy linear data and three test inputs."""
    rng = np.random.default_rng(seed)
    X, X_test = rng.standard_normal((p, n0)), rng.standard_normal((3, n0))
    channels = () if outputs is None else (outputs,)
    Y = X @ rng.standard_normal((n0, *channels)) / math.sqrt(n0)
    return X, Y + 0.3 * rng.standard_normal((p, *channels)), X_test


def with_grams(method: Callable[..., Any], cross: Any, test: Any, **other: Any) -> Any:
    """Test points by their Gram matrices, by name where the library knows the names."""
    try:
        return method(cross_gram=cross, test_gram=test, **other)
    except TypeError:
        return method(cross, test, **other)


def or_nan(method: Callable[[Any], float], argument: Any) -> float:
    """NaN where the library refuses: that is an answer, too."""
    try:
        return method(argument)
    except ValueError:
        return math.nan


# ---------------------------------------------------------------------- networks


def posteriors() -> Iterator[tuple[str, str, lbnn.Posterior, Any, Any]]:
    """Every engine and temperature: name, kind, posterior, targets, test inputs."""
    cases = [
        ("atom", FIXED, (), None, 3.0, "auto", (8, 5)),
        ("atom, three outputs, zero temperature", FIXED, (), 3, INF, "auto", (5, 9)),
        ("quadrature, depth two", FIXED, (7,), None, 4.0, "auto", (8, 5)),
        ("quadrature, depth four, narrow", FIXED, (3, 2, 4), None, 30.0, "auto", (6, 10)),
        ("quadrature, zero temperature", FIXED, (9, 6), None, INF, "auto", (5, 8)),
        ("quadrature, infinite temperature", FIXED, (4,), None, 0.0, "auto", (6, 4)),
        ("importance, depth two", DRAWN, (6,), 2, 5.0, "importance", (10, 4)),
        ("importance, depth three", DRAWN, (8, 7), 3, 3.0, "importance", (9, 6)),
        ("importance, infinite temperature", DRAWN, (6,), 2, 0.0, "auto", (6, 5)),
        ("importance, zero temperature", DRAWN, (9,), 2, INF, "importance", (5, 8)),
        ("smc, depth two", DRAWN, (4,), 2, 20.0, "smc", (12, 5)),
        ("smc, zero temperature", DRAWN, (8,), 2, INF, "smc", (5, 9)),
        ("dual", DRAWN, (6,), 5, 4.0, "dual", (3, 6)),
        ("dual, zero temperature, narrow", DRAWN, (3,), 5, INF, "dual", (3, 6)),
    ]
    for seed, (name, kind, widths, outputs, beta, engine, sizes) in enumerate(cases):
        X, Y, X_test = data(*sizes, outputs, seed)
        net = lbnn.Network(widths, prior_variances=[1.0 + 0.1 * layer for layer in range(len(widths) + 1)])
        yield name, kind, net.condition(X, Y, beta, engine=engine, target_error=0.2, seed=seed), Y, X_test
    X, Y, X_test = data(4, 7, 2, 50)
    Y[:, 1] = 2 * Y[:, 0]  # rank one
    net = lbnn.Network((12,))
    yield "deficient, zero temperature", DRAWN, net.condition(X, Y, INF, target_error=0.2), Y, X_test


def of_posterior(name: str, kind: str, post: lbnn.Posterior, Y: Any, X_test: Any) -> Iterator[Answer]:
    scale = post.scale
    yield f"{name}: evidence", kind, [post.log_evidence, post.log_evidence_error]
    yield f"{name}: scale", kind, [scale.mean, scale.inverse_mean, scale.effective_sample_size]
    yield f"{name}: atoms", kind, [scale.atoms[:3], scale.atoms[-3:], scale.weights[:3], scale.weights[-3:]]
    yield f"{name}: scale draws", DRAWN, scale.sample(4, 3)
    if len(post.prior.widths):
        for layer in range(1, len(post.prior.widths) + 1):
            kernels = [post.feature_kernel(layer=layer), post.feature_kernel(X_test, layer=layer)]
            yield f"{name}: kernel of layer {layer}", kind, kernels
    yield f"{name}: weights", DRAWN, post.sample_weights(2, 11)
    predictives = {"": post.predict(X_test)}
    noise = getattr(post.noise, "variance", post.noise)  # a number before noise became an object
    if math.isfinite(noise):
        predictives[", observed"] = predictives[""].with_noise()
    for label, pred in predictives.items():
        yield f"{name}: mean{label}", kind, [pred.mean, pred.variance]
        yield f"{name}: covariance{label}", kind, [pred.covariance, pred.output_covariance]
        yield f"{name}: density{label}", kind, or_nan(pred.log_density, pred.mean + 0.1)
        yield f"{name}: quantile{label}", kind, [pred.quantile(0.1), pred.quantile(0.7), *pred.interval(0.9)]
        source = np.full(np.shape(pred.mean), 0.05)
        yield f"{name}: mgf{label}", kind, [or_nan(pred.mgf, source), or_nan(pred.cgf, -source)]
        value = pred.characteristic(3 * source)
        yield f"{name}: characteristic{label}", kind, [value.real, value.imag]
        yield f"{name}: draws{label}", DRAWN, pred.sample(3, 5)
    yield f"{name}: at training points", kind, [post.predict().mean, post.predict().variance]
    if 0 < noise < INF and post.diagnostics.engine in ("atom", "quadrature", "importance", "smc"):
        scores = left_out_scores(post, Y)
        left_out = [scores.mean, scores.variance, scores.log_density, scores.pareto_k]
        yield f"{name}: leave one out", kind, left_out
    again = lbnn.Posterior._unpacked(*post._packed())
    yield (
        f"{name}: archive",
        kind,
        [again.log_evidence, again.scale.mean, again.predict(X_test).mean, again.predict(X_test).variance],
    )


def networks() -> Iterator[Answer]:
    for each in posteriors():
        yield from of_posterior(*each)
    yield from grams()
    yield from priors()
    yield from noises()


def noises() -> Iterator[Answer]:
    """Noise that is not the same for all outputs; observations of coupled noise were wrong before."""
    X, Y, X_test = data(9, 5, 2, 65)
    for name, kind, beta, outputs in (
        ("per output", "per_output", [0.5, 6.0], Y),
        ("coupled", "coupled", 3.0, Y),
        ("coupled, one output", "coupled", 3.0, Y[:, 0]),
    ):
        post = lbnn.Network((6,)).condition(X, outputs, beta, noise=kind, target_error=0.2)
        how, pred = (FIXED if outputs.ndim == 1 else DRAWN), post.predict(X_test).with_noise()
        yield f"noise, {name}: evidence", how, [post.log_evidence, post.scale.mean]
        yield f"noise, {name}: observations", how, [pred.mean, pred.covariance, pred.quantile(0.3)]
        yield (
            f"noise, {name}: density",
            how,
            [pred.log_density(pred.mean), pred.pointwise_log_density(pred.mean)],
        )
        scores = left_out_scores(post, outputs)
        yield f"noise, {name}: leave one out", how, [scores.mean, scores.log_density]


def grams() -> Iterator[Answer]:
    X, y, X_test = data(7, 4, None, 60)
    X = np.tanh(X)
    gram, cross, test = (np.exp(a @ b.T / 4) for a, b in ((X, X), (X_test, X), (X_test, X_test)))
    post = lbnn.Network((6, 5)).condition_gram(gram, y, 5.0)
    pred = with_grams(post.predict, cross, test)
    kernel = with_grams(post.feature_kernel, cross, test, layer=2)
    yield "gram: evidence", FIXED, post.log_evidence
    yield "gram: predictive", FIXED, [pred.mean, pred.covariance, pred.quantile(0.3)]
    yield "gram: kernel", FIXED, [post.feature_kernel(), kernel]
    spectrum = lbnn.Spectrum.from_moments(X.T @ X, X.T @ y, float(y @ y), len(y))
    again = lbnn.Network((6, 5)).condition_spectrum(spectrum, 5.0)
    yield "moments: evidence", FIXED, [again.log_evidence, again.scale.mean]
    yield "moments: predictive", FIXED, [again.predict(X_test).mean, again.predict(X_test).variance]


def priors() -> Iterator[Answer]:
    X, _, _ = data(4, 6, None, 70)
    one = lbnn.Network((4, 3)).prior(X)
    yield "prior: one output", FIXED, [one.log_density(0.3 * X[:, 0]), one.quantile(0.9), one.variance]
    two = lbnn.Network((5,)).prior(X, 2, target_error=0.2, seed=1)
    yield "prior: two outputs", DRAWN, [two.log_density(0.3 * X[:, :2]), two.variance]
    scale = lbnn.Network((6, 7)).scale_prior(2)
    yield "prior: scale", FIXED, scale.mean
    yield "prior: scale draws", DRAWN, scale.sample(3, np.random.default_rng(2))
    single = lbnn.Network((6,)).scale_prior(2)
    yield "prior: scale density", FIXED, single.log_density(np.array([[1.0, 0.2], [0.2, 0.7]]))


# ---------------------------------------------------------------------- theories


def theories() -> Iterator[Answer]:
    X, Y, X_test = data(6, 12, 2, 80)
    net, deep = lbnn.Network((18,)), lbnn.Network((18, 15))
    limits = lbnn.asymptotics
    found = {
        "infinite width": limits.infinite_width(net, X, Y, 4.0),
        "infinite width, deep": limits.infinite_width(deep, X, Y, 4.0),
        "infinite data": limits.infinite_data(net, X, Y),
        "proportional": limits.proportional(net, X, Y),
        "proportional, as printed": limits.proportional(net, X, Y, as_printed=True),
        "proportional, deep and warm": limits.proportional(deep, X, Y, beta=4.0),
        "proportional expansion": limits.proportional_expansion(net, X, Y),
        "many outputs": limits.many_outputs(net, X[:3], data(3, 12, 5, 81)[1], beta=4.0),
        "many outputs, zero temperature": limits.many_outputs(net, X[:3], data(3, 12, 5, 81)[1]),
    }
    for name, theory in found.items():
        value = [theory.kernel] + ([] if theory.scale is None else [theory.scale.mean])
        with contextlib.suppress(ValueError):  # some have no predictor
            value += [theory.predict(X_test).mean, theory.predict(X_test).variance]
        yield f"theory: {name}", FIXED, value
    comparison = lbnn.compare(net, X, Y, 4.0, X_test, target_error=0.2, seed=3)
    yield "compare: two outputs", DRAWN, [[row.error, row.monte_carlo] for row in comparison.rows]
    comparison = lbnn.compare(deep, X, Y[:, 0], INF, X_test)
    yield "compare: one output", FIXED, [[row.error, row.monte_carlo] for row in comparison.rows]
    study = lbnn.convergence.study("infinite width", (20, 40), data_sets=2, target_error=0.2)
    yield "convergence", DRAWN, [study.errors, study.error_bars, study.rate]
    for name, targets, beta, mixture in (
        ("one output", Y[:, 0], 4.0, lbnn.ScaleMixture()),
        ("two outputs", Y, 4.0, lbnn.ScaleMixture(stats.gamma(3, scale=1 / 3), exponential_rate=6.0)),
        ("zero temperature", Y, INF, lbnn.ScaleMixture()),
    ):
        post = mixture.condition(X, targets, beta)
        pred = post.predict(X_test)
        moments = [pred.mean, pred.variance, pred.quantile(0.2), pred.log_density(pred.mean)]
        yield f"scale mixture: {name}", FIXED, [post.log_evidence, post.scale.mean, *moments]


# ---------------------------------------------------------------------- estimator, MGIG, command line


def estimators() -> Iterator[Answer]:
    X, Y, X_test = data(24, 5, 2, 90)
    Y = Y * [1.0, 5.0] + [3.0, -1.0]
    given = {"depth": 2, "width": 4, "target_error": 0.2, "random_state": 0}
    cases: list[tuple[str, str, dict[str, Any], Any]] = [
        ("one output, searched", FIXED, {}, Y[:, 0]),
        ("one output, averaged", FIXED, {"average": True}, Y[:, 0]),
        ("one output, rbf", FIXED, {"kernel": "rbf", "depth": 2, "width": 6}, Y[:, 0]),
        ("one output, no intercept", FIXED, {"fit_intercept": False, "depth": 3, "width": (4, 3)}, Y[:, 0]),
        ("Gaussian process", FIXED, {"depth": 1, "noise": "independent"}, Y),
        ("isotropic", DRAWN, {**given, "noise": "independent"}, Y),
        ("isotropic, given", DRAWN, {**given, "noise": "independent", "beta": 5.0, "prior_scale": 2.0}, Y),
        ("per output", DRAWN, {**given, "noise": "per_output"}, Y),
        ("coupled", DRAWN, {**given, "noise": "coupled"}, Y),
        ("coupled, own units", DRAWN, {**given, "noise": "coupled_per_output"}, Y),
        ("averaged", DRAWN, {**given, "depth": "evidence", "noise": "independent", "average": True}, Y),
    ]
    for name, kind, parameters, targets in cases:
        model = lbnn.LBNNRegressor(**parameters).fit(X, targets)
        mean, deviation = model.predict(X_test, return_std=True)
        chosen = [model.beta_, model.prior_scale_, model.log_evidence_]
        yield f"estimator, {name}: chosen", kind, [*chosen, model.noise_variance_, model.scale_mean_]
        yield f"estimator, {name}: predictions", kind, [mean, deviation]
        pred = model.predictive(X_test).with_noise()
        pointwise = pred.pointwise_log_density(mean)
        yield f"estimator, {name}: density", kind, [pred.log_density(mean + 0.1), pointwise]
        yield f"estimator, {name}: quantile", kind, [pred.quantile(0.2), pred.covariance]
        if "coupled" in name:
            observed = model.posterior_.predict(X_test).with_noise()
            yield (
                f"estimator, {name}: observations of its posterior",
                kind,
                [observed.mean, observed.covariance],
            )
        yield f"estimator, {name}: draws", DRAWN, model.sample_y(X_test, 2, random_state=1)
        scores = model.leave_one_out()
        yield f"estimator, {name}: leave one out", kind, [scores.mean, scores.variance, scores.log_density]
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model.lbnn")
            again = lbnn.LBNNRegressor.load(Path(folder) / "model.lbnn")
        yield f"estimator, {name}: file", kind, list(again.predict(X_test, return_std=True))


def matrix_laws() -> Iterator[Answer]:
    psi, phi = np.diag([1.0, 4.0, 2.5]), np.eye(3) + 0.2
    laws = {
        "MatrixGIG, N = 1": (FIXED, lbnn.MatrixGIG(2.0, 3.0, nu=1.5)),
        "MatrixGIG, N = 2": (DRAWN, lbnn.MatrixGIG(psi[:2, :2], phi[:2, :2], nu=-0.7)),
        "MatrixGIG, N = 3": (DRAWN, lbnn.MatrixGIG(psi, phi, nu=2.0, target_error=0.1)),
        "MatrixGIG, Wishart": (FIXED, lbnn.MatrixGIG(0 * psi, phi, nu=4.0)),
    }
    for name, (kind, law) in laws.items():
        yield f"{name}: moments", kind, [law.mode, law.mean, law.inverse_mean, law.log_normalizer]
        yield f"{name}: density", kind, law.log_density(1.3 * np.eye(len(law.psi)))
        yield f"{name}: draws", DRAWN, law.sample(3, 4)


def command_line() -> Iterator[Answer]:
    X, Y, _ = data(16, 3, 2, 95)
    frame = pd.DataFrame(np.hstack([X, Y]), columns=["a", "b", "c", "y", "z"])
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            frame.to_csv("data.csv", index=False)
            quick = ["--depth", "2", "--width", "4", "--beta", "10", "--prior-scale", "1"]
            _command("fit", "data.csv", "-t", "y", "-x", "a,b,c", *quick, "-o", "one.lbnn")
            _command("predict", "one.lbnn", "data.csv", "-o", "one.csv")
            yield "command line: one output", FIXED, _numbers("one.csv")
            _command("fit", "data.csv", "-t", "y,z", *quick, "--noise", "independent", "-o", "two.lbnn")
            _command("predict", "two.lbnn", "data.csv", "-o", "two.csv")
            yield "command line: two outputs", DRAWN, _numbers("two.csv")
            table = ["--depths", "1,2", "--widths", "2,5", "--betas", "1,10", "--drop", "z"]
            _command("evidence", "data.csv", "-t", "y", *table, "-o", "evidence.csv")
            yield "command line: evidence", FIXED, _numbers("evidence.csv")
        finally:
            os.chdir(before)


def _command(*arguments: str) -> None:
    result = CliRunner().invoke(app, list(arguments))
    if result.exit_code:
        raise RuntimeError(f"lbnn {' '.join(arguments)}: {result.output}")


def _numbers(path: str) -> Any:
    return np.genfromtxt(path, delimiter=",", skip_header=1)  # text is NaN


# ---------------------------------------------------------------------- files


def answers() -> dict[str, dict[str, Any]]:
    """Every answer, as it is stored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        groups = [networks(), theories(), estimators(), matrix_laws(), command_line()]
        return {
            name: {"kind": kind, "value": _stored(value)} for group in groups for name, kind, value in group
        }


def _stored(value: Any) -> Any:
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        return [_stored(each) for each in value]
    return repr(float(value))


def _flat(value: Any) -> Iterator[float]:
    if isinstance(value, list):
        for each in value:
            yield from _flat(each)
    else:
        yield float(value)


def disagreement(kind: str, old: Any, new: Any) -> str | None:
    """Why two stored values do not agree; None where they do."""
    if kind == DRAWN:
        difference = _largest_difference(old, new)
        return None if old == new else f"drawn anew, largest relative difference {difference:.3g}"
    difference = _largest_difference(old, new)
    return None if difference <= TOLERANCE else f"relative difference {difference:.3g}"


def _largest_difference(old: Any, new: Any) -> float:
    """Over the parts of an answer: largest difference in units of the part's largest finite entry."""
    if isinstance(old, list) != isinstance(new, list) or (isinstance(old, list) and len(old) != len(new)):
        return INF
    if isinstance(old, list) and any(isinstance(each, list) for each in old):
        return max((_largest_difference(a, b) for a, b in zip(old, new, strict=True)), default=0.0)
    before, after = np.array([*_flat(old)]), np.array([*_flat(new)])
    if not np.array_equal(np.isfinite(before), np.isfinite(after)):
        return INF
    finite = np.isfinite(before)
    if not np.array_equal(before[~finite], after[~finite], equal_nan=True):
        return INF
    size = float(np.abs(before[finite]).max(initial=0.0))
    difference = float(np.abs(before[finite] - after[finite]).max(initial=0.0))
    return difference / size if size else (0.0 if difference == 0 else INF)


def main(mode: str, path: Path) -> int:
    new = answers()
    if mode == "write":
        path.write_text(json.dumps(new, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{len(new)} answers written to {path}")
        return 0
    old, bad = json.loads(path.read_text(encoding="utf-8")), 0
    for name in sorted({*old, *new}):
        if name not in old or name not in new:
            reason: str | None = "missing " + ("before" if name not in old else "now")
        else:
            reason = disagreement(old[name]["kind"], old[name]["value"], new[name]["value"])
        if reason:
            bad += 1
            print(f"{name} ({(old.get(name) or new[name])['kind']}): {reason}")
    print(f"{len(new)} answers, {bad} disagree")
    return int(bad > 0)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare"):
        sys.exit("usage: python tests/reference/answers.py write|compare FILE")
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
