"""Sorted tables are merged, one range of values after the other: no task holds all.

Each task makes a table of some neighbouring blocks, and writes its rows to a file if memory has no
room for all. Every s-th value of each table is its sample, and bounds are chosen of all samples.
One task reads and merges the rows between two bounds of all tables: that is a block of the result,
whose length is known then::

    blocks  -->  rows, sample  -->  bounds  -->  cuts of each table  -->  merged range

Bounds are values, so equal ones are always merged by one task. A range exceeds its share of the
values by less than a ``_FINE``-th, unless one value is in more tables than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, product
from math import prod
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks
from lazyflow.array.nodes.reductions import TreeReduction, place_of, tree
from lazyflow.array.nodes.sample_sort import is_long, run_bytes
from lazyflow.array.nodes.task_parts import TaskDetails, named
from lazyflow.graph.task import Task

# Both are guessed.
_RANGES = 16  # ranges for which a memory limit has room; fewer ranges make fewer pieces
_FINE = 4  # a bound is off by less than a range over this


class MergedRanges(Expr):
    """Tables of the blocks of a node, merged by ranges of their values.

    inputs
        A node of known lengths.
    op
        Its tables are tuples of columns, with rows in the order of the first one, the values.
    record
        The dtype of a row, of as many columns as are merged.
    together
        How many neighbouring blocks a task makes a table of.
    """

    __slots__ = ("op", "record", "together")

    def __init__(
        self, inputs: tuple[Expr, ...], op: TreeReduction, record: np.dtype[Any], together: int,
        chunks: Chunks,
    ) -> None:
        super().__init__(inputs, inputs[0].dtype, chunks)
        self.op = op
        self.record = record
        self.together = together

    @property
    def name(self) -> str:
        return self.op.__name__

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        made: _Ranges = low.shared(self, "ranges", _Ranges, low, self)
        return made.block(low, index[0])


class _Ranges:
    """The tasks of a `MergedRanges`.

    Attributes
    ----------
    file
        None: memory has room for all tables.
    starts
        Where the rows of each table begin in the file, which has room for one of each element.
    cuts
        The task that returns, for each table, how many of its rows are below each range.
    """

    def __init__(self, low: MakesTasks, node: MergedRanges) -> None:
        self.node, source = node, node.inputs[0]
        room = source.size * node.record.itemsize
        self.file: Any = low.exchange(room, room) if low.exchange is not None else None
        numbers = list(product(*map(range, source.numblocks)))
        groups = [numbers[i:i + node.together] for i in range(0, len(numbers), node.together)]
        sizes = [
            sum([prod([n[i] for n, i in zip(source.chunks, at, strict=True)]) for at in group])
            for group in groups
        ]
        self.starts = [0, *accumulate(sizes[:-1])]
        count = node.numblocks[0]
        step = max(max(sizes) // (_FINE * count), 1)
        name, op, record = node.name, node.op, node.record
        make = named(f"{name}-table", table_of_blocks, op, record, step)
        made = []
        for start, group in zip(self.starts, groups, strict=True):
            places = [(place_of(low, source, place),) if op.placed else () for place in group]
            blocks = [low.block(source, place) for place in group]
            made.append(low.parts(make, (TaskDetails(start, places), self.file, *blocks), node, 2))
        self.tables, samples = map(list, zip(*made, strict=True))
        bounds = low.task(named(f"{name}-bounds", bounds_of_ranges, count), samples, node)
        cut = named(f"{name}-count", cuts_of_table, record, count)
        each_cut = [
            low.task(cut, (TaskDetails(start), self.file, table, sample, bounds), node)
            for start, table, sample in zip(self.starts, self.tables, samples, strict=True)
        ]
        self.cuts = low.task(named(f"{name}-count", all_cuts), each_cut, node)

    def block(self, low: MakesTasks, number: int) -> Task:
        """Return the task of one range."""
        node = self.node
        func = named(node.name, merged_range, node.op, node.record)
        where = TaskDetails(number, self.starts)
        return low.task(func, (where, self.file, self.cuts, *self.tables), node)


def columns_of(rows: Any) -> tuple[Any, ...]:
    """Return the columns of rows."""
    return tuple([rows[name] for name in rows.dtype.names])


def table_of_blocks(
    op: TreeReduction, record: np.dtype[Any], step: int, where: TaskDetails, file: Any,
    *blocks: Any,
) -> Any:
    """Return the table of some blocks, or where it is in a file, and its length and sample.

    where
        Where it begins in the file, in rows; and the places of the blocks, if they are asked for.
    """
    start, places = where.values
    tables = [op.first(*place, block) for place, block in zip(places, blocks, strict=True)]
    columns = op.merge(tables) if len(tables) > 1 else tables[0]
    rows = np.empty(len(columns[0]), record)
    for own, column in zip(columns_of(rows), columns, strict=False):  # more than are asked for
        own[:] = column
    sample = rows["value"][step - 1::step]
    table = rows if file is None else file.write([(start * record.itemsize, rows)])
    return table, (len(rows), sample[sample == sample])  # no NaN: all are in the last range


def bounds_of_ranges(count: int, *samples: tuple[int, Any]) -> Any:
    """Return the values at which ranges begin but the first; none, if there are few rows."""
    found = [sample for _, sample in samples]
    every = np.concatenate(found, dtype=found[0].dtype)
    every.sort(kind="stable")
    return every[np.arange(1, count) * len(every) // count] if len(every) else every


def cuts_of_table(
    record: np.dtype[Any], count: int, where: TaskDetails, file: Any, table: Any,
    sample: tuple[int, Any], bounds: Any,
) -> Any:
    """Return how many rows of a table are below each range, and how many there are."""
    (start,), (n, _) = where.values, sample
    if not n or not len(bounds):
        return np.array([0] + [n] * count)
    size = record.itemsize
    if file is not None:  # a search looks at few pages of it
        table = file.mapped(start * size, n * size, [table]).view(record)
    return np.concatenate([[0], np.searchsorted(table["value"], bounds), [n]])


def all_cuts(*cuts: Any) -> Any:
    """Return the cuts of all tables as one array."""
    return np.stack(cuts)


def merged_range(
    op: TreeReduction, record: np.dtype[Any], where: TaskDetails, file: Any, cuts: Any,
    *tables: Any,
) -> Any:
    """Return the table of one range.

    where
        The number of the range, and where tables begin in the file, in rows.
    """
    number, starts = where.values
    size, parts = record.itemsize, []
    spans = cuts[:, number:number + 2].tolist()
    for start, (first, last), table in zip(starts, spans, tables, strict=True):
        if first == last:
            continue
        if file is None:
            rows = table[first:last]
        else:
            rows = file.read((start + first) * size, (last - first) * size, [table]).view(record)
        parts.append(columns_of(rows))
    return op.merge(parts or [columns_of(np.empty(0, record))])


def tables_merged(op: TreeReduction, node: Expr, columns: Sequence[str]) -> Expr:
    """Return the merged tables of a node's blocks: one, or of much under a memory limit many.

    columns
        The names of those that are asked for beside the values; they are integers.
    """
    limit = config.memory_limit()
    if limit is None or not is_long(node, *range(node.ndim)):
        return tree(op, [node], ((None,),), node.dtype)
    record = np.dtype([("value", node.dtype), *[(name, np.intp) for name in columns]])
    size = node.size * record.itemsize
    each = run_bytes(size, _RANGES)
    block = prod(map(max, node.chunks)) * record.itemsize
    return MergedRanges(
        (node,), op, record, max(each // block, 1), ((None,) * max(-(-size // each), 1),)
    )
