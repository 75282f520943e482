"""Chunked arrays against NumPy: whole expressions, their passes, and what an array is."""

import math
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la
from lazyflow import config
from lazyflow.array.nodes.expr import below
from lazyflow.array.passes.fuse import Fused
from lazyflow.array.passes.pipeline import PASSES, optimize

DTYPES = ["f8", "f4", "i8", "i4", "u1", "bool", "c16"]


# -- random programs ------------------------------------------------------------------------


@st.composite
def sizes(draw, n):
    """Chunks of an axis of length n: uneven, of length 1, and of length 0."""
    found = []
    left = n
    while left:
        found.append(draw(st.integers(0 if len(found) < 3 else 1, left)))
        left -= found[-1]
    if draw(st.booleans()):
        found.append(0)
    return tuple(found) or (0,)


@st.composite
def data(draw, shape=None):
    """A NumPy array with special values, and the same in chunks."""
    if shape is None:
        shape = tuple(draw(st.lists(st.integers(0, 6), min_size=0, max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    if dtype.kind == "f":
        values = rng.choice([0.0, -0.0, 1.5, -2.25, np.nan, np.inf, 1e-3, 7.0], shape)
    elif dtype.kind == "c":
        values = rng.choice([0, 1 + 2j, -1.5j, 3.0], shape)
    else:
        values = rng.integers(-3 if dtype.kind == "i" else 0, 2 if dtype.kind == "b" else 5, shape)
    array = np.asarray(values).astype(dtype)
    chunks = tuple([draw(sizes(n)) for n in shape])
    chunked = la.from_array(array, chunks=chunks) if shape else la.asarray(array)
    if draw(st.booleans()) and shape:
        chunked = chunked.persist()  # blocks that can't be had in other chunks
    return array, chunked


UNARY = [np.negative, np.absolute, np.square, np.isnan, np.exp, np.sign, np.conjugate]
BINARY = [
    np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.true_divide, np.greater,
    np.not_equal, np.floor_divide, np.remainder,
]


@st.composite
def key(draw, shape):
    """A basic index."""
    found = []
    for n in shape:
        kind = draw(st.integers(0, 3))
        if kind == 0 and n:
            found.append(draw(st.integers(-n, n - 1)))
        elif kind == 1:
            found.append(draw(st.slices(n)))
        else:
            found.append(slice(None))
    if draw(st.integers(0, 4)) == 0:
        found.insert(draw(st.integers(0, len(found))), None)
    return tuple(found)


@st.composite
def programs(draw):
    """Pairs of a NumPy result and the chunked array that should have it."""
    pool = [draw(data())]
    pool.append(draw(data(shape=pool[0][0].shape)))
    for _ in range(draw(st.integers(1, 12))):
        a, x = pool[draw(st.integers(0, len(pool) - 1))]
        kind = draw(st.integers(0, 7))
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = _step(draw, kind, a, x, pool)
        except TypeError:  # no loop for these types: for both
            continue
        if made is not None:
            pool.append(made)
    return pool


def _step(draw, kind, a, x, pool):
    if kind == 0:
        func = draw(st.sampled_from(UNARY))
        return func(a), func(x)
    if kind in (1, 2):
        func = draw(st.sampled_from(BINARY))
        b, y = pool[draw(st.integers(0, len(pool) - 1))]
        if draw(st.integers(0, 3)) == 0:
            b = y = draw(st.sampled_from([2, 0.5, True, -1]))
        try:
            expected = func(a, b)
        except ValueError:
            with pytest.raises(ValueError, match="could not be broadcast"):
                func(x, y)
            return None
        except OverflowError:
            with pytest.raises(OverflowError):
                func(x, y)
            return None
        return expected, func(x, y)
    if kind == 3:
        index = draw(key(a.shape))
        return np.asarray(a[index]), x[index]
    if kind == 4:
        order = draw(st.permutations(range(a.ndim)))
        return a.transpose(order), x.transpose(*order)
    if kind == 5 and a.size:
        axis = draw(st.sampled_from([None, *range(a.ndim)]))
        func = draw(st.sampled_from([np.max, np.min, np.any, np.all]))
        keep = draw(st.booleans())
        return np.asarray(func(a, axis=axis, keepdims=keep)), func(x, axis=axis, keepdims=keep)
    if kind == 6:
        b, y = pool[draw(st.integers(0, len(pool) - 1))]
        if b.shape != a.shape:
            return None
        return np.where(a != 0, b, a), np.where(x != 0, y, x)
    if kind == 7 and a.ndim:
        return a, x.rechunk(tuple([draw(sizes(n)) for n in a.shape]))
    return None


def equal_bits(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind in "fc":
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        parts = [(np.real(found), np.real(expected)), (np.imag(found), np.imag(expected))]
        for one, other in parts if expected.dtype.kind == "c" else parts[:1]:
            rest = ~np.isnan(other)
            np.testing.assert_array_equal(one[rest], other[rest])
            np.testing.assert_array_equal(np.signbit(one[rest]), np.signbit(other[rest]))
    else:
        np.testing.assert_array_equal(found, expected)


@given(programs(), st.sampled_from(["sync", "threads"]), st.booleans())
def test_programs_give_what_numpy_gives(pool, scheduler, fusion):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with config.set(scheduler=scheduler, array_fusion=fusion):
            found = lazyflow.compute(*[x for _, x in pool])
    for value, (expected, x) in zip(found, pool, strict=True):
        assert x.shape == expected.shape
        assert x.dtype == expected.dtype
        equal_bits(value, expected)


@given(programs(), st.sampled_from(PASSES))
def test_each_pass_keeps_results_and_shapes(pool, one):
    nodes = [x.expr for _, x in pool]
    for node, made, (expected, _) in zip(nodes, one(nodes), pool, strict=True):
        assert made.shape == node.shape
        assert made.dtype == node.dtype
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            equal_bits(la.Array(made).compute(), expected)


@given(programs())
def test_persisted_blocks_have_the_chunks_that_were_said(pool):
    _, x = pool[-1]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x.persist()
        assert y.chunks == x.chunks
        blocks = lazyflow.compute(list(y.__lazyflow_tasks__()))[0]
    shapes = [
        tuple([sizes[i] for sizes, i in zip(x.chunks, index, strict=True)])
        for index in np.ndindex(*x.numblocks)
    ]
    assert [np.shape(block) for block in blocks] == shapes
    assert all(np.asarray(block).dtype == x.dtype for block in blocks)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(programs(), st.sampled_from(["sync", "threads"]), st.booleans())
def test_thousands_of_programs(pool, scheduler, fusion):
    test_programs_give_what_numpy_gives.hypothesis.inner_test(pool, scheduler, fusion)


# -- sums -----------------------------------------------------------------------------------


@given(
    st.integers(1, 400), st.integers(1, 40), st.integers(0, 100), st.sampled_from(["f8", "f4"]),
    st.sampled_from([None, 0, 1]),
)
def test_sums_are_as_exact_as_numpy(rows, chunk, seed, dtype, axis):
    rng = np.random.default_rng(seed)
    a = (rng.standard_normal((rows, 7)) * 10.0 ** rng.integers(-3, 4, (rows, 7))).astype(dtype)
    x = la.from_array(a, chunks=(chunk, 3))
    one = np.asarray(x.sum(axis).compute(num_workers=1))
    four = np.asarray(x.sum(axis).compute(num_workers=4))
    assert one.tobytes() == four.tobytes()
    columns = {None: [a.ravel()], 0: list(a.T), 1: list(a)}[axis]
    for value, column in zip(one.ravel(), columns, strict=True):
        exact = math.fsum(column.tolist())
        bound = 16 * np.finfo(dtype).eps * math.fsum(np.abs(column).tolist())
        assert abs(float(value) - exact) <= bound


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("ddof", [0, 1])
def test_variances_keep_their_digits_far_from_zero(shift, axis, ddof):
    a = np.random.default_rng(0).standard_normal((300, 20)) + shift
    x = la.from_array(a, chunks=(70, 6))
    exact = (a - shift).var(axis, ddof=ddof)
    np.testing.assert_allclose(x.var(axis, ddof=ddof).compute(), exact, rtol=1e-6)
    np.testing.assert_allclose(x.std(axis, ddof=ddof).compute(), np.sqrt(exact), rtol=1e-6)


REDUCTIONS = [
    "sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "nansum", "nanprod",
    "nanmean", "nanvar", "nanstd", "nanmin", "nanmax", "ptp", "count_nonzero",
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4", "u1", "bool", "c16"])
def test_reductions_have_numpys_types_and_shapes(name, dtype):
    rng = np.random.default_rng(1)
    a = (rng.random((7, 5, 4)) * 3).astype(dtype)
    if dtype in ("f8", "f4") and name.startswith("nan"):
        a[a > 2] = np.nan
    x = la.from_array(a, chunks=(3, 2, 4))
    func = getattr(np, name)
    for axis in (None, 0, -1, (0, 2), ()):
        for keep in (False, True):
            try:
                expected = func(a, axis=axis, keepdims=keep)
            except TypeError as error:
                with pytest.raises(TypeError):
                    func(x, axis=axis, keepdims=keep)
                assert str(error)
                continue
            found = func(x, axis=axis, keepdims=keep)
            assert found.shape == np.shape(expected), (axis, keep)
            assert found.dtype == np.asarray(expected).dtype, (axis, keep)
            eps = 2e-2 if dtype == "f2" else 1e-5 if dtype == "f4" else 1e-12
            np.testing.assert_allclose(found.compute(), expected, rtol=eps, atol=eps)


@pytest.mark.parametrize("name", ["sum", "mean", "var", "max", "any"])
def test_where_says_what_counts(name):
    a = np.random.default_rng(2).random((20, 6))
    mask = a > 0.4
    x = la.from_array(a, chunks=(6, 4))
    more = {"initial": -1.0} if name == "max" else {}
    for axis in (None, 0, 1):
        expected = getattr(np, name)(a, axis=axis, where=mask, **more)
        found = getattr(x, name)(axis=axis, where=x > 0.4, **more)
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)


def test_what_has_no_smallest_element_is_an_error_in_numpys_words():
    for shape, axis in (((0,), None), ((3, 0), 1)):
        a = np.zeros(shape)
        with pytest.raises(ValueError) as expected:
            a.min(axis)
        with pytest.raises(ValueError) as found:
            la.from_array(a).min(axis)
        assert str(found.value) == str(expected.value)
    np.testing.assert_array_equal(la.zeros((3, 0)).min(0).compute(), np.zeros((3, 0)).min(0))


@pytest.mark.parametrize("call", [
    lambda x: x.sum(2), lambda x: x.mean((0, 0)), lambda x: x[0, 0, 0], lambda x: x[5],
    lambda x: x.transpose(0, 0), lambda x: x + np.ones(3), lambda x: x["a":],
    lambda x: x[1.5], lambda x: x.rechunk((3, 3, 3)),
])  # fmt: skip
def test_errors_are_of_numpys_types(call):
    a = np.ones((4, 5))
    try:
        call(a)
    except AttributeError:  # NumPy has no chunks
        kind: type[Exception] = ValueError
    except Exception as error:
        kind = type(error)
    else:
        raise AssertionError("NumPy takes it")
    with pytest.raises(kind):
        call(la.from_array(a, chunks=2))


# -- fusion ---------------------------------------------------------------------------------


def tasks_of(x, **options):
    """How many tasks a compute of x has."""
    nodes = optimize([x.expr], keep=False, **options)
    return sum(math.prod(node.numblocks) for node in below(nodes) if isinstance(node, Fused))


def test_an_expression_is_one_task_per_chunk():
    x = la.from_array(np.ones(4_000_000), chunks=1_000_000)
    y = ((x - 0.5) * x + x * 2 - x / 3).sum()
    assert tasks_of(y) == 4
    assert tasks_of(y, fusion=False) > 20


def test_small_chunks_are_put_together():
    x = la.from_array(np.ones((200, 200)), chunks=20)
    assert tasks_of((x + 1 + x.T).sum(0)) == 1


def test_reductions_of_one_array_read_it_once():
    x = la.from_array(np.ones((400_000, 5)), chunks=(100_000, 5))
    nodes = optimize([(x * 2).sum(0).expr, (x * 2).std(0).expr, (x + 1).max(0).expr], keep=False)
    fused = [node for node in below(nodes) if isinstance(node, Fused) and len(node.inputs) == 1]
    assert [len(node.program.outputs) for node in fused if node.program.outputs[0][1]] == [3]


def test_what_is_wanted_in_chunks_keeps_them():
    x = la.from_array(np.arange(40), chunks=4)
    assert (x + 1).persist().chunks == x.chunks
    assert len((x + 1).__lazyflow_tasks__()) == 10


def test_only_the_chunks_that_are_needed_are_read(here):
    class Store:
        shape, dtype, ndim = (100, 100), np.dtype(float), 2
        reads = []

        def __getitem__(self, key):
            self.reads.append(key)
            return np.ones([s.stop - s.start for s in key])

    store = Store()
    x = la.from_array(store, chunks=10)
    assert (x * 2 + 1)[5:7, 33].sum().compute() == 6.0
    assert store.reads == [(slice(5, 7), slice(33, 34))]


@pytest.mark.parametrize("call", [
    lambda xp, x: xp.median(x, axis=1), lambda xp, x: xp.sort(x, axis=1),
    lambda xp, x: xp.argmax(x, axis=1), lambda xp, x: np.subtract.reduce(x, axis=1),
    lambda xp, x: np.maximum.reduce(x, axis=1), lambda xp, x: xp.cumsum(x, axis=1),
], ids=["median", "sort", "argmax", "subtract.reduce", "maximum.reduce", "cumsum"])  # fmt: skip
def test_a_part_of_what_needs_whole_axes_is_made_of_whole_axes(call):
    """Where an array in memory is turned, so that its chunks are those that the operation asked."""
    for shape, chunks in (((2, 4, 3), (1, 4, 2)), ((1, 4, 3), ((0, 1), 4, 2))):
        a = np.arange(np.prod(shape)).reshape(shape)
        x = la.from_array(a, chunks=chunks)
        found = call(la, x.transpose(1, 0, 2))[0].compute()
        np.testing.assert_array_equal(found, call(np, a.transpose(1, 0, 2))[0], strict=True)


def test_a_chain_of_thousands_of_operations_works():
    x = la.ones(10, chunks=5)
    for _ in range(5000):
        x = x + 1
    np.testing.assert_array_equal(x[2:4].compute(), [5001.0, 5001.0])


def test_building_costs_nothing_for_each_chunk():
    x = la.ones((10**6, 10**6), chunks=1000)  # a million chunks
    assert (x + 1).sum().npartitions == 1
    assert (x + 1)[5, 7].compute() == 2.0


# -- what an array is -----------------------------------------------------------------------


def test_numbers_truth_length_and_iteration():
    x = la.arange(6, chunks=4).reshape(2, 3)
    assert float(x.sum()) == 15.0
    assert int(x.max()) == 5
    assert bool((x >= 0).all())
    assert [1, 2, 3][la.asarray(1)] == 2
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    assert len(list(x)) == len(x)
    with pytest.raises(TypeError, match="unsized"):
        len(x.sum())
    assert 3 in x
    assert 9 not in x


def test_in_place_operations_change_the_array_and_no_other():
    a = np.arange(6.0)
    x = la.from_array(a, chunks=4)
    y = x[1:]
    same = x
    x += 1
    assert same is x
    np.testing.assert_array_equal(x.compute(), a + 1)
    np.testing.assert_array_equal(y.compute(), a[1:])
    out = la.zeros(6)
    np.add(x, 1, out=out)
    np.testing.assert_array_equal(out.compute(), a + 2)
    with pytest.raises(TypeError, match="Cannot cast ufunc output"):
        np.add(x, 1, out=la.zeros(6, dtype=int))


def test_an_array_is_an_input_of_tasks():
    x = la.arange(10, chunks=3)
    assert lazyflow.delayed(np.ptp)(x).compute() == 9
    assert lazyflow.delayed(np.ptp)({"a": x}["a"] + 1).compute(scheduler="processes") == 9


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_schedulers_agree(scheduler):
    a = np.random.default_rng(3).random((50, 40))
    with config.set(scheduler=scheduler):
        x = la.from_array(a, chunks=(20, 15))
        y = ((x - x.mean(0)) / x.std(0)).persist()
        expected = (a - a.mean(0)) / a.std(0)
        np.testing.assert_allclose(y.compute(), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(y[3:7].sum().compute(), expected[3:7].sum(), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["i8", "f8"])
@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_casts_and_choices_of_fused_tasks_travel(scheduler, dtype):
    a = np.arange(12).astype(dtype)
    x = la.from_array(a, chunks=5)
    cast, chosen = lazyflow.compute(
        x.astype("f4"), la.where(x > 3, x, -x.astype("f4")), scheduler=scheduler
    )
    np.testing.assert_array_equal(cast, a.astype("f4"), strict=True)
    np.testing.assert_array_equal(chosen, np.where(a > 3, a, -a.astype("f4")), strict=True)


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_large_results_are_put_together_in_place(scheduler):
    a = np.arange(300_000.0).reshape(600, 500)
    x = la.from_array(a, chunks=(100, 300))
    one, two = lazyflow.compute(x + 1, x.T, scheduler=scheduler)
    np.testing.assert_array_equal(one, a + 1)
    np.testing.assert_array_equal(two, a.T)
    one[:] = 0  # the caller's own
    np.testing.assert_array_equal((x + 1).compute(scheduler=scheduler), a + 1)


def test_large_results_of_a_trace_are_put_together_in_place():
    a = np.arange(300_000.0).reshape(500, 600)
    x = la.from_array(a, chunks=(100, 300))
    run = lazyflow.trace(lambda k: x + k)
    first, second = run(1), run(2)
    np.testing.assert_array_equal(first, a + 1)
    np.testing.assert_array_equal(second, a + 2)


def test_errstate_and_warnings_are_numpys(noticed):
    x = la.from_array(np.array([0.0, 1.0]), chunks=1)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal((1 / x).compute(), [np.inf, 1.0])
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
        (1 / x).compute()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        (1 / x).compute()


def test_powers_are_numpys():
    a = np.array([0.1, 2.0, 3.3, 1e200])
    x = la.from_array(a, chunks=2)
    for power in (2, 0.5, -1, 3, 2.0, -2, 1.5):
        with np.errstate(all="ignore"):
            equal_bits((x**power).compute(), a**power)
    with np.errstate(over="ignore"):
        equal_bits((2**x).compute(), 2**a)
    i = np.arange(-3, 4)
    equal_bits((la.from_array(i, chunks=3) ** 2).compute(), i**2)


def test_what_is_shown():
    x = la.ones((3, 4), chunks=2)
    assert repr(x) == "lazyflow.Array<full, shape=(3, 4), dtype=float64, chunksize=(2, 2)>"
    html = x._repr_html_()
    assert "<svg" in html
    assert "(3, 4)" in html


@settings(max_examples=30)
@given(st.data())
def test_rechunk_moves_everything_where_it_belongs(draw):
    n, m = draw.draw(st.integers(0, 30)), draw.draw(st.integers(0, 30))
    a = np.arange(n * m).reshape(n, m)
    before = (draw.draw(sizes(n)), draw.draw(sizes(m)))
    after = (draw.draw(sizes(n)), draw.draw(sizes(m)))
    x = la.from_array(a, chunks=before).persist()
    y = x.rechunk(after)
    assert y.chunks == after
    np.testing.assert_array_equal(y.compute(), a)


def test_many_pieces_go_by_chunks_in_between():
    from lazyflow.array.nodes.rechunking import Rechunk, staged

    x = la.ones((1000, 1000), chunks=(1, 1000)).persist()
    middle = staged(x.expr, ((1000,), (1,) * 1000))
    assert isinstance(middle, Rechunk)
    assert max(middle.chunks[0]) * max(middle.chunks[1]) <= 1100


# -- storing --------------------------------------------------------------------------------


def test_store_writes_by_chunks_where_it_is_told(tmp_path, here):
    a = np.random.default_rng(4).random((10, 6))
    x = la.from_array(a, chunks=(4, 3))
    out, part = np.zeros((10, 6)), np.zeros((12, 6))
    la.store([x, x * 2], [out, part], regions=[(slice(None),), (slice(1, 11), slice(None))])
    np.testing.assert_array_equal(out, a)
    np.testing.assert_array_equal(part[1:11], a * 2)
    lazy = la.store(x + 1, out, compute=False)
    np.testing.assert_array_equal(out, a)
    assert lazy.compute() is None
    np.testing.assert_array_equal(out, a + 1)
    whole = np.zeros(4, int)
    later = la.store([la.arange(4, chunks=2)], [whole], compute=False, return_stored=True)
    assert not whole.any()
    np.testing.assert_array_equal(later[0].compute(), np.arange(4))
    np.testing.assert_array_equal(whole, np.arange(4))
    back = la.store(x, out, return_stored=True)
    np.testing.assert_array_equal(back.compute(), a)
    memory = np.memmap(tmp_path / "m", "f8", "w+", shape=(10, 6))
    la.store(x, memory, scheduler="processes")
    np.testing.assert_array_equal(memory, a)


def test_store_refuses_what_it_can_not_write():
    x = la.ones(4, chunks=2)
    with pytest.raises(ValueError, match=r"shape \(4,\), but what it is stored to has \(5,\)"):
        la.store(x, np.zeros(5))
    with pytest.raises(TypeError, match="can't be stored to"):
        la.store(x, object())
    with pytest.raises(lazyflow.SerializationError, match="can't be written to by others"):
        la.store(x, np.zeros(4), scheduler="processes")


def test_zarr_and_hdf5_are_read_and_written(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    a = np.random.default_rng(5).random((20, 8))
    target = zarr.create_array(str(tmp_path / "z"), shape=a.shape, chunks=(5, 4), dtype=a.dtype)
    la.store(la.from_array(a, chunks=(5, 4)), target, lock=False)
    x = la.from_array(zarr.open_array(str(tmp_path / "z"), mode="r"))
    assert all(size % 5 == 0 for size in x.chunks[0])
    np.testing.assert_array_equal((x + 1)[3:9].compute(), a[3:9] + 1)
    np.testing.assert_array_equal(x.compute(scheduler="processes"), a)
    with h5py.File(tmp_path / "h", "w") as file:
        dataset = file.create_dataset("d", data=a, chunks=(5, 8))
        np.testing.assert_array_equal(la.from_array(dataset, lock=True).compute(), a)


def test_a_source_that_fails_names_itself_and_the_chunk():
    class Broken:
        shape, dtype, ndim = (4, 4), np.dtype(float), 2
        name = "winds.h5"

        def __getitem__(self, key):
            raise OSError("disk is gone")

    with pytest.raises(OSError, match="disk is gone") as found:
        la.from_array(Broken(), chunks=2).sum().compute()
    notes = "\n".join(found.value.__notes__)
    assert "while reading [" in notes
    assert "'winds.h5'" in notes


def test_many_short_tasks_run_on_one_thread():
    kept = la.from_array(np.ones((40, 40)), chunks=2).persist()
    threads = set()

    def seen(block):
        threads.add(threading.get_ident())
        return block

    def light(x):
        (made,) = la.Array.__lazyflow_optimize__([x], keep=False)
        return made.__lazyflow_light__

    assert light((kept * 2 + 1).sum(0))
    assert not light(np.exp(kept).sum())  # as long as it may be
    assert not light(kept.map_blocks(seen, dtype=float))
    assert not light(la.from_array(np.ones(10**6), chunks=10**5).persist() + 1)
    np.testing.assert_array_equal((kept * 2 + 1).sum(0).compute(), np.full(40, 120.0))


def test_an_array_of_an_array_is_one_of_its_own():
    x = la.from_array(np.arange(4.0), chunks=2)
    copies = [la.array(x), la.array(x, ndmin=1), la.copy(x), x.copy(), x.astype("f8"), x.flatten()]
    x[:] = 9
    assert [y.sum().compute() for y in copies] == [6] * len(copies)
    assert la.asarray(x) is x


def test_one_value_everywhere_is_turned_into_any_type():
    with np.errstate(invalid="ignore"):
        for value, dtype in [(np.nan, "i4"), (1j, "f8"), (2.5, "u1"), (-0.0, ">f4")]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
                found, wanted = [xp.full((2, 3), value, dtype) for xp in (la, np)]
            np.testing.assert_array_equal(found.compute(), wanted, strict=True)


# -- chunks that are to fit ---------------------------------------------------------------------


def bytes_of_largest(chunks):
    return int(np.prod([max(sizes) for sizes in chunks])) * 8


@pytest.mark.parametrize("chunks", [
    {0: -1, 1: "auto", 2: "auto"}, (-1, "auto", 100), "auto", {0: "auto"}, {1: "8 MiB", 0: -1},
    (1000, 1000, "auto"), ("auto", None, 1000),
])
@pytest.mark.parametrize("before", [100, (1000, 500, 300), ((1, 999), 1000, 7)])
def test_automatic_axes_are_cut_until_a_chunk_fits(before, chunks):
    x = la.zeros((1000,) * 3, chunks=before)
    found = x.rechunk(chunks).chunks
    assert bytes_of_largest(found) <= 8 << 20 or chunks == {0: "auto"}  # the others are too long
    assert [sum(sizes) for sizes in found] == [1000] * 3
    if chunks not in ("auto", {0: "auto"}) and chunks[0] == -1:
        assert found[0] == (1000,)


def test_automatic_chunks_are_parts_or_multiples_of_those_before():
    x = la.zeros((1000,) * 3, chunks=100)
    assert x.rechunk({0: -1, 1: "auto", 2: "auto"}).chunks == (
        (1000,), (10,) * 100, (100,) * 10
    )
    assert x.rechunk({0: -1, 1: 10, 2: "auto"}).chunks[2] == (100,) * 10
    assert la.zeros((7, 101), chunks=-1).rechunk({1: "auto"}, limit=7 * 50 * 8).chunks == (
        (7,), (34, 34, 33)
    )


@pytest.mark.parametrize("make", [
    lambda c: la.zeros((1000,) * 3, chunks=c), lambda c: la.full((1000,) * 3, 2.0, chunks=c),
    lambda c: la.random.default_rng(0).normal(size=(1000,) * 3, chunks=c),
    lambda c: la.from_array(np.broadcast_to(1.0, (1000,) * 3), chunks=c),
    lambda c: la.zeros((1000,) * 3, chunks=-1).rechunk(c),
])
def test_chunks_may_be_so_many_bytes_along_some_axes(make):
    assert make(("64 MB", None, None)).chunks == ((8,) * 125, (1000,), (1000,))
    assert make((None, "8 MiB", "8 MiB")).numblocks[0] == 1
    assert bytes_of_largest(make(("auto", "1 MB", -1)).chunks) <= 10**6
    with pytest.raises(ValueError, match="one number of bytes only; got 1 MB, 2 MB"):
        make(("1 MB", "2 MB", -1))
    with pytest.raises(ValueError, match="'lots' does not say how many bytes"):
        make(("lots", -1, -1))


def test_chunks_of_files_are_not_cut_but_when_asked():
    class Stored:
        shape, dtype, chunks = (1000, 4000), np.dtype(float), (500, 4000)

        def __getitem__(self, key):
            return np.zeros(self.shape)[key]

    assert la.from_array(Stored()).chunks == ((500, 500), (4000,))
    assert la.from_array(Stored(), chunks=("auto", -1)).chunks == ((250,) * 4, (4000,))
