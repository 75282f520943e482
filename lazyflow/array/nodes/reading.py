"""How the tasks of a node read their inputs: views of blocks, parts of memory or of a store.

A `Read` knows which block of one input, and which region of it, a task needs; a `LoadRegion` takes
that region in the task.

::

    node --> `Read`, for each input --> `Read.at`, for each task --> `LoadRegion` in the task

State: `Lowering.taken` has the bytes that this compute has cut out of each array in memory, by the
array's id; `_small_part` adds to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.kernels.float_warnings import ArrayWarnings
from lazyflow.array.kernels.program import Program
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import Expr, MakesTasks
from lazyflow.array.nodes.selection import Index, Pick, Selection, as_slice, base_region, cut
from lazyflow.array.nodes.sources import Generated, InMemory, Stored
from lazyflow.array.nodes.task_parts import BlockPosition, is_large, is_thin, taken, takes_out
from lazyflow.array.nodes.views import View
from lazyflow.graph.guards import guarded

_SMALL = 4  # an array in memory is at least so many times what is taken of it; a guess


class Read:
    """How the blocks of one input of a node are found.

    Made once for all tasks of the node; `at` returns the part that depends on the task.
    """

    def __init__(self, low: MakesTasks, node: Expr, ndim: int) -> None:
        self.node = node
        self.skipped = ndim - node.ndim
        self.single = [len(sizes) == 1 for sizes in node.chunks]
        base, selection = node, None
        if isinstance(node, View):
            (base,), selection = node.inputs, node.selection
            if isinstance(base, InMemory):
                base, selection = _small_part(low, base, selection)
        self.base = base
        self.selection = selection
        self.anywhere = isinstance(base, InMemory | Generated | Stored)
        if self.anywhere:
            self.bounds = low.bounds(node)
            if selection is None:
                self.selection = selection = Selection.of_all(base.ndim)
        elif selection is not None:
            at = dict(zip(selection.axes, node.chunks, strict=True))
            sizes = [at.get(axis, ()) for axis in range(base.ndim)]
            self.cuts = list(map(_cuts, base.chunks, selection.picks, sizes))
        self.load = LoadRegion(base, selection, node.chunks)

    def own(self, index: Index) -> Index:
        """Return which block of the input a block of the node needs."""
        return tuple([
            0 if alone else i for alone, i in zip(self.single, index[self.skipped:], strict=True)
        ])

    def part(self, index: Index) -> tuple[int, int]:
        """Return how many elements a block reads of the base's block, and that one's size."""
        if self.anywhere:
            return 0, 0
        own, part, whole = self.own(index), 1, 1
        if self.selection is None:
            whole = prod([sizes[i] or 0 for sizes, i in zip(self.node.chunks, own, strict=True)])
            return whole, whole
        at = {axis: k for k, axis in enumerate(self.selection.axes) if axis >= 0}
        for axis, (cuts, chunks) in enumerate(zip(self.cuts, self.base.chunks, strict=True)):
            number, _, n = cuts[own[at[axis]] if axis in at else 0]
            part, whole = part * (n or 0), whole * (chunks[number] or 0)
        return part, whole

    def at(self, low: MakesTasks, index: Index) -> tuple[Any, Any]:
        """Return the region of the argument that a block needs, and the argument or None."""
        own = self.own(index)
        region, arg = self._at(low, own)
        if self.load.stretched:
            shape = tuple([sizes[i] for sizes, i in zip(self.node.chunks, own, strict=True)])
            region = region, shape
        return region, arg

    def _at(self, low: MakesTasks, own: Index) -> tuple[Any, Any]:
        selection = self.selection
        if self.anywhere:
            assert selection is not None
            region = base_region(selection, self.node.chunks, own, self.bounds)
            base = self.base
            if isinstance(base, InMemory):  # one object for all tasks, so that it is pickled once
                return region, low.shared(base, "array", guarded, base.array)
            return region, base.store if isinstance(base, Stored) else None
        if selection is None:
            return None, low.block(self.node, own)
        at = {axis: k for k, axis in enumerate(selection.axes) if axis >= 0}
        numbers: list[int] = []
        taken: list[Any] = []
        for axis, cuts in enumerate(self.cuts):
            number, inner, _ = cuts[own[at[axis]] if axis in at else 0]
            numbers.append(number)
            taken.append(inner)
        return tuple(taken), low.block(self.base, tuple(numbers))


def _cuts(
    chunks: tuple[Any, ...], pick: Pick | int | None, sizes: tuple[Any, ...]
) -> Sequence[tuple[int, Any, Any]]:
    """Return which chunks a pick takes in parts of some sizes, what of each, and its length."""
    if isinstance(pick, int):
        ((number, place, n),) = cut(chunks, Pick(pick, 1, 1))
        return [(number, place.start, n)]
    cuts: list[tuple[int, Any, Any]]
    if pick is None:
        cuts = [(i, slice(None), n) for i, n in enumerate(chunks)]
    else:
        cuts = cut(chunks, pick)
    if len(cuts) == len(sizes):
        return cuts
    parts, left = [], iter(sizes)
    for number, place, n in cuts:
        done = 0
        while done < n:
            size = next(left)
            part = range(chunks[number])[place][done:done + size]
            stop = None if part.stop < 0 else part.stop
            parts.append((number, slice(part.start, stop, part.step), size))
            done += size
    return parts


def _small_part(
    low: MakesTasks, base: InMemory, selection: Selection
) -> tuple[InMemory, Selection]:
    """Return a small part of an array as an array of its own, and the view of it.

    Then other processes get no more than they need. All parts of an array together are never more
    than the array.
    """
    slices = [
        slice(pick, pick + 1) if isinstance(pick, int) else as_slice(pick)
        for pick in selection.picks
    ]
    array = base.array[tuple(slices)]
    taken = low.taken.get(id(base.array), 0) + array.nbytes
    if array.nbytes * _SMALL > base.array.nbytes or taken > base.array.nbytes:
        return base, selection
    low.taken[id(base.array)] = taken
    return InMemory(array, tuple([(n,) for n in array.shape])), selection.rest()


class LoadRegion:
    """Takes the region of one input that a task needs, and arranges its axes as the view does."""

    def __init__(self, base: Expr, selection: Selection | None, chunks: Any) -> None:
        self.formula: Any = base.formula if isinstance(base, Generated) else None
        self.reader: Any = base.reader if isinstance(base, Stored) else None
        self.order: tuple[int, ...] | None = None
        self.new: tuple[Any, ...] | None = None
        self.stretched = False  # some new axis is not of length 1: regions come with a shape
        self.takes_out = False  # the formula makes blocks as they are
        self.later = False  # a program that reads the block makes it
        if selection is not None:
            kept = [axis for axis, pick in enumerate(selection.picks) if not isinstance(pick, int)]
            order = tuple([kept.index(axis) for axis in selection.axes if axis >= 0])
            if order != tuple(range(len(order))):
                self.order = order
            if any(axis < 0 for axis in selection.axes):
                self.new = tuple([None if axis < 0 else slice(None) for axis in selection.axes])
                lengths = zip(selection.axes, chunks, strict=True)
                self.stretched = any(axis < 0 and sizes != (1,) for axis, sizes in lengths)
            self.takes_out = takes_out(self.formula) and self.order is None and self.new is None

    def __call__(self, region: Any, given: Any, out: Any = None) -> Any:
        """Return the block; `given` gives the arguments of the task.

        out
            An array that a formula may write the block into, and return then, or None.
        """
        if self.stretched:
            region, shape = region
        if self.formula is not None or self.reader is not None:
            plain, region = _plain(region)
            if self.reader:
                block = self._read(plain, next(given))
            elif self.later and region is None:
                block = self.formula.later(plain)
            elif self.takes_out and region is None:
                block = self.formula(plain, out=out)
            else:
                block = self.formula(plain)
        else:
            block = next(given)
        if region is not None:
            block = block[(*region, ...)]  # numbers alone would give an element, no array
        if self.order is not None:
            block = block.transpose(self.order)
        if self.new is not None:
            block = block[self.new]
        if self.stretched:
            whole = [m if n is None else n for n, m in zip(shape, block.shape, strict=True)]
            block = np.broadcast_to(block, whole)
        return block

    def _read(self, region: tuple[slice, ...], store: Any) -> Any:
        try:
            return self.reader(store, region)
        except BaseException as error:
            error.add_note(f"lazyflow: while reading {_shown(region)} of {_described(store)}")
            raise


def _plain(region: Any) -> tuple[tuple[slice, ...], Any]:
    """Split a region into slices of step 1 and an index of what these give; None: all of it."""
    plain: list[slice] = []
    rest: list[Any] = []
    changed = False
    for span in region:
        if isinstance(span, int):
            plain.append(slice(span, span + 1))
            rest.append(0)
            changed = True
            continue
        start, stop, step = span.start, span.stop, span.step or 1
        if step == 1:
            plain.append(slice(start, stop))
            rest.append(slice(None))
            continue
        changed = True
        count = len(range(start, -1 if stop is None else stop, step))
        last = start + (count - 1) * step
        plain.append(slice(min(start, last), max(start, last) + 1))
        rest.append(slice(None, None, step))
    return tuple(plain), tuple(rest) if changed else None


def _shown(region: tuple[slice, ...]) -> str:
    return "[" + ", ".join(f"{s.start}:{s.stop}" for s in region) + "]"


def _described(store: Any) -> str:
    for attribute in ("filename", "store_path", "path", "name"):
        found = getattr(store, attribute, None)
        if isinstance(found, str) and found:
            return f"{type(store).__name__} {found!r}"
    text = repr(store)
    return text if len(text) < 200 else f"a {type(store).__name__}"


class BlockTask:
    """The function of the tasks of one node: reads its inputs, and runs a program over them."""

    takes_out = True

    def __init__(self, node: Expr, loads: tuple[LoadRegion, ...]) -> None:
        self.__name__ = node.name
        self.warnings = None if node.line is None else ArrayWarnings(node.line)
        self.program: Program | None = None
        self.consts: tuple[np.ndarray[Any, Any], ...] = ()
        self.last: Any = None
        if isinstance(node, Fused):
            self.program, self.consts, self.last = node.program, node.consts, node.last
            for load in loads:
                load.later = load.takes_out and hasattr(load.formula, "later")
        self.loads = loads

    def __call__(self, where: BlockPosition, *given: Any, out: Any = None) -> Any:
        args = iter(given)
        if self.program is None:
            return self.loads[0](where.regions[0], args, out)
        blocks = [load(r, args) for load, r in zip(self.loads, where.regions, strict=True)]
        from lazyflow.array.kernels.run import run_program  # 25 ms: with the first kernel

        if self.last is not None:
            (part,) = run_program(self.program, (*self.consts, *blocks), self.warnings)
            return self.last(part)
        found = run_program(self.program, (*self.consts, *blocks), self.warnings, {0: out})
        return found[0] if len(found) == 1 else tuple(found)


def prepared(low: MakesTasks, node: Expr) -> tuple[list[Read], BlockTask, bool]:
    """Return the parts that all tasks of a node share, and whether thin parts may be cut out."""
    inputs = node.inputs if isinstance(node, Fused) else (node,)
    reads = [Read(low, x, node.ndim) for x in inputs]
    parts = len(reads) > 1 and any(
        not read.anywhere and read.selection is not None and is_large(read.base) for read in reads
    )
    return reads, BlockTask(node, tuple([read.load for read in reads])), parts


def with_parts_cut(
    low: MakesTasks, node: Expr, index: Index, reads: list[Read], found: list[tuple[Any, Any]]
) -> list[tuple[Any, Any]]:
    """Return regions and arguments of a task, after thin parts of other blocks were cut out.

    The block that it reads most of stays its argument.
    """
    shares = [read.part(index) for read in reads]
    most = max(range(len(reads)), key=lambda k: shares[k][0])
    for k, (read, (region, arg)) in enumerate(zip(reads, found, strict=True)):
        if arg is not found[most][1] and is_thin(*shares[k], read.base):
            region, *shape = region if read.load.stretched else (region,)
            where, key = BlockPosition(index, (region,)), ("part", k, read.own(index))
            part = low.shared(node, key, low.task, taken, (where, arg), node)
            found[k] = (None, *shape) if shape else None, part
    return found
