"""Each fault at each place of a task's way: the error, its words, and a pool that goes on."""

import os
import re
import signal
import sys
from collections import Counter
from contextvars import ContextVar
from typing import Any

import pytest
from fault_tools import (
    DEATHS,
    FAULTS,
    LIMIT,
    ON,
    ErrorOnDump,
    ErrorOnLoad,
    LargeOnDump,
    OnDump,
    OnLoad,
    pids,
    strike,
)
from process_fault_tools import (
    around,
    check_death,
    check_note,
    closure,
    line,
    made_at,
)

from lazyflow import (
    RemoteTaskError,
    SerializationError,
    WorkerDied,
    compute,
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


# -- the matrix -----------------------------------------------------------------------------


def with_argument(x: Any) -> int:
    return 1


def give(kind: type, fault: str) -> Any:
    return kind(fault)


def throw(kind: type[BaseException], fault: str) -> None:
    raise kind(fault)


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

    start, end_of_test, ran, struck = Gate(), Gate(), Tally(), Tally()

    def returns_lazy(_: Any, n: int) -> Any:
        ran.add(n)
        return delayed(np.arange)(n) if n > 1 << 17 else delayed(returns_lazy)(None, 2 * n)

    def dies_once(x: Any) -> int:
        if struck.add(0) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return int(x.sum())

    assert compute(delayed(np.arange)(3)[2], **ON) == (2,)  # NumPy is imported
    busy, = persist(delayed(end_of_test.wait)(), **ON)  # an idle worker might make a copy
    begun, = persist(delayed(start.wait)(), **ON)
    held, = persist(delayed(returns_lazy)(begun, 1 << 16) + 1, **ON)
    end, = persist(delayed(dies_once)(held), **ON)
    start.open()
    assert end.compute() == np.arange(1, (1 << 18) + 1).sum()
    assert ran.items() == [1 << 16, 1 << 17, 1 << 18] * 2
    assert held.compute()[-1] == 1 << 18
    end_of_test.open()
    assert busy.compute()


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


def made_at_listcomp(error: Any) -> str:
    return re.search(rf"{re.escape(__file__)}:\d+", error.__notes__[-1]).group()

word: ContextVar[Any] = ContextVar("word")


def word_now(*_: Any) -> Any:
    return word.get(None)


def word_behind(gate: Gate) -> Any:
    gate.wait(LIMIT)
    return word.get(None)


def word_opening(gate: Gate, *_: Any) -> Any:
    gate.open()
    return word.get(None)


def test_context_variables_outlive_tasks_that_are_taken_back() -> None:
    """What waits behind a busy worker's task is given to another; later ones come to it again."""
    for i in range(100):
        token, gate = word.set(i), Gate()
        try:
            busy = persist(delayed(word_behind)(gate), **ON)
            first = [delayed(word_now)() for _ in range(8)]
            middle = delayed(word_opening)(gate, *first[:4])
            last = [delayed(word_now)(middle, k) for k in range(8)]
            assert compute(first, last, *busy, **ON, timeout=LIMIT) == ([i] * 8, [i] * 8, i)
        finally:
            word.reset(token)


class CountsPickling:
    """What is asked for how to pickle it, and refuses."""

    def __init__(self) -> None:
        self.count = 0

    def __reduce__(self) -> Any:
        self.count += 1
        raise TypeError("never")


def test_why_a_context_variable_cannot_be_pickled_is_not_searched_for() -> None:
    """Each compute would take as long as the search; notebooks have such variables."""
    token = word.set(refuses := CountsPickling())
    try:
        assert compute(delayed(inc)(1), **ON) == (2,)
    finally:
        word.reset(token)
    assert refuses.count == 1


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
