"""The inputs of an actor's calls: waited for, brought where that is needed, and packed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lazyflow.schedulers.actors.calls import PackedCall
from lazyflow.schedulers.actors.ports import NOT_HERE, HostPort
from lazyflow.schedulers.core.future import TaskFuture


class InputGatherer:
    """Fills in the input values of calls. Runs in the port's thread.

    Parameters
    ----------
    pump
        Called when a value has arrived for which a call waited.
    cancel
        Called with the error when a step here has failed.
    """

    def __init__(
        self, port: HostPort, pump: Callable[[], None], cancel: Callable[[BaseException], None]
    ) -> None:
        self._port = port
        self._pump = pump
        self.cancel = cancel

    def gather(self, item: PackedCall) -> None:
        """Fill in the inputs that are done, and subscribe to the others."""
        for k, future in enumerate(item.futures):
            if future.done():
                self._input_done(item, k, future)
            else:
                future.add_callback(partial(self._port.post, self._input_came, item, k))

    def _input_came(self, item: PackedCall, k: int, future: TaskFuture) -> None:
        self._input_done(item, k, future)
        self._pump()

    def _input_done(self, item: PackedCall, k: int, future: TaskFuture) -> None:
        value, error = future.local_outcome()
        if error is None and future.is_elsewhere():
            value = self._port.bring(value, partial(self._have, item, k))
            if value is NOT_HERE:
                return
        self._put(item, k, value, error)

    def _have(self, item: PackedCall, k: int, value: Any, error: BaseException | None) -> None:
        """Receive a value that was fetched."""
        self._put(item, k, value, error)
        self._pump()

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
