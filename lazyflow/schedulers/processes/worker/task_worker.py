"""Running tasks: a worker keeps their values until a message lets it drop them.

The main thread reads batches from its socket and runs them, so that a single task costs no change
of threads. The service thread (main.py) answers on a socket of its own while a task runs::

    main thread      batch --> todo -- _run --> done, failed --> answer (each 5 ms, and at the end)
    service thread   RECALL --> give_back: takes from the other end of todo, and answers
                     SHARE --> value_of

State of a `TaskWorker`; the main thread changes it, but for what is said::

    store.values :: {id: value}          also stand-ins: not opened, failed, to come later
    store.unusual, store.kept :: {id}    see `ValueStore`
    functions :: {number: function}      bytes until a task needs it, and always if it has state
    contexts :: {run: Context}           made by the first batch of a run
    claims :: {batch: "main" | "recall"} the thread that sets it first has the batch
    batch :: RunningBatch                both threads take from its deques, an item each time
    words[RUNNING]                       the id of the task that runs: the parent charges it with
                                         the death of this process (process.py)
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter, thread_time
from typing import Any

from lazyflow import config
from lazyflow.clock import Clock
from lazyflow.graph.kinds import COLLECTION, COPIED, IMMUTABLE, ITERATOR, LAZY, kinds
from lazyflow.graph.plan import task_of
from lazyflow.graph.task import HELD, Task
from lazyflow.schedulers.core.coroutines import finished
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.observing import SHORT, listen
from lazyflow.schedulers.core.sampling import RunningTask, Sampler, Stack
from lazyflow.schedulers.core.task_resources import here, task_over
from lazyflow.schedulers.processes import protocol
from lazyflow.schedulers.processes.protocol import (
    COMPILED,
    ENCODED,
    ENCODED_KEPT,
    KEPT,
    PLAIN,
    PLAIN_KEPT,
    RESTORED,
    SAMPLED,
    SPILLED,
    BatchMessage,
    TaskNote,
    TaskSpan,
)
from lazyflow.schedulers.processes.worker.process import RUNNING, WorkerProcess
from lazyflow.schedulers.remote import calls
from lazyflow.schedulers.remote.calls import (
    BLOB,
    BOUND,
    KEEP,
    SMALL,
    SPECIAL,
    WANT,
    failure_record,
    unreadable,
)
from lazyflow.store.kept_values import keep
from lazyflow.store.memory.copying import copy_of
from lazyflow.store.memory.shared import Mappings
from lazyflow.store.pickling.pickler import loads_owned
from lazyflow.store.pickling.serialize import Encoded, decode
from lazyflow.store.pickling.unpicklable import Unpicklable
from lazyflow.store.protected import protected
from lazyflow.store.sizes import size_of
from lazyflow.store.spilling import KeptArray, opened
from lazyflow.store.values import IteratorItems, consumer_copy, references

# -- values that a worker keeps for tasks, and stand-ins for those that are not there -----


class StandIn:
    """Stands for a result that is not there."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __repr__(self) -> str:
        return f"<{self._why}>"


FAILED = StandIn("the task failed; so do those that were sent with it and need it")
LATER = StandIn("the task returned a lazy value, which another run will make")
NO_RESULT: Any = StandIn("the task failed just now, and that is noted")


class ValueStore:
    """The values of a worker.

    values
        By id; an `UnopenedValue` is opened when a task first needs it.
    unusual
        Ids of values that can't be handed over as they are: unopened ones, stand-ins, and those of
        which each task gets a copy.
    kept
        Ids of values that no task drops: a task needs them that was not run, and may come again.
    """

    __slots__ = ("kept", "unusual", "values")

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self.unusual: set[int] = set()
        self.kept: set[int] = set()

    def put_unusual(self, i: int, value: Any) -> None:
        """Keep a value that can't be handed over as it is."""
        self.values[i] = value
        self.unusual.add(i)

    def drop(self, i: int) -> None:
        """Forget a value."""
        self.values.pop(i, None)
        self.unusual.discard(i)
        self.kept.discard(i)


