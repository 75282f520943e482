"""Tests of arrays check all expressions after each pass, and that no node is changed."""

import pytest

from lazyflow.array.nodes.expr import Expr, are_same
from lazyflow.array.passes import rewrites
from lazyflow.array.passes.spec import check, check_pass


def pytest_itemcollected(item):
    """Ignore advice on arrays that are sent again and again: those of a module are, by tests."""
    item.add_marker(pytest.mark.filterwarnings("ignore:.* was copied for the workers"))


def _checked(each, is_first):
    """Check what a pass gives, where that is new: nodes never change."""

    def apply(nodes, keep, fusion):
        if is_first:
            check(nodes)
        made = each.apply(nodes, keep, fusion)
        if not are_same(made, nodes):
            check_pass(nodes, made, keep or (each.name != "wide blocks" and each.name != "fuse"))
        return made

    return each._replace(apply=apply)


@pytest.fixture(scope="session", autouse=True)
def checked_array_passes():
    """Check what the first pass is given and what each gives, in all tests of arrays.

    Beside `checked_passes`, which checks the plans that these tests make.
    """
    plain = list(rewrites.PASSES)
    rewrites.PASSES[:] = [_checked(each, i == 0) for i, each in enumerate(plain)]
    yield
    rewrites.PASSES[:] = plain


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
