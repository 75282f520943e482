"""Values that stay in the pool, as the rest of the library sees them: results, and what is put."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from lazyflow.errors import Cancelled, SerializationError
from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.schedulers.core.current_worker import asleep
from lazyflow.schedulers.core.errors.failures import is_users_interrupt, with_call_note
from lazyflow.schedulers.core.event import Event
from lazyflow.schedulers.processes.decisions.nodes import DONE, Job, Literal, Node
from lazyflow.schedulers.processes.parent.event_loop import EventLoop
from lazyflow.schedulers.processes.parent.memory import PoolMemory
from lazyflow.schedulers.remote.task_stub import name_only
from lazyflow.store.owned import copied
from lazyflow.store.pickling.pickler import loads_owned
from lazyflow.store.pickling.serialize import (
    Encoded,
    Unpicklable,
    decode,
    encode,
    serialization_error,
)


class Owner(Protocol):
    """What values need of the driver of their pool."""

    is_left: bool
    memory: PoolMemory
    loop: EventLoop

    def hold(self, value: PoolValue) -> None:
        """Keep what a value stands for until it has gone."""

    def fetch(self, value: PoolValue) -> Any:
        """Return a value of which a worker has the only copy, encoded or as it is."""

    def view(self, segment: Any) -> Any:
        """Return the bytes of a segment of shared memory."""


class PoolValue:
    """A value of the pool, of which this process has at most an encoded form.

    While this object lives the value is kept where it is; `get` opens it anew each time, so what
    it returns is the caller's own.
    """

    __slots__ = ("__weakref__", "driver", "node", "task", "value")

    _lazyflow_remote = True

    def __init__(self, driver: Owner, node: Node | None, task: Task, value: Any) -> None:
        self.driver = driver
        self.node = node  # whose value to fetch when `value` is None
        self.task = task  # for messages: where the value may live long, only its name
        self.value = value  # an Encoded, counted in
        if node is not None or value.segments():  # else there is nothing to let go of
            driver.hold(self)

    def get(self) -> Any:
        """Return the value, fetched if need be.

        Raises
        ------
        SerializationError
            It can't leave its worker, or can't be opened here.
        """
        if self.driver.is_left:
            raise not_here(task_name(self.task))
        value = self.value
        if value is None:
            value = self.driver.fetch(self)
        if type(value) is not Encoded:
            return copied(value.value) if type(value) is Literal else value
        try:
            return opened(value, self.driver)
        except BaseException as error:
            if is_users_interrupt(error):
                raise
            if type(error) is MemoryError:  # whose message has the remedy
                raise with_call_note(error, self.task, None) from None
            raise with_call_note(
                SerializationError(
                    f"the result of a task was pickled in its worker but can't be unpickled here: "
                    f"{type(error).__name__}: {error}. Return what pickle can restore, such as "
                    "arrays, numbers, or objects of classes that are importable here."
                ),
                self.task, None,
            ) from error


def not_here(what: str) -> Cancelled:
    """Return why something can't be had in the child of a fork."""
    return Cancelled(
        f"{what} can't be had in this process, the child of a fork: the workers, and the memory "
        "that they share, are the parent's. Ask for it before the fork, or compute it again here."
    )


def opened(value: Encoded, driver: Owner) -> Any:
    """Open an encoded value for the caller: its large parts are mapped, not copied."""
    return loads_owned(partial(decode, value, driver.view))


class Fetch:
    """A thread that waits for a value to be brought here."""

    def __init__(self) -> None:
        self._arrived = Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def done(self, value: Any, error: BaseException | None = None) -> None:
        """Wake the thread that waits."""
        self.value, self.error = value, error
        self._arrived.set()

    def wait(self) -> Any:
        """Return the value, or raise why there is none."""
        with asleep():
            self._arrived.wait()
        if self.error is not None:
            raise self.error
        return self.value


# -- values that are put --------------------------------------------------------------------


def put(driver: Owner, value: Any, task: Task) -> PoolValue:
    """Encode a value once, for all runs, in the caller's thread; `task` has its name and place.

    Its node is made, and of a job that is over and cleared: it is kept while somebody holds the
    `PoolValue`, or the lineage of another job's value needs it.

    Raises
    ------
    SerializationError
        It can't be pickled.
    StoreFull
        There is no room for it.
    """
    memory = driver.memory
    try:
        encoded = encode(value, memory.arenas.write, memory.least, memory.arenas.free)
    except Unpicklable as error:
        text = f"{task._args[0].name}, at {place_text(task)},"
        raise serialization_error(text, "value", error) from None
    node = held_node(task)
    node.phase = DONE
    node.value = encoded
    node.size = encoded.size
    driver.loop.post(memory.take_own, encoded)
    return PoolValue(driver, node, name_only(task), None)


def held_node(task: Task) -> Node:
    """Return the node of a value that no task of the pool makes, and that somebody holds."""
    job = Job(None, 0, background=True)
    job.over = True
    node = Node(job, 0, name_only(task), 0)
    node.pinned = node.stays = True
    node.left = 1
    job.delivered.add(node)
    return node
