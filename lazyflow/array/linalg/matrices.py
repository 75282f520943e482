"""Matrices as the functions of this package take them: checked at the call, whole or cut anew.

NumPy's function is called with empty stacks of the same shapes and types first, so that its errors
come at the call and its dtypes are known. Stacks, matrices of one block, and small ones (16 times
``config.chunk_bytes``) are whole in a task; tasks of a stack share the threads of BLAS. Larger
square matrices are cut into about 16 panels or tiles along an axis at most, since n of them make
n**3 / 6 tasks. Matrices of other libraries are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from lazyflow import config
from lazyflow.array.chunks import together
from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import as_array
from lazyflow.array.functions.elementwise import conjugated
from lazyflow.array.nodes.blas_threads import share_of_threads
from lazyflow.array.nodes.block_kinds import check_is_numpy
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.users.gufuncs import apply_gufunc, parse

#: LAPACK on all cores is faster than tasks on matrices of up to so many automatic chunks: 128 MiB;
#: a guess.
_SMALL = 16

#: Tiles or panels along an axis at most; n of them make n**3 / 6 tasks. A guess.
_MOST = 16


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors in columns, singular values, right singular vectors in rows."""

    U: Array
    S: Array
    Vh: Array


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors in columns."""

    eigenvalues: Array
    eigenvectors: Array


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Array
    logabsdet: Array


def matrices(a: Any) -> Array:
    """Return an array of at least two axes, whose lengths are known.

    Raises
    ------
    LinAlgError
        It has fewer axes.
    """
    x = as_array(a)
    check_is_numpy(x.expr, "a function of linalg")
    resolve_lengths(x)
    if x.ndim < 2:
        raise LinAlgError(
            f"{x.ndim}-dimensional array given. Array must be at least two-dimensional"
        )
    return x


def square(a: Any) -> Array:
    """Return square matrices.

    Raises
    ------
    LinAlgError
        The matrices are not square.
    """
    x = matrices(a)
    if x.shape[-1] != x.shape[-2]:
        raise LinAlgError(
            f"Last 2 dimensions of the array must be square; got {x.shape[-2]} x {x.shape[-1]}"
        )
    return x


def adjoint(x: Array) -> Array:
    """Return the conjugate of matrices with rows and columns exchanged."""
    return (conjugated(x) if x.dtype.kind == "c" else x).mT


def trial(function: Callable[..., Any], *arrays: Array, **keywords: Any) -> list[np.ndarray]:
    """Return the results of a function for empty stacks of these matrices, as arrays.

    So NumPy's errors for wrong shapes and types come at the call, and its dtypes are known.
    """
    none = [np.empty((0, *x.shape[-2:]) if x.ndim > 1 else x.shape, x.dtype) for x in arrays]
    found = function(*none, **keywords)
    return [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]


def type_of(*arrays: Array) -> np.dtype[Any]:
    """Return the dtype that LAPACK computes in; raises TypeError if there is none."""
    return np.result_type(*[
        trial(np.linalg.qr, x if x.ndim > 1 else x[None])[0].dtype for x in arrays
    ])


class WithThreads:
    """A function of whole matrices that shares the threads of BLAS with `tasks` tasks."""

    def __init__(self, function: Callable[..., Any], tasks: int, keywords: dict[str, Any]) -> None:
        self.function, self.tasks, self.keywords = function, tasks, keywords
        self.__name__ = function.__name__.lstrip("_")

    def __call__(self, *blocks: Any) -> Any:
        with share_of_threads(self.tasks):
            return self.function(*blocks, **self.keywords)


def whole(
    function: Callable[..., Any], signature: str, *arrays: Array,
    sizes: dict[str, int] | None = None, dtypes: list[Any] | None = None, **keywords: Any,
) -> Any:
    """Return a function of matrices that are whole in a block, over stacks of them.

    sizes
        Lengths of core dimensions that only results have.
    dtypes
        Dtypes of the results, if `function` can't be tried on an empty stack.
    """
    if dtypes is None:
        dtypes = [x.dtype for x in trial(function, *arrays, **keywords)]
    tasks = max([int(np.prod(x.numblocks[:-2], dtype=int)) for x in arrays])
    found = apply_gufunc(
        WithThreads(function, tasks, keywords), signature, *arrays, output_dtypes=dtypes,
        output_sizes=sizes, allow_rechunk=True,
    )
    assert len(parse(signature).outputs) == len(dtypes)
    return found


def is_small(x: Array) -> bool:
    """Tell whether LAPACK is called with the whole matrix: stacks, one block, or little memory."""
    return x.ndim > 2 or x.npartitions == 1 or x.nbytes <= _SMALL * config.get("chunk_bytes")


def parts_of(x: Array) -> tuple[int, ...]:
    """Return chunks for both axes of a square matrix: few enough for panels."""
    sizes = max(x.chunks, key=len)
    return together(sizes, -(-sum(sizes) // _MOST))


def cut(x: Array, rows: tuple[int, ...], columns: tuple[int, ...], dtype: Any) -> Any:
    """Return the node of a matrix in these chunks, of a dtype."""
    return rechunk(x.astype(dtype, copy=False).expr, (rows, columns))
