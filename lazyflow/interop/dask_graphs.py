"""Schedulers for dask's own collections: ``dask.config.set(scheduler=get)``.

A graph of dask, in any form that dask's own schedulers take, becomes a graph of lazyflow, one task
for each of its tasks. Values between them are passed in boxes that lazyflow does not look into, so
that tasks get the same objects as under dask: on threads, the objects themselves.

While callbacks of `dask.callbacks` are active, dask's own loop decides, and hands each task to
lazyflow's workers: `ProgressBar`, `Profiler` and `Cache` work as under dask.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from itertools import chain
from multiprocessing.pool import Pool
from typing import Any

from dask import config
from dask._task_spec import (
    Alias,
    DataNode,
    GraphNode,
    Task,
    TaskRef,
    _execute_subgraph,
    convert_legacy_graph,
)
from dask.callbacks import Callback, local_callbacks
from dask.core import flatten
from dask.delayed import optimize as cull_delayed
from dask.highlevelgraph import MaterializedLayer
from dask.local import MultiprocessingPoolExecutor, get_async, nested_get
from dask.multiprocessing import pack_exception, reraise
from dask.order import order
from dask.utils import key_split

from lazyflow.api.decorator import delayed
from lazyflow.api.evaluate import RunOptions, compute
from lazyflow.api.futures import started
from lazyflow.api.lazy import Delayed
from lazyflow.config import cpu_count
from lazyflow.graph.kinds import TypeTable
from lazyflow.graph.options import DEFAULT
from lazyflow.graph.task import VALUE, Place, height_over
from lazyflow.graph.task import Task as GraphTask
from lazyflow.schedulers.core.coroutines import finished
from lazyflow.schedulers.core.errors.words import summary


class _Box:
    """A value between tasks."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def _lazyflow_summary(self) -> str:
        return summary(self.value)


class _Node:
    """Calls a node of a graph of dask with the values of its dependencies, in order of `names`."""

    __slots__ = ("names", "node")

    def __init__(self, node: Any, names: Sequence[Any]) -> None:
        self.node = node
        self.names = names

    @property
    def __name__(self) -> str:
        return str(key_split(self.node.key))

    def __call__(self, *given: Any) -> _Box:
        __tracebackhide__ = True
        node = self.node
        values = dict(zip(self.names, [box.value for box in given], strict=True))
        return _Box(_evaluations[type(node)](node, values))


class _FlatNode(_Node):
    """Calls the function of a node whose arguments are values of others and literals.

    `names` are the positions of those values, empty where no argument or every one is such.
    """

    __slots__ = ()

    def __call__(self, *given: Any) -> _Box:
        __tracebackhide__ = True
        node, at = self.node, self.names
        if not given:
            return _Box(node.func(*node.args))
        values = [box.value for box in given]
        if at:
            args = list(node.args)
            for position, value in zip(at, values, strict=True):
                args[position] = value
            values = args
        return _Box(node.func(*values))


# -- the evaluation of dask's nodes --------------------------------------------------------
#
# `Task.__call__` of dask checks and copies the values for each node in a node. Here they are known
# to be there.


def _called(task: Any, values: Mapping[Any, Any]) -> Any:
    __tracebackhide__ = True
    func = task.func
    args = []
    for arg in task.args:
        evaluate = _evaluations[type(arg)]
        args.append(arg if evaluate is None else evaluate(arg, values))
    if func is _execute_subgraph:
        return _fused(*args)
    if not task.kwargs:
        return func(*args)
    kwargs = {}
    for name, arg in task.kwargs.items():
        evaluate = _evaluations[type(arg)]
        kwargs[name] = arg if evaluate is None else evaluate(arg, values)
    return func(*args, **kwargs)


def _fused(graph: Mapping[Any, Any], wanted: Any, names: Sequence[Any], *given: Any) -> Any:
    """Return the results of a fused task's tasks; each value is dropped after its last use."""
    __tracebackhide__ = True
    values = dict(zip(names, given, strict=True))
    uses = Counter(chain.from_iterable([node.dependencies for node in graph.values()]))
    done = set(names)
    stack = [wanted]
    while stack:
        key = stack.pop()
        if key in done:
            continue
        node = graph[key]
        missing = node.dependencies.difference(done)
        if missing:
            stack += (key, *missing)
            continue
        done.add(key)
        values[key] = _evaluations[type(node)](node, values)
        for name in node.dependencies:
            uses[name] -= 1
            if not uses[name]:
                del values[name]
    return values[wanted]


