"""Several short calls of an executor that travel as one task, and their outcomes on the way back.

A parcel is for calls that take microseconds each, where a task takes a hundred. When one of them
takes long after all, the worker gives back the calls that it has not begun and sends the outcomes
of the others at once: a call may wait for another one that was sent with it.

State of this process::

    _running :: _Parcel         the one that the main thread runs; the thread that answers the
                                parent takes calls out of it, under no lock: both pop from deques
    _lock                       a report of a parcel is sent before its end
    _functions :: {digest: f}   functions of calls that came lately; the main thread's
    _started :: {digest}        initializers that were called, once each, under `_starting`
"""

from __future__ import annotations

import marshal
import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any

from lazyflow.graph.kinds import IMMUTABLE
from lazyflow.recent import Recent
from lazyflow.schedulers.core.task_resources import here, task_over
from lazyflow.schedulers.remote.calls import failure_record, is_short, unreadable
from lazyflow.store.pickling.functions import load_function
from lazyflow.store.pickling.serialize import encode
from lazyflow.store.sizes import size_of

#: How a call has ended, and the rest of its outcome: the value as it is; its pickle; the record of
#: its error; why the initializer of the executor has failed.
PLAIN, PICKLED, FAILED, NOT_STARTED = range(4)

_LARGE = 1 << 16  # bytes from which a result is handed over by itself, in shared memory; a guess
_MARSHAL = 2  # its version: later ones look for repeated objects, as in protocol.py

_functions: Recent[bytes, Callable[..., Any]] = Recent(64)
_started: set[bytes] = set()  # initializers that this process has called
_starting = threading.RLock()


class LargeResult:
    """The result of a parcel that stops at a large value: that, and the other outcomes."""

    __slots__ = ("number", "rest", "value")

    def __init__(self, number: int, value: Any, rest: bytes) -> None:
        self.number = number
        self.value = value
        self.rest = rest


class _Parcel:
    """The calls of the parcel that runs: any thread takes from both queues."""

    def __init__(self, records: list[tuple[int, Any]]) -> None:
        self.todo = deque(enumerate(records))
        self.done: deque[tuple[int, int, Any]] = deque()
        self.times: dict[int, tuple[int, float]] = {}

    def report(self, gives_back: bool) -> bytes:
        """Return outcomes, numbers of calls given back, and calls and seconds by function."""
        back, done = [], []
        while gives_back and self.todo:
            try:
                back.append(self.todo.popleft()[0])
            except IndexError:  # it was begun
                break
        while self.done:
            done.append(self.done.popleft())
        times, self.times = self.times, {}
        return marshal.dumps((done, back, tuple(times.items())), _MARSHAL)


_lock = threading.Lock()  # so that a report of a parcel is sent before its end
_running: _Parcel | None = None


def run_parcel(data: bytes) -> bytes | LargeResult:
    """Make the calls of a parcel: in the main thread of a worker."""
    global _running
    start, functions, records = marshal.loads(data)
    running = _running = _Parcel(records)
    try:
        return _run_all(running, start, functions)
    finally:
        _running = None


run_parcel._lazyflow_brought = True  # type: ignore[attr-defined]  # its result is for this once


def _run_all(running: _Parcel, start: bytes | None, functions: list[bytes]) -> Any:
    todo, done = running.todo, running.done
    before = perf_counter()
    while todo:
        try:
            k, (f, arguments) = todo.popleft()
        except IndexError:  # it was given back
            break
        value: Any = None
        try:
            words = begin_here(start) if start is not None else None
            if words is None:
                value = _called(functions[f], arguments)
                outcome = _outcome(k, value)
            else:
                outcome = (k, NOT_STARTED, words)
        except BaseException as error:
            outcome = (k, FAILED, failure_record(error))
        if here.uses:
            task_over(None)
        now = perf_counter()
        times = running.times  # a report takes them out
        count, seconds = times.get(f, (0, 0.0))
        times[f] = count + 1, seconds + now - before
        before = now
        if outcome is None:
            with _lock:
                return LargeResult(k, value, running.report(gives_back=True))
        done.append(outcome)
    with _lock:
        return running.report(gives_back=False)


def begin_here(start: bytes) -> str | None:
    """Call an initializer, once in a process; return why it has failed."""
    with _starting:
        if start in _started:
            return None
        try:
            _, function, args = pickle.loads(start)
            function(*args)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        _started.add(start)
    return None


def _called(payload: bytes, arguments: Any) -> Any:
    function = _functions.get(payload)
    if function is None:
        try:
            function, is_code = load_function(payload)
        except (MemoryError, RuntimeError):
            raise
        except BaseException as error:
            raise unreadable("the function", error, "a call") from error
        if is_code:
            _functions[payload] = function
    if type(arguments) is tuple:
        return function(*arguments)
    try:
        args, kwargs = pickle.loads(arguments)
    except Exception as error:
        raise unreadable("an argument", error, "a call") from error
    return function(*args, **kwargs)


def _outcome(k: int, value: Any) -> tuple[int, int, Any] | None:
    """Return the outcome of a call that has returned; None if the value is large."""
    if value.__class__ in IMMUTABLE and is_short(value):
        return k, PLAIN, value
    if size_of(value) >= _LARGE:
        return None
    return k, PICKLED, encode(value, _nowhere, sys.maxsize).payload


def _nowhere(buffer: Any) -> Any:
    raise AssertionError("nothing is as large as that")


def give_back(is_current: Callable[[], bool], send: Callable[[bytes], None]) -> None:
    """Send the outcomes of the parcel that runs, and give back the calls that it has not begun.

    The report is empty if that parcel has ended: `is_current` tells.
    """
    with _lock:
        running = _running  # before the question: the next parcel is noted after its task
        send(running.report(gives_back=True) if running is not None and is_current() else b"")
