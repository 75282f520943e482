"""The ends by which an actor reaches the process that its object lives in, and the reverse.

`RemoteActor` on the caller's side and `ActorInstance` in the worker are the same for pools of
processes and for engines. The differences are behind four small classes, three of them protocols::

    caller                                worker
    RemoteActor -- HostPort               WorkerPort -- ActorInstance
         |                                     |             |
      ActorLink ~~ messages, answers ~~~~~~~~~~+         CallInputs

A `HostPort` keeps the process, and an `ActorLink` leads to one such process: an actor that is
started again gets a new link.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from lazyflow.errors import Cancelled
from lazyflow.graph.task import Task
from lazyflow.schedulers.actors.calls import MISSING, ActorCall, PackedCall
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.remote.calls import unsendable

#: How a call ended, the first item of an outcome: (VALUE, plain value), (PACKED, packed value),
#: (FAILURE, record of the error, description of the arguments), (KEPT, bytes that the worker
#: keeps). Of a call with the flag TIMED, the last item is its `CallTimes`, or None.
VALUE, PACKED, FAILURE, KEPT = range(4)

#: The arguments of a call on the wire: (arguments, flags, binding, sources, loads).
Arguments = tuple[Any, int, Any, tuple[int, ...] | None, list[Any]]

#: A call on the wire: its number, the method's name, the arguments.
SentCall = tuple[int, str, Arguments]

#: A saved state of an actor: the number of calls that it has seen, and the packed state.
SavedState = tuple[int, Any]

#: Receives a value, or the error in its place.
TakeValue = Callable[[Any, BaseException | None], None]


class MakeActor(NamedTuple):
    """The message that asks for the construction of the object.

    made_of
        The class and its `Checkpoint`, packed.
    state
        The packed state of an earlier object, or None.
    waiting
        The fields of its `WaitingActor`, or None.
    """

    number: int
    environment: bytes
    max_concurrency: int
    is_async: bool
    made_of: Any
    state: Any
    arguments: Arguments
    waiting: tuple[Any, ...] | None


@dataclass(frozen=True)
class ProcessEnd:
    """Facts about the end of an actor's process.

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


# -- on the caller's side -------------------------------------------------------------------


class Keeper(Protocol):
    """A pool's driver or an engine. Once `closing` is set, posted steps are not run any more."""

    closing: bool


def shut_down(label: str) -> BaseException:
    """Return the error of calls after lazyflow was shut down."""
    return Cancelled(f"the actor {label} was ended by lazyflow.shutdown(), or with Python")


class HostPort:
    """The way to the pool or the engine that runs the processes of actors.

    Unless a subclass overrides them, the methods that count values and actors do nothing.

    keeper
        The driver or the engine.
    driver
        The driver of the pool whose tasks can wait for results, or None.
    post
        Queues a step for the keeper's thread, which runs steps in order. Never locks.
    encode
        Returns a packed snapshot of a value. Called in the caller's thread; may raise.
    """

    keeper: Keeper
    driver: Any = None
    post: Callable[..., None]
    encode: Callable[[Any], Any]

    def why_closed(self, label: str) -> BaseException:
        """Return the error of calls that come after the end of the keeper."""
        return shut_down(label)

    def look(self) -> None:
        """Notice reloaded modules and changed settings. Called in the caller's thread."""

    def own(self, packed: Any) -> None:
        """Count a packed value in; ignore other values."""

    def release(self, *packed: Any) -> None:
        """Count packed values out; ignore other values."""

    def unsendable(self, task: Task, role: str, error: BaseException) -> BaseException:
        """Return the error of a call whose part `role` could not be packed."""
        return unsendable(task, role, error)

    def bring(self, value: Any, have: TakeValue) -> Any:
        """Return a remote value as `load` takes it, or MISSING and call `have` with it later."""
        bring_in_thread(self.post, value.get, have)
        return MISSING

    def load(self, value: Any) -> Any:
        """Return the packed value of an input. May raise."""
        raise NotImplementedError

    def add(self, actor: Any) -> None:
        """Register an actor, so that it ends with the keeper."""

    def discard(self, actor: Any) -> None:
        """Unregister an actor that has ended."""

    def start(self, actor: Any) -> ActorLink:
        """Start a process for an actor; raise WorkerDied if the system refuses."""
        raise NotImplementedError

    def pump_soon(self, actor: Any) -> None:
        """Call an actor's `pump` soon: once for several requests in a row."""
        actor.pump()

    def node_of(self, call: ActorCall) -> Any:
        """Return the node that tasks of `driver` wait for. Called by any thread."""
        raise AssertionError("only pools of processes have nodes")


class ActorLink(Protocol):
    """The way to one process of an actor.

    It calls `answered` of the actor for each answer, `pump` when it is free again, and `broken` and
    `died` when the process has ended.
    """

    def is_free(self) -> bool:
        """Return whether a message can be sent now."""

    def lend(self, packed: Any) -> Any:
        """Return the form of a packed value that goes into a message."""

    def make(self, message: MakeActor) -> None:
        """Send the message that makes the object."""

    def call(self, batch: list[SentCall]) -> None:
        """Send calls, and whatever was to go with the next message; either may be missing."""

    def skip(self, number: int) -> None:
        """Keep a call from beginning that was sent."""

    def result(self, item: PackedCall, number: int, outcome: tuple[Any, ...]) -> Any:
        """Return a result as its future holds it."""

    def take_state(self, number: int, state: Any, have: Callable[[Any], None]) -> None:
        """Call `have` with the state that came with the answer of a call, or None if it is lost."""

    def last_begun(self) -> int | None:
        """Return the highest number of a call that has begun, or None. Called by any thread."""

    def kill(self) -> None:
        """Kill the process, if it is the actor's alone."""

    def end(self) -> None:
        """End the process: no call is left."""


def bring_in_thread(
    post: Callable[..., None], get: Callable[[], Any], have: Callable[..., None], *details: Any
) -> None:
    """Call `get` in a new thread, then post ``have(*details, value, error)``."""

    def run() -> None:
        try:
            value, error = get(), None
        except BaseException as broken:
            value, error = None, broken
        post(have, *details, value, error)

    threading.Thread(target=run, name="lazyflow-fetch", daemon=True).start()


# -- in the worker --------------------------------------------------------------------------


class CallInputs(Protocol):
    """The arguments and inputs of a call, in its worker."""

    def waits(self) -> Sequence[TaskFuture]:
        """Return the futures that have to be done first."""

    def opened(self) -> tuple[Any, list[Any]]:
        """Return the arguments and the input values, all of which the actor may edit and keep."""

    def discard(self) -> None:
        """Release them: the call was cancelled."""


class WorkerPort(Protocol):
    """The worker, as its actor uses it. Any thread may call all methods but `inputs`."""

    scheduler: Any  #: computes lazy values that methods return

    @property
    def runs_here(self) -> bool:
        """Whether an actor without concurrency runs in the thread that reads messages."""

    def inputs(self, number: int, arguments: Arguments) -> CallInputs:
        """Return the inputs of a call that has just arrived."""

    def began(self, number: int) -> None:
        """Note that a call begins, in case this process dies."""

    def encode(self, value: Any) -> Any:
        """Return a packed value. May raise."""

    def encode_result(self, box: list[Any]) -> Any:
        """Return the packed result of a call, which it takes out of `box`. May raise."""

    def open(self, packed: Any, what: str) -> Any:
        """Unpack a value that the actor may edit; `what` names it in errors."""

    def send_answer(
        self, number: int, outcome: tuple[Any, ...], state: SavedState | None
    ) -> None:
        """Send the outcome of a call."""
