"""`tokenize`: equal for equal content in any process, different for different content."""

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import gc
import importlib
import itertools
import json
import math
import operator
import os
import pathlib
import random
import re
import string
import subprocess
import sys
import textwrap
import threading
import types
import uuid
import weakref
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lazyflow.graph.tokens import tokenize, unique_token

ROOT = Path(__file__).parents[1]


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Point(collections.namedtuple("Point", "x y")):
    pass


@dataclasses.dataclass
class Record:
    name: str
    values: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    a: int
    b: object = None


class Text(str):
    pass


class Whole(int):
    pass


class Items(list):
    pass


class Table(dict):
    pass


class Bag(set):
    pass


class Plain:
    def __init__(self, **state):
        self.__dict__.update(state)

    def method(self):
        return self


class Hooked:
    def __init__(self, token):
        self.token = token

    def __lazyflow_tokenize__(self):
        return self.token

    def __dask_tokenize__(self):
        raise RuntimeError("the other hook comes first")


class Typed(np.ndarray):
    pass


def scale(x, factor=2, *, shift=0):
    return x * factor + shift


def power_of(n):
    return lambda x: x**n


@numba.njit
def compiled(x):
    return x + 1


@numba.njit(fastmath=True)
def fast(x):
    return x + 1


def with_attributes(array, **attributes):
    array.__dict__.update(attributes)
    return array


FRAME = {"a": [1, 2, 3], "b": ["x", "y", None], "c": [0.5, np.nan, 2.0]}
DENSE = [[0, 1.5], [2.5, 0]]


def python_examples():
    """Fresh objects, each different from all others."""
    return {
        "nothing": None,
        "dots": ...,
        "not implemented": NotImplemented,
        "one": 1,
        "true": True,
        "one float": 1.0,
        "one complex": 1 + 0j,
        "one text": "1",
        "one bytes": b"1",
        "one bytearray": bytearray(b"1"),
        "one view": memoryview(b"1"),
        "large int": 10**30,
        "negative zero": -0.0,
        "zero": 0.0,
        "nan": math.nan,
        "infinity": math.inf,
        "surrogate": "\ud800",
        "empties": [[], (), {}, set(), frozenset(), "", b""],
        "list": [1, 2],
        "tuple": (1, 2),
        "swapped": [2, 1],
        "nested left": [[1], 2],
        "nested right": [1, [2]],
        "rows": [[1, 2], [3]],
        "rows cut elsewhere": [[1], [2, 3]],
        "row tuples": [(1, 2), (3,)],
        "bytes like a digest": [b"\0" * 32, []],
        "set": {"a", "b", "c", "d"},
        "frozenset": frozenset("abcd"),
        "mixed set": {1, "a", None, (1, "b"), frozenset("xyz")},
        "dict": {"a": 1, "b": [2]},
        "dict of pairs": [("a", 1), ("b", [2])],
        "dict int keys": {1: "a", 2: "b"},
        "dict bool key": {True: "a", 2: "b"},
        "dict mixed keys": {1: "a", "1": "b", None: ["c"], (1, 2): {3}},
        "dict values moved": {1: "a", "1": ["c"], None: "b", (1, 2): {3}},
        "dict keys": {"a": 1, "b": 2}.keys(),
        "dict values": {"a": 1, "b": 2}.values(),
        "dict items": {"a": 1, "b": 2}.items(),
        "mapping proxy": types.MappingProxyType({"a": 1, "b": [2]}),
        "ordered": collections.OrderedDict(a=1, b=2),
        "ordered other": collections.OrderedDict(b=2, a=1),
        "default dict": collections.defaultdict(list, a=[1]),
        "counter": collections.Counter("abca"),
        "deque": collections.deque([1, 2]),
        "bounded deque": collections.deque([1, 2], 5),
        "slice": slice(1, None, 2),
        "range": range(1, 9, 2),
        "enum": Colour.RED,
        "enum text": Colour.BLUE,
        "flags": Rights.READ | Rights.WRITE,
        "namedtuple": Point(1, 2),
        "dataclass": Record("r", [1]),
        "slotted": Slotted(1, [2]),
        "text subclass": Text("1"),
        "int subclass": Whole(1),
        "list subclass": Items([1, 2]),
        "dict subclass": Table(a=1, b=[2]),
        "set subclass": Bag("abcd"),
        "object": Plain(a=1, b=[2]),
        "object other": Plain(a=1, b=[3]),
        "hooked": Hooked(("x", 1)),
        "namespace": SimpleNamespace(a=1, b=[2]),
        "path": pathlib.Path("a/b"),
        "windows path": pathlib.PureWindowsPath("a/b"),
        "date": datetime.date(2020, 1, 2),
        "datetime": datetime.datetime(2020, 1, 2),
        "utc": datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
        "fold": datetime.datetime(2020, 1, 2, fold=1),
        "timedelta": datetime.timedelta(1),
        "decimal": decimal.Decimal("1.0"),
        "decimal digits": decimal.Decimal("1.00"),
        "fraction": fractions.Fraction(1, 3),
        "uuid": uuid.UUID(int=5),
        "pattern": re.compile("a+", re.I),
        "error": ValueError("bad", 1),
        "random": random.Random(0),
        "alias": list[int],
        "union": int | str,
        "partial": functools.partial(scale, 1, shift=2),
        "getter": operator.itemgetter(1),
        "builtin": len,
        "builtin of a module": math.sin,
        "c method": str.upper,
        "bound c method": "a".upper,
        "bound method": Plain(a=1).method,
        "class method": datetime.datetime.fromtimestamp,
        "function": scale,
        "library function": os.path.join,
        "lambda": lambda x: x + 1,
        "lambda other": lambda x: x + 2,
        "lambda name": lambda x: x + one,  # noqa: F821
        "closure": power_of(2),
        "closure other": power_of(3),
        "code": scale.__code__,
        "class": Plain,
        "builtin class": int,
        "c class": decimal.Decimal,
        "local class": local_class(1),
        "local class other": local_class(2),
        "instance of a local class": local_class(1)(),
        "module": math,
        "submodule": os.path,
    }


