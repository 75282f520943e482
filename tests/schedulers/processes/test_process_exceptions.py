"""Exceptions and values that can't travel, and memory that is not there, on processes."""

import os
import resource
import signal
import sys
import threading
import traceback
from typing import Any

import pytest
from fault_tools import (
    LIMIT,
    ON,
    Program,
    pids,
)
from process_fault_tools import (
    around,
    check_note,
    line,
    made_at,
)
from waiting import until
from weaker_systems import knows_own_peak

from lazyflow import (
    RemoteTaskError,
    SerializationError,
    compute,
    delayed,
    persist,
    shutdown,
    wait,
)
from lazyflow.schedulers.processes.scheduler import processes
from lazyflow.testing.signals import Awkward, Barrier, Tally, add, inc, raise_it

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("nothing_left"),
]


# -- exceptions -----------------------------------------------------------------------------


def test_an_exception_keeps_its_type() -> None:
    x, at = delayed(raise_it, name="bad")(Awkward, 7, "no luck"), line()
    error = around(x)
    assert (type(error), str(error)) == (Awkward, "7: no luck")
    check_note(error, "bad", at)
    assert traceback.extract_tb(error.__traceback__)[-1].name == "raise_it"


class Locked(Exception):
    """An exception of which a part can't be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


def test_an_exception_of_which_a_part_can_not_travel() -> None:
    error = around(delayed(raise_it, name="bad")(Locked, "locked-msg"))
    assert (type(error), str(error)) == (Locked, "locked-msg")
    assert "its lock (TypeError: cannot pickle '_thread.lock' object)" in error.__notes__[0]
    assert error.__notes__[1].startswith("in lazyflow task bad(")


class Stays(Exception):
    """An exception that can't be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("it stays")


def test_an_exception_that_can_not_travel() -> None:
    before = set(pids())
    x, at = delayed(raise_it, name="bad")(Stays, "stays-msg"), line()
    error = around(x)
    assert type(error) is RemoteTaskError
    assert "Stays(stays-msg)" in str(error) and "TypeError: it stays" in str(error)
    assert "signals.py:" in str(error) and "in raise_it" in str(error)
    check_note(error, "bad", at)
    assert traceback.extract_tb(error.__traceback__)[-1].name == "raise_it"
    assert before <= set(pids())


def test_a_recursion_error() -> None:
    def down(n: int) -> int:
        return down(n + 1)

    before = set(pids())
    error = around(delayed(down)(0))
    assert type(error) is RecursionError
    frames = traceback.extract_tb(error.__traceback__)
    assert 50 <= sum(f.name == "down" for f in frames) <= 110  # the first and the last
    assert before <= set(pids())


def test_what_belongs_to_an_exception() -> None:
    def several() -> None:
        errors = []
        for name in "ab":
            try:
                try:
                    raise KeyError(name)
                except KeyError as below:
                    error = ValueError(name * 2)
                    error.add_note(f"note {name}")
                    raise error from below
            except ValueError as error:
                errors.append(error)
        raise ExceptionGroup("several", errors)

    error = around(delayed(several)())
    assert type(error) is ExceptionGroup and error.message == "several"
    for name, member in zip("ab", error.exceptions, strict=True):
        assert (type(member), str(member), member.__notes__) == (
            ValueError, name * 2, [f"note {name}"]
        )
        assert type(member.__cause__) is KeyError and member.__cause__.args == (name,)
        assert traceback.extract_tb(member.__traceback__)[-1].name == "several"
    assert traceback.extract_tb(error.__traceback__)[-1].name == "several"


def test_a_message_of_30_mb() -> None:
    def shout() -> None:
        raise ValueError("ha" * 15_000_000)

    error = around(delayed(shout)())
    assert type(error) is ValueError
    assert 1_000 < len(str(error)) < 20_000 and str(error).startswith("haha")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_no_text() -> None:
    error = around(delayed(raise_it, name="bad")(Mute))
    assert type(error) is Mute
    with pytest.raises(RuntimeError, match="no words"):
        str(error)
    assert "in lazyflow task bad" in error.__notes__[-1]


# -- what can't be pickled ------------------------------------------------------------------


class Holder:
    def __init__(self) -> None:
        self.lock = threading.Lock()


def task_of(what: str) -> Any:
    lock = threading.Lock()
    if what == "result":
        return delayed(threading.Lock, name="bad")()
    if what == "result.lock":
        return delayed(Holder, name="bad")()
    if what == "args[0].lock":
        return delayed(id, name="bad")(Holder())
    if what == "args[1]":
        return delayed(add, name="bad")(1, lock)
    if what == "args[0][1]['a'].lock":
        return delayed(id, name="bad")([1, {"a": Holder()}])
    if what == "args[0][1].lock":
        return delayed(id, name="bad")([delayed(inc)(1), Holder()])
    if what == "argument key":
        return delayed(sorted, name="bad")([2, 1], key=lock)
    assert what == "closure variable 'lock'"
    return delayed(lambda: lock, name="bad")()


