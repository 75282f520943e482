"""An actor in its worker: the object, and where its calls run.

Messages come in order and calls begin in that order. Each call is answered before the next one
begins in the same thread, so that no call waits for an answer that is held back. The sender does
not wait for answers, so calls follow each other without a pause.
"""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any

from lazyflow.errors import Cancelled
from lazyflow.graph.kinds import IMMUTABLE
from lazyflow.schedulers.actors import call_executors, ports
from lazyflow.schedulers.actors.calls import CallTimer, Checkpoint, WaitingActor, finish
from lazyflow.schedulers.core.errors.failures import text_of
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.core.task_resources import here, scheduler_here
from lazyflow.schedulers.remote import environment
from lazyflow.schedulers.remote.calls import TIMED, RecordCall, failure_record, is_short

_NAME = "lazyflow-actor"  # of its threads


class ActorInstance:
    """The actor of this worker; messages come to it from one thread.

    value
        The object, once the constructor has returned.
    checkpoint
        How its state is saved after calls, if at all. The constructor's call sets it.
    skipped
        Numbers of calls that were cancelled, and must not begin.
    is_async
        Whether its calls are coroutines on one event loop.
    waiting
        It, as the caller's process knows it, for errors of actors that wait for each other.
    """

    def __init__(self, port: ports.WorkerPort) -> None:
        self.port = port
        self.value: Any = None
        self.checkpoint: Checkpoint | None = None
        self.skipped: set[int] = set()
        self.is_async = False
        self.waiting: WaitingActor | None = None
        self._ended = 0  # calls
        self._made_by = 0  # number of the constructor's call: higher than those of earlier objects
        self._executor: call_executors.Executor | None = None

    def make(self, message: ports.MakeActor) -> None:
        """Construct the object, with the saved state of an earlier one if there is any."""
        port = self.port
        context = contextvars.copy_context()
        context.run(environment.enter, message.environment)
        context.run(scheduler_here.set, port.scheduler)
        self._made_by = message.number
        if message.waiting is not None:
            self.waiting = WaitingActor(*message.waiting)
        making = _ConstructorCall(self, message)
        count = message.max_concurrency
        self.is_async = message.is_async
        if message.is_async:  # a constructor may make objects of the loop
            self._executor = call_executors.LoopExecutor(_NAME, count, context)
        elif not port.runs_here:
            self._executor = call_executors.ThreadsExecutor(_NAME, count, context)
        else:
            here = call_executors.InlineExecutor(context)
            here.submit(making)
            self._executor = here
            if count > 1:
                self._executor = call_executors.ThreadsExecutor(_NAME, count, context)
            return
        self._executor.submit(making)

    def call(self, number: int, method: str, arguments: ports.Arguments) -> None:
        """Queue a call of a method."""
        assert self._executor is not None
        self._executor.submit(_MethodCall(self, number, method, arguments))

    def close(self) -> None:
        """End after the queued calls."""
        if self._executor is not None:
            self._executor.close()

    def saved(self) -> ports.SavedState | None:
        """Count a call; return the state to save, if it is time to save one."""
        checkpoint = self.checkpoint
        self._ended += 1
        if checkpoint is None or self._ended % checkpoint.every:
            return None
        # counts on from the calls of earlier objects, so that a later state has a higher number
        seen = self._made_by + self._ended
        return seen, checkpoint.packed_state(self.value, self.port.encode)


class _MethodCall:
    """A call of a method, as an executor runs it."""

    def __init__(
        self, actor: ActorInstance, number: int, method: str, arguments: ports.Arguments
    ) -> None:
        self.actor = actor
        self.number = number
        self.method = method
        self.arguments = arguments
        self.inputs = actor.port.inputs(number, arguments)
        self.call: RecordCall | None = None
        self.timer: CallTimer | None = None
        self.has_saved = False  # or tried to: then saving may be what has failed

    def waits(self) -> Sequence[TaskFuture]:
        return self.inputs.waits()

    def begin(self) -> Any:
        actor = self.actor
        if actor.waiting is not None:
            actor.waiting.running = self.number
            here.actor = actor.waiting  # the thread serves no other actor
        actor.port.began(self.number)
        if self.number in actor.skipped:
            actor.skipped.discard(self.number)
            self.inputs.discard()
            raise Cancelled(f"{self.method} was cancelled before it began")
        if self.arguments[1] & TIMED:
            self.timer = CallTimer(not actor.is_async)
        _, flags, binding, sources, _ = self.arguments
        arguments, values = self.inputs.opened()
        if sources is not None:
            values = [values[k] for k in sources]
        self.call = RecordCall(self.function(), arguments, flags, (binding, None), values, [])
        return self.call.call_once()  # its executor awaits a coroutine

    def function(self) -> Any:
        return getattr(self.actor.value, self.method)

    def finish(self, box: list[Any]) -> None:
        finish(box, self.actor.port.scheduler)

    def done(self, box: list[Any]) -> None:
        port = self.actor.port
        is_plain = box[0].__class__ in IMMUTABLE and is_short(box[0])
        outcome = (ports.VALUE, box.pop()) if is_plain else (ports.PACKED, port.encode_result(box))
        self.answer(outcome, self.saved())

    def answer(self, outcome: tuple[Any, ...], state: ports.SavedState | None) -> None:
        """Send the outcome, with the times of the call if they are asked for."""
        if self.arguments[1] & TIMED:
            outcome = *outcome, None if self.timer is None else self.timer.times()
        self.actor.port.send_answer(self.number, outcome, state)

    def saved(self) -> ports.SavedState | None:
        """Return the state to save after this call, if any. Called once for each call."""
        self.has_saved = True
        return self.actor.saved()

    def failed(self, error: BaseException) -> None:
        state = None
        if not self.has_saved:
            try:
                state = self.saved()
            except BaseException as broken:
                error.add_note(f"its actor's state could not be kept: {text_of(broken)}")
        record = failure_record(error, "args" if self.call is None else "result")
        try:
            words = None if self.call is None else self.call.words()
        except BaseException:  # a hostile container must not stop an error message
            words = None
        self.answer((ports.FAILURE, record, words), state)


class _ConstructorCall(_MethodCall):
    """The call of the constructor."""

    def __init__(self, actor: ActorInstance, message: ports.MakeActor) -> None:
        super().__init__(actor, message.number, "__init__", message.arguments)
        self.made_of = message.made_of
        self.state = message.state

    def function(self) -> Any:
        actor = self.actor
        factory, actor.checkpoint = actor.port.open(self.made_of, "the class")
        return factory.__wrapped__

    def finish(self, box: list[Any]) -> None:
        """Do nothing: it is the object itself."""

    def done(self, box: list[Any]) -> None:
        actor = self.actor
        actor.value = box.pop()
        if self.state is not None:
            assert actor.checkpoint is not None
            actor.checkpoint.restore(actor.value, actor.port.open(self.state, "the state"))
        self.answer((ports.VALUE, None), None)

    def failed(self, error: BaseException) -> None:
        self.actor.checkpoint = None
        super().failed(error)


