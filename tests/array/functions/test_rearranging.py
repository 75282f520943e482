"""Axes, flips, rolls, copies, parts, grids and padding of arrays, against NumPy."""

import datetime

import numpy as np
import pytest
from array_checks import check, check_all
from hypothesis import given, settings
from hypothesis import strategies as st
from oldest_versions import numpy_24

import lazyflow.array as la
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import below
from lazyflow.array.nodes.sources import InMemory
from lazyflow.array.nodes.views import View
from lazyflow.array.passes.rewrites import optimize

A = np.arange(60.0).reshape(3, 4, 5)
B = np.arange(24).reshape(4, 6)
V = np.arange(7)


CASES = [
    ("squeeze", A[:1], ()),
    ("squeeze", A[:1, :, :1], (0,)),
    ("squeeze", A[:1, :, :1], ((0, -1),)),
    ("expand_dims", A, (1,)),
    ("expand_dims", A, ((0, -1, 2),)),
    ("transpose", A, ()),
    ("transpose", A, ((1, 0, -1),)),
    ("permute_dims", A, ((2, 0, 1),)),
    ("matrix_transpose", A, ()),
    ("moveaxis", A, (0, -1)),
    ("moveaxis", A, ((0, 1), (-1, 0))),
    ("rollaxis", A, (2,)),
    ("rollaxis", A, (0, 3)),
    ("rollaxis", A, (-1, -2)),
    ("swapaxes", A, (0, -1)),
    ("atleast_1d", V, ()),
    ("atleast_2d", V, ()),
    ("atleast_3d", V, ()),
    ("atleast_3d", B, ()),
    ("atleast_3d", A, ()),
    ("broadcast_to", V, ((3, 7),)),
    ("broadcast_to", A[:, :1], ((2, 3, 4, 5),)),
    ("broadcast_to", V, (7,)),
    ("broadcast_to", V[:0], ((2, 0),)),
    ("flip", A, ()),
    ("flip", A, (1,)),
    ("flip", A, ((0, -1),)),
    ("flipud", A, ()),
    ("fliplr", A, ()),
    *[("rot90", B, (k,)) for k in range(-1, 5)],
    ("rot90", A, (1, (1, 2))),
    ("rot90", A, (3, (2, 0))),
    ("roll", V, (2,)),
    ("roll", V, (-9,)),
    ("roll", V, (7,)),
    ("roll", B, (5,)),
    ("roll", B, (1, 0)),
    ("roll", B, ((1, -2), (0, 1))),
    ("roll", B, (1, (0, 1))),
    ("roll", B, ((1, 2), 0)),
    ("roll", V[:0], (3,)),
    ("repeat", V, (3,)),
    ("repeat", B, (2,)),
    ("repeat", B, (2, 0)),
    ("repeat", B, (3, -1)),
    ("repeat", B, (0, 0)),
    ("repeat", B, ([2], 0)),
    ("repeat", B, (1, 0)),
    ("tile", V, (2,)),
    ("tile", V, ((2, 3),)),
    ("tile", B, (3,)),
    ("tile", B, ((2, 1),)),
    ("tile", B, ((2, 2, 3),)),
    ("tile", A, ((2, 0),)),
    ("array_split", V, (3,)),
    ("array_split", V, (9,)),
    ("array_split", B, ([1, 3, 9], 1)),
    ("split", B, (2,)),
    ("split", B, ([1, 2], -1)),
    ("hsplit", B, (3,)),
    ("hsplit", V, ([2, 5],)),
    ("vsplit", B, (2,)),
    ("dsplit", A, ([1, 3],)),
    ("trim_zeros", np.array([0, 0, 1, 0, 2, 0]), ()),
    ("trim_zeros", np.array([0, 0, 1, 0, 2, 0]), ("f",)),
    ("trim_zeros", np.array([0, 0, 1, 0, 2, 0]), ("b",)),
    ("trim_zeros", np.zeros(5), ()),
    ("trim_zeros", np.zeros(0), ()),
]


