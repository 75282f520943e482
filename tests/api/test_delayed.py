"""`delayed`: what can be marked, how many values a call returns, and how it is called."""

import functools
import operator
import types
import typing
from abc import ABC, abstractmethod

import numba
import numpy as np
import pytest

from lazyflow import Delayed, compute, delayed
from lazyflow.graph.items import annotated_length


def inc(x):
    """Add one."""
    return x + 1


def everything(*args, **kwargs):
    return args, kwargs


def value_of(x):
    return compute(x, scheduler="sync")[0]


# -- what can be marked ---------------------------------------------------------------------


def test_decorator_without_and_with_arguments():
    @delayed
    def a(x):
        return x + 1

    @delayed()
    def b(x):
        return x + 2

    @delayed(nout=2, name="pair")
    def c(x):
        return x, x

    assert compute(a(1), b(1), *c(1)) == (2, 3, 1, 1)
    assert type(a(1)) is Delayed


class Adder:
    """A callable object."""

    def __init__(self, n):
        self.n = n

    def __call__(self, x):
        return x + self.n

    def method(self, x):
        return x + self.n

    @classmethod
    def of_class(cls, x):
        return cls.__name__, x


@numba.njit
def jitted(x):
    return x + 1


@numba.vectorize
def vectorized(x):
    return x + 1


@pytest.mark.parametrize(
    ("func", "args", "expected"),
    [
        (inc, (1,), 2),
        (lambda x: -x, (1,), -1),
        (len, ("abc",), 3),
        ("-".join, (["a", "b"],), "a-b"),
        (str.upper, ("a",), "A"),
        (functools.partial(operator.sub, 10), (1,), 9),
        (functools.partial(functools.partial(operator.sub, 10)), (1,), 9),
        (functools.lru_cache(inc), (1,), 2),
        (Adder(5), (1,), 6),
        (Adder(5).method, (1,), 6),
        (Adder.of_class, (1,), ("Adder", 1)),
        (complex, (1, 2), 1 + 2j),
        (types.SimpleNamespace, (), types.SimpleNamespace()),
        (operator.itemgetter(1), ([5, 6],), 6),
        (operator.attrgetter("real"), (3,), 3),
        (np.add, (1, 2), 3),
        (np.linalg.norm, ([3.0, 4.0],), 5.0),
        (jitted, (1,), 2),
        (vectorized, (1,), 2),
        (staticmethod(inc), (1,), 2),
        (functools.singledispatch(inc), (1,), 2),
    ],
)
def test_any_callable(func, args, expected):
    assert value_of(delayed(func)(*args)) == expected
    assert value_of(delayed(func)(*[delayed(x) for x in args])) == expected
    assert value_of(delayed(pure=False)(func)(*args)) == expected


def test_a_decorated_class_makes_instances():
    @delayed
    class Point:
        def __init__(self, x, y=0):
            self.x, self.y = x, y

        def moved(self, by):
            return self.x + by

    p = Point(1, y=2)
    assert compute(p.x, p.y, p.moved(by=10)) == (1, 2, 11)
    assert type(p.compute()) is Point.__wrapped__


def test_methods_and_their_combinations():
    class Scale:
        factor = 10

        @delayed
        def plain(self, x):
            return self.factor * x

        @classmethod
        @delayed
        def class_outside(cls, x):
            return cls.__name__, x

        @delayed
        @classmethod
        def class_inside(cls, x):
            return cls.__name__, x

        @delayed(nout=2)
        @classmethod
        def class_with_options(cls, x):
            return cls.__name__, x

        @staticmethod
        @delayed
        def static_outside(x):
            return x

        @delayed
        @staticmethod
        def static_inside(x):
            return x

        @property
        @delayed
        def prop(self):
            return self.factor

        builtin = delayed(len)
        made = delayed(Adder)
        bound = delayed(Adder(1).method)

    class Sub(Scale):
        factor = 20

    s = Sub()
    assert compute(s.plain(2), s.plain(x=2), Sub.plain(s, 2), Scale().plain(2)) == (40, 40, 40, 20)
    for name in ("class_outside", "class_inside"):
        assert compute(getattr(s, name)(1), getattr(Sub, name)(1)) == (("Sub", 1), ("Sub", 1))
    assert compute(*s.class_with_options(1)) == ("Sub", 1)
    for name in ("static_outside", "static_inside"):
        assert compute(getattr(s, name)(1), getattr(Sub, name)(1)) == (1, 1)
    assert value_of(s.prop) == 20
    # as without delayed: builtins, classes and bound methods don't take the instance
    assert compute(s.builtin("abc"), s.made(3).n, s.bound(1)) == (3, 3, 2)


