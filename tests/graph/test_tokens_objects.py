"""Tokens of objects: by their hooks, by what they reduce to, and of those that have no content."""

import collections
import copy
import functools
import importlib
import itertools
import os
import sys
import threading
import types
import weakref

import numba
import numpy as np
import pandas as pd
import pytest
from token_examples import Hooked, Plain, Slotted, Table, power_of, scale

from lazyflow.graph.tokens.tokenize import tokenize

# Hooks


def test_the_hook_is_hashed_with_its_class():
    class Other(Hooked):
        pass

    assert tokenize(Hooked(1)) == tokenize(Hooked(1))
    assert len({tokenize(x) for x in (Hooked(1), Hooked(2), Hooked([1]), Other(1), 1)}) == 5


def test_the_hook_of_dask_is_honoured_when_there_is_no_other():
    class Foreign(Plain):
        def __dask_tokenize__(self):
            return self.name, self.unknown

    one = Foreign(name="a", unknown=1, lock=threading.Lock())
    assert tokenize(one, strict=True) == tokenize(Foreign(name="a", unknown=1))
    assert tokenize(one) != tokenize(Foreign(name="b", unknown=1))


def test_a_hook_of_dask_that_needs_dask_is_left_out():
    class Foreign(Plain):
        def __dask_tokenize__(self):
            return importlib.import_module("dask.that_is_not_there")

    assert tokenize(Foreign(a=1), strict=True) == tokenize(Foreign(a=1))
    assert tokenize(Foreign(a=1)) != tokenize(Foreign(a=2))


def test_a_hook_that_returns_its_own_kind_is_refused():
    class Same:
        def __lazyflow_tokenize__(self):
            return copy.copy(self)

    name = f"{__name__}.{Same.__qualname__}"
    with pytest.raises(TypeError) as caught:
        tokenize(Same())
    assert str(caught.value) == (
        f"{name}.__lazyflow_tokenize__() returned another Same, so its content is still unknown. "
        "Return what results depend on, such as a tuple of attributes."
    )


def test_a_hook_may_return_what_refers_to_the_object():
    one, same = Plain(), Plain()
    one.a, same.a = Hooked([one, 1]), Hooked([same, 1])
    assert tokenize(one) == tokenize(same)


def test_the_error_of_a_hook_says_whose_it_is():
    class Broken:
        def __lazyflow_tokenize__(self):
            raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError) as caught:
        tokenize([Broken()])
    name = f"{__name__}.{Broken.__qualname__}"
    assert caught.value.__notes__ == [f"This was raised by {name}.__lazyflow_tokenize__()."]


# No content


class Opaque:
    def __reduce_ex__(self, protocol):
        raise ValueError("nothing to see")


def released_view():
    view = memoryview(b"a")
    view.release()
    return view


def jitted_class():
    @numba.experimental.jitclass([("a", numba.float64)])
    class Jitted:
        def __init__(self, a):
            self.a = a

    return Jitted


def without_content():
    return [
        threading.Lock(),
        (x for x in "ab"),
        object(),
        weakref.ref(Opaque),
        itertools.count(),
        threading.local(),
        Opaque(),
        memoryview(np.array([[]], object)),
        released_view(),
        types.ModuleType("nowhere"),
        np.frompyfunc(scale, 1, 1),
        np.nditer(np.zeros(2)),
        sys._getframe(),
        jitted_class(),
    ]


@pytest.mark.parametrize("i", range(len(without_content())))
def test_what_has_no_content_has_a_token_of_its_own(i):
    one, other = without_content()[i], without_content()[i]
    tokens = {tokenize(one), tokenize(other), tokenize([one]), tokenize(Plain(a=one))}
    assert len(tokens) == 4
    with pytest.raises(TypeError, match=r"^args\[0\].* content can't be read for a token"):
        tokenize(one, strict=True)


def test_an_open_file_has_no_content():
    with open(os.devnull) as one:
        assert tokenize(one) != tokenize(one)
        with pytest.raises(TypeError, match=r"_io\.TextIOWrapper, whose content can't be read"):
            tokenize(one, strict=True)


