"""Arrays, chunks, keys and axes that Hypothesis draws for tests of arrays."""

import numpy as np
from hypothesis import strategies as st

import lazyflow.array as la


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
def arrays(draw, least=0, dtypes=("f8", "i8", "i1", "?"), ndim=(1, 3), nan=True):
    """An ndarray with repeated values and the same in chunks."""
    count = draw(st.integers(*ndim))
    shape = tuple(draw(st.lists(st.integers(least, 6), min_size=count, max_size=count)))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    x = rng.integers(-3, 4, shape).astype(dtype)
    if nan and dtype.kind == "f" and draw(st.booleans()):
        x[rng.random(shape) < 0.3] = np.nan
    return x, la.from_array(x, chunks=draw(chunkings(shape)))


def axis_of(data, x, none=True):
    options = list(range(-x.ndim, x.ndim))
    return data.draw(st.sampled_from([None, *options] if none else options))