def local_class(n):
    class Local:
        limit = n

        @property
        def twice(self):
            return 2 * self.limit

        @functools.lru_cache  # noqa: B019
        def cached(self):
            return Local

        @functools.cached_property
        def later(self):
            return super().__hash__()

    return Local


def library_examples():
    """Fresh objects of NumPy, SciPy, pandas and Numba, each different from all others."""
    a = np.arange(6.0).reshape(2, 3)
    record = np.dtype([("a", "i1"), ("b", "f8"), ("c", "U2")], align=True)
    examples = {
        "array": a,
        "transposed": a.T,
        "flat": a.ravel(),
        "float32": a.astype("f4"),
        "big-endian": a.astype(">f8"),
        "integers": a.astype("i8"),
        "unsigned": a.astype("u8"),
        "changed": a + np.eye(2, 3),
        "negative zeros": -np.zeros(2),
        "zeros": np.zeros(2),
        "empty": np.zeros((0, 3)),
        "empty other": np.zeros((3, 0)),
        "0-d": np.array(1),
        "scalar": np.int64(1),
        "scalar int32": np.int32(1),
        "scalar float": np.float64(1),
        "scalar bool": np.True_,
        "scalar text": np.str_("1"),
        "scalar bytes": np.bytes_(b"1"),
        "scalar date": np.datetime64("2020-01-02", "ns"),
        "scalar date unit": np.datetime64("2020-01-02", "us"),
        "scalar record": np.array([(1, 2.0, "x")], record)[0],
        "dates": np.array(["2020", "NaT"], "M8[ns]"),
        "time spans": np.array([1, 2], "m8[s]"),
        "text array": np.array(["a", "bc"]),
        "bytes array": np.array([b"a", b"bc"]),
        "variable text": np.array(["a", "bc"], np.dtypes.StringDType()),
        "missing text": np.array(["a", None], np.dtypes.StringDType(na_object=None)),
        "void": np.array([b"abc"], "V3"),
        "objects": np.array([1, "a", None, [2]], object),
        "objects in a grid": np.array([[1, "a"], [None, 2]], object),
        "long doubles": np.array([1, 2], np.longdouble),
        "complex long doubles": np.array([1, 2j], np.clongdouble),
        "records": np.array([(1, 2.0, "x"), (3, 4.0, "y")], record),
        "record array": np.array([(1, 2.0)], "i4,f8").view(np.recarray),
        "records with objects": np.array([(1, [2])], [("a", "i4"), ("b", object)]),
        "subarrays": np.zeros(2, [("m", "f4", (2, 2))]),
        "matrix": a.view(np.matrix),
        "subclass": with_attributes(a.view(Typed), unit="m"),
        "subclass other": with_attributes(a.view(Typed), unit="s"),
        "masked": np.ma.masked_array([1, 2, 3], [0, 1, 0]),
        "masked fill": np.ma.masked_array([1, 2, 3], [0, 1, 0], fill_value=7),
        "dtype": np.dtype("f8"),
        "dtype record": record,
        "dtype metadata": np.dtype("f8", metadata={"unit": "m"}),
        "dtype text": np.dtypes.StringDType(),
        "generator": np.random.default_rng(0),
        "generator other": np.random.default_rng(1),
        "random state": np.random.RandomState(0),
        "ufunc": np.add,
        "scipy ufunc": scipy.special.expit,
        "numpy function": np.mean,
        "numpy class": np.ndarray,
        "vectorized": np.vectorize(scale),
        "njit": compiled,
        "njit option": fast,
        "njit signature": numba.njit("f8(f8)")(compiled.py_func),
        "njit closure": numba.njit(power_of(2)),
        "numba ufunc": numba.vectorize(compiled.py_func),
        "numba type": numba.float64[:],
    }
    for kind in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok"):
        examples[f"{kind} matrix"] = getattr(sp, f"{kind}_matrix")(DENSE)
        examples[f"{kind} array"] = getattr(sp, f"{kind}_array")(DENSE)
    return examples | pandas_examples()


