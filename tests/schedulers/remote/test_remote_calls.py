"""Calls of records that travelled to a worker, and errors of what can't be unpickled there."""

import pickle
import re

import pytest

from lazyflow.errors import InputMutated, SerializationError
from lazyflow.schedulers.cluster.actors.worker import _opened
from lazyflow.schedulers.cluster.outcome import packed
from lazyflow.schedulers.remote.calls import SPECIAL, RecordCall, unreadable


def special_call(function, value, *, retries=0, mutates=False, nout=None, check=False):
    options = (retries, mutates, nout, check, "the_task", "script.py:7")
    return RecordCall(function, None, SPECIAL, (None, options), [value], [True])


class FailsToLoad:
    def __reduce__(self):
        return int, ("no number",)


def test_a_call_is_tried_again():
    left = [ValueError(), ValueError()]

    def fails_twice(value):
        if left:
            raise left.pop()
        return value

    assert special_call(fails_twice, [1], retries=2)([False]) == [1]
    left += [KeyError(), KeyError()]
    with pytest.raises(KeyError):
        special_call(fails_twice, [1], retries=1)([False])


def test_a_task_that_mutates_edits_a_copy_while_others_need_the_value():
    value = [1]
    assert special_call(lambda x: [*x, x.append(2)], value, mutates=True)([False]) == [1, None]
    assert value == [1]


@pytest.mark.parametrize("value", [(1, 2), [1, 2], "ab"])
def test_a_result_of_the_declared_length_is_returned(value):
    assert special_call(lambda _: value, 0, nout=2)([False]) is value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ((1,), "the_task was declared to return 2 values (nout=2), but returned 1"),
        (3, "the_task was declared to return 2 values (nout=2), but returned one int"),
        ({1, 2}, "but returned a set, which has no items 0, 1"),
    ],
)
def test_a_result_of_another_length_is_refused(value, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        special_call(lambda _: value, 0, nout=2)([False])


def test_a_change_inside_an_input_is_reported_with_the_task_and_its_place():
    with pytest.raises(InputMutated, match=r"the_task changed its input 0 .* at script\.py:7"):
        special_call(lambda x: x[0].append(2), [[1]], check=True)([False])


def test_what_a_worker_can_not_unpickle_is_named_with_the_cause():
    error = unreadable("the function", ValueError("no number"))
    assert str(error).startswith(
        "the function of a task was pickled but can't be unpickled in its worker: "
        "ValueError: no number. Use what pickle can restore there"
    )


def test_an_argument_that_an_actor_s_worker_can_not_unpickle_is_named_with_the_cause():
    value = packed(FailsToLoad())
    with pytest.raises(ValueError):
        pickle.loads(value.stream, buffers=value.buffers)
    says = (
        "an argument of an actor was pickled but can't be unpickled in its worker: "
        "ValueError: invalid literal for int() with base 10: 'no number'. Modules have to be "
        "importable there"
    )
    with pytest.raises(SerializationError, match=re.escape(says)):
        _opened(value, "an argument")
