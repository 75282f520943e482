"""A handle on a value that exists or will exist: `persist` puts it in the place of a graph::

    pending -- _set, once --> finished | failed | cancelled
    failed  -- reopen ------> pending            (`retry`)

>>> future = TaskFuture("load", scheduler=None)
>>> future.add_callback(lambda done: print("now", done.state))
>>> future.set_value(3)
now finished
>>> future.cancel(), future.outcome()            # too late: value and error
(False, (3, None))

State of a `TaskFuture`::

    state :: str                      the last to change, after value and error
    _open :: [None], then []          the thread that pops the item sets the outcome
    _callbacks :: [function]          the setter, and a thread that adds one, take and call them
    run :: (run, task), then None     keeps the run alive until the future is done
    recipe :: [(task, owner)]         for `retry`, until there is a value
    _unseen :: (finalizer, _ToldError)    logs an error if no one looks at it

No lock is held while a value is set: `list.pop` gives an item to just one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from types import TracebackType
from typing import Any

from lazyflow.errors import Cancelled, TaskTimeout
from lazyflow.finalizers import LastCall, WeakValues
from lazyflow.graph.kinds import KEPT, kinds
from lazyflow.interrupts import Event
from lazyflow.logs import ERROR, log
from lazyflow.schedulers.core.base import EndsTasks, provides
from lazyflow.schedulers.core.errors.failures import notes_of, text_of, traceback_of
from lazyflow.schedulers.core.task_resources import asleep, here
from lazyflow.store.spilling import opened

PENDING, FINISHED, FAILED, CANCELLED = "pending", "finished", "failed", "cancelled"


class TaskFuture:
    """The value of one wanted task of a background run; ``name`` is for messages.

    The future keeps its run alive, and the run knows the future by a weak reference only, so that
    a value that can't be asked for any more is not computed.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_error",
        "_open",
        "_trace",
        "_unseen",
        "_value",
        "name",
        "recipe",
        "run",
        "scheduler",
        "state",
    )

    def __init__(self, name: str, scheduler: Any) -> None:
        self.name = name
        self.scheduler = scheduler  # where the value lives: runs that use it go there
        self.state = PENDING
        self._value: Any = None
        self._error: BaseException | None = None
        self._trace: TracebackType | None = None
        self._unseen: tuple[LastCall, _ToldError] | None = None
        self._open = [None]
        self._callbacks: list[Callable[[TaskFuture], None]] = []
        self.run: tuple[Any, int] | None = None
        self.recipe: list[Any] = []

    def done(self) -> bool:
        """Tell whether waiting would return at once."""
        return self.state is not PENDING

    def cancel(self, force: bool = False) -> bool:
        """Give the value up; return whether that came in time.

        `force` ends its task if it is running, where the scheduler can.
        """
        run = self.run
        scheduler = self.scheduler
        can_end = provides(scheduler, EndsTasks)
        if force and not can_end and not self.done():
            name = "this" if scheduler is None else scheduler.name
            raise ValueError(
                f"a running task can't be ended on the {name!r} scheduler, whose tasks share this "
                'process. Leave force=True out, or run it by persist(..., scheduler="processes")'
            )
        error = Cancelled(f"{self.name} was cancelled before it was computed")
        if not self._set(CANCELLED, error=error):
            return False
        if run is not None:
            if force and can_end:
                scheduler.end_task(*run)
            run[0].cancel_task(run[1])
        return True

    def set_outcome(self, value: Any, error: BaseException | None) -> None:
        """Store the error if there is one, else the value, unless the future was cancelled."""
        if error is None:
            self.set_value(value)
        else:
            self.set_error(error)

    def set_value(self, value: Any) -> None:
        """Store the value, unless the future was cancelled."""
        self._set(FINISHED, value)

    def set_error(self, error: BaseException) -> None:
        """Store the error, unless the future was cancelled."""
        self._set(FAILED, error=error)

    def _set(self, state: str, value: Any = None, error: BaseException | None = None) -> bool:
        try:
            self._open.pop()
        except IndexError:
            return False
        self._value = value
        if error is not None:
            self._error, self._trace = error, traceback_of(error)
            # The caller that cancelled, interrupted or ended the program knows it.
            if type(error) is not Cancelled:
                told = _told.setdefault(id(error), _ToldError(error))
                self._unseen = LastCall(log_unseen, told), told
        self.run = None
        callbacks = self._callbacks
        self.state = state  # from here on it may be opened again, which has callbacks of its own
        if state is not FAILED:
            self.recipe.clear()
        self._call_back(callbacks)
        return True

    def reopen(self) -> None:
        """Forget a failure: another run will set the outcome."""
        self._error = self._trace = None
        if self._unseen is not None:
            self._unseen[0].cancel()
            self._unseen = None
        self._callbacks = []
        self.state = PENDING
        self._open.append(None)

    def add_callback(self, callback: Callable[[TaskFuture], None]) -> None:
        """Call ``callback(self)`` when the future is done, now if it is; it must not raise."""
        callbacks = self._callbacks
        callbacks.append(callback)
        if self.state is not PENDING or callbacks is not self._callbacks:
            self._call_back(callbacks)

    def remove_callback(self, callback: Callable[[TaskFuture], None]) -> None:
        """Remove a callback that was not called yet."""
        try:
            self._callbacks.remove(callback)
        except ValueError:
            pass

    def _call_back(self, callbacks: list[Callable[[TaskFuture], None]]) -> None:
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:
                return
            callback(self)

    def local_outcome(self) -> tuple[Any, BaseException | None]:
        """Return value and error; of a value in another process, the handle."""
        if self._error is not None:
            if self._unseen is not None:
                call, told = self._unseen
                call.cancel()
                told.is_told = True
            return None, BaseException.with_traceback(self._error, self._trace)
        return opened(self._value), None

    def is_elsewhere(self) -> bool:
        """Tell whether the value is in another process, so that `outcome` has to bring it."""
        return getattr(type(self._value), "_lazyflow_remote", False)

    def outcome(self, as_kept: bool = False) -> tuple[Any, BaseException | None]:
        """Return the value and the error of a done future; the error has the task's frames only.

        With `as_kept`, a run gets the stand-in for a value below `memory_limit`.
        """
        if as_kept and kinds[type(self._value)] == KEPT:
            return self._value, None
        value, error = self.local_outcome()
        if self.is_elsewhere():
            try:
                return value.get(), None
            except Exception as broken:
                return None, broken
        return value, error

    def outcome_now(self) -> tuple[Any, BaseException | None]:
        """Wait for the value or the error, and return both."""
        wait_for([self])
        return self.outcome()


