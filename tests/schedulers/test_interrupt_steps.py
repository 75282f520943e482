"""Ctrl-C at every step: a compute is interrupted wherever Python would look for signals.

A trace function raises KeyboardInterrupt after the n-th instruction of ours at which the
interpreter handles signals (calls, jumps back, beginnings of functions), for every n. Whatever
was half done then, the next compute works and nothing is left behind.
"""

import _thread
import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from interrupt_steps import interrupt
from waiting import until

import lazyflow
from lazyflow import compute, delayed, persist, wait
from lazyflow.interrupts import _Bell
from lazyflow.schedulers.processes.parent.event_loop import EventLoop
from lazyflow.testing.signals import Gate

PATIENCE = 20.0  # seconds


def sweep(scheduler: str, steps: range, is_fresh: bool) -> int:
    """Interrupt a compute at many places; returns how many different ones there were."""
    on = {"scheduler": scheduler, "num_workers": 2}
    places = set()
    for n in steps:
        if is_fresh:
            lazyflow.shutdown()
        new = delayed(partial(max, n))  # no worker and no table has seen it
        place = interrupt(lambda f=new: compute(f(-3), **on), n)  # type: ignore[misc]
        if place is None:
            break
        places.add(place)
        assert compute(new(-4), timeout=PATIENCE, **on) == (n,), place
    else:
        assert steps.stop < 10**6, "a compute has no such number of places"
    return len(places)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    # One that comes inside a finalizer is dropped by Python.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=[pytest.mark.slow, pytest.mark.timeout(500)])


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("scheduler", "step"), [("sync", 1), ("threads", 1), ("processes", 5), slow("processes", 1)]
)
def test_a_compute_interrupted_at_every_step(scheduler: str, step: int) -> None:
    compute(delayed(abs)(-3), scheduler=scheduler, num_workers=2)
    assert sweep(scheduler, range(1, 10**6, step), is_fresh=False) > 50


class Argument:
    """What can be watched as it dies."""


@pytest.mark.usefixtures("quiet")
def test_a_run_whose_cancel_is_interrupted_at_any_step_is_let_go_of() -> None:
    places = 0
    interrupted: object = True
    while interrupted is not None:
        begun, end, argument = threading.Event(), threading.Event(), Argument()
        kept = weakref.ref(argument)
        wait_here = delayed(lambda _, begun=begun, end=end: (begun.set(), end.wait(PATIENCE)))
        both = persist(wait_here(argument), wait_here(argument), num_workers=1)
        begun.wait(PATIENCE)  # so that the other task is in the queue
        both[0].cancel()
        interrupted = interrupt(both[1].cancel, places + 1)
        places += interrupted is not None
        end.set()
        del argument, both, wait_here
        assert compute(delayed(abs)(-4), timeout=PATIENCE) == (4,)
        gc.collect()
        assert until(lambda kept=kept: kept() is None), interrupted  # type: ignore[misc]
    assert places > 50


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("scheduler", "step"),
    [("threads", 3), ("processes", 80), slow("threads", 1), slow("processes", 1)],
)
def test_the_start_of_a_pool_interrupted_at_every_step(scheduler: str, step: int) -> None:
    compute(delayed(abs)(-3), scheduler=scheduler)
    lazyflow.shutdown()
    gc.collect()
    at_first = len(os.listdir("/proc/self/fd"))
    assert sweep(scheduler, range(1, 10**6, step), is_fresh=True) > 10
    lazyflow.shutdown()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= at_first


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("make", [EventLoop, _Bell])
def test_what_opens_descriptors_interrupted_at_every_step(make: Callable[[], Any]) -> None:
    at_first = len(os.listdir("/proc/self/fd"))
    places = 0
    while interrupt(lambda: make() and None, places + 1) is not None:
        places += 1
    assert places >= 4
    assert len(os.listdir("/proc/self/fd")) == at_first


def wait_between(begun: Gate, end: Gate) -> None:
    begun.open()
    end.wait(PATIENCE)


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set as the main thread goes to sleep: what comes then comes before or in its sleep."""
    begins, sleep = threading.Event(), _Bell.sleep

    def telling(bell: _Bell, timeout: float | None) -> None:
        begins.set()
        sleep(bell, timeout)

    monkeypatch.setattr(_Bell, "sleep", telling)
    return begins


WAITS: dict[str, Callable[[Any, str], Any]] = {
    "compute": lambda x, on: compute(x, scheduler=on),
    "compute with a timeout": lambda x, on: compute(x, scheduler=on, timeout=PATIENCE),
    "result": lambda x, on: persist(x, scheduler=on)[0].compute(),
    "wait": lambda x, on: wait(persist(x, scheduler=on)),
}


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.parametrize("way", WAITS)
def test_an_interrupt_that_came_before_the_sleep(
    way: str, scheduler: str, asleep: threading.Event
) -> None:
    """`interrupt_main` notes a signal and wakes nobody: as one that came just before the sleep."""
    begun, end = Gate(), Gate()
    x = delayed(wait_between)(begun, end)
    is_raised, in_time = threading.Event(), []

    def later() -> None:
        begun.wait(PATIENCE)
        asleep.wait(PATIENCE)
        _thread.interrupt_main()
        in_time.append(is_raised.wait(PATIENCE))
        end.open()

    thread = threading.Thread(target=later)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        WAITS[way](x, scheduler)
    is_raised.set()
    thread.join()
    assert in_time == [True]
    lazyflow.shutdown()


def test_an_event_loop_hears_of_signals_that_came_during_a_wait(asleep: threading.Event) -> None:
    """Who had the descriptor for signals has it again, with what was written meanwhile."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    seen: list[int] = []
    handler = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    outer = signal.set_wakeup_fd(write)
    try:
        begun, end = Gate(), Gate()

        def later() -> None:
            begun.wait(PATIENCE)
            asleep.wait(PATIENCE)
            os.kill(os.getpid(), signal.SIGUSR1)
            end.open()

        thread = threading.Thread(target=later)
        thread.start()
        compute(delayed(wait_between)(begun, end), scheduler="threads")
        thread.join()
        assert os.read(read, 10) == bytes([signal.SIGUSR1])
        assert seen == [signal.SIGUSR1]
    finally:
        assert signal.set_wakeup_fd(outer) == write
        signal.signal(signal.SIGUSR1, handler)
        os.close(read)
        os.close(write)

