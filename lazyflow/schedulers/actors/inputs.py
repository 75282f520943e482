"""The inputs of an actor's calls: waited for, brought where that is needed, and packed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lazyflow.schedulers.actors.calls import ActorCall, ActorSpec, PackedCall
from lazyflow.schedulers.actors.ports import NOT_HERE, HostPort
from lazyflow.schedulers.core.future import TaskFuture


class InputGatherer:
    """Fills in the input values of calls. Runs in the port's thread.

    Parameters
    ----------
    queue
        Called with a call that `take` got, once it may be sent.
    pump
        Called when a value has arrived for which a call waited.
    cancel
        Called with the error when a step here has failed.
    spec
        The actor's.

    Attributes
    ----------
    late
        If several calls may be under way at once, those whose inputs are not there: others pass
        them, which may be what they wait for.
    """

    def __init__(
        self, port: HostPort, queue: Callable[[PackedCall], None], pump: Callable[[], None],
        cancel: Callable[[BaseException], None], spec: ActorSpec,
    ) -> None:
        self._port = port
        self._queue = queue
        self._pump = pump
        self._is_concurrent = spec.concurrency > 1
        self.late: dict[PackedCall, None] = {}
        self.cancel = cancel

    def take(self, item: PackedCall) -> None:
        """Gather the inputs of a call and queue it: now, or when they are there if it is late."""
        self.gather(item)
        if item.missing and self._is_concurrent:
            self.late[item] = None
        else:
            self._queue(item)

    def drop(self, call: ActorCall) -> list[PackedCall]:
        """Forget a late call that was cancelled; return it."""
        dropped = [item for item in self.late if item.call is call]
        for item in dropped:
            del self.late[item]
        return dropped

    def gather(self, item: PackedCall) -> None:
        """Fill in the inputs that are done, and subscribe to the others."""
        for k, future in enumerate(item.futures):
            if future.done():
                self._input_done(item, k, future)
            else:
                future.add_callback(partial(self._port.post, self._input_came, item, k))

    def _input_came(self, item: PackedCall, k: int, future: TaskFuture) -> None:
        self._input_done(item, k, future)
        self._came(item)

    def _input_done(self, item: PackedCall, k: int, future: TaskFuture) -> None:
        value, error = future.local_outcome()
        if error is None and future.is_elsewhere():
            value = self._port.bring(value, partial(self._have, item, k))
            if value is NOT_HERE:
                return
        self._put(item, k, value, error)

    def _came(self, item: PackedCall) -> None:
        if item in self.late and not item.missing:
            del self.late[item]
            self._queue(item)
        self._pump()

    def _have(self, item: PackedCall, k: int, value: Any, error: BaseException | None) -> None:
        """Receive a value that was fetched."""
        self._put(item, k, value, error)
        self._came(item)

    def _put(self, item: PackedCall, k: int, value: Any, error: BaseException | None) -> None:
        item.missing -= 1
        if item.is_over:  # it was cancelled, or its actor has ended
            return
        if error is not None:
            item.error = error
            return
        try:
            item.values[k] = self._port.load(value)
        except Exception as broken:
            item.error = self._port.unsendable(item.task, "value", broken)
