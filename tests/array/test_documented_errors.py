"""What the documentation of a function says that it raises, it raises, and nothing is left out."""

import ast
import builtins
import inspect
import re
import sys
import textwrap
from unittest.mock import patch

import numpy as np
import pytest
from documented_words import WORDS

import lazyflow
import lazyflow.array as la
from lazyflow import delayed
from lazyflow.array.names import PUBLIC, by_name

v, m, s = la.arange(6.0, chunks=3), la.ones((2, 3), chunks=2), la.asarray(1.0)
lazy = delayed(abs)(1)
rng = la.random.default_rng(0)


def without(module, call):
    """Call a function as if a module was not installed."""
    with patch.dict(sys.modules, {module: None}):
        return call()


#: Calls that raise, by the function and what its documentation says.
CASES = {
    ("Array.mT", "ValueError"): [lambda: v.mT],
    ("Array.to_device", "ValueError"): [
        lambda: v.to_device("gpu"), lambda: v.to_device("cpu", stream=1),
    ],
    ("Generator.choice", "AxisError"): [lambda: rng.choice([1, 2], axis=1)],
    ("Generator.choice", "TypeError"): [lambda: rng.choice(lazy)],
    ("Generator.choice", "ValueError"): [
        lambda: rng.choice(0), lambda: rng.choice(2, p=[1.0]),
        lambda: rng.choice(2, 3, replace=False),
    ],
    ("Generator.dirichlet", "ValueError"): [
        lambda: rng.dirichlet([-1.0, 1]), lambda: rng.dirichlet([[1.0]]),
    ],
    ("Generator.multinomial", "ValueError"): [
        lambda: rng.multinomial(2, [2.0, 1.0]), lambda: rng.multinomial(2, [[1.0]]),
    ],
    ("Generator.multivariate_hypergeometric", "ValueError"): [
        lambda: rng.multivariate_hypergeometric([-1], 1),
        lambda: rng.multivariate_hypergeometric([[1]], 1),
        lambda: rng.multivariate_hypergeometric([1], 2),
    ],
    ("Generator.multivariate_normal", "ValueError"): [
        lambda: rng.multivariate_normal([[1.0]], [[1.0]]),
        lambda: rng.multivariate_normal([1.0], [[1.0, 2]]),
    ],
    ("Generator.shuffle", "TypeError"): [lambda: rng.shuffle([1, 2])],
    ("MaskedArray.filled", "ValueError"): [lambda: la.ma.masked_array(v).filled([1, 2])],
    ("apply_along_axis", "TypeError"): [lambda: la.apply_along_axis(lambda row: 1 / [], 0, m)],
    ("apply_gufunc", "ValueError"): [
        lambda: la.apply_gufunc(np.sort, "(i)->(j", v),
        lambda: la.apply_gufunc(np.sum, "(i)->()", v),
    ],
    ("apply_over_axes", "ValueError"): [
        lambda: la.apply_over_axes(lambda a, axis: a.reshape(1, 1, -1), m, 0),
    ],
    ("arange", "TypeError"): [lambda: la.arange(3, dtype="U1")],
    ("arange", "ZeroDivisionError"): [lambda: la.arange(0, 3, 0)],
    ("argmax", "TypeError"): [lambda: la.argmax(np.zeros(2, "i4,i4"))],
    ("argmax", "ValueError"): [lambda: la.argmax(v[:0])],
    ("argmin", "TypeError"): [lambda: la.argmin(np.zeros(2, "i4,i4"))],
    ("argmin", "ValueError"): [lambda: la.argmin(v[:0])],
    ("argpartition", "ValueError"): [lambda: la.argpartition(v, 6)],
    ("argsort", "TypeError"): [lambda: la.argsort(np.zeros(2, "i4,i4"), descending=True)],
    ("argtopk", "ValueError"): [lambda: la.argtopk(v, 0)],
    ("array", "TypeError"): [lambda: la.array(lazy), lambda: la.array([1], chunk=2)],
    ("array_split", "ValueError"): [lambda: la.array_split(v, 0)],
    ("asarray", "TypeError"): [lambda: la.asarray(lazy), lambda: la.asarray([1], chunk=2)],
    ("asarray", "ValueError"): [
        lambda: la.asarray(v, int, copy=False),
        lambda: la.asarray([v[v > 1]], allow_unknown_chunksizes=False),
    ],
    ("astype", "TypeError"): [lambda: v.astype(int, casting="safe")],
    ("average", "TypeError"): [lambda: la.average(m, weights=[1, 2])],
    ("average", "ValueError"): [lambda: la.average(m, 0, weights=[1, 2, 3])],
    ("average", "ZeroDivisionError"): [lambda: la.average(v, weights=0 * v).compute()],
    ("bincount", "ValueError"): [lambda: la.bincount(m), lambda: la.bincount([1, 2], [1.0])],
    ("block", "TypeError"): [lambda: la.block([(v, v)])],
    ("block", "ValueError"): [lambda: la.block([[]]), lambda: la.block([[v], v])],
    ("blockwise", "ValueError"): [
        lambda: la.blockwise(np.add, "i", v, "ij"), lambda: la.blockwise(np.add, "i", v),
    ],
    ("broadcast_arrays", "TypeError"): [lambda: la.broadcast_arrays(v, subok=True)],
    ("broadcast_arrays", "ValueError"): [lambda: la.broadcast_arrays(v, m)],
    ("broadcast_to", "TypeError"): [lambda: la.broadcast_to(v, (2, 6), subok=True)],
    ("broadcast_to", "ValueError"): [lambda: la.broadcast_to(v, (2, 5))],
    ("choose", "TypeError"): [lambda: la.choose(v, [v, v])],
    ("choose", "ValueError"): [lambda: la.choose([0, 1], [[1, 2], [3, 4]], mode="x")],
    ("nan_to_num", "ValueError"): [lambda: la.nan_to_num(v, nan=np.ones(9))],
    ("clip", "TypeError"): [lambda: la.clip(v, 0, 1, out=np.zeros(6))],
    ("clip", "ValueError"): [lambda: la.clip(v, 1, 2, min=1)],
    ("coarsen", "ValueError"): [lambda: la.coarsen(np.sum, v, {0: 4})],
    ("column_stack", "TypeError"): [lambda: la.column_stack(3)],
    ("column_stack", "ValueError"): [
        lambda: la.column_stack([]), lambda: la.column_stack([m, m[None, :1, :1]]),
    ],
    ("compress", "ValueError"): [lambda: la.compress(m, m, 0)],
    ("concatenate", "TypeError"): [lambda: la.concat(3)],
    ("concatenate", "ValueError"): [
        lambda: la.concat([]), lambda: la.concat([v, m]),
        lambda: la.concat([v, v[v > 1]], allow_unknown_chunksizes=False),
    ],
    ("convolve", "ValueError"): [
        lambda: la.convolve(v, v, "x"), lambda: la.convolve(v, m), lambda: la.convolve(v, v[:0]),
    ],
    ("corrcoef", "ValueError"): [lambda: la.corrcoef(m[None])],
    ("correlate", "ValueError"): [lambda: la.correlate(v, v, "x"), lambda: la.correlate(v, m)],
    ("cov", "RuntimeError"): [lambda: la.cov(v, fweights=[1, 2]), lambda: la.cov(v, aweights=m)],
    ("cov", "TypeError"): [lambda: la.cov(v, fweights=[1.5] * 6)],
    ("cov", "ValueError"): [
        lambda: la.cov(m[None]), lambda: la.cov(m, ddof=1.5),
        lambda: la.cov(m, aweights=[-1.0, 1, 1]),
    ],
    ("cross", "ValueError"): [lambda: la.cross(s, v), lambda: la.cross(v, v)],
    ("cumulative_prod", "ValueError"): [lambda: la.cumulative_prod(m)],
    ("cumulative_sum", "ValueError"): [lambda: la.cumulative_sum(m)],
    ("delete", "IndexError"): [lambda: la.delete(v, 9)],
    ("delete", "ValueError"): [lambda: la.delete(v, np.ones(2, bool))],
    ("diag", "ValueError"): [lambda: la.diag(s)],
    ("diag_indices", "TypeError"): [lambda: la.diag_indices("a")],
    ("diag_indices_from", "ValueError"): [
        lambda: la.diag_indices_from(v), lambda: la.diag_indices_from(m),
    ],
    ("diagonal", "ValueError"): [lambda: la.diagonal(v), lambda: la.diagonal(m, 0, 1, 1)],
    ("diff", "ValueError"): [lambda: la.diff(v, -1), lambda: la.diff(s)],
    ("dot", "ValueError"): [lambda: la.dot(m, m)],
    ("dsplit", "ValueError"): [lambda: la.dsplit(m, 1), lambda: la.dsplit(m[None], 2)],
    ("dstack", "TypeError"): [lambda: la.dstack(3)],
    ("dstack", "ValueError"): [lambda: la.dstack([]), lambda: la.dstack([m, m[None, :1, :1]])],
    ("ediff1d", "TypeError"): [lambda: la.ediff1d(np.arange(3), to_end=1.5)],
    ("einsum", "TypeError"): [lambda: la.einsum("i->i", v, dtype=int)],
    ("einsum", "ValueError"): [
        lambda: la.einsum("ij", v), lambda: la.einsum("i,i", v, v[:2]), lambda: la.einsum("i"),
    ],
    ("eye", "ValueError"): [lambda: la.eye(-1)],
    ("fft.fft_wrap", "ValueError"): [lambda: la.fft.fft_wrap(np.sum)],
    ("fft.fftfreq", "ValueError"): [lambda: la.fft.fftfreq(1.5)],
    ("fft.rfftfreq", "ValueError"): [lambda: la.fft.rfftfreq(1.5)],
    ("fix", "TypeError"): [lambda: la.fix(v * 1j)],
    ("fliplr", "ValueError"): [lambda: la.fliplr(v)],
    ("flipud", "ValueError"): [lambda: la.flipud(s)],
    ("from_array", "TypeError"): [
        lambda: la.from_array(v), lambda: la.from_array(lazy), lambda: la.from_array({}),
    ],
    ("from_delayed", "TypeError"): [
        lambda: la.from_delayed(3, (1,), float), lambda: la.from_delayed(lazy, (1,)),
    ],
    ("from_delayed", "ValueError"): [
        lambda: la.from_delayed(delayed(np.ones)(3), (4,), float).compute(),
    ],
    ("from_zarr", "ImportError"): [lambda: without("zarr", lambda: la.from_zarr('a'))],
    ("from_zarr", "ValueError"): [
        lambda: la.from_zarr(pytest.importorskip("zarr").open_group('b')),
    ],
    ("fromfunction", "TypeError"): [lambda: la.fromfunction(np.add)],
    ("full", "ValueError"): [lambda: la.full(3, [1])],
    ("full_like", "ValueError"): [lambda: la.full_like(v, [1])],
    ("geomspace", "TypeError"): [lambda: la.geomspace(m, 3)],
    ("geomspace", "ValueError"): [lambda: la.geomspace(1, 2, -1), lambda: la.geomspace(0, 2)],
    ("gradient", "TypeError"): [lambda: la.gradient(m, 1, 1, 1)],
    ("gradient", "ValueError"): [
        lambda: la.gradient(v, [1, 2]), lambda: la.gradient(v[:1]),
        lambda: la.gradient(v, edge_order=3),
    ],
    ("gufunc", "TypeError"): [lambda: la.gufunc(np.sort)],
    ("gufunc", "ValueError"): [lambda: la.gufunc(np.sort, signature="(i")],
    ("histogram", "TypeError"): [lambda: la.histogram(v, "auto", weights=v)],
    ("histogram", "ValueError"): [
        lambda: la.histogram(v, [2, 1]), lambda: la.histogram(v, m),
        lambda: la.histogram(v, weights=m),
    ],
    ("histogram2d", "ValueError"): [
        lambda: la.histogram2d(v, v, range=[(0, 1)]), lambda: la.histogram2d(v, v[:2]),
    ],
    ("histogram_bin_edges", "TypeError"): [lambda: la.histogram_bin_edges(v, "auto", weights=v)],
    ("histogram_bin_edges", "ValueError"): [
        lambda: la.histogram_bin_edges(v, [2, 1]), lambda: la.histogram_bin_edges(v, m),
    ],
    ("histogramdd", "TypeError"): [lambda: la.histogramdd(m.T, "auto")],
    ("histogramdd", "ValueError"): [
        lambda: la.histogramdd(m.T, [2]), lambda: la.histogramdd(m.T, range=[(0, 1)]),
        lambda: la.histogramdd([v, v[:2]]),
    ],
    ("hsplit", "ValueError"): [lambda: la.hsplit(s, 1), lambda: la.hsplit(v, 4)],
    ("hstack", "TypeError"): [lambda: la.hstack(3)],
    ("hstack", "ValueError"): [lambda: la.hstack([]), lambda: la.hstack([m, m[None, :1, :1]])],
    ("indices", "TypeError"): [lambda: la.indices((2,), dtype="U1")],
    ("inner", "ValueError"): [lambda: la.inner(v, m)],
    ("insert", "IndexError"): [lambda: la.insert(v, 9, 0)],
    ("insert", "ValueError"): [lambda: la.insert(v, [1, 2], [1, 2, 3])],
    ("ix_", "ValueError"): [lambda: la.ix_(m)],
    ("lexsort", "TypeError"): [lambda: la.lexsort([])],
    ("lexsort", "ValueError"): [lambda: la.lexsort([v, m])],
    ("linalg.cholesky", "LinAlgError"): [lambda: la.linalg.cholesky(-la.eye(2)).compute()],
    ("linalg.compression_matrix", "LinAlgError"): [lambda: la.linalg.compression_matrix(v, 1)],
    ("linalg.compression_matrix", "ValueError"): [lambda: la.linalg.compression_matrix(m, 1, "x")],
    ("linalg.cond", "LinAlgError"): [lambda: la.linalg.cond(v), lambda: la.linalg.cond(m[:0])],
    ("linalg.cond", "ValueError"): [lambda: la.linalg.cond(m[:, :2], 3)],
    ("linalg.cross", "ValueError"): [lambda: la.linalg.cross(v, v)],
    ("linalg.det", "LinAlgError"): [lambda: la.linalg.det(m)],
    ("linalg.diagonal", "ValueError"): [lambda: la.linalg.diagonal(v)],
    ("linalg.eig", "LinAlgError"): [lambda: la.linalg.eig(m)],
    ("linalg.eigh", "LinAlgError"): [lambda: la.linalg.eigh(m)],
    ("linalg.eigvals", "LinAlgError"): [lambda: la.linalg.eigvals(m)],
    ("linalg.eigvalsh", "LinAlgError"): [lambda: la.linalg.eigvalsh(m)],
    ("linalg.inv", "LinAlgError"): [
        lambda: la.linalg.inv(m), lambda: la.linalg.inv(la.zeros((2, 2))).compute(),
    ],
    ("linalg.lstsq", "LinAlgError"): [lambda: la.linalg.lstsq(v, v), lambda: la.linalg.lstsq(m, v)],
    ("linalg.lu", "LinAlgError"): [lambda: la.linalg.lu(v)],
    ("linalg.matrix_power", "LinAlgError"): [lambda: la.linalg.matrix_power(m, 2)],
    ("linalg.matrix_power", "TypeError"): [lambda: la.linalg.matrix_power(m[:, :2], 1.5)],
    ("linalg.matrix_rank", "ValueError"): [lambda: la.linalg.matrix_rank(m, 1, rtol=1)],
    ("linalg.multi_dot", "LinAlgError"): [lambda: la.linalg.multi_dot([v, v, v])],
    ("linalg.multi_dot", "ValueError"): [
        lambda: la.linalg.multi_dot([m]), lambda: la.linalg.multi_dot([m, m]),
    ],
    ("linalg.norm", "ValueError"): [lambda: la.linalg.norm(v, "fro")],
    ("linalg.outer", "ValueError"): [lambda: la.linalg.outer(m, v)],
    ("linalg.pinv", "LinAlgError"): [lambda: la.linalg.pinv(v)],
    ("linalg.pinv", "ValueError"): [lambda: la.linalg.pinv(m, 1, rtol=1)],
    ("linalg.qr", "LinAlgError"): [lambda: la.linalg.qr(v)],
    ("linalg.sfqr", "LinAlgError"): [lambda: la.linalg.sfqr(v)],
    ("linalg.slogdet", "LinAlgError"): [lambda: la.linalg.slogdet(m)],
    ("linalg.solve", "LinAlgError"): [
        lambda: la.linalg.solve(m, v), lambda: la.linalg.solve(la.zeros((2, 2)), v[:2]).compute(),
    ],
    ("linalg.solve", "ValueError"): [lambda: la.linalg.solve(la.eye(2), v)],
    ("linalg.solve_triangular", "LinAlgError"): [
        lambda: la.linalg.solve_triangular(m, v),
        lambda: la.linalg.solve_triangular(la.zeros((2, 2)), v[:2]).compute(),
    ],
    ("linalg.solve_triangular", "ValueError"): [
        lambda: la.linalg.solve_triangular(la.ones((1, 2, 2)), v[:2]),
        lambda: la.linalg.solve_triangular(la.eye(2), v),
    ],
    ("linalg.svd", "LinAlgError"): [lambda: la.linalg.svd(v)],
    ("linalg.svd_compressed", "ValueError"): [
        lambda: la.linalg.svd_compressed(v, 1), lambda: la.linalg.svd_compressed(m, 1, "x"),
    ],
    ("linalg.svdvals", "LinAlgError"): [lambda: la.linalg.svdvals(v)],
    ("linalg.tensorinv", "LinAlgError"): [lambda: la.linalg.tensorinv(m, 1)],
    ("linalg.tensorinv", "ValueError"): [lambda: la.linalg.tensorinv(m, 0)],
    ("linalg.tensorsolve", "LinAlgError"): [lambda: la.linalg.tensorsolve(m, v)],
    ("linalg.tsqr", "LinAlgError"): [lambda: la.linalg.tsqr(v)],
    ("linspace", "TypeError"): [lambda: la.linspace(m, 3)],
    ("linspace", "ValueError"): [lambda: la.linspace(0, 1, -1)],
    ("logspace", "TypeError"): [lambda: la.logspace(m, 3)],
    ("logspace", "ValueError"): [lambda: la.logspace(0, 1, -1)],
    ("ma.average", "TypeError"): [lambda: la.ma.average(m, weights=[1, 2])],
    ("ma.average", "ValueError"): [lambda: la.ma.average(m, 0, weights=[1, 2, 3])],
    ("ma.masked_array", "MaskError"): [lambda: la.ma.masked_array(v, [True, False])],
    ("ma.masked_array", "TypeError"): [lambda: la.ma.masked_array(np.zeros(2, "i4,i4"))],
    ("ma.masked_equal", "ValueError"): [lambda: la.ma.masked_equal(v, v)],
    ("ma.masked_object", "ValueError"): [lambda: la.ma.masked_object(v, v)],
    ("ma.masked_values", "ValueError"): [lambda: la.ma.masked_values(v, v)],
    ("ma.masked_where", "IndexError"): [lambda: la.ma.masked_where([True], v)],
    ("ma.where", "ValueError"): [lambda: la.ma.where(v > 1, 2)],
    ("map_blocks", "TypeError"): [
        lambda: v.map_blocks(lambda block: {}, dtype=float).compute(),
        lambda: v.map_blocks(lambda block: block > 1, dtype=float).compute(),
    ],
    ("map_blocks", "ValueError"): [
        lambda: la.map_blocks(np.add, v, la.ones(9, chunks=3)),
        lambda: v.map_blocks(lambda block: block[:1], dtype=float).compute(),
    ],
    ("map_overlap", "TypeError"): [
        lambda: la.map_overlap(v, np.sort, depth=1), lambda: la.map_overlap(np.sort, 3, depth=1),
    ],
    ("map_overlap", "ValueError"): [
        lambda: la.map_overlap(np.sort, v, depth=-1),
        lambda: la.map_overlap(np.sort, v, depth=1, boundary="mirror"),
        lambda: la.map_overlap(np.sort, v, depth=4, allow_rechunk=False),
    ],
    ("matmul", "TypeError"): [lambda: la.matmul(m, m, axes=[(0, 1), (0, 1), (0, 1)])],
    ("matmul", "ValueError"): [lambda: la.matmul(s, v), lambda: la.matmul(m, m)],
    ("matrix_transpose", "ValueError"): [lambda: la.matrix_transpose(v)],
    ("matvec", "TypeError"): [lambda: la.matvec(m, v[:3], out=np.ones(2))],
    ("matvec", "ValueError"): [lambda: la.matvec(s, v), lambda: la.matvec(m, v)],
    ("max", "ValueError"): [lambda: la.max(v[:0]), lambda: la.max(v, where=v > 1)],
    ("meshgrid", "ValueError"): [lambda: la.meshgrid(v, indexing="yx")],
    ("min", "ValueError"): [lambda: la.min(v[:0])],
    ("moment", "ValueError"): [lambda: la.moment(v, -1)],
    ("moveaxis", "ValueError"): [lambda: la.moveaxis(m, [0, 1], [0])],
    ("nanargmax", "TypeError"): [lambda: la.nanargmax(np.zeros(2, "i4,i4"))],
    ("nanargmax", "ValueError"): [
        lambda: la.nanargmax(v[:0]), lambda: la.nanargmax(np.nan * v).compute(),
    ],
    ("nanargmin", "TypeError"): [lambda: la.nanargmin(np.zeros(2, "i4,i4"))],
    ("nanargmin", "ValueError"): [
        lambda: la.nanargmin(v[:0]), lambda: la.nanargmin(np.nan * v).compute(),
    ],
    ("nanmean", "TypeError"): [lambda: la.nanmean(v, dtype=int)],
    ("nanpercentile", "TypeError"): [lambda: la.nanpercentile(v, la.asarray(0.5))],
    ("nanpercentile", "ValueError"): [
        lambda: la.nanpercentile(v, 101), lambda: la.nanpercentile(v, 0.5, method="x"),
        lambda: la.nanpercentile(v, 0.5, weights=v),
    ],
    ("nanquantile", "TypeError"): [lambda: la.nanquantile(v, la.asarray(0.5))],
    ("nanquantile", "ValueError"): [
        lambda: la.nanquantile(v, 1.1), lambda: la.nanquantile(v, 0.5, method="x"),
        lambda: la.nanquantile(v, 0.5, weights=v),
    ],
    ("nonzero", "ValueError"): [lambda: la.nonzero(s)],
    ("normalize_chunks", "TypeError"): [lambda: la.normalize_chunks(1.5, (4,))],
    ("normalize_chunks", "ValueError"): [lambda: la.normalize_chunks(((1, 2),), (4,))],
    ("ones", "ValueError"): [
        lambda: la.ones(-1),
        lambda: la.ones(3, order="X"),
        lambda: la.ones(3, device="gpu"),
    ],
    ("overlap.overlap", "ValueError"): [
        lambda: la.overlap.overlap(v, 4, "none", allow_rechunk=False),
    ],
    ("overlap.trim_internal", "ValueError"): [
        lambda: la.overlap.trim_internal(v, {0: -1}),
        lambda: la.overlap.trim_internal(v, 1, "mirror"),
    ],
    ("pad", "TypeError"): [lambda: la.pad(v, 1.5)],
    ("pad", "ValueError"): [
        lambda: la.pad(v, 1, "x"), lambda: la.pad(v, 1, "edge", constant_values=1),
        lambda: la.pad(v, -1), lambda: la.pad(v[:0], 1, "edge"),
    ],
    ("partition", "ValueError"): [lambda: la.partition(v, 6)],
    ("percentile", "IndexError"): [lambda: la.percentile(v[:0] > 1, 0.5)],
    ("percentile", "TypeError"): [lambda: la.percentile(v, la.asarray(0.5))],
    ("percentile", "ValueError"): [
        lambda: la.percentile(v, 101), lambda: la.percentile(v, 0.5, method="x"),
        lambda: la.percentile(v, 0.5, weights=v),
    ],
    ("piecewise", "ValueError"): [lambda: la.piecewise(v, [v > 1], [1, 2, 3])],
    ("polyder", "ValueError"): [lambda: la.polyder(v, -1)],
    ("polyfit", "TypeError"): [
        lambda: la.polyfit(m, v, 1), lambda: la.polyfit(v, v[:2], 1),
        lambda: la.polyfit(v, v, 1, w=m), lambda: la.polyfit(v[:0], v[:0], 1),
    ],
    ("polyfit", "ValueError"): [
        lambda: la.polyfit(v, v, -1), lambda: la.polyfit(v, v, 5, cov=True),
    ],
    ("polyint", "ValueError"): [lambda: la.polyint(v, -1), lambda: la.polyint(v, 3, [1, 2])],
    ("polyval", "TypeError"): [lambda: la.polyval(v, np.poly1d([1]))],
    ("quantile", "IndexError"): [lambda: la.quantile(v[:0] > 1, 0.5)],
    ("quantile", "TypeError"): [lambda: la.quantile(v, la.asarray(0.5))],
    ("quantile", "ValueError"): [
        lambda: la.quantile(v, 1.1), lambda: la.quantile(v, 0.5, method="x"),
        lambda: la.quantile(v, 0.5, weights=v),
    ],
    ("random.Generator", "TypeError"): [lambda: rng.normal(lazy)],
    ("random.Generator", "ValueError"): [
        lambda: rng.normal(scale=-1), lambda: rng.poisson(-v).compute(),
        lambda: rng.normal([1, 2], size=3),
    ],
    ("ravel", "ValueError"): [lambda: la.ravel(m, "X")],
    ("rechunk", "NotImplementedError"): [lambda: la.rechunk(v, 2, method="file")],
    ("rechunk", "ValueError"): [lambda: la.rechunk(v, {1: 2}), lambda: la.rechunk(v, ((1, 2),))],
    ("reduction", "ValueError"): [lambda: la.reduction(v, np.sum, np.sum)],
    ("repeat", "TypeError"): [lambda: la.repeat(v, np.array([1.5])), lambda: la.repeat(v, [[1]])],
    ("repeat", "ValueError"): [lambda: la.repeat(v, -1), lambda: la.repeat(v, [1, 2])],
    ("report", "TypeError"): [lambda: la.report(3)],
    ("reshape", "ValueError"): [
        lambda: la.reshape(v, 5), lambda: la.reshape(v, (-1, -1)), lambda: la.reshape(v, 6, "K"),
        lambda: la.reshape(m.T, 6, copy=False),
    ],
    ("reshape_blockwise", "NotImplementedError"): [
        lambda: la.reshape_blockwise(la.ones((2, 6, 4)), (3, 4, 4)),
    ],
    ("reshape_blockwise", "ValueError"): [lambda: la.reshape_blockwise(v, (2, 3))],
    ("resize", "ValueError"): [lambda: la.resize(v, (-1,))],
    ("roll", "ValueError"): [lambda: la.roll(v, [[1]], 0)],
    ("rollaxis", "AxisError"): [lambda: la.rollaxis(m, 0, 5)],
    ("rot90", "ValueError"): [
        lambda: la.rot90(m, axes=(0,)), lambda: la.rot90(m, axes=(0, 0)),
        lambda: la.rot90(m, axes=(0, 2)),
    ],
    ("round", "TypeError"): [
        lambda: la.round(v, out=np.zeros(6)),
        lambda: la.round(v, out=la.zeros(6, dtype=int)),
    ],
    ("searchsorted", "ValueError"): [
        lambda: la.searchsorted(v, 1, "middle"), lambda: la.searchsorted(s, 1),
        lambda: la.searchsorted(v, 1, sorter=[0]),
    ],
    ("select", "TypeError"): [lambda: la.select([v], [v])],
    ("select", "ValueError"): [lambda: la.select([], []), lambda: la.select([v > 1], [])],
    ("shuffle", "IndexError"): [lambda: la.shuffle(v, [[9]], 0)],
    ("shuffle", "ValueError"): [lambda: la.shuffle(v, [1], 0)],
    ("sliding_window_view", "ValueError"): [
        lambda: la.sliding_window_view(m, 2), lambda: la.sliding_window_view(v, 7),
        lambda: la.sliding_window_view(v, -1),
    ],
    ("sort", "TypeError"): [lambda: la.sort(np.zeros(2, "i4,i4"), descending=True)],
    ("split", "ValueError"): [lambda: la.split(v, 4)],
    ("squeeze", "ValueError"): [lambda: la.squeeze(v, 0)],
    ("stack", "TypeError"): [lambda: la.stack(3)],
    ("stack", "ValueError"): [
        lambda: la.stack([]), lambda: la.stack([v, m]),
        lambda: la.stack([v[v > 1]], allow_unknown_chunksizes=False),
    ],
    ("stats.f_oneway", "TypeError"): [lambda: la.stats.f_oneway(v)],
    ("stats.kurtosis", "NotImplementedError"): [lambda: la.stats.kurtosis(v, nan_policy="omit")],
    ("stats.kurtosistest", "NotImplementedError"): [
        lambda: la.stats.kurtosistest(v, nan_policy="omit"),
    ],
    ("stats.kurtosistest", "ValueError"): [lambda: la.stats.kurtosistest(v[:3])],
    ("stats.moment", "NotImplementedError"): [lambda: la.stats.moment(v, nan_policy="omit")],
    ("stats.moment", "ValueError"): [lambda: la.stats.moment(v, 1.5)],
    ("stats.normaltest", "NotImplementedError"): [
        lambda: la.stats.normaltest(v, nan_policy="omit"),
    ],
    ("stats.normaltest", "ValueError"): [lambda: la.stats.normaltest(v)],
    ("stats.chisquare", "ValueError"): [lambda: la.stats.chisquare(v, v + 1).pvalue.compute()],
    ("stats.power_divergence", "ValueError"): [lambda: la.stats.power_divergence(v, lambda_="x")],
    ("stats.skew", "NotImplementedError"): [lambda: la.stats.skew(v, nan_policy="omit")],
    ("stats.skewtest", "NotImplementedError"): [lambda: la.stats.skewtest(v, nan_policy="omit")],
    ("stats.skewtest", "ValueError"): [lambda: la.stats.skewtest(v)],
    ("stats.ttest_1samp", "NotImplementedError"): [
        lambda: la.stats.ttest_1samp(v, 0, nan_policy="omit"),
    ],
    ("stats.ttest_rel", "NotImplementedError"): [
        lambda: la.stats.ttest_rel(v, v, nan_policy="omit"),
    ],
    ("stats.ttest_rel", "ValueError"): [lambda: la.stats.ttest_rel(v, v[:2])],
    ("std", "ValueError"): [lambda: la.std(v, ddof=1, correction=1)],
    ("store", "SerializationError"): [lambda: la.store(v, np.zeros(6), scheduler="processes")],
    ("store", "ValueError"): [lambda: la.store([v], [])],
    ("take", "IndexError"): [lambda: la.take(v, 9), lambda: la.take(v[:0], 0, mode="wrap")],
    ("take", "ValueError"): [lambda: la.take(v, 0, mode="last")],
    ("take_along_axis", "IndexError"): [
        lambda: la.take_along_axis(v, v, 0),
        lambda: la.take_along_axis(m, np.zeros((3, 3), int), 1),
    ],
    ("take_along_axis", "ValueError"): [
        lambda: la.take_along_axis(m, [0], 0), lambda: la.take_along_axis(m, [[0]], None),
    ],
    ("tensordot", "ValueError"): [
        lambda: la.tensordot(m, m, 1), lambda: la.tensordot(m, m, ([0, 0], [0, 0])),
    ],
    ("tile", "ValueError"): [lambda: la.tile(v, -1)],
    ("to_hdf5", "ImportError"): [lambda: without("h5py", lambda: la.to_hdf5('a.h5', 'x', v))],
    ("to_hdf5", "TypeError"): [lambda: [la.to_hdf5("b.h5", "x", y) for y in (v, m)]],
    ("to_hdf5", "ValueError"): [lambda: la.to_hdf5("a.h5")],
    ("to_zarr", "ImportError"): [lambda: without("zarr", lambda: la.to_zarr(v, "a"))],
    ("to_zarr", "ValueError"): [lambda: la.to_zarr(v, "a.zarr", region=(slice(0, 2),))],
    ("topk", "ValueError"): [lambda: la.topk(v, 0)],
    ("trace", "ValueError"): [lambda: la.trace(v), lambda: la.trace(m, 0, 1, 1)],
    ("tri", "ValueError"): [lambda: la.tri(-1)],
    ("tril", "ValueError"): [lambda: la.tril(s)],
    ("tril_indices_from", "ValueError"): [lambda: la.tril_indices_from(v)],
    ("trim_zeros", "ValueError"): [lambda: la.trim_zeros(v, "x")],
    ("triu", "ValueError"): [lambda: la.triu(s)],
    ("triu_indices_from", "ValueError"): [lambda: la.triu_indices_from(v)],
    ("unify_chunks", "ValueError"): [
        lambda: la.unify_chunks(v), lambda: la.unify_chunks(v, "ij"),
        lambda: la.unify_chunks(v, "i", m, "ij"),
    ],
    ("unpackbits", "ValueError"): [lambda: la.unpackbits(np.zeros(1, "u1"), count=-9)],
    ("unstack", "ValueError"): [lambda: la.unstack(s)],
    ("vander", "ValueError"): [lambda: la.vander(m)],
    ("var", "ValueError"): [lambda: la.var(v, ddof=1, correction=1)],
    ("vdot", "ValueError"): [lambda: la.vdot(v, m[:1])],
    ("vecdot", "ValueError"): [lambda: la.vecdot(s, v), lambda: la.vecdot(v, m)],
    ("vecmat", "TypeError"): [lambda: la.vecmat(v[:2], m, out=np.ones(3))],
    ("vecmat", "ValueError"): [lambda: la.vecmat(s, v), lambda: la.vecmat(v, m)],
    ("vsplit", "ValueError"): [lambda: la.vsplit(v, 1), lambda: la.vsplit(m, 4)],
    ("vstack", "TypeError"): [lambda: la.vstack(3)],
    ("vstack", "ValueError"): [lambda: la.vstack([]), lambda: la.vstack([m, m[None, :1, :1]])],
    ("where", "ValueError"): [lambda: la.where(v > 1, 2)],
    ("zeros", "ValueError"): [
        lambda: la.zeros(-1), lambda: la.zeros(3, order="X"), lambda: la.zeros(3, device="gpu"),
    ],
}


