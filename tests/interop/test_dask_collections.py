"""Lazy values and arrays in dask's hands, and dask's in lazyflow's."""

import subprocess
import sys

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array")

import lazyflow as lf  # noqa: E402
import lazyflow.array as la  # noqa: E402
from lazyflow.interop.dask import from_dask, get, to_dask  # noqa: E402

SCHEDULERS = ["sync", "threads", get]


class Counted:
    """A function that counts its calls, and fails the first `fails` times."""

    def __init__(self, function, fails=0):
        self.function = function
        self.fails = fails
        self.calls = 0

    def __call__(self, *args):
        self.calls += 1
        if self.calls <= self.fails:
            raise ValueError("not yet")
        return self.function(*args)


class Pair(lf.Collection):
    def __init__(self, tasks):
        self.tasks = tasks

    def __lazyflow_tasks__(self):
        return self.tasks

    def __lazyflow_finalize__(self, values):
        return tuple(values)

    def __lazyflow_rebuild__(self, tasks):
        return Pair(tasks)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("how", [dask.compute, dask.persist, dask.optimize])
def test_dask_takes_lazy_values_for_its_own(how, scheduler):
    shared = Counted(lambda: [3, 4])
    x = lf.delayed(shared)()
    y = (la.arange(10, chunks=4) * 2)[::-1]
    pair = Pair([x[0], lf.delayed(sum)(x)])
    given = [x, {"y": y, "total": y.sum()}, pair, y[y > 4], da.arange(3, chunks=2), 5]
    found = how(*given, **({} if how is dask.optimize else {"scheduler": scheduler}))
    calls = shared.calls
    if how is not dask.compute:
        assert [type(each) for each in found] == [type(each) for each in given]
        found = dask.compute(*found, scheduler=scheduler)
    a, b, c, d, e, f = found
    assert (a, b["total"], c, f) == ([3, 4], 90, (3, 7), 5)
    np.testing.assert_array_equal(b["y"], np.arange(10)[::-1] * 2)
    np.testing.assert_array_equal(d, np.arange(3, 10)[::-1] * 2)
    np.testing.assert_array_equal(e, np.arange(3))
    if how is dask.persist:
        assert calls == shared.calls == 1  # and what shares a task computed it once
    assert shared.calls == 1


def test_dask_computes_them_as_lazyflow_does():
    late = Counted(lambda: 7, fails=2)
    kept = lf.delayed([1, 2]).persist()
    lazily = lf.delayed(lambda: lf.delayed(abs)(-4))()
    values = [lf.delayed(late, retries=2)(), kept, lazily]
    assert dask.compute(values) == ([7, [1, 2], 4],)
    assert dask.delayed(lambda a, b: (a, b.tolist()))(lazily, la.arange(3, chunks=2)).compute() == (
        4, [0, 1, 2])
    with pytest.raises(ZeroDivisionError):
        dask.compute(1 / lf.delayed(0))
    x = la.zeros(4, chunks=2)
    assert dask.compute(x.sum(), x)[0] == 0
    x[0] = 5
    np.testing.assert_array_equal(dask.compute(x)[0], [5, 0, 0, 0])


def test_other_processes_compute_them():
    values = lf.delayed(abs)(-1) + 1, la.arange(5, chunks=2) * 2
    a, b = dask.compute(*values, scheduler="processes", num_workers=1)
    assert a == 2
    np.testing.assert_array_equal(b, np.arange(5) * 2)


def test_arrays_become_dasks_and_back():
    made = Counted(lambda block: block + 1)
    x = la.arange(12, chunks=5).reshape(3, 4).astype("f4").map_blocks(made, dtype="f4")
    theirs = to_dask(x)
    assert isinstance(theirs, da.Array)
    assert (theirs.chunks, theirs.dtype) == (x.chunks, x.dtype)
    back = from_dask(theirs.T * 2)
    assert type(back) is la.Array
    assert (back.chunks, back.dtype) == (x.T.chunks, x.dtype)
    assert made.calls == 0
    right = (np.arange(12, dtype="f4").reshape(3, 4) + 1).T * 2
    np.testing.assert_array_equal(back.compute(), right, strict=True)
    np.testing.assert_array_equal(theirs.compute(), right.T / 2, strict=True)
    assert made.calls == 2 * x.npartitions
    twice = to_dask(la.concatenate([x[:1], x[:1]]))  # one task is two blocks
    np.testing.assert_array_equal(twice, np.concatenate([right.T[:1] / 2] * 2))


def test_lengths_that_are_not_known():
    x = la.arange(6, chunks=4)
    theirs = to_dask(x[x > 2])
    assert np.isnan(theirs.shape[0]) and theirs.sum().compute() == 12
    y = da.arange(6, chunks=4)
    ours = from_dask(y[y > 2])
    assert ours.shape == (None,) and ours.compute().tolist() == [3, 4, 5]
    assert from_dask(da.arange(3, chunks=2).max()).compute() == 2


def test_a_block_has_the_dtype_that_its_array_says():
    x = da.ones(4, chunks=2, dtype="f8").map_blocks(lambda b: b.astype("f8"), dtype="f4")
    assert from_dask(x).compute().dtype == "f4"


def test_lazy_values_become_dasks_and_back():
    made = Counted(divmod)
    theirs = dask.delayed(made, nout=2)(dask.delayed(int)("17"), 5)
    ours = from_dask(theirs)
    a, b = ours
    assert ours.key == theirs.key and made.calls == 0
    assert lf.compute(ours, a + b) == ((3, 2), 5)
    again = to_dask(ours)
    assert again.key == theirs.key and len(again) == 2
    assert dask.compute(again, again[1] + 1) == ((3, 2), 3)
    assert from_dask(dask.delayed([dask.delayed(1), 2])).compute() == [1, 2]


def test_what_is_neither_is_refused():
    with pytest.raises(TypeError, match="got a list. For a value that is there write dask.delayed"):
        to_dask([1])
    with pytest.raises(TypeError, match="takes a Delayed or an array of dask; got a list"):
        from_dask([1])
    with pytest.raises(TypeError, match="would lose the mask"):
        from_dask(da.ma.masked_equal(da.arange(3), 1))


def test_nobody_takes_our_arrays_for_dasks():
    x = la.arange(6, chunks=2)
    assert dask.is_dask_collection(x)
    np.testing.assert_array_equal(da.asarray(x) + 1, np.arange(1, 7))
    assert type(da.ones(6, chunks=3) + x) is la.Array
    xarray = pytest.importorskip("xarray")
    from xarray.namedarray.pycompat import is_duck_dask_array

    assert not is_duck_dask_array(x)
    assert not dask.is_dask_collection(xarray.DataArray(x))


def test_dask_is_not_imported_by_lazy_values():
    code = (
        "import sys, lazyflow as lf, lazyflow.array as la; "
        "print([hasattr(x, '__dask_graph__') for x in (lf.delayed(1), la.ones(3))]); "
        "print('dask' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[True, True]", "False"]
