"""The different elements of arrays, what two arrays have in common, and membership.

`unique` makes a sorted table of each block: its different values, and how often and where first
they are if that is asked for. A tree merges the tables. Under a memory limit, those of long arrays
are merged by ranges of values (nodes/value_ranges.py), so that no task holds all of them, unless
the inverse is asked for. Whole numbers that are close together are counted instead of sorted,
unless their places are asked for. One task gets the whole array for ``axis=`` and for objects and
records; also if indices are asked for of complex numbers, or of floats with ``equal_nan=False``.

`isin` sorts lazy test elements of the same dtype once, in one block or, under a memory limit, in
several that are searched one after the other. The length of each result of these functions, except
those of `isin` and the inverse of `unique`, depends on values: it is unknown until something is
computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.elementwise import astype
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.manipulation.shaping import flat
from lazyflow.array.functions.one_chunk import NumpyOp
from lazyflow.array.functions.sorting import parts_to_search, sort
from lazyflow.array.kernels.native.counting import Numbers, count
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import TreeReduction, axis_of, tree
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.user_calls import PerBlock, SingleResult
from lazyflow.array.nodes.value_ranges import tables_merged

# -- unique and isin ---------------------------------------------------------------------------


_NUMBERS = set("biufc")
#: Whole numbers are counted in a table if their range is no wider than this, a guess, or than the
#: number of elements in the block.
_NARROW = 1 << 16


@dataclass(frozen=True)
class Distinct(TreeReduction):
    """Tables of the different elements, how often each is there, and where it is first.

    A table is a tuple of these columns, which `SingleResult` takes.

    shape
        Of the array; None: without the column of places, which makes sorting slower.
    counted
        Whether the tables have more columns than the elements.
    """

    shape: tuple[int | None, ...] | None
    equal_nan: bool
    counted: bool

    __name__ = "unique"

    @property
    def placed(self) -> bool:  # type: ignore[override]
        return self.shape is not None  # else lengths need not be known

    def first(self, *given: Any) -> Any:
        *where, block = given
        if self.shape is None:
            return _by_number(block) or self._sorted(block)
        found: Any = np.unique(
            block, return_index=True, return_counts=True, equal_nan=self.equal_nan
        )
        values, first, counts = found
        if self.shape and len(first):
            inner = np.unravel_index(first, block.shape)
            places = [at + start for at, start in zip(inner, where[0].regions, strict=True)]
            shape: Any = self.shape
            first = np.ravel_multi_index(places, shape)
        return values, counts, first

    def _sorted(self, block: Any) -> Any:
        if self.counted or block.dtype.kind in "iuf":  # which are sorted faster than hashed
            return np.unique(block, return_counts=True, equal_nan=self.equal_nan)
        return (np.unique(block, equal_nan=self.equal_nan),)

    def merge(self, tables: Sequence[Any]) -> Any:
        every, *places = [
            np.concatenate(column, dtype=column[0].dtype) for column in zip(*tables, strict=True)
        ]
        if self.shape is None and (found := _by_number(every, *places)):
            return found
        if not self.counted:
            return self._sorted(every)
        order = every.argsort(kind="stable")  # which merges what is sorted in each table
        if self.shape is not None and not self.equal_nan:  # NaNs are in the order of their places
            by_place = places[1].argsort()
            order = by_place[every[by_place].argsort(kind="stable")]
        every = every[order]
        starts = _starts(every, self.equal_nan)
        if not len(starts):
            return (every, *places)
        columns = zip((np.add, np.minimum), places, strict=False)
        return every[starts], *(add.reduceat(column[order], starts) for add, column in columns)


def _starts(ordered: Any, equal_nan: bool) -> Any:
    """Return where each different element of an ordered array begins."""
    new = np.ones(len(ordered), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    if equal_nan and ordered.dtype.kind in "fcmM":
        new[1:] &= ~np.isnan(ordered[:-1])  # they are the last
    return np.flatnonzero(new)


def _by_number(block: Any, counts: Any = None) -> tuple[Any, Any] | None:
    """Return the different whole numbers and how often each is there, where these are close by.

    counts
        How often each element counts.
    """
    if block.dtype.kind not in "iu" or not block.size:
        return None
    low, high = int(block.min()), int(block.max())
    if high - low >= max(block.size, _NARROW):
        return None
    found = count([block], [Numbers(high - low + 1, low)], counts)
    if found is None:
        at = block.ravel() - block.dtype.type(low)
        if at.dtype.itemsize < np.intp(0).itemsize:
            at = at.view(at.dtype.str.replace("i", "u")).astype(np.intp)
        found = np.bincount(at.view(np.intp), counts), True
    at = np.flatnonzero(found[0])
    values = at.astype(block.dtype)
    values += block.dtype.type(low)
    return values, found[0][at].astype(np.intp)


@dataclass(frozen=True)
class UniqueOfBlock:
    """Find all columns for an array that is one block; `values_only` as of `Distinct`."""

    axis: int | None
    equal_nan: bool
    values_only: bool
    __name__ = "unique"

    def __call__(self, block: Any) -> Any:
        if self.values_only:
            return (np.unique(block, axis=self.axis, equal_nan=self.equal_nan),)
        return np.unique(
            block, return_index=True, return_inverse=True, return_counts=True, axis=self.axis,
            equal_nan=self.equal_nan,
        )


def _inverse(values: Any, block: Any) -> Any:
    return np.asarray(np.searchsorted(values, block))


_inverse.__name__ = "unique-inverse"


def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, axis: int | None = None, *, equal_nan: bool = True,
    sorted: bool = True
) -> Any:
    """Return the different elements, sorted; parameters are those of ``np.unique``.

    How many there are is known only when something was computed. They are one block; of an array
    that takes much of the memory limit they are several, unless `return_inverse` is asked for.
    Along an axis the array becomes one block.

    >>> import lazyflow.array as la
    >>> x = la.from_array([3, 1, 3, 2], chunks=2)
    >>> values, counts = la.unique(x, return_counts=True)
    >>> values.compute(), counts.compute()
    (array([1, 2, 3]), array([1, 1, 2]))
    """
    x = as_array(ar)
    if return_index or axis is not None or x.dtype.kind in "OV":
        x = x.with_known_sizes()
    node = x.expr
    kind = node.dtype.kind
    has_places = return_index or return_inverse
    alike = (kind == "c" and has_places) or (  # NaNs that only places tell apart
        kind in "fmM" and return_inverse and not equal_nan
    )
    values_only = not (has_places or return_counts)
    if axis is not None or kind in "OV" or alike:
        parts = _of_one_block(node, axis, bool(equal_nan), values_only)
    else:
        shape = node.shape if return_index else None
        op = Distinct(shape, bool(equal_nan), return_index or return_counts)
        place = np.dtype(np.intp)
        columns = ("count", "place")[: 2 if return_index else int(return_counts)]
        table = (
            tree(op, [node], ((None,),), node.dtype) if return_inverse
            else tables_merged(op, node, columns)
        )
        values, counts, first = [
            SingleResult((table,), k, dtype, table.chunks)
            for k, dtype in enumerate((node.dtype, place, place))
        ]
        inverse = (
            PerBlock((values, node), _inverse, place, node.chunks) if return_inverse else values
        )
        parts = [values, first, inverse, counts]
    asked = (True, return_index, return_inverse, return_counts)
    made = tuple([Array(part) for part, on in zip(parts, asked, strict=True) if on])
    return made if len(made) > 1 else made[0]


def _of_one_block(node: Expr, axis: Any, equal_nan: bool, values_only: bool) -> list[Expr]:
    chunks: Chunks = ((None,),)
    inner: Chunks = tuple([(n,) for n in node.shape])
    if axis is not None:
        axis = axis_of(axis, node.ndim)
        chunks = (*inner[:axis], (None,), *inner[axis + 1:])
        inner = inner[axis:axis + 1]
    whole = rechunk(node, tuple([(n,) for n in node.shape]))
    op = UniqueOfBlock(axis, equal_nan, values_only)
    table = PerBlock((whole,), op, node.dtype, whole.chunks)
    place = np.dtype(np.intp)
    return [
        SingleResult((table,), 0, node.dtype, chunks),
        SingleResult((table,), 1, place, ((None,),)),
        SingleResult((table,), 2, place, inner),
        SingleResult((table,), 3, place, ((None,),)),
    ]


def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False,
    *, kind: str | None = None
) -> Array:
    """Return whether each element is among others; parameters are those of ``np.isin``.

    Lazy elements among which others are looked for become one block; of those that take much of the
    memory limit, parts are searched one after the other.

    >>> import lazyflow.array as la
    >>> la.isin(la.arange(5, chunks=2), [1, 3, 9]).compute()
    array([False,  True, False,  True, False])
    """
    node = as_node(element)
    options = {"assume_unique": bool(assume_unique), "invert": bool(invert), "kind": kind}
    if isinstance(test_elements, Array) and _are_alike(node.dtype, test_elements.dtype):
        is_sorted = kind is None and node.dtype == test_elements.dtype  # once, for all blocks
        op: Any = NumpyOp(np.isin, tuple(options.items()))
        if is_sorted:
            op = named("isin", _is_in_order, bool(invert))
        result: Expr | None = None
        for part in parts_to_search(flat(test_elements)):
            if is_sorted:
                part = PerBlock((part,), NumpyOp(np.sort, ()), part.dtype, part.chunks)
            given = (node, part) if result is None else (node, part, result)
            func = op if result is None else named("isin", _also_in, op, bool(invert))
            result = PerBlock(given, func, np.dtype(bool), node.chunks)
        assert result is not None
        return Array(result)
    values = np.asarray(test_elements).ravel()
    op = named("isin", _is_among, values, options)
    try:
        np.result_type(node.dtype, values.dtype)
    except TypeError:  # NumPy compares with a few of them one by one, and sorts many, which raises
        if None in node.shape:
            raise SizesNeeded from None
        if len(values) >= 10 * Array(node).size ** 0.145:
            raise
        op = named("isin", _equals_one, values, bool(invert))
    return Array(PerBlock((node,), op, np.dtype(bool), node.chunks))


def _also_in(op: Any, invert: bool, x: Any, values: Any, before: Any) -> Any:
    found = op(x, values)
    return before & found if invert else before | found


def _is_in_order(invert: bool, x: Any, values: Any) -> Any:
    if not len(values) or not x.size or (
        x.dtype.kind in "biufmM" and (values[-1] < x.min() or x.max() < values[0])
    ):
        return np.full(x.shape, invert)
    found = values.take(np.searchsorted(values, x), mode="clip") == x
    return ~found if invert else found


def _are_alike(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    kinds = {one.kind, other.kind}
    return kinds <= _NUMBERS or (len(kinds) == 1 and kinds <= set("SUMm"))


def _equals_one(values: Any, invert: bool, x: Any) -> Any:
    found = np.zeros(x.shape, bool)
    for value in values:
        found |= x == value
    return ~found if invert else found


def _is_among(values: Any, options: dict[str, Any], x: Any) -> Any:
    return np.isin(x, values, **options)


# -- operations on sets ------------------------------------------------------------------------


def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Array:
    """Return the different elements of two arrays together, sorted.

    >>> import lazyflow.array as la
    >>> la.union1d(la.asarray([1, 3]), la.asarray([2, 3])).compute()
    array([1, 2, 3])
    """
    found: Array = unique(concatenate((ar1, ar2), axis=None))
    return found


def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """Return the different elements that are in both arrays, sorted.

    Parameters are those of ``np.intersect1d``. The different elements of each array are in the
    blocks of `unique`; how many are in both is known only when something was computed.

    >>> import lazyflow.array as la
    >>> la.intersect1d(la.from_array([3, 1, 2, 3], chunks=2), [3, 4, 1]).compute()
    array([1, 3])
    """
    arrays = [flat(ar1), flat(ar2)]
    dtype = np.result_type(*[x.dtype for x in arrays])
    if not return_indices:
        one, other = [unique(x) for x in arrays]
        return astype(one[isin(one, other)], dtype)
    (one, first), (other, second) = [unique(x, return_index=True) for x in arrays]
    both, back = isin(one, other), isin(other, one)
    return astype(one[both], dtype), first[both], second[back]


def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Return the different elements of `ar1` that are not in `ar2`, sorted.

    Parameters are those of ``np.setdiff1d``: with ``assume_unique=True`` elements of `ar1` are kept
    in their order, and as often as they are there. Those of `ar2` are looked for as by `isin`.

    >>> import lazyflow.array as la
    >>> la.setdiff1d(la.from_array([3, 1, 2, 3], chunks=2), [2, 4]).compute()
    array([1, 3])
    """
    x = flat(ar1) if assume_unique else unique(ar1)
    others = unique(ar2)
    try:
        alone = isin(x, others, invert=True)
    except SizesNeeded:  # types that NumPy compares in a way that depends on the length
        x = x.with_known_sizes()
        alone = isin(x, others, invert=True)
    found: Array = x[alone]
    return found


