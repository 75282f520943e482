"""What makes futures: `submit` and `map` start calls, `put` gives a value to the workers."""

from __future__ import annotations

import copy as copying
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lazyflow.api.decorator import DelayedFunction, check_keywords, delayed, gathered
from lazyflow.api.futures import Future
from lazyflow.api.lazy import Delayed
from lazyflow.api.run_options import RunOptions, SchedulerLike, scheduler_or_default
from lazyflow.api.runs import remember, start_background
from lazyflow.graph.arguments import read_only
from lazyflow.graph.building import new_leaf, new_task
from lazyflow.graph.kinds import (
    ARRAY,
    ATOM,
    COLLECTION,
    FRAME,
    IMMUTABLE,
    ITERATOR,
    LAZY,
    kinds,
)
from lazyflow.graph.options import check_options
from lazyflow.graph.passes import make_plan
from lazyflow.graph.task import HELD, Task, function_name
from lazyflow.schedulers.core.base import Puts, provides
from lazyflow.schedulers.core.coroutines import finished
from lazyflow.schedulers.core.errors.words import summary
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.unfinished import unfinished

__all__ = ["map", "put", "submit"]


def started(tasks: Sequence[Task], options: RunOptions) -> list[Future]:
    """Start tasks that run to their ends even when their futures are dropped."""
    _, inners = start_background(make_plan(tasks, options.optimize_graph), options)
    futures = []
    for inner, task in zip(inners, tasks, strict=True):
        if not inner.done():
            unfinished.add(inner)  # a run holds its futures weakly
            inner.add_callback(unfinished.discard)
        future = Future(inner, new_leaf(Delayed, HELD, inner, made_at=task))
        remember(inner, task, future)
        futures.append(future)
    return futures


