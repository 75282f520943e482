"""The end of an actor inside the worker of an engine.

The engine's own actor is an `EngineActor` and the few methods by which messages reach it; it never
sees the user's class, arguments or errors. Calls run in threads of lazyflow's, so what the engine's
loop has to do goes on beside them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Protocol

from lazyflow.errors import Cancelled, SerializationError
from lazyflow.graph.arguments import read_only
from lazyflow.graph.kinds import ARRAY, COPIED, kinds
from lazyflow.schedulers.actors import ports
from lazyflow.schedulers.actors.instance import ActorInstance
from lazyflow.schedulers.actors.ports import KEPT, Arguments, SavedState
from lazyflow.schedulers.cluster.actor_messages import (
    HELD,
    PLAIN,
    ActorMessages,
    CallAnswer,
    MissingInput,
    Report,
    pickled,
)
from lazyflow.schedulers.cluster.journal import Journal
from lazyflow.schedulers.cluster.outcome import GroupOutcome, PackedValue
from lazyflow.schedulers.cluster.work import Inside
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.remote.calls import BLOB
from lazyflow.schedulers.remote.failures import unreadable

SHORT = 1 << 14  # bytes of a result that goes with the answer; others stay with the engine


class EngineSide(Protocol):
    """What an engine does for an actor in its worker. Called by any thread."""

    def report(
        self, report: Report, value: PackedValue | None = None, state: PackedValue | None = None
    ) -> None:
        """Send a report; keep the large value and state of the call that it is about."""

    def fetch(self, token: Any, done: Callable[[GroupOutcome | None], None]) -> None:
        """Fetch a value that the engine holds; `done` gets None if it can't be fetched now."""


class EngineActor:
    """One actor.

    Parameters
    ----------
    name
        The name of the scheduler, for computes in methods.
    side
        The engine, for this actor.
    folder
        The folder of the journal; None: that of temporary files.
    """

    runs_here = False

    def __init__(self, name: str, side: EngineSide, folder: str | None = None) -> None:
        self.scheduler = Inside(name)
        self.side = side
        self.journal = Journal(folder)
        self._actor = ActorInstance(self)
        self._waiting: dict[int, _FetchedInputs] = {}  # of calls that wait for values

    def take(self, messages: ActorMessages) -> None:
        """Handle messages; return soon."""
        self._actor.skipped.update(messages.skipped)
        for each in messages.given:
            inputs = self._waiting.get(each.number)
            if inputs is not None:
                inputs.give(each.k, each.value)
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
        inputs = _FetchedInputs(number, arguments, self.side)
        if inputs.waits():
            self._waiting[number] = inputs
        return inputs

    def began(self, number: int) -> None:
        """Note that a call begins."""
        self._waiting.pop(number, None)
        self.journal.began(number)

    def encode(self, value: Any) -> PackedValue:
        """Pickle a value; raises Unpicklable."""
        return pickled(value)

    def open(self, packed: PackedValue, what: str) -> Any:
        """Unpickle a value; `what` names it in errors."""
        return _opened(packed, what)

    def send_answer(
        self, number: int, outcome: tuple[Any, ...], state: SavedState | None
    ) -> None:
        """Send the outcome of a call; note it in the journal if nothing of it stays here."""
        value = None
        if outcome[0] == ports.PACKED and outcome[1].size() > SHORT:
            value, outcome = outcome[1], (KEPT,)
        if state is not None and state[1].size() > SHORT:
            seen, kept = state
            self.side.report(CallAnswer(number, outcome, (seen, KEPT)), value, kept)
            return
        answer = CallAnswer(number, outcome, state)
        if value is None:
            self.journal.ended(pickle.dumps(answer, 5))
        self.side.report(answer, value)


_IMPORTABLE = (
    "Modules have to be importable there: install them on the workers, or set PYTHONPATH before "
    "they start"
)


def _opened(packed: PackedValue, what: str) -> Any:
    """Unpickle a part of a call."""
    try:
        return packed.opened()
    except SerializationError as error:
        cause = error if error.__cause__ is None else error.__cause__
        raise unreadable(what, cause, "an actor", _IMPORTABLE) from cause


class _FetchedInputs:
    """The inputs of a call; those that the engine holds are fetched."""

    def __init__(self, number: int, arguments: Arguments, side: EngineSide) -> None:
        self._arguments, flags, _, _, self._loads = arguments
        self._is_blob = flags & BLOB
        self._fetched: dict[int, TaskFuture] = {}
        for k, (how, token, *_) in enumerate(self._loads):
            if how == HELD:
                self._fetched[k] = TaskFuture("an input", None)
                side.fetch(token, _InputArrival(self, number, k, side))

    def give(self, k: int, value: GroupOutcome | PackedValue | None) -> None:
        """Receive an input that was fetched, or that the caller has sent instead."""
        self._fetched[k].set_value(value)

    def waits(self) -> list[TaskFuture]:
        return [future for future in self._fetched.values() if not future.done()]

    def opened(self) -> tuple[Any, list[Any], list[bool]]:
        values = [self._value(k, *load) for k, load in enumerate(self._loads)]
        copied = [
            load[0] == HELD and kinds[type(value)] in COPIED
            for load, value in zip(self._loads, values, strict=True)
        ]
        self._fetched = {}
        arguments = self._arguments
        return _opened(arguments, "an argument") if self._is_blob else arguments, values, copied

    def discard(self) -> None:
        self._fetched = {}

    def _value(self, k: int, how: int, what: Any, i: int = 0) -> Any:
        if how == HELD:
            what = self._fetched[k].local_outcome()[0]
            if what is None:
                raise Cancelled("an input failed")  # the caller has the error already
            value = what.value(i) if type(what) is GroupOutcome else _opened(what, "an argument")
        else:
            value = what if how == PLAIN else _opened(what, "an argument")
        return read_only(value) if kinds[type(value)] == ARRAY else value


class _InputArrival:
    """Receives the fetched value of an input, or reports that it is missing."""

    def __init__(self, inputs: _FetchedInputs, number: int, k: int, side: EngineSide) -> None:
        self._to = inputs, number, k, side

    def __call__(self, outcome: GroupOutcome | None) -> None:
        inputs, number, k, side = self._to
        if outcome is None:
            side.report(MissingInput(number, k))
        else:
            inputs.give(k, outcome)
