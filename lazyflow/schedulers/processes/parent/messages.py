"""What other threads post to the driver: a class for each kind of message.

The driver has one handler for each of them. A message that comes when the driver has ended is
refused, by whichever thread finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lazyflow.schedulers.processes.decisions.nodes import Node
from lazyflow.store.pickling.serialize import Encoded


class Message:
    """Something for the driver's thread to do."""

    __slots__ = ()

    def refuse(self, why: BaseException) -> None:
        """Let the sender know that the driver has ended, if it waits for something."""


@dataclass(slots=True)
class Call(Message):
    """Call a function in the driver's thread."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def refuse(self, why: BaseException) -> None:
        """Call it all the same: actors see by themselves that the driver has ended."""
        self.function(*self.arguments)


@dataclass(slots=True)
class Close(Message):
    """End the pool; the names of tasks that still run after `grace` seconds go into `left`."""

    grace: float
    left: list[str]


@dataclass(slots=True)
class DropNamed(Message):
    """Have the workers let go of what they keep by a name."""

    name: str


# -- runs -----------------------------------------------------------------------------------


@dataclass(slots=True)
class AddJob(Message):
    """Take in the job of a run; `link` is its `Link`."""

    link: Any

    def refuse(self, why: BaseException) -> None:
        """Cancel the run."""
        if not self.link.run.over:
            self.link.run.cancel(why)


@dataclass(slots=True)
class EndRun(Message):
    """Take out a run that is over."""

    run: Any


@dataclass(slots=True)
class Abandon(Message):
    """Take back the tasks of a run that was given up; end those that do not end by themselves."""

    run: Any


@dataclass(slots=True)
class EndTask(Message):
    """End the worker that runs task `i` of a run, if one does."""

    run: Any
    i: int


@dataclass(slots=True)
class Cull(Message):
    """Give up those tasks of a run that only dropped futures needed."""

    run: Any


@dataclass(slots=True)
class CullDropped(Message):
    """Likewise, for the run of a future that has gone, if the run is still there."""

    run: Callable[[], Any]


# -- values of nodes ------------------------------------------------------------------------


@dataclass(slots=True)
class TakeOutcome(Message):
    """Take the outcome of a future that a node stands for."""

    node: Node
    future: Any


@dataclass(slots=True)
class Provide(Message):
    """Provide a node with a value of this process."""

    node: Node
    value: Any


@dataclass(slots=True)
class FailNode(Message):
    """Let a node fail whose value can't be brought here."""

    node: Node
    error: BaseException


@dataclass(slots=True)
class Delivered(Message):
    """Take what a run has made in the place of task `i`, which returned a lazy value."""

    run: Any
    i: int
    value: Any


@dataclass(slots=True)
class Refused(Message):
    """Take the failure of what task `i` of a run returned."""

    run: Any
    i: int
    error: BaseException


@dataclass(slots=True)
class Remade(Message):
    """Take the lazy value that a lost node returned again, computed by a run of its own."""

    node: Node
    value: Any


@dataclass(slots=True)
class NotRemade(Message):
    """Take the failure of a run that was to compute what a lost node returned again."""

    node: Node
    error: BaseException


@dataclass(slots=True)
class Packed(Message):
    """Take what another thread has pickled of a node: its arguments, or its `Literal`.

    literal
        The node's value: a `Literal`, or MISSING when `found` is its arguments.
    written
        Memory that was copied for it, for `PoolMemory.keep_constants`.
    """

    node: Node
    literal: Any
    found: Any
    error: BaseException | None
    written: dict[Any, Any]


# -- values that this process holds ---------------------------------------------------------


@dataclass(slots=True)
class FetchValue(Message):
    """Bring the value of a node here; ``fetch.done(value, error)`` is called with it."""

    node: Node
    fetch: Any

    def refuse(self, why: BaseException) -> None:
        """Wake the thread that waits."""
        self.fetch.done(None, why)


@dataclass(slots=True)
class Synchronize(Message):
    """Call ``fetch.done(None)``: all that was posted before has been handled."""

    fetch: Any

    def refuse(self, why: BaseException) -> None:
        """Wake the thread that waits."""
        self.fetch.done(None, why)


@dataclass(slots=True)
class CountIn(Message):
    """Count in a value that this process has put into its own shared memory."""

    encoded: Encoded


@dataclass(slots=True)
class Viewed(Message):
    """Count in a segment that is mapped here."""

    segment: tuple[int, int, int]


@dataclass(slots=True)
class LetGo(Message):
    """Let go of what a `PoolValue` stood for, which has gone: `number` is that of its record."""

    node: Node | None
    value: Any
    number: int
