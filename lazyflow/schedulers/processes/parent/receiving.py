"""Receiving: makes events of the workers' messages."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from lazyflow.schedulers.core.errors.failures import dressed
from lazyflow.schedulers.processes.decisions import answers, values
from lazyflow.schedulers.processes.decisions.nodes import MISSING, WAITING, Node
from lazyflow.schedulers.processes.decisions.state import State
from lazyflow.schedulers.processes.parent.memory import PoolMemory
from lazyflow.schedulers.processes.parent.remote_run import (
    EndedRun,
    RemakingParent,
    RemoteRun,
    report_call,
    report_notes,
    report_result,
)
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
    Segment,
    SharedValue,
    TaskSpan,
)
from lazyflow.schedulers.remote.failures import error_of
from lazyflow.store.pickling.serialize import Encoded, decode


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
        answers.answered(
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
        answers.postponed(self._state, member.worker, number, node)
        if node.phase != WAITING or run is None or (run.over and not node.job.over):
            self._memory.remove(value)  # not needed any more, or made again when the job is over
            return
        if run.observers.members:
            report_result(run, node, member, span, value.size)
        try:
            lazy = decode(value, self._memory.view)
        except BaseException as error:  # SystemExit too: it would end this thread
            values.fail(self._state, node, dressed(error, node.task, None))
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
            values.unshareable(self._state, node, error)
            return
        value = Encoded(*answer)
        self._memory.add(value)
        if node is None:  # asked for twice
            self._memory.remove(value)
        else:
            values.shared(self._state, node, value)

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
        answers.recalled(self._state, member.worker, back)
