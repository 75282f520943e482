"""What other threads post to the driver: a class for each kind of message.

The driver has one handler for each of them. A message that comes when the driver has ended is
refused, by whichever thread finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyflow.schedulers.processes.decisions.nodes import Node
from lazyflow.store.pickling.serialize import Encoded


class Message:
    """Something for the driver's thread to do.

    Kinds are plain classes: a dataclass takes 0.2 ms to make, and a program that starts waits for
    all of them.
    """

    __slots__ = ()

    def refuse(self, why: BaseException) -> None:
        """Let the sender know that the driver has ended, if it waits for something."""


class Call(Message):
    """Call a function in the driver's thread."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...] = ()) -> None:
        self.function = function
        self.arguments = arguments

    def refuse(self, why: BaseException) -> None:
        """Call it all the same: actors see by themselves that the driver has ended."""
        self.function(*self.arguments)


class Close(Message):
    """End the pool; the names of tasks that still run after `grace` seconds go into `left`."""

    __slots__ = ("grace", "left")

    def __init__(self, grace: float, left: list[str]) -> None:
        self.grace = grace
        self.left = left


class DropNamed(Message):
    """Have the workers let go of what they keep by a name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


# -- runs -----------------------------------------------------------------------------------


class AddJob(Message):
    """Take in the job of a run; `link` is its `Link`."""

    __slots__ = ("link",)

    def __init__(self, link: Any) -> None:
        self.link = link

    def refuse(self, why: BaseException) -> None:
        """Cancel the run."""
        if not self.link.run.over:
            self.link.run.cancel(why)


class EndRun(Message):
    """Take out a run that is over."""

    __slots__ = ("run",)

    def __init__(self, run: Any) -> None:
        self.run = run


class Abandon(Message):
    """Take back the tasks of a run that was given up; end those that do not end by themselves."""

    __slots__ = ("run",)

    def __init__(self, run: Any) -> None:
        self.run = run


class EndTask(Message):
    """End the worker that runs task `i` of a run, if one does."""

    __slots__ = ("i", "run")

    def __init__(self, run: Any, i: int) -> None:
        self.run = run
        self.i = i


class Cull(Message):
    """Give up those tasks of a run that only dropped futures needed."""

    __slots__ = ("run",)

    def __init__(self, run: Any) -> None:
        self.run = run


class CullDropped(Message):
    """Likewise, for the run of a future that has gone, if the run is still there."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], Any]) -> None:
        self.run = run


# -- values of nodes ------------------------------------------------------------------------


class TakeOutcome(Message):
    """Take the outcome of a future that a node stands for."""

    __slots__ = ("future", "node")

    def __init__(self, node: Node, future: Any) -> None:
        self.node = node
        self.future = future


class Provide(Message):
    """Provide a node with a value of this process."""

    __slots__ = ("node", "value")

    def __init__(self, node: Node, value: Any) -> None:
        self.node = node
        self.value = value


class FailNode(Message):
    """Let a node fail whose value can't be brought here."""

    __slots__ = ("error", "node")

    def __init__(self, node: Node, error: BaseException) -> None:
        self.node = node
        self.error = error


class Delivered(Message):
    """Take what a run has made in the place of task `i`, which returned a lazy value."""

    __slots__ = ("i", "run", "value")

    def __init__(self, run: Any, i: int, value: Any) -> None:
        self.run = run
        self.i = i
        self.value = value


class Refused(Message):
    """Take the failure of what task `i` of a run returned."""

    __slots__ = ("error", "i", "run")

    def __init__(self, run: Any, i: int, error: BaseException) -> None:
        self.run = run
        self.i = i
        self.error = error


class Remade(Message):
    """Take the lazy value that a lost node returned again, computed by a run of its own."""

    __slots__ = ("node", "value")

    def __init__(self, node: Node, value: Any) -> None:
        self.node = node
        self.value = value


class NotRemade(Message):
    """Take the failure of a run that was to compute what a lost node returned again."""

    __slots__ = ("error", "node")

    def __init__(self, node: Node, error: BaseException) -> None:
        self.node = node
        self.error = error


class Packed(Message):
    """Take what another thread has pickled of a node: its arguments, or its `Literal`.

    literal
        The node's value: a `Literal`, or MISSING when `found` is its arguments.
    written
        Memory that was copied for it, for `PoolMemory.keep_constants`.
    """

    __slots__ = ("error", "found", "literal", "node", "written")

    def __init__(
        self,
        node: Node,
        literal: Any,
        found: Any,
        error: BaseException | None,
        written: dict[Any, Any],
    ) -> None:
        self.node = node
        self.literal = literal
        self.found = found
        self.error = error
        self.written = written


# -- values that this process holds ---------------------------------------------------------


class FetchValue(Message):
    """Bring the value of a node here; ``fetch.done(value, error)`` is called with it."""

    __slots__ = ("fetch", "node")

    def __init__(self, node: Node, fetch: Any) -> None:
        self.node = node
        self.fetch = fetch

    def refuse(self, why: BaseException) -> None:
        """Wake the thread that waits."""
        self.fetch.done(None, why)


class Synchronize(Message):
    """Call ``fetch.done(None)``: all that was posted before has been handled."""

    __slots__ = ("fetch",)

    def __init__(self, fetch: Any) -> None:
        self.fetch = fetch

    def refuse(self, why: BaseException) -> None:
        """Wake the thread that waits."""
        self.fetch.done(None, why)


class CountIn(Message):
    """Count in a value that this process has put into its own shared memory."""

    __slots__ = ("encoded",)

    def __init__(self, encoded: Encoded) -> None:
        self.encoded = encoded


class Viewed(Message):
    """Count in a segment that is mapped here."""

    __slots__ = ("segment",)

    def __init__(self, segment: tuple[int, int, int]) -> None:
        self.segment = segment


class LetGo(Message):
    """Let go of what a `PoolValue` stood for, which has gone: `number` is that of its record."""

    __slots__ = ("node", "number", "value")

    def __init__(self, node: Node | None, value: Any, number: int) -> None:
        self.node = node
        self.value = value
        self.number = number
