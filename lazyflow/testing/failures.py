"""Contract: errors keep their type, say where they come from, and end only their task."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from typing import Any

import pytest

import lazyflow
from lazyflow import Cancelled, Delayed, KeyConflict, RemoteTaskError, TaskTimeout, delayed
from lazyflow.api.evaluate import observers
from lazyflow.schedulers.core.base import Observer
from lazyflow.testing.base import Part
from lazyflow.testing.signals import Awkward, Gate, Odd, Tally, add, fail, inc, raise_it

ENDINGS = [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError]


class Recorder(Observer):
    """Writes down the events."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def run_started(self, run: Any) -> None:
        self.heard.append(("run started", ""))

    def task_started(self, run: Any, i: int) -> None:
        self.heard.append(("started", run.task_name(i)))

    def task_ended(self, run: Any, i: int) -> None:
        self.heard.append(("ended", run.task_name(i)))

    def task_failed(self, run: Any, i: int, error: BaseException) -> None:
        self.heard.append(("failed", run.task_name(i)))

    def run_ended(self, run: Any) -> None:
        self.heard.append(("run ended", ""))


#: Seconds by which the clocks of two machines may differ.
CLOCKS_APART = 60.0


class Clocks(Observer):
    """Writes down where and when tasks ran, and the CPU time of each."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, float, float, float | None]] = []

    def task_ran(
        self, run: Any, i: int, worker: str, start: float, end: float, cpu: float | None,
        size: int | None,
    ) -> None:
        self.heard.append((run.task_name(i), worker, start, end, cpu))


def slow_and_bad(release: Gate) -> tuple[Delayed, Delayed]:
    """Return a task that waits for the gate, and one that fails while the first one runs."""
    started = Gate()

    def slow() -> None:
        started.open()
        release.wait()

    def bad() -> None:
        started.wait()
        raise Odd(1, "at once")

    return delayed(slow)(), delayed(bad)()


class FailureContract(Part):
    """Failures."""

    def test_an_error_keeps_its_type_and_gets_a_note(self) -> None:
        x = delayed(add)(delayed(fail)(3), 1)
        with pytest.raises(Odd, match="7: no 3") as caught:
            self.compute(x)
        assert caught.value.code == 7
        (note,) = caught.value.__notes__
        assert note.startswith("in lazyflow task fail(3), made at ")
        assert f"{__file__}:" in note and note.endswith(" in " + self._here())

    def _here(self) -> str:
        return "FailureContract.test_an_error_keeps_its_type_and_gets_a_note"

    def test_the_note_shows_scalars_by_value_and_the_rest_by_shape(self) -> None:
        numpy = pytest.importorskip("numpy")
        x = delayed(lambda *a, **k: 1 / 0, name="bad")(
            delayed(numpy.ones)((2, 3)), "word", [1, 2], k=2.5
        )
        with pytest.raises(ZeroDivisionError) as caught:
            self.compute(x)
        expected = "in lazyflow task bad(ndarray(2, 3) float64, 'word', list of 2, k=2.5), made at "
        assert caught.value.__notes__[0].startswith(expected)

    def test_the_traceback_has_at_most_one_frame_of_ours(self) -> None:
        x = delayed(fail)(3)
        for ask in (lambda: self.compute(x), lambda: x.compute(scheduler=self.scheduler)):
            with pytest.raises(Odd) as caught:
                ask()
            frames = traceback.extract_tb(caught.value.__traceback__)
            ours = [f for f in frames if "/lazyflow/" in f.filename and "testing" not in f.filename]
            assert len(ours) == 1
            assert frames[-1].name == "fail"
            assert frames[-1].line == 'raise Odd(7, f"no {x}")'

    def test_an_error_of_a_class_made_in_a_function_keeps_its_type(self) -> None:
        class Local(Exception):
            pass

        with pytest.raises(Local, match="of here"):
            self.compute(delayed(raise_it)(Local, "of here"))

    def test_an_error_that_pickle_can_not_make_again_says_all_it_said(self) -> None:
        with pytest.raises(Exception, match="7: no luck") as caught:
            self.compute(delayed(raise_it)(Awkward, 7, "no luck"))
        kinds = (Awkward,) if self.shares_memory else (Awkward, RemoteTaskError)
        assert type(caught.value) in kinds
        assert "Awkward" in f"{type(caught.value).__name__}: {caught.value}"
        assert caught.value.__notes__[-1].startswith("in lazyflow task raise_it(")
        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "raise_it"

    def test_the_cause_and_the_notes_of_an_error_are_kept(self) -> None:
        def task() -> None:
            try:
                fail(1)
            except Odd as odd:
                error = ValueError("worse")
                error.add_note("look here")
                raise error from odd

        with pytest.raises(ValueError, match="worse") as caught:
            self.compute(delayed(task)())
        own, ours = caught.value.__notes__
        assert own == "look here" and ours.startswith("in lazyflow task task()")
        cause = caught.value.__cause__
        assert type(cause) is Odd and cause.text == "no 1"
        assert traceback.extract_tb(cause.__traceback__)[-1].name == "fail"

    def test_raised_again_it_has_one_note_and_a_fresh_traceback(self) -> None:
        x = self.persist(delayed(fail)(1))
        depths = []
        for _ in range(3):
            with pytest.raises(Odd) as caught:
                self.compute(x)
            depths.append(len(traceback.extract_tb(caught.value.__traceback__)))
            assert len(caught.value.__notes__) == 1
        assert len(set(depths)) == 1

    def test_our_frames_hold_no_values(self) -> None:
        class Value:
            pass

        x = delayed(add)(delayed(Value)(), delayed(fail)(1))
        with pytest.raises(Odd) as caught:
            self.compute(x)
        trace = caught.value.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if "/lazyflow/" in code.co_filename and "testing" not in code.co_filename:
                assert not [v for v in trace.tb_frame.f_locals.values() if isinstance(v, Value)]
            trace = trace.tb_next

    @pytest.mark.parametrize("kind", ENDINGS)
    def test_what_would_end_the_caller_is_wrapped(self, kind: type[BaseException]) -> None:
        if kind is KeyboardInterrupt and not self.interrupts:
            pytest.skip("on the main thread it is the user's own")
        good = delayed(inc)(1)
        with pytest.raises(RemoteTaskError, match=kind.__name__) as caught:
            self.compute(delayed(raise_it)(kind))
        assert type(caught.value.__cause__) is kind
        assert "in lazyflow task raise_it" in caught.value.__notes__[0]
        assert self.compute(good) == 2

    def test_nothing_that_needs_a_failed_task_runs(self) -> None:
        ran = Tally()
        after = delayed(ran.add)(delayed(fail)(1))
        with pytest.raises(Odd):
            self.compute(after)
        assert ran.items() == []

    def test_collected_errors_stand_where_values_would(self) -> None:
        good, bad = delayed(inc)(1), delayed(fail)(2)
        a, (b, c), d = self.compute(
            good, [bad, delayed(add)(bad, good)], delayed(inc)(good), on_error="collect"
        )
        assert (a, d) == (2, 3)
        assert type(b) is Odd and c is b

    def test_an_exception_as_a_value_is_a_value(self) -> None:
        x = delayed(Odd)(1, "fine")
        assert self.compute(delayed(str)(x)) == "1: fine"
        assert type(self.compute(x, on_error="collect")) is Odd

    @pytest.mark.parametrize("retries", [0, 1, 2, 5])
    def test_retries(self, retries: int) -> None:
        tries = Tally()

        def flaky() -> int:
            number = tries.add("once more")
            if number < 3:
                raise OSError(f"try {number}")
            return number

        x = delayed(flaky, retries=retries)()
        if retries >= 2:
            assert self.compute(x) == 3
        else:
            with pytest.raises(OSError, match=f"try {retries + 1}") as caught:
                self.compute(x)
            assert len(caught.value.__notes__) == 1
        assert len(tries) == min(3, retries + 1)

    def test_annotated_retries(self) -> None:
        tries = Tally()
        with lazyflow.annotate(retries=1):
            x = delayed(lambda: 1 / (tries.add("once more") - 1))()
        assert self.compute(x) == 1.0

    def test_a_wrong_number_of_results_is_an_error_with_both_numbers(self) -> None:
        x = delayed(lambda: (1, 2), nout=3, name="pair")()
        with pytest.raises(ValueError, match=r"pair was declared to return 3 values .* returned 2"):
            self.compute(x)

        def annotated() -> tuple[int, int]:
            return (1, 2, 3)  # type: ignore[return-value]

        a, b = delayed(annotated)()
        with pytest.raises(ValueError, match=r"annotated was declared to return 2 .* returned 3"):
            self.compute(a, b)

    def test_a_key_for_two_tasks_is_found_before_anything_runs(self) -> None:
        ran = Tally()
        x = delayed(ran.add)(1, dask_key_name="k")
        y = delayed(ran.add)(2, dask_key_name="k")
        with pytest.raises(KeyConflict, match="the key 'k' was given to two different tasks"):
            self.compute(x, y)
        assert ran.items() == []

    def test_a_timeout_names_what_it_waited_for(self) -> None:
        release = Gate()
        x = delayed(release.wait, name="slow")(30 if self.interrupts else 0.02)
        y = delayed(inc)(x)
        with release:
            for timeout in (0.01, 0.1, 1, 10):  # on a busy machine the task has not begun at first
                words = rf"no result of inc after {timeout} s"
                with pytest.raises(TaskTimeout, match=words.replace(".", r"\.")) as caught:
                    self.compute(y, timeout=timeout)
                assert isinstance(caught.value, TimeoutError)
                if not self.interrupts or "slow, made at" in str(caught.value):
                    break
            else:
                raise AssertionError(f"what is waited for is not named: {caught.value}")
        assert self.compute(delayed(inc)(1), timeout=30) == 2

    def test_endless_tasks_do_not_stop_the_next_compute(self) -> None:
        self.needs(self.interrupts, "a task can't be left behind here")
        release = Gate()
        xs = [delayed(release.wait)(60) for _ in range(4)]
        with release:
            with pytest.raises(TaskTimeout):
                self.compute(xs, timeout=0.05, num_workers=2)
            assert self.compute([delayed(inc)(i) for i in range(10)], num_workers=2)[-1] == 10

    def test_an_error_does_not_wait_for_other_tasks(self) -> None:
        self.needs(self.interrupts, "one task at a time")
        release, later = Gate(), Tally()
        slow, bad = slow_and_bad(release)
        with release, pytest.raises(Odd):
            self.compute(bad, [delayed(later.add)(slow) for _ in range(50)], num_workers=2)
        self.compute(delayed(inc)(1))
        assert later.items() == []

    def test_what_waits_for_a_worker_does_not_start_after_an_error(self) -> None:
        self.needs(self.interrupts, "one task at a time")
        release, later = Gate(), Tally()

        def queued(i: int) -> None:
            later.add(i)
            release.wait()

        slow, bad = slow_and_bad(release)
        with release, pytest.raises(Odd):
            self.compute(slow, bad, [delayed(queued)(i) for i in range(50)], num_workers=2)
        # A worker elsewhere may have started on one more before it heard of the end.
        assert len(later) <= (0 if self.shares_memory else 1)

    def test_a_cancelled_run_cancels_what_its_tasks_compute(self) -> None:
        self.needs(self.interrupts, "one task at a time")
        release, inner = Gate(), Tally()

        def nested() -> None:
            first = delayed(release.wait)(60)
            lazyflow.compute([delayed(lambda _, i: inner.add(i))(first, i) for i in range(9)])

        self.compute(delayed(inc)(1))  # so that workers are there
        with pytest.raises(TaskTimeout):
            self.compute(delayed(nested)(), timeout=0.05)
        self.word_travels()
        release.open()
        self.compute(delayed(inc)(1))
        assert inner.items() == []

    def test_observers_hear_what_happens(self) -> None:
        recorder = Recorder()
        token = observers.set((recorder,))
        try:
            self.compute(delayed(inc)(delayed(inc)(1)))
            with pytest.raises(Odd):
                self.compute(delayed(fail)(1))
        finally:
            observers.reset(token)
        assert recorder.heard == [
            ("run started", ""), ("started", "inc"), ("ended", "inc"), ("started", "inc"),
            ("ended", "inc"), ("run ended", ""), ("run started", ""), ("started", "fail"),
            ("failed", "fail"), ("run ended", ""),
        ]

    def test_observers_hear_where_and_when_tasks_ran(self) -> None:
        clocks = Clocks()
        token = observers.set((clocks,))
        try:
            earliest = time.perf_counter()
            self.compute(delayed(inc)(delayed(inc)(1)), delayed(fail)(1), on_error="collect")
            latest = time.perf_counter()
        finally:
            observers.reset(token)
        assert sorted(name for name, *_ in clocks.heard) == ["fail", "inc", "inc"]
        for _, worker, start, end, cpu in clocks.heard:
            assert worker
            assert earliest - CLOCKS_APART <= start <= end <= latest + CLOCKS_APART
            assert cpu is None or 0 <= cpu <= end - start + 1e-6  # rounded on its way

    def test_a_failing_observer_is_logged_once_and_changes_nothing(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Bad(Observer):
            def task_ended(self, run: Any, i: int) -> None:
                raise OSError("broken observer")

        recorder, token = Recorder(), None
        token = observers.set((Bad(), recorder))
        try:
            with caplog.at_level(logging.ERROR, logger="lazyflow"):
                for _ in range(2):
                    assert self.compute([delayed(inc)(i) for i in range(5)]) == [1, 2, 3, 4, 5]
        finally:
            observers.reset(token)
        assert len(caplog.records) == 1
        assert "failed in task_ended and is not called again" in caplog.text
        assert len(recorder.heard) == 2 * (2 + 5 * 2)

    def test_a_cancelled_value_raises_cancelled(self) -> None:
        self.needs(not self.eager, "persist is done before it can be cancelled")
        release = Gate()
        with release:
            x, y = self.persist(delayed(release.wait)(60), delayed(inc)(1))
            assert x.cancel() is True
            assert x.cancel() is False
            with pytest.raises(Cancelled, match="wait was cancelled before it was computed"):
                x.compute()
        assert y.compute() == 2