def pandas_examples():
    frame = pd.DataFrame(FRAME)
    return {
        "frame": frame,
        "frame columns": frame[["b", "a", "c"]],
        "frame attrs": with_attrs(pd.DataFrame(FRAME), source="x"),
        "frame index": frame.set_index("a"),
        "series": frame["a"],
        "series name": frame["a"].rename("z"),
        "series text": frame["b"],
        "categorical": frame["b"].astype("category"),
        "categories": pd.Categorical(["x"], ["x", "y"]),
        "categories ordered": pd.Categorical(["x"], ["x", "y"], ordered=True),
        "nullable": pd.array([1, None], "Int64"),
        "nullable float": pd.array([1, None], "Float64"),
        "nullable bool": pd.array([True, None], "boolean"),
        "strings": pd.array(["a", None], "string"),
        "dates": pd.Series(pd.date_range("2020", periods=3)),
        "dates in a zone": pd.Series(pd.date_range("2020", periods=3, tz="UTC")),
        "periods": pd.period_range("2020", periods=3).array,
        "intervals": pd.interval_range(0, 3).array,
        "sparse": pd.arrays.SparseArray([0, 0, 1]),
        "index": pd.Index([3, 1, 2]),
        "index name": pd.Index([3, 1, 2], name="i"),
        "range index": pd.RangeIndex(3),
        "date index": pd.date_range("2020", periods=3, freq="D"),
        "multi-index": pd.MultiIndex.from_product([[1, 2], ["a", "b"]]),
        "timestamp": pd.Timestamp("2020-01-02"),
        "pandas timedelta": pd.Timedelta("1D"),
        "NA": pd.NA,
        "NaT": pd.NaT,
        "offset": pd.offsets.MonthEnd(2),
        "categorical dtype": pd.CategoricalDtype(["a", "b"]),
        "zone dtype": pd.DatetimeTZDtype(tz="UTC"),
    }


def with_attrs(frame, **attrs):
    frame.attrs.update(attrs)
    return frame


def examples():
    return python_examples() | library_examples()


def token_table():
    return {name: tokenize(value, strict=True) for name, value in examples().items()}


TABLE_OF_ANOTHER_PROCESS = """
import json, sys
sys.path[:0] = {paths!r}
import numpy.random, fractions, test_tokens
print(json.dumps(test_tokens.token_table()))
"""


def in_another_process(code, seed="0"):
    code = textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", code.format(paths=[str(ROOT), str(ROOT / "tests")])],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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
from lazyflow.graph.tokens import tokenize
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


