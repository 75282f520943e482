"""Deaths, retries and time limits of tasks on processes."""

import gc
import os
import random
import signal
import sys
import threading
import time
import weakref
from collections import Counter
from typing import Any

import pytest
from fault_tools import (
    LIMIT,
    MARK,
    ON,
    marked,
)
from process_fault_tools import (
    around,
    check_death,
    line,
    meet,
)
from waiting import until

import lazyflow
from lazyflow import (
    TaskTimeout,
    WorkerDied,
    compute,
    config,
    delayed,
    persist,
    wait,
)
from lazyflow.testing.signals import Barrier, Gate, Tally, add, inc

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("nothing_left"),
]


# -- deaths and retries ---------------------------------------------------------------------


def test_kills_at_random() -> None:
    """A tree whose workers are killed as it grows, by somebody else: the sum is exact."""
    doomed = random.Random(7).sample(range(128), 12)
    struck, never = Tally(), Gate()

    def killer() -> None:
        for k in range(len(doomed)):
            assert until(lambda k=k: len(struck) > k, LIMIT)
            os.kill(struck.items()[k][1], signal.SIGKILL)

    def work(i: int) -> int:
        if i in doomed and i not in [other for other, _ in struck.items()]:
            struck.add([i, os.getpid()])
            never.wait(LIMIT)
        return i

    with lazyflow.annotate(crash_retries=1000):
        row: list[Any] = [delayed(work)(i) for i in range(128)]
        while len(row) > 1:
            row = [delayed(add)(a, b) for a, b in zip(row[::2], row[1::2], strict=True)]
        thread = threading.Thread(target=killer)
        thread.start()
        assert compute(row[0], **ON, timeout=LIMIT) == (sum(range(128)),)
        thread.join()
    assert sorted(i for i, _ in struck.items()) == sorted(doomed)


def test_retries_that_heal() -> None:
    tries = Tally()

    def flaky() -> int:
        number = tries.add(os.getpid())
        if number < 4:
            raise OSError(f"try {number}")
        return number

    assert compute(delayed(flaky, retries=3)(), **ON) == (4,)
    assert len(tries) == 4


@pytest.mark.parametrize("said", [None, 0, 1, 3])
def test_crash_retries(said: int | None) -> None:
    """Those of the task, else config's, which are 2; what did not run is never charged."""
    tries = Tally()
    wanted = 2 if said is None else said

    def dies(_: Any = None) -> int:
        if tries.add(os.getpid()) <= wanted:
            os._exit(3)
        return 5

    assert compute(delayed(dies, crash_retries=said)(), **ON) == (5,)
    assert len(tries) == wanted + 1

    again = Tally()

    def always(_: Any = None) -> None:
        again.add(os.getpid())
        os._exit(3)

    bad, at = delayed(always, name="bad", crash_retries=said)(), line()
    queued = delayed(inc, crash_retries=0)  # sent with the bad one, and not to blame
    error = around(bad, lambda i: queued(i))
    check_death(error, "exit code 3", wanted + 1, "bad", at)
    assert len(again) == wanted + 1


@pytest.mark.parametrize("own", [None, 1])
def test_crash_retries_hold_for_what_a_task_returned(own: int | None) -> None:
    """At any depth, where what it returned says nothing."""
    tries = Tally()

    def dies() -> None:
        tries.add(os.getpid())
        os._exit(3)

    def returns(depth: int) -> Any:
        if depth:
            return delayed(sum)([delayed(returns)(depth - 1)])
        return delayed(dies, crash_retries=own)()

    with lazyflow.annotate(crash_retries=4), pytest.raises(WorkerDied):
        compute(delayed(returns)(1), **ON)
    assert len(tries) == (5 if own is None else 2)


@pytest.mark.parametrize("scheduler", ["sync", "processes"])
def test_a_compute_in_a_task_keeps_nothing(scheduler: str) -> None:
    """Memory of other processes stayed mapped in an idle worker until its next such task."""

    class Argument:
        pass

    def task(fails: bool) -> bool:
        argument = Argument()
        alive = weakref.ref(argument)
        inner = delayed(lambda x: 1 / (not fails))(argument)
        assert compute(inner, on_error="collect", timeout=LIMIT)
        del argument, inner
        gc.collect()  # of an error, which leads to its frames
        return alive() is not None

    on = {"scheduler": scheduler, "num_workers": 1}
    assert compute([delayed(task)(fails) for fails in (False, True)], **on) == ([False, False],)


