"""`condition_sum`: networks, their kernels and a table to a posterior."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array, Mask
from lbnn._base.warn import warn_of
from lbnn.data.examples import example_vectors
from lbnn.data.missing import checked_table
from lbnn.data.spectrum import Spectrum
from lbnn.sums.chain import Block
from lbnn.sums.draws import Draws
from lbnn.sums.effort import sample
from lbnn.sums.posterior import SumPosterior
from lbnn.sums.table import Table

#: Standard error of the log evidence aimed at by default: differences of half a nat do not change a choice.
TARGET_ERROR = 0.5
#: Columns of all narrowest layers together, beyond which arrays of K² numbers for every row and particle, and
#: the moves of matrices (K, K), take minutes.
_MOST_COLUMNS = 64
#: Units k of the narrowest layer up to which `Network.condition` takes a table with missing cells this way,
#: and the observed cells from which it does so: in general, and from k = 3. The other engines answer 625
#: cells of three outputs (k = 1) in 16 s, growing with the cube of the cells, and 525 of ten (k = 2) in 12 s,
#: to 0.02; with k = 3, 502 cells of six outputs took 25 s, 560 of eight 45 s, and neither was ok.
_MOST_NARROW, _MANY_CELLS, _FEWEST_CELLS = 8, 1000, 400
_IDENTITY = 1e-12  # relative size of entries off the diagonal, and of its differences, that are rounding


class DeepNetwork(Protocol):
    """What is used of `lbnn.Network`."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Hidden widths."""
        ...

    @property
    def prior_variances(self) -> tuple[float, ...]:
        """One for each layer."""
        ...


def condition_sum(
    networks: Sequence[DeepNetwork],
    blocks: Sequence[ArrayLike | None],
    Y: ArrayLike,
    noise_variance: float | ArrayLike | None = None,
    *,
    beta: float | ArrayLike | None = None,
    observed: ArrayLike | None = None,
    kernels: bool = False,
    target_error: float = TARGET_ERROR,
    seed: int | np.random.SeedSequence | np.random.Generator = 0,
) -> SumPosterior:
    """Condition a sum of narrow networks, each on inputs of its own, on the observed cells of a table.

    Y = Σ_b network_b(X_b) + noise. Outputs are coupled in every network. Two networks, one on the inputs and
    one on the identity (None), describe a table whose rows share more than their inputs explain.

    Parameters
    ----------
    networks : sequence of Network
        Each with at least one hidden layer.
    blocks : sequence of (p, n_b), or of (p, p) with kernels=True, or None
        Inputs of every network, or kernels; None is the identity, where every row has an input of its own.
    Y : (p,) or (p, n_d)
        Targets, without a level: centre them. Anything where not observed.
    noise_variance : float or (n_d,), optional
        The variance of the noise, of all outputs or of each. By default every output has its own, which is
        sampled: a priori 1/τ_j ~ Gamma(2, rate m_j/2), m_j the mean square of the observed cells of output j,
        so that τ_j has the mean m_j/2 and follows the units of the output. The networks' prior then follows
        it too: the weights into output j have variance τ_j times that of the network, so that a network
        states a ratio of signal to noise. The log evidence has all of them integrated out.
    beta : float or (n_d,), optional
        The inverse of noise_variance; only one of the two may be given.
    observed : (p, n_d) of bool, optional
        Which targets were observed; by default all. Every row and every output needs one.
    kernels : bool
        Whether `blocks` are kernel matrices.
    target_error : float
        Standard error of the log evidence aimed at, below one.
    seed : int, numpy.random.SeedSequence or numpy.random.Generator

    Returns
    -------
    SumPosterior
        An answer that is not `diagnostics.ok` warns.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 5))
    >>> Y = X @ rng.normal(size=(5, 1)) @ rng.normal(size=(1, 4)) + 0.5 * rng.normal(size=(30, 4))
    >>> observed = rng.random((30, 4)) < 0.7
    >>> observed[:, 0] |= ~observed.any(axis=1)
    >>> post = lbnn.condition_sum([lbnn.Network((1,)), lbnn.Network((1,))], [X, None], Y, observed=observed)
    >>> post.cells.mean.shape, post.share_mean.shape, post.impute().shape
    ((30, 4), (2, 4), (30, 4))
    >>> post.predict([rng.normal(size=(3, 5)), None]).with_noise().variance.shape
    (3, 4)
    """
    error = float(check.probability(target_error, "target_error"))
    listed, given = _checked_networks(networks, blocks)
    targets, mask, single = _checked_targets(Y, observed)
    variances = _noise_variances(noise_variance, beta, targets.shape[1])
    _require_signal(targets, mask, variances)
    parts = [
        _block(network, block, targets, kernels, number)
        for number, (network, block) in enumerate(zip(listed, given, strict=True))
    ]
    narrow = tuple(block for block, _ in parts)
    return conditioned(
        narrow,
        tuple(each for _, each in parts),
        kernels,
        targets,
        mask,
        variances,
        single,
        error,
        check.seed(seed),
    )


