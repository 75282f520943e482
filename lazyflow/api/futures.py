"""Futures: values that are being computed already, as `submit`, `map` and `put` give them.

A `Future` is a `concurrent.futures.Future`, which can be awaited; and it is a collection of one
task: an argument of lazy calls and of other submits, at any depth, beside `Delayed`.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from lazyflow.api import snapshots
from lazyflow.api.callbacks import call_later
from lazyflow.api.collection import Collection
from lazyflow.api.decorator import DelayedFunction, check_words, delayed
from lazyflow.api.lazy import Delayed
from lazyflow.api.retrying import remember, retry
from lazyflow.api.run_options import RunOptions
from lazyflow.api.runs import start_background
from lazyflow.api.waiting import woken_by
from lazyflow.errors import SerializationError, TaskTimeout
from lazyflow.graph.building import new_leaf, new_task
from lazyflow.graph.kinds import COLLECTION, LAZY, kinds
from lazyflow.graph.options import check_options
from lazyflow.graph.passes import make_plan
from lazyflow.graph.task import HELD, Task, function_name
from lazyflow.schedulers.core.errors.failures import interrupted
from lazyflow.schedulers.core.future import CANCELLED, FAILED, TaskFuture, wait_for
from lazyflow.store.owned import Releaser

__all__ = ["Future", "map", "put", "submit"]

#: What was submitted runs also when nobody holds its future: a run knows its futures weakly.
_unfinished: set[TaskFuture] = set()


class Future(concurrent.futures.Future[Any], Collection):
    """A value that exists or will; made by `submit`, `map`, `put` and the methods of actors.

    Use it as an argument of delayed functions and of `submit`, in `compute`, `persist`, `wait` and
    `as_completed`. Dropping the last reference frees the value; work that was submitted is done
    all the same. A future can't be pickled: pass it as an argument, so that its task gets the
    value.

    Examples
    --------
    >>> from lazyflow import delayed, submit
    >>> x = submit(pow, 2, 10)
    >>> x.result()
    1024
    >>> submit(sum, [x, delayed(abs)(-1)]).result()
    1025
    """

    def __init__(self, inner: TaskFuture, leaf: Delayed | None = None) -> None:
        super().__init__()
        self._inner = inner
        self._leaf: Delayed = leaf if leaf is not None else new_leaf(Delayed, HELD, inner, depth=2)
        inner.add_callback(self._tell)

    def _tell(self, inner: TaskFuture) -> None:
        """Tell who waits by the standard library; the user's callbacks have a thread of theirs."""
        is_cancelled = inner.state is CANCELLED
        with self._condition:
            self._state = "CANCELLED_AND_NOTIFIED" if is_cancelled else "FINISHED"
            for waiter in self._waiters:
                if is_cancelled:
                    waiter.add_cancelled(self)
                elif inner.state is FAILED:
                    waiter.add_exception(self)
                else:
                    waiter.add_result(self)
            self._condition.notify_all()
            callbacks: list[Any] = self._done_callbacks
            self._done_callbacks: list[Any] = []
        for callback in callbacks:
            call_later(callback, self)

    # -- the outcome ------------------------------------------------------------------------

    def result(self, timeout: float | None = None) -> Any:
        """Return the value, waiting for it; it is the caller's own, and writable.

        Raises
        ------
        Exception
            What the task raised, with its own traceback and a note about the task.
        TaskTimeout
            It was not there after `timeout` seconds; the work goes on.
        Cancelled
            It was cancelled.
        """
        try:
            found = self._inner.outcome() if self._is_there(timeout) else None
        except KeyboardInterrupt as interrupt:
            raise interrupted(interrupt) from None
        if found is None:
            raise self._late(timeout)
        value, error = found
        if error is not None:
            try:
                raise error
            finally:
                del error, found, self
        return Releaser([] if self._inner.is_elsewhere() else [value])(value)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return what the task raised, waiting for its end; None when it has a value."""
        try:
            is_there = self._is_there(timeout)
        except KeyboardInterrupt as interrupt:
            raise interrupted(interrupt) from None
        if not is_there:
            raise self._late(timeout)
        return self._inner.local_outcome()[1]

    def _is_there(self, timeout: float | None) -> bool:
        return wait_for([self._inner], timeout=timeout)

    def _late(self, timeout: float | None) -> TaskTimeout:
        return TaskTimeout(
            f"{self._inner.name} has no result after {timeout:g} s; it goes on. Ask again, or "
            "give it up by future.cancel()"
        )

    @property
    def status(self) -> str:
        """``"pending"``, ``"finished"``, ``"error"`` or ``"cancelled"``."""
        return "error" if self._inner.state is FAILED else self._inner.state

    def retry(self) -> None:
        """Run the task again if it failed, and before it failed ones that its arguments wait for.

        This future stands for the new result. One that has not failed is left as it is.

        Raises
        ------
        ValueError
            It was cancelled, or is a call of an actor.
        """
        retry(self._inner, Future._reopen)

    def _reopen(self) -> None:
        self._state = "PENDING"
        self._inner.add_callback(self._tell)

    def done(self) -> bool:
        """Tell whether `result` would return or raise at once."""
        return self._inner.done()

    def cancelled(self) -> bool:
        """Tell whether it was cancelled."""
        return self._inner.state is CANCELLED

    def running(self) -> bool:
        """Tell whether its task runs now.

        Of a call of an actor on ``distributed`` or Ray, which do not tell of beginnings: whether it
        was sent there and no other call is before it.
        """
        at = self._inner.run
        return at is not None and any(worker.now() == at for worker in tuple(at[0].inside))

    def cancel(self, force: bool = False) -> bool:
        """Give the value up; returns whether that came in time.

        What has not begun will not. Of tasks that run, a submitted coroutine is cancelled; others
        are left alone, unless `force` ends their worker (schedulers with processes).
        """
        return self._inner.cancel(force)

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Have ``fn(future)`` called when it is done, at once if it is, in a thread for callbacks.

        Callbacks may wait and compute; one that raises is logged.
        """
        with self._condition:
            if self._state == "PENDING":
                self._done_callbacks.append(fn)
                return
        call_later(fn, self)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        import asyncio

        await woken_by(self._inner)
        if self._inner.is_elsewhere():  # bringing it takes time that the loop has better uses for
            return await asyncio.get_running_loop().run_in_executor(None, self.result)
        return self.result()

    def _not_yours(self, *_: Any) -> Any:
        raise TypeError(
            "the outcome of a lazyflow future is set by its task. For one that you set yourself "
            "take concurrent.futures.Future()"
        )

    set_result = set_exception = set_running_or_notify_cancel = _not_yours  # type: ignore

    # -- as a lazy value --------------------------------------------------------------------

    def __lazyflow_tasks__(self) -> Sequence[Task]:
        return [self._leaf]

    def __lazyflow_value__(self) -> Task:
        return self._leaf

    def __lazyflow_finalize__(self, values: list[Any]) -> Any:
        return values[0]

    def __lazyflow_rebuild__(self, tasks: Sequence[Task]) -> Future:
        return self  # what it is made of is held already

    # -- text and copies --------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Future {self._inner.name}: {self._inner.state}>"

    def __copy__(self) -> Future:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Future:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise SerializationError(
            f"{self!r} can't be pickled: a future belongs to this process. Pass it as an argument "
            "(delayed(f)(future), submit(f, future), also inside lists and dicts) and the task "
            "gets its value; don't hide it in an object or a closure. To store or return it, take "
            "future.result()"
        )

    def __bool__(self) -> bool:
        return True


