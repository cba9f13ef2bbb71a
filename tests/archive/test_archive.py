"""Archives: the same numbers back, and one clear error for every file that is not a whole archive."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import pickle
import re
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import lbnn
from lbnn import archive
from lbnn.archive import container
from lbnn.cross_validation import left_out_scores
from tests.helpers.problems import make_problem

# ---------------------------------------------------------------- posteriors


def condition(p: int, n0: int, outputs: int | None, widths: tuple[int, ...], beta: Any, **kw: Any) -> Any:
    data = make_problem(p, n0, outputs, seed=1)
    return lbnn.Network(widths).condition(data.X, data.Y, beta, **kw)


def deficient() -> lbnn.Posterior:
    """Zero temperature, two of three outputs proportional."""
    data = make_problem(4, 8, 2, seed=2)
    Y = np.column_stack([data.Y, data.Y[:, 0]])
    return lbnn.Network((9, 8)).condition(data.X, Y, math.inf)


def from_gram() -> lbnn.Posterior:
    data = make_problem(6, 9, 2, seed=3)
    network = lbnn.Network((7,), prior_variances=(0.5, 2.0))
    return network.condition_gram(data.gram, data.Y, 4.0)


def from_moments() -> lbnn.Posterior:
    data = make_problem(9, 5, seed=4)
    spectrum = lbnn.Spectrum.from_moments(data.X.T @ data.X, data.X.T @ data.Y, data.Y @ data.Y, 9)
    return lbnn.Network((4, 4), prior_variances=(0.5, 2.0, 3.0)).condition_spectrum(spectrum, 3.0)


def doubtful() -> lbnn.Posterior:
    """Importance sampling where it fails: messages, ok=False."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        return condition(12, 16, 3, (2,) * 8, 1e3, engine="importance")


COVARIANCE = [[1.0, 0.5], [0.5, 0.7]]
POSTERIORS: dict[str, Callable[[], lbnn.Posterior]] = {
    "atom": lambda: condition(6, 9, 3, (), 4.0),
    "quadrature": lambda: condition(6, 9, None, (5, 5), 4.0),
    "quadrature, one column": lambda: condition(6, 9, 1, (5,), 4.0),
    "quadrature, no data": lambda: condition(6, 9, None, (5, 5), 0.0),
    "quadrature, zero temperature": lambda: condition(6, 9, None, (5, 5), math.inf),
    "tall": lambda: condition(9, 6, 2, (7,), 4.0),
    "importance": lambda: condition(6, 9, 2, (7, 8), 4.0),
    "importance, bottleneck": lambda: condition(6, 9, 3, (2, 8), 4.0),
    "importance, zero temperature": lambda: condition(6, 9, 2, (7, 8), math.inf),
    "smc": lambda: condition(6, 9, 2, (3,), 4.0, engine="smc", seed=7),
    "dual": lambda: condition(3, 9, 5, (7,), 4.0),
    "deficient": deficient,
    "coupled": lambda: condition(9, 6, 2, (7,), 4.0, noise="coupled"),
    "coupled, one output": lambda: condition(9, 6, None, (7, 5), 4.0, noise="coupled"),
    "per output": lambda: condition(9, 6, 2, (7, 8), [4.0, 0.5], noise="per_output"),
    "covariance": lambda: condition(9, 6, 2, (7, 8), None, noise="free", noise_covariance=COVARIANCE),
    "per output, depth one": lambda: condition(9, 6, 2, (), [4.0, 0.5], noise="per_output"),
    "gram": from_gram,
    "moments": from_moments,
    "doubtful": doubtful,
}


@cache
def made(name: str) -> lbnn.Posterior:
    return POSTERIORS[name]()


