"""Lazy values and arrays of lazyflow as dask's, and dask's as lazyflow's; nothing is computed.

A task of one graph becomes a task of the other. Under dask, lazyflow's tasks keep their options,
such as retries, and their results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any
from uuid import uuid4

import numpy as np
from dask._task_spec import Alias, GraphNode, Task, TaskRef, convert_legacy_graph
from dask.base import normalize_token
from dask.core import flatten
from dask.delayed import Delayed as DaskDelayed
from dask.delayed import optimize, single_key
from dask.highlevelgraph import HighLevelGraph
from dask.threaded import get
from dask.utils import ensure_dict, key_split

from lazyflow.api.collection import Collection, assemble
from lazyflow.api.evaluate import compute
from lazyflow.api.lazy import DaskCollection, Delayed
from lazyflow.array.core import Array
from lazyflow.array.nodes.expr import LazyDtype
from lazyflow.array.nodes.sources import TaskBlocks
from lazyflow.finalizers import WeakTable
from lazyflow.graph.binding import new_leaf, new_task
from lazyflow.graph.kinds import FOREIGN, LAZY, kinds
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.plan import key_of, make_plan
from lazyflow.graph.task import VALUE
from lazyflow.graph.task import Task as GraphTask
from lazyflow.interop.dask_graphs import tasks_of
from lazyflow.services import service

# -- lazyflow's as dask's -----------------------------------------------------------------


class _TaskFunction:
    """A task of lazyflow as a function, of the values of those inputs that are not in it.

    It runs as lazyflow runs it, in the thread that calls: with its retries, and arguments that are
    its own or read-only.
    """

    __slots__ = ("holes", "task")

    def __init__(self, task: Any, holes: tuple[int, ...]) -> None:
        self.task = task
        self.holes = holes

    @property
    def __name__(self) -> str:
        return str(key_split(key_of(self.task)))

    def __call__(self, *given: Any) -> Any:
        __tracebackhide__ = True
        inputs = list(self.task._inputs)
        for at, value in zip(self.holes, given, strict=True):
            inputs[at] = new_leaf(Delayed, VALUE, value)
        return compute(self.task._with_inputs(tuple(inputs)), scheduler="sync")[0]


def _graph(
    wanted: Sequence[GraphTask], names: Mapping[int, Any]
) -> tuple[dict[Any, Any], list[Any]]:
    """Return a graph of dask that computes tasks, and their keys in it.

    `names` are the keys of some of them, by their numbers.
    """
    plan = make_plan(wanted)
    keys: dict[int, Any] = {}
    graph: dict[Any, Any] = {}
    for i, output in enumerate(plan.outputs):
        if i in names and keys.setdefault(output, names[i]) != names[i]:
            graph[names[i]] = Alias(names[i], keys[output])
    wanted_here = set(plan.outputs)
    literal = {i for i in plan.leaves if plan.tasks[i]._func is VALUE}
    for i, (task, inputs) in enumerate(zip(plan.tasks, plan.inputs, strict=True)):
        if i in literal and i not in wanted_here:
            continue
        key = keys.setdefault(i, key_of(task))
        given = [(at, j) for at, j in enumerate(inputs or ()) if j not in literal]
        parts: list[Any] = [plan.tasks[j] for j in inputs or ()]
        for at, _ in given:
            parts[at] = _GIVEN
        step = _TaskFunction(task._with_inputs(tuple(parts)), tuple([at for at, _ in given]))  # type: ignore[attr-defined]
        graph[key] = Task(key, step, *[TaskRef(keys[j]) for _, j in given])
    return graph, [names.get(i, keys[output]) for i, output in enumerate(plan.outputs)]


#: Stands among the inputs of a `_TaskFunction` for one that dask gives.
_GIVEN = new_leaf(Delayed, VALUE, None)


@dataclass(frozen=True)
class _Parts:
    """The parts of a lazy value for dask; `made` has the same tasks, None if that is the value."""

    graph: Any
    keys: list[Any]
    made: Any
    optimize = staticmethod(optimize)
    get = staticmethod(get)

    def joins(self, x: Any) -> tuple[Any, ...]:
        if isinstance(x, GraphTask):
            return (single_key,)
        return _joined, self._object(x)._finalizer()

    def rebuilds(self, x: Any) -> tuple[Any, ...]:
        return _rebuilt, self.keys, x if isinstance(x, GraphTask) else self._object(x)

    def _object(self, x: Any) -> Any:
        return x if self.made is None else self.made


def _joined(values: list[Any], finalizer: Any) -> Any:
    return assemble(finalizer, list(values))


def _rebuilt(
    graph: Mapping[Any, Any], keys: list[Any], x: Any, rename: Mapping[str, str] | None = None
) -> Any:
    """Return a lazy value of results, or futures of a cluster, by key.

    Of a graph that dask has optimized, which has no other tasks, it is the value itself.
    """
    if any(isinstance(graph[key], GraphNode) for key in keys):
        return x
    leaves = [_leaf(graph[key]) for key in keys]
    return leaves[0] if isinstance(x, GraphTask) else x.__lazyflow_rebuild__(leaves)


def _leaf(value: Any) -> Delayed:
    is_future = kinds[type(value)] == FOREIGN and not hasattr(value, "__dask_graph__")
    leaf: Delayed = (
        service("dask_task")(value) if is_future else new_leaf(Delayed, VALUE, value)
    )
    return leaf


#: By the task or collection, or the expression of an array, which may be assigned to.
_parts: WeakTable[Any, _Parts] = WeakTable()


def dask_parts(x: Any) -> _Parts:
    """Return the parts of a lazy value for dask; the same object as long as the value exists."""
    subject = x.expr if isinstance(x, Array) else x
    known = _parts.get(subject)
    if known is None:
        made, tasks = None, [x]
        if isinstance(x, Collection):
            (made,) = type(x).__lazyflow_optimize__([x])
            tasks = list(made.__lazyflow_tasks__())
        graph, keys = _graph(tasks, {})
        layers = HighLevelGraph.from_collections(f"lazyflow-{uuid4()}", graph)
        known = _parts.setdefault(subject, _Parts(layers, keys, None if made is x else made))
    return known


@normalize_token.register(DaskCollection)
def _token(x: Any) -> Any:
    return type(x).__name__, dask_parts(x).keys


def to_dask(x: Any) -> Any:
    """Return a lazy value or an array as dask's: `dask.delayed.Delayed`, or `dask.array.Array`.

    Parameters
    ----------
    x
        An array keeps its chunks and dtype; lengths that are not known are NaN. A lazy value keeps
        its key. Another collection becomes one lazy value.

    Raises
    ------
    TypeError
        It is not lazy.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> from lazyflow.interop.dask import to_dask
    >>> x = to_dask(la.arange(6, chunks=4) * 2)
    >>> x.chunks, x.dtype, x[::-1].sum().compute()
    (((4, 2),), dtype('int64'), np.int64(30))
    """
    if type(x) is Array:
        return _array_of_dask(x)
    if isinstance(x, Collection):
        x = x.__lazyflow_value__()
    if kinds[type(x)] != LAZY:
        raise TypeError(
            f"to_dask() takes a lazy value or an array of lazyflow; got a {type(x).__name__}. For "
            "a value that is there write dask.delayed(x), or dask.array.from_array(x)"
        )
    (key,) = dask_parts(x).keys
    graph = HighLevelGraph.from_collections(key, ensure_dict(dask_parts(x).graph))
    return DaskDelayed(key, graph, length=x._options.nout)


def _array_of_dask(x: Array) -> Any:
    import dask.array as da

    (made,) = type(x).__lazyflow_optimize__([x])
    name = f"{x.expr.name.replace(' ', '-')}-{uuid4().hex}"
    places = np.ndindex(*x.numblocks)
    graph, _ = _graph(made.__lazyflow_tasks__(), {i: (name, *at) for i, at in enumerate(places)})
    chunks = tuple([tuple([nan if n is None else n for n in sizes]) for sizes in x.chunks])
    layers = HighLevelGraph.from_collections(name, graph)
    kind = x.expr.kind
    return da.Array(layers, name, chunks, dtype=x.dtype, meta=kind)


# -- dask's as lazyflow's -----------------------------------------------------------------


def from_dask(x: Any) -> Any:
    """Return a `Delayed` or an array of dask as lazyflow's; each of its tasks is one here.

    Parameters
    ----------
    x
        An array keeps its chunks and dtype; lengths that are not known are None. A `Delayed` keeps
        its key.

    Raises
    ------
    TypeError
        It is neither; a bag or a frame becomes one by ``x.to_delayed()``, a list of `Delayed`.

    Examples
    --------
    >>> import dask.array as da
    >>> from lazyflow.interop.dask import from_dask
    >>> x = from_dask(da.arange(6, chunks=4) * 2)
    >>> x.chunks, x.dtype, x[::-1].sum().compute()
    (((4, 2),), dtype('int64'), np.int64(30))
    """
    if isinstance(x, DaskDelayed):
        graph = x.__dask_graph__()
        graph = graph if isinstance(graph, Mapping) else graph.__dask_graph__()
        options = DEFAULT.replace(label=str(key_split(x.key)), nout=x._length)
        boxes = tuple(_boxed(graph, [x.key]))
        return new_task(Delayed, _value, boxes, options=options, key=str(x.key), depth=2)
    import dask.array as da

    if not isinstance(x, da.Array):
        raise TypeError(
            f"from_dask() takes a Delayed or an array of dask; got a {type(x).__name__}. Pass it "
            "as an argument of a delayed function, where it is one task, or the items of "
            "x.to_delayed() one by one"
        )
    if isinstance(x._meta, np.ma.MaskedArray):
        raise TypeError(
            "from_dask() would lose the mask of an array. Fill it first: "
            "dask.array.ma.filled(x, value)"
        )
    keys = list(flatten(x.__dask_keys__()))
    boxed = _boxed(x.__dask_optimize__(x.dask, keys), keys)
    known = LazyDtype.like(x._meta) if not isinstance(x._meta, np.ndarray) else x.dtype
    label = DEFAULT.replace(label=str(key_split(x.name)))
    blocks = [
        new_task(Delayed, _block, (box, x.dtype), options=label, key=str(key), depth=2)
        for key, box in zip(keys, boxed, strict=True)
    ]
    chunks = tuple([tuple([None if n != n else n for n in sizes]) for sizes in x.chunks])
    return Array(TaskBlocks(blocks, known, chunks))


def _boxed(graph: Any, keys: list[Any]) -> list[Delayed]:
    made = tasks_of(convert_legacy_graph(ensure_dict(graph)), keys)
    return [made[key] for key in keys]


def _value(box: Any) -> Any:
    return box.value


def _block(box: Any, dtype: np.dtype[Any]) -> Any:
    """Return a block with the dtype of its array; dask passes on results as they are."""
    block = box.value
    if np.isscalar(block):
        block = np.asarray(block)
    return block if block.dtype == dtype else block.astype(dtype, casting="same_kind")
