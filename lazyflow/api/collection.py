"""Collections: objects that consist of tasks and act as something else.

A chunked array is a collection; `Delayed` is the simplest one. To make a class a collection,
derive it from `Collection` and define three methods: they return its tasks, join the values of
the tasks, and rebuild the object from other tasks. Then `compute`, `persist`, `optimize` and
calls of delayed functions take its objects like any lazy value.

    >>> import lazyflow
    >>> class Pieces(lazyflow.Collection):
    ...     def __init__(self, tasks): self.tasks = tasks
    ...     def __lazyflow_tasks__(self): return self.tasks
    ...     def __lazyflow_finalize__(self, values): return sum(values, [])
    ...     def __lazyflow_rebuild__(self, tasks): return Pieces(tasks)
    >>> ab = Pieces([lazyflow.delayed(list)("a"), lazyflow.delayed(list)("b")])
    >>> lazyflow.compute(ab, {"length": lazyflow.delayed(len)(ab)})
    (['a', 'b'], {'length': 2})
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from typing import Any, Self

from lazyflow.api.lazy import DaskCollection, Delayed
from lazyflow.graph.binding import new_task
from lazyflow.graph.task import Task, users_depth


class Collection(DaskCollection, ABC):
    """Base class of objects that consist of tasks.

    Examples
    --------
    >>> import lazyflow
    >>> class Pair(lazyflow.Collection):
    ...     def __init__(self, tasks): self.tasks = tasks
    ...     def __lazyflow_tasks__(self): return self.tasks
    ...     def __lazyflow_finalize__(self, values): return tuple(values)
    ...     def __lazyflow_rebuild__(self, tasks): return Pair(tasks)
    >>> pair = Pair([lazyflow.delayed(abs)(-1), lazyflow.delayed(abs)(-2)])
    >>> lazyflow.compute(pair, lazyflow.delayed(sum)(pair))
    ((1, 2), 3)
    """

    @abstractmethod
    def __lazyflow_tasks__(self) -> Sequence[Task]:
        """Return the tasks of the object."""

    @abstractmethod
    def __lazyflow_finalize__(self, values: list[Any]) -> Any:
        """Return the value of the object, given the values of its tasks in their order."""

    @abstractmethod
    def __lazyflow_rebuild__(self, tasks: Sequence[Task]) -> Self:
        """Return an object like this one with other tasks: held results, after persist."""

    @classmethod
    def __lazyflow_optimize__(cls, wanted: Sequence[Self], keep: bool = True) -> Sequence[Self]:
        """Return cheaper objects with the same values; gets all of the class in one compute.

        With ``keep=False`` only the values of the whole objects are needed, so they may have other
        tasks than before.
        """
        return wanted

    @property
    def __lazyflow_light__(self) -> bool:
        """Whether its tasks are so short that one thread is faster than several."""
        return False

    def __lazyflow_once__(self) -> Self:
        """Return the object to compute when only its whole value is needed, and only once.

        Its tasks may then write their parts of the value in place, instead of keeping them.
        """
        return self

    def __lazyflow_value__(self) -> Task:
        """Return one task whose result is the value of the object, as the input of a call."""
        (self,) = type(self).__lazyflow_optimize__([self], keep=False)
        task: Task = new_task(
            Delayed, assemble, (self._finalizer(), list(self.__lazyflow_tasks__())),
            depth=users_depth(),
        )
        return task

    def __await__(self) -> Generator[Any, None, Any]:
        return self.__lazyflow_value__().__await__()  # type: ignore[attr-defined]

    def _finalizer(self) -> Any:
        return _Finalizer(self.__lazyflow_finalize__)


class _Finalizer:
    """Hides a collection from the search for lazy values among arguments."""

    __slots__ = ("finalize",)

    def __init__(self, finalize: Any) -> None:
        self.finalize = finalize


def assemble(finalizer: _Finalizer, values: list[Any]) -> Any:
    """Return the value of a collection, joined by its function from its computed values."""
    return finalizer.finalize(values)
