"""A group of tasks inside the worker of an engine, run by the loop of the sync scheduler::

    payload, deps --> Work --> GroupRun (a `SyncRun` of its plan) --> GroupOutcome, GroupReport

Exceptions of tasks are kept as records. The group returns a `GroupOutcome`, which stays with the
engine, and a report for the caller: failures, times, and the small results that it wants.

State of the worker process, besides that of each `Work`::

    _functions :: {digest: function}    those that are code alone: opened once, the 1,000 used last;
                                        under `_lock`
    _free :: [_GroupThread]             threads without a group, the one freed last at the end
"""

from __future__ import annotations

import contextvars
import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from socket import gethostname
from time import perf_counter, time
from typing import Any, NamedTuple

from lazyflow.errors import Cancelled, SerializationError
from lazyflow.graph.options import Options
from lazyflow.graph.plan import plan_of
from lazyflow.graph.task import HELD, VALUE, Task
from lazyflow.schedulers.cluster.outcome import (
    FileGone,
    GroupOutcome,
    PackedValue,
    open_piece,
    packed,
)
from lazyflow.schedulers.cluster.packing import BIND, PIECE
from lazyflow.schedulers.core.base import Observer, Request
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.core.errors.records import record
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.observing import listen
from lazyflow.schedulers.core.sampling import RunningTask, Sampler, Stack
from lazyflow.schedulers.remote import environment
from lazyflow.schedulers.remote.calls import bare_task, unreadable
from lazyflow.schedulers.sync import SyncRun, SyncScheduler
from lazyflow.store.pickling.functions import load_function
from lazyflow.store.pickling.unpicklable import Unpicklable, serialization_error
from lazyflow.store.sizes import size_of
from lazyflow.system import at_fork

__all__ = ["GroupRun", "Inside", "Work"]


# -- events -------------------------------------------------------------------------------
#
# Events of the tasks of a group: noted by its worker, told to the caller's observers.
#
# An event is a method of `Observer`, the number of the task, and its other arguments; but a failure
# comes without its error, which the report has, and times are by `time.time`.


class GroupLog(Observer):
    """Records the times of the tasks of a group, and which task is running."""

    def __init__(self, functions: dict[int, bytes], keeps_events: bool) -> None:
        self.run: Any = None
        self.functions = functions  # digests, by local number of the task
        self.events: list[tuple[Any, ...]] | None = [] if keeps_events else None
        self.times: dict[bytes, tuple[int, float]] = {}
        self.current = -1
        self._since = 0.0

    def watched(self, interval: float) -> AbstractContextManager[object]:
        """Return a block in which further events are noted: here none are."""
        return nullcontext()

    def close(self) -> None:
        """Record the events noted meanwhile."""

    def task_started(self, run: Any, i: int) -> None:
        if run is self.run:
            self.current = i
            if self.events is not None:
                self.events.append((Observer.task_started, i))
            self._since = perf_counter()

    def task_ended(self, run: Any, i: int) -> None:
        if run is self.run:
            seconds = perf_counter() - self._since
            if self.events is not None:
                self.events.append((Observer.task_ended, i))
            digest = self.functions[i]
            calls, before = self.times.get(digest, (0, 0.0))
            self.times[digest] = calls + 1, before + seconds

    def task_failed(self, run: Any, i: int, error: BaseException) -> None:
        if run is self.run and self.events is not None:
            self.events.append((Observer.task_failed, i))


class TimedGroupLog(GroupLog):
    """Records also when each task was called, for how long it compiled, and where it was."""

    def __init__(self, functions: dict[int, bytes], keeps_events: bool) -> None:
        super().__init__(functions, keeps_events)
        self._notes: dict[tuple[int, Stack], tuple[int, float]] = {}

    def watched(self, interval: float) -> AbstractContextManager[object]:
        """Return a block in which compiling is noted, and looks taken each `interval` seconds."""
        listen()
        if not interval:
            return nullcontext()
        return Sampler(interval, self._running, self._sampled, listen)

    def _running(self) -> list[RunningTask]:
        return list(self.run.observers.timer.running(self.run)) if self.run is not None else []

    def _sampled(self, task: tuple[Any, int], stack: Stack, seconds: float) -> None:
        looks, before = self._notes.get((task[1], stack), (0, 0.0))
        self._notes[task[1], stack] = looks + 1, before + seconds

    def task_compiled(self, run: Any, i: int, seconds: float) -> None:
        if run is self.run and self.events is not None:
            self.events.append((Observer.task_compiled, i, seconds))

    def close(self) -> None:
        if self.events is not None:
            noted = self._notes.items()
            self.events += [(Observer.task_sampled, *at, *seen) for at, seen in noted]

    def task_ran(
        self, run: Any, i: int, worker: str, start: float, end: float, cpu: float | None,
        size: int | None,
    ) -> None:
        if run is self.run and self.events is not None:
            ahead = time() - perf_counter()  # clocks of other machines know no other's
            name = f"{gethostname()} process {os.getpid()}"
            times = start + ahead, end + ahead, cpu
            self.events.append((Observer.task_ran, i, name, *times))


