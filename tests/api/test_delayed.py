"""`delayed` and `Delayed`: what can be marked, how it is called, and how its result acts."""

import asyncio
import copy
import functools
import inspect
import math
import operator
import sys
import threading
import types
import typing
from abc import ABC, abstractmethod

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyflow
from lazyflow import Delayed, compute, delayed, persist, tree_reduce
from lazyflow.graph.lengths import annotated_length
from lazyflow.schedulers.remote.calls import is_quick


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
        ({"nout": 2, "num_returns": 3}, TypeError, "nout=2 and num_returns=3: give one of them"),
        ({"retries": -1}, ValueError, "retries must be a whole number, 0 or more; got -1"),
        ({"retries": 1.5}, ValueError, "got 1.5"),
        ({"crash_retries": "2"}, ValueError, "crash_retries must be a whole number"),
        ({"priority": "high"}, TypeError, "priority must be a whole number .* got 'high'"),
        ({"resources": ["GPU"]}, TypeError, r"such as \{'GPU': 1\}; got \['GPU'\]"),
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
        (a1, 3), (a2, 2), (a3, 2), (a4, 2), (a5, 2), (a6, 2), (a7, 2), (a8, 0), (a9, 3),
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
    with pytest.raises(TypeError, match="how many values split returns"):
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
        ({"a": 1, "b": 2}, r"\(nout=2\), but returned a dict, whose parts have no .* x\[key\]"),
        ({1, 2}, r"\(nout=2\), but returned a set, whose parts have no numbers"),
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


# -- operators ------------------------------------------------------------------------------

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor,
    operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge, divmod, pow,
]  # fmt: skip
UNARY = [
    operator.neg, operator.pos, operator.abs, operator.invert, abs, round, math.trunc,
    math.floor, math.ceil,
]  # fmt: skip


@given(st.sampled_from(BINARY), st.integers(0, 40), st.integers(1, 40))
def test_binary_operators_and_reflections(op, a, b):
    expected = op(a, b)
    x, y = delayed(a), delayed(inc)(b - 1)
    for lazy in (op(x, b), op(a, y), op(x, y)):
        assert type(lazy) is Delayed
        assert value_of(lazy) == expected


@given(st.sampled_from([*BINARY[:12], divmod]), st.integers(0, 40), st.integers(1, 40))
def test_numpy_on_the_left(op, a, b):
    for left in (np.int64(a), np.array([a, a + 1])):
        lazy = op(left, delayed(b))
        assert type(lazy) is Delayed
        np.testing.assert_array_equal(value_of(lazy), op(left, b))


@pytest.mark.parametrize("op", BINARY[12:18])
def test_numpy_on_the_left_of_comparisons(op):
    left = np.array([1, 2, 3])
    for one in (left, np.float64(2)):
        lazy = op(one, delayed(2))
        assert type(lazy) is Delayed
        np.testing.assert_array_equal(value_of(lazy), op(one, 2))


def test_matrix_products():
    a, b = np.arange(4.0).reshape(2, 2), np.array([1.0, 2.0])
    for lazy in (a @ delayed(b), delayed(a) @ b, delayed(a) @ delayed(b)):
        np.testing.assert_array_equal(value_of(lazy), a @ b)


@pytest.mark.parametrize("op", UNARY)
def test_unary_operators(op):
    x = 5 if op is operator.invert else -2.5
    lazy = op(delayed(x))
    assert type(lazy) is Delayed
    assert value_of(lazy) == op(x)


def test_operators_with_more_arguments():
    assert value_of(round(delayed(2.345), 1)) == 2.3
    assert value_of(round(delayed(2.345), delayed(2))) == round(2.345, 2)
    assert value_of(pow(delayed(3), 4, 5)) == value_of(pow(delayed(3), delayed(4), delayed(5))) == 1
    q, r = divmod(delayed(17), 5)
    assert compute(q, r) == (3, 2)
    q, r = divmod(17, delayed(5))
    assert compute(q, r) == (3, 2)


def test_in_place_operators_bind_a_new_value():
    x = y = delayed(1)
    x += 1
    x *= 10
    assert compute(x, y) == (20, 1)


def test_sum_works_without_a_start():
    assert value_of(sum([delayed(1), delayed(2), 3])) == 6


# -- attributes, items ----------------------------------------------------------------------


def test_attributes_and_methods():
    x = delayed("a,b")
    assert value_of(x.split(",")) == ["a", "b"]
    assert value_of(x.upper().lower().replace("a", delayed("z"))) == "z,b"
    z = delayed(3 + 4j)
    assert compute(z.real, z.imag, z.real.is_integer()) == (3, 4, True)
    bound = x.split
    assert value_of(bound)() == ["a,b"]  # the attribute itself
    assert bound(",", dask_key_name="parts").key == "parts"
    assert repr(x.split(",")) == "<Delayed split(<value>, ',')>"
    assert repr(x.split) == "<Delayed .split(<value>)>"


