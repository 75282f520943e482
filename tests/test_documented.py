"""Every public name has an example, which `--doctest-modules` runs, and names its errors."""

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Literal

import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import learn, tune, weights
from lazyflow.api.actors import Actor, ActorClass
from lazyflow.api.rerunning import Trace
from lazyflow.api.worker_states import WorkerState
from lazyflow.schedulers.core.base import Observer

#: Names of types, which have no docstring of their own.
ALIASES = type(Literal[0]), type(Callable[[], None])

#: Modules whose public names have a section "Raises".
SAY_WHAT_THEY_RAISE = [
    "lazyflow", "lazyflow.array", "lazyflow.array.fft", "lazyflow.array.linalg",
    "lazyflow.array.overlap", "lazyflow.array.random", "lazyflow.array.stats", "lazyflow.config",
    "lazyflow.diagnostics", "lazyflow.learn", "lazyflow.tune", "lazyflow.weights",
]

#: Errors of helpers that the function's own arguments can't bring about.
NEVER = {
    "diag_indices": {"ZeroDivisionError"}, "indices": {"ZeroDivisionError"},  # have no step
    "diagflat": {"ValueError"},  # gives `diag` one axis
    "nan_to_num": {"TypeError", "ValueError"}, "sinc": {"TypeError", "ValueError"},  # of `where`
    "inv": {"ValueError"}, "tensorsolve": {"ValueError"},  # give `solve` no word
    "from_dlpack": {"TypeError"},  # NumPy checks what it gets
    "nanpercentile": {"IndexError"}, "nanquantile": {"IndexError"},  # NaN of no elements
    "rollaxis": {"ValueError"},  # moves one axis to one place
    "trapezoid": {"ValueError"}, "unwrap": {"ValueError"},  # `diff` of axes that are there
}

#: Public, but not in ``__all__`` of its module.
MORE = {each.__name__: each for each in (Actor, ActorClass, Trace, WorkerState, lazyflow.map)}


def has_example(obj):
    return ">>>" in (inspect.getdoc(obj) or "")


def methods_of(cls):
    """Yield the public methods and properties that lazyflow defines for a class.

    Without those that schedulers call, and those that only refuse.
    """
    for name in dir(cls):
        attribute = inspect.getattr_static(cls, name)
        function = getattr(attribute, "fget", getattr(attribute, "__func__", attribute))
        written_here = str(getattr(function, "__module__", None)).startswith("lazyflow")
        refuses = getattr(function, "__name__", "").startswith("_")
        is_hook = issubclass(cls, Observer) and hasattr(Observer, name)
        if written_here and not (name.startswith("_") or refuses or is_hook):
            yield f"{cls.__name__}.{name}", attribute


def without_example(objects):
    missing = set()
    for name, obj in objects.items():
        if not callable(obj) or isinstance(obj, ALIASES):
            continue
        if not has_example(obj):
            missing.add(name)
        if inspect.isclass(obj) and str(obj.__module__).startswith("lazyflow"):
            missing |= {name for name, method in methods_of(obj) if not has_example(method)}
    return missing