class _ToldError:
    """An error, and whether the program was told of it: one for all futures that have the error."""

    __slots__ = ("__weakref__", "error", "is_told")

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.is_told = False


#: By id of the error, which lives as long as a future that has it.
_told: WeakValues[_ToldError] = WeakValues()


def log_unseen(told: _ToldError) -> None:
    """Log the error of a future, if neither that nor another one with this error was looked at."""
    if told.is_told:
        return
    told.is_told = True
    error = told.error
    log(
        ERROR, "a future or persisted value that nobody looked at had failed: %s: %s (%s)",
        type(error).__name__, text_of(error), " ".join(notes_of(error)),
    )


def wait_for(
    futures: Sequence[TaskFuture],
    count: int | None = None,
    timeout: float | None = None,
    behind: Sequence[TaskFuture] | None = None,
) -> bool:
    """Sleep until `count` futures (None: all) are done; return False if the time runs out first.

    `behind` are the futures that runs set, if `futures` are others that wait for those.
    """
    waiting = [f for f in futures if not f.done()]
    missing = (len(futures) if count is None else count) - (len(futures) - len(waiting))
    if missing <= 0:
        return True
    if here.actor is not None and timeout is None and missing == len(waiting):
        here.actor.sleeps(waiting)
    enough = Event()
    not_last = iter([None] * (missing - 1))  # taken one by one, each by one thread alone
    last = iter([enough])

    def one_more(_: TaskFuture) -> None:
        if next(not_last, enough) is enough and next(last, None) is enough:
            enough.set()

    try:
        for future in waiting:
            future.add_callback(one_more)
        with asleep():
            engines = _engines_of(waiting if behind is None else behind)
            if here.slot is not None:
                engines.add(here.slot)
            return wait_watching(engines, enough.wait, timeout)
    finally:
        for future in waiting:
            future.remove_callback(one_more)


def when_all_done(futures: Sequence[TaskFuture], then: Callable[[], object]) -> None:
    """Call `then` once, in the thread of the last, when all are done: now if they are."""
    left = iter([None] * len(futures))  # taken one by one, each by one thread alone

    def one_more(_: Any) -> None:
        if next(left, then) is then:
            then()

    for future in futures:
        future.add_callback(one_more)
    one_more(None)


def _engines_of(futures: Sequence[TaskFuture]) -> set[Any]:
    runs = [run for future in futures if (run := future.run) is not None]
    return {engine for run, _ in runs if (engine := run.engine) is not None}


def wait_watching(
    engines: Iterable[Any], wait: Callable[[float | None], bool], timeout: float | None
) -> bool:
    """Wait as `wait` does, while engines look now and then at whether they can go on."""
    looks = [engine.lookout() for engine in engines]
    rest = inf if timeout is None else timeout
    while looks:
        pauses = [pause for look in looks if (pause := next(look, None)) is not None]
        pause = min(pauses, default=inf)
        if pause >= rest:
            break
        if wait(pause):
            return True
        rest -= pause
    return wait(None if rest == inf else rest)


def timed_out(names: Sequence[str], timeout: float, running: Sequence[str]) -> TaskTimeout:
    """Make the error for values that were not there in time."""
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    now = f"; running when time ran out: {', '.join(running)}" if running else ""
    return TaskTimeout(f"no result of {shown} after {timeout:g} s{now}")
