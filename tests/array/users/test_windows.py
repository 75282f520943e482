"""`sliding_window_view`."""

import numpy as np
import pytest
from array_checks import check
from array_strategies import arrays
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la


@settings(deadline=None, max_examples=40)
@given(arrays(dtypes=["i8"], least=1), st.data())
def test_windows_equal_numpys(pair, data):
    values, x = pair
    axes = data.draw(st.lists(st.integers(-x.ndim, x.ndim - 1), min_size=1, max_size=3,
                              unique_by=lambda axis: axis % x.ndim))
    window = tuple(data.draw(st.integers(1, x.shape[axis])) for axis in axes)
    expected = np.lib.stride_tricks.sliding_window_view(values, window, tuple(axes))
    check(la.sliding_window_view(x, window, tuple(axes)), expected)
    found = np.lib.stride_tricks.sliding_window_view(x, window, tuple(axes))
    check(found.sum(-1), expected.sum(-1))


def test_blocks_of_windows_stay_small():
    x = la.ones(4_000_000, chunks=-1)
    with lazyflow.config.set(chunk_bytes=1 << 20):
        many = la.sliding_window_view(x, 1000)
        assert max(many.chunks[0]) * 1000 * 8 <= 4_000_000 * 8
        assert sum(many.chunks[0]) == 4_000_000 - 999
        assert la.sliding_window_view(x, 1000, automatic_rechunk=False).numblocks == (1, 1)


@pytest.mark.parametrize("window, axis", [(7, None), ((2, 2), None), (-1, None), ((2, 2), 0)])
def test_windows_that_do_not_fit_are_refused_as_by_numpy(window, axis):
    values = np.arange(6)
    with pytest.raises(ValueError) as theirs:
        np.lib.stride_tricks.sliding_window_view(values, window, axis)
    with pytest.raises(ValueError) as ours:
        la.sliding_window_view(la.from_array(values, chunks=2), window, axis)
    assert str(ours.value) == str(theirs.value)
