"""Every error that lazyflow raises by a name of its own.

A task's own exception is raised with its own type; these names are for what the library finds.
"""

__all__ = [
    "Cancelled",
    "CycleError",
    "InputMutated",
    "KeyConflict",
    "LazyflowError",
    "LazyflowWarning",
    "RemoteTaskError",
    "SchedulerLost",
    "SerializationError",
    "StoreFull",
    "TaskTimeout",
    "WorkerDied",
]


class LazyflowError(Exception):
    """Base of all errors below, so that one ``except`` catches what the library finds."""


class LazyflowWarning(UserWarning):
    """Base of the advice that lazyflow gives without failing."""


class RemoteTaskError(LazyflowError):
    """A task raised what must not be raised as it is in the caller.

    `SystemExit`, `GeneratorExit`, `StopIteration`, `asyncio.CancelledError`, or
    `KeyboardInterrupt` off the main thread: raised as they are they would end the caller's
    program, generator or event loop. The original is ``__cause__``.
    """


class Cancelled(LazyflowError):
    """The value was asked for after its work had been cancelled."""


class TaskTimeout(LazyflowError, TimeoutError):
    """``timeout=`` ran out; the message names the tasks that were running."""


class KeyConflict(LazyflowError, ValueError):
    """Two different tasks carry one key; the message has both creation lines."""


class CycleError(LazyflowError, ValueError):
    """A graph given as data refers to itself; the message has the path."""


class InputMutated(LazyflowError):
    """A task changed one of its inputs in place (found by ``config.check_mutation``)."""


class SerializationError(LazyflowError, TypeError):
    """Something cannot be pickled; the message says which task, role and path."""


class StoreFull(LazyflowError, MemoryError):
    """The store of results has no room left."""


class WorkerDied(LazyflowError):
    """A worker ended while it ran a task; the message says which task and how it ended."""


class SchedulerLost(LazyflowError):
    """The connection to the cluster that runs the tasks is gone, or its scheduler is."""
