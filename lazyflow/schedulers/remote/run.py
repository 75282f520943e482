"""Runs whose tasks other processes call: what comes back, and how it gets to the caller."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lazyflow.schedulers.core.run import BaseRun


class OffloadedRun(BaseRun):
    """A run of a pool of processes or of an engine: one thread of that takes all its steps.

    Attributes
    ----------
    wanted
        Numbers of results that the caller waits for, and that are not there yet.
    """

    #: The class of results that stay where they are until `fetch` gets them.
    held_type: type

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.wanted: set[int] = set()

    def arrived(self, i: int, value: Any) -> None:
        """Take a result, or that it failed; nothing happens unless it is wanted.

        A value that was lost may come twice.
        """
        if i not in self.wanted:
            return
        self.wanted.discard(i)
        if self.futures is not None:
            reference = self.futures.pop(i, None)
            future = reference() if reference is not None else None
            if future is not None:
                error = self.failed.get(i)
                if error is not None:
                    future.set_error(error)
                else:
                    future.set_value(value)
        elif self.values:
            self.values[i] = value

    def fetch(self) -> tuple[list[Any], dict[int, BaseException]]:
        """Open the wanted values, in the caller's thread: that may run the user's code."""
        held, held_type = {}, self.held_type
        for i in self.plan.outputs:
            value = self.values[i]
            if issubclass(type(value), held_type) and i not in self.failed:
                held[i], self.values[i] = value, None
        self._bring(held.values())
        for i in tuple(held):
            try:
                self.values[i] = held.pop(i).get()
            except Exception as error:
                if not self.request.collect:
                    raise
                self.failed[i] = error
        return super().fetch()

    def _bring(self, held: Collection[Any]) -> None:
        """Copy held values here together, where that is quicker than one by one."""
