"""What can't be pickled is found inside a value, and named by a path."""

import collections
import copyreg
import functools
import gc
import itertools
import pickle
import sys
import threading
import types
import weakref

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_tools import LOCK, Pair, Point, raises

from lazyflow.errors import SerializationError
from lazyflow.store.pickling.serialize import encode
from lazyflow.store.pickling.unpicklable import Unpicklable, serialization_error

# -- what can't be pickled, and where it is -------------------------------------------------


class Box:
    def __init__(self, **held):
        self.__dict__.update(held)


class Slots:
    __slots__ = ("lock", "size")


class Reduces:
    """Whose __reduce__ does something else."""

    def __init__(self, does):
        self.does = does

    def __reduce__(self):
        return self.does()


class Hostile:
    def __getattribute__(self, name):
        raise RuntimeError(f"no {name} for you")


class HostileMeta(type):
    def __hash__(cls):
        raise RuntimeError("no hash for you")

    def __getattribute__(cls, name):
        if name == "__qualname__":
            raise RuntimeError("no name for you")
        return type.__getattribute__(cls, name)


class HostileClass(metaclass=HostileMeta):
    pass


class HostileKey:
    def __repr__(self):
        raise SystemExit

    __reduce__ = None


class Wordless(Exception):
    def __str__(self):
        raise ValueError


class DictOfTheirs(dict):
    pass


def closure_over(lock):
    def inner():
        return lock

    return inner


def with_slots():
    found = Slots()
    found.size, found.lock = 1, LOCK
    return found


def cyclic():
    root = Box()
    root.first = Box(parent=root)
    root.second = Box(parent=root, lock=LOCK)
    return root


def in_itself():
    found = [1]
    found += [found, LOCK]
    return found


def object_array():
    found = np.empty((3, 4), object)
    found[1, 2] = Box(lock=LOCK)
    return found


def with_attribute():
    error = ValueError("x")
    error.lock = LOCK
    return error


def reads_global():
    return LOCK


def main_like(function):
    """A function as one of `__main__` would be: by value."""
    found = types.FunctionType(function.__code__, function.__globals__)
    found.__module__ = "__main__"
    return found


def has_inner():
    def inner():
        return LOCK

    return inner


def not_all_assigned():
    def inner():
        return later, lock

    lock = LOCK
    return inner
    later = 1


class Local:
    """As a class of `__main__`."""

    lock = LOCK
    __module__ = "__main__"


PATHS = [
    (LOCK, "", "_thread.lock"),
    (Box(a=1, lock=LOCK), ".lock", "_thread.lock"),
    ([1, 2, [3, Box(x=LOCK)]], "[2][1].x", "_thread.lock"),
    ({"a": {("k", 1): Box(x=LOCK)}}, "['a'][<tuple>].x", "_thread.lock"),
    ({"k" * 99: LOCK, 5: 1}, f"['{'k' * 37}...]", "_thread.lock"),
    ({2**9999: LOCK}, "[<int of 10000 bits>]", "_thread.lock"),
    ({Box(lock=LOCK): 1}, f"key <{__name__}.Box>.lock", "_thread.lock"),
    ([{1, Box(lock=LOCK)}], "[0], an item of the set.lock", "_thread.lock"),
    (with_slots(), ".lock", "_thread.lock"),
    (Pair(1, [LOCK]), ".b[0]", "_thread.lock"),
    (Point(1, {"s": LOCK}), ".y['s']", "_thread.lock"),
    (functools.partial(print, 1, LOCK), ".args[1]", "_thread.lock"),
    (functools.partial(print, k=Box(z=LOCK)), ".keywords['k'].z", "_thread.lock"),
    (Box(lock=LOCK).__init__, ".__self__.lock", "_thread.lock"),
    (main_like(reads_global), "global variable 'LOCK' that reads_global reads", "_thread.lock"),
    (main_like(has_inner), "global variable 'LOCK' that has_inner reads", "_thread.lock"),
    (
        not_all_assigned(),
        "closure variable 'lock' of not_all_assigned.<locals>.inner",
        "_thread.lock",
    ),
    (Local, ".lock", "_thread.lock"),
    (Local(), ".__class__.lock", "_thread.lock"),
    (collections.deque([1, LOCK]), "[1]", "_thread.lock"),
    (collections.defaultdict(list, {"a": LOCK}), "['a']", "_thread.lock"),
    (collections.OrderedDict(a=LOCK), "['a']", "_thread.lock"),
    (DictOfTheirs(a=LOCK), "['a']", "_thread.lock"),
    (ValueError("x", LOCK), ".args[1]", "_thread.lock"),
    (with_attribute(), ".lock", "_thread.lock"),
    (cyclic(), ".second.lock", "_thread.lock"),
    (in_itself(), "[2]", "_thread.lock"),
    (object_array(), "[1, 2].lock", "_thread.lock"),
    (pd.DataFrame({"a": [1, 2], "b": [1, LOCK]}), "['b'].iloc[1]", "_thread.lock"),
    (pd.Series([Box(lock=LOCK)]), ".iloc[0].lock", "_thread.lock"),
    ((i for i in []), "", "generator"),
    ([sys._getframe()], "[0]", "frame"),
    ([Reduces(lambda: 5)], "[0]", f"{__name__}.Reduces"),
    ([Reduces(lambda: raises(SystemExit(3)))], "[0]", f"{__name__}.Reduces"),
    ([Reduces(lambda: raises(GeneratorExit()))], "[0]", f"{__name__}.Reduces"),
    ([Reduces(lambda: (list, (), None, itertools.repeat(LOCK)))], "[0][0]", "_thread.lock"),
    ([Hostile()], "[0]", f"{__name__}.Hostile"),
    ([1, HostileClass()], "[1]", "object"),
    ({HostileKey(): 1}, f"key <{__name__}.HostileKey>", f"{__name__}.HostileKey"),
    ([*range(100_000), LOCK], "[100000]", "_thread.lock"),
    ([np.zeros(100_000), Box(a=np.zeros(200_000)[::2], lock=LOCK)], "[1].lock", "_thread.lock"),
]