def tell_observers(run: Any, events: Iterable[tuple[Any, ...]], sizes: Mapping[int, int]) -> None:
    """Tell the observers of a run the events of a worker; `sizes` are those of large results."""
    ahead = time() - perf_counter()
    for event, i, *details in events:
        if event is Observer.task_ran:
            worker, start, end, cpu = details
            details = [worker, start - ahead, end - ahead, cpu, sizes.get(i)]
        elif event is Observer.task_failed:
            if i not in run.errors:
                continue
            details = [run.errors[i]]
        run.observers.tell(event, run, i, *details)


_FUNCTIONS = 1000  # that a worker caches; a guess
# -- groups of tasks ----------------------------------------------------------------------

_SHORT = 1 << 10  # bytes of a wanted result that goes with the report; a guess

#: Options of the request: indices into the flags that come with a group.
COLLECT, CHECK, TELL, TIME, SAMPLE = range(5)


class GroupReport(NamedTuple):
    """The report of a worker on a group.

    number
        The number of the group.
    short
        Small wanted results, by number of their task.
    sizes
        Bytes of results that are not small, by number of their task.
    failed
        For each missing result the task that has failed, as (run, number of the task).
    errors
        Records of errors, by number of the task.
    times
        Number and seconds of calls, by digest of the function.
    events
        Events for observers, in order: see `GroupLog`. Empty without observers.
    """

    number: int
    short: dict[int, PackedValue]
    sizes: dict[int, int]
    failed: dict[int, tuple[str, int]]
    errors: dict[int, Any]
    times: dict[bytes, tuple[int, float]]
    events: Sequence[tuple[Any, ...]]


class Inside(SyncScheduler):
    """The scheduler of an engine's name inside its workers: the loop of sync, in this thread."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class GroupRun(SyncRun):
    """The run of a group, or of a lazy value that one of its tasks returned."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.blamed: dict[int, BaseException] = {}

    def has_one_reader(self, i: int) -> bool:
        """Tell whether one task alone reads a result, which does not leave the group."""
        return self.plan.end not in self.plan.uses(i) and super().has_one_reader(i)

    def note_failure(self, i: int, error: BaseException) -> None:
        """Note which task has failed."""
        self.blamed[i] = error
        super().note_failure(i, error)


_functions: OrderedDict[bytes, Any] = OrderedDict()
_lock = threading.Lock()


class _FunctionOpener:
    """Opens one function for the tasks of a group, once in this process if it is code alone.

    If that fails, it is opened as a function that raises when it is called.
    """

    def __init__(self, digest: bytes, payload: Any) -> None:
        self._digest = digest
        self._payload = payload
        with _lock:
            self._shared = _functions.get(digest)
            if self._shared is not None:
                _functions.move_to_end(digest)

    def function(self) -> Any:
        """Return the function for one more task."""
        if self._shared is not None:
            return self._shared
        try:
            function, is_code = load_function(self._payload)
        except RuntimeError as error:  # this process has another version of its module
            return _Unreadable(error)
        except Exception as error:
            return _Unreadable(unreadable("the function", error))
        if is_code:
            self._shared = function
            with _lock:
                _functions[self._digest] = function
                while len(_functions) > _FUNCTIONS:
                    _functions.popitem(last=False)
        return function


