"""The way from an actor of the caller's to the one that an engine keeps for it."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from lazyflow.errors import SchedulerLost
from lazyflow.schedulers.actors.deaths import ProcessEnd
from lazyflow.schedulers.actors.packed_call import PackedCall
from lazyflow.schedulers.actors.ports import KEPT, VALUE, MakeActor, SentCall, bring_in_thread
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.actor_messages import (
    HELD,
    ActorMessages,
    CallAnswer,
    GivenInput,
    HeldInput,
    Report,
)
from lazyflow.schedulers.cluster.engine import Engine
from lazyflow.schedulers.cluster.journal import Entries
from lazyflow.schedulers.cluster.outcome import PackedValue, packed
from lazyflow.schedulers.cluster.results import EngineResult, handle_of


class EngineLink(ABC):
    """The way to an engine's actor, which is started with it. Used by the engine's thread.

    where
        Description of the process, once it is known.
    """

    where = "its process did not start"

    def __init__(self, engine: Engine, actor: RemoteActor) -> None:
        self.engine = engine
        self.actor = actor
        self._next = ActorMessages()  # the message that is being gathered
        self._is_over = False

    # -- for engines --------------------------------------------------------------------------

    @abstractmethod
    def is_free(self) -> bool:
        """Return whether messages can be sent now."""

    @abstractmethod
    def send(self, messages: ActorMessages) -> None:
        """Send messages; they arrive in order."""

    @abstractmethod
    def kept(self, number: int, what: str) -> Any:
        """Return the handle of a call's ``"value"`` or ``"state"`` that the engine keeps."""

    @abstractmethod
    def find_journal(self, then: Callable[[Entries | None], None]) -> None:
        """Call `then` with the entries of the journal, or None if it can't be read."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the process, if it is the actor's alone."""

    @abstractmethod
    def let_go(self) -> None:
        """Release the engine's actor: no call is left."""

    def cancel(self, error: BaseException) -> None:
        """End the actor with an error of the engine."""
        self.actor.cancel(error)

    def receive(self, report: Report) -> None:
        """Handle a report from the actor."""
        if self._is_over:
            return
        if isinstance(report, CallAnswer):
            self.actor.answered(self, report.number, report.outcome, report.state)
        else:
            self._bring_again(report.number, report.k)
        self.actor.pump()

    def broken(self, error: BaseException | None) -> None:
        """Handle the end of the engine's actor."""
        self._is_over = True
        if not self.actor.broken(self):
            return
        cause = None if error is None else self.engine.translated(error)
        if isinstance(cause, SchedulerLost):
            self.let_go()
            self.actor.cancel(cause)
        elif self.actor.error is None:
            self.find_journal(lambda found: self.engine.post(self._died, cause, found))

    def _died(self, cause: BaseException | None, found: Entries | None) -> None:
        last, entries = (None, []) if found is None else found
        answers = [pickle.loads(data) for data in entries]
        self.actor.died(self, ProcessEnd(
            "ended", self.where, last, [(a.number, a.outcome, a.state) for a in answers], cause,
        ))

    def _bring_again(self, number: int, k: int) -> None:
        """Fetch a value here and send it: the actor could not fetch it, since its holder died."""
        item = self.actor.flying.get(number)
        if item is not None:
            get = item.values[k].value.get
            bring_in_thread(self.engine.post, get, self._give, item, number, k)

    def _give(
        self, item: PackedCall, number: int, k: int, value: Any, error: BaseException | None
    ) -> None:
        if self.actor.flying.get(number) is not item:
            return
        if error is not None:
            item.call.future.set_error(error)
        self._next.given.append(GivenInput(number, k, None if error is not None else packed(value)))
        self.actor.pump()

    # -- for the actor ------------------------------------------------------------------------

    def lend(self, packed: Any) -> Any:
        """Return the form of a packed value or an input that goes into a message."""
        if type(packed) is not HeldInput:
            return packed
        value = packed.value
        return HELD, self.engine.token(handle_of(value)), value.number

    def make(self, message: MakeActor) -> None:
        """Send the message that makes the object."""
        self._next.make = message
        self._send()

    def call(self, batch: list[SentCall]) -> None:
        """Send calls, and whatever was to go with the next message; either may be missing."""
        self._next.calls = batch
        if self._next:
            self._send()

    def _send(self) -> None:
        messages, self._next = self._next, ActorMessages()
        self.send(messages)

    def skip(self, number: int) -> None:
        """Keep a call from beginning that was sent."""
        self._next.skipped.append(number)

    def result(self, item: PackedCall, number: int, outcome: tuple[Any, ...]) -> Any:
        """Return a result as its future holds it."""
        how, *details = outcome
        if how == VALUE:
            return details[0]
        if how == KEPT:
            return EngineResult(self.engine, self.kept(number, "value"), number, item.task, None)
        return EngineResult(self.engine, None, number, item.task, details[0])

    def take_state(self, number: int, state: Any, have: Callable[[Any], None]) -> None:
        """Call `have` with a state; fetch it first if the engine keeps it."""
        if type(state) is PackedValue:
            have(state)
            return
        task = self.actor.spec.init.task
        kept = EngineResult(self.engine, self.kept(number, "state"), number, task, None)
        bring_in_thread(self.engine.post, lambda: packed(kept.get()), self._have_state, have)

    def _have_state(
        self, have: Callable[[Any], None], state: PackedValue | None, error: BaseException | None
    ) -> None:
        have(state)  # None: a new object will get the state before

    def last_begun(self) -> int | None:
        """Return None: engines do not report it."""
        return None

    def end(self) -> None:
        """Release the engine's actor: no call is left."""
        self._is_over = True
        self.let_go()