class UnopenedValue:
    """A value that came with a message and is not opened yet; its memory is pinned already."""

    def __init__(self, mappings: Mappings, value: tuple[Any, ...]) -> None:
        self._encoded = Encoded(*value)
        self._error: BaseException | None = None
        # A view for each time that memory is named, in the order in which `decode` asks for them:
        # the parent counts them back.
        self._views: deque[Any] = deque()
        for segment in self._encoded.segments():
            try:
                self._views.append(mappings.view(segment))
            except MemoryError as error:  # of the tasks that need it
                self._error = error

    def owned(self) -> Any:
        """Return the value, once, in memory of its own, which may be edited."""
        encoded = self._encoded
        buffers: Any = tuple([
            each if type(each) is tuple else bytearray(each) for each in encoded.buffers
        ])
        self._encoded = Encoded(encoded.payload, buffers, encoded.size)
        self._views = deque(map(copy_of, self._views))
        return loads_owned(self.opened)

    def opened(self) -> Any:
        """Return the value, once; an error is raised for every task that needs it."""
        try:
            if self._error is not None:
                raise self._error
            return decode(self._encoded, lambda segment: self._views.popleft())
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._views.clear()


# -- the batch that runs -----------------------------------------------------------------
#
# The tasks of one message while a worker runs them, and their results as the answer has them.
#
# A result is a tuple of an id, a kind of protocol.py, and the rest.

_SMALL = 1 << 10  # bytes; a value up to here goes to the parent with the answer; a guess


class RunningBatch:
    """Tasks that came in one message, while they are run, and their outcomes until the answer.

    ``todo`` is shared with the service thread, which takes recalled tasks from its other end.
    """

    def __init__(
        self, number: int, records: list[calls.Record], timed: float | None,
        now: Clock = perf_counter,
    ) -> None:
        self.number = number
        self.now = now
        self.todo = deque(records)
        #: Takes the next task; raises IndexError when there is none.
        self.take = self.todo.popleft if timed is None else self._take_timed
        self._is_watched = timed is not None
        self._spans: deque[TaskSpan] = deque()
        self._running: tuple[int, float, float] | None = None  # id, start, CPU time at the start
        self.done: deque[tuple[Any, ...]] = deque()
        self.failed: deque[tuple[Any, ...]] = deque()
        self.deferred: deque[int] = deque()  # ids of tasks that need a value of another run
        self._notes: dict[tuple[int, Stack], tuple[int, float]] = {}
        self._noted: deque[TaskNote] = deque()
        self.answered_at = now()  # or begun, before the first answer
        self.times: dict[int, list[float]] = {}

    def add_time(self, function: int, count: int, seconds: float) -> None:
        """Take in that so many calls of a function took so long."""
        known = self.times.get(function)
        if known is None and count:
            self.times[function] = [count, seconds]
        elif known is not None:
            known[0] += count
            known[1] += seconds

    def _take_timed(self) -> calls.Record:
        """Take the next task, and note that the one before is over, its result packed."""
        now = perf_counter()
        running = self._running
        if running is None:
            cpu = thread_time()
        else:
            i, start, before = running
            cpu = before + now - start if now - start < SHORT else thread_time()
            self._spans.append((i, start, now, min(cpu - before, now - start)))
        self._running = None  # after the span is there, for the other thread
        record = self.todo.popleft()
        self._running = record[0], now, cpu
        return record

    def running(self) -> Iterator[RunningTask]:
        """Yield the task that runs now, if tasks are timed, named by its id."""
        running = self._running
        if running is not None:
            yield RunningTask(threading.main_thread().ident or 0, *running[:2])

    def sampled(self, i: int, stack: Stack, seconds: float) -> None:
        """Note where a task was. By the thread that looks."""
        looks, before = self._notes.get((i, stack), (0, 0.0))
        self._notes[i, stack] = looks + 1, before + seconds

    def compiled(self, seconds: float) -> None:
        """Note that the task that runs now has compiled."""
        if self._running is not None:
            self._noted.append((COMPILED, self._running[0], seconds))

    def notes(self, event: int, i: int) -> Callable[..., None] | None:
        """Return a function that notes an event of task `i` with its details, if it is watched."""
        noted = self._noted
        return (lambda *more: noted.append((event, i, *more))) if self._is_watched else None

    def take_back(self) -> list[int]:
        """Take out the tasks that were not begun, the last first; return their ids."""
        ids = []
        while True:
            try:
                ids.append(self.todo.pop()[0])
            except IndexError:
                return ids

    def take_outcomes(
        self,
    ) -> tuple[list[Any], list[Any], dict[int, tuple[Any, ...]], list[TaskSpan], list[TaskNote]]:
        """Take out the failed and the deferred tasks, and the times and notes of tasks."""
        failed, deferred = [], []
        while self.failed:
            failed.append(self.failed.popleft())
        while self.deferred:
            deferred.append(self.deferred.popleft())
        taken, self.times = self.times, {}
        times = {f: tuple(t) for f, t in tuple(taken.items())}  # the other thread may add to it
        return failed, deferred, times, self._take_spans(), self._take_notes()

    def _take_notes(self) -> list[TaskNote]:
        notes: list[TaskNote] = []
        while self._noted:
            notes.append(self._noted.popleft())
        if self._notes:
            taken, self._notes = self._notes, {}
            notes += [(SAMPLED, *at, *seen) for at, seen in tuple(taken.items())]
        return notes

    def _take_spans(self) -> list[TaskSpan]:
        running = self._running  # it may be done: the other thread answers before the next is taken
        spans: list[TaskSpan] = [] if running is None else [(*running[:2], perf_counter(), None)]
        while self._spans:
            spans.append(self._spans.popleft())
        return spans