@pytest.mark.parametrize("chunk", [2, 3, -1])
@pytest.mark.parametrize(("name", "a", "args"), CASES)
def test_as_numpy(name, a, args, chunk):
    chunks = tuple(chunk if n else 0 for n in a.shape)
    x = la.from_array(a, chunks=chunks)
    expected = getattr(np, name)(a, *args)
    check_all(getattr(la, name)(x, *args), expected)
    check_all(getattr(np, name)(x + 0, *args), expected)
    check_all(getattr(la, name)(a, *args), expected)


def test_methods():
    x = la.from_array(A, chunks=2)
    check(x.swapaxes(0, 1), A.swapaxes(0, 1))
    check(x[:1].squeeze(), A[:1].squeeze())
    check(x.repeat(2, axis=1), A.repeat(2, axis=1))
    check(x.flatten(), A.flatten())


def test_views_have_no_tasks_of_their_own():
    x = la.from_array(A, chunks=2)
    for y in (x.T, np.flip(x), x[None], np.moveaxis(x, 0, 1), la.roll(x, 0), np.rot90(x)):
        (made,) = optimize([(y + 1).expr])
        assert {type(node) for node in below([made])} <= {Fused, View, InMemory}
        assert made.numblocks == y.numblocks


def test_several_arrays():
    x, y = la.from_array(V, chunks=3), la.from_array(B[:, :1], chunks=2)
    check_all(np.broadcast_arrays(x, y, 1.0), np.broadcast_arrays(V, B[:, :1], 1.0))
    check_all(la.atleast_2d(x, 3.0), np.atleast_2d(V, 3.0))
    assert np.shape(x) == (7,) and np.ndim(y) == 2 and np.size(y) == 4 and np.size(y, 1) == 1


def test_broadcast_to_chunks():
    x = la.from_array(V, chunks=3) + 0
    assert la.broadcast_to(x, (4, 7), chunks=((1, 3), (7,))).chunks == ((1, 3), (7,))
    check(la.broadcast_to(x, (4, 7), chunks=2), np.broadcast_to(V, (4, 7)))
    wide = la.broadcast_to(x, (10**7, 7))
    assert wide.chunks[1] == (3, 3, 1) and max(wide.chunks[0]) < 10**6
    check(la.broadcast_to(x, (6, 7)).sum(0), V * 6)


def test_roll_and_repeat_keep_chunks_in_bounds():
    x = la.ones((40, 30), chunks=(7, 30))
    assert la.roll(x, 3, axis=0).chunks == x.chunks
    assert la.repeat(x, 3, axis=0).shape == (120, 30)
    wide = la.repeat(la.ones(10**6, chunks=10**5), 1000)
    assert max(wide.chunks[0]) <= 2**20 and wide.npartitions < 2_000


def test_repeat_of_each_its_own():
    x = la.from_array(B, chunks=3)
    check(la.repeat(x, [1, 0, 2, 3], axis=0), np.repeat(B, [1, 0, 2, 3], axis=0))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sparse", [True, False])
def test_meshgrid(indexing, sparse):
    arrays = [np.arange(4.0), np.arange(3), np.arange(5, dtype="f4")]
    for count in (1, 2, 3):
        given = arrays[:count]
        chunked = [la.from_array(a, chunks=2) for a in given]
        expected = np.meshgrid(*given, indexing=indexing, sparse=sparse)
        check_all(la.meshgrid(*chunked, indexing=indexing, sparse=sparse), expected)
        check_all(np.meshgrid(*chunked, indexing=indexing, sparse=sparse), expected)
        if not sparse:  # so that what is made of them has blocks as small as theirs
            assert len({x.chunks for x in la.meshgrid(*chunked, indexing=indexing)}) == 1
    assert la.meshgrid() == ()


