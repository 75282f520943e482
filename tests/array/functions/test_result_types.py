"""Types of results: the order of bytes, Python numbers beside arrays, objects."""

from fractions import Fraction

import numpy as np
import pytest
from array_checks import check, raised

import lazyflow.array as la

SWAPPED = [">f4", ">c8", ">i4", ">f8"]


def set_by_mask(x, values):
    y = x.copy()
    y[y > 1] = values
    return y


KEEPING = {
    "roll": lambda xp, x: xp.roll(x, 1),
    "roll along an axis": lambda xp, x: xp.roll(x, (1, -1), (0, 1)),
    "pad": lambda xp, x: xp.pad(x, 1),
    "pad by edges": lambda xp, x: xp.pad(x, 2, "edge"),
    "pad by means": lambda xp, x: xp.pad(x, 1, "mean"),
    "pad by reflection": lambda xp, x: xp.pad(x, 3, "reflect"),
    "conj": lambda xp, x: x.conj(),
    "np.conj": lambda xp, x: xp.conj(x),
    "real": lambda xp, x: x.real,
    "imag": lambda xp, x: x.imag,
    "np.real": lambda xp, x: xp.real(x),
    "ediff1d": lambda xp, x: xp.ediff1d(x),
    "ediff1d with an end": lambda xp, x: xp.ediff1d(x, to_end=[1, 2]),
    "nanmin": lambda xp, x: xp.nanmin(x, axis=0),
    "nanmax": lambda xp, x: xp.nanmax(x, axis=1),
    "min": lambda xp, x: xp.min(x, axis=1),
    "sum": lambda xp, x: xp.sum(x, axis=1),
    "unique": lambda xp, x: xp.unique(x),
    "round": lambda xp, x: xp.round(x),
    "gradient": lambda xp, x: xp.gradient(x, axis=0),
    "where": lambda xp, x: xp.where(x > 1, x, -1),
    "set by a mask": lambda xp, x: set_by_mask(x, 7),
    "set by a mask to numbers": lambda xp, x: set_by_mask(x, np.arange(5.0).astype(x.dtype)),
}


@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("dtype", SWAPPED)
def test_the_order_of_bytes_is_that_of_numpy(name, dtype):
    a = np.array([[1, 0, 3], [4, 5, 6], [0, 1, 7]]).astype(dtype)
    wanted = KEEPING[name](np, a)
    for chunks in (-1, 2):
        check(KEEPING[name](la, la.from_array(a, chunks=chunks)), wanted)


def test_the_largest_elements_keep_the_order_of_bytes():
    x = la.from_array(np.array([3, 1, 2]).astype(">f8"), chunks=2)
    for k in (1, -1):
        check(la.topk(x, k), np.array([3.0 if k > 0 else 1.0], ">f8"))


def test_map_blocks_keeps_the_order_of_bytes_of_what_it_gives():
    a = np.arange(5).astype(">f4")
    x = la.from_array(a, chunks=2)
    check(x.map_blocks(lambda block: block), a)
    check(x.map_blocks(lambda block: block + block), a + a)
    check(x.map_blocks(lambda block: block[:1], chunks=(1,)), a[::2])


def test_the_method_conj_leaves_real_numbers_and_the_function_does_not():
    a = np.array([True, False])
    x = la.from_array(a, chunks=1)
    check(x.conj(), a.conj())
    check(la.conj(x), np.conj(a))
    with pytest.raises(TypeError):
        la.from_array(np.array(["a"])).conj().compute()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["i1", "u1", "f2", "f4", ">f4", "c8", "?"])
@pytest.mark.parametrize("number", [0, -1, 300, 70000, 1.5, 2j, True])
def test_python_numbers_take_the_type_of_arrays_beside_them(dtype, number):
    a = np.array([1, 0, 1]).astype(dtype)
    x = la.from_array(a, chunks=2)
    calls = [
        lambda xp, x: xp.where(a > 0, x, number),
        lambda xp, x: xp.choose([0, 1, 0], [x, number]),
        lambda xp, x: xp.select([a > 0], [x], number),
    ]
    for call in calls:
        try:
            wanted = call(np, a)
        except (TypeError, OverflowError) as error:
            assert raised(lambda call=call: call(la, x).compute())[0] is type(error)
        else:
            check(call(la, x), wanted)


