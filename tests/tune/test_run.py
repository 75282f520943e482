"""Searches, on all schedulers."""

import io
import os
import signal
import threading
import warnings

import numpy as np
import pytest
from waiting import until

import lazyflow
from lazyflow import delayed, tune
from lazyflow.testing.signals import Gate, Tally

SPACE = {"x": tune.uniform(-3, 3), "net": {"width": tune.choice([8, 16]), "deep": True}}


def train(config):
    for step in range(1, 4):
        tune.report({"loss": (config["x"] - 1) ** 2 + 1 / step}, step=step)


def search(fn, space=SPACE, **options):
    return tune.run(fn, space, **{"metric": "loss", "seed": 1, "verbose": 0} | options)


@pytest.fixture(scope="module")
def expected():
    return search(train, num_samples=8, scheduler="sync")


def test_the_same_search_on_every_scheduler(scheduler, expected):
    result = search(train, num_samples=8)
    assert [t.config for t in result.trials] == [t.config for t in expected.trials]
    assert [t.history for t in result.trials] == [t.history for t in expected.trials]
    assert {t.status for t in result.trials} == {"completed"}
    assert result.best.number == expected.best.number
    assert result.best.metrics == {"loss": pytest.approx(expected.best.metrics["loss"]), "step": 3}
    assert [t.number for t in result.ranked()] == [t.number for t in expected.ranked()]


def test_what_is_returned_is_the_last_report(scheduled):
    for value in (0.5, np.float32(0.5), {"loss": 0.5}, {"loss": np.float64(0.5), "more": "x"}):
        result = search(lambda config, value=value: value, num_samples=2)
        assert [t.metrics["loss"] for t in result.trials] == [0.5, 0.5]
        assert type(result.best.metrics["loss"]) is float
    result = search(lambda config: -config["x"], num_samples=9, mode="max")
    assert result.best.config["x"] == min(t.config["x"] for t in result.trials)


def test_trials_compute_graphs_and_read_data_without_copies(scheduler):
    def total(config, big, words):
        assert not big.flags.writeable
        return float(delayed(np.sum)(big[:3]).compute()) * len(words) + config["x"]

    data = {"big": np.ones(200_000), "words": ["a", "b"]}
    result = search(total, num_samples=3, data=data)
    assert [t.metrics["loss"] for t in result.trials] == [6 + t.config["x"] for t in result.trials]


def test_as_many_at_once_as_there_may_be(scheduled):
    inside, both = Tally(), Gate()

    def waits(config):
        inside.add(config["x"])
        both.wait()
        return 1.0

    def opens():
        assert until(lambda: len(inside) == 2)
        both.open()

    helper = threading.Thread(target=opens)
    helper.start()
    result = search(waits, num_samples=4, max_concurrent=2)
    helper.join()
    assert len(result.trials) == len(inside) == 4


def fails_when_negative(config):
    if config["x"] < 0:
        raise ZeroDivisionError(f"x is {config['x']:.3f}")
    return config["x"]


def test_a_trial_that_raises_fails_alone(scheduler):
    result = search(fails_when_negative, num_samples=8)
    for trial in result.trials:
        assert trial.status == ("failed" if trial.config["x"] < 0 else "completed")
    failed = [t.number for t in result.trials if t.config["x"] < 0]
    assert failed and list(result.errors) == failed
    error = result.errors[failed[0]]
    assert type(error) is ZeroDivisionError
    assert str(error) == f"x is {result.trials[failed[0]].config['x']:.3f}"
    assert result.best.config["x"] >= 0
    with pytest.raises(ZeroDivisionError):
        search(fails_when_negative, num_samples=8, fail_fast=True)


def test_when_all_trials_fail_the_first_error_is_raised(scheduler):
    with pytest.raises(ZeroDivisionError) as caught:
        search(lambda config: 1 / 0, num_samples=3)
    assert any("All 3 trials have failed" in note for note in caught.value.__notes__)


def goes_on(config, began):
    step = tune.load_state(0)
    began.add((tune.trial_number(), step))
    for k in range(step + 1, 5):
        tune.report(loss=k, state=k if k != 3 else None)
        if k == 3 and step == 0:
            raise RuntimeError("once")


def test_a_trial_that_failed_goes_on_from_its_state(scheduler):
    began = Tally()
    result = search(goes_on, num_samples=2, max_failures=1, data={"began": began})
    assert sorted(began.items()) == [[0, 0], [0, 2], [1, 0], [1, 2]]
    for trial in result.trials:
        assert [each["loss"] for each in trial.history] == [1, 2, 3, 4]
        assert (trial.status, trial.failures, trial.state) == ("completed", 1, 4)


def test_a_worker_that_dies_fails_its_trial_alone(separate):
    def dies(config):
        tune.report(loss=1, state="kept")
        if tune.trial_number() == 1 and tune.load_state() is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.5

    result = search(dies, num_samples=3, max_concurrent=2)
    assert [t.status for t in result.trials] == ["completed", "failed", "completed"]
    assert type(result.errors[1]) is lazyflow.WorkerDied
    result = search(dies, num_samples=3, max_concurrent=2, max_failures=1)
    assert [t.status for t in result.trials] == ["completed"] * 3


