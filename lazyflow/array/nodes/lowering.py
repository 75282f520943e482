"""From nodes to tasks: one for each block that is wanted, made when it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, product
from typing import Any

import numpy as np

from lazyflow.api.lazy import Delayed
from lazyflow.array.kernels.program import Program
from lazyflow.array.kernels.reports import ArrayWarnings
from lazyflow.array.nodes.expr import Expr, Index, below
from lazyflow.array.nodes.sources import Made, Memory, Stored
from lazyflow.array.nodes.user_lines import hand_down
from lazyflow.array.nodes.views import Spec, View, as_slice, cut, of_base
from lazyflow.graph.arguments import read_only
from lazyflow.graph.building import new_leaf, new_task
from lazyflow.graph.items import Item
from lazyflow.graph.kinds import ATOM
from lazyflow.graph.options import OPERATOR, Options
from lazyflow.graph.task import VALUE, Task

_SMALL = 4  # times what is taken of an array in memory is at most the array
_DEEP = 64  # levels of nodes that are lowered by calls inside calls


class Lowering:
    """Makes the tasks of one compute; a block is made once."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[Expr, Index], Task] = {}
        self._bounds: dict[Expr, list[list[int]]] = {}
        self._shared: dict[Any, Any] = {}
        self._taken: dict[int, int] = {}

    def lower(self, wanted: Sequence[Expr]) -> list[list[Task]]:
        """Return the tasks of all blocks of some nodes, in C order."""
        nodes = below(wanted)
        hand_down(nodes)
        depth: dict[Expr, int] = {}
        for node in nodes:
            depth[node] = 1 + max([depth[x] for x in node.inputs], default=0)
            if depth[node] > _DEEP:
                self.blocks(node)
                depth[node] = 0
        return [self.blocks(node) for node in wanted]

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

    def bounds(self, node: Expr) -> list[list[int]]:
        """Return where the chunks of each axis begin; nothing of those of unknown lengths."""
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

    def task(self, func: Any, args: Sequence[Any], node: Expr) -> Task:
        """Return a task, made where the user made the node."""
        task: Task = new_task(Task, func, tuple(args))
        if node.place is not None:
            task._code, task._lasti = node.place
        task.__class__ = Delayed
        return task

    def parts(self, func: Any, args: Sequence[Any], node: Expr, count: int) -> list[Task]:
        """Return tasks of the parts of a tuple that a task gives; the tuple itself is not kept."""
        whole: Task = new_task(Task, func, tuple(args), None, Options(nout=count))
        if node.place is not None:
            whole._code, whole._lasti = node.place
        whole.__class__ = Delayed
        made = []
        for i in range(count):
            item = new_task(Task, Item(i, count, func.__name__), (whole,), None, OPERATOR)
            item._code, item._lasti = whole._code, whole._lasti
            item.__class__ = Delayed
            made.append(item)
        return made

    def part(self, base: Memory, spec: Spec) -> tuple[Memory, Spec]:
        """Return a small part of an array as an array of its own, and how it is seen.

        Other processes need to get no more then. All parts together are not more than the whole.
        """
        slices = [
            slice(pick, pick + 1) if isinstance(pick, int) else as_slice(pick)
            for pick in spec.picks
        ]
        array = base.array[tuple(slices)]
        taken = self._taken.get(id(base.array), 0) + array.nbytes
        if array.nbytes * _SMALL > base.array.nbytes or taken > base.array.nbytes:
            return base, spec
        self._taken[id(base.array)] = taken
        rest = tuple([0 if isinstance(pick, int) else None for pick in spec.picks])
        return Memory(array, tuple([(n,) for n in array.shape])), Spec(rest, spec.axes)

    def value(self, value: Any) -> Task:
        """Return a task that is a value."""
        leaf: Task = new_leaf(Delayed, VALUE, value)
        return leaf

    def fused_block(self, node: Expr, index: Index) -> Task:
        """Return the task of a block of a program's result, or of what is read by slices."""
        reads, func = self._shared.get((node, "fused")) or self._prepare(node)
        regions, args = [], []
        for read in reads:
            region, arg = read.at(self, index)
            regions.append(region)
            if arg is not None:
                args.append(arg)
        return self.task(func, (Where(index, tuple(regions)), *args), node)

    def _prepare(self, node: Expr) -> tuple[list[_Read], BlockTask]:
        program = getattr(node, "program", None)
        inputs = node.inputs if program is not None else (node,)
        reads = [_Read(self, x, node.ndim) for x in inputs]
        loads = tuple([read.load for read in reads])
        warnings = ArrayWarnings(node.place) if node.place is not None else None
        func = BlockTask(node.name, program, getattr(node, "consts", ()), loads, warnings)
        self._shared[node, "fused"] = reads, func
        return reads, func


class Where:
    """Which block a task makes, and what of its inputs: an argument that is not searched."""

    __slots__ = ("index", "regions")
    _lazyflow_kind = ATOM

    def __init__(self, index: Index, regions: tuple[Any, ...]) -> None:
        self.index = index
        self.regions = regions

    def __reduce__(self) -> Any:
        return Where, (self.index, self.regions)

    def _lazyflow_summary(self) -> str:
        return f"block {self.index}"


