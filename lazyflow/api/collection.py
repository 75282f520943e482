"""What makes an object a collection: made of tasks, acting as something else.

A chunked array is a collection; `Delayed` itself is the simplest one. A class becomes one by
deriving from `Collection` and saying which tasks it is made of, how its value is put together
from theirs, and how one like it is made of other tasks. Then `compute`, `persist`, `optimize`
and calls of delayed functions take it like any lazy value.

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

from lazyflow.graph.task import Task, new_task, users_depth

__all__ = ["Collection"]


class Collection(ABC):
    """Base of objects that are made of tasks."""

    @abstractmethod
    def __lazyflow_tasks__(self) -> Sequence[Task]:
        """Return the tasks it is made of."""

    @abstractmethod
    def __lazyflow_finalize__(self, values: list[Any]) -> Any:
        """Return the value of the whole, given the values of its tasks in their order."""

    @abstractmethod
    def __lazyflow_rebuild__(self, tasks: Sequence[Task]) -> Self:
        """Return an object like this one, made of other tasks (held results, after persist)."""

    @classmethod
    def __lazyflow_optimize__(cls, wanted: Sequence[Self], keep: bool = True) -> Sequence[Self]:
        """Return cheaper equals of these; all of the class that one compute wants, at once.

        With ``keep=False`` only the values of the wholes are wanted, so that they may be made of
        other parts than before.
        """
        return wanted

    @property
    def __lazyflow_light__(self) -> bool:
        """Whether its tasks are so short that one thread does them sooner than several."""
        return False

    def __lazyflow_once__(self) -> Self:
        """Return what to compute where only the value of the whole is wanted, and only once.

        Then parts may be put in their places as they come, instead of being kept until the end.
        """
        return self

    def __lazyflow_value__(self) -> Task:
        """Return one task whose result is the value of the whole: what a call gets as input."""
        from lazyflow.api.lazy import Delayed  # which needs this module when it is imported

        (self,) = type(self).__lazyflow_optimize__([self], keep=False)
        task: Task = new_task(
            Delayed, _finalize, (self._finalizer(), list(self.__lazyflow_tasks__())),
            depth=users_depth(),
        )
        return task

    def __await__(self) -> Generator[Any, None, Any]:
        return self.__lazyflow_value__().__await__()  # type: ignore[attr-defined]

    def _finalizer(self) -> Any:
        return _Finalizer(self.__lazyflow_finalize__)


class _Finalizer:
    """Keeps the collection out of sight of the search for inputs."""

    __slots__ = ("finalize",)

    def __init__(self, finalize: Any) -> None:
        self.finalize = finalize


def _finalize(finalizer: _Finalizer, values: list[Any]) -> Any:
    return finalizer.finalize(values)