def test_numba_functions_bind_as_methods():
    class A:
        lazy = delayed(numba.njit(lambda self, x: x))

    a = A()
    assert value_of(A.lazy(1, 2)) == 2
    assert repr(a.lazy(2)) == "<Delayed <lambda>(A, 2)>"


def test_delayed_methods_keep_abstractness():
    class Base(ABC):
        @delayed
        @abstractmethod
        def run(self): ...

    class Derived(Base):
        @delayed
        def run(self):
            return 1

    with pytest.raises(TypeError, match="abstract"):
        Base()
    assert value_of(Derived().run()) == 1


@pytest.mark.parametrize("value", [0, None, "text", b"x", 1.5, (), [1], {"a": 1}, {1, 2}])
def test_a_plain_value(value):
    x = delayed(value)
    assert type(x) is Delayed
    assert value_of(x) == value
    assert type(value_of(x)) is type(value)


def test_a_value_with_lazy_parts():
    x = delayed([delayed(inc)(1), {"k": delayed(inc)(2)}])
    assert value_of(x) == [2, {"k": 3}]
    assert value_of(x[1]["k"]) == 3
    assert repr(x) == "<Delayed gathered(list of 2)>"


def test_a_list_changed_after_the_call_does_not_change_the_value():
    xs, kept = [1, 2], {1: 2}
    x, y = delayed(xs), delayed(kept)
    xs.append(3)
    kept.clear()
    assert compute(x, y) == ([1, 2], {1: 2})
    value_of(x).append(4)
    assert value_of(x) == [1, 2]


def test_an_array_as_a_value_stays_the_callers_own():
    a = np.arange(3.0)
    x = delayed(a)
    out = value_of(x)
    out[:] = -1
    assert a.flags.writeable
    np.testing.assert_array_equal(value_of(x), [0, 1, 2])


def test_an_iterator_as_a_value_is_taken_once():
    x = delayed(i for i in [1, 2])
    assert list(value_of(x)) == list(value_of(x)) == [1, 2]


def test_traverse_false_hands_lazy_values_over():
    inner = delayed(1)
    assert value_of(delayed([inner], traverse=False)) == [inner]
    ((got,), _) = value_of(delayed(everything, traverse=False)([inner]))
    assert got[0] is inner
    # the arguments themselves are still looked at
    assert value_of(delayed(everything, traverse=False)(inner, x=inner)) == ((1,), {"x": 1})


def test_options_of_values():
    a, b = delayed([1, 2], nout=2)
    assert compute(a, b) == (1, 2)
    assert delayed({"a": 1}, pure=True).key == delayed({"a": 1}, pure=True).key
    assert delayed([1]).key != delayed([1]).key
    assert delayed(5, name="five").key == "five"
    assert delayed([delayed(1)], name="list").key == "list"
    assert len(delayed([delayed(1), 2], nout=2)) == 2


