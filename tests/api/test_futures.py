"""Futures, the same on every scheduler: submit, map, put, as_completed."""

import asyncio
import concurrent.futures
import gc
import operator
import pickle
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from engine_schedulers import CONCURRENT, ELSEWHERE, SCHEDULERS
from waiting import until

import lazyflow
from lazyflow import (
    Cancelled,
    Future,
    LazyflowWarning,
    SerializationError,
    TaskTimeout,
    as_completed,
    compute,
    config,
    delayed,
    persist,
    put,
    submit,
    wait,
)
from lazyflow.interrupts import _Bell
from lazyflow.schedulers import sync
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


def raising(*_: Any) -> Any:
    raise KeyError("what the task raised")


# -- submit ---------------------------------------------------------------------------------


def test_a_submitted_call_gives_its_result(scheduler: str) -> None:
    future = submit(divmod, 17, 5)
    assert isinstance(future, Future)
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(PATIENCE) == (3, 2)
    assert (future.done(), future.cancelled(), future.running()) == (True, False, False)
    assert future.exception() is None
    assert submit(sorted, [3, 1, 2], reverse=True).result() == [3, 2, 1]
    assert repr(future) == "<Future divmod: finished>"


def test_futures_and_lazy_values_mix_at_any_depth(scheduler: str) -> None:
    one, two = submit(abs, -1), delayed(abs)(-2)
    assert submit(str, {"a": [one, (two,)], "b": one}).result() == "{'a': [1, (2,)], 'b': 1}"
    assert compute(one, [two, {"x": one}], delayed(operator.add)(one, two)) == (1, [2, {"x": 1}], 3)
    assert submit(operator.add, submit(operator.add, one, two), persist(two)[0]).result() == 5
    assert delayed([one, two]).compute() == [1, 2]


def submitted(func: Any, *args: Any) -> Any:
    return submit(func, *args)


def persisted(func: Any, *args: Any) -> Any:
    return persist(delayed(func)(*args))[0]


@pytest.mark.parametrize("begin", [submitted, persisted])
def test_a_future_that_a_task_returns_is_its_value(scheduler: str, begin: Any) -> None:
    numbers = delayed(begin)(sorted, [3, 1])
    assert compute(numbers, delayed(sum)(numbers)) == ([1, 3], 4)
    numbers.compute().append(5)
    assert submit(begin, np.arange, 3).result().tolist() == [0, 1, 2]
    assert [f.result() for f in lazyflow.map(begin, [abs, abs], [-1, -2])] == [1, 2]
    with pytest.raises(KeyError, match="what the task raised") as caught:
        delayed(begin)(raising).compute()
    assert f"in lazyflow task {raising.__name__}(), made at " in "".join(caught.value.__notes__)


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_future_inside_a_result_is_refused_by_name(elsewhere: str) -> None:
    with config.set(scheduler=elsewhere), pytest.raises(
        SerializationError, match=r"(?s)\[0\] of task listed.* take future\.result\(\)"
    ):
        delayed(lambda: [submit(abs, -1)], name="listed")().compute()


def counted(n: int) -> Any:
    yield from range(n)


def test_the_result_of_a_generator_function(scheduler: str) -> None:
    future = submit(counted, 3)
    assert [list(future.result()) for _ in range(2)] == [[0, 1, 2]] * 2


def test_options_of_a_delayed_function_hold(scheduler: str) -> None:
    a, b = submit(delayed(divmod, nout=2), 17, 5)
    assert (a.result(), b.result()) == (3, 2)
    x = np.zeros(3)
    assert submit(delayed(fill, mutates=True), put(x)).result().tolist() == [1, 1, 1]
    assert x.tolist() == [0, 0, 0]


def fill(x: Any) -> Any:
    x[:] = 1
    return x


def test_an_error_keeps_its_type_its_place_and_its_note(scheduler: str) -> None:
    future = submit(raising, 1)
    for _ in range(2):
        with pytest.raises(KeyError, match="what the task raised") as caught:
            future.result()
        assert [f.name for f in caught.traceback][-1] == "raising"
        (note,) = caught.value.__notes__
        assert f"in lazyflow task raising(1), made at {__file__}:" in note
    assert isinstance(future.exception(), KeyError)
    with pytest.raises(KeyError):
        submit(abs, future).result()
    with pytest.raises(KeyError):
        compute(future)


