"""The container: a zip file of plain arrays and one JSON header, with digests.

Entries are stored, never compressed, so that equal content gives equal bytes and no entry can be larger than
the file that holds it. Everything is read from bytes in memory, and nothing is believed before it is checked.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbnn._base.files import bytes_writer, write_atomically

AnyArray = NDArray[Any]

FORMAT = "lbnn archive"
VERSION = 3
_HEADER = "header.json"
_MAGIC = b"PK\x03\x04"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever written
_PLAIN = re.compile(r"\|[biu]1|<[iufc](2|4|8|16)")  # dtypes: booleans and numbers of the same size anywhere
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NAME = re.compile(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*")
_SPECIAL = "$float"  # JSON has no infinity: {"$float": "inf"}


def write(
    path: str | os.PathLike[str],
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
    *,
    overwrite: bool = True,
) -> None:
    """Write a header and arrays into one file, in one step: a reader finds the old file or the whole new one.

    Parameters
    ----------
    path : path
        Taken as it is; no suffix is added.
    kind : str
        What the content is; `read` must ask for the same.
    header : dict
        None, booleans, numbers (inf and NaN too), strings, lists and dicts with string keys. Tuples come back
        as lists.
    arrays : dict of str to arrays
        Numbers or booleans of any shape; never objects. Names are words joined by "." or "/".
    overwrite : bool
        Whether a file that exists is replaced, as `numpy.save` does; if not, `FileExistsError`.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> from lbnn import archive
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "numbers.lbnn"
    ...     archive.write(path, "example", {"unit": "m"}, {"length": np.array([1.0, 2.5])})
    ...     archive.read(path, "example")
    ({'unit': 'm'}, {'length': array([1. , 2.5])})
    """
    target = Path(os.path.realpath(path))
    if not overwrite and target.exists():
        raise FileExistsError(f"{os.fspath(path)!r} exists and overwrite=False was given")
    write_atomically(target, bytes_writer(encode(kind, header, arrays)))


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Read header and arrays back, if the file is whole and of the kind asked for.

    Parameters
    ----------
    path : path
    kind : str
        As given to `write`.

    Returns
    -------
    header, arrays

    Raises
    ------
    ValueError
        If the file is not an archive, truncated, altered, of a newer format or of another kind. Files that
        cannot be opened raise the `OSError` that says why.
    """
    content = Path(path).read_bytes()
    try:
        return decode(content, kind)
    except Exception as error:  # whatever zipfile, json and NumPy raise on bytes that are something else
        detail = str(error) or type(error).__name__
        raise ValueError(f"{os.fspath(path)!r} cannot be read as an lbnn archive: {detail}") from error


# ---------------------------------------------------------------------- bytes


def encode(kind: str, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    """The bytes of an archive with named arrays of any shape: equal for equal content."""
    entries = {name: _encode_array(name, array) for name, array in sorted(arrays.items())}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "lbnn": _library_version(),
        "content": _to_json(dict(header)),
        "arrays": {name: _describe(arrays[name], entry) for name, entry in entries.items()},
    }
    manifest["sha256"] = _digest(_canonical(manifest))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        _put(file, _HEADER, _canonical(manifest))
        for name, entry in entries.items():
            _put(file, f"{name}.npy", entry)
    return buffer.getvalue()


def decode(content: bytes, kind: str) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Header and arrays of the bytes of an archive; an exception of any kind if they are not one."""
    if not content.startswith(_MAGIC):
        raise ValueError("it does not begin like one")
    entries = _stored_entries(content)
    manifest = _checked_manifest(entries.pop(_HEADER, b""), kind)
    described = manifest["arrays"]
    if not isinstance(described, dict) or not isinstance(manifest["content"], dict):
        raise ValueError("its header lacks content or arrays")
    if {f"{name}.npy" for name in described} != set(entries):
        raise ValueError("its arrays are not those that its header lists")
    arrays = {name: _decode_array(name, about, entries[f"{name}.npy"]) for name, about in described.items()}
    return _from_json(manifest["content"]), arrays


def _put(file: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.create_system, entry.external_attr = 3, 0o644 << 16
    file.writestr(entry, content)


def _stored_entries(content: bytes) -> dict[str, bytes]:
    """All entries of a zip file that holds each once, uncompressed, and no more than its own size."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        infos = file.infolist()
        if len({info.filename for info in infos}) < len(infos):
            raise ValueError("it holds an entry twice")
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise ValueError("it has compressed entries, which archives never have")
        if any(info.file_size != info.compress_size for info in infos) or (
            sum(info.file_size for info in infos) > len(content)
        ):
            raise ValueError("it declares more data than it contains")
        return {info.filename: file.read(info) for info in infos}


