"""Errors of tasks have the attributes that the task gave them, and none but those of lazyflow."""

import pytest
from engine_schedulers import SCHEDULERS

from lazyflow import compute, config, delayed, persist, submit, wait


@pytest.fixture(params=SCHEDULERS, autouse=True)
def scheduler(request):
    with config.set(scheduler=request.param, num_workers=2):
        yield request.param


#: What the library adds: the note of the task, and the call for `lazyflow.rerun`.
OURS = {"__notes__", "_lazyflow_call"}


class Base(Exception):
    __slots__ = ("code",)


class Slotted(Base):
    __slots__ = ("__hidden", "unset", "where")

    def __init__(self, text, code, where):
        super().__init__(text)
        self.code, self.where, self.__hidden = code, where, [code]

    def hidden(self):
        return self.__hidden


class Open(Slotted):
    """Has attributes beside its slots."""


def of_the_program():
    """Classes that travel by value, as those of a script do."""

    class Base(Exception):
        __slots__ = ("code",)

    class Slotted(Base):
        __slots__ = ("__hidden", "unset", "where")
        __init__, hidden = _init, lambda self: self.__hidden

    class Open(Slotted):
        pass

    return Slotted, Open


def _init(self, text, code, where):
    Exception.__init__(self, text)
    self.code, self.where, self._Slotted__hidden = code, where, [code]


def raised(kind, **more):
    error = kind("no", 5, {"a": 1})
    vars(error).update(more)
    raise error


WAYS = {
    "compute": lambda call: call.compute(),
    "submit": lambda call: submit(lambda: call.compute()).result(),
    "persist": lambda call: persist(call)[0].compute(),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("kinds", [(Slotted, Open), of_the_program()], ids=["module", "program"])
def test_slots_and_attributes_arrive(kinds, way):
    slotted, opened = kinds
    with pytest.raises(slotted) as caught:
        way(delayed(raised)(slotted))
    error = caught.value
    assert (type(error), error.code, error.where, error.hidden()) == (slotted, 5, {"a": 1}, [5])
    assert not hasattr(error, "unset")
    assert vars(error).keys() <= OURS
    with pytest.raises(opened) as caught:
        way(delayed(raised)(opened, more=[1]))
    error = caught.value
    assert (error.code, error.hidden(), error.more) == (5, [5], [1])
    assert vars(error).keys() - OURS == {"more"}


def test_nothing_is_left_in_an_error_that_futures_had():
    futures = [submit(raised, Open) for _ in range(3)]
    wait(futures)
    for future in futures:
        for _ in range(2):
            assert vars(future.exception()).keys() <= OURS
    (found,) = compute(delayed(raised)(Open), on_error="collect")
    assert vars(found).keys() <= OURS
