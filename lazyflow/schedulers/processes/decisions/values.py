"""Events of values: they are given, arrive, can't be had, are asked for, or are held no more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lazyflow.errors import StoreFull
from lazyflow.schedulers.processes.decisions.batching import assign
from lazyflow.schedulers.processes.decisions.instructions import Arrived, Free, Lost
from lazyflow.schedulers.processes.decisions.nodes import (
    ALWAYS,
    DONE,
    FAILED,
    MISSING,
    SENT,
    WAITING,
    Node,
)
from lazyflow.schedulers.processes.decisions.state import State


def provide(state: State, node: Node, value: Any, size: int = 0) -> None:
    """Take the value of a node that no task of its own makes, and its size if it is encoded."""
    if node.phase != WAITING:
        state.out.append(Free(value))
        return
    node.phase = DONE
    node.open = 0
    node.value = value
    node.size = size
    job = node.job
    job.later.pop(node, None)
    if node in job.once:
        job.once[node] = True
    for user in node.users:
        user.open -= 1
        if not user.open and not user.flying and user.phase == WAITING:
            state.queues.make_ready(user)
    if node.want:
        state.lineage.offer(node)
    if not node.left:
        state.refcounts.release(node)
    assign(state)


def packed(state: State, found: Iterable[tuple[Node, tuple[Any, ...]]]) -> None:
    """Take the arguments of some tasks as they are sent."""
    for node, arguments in found:
        node.packed = arguments
        node.open -= 1
        if not node.open and not node.flying:
            state.queues.make_ready(node)
    assign(state)


def fail(state: State, node: Node, error: Any) -> None:
    """Let a task fail that did not run, and what needs it.

    One that was sent somewhere may yet come to an end there, or come back and fail.
    """
    if node.phase == SENT:
        node.job.verdicts[node] = error
    state.refcounts.fail_all(node, error)
    state.lineage.sweep()


def shared(state: State, node: Node, value: Any) -> None:
    """Take the encoded value that a worker was asked for."""
    node.sharing = False
    if node.phase != DONE or node.value is not MISSING:
        state.out.append(Free(value))
        return
    node.value = value
    state.queues.stuck.pop(node, None)
    state.queues.fetched(node)
    if node.want:
        state.lineage.offer(node)
    assign(state)


def unshareable(state: State, node: Node, error: Any) -> None:
    """Learn that a value can't leave its worker: what needs it has to run there."""
    node.sharing = False
    if node.phase != DONE or node.value is not MISSING:
        return
    state.queues.stuck[node] = error
    state.refcounts.unsafe.pop(node, None)
    for user in state.queues.waiters.pop(node, ()):
        state.queues.unqueue(user)
        state.refcounts.requeue(user)
    if node in node.job.delivered:
        state.out.append(Lost(node, error))
    assign(state)


def want(state: State, node: Node) -> None:
    """Have a held value sent to the parent; the instruction `Arrived` follows, or `Lost`."""
    node.want = ALWAYS
    stuck = state.queues.stuck.get(node)
    if node.phase == DONE:
        if node.value is not MISSING:
            state.out.append(Arrived(node, node.value))
        elif stuck is not None and type(stuck) is not StoreFull:  # there may be room by now
            state.out.append(Lost(node, stuck))
        else:
            state.queues.share(node)
    elif node.phase == FAILED:
        state.out.append(Lost(node, node.value))
    # else it is being made again, and comes when it is done


def unpin(state: State, node: Node) -> None:
    """Learn that nobody outside holds the value of a node any more."""
    if node.pinned:
        node.pinned = False
        node.left -= 1
        state.refcounts.not_unsafe(node)
        if not node.left:
            state.refcounts.let_go(node)
        state.lineage.sweep()


def make_safe(state: State, most: int = 1) -> None:
    """Copy held values out of their workers, so many at once, while nothing else is to be done."""
    lineage = state.lineage
    while lineage.unshared and len(lineage.copies_to_come()) < most:
        node = lineage.unshared.popleft()
        if node in state.refcounts.unsafe and node.phase == DONE and not node.sharing:
            lineage.copy_if_room(node)
