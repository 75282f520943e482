"""A call of an actor as it is packed, the process that it goes to, and what its death is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazyflow.errors import Cancelled, WorkerDied
from lazyflow.graph.task import Task, place_text
from lazyflow.schedulers.actor_calls import Call
from lazyflow.schedulers.failures import told
from lazyflow.schedulers.future import Future
from lazyflow.schedulers.processes.nodes import Worker
from lazyflow.schedulers.processes.pool import Member
from lazyflow.schedulers.threads import default_workers

if TYPE_CHECKING:
    from lazyflow.schedulers.processes.actor_host import ActorHost

MISSING: Any = object()


class Item:
    """A call as it is packed.

    values
        What is sent for each of `sources`: an `Encoded` that is counted in, or ``[value]``.
    missing
        How many of them are not there yet.
    """

    __slots__ = (
        "arguments", "binding", "call", "error", "flags", "futures", "is_over", "missing",
        "sources", "values",
    )

    def __init__(self, call: Call) -> None:
        self.call = call
        self.arguments: Any = None
        self.flags = 0
        self.binding: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        self.futures: list[Future] = call.inputs
        self.sources: tuple[int, ...] | None = None
        if len({id(f) for f in call.inputs}) < len(call.inputs):
            self.futures = list({id(f): f for f in call.inputs}.values())
            places = {id(f): k for k, f in enumerate(self.futures)}
            self.sources = tuple([places[id(f)] for f in call.inputs])
        self.values: list[Any] = [MISSING] * len(self.futures)
        self.missing = len(self.futures)

    @property
    def task(self) -> Task:
        return self.call.task

    @property
    def name(self) -> str:
        return self.call.future.name


class ActorMember(Member):
    """The process of an actor among those of the pool; no task of a graph is ever sent to it."""

    def __init__(self, host: ActorHost, worker: Worker, settings: dict[str, Any]) -> None:
        super().__init__(worker, settings | {"actor": True}, default_workers())
        self.host = host
        self.has_answered = True  # so that its end does not count as one of a pool that can't start

    def running(self) -> None:
        """Return None: it runs no node."""

    def info(self) -> dict[str, Any]:
        """Return figures."""
        assert self.host is not None
        running, flying = self.process.words[0], self.host.flying
        item = flying.get(running)
        return super().info() | {
            "actor": self.host.spec.label,
            "running": None if item is None else item.name,
            "queued": len(flying) + len(self.host.waiting),
        }

    def doing(self) -> str | None:
        """Say which call it runs, for people."""
        try:
            number = self.process.words[0]
        except ValueError:  # it ended, and another thread asks
            return None
        assert self.host is not None
        item = self.host.flying.get(number)
        if item is None:
            return None
        return f"{item.name}, made at {place_text(item.task)} (actor, process {self.process.pid})"


class Words:
    """What is said of the death of an actor."""

    def __init__(self, label: str, how: str, pid: int, ran: str, restarts: int) -> None:
        self._restarts = restarts
        self._what = f"the actor {label} (process {pid}) ended by {how}"
        self._ran = f" while it ran {ran}" if ran else ", no call of it ran"

    def running(self, item: Item, is_last: bool, has_state: bool) -> BaseException:
        """Return the error of the call that ran."""
        if is_last:
            then = f"All later calls fail: {self._advice()}"
        else:
            then = "It was started again from " + (
                "its last checkpoint." if has_state else
                "its constructor: checkpoint= of lazyflow.actor keeps its state."
            )
        return told(
            WorkerDied(
                f"{self._what} while it ran {item.name}. The call is not run again, since nobody "
                f"knows what it had done. {then}"
            ),
            item.task, None,
        )

    def later(self, item: Item) -> BaseException:
        """Return the error of a call that could not run."""
        return told(
            WorkerDied(f"{item.name} can't be run: {self._what}{self._ran}; {self._advice()}"),
            item.task, None,
        )

    def _advice(self) -> str:
        if self._restarts:
            return f"its {self._restarts} restarts are used up."
        return (
            "it has no restarts. lazyflow.actor(..., restarts=1, checkpoint=...) starts an actor "
            "again, with the state it had."
        )


def shut_down(label: str) -> BaseException:
    """Return what calls of an actor fail with once lazyflow was shut down."""
    return Cancelled(f"the actor {label} was ended by lazyflow.shutdown(), or with Python")
