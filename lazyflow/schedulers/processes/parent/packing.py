"""Arguments and values that are pickled in a thread of their own.

What runs the user's code, or copies much memory, is not for the driver's thread: one slow argument
would hold up all runs, and an error of the user's would be the pool's. Each job whose tasks have
such arguments has a thread while they are pickled, in the order of the plan; tasks are ready when
their own are, those of about a millisecond together: each alone would be a message of its own. None
waits for what runs the user's code. What is plain, or small and NumPy's own, is packed when it is
sent.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from lazyflow.graph.task import Task, place_text
from lazyflow.schedulers.core.snapshots import verify
from lazyflow.schedulers.processes.decisions.nodes import MISSING, WAITING, Literal, Node
from lazyflow.schedulers.processes.parent.event_loop import EventLoop
from lazyflow.schedulers.processes.parent.memory import PoolMemory
from lazyflow.schedulers.processes.parent.repeats import RepeatedCopies
from lazyflow.schedulers.remote import failures
from lazyflow.schedulers.remote.calls import is_quick, is_quickly_packed, packed_call
from lazyflow.schedulers.remote.failures import culprit
from lazyflow.schedulers.remote.large_values import LARGE
from lazyflow.store.pickling.serialize import Encoded, Unpicklable, encode

_TOGETHER = 0.001  # seconds of packing, after which what is packed may go

#: A node, the value that it had, what was pickled of it or the error, and memory copied for it.
Packed: TypeAlias = tuple[Node, Any, Any, BaseException | None, dict[Any, Any]]


class PackingDriver(Protocol):
    """What packing needs of the driver."""

    closing: bool
    memory: PoolMemory
    copies: RepeatedCopies
    loop: EventLoop


def begin(driver: PackingDriver, nodes: list[Node], packed: Callable[..., None]) -> None:
    """Have nodes of one job packed; `packed`, see `ValueTable`, is posted for some at a time."""
    details = driver, nodes, packed
    try:
        threading.Thread(
            target=_pack_all, args=details, name="lazyflow-packing", daemon=True
        ).start()
    except RuntimeError:  # no more are to be had, or Python is ending
        _pack_all(*details)


def _pack_all(driver: PackingDriver, nodes: list[Node], packed: Callable[..., None]) -> None:
    found: list[Packed] = []
    begun = perf_counter()
    for node in nodes:
        run, literal = node.job.run, node.value
        if run is None or node.phase != WAITING or driver.closing:  # it was given up
            continue
        written: dict[Any, Any] = {}
        try:
            if found and _may_take_long(node.task, literal):
                driver.loop.post(packed, found)
                found, begun = [], perf_counter()
            if literal is MISSING:
                made: Any = _arguments(driver, run, node, written)
            else:
                made = _value(driver, run, node, literal)
            verify(run.watches, node.i, node.task)
            found.append((node, literal, made, None, written))
        except BaseException as broken:
            role = "args" if literal is MISSING else "value"
            error = unsendable(node.task, role, broken, driver.memory.least)
            found.append((node, literal, None, error, written))
        if perf_counter() - begun > _TOGETHER:
            driver.loop.post(packed, found)
            found, begun = [], perf_counter()
    driver.loop.post(packed, found)


def _may_take_long(task: Task, literal: Any) -> bool:
    """Tell whether pickling runs the user's code, which may even wait for tasks packed before."""
    if literal is MISSING:
        return not is_quickly_packed(task, sys.maxsize)
    return not is_quick((literal.value,), sys.maxsize)


def _arguments(driver: PackingDriver, run: Any, node: Node, written: dict[Any, Any]) -> Any:
    """Pack the arguments of a task; memory that other tasks of the run were given is not copied."""
    memory = driver.memory
    packed = packed_call(node.task, partial(memory.argument, run.literals, written))
    if packed[0].__class__ is Encoded and packed[0].size >= LARGE and not run.is_inner:
        driver.copies.look(run.number, node.task)
    return packed


def _value(driver: PackingDriver, run: Any, node: Node, literal: Literal) -> Encoded:
    memory = driver.memory
    write, free = memory.arenas.write, memory.arenas.free
    encoded = encode(literal.value, write, memory.least, free, by_path=True)
    if encoded.size >= LARGE and not run.is_inner:
        what = f"the lazy value made at {place_text(node.task)}"
        driver.copies.note(run.number, literal.value, what)
    return encoded


def unsendable(task: Task, role: str, error: BaseException, least: int) -> BaseException:
    """Return the error of a task whose arguments can't be sent: StoreFull, for example.

    `least` is the size in bytes from which they would go to shared memory.
    """
    if task._bind is not None and isinstance(error, Unpicklable):
        role, error = culprit(task, role, error, lambda value: encode(value, _nowhere, least))
    return failures.unsendable(task, role, error)


def _nowhere(buffer: Any) -> tuple[int, int, int]:
    return (0, 0, 0)
