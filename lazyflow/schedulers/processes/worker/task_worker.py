"""Running tasks: a worker keeps their values until a message lets it drop them.

The main thread reads flights from its socket and runs them, so that a single task costs no
change of threads. The service thread (service.py) answers on a socket of its own while a task
runs.
"""

from __future__ import annotations

import contextvars
import os
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lazyflow.graph.kinds import COLLECTION, COPIED, IMMUTABLE, ITERATOR, LAZY, kinds
from lazyflow.graph.task import HELD, Task
from lazyflow.schedulers.core.coroutines import finished
from lazyflow.schedulers.core.current_worker import here
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.lifecycle import task_of
from lazyflow.schedulers.core.task_resources import task_over
from lazyflow.schedulers.processes import protocol
from lazyflow.schedulers.processes.protocol import FlightMessage
from lazyflow.schedulers.processes.worker.flight import RunningFlight, entry
from lazyflow.schedulers.processes.worker.process import RUNNING, WorkerProcess
from lazyflow.schedulers.processes.worker.value_store import (
    FAILED,
    LATER,
    NO_RESULT,
    UnopenedValue,
    ValueStore,
)
from lazyflow.schedulers.remote import calls
from lazyflow.schedulers.remote.calls import BLOB, BOUND, KEEP, SMALL, SPECIAL, WANT
from lazyflow.schedulers.remote.failures import failure_record, unreadable
from lazyflow.store.protected import protected
from lazyflow.store.values import IteratorItems, consumer_copy, references

if TYPE_CHECKING:
    from lazyflow.schedulers.processes.worker.watching import TaskWatch

#: References to a result that only `_run`, `_keep` and `_stored` hold, as getrefcount counts them.
_FRESH = references(4)
_REMEMBERED = 64  # flights; whether one was recalled is asked only while it is on its way
_ANSWER_AFTER = 0.005  # seconds after the last answer, what is done is answered
_FEW = 20  # inputs among which a tuple is searched as quickly as a set


