"""Long chains of operations: no walk of expressions or of tasks recurses, and none is quadratic."""

import pickle

import numpy as np
import pytest

import lazyflow.array as la

LONG = 100_000


def one_more(block):
    return block + 1


def added(n):
    """Operations that become one task for each block."""
    y = la.ones(6, chunks=2)
    for _ in range(n):
        y = y + 1
    return y, np.full(6, n + 1.0)


def turned(n):
    """Views that become one, or none."""
    y = la.arange(6, chunks=2)
    for _ in range(n):
        y = y[::-1]
    return y, np.arange(6)[::(-1) ** n]


def sliced(n):
    """Views with operations between them: all go to the source."""
    y = la.ones(n + 6, chunks=n)
    for _ in range(n):
        y = (y + 1)[1:]
    return y, np.full(6, n + 1.0)


def rechunked(n):
    """Rechunks with operations between them: all are dropped."""
    y = la.ones(6, chunks=2)
    for i in range(n):
        y = (y + 1).rechunk(3 if i % 2 else 2)
    return y, np.full(6, n + 1.0)


def reshaped(n):
    """Reshapes with operations between them: all that is left is formulas."""
    y = la.ones(6, chunks=6) + 0
    for i in range(n):
        y = (y + 1).reshape((6,) if i % 2 else (2, 3))
    return y.reshape(6), np.full(6, n + 1.0)


def joined(n):
    """A window that slides on: each is joined from a part of the one before."""
    y = la.zeros(4, chunks=2)
    for i in range(n):
        y = la.append(y[1:], float(i))
    return y, np.arange(n - 4.0, n)


def mapped(n):
    """Operations that stay tasks of their own."""
    y = la.ones(6, chunks=6)
    for _ in range(n):
        y = y.map_blocks(one_more, dtype=float)
    return y, np.full(6, n + 1.0)


CHAINS = [added, turned, sliced, rechunked, reshaped, joined, mapped]


@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_is_computed_and_pickled(chain):
    y, expected = chain(2_000)
    for scheduler in "sync", "threads":
        np.testing.assert_array_equal(y.compute(scheduler=scheduler), expected)
    loaded = pickle.loads(pickle.dumps(y))
    np.testing.assert_array_equal(loaded.compute(), expected)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_of_a_hundred_thousand_operations_is_computed(chain):
    y, expected = chain(LONG)
    for scheduler in "sync", "threads":
        np.testing.assert_array_equal(y.compute(scheduler=scheduler), expected)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_chain_of_a_hundred_thousand_operations_has_keys_and_is_pickled():
    y, expected = mapped(LONG)
    (task,) = y.__lazyflow_tasks__()
    assert task.key
    loaded = pickle.loads(pickle.dumps(y))
    np.testing.assert_array_equal(loaded.compute(scheduler="sync"), expected)
