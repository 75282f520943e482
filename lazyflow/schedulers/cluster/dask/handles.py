"""What stands for values that a cluster keeps."""

from __future__ import annotations

from itertools import count
from typing import Any

from lazyflow.departures import LastCall

numbers = count(1)  #: that make names unique in this process

#: Futures that handles stand for, by number. A Ctrl-C in their `__del__` is lost, so a thread of
#: ours drops them: were they in handles, the collection of a cycle would call it anywhere.
_futures: dict[int, Any] = {}


class DaskHandle:
    """Stands for what the cluster keeps.

    asked
        The only workers that may make it, by any of their names; None: all may.
    workers
        Their addresses when it was handed over.
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
        """What was handed over, or None."""
        return _futures.get(self._number)

    def hold(self, future: Any) -> None:
        """Keep the future of what was handed over."""
        number = next(numbers)
        self._release = LastCall(_futures.pop, number, None)
        _futures[number] = future
        self._number = number