@pytest.mark.parametrize("value, path, culprit", PATHS)
def test_the_path_leads_to_what_can_not_be_pickled(store, value, path, culprit):
    in_use = store.arenas.in_use
    with pytest.raises(Unpicklable) as caught:
        store.encode(value)
    assert (caught.value.path, caught.value.culprit) == (path, culprit)
    assert store.arenas.in_use == in_use


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=30), st.randoms(use_true_random=False))
def test_the_path_leads_there_from_anywhere(steps, random):
    value, path = LOCK, ""
    for step in steps:
        others = [[], {"x": 1}, "text", 2.5, Box(a=[1])]
        at = random.randrange(4)
        if step < 2:
            value, name = [*others[:at], value, *others[at:]], f"[{at}]"
        elif step == 2:
            value, name = (*others[:at], value), f"[{at}]"
        elif step == 3:
            value, name = {"x": 1, "key": value}, "['key']"
        elif step == 4:
            value, name = Box(a=others, held=value), ".held"
        else:
            value, name = Pair(others, value), ".b"
        path = name + path
    with pytest.raises(Unpicklable) as caught:
        encode(value, bytes)
    assert caught.value.path == path


def test_the_users_error_is_the_cause(store):
    problem = ValueError("ours")
    with pytest.raises(Unpicklable) as caught:
        store.encode([Reduces(lambda: raises(problem))])
    assert caught.value.error is problem
    error = serialization_error("f, made at x.py:3", "args[0]", caught.value)
    assert type(error) is SerializationError and error.__cause__ is problem
    assert str(error) == (
        f"args[0][0] of task f, made at x.py:3 can't be pickled, so it can't pass between "
        f"processes.\nIt is of type {__name__}.Reduces; the cause is ValueError: ours\n"
        f"Make it inside the task that uses it, leave it out by a __getstate__ of its owner, or "
        f'run where\nnothing is pickled: scheduler="threads".'
    )


def test_words_of_what_came_without_a_culprit():
    error = serialization_error("f", "result", Unpicklable("", Wordless()))
    assert str(error).startswith(
        "result of task f can't be pickled, so it can't pass between processes.\n"
        "The cause is Wordless: (its text can't be had: __str__ raised ValueError)\n"
    )
    error = serialization_error("f", "result", Unpicklable("", ValueError("x" * 10**6)))
    assert len(str(error)) < 1000


NESTS = {
    "list": lambda v: [v, 1],
    "tuple": lambda v: (v,),
    "dict": lambda v: {"a": v},
    "mixed": lambda v: [({"a": v}, v)],
}


def unnested(value):
    found = 0
    while value:
        value = next(iter(value.values() if type(value) is dict else value))
        found += 1
    return found


@pytest.mark.parametrize("how", NESTS)
def test_nested_deeply(store, how):
    value = ()
    for _ in range(50_000):
        value = NESTS[how](value)
    again = store.decode(store.encode(value))
    assert type(again) is type(value)
    assert unnested(again) == unnested(value) == (150_000 if how == "mixed" else 50_000)


