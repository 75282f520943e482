"""The faults that `scheduler="processes"` is held to, and what covers each: this is the table.

Tests named without a file are in this one; ``ends`` is test_process_ends.py, ``contract`` is
lazyflow/testing, run for processes by test_contract.py. After every test in both files: no process,
file in /dev/shm, thread or descriptor is left, standard error is empty, the next compute works.

====  ===========================================  ================================================
case  fault                                        covered by
====  ===========================================  ================================================
P1    os._exit, a real segmentation fault,         test_a_task_that_ends_its_worker: the task alone
      SIGKILL, SIGTERM, closed descriptors, with   fails, by name, line, exit and attempts; others
      8 good tasks around it                       are kept; the pool lives on
P2    every place x every kind of fault            test_a_fault (arguments, functions, inputs,
                                                   results, exceptions), test_many_faults,
                                                   ends: test_a_fault_in_the_callers_own_process
P3    an exception whose __init__ needs 2 values   test_an_exception_keeps_its_type
P4    an exception with a lock; a __reduce__       test_an_exception_that_can_not_travel,
      that raises                                  test_a_fault[exception ...]
P5    RecursionError in a task                     test_a_recursion_error
P6    causes, notes, groups, 30 MB of message,     test_what_belongs_to_an_exception,
      a __str__ that raises                        test_a_message_of_30_mb, test_no_text
P7    locks and generators as results, arguments,  test_what_can_not_be_pickled,
      in closures                                  test_a_generator_arrives_as_its_items
P8    values that can't be unpickled, in the       test_a_fault, test_a_broken_input_of_many_tasks,
      caller or in a worker                        test_a_broken_context_variable
P9    a large array returned                       test_a_large_result_is_not_copied (200 MB);
                                                   2 GB and times: benchmarks/processes.py
P10   store over its cap: spilled                  comes with the memory limit and spilling
P11   shared memory small or full                  ends: test_the_store_is_full,
                                                   test_a_tiny_dev_shm
P12   the disk of the spill is full or broken      comes with the memory limit and spilling
P13   Ctrl-C once, to the group, twice             ends: test_ctrl_c, test_a_second_ctrl_c,
                                                   test_ctrl_c_in_a_pool_that_starts
P14   SIGTERM, SIGKILL, os._exit of the parent     ends: test_the_parent_ends
P15   SIGKILL of the parent's whole group          ends: test_the_parent_ends; nothing to sweep:
                                                   memory without a name ends with its processes
P16   another process attaches a segment and goes  can't arise: the memory has no name to attach by;
                                                   a view that outlives the pool:
                                                   ends: test_arrays_outlive_the_pool
P17   a worker dies between writing and telling,   test_a_death_around_the_hand_over
      or between telling and mapping
P18   MemoryError; over the memory limit; killed   test_a_memory_error, test_a_death_tells_memory;
      by the kernel for its memory                 a limit of one's own comes with the memory limit
P19   kill -9 again and again                      test_kills_at_random; 50 and 1,000 kills:
                                                   python -m benchmarks soak
P20   a script without a guard, -c, stdin, prompt  ends: test_where_a_program_may_come_from
P21   2, 4, 6 equal long tasks on 2 workers        test_long_tasks_are_dealt_evenly (and with times,
                                                   slow)
P22   busy BLAS threads in the caller              ends: test_busy_blas_threads
P23   a stray thread, a subprocess, stdin, 50 MB   test_a_stray_thread, test_what_a_task_starts_...,
      printed, signal handlers                     test_reading_stdin, test_much_is_printed,
                                                   test_printing_without_end, test_signal_handlers
P24   endless tasks and timeout=                   test_endless_tasks_are_ended
P25   retries                                      test_retries_that_heal, test_crash_retries
G1    a chain of 100,000 calls                     test_a_long_chain (10,000; the rest is slow)
G2    a chain of 1,000,000                         for sync and threads: test_faults.py
G3    a wide sum of 1,000,000                      test_a_wide_sum (10,000; 100,000 is slow); the
                                                   million: test_faults.py
G4    a cycle                                      can't arise: a task's inputs are made before it
G5    a missing key; one key for two tasks         can't arise: inputs are objects; contract:
                                                   test_a_key_for_two_tasks_is_found_before_...
G6    a list or dict that contains itself          test_an_argument_that_contains_itself
G7    lists nested 900 and 100,000 deep            test_a_deep_argument
G8    hostile arguments                            test_hostile_arguments_arrive_unchanged
G9    bool, ==, list, len, in, x[i] = v            nothing of a scheduler: test_misuse.py
G10   the caller edits his array after building    test_an_array_is_captured_by_reference
G11   a task edits an input that others share      contract, values.py
T1    8 tasks that compute, on 2 workers           test_nested_computes
T2    nested computes in a pool of one             test_nested_computes
T3    a task fails while a slow one runs           test_an_error_does_not_wait_for_a_sleeper
T4    SystemExit and other endings in a task       contract: test_what_would_end_the_caller_...;
                                                   ends: test_sys_exit_in_a_task
T5    Ctrl-C, twice, while tasks run               P13
T6    os.fork in a task                            test_a_fork_in_a_task; of the caller:
                                                   ends: test_a_forked_program
T7    a task changes directory or environment      test_a_task_changes_its_surroundings
====  ===========================================  ================================================

Beyond the table: a pool that can't start its workers, a compute inside pickling.
"""