def test_indices():
    check(la.indices((3, 4), chunks=2), np.indices((3, 4)))
    check(la.indices((5,), dtype="f4"), np.indices((5,), dtype="f4"))
    check(la.indices((2, 3), None), np.indices((2, 3), None))
    check_all(la.indices((3, 4, 2), sparse=True, chunks=2), np.indices((3, 4, 2), sparse=True))
    assert la.indices((4, 6), chunks=(2, 3)).chunks == ((1, 1), (2, 2), (3, 3))


@pytest.mark.parametrize("dtype", ["i8", "f4", "u1", "c16", "V16"])
def test_view_of_bytes(dtype):
    a = np.arange(24.0).reshape(3, 8)
    for chunks in (2, 3, -1):
        x = la.from_array(a, chunks=chunks)
        check((x + 0).view(dtype), a.view(dtype))
    check(la.ones(3).view(), np.ones(3))
    check(la.from_array(a.T, chunks=2).view("i8"), a.T.view("i8"))


def test_unify_chunks():
    x, y = la.ones((6, 4), chunks=3), la.ones((4, 1), chunks=2)
    chunks, (one, other, last) = la.unify_chunks(x, "ij", y, "jk", 5, None)
    assert chunks == {"i": (3, 3), "j": (2, 1, 1), "k": (1,)}
    assert one.chunks == ((3, 3), (2, 1, 1)) and other.chunks == ((2, 1, 1), (1,)) and last == 5


PADS = [
    ("constant", {}), ("constant", {"constant_values": 7.9}),
    ("constant", {"constant_values": ((1, 2), (3, 4))}), ("edge", {}), ("wrap", {}),
    ("reflect", {}), ("symmetric", {}), ("reflect", {"reflect_type": "odd"}),
    ("symmetric", {"reflect_type": "odd"}), ("linear_ramp", {}),
    ("linear_ramp", {"end_values": ((-3, 4), (9, 2))}), ("maximum", {}), ("minimum", {}),
    ("maximum", {"stat_length": 2}), ("minimum", {"stat_length": ((1, 2), (3, 9))}),
    ("mean", {}), ("mean", {"stat_length": 2}),
]


def _pads():
    """Return each way to pad with each type: at each commit with floats and one kind of integers.

    Those of ways with the same mode differ.
    """
    integers = ["i8", "u1", "i4"]
    for i, (mode, options) in enumerate(PADS):
        for dtype in ("f8", *integers):
            is_quick = dtype in ("f8", integers[i % 3])
            yield pytest.param(mode, options, dtype, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("mode", "options", "dtype"), list(_pads()))
def test_pad(mode, options, dtype):
    if dtype == "u1" and "end_values" in options:
        options = {"end_values": 5}
    a = ((B * 7) % 11).astype(dtype)
    x = la.from_array(a, chunks=(3, 2))
    rtol = 0 if a.dtype.kind in "iu" else 1e-7
    for widths in (2, (1, 3), ((0, 2), (3, 0)), ((5, 9), (13, 4)), 0):
        expected = np.pad(a, widths, mode, **options)
        check(la.pad(x, widths, mode, **options), expected, rtol=rtol)
        check(np.pad(x + np.ones((), dtype) - np.ones((), dtype), widths, mode, **options),
             expected, rtol=rtol)


@pytest.mark.parametrize("mode", ["mean", "median"])
@pytest.mark.parametrize("width", [0, 1, (0, 2)])
def test_dates_have_no_mean_to_pad_with(mode, width):
    a = np.array(["2020-01-01", "2020-03-01"], "M8[D]")
    for lib, x in ((np, a), (la, la.from_array(a, chunks=1))):
        with pytest.raises(TypeError, match="ufunc 'add' cannot use operands with types"):
            lib.pad(x, width, mode)
    check(la.pad(la.from_array(a, chunks=1), 0, "maximum"), a)