def conditioned(
    blocks: tuple[Block, ...],
    spectra: tuple[Spectrum | None, ...],
    kernels: bool,
    targets: Array,
    observed: Mask,
    variances: Array | None,
    single_output: bool,
    target_error: float,
    seed: int,
) -> SumPosterior:
    """The posterior of blocks given checked targets (p, n_d); answers that are not ok warn."""
    columns = sum(block.columns for block in blocks)
    if columns > _MOST_COLUMNS:
        raise ValueError(
            f"the narrowest layers may have {_MOST_COLUMNS} units together, got {columns}: use narrower "
            "networks"
        )
    table = Table.of(targets, observed, variances)
    found = sample(table, blocks, target_error, seed)
    warn_of(found.diagnostics.messages)
    return SumPosterior(
        blocks,
        spectra,
        kernels,
        np.where(observed, targets, np.nan),
        observed,
        single_output,
        found.path.log_evidence,
        found.log_evidence_error,
        found.diagnostics,
        Draws.of(table, blocks, found.path, seed),
    )


def _checked_networks(networks: Any, blocks: Any) -> tuple[list[DeepNetwork], list[Any]]:
    """Networks with hidden layers, and one block for each."""
    listed = list(networks) if isinstance(networks, Sequence) else []
    if not listed or not all(hasattr(each, "widths") and hasattr(each, "prior_variances") for each in listed):
        raise TypeError(f"networks must be a sequence of lbnn.Network, got {networks!r}")
    flat = [number for number, each in enumerate(listed) if not each.widths]
    if flat:
        raise ValueError(
            f"every network of a sum needs a hidden layer, got widths=() in networks {flat}: without one the "
            "outputs share nothing, and lbnn.Bands has a wide network for each of them"
        )
    given = list(blocks)
    if len(given) != len(listed):
        raise ValueError(f"there must be one block for each of {len(listed)} networks, got {len(given)}")
    return listed, given


def _checked_targets(Y: Any, observed: Any) -> tuple[Array, Mask, bool]:
    """Targets (p, n_d), what was observed, and whether Y was (p,)."""
    if observed is None:
        table = check.real_array(Y, "Y")
        if table.ndim not in (1, 2) or 0 in table.shape:
            raise ValueError(f"Y must have shape (p,) or (p, outputs), got Y.shape={table.shape}")
        mask = np.ones(table.shape, bool)
    else:
        table, mask = np.asarray(Y, float), np.asarray(observed)
    single = table.ndim == 1
    targets, partial = checked_table(table, mask)
    every = np.ones(targets.shape, bool) if partial is None else partial
    targets = np.where(every, targets, 0.0)
    check.size(float(np.abs(targets).max()), "Y")
    return targets, every, single