def started(tasks: Sequence[Task], options: RunOptions) -> list[Future]:
    """Start tasks that are run whether or not somebody holds their futures."""
    _, inners = start_background(make_plan(tasks, options.optimize_graph), options)
    futures = []
    for inner, task in zip(inners, tasks, strict=True):
        if not inner.done():
            _unfinished.add(inner)
            inner.add_callback(_unfinished.discard)
        future = Future(inner, new_leaf(Delayed, HELD, inner, made_at=task))
        remember(inner, task, future)
        futures.append(future)
    return futures


# -- submit, map, put -----------------------------------------------------------------------


def submit(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function in the background, now, and return the future of its result.

    The scheduler is `config`'s (``with lazyflow.config.set(scheduler="processes")``), else the one
    where the futures among the arguments live, else threads.

    Parameters
    ----------
    func
        Any callable, or a delayed one, whose options hold (retries, priority, ...); with
        ``nout=n`` a tuple of n futures is returned.
    *args, **kwargs
        Its arguments; futures and lazy values among them, at any depth, arrive as their values.
        For a lazy value in the place of the function there are none: it is started as it is.

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
    check_words(func, kwargs)
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
    """Make the task of a call that the user's line asked for, two frames above."""
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
    scheduler: Any = None,
    num_workers: int | None = None,
    retries: int | None = None,
) -> list[Future]:
    """Call a function for every item, in the background, and return the futures of the results.

    Parameters
    ----------
    func, *iterables
        As for the builtin: it ends with the shortest. Lazy values among the items arrive as
        their values.
    batch
        How many calls make one task. ``"auto"``: one, and schedulers for which a message is dear
        send many tasks in one, by their measured durations. With a number, an error in one
        call is that of its whole batch.
    scheduler, num_workers
        As for `compute`.
    retries
        How often to run a call again that raised; left out: what ``delayed(f, retries=n)`` said.

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
    return [func(*item) for item in items]


def put(value: Any, copy: bool = True, scheduler: Any = None) -> Future:
    """Give a value to the workers once, and return a future that stands for it in any call.

    Without this, a large argument travels once for every compute that it is given to; values put
    on processes lie in shared memory, where every worker reads them without a copy.

    Parameters
    ----------
    value
        Anything; on schedulers with processes, what can be pickled.
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
    inner = snapshots.new_future(value, scheduler)
    leaf = new_leaf(Delayed, HELD, inner, depth=2)
    snapshots.keep(value, copy, leaf)
    return Future(inner, leaf)
