"""Noise by name: from the user's words, and from the header of a file."""

from __future__ import annotations

from typing import Any

from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.noise.coupled import CoupledNoise
from lbnn.noise.independent import IndependentNoise
from lbnn.noise.kind import Noise
from lbnn.noise.per_output import PerOutputNoise

#: Every kind of noise by its name.
KINDS: dict[str, type[Noise]] = {kind.kind: kind for kind in (IndependentNoise, PerOutputNoise, CoupledNoise)}


def make_noise(name: str, beta: Any, spectrum: Spectrum) -> Noise:
    """The noise of that name with the user's beta, for these data."""
    if not isinstance(name, str) or name not in KINDS:
        raise ValueError(f"noise must be one of {tuple(KINDS)}, got {name!r}")
    return KINDS[name].of(beta, spectrum)


def unpack_noise(header: dict[str, Any], arrays: dict[str, Array]) -> Noise:
    """The noise that was `packed`."""
    if header["kind"] not in KINDS:
        raise ValueError(f"the kind of noise must be one of {tuple(KINDS)}, got {header['kind']!r}")
    return KINDS[header["kind"]].unpacked(header, arrays)
