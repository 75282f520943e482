"""QR, singular values, eigenvalues, Cholesky and LU factors.

QR factors of a tall matrix come from its blocks of rows in a tree (TSQR), in one pass over them.
Each block gives its Q and R. The R of up to eight blocks stand on each other and give another Q and
R, up to one R of all. Down the same tree go matrices as small as R: what a block's Q is multiplied
by. The last R may become its singular value decomposition, so that of the whole costs no pass more.

J. Demmel, L. Grigori, M. Hoemmen, J. Langou, "Communication-optimal parallel and sequential QR and
LU factorizations", SIAM J. Sci. Comput. 34 (2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from lazyflow import config
from lazyflow.array.chunks import Chunks, in_steps
from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.products import matmul
from lazyflow.array.linalg.matrices import (
    EigResult,
    QRResult,
    SVDResult,
    adjoint,
    cut,
    is_small,
    matrices,
    parts_of,
    square,
    trial,
    type_of,
    whole,
)
from lazyflow.array.linalg.tiles import (
    CholeskyTiles,
    LowerOfPanels,
    OrderOfPanels,
    Panels,
    UpperOfPanels,
)
from lazyflow.array.nodes.blas_threads import MANY, share_of_threads
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.random import default_rng
from lazyflow.graph.task import Task

# -- tall matrices: QR in a tree ---------------------------------------------------------------


# These three are guesses.
_TOGETHER = 8  # R factors that one task takes
_TILE = 2048  # rows of a block that are decomposed at once: they stay in the cache
_NARROW = 128  # columns up to which that is faster


def row_chunks(x: Array) -> tuple[int, ...] | None:
    """Return chunks of rows at least twice as high as wide; None: that leaves one.

    >>> import lazyflow.array as la
    >>> row_chunks(la.ones((12, 2), chunks=(3, 1))), row_chunks(la.ones((12, 8), chunks=3))
    ((6, 6), None)
    """
    rows, columns = x.shape
    least = max(2 * columns, 1)
    sizes = x.chunks[0]
    if len(sizes) == 1 and x.nbytes > 2 * config.get("chunk_bytes"):
        sizes = in_steps(rows, max(config.get("chunk_bytes") // (columns * x.itemsize), least))
    found = [0]
    for size in sizes:
        if found[-1] >= least:
            found.append(size)
        else:
            found[-1] += size
    if len(found) > 1 and found[-1] < least:
        found[-2:] = [sum(found[-2:])]
    return tuple(found) if len(found) > 1 else None


class TallFactors(Expr):
    """The tasks of a TSQR; `FactorOfTall` are its results.

    inputs
        A matrix in one column of several blocks, each at least as high as wide.
    finish
        Called with Q and R of the last step; returns the replacement of Q, and results.
    count
        How many it returns.
    with_q
        Whether Q of the blocks are wanted.
    """

    __slots__ = ("count", "finish", "with_q")
    called = "tsqr"

    def __init__(
        self, inputs: tuple[Expr, ...], finish: Any, count: int, with_q: bool
    ) -> None:
        super().__init__(inputs, inputs[0].dtype, ())
        self.finish = finish
        self.count = count
        self.with_q = with_q

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        self.results(low)  # a block of its own it has none
        return low.value(None)

    def results(self, low: MakesTasks) -> tuple[list[Task], list[Task]]:
        """Return the tasks of the blocks of Q, and those of the other results of `finish`."""
        found: tuple[list[Task], list[Task]] = low.shared(self, "results", self._results, low)
        return found

    def _results(self, low: MakesTasks) -> tuple[list[Task], list[Task]]:
        (x,) = self.inputs
        blocks = [low.block(x, (i, 0)) for i in range(x.numblocks[0])]
        if not self.with_q:
            factors = [low.task(r_factor, [block], self) for block in blocks]
            while len(factors) > _TOGETHER:
                factors = [low.task(r_factor, group, self) for group in _groups(factors)]
            last = named("tsqr", finished, self.finish)
            return [], low.parts(last, factors, self, self.count)[1:]
        pairs = [low.parts(qr_factors, [block], self, 2) for block in blocks]
        levels = [[q for q, _ in pairs]]
        factors = [r for _, r in pairs]
        while len(factors) > _TOGETHER:
            pairs = [low.parts(qr_factors, group, self, 2) for group in _groups(factors)]
            levels.append([q for q, _ in pairs])
            factors = [r for _, r in pairs]
        top, *results = low.parts(named("tsqr", finished, self.finish), factors, self, self.count)
        above, step = [top], len(factors)
        for level in reversed(levels):
            above = [
                low.task(times_part, [q, above[i // step], i % step], self)
                for i, q in enumerate(level)
            ]
            step = _TOGETHER
        return above, results


def _groups(tasks: list[Task]) -> list[list[Task]]:
    return [tasks[i:i + _TOGETHER] for i in range(0, len(tasks), _TOGETHER)]


class FactorOfTall(Expr):
    """One result of `TallFactors`: Q, in its blocks of rows, or a result of `finish`.

    which
        The number of the result; 0 is Q.
    """

    __slots__ = ("which",)
    called = "tsqr"

    def __init__(
        self, inputs: tuple[Expr, ...], which: int, dtype: np.dtype[Any], chunks: Chunks
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.which = which

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (steps,) = self.inputs
        assert isinstance(steps, TallFactors)
        blocks, results = steps.results(low)
        return results[self.which - 1] if self.which else blocks[index[0]]


def r_factor(*blocks: Any) -> Any:
    """Return the R factor of rows."""
    with share_of_threads(MANY):
        x = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        found = x[:0]
        for tile in _tiles(x):
            tile = np.concatenate([found, tile]) if len(found) else tile
            found = np.linalg.qr(tile, mode="r")
        return found


def qr_factors(*blocks: Any) -> tuple[Any, Any]:
    """Return the QR factors of rows."""
    with share_of_threads(MANY):
        tiles = _tiles(blocks[0] if len(blocks) == 1 else np.concatenate(blocks))
        pairs = [np.linalg.qr(tile) for tile in tiles]
        if len(pairs) == 1:
            q, r = pairs[0]
            return q, r
        inner, r = np.linalg.qr(np.concatenate([r for _, r in pairs]))
        rows = inner.reshape(len(pairs), -1, inner.shape[1])
        return np.concatenate([q @ each for (q, _), each in zip(pairs, rows, strict=True)]), r


def _tiles(x: Any) -> list[Any]:
    """Return parts of a block's rows, each at least as high as wide."""
    count = len(x) // _TILE if 0 < x.shape[1] <= _NARROW else 1
    return np.array_split(x, count) if count > 1 else [x]