@pytest.mark.parametrize(
    "what",
    [
        "result", "result.lock", "args[0].lock", "args[1]", "args[0][1]['a'].lock",
        "args[0][1].lock", "argument key", "closure variable 'lock'",
    ],
)
def test_what_can_not_be_pickled(what: str) -> None:
    before = set(pids())
    bad = task_of(what)
    error = around(bad)
    assert type(error) is SerializationError
    first = str(error).splitlines()[0]
    start = "function" if what.startswith("closure") else what
    assert first.startswith(start)
    assert what in first and "task bad, made at " in first
    assert "Binder" not in str(error)
    assert made_at(bad) in first
    assert "cannot pickle '_thread.lock' object" in str(error)
    assert 'scheduler="threads"' in str(error)
    check_note(error, "bad", made_at(bad))
    assert before <= set(pids())


def test_what_can_not_be_pickled_is_found_before_anything_is_sent() -> None:
    ran = Tally()
    with pytest.raises(SerializationError, match=r"args\[0\]\.lock"):
        compute(delayed(lambda x: ran.add("x"))(Holder()), **ON)
    assert ran.items() == []


def test_a_value_that_stays_where_it_is_need_not_be_pickled() -> None:
    (x,) = persist(delayed(threading.Lock)(), **ON)
    assert compute(delayed(lambda lock: lock.locked())(x)) == (False,)
    with pytest.raises(SerializationError, match="^result of task (allocate_)?lock"):
        compute(x)


def test_a_generator_arrives_as_its_items() -> None:
    found = compute(delayed(lambda: (i * i for i in range(4)))(), **ON)[0]
    assert list(found) == [0, 1, 4, 9]


# -- memory ---------------------------------------------------------------------------------


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_a_large_result_is_not_copied() -> None:
    numpy = pytest.importorskip("numpy")
    compute(delayed(numpy.ones)(1 << 16), **ON)
    before = resident()
    x = compute(delayed(numpy.full)(25_000_000, 7.0), **ON)[0]
    assert resident() - before < 10 << 20
    assert x.sum() == 7.0 * 25_000_000 and x.flags.writeable
    assert processes.info()["mapped_bytes"] >= 200_000_000
    del x
    assert until(lambda: compute(delayed(inc)(1), **ON) and not processes.info()["shared_bytes"])
    assert resident() - before < 10 << 20


def hand_over(fault_at: str) -> None:
    """Have this worker die when it hands its next value over: before it tells, or after."""
    from lazyflow.schedulers.processes.protocol import SHARED
    from lazyflow.schedulers.processes.worker import main

    send = main.send

    def dying(sock: Any, message: Any, descriptors: Any = ()) -> None:
        if message[0] != SHARED:
            return send(sock, message, descriptors)
        if fault_at == "told":
            send(sock, message, descriptors)
        os.kill(os.getpid(), signal.SIGKILL)

    main.send = dying


@pytest.mark.parametrize("fault_at", ["written", "told"])
@pytest.mark.parametrize("how", ["fetched", "used elsewhere"])
def test_a_death_around_the_hand_over(how: str, fault_at: str) -> None:
    """The memory is written, and nobody knows of it yet, or only the parent."""
    numpy = pytest.importorskip("numpy")
    meeting, armed = Barrier(2), Barrier(2)

    def make(i: int) -> Any:
        meeting.wait(LIMIT)
        return numpy.full(100_000, float(i))

    def arm() -> None:
        armed.wait(LIMIT)
        hand_over(fault_at)

    deaths = processes.info()["deaths"]
    compute([delayed(arm)(), delayed(arm)()], **ON)
    x, y = persist(delayed(make)(1), delayed(make)(2), **ON)
    wait([x, y])
    if how == "fetched":
        a, b = compute(x, y, timeout=LIMIT)
        assert (a == 1).all() and (b == 2).all() and a.shape == b.shape == (100_000,)
    else:
        total = delayed(lambda a, b: float((a + b).sum()))(x, y)
        assert compute(total, **ON, timeout=LIMIT) == (300_000.0,)
    assert until(lambda: processes.info()["deaths"] > deaths)


def test_a_memory_error() -> None:
    shutdown()  # else a worker of the test before may have yet to end
    assert compute([delayed(inc)(i) for i in range(4)], **ON)[0] == [1, 2, 3, 4]
    before = set(pids())
    bad, at = delayed(bytearray)(sys.maxsize), line()
    error = around(bad)
    assert type(error) is MemoryError
    check_note(error, "bytearray", at)
    assert before <= set(pids())


@pytest.mark.parametrize("larger", [pytest.param("task", marks=knows_own_peak), "caller"])
def test_a_death_tells_memory(larger: str) -> None:
    """Its own: not that of the caller, which the kernel hands down to what is started."""
    script = f"""
import re
kept = b"x" * ((300 if {larger!r} == "caller" else 0) << 20)
def grow():
    kept = b"x" * ((300 if {larger!r} == "task" else 0) << 20)
    os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory is short
    time.sleep(60)
try:
    compute(delayed(grow, crash_retries=0)(), **ON)
except lazyflow.WorkerDied as error:
    assert "SIGKILL" in str(error)
    told = re.search(r"Its memory had reached ([\\d.]+) MB\\.", str(error))
    say("told", told and told[1])
"""
    with Program(script) as program:
        (told,) = program.expect("told")
        if larger == "task":
            assert 314 <= float(told) < 950
        else:
            assert told == "None"
