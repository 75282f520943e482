"""Futures as people know them from other libraries: status, retry, as_completed, gather."""

import asyncio
import concurrent.futures
import gc
import operator
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_schedulers import CONCURRENT, SCHEDULERS
from waiting import until

import lazyflow
import lazyflow.array as la
from lazyflow import Future, TaskTimeout, as_completed, config, delayed, submit, wait
from lazyflow.testing.signals import Gate

PATIENCE = 20.0  # seconds


@pytest.fixture(params=SCHEDULERS)
def scheduler(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.set(scheduler=request.param, num_workers=2):
        yield request.param


@pytest.fixture(params=CONCURRENT)
def scheduled(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.set(scheduler=request.param, num_workers=2):
        yield request.param


def opened(gate: Gate, value: Any = None) -> Any:
    assert gate.wait(PATIENCE)
    return value


def below_three(block: Any) -> Any:
    assert np.max(block, initial=0) < 3
    return block


def raising(*_: Any) -> Any:
    raise KeyError("what the task raised")


def failing_at_first(path: str, x: int) -> int:
    try:
        open(path, "x").close()
    except FileExistsError:
        return x
    raise OSError("at first")


def test_status(scheduled: str) -> None:
    gate = Gate()
    fs = [submit(abs, -1), submit(raising), submit(opened, gate), submit(opened, gate)]
    assert isinstance(fs[1].exception(), KeyError)
    assert fs[0].result() == 1
    fs[3].cancel()
    assert [f.status for f in fs] == ["finished", "error", "pending", "cancelled"]
    gate.open()
    assert fs[2].result() is None


def test_retry_runs_what_failed_again_and_what_it_needs(scheduler: str, tmp_path: Path) -> None:
    first = submit(failing_at_first, str(tmp_path / "a"), 5)
    second = submit(operator.add, [0][0], first)
    other = submit(operator.neg, second)
    with pytest.raises(OSError, match="at first"):
        other.result()
    other.retry()
    assert (other.result(), second.result(), first.result()) == (-5, 5, 5)
    assert {f.status for f in (first, second, other)} == {"finished"}
    assert concurrent.futures.wait([first, second, other], PATIENCE).not_done == set()
    other.retry()  # it has not failed
    assert other.result() == -5


def test_a_retried_future_can_fail_again(scheduler: str) -> None:
    f = submit(raising)
    for _ in range(2):
        with pytest.raises(KeyError):
            f.result()
        f.retry()
    assert isinstance(f.exception(), KeyError) and f.status == "error"


def test_what_cant_be_retried_says_why() -> None:
    gate = Gate()
    with config.set(scheduler="threads"):
        running = submit(opened, gate, -1)
        cancelled = submit(abs, running)
        cancelled.cancel()
        with pytest.raises(ValueError, match=r"a cancelled future can't be retried.* Make the"):
            cancelled.retry()
        gate.open()
        running.result()


def test_a_finished_future_keeps_no_argument() -> None:
    class Thing:
        pass

    thing = Thing()
    known = weakref.ref(thing)
    f = submit(lambda _: 1, thing)
    assert f.result() == 1
    del thing
    assert until(lambda: gc.collect() >= 0 and known() is None, PATIENCE)


@pytest.mark.parametrize("batch", ["auto", 2])
def test_map_with_retries(scheduler: str, batch: Any, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "abc"]
    fs = lazyflow.map(failing_at_first, paths, range(3), retries=2, batch=batch)
    assert [f.result() for f in fs] == [0, 1, 2]


@pytest.mark.parametrize("word", ["retries", "priority", "workers", "resources"])
def test_an_option_given_to_submit_says_where_it_goes(word: str) -> None:
    with pytest.raises(TypeError, match=rf"submit\(delayed\(add, {word}=5\), \.\.\.\)"):
        submit(operator.add, 1, 2, **{word: 5})
    assert submit(lambda **given: given, **{word: 5}).result() == {word: 5}


def test_a_lazy_value_is_submitted_as_it_is(scheduler: str) -> None:
    f = submit(delayed(operator.add)(1, submit(abs, -2)))
    assert isinstance(f, Future) and f.result() == 3
    with pytest.raises(TypeError, match=r"takes no arguments.*compute\(x\)"):
        submit(delayed(abs)(-1), 2)


def test_as_completed_takes_more_meanwhile(scheduler: str) -> None:
    ended = as_completed([submit(abs, -3)], with_results=True)
    found = []
    assert (ended.count(), ended.is_empty()) == (1, False)
    for _, x in ended:
        found.append(x)
        if x > 1:
            ended.add(submit(abs, 1 - x))
    assert found == [3, 2, 1]
    assert (ended.count(), ended.is_empty(), ended.has_ready()) == (0, True, False)
    ended.update(lazyflow.map(abs, [-1, -2]))
    assert sorted(x for batch in ended.batches() for _, x in batch) == [1, 2]


def test_as_completed_awaited(scheduled: str) -> None:
    gates = [Gate(), Gate()]

    async def main() -> list[Any]:
        fs = [submit(opened, gate, i) for i, gate in enumerate(gates)]
        found = []
        gates[1].open()
        async for _, x in as_completed(fs, with_results=True):
            found.append(x)
            gates[0].open()
        return found

    assert asyncio.run(main()) == [1, 0]


def test_as_completed_awaited_in_time_only() -> None:
    gate = Gate()

    async def main() -> None:
        async for _ in as_completed([submit(opened, gate)], timeout=0.01):
            raise AssertionError

    with config.set(scheduler="threads"), pytest.raises(TaskTimeout, match=r"no result of opened"):
        asyncio.run(main())
    gate.open()


def test_cleared_futures_do_not_come(scheduled: str) -> None:
    gate = Gate()
    first = submit(opened, gate, 1)
    ended = as_completed([first])
    ended.clear()
    gate.open()
    assert first.result() == 1
    assert list(ended) == []


def test_gather(scheduler: str) -> None:
    fs = [submit(abs, -1), submit(raising), submit(abs, -2)]
    assert lazyflow.gather({"a": fs[0], "b": [fs[2]]}) == {"a": 1, "b": [2]}
    with pytest.raises(KeyError):
        lazyflow.gather(fs)
    assert lazyflow.gather(fs, errors="skip") == [1, 2]
    x = la.arange(1, 5, chunks=2)
    kept = lazyflow.persist(x, x.map_blocks(below_three, dtype=int))
    first, array, last = lazyflow.gather([fs[0], *kept, fs[2]], errors="skip")
    assert (first, array.tolist(), last) == (1, [1, 2, 3, 4], 2)
    with pytest.raises(ValueError, match="errors must be 'raise' or 'skip'; got 'x'"):
        lazyflow.gather(fs, errors="x")


def test_two_futures_to_wait_for_are_a_list() -> None:
    with pytest.raises(TypeError, match=r"wait\(\) takes one list .* wait\(\[a, b\]\)"):
        wait(submit(abs, -1), submit(abs, -2))  # type: ignore[arg-type]