def finished(finish: Any, *factors: Any) -> tuple[Any, ...]:
    """Return the results for the last R factors."""
    q, r = np.linalg.qr(np.concatenate(factors))
    found: tuple[Any, ...] = finish(q, r)
    return found


def times_part(q: Any, above: Any, number: int) -> Any:
    """Return Q of a block times its part of the Q factor above it in the tree."""
    n = q.shape[1]
    with share_of_threads(MANY):
        return q @ above[number * n:(number + 1) * n]


# -- what the last factors become -----------------------------------------------------------------


def as_they_are(q: Any, r: Any) -> tuple[Any, Any]:
    """Return QR factors."""
    return q, r


def thin_svd(x: Any, signed: bool) -> tuple[Any, Any, Any]:
    """Return U, S and Vh; `signed`: vectors of the smaller of U and Vh have sums above 0."""
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    if signed:
        sums = vh.sum(axis=1) if len(u) >= vh.shape[1] else u.sum(axis=0)
        signs = np.where(sums.real < 0, -1, 1).astype(s.dtype)
        u, vh = u * signs, vh * signs[:, None]
    return u, s, vh


def decomposed(signed: bool, q: Any, r: Any) -> tuple[Any, Any, Any]:
    """Return the left singular vectors, singular values and right singular vectors."""
    u, s, vh = thin_svd(r, signed)
    return q @ u, s, vh