def of_transform(name, *args):
    transform = getattr(la.fft, name)
    return [lambda: transform(m, *args), lambda: transform(m, norm="x")]


CASES |= {
    (f"fft.{name}", "ValueError"): of_transform(name, *args)
    for args, names in [
        ((0,), "fft rfft ifft irfft hfft ihfft"), (((1,),), "fft2 rfft2 ifft2 irfft2"),
        (((1, 0), (0, 1)), "fftn rfftn ifftn irfftn"),
    ]
    for name in names.split()
}


def functions():
    """Return all public functions and methods by name, and classes whose making may raise."""
    found = {name: getattr(la, name) for name in by_name(PUBLIC)}
    for module in la.linalg, la.random, la.fft, la.ma, la.stats, la.overlap:
        own = module.__name__.rpartition(".")[2]
        for name in getattr(module, "__all__", dir(module)):
            thing = getattr(module, name)
            if name[0] != "_" and str(getattr(thing, "__module__", "")).startswith(module.__name__):
                found[f"{own}.{name}"] = thing
    for cls in la.Array, la.ma.MaskedArray, la.random.Generator:
        for name, method in inspect.getmembers_static(cls):
            if name[0] != "_":
                found[f"{cls.__name__}.{name}"] = getattr(method, "fget", method)
    return found


