"""Functions of elements, types, grids and zarr files, against NumPy."""

import numpy as np
import pytest
from array_checks import check
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la

FLOATS = np.array([[-2.5, -0.0, 0.0, np.inf], [np.nan, -np.inf, 1.5, 3.0]])
INTS = np.arange(-4, 4).reshape(2, 4)
COMPLEX = FLOATS[1:] + 1j * np.array([0, 1, -1, 0])


@pytest.mark.parametrize("name", ["sinc", "i0", "fix", "isreal", "iscomplex", "isneginf",
                                  "isposinf"])
@pytest.mark.parametrize("a", [FLOATS, FLOATS.astype("f4"), INTS, COMPLEX, INTS > 0, INTS[:0]],
                         ids=["f8", "f4", "int", "complex", "bool", "empty"])
def test_functions_of_elements(name, a):
    x = la.from_array(a, chunks=(1, 3))
    with np.errstate(all="ignore"):
        try:
            expected = getattr(np, name)(a)
        except TypeError as error:
            with pytest.raises(type(error), match=r"\w+"):
                getattr(la, name)(x)
            return
        check(getattr(la, name)(x), expected)
        check(getattr(np, name)(x), expected)


def test_functions_of_elements_write_into_out():
    x, out = la.from_array(FLOATS, chunks=2), la.zeros((2, 4), dtype=bool, chunks=2)
    assert la.isposinf(x, out) is out
    check(out, np.isposinf(FLOATS))
    assert np.fix(la.ones(2), out=(found := la.zeros(2))) is found


def test_missing_values():
    check(la.isnull(la.from_array(FLOATS, chunks=3)), np.isnan(FLOATS))
    check(la.notnull(la.from_array(INTS, chunks=3)), np.ones((2, 4), bool))
    dates = np.array(["2020-01-01", "NaT"], dtype="M8[D]")
    check(la.isnull(la.from_array(dates, chunks=1)), [False, True])
    objects = np.array([None, "a", float("nan"), 1], dtype=object)
    check(la.isnull(la.from_array(objects, chunks=3)), [True, False, True, False])


@settings(max_examples=40)
@given(st.data())
def test_select(data):
    a = np.arange(12).reshape(3, 4)
    x = la.from_array(a, chunks=(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))))
    choices = [a * 2, a.astype("f4"), a[0], a[:, :1] / 3, 7, 2.5, np.int8(3)]
    count = data.draw(st.integers(1, 4))
    picked = [data.draw(st.sampled_from(choices)) for _ in range(count)]
    limits = [data.draw(st.integers(0, 12)) for _ in range(count)]
    default = data.draw(st.sampled_from([0, -1.5, np.float32(2)]))
    expected = np.select([a > n for n in limits], picked, default)
    lazy = [la.from_array(p, chunks=2) if isinstance(p, np.ndarray) else p for p in picked]
    check(la.select([x > n for n in limits], lazy, default), expected)
    check(np.select([x > n for n in limits], lazy, default), expected)


def test_select_refuses_what_numpy_refuses():
    x = la.arange(3)
    with pytest.raises(ValueError, match="same length as list of conditions"):
        la.select([x > 1], [x, x])
    with pytest.raises(ValueError, match="empty condition list"):
        la.select([], [])
    with pytest.raises(TypeError, match="invalid entry 1 in condlist: should be boolean ndarray"):
        la.select([x > 1, x], [x, x])


def test_types():
    f, i, c = la.ones(3, dtype="f4"), la.ones((2, 2), dtype="i8"), la.ones(1, dtype="c8")
    for module in (la, np):
        assert module.result_type(f, i) == np.float64
        assert module.result_type(f, 2.5, True) == np.float32
        assert module.can_cast(f, "f8") is True
        assert module.can_cast(f, "i8") is False
        assert module.can_cast(f, "i8", "unsafe") is True
        assert module.common_type(f, i) is np.float64
        assert module.common_type(f, c) is np.complex64
        assert module.iscomplexobj(c) is True
        assert module.isrealobj(c) is False
        assert module.isrealobj(i) is True
    with pytest.raises(TypeError, match="non-numeric"):
        la.common_type(la.asarray(["a"]))


def test_grids():
    check(la.identity(5, chunks=2), np.identity(5))
    check(la.identity(3, int), np.identity(3, int))
    check(la.logspace(0, 2, 7, chunks=3), np.logspace(0, 2, 7))
    check(la.logspace(0, 3, 4, endpoint=False, base=2, dtype=int, chunks=3),
          np.logspace(0, 3, 4, endpoint=False, base=2, dtype=int))
    for n, m, k in ((4, 4, 0), (3, 5, 1), (5, 3, -1), (0, 2, 0)):
        for name in ("tril_indices", "triu_indices"):
            expected = getattr(np, name)(n, k, m)
            for one, other in zip(getattr(la, name)(n, k, m, chunks=2), expected, strict=True):
                check(one, other)
            x = la.ones((n, m), chunks=2)
            for one, other in zip(getattr(np, f"{name}_from")(x, k), expected, strict=True):
                check(one, other)
    with pytest.raises(ValueError, match="input array must be 2-d"):
        la.tril_indices_from(la.ones(3))


