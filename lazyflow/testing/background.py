"""Contract: tasks that `persist` started, `wait`, and results that are not wanted any more."""

from __future__ import annotations

import gc
import logging
import threading
from typing import Any

import pytest

import lazyflow
from lazyflow import config, delayed, persist, wait
from lazyflow.graph.plan import in_order
from lazyflow.testing.base import Part
from lazyflow.testing.signals import Gate, Level, Tally
from lazyflow.testing.tasks import Counted, add, inc, scheduler_name


class BackgroundContract(Part):
    """Work in the background."""

    def test_persist_keeps_places_and_kinds(self) -> None:
        x, y = delayed(inc)(1), delayed(inc)(2)
        a, (b, rest), plain = self.persist(x, [y, {"k": x}], 5)
        assert plain == 5
        assert [type(v).__name__ for v in (a, b, rest["k"])] == ["Delayed"] * 3
        assert self.compute(a, b, rest["k"]) == (2, 3, 2)

    def test_persist_always_returns_a_tuple(self) -> None:
        assert isinstance(persist(delayed(inc)(1), scheduler=self.scheduler), tuple)
        assert persist(1, scheduler=self.scheduler) == (1,)

    def test_persisted_work_runs_once(self) -> None:
        calls = Tally()
        x = self.persist(delayed(lambda: calls.add("x") and 3)())
        assert self.compute(x + 1, x + 2) == (4, 5)
        assert self.compute(x) == 3
        assert calls.items() == ["x"]

    def test_persist_returns_at_once(self) -> None:
        self.needs(not self.eager, "this scheduler computes where it stands")
        release = Gate()
        x = self.persist(delayed(release.wait)(60))
        assert repr(x) == "<Delayed wait: pending>"
        release.open()
        assert self.compute(x) is True
        assert repr(x) == "<Delayed wait: finished>"

    def test_a_loop_of_persist_steps_has_a_graph_of_constant_size(self) -> None:
        x: Any = delayed(0)
        sizes = set()
        for _ in range(300):
            x = self.persist(delayed(inc)(x))
            sizes.add(len(in_order([x])[0]))
        assert sizes == {1}
        assert self.compute(x) == 300

    def test_the_history_is_dropped(self) -> None:
        alive = Level()
        x = delayed(lambda: Counted(alive))()
        y = self.persist(delayed(lambda value: 5)(x))
        del x
        wait(y)
        self.word_travels()
        assert alive.most() >= 1
        assert alive.wait_for(0)  # the thread that ran it may hold it a moment longer
        assert self.compute(y) == 5

    def test_the_value_is_freed_with_the_last_reference(self) -> None:
        alive, calls = Level(), Tally()
        x = self.persist(delayed(lambda: calls.add("x") and Counted(alive))())
        value = self.compute(x)
        assert type(value) is Counted
        del value
        self.word_travels()
        assert self.compute(delayed(lambda value: value.alive.now())(x)) >= 1
        assert calls.items() == ["x"]
        if self.shares_memory:
            assert alive.now() == 1
        del x
        assert self.comes_to(alive, 0)

    def test_an_error_surfaces_at_first_use(self) -> None:
        x, y = self.persist(delayed(lambda: 1 / 0)(), delayed(inc)(1))
        assert self.compute(y) == 2
        for _ in range(2):
            with pytest.raises(ZeroDivisionError) as caught:
                self.compute(x + 1)
            assert len(caught.value.__notes__) == 1

    def test_an_error_nobody_saw_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR, logger="lazyflow"):
            logged = threading.Event()
            caplog.handler.addFilter(lambda record: logged.set() or True)
            x = self.persist(delayed(lambda: 1 / 0, name="lost")())
            wait(x)
            del x
            gc.collect()
            assert logged.wait(20)  # the thread that ran it may hold it a moment longer
            for _ in range(3):
                self.compute(delayed(inc)(1))
        told = [r.getMessage() for r in caplog.records]
        assert len(told) == 1
        assert "nobody looked at had failed: ZeroDivisionError" in told[0]
        assert "in lazyflow task lost()" in told[0]

    def test_a_seen_error_is_not_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR, logger="lazyflow"):
            x = self.persist(delayed(lambda: 1 / 0)())
            with pytest.raises(ZeroDivisionError):
                self.compute(x)
            del x
            gc.collect()
            self.compute(delayed(inc)(1))
        assert caplog.records == []

    def test_dropped_work_is_not_started(self) -> None:
        self.needs(not self.eager, "persist is done before it can be dropped")
        release, ran = Gate(), Tally()

        def step(x: Any, name: str) -> int:
            ran.add(name)
            return 1

        first = delayed(step)(delayed(release.wait)(60), "first")
        wanted = delayed(step)(first, "wanted")
        dropped = delayed(step)(first, "dropped")
        a, b = self.persist(wanted, dropped, num_workers=1)
        del b
        self.word_travels()
        release.open()
        assert self.compute(a) == 1
        assert ran.items() == ["first", "wanted"]

    def test_work_nobody_wants_any_more_ends(self) -> None:
        self.needs(not self.eager, "persist is done before it can be dropped")
        release, started, ran = Gate(), Gate(), Tally()

        def wait_here() -> None:
            started.open()
            release.wait()

        gate = delayed(wait_here)()
        xs = self.persist([delayed(lambda _, i: ran.add(i))(gate, i) for i in range(20)],
                          num_workers=1)
        assert started.wait()
        del xs
        self.word_travels()
        release.open()
        self.compute(delayed(inc)(1))
        assert ran.items() == []

    def test_pending_values_are_inputs_like_any_other(self) -> None:
        self.needs(not self.eager, "nothing is pending here")
        release = Gate()
        x = self.persist(delayed(lambda: release.wait(60) and 5)())
        y = self.persist(delayed(add)(x, 1))
        z = self.persist(delayed(add)(y, x))
        release.open()
        assert self.compute(z, x) == (11, 5)

    def test_at_most_max_runs_ahead(self) -> None:
        self.needs(not self.eager, "nothing runs ahead here")
        release, passed = Gate(), threading.Semaphore(0)

        def user() -> None:
            kept = []
            with config.set(max_runs_ahead=3):
                for _ in range(4):
                    kept.append(self.persist(delayed(release.wait)(60), num_workers=2))
                    passed.release()
            wait(kept)

        thread = threading.Thread(target=user)
        thread.start()
        with release:
            assert all(passed.acquire(timeout=30) for _ in range(3))
            assert not passed.acquire(timeout=0.05)
        assert passed.acquire(timeout=30)
        thread.join()

    def test_wait_gives_done_and_pending_in_order(self) -> None:
        self.needs(not self.eager, "everything is done here")
        release = Gate()
        slow = self.persist(delayed(release.wait)(60), num_workers=2)
        quick = [self.persist(delayed(inc)(i), num_workers=2) for i in range(3)]
        with release:
            done, pending = wait([quick[0], slow, *quick[1:]], num_returns=3)
            assert [id(x) for x in done] == [id(x) for x in quick]
            assert pending[0] is slow and len(pending) == 1
            assert wait(slow, timeout=0.01)[0] == []
        assert wait([slow])[1] == []

    def test_wait_counts_failures_as_done(self) -> None:
        x = self.persist(delayed(lambda: 1 / 0)())
        done, pending = wait([x])
        assert len(done) == 1 and pending == []
        with pytest.raises(ZeroDivisionError):
            self.compute(x)

    def test_wait_refuses_what_is_not_running(self) -> None:
        with pytest.raises(TypeError, match=r"Write: x, = lazyflow\.persist\(x\)"):
            wait([delayed(inc)(1)])
        x = self.persist(delayed(inc)(1))
        with pytest.raises(ValueError, match=r"num_returns must be between 0 and .* \(1\); got 2"):
            wait([x], num_returns=2)

    def test_waiting_inside_a_task_with_one_worker(self) -> None:
        def task() -> int:
            x = persist(delayed(inc)(1), num_workers=1)[0]
            wait([x])
            return int(lazyflow.compute(x, num_workers=1)[0]) + 1

        assert self.compute(delayed(task)(), num_workers=1) == 3

    def test_persisted_inputs_choose_the_scheduler(self) -> None:
        x = self.persist(delayed(scheduler_name)(0))
        assert delayed(scheduler_name)(x).compute() == self.compute(x)
