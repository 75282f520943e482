"""Operators, attributes, items and NumPy's ufuncs of lazy values."""

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazyflow import Delayed, compute, delayed


def inc(x):
    return x + 1


def value_of(x):
    return compute(x, scheduler="sync")[0]


# -- operators ------------------------------------------------------------------------------

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor,
    operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge, divmod, pow,
]  # fmt: skip
UNARY = [
    operator.neg, operator.pos, operator.abs, operator.invert, abs, round, math.trunc,
    math.floor, math.ceil,
]  # fmt: skip


@given(st.sampled_from(BINARY), st.integers(0, 40), st.integers(1, 40))
def test_binary_operators_and_reflections(op, a, b):
    expected = op(a, b)
    x, y = delayed(a), delayed(inc)(b - 1)
    for lazy in (op(x, b), op(a, y), op(x, y)):
        assert type(lazy) is Delayed
        assert value_of(lazy) == expected


@given(st.sampled_from([*BINARY[:12], divmod]), st.integers(0, 40), st.integers(1, 40))
def test_numpy_on_the_left(op, a, b):
    for left in (np.int64(a), np.array([a, a + 1])):
        lazy = op(left, delayed(b))
        assert type(lazy) is Delayed
        np.testing.assert_array_equal(value_of(lazy), op(left, b))


@pytest.mark.parametrize("op", BINARY[12:18])
def test_numpy_on_the_left_of_comparisons(op):
    left = np.array([1, 2, 3])
    for one in (left, np.float64(2)):
        lazy = op(one, delayed(2))
        assert type(lazy) is Delayed
        np.testing.assert_array_equal(value_of(lazy), op(one, 2))


def test_matrix_products():
    a, b = np.arange(4.0).reshape(2, 2), np.array([1.0, 2.0])
    for lazy in (a @ delayed(b), delayed(a) @ b, delayed(a) @ delayed(b)):
        np.testing.assert_array_equal(value_of(lazy), a @ b)


@pytest.mark.parametrize("op", UNARY)
def test_unary_operators(op):
    x = 5 if op is operator.invert else -2.5
    lazy = op(delayed(x))
    assert type(lazy) is Delayed
    assert value_of(lazy) == op(x)


def test_operators_with_more_arguments():
    assert value_of(round(delayed(2.345), 1)) == 2.3
    assert value_of(round(delayed(2.345), delayed(2))) == round(2.345, 2)
    assert value_of(pow(delayed(3), 4, 5)) == value_of(pow(delayed(3), delayed(4), delayed(5))) == 1
    q, r = divmod(delayed(17), 5)
    assert compute(q, r) == (3, 2)
    q, r = divmod(17, delayed(5))
    assert compute(q, r) == (3, 2)


def test_in_place_operators_bind_a_new_value():
    x = y = delayed(1)
    x += 1
    x *= 10
    assert compute(x, y) == (20, 1)


def test_sum_works_without_a_start():
    assert value_of(sum([delayed(1), delayed(2), 3])) == 6


# -- attributes, items ----------------------------------------------------------------------


def test_attributes_and_methods():
    x = delayed("a,b")
    assert value_of(x.split(",")) == ["a", "b"]
    assert value_of(x.upper().lower().replace("a", delayed("z"))) == "z,b"
    z = delayed(3 + 4j)
    assert compute(z.real, z.imag, z.real.is_integer()) == (3, 4, True)
    bound = x.split
    assert value_of(bound)() == ["a,b"]  # the attribute itself
    assert bound(",", dask_key_name="parts").key == "parts"
    assert repr(x.split(",")) == "<Delayed split(<value>, ',')>"
    assert repr(x.split) == "<Delayed .split(<value>)>"


def test_an_attribute_that_is_not_there_fails_when_computed():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        value_of(delayed(1).nothing)


def test_a_call_of_a_lazy_function():
    f = delayed(lambda n: lambda *a, **k: (n, a, k))(3)
    assert value_of(f(1, x=2)) == (3, (1,), {"x": 2})
    assert value_of(f(1, dask_key_name="k")) == (3, (1,), {})
    assert f(1, dask_key_name="k").key == "k"


def test_items():
    x = delayed(list(range(10)))
    i, j = delayed(2), delayed(inc)(4)
    assert value_of(x[0]) == 0
    assert value_of(x[-1]) == 9
    assert value_of(x[i]) == 2
    assert value_of(x[i:j]) == [2, 3, 4]
    assert value_of(x[i:8:i]) == [2, 4, 6]
    assert value_of(delayed({"a": {1: 2}})["a"][1]) == 2
    a = np.arange(12).reshape(3, 4)
    assert value_of(delayed(a)[1, i]) == 6
    np.testing.assert_array_equal(value_of(delayed(a)[:i, ..., 1:j]), a[:2, ..., 1:5])
    np.testing.assert_array_equal(value_of(delayed(a)[a > i]), a[a > 2])


def test_reversed_and_unpacking_where_the_length_is_known():
    x = delayed(lambda: (1, 2, 3), nout=3)()
    assert compute(*reversed(x)) == (3, 2, 1)
    first, *rest = x
    assert compute(first, rest) == (1, [2, 3])
    assert compute(*[delayed(inc)(i) for i in x]) == (2, 3, 4)


# -- ufuncs of NumPy ------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    np.sin, lambda x: np.add(x, 1, dtype="f4"), lambda x: np.add(1, x), np.add.reduce,
    lambda x: np.multiply.outer(x, [1, 2]), lambda x: np.ones(2) + x, lambda x: np.float64(2) * x,
    lambda x: np.modf(x)[1], lambda x: np.arange(2) < x, lambda x: np.ones((2, 2)) @ x,
    lambda x: divmod(np.ones(2), x)[0],
])
@pytest.mark.parametrize("scheduler", ["sync", "processes"])
def test_ufuncs_of_lazy_values_are_calls(call, scheduler):
    lazy = call(delayed(np.array)([2.5, 3]))
    assert isinstance(lazy, Delayed)
    expected = call(np.array([2.5, 3]))
    found = lazy.compute(scheduler=scheduler)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found, expected)


def test_an_array_to_which_something_lazy_is_added_is_lazy():
    total = before = np.zeros(2)
    total += delayed(np.ones)(2)
    total += delayed(np.ones)(2)
    assert total.compute().tolist() == [2, 2]
    assert before.tolist() == [0, 0]


def test_ufuncs_of_lazy_values_do_not_write():
    x, out = delayed(np.ones)(2), np.zeros(2)
    for write in lambda: np.sin(x, out=out), lambda: np.add.at(out, [0], x):
        with pytest.raises(TypeError, match=r"can't write into an array now\. Write: y = np\."):
            write()


def test_the_graph_of_a_lazy_value_is_not_called_dask():
    with pytest.raises(AttributeError, match=r"x\.visualize\(\) draws it.*delayed\(getattr\)"):
        delayed(abs)(1).dask