def test_identity_on_delayed():
    f, x = delayed(inc), delayed(1)
    assert delayed(f) is f
    assert delayed(x) is x
    assert delayed(x + 1, traverse=False) is not x
    assert delayed(None).compute() is None


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"nput": 2}, TypeError, "nput"),
        ({"nout": -1}, ValueError, "nout must be a whole number, 0 or more, or None; got -1"),
        ({"nout": True}, ValueError, "got True"),
        ({"nout": 2, "num_returns": 3}, TypeError, "nout=2 and num_returns=3: pass one of them"),
        ({"retries": -1}, ValueError, "retries must be a whole number, 0 or more; got -1"),
        ({"retries": 1.5}, ValueError, "got 1.5"),
        ({"crash_retries": "2"}, ValueError, "crash_retries must be a whole number"),
        ({"priority": "high"}, TypeError, "priority must be a whole number .* got 'high'"),
        ({"resources": ["GPU"]}, TypeError, r"such as \{'GPU': 1\}; got \['GPU'\]"),
        ({"resources": {"GPU": "x"}}, TypeError, r"such as \{'GPU': 1\}; got 'GPU': 'x'"),
        ({"resources": {1: 1}}, TypeError, r"such as \{'GPU': 1\}; got 1: 1"),
        ({"resources": {"GPU": -1}}, ValueError, "0 or more; got 'GPU': -1"),
        ({"name": 3}, TypeError, "name must be a str; got 3"),
        ({"workers": 1.5}, TypeError, "workers must be the name, address or host .* got 1.5"),
        ({"workers": ["a", None]}, TypeError, r"got \['a', None\]"),
        ({"workers": []}, ValueError, "workers is empty"),
    ],
)
def test_wrong_options_are_refused_where_they_are_written(options, error, words):
    with pytest.raises(error, match=words):
        delayed(inc, **options)


def test_options_are_by_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        delayed(inc, "name")


def test_decorating_what_cannot_be_called():
    with pytest.raises(TypeError, match=r"@delayed\(...\) decorates a function or class; got 5"):
        delayed(nout=2)(5)


# -- how many values ------------------------------------------------------------------------


Alias = tuple[int, str]
T = typing.TypeVar("T")
if typing.TYPE_CHECKING:
    import unheard_of


def a1() -> tuple[int, str, float]: ...
def a2() -> "tuple[int, str]": ...
def a3(x: "unheard_of.Thing") -> "tuple[unheard_of.Thing, list[unheard_of.X] | None]": ...
def a4() -> Alias: ...
def a5() -> "Alias": ...
def a6() -> typing.Tuple[int, int]: ...  # noqa: UP006
def a7() -> typing.Annotated[tuple[int, int], "a note"]: ...
def a8() -> tuple[()]: ...
def a9() -> "tuple[T, 'T', int]": ...
def a10() -> "'tuple[int, str]'": ...  # as of one in quotes in a module of such strings
def n1() -> tuple[int, ...]: ...
def n2() -> tuple: ...
def n3() -> typing.Tuple: ...  # noqa: UP006
def n4() -> list[int]: ...
def n5(): ...
def n6() -> "tuple[int, *tuple[str, ...]]": ...
def n7() -> "unheard_of.Pair": ...
def n8() -> "not python at all": ...  # noqa: F722
def n9() -> tuple[int, typing.Unpack[tuple[str, ...]]]: ...  # noqa: UP044
def n10() -> "1/0": ...


class Annotated:
    def __call__(self) -> tuple[int, int]: ...
    def method(self) -> tuple[int, int, int]: ...

    @classmethod
    def of_class(cls) -> tuple[int, int, int]: ...


@pytest.mark.parametrize(
    ("func", "length"),
    [
        (a1, 3), (a2, 2), (a3, 2), (a4, 2), (a5, 2), (a6, 2), (a7, 2), (a8, 0), (a9, 3), (a10, 2),
        (n1, None), (n2, None), (n3, None), (n4, None), (n5, None), (n6, None), (n7, None),
        (n8, None), (n9, None), (n10, None), (len, None), (divmod, None), (int, None),
        (Annotated, None), (Annotated(), 2), (Annotated().method, 3), (Annotated.of_class, 3),
        (functools.partial(a1), 3), (functools.lru_cache(a1), 3), (staticmethod(a1), 3),
        (numba.njit(a1), 3), (operator.itemgetter(1), None),
    ],
)  # fmt: skip
def test_annotated_length(func, length):
    assert annotated_length(func) == length
    if length is None:
        with pytest.raises(TypeError, match="not known before it is computed"):
            len(delayed(func)())
    else:
        assert len(delayed(func)()) == len(list(delayed(func)())) == length


