"""Every public name has an example, which `--doctest-modules` runs."""

import inspect
from collections.abc import Callable
from typing import Literal

import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import learn, weights
from lazyflow.api.actors import Actor, ActorClass
from lazyflow.api.rerunning import Trace
from lazyflow.api.worker_states import WorkerState
from lazyflow.schedulers.core.base import Observer

#: Names of types, which have no docstring of their own.
ALIASES = type(Literal[0]), type(Callable[[], None])


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
    found = set()
    for name, obj in objects.items():
        if not callable(obj) or isinstance(obj, ALIASES):
            continue
        if not has_example(obj):
            found.add(name)
        if inspect.isclass(obj) and str(obj.__module__).startswith("lazyflow"):
            found |= {each for each, method in methods_of(obj) if not has_example(method)}
    return found


def public(module):
    return {name: getattr(module, name) for name in module.__all__}


def test_every_name_of_lazyflow_has_an_example():
    assert without_example(public(lazyflow)) == set()


def test_what_they_return_has_examples():
    classes = [Actor, ActorClass, Trace, WorkerState]
    assert without_example({cls.__name__: cls for cls in classes}) == set()


def test_weights_have_examples():
    assert without_example(public(weights)) == set()


def test_estimators_and_solvers_have_examples():
    pytest.importorskip("sklearn")
    assert without_example(public(learn)) == set()


def test_every_name_of_arrays_has_an_example():
    """A ufunc has that of its class: they are all called alike."""
    own = {
        name: obj for name, obj in public(la).items()
        if str(getattr(obj, "__module__", None)).startswith("lazyflow")
    }
    assert {name for name, obj in own.items() if not has_example(documented(obj))} == set()


def documented(obj):
    return obj if inspect.isclass(obj) or inspect.isroutine(obj) else type(obj)
