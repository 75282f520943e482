"""What Numba compiled, on chunked arrays: NumPy's bits and types, in fused expressions too."""

from types import SimpleNamespace

import numpy as np
import pytest
from array_checks import check

import lazyflow.array as la
from lazyflow.array.functions import computed

numba = pytest.importorskip("numba")

SCHEDULERS = ["sync", "threads", "processes"]

A = np.arange(12.0).reshape(3, 4)


@pytest.fixture(scope="module")
def made():
    """Compiled once for all tests."""
    @numba.vectorize(["f4(f4, f4)", "f8(f8, f8)"])
    def listed(a, b):
        return a * 2 + b

    @numba.vectorize(["f8(f8, f8)"], identity=0)
    def added(a, b):
        return a + b

    @numba.guvectorize(["f4[:], f4[:]", "f8[:], f8[:]"], "(n)->()")
    def total(row, result):
        result[0] = 0
        for x in row:
            result[0] += x

    @numba.guvectorize(["f8[:], f8[:], f8[:]"], "(n)->(), (n)")
    def both(row, low, shifted):
        low[0] = row.min()
        shifted[:] = row - low[0]

    @numba.guvectorize("(n)->(n)")
    def doubled(row, result):
        for i in range(len(row)):
            result[i] = row[i] * 2

    return SimpleNamespace(**locals())


def plain():
    def twice(a, b):
        return a * 2 + b

    return twice


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("use", [
    lambda f, x: f(x, x), lambda f, x: f(x.astype("f4"), x.astype("f4")),
    lambda f, x: f(x.astype("f4"), 2.5), lambda f, x: f(x.astype("i4"), np.float32(2)),
    lambda f, x: f(A, x), lambda f, x: f([1, 2, 3, 4], x), lambda f, x: f(x[:0], 1),
    lambda f, x: (f(x * 2, x - 1) + 1).sum(axis=0), lambda f, x: f(f(x, 1), f(1, x)),
    lambda f, x: f.outer(x[0], x[1]), lambda f, x: f.reduce(x, axis=1),
    lambda f, x: f.accumulate(x),
])
def test_ufuncs_with_signatures(made, use, scheduler):
    check(use(made.listed, la.from_array(A, chunks=2)), use(made.listed, A), scheduler)


@pytest.mark.parametrize("size", [10, 300])  # the larger in several blocks
def test_ufuncs_on_large_blocks(made, size):
    a = np.arange(size * size * 1.0).reshape(size, size)
    x = la.from_array(a, chunks=(size // 2, size))

    def work(x):
        return np.sqrt(made.listed(x.T, x) * 3)

    check(work(x), work(a), "threads")


@pytest.mark.parametrize("operands", [
    lambda x: (x, x), lambda x: (x.astype("f4"), 2.5), lambda x: (x.astype("i2"), 3),
    lambda x: (x > 2, x.astype("c8")),
])
def test_ufuncs_that_compile_when_they_are_called(operands):
    mine, numpys = numba.vectorize(plain()), numba.vectorize(plain())  # loops stay: one each
    x = la.from_array(A, chunks=2)
    check(mine(*operands(x)) * 2, numpys(*operands(A)) * 2, "threads")
    assert mine.types == numpys.types


@pytest.mark.parametrize("use", [
    lambda f, x: f(x + 1j, x), lambda f, x: f(x), lambda f, x: f(x, x, dtype="i4"),
    lambda f, x: f(x, np.array("a")),
])
def test_ufuncs_refuse_what_they_refuse_of_numpys_arrays(made, use):
    with pytest.raises(Exception) as expected:
        use(made.listed, A)
    with pytest.raises(expected.type):
        use(made.listed, la.from_array(A, chunks=2))


def test_reduce_with_an_identity(made):
    x = la.from_array(A, chunks=2)
    check(made.added.reduce(x[:0]), made.added.reduce(A[:0]))
    check(made.added.reduce(x, axis=None, keepdims=True), A.sum(keepdims=True))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("use", [
    lambda f, x: f.total(x), lambda f, x: f.total(x.astype("f4")), lambda f, x: f.total(x, axis=0),
    lambda f, x: (f.total(x * 2) + 1) / 3, lambda f, x: f.both(x)[0], lambda f, x: f.both(x)[1],
    lambda f, x: f.doubled(x.astype("i4"), np.zeros_like(x, dtype="f4")),
])
def test_generalised_ufuncs(made, use, scheduler):
    check(use(made, la.from_array(A, chunks=2)), use(made, A), scheduler)


def test_generalised_ufuncs_write_into_arrays(made):
    x, out = la.from_array(A, chunks=2), la.zeros((3, 4), chunks=3)
    made.doubled(x, out=out)
    check(out, A * 2)
    total = la.zeros(3, dtype="f4")
    assert made.total(x.astype("f4"), out=total) is total
    check(total, A.astype("f4").sum(axis=1))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_is_called_for_each_block(made, scheduler):
    x = la.from_array(A, chunks=(2, 4))
    check(x.map_blocks(made.listed, x), A * 3, scheduler)
    check(la.apply_gufunc(made.listed, "(),()->()", x, 1.0), A * 2 + 1, scheduler)
    check(la.apply_gufunc(made.total, "(n)->()", x, output_dtypes=float), A.sum(axis=1), scheduler)
    check(x.map_blocks(numba.njit(plain()), 1.0) * 2, (A * 2 + 1) * 2, scheduler)


@pytest.mark.parametrize("dtype", ["f8", "i2", "c16"])
def test_compiled_functions_get_the_values_and_it_is_said_once(dtype, monkeypatch):
    monkeypatch.setattr(computed, "_warned", set())
    a = A.astype(dtype)
    compiled = numba.njit(plain())
    with pytest.warns(match="a function compiled by Numba needs values") as told:
        for x in la.from_array(a, chunks=2), la.from_array(a, chunks=1):
            found = compiled(x, a)
            assert type(found) is np.ndarray
            assert found.dtype == compiled(a, a).dtype
            np.testing.assert_array_equal(found, a * 3)
    assert [w.filename for w in told] == [__file__]