class _Unreadable:
    """Stands for a function that can't be unpickled: raises the reason when called."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self.error


class Work:
    """One group: opened, run, and reported. Any thread may `give_up`.

    Parameters
    ----------
    payload
        As `Packer` made it.
    deps
        The outcomes to which it refers.
    name
        The name of the scheduler, for computes in tasks.

    Attributes
    ----------
    gone
        The keys of outcomes that were in a file which a task has found gone: the group has not run.
    """

    def __init__(self, payload: bytes, deps: tuple[GroupOutcome, ...], name: str) -> None:
        head, self.number, *parts = pickle.loads(payload)
        self.run_name, self.environment, self.flags = head
        self._functions, self._options, self._externals, self._members, *parts = parts
        self._outputs, self._asked = parts
        self._deps = deps
        self._scheduler = Inside(name)
        self._run: GroupRun | None = None
        self.is_given_up = False
        self.gone: list[Any] = []
        self.log: GroupLog | None = None

    def __call__(self) -> tuple[GroupOutcome, bytes]:
        """Run the group, in a context of its own; return the outcome and the pickled report."""
        try:
            environment.enter(self.environment)
            run = self._begin()
            if run is None:
                return GroupOutcome({}, {}), b""
            assert self.log is not None
            with self.log.watched(self.flags[SAMPLE]):
                self._scheduler.start(run)
                self._scheduler.wait(run, None)
            for error in run.blamed.values():
                if isinstance(error, FileGone):
                    self.gone += [dep.key for dep in self._deps if dep.is_of(*error.args)]
            return self._reported(run)
        except BaseException as bug:  # of lazyflow, or memory ran out
            first = self._members[0][0]
            report = GroupReport(self.number, {}, {}, {}, {first: record(bug)}, {}, ())
            return GroupOutcome({}, {}), pickle.dumps(tuple(report))

    def give_up(self) -> None:
        """Start no further task of the group."""
        self.is_given_up = True
        if self._run is not None:
            self._run.cancel(Cancelled("the run was given up"))

    def running(self) -> int:
        """Return the number, in the caller's plan, of the task that runs now, or -1."""
        log = self.log
        if log is None or log.run is None or log.current < 0:
            return -1
        return int(self._members[log.current - len(self._externals)][0])

    # -- opening ----------------------------------------------------------------------------

    def _large(self, at: int) -> Any:
        return self._deps[at].value(0)

    def _begin(self) -> GroupRun | None:
        count = len(self._externals)
        tasks = [self._leaf(each) for each in self._externals]
        functions = [
            _FunctionOpener(digest, payload if type(payload) is bytes else self._large(payload))
            for digest, payload in self._functions
        ]
        for member in self._members:
            tasks.append(self._task(member, tasks, count, functions))
        number = {task: i for i, task in enumerate(tasks)}
        plan = plan_of(tasks, number, [tasks[count + at] for at in self._outputs])
        digests = [self._functions[member[1]][0] for member in self._members]
        kind = TimedGroupLog if self.flags[TIME] else GroupLog
        self.log = kind(dict(enumerate(digests, count)), self.flags[TELL])
        request = Request(
            collect=self.flags[COLLECT],
            check_mutation=self.flags[CHECK],
            observers=(self.log,),
        )
        run = self.log.run = self._run = GroupRun(plan, request, self._scheduler)
        return None if self.is_given_up else run

    def _leaf(self, external: tuple[Any, ...]) -> Task:
        kind, *details = external
        if kind == "hidden":
            leaf = self._leaf(tuple(details))
            leaf._options = _HIDDEN
            return leaf
        if kind == "failed":
            return _failed_leaf(_InputFailed(details[0]))
        try:
            if kind == "piece":
                value = open_piece(details[0], self._large)
            else:
                at, i = details
                outcome = self._deps[at]
                if i in outcome.failed:
                    return _failed_leaf(_InputFailed(outcome.failed[i]))
                value = outcome.value(i)
        except Unpicklable as failed:
            return _failed_leaf(serialization_error("that another task needs", "result", failed))
        except SerializationError as error:
            return _failed_leaf(error)
        except BaseException as error:
            return _failed_leaf(unreadable("a value", error))
        return bare_task(VALUE, (value,))

    def _task(
        self, member: tuple[Any, ...], tasks: list[Task], count: int,
        functions: list[_FunctionOpener],
    ) -> Task:
        _, function, how, arguments, inputs, options, where, key = member
        task = bare_task(functions[function].function(), ())
        task._inputs = tuple([tasks[at + count * kind] for kind, at in inputs or ()])
        task._options = self._options[options]
        task._code, task._key = where, key
        try:
            if how == BIND:
                task._bind = open_piece(arguments, self._large)
            elif how == PIECE:
                task._args = open_piece(arguments, self._large)
            else:
                task._args = task._inputs if arguments is None else arguments
        except BaseException as error:
            task._func, task._bind = _Unreadable(unreadable("an argument", error)), None
            task._args = task._inputs
        return task

    # -- reporting ----------------------------------------------------------------------------

    def _reported(self, run: GroupRun) -> tuple[GroupOutcome, bytes]:
        count = len(self._externals)
        values: dict[int, Any] = {}
        failed: dict[int, tuple[str, int]] = {}
        records: dict[int, Any] = {}
        short: dict[int, Any] = {}
        for local, error in run.blamed.items():
            if local >= count:
                records[self._members[local - count][0]] = record(error)
            elif type(error) is not _InputFailed:  # the value can't be opened
                users = run.plan.uses(local)
                at = users[0] if users else count
                error = dressed(error, run.plan.tasks[at], None)
                records[self._members[at - count][0]] = record(error)
        ended = run.error
        if ended is not None and not records and type(ended) is not _InputFailed:
            at = max(self.log.current - count, 0) if self.log is not None else 0
            records[self._members[at][0]] = record(ended)
        for at in self._outputs:
            i = self._members[at][0]
            if run.error is not None or count + at in run.failed:
                failed[i] = self._culprit(run, count + at, records)
            else:
                values[i] = run.values[count + at]
        sizes = {i: size for i, value in values.items() if (size := size_of(value)) > _SHORT}
        for at in self._asked:
            i = self._members[at][0]
            if i in values and i not in sizes:
                packed_value = packed(values[i])
                if not packed_value.buffers and len(packed_value.stream) <= _SHORT:
                    short[i] = packed_value.leaving()
                else:
                    sizes[i] = packed_value.size()
        run.drop_values()
        assert self.log is not None
        self.log.run = None
        self.log.close()
        events = [
            (event, self._members[i - count][0], *more) for event, i, *more in self.log.events or ()
        ]
        report = GroupReport(self.number, short, sizes, failed, records, self.log.times, events)
        return GroupOutcome(values, failed), pickle.dumps(tuple(report))

    def _culprit(self, run: GroupRun, local: int, records: dict[int, Any]) -> tuple[str, int]:
        """Return the task by whose failure a task has no result."""
        error, count = run.failed.get(local), len(self._externals)
        if isinstance(error, _InputFailed):
            return error.culprit
        blamed = [i for i, known in run.blamed.items() if known is error and i >= count]
        if blamed:
            return self.run_name, self._members[blamed[0] - count][0]
        return self.run_name, next(iter(records), self._members[0][0])


