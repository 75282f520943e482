"""What needs the value now raises a TypeError that says what to type instead."""

import contextlib
import math
import operator

import numpy as np
import pytest
from oldest_versions import numpy_24

from lazyflow import compute, delayed


def lazy():
    return delayed(lambda: [1, 2])()


def _condition(x):
    if x == 1:
        return 1
    return 2


def _set_item(x):
    x[0] = 1


def _add_to_item(x):
    x[0] += 1


def _delete_item(x):
    del x[0]


def _set_attribute(x):
    x.attr = 1


def _add_to_attribute(x):
    x.attr += 1


def _delete_attribute(x):
    del x.attr


def _unpack(x):
    a, b = x
    return a, b


def _loop(x):
    for y in x:
        return y


def _keywords(x):
    return dict(a=1, **x)


TRUTH = r"The truth .* is not known before it is computed. Write x.compute\(\) in the condition"
NUMBER = r"The number .* is not known before it is computed. Write int\(x.compute\(\)\)"
FLOAT = r"The number .* Write float\(x.compute\(\)\), or delayed\(float\)\(x\)"
WHOLE = r"The number .* Write x.compute\(\)"
LENGTH = r"Declare it: delayed\(f, nout=2\), or annotate the function '-> tuple\[A, B\]'; or "
ITERATE = rf"can't iterate over it: .* {LENGTH}iterate inside a delayed function"
CHANGE = r"lazy values can't be changed: .* Return a changed copy from a delayed function"
CHANGE_OBJECT = r"can't be changed: x.attr = value .* Return a changed object from a delayed"
ARRAY = r"Write np.asarray\(x.compute\(\)\), or delayed\(np.asarray\)\(x\)"


@pytest.mark.parametrize(
    ("misuse", "words"),
    [
        (bool, TRUTH),
        (lambda x: not x, TRUTH),
        (_condition, TRUTH + ".* put the 'if' inside a delayed function"),
        (lambda x: 1 < x < 3, TRUTH),
        (lambda x: x and 1, TRUTH),
        (lambda x: max(x, 1), TRUTH),
        (lambda x: sorted([x, lazy()]), TRUTH),
        (lambda x: x in [lazy(), 1], TRUTH + ".* identity use 'is'"),
        (lambda x: [1, 2].index(x), TRUTH),
        (lambda x: any([x]), TRUTH),
        (list, ITERATE),
        (tuple, ITERATE),
        (_unpack, ITERATE),
        (_loop, ITERATE),
        (lambda x: print(*x), ITERATE),
        (sum, ITERATE),
        (iter, ITERATE),
        (lambda x: list(zip(x, x, strict=True)), ITERATE),
        (lambda x: list(map(abs, x)), ITERATE),
        (len, rf"can't take its len: .* {LENGTH}write delayed\(len\)\(x\)"),
        (lambda x: list(reversed(x)), "can't take its len"),
        (lambda x: 1 in x, r"Write: delayed\(operator.contains\)\(x, item\)"),
        (lambda x: operator.contains(x, 1), r"delayed\(operator.contains\)"),
        (_set_item, CHANGE),
        (_add_to_item, CHANGE),
        (_delete_item, CHANGE),
        (_set_attribute, CHANGE_OBJECT),
        (_add_to_attribute, CHANGE_OBJECT),
        (_delete_attribute, CHANGE_OBJECT),
        (int, NUMBER),
        (float, FLOAT),
        (complex, r"Write complex\(x.compute\(\)\), or delayed\(complex\)\(x\)"),
        (math.sqrt, FLOAT),
        (range, WHOLE),
        (lambda x: [1, 2, 3][x], WHOLE),
        (lambda x: "a" * operator.index(x), WHOLE),
        (hex, WHOLE),
        (lambda x: f"{x:.2f}", r"The text .* Write format\(x.compute\(\), '.2f'\)"),
        (np.asarray, ARRAY),
        (np.array, ARRAY),
        (np.float64, ARRAY),
        (lambda x: np.array([x, x]), ARRAY),
        (lambda x: np.array([1, 2])[x], "(Write|only integers)"),
        (lambda x: x.dtype.dtype, r"The dtype .* Write np.dtype\(x.dtype.compute\(\)\)"),
        pytest.param(np.dtype, r"The dtype .* Write np.dtype\(x.dtype.compute\(\)\)",
                     marks=numpy_24("asks for no `__numpy_dtype__`")),
    ],
)
def test_misuse_says_what_to_type_instead(misuse, words):
    expected = (TypeError, IndexError) if "only integers" in words else TypeError
    with pytest.raises(expected, match=words):
        misuse(lazy())


@pytest.mark.parametrize("misuse", [_keywords, lambda x: contextlib.ExitStack().enter_context(x)])
def test_other_misuse_is_a_type_error_of_pythons_own(misuse):
    with pytest.raises(TypeError):
        misuse(lazy())


def test_ufuncs_are_made_later_and_do_not_write():
    x, out = lazy(), np.zeros(2)
    np.testing.assert_array_equal(np.exp(x).compute(), np.exp([1, 2]), strict=True)
    np.testing.assert_array_equal(np.add.reduce(x).compute(), np.add.reduce([1, 2]), strict=True)
    for name, write in {
        "exp": lambda: np.exp(x, out=out),
        "sqrt": lambda: np.sqrt(out, out=x),
        "negative": lambda: np.negative(x, out=x),
        "modf": lambda: np.modf(x, out=(out, None)),
        "add": lambda: np.add.reduce(x, out=np.zeros(())),
        "multiply": lambda: np.multiply(out, x, out=out, where=[True, False]),
        "power": lambda: np.power.outer(out, x, out=out),
        "subtract": lambda: np.subtract.at(out, [0], x),
    }.items():
        with pytest.raises(TypeError) as refused:
            write()
        assert str(refused.value) == (
            f"np.{name} of a lazy value is computed later, so it can't write into an "
            f"array now. Write: y = np.{name}(...) without out="
        )
    assert out.tolist() == [0, 0]


def test_the_function_in_the_message_is_named():
    def produce():
        return 1, 2

    with pytest.raises(TypeError, match="the number of values that produce returns"):
        list(delayed(produce)())
    with pytest.raises(TypeError, match="the number of values that label returns"):
        list(delayed(produce, name="label")())


def test_what_the_messages_advise_works():
    x = delayed(lambda: [1, 2])()
    assert 1 in x.compute()
    assert delayed(operator.contains)(x, 2).compute() is True
    assert delayed(len)(x).compute() == 2
    a, b = delayed(lambda: [1, 2], nout=2)()
    assert compute(a, b) == (1, 2)
    n = delayed(lambda: 3)()
    assert compute(delayed(float)(n), delayed(int)(n), delayed(complex)(n)) == (3.0, 3, 3 + 0j)
    assert format(n.compute(), ".2f") == "3.00"
    assert delayed(np.asarray)(x).compute().tolist() == [1, 2]
    assert np.dtype(delayed(np.zeros)(2).dtype.compute()) == np.float64
    assert (delayed(getattr)(n, "__class__")).compute() is int


def test_equality_and_membership_by_identity_work():
    x, y = lazy(), lazy()
    assert x is not y
    assert x in [x]
    assert y in {x, y}
    assert (x == y).compute() is True
    assert (x != y).compute() is False
    assert f"{x}".startswith("<Delayed")


def test_nothing_was_computed_by_a_misuse():
    calls = []
    x = delayed(lambda: calls.append(1))()
    for misuse in (bool, len, list, int, np.asarray):
        with pytest.raises(TypeError):
            misuse(x)
    assert calls == []
