"""Errors of arrays say what failed, for which block, and the user's line that made it."""

import inspect
import sys

import numpy as np
import pytest
from array_examples import Broken

import lazyflow.array as la


def fails(block):
    raise ValueError("lost")


OBJECTS = np.array([[1, "a"], [None, 2]], dtype=object)


def ours():
    return la.from_array(Broken(), chunks=2)


def numbers():
    return la.from_array(np.arange(16.0).reshape(4, 4), chunks=2)


def objects():
    return la.from_array(OBJECTS, chunks=1)


def line():
    """Return the line of the caller."""
    return sys._getframe(1).f_lineno


# What makes an array that fails; the line of the call in the note is that of the lambda; what the
# note calls the task.
CASES = [
    (lambda: la.from_array(Broken(), chunks=2), "from_array(block (0, 0), "),
    (lambda: la.from_array(Broken(), chunks=2)[1:, ::-1], "getitem(block (0, 0), "),
    (lambda: la.from_array(Broken(), chunks=2).sum(0), "sum(block (0, 0), "),
    (lambda: np.add(numbers(), objects()[:1, 1:2]), "add(block (0, 0), "),
    (lambda: numbers() / 0, "divide(block (0, 0), "),
    (lambda: (numbers() / 0).T[1:], "divide(block (0, 0), "),
    (lambda: (numbers() / 0).std(0)[1:], "std(block (0, 0), "),
    (lambda: la.median(objects(), axis=0), "median("),
    (lambda: la.cumsum(objects(), axis=0), "add.accumulate("),
    (lambda: la.sort(objects(), axis=0), "sort("),
    (lambda: la.einsum("ij,jk", objects(), objects()), "matmul("),
    (lambda: objects() @ objects(), "matmul("),
    (lambda: objects().sum(), "sum("),  # in one chunk: what objects add up to depends on the order
    (lambda: np.max(objects(), axis=0), "max(block (0, 0), "),
    (lambda: la.map_blocks(fails, numbers(), dtype=float), "fails("),
    (lambda: numbers().map_blocks(fails, dtype=float).T, "fails("),
    (lambda: la.map_overlap(fails, numbers(), depth=1, dtype=float), "fails("),
    (lambda: numbers().map_blocks(fails, dtype=float)[[3, 0]], "fails("),
    (lambda: la.take(la.from_array(Broken(), chunks=2), [3, 1], axis=0), "from_array(block (0, 0)"),
]


NAMES = [f"{i}-{task.partition('(')[0]}" for i, (_, task) in enumerate(CASES)]


def note_of(x):
    with np.errstate(all="raise"), pytest.raises(Exception) as caught:
        x.compute()
    assert type(caught.value) in (OSError, ValueError, TypeError, FloatingPointError)
    (note,) = [n for n in caught.value.__notes__ if n.startswith("in lazyflow task ")]
    return note


@pytest.mark.parametrize(("made", "task"), CASES, ids=NAMES)
def test_the_note_of_an_error_has_the_line_that_made_what_failed(made, task, here):
    note = note_of(made())
    assert note.startswith(f"in lazyflow task {task}"), note
    assert f"made at {__file__}:{inspect.getsourcelines(made)[1]} in <lambda>" in note


def test_lines_stay_when_slices_move_below_what_they_slice():
    total, first = ours().sum(0), line()
    ratio, second = numbers() / 0, line()
    spread, third = (numbers() / 0).std(0), line()
    assert f"{__file__}:{first} in test_lines" in note_of(total[1:])
    assert f"{__file__}:{second} in test_lines" in note_of(ratio[1:].T)
    assert f"{__file__}:{third} in test_lines" in note_of(spread[:1])
    source = ours()
    assert f"{__file__}:{line()} in test_lines" in note_of(source[1:])  # it reads what is wanted


def test_what_is_fused_has_the_line_of_the_last_operation():
    x = numbers() / 0
    y, first = x + 1, line()
    total, second = y.sum(), line()
    assert f"{__file__}:{first} in test_what" in note_of(y)
    assert f"{__file__}:{second} in test_what" in note_of(total)
    assert "in lazyflow task sum(block (0, 0), " in note_of(total)


@pytest.mark.parametrize("use", [float, np.asarray, lambda x: 3 in x, bool, len])
def test_conversions_have_the_line_that_asked(use):
    x = ours()
    x = x.sum() if use in (float, bool) else x[x[:, 0] > 0] if use is len else x
    with pytest.raises(OSError, match="disk is gone") as caught:
        use(x)
    assert __file__ in caught.value.__notes__[-1]
    assert "lowering.py" not in caught.value.__notes__[-1]


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_other_schedulers_tell_the_line_too(scheduler):
    x = la.map_blocks(fails, la.ones((4, 4), chunks=2), dtype=float).sum()
    with pytest.raises(ValueError, match="lost") as caught:
        x.compute(scheduler=scheduler)
    notes = "\n".join(caught.value.__notes__)
    assert "fails was called for block (" in notes
    assert f"made at {__file__}:" in notes
