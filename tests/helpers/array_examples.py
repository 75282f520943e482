"""Arrays, keys, sources and functions that tests of arrays have in common."""

import numpy as np
from hypothesis import strategies as st

import lazyflow.array as la


class Store:
    """A source that is read by slices, which it notes, and that may say the chunks of its file."""

    def __init__(self, array, chunks=None):
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype
        if chunks is not None:
            self.chunks = chunks
        self.read = []

    def __getitem__(self, key):
        self.read.append(key)
        return self.array[key]


class Broken:
    """A source that can't be read."""

    shape, dtype = (4, 6), np.dtype(float)
    name = "winds.h5"

    def __getitem__(self, key):
        raise OSError("disk is gone")


def kinds(a, chunks):
    """Return the same array in memory, computed from others, and as tasks."""
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


def lengths(n):
    """Draw chunks of an axis: uneven ones, of length 1 and of length 0."""
    return st.lists(st.integers(0, n), max_size=4).map(
        lambda cuts: tuple(np.diff([0, *sorted(cuts), n]).tolist())
    )


def chunkings(shape):
    """Draw chunks of each axis."""
    return st.tuples(*map(lengths, shape))


@st.composite
def chunked(draw, most=3, longest=7):
    """Draw an array and chunks for it."""
    shape = tuple(draw(st.lists(st.integers(0, longest), min_size=1, max_size=most)))
    chunks = [draw(lengths(n)) for n in shape]
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


@st.composite
def arrays(draw, low=0, ndim=3):
    """Draw an array of whole numbers and the same in chunks."""
    shape = tuple(draw(st.lists(st.integers(low, 7), min_size=1, max_size=ndim)))
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) * 3 % 17
    return values, la.from_array(values, chunks=draw(chunkings(shape)))


class Calls:
    """A function that notes the shapes that it is called with."""

    __name__ = "calls"

    def __init__(self):
        self.shapes = []

    def __call__(self, *blocks):
        self.shapes.append(tuple(block.shape for block in blocks))
        return blocks[0]
