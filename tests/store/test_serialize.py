"""Values and functions on their way to other processes, and what can't go."""

import array
import collections
import contextvars
import copyreg
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import gc
import importlib
import itertools
import os
import pickle
import re
import runpy
import subprocess
import sys
import textwrap
import threading
import types
import weakref

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from lazyflow.errors import SerializationError, StoreFull
from lazyflow.store.memory.shared import Arenas, Mappings
from lazyflow.store.pickling.functions import FunctionCache, load_function, pack_function
from lazyflow.store.pickling.serialize import (
    Encoded,
    Unpicklable,
    decode,
    encode,
    serialization_error,
)
from lazyflow.store.values import IteratorItems

LEAST = 65_536
LOCK = threading.Lock()
VARIABLE = contextvars.ContextVar("VARIABLE", default=1)


class Store:
    """Both ends of shared memory."""

    def __init__(self, private=True):
        self.arenas = Arenas(0, 1, available=lambda: None)
        self.mappings = Mappings(private)

    def encode(self, value, least=LEAST):
        return encode(value, self.arenas.write, least)

    def decode(self, encoded):
        for arena, fd in self.arenas.take_new():
            self.mappings.add(arena, fd)
        return decode(Encoded(encoded.payload, encoded.buffers, encoded.size), self.mappings.view)

    def there_and_back(self, value, least=LEAST):
        return self.decode(self.encode(value, least))


@pytest.fixture(scope="module")
def store():
    return Store()


def same(a, b):
    """Whether two values are equal, types, signs of zero, NaN and layouts of memory included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    return repr(a) == repr(b)


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


@dataclasses.dataclass
class Point:
    x: int
    y: object


Pair = collections.namedtuple("Pair", "a b")


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
    import copyreg

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


# -- other processes ------------------------------------------------------------------------

CHILD = """
import pickle, sys
from lazyflow.store.pickling.functions import load_function
from lazyflow.store.pickling.serialize import Encoded, decode, encode
for line in sys.stdin:
    function, given = pickle.loads(bytes.fromhex(line))
    try:
        value = load_function(function)(decode(Encoded(*given), None))
        found = encode(value, bytes)
        answer = (found.payload, found.buffers, found.size)
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print(pickle.dumps(answer).hex(), flush=True)
"""

PARENT = """
import contextvars, pickle, subprocess, sys
from lazyflow.store.pickling.functions import pack_function
from lazyflow.store.pickling.serialize import Encoded, decode, encode
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def run(function, value):
    given = encode(value, bytes)
    message = pack_function(function)[1], (given.payload, given.buffers, given.size)
    child.stdin.write(pickle.dumps(message).hex() + "\\n")
    child.stdin.flush()
    answer = pickle.loads(bytes.fromhex(child.stdout.readline()))
    return answer if isinstance(answer, str) else decode(Encoded(*answer), None)
class P:
    def __init__(self, x): self.x = x
    def twice(self): return P(self.x * 2)
V = contextvars.ContextVar("V", default=7)
OTHER = contextvars.ContextVar("V")
def sets(pair):
    variable, p = pair
    assert variable is V and V.get() == 7 and OTHER.get(None) is None
    V.set(8)
    return variable, V.get(), p.twice()
def sees(_):
    return V.get(), V, OTHER
"""


def script(tmp_path, text):
    """Run a script as ``__main__``, with a child to which it sends work; return what it prints."""
    path = tmp_path / "script.py"
    path.write_text(PARENT + textwrap.dedent(text) + "\nchild.communicate()\n")
    done = subprocess.run(
        [sys.executable, str(path), CHILD],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), str(tmp_path)])},
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_main_in_another_process(tmp_path):
    """Classes come back as the same class, variables as the same variable."""
    lines = script(
        tmp_path,
        """
        variable, value, p = run(sets, (V, P(21)))
        print(variable is V, value, type(p) is P, p.x, V.get())
        value, first, second = run(sees, None)
        print(value, first is V, second is OTHER)
        """,
    )
    assert lines == ["True 8 True 42 7", "8 True True"]


CACHED = """
import functools, multiprocessing, pickle
from lazyflow import compute, delayed
@functools.lru_cache(maxsize=7, typed=True)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib.note = "mine"
class Circle:
    @functools.cached_property
    def area(self): return 3
    @functools.cache
    def size(self): return 4
