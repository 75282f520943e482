"""Results as a worker's answer has them: tuples of an id, a kind of protocol.py, and the rest."""

from __future__ import annotations

from typing import Any

from lazyflow.graph.kinds import COPIED, IMMUTABLE, kinds
from lazyflow.graph.task import HELD, Task
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.processes.protocol import ENCODED, ENCODED_KEPT, KEPT, PLAIN, PLAIN_KEPT
from lazyflow.schedulers.processes.worker.process import WorkerProcess
from lazyflow.schedulers.remote import calls
from lazyflow.schedulers.remote.calls import KEEP, SMALL, WANT
from lazyflow.store.pickling.serialize import Unpicklable
from lazyflow.store.sizes import size_of
from lazyflow.store.values import consumer_copy

_SMALL = 1 << 10  # bytes; a value up to here goes to the parent with the answer


def entry(process: WorkerProcess, i: int, value: Any, flags: int) -> tuple[Any, ...]:
    """Return what the answer has of one result."""
    is_there = bool(flags & KEEP)
    if value.__class__ in IMMUTABLE and calls.is_short(value):
        return (i, PLAIN_KEPT if is_there else PLAIN, value)
    size = size_of(value)
    if flags & WANT or (flags & SMALL and size < process.least):
        try:
            encoded = process.encoded(value)
        except Unpicklable:
            if flags & WANT:
                raise
            return (i, KEPT, size)  # it can be of use where it is
        kind = ENCODED_KEPT if is_there else ENCODED
        return (i, kind, encoded.payload, encoded.buffers, encoded.size)
    return (i, KEPT, size)


def described(process: WorkerProcess, i: int, value: Any) -> tuple[Any, ...]:
    """Return what the answer has of a value that stays: the value too, when it is small."""
    if value.__class__ in IMMUTABLE:
        return entry(process, i, value, KEEP)
    size = size_of(value)
    if size <= _SMALL and calls.travels_well(value):
        try:
            encoded = process.encoded(value)
            return (i, ENCODED_KEPT, encoded.payload, encoded.buffers, encoded.size)
        except Unpicklable:
            pass
    return (i, KEPT, size)


def value_if_held(task: Task) -> Any:
    """Return the value of a future that a task has returned, waiting for it; else the task."""
    if task._func is not HELD:
        return task
    future: TaskFuture = task._args[0]
    value, error = future.outcome_now()
    if error is not None:
        raise error
    return consumer_copy(value) if kinds[type(value)] in COPIED else value
