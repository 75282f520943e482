"""Values that a worker keeps for tasks, and stand-ins for those that are not there."""

from __future__ import annotations

from collections import deque
from typing import Any

from lazyflow.store.memory.copying import copy_of
from lazyflow.store.memory.shared import Mappings
from lazyflow.store.pickling.pickler import loads_owned
from lazyflow.store.pickling.serialize import Encoded, decode


class StandIn:
    """Stands for a result that is not there."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __repr__(self) -> str:
        return f"<{self._why}>"


FAILED = StandIn("the task failed; so do those that were sent with it and need it")
LATER = StandIn("the task returned a lazy value, which another run will make")
NO_RESULT: Any = StandIn("the task failed just now, and that is noted")


class ValueStore:
    """The values of a worker.

    values
        By id; an `UnopenedValue` is opened when a task first needs it.
    unusual
        Ids of values that can't be handed over as they are: unopened ones, stand-ins, and those of
        which each task gets a copy.
    kept
        Ids of values that no task drops: a task needs them that was not run, and may come again.
    """

    __slots__ = ("kept", "unusual", "values")

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self.unusual: set[int] = set()
        self.kept: set[int] = set()

    def put_unusual(self, i: int, value: Any) -> None:
        """Keep a value that can't be handed over as it is."""
        self.values[i] = value
        self.unusual.add(i)

    def drop(self, i: int) -> None:
        """Forget a value."""
        self.values.pop(i, None)
        self.unusual.discard(i)
        self.kept.discard(i)


class UnopenedValue:
    """A value that came with a message and is not opened yet; its memory is pinned already."""

    def __init__(self, mappings: Mappings, value: tuple[Any, ...]) -> None:
        self._encoded = Encoded(*value)
        self._error: BaseException | None = None
        # A view for each time that memory is named, in the order in which `decode` asks for them:
        # the parent counts them back.
        self._views: deque[Any] = deque()
        for segment in self._encoded.segments():
            try:
                self._views.append(mappings.view(segment))
            except MemoryError as error:  # of the tasks that need it
                self._error = error

    def owned(self) -> Any:
        """Return the value, once, in memory of its own, which may be edited."""
        encoded = self._encoded
        buffers: Any = tuple([
            each if type(each) is tuple else bytearray(each) for each in encoded.buffers
        ])
        self._encoded = Encoded(encoded.payload, buffers, encoded.size)
        self._views = deque(map(copy_of, self._views))
        return loads_owned(self.opened)

    def opened(self) -> Any:
        """Return the value, once; an error is raised for every task that needs it."""
        try:
            if self._error is not None:
                raise self._error
            return decode(self._encoded, lambda segment: self._views.popleft())
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._views.clear()
