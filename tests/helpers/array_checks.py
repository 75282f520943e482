"""The one comparison of chunked arrays with NumPy, and what a computation is made of."""

import warnings

import numpy as np

import lazyflow
import lazyflow.array as la
from lazyflow.array.core import Array
from lazyflow.graph.plan import make_plan
from lazyflow.graph.task import HELD


def check(x, expected, scheduler=None, *, rtol=0.0, atol=0.0):
    """Compare an array with NumPy's, and each block with what the array says of it.

    rtol, atol
        How far floats may be from NumPy's; 0: not at all.
    """
    assert isinstance(x, Array)
    expected = whole(expected, x.dtype)
    assert x.ndim == expected.ndim
    assert all(n is None or n == m for n, m in zip(x.shape, expected.shape, strict=True))
    found = whole(x.compute(scheduler=scheduler), x.dtype)
    assert x.dtype == found.dtype
    same_values(found, expected, rtol=rtol, atol=atol)
    blocks = blocks_of(x, scheduler)
    for index, block in zip(np.ndindex(*x.numblocks), blocks, strict=True):
        sizes = [lengths[i] for lengths, i in zip(x.chunks, index, strict=True)]
        assert block.dtype == x.dtype and block.ndim == x.ndim
        assert all(n is None or n == m for n, m in zip(sizes, block.shape, strict=True))


def whole(value, dtype):
    """Return an array; a single object, which results without axes are, is an array of it."""
    is_element = dtype.kind == "O" and not isinstance(value, np.ndarray | list | tuple)
    return np.array(value, object) if is_element else np.asarray(value)


def check_near(x, expected, scheduler=None):
    """Compare an array whose floats are computed in another order than NumPy's."""
    is_single = np.asarray(expected).dtype in ("f4", "c8")
    check(x, expected, scheduler, rtol=1e-5 if is_single else 1e-12, atol=1e-12)


def check_all(found, expected, **options):
    """Compare an array, or a tuple or a list of arrays, with what NumPy gives."""
    if isinstance(expected, tuple | list):
        assert type(found) is type(expected) and len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check(one, other, **options)
    else:
        check(found, expected, **options)


def told_of(call):
    """Return what a call gives, or None, and its warnings and error with the file they are of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found, words = call(), []
        except ValueError as error:
            found, words = None, [str(error)]
    return found, [*words, *[(str(each.message), each.filename) for each in told]]


def same_values(found, expected, *, rtol=0.0, atol=0.0):
    """Compare what was computed with NumPy's: type, order of bytes, shape and values.

    NaN equals NaN, zeros have NumPy's signs, and the parts of complex numbers are compared alone.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype and found.dtype.str == expected.dtype.str
    assert found.shape == expected.shape
    is_float = expected.dtype.kind in "fc"
    if expected.dtype.kind == "c":
        found, expected = [np.stack([x.real, x.imag]) for x in (found, expected)]
    if is_float and (rtol or atol):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
        return
    np.testing.assert_array_equal(found, expected)
    if is_float:
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(expected)[number])


def raised(function):
    """Return the type and the words of what a function raises."""
    try:
        function()
    except Exception as error:
        return type(error), str(error)
    raise AssertionError("nothing was raised")


def outcome(call, *arrays):
    """Return what NumPy or lazyflow gives, or the error's type; NumPy's own are of one kind."""
    try:
        return lazyflow.compute(call(*arrays))[0]
    except TypeError:
        return TypeError
    except Exception as error:
        return type(error)


def check_call(call, *arrays):
    """Compare what a function gives for NumPy's arrays and for ours, or that both refuse."""
    expected = outcome(call, np, *[a.copy() for a in arrays])
    for chunks in 2, -1:
        found = outcome(call, la, *[la.from_array(a.copy(), chunks=chunks) for a in arrays])
        if isinstance(expected, type):
            assert found is expected
            continue
        pairs = zip(expected, found, strict=True) if isinstance(expected, tuple) else [
            (expected, found)
        ]
        for one, other in pairs:
            same_values(other, one)


def blocks_of(x, scheduler=None):
    """Return the computed blocks of an array, in C order."""
    return lazyflow.compute(list(x.to_delayed().flat), scheduler=scheduler)[0]


def tasks_of(x):
    """Return how many tasks an array takes."""
    return make_plan(x.__lazyflow_tasks__()).end


def kept_inputs(x):
    """Return how many kept blocks tasks of a compute of x read, those that read some."""
    (made,) = la.Array.__lazyflow_optimize__([x], keep=False)
    plan = make_plan(made.__lazyflow_tasks__())
    kept = {i for i in plan.leaves if plan.tasks[i]._func is HELD}
    return {n for each in plan.inputs if (n := len(kept.intersection(each or ())))}
