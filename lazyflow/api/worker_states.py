"""Values that each worker builds once and its tasks share: models, connections, caches.

A `WorkerState` is pickled as a token: an identity, and the functions that make the value. The
value itself never leaves the process that made it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from lazyflow import config
from lazyflow.api.state_cells import StateCell, StateUse
from lazyflow.departures import LastCall, WeakValues
from lazyflow.schedulers.core import task_resources
from lazyflow.schedulers.core.current_worker import here

__all__ = ["WorkerState", "worker_state"]

T = TypeVar("T")

_SCOPES = ("process", "thread")

#: By identity: one object for each state in a process, however often it arrives.
_states: WeakValues[WorkerState[Any]] = WeakValues()

#: The states that this task and the tasks around it have in use: a nested task adds its own.
_in_use: ContextVar[tuple[StateUse, ...]] = ContextVar("lazyflow_states_in_use", default=())


def worker_state(
    init: Callable[[], T],
    reset: Callable[[T], Any] | None = None,
    teardown: Callable[[T], Any] | None = None,
    scope: str = "process",
) -> WorkerState[T]:
    """Make a state that every worker builds for itself, once, when a task first asks for it.

    A task gets the value by ``state.get()``: the state may be a global, be closed over, or be an
    argument at any depth. The value is never pickled, so it may be anything. On sync and threads
    the only worker is this process; outside of tasks ``get`` returns the value of this process.

    Parameters
    ----------
    init
        Makes the value. What it raises, the task raises; the next one tries again.
    reset
        Called with the value when a task that used it has ended, failed or not, before a retry
        too; what it returns is ignored. When it raises, that is logged, and the value is torn
        down: the next task builds another. It may change the value in place, so a task that
        returns a part of the value must return a copy.
    teardown
        Called with the value when the state is dropped (in workers, too, but not Ray's), and when
        the worker ends: at the end of the process, at `lazyflow.shutdown`, or when the thread ends;
        worker processes have half a second for it, and none when they are killed, as Ray does with
        its own. Errors are logged.
    scope
        ``"process"``: one value for a process. A task that has called ``get`` has the value to
        itself until it ends; others that ask meanwhile wait. ``"thread"``: one for each thread
        in which tasks run, as many as the worker runs tasks at once; no task waits.

    Raises
    ------
    RuntimeError
        By ``get`` in a task that would wait for ever: it is computed by a task that has the same
        state in use, or two tasks ask for two states in opposite order.

    Notes
    -----
    Outside of tasks `get` never waits and nothing is reset: do not change the value there while
    tasks run in this process.

    Examples
    --------
    >>> import lazyflow
    >>> words = lazyflow.worker_state(list, reset=list.clear)
    >>> @lazyflow.delayed
    ... def add(word):
    ...     words.get().append(word)
    ...     return len(words.get())
    >>> lazyflow.compute(add("a"), add("b"))
    (1, 1)
    """
    for name, function in (("init", init), ("reset", reset), ("teardown", teardown)):
        if not callable(function) and (function is not None or name == "init"):
            raise TypeError(
                f"{name} must be a function, not {type(function).__name__}; for a value that is "
                "there already, pass it to the tasks as an argument"
            )
    if scope not in _SCOPES:
        raise ValueError(f"scope must be 'process' or 'thread', not {scope!r}"
                         f"{config.nearest(str(scope), list(_SCOPES))}")
    identity = os.urandom(16).hex()
    made = _states[identity] = WorkerState(identity, scope, (init, reset, teardown), None)
    return made


class WorkerState(Generic[T]):
    """A value that every worker builds once; made by `worker_state`.

    Examples
    --------
    >>> import lazyflow
    >>> rates = lazyflow.worker_state(lambda: {"EUR": 1.0, "USD": 1.1})
    >>> lazyflow.delayed(lambda name: rates.get()[name])("USD").compute()
    1.1
    """

    def __init__(
        self,
        identity: str,
        scope: str,
        functions: tuple[Any, ...] | None,
        payload: bytes | None,
    ) -> None:
        self._identity = identity
        self._scope = scope
        self._functions = functions  # unpickled when they are first needed
        self._payload = payload
        self._pickled_by = 0  # the thread that pickles the functions
        self._end: LastCall | None = None  # of a state that was pickled
        #: Has the cell of the process, or of each thread; it is closed with the state or thread.
        self._place: Any = threading.local() if scope == "thread" else SimpleNamespace()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<worker state {self._name()}, scope={self._scope!r}>"

    def _name(self) -> str:
        if self._functions is None:
            return self._identity[:8]
        init = self._functions[0]
        return str(getattr(init, "__qualname__", None) or type(init).__name__)

    def get(self) -> T:
        """Return the value of this worker; the first call builds it.

        In a task the value is reserved for that task until the task ends.

        Examples
        --------
        >>> import lazyflow
        >>> squares = lazyflow.worker_state(lambda: [n * n for n in range(5)])
        >>> squares.get()
        [0, 1, 4, 9, 16]
        """
        task = task_resources.current_task()
        if task is None:
            return self._cell().peek()
        run, number = task
        self._end_late(run, number)
        held = tuple([use for use in _in_use.get() if not use.is_over])
        use = self._use_of(here.uses) or self._use_of(held)
        if use is not None:
            if use.run is not run:
                raise RuntimeError(
                    f"{self!r} is in use by the task that computes this one: it would wait for "
                    "ever. Pass what is needed of the value as an argument, or call get() there "
                    "after the compute"
                )
            return use.cell.acquire()
        use = StateUse(run, number, self, self._cell())
        # first: whatever interrupts the next lines, it ends with the task
        task_resources.begin(use)
        _in_use.set((*held, use))
        return use.cell.acquire()

    def _use_of(self, found: Iterable[Any]) -> StateUse | None:
        for use in found:
            if isinstance(use, StateUse) and use.state is self:
                return use
        return None

    @staticmethod
    def _end_late(run: Any, number: int) -> None:
        """End the uses of an earlier task of this thread, if nothing reported its end."""
        if any(use.run is run and use.task != number for use in here.uses):
            task_resources.task_over(run)

    def _cell(self) -> StateCell:
        place = self._place
        try:
            found: StateCell = place.cell
        except AttributeError:
            with self._lock:
                if not hasattr(place, "cell"):
                    cell = StateCell(self)
                    place.end = LastCall(cell.close)
                    place.cell = cell
            found = place.cell
        return found

    def _open_functions(self) -> tuple[Any, ...]:
        functions = self._functions
        if functions is None:
            import pickle

            assert self._payload is not None
            functions = self._functions = pickle.loads(self._payload)
        return functions

    def close(self) -> None:
        """Tear down the values of this process, except those that a task has in use.

        Examples
        --------
        >>> import lazyflow
        >>> log = lazyflow.worker_state(list, teardown=lambda value: print("closed", value))
        >>> log.get().append("a")
        >>> log.close()
        closed ['a']
        """
        for cell in tuple(task_resources.kept.values()):
            if isinstance(cell, StateCell) and cell.is_of(self):
                cell.close()

    # -- travelling ---------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        if self._payload is None:
            if self._pickled_by == threading.get_ident():  # a function of its own refers to it
                return _known, (self._identity,)
            import cloudpickle

            self._pickled_by = threading.get_ident()
            try:
                payload = cloudpickle.dumps(self._functions)
            except Exception as error:
                error.add_note(
                    f"init, reset and teardown of {self!r} travel to workers, and one of them "
                    "holds what can't be pickled: make that inside init"
                )
                raise
            finally:
                self._pickled_by = 0
            self._end = LastCall(task_resources.tell_to_drop, self._identity)
            self._payload = payload  # kept, so that workers get the same bytes each time, and
            # recognize functions that hold the state
        return _from_token, (self._identity, self._scope, self._payload)

    def __lazyflow_tokenize__(self) -> str:
        return self._identity


def _from_token(identity: str, scope: str, payload: bytes) -> WorkerState[Any]:
    known = _states.get(identity)
    if known is None:
        new: WorkerState[Any] = WorkerState(identity, scope, None, payload)
        known = task_resources.arrived.setdefault(identity, new)  # the first to come stays
        _states[identity] = known
    return known


def _known(identity: str) -> WorkerState[Any]:
    return _states[identity]
