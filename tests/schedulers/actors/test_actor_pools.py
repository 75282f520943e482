"""Pools of actors, and how many calls may be pending."""

import asyncio
import os
import signal
import threading
from collections import Counter as Counted
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from actor_examples import Counter, Plain
from waiting import until

from lazyflow import (
    ActorPool,
    Cancelled,
    WorkerDied,
    actor,
    config,
    delayed,
)
from lazyflow.testing.signals import Gate

PATIENCE = 20.0  # seconds

# -- pools ----------------------------------------------------------------------------------


def test_a_pool_keeps_order(scheduler: str) -> None:
    pool = ActorPool([Counter(), Counter()])
    assert list(pool.map(lambda a, x: a.total(x, 1), range(20))) == list(range(1, 21))
    unordered = pool.map_unordered(lambda a, x: a.total(x), range(20))
    assert sorted(unordered) == list(range(20))
    assert pool.submit(lambda a, x: a.total(x), 5).result() == 5


def test_a_pool_gives_work_to_who_is_free(scheduled: str) -> None:
    gate = Gate()
    pool = ActorPool([Counter(), Counter()])
    held = pool.submit(lambda a, g: a.wait_at(g), gate)
    others = [pool.submit(lambda a, x: a.total(x), i) for i in range(10)]
    assert [f.result() for f in others] == list(range(10))
    assert not held.done()
    first = next(pool.map_unordered(lambda a, x: a.total(x), [1]))
    gate.open()
    assert held.result() == "passed"
    assert first == 1


def test_errors_in_a_pool(scheduler: str) -> None:
    pool = ActorPool([Counter()])
    with pytest.raises(ValueError, match="no"):
        pool.submit(lambda a, x: a.fail(), 1).result()
    with pytest.raises(AttributeError, match="no method"):
        pool.submit(lambda a, x: a.nothing(), 1).result()
    with pytest.raises(TypeError, match="must return the future"):
        pool.submit(lambda a, x: 3, 1).result()
    assert pool.submit(lambda a, x: a.total(x), 2).result() == 2
    with pytest.raises(TypeError, match="takes handles of actors"):
        ActorPool([Plain()])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="pass at least one"):
        ActorPool([])


def results_of(mapped: Iterator[Any]) -> list[Any]:
    """Return what an iterator gives, with its errors in their places."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(mapped))
        except StopIteration:
            return found
        except Exception as error:
            found.append(error)


def shown(found: Iterable[Any]) -> list[Any]:
    return [type(x) if isinstance(x, Exception) else x for x in found]


def some_fail(actor: Any, x: int) -> Any:
    if x == 7:
        raise KeyError(x)  # in the place where calls are made
    return actor.fail() if x % 3 == 0 else actor.total(x)


def test_an_error_is_raised_in_the_place_of_its_result_and_the_rest_goes_on(scheduler: str) -> None:
    pool = ActorPool([Counter(), Counter()])
    expected = [ValueError if x % 3 == 0 else KeyError if x == 7 else x for x in range(12)]
    found = results_of(pool.map(some_fail, range(12)))
    assert shown(found) == expected
    unordered = results_of(pool.map_unordered(some_fail, range(12)))
    assert Counted(shown(unordered)) == Counted(expected)


def dies_at(wrong: int) -> Any:
    return lambda actor, k: actor.die("SIGKILL") if k == wrong else actor.total(k)


def test_a_call_that_has_ended_its_actor_before_its_caller_goes_on_was_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pool would make it again, with the next actor, which would end, too."""
    with config.set(scheduler="processes"):
        one = Counter.options(restarts=0)()
    assert one.total(1).result() == 1
    host = one._core.host
    post = host.port.post

    def post_and_wait(*step: Any) -> None:
        post(*step)
        assert until(lambda: host.is_over)

    monkeypatch.setattr(host.port, "post", post_and_wait)
    future = one.die("SIGKILL")
    with pytest.raises(WorkerDied, match="while it ran Counter.die"):
        future.result()
    assert not future._inner.was_refused


@pytest.mark.parametrize("restarts", [0, 1])
def test_an_actor_that_dies_loses_the_call_that_it_ran_and_no_other(
    remote: str, restarts: int
) -> None:
    pool = ActorPool([Counter.options(restarts=restarts)() for _ in range(2)])
    found = results_of(pool.map(dies_at(5), range(40)))
    expected = [WorkerDied if x == 5 else x for x in range(40)]
    assert shown(found) == expected, [str(x) for x in found]
    assert "Counter.die" in str(found[5])
    assert list(pool.map(lambda a, x: a.total(x), range(10))) == list(range(10))


def test_an_actor_that_died_when_it_was_free_loses_nothing(separate: str) -> None:
    first, second = Counter(), Counter()
    pool = ActorPool([first, second])
    pids = first.pid().result(), second.pid().result()
    os.kill(pids[0], signal.SIGKILL)
    assert list(pool.map(lambda a, x: a.total(x), range(20))) == list(range(20))
    os.kill(pids[1], signal.SIGKILL)
    found = results_of(pool.map(lambda a, x: a.total(x), range(4)))
    assert shown(found) == [WorkerDied] * 4
    assert all("can't be run" in str(error) for error in found)


def test_an_actor_that_is_known_to_be_dead_loses_nothing(separate: str) -> None:
    """Its calls fail before `submit` returns."""
    first, second = Counter(), Counter()
    pool = ActorPool([first, second])
    pids = first.pid().result(), second.pid().result()
    os.kill(pids[0], signal.SIGKILL)
    while not isinstance(first.total(0).exception(), WorkerDied):
        pass
    assert list(pool.map(lambda a, x: a.total(x), range(20))) == list(range(20))


