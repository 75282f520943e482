"""The indices of extremes, against NumPy."""

import tracemalloc

import numpy as np
import pytest
from array_checks import check, same_values
from array_examples import Store
from array_strategies import arrays, axis_of
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la

RNG = np.random.default_rng(7)


@settings(max_examples=120, deadline=None)
@given(arrays(), st.sampled_from(["argmin", "argmax", "nanargmin", "nanargmax"]),
       st.booleans(), st.data())
def test_places_of_extremes(pair, name, keepdims, data):
    x, a = pair
    axis = axis_of(data, x)
    try:
        expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    except ValueError as error:
        with pytest.raises(ValueError) as caught:
            getattr(la, name)(a, axis=axis, keepdims=keepdims).compute()
        assert str(caught.value) == str(error)
        return
    check(getattr(la, name)(a, axis=axis, keepdims=keepdims), expected)


def test_place_of_a_complex_or_text_extreme():
    x = np.array([1 + 2j, 1 - 1j, 0 + 5j, 1 + 2j])
    check(la.from_array(x, chunks=2).argmax(), x.argmax())
    dates = np.array(["2020-01-03", "2020-01-01", "NaT"], "M8[D]")
    check(la.from_array(dates, chunks=1).argmin(), dates.argmin())


def test_argmax_into_out():
    x = RNG.random((4, 6))
    out = la.zeros(6, dtype=int)
    assert np.argmax(la.from_array(x, chunks=2), 0, out) is out
    check(out, x.argmax(0))


def test_argmax_of_a_slice_reads_the_slice_only(here):
    store = Store(np.ones((4, 6)), chunks=(2, 2))
    a = la.from_array(store, chunks=2)
    same_values(a.argmax(0)[1:3].compute(), np.zeros(2, int))
    assert {key[1].start for key in store.read} == {1, 2}
    assert len(store.read) == 4


@pytest.mark.parametrize("axis", [None, 1])
def test_blocks_are_not_copied(axis):
    x = RNG.random((1000, 500))
    made = la.argmax(la.from_array(x, chunks=(500, 500)), axis=axis)
    tracemalloc.start()
    try:
        same_values(made.compute(scheduler="sync"), x.argmax(axis=axis))
        assert tracemalloc.get_traced_memory()[1] < x.nbytes / 4
    finally:
        tracemalloc.stop()
