"""Values and functions in other processes: by name or by value, with their code compared."""

import functools
import importlib
import os
import pickle
import re
import runpy
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from store_tools import LEAST, LOCK, Point, raises, same

from lazyflow.store.pickling.functions import FunctionCache, load_function, pack_function
from lazyflow.store.pickling.unpicklable import Unpicklable, serialization_error

# -- other processes ------------------------------------------------------------------------

CHILD = """
import pickle, sys
from lazyflow.store.pickling.functions import load_function
from lazyflow.store.pickling.serialize import Encoded, decode, encode
for line in sys.stdin:
    function, given = pickle.loads(bytes.fromhex(line))
    try:
        value = load_function(function)[0](decode(Encoded(*given), None))
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
        assert load_function(payload)[0] is checked
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
    assert load_function(payload)[0] is function
    function.__code__ = fresh_module.g.__code__
    with pytest.raises(RuntimeError, match="another version of fresh_module.f than the caller"):
        load_function(payload)
    _, payload = pack_function(function)
    assert load_function(payload)[0] is function


def test_code_that_only_the_receiver_rewrites_is_not_compared(fresh_module, monkeypatch):
    _, payload = pack_function(fresh_module.f)
    monkeypatch.setattr(fresh_module.__spec__, "loader", object())
    fresh_module.f.__code__ = fresh_module.g.__code__
    assert load_function(payload)[0] is fresh_module.f


# -- functions ------------------------------------------------------------------------------


def test_digests_tell_functions_apart_and_last(store):
    def make(n):
        return lambda x: x + n

    one, two = make(1), make(2)
    first, payload = pack_function(one)
    assert load_function(payload)[0](1) == 2
    assert pack_function(one)[0] == first == pack_function(one)[0]
    assert pack_function(two)[0] != first
    assert len(first) == 32
    by_name = (textwrap.dedent, textwrap.indent, textwrap.fill)  # with digests of their own
    partial = functools.partial(len, by_name)
    assert len({pack_function(partial)[0] for _ in range(3)}) == 1


def test_modules_that_cloudpickle_was_told_to_pickle_by_value():
    import cloudpickle

    module = sys.modules[raises.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        found = load_function(pack_function(raises)[1])[0]
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert found is not raises and found.__name__ == "raises"
    assert load_function(pack_function(raises)[1])[0] is raises


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
    found = load_function(pack_function(function)[1])[0]
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
    assert load_function(data)[0]() == 5


def test_large_constants_of_a_closure():
    large = np.arange(100_000)
    found = load_function(pack_function(lambda: large)[1])[0]()
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
        r"pickled \(.+\): pass the object that it views", str(caught.value.error)
    )


@pytest.mark.parametrize("mode", ["r", "rb", "w", "wb", "w+b", "raw"])
def test_open_files_are_refused_by_name(store, tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"ab")
    with open(path, "rb" if mode == "raw" else mode, buffering=0 if mode == "raw" else -1) as file:
        with pytest.raises(Unpicklable) as caught:
            store.encode({"a": file})
        assert str(caught.value.error) == (
            f"an open file belongs to its process ({file!r}): pass its path and open it in the "
            "task, or pass its content"
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
