"""Arrays, keys, fake sources and functions that tests of arrays have in common."""

import numpy as np

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


class Calls:
    """A function that notes the shapes that it is called with."""

    __name__ = "calls"

    def __init__(self):
        self.shapes = []

    def __call__(self, *blocks):
        self.shapes.append(tuple(block.shape for block in blocks))
        return blocks[0]
