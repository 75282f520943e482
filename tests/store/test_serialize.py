"""Values and functions on their way to other processes, and what can't go."""

import array
import collections
import contextvars
import copyreg
import datetime
import decimal
import enum
import fractions
import functools
import importlib
import os
import pickle
import re
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from store_tools import LEAST, Pair, Point, Store, same

from lazyflow.errors import StoreFull
from lazyflow.store.memory.shared import Arenas
from lazyflow.store.pickling.serialize import (
    decode,
    encode,
)
from lazyflow.store.values import IteratorItems

VARIABLE = contextvars.ContextVar("VARIABLE", default=1)


# -- values ---------------------------------------------------------------------------------

LARGE = st.builds(
    lambda make, n, byte: make(bytes([byte]) * n),
    st.sampled_from([bytes, bytearray, lambda b: b.decode("latin-1"), lambda b: np.array([*b])]),
    st.sampled_from([0, 1, 100, 999, 1000, 65_535, 65_536, 262_143, 262_144, 300_000]),
    st.integers(0, 255),
)
ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(), LARGE
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(VALUES, st.sampled_from([1, 1000, LEAST, 10**9]))
@example(1 << 8 * 1500, 1000)  # larger, and not twice as large
def test_any_mixture_comes_back(value, least):
    store = Store()
    encoded = store.encode(value, least)
    assert same(store.decode(encoded), value)
    parts = [encoded.payload, *encoded.buffers]
    assert encoded.size == sum(p[2] if type(p) is tuple else len(p) for p in parts)
    # Whatever is large is in shared memory, and the rest is not.
    assert all(type(part) is tuple for part in encoded.buffers)
    assert type(encoded.payload) is tuple or len(encoded.payload) < least
    assert all(each[2] >= least for each in encoded.segments())
    for segment in encoded.segments():
        store.arenas.free(segment)
    assert store.arenas.in_use == 0
    store.arenas.close()
    store.mappings.close()


DTYPES = ["f8", ">f8", "i1", "?", "M8[ns]", "m8[s]", "c16", "S5", "U7", "V3", "g", "f2", [], "O"]


@pytest.mark.parametrize("dtype", [*DTYPES, [("a", "f4"), ("b", "M8[D]")], np.dtypes.StringDType()])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 3), (4, 5), (300, 400), (20, 30, 40)])
def test_arrays_of_every_layout(store, dtype, shape):
    plain = np.zeros(shape, dtype)
    layouts = [plain, np.asfortranarray(plain) if shape else plain, plain.T, plain[..., None]]
    layouts += [
        np.broadcast_to(plain, (2, *shape)),
        np.moveaxis(np.zeros((3, *shape), dtype), 0, -1),
    ]
    if shape:
        layouts += [plain[::2], plain[::-1]]
    for each in layouts:
        encoded = store.encode(each)
        found = store.decode(encoded)
        assert type(found) is np.ndarray
        assert found.dtype == each.dtype and found.shape == each.shape
        if each.dtype.hasobject:
            assert (found == each).all()
            continue
        assert found.tobytes() == each.tobytes()
        if each.nbytes >= LEAST:
            assert len(encoded.buffers) == 1 and encoded.size - each.nbytes < 300
            if each.flags.f_contiguous:
                assert found.flags.f_contiguous
        else:
            assert encoded.buffers == ()


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("is_dated", [False, True])
def test_a_read_only_mark_can_be_lifted_without_a_copy(size, is_dated):
    """Tasks see arrays read-only; the caller's own result has to be writable."""
    marked = np.zeros(size, "M8[s]" if is_dated else "f8")
    plain = marked.copy()
    marked.flags.writeable = False
    for private in (False, True):
        store = Store(private)
        for found in store.there_and_back([marked, marked[::2]]):
            assert not found.flags.writeable
            mine = found.view()
            if private or size == 10:
                mine.flags.writeable = True
            else:
                with pytest.raises(ValueError, match="WRITEABLE"):
                    mine.flags.writeable = True
        assert store.there_and_back(plain).flags.writeable == (private or size == 10)
    assert not marked.flags.writeable


def test_a_decoded_array_is_the_shared_memory():
    store = Store(private=False)
    encoded = store.encode({"x": np.arange(100_000.0)})
    found = store.decode(encoded)["x"]
    assert np.shares_memory(found, store.mappings.view(encoded.buffers[0]))
    store.mappings.take_released()
    part = found[5:7]
    del found
    assert store.mappings.take_released() == []
    del part
    assert store.mappings.take_released() == [encoded.buffers[0]]


