"""Messages: those to workers are made of flights, and those of workers are made events."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, TypeAlias

from lazyflow.graph.task import HELD
from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.processes.decisions import events
from lazyflow.schedulers.processes.decisions.nodes import (
    MISSING,
    MIXED,
    WAITING,
    Flight,
    Literal,
    Node,
)
from lazyflow.schedulers.processes.decisions.pool_state import State
from lazyflow.schedulers.processes.parent.remote_run import (
    EndedRun,
    RemakingParent,
    RemoteRun,
    report_call,
    report_moved,
    report_notes,
    report_result,
    report_start,
)
from lazyflow.schedulers.processes.parent.values import FunctionTable, PoolMemory
from lazyflow.schedulers.processes.parent.worker_handle import WorkerHandle
from lazyflow.schedulers.processes.protocol import (
    ENCODED_KEPT,
    KEPT,
    LAZY,
    PLAIN_KEPT,
    RECALLED,
    SHARED,
    UNMAPPED,
    Answer,
    FlightMessage,
    Segment,
    SharedValue,
    TaskSpan,
)
from lazyflow.schedulers.processes.surroundings import notices, surroundings
from lazyflow.schedulers.remote.calls import (
    ARENAS,
    CONFIGURE,
    DROP,
    FOLLOW,
    FUNCTION,
    SMALL,
    SPECIAL,
    SURROUND,
    WANT,
    Record,
    error_of,
    packed_call,
    special_of,
)
from lazyflow.schedulers.remote.large_values import LARGE
from lazyflow.schedulers.remote.versions import versions
from lazyflow.store.pickling.serialize import Encoded, decode, encode

# -- sending: makes messages of flights; what a worker does not have yet goes with its tasks

#: The first fields of a `FlightMessage`.
_Tasks: TypeAlias = tuple[int, int, bytes | None, Any, Any, list[Any], Any, float | None]
_NO_TASKS: _Tasks = (0, 0, None, (), (), [], (), None)
_MOST_ARENAS = 60  # whose descriptors go with one message


class Sender:
    """Makes the messages to workers.

    Attributes
    ----------
    messages, bytes
        Messages and bytes that were sent so far.
    """

    def __init__(self, memory: PoolMemory, functions: FunctionTable) -> None:
        self._memory = memory
        self._functions = functions
        self.messages = 0
        self.bytes = 0

    def send(self, member: WorkerHandle, flight: Flight) -> None:
        """Send tasks, with the functions, the values and the environment that they need."""
        run: RemoteRun = flight.nodes[0].job.run
        self.bring_up_to_date(member)
        check = run.request.check_mutation
        functions: list[tuple[int, bytes]] = []
        blobs: list[int] = []
        records: list[Record] = []
        known, nodes = member.functions, member.nodes
        for node, drops in zip(flight.nodes, flight.drops, strict=True):
            function, arguments, flags, extra = self._call(node, check)
            if arguments.__class__ is Encoded:
                segments = arguments.segments()
                if segments:
                    blobs.append(len(records))
                    self._memory.lend(member, segments)
                arguments = (arguments.payload, arguments.buffers, arguments.size)
            if function not in known:
                known.add(function)
                payload = self._functions.payload(function)
                if len(payload) < LARGE:
                    functions.append((function, payload))
                else:
                    self._send_function(member, function, payload)
            inputs = tuple([n.id for n in node.inputs]) if node.inputs else None
            records.append((node.id, function, arguments, inputs, drops, flags, extra))
            nodes[node.id] = node
        if run.observers.on_start and len(flight.nodes) == 1:
            report_start(run, flight.nodes[0])
        loads = [self._load(member, source) for source in flight.loads]
        environment, old_runs = member.environment_of(run)
        if len(member.worker.flights) == 1:
            member.since = monotonic()
        timed = None
        if run.observers.on_ran:
            timed = run.observers.sampling
            report_moved(run, flight.nodes, records, loads)
        tasks = (flight.number, run.number, environment, functions, loads, records, blobs, timed)
        self._send(member, tasks, flight.forget, old_runs)

    def _send_function(self, member: WorkerHandle, function: int, payload: bytes) -> None:
        """Send a large function by itself: all messages to workers have its one pickle."""
        if function in member.old_functions:  # the worker would drop it by the next message
            member.old_functions.remove(function)
        self.messages += 1
        self.bytes += member.outgoing.send_apart((FUNCTION, (function, b"")), payload)

    def bring_up_to_date(self, member: WorkerHandle) -> None:
        """Send a worker what has changed of the caller's modules, settings and surroundings."""
        if member.versions != versions.current.number:
            self._put(member, (FOLLOW, self._versions_for(member)), [])
        settings = notices.settings
        if member.settings != settings[0]:
            member.settings = settings[0]
            self._put(member, (CONFIGURE, settings), [])
        now, told = surroundings.current, member.surroundings
        if now is not told:
            member.surroundings = now
            self._put(member, (SURROUND, now.since(told)), [])

    def _versions_for(self, member: WorkerHandle) -> tuple[Any, ...]:
        """Return which versions of the caller's modules a worker is to have."""
        current = versions.current
        member.versions = current.number
        if member.reloads != current.reloads:
            member.reloads = current.reloads
            member.forget_reloaded()
        return tuple(current._replace(path=list(map(str, current.path))))

    def _call(
        self, node: Node, check: bool
    ) -> tuple[int, Any, int, tuple[Any, ...] | None]:
        """Return function, arguments, flags and the rest of a task's record."""
        task = node.task
        flags = node.keep
        if node.want:
            flags |= SMALL if node.want == 1 else WANT
        elif node.users:
            for user in node.users:
                if user.site is MIXED:  # a small value comes before it is asked for
                    flags |= SMALL
                    break
        if task._func is HELD:
            return node.function, None, flags, None
        arguments, more, binding = node.packed or packed_call(task, _quickly)
        flags |= more
        extra: Any = None if binding is None else (binding, None)
        options = task._options
        if options.special or options.retries or check:
            special = special_of(task, check)
            if special is not None:
                flags |= SPECIAL
                extra = (binding, special)
            if options.crash_retries == 0:  # it must not have to run again for its value
                flags |= WANT
        return node.function, arguments, flags, extra

    def _load(self, member: WorkerHandle, source: Node) -> tuple[int, Any]:
        """Return what is sent of a value that is not at the worker."""
        value = source.value
        if type(value) is Literal:
            if value.encoded is None:
                value.encoded = self._memory.encoded(value.value)
            value = value.encoded
        if type(value) is Encoded:
            self._memory.lend(member, value.segments())
            return (source.id, (value.payload, value.buffers, value.size))
        return (source.id, [value])

    def send_to_actor(self, member: WorkerHandle, kind: int, content: Any) -> None:
        """Send an actor's process a message, with the memory that it refers to."""
        self.bring_up_to_date(member)
        arenas = self._next_arenas(member, lambda some: (ARENAS, None, some))
        self._put(member, (kind, content, arenas), arenas)

    def forget(self, member: WorkerHandle) -> None:
        """Send a worker the ids of values that it can drop."""
        forget, member.worker.forget = member.worker.forget, []
        self._send(member, _NO_TASKS, forget)

    def drop(self, member: WorkerHandle, name: str) -> None:
        """Have a worker let go of what it keeps for tasks by a name: see `task_resources.drop`."""
        self._put(member, (DROP, name), [])

    def _send(
        self,
        member: WorkerHandle,
        tasks: _Tasks,
        forget: list[int],
        old_runs: Sequence[int] = (),
    ) -> None:
        """Send the first fields of a message, with arenas and with what the worker can forget."""
        arenas = self._next_arenas(member, lambda some: (*_NO_TASKS, (), some, (), ()))
        old, member.old_functions = member.old_functions, []
        message: FlightMessage = (*tasks, forget, arenas, old_runs, old)
        self._put(member, message, arenas)

    def _next_arenas(
        self, member: WorkerHandle, empty: Callable[[list[int]], tuple[Any, ...]]
    ) -> list[int]:
        """Return the arenas for the next message; what is too many goes in `empty` ones before."""
        while len(member.lent) > _MOST_ARENAS:
            some, member.lent = member.lent[:_MOST_ARENAS], member.lent[_MOST_ARENAS:]
            self._put(member, empty(some), some)
        arenas, member.lent = member.lent, []
        return arenas

    def _put(self, member: WorkerHandle, message: tuple[Any, ...], arenas: list[int]) -> None:
        descriptors = [os.dup(self._memory.readers[arena]) for arena in arenas]
        self.messages += 1
        self.bytes += member.outgoing.send(message, descriptors)


