"""Objects of many kinds with content, made afresh at each call, for the tests of tokens."""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import json
import math
import operator
import os
import pathlib
import random
import re
import subprocess
import sys
import textwrap
import types
import uuid
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pandas as pd
import scipy.sparse as sp
import scipy.special

from lazyflow.graph.tokens.tokenize import tokenize


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
        "atom first": [1, [1]],
        "atom last": [[1], 1],
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


HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def in_another_process(code, seed="0"):
    code = textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", code.format(paths=[str(ROOT), str(HERE)])],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
