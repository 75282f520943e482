"""`Executor`: the interface of `concurrent.futures` on any scheduler.

On threads an executor has threads of its own, as the standard library's has; elsewhere the
workers of the scheduler make its calls.
"""

from __future__ import annotations

import concurrent.futures
import operator
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from functools import partial
from itertools import islice
from types import CodeType
from typing import Any

from lazyflow import config
from lazyflow.api.call_threads import AnyFuture, CallThreads
from lazyflow.api.decorator import delayed
from lazyflow.api.evaluate import (
    RunOptions,
    SchedulerLike,
    always_observers,
    compute,
    observers,
    scheduler_or_default,
)
from lazyflow.api.sent_calls import ExecutorFuture, SentCalls
from lazyflow.finalizers import gone
from lazyflow.graph.task import function_name
from lazyflow.schedulers.core.task_resources import scheduler_here
from lazyflow.schedulers.registry import scheduler_named


class Executor(concurrent.futures.Executor):
    """A `concurrent.futures.Executor` on threads, processes, ``distributed`` or Ray.

    On threads it has threads of its own, so that a call may wait for those of another executor.
    Elsewhere its workers are lazyflow's, and stay warm for the next one. Calls see the context
    variables of their `submit`. Functions and arguments are taken as they are: lazy values and
    futures among them are not looked for.

    A worker process that dies is replaced. Its call runs again as often as ``lazyflow.config``'s
    ``crash_retries`` says, then fails by `lazyflow.WorkerDied`; nothing else fails. Short calls of
    one function go to a process together; when it dies, those that had not been answered run again
    one by one. With ``crash_retries=0``, for calls that must not run twice, each goes by itself.

    Parameters
    ----------
    scheduler
        As for `lazyflow.compute`.
    num_workers
        How many calls run at once. By default as many as there are cores; on clusters as many as
        their workers run.
    initializer, initargs
        A function, and its arguments, that each worker calls before its first call for this
        executor. If it fails, all calls fail by `concurrent.futures.BrokenExecutor`.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.Executor(num_workers=2) as executor:
    ...     list(executor.map(pow, [1, 2, 3], [2, 2, 2]))
    [1, 4, 9]
    """

    def __init__(
        self,
        scheduler: SchedulerLike | None = None,
        num_workers: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be a function or None; got {initializer!r:.100}")
        found = scheduler_or_default(scheduler)
        options = RunOptions("Executor", {}, found, num_workers)
        most = options.num_workers
        if most is None and found.name in ("threads", "processes"):
            most = config.get("num_workers") or config.default_workers()
        self._calls: CallThreads | SentCalls
        if found.name == "threads":
            assert most is not None
            self._calls = CallThreads(most, initializer, initargs)
        else:
            self._calls = SentCalls(options, most, initializer, initargs)
        self._words = f"on {found.name}" + (f", {most} workers" if most else "")
        self._calls.executor_gone = gone(self, self._calls.end_later)

    def __repr__(self) -> str:
        return f"<lazyflow.Executor {self._words}>"

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        """Have ``fn(*args, **kwargs)`` called; return the future of its result.

        Raises
        ------
        RuntimeError
            The executor was shut down.
        BrokenExecutor
            The initializer has failed in a worker.

        Examples
        --------
        >>> import lazyflow
        >>> with lazyflow.Executor() as executor:
        ...     executor.submit(divmod, 17, 5).result()
        (3, 2)
        """
        future: AnyFuture
        if type(self._calls) is SentCalls:
            future = ExecutorFuture(self._calls, _users_line())
        else:
            future = concurrent.futures.Future()
            if always_observers or observers.get():
                fn = partial(_observed, fn)
        self._calls.submit((future, copy_context(), fn, args, kwargs))
        return future

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[Any]:
        """Call a function for every item, at once; return an iterator of the results, in order.

        Parameters
        ----------
        fn, *iterables
            As for the builtin `map`.
        timeout
            Seconds from now after which the iterator raises TimeoutError.
        chunksize
            How many calls are sent together; an error in one is that of its whole chunk.
        buffersize
            At most so many chunks are submitted before the iterator takes the oldest one's
            results; so iterables may be endless. None: all are.

        Examples
        --------
        >>> import itertools, lazyflow
        >>> with lazyflow.Executor() as executor:
        ...     squares = executor.map(pow, itertools.count(), itertools.repeat(2), buffersize=4)
        ...     list(itertools.islice(squares, 3))
        [0, 1, 4]
        """
        for name, number in (("chunksize", chunksize), ("buffersize", buffersize)):
            if number is not None and operator.index(number) < 1:
                raise ValueError(f"{name} must be 1 or more; got {number!r}")
        deadline = None if timeout is None else time.monotonic() + timeout
        items = zip(*iterables, strict=False)
        if chunksize == 1:
            sent = (self.submit(fn, *item) for item in items)
            return _results(deque(islice(sent, buffersize)), sent, deadline)
        chunks = iter(lambda: list(islice(items, chunksize)), [])
        sent = (self.submit(_call_each, fn, chunk) for chunk in chunks)
        return _each_of(_results(deque(islice(sent, buffersize)), sent, deadline))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls.

        Parameters
        ----------
        wait
            Whether to return when all calls have ended.
        cancel_futures
            Whether to cancel the calls that have not begun.

        Examples
        --------
        >>> import lazyflow
        >>> lazyflow.Executor().shutdown()
        """
        self._calls.shut(cancel_futures)
        if wait:
            self._calls.join()


def _users_line() -> tuple[CodeType, int]:
    """Return the code that calls an executor, and the offset in it."""
    frame = sys._getframe(2)
    while frame.f_globals is globals() and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def _observed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Make a call on threads as a task that observers of this context hear of."""
    box: list[Any] = []

    def call() -> None:
        scheduler_here.set(scheduler_named("threads"))
        box.append(function(*args, **kwargs))

    compute(delayed(call, name=function_name(function))(), scheduler="sync")
    return box.pop()


def _results(
    futures: deque[concurrent.futures.Future[Any]],
    more: Iterator[concurrent.futures.Future[Any]],
    deadline: float | None,
) -> Iterator[Any]:
    try:
        while futures:
            left = None if deadline is None else deadline - time.monotonic()
            value = [futures[0].result(left)]
            futures.popleft()
            futures.extend(islice(more, 1))
            yield value.pop()  # and keep none
    finally:
        for future in futures:
            future.cancel()


def _each_of(chunks: Iterator[list[Any]]) -> Iterator[Any]:
    for values in chunks:
        values.reverse()
        while values:
            yield values.pop()


def _call_each(function: Callable[..., Any], items: list[tuple[Any, ...]]) -> list[Any]:
    return [function(*item) for item in items]
