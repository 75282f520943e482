"""What the tests of indexing have in common: arrays, keys, and comparison with NumPy."""

import numpy as np
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la
from lazyflow.array.core import Array
from lazyflow.graph.passes import make_plan


def value(x):
    return x.compute()


def check(x, wanted):
    """The array is NumPy's: dtype, shape, values; and its blocks are what its chunks say."""
    wanted = np.asarray(wanted)
    assert isinstance(x, Array)
    found = np.asarray(value(x))
    assert found.dtype == wanted.dtype == x.dtype
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)
    assert all(n is None or n == m for n, m in zip(x.shape, wanted.shape, strict=True))
    blocks = lazyflow.compute(list(la.to_delayed(x).flat))[0]
    for index, block in zip(np.ndindex(*x.numblocks), blocks, strict=True):
        assert isinstance(block, np.ndarray) and block.dtype == x.dtype
        sizes = [c[i] for c, i in zip(x.chunks, index, strict=True)]
        assert all(n is None or n == m for n, m in zip(sizes, block.shape, strict=True))


def check_parts(x, wanted):
    """The array is NumPy's, also in the parts of complex numbers, signs of zero, order of bytes."""
    check(x, wanted)
    found, wanted = value(x), np.asanyarray(wanted)
    assert np.asarray(found).dtype.str == wanted.dtype.str
    parts = [found, wanted]
    if wanted.dtype.kind == "c":
        parts = [np.stack([np.real(each), np.imag(each)]) for each in parts]
        np.testing.assert_array_equal(*parts)
    if wanted.dtype.kind in "fc":
        signs = [np.signbit(each[~np.isnan(each)]) for each in map(np.asarray, parts)]
        np.testing.assert_array_equal(*signs)


def raised(function):
    try:
        function()
    except Exception as error:
        return type(error), str(error)
    raise AssertionError("nothing was raised")


def tasks_of(x):
    return make_plan(x.__lazyflow_tasks__()).end


class Store:
    """Something that is read by slices, and says which were read."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype
        self.read = []

    def __getitem__(self, key):
        self.read.append(key)
        return self.array[key]


def kinds(a, chunks):
    """The same array in memory, of tasks, and computed of others."""
    x = la.from_array(a, chunks=chunks)
    return {"memory": x, "computed": x + np.zeros((), a.dtype), "tasks": x.persist()}


A = np.arange(24.0).reshape(4, 6)
KEYS = {
    "list": [0, 2],
    "negative, twice": [-1, 0, 0, 3],
    "columns": (slice(None), [5, 0, 0, 2]),
    "empty": [],
    "empty columns": (slice(None), []),
    "points": ([0, 1, 3], [1, 1, 2]),
    "points, broadcast": ([[0], [3]], [1, 5, 2]),
    "crossed": np.ix_([3, 0, 0], [1, 4]),
    "crossed, turned": (np.array([[3, 0, 1]]), np.array([[1], [4]])),
    "two axes of one": ([[0, 1], [2, 3]],),
    "an integer beside": (2, [1, 2]),
    "a slice beside": ([[0, 1], [2, 3]], slice(None, None, -2)),
    "a slice before": (slice(3, 0, -1), [4, 1]),
    "a new axis between": ([1, 2], None, [1, 0]),
    "a new axis before": (None, [1, 2], [1, 0]),
    "integer, new axis, array": (0, None, [1, 0]),
    "array and ellipsis": (Ellipsis, [1, 0]),
    "mask of rows": np.array([True, False, True, True]),
    "mask of columns": (slice(None), np.array([True, False, False, True, True, False])),
    "mask and integer": (np.array([True, False, True, True]), 2),
    "mask and array": (np.array([True, False, True, True]), [1, 2, 0]),
    "mask and slice": (np.array([True, False, True, True]), slice(1, 5, 2)),
    "mask of all": A % 5 < 2,
    "true": True,
    "false": False,
    "true and array": (True, [1, 2]),
    "a 0-d array": (np.array(1), slice(None)),
}
CHUNKS = [(2, 3), (4, 1), (1, 6), ((1, 0, 3), (2, 4)), (-1, -1)]


@st.composite
def chunked(draw, most=3, longest=7):
    shape = tuple(draw(st.lists(st.integers(0, longest), min_size=1, max_size=most)))
    chunks = []
    for n in shape:
        cuts = draw(st.lists(st.integers(0, n), max_size=3))
        chunks.append(tuple(np.diff([0, *sorted(cuts), n]).tolist()))
    a = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(draw(st.sampled_from("fil")))
    return a, tuple(chunks)


@st.composite
def keys(draw, shape):
    """Draw a key of any kind for an array of a shape."""
    found = []
    together = draw(st.integers(0, 4))
    for n in shape:
        kind = draw(st.sampled_from(["slice", "slice", "int", "array", "mask", "new"]))
        if kind == "new":
            found.append(None)
            kind = "slice"
        if kind == "int" and n:
            found.append(draw(st.integers(-n, n - 1)))
        elif kind == "array" and (n or not together):
            places = st.integers(-n, n - 1) if n else st.nothing()
            at = draw(st.lists(places, min_size=together, max_size=together))
            found.append(np.array(at, dtype=int))
        elif kind == "mask" and n >= together:
            mask = np.zeros(n, dtype=bool)
            mask[draw(st.permutations(range(n)))[:together]] = True
            found.append(mask)
        else:
            ends = st.none() | st.integers(-n - 1, n + 1)
            step = draw(st.sampled_from([None, 1, 2, -1, -3]))
            found.append(slice(draw(ends), draw(ends), step))
    return tuple(found)
