"""`reduction` by users' functions."""

import numpy as np
import pytest
from array_checks import check
from array_strategies import arrays
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow.array as la


@settings(deadline=None, max_examples=40)
@given(arrays(dtypes=["i8"], least=1), st.data())
def test_reductions_equal_numpys(pair, data):
    values, x = pair
    axes = data.draw(st.sets(st.integers(0, x.ndim - 1)).map(tuple) | st.none())
    keepdims = data.draw(st.booleans())
    split_every = data.draw(st.sampled_from([None, 2, 3, 100, {0: 2}]))
    found = la.reduction(
        x, np.max, np.max, axis=axes, keepdims=keepdims, dtype=int, split_every=split_every
    )
    check(found, values.max(axis=axes, keepdims=keepdims))


def test_a_reduction_of_what_is_no_array():
    values = np.arange(30.0).reshape(5, 6)
    x = la.from_array(values, chunks=2)

    def flat(parts):
        return [y for x in parts for y in flat(x)] if isinstance(parts, list) else [parts]

    def chunk(block, axis, keepdims):
        return {"n": block.size, "sum": block.sum(axis=axis, keepdims=keepdims)}

    def combine(parts, axis, keepdims):
        parts = flat(parts)
        return {"n": sum(p["n"] for p in parts), "sum": sum(p["sum"] for p in parts)}

    def aggregate(parts, axis, keepdims):
        whole = combine(parts, axis, keepdims)
        return (whole["sum"] / whole["n"]).reshape((1, 1) if keepdims else ())

    for keepdims in (False, True):
        found = la.reduction(
            x, chunk, aggregate, combine=combine, concatenate=False, dtype=float, split_every=2,
            keepdims=keepdims,
        )
        check(found, values.mean(keepdims=keepdims))


def test_a_reduction_puts_together_no_more_than_it_should(here):
    sizes = []

    def note(parts, axis, keepdims):
        sizes.append(parts.size)
        return parts.sum(axis=axis, keepdims=keepdims)

    x = la.ones(100, chunks=1)
    found = la.reduction(x, np.sum, note, dtype=float)
    assert found.compute() == 100
    assert sorted(sizes) == [4, 7, 16, 16, 16, 16, 16, 16]
    sizes.clear()
    assert la.reduction(x, np.sum, note, dtype=float, split_every=100).compute() == 100
    assert sizes == [100]
    sizes.clear()
    assert la.reduction(x[:17], np.sum, note, dtype=float).compute() == 17
    assert sorted(sizes) == [1, 2, 16]


def test_a_reduction_with_weights_output_size_and_out():
    values = np.arange(12.0).reshape(3, 4)
    x = la.from_array(values, chunks=2)

    def weighted(block, weights, axis, keepdims):
        assert block.shape == weights.shape
        return (block * weights).sum(axis=axis, keepdims=keepdims)

    for weights in (np.arange(4.0), np.arange(3.0)[:, None], 2.0):
        found = la.reduction(x, weighted, np.sum, axis=1, dtype=float, weights=weights)
        check(found, (values * weights).sum(1))

    def two(block, axis, keepdims):
        (k,) = axis
        return np.concatenate([block.min(k, keepdims=True), block.max(k, keepdims=True)], k)

    found = la.reduction(x, two, two, axis=0, keepdims=True, dtype=float, output_size=2)
    check(found, np.stack([values.min(0), values.max(0)]))
    out = la.zeros(4)
    assert la.reduction(x, np.sum, np.sum, axis=0, dtype=float, out=out) is out
    check(out, values.sum(0))


def test_reductions_that_can_not_be_are_refused():
    x = la.ones(3)
    with pytest.raises(ValueError, match="needs the dtype of the result: pass dtype="):
        la.reduction(x, np.sum, np.sum)
    with pytest.raises(ValueError, match="split_every must be 2 or more; got 1"):
        la.reduction(x, np.sum, np.sum, dtype=float, split_every=1)
    with pytest.raises(np.exceptions.AxisError):
        la.reduction(x, np.sum, np.sum, dtype=float, axis=2)