import ctypes
import errno
import gc
import io
import mmap
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from fault_tools import (
    DEATHS,
    FAULTS,
    LIMIT,
    MARK,
    ON,
    SLACK,
    Before,
    ErrorOnDump,
    ErrorOnLoad,
    LargeOnDump,
    OnDump,
    OnLoad,
    Program,
    marked,
    new_mark,
    pids,
    strike,
    until,
)

import lazyflow
from lazyflow import (
    RemoteTaskError,
    SerializationError,
    TaskTimeout,
    WorkerDied,
    compute,
    config,
    delayed,
    persist,
    wait,
)
from lazyflow.graph.task import place_text
from lazyflow.schedulers.processes.scheduler import processes
from lazyflow.testing.signals import Barrier, Gate, Tally
from lazyflow.testing.tasks import Awkward, add, inc, raise_it

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("nothing_left"),
]

HERE = __file__


def line() -> int:
    """Return the line of the caller."""
    return sys._getframe(1).f_lineno


def made_at(task: Any) -> int:
    """Return the line where a task was made."""
    return int(place_text(task).split(" in ")[0].rpartition(":")[2])


@pytest.fixture(scope="module")
def pool() -> Iterator[str]:
    """A pool for the tests of this file, known by a mark in its environment."""
    mark = new_mark()
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limits[1]))  # no core files of the deaths here
    lazyflow.shutdown()
    os.environ[MARK] = mark
    files = len(os.listdir("/proc/self/fd"))
    try:
        compute([delayed(inc)(1) for _ in range(2)], **ON)
        yield mark
        lazyflow.shutdown()
        assert until(lambda: not marked(mark))
        gc.collect()
        assert until(lambda: len(os.listdir("/proc/self/fd")) <= files)
    finally:
        del os.environ[MARK]
        lazyflow.shutdown()
        resource.setrlimit(resource.RLIMIT_CORE, limits)


