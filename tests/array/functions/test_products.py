"""Products of arrays, against NumPy."""

import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from array_checks import check_near, kept_inputs, raised, told_of
from array_examples import Store
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupt_steps import interrupt

import lazyflow
import lazyflow.array as la
from lazyflow.array.nodes import blas_threads, contraction
from lazyflow.array.passes.rewrites import optimize

RNG = np.random.default_rng(11)


def values(rng, shape, dtype):
    x = rng.integers(-4, 5, shape)
    return x * (1 + 0.5j) if dtype == "c16" else x.astype(dtype)


def cut(rng, n):
    """Chunks of an axis, some of them empty or of one element."""
    cuts = np.sort(rng.integers(0, n + 1, rng.integers(0, 4)))
    return tuple(np.diff([0, *cuts, n]).tolist())


def chunked(rng, x):
    return la.from_array(x, chunks=tuple([cut(rng, n) for n in x.shape]))


# -- matmul -------------------------------------------------------------------------------------

SHAPES = [
    ((5, 6), (6, 4)), ((6,), (6, 4)), ((5, 6), (6,)), ((6,), (6,)), ((2, 3, 5, 6), (3, 6, 4)),
    ((3, 5, 6), (2, 1, 6, 4)), ((7, 6), (2, 6, 3)), ((2, 5, 6), (6,)), ((6,), (2, 6, 3)),
    ((0, 3), (3, 2)), ((3, 0), (0, 2)), ((1, 1), (1, 1)), ((2, 3, 1), (1, 4)), ((0,), (0,)),
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SHAPES), st.sampled_from(["f8", "f4", "i8", "i1", "?", "c16", "O"]),
       st.sampled_from([1, 4, 4096]), st.integers(0, 10_000))
def test_matmul(shapes, dtype, length, seed):
    rng = np.random.default_rng(seed)
    x, y = (values(rng, shape, dtype) for shape in shapes)
    a, b = chunked(rng, x), chunked(rng, y)
    with patch.object(contraction, "_LONG", length):
        check_near(a @ b, x @ y)
        if y.ndim < 3 and x.ndim < 4:
            check_near(np.dot(a, b), np.dot(x, y))


def test_matmul_of_mixed_types():
    x, y = RNG.integers(0, 9, (4, 5)), RNG.random((5, 3)).astype("f4")
    a = la.from_array(x, chunks=2)
    check_near(a @ y, x @ y)
    check_near(x.T.copy().T @ la.from_array(y, chunks=2), x @ y)
    check_near(la.matmul(a, y, dtype="c16"), np.matmul(x, y, dtype="c16"))
    out = la.zeros((4, 3))
    assert np.matmul(a, y, out=out) is out
    check_near(out, x @ y)


@pytest.mark.parametrize("shapes, words", [
    (((2, 3), (4, 2)), r"mismatch in its core dimension 0, with gufunc signature "
                       r"\(n\?,k\),\(k,m\?\)->\(n\?,m\?\) \(size 4 is different from 3\)"),
    (((), (3,)), "Input operand 0 does not have enough dimensions"),
    (((3,), ()), "Input operand 1 does not have enough dimensions"),
    (((2, 3, 4), (3, 4, 5)), "could not be broadcast together"),
])
def test_matmul_of_shapes_that_do_not_fit(shapes, words):
    with pytest.raises(ValueError, match=words):
        la.ones(shapes[0]) @ la.ones(shapes[1])


def test_matmul_in_words_it_does_not_take():
    with pytest.raises(TypeError, match="not axes=; move the axes by moveaxis"):
        np.matmul(la.ones((2, 2)), la.ones((2, 2)), axes=[(0, 1), (0, 1), (0, 1)])
    with pytest.raises(TypeError, match="did not contain a loop"):
        la.ones((2, 2)) @ la.asarray(np.array([["a"], ["b"]]))


def test_dot_of_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"shapes \(2,3\) and \(4,\) not aligned: 3 \(dim 1\) != "
                                         r"4 \(dim 0\)"):
        la.dot(la.ones((2, 3)), la.ones(4))


