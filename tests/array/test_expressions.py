"""Random programs of arrays give what NumPy gives, and each pass keeps it."""

import warnings

import numpy as np
import pytest
from array_checks import same_values
from array_strategies import lengths
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la
from lazyflow import config
from lazyflow.array.passes.rewrites import PASSES, merge_equal
from lazyflow.array.passes.spec import check_pass

DTYPES = ["f8", "f4", "i8", "i4", "u1", "bool", "c16"]


@st.composite
def data(draw, shape=None):
    """A NumPy array with special values, and the same in chunks."""
    if shape is None:
        shape = tuple(draw(st.lists(st.integers(0, 6), min_size=0, max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    if dtype.kind == "f":
        values = rng.choice([0.0, -0.0, 1.5, -2.25, np.nan, np.inf, 1e-3, 7.0], shape)
    elif dtype.kind == "c":
        values = rng.choice([0, 1 + 2j, -1.5j, 3.0], shape)
    else:
        values = rng.integers(-3 if dtype.kind == "i" else 0, 2 if dtype.kind == "b" else 5, shape)
    array = np.asarray(values).astype(dtype)
    chunks = tuple([draw(lengths(n)) for n in shape])
    chunked = la.from_array(array, chunks=chunks) if shape else la.asarray(array)
    if draw(st.booleans()) and shape:
        chunked = chunked.persist()  # blocks that can't be had in other chunks
    return array, chunked


UNARY = [np.negative, np.absolute, np.square, np.isnan, np.exp, np.sign, np.conjugate]
BINARY = [
    np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.true_divide, np.greater,
    np.not_equal, np.floor_divide, np.remainder,
]


@st.composite
def key(draw, shape):
    """A basic index."""
    found = []
    for n in shape:
        kind = draw(st.integers(0, 3))
        if kind == 0 and n:
            found.append(draw(st.integers(-n, n - 1)))
        elif kind == 1:
            found.append(draw(st.slices(n)))
        else:
            found.append(slice(None))
    if draw(st.integers(0, 4)) == 0:
        found.insert(draw(st.integers(0, len(found))), None)
    return tuple(found)


@st.composite
def programs(draw):
    """Pairs of a NumPy result and the chunked array that should have it."""
    pool = [draw(data())]
    pool.append(draw(data(shape=pool[0][0].shape)))
    for _ in range(draw(st.integers(1, 12))):
        a, x = pool[draw(st.integers(0, len(pool) - 1))]
        kind = draw(st.integers(0, 11))
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = _step(draw, kind, a, x, pool)
        except TypeError:  # no loop for these types: for both
            continue
        if made is not None:
            pool.append(made)
    return pool


def _step(draw, kind, a, x, pool):
    if kind == 0:
        func = draw(st.sampled_from(UNARY))
        return func(a), func(x)
    if kind in (1, 2):
        func = draw(st.sampled_from(BINARY))
        b, y = pool[draw(st.integers(0, len(pool) - 1))]
        if draw(st.integers(0, 3)) == 0:
            b = y = draw(st.sampled_from([2, 0.5, True, -1]))
        try:
            expected = func(a, b)
        except ValueError:
            with pytest.raises(ValueError, match="could not be broadcast"):
                func(x, y)
            return None
        except OverflowError:
            with pytest.raises(OverflowError):
                func(x, y)
            return None
        return expected, func(x, y)
    if kind == 3:
        index = draw(key(a.shape))
        return np.asarray(a[index]), x[index]
    if kind == 4:
        order = draw(st.permutations(range(a.ndim)))
        return a.transpose(order), x.transpose(*order)
    if kind == 5 and a.size:
        axis = draw(st.sampled_from([None, *range(a.ndim)]))
        func = draw(st.sampled_from([np.max, np.min, np.any, np.all]))
        keep = draw(st.booleans())
        return np.asarray(func(a, axis=axis, keepdims=keep)), func(x, axis=axis, keepdims=keep)
    if kind == 6:
        b, y = pool[draw(st.integers(0, len(pool) - 1))]
        if b.shape != a.shape:
            return None
        return np.where(a != 0, b, a), np.where(x != 0, y, x)
    if kind == 7 and a.ndim:
        return a, x.rechunk(tuple([draw(lengths(n)) for n in a.shape]))
    if kind == 8:
        shape = draw(st.sampled_from([(-1,), a.shape[::-1], (1, *a.shape), (*a.shape, 1)]))
        return (a.reshape(shape), x.reshape(shape)) if a.size else None
    if kind == 9 and a.ndim:
        return np.concatenate([a, a[::-1]]), la.concatenate([x, x[::-1]])
    if kind == 10 and a.ndim and a.dtype.kind in "iu":  # of floats the order of sums differs
        return np.cumsum(a, axis=0), la.cumsum(x, axis=0)
    if kind == 11 and a.ndim == 2 and a.dtype.kind in "iu":
        return a @ a.T, x @ x.T
    return None


@pytest.fixture(autouse=True)
def numpys_functions():  # own ones may differ in the last place
    with config.set(math="numpy"):
        yield


@given(programs(), st.sampled_from(["sync", "threads"]), st.booleans())
def test_programs_give_what_numpy_gives(pool, scheduler, fusion):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with config.set(scheduler=scheduler, array_fusion=fusion):
            found = lazyflow.compute(*[x for _, x in pool])
    for value, (expected, x) in zip(found, pool, strict=True):
        assert x.shape == expected.shape
        assert x.dtype == expected.dtype
        same_values(value, expected)


@given(programs(), st.sampled_from(PASSES), st.booleans(), st.booleans())
def test_each_pass_keeps_results_and_shapes(pool, rewrite, keep, fusion):
    nodes = [x.expr for _, x in pool]
    after = rewrite.apply(nodes, keep, fusion)
    check_pass(nodes, after, keep or rewrite.keeps_chunks)
    for node, made, (expected, _) in zip(nodes, after, pool, strict=True):
        assert made.shape == node.shape
        assert made.dtype == node.dtype
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            same_values(la.Array(made).compute(), expected)


@given(programs(), st.booleans(), st.booleans())
def test_running_a_pass_again_changes_nothing(pool, keep, fusion):
    nodes = [x.expr for _, x in pool]
    for rewrite in PASSES:
        nodes = rewrite.apply(nodes, keep, fusion)
        merged = merge_equal([*nodes, *rewrite.apply(nodes, keep, fusion)])
        assert merged[:len(nodes)] == merged[len(nodes):], rewrite.name


@given(programs())
def test_persisted_blocks_have_the_chunks_that_were_said(pool):
    _, x = pool[-1]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x.persist()
        assert y.chunks == x.chunks
        blocks = lazyflow.compute(list(y.__lazyflow_tasks__()))[0]
    shapes = [
        tuple([sizes[i] for sizes, i in zip(x.chunks, index, strict=True)])
        for index in np.ndindex(*x.numblocks)
    ]
    assert [np.shape(block) for block in blocks] == shapes
    assert all(np.asarray(block).dtype == x.dtype for block in blocks)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(programs(), st.sampled_from(["sync", "threads"]), st.booleans())
def test_thousands_of_programs(pool, scheduler, fusion):
    test_programs_give_what_numpy_gives.hypothesis.inner_test(pool, scheduler, fusion)
