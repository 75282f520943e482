"""Futures: values whose computation has started, returned by `submit`, `map` and `put`.

A `Future` is a `concurrent.futures.Future` that can be awaited. It is also a collection of one
task: like a `Delayed`, it can be an argument of lazy calls and of other submits, at any depth. Its
state::

    _inner :: TaskFuture     value and error; every question is answered from it
    _leaf :: Delayed         the task that stands for the value in graphs
    _state, _waiters, _done_callbacks     of the standard library, for its `wait` and
                                          `as_completed`; set by `_tell` when `_inner` is done

Users' callbacks have a thread of their own, since a callback may compute, or wait for another
future: the threads that run tasks or drive worker processes must not wait for that.
"""

from __future__ import annotations

import concurrent.futures
import copy as copying
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar, overload

from lazyflow.api.collection import Collection
from lazyflow.api.decorator import (
    OF_A_TASK,
    DelayedFunction,
    check_keywords,
    delayed,
    gathered,
    make_function,
)
from lazyflow.api.evaluate import (
    RunOptions,
    SchedulerLike,
    remember,
    retry,
    scheduler_or_default,
    start_background,
)
from lazyflow.api.hints import unknown_keyword
from lazyflow.api.lazy import Delayed, table_html
from lazyflow.api.waiting import woken_by
from lazyflow.errors import SerializationError, TaskTimeout
from lazyflow.graph.arguments import read_only
from lazyflow.graph.binding import new_leaf, new_task
from lazyflow.graph.kinds import ARRAY, ATOM, COLLECTION, FRAME, IMMUTABLE, ITERATOR, LAZY, kinds
from lazyflow.graph.options import annotation, check_options
from lazyflow.graph.plan import make_plan
from lazyflow.graph.task import HELD, Task, function_name, place_text
from lazyflow.logs import ERROR, log
from lazyflow.schedulers.core.base import Puts, provides
from lazyflow.schedulers.core.coroutines import finished
from lazyflow.schedulers.core.errors.failures import interrupted
from lazyflow.schedulers.core.errors.words import on_pages, summary
from lazyflow.schedulers.core.future import CANCELLED, FAILED, TaskFuture, wait_for
from lazyflow.schedulers.core.unfinished import unfinished
from lazyflow.store.ownership import ResultHandover
from lazyflow.system import at_fork

T = TypeVar("T")

