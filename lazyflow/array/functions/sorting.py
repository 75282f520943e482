"""Sorts along an axis, the largest elements, `searchsorted`, and elements chosen by index.

Sorts and partitions put their axis into one chunk. If the axis has several chunks and takes more
than eight times ``config.chunk_bytes``, or an eighth of a memory limit, many tasks sort it
(nodes/sample_sort.py); `partition` then sorts it fully. One task sorts objects, records by
``order=``, and the keys of `lexsort` whatever their length. The descending order is the ascending
one of negated or inverted elements, so that NaN still comes last.

`topk` is a tree reduction, whose parts are the best `k` elements; where sixteen such parts exceed a
quarter of the memory limit, it sorts. `searchsorted` reads the sorted array as one block, or, if
that takes more than a quarter of the limit, as several whose counts add up.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.chunks import in_steps
from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    MISSING,
    ArrayLike,
    as_1d,
    as_array,
    as_result,
    broadcast_node,
    operand_as,
    operands,
)
from lazyflow.array.functions.elementwise import astype
from lazyflow.array.functions.indexing.taking import check_mode, take
from lazyflow.array.functions.manipulation.shaping import flat
from lazyflow.array.functions.one_chunk import NumpyOp, along_axis
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import (
    TreeReduction,
    axis_of,
    parts_at_once,
    tree,
    whole_along,
)
from lazyflow.array.nodes.sample_sort import is_long, run_dtype, sample_sorted
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.user_calls import PerBlock

# Both are guessed.
_MOST = 4  # a sorted array is one block if it takes at most a memory limit over this
_PART = 16  # a larger one is cut into parts of a limit over this; each is searched for all values

# -- by index ----------------------------------------------------------------------------------


def choose(a: ArrayLike, choices: Any, out: Array | None = None, mode: str = "raise") -> Array:
    """Return for each element of `a` that of the choice whose number it is.

    Parameters are those of ``np.choose``.

    Raises
    ------
    TypeError
        `a` holds no whole numbers.
    ValueError
        `mode` is none of "raise", "wrap" and "clip".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.choose(la.from_array([0, 1, 1], chunks=2), [[1, 2, 3], [10, 20, 30]]).compute()
    array([ 1, 20, 30])
    """
    check_mode(mode)
    if isinstance(choices, Array):
        choices = list(choices)
    given, dtype = operands(choices)
    for x in given:
        if isinstance(x, Expr) and not np.can_cast(x.dtype, dtype, "safe"):
            raise TypeError(
                f"Cannot cast array data from {x.dtype!r} to {dtype!r} according to the rule 'safe'"
            )
    arrays = [as_array(a), *[Array(operand_as(x, dtype)) for x in given]]
    if arrays[0].dtype.kind not in "iub":
        np.choose(np.zeros(1, arrays[0].dtype), [0])  # refuses, in its words
    resolve_lengths(*arrays)
    made = elementwise.function(
        _choose, tuple([x.expr for x in arrays]), dtype, mode=mode
    )
    return as_result(made, out, "unsafe")


def _choose(a: Any, *choices: Any, mode: str) -> Any:
    where = np.broadcast_arrays(a, *choices)
    out = np.empty(where[0].shape, choices[0].dtype)
    if mode == "raise" and a.size and (a.min() < 0 or a.max() >= len(choices)):
        raise ValueError("invalid entry in choice array")
    at = where[0] % len(choices) if mode == "wrap" else where[0].clip(0, len(choices) - 1)
    for k, each in enumerate(where[1:]):
        np.copyto(out, each, where=at == k)
    return out


def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Array:
    """Return elements by indices along an axis that are others for each row.

    Raises
    ------
    IndexError
        `indices` are no whole numbers, or lengths beside the axis don't fit.
    ValueError
        The numbers of axes differ, or without an axis `indices` have several.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.from_array([[3, 1, 2], [9, 7, 8]], chunks=(1, 3))
    >>> la.take_along_axis(x, x.argsort(axis=1), axis=1).compute()
    array([[1, 2, 3],
           [7, 8, 9]])
    """
    x, at = as_array(arr), as_array(indices)
    resolve_lengths(x, at)
    if at.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if at.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        x, axis = take(x, np.arange(x.size)), 0
    if at.ndim != x.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = axis_of(axis, x.ndim)
    beside = [operand.shape[:axis] + operand.shape[axis + 1:] for operand in (x, at)]
    try:
        rest = np.broadcast_shapes(*beside)
    except ValueError as error:  # NumPy's is one of places
        raise IndexError(
            f"`indices` of shape {at.shape} don't broadcast with `arr` of shape {x.shape}: "
            f"beside axis {axis} lengths must be equal or 1"
        ) from error
    nodes = [
        broadcast_node(operand.expr, (*rest[:axis], operand.shape[axis], *rest[axis:]))
        for operand in (x, at)
    ]
    chunks = tuple([
        (nodes[0].shape[k],) if k == axis else sizes for k, sizes in enumerate(nodes[0].chunks)
    ])
    own = (*chunks[:axis], nodes[1].chunks[axis], *chunks[axis + 1:])
    inputs = rechunk(nodes[0], chunks), rechunk(nodes[1], own)
    return Array(PerBlock(inputs, NumpyOp(np.take_along_axis, (("axis", axis),)), x.dtype, own))


def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
) -> Array:
    """Return the indices at which elements would go into a sorted array.

    It becomes one block; of one that takes much of the memory limit, parts are searched one after
    the other.

    Raises
    ------
    ValueError
        `side` is neither "left" nor "right", `a` has no axis, or `sorter` another length.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.searchsorted(la.asarray([1, 3, 5]), la.from_array([2, 5, 9], chunks=2)).compute()
    array([1, 2, 3])
    """
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    x, value = as_array(a), as_array(v)
    resolve_lengths(x)
    if x.ndim != 1:
        raise ValueError("object of too small depth for desired array")
    if sorter is not None:
        if as_node(sorter).shape != x.shape:
            raise ValueError("sorter.size must equal number of elements in array")
        x = take(x, sorter)
    node, place = value.expr, np.dtype(np.intp)
    op, places = NumpyOp(np.searchsorted, (("side", side),)), None
    for part in parts_to_search(x):  # each adds to one before: all would be held
        given = (part, node, *([] if places is None else [places]))
        func = op if places is None else named("searchsorted", _places_added, side)
        places = PerBlock(given, func, place, value.chunks)
    assert places is not None
    return Array(places)


def parts_to_search(x: Array) -> list[Expr]:
    """Return an array of one axis as one block; if it takes much of the memory limit, as several.

    Raises
    ------
    SizesNeeded
        Its lengths are not known, and no limit is set.
    """
    limit, (n,), size = config.memory_limit(), x.shape, max(x.dtype.itemsize, 1)
    if limit is None or x.dtype.hasobject or (n is not None and n * size <= limit // _MOST):
        return [rechunk(x.expr, (x.shape,))]
    if n is None:
        return [x.expr] if x.numblocks == (1,) else [each.expr for each in x.blocks]
    parts = in_steps(n, max(limit // _PART // size, 1))
    whole, edges = Array(rechunk(x.expr, (parts,))), np.cumsum([0, *parts])
    return [whole[start:stop].expr for start, stop in pairwise(edges.tolist())]


def _places_added(side: Any, a: Any, v: Any, before: Any) -> Any:
    return before + np.searchsorted(a, v, side)


# -- sorts ------------------------------------------------------------------------------------


def _sorted(func: Any, a: Any, axis: Any, dtype: Any, **keywords: Any) -> Array:
    resolve_lengths(a)
    if axis is None:
        a, axis = flat(a), 0
    node = as_node(a)
    axis = axis_of(axis, node.ndim)
    keywords["axis"] = axis
    if isinstance(keywords["order"], list):
        keywords["order"] = tuple(keywords["order"])
    harmless = {**keywords, "kth": 0} if "kth" in keywords else keywords
    func(np.empty((1,) * node.ndim, node.dtype), **harmless)  # NumPy's checks
    if is_long(node, axis) and keywords["order"] is None:
        kind = None if "kth" in keywords else "stable" if keywords["stable"] else keywords["kind"]
        return Array(sample_sorted(node, axis, kind, dtype is not None))
    op = NumpyOp(func, tuple(keywords.items()))
    return Array(along_axis(op, node, axis, dtype or node.dtype))


def _upside_down(a: Any) -> tuple[Array, Any]:
    """Return an array whose ascending order is the descending one of another, and the way back.

    NaN and NaT stay the last, and equal elements in their order, as with NumPy.
    """
    x = as_array(a)
    if x.dtype.kind in "fc":
        return -x, np.negative
    if x.dtype.kind in "mM":  # NaT is the least integer
        return ~x.view("i8"), lambda y: (~y).view(x.dtype)
    if x.dtype.kind in "biu":
        return ~x, np.invert
    raise TypeError(
        f"elements of {x.dtype} have no descending order yet; reverse the ascending one: "
        "la.flip(la.sort(x, axis), axis)"
    )


def sort(
    a: ArrayLike, axis: int | None = -1, kind: str | None = None,
    order: str | Sequence[str] | None = None, *, stable: bool | None = None,
    descending: Any = MISSING,
) -> Array:
    """Return the elements sorted along an axis.

    Parameters are those of ``np.sort``; in descending order, too, NaN comes last. The axis becomes
    one chunk; one of more than eight times ``config.chunk_bytes`` stays in chunks, which many tasks
    sort. Objects, and records by `order`, are always sorted by one task.

    Raises
    ------
    TypeError
        ``descending=True``, and the elements are records or texts.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.sort(la.from_array([30, 10, 20], chunks=2)).compute()
    array([10, 20, 30])
    >>> la.sort(la.from_array([30, 10, 20], chunks=2), descending=True).compute()
    array([30, 20, 10])
    """
    if descending is not MISSING and descending:
        turned, back = _upside_down(a)
        found: Array = back(sort(turned, axis, kind, order, stable=stable))
        return found
    return _sorted(np.sort, a, axis, None, kind=kind, order=order, stable=stable)


def argsort(
    a: ArrayLike, axis: int | None = -1, kind: str | None = None,
    order: str | Sequence[str] | None = None, *, stable: bool | None = None,
    descending: Any = MISSING,
) -> Array:
    """Return the indices of elements in sorted order along an axis, in the chunks of `sort`.

    Raises
    ------
    TypeError
        ``descending=True``, and the elements are records or texts.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.argsort(la.from_array([30, 10, 20], chunks=2)).compute()
    array([1, 2, 0])
    """
    a = as_1d(a, axis)
    if descending is not MISSING and descending:
        a, _ = _upside_down(a)
    return _sorted(np.argsort, a, axis, np.intp, kind=kind, order=order, stable=stable)


def _kth(kth: Any, a: Any, axis: Any) -> Any:
    """Return `kth` as something hashable; raise if it is outside the axis."""
    x = as_array(a).with_known_sizes()
    n = x.size if axis is None else x.shape[axis_of(axis, x.ndim)]
    for each in np.atleast_1d(kth).tolist():
        if n and not -n <= each < n:  # of nothing there is nothing to put in order
            raise ValueError(f"kth(={each}) out of bounds ({n})")
    return tuple(kth) if np.ndim(kth) else operator.index(kth)


def partition(
    a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: str = "introselect",
    order: str | Sequence[str] | None = None
) -> Array:
    """Return the elements with the `kth` smallest at their sorted place along an axis.

    Parameters are those of ``np.partition``. The axis becomes one chunk; what is too much for that
    is sorted, as by `sort`.

    Raises
    ------
    ValueError
        There is no place `kth`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.partition(la.asarray([7, 1, 5, 3]), 1)[1].compute()
    np.int64(3)
    """
    kth = _kth(kth, a, axis)
    return _sorted(np.partition, a, axis, None, kth=kth, kind=kind, order=order)


def argpartition(
    a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: str = "introselect",
    order: str | Sequence[str] | None = None
) -> Array:
    """Return the indices of elements in the order that `partition` gives them.

    Raises
    ------
    ValueError
        There is no place `kth`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.asarray([7, 1, 5])
    >>> x[la.argpartition(x, 0)[:1]].compute()
    array([1])
    """
    a = as_1d(a, axis)
    kth = _kth(kth, a, axis)
    return _sorted(np.argpartition, a, axis, np.intp, kth=kth, kind=kind, order=order)


def lexsort(keys: Any, axis: int = -1) -> Array:
    """Return the indices of elements sorted by several keys, the last one first; as ``np.lexsort``.

    Raises
    ------
    TypeError
        There is no key.
    ValueError
        Keys have different shapes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> surnames, names = la.asarray(["B", "A", "A"]), la.asarray(["x", "z", "y"])
    >>> la.lexsort((names, surnames)).compute()
    array([2, 1, 0])
    """
    given = [as_array(x) for x in keys]
    if not given:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    resolve_lengths(*given)
    if len({x.shape for x in given}) > 1:
        raise ValueError("all keys need to be the same shape")
    given = [as_1d(x, axis) for x in given]
    axis = axis_of(axis, given[0].ndim)
    nodes = [whole_along(x.expr, (axis,)) for x in given]
    n = nodes[0].shape[axis]
    layout = tuple([(n,) if k == axis else k for k in range(given[0].ndim)])
    return Array(tree(Ranked(axis), nodes, layout, np.intp))


@dataclass(frozen=True)
class Ranked(TreeReduction):
    """The order of elements by several keys."""

    axis: int
    __name__ = "lexsort"

    def first(self, *keys: Any) -> Any:
        return np.lexsort(keys, self.axis)


def sort_complex(a: ArrayLike) -> Array:
    """Return complex numbers sorted by their real, then by their imaginary parts.

    >>> import lazyflow.array as la
    >>> la.sort_complex(la.asarray([2, 1j])).compute()
    array([0.+1.j, 2.+0.j])
    """
    x = as_array(a)
    return sort(astype(x, np.sort_complex(np.empty(0, x.dtype)).dtype))


# -- the largest elements -----------------------------------------------------------------------


@dataclass(frozen=True)
class Top(TreeReduction):
    """The `k` largest elements along an axis, largest first; of -k the smallest, smallest first.

    places
        Where they are, instead of what they are.
    """

    k: int
    axis: int
    places: bool
    together: int = 16

    placed = True

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return "argtopk" if self.places else "topk"

    def first(self, where: Any, block: Any) -> Any:
        if not self.places:
            return self._best(block, None)
        shape = [1] * block.ndim
        shape[self.axis] = -1
        start = where.regions[self.axis]
        at = np.arange(start, start + block.shape[self.axis]).reshape(shape)
        return self._best(block, np.broadcast_to(at, block.shape))

    def merge(self, parts: Sequence[Any]) -> Any:
        every = [value for value, _ in parts]
        values = np.concatenate(every, self.axis, dtype=every[0].dtype)
        if not self.places:
            return self._best(values, None)
        return self._best(values, np.concatenate([at for _, at in parts], self.axis))

    def _best(self, values: Any, at: Any) -> Any:
        n = values.shape[self.axis]
        if n <= abs(self.k):
            return values, at
        kth, some = (-self.k, slice(-self.k, None)) if self.k > 0 else (
            -self.k - 1, slice(0, -self.k)
        )
        key = (*[slice(None)] * self.axis, some)
        if at is None:
            return np.partition(values, kth, self.axis)[key].copy(), None
        order = np.argpartition(values, kth, self.axis)[key]
        return (
            np.take_along_axis(values, order, self.axis), np.take_along_axis(at, order, self.axis)
        )

    def last(self, part: Any) -> Any:
        values, at = part
        if at is None:
            found = np.sort(values, self.axis)
        else:
            order = np.argsort(values, self.axis, kind="stable")
            found = np.take_along_axis(at, order, self.axis)
        return np.flip(found, self.axis) if self.k > 0 else found


def _top(a: Any, k: int, axis: int, split_every: Any, places: bool) -> Array:
    node = as_array(a).with_known_sizes().expr
    k = operator.index(k)
    if k == 0:
        raise ValueError(
            "k must be positive, for the largest elements, or negative, for the smallest; got 0"
        )
    axis = axis_of(axis, node.ndim)
    n: Any = node.shape[axis]
    if _is_much(node, axis, min(n, abs(k)), places):
        ordered = Array(sample_sorted(node, axis, None, places))
        some = slice(None, n - k - 1 if k < n else None, -1) if k > 0 else slice(-k)
        return ordered[(*[slice(None)] * axis, some)]
    layout = tuple([(min(n, abs(k)),) if i == axis else i for i in range(node.ndim)])
    dtype = np.dtype(np.intp) if places else node.dtype
    op = Top(k, axis, places, parts_at_once(split_every))
    return Array(tree(op, [node], layout, dtype))


def _is_much(node: Expr, axis: int, count: int, places: bool) -> bool:
    """Tell whether so many elements are beyond what parts of a memory limit can be merged of."""
    limit = config.memory_limit()
    if limit is None or not is_long(node, axis):
        return False
    size = run_dtype(node.dtype, places).itemsize
    return count * size * Top.together > limit // _MOST


def topk(a: ArrayLike, k: int, axis: int = -1, split_every: int | None = None) -> Array:
    """Return the `k` largest elements along an axis, largest first; -k: the smallest.

    Parameters
    ----------
    a, k, axis
        As of ``dask.array.topk``; NaN is larger than any number.
    split_every
        How many neighbours are merged at a time; 16 if left out.

    Raises
    ------
    ValueError
        `k` is 0.

    Notes
    -----
    Where parts of so many elements would take much of a memory limit, all are put in order, as by
    `sort`, and the result is in its chunks.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.topk(la.from_array([5, 1, 3, 6], chunks=2), 2).compute()
    array([6, 5])
    """
    return _top(a, k, axis, split_every, False)


def argtopk(a: ArrayLike, k: int, axis: int = -1, split_every: int | None = None) -> Array:
    """Return the indices of the `k` largest elements along an axis; parameters are those of `topk`.

    Raises
    ------
    ValueError
        `k` is 0.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.argtopk(la.from_array([5, 1, 3, 6], chunks=2), 2).compute()
    array([3, 0])
    """
    return _top(a, k, axis, split_every, True)