# -- objects ------------------------------------------------------------------------------------

OBJECTS = np.array([[1, 2.5, Fraction(1, 2)], [3, Fraction(4, 3), 5]], object)


def of_one_kind(found, wanted):
    """The values and their types are NumPy's, one by one or in an array."""
    assert type(found) is type(wanted)
    if isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype
        assert [*map(type, found.flat)] == [*map(type, wanted.flat)]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["mean", "var", "nanmean", "nanvar", "sum", "prod", "max", "ptp"])
def test_reductions_of_objects_give_their_own_types(name):
    x = la.from_array(OBJECTS, chunks=(1, 2))
    for options in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}):
        found = getattr(la, name)(x, **options)
        assert found.dtype == object
        of_one_kind(found.compute(), getattr(np, name)(OBJECTS, **options))


def test_slopes_of_objects_are_floats():
    a = np.array([1, 2.5, 4], object)
    check(la.gradient(la.from_array(a, chunks=2)), np.gradient(a))


def test_deviations_of_objects():
    a = np.array([1, 2, 4, 4.5], object)
    for name in ("std", "nanstd"):
        of_one_kind(getattr(la, name)(la.from_array(a, chunks=3)).compute(), getattr(np, name)(a))
    found = la.var(la.from_array(a, chunks=3), ddof=1).compute()
    of_one_kind(found, np.var(a, ddof=1))


@pytest.mark.parametrize("ufunc", [np.gcd, np.bitwise_xor, np.subtract, np.fmax])
def test_reductions_by_ufuncs_of_objects_are_objects(ufunc):
    a = np.array([12, 4, 10, 6], object)
    found = ufunc.reduce(la.from_array(a, chunks=2))
    assert found.dtype == object
    of_one_kind((found + 1).compute(), ufunc.reduce(a) + 1)


@pytest.mark.parametrize("value", [[9, 8], np.array([9, 8]), np.array(5), "z", {"a": 1}, None])
def test_one_element_of_objects_is_set_to_anything(value):
    a = np.array([3, "b", None, 1], object)
    x = la.from_array(a, chunks=3)
    for x_or_a in (x, a):
        x_or_a[1] = value
        x_or_a[-1] = value
    found = x.compute()
    for one, other in zip(found, a, strict=True):
        of_one_kind(one, other)


@pytest.mark.parametrize("dtype", ["u1", ">i4", "f4", ">f8", "c8", "?", "O"])
@pytest.mark.parametrize("number", [5, 2.5, 1j, 300, True])
def test_python_numbers_get_the_type_of_what_they_are_joined_with(dtype, number):
    a = np.array([3, 1, 0], dtype)
    x = la.from_array(a, chunks=2)
    wanted = np.concatenate([a, number, a[:1]], axis=None)
    check(la.concatenate([x, number, x[:1]], axis=None), wanted)
    check(la.append(x, number), np.append(a, number))  # makes an array of it first
    if not (dtype == "O" and number == 1j):
        check(la.union1d(x, number), np.union1d(a, number))
        check(la.union1d(number, x), np.union1d(number, a))


def test_texts_and_python_numbers_are_not_joined():
    x = la.from_array(np.array(["b", "a"]), chunks=1)
    for call in la.union1d, lambda *both: la.concatenate(both, axis=None):
        with pytest.raises(TypeError, match="could not be promoted by"):
            call(x, 5)


def test_the_elements_alone_are_those_that_numpy_finds_then():
    a = np.array([np.inf, complex(0, np.nan), complex(np.nan, 0), 1, complex(np.nan, np.nan)])
    check(la.unique(la.from_array(a, chunks=-1)), np.unique(a))
    check(la.unique(la.from_array(a, chunks=2)), np.unique(a))
    check(la.union1d(la.from_array(a, chunks=2), a), np.union1d(a, a))
    a = a[:, None]
    check(la.unique(la.from_array(a, chunks=2), axis=0), np.unique(a, axis=0))
