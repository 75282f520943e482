"""The way of one call through the library is printed, and stays one that can be followed."""

import pathlib
import re
import subprocess
import sys

import pytest
import way_of_a_call
from way_of_a_call import Entry, way_of

import lazyflow

ROOT = pathlib.Path(lazyflow.__file__).parent


def test_a_thread_that_goes_on_in_its_file_does_not_come_back_to_it():
    steps = [("caller", "a"), ("pool", "b"), ("caller", "a"), ("pool", "b"), ("pool", "a")]
    entries = [Entry(time, (thread, 1), file) for time, (thread, file) in enumerate(steps)]
    assert way_of(reversed(entries)) == (["a", "b"], 1)
    assert way_of([]) == ([], 0)


@pytest.mark.parametrize(
    ("scheduler", "most", "on_the_way"),
    [
        ("threads", 11, ["api/lazy.py", "graph/plan.py", "schedulers/threads.py"]),
        (
            "processes",
            30,
            ["graph/plan.py", "schedulers/processes/parent/driver.py",
             "schedulers/processes/worker/task_worker.py"],
        ),
    ],
)  # fmt: skip
def test_the_way_of_a_call(scheduler, most, on_the_way):
    command = [sys.executable, way_of_a_call.__file__, scheduler]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    head, *files = out.split("\n  ")
    words = re.fullmatch(rf"{scheduler}: (\d+) files, (\d+) returns", head)
    count, returns = int(words[1]), int(words[2])
    files = [file.strip() for file in files]
    assert count == len(files) == len(set(files)) <= most
    assert returns > 0
    assert files[0] == "api/decorator.py"
    assert all((ROOT / file).is_file() for file in files)
    assert sorted(on_the_way, key=files.index) == on_the_way