def test_an_attribute_that_is_not_there_fails_when_computed():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        value_of(delayed(1).nothing)


def test_a_call_of_a_lazy_function():
    f = delayed(lambda n: lambda *a, **k: (n, a, k))(3)
    assert value_of(f(1, x=2)) == (3, (1,), {"x": 2})
    assert value_of(f(1, dask_key_name="k")) == (3, (1,), {})
    assert f(1, dask_key_name="k").key == "k"


def test_items():
    x = delayed(list(range(10)))
    i, j = delayed(2), delayed(inc)(4)
    assert value_of(x[0]) == 0
    assert value_of(x[-1]) == 9
    assert value_of(x[i]) == 2
    assert value_of(x[i:j]) == [2, 3, 4]
    assert value_of(x[i:8:i]) == [2, 4, 6]
    assert value_of(delayed({"a": {1: 2}})["a"][1]) == 2
    a = np.arange(12).reshape(3, 4)
    assert value_of(delayed(a)[1, i]) == 6
    np.testing.assert_array_equal(value_of(delayed(a)[:i, ..., 1:j]), a[:2, ..., 1:5])
    np.testing.assert_array_equal(value_of(delayed(a)[a > i]), a[a > 2])


def test_reversed_and_unpacking_where_the_length_is_known():
    x = delayed(lambda: (1, 2, 3), nout=3)()
    assert compute(*reversed(x)) == (3, 2, 1)
    first, *rest = x
    assert compute(first, rest) == (1, [2, 3])
    assert compute(*[delayed(inc)(i) for i in x]) == (2, 3, 4)


# -- identity and text ----------------------------------------------------------------------


def test_hash_by_identity():
    x, y = delayed(1), delayed(1)
    assert {x: "x", y: "y"}[x] == "x"
    assert len({x, y, x}) == 2
    assert x in [x]


def test_copies_are_the_same_task():
    x = delayed(inc)(1)
    assert copy.copy(x) is x
    assert copy.deepcopy([x, [x]])[1][0] is x
    f = delayed(inc)
    assert copy.deepcopy(f) is copy.copy(f) is f


def test_repr():
    f = delayed(inc)
    x = f(1)
    assert repr(f) == "<delayed function inc>"
    assert repr(x) == str(x) == f"{x}" == "<Delayed inc(1)>"
    assert repr(f(x)) == "<Delayed inc(<inc>)>"
    assert repr(delayed(7)) == "<Delayed 7>"
    assert repr(delayed(7, name="seven")) == "<Delayed seven>"
    assert repr(delayed(everything)([1, x], np.zeros((2, 3)), k="v")) == (
        "<Delayed everything(list of 2, ndarray(2, 3) float64, k='v')>"
    )
    assert repr(delayed(inc, name="label")(1)) == "<Delayed label(1)>"
    assert repr(f(1, dask_key_name="key")) == "<Delayed key(1)>"
    assert repr(delayed(functools.partial(inc))(1)) == "<Delayed inc(1)>"
    assert repr(delayed("x").real.imag) == "<Delayed .imag(<.real>)>"
    assert repr(x + 1) == "<Delayed add(<inc>, 1)>"
    a, _ = delayed(divmod, nout=2)(7, 2)
    assert repr(a) == "<Delayed divmod[0](<divmod>)>"
    assert len(repr(delayed(everything)(*range(1000), "x" * 1000))) < 200


def test_asking_for_the_key_does_not_change_what_is_shown():
    x = delayed(7)
    before = repr(x), repr(delayed(inc)(x))
    x.key
    assert (repr(x), repr(delayed(inc)(x))) == before == ("<Delayed 7>", "<Delayed inc(<value>)>")


def test_repr_of_persisted_values():
    (x,) = persist(delayed(inc)(1), scheduler="sync")
    assert repr(x) == "<Delayed inc: finished>"


class Hostile:
    def __repr__(self):
        raise RuntimeError("no repr")

    @property
    def __class__(self):
        raise RuntimeError("no class")

    def __getattr__(self, name):
        raise RuntimeError("no attributes")


def test_repr_of_hostile_arguments():
    assert repr(delayed(inc)(Hostile())).startswith("<Delayed inc(")
    assert "inc" in delayed(inc)([Hostile(), delayed(1)])._repr_html_()


