"""A notebook shows the user's frames of an error and its note, not the library's."""

import re
import traceback
from typing import Any

import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import delayed

ultratb = pytest.importorskip("IPython.core.ultratb")


def broken(x: Any) -> Any:
    raise ValueError("bad")


def nested(x: Any) -> Any:
    return delayed(broken)(x).compute()


def persisted() -> Any:
    (x,) = lazyflow.persist(delayed(broken)(1))
    return x.compute()


WAYS = {
    "method": lambda: delayed(broken)(1).compute(),
    "processes": lambda: delayed(broken)(1).compute(scheduler="processes"),
    "function": lambda: lazyflow.compute(delayed(broken)(1)),
    "in a task": lambda: delayed(nested)(1).compute(),
    "persist": persisted,
    "future": lambda: lazyflow.submit(broken, 1).result(),
    "gather": lambda: lazyflow.gather([lazyflow.submit(broken, 1)]),
    "trace": lambda: lazyflow.trace(lambda x: delayed(broken)(x))(1),
    "array": lambda: la.arange(6, chunks=3).map_blocks(broken, dtype=float).compute(),
    "array, processes": lambda: la.arange(6, chunks=3).map_blocks(broken, dtype=float).compute(
        scheduler="processes"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_frames_of_the_library_are_hidden(way: str) -> None:
    with pytest.raises(ValueError, match="bad") as caught:
        WAYS[way]()
    error = caught.value
    shown = ultratb.VerboseTB("nocolor").text(ValueError, error, error.__traceback__)
    files = re.findall(r"^File (\S+?)[:,]", shown, re.MULTILINE)
    assert {file.rpartition("/")[2] for file in files} == {"test_notebook_tracebacks.py"}
    assert files[1:] and "in broken(" in shown and "skipping hidden" in shown
    assert "in lazyflow task broken(" in shown
    assert len(traceback.extract_tb(error.__traceback__)) <= 2 * len(files)
