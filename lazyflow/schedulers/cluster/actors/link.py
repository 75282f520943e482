"""The end of actors on the caller's side of an engine, which keeps each in a worker of its own.

Values that the engine holds go to an actor as names: it fetches them in the cluster.

A link belongs to one process of an actor, and the engine's thread alone uses it. What is to be sent
gathers in ``_next`` until the way is free: then calls, cancelled calls and values go in one
message. When the process ends, its journal (journal.py) tells which calls had begun and which
answers were lost on the way: ``_journal`` is its descriptor if the process was on this machine,
else another process reads it. Until that answer is here, no call is failed or sent again.
"""

from __future__ import annotations

import contextvars
import os
import pickle
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from lazyflow.errors import LazyflowWarning, SchedulerLost
from lazyflow.schedulers.actors import ports
from lazyflow.schedulers.actors.calls import PackedCall
from lazyflow.schedulers.actors.remote_actor import RemoteActor
from lazyflow.schedulers.cluster.actors import journal
from lazyflow.schedulers.cluster.engine import Engine, HeldValue
from lazyflow.schedulers.cluster.outcome import PackedValue, packed
from lazyflow.schedulers.cluster.results import EngineResult
from lazyflow.schedulers.remote.calls import is_short


class EnginePort(ports.HostPort):
    """The way to an engine. A packed value is a `PackedValue`; a packed input may be held.

    Packed values are not counted, and the engine's scheduler has a table of its actors.
    """

    encode = staticmethod(journal.pickled)

    def __init__(self, engine: Engine) -> None:
        self._context = contextvars.copy_context()  # may have options for the engine
        self.engine = self.keeper = engine
        self.post = engine.post

    def bring(self, value: Any, have: ports.TakeValue) -> Any:
        if self.engine.holds(value):
            return value
        if type(value) is EngineResult and value.short is not None:
            return value.short
        return super().bring(value, have)  # it is in a pool's worker, or another engine

    def load(self, value: Any) -> Any:
        if type(value) is PackedValue:
            return journal.PACKED, value
        if self.engine.holds(value):
            return value
        if is_short(value):
            return journal.PLAIN, value
        return journal.PACKED, journal.pickled(value)

    def start(self, actor: RemoteActor) -> ports.ActorLink:
        return self._context.copy().run(self.engine.new_link, actor)


