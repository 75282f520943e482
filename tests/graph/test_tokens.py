"""`tokenize`: equal for equal content in any process, different for different content."""

import collections
import copy
import functools
import importlib
import itertools
import math
import os
import string
import sys
import threading
import types
import weakref

import numba
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_examples import (
    Hooked,
    Plain,
    Slotted,
    Table,
    in_another_process,
    power_of,
    scale,
    token_table,
)

from lazyflow.graph.tokens.tokenize import tokenize, unique_token

TABLE_OF_ANOTHER_PROCESS = """
import json, sys
sys.path[:0] = {paths!r}
import token_examples
print(json.dumps(token_examples.token_table()))
"""


def test_a_token_is_32_hexadecimal_digits():
    token = tokenize(1, "a", key=[2])
    assert len(token) == 32
    assert set(token) <= set(string.hexdigits.lower())


def test_different_content_has_different_tokens():
    names = collections.defaultdict(list)
    for name, token in token_table().items():
        names[token].append(name)
    assert [same for same in names.values() if len(same) > 1] == []


def test_equal_content_made_twice_has_one_token():
    assert token_table() == token_table()


@pytest.mark.parametrize("seed", ["1", "2"])
def test_tokens_are_equal_in_a_process_with_another_hash_seed(seed):
    assert in_another_process(TABLE_OF_ANOTHER_PROCESS, seed) == token_table()


MAIN = """
import json, sys
sys.path[:0] = {paths!r}
{padding}
import dataclasses, enum, typing
from lazyflow.graph.tokens.tokenize import tokenize
names = set("abcdefgh")
T = typing.TypeVar("T")
class Shade(enum.Enum):
    DARK = 1
class Base(typing.Generic[T]):
    registry = {{frozenset("xyz"): Shade.DARK}}
@dataclasses.dataclass
class Leaf(Base[int]):
    n: int = 0
    def up(self): return odd(self.n) in names and Leaf
    def here(self): return super().__init__, __class__
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
values = [even, odd, Leaf, Leaf(2), Shade.DARK, Leaf(1).up, lambda: (names, Shade, helper)]
print(json.dumps([tokenize(value, strict=True) for value in values]))
def helper(): pass
"""


def test_the_content_of_main_is_the_same_in_another_process():
    one = in_another_process(MAIN.replace("{padding}", ""), "1")
    other = in_another_process(MAIN.replace("{padding}", "import math\n\n"), "2")
    assert one == other
    assert len(set(one)) == len(one)


def test_the_globals_of_main_count_where_they_are_read():
    changed = MAIN.replace("{padding}", "").replace("abcdefgh", "abc")
    one, other = in_another_process(MAIN.replace("{padding}", "")), in_another_process(changed)
    assert [a == b for a, b in zip(one, other, strict=True)] == [
        *[True, True],  # even, odd
        *[False, False],  # Leaf, Leaf(2)
        True,  # Shade.DARK
        *[False, False],  # Leaf(1).up, the lambda
    ]


def test_importing_loads_no_library():
    code = """
    import json, sys
    sys.path[:0] = {paths!r}
    from lazyflow.graph.tokens.tokenize import tokenize
    tokenize([1, {{"a": print}}], lambda: 0)
    print(json.dumps([m for m in ("numpy", "scipy", "pandas", "numba") if m in sys.modules]))
    """
    assert in_another_process(code) == []


# Arguments


def test_positional_and_keyword_arguments_count_by_place_and_name():
    calls = [
        tokenize(),
        tokenize(1),
        tokenize([1]),
        tokenize(1, 2),
        tokenize((1, 2)),
        tokenize(a=1),
        tokenize(b=1),
        tokenize("a", 1),
        tokenize({"a": 1}),
        tokenize(1, a=2),
        tokenize(a=1, b=2),
        tokenize(a=[1], b=2),
    ]
    assert len(set(calls)) == len(calls)
    assert tokenize(1, a=2, b=3) == tokenize(1, b=3, a=2)


def test_strict_changes_no_token():
    assert tokenize([1, Plain(a=2)], strict=True) == tokenize([1, Plain(a=2)])


# Containers, against an oracle

atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, 1j, math.nan]),
    st.sampled_from(["", "a", "1"]),
    st.sampled_from([b"", b"a", b"1"]),
)
keys = st.one_of(
    st.sampled_from(["a", "b", "c", 1, 2, True, None, b"a", 1.5]), st.tuples(st.integers(0, 2))
)
data = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.sets(keys, max_size=3),
        st.builds(Plain, a=inner, b=inner),
    ),
    max_leaves=6,
)


def spelled(value):
    """Content as text, the slow and obvious way."""
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        return f"{kind}({', '.join(map(spelled, value))})"
    if isinstance(value, dict):
        pairs = sorted(f"{spelled(k)}: {spelled(v)}" for k, v in value.items())
        return f"{kind}({', '.join(pairs)})"
    if isinstance(value, set):
        return f"{kind}({', '.join(sorted(map(spelled, value)))})"
    return f"{kind}({spelled(vars(value)) if isinstance(value, Plain) else repr(value)})"


