"""Noise by name: from the user's words, and from the header of a file."""

from __future__ import annotations

import difflib
from numbers import Real
from typing import Any

from lbnn._base.types import Array
from lbnn.data.spectrum import Spectrum
from lbnn.noise.coupled import CoupledNoise
from lbnn.noise.covariance import NoiseCovariance
from lbnn.noise.independent import IndependentNoise
from lbnn.noise.kind import Noise
from lbnn.noise.per_output import PerOutputNoise

#: Every kind of noise by its name.
KINDS: dict[str, type[Noise]] = {
    kind.kind: kind for kind in (IndependentNoise, PerOutputNoise, CoupledNoise, NoiseCovariance)
}


def noise_kind(name: Any) -> str:
    """The name of a kind of noise, if it is one."""
    if isinstance(name, str) and name in KINDS:
        return name
    hint = ""
    if isinstance(name, str):
        near = difflib.get_close_matches(name, KINDS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
    elif isinstance(name, Real) and not isinstance(name, bool) and float(name) > 0:
        hint = f": a noise variance of {float(name):g} is given as beta={1 / float(name):g}"
    raise ValueError(f"noise must be one of {tuple(KINDS)}, got {name!r}{hint}")


def make_noise(name: str, beta: Any, spectrum: Spectrum) -> Noise:
    """The noise of that name with the user's beta, for these data."""
    kind = noise_kind(name)
    if beta is None and kind != NoiseCovariance.kind:
        raise TypeError(
            "beta is needed: the noise variance of the targets is 1/beta, and beta=math.inf is for targets "
            "without noise, got none. If the noise is not known, LBNNRegressor chooses it by evidence"
        )
    return KINDS[kind].of(beta, spectrum)


def unpack_noise(header: dict[str, Any], arrays: dict[str, Array]) -> Noise:
    """The noise that was `packed`."""
    if header["kind"] not in KINDS:
        raise ValueError(f"the kind of noise must be one of {tuple(KINDS)}, got {header['kind']!r}")
    return KINDS[header["kind"]].unpacked(header, arrays)
