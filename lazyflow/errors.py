"""The errors that lazyflow itself raises.

A task's exception keeps its own type; these classes are for problems that the library finds.
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
    """The base class of all errors below: one ``except`` catches them all.

    Examples
    --------
    >>> import lazyflow
    >>> try:
    ...     lazyflow.compute(lazyflow.delayed(abs)(-1), timeout=60)
    ... except lazyflow.LazyflowError as error:
    ...     print("lazyflow could not compute it:", error)
    (1,)
    """


class LazyflowWarning(UserWarning):
    """The base class of warnings, by which lazyflow gives advice.

    Examples
    --------
    >>> import warnings, lazyflow
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", lazyflow.LazyflowWarning)
    ...     lazyflow.delayed(abs)(-1).compute()
    1
    """


class RemoteTaskError(LazyflowError):
    """A task raised an exception that can't be raised unchanged in the caller.

    `SystemExit`, `GeneratorExit`, `StopIteration`, `asyncio.CancelledError`, and
    `KeyboardInterrupt` outside the main thread would end the caller's program, generator or
    event loop: ``__cause__`` is the exception of the task. Others can't be brought from another
    process, since they can't be pickled: the message has their type and words, and ``__cause__``
    is None.

    Examples
    --------
    >>> import sys, lazyflow
    >>> try:
    ...     lazyflow.delayed(sys.exit)(3).compute()
    ... except lazyflow.RemoteTaskError as error:
    ...     error.__cause__
    SystemExit(3)
    """


class Cancelled(LazyflowError):
    """A value was requested after its work had been cancelled.

    Examples
    --------
    >>> from threading import Event
    >>> import lazyflow
    >>> event = Event()
    >>> x = lazyflow.submit(event.wait)
    >>> x.cancel()
    True
    >>> x.result()
    Traceback (most recent call last):
    ...
    lazyflow.errors.Cancelled: wait was cancelled before it was computed
    >>> event.set()
    """


class TaskTimeout(LazyflowError, TimeoutError):
    """``timeout=`` ran out; the message names the tasks that were running.

    Examples
    --------
    >>> from threading import Event
    >>> import lazyflow
    >>> event = Event()
    >>> lazyflow.delayed(event.wait)().compute(timeout=0.01)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    lazyflow.errors.TaskTimeout: no result of wait after 0.01 s...
    >>> event.set()
    """


class KeyConflict(LazyflowError, ValueError):
    """Two different tasks have the same key; the message names the lines that made them.

    Examples
    --------
    >>> import lazyflow
    >>> one, two = lazyflow.delayed(1, name="x"), lazyflow.delayed(2, name="x")
    >>> lazyflow.compute(one, two)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    lazyflow.errors.KeyConflict: ...
    """


class CycleError(LazyflowError, ValueError):
    """Calls of actors wait for each other in a circle; the message names it.

    Examples
    --------
    >>> import lazyflow
    >>> raise lazyflow.CycleError("a needs b, which needs a")
    Traceback (most recent call last):
    ...
    lazyflow.errors.CycleError: a needs b, which needs a
    """


class InputMutated(LazyflowError):
    """A task changed an input in place; detected with ``config.check_mutation``.

    Examples
    --------
    >>> import lazyflow
    >>> class Account:
    ...     total = 0
    >>> account = lazyflow.delayed(Account)()
    >>> with lazyflow.config.set(check_mutation=True):
    ...     lazyflow.delayed(setattr)(account, "total", 1).compute()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    lazyflow.errors.InputMutated: ...
    """


class SerializationError(LazyflowError, TypeError):
    """An object can't be pickled; the message names its task and its place there.

    Examples
    --------
    >>> import pickle, lazyflow
    >>> pickle.dumps(lazyflow.put(1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    lazyflow.errors.SerializationError: ... can't be pickled: a future belongs to this process...
    """


class StoreFull(LazyflowError, MemoryError):
    """The memory for results is full.

    Examples
    --------
    >>> import lazyflow
    >>> x = lazyflow.delayed(sum)([1, 2, 3])
    >>> try:
    ...     x.compute()
    ... except lazyflow.StoreFull:
    ...     x.compute(num_workers=1)  # fewer results at a time
    6
    """


class WorkerDied(LazyflowError):
    """A worker process ended while it ran a task; the message names the task and the reason.

    Examples
    --------
    >>> import os, lazyflow
    >>> leave = lazyflow.delayed(os._exit, crash_retries=0)
    >>> leave(3).compute(scheduler="processes")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    lazyflow.errors.WorkerDied: ...
    """


class SchedulerLost(LazyflowError):
    """The cluster that runs the tasks, or the connection to it, is lost.

    Examples
    --------
    >>> import lazyflow
    >>> x = lazyflow.delayed(sum)([1, 2, 3])
    >>> try:
    ...     x.compute()
    ... except lazyflow.SchedulerLost:
    ...     x.compute(scheduler="threads")
    6
    """
