"""lbnn.sweep: every number against a plain loop, seeds from coordinates, errors kept, stores refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lbnn
from lbnn.sweeps import SweepQuantity, open_sweep
from lbnn.sweeps.axes import Axes, coordinate_seed
from lbnn.sweeps.chunk import batch
from lbnn.sweeps.plan import cut, signature
from lbnn.sweeps.store import Store, StoreError, locked

NETWORK_AXES = {"depth": [1, 2, 3], "width": [4, 20]}


def problem(seed, examples, outputs=1):
    rng = np.random.default_rng([seed, examples])
    X, teacher = rng.normal(size=(examples + 7, 9)), rng.normal(size=(9, outputs))
    Y = X @ teacher / 3 + 0.2 * rng.normal(size=(examples + 7, outputs))
    Y = Y[:, 0] if outputs == 1 else Y
    return X[:examples], Y[:examples], X[examples:], Y[examples:]


def two_outputs(seed, examples):
    return problem(seed, examples, outputs=2)


def network(depth, width):
    return lbnn.Network((width,) * (depth - 1))


def run(path, axes=None, **changes):
    settings = {
        "data": problem,
        "network": network,
        "quantities": ("log_evidence", "scale_mean", "kernel_change", "test_error", "test_log_density"),
        "workers": 0,
        "progress": False,
    }
    axes = axes or {"seed": [0, 1], "examples": [5, 12], **NETWORK_AXES, "beta": [0.5, 50.0]}
    return lbnn.sweep(axes, store=path, **{**settings, **changes})


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "run.zarr"
    run(path)
    return path


# ---------------------------------------------------------------------- numbers


def test_every_number_is_that_of_a_plain_loop(store):
    found = open_sweep(store).load()
    assert (found.status == 1).all()
    for seed, examples, depth, width, beta in [(0, 5, 2, 4, 0.5), (1, 12, 3, 20, 50.0), (1, 5, 1, 4, 0.5)]:
        X, y, X_test, y_test = problem(seed, examples)
        post = network(depth, width).condition(X, y, beta)
        pred = post.predict(X_test).with_noise()
        here = found.sel(seed=seed, examples=examples, depth=depth, width=width, beta=beta)
        assert here.log_evidence == pytest.approx(post.log_evidence, rel=1e-12)
        assert here.scale_mean == pytest.approx(post.scale.mean, rel=1e-12)
        assert here.test_error == pytest.approx(float(((pred.mean - y_test) ** 2).mean()), rel=1e-12)
        density = [post.predict(X_test[[i]]).with_noise().log_density(y_test[[i]]) for i in range(7)]
        assert here.test_log_density == pytest.approx(np.mean(density), rel=1e-6)
        if depth > 1:
            gram = X @ X.T / X.shape[1]
            change = np.linalg.norm(post.feature_kernel() - gram) / np.linalg.norm(gram)
            assert here.kernel_change == pytest.approx(change, rel=1e-9)
        else:
            assert np.isnan(here.kernel_change)
            assert "no hidden layer" in str(here.message.values)


def test_attributes_say_what_the_numbers_are(store):
    found = open_sweep(store)
    assert found.log_evidence.attrs == {"definition": "log p(Y | X)", "units": "nats"}
    assert found.status.attrs["definition"] == "0 to do, 1 ok, 2 warned, 3 failed"
    about = json.loads(found.attrs["lbnn_sweep"])
    assert about["lbnn"] == lbnn.__version__
    assert about["axes"]["width"] == [4, 20]
    assert about["data"].startswith("problem #")
    assert json.loads(found.attrs["provenance"])["numpy"] == np.__version__


@pytest.mark.parametrize("order", [1, -1])
def test_sampled_answers_do_not_depend_on_chunks_and_order_of_axes(tmp_path, order):
    axes = {"seed": [3], "examples": [12], "depth": [2], "width": [6, 9], "beta": [4.0, 40.0]}
    quantities = ("log_evidence", "scale_inverse_mean", "effective_sample_size")
    settings = {"data": two_outputs, "quantities": quantities, "target_error": 0.2}
    one = run(tmp_path / "one.zarr", axes, chunks={"width": 2, "beta": 2}, **settings)
    two = run(tmp_path / "two.zarr", dict(list(axes.items())[::order]), chunks={}, **settings)
    assert (one.log_evidence_error > 0).all()
    for name in ("log_evidence", "log_evidence_error", "scale_inverse_mean", "effective_sample_size"):
        assert (one[name] == two[name].transpose(*one.dims)).all()
    seed = coordinate_seed(0, "engine", {"seed": 3, "examples": 12, "depth": 2, "width": 6, "beta": 4.0})
    X, Y, *_ = two_outputs(3, 12)
    post = network(2, 6).condition(X, Y, 4.0, target_error=0.2, seed=seed)
    assert float(one.log_evidence[0, 0, 0, 0, 0]) == post.log_evidence
    assert float(one.log_evidence_error[0, 0, 0, 0, 0]) == post.log_evidence_error


def test_another_seed_gives_other_draws_and_other_data(tmp_path):
    def drawn(rng, examples):
        return rng.normal(size=(examples, 5)), rng.normal(size=(examples, 2))

    axes = {"examples": [6, 7], "width": [5]}
    settings = {
        "data": drawn,
        "network": lambda width: lbnn.Network((width,)),
        "beta": 2.0,
        "quantities": ["log_evidence"],
        "target_error": 0.3,
    }
    one, two = (run(tmp_path / f"{seed}.zarr", axes, seed=seed, **settings) for seed in (0, 1))
    assert (one.log_evidence != two.log_evidence).all()


def test_theories_are_those_of_compare(tmp_path):
    axes = {"seed": [0], "examples": [5], "depth": [1, 2], "width": [40], "beta": [np.inf, 9.0]}
    names = ("proportional:kernel_error", "infinite_data:scale_error", "infinite_width:log_evidence_error")
    found = run(tmp_path / "run.zarr", axes, quantities=names).load()
    X, y, X_test, _ = problem(0, 5)
    result = lbnn.compare(network(2, 40), X, y, 9.0, X_test)
    here = found.sel(depth=2, width=40, beta=9.0).squeeze()
    assert here["proportional:kernel_error"] == pytest.approx(result.error("proportional", "kernel"))
    assert here["infinite_width:log_evidence_error"] == pytest.approx(
        result.error("infinite width", "log evidence")
    )
    assert "infinite data" in result.left_out  # zero temperature only
    assert np.isnan(here["infinite_data:scale_error"])
    assert found["infinite_data:scale_error"].sel(depth=2, beta=np.inf).notnull().all()
    assert found["proportional:kernel_error"].sel(depth=1).isnull().all()


def test_functions_as_quantities_take_what_they_name(tmp_path):
    def span(predictive, width):
        """How far the means reach, per unit."""
        return float(np.ptp(predictive.mean)) / width

    noisy = SweepQuantity(
        "doubled", lambda posterior: (2 * posterior.log_evidence, 0.5), "twice", "nats", True
    )
    axes = {"seed": [0], "examples": [5], "depth": [2], "width": [4], "beta": [1.0]}
    found = run(tmp_path / "run.zarr", axes, quantities=(span, noisy, "log_evidence")).squeeze()
    assert found.span.attrs["definition"] == "How far the means reach, per unit."
    assert float(found.doubled) == 2 * float(found.log_evidence)
    assert float(found.doubled_error) == 0.5


def test_models_other_than_networks_can_be_swept(tmp_path):
    axes = {"seed": [0], "examples": [5], "shape": [2.0, 5.0]}
    from scipy import stats

    mixture = lambda shape: lbnn.ScaleMixture(stats.invgamma(shape))  # noqa: E731
    found = run(tmp_path / "a.zarr", axes, network=mixture, beta=3.0, quantities=["log_evidence"])
    X, y, *_ = problem(0, 5)
    exact = lbnn.ScaleMixture(stats.invgamma(5.0)).condition(X, y, 3.0).log_evidence
    assert found.log_evidence.sel(shape=5.0).values.item() == exact


# ---------------------------------------------------------------------- failures


def test_failing_points_fail_alone_and_are_retried_on_request(tmp_path):
    broken = tmp_path / "broken"
    broken.touch()

    def flaky(seed, examples):
        if seed == 1 and broken.exists():
            raise RuntimeError("no such\ndata")
        return problem(seed, examples)

    axes = {"seed": [0, 1], "examples": [5], "depth": [2], "width": [4], "beta": [0.0, -1.0, 3.0]}
    # beta = −1 breaks a rule of the library, at its own points only
    with pytest.warns(UserWarning, match="4 of 6 points failed"):
        found = run(tmp_path / "run.zarr", axes, data=flaky, quantities=["test_error"]).load().squeeze()
    assert found.status.values.tolist() == [[1, 3, 1], [3, 3, 3]]
    assert found.message.values[1, 0] == "data: RuntimeError: no such data"
    assert "beta must be a number in [0, inf]" in found.message.values[0, 1]
    assert np.isfinite(found.test_error.values[0, 0])
    assert np.isnan(found.test_error.values[0, 1])
    broken.unlink()
    stamp = (tmp_path / "run.zarr" / "status").stat().st_mtime_ns
    with pytest.warns(UserWarning, match="4 of 6"):  # not asked to try again
        run(tmp_path / "run.zarr", axes, data=flaky, quantities=["test_error"])
    assert (tmp_path / "run.zarr" / "status").stat().st_mtime_ns == stamp
    with pytest.warns(UserWarning, match="2 of 6"):
        found = run(tmp_path / "run.zarr", axes, data=flaky, quantities=["test_error"], retry_failed=True)
    assert found.status.squeeze().values.tolist() == [[1, 3, 1], [1, 3, 1]]


def test_a_quantity_that_fails_leaves_the_others(tmp_path):
    def bad(posterior, beta):
        return 1 / (beta - 1.0)

    axes = {"seed": [0], "examples": [5], "depth": [2], "width": [4], "beta": [1.0, 3.0]}
    with pytest.warns(UserWarning, match="bad: ZeroDivisionError"):
        found = run(tmp_path / "run.zarr", axes, quantities=["log_evidence", bad]).load().squeeze()
    assert found.status.values.tolist() == [3, 1]
    assert np.isfinite(found.log_evidence).all()
    assert np.isnan(found.bad[0])


def test_warned_points_keep_what_the_library_warns_of(tmp_path):
    def loud(posterior):
        from lbnn._base.warn import warn

        warn("mind the gap")
        return float(np.log(np.zeros(1))[0]) * 0 + 1

    axes = {"seed": [0], "examples": [5], "depth": [2], "width": [4], "beta": [1.0]}
    found = run(tmp_path / "run.zarr", axes, quantities=[loud]).load()
    assert int(found.status.squeeze()) == 2
    assert "mind the gap; divide by zero encountered" in str(found.message.squeeze().values)


def test_warnings_of_a_user_s_function_take_python_s_own_way(tmp_path):
    def loud(posterior):
        import warnings

        warnings.warn("mine", UserWarning, stacklevel=1)
        return 1.0

    axes = {"seed": [0], "examples": [5], "depth": [2], "width": [4], "beta": [1.0]}
    with pytest.warns(UserWarning, match="mine"):
        found = run(tmp_path / "run.zarr", axes, quantities=[loud]).load()
    assert int(found.status.squeeze()) == 1


# ---------------------------------------------------------------------- bad input

WIDE = {"seed": [0], "examples": [5], "depth": [2], "width": [4], "beta": [1.0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": {**WIDE, "colour": [1]}}, "every axis must be taken .* got 'colour'"),
        ({"axes": {k: v for k, v in WIDE.items() if k != "examples"}}, "data needs 'examples', which is no"),
        ({"axes": {k: v for k, v in WIDE.items() if k != "beta"}}, "beta must be an axis"),
        ({"axes": {**WIDE, "beta": [1.0, 1.0]}}, "distinct, got \\[1.0\\] more than once"),
        ({"axes": {**WIDE, "beta": [1.0, np.nan]}}, "no NaN"),
        ({"axes": {**WIDE, "beta": [[1.0]]}}, "numbers, strings or booleans"),
        ({"axes": {**WIDE, "status": [1]}}, "not a variable's, got 'status'"),
        ({"axes": {**WIDE, "b c": [1]}}, "a function can take, got 'b c'"),
        ({"axes": {}, "beta": 1.0}, "at least one axis"),
        ({"beta": 2.0}, "got both the axis and beta=2.0"),
        ({"network": lambda **kw: None}, "must name the axes"),
        ({"network": 3}, "network must be a function, got 3"),
        ({"network": lambda depth, width: (width,)}, "network must return an lbnn.Network.* got \\(4,\\)"),
        ({"data": lambda seed, examples: 5}, "data must return X, Y .* got int"),
        ({"data": lambda seed, examples: (np.ones((3, 2)), np.ones(4))}, "Y must have shape"),
        (
            {"data": lambda seed, examples: (np.ones((3, 2)), np.ones(3), np.ones((5, 2)), np.ones((5, 2)))},
            "X_test and Y_test must have shapes",
        ),
        ({"quantities": ["kernel_chance"]}, "among log_evidence, .*got 'kernel_chance'"),
        ({"quantities": "log_evidence"}, "a sequence of names"),
        ({"quantities": ["log_evidence", "log_evidence"]}, "must be distinct"),
        ({"quantities": [lambda posterior: 1]}, "needs a name"),
        (
            {"quantities": [SweepQuantity("q", lambda posterior: np.ones(3))]},
            "must return a number, got ndarray",
        ),
        ({"quantities": [SweepQuantity("q", lambda colour: 1)]}, "needs 'colour', which is no axis"),
        ({"chunks": {"colour": 2}}, "chunks must name axes"),
        ({"target_error": 2.0}, "target_error must lie"),
    ],
)
def test_bad_arguments_are_refused_before_a_store_is_made(tmp_path, changes, message):
    settings = {
        "data": problem,
        "network": network,
        "quantities": ["log_evidence"],
        "store": tmp_path / "run.zarr",
        "workers": 0,
        "axes": WIDE,
    }
    with pytest.raises((TypeError, ValueError), match=message):
        lbnn.sweep(**{**settings, **changes})
    assert not (tmp_path / "run.zarr").exists()


def test_a_store_of_another_sweep_is_refused_with_both_shown(store):
    before = sorted((path, path.stat().st_mtime_ns) for path in store.rglob("*"))
    with pytest.raises(ValueError, match=r"axes, beta: the store has \[50.0\], this sweep \[51.0\]"):
        run(store, {"seed": [0, 1], "examples": [5, 12], **NETWORK_AXES, "beta": [0.5, 51.0]})
    with pytest.raises(ValueError, match=r"network: the store has .*network #.*lambda"):
        run(store, network=lambda depth, width: lbnn.Network((width,) * depth))
    with pytest.raises(ValueError, match="seed: the store has 0, this sweep 1"):
        run(store, seed=1)
    assert sorted((path, path.stat().st_mtime_ns) for path in store.rglob("*")) == before


def test_a_store_of_another_version_is_refused(store, monkeypatch):
    written = re.escape(f'lbnn: the store has "{lbnn.__version__}", this sweep "9.9"')
    monkeypatch.setattr("lbnn.sweeps.plan.metadata.version", lambda name: "9.9")
    with pytest.raises(ValueError, match=written):
        run(store)


def test_a_finished_sweep_is_read_and_not_computed(store, monkeypatch):
    monkeypatch.setattr("lbnn.sweeps.workers.compute", None)
    assert (run(store).status == 1).all()


def test_folder_that_is_no_store(tmp_path):
    (tmp_path / "run.zarr").mkdir()
    with pytest.raises(StoreError, match="must be the store of a sweep"):
        run(tmp_path / "run.zarr")
    with pytest.raises(StoreError, match="must be the store of a sweep"):
        open_sweep(tmp_path / "none.zarr")


def test_two_sweeps_do_not_write_to_one_store(tmp_path):
    path = tmp_path / "run.zarr"
    code = (
        "import sys, pathlib\nfrom lbnn.sweeps.store import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match="another one does"):
            run(path, WIDE)
        assert not path.exists()
    finally:
        other.kill()  # the lock goes with the process
        other.communicate()
    assert (run(path, WIDE).status == 1).all()
    with locked(path):
        assert (run(path, WIDE).status == 1).all()  # nothing is to be written
    path.joinpath("status", "c", *"00000").unlink()
    with locked(path), pytest.raises(StoreError, match="another one does"):
        run(path, WIDE)


@pytest.mark.parametrize("damage", ["bit", "cut", "gone"])
def test_a_broken_chunk_is_refused_and_computed_again_without_its_status(tmp_path, damage):
    path = tmp_path / "run.zarr"
    axes = {**WIDE, "seed": [0, 1]}
    whole = run(path, axes, chunks={}).load()
    file = path / "test_error" / "c" / "1" / "0" / "0" / "0" / "0"
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(
            content[:-5] if damage == "cut" else content[:3] + bytes([content[3] ^ 1]) + content[4:]
        )
    other = path / "test_error" / "c" / "0" / "0" / "0" / "0" / "0"
    stamp = other.stat().st_mtime_ns
    for settings in ({}, {"retry_failed": True}):
        with pytest.raises((OSError, ValueError, RuntimeError), match=r"test_error/c/1|[Cc]hecksum"):
            run(path, axes, chunks={}, **settings).load()
    path.joinpath("status", "c", *"10000").unlink()
    assert run(path, axes, chunks={}).load().equals(whole)
    assert other.stat().st_mtime_ns == stamp


def test_a_broken_status_is_named(tmp_path):
    path = tmp_path / "run.zarr"
    run(path, WIDE)
    file = path / "status" / "c" / "0" / "0" / "0" / "0" / "0"
    file.write_bytes(file.read_bytes()[:-2])
    for read in (open_sweep, lambda path: run(path, WIDE)):
        with pytest.raises(StoreError, match=r"the status of .* cannot be read"):
            read(path)
    file.unlink()
    assert (run(path, WIDE).status == 1).all()


def damage(file, how):
    content = file.read_bytes()
    if how == "gone":
        file.unlink()
    elif how == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        file.write_bytes(b"")
    else:
        place = len(content) // 2
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


@pytest.mark.parametrize("how", ["bit", "gone"])
def test_damaged_metadata_of_variables_and_coordinates_are_named(tmp_path, how):
    """Nothing repairs them: they are part of one digest."""
    path = tmp_path / "run.zarr"
    run(path, WIDE)
    files = [path / "log_evidence" / "zarr.json", path / "beta" / "zarr.json", path / "beta" / "c" / "0"]
    for file in files:
        content = file.read_bytes()
        damage(file, how)
        for settings in ({}, {"retry_failed": True}):
            with pytest.raises(OSError, match=r"as they were written|store of a sweep"):
                run(path, WIDE, **settings)
        file.write_bytes(content)
    assert (run(path, WIDE).status == 1).all()


@pytest.mark.parametrize("how", ["bit", "cut", "gone", "empty"])
def test_damaged_metadata_of_the_store_itself(tmp_path, how):
    path = tmp_path / "run.zarr"
    run(path, WIDE)
    damage(path / "zarr.json", how)
    for settings in ({}, {"retry_failed": True}):
        with pytest.raises(StoreError, match=r"zarr\.json"):
            run(path, WIDE, **settings)
    with pytest.raises(StoreError, match=r"zarr\.json"):
        open_sweep(path)


def test_a_lost_chunk_is_named_when_a_store_is_read(tmp_path):
    path = tmp_path / "run.zarr"
    run(path, WIDE)
    path.joinpath("test_error", "c", *"00000").unlink()
    with pytest.raises(StoreError, match=r"finished chunks must be there.*test_error/c/0"):
        open_sweep(path)


def test_the_axis_that_differs_is_shown_however_long_the_others_are(tmp_path):
    path = tmp_path / "run.zarr"
    axes = {**WIDE, "seed": range(100), "beta": [1.0]}
    run(path, axes, quantities=["log_evidence"], chunks={"seed": 100})
    changed = {**axes, "seed": [*range(90), 1090, *range(91, 100)]}
    with pytest.raises(ValueError, match=r"axes, seed: the store has \[90\], this sweep \[1090\]"):
        run(path, changed, quantities=["log_evidence"])
    with pytest.raises(ValueError, match=r"axes, width: the store has \[4\], this sweep \[5\]"):
        run(path, {**axes, "width": [5]}, quantities=["log_evidence"])
    with pytest.raises(ValueError, match=r"axes, the order: the store has seed, .*, this sweep beta"):
        run(path, dict(reversed(axes.items())), quantities=["log_evidence"])


def test_other_versions_are_refused_or_recorded(tmp_path, monkeypatch):
    path, axes = tmp_path / "run.zarr", {**WIDE, "seed": [0, 1]}
    whole = run(path, axes, chunks={}).load()
    path.joinpath("status", "c", *"10000").unlink()
    monkeypatch.setattr("lbnn.sweeps.plan.source_digest", lambda: "other")
    with pytest.raises(ValueError, match=r'source: the store has ".*", this sweep "other".*mixed_versions'):
        run(path, axes, chunks={})
    found = run(path, axes, chunks={}, mixed_versions=True).load()
    assert json.loads(found.attrs["later_provenances"])[0]["source"] == "other"
    assert found.equals(whole)
    path.joinpath("status", "c", *"00000").unlink()
    assert run(path, axes, chunks={}).load().equals(whole)  # known by now
    monkeypatch.undo()
    assert run(path, axes, chunks={}).load().equals(whole)  # nothing to compute


def test_workers_of_other_versions_are_refused(tmp_path, monkeypatch):
    from lbnn.sweeps import workers

    class Here:
        """A client whose worker is this process."""

        def submit(self, function, *arguments, pure):
            return function(*arguments)

        def nthreads(self):
            return {"here": 1}

        def cancel(self, futures):
            pass

    monkeypatch.setattr(workers, "_own_versions", lambda: {"numpy": "0.1"})
    with pytest.raises(ValueError, match=r"workers must have the versions.*got {'numpy': '0.1'}"):
        run(tmp_path / "run.zarr", WIDE, client=Here())


def test_leftovers_of_a_kill_are_removed(tmp_path):
    path = tmp_path / "run.zarr"
    run(path, WIDE)
    path.joinpath("status", "c", *"00000").unlink()
    left = [
        tmp_path / ".run.zarr.new",
        path / "status" / "c" / "0" / "0" / "0" / "0" / "0.f00.partial",
        path / ".lbnn-x.json",
    ]
    left[0].mkdir()
    for file in (left[0] / "zarr.json", *left[1:]):
        file.write_text("x")
    other = tmp_path / ".run.zarr-2.new"  # of another store
    other.mkdir()
    run(path, WIDE)
    assert not [file for file in left if file.exists()]
    assert other.exists()


def test_a_complete_store_that_cannot_be_written_is_read(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    whole = run(path, WIDE).load()
    monkeypatch.setattr("lbnn.sweeps.run.locked", None)  # nothing is locked, nothing written
    before = sorted((file, file.stat().st_mtime_ns) for file in tmp_path.rglob("*"))
    assert run(path, WIDE).load().equals(whole)
    assert run(path, WIDE, retry_failed=True).load().equals(whole)
    assert sorted((file, file.stat().st_mtime_ns) for file in tmp_path.rglob("*")) == before


def test_a_full_disk_ends_the_sweep_and_damages_nothing(tmp_path, monkeypatch):
    path, axes = tmp_path / "run.zarr", {**WIDE, "seed": range(4)}
    from lbnn.sweeps import store as stores

    class Full:
        """The array status, on a disk that is full after two chunks."""

        def __init__(self, array):
            self.array, self.written = array, 0

        def __getattr__(self, name):
            return getattr(self.array, name)

        def __getitem__(self, region):
            return self.array[region]

        def __setitem__(self, region, values):
            if self.written == 2:
                raise OSError(28, "No space left on device")
            self.array[region], self.written = values, self.written + 1

    opened = stores.Store._array
    disk = {}

    def array(self, name):
        found = opened(self, name)
        return disk.setdefault(name, Full(found)) if name == "status" else found

    monkeypatch.setattr(stores.Store, "_array", array)
    with pytest.raises(
        StoreError, match=r"with free space, got OSError.*No space left.*calling again continues"
    ):
        run(path, axes, chunks={})
    monkeypatch.undo()
    assert open_sweep(path).status.values.ravel().tolist() == [1, 1, 0, 0]
    assert (run(path, axes, chunks={}).status == 1).all()


@pytest.mark.skipif(sys.platform != "linux", reason="a folder that not even root can write to")
def test_a_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(StoreError, match="must be in a folder that is writable"):
        run(Path("/proc/lbnn/run.zarr"), WIDE)


# ---------------------------------------------------------------------- parts


def test_chunks_cover_the_grid_once(store):
    kept = Store(store, "r")
    kept.shape, kept.chunk = (5, 7, 2), (2, 3, 2)
    count = np.zeros(kept.shape, int)
    for position in kept.positions():
        count[kept.region(position)] += 1
    assert (count == 1).all()
    assert len(list(kept.positions())) == 9


@pytest.mark.parametrize("points", [1, 3, 10, 64, 10**9])
def test_chunks_hold_whole_families_of_networks_first(points):
    names, shape = ("seed", "width", "examples", "beta"), (6, 4, 5, 8)
    chunk = dict(zip(names, cut(shape, names, ("seed", "examples"), points), strict=True))
    assert np.prod(list(chunk.values())) <= max(points, 1)
    if points < 32:
        assert chunk["seed"] == chunk["examples"] == 1
    if points == 10**9:
        assert tuple(chunk.values()) == shape


def test_signatures_see_code_and_closures_and_not_lines():
    def make(number):
        return lambda width: width + number

    assert signature(make(1)) == signature(make(1))
    assert signature(make(1)) != signature(make(2))
    one = eval("lambda width: width + 1")
    moved = eval("\n\nlambda width: width + 1".strip())
    assert signature(one) == signature(moved)
    assert signature(one) != signature(eval("lambda width: width + 2"))
    assert signature(len).startswith("len")


def test_signature_is_the_same_in_another_process():
    code = "lambda kind: kind in {'a', 'b', 'c', 'd', 'e'}"
    command = f"from lbnn.sweeps.plan import signature; print(signature({code}))"
    printed = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert printed.split()[-1] == signature(eval(code)).split()[-1]


def test_axes_hold_plain_values():
    axes = Axes.of({"kind": ["a", "b"], "beta": np.array([1.0, np.inf]), "on": [True, False], "n": range(2)})
    assert axes.values == {"kind": ("a", "b"), "beta": (1.0, np.inf), "on": (True, False), "n": (0, 1)}
    assert [type(values[0]) for values in axes.values.values()] == [str, float, bool, int]


def test_batches_know_the_prior_variances() -> None:
    """Every variance of the prior, against single posteriors: the first multiplies G, the others λ."""
    rng = np.random.default_rng(0)
    spectrum = lbnn.Spectrum.from_inputs(rng.normal(size=(12, 20)), rng.normal(size=12))
    network = lbnn.Network((6, 9), prior_variances=(0.5, 3.0, 0.7))
    betas = [0.3, 20.0]
    found = batch(network, spectrum, betas)
    assert found is not None
    for values, beta in zip(found, betas, strict=True):
        post = network.condition_spectrum(spectrum, beta)
        assert values["log_evidence"] == pytest.approx(post.log_evidence, rel=1e-10)
        assert values["scale_mean"] == pytest.approx(post.scale.mean, rel=1e-10)
        assert values["scale_inverse_mean"] == pytest.approx(post.scale.inverse_mean, rel=1e-10)
