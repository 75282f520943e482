"""Cases in which chunked arrays once differed from NumPy: values, types, or what is refused."""

import numpy as np
import pytest
from array_checks import check, raised
from oldest_versions import numpy_24

import lazyflow.array as la
from lazyflow import config

SPANS = np.array([1, 2, 3], "m8[s]")
TEXTS = np.array(["1", "2", "12"])
RECORDS = np.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")])
SQUARE = np.array([[1, 2], [3, 4]], ">u8")
MIXED = [np.array([5.0, 4, True, 4.5], object), np.array([[4, 5, 1], [3, 4, 2]])]


def put(x, key, value):
    x[key] = value
    return x


def times(x, number):
    x *= number
    return x


def case(name, function, *arrays, marks=()):
    return pytest.param(function, arrays, id=name, marks=marks)


#: Functions of NumPy or `lazyflow.array`, and of arrays.
EQUAL = [
    case("mean of spans", lambda m, x: m.mean(x[x > np.timedelta64(1, "s")]), SPANS),
    case("nanmean of spans", lambda m, x: m.nanmean(x[x > np.timedelta64(1, "s")], 0), SPANS),
    case("texts times 1", lambda m, x: times(x, 1), TEXTS),
    case("texts times 3, cut", lambda m, x: times(x, np.array([0, 3, 2])), TEXTS,
         marks=numpy_24("overwrites the text that it repeats in place")),
    case("a diagonal", lambda m, x: m.einsum("ii->i", x), SQUARE),
    case("turned", lambda m, x: m.einsum("ij->ji", x), SQUARE),
    case("rows summed", lambda m, x: m.einsum("ij->i", x), SQUARE),
    case("whole weights", lambda m, x: m.histogram(x, 3, weights=x.astype(">u4"))[0],
         np.array([1, 2, 4])),
    case("union", lambda m, x, y: m.union1d(x, y), *MIXED),
    case("union with booleans", lambda m, x, y: m.union1d(x, y),
         np.array([True, False]), np.array([0, 3], object)),
    case("sum of objects", lambda m, x: m.sum(x, axis=0), np.array([[0.1, 1], [0.7, 2]] * 4, "O")),
    case("product of objects", lambda m, x: m.prod(x), np.array([0.1, 3, 0.7, True] * 4, "O")),
    *[
        case(f"{name} of objects, some NaN", lambda m, x, name=name: getattr(m, name)(x, axis=0),
             np.array([[3, np.nan], [2.5, 4], [5, np.nan], [True, 3]], object))
        for name in ("nansum", "nanprod", "nanmin", "nanmax", "nancumsum", "nanargmin")
    ],
    case("nothing rounded", lambda m, x: m.around(x), np.zeros((1, 0), object)),
    *[
        case(f"{name} of objects", lambda m, x, name=name: getattr(m, name)(x, x[::-1]),
             np.array([[0.1, 0.7, 3], [True, 0.3, 2.2], [4, 5.1, 0.9]], object))
        for name in ("dot", "inner", "vdot", "tensordot", "matmul")
    ],
    case("sums of rows of objects", lambda m, x: m.einsum("ij->i", x),
         np.array([[0.1, 0.7, 3, 0.2, 1e16, -1e16]], object)),
    case("a trace of objects", lambda m, x: m.trace(x),
         np.array([[0.1, 0, 0], [1, 0.7, 1], [1, 1, 0.3]], object)),
    *[
        case(f"{name} of some, a start",
             lambda m, x, name=name: getattr(m, name)(m.nonzero(x)[0], initial=0,
                                                      where=m.nonzero(x)[0] > 99),
             np.array([0, 0, 1, 0, 1.0]))
        for name in ("min", "nanmax")
    ],
    case("a place that is set to some", lambda m, x: put(x, (0, 0), m.nonzero(x[0])[0] > 0),
         np.array([[False, True, False]])),
    case("scanned products of complex numbers", lambda m, x: m.cumprod(x, axis=0),
         np.array([[-1 + 0j, 3 - 2j], [2, -0.0], [3, np.inf], [-4j, 2], [0, 1 - 1j]])),
    case("scanned sums of objects", lambda m, x: m.cumsum(x), np.array([0.1, 0.7, 3, 1e9], "O")),
    *[
        case(f"{name} of spans", lambda m, x, y, name=name: getattr(m, name)(x, y),
             SPANS, np.array([3, 4, 5], "u8"))
        for name in ("dot", "inner")
    ],
    case("spans by all large numbers", lambda m, x, y: m.tensordot(x, y, axes=0),
         np.array([3, 4], ">u8"), SPANS),
    *[
        case(f"the sum of {a.tolist()} from {start!r}",
             lambda m, x, start=start: m.sum(x, axis=0, initial=start), a)
        for start in (-0.0, 0.0)
        for a in (np.zeros((0, 2)), np.full((3, 2), -0.0), np.array([[0.0, -0.0], [-0.0, -0.0]]))
    ],
    case("a complex sum from -0.0", lambda m, x: m.sum(x, axis=0, initial=complex(-0.0, -0.0)),
         np.full((3, 2), complex(-0.0, -0.0))),
    case("objects from a start", lambda m, x: m.sum(x, initial=0.5), np.array([0.1, 0.7] * 4, "O")),
    case("spans or a number", lambda m, x: m.where(np.array([True, False, True]), x, 1),
         SPANS.astype(">m8[s]")),
    case("spans or spans", lambda m, x: m.where(np.array([True, False, True]), x, x),
         SPANS.astype(">m8[s]")),
    case("spans among numbers", lambda m, x: m.isin(x, np.array([1.0, 2])), SPANS),
    case("numbers among spans", lambda m, x: m.isin(x, SPANS[:1], invert=True), np.arange(7.0)),
    case("no deviation", lambda m, x: m.std(x, dtype="f2"), np.array([4e9, 3e9], "u4")),
    case("none of no rows", lambda m, x: put(x, (np.zeros(0, int), 0), np.ones((4, 0))),
         np.ones((1, 1))),
    case("none of other axes", lambda m, x: put(x, (np.zeros(0, int),), np.ones((3, 0, 2))),
         np.ones((3, 2))),
    case("none by a mask", lambda m, x: put(x, np.zeros(3, bool), np.ones((3, 0, 2))),
         np.ones((3, 2))),
    case("padded with objects", lambda m, x: m.pad(x, 1, constant_values=2.5), MIXED[0]),
    case("padded with several", lambda m, x: m.pad(x, 1, constant_values=((1, 2.5), (3, 4))),
         np.array([[1, 2], [3, 4]], object)),
    *[
        case(f"ramps of {dtype} to {end!r}",
             lambda m, x, end=end: m.pad(x, 3, mode="linear_ramp", end_values=end),
             np.array([[1.125, 3.625], [2.3, 9.625]]).astype(dtype))
        for dtype in ("f2", "f4", "f8", "i2", "u1", "c8", "g")
        for end in (True, 1, np.float32(0.7), 2.5)
    ],
]


