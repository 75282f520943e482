"""Arguments and values that are pickled in a thread of their own.

What runs the user's code, or copies much memory, is not for the driver's thread: one slow argument
would hold up all runs, and an error of the user's would be the pool's. Each job whose tasks have
such arguments has a thread while they are pickled, in the order of the plan; a task is ready when
its own are. What is plain, or small and NumPy's own, is packed when it is sent.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from lazyflow.graph.task import place_text
from lazyflow.schedulers.processes.decisions.nodes import MISSING, WAITING, Job, Literal, Node
from lazyflow.schedulers.processes.parent.repeats import LARGE
from lazyflow.schedulers.remote.calls import packed_call
from lazyflow.store.pickling.serialize import Encoded, encode

if TYPE_CHECKING:
    from lazyflow.schedulers.processes.parent.driver import Driver


def begin(driver: Driver, nodes: list[Node]) -> None:
    """Have nodes of one job packed; the driver hears of each by ``packed``."""
    threading.Thread(
        target=_pack_all, args=(driver, nodes[0].job, nodes), name="lazyflow-packing", daemon=True
    ).start()


def _pack_all(driver: Driver, job: Job, nodes: list[Node]) -> None:
    for node in nodes:
        run, literal = job.run, node.value
        if run is None or node.phase != WAITING or driver.closing:  # it was given up
            continue
        written: dict[Any, Any] = {}
        try:
            if literal is MISSING:
                found: Any = _arguments(driver, run, node, written)
            else:
                found = _value(driver, run, node, literal)
            error = None
        except BaseException as broken:
            role = "args" if literal is MISSING else "value"
            found, error = None, driver.sender.unsendable(node.task, role, broken)
        driver.post("packed", node, literal, found, error, written)


def _arguments(driver: Driver, run: Any, node: Node, written: dict[Any, Any]) -> Any:
    """Pack the arguments of a task; memory that other tasks of the run were given is not copied."""
    memory = driver.memory
    packed = packed_call(node.task, partial(memory.argument, run.literals, written))
    if packed[0].__class__ is Encoded and packed[0].size >= LARGE:
        driver.sender.repeats.look(run.number, node.task)
    return packed


def _value(driver: Driver, run: Any, node: Node, literal: Literal) -> Encoded:
    memory = driver.memory
    write, free = memory.arenas.write, memory.arenas.free
    encoded = encode(literal.value, write, memory.least, free, by_path=True)
    if encoded.size >= LARGE:
        what = f"the lazy value made at {place_text(node.task)}"
        driver.sender.repeats.note(run.number, literal.value, what)
    return encoded
