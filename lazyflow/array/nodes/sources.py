"""Where arrays come from: memory, things that are read by slices, formulas, and tasks.

Constants, arrays in memory and fast formulas are `free`: fused operations take their regions in
their own tasks, and other chunks need no copy. A slow formula keeps its chunks, and if several
nodes read it, one task makes each block for all. A store is an argument of the tasks that read it.
An operand in memory is copied if it is small, else watched, so that a later write changes no result
unnoticed.

    >>> import lazyflow.array as la
    >>> [type(x.expr).__name__ for x in (la.ones(4), la.from_array(np.zeros(4)))]
    ['Generated', 'InMemory']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.expr import Expr, LazyDtype, MakesTasks, Source, turned_back
from lazyflow.array.nodes.selection import Index
from lazyflow.graph.task import HELD, Task
from lazyflow.schedulers.core.snapshots import Taken, Watch

Region = tuple[slice, ...]


class Const(Source):
    """A 0-d array with a known value."""

    __slots__ = ("value",)
    free = True

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        super().__init__(value.dtype, ())
        self.value = value

    def key(self) -> Any:
        if self.dtype.hasobject:
            return id(self.value)
        return self.dtype, self.value.tobytes()

    def with_chunks(self, chunks: Chunks) -> Expr:
        return self

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        return low.value(self.value)


class InMemory(Source):
    """A NumPy array, whose blocks are views of it.

    strides
        Those of the array that was given, which `array` may be a copy of.
    """

    __slots__ = ("array", "strides", "watches")
    free = True
    called = "memory"

    def __init__(
        self, array: np.ndarray[Any, Any], chunks: Chunks, watches: Sequence[Watch] = (),
        strides: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(array.dtype, chunks)
        self.array = array
        self.watches = watches
        self.strides = array.strides if strides is None else strides

    @property
    def memory_order(self) -> tuple[int, ...]:
        own, steps = tuple(range(self.ndim)), self.array.strides
        if self.array.flags.c_contiguous or 0 in steps:
            return own
        return turned_back(sorted(own, key=lambda axis: -abs(steps[axis])))

    def key(self) -> Any:
        return id(self.array), self.chunks

    def with_chunks(self, chunks: Chunks) -> Expr:
        return InMemory(self.array, chunks, self.watches, self.strides)


#: Of what NumPy makes new arrays.
_VALUES = (np.generic, int, float, complex, str, list, tuple)


def taken_in(array: np.ndarray[Any, Any], given: Any) -> Source:
    """Return the node of an operand as an array: later writes are not seen, or noticed.

    The rule is that of `lazyflow.submit`: small arrays are copied, larger ones watched.
    """
    if isinstance(given, _VALUES):
        array.setflags(write=False)  # other code can't write into it
    taken, strides = Taken(), array.strides
    array = taken.part(array)
    if not array.ndim:
        return Const(array)
    return InMemory(array, tuple([(n,) for n in array.shape]), taken.watches, strides)


class Generated(Source):
    """An array whose regions are computed by a formula: zeros, ranges, random numbers.

    formula
        Called with a region, slices with start and stop of step 1; returns its values. Hashable,
        and equal if the values are; its name is that of the node in messages. With an attribute
        ``takes_out = True`` it has a keyword ``out``: None, or an array of the region's shape, of
        any strides, which it may write the values into and return. With ``is_quick = True`` its
        values cost about as much as writing them. With ``slow = True`` a part costs more than its
        share of the whole, so chunks stay, and each block is made once. With a method ``reshaped``
        it gives the formula of the same elements in another shape.
    """

    __slots__ = ("formula",)

    def __init__(self, formula: Any, dtype: np.dtype[Any], chunks: Chunks) -> None:
        super().__init__(dtype, chunks)
        self.formula = formula

    @property
    def free(self) -> bool:  # type: ignore[override]
        return not getattr(self.formula, "slow", False)

    @property
    def name(self) -> str:
        return str(self.formula.__name__)

    def with_chunks(self, chunks: Chunks) -> Expr:
        return Generated(self.formula, self.dtype, chunks)


class GeneratedOnce(Expr):
    """A slow formula's array with several readers: one task makes each block for all."""

    __slots__ = ()
    called = "made once"

    def __init__(self, inputs: tuple[Expr, ...]) -> None:
        super().__init__(inputs, inputs[0].dtype, inputs[0].chunks)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        return low.block(self.inputs[0], index)


class Stored(Source):
    """A store that is read by slices: a zarr array, an HDF5 dataset, a user's class.

    store
        An argument of the tasks.
    reader
        Called in a task with the store and a region; its name is that of the node.
    """

    __slots__ = ("reader", "store")

    def __init__(
        self, store: Any, reader: Any, dtype: np.dtype[Any] | LazyDtype, chunks: Chunks
    ) -> None:
        super().__init__(dtype, chunks)
        self.store = store
        self.reader = reader

    @property
    def name(self) -> str:
        return str(self.reader.__name__)

    def key(self) -> Any:
        return id(self.store), self.reader, self.chunks


class TaskBlocks(Source):
    """Blocks that are tasks already: persisted ones, and those of delayed functions.

    tasks
        In C order of the blocks.
    light
        Whether all are short: see evaluation.py.
    readers
        The numbers of readers of the compute's tasks: see lowering.py.
    whole
        The shape of the wanted array if it differs; the elements have the same C order.
    axes
        The order of the wanted array's axes, after it has that shape; None: unchanged.
    order
        Their `memory_order`, if it is not C order.
    """

    __slots__ = ("axes", "light", "order", "readers", "tasks", "whole")
    called = "tasks"

    def __init__(
        self, tasks: Sequence[Task], dtype: np.dtype[Any] | LazyDtype, chunks: Chunks,
        light: bool = False, readers: Mapping[int, int] | None = None,
        whole: tuple[Any, ...] | None = None, axes: tuple[int, ...] | None = None,
        order: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(dtype, chunks)
        self.axes = axes
        self.order = order
        self.tasks = tuple(tasks)
        self.light = light
        self.readers = readers or {}
        self.whole = whole

    @property
    def memory_order(self) -> tuple[int, ...]:
        return self.order or super().memory_order

    @property
    def held(self) -> bool:
        """Whether all blocks are held, or are already being computed."""
        return all(task._func is HELD for task in self.tasks)

    def key(self) -> Any:
        return *map(id, self.tasks), self.chunks

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        at = 0
        for i, count in zip(index, self.numblocks, strict=True):
            at = at * count + i
        return self.tasks[at]
