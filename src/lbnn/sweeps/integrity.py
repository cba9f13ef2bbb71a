"""What must not change in a store after it was made: metadata and coordinates, by their digests.

The metadata of the group hold the digest of every other file that a new store has (metadata of the
variables, and the coordinates), and one of themselves. Chunks of data have checksums of zarr's own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lbnn._base.files import text_writer, write_atomically

SPECIFICATION = "lbnn_sweep"
_CHECKSUMS, _DIGEST = "checksums", "digest"
_ROOT = "zarr.json"


class StoreError(OSError):
    """A store cannot be read or written."""


class DamagedError(StoreError):
    """Metadata of variables or coordinates are missing or altered; the specification gives them again."""

    def __init__(self, store: Path, files: Sequence[str]) -> None:
        self.files = tuple(files)
        super().__init__(
            f"metadata and coordinates of {store} must be as they were written, got {len(files)} missing or "
            f"altered, the first {store / files[0]}: the sweep with retry_failed=True writes them again"
        )


def seal(store: Path, again: Sequence[str] | None = None) -> None:
    """Write the digests of a store that holds no data yet; `again`: of some of its files only."""
    root = _read_root(store)
    attributes = root["attributes"]
    if again is None:
        files = (path for path in store.rglob("*") if path.is_file() and path != store / _ROOT)
        attributes[_CHECKSUMS] = {
            path.relative_to(store).as_posix(): _digest_of(path) for path in sorted(files)
        }
    else:
        attributes[_CHECKSUMS].update({name: _digest_of(store / name) for name in again})
    _write_root(store, root)


def update(store: Path, attributes: dict[str, Any]) -> None:
    """Attributes of a store that exists, with its digest, in one step."""
    root = _read_root(store)
    root["attributes"].update(attributes)
    _write_root(store, root)


def verified(store: Path) -> dict[str, Any]:
    """The attributes of a store whose metadata and coordinates are as they were written.

    Raises
    ------
    DamagedError
        If files that the specification gives again are missing or were altered.
    StoreError
        If this is no store, or its own metadata cannot be trusted.
    """
    root = _read_root(store)
    attributes: dict[str, Any] = root["attributes"]
    if _CHECKSUMS not in attributes or _DIGEST not in attributes:
        raise StoreError(
            f"{store} must have checksums of its metadata, got a store of an earlier version of lbnn: "
            "compute it again, or read it with xarray.open_zarr"
        )
    if attributes[_DIGEST] != _digest_of_root(root):
        raise StoreError(_beyond_repair(store, "they were altered"))
    damaged = [name for name, digest in attributes[_CHECKSUMS].items() if not _is(store / name, digest)]
    if damaged:
        raise DamagedError(store, damaged)
    return attributes


def _read_root(store: Path) -> dict[str, Any]:
    """The metadata of the group."""
    file = store / _ROOT
    try:
        content = file.read_bytes()
    except OSError as problem:
        raise StoreError(f"{store} must be the store of a sweep, got {problem}") from problem
    try:
        root = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise StoreError(_beyond_repair(store, f"no JSON ({problem})")) from problem
    attributes = root.get("attributes") if isinstance(root, dict) else None
    if not isinstance(attributes, dict) or not isinstance(attributes.get(SPECIFICATION), str):
        raise StoreError(f"{store} must be the store of a sweep, got a zarr store of something else")
    return root


def _beyond_repair(store: Path, what: str) -> str:
    return (
        f"the metadata {store / _ROOT} must be as they were written, got {what}: take the file from a copy "
        "of the store, or compute the sweep again into another one"
    )


def _write_root(store: Path, root: dict[str, Any]) -> None:
    root["attributes"][_DIGEST] = _digest_of_root(root)
    text = json.dumps(root, indent=2, ensure_ascii=False)
    write_atomically(store / _ROOT, text_writer(text))


def _digest_of_root(root: dict[str, Any]) -> str:
    attributes = {name: value for name, value in root["attributes"].items() if name != _DIGEST}
    text = json.dumps({**root, "attributes": attributes}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _is(file: Path, digest: str) -> bool:
    try:
        return _digest_of(file) == digest
    except OSError:
        return False