def test_what_others_refused_is_done_when_the_pool_is_gone(processes: str) -> None:
    first, second, gate = Counter(), Counter(), Gate()
    pids = first.pid().result(), second.pid().result()
    pool = ActorPool([first, second])
    held = [pool.submit(lambda a, g: a.wait_at(g), gate)]
    os.kill(pids[1], signal.SIGKILL)
    last = pool.submit(lambda a, x: a.total(x), 3)
    del pool
    gate.open()
    assert held[0].result() == "passed"
    assert last.result(PATIENCE) == 3


# -- how many calls may be pending -----------------------------------------------------------


def made_in_a_thread(make: Any) -> tuple[threading.Thread, list[Any]]:
    """Start making calls in a thread, which may be held back; returns it and the futures."""
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.extend(make()), daemon=True)
    thread.start()
    return thread, made


def test_who_makes_too_many_calls_sleeps_until_some_have_ended(scheduled: str) -> None:
    counter, gate, begun = Counter(), Gate(), Gate()

    def make() -> Iterator[Any]:
        with config.set(max_pending_calls=3):
            yield counter.wait_at(gate, begun)
            for _ in range(20):
                yield counter.add()

    thread, made = made_in_a_thread(make)
    assert begun.wait()
    assert until(lambda: len(counter._core.pending._sleepers) == 1)
    assert len(made) == 3
    gate.open()
    thread.join(PATIENCE)
    assert [f.result() for f in made[1:]] == list(range(1, 21))
    assert counter.add(0).result() == 20
    assert until(lambda: not counter._core.pending._calls)


def test_calls_that_end_otherwise_make_room_too() -> None:
    with config.set(scheduler="threads", max_pending_calls=1):
        counter = Counter()
        for _ in range(3):
            with pytest.raises(ValueError, match="no"):
                counter.fail().result()
        gate, begun = Gate(), Gate()
        first = counter.wait_at(gate, begun)
        begun.wait()
        thread, made = made_in_a_thread(lambda: iter([counter.add()]))
        with config.set(max_pending_calls=3):
            second = counter.add()
        first.cancel()
        second.cancel()
        gate.open()
        thread.join(PATIENCE)
        assert made[0].result() == 301


def test_a_ctrl_c_ends_the_sleep_and_the_call_is_not_made(scheduled: str) -> None:
    counter, gate = Counter(), Gate()
    passed = counter.wait_at(gate)
    pending = counter._core.pending

    def interrupt() -> None:
        until(lambda: pending._sleepers)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt).start()
        with config.set(max_pending_calls=1), pytest.raises(KeyboardInterrupt):
            counter.add()
    finally:
        signal.signal(signal.SIGINT, before)
    gate.open()
    assert passed.result() == "passed"
    assert counter.add(0).result() == 0
    assert pending._sleepers == {}


@actor
class Caller:
    """Calls other actors, and itself, without waiting for them."""

    def call(self, other: Any, n: int) -> list[Any]:
        return [other.add() for _ in range(n)]

    def call_me(self, me: Any, n: int) -> list[Any]:
        return [me.call(None, 0) for _ in range(n)]


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_what_others_wait_for_is_not_held_back(scheduler: str) -> None:
    with config.set(scheduler=scheduler, max_pending_calls=1):
        caller, counter, gate = Caller(), Counter(), Gate()
        if scheduler == "sync":
            gate.open()
        first = counter.wait_at(gate)
        by_actor = caller.call(counter, 5).result()
        by_task = delayed(lambda: [counter.add() for _ in range(5)])().compute(scheduler="threads")
        gate.open()
        assert first.result() == "passed"
        assert [f.result() for f in (*by_actor, *by_task)] == list(range(1, 11))
        assert [f.result() for f in caller.call_me(caller, 3).result()] == [[], [], []]


def test_a_coroutine_is_not_held_back_and_a_cell_of_a_notebook_is() -> None:
    with config.set(scheduler="threads", max_pending_calls=2):
        counter, gate = Counter(), Gate()

        async def calls() -> list[int]:
            first = counter.wait_at(gate)
            made = [counter.add() for _ in range(5)]
            asyncio.get_running_loop().call_soon(lambda: made.append(counter.add()))
            await asyncio.sleep(0)
            gate.open()
            await first
            return [await f for f in made]

        assert asyncio.run(calls()) == [1, 2, 3, 4, 5, 6]

        async def kernel() -> None:  # as IPython runs a cell
            exec("for _ in range(9): counter.add()\nleft = len(counter._core.pending._calls)", cell)

        cell: dict[str, Any] = {"counter": counter}
        asyncio.run(kernel())
        assert cell["left"] <= 2
        assert counter.add(0).result() == 15


def test_a_pool_of_actors_takes_as_much_work_as_may_be_pending(scheduled: str) -> None:
    pool, gate = ActorPool([Counter()]), Gate()

    def make() -> Iterator[Any]:
        with config.set(max_pending_calls=2):
            yield pool.submit(lambda a, _: a.wait_at(gate), 0)
            for k in range(5):
                yield pool.submit(lambda a, x: a.add(x), k)

    thread, made = made_in_a_thread(make)
    assert until(lambda: len(pool._pending._sleepers) == 1)
    assert len(made) == 2
    gate.open()
    thread.join(PATIENCE)
    assert [f.result() for f in made[1:]] == [0, 1, 3, 6, 10]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("scheduler", ["threads", "distributed"], indirect=True)
def test_the_child_of_a_fork_is_not_held_back_by_calls_of_its_parent(scheduler: str) -> None:
    with config.set(max_pending_calls=1):
        counter, gate = Counter(), Gate()
        passed = counter.wait_at(gate)
        child = os.fork()
        if not child:
            signal.alarm(20)
            os._exit(7 if isinstance(counter.add().exception(), Cancelled) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        gate.open()
        assert passed.result() == "passed"
