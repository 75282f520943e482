"""Random programs give on every scheduler what they give on sync.

The tasks take arguments in every form, return what is treated in ways of its own (arrays of all
sizes, several values, lazy values, objects with methods), edit what is theirs, compute, fail;
results are kept, submitted and put on the way.
"""

import collections
import dataclasses
import functools
import logging
import random
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from engine_schedulers import DISTRIBUTED, RAY, local_client

import lazyflow
from lazyflow import compute, config, delayed, persist, put, submit

#: Programs one after the other make equal arrays, at the same place: they may be told so.
pytestmark = pytest.mark.filterwarnings("ignore:argument .* was copied:lazyflow.LazyflowWarning")

PATIENCE = 60.0  # seconds

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any

    def plus(self, k: Any, *, times: int = 1) -> "Point":
        return Point(self.x, (self.y, k, times))


class Scaled:
    def __init__(self, by: Any) -> None:
        self.by = by

    def __call__(self, x: Any) -> Any:
        return "called", self.by, x

    def method(self, x: Any, *more: Any) -> Any:
        return "method", self.by, x, more


def given(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def three(x: Any, y: Any = 3, *, z: Any = None) -> Any:
    return [x, y, z]


def array(size: int, dtype: str = "f8", by: int = 1) -> Any:
    return np.arange(size, dtype=dtype) * by


def two(x: Any) -> Any:
    return x, ("second", x)


def total(x: Any) -> Any:
    return float(np.sum(x)) if isinstance(x, np.ndarray) else x


def failing(x: Any) -> Any:
    raise ValueError("always the same words: of two failed inputs either may be told of")


def lazy(x: Any) -> Any:
    return delayed(three)(x, z=delayed(given)(1, k=2))


def nested(x: Any) -> Any:
    return compute(delayed(given)(x, q=[x]), delayed(len)([x]))


def edited(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        x += 1
    elif isinstance(x, list):
        x.append("edit")
    elif isinstance(x, dict):
        x["edit"] = 1
    return x


def generated(n: int) -> Any:
    yield from range(n)


LITERALS: list[Any] = [
    lambda r: r.randrange(9), lambda r: str(r.randrange(9)), lambda r: None, lambda r: 2.5,
    lambda r: [1, 2], lambda r: {"a": 1}, lambda r: (1,), lambda r: b"x", lambda r: slice(0, 2),
    lambda r: frozenset([1]), lambda r: np.arange(r.choice([3, 300, 20_000])),
]


class Program:
    """Random lazy values, the same for the same seed."""

    def __init__(self, seed: int, keeps: bool) -> None:
        r = self.random = random.Random(seed)
        self.keeps = keeps  # persist, submit and put on the way
        self.values: list[Any] = []
        for _ in range(r.choice([5, 20, 60, 150])):
            self.values.append(self.call())
            if keeps and r.random() < 0.08:
                self.keep()
        self.outputs = r.sample(self.values, min(len(self.values), r.randrange(1, 8)))

    def keep(self) -> None:
        r = self.random
        at = r.randrange(len(self.values))
        kind = r.randrange(3)
        if kind == 0:
            (self.values[at],) = persist(self.values[at])
        elif kind == 1:
            self.values[at] = submit(given, self.values[at])
        else:
            self.values.append(put(self.literal()))

    def literal(self) -> Any:
        return self.random.choice(LITERALS)(self.random)

    def argument(self, depth: int = 0) -> Any:
        r = self.random
        chance = r.random()
        if self.values and chance < 0.55:
            return r.choice(self.values)
        if depth < 2 and chance < 0.75:
            more = [self.argument(depth + 1) for _ in range(2)]
            return r.choice([
                more, more[:1], {"k": more[0], "l": more[1]}, tuple(more), Pair(*more),
                Point(*more),
            ])
        return self.literal()

    def call(self) -> Any:
        r, argument = self.random, self.argument
        kinds: list[Any] = [
            lambda: delayed(given)(*(argument() for _ in range(r.randrange(4))),
                                   **{c: argument() for c in r.sample("abc", r.randrange(3))}),
            lambda: delayed(three)(argument(), z=argument()),
            lambda: delayed(three)(argument(), argument()),
            lambda: delayed(array)(r.choice([5, 100, 9_000, 200_000]),
                                   dtype=r.choice(["f8", "i4"]), by=r.randrange(5)),
            lambda: delayed(total)(argument()),
            lambda: delayed(two, nout=2)(argument())[r.randrange(2)],
            lambda: delayed(lazy)(argument()),
            lambda: delayed(nested)(argument()),
            lambda: delayed(edited, mutates=True)(argument()),
            lambda: delayed(list)(delayed(generated)(r.randrange(5))),
            lambda: delayed(Point)(argument(), y=argument()),
            lambda: delayed(Point)(1, argument()).plus(argument(), times=r.randrange(4)),
            lambda: delayed(Scaled)(r.randrange(4)).method(argument(), argument()),
            lambda: delayed(lambda x, k=1: {"x": x, "k": k})(argument(), k=argument()),
            lambda: delayed(functools.partial(three, z=r.randrange(4)))(argument()),
            lambda: delayed(given, pure=True)(r.randrange(3), q=r.randrange(3)),
            lambda: delayed([argument(), argument()]),
            lambda: delayed(Scaled(r.randrange(3)))(argument()),
            lambda: delayed(failing if r.random() < 0.15 else total)(argument()),
        ]
        return r.choice(kinds)()


def plain(value: Any) -> Any:
    """Return something that compares by content."""
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, tuple | list):
        return type(value).__name__, [plain(x) for x in value]
    if isinstance(value, dict):
        return {k: plain(x) for k, x in value.items()}
    if isinstance(value, Point):
        return "Point", plain(value.x), plain(value.y)
    if isinstance(value, BaseException):
        return "error", type(value).__name__, str(value)
    return value


def results(seed: int, scheduler: str, keeps: bool) -> Any:
    with config.set(scheduler=scheduler, num_workers=2):
        outputs = Program(seed, keeps).outputs
        return [plain(v) for v in compute(*outputs, on_error="collect", timeout=PATIENCE)]


def check(scheduler: str, seeds: range, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "lazyflow")  # failed values that nobody looks at
    for seed in seeds:
        keeps = seed % 2 == 0
        expected = results(seed, "sync", keeps)
        assert repr(results(seed, scheduler, keeps)) == repr(expected), f"seed {seed}"


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_random_programs(scheduler: str, caplog: pytest.LogCaptureFixture) -> None:
    check(scheduler, range(150), caplog)


@pytest.mark.parametrize("engine", [DISTRIBUTED, RAY])
def test_random_programs_on_an_engine(engine: str, caplog: pytest.LogCaptureFixture) -> None:
    with local_client() if engine == "distributed" else nullcontext():
        check(engine, range(12), caplog)
    lazyflow.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_many_random_programs(scheduler: str, caplog: pytest.LogCaptureFixture) -> None:
    check(scheduler, range(1_000, 6_000), caplog)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [DISTRIBUTED])
def test_more_random_programs_on_an_engine(engine: str, caplog: pytest.LogCaptureFixture) -> None:
    try:
        check(engine, range(12, 60), caplog)
    finally:
        lazyflow.shutdown()
