"""Blocks as lazy values, and lazy values as blocks."""

import numpy as np
import pytest
from array_checks import check

import lazyflow
import lazyflow.array as la

SCHEDULERS = ["sync", "threads", "processes"]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_from_delayed(scheduler):
    load = lazyflow.delayed(np.arange)
    check(la.from_delayed(load(4), (4,), dtype=int) + 1, np.arange(4) + 1, scheduler)
    check(la.from_delayed(load(4), 4, meta=np.empty(0, int)), np.arange(4), scheduler)
    unknown = la.from_delayed(load(4), (None,), dtype=int)
    assert unknown.shape == (None,)
    assert len(unknown) == 4
    rows = la.from_delayed(lazyflow.delayed(np.ones)((3, 2)), (np.nan, 2), float)  # as dask's
    assert rows.shape == (None, 2)
    check(rows + 1, np.full((3, 2), 2.0), scheduler)
    back = la.from_delayed(la.ones(3, chunks=3).to_delayed()[0], (3,), float)
    check(back, np.ones(3), scheduler)


@pytest.mark.parametrize("said, error, words", [
    ({"shape": (5,), "dtype": int}, ValueError,
     r"arange returned an array of shape \(4,\) for block \(0,\), but \(5,\) was expected. "
     r"Declare the shape by shape= of from_delayed\(\)"),
    ({"shape": (4,), "dtype": float}, TypeError, r"arange returned int64 for block \(0,\), but"),
])
def test_lazy_values_that_are_not_what_was_said(said, error, words):
    found = la.from_delayed(lazyflow.delayed(np.arange)(4), **said)
    with pytest.raises(error, match=words):
        found.compute()


def test_from_delayed_needs_a_lazy_value_and_a_dtype():
    with pytest.raises(TypeError, match=r"takes a lazy value; got a ndarray"):
        la.from_delayed(np.ones(3), (3,), float)
    with pytest.raises(TypeError, match=r"needs the dtype of the value: pass dtype= or"):
        la.from_delayed(lazyflow.delayed(np.ones)(3), (3,))


def test_blocks_go_out_as_lazy_values_and_come_back():
    x = la.from_array(np.arange(12).reshape(3, 4), chunks=(2, 3)) * 2
    blocks = x.to_delayed()
    assert blocks.shape == (2, 2)
    total = lazyflow.delayed(sum)([block.sum() for block in blocks.ravel()])
    assert total.compute() == 132
