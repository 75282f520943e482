"""How much memory the blocks of some arrays take, before anything runs.

Two numbers follow from the sizes of blocks, as far as chunks and dtypes are known. The need of a
task is all that it reads and returns, which has to be in memory at once: files and another order
don't help, so a run with a task beyond `memory_limit` is refused. The peak is an estimate: the most
that is alive when the workers run tasks of equal length in the plan's order.

Not counted: memory that functions use inside a task, values that were in memory before, and blocks
of unknown length or of other libraries.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from math import prod

from lazyflow.array.nodes.contraction import Contraction
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import Expr, LazyDtype
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.rechunking import Rechunk
from lazyflow.array.nodes.scan import Scan
from lazyflow.array.nodes.sources import Const, InMemory
from lazyflow.array.nodes.views import View
from lazyflow.errors import LazyflowWarning, StoreFull
from lazyflow.graph.items import Item
from lazyflow.graph.plan import Plan, choose_order, make_plan
from lazyflow.graph.task import HELD, VALUE, Task, place_text, users_depth
from lazyflow.store.sizes import format_bytes
from lazyflow.store.spilling import LEAST

#: Nodes whose blocks are views of others, or values that the caller has.
_NO_MEMORY = (Const, InMemory, View)


def _block_bytes(node: Expr, index: tuple[int, ...]) -> int | None:
    """Return the bytes of a block, 0 of a view; None where a length or the dtype is not known."""
    if isinstance(node, _NO_MEMORY):
        return 0
    if None in node.shape or node.known_dtype is None:
        return None
    counts = [sizes[i] for sizes, i in zip(node.chunks, index, strict=True)]
    return prod(counts) * node.known_dtype.itemsize


class BlockSizes:
    """The bytes of the results of tasks.

    Attributes
    ----------
    known
        By the ids of tasks that make blocks.
    sure
        Those of them that are certainly dense arrays with their own memory; others may be views, or
        repeat an element.
    nodes
        The nodes of these blocks, and the tasks.
    is_whole
        Whether all lengths and dtypes are known.
    """

    def __init__(self, low: Lowering) -> None:
        self.known: dict[int, int] = {}
        self.sure: dict[int, int] = {}
        self.nodes: list[tuple[Expr, Task]] = []
        self.is_whole = True
        for (node, index), task in low.made():
            if isinstance(node, Rechunk):  # through a file its tasks wait for others, which write
                for x in task._inputs:
                    if type(x._func) is not Item:
                        self.known.setdefault(id(x), 0)
            size = _block_bytes(node, index)
            self.is_whole = self.is_whole and size is not None
            self.nodes.append((node, task))
            known = self.known[id(task)] = max(size or 0, self.known.get(id(task), 0))
            if size and _is_sure(node, task):
                self.sure[id(task)] = known

    def give(self, tasks: Iterable[Task]) -> None:
        """Leave out the results of these tasks: `compute` gives them to the caller."""
        for task in tasks:
            self.sure[id(task)] = self.known[id(task)] = 0

    def needs(self, sizes: dict[int, int]) -> list[int]:
        """Return the memory that each task needs to run, by some of the sizes."""
        return [
            sum({id(x): sizes.get(id(x), 0) for x in (task, *task._inputs)}.values())
            for _, task in self.nodes
        ]

    def of(self, tasks: Sequence[Task]) -> list[int]:
        """Return the bytes of the results of tasks, given in an order in which they can run.

        A task that makes no block counts as much as the task that reads it: it is a partial sum, or
        a piece of what that returns. A task whose result is cut into pieces counts all of them.
        """
        found = dict(self.known)
        wholes: Counter[int] = Counter()
        for task in reversed(tasks):
            size = found.setdefault(id(task), wholes[id(task)])
            if type(task._func) is Item:
                wholes[id(task._inputs[0])] += size
                continue
            pieces = sum(type(x._func) is Item for x in task._inputs)
            for x in task._inputs if size else ():
                if id(x) not in wholes:
                    found.setdefault(id(x), size // max(pieces, 1))
        return [0 if t._func in (HELD, VALUE) else found[id(t)] for t in tasks]


def _is_sure(node: Expr, task: Task) -> bool:
    if type(node.dtype_or_lazy) is LazyDtype:
        return False
    joins = isinstance(node, Rechunk) and len(task._inputs) > 1
    return joins or isinstance(node, Fused | Contraction | Scan)


def check_fits(low: Lowering, limit: int, given: Iterable[Task]) -> int:
    """Return the largest need of a task, in bytes; refuse one beyond the memory limit.

    If the task might still fit, warn instead.

    given
        Tasks whose results `compute` gives to the caller, whose memory has no limit.

    Raises
    ------
    StoreFull
        One task reads and returns more.
    """
    sizes = BlockSizes(low)
    largest = max(sizes.needs(sizes.known), default=0)
    sizes.give(given)
    needs, least = sizes.needs(sizes.known), max(sizes.needs(sizes.sure), default=0)
    need = max(needs, default=0)
    if need <= max(limit, LEAST):  # memory of fewer bytes is not counted
        return largest
    if least > limit:
        needs, need = sizes.needs(sizes.sure), least
    node, task = sizes.nodes[needs.index(need)]
    text = (
        f"a task of {node.name}, made at {place_text(task)}, needs {format_bytes(need)} for "
        f"what it reads and returns, and memory_limit is {format_bytes(limit)}: what a task "
        "reads can't be spilled. "
    )
    advice = (
        "Make the chunks smaller, as by x.rechunk('auto'), or raise memory_limit, as by "
        f"lazyflow.config.set(memory_limit={_rounded_up(need)})"
    )
    if least > limit:
        raise StoreFull(f"{text}Nothing was run. {advice}")
    warnings.warn(text + advice, LazyflowWarning, stacklevel=users_depth())
    return largest


def _rounded_up(size: int) -> str:
    """Return what to type for a limit that the need of a task is below.

    >>> _rounded_up(33_554_432), _rounded_up(5_100_000_000)
    ("'34 MB'", "'5.1 GB'")
    """
    unit, name = next(((u, n) for u, n in ((10**9, "GB"), (10**6, "MB")) if size >= u), (1, "B"))
    steps = -(-size * 10 // unit)
    return f"'{-(-steps // 10) if steps >= 100 else steps / 10:g} {name}'"


def projected_peak(sizes: BlockSizes, wanted: Sequence[Task], workers: int) -> tuple[int, int]:
    """Return the most bytes that are alive at once, and how many of them are the results."""
    plan = choose_order(make_plan(wanted, optimize=False))
    each = sizes.of(plan.tasks)
    return _peak(plan, each, workers), sum(each[i] for i in set(plan.outputs))


def _peak(plan: Plan, sizes: list[int], workers: int) -> int:
    """Return the most bytes alive when workers take tasks at the same times."""
    needs, left = plan.needs.copy(), [len(plan.uses(i)) for i in range(len(plan))]
    needs[plan.end] = -1  # it is no task: what it uses stays
    is_piece, end = [type(task._func) is Item for task in plan.tasks], plan.end
    ready: list[tuple[int, int]] = []
    newest = count(0, -1)

    def arrive(i: int) -> Iterator[int]:
        for user in plan.uses(i):
            needs[user] -= 1
            if not needs[user]:
                yield user

    def offer(numbers: Sequence[int]) -> None:
        for i in reversed(numbers):
            heappush(ready, (i if plan.by_number else next(newest), i))

    def released(i: int) -> int:
        """Return the bytes that are free once nothing needs a result: of pieces all have some."""
        if is_piece[i]:
            return 0 if left[plan.inputs[i][0]] else sizes[i]  # type: ignore[index]
        return sizes[i] - sum(sizes[k] for k in plan.uses(i) if k < end and is_piece[k] and left[k])

    offer(sorted([*plan.ready, *(user for leaf in plan.leaves for user in arrive(leaf))]))
    alive = most = 0
    while ready:
        running = [heappop(ready)[1] for _ in range(min(workers, len(ready)))]
        alive += sum(sizes[i] for i in running if not is_piece[i])
        most = max(most, alive)
        for i in running:
            for j in plan.inputs[i] or ():
                left[j] -= 1
                alive -= 0 if left[j] else released(j)
        for i in reversed(running):
            offer(list(arrive(i)))
    return most