def entry(process: WorkerProcess, i: int, value: Any, flags: int) -> tuple[Any, ...]:
    """Return one result as the answer has it.

    A value that was not asked for goes along if it is small and can be sent as it is.
    """
    is_there = bool(flags & calls.KEEP)
    if value.__class__ in IMMUTABLE and calls.is_short(value):
        return (i, PLAIN_KEPT if is_there else PLAIN, value)
    size = size_of(value)
    if flags & (calls.WANT | calls.SMALL):
        is_sent = flags & calls.WANT or size < process.least
    else:
        is_sent = size <= _SMALL and calls.travels_well(value)
    if is_sent:
        try:
            return (i, ENCODED_KEPT if is_there else ENCODED, *process.encode(value))
        except Unpicklable:
            if flags & calls.WANT:
                raise  # else it can be of use where it is
    return (i, KEPT, size)


# -- taking notes of tasks ----------------------------------------------------------------
#
# In a worker: notes on tasks, for observers of the caller.
#
# A thread samples the lines of tasks while batches come that ask for it, and ends by itself when
# none has come for a while.


class TaskWatch:
    """Notes events in the tasks of the batch that runs now."""

    def __init__(self) -> None:
        self._batch: RunningBatch | None = None
        self._sampler: Sampler | None = None

    def begin(self, batch: RunningBatch, interval: float) -> None:
        """Watch a batch that begins, and look at it each `interval` seconds; 0: do not look."""
        self._batch = batch
        self._listen()
        old = self._sampler
        if old is not None and (old.interval != interval or not old.goes_on()):
            old.stop()
            self._sampler = old = None
        if interval and old is None:
            self._sampler = Sampler(
                interval, self._running, self._sampled, self._listen, may_idle=False
            ).start()

    def end(self) -> None:
        """Watch no batch any more."""
        self._batch = None

    def _listen(self) -> None:
        listen(self._compiled)

    def _running(self) -> tuple[RunningTask, ...]:
        batch = self._batch
        return () if batch is None else tuple(batch.running())

    def _sampled(self, i: int, stack: Stack, seconds: float) -> None:
        batch = self._batch
        if batch is not None:
            batch.sampled(i, stack, seconds)

    def _compiled(self, seconds: float) -> None:
        batch = self._batch
        if batch is not None:
            batch.compiled(seconds)


# -- the worker of tasks ------------------------------------------------------------------

