"""Waiting for futures and persisted values: `wait`, `gather`, and ``await x``."""

from __future__ import annotations

import threading
from typing import Any

from lazyflow.api.evaluate import compute
from lazyflow.api.run_options import RunOptions
from lazyflow.api.runs import held_values, start_background
from lazyflow.graph.kinds import COLLECTION, LAZY, kinds
from lazyflow.graph.passes import make_plan
from lazyflow.graph.task import HELD
from lazyflow.schedulers.core.current_worker import asleep, here
from lazyflow.schedulers.core.errors.failures import interrupted
from lazyflow.schedulers.core.future import TaskFuture, wait_for
from lazyflow.store.owned import ResultHandover

__all__ = ["gather", "wait"]


class _Awaiting(threading.local):
    count = 0  # coroutines of this thread that wait
    asleep: Any = None


_awaiting = _Awaiting()


def _enter() -> None:
    """Give up the worker's slot when the first task on this thread's event loop waits."""
    _awaiting.count += 1
    if _awaiting.count == 1 and here.worker is not None:
        _awaiting.asleep = asleep()
        _awaiting.asleep.__enter__()


def _leave() -> None:
    """Take a slot again when no task on this thread's event loop waits any more."""
    _awaiting.count -= 1
    if not _awaiting.count and _awaiting.asleep is not None:
        entered, _awaiting.asleep = _awaiting.asleep, None
        entered.__exit__(None, None, None)


async def woken_by(future: TaskFuture) -> None:
    """Wait until a future is done, without blocking the event loop."""
    import asyncio

    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def wake_loop(_: TaskFuture) -> None:
        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:  # the loop was closed: nothing waits on it
            pass

    future.add_callback(wake_loop)
    _enter()
    try:
        await woken
    finally:
        _leave()
        future.remove_callback(wake_loop)


async def awaited(x: Any) -> Any:
    """Compute one lazy value without blocking the event loop; cancelling this cancels its work."""
    import asyncio

    __tracebackhide__ = True  # for IPython and pytest
    plan = make_plan([x])
    _, (future,) = start_background(plan, RunOptions("await", {}))
    try:
        await woken_by(future)
    except asyncio.CancelledError:
        future.cancel()
        raise
    if future.is_elsewhere():  # bringing it here would block the loop
        value, error = await asyncio.get_running_loop().run_in_executor(None, future.outcome)
    else:
        value, error = future.outcome()
    if error is not None:
        raise error
    return ResultHandover(held_values(plan))(value)


def future_of(x: Any) -> TaskFuture:
    """Return the future of a persisted value; the error for others says how to get one."""
    if kinds[type(x)] == LAZY and x._func is HELD:
        future: TaskFuture = x._args[0]
        return future
    raise TypeError(
        f"{x!r:.100} is not running: only futures and what persist(...) returned can be waited "
        "for or cancelled. Write: x, = lazyflow.persist(x)"
    )


def wait(
    fs: Any, num_returns: int | None = None, timeout: float | None = None
) -> tuple[list[Any], list[Any]]:
    """Wait until `num_returns` of these are done: by default all (Ray waits for one).

    Parameters
    ----------
    fs
        A future or a persisted value, or a list of them.
    num_returns
        The number of values to wait for; None waits for all.
    timeout
        Seconds, after which the function returns; it does not raise.

    Returns
    -------
    done, pending
        Both in the order of `fs`. A failed or cancelled value is done.

    Examples
    --------
    >>> from lazyflow import delayed, persist, wait
    >>> xs = persist(*[delayed(abs)(-i) for i in range(3)])
    >>> done, pending = wait(xs)
    >>> len(done), pending
    (3, [])
    """
    items = items_of(fs)
    if kinds[type(num_returns)] in (LAZY, COLLECTION):
        raise TypeError("wait() takes one list of futures and persisted values: wait([a, b])")
    if num_returns is not None and not 0 <= num_returns <= len(items):
        raise ValueError(
            f"num_returns must be between 0 and the number of values ({len(items)}); "
            f"got {num_returns!r}"
        )
    futures = [whole_of(x) for x in items]
    try:
        wait_for(futures, num_returns, timeout, parts_of(items))
    except KeyboardInterrupt as error:
        raise interrupted(error) from None
    done = [x for x, f in zip(items, futures, strict=True) if f.done()]
    pending = [x for x, f in zip(items, futures, strict=True) if not f.done()]
    return done, pending


def gather(futures: Any, errors: str = "raise") -> Any:
    """Return the values of futures and persisted values, in the places where they are.

    Parameters
    ----------
    futures
        A future, or a nesting of containers of them.
    errors
        ``"raise"`` the first error; ``"skip"`` failed futures of a list.

    Examples
    --------
    >>> import lazyflow
    >>> lazyflow.gather({"a": lazyflow.submit(abs, -1), "b": [lazyflow.submit(abs, -2)]})
    {'a': 1, 'b': [2]}
    """
    __tracebackhide__ = True  # for IPython and pytest
    if errors not in ("raise", "skip"):
        raise ValueError(f"errors must be 'raise' or 'skip'; got {errors!r}")
    if errors == "skip":
        items = items_of(futures)
        wholes = [whole_of(x) for x in items]
        wait_for(wholes, behind=parts_of(items))
        futures = [x for x, f in zip(items, wholes, strict=True) if f.local_outcome()[1] is None]
    (found,) = compute(futures)
    return found


def items_of(fs: Any) -> list[Any]:
    """Return futures and persisted values as a list, also a single one."""
    return [fs] if kinds[type(fs)] in (LAZY, COLLECTION) else list(fs)


def whole_of(x: Any) -> TaskFuture:
    """Return a future that is done when all tasks of a value are."""
    return _all_of(parts_of([x]))


def parts_of(items: list[Any]) -> list[TaskFuture]:
    """Return the futures of all tasks of these values."""
    found: list[TaskFuture] = []
    for x in items:
        if kinds[type(x)] == COLLECTION:
            found.extend(map(future_of, x.__lazyflow_tasks__()))
        else:
            found.append(future_of(x))
    return found


def _all_of(futures: list[TaskFuture]) -> TaskFuture:
    """Return a future that is done when all of these are."""
    if len(futures) == 1:
        return futures[0]
    whole = TaskFuture("collection", None)
    left = iter((None,) * (len(futures) - 1))

    def one_more(_: TaskFuture) -> None:
        if next(left, True):
            whole.set_value(None)

    for future in futures:
        future.add_callback(one_more)
    return whole