@pytest.mark.parametrize("chunk", [1, 2, -1])
@pytest.mark.parametrize(("function", "arrays"), EQUAL)
def test_it_is_what_numpy_makes(function, arrays, chunk):
    with np.errstate(all="ignore"):
        wanted = function(np, *map(np.copy, arrays))
        found = function(la, *[la.from_array(a, chunks=chunk) for a in arrays])
        check(found, wanted)
    if found.dtype == object:
        of_found, of_numpy = (np.ravel(np.asarray(x, object)) for x in (found.compute(), wanted))
        assert list(map(repr, of_found)) == list(map(repr, of_numpy))


#: What NumPy refuses.
REFUSED = [
    case("a mask of all, two axes", lambda m, x: put(x, np.array(True), np.ones((1, 1))),
         np.array(2.0)),
    case("a mask of all in a tuple", lambda m, x: put(x, (np.array(True),), np.ones((2, 2))),
         np.array(2, object)),
    case("no rows of another length", lambda m, x: put(x, (np.zeros(0, int),), np.ones((0, 1, 2))),
         np.ones((3, 2))),
    case("a sequence as a complex number", lambda m, x: put(x, 0, m.asarray([1.0])),
         np.ones(2, complex), marks=numpy_24("takes the element, and warns")),
    case("a sequence as a number", lambda m, x: put(x, 0, m.asarray([1.0])), np.ones(2)),
    case("the slope of texts", lambda m, x: m.gradient(x), TEXTS),
    case("the slope of bytes", lambda m, x: m.gradient(x), np.array([b"a", b"b"])),
    case("the slope of records", lambda m, x: m.gradient(x), RECORDS),
    case("records of other lengths", lambda m, x: m.dstack([x, np.ones(3)]), RECORDS),
    case("dates of other lengths", lambda m, x: m.vstack([x, np.ones(2)]), SPANS),
    case("records not zero", lambda m, x: m.count_nonzero(x, axis=0), RECORDS),
    case("records not zero of all", lambda m, x: m.count_nonzero(x, keepdims=True), RECORDS),
    case("no records as numbers", lambda m, x: put(x, slice(2, 2), m.asarray(RECORDS[:1])),
         np.ones(3)),
    case("an axis of texts that is not there", lambda m, x: m.max(x, axis=2), TEXTS),
    case("records by a mask", lambda m, x: put(x, np.ones(3, bool), m.asarray(RECORDS[:1])),
         np.ones(3)),
    case("the mean of texts", lambda m, x: m.pad(x, 0, mode="mean"), TEXTS),
    case("the quantile of no booleans", lambda m, x: m.quantile(x, [0.5, 0.1], axis=1),
         np.zeros((1, 0), bool)),
    case("the percentile of no booleans", lambda m, x: m.percentile(x, 3), np.zeros(0, bool)),
    case("spans as dates", lambda m, x: m.choose([0, 1, 0], [x, x.astype("M8[s]")]), SPANS),
    case("numbers among many spans", lambda m, x: m.isin(x, SPANS.repeat(9)), np.arange(3.0)),
    case("a start too large", lambda m, x: m.max(x, initial=np.uint8(200)), np.array([1, 2], "i1")),
    case("a start of nothing", lambda m, x: m.nanmin(x, axis=0, initial=np.uint8(200)),
         np.zeros((2, 0), "i1")),
    case("edges too large", lambda m, x: m.pad(x, 0, constant_values=300), np.array([1, 2], "i1")),
    case("edges that are NaN", lambda m, x: m.pad(x, 0, constant_values=np.nan), np.array([1, 2])),
    case("a complex ramp", lambda m, x: m.pad(x, 0, mode="linear_ramp", end_values=1j),
         np.array([1, 2])),
    case("a ramp of dates", lambda m, x: m.pad(x, 0, mode="linear_ramp", end_values=1.5),
         SPANS.astype("M8[s]")),
    case("a ramp to a text", lambda m, x: m.pad(x, 1, mode="linear_ramp", end_values="a"),
         np.array([1, 2])),
    case("no places of another shape",
         lambda m, x: m.take_along_axis(x, np.zeros((0, 0), int), axis=0), np.ones((0, 5))),
    case("places of another shape",
         lambda m, x: m.take_along_axis(x, np.zeros((2, 21), int), axis=0), np.ones((2, 7))),
]