# ---------------------------------------------------------------------- header


def _checked_manifest(encoded: bytes, kind: str) -> dict[str, Any]:
    """The header, if it is of this format and version, whole, and of the kind asked for."""
    try:
        manifest = json.loads(encoded.decode("utf-8"), parse_constant=_no_constant)
    except ValueError as error:
        raise ValueError("it has no readable header") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError("its header does not name the format")
    version = manifest.get("version")
    if type(version) is not int or version != VERSION:
        raise ValueError(
            f"it has format version {version!r} and this lbnn ({_library_version()}) reads {VERSION}; "
            f"it was written by lbnn {manifest.get('lbnn')!r}"
        )
    if manifest.pop("sha256", None) != _digest(_canonical(manifest)):
        raise ValueError("its header was altered: the digest does not match")
    if manifest["kind"] != kind:
        raise ValueError(f"it holds a {manifest['kind']!r} and a {kind!r} was asked for")
    return manifest


def _canonical(value: Any) -> bytes:
    """JSON with one spelling."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _no_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def _to_json(value: Any) -> Any:
    """A header value as strict JSON; floats keep every bit."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_SPECIAL: repr(float(value))}
    if isinstance(value, list | tuple):
        return [_to_json(each) for each in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) and key != _SPECIAL for key in value):
            raise ValueError(f"header keys must be strings other than {_SPECIAL!r}, got {list(value)!r}")
        return {key: _to_json(each) for key, each in value.items()}
    raise ValueError(
        f"a header holds None, booleans, numbers, strings, lists and dicts, got {type(value).__name__}"
    )


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(each) for each in value]
    if isinstance(value, dict):
        if value.keys() == {_SPECIAL}:
            return float(value[_SPECIAL])
        return {key: _from_json(each) for key, each in value.items()}
    return value


def _library_version() -> str:
    from lbnn import __version__  # not above: `lbnn` itself may import this module

    return __version__


# ---------------------------------------------------------------------- arrays


def _encode_array(name: str, array: AnyArray) -> bytes:
    """An array of any shape as a .npy file, little-endian, in its own memory order.

    Products of matrices depend on the memory order.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"array names are words joined by '.' or '/', got {name!r}")
    if not isinstance(array, np.ndarray) or not _PLAIN.fullmatch(_little(array.dtype).str):
        given = f"dtype {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"array {name!r} must be a NumPy array of numbers or booleans, got {given}")
    buffer = io.BytesIO()
    plain = np.asarray(array).astype(_little(array.dtype), copy=False)
    np.lib.format.write_array(buffer, plain, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _describe(array: AnyArray, entry: bytes) -> dict[str, Any]:
    """What the header says of an array of any shape."""
    return {
        "dtype": _little(array.dtype).str,
        "shape": list(array.shape),
        "fortran_order": array.flags.f_contiguous and not array.flags.c_contiguous,  # columns together
        "sha256": _digest(entry),
    }


def _decode_array(name: str, about: dict[str, Any], entry: bytes) -> AnyArray:
    """The array, of any shape, of a .npy file that is what the header says, in memory of its own.

    The file's own preamble is compared with the one expected and never evaluated.
    """
    if _digest(entry) != about["sha256"]:
        raise ValueError(f"array {name!r} was altered: the digest does not match")
    if not _PLAIN.fullmatch(about["dtype"]):
        raise ValueError(f"array {name!r} must hold numbers or booleans, got dtype {about['dtype']!r}")
    dtype, shape, fortran = np.dtype(about["dtype"]), tuple(about["shape"]), about["fortran_order"]
    (length,) = struct.unpack_from("<H", entry, len(_NPY_MAGIC))
    start = len(_NPY_MAGIC) + 2
    preamble, data = entry[start : start + length].decode("ascii"), entry[start + length :]
    expected = f"{{'descr': {dtype.str!r}, 'fortran_order': {fortran!r}, 'shape': {shape!r}, }}"
    if not entry.startswith(_NPY_MAGIC) or preamble.rstrip() != expected:
        raise ValueError(f"array {name!r} is not the plain array that the header describes")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"array {name!r} declares another size than it has")
    flat = np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))
    return flat.reshape(shape, order="F" if fortran else "C")


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<")