@pytest.mark.parametrize("batch", ["auto", 2])
def test_an_error_of_map_names_the_line_that_called_it(batch: Any) -> None:
    first, _ = lazyflow.map(raising, [1, 2], batch=batch)
    with pytest.raises(KeyError) as caught:
        first.result()
    (note,) = caught.value.__notes__
    assert f"made at {__file__}:" in note
    assert note.endswith(" in test_an_error_of_map_names_the_line_that_called_it")


def test_a_timeout_leaves_the_work_alone(scheduled: str) -> None:
    gate = Gate()
    future = submit(opened, gate, 5)
    with pytest.raises(TaskTimeout, match=r"opened has no result after 0.05 s; its work continues"):
        future.result(timeout=0.05)
    with pytest.raises(TimeoutError):
        future.exception(timeout=0)
    gate.open()
    assert future.result(PATIENCE) == 5


def test_cancelled_before_it_began(scheduled: str) -> None:
    gate = Gate()
    first = submit(opened, gate, 1)
    second = submit(abs, first)
    assert second.cancel()
    assert (second.cancelled(), second.done(), second.cancel()) == (True, True, False)
    with pytest.raises(Cancelled):
        second.result()
    gate.open()
    assert first.result(PATIENCE) == 1
    assert not first.cancel()


def test_what_was_submitted_runs_though_nobody_holds_it(scheduled: str) -> None:
    begun, end = Gate(), Gate()
    submit(opened, begun).add_done_callback(lambda _: end.open())
    gc.collect()
    begun.open()
    assert end.wait(PATIENCE)


@pytest.mark.parametrize("timeout", [float("inf"), 1e300, 1e8])
def test_a_timeout_may_be_of_any_length(
    scheduled: str, timeout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep, sleep = Gate(), _Bell.sleep

    def telling(bell: _Bell, timeout: float | None) -> None:
        asleep.open()
        sleep(bell, timeout)

    monkeypatch.setattr(_Bell, "sleep", telling)
    assert submit(asleep.wait).result(timeout=timeout) is True


def test_a_dropped_future_frees_its_value(scheduled: str) -> None:
    future = put(np.zeros(1_000_000)) if scheduled == "processes" else submit(Value)
    future.result()
    if scheduled == "processes":
        assert until(  # the pool's thread hears of it soon
            lambda: lazyflow.schedulers.info()["processes"]["shared_bytes"] >= 8_000_000
        )
        del future
        gc.collect()
        assert until(
            lambda: lazyflow.schedulers.info()["processes"]["shared_bytes"] < 8_000_000
        )
    else:
        reference = weakref.ref(future.result())
        del future
        gc.collect()
        assert until(lambda: reference() is None)


class Value:
    pass


def test_a_pickled_future_says_what_to_do(scheduler: str) -> None:
    future = submit(abs, -1)
    with pytest.raises(SerializationError, match=r"Pass it as an argument"):
        pickle.dumps(future)


def test_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match=r"got int as the function. Did you write submit\(f\(x\)\)"):
        submit(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="map\\(\\) needs items"):
        lazyflow.map(abs)
    with pytest.raises(ValueError, match="batch must be 'auto' or a whole number"):
        lazyflow.map(abs, [1], batch=0)
    with pytest.raises(TypeError, match="sets its outcome"):
        submit(abs, 1).set_result(3)


# -- the standard library -------------------------------------------------------------------


def test_the_standard_librarys_wait_and_as_completed(scheduler: str) -> None:
    futures = [*lazyflow.map(abs, range(-5, 0)), submit(raising)]
    done, pending = concurrent.futures.wait(futures, timeout=PATIENCE)
    assert (done, pending) == (set(futures), set())
    assert set(concurrent.futures.as_completed(futures, PATIENCE)) == set(futures)
    first, _ = concurrent.futures.wait(
        [submit(raising)], PATIENCE, concurrent.futures.FIRST_EXCEPTION
    )
    assert len(first) == 1


def test_callbacks_may_compute_and_wait(scheduler: str) -> None:
    heard: list[Any] = []
    told = threading.Event()

    def callback(future: Any) -> None:
        heard.append(submit(abs, future).result() + compute(delayed(abs)(future))[0])
        told.set()

    for future in (submit(abs, -3), put(-3)):
        told.clear()
        future.add_done_callback(callback)
        assert told.wait(PATIENCE)
    assert heard == [6, 6]