def named():
    """Return those with their own names: what has two is here once."""
    found = {}
    for name, thing in functions().items():
        function = inspect.unwrap(thing) if callable(thing) else thing
        if inspect.isfunction(function) or inspect.isclass(function):
            path, _, _ = name.rpartition(".")
            found.setdefault(function, f"{path}.{function.__name__}".lstrip("."))
    return found


def documented(function):
    """Return the names of the errors in a docstring."""
    doc = inspect.cleandoc(function.__doc__ or "")
    section = re.search(r"^Raises\n------\n(.*?)(?=^\S+\n---|\Z)", doc, re.DOTALL | re.MULTILINE)
    return re.findall(r"^(\w+)$", section[1], re.MULTILINE) if section else []


SAID = {(name, error) for function, name in named().items() for error in documented(function)}


def error_called(name):
    for place in builtins, np.linalg, np.exceptions, np.ma, lazyflow:
        if hasattr(place, name):
            return getattr(place, name)
    raise AssertionError(f"no error has the name {name}")


def test_there_is_a_call_for_each_error_that_is_documented():
    assert SAID - set(CASES) == set()
    assert set(CASES) - SAID == set()


@pytest.mark.parametrize(("name", "error"), sorted(SAID & set(CASES)))
def test_what_is_documented_is_raised(name, error, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = CASES[name, error]
    words = WORDS.get((name, error), [""] * len(calls))
    for call, each in zip(calls, words, strict=True):
        with pytest.raises(error_called(error)) as found, np.errstate(all="ignore"):
            call()
        assert each in str(found.value)


def test_words_are_those_of_documented_errors():
    assert set(WORDS) - SAID == set()


def raised_by(function):
    """Return the names of the errors that the code of a function itself raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    errors = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
    calls = [error.func if isinstance(error, ast.Call) else error for error in errors]
    return {ast.unparse(call).rpartition(".")[2] for call in calls} - {"SizesNeeded"}


def test_functions_document_what_they_raise():
    found = {}
    for function, name in named().items():
        if inspect.isfunction(function) and function.__code__.co_name == function.__name__:
            missing = raised_by(function) - set(documented(function))
            if missing:
                found[name] = missing
    assert found == {}