def uses(c): return fib(9), fib.cache_parameters(), fib.note, c.area, c.size(), c.area
def one(x): return x + 1
def by_name(x):
    with multiprocessing.Pool(1) as pool:
        return pool.map(one, [x])
made = [delayed(fib)(30), delayed(uses)(Circle()), delayed(by_name)(1)]
got = compute(made, scheduler="processes", on_error="collect")[0]
"""


def test_cached_functions_of_main(tmp_path):
    (tmp_path / "script.py").write_text(CACHED)
    first, second, error = runpy.run_path(str(tmp_path / "script.py"), run_name="__main__")["got"]
    assert first == 832040
    assert second == (34, {"maxsize": 7, "typed": True}, "mine", 3, 4, 3)
    assert type(error) is pickle.PicklingError and "one on __main__ failed" in str(error)
    assert error.__notes__[0].startswith("in a worker, functions and classes of the program itself")


def test_an_edited_and_reloaded_module_is_noticed(tmp_path):
    source = textwrap.dedent("""
        import functools
        def f(x): return x in {"a", "b", "c"}, 1
        def wrap(function):
            @functools.wraps(function)
            def inner(x): return function(x)
            return inner
        @wrap
        def g(x): return 1
        def outer(x): return (lambda: x and 1)()
        def same(x): return 1
    """)
    (tmp_path / "edited.py").write_text(source)
    lines = script(
        tmp_path,
        """
        import importlib, pathlib, edited
        def all_of_them():
            print(run(edited.f, "a"), run(edited.g, 0), run(edited.same, 0), run(edited.outer, 1))
            inner = edited.f
            print(run(lambda x: inner(x), "a"))
        all_of_them()
        path = pathlib.Path(edited.__file__)
        text = path.read_text()
        sys.dont_write_bytecode = True
        path.write_text("# moved" + text)  # lines and file times change, no code
        importlib.reload(edited)
        all_of_them()
        path.write_text(text.replace("1\\n", "2000\\n", 2).replace("x and 1", "x and 2"))
        importlib.invalidate_caches(); importlib.reload(edited)
        all_of_them()
        """,
    )
    wrong = (
        "RuntimeError: this worker has another version of edited.{} than the caller: the module "
        "was edited and reloaded since the worker imported it. lazyflow.shutdown() ends the "
        "workers; the next compute starts new ones."
    )
    assert lines[:4] == ["(True, 1) 1 1 1", "(True, 1)"] * 2
    assert lines[4] == f"{wrong.format('f')} {wrong.format('g')} 1 {wrong.format('outer')}"
    assert lines[5] == wrong.format("f")


def checked(x):
    assert x
    return x


def test_code_that_was_rewritten_at_import_is_not_compared():
    """pytest rewrites this module; a worker that imports it gets the plain one."""
    plain = importlib.util.spec_from_file_location(__name__, __file__).loader.get_code(__name__)
    code = next(each for each in plain.co_consts if getattr(each, "co_name", "") == "checked")
    assert code.co_code != checked.__code__.co_code
    _, payload = pack_function(checked)
    original = checked.__code__
    try:
        checked.__code__ = code
        assert load_function(payload) is checked
    finally:
        checked.__code__ = original


@pytest.fixture
def fresh_module(tmp_path, monkeypatch):
    """A module that was imported from its source as it stands."""
    (tmp_path / "fresh_module.py").write_text("def f(): return 1\ndef g(): return 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("fresh_module")
    del sys.modules["fresh_module"]


def test_code_that_was_replaced_in_place_is_noticed(fresh_module):
    function = fresh_module.f
    _, payload = pack_function(function)
    assert load_function(payload) is function
    function.__code__ = fresh_module.g.__code__
    with pytest.raises(RuntimeError, match="another version of fresh_module.f than the caller"):
        load_function(payload)
    _, payload = pack_function(function)
    assert load_function(payload) is function


def test_code_that_only_the_receiver_rewrites_is_not_compared(fresh_module, monkeypatch):
    _, payload = pack_function(fresh_module.f)
    monkeypatch.setattr(fresh_module.__spec__, "loader", object())
    fresh_module.f.__code__ = fresh_module.g.__code__
    assert load_function(payload) is fresh_module.f


# -- functions ------------------------------------------------------------------------------


def test_digests_tell_functions_apart_and_last(store):
    def make(n):
        return lambda x: x + n

    one, two = make(1), make(2)
    first, payload = pack_function(one)
    assert load_function(payload)(1) == 2
    assert pack_function(one)[0] == first == pack_function(one)[0]
    assert pack_function(two)[0] != first
    assert len(first) == 32
    by_name = (textwrap.dedent, textwrap.indent, textwrap.fill)  # with digests of their own
    partial = functools.partial(len, by_name)
    assert len({pack_function(partial)[0] for _ in range(3)}) == 1


def test_modules_that_cloudpickle_was_told_to_pickle_by_value():
    import cloudpickle

    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        found = load_function(pack_function(raises)[1])
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert found is not raises and found.__name__ == "raises"
    assert load_function(pack_function(raises)[1]) is raises


def test_functions_are_pickled_once_per_sender():
    functions = FunctionCache(pack_function)
    digest, payload = functions.of(same)
    again = functions.of(same)
    assert again[1] is payload and again[0] is digest


@pytest.mark.parametrize(
    "function",
    [len, np.sum, np.add, str.upper, Point, functools.partial(same, 1), os.path.join],
    ids=lambda f: type(f).__name__,
)
def test_callables(function):
    found = load_function(pack_function(function)[1])
    if isinstance(function, functools.partial):
        assert found.func is same
    else:
        assert found == function


def test_a_function_of_vectorize_is_the_same_when_it_was_called(store):
    function = np.vectorize(max, otypes=["f8"])
    before = pack_function(function)
    assert function([1, 2], 1.5).tolist() == [1.5, 2]
    assert pack_function(function) == before
    found = store.there_and_back(function)
    assert type(found) is np.vectorize
    assert found([1, 2], 1).dtype == float and found([1, 2], 5, 6).tolist() == [6, 6]


def test_a_payload_in_shared_memory():
    data = np.frombuffer(pack_function(lambda: 5)[1], np.uint8)
    assert load_function(data)() == 5


def test_large_constants_of_a_closure():
    large = np.arange(100_000)
    found = load_function(pack_function(lambda: large)[1])()
    assert (found == large).all() and found is not large


@pytest.mark.parametrize(
    "view",
    [
        memoryview(b"ab"), memoryview(bytearray(b"ab")), memoryview(b""),
        memoryview(bytes(LEAST + 3)), memoryview(np.arange(6.0).reshape(2, 3)),
        memoryview(np.arange(6, dtype="i2"))[::-2], memoryview(np.array(7)),
    ],
)
def test_memoryviews_arrive_as_memoryviews(store, view):
    found = store.there_and_back(view)
    assert type(found) is memoryview
    assert (found.format, found.shape, found.readonly) == (view.format, view.shape, view.readonly)
    assert found.tolist() == view.tolist()


@pytest.mark.parametrize(
    "view", [memoryview(np.zeros(2, ">i4")), memoryview(np.zeros((2, 0)))], ids=["order", "empty"]
)
def test_memoryviews_that_can_not_be_made_again_are_refused(store, view):
    with pytest.raises(Unpicklable) as caught:
        store.encode([view])
    assert caught.value.path == "[0]"
    assert re.fullmatch(
        rf"a memoryview of format {view.format!r} and shape {re.escape(repr(view.shape))} can't be "
        r"pickled \(.+\): pass what it looks at", str(caught.value.error)
    )


@pytest.mark.parametrize("mode", ["r", "rb", "w", "wb", "w+b", "raw"])
def test_open_files_are_refused_by_name(store, tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"ab")
    with open(path, "rb" if mode == "raw" else mode, buffering=0 if mode == "raw" else -1) as file:
        with pytest.raises(Unpicklable) as caught:
            store.encode({"a": file})
        assert str(caught.value.error) == (
            f"an open file belongs to its process ({file!r}): pass its path, and open it in the "
            "task, or pass and return what was read"
        )
    assert caught.value.path == "['a']"


def test_the_files_of_the_process_go_by_name(store, monkeypatch):
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    assert store.there_and_back([sys.stderr])[0] is sys.stderr


def test_a_function_that_can_not_be_pickled():
    lock = LOCK
    with pytest.raises(Unpicklable) as caught:
        pack_function(lambda: lock)
    assert caught.value.path.startswith("closure variable 'lock' of test_a_function_that_can_not")
    text = str(serialization_error("f, made at x.py:3", "the function", caught.value))
    assert text.startswith("the function, closure variable 'lock' of test_a_function")
    assert ", of task f, made at x.py:3 can't be pickled" in text


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


def raises(error):
    raise error


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
            try:
                store.encode(value)
            except Unpicklable:
                pass
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
