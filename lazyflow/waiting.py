"""Waiting for persisted values: `wait`, ``await x``, and the errors that nobody waited for."""

from __future__ import annotations

from typing import Any

from lazyflow.evaluate import Options, held_values, start_background
from lazyflow.graph.kinds import COLLECTION, LAZY, kinds
from lazyflow.graph.plan import make_plan
from lazyflow.graph.task import HELD
from lazyflow.schedulers.future import Future, wait_for
from lazyflow.store.values import Releaser

__all__ = ["wait"]


async def awaited(x: Any) -> Any:
    """Compute one lazy value without blocking the event loop; cancelling cancels the work."""
    import asyncio

    loop = asyncio.get_running_loop()
    plan = make_plan([x])
    _, (future,) = start_background(plan, Options("await", {}))
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def wake_loop(_: Future) -> None:
        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:  # the loop was closed: nobody waits
            pass

    future.add_callback(wake_loop)
    try:
        await woken
    except asyncio.CancelledError:
        future.cancel()
        raise
    value, error = future.outcome()
    if error is not None:
        raise error
    return Releaser(held_values(plan))(value)


def future_of(x: Any) -> Future:
    """Return the future behind a persisted value, or say how to get one."""
    if kinds[type(x)] == LAZY and x._func is HELD:
        future: Future = x._args[0]
        return future
    raise TypeError(
        f"{x!r:.100} is not running: only what persist(...) returned can be waited for or "
        "cancelled. Write: x, = lazyflow.persist(x)"
    )


def wait(
    fs: Any, num_returns: int | None = None, timeout: float | None = None
) -> tuple[list[Any], list[Any]]:
    """Wait until `num_returns` of the persisted values are done (None, the default: all of them).

    Parameters
    ----------
    fs
        A persisted value or a list of them.
    num_returns
        How many to wait for; None is all (Ray's default is 1).
    timeout
        Seconds; when they are over the function returns, it does not raise.

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
    items = [fs] if kinds[type(fs)] in (LAZY, COLLECTION) else list(fs)
    groups = [
        [future_of(t) for t in (x.__lazyflow_tasks__() if kinds[type(x)] == COLLECTION else [x])]
        for x in items
    ]
    if num_returns is not None and not 0 <= num_returns <= len(items):
        raise ValueError(
            f"num_returns must be between 0 and the number of values ({len(items)}); "
            f"got {num_returns!r}"
        )
    futures = [_all_of(group) for group in groups]
    try:
        wait_for(futures, num_returns, timeout)
    except BaseException:  # Ctrl-C: what was waited for is not wanted any more
        for future in futures:
            future.cancel()
        raise
    done = [x for x, f in zip(items, futures, strict=True) if f.done()]
    pending = [x for x, f in zip(items, futures, strict=True) if not f.done()]
    return done, pending


def _all_of(futures: list[Future]) -> Future:
    """Return a future that is done when all of these are."""
    if len(futures) == 1:
        return futures[0]
    whole = Future("collection", None)
    left = iter((None,) * (len(futures) - 1))

    def one_more(_: Future) -> None:
        if next(left, True):
            whole.set_value(None)

    for future in futures:
        future.add_callback(one_more)
    return whole
