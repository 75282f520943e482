"""Futures: values that are being computed already, returned by `submit`, `map` and `put`.

A `Future` is a `concurrent.futures.Future`, which can be awaited; and it is a collection of one
task: an argument of lazy calls and of other submits, at any depth, beside `Delayed`.

Users' callbacks have a thread of their own, since one may compute, or wait for another future:
the threads that run tasks or drive worker processes must not wait for that.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
from collections.abc import Callable, Generator, Sequence
from queue import SimpleQueue
from typing import Any

from lazyflow.api.collection import Collection
from lazyflow.api.lazy import Delayed
from lazyflow.api.runs import retry
from lazyflow.api.waiting import woken_by
from lazyflow.errors import SerializationError, TaskTimeout
from lazyflow.graph.building import new_leaf
from lazyflow.graph.task import HELD, Task
from lazyflow.schedulers.core.errors.failures import interrupted
from lazyflow.schedulers.core.future import CANCELLED, FAILED, TaskFuture, wait_for
from lazyflow.store.owned import ResultHandover

__all__ = ["Future"]


class Future(concurrent.futures.Future[Any], Collection):
    """A value that exists or will exist; returned by `submit`, `map`, `put` and actors' methods.

    Use it as an argument of delayed functions and of `submit`, in `compute`, `persist`, `wait`
    and `as_completed`. Dropping the last reference frees the value; submitted work is done all
    the same. A future can't be pickled: pass it as an argument, and the task gets its value.

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
        """Wake what waits through the standard library, and have the user's callbacks called."""
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

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the value and return it; it belongs to the caller, who may change it.

        Raises
        ------
        Exception
            The error of the task, with its own traceback and a note about the task.
        TaskTimeout
            There was no value after `timeout` seconds; the work goes on.
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
        return ResultHandover([] if self._inner.is_elsewhere() else [value])(value)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the task and return its error; None when it has a value.

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
            f"{self._inner.name} has no result after {timeout:g} s; it goes on. Ask again, or "
            "give it up by future.cancel()"
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
        """Run a failed task again, and before it the failed tasks among its arguments.

        This future then stands for the new result. A future that has not failed is left as it
        is.

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

        ``distributed`` and Ray do not report when a call of an actor begins: there this tells
        whether the call was sent and no other call is before it.

        Examples
        --------
        >>> from lazyflow import put
        >>> put(1).running()
        False
        """
        at = self._inner.run
        return at is not None and any(worker.now() == at for worker in tuple(at[0].inside))

    def cancel(self, force: bool = False) -> bool:
        """Give the value up; return whether it was not there yet.

        A task that has not begun is not started. Of running tasks, a submitted coroutine is
        cancelled; others run on, unless `force` ends their worker (schedulers with processes).

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
        """Have ``fn(future)`` called when the future is done, in a thread for callbacks.

        Callbacks may wait and compute; the error of one is logged.

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

    def __await__(self) -> Generator[Any, None, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        import asyncio

        await woken_by(self._inner)
        if self._inner.is_elsewhere():  # bringing it here would block the loop
            return await asyncio.get_running_loop().run_in_executor(None, self.result)
        return self.result()

    def _refuse_outcome(self, *_: Any) -> Any:
        raise TypeError(
            "the outcome of a lazyflow future is set by its task. For one that you set yourself "
            "take concurrent.futures.Future()"
        )

    set_result = set_exception = set_running_or_notify_cancel = _refuse_outcome  # type: ignore

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
        except BaseException:  # SystemExit too: the others must still be called
            import logging

            logging.getLogger("lazyflow").exception("a callback of %r failed", argument)
        del callback, argument


def _in_fork() -> None:
    global _callbacks, _lock
    _callbacks, _lock = SimpleQueue(), threading.Lock()
    _has_thread.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_fork)
