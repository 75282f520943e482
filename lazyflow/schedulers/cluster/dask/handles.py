"""Handles of values that a cluster keeps."""

from __future__ import annotations

from itertools import count
from typing import Any

from lazyflow.departures import LastCall

numbers = count(1)  #: make names unique in this process

#: The futures of handles, by number. A Ctrl-C in their `__del__` is lost, so a thread of lazyflow
#: drops them: were they in handles, the garbage collector would do that in any thread.
_futures: dict[int, Any] = {}


class DaskHandle:
    """The handle of a value that the cluster keeps.

    asked
        The only workers that may compute it, by any of their names; None: all may.
    workers
        Their addresses at the submission.
    """

    __slots__ = ("_number", "_release", "asked", "key", "workers")

    def __init__(self, key: str) -> None:
        self.key = key
        self._number = 0
        self._release: LastCall | None = None
        self.asked: tuple[Any, ...] | None = None
        self.workers: list[Any] = []

    @property
    def future(self) -> Any:
        """The future of the value, or None before the submission."""
        return _futures.get(self._number)

    def hold(self, future: Any) -> None:
        """Keep the future of the value."""
        number = next(numbers)
        self._release = LastCall(_futures.pop, number, None)
        _futures[number] = future
        self._number = number