def test_nested_deeply_and_in_several_places(store):
    """Every way down is short from the top, and the longest one goes through all."""
    every = [np.arange(100_000)]
    for _ in range(5_000):
        every.append([every[-1], len(every)])
    every.append(every)
    again = store.decode(store.encode(every))
    assert again[-1] is again and len(again) == 5_002
    for i in range(1, 5_001):
        assert again[i][0] is again[i - 1] and again[i][1] == i
    assert np.array_equal(again[0], np.arange(100_000))


def test_nested_too_deeply(store):
    value = None
    for _ in range(100_000):
        value = Box(next=value)
    with pytest.raises(Unpicklable) as caught:
        store.encode(value)
    assert isinstance(caught.value.error, RecursionError) and caught.value.path == ""
    text = str(serialization_error("f", "args[0]", caught.value))
    assert "its objects are nested too deeply for pickle, or a __reduce__ calls itself" in text
    assert "keep long chains in a flat list" in text


def test_a_reduce_without_end(store):
    class Endless:
        def __reduce__(self):
            return list, ([Endless()],)

    with pytest.raises(Unpicklable) as caught:
        store.encode(Endless())
    assert isinstance(caught.value.error, RecursionError)


def test_what_fails_only_once(store):
    tries = iter([1])

    def reduce():
        for _ in tries:
            raise ValueError("the first time")
        return int, ()

    with pytest.raises(Unpicklable, match="the first time"):
        store.encode([Reduces(reduce)])


def test_nothing_is_held_afterwards(store):
    """Neither by a pickler nor by an error, until the garbage collector comes."""
    gc.collect()
    gc.disable()
    try:
        for held in (5, LOCK):
            value = Box(array=np.arange(100_000.0), held=held)
            gone = weakref.ref(value)
            refused = False
            try:
                store.encode(value)
            except Unpicklable:
                refused = True
            assert refused is (held is LOCK)
            del value
            assert gone() is None
    finally:
        gc.enable()


def test_memory_errors_are_no_matter_of_pickling(store):
    with pytest.raises(MemoryError, match="^full$"):
        store.encode([Reduces(lambda: raises(MemoryError("full")))])


def test_ctrl_c_on_the_main_thread_is_the_users(store):
    value = [Reduces(lambda: raises(KeyboardInterrupt()))]
    with pytest.raises(KeyboardInterrupt):
        store.encode(value)
    found = []

    def off_the_main_thread():
        try:
            store.encode(value)
        except Unpicklable as error:
            found.append(error)

    thread = threading.Thread(target=off_the_main_thread)
    thread.start()
    thread.join()
    assert found[0].path == "[0]" and isinstance(found[0].error, KeyboardInterrupt)


@pytest.mark.parametrize("moment", range(3))
def test_ctrl_c_at_any_time_is_the_users(store, moment):
    tries = iter([ValueError()] * moment + [KeyboardInterrupt()])
    value = [Reduces(lambda: raises(next(tries, ValueError())))]
    with pytest.raises(KeyboardInterrupt):
        store.encode(value)


def test_the_search_ends_in_time(store, monkeypatch):
    monkeypatch.setattr("lazyflow.store.pickling.unpicklable._SECONDS", -1)
    with pytest.raises(Unpicklable) as caught:
        store.encode([[LOCK]])
    assert (caught.value.path, caught.value.culprit) == ("somewhere in it", "list")
    monkeypatch.undo()
    monkeypatch.setattr("lazyflow.store.pickling.unpicklable._DEEPEST", 1)
    with pytest.raises(Unpicklable) as caught:
        store.encode([[LOCK]])
    assert caught.value.path == "[0], somewhere in it"


def test_unpicklable_travels():
    found = pickle.loads(pickle.dumps(Unpicklable(".x", ValueError("y"), "lock")))
    assert (found.path, found.culprit, found.error.args) == (".x", "lock", ("y",))


def test_the_path_in_an_exception_where_a_library_pickles_all_of_them(monkeypatch):
    """As importing distributed has it."""
    def reduce(error):
        return object, (vars(error), error.args)

    for kind in (BaseException, ValueError):
        monkeypatch.setitem(copyreg.dispatch_table, kind, reduce)
    with pytest.raises(Unpicklable) as caught:
        encode(ValueError(1, threading.Lock()), None)
    assert caught.value.path == ".args[1]"
