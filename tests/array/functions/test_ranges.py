"""Numbers at equal distances have NumPy's bits, by kernels and by NumPy, in any chunks."""

import numpy as np
import pytest
from array_checks import check, raised
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la

WAYS = pytest.mark.parametrize("kernels", ["numpy", "native"])

floats = st.floats(-1e6, 1e6, allow_subnormal=True)


def same_bits(found, right):
    assert (found.dtype, found.shape) == (right.dtype, right.shape)
    assert found.tobytes() == right.tobytes()


@WAYS
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_ranges_of_whole_numbers(dtype, kernels):
    asked = [(10,), (2, 50, 3), (50, 2, -3), (0,), (9, 20, 100)]
    if np.dtype(dtype).itemsize > 2:
        asked += [(0, 40_000), (3, 100_000, 7)]
    if dtype == "i8":
        asked += [(2**62, 2**62 + 50_000, 2), (-(2**63), 10 - 2**63)]
    for given_ in asked:
        with lazyflow.config.set(kernels=kernels):
            found = la.arange(*given_, dtype=dtype, chunks=17_000).compute()
        same_bits(found, np.arange(*given_, dtype=dtype))


@WAYS
@settings(max_examples=60, deadline=None)
@given(start=floats, step=floats.filter(bool), count=st.integers(0, 40_000))
def test_ranges_of_floats(kernels, start, step, count):
    stop = start + step * count
    right = np.arange(start, stop, step)
    with lazyflow.config.set(kernels=kernels):
        same_bits(la.arange(start, stop, step, chunks=17_000).compute(), right)


@WAYS
@settings(max_examples=80, deadline=None)
@given(
    ends=st.tuples(floats, floats), num=st.integers(0, 40_000), endpoint=st.booleans(),
    dtype=st.sampled_from([None, "f4", "f8", "i8"]), whole=st.booleans(),
)
def test_lines(kernels, ends, num, endpoint, dtype, whole):
    start, stop = map(int, ends) if whole else ends
    with lazyflow.config.set(kernels=kernels):
        found = la.linspace(start, stop, num, endpoint, dtype=dtype, chunks=17_000).compute()
    same_bits(found, np.linspace(start, stop, num, endpoint, dtype=dtype))


@WAYS
def test_parts_of_ranges_are_those_of_the_whole(kernels):
    with lazyflow.config.set(kernels=kernels):
        x = la.linspace(-1, 3, 50_001, chunks=9000)
        right = np.linspace(-1, 3, 50_001)
        same_bits(x[::-1][:100].compute(), right[::-1][:100].copy())
        same_bits((x[3:] * 2 + la.arange(50_001)[:-3]).compute(), right[3:] * 2 + np.arange(49_998))
        same_bits(la.linspace(0, 5e-324, 7, chunks=3).compute(), np.linspace(0, 5e-324, 7))
        same_bits(la.linspace(1, 1, 7, chunks=3).compute(), np.ones(7))


def test_kernels_read_no_memory_for_a_range():
    assert "8 MB read" not in la.report((la.arange(1_000_000) * 2.0).sum())


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "u8"])
def test_ranges_of_numbers_that_a_type_does_not_have(dtype):
    for asked in (
        (300, 303), (250, 260), (-1, 2), (0, 1000, 300), (300, 300), (300, 301), (70000.0, 70003),
        (1.5, 4), (0.5, 5, 0.5), (120, 140, 5), (5, -6, -3), (2**63, 2**63 + 2), (255, 256),
    ):
        try:
            expected = np.arange(*asked, dtype=dtype)
        except OverflowError as error:
            assert raised(lambda x=asked: la.arange(*x, dtype=dtype)) == (OverflowError, str(error))
        else:
            check(la.arange(*asked, dtype=dtype, chunks=2), expected)


@pytest.mark.parametrize("ends", [([0, 1], 5), (0, np.arange(2)), (la.arange(2), [3, 4])])
def test_lines_of_arrays_are_refused_in_words(ends):
    for make in (la.linspace, la.logspace):
        with pytest.raises(TypeError, match=r"of shape \(2,\).*la.from_array\(np.linspace"):
            make(*ends, 3)
