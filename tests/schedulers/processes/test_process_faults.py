"""The faults that `scheduler="processes"` is held to, and what covers each: this is the table.

Tests are in the files of this folder; ``ends`` are those of whole programs, ``contract`` is in
lazyflow/testing, run for processes by test_contract.py. After every test: no process, file in
/dev/shm, thread or descriptor is left, standard error is empty, the next compute works.

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
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fault_tools import (
    LIMIT,
    ON,
    pids,
    strike,
)
from process_fault_tools import (
    around,
    check_death,
    check_note,
    line,
    meet,
)

from lazyflow import (
    WorkerDied,
    compute,
    delayed,
    persist,
    wait,
)
from lazyflow.testing.signals import Tally, inc

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("nothing_left"),
]


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


def test_the_table_is_whole() -> None:
    cases = re.findall(r"^([PGT]\d+) ", __doc__, re.MULTILINE)
    wanted = [f"P{i}" for i in range(1, 26)] + [f"G{i}" for i in range(1, 12)]
    assert cases == wanted + [f"T{i}" for i in range(1, 8)]
    folder = Path(__file__).parent
    testing = folder.parents[2] / "lazyflow" / "testing"
    sources = [*folder.glob("test_process*.py"), *testing.glob("*.py")]
    there = set(re.findall(r"def (test_\w+)", "".join(p.read_text() for p in sources)))
    for name in re.findall(r"\b(test_\w+)(?!\w|\.py)", __doc__):
        known = name in there or (name.endswith("_") and any(t.startswith(name) for t in there))
        assert known, name
