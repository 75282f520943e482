"""Tests of arrays check that no node is changed."""

import pytest

from lazyflow.array.nodes.expr import Expr


def pytest_itemcollected(item):
    """Ignore advice on arrays that are sent again and again: those of a module are, by tests."""
    item.add_marker(pytest.mark.filterwarnings("ignore:.* was copied for the workers"))


def _set_once(self, name, value):
    if getattr(self, name, None) is not None:
        raise AttributeError(f"{self!r} never changes: its {name} was set")
    object.__setattr__(self, name, value)


@pytest.fixture(scope="session", autouse=True)
def frozen_nodes():
    """Refuse to set an attribute of a node again, in all tests of arrays."""
    Expr.__setattr__ = _set_once
    yield
    del Expr.__setattr__
