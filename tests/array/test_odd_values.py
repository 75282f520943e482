"""Odd values in arrays, and in functions of blocks, as in NumPy."""


import numpy as np
import pytest
from array_checks import blocks_of, check

import lazyflow.array as la


def _structured():
    made = np.zeros(6, dtype=[("a", "i4"), ("b", "f8")])
    made["a"] = np.arange(6)
    return made


ODD = {
    "nan": np.array([1.0, np.nan, 3.0, np.nan, np.nan, 6.0]),  # the second chunk is all NaN
    "object": np.array([1, 2.5, 3, 10**30, 5, 6], dtype=object),
    "big-endian": np.arange(6, dtype=">f8"),
    "int8": np.full(6, 100, dtype="i1"),
    "uint8": np.full(6, 200, dtype="u1"),
    "bool": np.array([True, False, True, True, False, True]),
    "complex": np.arange(6) * (1 + 2j),
    "empty": np.empty(0),
    "dates": np.arange("2020-01-01", "2020-01-07", dtype="M8[D]"),
    "text": np.array(["b", "a", "c", "f", "e", "d"]),
    "structured": _structured(),
}
CHUNKS = [(6,), (1, 3, 2), (0, 1, 0, 2, 2, 1, 0)]
FUNCTIONS = [
    lambda x: x.sum(), lambda x: x.max(), lambda x: x.min(), lambda x: x.mean(),
    lambda x: x.prod(), lambda x: x.any(), lambda x: x + x, lambda x: x == x, lambda x: x[::-2],
    lambda x: np.nansum(x), lambda x: -x, lambda x: x.var(),
]


COMPARISON = 7


def outcome(function, x):
    with np.errstate(all="ignore"):
        try:
            found = function(x)
            return found.compute() if isinstance(found, la.Array) else found
        except Exception as error:
            return type(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_odd_values_give_what_numpy_gives(kind, number):
    values = ODD[kind]
    if kind == "structured" and number == COMPARISON:
        return  # only ndarray's own operator compares these, no ufunc does
    expected = outcome(FUNCTIONS[number], values)
    for chunks in CHUNKS if values.size else [(0,), (0, 0)]:
        found = outcome(FUNCTIONS[number], la.from_array(values, chunks=(chunks,)))
        if isinstance(expected, type):
            assert isinstance(found, type) and issubclass(found, expected), found
            continue
        assert not isinstance(found, type), found
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        if values.dtype.kind in "fc":
            np.testing.assert_allclose(found, expected)
        else:
            np.testing.assert_array_equal(found, expected)


def test_odd_values_reach_functions_of_blocks_as_they_are():
    for values in ODD.values():
        x = la.from_array(values, chunks=4)
        check(x.map_blocks(lambda b: b, dtype=values.dtype), values)
        check(x.map_blocks(lambda b: b), values)
        if values.size:
            check(x.map_overlap(lambda b: b, 1, "nearest"), values)


def test_an_extreme_of_masked_blocks_is_not_masked():
    x = la.from_array(np.arange(4), chunks=2)
    masked = x.map_blocks(lambda b: np.ma.masked_equal(b, 3), dtype=int).persist()
    assert masked.argmax().compute() == la.argmax(masked, axis=0).compute() == 2


def test_masked_blocks_stay_masked():
    x = la.arange(6, chunks=3)
    masked = x.map_blocks(lambda b: np.ma.masked_greater(b, 1), dtype=int)
    count = masked.map_blocks(lambda b: np.asarray([b.count()]), chunks=1, dtype=int)
    check(count, [2, 0])
    wide = masked.map_overlap(lambda b: b, 1, trim=False, dtype=int)
    assert [type(b) for b in blocks_of(wide)] == [np.ma.MaskedArray] * 2


@pytest.mark.parametrize("chunks, words", [
    ((2, 3), r"chunks of axis 0, \(2, 3\), add up to 5, but the axis has length 6"),
    (0, r"chunks of axis 0 have length 0; it must be 1 or more, or -1 for one chunk"),
    (-2, r"chunks of axis 0 have length -2; it must be 1 or more"),
    ((7, -1), r"chunks of axis 0, \(7, -1\), add up to 6"),
])
def test_bad_chunks_are_one_sentence(chunks, words):
    given = (chunks,) if isinstance(chunks, tuple) else chunks
    for make in (
        lambda: la.ones(6, chunks=given),
        lambda: la.from_array(np.arange(6), chunks=given),
        lambda: la.arange(6, chunks=2).rechunk(given),
    ):
        with pytest.raises(ValueError, match=words):
            make()
