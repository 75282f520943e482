"""Arrays whose blocks are no NumPy arrays: computed by their own library, or refused."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from device_array import DeviceArray

import lazyflow.array as la

A = np.where(np.arange(24).reshape(6, 4) % 3 == 0, np.arange(24.0).reshape(6, 4), 0)
OF_SCIPY = [sp.csr_matrix, sp.csr_array, sp.coo_array]


def dense(x):
    for name in ("get", "toarray", "todense"):
        if hasattr(x, name):
            return getattr(x, name)()
    return x


def of_kind(make):
    return la.from_array(A, chunks=(4, 3)).map_blocks(make)


ALL = {
    "itself": lambda x: x,
    "rows": lambda x: x[1:5],
    "steps": lambda x: x[::-2, 1:3],
    "transposed": lambda x: x.T,
    "chunks": lambda x: x.rechunk((5, 2)),
    "concatenated": lambda x: la.concatenate([x, x.rechunk(2)], axis=1),
    "stacked": lambda x: la.vstack([x, x[:2]]),
    "twice": lambda x: x * 2.5,
    "added": lambda x: x + x.rechunk(3),
    "multiplied": lambda x: la.multiply(x, x),
    "squares": lambda x: x ** 2,
    "roots": lambda x: np.sqrt(abs(-x)),
    "compared": lambda x: x > 3,
    "cast": lambda x: x.astype("f4"),
    "product": lambda x: x.T @ x,
    "dot": lambda x: x.dot(x.T),
    "total": lambda x: x.sum(),
    "sums": lambda x: np.sum(x, axis=0),
    "kept": lambda x: x.sum(axis=1, keepdims=True),
    "means": lambda x: x.mean(axis=0),
    "largest": lambda x: x.max(axis=1),
    "counted": lambda x: la.count_nonzero(x, axis=0),
    "mapped": lambda x: x.map_blocks(np.negative)[2:],
    "held": lambda x: x.persist()[1:].sum(axis=0),
    "blocks": lambda x: x.blocks[1],
}


@pytest.mark.parametrize("make", [*OF_SCIPY, DeviceArray])
@pytest.mark.parametrize("function", ALL.values(), ids=ALL)
def test_values_are_those_of_numpy(function, make):
    agrees(function, make)


@pytest.mark.parametrize("name", ["twice", "sums", "concatenated", "means"])
def test_values_of_pydatas_sparse(name):
    agrees(ALL[name], pytest.importorskip("sparse").COO)


def agrees(function, make):
    x = function(of_kind(make))
    found, expected = x.compute(), function(la.from_array(A, chunks=(4, 3))).compute()
    assert x.shape == found.shape and x.dtype == found.dtype == expected.dtype
    np.testing.assert_allclose(dense(found), expected)
    if x.expr.kind is not None:
        assert not isinstance(found, np.ndarray | np.generic)
        np.testing.assert_allclose(x.todense(), expected)


@pytest.mark.parametrize("make", OF_SCIPY)
def test_of_scipy(make):
    x = of_kind(make)
    assert type(x.compute()) is make and x.dtype == float
    assert f"blocks=scipy.sparse.{make.__name__}" in repr(x)
    right = np.arange(12.0).reshape(4, 3)
    for found, expected in [
        (x @ right, A @ right), (x @ right[:, 0], A @ right[:, 0]),
        (la.from_array(right.T, chunks=2) @ x.T, right.T @ A.T),
        (np.ones(6) @ x, A.sum(0)), (x * (A + 1), A * (A + 1)), (x * right[0, 0], 0 * A),
    ]:
        np.testing.assert_allclose(dense(found.compute()), expected)
    assert type((x * (A + 1)).compute()).__name__ == make.__name__  # not SciPy's coo
    assert type((x + A).compute()) is np.ndarray  # as SciPy's; no np.matrix


def test_of_a_device():
    x = of_kind(DeviceArray)
    for found, expected in [
        (x - x.mean(axis=0), A - A.mean(0)), (x.std(axis=0), A.std(0)),
        (x.var(ddof=1), A.var(ddof=1)), (np.exp(x) + 1, np.exp(A) + 1), (x[3], A[3]),
        (x[:, None, 2], A[:, None, 2]), (la.stack([x, x]), np.stack([A, A])),
        (x.any(axis=1), A.any(1)), (x * x.mean(), A * A.mean()),
    ]:
        assert type(found.compute()) is DeviceArray
        np.testing.assert_allclose(found.compute().get(), expected)


@pytest.mark.parametrize("make", [sp.csr_array, DeviceArray])
def test_sources(make):
    for x in (
        la.from_array(make(A), chunks=(4, 3)), la.asarray(make(A)),
        la.from_delayed(of_kind(make).rechunk(6).to_delayed()[0, 0], A.shape, meta=make(A[:1])),
        la.from_array(A, chunks=3).map_blocks(lambda block: make(block), meta=make(A[:1])),
        la.from_array(A, chunks=3).map_blocks(make, dtype=float),
        pickle.loads(pickle.dumps(of_kind(make))),
    ):
        found = (x[1:] * 2).compute()
        assert type(found) is make
        np.testing.assert_array_equal(dense(found), A[1:] * 2)
    assert type(la.from_array(make(A), chunks=3, asarray=True).compute()) is np.ndarray


REFUSED = {
    "cumsum": lambda x: x.cumsum(axis=0),
    "an array as index": lambda x: x[[0, 2]],
    "where": lambda x: la.where(x > 1, x, 0),
    "reshape": lambda x: x.reshape(24),
    "argmax": lambda x: x.argmax(axis=0),
    "np.asarray": np.asarray,
    "concatenate": lambda x: la.concatenate([x, A]),
    "store": lambda x: x.store(np.empty((6, 4))),
    "linalg": la.linalg.svd,
    "this function": la.fft.fft,
}


@pytest.mark.parametrize("make", [sp.csr_matrix, DeviceArray])
@pytest.mark.parametrize("words", REFUSED)
def test_all_else_is_refused_at_the_call(words, make):
    with pytest.raises(TypeError, match=rf"{words}.* of .*x\.map_blocks"):
        REFUSED[words](of_kind(make))


def test_what_a_library_refuses_is_told_with_its_words():
    x = of_kind(sp.csr_matrix)
    with pytest.raises(TypeError, match=r"add\(\) .*csr_matrix: adding a nonzero scalar"):
        x + 1
    with pytest.raises(TypeError, match=r"two axes, write x\[i:i \+ 1\]"):
        x[1]
    with pytest.raises(TypeError, match=r"std\(\) .*not sparse"):
        x.std()
    with pytest.raises(TypeError, match=r"DeviceArray: .*ndarray"):
        of_kind(DeviceArray) + A


def test_nothing_is_written_before_a_refusal(tmp_path):
    zarr = pytest.importorskip("zarr")
    with pytest.raises(TypeError, match=r"to_zarr\(\) is not known for blocks of"):
        of_kind(sp.csr_array).to_zarr(str(tmp_path / "x.zarr"))
    with pytest.raises(TypeError, match=r"to_npy_stack\(\)"):
        la.to_npy_stack(tmp_path / "stack", of_kind(sp.csr_array))
    assert zarr and not list(tmp_path.iterdir())


class InFile:
    """An array that takes part in NumPy's protocols, and is read by slices."""

    shape, dtype, ndim = (6,), np.dtype(float), 1
    __array_ufunc__ = None

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("read as a whole")

    def __array_function__(self, func, types, args, kwargs):
        return NotImplemented

    def __getitem__(self, key):
        return np.arange(6.0)[key]


def test_nothing_is_read_to_find_the_kind():
    assert la.from_array(InFile(), chunks=4).sum().compute() == 15


def test_nothing_of_dasks_is_computed_to_find_the_kind():
    da = pytest.importorskip("dask.array", reason="dask is not installed")

    def refuse(block):
        raise AssertionError("computed")

    theirs = da.ones((4, 4), chunks=2).map_blocks(refuse, dtype=float, meta=np.ones((0, 0)))
    assert (la.from_array(theirs) + la.ones(4)).shape == (la.ones((4, 4)) + theirs).shape == (4, 4)
