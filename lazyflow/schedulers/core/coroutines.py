"""Coroutines of tasks: a call runs to its end on the event loop of its thread.

The same holds for a coroutine that any other callable returns.

When its run is given up, the coroutine is cancelled, so that its `finally` blocks run. Ray ends the
worker process instead.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial, update_wrapper
from types import CoroutineType, MethodType, TracebackType
from typing import Any

from lazyflow.finalizers import LastCall
from lazyflow.schedulers.core.task_resources import current_task
from lazyflow.system import at_fork

#: By the function that cancels a coroutine under way: its run, or its thread if it has no run.
_under_way: dict[Callable[[], Any], Any] = {}


def cancels_of(owner: Any) -> list[Callable[[], Any]]:
    """Return functions that cancel the coroutines under way for a run, or for a thread's ident."""
    return [cancel for cancel, whose in _under_way.copy().items() if whose == owner]


def cancel_all(cancels: list[Callable[[], Any]]) -> None:
    """Cancel coroutines, from any thread; nothing happens to those that have ended."""
    for cancel in cancels:
        with suppress(RuntimeError):  # the loop was closed
            cancel()


async def _cancellable(coroutine: Coroutine[Any, Any, Any], owner: Any) -> Any:
    import asyncio

    task: Any = asyncio.current_task()
    cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
    _under_way[cancel] = owner
    try:
        if getattr(owner, "over", False):  # it was given up before it could see this
            task.cancel()
        return await coroutine
    finally:
        _under_way.pop(cancel, None)  # a child of a fork has none
        del task, cancel, owner, coroutine  # the frame may stay with an error


def finished(value: Any) -> Any:
    """Return the result of a call; if that is a coroutine, the result of the coroutine."""
    while value.__class__ is CoroutineType:
        try:
            value = to_the_end(value)
        except BaseException as error:
            raise error.with_traceback(_of_the_users(error.__traceback__))  # noqa: B904 - itself
    return value


class Awaited:
    """A coroutine function as a plain function, whose call runs the coroutine to its end."""

    def __init__(self, func: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self.__wrapped__: Callable[..., Coroutine[Any, Any, Any]]
        update_wrapper(self, func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return finished(self.__wrapped__(*args, **kwargs))

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        return self if obj is None else MethodType(self, obj)

    def __reduce__(self) -> tuple[Any, ...]:
        return Awaited, (self.__wrapped__,)


def _of_the_users(trace: TracebackType | None) -> TracebackType | None:
    """Drop the frames of lazyflow and the event loop above those of the coroutine."""
    at = trace
    while at is not None and at.tb_frame.f_globals.get("__name__", "").partition(".")[0] in (
        "lazyflow", "asyncio", "concurrent",
    ):
        at = at.tb_next
    return at or trace


class _Loop:
    """The event loop of a thread, made on first use and closed when the thread ends."""

    def __init__(self) -> None:
        import asyncio

        self.runner = asyncio.Runner()
        self._end = LastCall(self.runner.get_loop().close)


_mine = threading.local()


def to_the_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end; if a loop runs in this thread, in another thread beside it."""
    import asyncio

    owner = (current_task() or (None,))[0]
    coroutine = _cancellable(coroutine, threading.get_ident() if owner is None else owner)
    context = contextvars.copy_context()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        known = getattr(_mine, "loop", None)
        if known is None:
            known = _mine.loop = _Loop()
        runner = known.runner
        del known  # in a frame that stays with an error it would outlive the thread
        return runner.run(coroutine, context=context)
    from concurrent.futures import ThreadPoolExecutor  # asyncio has imported it

    beside = ThreadPoolExecutor(1, "lazyflow-coroutine")
    try:
        return beside.submit(context.run, asyncio.run, coroutine).result()
    finally:
        beside.shutdown(wait=False)


at_fork(after_in_child=_under_way.clear)