@pytest.mark.parametrize("mode", ["mean", "linear_ramp"])
@pytest.mark.parametrize("width", [0, 1, (0, 2)])
@pytest.mark.parametrize("shape", [(4,), (2, 2), (4, 1)])
def test_objects_that_are_no_numbers_are_refused_by_pads_of_nothing_too(mode, width, shape):
    a = np.array(["a", datetime.timedelta(1), None, 2.5], object).reshape(shape)
    for lib, x in ((np, a), (la, la.from_array(a, chunks=1))):
        with pytest.raises(TypeError):
            np.asarray(lib.pad(x, width, mode))
    numbers = np.array([1, 2.5, 3, 2**70], object).reshape(shape)
    for chunks in (-1, 1):
        x = la.from_array(numbers, chunks=chunks)
        check(la.pad(x, width, mode), np.pad(numbers, width, mode))


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # NumPy's, of uint8
@pytest.mark.parametrize("dtype", ["i1", "u1", ">i2", "f4", "?", "M8[s]", "U2"])
@pytest.mark.parametrize("edge", [200, -1, (200, 3), np.uint8(200), np.nan, ((np.inf, 2),), "ab"])
def test_what_is_padded_with_has_the_type_of_the_array(dtype, edge):
    a = np.zeros(3, dtype)
    x = la.from_array(a, chunks=2)
    try:
        wanted = np.pad(a, 1, constant_values=edge)
    except (OverflowError, TypeError, ValueError) as error:
        with pytest.raises(type(error)) as refused:
            la.pad(x, 1, constant_values=edge)
        assert str(refused.value) == str(error)
    else:
        check(la.pad(x, 1, constant_values=edge), wanted)


def _fill(vector, width, axis, options):
    """Fill edges, in place, as `pad` asks functions to."""
    vector[:width[0]] = vector[width[0]] * options.get("scale", 1)
    vector[len(vector) - width[1]:] = axis + vector.sum()


@pytest.mark.parametrize("widths", [((1, 2), (2, 3)), ((0, 1), (0, 0)), 0])
@pytest.mark.parametrize("options", [{}, {"scale": 3}])
def test_pad_by_a_function(widths, options):
    x = la.from_array(B, chunks=(3, 2))
    found = la.pad(x, widths, _fill, **options)
    check(found, np.pad(B, widths, _fill, **options))
    assert found.chunks == la.pad(x, widths).chunks


def test_pad_with_the_median():
    x = la.from_array(B, chunks=(3, 2))
    check(la.pad(x, 2, "median"), np.pad(B, 2, "median"))
    check(la.pad(x, 2, "median", stat_length=3), np.pad(B, 2, "median", stat_length=3))


@given(
    n=st.integers(1, 7), left=st.integers(0, 25), right=st.integers(0, 25),
    mode=st.sampled_from(["reflect", "symmetric", "wrap", "edge"]), odd=st.booleans(),
    chunk=st.integers(1, 7),
)
@settings(max_examples=80, deadline=None)
def test_pad_wider_than_the_array(n, left, right, mode, odd, chunk):
    a = np.arange(n) ** 2
    options = {"reflect_type": "odd"} if odd and mode in ("reflect", "symmetric") else {}
    expected = np.pad(a, (left, right), mode, **options)
    check(la.pad(la.from_array(a, chunks=chunk), (left, right), mode, **options), expected)


@pytest.mark.parametrize("edges", [(55, 0), (55, 13)])
def test_ramps_of_integers_round_as_numpy(edges):
    """NumPy makes all lines in another way when one of them is flat: 3 / 11 * 55 is not 15."""
    a = np.tile(np.array(edges), (2, 1)).T
    x = la.from_array(a, chunks=1)
    for width in (9, 10, 11, 22):
        widths = ((0, 0), (width, 1))
        check(la.pad(x, widths, "linear_ramp"), np.pad(a, widths, "linear_ramp"))