class _Read:
    """How blocks of one input of a group are found: what is the same for all, and what is not."""

    def __init__(self, low: Lowering, node: Expr, ndim: int) -> None:
        self.node = node
        self.skipped = ndim - node.ndim
        self.single = [len(sizes) == 1 for sizes in node.chunks]
        base, spec = node, None
        if isinstance(node, View):
            (base,), spec = node.inputs, node.spec
            if isinstance(base, Memory):
                base, spec = low.part(base, spec)
        self.base = base
        self.spec = spec
        self.anywhere = isinstance(base, Memory | Made | Stored)
        if self.anywhere:
            self.bounds = low.bounds(node)
            if spec is None:
                picks = (None,) * base.ndim
                self.spec = spec = Spec(picks, tuple(range(base.ndim)))
        elif spec is not None:
            self.cuts = [
                None if isinstance(pick, int) else [
                    (i, slice(None), n) for i, n in enumerate(base.chunks[axis])
                ] if pick is None else cut(base.chunks[axis], pick)
                for axis, pick in enumerate(spec.picks)
            ]
        self.load = Load(base, spec, node.chunks)

    def at(self, low: Lowering, index: Index) -> tuple[Any, Any]:
        """Return what of the argument is needed for a block, and the argument."""
        own = tuple([
            0 if alone else i for alone, i in zip(self.single, index[self.skipped:], strict=True)
        ])
        region, arg = self._at(low, own)
        if self.load.stretched:
            shape = tuple([sizes[i] for sizes, i in zip(self.node.chunks, own, strict=True)])
            region = region, shape
        return region, arg

    def _at(self, low: Lowering, own: Index) -> tuple[Any, Any]:
        spec = self.spec
        if self.anywhere:
            assert spec is not None
            region = of_base(spec, self.node.chunks, own, self.bounds)
            base = self.base
            if isinstance(base, Memory):  # one object for all tasks, so that it is pickled once
                return region, low.shared(base, "array", read_only, base.array)
            return region, base.store if isinstance(base, Stored) else None
        if spec is None:
            return None, low.block(self.node, own)
        at = {axis: k for k, axis in enumerate(spec.axes) if axis >= 0}
        numbers: list[int] = []
        taken: list[Any] = []
        for axis, cuts in enumerate(self.cuts):
            if cuts is None:
                number, inner = _single(self.base.chunks[axis], spec.picks[axis])
            else:
                number, inner, _ = cuts[own[at[axis]]]
            numbers.append(number)
            taken.append(inner)
        return tuple(taken), low.block(self.base, tuple(numbers))


def _single(chunks: tuple[Any, ...], at: Any) -> tuple[int, Any]:
    for number, n in enumerate(chunks):
        if at < n:
            return number, at
        at -= n
    raise IndexError(at)


class Load:
    """Gets a block of one input inside a task, and lays its axes out."""

    def __init__(self, base: Expr, spec: Spec | None, chunks: Any) -> None:
        self.formula = base.formula if isinstance(base, Made) else None
        self.reader = base.reader if isinstance(base, Stored) else None
        self.order: tuple[int, ...] | None = None
        self.new: tuple[Any, ...] | None = None
        self.stretched = False  # some new axis is not of length 1: regions come with a shape
        if spec is not None:
            kept = [axis for axis, pick in enumerate(spec.picks) if not isinstance(pick, int)]
            order = tuple([kept.index(axis) for axis in spec.axes if axis >= 0])
            if order != tuple(range(len(order))):
                self.order = order
            if any(axis < 0 for axis in spec.axes):
                self.new = tuple([None if axis < 0 else slice(None) for axis in spec.axes])
                self.stretched = any(
                    sizes != (1,) for axis, sizes in zip(spec.axes, chunks, strict=True) if axis < 0
                )

    def __call__(self, region: Any, given: Any) -> Any:
        """Return the block; `given` gives the arguments of the task."""
        if self.stretched:
            region, shape = region
        if self.formula is not None:
            found = self._make(region)
        elif self.reader is not None:
            found = self._read(region, next(given))
        else:
            found = next(given)
            if region is not None:
                found = found[(*region, ...)]  # numbers alone would give an element, no array
        if self.order is not None:
            found = found.transpose(self.order)
        if self.new is not None:
            found = found[self.new]
        if self.stretched:
            found = np.broadcast_to(found, shape)
        return found

    def _make(self, region: Any) -> Any:
        """Formulas make regions of steps 1; what is left of them is a view."""
        plain, rest = _plain(region)
        found = self.formula(plain)  # type: ignore[misc]
        return found if rest is None else found[(*rest, ...)]

    def _read(self, region: Any, store: Any) -> Any:
        plain, rest = _plain(region)
        try:
            found = self.reader(store, plain)  # type: ignore[misc]
        except BaseException as error:
            error.add_note(f"lazyflow: while reading {_shown(plain)} of {_described(store)}")
            raise
        return found if rest is None else found[(*rest, ...)]


def _plain(region: Any) -> tuple[tuple[slice, ...], Any]:
    """Split a region into slices with step 1 and what is taken of these, None: all of it."""
    plain: list[slice] = []
    rest: list[Any] = []
    changed = False
    for one in region:
        if isinstance(one, int):
            plain.append(slice(one, one + 1))
            rest.append(0)
            changed = True
            continue
        start, stop, step = one.start, one.stop, one.step or 1
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

    def __init__(
        self,
        name: str,
        program: Program | None,
        consts: tuple[np.ndarray[Any, Any], ...],
        loads: tuple[Load, ...],
        warnings: ArrayWarnings | None,
    ) -> None:
        self.__name__ = name
        self.warnings = warnings
        self.program = program
        self.consts = consts
        self.loads = loads

    def __call__(self, where: Where, *given: Any) -> Any:
        args = iter(given)
        blocks = [load(r, args) for load, r in zip(self.loads, where.regions, strict=True)]
        if self.program is None:
            return blocks[0]
        from lazyflow.array.kernels.run import run_program  # 25 ms: with the first kernel

        found = run_program(self.program, (*self.consts, *blocks), self.warnings)
        return found[0] if len(found) == 1 else tuple(found)