def test_many_blocks_are_added_up_by_a_tree():
    x = RNG.integers(0, 9, (3, 700))
    a = la.from_array(x, chunks=(3, 2))
    check_near(a @ a.T, x @ x.T)
    tall = la.from_array(x.T, chunks=(1, 2))
    check_near(tall.T @ tall, x @ x.T)


def test_a_slice_of_a_product_multiplies_what_it_needs(here):
    x, y = RNG.random((6, 5)), RNG.random((5, 8))
    store = Store(x)
    a, b = la.from_array(store, chunks=2), la.from_array(y, chunks=3)
    check_near((a @ b)[2:4, ::-3], (x @ y)[2:4, ::-3])
    assert {(key[0].start, key[0].stop) for key in store.read} == {(2, 4)}
    check_near((a @ b)[1, -1], (x @ y)[1, -1])
    check_near((a @ b).T[:, :2], (x @ y).T[:, :2])


def test_products_have_the_same_bits_on_all_schedulers():
    a = la.from_array(RNG.random((40, 900)), chunks=(13, 17))
    b = la.from_array(RNG.random((900, 30)), chunks=(20, 11))
    product = a @ b
    expected = product.compute()
    np.testing.assert_allclose(expected, a.compute() @ b.compute())
    for scheduler in ("threads", "processes"):
        np.testing.assert_array_equal(product.compute(scheduler=scheduler), expected)


def test_chunks_of_a_product_are_no_larger():
    a = la.ones((100, 1000), chunks=(10, 1000))
    b = la.ones((1000, 100), chunks=(50, 100))
    node = (a @ b).expr
    assert node.chunks == ((10,) * 10, (100,))
    assert node.inputs[0].chunks[1] == node.inputs[1].chunks[0] == (50,) * 20


def test_unknown_lengths_are_found_out():
    x = RNG.integers(0, 9, 30)
    counts = la.bincount(la.from_array(x, chunks=7))
    expected = np.bincount(x)
    check_near(la.dot(counts, la.from_array(expected, chunks=3)), np.dot(expected, expected))


# -- tensordot and others -----------------------------------------------------------------------


@pytest.mark.parametrize("axes", [
    0, 1, 2, ((1, 2), (1, 0)), (2, 0), ((0, 1), (2, 1)), ((-1, -2), (0, 1)), ([], []),
])
def test_tensordot(axes):
    rng = np.random.default_rng(3)
    x, y = values(rng, (4, 5, 6), "i8"), values(rng, (6, 5, 4), "i8")
    if axes == 2:
        y = y.transpose(1, 0, 2)
    check_near(np.tensordot(chunked(rng, x), chunked(rng, y), axes), np.tensordot(x, y, axes))


@pytest.mark.parametrize("axes, words", [
    (1, "shape-mismatch for sum"), (((0,), (0, 1)), "shape-mismatch for sum"),
    (((0, 0), (0, 0)), "names one twice"), ((5, 0), "axis 5 is out of bounds"),
])
def test_tensordot_of_what_does_not_fit(axes, words):
    with pytest.raises(ValueError, match=words):
        la.tensordot(la.ones((3, 4)), la.ones((3, 4)), axes)


@pytest.mark.parametrize("dtype", ["f8", "i8", "c16", "?"])
def test_other_products(dtype):
    rng = np.random.default_rng(5)
    x, y = values(rng, (3, 5, 4), dtype), values(rng, (3, 5, 4), dtype)
    a, b = chunked(rng, x), chunked(rng, y)
    check_near(np.inner(a, b), np.inner(x, y))
    check_near(np.vdot(a, b), np.vdot(x, y))
    check_near(np.vecdot(a, b), np.vecdot(x, y))
    check_near(np.vecdot(a, b[0], axis=-2), np.vecdot(x, y[0], axis=-2))
    check_near(np.outer(a[0, 0], b[0, :, 0]), np.outer(x[0, 0], y[0, :, 0]))
    check_near(np.dot(a, 2), np.dot(x, 2))
    if hasattr(np, "matvec"):
        check_near(np.matvec(a, b[:, 0]), np.matvec(x, y[:, 0]))
        check_near(np.vecmat(a[:, :, 0], b), np.vecmat(x[:, :, 0], y))