def test_what_was_copied_out_releases_its_memory():
    store = Store()
    value = [b"x" * 300_000, "y" * 300_000, bytearray(70_000)]
    encoded = store.encode(value)
    assert [size for _, _, size in encoded.buffers] == [300_000, 300_000]
    found = store.decode(encoded)
    assert found == value
    assert sorted(store.mappings.take_released()) == sorted(encoded.segments())


def test_one_array_named_twice_stays_one(store):
    array = np.arange(100_000.0)
    encoded = store.encode([array, {"again": array}])
    found = store.decode(encoded)
    assert len(encoded.buffers) == 1 and found[0] is found[1]["again"]


def test_a_list_in_itself(store):
    value = [1, np.arange(100_000)]
    value.append(value)
    found = store.there_and_back(value)
    assert found[2] is found and found[1].sum() == value[1].sum()


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [
        Color.RED,
        Point(1, [2]),
        Pair(1, "2"),
        datetime.datetime(2020, 1, 2),
        decimal.Decimal("1.10"),
        fractions.Fraction(1, 3),
        collections.deque([1, 2], 5),
        collections.OrderedDict(a=1),
        collections.defaultdict(list, {1: [2]}),
        collections.Counter("aab"),
        re.compile("a+", re.I),
        range(3, 9, 2),
        slice(1, 2, 3),
        frozenset([1]),
        {3, 4},
        type(None),
        Ellipsis,
        NotImplemented,
        int,
        Point,
        os.path,
        array.array("d", [1.5] * 100_000),
        np.dtype("f8"),
        np.float64(-0.0),
        np.float32(0.1),
        np.float16(0.1),
        np.longdouble(1) / 3,
        np.int8(-3),
        np.uint64(2**64 - 1),
        np.bool_(True),
        np.complex64(1j),
        np.datetime64("2020-01-01"),
        np.str_("a"),
        np.void(b"abc"),
        types.SimpleNamespace(a=1),
        types.MappingProxyType({"a": 1}),
        ValueError("x", 3),
        functools.partial(int, base=2),
        10**5000,
        float("inf"),
        "\ud800",
    ],
    ids=lambda value: type(value).__name__,
)
def test_types(store, value):
    found = store.there_and_back(value)
    assert type(found) is type(value)
    if isinstance(value, BaseException):
        assert found.args == value.args
    elif isinstance(value, functools.partial):
        assert found("101") == 5
    else:
        assert found == value


def test_nan_comes_back_bit_by_bit(store):
    for kind, bits in (("f8", 0x7FF8_0000_0000_1234), ("f4", 0x7FC0_1234)):
        number = np.array([bits], kind.replace("f", "u")).view(kind)[0]
        assert store.there_and_back(number).tobytes() == number.tobytes()


def test_pandas(store):
    frame = pd.DataFrame(
        {
            "a": np.random.default_rng(0).random(100_000),
            "b": np.arange(100_000),
            "c": pd.date_range("2020", periods=100_000, freq="s"),
            "d": ["x", "y"] * 50_000,
        }
    )
    encoded = store.encode(frame)
    found = store.decode(encoded)
    pd.testing.assert_frame_equal(found, frame)
    assert sum(size for _, _, size in encoded.buffers) >= 2_400_000
    found.iloc[0, 0] = 5
    encoded = store.encode(frame["a"])
    pd.testing.assert_series_equal(store.decode(encoded), frame["a"])
    assert len(encoded.buffers) == 1


def test_sparse(store):
    matrix = scipy.sparse.random(3000, 3000, 0.02, format="csr", random_state=0)
    encoded = store.encode(matrix)
    found = store.decode(encoded)
    assert (found != matrix).nnz == 0 and len(encoded.buffers) == 2  # the row pointers are small


class Array(np.ndarray):
    pass


def test_subclasses_of_arrays(store):
    masked = np.ma.array(np.arange(100_000.0), mask=np.arange(100_000) % 2 == 0)
    assert (store.there_and_back(masked) == masked).all()
    for each in (np.eye(300).view(Array), np.rec.array([(1, 2.0)] * 9, dtype="i4,f8")):
        found = store.there_and_back(each)
        assert type(found) is type(each) and (found == each).all()