#: By whether vectors are signed: one object each, so that equal decompositions are found to be.
DECOMPOSED = {signed: partial(decomposed, signed) for signed in (False, True)}


def only_values(q: Any, r: Any) -> tuple[Any, Any]:
    """Return the singular values."""
    return None, np.linalg.svd(r, compute_uv=False)


def tall(
    x: Array, rows: tuple[int, ...], finish: Any, results: Sequence[tuple[Any, tuple[int, ...]]],
    dtype: Any, with_q: bool = True,
) -> list[Array]:
    """Return Q, if it is wanted, and the results of a TSQR.

    results
        The dtype and shape of each.
    """
    n = x.shape[1]
    steps = TallFactors((cut(x, rows, (n,), dtype),), finish, len(results) + 1, with_q)
    made = [FactorOfTall((steps,), 0, np.dtype(dtype), (rows, (n,)))] if with_q else []
    made += [
        FactorOfTall((steps,), k, np.dtype(own), tuple([(length,) for length in shape]))
        for k, (own, shape) in enumerate(results, 1)
    ]
    return [Array(each) for each in made]


# -- QR ------------------------------------------------------------------------------------------


def qr(a: ArrayLike, mode: Literal["reduced", "complete", "r", "raw"] = "reduced") -> Any:
    """Return QR factors; parameters are those of ``np.linalg.qr``.

    A matrix at least four times as high as wide is read once, in blocks of rows (`tsqr`); of a
    matrix wider than high the first columns are decomposed (`sfqr`); any other, and each of a
    stack, is whole in one task. The signs of columns may differ from NumPy's.

    Parameters
    ----------
    a
        (..., M, N). K is the lesser of M and N.
    mode
        "reduced": Q (M, K) and R (K, N); "r": R alone; "complete" and "raw" as NumPy's, whole in a
        task.

    Raises
    ------
    LinAlgError
        The array has fewer than two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.random.default_rng(1).normal(size=(100, 3), chunks=30)
    >>> q, r = la.linalg.qr(x)
    >>> la.allclose(q @ r, x).compute(), la.allclose(q.T @ q, la.eye(3)).compute()
    (np.True_, np.True_)
    """
    x = matrices(a)
    types = trial(np.linalg.qr, x, mode=mode)
    rows = row_chunks(x) if x.ndim == 2 and x.size else None
    if mode in ("reduced", "r"):
        if rows is not None:
            return _of_rows(x, rows, types[0].dtype, mode)
        if x.ndim == 2 and x.shape[0] < x.shape[1] and x.numblocks[1] > 1:
            found = sfqr(x)
            return found if mode == "reduced" else found.R
    m, n = x.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    if mode == "raw":
        return whole(np.linalg.qr, "(m,n)->(n,m),(k)", x, sizes={"k": k}, mode=mode)
    if mode == "r":
        return whole(np.linalg.qr, "(m,n)->(k,n)", x, sizes={"k": k}, mode=mode)
    return QRResult(*whole(np.linalg.qr, "(m,n)->(m,k),(k,n)", x, sizes={"k": k}, mode=mode))


def _of_rows(x: Array, rows: tuple[int, ...], dtype: Any, mode: str) -> Any:
    n = x.shape[1]
    found = tall(x, rows, as_they_are, [(dtype, (n, n))], dtype, mode != "r")
    return found[0] if mode == "r" else QRResult(*found)


