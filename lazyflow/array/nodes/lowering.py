"""From nodes to tasks: one for each block that is needed, made on demand.

A block is made when another one asks for it, and is remembered by node and index, so that shared
blocks have one task. Tasks count their readers as they are made. Chains of more than 64 nodes are
lowered from below, all blocks of every 64th node at once, needed or not, so that no chain needs a
deep recursion. What all blocks of a node have in common is made once (`shared`). Each task carries
the user's line of its node, for errors and warnings.

    >>> import lazyflow.array as la
    >>> [tasks] = Lowering().lower([la.ones(4, chunks=2).expr])
    >>> len(tasks)
    2

All state is a `Lowering`'s, which serves one compute in one thread; see there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, chain, product
from typing import Any

from lazyflow.api.lazy import Delayed
from lazyflow.array.nodes.expr import Expr, Index, below, hand_down
from lazyflow.array.nodes.reading import prepared, with_parts_cut
from lazyflow.array.nodes.task_parts import BlockPosition
from lazyflow.graph.binding import new_leaf, new_task
from lazyflow.graph.items import Item
from lazyflow.graph.options import DEFAULT, OPERATOR, Options
from lazyflow.graph.task import VALUE, Task
from lazyflow.store.exchange_file import Exchange

_DEEP = 64  # levels of nodes that are lowered by calls inside calls; a guess


class Lowering:
    """Makes the tasks of one compute; a block is made once.

    Attributes
    ----------
    readers
        By the ids of tasks: how many tasks and wanted results read their value.
    taken
        See reading.py.

    Parameters
    ----------
    find_exchange
        Called once, for the first use of `exchange`; returns it.
    """

    def __init__(self, find_exchange: Callable[[], Exchange | None] = lambda: None) -> None:
        self._find_exchange = find_exchange
        self._blocks: dict[tuple[Expr, Index], Task] = {}
        self._bounds: dict[Expr, list[list[int]]] = {}
        self._shared: dict[Any, Any] = {}
        self.readers: Counter[int] = Counter()
        self.taken: dict[int, int] = {}

    @cached_property
    def exchange(self) -> Exchange | None:
        """The source of files for the run of this compute; None: there is none."""
        return self._find_exchange()

    def lower(self, wanted: Sequence[Expr]) -> list[list[Task]]:
        """Return the tasks of all blocks of some nodes, in C order."""
        nodes = below(wanted)
        hand_down(nodes)
        depth: dict[Expr, int] = {}
        for node in nodes if len(nodes) > _DEEP else ():
            depth[node] = 1 + max([depth[x] for x in node.inputs], default=0)
            if depth[node] > _DEEP:
                self.blocks(node)
                depth[node] = 0
        found = [self.blocks(node) for node in wanted]
        for task in chain.from_iterable(found):
            self.readers[id(task)] += 1
        return found

    def blocks(self, node: Expr) -> list[Task]:
        """Return the tasks of all blocks of a node, in C order."""
        return [self.block(node, index) for index in product(*map(range, node.numblocks))]

    def block(self, node: Expr, index: Index) -> Task:
        """Return the task of one block."""
        found = self._blocks.get((node, index))
        if found is None:
            found = self._blocks[node, index] = node.make_block(self, index)
        return found

    def counts(self) -> dict[Expr, int]:
        """Return how many blocks were made of each node."""
        return Counter(node for node, _ in self._blocks)

    def made(self) -> Iterable[tuple[tuple[Expr, Index], Task]]:
        """Return the tasks that were made, each after its node and the index of its block."""
        return self._blocks.items()

    def bounds(self, node: Expr) -> list[list[int]]:
        """Return where the chunks of each axis begin; an empty list for unknown lengths."""
        found = self._bounds.get(node)
        if found is None:
            found = self._bounds[node] = [
                [] if None in sizes else [0, *accumulate(sizes)] for sizes in node.chunks
            ]
        return found

    def shared(self, node: Expr, key: Any, make: Any, *details: Any) -> Any:
        """Return what all blocks of a node have in common, made once."""
        found = self._shared.get((node, key))
        if found is None:
            found = self._shared[node, key] = make(*details)
        return found

    def task(
        self, func: Any, args: Sequence[Any], node: Expr, options: Options = DEFAULT
    ) -> Task:
        """Return a task that errors and warnings trace to the user's line of the node."""
        task: Task = new_task(Task, func, tuple(args), None, options)
        if (line := node.line) is not None:
            task._code, task._lasti = line
        for x in task._inputs:
            self.readers[id(x)] += 1
        task.__class__ = Delayed
        return task

    def parts(self, func: Any, args: Sequence[Any], node: Expr, count: int) -> list[Task]:
        """Return the tasks of the items of a tuple that a function returns."""
        whole = self.task(func, args, node, Options(nout=count))
        return [
            self.task(Item(i, count, func.__name__), (whole,), node, OPERATOR)
            for i in range(count)
        ]

    def value(self, value: Any) -> Task:
        """Return a task that is a value."""
        leaf: Task = new_leaf(Delayed, VALUE, value)
        return leaf

    def fused_block(self, node: Expr, index: Index) -> Task:
        """Return the task of a block of a program's result, or of what is read by slices."""
        reads, func, parts = self._shared.get((node, "fused")) or self.shared(
            node, "fused", prepared, self, node
        )
        found = [read.at(self, index) for read in reads]
        if parts:
            found = with_parts_cut(self, node, index, reads, found)
        where = BlockPosition(index, tuple([region for region, _ in found]))
        return self.task(func, (where, *[arg for _, arg in found if arg is not None]), node)


def alike(task: Task, func: Any, args: Sequence[Any]) -> Task:
    """Return a task like another one, of another function."""
    made: Task = new_task(Task, func, tuple(args), None, task._options)
    made._code, made._lasti = task._code, task._lasti
    made.__class__ = Delayed
    return made