@given(data, data)
def test_tokens_are_equal_exactly_when_contents_are(one, other):
    assert (tokenize(one) == tokenize(other)) == (spelled(one) == spelled(other))


@given(data)
def test_a_deep_copy_has_the_token_of_the_original(value):
    assert tokenize(copy.deepcopy(value)) == tokenize(value)


@given(st.dictionaries(keys, data, max_size=5), st.randoms())
def test_the_order_of_a_dict_does_not_count(value, rng):
    pairs = list(value.items())
    rng.shuffle(pairs)
    assert tokenize(dict(pairs)) == tokenize(value)
    assert tokenize(Table(pairs)) == tokenize(Table(value))


@pytest.mark.parametrize("values", [[1, 2], [[1], 2], [[1], [2]]])
@pytest.mark.parametrize("names", ["ab", (1, 2), (b"a", b"b"), (1, "a"), ((1,), (2,)), (1.5, ())])
def test_the_order_of_two_keys_does_not_count(names, values):
    pairs = list(zip(names, values, strict=True))
    assert tokenize(dict(pairs)) == tokenize(dict(pairs[::-1]))
    assert tokenize(dict(pairs)) != tokenize(dict(zip(names, values[::-1], strict=True)))


def test_the_order_of_attributes_does_not_count():
    assert tokenize(Plain(a=1, b=[2])) == tokenize(Plain(b=[2], a=1))


def test_two_nan_keys_keep_their_values_apart():
    one, other = float("nan"), float("nan")
    assert tokenize({one: 1, other: 2}) == tokenize({other: 2, one: 1})
    assert tokenize({one: 1, other: 2}) != tokenize({one: 1, other: 1})


@pytest.mark.parametrize("kind", [str, bytes, int])
def test_a_million_atoms_count_one_by_one(kind):
    values = [str(i).encode() if kind is bytes else kind(i) for i in range(10**6)]
    token = tokenize(values)
    assert tokenize(values.copy()) == token
    values[777_777] = None
    assert tokenize(values) != token


def test_large_text_in_a_list_is_not_copied_and_counts():
    part = b"x" * (1 << 25)
    assert tokenize([part] * 3) == tokenize([bytes(bytearray(part))] * 3)
    assert tokenize([part] * 3) != tokenize([part, part, part[:-1]])
    assert tokenize([part, part, part, []]) == tokenize([part, part, part, []])
    whole = part * 3
    assert tokenize({1: whole, "a": 2}) == tokenize({"a": 2, 1: whole})


def test_a_view_counts_by_its_bytes_format_and_shape():
    view = memoryview(b"ace")
    for same in (memoryview(b"abcdef")[::2], memoryview(bytearray(b"ace"))):
        assert tokenize(same) == tokenize(view)
    grid = memoryview(b"abcdef").cast("B", [2, 3])
    views = [view, view.cast("b"), grid, memoryview(b"abcdef"), memoryview(b"")]
    assert len({tokenize(each) for each in views}) == len(views)


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
        f"{name}.__lazyflow_tokenize__() returned a Same again, which says nothing of its content. "
        "Let it return what results depend on, such as a tuple of attributes."
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
    with pytest.raises(TypeError, match=r"^args\[0\].* has no content to make a token of"):
        tokenize(one, strict=True)


def test_an_open_file_has_no_content():
    with open(os.devnull) as one:
        assert tokenize(one) != tokenize(one)
        with pytest.raises(TypeError, match=r"_io\.TextIOWrapper, which has no content"):
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
        f"{path} is a _thread.lock, which has no content to make a token of (TypeError: cannot "
        "pickle '_thread.lock' object). Give the class that holds it a method "
        "__lazyflow_tokenize__(self) that returns what results depend on, or leave strict=True "
        "out for a token that no other object gets."
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


def test_unique_tokens_differ():
    tokens = [unique_token() for _ in range(100)]
    assert len(set(tokens)) == 100
    assert {len(token) for token in tokens} == {32}


def test_unique_tokens_differ_after_a_fork():
    code = """
    import json, os, sys
    sys.path[:0] = {paths!r}
    from lazyflow.graph.tokens.tokenize import tokenize, unique_token
    read, write = os.pipe()
    child = os.fork()
    tokens = [unique_token(), tokenize(object())]
    if not child:
        os.write(write, json.dumps(tokens).encode())
        os._exit(0)
    print(json.dumps(tokens + json.loads(os.read(read, 1000))))
    """
    assert len(set(in_another_process(code))) == 4


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
    with pytest.raises(TypeError, match=r"has no content .* \(RuntimeError: touched\)"):
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
    with pytest.raises(TypeError, match="has no content to make a token of"):
        tokenize(Odd(), strict=True)