class TaskWorker(WorkerProcess):
    """A process that runs tasks.

    store
        The values that it keeps.
    contexts
        The context variables of each run, by the number of the run.
    environments
        The environments of runs that have no context yet.
    claims
        Which thread has a flight: "main" or "recall", whichever sets it first.
    flight
        What the main thread runs.
    watch
        What takes notes of its tasks, once somebody has asked.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.store = ValueStore()
        self.contexts: dict[int, contextvars.Context] = {}
        self.environments: dict[int, bytes] = {}
        self.claims: dict[int, str] = {}
        self.flight: RunningFlight | None = None
        self.watch: TaskWatch | None = None

    def _in_fork(self) -> None:
        super()._in_fork()
        if self.flight is not None:
            self.flight.todo.clear()

    # -- for the service thread -------------------------------------------------------------

    def value_of(self, i: int, default: Any) -> Any:
        """Return the value of an id, or `default` when it is not here."""
        return self.store.values.get(i, default)

    def give_back(self, numbers: list[int]) -> list[tuple[int, list[int] | None]]:
        """Give back what was not begun of flights: ids by flight, None for all of a flight.

        What is done of the flight that runs is answered.
        """
        groups: list[tuple[int, list[int] | None]] = []
        for number in numbers:
            if self.claims.setdefault(number, "recall") == "recall":
                groups.append((number, None))
                continue
            flight = self.flight
            if flight is None or flight.number != number:
                continue
            groups.append((number, flight.take_back()))
            self.answer(flight)
        return groups

    # -- messages ---------------------------------------------------------------------------

    def _take_work(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        sent: FlightMessage = message
        self._take_parts(sent, descriptors)
        number, run, _, _, _, records, _, timed, *_ = sent
        if not number or self.claims.setdefault(number, "main") != "main":
            return
        if len(self.claims) > 2 * _REMEMBERED:  # numbers are the pool's: this has some of them
            for old in list(self.claims)[:-_REMEMBERED]:
                self.claims.pop(old, None)
        flight = self.flight = RunningFlight(number, records, timed)
        if timed is not None:
            self._watch(flight, timed)
        self._context_of(run, records).run(self._run, flight)
        if self.watch is not None:
            self.watch.end()
        self.answer(flight)
        self.words[RUNNING] = 0
        self.flight = None

    def _watch(self, flight: RunningFlight, interval: float) -> None:
        if self.watch is None:
            from lazyflow.schedulers.processes.worker.watching import TaskWatch

            self.watch = TaskWatch()
        self.watch.begin(flight, interval)

    def _take_parts(self, sent: FlightMessage, descriptors: list[int]) -> None:
        """Take in what comes with tasks, and forget what is not needed any more."""
        _, run, environment, functions, loads, records, blobs, _, forget, *more = sent
        arenas, old_runs, old_functions = more
        if environment is not None:  # kept here: the flight that brings it may be taken back
            self.environments[run] = environment
        for arena, fd in zip(arenas, descriptors, strict=True):
            self.mappings.add(arena, fd)
        for i in forget:
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
        return context

    # -- running ----------------------------------------------------------------------------

    def _run(self, flight: RunningFlight) -> None:
        values, unusual, kept = self.store.values, self.store.unusual, self.store.kept
        functions, words, uses = self.functions, self.words, here.uses
        take, done = flight.take, flight.done
        before, latest, count = flight.answered_at, 0, 0
        while True:
            try:
                record = take()
            except IndexError:
                break
            i, f, arguments, inputs, drops, flags, extra = record
            words[RUNNING] = i
            if f != latest:
                before = self._measure(flight, latest, count, before)
                latest, count = f, 0
            count += 1
            try:
                function = functions[f]
                if function.__class__ is bytes or flags & (BLOB | SPECIAL) or (
                    inputs is not None and unusual and not unusual.isdisjoint(inputs)
                ):
                    value = self._call(record, flight)
                elif flags & BOUND:
                    given: Any = [values[k] for k in inputs] if inputs else []
                    value = calls.call_bound(function, arguments, given, extra[0])  # type: ignore[index]
                elif inputs is None:
                    value = function(*arguments)
                else:
                    given = [values[k] for k in inputs]
                    value = function(*given)
            except BaseException as error:
                self._fail(record, flight, error, None)
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
                self._keep(record, flight, value)
            value = None
            for k in drops:
                if k not in kept:
                    values.pop(k, None)
                    unusual.discard(k)
        flight.add_time(latest, count, perf_counter() - before)

    def _measure(self, flight: RunningFlight, function: int, count: int, before: float) -> float:
        """Note how long calls of a function took, and answer now and then; return the time."""
        now = perf_counter()
        flight.add_time(function, count, now - before)
        if now - flight.answered_at > _ANSWER_AFTER and (flight.done or flight.failed):
            self.answer(flight)
            now = flight.answered_at = perf_counter()
        return now

    def _call(self, record: calls.Record, flight: RunningFlight) -> Any:
        """Run a task that needs more than a look at its inputs; NO_RESULT when it failed."""
        i, f, arguments, inputs, drops, flags, extra = record
        store = self.store
        raw: list[Any] = []
        copied: list[bool] = []
        for k in inputs or ():
            value = store.values[k]
            if value.__class__ is UnopenedValue:
                value = self._open(k, value)
            elif value is LATER:
                flight.deferred.append(i)
                store.put_unusual(i, LATER)
                store.kept.update(inputs or ())
                return LATER
            elif value is FAILED:
                flight.failed.append((i, k))
                if flags & KEEP:
                    store.put_unusual(i, FAILED)
                return NO_RESULT
            raw.append(value)
            copied.append(kinds[type(value)] in COPIED)
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
            self._fail(record, flight, error, call)
            return NO_RESULT

    def _keep(self, record: calls.Record, flight: RunningFlight, value: Any) -> None:
        """Take a result that is more than a number or a text."""
        try:
            result = self._stored(record[0], record[5], value)
        except BaseException as error:  # the rest of a generator's body ran just now
            self._fail(record, flight, error, None)
        else:
            flight.done.append(result)

    def _stored(self, i: int, flags: int, value: Any) -> tuple[Any, ...]:
        """Store a result if it is to be kept; return what the answer has of it."""
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
            self.store.values[i] = value
            if kinds[type(value)] in COPIED:
                self.store.unusual.add(i)
        return entry(self, i, value, flags) if flags & (WANT | SMALL) else (i,)

    def _fail(
        self,
        record: calls.Record,
        flight: RunningFlight,
        error: BaseException,
        call: calls.RecordCall | None,
    ) -> None:
        i, flags = record[0], record[5]
        try:
            words = self._words(record, call)
        except BaseException:  # a hostile container must not stop an error message
            words = None
        flight.failed.append((i, failure_record(error), words))
        if flags & KEEP:
            self.store.put_unusual(i, FAILED)

    def _words(self, record: calls.Record, call: calls.RecordCall | None) -> tuple[str, ...] | None:
        if call is None:
            _, _, arguments, inputs, _, flags, extra = record
            if flags & BLOB:
                return None
            raw = [self.store.values.get(k) for k in inputs or ()]
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

    def answer(self, flight: RunningFlight) -> None:
        """Send what a flight has done so far: by either thread."""
        if self.reporter.is_forked:  # the parent goes on with it; its copy has nowhere to return to
            os._exit(0)
        with self._sending:
            results = []
            done, values = flight.done, self.store.values
            while done:
                result = done.popleft()
                if len(result) == 1:
                    i = result[0]
                    value = values.get(i, NO_RESULT)  # the main thread may drop it meanwhile
                    if value is not NO_RESULT:
                        result = entry(self, i, value, KEEP)
                    value = None
                results.append(result)
            self._send_answer(flight.number, results, *flight.take_outcomes())


def _opened(load: UnopenedValue) -> Any:
    """Return a value that came with a message, or raise what the tasks that need it fail with."""
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