def test_pad_chunks_and_corners():
    x = la.ones((10, 10), chunks=5)
    assert la.pad(x, 2).chunks == ((7, 7), (7, 7))
    assert la.pad(x, (0, 12)).chunks == ((5, 5, 4, 4, 4),) * 2
    assert la.pad(x, {0: 1, -1: (2, 3)}).chunks == ((6, 6), (7, 8))
    assert la.pad(x, 2, "empty").shape == (14, 14)
    check(la.pad(la.ones((0, 3)), ((1, 1), (0, 0))), np.zeros((2, 3)))
    check(la.pad(la.ones((0, 3)), ((0, 0), (2, 1)), "edge"), np.zeros((0, 6)))
    check(la.pad(la.asarray(["a", "bc"]), 1, constant_values="xyz"),
         np.pad(np.array(["a", "bc"]), 1, constant_values="xyz"))


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda x: la.squeeze(x, 0), ValueError, "size not equal to one: the shape is"),
    (lambda x: la.squeeze(x, 5), ValueError, "axis 5 is out of bounds"),
    (lambda x: la.expand_dims(x, 7), ValueError, "axis 7 is out of bounds"),
    (lambda x: la.moveaxis(x, 0, (0, 1)), ValueError, "same number of elements"),
    (lambda x: la.rollaxis(x, 0, 9), ValueError, "'start' arg requires -2 <= start < 3"),
    (lambda x: la.broadcast_to(x, (4, 7)), ValueError, r"requested shape \(4, 7\)"),
    (lambda x: la.broadcast_to(x, (6,)), ValueError, r"shape \(4, 6\) does not broadcast"),
    (lambda x: la.broadcast_to(x, (4, 6), subok=True), TypeError, "no subclasses"),
    (lambda x: la.rot90(x, axes=(0, 0)), ValueError, "Axes must be different"),
    (lambda x: la.rot90(x, axes=(0, 3)), ValueError, "out of range for array of ndim=2"),
    (lambda x: la.fliplr(x[0]), ValueError, "Input must be >= 2-d"),
    (lambda x: la.matrix_transpose(x[0]), ValueError, "at least 2-dimensional, but it is 1"),
    (lambda x: la.repeat(x, -1), ValueError, "negative"),
    (lambda x: la.repeat(x, [1, 2], 0), ValueError, r"with shape \(4,\) \(2,\)"),
    (lambda x: la.repeat(x, np.ones(2)), TypeError, "repeats must be an integer"),
    (lambda x: la.tile(x, -1), ValueError, "negative dimensions"),
    (lambda x: la.split(x, 3), ValueError, "equal division"),
    (lambda x: la.array_split(x, 0), ValueError, "larger than 0"),
    (lambda x: la.vsplit(x[0], 1), ValueError, "2 or more dimensions"),
    (lambda x: la.meshgrid(x, indexing="no"), ValueError, "'xy' and 'ij'"),
    (lambda x: la.trim_zeros(x[0], "q"), ValueError, "unexpected character"),
    (lambda x: x.view("V5"), ValueError, "divisor of the total size"),
    (lambda x: x[0, 0].view("f4"), ValueError, "0d array"),
    (lambda x: x.view(object), TypeError, "array of references"),
    (lambda x: la.unify_chunks(x), ValueError, "pairs of an array and the names"),
    (lambda x: la.unify_chunks(x, "ii"), ValueError, r"axes named 'i' have lengths \[4, 6\]"),
    (lambda x: la.unify_chunks(x, "i"), ValueError, "2 axes got 1 names"),
    (lambda x: la.pad(x, 1, "no"), ValueError, "mode 'no' is not supported"),
    (lambda x: la.pad(x, 1, "edge", constant_values=3), ValueError, "unsupported keyword"),
    (lambda x: la.pad(x, -1), ValueError, "negative values"),
    (lambda x: la.pad(x, 1.5), TypeError, "integral type"),
    (lambda x: la.pad(x[:0], 1, "edge"), ValueError, "can't extend empty axis 0"),
    (lambda x: la.pad(x, 1, "reflect", reflect_type="no"), ValueError, "'even' or 'odd'"),
    (lambda x: la.pad(x, 1, "maximum", stat_length=0), ValueError, "stat_length of 0"),
])
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call(la.from_array(B, chunks=3))


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_on_other_schedulers(scheduler):
    x = la.from_array(A, chunks=2)
    y = np.pad(la.concatenate([x.reshape(12, 5), la.roll(x, 1, 2)[0]]).view("i8"), 1, "reflect")
    whole = np.pad(np.concatenate([A.reshape(12, 5), np.roll(A, 1, 2)[0]]).view("i8"), 1, "reflect")
    np.testing.assert_array_equal(y.compute(scheduler=scheduler), whole)


