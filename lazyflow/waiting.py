"""Waiting for futures and persisted values: `wait`, `as_completed`, and ``await x``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from time import monotonic
from typing import Any

from lazyflow.evaluate import Options, compute, held_values, start_background
from lazyflow.graph.kinds import COLLECTION, LAZY, kinds
from lazyflow.graph.plan import make_plan
from lazyflow.graph.task import HELD
from lazyflow.schedulers.future import Future, timed_out, wait_for
from lazyflow.schedulers.gate import Gate
from lazyflow.schedulers.seats import asleep
from lazyflow.store.values import Releaser

__all__ = ["as_completed", "wait"]


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
        f"{x!r:.100} is not running: only futures and what persist(...) returned can be waited "
        "for or cancelled. Write: x, = lazyflow.persist(x)"
    )


def wait(
    fs: Any, num_returns: int | None = None, timeout: float | None = None
) -> tuple[list[Any], list[Any]]:
    """Wait until `num_returns` of these are done. None, the default, means ALL (Ray's is 1).

    Parameters
    ----------
    fs
        A future or a persisted value, or a list of them.
    num_returns
        How many to wait for; None is all of them.
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
    items = _items(fs)
    if num_returns is not None and not 0 <= num_returns <= len(items):
        raise ValueError(
            f"num_returns must be between 0 and the number of values ({len(items)}); "
            f"got {num_returns!r}"
        )
    futures = [_whole(x) for x in items]
    try:
        wait_for(futures, num_returns, timeout)
    except BaseException:  # Ctrl-C: what was waited for is not wanted any more
        for future in futures:
            future.cancel()
        raise
    done = [x for x, f in zip(items, futures, strict=True) if f.done()]
    pending = [x for x, f in zip(items, futures, strict=True) if not f.done()]
    return done, pending


def as_completed(
    fs: Any, with_results: bool = False, timeout: float | None = None
) -> Iterator[Any]:
    """Yield futures and persisted values as they come to their ends.

    Parameters
    ----------
    fs
        A list of them.
    with_results
        Yield pairs (value given, result); a failure is raised when its turn comes.
    timeout
        Seconds from now.

    Raises
    ------
    TaskTimeout
        Some are not done when the time is over; they go on.

    Examples
    --------
    >>> import lazyflow
    >>> fs = lazyflow.map(abs, [-3, -2, -1])
    >>> sorted(f.result() for f in lazyflow.as_completed(fs))
    [1, 2, 3]
    """
    deadline = None if timeout is None else monotonic() + timeout
    return _Arrivals(_items(fs)).taken(with_results, deadline, timeout)


class _Arrivals:
    """Which of some futures are done, in the order in which that happened."""

    def __init__(self, items: list[Any]) -> None:
        self._futures = {id(x): (x, _whole(x)) for x in items}  # each once
        self._done: deque[int] = deque()
        self._gates: list[Gate] = []  # of who waits; whoever pops it opens it
        for key, (_, future) in self._futures.items():
            future.add_callback(lambda _, key=key: self._arrived(key))  # type: ignore[misc]

    def _arrived(self, key: int) -> None:
        self._done.append(key)
        try:
            gate = self._gates.pop()
        except IndexError:
            return
        gate.open()

    def taken(
        self, with_results: bool, deadline: float | None, timeout: float | None
    ) -> Iterator[Any]:
        left = self._futures
        try:
            while left:
                while not self._done:
                    self._sleep(deadline, timeout)
                item, future = left.pop(self._done.popleft())
                if with_results:
                    (value,) = compute(item)
                    yield item, value
                else:
                    yield item
        except KeyboardInterrupt:  # what was waited for is not wanted any more
            for _, future in left.values():
                future.cancel()
            raise

    def _sleep(self, deadline: float | None, timeout: float | None) -> None:
        gate = Gate()
        self._gates.append(gate)
        if self._done:  # it may have come before the gate was there
            self._gates.clear()
            return
        with asleep():
            is_open = gate.wait(None if deadline is None else max(0.0, deadline - monotonic()))
        if not is_open and not self._done:
            assert timeout is not None
            raise timed_out([f.name for _, f in self._futures.values()], timeout, [])


def _items(fs: Any) -> list[Any]:
    return [fs] if kinds[type(fs)] in (LAZY, COLLECTION) else list(fs)


def _whole(x: Any) -> Future:
    """Return a future that is done when all that `x` is made of is."""
    if kinds[type(x)] == COLLECTION:
        return _all_of([future_of(t) for t in x.__lazyflow_tasks__()])
    return future_of(x)


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
