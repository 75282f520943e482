"""The process of an actor: makes its object, and calls it as it is told.

Messages come in order, with the values of their calls: nothing is kept here but the object. Each
call has an answer of its own before the next is begun, so that what a call waits for can't depend
on an answer that is held back; the sender does not wait for answers, so calls follow each other
without a pause.
"""

from __future__ import annotations

import contextvars
import os
import sys
from typing import Any

from lazyflow.errors import Cancelled
from lazyflow.graph.arguments import read_only
from lazyflow.graph.kinds import ARRAY, IMMUTABLE, kinds
from lazyflow.schedulers.actors.call_executors import LoopLane, ThreadLane, run_here
from lazyflow.schedulers.actors.calls import Checkpoint, finish
from lazyflow.schedulers.core.errors.failures import text_of
from lazyflow.schedulers.core.task_resources import drop
from lazyflow.schedulers.processes.channel import send
from lazyflow.schedulers.processes.worker.nested import inside
from lazyflow.schedulers.processes.worker.service import RUNNING
from lazyflow.schedulers.processes.worker.worker import Worker
from lazyflow.schedulers.remote import calls
from lazyflow.schedulers.remote.calls import BLOB
from lazyflow.store.pickling.serialize import Encoded, Unpicklable, decode

Arguments = tuple[Any, int, Any, tuple[int, ...] | None, list[Any]]


