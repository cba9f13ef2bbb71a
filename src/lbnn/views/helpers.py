"""Views of inputs: tasks, gates, patches of images, attention paths."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lbnn._base import check
from lbnn._base.types import Array


def tasks(X: ArrayLike, task: ArrayLike, number: int | None = None) -> Array:
    """Views for several tasks with rows of their own: row μ is an observation of task `task[μ]`.

    Parameters
    ----------
    X : (p, n0)
    task : (p,) of int
        Number of the task that each row belongs to, from 0.
    number : int, optional
        Of tasks; one more than the largest of `task` by default.

    Returns
    -------
    (p, number, n0) array
        x in the columns of its task, zeros in the others.

    Examples
    --------
    >>> import lbnn
    >>> lbnn.views.tasks([[1.0, 2.0], [3.0, 4.0]], [1, 0])
    array([[[0., 0.],
            [1., 2.]],
    <BLANKLINE>
           [[3., 4.],
            [0., 0.]]])
    """
    inputs = check.matrix(X, "X")
    labels = check.real_array(task, "task")
    if labels.shape != inputs.shape[:1] or (labels < 0).any() or (labels != np.floor(labels)).any():
        raise ValueError(
            f"task must hold one whole number from 0 for each of the {len(inputs)} rows, got "
            f"{f'task.shape={labels.shape}' if labels.shape != inputs.shape[:1] else 'others'}"
        )
    count = int(labels.max()) + 1 if number is None else check.positive_integer(number, "number")
    if labels.max() >= count:
        raise ValueError(f"task must be below the number of tasks, {count}, got {int(labels.max())}")
    views = np.zeros((len(inputs), count, inputs.shape[1]))
    views[np.arange(len(inputs)), labels.astype(int)] = inputs
    return views


def gates(X: ArrayLike, gates: ArrayLike) -> Array:
    """Views of a gated linear network: ψ_m(x) = g_m(x) x.

    With gates that are 0 or 1 the function is linear where the gates are constant.

    Parameters
    ----------
    X : (p, n0)
    gates : (p, M)
        g_m(x_μ), any numbers.

    Returns
    -------
    (p, M, n0) array

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> x = np.linspace(-1, 1, 5)[:, None]
    >>> X = np.hstack([x, np.ones_like(x)])  # with a constant: pieces need not pass through the origin
    >>> lbnn.views.gates(X, np.hstack([x > 0, x <= 0])).shape
    (5, 2, 2)
    """
    inputs, factors = check.matrix(X, "X"), check.matrix(gates, "gates")
    if len(factors) != len(inputs):
        raise ValueError(
            f"gates must have a row for each of the {len(inputs)} rows of X, got gates.shape={factors.shape}"
        )
    return factors[:, :, None] * inputs[:, None, :]


def patches(images: ArrayLike, size: Any, stride: Any = 1) -> Array:
    """Views of one convolutional layer with a dense readout: ψ_m(x) is patch m of the image.

    Parameters
    ----------
    images : (p, height, width), (p, height, width, colours) or (p, length)
        Images with or without colours, or signals of one dimension.
    size : int or pair of int
        Of a patch.
    stride : int or pair of int
        From one patch to the next.

    Returns
    -------
    (p, M, n0) array
        M positions, row by row; n0 numbers of each patch.

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> lbnn.views.patches(np.zeros((10, 28, 28)), size=7, stride=7).shape
    (10, 16, 49)
    >>> lbnn.views.patches(np.zeros((10, 12)), size=4, stride=2).shape
    (10, 5, 4)
    """
    array = check.real_array(images, "images")
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ValueError(
            "images must have shape (p, height, width), (p, height, width, colours) or (p, length), got "
            f"images.shape={array.shape}"
        )
    extent = array.shape[1 : min(array.ndim, 3)]
    sizes, steps = _pair(size, len(extent), "size"), _pair(stride, len(extent), "stride")
    if any(each > whole for each, whole in zip(sizes, extent, strict=True)):
        raise ValueError(f"patches must not be larger than the images, {extent}, got size={size!r}")
    axes = tuple(range(1, 1 + len(extent)))
    windows = np.lib.stride_tricks.sliding_window_view(array, sizes, axis=axes)
    chosen = windows[:, *(slice(None, None, step) for step in steps)]
    positions = int(np.prod(chosen.shape[1 : 1 + len(extent)]))
    return chosen.reshape(len(array), positions, -1).copy()


def paths(tokens: ArrayLike, attention: ArrayLike) -> Array:
    """Views of attention paths: ψ_m(x) = Σ_s a_ms x_s, with fixed attention.

    Parameters
    ----------
    tokens : (p, S, n0)
        S tokens of n0 numbers for each example.
    attention : (M, S), or (p, M, S)
        Weights of the tokens on each of M paths, the same for all examples or one matrix for each.

    Returns
    -------
    (p, M, n0) array

    Examples
    --------
    >>> import numpy as np, lbnn
    >>> lbnn.views.paths(np.ones((10, 6, 3)), np.full((2, 6), 1 / 6)).shape
    (10, 2, 3)
    """
    sequence, weights = check.real_array(tokens, "tokens"), check.real_array(attention, "attention")
    if sequence.ndim != 3 or 0 in sequence.shape:
        raise ValueError(f"tokens must have shape (p, S, n0), got tokens.shape={sequence.shape}")
    expected = sequence.shape[1]
    if weights.ndim not in (2, 3) or weights.shape[-1] != expected or 0 in weights.shape:
        raise ValueError(
            f"attention must have shape (M, S) or (p, M, S) with S = {expected} tokens, got "
            f"attention.shape={weights.shape}"
        )
    if weights.ndim == 3 and len(weights) != len(sequence):
        raise ValueError(
            f"attention must have one matrix for each of the {len(sequence)} examples, got {len(weights)}"
        )
    return np.asarray(weights @ sequence)


def _pair(value: Any, count: int, name: str) -> tuple[int, ...]:
    """One positive integer for each dimension of an image."""
    if isinstance(value, numbers.Real):
        return (check.positive_integer(value, name),) * count
    pair = tuple(check.positive_integer(each, name) for each in value)
    if len(pair) != count:
        raise ValueError(f"{name} must be one integer or {count} of them, got {value!r}")
    return pair
