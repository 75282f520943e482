"""The last step of a reduction: small and the library's own, it is run by who waits for it."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import lazyflow
import lazyflow.array as la
from lazyflow.api.evaluate import observers
from lazyflow.schedulers.core.base import Observer

ON: dict[str, Any] = {"scheduler": "processes", "num_workers": 2}


class Notes(Observer):
    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def run_started(self, run: Any) -> None:
        self.told.append(("run", len(run.plan)))

    def task_started(self, run: Any, i: int) -> None:
        self.told.append(("started", i))

    def task_ended(self, run: Any, i: int) -> None:
        self.told.append(("ended", i))

    def task_ran(self, run: Any, i: int, worker: str, *rest: Any) -> None:
        self.told.append(("ran", i, worker))

    def task_failed(self, run: Any, i: int, error: BaseException) -> None:
        self.told.append(("failed", i))

    def run_ended(self, run: Any) -> None:
        self.told.append(("over",))


@contextmanager
def observing(notes: Notes) -> Iterator[None]:
    token = observers.set((notes,))
    try:
        yield
    finally:
        observers.reset(token)


def blocks(*values: float) -> la.Array:
    return la.from_array(np.array(values, float), chunks=1).map_blocks(lambda b: b * 1, dtype=float)


def test_observers_hear_of_a_merge_as_of_any_task() -> None:
    x = blocks(1, 2, 3, 4)
    notes = Notes()
    with observing(notes):
        assert x.sum().compute(**ON) == 10
    (_, count), *told, last = notes.told
    merge = count - 1
    here = threading.current_thread().name
    assert told[-3:] == [("started", merge), ("ran", merge, here), ("ended", merge)]
    assert last == ("over",)
    others = [note[2] for note in told if note[0] == "ran" and note[1] != merge]
    assert others and all(name.startswith("process ") for name in others)


def test_only_a_small_merge_of_the_librarys_own_leaves_the_workers() -> None:
    x = la.from_array(np.ones((8, 30_000)), chunks=(1, 30_000))
    own = la.reduction(
        x[:2], lambda b, **how: b.sum(**how), lambda b, **how: b.sum(**how) * 0 + os.getpid(),
        dtype=float,
    )
    where = {}
    for name, made in {"large": x.sum(axis=0), "own": own, "small": x.sum(axis=1).sum()}.items():
        notes = Notes()
        with observing(notes):
            found = made.compute(**ON)
        if name == "own":
            assert found != os.getpid()
        where[name] = {note[2].startswith("process ") for note in notes.told if note[0] == "ran"}
    assert where == {"large": {True}, "own": {True}, "small": {True, False}}


def test_more_parts_than_one_task_merges() -> None:
    x = np.random.default_rng(0).random((50, 3))
    y = la.from_array(x, chunks=(1, 3))
    for made in (y.sum(), y.std(axis=0), y.max()):
        np.testing.assert_array_equal(made.compute(**ON), made.compute(scheduler="sync"))


def test_what_is_merged_can_be_an_output_or_an_input_as_well() -> None:
    x = blocks(1, 2, 3)
    total = x.sum()
    found = lazyflow.compute(total, total / 2, x, x.mean(), **ON)
    assert found[0] == 6 and found[1] == 3 and found[3] == 2
    np.testing.assert_array_equal(found[2], [1, 2, 3])


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_an_error_in_a_merge_is_that_of_a_task(scheduler: str) -> None:
    x = blocks(1.7e308, 1.7e308)
    notes = Notes()
    with np.errstate(over="raise"), observing(notes):
        with pytest.raises(FloatingPointError, match="overflow") as caught:
            x.sum().compute(scheduler=scheduler)
        (kept,) = lazyflow.compute(x.sum(), scheduler=scheduler, on_error="collect")
    assert type(kept) is FloatingPointError and str(kept) == str(caught.value)
    assert "sum-merge" in caught.value.__notes__[0] and __file__ in caught.value.__notes__[0]
    assert [note[0] for note in notes.told].count("failed") == 2
    assert [note[0] for note in notes.told].count("over") == 2


def test_what_a_merge_needs_fails() -> None:
    def fail(b: Any) -> Any:
        raise ValueError("block")

    x = la.from_array(np.ones(4), chunks=1).map_blocks(fail, dtype=float)
    with pytest.raises(ValueError, match="block"):
        x.sum().compute(**ON)
    (kept,) = lazyflow.compute(x.sum(), **ON, on_error="collect")
    assert type(kept) is ValueError
