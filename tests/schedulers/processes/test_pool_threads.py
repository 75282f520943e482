"""What may run in the threads of the process pool, and what ends with one of them.

Code of the user's runs where its error belongs to one task; a thread of ours that dies all the
same ends its process, or its pool, in words.
"""

import os
import re
import signal
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fault_tools import LIMIT, ON, pids

import lazyflow
from lazyflow import SchedulerLost, WorkerDied, compute, config, delayed, persist, submit
from lazyflow.schedulers.processes.decisions import events
from lazyflow.schedulers.processes.decisions.nodes import Start, WorkerRecord
from lazyflow.schedulers.processes.parent.driver import Driver
from lazyflow.schedulers.processes.scheduler import processes
from lazyflow.testing.signals import Gate, Tally, inc

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
]


@pytest.fixture(scope="module", autouse=True)
def one_pool() -> Any:
    lazyflow.shutdown()
    yield
    lazyflow.shutdown()


def lives_on(before: list[int]) -> bool:
    """Tell whether the pool works, with the workers that it had."""
    assert compute([delayed(inc)(i) for i in range(8)], **ON)[0] == list(range(1, 9))
    return set(before) <= set(pids())


# -- looking for repeats --------------------------------------------------------------------


class Quantity(np.ndarray):
    """An array of which nothing may be looked at, as those of some libraries."""

    def refuse(self, *_: Any) -> Any:
        raise ValueError("a quantity")

    __getitem__ = reshape = ravel = refuse  # type: ignore[assignment]
    base = property(refuse)  # type: ignore[assignment]