@pytest.mark.skipif(not hasattr(np, "matvec"), reason="NumPy 2.2 has the first")
@pytest.mark.parametrize("shapes", [((3,), (3,)), ((2, 3), ()), ((), (3, 2))])
def test_products_of_too_few_axes_raise_as_in_numpy(shapes):
    x, y = map(np.ones, shapes)
    for name in ("matvec", "vecmat"):
        words = raised(lambda name=name: getattr(np, name)(x, y))
        assert raised(lambda name=name: getattr(la, name)(la.asarray(x), la.asarray(y))) == words


def test_products_of_raveled_arrays():
    x, y = RNG.random((3, 4)), RNG.random((4, 3))
    a, b = la.from_array(x, chunks=2), la.from_array(y, chunks=2)
    check_near(np.outer(a, b), np.outer(x, y))
    check_near(np.vdot(a, b), np.vdot(x, y))


def test_traces():
    x = RNG.random((4, 5, 3))
    a = la.from_array(x, chunks=2)
    check_near(np.trace(a), np.trace(x))
    check_near(a.trace(1, 0, 2), x.trace(1, 0, 2))
    check_near(np.trace(a, dtype="f4"), np.trace(x, dtype="f4"))


def test_cross_products():
    x, y = RNG.random((5, 3)), RNG.random((4, 1, 3))
    a, b = la.from_array(x, chunks=2), la.from_array(y, chunks=2)
    check_near(np.cross(a, b), np.cross(x, y))
    check_near(np.cross(a.T, b, axisa=0, axisc=0), np.cross(x.T, y, axisa=0, axisc=0))
    check_near(la.cross([1, 0, 0], a), np.cross([1, 0, 0], x))


def test_inner_products_that_do_not_fit():
    with pytest.raises(ValueError, match="not aligned: 3 .dim 0. != 4 .dim 1."):
        la.inner(la.ones(3), la.ones((2, 4)))
    with pytest.raises(ValueError, match="vectors of 3 and 4 elements"):
        la.vdot(la.ones(3), la.ones(4))
    with pytest.raises(ValueError, match="size 4 is different from 3"):
        la.vecdot(la.ones(3), la.ones(4))


# -- einsum -------------------------------------------------------------------------------------

SUBSCRIPTS = [
    "ij->ji", "ij->", "ij->j", "ij", "ji", "ij,jk", "ij,jk->ki", "ij,ij->ij", "ij,ij->i",
    "ij,kl->jl", "ij,kl->ijkl", "ij,kj->ik", "ijk,ilk->ijl", "ijk,kl,lm->ijm", "ij,jk,kl,lm->im",
    "i,i", "i,j,k->kji", "...j,j...->...", "...ij,jk->...ik", "...,...->...", "ij...->ji...",
    "i...->...", "ij,ik,il->jkl", "i j , j k -> i k",
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SUBSCRIPTS), st.sampled_from(["f8", "i4", "c16"]), st.integers(0, 10_000),
       st.sampled_from([False, True, "optimal", "greedy"]))
def test_einsum(subscripts, dtype, seed, optimize):
    rng = np.random.default_rng(seed)
    left = subscripts.replace(" ", "").split("->")[0].split(",")
    length = {letter: int(rng.integers(1, 6)) for letter in "ijklm"}
    extra = tuple(rng.integers(1, 4, rng.integers(0, 3)).tolist())
    operands = []
    for each in left:
        before, dots, after = each.partition("...")
        shape = (*[length[x] for x in before], *(extra if dots else ()),
                 *[length[x] for x in after])
        shape = tuple([1 if rng.random() < 0.1 else n for n in shape])  # broadcasts
        operands.append(values(rng, shape, dtype))
    lazy = [chunked(rng, x) for x in operands]
    expected = np.einsum(subscripts, *operands)
    check_near(np.einsum(subscripts, *lazy, optimize=optimize), np.asarray(expected))


