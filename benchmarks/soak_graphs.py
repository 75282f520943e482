"""Random graphs for the soak: the same ones again from the same seed.

A graph is grown by a `random.Random`: each new node takes some of the nodes before it. There are
trivial tasks, tasks that take a while (so that a kill finds them running), NumPy arrays from a few
bytes to more than is sent inline, tasks that take lists and dicts of values, tasks that compute a
graph of their own, tasks that return lazy values (of arrays, of arrays that others of that kind
return, of lists), and `persist` in the middle. All arithmetic is on integers: every scheduler must
give the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import lazyflow

PRIME = 1_000_003
LENGTHS = (10, 500, 20_000, 300_000)  # of arrays: 80 bytes to 2.4 MB, two of them shared

Persist = Callable[[list[Any]], list[Any]]


# Tasks. Each takes values of any kind that a node can have, and gives one.


def number_of(value: Any) -> int:
    """Return a whole number that depends on all of a value."""
    if isinstance(value, np.ndarray):
        weights = np.arange(1, len(value) + 1) % 1009
        return int(value @ weights % PRIME)
    if isinstance(value, dict):
        return number_of(list(value.items()))
    if isinstance(value, list | tuple):
        mixed = len(value)
        for item in value:
            mixed = (31 * mixed + number_of(item)) % PRIME
        return mixed
    return len(value) if isinstance(value, str) else int(value) % PRIME


def mixed(*values: Any) -> int:
    return number_of(values)


def slowly(seconds: float, *values: Any) -> int:
    """Mix the values after a time, half of it asleep and half at work."""
    time.sleep(seconds / 2)
    until = time.perf_counter() + seconds / 2
    while time.perf_counter() < until:
        pass
    return number_of(values)


def array(length: int, *values: Any) -> np.ndarray:
    return (np.arange(length) * 7919 + number_of(values)) % PRIME


def blended(x: Any, y: Any) -> np.ndarray:
    """Add two values elementwise, arrays as they are and others as a number."""
    first, second = (v if isinstance(v, np.ndarray) else np.array([number_of(v)]) for v in (x, y))
    shorter = min(len(first), len(second))
    return (first[:shorter] * 3 + second[:shorter]) % PRIME


def plain(value: Any) -> Any:
    """Return a value, a container as its number: nested ones would double with every task."""
    return number_of(value) if isinstance(value, dict | list | tuple) else value


def listed(values: list[Any]) -> list[Any]:
    return [number_of(values), plain(values[-1]), tuple(map(plain, values[:2]))]


def told(values: dict[str, Any]) -> dict[str, Any]:
    return {"sum": number_of(values)} | {key: plain(value) for key, value in values.items()}


def nested(leaves: int, value: Any) -> int:
    """Compute a small graph from within a task."""
    level = [lazyflow.delayed(mixed)(value, i) for i in range(leaves)]
    total = lazyflow.delayed(listed)(level)
    return number_of(lazyflow.compute(total)[0])


def lazily(depth: int, length: int, value: Any) -> Any:
    """Return a lazy value: an array that depends on what such a task returns, to some depth."""
    if not depth:
        return lazyflow.delayed(array)(length, value)
    inner = lazyflow.delayed(lazily)(depth - 1, length, value)
    return lazyflow.delayed(blended)(inner, lazyflow.delayed(slowly)(0.004, value))


def lazy_list(count: int, value: Any) -> Any:
    """Return a lazy list, of which large arrays are part."""
    parts = [lazyflow.delayed(array)(LENGTHS[i % len(LENGTHS)], value) for i in range(count)]
    return lazyflow.delayed(listed)([*parts, lazyflow.delayed(nested)(count, value)])


# The graphs.


def grow(random: Random, tasks: int, persist: Persist) -> list[Any]:
    """Make a graph of about `tasks` tasks; return the nodes that are wanted.

    `persist` is called now and then with some nodes and gives those that take their place.
    """
    nodes = [lazyflow.delayed(mixed)(i, random.randrange(PRIME)) for i in range(3)]
    steps = {random.randrange(3, tasks) for _ in range(random.randrange(3))}
    for count in range(3, tasks):
        if count in steps:
            nodes[-8:] = persist(nodes[-8:])
        nodes.append(_task(random, nodes))
    return random.sample(nodes, min(5, len(nodes))) + nodes[-3:]


def _task(random: Random, nodes: list[Any]) -> Any:
    """Add a task of some kind, on nodes that are mostly recent."""

    def some() -> Any:
        recent = nodes[-12:] if random.random() < 0.8 else nodes
        return random.choice(recent)

    delayed, kind = lazyflow.delayed, random.random()
    if kind < 0.40:
        return delayed(mixed)(*(some() for _ in range(random.randrange(1, 4))))
    if kind < 0.48:
        return delayed(slowly)(random.choice((0.002, 0.01, 0.04)), some())
    if kind < 0.65:
        return delayed(array)(random.choice(LENGTHS), some())
    if kind < 0.80:
        return delayed(blended)(some(), some())
    if kind < 0.88:
        return delayed(listed)([some() for _ in range(random.randrange(1, 6))])
    if kind < 0.93:
        return delayed(told)({"a": some(), "b": [some(), random.randrange(9)]})
    if kind < 0.96:
        return delayed(lazily)(random.randrange(3), random.choice(LENGTHS), some())
    if kind < 0.98:
        return delayed(lazy_list)(random.randrange(1, 5), some())
    return delayed(nested)(random.randrange(1, 9), some())


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are equal in every bit and type."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


# A long chain of persisted steps.


def first_state(length: int) -> np.ndarray:
    return np.arange(length) % PRIME


def next_state(state: np.ndarray, k: int) -> np.ndarray:
    return (state * 3 + k) % PRIME
