"""The cells that hold a worker state's values, and their use by tasks."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from lazyflow.api.lock import Deadlock, TaskLock
from lazyflow.schedulers.core import task_resources
from lazyflow.schedulers.core.errors.failures import is_users_interrupt


class HasFunctions(Protocol):
    """What a cell needs of its `WorkerState`."""

    def _open_functions(self) -> tuple[Any, ...]:
        """Return init, reset and teardown."""


class StateCell(task_resources.Kept):
    """One value of a state: empty until the value is built, and after it is torn down."""

    def __init__(self, state: HasFunctions) -> None:
        self._state = weakref.ref(state)  # which owns this cell
        self._name = repr(state)
        self._values: list[Any] = []
        self._teardown: Callable[[Any], Any] | None = None
        self._lock = TaskLock()
        self._built_by = 0

    def is_of(self, state: HasFunctions) -> bool:
        """Tell whether this cell is one of a state."""
        return self._state() is state

    def peek(self) -> Any:
        """Return the value, built if need be, without reserving it for a task."""
        try:
            return self._values[0]
        except IndexError:
            value = self.acquire()
            self.release()
            return value

    def acquire(self) -> Any:
        """Return the value, when no other task has it in use."""
        if self._built_by == threading.get_ident():
            raise RuntimeError(f"init of {self._name} calls get() of the state that it builds")
        try:
            if not self._lock.is_mine():
                self._lock.acquire()
        except Deadlock as error:
            raise RuntimeError(
                f"{self._name} {str(error)[3:]}: both would wait for ever. Let all tasks that use "
                "these states call get() in the same order"
            ) from None
        try:
            if not self._values:
                self._build()
            return self._values[0]
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let the next task have the value, if this task still has it."""
        if self._lock.is_mine():
            self._lock.release()

    def asleep(self) -> AbstractContextManager[None]:
        """Return the context in which the task that has the value sleeps."""
        return self._lock.holder_asleep()

    def reset(self) -> None:
        """Call the user's reset, if this task has the value."""
        state = self._state()
        reset = state._open_functions()[1] if state is not None and self._values else None
        if reset is None or not self._lock.is_mine():
            return
        try:
            reset(self._values[0])
        except BaseException as error:
            self._discard()
            if is_users_interrupt(error):
                raise
            _log(f"reset of {self._name} raised; the next task builds another value", error)

    def _build(self) -> None:
        state = self._state()
        assert state is not None
        self._built_by = threading.get_ident()
        try:
            init, _, self._teardown = state._open_functions()
            self._name = repr(state)
            value = init()
        except BaseException as error:
            error.add_note(
                f"It was raised while {state!r} was built in process {os.getpid()}; the next "
                "task that asks for it tries again."
            )
            raise
        finally:
            self._built_by = 0
        self._values.append(value)
        task_resources.kept[id(self)] = self

    def close(self) -> None:
        """Tear the value down, unless a task has it in use."""
        if self._values and self._lock.try_acquire():
            try:
                self._discard()
            finally:
                self.release()

    def _discard(self) -> None:
        task_resources.kept.pop(id(self), None)
        value = self._values.pop()
        if self._teardown is None:
            return
        try:
            self._teardown(value)
        except BaseException as error:
            if is_users_interrupt(error):
                raise
            _log(f"teardown of {self._name} raised", error)

    def forget(self) -> None:
        """Leave the parent's value alone in the child of a fork, and begin with an empty cell."""
        _inherited.append(self._values)
        self._values, self._lock, self._built_by = [], TaskLock(), 0


def _log(text: str, error: BaseException) -> None:
    import logging

    logging.getLogger("lazyflow").error("%s", text, exc_info=error)


_inherited: list[Any] = []  # values of the parent, whose destructors must not run in a child


class StateUse(task_resources.Use):
    """The use of a state's value by a task, until the task ends."""

    __slots__ = ("cell", "is_over", "state")

    def __init__(self, run: Any, task: int, state: HasFunctions, cell: StateCell) -> None:
        super().__init__(run, task)
        self.state: Any = state
        self.cell: Any = cell
        self.is_over = False

    def asleep(self) -> AbstractContextManager[None]:
        asleep: AbstractContextManager[None] = self.cell.asleep()
        return asleep

    def end(self) -> None:
        if self.is_over:
            return
        self.cell.reset()  # interrupted, it is called again: not released before it is reset
        self.cell.release()
        self.is_over = True
        self.state = self.cell = None  # contexts keep this object
