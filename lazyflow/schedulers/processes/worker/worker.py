"""A worker: runs the tasks it is sent, and keeps their values until it is told to drop them.

The main thread reads flights from its socket and runs them, so that a single task costs no
change of threads. The service thread (service.py) answers on a socket of its own while a task
runs. Shared with the parent is a page with two words: the number of the task that runs here,
and of the value that is being pickled for others; they are set until the answer is sent, so the
parent knows whom to charge when this process dies.
"""

from __future__ import annotations

import contextvars
import mmap
import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any

from lazyflow.graph.arguments import read_only
from lazyflow.graph.kinds import ARRAY, COLLECTION, COPIED, IMMUTABLE, ITERATOR, LAZY, kinds
from lazyflow.graph.task import HELD, Task
from lazyflow.schedulers.core.current_worker import here
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.lifecycle import task_of
from lazyflow.schedulers.core.task_resources import drop, task_over
from lazyflow.schedulers.processes.channel import Incoming, send
from lazyflow.schedulers.processes.worker import service
from lazyflow.schedulers.processes.worker.following import Follower, unreadable
from lazyflow.schedulers.processes.worker.reporting import Reporter
from lazyflow.schedulers.processes.worker.service import RUNNING
from lazyflow.schedulers.remote import calls
from lazyflow.schedulers.remote.calls import (
    BLOB,
    BOUND,
    DROP,
    FOLLOW,
    KEEP,
    NOTICES,
    SMALL,
    SPECIAL,
    WANT,
)
from lazyflow.schedulers.remote.failures import failure_record
from lazyflow.store.memory.shared import Arenas, Mappings
from lazyflow.store.pickling.serialize import Encoded, Unpicklable, decode, encode
from lazyflow.store.sizes import size_of
from lazyflow.store.values import IteratorItems, consumer_copy

_REMEMBERED = 64  # flights; who had them is asked while they are on their way only
_SMALL = 1 << 10  # bytes; a value up to here goes to the parent with the answer
_ANSWER_AFTER = 0.005  # seconds into a flight, what is done is sent


class _Failed:
    """Stands for the result of a task that failed, for those that were sent with it."""


_FAILED = _Failed()


class _Later:
    """Stands for a result that another run will make: the task returned a lazy value."""


_LATER = _Later()


def _value_if_held(task: Task) -> Any:
    """Return the value of a future that a task has returned, waiting for it; else the task."""
    if task._func is not HELD:
        return task
    future: TaskFuture = task._args[0]
    value, error = future.outcome_now()
    if error is not None:
        raise error
    return consumer_copy(value) if kinds[type(value)] in COPIED else value


class Flight:
    """Tasks that came in one message, while they are run.

    ``todo`` is shared with the service thread, which takes from its other end what is recalled.
    """

    def __init__(self, number: int, records: list[calls.Record]) -> None:
        self.number = number
        self.todo = deque(records)
        self.done: deque[tuple[Any, ...]] = deque()
        self.failed: deque[tuple[Any, ...]] = deque()
        self.deferred: deque[int] = deque()  # they need what another run will make
        self.times: dict[int, list[float]] = {}


