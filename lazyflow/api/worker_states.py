"""What each worker builds once and its tasks share: models, connections, caches.

A `WorkerState` travels as a token: an identity, and how the value is made. The value itself never
leaves the process in which it was made.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from lazyflow import config
from lazyflow.api.lock import Deadlock, Turn
from lazyflow.departures import LastCall, WeakValues
from lazyflow.schedulers.core import task_resources
from lazyflow.schedulers.core.errors.failures import is_users_interrupt
from lazyflow.schedulers.core.slots import here

__all__ = ["WorkerState", "worker_state"]

T = TypeVar("T")

_SCOPES = ("process", "thread")

#: By identity: one object for each state in a process, however often it arrives.
_states: WeakValues[WorkerState[Any]] = WeakValues()

#: What the tasks have in use in which this code runs: a task inside a task has its own.
_held: ContextVar[tuple[_StateUse, ...]] = ContextVar("lazyflow_states_in_use", default=())


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
        Called with the value when the state is dropped (on processes in the workers, too; on
        distributed and Ray the value stays there), and when the worker ends: at the end of the
        process, at `lazyflow.shutdown`, or when the thread ends; worker processes have half a
        second for it, and none when they are killed, as Ray does with its own. Errors are logged.
    scope
        ``"process"``: one value for a process. A task that has called ``get`` has the value to
        itself until it ends; others that ask meanwhile wait. ``"thread"``: one for each thread
        in which tasks run, as many as the worker runs tasks at once; nobody waits.

    Raises
    ------
    RuntimeError
        By ``get`` in a task that would wait for ever: it is computed by a task that has the same
        state in use, or two tasks ask for two states in opposite order.

    Notes
    -----
    Outside of tasks nobody waits and nothing is reset: do not change the value there while tasks
    run in this process.

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
    """What `worker_state` returns."""

    def __init__(
        self,
        identity: str,
        scope: str,
        functions: tuple[Any, ...] | None,
        payload: bytes | None,
    ) -> None:
        self._identity = identity
        self._scope = scope
        self._functions = functions  # opened when they are first needed
        self._payload = payload
        self._pickled_by = 0  # the thread that pickles the functions
        self._end: LastCall | None = None  # of one that has travelled
        self._place: Any = _Here() if scope == "thread" else _Anywhere()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<worker state {self._name()}, scope={self._scope!r}>"

    def _name(self) -> str:
        if self._functions is None:
            return self._identity[:8]
        init = self._functions[0]
        return str(getattr(init, "__qualname__", None) or type(init).__name__)

    def get(self) -> T:
        """Return the value that this worker has, or build it.

        In a task it is the task's until that ends; the same value is returned again.
        """
        task = task_resources.current_task()
        if task is None:
            return self._box().peek()
        run, number = task
        self._end_late(run, number)
        held = tuple([use for use in _held.get() if not use.is_over])
        use = self._use_of(here.uses) or self._use_of(held)
        if use is not None:
            if use.run is not run:
                raise RuntimeError(
                    f"{self!r} is in use by the task that computes this one: it would wait for "
                    "ever. Pass what is needed of the value as an argument, or call get() there "
                    "after the compute"
                )
            return use.box.acquire()
        use = _StateUse(run, number, self, self._box())
        # first: whatever interrupts the next lines, it ends with the task
        task_resources.begin(use)
        _held.set((*held, use))
        return use.box.acquire()

    def _use_of(self, found: Iterable[Any]) -> _StateUse | None:
        for use in found:
            if isinstance(use, _StateUse) and use.state is self:
                return use
        return None

    @staticmethod
    def _end_late(run: Any, number: int) -> None:
        """End what an earlier task of this thread had of whose end nobody heard."""
        if any(use.run is run and use.task != number for use in here.uses):
            task_resources.task_over(run)

    def _box(self) -> _Box:
        owner = self._place.owner
        if owner is None:
            with self._lock:
                owner = self._place.owner
                if owner is None:
                    owner = self._place.owner = _Owner(_Box(self))
        box: _Box = owner.box
        return box

    def _made_of(self) -> tuple[Any, ...]:
        functions = self._functions
        if functions is None:
            import pickle

            assert self._payload is not None
            functions = self._functions = pickle.loads(self._payload)
        return functions

    def close(self) -> None:
        """Tear down the values that this process has, but for those that a task has in use."""
        for box in tuple(task_resources.kept.values()):
            if isinstance(box, _Box) and box.is_of(self):
                box.close()

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
            self._payload = payload  # kept: it is the same bytes each time, so functions that
            # hold the state are the same for the workers, too
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


# -- values -----------------------------------------------------------------------------------


class _Anywhere:
    """Where the value of a process is found."""

    owner: _Owner | None = None


class _Here(threading.local):
    """Where the value of a thread is found."""

    owner: _Owner | None = None


class _Owner:
    """What a thread has, or the state: its box is closed when this has gone."""

    def __init__(self, box: _Box) -> None:
        self.box = box
        self._end = LastCall(box.close)


class _Box(task_resources.Kept):
    """One value of a state; empty until it is built, and again when it is torn down."""

    def __init__(self, state: WorkerState[Any]) -> None:
        self._make = weakref.ref(state)  # the state owns this
        self._name = repr(state)
        self._values: list[Any] = []
        self._teardown: Callable[[Any], Any] | None = None
        self._turn = Turn()
        self._built_by = 0

    def is_of(self, state: WorkerState[Any]) -> bool:
        """Tell whether this is a value of a state."""
        return self._make() is state

    def peek(self) -> Any:
        """Return the value, built if need be, to who has it already or is no task."""
        try:
            return self._values[0]
        except IndexError:
            value = self.acquire()
            self.release()
            return value

    def acquire(self) -> Any:
        """Return the value when this task may have it."""
        if self._built_by == threading.get_ident():
            raise RuntimeError(f"init of {self._name} calls get() of the state that it builds")
        try:
            if not self._turn.is_mine():
                self._turn.take()
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
        """Let the next task have it, if this one has it still."""
        if self._turn.is_mine():
            self._turn.give()

    def asleep(self) -> AbstractContextManager[None]:
        """Return what is entered while the task sleeps that has the value."""
        return self._turn.holder_asleep()

    def reset(self) -> None:
        """Make the value ready for the next task, if this one had it."""
        state = self._make()
        reset = state._made_of()[1] if state is not None and self._values else None
        if reset is None or not self._turn.is_mine():
            return
        try:
            reset(self._values[0])
        except BaseException as error:
            self._discard()
            if is_users_interrupt(error):
                raise
            _log(f"reset of {self._name} raised; the next task builds another value", error)

    def _build(self) -> None:
        state = self._make()
        assert state is not None
        self._built_by = threading.get_ident()
        try:
            init, _, self._teardown = state._made_of()
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
        if self._values and self._turn.try_take():
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
        """In the child of a fork: leave the parent's value alone, and begin anew."""
        _inherited.append(self._values)
        self._values, self._turn, self._built_by = [], Turn(), 0


def _log(text: str, error: BaseException) -> None:
    import logging

    logging.getLogger("lazyflow").error("%s", text, exc_info=error)


_inherited: list[Any] = []  # so that nobody's destructor runs in the child


class _StateUse(task_resources.Use):
    """A task has the value of a state until it ends."""

    __slots__ = ("box", "is_over", "state")

    def __init__(self, run: Any, task: int, state: WorkerState[Any], box: _Box) -> None:
        super().__init__(run, task)
        self.state: Any = state
        self.box: Any = box
        self.is_over = False

    def asleep(self) -> AbstractContextManager[None]:
        asleep: AbstractContextManager[None] = self.box.asleep()
        return asleep

    def end(self) -> None:
        if self.is_over:
            return
        self.box.reset()  # interrupted, it is called again: not released before it is reset
        self.box.release()
        self.is_over = True
        self.state = self.box = None  # contexts keep what they saw