def test_einsum_by_numbers():
    x, y = RNG.random((3, 4)), RNG.random((4, 5))
    a, b = la.from_array(x, chunks=2), la.from_array(y, chunks=3)
    check_near(la.einsum(a, [0, 1], b, [1, 2]), np.einsum(x, [0, 1], y, [1, 2]))
    check_near(la.einsum(a, [0, 1], b, [1, 2], [2, 0]), np.einsum(x, [0, 1], y, [1, 2], [2, 0]))
    subscripts = [..., 1], [1, 2], [..., 2]
    check_near(
        la.einsum(a, subscripts[0], b, *subscripts[1:]),
        np.einsum(x, subscripts[0], y, *subscripts[1:]),
    )
    path = ["einsum_path", (0, 1), (0, 1)]
    expected = np.einsum("ij,jk,ik->", x, y, x @ y)
    check_near(la.einsum("ij,jk,ik->", a, b, a @ b, optimize=path), expected)


def test_einsum_types_and_out():
    x = RNG.integers(0, 9, (3, 4)).astype("i4")
    a = la.from_array(x, chunks=2)
    check_near(la.einsum("ij,ij->i", a, a, dtype="f8"), np.einsum("ij,ij->i", x, x, dtype="f8"))
    check_near(la.einsum("ij,kj->ik", a, a), np.einsum("ij,kj->ik", x, x))
    out = la.zeros(3)
    assert la.einsum("ij->i", a, out=out) is out
    check_near(out, x.sum(1).astype(float))
    with pytest.raises(TypeError, match="operand 0 dtype could not be cast from"):
        la.einsum("ij", a, dtype="i2")


def test_einsum_on_diagonals():
    x = RNG.random((4, 4, 3))
    a = la.from_array(x, chunks=3)
    for subscripts in ("iij->ij", "iij->j", "iij,kj->ik"):
        operands = [x, x[0]][: subscripts.count(",") + 1]
        lazy = [a, a[0]][: len(operands)]
        check_near(la.einsum(subscripts, *lazy), np.einsum(subscripts, *operands))
    with pytest.raises(ValueError, match=r"for collapsing index 'i' don't match \(4 != 3\)"):
        la.einsum("iji", a)


@pytest.mark.parametrize("subscripts, count, words", [
    ("ij,jk", 1, "subscripts for 2 operands, and 1"),
    ("i", 1, "more dimensions than subscripts"),
    ("ijk", 1, "too many subscripts"),
    ("ij->k", 1, "output subscript 'k' which never appeared"),
    ("ij->ii", 1, "output subscript 'i' multiple times"),
    ("ij,ij", 2, "subscript 'i' is for axes of lengths 3 and 4"),
    ("i1", 1, "invalid subscript '1'"),
    ("...i->i", 1, "must contain '...' in the output"),
])
def test_subscripts_that_are_none(subscripts, count, words):
    operands = [la.ones((3, 4)), la.ones((4, 3))][:count]
    with pytest.raises(ValueError, match=words):
        la.einsum(subscripts, *operands)


def test_einsum_of_nothing():
    with pytest.raises(ValueError, match="at least one operand"):
        la.einsum("ij")
    with pytest.raises(ValueError, match="order must be one of"):
        la.einsum("i", la.ones(3), order="X")


def test_one_compute_shares_what_is_multiplied():
    store = Store(np.ones((4, 4)))
    a = la.from_array(store, chunks=2) + 1
    lazyflow.compute(a @ a, a.sum())
    assert len(store.read) <= 8  # 4 blocks, and perhaps again for the sum


def test_products_are_in_wide_blocks_where_nobody_sees_their_chunks():
    a = np.random.default_rng(0).random((40, 30))
    x = la.from_array(a, chunks=(10, 7))
    np.testing.assert_allclose((x @ x.T).compute(), a @ a.T, rtol=1e-12)
    (wide,) = optimize([(x @ x.T).expr], keep=False)
    assert wide.numblocks == (4, 1)
    assert (x @ x.T).persist().numblocks == (4, 4)
    (narrow,) = optimize([(x.persist() @ x.T).expr], keep=False)
    assert narrow.numblocks == (4, 4)
    assert (x[:0] @ x.T).compute().shape == (0, 40)