@pytest.mark.parametrize(("function", "arrays"), REFUSED)
def test_what_numpy_refuses_is_refused(function, arrays):
    wanted, _ = raised(lambda: function(np, *map(np.copy, arrays)))
    found, words = raised(lambda: function(la, *map(la.from_array, arrays)))
    assert found is wanted
    assert words


def test_many_values_among_others_are_looked_for_in_numpys_words():
    x = la.from_array(np.arange(3.0))
    words = "could not be promoted"
    with pytest.raises(TypeError, match=words):
        la.isin(x, SPANS.repeat(9))
    with pytest.raises(TypeError, match=words):
        la.isin(x[x > 5], SPANS)


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize("first", [np.nan, 1.0])
def test_the_type_of_quantiles_does_not_depend_on_values(first):
    x = la.from_array(np.array([[first, np.nan], [2.0, 3.0]], "f4"), chunks=1)
    found = la.nanquantile(x, [0.5, 0.25], axis=1)
    assert found.dtype == found.compute().dtype == np.float64


def test_texts_without_axes_have_the_type_that_they_are_said_to_have():
    x = la.from_array(np.array(b"a", "S2"))
    with config.set(array_fusion=False):
        check((x + x).astype("S3")[None], np.array([b"aa"], "S3"))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "i4"])
@pytest.mark.parametrize("name", ["hypot", "subtract", "logaddexp", "add", "multiply"])
def test_reductions_by_blocks_are_within_their_bounds(name, dtype):
    rng = np.random.default_rng(7)
    a = (rng.integers(1, 5, (40, 3)) / (1 if dtype == "i4" else 4)).astype(dtype)
    if name == "multiply":
        a[::2] = 1
    ufunc = getattr(np, name)
    found, wanted = ufunc.reduce(la.from_array(a, chunks=7)).compute(), ufunc.reduce(a)
    assert found.dtype == wanted.dtype
    exact = ufunc.reduce(a.astype("g"))
    scale = np.add.reduce(abs(a.astype("g"))) if name in ("add", "subtract") else abs(exact)
    bound = len(a) * np.finfo(wanted.dtype).eps * scale if wanted.dtype.kind == "f" else 0
    assert np.all(abs(found - exact) <= bound)


EDGES = np.array([[1.5, -2.0, np.inf, 0.0], [-np.inf, 3.0, 7.25, -0.0], [np.nan, 1.0, -4.5, 2.0]])


@pytest.mark.parametrize("chunk", [1, 2, -1])
@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("width", [1, (3, 0), ((0, 2), (9, 14))])
@pytest.mark.parametrize("dtype", ["f8", ">f4", "c16", "i2", "u1"])
def test_edges_turned_around_at_their_value(dtype, width, mode, chunk):
    a = EDGES.astype(dtype) if np.dtype(dtype).kind in "fc" else np.arange(12).reshape(3, 4)
    a = a.astype(dtype)
    with np.errstate(all="ignore"):
        wanted = np.pad(a, width, mode=mode, reflect_type="odd")
        found = la.pad(la.from_array(a, chunks=chunk), width, mode=mode, reflect_type="odd")
        check(found, wanted)
