"""`ProgressBar`: what it draws and where, for runs that nest, fail or overlap."""

import builtins
import io
import re
import sys
import threading
import types
from typing import Any

import pytest
from waiting import FakeClock

import lazyflow
from lazyflow import ProgressBar, compute, delayed, persist, wait
from lazyflow.api.evaluate import always_observers, observers
from lazyflow.diagnostics import progress

pytest.importorskip("tqdm")


class FakeBar:
    """Stands for tqdm's bar, and remembers what it was told."""

    made: list["FakeBar"] = []

    def __init__(self, total: int, initial: int = 0, **options: Any) -> None:
        self.total, self.n, self.options, self.closed = total, initial, options, 0
        self.seen = [(initial, total)]
        self.texts: list[str] = []
        FakeBar.made.append(self)

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        assert not self.closed and refresh
        self.seen.append((self.n, self.total))
        self.texts.append(text)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[FakeBar]:
    FakeBar.made = []
    monkeypatch.setattr(progress, "_bar_class", lambda: FakeBar)
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    return FakeBar.made


def test_a_file_gets_the_counts() -> None:
    text = io.StringIO()
    with ProgressBar("work", file=text):
        assert compute([delayed(abs)(-i) for i in range(30)]) == (list(range(30)),)
    assert re.search(r"work: 100%.* 30/30 ", text.getvalue())


def test_standard_error_where_it_is_a_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = delayed(sum)([delayed(abs)(-i) for i in range(7)])
    with ProgressBar():
        work.compute()
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressBar():
        work.compute()
    out, err = capfd.readouterr()
    assert out == "" and "8/8" in err


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_functions_that_run_and_failures_are_named(bars: list[FakeBar], scheduler: str) -> None:
    def slow(x: int) -> int:
        return x

    def broken(x: int) -> int:
        raise OSError("disk")

    with ProgressBar(interval=0), pytest.raises(OSError, match="disk"):
        compute(delayed(broken)(delayed(slow)(1)), scheduler=scheduler, num_workers=1)
    (bar,) = bars
    assert bar.texts[-1] == "1 failed"


def test_what_runs_is_named_so_that_it_cannot_steer_a_terminal(bars: list[FakeBar]) -> None:
    def outer() -> Any:
        return compute(delayed(abs)(-1), delayed(abs)(-2))

    outer.__name__ = "a\x1b[2Jvery-long-name-of-a-function"
    with ProgressBar(interval=0):
        delayed(outer)().compute()
    assert "a?[2Jvery-long-name-of-…" in bars[0].texts
    assert bars[0].texts[-1] == ""


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_nested_computes_share_a_bar(bars: list[FakeBar], scheduler: str) -> None:
    def outer(i: int) -> int:
        return sum(compute([delayed(abs)(-k) for k in range(4)])[0])

    with ProgressBar(interval=0):
        compute([delayed(outer)(i) for i in range(5)], scheduler=scheduler)
    (bar,) = bars
    assert bar.seen[-1] == (25, 25)
    assert bar.closed == 1
    assert all(0 <= n <= total for n, total in bar.seen)


def test_one_compute_after_the_other_has_a_bar_each(bars: list[FakeBar]) -> None:
    with ProgressBar(interval=0):
        compute(delayed(abs)(-1))
        compute([delayed(abs)(-1), delayed(abs)(-2)])
    assert [bar.seen[-1] for bar in bars] == [(1, 1), (2, 2)]
    assert [bar.closed for bar in bars] == [1, 1]


def test_a_failing_run_closes_the_bar(bars: list[FakeBar]) -> None:
    with ProgressBar(), pytest.raises(ZeroDivisionError):
        compute([delayed(abs)(-1), delayed(lambda: 1 / 0)()], num_workers=1)
    assert [bar.closed for bar in bars] == [1]


def test_a_timeout_closes_the_bar(bars: list[FakeBar]) -> None:
    release = threading.Event()
    with ProgressBar(), pytest.raises(lazyflow.TaskTimeout):
        compute(delayed(release.wait)(20), timeout=0.01)
    release.set()
    assert [bar.closed for bar in bars] == [1]


def test_persisted_work_is_shown(bars: list[FakeBar]) -> None:
    with ProgressBar(interval=0):
        wait(persist(*[delayed(abs)(-i) for i in range(5)]))
    (bar,) = bars
    assert bar.seen[-1][1] == 5 and bar.closed == 1