def tsqr(data: ArrayLike, compute_svd: bool = False, coerce_signs: bool = True) -> Any:
    """Return QR factors, or the singular value decomposition, of a tall matrix, by blocks of rows.

    Shapes: (M, N) to (M, N) and (N, N).

    Q of blocks and R of all are found in one pass, in a tree (Demmel, Grigori, Hoemmen, Langou,
    2012). Blocks of rows are joined until each is twice as high as wide. `coerce_signs` is that
    of `svd`.

    Raises
    ------
    LinAlgError
        The array has fewer than two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> q, r = la.linalg.tsqr(la.ones((10, 1), chunks=3))
    >>> abs(r).compute().round(3)
    array([[3.162]])
    """
    if compute_svd:
        return svd(data, coerce_signs=coerce_signs)
    return qr(data)


def sfqr(data: ArrayLike) -> QRResult:
    """Return QR factors of a matrix wider than high: those of its first columns, and Qᴴ times all.

    Shapes: (M, N) to (M, M) and (M, N).

    Raises
    ------
    LinAlgError
        The array has fewer than two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.random.default_rng(1).normal(size=(3, 50), chunks=(3, 10))
    >>> q, r = la.linalg.sfqr(x)
    >>> q.shape, r.chunks[1], la.allclose(q @ r, x).compute()
    ((3, 3), (10, 10, 10, 10, 10), np.True_)
    """
    x = matrices(data)
    dtype = type_of(x)
    sizes, first = x.chunks[1], x.shape[0]
    width = count = 0
    while width < min(first, x.shape[1]):
        width, count = width + sizes[count], count + 1
    q, r = qr(x[:, :width].rechunk(-1))
    if count == len(sizes):
        return QRResult(q, r)
    others = matmul(adjoint(q), x[:, width:].astype(dtype, copy=False))
    return QRResult(q, concatenate([r, others], axis=1).rechunk({0: -1}))


# -- singular values -----------------------------------------------------------------------------


def svd(
    a: ArrayLike, full_matrices: bool = False, compute_uv: bool = True, hermitian: bool = False,
    *, coerce_signs: bool = True,
) -> Any:
    """Return the singular value decomposition ``U @ diag(S) @ Vh``, the values in falling order.

    A matrix at least four times as high as wide is decomposed in the pass of its QR factors, a wide
    one by its adjoint; any other, and each of a stack, is whole in one task.

    Parameters
    ----------
    a
        (..., M, N). K is the lesser of M and N.
    full_matrices
        U and Vh are square, and the matrix is whole in a task. Unlike NumPy's, and like dask's,
        the default is U (..., M, K) and Vh (..., K, N); ``np.linalg.svd(x)`` keeps NumPy's.
    compute_uv
        False: return S alone, as `svdvals`.
    hermitian
        `a` is its own adjoint: LAPACK's faster function, whole in a task.
    coerce_signs
        The sum of each vector of the smaller of U and Vh gets a real part of at least 0, so signs
        do not depend on chunks and processors. Not for stacks, `hermitian` or `full_matrices`.

    Raises
    ------
    LinAlgError
        The array has fewer than two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.random.default_rng(1).normal(size=(100, 3), chunks=30)
    >>> u, s, vh = la.linalg.svd(x)
    >>> u.shape, la.allclose((u * s) @ vh, x).compute()
    ((100, 3), np.True_)
    """
    if not compute_uv:
        return _values(a, hermitian)
    x = matrices(a)
    options: dict[str, Any] = {"full_matrices": full_matrices, "hermitian": hermitian}
    types = [factor.dtype for factor in trial(np.linalg.svd, x, **options)]
    m, n = x.shape[-2:]
    k = min(m, n)
    rows = None
    if not (full_matrices or hermitian) and x.ndim == 2 and x.size:
        rows = row_chunks(x if m >= n else x.T)
    if rows is not None:
        long = x if m >= n else adjoint(x)
        u, s, vh = tall(
            long, rows, DECOMPOSED[coerce_signs], [(types[1], (k,)), (types[2], (k, k))],
            types[0],
        )
        if m < n:
            u, vh = adjoint(vh), adjoint(u)
        return SVDResult(u, s, vh)
    signature = "(m,n)->(m,m),(k),(n,n)" if full_matrices else "(m,n)->(m,k),(k),(k,n)"
    if full_matrices or hermitian or x.ndim > 2:
        return SVDResult(*whole(np.linalg.svd, signature, x, sizes={"k": k}, **options))
    return SVDResult(
        *whole(thin_svd, signature, x, sizes={"k": k}, dtypes=types, signed=coerce_signs)
    )