def test_stop_ends_a_trial_early(scheduled):
    for stop in ({"loss": 2}, {"step": 2}, lambda trial: trial.metrics["loss"] <= 2):
        result = search(lambda config: [tune.report(loss=4 - k) for k in range(1, 4)] and None,
                        num_samples=2, stop=stop)
        assert [len(t.history) for t in result.trials] == [2, 2]
        assert {t.status for t in result.trials} == {"stopped"}
    result = search(lambda config: [tune.report(loss=k) for k in range(1, 4)] and None,
                    num_samples=2, mode="max", stop={"loss": 2})
    assert [len(t.history) for t in result.trials] == [2, 2]


def test_a_stopped_trial_unwinds_and_its_worker_is_free(scheduler):
    ended = Tally()

    def stubborn(config):
        for _ in range(3):
            try:
                tune.report(loss=1.0)
            except Exception:
                raise AssertionError("no report fails") from None
            finally:
                ended.add(tune.trial_number())
        raise AssertionError("it was to be stopped")

    result = search(stubborn, num_samples=3, stop={"step": 1}, max_concurrent=1)
    assert sorted(ended.items()) == [0, 1, 2]
    assert {t.status for t in result.trials} == {"stopped"}


def test_the_time_is_over(scheduler):
    def endless(config):
        while True:
            tune.report(loss=config["x"])

    budget, reported = 0.25, False
    while not reported:  # within it a loaded machine may not even begin a trial
        budget *= 2
        result = search(endless, num_samples=5, max_concurrent=2, time_budget=budget)
        assert len(result.trials) <= 2 and {t.status for t in result.trials} <= {"pending"}
        reported = any(trial.history for trial in result.trials)
    assert result.best.history


def test_ctrl_c_returns_what_there_is(scheduler):
    def interrupts(config):
        tune.report(loss=1.0)
        if tune.trial_number() == 1:
            os.kill(config["pid"], signal.SIGINT)
            while True:
                tune.report(loss=2.0)
        return 0.5

    result = search(interrupts, {"pid": os.getpid()}, num_samples=4, max_concurrent=1)
    assert result.was_interrupted
    assert [t.status for t in result.trials][:2] == ["completed", "pending"]
    assert result.best.number == 0


def test_a_trial_that_failed_is_not_the_best_of_its_reports(scheduler):
    def fails_at_first(config):
        tune.report(loss=tune.trial_number())
        assert tune.trial_number()
        return {"loss": 1.0}

    result = search(fails_at_first, num_samples=3)
    assert [t.number for t in result.ranked()] == [1, 2]
    assert result.best.number == 1
    assert "best loss 1 of trial 1" in repr(result)


