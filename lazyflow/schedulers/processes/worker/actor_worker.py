"""The process of an actor: takes messages, and sends an answer to each call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from lazyflow.schedulers.actors.instance import ActorInstance
from lazyflow.schedulers.actors.ports import Arguments, MakeActor, SavedState
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.processes.worker.nested import inside
from lazyflow.schedulers.processes.worker.process import RUNNING, WorkerProcess
from lazyflow.schedulers.processes.worker.task_worker import UnopenedValue
from lazyflow.schedulers.remote.calls import AS_HELD, BLOB, CALLS, MAKE
from lazyflow.store.memory.shared import Mappings


class ActorWorker(WorkerProcess):
    """The state of this process, and the end of the actor in it.

    The shared word has the number of the call that runs; with several at once, the highest of
    those that were begun, until none runs.
    """

    scheduler = inside
    runs_here = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._running = 0
        self.inputs = partial(_SentInputs, self.mappings)
        self._actor = ActorInstance(self)
        self._actor.skipped = self.skipped

    def _take_work(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        kind, content, arenas = message
        for arena, fd in zip(arenas, descriptors, strict=True):
            self.mappings.add(arena, fd)
        if kind == CALLS:
            call = self._actor.call
            for call_parts in content:
                call(*call_parts)
        elif kind == MAKE:
            make = MakeActor(*content)
            self.words[RUNNING] = make.number  # to blame, if the environment ends this process
            self._actor.make(make)

    # -- for the actor ----------------------------------------------------------------------

    def encode_result(self, box: list[Any]) -> Any:
        """Encode the result of a call: that copies it."""
        return self.encode(box.pop())

    def open(self, packed: Any, what: str) -> Any:
        """Open an encoded value."""
        return UnopenedValue(self.mappings, packed).owned()

    def began(self, number: int) -> None:
        """Note the call that runs, to be charged if this process dies."""
        with self._sending:
            self._running += 1
            self.words[RUNNING] = max(number, self.words[RUNNING])

    def send_answer(
        self, number: int, outcome: tuple[Any, ...], state: SavedState | None
    ) -> None:
        """Send the outcome of a call."""
        if self.reporter.is_forked:  # the parent goes on; its copy has nowhere to return to
            os._exit(0)
        with self._sending:
            self._send_answer(number, outcome, state)
            self._running -= 1
            if not self._running:
                self.words[RUNNING] = 0


class _SentInputs:
    """The arguments of a call, and the values that came with it: ``[value]``, or encoded.

    Shared memory is mapped from now on, so that the parent can count it out when this is discarded.
    """

    __slots__ = ("_arguments", "_is_own", "_loads")

    def __init__(self, mappings: Mappings, number: int, arguments: Arguments) -> None:
        given, flags, _, _, loads = arguments
        self._arguments = UnopenedValue(mappings, given) if flags & BLOB else given
        self._is_own = not flags & AS_HELD
        self._loads = [
            load if load.__class__ is list else UnopenedValue(mappings, load) for load in loads
        ]

    def waits(self) -> Sequence[TaskFuture]:
        return ()

    def opened(self) -> tuple[Any, list[Any]]:
        try:
            values = [self._value(load) for load in self._loads]
            arguments = self._arguments
            if arguments.__class__ is UnopenedValue:
                arguments = arguments.owned()
            return arguments, values
        finally:
            self.discard()

    def discard(self) -> None:
        self._arguments, self._loads = None, []

    def _value(self, load: Any) -> Any:
        if not isinstance(load, UnopenedValue):
            return load[0]
        return load.owned() if self._is_own else load.opened()