def test_work_that_goes_on_after_the_block_closes_the_bar(bars: list[FakeBar]) -> None:
    release = threading.Event()
    with ProgressBar():
        (x,) = persist(delayed(release.wait)(20))
    assert [bar.closed for bar in bars] == [1]
    release.set()
    assert compute(x) == (True,)


def test_short_work_shows_no_bar(bars: list[FakeBar]) -> None:
    with ProgressBar(minimum=60):
        compute([delayed(abs)(-i) for i in range(7)])
    assert bars == []


def test_register_and_unregister(bars: list[FakeBar]) -> None:
    bar = ProgressBar()
    bar.register()
    try:
        compute(delayed(abs)(-1))
    finally:
        bar.unregister()
    compute(delayed(abs)(-1))
    assert len(bars) == 1
    assert always_observers == []


def test_the_block_leaves_nothing(bars: list[FakeBar]) -> None:
    with pytest.raises(OSError), ProgressBar():
        raise OSError
    assert observers.get() == ()
    assert bars == []


def test_a_notebook_gets_the_notebook_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(
        sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell)
    )
    notebook = types.SimpleNamespace(tqdm=FakeBar)
    monkeypatch.setitem(sys.modules, "tqdm.notebook", notebook)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # not installed
    assert ProgressBar()._bar_class.__module__.startswith("tqdm")
    monkeypatch.setitem(sys.modules, "ipywidgets", types.ModuleType("ipywidgets"))
    assert ProgressBar()._bar_class is FakeBar
    del shell.kernel  # IPython in a terminal
    assert ProgressBar()._bar_class.__module__.startswith("tqdm")


