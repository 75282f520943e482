"""Waiting for futures and persisted values: `wait`, `gather`, `as_completed`, and ``await x``.

A thread sleeps in `wait_for` (core/future.py). A coroutine awaits a future of its event loop, which
a callback sets (`woken_by`), so that the loop goes on. Meanwhile a task has no worker's slot: of
the coroutines of one loop the first that waits gives it up, and the last takes one again.

State of an `as_completed`. Any thread and any coroutine may iterate, and nothing is locked::

    _left :: {id: (item, TaskFuture)}    those that were not yielded, each once
    _done :: deque of ids                of these, the done ones; the thread that ends one appends
    _gates :: [TaskFuture]               one of each iteration that sleeps: an event wakes them all,
                                         and each looks again
    _deadline :: Deadline                when iterations end with TaskTimeout, if ever

`deque.popleft` gives an id to one iteration only, so each future is yielded once. An iteration
looks at `_done` again after its gate is in `_gates`, so no event is missed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from functools import partial
from itertools import islice
from typing import Any

from lazyflow.api.evaluate import RunOptions, compute, held_values, start_background
from lazyflow.clock import Deadline
from lazyflow.graph.kinds import COLLECTION, LAZY, kinds
from lazyflow.graph.plan import make_plan
from lazyflow.graph.task import HELD
from lazyflow.schedulers.core.errors.failures import interrupted
from lazyflow.schedulers.core.future import TaskFuture, timed_out, wait_for, when_all_done
from lazyflow.schedulers.core.task_resources import asleep, here
from lazyflow.store.ownership import ResultHandover


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
    """Return the future of a persisted value; for other values the error names the fix."""
    if kinds[type(x)] == LAZY and x._func is HELD:
        future: TaskFuture = x._args[0]
        return future
    raise TypeError(
        f"{x!r:.100} is not running: only futures and values that persist(...) returned can be "
        "waited for or cancelled. Write: x, = lazyflow.persist(x)"
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
        Seconds after which the function returns, without raising.

    Returns
    -------
    done, pending
        Both in the order of `fs`. A failed or cancelled value is done.

    Raises
    ------
    TypeError
        A value is neither a future nor persisted, or the values are not in one list.
    ValueError
        `num_returns` is negative, or larger than the number of values.

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
    """Return the values of futures and persisted values, in the same nesting.

    Parameters
    ----------
    futures
        A future, or a nesting of containers of them.
    errors
        ``"raise"``: raise the first error; ``"skip"``: skip those of a list that failed,
        wholly or in part.

    Raises
    ------
    Exception
        The first error of a task, unless ``errors="skip"``.
    ValueError
        `errors` is neither ``"raise"`` nor ``"skip"``.
    TypeError
        With ``errors="skip"``, an item is neither a future nor persisted.

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
        parts = [parts_of([x]) for x in items]
        wait_for([f for some in parts for f in some])
        futures = [
            x for x, some in zip(items, parts, strict=True)
            if all(f.local_outcome()[1] is None for f in some)
        ]
    (gathered,) = compute(futures)
    return gathered


def items_of(fs: Any) -> list[Any]:
    """Return futures and persisted values as a list, also a single one."""
    return [fs] if kinds[type(fs)] in (LAZY, COLLECTION) else list(fs)


def whole_of(x: Any) -> TaskFuture:
    """Return a future that is done when all tasks of a value are."""
    return _all_of(parts_of([x]))


def parts_of(items: list[Any]) -> list[TaskFuture]:
    """Return the futures of all tasks of these values."""
    futures: list[TaskFuture] = []
    for x in items:
        if kinds[type(x)] == COLLECTION:
            futures.extend(map(future_of, x.__lazyflow_tasks__()))
        else:
            futures.append(future_of(x))
    return futures


def _all_of(futures: list[TaskFuture]) -> TaskFuture:
    """Return a future that is done when all of these are."""
    if len(futures) == 1:
        return futures[0]
    whole = TaskFuture("collection", None)
    when_all_done(futures, partial(whole.set_value, None))
    return whole


# -- futures in the order in which they are done: `as_completed` --------------------------

_NONE: Any = object()  #: stands for a future, where none is done


