"""The process of an actor: takes messages, and sends an answer to each call."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from lazyflow.graph.arguments import read_only
from lazyflow.graph.kinds import ARRAY, kinds
from lazyflow.schedulers.actors.instance import ActorInstance
from lazyflow.schedulers.actors.ports import Arguments, MakeActor, SavedState
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.processes.channel import send
from lazyflow.schedulers.processes.worker.nested import inside
from lazyflow.schedulers.processes.worker.process import RUNNING, WorkerProcess
from lazyflow.schedulers.remote.calls import BLOB, CALLS, MAKE
from lazyflow.store.memory.shared import Mappings
from lazyflow.store.pickling.serialize import Encoded, decode


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
            for each in content:
                call(*each)
        elif kind == MAKE:
            make = MakeActor(*content)
            self.words[RUNNING] = make.number  # to blame, if the environment ends this process
            self._actor.make(make)

    # -- for the actor ----------------------------------------------------------------------

    def open(self, packed: Any, what: str) -> Any:
        """Open what was encoded."""
        return decode(Encoded(*packed), self.mappings.view)

    def encode(self, value: Any) -> tuple[Any, ...]:
        """Encode a value."""
        encoded = self.encoded(value)
        return encoded.payload, encoded.buffers, encoded.size

    def began(self, number: int) -> None:
        """Note what runs, for whoever sees this process die."""
        with self._sending:
            self._running += 1
            self.words[RUNNING] = max(number, self.words[RUNNING])

    def send_answer(
        self, number: int, outcome: tuple[Any, ...], state: SavedState | None
    ) -> None:
        """Send the outcome of a call."""
        if self.forked:  # the parent goes on; its copy has nowhere to return to
            os._exit(0)
        with self._sending:
            self._send_reports()
            arenas = self.arenas.take_new(self.announced[0])
            sys.stdout.flush()
            sys.stderr.flush()
            message = (
                number, outcome, state, self.mappings.take_released(),
                [arena for arena, _ in arenas],
                self.memory_stats(),
            )
            send(self.flights, message, [fd for _, fd in arenas])
            self._running -= 1
            if not self._running:
                self.words[RUNNING] = 0


class _SentInputs:
    """The arguments of a call, and the values that came with it: ``[value]``, or encoded."""

    __slots__ = ("_arguments", "_is_blob", "_loads", "_mappings")

    def __init__(self, mappings: Mappings, number: int, arguments: Arguments) -> None:
        self._arguments, flags, _, _, self._loads = arguments
        self._is_blob = flags & BLOB
        self._mappings = mappings

    def waits(self) -> Sequence[TaskFuture]:
        return ()

    def opened(self) -> tuple[Any, list[Any], list[bool]]:
        mappings, arguments = self._mappings, self._arguments
        values: list[Any] = []
        for k, each in enumerate(self._loads):
            if each.__class__ is list:
                values.append(each[0])
                continue
            try:
                value = decode(Encoded(*each), mappings.view)
            except BaseException:
                self._look_at(self._loads[k + 1 :])
                self._look_at_arguments()
                raise
            values.append(read_only(value) if kinds[type(value)] == ARRAY else value)
        if self._is_blob:
            arguments = decode(Encoded(*arguments), mappings.view)
        return arguments, values, [False] * len(values)

    def discard(self) -> None:
        self._look_at(self._loads)
        self._look_at_arguments()

    def _look_at(self, loads: list[Any]) -> None:
        """Map memory and let go of it, so that the parent counts it out."""
        for each in loads:
            if each.__class__ is not list:
                for segment in Encoded(*each).segments():
                    self._mappings.view(segment)

    def _look_at_arguments(self) -> None:
        if self._is_blob:
            self._look_at([self._arguments])