def numbers(post: lbnn.Posterior) -> dict[str, Any]:
    """Everything that can be asked of a posterior."""
    rng = np.random.default_rng(5)
    gram = isinstance(post.spectrum.basis, lbnn.data.bases.GramBasis)
    if gram:
        root = rng.standard_normal((2, post.spectrum.examples)) * 0.1
        data = make_problem(6, 9, 2, seed=3)
        own = root @ data.gram @ root.T + np.eye(2)
        test: Any = {"cross_gram": root @ data.gram, "test_gram": own}
    else:
        test = {"X_test": rng.standard_normal((2, post.spectrum.basis.dimension))}
    predictive = post.predict(**test)
    if post.noise.coupling or 0 < post.noise.variance < math.inf:
        predictive = predictive.with_noise()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        far = predictive.mean + 8 * np.sqrt(predictive.variance)  # where sampled laws need a run of their own
        asked = {
            "mean": predictive.mean,
            "covariance": predictive.covariance,
            "density": predictive.log_density(predictive.mean + 0.1),
            "far density": predictive.log_density(far),
            "quantile": predictive.quantile(0.2),
            "sample": predictive.sample(5, 6),
            "scales": post.scale.sample(5, 7),
            "E L": (post.scale.mean, post.scale.mean_error, post.scale.inverse_mean),
            "evidence": (
                post.log_evidence,
                post.log_evidence_error,
                post.noise.variance,
                post.noise.coupling,
            ),
            "tails": tuple(vars(post.scale.tails).values()),
        }
        if post.prior.widths:
            asked["kernels"] = [
                post.feature_kernel(**test, layer=each + 1) for each in range(len(post.prior.widths))
            ]
        if not gram and not post.noise.coupling:
            asked["weights"] = post.sample_weights(3, 8)
    return asked