class as_completed:
    """Yield futures and persisted values in the order in which they are done.

    More can be added during the iteration.

    Iterate with ``for`` or with ``async for``, which does not block the event loop. Several threads
    or coroutines may share the iterator: each future goes to one of them, and all of them end
    when no future is left.

    Parameters
    ----------
    fs
        Futures and persisted values; none by default.
    with_results
        Yield pairs (future, result) instead; a failed future raises its error.
    timeout
        Seconds from now, after which iterating raises `TaskTimeout`.

    Raises
    ------
    TaskTimeout
        Some are not done in time; their work continues.
    TypeError
        A value is neither a future nor persisted.

    Examples
    --------
    >>> import lazyflow
    >>> fs = lazyflow.map(abs, [-3, -2, -1])
    >>> sorted(f.result() for f in lazyflow.as_completed(fs))
    [1, 2, 3]
    >>> ended = lazyflow.as_completed(fs[:1])
    >>> for f in ended:
    ...     if f is fs[0]:
    ...         ended.add(fs[1])
    >>> ended.count()
    0
    """

    def __init__(
        self, fs: Any = (), with_results: bool = False, timeout: float | None = None
    ) -> None:
        self._with_results = with_results
        self._timeout = timeout
        self._deadline = Deadline(timeout)
        self._left: dict[int, tuple[Any, TaskFuture]] = {}  # by id: each once
        self._done: deque[int] = deque()
        self._gates: list[TaskFuture] = []  # of waiting iterations: all are woken at each event
        self.update(fs)

    # -- its futures ------------------------------------------------------------------------

    def add(self, future: Any) -> None:
        """Add a future or a persisted value, unless it was added already.

        Raises
        ------
        TypeError
            The value is neither a future nor persisted.

        Examples
        --------
        >>> from lazyflow import as_completed, submit
        >>> ended = as_completed()
        >>> ended.add(submit(abs, -1))
        >>> [future.result() for future in ended]
        [1]
        """
        if id(future) in self._left:
            return
        key, whole = id(future), whole_of(future)
        self._left[key] = future, whole
        whole.add_callback(lambda _: self._arrived(key, whole))

    def update(self, fs: Any) -> None:
        """Add several futures or persisted values.

        Raises
        ------
        TypeError
            A value is neither a future nor persisted.

        Examples
        --------
        >>> from lazyflow import as_completed, map
        >>> ended = as_completed()
        >>> ended.update(map(abs, [-1, -2]))
        >>> ended.count()
        2
        """
        for item in items_of(fs):
            self.add(item)

    def count(self) -> int:
        """Return how many are not yielded yet.

        Examples
        --------
        >>> from lazyflow import as_completed, put
        >>> as_completed([put(1), put(2)]).count()
        2
        """
        return len(self._left)

    def is_empty(self) -> bool:
        """Tell whether all futures were yielded.

        Examples
        --------
        >>> from lazyflow import as_completed
        >>> as_completed().is_empty()
        True
        """
        return not self._left

    def has_ready(self) -> bool:
        """Tell whether the next future can be yielded without waiting.

        Examples
        --------
        >>> from lazyflow import as_completed, put
        >>> as_completed([put(1)]).has_ready()
        True
        """
        return bool(self._done)

    def clear(self) -> None:
        """Remove all that are not yielded yet; their work continues.

        Examples
        --------
        >>> from lazyflow import as_completed, put
        >>> ended = as_completed([put(1), put(2)])
        >>> ended.clear()
        >>> list(ended)
        []
        """
        self._left.clear()
        self._done.clear()
        self._wake()

    # -- waiting ----------------------------------------------------------------------------

    def _arrived(self, key: int, whole: TaskFuture) -> None:
        known = self._left.get(key)
        if known is None or known[1] is not whole:  # cleared meanwhile
            return
        self._done.append(key)
        self._wake()

    def _wake(self) -> None:
        """Wake all waiting iterations: one takes the new future, or all end."""
        while self._gates:
            try:
                gate = self._gates.pop()
            except IndexError:  # another thread wakes them
                return
            gate.set_value(None)

    def _gate(self) -> TaskFuture:
        """Return a future that is done when a wait has to look again."""
        gate = TaskFuture("the next one", None)
        self._gates.append(gate)
        if self._done or not self._left:  # that may have come before the gate was there
            self._wake()
        return gate

    def _check_time(self) -> None:
        if not self._done:
            assert self._timeout is not None
            names = [f.name for _, f in list(self._left.values())]
            raise timed_out(names, self._timeout, [])

    def _take(self) -> Any:
        """Return a done future and remove it; `_NONE` if there is none."""
        known = None
        while known is None:  # None: it was cleared meanwhile
            try:
                known = self._left.pop(self._done.popleft(), None)
            except IndexError:
                return _NONE
        if not self._left:
            self._wake()  # those that wait for more
        return known[0]

    def _wait(self) -> None:
        gate = self._gate()
        if not wait_for([gate], timeout=self._deadline.left(), behind=parts_of(self._one_left())):
            self._check_time()

    def _one_left(self) -> list[Any]:
        """Return one remaining future, whose engine is watched; watching all would be slow."""
        while True:
            try:
                return [item for item, _ in islice(self._left.values(), 1)]
            except RuntimeError:  # another thread took one between two steps of this
                pass

    # -- as an iterator ---------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while (item := self._take()) is _NONE:
            if not self._left:
                raise StopIteration
            try:
                self._wait()
            except KeyboardInterrupt as error:
                raise interrupted(error) from None
        return self._shown(item)

    def _shown(self, item: Any) -> Any:
        return (item, compute(item)[0]) if self._with_results else item

    def next_batch(self, block: bool = True) -> list[Any]:
        """Return all futures that are done; with ``block=True`` wait for at least one.

        Raises
        ------
        StopIteration
            With ``block=True``, no future is left.
        TaskTimeout
            No value is done in time.

        Examples
        --------
        >>> from lazyflow import as_completed, put
        >>> ended = as_completed([put(1), put(2)])
        >>> len(ended.next_batch()), ended.next_batch(block=False)
        (2, [])
        """
        batch = []
        while (item := self._take()) is not _NONE:
            batch.append(self._shown(item))
        if block and not batch:
            batch = [next(self), *self.next_batch(block=False)]
        return batch

    def batches(self) -> Iterator[list[Any]]:
        """Yield lists of futures done since the last list.

        Raises
        ------
        TaskTimeout
            No value is done in time.

        Examples
        --------
        >>> from lazyflow import as_completed, put
        >>> [len(batch) for batch in as_completed([put(1), put(2)]).batches()]
        [2]
        """
        while self._left:
            try:
                batch = self.next_batch()
            except StopIteration:  # others took the last ones
                return
            yield batch

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        import asyncio

        while (item := self._take()) is _NONE:
            if not self._left:
                raise StopAsyncIteration
            try:
                await asyncio.wait_for(woken_by(self._gate()), self._deadline.left())
            except TimeoutError:
                self._check_time()
        return (item, await item) if self._with_results else item