def test_the_annotation_is_read_at_the_first_iteration():
    def split(x) -> "Later":  # noqa: F821
        return x, -x

    x = delayed(split)(1)
    with pytest.raises(TypeError, match="the number of values that split returns"):
        iter(x)
    globals()["Later"] = tuple[int, int]
    try:
        a, b = x
    finally:
        del globals()["Later"]
    assert compute(a, b) == (1, -1)


@pytest.mark.parametrize("word", ["nout", "num_returns"])
def test_nout(word):
    f = delayed(lambda n: tuple(range(n)), **{word: 3})
    a, b, c = f(3)
    assert len(f(3)) == 3
    assert compute(c, b, a) == (2, 1, 0)


def test_nout_of_nothing():
    f = delayed(lambda: None, nout=0)
    assert list(f()) == []
    assert value_of(f()) is None


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ((1, 2, 3), r"pair was declared to return 2 values \(nout=2\), but returned 3"),
        ((), r"pair was declared to return 2 values \(nout=2\), but returned 0"),
        (5, r"pair was declared to return 2 values \(nout=2\), but returned one int"),
        ({"a": 1, "b": 2}, r"\(nout=2\), but returned a dict, which has no items 0.* x\[key\]"),
        ({1, 2}, r"\(nout=2\), but returned a set, which has no items 0, 1"),
    ],
)
def test_another_length_is_an_error_that_names_the_function(result, words):
    def pair():
        return result

    a, b = delayed(pair, nout=2)()
    for x in (a, b, delayed(pair, nout=2)()):
        with pytest.raises(ValueError, match=words):
            value_of(x)


def test_another_length_than_annotated():
    @delayed
    def pair() -> tuple[int, int]:
        return 1, 2, 3

    assert value_of(pair()) == (1, 2, 3)  # nobody relied on the annotation
    a, _ = pair()
    with pytest.raises(ValueError, match=r"pair was declared to return 2 values .* returned 3"):
        value_of(a)


# -- calls ----------------------------------------------------------------------------------


def test_every_keyword_but_one_reaches_the_function():
    words = [
        "pure", "name", "nout", "traverse", "mutates", "retries", "priority", "resources",
        "workers",
        "self", "func", "args", "kwargs", "options", "obj", "key", "cls", "depth", "task",
    ]  # fmt: skip
    given_ = dict.fromkeys(words, True)
    f = delayed(everything)
    assert value_of(f(**given_)) == ((), given_)
    assert value_of(delayed(f)(1, **given_)) == ((1,), given_)
    x = delayed(everything)
    method = delayed(types.SimpleNamespace)(f=everything).f
    assert value_of(method(1, **given_)) == ((1,), given_)
    assert value_of(delayed(lambda: everything)()(2, **given_)) == ((2,), given_)
    assert x(1, dask_key_name="only").key == "only"


def test_builtins_take_functions_as_keywords():
    assert value_of(delayed(sorted)([-3, 1, 2], key=abs)) == [1, 2, -3]
    assert value_of(delayed(sorted)([-3, 1, 2], key=delayed(abs))) == [1, 2, -3]


def test_parameters_with_any_name():
    @delayed
    def f(self, func, args, name, options, obj, *, key):
        return self, func, args, name, options, obj, key

    assert value_of(f(1, 2, 3, 4, 5, 6, key=7)) == (1, 2, 3, 4, 5, 6, 7)
    assert value_of(f(self=1, func=2, args=3, name=4, options=5, obj=6, key=delayed(7))) == (
        1, 2, 3, 4, 5, 6, 7,
    )  # fmt: skip


@pytest.mark.parametrize("key", [3, b"k", ("a", 1), delayed(1)])
def test_a_key_is_text(key):
    with pytest.raises(TypeError, match="dask_key_name must be a str"):
        delayed(inc)(1, dask_key_name=key)