def test_dtype_with_metadata(store):
    dtype = np.dtype("f8", metadata={"unit": "m"})
    assert store.there_and_back(np.zeros(3, dtype)).dtype.metadata == {"unit": "m"}


def test_items_of_an_iterator_stay_together(store):
    found = store.there_and_back(IteratorItems(iter([1, np.arange(100_000)])))
    assert type(found) is IteratorItems and found.items[0] == 1


def test_small_buffers_of_any_kind_are_part_of_the_stream(store):
    encoded = store.encode([pickle.PickleBuffer(b"abc"), pickle.PickleBuffer(bytes(LEAST))])
    assert len(encoded.payload) < 100 and len(encoded.buffers) == 1
    assert [bytes(each) for each in store.decode(encoded)] == [b"abc", bytes(LEAST)]


def test_copyreg_is_asked(store, monkeypatch):

    monkeypatch.setitem(copyreg.dispatch_table, Point, lambda p: (Point, (p.x + 1, p.y)))
    assert store.there_and_back(Point(1, 2)) == Point(2, 2)


class Rebuilt:
    def __setstate__(self, state):
        raise LookupError("in __setstate__")


def test_errors_of_setstate_are_the_users(store):
    value = Rebuilt()
    value.x = 1
    encoded = store.encode(value)
    with pytest.raises(LookupError, match="in __setstate__"):
        store.decode(encoded)


def test_buffers_may_travel_as_bytes():
    """Where there is no shared memory, `write` can be `bytes`."""
    value = {"a": np.arange(100_000), "b": b"x" * 300_000}
    encoded = encode(value, bytes)
    assert all(type(part) is bytes for part in (encoded.payload, *encoded.buffers))
    found = decode(encoded, None)
    assert (found["a"] == value["a"]).all() and found["b"] == value["b"]


def test_what_was_written_before_the_store_was_full_is_freed():
    arenas = Arenas(0, 1, limit=1 << 20, available=lambda: None)
    value = [np.zeros(50_000), np.zeros(50_000), np.zeros(50_000)]
    with pytest.raises(StoreFull):
        encode(value, arenas.write, free=arenas.free)
    assert arenas.in_use == 0
    arenas.close()


# -- context variables ----------------------------------------------------------------------


def test_a_variable_of_a_module_is_that_variable(store):
    assert store.there_and_back([VARIABLE])[0] is VARIABLE
    assert b"VARIABLE" in store.encode(VARIABLE).payload


def test_a_variable_of_no_module_stays_one(store):
    with_default = contextvars.ContextVar("same name", default=3)
    without = contextvars.ContextVar("same name")
    found = store.there_and_back([with_default, without, with_default])
    assert found[0] is with_default and found[1] is without


def test_a_variable_of_main_is_not_known_by_its_place(store, monkeypatch):
    """Every process has a `__main__` of its own, also one that was started by ``-m``."""
    variable = contextvars.ContextVar("of main")
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "of_main", variable, raising=False)
    monkeypatch.setattr(main, "__spec__", importlib.util.find_spec("os"))
    encoded = store.encode(variable)
    assert b"__main__" not in encoded.payload and store.decode(encoded) is variable


def test_a_variable_whose_place_is_taken_by_another(store, monkeypatch):
    first = contextvars.ContextVar("first")
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "CHANGING", first, raising=False)
    assert store.there_and_back(first) is first
    monkeypatch.setattr(module, "CHANGING", contextvars.ContextVar("second"))
    assert store.there_and_back(first) is first


# -- lightness ------------------------------------------------------------------------------


def test_a_new_worker_loads_little():
    code = """
import sys
from lazyflow.store.pickling.functions import load_function, pack_function
from lazyflow.store.pickling.serialize import decode, encode
from lazyflow.store.memory.shared import Arenas, Mappings
from lazyflow.store.pickling.functions import FunctionCache, load_function, pack_function
heavy = ["numpy", "pandas", "numba", "asyncio", "logging", "subprocess", "typing_extensions"]
print([name for name in heavy if name in sys.modules])
for value in ([1, (2.5, "x")], {"a": {1, 2}}, b"x", 1j, range(3), slice(3), len):
    decode(encode(value, None), None)
load_function(pack_function(len)[1])
import fractions, numpy
from lazyflow.store.values import IteratorItems
for value in (IteratorItems([1]), numpy.float64(1), numpy.arange(5)):
    decode(encode(value, None), None)
print("cloudpickle" in sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.splitlines() == ["[]", "False"] and out.stderr == ""
