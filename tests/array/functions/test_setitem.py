"""x[key] = value of chunked arrays, against NumPy."""

import numpy as np
import pytest
from array_checks import check, raised, tasks_of
from array_examples import CHUNKS, KEYS, A, Store, kinds
from array_strategies import chunked, keys
from hypothesis import given, settings
from hypothesis import strategies as st
from oldest_versions import numpy_24

import lazyflow.array as la


def _places():
    """Return each key with all chunks: at each commit with two of them, in turns."""
    for i, name in enumerate(KEYS):
        for j, chunks in enumerate(CHUNKS):
            marks = () if (i - j) % len(CHUNKS) < 2 else pytest.mark.slow
            yield pytest.param(name, chunks, marks=marks, id=f"{chunks}-{name}")


@pytest.mark.parametrize(("name", "chunks"), list(_places()))
def test_writing(name, chunks):
    key = KEYS[name]
    shape = A[key].shape
    rng = np.random.default_rng(0)
    values = [7, np.array(2.5), rng.random(shape), rng.random(shape)[..., :1]]
    if not (isinstance(key, np.ndarray) and key.ndim > 1 and key.dtype == bool):
        values += [rng.random((1, *shape)), rng.random((1,) * len(shape))]
    made = kinds(A, chunks).values()
    for new in values:
        wanted = A.copy()
        try:
            wanted[key] = new
        except ValueError:  # [..., :1] of nothing
            continue
        for x in made:
            for given_value in (new, *([la.from_array(new, chunks=2)] if np.ndim(new) else [])):
                y = x.copy()
                y[key] = given_value
                assert y.chunks == x.chunks
                check(y, wanted)
    for x in made:
        check(x, A)  # whatever was written to its copies


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_writing_by_random_keys(data):
    a, chunks = data.draw(chunked())
    key = data.draw(keys(a.shape))
    x = la.from_array(a, chunks=chunks)
    if data.draw(st.booleans()):
        x = x * 1
    taken = a[key]
    shape = tuple([n if data.draw(st.booleans()) else 1 for n in taken.shape])
    new = np.arange(100, 100 + np.prod(shape, dtype=int)).reshape(shape)
    wanted = a.copy()
    wanted[key] = new
    old = x.copy()
    lazy = data.draw(st.booleans())
    x[key] = la.from_array(new, chunks=2) if lazy and new.ndim else new
    np.testing.assert_array_equal(x.compute(), wanted, strict=True)
    np.testing.assert_array_equal(old.compute(), a, strict=True)
    np.testing.assert_array_equal(x[key].compute(), wanted[key], strict=True)


def test_writing_by_lazy_masks():
    for chunks in CHUNKS:
        for lazy_value in (False, True):
            def given_value(new, lazy=lazy_value):
                return la.from_array(new, chunks=2) if lazy else new

            x, a = la.from_array(A, chunks=chunks), A.copy()
            x[x > 20] = 0
            a[a > 20] = 0
            x[x[:, 1] > 8] = given_value(np.arange(6))
            a[a[:, 1] > 8] = np.arange(6)
            x[:, x[0] == 2] = given_value(np.arange(4)[:, None])
            a[:, a[0] == 2] = np.arange(4)[:, None]
            new = np.arange(np.count_nonzero(a < 4)) * 10.0
            x[x < 4] = given_value(new)
            a[a < 4] = new
            x[x[:, 1] > 8, 2] = -1
            a[a[:, 1] > 8, 2] = -1
            check(x, a)


def test_what_was_made_before_keeps_its_values():
    x = la.from_array(np.arange(6), chunks=2)
    y, z = x + 1, x
    x[1:3] = 0
    assert y.compute().tolist() == [1, 2, 3, 4, 5, 6]
    assert x.compute().tolist() == z.compute().tolist() == [0, 0, 0, 3, 4, 5]
    x[:-1] = x[1:]
    assert x.compute().tolist() == [0, 0, 3, 4, 5, 5]
    x[[0, 1]] += 5
    assert x.compute().tolist() == [5, 5, 3, 4, 5, 5]


def test_the_callers_arrays_stay_and_may_change():
    a, new = np.arange(6), np.array([9, 9])
    x = la.from_array(a, chunks=3)
    x[1:3] = new
    new[:] = 0
    assert x.compute().tolist() == [0, 9, 9, 3, 4, 5]
    assert a.tolist() == [0, 1, 2, 3, 4, 5]


def test_only_blocks_that_change_are_written(here):
    x = (la.from_array(np.arange(1000), chunks=10) + 0).persist()
    before = tasks_of(x)
    x[15:25] = 0
    assert tasks_of(x) <= before + 4  # two blocks, and parts of the value
    x[[500, 501, 700]] = 1
    assert tasks_of(x) <= before + 4 + 4
    store = Store(np.arange(100))
    y = la.from_array(store, chunks=10)
    y[10:95] = la.from_array(np.arange(85), chunks=9)
    y.compute()
    assert sorted(key[0].start for key in store.read) == [0, 90]  # the others are written over


def test_many_writes_one_after_the_other():
    x, a = la.from_array(np.zeros(3000), chunks=500) + 0, np.zeros(3000)
    for i in range(0, 3000, 2):
        x[i] = i
    a[::2] = np.arange(0, 3000, 2)
    np.testing.assert_array_equal(x.compute(), a)