def test_large_sums_are_added_up_few_times_and_where_they_belong():
    a = np.random.default_rng(0).random((6000, 500))
    x = la.from_array(a, chunks=(400, 500))
    assert (x.T @ x).expr.inputs[0].chunks[0] == (2000, 2000, 2000)
    assert (x @ x[0]).expr.inputs[0].numblocks == (15, 1)
    assert (x[0] @ x.T).expr.chunks == ((400,) * 15,)
    assert (x[:, :2].T @ x[:, :2]).expr.inputs[0].numblocks == (15, 1)  # sums are small
    y = x[:600].T
    for made, expected, most in ((x.T @ x, a.T @ a, 4.5), (x @ y, a @ a[:600].T, 1.2)):
        made.compute()
        tracemalloc.start()
        try:
            found = made.compute(scheduler="sync")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        np.testing.assert_allclose(found, expected)
        assert peak < most * found.nbytes


BOOLS = np.array([[True, False, True], [False, True, True]])
SPANS = np.array([[5, -3, "NaT"], [7, 100, 2]], "m8[s]")


@pytest.mark.parametrize(("a", "b"), [
    (SPANS, np.arange(6).reshape(3, 2)), (BOOLS, SPANS.T), (SPANS, SPANS.T),
    (BOOLS, BOOLS.T), (BOOLS, BOOLS.T.astype(object)), (SPANS, np.ones((3, 2))),
    (SPANS, SPANS.T.astype("m8[m]")), (SPANS.astype("m8[ms]"), SPANS.T),
    (SPANS.T.view("m8"), SPANS), (SPANS.view("m8[10s]"), np.arange(6, dtype="u4").reshape(3, 2)),
    (BOOLS, SPANS.T.astype(">m8[s]")), (SPANS, np.arange(6, dtype="u8").reshape(3, 2)),
    (SPANS, SPANS.T.view("m8[M]")),
])
@pytest.mark.parametrize("call", [
    lambda m, a, b: m.dot(a, b), lambda m, a, b: m.inner(a, b.T), lambda m, a, b: m.vdot(a, b.T),
    lambda m, a, b: m.tensordot(a, b, axes=1), lambda m, a, b: m.tensordot(a, b, axes=0),
    lambda m, a, b: m.tensordot(a, b, axes=([0], [1])), lambda m, a, b: m.dot(a[0], b[:, 0]),
    lambda m, a, b: m.matmul(a, b),
])
def test_products_of_spans_and_booleans(call, a, b):
    chunked = la.from_array(a, chunks=2), la.from_array(b, chunks=2)
    try:
        expected = call(np, a, b)
    except (TypeError, SystemError, AttributeError):
        with pytest.raises((TypeError, AttributeError)):
            call(la, *chunked).compute()
        return
    found = np.asarray(call(la, *chunked).compute())
    assert found.dtype == np.asarray(expected).dtype
    assert found.tolist() == np.asarray(expected).tolist()


