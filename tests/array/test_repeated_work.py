"""What several views read is made once, however deep: the cost of a loop is linear in its steps."""

import numpy as np
import pytest
from array_checks import check
from hypothesis import given
from hypothesis import strategies as st

import lazyflow.array as la
from lazyflow.array.nodes.elementwise import Elementwise, Fused
from lazyflow.array.nodes.expr import below
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.passes.rewrites import merge_equal, optimize

# -- loops ----------------------------------------------------------------------------------------


def spread(lib, x):
    return np.maximum(lib.roll(x, 1), lib.roll(x, -1))


def heat(lib, x):
    inner = x[1:-1] + (x[2:] - 2 * x[1:-1] + x[:-2]) / 8
    return lib.concatenate([x[:1], inner, x[-1:]])


def assigned(lib, x):
    y = x.copy()
    y[1:-1] = (x[2:] + x[:-2]) / 2
    return y


def neighbours_of(lib, x):
    """Eight neighbours, of a padded array."""
    (n, m), p = x.shape, lib.pad(x, 1, mode="wrap")
    places = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    return sum(p[i:i + n, j:j + m] for i, j in places)


def life(lib, x):
    n = neighbours_of(lib, x)
    return ((n == 3) | ((x == 1) & (n == 2))).astype(x.dtype)


def life_by_rolls(lib, x):
    turns = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    n = sum(lib.roll(x, turn, (0, 1)) for turn in turns)
    return ((n == 3) | ((x == 1) & (n == 2))).astype(x.dtype)


LOOPS = {
    "spread": spread,
    "heat": heat,
    "assigned": assigned,
    "life": life,
    "life by rolls": life_by_rolls,
    "shrinks": lambda lib, x: x[1:] * x[:-1] - x[1:],
    "edges": lambda lib, x: lib.pad(x, 1, mode="edge")[2:] - lib.pad(x, 1, mode="edge")[:-2],
    "slope": lambda lib, x: lib.gradient(x),
    "difference": lambda lib, x: lib.diff(x, prepend=0.0) / 2,
    "turned": lambda lib, x: (x + x[::-1]) / 2,
    "transposed": lambda lib, x: x - x.T,
    "rows": lambda lib, x: x - x[:1] + x[:, :1],
    "halves": lambda lib, x: lib.concatenate([x[60:] + x[:60], x[:60] - x[60:]]) / 2,
    "taken": lambda lib, x: x[np.arange(len(x))[::-1]] - x[np.r_[1:len(x), 0]],
    "sums": lambda lib, x: lib.cumsum(x)[::-1] / 100 - x,
}
PLANES = {"life", "life by rolls", "transposed", "rows"}


def start(name):
    rng = np.random.default_rng(0)
    return rng.integers(0, 2, (12, 12)).astype(float) if name in PLANES else rng.random(120)


def cost(x):
    """Count the nodes, the blocks and the operations on elements that a compute takes."""
    roots = optimize([x.expr])
    low = Lowering()
    low.lower(roots)
    return len(below(roots)), sum(low.counts().values()), operations(roots)


def operations(roots):
    """Count the operations on elements."""
    nodes = below(roots)
    return sum(
        node.size * (len(node.program.steps) if isinstance(node, Fused) else 1)
        for node in nodes if isinstance(node, Elementwise | Fused)
    )


@pytest.mark.parametrize("name", ["sign", "add", "multiply", "where", "divide"])
def test_a_slow_function_with_the_name_of_a_quick_one_is_called_once_for_an_element(name):
    numba = pytest.importorskip("numba")
    slow = (lambda x: x + 1.5) if name == "sign" else (lambda x, y: x + y)
    slow.__name__ = name
    x = la.from_array(start("sums"), chunks=60)
    y = numba.vectorize(slow)(*[x] * (1 if name == "sign" else 2))
    assert y.expr.name == name
    assert operations(optimize([(y[1:] - y[:-1]).expr])) == 120 + 119
    assert operations(optimize([(np.sign(x)[1:] - np.sign(x)[:-1]).expr])) == 3 * 119


@pytest.mark.parametrize("name", LOOPS)
def test_the_cost_of_a_loop_is_linear_in_its_steps(name):
    a = start(name)
    x = la.from_array(a, chunks=4 if name in PLANES else 30)
    costs = []
    for at in range(17):
        if at in (8, 12, 16):
            costs.append(cost(x))
        x = LOOPS[name](la, x)
    for first, middle, last in zip(*costs, strict=True):
        assert last - middle <= 1.2 * max(middle - first, first / 2)


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_computes_what_numpy_does(name):
    a = start(name)
    x = la.from_array(a, chunks=4 if name in PLANES else 30)
    for _ in range(7):
        a, x = LOOPS[name](np, a), LOOPS[name](la, x)
    check(x, a, rtol=1e-9, atol=1e-9)


# -- any programs ---------------------------------------------------------------------------------

STEPS = {
    "add": lambda lib, x, y: x + y,
    "product": lambda lib, x, y: x * y / 2,
    "function": lambda lib, x, y: np.sin(x),
    "roll": lambda lib, x, y: lib.roll(x, 1) - lib.roll(x, -3),
    "flip": lambda lib, x, y: np.maximum(x, y[::-1]),
    "joined": lambda lib, x, y: lib.concatenate([x[5:], y[:5]]),
    "inner": lambda lib, x, y: lib.pad(x[2:] - y[:-2], 1, mode="edge"),
    "outer": lambda lib, x, y: lib.pad(x, 2, mode="reflect")[1:-3] - y,
    "padded": lambda lib, x, y: lib.pad(x, 1)[2:] + lib.pad(y, 1)[:-2],
    "halves": lambda lib, x, y: lib.concatenate([x[:12] - y[12:], x[12:]]),
    "steps": lambda lib, x, y: lib.repeat(x[::2] - y[1::2], 2),
    "scan": lambda lib, x, y: lib.cumsum(x) / 24 + y,
    "less": lambda lib, x, y: x - y[3] + y[-1:],
    "cut": lambda lib, x, y: x.reshape(4, 6).T.reshape(24) - y if lib is np else (
        x.reshape(4, 6).T.reshape(24) - y.rechunk(5)
    ),
}


@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(1, 3), st.integers(1, 3)),
             min_size=1, max_size=14),
    st.sampled_from([4, 7, 24]),
)
def test_no_program_takes_many_times_the_operations_that_were_written(program, chunks):
    a = np.random.default_rng(0).random(24)
    right = [a, a[::-1] / 2, a + 1]
    found = [la.from_array(a, chunks=chunks), la.from_array(a[::-1] / 2, chunks=chunks)]
    found.append(found[0] + 1)
    for step, i, j in program:
        right.append(STEPS[step](np, right[-i], right[-j]))
        found.append(STEPS[step](la, found[-i], found[-j]))
    check(found[-1], right[-1], rtol=1e-9, atol=1e-9)
    written = operations(merge_equal([found[-1].expr]))
    assert operations(optimize([found[-1].expr], fusion=False)) <= 3 * written
    # fusion repeats, once more, what costs less than to keep it
    assert operations(optimize([found[-1].expr])) <= 6 * written