def test_one_lock_in_two_places_is_one():
    lock, other = threading.Lock(), threading.Lock()
    assert tokenize(lock) != tokenize(lock), "it is new each time: nothing is kept about objects"
    assert tokenize([lock, other]) != tokenize([lock, lock])


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (lambda lock: tokenize(1, lock, strict=True), "args[1]"),
        (lambda lock: tokenize(a=lock, strict=True), "kwargs['a']"),
        (lambda lock: tokenize([0, 1, (lock,)], strict=True), "args[0][2][0]"),
        (lambda lock: tokenize({"a": {2: lock}}, strict=True), "args[0]['a'][2]"),
        (lambda lock: tokenize({"a": 1, 2: lock}, strict=True), "args[0][2]"),
        (lambda lock: tokenize({(1,): lock}, strict=True), "args[0][<tuple>]"),
        (lambda lock: tokenize(Plain(lock=lock), strict=True), "args[0].lock"),
        (lambda lock: tokenize(Slotted(1, lock), strict=True), "args[0].__reduce_ex__(4)[2][1]"),
        (lambda lock: tokenize(Table(a=lock), strict=True), "args[0]['a']"),
        (lambda lock: tokenize(np.array([1, lock]), strict=True), "args[0].ravel()[1]"),
        (lambda lock: tokenize(pd.Series([1, lock]), strict=True), "args[0].array.ravel()[1]"),
        (lambda lock: tokenize(Hooked([lock]), strict=True), "args[0].__lazyflow_tokenize__()[0]"),
        (lambda lock: tokenize(Plain(a=lock).method, strict=True), "args[0].__self__.a"),
        (
            lambda lock: tokenize(power_of(lock), strict=True),
            "args[0].__closure__[0].cell_contents",
        ),
        (
            lambda lock: tokenize(eval("lambda: lock", {"lock": lock}), strict=True),
            "args[0].__globals__['lock']",
        ),
        (
            lambda lock: tokenize(functools.partial(scale, lock), strict=True),
            "args[0].__reduce_ex__(4)[2][1][0]",
        ),
    ],
)
def test_strict_says_what_and_where_and_what_to_do(call, path):
    with pytest.raises(TypeError) as caught:
        call(threading.Lock())
    assert str(caught.value) == (
        f"{path} is a _thread.lock, whose content can't be read for a token (TypeError: cannot "
        "pickle '_thread.lock' object). Give the class that holds it a method "
        "__lazyflow_tokenize__(self) that returns what results depend on, or leave strict=True "
        "out to get a unique token."
    )
    assert type(caught.value.__cause__) is TypeError


def test_a_long_path_is_shortened():
    deep = Plain(lock=threading.Lock())
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(TypeError) as caught:
        tokenize(deep, strict=True)
    path = str(caught.value).partition(" is a ")[0]
    assert path == f"args[0]{'[0]' * 11} … 978 steps … {'[0]' * 11}.lock"


# Hostile objects


class Hostile:
    def __init__(self, value):
        object.__setattr__(self, "value", value)

    def _raise(self, *args):
        raise RuntimeError("touched")

    __eq__ = __bool__ = __len__ = __iter__ = __getattr__ = __setattr__ = _raise
    __repr__ = __str__ = __call__ = __contains__ = __getitem__ = __sizeof__ = _raise

    def __hash__(self):
        return 1


class Liar(Hostile):
    @property
    def __class__(self):
        raise RuntimeError("touched")


@pytest.mark.parametrize("kind", [Hostile, Liar])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: [x],
        lambda x: {x},
        lambda x: {x: 1},
        lambda x: {"a": x, 1: x},
        lambda x: lambda: x,
        lambda x: functools.partial(scale, x),
        lambda x: np.frompyfunc(lambda i: x, 1, 1)(np.arange(2)),
        lambda x: collections.OrderedDict(a=x),
        lambda x: Plain(a=x),
    ],
)
def test_nothing_of_a_hostile_object_is_called(kind, wrap):
    token = tokenize(wrap(kind(1)), strict=True)
    assert tokenize(wrap(kind(1))) == token
    assert tokenize(wrap(kind(2))) != token


def test_an_object_that_refuses_every_attribute_has_no_content():
    class Wall:
        def __getattribute__(self, name):
            raise RuntimeError("touched")

    assert tokenize(Wall()) != tokenize(Wall())
    with pytest.raises(TypeError, match=r"content can't be read .* \(RuntimeError: touched\)"):
        tokenize(Wall(), strict=True)


def test_a_class_that_refuses_every_attribute():
    class Meta(type):
        def __getattr__(cls, name):
            raise RuntimeError("touched")

    class Odd(metaclass=Meta):
        def __lazyflow_tokenize__(self):
            return 1

    assert tokenize(Odd(), strict=True) == tokenize(Odd())
    assert tokenize(Odd, strict=True) == tokenize(Odd)


@pytest.mark.parametrize("answer", [None, (), (int,), ("no", "function"), 5, "no.such.name"])
def test_a_reduce_that_returns_nonsense_is_no_content(answer):
    class Odd:
        def __reduce_ex__(self, protocol):
            return answer

    assert tokenize(Odd()) != tokenize(Odd())
    with pytest.raises(TypeError, match="content can't be read for a token"):
        tokenize(Odd(), strict=True)