class EngineLink(ports.ActorLink, ABC):
    """The way to an engine's actor, which is started with it. Used by the engine's thread.

    where
        Description of the process, once it is known.
    journal_name
        The name of its journal, once it is known: before that no call begins.
    """

    where = "its process did not start"
    journal_name = ""

    def __init__(self, engine: Engine, actor: RemoteActor) -> None:
        self.engine = engine
        self.actor = actor
        self._next = journal.ActorMessages()  # the message that is being gathered
        self._is_over = False
        self._journal: int | None = None  # open, where that is on this machine

    # -- for engines --------------------------------------------------------------------------

    @abstractmethod
    def send(self, messages: journal.ActorMessages) -> None:
        """Send messages; they arrive in order."""

    @abstractmethod
    def kept(self, number: int, what: str) -> Any:
        """Return the handle of a call's ``"value"`` or ``"state"`` that the engine keeps."""

    @abstractmethod
    def ask_for_journal(self, then: Callable[[journal.Entries | None], None]) -> None:
        """Have another process read the journal; call `then` with the entries, or None."""

    @abstractmethod
    def release(self) -> None:
        """Release the engine's actor, which ends by that."""

    def began_at(self, where: str, journal_name: str, base: str | None = None) -> None:
        """Note the actor's process, and open its journal if it is on this machine."""
        self.where, self.journal_name = where, journal_name
        self._journal = journal.claimed(journal_name, base)
        if self._is_over:
            self._close_journal()

    def cancel(self, error: BaseException) -> None:
        """End the actor with an error of the engine."""
        self._close_journal()
        self.actor.cancel(error)

    def receive(self, report: journal.Report) -> None:
        """Handle a report from the actor."""
        if self._is_over:
            return
        if isinstance(report, journal.CallAnswer):
            self.actor.answered(self, report.number, report.outcome, report.state)
        elif isinstance(report, journal.JournalLost):
            self._warn_of_journal(report.why)
        else:
            self._bring_again(report.number, report.k)
        self.actor.pump()

    def broken(self, error: BaseException | None) -> None:
        """Handle the end of the engine's actor."""
        self._is_over = True
        if not self.actor.broken(self):
            self._close_journal()
            return
        cause = None if error is None else self.engine.translated(error)
        if isinstance(cause, SchedulerLost):
            self.end()
            self.actor.cancel(cause)
        elif self.actor.error is None:
            self.release()
            then = partial(self.engine.post, self._died, cause)
            if self._journal is not None:
                opened, self._journal = self._journal, None
                then(journal.entries(opened))
            elif self.journal_name:  # it is on another machine
                self.ask_for_journal(then)
            else:
                then((0, []))
        else:
            self._close_journal()

    def _died(self, cause: BaseException | None, journal_entries: journal.Entries | None) -> None:
        last, entries = (None, []) if journal_entries is None else journal_entries
        answers = [pickle.loads(data) for data in entries]
        self.actor.died(self, ports.ProcessEnd(
            "ended", self.where, last, [(a.number, a.outcome, a.state) for a in answers], cause,
        ))

    def _warn_of_journal(self, why: str) -> None:
        warnings.warn(
            f"the actor {self.actor.spec.label} ({self.where}) can't keep a journal of its calls "
            f"({why}). It goes on without: should its process die, every call that was sent may "
            "have run. Look at the folder of temporary files of its machine.",
            LazyflowWarning, stacklevel=2,
        )

    def _bring_again(self, number: int, k: int) -> None:
        """Fetch a value here and send it: the actor could not fetch it, since its holder died."""
        item = self.actor.under_way.get(number)
        if item is not None:
            ports.bring_in_thread(self.engine.post, item.values[k].get, self._give, item, number, k)

    def _give(
        self, item: PackedCall, number: int, k: int, value: Any, error: BaseException | None
    ) -> None:
        if self.actor.under_way.get(number) is not item:
            return
        if error is not None:
            item.call.future.set_error(error)
        given = None if error is not None else packed(value)
        self._next.given.append(journal.GivenInput(number, k, given))
        self.actor.pump()

    # -- for the actor ------------------------------------------------------------------------

    def lend(self, packed: Any) -> Any:
        if not isinstance(packed, HeldValue):
            return packed
        return journal.HELD, self.engine.token(packed.current_handle()), packed.number

    def make(self, message: ports.MakeActor) -> None:
        self._next.make = message
        self.call([])

    def call(self, batch: list[ports.SentCall]) -> None:
        self._next.calls = batch
        if self._next:
            messages, self._next = self._next, journal.ActorMessages()
            self.send(messages)

    def skip(self, number: int) -> None:
        self._next.skipped.append(number)

    def result(self, item: PackedCall, number: int, outcome: tuple[Any, ...]) -> Any:
        how, *details = outcome
        if how == ports.VALUE:
            return details[0]
        if how == ports.KEPT:
            kept = self.kept(number, "value")
            return EngineResult(self.engine, kept, number, item.task, details[0], None)
        return EngineResult(self.engine, None, number, item.task, 0, details[0])

    def take_state(self, number: int, state: Any, have: Callable[[Any], None]) -> None:
        if type(state) is PackedValue:
            have(state)
            return
        task = self.actor.spec.init.task
        kept = EngineResult(self.engine, self.kept(number, "state"), number, task, None, None)
        ports.bring_in_thread(self.engine.post, lambda: packed(kept.get()), self._have_state, have)

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
        self.release()
        self._close_journal()

    def _close_journal(self) -> None:
        opened, self._journal = self._journal, None
        if opened is not None:
            os.close(opened)