def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Return the different elements that are in one of two arrays only, sorted.

    Parameters are those of ``np.setxor1d``.

    >>> import lazyflow.array as la
    >>> la.setxor1d(la.from_array([3, 1, 2], chunks=2), [2, 4]).compute()
    array([1, 3, 4])
    """
    one, other = unique(ar1), unique(ar2)
    dtype = np.result_type(one.dtype, other.dtype)  # what has none in common is refused here
    alone = one[isin(one, other, invert=True)], other[isin(other, one, invert=True)]
    if dtype.kind in "mM":  # of which `unique` keeps one NaT of two
        return sort(concatenate(alone))
    found: Array = unique(concatenate(alone), equal_nan=False)
    return found


class UniqueAllResult(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    inverse_indices: Array


def unique_all(x: ArrayLike) -> UniqueAllResult:
    """Return the different elements, where each is first, where all are in them, and how often.

    Every NaN is an element of its own, as in all four functions of this kind.

    >>> import lazyflow.array as la
    >>> found = la.unique_all(la.from_array([3, 1, 3], chunks=2))
    >>> found.values.compute(), found.indices.compute()
    (array([1, 3]), array([1, 0]))
    """
    return UniqueAllResult(*unique(as_array(x), True, True, True, equal_nan=False))


def unique_counts(x: ArrayLike) -> UniqueCountsResult:
    """Return the different elements, and how often each is there.

    >>> import lazyflow.array as la
    >>> values, counts = la.unique_counts(la.from_array([3, 1, 3], chunks=2))
    >>> counts.compute()
    array([1, 2])
    """
    return UniqueCountsResult(*unique(as_array(x), return_counts=True, equal_nan=False))


def unique_inverse(x: ArrayLike) -> UniqueInverseResult:
    """Return the different elements, and which of them each element is, in the shape of the array.

    >>> import lazyflow.array as la
    >>> values, inverse = la.unique_inverse(la.from_array([3, 1, 3], chunks=2))
    >>> values[inverse].compute()
    array([3, 1, 3])
    """
    return UniqueInverseResult(*unique(as_array(x), return_inverse=True, equal_nan=False))


def unique_values(x: ArrayLike) -> Array:
    """Return the different elements, sorted.

    >>> import lazyflow.array as la
    >>> la.unique_values(la.from_array([3, 1, 3], chunks=2)).compute()
    array([1, 3])
    """
    found: Array = unique(as_array(x), equal_nan=False)
    return found
