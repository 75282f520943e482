"""Futures as users see them."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Any

from lazyflow.graph.task import HELD, Task, new_leaf
from lazyflow.lazy import Delayed
from lazyflow.schedulers.future import Future as Inner
from lazyflow.schedulers.future import timed_out, wait_for
from lazyflow.store.values import Releaser

__all__ = ["Future"]


class Future(concurrent.futures.Future[Any]):
    """A value that exists or will, made of an inner future; usable as an argument anywhere."""

    def __init__(self, inner: Inner) -> None:
        super().__init__()
        self._inner = inner

    def result(self, timeout: float | None = None) -> Any:
        """Return the value, or raise why there is none."""
        if not wait_for([self._inner], timeout=timeout):
            assert timeout is not None
            raise timed_out([self._inner.name], timeout, ())
        value, error = self._inner.outcome()
        if error is not None:
            try:
                raise error
            finally:
                del error
        kept = () if self._inner.is_elsewhere() else (value,)
        return Releaser(kept)(value)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why there is no value, or None."""
        if not wait_for([self._inner], timeout=timeout):
            assert timeout is not None
            raise timed_out([self._inner.name], timeout, ())
        return self._inner.local_outcome()[1]

    def done(self) -> bool:
        """Tell whether waiting would return at once."""
        return self._inner.done()

    def cancel(self, force: bool = False) -> bool:
        """Give the value up; returns whether that came in time."""
        return self._inner.cancel(force)

    def add_done_callback(self, fn: Callable[[Any], Any]) -> None:
        """Call ``fn(self)`` once it is done."""
        self._inner.add_callback(lambda _: fn(self))

    def __lazyflow_tasks__(self) -> Sequence[Task]:
        return [self.__lazyflow_value__()]

    def __lazyflow_value__(self) -> Task:
        leaf: Task = new_leaf(Delayed, HELD, self._inner)
        return leaf

    def __lazyflow_finalize__(self, values: list[Any]) -> Any:
        return values[0]

    def __lazyflow_rebuild__(self, tasks: Sequence[Task]) -> Future:
        return Future(tasks[0]._args[0])

    @classmethod
    def __lazyflow_optimize__(cls, wanted: Sequence[Future]) -> Sequence[Future]:
        return wanted