def _evaluation(kind: type) -> Callable[[Any, Mapping[Any, Any]], Any] | None:
    """Return a function that evaluates an argument of this type; None for a literal."""
    if issubclass(kind, Task) and kind.__call__ is Task.__call__:
        return _called
    if issubclass(kind, GraphNode):
        return kind.__call__
    return (lambda ref, values: values[ref.key]) if issubclass(kind, TaskRef) else None


_evaluations: TypeTable[Any] = TypeTable(_evaluation)

_NOT_NEEDED = frozenset({"optimize_graph", "func_loads", "func_dumps"})


def get(dsk: Any, keys: Any, **keywords: Any) -> Any:
    """Compute keys of a graph of dask on lazyflow's threads, as `dask.threaded.get` does.

    Parameters
    ----------
    dsk, keys
        The graph, and a key or a nested list of keys.
    num_workers, pool
        How many threads; or the executor that runs the tasks in their stead.
    cache, callbacks, rerun_exceptions_locally
        As for dask's schedulers.
    chunksize, optimize_graph, func_loads, func_dumps
        Accepted, as by dask's schedulers, without effect: lazyflow makes batches of tasks by their
        measured durations, and has a pickler of its own.

    Raises
    ------
    KeyError
        There is no such key in the graph.
    ValueError
        A task needs a key that is not there.
    RuntimeError
        Tasks need each other in a cycle, which the message lists.
    TypeError
        There is no such keyword.

    Examples
    --------
    >>> import dask
    >>> with dask.config.set(scheduler=get):
    ...     dask.delayed(sum)([dask.delayed(abs)(-1), 2]).compute()
    3
    """
    return _computed("threads", dsk, keys, **keywords)


def get_processes(dsk: Any, keys: Any, **keywords: Any) -> Any:
    """Compute keys of a graph of dask on lazyflow's processes; see `get`, also for what it raises.

    >>> get_processes({"a": 1, "b": (abs, "a")}, ["b", ["a"]])
    (1, (1,))
    """
    return _computed("processes", dsk, keys, **keywords)


def get_sync(dsk: Any, keys: Any, **keywords: Any) -> Any:
    """Compute keys of a graph of dask in this thread, for debuggers; it raises what `get` does.

    >>> get_sync({"a": -1, "b": (abs, "a")}, "b")
    1
    """
    return _computed("sync", dsk, keys, **keywords)


def get_distributed(dsk: Any, keys: Any, **keywords: Any) -> Any:
    """Compute keys of a graph of dask on the workers of the current client, as `get` does here.

    >>> import distributed
    >>> with distributed.Client(processes=False, dashboard_address=None):
    ...     get_distributed({"a": 1, "b": (abs, "a")}, ["b", ["a"]])
    (1, (1,))
    """
    return _computed("distributed", dsk, keys, **keywords)


def _computed(
    scheduler: Any, dsk: Any, keys: Any, *, num_workers: int | None = None, pool: Any = None,
    cache: Any = None, callbacks: Any = None, rerun_exceptions_locally: bool | None = None,
    chunksize: int | None = None, **others: Any,
) -> Any:
    for word in others.keys() - _NOT_NEEDED:
        raise TypeError(
            f"a scheduler of lazyflow for dask got the keyword {word!r}; it takes num_workers, "
            "pool, cache, callbacks and rerun_exceptions_locally"
        )
    pool = pool or config.get("pool", None)
    if pool is not None and scheduler in ("threads", "processes"):
        scheduler = MultiprocessingPoolExecutor(pool) if isinstance(pool, Pool) else pool
    num_workers = num_workers or config.get("num_workers", None)
    cache = cache if cache is not None else config.get("cache", None)
    rerun = rerun_exceptions_locally or config.get("rerun_exceptions_locally", False)
    if callbacks or Callback.active or rerun or cache is not None:
        with local_callbacks(callbacks) as active:
            return get_async(
                _submits_to(scheduler, num_workers), num_workers or cpu_count(), dsk, keys,
                cache=cache, callbacks=list(active), rerun_exceptions_locally=rerun,
                pack_exception=pack_exception, raise_exception=reraise, chunksize=chunksize,
            )
    dsk = _graph_of(dsk)
    wanted = list(dict.fromkeys(flatten([keys])))
    tasks = tasks_of(convert_legacy_graph(dsk), wanted)
    boxes = compute(
        *[tasks[key] for key in wanted], scheduler=scheduler,
        num_workers=None if scheduler == "sync" else num_workers,
    )
    values = {key: box.value for key, box in zip(wanted, boxes, strict=True)}
    return nested_get(keys, values)


