"""Sorting along an axis, and the largest elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import known
from lazyflow.array.functions.arguments import MISSING, ArrayLike, as_1d, as_array
from lazyflow.array.functions.elementwise import astype
from lazyflow.array.functions.manipulation.shaping import flat
from lazyflow.array.functions.one_chunk import NumpyOp, along_axis
from lazyflow.array.nodes.reductions import (
    TreeReduction,
    axis_of,
    parts_at_once,
    tree,
    whole_along,
)
from lazyflow.array.nodes.sample_sort import is_long, sample_sorted

# -- sorting ------------------------------------------------------------------------------------


def _sorted(func: Any, a: Any, axis: Any, dtype: Any, **keywords: Any) -> Array:
    known(a)
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

    >>> import lazyflow.array as la
    >>> surnames, names = la.asarray(["B", "A", "A"]), la.asarray(["x", "z", "y"])
    >>> la.lexsort((names, surnames)).compute()
    array([2, 1, 0])
    """
    given = [as_array(x) for x in keys]
    if not given:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    known(*given)
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
    layout = tuple([(min(n, abs(k)),) if i == axis else i for i in range(node.ndim)])
    dtype = np.dtype(np.intp) if places else node.dtype
    op = Top(k, axis, places, parts_at_once(split_every))
    return Array(tree(op, [node], layout, dtype))


def topk(a: ArrayLike, k: int, axis: int = -1, split_every: int | None = None) -> Array:
    """Return the `k` largest elements along an axis, largest first; -k: the smallest.

    Parameters
    ----------
    a, k, axis
        As of ``dask.array.topk``; NaN is larger than any number.
    split_every
        How many neighbours are merged at a time; 16 if left out.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.topk(la.from_array([5, 1, 3, 6], chunks=2), 2).compute()
    array([6, 5])
    """
    return _top(a, k, axis, split_every, False)


def argtopk(a: ArrayLike, k: int, axis: int = -1, split_every: int | None = None) -> Array:
    """Return the indices of the `k` largest elements along an axis; parameters are those of `topk`.

    >>> import lazyflow.array as la
    >>> la.argtopk(la.from_array([5, 1, 3, 6], chunks=2), 2).compute()
    array([3, 0])
    """
    return _top(a, k, axis, split_every, True)
