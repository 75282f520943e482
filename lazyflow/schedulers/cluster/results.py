"""The caller's references to values that an engine keeps, and the errors when they are lost.

Policy: a result stays in the cluster until the caller asks for it, and while the reference lives.
Each `get` unpickles it anew, so that edits by one reader are not seen by another. A value that was
put is kept here as well, packed, and sent again when the worker that had it is gone; a result is
not, and the errors below say what was lost, and what to do::

    EngineResult.get   short (came with the report), else outcome (fetched), else engine.bring
    Put                current_handle: sends it at first use, and again when it is lost

State::

    EngineResult.outcome :: GroupOutcome | None   `Engine.bring` sets it, the next `get` takes it
    EngineResult.short :: PackedValue | None      never changed
    Put.handle                                    `current_handle`, below its lock
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

from lazyflow.errors import SerializationError, StoreFull, WorkerDied
from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.schedulers.cluster.engine import Engine, HeldValue
from lazyflow.schedulers.cluster.outcome import GroupOutcome, PackedValue, packed
from lazyflow.schedulers.core.errors.failures import dressed, with_call_note
from lazyflow.schedulers.remote.calls import name_only
from lazyflow.store.pickling.unpicklable import Unpicklable, serialization_error
from lazyflow.store.sizes import format_bytes


class EngineResult(HeldValue):
    """A result that the engine keeps while this object lives; each `get` unpickles it anew.

    short
        The packed result, if it is small.
    outcome
        The fetched outcome, which came with others; taken by the next `get`.
    """

    __slots__ = ("outcome", "short", "task")

    def __init__(
        self, engine: Engine, handle: Any, number: int, task: Task, size: int | None,
        short: PackedValue | None,
    ) -> None:
        super().__init__(engine, handle, number, size)
        self.task = name_only(task)
        self.short = short
        self.outcome: GroupOutcome | None = None

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


class Put(HeldValue):
    """A value that was sent to an engine, and is sent again if the worker with it dies.

    Parameters
    ----------
    copy
        Whether to keep a snapshot, since the caller may write to its memory.
    owner
        The task in the error of a value that can't be pickled.
    """

    __slots__ = ("_lock", "_packed")

    def __init__(
        self, engine: Engine, value: Any, copy: bool = False, owner: str = "that uses it"
    ) -> None:
        super().__init__(engine, None, 0, 0)
        try:
            self._packed = packed(value).checked()
            self.size = self._packed.size()
        except Unpicklable as failed:
            raise serialization_error(owner, "the value", failed) from failed.error
        if copy:
            self._packed = self._packed.copied()
        self._lock = threading.Lock()

    def current_handle(self) -> Any:
        with self._lock:
            if self.handle is None or self.engine.is_lost(self.handle):
                self.handle = self.engine.send(GroupOutcome({0: self._packed}, {}))
            return self.handle

    def is_held_by(self, engine: Engine) -> bool:
        return self.engine is engine

    def get(self) -> Any:
        """Return a copy of the value as it was when it was put."""
        return self._packed.copied().owned()


# -- errors -----------------------------------------------------------------------------------

E = TypeVar("E", bound=BaseException)


def because(cause: BaseException | None, error: E) -> E:
    """Return an error, with its cause."""
    error.__cause__ = cause
    return error


def gone(task: Task, cause: BaseException) -> WorkerDied:
    """Return the error of tasks whose input is lost and can't be computed again."""
    return because(cause, WorkerDied(
        f"the result of {task_name(task)}, made at {place_text(task)}, was kept in the cluster "
        "and is lost: it was cancelled, or its worker ended. It is not computed again there if a "
        "large argument or a value from put() was lost, too, or if its task has crash_retries=0 "
        "and must not run twice. Compute it again."
    ))


def lost_for_good(names: list[str], tries: int, cause: BaseException) -> WorkerDied:
    """Return the error of a run whose inputs are lost again and again."""
    return because(cause, WorkerDied(
        f"the inputs of {', '.join(dict.fromkeys(names))} were lost {tries} times, with the "
        "workers that held them. Look at the workers' logs for why they end."
    ))


def too_much(
    task: Task, needed: int, memory: float, cause: BaseException | None
) -> BaseException:
    """Return the error of a task whose inputs no worker can hold at once."""
    return dressed(because(cause, StoreFull(
        f"{task_name(task)} needs {format_bytes(needed)} of results at once, and the smallest "
        f"worker has {format_bytes(int(memory))} of memory. Give it less at a time, such as "
        "smaller chunks (x.rechunk) or a reduction in steps, or start workers with more memory."
    )), task, None)


def died_alone(task: Task, runs: int, cause: BaseException) -> BaseException:
    """Return the error of a task that ran alone when its last worker died."""
    deaths = "the worker" if runs == 1 else f"{runs} workers"
    return dressed(because(cause, WorkerDied(
        f"{deaths} ended while running this task, the last one while it ran nothing else. It may "
        "have run out of memory, crashed in C code, or called os._exit: run it with "
        "scheduler=\"sync\" to see. crash_retries= of delayed says how often a task is run again "
        "after such a death."
    )), task, None)
