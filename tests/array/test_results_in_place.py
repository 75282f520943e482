"""Results of `compute` are written where they belong: no block is held beside the result."""

import tracemalloc

import numpy as np
import pytest
from array_checks import same_values

import lazyflow as lf
import lazyflow.array as la

DATA = np.random.default_rng(3).random((1600, 1250))  # 16 MB

IN_PLACE = {
    "one operation": lambda m, x: x + 1,
    "several operations": lambda m, x: 3 * x * x + 2 * x + 1,
    "a choice": lambda m, x: m.where(x > 0.5, x, 0),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("kernels", ["tiles", "native"])
def test_the_blocks_of_a_result_take_no_memory_of_their_own(name, kernels):
    make = IN_PLACE[name]
    made = make(la, la.from_array(DATA, chunks=(200, 1250)))
    with lf.config.set(kernels=kernels, scheduler="threads", num_workers=1):
        made.compute()  # compiles
        tracemalloc.start()
        try:
            found = made.compute()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    same_values(found, make(np, DATA))
    assert found.flags.owndata and found.flags.writeable and found.flags.c_contiguous
    assert peak < found.nbytes + 1.7e6  # less than a block, which has 2 MB


def test_blocks_that_are_read_too_are_right():
    x = la.from_array(DATA, chunks=(200, 1250)) * 2
    found = lf.compute(x, x.sum(), x[::2], x)
    wanted = DATA * 2, x.sum().compute(), DATA[::2] * 2, DATA * 2
    for one, expected in zip(found, wanted, strict=True):
        same_values(one, expected)
    assert found[0] is not found[3] and not np.shares_memory(found[0], found[2])
