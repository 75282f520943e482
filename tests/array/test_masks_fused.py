"""Elements chosen by masks that are computed with them, in one pass over each block."""

import sys

import numpy as np
import pytest
from array_checks import check, same_values
from array_strategies import arrays
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_tools import F8, run

import lazyflow.array as la
from lazyflow import config
from lazyflow.array.kernels.order import CHOSEN, Reduction
from lazyflow.array.kernels.program import Program, Step

B = np.dtype(bool)
RNG = np.random.default_rng(4)

USES = {
    "alone": lambda xp, x: x[x > 0.4],
    "of a step": lambda xp, x: (x * 2 - 1)[x > 0.4],
    "by two": lambda xp, x: x[(x > 0.2) & (x < 0.9) | (x == 0)],
    "by a function": lambda xp, x: x[np.exp(x) > 1.5],
    "by what is broadcast": lambda xp, x: x[x > x.mean(axis=0)],
    "least": lambda xp, x: x[x > 0.4].min(keepdims=True),
    "none": lambda xp, x: x[x > 2],
    "all": lambda xp, x: x[x > -1],
    "mask again": lambda xp, x: x[x > 0.4][1:5],
    "mask and what it counts": lambda xp, x: x[x > 0.4] / (x > 0.4).sum(),
    "of whole numbers": lambda xp, x: (x * 100).astype("i4")[x > 0.4],
    "of truth": lambda xp, x: (x > 0.6)[x > 0.4],
    "of halves": lambda xp, x: x.astype("f2")[x > 0.4],
    "of complex numbers": lambda xp, x: (x * 1j)[x > 0.4],
    "of texts": lambda xp, x: x.astype("U5")[x > 0.4],
    "rows": lambda xp, x: x[x[:, 0] > 0.4],
    "in turned order": lambda xp, x: x.T[x.T > 0.4],
    "of every other": lambda xp, x: x[::-2, 1:][x[::-2, 1:] > 0.4],
}


@pytest.mark.parametrize("kernels", ["auto", "numpy"])
@pytest.mark.parametrize("use", USES)
def test_masks_are_fused_with_what_they_choose_of(use, kernels):
    """Blocks above and below the size from which there are kernels, of either order in memory."""
    for shape, chunks in (((90, 7), (13, 7)), ((90, 7), (20, 3)), ((1500, 40), (700, 40))):
        x = RNG.random(shape)
        for order in "CF":
            a = la.from_array(np.asarray(x, order=order), chunks=chunks)
            with config.set(kernels=kernels):
                check(USES[use](la, a), USES[use](np, x))


@settings(max_examples=60, deadline=None)
@given(arrays(dtypes=("f8", "i4", "?", "f4")), st.integers(-3, 3))
def test_masks_of_any_arrays(pair, least):
    x, a = pair
    check(a[(a * 1) > least], x[(x * 1) > least])
    check((a + 1)[a == a], (x + 1)[x == x])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_kernels_choose_what_masks_of_numpy_do(data):
    """Of rests of vectors, with own functions and without; values that lie anywhere."""
    n = data.draw(st.sampled_from([2, 15, 16, 17, 100, 531, 4099]))
    dtype = np.dtype(data.draw(st.sampled_from(["f8", "f4", "i8", "i1", "?", "u2"])))
    x = (RNG.standard_normal((3, n)) * 2).astype(dtype)
    x = data.draw(st.sampled_from([x, np.asfortranarray(x), np.concatenate([x, x], -1)[:, ::2]]))
    y = RNG.random((3, n))
    least = np.asarray(data.draw(st.sampled_from([-1.0, 0.1, 0.9, 0.999, 2.0])))
    steps = [Step(np.greater, (1, 2), (F8, F8, B))]
    if data.draw(st.booleans()):
        steps[:0] = [Step(data.draw(st.sampled_from([np.exp, np.tanh, np.sin])), (1,), (F8, F8))]
        steps[1] = Step(np.greater, (3, 2), (F8, F8, B))
    chosen = Reduction(CHOSEN, (0, 1), dtype, 2 + len(steps))
    program = Program((dtype, F8, F8), tuple(steps), ((0, chosen),))
    with np.errstate(all="ignore"), config.set(math=data.draw(st.sampled_from(["own", "numpy"]))):
        with config.set(kernels="numpy"):
            (wanted,) = run(program, [x, y, least])
        with config.set(kernels="native"):
            (found,) = run(program, [x, y, least])
    same_values(found, wanted)


def test_a_block_is_chosen_from_in_one_call():
    """The calls of a block do not grow with it."""
    counts = []
    for n in (100_000, 3_200_000):
        x = la.from_array(RNG.random(n), chunks=-1)
        calls = []
        with config.set(scheduler="sync"):
            for _ in range(3):
                x[x > 0.9].compute()
                assert la.wait_compiled(60)
            sys.setprofile(lambda frame, event, what: calls.append(what) if "call" in event else 0)
            try:
                x[x > 0.9].compute()
            finally:
                sys.setprofile(None)
        counts.append(len(calls))
    assert counts[1] <= counts[0] + 20
