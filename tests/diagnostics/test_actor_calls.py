"""Calls of actors in profiles, bars and on the live page, on every scheduler."""

import json
import os
from typing import Any

import pytest

import lazyflow
from lazyflow import ProgressBar, delayed
from lazyflow.api.evaluate import always_observers
from lazyflow.diagnostics import progress
from lazyflow.diagnostics.dashboard.monitor import Monitor
from lazyflow.diagnostics.profiling import recording
from lazyflow.diagnostics.profiling.pages import bars_of
from lazyflow.schedulers.actors import calls
from lazyflow.testing.signals import Gate

ALL = pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc here")


class Plain:
    def __init__(self, n):
        self.n = n

    def add(self, k):
        self.n += k
        return self.n

    def fail(self):
        raise ValueError(self.n)

    def wait(self, gate, begun=None):
        if begun is not None:
            begun.open()
        return gate.wait()


class Later:
    async def get(self, k):
        return k


def plain(scheduler, **options):
    return lazyflow.actor(Plain, scheduler=scheduler, **options)


@ALL
def test_each_actor_has_a_lane_with_its_calls(scheduler):
    with lazyflow.profile() as p:
        one, other = plain(scheduler)(1), plain(scheduler)(10)
        calls = [one.add(1), one.add(delayed(abs)(-1)), other.add(1)]
        assert [call.result() for call in calls] == [2, 3, 11]
        with pytest.raises(ValueError, match="11"):
            other.fail().result()
    calls = [task for task in p.tasks if task.run == -1]
    assert sorted((task.worker, task.name, task.failed) for task in calls) == [
        ("actor Plain", "Plain.__init__", False), ("actor Plain", "Plain.add", False),
        ("actor Plain", "Plain.add", False),
        ("actor Plain (2)", "Plain.__init__", False), ("actor Plain (2)", "Plain.add", False),
        ("actor Plain (2)", "Plain.fail", True),
    ]
    for task in calls:
        assert 0 <= task.start <= task.end <= p.seconds
        assert task.cpu is not None and 0 <= task.cpu <= task.seconds + 0.02
        assert "test_actor_calls.py:" in task.place
        assert task.function == f"{__name__}.{task.name}"
    assert repr(p) == "<Profile: 6 calls of actors and 1 task of 1 run>"
    assert p.summary().headline.startswith(
        "6 calls of actors and 1 task of 4 functions in 1 run on 1 worker and 2 actors; "
    )
    rows = {row.function: (row.calls, row.failed) for row in p.summary().rows}
    assert rows["Plain.add"] == (3, 0) and rows["Plain.fail"] == (1, 1) and rows["abs"] == (1, 0)


def test_calls_of_async_methods_overlap_and_have_no_cpu_time_of_their_own():
    with lazyflow.profile() as p:
        actor = lazyflow.actor(Later, scheduler="threads")()
        assert [call.result() for call in [actor.get(1), actor.get(2)]] == [1, 2]
    assert [task.cpu for task in p.tasks if task.name == "Later.get"] == [None, None]


@ALL
def test_nobody_hears_of_calls_outside_of_the_block(scheduler, monkeypatch):
    actor = plain(scheduler)(1)
    with lazyflow.profile() as p:
        assert actor.add(1).result() == 2
    assert [task.name for task in p.tasks] == ["Plain.add"]

    def never(*args):
        raise AssertionError("nobody observes")

    monkeypatch.setattr(calls.WatchedCall, "__init__", never)
    assert actor.add(1).result() == 3
    assert len(p.tasks) == 1


def test_a_call_that_was_cancelled_is_none():
    gate = Gate()
    with lazyflow.profile() as p:
        actor = plain("threads")(1)
        running, queued = actor.wait(gate), actor.add(1)
        queued.cancel()
        gate.open()
        running.result()
        actor.add(2).result()
    assert [task.name for task in p.tasks] == ["Plain.__init__", "Plain.wait", "Plain.add"]


def test_a_call_that_was_cancelled_after_it_was_sent_has_not_failed():
    gate, begun = Gate(), Gate()
    with lazyflow.profile() as p:
        actor = plain("processes")(1)
        running, queued = actor.wait(gate, begun), actor.add(1)
        assert begun.wait()
        queued.cancel()
        gate.open()
        running.result()
        has_run = actor.add(2).result() == 4  # the word did not come in time
    names = ["Plain.__init__", "Plain.wait", *["Plain.add"] * (1 + has_run)]
    assert [task.name for task in p.tasks] == names
    assert not any(task.failed for task in p.tasks)


@ALL
def test_a_constructor_that_raised_has_failed(scheduler):
    with lazyflow.profile() as p:
        actor = plain(scheduler)()
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            actor.add(1).result()
    names = [(task.name, task.worker, task.failed) for task in p.tasks]
    assert names == [("Plain.__init__", "actor Plain", True), ("Plain.add", "", True)]


def test_a_constructor_that_can_not_be_called_has_failed_on_no_actor():
    with lazyflow.profile() as p:
        actor = plain("processes")(delayed(lambda: 1 / 0)())
        with pytest.raises(ZeroDivisionError):
            actor.add(1).result()
    names = {(task.name, task.worker, task.failed) for task in p.tasks if task.run < 0}
    assert names == {("Plain.__init__", "", True), ("Plain.add", "", True)}


