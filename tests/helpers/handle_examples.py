"""Actors that have handles on others. Workers import this module as well: no pytest here."""

from __future__ import annotations

from typing import Any

import numpy as np
from actor_examples import Counter, end

import lazyflow


@lazyflow.actor
class Node:
    """Calls others, of which it may keep handles."""

    def __init__(self, value: float = 0, **others: Any) -> None:
        self.value = value
        self.others = others

    def meet(self, **others: Any) -> None:
        self.others.update(others)

    def leave(self) -> None:
        self.others.clear()

    def state(self) -> dict[str, Any]:
        return self.others

    def load(self, others: dict[str, Any]) -> None:
        self.others = others

    def ask(self, name: str, method: str, *args: Any) -> Any:
        """Return what a method of another one returns."""
        return getattr(self.others[name], method)(*args).result()

    def asked(self, other: Any, method: str, *args: Any) -> Any:
        return getattr(other, method)(*args).result()

    def named(self, name: str) -> Any:
        return lazyflow.get_actor(name).add(1).result()

    def handle(self, name: str) -> list[Any]:
        return [self.others[name]]

    def child(self, start: int) -> Any:
        """Make an actor here, and return its handle."""
        return Counter(start)

    def end(self, how: str) -> None:
        end(how)

    def total(self, left: Any = None, right: Any = None) -> Any:
        parts = [child[0].total(*child[1:]) for child in (left, right) if child is not None]
        return self.value + sum(part.result() for part in parts)

    def bounce(self, name: str, n: int) -> int:
        return 0 if n == 0 else 1 + self.others[name].bounce(name, n - 1).result()


@lazyflow.actor
class Bouncer:
    """Calls others without being blocked by that."""

    def __init__(self) -> None:
        self.other: Any = None

    def meet(self, other: Any) -> None:
        self.other = other

    async def bounce(self, n: int) -> int:
        return 0 if n == 0 else 1 + await self.other.bounce(n - 1)


@lazyflow.actor
class Stage:
    """A stage of a pipeline: passes on what it has done."""

    def __init__(self, name: str, after: Any = None) -> None:
        self.name = name
        self.after = after
        self.seen: list[int] = []

    def work(self, item: int, path: str = "") -> Any:
        self.seen.append(item)
        path += self.name
        return path if self.after is None else self.after.work(item, path)

    def order(self) -> list[int]:
        return self.seen


def push_gradients(server: Any, rank: int, steps: int) -> int:
    """Be a worker of a parameter server: pull the weights, push a gradient."""
    for step in range(steps):
        weights = server.step().result()
        gradient = np.zeros_like(weights)
        gradient[rank] = step + 1
        server.step(gradient).result()
    return rank


def add_by(handle: Any, k: int = 1) -> Any:
    return handle.add(k).result()


def note_all(handle: Any, who: str, count: int) -> None:
    """Make calls without waiting; some have inputs that are computed meanwhile."""
    for i in range(count):
        item = lazyflow.delayed(lambda i=i: (who, i))() if i % 3 == 0 else (who, i)
        last = handle.note(item)
    last.result()