class Worker:
    """The state of this process.

    values
        By id; an `Encoded` is opened when a task first needs it.
    unusual
        Ids of values that can't be handed over as they are: encoded ones, failures, and those
        of which each task gets a copy.
    kept
        Ids of values that no task drops: one needs them that was not run, and may come again.
    claims
        Who has a flight: "main" or "recall"; whoever sets it first.
    """

    def __init__(
        self,
        flights: socket.socket,
        requests: socket.socket,
        words: memoryview,
        settings: dict[str, Any],
    ) -> None:
        self.flights = flights
        self.requests = requests
        self.words = words
        self.least: int = settings["least"]
        self.values: dict[int, Any] = {}
        self.unusual: set[int] = set()
        self.kept: set[int] = set()
        self.functions: dict[int, Any] = {}
        self.contexts: dict[int, contextvars.Context] = {}
        self.claims: dict[int, str] = {}
        self.flight: Flight | None = None
        self.skipped: set[int] = set()  # calls of an actor that were cancelled on their way
        self.arenas = Arenas(
            settings["arena"], settings["step"], settings["limit"], keep=settings["keep"]
        )
        #: What either socket has told: what comes by one may be read before what came by the other.
        self.told: tuple[set[int], set[int]] = (set(), set())
        self.mappings = Mappings(private=False)
        self.follower = Follower()
        self._sending = threading.Lock()
        self.forked = False
        self.reporter = Reporter(self)
        os.register_at_fork(after_in_child=self._in_fork)

    # -- the life of the process ------------------------------------------------------------

    def serve(self) -> None:
        """Run what is sent until the parent closes the socket."""
        incoming = Incoming(self.flights)
        while incoming.read():
            for message, descriptors in incoming.messages():
                self._take(message, descriptors)
                message = None  # it holds memory that others wait for; the next one may be long

    def _in_fork(self) -> None:
        """In the child of a fork inside a task: end when the task does, and touch nothing."""
        self.forked = True
        self.words = memoryview(bytearray(16)).cast("q")
        self._sending = threading.Lock()
        if self.flight is not None:
            self.flight.todo.clear()

    def _take(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        if message[0] < 0:
            what, said = message
            if what == FOLLOW:
                self.follower.follow(said)
            elif what == DROP:
                drop(said)
            else:
                self.reporter.configure(said)
            return
        number, job, context, functions, loads_, records, blobs, forget, *rest = message
        arenas, old, gone = rest
        for arena, fd in zip(arenas, descriptors, strict=True):
            self.mappings.add(arena, fd)
        for i in forget:
            self.drop(i)
        for i in old:
            self.contexts.pop(i, None)
        for function in gone:
            self.functions.pop(function, None)
        for function, payload in functions:
            self.functions[function] = payload  # opened when a task needs it
        for i, value in loads_:
            if value.__class__ is list:
                self.values[i] = value[0]
            else:
                self.values[i] = _Load(self, value)
                self.unusual.add(i)
        if not number:
            return
        for at in blobs:  # now, so that their memory is pinned, and let go of if they never run
            i, f, arguments, *rest = records[at]
            records[at] = (i, f, _Load(self, arguments), *rest)
        if self.claims.setdefault(number, "main") != "main":
            return
        self.claims.pop(number - _REMEMBERED, None)
        flight = self.flight = Flight(number, records)
        ctx = self.contexts.get(job)
        if ctx is None:
            ctx = self.contexts[job] = contextvars.copy_context()
            self.follower.look()
            self.reporter.begin_run()
            if context is not None:
                self.words[RUNNING] = records[0][0]  # whom to charge if this ends the process
                self._run_first(ctx, context)
        ctx.run(self._run, flight)
        self.answer(flight)
        self.words[RUNNING] = 0
        self.flight = None

    def _run_first(self, ctx: contextvars.Context, context: bytes) -> None:
        from lazyflow.schedulers.remote import environment

        ctx.run(environment.enter, context)

    def drop(self, i: int) -> None:
        """Forget a value."""
        self.values.pop(i, None)
        self.unusual.discard(i)
        self.kept.discard(i)

    # -- running ----------------------------------------------------------------------------

    def _run(self, flight: Flight) -> None:
        values, unusual, functions, words = self.values, self.unusual, self.functions, self.words
        kept, take, done = self.kept, flight.todo.popleft, flight.done
        times, uses = flight.times, here.uses
        before = start = perf_counter()
        latest, count = 0, 0
        while True:
            try:
                record = take()
            except IndexError:
                break
            i, f, arguments, inputs, drops, flags, extra = record
            words[RUNNING] = i
            if f != latest:
                now = perf_counter()
                if count:
                    _add_time(times, latest, count, now - before)
                    if now - start > _ANSWER_AFTER and (done or flight.failed):
                        self.answer(flight, is_last=False)
                        now = start = perf_counter()
                before, latest, count = now, f, 0
            count += 1
            given: Any = None
            try:
                function = functions[f]
                if (
                    function.__class__ is bytes
                    or flags & (BLOB | SPECIAL)
                    or (inputs is not None and unusual and not unusual.isdisjoint(inputs))
                ):
                    value = self._call(record, flight)
                elif flags & BOUND:
                    given = [values[k] for k in inputs] if inputs else []
                    value = calls.call_bound(function, arguments, given, extra[0])  # type: ignore[index]
                elif inputs is None:
                    value = function(*arguments)
                else:
                    given = [values[k] for k in inputs]
                    value = function(*given)
            except BaseException as error:
                self._fail(record, flight, error, None)
                value = _FAILURE
            if uses:
                task_over(None)
            given = None
            if value.__class__ in IMMUTABLE:
                if flags & KEEP:
                    values[i] = value
                done.append(self._entry(i, value, flags) if flags & WANT else (i,))
            elif value is _LATER:
                continue
            elif value is not _FAILURE:
                self._keep(record, flight, value)
            value = None
            for k in drops:
                if k not in kept:
                    values.pop(k, None)
                    unusual.discard(k)
        if count:
            _add_time(times, latest, count, perf_counter() - before)

    def _call(self, record: calls.Record, flight: Flight) -> Any:
        """Run a task that needs more than a look at its inputs; _FAILURE when it failed."""
        i, f, arguments, inputs, drops, flags, extra = record
        raw: list[Any] = []
        copied: list[bool] = []
        for k in inputs or ():
            value = self.values[k]
            if value.__class__ is _Load:
                value = self._open(k, value)
            elif value is _LATER:
                flight.deferred.append(i)
                self.values[i] = _LATER
                self.unusual.add(i)
                self.kept.update(inputs or ())
                return _LATER
            elif value is _FAILED:
                flight.failed.append((i, k))
                if flags & KEEP:
                    self.values[i] = value
                    self.unusual.add(i)
                return _FAILURE
            raw.append(value)
            copied.append(kinds[type(value)] in COPIED)
        call = None
        try:
            function = self.functions[f]
            if function.__class__ is bytes:
                function = self.functions[f] = self.follower.opened(function)
            if flags & BLOB:
                if arguments.__class__ is _Load:
                    arguments = arguments.opened()
                else:
                    arguments = _decoded(Encoded(*arguments), self.mappings.view)
            if self.kept:
                drops = tuple([k for k in drops if k not in self.kept])
            last = [k in drops for k in inputs or ()]
            if True in last:
                for k in drops:
                    self.drop(k)
            call = calls.RecordCall(function, arguments, flags, extra, raw, copied)
            value = None
            return call(last)
        except BaseException as error:
            self._fail(record, flight, error, call)
            return _FAILURE

    def _keep(self, record: calls.Record, flight: Flight, value: Any) -> None:
        """Store a result that is more than a number or a text."""
        i, flags = record[0], record[5]
        try:
            if kinds[type(value)] in (LAZY, COLLECTION):
                value = _value_if_held(task_of(value))
            kind = kinds[type(value)]
            is_copied = kind in COPIED
            if kind == LAZY:
                encoded = self.encoded(value)
                flight.done.append((i, 5, encoded.payload, encoded.buffers, encoded.size))
                if flags & KEEP:
                    self.values[i] = _LATER
                    self.unusual.add(i)
                return
            if kind == ITERATOR:
                value, is_copied = IteratorItems(value), True
            elif kind == ARRAY and flags & KEEP:
                value = read_only(value)
        except BaseException as error:  # the rest of a generator's body ran just now
            self._fail(record, flight, error, None)
            return
        if flags & KEEP:
            self.values[i] = value
            if is_copied:
                self.unusual.add(i)
        entry: tuple[Any, ...] = (i,)
        if flags & (WANT | SMALL):
            try:
                entry = self._entry(i, value, flags)
            except BaseException as error:
                self._fail(record, flight, error, None)
                return
        flight.done.append(entry)

    def _entry(self, i: int, value: Any, flags: int) -> tuple[Any, ...]:
        """Return what the answer says of one result."""
        is_there = bool(flags & KEEP)
        if value.__class__ in IMMUTABLE and calls.is_short(value):
            return (i, is_there, value)
        size = size_of(value)
        if flags & WANT or (flags & SMALL and size < self.least):
            try:
                encoded = self.encoded(value)
            except Unpicklable:
                if flags & WANT:
                    raise
                return (i, 2, size)  # it can be of use where it is
            return (i, 3 if is_there else 4, encoded.payload, encoded.buffers, encoded.size)
        return (i, 2, size)

    def _fail(
        self,
        record: calls.Record,
        flight: Flight,
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
            self.values[i] = _FAILED
            self.unusual.add(i)

    def _words(self, record: calls.Record, call: calls.RecordCall | None) -> tuple[str, ...] | None:
        if call is None:
            _, _, arguments, inputs, _, flags, extra = record
            if flags & BLOB:
                return None
            raw = [self.values.get(k) for k in inputs or ()]
            if any(value.__class__ is _Load for value in raw):
                return None
            call = calls.RecordCall(None, arguments, flags, extra, raw, [])  # type: ignore[arg-type]
        return call.words()

    # -- answers ----------------------------------------------------------------------------

    def answer(self, flight: Flight, is_last: bool = True) -> None:
        """Send what a flight has done so far: by either thread."""
        if self.forked:  # the parent goes on with the flight; its copy has nowhere to return to
            os._exit(0)
        with self._sending:
            self._send_waiting()
            entries = []
            done, values = flight.done, self.values
            while done:
                entry = done.popleft()
                if len(entry) == 1:
                    i = entry[0]
                    value = values.get(i, _FAILURE)  # the main thread may drop it meanwhile
                    if value is not _FAILURE:
                        entry = self._told(i, value)
                    value = None
                entries.append(entry)
            failed = []
            while flight.failed:
                failed.append(flight.failed.popleft())
            deferred = []
            while flight.deferred:
                deferred.append(flight.deferred.popleft())
            times = {f: tuple(t) for f, t in flight.times.items()}
            flight.times = {}
            arenas = self.arenas.take_new(self.told[0])
            sys.stdout.flush()
            sys.stderr.flush()
            message = (
                flight.number, entries, failed, deferred, times, self.mappings.take_released(),
                [arena for arena, _ in arenas],
                self.memory_stats(),
            )
            send(self.flights, message, [fd for _, fd in arenas])

    def tell_waiting(self) -> None:
        """Send what was noticed, now or by who is sending."""
        if self._sending.acquire(blocking=False):
            try:
                self._send_waiting()
            except OSError:  # the parent does not listen any more, and the task need not know
                pass
            finally:
                self._sending.release()

    def _send_waiting(self) -> None:
        waiting = self.reporter.waiting
        while waiting:
            send(self.flights, (NOTICES, waiting.popleft()), [])

    def _told(self, i: int, value: Any) -> tuple[Any, ...]:
        """Describe a value that stays: itself, when it is small."""
        if value.__class__ in IMMUTABLE:
            return self._entry(i, value, KEEP)
        size = size_of(value)
        if size <= _SMALL and calls.travels_well(value):
            try:
                encoded = self.encoded(value)
                return (i, 3, encoded.payload, encoded.buffers, encoded.size)
            except Unpicklable:
                pass
        return (i, 2, size)

    def memory_stats(self) -> tuple[int, int, int]:
        """Return the bytes of shared memory of its own, in use and kept, and of others."""
        return self.arenas.in_use, self.arenas.recycled, self.mappings.in_use

    def encoded(self, value: Any) -> Encoded:
        """Return what can travel in the place of a value, its large parts in shared memory."""
        return encode(value, self.arenas.write, self.least, self.arenas.free)

    def _open(self, i: int, load: _Load) -> Any:
        """Put a value in the place of its encoded form."""
        value = load.opened()
        if kinds[type(value)] == ARRAY:
            value = read_only(value)
        self.values[i] = value
        if kinds[type(value)] not in COPIED:
            self.unusual.discard(i)
        return value


class _Load:
    """A value that came with a message and is not opened yet; its memory is pinned already."""

    def __init__(self, worker: Worker, value: tuple[Any, ...]) -> None:
        self.encoded = Encoded(*value)
        parts = (self.encoded.payload, *self.encoded.buffers)
        # One view for each time that memory is named: the parent counts them back.
        self.views: list[tuple[Any, Any]] = []
        self.error: BaseException | None = None
        for part in parts:
            if part.__class__ is tuple:
                try:
                    self.views.append((part, worker.mappings.view(part)))
                except MemoryError as error:  # of the tasks that need it
                    self.error = error

    def _view(self, segment: Any) -> Any:
        for at, (part, view) in enumerate(self.views):
            if part == segment:
                del self.views[at]
                return view
        raise AssertionError(f"{segment} is not part of this value")

    def opened(self) -> Any:
        """Return the value, once; if that fails, for all who ask."""
        if self.error is not None:
            self.views.clear()
            raise self.error
        try:
            return _decoded(self.encoded, self._view)
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.views.clear()


def _decoded(encoded: Encoded, view: Callable[[Any], Any]) -> Any:
    try:
        return decode(encoded, view)
    except MemoryError:
        raise
    except BaseException as error:
        raise unreadable("an argument", error) from error


_FAILURE: Any = object()  # in the place of a result: the task failed, and that is noted


def _add_time(times: dict[int, list[float]], function: int, count: int, seconds: float) -> None:
    known = times.get(function)
    if known is None:
        times[function] = [count, seconds]
    else:
        known[0] += count
        known[1] += seconds


def main(flights: int, requests: int, words: int, settings: dict[str, Any]) -> None:
    """Be a worker, on descriptors that were inherited."""
    from lazyflow.schedulers.processes.worker import nested

    page = mmap.mmap(words, mmap.PAGESIZE)
    os.close(words)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    nested.install()
    here.is_worker = True
    kind: type[Worker] = Worker
    if settings.get("actor"):
        from lazyflow.schedulers.processes.worker.actor_worker import ActorWorker

        kind = ActorWorker
    worker = kind(
        socket.socket(fileno=flights),
        socket.socket(fileno=requests),
        memoryview(page).cast("q"),
        settings,
    )
    service.start(worker)
    try:
        worker.serve()
    except ConnectionError:  # the parent does not listen any more
        pass
    except BaseException as error:  # threads of the user's must not keep this process
        service.end_worker(error)