def test_awaited(scheduler: str) -> None:
    async def main() -> Any:
        with pytest.raises(KeyError):
            await submit(raising)
        return await asyncio.gather(*lazyflow.map(abs, [-1, -2]), put([3]))

    assert asyncio.run(main()) == [1, 2, [3]]


def test_who_awaits_a_future_and_gives_up_leaves_the_work(scheduled: str) -> None:
    gate = Gate()
    first = submit(opened, gate)
    second = submit(str, first)

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(second, 0.05)

    asyncio.run(main())
    assert not second.done()
    gate.open()
    assert second.result(PATIENCE) == str(first.result(PATIENCE))


# -- map, as_completed, wait ----------------------------------------------------------------


@pytest.mark.parametrize("batch", ["auto", 1, 3, 100])
def test_map_is_the_builtins(scheduler: str, batch: Any) -> None:
    futures = lazyflow.map(pow, range(10), [2] * 8, batch=batch)
    assert [f.result() for f in futures] == [i**2 for i in range(8)]
    assert lazyflow.map(abs, [], batch=batch) == []
    lazies = lazyflow.map(operator.add, [submit(abs, -1), delayed(2)], [1, 1], batch=batch)
    assert [f.result() for f in lazies] == [2, 3]


@pytest.mark.parametrize("batch", ["auto", 2])
def test_map_keeps_the_options_of_the_function(batch: Any) -> None:
    own = delayed(abs, workers="w3", name="size")
    with pytest.raises(ValueError, match=r"size.* asks for workers=\['w3'\]"):
        lazyflow.map(own, [-1, -2], batch=batch, scheduler="threads")


@pytest.mark.parametrize("batch", ["auto", 2])
def test_calls_of_map_share_nothing_that_they_edit(scheduler: str, batch: Any) -> None:
    def with_one(given: Any) -> Any:
        given += [1]
        return given

    for shared in ([0], lazyflow.put([0])):
        own = delayed(with_one, mutates=True)
        assert [f.result() for f in lazyflow.map(own, [shared] * 3, batch=batch)] == [[0, 1]] * 3
    whole = delayed(lambda x: type(x).__name__, traverse=False)
    found = lazyflow.map(whole, [delayed(1), submit(abs, -1), 2], batch=batch)
    assert [f.result() for f in found] == ["int"] * 3


def test_as_completed_gives_them_as_they_come(scheduled: str) -> None:
    gate = Gate()
    late = submit(opened, gate, "late")
    early = persist(delayed(abs)(-1))[0]
    coming = as_completed([late, early, late])
    assert next(coming) is early
    gate.open()
    assert [x is late for x in coming] == [True]
    pairs = dict(as_completed(lazyflow.map(abs, [-1, -2]), with_results=True))
    assert sorted(pairs.values()) == [1, 2]
    with pytest.raises(KeyError):
        list(as_completed([submit(raising)], with_results=True))


def test_as_completed_in_time_only(scheduled: str) -> None:
    gate = Gate()
    future = submit(opened, gate)
    with pytest.raises(TaskTimeout, match="opened"):
        list(as_completed([future], timeout=0.05))
    assert not future.done()
    gate.open()
    assert list(as_completed([future], timeout=PATIENCE)) == [future]
    assert list(as_completed([])) == []


def test_wait_takes_futures_and_persisted_values(scheduled: str) -> None:
    gate = Gate()
    fs: list[Any] = [submit(opened, gate), submit(abs, 1), persist(delayed(abs)(2))[0]]
    assert wait(fs, num_returns=2, timeout=PATIENCE) == ([fs[1], fs[2]], [fs[0]])
    assert wait(fs, timeout=0.02) == ([fs[1], fs[2]], [fs[0]])
    gate.open()
    assert wait(fs) == (fs, [])
    with pytest.raises(TypeError, match="only futures and values that persist"):
        wait([delayed(abs)(1)])


# -- put ------------------------------------------------------------------------------------


def test_put_takes_a_snapshot(scheduler: str) -> None:
    array, items = np.arange(200_000.0), [1, [2]]
    a, b = put(array), put(items)
    array[:] = -1
    items[1].append(3)  # type: ignore[union-attr]
    assert submit(np.sum, a).result() == sum(range(200_000))
    assert (b.result(), submit(str, b).result()) == ([1, [2]], "[1, [2]]")
    mine = a.result()
    mine[0] = 7  # the caller's own
    assert a.result()[0] == 0
    assert put(a) is a


