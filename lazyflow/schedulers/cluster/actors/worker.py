"""The end of an actor inside the worker of an engine.

The engine's own actor is the few methods by which messages reach an `EngineActor`; it never sees
the user's class, arguments or errors. Calls run in threads of lazyflow's, so the engine's loop goes
on beside them.

State: ``_waiting :: {call: inputs}``, calls whose inputs are being fetched. A call is put in when
its fetches start and taken out when it begins, each time in one step, so there is no lock. The
journal locks itself.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from lazyflow.errors import Cancelled, SerializationError
from lazyflow.schedulers.actors import ports
from lazyflow.schedulers.actors.instance import ActorInstance
from lazyflow.schedulers.actors.ports import KEPT, Arguments, SavedState
from lazyflow.schedulers.cluster.actors import journal
from lazyflow.schedulers.cluster.actors.journal import Journal
from lazyflow.schedulers.cluster.outcome import GroupOutcome, PackedValue
from lazyflow.schedulers.cluster.work import Inside
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.remote.calls import AS_HELD, BLOB, unreadable
from lazyflow.store.protected import protected

SHORT = 1 << 14  # bytes of a result that goes with the answer; others stay with the engine; a guess


_IMPORTABLE = (
    "Modules have to be importable there: install them on the workers, or set PYTHONPATH before "
    "they start"
)


def _opened(packed: PackedValue, what: str) -> Any:
    """Unpickle a part of a call, which the actor may edit; `what` names it in errors."""
    try:
        return packed.owned()
    except SerializationError as error:
        cause = error if error.__cause__ is None else error.__cause__
        raise unreadable(what, cause, "an actor", _IMPORTABLE) from cause


class EngineActor(ABC):
    """One actor; how reports and values travel is for the subclass of each engine.

    Parameters
    ----------
    name
        The name of the scheduler, for computes in methods.
    folder
        In which the journal's is made; None: that of temporary files.
    """

    runs_here = False
    encode = staticmethod(journal.pickled_state)
    encode_result = staticmethod(journal.pickled_result)
    open = staticmethod(_opened)

    def __init__(self, name: str, folder: str | None = None) -> None:
        self.scheduler = Inside(name)
        self.journal = Journal(folder)
        self._has_told = False  # of trouble with it
        self._actor = ActorInstance(self)
        self._waiting: dict[int, _FetchedInputs] = {}  # of calls that wait for values

    # -- for engines --------------------------------------------------------------------------

    @abstractmethod
    def report(
        self, number: int, report: bytes,
        value: PackedValue | None = None, state: PackedValue | None = None,
    ) -> None:
        """Send a pickled report; keep the large value and state of its call.

        Called by any thread.
        """

    @abstractmethod
    def fetch(self, token: Any, have: Callable[[GroupOutcome | None], None]) -> None:
        """Fetch a value that the engine holds; call `have` with it, or None if that can't be done.

        Called where messages are handled; `have` may be called by any thread.
        """

    def take(self, messages: journal.ActorMessages) -> None:
        """Handle messages, one after the other; return soon."""
        self._actor.skipped.update(messages.skipped)
        for given in messages.given:
            inputs = self._waiting.get(given.number)
            if inputs is not None:
                inputs.give(given.k, given.value)
        if messages.make is not None:
            self.journal.window = max(self.journal.window, messages.make.max_concurrency)
            self._actor.make(messages.make)
        for call in messages.calls:
            self._actor.call(*call)

    def close(self) -> None:
        """End after the queued calls."""
        self._actor.close()
        self.journal.close()

    # -- for the actor ------------------------------------------------------------------------

    def inputs(self, number: int, arguments: Arguments) -> _FetchedInputs:
        """Return the inputs of a call, after starting to fetch them."""
        inputs = _FetchedInputs(arguments)
        for k, token in inputs.tokens():
            self._waiting[number] = inputs
            self.fetch(token, partial(self._have, inputs, number, k))
        return inputs

    def _have(
        self, inputs: _FetchedInputs, number: int, k: int, outcome: GroupOutcome | None
    ) -> None:
        if outcome is None:  # the caller sends it
            self.report(number, pickle.dumps(journal.MissingInput(number, k), 5))
        else:
            inputs.give(k, outcome)

    def began(self, number: int) -> None:
        """Note that a call begins."""
        self._waiting.pop(number, None)
        self.journal.began(number)

    def send_answer(
        self, number: int, outcome: tuple[Any, ...], state: SavedState | None
    ) -> None:
        """Send the outcome of a call; note it in the journal if nothing of it stays here."""
        value = None
        if outcome[0] == ports.PACKED and outcome[1].size() > SHORT:
            value = outcome[1]
            outcome = KEPT, value.size(), *outcome[2:]  # times, if they are asked for
        kept = None
        if state is not None and state[1].size() > SHORT:
            kept = state[1]
            state = state[0], KEPT
        answer = pickle.dumps(journal.CallAnswer(number, outcome, state), 5)
        if value is None and kept is None:
            self.journal.ended(answer)
        if self.journal.trouble and not self._has_told:
            self._has_told = True
            self.report(number, pickle.dumps(journal.JournalLost(self.journal.trouble), 5))
        self.report(number, answer, value, kept)


class _FetchedInputs:
    """The inputs of a call; those that the engine holds are fetched."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments, flags, _, _, self._loads = arguments
        self._is_blob, self._is_own = flags & BLOB, not flags & AS_HELD
        self._fetched = {
            k: TaskFuture("an input", None)
            for k, (how, *_) in enumerate(self._loads) if how == journal.HELD
        }

    def tokens(self) -> list[tuple[int, Any]]:
        """Return index and token of each input that the engine holds."""
        return [(k, self._loads[k][1]) for k in self._fetched]

    def give(self, k: int, value: GroupOutcome | PackedValue | None) -> None:
        """Receive an input that was fetched, or that the caller has sent instead."""
        self._fetched[k].set_value(value)

    def waits(self) -> list[TaskFuture]:
        return [future for future in self._fetched.values() if not future.done()]

    def opened(self) -> tuple[Any, list[Any]]:
        values = [self._value(k, *load) for k, load in enumerate(self._loads)]
        self._fetched = {}
        arguments = self._arguments
        return _opened(arguments, "an argument") if self._is_blob else arguments, values

    def discard(self) -> None:
        self._fetched = {}

    def _value(self, k: int, how: int, value: Any, i: int = 0) -> Any:
        if how == journal.HELD:
            value = self._fetched[k].local_outcome()[0]
            if value is None:
                raise Cancelled("an input failed")  # the caller has the error already
            if type(value) is GroupOutcome:
                return value.copy(i) if self._is_own else protected(value.value(i), False)
            if self._is_own:
                value = value.copied()  # the engine keeps it for others
        if how == journal.PLAIN:
            return value
        opened = _opened(value, "an argument")
        return opened if self._is_own else protected(opened, False)