def characters() -> Any:
    """Return an array of the class that NumPy deprecates from 2.5 on, and still has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return np.char.array(["abc"] * (1 << 18))


LARGE = {
    "masked": np.ma.masked_array(np.zeros(1 << 18), mask=np.arange(1 << 18) % 2 == 0),
    "objects": np.array([str(i) for i in range(1 << 18)], object),
    "characters": characters(),
    "quantities": np.zeros(1 << 18).view(Quantity),
    "records": np.zeros(1 << 17, "M8[s],f8"),
}


@pytest.mark.filterwarnings("ignore:.*was copied for the workers", "ignore:The chararray class")
@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_large_arrays_of_any_kind_are_sent_again_and_again(value: Any) -> None:
    kind = delayed(lambda x: type(x).__name__)
    compute(delayed(inc)(1), **ON)
    before = pids()
    for _ in range(4):  # from the third on, advice may be given
        assert compute(kind(value), [kind(value), kind(value)], **ON)[0] == type(value).__name__
    assert lives_on(before)


# -- the end of a thread --------------------------------------------------------------------


def test_a_driver_that_breaks_tells_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    pending, = persist(delayed(gate.wait)(), **ON)
    told: list[Any] = []

    def other() -> None:
        try:
            compute(delayed(inc)(pending), **ON)
        except SchedulerLost as error:
            told.append(error)

    thread = threading.Thread(target=other)
    thread.start()

    def broken(*_: Any) -> None:
        raise KeyError(5)

    old = processes._driver
    assert old is not None
    with monkeypatch.context() as patch:
        patch.setattr(events, "answered", broken)
        with pytest.raises(SchedulerLost, match=r"KeyError: 5.*Compute them again") as caught:
            compute(delayed(inc)(2), **ON)
    assert type(caught.value.__cause__) is KeyError
    stories = "\n".join(caught.value.__cause__.__notes__)
    assert re.search(r"worker \d+ \(up\).* unanswered: wait <Node \d+ sent", stories)
    gate.open()
    thread.join(LIMIT)
    assert "KeyError: 5" in str(told[0])
    with pytest.raises(SchedulerLost):
        pending.compute()
    assert compute(delayed(inc)(2), **ON) == (3,)
    # What comes too late, to who knew the old pool, is refused and does not wait.
    monkeypatch.setattr(processes, "_running_driver", lambda: old)
    with pytest.raises(SchedulerLost, match="Compute them again"):
        compute(delayed(inc)(2), **ON)


def test_a_driver_that_breaks_and_has_no_memory_left_tells_all_the_same(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(events, "answered", broken)
        patch.setattr(WorkerRecord, "story", broken)
        with pytest.raises(SchedulerLost, match="memory has run out"):
            compute(delayed(inc)(2), **ON)
    assert compute(delayed(inc)(2), **ON) == (3,)


def test_what_comes_while_the_pool_is_shut_down_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    compute(delayed(inc)(1), **ON)
    driver = processes._driver
    assert driver is not None
    late: list[Any] = []

    def release(self: Driver) -> None:  # between the last look at the inbox and the end
        thread = threading.Thread(target=come)
        late.append(thread)
        thread.start()
        posted.wait(LIMIT)
        monkeypatch.undo()
        self._release_all()

    def come() -> None:
        try:
            compute(delayed(inc)(2), **ON)
        except lazyflow.Cancelled as error:
            late.append(error)

    posted = threading.Event()
    add = Driver.add
    monkeypatch.setattr(processes, "_running_driver", lambda: driver)
    monkeypatch.setattr(Driver, "_release_all", release)
    monkeypatch.setattr(Driver, "add", lambda *given: (add(*given), posted.set()))
    driver.close(0.0)
    late[0].join(LIMIT)
    assert not late[0].is_alive() and "shut down" in str(late[1])
    lazyflow.shutdown()


def breaks_its_service() -> int:
    """Have the next recall, or request for a value, end the service thread."""
    from lazyflow.schedulers.processes.worker import main

    def broken(*_: Any) -> None:
        raise RuntimeError("the service is broken")

    main.send = broken
    return os.getpid()


def test_a_service_thread_that_dies_ends_its_worker(capfd: pytest.CaptureFixture[str]) -> None:
    alone: dict[str, Any] = {"scheduler": "processes", "num_workers": 1}
    lazyflow.shutdown()
    with config.set(**alone):
        victim = submit(breaks_its_service).result()
        assert submit(np.arange, 1 << 18).result()[-1] == (1 << 18) - 1  # made again by another
    assert victim not in pids()
    assert "the service is broken" in capfd.readouterr().err


# -- two sockets ----------------------------------------------------------------------------


class _Slow:
    """A standard output of which the next flush waits."""

    def __init__(self, stream: Any, entered: Gate, go_on: Gate) -> None:
        self.stream, self.entered, self.go_on = stream, entered, go_on

    def flush(self) -> None:
        sys.stdout = self.stream
        self.entered.open()
        self.go_on.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def test_either_socket_tells_of_the_memory_that_it_speaks_of() -> None:
    alone: dict[str, Any] = {"scheduler": "processes", "num_workers": 1}
    start, entered, go_on = Gate(), Gate(), Gate()

    def first(_: Any) -> Any:  # too quick for its value to be brought to safety at once
        return np.arange(1 << 18)

    def second(x: Any) -> Any:
        sys.stdout = _Slow(sys.stdout, entered, go_on)
        return x + 1

    lazyflow.shutdown()
    with config.set(**alone):
        submit(np.arange, 3).result()  # NumPy is imported
        held = submit(first, submit(start.wait))
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(compute(delayed(second)(held), **alone)))
    thread.start()
    start.open()
    entered.wait()  # the answer with the first arena's descriptor is not sent yet
    try:
        assert held.result()[-1] == (1 << 18) - 1
    finally:
        go_on.open()
        thread.join(LIMIT)
    assert found[0][-1] == 1 << 18


def test_a_worker_that_is_to_blame_is_named_after_its_service_died() -> None:
    """It breaks again and again: an end in words, and no endless loop."""
    alone: dict[str, Any] = {"scheduler": "processes", "num_workers": 1}

    def hopeless() -> Any:
        from lazyflow.schedulers.processes.worker import main

        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        main.end_worker(RuntimeError("of ours"))

    with pytest.raises(WorkerDied, match=r"hopeless.*given up after 3 attempts"):
        compute(delayed(hopeless)(), **alone)


# -- values for other schedulers ----------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["threads", "sync", "executor"])
def test_a_run_elsewhere_gets_what_is_still_computed_in_the_pool(scheduler: str) -> None:
    """The driver's thread tells of it, through which it has to come."""
    gate = Gate()

    def made(size: int) -> list[int]:
        gate.wait()
        return list(range(size))

    def failed() -> None:
        raise KeyError("no such day")

    with ThreadPoolExecutor(2) as executor:
        elsewhere: Any = executor if scheduler == "executor" else scheduler
        parts = persist(*[delayed(made)(50_000 + i) for i in range(5)], **ON)
        opened = delayed(gate.open)()
        lengths = [delayed(len)(part) for part in parts]
        found, none = compute(lengths, opened, scheduler=elsewhere, timeout=LIMIT)
        assert (found, none) == ([50_000 + i for i in range(5)], None)
        (bad,) = persist(delayed(failed)(), **ON)
        with pytest.raises(KeyError, match="no such day"):
            compute(delayed(len)(bad), scheduler=elsewhere, timeout=LIMIT)