def test_without_tqdm_the_error_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.split(".")[0] == "tqdm":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "lazyflow\[progress\]"'):
        ProgressBar()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"description": 3}, TypeError, r"description=3 is no text.*ProgressBar\(minimum=1\)"),
        ({"interval": "a"}, TypeError, "interval='a' is no number of seconds, 0 or more"),
        ({"interval": -1}, ValueError, "interval=-1 is no number of seconds, 0 or more"),
        ({"minimum": True}, TypeError, "minimum=True is no number of seconds, 0 or more"),
        ({"minimum": float("nan")}, ValueError, "minimum=nan is no number of seconds, 0 or more"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(
    options: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ProgressBar(**options)


def test_a_bar_has_one_block_at_a_time(bars: list[FakeBar]) -> None:
    bar = ProgressBar(file=io.StringIO())
    with bar, pytest.raises(RuntimeError, match="this bar is in use already"), bar:
        pass
    with bar:
        delayed(abs)(-1).compute()
    assert [each.closed for each in bars] == [1]


def test_what_is_registered_twice_counts_once(bars: list[FakeBar]) -> None:
    bar = ProgressBar(file=io.StringIO(), interval=0)
    bar.register()
    bar.register()
    delayed(abs)(-1).compute()
    bar.unregister()
    bar.unregister()
    delayed(abs)(-1).compute()
    assert [each.seen[-1] for each in bars] == [(1, 1)]


class TestFits:
    """The fit of an estimator is one piece of work, with one bar."""

    @pytest.fixture
    def rows(self) -> Any:
        numpy = pytest.importorskip("numpy")
        pytest.importorskip("sklearn")
        X = numpy.random.default_rng(0).normal(size=(200, 5))
        return X, (X[:, 0] + 0.5 * X[:, 1] > 0.1)

    @pytest.mark.parametrize("solver", ["lbfgs", "saga", "svrg", "newton-cholesky"])
    def test_one_bar_of_passes(self, bars: list[FakeBar], rows: Any, solver: Any) -> None:
        from lazyflow.learn import LogisticRegression

        X, y = rows
        parts = [delayed(part) for part in (X[:100], X[100:])]
        labels = [delayed(part) for part in (y[:100], y[100:])]
        with ProgressBar(interval=0):
            model = LogisticRegression(solver=solver).fit(parts, labels)
        (bar,) = bars
        assert bar.closed == 1 and bar.options["unit"] == "pass"
        assert bar.options["desc"] == "LogisticRegression"
        assert all(total is None for _, total in bar.seen)
        counts = [n for n, _ in bar.seen]
        assert counts == sorted(counts) and counts[-1] > 1
        norm, gap = model.history_["gradient_norm"][-1], model.history_["gap"][-1]
        assert bar.texts[-1] == f"gradient norm {norm:.2g}, gap {gap:.2g}"

    def test_a_fit_that_solves_equations_is_one_pass(
        self, bars: list[FakeBar], rows: Any
    ) -> None:
        from lazyflow.learn import LinearRegression

        with ProgressBar(interval=0):
            LinearRegression().fit(*rows)
        (bar,) = bars
        assert bar.seen[-1] == (1, None) and bar.closed == 1
        assert bar.options["desc"] == "LinearRegression"

    def test_minimize(self, bars: list[FakeBar]) -> None:
        from lazyflow.learn import minimize

        with ProgressBar("least", interval=0):
            minimize(lambda x, chunk: ((x - chunk) ** 2, 2 * (x - chunk)), 0.0, [1.0, 3.0])
        (bar,) = bars
        assert bar.options["desc"] == "least" and bar.seen[-1][0] >= 2
        assert bar.texts[-1].startswith("gradient norm ")

    def test_a_fit_in_a_task_is_counted_with_it(self, bars: list[FakeBar], rows: Any) -> None:
        from lazyflow.learn import LogisticRegression

        with ProgressBar(interval=0):
            delayed(LogisticRegression().fit)(*rows).compute()
        (bar,) = bars
        assert bar.options["unit"] == "task" and bar.seen[-1][0] == bar.seen[-1][1] > 1

    def test_a_fit_that_fails_closes_it(self, bars: list[FakeBar], rows: Any) -> None:
        from lazyflow.learn import LogisticRegression

        X, y = rows
        with ProgressBar(interval=0), pytest.raises(ValueError):
            LogisticRegression().fit(X, y[:3])
        assert [bar.closed for bar in bars] == [1]
        with ProgressBar(interval=0):
            compute(delayed(abs)(-1))
        assert bars[1].seen[-1] == (1, 1)

    def test_nothing_is_told_where_nobody_hears(self, rows: Any) -> None:
        from lazyflow.api.progress_events import _current
        from lazyflow.learn import LogisticRegression

        seen: list[Any] = []
        LogisticRegression(callback=lambda _: seen.append(_current.get())).fit(*rows)
        assert seen and set(seen) == {None}

    def test_a_terminal_gets_one_line(self, rows: Any) -> None:
        from lazyflow.learn import LogisticRegression

        text = io.StringIO()
        with ProgressBar(file=text):
            LogisticRegression().fit(*rows)
        last = text.getvalue().split("\r")[-1]
        assert re.match(r"LogisticRegression: \d+pass \[.*gradient norm .*, gap .*\]", last)
        assert text.getvalue().count("\n") == 1


class _Unwritable(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError("disk full")


class _UnflushableWithoutEncoding:
    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        raise RuntimeError("no flush")


@pytest.mark.parametrize("file", [_Unwritable(), _UnflushableWithoutEncoding(), object()])
def test_a_file_that_fails_changes_nothing_for_the_program(
    file: Any, caplog: pytest.LogCaptureFixture
) -> None:
    work = delayed(sum)([delayed(abs)(-i) for i in range(7)])
    with ProgressBar(file=file):
        assert work.compute() == 21
    assert [record.getMessage() for record in caplog.records] == [
        "a progress bar can't be written, and is given up; results are not affected"
    ]
    text = io.StringIO()
    with ProgressBar(file=text):  # tqdm's lock is free
        assert work.compute() == 21
    assert "8/8" in text.getvalue()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("stream", [None, object(), io.StringIO()])
def test_any_standard_error_will_do(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if stream is not None and hasattr(stream, "close"):
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    with ProgressBar():
        assert delayed(abs)(-1).compute() == 1


def test_it_is_drawn_again_when_the_interval_is_over(bars: list[FakeBar]) -> None:
    clock = FakeClock()

    def step(x: int) -> int:
        clock.now += 4
        return x + 1

    x: Any = 0
    for _ in range(9):
        x = delayed(step)(x)
    with ProgressBar(minimum=10, interval=8, now=clock):
        compute(x, scheduler="sync")
    (bar,) = bars
    assert [n for n, _ in bar.seen[1:]] == [3, 5, 7, 9, 9]
