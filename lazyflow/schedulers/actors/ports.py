"""The ends by which an actor reaches the process that its object lives in, and the reverse.

`RemoteActor` on the caller's side and `ActorInstance` in the worker are the same for pools of
processes and for engines. What differs is behind four small protocols::

    caller                                worker
    RemoteActor -- HostPort               WorkerPort -- ActorInstance
         |                                     |             |
      ActorLink ~~ messages, answers ~~~~~~~~~~+         CallInputs

A `HostPort` is what keeps the process, an `ActorLink` the way to one such process: an actor that
is started again gets a new link.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lazyflow.graph.task import Task
from lazyflow.schedulers.actors.calls import ActorCall
from lazyflow.schedulers.core.future import TaskFuture

if TYPE_CHECKING:
    from lazyflow.schedulers.actors.packed_call import PackedCall

#: How a call ended, the first item of an outcome: (VALUE, plain value), (PACKED, packed value),
#: (FAILURE, record of the error, description of the arguments), (KEPT,) in the worker.
VALUE, PACKED, FAILURE, KEPT = range(4)

NOT_HERE: Any = object()  #: in the place of a value that will be brought

#: What is sent of a call's arguments: (arguments, flags, binding, sources, loads).
Arguments = tuple[Any, int, Any, tuple[int, ...] | None, list[Any]]

#: One call on its way: its number, the method's name, the arguments.
SentCall = tuple[int, str, Arguments]

#: The state that is kept of an actor: calls that it has seen, and the state, packed.
SavedState = tuple[int, Any]

#: What takes a value in, or why there is none.
TakeValue = Callable[[Any, BaseException | None], None]


class MakeActor(NamedTuple):
    """The message that has an object made.

    made_of
        The class and its `Checkpoint`, packed.
    state
        What an earlier object had, packed, or None.
    """

    number: int
    environment: bytes
    max_concurrency: int
    is_async: bool
    made_of: Any
    state: Any
    arguments: Arguments


# -- on the caller's side -------------------------------------------------------------------


class Keeper(Protocol):
    """What keeps the processes of actors; with `closing`, nothing that is posted will be done."""

    closing: bool


class HostPort(Protocol):
    """The way to what keeps the processes of actors. Packed values are as the port packs them."""

    @property
    def keeper(self) -> Keeper:
        """A pool's driver, or an engine."""

    @property
    def driver(self) -> Any:
        """The pool whose tasks can wait for results in their workers; None: no such pool."""

    def why_closed(self, label: str) -> BaseException:
        """Return the error of calls of an actor whose port is closed."""

    def post(self, step: Callable[..., None], *details: Any) -> None:
        """Have a step done by the thread of the actors, in order. Never locks."""

    def look(self) -> None:
        """Note what workers have to follow: reloaded modules, settings. In the caller's thread."""

    def encode(self, value: Any) -> Any:
        """Return a snapshot of a value, packed. In the caller's thread; raises if it can't be."""

    def own(self, packed: Any) -> None:
        """Count a packed value in, in the actors' thread; nothing happens with other values."""

    def release(self, *packed: Any) -> None:
        """Count packed values out; nothing happens with other values."""

    def unsendable(self, task: Task, role: str, error: BaseException) -> BaseException:
        """Return the error of a call of which a part could not be packed."""

    def bring(self, value: Any, have: TakeValue) -> Any:
        """Return what `load` takes of a value that is elsewhere; NOT_HERE: `have` will get it."""

    def load(self, value: Any) -> Any:
        """Return what is kept, and later sent, of an input's value; raises if it can't be."""

    def add(self, actor: Any) -> None:
        """Remember an actor, to end it with the port."""

    def discard(self, actor: Any) -> None:
        """Forget an actor that has ended."""

    def start(self, actor: Any) -> ActorLink:
        """Start a process for an actor; raises WorkerDied when there can't be one."""

    def pump_soon(self, actor: Any) -> None:
        """Have an actor's `pump` called, once for all that comes together."""

    def node_of(self, call: ActorCall) -> Any:
        """Return what tasks of `driver` wait for. Called by any thread."""


class ActorLink(Protocol):
    """The way to one process of an actor. It calls `pump` of the actor when it is free again,
    `answered`, and at the process's end `broken` and `died`."""

    def is_free(self) -> bool:
        """Tell whether something can be sent now."""

    def lend(self, packed: Any) -> Any:
        """Return what travels of a packed value, or of a load."""

    def make(self, message: MakeActor) -> None:
        """Have the object made."""

    def call(self, batch: list[SentCall]) -> None:
        """Send calls, if there are any, and all that was to go with the next message."""

    def skip(self, number: int) -> None:
        """Have a call not begun that was sent."""

    def result(self, item: PackedCall, number: int, outcome: tuple[Any, ...]) -> Any:
        """Return what a future holds of a result."""

    def take_state(self, number: int, state: Any, have: Callable[[Any], None]) -> None:
        """Call `have` with a state that came with the answer of a call; None if it is lost."""

    def last_begun(self) -> int | None:
        """Return the highest number of a call that has begun; None: not known. By any thread."""

    def kill(self) -> None:
        """End the process at once, if it is the actor's alone."""

    def end(self) -> None:
        """End the process, which has no call left."""


def bring_in_thread(
    post: Callable[..., None], get: Callable[[], Any], have: Callable[..., None], *details: Any
) -> None:
    """Have a thread call `get`, and the port's thread ``have(*details, value, error)``."""

    def run() -> None:
        try:
            value, error = get(), None
        except BaseException as broken:
            value, error = None, broken
        post(have, *details, value, error)

    threading.Thread(target=run, name="lazyflow-fetch", daemon=True).start()


# -- in the worker --------------------------------------------------------------------------


class CallInputs(Protocol):
    """The values that came with a call, or will."""

    def waits(self) -> Sequence[TaskFuture]:
        """Return what has to be there first."""

    def opened(self) -> tuple[Any, list[Any], list[bool]]:
        """Return the arguments, the values of the inputs, and which of these need a copy."""

    def discard(self) -> None:
        """Let go of them: the call was cancelled."""


class WorkerPort(Protocol):
    """What the process does for the actor in it; all but `inputs` is called by any thread."""

    scheduler: Any  #: which computes lazy values, in this process

    @property
    def runs_here(self) -> bool:
        """Whether calls that come one at a time run in the thread that takes messages."""

    def inputs(self, number: int, arguments: Arguments) -> CallInputs:
        """Return the inputs of a call that came just now."""

    def began(self, number: int) -> None:
        """Note that a call begins, for whoever sees this process die."""

    def encode(self, value: Any) -> Any:
        """Pack a value; raises if it can't be."""

    def open(self, packed: Any, what: str) -> Any:
        """Open what was packed; `what` names it in errors."""

    def send_answer(
        self, number: int, outcome: tuple[Any, ...], state: SavedState | None
    ) -> None:
        """Send the outcome of a call."""
