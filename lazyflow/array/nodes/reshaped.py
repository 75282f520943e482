"""The same elements, in C order, in another shape.

Axes of both shapes fall into groups of the same size: in (4, 6, 5) -> (24, 5) the first two
axes become one and the third stays. A block of the result is a block of the input in another shape
where both are runs of neighbouring elements in each group; the chunks are made so first, without
making larger ones than the input has (dask#8110).

    >>> import lazyflow.array as la
    >>> x = la.ones((4, 6, 5), chunks=(2, 3, 5)) + 1
    >>> reshaped(x.expr, (24, 5)).chunks  # 2 x 3 of 4 x 6 are no run, a row of 6 is
    ((6, 6, 6, 6), (5,))
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.selection import Pick, Selection
from lazyflow.array.nodes.sources import Generated, InMemory
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.views import seen
from lazyflow.graph.task import Task

Shape = tuple[int, ...]
Sizes = tuple[int, ...]


class AxisGroup(NamedTuple):
    """Axes of a shape, from the first to before the last, that become axes of another one."""

    first: int
    last: int
    to_first: int
    to_last: int

    @property
    def is_one(self) -> bool:
        """Tell whether it is one axis that stays the same."""
        return self.last - self.first == 1 and self.to_last - self.to_first == 1


class ReshapedBlocks(Expr):
    """Blocks in another shape; the n-th block of a group of axes is the n-th of the other's."""

    __slots__ = ("groups",)
    called = "reshape_blockwise"

    def __init__(
        self, inputs: tuple[Expr, ...], chunks: Chunks, groups: tuple[AxisGroup, ...]
    ) -> None:
        super().__init__(inputs, inputs[0].dtype, chunks)
        self.groups = groups

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (node,) = self.inputs
        own: list[int] = []
        for first, last, to_first, to_last in self.groups:
            number = 0
            for k in range(to_first, to_last):
                number = number * len(self.chunks[k]) + index[k]
            place = []
            for k in reversed(range(first, last)):
                number, i = divmod(number, len(node.chunks[k]))
                place.append(i)
            own.extend(reversed(place))
        block = low.block(node, tuple(own))
        shape = tuple([sizes[i] for sizes, i in zip(self.chunks, index, strict=True)])
        func = low.shared(self, shape, named, "reshape", to_shape, shape)
        return low.task(func, (block,), self)


class Reshape(ReshapedBlocks):
    """The same elements in another shape, because the blocks are runs of neighbours."""

    __slots__ = ()
    called = "reshape"

    def __init__(
        self, inputs: tuple[Expr, ...], chunks: Chunks, groups: tuple[AxisGroup, ...]
    ) -> None:
        super().__init__(inputs, chunks, groups)

    def through(self, selection: Selection) -> Recipe | None:
        """Move slices down: of axes that stay, and of the first of several that replace one."""
        (node,) = self.inputs
        inner: list[Any] = [None] * node.ndim
        shape: list[Any] = list(self.shape)
        outer = list(selection.picks)
        for group in self.groups:
            at = group.to_first
            if group.last - group.first != 1 or group.to_last == at or outer[at] is None:
                continue
            pick: Any = outer[at]
            if isinstance(pick, int):
                pick, outer[at] = Pick(pick, 1, 1), 0
            elif group.is_one or pick.step == 1:
                outer[at] = None
            if not group.is_one and pick.step != 1:
                continue
            if not pick.length:
                return None
            unit = prod(shape[at + 1:group.to_last])
            inner[group.first] = Pick(pick.start * unit, pick.step, pick.length * unit)
            shape[at] = pick.length
        down = Selection(tuple(inner), tuple(range(node.ndim)))
        rest = Selection(tuple(outer), selection.axes)
        return seen([(node, down)], lambda found: reshaped(found[0], tuple(shape)), rest)


def to_shape(shape: Shape, block: Any) -> Any:
    """Return a block in another shape."""
    return block.reshape(shape)