def test_nan_counts_as_the_worst(scheduler):
    def sometimes(config):
        return float("nan") if tune.trial_number() % 2 else config["x"]

    with pytest.warns(RuntimeWarning, match=r"trial [13] has reported loss=nan \(report 1\)"):
        result = search(sometimes, num_samples=4)
    assert [t.number % 2 for t in result.ranked()] == [0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = search(lambda config: float("nan"), num_samples=2)
    with pytest.raises(LookupError, match="none of 2 trials has reported a number as 'loss'"):
        result.best


@pytest.mark.parametrize(("fn", "words"), [
    (lambda c: {"lose": 1.0}, r"trial 0 has reported no 'loss'; did you mean 'lose'\? It reported "
                              r"'lose': pass one of them as metric="),
    (lambda c: None, r"trial 0 has ended without a report of 'loss': its function returned None"),
])
def test_a_metric_that_nobody_reports(scheduler, fn, words):
    with pytest.raises(LookupError, match=words):
        search(fn, num_samples=20, max_concurrent=1)


def test_a_metric_that_is_no_number(scheduler):
    with pytest.raises(TypeError, match="trial 0 has reported loss='low', a str: the metric must"):
        search(lambda c: {"loss": "low"}, num_samples=2, max_concurrent=1)
    with pytest.raises(TypeError, match="trial 0 has reported loss='low', a str: the metric must"):
        search(lambda c: tune.report(loss="low"), num_samples=2, max_concurrent=1)


@pytest.mark.parametrize(("options", "kind", "words"), [
    ({"mode": "mim"}, ValueError, r"mode must be 'min' or 'max'; got 'mim'"),
    ({"sampler": "tpa"}, ValueError, r"there is no sampler 'tpa'.*Samplers are 'random', 'grid'"),
    ({"sampler": 3}, TypeError, r"sampler must be a name, such as 'tpe', or a sampler of Optuna"),
    ({"pruner": "asha"}, TypeError, r"pruner must be tune.ASHA\(\).*got 'asha'"),
    ({"num_samples": 0}, ValueError, r"num_samples must be a whole number, 1 or more; got 0"),
    ({"max_failures": -1}, ValueError, r"max_failures must be a whole number, 0 or more; got -1"),
    ({"max_concurrent": 1.5}, ValueError, r"max_concurrent must be a whole number"),
    ({"metric": 3}, TypeError, r"metric must be the name of what trials report.*got 3"),
    ({"stop": 3}, TypeError, r"stop must be a dict of values"),
    ({"time_budget": 0}, ValueError, r"time_budget must be seconds, more than 0; got 0"),
    ({"verbose": "yes"}, ValueError, r"verbose must be 0 or 1; got 'yes'"),
    ({"callbacks": [print]}, TypeError, r"callbacks must be tune.Callback objects"),
    ({"space": {}}, ValueError, r"the space is empty"),
    ({"sampler": "grid"}, ValueError, r"sampler='grid' tries all values, and 'x' is uniform"),
])
def test_words_of_errors(options, kind, words):
    space = options.pop("space", SPACE)
    with pytest.raises(kind, match=words):
        search(train, space, **options)


def test_reports_where_no_trial_runs():
    for call in (lambda: tune.report(loss=1), tune.load_state, tune.trial_number):
        with pytest.raises(RuntimeError, match="was called where no trial runs"):
            call()
    with pytest.raises(TypeError, match=r"such as tune.report\(loss=0.5\); got 0.5"):
        search(lambda config: tune.report(0.5), num_samples=1)
    with pytest.raises(TypeError, match="fn must be a function of a configuration; got 3"):
        search(3)
    with pytest.raises(AttributeError, match="no attribute 'unifrom'; did you mean 'uniform'"):
        tune.unifrom


def test_the_grid_sampler_tries_all_values_once():
    space = {"a": tune.choice("xy"), "b": tune.qrandint(0, 4, 2), "c": tune.grid_search([1, 2])}
    result = search(lambda c: c["b"], space, sampler="grid", scheduler="threads")
    found = {(t.config["a"], t.config["b"], t.config["c"]) for t in result.trials}
    assert len(result.trials) == len(found) == 12
    assert len(search(lambda c: 1, space, sampler="grid", num_samples=2).trials) == 24


def test_callbacks_hear_all_in_order(scheduler):
    heard = []

    class Hears(tune.Callback):
        def on_start(self, result):
            heard.append(("start", result.total))

        def on_trial_start(self, trial):
            heard.append(("trial", trial.number))

        def on_report(self, trial, metrics):
            heard.append(("report", trial.number, metrics["loss"]))

        def on_trial_end(self, trial):
            heard.append(("over", trial.number, trial.status))

        def on_end(self, result):
            heard.append(("end", len(result.trials)))

    search(lambda c: [tune.report(loss=k) for k in (1, 2)] and None, num_samples=2,
           max_concurrent=1, callbacks=[Hears()])
    assert heard == [
        ("start", 2), ("trial", 0), ("report", 0, 1), ("report", 0, 2), ("over", 0, "completed"),
        ("trial", 1), ("report", 1, 1), ("report", 1, 2), ("over", 1, "completed"), ("end", 2),
    ]

    class Breaks(tune.Callback):
        def on_report(self, trial, metrics):
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        search(train, num_samples=2, callbacks=[Breaks()])


def test_the_result_as_a_frame_and_in_a_notebook():
    result = search(fails_when_negative, num_samples=8, scheduler="sync")
    frame = result.to_pandas()
    assert list(frame.index) == list(range(8))
    assert frame.loc[result.best.number, "loss"] == frame["loss"].min()
    assert frame.loc[0, "config/x"] == result.trials[0].config["x"]
    page = result._repr_html_()
    assert page.count("<tr>") == 9 and "8 trials, best loss" in page


@pytest.mark.parametrize("kind", ["history", "reports", "parallel"])
def test_plots(kind, expected):
    figure = expected.plot(kind)
    assert figure.renderers
    with pytest.raises(ValueError, match=f"there is no plot '{kind}x'; did you mean '{kind}'"):
        expected.plot(kind + "x")


def test_a_line_for_each_trial_where_there_is_no_terminal(capsys):
    search(fails_when_negative, num_samples=3, scheduler="sync", verbose=1)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4
    assert said[0].startswith("lazyflow.tune: trial 0 ")
    assert "3 of 3 trials" in said[-1]
    search(train, num_samples=2, scheduler="sync", verbose=0)
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_table_in_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    search(train, num_samples=3, scheduler="threads", verbose=1)
    shown = terminal.getvalue()
    assert "3 of 3 trials" in shown
    assert all(f"│ {number} " in shown for number in range(3))


def test_a_table_in_a_notebook(monkeypatch):
    display = pytest.importorskip("IPython.display")
    from lazyflow.tune.callbacks import NotebookTable

    shown = []

    class Handle:
        def update(self, page):
            shown.append(page.data)

    def shows(page, display_id):
        shown.append(page.data)
        return Handle()

    monkeypatch.setattr(display, "display", shows)
    search(train, num_samples=3, scheduler="sync", callbacks=[NotebookTable()])
    assert shown[0].count("<tr>") == 1 and shown[-1].count("<tr>") == 1 + 3
    assert "3 of 3 trials: 3 completed" in shown[-1]