def _graph_of(dsk: Any) -> Any:
    """Return the graph in the object that dask gives a scheduler.

    The optimisation of delayed only culls the graph, layer by layer of one task, which
    takes longer than to run it: it is left out, since tasks are made of the needed nodes alone.
    """
    if isinstance(dsk, Mapping):
        return dsk
    from dask._expr import HLGExpr, _HLGExprSequence  # dask before 2025.4 has graphs only

    parts = dsk.operands if isinstance(dsk, _HLGExprSequence) else (dsk,)
    if config.get("optimization.fuse.delayed", False) or not all(
        isinstance(part, HLGExpr) and part.low_level_optimizer is cull_delayed for part in parts
    ):
        return dsk.__dask_graph__()
    graph: dict[Any, Any] = {}
    for part in parts:
        for layer in part.hlg.layers.values():
            graph.update(layer.mapping if type(layer) is MaterializedLayer else layer)
    return graph


def tasks_of(dsk: Mapping[Any, Any], wanted: list[Any]) -> dict[Any, Delayed]:
    """Return a task for each key that is wanted or needed."""
    made: dict[Any, Delayed] = {}
    opened: set[Any] = set()
    stack = list(wanted)
    place = _users_place()
    while stack:
        key = stack.pop()
        if key in made:
            continue
        node = dsk[key]
        names = node.dependencies
        missing = names.difference(made)
        if not missing:
            made[key] = _task(node, tuple(names), made, place)
            continue
        if key in opened:  # and its inputs were not made meanwhile
            order(dsk)  # raises dask's error for a cycle
            raise RuntimeError(f"Cycle detected in Dask: {key!r} needs itself")
        opened.add(key)
        absent = missing.difference(dsk)
        if absent:
            raise ValueError(f"Missing dependency {next(iter(absent))} for dependents {{{key!r}}}")
        stack.append(key)
        stack += missing
    return made


def _task(node: Any, names: Any, made: dict[Any, Delayed], place: Place) -> Delayed:
    """Return the task of a node whose dependencies have theirs; by its fields, as it is the way of
    every task of a graph.
    """
    task: Any = object.__new__(GraphTask)
    if type(node) is Task:
        task._func, inputs = _call_of(node, names, made)
        task._args = inputs
    elif isinstance(node, Alias):
        return made[node.target]
    elif isinstance(node, DataNode):
        task._func, task._args, inputs = VALUE, (_Box(node.value),), ()
    else:
        task._func, inputs = _Node(node, names), tuple([made[name] for name in names])
        task._args = inputs
    task._inputs = inputs
    task._bind = task._key = None
    task._options = DEFAULT
    task._code, task._lasti = place, 0
    task._height = height_over(inputs)
    task.__class__ = Delayed
    made_here: Delayed = task
    return made_here


def _call_of(
    node: Any, names: Any, made: dict[Any, Delayed]
) -> tuple[_Node, tuple[Delayed, ...]]:
    """Return the function that calls a node, and the tasks of its inputs in order."""
    if not node.kwargs and node.func is not _execute_subgraph:
        inputs, positions = [], []
        for at, arg in enumerate(node.args):
            if type(arg) is TaskRef:
                inputs.append(made[arg.key])
                positions.append(at)
            elif _evaluations[type(arg)] is not None:
                break
        else:
            mixed = 0 < len(positions) < len(node.args)
            return _FlatNode(node, positions if mixed else ()), tuple(inputs)
    return _Node(node, names), tuple([made[name] for name in names])


def _users_place() -> Place:
    """Return the innermost line that is neither lazyflow's nor dask's."""
    frame: Any = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(("lazyflow.", "dask.")):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname


def _submits_to(scheduler: Any, num_workers: int | None) -> Callable[..., Any]:
    """Return ``submit(f, *args)`` of an executor of lazyflow's workers, or of a given one."""
    if isinstance(scheduler, Executor):
        return scheduler.submit
    options = RunOptions("get", {}, scheduler, None if scheduler == "sync" else num_workers)

    def submit(func: Callable[..., Any], *args: Any) -> Any:
        return started([delayed(_unboxed, traverse=False)(_Box((func, args)))], options)[0]

    return submit


def _unboxed(box: _Box) -> Any:
    func, args = box.value
    return finished(func(*args))
