"""Values that each worker builds once and its tasks share: models, connections, caches.

A `WorkerState` is pickled as a token: an identity, and the functions that make the value. The
value itself never leaves the process that made it::

    state.get() in a task --> StateUse, until the task ends --> StateCell.acquire --> TaskLock
                                                                     |
                                                                  _build, the first time: init()

State of a process::

    _states :: weak {identity: WorkerState}    one object for each state, however often it arrives
    StateCell._values :: [value]               empty before it is built, and after a teardown
    TaskLock._holder :: thread, or 0           it hands the lock to the thread that waited longest
    _waits :: {thread: TaskLock}               who waits for what: a circle is found, and raises
    _in_use :: (StateUse, ...)                 of this task and those around it: a context variable
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from lazyflow import config
from lazyflow.finalizers import LastCall, WeakValues
from lazyflow.interrupts import is_users_interrupt
from lazyflow.logs import ERROR, log
from lazyflow.schedulers.core import task_resources
from lazyflow.schedulers.core.task_resources import asleep, here

# -- A lock that one task at a time may hold ----------------------------------------------
#
# A thread of a pool that waits for the lock keeps its slot, or a thousand waiting tasks would mean
# a thousand threads. But when the task that holds the lock sleeps itself, the work that it sleeps
# for may need those slots: then the waiting threads give theirs up.

#: Messages to a waiting thread: it holds the lock now; it shall give up its slot.
_ACQUIRED, _GIVE_UP_SLOT = True, False

#: For each thread that waits, the lock that it waits for.
_waits: dict[int, TaskLock] = {}


class Deadlock(RuntimeError):
    """Two tasks would wait for each other forever."""


class TaskLock:
    """A lock that knows the thread that holds it, and the threads that wait.

    >>> lock = TaskLock()
    >>> lock.acquire()
    >>> lock.is_mine(), lock.try_acquire()
    (True, False)
    >>> lock.release()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0  # a thread; 0: none
        self._holder_sleeps = False
        self._waiting: deque[tuple[int, SimpleQueue[bool]]] = deque()

    def is_mine(self) -> bool:
        """Tell whether this thread holds the lock."""
        return self._holder == threading.get_ident()

    def acquire(self) -> None:
        """Wait until this thread holds the lock; raises `Deadlock` when that can't be."""
        me = threading.get_ident()
        with self._lock:
            if not self._holder:
                self._holder = me
                return
            messages: SimpleQueue[bool] = SimpleQueue()
            self._waiting.append((me, messages))
            _waits[me] = self
            gives_up_slot = self._holder_sleeps
        try:
            self._refuse_circle(me)
            if not gives_up_slot:
                gives_up_slot = messages.get() is _GIVE_UP_SLOT
                if not gives_up_slot:
                    return
            with asleep():
                _await_turn(messages)
        except BaseException:
            self._leave(me, messages)
            raise

    def release(self) -> None:
        """Hand the lock to the thread that has waited longest."""
        with self._lock:
            self._pass_on()

    def try_acquire(self) -> bool:
        """Acquire the lock if no thread holds it; tell whether that was so."""
        with self._lock:
            if self._holder:
                return False
            self._holder = threading.get_ident()
            return True

    @contextmanager
    def holder_asleep(self) -> Iterator[None]:
        """Make waiting threads give up their slots while the holder of the lock sleeps."""
        with self._lock:
            self._holder_sleeps = True
            waiting = [messages for _, messages in self._waiting]
        for messages in waiting:
            messages.put(_GIVE_UP_SLOT)
        try:
            yield
        finally:
            with self._lock:
                self._holder_sleeps = False

    def _pass_on(self) -> None:
        self._holder_sleeps = False
        if self._waiting:
            self._holder, messages = self._waiting.popleft()
            _waits.pop(self._holder, None)
            messages.put(_ACQUIRED)
        else:
            self._holder = 0

    def _leave(self, me: int, messages: SimpleQueue[bool]) -> None:
        """Wait no more, after an interrupt or a deadlock."""
        with self._lock:
            if (me, messages) in self._waiting:
                self._waiting.remove((me, messages))
                _waits.pop(me, None)
            else:  # the lock was handed over just now
                self._pass_on()

    def _refuse_circle(self, me: int) -> None:
        # All waiting threads are in `_waits` before they look: the last one of a circle sees it.
        lock: TaskLock | None = self
        while lock is not None:
            holder = lock._holder
            if holder == me:
                if lock is self or me not in _waits:
                    return  # the lock was handed over just now
                raise Deadlock("it is in use by a task that waits for a state that this task uses")
            lock = _waits.get(holder)


