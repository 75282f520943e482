"""A call of an actor as it is packed for another process."""

from __future__ import annotations

from typing import Any

from lazyflow.graph.task import Task
from lazyflow.schedulers.actors.calls import ActorCall
from lazyflow.schedulers.core.future import TaskFuture

MISSING: Any = object()


class PackedCall:
    """A call with its packed parts, as `HostPort.encode` and `HostPort.load` make them.

    arguments, flags, binding
        As `lazyflow.schedulers.remote.calls.packed_call` gives them.
    futures
        The futures of the inputs, each once.
    sources
        For each input the index of its future; None: the inputs are the futures in order.
    values
        The packed value of each future.
    missing
        The number of values that have not arrived.
    """

    __slots__ = (
        "arguments", "binding", "call", "error", "flags", "futures", "is_over", "missing",
        "sources", "values",
    )

    def __init__(self, call: ActorCall) -> None:
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
