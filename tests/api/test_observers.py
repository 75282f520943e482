"""What observers hear, in which order, and what one that fails can't do."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import lazyflow
from lazyflow import compute, delayed, persist, wait
from lazyflow.api.evaluate import always_observers, observers
from lazyflow.schedulers.core.base import Observer

BOTH = pytest.mark.parametrize("scheduler", ["sync", "threads"])


class Ear(Observer):
    """Writes down every event."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, str, int]] = []  # event, run, task's name, thread

    def _note(self, event: str, run: Any, i: int = -1) -> None:
        name = run.task_name(i) if i >= 0 else ""
        self.heard.append((event, id(run), name, threading.get_ident()))

    def run_started(self, run: Any) -> None:
        self._note("run started", run)

    def task_started(self, run: Any, i: int) -> None:
        self._note("started", run, i)

    def task_ended(self, run: Any, i: int) -> None:
        self._note("ended", run, i)

    def task_failed(self, run: Any, i: int, error: BaseException) -> None:
        self._note("failed", run, i)

    def run_ended(self, run: Any) -> None:
        self._note("run ended", run)

    def events(self) -> list[str]:
        return [event for event, *_ in self.heard]


@pytest.fixture
def ear() -> Iterator[Ear]:
    ear = Ear()
    always_observers.append(ear)
    yield ear
    if ear in always_observers:
        always_observers.remove(ear)


def assert_in_order(ear: Ear) -> None:
    """Each run begins first and ends last; in each thread a task ends before the next starts."""
    runs: dict[int, list[str]] = defaultdict(list)
    running: dict[tuple[int, int], str] = {}
    for event, run, name, thread in ear.heard:
        runs[run].append(event)
        if event == "started":
            assert (run, thread) not in running
            running[run, thread] = name
        elif event in ("ended", "failed"):
            assert running.pop((run, thread)) == name
    for events in runs.values():
        assert events[0] == "run started"
        assert events.count("run started") == events.count("run ended") == 1
    assert not running


@BOTH
def test_events_come_in_order(scheduler: str, ear: Ear) -> None:
    xs = [delayed(abs)(delayed(abs)(-i)) for i in range(50)]
    assert compute(xs, scheduler=scheduler, num_workers=4)[0] == list(range(50))
    assert_in_order(ear)
    assert ear.events().count("started") == ear.events().count("ended") == 100
    assert ear.events()[-1] == "run ended"


@BOTH
def test_retries_are_one_task(scheduler: str, ear: Ear) -> None:
    tries: list[int] = []
    x = delayed(lambda: tries.append(1) or 1 / (len(tries) - 1), retries=3)()
    assert compute(x, scheduler=scheduler) == (1.0,)
    assert ear.events() == ["run started", "started", "ended", "run ended"]


@BOTH
def test_a_failing_run_ends_once(scheduler: str, ear: Ear) -> None:
    with pytest.raises(ZeroDivisionError):
        compute([delayed(abs)(-1), delayed(lambda: 1 / 0)()], scheduler=scheduler, num_workers=1)
    assert ear.events().count("failed") == 1
    assert_in_order(ear)


@BOTH
def test_failures_that_are_collected(scheduler: str, ear: Ear) -> None:
    bad = delayed(lambda: 1 / 0)()
    compute([bad + 1, bad + 2, delayed(abs)(-1)], scheduler=scheduler, on_error="collect")
    assert sorted(ear.events()) == sorted(
        ["run started", "started", "failed", "started", "ended", "run ended"]
    )
    assert_in_order(ear)


@BOTH
def test_runs_inside_tasks_and_runs_that_tasks_turn_into(scheduler: str, ear: Ear) -> None:
    def nested() -> Any:
        return compute(delayed(abs)(-1))[0]

    x = delayed(lambda: delayed(nested)())()
    assert compute(x, scheduler=scheduler) == (1,)
    assert ear.events().count("run started") == ear.events().count("run ended") == 3


def test_persisted_work_is_heard(ear: Ear) -> None:
    xs = persist(*[delayed(abs)(-i) for i in range(5)])
    wait(xs)
    assert compute(*xs) == tuple(range(5))
    assert ear.events().count("ended") == 5