def test_a_call_whose_input_failed_has_failed_on_no_actor():
    with lazyflow.profile() as p:
        actor = plain("threads")(1)
        with pytest.raises(ZeroDivisionError):
            actor.add(delayed(lambda: 1 / 0)()).result()
    (call,) = [task for task in p.tasks if task.name == "Plain.add"]
    assert call.failed and call.worker == "" and call.seconds == 0


def test_the_time_of_a_call_is_no_gap_of_the_callers(tmp_path):
    with lazyflow.profile() as p:
        actor = plain("threads", name="the counter")(1)
        actor.add(1).result()
    lanes, bars = bars_of(p.tasks, p.runs, p.seconds)
    assert lanes == ["caller", "actor Plain 'the counter'"]
    for bar in bars["outside of runs"]:
        assert not any(bar.left < task.end and task.start < bar.right for task in p.tasks)
    p.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert "Plain.add" in [event["name"] for event in events]


@needs_proc
def test_the_memory_of_an_actors_process_is_read(monkeypatch):
    monkeypatch.setattr(recording, "_STEP", 0.0)
    monkeypatch.setattr(recording, "_WORKERS", 0.0)
    with lazyflow.profile(sample=0.001) as p:
        actor = plain("processes")(1)
        for _ in range(50):
            actor.add(1).result()
            if p.usage and p.usage[-1].worker_memory:
                break
    assert p.usage[-1].worker_memory > 1 << 20


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_the_flame_shows_lines_of_methods(scheduler):
    class Slow:
        def work(self, profile):
            while not profile.flame().looks:
                pass

    with lazyflow.profile(sample=0.001) as p:
        lazyflow.actor(Slow, scheduler=scheduler)().work(p).result()
    assert f"{__name__}.Slow.work" in p.flame()._root.below
    assert any("test_actor_calls.py:" in line.place for line in p.flame().lines)


def test_the_flame_says_of_which_actors_it_sees_nothing():
    with lazyflow.profile() as p:
        for scheduler in ("threads", "processes"):
            assert plain(scheduler)(1).add(1).result() == 2
    assert p.flame().headline.endswith("; methods of actors on processes are not looked at")


@pytest.fixture
def bars(monkeypatch):
    made: list[Any] = []

    class Bar:
        def __init__(self, total, initial, **options):
            self.seen = []
            made.append(self)

        def set_postfix_str(self, text, refresh):
            self.seen.append((self.n, self.total, text))

        def close(self):
            pass

    monkeypatch.setattr(progress, "_bar_class", lambda: Bar)
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    return made


def test_a_bar_counts_calls_that_last(bars):
    actor = plain("threads")(1)
    with ProgressBar(interval=60):
        assert actor.add(1).result() == 2
    assert bars == []
    with ProgressBar(interval=0):
        calls = [actor.add(1), actor.add(1), actor.fail()]
        lazyflow.wait(calls)
    assert bars[-1].seen[-1][1:] == (3, "1 failed")


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_a_bar_names_the_methods_that_run(bars, scheduler):
    gate, begun = Gate(), Gate()
    with ProgressBar(interval=0):
        actor = plain(scheduler)(1)
        calls = [actor.wait(gate, begun), actor.add(1)]
        assert begun.wait()
        delayed(abs)(-1).compute(scheduler="sync")  # has the bar drawn
        gate.open()
        lazyflow.wait(calls)
    assert "Plain.wait" in [text for *_, text in bars[-1].seen]
    assert bars[-1].seen[-1] == (4, 4, "")


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_the_page_has_calls(scheduler):
    monitor = Monitor()
    gate, begun = Gate(), Gate()
    always_observers.append(monitor)
    try:
        actor = plain(scheduler)(1)
        actor.add(1).result()
        running = actor.wait(gate, begun)
        queued = actor.add(1)
        assert begun.wait()
        news = monitor.news(0)
        at = news["functions"].index("Plain.wait")
        assert [each[1:5] for each in news["progress"] if each[0] == at] == [(0, 0, 1, 1)]
        assert [each[4] for each in news["progress"] if each[0] != at] == [0, 0]
        assert news["open_calls"] == 2
        assert monitor.is_busy()
        names = [name for name, *_ in news["memory"]]
        assert any(name.endswith(", actor Plain") for name in names) == (scheduler == "processes")
        if scheduler == "threads":  # the word always comes in time
            queued.cancel()
        gate.open()
        running.result()
        lazyflow.wait([queued])
        with pytest.raises(ValueError):
            actor.fail().result()
    finally:
        always_observers.remove(monitor)
    news = monitor.news(0)
    found = {news["functions"][number]: tuple(rest[:4]) for number, *rest in news["progress"]}
    adds = 1 if scheduler == "threads" else 2
    assert found == {
        "Plain.__init__": (1, 0, 1, 0), "Plain.add": (adds, 0, adds, 0),
        "Plain.wait": (1, 0, 1, 0), "Plain.fail": (1, 1, 1, 0),
    }
    assert news["workers"] == ["actor Plain"]
    assert news["open_calls"] == 0
    assert not monitor.is_busy()