def _noise_variances(noise_variance: Any, beta: Any, outputs: int) -> Array | None:
    """Known variances (n_d,), or None."""
    if noise_variance is not None and beta is not None:
        raise ValueError("give noise_variance or its inverse beta, got both")
    name = "noise_variance" if beta is None else "beta"
    value = noise_variance if beta is None else beta
    if value is None:
        return None
    numbers = check.real_array(value, name)
    if numbers.shape not in ((), (outputs,)) or not (numbers > 0).all():
        raise ValueError(
            f"{name} must be a positive number, or one for each of {outputs} outputs, got {value!r}: a table "
            "without noise has no posterior of this kind"
        )
    return np.broadcast_to(numbers if beta is None else 1 / numbers, (outputs,)).astype(float)


def _require_signal(targets: Array, observed: Mask, variances: Array | None) -> None:
    """Raise where the unit of an unknown noise would be zero."""
    flat = np.flatnonzero((targets**2).sum(axis=0) == 0)
    if variances is None and len(flat):
        raise ValueError(
            "with unknown noise every output needs an observed target that is not zero, got zeros only in "
            f"outputs {flat.tolist()}: leave them out, or give noise_variance"
        )


def _block(
    network: DeepNetwork, given: Any, targets: Array, kernels: bool, number: int
) -> tuple[Block, Spectrum | None]:
    """A network on its inputs or kernel, or on the identity (None)."""
    p = len(targets)
    _require_narrow(network, p, f"network {number}")
    variance = math.prod(network.prior_variances)
    if given is None:
        return Block.of(network.widths, variance, np.ones(1), None, p), None
    name = f"kernel {number}" if kernels else f"block {number}"
    array = check.square_matrix(given, name) if kernels else check.matrix(given, name)
    if len(array) != p:
        raise ValueError(f"{name} must have the {p} rows of Y, got {name}.shape={tuple(array.shape)}")
    try:
        spectrum = Spectrum.from_gram(array, targets) if kernels else Spectrum.from_inputs(array, targets)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if spectrum.rank == 0:
        raise ValueError(f"{name} must not be zero, got zeros only: leave its network out")
    return spectrum_block(network.widths, variance, spectrum), spectrum


def _require_narrow(network: DeepNetwork, rows: int, name: str) -> None:
    """Raise where the narrowest layer is wider than the table is long, or there is none."""
    if min(network.widths, default=rows + 1) > rows:
        raise ValueError(
            f"the narrowest layer of a network may have as many units as there are rows, {rows}, got "
            f"widths={network.widths} in {name}"
        )


def spectrum_block(widths: Sequence[int], variance: float, spectrum: Spectrum) -> Block:
    """A network on decomposed data; a kernel that is a multiple of the identity is held as that."""
    values, p = spectrum.eigenvalues, spectrum.examples
    if len(values) == p and np.ptp(values) <= _IDENTITY * values.max():
        return Block.of(widths, variance, values, None, p)
    return Block.of(widths, variance, values, example_vectors(spectrum), p)


def by_chains(widths: Sequence[int], observed: Mask) -> bool:
    """Whether a table with missing cells goes this way: narrow, and too large for the other engines."""
    cells, outputs = int(observed.sum()), observed.shape[1]
    narrowest = min(widths, default=outputs)
    if narrowest >= min(outputs, _MOST_NARROW + 1):
        return False
    return cells >= (_FEWEST_CELLS if narrowest >= 3 else _MANY_CELLS)


def condition_block(
    network: DeepNetwork,
    spectrum: Spectrum,
    kernels: bool,
    targets: Array,
    observed: Mask,
    beta: Any,
    target_error: float,
    seed: int,
) -> SumPosterior:
    """The posterior of one network on decomposed data, with noise that is known, for `Network.condition`."""
    if beta is None:
        raise ValueError("missing targets need the inverse noise variance beta, got None")
    variances = _noise_variances(None, beta, targets.shape[1])
    _require_narrow(network, len(targets), "the network")
    block = spectrum_block(network.widths, math.prod(network.prior_variances), spectrum)
    return conditioned(
        (block,), (spectrum,), kernels, targets, observed, variances, False, target_error, seed
    )
