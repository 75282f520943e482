"""`config`: what rules over what, and names that are misspelt."""

import subprocess
import sys
import threading

import pytest

from lazyflow import compute, config, delayed


@pytest.fixture(autouse=True)
def fresh_layers(monkeypatch):
    monkeypatch.setattr(config, "_layers", [])


def test_context_rules_over_process_rules_over_default():
    assert config.get("max_runs_ahead") == 16
    config.set(max_runs_ahead=5)
    assert config.get("max_runs_ahead") == 5
    with config.set({"max_runs_ahead": 7}):
        assert config.get("max_runs_ahead") == 7
        with config.set(max_runs_ahead=8):
            assert config.get("max_runs_ahead") == 8
        assert config.get("max_runs_ahead") == 7
    assert config.get("max_runs_ahead") == 5


def test_a_block_is_not_seen_by_other_threads_and_a_plain_set_is():
    seen = []

    def look():
        seen.append((config.get("num_workers"), config.get("max_runs_ahead")))

    config.set(max_runs_ahead=4)
    with config.set(num_workers=3):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [(None, 4)]


def test_blocks_that_overlap_in_threads_restore_nothing_of_each_other():
    first, second = config.set(num_workers=1), config.set(num_workers=2)
    first.__enter__()
    second.__enter__()
    first_thread_sees = []
    thread = threading.Thread(target=lambda: first_thread_sees.append(config.get("num_workers")))
    thread.start()
    thread.join()
    assert first_thread_sees == [None]
    second.__exit__(None, None, None)
    first.__exit__(None, None, None)
    assert config.get("num_workers") is None


def test_many_plain_sets_do_not_grow(monkeypatch):
    monkeypatch.setattr(config, "_defaults", dict(config._defaults))
    for i in range(1, 500):
        config.set(num_workers=i)
    assert config.get("num_workers") == 499
    assert len(config._layers) <= 64


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"num_worker": 1}, KeyError, "config key 'num_worker'; did you mean 'num_workers'"),
        ({"num_workers": 0}, ValueError, "num_workers must be a whole number, 1 or more; got 0"),
        ({"num_workers": "2"}, ValueError, "num_workers must be a whole number.*got '2'"),
        ({"check_mutation": 1}, ValueError, "check_mutation must be True or False; got 1"),
    ],
)
def test_bad_settings(values, error, words):
    with pytest.raises(error, match=words):
        config.set(values)
    with pytest.raises(KeyError, match="unknown config key"):
        config.get("nothing")


def child(code, **environment):
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_environment():
    code = (
        "import lazyflow as l; from lazyflow.schedulers.run import scheduler_here as h;"
        "print(l.delayed(lambda: h.get().name)().compute(), l.config.get('num_workers'),"
        "l.config.get('check_mutation'))"
    )
    given = {
        "LAZYFLOW_SCHEDULER": "sync",
        "LAZYFLOW_NUM_WORKERS": "3",
        "LAZYFLOW_CHECK_MUTATION": "true",
    }
    assert child(code, **given) == "sync 3 True"
    told = child("import lazyflow", LAZYFLOW_NUM_WORKERS="many")
    assert told == (
        "ValueError: LAZYFLOW_NUM_WORKERS='many' in the environment can't be understood"
    )


def test_the_scheduler_is_chosen_in_order():
    from lazyflow.schedulers.run import scheduler_here

    name = delayed(lambda: scheduler_here.get().name)
    assert name().compute() == "threads"
    config.set(scheduler="sync")
    assert name().compute() == "sync"
    with config.set(scheduler="threads"):
        assert name().compute() == "threads"
        assert compute(name(), scheduler="sync") == ("sync",)