def submit(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function in the background, now, and return the future of its result.

    It is done even if nobody asks for the result: the end of the program waits for it, at most
    for the seconds of ``config.exit_timeout``.

    The scheduler is `config`'s (``with lazyflow.config.set(scheduler="processes")``), else the one
    where the futures among the arguments live, else threads.

    Parameters
    ----------
    func
        Any callable. The options of a delayed function apply (retries, priority, ...); with
        ``nout=n`` a tuple of n futures is returned. A lazy value is started as it is, and takes
        no arguments.
    *args, **kwargs
        The arguments; the function gets the values of futures and lazy values among them, at any
        depth.

    Examples
    --------
    >>> from lazyflow import submit
    >>> a = submit(divmod, 17, 5)
    >>> submit(sum, a).result()
    5
    """
    options = RunOptions("submit", {})
    if kinds[type(func)] in (LAZY, COLLECTION) and not isinstance(func, DelayedFunction):
        if args or kwargs:
            raise TypeError(
                f"{func!r:.100} is a lazy value and takes no arguments: submit(x) starts it and "
                "compute(x) returns its value; for a call write submit(f, ...)"
            )
        return started([delayed(func)], options)[0]
    check_keywords(func, kwargs)
    task = _call_of(_made_lazy(func, "submit"), args, kwargs)
    if task._options.nout is not None:
        return tuple(started(list(task), options))
    return started([task], options)[0]


def _made_lazy(func: Any, name: str) -> DelayedFunction:
    if isinstance(func, DelayedFunction):
        return func
    if not callable(func):
        raise TypeError(
            f"{name}() takes a function and its arguments; got {type(func).__name__} as the "
            f"function. Did you write {name}(f(x)) for {name}(f, x)?"
        )
    made: DelayedFunction = delayed(func)
    return made


def _call_of(lazy: DelayedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Delayed:
    """Return the task of a call that the user's line, two frames above, asked for."""
    task: Delayed = new_task(
        Delayed, lazy.__wrapped__, args, kwargs, lazy._called_options,
        traverse=lazy._traverse, depth=3,
    )
    return task


def map(
    func: Callable[..., Any],
    /,
    *iterables: Iterable[Any],
    batch: int | str = "auto",
    scheduler: SchedulerLike | None = None,
    num_workers: int | None = None,
    retries: int | None = None,
) -> list[Future]:
    """Call a function for every item, in the background, and return the futures of the results.

    Parameters
    ----------
    func, *iterables
        As for the builtin: it ends with the shortest. The function gets the values of lazy
        values among the items.
    batch
        How many calls make one task. ``"auto"``: one; schedulers with expensive messages then
        send several tasks in a message, by their measured durations. With a number, an error in
        one call is the error of its whole batch.
    scheduler, num_workers
        As for `compute`.
    retries
        How often to run a call again that raised; by default the ``retries`` of a delayed
        function.

    Examples
    --------
    >>> import lazyflow
    >>> [f.result() for f in lazyflow.map(pow, [1, 2, 3], [2, 2, 2])]
    [1, 4, 9]
    """
    if not iterables:
        raise TypeError("map() needs items to call the function with: map(f, [1, 2, 3])")
    if batch != "auto" and not (type(batch) is int and batch >= 1):
        raise ValueError(f"batch must be 'auto' or a whole number, 1 or more; got {batch!r}")
    options = RunOptions("map", {}, scheduler, num_workers)
    items = list(zip(*iterables, strict=False))
    if not items:
        return []
    lazy = _made_lazy(func, "map")
    if retries is not None:
        check_options(retries=retries)
        lazy = lazy._with_retries(retries)
    tasks: list[Task] = []
    if batch == "auto" or batch == 1:
        for item in items:  # a comprehension would be a frame between, until Python 3.12
            tasks.append(_call_of(lazy, item, {}))  # noqa: PERF401
        return started(tasks, options)
    assert isinstance(batch, int)
    for start in range(0, len(items), batch):
        part = items[start : start + batch]
        name = f"{function_name(lazy.__wrapped__)} x {len(part)}"
        many = delayed(
            _call_each, name=name, nout=len(part), traverse=lazy._traverse,
            retries=lazy._called_options.retries,
        )
        tasks += list(_call_of(many, (lazy.__wrapped__, part), {}))
    return started(tasks, options)


def _call_each(func: Callable[..., Any], items: list[tuple[Any, ...]]) -> list[Any]:
    return [finished(func(*item)) for item in items]


#: Kinds in which `put` looks for no futures.
_SINGLE = frozenset({ATOM, ARRAY, FRAME, ITERATOR, LAZY, COLLECTION})


def put(value: Any, copy: bool = True, scheduler: SchedulerLike | None = None) -> Future:
    """Give a value to the workers once, and return a future that stands for it in any call.

    Without this, a large argument travels once for every compute that it is given to; values put
    on processes lie in shared memory, where every worker reads them without a copy.

    Parameters
    ----------
    value
        Any object; on schedulers with processes, one that can be pickled. Of futures and lazy
        values in it the values are put, when they are there.
    copy
        True: a snapshot is taken now, and later edits of `value` are not seen. False: schedulers
        that share the caller's memory keep `value` itself, which must not change any more.
    scheduler
        Where it will be used; left out: `config`'s, else threads.

    Examples
    --------
    >>> import lazyflow
    >>> data = [1, 2, 3]
    >>> x = lazyflow.put(data)
    >>> data.append(4)
    >>> lazyflow.submit(sum, x).result()
    6
    """
    if isinstance(value, Future):
        return value
    if kinds[type(value)] not in _SINGLE:
        lazy = new_task(Delayed, gathered, (value,), depth=2)
        if any(each._func is HELD for each in lazy._inputs):  # futures: their values are put
            return started([lazy], RunOptions("put", {}, scheduler))[0]
    inner = TaskFuture(f"put({summary(value, scalars=False)})", scheduler_or_default(scheduler))
    leaf = new_leaf(Delayed, HELD, inner, depth=2)
    keeper = inner.scheduler
    kept = keeper.put(value, leaf) if provides(keeper, Puts) else _snapshot(value, copy)
    inner.set_value(kept)
    return Future(inner, leaf)


def _snapshot(value: Any, copy: bool) -> Any:
    """Return what stands for a value where tasks share the memory of this process."""
    if kinds[type(value)] == ARRAY:
        return read_only(value.copy() if copy else value)
    if not copy or type(value) in IMMUTABLE:
        return value
    try:
        return copying.deepcopy(value)
    except Exception as error:
        raise TypeError(
            f"put() takes a snapshot, and {summary(value)} can't be copied: "
            f"{type(error).__name__}: {error}. If it will not be changed: put(x, copy=False)"
        ) from error
