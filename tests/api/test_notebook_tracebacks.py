"""A notebook shows the user's frames of an error and its note, not the library's."""

import linecache
import re
import traceback
from typing import Any

import numpy as np
import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import delayed

ultratb = pytest.importorskip("IPython.core.ultratb")


def shown(error: BaseException) -> tuple[str, list[str]]:
    """Return what IPython shows of an error, and the files of its frames."""
    shows = ultratb.VerboseTB("nocolor", include_vars=False)
    text = shows.text(type(error), error, error.__traceback__)
    files = re.findall(r"^File (\S+?)[:,]", text, re.MULTILINE)
    return text, [file.rpartition("/")[2] for file in files]


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
    text, files = shown(error)
    assert set(files) == {"test_notebook_tracebacks.py"}
    assert files[1:] and "in broken(" in text and "skipping hidden" in text
    assert "in lazyflow task broken(" in text
    assert len(traceback.extract_tb(error.__traceback__)) <= 2 * len(files)


CONVERSIONS = {
    "array": lambda: np.asarray(la.ones(3).map_blocks(broken, dtype=float)),
    "number": lambda: float(la.ones(1).map_blocks(broken, dtype=float).sum()),
    "truth value": lambda: bool(la.ones(1).map_blocks(broken, dtype=float)),
    "item": lambda: la.ones(1).map_blocks(broken, dtype=float).item(),
}


@pytest.mark.parametrize("into", CONVERSIONS)
def test_frames_of_conversions_are_hidden(into: str) -> None:
    with pytest.raises(ValueError, match="bad") as caught:
        CONVERSIONS[into]()
    assert set(shown(caught.value)[1]) == {"test_notebook_tracebacks.py"}


def test_of_a_call_that_is_made_again_the_users_frames_are_shown() -> None:
    with pytest.raises(ValueError) as caught:
        delayed(broken)(1).compute()
    with pytest.raises(ValueError) as again:
        lazyflow.rerun(caught.value)
    text, files = shown(again.value)
    assert set(files) == {"test_notebook_tracebacks.py"} and "in broken(" in text


class Empty:
    """An actor without methods."""


WRONG_NAMES = {
    "attribute of an array": (lambda: la.ones(3).summ(), "core.py"),
    "keyword of a method": (lambda: la.ones(3).sum(axes=0), "reductions.py"),
    "method of an actor": (
        lambda: lazyflow.actor(Empty, scheduler="sync")().go(), "actors.py"),
}


@pytest.mark.parametrize("what", WRONG_NAMES)
def test_of_a_wrong_name_just_the_frame_that_refuses_it_is_shown(what: str) -> None:
    """IPython shows the last frame in any case."""
    call, file = WRONG_NAMES[what]
    with pytest.raises((AttributeError, TypeError)) as caught:
        call()
    here = "test_notebook_tracebacks.py"
    assert shown(caught.value)[1] == [here, here, file]


CELL = """\
@delayed
def wrong(x):
    return undefined + x
"""


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_the_arrow_is_at_the_line_of_the_cell(
    scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "/tmp/ipykernel_1/a_cell.py"  # no such file: IPython knows the text
    text = len(CELL), None, CELL.splitlines(keepends=True), name
    monkeypatch.setitem(linecache.cache, name, text)
    names: dict[str, Any] = {"delayed": delayed, "__name__": "__main__"}
    exec(compile(CELL, name, "exec"), names)
    with pytest.raises(NameError) as caught:
        names["wrong"](1).compute(scheduler=scheduler)
    assert re.search("^-+> 3 +return undefined", shown(caught.value)[0], re.MULTILINE)