def full_svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """Return ``np.linalg.svd(a, ...)``, with NumPy's defaults."""
    return svd(a, full_matrices, compute_uv, hermitian, coerce_signs=False)


def svdvals(x: ArrayLike, /) -> Array:
    """Return the singular values of matrices, in falling order.

    Shapes: (..., M, N) to (..., min(M, N)).

    Raises
    ------
    LinAlgError
        The array has fewer than two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.svdvals(la.asarray([[3.0, 0], [0, 4]])).compute()
    array([4., 3.])
    """
    return _values(x, False)


def _values(a: Any, hermitian: bool) -> Array:
    x = matrices(a)
    options: dict[str, Any] = {"compute_uv": False, "hermitian": hermitian}
    (found,) = trial(np.linalg.svd, x, **options)
    m, n = x.shape[-2:]
    long = x if m >= n else x.mT
    rows = row_chunks(long) if x.ndim == 2 and x.size and not hermitian else None
    if rows is None:
        return whole(np.linalg.svd, "(m,n)->(k)", x, sizes={"k": min(m, n)}, **options)
    results = [(found.dtype, (min(m, n),))]
    return tall(long, rows, only_values, results, type_of(x), False)[0]


def compression_level(n: int, q: int, n_oversamples: int = 10, min_subspace_size: int = 20) -> int:
    """Return how many random vectors `svd_compressed` takes for a rank, of n columns.

    >>> from lazyflow.array.linalg import compression_level
    >>> compression_level(100, 5), compression_level(100, 30), compression_level(15, 30)
    (20, 40, 15)
    """
    return min(max(min_subspace_size, q + n_oversamples), n)


def compression_matrix(
    data: ArrayLike, q: int, iterator: Literal["power", "QR"] = "power", n_power_iter: int = 0,
    n_oversamples: int = 10, seed: Any = None, compute: bool = False,
) -> Array:
    """Return (K, M) with orthonormal rows, which nearly span the columns of `data`.

    Parameters are those of `svd_compressed`; `q` is its `k`.

    Raises
    ------
    LinAlgError
        An array has fewer than two axes.
    ValueError
        `iterator` is neither "power" nor "QR".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.random.default_rng(1).normal(size=(200, 50), chunks=60)
    >>> la.linalg.compression_matrix(x, 5, seed=0).shape
    (20, 200)
    """
    if iterator not in ("power", "QR"):
        raise ValueError(f"Iterator {iterator!r} not valid, must be one of 'power', 'QR'")
    x = matrices(data)
    level = compression_level(min(x.shape), q, n_oversamples)
    dtype = type_of(x)
    x = x.astype(dtype, copy=False)
    shape = x.shape[1], level
    random = default_rng(seed)
    vectors = random.standard_normal(shape, chunks=(x.chunks[1], level))
    if dtype.kind == "c":
        vectors = vectors + 1j * random.standard_normal(shape, chunks=(x.chunks[1], level))
    y = x @ vectors.astype(dtype)
    for _ in range(n_power_iter):
        if compute:
            y = y.persist()
        if iterator == "QR":  # rounding would hide the lesser directions after some products
            y, _ = qr(y)
            y, _ = qr(adjoint(x) @ y)
            y = x @ y
        else:
            y = x @ (adjoint(x) @ y)
    if compute:
        y = y.persist()
    return adjoint(qr(y)[0])


