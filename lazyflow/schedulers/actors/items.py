"""A call of an actor as it is packed for another process, and what a death there is called."""

from __future__ import annotations

from typing import Any

from lazyflow.errors import Cancelled, WorkerDied
from lazyflow.graph.task import Task
from lazyflow.schedulers.actors.calls import Call
from lazyflow.schedulers.core.errors.failures import told
from lazyflow.schedulers.core.future import TaskFuture

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
        self.futures: list[TaskFuture] = call.inputs
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


class Words:
    """What is said of the death of an actor.

    Parameters
    ----------
    label, how, where
        Which actor, as in ``"ended by SIGKILL"``, and its process.
    ran
        The call that ran then, if one did.
    """

    def __init__(self, label: str, how: str, where: str, ran: str, restarts: int) -> None:
        self._restarts = restarts
        self._what = f"the actor {label} ({where}) {how}"
        self._ran = f" while it ran {ran}" if ran else ", no call of it ran"

    def running(
        self, item: Item, is_last: bool, has_state: bool, had_ended: bool = False
    ) -> BaseException:
        """Return the error of the call that ran, or whose answer was lost on the way."""
        if is_last:
            then = f"All later calls fail: {self._advice()}"
        else:
            then = "It was started again from " + (
                "its last checkpoint." if has_state else
                "its constructor: checkpoint= of lazyflow.actor keeps its state."
            )
        when = f"while it ran {item.name}"
        if had_ended:
            when = f"before the answer of {item.name}, which it had begun, was here"
        return told(
            WorkerDied(
                f"{self._what} {when}. The call is not run again, since nobody "
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
