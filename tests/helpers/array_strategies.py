"""Arrays and axes that Hypothesis draws for tests of functions of arrays."""

import numpy as np
from hypothesis import strategies as st

import lazyflow.array as la


def cut(rng, n):
    """Chunks of an axis, some of them empty or of one element."""
    cuts = np.sort(rng.integers(0, n + 1, rng.integers(0, 5)))
    return tuple(np.diff([0, *cuts, n]).tolist())


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
    return x, la.from_array(x, chunks=tuple([cut(rng, n) for n in shape]))


def axis_of(data, x, none=True):
    options = list(range(-x.ndim, x.ndim))
    return data.draw(st.sampled_from([None, *options] if none else options))