# -- pickling -------------------------------------------------------------------------------


class Slow:
    """Waits when it is pickled."""

    def __init__(self, entered: Gate, go_on: Gate) -> None:
        self.gates = entered, go_on

    def __reduce__(self) -> Any:
        for gate, act in zip(self.gates, (Gate.open, Gate.wait), strict=True):
            act(gate)
        return int, (7,)


@pytest.mark.parametrize("how", ["argument", "nested", "value"])
def test_an_argument_that_is_pickled_slowly_holds_up_its_task_alone(how: str) -> None:
    entered, go_on = Gate(), Gate()
    slow: Any = Slow(entered, go_on)
    if how == "value":  # one node, for two tasks
        slow = delayed(slow)
    late = delayed(lambda *found: found)([slow, 1] if how == "nested" else slow, 2)
    waits, done = persist(late, delayed(inc)(1), **ON)
    entered.wait()
    try:
        assert done.compute() == 2  # of the same run
        assert compute(delayed(inc)(np.arange(3))[2], **ON) == (3,)  # of another
    finally:
        go_on.open()
    assert waits.compute() == (([7, 1] if how == "nested" else 7), 2)


def test_what_is_pickled_apart_is_pickled_again_for_a_task_that_runs_again() -> None:
    made = Tally()

    class Told:
        def __reduce__(self) -> Any:
            made.add(0)
            return int, (7,)

    def dies_once(x: int, struck: Tally) -> int:
        if struck.add(0) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    struck = Tally()
    assert compute(delayed(dies_once)(Told(), struck), **ON) == (7,)
    assert len(made) == 1  # it was not done: what was packed is sent again
    large = np.arange(1 << 18)
    ends = [delayed(dies_once)(delayed(np.sum)(large), Tally()) for _ in range(2)]
    assert compute(ends, **ON)[0] == [large.sum()] * 2


def test_an_instruction_is_done_once_though_its_handler_performs_others() -> None:
    driver = Driver()
    started = []

    def start() -> bool:
        started.append(len(driver.state.out))
        driver.perform()
        return True

    driver.pool.start = start  # type: ignore[method-assign]
    driver.state.out.extend([Start(1), Start(1)])
    driver.perform()
    assert started == [1, 0] and not driver.state.out
    driver.close(0)


class WaitsToBePickled:
    """An argument that is pickled when a gate is open."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def __reduce__(self) -> Any:
        assert self.gate.wait(30)
        return int, ()


def test_a_task_waits_for_no_arguments_but_its_own() -> None:
    """What is pickled together is not held back by what takes long."""
    gate = Gate()
    opens = delayed(lambda _: gate.open())
    large = pytest.importorskip("numpy").ones(10_000)
    found = compute(opens(large), delayed(abs)(WaitsToBePickled(gate)), **ON)
    assert found == (None, 0)
