"""Futures in the order in which they are done: `as_completed`."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from time import monotonic
from typing import Any

from lazyflow.api.evaluate import compute
from lazyflow.api.waiting import items_of, parts_of, whole_of, woken_by
from lazyflow.schedulers.core.errors.failures import interrupted
from lazyflow.schedulers.core.future import TaskFuture, timed_out, wait_for

__all__ = ["as_completed"]

_NONE: Any = object()  #: stands for a future, where none is done


class as_completed:
    """Yield futures and persisted values in the order in which they are done.

    More may be added meanwhile.

    Iterate with ``for`` or with ``async for``, which does not block the event loop. Several threads
    or coroutines may iterate over one: each future goes to one of them, and all end when none is
    left.

    Parameters
    ----------
    fs
        Futures and persisted values; none when left out.
    with_results
        Yield pairs (future, result) instead; the error of a failed one is raised in its place.
    timeout
        Seconds from now, after which iterating raises `TaskTimeout`.

    Raises
    ------
    TaskTimeout
        Some are not done in time; their work goes on.

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
        self._deadline = None if timeout is None else monotonic() + timeout
        self._left: dict[int, tuple[Any, TaskFuture]] = {}  # by id: each once
        self._done: deque[int] = deque()
        self._gates: list[TaskFuture] = []  # of waiting iterations: all are woken at each event
        self.update(fs)

    # -- what it is made of -----------------------------------------------------------------

    def add(self, future: Any) -> None:
        """Add a future or a persisted value, unless it is there already.

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

        Examples
        --------
        >>> from lazyflow import as_completed, map
        >>> ended = as_completed()
        >>> ended.update(map(abs, [-1, -2]))
        >>> ended.count()
        2
        """
        for each in items_of(fs):
            self.add(each)

    def count(self) -> int:
        """Return how many were not yielded yet.

        Examples
        --------
        >>> from lazyflow import as_completed, put
        >>> as_completed([put(1), put(2)]).count()
        2
        """
        return len(self._left)

    def is_empty(self) -> bool:
        """Tell whether all were yielded.

        Examples
        --------
        >>> from lazyflow import as_completed
        >>> as_completed().is_empty()
        True
        """
        return not self._left

    def has_ready(self) -> bool:
        """Tell whether the next one would be yielded without waiting.

        Examples
        --------
        >>> from lazyflow import as_completed, put
        >>> as_completed([put(1)]).has_ready()
        True
        """
        return bool(self._done)

    def clear(self) -> None:
        """Remove all that were not yielded yet; their work goes on.

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
        """Let all that wait look again: one of them gets what has come, or there is no more."""
        while self._gates:
            try:
                gate = self._gates.pop()
            except IndexError:  # another thread wakes them
                return
            gate.set_value(None)

    def _gate(self) -> TaskFuture:
        """Return a future that is done when it is worth while to look again."""
        gate = TaskFuture("the next one", None)
        self._gates.append(gate)
        if self._done or not self._left:  # that may have come before the gate was there
            self._wake()
        return gate

    def _time(self) -> float | None:
        """Return the seconds left."""
        return None if self._deadline is None else max(0.0, self._deadline - monotonic())

    def _check_time(self) -> None:
        if not self._done:
            assert self._timeout is not None
            names = [f.name for _, f in list(self._left.values())]
            raise timed_out(names, self._timeout, [])

    def _take(self) -> Any:
        """Return one that is done, which nobody else gets; `_NONE` if there is none."""
        known = None
        while known is None:  # what was cleared meanwhile is not left
            try:
                known = self._left.pop(self._done.popleft(), None)
            except IndexError:
                return _NONE
        if not self._left:
            self._wake()  # those that wait for more
        return known[0]

    def _wait(self) -> None:
        gate = self._gate()
        if not wait_for([gate], timeout=self._time(), behind=parts_of(self._one_left())):
            self._check_time()

    def _one_left(self) -> list[Any]:
        """Return one that is left, for its engine to be watched: of all that would be slow."""
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
        """Return all that are done; with ``block=True`` wait for at least one.

        Examples
        --------
        >>> from lazyflow import as_completed, put
        >>> ended = as_completed([put(1), put(2)])
        >>> len(ended.next_batch()), ended.next_batch(block=False)
        (2, [])
        """
        found = []
        while (item := self._take()) is not _NONE:
            found.append(self._shown(item))
        if block and not found:
            found = [next(self), *self.next_batch(block=False)]
        return found

    def batches(self) -> Iterator[list[Any]]:
        """Yield lists of those that are done since the last one.

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
                await asyncio.wait_for(woken_by(self._gate()), self._time())
            except TimeoutError:
                self._check_time()
        return (item, await item) if self._with_results else item
