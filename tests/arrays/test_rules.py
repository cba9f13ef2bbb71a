"""Rules for arrays: one library on one device, double precision, no gradients, memory given back."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import lbnn
from lbnn._base import arrays
from lbnn._base.arrays import HOST, Device, device_of, to_numpy
from tests.helpers.libraries import device, every_library, put
from tests.helpers.problems import make_problem

DATA = make_problem(6, 9, seed=5)
NETWORK = lbnn.Network((4,))


@every_library
def test_arrays_of_two_libraries_are_refused(library: str) -> None:
    X, y, X_test = put(DATA.X, library), put(DATA.Y, library), put(DATA.X_test, library)
    with pytest.raises(ValueError, match="X and Y must be arrays of one library on one device"):
        NETWORK.condition(X, DATA.Y, 4.0)
    with pytest.raises(ValueError, match="got X of NumPy, Y of"):
        NETWORK.condition(DATA.X, y, 4.0)
    with pytest.raises(ValueError, match="X and X_test must be arrays of one library"):
        NETWORK.condition(X, y, 4.0).predict(DATA.X_test)
    with pytest.raises(ValueError, match="X and X_test must be arrays of one library"):
        NETWORK.condition(DATA.X, DATA.Y, 4.0).predict(X_test)
    gram = put(DATA.X @ DATA.X.T, library)
    with pytest.raises(ValueError, match="gram and Y must be arrays of one library"):
        NETWORK.condition_gram(gram, DATA.Y, 4.0)
    with pytest.raises(ValueError, match="gram and cross_gram and test_gram"):
        NETWORK.condition_gram(gram, y, 4.0).predict(DATA.X_test @ DATA.X.T, put(np.eye(3), library))


def test_two_devices_of_one_library_are_refused() -> None:
    import array_api_strict

    other = array_api_strict.asarray(DATA.Y, device=array_api_strict.Device("device1"))
    with pytest.raises(ValueError, match=r"Y of array_api_strict on .*device1"):
        NETWORK.condition(put(DATA.X, "array_api_strict"), other, 4.0)


def test_the_array_standard_of_2023_is_enough() -> None:
    """Libraries need not have more, such as count_nonzero."""
    import array_api_strict

    X, y = put(DATA.X, "array_api_strict"), put(DATA.Y, "array_api_strict")
    with array_api_strict.ArrayAPIStrictFlags(api_version="2023.12"):
        post = NETWORK.condition(X, y, 4.0)
        mean = post.predict(put(DATA.X_test, "array_api_strict")).mean
    expected = NETWORK.condition(DATA.X, DATA.Y, 4.0)
    assert post.log_evidence == pytest.approx(expected.log_evidence, rel=1e-12)
    np.testing.assert_allclose(to_numpy(mean), expected.predict(DATA.X_test).mean, rtol=1e-10)


@every_library
def test_other_precisions_are_taken_as_double(library: str) -> None:
    xp, X = device(library).xp, np.round(4 * DATA.X)
    expected = NETWORK.condition(X, DATA.Y, 4.0).log_evidence
    for dtype in (xp.float32, xp.int64):
        got = NETWORK.condition(xp.astype(put(X, library), dtype), put(DATA.Y, library), 4.0)
        assert got.log_evidence == pytest.approx(expected, rel=1e-12)
        assert got.predict().mean.dtype == xp.float64


@every_library
def test_bad_values_are_refused_as_with_numpy(library: str) -> None:
    xp, y = device(library).xp, put(DATA.Y, library)
    broken = DATA.X.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ValueError, match="X must be finite, got 1 NaN"):
        NETWORK.condition(put(broken, library), y, 4.0)
    with pytest.raises(TypeError, match="X must be an array of real numbers"):
        NETWORK.condition(xp.astype(put(DATA.X, library), xp.complex128), y, 4.0)
    with pytest.raises(ValueError, match=r"X must be two-dimensional and not empty, got X.shape=\(6,\)"):
        NETWORK.condition(put(DATA.X[:, 0], library), y, 4.0)
    with pytest.raises(ValueError, match=r"Y must have shape .* got Y.shape=\(5,\)"):
        NETWORK.condition(put(DATA.X, library), put(DATA.Y[:5], library), 4.0)
    with pytest.raises(ValueError, match="n0 = 9 columns"):
        NETWORK.condition(put(DATA.X, library), y, 4.0).predict(put(DATA.X_test[:, :4], library))
    with pytest.raises(ValueError, match="gram must be symmetric"):
        NETWORK.condition_gram(put(DATA.X[:, :6], library), y, 4.0)
    with pytest.raises(ValueError, match="positive semi-definite"):
        NETWORK.condition_gram(put(-np.eye(6), library), y, 4.0)
    with pytest.raises(ValueError, match=r"between 1e-100 and 1e\+100.*rescale X"):
        NETWORK.condition(put(1e160 * DATA.X, library), y, 4.0)


@every_library
def test_later_changes_of_the_inputs_change_nothing(library: str) -> None:
    if library in ("jax",):
        pytest.skip("JAX arrays do not change")
    X = put(DATA.X.copy(), library)
    post = NETWORK.condition(X, put(DATA.Y, library), 4.0)
    before = to_numpy(post.predict(put(DATA.X_test, library)).mean).copy()
    X[0, 0] = 1e6
    np.testing.assert_array_equal(to_numpy(post.predict(put(DATA.X_test, library)).mean), before)


@pytest.mark.slow
def test_tensors_that_ask_for_gradients_are_refused() -> None:
    X = put(DATA.X, "torch").requires_grad_()
    with pytest.raises(ValueError, match=r"must not require gradients.*use X.detach\(\)"):
        NETWORK.condition(X, put(DATA.Y, "torch"), 4.0)


@pytest.mark.slow
def test_jax_with_single_precision_is_told_how_to_change_that() -> None:
    jax = pytest.importorskip("jax")
    device("jax")
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64():
        X = jax.numpy.asarray(DATA.X, dtype="float32")
        with pytest.raises(ValueError, match="jax_enable_x64"):
            NETWORK.condition(X, jax.numpy.asarray(DATA.Y, dtype="float32"), 4.0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(arrays._NAMESPACES, "array_api_strict", "no_such_package")
    arrays._namespace.cache_clear()
    with pytest.raises(ImportError, match=r"needs array-api-compat: pip install .*\[arrays\]'"):
        arrays.namespace(put_plain())
    monkeypatch.undo()
    arrays._namespace.cache_clear()


def put_plain() -> Any:
    import array_api_strict

    return array_api_strict.asarray(DATA.X)


class OutOfMemoryError(RuntimeError):
    """As PyTorch and CuPy call it."""


def test_out_of_memory_says_how_much_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []

    def eigh(matrix: Any, overwrite: bool = False) -> Any:
        large = np.zeros(1000).view(Watched)
        kept.append(weakref.ref(large))
        raise OutOfMemoryError(f"no room for {large.nbytes}")

    monkeypatch.setattr("lbnn.data.decomposition.eigh", eigh)
    with pytest.raises(
        MemoryError, match=r"eigendecomposition of XXᵀ/n0 \(6 × 6\) needs about 1.44e-06 GB"
    ) as error:
        NETWORK.condition(DATA.X, DATA.Y, 4.0)
    assert error.value.__context__ is None
    gc.collect()
    assert kept[0]() is None


class Watched(np.ndarray):
    """An array that can be watched for its end."""


def test_other_errors_pass_through() -> None:
    def broken() -> None:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        arrays.within_memory(broken, HOST, 1.0, "nothing")


@every_library
def test_helpers(library: str) -> None:
    """Small pieces against NumPy, on the library's arrays and on NumPy's own branch."""
    rng = np.random.default_rng(0)
    matrices, values = rng.normal(size=(3, 4, 4)), rng.normal(size=(3, 4))
    places = np.array([2, 0, 1])
    root = np.tril(rng.normal(size=(4, 4))) + 4 * np.eye(4)
    for where in (library, "numpy"):
        there = device(where)
        got = arrays.add_to_diagonal(there.put(matrices.copy()), there.put(values))
        np.testing.assert_allclose(to_numpy(got), matrices + values[:, None, :] * np.eye(4))
        wide = there.put(values.copy())
        for axis, expected in ((0, values[places]), (1, values[:, places])):
            for index in (places, there.put(places)):
                np.testing.assert_array_equal(to_numpy(arrays.take(wide, index, axis)), expected)
        np.testing.assert_allclose(to_numpy(arrays.cholesky(there.put(root @ root.T))), root, rtol=1e-12)
        assert arrays.cholesky(there.put(-np.eye(3))) is None
        np.testing.assert_allclose(arrays.row_squares(there.put(values)), (values**2).sum(axis=1))
        assert arrays.largest(there.put(-values)) == np.abs(values).max()
        np.testing.assert_array_equal(to_numpy(there.zeros(2, 3)), np.zeros((2, 3)))


def test_places_are_told_by_name() -> None:
    assert str(HOST) == "NumPy"
    assert device_of([[1.0]]) == HOST
    assert str(Device("torch", "cuda:0")) == "torch on cuda:0"
    backwards = np.arange(3.0)[::-1]
    backwards.flags.writeable = False
    assert to_numpy(device("array_api_strict").put(backwards)).tolist() == [2.0, 1.0, 0.0]
