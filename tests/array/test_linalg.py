"""Linear algebra: residuals, orthogonality, and what NumPy gives, whole and by blocks."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la
from lazyflow.array.linalg import decompositions, matrices
from lazyflow.array.nodes import blas_threads

RNG = np.random.default_rng(0)
DTYPES = ["f8", "f4", "c16", "c8", "i4", "?"]


@pytest.fixture(params=["whole", "blocks"])
def blocks(request, monkeypatch):
    """LAPACK gets whole matrices, or none that has several chunks."""
    monkeypatch.setattr(matrices, "_SMALL", 16 if request.param == "whole" else 0)


def numbers(shape, dtype="f8"):
    found = RNG.normal(size=shape) * 3
    if np.dtype(dtype).kind == "c":
        found = found + 1j * RNG.normal(size=shape)
    return found.astype(dtype)


def near(found, wanted, factor=1.0):
    """Check values within a few hundred eps of the largest, and the dtype."""
    (found,) = lazyflow.compute(found)
    wanted = np.asarray(wanted)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    kind = wanted.dtype if wanted.dtype.kind in "fc" else np.dtype(float)
    bound = 300 * factor * np.finfo(kind).eps * max(1, abs(wanted).max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


def check_qr(a, q, r):
    q, r = lazyflow.compute(q, r)
    k = min(a.shape)
    want = np.linalg.qr(a)
    assert (q.dtype, r.dtype, q.shape, r.shape) == (
        want.Q.dtype, want.R.dtype, want.Q.shape, want.R.shape)
    near(q @ r, a.astype(q.dtype))
    near(q.conj().T @ q, np.eye(k, dtype=q.dtype))
    assert not np.tril(r, -1).any()
    near(abs(r), abs(want.R))


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 60), columns=st.integers(1, 7), step=st.integers(1, 20),
    width=st.integers(1, 7), dtype=st.sampled_from(DTYPES), wide=st.booleans(),
)
def test_qr_and_svd_of_any_shape_and_chunks(rows, columns, step, width, dtype, wide):
    a = np.random.default_rng(rows * columns).integers(-9, 9, (rows, columns))
    a = (a + 1j * a**2 if dtype[0] == "c" else a).astype(dtype)
    a, chunks = (a.T, (width, step)) if wide else (a, (step, width))
    x = la.from_array(a, chunks=chunks)
    q, r = lazyflow.compute(*la.linalg.qr(x))
    near(q @ r, a.astype(q.dtype))
    near(q.conj().T @ q, np.eye(min(a.shape), dtype=q.dtype))
    u, s, vh = lazyflow.compute(*np.linalg.svd(x, full_matrices=False))
    near(s, np.linalg.svd(a, compute_uv=False))
    near((u * s) @ vh, a.astype(u.dtype))
    near(u.conj().T @ u, np.eye(len(s), dtype=u.dtype))
    near(vh @ vh.conj().T, np.eye(len(s), dtype=u.dtype))
    near(la.linalg.svdvals(x), s)


@pytest.mark.parametrize("dtype", DTYPES[:3])
def test_qr_in_a_tree_of_three_levels_and_in_tiles(dtype, monkeypatch):
    monkeypatch.setattr(decompositions, "_TILE", 5)
    a = numbers((700, 2), dtype)
    x = la.from_array(a, chunks=((3, 20, 37) + (8,) * 80, 1))
    assert len(decompositions.row_chunks(x)) > 64
    check_qr(a, *la.linalg.qr(x))
    near(abs(la.linalg.qr(x, mode="r")), abs(np.linalg.qr(a, mode="r")))
    near(la.linalg.svdvals(x), np.linalg.svd(a, compute_uv=False))


def test_wide_matrices_and_other_modes():
    a = numbers((4, 50), "c16")
    check_qr(a, *la.linalg.qr(la.from_array(a, chunks=(3, 3))))
    check_qr(a, *la.linalg.sfqr(la.from_array(a, chunks=(3, 30))))
    x = la.from_array(a, chunks=7)
    assert la.linalg.qr(x, mode="complete").Q.shape == (4, 4)
    for found, wanted in zip(la.linalg.qr(x, "raw"), np.linalg.qr(a, "raw"), strict=True):
        near(found, wanted)
    assert [x.shape for x in np.linalg.svd(x)] == [(4, 4), (4,), (50, 50)]
    with pytest.raises(ValueError, match="Unrecognized mode"):
        la.linalg.qr(x, mode="full?")


def test_signs_of_singular_vectors_do_not_depend_on_chunks():
    a = numbers((60, 3))
    one, other = [la.linalg.svd(la.from_array(a, chunks=n)) for n in (7, 60)]
    near(one.Vh, other.Vh.compute())
    near(one.U, other.U.compute())
    assert (one.Vh.compute().sum(axis=1) >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES[:5])
def test_systems_inverses_and_determinants(blocks, dtype):
    a, b = numbers((23, 23), dtype), numbers((23, 6), dtype)
    x, y = la.from_array(a, chunks=(5, 9)), la.from_array(b, chunks=(4, 4))
    hard = np.linalg.cond(a)
    near(np.linalg.solve(x, y), np.linalg.solve(a, b), hard)
    near(la.linalg.solve(x, y[:, 0]), np.linalg.solve(a, b[:, 0]), hard)
    near(np.linalg.inv(x), np.linalg.inv(a), hard)
    near(np.linalg.det(x), np.linalg.det(a))
    for found, wanted in zip(np.linalg.slogdet(x), np.linalg.slogdet(a), strict=True):
        near(found, wanted)
    upper = np.triu(a) + 9 * np.eye(23, dtype=dtype)
    for lower in (False, True):
        t = upper.T if lower else upper
        wanted = scipy.linalg.solve_triangular(t, b, lower=lower)
        near(la.linalg.solve_triangular(la.from_array(t, chunks=(5, 9)), y, lower), wanted, hard)


@pytest.mark.parametrize("dtype", DTYPES[:5])
def test_lu_and_cholesky_factors(blocks, dtype):
    a = numbers((23, 23), dtype)
    a[:9, :9] = 0  # pivots have to come from other blocks of rows
    wanted = scipy.linalg.lu(a)
    for found, each in zip(la.linalg.lu(la.from_array(a, chunks=(9, 5))), wanted, strict=True):
        near(found, each)
    a = a @ a.conj().T + 23 * np.eye(23, dtype=dtype)
    b = numbers((23, 3), dtype)
    x = la.from_array(a, chunks=(5, 9))
    near(np.linalg.cholesky(la.tril(x)), np.linalg.cholesky(a))
    near(la.linalg.cholesky(la.triu(x), lower=False), np.linalg.cholesky(a).conj().T)
    near(la.linalg.solve(x, b, assume_a="pos"), np.linalg.solve(a, b), np.linalg.cond(a))
    with pytest.raises(ValueError, match=r"assume_a must be 'gen' .* got 'poss'"):
        la.linalg.solve(x, b, assume_a="poss")


def test_matrices_without_an_answer_raise_what_numpy_raises(blocks):
    x = la.ones((9, 9), chunks=4)
    b = la.ones(9, chunks=3)
    for made in (
        la.linalg.solve(x, b), la.linalg.inv(x), la.linalg.solve_triangular(x - x, b),
        la.linalg.cholesky(-x),
    ):
        with pytest.raises(np.linalg.LinAlgError):
            made.compute()
    assert la.linalg.det(x).compute() == 0
    assert [each.compute() for each in la.linalg.slogdet(x)] == [0, -np.inf]


@pytest.mark.parametrize("call", [
    lambda m, x: m.inv(x[:2]), lambda m, x: m.det(x[0]), lambda m, x: m.solve(x, x[:2]),
    lambda m, x: m.solve(x, x[0, 0]), lambda m, x: m.cholesky(x[:2]), lambda m, x: m.qr(x[0]),
    lambda m, x: m.eigh(x[0]), lambda m, x: m.lstsq(x, x[:2]), lambda m, x: m.svd(x.astype("f2")),
    lambda m, x: m.norm(x, 3), lambda m, x: m.norm(x[0], "fro"), lambda m, x: m.cond(x[:0]),
    lambda m, x: m.norm(x[None], 2), lambda m, x: m.norm(x, axis=(0, 0)), lambda m, x: m.cond(x, 3),
    lambda m, x: m.matrix_power(x, 1.5), lambda m, x: m.multi_dot([x]), lambda m, x: m.eig(x[:2]),
    lambda m, x: m.outer(x, x), lambda m, x: m.cross(x[:, :2], x[:, :2]),
    lambda m, x: m.inv(x.astype(object)), lambda m, x: m.tensorinv(x, 0),
])
def test_wrong_arguments_are_errors_of_the_call(call):
    a = np.eye(3)
    with pytest.raises(Exception) as wanted:
        call(np.linalg, a)
    with pytest.raises(wanted.type):
        call(la.linalg, la.from_array(a, chunks=2))


@pytest.mark.parametrize("call", [
    np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.eigh, np.linalg.eigvalsh,
    np.linalg.cholesky, np.linalg.pinv, np.linalg.cond, np.linalg.matrix_rank,
    lambda x: np.linalg.cond(x, 1), lambda x: np.linalg.cond(x, -2), lambda x: abs(
        np.linalg.qr(x).R), lambda x: np.linalg.svd(x, compute_uv=False), np.linalg.trace,
    np.linalg.diagonal, lambda x: np.linalg.solve(x, x), lambda x: np.linalg.solve(x, np.ones(4)),
    lambda x: np.linalg.matrix_power(x, 3), lambda x: np.linalg.matrix_power(x, -2),
    lambda x: np.linalg.matrix_power(x, 0), lambda x: np.linalg.norm(x, axis=(0, 2), ord="nuc"),
    lambda x: np.linalg.tensorinv(x, 1) if x.ndim == 2 else np.linalg.inv(x),
    lambda x: np.linalg.pinv(x[:, :, :2]), lambda x: np.linalg.matrix_rank(x, hermitian=True),
])
def test_stacks_of_matrices_are_lazy_and_as_numpys(call):
    a = numbers((3, 4, 4))
    a = a @ a.mT + np.eye(4)
    found = call(la.from_array(a, chunks=(2, 3, 4)))
    wanted = call(a)
    if not isinstance(wanted, tuple):
        found, wanted = (found,), (wanted,)
    for one, other in zip(found, wanted, strict=True):
        assert isinstance(one, la.Array)
        one, other = (abs(one), abs(other)) if call is np.linalg.eigh else (one, other)
        near(one, other, np.linalg.cond(a).max())


def test_eigenvalues_are_complex():
    a = numbers((5, 5), "f4")
    values, vectors = lazyflow.compute(*la.linalg.eig(la.from_array(a, chunks=2)))
    assert values.dtype == vectors.dtype == "c8"
    near(a @ vectors, vectors * values)
    near(la.linalg.eigvals(la.asarray(np.eye(2))), np.ones(2, complex))


@pytest.mark.parametrize(("shape", "columns"), [((40, 3), ()), ((40, 3), (2,)), ((3, 40), (2,))])
@pytest.mark.parametrize("rank", [3, 2])
def test_least_squares(shape, columns, rank):
    a, b = numbers(shape), numbers((shape[0], *columns))
    if rank == 2:
        a[..., 2] = a[..., 1] if shape[1] == 3 else a[..., 2]
        a[2] = a[1] if shape[0] == 3 else a[2]
    found = np.linalg.lstsq(la.from_array(a, chunks=(11, 2)), la.from_array(b, chunks=7))
    wanted = np.linalg.lstsq(a, b)
    hard = np.linalg.cond(a[:, :2] if shape[1] == 3 else a[:2])
    near(found[0], wanted[0], hard)
    if wanted[1].size:
        near(found[1], wanted[1], hard)
    else:
        left = ((b - a @ wanted[0]) ** 2).sum(axis=0, keepdims=b.ndim == 1)
        near(found[1], left[:0] if shape[0] <= shape[1] else left, hard)
    assert found[2].compute() == wanted[2] == rank
    near(found[3], wanted[3])
    assert la.linalg.matrix_rank(la.from_array(a, chunks=(11, 2))).compute() == rank
    near(la.linalg.pinv(la.from_array(a, chunks=(11, 2)), 1e-10), np.linalg.pinv(a, 1e-10), hard)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axis"), [
    ((13,), None), ((7, 5), None), ((7, 5), 0), ((4, 3, 5), (2, 0)), ((4, 3, 5), -1),
    ((4, 3, 5), None),
])
def test_norms_of_all_orders(dtype, shape, axis):
    a = numbers(shape, dtype)
    x = la.from_array(a, chunks=3)
    orders = [None, 0, 1, 2, 3, -1, -2, 0.5, np.inf, -np.inf, "fro", "nuc"]
    for order in orders:
        for keepdims in (False, True):
            try:
                with np.errstate(divide="ignore"):
                    wanted = np.linalg.norm(a, order, axis, keepdims)
            except ValueError:
                with pytest.raises(ValueError, match="norm"):
                    np.linalg.norm(x, order, axis, keepdims)
                continue
            with np.errstate(divide="ignore"):
                near(np.linalg.norm(x, order, axis, keepdims), wanted)
    near(la.linalg.vector_norm(x, axis=0, ord=3), np.linalg.vector_norm(a, axis=0, ord=3))
    if a.ndim > 1:
        near(la.linalg.matrix_norm(x, ord=-1), np.linalg.matrix_norm(a, ord=-1))


@pytest.mark.parametrize("iterator", ["power", "QR"])
@pytest.mark.parametrize("dtype", ["f8", "c16", "f4"])
def test_compressed_singular_values(iterator, dtype):
    a = (numbers((90, 4), dtype) @ numbers((4, 70), dtype)).astype(dtype)
    a += 1e-3 * numbers(a.shape, dtype)
    made = [
        la.linalg.svd_compressed(
            la.from_array(a, chunks=chunks), 4, iterator, 2, seed=1, compute=chunks == 90)
        for chunks in ((31, 20), 90)
    ]
    u, s, vh = lazyflow.compute(*made[0])
    wanted = np.linalg.svd(a, compute_uv=False)
    assert u.shape == (90, 4) and vh.shape == (4, 70) and u.dtype == dtype
    np.testing.assert_allclose(s, wanted[:4], rtol=1e-4)
    near(u.conj().T @ u, np.eye(4, dtype=dtype))
    assert np.linalg.norm(a - (u * s) @ vh, 2) < 1.1 * wanted[4]
    np.testing.assert_allclose(s, made[1].S.compute(), rtol=1e-5)
    with pytest.raises(ValueError, match="'powr' not valid"):
        la.linalg.svd_compressed(la.ones((9, 9)), 2, "powr")


def test_products_with_the_signatures_of_numpys_module():
    a, b, c = numbers((4, 30)), numbers((30, 2)), numbers(2)
    x, y, z = la.from_array(a, chunks=3), la.from_array(b, chunks=7), la.from_array(c, chunks=1)
    near(np.linalg.multi_dot([a[0], y, z]), np.linalg.multi_dot([a[0], b, c]))
    near(np.linalg.multi_dot([x.T, x, y, z]), np.linalg.multi_dot([a.T, a, b, c]))
    near(np.linalg.outer(z, z), np.outer(c, c))
    near(np.linalg.matmul(x, y), a @ b)
    near(np.linalg.vecdot(x, x, axis=0), np.linalg.vecdot(a, a, axis=0))
    near(np.linalg.tensordot(x, y, axes=1), np.tensordot(a, b, 1))
    near(np.linalg.cross(y[:3], y[3:6], axis=0), np.linalg.cross(b[:3], b[3:6], axis=0))
    near(np.linalg.matrix_transpose(x), a.T)
    t = numbers((2, 3, 6))
    near(np.linalg.tensorinv(la.from_array(t, chunks=2)), np.linalg.tensorinv(t), 1e3)
    near(np.linalg.tensorsolve(la.from_array(t, chunks=2), np.ones((2, 3))),
         np.linalg.tensorsolve(t, np.ones((2, 3))), 1e3)


def test_lengths_that_are_not_known_and_empty_matrices():
    a = numbers((30, 2))
    x = la.from_array(a, chunks=4)
    near(la.linalg.svdvals(x[x[:, 0] > 0]), np.linalg.svd(a[a[:, 0] > 0], compute_uv=False))
    near(np.linalg.norm(x[x[:, 0] > 0]), np.linalg.norm(a[a[:, 0] > 0]))
    for shape in (0, 3), (3, 0), (0, 0):
        none, wanted = la.zeros(shape), np.linalg.qr(np.zeros(shape))
        check_qr(np.zeros(shape), *la.linalg.qr(none))
        assert la.linalg.svd(none).U.shape == wanted.Q.shape
        near(la.linalg.pinv(none), np.linalg.pinv(np.zeros(shape)))
        near(la.linalg.matrix_rank(none), np.int64(0))  # NumPy 2.3 raises
    near(la.linalg.det(la.zeros((0, 0))), np.float64(1))


def test_all_schedulers_give_the_same_factors(monkeypatch):
    monkeypatch.setattr(matrices, "_SMALL", 0)
    a = numbers((24, 24))
    x = la.from_array(a, chunks=8)
    made = [*la.linalg.lu(x), *la.linalg.qr(x[:, :2]), la.linalg.solve(x, a[0])]
    one, other = [lazyflow.compute(*made, scheduler=name) for name in ("sync", "threads")]
    for found, wanted in zip(one, other, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_threads_of_scipys_blas_are_shared_and_given_back():
    if len(blas_threads._libraries()) < 2:
        pytest.skip("NumPy or SciPy has another BLAS library")
    before = [tell() for tell, _ in blas_threads._libraries()]
    try:
        for _, limit in blas_threads._libraries():
            limit(4)
        with blas_threads.share_of_threads(1000):
            assert [tell() for tell, _ in blas_threads._libraries()] == [1, 1]
        assert [tell() for tell, _ in blas_threads._libraries()] == [4, 4]
    finally:
        for (_, limit), threads in zip(blas_threads._libraries(), before, strict=True):
            limit(threads)
