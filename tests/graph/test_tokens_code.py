"""`tokenize` on functions and classes: by name where importable, by all they read elsewhere."""

import gc
import sys
import textwrap
import types
import weakref

import numba
import pytest
from token_examples import local_class, power_of, scale

from lazyflow.graph.tokens.tokenize import tokenize


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
        ("class f:\n def g(self, n=1): pass", "class f:\n def g(self, n=2): pass"),
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


def test_an_edit_of_the_arguments_of_a_decorator_is_seen(importable):
    source = """
    import functools
    def repeated(times):
        def decorate(function):
            @functools.wraps(function)
            def call(*args):
                return [function(*args) for _ in range(times)]
            return call
        return decorate
    @repeated(3)
    def f(x):
        return x
    """
    token = tokenize(importable(source).f)
    assert tokenize(importable(source).f) == token
    assert tokenize(importable(source.replace("3", "4")).f) != token


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


def test_a_cell_counts_by_its_value():
    cells = [types.CellType(), types.CellType(1), types.CellType(1), types.CellType([1])]
    empty, one, same, other = map(tokenize, cells)
    assert one == same
    assert len({empty, one, other}) == 3


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