def test_no_more_after_unregistering(ear: Ear) -> None:
    compute(delayed(abs)(-1))
    n = len(ear.heard)
    always_observers.remove(ear)
    compute(delayed(abs)(-1))
    assert len(ear.heard) == n > 0


def test_only_runs_of_the_context_are_heard() -> None:
    mine, other = Ear(), threading.Thread(target=lambda: compute(delayed(abs)(-1)))
    token = observers.set((mine,))
    try:
        other.start()
        other.join()
        assert mine.heard == []
        compute(delayed(abs)(-1))
    finally:
        observers.reset(token)
    assert len(mine.heard) == 4


EVENTS = ["run_started", "task_started", "task_ended", "task_failed", "run_ended"]


@pytest.mark.parametrize("error", [OSError, SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("event", EVENTS)
def test_a_failing_observer_is_dropped_and_logged_once(
    event: str, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    if event == "run_started" and error is KeyboardInterrupt:
        pytest.skip("in the caller's own thread it is the user's")
    calls: list[int] = []

    def breaks(*_: Any) -> None:
        calls.append(1)
        raise error("broken")

    bad = type("Bad", (Observer,), {event: breaks})()
    ear = Ear()
    token = observers.set((bad, ear))
    try:
        with caplog.at_level(logging.ERROR, logger="lazyflow"):
            for _ in range(3):
                values = compute(
                    [delayed(abs)(-i) for i in range(20)], delayed(lambda: 1 / 0)(),
                    on_error="collect", num_workers=4, timeout=20,
                )
                assert values[0] == list(range(20))
                assert type(values[1]) is ZeroDivisionError
    finally:
        observers.reset(token)
    assert len(caplog.records) == 1
    assert f"the observer Bad failed in {event} and is not called again" in caplog.text
    assert ear.events().count("run ended") == 3
    assert 1 <= len(calls) <= 4  # threads that were inside it already


def test_observers_that_compare_or_log_badly(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Equal(Observer):  # can't be hashed, and is equal to the other
        fails: bool = field(default=False, compare=False)
        heard: list[int] = field(default_factory=list, compare=False)

        def task_ended(self, run: Any, i: int) -> None:
            if self.fails:
                raise OSError("broken")
            self.heard.append(i)

        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("this handler is broken")

    handler = Handler()
    logging.getLogger("lazyflow").addHandler(handler)
    bad, good = Equal(True), Equal()
    token = observers.set((bad, good))
    try:
        assert compute([delayed(abs)(-i) for i in range(9)], timeout=20)[0] == list(range(9))
        assert compute(delayed(abs)(-1), timeout=20) == (1,)
    finally:
        observers.reset(token)
        logging.getLogger("lazyflow").removeHandler(handler)
    assert len(good.heard) == 10


def test_an_observer_may_compute() -> None:
    class Asks(Observer):
        def __init__(self) -> None:
            self.told: list[int] = []

        def run_ended(self, run: Any) -> None:
            token = observers.set(())
            try:
                self.told.append(compute(delayed(abs)(-len(self.told)), timeout=20)[0])
            finally:
                observers.reset(token)

    asks = Asks()
    token = observers.set((asks,))
    try:
        assert compute(delayed(abs)(-1), num_workers=1, timeout=20) == (1,)
        release = threading.Event()
        (x,) = persist(delayed(release.wait)(20), num_workers=1)
        assert x.cancel()
        release.set()
    finally:
        observers.reset(token)
    assert asks.told == [0, 1]


def test_nothing_is_called_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    from lazyflow.schedulers.core.observing import RunObservers

    def never(*_: Any) -> None:
        raise AssertionError("called")

    calls: list[Callable[..., None]] = []
    monkeypatch.setattr(RunObservers, "task_started", never)
    monkeypatch.setattr(RunObservers, "task_ended", never)
    assert compute([delayed(abs)(-i) for i in range(9)])[0] == list(range(9))
    assert lazyflow.compute(delayed(abs)(-1), scheduler="sync") == (1,)
    assert calls == []
