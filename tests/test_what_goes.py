"""Nothing of a program is kept that the program has let go of, whatever was done with it.

A server defines classes and functions at every request, each with what it closes over.
"""

import collections
import dataclasses
import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from waiting import until

import lazyflow
import lazyflow.array as la
from lazyflow import actor, compute, config, delayed, persist, put, submit
from lazyflow.api.evaluate import observers

PATIENCE = 20.0  # seconds

SCHEDULERS = ["sync", "threads", "processes"]


def kinds(big: np.ndarray) -> dict[str, Any]:
    """Return classes, and objects of them, that hold an array."""

    class Plain:
        held = big

        def me(self) -> Any:
            return self

        def __call__(self, *_: Any) -> int:
            return len(self.held)

    @dataclasses.dataclass
    class Data:
        x: int = 1

        def me(self) -> Any:
            return big

    class Error(Exception):
        held = big

    class Pair(collections.namedtuple("Pair", "a b")):
        held = big

    class Words(dict):
        held = big

    class Rows(np.ndarray):
        held = big

    return {
        "class": Plain(), "dataclass": Data(), "error": Error("x"), "tuple": Pair(1, 2),
        "dict": Words(a=1), "array": np.ones(3).view(Rows), "function": lambda *_: len(big),
    }


def fails(error: BaseException) -> None:
    raise error


def tried(error: Any) -> None:
    if isinstance(error, BaseException):
        with pytest.raises(Exception, match="x"):
            compute(delayed(fails)(error))


def constructed(thing: Any) -> None:
    if type(thing).__name__ == "Plain":
        compute(delayed(type(thing))())
        assert actor(type(thing))().me().result() is not None


def with_mutation_checked(thing: Any) -> None:
    with config.set(check_mutation=True):
        compute(delayed(bool)(thing is None), delayed(type)(thing))


def profiled(thing: Any) -> None:
    with lazyflow.profile():
        compute(delayed(type)(thing))


USES: dict[str, Callable[[Any], Any]] = {
    "argument": lambda x: compute(delayed(type)(x)),
    "in containers": lambda x: compute(delayed(len)([x, {"a": (x,)}])),
    "result": lambda x: compute(delayed(lambda: x)()),
    "persisted": lambda x: compute(persist(delayed(lambda: x)())),
    "submitted": lambda x: submit(lambda y: y, x).result(),
    "put": lambda x: compute(delayed(type)(put(x))),
    "called": lambda x: compute(delayed(x)()) if callable(x) else None,
    "raised": tried,
    "constructed": constructed,
    "mapped": lambda x: [f.result() for f in lazyflow.map(lambda y: 1, [x])],
    "closed over by blocks": lambda x: la.ones(4, chunks=2).map_blocks(
        lambda b: b * (x is not None)).compute(),
    "reduced": lambda x: compute(lazyflow.tree_reduce(lambda a, b: a, [x, x, x])),
    "checked": with_mutation_checked,
    "profiled": profiled,
    "named by its value": lambda x: compute(delayed(type, pure=True)(x)),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("use", USES)
def test_what_was_used_goes(scheduler: str, use: str) -> None:
    kept = []
    with config.set(scheduler=scheduler):
        for kind in kinds(np.ones(10)):
            big = np.ones(10)
            thing = kinds(big)[kind]
            gone = [weakref.ref(big)]
            del big
            if kind != "function":
                gone.append(weakref.ref(type(thing)))
            USES[use](thing)
            del thing
            kept.append((kind, gone))
        compute(delayed(int)())  # the last run may be held until the next

        def left() -> list[str]:
            gc.collect()
            return [kind for kind, gone in kept if any(each() is not None for each in gone)]

        assert until(lambda: not left(), PATIENCE), left()


@pytest.mark.parametrize("has_weak_references", [True, False])
def test_an_observer_that_raised_goes(has_weak_references: bool, monkeypatch: Any) -> None:
    """One without weak references is held: it must not be called again."""
    calls: list[Any] = []
    said: list[str] = []
    # A handler would keep the error, and with it the observer.
    monkeypatch.setattr(
        logging.getLogger("lazyflow"), "log", lambda level, text, *_, **__: said.append(text))

    class Slotted:
        __slots__ = ("held",)
        task_started = task_ended = task_ran = run_ended = lambda *_: None

        def run_started(self, run: Any) -> None:
            calls.append(run)
            raise ValueError("noisy")

    class Noisy(Slotted):
        """Its objects have a dict, and weak references."""

    observer, held = Noisy() if has_weak_references else Slotted(), Level()
    observer.held = held
    gone = weakref.ref(held)
    token = observers.set((observer,))
    for _ in range(3):
        compute(delayed(int)())
    observers.reset(token)
    assert len(calls) == 1 and len(said) == 1 and "is not called again" in said[0]
    del observer, held, token
    calls.clear()
    gc.collect()
    assert (gone() is None) == has_weak_references


class Level:
    """Something that can be asked whether it is there."""


def claims_here(_: int) -> int:
    """Return how many claims the worker has that this runs in."""
    from lazyflow.schedulers.processes.worker.task_worker import TaskWorker

    (worker,) = [each for each in gc.get_objects() if type(each) is TaskWorker]
    return len(worker.claims)


def test_workers_forget_the_batches_that_they_had() -> None:
    on: dict[str, Any] = {"scheduler": "processes", "num_workers": 2}
    for _ in range(300):
        compute([delayed(int)(i) for i in range(4)], **on)
    assert max(compute([delayed(claims_here)(i) for i in range(8)], **on)[0]) < 140
