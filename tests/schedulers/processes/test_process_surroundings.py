"""Workers have the directory, the environment variables and the recursion limit of the caller."""

import os
import subprocess
import sys
import time
from functools import partial

import pytest

import lazyflow
from lazyflow import delayed

PROCESSES = {"scheduler": "processes", "num_workers": 1}


def directory():
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        return type(error)


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


class Looker:
    def look(self):
        return there()


def there():
    shell = subprocess.run("echo $LF_SEEN", shell=True, capture_output=True, check=True)
    seen = os.fsdecode(shell.stdout.strip())
    return directory(), os.environ.get("LF_SEEN"), seen, sys.getrecursionlimit()


@pytest.fixture(params=["tasks", "an actor"])
def look(request, monkeypatch):
    """What shows surroundings in a worker that is there since before they are changed."""
    limit = sys.getrecursionlimit()
    monkeypatch.setenv("LF_SEEN", "before")
    if request.param == "tasks":
        yield partial(delayed(there)().compute, **PROCESSES)
    else:
        with lazyflow.config.set(scheduler="processes"):
            actor = lazyflow.actor(Looker)()
        yield lambda: actor.look().result()
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize("value", ["after", "", "ü =\n", "\udcff", None])
def test_environment_variables_are_the_callers(look, value, monkeypatch):
    assert look()[1:3] == ("before", "before")
    if value is None:
        monkeypatch.delenv("LF_SEEN")
    else:
        monkeypatch.setenv("LF_SEEN", value)
    assert look()[1] == value
    monkeypatch.setenv("LF_SEEN", "again")
    assert look()[1:3] == ("again", "again")


def test_what_a_task_sets_stays_until_the_caller_changes_it(monkeypatch):
    def setting(value):
        os.environ["LF_SEEN"] = value

    look, change = delayed(there)(), delayed(setting)
    monkeypatch.setenv("LF_SEEN", "before")
    assert look.compute(**PROCESSES)[1] == "before"
    change("of a task").compute(**PROCESSES)
    monkeypatch.setenv("LF_OTHER", "another")
    assert look.compute(**PROCESSES)[1] == "of a task"
    monkeypatch.setenv("LF_SEEN", "after")
    assert look.compute(**PROCESSES)[1] == "after"


def test_the_time_zone_is_the_callers(monkeypatch):
    hour = delayed(lambda: time.localtime(0).tm_hour)()
    for zone, expected in [("UTC", 0), ("UTC-9", 9), ("UTC+3", 21)]:
        with monkeypatch.context() as changed:
            changed.setenv("TZ", zone)
            time.tzset()
            assert hour.compute(**PROCESSES) == time.localtime(0).tm_hour == expected
    time.tzset()


def test_the_recursion_limit_is_the_callers(look):
    for limit in (5000, 1200, 3000):
        sys.setrecursionlimit(limit)
        assert look()[3] == limit
    assert delayed(deep)(2500).compute(**PROCESSES) == 2500


def test_the_directory_is_the_callers(tmp_path, monkeypatch):
    look = partial(delayed(directory)().compute, **PROCESSES)
    for each in ("one", "two", "three"):
        (tmp_path / each).mkdir()
        monkeypatch.chdir(tmp_path / each)
        assert look() == str(tmp_path / each)
    (tmp_path / "three").rmdir()
    assert look() is FileNotFoundError  # as here
    with pytest.raises(FileNotFoundError):
        os.getcwd()
    monkeypatch.chdir(tmp_path / "one")
    assert look() == str(tmp_path / "one")


def test_a_new_worker_has_them(monkeypatch):
    monkeypatch.setenv("LF_SEEN", "first")
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(limit + 7)
        lazyflow.shutdown()
        assert delayed(there)().compute(**PROCESSES)[1:] == ("first", "first", limit + 7)
    finally:
        sys.setrecursionlimit(limit)
