"""The container: a zip file of plain arrays and one JSON header.

Entries are stored, never compressed, so that equal content gives equal bytes and no entry can be larger than
the file that holds it. Damage to an entry is found by the zip's own checksum (CRC-32); arrays are read by
`numpy.load` without pickles, once their declared size is that of their bytes.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbnn._base.files import bytes_writer, write_atomically

AnyArray = NDArray[Any]

FORMAT = "lbnn archive"
VERSION = 5
_HEADER = "header.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever written
_PLAIN = re.compile(r"\|[biu]1|<[iufc](2|4|8|16)")  # dtypes: booleans and numbers of the same size anywhere
_NAME = re.compile(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*")


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
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "lbnn": _library_version(),
        "content": dict(header),
        "arrays": sorted(arrays),
    }
    encoded = json.dumps(manifest, sort_keys=True, separators=(",", ":"), default=_refuse)
    entries = {_HEADER: encoded.encode()}
    entries |= {f"{name}.npy": _encode_array(name, array) for name, array in sorted(arrays.items())}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            file.writestr(entry, content)
    return buffer.getvalue()


def decode(content: bytes, kind: str) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Header and arrays of the bytes of an archive; an exception of any kind if they are not one."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        infos = file.infolist()
        plain = all(info.compress_type == zipfile.ZIP_STORED for info in infos)
        if not plain or sum(info.file_size for info in infos) > len(content):
            raise ValueError("it has compressed entries, or declares more data than it contains")
        entries = {info.filename: file.read(info) for info in infos}
    if len(entries) < len(infos):
        raise ValueError("it holds an entry twice")
    manifest = _checked_manifest(entries.pop(_HEADER, b""), kind)
    if set(entries) != {f"{name}.npy" for name in manifest["arrays"]}:
        raise ValueError("its arrays are not those that its header lists")
    arrays = {name: _decode_array(name, entries[f"{name}.npy"]) for name in manifest["arrays"]}
    return dict(manifest["content"]), arrays


def _checked_manifest(encoded: bytes, kind: str) -> dict[str, Any]:
    """The header, if it is of this format and version, and of the kind asked for."""
    try:
        manifest = json.loads(encoded.decode("utf-8"))
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
    if manifest["kind"] != kind:
        raise ValueError(f"it holds a {manifest['kind']!r} and a {kind!r} was asked for")
    return manifest


def _refuse(value: Any) -> None:
    raise ValueError(
        f"a header holds None, booleans, numbers, strings, lists and dicts, got {type(value).__name__}"
    )


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
    if not isinstance(array, np.ndarray) or not _PLAIN.fullmatch(array.dtype.newbyteorder("<").str):
        given = f"dtype {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"array {name!r} must be a NumPy array of numbers or booleans, got {given}")
    buffer = io.BytesIO()
    plain = np.asarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    np.lib.format.write_array(buffer, plain, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _decode_array(name: str, entry: bytes) -> AnyArray:
    """The array, of any shape, of a .npy file that holds as many plain numbers as it declares."""
    stream = io.BytesIO(entry)
    np.lib.format.read_magic(stream)
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if not _PLAIN.fullmatch(dtype.str):
        raise ValueError(f"array {name!r} must hold numbers or booleans, got dtype {dtype}")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(entry) - stream.tell():
        raise ValueError(f"array {name!r} declares another size than it has")
    array: AnyArray = np.load(io.BytesIO(entry), allow_pickle=False)
    return array.astype(dtype.newbyteorder("="), copy=False)