@pytest.mark.parametrize("axes", [{}, {"axisc": 0}])
@pytest.mark.parametrize(("n", "m"), [(2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("dtypes", [("f8", "f8"), ("i4", "f4"), ("u1", "u1")])
def test_cross_products_in_the_plane(n, m, dtypes, axes):
    a = np.arange(3 * n).reshape(3, n).astype(dtypes[0])
    b = np.arange(3 * m)[::-1].reshape(3, m).astype(dtypes[1])
    x, y, one = (la.from_array(each, chunks=k) for each, k in ((a, 2), (b, 1), (b[0], 1)))
    for ours, numpys in (
        (lambda: la.cross(x, y, **axes), lambda: np.cross(a, b, **axes)),
        (lambda: la.cross(x, one), lambda: np.cross(a, b[0])),
        (lambda: la.cross(x, la.ones((3, 4))), lambda: np.cross(a, np.ones((3, 4)))),
    ):
        expected, words = told_of(numpys)  # deprecated, and refused from NumPy 2.5 on
        found, our_words = told_of(ours)
        assert our_words == words
        if expected is not None:
            check_near(found, expected)


class Watcher:
    """A number whose products note how many threads BLAS would take."""

    seen: set[int] = set()

    def __mul__(self, other):
        self.seen.add(blas_threads._libraries()[0][0]())
        return other


@pytest.mark.skipif(not blas_threads._libraries(), reason="NumPy has another BLAS library")
def test_tasks_of_a_product_share_the_threads_of_blas_and_give_them_back():
    tell, limit = blas_threads._libraries()[0]
    before = tell()
    limit(4)
    try:
        x = np.array([[Watcher()], [Watcher()]])
        for chunks, share in ((1, 2), (2, 4)):
            Watcher.seen.clear()
            found = la.from_array(x, chunks=chunks) @ la.from_array(np.array([[3]]))
            found = found.compute(scheduler="threads", num_workers=1)
            assert found.tolist() == [[3], [3]]
            assert Watcher.seen == {share}
            assert tell() == 4
        with pytest.raises(TypeError):
            (la.from_array(np.array([["a"], [None]], object), chunks=1) @ x[:1, :1]).compute()
        assert tell() == 4
    finally:
        limit(before)


@pytest.mark.skipif(not blas_threads._libraries(), reason="NumPy has another BLAS library")
def test_products_that_ctrl_c_ends_give_the_threads_of_blas_back():
    def shared():
        with blas_threads.share_of_threads(2):
            assert tell() == 2

    tell, limit = blas_threads._libraries()[0]
    before = tell()
    limit(4)
    try:
        n = 1
        while place := interrupt(shared, n):
            assert (tell(), blas_threads._running) == (4, 0), place
            n += 1
        assert n > 5
    finally:
        limit(before)


@pytest.mark.parametrize("rows", [3, 20, 100])
def test_a_matrix_times_itself_is_symmetric(rows):
    x = RNG.random((100, 30))
    chunked = la.from_array(x, chunks=(rows, 30))
    for made in (chunked.T @ chunked, la.tensordot(chunked, chunked, (0, 0))):
        found = made.compute()
        np.testing.assert_allclose(found, x.T @ x)
        assert np.array_equal(found, found.T)
    np.testing.assert_allclose((chunked @ chunked.T).compute(), x @ x.T)
    np.testing.assert_allclose((chunked.T @ chunked)[3:7, 2].compute(), (x.T @ x)[3:7, 2])
    part = chunked[::2, 3:]
    found = (part.T @ part).compute()
    np.testing.assert_allclose(found, x[::2, 3:].T @ x[::2, 3:])
    assert np.array_equal(found, found.T)


def test_few_large_sums_are_held_at_once(monkeypatch):
    monkeypatch.setattr(contraction, "_LONG", 2)  # else blocks of 400 rows are joined
    x = la.from_array(RNG.random((6400, 500)), chunks=(400, 500))  # 16 sums of 2 MB
    with lazyflow.config.set(scheduler="sync"):
        found = (x.T @ x).compute()
        tracemalloc.start()
        try:
            again = (x.T @ x).compute()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    np.testing.assert_array_equal(found, again)
    assert peak < 11 * found.nbytes


@pytest.mark.parametrize("dtype", ["f4", "i8", "?", "c16"])
def test_large_blocks_are_multiplied_one_after_the_other(monkeypatch, dtype):
    """What has to be in one place is a pair of blocks and a sum; all bits stay."""
    monkeypatch.setattr(contraction, "_LONG", 1)  # else blocks are joined
    a, b = RNG.random((6, 60, 5, 7)), RNG.random((6, 60, 3))
    x = la.from_array(a * 9, chunks=(2, 3, 2, 3)).astype(dtype).persist()
    y = la.from_array(b * 9 - 4, chunks=(2, 3, 2)).astype(dtype).persist()

    def products():
        return [
            la.einsum("abcd,abe->dec", x, y), la.einsum("abcd,abcf->fd", x, x),
            la.tensordot(y, x, ((0, 1), (0, 1))), la.matmul(y[0].T, y[1]),
        ]

    plain = lazyflow.compute(*products())
    assert max(map(max, map(kept_inputs, products()))) > 5
    for most in (1, 2000):
        monkeypatch.setattr(contraction, "_AT_ONCE", most)
        if most == 1:
            assert max(map(max, map(kept_inputs, products()))) == 2
        for found, wanted in zip(lazyflow.compute(*products()), plain, strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
