"""A task of ``mutates=True`` gets the value itself only where nothing else holds it."""

from __future__ import annotations

import numpy as np
import pytest

from lazyflow.store.protected import editable, protected

MAKERS = {
    "array": lambda: np.zeros(1000),
    "list": lambda: [1, [2]],
    "dict": lambda: {"a": [1]},
    "tuple of arrays": lambda: (np.zeros(1000), 1),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_value_that_something_else_holds_is_copied(make):
    value = protected(make(), True)
    other = value
    box = [value]
    del value
    given = editable(box, True)
    assert given is not other
    if type(given) is np.ndarray:
        assert given.flags.writeable
        assert not np.shares_memory(given, other)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_value_that_is_read_by_others_later_is_copied(make):
    box = [protected(make(), True)]
    shown = id(box[0])
    keep = box[0]
    given = editable(box, False)
    assert id(given) != shown
    del keep


@pytest.mark.parametrize("make", [MAKERS["list"], MAKERS["dict"]], ids=["list", "dict"])
def test_a_value_that_nothing_else_holds_is_given_itself(make):
    box = [protected(make(), True)]
    shown = id(box[0])
    assert id(editable(box, True)) == shown


def test_an_array_that_nothing_else_holds_keeps_its_memory():
    box = [protected(np.zeros(1000), True)]
    at = box[0].ctypes.data
    given = editable(box, True)
    assert given.flags.writeable
    assert given.ctypes.data == at