def _quickly(value: Any) -> Encoded:
    """Encode what `is_quick`, all of it in the message: small parts may be many."""
    return encode(value, _nowhere, sys.maxsize)


def _nowhere(buffer: Any) -> tuple[int, int, int]:
    raise AssertionError("nothing is as large as that")


# -- receiving: makes events of the workers' messages -------------------------------------


class Receiver:
    """Takes messages in; in the driver's thread. `end` takes a run out that is over."""

    def __init__(self, state: State, memory: PoolMemory, end: Callable[[RemoteRun], None]) -> None:
        self._state = state
        self._memory = memory
        self._end = end
        self.messages = 0
        self.tasks = 0  # that were done, or failed
        self.bytes = 0  # of values that came in messages
        self._handlers: dict[int, Callable[[WorkerHandle, Any, list[int]], None]] = {
            SHARED: self._shared,
            UNMAPPED: self._unmapped,
            RECALLED: self._recalled,
        }

    # -- answers to flights -----------------------------------------------------------------

    def answer(self, member: WorkerHandle, message: Answer, descriptors: list[int]) -> None:
        """Take an answer to a flight."""
        number, entries, failed, deferred, times, timed, notes, released, arenas, stats = message
        self.messages += 1
        self.tasks += len(entries) + len(failed)
        self._memory.note_arenas(arenas, descriptors)
        member.stats = stats
        member.since = monotonic()
        self._memory.segments.remove(released, member)
        report_notes(member, notes)
        nodes = member.nodes
        spans = {span[0]: span for span in timed}
        done = []
        for entry in entries:
            node = nodes.pop(entry[0], None)
            value, size, is_there, is_lazy = self._entry(entry)
            if node is None:
                self._memory.remove(value)
            elif is_lazy:
                self._became_lazy(member, number, node, value, spans.get(node.id))
            else:
                run = node.job.run
                if run is not None and run.observers.members and not node.job.over:
                    report_result(run, node, member, spans.get(node.id), size)
                done.append((node, value, size, is_there))
        errors: dict[int, BaseException] = {}
        broken = [self._failure(member, entry, errors, spans) for entry in failed]
        later = [nodes.pop(i) for i in deferred]
        events.answered(
            self._state, member.worker, number, done, [b for b in broken if b is not None],
            times, later,
        )

    def _entry(self, entry: Any) -> tuple[Any, int, bool, bool]:
        """Return the value, its size, whether the worker keeps it, and whether it is a lazy one."""
        if len(entry) == 1:
            return MISSING, 0, False, False
        kind = entry[1]
        if kind <= PLAIN_KEPT:
            return entry[2], 0, kind == PLAIN_KEPT, False
        if kind == KEPT:
            return MISSING, entry[2], True, False
        value = Encoded(entry[2], entry[3], entry[4])
        self._memory.add(value)
        self.bytes += len(value.payload) if type(value.payload) is bytes else 0
        return value, value.size, kind == ENCODED_KEPT, kind == LAZY

    def _failure(
        self, member: WorkerHandle, entry: Any, errors: dict[int, BaseException],
        spans: dict[int, TaskSpan],
    ) -> tuple[Node, BaseException] | None:
        """Return a node that failed, and why; `errors` are those of the same answer, by id."""
        node = member.nodes.pop(entry[0], None)
        if node is None:
            return None
        error: BaseException
        if len(entry) == 2:  # an input of it had failed, and is known until this is, too
            known = errors.get(entry[1])
            error = member.worker.holding[entry[1]].value if known is None else known
        else:
            error = error_of(node.task, entry[1], entry[2])
            run = node.job.run
            if run is not None and run.observers.members and not node.job.over:
                report_call(run, node, member, spans.get(node.id), 0)
        errors[node.id] = error
        return node, error

    def _became_lazy(
        self, member: WorkerHandle, number: int, node: Node, value: Encoded, span: TaskSpan | None
    ) -> None:
        """Have the lazy value that a task returned computed in its place."""
        run = node.job.run
        events.postponed(self._state, member.worker, number, node)
        if node.phase != WAITING or run is None or (run.over and not node.job.over):
            self._memory.remove(value)  # not needed any more, or made again when the job is over
            return
        if run.observers.members:
            report_result(run, node, member, span, value.size)
        try:
            lazy = decode(value, self._memory.view)
        except BaseException as error:  # SystemExit too: it would end this thread
            events.fail(self._state, node, dressed(error, node.task, None))
            return
        finally:
            self._memory.remove(value)
        if type(run) is EndedRun:
            RemakingParent(node, run).compute(lazy)
            return
        run._compute_instead(node.i, lazy)
        if run.over:
            self._end(run)

    # -- what comes while a task runs -------------------------------------------------------

    def take_note(
        self, member: WorkerHandle, note: tuple[int, Any], descriptors: list[int]
    ) -> None:
        """Take a note of a worker's service thread."""
        self.messages += 1
        kind, content = note
        self._handlers[kind](member, content, descriptors)

    def _shared(self, member: WorkerHandle, shared: SharedValue, descriptors: list[int]) -> None:
        i, answer, arenas = shared
        self._memory.note_arenas(arenas, descriptors)
        node = member.asked.pop(i, None)
        if not answer:  # it was dropped meanwhile
            return
        if node is not None and len(answer) == 1:
            error = error_of(node.task, answer[0], None)
            events.unshareable(self._state, node, error)
            return
        value = Encoded(*answer)
        self._memory.add(value)
        if node is None:  # asked for twice
            self._memory.remove(value)
        else:
            events.shared(self._state, node, value)

    def _unmapped(
        self, member: WorkerHandle, content: tuple[list[Segment], tuple[int, int, int]], _: Any
    ) -> None:
        released, member.stats = content
        self._memory.segments.remove(released, member)

    def _recalled(
        self, member: WorkerHandle, groups: list[tuple[int, list[int] | None]], _: Any
    ) -> None:
        sent = {flight.number: flight.nodes for flight in member.worker.flights}
        back = []
        for number, ids in groups:
            if ids is None:
                ids = [node.id for node in reversed(sent.get(number, ()))]
            back.append((number, [member.nodes.pop(i) for i in ids]))
        events.recalled(self._state, member.worker, back)
