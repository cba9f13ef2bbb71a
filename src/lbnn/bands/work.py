"""Blocks of targets: who computes them, and a folder that keeps those that are finished.

A block is one file, written in one step, so that a run that is killed loses the blocks that it was at, and
no others. The folder belongs to one set of data, priors and settings, by a digest of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lbnn._base.arrays import device_of, to_numpy
from lbnn._base.files import write_atomically
from lbnn._base.progress import Progress
from lbnn._base.types import AnyArray, Array
from lbnn.bands.block_posterior import BlockPosterior
from lbnn.bands.data import BandKernels, targets_in_units
from lbnn.bands.inference import infer_block
from lbnn.bands.options import BandsOptions
from lbnn.bands.prior import BandPriors

_IDENTITY = "identity.txt"


@dataclass(frozen=True)
class Work:
    """What is the same for all blocks."""

    kernels: BandKernels
    priors: BandPriors
    given_noise: bool
    options: BandsOptions

    def block(self, number: int, Y: AnyArray, units: Array, say: Any = None) -> BlockPosterior:
        """The posterior of one block of targets (p, v)."""
        own = np.random.SeedSequence([self.options.seed, number]).generate_state(1, np.uint64)[0]
        options = replace(self.options, seed=int(own >> np.uint64(1)))  # a seed for each block
        if say is not None:
            options = replace(options, say=say)
        targets = targets_in_units(Y, units, self.given_noise, self.kernels)
        return infer_block(self.kernels, targets, self.priors, options)

    def digest(self, Y: AnyArray, units: Array, parts: Sequence[slice]) -> str:
        """What a folder of finished blocks belongs to, for Y (p, V) and units (V,)."""
        found = hashlib.blake2b(digest_size=16)
        for gram in self.kernels.grams:
            found.update(np.ascontiguousarray(to_numpy(gram)).tobytes())
        found.update(np.ascontiguousarray(to_numpy(Y)).tobytes())
        found.update(np.ascontiguousarray(units).tobytes())
        found.update(self.kernels.sizes.tobytes())
        laws = [(law.widths, law.shift) for law in self.priors.laws]
        options = (self.options.target_error, self.options.most_directions, self.options.seed)
        found.update(
            repr((laws, self.given_noise, options, [(part.start, part.stop) for part in parts])).encode()
        )
        return found.hexdigest()


def run_blocks(
    work: Work, Y: AnyArray, units: Array, parts: Sequence[slice], store: Any, client: Any, progress: bool
) -> list[BlockPosterior]:
    """The posteriors of all blocks of Y (p, V): from the store, or computed here or on a cluster."""
    found: dict[int, BlockPosterior] = {}
    folder = None if store is None else _Folder(Path(store), work.digest(Y, units, parts))
    if folder is not None:
        found = folder.finished(len(parts), work.kernels)
    waiting = [number for number in range(len(parts)) if number not in found]
    if client is not None:
        _run_with(client, work, Y, units, parts, waiting, found, folder)
        return [found[number] for number in range(len(parts))]
    line = Progress() if progress else None
    try:
        for number in waiting:
            prefix = f"block {number + 1} of {len(parts)}, " if len(parts) > 1 else ""
            say = None if line is None else (lambda text, prefix=prefix: line.say(prefix + text))
            found[number] = work.block(number, Y[:, parts[number]], units[parts[number]], say)
            if folder is not None:
                folder.keep(number, found[number])
    finally:
        if line is not None:
            line.close()
    return [found[number] for number in range(len(parts))]


def _run_with(
    client: Any, work: Work, Y: AnyArray, units: Array, parts: Any, waiting: Any, found: Any, folder: Any
) -> None:
    """On a Dask cluster: the kernels are sent once, every block of Y (p, V) is a task."""
    from distributed import as_completed

    if not device_of(Y).host:
        raise ValueError(f"a client computes with NumPy arrays, got {device_of(Y)}: leave client out")
    shared = client.scatter(replace(work, options=replace(work.options, say=_silent)), broadcast=True)
    running = {
        client.submit(_task, shared, number, Y[:, parts[number]], units[parts[number]], pure=False): number
        for number in waiting
    }
    try:
        for future in as_completed(list(running)):
            number = running.pop(future)
            found[number] = future.result()
            if folder is not None:
                folder.keep(number, found[number])
    finally:
        client.cancel(list(running))


def _task(work: Work, number: int, Y: Array, units: Array) -> BlockPosterior:
    """The posterior of one block Y (p, v) with units (v,)."""
    return work.block(number, Y, units)


def _silent(message: str) -> None:
    """Report nothing."""


class _Folder:
    """Finished blocks, one file of arrays each."""

    def __init__(self, path: Path, digest: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        identity = path / _IDENTITY
        if identity.exists() and identity.read_text(encoding="utf-8").strip() != digest:
            raise ValueError(
                f"a store keeps the blocks of one set of data, networks and settings, got {os.fspath(path)}, "
                "which has those of another: give another folder, or remove it"
            )
        if not identity.exists():
            write_atomically(identity, lambda file: file.write_text(digest, encoding="utf-8"))

    def finished(self, count: int, kernels: BandKernels) -> dict[int, BlockPosterior]:
        """Blocks that are there; a file that cannot be read is computed again."""
        found = {}
        for number in range(count):
            try:
                with np.load(self._file(number), allow_pickle=False) as arrays:
                    posterior = BlockPosterior.of_arrays(dict(arrays))
            except (OSError, ValueError, KeyError, TypeError, EOFError):
                continue
            there = kernels.device.put(posterior.dual_coefficients)
            found[number] = replace(posterior, dual_coefficients=there)
        return found

    def keep(self, number: int, posterior: BlockPosterior) -> None:
        values = posterior.arrays()
        write_atomically(self._file(number), lambda file: _save(file, values))

    def _file(self, number: int) -> Path:
        return self.path / f"block-{number:06d}.npz"


def _save(file: Path, values: dict[str, Array]) -> None:
    with file.open("wb") as handle:
        np.savez(handle, **values)  # type: ignore[arg-type]
