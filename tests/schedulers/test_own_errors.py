"""An error of lazyflow's own says so, and what was running; an error of a task does not."""

import re
import signal
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from lazyflow import compute, delayed
from lazyflow.errors import RemoteTaskError
from lazyflow.schedulers.core.errors.failures import notes_of, tell_of_bug
from lazyflow.schedulers.core.run import Run
from lazyflow.testing.signals import inc

OWN = "an error of lazyflow's own, not of a task: please report it. Tasks that were running: "


class Immediate(Executor):
    """An executor that is no ThreadPoolExecutor: each task is submitted by itself."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def on(name):
    made = {"ThreadPoolExecutor": lambda: ThreadPoolExecutor(2), "Immediate": Immediate}
    return made.get(name, lambda: name)()


#: Each scheduler, a step of its runs, and how its worker names the task.
BROKEN = [
    ("sync", "_pass_on", r"inc, made at \S+:\d+ in \w+ \(thread .+\)"),
    ("threads", "_pass_on", r"inc, made at \S+:\d+ in \w+ \(thread .+\)"),
    ("ThreadPoolExecutor", "_pass_on", r"inc, made at \S+:\d+ in \w+ \(thread .+\)"),
    ("Immediate", "deliver", "inc, just done"),
]


@pytest.mark.parametrize(("name", "step", "task"), BROKEN)
def test_an_error_of_lazyflows_own_says_so(name, step, task, monkeypatch):
    def broken(*given):
        raise RuntimeError("never")

    monkeypatch.setattr(Run, step, broken)
    x = delayed(inc)(1)
    with pytest.raises(RuntimeError, match="^never") as caught:
        compute([delayed(inc)(x), delayed(inc)(x)], scheduler=on(name))
    (note,) = caught.value.__notes__
    assert note.startswith(OWN)
    assert re.fullmatch(task, note.removeprefix(OWN))


@pytest.mark.parametrize("name", [name for name, *_ in BROKEN])
@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_an_error_of_a_task_is_not_lazyflows(name, kind):
    def fails():
        raise kind("mine")

    with pytest.raises((RuntimeError, RemoteTaskError, KeyboardInterrupt)) as caught:
        compute(delayed(fails)(), scheduler=on(name))
    assert not any("lazyflow's own" in note for note in notes_of(caught.value))


def test_an_error_of_a_signal_handler_is_not_lazyflows(monkeypatch):
    """It comes at any step of a run in the main thread, as an alarm does."""

    def alarm(*given):
        raise TimeoutError("mine")

    before = signal.signal(signal.SIGUSR1, alarm)
    try:
        monkeypatch.setattr(Run, "_pass_on", lambda *given: signal.raise_signal(signal.SIGUSR1))
        with pytest.raises(TimeoutError, match="^mine") as caught:
            x = delayed(inc)(1)
            compute([delayed(inc)(x), delayed(inc)(x)], scheduler="sync")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not any("lazyflow's own" in note for note in notes_of(caught.value))


def run_of(names):
    return SimpleNamespace(running=lambda: list(names), task_name=str)


def test_a_bug_is_told_once_and_in_few_words():
    bug = ValueError()
    tell_of_bug(bug, run_of([f"f{i}" for i in range(1_234)]))
    tell_of_bug(bug, run_of(["g"]))
    assert bug.__notes__ == [OWN + "f0; f1; f2; f3; f4; f5; f6; f7; and 1,226 more"]
    idle = ValueError()
    tell_of_bug(idle, run_of([]))
    assert idle.__notes__ == [OWN + "none"]


def test_to_tell_of_a_bug_never_fails():
    class Refuses(ValueError):
        @property
        def __notes__(self):
            raise OSError("no")

    for bug in (Refuses(), ValueError(), KeyboardInterrupt()):
        tell_of_bug(bug, None)
        assert notes_of(bug) == []