class ActorWorker(Worker):
    """The state of this process: the object, and where its calls run.

    The shared word has the number of the call that runs; with several at once, the highest of
    those that were begun, until none runs.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.instance: Any = None
        self.checkpoint: Checkpoint | None = None
        self._ended = 0  # calls since the start
        self._running = 0
        self._context = contextvars.copy_context()
        self._lane: ThreadLane | LoopLane | None = None

    # -- messages ---------------------------------------------------------------------------

    def _take(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        what, *details, arenas = message
        for arena, fd in zip(arenas, descriptors, strict=True):
            self.mappings.add(arena, fd)
        getattr(self, "take_" + what)(*details)

    def take_arenas(self) -> None:
        """Take memory in that later messages speak of."""

    def take_versions(self, said: tuple[Any, ...]) -> None:
        """Bring modules to the versions that the caller has."""
        self.follower.follow(said)

    def take_drop(self, name: str) -> None:
        """Let go of what is kept by a name."""
        drop(name)

    def take_settings(self, said: tuple[Any, ...]) -> None:
        """Take over what the caller has set for logging and warnings."""
        self.reporter.configure(said)

    def take_init(
        self, number: int, context: bytes, concurrency: int, is_async: bool, made_of: Any,
        state: Any, arguments: Arguments,
    ) -> None:
        """Make the object, with the state that another had."""
        from lazyflow.schedulers.remote import environment

        self.words[RUNNING] = number
        self._context.run(environment.enter, context)
        job = _Making(self, number, arguments, made_of, state)
        if is_async:
            self._lane = LoopLane("actor", concurrency, self._context)
            self._lane.submit(job)  # a constructor may make what belongs to the loop
            return
        self._context.run(run_here, job)
        if concurrency > 1:
            self._lane = ThreadLane("actor", concurrency, self._context)

    def take_calls(self, batch: list[tuple[int, str, Arguments]]) -> None:
        """Call methods, one after the other; each is answered by itself."""
        for each in batch:
            self._begin(*each)

    def _begin(self, number: int, method: str, arguments: Arguments) -> None:
        job = _Calling(self, number, arguments, method)
        if self._lane is None:
            self._context.run(run_here, job)
        else:
            self._lane.submit(job)

    # -- values -----------------------------------------------------------------------------

    def opened(self, loads: list[Any]) -> list[Any]:
        """Return the values that came with a call, all of them looked at."""
        found, broken = [], None
        for each in loads:
            if each.__class__ is list:
                found.append(each[0])
                continue
            try:
                value = decode(Encoded(*each), self.mappings.view)
            except BaseException as error:  # the others' memory has to be looked at still
                broken = error
                continue
            found.append(read_only(value) if kinds[type(value)] == ARRAY else value)
        if broken is not None:
            raise broken
        return found

    def parts(self, value: Any) -> tuple[Any, ...]:
        """Encode a value."""
        encoded = self.encoded(value)
        return encoded.payload, encoded.buffers, encoded.size

    def saved(self) -> tuple[Any, ...] | None:
        """Return the state, if it is time to keep it."""
        checkpoint = self.checkpoint
        self._ended += 1
        if checkpoint is None or self._ended % checkpoint.every:
            return None
        return checkpoint.packed_state(self.instance, self.parts)

    # -- answers ----------------------------------------------------------------------------

    def began(self, number: int) -> None:
        """Say what runs, for who sees this process die."""
        with self._sending:
            self._running += 1
            self.words[RUNNING] = max(number, self.words[RUNNING])

    def tell(self, number: int, outcome: tuple[Any, ...], state: Any) -> None:
        """Send the outcome of a call."""
        if self.forked:  # the parent goes on; its copy has nowhere to return to
            os._exit(0)
        with self._sending:
            self._send_waiting()
            arenas = self.arenas.take_new(self.told[0])
            sys.stdout.flush()
            sys.stderr.flush()
            message = (
                number, outcome, state, self.mappings.take_released(),
                [arena for arena, _ in arenas],
                (self.arenas.in_use, self.arenas.recycled, self.mappings.in_use),
            )
            send(self.flights, message, [fd for _, fd in arenas])
            self._running -= 1
            if not self._running:
                self.words[RUNNING] = 0


class _Calling:
    """A call of a method."""

    def __init__(
        self, worker: ActorWorker, number: int, arguments: Arguments, method: str
    ) -> None:
        self.worker = worker
        self.number = number
        self.arguments = arguments
        self.method = method
        self.call: calls.RecordCall | None = None
        self.has_saved = False  # the state was asked for, and may be what has failed

    def waits(self) -> tuple[()]:
        return ()

    def begin(self) -> Any:
        worker = self.worker
        worker.began(self.number)
        arguments, flags, binding, sources, loads = self.arguments
        values = worker.opened(loads)
        if self.number in worker.skipped:
            worker.skipped.discard(self.number)
            raise Cancelled(f"{self.method} was cancelled before it began")
        if flags & BLOB:
            arguments = decode(Encoded(*arguments), worker.mappings.view)
        given = values if sources is None else [values[k] for k in sources]
        self.call = calls.RecordCall(
            self.function(), arguments, flags, (binding, None), given, [False] * len(given)
        )
        return self.call([])

    def function(self) -> Any:
        return getattr(self.worker.instance, self.method)

    def done(self, box: list[Any]) -> None:
        worker = self.worker
        finish(box, inside)
        value = box[0]
        if value.__class__ in IMMUTABLE and calls.is_short(value):
            outcome: tuple[Any, ...] = (0, value)
        else:
            outcome = (1, *worker.parts(value))
        worker.tell(self.number, outcome, self.saved())

    def saved(self) -> tuple[Any, ...] | None:
        """Return the state after the call, if it is time to keep it: it is asked for once."""
        self.has_saved = True
        return self.worker.saved()

    def failed(self, error: BaseException) -> None:
        from lazyflow.schedulers.core.errors import records

        state = None
        if not self.has_saved:
            try:
                state = self.saved()
            except BaseException as broken:
                error.add_note(f"its actor's state could not be kept: {text_of(broken)}")
        if isinstance(error, Unpicklable):
            role = "result" if self.call is not None else "args"
            record: Any = ("unpicklable", role, error.path, records.record(error.error))
        else:
            record = records.record(error)
        try:
            words = None if self.call is None else self.call.words()
        except BaseException:  # a hostile container must not stop an error message
            words = None
        self.worker.tell(self.number, (2, record, words), state)


class _Making(_Calling):
    """The call of the constructor."""

    def __init__(
        self, worker: ActorWorker, number: int, arguments: Arguments, made_of: Any, state: Any
    ) -> None:
        super().__init__(worker, number, arguments, "__init__")
        self.made_of = made_of
        self.state = state

    def function(self) -> Any:
        worker = self.worker
        factory, worker.checkpoint = decode(Encoded(*self.made_of), worker.mappings.view)
        return factory.__wrapped__

    def done(self, box: list[Any]) -> None:
        worker = self.worker
        worker.instance = box.pop()
        if self.state is not None:
            assert worker.checkpoint is not None
            state = decode(Encoded(*self.state), worker.mappings.view)
            worker.checkpoint.restore(worker.instance, state)
        worker.tell(self.number, (0, None), None)

    def failed(self, error: BaseException) -> None:
        self.worker.checkpoint = None
        super().failed(error)
