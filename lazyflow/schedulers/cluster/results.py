"""The caller's references to values that an engine keeps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from lazyflow.errors import SerializationError
from lazyflow.graph.task import Task
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.outcome import GroupOutcome, PackedValue, packed
from lazyflow.schedulers.core.errors.failures import with_call_note
from lazyflow.schedulers.remote.task_stub import name_only
from lazyflow.store.pickling.serialize import Unpicklable, serialization_error


class EngineResult:
    """A result that the engine keeps while this object lives; each `get` unpickles it anew.

    short
        The packed result, if it is small.
    """

    __slots__ = ("__weakref__", "engine", "handle", "number", "outcome", "short", "task")

    _lazyflow_remote = True

    def __init__(
        self, engine: Engine, handle: Any, number: int, task: Task, short: PackedValue | None
    ) -> None:
        self.engine = engine
        self.handle = handle
        self.number = number
        self.task = name_only(task)
        self.short = short
        self.outcome: GroupOutcome | None = None  # once it was fetched, with others

    def get(self) -> Any:
        """Return the value, fetched if need be; raise SerializationError or SchedulerLost."""
        try:
            if self.short is not None:
                return self.short.owned()
            if self.outcome is None:
                self.engine.bring([self])
            assert self.outcome is not None
            outcome, self.outcome = self.outcome, None
            return outcome.owned(self.number)
        except Unpicklable as failed:
            error = serialization_error(str(self.task._options.label), "result", failed)
            raise with_call_note(error, self.task, None) from failed.error
        except SerializationError as error:
            raise with_call_note(error, self.task, None) from error.__cause__


class Put:
    """A value that was sent to an engine, and is sent again if the worker with it dies.

    Parameters
    ----------
    copy
        Whether to keep a snapshot, since the caller may write to its memory.
    owner
        The task in the error of a value that can't be pickled.
    """

    __slots__ = ("__weakref__", "_lock", "_packed", "engine", "handle")

    _lazyflow_remote = True
    number = 0

    def __init__(
        self, engine: Engine, value: Any, copy: bool = False, owner: str = "that uses it"
    ) -> None:
        self.engine = engine
        self._packed = packed(value)
        if self._packed.stream is None:
            try:
                self._packed.opened()
            except Unpicklable as failed:
                error = serialization_error(owner, "the value", failed)
                raise error from failed.error
        if copy:
            self._packed = self._packed.copied()
        self._lock = threading.Lock()
        self.handle: Any = None  # None if it has to be sent

    def send(self) -> Any:
        """Return the engine's handle, after sending the value if need be."""
        with self._lock:
            if self.handle is None or self.engine.is_lost(self.handle):
                self.handle = self.engine.send(GroupOutcome({0: self._packed}, {}))
            return self.handle

    def get(self) -> Any:
        """Return a copy of the value as it was when it was put."""
        return self._packed.copied().owned()


def handle_of(value: Any) -> Any:
    """Return the handle of a value that an engine holds; send a put value if need be."""
    return value.send() if type(value) is Put else value.handle


def fetch_all(
    engine: Engine, values: list[Any], which: list[int]
) -> Iterator[tuple[int, BaseException]]:
    """Replace references by their values; yield the index and error of each that fails."""
    held = {i: values[i] for i in which if type(values[i]) in (EngineResult, Put)}
    engine.bring([each for each in held.values() if type(each) is EngineResult])
    for i, each in held.items():
        try:
            values[i] = each.get()
        except BaseException as error:
            values[i] = None
            yield i, error