def assert_same(first: Any, second: Any) -> None:
    """Bit by bit."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        first, second = list(first.values()), list(second.values())
    if isinstance(first, list | tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_array_equal(first, second, strict=True)


@pytest.mark.parametrize("name", POSTERIORS)
def test_round_trip_is_exact(name: str, tmp_path: Path) -> None:
    posterior, path = made(name), tmp_path / "posterior.lbnn"
    header, arrays = posterior._packed()
    archive.write(path, "posterior", header, arrays)
    loaded_header, loaded_arrays = archive.read(path, "posterior")
    assert loaded_header == header
    again = lbnn.Posterior._unpacked(loaded_header, loaded_arrays)
    assert again.prior == posterior.prior
    assert again.diagnostics == posterior.diagnostics
    assert type(again.scale.law) is type(posterior.scale.law)
    assert_same(numbers(again), numbers(posterior))


@pytest.mark.parametrize("name", ["quadrature", "importance", "smc", "dual", "gram"])
def test_leave_one_out_survives(name: str) -> None:
    posterior = made(name)
    again = lbnn.Posterior._unpacked(*posterior._packed())
    vectors, spectrum = posterior.spectrum.project().explained, posterior.spectrum
    Y = vectors @ (spectrum.targets / np.sqrt(spectrum.eigenvalues)[:, None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lbnn.AccuracyWarning)
        assert_same(vars(left_out_scores(again, Y)), vars(left_out_scores(posterior, Y)))


def test_engines_are_covered() -> None:
    laws = {type(made(name).scale.law).__name__ for name in POSTERIORS}
    assert laws == {"NoneType", "QuadratureLaw", "SampledLaw", "FactorLaw", "LinearImage"}
    assert {"atom", "quadrature", "importance", "smc"} < {
        made(name).diagnostics.engine for name in POSTERIORS
    }
    assert not made("doubtful").diagnostics.ok


@pytest.mark.parametrize("name", ["quadrature", "importance", "dual", "deficient"])
def test_nothing_is_stored_that_follows(name: str) -> None:
    """Data, eigenvectors and draws; no atoms, save where they differ from their factors by rounding."""
    posterior = made(name)
    _, arrays = posterior._packed()
    spectrum, law = posterior.spectrum, posterior.scale.law
    n0, rank = spectrum.basis.dimension, spectrum.rank
    data = spectrum.examples * (n0 + rank) + rank + spectrum.targets.size
    stored = sum(array.size for array in arrays.values()) - data
    if name == "quadrature":
        assert stored == 0
    elif name == "importance":
        assert stored == len(law.answer.points) * (law.target.dimension + 2) + law.target.rotation.size
    else:
        factors = sum(factor.size for factor in law.all_factors)
        scales = posterior.scale.scales.size if "scale.scales" in arrays else 0
        assert stored == factors + scales + 2 * len(law.weights)
        assert (name == "deficient") == bool(scales)


def test_unknown_laws_are_refused() -> None:
    posterior = made("importance")
    odd = lbnn.Posterior(
        posterior.prior,
        posterior.spectrum,
        posterior.noise,
        type(posterior.inference)(
            posterior.scale._with_law(object()),
            0.0,
            0.0,
            posterior.diagnostics,  # type: ignore[arg-type]
        ),
    )
    with pytest.raises(TypeError, match="law of type object"):
        odd._packed()


def _without(*keys: str) -> Callable[[Any, Any], None]:
    def spoil(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        place = header
        for key in keys[:-1]:
            place = place[key]
        del place[keys[-1]]

    return spoil


def _set(value: Any, *keys: str) -> Callable[[Any, Any], None]:
    def spoil(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        place = header
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return spoil


def _changed(name: str, change: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    return lambda header, arrays: arrays.update({name: change(arrays[name])})


SPOILED = {
    "no widths": _without("prior", "widths"),
    "no scale": _without("scale"),
    "no tails": _without("scale", "tails"),
    "widths of text": _set("wide", "prior", "widths"),
    "width zero": _set([0, 3], "prior", "widths"),
    "other depth": _set([7], "prior", "widths"),
    "negative noise": _set(-1.0, "noise", "variance"),
    "noise of nothing": _set(None, "noise"),
    "other law": _set("magic", "scale", "law"),
    "other basis": _set("magic", "spectrum", "basis", "class"),
    "other outputs": _set(3, "prior", "outputs"),
    "unknown diagnostics": _set({"messages": [], "x": 1}, "diagnostics"),
    "unknown effort": _set({"x": 1}, "scale", "options"),
    "no draws": lambda header, arrays: arrays.pop("scale.points"),
    "fewer draws": _changed("scale.points", lambda array: array[1:]),
    "fewer groups": _changed("scale.groups", lambda array: array[1:]),
    "small rotation": lambda header, arrays: arrays.update({"scale.rotation": np.eye(1)}),
    "fewer targets": _changed("spectrum.targets", lambda array: array[1:]),
    "flat targets": _changed("spectrum.targets", np.ravel),
    "integers": _changed("spectrum.targets", lambda array: array.astype(int)),
    "fewer inputs": _changed("spectrum.basis.directions.inputs", lambda array: array[1:]),
}


@pytest.mark.parametrize("name", SPOILED)
def test_content_that_is_no_posterior(name: str) -> None:
    header, arrays = made("importance")._packed()
    header = json.loads(json.dumps(header))
    SPOILED[name](header, arrays)
    with pytest.raises(ValueError, match="must be those of a posterior"):
        lbnn.Posterior._unpacked(header, arrays)


def test_quadrature_must_find_the_stored_evidence() -> None:
    header, arrays = made("quadrature")._packed()
    with pytest.raises(ValueError, match="evidence"):
        lbnn.Posterior._unpacked(header | {"evidence": [header["evidence"][0] + 0.1, 0.0]}, arrays)


# ---------------------------------------------------------------- the container

CONTENT = {"beta": math.inf, "name": "α", "nested": {"list": [1, 2.5, None, True]}, "nothing": {}}
ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b/c.d": np.array([True, False]), "count": np.array(3)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "some.lbnn"
    archive.write(file, "test", CONTENT, ARRAYS)
    return file


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
HEADERS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner)),
    max_size=4,
)
PLAIN = st.sampled_from(["<f8", ">f8", "<f4", "<i8", "|u1", "<c16", "|b1", ">i2"]).map(np.dtype)
ANY_ARRAY = PLAIN.flatmap(
    lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, min_side=0))
)


@settings(max_examples=40, deadline=None)
@given(
    HEADERS,
    st.dictionaries(st.from_regex(r"[a-z]{1,4}(\.[a-z]{1,3})?", fullmatch=True), ANY_ARRAY, max_size=3),
)
def test_container_keeps_every_bit(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    content = container.encode("test", header, arrays)
    again, loaded = container.decode(content, "test")
    assert json.dumps(again, sort_keys=True) == json.dumps(header, sort_keys=True)
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].shape == array.shape
        assert loaded[name].dtype == array.dtype.newbyteorder("=")
        assert loaded[name].tobytes() == array.astype(loaded[name].dtype).tobytes()
        assert loaded[name].flags.writeable
    assert container.encode("test", again, loaded) == content  # one spelling


def test_memory_order_is_kept(tmp_path: Path) -> None:
    """Matrix products round by the order in memory."""
    matrix = np.arange(12.0).reshape(3, 4)
    archive.write(tmp_path / "x", "test", {}, {"f": np.asfortranarray(matrix), "strided": matrix[:, ::2]})
    _, arrays = archive.read(tmp_path / "x", "test")
    assert arrays["f"].flags.f_contiguous
    assert arrays["strided"].flags.c_contiguous
    np.testing.assert_array_equal(arrays["f"], matrix)
    np.testing.assert_array_equal(arrays["strided"], matrix[:, ::2])


def test_numpy_opens_it(path: Path) -> None:
    with np.load(path, allow_pickle=False) as file:
        np.testing.assert_array_equal(file["a"], ARRAYS["a"])
        manifest = json.loads(file["header.json"])
    assert (manifest["format"], manifest["version"], manifest["kind"]) == ("lbnn archive", 5, "test")
    assert manifest["lbnn"] == lbnn.__version__
    assert manifest["content"] == CONTENT


def test_equal_content_has_equal_bytes(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    archive.write(other, "test", dict(reversed(CONTENT.items())), dict(reversed(ARRAYS.items())))
    assert other.read_bytes() == path.read_bytes()
    with zipfile.ZipFile(path) as file:
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.create_system for info in file.infolist()} == {3}  # whatever the system is


def test_writing_replaces_in_one_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=False"):
        archive.write(path, "test", {}, {}, overwrite=False)

    def full(descriptor: int) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="disk full"):
            archive.write(path, "test", {}, {})
    with pytest.raises(ValueError, match="header holds"):
        archive.write(path, "test", {"x": object()}, {})
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    archive.write(path, "test", {"new": 1}, {})
    assert archive.read(path, "test") == ({"new": 1}, {})
    plain = path.parent / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_writing_through_a_link_keeps_the_link(path: Path) -> None:
    link = path.parent / "link"
    link.symlink_to(path)
    archive.write(link, "test", {"new": 1}, {})
    assert link.is_symlink()
    assert archive.read(path, "test")[0] == {"new": 1}


@pytest.mark.parametrize(
    ("header", "arrays", "message"),
    [
        ({"x": {1, 2}}, {}, "got set"),
        ({"x": np.int64(3)}, {}, "got int64"),
        ({}, {"x": np.array([object()])}, "dtype object"),
        ({}, {"x": np.array(["text"])}, "dtype <U4"),
        ({}, {"x": np.zeros(2, dtype=[("a", "f8")])}, "dtype"),
        ({}, {"x": np.zeros(2, dtype="M8[s]")}, "dtype"),
        ({}, {"x": [1.0]}, "got list"),
        ({}, {"../x": np.zeros(2)}, "names are words"),
        ({}, {"": np.zeros(2)}, "names are words"),
    ],
)
def test_what_cannot_be_written(header: Any, arrays: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        archive.write(tmp_path / "x", "test", header, arrays)
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- files that are no archives


def refused(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be read as an lbnn archive: .*" + message):
        archive.read(path, "test")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        archive.read(tmp_path / "nothing", "test")
    with pytest.raises(FileNotFoundError):
        archive.write(tmp_path / "no" / "folder", "test", {}, {})
    with pytest.raises(OSError, match="directory"):
        archive.read(tmp_path, "test")


def test_wrong_kind(path: Path) -> None:
    with pytest.raises(ValueError, match="holds a 'test' and a 'posterior' was asked for"):
        archive.read(path, "posterior")


def zipped(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return buffer.getvalue()


def unzipped(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def forged(entries: dict[str, bytes], change: Callable[[dict[str, Any]], None]) -> bytes:
    """An archive with a changed header and checksums that fit: what an attacker would make."""
    manifest = json.loads(entries["header.json"])
    change(manifest)
    return zipped(entries | {"header.json": json.dumps(manifest).encode()})


def test_foreign_files(path: Path) -> None:
    entries = unzipped(path)
    header = entries["header.json"]
    refused(path, b"", "not a zip file")
    refused(path, b"plain text, nothing else", "not a zip file")
    refused(path, pickle.dumps({"a": 1}), "not a zip file")
    refused(path, b"PK\x03\x04 and no more", "zip")
    refused(path, zipped({"a.npy": b""}), "no readable header")
    refused(path, zipped({"header.json": b"\xff"}), "no readable header")
    refused(path, zipped({"header.json": b"[" * 100_000}), "")
    refused(path, zipped({"header.json": b"9" * 100_000}), "no readable header")
    refused(path, zipped({"header.json": b'{"format": NaN}'}), "does not name the format")
    refused(path, zipped({"header.json": b"[1]"}), "does not name the format")
    refused(path, zipped({"header.json": b'{"format": "other"}'}), "does not name the format")
    refused(path, zipped({"header.json": header}), "arrays are not those")
    refused(path, zipped(entries | {"more.npy": b""}), "arrays are not those")
    refused(path, zipped(entries, zipfile.ZIP_DEFLATED), "compressed entries")
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(3))
    refused(path, buffer.getvalue(), "no readable header")


def test_newer_versions(path: Path) -> None:
    def newer(manifest: dict[str, Any]) -> None:
        manifest.update(version=6, lbnn="9.1", added={"later": 1})

    refused(path, forged(unzipped(path), newer), r"format version 6 .* reads 5; .* by lbnn '9\.1'")
    path.unlink()
    archive.write(path, "test", CONTENT, ARRAYS)
    for version in ("4", 3, 2, 0, -1, True, 1.0, None, [2]):
        archive.write(path, "test", CONTENT, ARRAYS)
        content = forged(unzipped(path), lambda manifest, version=version: manifest.update(version=version))
        refused(path, content, f"format version {re.escape(repr(version))} ")


def test_altered_content(path: Path) -> None:
    content, last = path.read_bytes(), unzipped(path)["a.npy"][-8:]
    assert content.count(b"2.5") == content.count(last) == 1
    refused(path, content.replace(b"2.5", b"2.6"), "Bad CRC-32 for file 'header.json'")
    refused(path, content.replace(last, last[:-1] + b"\x41"), "Bad CRC-32 for file 'a.npy'")


def replaced(entries: dict[str, bytes], array: bytes) -> bytes:
    """An archive with another array `a`, and checksums that fit."""
    return zipped(entries | {"a.npy": array})


def described(descr: str, shape: str, data: bytes = bytes(48)) -> bytes:
    """A .npy file of zeros with any description."""
    preamble = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(preamble)) + preamble + data


class Trap:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def test_pickled_objects_are_not_loaded(path: Path, tmp_path: Path) -> None:
    entries, sprung = unzipped(path), tmp_path / "sprung"
    trap = np.empty(1, dtype=object)
    trap[0] = Trap(sprung)
    refused(path, replaced(entries, npy(trap)), "must hold numbers or booleans")
    refused(path, replaced(entries, pickle.dumps(Trap(sprung))), "the magic string is not correct")
    code = f"__import__('pathlib').Path({str(sprung)!r}).touch()"
    refused(path, replaced(entries, described("'<f8'", code)), "")
    assert not sprung.exists()


def test_absurd_sizes(path: Path) -> None:
    """No memory is taken for what a file declares and does not hold."""
    entries = unzipped(path)
    assert archive.read(path, "test")[1].keys() == ARRAYS.keys()
    for shape in ("(1 << 40, 1 << 20)", f"({2**40}, {2**20})", "(2, 4)", "(2, 2)", "(-2, -3)", "(2, 3.0)"):
        refused(path, replaced(entries, described("'<f8'", shape)), "")
    for shape in ("'23'", "6", "None", f"(0, {2**80})", "(True, 6)"):
        refused(path, replaced(entries, described("'<f8'", shape)), "")
    refused(path, replaced(entries, described("'<f8'", "(7,)")), "declares another size than it has")
    for dtype in ("'<f16'", "'<V8'", "'<U2'", "'<b4'", "'>f8'", "'O'", "8", "None", "[('a', '<f8')]"):
        refused(path, replaced(entries, described(dtype, "(6,)")), "")
    bomb = zipped({"header.json": b" " * 10**7}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 10**5
    refused(path, bomb, "compressed entries")


def test_declared_sizes_beyond_the_file(path: Path) -> None:
    """The central directory says a terabyte."""
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\x01\x02")
    content[entry + 20 : entry + 28] = struct.pack("<II", 2**32 - 2, 2**32 - 2)
    refused(path, bytes(content), "declares more data than it contains")


def test_odd_headers_with_fitting_checksums(path: Path) -> None:
    entries = unzipped(path)
    for key in ("kind", "arrays", "content"):
        refused(path, forged(entries, lambda manifest, key=key: manifest.pop(key)), "")
        refused(path, forged(entries, lambda manifest, key=key: manifest.update({key: [1]})), "")
    refused(path, forged(entries, lambda manifest: manifest.update(arrays=[[]])), "")


SMALL = container.encode("test", {"x": math.inf}, {"a": np.arange(3.0)})


def untouched(content: bytes) -> bool:
    """Whether the content is read, and then it is what was written; `read` makes the refusal a ValueError."""
    try:
        header, arrays = container.decode(content, "test")
    except Exception:
        return False
    assert header == {"x": math.inf}
    assert arrays.keys() == {"a"}
    np.testing.assert_array_equal(arrays["a"], np.arange(3.0))
    return True


def test_any_one_byte() -> None:
    """Every byte flipped in turn: in header and arrays none goes unnoticed. And every truncation."""
    with zipfile.ZipFile(io.BytesIO(SMALL)) as file:
        starts = [info.header_offset + 30 + len(info.filename) for info in file.infolist()]
        sizes = [info.file_size for info in file.infolist()]
    held = {place for start, size in zip(starts, sizes, strict=True) for place in range(start, start + size)}
    for place in range(len(SMALL)):
        flipped = bytearray(SMALL)
        flipped[place] ^= 1 << place % 8
        assert not (untouched(bytes(flipped)) and place in held)
        assert not untouched(SMALL[:place])
    assert untouched(SMALL)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_any_bytes(changes: list[tuple[int, int]]) -> None:
    content = bytearray(SMALL)
    for place, value in changes:
        content[place] = value
    untouched(bytes(content))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, len(SMALL)), insert=st.binary(max_size=30), drop=st.integers(0, 40))
def test_any_splice(tmp_path: Path, cut: int, insert: bytes, drop: int) -> None:
    """Bytes inserted and dropped anywhere, through the file."""
    file = tmp_path / "spliced"
    file.write_bytes(SMALL[:cut] + insert + SMALL[cut + drop :])
    if untouched(file.read_bytes()):
        assert archive.read(file, "test")[0] == {"x": math.inf}
    else:
        with pytest.raises(ValueError, match="cannot be read as an lbnn archive"):
            archive.read(file, "test")


# ---------------------------------------------------------------- whole headers that say something else

ODD = (None, True, -1, 0, 2.5, math.nan, 10**400, "", "x", [], {}, [[]], {"x": 1}, [None], "9" * 50, -(10**9))


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Ways to every value of a header."""
    found = [at] if at else []
    if isinstance(value, dict):
        found += [place for key, each in value.items() for place in places(each, (*at, key))]
    if isinstance(value, list):
        found += [place for key, each in enumerate(value[:3]) for place in places(each, (*at, key))]
    return found