STEPS = {
    "transpose": lambda m, x: x.T,
    "double": lambda m, x: x * 2,
    "flip": lambda m, x: m.flip(x),
    "sum": lambda m, x: x.sum(axis=0, keepdims=True),
    "minus": lambda m, x: x - x.min(axis=-1, keepdims=True),
    "every second": lambda m, x: x[..., ::2],
    "backwards": lambda m, x: x[::-1, ..., None],
    "cut": lambda m, x: x[:-1] if x.shape[0] > 1 else x,
    "shift": lambda m, x: x + m.roll(x, 1, 0),
    "join": lambda m, x: m.concatenate([x, x[..., :1], -x], -1),
    "stack": lambda m, x: m.stack([x, x + 1], 1),
    "pad": lambda m, x: m.pad(x, 1, "edge"),
    "repeat": lambda m, x: m.repeat(x, 2, 0),
    "tile": lambda m, x: m.tile(x, 2),
    "wide": lambda m, x: m.broadcast_to(x[:1], (3, *x.shape[1:])),
    "flat": lambda m, x: x.reshape(-1),
    "rows": lambda m, x: x.reshape(x.shape[0], -1),
    "pairs": lambda m, x: x.reshape(2, -1) if x.size % 2 == 0 else x,
}


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_any_sequence_of_steps(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    a = np.arange(np.prod(shape)).reshape(shape)
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    x = la.from_array(a, chunks=chunks)
    if data.draw(st.booleans()):
        x = x.persist()
    for name in data.draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=7)):
        step = STEPS[name]
        if a.size < 3_000 and a.ndim < 6:
            a, x = step(np, a), step(la, x)
    check(x, a)


@pytest.mark.parametrize("trim", ["fb", "f", "b", "BF", "x"])
@pytest.mark.parametrize("axis", [
    None, 0, -1, pytest.param((0, 1), marks=numpy_24("trims along one axis only")),
    pytest.param((), marks=numpy_24("trims along one axis only")), 2,
])
@pytest.mark.parametrize("kind", ["f8", "?", "O", "U1", "M8[D]"])
def test_zeros_are_trimmed_along_axes(kind, axis, trim):
    for shape in (5, 6), (3, 4, 2), (0, 3), (2, 3):
        a = np.zeros(shape, int)
        if shape != (2, 3):
            a[1:3, 2:4] = 1
        a = np.where(a, "a", "") if kind == "U1" else a.astype(kind)
        x = la.from_array(a, chunks=2)
        try:
            expected = np.trim_zeros(a, trim, axis=axis)
        except ValueError as error:
            with pytest.raises(type(error)):
                la.trim_zeros(x, trim, axis=axis)
        else:
            check(la.trim_zeros(x, trim, axis=axis), expected)


@pytest.mark.parametrize("repeats", [[], 2.0, [2.0, 1.0], [True, False], np.zeros(0), np.ones(2)])
@pytest.mark.parametrize("n", [0, 2])
def test_how_often_things_are_repeated(n, repeats):
    a = np.arange(n)
    try:
        expected = np.repeat(a, repeats)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            la.repeat(la.from_array(a, chunks=1), repeats)
    else:
        check(la.repeat(la.from_array(a, chunks=1), repeats), expected)