WRONG_VALUES = {
    "basic": (slice(0, 2), np.zeros(3)),
    "more axes": (0, np.zeros((2, 6))),
    "arrays": ([0, 1], np.zeros(3)),
    "arrays, more axes": ([0], np.zeros((2, 2, 2))),
    "mask of rows": (np.ones(4, bool), np.zeros((3, 6))),
    "mask, integer": ((np.ones(4, bool), 1), np.zeros(2)),
    "mask of all": (A > 10, np.zeros(3)),
    "mask of all, more axes": (A > 10, np.zeros((4, 6))),
    "text": (0, "a"),
    "complex": (0, 1j),
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_values_that_do_not_fit_are_wrong_in_numpys_words(name):
    key, new = WRONG_VALUES[name]
    wanted = raised(lambda: A.copy().__setitem__(key, new))
    x = la.from_array(A, chunks=2)
    assert raised(lambda: x.__setitem__(key, new)) == wanted
    if isinstance(new, np.ndarray):
        assert raised(lambda: x.__setitem__(key, la.from_array(new, chunks=2))) == wanted
    check(x, A)


def test_casts_of_values():
    x = la.from_array(np.zeros(4, "i1"), chunks=2)
    wanted = raised(lambda: np.zeros(4, "i1").__setitem__(0, 300))
    assert raised(lambda: x.__setitem__(0, 300)) == wanted
    wanted = raised(lambda: np.zeros(4, "i1").__setitem__(0, float("nan")))
    assert raised(lambda: x.__setitem__(0, float("nan"))) == wanted
    x[:2] = np.array([1.9, -1.9])
    x[2:] = la.from_array(np.array([300, 2.5]), chunks=1).astype(int)
    check(x, np.array([1, -1, 44, 2], "i1"))


def test_writing_where_lengths_are_not_known():
    a = np.arange(20)
    x = la.from_array(a, chunks=6)
    y, b = x[x % 3 > 0], a[a % 3 > 0]
    y[y > 10] = 0
    b[b > 10] = 0
    assert y.shape == (None,)
    np.testing.assert_array_equal(y.compute(), b)
    y = x[x % 3 > 0]
    mask = b > 5
    y[mask] = 7
    y[-1] = 8
    b = a[a % 3 > 0]
    b[mask] = 7
    b[-1] = 8
    check(y, b)


@pytest.mark.parametrize("value", [
    np.timedelta64(3, "D"), np.datetime64("2020-01-01"), np.uint8(200), np.float64(2.5),
])
@pytest.mark.parametrize("dtype", ["i8", "f8", "m8[s]", "M8[s]", "i1"])
@pytest.mark.parametrize("key", [np.array([True, False, True, False]), [1, 2], slice(1, 3), ...])
def test_elements_of_other_types_are_set_as_numpy_sets_them(key, dtype, value):
    a = np.zeros(4, dtype)
    x = la.from_array(a.copy(), chunks=2)
    try:
        a[key] = value
    except (TypeError, OverflowError, ValueError) as error:
        with pytest.raises(type(error)):
            x[key] = value
    else:
        x[key] = value
        check(x, a)


@pytest.mark.parametrize("given", [np.ones(1), np.ones((1, 1)), [2], [[2]], [], [1, 2], (1, 2.5)])
@pytest.mark.parametrize("dtype", [
    "i4", "f8", "?", pytest.param("c8", marks=numpy_24("takes an array of one, and warns")),
    "m8[s]", "U3", "O", "i4,f8",
])
def test_one_place_takes_one_element(dtype, given):
    for a, key in ((np.zeros(4, dtype), 1), (np.zeros((2, 3), dtype), (1, np.array(0)))):
        x = la.from_array(a, chunks=2)
        try:
            a[key] = given
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)) as refused:
                x[key] = given
            assert str(refused.value) == str(error)
        else:
            x[key] = given
        assert x.compute().tolist() == a.tolist()


def test_one_place_takes_no_axes_of_lazy_arrays():
    x = la.zeros((2, 3), chunks=2)
    with pytest.raises(ValueError, match=r"^setting an array element with a sequence\.$"):
        x[0, 1] = la.ones(1)
    with pytest.raises(ValueError, match="with a sequence"):
        x.sum()[()] = la.ones(1)
    x[..., 0, 1] = la.ones((1, 1))  # this is a part of the array, that has no axes
    x[1, 1] = la.ones(())
    check(x, [[0.0, 1, 0], [0, 1, 0]])


def test_nothing_is_set_with_a_negative_step():
    x = la.from_array(np.arange(12.0).reshape(3, 4), chunks=2)
    x[[0], 1:2:-2] = np.zeros((1, 0))
    x[[0, 1], 1:2:-2] = 5
    check(x, np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]", "i8", "f4", "S3"])
@pytest.mark.parametrize("objects", [["abc"], [2.5], [None], [[1]]])
@pytest.mark.parametrize("mask", [[False, False, False], [True, False, True]])
def test_a_mask_decides_which_objects_can_be_elements(dtype, objects, mask):
    written = np.empty(1, object)
    written[:] = objects
    wanted, mask = np.zeros(3, dtype), np.array(mask)
    x, value, lazy_mask = [la.from_array(a, chunks=2) for a in (wanted.copy(), written, mask)]
    x[lazy_mask] = value
    try:
        wanted[mask] = written
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            x.compute()
    else:
        check(x, wanted)