#: References to a result that only `_run`, `_keep` and `_stored` hold, as getrefcount counts them.
_FRESH = references(4)
#: Kinds of values that are not handed over as they are.
_STANDS_IN = kinds[KeptArray]  # for a value that is kept below a memory limit
_UNUSUAL = COPIED | {_STANDS_IN}
_REMEMBERED = 64  # batches; whether one was recalled is asked only while it is on its way; a guess
_ANSWER_AFTER = 0.005  # seconds after the last answer, the results so far are sent; a guess
_FEW = 20  # inputs among which a tuple is searched as quickly as a set


class TaskWorker(WorkerProcess):
    """A process that runs tasks. The module's docstring has its state, but for two fields.

    environments
        The environments of runs that have no context yet.
    watch
        The object that takes notes of its tasks, from the first request on.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.store = ValueStore()
        self.contexts: dict[int, contextvars.Context] = {}
        self.environments: dict[int, bytes] = {}
        self.claims: dict[int, str] = {}
        self.batch: RunningBatch | None = None
        self.watch: TaskWatch | None = None

    def _in_fork(self) -> None:
        super()._in_fork()
        if self.batch is not None:
            self.batch.todo.clear()

    # -- for the service thread -------------------------------------------------------------

    def value_of(self, i: int, default: Any) -> Any:
        """Return the value of an id, or `default` when it is not here."""
        return opened(self.store.values.get(i, default))

    def give_back(self, numbers: list[int]) -> list[tuple[int, list[int] | None]]:
        """Give back tasks of batches that were not begun: ids by batch, None for all of a batch.

        The results so far of the batch that runs are sent.
        """
        groups: list[tuple[int, list[int] | None]] = []
        for number in numbers:
            if self.claims.setdefault(number, "recall") == "recall":
                groups.append((number, None))
                continue
            batch = self.batch
            if batch is None or batch.number != number:
                continue
            groups.append((number, batch.take_back()))
            self.answer(batch)
        return groups

    # -- messages ---------------------------------------------------------------------------

    def _take_work(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        sent: BatchMessage = message
        self._take_parts(sent, descriptors)
        number, run, _, _, _, records, _, timed, *_ = sent
        if not number or self.claims.setdefault(number, "main") != "main":
            return
        if len(self.claims) > 2 * _REMEMBERED:  # numbers are the pool's: this has some of them
            for old in list(self.claims)[:-_REMEMBERED]:
                self.claims.pop(old, None)
        batch = self.batch = RunningBatch(number, records, timed)
        if timed is not None:
            self._watch(batch, timed)
        self._context_of(run, records).run(self._run, batch)
        if self.watch is not None:
            self.watch.end()
        self.answer(batch)
        self.words[RUNNING] = 0
        self.batch = None

    def _watch(self, batch: RunningBatch, interval: float) -> None:
        if self.watch is None:
            self.watch = TaskWatch()
        self.watch.begin(batch, interval)

    def _take_parts(self, sent: BatchMessage, descriptors: list[int]) -> None:
        """Take in the values and functions that come with tasks, and drop old ones."""
        _, run, environment, functions, loads, records, blobs, _, to_drop, *more = sent
        arenas, old_runs, old_functions = more
        if environment is not None:  # kept here: the batch that brings it may be taken back
            self.environments[run] = environment
        for arena, fd in zip(arenas, descriptors, strict=True):
            self.mappings.add(arena, fd)
        for i in to_drop:
            self.store.drop(i)
        for old in old_runs:
            self.contexts.pop(old, None)
            self.environments.pop(old, None)
        for function in old_functions:
            self.functions.pop(function, None)
        for function, payload in functions:
            self.functions[function] = payload  # opened when a task needs it
        for i, value in loads:
            if value.__class__ is list:
                self.store.values[i] = protected(value[0], True)
            else:
                self.store.put_unusual(i, UnopenedValue(self.mappings, value))
        for at in blobs:  # now, so that their memory is pinned, also if they never run
            i, f, arguments, *rest = records[at]
            records[at] = (i, f, UnopenedValue(self.mappings, arguments), *rest)

    def _context_of(self, run: int, records: list[calls.Record]) -> contextvars.Context:
        """Return the context of a run; the first time with the caller's environment."""
        context = self.contexts.get(run)
        if context is None:
            context = self.contexts[run] = contextvars.copy_context()
            self.follower.look()
            self.reporter.begin_run()
            environment = self.environments.pop(run, None)
            if environment is not None:
                from lazyflow.schedulers.remote.environment import enter

                self.words[RUNNING] = records[0][0]  # charged if this ends the process
                context.run(enter, environment)
            self.arenas.recycle_within(context.run(config.memory_limit))
        return context

    # -- running ----------------------------------------------------------------------------

    def _run(self, batch: RunningBatch) -> None:
        values, unusual, kept = self.store.values, self.store.unusual, self.store.kept
        functions, words, uses = self.functions, self.words, here.uses
        take, done = batch.take, batch.done
        before, latest, count = batch.answered_at, 0, 0
        while True:
            try:
                record = take()
            except IndexError:
                break
            i, f, arguments, inputs, drops, flags, extra = record
            words[RUNNING] = i
            if f != latest:
                before = self._measure(batch, latest, count, before)
                latest, count = f, 0
            count += 1
            try:
                function = functions[f]
                if function.__class__ is bytes or flags & (BLOB | SPECIAL) or (
                    inputs is not None and unusual and not unusual.isdisjoint(inputs)
                ):
                    value = self._call(record, batch)
                elif flags & BOUND:
                    given: Any = [values[k] for k in inputs] if inputs else []
                    value = calls.call_bound(function, arguments, given, extra[0])  # type: ignore[index]
                elif inputs is None:
                    value = function(*arguments)
                else:
                    given = [values[k] for k in inputs]
                    value = function(*given)
            except BaseException as error:
                self._fail(record, batch, error, None)
                value = NO_RESULT
            if uses:
                task_over(None)
            given = None
            if value.__class__ in IMMUTABLE:
                if flags & KEEP:
                    values[i] = value
                done.append(entry(self, i, value, flags) if flags & WANT else (i,))
            elif value is LATER:
                continue
            elif value is not NO_RESULT:
                self._keep(record, batch, value)
            value = None
            for k in drops:
                if k not in kept:
                    values.pop(k, None)
                    unusual.discard(k)
        batch.add_time(latest, count, batch.now() - before)

    def _measure(self, batch: RunningBatch, function: int, count: int, before: float) -> float:
        """Note how long calls of a function took, and answer now and then; return the time."""
        now = batch.now()
        batch.add_time(function, count, now - before)
        if now - batch.answered_at > _ANSWER_AFTER and (batch.done or batch.failed):
            self.answer(batch)
            now = batch.answered_at = batch.now()
        return now

    def _call(self, record: calls.Record, batch: RunningBatch) -> Any:
        """Run a task that needs more than a look at its inputs; NO_RESULT when it failed."""
        i, f, arguments, inputs, drops, flags, extra = record
        store = self.store
        raw: list[Any] = []
        copied: list[bool] = []
        restored = 0  # bytes, from a file
        for k in inputs or ():
            value = store.values[k]
            if value.__class__ is UnopenedValue:
                value = self._open(k, value)
            elif value is LATER:
                batch.deferred.append(i)
                store.put_unusual(i, LATER)
                store.kept.update(inputs or ())
                return LATER
            elif value is FAILED:
                batch.failed.append((i, k))
                if flags & KEEP:
                    store.put_unusual(i, FAILED)
                return NO_RESULT
            kind = kinds[type(value)]
            restored += value.in_file() if kind == _STANDS_IN else 0
            raw.append(opened(value))
            copied.append(kind in COPIED)
        if restored and (note := batch.notes(RESTORED, i)):
            note(restored)
        call = None
        try:
            function = self.functions[f]
            if function.__class__ is bytes:
                function, is_code = self.follower.opened(function)
                if is_code:
                    self.functions[f] = function
            if flags & BLOB:
                if arguments.__class__ is not UnopenedValue:
                    arguments = UnopenedValue(self.mappings, arguments)
                arguments = _opened(arguments)
            if store.kept:
                drops = tuple([k for k in drops if k not in store.kept])
            dropped = drops if len(drops) < _FEW else frozenset(drops)
            last = [k in dropped for k in inputs or ()]
            if True in last:
                for k in drops:
                    store.drop(k)
            call = calls.RecordCall(function, arguments, flags, extra, raw, copied)
            value = None
            return call(last)
        except BaseException as error:
            self._fail(record, batch, error, call)
            return NO_RESULT

    def _keep(self, record: calls.Record, batch: RunningBatch, value: Any) -> None:
        """Take a result that is more than a number or a text."""
        try:
            result = self._stored(record[0], record[5], value, batch.notes(SPILLED, record[0]))
        except BaseException as error:  # the rest of a generator's body ran just now
            self._fail(record, batch, error, None)
        else:
            batch.done.append(result)

    def _stored(
        self, i: int, flags: int, value: Any, tell: Callable[..., None] | None
    ) -> tuple[Any, ...]:
        """Store a result if it is to be kept; return it as the answer has it.

        `tell` is called when values are written to a file to make room for it.
        """
        value = finished(value)
        if kinds[type(value)] in (LAZY, COLLECTION):
            value = _value_if_held(task_of(value))
        kind = kinds[type(value)]
        if kind == LAZY:
            result = (i, protocol.LAZY, *self.encode(value))
            if flags & KEEP:
                self.store.put_unusual(i, LATER)
            return result
        if kind == ITERATOR:
            value = IteratorItems(value)
        if flags & KEEP:
            value = protected(value, sys.getrefcount(value) <= _FRESH)
            limit = config.memory_limit()
            kept = value if limit is None else keep(value, limit, tell=tell)
            self.store.values[i] = kept
            if kinds[type(kept)] in _UNUSUAL:
                self.store.unusual.add(i)
        return entry(self, i, value, flags) if flags & (WANT | SMALL) else (i,)

    def _fail(
        self,
        record: calls.Record,
        batch: RunningBatch,
        error: BaseException,
        call: calls.RecordCall | None,
    ) -> None:
        i, flags = record[0], record[5]
        try:
            words = self._words(record, call)
        except BaseException:  # a hostile container must not stop an error message
            words = None
        batch.failed.append((i, failure_record(error), words))
        if flags & KEEP:
            self.store.put_unusual(i, FAILED)

    def _words(self, record: calls.Record, call: calls.RecordCall | None) -> tuple[str, ...] | None:
        if call is None:
            _, _, arguments, inputs, _, flags, extra = record
            if flags & BLOB:
                return None
            raw = [opened(self.store.values.get(k)) for k in inputs or ()]
            if any(value.__class__ is UnopenedValue for value in raw):
                return None
            call = calls.RecordCall(None, arguments, flags, extra, raw, [])  # type: ignore[arg-type]
        return call.words()

    def _open(self, i: int, load: UnopenedValue) -> Any:
        """Put a value in the place of its encoded form."""
        value = protected(_opened(load), True)
        self.store.values[i] = value
        if kinds[type(value)] not in COPIED:
            self.store.unusual.discard(i)
        return value

    # -- answers ----------------------------------------------------------------------------

    def answer(self, batch: RunningBatch) -> None:
        """Send the results of a batch so far: by either thread."""
        if self.reporter.is_forked:  # the parent goes on with it; its copy has nowhere to return to
            os._exit(0)
        with self._sending:
            results = []
            done, values = batch.done, self.store.values
            while done:
                result = done.popleft()
                if len(result) == 1:
                    i = result[0]
                    value = opened(values.get(i, NO_RESULT))  # it may be dropped meanwhile
                    if value is not NO_RESULT:
                        result = entry(self, i, value, KEEP)
                    value = None
                results.append(result)
            self._send_answer(batch.number, results, *batch.take_outcomes())


def _opened(load: UnopenedValue) -> Any:
    """Return a value that came with a message, or raise the error of the tasks that need it."""
    try:
        return load.opened()
    except MemoryError:
        raise
    except BaseException as error:
        raise unreadable("an argument", error) from error


def _value_if_held(task: Task) -> Any:
    """Return the value of a future that a task has returned, waiting for it; else the task."""
    if task._func is not HELD:
        return task
    future: TaskFuture = task._args[0]
    value, error = future.outcome_now()
    if error is not None:
        raise error
    return consumer_copy(value) if kinds[type(value)] in COPIED else value
