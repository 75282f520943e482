"""Random graphs for the pool of threads, and what may not be left of them."""

import random
import weakref
from typing import Any

import pytest
from waiting import until

from lazyflow import compute, delayed
from lazyflow.schedulers.threads import threads as pool

PATIENCE = 5.0  # seconds until something that must come to an end is called hanging


class Value:
    """A number that can be watched as it dies."""

    refs: list[weakref.ref[Any]] = []  # no WeakSet: a Ctrl-C in it loses what it watches

    def __init__(self, number: int) -> None:
        self.number = number
        Value.refs.append(weakref.ref(self))

    @classmethod
    def none_alive(cls) -> bool:
        cls.refs[:] = [ref for ref in cls.refs if ref() is not None]
        return not cls.refs


class Wrong(Exception):
    """What a task of these graphs raises."""


def assert_nothing_left() -> None:
    assert until(lambda: not any(pool._queues)), "a run is still queued"
    assert until(lambda: all(t.run is None for t in (*pool._threads, *pool._sleeping))), "busy"
    assert not pool._sleeping
    assert until(lambda: len(pool._idle) == len(pool._threads)), "a thread is lost"
    assert len(pool._threads) <= max(1, pool._size)
    assert compute(delayed(abs)(-7), num_workers=1) == (7,)


class Graph:
    """A random graph of calls, and what plain Python makes of it."""

    def __init__(self, seed: int, size: int = 40, fails: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.fails = fails
        self.nodes: list[Any] = []
        self.expected: list[int | None] = []  # None: it fails
        for _ in range(size):
            self._add()
        count = self.random.randint(1, 6)
        self.wanted = [self.random.randrange(size) for _ in range(count)]

    def _add(self) -> None:
        inputs = self.random.choices(range(len(self.nodes)), k=self.random.randint(0, 4)) \
            if self.nodes else []
        bias, kind = self.random.randint(0, 9), self.random.random()
        values = [self.expected[i] for i in inputs]
        if None in values or kind < self.fails:
            self.expected.append(None)
        else:
            self.expected.append((sum(values) + bias) % 1009)  # type: ignore[arg-type]
        given = [self.nodes[i] for i in inputs]
        self.nodes.append(self._call(kind, given, bias))

    def _call(self, kind: float, given: list[Any], bias: int) -> Any:
        if kind < self.fails:
            return delayed(fail)(given, bias)
        if kind < 0.75:
            return delayed(plus)(*given, bias=bias)
        if kind < 0.80:
            return delayed(plus_list)(given, bias)
        if kind < 0.85:
            return delayed(plus, retries=1)(*given, bias=bias)
        if kind < 0.90:
            return delayed(plus, priority=bias)(*given, bias=bias)
        if kind < 0.95:
            return delayed(nested)(*given, bias=bias)
        return delayed(returned)(*given, bias=bias)

    def asked(self) -> list[Any]:
        return [self.nodes[i] for i in self.wanted]

    def check(self, values: list[Any]) -> None:
        for i, value in zip(self.wanted, values, strict=True):
            if self.expected[i] is None:
                assert isinstance(value, Wrong), value
            else:
                assert value.number == self.expected[i]


def plus(*values: Any, bias: int = 0) -> Value:
    return Value((sum(v.number for v in values) + bias) % 1009)


def plus_list(values: Any, bias: int) -> Value:
    return plus(*values, bias=bias)


def fail(values: Any, bias: int) -> Value:
    raise Wrong(f"bias {bias}")


def nested(*values: Any, bias: int) -> Value:
    parts = [delayed(plus)(v) for v in values]
    return compute(delayed(plus)(*parts, bias=bias), num_workers=1 + bias % 3)[0]


def returned(*values: Any, bias: int) -> Any:
    parts = [delayed(plus)(v) for v in values]
    return delayed(plus)(*parts, bias=bias)


def few_and_many(quick: int, many: int) -> Any:
    """Parametrize by the number of examples: a few for every commit, many when asked."""
    return pytest.mark.parametrize(
        "examples", [quick, pytest.param(many, marks=pytest.mark.slow)], ids=["few", "many"]
    )