@pytest.fixture
def nothing_left(pool: str, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    before = Before(pool)
    yield
    before.check()
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def meet() -> bool:
    """Have two workers run one task each at once: so there are two, and both work."""
    meeting = Barrier(2)
    return sorted(compute([delayed(meeting.wait)(LIMIT) for _ in range(2)], **ON)[0]) == [0, 1]


def around(bad: Any, good: Any = None) -> Any:
    """Compute a bad task with eight good ones around it; return what stands in its place."""
    good = good or (lambda i: delayed(inc)(i))
    wanted = [*map(good, range(4)), bad, *map(good, range(4, 8))]
    found = compute(wanted, **ON, on_error="collect", timeout=LIMIT)[0]
    error = found.pop(4)
    assert found == [i + 1 for i in range(8)]
    return error


def check_note(error: Any, name: str, at: int) -> None:
    note = error.__notes__[-1]
    assert re.search(rf"in lazyflow task {re.escape(name)}\b", note), note
    assert f"made at {HERE}:{at} in " in note


def check_death(error: Any, how: str, attempts: int, name: str, at: int) -> None:
    assert type(error) is WorkerDied
    text = str(error)
    assert f" that ran {name}, made at {HERE}:{at} in " in text
    assert f" ended by {how}; given up after {attempts} attempt" in text
    assert re.search(r"the worker \(process \d+\) ", text)
    check_note(error, name, at)


# -- the table itself -----------------------------------------------------------------------


def test_the_table_is_whole() -> None:
    cases = re.findall(r"^([PGT]\d+) ", __doc__, re.MULTILINE)
    wanted = [f"P{i}" for i in range(1, 26)] + [f"G{i}" for i in range(1, 12)]
    assert cases == wanted + [f"T{i}" for i in range(1, 8)]
    folder = Path(HERE).parent
    testing = folder.parents[2] / "lazyflow" / "testing"
    sources = [*folder.glob("test_process*.py"), *testing.glob("*.py")]
    there = set(re.findall(r"def (test_\w+)", "".join(p.read_text() for p in sources)))
    for name in re.findall(r"\b(test_\w+)(?!\w|\.py)", __doc__):
        known = name in there or (name.endswith("_") and any(t.startswith(name) for t in there))
        assert known, name


# -- the end of a worker --------------------------------------------------------------------


def end_it(how: str, tries: Tally) -> Any:
    tries.add(os.getpid())
    if how == "os._exit":
        os._exit(3)
    if how == "SIGSEGV":
        ctypes.string_at(0)  # a real one
    if how == "sockets":
        os.closerange(3, 256)
        return 5
    if how == "all descriptors":
        os.closerange(0, 256)
        time.sleep(LIMIT)
    os.kill(os.getpid(), 35 if how == "SIGRTMIN+1" else getattr(signal, how))
    time.sleep(LIMIT)


ENDS = {
    "os._exit": "exit code 3", "SIGSEGV": "SIGSEGV", "SIGKILL": "SIGKILL", "SIGTERM": "SIGTERM",
    "SIGABRT": "SIGABRT", "SIGRTMIN": "SIGRTMIN", "SIGRTMIN+1": "signal 35",
    "sockets": "", "all descriptors": "",
}


@pytest.mark.parametrize("how", ENDS)
def test_a_task_that_ends_its_worker(how: str) -> None:
    assert meet()
    before, tries = set(pids()), Tally()
    bad, at = delayed(end_it, name="bad", crash_retries=1)(how, tries), line()
    error = around(bad)
    if ENDS[how]:
        check_death(error, ENDS[how], 2, "bad", at)
    else:  # how its worker ended then is not the task's doing
        assert type(error) is WorkerDied and "2 attempts" in str(error)
        check_note(error, "bad", at)
    victims = tries.items()
    assert len(victims) == 2 and len(set(victims)) == 2
    assert meet()
    assert len(set(pids()) & before) == len(before - set(victims))  # the other one still lives
    assert not set(pids()) & set(victims)


def test_a_death_is_raised_like_any_failure() -> None:
    bad, at = delayed(strike, crash_retries=0)("os._exit"), line()
    with pytest.raises(WorkerDied) as caught:
        compute(delayed(inc)(bad), [delayed(inc)(i) for i in range(8)], **ON)
    check_death(caught.value, "exit code 3", 1, "strike", at)


def test_a_persisted_task_that_ends_its_worker() -> None:
    bad, at = delayed(strike, crash_retries=0)("SIGKILL"), line()
    x, y = persist(bad, delayed(inc)(1), **ON)
    wait([x, y])
    for _ in range(2):
        with pytest.raises(WorkerDied) as caught:
            compute(x)
        check_death(caught.value, "SIGKILL", 1, "strike", at)
    assert compute(y) == (2,)


# -- the matrix -----------------------------------------------------------------------------


def with_argument(x: Any) -> int:
    return 1


def give(kind: type, fault: str) -> Any:
    return kind(fault)


def throw(kind: type[BaseException], fault: str) -> None:
    raise kind(fault)


def closure(kind: type, fault: str) -> Any:
    held = kind(fault)

    def bad() -> int:
        return id(held)

    return bad


def bad_task(place: str, fault: str, **options: Any) -> Any:
    """Return a task that meets a fault somewhere on its way."""
    if place == "argument pickling":
        return delayed(with_argument, name="bad", **options)(OnDump(fault))
    if place == "argument unpickling":
        return delayed(with_argument, name="bad", **options)(OnLoad(fault))
    if place == "nested argument unpickling":
        return delayed(with_argument, name="bad", **options)([delayed(inc)(1), OnLoad(fault)])
    if place == "literal unpickling":
        return delayed(with_argument, name="bad", **options)(delayed(OnLoad(fault)))
    if place == "function pickling":
        return delayed(closure(OnDump, fault), name="bad", **options)()
    if place == "function unpickling":
        return delayed(closure(OnLoad, fault), name="bad", **options)()
    if place == "running":
        return delayed(strike, name="bad", **options)(fault)
    if place == "result pickling":
        return delayed(give, name="bad", **options)(OnDump, fault)
    if place == "result unpickling":
        return delayed(give, name="bad", **options)(OnLoad, fault)
    if place == "exception pickling":
        return delayed(throw, name="bad", **options)(ErrorOnDump, fault)
    assert place == "exception unpickling"
    return delayed(throw, name="bad", **options)(ErrorOnLoad, fault)


CALLERS = ["argument pickling", "function pickling", "result unpickling"]  # deaths: ends
PLACES = [
    *CALLERS, "argument unpickling", "nested argument unpickling", "literal unpickling",
    "function unpickling", "running", "result pickling", "exception pickling",
    "exception unpickling",
]


def check_fault(error: Any, place: str, fault: str) -> None:
    """Check an error that was raised, not the end of a worker."""
    cause = {"raise": ValueError, "sys.exit": SystemExit}[fault]
    if place == "running":
        if fault == "raise":
            assert (type(error), str(error)) == (ValueError, "struck")
        else:
            assert type(error) is RemoteTaskError and type(error.__cause__) is SystemExit
    elif place.startswith("exception"):
        assert type(error) is RemoteTaskError
        assert f"{ErrorOnDump.__module__}.ErrorOn" in str(error) and "said before" in str(error)
        assert cause.__name__ in str(error)
    else:
        assert type(error) is SerializationError
        assert type(error.__cause__) is cause
        assert cause.__name__ in str(error)


@pytest.mark.parametrize(
    ("place", "fault"),
    [(p, f) for p in PLACES for f in FAULTS if not (p in CALLERS and f in DEATHS)],
)
def test_a_fault(place: str, fault: str) -> None:
    before = set(pids())
    bad = bad_task(place, fault, crash_retries=0)
    at = made_at(bad)
    error = around(bad)
    if fault in DEATHS:
        check_death(error, DEATHS[fault], 1, "bad", at)
    else:
        check_fault(error, place, fault)
        check_note(error, "bad", at)
        assert before <= set(pids())  # nobody had to end


def made_apart(kind: type, fault: str, meeting: Barrier) -> Any:
    meeting.wait(LIMIT)
    return kind(fault)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", [OnDump, OnLoad])
def test_a_fault_between_workers(kind: type, fault: str) -> None:
    """Two workers hold a value each, and one of these has to go where the other one is."""
    meeting = Barrier(2)
    made = delayed(made_apart, crash_retries=0)
    values, at = [made(kind, fault, meeting) for _ in range(2)], line()
    uses = delayed(lambda x, y: 1, name="uses", crash_retries=0)(*values)
    error = around(uses)
    name = "uses" if kind is OnLoad else "made_apart"
    at = made_at(uses) if kind is OnLoad else at
    if fault in DEATHS:
        check_death(error, DEATHS[fault], 1, name, at)
    else:
        check_fault(error, "input", fault)
        check_note(error, name, at)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_held_value(fault: str) -> None:
    """It is pickled when somebody asks for it, when no task runs: its own is to blame."""
    bad = delayed(give, name="bad", crash_retries=1)(LargeOnDump, fault)
    x, y = persist(bad, delayed(inc)(1), **ON)
    wait([x, y])
    error = compute(x, on_error="collect", timeout=LIMIT)[0]
    if fault in DEATHS:
        check_death(error, DEATHS[fault], 2, "bad", made_at(bad))
    else:
        check_fault(error, "result", fault)
        check_note(error, "bad", made_at(bad))
    assert compute(y, timeout=LIMIT) == (2,)


def test_many_faults() -> None:
    """100 bad ones among 100 good ones: no queue fills up, nobody is forgotten."""
    kinds = ["result pickling", "argument unpickling", "exception pickling", "running"]
    wanted: list[Any] = []
    for i in range(100):
        wanted += [bad_task(kinds[i % 4], "raise"), delayed(inc)(i)]
    found = compute(wanted, **ON, on_error="collect", timeout=LIMIT)[0]
    assert found[1::2] == [i + 1 for i in range(100)]
    names = Counter(type(e).__name__ for e in found[::2])
    assert names == {"SerializationError": 50, "RemoteTaskError": 25, "ValueError": 25}


def test_a_value_that_came_of_a_lazy_one_is_made_again() -> None:
    """Its worker dies when the run is over whose task returned the lazy value."""
    import numpy as np

    start, ran, struck = Gate(), Tally(), Tally()

    def returns_lazy(_: Any, n: int) -> Any:
        ran.add(n)
        return delayed(np.arange)(n) if n > 1 << 17 else delayed(returns_lazy)(None, 2 * n)

    def dies_once(x: Any) -> int:
        if struck.add(0) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return int(x.sum())

    assert compute(delayed(np.arange)(3)[2], **ON) == (2,)  # NumPy is imported
    begun, = persist(delayed(start.wait)(), **ON)
    held, = persist(delayed(returns_lazy)(begun, 1 << 16) + 1, **ON)
    end, = persist(delayed(dies_once)(held), **ON)
    start.open()
    assert end.compute() == np.arange(1, (1 << 18) + 1).sum()
    assert ran.items() == [1 << 16, 1 << 17, 1 << 18] * 2
    assert held.compute()[-1] == 1 << 18


def test_many_deaths() -> None:
    wanted: list[Any] = []
    for i in range(12):
        wanted += [delayed(strike, crash_retries=0)("SIGKILL"), delayed(inc)(i), delayed(inc)(-i)]
    found = compute(wanted, **ON, on_error="collect", timeout=LIMIT)[0]
    assert found[1::3] == [i + 1 for i in range(12)]
    assert found[2::3] == [1 - i for i in range(12)]
    assert {type(e) for e in found[::3]} == {WorkerDied}


def test_a_broken_input_of_many_tasks() -> None:
    """Each of those that need it fails with the reason; the value is tried once."""
    bad = delayed(OnLoad("raise"))
    errors = compute([delayed(add)(bad, i) for i in range(4)], **ON, on_error="collect")[0]
    for error in errors:
        assert type(error) is SerializationError and "ValueError: struck" in str(error)
        check_note(error, "add", made_at_listcomp(error))


def made_at_listcomp(error: Any) -> int:
    return int(re.search(rf"{re.escape(HERE)}:(\d+)", error.__notes__[-1]).group(1))


word: ContextVar[Any] = ContextVar("word")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_context_variable(fault: str) -> None:
    """It stays behind; one that ends the process is charged to tasks, so that this ends."""
    def where(value: Any) -> Any:
        token = word.set(value)
        try:
            return compute(delayed(inc, crash_retries=0)(1), **ON, on_error="collect")[0]
        finally:
            word.reset(token)

    found = where(OnLoad(fault))
    if fault in DEATHS:
        assert type(found) is WorkerDied and DEATHS[fault] in str(found)
    else:
        assert found == 2


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
    assert "tasks.py:" in str(error) and "in raise_it" in str(error)
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
    assert f"{HERE}:{made_at(bad)}" in first
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
    with pytest.raises(SerializationError, match="^result of task allocate_lock"):
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
    from lazyflow.schedulers.processes.protocol import Shared, as_note
    from lazyflow.schedulers.processes.worker import service

    send = service.send

    def dying(sock: Any, message: Any, descriptors: Any = ()) -> None:
        if type(as_note(message)) is not Shared:
            return send(sock, message, descriptors)
        if fault_at == "told":
            send(sock, message, descriptors)
        os.kill(os.getpid(), signal.SIGKILL)

    service.send = dying


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
    before = set(pids())
    bad, at = delayed(bytearray)(sys.maxsize), line()
    error = around(bad)
    assert type(error) is MemoryError
    check_note(error, "bytearray", at)
    assert before <= set(pids())


@pytest.mark.parametrize("larger", ["task", "caller"])
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


# -- deaths and retries ---------------------------------------------------------------------


def test_kills_at_random() -> None:
    """A tree whose workers are killed as it grows, by somebody else: the sum is exact."""
    gate = threading.Event()
    killed = []

    def killer() -> None:
        seeded = random.Random(7)
        while not gate.wait(0.02) and len(killed) < 12:
            busy = [w["pid"] for w in processes.info()["workers"] if w["running"]]
            if busy:
                victim = seeded.choice(busy)
                try:
                    os.kill(victim, signal.SIGKILL)
                    killed.append(victim)
                except ProcessLookupError:
                    pass

    def work(i: int) -> int:
        time.sleep(0.004)
        return i

    with lazyflow.annotate(crash_retries=1000):
        row: list[Any] = [delayed(work)(i) for i in range(128)]
        while len(row) > 1:
            row = [delayed(add)(a, b) for a, b in zip(row[::2], row[1::2], strict=True)]
        thread = threading.Thread(target=killer)
        thread.start()
        try:
            assert compute(row[0], **ON, timeout=LIMIT) == (sum(range(128)),)
        finally:
            gate.set()
            thread.join()
    assert killed


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
    def long(i: int) -> int:
        time.sleep(0.2)
        return os.getpid()

    assert meet()
    found = Counter(compute([delayed(long)(i) for i in range(tasks)], **ON)[0])
    assert sorted(found.values()) == [tasks // 2] * 2


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [2, 4, 6])
def test_long_tasks_take_their_time(tasks: int) -> None:
    def long(i: int) -> None:
        time.sleep(1.5)

    assert meet()
    start = time.monotonic()
    compute([delayed(long)(i) for i in range(tasks)], **ON)
    assert time.monotonic() - start < 1.5 * tasks / 2 + 0.75


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
    start = time.monotonic()
    bad, at = delayed(endless, name="bad")(how, started), line()
    with pytest.raises(TaskTimeout) as caught:
        compute(bad, [delayed(inc)(i) for i in range(8)], **ON, timeout=1.0)
    assert time.monotonic() - start < 1 + SLACK
    assert f"bad, made at {HERE}:{at} in " in str(caught.value)
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
    started, ran = Tally(), Tally()

    def fails() -> None:
        until(lambda: len(started))
        raise ValueError("at once")

    slow = delayed(endless)("sleeps in C", started)
    start = time.monotonic()
    with pytest.raises(ValueError, match="at once"):
        after = [delayed(lambda _, i: ran.add(i))(slow, i) for i in range(9)]
        compute(delayed(fails)(), after, **ON)
    assert time.monotonic() - start < 0.5 * SLACK + 1
    (victim,) = started.items()
    assert until(lambda: victim not in marked(os.environ[MARK]))
    assert ran.items() == []


# -- what tasks may do to their process -----------------------------------------------------


def test_a_stray_thread() -> None:
    """Not a daemon: it neither holds the result back nor the end of the pool."""
    def stray() -> int:
        threading.Thread(target=time.sleep, args=(LIMIT,)).start()
        return os.getpid()

    start = time.monotonic()
    victim = compute(delayed(stray)(), **ON)[0]
    lazyflow.shutdown()
    assert time.monotonic() - start < 2 * SLACK
    assert victim not in marked(os.environ[MARK])


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
@pytest.mark.parametrize("end", ["death", "shutdown"])
def test_what_a_task_starts_ends_with_its_worker(end: str) -> None:
    def start() -> int:
        return subprocess.Popen(["sleep", "60"]).pid

    def start_and_die() -> None:
        told.add(start())
        os.kill(os.getpid(), signal.SIGKILL)

    told = Tally()
    if end == "death":
        error = compute(delayed(start_and_die, crash_retries=0)(), **ON, on_error="collect")[0]
        assert type(error) is WorkerDied
        (child,) = told.items()
    else:
        child = compute(delayed(start)(), **ON)[0]
        assert until(lambda: child in marked(os.environ[MARK]))  # it has begun
        lazyflow.shutdown()
    assert until(lambda: child not in marked(os.environ[MARK]))


def test_reading_stdin() -> None:
    with pytest.raises(EOFError):
        compute(delayed(input)(), **ON)
    assert compute(delayed(lambda: sys.stdin.read())(), **ON) == ("",)


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def test_a_line_without_an_end_is_there_before_the_result() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for i in range(200):
            with redirect_stdout(io.StringIO()) as printed:
                compute(delayed(print)(i, end=""), **ON, timeout=LIMIT)
                assert printed.getvalue() == str(i)
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("n", [100_000, slow(500_000)])
def test_much_is_printed(n: int) -> None:
    """10 or 50 MB in lines, and 20 MB in one: whole, in order, and before the result."""
    def lines() -> int:
        for i in range(n):
            print(f"{i:099d}")
        return 1

    def one() -> int:
        sys.stdout.write("y" * 20_000_000)
        return 2

    printed = io.StringIO()
    with redirect_stdout(printed):
        assert compute(delayed(lines)(), **ON, timeout=LIMIT) == (1,)
        found = printed.getvalue()
        assert len(found) == 100 * n
        assert found == "".join(f"{i:099d}\n" for i in range(n))
        printed.seek(0)
        printed.truncate()
        assert compute(delayed(one)(), **ON, timeout=LIMIT) == (2,)
        assert printed.getvalue() == "y" * 20_000_000


def test_printing_without_end() -> None:
    """Its lines may fill the parent's time, but not stop what it does."""
    def prints() -> None:
        while True:
            print("x" * 99)

    class Nowhere(io.TextIOBase):
        def write(self, text: str) -> int:
            time.sleep(0.01)  # slower than what is printed
            return len(text)

    with redirect_stdout(Nowhere()):
        with pytest.raises(TaskTimeout):
            compute(delayed(prints)(), **ON, timeout=0.3)
        assert compute(delayed(inc)(1), **ON, timeout=LIMIT) == (2,)
        lazyflow.shutdown()  # with what it had printed


def test_standard_error_of_tasks(capfd: pytest.CaptureFixture[str]) -> None:
    def says() -> None:
        print("to stdout")
        print("to stderr", file=sys.stderr)
        os.write(1, b"from C\n")

    compute(delayed(says)(), **ON)
    out, err = capfd.readouterr()
    assert (out, err) == ("to stdout\nfrom C\n", "to stderr\n")


def test_signal_handlers() -> None:
    """A worker that ignores every signal works on, and ends when it has to."""
    def ignores() -> int:
        for number in range(1, signal.NSIG):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):  # SIGKILL, SIGSTOP and those of the C library
                pass
        return os.getpid()

    victim = compute(delayed(ignores)(), **ON)[0]
    assert compute([delayed(inc)(i) for i in range(20)], **ON)[0] == list(range(1, 21))
    start = time.monotonic()
    lazyflow.shutdown()
    assert time.monotonic() - start < 2 * SLACK
    assert victim not in marked(os.environ[MARK])