def _await_turn(messages: SimpleQueue[bool]) -> None:  # a loop beside `with`: see threads.py
    while messages.get() is _GIVE_UP_SLOT:
        pass


# -- the cells that hold a worker state's values, and their use by tasks ------------------


class StateCell(task_resources.Kept):
    """One value of a state: empty until the value is built, and after it is torn down."""

    def __init__(self, state: WorkerState[Any]) -> None:
        self._state = weakref.ref(state)  # which owns this cell
        self._name = repr(state)
        self._values: list[Any] = []
        self._teardown: Callable[[Any], Any] | None = None
        self._lock = TaskLock()
        self._built_by = 0

    def is_of(self, state: WorkerState[Any]) -> bool:
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
            raise RuntimeError(
                f"init of {self._name} calls get() of the state that it builds; let it return the "
                "value"
            )
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
            log(
                ERROR, "reset of %s raised; the next task builds another value", self._name,
                error=error,
            )

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
            log(ERROR, "teardown of %s raised", self._name, error=error)

    def leave_to_parent(self) -> None:
        """Leave the parent's value alone in the child of a fork, and begin with an empty cell."""
        _inherited.append(self._values)
        self._values, self._lock, self._built_by = [], TaskLock(), 0


_inherited: list[Any] = []  # values of the parent, whose destructors must not run in a child


class StateUse(task_resources.Use):
    """The use of a state's value by a task, until the task ends."""

    __slots__ = ("cell", "is_over", "state")

    def __init__(self, run: Any, task: int, state: WorkerState[Any], cell: StateCell) -> None:
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


# -- worker states ------------------------------------------------------------------------

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

    A task gets the value from ``state.get()``. The state may be a global, a closure variable, or an
    argument at any depth. The value is never pickled, so it may be any object. On sync and threads
    the only worker is this process; outside tasks ``get`` returns the value of this process.

    Parameters
    ----------
    init
        Makes the value. If it raises, the task raises the same error, and the next task tries
        again.
    reset
        Called with the value when a task that used it has ended, failed or not, and before a
        retry; its result is ignored. If it raises, the error is logged and the value is torn
        down: the next task builds another. It may change the value in place, so a task that
        returns a part of the value must return a copy.
    teardown
        Called with the value when the state is dropped (also in workers, except Ray's), and when
        the worker ends: at the end of the process, at `lazyflow.shutdown`, or when the thread ends.
        Worker processes have half a second for it. It is not called in killed processes; Ray
        kills its workers. Errors are logged.
    scope
        ``"process"``: one value per process. A task that has called ``get`` has the value to
        itself until it ends; other tasks that ask for it wait. ``"thread"``: one value per thread
        that runs tasks, as many as the worker runs tasks at once; no task waits.

    Raises
    ------
    TypeError
        `init`, `reset` or `teardown` is not callable.
    ValueError
        `scope` is neither ``"process"`` nor ``"thread"``.

    Notes
    -----
    Outside tasks `get` never waits and nothing is reset: do not change the value there while
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

        Raises
        ------
        RuntimeError
            The task would wait forever: a task that uses the same state computes this one, or two
            tasks ask for two states in opposite order.

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
                    f"{self!r} is in use by the task that computes this one, so get() would wait "
                    "for ever. Pass the needed part of the value as an argument, or call get() in "
                    "that task after its compute"
                )
            return use.cell.acquire()
        use = StateUse(run, number, self, self._cell())
        # first: whatever interrupts the next lines, it ends with the task
        task_resources.begin(use)
        _in_use.set((*held, use))
        return use.cell.acquire()

    def _use_of(self, uses: Iterable[Any]) -> StateUse | None:
        for use in uses:
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
            state_cell: StateCell = place.cell
        except AttributeError:
            with self._lock:
                if not hasattr(place, "cell"):
                    cell = StateCell(self)
                    place.end = LastCall(cell.close)
                    place.cell = cell
            state_cell = place.cell
        return state_cell

    def _open_functions(self) -> tuple[Any, ...]:
        functions = self._functions
        if functions is None:
            import pickle

            assert self._payload is not None
            functions = self._functions = pickle.loads(self._payload)
        return functions

    def close(self) -> None:
        """Tear down the values of this process, except those that a task is using.

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
                    f"init, reset and teardown of {self!r} are pickled for the workers, and one of "
                    "them holds an object that can't be pickled. Make that object inside init"
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