def reshaped(node: Expr, shape: Shape, limit: int | None = None, merge: bool = True) -> Expr:
    """Return a node in another shape of the same size, which is not 0; lengths are known.

    Parameters
    ----------
    limit
        The most elements of a block; None: as many as the largest has now in each group of axes
        that change.
    merge
        False: where axes become one, all except the last are cut into chunks of length 1.
    """
    old: Any = node.shape
    if old == shape:
        return node
    groups = grouped(old, shape)
    if limit is None:
        parts = [_parts(node.chunks, shape, group, None, merge) for group in groups]
    else:
        parts = _parts_within(node.chunks, shape, groups, limit, merge)
    befores, flat, runs, afters = zip(*parts, strict=True)
    after: Chunks = sum(afters, ())
    if (source := _source(node, shape, after)) is not None:
        return source
    node = rechunk(node, sum(befores, ()))
    if flat == runs:
        return _made(node, after, groups)
    ones = tuple([AxisGroup(g.first, g.last, k, k + 1) for k, g in enumerate(groups)])
    node = rechunk(_made(node, flat, ones), runs)
    ones = tuple([AxisGroup(k, k + 1, g.to_first, g.to_last) for k, g in enumerate(groups)])
    return _made(node, after, ones)


def _source(node: Expr, shape: Shape, chunks: Chunks) -> Expr | None:
    """Return a source of the elements of another source; None: of this node there is none."""
    if isinstance(node, InMemory) and node.array.flags.c_contiguous:
        return InMemory(node.array.reshape(shape), chunks, node.watches)
    if isinstance(node, Generated) and hasattr(node.formula, "reshaped"):
        return Generated(node.formula.reshaped(shape), node.dtype, chunks)
    return None


def in_blocks(node: Expr, chunks: Chunks, groups: tuple[AxisGroup, ...] | None) -> Expr:
    """Return the node of a `Reshape`, or a source with the same blocks.

    groups
        None: one of all axes.
    """
    if groups is None:
        if node.chunks == chunks:
            return node
        groups = (AxisGroup(0, node.ndim, 0, len(chunks)),)
    shape = tuple([sum(sizes) for sizes in chunks])
    source = _source(node, shape, chunks)
    return Reshape((node,), chunks, groups) if source is None else source


def _made(node: Expr, chunks: Chunks, groups: tuple[AxisGroup, ...]) -> Expr:
    if node.chunks == chunks and all(group.is_one for group in groups):
        return node
    return Reshape((node,), chunks, groups)


def grouped(old: Shape, new: Shape) -> tuple[AxisGroup, ...]:
    """Return the smallest groups of neighbouring axes that have the same size in two shapes.

    >>> [tuple(group) for group in grouped((4, 6, 5), (24, 1, 5))]
    [(0, 2, 0, 1), (2, 2, 1, 2), (2, 3, 2, 3)]
    """
    groups = []
    i = j = 0
    while i < len(old) or j < len(new):
        first, to_first = i, j
        if i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
        elif i < len(old) and old[i] == 1:
            i += 1
        elif j < len(new) and new[j] == 1:
            j += 1
        else:
            mine, other = old[i], new[j]
            i, j = i + 1, j + 1
            while mine != other:
                if mine < other:
                    mine *= old[i]
                    i += 1
                else:
                    other *= new[j]
                    j += 1
        groups.append(AxisGroup(first, i, to_first, j))
    return tuple(groups)


def _parts(
    chunks: Chunks, shape: Shape, group: AxisGroup, limit: int | None, merge: bool
) -> tuple[Chunks, Sizes, Sizes, Chunks]:
    """Return, for a group, chunks and their runs before, and runs and chunks after."""
    given = chunks[group.first:group.last]
    if group.is_one:
        return given, given[0], given[0], given
    limit = limit or prod(map(max, given))
    wanted = shape[group.to_first:group.to_last]
    if merge:
        before = _as_runs(given, limit)
    else:
        ones = tuple([(1,) * sum(sizes) for sizes in given[:-1]])
        before = (*ones, *[_fitted(sizes, limit, False) for sizes in given[-1:]])
    flat = _runs(before)
    after = _fitting(flat, wanted)
    if after is None:
        whole = tuple([(n,) for n in wanted])
        after = _as_runs(whole, min(limit, max(flat)))
    return before, flat, _runs(after), after