class Future(concurrent.futures.Future[T], Collection):
    """A value that exists or will exist; returned by `submit`, `map`, `put` and actors' methods.

    Use it as an argument of delayed functions and of `submit`, in `compute`, `persist`, `wait`
    and `as_completed`. Dropping the last reference frees the value; submitted work still runs.
    A future can't be pickled: pass it as an argument, and the task gets its value.

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
        """Wake threads that wait by the standard library, and have the user's callbacks called."""
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
            _call_later(callback, self)

    # -- the outcome ------------------------------------------------------------------------

    def result(self, timeout: float | None = None) -> T:
        """Wait for the value and return it; it belongs to the caller, who may change it.

        Raises
        ------
        Exception
            The error of the task, with its own traceback and a note about the task.
        TaskTimeout
            There was no value after `timeout` seconds; the work continues.
        Cancelled
            The future was cancelled.

        Examples
        --------
        >>> from lazyflow import submit
        >>> submit(divmod, 17, 5).result(timeout=60)
        (3, 2)
        """
        __tracebackhide__ = True  # for IPython and pytest
        try:
            outcome = self._inner.outcome() if self._is_there(timeout) else None
        except KeyboardInterrupt as interrupt:
            raise interrupted(interrupt) from None
        if outcome is None:
            raise self._late(timeout)
        value, error = outcome
        if error is not None:
            try:
                raise error
            finally:
                del error, outcome, self
        own: T = ResultHandover([] if self._inner.is_elsewhere() else [value])(value)
        return own

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the task and return its error; None when it has a value.

        A cancelled future returns a `Cancelled`; that of the standard library raises.

        Raises
        ------
        TaskTimeout
            The task has not ended after `timeout` seconds; the work continues.

        Examples
        --------
        >>> from lazyflow import submit
        >>> submit(int, "three").exception()
        ValueError("invalid literal for int() with base 10: 'three'")
        """
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
            f"{self._inner.name} has no result after {timeout:g} s; its work continues. Call "
            "result() again, or stop it by future.cancel()"
        )

    @property
    def status(self) -> str:
        """The state: ``"pending"``, ``"finished"``, ``"error"`` or ``"cancelled"``.

        Examples
        --------
        >>> from lazyflow import put
        >>> put(3).status
        'finished'
        """
        return "error" if self._inner.state is FAILED else self._inner.state

    def retry(self) -> None:
        """Run a failed task again, after the failed tasks among its arguments.

        This future then stands for the new result. A future that has not failed is unchanged.

        Raises
        ------
        ValueError
            The future was cancelled, or is a call of an actor.

        Examples
        --------
        >>> from lazyflow import submit
        >>> prices = {}
        >>> x = submit(lambda: prices["apple"])
        >>> x.exception()
        KeyError('apple')
        >>> prices["apple"] = 2
        >>> x.retry()
        >>> x.result()
        2
        """
        retry(self._inner, Future._reopen)

    def _reopen(self) -> None:
        self._state = "PENDING"
        self._inner.add_callback(self._tell)

    def done(self) -> bool:
        """Tell whether `result` would return or raise at once.

        Examples
        --------
        >>> from lazyflow import submit, wait
        >>> x = submit(abs, -1)
        >>> done, pending = wait(x)
        >>> x.done()
        True
        """
        return self._inner.done()

    def cancelled(self) -> bool:
        """Tell whether the future was cancelled.

        Examples
        --------
        >>> from lazyflow import put
        >>> put(1).cancelled()
        False
        """
        return self._inner.state is CANCELLED

    def running(self) -> bool:
        """Tell whether the task of the future is running now.

        ``distributed`` and Ray do not report when a call of an actor begins: there the result is
        True if the call was sent and no other call is before it.

        Examples
        --------
        >>> from lazyflow import put
        >>> put(1).running()
        False
        """
        at = self._inner.run
        return at is not None and any(worker.now() == at for worker in tuple(at[0].inside))

    def cancel(self, force: bool = False) -> bool:
        """Cancel the work; return False if the value was there already.

        A task that has not begun is not started. A running coroutine is cancelled; other running
        tasks continue, unless `force` ends their worker (schedulers with processes).

        Raises
        ------
        ValueError
            With `force`, if the scheduler can't end tasks (sync, threads and executors).

        Examples
        --------
        >>> from threading import Event
        >>> from lazyflow import submit
        >>> event = Event()
        >>> x = submit(event.wait)
        >>> x.cancel(), x.cancelled()
        (True, True)
        >>> event.set()
        """
        return self._inner.cancel(force)

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Call ``fn(future)`` when the future is done, in a thread for callbacks.

        Callbacks may wait and compute; their errors are logged.

        Examples
        --------
        >>> from queue import SimpleQueue
        >>> from lazyflow import submit
        >>> results = SimpleQueue()
        >>> submit(abs, -3).add_done_callback(lambda future: results.put(future.result()))
        >>> results.get(timeout=60)
        3
        """
        with self._condition:
            if self._state == "PENDING":
                self._done_callbacks.append(fn)
                return
        _call_later(fn, self)

    def __await__(self) -> Generator[Any, None, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        import asyncio

        await woken_by(self._inner)
        if self._inner.is_elsewhere():  # bringing it here would block the loop
            return await asyncio.get_running_loop().run_in_executor(None, self.result)
        return self.result()

    def _refuse_outcome(self, *_: Any) -> Any:
        raise TypeError(
            "the task of a lazyflow future sets its outcome. For a future that you set yourself, "
            "use concurrent.futures.Future()"
        )

    set_result = set_exception = set_running_or_notify_cancel = _refuse_outcome  # type: ignore

    # -- as a lazy value --------------------------------------------------------------------

    def __lazyflow_tasks__(self) -> Sequence[Task]:
        return [self._leaf]

    def __lazyflow_value__(self) -> Task:
        return self._leaf

    def __lazyflow_finalize__(self, values: list[Any]) -> Any:
        return values[0]

    def __lazyflow_rebuild__(self, tasks: Sequence[Task]) -> Future[T]:
        return self  # its task holds the value already

    # -- text and copies --------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Future {self._inner.name}: {self._inner.state}>"

    def _repr_html_(self) -> str:
        inner = self._inner
        rows = {"task": inner.name, "state": self.status}
        if inner.done():
            value, error = inner.local_outcome()
            if error is not None:
                rows["error"] = type(error).__name__
            else:
                rows["value"] = (
                    "elsewhere, until it is asked for" if inner.is_elsewhere()
                    else summary(value, scalars=on_pages()))
        return table_html("Future", rows | {"made at": place_text(self._leaf)})

    def __copy__(self) -> Future[T]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Future[T]:
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


# -- the thread for callbacks ---------------------------------------------------------------

_callbacks: SimpleQueue[tuple[Callable[[Any], object], Any]] = SimpleQueue()
_has_thread: list[None] = []  # not empty: the thread is running
_lock = threading.Lock()


def _call_later(callback: Callable[[Any], object], argument: Any) -> None:
    """Have a callback called in the thread for callbacks, after the earlier ones."""
    _callbacks.put((callback, argument))
    if not _has_thread:
        with _lock:
            if not _has_thread:
                threading.Thread(target=_call_back, name="lazyflow-callbacks", daemon=True).start()
                _has_thread.append(None)


def _call_back() -> None:
    while True:
        callback, argument = _callbacks.get()
        try:
            callback(argument)
        except BaseException as error:  # SystemExit too: the others must still be called
            log(ERROR, "a callback of %r failed", argument, error=error)
        del callback, argument


def _in_fork() -> None:
    global _callbacks, _lock
    _callbacks, _lock = SimpleQueue(), threading.Lock()
    _has_thread.clear()


at_fork(after_in_child=_in_fork)


# -- functions that return futures: `submit` and `map` start calls, `put` shares a value


def started(
    tasks: Sequence[Task], options: RunOptions, made_at: Sequence[Task] | None = None
) -> list[Future]:
    """Start tasks that run to their ends even when their futures are dropped.

    made_at
        Tasks that were made at the lines that the futures show.
    """
    _, inners = start_background(make_plan(tasks, options.optimize_graph), options)
    futures = []
    for inner, task, there in zip(inners, tasks, made_at or tasks, strict=True):
        if not inner.done():
            unfinished.add(inner)  # a run holds its futures weakly
            inner.add_callback(unfinished.discard)
        future: Future[Any] = Future(inner, new_leaf(Delayed, HELD, inner, made_at=there))
        remember(inner, task, future)
        futures.append(future)
    return futures


@overload
def submit(func: DelayedFunction[..., T], /, *args: Any, **kwargs: Any) -> Future[T]: ...
@overload
def submit(func: Delayed[T], /) -> Future[T]: ...
@overload
def submit(
    func: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any
) -> Future[T]: ...
@overload
def submit(func: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]: ...
def submit(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Start a call in the background and return the future of its result.

    The call runs even if its result is never asked for: the end of the program waits for it, for
    at most ``config.exit_timeout`` seconds.

    The scheduler is that of `config` (``with lazyflow.config.set(scheduler="processes")``), else
    the one that holds the futures among the arguments, else threads.

    Parameters
    ----------
    func
        Any callable. The options of a delayed function apply (retries, priority, ...);
        ``nout=n`` gives a tuple of n futures. A lazy value is started as it is, and takes
        no arguments.
    *args, **kwargs
        The arguments. Futures and lazy values among them, at any depth, are replaced by their
        values. Arrays up to 64 KiB are copied now. Do not fill a larger one again before the call
        has ended: the call then raises `InputMutated`.

    Raises
    ------
    TypeError
        `func` is not callable, or is a lazy value and has arguments; or a keyword is an option of
        tasks that `func` does not take.

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
        items = list(task)
        return tuple(started(items, options, [task] * len(items)))
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
    func: Callable[..., T],
    /,
    *iterables: Iterable[Any],
    batch: int | str = "auto",
    scheduler: SchedulerLike | None = None,
    num_workers: int | None = None,
    retries: int | None = None,
    **unknown: Any,
) -> list[Future[T]]:
    """Call a function for every item, in the background, and return the futures of the results.

    Parameters
    ----------
    func, *iterables
        As for the builtin `map`, which ends with the shortest iterable. Lazy values among the
        items are replaced by their values.
    batch
        How many calls make one task. ``"auto"``: one; schedulers with expensive messages then
        send several tasks in a message, depending on their measured durations. With a number, an
        error in one call fails its whole batch. Calls that edit their arguments (``mutates=True``)
        or take lazy ones as they are (``traverse=False``) are tasks of their own.
    scheduler, num_workers
        As for `compute`.
    retries
        How often to run a call again after an exception; by default the ``retries`` of a delayed
        function.

    Raises
    ------
    TypeError
        `func` is not callable, there are no iterables, or a keyword is unknown.
    ValueError
        `batch`, `num_workers` or `retries` is too small, or the scheduler is unknown.

    Examples
    --------
    >>> import lazyflow
    >>> [f.result() for f in lazyflow.map(pow, [1, 2, 3], [2, 2, 2])]
    [1, 4, 9]
    """
    if unknown:
        raise unknown_keyword("map", unknown, OF_A_TASK)
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
    single = lazy._called_options
    if batch == "auto" or batch == 1 or single.mutates or not lazy._traverse:
        for item in items:  # a comprehension would be a frame between, until Python 3.12
            tasks.append(_call_of(lazy, item, {}))  # noqa: PERF401
        return started(tasks, options)
    assert isinstance(batch, int)
    if (annotated := annotation.get()) is not None:
        single = annotated.apply(single)
    named = single.label or function_name(lazy.__wrapped__)
    places: list[Task] = []
    for start in range(0, len(items), batch):
        part = items[start : start + batch]
        own = single.replace(
            label=f"{named} x {len(part)}", nout=len(part), hide=bool(single.hide)
        )
        many = make_function(_call_each, own, lazy._traverse)
        task = _call_of(many, (lazy.__wrapped__, part), {})
        tasks += list(task)
        places += [task] * len(part)
    return started(tasks, options, places)


def _call_each(func: Callable[..., Any], items: list[tuple[Any, ...]]) -> list[Any]:
    return [finished(func(*item)) for item in items]


#: Kinds in which `put` looks for no futures.
_SINGLE = frozenset({ATOM, ARRAY, FRAME, ITERATOR, LAZY, COLLECTION})


@overload
def put(
    value: Future[T], copy: bool = True, scheduler: SchedulerLike | None = None
) -> Future[T]: ...
@overload
def put(value: T, copy: bool = True, scheduler: SchedulerLike | None = None) -> Future[T]: ...
def put(value: Any, copy: bool = True, scheduler: SchedulerLike | None = None) -> Any:
    """Send a value to the workers once, and return a future that stands for it in any call.

    Without this, every compute sends a large argument again. On processes, `put` values lie in
    shared memory, where every worker reads them without a copy.

    Parameters
    ----------
    value
        Any object; on schedulers with processes, one that can be pickled. Futures and lazy
        values in it are replaced by their values once these exist.
    copy
        True: take a snapshot now, so that later edits of `value` have no effect. False: schedulers
        that share the caller's memory keep `value` itself, which must not change any more.
    scheduler
        The scheduler that will use it; by default that of `config`, else threads.

    Raises
    ------
    TypeError
        On sync and threads, the value can't be copied.
    SerializationError
        On schedulers with processes, it can't be pickled.
    StoreFull
        On processes, there is no room for it in shared memory.

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
    """Return the stored form of a value where tasks share the memory of this process."""
    if kinds[type(value)] == ARRAY:
        return read_only(value.copy() if copy else value)
    if not copy or type(value) in IMMUTABLE:
        return value
    try:
        return copying.deepcopy(value)
    except Exception as error:
        raise TypeError(
            f"put() takes a snapshot, and {summary(value)} can't be copied: "
            f"{type(error).__name__}: {error}. If nothing will change it, write put(x, copy=False)"
        ) from error
