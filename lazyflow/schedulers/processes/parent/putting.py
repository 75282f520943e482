"""Values that are put: encoded once, into shared memory where they are large, for all runs."""

from __future__ import annotations

from typing import Any, Protocol

from lazyflow.graph.task import Task, place_text
from lazyflow.schedulers.processes.decisions.nodes import DONE, Job, Node
from lazyflow.schedulers.processes.parent.event_loop import EventLoop
from lazyflow.schedulers.processes.parent.memory import PoolMemory
from lazyflow.schedulers.processes.parent.pool_value import Owner, PoolValue
from lazyflow.schedulers.remote.task_stub import name_only
from lazyflow.store.pickling.serialize import Unpicklable, encode, serialization_error


class PuttingDriver(Owner, Protocol):
    """What putting needs of the driver."""

    memory: PoolMemory
    loop: EventLoop


def put(driver: PuttingDriver, value: Any, task: Task) -> PoolValue:
    """Take a snapshot of a value, in the caller's thread; `task` has its name and place.

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
    return PoolValue(driver, node, task, None)


def held_node(task: Task) -> Node:
    """Return the node of a value that no task of the pool makes, and that somebody holds."""
    job = Job(None, 0, background=True)
    job.over = True
    node = Node(job, 0, name_only(task), 0)
    node.pinned = node.stays = True
    node.left = 1
    job.delivered.add(node)
    return node