def _parts_within(
    chunks: Chunks, shape: Shape, groups: Sequence[AxisGroup], limit: int, merge: bool
) -> list[tuple[Chunks, Sizes, Sizes, Chunks]]:
    """Return the `_parts` of groups in blocks of at most some elements; axes that stay are cut."""
    own: list[Any] = list(chunks)
    stay = [group.first for group in groups if group.is_one]
    while (size := prod([max(own[k]) for k in stay])) > limit:
        longest = max(stay, key=lambda k: max(own[k]))
        most = max(own[longest]) // -(-size // limit)
        own[longest] = _fitted(own[longest], max(most, 1), False)
    left, found, changing = limit // size, [], len(groups) - len(stay)
    for group in groups:
        share = max(int((left + 0.5) ** (1 / max(changing, 1))), 1)  # none takes all
        found.append(_parts(tuple(own), shape, group, share, merge))
        if not group.is_one:
            _, before, after, _ = found[-1]
            left, changing = left // max(*before, *after), changing - 1
    return found


def _runs(chunks: Chunks) -> Sizes:
    """Return the lengths of the runs that blocks of such chunks are."""
    found: Sizes = (1,)
    for sizes in chunks:
        if len(sizes) == 1:
            found = tuple([n * sizes[0] for n in found])
        else:
            found = tuple([n * run for run in found for n in sizes])
    return found


def _as_runs(given: Chunks, limit: int) -> Chunks:
    """Return chunks whose blocks are all runs: the given ones, if theirs are."""
    long = [k for k, sizes in enumerate(given) if sum(sizes) > 1]
    last_cut = max([k for k in long if len(given[k]) > 1], default=0)
    if all(max(given[k]) == 1 for k in long if k < last_cut) and max(_runs(given)) <= limit:
        return given
    whole = tuple([(sum(sizes),) for sizes in given])
    below = 1
    for k in reversed(long):
        if below * sum(given[k]) > limit:
            ones = tuple([(1,) * sum(sizes) for sizes in given[:k]])
            return (*ones, _fitted(given[k], limit // below), *whole[k + 1:])
        below *= sum(given[k])
    return whole


def _fitted(sizes: Sizes, most: int, together: bool = True) -> Sizes:
    """Return chunks of at most some length: neighbours joined, or long ones cut.

    >>> _fitted((2, 2, 2, 9, 1), 4)
    (4, 2, 3, 3, 3, 1)
    """
    found: list[int] = []
    joins = False
    for n in sizes:
        if joins and found[-1] + n <= most:
            found[-1] += n
            continue
        count = max(-(-n // most), 1)
        found.extend([n * (i + 1) // count - n * i // count for i in range(count)])
        joins = together and count == 1
    return tuple(found)


def _fitting(flat: Sizes, shape: Shape) -> Chunks | None:
    """Return the chunks of a shape whose blocks are these runs, or None.

    >>> _fitting((6, 6), (4, 3)), _fitting((2, 1, 2, 1), (2, 3)), _fitting((4, 2), (2, 3))
    (((2, 2), (3,)), ((1, 1), (2, 1)), None)
    """
    for k, n in enumerate(shape):
        unit = prod(shape[k + 1:])
        outer = prod(shape[:k])
        count, odd = divmod(len(flat), outer)
        if odd or not count:
            return None
        period = flat[:count]
        if any(run % unit for run in period):
            continue
        if sum(period) != n * unit or flat != period * outer:
            return None
        ones = tuple([(1,) * m for m in shape[:k]])
        return (*ones, tuple([run // unit for run in period]), *[(m,) for m in shape[k + 1:]])
    return () if flat == (1,) else None