def svd_compressed(
    a: ArrayLike, k: int, iterator: Literal["power", "QR"] = "power", n_power_iter: int = 0,
    n_oversamples: int = 10, seed: Any = None, compute: bool = False, coerce_signs: bool = True,
) -> SVDResult:
    """Return nearly the first `k` singular values and vectors, by products with random vectors.

    Each product reads the matrix once, in any chunks. The error is small where singular values fall
    quickly; power iterations make them fall more quickly (Halko, Martinsson, Tropp, 2011).

    Parameters
    ----------
    a
        (M, N).
    k
        How many.
    iterator
        "QR" makes vectors orthonormal in each power iteration: more exact for several of them.
    n_power_iter
        Power iterations, of two products each.
    n_oversamples
        Random vectors beyond `k`; at least 20 are taken in all.
    seed
        As of `la.random.default_rng`: the same in any chunks.
    compute
        Persist the result of each product, which starts computing.
    coerce_signs
        As of `svd`.

    Returns
    -------
    U (M, k), S (k,), Vh (k, N)

    Raises
    ------
    ValueError
        The array doesn't have exactly two axes, or `iterator` is neither "power" nor "QR".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.outer(la.arange(300.0, chunks=100), la.ones(40, chunks=20))
    >>> u, s, vh = la.linalg.svd_compressed(x, 1, seed=0)
    >>> la.allclose((u * s) @ vh, x).compute()
    np.True_
    """
    x = as_array(a)
    if x.ndim != 2:
        raise ValueError(f"svd_compressed() takes a matrix; got an array of {x.ndim} axes")
    basis = compression_matrix(
        x, k, iterator, n_power_iter, n_oversamples, seed, compute=compute
    )
    small = basis @ x.astype(basis.dtype, copy=False)
    if compute:
        small = small.persist()
    u, s, vh = svd(small, coerce_signs=coerce_signs)
    return SVDResult(adjoint(basis) @ u[:, :k], s[:k], vh[:k])


# -- eigenvalues ---------------------------------------------------------------------------------


def eigh(a: ArrayLike, UPLO: Literal["L", "U"] = "L") -> EigResult:
    """Return eigenvalues, in rising order, and eigenvectors of matrices equal to their adjoints.

    Shapes: (..., M, M) to (..., M) and (..., M, M).

    Each matrix is whole in a task: LAPACK's method has no blocks. For covariances of a tall matrix,
    `svd` of the matrix itself works by blocks: the eigenvalues are the squares of the singular
    values, the eigenvectors are in Vh.

    Raises
    ------
    LinAlgError
        The matrices are not square.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> values, vectors = la.linalg.eigh(la.asarray([[2.0, 0], [0, 1]]))
    >>> values.compute()
    array([1., 2.])
    """
    return EigResult(*whole(np.linalg.eigh, "(m,m)->(m),(m,m)", square(a), UPLO=UPLO))


def eigvalsh(a: ArrayLike, UPLO: Literal["L", "U"] = "L") -> Array:
    """Return the eigenvalues of matrices equal to their adjoints, each whole in a task.

    Shapes: (..., M, M) to (..., M).

    Raises
    ------
    LinAlgError
        The matrices are not square.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.eigvalsh(la.asarray([[0.0, 1], [1, 0]])).compute().round(9)
    array([-1.,  1.])
    """
    found: Array = whole(np.linalg.eigvalsh, "(m,m)->(m)", square(a), UPLO=UPLO)
    return found


def _complex_eig(a: Any) -> tuple[Any, Any]:
    values, vectors = np.linalg.eig(a)
    dtype = np.result_type(values.dtype, np.complex64)
    return values.astype(dtype), vectors.astype(dtype)


def _complex_eigvals(a: Any) -> Any:
    values = np.linalg.eigvals(a)
    return values.astype(np.result_type(values.dtype, np.complex64))


def eig(a: ArrayLike) -> EigResult:
    """Return eigenvalues and right eigenvectors of square matrices, each whole in a task.

    Shapes: (..., M, M) to (..., M) and (..., M, M).

    Both are always complex; NumPy's are real if all imaginary parts are 0.

    Raises
    ------
    LinAlgError
        The matrices are not square.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.eig(la.asarray([[0.0, 1], [-1, 0]])).eigenvalues.compute()
    array([0.+1.j, 0.-1.j])
    """
    return EigResult(*whole(_complex_eig, "(m,m)->(m),(m,m)", square(a)))


