"""Functions of NumPy's and dask's that are few lines each: products, orders, shapes, files."""

import os

import dask.array as da
import h5py
import numpy as np
import pytest
from array_checks import check, check_all

import lazyflow.array as la

rng = np.random.default_rng(4)


@pytest.mark.parametrize(("one", "other"), [
    ((3,), (4,)), ((2, 3), (4,)), ((2,), (3, 4)), ((5, 4), (3, 7)), ((), (3,)), ((0,), (3,)),
])
def test_kronecker_products(one, other):
    a, b = rng.integers(0, 9, one), rng.integers(0, 9, other)
    x = la.from_array(np.asarray(a), chunks=2)
    check(np.kron(x, np.asarray(b)), np.kron(a, b))


@pytest.mark.parametrize("axis", [0, -1])
def test_orders_by_several_keys(axis):
    keys = rng.integers(0, 3, (3, 7, 8))
    lazy = tuple([la.from_array(each, chunks=3) for each in keys])
    check(np.lexsort(lazy, axis), np.lexsort(keys, axis))
    check(np.lexsort(la.from_array(keys[0], chunks=3)), np.lexsort(keys[0]))
    with pytest.raises(ValueError, match="same shape"):
        np.lexsort((lazy[0], lazy[0][1:]))


def test_complex_numbers_in_order():
    for kind in ("i1", "f4", "f8"):
        a = rng.integers(0, 9, 7).astype(kind)
        check(np.sort_complex(la.from_array(a, chunks=2)), np.sort_complex(a))


@pytest.mark.parametrize("shape", [(2, 7), (0,), 5, (2, 0, 3)])
def test_elements_again_and_again(shape):
    a = rng.integers(0, 9, (2, 3))
    check(np.resize(la.from_array(a, chunks=2), shape), np.resize(a, shape))


@pytest.mark.parametrize("args", [
    (1, 1000, 4), (1, 1000, 5, False), (-1, -8, 7), (1j, 8, 5), (2.5, 3e300, 50),
    (1, 256, 9, True, int), (1, 2, 1), (1, 2, 0), (1, 2, 2, True, "f4"),
])
def test_powers_at_equal_distances(args):
    check(la.geomspace(*args, chunks=3), np.geomspace(*args))
    with pytest.raises(ValueError, match="zero"):
        la.geomspace(0, 1)


def test_indices():
    a = np.array([0, 2])
    check_all(np.ix_(la.from_array(a, chunks=1), np.array([True, False, True])),
              np.ix_(a, [True, False, True]))
    check_all(np.diag_indices_from(la.ones((3, 3))), np.diag_indices_from(np.ones((3, 3))))
    check_all(la.mask_indices(4, la.tril, 1), np.mask_indices(4, np.tril, 1))
    check(np.diagflat(la.from_array(np.ones((2, 3)), chunks=2), 1), np.diagflat(np.ones((2, 3)), 1))
    x = la.ones((4, 6), chunks=2)
    assert np.einsum_path("ij,kj->ik", x, x) == np.einsum_path("ij,kj->ik", *np.ones((2, 4, 6)))
    assert np.min_scalar_type(x) == np.dtype(float)


def test_working_days():
    a = np.arange("2026-11-20", "2026-12-11", dtype="M8[D]")
    x = la.from_array(a, chunks=4)
    free = {"weekmask": "Mon Tue Fri", "holidays": ["2026-11-24"]}
    for options in ({}, free, {"busdaycal": np.busdaycalendar(**free)}):
        check(np.is_busday(x, **options), np.is_busday(a, **options))
        check(np.busday_count("2026-11-22", x, **options),
              np.busday_count("2026-11-22", a, **options))
        check(np.busday_offset(x, 3, "forward", **options),
              np.busday_offset(a, 3, "forward", **options))
    check(np.datetime_as_string(x, "M"), np.datetime_as_string(a, "M"))
    with pytest.raises(ValueError, match="business day"):
        np.busday_offset(x, 3).compute()
    with pytest.raises(TypeError, match="cast"):
        np.is_busday(x.astype("M8[s]"))