def test_importing_loads_no_library():
    code = """
    import json, sys
    sys.path[:0] = {paths!r}
    from lazyflow.graph.tokens import tokenize
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


@pytest.mark.parametrize(
    "view", [memoryview(b"abcdef")[::2], memoryview(b"ace"), memoryview(bytearray(b"ace"))]
)
def test_a_view_counts_by_its_bytes(view):
    assert tokenize(view) == tokenize(memoryview(b"ace"))
    assert tokenize(view) != tokenize(memoryview(b"ace").cast("b"))


# Depth, sharing and cycles


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: [x],
        lambda x: (x,),
        lambda x: {"a": x},
        lambda x: {1: x, "a": 2},
        lambda x: Plain(a=x),
        lambda x: Hooked([x]),
    ],
    ids=["list", "tuple", "dict", "mixed dict", "object", "hook"],
)
def test_depth_is_not_limited(wrap):
    one, same, other = 0, 0, 1
    for _ in range(1000):
        one, same, other = wrap(one), wrap(same), wrap(other)
    assert tokenize(one) == tokenize(same) != tokenize(other)
    for _ in range(99_000):
        one = wrap(one)
    assert tokenize(one) != tokenize(other)


@pytest.mark.parametrize(
    "pair", [lambda x: [x, x], lambda x: {"a": x, "b": x}, lambda x: {(0,): x, (1,): [x]}]
)
def test_shared_parts_are_looked_at_once(pair):
    one = other = 0
    for _ in range(60):  # 2**60 places
        one = pair(one)
        other = pair(other)
    assert tokenize(one) == tokenize(other)


def test_sharing_does_not_count():
    part = [1, [2]]
    assert tokenize([part, part]) == tokenize([part, copy.deepcopy(part)])


def test_a_list_that_holds_itself():
    one, same, longer, other = [], [], [], []
    one.append(one)
    same.append(same)
    longer += [longer, 1]
    other += [other, 2]
    assert tokenize(one) == tokenize(same)
    assert len({tokenize(x) for x in (one, longer, other, [], [[]], [one, 1])}) == 6


def test_a_ring_of_a_hundred_thousand_lists():
    def ring(n):
        ring = end = ["x"]
        for _ in range(n):
            ring = [ring]
        end.append(ring)
        return ring

    assert tokenize(ring(999)) == tokenize(ring(999)) != tokenize(ring(100_000))


def test_a_chain_with_links_in_both_directions():
    def chain(marks):
        nodes = [Plain(mark=i in marks) for i in range(3_000)]
        for left, right in itertools.pairwise(nodes):
            left.next, right.last = right, left
        return nodes

    nodes = chain({100, 2000})
    assert tokenize(nodes[0]) == tokenize(chain({100, 2000})[0])
    assert tokenize(nodes[0]) != tokenize(chain({100, 2001})[0])
    assert tokenize(nodes[3]) != tokenize(nodes[4])


@st.composite
def object_graphs(draw):
    """Nodes of four kinds that refer to any nodes, themselves included."""
    kinds = draw(st.lists(st.sampled_from(["list", "set", "dict", "object"]), min_size=1))
    size = len(kinds)
    edges = st.lists(st.integers(0, size - 1), max_size=3)
    return [(kind, draw(st.integers(0, 1)), draw(edges)) for kind in kinds]


class Node:
    """Hashed by identity, so that sets iterate in order of addresses."""


def built(spec):
    nodes = [Node() for _ in spec]
    for node, (kind, mark, edges) in zip(nodes, spec, strict=True):
        targets = [nodes[i] for i in edges]
        node.mark = mark
        if kind == "list":
            node.to = targets
        elif kind == "set":
            node.to = set(targets)
        elif kind == "dict":
            node.to = dict.fromkeys(targets, "value")
        else:
            node.first, node.rest = [*targets, None][0], tuple(targets[1:])
    return nodes


def unfold_alike(spec):
    """For each node its class among nodes that no walk of any length can tell apart."""
    classes = [0] * len(spec)
    for _ in range(len(spec) + 1):
        seen = []
        for kind, mark, edges in spec:
            to = [classes[i] for i in edges]
            if kind in ("set", "dict"):
                to = sorted(classes[i] for i in set(edges))
            seen.append((kind, mark, to))
        order = sorted(map(repr, seen))
        classes = [order.index(repr(each)) for each in seen]
    return classes


@given(object_graphs(), st.randoms())
def test_cycles_against_unfolding(spec, rng):
    nodes = built(spec)
    tokens = [tokenize(node) for node in nodes]
    assert [tokenize(node) for node in built(spec)] == tokens
    order = rng.sample(range(len(spec)), len(spec))
    where = {old: new for new, old in enumerate(order)}
    shuffled = [(spec[old][0], spec[old][1], [where[i] for i in spec[old][2]]) for old in order]
    assert [tokenize(node) for node in built(shuffled)] == [tokens[old] for old in order]
    together = tokenize(*nodes)
    assert tokenize(*built(spec)) == together
    assert tokenize(set(nodes)) == tokenize(set(built(shuffled)))
    classes = unfold_alike(spec)
    for i, j in itertools.combinations(range(len(spec)), 2):
        if tokens[i] == tokens[j]:
            assert classes[i] == classes[j]


# NumPy

arrays = hnp.arrays(
    st.one_of(hnp.scalar_dtypes(), hnp.unicode_string_dtypes(), hnp.array_dtypes(max_size=3)),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
)


@given(arrays)
def test_the_layout_in_memory_does_not_count(array):
    token = tokenize(array)
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    backwards = np.flip(np.flip(array).copy())
    for other in (array.copy("F"), array.T.copy().T, wide[..., 0], backwards):
        assert other.dtype == array.dtype
        assert tokenize(other.reshape(array.shape)) == token


@given(hnp.arrays(st.sampled_from(["i4", ">f8", "U3", "M8[s]", "?"]), (3, 4)), st.integers(0, 11))
def test_each_element_counts(array, at):
    changed = array.copy("F")
    changed.flat[at] = np.ones((), array.dtype) if not array.flat[at] else np.zeros((), array.dtype)
    same = tokenize(changed) == tokenize(array)
    assert same == (changed.copy().tobytes() == array.tobytes())


def test_large_strided_arrays_are_read_in_blocks():
    array = np.arange(400_000).reshape(400, 1000)
    strided = np.repeat(array, 2, axis=1)[:, ::2]
    assert tokenize(strided) == tokenize(array) == tokenize(np.asfortranarray(array))
    strided[399, 999] += 1
    assert tokenize(strided) != tokenize(array)


def test_a_memory_map_is_the_array_it_maps(tmp_path):
    array = np.arange(10.0)
    array.tofile(tmp_path / "data")
    assert tokenize(np.memmap(tmp_path / "data")) == tokenize(array.view("u1"))


def test_a_read_only_view_is_the_array():
    array = np.arange(10.0)
    view = array.view()
    view.flags.writeable = False
    assert tokenize(view) == tokenize(array)


@pytest.mark.parametrize(
    ("dtype", "padding"),
    [
        ("g", slice(10, 16)),
        ("G", slice(10, 16)),
        (">g", slice(0, 6)),
        ([("a", "i1"), ("b", "f8")], slice(1, 8)),
    ],
)
@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="long doubles have no padding here")
def test_bytes_that_hold_no_value_do_not_count(dtype, padding):
    dtype = np.dtype(dtype, align=True)

    def filled(byte):
        array = np.zeros(3, dtype)
        raw = array.view("u1").reshape(3, -1, 16)
        for name in dtype.names or [...]:
            array[name] = [1, 2, 3]
        raw[..., padding] = byte
        return array

    assert filled(0).tobytes() != filled(255).tobytes()
    assert tokenize(filled(0)) == tokenize(filled(255))
    assert tokenize(filled(0)[:2]) != tokenize(filled(0)[1:])


def test_values_of_an_object_array_count_by_type():
    made = [np.array(x, object) for x in ([1, 2], [1, True], [1.0, 2], [np.int64(1), 2], [[1], 2])]
    assert len({tokenize(array) for array in made}) == len(made)


def test_asking_a_masked_array_for_its_fill_value_changes_nothing():
    array = np.ma.masked_array([1.0, 2.0], [False, True])
    token = tokenize(array)
    assert array._fill_value is None
    array.fill_value  # stores it
    assert tokenize(array) == token
    array.mask[0] = True
    assert tokenize(array) != token


def test_a_generator_counts_by_its_state():
    rng = np.random.default_rng(0)
    before = tokenize(rng)
    rng.random()
    assert tokenize(rng) != before
    rng = np.random.default_rng(0)
    rng.spawn(1)
    assert tokenize(rng) != before


def test_a_vectorized_function_counts_without_what_it_cached():
    function = np.vectorize(scale, otypes=[float])
    token = tokenize(function)
    function([1, 2])
    assert tokenize(function) == token


# SciPy and pandas


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_what_a_sparse_array_noted_about_itself_does_not_count(kind):
    array = getattr(sp, f"{kind}_array")(np.eye(4))
    token = tokenize(array)
    getattr(array, "has_sorted_indices", None)
    getattr(array, "has_canonical_format", None)
    array.maxprint = 7
    array.sum(), array.T, array.tocsr()
    assert tokenize(array) == token
    assert tokenize(getattr(sp, f"{kind}_array")(2 * np.eye(4))) != token


@pytest.mark.parametrize("kind", [sp.dok_array, sp.lil_array])
def test_the_order_of_insertion_does_not_count(kind):
    one, other = kind((3, 3)), kind((3, 3))
    for i in range(3):
        one[i, 0], other[2 - i, 0] = i + 1, np.int32(3 - i)
    assert tokenize(one) == tokenize(other)
    other[1, 1] = 1
    assert tokenize(one) != tokenize(other)


def test_what_pandas_cached_does_not_count():
    frame, index = pd.DataFrame(FRAME).set_index("b"), pd.Index(list("abc"))
    array = pd.array([1, None], "Int64")
    tokens = tokenize(frame), tokenize(index), tokenize(array)
    frame.index.is_unique, frame.index.get_loc("x"), frame["a"], frame.columns.get_loc("a")
    index.get_indexer(["a"]), index.is_monotonic_increasing, array.dtype
    assert (tokenize(frame), tokenize(index), tokenize(array)) == tokens


def test_how_a_frame_is_cut_into_blocks_does_not_count():
    at_once = pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "b"])
    one_by_one = pd.DataFrame(index=at_once.index)
    for name in at_once:
        one_by_one[name] = at_once[name].copy()
    one_by_one.columns = at_once.columns
    assert tokenize(at_once) == tokenize(one_by_one)
    one_by_one.loc[2, "b"] = 0
    assert tokenize(at_once) != tokenize(one_by_one)


def test_what_lies_under_the_mask_of_a_pandas_array_does_not_count():
    mask = np.array([False, True])
    one = pd.arrays.IntegerArray(np.array([1, 7]), mask)
    other = pd.arrays.IntegerArray(np.array([1, 8]), mask)
    assert tokenize(one) == tokenize(other)
    assert tokenize(one) != tokenize(pd.array([None, 1], "Int64"))
    assert tokenize(pd.array([0, 0], "Int64")) != tokenize(pd.array([0, None], "Int64"))


# Functions and classes


@pytest.fixture
def importable(monkeypatch):
    """Import source code as the module ``edited``."""

    def load(source):
        module = types.ModuleType("edited")
        monkeypatch.setitem(sys.modules, "edited", module)
        exec(textwrap.dedent(source), module.__dict__)
        return module

    return load


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(x): return x + 1", "def f(x): return x + 2"),
        ("def f(x, n=1): return x + n", "def f(x, n=2): return x + n"),
        ("def f(x, *, n=1): return x + n", "def f(x, *, n=2): return x + n"),
        ("def f(x): return [y + 1 for y in x]", "def f(x): return [y + 2 for y in x]"),
        ("def f(x): return x.real", "def f(x): return x.imag"),
        ("def f(x): return lambda: {1, 2}", "def f(x): return lambda: {1, 3}"),
        ("class f:\n def g(self): return 1", "class f:\n def g(self): return 2"),
        (
            "class f:\n @property\n def g(self): return 1",
            "class f:\n @property\n def g(self): return 2",
        ),
        (
            "class f:\n @staticmethod\n def g(): return 1",
            "class f:\n @staticmethod\n def g(): return 2",
        ),
    ],
)
def test_edited_code_has_another_token(importable, before, after):
    token = tokenize(importable(before).f)
    assert tokenize(importable(before).f) == token
    assert tokenize(importable("# moved down\n\n" + before).f) == token
    assert tokenize(importable(after).f) != token


@pytest.mark.parametrize(
    "wrapper", ["functools.lru_cache", "logged", "numba.njit", "functools.partial"]
)
def test_an_edit_below_a_decorator_is_seen(importable, wrapper):
    source = f"""
    import functools, numba
    def logged(function):
        @functools.wraps(function)
        def call(*args):
            return function(*args)
        return call
    @{wrapper}
    def f(x):
        return x + 1
    """
    token = tokenize(importable(source).f)
    assert tokenize(importable(source).f) == token
    assert tokenize(importable(source.replace("1", "2")).f) != token


def test_code_that_is_replaced_in_place_is_seen(importable):
    module = importable("def f(x): return x + 1")
    token = tokenize(module.f)
    module.f.__code__ = (lambda x: x + 2).__code__
    assert tokenize(module.f) != token


def test_an_importable_function_counts_without_the_globals_it_reads(importable):
    module = importable("import threading\nlock = threading.Lock()\ndef f(): return lock")
    assert tokenize(module.f, strict=True) == tokenize(module.f)


def test_a_default_that_has_no_content_counts_by_type(importable):
    source = "missing = object()\ndef f(x=missing, *, y=missing): return x"
    assert tokenize(importable(source).f, strict=True) == tokenize(importable(source).f)


def test_a_lambda_counts_by_what_it_reads():
    def made(code, **names):
        return eval(f"lambda x, n=1: {code}", names)

    tokens = [
        tokenize(made("x + a", a=1)),
        tokenize(made("x + a", a=2)),
        tokenize(made("x + b", b=1)),
        tokenize(made("x.a", a=1)),
        tokenize(made("[y + a for y in x]", a=1)),
        tokenize(made("[y + a for y in x]", a=2)),
        tokenize(made("lambda: x + a", a=1)),
        tokenize(made("lambda: x + a", a=2)),
        tokenize(made("f(x)", f=made("x + 1"))),
        tokenize(made("f(x)", f=made("x + 2"))),
        tokenize(made("f(x)", f=made("f(x)", f=made("x + 1")))),
    ]
    assert len(set(tokens)) == len(tokens)
    assert tokenize(made("x + a", a=1, b=3)) == tokens[0]
    assert tokenize(made("x.a", a=2)) == tokens[3]


def test_names_of_variables_of_a_closure_count_with_their_values():
    assert tokenize(power_of(2)) == tokenize(power_of(2))
    assert tokenize(power_of(2)) != tokenize(power_of(2.0))


def test_a_closure_variable_without_a_value():
    def outer(fill):
        def inner():
            return late

        if fill:
            late = 1
        return inner

    assert tokenize(outer(False)) == tokenize(outer(False)) != tokenize(outer(True))


def test_functions_that_call_each_other():
    def made(step):
        def even(n):
            return n == 0 or odd(n - step)

        def odd(n):
            return n != 0 and even(n - step)

        return even, odd

    (even, odd), (same, _) = made(1), made(1)
    assert tokenize(even) == tokenize(same)
    assert len({tokenize(f) for f in (even, odd, *made(2))}) == 4


def test_running_a_function_does_not_change_its_token():
    def f(x):
        total = 0
        for i in range(x):
            total += i * 2.5
        return total

    token = tokenize(f)
    for _ in range(50):
        f(50)
    assert tokenize(f) == token


def test_compiling_does_not_change_the_token_of_a_dispatcher():
    one = numba.njit(power_of(2))
    ufunc = numba.vectorize(power_of(2))
    general = numba.guvectorize("(n)->(n)")(scale)
    tokens = tokenize(one), tokenize(ufunc), tokenize(general)
    one(3), ufunc(3)
    assert one.signatures and ufunc.types
    assert (tokenize(one), tokenize(ufunc), tokenize(general)) == tokens
    assert tokenize(numba.njit(power_of(2))) == tokens[0]
    assert tokenize(numba.njit(power_of(3))) != tokens[0]
    assert tokenize(numba.njit(nogil=True)(power_of(2))) != tokens[0]


def test_local_classes_count_by_their_body():
    assert tokenize(local_class(1), strict=True) == tokenize(local_class(1))
    assert tokenize(local_class(1)()) != tokenize(local_class(2)())
    assert tokenize(local_class(1)().__class__.twice.fget) == tokenize(local_class(2).twice.fget)


def test_what_is_kept_of_a_function_goes_with_it():
    def f():
        return None

    gone = weakref.ref(f)
    tokenize(f)
    del f
    gc.collect()
    assert gone() is None


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


def without_content():
    return [
        threading.Lock(),
        (x for x in "ab"),
        object(),
        weakref.ref(Opaque),
        itertools.count(),
        threading.local(),
        Opaque(),
        types.ModuleType("nowhere"),
        np.frompyfunc(scale, 1, 1),
        np.nditer(np.zeros(2)),
        sys._getframe(),
        numba.experimental.jitclass([("a", numba.float64)])(type("J", (), {"__init__": scale})),
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
    from lazyflow.graph.tokens import tokenize, unique_token
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