class _InputFailed(Cancelled):
    """The error of an input that another group did not make; `culprit` is the task that failed."""

    def __init__(self, culprit: tuple[str, int]) -> None:
        super().__init__("an input failed")
        self.culprit = culprit


_HIDDEN = Options(hide=True)


def _failed_leaf(error: BaseException) -> Task:
    future = TaskFuture("an input", None)
    future.set_error(error)
    return bare_task(HELD, (future,))


# -- threads of workers -------------------------------------------------------------------
#
# The threads of an engine's worker in which groups run, kept from one group to the next.
#
# Objects that tasks keep by thread, such as a worker state of scope "thread", stay for later
# groups. There are as many threads as groups ran at once: a thread is free again before the engine
# learns that its group has ended. A thread whose group was given up ends with the group, since
# another thread has taken its place.

#: Threads that have nothing to do, the last one freed at the end.
_free: list[_GroupThread] = []


def run_in_thread(
    work: Work, context: contextvars.Context, done: Callable[[Any], object]
) -> None:
    """Run a group in a context and a thread of this process, then call `done` there."""
    try:
        thread = _free.pop()
    except IndexError:
        thread = _GroupThread()
    thread.calls.put((work, context, done))


class _GroupThread:
    """A thread that runs groups, with its queue."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._serve, name="lazyflow-group", daemon=True).start()

    def _serve(self) -> None:
        while True:
            work, context, done = self.calls.get()
            outcome = context.run(work)
            is_replaced = work.is_given_up
            if not is_replaced:
                _free.append(self)
            done(outcome)
            if is_replaced:
                return
            del work, context, done, outcome  # hold no values while asleep


at_fork(after_in_child=_free.clear)
