"""The layout of arrays: their bytes as another type, and chunks that several of them share.

`view_as` sees the bytes of each block; if the chunks of the last axis do not hold whole elements of
the new type, the axis becomes one chunk. A write to the view goes back to the array, as in NumPy.
There is one way to rechunk (nodes/rechunking.py), so dask's ``method=`` and ``threshold=`` are
accepted and change nothing. `unify_chunks` cuts wherever one of the arrays is cut, however many
chunks that gives.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from lazyflow.array.aliases import seen
from lazyflow.array.chunks import by_axis, in_steps, normalize_chunks
from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    ArrayLike,
    ChunksLike,
    as_array,
    changes_nothing,
    check_order,
)
from lazyflow.array.nodes import elementwise, rechunking
from lazyflow.array.nodes.align import union
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.user_calls import PerBlock
from lazyflow.errors import LazyflowWarning
from lazyflow.graph.task import users_depth


def view_as(x: Array, dtype: Any = None, order: str = "C") -> Array:
    """Return the bytes of the elements as another type; the length of the last axis adapts."""
    if dtype is None:
        return x
    if order == "F":
        return view_as(x.transpose(), dtype).transpose()
    check_order(order, ("C",))

    def put(base: Array, new: Array) -> None:
        base._expr = _viewed(new, base.dtype)

    return cast(Array, seen(x, _viewed(x, dtype), lambda x: x.view(dtype), put))


def _viewed(x: Array, dtype: Any) -> Expr:
    dtype = np.dtype(dtype)
    if not dtype.itemsize:  # "V" is as many bytes as there are; else it raises
        dtype = np.empty(1, x.dtype).view(dtype).dtype
    if dtype.hasobject or x.dtype.hasobject:
        raise TypeError("Cannot change data-type for array of references.")
    if dtype.itemsize == x.itemsize:
        return elementwise.function(Bits(dtype), (x.expr,), dtype)
    if not x.ndim:
        raise ValueError(
            "Changing the dtype of a 0d array is only supported if the itemsize is unchanged"
        )
    resolve_lengths(x)
    if not dtype.itemsize or x.shape[-1] * x.itemsize % dtype.itemsize:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in "
            "bytes of the last axis of the array."
        )
    if any(n * x.itemsize % dtype.itemsize for n in x.chunks[-1]):
        x = x.rechunk({-1: -1})
    last = tuple([n * x.itemsize // dtype.itemsize for n in x.chunks[-1]])
    return PerBlock((x.expr,), Bits(dtype), dtype, (*x.chunks[:-1], last))


@dataclass(frozen=True)
class Bits:
    """Sees the bytes of a block as another type."""

    dtype: np.dtype[Any]
    __name__ = "view"

    def __call__(self, x: Any) -> Any:
        return np.asarray(x, order="C").view(self.dtype)


def rechunk(
    x: ArrayLike, chunks: ChunksLike = "auto", limit: Any = None, *, balance: bool = False,
    method: str | None = None, threshold: int | None = None, block_size_limit: Any = None,
) -> Array:
    """Return the same array in other chunks.

    Parameters
    ----------
    x
        An array.
    chunks, limit
        As of `normalize_chunks`; axes that are missing in a dict keep their chunks.
    balance
        Lengths of chunks are made equal, and a short last chunk becomes part of the others.
    block_size_limit
        dask's name for `limit`.
    method, threshold
        Change nothing (dask's keywords): each new block reads its parts in one step.

    Raises
    ------
    NotImplementedError
        `method` is neither "tasks" nor "p2p".
    ValueError
        `chunks` name an axis that is not there, or don't add up to its length.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.rechunk(la.ones((4, 6), chunks=2), {1: 3}).chunks
    ((2, 2), (3, 3))
    """
    x = as_array(x).with_known_sizes()
    if method not in (None, "tasks", "p2p"):
        raise NotImplementedError(f"rechunk() knows method='tasks' and 'p2p'; got {method!r}")
    if method == "p2p" or threshold is not None:
        changes_nothing("rechunk(method=, threshold=)", "there is one way to rechunk")
    limit = block_size_limit if limit is None else limit
    if isinstance(chunks, dict):
        by_axis(chunks, x.ndim, "rechunk() got chunks for")
        given = {
            axis % x.ndim if -x.ndim <= axis < 0 else axis: n
            for axis, n in chunks.items() if n is not None
        }
        chunks = {**dict(enumerate(x.chunks)), **given}
    elif isinstance(chunks, tuple | list) and len(chunks) == x.ndim:
        chunks = [x.chunks[k] if c is None else c for k, c in enumerate(chunks)]
    dtype = x.dtype if _automatic(chunks) else None
    new_chunks = normalize_chunks(chunks, x.shape, limit, dtype, x.chunks)
    if balance:
        new_chunks = tuple(map(_balanced, new_chunks))
    return Array(rechunking.rechunk(x.expr, new_chunks))


def _balanced(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return chunks of one length, one fewer where the shortest has half of the longest or less.

    >>> _balanced((100, 100, 20)), _balanced((4, 4, 4, 1)), _balanced((3, 3, 3))
    ((110, 110), (5, 5, 3), (3, 3, 3))
    """
    count = len(sizes) - (len(sizes) > 1 and min(sizes) <= max(sizes) / 2)
    found = in_steps(sum(sizes), max(-(-sum(sizes) // count), 1))
    if len(found) != count:  # one length does not give that many
        found = sizes
        warnings.warn(
            f"balance=True can't make {count} chunks of one length of {sum(sizes)} elements, so "
            f"chunks stay as they are. Try increasing the chunk size.",
            LazyflowWarning, stacklevel=users_depth(),
        )
    return found


def _automatic(chunks: Any) -> bool:
    if isinstance(chunks, dict):
        chunks = tuple(chunks.values())
    return isinstance(chunks, str) or (
        isinstance(chunks, tuple | list) and any(isinstance(each, str) for each in chunks)
    )


def unify_chunks(*args: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Return arrays with equal chunks along axes of the same name.

    Parameters
    ----------
    args
        An array, the names of its axes (letters of a text, or a tuple), the next array, ...
        A value whose names are None is passed through.

    Returns
    -------
    The chunks of each name, and the arrays.

    Raises
    ------
    ValueError
        An array has no names of its axes, or axes of one name have different lengths.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> chunks, (x, y) = la.unify_chunks(la.ones(6, chunks=3), "i", la.ones(6, chunks=2), "i")
    >>> chunks, y.chunks
    ({'i': (2, 1, 1, 2)}, ((2, 1, 1, 2),))
    """
    if len(args) % 2:
        raise ValueError(
            f"unify_chunks() takes pairs of an array and the names of its axes; got {len(args)} "
            "arguments"
        )
    pairs = list(zip(args[::2], args[1::2], strict=True))
    arrays = [as_array(x) if names is not None else x for x, names in pairs]
    resolve_lengths(*arrays)
    given: dict[Any, set[tuple[int, ...]]] = {}
    for x, (_, names) in zip(arrays, pairs, strict=True):
        if names is not None and len(names) != x.ndim:
            raise ValueError(f"an array with {x.ndim} axes got {len(names)} names: {names!r}")
        for sizes, name in zip(x.chunks if names else (), names or (), strict=True):
            given.setdefault(name, set()).add(sizes)
    chunks = {name: _one_of(name, several) for name, several in given.items()}
    rechunked = []
    for x, (_, names) in zip(arrays, pairs, strict=True):
        new_chunks = {
            k: chunks[name] for k, name in enumerate(names or ())
            if x.shape[k] == sum(chunks[name])
        }
        rechunked.append(x.rechunk(new_chunks) if new_chunks else x)
    return chunks, rechunked


def _one_of(name: Any, several: set[tuple[int, ...]]) -> tuple[int, ...]:
    long = {sizes for sizes in several if sum(sizes) != 1} or several
    lengths = set(map(sum, long))
    if len(lengths) > 1:
        raise ValueError(f"axes named {name!r} have lengths {sorted(lengths)}: they must be equal")
    return union(long)