@pytest.mark.parametrize("on", ["sync", "threads"])
def test_put_without_a_copy(on: str) -> None:
    class Uncopyable:
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("no copies")

    thing = Uncopyable()
    with pytest.raises(TypeError, match=r"can't be copied: TypeError: no copies.*copy=False"):
        put(thing, scheduler=on)
    future = put(thing, copy=False, scheduler=on)
    assert submit(id, future).result() == id(thing)
    array = np.zeros(10)
    with pytest.raises(ValueError, match="read-only"):
        submit(fill, put(array, copy=False, scheduler=on)).result()


@pytest.mark.parametrize("on", ELSEWHERE)
def test_put_of_what_cant_be_pickled(on: str) -> None:
    with pytest.raises(SerializationError, match=r"value.lock of task put\(Locked\), at "):
        put(Locked(), scheduler=on)


class Locked:
    def __init__(self) -> None:
        self.lock = threading.Lock()


def address(x: Any) -> tuple[bool, bool]:
    return x.flags.writeable, x.flags.owndata


def test_put_on_processes_is_one_copy_that_all_read() -> None:
    with config.set(scheduler="processes", num_workers=2):
        submit(abs, 1).result()
        before = lazyflow.schedulers.info()["processes"]
        x = put(np.ones(1_000_000))
        assert {f.result() for f in lazyflow.map(address, [x] * 20)} == {(False, False)}
        after = lazyflow.schedulers.info()["processes"]
        assert after["shared_bytes"] - before["shared_bytes"] == 8_000_000
        assert after["through_parent_bytes"] - before["through_parent_bytes"] < 10_000


def test_what_was_put_outlives_the_workers_and_the_name() -> None:
    """A value made of it is made again from it, though the caller has dropped it."""
    with config.set(scheduler="processes", num_workers=2):
        x = put(np.ones(100_000))
        (y,) = persist(delayed(np.add)(x, 1))
        wait(y)
        del x
        gc.collect()
        for worker in lazyflow.schedulers.info()["processes"]["workers"]:
            submit_kill(worker["pid"])
        assert compute(y)[0].sum() == 200_000


def submit_kill(pid: int) -> None:
    import os
    import signal

    os.kill(pid, signal.SIGKILL)


def test_what_was_put_outlives_the_pool() -> None:
    x = put(np.ones(100_000), scheduler="processes")
    lazyflow.shutdown()
    assert x.result().sum() == 100_000
    assert submit(np.sum, x).result() == 100_000


def total(theta: float, batch: Any) -> float:
    return theta + float(batch.sum())


def greatest(batch: Any) -> float:
    return float(batch.max())


@pytest.mark.filterwarnings("error")
def test_arrays_made_anew_with_the_same_values_are_not_one_that_is_sent_again() -> None:
    for _ in range(20):  # each most often in the place of the one before
        assert compute(delayed(greatest)(np.full(210_000, 2.0)), scheduler="processes") == (2.0,)


def test_a_large_argument_sent_again_and_again_is_named() -> None:
    batch = np.ones(200_000)
    with config.set(scheduler="processes"):
        with pytest.warns(LazyflowWarning) as told:
            for theta in range(5):
                assert compute(delayed(total)(theta, batch)) == (theta + 200_000,)
        (warning,) = told
        assert str(warning.message).startswith(
            "argument 'batch' of total, ndarray(200000,) float64, was copied for the workers by 3 "
            "computes, 1.6 MB each time. Put it there once, x = lazyflow.put(x)"
        )
        assert warning.filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x = put(batch)
            for theta in range(5):  # put, small, or another each time
                submit(total, theta, x).result()
                submit(total, theta, np.ones(100)).result()
                submit(total, theta, np.random.default_rng(theta).random(200_000)).result()


# -- sync ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
def test_sync_wakes_up_when_all_it_waits_for_is_made_by_others(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The values come while the caller sleeps, which has nothing to run itself."""
    gate = threading.Event()
    asleep = sync.asleep

    def then_open() -> Any:
        gate.set()
        return asleep()

    monkeypatch.setattr(sync, "asleep", then_open)
    held = persist(*[delayed(lambda i: gate.wait() and i)(i) for i in range(count)],
                   scheduler="threads")
    assert compute(*held, scheduler="sync") == tuple(range(count))
    gate.clear()
    late = persist(delayed(lambda: gate.wait() and 7)(), scheduler="threads")[0]
    lazy = delayed(lambda: late)()  # a task that returns what others are making
    assert compute(lazy, scheduler="sync") == (7,)