def test_functions_of_indices(here):
    shapes = []

    def f(i, j, scale=1):
        shapes.append((i.shape, j.shape))
        return i * scale + j

    found = la.fromfunction(f, (3, 4), chunks=2, dtype=int, scale=10)
    assert found.chunks == ((2, 1), (2, 2))
    assert shapes == []
    check(found, np.fromfunction(f, (3, 4), dtype=int, scale=10))
    assert ((2, 2), (2, 2)) in shapes
    check(la.fromfunction(lambda i: i / 2, (5,), chunks=2), np.arange(5) / 2)
    with pytest.raises(TypeError, match="pass shape="):
        la.fromfunction(f)


@pytest.mark.parametrize("order", ["C", "F"])
def test_flat_indices_and_coordinates(order):
    a = np.array([[0, 23, 5], [7, 11, 2]])
    x = la.from_array(a, chunks=2)
    expected = np.unravel_index(a, (2, 3, 4), order)
    for module in (la, np):
        found = module.unravel_index(x, (2, 3, 4), order)
        for one, other in zip(found, expected, strict=True):
            check(one, other)
        check(module.ravel_multi_index(found, (2, 3, 4), order=order), a)
    wrapped = la.ravel_multi_index([x, x[:1]], (3, 4), mode=("wrap", "clip"), order=order)
    check(wrapped, np.ravel_multi_index([a, np.broadcast_to(a[:1], a.shape)], (3, 4),
                                        mode=("wrap", "clip"), order=order))
    with pytest.raises(ValueError, match="index 23 is out of bounds for array with size 6"):
        la.unravel_index(x, (2, 3), order)[0].compute()
    with pytest.raises(ValueError, match="invalid entry in coordinates array"):
        la.ravel_multi_index([x, x], (2, 3), order=order).compute()
    with pytest.raises(TypeError):
        la.unravel_index(la.ones(3), (2, 3))


def test_union():
    a, b = np.array([[3, 1], [1, 2]]), np.array([5, 3, 0])
    check(la.union1d(la.from_array(a, chunks=1), la.from_array(b, chunks=2)), np.union1d(a, b))
    check(np.union1d(la.from_array(a, chunks=1), b), np.union1d(a, b))


def test_compute_and_persist_are_there():
    x = la.arange(4, chunks=2)
    assert la.compute(x.sum(), x.max()) == (6, 3)
    (kept,) = la.persist(x + 1)
    check(kept, np.arange(1, 5))
    assert la.compute is lazyflow.compute


# -- zarr -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_zarr_files(tmp_path, scheduler):
    pytest.importorskip("zarr")
    a = np.arange(35.0).reshape(5, 7)
    path = str(tmp_path / "a.zarr")
    x = la.from_array(a, chunks=((1, 3, 1), (4, 3)))
    with lazyflow.config.set(scheduler=scheduler):
        assert x.to_zarr(path) is None
        found = la.from_zarr(path)
        np.testing.assert_array_equal(found.compute(), a)
        assert la.from_zarr(path, chunks=2).chunks == ((2, 2, 1), (2, 2, 2, 1))
        np.testing.assert_array_equal(la.from_zarr(path)[1:3, ::-2].compute(), a[1:3, ::-2])


def test_zarr_arrays_that_are_there(tmp_path):
    zarr = pytest.importorskip("zarr")
    a = np.arange(35).reshape(5, 7)
    target = zarr.create_array(str(tmp_path / "b"), shape=(5, 7), chunks=(2, 3), dtype=int)
    la.to_zarr(la.from_array(a, chunks=((1, 3, 1), (4, 3))), target)
    np.testing.assert_array_equal(target[:], a)
    la.to_zarr(la.full((2, 2), -1, chunks=1), target, region=(slice(1, 3), slice(2, 4)))
    a[1:3, 2:4] = -1
    np.testing.assert_array_equal(target[:], a)
    check(la.from_zarr(target), a)
    with pytest.raises(ValueError, match="pass it as url"):
        la.to_zarr(la.ones(3), str(tmp_path / "c"), region=(slice(0, 3),))
    lazy = la.to_zarr(la.zeros((5, 7), dtype=int), target, compute=False)
    np.testing.assert_array_equal(target[:], a)
    lazy.compute()
    assert not target[:].any()
    kept = la.to_zarr(la.ones((0, 3)), str(tmp_path / "d"), "inner", return_stored=True)
    check(kept, np.ones((0, 3)))