def test_html_is_escaped_and_says_where():
    def tricky(x):
        return x

    tricky.__name__ = "<script>alert(1)</script>"
    html = delayed(tricky)("<b>&")._repr_html_()
    line = inspect.currentframe().f_lineno - 1
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "&lt;b&gt;&amp;" in html
    assert f"test_delayed.py:{line}" in html


def test_every_way_to_make_a_task_notes_the_users_line():
    f, x, obj = delayed(inc), delayed(lambda: (1, 2), nout=2)(), delayed("a")
    bound = obj.upper

    def here():
        return inspect.currentframe().f_back.f_lineno

    made = [
        (here(), f(1)), (here(), f(x)), (here(), f([x])), (here(), f(1, x)), (here(), f(x=1)),
        (here(), f(1, dask_key_name="k")), (here(), x + 1), (here(), 1 + x), (here(), x + x),
        (here(), -x), (here(), x == 1), (here(), x[0]), (here(), x.real), (here(), obj.upper()),
        (here(), bound()), (here(), x(1)), (here(), divmod(x, 2)), (here(), divmod(2, x)),
        (here(), round(x)), (here(), pow(x, 2, 3)), (here(), next(iter(x))), (here(), x // 2),
        (here(), delayed(5)), (here(), delayed([x])), (here(), delayed([5])),
        (here(), persist(f(2), scheduler="sync")[0]), (here(), delayed(nout=2)(inc)(1)),
        (here(), tree_reduce(max, [x, 2, 3, 4, 5], split_every=2)),
    ]  # fmt: skip
    for line, task in made:
        where = f"{__file__}:{line} in test_every_way_to_make_a_task_notes_the_users_line"
        assert where in task._repr_html_(), task


def test_metadata_of_the_function():
    @delayed
    def f(a, *, b: int = 3) -> int:
        """Say something."""

    assert f.__doc__ == "Say something."
    assert f.__name__ == "f"
    assert f.__qualname__.endswith("<locals>.f")
    assert f.__module__ == __name__
    assert f.__defaults__ is None
    assert f.__annotations__ == {"b": int, "return": int}
    assert str(inspect.signature(f)) == "(a, *, b: int = 3) -> int"
    assert inspect.unwrap(f) is f.__wrapped__
    assert typing.get_type_hints(f) == {"b": int, "return": int}
    assert callable(f)
    partial = functools.partial(inc)
    assert delayed(partial).__doc__ == partial.__doc__

    @functools.wraps(f)
    def g(): ...

    assert g.__name__ == "f"
    with pytest.raises(AttributeError):
        _ = f(1).__wrapped__


def test_a_delayed_function_is_a_value_too():
    f = delayed(inc)
    assert f.compute() is inc
    assert value_of(delayed(lambda func, x: func(x))(f, 1)) == 2
    assert value_of(delayed(functools.reduce)(delayed(operator.add), [1, 2, 3])) == 6


def test_private_names_are_not_looked_up_lazily():
    x = delayed(1)
    assert not hasattr(x, "_private")
    with pytest.raises(AttributeError, match=r"write delayed\(getattr\)\(x, '_private'\)"):
        x._private
    assert not hasattr(x, "__len_hint__")


# -- evaluation -----------------------------------------------------------------------------


def test_key_is_text_and_stays():
    x = delayed(inc)(1)
    assert isinstance(x.key, str)
    assert x.key == x.key
    assert x.key.startswith("inc-")
    assert x.key != delayed(inc)(1).key


def test_compute_and_persist_of_one():
    x = delayed(inc)(1)
    assert x.compute() == 2
    assert x.compute(scheduler="sync", num_workers=1, optimize_graph=False) == 2
    with pytest.raises(TypeError, match="unexpected keyword 'schedular'; did you mean 'scheduler'"):
        x.compute(schedular="sync")
    p = x.persist()
    assert type(p) is Delayed
    assert (p + 1).compute() == 3


def test_visualize_of_one(tmp_path):
    x = delayed(inc)(delayed(inc)(1))
    assert "<svg" in x.visualize()._repr_svg_()
    x.visualize(str(tmp_path / "graph.svg"))
    assert "<svg" in (tmp_path / "graph.svg").read_text()


def test_visualize_of_too_many_tasks_says_what_to_do():
    xs = [delayed(inc)(i) for i in range(501)]
    with pytest.raises(ValueError, match=r"501 tasks .* or give engine='graphviz'"):
        delayed(sum)(xs[:500]).visualize()
    assert "<svg" in delayed(sum)(xs[:20]).visualize()._repr_svg_()


def test_await_gives_the_value():
    async def main():
        x = delayed(inc)(1)
        (p,) = persist(delayed(inc)(2))
        return await x, await p, await delayed(5), await asyncio.gather(x + 1, x + 2, x + 3)

    assert asyncio.run(main()) == (2, 3, 5, [3, 4, 5])


def test_await_many_at_once_runs_them_together():
    barrier = threading.Barrier(3, timeout=30)

    async def main():
        return await asyncio.gather(*[_later(delayed(barrier.wait)()) for _ in range(3)])

    async def _later(x):
        return await x

    with lazyflow.config.set(num_workers=3):
        assert sorted(asyncio.run(main())) == [0, 1, 2]


def test_await_raises_the_tasks_error():
    async def main():
        await delayed(operator.truediv)(1, 0)

    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(main())
    assert "in lazyflow task truediv(1, 0)" in caught.value.__notes__[0]


@pytest.mark.parametrize("name", ["asyncio", "concurrent.futures", "scipy.sparse", "numpy"])
def test_a_module_that_another_thread_is_importing(name, monkeypatch):
    """It is in sys.modules before it has its names."""

    class Thing:  # a new one: what kind it is of has not been looked up
        pass

    half = types.ModuleType(name)
    half.ndarray = np.ndarray  # of NumPy's, the first that is needed
    monkeypatch.setitem(sys.modules, name, half)
    with pytest.raises(ZeroDivisionError):
        compute(delayed(operator.truediv)(1, 0), scheduler="threads")
    (held,) = persist(delayed(Thing)(), scheduler="threads")
    assert type(held.compute()) is Thing
    assert compute(delayed(type, pure=True)(Thing()), scheduler="sync") == (Thing,)
    assert not is_quick([Thing()], 1000)


def test_cancelling_an_await_gives_the_work_up():
    started, release, ran = threading.Event(), threading.Event(), []

    def first():
        started.set()
        release.wait(30)

    async def main():
        x = delayed(lambda _: ran.append(1))(delayed(first)())
        waiting = asyncio.ensure_future(_value(x))
        await asyncio.get_running_loop().run_in_executor(None, started.wait, 30)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
        return await delayed(inc)(1)

    async def _value(x):
        return await x

    assert asyncio.run(main()) == 2
    assert ran == []


# -- depth ----------------------------------------------------------------------------------

DEPTH = 100_000


def test_a_deep_chain_is_built_shown_computed_and_dropped():
    f = delayed(inc)
    x = f(0)
    for _ in range(DEPTH - 1):
        x = f(x)
    assert repr(x) == "<Delayed inc(<inc>)>"
    assert copy.deepcopy(x) is x
    assert value_of(x) == DEPTH
    with pytest.raises(ValueError, match=f"{DEPTH:,} tasks .* Visualize a part of the graph"):
        x.visualize()
    del x


def test_deep_chains_of_other_kinds():
    x = y = z = delayed(1)
    pure = delayed(inc, pure=True)
    for _ in range(2_000):
        x, y, z = x + 1, delayed([y])[0], pure(z)
    assert compute(x, y, z) == (2_001, 1, 2_001)
    assert z.key.startswith("inc-")


# -- ufuncs of NumPy ------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    np.sin, lambda x: np.add(x, 1, dtype="f4"), lambda x: np.add(1, x), np.add.reduce,
    lambda x: np.multiply.outer(x, [1, 2]), lambda x: np.ones(2) + x, lambda x: np.float64(2) * x,
    lambda x: np.modf(x)[1], lambda x: np.arange(2) < x, lambda x: np.ones((2, 2)) @ x,
    lambda x: divmod(np.ones(2), x)[0],
])
@pytest.mark.parametrize("scheduler", ["sync", "processes"])
def test_ufuncs_of_lazy_values_are_calls(call, scheduler):
    lazy = call(delayed(np.array)([2.5, 3]))
    assert isinstance(lazy, Delayed)
    expected = call(np.array([2.5, 3]))
    found = lazy.compute(scheduler=scheduler)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found, expected)


def test_an_array_to_which_something_lazy_is_added_is_lazy():
    total = before = np.zeros(2)
    total += delayed(np.ones)(2)
    total += delayed(np.ones)(2)
    assert total.compute().tolist() == [2, 2]
    assert before.tolist() == [0, 0]


def test_ufuncs_of_lazy_values_do_not_write():
    x, out = delayed(np.ones)(2), np.zeros(2)
    for write in lambda: np.sin(x, out=out), lambda: np.add.at(out, [0], x):
        with pytest.raises(TypeError, match=r"can't write into an array now\. Write: y = np\."):
            write()


def test_the_graph_of_a_lazy_value_is_not_called_dask():
    with pytest.raises(AttributeError, match=r"x\.visualize\(\) draws it.*delayed\(getattr\)"):
        delayed(abs)(1).dask