# -- what dask has --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {}, {"axis": 1}, {"axis": 0, "keepdims": True, "ddof": 1}, {"axis": (0, 1), "dtype": "f8"},
])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
def test_moments(order, options):
    a = rng.normal(3, 2, (9, 14))
    axis = options.get("axis")
    count = a.size if axis in (None, (0, 1)) else a.shape[axis]
    apart = (a - a.mean(axis, keepdims=True)) ** order
    expected = apart.sum(axis, keepdims="keepdims" in options) / (count - options.get("ddof", 0))
    if order < 2:
        expected = np.full(expected.shape, 1.0 - order)
    check(la.moment(la.from_array(a, chunks=4), order, **options), expected, rtol=1e-9, atol=1e-9)


def test_groups_along_an_axis():
    a = rng.random((3, 40))
    groups = np.split(rng.permutation(40), [3, 11, 12, 30])
    x, theirs = [m.from_array(a, chunks=(2, 10)) for m in (la, da)]
    found = x.shuffle([each.tolist() for each in groups], 1)
    check(found, a[:, np.concatenate(groups)])
    assert found.chunks[1] == theirs.shuffle([each.tolist() for each in groups], 1).chunks[1]
    with pytest.raises(IndexError):
        x.shuffle([[1, 40]], 1)


@pytest.mark.parametrize("shape", [(3, 12), (9, 4), (36,), 36])
def test_blocks_in_another_shape(shape):
    a = rng.random((3, 3, 4))
    chunks = ((3,), (2, 1), (3, 1))
    if shape == (9, 4):
        chunks = ((2, 1), (2, 1), (4,))
    x, theirs = [m.from_array(a, chunks=chunks) for m in (la, da)]
    found, expected = la.reshape_blockwise(x, shape), da.reshape_blockwise(theirs, shape)
    assert found.chunks == expected.chunks
    check(found, expected.compute())
    check(found[1:], expected.compute()[1:])
    check(la.reshape_blockwise(found, (3, 3, 4), chunks), a)


def test_blocks_that_have_no_such_shape():
    x = la.ones((6, 4), chunks=(2, 2))
    with pytest.raises(NotImplementedError, match="two steps"):
        la.reshape_blockwise(x, (8, 3))
    with pytest.raises(ValueError, match="pass chunks="):
        la.reshape_blockwise(x, (2, 3, 4))
    with pytest.raises(ValueError, match="have"):
        la.reshape_blockwise(x, (2, 3, 4), ((1, 1), (1, 2), (2, 2)))


def test_stacks_of_files_are_those_of_dask(tmp_path):
    a = rng.random((5, 6))
    x = la.from_array(a, chunks=(2, 4))
    la.to_npy_stack(tmp_path / "ours", x, axis=1)
    da.to_npy_stack(tmp_path / "theirs", da.from_array(a, chunks=(2, 4)), axis=1)
    assert os.listdir(tmp_path / "ours") == os.listdir(tmp_path / "theirs")
    np.testing.assert_array_equal(da.from_npy_stack(tmp_path / "ours").compute(), a)
    for mode in ("r", None):
        found = la.from_npy_stack(tmp_path / "theirs", mode)
        assert found.chunks == ((5,), (4, 2))
        check(found, a)
        check(found[1:3, 3:5], a[1:3, 3:5])


def test_datasets(tmp_path):
    a = rng.random((5, 6))
    x = la.from_array(a, chunks=(2, 4))
    x.to_hdf5(tmp_path / "a.h5", "/x", compression="gzip")
    la.to_hdf5(tmp_path / "a.h5", {"/y": x + 1, "/z": la.ones(())})
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"].chunks == (2, 4) and file["x"].compression == "gzip"
        np.testing.assert_array_equal(file["x"][:], a)
        np.testing.assert_array_equal(file["y"][:], a + 1)
        assert file["z"][()] == 1
    with pytest.raises(ValueError, match="to_hdf5"):
        la.to_hdf5(tmp_path / "a.h5", x)
