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
from dataclasses import dataclass
from functools import partial
from typing import Any

from lazyflow.errors import CycleError
from lazyflow.schedulers.core.future import TaskFuture


@dataclass
class WaitingActor:
    """An actor that runs one call at a time, in the thread that does.

    process
        Identifies the process that made the actor.
    number
        The actor among those of that process.
    label
        Its name in messages.
    running
        The number of the call that it runs, as it was sent; 0 in the process that made it. What
        was sent before has ended, also if its answer is on its way.
    """

    process: str
    number: int
    label: str
    running: int = 0

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
        #: By number of an actor: itself, and the calls that it waits for with their actors.
        self._waits: dict[int, tuple[WaitingActor, dict[TaskFuture, int]]] = {}

    def add(self, actor: WaitingActor, future: TaskFuture, of: int) -> None:
        """Note that an actor waits for a call of the actor `of`; fail it if that can't end."""
        if actor.process != self.process:
            return
        with self._lock:
            _, waits = self._waits.get(actor.number, (actor, {}))
            waits[future] = of
            self._waits[actor.number] = actor, waits
            circle = self._path(of, actor.number, {})
        run = future.run
        if circle is not None and run is not None:
            future.set_error(_error([f"{actor.label} waits for {future.name}", *circle]))
            run[0].forget(0)  # so that it does not begin when the circle is open
        future.add_callback(partial(self._over, actor.number))

    def _path(self, start: int, end: int, seen: dict[int, None]) -> list[str] | None:
        """Return in words how one actor waits for another; None if it does not."""
        if start == end:
            return []
        seen[start] = None
        if start in self._waits:
            actor, waits = self._waits[start]
            for future, of in waits.items():
                if of not in seen and self._is_ahead(future, of):
                    rest = self._path(of, end, seen)
                    if rest is not None:
                        return [f"{actor.label} waits for {future.name}", *rest]
        return None

    def _is_ahead(self, future: TaskFuture, of: int) -> bool:
        """Tell whether a call has yet to begin, or is what its actor runs."""
        run = future.run
        if run is None:
            return False
        call = run[0]
        running = self._waits[of][0].running if of in self._waits else 0
        number = 0 if call.host is None else call.host.number_of(call)
        return not 0 < number < running

    def _over(self, number: int, future: TaskFuture) -> None:
        with self._lock:
            if number in self._waits:
                waits = self._waits[number][1]
                waits.pop(future, None)
                if not waits:
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