def test_an_interrupt_sent_to_a_worker() -> None:
    """By `kill -INT`, say: it is the task's failure, and not the caller's Ctrl-C."""
    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(LIMIT)

    error = around(delayed(interrupted)())
    assert type(error) is RemoteTaskError and type(error.__cause__) is KeyboardInterrupt


def fork(what: str) -> Any:
    child = os.fork()
    if child == 0:
        if what == "exits":
            os._exit(7)
        if what == "raises":
            raise ValueError("in the child")
        if what == "computes":
            os._exit(7 if compute(delayed(abs)(-7)) == (7,) else 8)
        return "from the child"
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork in a process with threads
@pytest.mark.parametrize("what", ["exits", "raises", "returns", "computes"])
def test_a_fork_in_a_task(what: str) -> None:
    code = around(delayed(fork)(what))
    assert code == (7 if what in ("exits", "computes") else 0)
    x = delayed(fork)(what)
    after = [delayed(lambda x, i: (x, i))(x, i) for i in range(20)]
    assert compute(after, **ON)[0] == [(code, i) for i in range(20)]


def test_a_task_changes_its_surroundings(tmp_path: Path, monkeypatch: Any) -> None:
    """The caller never sees it; later runs in that worker see the environment, no directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()

    def change() -> None:
        os.chdir("inner")
        os.environ["LAZYFLOW_SEEN"] = "yes"

    def look() -> Any:
        return os.path.basename(os.getcwd()), os.environ.get("LAZYFLOW_SEEN")

    compute(delayed(change)(), **ON)
    assert os.getcwd() == str(tmp_path) and "LAZYFLOW_SEEN" not in os.environ
    for directory, _ in compute([delayed(look)() for _ in range(8)], **ON)[0]:
        assert directory == tmp_path.name
    lazyflow.shutdown()
    assert compute(delayed(look)(), **ON) == ((tmp_path.name, None),)


# -- graphs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10_000, slow(100_000)])
def test_a_long_chain(n: int) -> None:
    x: Any = delayed(inc)(0)
    for _ in range(n - 1):
        x = delayed(inc)(x)
    assert compute(x, **ON) == (n,)


@pytest.mark.parametrize("n", [10_000, slow(100_000)])
def test_a_wide_sum(n: int) -> None:
    one = delayed(inc)
    assert compute(delayed(sum)([one(i) for i in range(n)]), **ON) == (n * (n + 1) // 2,)


def test_an_argument_that_contains_itself() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    knot: dict[str, Any] = {"a": 1}
    knot["self"] = knot

    def sees(x: Any) -> bool:
        inner = x[1] if isinstance(x, list) else x["self"]
        return inner[1] is inner if isinstance(x, list) else inner["self"] is inner

    assert compute(delayed(sees)(loop), delayed(sees)(knot), **ON) == (True, True)


def nested(depth: int) -> Any:
    deep: Any = []
    for _ in range(depth):
        deep = [deep]
    return deep


@pytest.mark.parametrize("where", ["argument", "result", "value"])
@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_a_deep_argument(depth: int, where: str) -> None:
    def measure(x: Any) -> int:
        found = 0
        while x:
            x, found = x[0], found + 1
        return found

    if where == "argument":
        x = delayed(measure)(nested(depth))
    elif where == "result":
        x = delayed(nested)(depth)
    else:
        x = delayed(measure)(delayed(nested)(depth))
    found = around(x)
    if where == "result":
        found = measure(found)
    assert found == depth


def test_an_object_in_a_deep_argument_that_can_not_be_pickled() -> None:
    deep: Any = threading.Lock()
    for _ in range(900):
        deep = [deep]
    error = around(delayed(len)(deep))
    assert type(error) is SerializationError and "'_thread.lock'" in str(error)


class Rude:
    """Raises whatever it is asked."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("leave me alone")

    __eq__ = __bool__ = __len__ = __repr__ = __getattr__ = __iter__ = _refuse  # type: ignore[assignment]
    __hash__ = _refuse  # type: ignore[assignment]


