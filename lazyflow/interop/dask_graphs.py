"""Schedulers for dask's own collections: ``dask.config.set(scheduler=get)``.

A graph of dask, in any form that dask's own schedulers take, becomes a graph of lazyflow, one task
for each of its tasks. Values between them are passed in boxes that lazyflow does not look into, so
that tasks get what they would get from dask: the objects themselves on threads.

While callbacks of `dask.callbacks` are active, dask's own loop decides, and hands each task to
lazyflow's workers: `ProgressBar`, `Profiler` and `Cache` see what they see under dask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from multiprocessing.pool import Pool
from typing import Any

from dask import config
from dask._task_spec import Alias, DataNode, convert_legacy_graph
from dask.callbacks import Callback, local_callbacks
from dask.core import flatten
from dask.local import MultiprocessingPoolExecutor, get_async, nested_get
from dask.multiprocessing import pack_exception, reraise
from dask.order import order
from dask.utils import key_split

from lazyflow.api.decorator import delayed
from lazyflow.api.evaluate import RunOptions, compute
from lazyflow.api.futures import started
from lazyflow.api.lazy import Delayed
from lazyflow.config import cpu_count
from lazyflow.graph.binding import new_leaf, new_task
from lazyflow.graph.task import VALUE
from lazyflow.schedulers.core.coroutines import finished


class _Box:
    """A value between tasks, or the graph's node in one."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _Node:
    """Calls a task of dask with the values of its dependencies, in the order of `names`."""

    __slots__ = ("names", "node")

    def __init__(self, node: Any, names: tuple[Any, ...]) -> None:
        self.node = node
        self.names = names

    @property
    def __name__(self) -> str:
        return str(key_split(self.node.key))

    def __call__(self, *given: _Box) -> _Box:
        values = {name: box.value for name, box in zip(self.names, given, strict=True)}
        return _Box(self.node(values))


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
        Taken, as dask's schedulers do, and not needed: lazyflow makes batches of tasks by what they
        cost, and pickles by itself.

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
    """Compute keys of a graph of dask on lazyflow's processes; see `get`.

    >>> get_processes({"a": 1, "b": (abs, "a")}, ["b", ["a"]])
    (1, (1,))
    """
    return _computed("processes", dsk, keys, **keywords)


def get_sync(dsk: Any, keys: Any, **keywords: Any) -> Any:
    """Compute keys of a graph of dask in this thread, for debuggers; see `get`.

    >>> get_sync({"a": -1, "b": (abs, "a")}, "b")
    1
    """
    return _computed("sync", dsk, keys, **keywords)


def get_distributed(dsk: Any, keys: Any, **keywords: Any) -> Any:
    """Compute keys of a graph of dask on the workers of the current client; see `get`."""
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
    if not isinstance(dsk, Mapping):
        dsk = dsk.__dask_graph__()
    wanted = list(dict.fromkeys(flatten([keys])))
    tasks = _tasks(convert_legacy_graph(dsk), wanted)
    boxes = compute(
        *[tasks[key] for key in wanted], scheduler=scheduler,
        num_workers=None if scheduler == "sync" else num_workers,
    )
    values = {key: box.value for key, box in zip(wanted, boxes, strict=True)}
    return nested_get(keys, values)


def _tasks(dsk: Mapping[Any, Any], wanted: list[Any]) -> dict[Any, Delayed]:
    """Return a task for each key that is wanted or needed."""
    made: dict[Any, Delayed] = {}
    opened: set[Any] = set()
    stack = list(wanted)
    while stack:
        key = stack[-1]
        if key in made:
            stack.pop()
            continue
        node = dsk[key]
        names = tuple(node.dependencies)
        missing = [name for name in names if name not in made]
        if not missing:
            made[key] = _task(node, names, made)
            stack.pop()
            continue
        if key in opened:  # and what it needs was not made meanwhile
            order(dsk)  # raises dask's error for a cycle
            raise RuntimeError(f"Cycle detected in Dask: {key!r} needs itself")
        opened.add(key)
        absent = [name for name in missing if name not in dsk]
        if absent:
            raise ValueError(f"Missing dependency {absent[0]} for dependents {{{key!r}}}")
        stack += missing
    return made


def _task(node: Any, names: tuple[Any, ...], made: dict[Any, Delayed]) -> Delayed:
    if isinstance(node, Alias):
        return made[node.target]
    task: Delayed
    if isinstance(node, DataNode):
        task = new_leaf(Delayed, VALUE, _Box(node.value))
    else:
        task = new_task(Delayed, _Node(node, names), tuple([made[name] for name in names]))
    return task


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
