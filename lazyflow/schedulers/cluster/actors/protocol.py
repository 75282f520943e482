"""The messages between an actor's link and the worker of an engine, in both directions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lazyflow.schedulers.actors.ports import MakeActor, SavedState, SentCall
from lazyflow.schedulers.cluster.outcome import PackedValue, packed
from lazyflow.store.owned import is_alone

#: Kinds of inputs of a call: (PLAIN, value), (PACKED, packed value), or (HELD, token, number) for
#: a value that the engine holds.
PLAIN, PACKED, HELD = range(3)


@dataclass
class GivenInput:
    """Input `k` of a call, which the actor could not fetch; value None: it has failed."""

    number: int
    k: int
    value: PackedValue | None


@dataclass
class ActorMessages:
    """All that is sent to an actor at once; the engine pickles it, large memory out of band."""

    make: MakeActor | None = None
    calls: list[SentCall] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    given: list[GivenInput] = field(default_factory=list)

    def parts(self) -> tuple[Any, ...]:
        """Return what another one can be made of, which pickles in a third of the time."""
        return self.make, self.calls, self.skipped, self.given

    def __bool__(self) -> bool:
        return bool(self.make or self.calls or self.skipped or self.given)


@dataclass
class CallAnswer:
    """The outcome of a call, and the state after it; KEPT stands for what the engine keeps."""

    number: int
    outcome: tuple[Any, ...]
    state: SavedState | None


@dataclass
class MissingInput:
    """Input `k` of a call could not be fetched."""

    number: int
    k: int


@dataclass
class JournalLost:
    """The actor has no journal any more, and goes on without; `why` is an error as text."""

    why: str


Report = CallAnswer | MissingInput | JournalLost


def pickled(value: Any) -> PackedValue:
    """Return a packed snapshot of a value; raise Unpicklable."""
    return packed(value).checked().copied()


def pickled_state(value: Any) -> PackedValue:
    """Return the packed state of an actor, which is read when its process is gone."""
    return pickled(value).leaving()


def pickled_result(box: list[Any]) -> PackedValue:
    """Return the packed result of a call, which it takes out of `box`.

    An array that nothing else holds, so that nobody can write to it, is not copied.
    """
    only = is_alone(box)
    found = packed(box.pop()).checked().leaving()
    return found if only else found.copied()
