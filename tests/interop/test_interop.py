"""dask's lazy objects among our arguments: computed once, or refused with words."""

import numpy as np
import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import actor, compute, delayed, persist, submit

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array")

VALUES = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])


@pytest.fixture
def calls():
    return []


@pytest.fixture
def x(calls):
    """An array of four blocks that notes which of them are computed."""

    def noted(block):
        calls.append(block.shape)
        return block

    made = da.from_array(VALUES, chunks=2).map_blocks(noted, dtype=float, meta=np.ones(0))
    with dask.config.set(scheduler="sync"):
        yield made


ARRAYS = {
    "block": (lambda m, x: m.block([x, x])),
    "sum": (lambda m, x: m.sum(x)),
    "asarray": (lambda m, x: m.asarray(x)),
    "array": (lambda m, x: m.array(x)),
    "add": (lambda m, x: m.add(x, 1)),
    "left": (lambda m, x: m.ones(8) + x),
    "right": (lambda m, x: x + m.ones(8)),
    "concatenate": (lambda m, x: m.concatenate([x, x])),
    "stack": (lambda m, x: m.stack([x, x])),
    "where": (lambda m, x: m.where(m.ones(8) > 0, x, x)),
    "dot": (lambda m, x: m.dot(x, x)),
    "unique": (lambda m, x: m.unique(x)),
    "percentile": (lambda m, x: m.percentile(x, 50)),
    "item": (lambda m, x: m.arange(8)[x > 2]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_functions_of_arrays_compute_it_once_and_later(x, calls, name):
    function = ARRAYS[name]
    made = function(la, x)
    assert type(made) is la.Array and calls == []
    np.testing.assert_array_equal(made.compute(), function(np, VALUES))
    assert len(calls) == 4


def test_from_array_reads_it_by_blocks(x, calls):
    made = la.from_array(x, chunks=2)
    assert made.chunks == x.chunks and calls == []
    found = made.compute()
    assert type(found) is np.ndarray and len(calls) == 4
    np.testing.assert_array_equal(found, VALUES)


def test_unknown_and_no_lengths(x):
    assert la.asarray(x[x > 2]).compute().tolist() == VALUES[VALUES > 2].tolist()
    assert (la.ones(2) + x.sum()).compute().tolist() == [32, 32]
    assert la.from_delayed(dask.delayed(np.ones)(3), (3,), float).compute().tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="belongs to dask and has no shape: la.from_delayed"):
        la.sum(dask.delayed(abs)(-1))


def test_arguments_of_tasks(x, calls):
    total = delayed(lambda a, b: float(a.sum() + sum(part.sum() for part in b)))
    assert total(x, [x, x]).compute() == 93
    assert len(calls) == 4
    assert compute(total(x, [x]), {"x": x}, dask.delayed(abs)(-2))[0] == 62
    assert len(calls) == 8


def test_every_entry(x, calls):
    made = dask.delayed(calls.append)
    found = compute(made(1), [made(2)], "plain")
    assert found == (None, [None], "plain") and sorted(calls) == [1, 2]
    calls.clear()
    (kept,) = persist(x)
    assert kept.compute().tolist() == kept.compute().tolist() == VALUES.tolist()
    assert submit(np.sum, x).result() == VALUES.sum()
    assert [f.result() for f in lazyflow.map(np.sum, [x])] == [VALUES.sum()]
    assert delayed(x).sum().compute() == VALUES.sum()
    assert delayed(dask.delayed(abs)(-2)).compute() == 2

    class Total:
        def of(self, array):
            return array.sum()

    assert actor(Total)().of(x).result() == VALUES.sum()


@pytest.mark.parametrize("scheduler", ["sync", "processes"])
def test_other_schedulers(scheduler):
    x = da.from_array(VALUES, chunks=3)
    found = compute(la.sum(x), delayed(np.max)(x), x + 1, scheduler=scheduler)
    assert found[:2] == (31, 9) and found[2].tolist() == (VALUES + 1).tolist()


def test_an_error_is_of_the_line_of_the_user():
    broken = dask.delayed(lambda: 1 / 0)()
    with pytest.raises(ZeroDivisionError) as caught:
        compute(broken)
    assert "lazyflow task dask Delayed" in caught.value.__notes__[0]
    assert f"made at {__file__}" in caught.value.__notes__[0]


def test_what_follows_the_protocol_and_is_not_lazy():
    class Plain:  # as xarray's objects of NumPy arrays
        def __dask_graph__(self):
            return None

    plain = Plain()
    assert compute(plain)[0] is plain
    assert delayed(lambda value: value is plain)(plain).compute()
    assert delayed(plain).compute() is plain
