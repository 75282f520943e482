"""Limits of the pool of threads, and Ctrl-C, with switches between threads as often as can be."""

import _thread
import gc
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from stress_tools import PATIENCE, Value, assert_nothing_left, few_and_many, plus
from waiting import until

import lazyflow
from lazyflow import compute, delayed, persist, wait

pytestmark = pytest.mark.usefixtures("frequent_switches")


@few_and_many(20, 1000)
def test_one_worker_and_deep_nesting(examples: int) -> None:
    """Spare threads stand in for sleeping ones only: there are never more than those."""
    most = 0

    def down(depth: int) -> int:
        nonlocal most
        most = max(most, threading.active_count())
        if depth == 0:
            return 1
        (x,) = persist(delayed(down)(depth - 1), num_workers=1)
        wait(x)
        return compute(x, num_workers=1)[0] + 1

    lazyflow.shutdown()
    before = threading.active_count()
    for _ in range(examples):
        assert compute(delayed(down)(10), num_workers=1) == (11,)
        assert_nothing_left()
    assert most <= before + 1 + 10


def test_more_workers_than_before_while_runs_are_active() -> None:
    lazyflow.shutdown()
    release, now, most = threading.Event(), [], []

    def hold(i: int) -> int:
        now.append(i)
        most.append(len(now))
        release.wait(PATIENCE)
        now.remove(i)
        return i

    slow = persist([delayed(hold)(i) for i in range(6)], num_workers=2)[0]
    meeting = threading.Barrier(5, timeout=PATIENCE)
    assert sorted(compute([delayed(meeting.wait)() for _ in range(5)], num_workers=7)[0]) == [
        0, 1, 2, 3, 4
    ]
    release.set()
    assert compute(slow) == ([0, 1, 2, 3, 4, 5],)
    assert max(most) <= 2
    del slow
    assert_nothing_left()


@few_and_many(40, 2000)
def test_num_workers_caps_running_tasks_with_nested_computes(examples: int) -> None:
    now: list[int] = []
    over: list[int] = []

    def leaf(i: int) -> int:
        now.append(i)
        time.sleep(0)  # lets another thread go on
        if len(now) > 1:
            over.append(len(now))
        now.remove(i)
        return i

    def outer(_: int) -> int:
        return sum(compute([delayed(leaf)(i) for i in range(10)], num_workers=1)[0])

    for _ in range(examples):
        assert compute(delayed(outer)(0), num_workers=3) == (45,)
    assert not over
    assert_nothing_left()


def test_a_thread_that_slept_leaves_when_its_seat_is_taken() -> None:
    """With one worker two tasks run at once only while one of them has just woken."""
    gate, inner = threading.Event(), threading.Event()
    running: list[str] = []
    together: list[tuple[str, ...]] = []

    def wakes() -> None:
        wait(persist(delayed(gate.wait)(PATIENCE), num_workers=4))
        inner.set()

    def other(i: int) -> None:
        running.append(f"other {i}")
        if i == 0:
            gate.set()
            inner.wait(PATIENCE)
        together.append(tuple(running))
        for _ in range(100):
            pass
        running.remove(f"other {i}")

    first = delayed(wakes)()
    compute(first, [delayed(other)(i) for i in range(200)], num_workers=1)
    assert {len(names) for names in together} == {1}
    assert_nothing_left()


def wide() -> list[Any]:
    first = delayed(plus)(bias=1)
    return [delayed(plus)(first, bias=i) for i in range(4)]


#: What the main thread does; each returns when its result is there.
CALLS: dict[str, Callable[[], Any]] = {
    "compute": lambda: compute(wide(), num_workers=2),
    "one worker": lambda: compute(wide(), num_workers=1),
    "persist": lambda: compute(persist(wide(), num_workers=2)),
    "wait": lambda: wait(persist(*wide(), num_workers=1)),
    "cancel": lambda: [x.cancel() for x in persist(*wide(), num_workers=1)],
    "sync": lambda: compute(wide(), scheduler="sync"),
}


class CtrlC:
    """Interrupts the main thread, by a real signal, after a random time."""

    def __init__(self, seed: int) -> None:
        self.armed: list[None] = []
        self.before = signal.signal(signal.SIGINT, self.handle)
        spins = random.Random(seed).randrange(20_000)
        self.thread = threading.Thread(target=self.send, args=(spins,), daemon=True)

    def handle(self, *_: object) -> None:
        if self.armed:
            self.armed.clear()
            raise KeyboardInterrupt

    def send(self, spins: int) -> None:
        for _ in range(spins):
            pass
        _thread.interrupt_main()

    def into(self, call: Callable[[], Any]) -> bool:
        """Make the call; tell whether it was interrupted."""
        self.thread.start()
        try:
            try:
                self.armed.append(None)
                call()
            finally:
                self.armed.clear()
        except KeyboardInterrupt:
            return True
        finally:
            self.thread.join()
            signal.signal(signal.SIGINT, self.before)
        return False


@few_and_many(80, 10_000)
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_at_random_moments(
    call: str, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One that comes inside a finalizer is dropped by Python, and pytest's hook would keep its
    # frames, and so the values in them.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    interrupted = seed = 0
    while seed < examples or not interrupted:  # on a busy machine many come too late
        if seed % 5 == 0:
            lazyflow.shutdown()  # so that threads are started under fire too
        interrupted += CtrlC(seed).into(CALLS[call])
        seed += 1
        done: list[Any] = []
        again = threading.Thread(
            target=lambda d=done: d.append(compute(delayed(abs)(-1), num_workers=1)), daemon=True
        )
        again.start()
        again.join(PATIENCE)
        assert done == [(1,)], "no compute after an interrupt"
        assert compute(delayed(abs)(-2), num_workers=1, timeout=PATIENCE) == (2,)
    assert_nothing_left()
    gc.collect()
    assert until(Value.none_alive)