def with_odd_value(header: dict[str, Any], place: tuple[Any, ...], odd: Any) -> dict[str, Any]:
    changed = json.loads(json.dumps(header))
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    if odd is dict:
        del inner[place[-1]]
    else:
        inner[place[-1]] = odd
    return changed


@pytest.mark.parametrize("name", [pytest.param("quadrature", marks=pytest.mark.slow), "importance", "atom"])
def test_posteriors_of_odd_headers_raise_nothing_but_value_errors(name: str) -> None:
    header, arrays = made(name)._packed()
    with np.errstate(all="ignore"):
        for place in places(header):
            for odd in (*ODD, dict):
                with contextlib.suppress(ValueError, Warning):  # a warning: announced to be inaccurate
                    lbnn.Posterior._unpacked(with_odd_value(header, place, odd), dict(arrays))


@pytest.mark.parametrize("name", ["quadrature", "importance"])
def test_posteriors_of_odd_arrays_raise_nothing_but_value_errors(name: str) -> None:
    header, arrays = made(name)._packed()
    for key, array in arrays.items():
        odd = [
            array[:0],
            array[..., None],
            array.ravel(),
            array.astype(np.int8),
            np.zeros(3),
            array * math.nan,
        ]
        for each in (*odd, None):
            changed = {k: v for k, v in arrays.items() if k != key} | ({} if each is None else {key: each})
            with np.errstate(all="ignore"), contextlib.suppress(ValueError, Warning):
                lbnn.Posterior._unpacked(header, changed)
