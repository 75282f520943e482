"""Actors that the tests of actors use. Workers import this module as well: no pytest here."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import Any

import numpy as np

import lazyflow
from lazyflow.testing.signals import Gate

LIMIT = 30.0  # seconds: nothing is as slow as that


class Plain:
    """An undecorated class."""

    def __init__(self, start: int = 0) -> None:
        self.n = start

    def add(self, k: int = 1) -> int:
        self.n += k
        return self.n


@lazyflow.actor
class Counter:
    """Counts, and can end the process that it is in."""

    def __init__(self, start: int = 0) -> None:
        self.n = start
        self.kept: list[Any] = []

    def add(self, k: int = 1) -> int:
        self.n += k
        return self.n

    def note(self, x: Any) -> None:
        self.kept.append(x)

    def notes(self) -> list[Any]:
        return self.kept

    def fail(self) -> None:
        self.n += 100
        raise ValueError("no")

    def leave(self) -> None:
        raise SystemExit(3)

    def pid(self) -> int:
        return os.getpid()

    def die(self, how: str) -> None:
        end(how)

    def get_state(self) -> int:
        return self.n

    def set_state(self, n: int) -> None:
        self.n = n

    def wait_at(self, gate: Any, begun: Any = None) -> str:
        if begun is not None:
            begun.open()
        gate.wait()
        return "passed"

    def late(self, gate: Any, size: int) -> Any:
        gate.wait()
        return np.full(size, 2.0)

    def total(self, *parts: Any, **named: Any) -> Any:
        return deep_sum([parts, named])

    def lazily(self, x: int) -> Any:
        return lazyflow.delayed(abs)(-x)

    def count(self, n: int) -> Any:
        yield from range(n)

    def unpicklable(self) -> Any:
        return lock()

    def in_state(self, state: Any, k: int) -> int:
        mine = state.get()
        mine[k] = k
        return sum(mine)

    def fail_in_state(self, state: Any) -> None:
        state.get()[50] = 50
        raise ValueError("no")

    def _hidden(self) -> int:
        return 7

    @property
    def size(self) -> int:
        return self.n

    limit = 5


def lock() -> Any:
    import threading

    return threading.Lock()


def end(how: str) -> None:
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), getattr(signal, how))
    time.sleep(LIMIT)


def deep_sum(x: Any) -> Any:
    if isinstance(x, dict):
        return deep_sum(list(x.values()))
    if isinstance(x, list | tuple):
        return sum(map(deep_sum, x))
    return x


@lazyflow.actor
class Weights:
    """A parameter server."""

    def __init__(self, size: int, broken: bool = False) -> None:
        if broken:
            raise RuntimeError("can't be made")
        self.w = np.zeros(size)

    def step(self, *gradients: Any) -> Any:
        for g in gradients:
            self.w += g
        return self.w

    def set(self, w: Any) -> None:
        self.w = w

    def get(self) -> Any:
        return self.w

    def state(self) -> Any:
        return {"w": self.w}

    def pid(self) -> int:
        return os.getpid()

    def load(self, state: Any) -> None:
        self.w = state["w"].copy()


@lazyflow.actor
class Async:
    """Calls that wait for each other."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.inside = 0
        self.most = 0
        self.event = asyncio.Event()

    async def enter(self, i: int) -> int:
        self.order.append(i)
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.event.wait()
        self.inside -= 1
        return i

    async def open(self) -> None:
        self.event.set()

    async def fail(self) -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def plain(self, x: Any) -> Any:
        await asyncio.sleep(0)
        return x

    def seen(self) -> tuple[list[int], int]:
        return self.order, self.most


def after(gate: Any, value: Any) -> Any:
    gate.wait()
    return value


async def awaited(x: Any) -> Any:
    await asyncio.sleep(0)
    return x


#: `is_made`: the thread is about to return a value, and may have to make it before.
_here = threading.local()


def made_later(gate: Any, x: Any) -> Any:
    if not getattr(_here, "is_made", False):
        gate.wait()
    return x


@lazyflow.actor
class Later:
    def make(self, gate: Any, x: Any) -> Any:
        return made_later(gate, x)


def unfinished(form: str, scheduler: str) -> Any:
    """Return a value 1 that a scheduler has yet to make, in one of some forms."""
    gate, _here.is_made = Gate(), True
    try:
        return _unfinished(form, scheduler, gate)
    finally:
        _here.is_made = False
        gate.open()


def _unfinished(form: str, scheduler: str, gate: Gate) -> Any:
    if form == "lazy":
        return lazyflow.delayed(made_later)(gate, 1)
    if form == "coroutine":
        return awaited(1)
    if form == "call of an actor":
        return Later.options(scheduler=scheduler)().make(gate, 1)
    if form == "chain":
        return lazyflow.delayed(unfinished)("submitted", scheduler)
    with lazyflow.config.set(scheduler=scheduler):
        future = lazyflow.submit(made_later, gate, 1)
        (kept,) = lazyflow.persist(lazyflow.delayed(made_later)(gate, 1))
    return {"submitted": future, "persisted": kept, "user": lazyflow.delayed(abs)(kept)}[form]


@lazyflow.actor
class Giver:
    def give(self, *what: str) -> Any:
        return unfinished(*what)


@lazyflow.actor
class AsyncGiver:
    async def give(self, *what: str) -> Any:
        return unfinished(*what)


@lazyflow.actor
class Keeper:
    """Keeps what it is given, and edits it."""

    def __init__(self, kept: Any = None) -> None:
        self.kept = kept

    def keep(self, x: Any) -> None:
        self.kept = x

    def edit(self, x: Any = None) -> Any:
        """Add 1 to all numbers in what is kept, or given; return that, the same object."""
        x = self.kept if x is None else x
        add_one(x)
        return x

    def is_copy(self, x: Any) -> bool:
        """Tell whether what `with_address` returned came in other memory; edit it."""
        made_at = x[0]
        add_one(x)
        return bool(made_at != x.ctypes.data)

    def show_read_only(self) -> None:
        np.broadcast_to(self.kept, (2, 3))[0] = 1


def add_one(x: Any) -> None:
    if hasattr(x, "iloc"):
        x.iloc[:, :] += 1
    elif hasattr(x, "data") and not isinstance(x, np.ndarray):
        x.data += 1
    elif isinstance(x, np.ndarray):
        x += 1
    elif isinstance(x, Holder):
        x.array += 1
    else:
        for each in x.values() if isinstance(x, dict) else x:
            add_one(each)
        if isinstance(x, list):
            x.append([])


class Holder:
    """An object of the user's own, which holds an array."""

    def __init__(self, size: int) -> None:
        self.array = np.zeros(size)


def with_address(size: int) -> Any:
    x = np.zeros(size)
    x[0] = x.ctypes.data
    return x


@lazyflow.actor
class Signal:
    """Calls of its event loop that wait for each other."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.kept: list[Any] = []

    async def wait(self) -> str:
        await self.event.wait()
        return "sent"

    async def send(self) -> None:
        self.event.set()

    async def record(self, x: Any) -> Any:
        self.kept.append(x)
        return x

    async def recorded(self) -> list[Any]:
        return self.kept


@lazyflow.actor(max_concurrency=2)
class ThreadedSignal:
    """The same in threads."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.kept: list[Any] = []

    def wait(self) -> str:
        assert self.event.wait(LIMIT)
        return "sent"

    def send(self) -> None:
        self.event.set()

    def record(self, x: Any) -> Any:
        self.kept.append(x)
        return x

    def recorded(self) -> list[Any]:
        return self.kept
