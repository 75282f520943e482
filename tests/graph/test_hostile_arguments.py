"""Arguments whose methods raise, lie or have side effects do no harm."""

import enum
import math
import types

import numpy as np
import pytest
from argument_tools import given_to_task, one, pair, same

from lazyflow import compute, delayed

# -- hostile arguments ----------------------------------------------------------------------


def _refuse(self, *args):
    raise RuntimeError("hostile")


HOSTILE = {
    name: type("Hostile", (), {name: _refuse})
    for name in (
        "__eq__", "__hash__", "__bool__", "__len__", "__repr__", "__str__", "__getattr__",
        "__iter__", "__getitem__", "__contains__", "__copy__", "__deepcopy__", "__reduce_ex__",
        "__array__", "__index__", "__format__", "__sizeof__", "__dir__", "__call__",
    )
}  # fmt: skip
HOSTILE["__class__"] = type("Hostile", (), {"__class__": property(_refuse)})
HOSTILE["shape"] = type("Hostile", (), {"shape": property(_refuse), "dtype": property(_refuse)})


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_hostile_objects_arrive_unchanged(name, scheduler):
    thing = HOSTILE[name]()
    got = []
    take = delayed(lambda *a, **k: got.append((a, k)))
    x = take(thing, [thing], one, k=(thing, one))
    repr(x)
    x.compute(scheduler=scheduler)
    take(thing).compute(scheduler=scheduler)
    (((a, (b,), _), k), ((c,), _)) = got
    assert all(v is thing for v in (a, b, c, k["k"][0]))
    if name != "__call__":
        assert delayed([thing]).compute(scheduler=scheduler)[0] is thing
    assert compute([thing, one], scheduler=scheduler)[0][0] is thing
    cells = np.empty(2, object)
    cells[0], cells[1] = thing, one
    assert given_to_task(cells)[0] is thing


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_results_and_errors(name):
    thing = HOSTILE[name]()
    assert delayed(lambda: thing)().compute() is thing
    with pytest.raises(ZeroDivisionError):
        delayed(lambda *a: 1 / 0)(thing, [thing, one]).compute()


def test_odd_values_arrive_unchanged():
    nan = math.nan
    got = given_to_task({nan: nan, "one": one})
    assert next(iter(got)) is nan
    big = 10**5000
    assert given_to_task(big) is big
    assert given_to_task([big, one])[0] is big
    assert repr(same(big)) == "<Delayed <lambda>(int of 16610 bits)>"
    surrogate = "\udc80"
    assert given_to_task([surrogate, one])[0] == surrogate
    assert given_to_task({surrogate: one}) == {surrogate: 1}
    key = one.key
    assert given_to_task(key) == key  # text that is a key stays text
    assert given_to_task([key, one]) == [key, 1]
    assert given_to_task({key: (key, key)}) == {key: (key, key)}
    for value in (..., NotImplemented, type, same, enum.Enum, lambda: 1, types):
        expected = value.compute() if value is same else value
        assert given_to_task(value) is expected


def test_classes_of_the_library_as_arguments():
    assert given_to_task(type(one)) is type(one)
    assert given_to_task([type(one), one]) == [type(one), 1]


def test_unhashable_results_in_a_set_fail_in_the_task():
    x = same({delayed(list)("a"), 1})
    with pytest.raises(TypeError, match="unhashable") as caught:
        x.compute()
    assert "in lazyflow task" in caught.value.__notes__[0]


def test_containers_that_refuse_what_is_lazy():
    class Whole(list):
        def extend(self, items):
            items = list(items)
            if not all(isinstance(x, int) for x in items):
                raise ValueError("whole numbers only")
            super().extend(items)

    value = Whole()
    list.append(value, one)
    x = same(value)
    assert repr(x) == "<Delayed <lambda>(...)>"
    assert x.compute() == [1]


class FrozenDict(dict):
    def __setitem__(self, key, value):
        raise TypeError("immutable")


def test_containers_that_cannot_be_copied_arrive_as_they_are():
    value = FrozenDict(a=1)
    assert given_to_task(value) is value
    assert given_to_task([value, one])[0] is value
    with pytest.raises(TypeError, match="immutable"):  # nor can they be rebuilt
        same(FrozenDict(a=one))


def test_many_arguments_and_keywords():
    args, names = [delayed(i) for i in range(300)], [f"k{i}" for i in range(300)]
    got_args, got_kwargs = pair(*args, **dict(zip(names, args, strict=True))).compute()
    assert got_args == tuple(range(300))
    assert got_kwargs == dict(zip(names, range(300), strict=True))