def describe(x: Any) -> Any:
    return type(x).__name__, x.encode("utf-8", "surrogatepass") if type(x) is str else None


HOSTILE = [
    Rude(), float("nan"), "\ud800", 10**5000, b"\0", lambda: None, object, "inc-1", {1: Rude()},
    -0.0, float("inf"), "", (), b"", "x" * 200_000, 1 << 20_000,
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_arguments_arrive_unchanged(value: Any) -> None:
    """And as results and inputs of others."""
    same = delayed(lambda x: x)
    back, told, far = compute(
        same(value), delayed(describe)(value), delayed(describe)(same(same(value))), **ON
    )
    assert type(back).__name__ == type(value).__name__
    assert told == far == describe(value)
    if type(value) in (str, bytes, int, tuple):
        assert back == value and type(back) is type(value)
    elif type(value) is float:
        assert str(back) == str(value)

    def bad(x: Any) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        compute(delayed(bad)(value), **ON)
    assert "in lazyflow task bad(" in caught.value.__notes__[0]


def test_an_array_is_captured_by_reference() -> None:
    """One rule everywhere: what the array holds when the task runs."""
    numpy = pytest.importorskip("numpy")
    mine = numpy.zeros(7)
    x = delayed(numpy.sum)(mine)
    mine += 10
    assert compute(x, **ON) == (70.0,)
    mine += 1
    assert compute(x, **ON) == (77.0,)


@pytest.mark.parametrize("workers", [1, 2])
def test_nested_computes(workers: int) -> None:
    here = {"scheduler": "processes", "num_workers": workers}

    def outer(i: int) -> Any:
        return sum(compute([delayed(inc)(i + k) for k in range(8)], **here)[0])

    def twice(i: int) -> Any:
        return compute(delayed(outer)(i), **here)[0]

    found = compute([delayed(twice)(i) for i in range(8)], **here, timeout=LIMIT)[0]
    assert found == [sum(i + k + 1 for k in range(8)) for i in range(8)]


# -- beyond the table -----------------------------------------------------------------------


class Computes:
    """Asks for a compute when it is pickled."""

    def __init__(self, scheduler: str) -> None:
        self.scheduler = scheduler

    def __reduce__(self) -> Any:
        return int, (compute(delayed(inc)(1), scheduler=self.scheduler)[0],)


def test_a_compute_inside_pickling() -> None:
    assert around(delayed(inc)(Computes("processes"))) == 3
    assert around(delayed(inc)(Computes("threads"))) == 3
    lazyflow.shutdown()


PROGRAMS = {"no such program": "/nowhere/python", "ends at once": "/bin/true", "none": None}


@pytest.mark.parametrize("why", PROGRAMS)
def test_workers_that_can_not_start(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lazyflow.shutdown()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", PROGRAMS[why])
        with pytest.raises((OSError, lazyflow.LazyflowError)) as caught:
            compute([delayed(inc)(i) for i in range(9)], **ON, timeout=LIMIT)
        assert type(caught.value) is not TaskTimeout
        assert why != "none" or "sys.executable is empty" in str(caught.value)
        lazyflow.shutdown()
    assert meet()


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


@pytest.mark.parametrize("what", ["subprocess.Popen", "os.memfd_create", "mmap.mmap"])
def test_no_memory_for_a_worker(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lazyflow.shutdown()
    with monkeypatch.context() as patch:
        patch.setattr(what, refuse)
        with pytest.raises(lazyflow.WorkerDied, match=r"ulimit -v.*has no memory left.*fewer"):
            compute([delayed(inc)(i) for i in range(9)], **ON, timeout=LIMIT)
        with config.set(scheduler="processes"):
            called = lazyflow.actor(list)().copy()
        with pytest.raises(lazyflow.WorkerDied, match=r"the actor list .*ulimit -v.*has no memory"):
            called.result(LIMIT)
    assert meet()


def test_no_address_space_for_what_a_task_needs() -> None:
    """The worker can't map the memory in which its argument comes."""

    def limited(by: int) -> int:
        import numpy as np

        words = Path("/proc/self/status").read_text().split()
        used = int(words[words.index("VmSize:") + 1]) << 10
        resource.setrlimit(resource.RLIMIT_AS, (used + by if by else -1, -1))
        return os.getpid() + 0 * np.int64(1).item()

    np = pytest.importorskip("numpy")
    lazyflow.shutdown()
    one = {"scheduler": "processes", "num_workers": 1, "timeout": LIMIT}
    values = (np.full(1 << 18, i) for i in range(1, 9))
    (pid,) = compute(delayed(limited)(100 << 20), **one)
    for _ in range(2):
        with pytest.raises(MemoryError, match=rf"in process {pid}: .*ulimit -v, n") as why:
            compute(delayed(np.sum)(next(values)), **one)
        assert "in lazyflow task sum, made at" in why.value.__notes__[0]
        with pytest.raises(MemoryError, match="ulimit -v, now"):
            compute(delayed(np.sum)(delayed(np.negative)(next(values))), **one)
    with pytest.raises(lazyflow.StoreFull, match="refuses a new arena"):
        compute(delayed(np.ones)(1 << 18), **one)
    assert compute(delayed(limited)(0), **one) == (pid,)
    assert compute(delayed(np.sum)(next(values)), **one) == (5 << 18,)


def test_no_address_space_for_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    np = pytest.importorskip("numpy")
    lazyflow.shutdown()
    made = delayed(np.ones)(1 << 18)
    with monkeypatch.context() as patch:
        patch.setattr("lazyflow.store.memory.mappings.mmap.mmap", refuse_private)
        for _ in range(2):
            with pytest.raises(MemoryError, match=f"2.1 MB .* in process {os.getpid()}: .*ulimit"):
                compute(made, **ON, timeout=LIMIT)
    assert compute(made, **ON)[0].sum() == 1 << 18


_MMAP = mmap.mmap


def refuse_private(fd: int, size: int, flags: int = mmap.MAP_SHARED, *rest: Any) -> Any:
    return refuse() if flags == mmap.MAP_PRIVATE else _MMAP(fd, size, flags, *rest)


def test_no_thread_to_drive_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    lazyflow.shutdown()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread") as caught:
            compute(delayed(inc)(1), **ON, timeout=LIMIT)
        assert "ulimit -u" in caught.value.__notes__[0]
    assert compute(delayed(inc)(1), **ON, timeout=LIMIT) == (2,)


def no_thread(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_directory_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lazyflow.shutdown()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert compute(delayed(inc)(1), **ON) == (2,)


def test_a_program_that_waits_for_all_its_children() -> None:
    """It takes exit codes away; the death is seen all the same."""
    stop = threading.Event()

    def reap() -> None:
        while not stop.is_set():
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pass

    thread = threading.Thread(target=reap)
    thread.start()
    try:
        error = around(delayed(strike, crash_retries=0)("os._exit"))
    finally:
        stop.set()
        thread.join()
    assert type(error) is WorkerDied
    assert "exit code 3" in str(error) or "an exit status that is not known" in str(error)
