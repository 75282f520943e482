"""Every public name has an example, which `--doctest-modules` runs."""

import inspect

import pytest

import lazyflow
import lazyflow.array as la
from lazyflow import learn, weights
from lazyflow.diagnostics import ProgressBar


def has_example(obj):
    return ">>>" in (inspect.getdoc(obj) or "")


def methods_of(cls):
    """Yield the public methods and properties that a class has from lazyflow."""
    for name in dir(cls):
        if not name.startswith("_"):
            attribute = inspect.getattr_static(cls, name)
            if isinstance(attribute, staticmethod | classmethod):
                attribute = attribute.__func__
            function = attribute.fget if isinstance(attribute, property) else attribute
            if getattr(function, "__module__", "").startswith("lazyflow"):
                yield f"{cls.__name__}.{name}", attribute


def without_example(objects):
    found = []
    for name, obj in objects:
        if inspect.ismodule(obj):
            continue
        if not has_example(obj):
            found.append(name)
        if inspect.isclass(obj) and obj.__module__.startswith("lazyflow"):
            found += [each for each, method in methods_of(obj) if not has_example(method)]
    return found


def public(module):
    return [(name, getattr(module, name)) for name in module.__all__]


def test_every_name_of_lazyflow_has_an_example():
    assert without_example(public(lazyflow)) == []
