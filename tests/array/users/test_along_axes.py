"""Functions of slices and of single elements."""

import numpy as np
import pytest
from array_checks import check
from array_examples import Calls

import lazyflow.array as la

SCHEDULERS = ["sync", "threads", "processes"]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("func", [np.sum, np.sort, np.diag, lambda v: v[:2]])
def test_apply_along_axis(axis, func):
    values = np.arange(24).reshape(2, 3, 4) % 7
    x = la.from_array(values, chunks=(1, 2, 3))
    check(la.apply_along_axis(func, axis, x), np.apply_along_axis(func, axis, values))
    check(np.apply_along_axis(func, axis, x), np.apply_along_axis(func, axis, values))


def test_apply_along_axis_tries_the_function_only_when_it_has_to():
    shapes = Calls()
    x = la.from_array(np.arange(6).reshape(2, 3), chunks=(1, 3))
    found = la.apply_along_axis(shapes, 1, x, dtype=int, shape=(3,))
    assert shapes.shapes == []
    check(found, np.arange(6).reshape(2, 3))
    empty = la.zeros((0, 3), chunks=(1, 3), dtype=int)
    check(la.apply_along_axis(np.sum, 1, empty), np.zeros(0, int))
    with pytest.raises(TypeError, match=r"the dtype of apply_along_axis\(<lambda>, ...\) is not"):
        la.apply_along_axis(lambda v: v.nothing, 0, x)


def test_apply_over_axes():
    values = np.arange(24.0).reshape(2, 3, 4)
    x = la.from_array(values, chunks=2)
    check(la.apply_over_axes(np.sum, x, [0, 2]), np.apply_over_axes(np.sum, values, [0, 2]))
    check(np.apply_over_axes(np.max, x, -1), np.apply_over_axes(np.max, values, -1))
    with pytest.raises(ValueError, match="not returning an array of the correct shape"):
        la.apply_over_axes(lambda a, axis: a[0, 0], x, 0)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_frompyfunc_and_vectorize(scheduler):
    x = la.arange(7, chunks=3)
    check(la.frompyfunc(oct, 1, 1)(x), np.frompyfunc(oct, 1, 1)(np.arange(7)), scheduler)
    for found, expected in zip(la.frompyfunc(divmod, 2, 2)(x, 3),
                               np.frompyfunc(divmod, 2, 2)(np.arange(7), 3), strict=True):
        check(found, expected, scheduler)
    y = np.arange(1, 5).reshape(2, 2)
    check(la.frompyfunc(pow, 2, 1).outer(x, la.from_array(y, chunks=1)),
          np.frompyfunc(pow, 2, 1).outer(np.arange(7), y), scheduler)
    check(la.vectorize(lambda a, b: a + b)(x, 0.5), np.arange(7) + 0.5, scheduler)
    check(la.vectorize(str, otypes=["U2"])(x), np.arange(7).astype("U2"), scheduler)


def test_piecewise():
    values = np.arange(-5.0, 5)
    x = la.from_array(values, chunks=3)
    for conditions, functions in (
        ([values < 0, values >= 0], [-1, 1]),
        ([values < 0], [np.abs, lambda v: v * 2]),
        (values < 0, [np.abs]),
    ):
        expected = np.piecewise(values, conditions, functions)
        check(la.piecewise(x, conditions, functions), expected)
        check(np.piecewise(x, conditions, functions), expected)
    check(la.piecewise(x, [x < 0, x > 2], [lambda v, k: v * k, 0], k=3),
          np.piecewise(values, [values < 0, values > 2], [lambda v, k: v * k, 0], k=3))
    with pytest.raises(ValueError, match="either 1 or 2 functions are expected"):
        la.piecewise(x, [x < 0], [1, 2, 3])
