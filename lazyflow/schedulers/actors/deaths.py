"""The end of an actor's process: the facts, and the errors that calls get."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lazyflow.errors import Cancelled, WorkerDied
from lazyflow.schedulers.actors.calls import ActorSpec, PackedCall
from lazyflow.schedulers.core.errors.failures import with_call_note


@dataclass
class ProcessEnd:
    """What is known of the end of an actor's process.

    how, where
        In words, as in ``"ended by SIGKILL"`` and ``"process 12"``.
    last
        The highest number of a call that had begun; None if unknown: all may have begun.
    answers
        (number, outcome, state) of calls that had ended and whose answers did not arrive.
    cause
        The error of the engine.
    """

    how: str
    where: str
    last: int | None
    answers: list[tuple[int, Any, Any]] = field(default_factory=list)
    cause: BaseException | None = None


class DeathErrors:
    """Makes the errors of an actor's calls after its process has ended.

    Parameters
    ----------
    ran
        The name of the call that ran then; empty if none did.
    is_last
        Whether the actor is not started again.
    """

    def __init__(self, spec: ActorSpec, end: ProcessEnd, ran: str, is_last: bool) -> None:
        self._restarts = spec.restarts
        self._what = f"the actor {spec.label} ({end.where}) {end.how}"
        self._ran = f" while it ran {ran}" if ran else " while no call ran"
        self._cause = end.cause
        self._is_last = is_last

    def running(self, item: PackedCall, has_state: bool, had_ended: bool) -> BaseException:
        """Return the error of a call that ran, or whose answer was lost on the way."""
        if self._is_last:
            then = f"All later calls fail: {self._advice()}"
        else:
            then = "It was started again from " + (
                "its last checkpoint." if has_state else
                "its constructor: checkpoint= of lazyflow.actor keeps its state."
            )
        when = f"while it ran {item.name}"
        if had_ended:
            when = f"before the answer of {item.name}, which it had begun, arrived"
        died = with_call_note(
            WorkerDied(
                f"{self._what} {when}. The call is not run again, since it "
                f"is not known what it had done. {then}"
            ),
            item.task, None,
        )
        if self._cause is not None:
            died.__cause__ = self._cause
        return died

    def later(self, item: PackedCall) -> BaseException:
        """Return the error of a call that could not run."""
        return with_call_note(
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
    """Return the error of calls after lazyflow was shut down."""
    return Cancelled(f"the actor {label} was ended by lazyflow.shutdown(), or with Python")