def public(module):
    """Return the names of `__all__`; without it, the functions that a module has of its own."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__}
    internal = {"as_masked", "map_overlap_of", "masked_call"}  # not for users
    return {
        name: obj for name, obj in vars(module).items()
        if inspect.isfunction(obj) and obj.__module__ == module.__name__
        and name[0] != "_" and name not in internal
    }


def test_every_name_of_lazyflow_has_an_example():
    assert without_example(public(lazyflow)) == set()


def test_what_they_return_has_examples():
    assert without_example(MORE) == set()


def test_weights_have_examples():
    assert without_example(public(weights)) == set()


def test_estimators_and_solvers_have_examples():
    pytest.importorskip("sklearn")
    assert without_example(public(learn)) == set()


def test_searches_have_examples():
    pytest.importorskip("sklearn")
    assert {name for name, obj in public(tune).items() if not has_example(obj)} == set()
    assert without_example({"SearchResult": tune.SearchResult}) == set()


def test_every_name_of_arrays_has_an_example():
    """A ufunc has that of its class: they are all called alike."""
    own = {
        name: obj for name, obj in public(la).items()
        if str(getattr(obj, "__module__", None)).startswith("lazyflow")
    }
    assert {name for name, obj in own.items() if not has_example(documented(obj))} == set()


@pytest.mark.parametrize("name", ["fft", "linalg", "ma", "overlap", "random", "stats"])
def test_names_of_the_modules_of_arrays_have_examples(name):
    own = public(getattr(la, name))
    assert without_example({name: f for name, f in own.items() if inspect.isfunction(f)}) == set()


def documented(obj):
    return obj if inspect.isclass(obj) or inspect.isroutine(obj) else type(obj)


# -- the errors that a body raises, and those that its docstring names


def own_nodes(function):
    """Yield the syntax of a body, without functions in it."""
    source = textwrap.dedent(inspect.getsource(function))
    stack = list(ast.parse(source).body[0].body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            stack += ast.iter_child_nodes(node)


def raised_in(function):
    """Return the names of the classes in ``raise X`` and ``raise X(...)``."""
    raised = set()
    for node in own_nodes(function):
        if isinstance(node, ast.Raise) and node.exc is not None:
            name = getattr(getattr(node.exc, "func", node.exc), "id", None)
            cls = function.__globals__.get(name, getattr(builtins, str(name), None))
            if inspect.isclass(cls):
                raised.add(cls.__name__)
    # The first is for subclasses to define; the other is caught, and lengths are computed.
    return raised - {"NotImplementedError", "SizesNeeded"}


def helpers_of(function, cls):
    """Yield the functions of its module, and the methods of its class, that a function calls."""
    for node in own_nodes(function):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name):
            helper = function.__globals__.get(called.id)
        elif cls is not None and getattr(getattr(called, "value", None), "id", "") == "self":
            helper = inspect.getattr_static(cls, called.attr, None)
        else:
            continue
        if inspect.isfunction(helper) and helper.__module__ == function.__module__:
            yield inspect.unwrap(helper)


def errors_of(attribute, cls=None):
    """Return the errors that a function raises, itself or by a helper that it calls."""
    function = getattr(attribute, "fget", getattr(attribute, "__func__", attribute))
    function = inspect.unwrap(function) if callable(function) else None
    if not inspect.isfunction(function) or not function.__module__.startswith("lazyflow"):
        return set()
    if function.__code__.co_filename == "<string>":  # of a dataclass
        return set()
    return raised_in(function).union(*map(raised_in, helpers_of(function, cls)))


def errors_named(obj):
    """Return the errors in the section "Raises" of a docstring."""
    section = re.search(r"^Raises\n-+\n(.*?)(?=\n\w[^\n]*\n---|\Z)", inspect.getdoc(obj) or "",
                        re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^\w.*", section[1], re.MULTILINE) if section else []
    return {name for title in titles for name in title.split(", ")}


def unnamed_errors(objects):
    unnamed = {}
    for name, obj in objects.items():
        pairs = [(name, obj, errors_of(obj))]
        if inspect.isclass(obj) and str(obj.__module__).startswith("lazyflow"):
            made_by = "__post_init__" if hasattr(obj, "__post_init__") else "__init__"
            pairs = [(name, obj, errors_of(getattr(obj, made_by), obj))]
            pairs += [(name, method, errors_of(method, obj)) for name, method in methods_of(obj)]
        for name, documented, errors in pairs:
            if left := errors - errors_named(documented) - NEVER.get(name, set()):
                unnamed[name] = left
    return unnamed


@pytest.mark.parametrize("name", SAY_WHAT_THEY_RAISE)
def test_errors_that_a_body_raises_are_named(name):
    if name in ("lazyflow.learn", "lazyflow.tune"):
        pytest.importorskip("sklearn")
    assert unnamed_errors(public(import_module(name))) == {}


def test_errors_of_what_they_return_are_named():
    assert unnamed_errors(MORE) == {}
