"""What NumPy's functions take for a block besides it, where no kernel runs."""

import tracemalloc

import numpy as np
import pytest
from array_checks import same_values

import lazyflow as lf
import lazyflow.array as la

FLOATS = np.random.default_rng(0).random(1_000_003)  # a block of 8 MB
NUMBERS = np.random.default_rng(1).integers(-50, 50, len(FLOATS))


@pytest.mark.parametrize(
    ("work", "data", "most"),
    [
        (lambda m, x: x[x > 0.5].sum(), FLOATS, 8e6),  # the mask 1 MB, what it chooses 4 MB
        (lambda m, x: x.std(), FLOATS, 9e6),
        (lambda m, x: m.unique(x), NUMBERS, 9e6),
    ],
    ids=["mask", "std", "unique"],
)
def test_one_array_beside_a_block_is_enough(work, data, most):
    x = la.from_array(data, chunks=len(data))
    with lf.config.set(kernels="numpy", scheduler="threads", num_workers=1):
        work(la, x[:100]).compute()
        tracemalloc.start()
        try:
            found = work(la, x).compute()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    np.testing.assert_allclose(found, work(np, data), rtol=1e-12)
    assert peak < most


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 1])
@pytest.mark.parametrize("dtype", ["f8", "i1", "c16", "S3", "O"])
def test_masks_of_large_blocks(dtype, share):
    data = NUMBERS[:600_001].astype(dtype)
    mask = FLOATS[: len(data)] < share
    found = la.from_array(data, chunks=350_000)[la.from_array(mask, chunks=350_000)]
    same_values(found.compute(), data[mask])
    whole = la.from_array(data[None], chunks=-1)
    same_values(whole[mask.reshape(whole.shape)].compute(), data[mask])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8"])
def test_whole_numbers_are_told_apart_without_kernels(dtype):
    data = NUMBERS[:1000].astype(dtype)
    with lf.config.set(kernels="numpy"):
        found = la.unique(la.from_array(data, chunks=400)).compute()
    same_values(found, np.unique(data))
