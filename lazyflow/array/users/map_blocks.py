"""Users' functions on blocks and on indices, and ``x.blocks[0, 1:]``: blocks by their numbers.

A function is called once for each block of the result. `map_blocks` lets blocks go together by
their numbers, counted from the last axis, and changes no chunks: along each axis the numbers of
blocks must be equal or 1, while their lengths may differ. `blockwise` first cuts the arrays so that
axes of one label have the same chunks, unless ``align_arrays=False``. Along axes that the result
lacks, a task gets all blocks; `map_blocks` joins them to one. Chunks that change must be declared,
and each task checks its block against them. ``x.blocks`` makes no tasks of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyflow.api.collection import Collection
from lazyflow.array.core import Array
from lazyflow.array.foreign import refuse_mask
from lazyflow.array.functions.arguments import as_array
from lazyflow.array.functions.ranges import indices
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.user_calls import BLOCK, BlockCalls, BlockInfos, BoundCall, dtype_of
from lazyflow.array.users.block_layout import (
    Labels,
    Sizes,
    aligned,
    as_they_are,
    axis_numbers,
    from_last,
    input_blocks,
    result_chunks,
)
from lazyflow.graph.task import Task

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


# -- `x.blocks` --------------------------------------------------------------------------------


class SomeBlocks(Expr):
    """Some blocks of a node, as a node.

    numbers
        For each axis the numbers of the blocks.
    """

    __slots__ = ("numbers",)
    called = "blocks"
    of_any_kind = True

    def __init__(self, inputs: tuple[Expr, ...], numbers: tuple[Index, ...]) -> None:
        (node,) = inputs
        chunks = tuple([
            tuple([sizes[i] for i in each])
            for sizes, each in zip(node.chunks, numbers, strict=True)
        ])
        super().__init__(inputs, node.dtype_or_lazy, chunks)
        self.numbers = numbers

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        at = tuple([each[i] for each, i in zip(self.numbers, index, strict=True)])
        return low.block(self.inputs[0], at)


class Blocks:
    """The blocks of an array, ``x.blocks``, indexed as the elements of NumPy's arrays are.

    An index has integers, slices and at most one list of integers; axes with integers stay. The
    result is an array of the chosen blocks.

    >>> import lazyflow.array as la
    >>> x = la.arange(10, chunks=4)
    >>> x.blocks[1].compute(), x.blocks[[2, 0]].compute()
    (array([4, 5, 6, 7]), array([8, 9, 0, 1, 2, 3]))
    """

    def __init__(self, x: Array) -> None:
        self._x = x

    @property
    def shape(self) -> Index:
        """The number of blocks along each axis."""
        return self._x.numblocks

    @property
    def size(self) -> int:
        """The number of blocks."""
        return prod(self.shape)

    def ravel(self) -> list[Array]:
        """Return the blocks one after the other, in C order."""
        return [self[index] for index in product(*map(range, self.shape))]

    def __getitem__(self, key: Any) -> Array:
        keys = key if isinstance(key, tuple) else (key,)
        if any(entry is None for entry in keys):
            raise IndexError("blocks are not indexed by None or np.newaxis")
        if sum(isinstance(entry, list | np.ndarray) for entry in keys) > 1:
            raise IndexError(
                "blocks are indexed by one list at most; index twice, x.blocks[a].blocks[:, b]"
            )
        at = next((i for i, entry in enumerate(keys) if entry is Ellipsis), len(keys))
        after = keys[at + 1:]
        missing = len(self.shape) - at - len(after)
        if missing < 0 or any(entry is Ellipsis for entry in after):
            raise IndexError(
                f"too many indices for blocks: the array is {len(self.shape)}-dimensional, but "
                f"{len(keys)} were indexed"
            )
        keys = (*keys[:at], *[slice(None)] * missing, *after)
        numbers = [
            _numbers(entry, axis, count)
            for axis, (entry, count) in enumerate(zip(keys, self.shape, strict=True))
        ]
        if not all(numbers):  # no blocks: no elements
            sizes = [slice(None) if entry else slice(0, 0) for entry in numbers]
            full = [entry or (0,) for entry in numbers]
            return Array(SomeBlocks((self._x.expr,), tuple(full)))[tuple(sizes)]
        return Array(SomeBlocks((self._x.expr,), tuple(numbers)))

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(self.shape[0]))

    def __len__(self) -> int:
        return self.shape[0]


def _numbers(key: Any, axis: int, count: int) -> Index:
    try:
        found = np.arange(count)[key]
    except IndexError as error:
        text = str(error).replace("axis 0", f"axis {axis}")
        raise IndexError(f"blocks of an array: {text}") from None
    return tuple(map(int, np.atleast_1d(found)))


# -- users' functions --------------------------------------------------------------------------


def map_blocks(
    func: Callable[..., Any],
    *args: Any,
    name: str | None = None,
    token: str | None = None,
    dtype: DTypeLike | None = None,
    chunks: int | Sequence[Any] | None = None,
    drop_axis: int | Iterable[int] | None = None,
    new_axis: int | Iterable[int] | None = None,
    enforce_ndim: bool = False,
    meta: Any = None,
    **kwargs: Any,
) -> Array:
    """Return an array of a function's results for each block.

    Parameters
    ----------
    func
        Called with a block of each array. A parameter named ``block_id`` gets the number of the
        block along each axis. A parameter named ``block_info`` gets the places of the blocks in
        their arrays: a dict by the position of the argument, None for the result, of dicts with
        ``shape``, ``num-chunks``, ``array-location``, ``chunk-location``, and, for the result,
        ``chunk-shape`` and ``dtype``.
    *args
        Chunked arrays, whose numbers of blocks along each axis are equal or 1, counted from the
        last axis; lazy values, which the function gets computed; and other values, which it gets
        as they are.
    name, token
        The name of the tasks; without it, that of `func`.
    dtype, meta
        The dtype of the result, or an example array. Without either, `func` is tried on
        made-up blocks of ones when the dtype is first asked for.
    chunks
        Lengths of the result's blocks where they differ from the first array's: for each axis one
        length for all blocks or one for each block; None for unknown lengths.
    drop_axis
        Axes that `func` takes away; it gets all blocks along them as one.
    new_axis
        Axes of the result that `func` adds, of length 1 unless `chunks` has their lengths.
    enforce_ndim
        Changes nothing (dask's keyword): the shape of each returned block is always checked.
    **kwargs
        Keywords of `func`.

    Raises
    ------
    ValueError
        The blocks of the arrays don't fit; when computed: a block has another shape than declared.
    TypeError
        When computed: `func` returned something other than an array, or an array of another dtype.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(6, chunks=3)
    >>> la.map_blocks(lambda block: block[::-1], x).compute()
    array([2, 1, 0, 5, 4, 3])
    >>> la.map_blocks(lambda b, block_id: b[:1] + 10 * block_id[0], x, chunks=1).compute()
    array([ 0, 13])
    """
    for x in args:
        if isinstance(x, Collection):
            refuse_mask(x)
    call = BoundCall(
        func, [BLOCK if isinstance(x, Array) else x for x in args], kwargs, "map_blocks",
        token or name,
    )
    nodes = [x.expr for x in args if isinstance(x, Array)]
    labels = from_last(nodes)
    ndim = max([x.ndim for x in nodes], default=0)
    out, new_axes, adjust = _axes(ndim, chunks, drop_axis, new_axis)
    sizes = as_they_are(nodes, labels)
    return _called(call, nodes, labels, out, sizes, new_axes, adjust, True, dtype, meta)


def map_blocks_of(x: Array, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Array:
    """Return ``la.map_blocks(func, x, ...)``."""
    return map_blocks(func, x, *args, **kwargs)


def _axes(
    ndim: int, chunks: Any, drop_axis: Any, new_axis: Any
) -> tuple[Labels, dict[Hashable, Any], dict[Hashable, Any]]:
    """Return labels of the result's axes, lengths of new axes, and changes of other lengths."""
    if drop_axis is None and new_axis is None and chunks is None:
        return tuple(range(ndim)), {}, {}
    dropped = axis_numbers(drop_axis, ndim, "drop_axis")
    out: list[Hashable] = [k for k in range(ndim) if k not in dropped]
    if chunks is not None and not isinstance(chunks, Sequence):
        chunks = (chunks,)
    if new_axis is None:
        missing = len(chunks) - len(out) if chunks is not None else 0
        new_axis = range(max(missing, 0))
    added = list(new_axis) if isinstance(new_axis, Iterable) else [new_axis]
    total = len(out) + len(added)
    new_axes: dict[Hashable, Any] = {}
    for axis in sorted(axis_numbers(added, total, "new_axis")):
        label = ("new", axis)
        out.insert(axis, label)
        new_axes[label] = 1 if chunks is None or len(chunks) != total else chunks[axis]
    if chunks is None:
        return tuple(out), new_axes, {}
    if len(chunks) != len(out):
        raise ValueError(
            f"chunks={chunks!r:.100} are for {len(chunks)} axes, but the result has {len(out)}: "
            "name the axes that the function drops by drop_axis=, those it adds by new_axis="
        )
    adjust = {
        label: sizes for label, sizes in zip(out, chunks, strict=True) if label not in new_axes
    }
    return tuple(out), new_axes, adjust


def _called(
    call: BoundCall, nodes: Sequence[Expr], labels: Sequence[Labels], out: Labels, sizes: Sizes,
    new_axes: Mapping[Hashable, Any], adjust: Mapping[Hashable, Any], concatenate: bool,
    dtype: Any, meta: Any,
) -> Array:
    chunks = result_chunks(out, sizes, new_axes, adjust)
    shares = tuple([
        input_blocks(own, node, out, sizes, concatenate)
        for own, node in zip(labels, nodes, strict=True)
    ])
    taken = tuple([x.chunks for x in nodes])

    def of_first_block() -> dict[str, Any]:
        first = (0,) * len(chunks)
        extra: dict[str, Any] = {"block_id": first} if call.takes_id else {}
        if call.takes_info:
            extra["block_info"] = BlockInfos(call, shares, taken, chunks, None).at(first)
        return extra

    result_dtype = dtype_of(
        call, dtype, meta, nodes, [share.fake for share in shares], of_first_block
    )
    return Array(BlockCalls(tuple(nodes), call, shares, result_dtype, chunks))


def blockwise(
    func: Callable[..., Any],
    out_ind: Iterable[Hashable],
    *args: Any,
    name: str | None = None,
    token: str | None = None,
    dtype: DTypeLike | None = None,
    adjust_chunks: Mapping[Hashable, Any] | None = None,
    new_axes: Mapping[Hashable, Any] | None = None,
    align_arrays: bool = True,
    concatenate: bool | None = None,
    meta: Any = None,
    **kwargs: Any,
) -> Array:
    """Return an array of a function's results for blocks that go together by labels of axes.

    Parameters
    ----------
    func
        Called with blocks of the arrays.
    out_ind
        Labels of the result's axes, as ``"ij"`` or ``(0, 1)``.
    *args
        Arrays, each followed by the labels of its axes; other values, each followed by None. Of
        an axis whose label the result doesn't have, the function gets all blocks.
    name, token
        The name of the tasks; without it, that of `func`.
    dtype, meta
        The dtype of the result, or an example array. Without either, it is found as by
        `map_blocks`.
    adjust_chunks
        For a label: a function from the length of a block to that of the result's block, one
        length for all blocks, or one for each.
    new_axes
        For a label that no array has: the length of the axis, or the lengths of its blocks.
    align_arrays
        Arrays are cut so that their chunks fit; otherwise numbers of blocks must be equal or 1.
    concatenate
        Blocks along an axis that the result doesn't have come as one array; otherwise they come
        in nested lists.
    **kwargs
        Keywords of `func`.

    Raises
    ------
    ValueError
        Labels or lengths don't fit.

    Examples
    --------
    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> x, y = la.arange(4, chunks=2), la.arange(3, chunks=2)
    >>> la.blockwise(np.multiply.outer, "ij", x, "i", y, "j", dtype=int).compute()
    array([[0, 0, 0],
           [0, 1, 2],
           [0, 2, 4],
           [0, 3, 6]])
    >>> la.blockwise(lambda blocks: sum(map(np.sum, blocks)), "", x, "i", dtype=int).compute()
    np.int64(6)
    """
    if len(args) % 2:
        raise ValueError(
            "blockwise() takes arrays, each followed by the labels of its axes (other values "
            f"followed by None); got {len(args)} arguments after out_ind"
        )
    pairs = [
        (as_array(x), tuple(ind)) if ind is not None else (x, None)
        for x, ind in zip(args[::2], args[1::2], strict=True)
    ]
    call = BoundCall(
        func, [x if ind is None else BLOCK for x, ind in pairs], kwargs, "blockwise", token or name
    )
    arrays = [x for x, ind in pairs if ind is not None]
    labels = [ind for x, ind in pairs if ind is not None]
    out = tuple(out_ind)
    new_axes = dict(new_axes or {})
    _check_labels(arrays, labels, out, new_axes, adjust_chunks or {})
    nodes: Sequence[Expr] = [x.expr for x in arrays]
    if align_arrays:
        nodes, sizes = aligned(nodes, labels)
    else:
        sizes = as_they_are(nodes, labels)
    return _called(
        call, nodes, labels, out, sizes, new_axes, adjust_chunks or {}, bool(concatenate), dtype,
        meta,
    )


def _check_labels(
    arrays: Sequence[Array], labels: Sequence[Labels], out: Labels,
    new_axes: Mapping[Hashable, Any], adjust: Mapping[Hashable, Any],
) -> None:
    for x, own in zip(arrays, labels, strict=True):
        if len(own) != x.ndim:
            raise ValueError(
                f"Index string {_text(own)} does not match array dimension {x.ndim}"
            )
    there = {label for own in labels for label in own}
    both = there & set(new_axes)
    if both:
        raise ValueError(f"new_axes has the label {_text(tuple(both))}, which an array has already")
    if len(set(out)) != len(out):
        raise ValueError(f"Repeated elements not allowed in output index: {_text(out)}")
    missing = [label for label in out if label not in there and label not in new_axes]
    if missing:
        raise ValueError(
            f"the result's axis {missing[0]!r} is in no array; give its length by "
            f"new_axes={{{missing[0]!r}: ...}}"
        )
    wrong = [label for label in adjust if label not in out]
    if wrong:
        raise ValueError(f"adjust_chunks has {wrong[0]!r}, which is not an axis of the result")


def _text(labels: Labels) -> str:
    if all(isinstance(label, str) for label in labels):
        return "".join(map(str, labels))
    return str(labels)


def fromfunction(
    function: Callable[..., Any], shape: Any = None, *, dtype: Any = float, chunks: Any = "auto",
    **kwargs: Any,
) -> Array:
    """Return the values of a function of the indices.

    Parameters
    ----------
    function
        Called for each block with arrays of its indices, one for each axis, in the shape of the
        block; it returns the block. It is tried on an array of one element to find the dtype.
    shape
        The shape of the array.
    dtype
        The dtype of the indices.
    chunks
        Chunks of the array, as of `normalize_chunks`.
    **kwargs
        Keywords of `function`.

    Raises
    ------
    TypeError
        There is no `shape`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.fromfunction(lambda i, j: i + 10 * j, (2, 3), dtype=int, chunks=2).compute()
    array([[ 0, 10, 20],
           [ 1, 11, 21]])
    """
    if shape is None:
        raise TypeError("fromfunction() needs the shape of the array: pass shape=")
    return map_blocks(function, *indices(shape, dtype, chunks=chunks), **kwargs)