def test_crash_retries_of_the_pool() -> None:
    tries = Tally()

    def dies() -> None:
        tries.add(os.getpid())
        os._exit(3)

    with config.set(crash_retries=0):
        with pytest.raises(WorkerDied, match="given up after 1 attempt"):
            compute(delayed(dies)(), **ON)
    assert len(tries) == 1


def test_a_death_loses_no_finished_side_effect() -> None:
    """With crash_retries=0 nothing that ran is run again: its value is safe before the next."""
    ran = Tally()
    steps: list[Any] = []
    for i in range(6):
        x = delayed(lambda i, *_: ran.add(i), crash_retries=0)(i, *steps[-1:])
        steps.append(x)
    bad = delayed(lambda _: os._exit(3), crash_retries=0)(steps[-1])
    found = compute([*steps, bad], **ON, on_error="collect")[0]
    assert type(found[-1]) is WorkerDied and found[:-1] == list(range(1, 7))
    assert Counter(ran.items()) == Counter(range(6))


# -- time -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tasks", [2, 4, 6])
def test_long_tasks_are_dealt_evenly(tasks: int) -> None:
    """Two and two have to run at once, or neither ends."""
    def long(pair: Barrier) -> int:
        pair.wait(LIMIT)
        return os.getpid()

    assert meet()
    pairs = [Barrier(2) for _ in range(tasks // 2)]
    found = Counter(compute([delayed(long)(pairs[i // 2]) for i in range(tasks)], **ON)[0])
    assert sorted(found.values()) == [tasks // 2] * 2


def endless(how: str, started: Tally) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    started.add(os.getpid())
    if how == "sleeps in C":
        time.sleep(1000)
    if how == "holds the lock in C":
        3 ** 300_000_000
    while True:
        pass


@pytest.mark.parametrize("how", ["loops", "sleeps in C", "holds the lock in C"])
def test_endless_tasks_are_ended(how: str) -> None:
    assert meet()
    started = Tally()
    (kept,) = persist(delayed(inc)(1), **ON)
    wait(kept)
    limit = 0.5
    while not len(started):  # within it a loaded machine may not even begin the task
        limit *= 2
        started = Tally()  # the task of the try before may begin until it is ended
        bad, at = delayed(endless, name="bad")(how, started), line()
        with pytest.raises(TaskTimeout) as caught:
            compute(bad, [delayed(inc)(i) for i in range(8)], **ON, timeout=limit)
    assert f"bad, made at {at} in " in str(caught.value)
    (victim,) = set(started.items())
    assert f"(process {victim})" in str(caught.value)
    assert until(lambda: victim not in marked(os.environ[MARK]))
    assert compute(kept, timeout=LIMIT) == (2,)


def test_cancel_by_force_ends_a_task_that_sleeps_in_c() -> None:
    started = Tally()
    bad, good = persist(
        delayed(endless)("sleeps in C", started), delayed(inc)(1), **ON
    )
    assert until(lambda: len(started))
    assert bad.cancel(force=True) is True
    with pytest.raises(lazyflow.Cancelled):
        compute(bad)
    assert compute(good) == (2,)
    (victim,) = started.items()
    assert until(lambda: victim not in marked(os.environ[MARK]))


def test_an_error_does_not_wait_for_a_sleeper() -> None:
    """It sleeps for 1,000 seconds, and tests of this module have 60."""
    started, ran = Tally(), Tally()

    def fails() -> None:
        until(lambda: len(started))
        raise ValueError("at once")

    slow = delayed(endless)("sleeps in C", started)
    with pytest.raises(ValueError, match="at once"):
        after = [delayed(lambda _, i: ran.add(i))(slow, i) for i in range(9)]
        compute(delayed(fails)(), after, **ON)
    (victim,) = started.items()
    assert until(lambda: victim not in marked(os.environ[MARK]))
    assert ran.items() == []