def eigvals(a: ArrayLike) -> Array:
    """Return the eigenvalues of square matrices, each whole in a task; always complex.

    Shapes: (..., M, M) to (..., M).

    Raises
    ------
    LinAlgError
        The matrices are not square.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.eigvals(la.asarray([[2.0, 1], [0, 3]])).compute()
    array([2.+0.j, 3.+0.j])
    """
    found: Array = whole(_complex_eigvals, "(m,m)->(m)", square(a))
    return found


# -- Cholesky and LU -----------------------------------------------------------------------------


def cholesky(a: ArrayLike, /, *, upper: bool = False, lower: bool | None = None) -> Array:
    """Return the Cholesky factor of positive definite matrices, by tiles if they are large.

    Parameters
    ----------
    a
        (..., M, M). Only the lower triangle is read; the upper one with `upper`.
    upper
        The result is the upper factor U of Uᴴ U, else the lower factor L of L Lᴴ.
    lower
        dask's name for the opposite of `upper`. dask's default is the upper factor, this one's the
        lower, as in NumPy.

    Raises
    ------
    LinAlgError
        When computed: the matrix is not positive definite.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.linalg.cholesky(la.asarray([[4.0, 2], [2, 5]])).compute()
    array([[2., 0.],
           [1., 2.]])
    """
    x = square(a)
    upper = upper if lower is None else not lower
    if is_small(x):
        # of the other triangle, which older versions of NumPy cannot be asked for
        found: Array = whole(np.linalg.cholesky, "(m,m)->(m,m)", adjoint(x) if upper else x)
    else:
        sizes = parts_of(x)
        node = cut(adjoint(x) if upper else x, sizes, sizes, type_of(x))
        found = Array(CholeskyTiles((node,)))
    return adjoint(found) if upper else found


def panels(x: Array, dtype: Any) -> Panels:
    """Return the LU factors of a square matrix in panels of columns."""
    return Panels((cut(x, (x.shape[0],), parts_of(x), dtype),))


def lu(a: ArrayLike) -> tuple[Array, Array, Array]:
    """Return P, L and U of ``a == P @ L @ U``: a permutation and triangles, as scipy.linalg.lu.

    Shapes: (M, N) to (M, M), (M, K) and (K, N), with K = min(M, N).

    Pivots are searched in whole columns, so it is as stable as LAPACK's; dask searches them in the
    diagonal block only. A large square matrix is cut into panels of columns.

    Raises
    ------
    LinAlgError
        The array has fewer than two axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> p, l, u = la.linalg.lu(la.asarray([[1.0, 2], [4, 4]]))
    >>> l.compute(), u.compute()
    (array([[1.  , 0.  ],
           [0.25, 1.  ]]), array([[4., 4.],
           [0., 1.]]))
    """
    x = matrices(a)
    dtype = type_of(x)
    m, n = x.shape[-2:]
    if m != n or is_small(x):
        found: tuple[Array, Array, Array] = whole(
            _scipy_lu, "(m,n)->(m,m),(m,k),(k,n)", x, sizes={"k": min(m, n)},
            dtypes=[dtype.type(0).real.dtype, dtype, dtype],
        )
        return found
    made = panels(x, dtype)
    return (
        Array(OrderOfPanels((made,))), Array(LowerOfPanels((made,))), Array(UpperOfPanels((made,)))
    )


def _scipy_lu(a: Any) -> Any:
    from scipy.linalg import lu

    if a.ndim == 2:
        return lu(a)
    made = [lu(each) for each in a.reshape(-1, *a.shape[-2:])]
    return tuple([
        np.stack(each).reshape(*a.shape[:-2], *each[0].shape) for each in zip(*made, strict=True)
    ])
