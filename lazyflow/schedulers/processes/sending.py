"""From flights to messages: what a worker has not yet goes along with its tasks."""

from __future__ import annotations

import os
from functools import partial
from time import monotonic
from typing import Any

from lazyflow.graph.task import HELD, Task, place_text, task_name
from lazyflow.schedulers import careful
from lazyflow.schedulers.failures import dressed
from lazyflow.schedulers.processes.calls import (
    SMALL,
    SPECIAL,
    WANT,
    Record,
    packed_call,
    special_of,
)
from lazyflow.schedulers.processes.functions import FunctionTable
from lazyflow.schedulers.processes.memory import Memory
from lazyflow.schedulers.processes.nodes import MIXED, Flight, Literal, Node
from lazyflow.schedulers.processes.pool import Member
from lazyflow.schedulers.processes.remote import RemoteRun
from lazyflow.schedulers.processes.repeats import LARGE, Repeats
from lazyflow.store.serialize import Encoded, Unpicklable, encode, serialization_error

_MOST_ARENAS = 60  # whose descriptors go with one message


class Sender:
    """Makes the messages to workers.

    Attributes
    ----------
    broken
        Why nodes fail whose arguments could not be sent, by id.
    messages, bytes
        Sent so far.
    """

    def __init__(self, memory: Memory, functions: FunctionTable) -> None:
        self._memory = memory
        self._functions = functions
        self.repeats = Repeats()
        self.broken: dict[int, BaseException] = {}
        self.messages = 0
        self.bytes = 0

    def send(self, member: Member, flight: Flight) -> None:
        """Send tasks, with the functions, values and surroundings that they need."""
        run: RemoteRun = flight.nodes[0].job.run
        check = run.request.check_mutation
        functions: list[tuple[int, bytes]] = []
        blobs: list[int] = []
        records: list[Record] = []
        known, nodes = member.functions, member.nodes
        for node, drops in zip(flight.nodes, flight.drops, strict=True):
            function, arguments, flags, extra = self._call(run, node, check)
            if arguments.__class__ is Encoded:
                segments = arguments.segments()
                if segments:
                    blobs.append(len(records))
                    self._memory.lend(member, segments)
                arguments = (arguments.payload, arguments.buffers, arguments.size)
            if function not in known:
                known.add(function)
                functions.append((function, self._functions.payload(function)))
            inputs = tuple([n.id for n in node.inputs]) if node.inputs else None
            records.append((node.id, function, arguments, inputs, drops, flags, extra))
            nodes[node.id] = node
        if run.on_start and len(flight.nodes) == 1:
            careful.hear(run, run.on_start, flight.nodes[0].i)
            member.told = flight.nodes[0]
        loads = [self._load(member, source) for source in flight.loads]
        context, old = member.context_of(run)
        if len(member.worker.flights) == 1:
            member.since = monotonic()
        self._message(
            member, flight.number, run.number, context, functions, loads, records, blobs, old
        )

    def _call(
        self, run: RemoteRun, node: Node, check: bool
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
        try:
            arguments, more, binding = packed_call(task, partial(self._memory.argument, run))
        except Exception as error:
            self.broken[node.id] = self.unsendable(task, "args", error)
            return self._functions.not_sent, (), flags, None
        if arguments.__class__ is Encoded and arguments.size >= LARGE:
            self.repeats.look(run.number, task)
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

    def _load(self, member: Member, source: Node) -> tuple[int, Any]:
        """Return what is sent of a value that is not at the worker; None in the place of one
        that can't be sent."""
        value = source.value
        if type(value) is Literal:
            try:
                if value.encoded is None:
                    value.encoded = self._memory.encoded(value.value)
                    if value.encoded.size >= LARGE:
                        what = f"the lazy value made at {place_text(source.task)}"
                        number = getattr(source.job.run, "number", 0)
                        self.repeats.note(number, value.value, what)
                value = value.encoded
            except Exception as error:
                self.broken[source.id] = self.unsendable(source.task, "value", error)
                return (source.id, None)
        if type(value) is Encoded:
            self._memory.lend(member, value.segments())
            return (source.id, (value.payload, value.buffers, value.size))
        return (source.id, [value])

    def say(self, member: Member, *message: Any) -> None:
        """Send anything else, with the memory that it speaks of."""
        while len(member.lent) > _MOST_ARENAS:
            some, member.lent = member.lent[:_MOST_ARENAS], member.lent[_MOST_ARENAS:]
            self._put(member, ("arenas", some), some)
        arenas, member.lent = member.lent, []
        self._put(member, (*message, arenas), arenas)

    def forget(self, member: Member) -> None:
        """Tell a worker what it can drop."""
        self._message(member, 0, 0, None, (), (), (), (), ())

    def _message(self, member: Member, number: int, *rest: Any) -> None:
        *parts, old = rest
        while len(member.lent) > _MOST_ARENAS:
            some, member.lent = member.lent[:_MOST_ARENAS], member.lent[_MOST_ARENAS:]
            self._put(member, (0, 0, None, (), (), (), (), (), some, (), ()), some)
        arenas, member.lent = member.lent, []
        forget, member.worker.forget = member.worker.forget, []
        gone, member.old_functions = member.old_functions, []
        self._put(member, (number, *parts, forget, arenas, old, gone), arenas)

    def _put(self, member: Member, message: tuple[Any, ...], arenas: list[int]) -> None:
        descriptors = [os.dup(self._memory.readers[arena]) for arena in arenas]
        self.messages += 1
        self.bytes += member.outgoing.send(message, descriptors)

    def unsendable(self, task: Task, role: str, error: Exception) -> BaseException:
        """Return what a task fails with whose arguments can't be sent: StoreFull, for example."""
        if not isinstance(error, Unpicklable):
            return dressed(error, task, None)
        if task._bind is not None:
            role, error = self._culprit(task, role, error)
        text = f"{task_name(task)}, made at {place_text(task)}"
        return dressed(serialization_error(text, role, error), task, None)

    def _culprit(self, task: Task, role: str, error: Unpicklable) -> tuple[str, Unpicklable]:
        """Find the argument that can't be pickled; they were pickled in one, as we bind them."""
        assert task._bind is not None
        args, kwargs = task._bind.fill([None] * len(task._inputs))
        named = [(f"args[{i}]", value) for i, value in enumerate(args)]
        named += [(f"argument {name}", value) for name, value in kwargs.items()]
        for name, value in named:
            try:
                encode(value, _nowhere, self._memory.least)
            except Unpicklable as found:
                return name, found
            except Exception:
                continue
        return role, error


def _nowhere(buffer: Any) -> tuple[int, int, int]:
    return (0, 0, 0)
