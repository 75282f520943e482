"""The way from a host to the actor that an engine keeps for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from lazyflow.schedulers.cluster.actor_work import Messages
from lazyflow.schedulers.cluster.journal import Entries
from lazyflow.schedulers.cluster.results import Put


class Line(ABC):
    """The way to an engine's actor, which is made with it; used by the engine's thread.

    It has the host told, there: `heard` of every report, `pump` when it is free again, and
    `broken` when the actor is gone.

    where
        Words for the process, once it is known.
    """

    where = "its process did not start"

    @abstractmethod
    def is_free(self) -> bool:
        """Tell whether something can be told now."""

    @abstractmethod
    def tell(self, messages: Messages) -> None:
        """Send messages; they arrive in order."""

    @abstractmethod
    def kept(self, number: int, what: str) -> Any:
        """Return the handle of what the engine keeps of a call: its ``"value"`` or ``"state"``."""

    @abstractmethod
    def find_journal(self, then: Callable[[Entries | None], None]) -> None:
        """Find the journal, after the end; None: nobody has it."""

    @abstractmethod
    def kill(self) -> None:
        """End the process, if it is the actor's alone."""

    @abstractmethod
    def end(self) -> None:
        """Let go of the actor: no call is left."""


def handle_of(value: Any) -> Any:
    """Return what an engine calls a value that it holds."""
    return value.send() if type(value) is Put else value.handle

