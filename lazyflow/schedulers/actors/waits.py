"""Actors that wait for each other in a circle, which is found when it closes.

An actor that runs one call at a time waits, while its call sleeps until the result of a call of
another actor is there: it begins nothing before. Such waits are noted by the process that made the
actors, which hears of those in other processes. Of actors that run several calls nothing is noted,
and neither of waits with a time limit, of waits for the first of several results, and of those of
other threads that a call has started.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from lazyflow.errors import CycleError
from lazyflow.schedulers.core.future import TaskFuture


class WaitingActor(NamedTuple):
    """An actor that runs one call at a time, in the thread that does.

    process
        Identifies the process that made the actor.
    number
        The actor among those of that process.
    label
        Its name in messages.
    """

    process: str
    number: int
    label: str

    def sleeps(self, futures: Sequence[TaskFuture]) -> None:
        """Note that the thread is about to sleep until all these are done."""
        for future in futures:
            if future.run is not None and hasattr(future.run[0], "awaited_by"):
                future.run[0].awaited_by(self)


class _Waits:
    """Which actors of this process wait for calls of which others."""

    def __init__(self) -> None:
        self.process = uuid.uuid4().hex
        self._lock = threading.Lock()
        #: By number of an actor: its label, and the calls that it waits for with their actors.
        self._waits: dict[int, tuple[str, dict[TaskFuture, int]]] = {}

    def add(self, actor: WaitingActor, future: TaskFuture, of: int) -> None:
        """Note that an actor waits for a call of the actor `of`; fail it if that can't end."""
        if actor.process != self.process:
            return
        with self._lock:
            _, waits = self._waits.setdefault(actor.number, (actor.label, {}))
            waits[future] = of
            circle = self._path(of, actor.number, {})
        if circle is not None:
            future.set_error(_error([f"{actor.label} waits for {future.name}", *circle]))
        future.add_callback(partial(self._over, actor.number))

    def _path(self, start: int, end: int, seen: dict[int, None]) -> list[str] | None:
        """Return in words how one actor waits for another; None if it does not."""
        if start == end:
            return []
        seen[start] = None
        label, waits = self._waits.get(start, ("", {}))
        for future, of in waits.items():
            if of not in seen and not future.done():
                rest = self._path(of, end, seen)
                if rest is not None:
                    return [f"{label} waits for {future.name}", *rest]
        return None

    def _over(self, number: int, future: TaskFuture) -> None:
        with self._lock:
            label, waits = self._waits.get(number, ("", {}))
            waits.pop(future, None)
            if label and not waits:
                del self._waits[number]


def _error(circle: list[str]) -> CycleError:
    if len(circle) == 1:
        text = f"{circle[0]}, a call of its own, which can't begin before this one has ended"
    else:
        text = ", and ".join(circle)
    return CycleError(
        f"calls of actors wait for each other in a circle: {text}. Make one of the methods async "
        "and await the future there, give its actor max_concurrency=2, or return the future in "
        "place of its result."
    )


waits = _Waits()


def waiting_actor(spec: Any) -> WaitingActor | None:
    """Return what threads of an actor note; None for one that runs several calls at once."""
    if spec.concurrency > 1:
        return None
    return WaitingActor(waits.process, spec.number, spec.label)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=waits.__init__)  # type: ignore[misc]
