"""A diagnostic that fails is logged and dropped, and no result changes: each of ours, made to fail.

The same holds when the program's own log handler fails as well.
"""

import io
import logging
import threading
from contextlib import contextmanager

import pytest
from waiting import until

import lazyflow
from lazyflow import ProgressBar, compute, delayed, tune
from lazyflow.api.evaluate import observers
from lazyflow.diagnostics import progress
from lazyflow.diagnostics.dashboard.monitor import Monitor
from lazyflow.diagnostics.profiling import recorder, recording
from lazyflow.finalizers import LastCall
from lazyflow.graph import plan
from lazyflow.schedulers.core.base import Observer
from lazyflow.tune import callbacks

EXPECTED = list(range(9))


class Broken(OSError):
    """What our diagnostics raise here."""


def fails(*_, **__):
    raise Broken("no room")


class NoFile(io.StringIO):
    write = fails


@contextmanager
def observed(**attributes):
    attributes = {"task_ran": lambda *_: None} | attributes
    token = observers.set((type("Odd", (Observer,), attributes)(),))
    try:
        yield
    finally:
        observers.reset(token)


def bar(**options):
    pytest.importorskip("tqdm")
    return ProgressBar(**{"file": io.StringIO(), "interval": 0} | options)


def dashboard():
    pytest.importorskip("tornado")
    return lazyflow.dashboard()


#: What is shown; what of it fails (an object and its attribute); what the log says.
DIAGNOSTICS = {
    "a bar is made": (bar, (progress, "_bar_class"), "a progress bar failed"),
    "a bar's text": (bar, (ProgressBar, "_text"), "the observer ProgressBar failed in "),
    "a bar's file": (lambda: bar(file=NoFile()), None, "a progress bar can't be written"),
    "a record is begun": (
        lazyflow.profile, (recorder, "Recording"), "the observer Profile failed in run_started"),
    "a record is closed": (
        lazyflow.profile, (recording.Recording, "close"), "Profile failed in run_ended"),
    "a look at the cores": (
        lambda: lazyflow.profile(sample=0.001), (recording.UsageMeter, "read"),
        "the thread that looks where tasks are has failed"),
    "the dashboard": (dashboard, (Monitor, "_begin"), "the observer Monitor failed in take_in"),
    "the dashboard's record": (
        dashboard, (recording.Recording, "__init__"), "the observer Monitor failed in run_started"),
    **{
        f"an observer's {name}": (
            lambda name=name: observed(**{name: property(fails)}), None, f"Odd failed in {name}")
        for name in ("sampling", "keeps_times", "task_started", "run_ended")
    },
}


class FailingHandler(logging.Handler):
    """Raises, but keeps what it was given before."""

    def __init__(self):
        super().__init__()
        self.given = []

    def emit(self, record):
        self.given.append(record)
        raise RuntimeError("this handler is broken")


@pytest.fixture
def failing_handler():
    handler, log = FailingHandler(), logging.getLogger("lazyflow")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def graph():
    return [delayed(abs)(-i) for i in range(9)]


@pytest.mark.parametrize("what", DIAGNOSTICS)
def test_one_that_fails_changes_no_result(what, monkeypatch, failing_handler):
    made, broken, words = DIAGNOSTICS[what]
    scheduler = "processes" if "sampling" in what else "threads"  # only workers are asked for them

    def told():
        return [r for r in failing_handler.given if words in r.getMessage()]

    if broken == (progress, "_bar_class"):
        monkeypatch.setattr(progress, "_bar_class", lambda: fails)
    elif broken is not None:
        monkeypatch.setattr(*broken, fails)
    with made():
        for _ in range(3):
            assert compute(graph(), scheduler=scheduler, timeout=60) == (EXPECTED,)
        assert until(told)
    assert len(told()) == 1
    assert isinstance(told()[0].exc_info[1], Broken)


def test_words_of_a_pass_that_fail_change_no_result(caplog, monkeypatch, failing_handler):
    with caplog.at_level(logging.DEBUG, logger="lazyflow.passes"):
        assert compute(graph()) == (EXPECTED,)
        for each in plan.PASSES:
            monkeypatch.setattr(each, "explain", fails)
        assert compute(graph()) == (EXPECTED,)
    said = [record.getMessage() for record in failing_handler.given]
    names = [each.name for each in plan.PASSES]
    assert [line.split(":")[0] for line in said] == names * 2
    assert said[3:] == [f"{name}: what it did can't be told" for name in names]


def test_what_fails_late_stops_nothing_that_comes_after_it(failing_handler):
    """Callbacks of futures, and of objects that were freed, are called by threads of ours."""
    called = [threading.Event(), threading.Event()]
    future = lazyflow.submit(abs, -1)
    future.add_done_callback(fails)
    future.add_done_callback(lambda _: called[0].set())
    for call in (fails, called[1].set):
        LastCall(call)
    assert future.result() == 1 and all(each.wait(60) for each in called)
    said = sorted(record.getMessage()[:14] for record in failing_handler.given)
    assert said == ["a callback of ", "a finalizer fa"]


# -- the display of a search ----------------------------------------------------------------


def train(config):
    tune.report(loss=config["x"])


def search(**options):
    return tune.run(
        train, {"x": tune.grid_search([3, 1, 2])}, metric="loss", num_samples=1, seed=0, **options)


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
@pytest.mark.parametrize("hook", [name for name in vars(tune.Callback) if name.startswith("on_")])
def test_a_display_that_fails_ends_no_search(hook, scheduler, failing_handler):
    called = []

    def breaks(*given):
        called.append(given)
        raise Broken("no room")

    shown = type("Odd", (callbacks.Display,), {hook: breaks})()
    result = search(scheduler=scheduler, callbacks=[shown], verbose=0)
    assert [trial.metrics["loss"] for trial in result.trials] == [3, 1, 2]
    assert {trial.status for trial in result.trials} == {"completed"}
    (record,) = failing_handler.given
    assert record.getMessage().startswith("the observer Odd failed in a search")
    assert len(called) == 1


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


@pytest.mark.parametrize(("is_terminal", "broken", "name"), [
    (False, (callbacks.TrialLines, "_row"), "TrialLines failed in a search"),
    (True, (callbacks.TerminalTable, "rows"), "TerminalTable failed in its table"),
    (True, (callbacks.TerminalTable, "on_start"), "TerminalTable failed in a search"),
])
def test_a_search_whose_own_display_fails(is_terminal, broken, name, monkeypatch, failing_handler):
    pytest.importorskip("rich")
    monkeypatch.setattr("sys.stderr", Stream(is_terminal))
    monkeypatch.setattr(*broken, fails)
    assert search(scheduler="threads", verbose=1).best.config == {"x": 1}
    assert [name in record.getMessage() for record in failing_handler.given] == [True]


@pytest.mark.parametrize("stream", [None, object(), NoFile()])
def test_a_search_whose_standard_error_is_of_no_use(stream, monkeypatch):
    monkeypatch.setattr("sys.stderr", stream)
    assert search(scheduler="sync", verbose=1).best.config == {"x": 1}
