"""Callables that hold what a call changes: each task has its own, on every scheduler."""

import functools
import operator
import os
import random
import sys

import numpy as np
import pytest
from engine_schedulers import ELSEWHERE, SCHEDULERS
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la
from lazyflow import compute, delayed, persist, submit
from lazyflow.store.pickling.functions import carries_state
from lazyflow.store.pickling.pickler import is_importable


class Counter:
    def __init__(self):
        self.seen = []

    def add(self, k):
        self.seen.append(k)
        return list(self.seen)

    def __call__(self, k):
        return self.add(k)


def _appended(items, k):
    items.append(k)
    return list(items)


def _closure():
    items = []
    return lambda k: _appended(items, k)


def _nonlocal():
    calls = 0

    def counted(k):
        nonlocal calls
        calls += k + 1
        return calls

    return counted


def _nonlocal_inside():
    calls = 0

    def counted(k):
        def inner():
            nonlocal calls
            calls += 1

        inner()
        return calls

    return counted


def _default():
    def remember(k, items=[]):  # noqa: B006
        return _appended(items, k)

    return remember


def _keyword_default():
    def remember(k, *, found={}):  # noqa: B006
        found[k] = len(found)
        return dict(found)

    return remember


def _attribute():
    def remember(k):
        return _appended(remember.items, k)

    remember.items = []
    return remember


def _array():
    total = np.zeros(3)

    def added(k):
        total[k % 3] += 1
        return total.tolist()

    return added


def _array_of(make):
    def holding():
        values = make(np.zeros(3))

        def added(k):
            values[...] += k + 1
            return np.asarray(values).tolist()

        return added

    return holding


class Marked(np.ndarray):
    pass


def _marked(array):
    return array.view(Marked)


def _cached_closure():
    return functools.lru_cache(_closure())


def _drawn(generator, k):
    return generator.random()


def _counted(numbers, k):
    return next(numbers)


def _counted_block(count, block):
    return block * len(count(0))


LEAVES = [
    _array_of(np.ma.masked_array), _array_of(_marked), _cached_closure,
    Counter, lambda: Counter().add, _closure, _nonlocal, _nonlocal_inside, _default,
    _keyword_default, _attribute, _array, lambda: functools.partial(_appended, []),
    lambda: functools.partial(_counted, iter(range(9))),
    lambda: functools.partial(_drawn, random.Random(1)),
    lambda: functools.partial(_drawn, np.random.default_rng(1)), lambda: {}.setdefault,
]


class Holder:
    def __init__(self, function):
        self.function = function

    def call(self, k):
        return self.function(k)


def _around(function):
    @functools.wraps(function)
    def call(k):
        return function(k)

    return call


WRAPPERS = [_around, functools.partial, lambda f: Holder(f).call, lambda f: lambda k: f(k)]


def _made(leaf, wrappers):
    return functools.reduce(lambda function, wrap: wrap(function), wrappers, leaf())


kinds = st.tuples(
    st.sampled_from(LEAVES), st.lists(st.sampled_from(WRAPPERS), max_size=2).map(tuple)
)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=15)
@given(cases=st.lists(st.tuples(kinds, st.integers(0, 3)), min_size=1, max_size=12))
def test_each_task_has_the_state_of_its_own_callable(scheduler, cases):
    expected = [_made(*kind)(k) for kind, k in cases]
    with lazyflow.config.set(scheduler=scheduler):
        lazy = [delayed(_made(*kind))(k) for kind, k in cases]
        assert list(compute(*lazy)) == expected
        held = persist(*[delayed(_made(*kind))(k) for kind, k in cases])
        futures = [submit(_made(*kind), k) for kind, k in cases]
        assert [future.result() for future in futures] == expected
        assert list(compute(*held)) == expected


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_estimators_that_are_equal_before_they_are_fitted(scheduler):
    sklearn = pytest.importorskip("sklearn.base")
    from sklearn.linear_model import LinearRegression, SGDClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    ys = [X @ rng.normal(size=3) for _ in range(24)]
    model, sgd = LinearRegression(), SGDClassifier(random_state=0)
    with lazyflow.config.set(scheduler=scheduler):
        fits = compute(*persist(*[delayed(sklearn.clone(model).fit)(X, y) for y in ys]))
        parts = compute(*[
            delayed(sklearn.clone(sgd).partial_fit)(X, y > 0, classes=[False, True]) for y in ys
        ])
    for fit, part, y in zip(fits, parts, ys, strict=True):
        np.testing.assert_allclose(fit.predict(X), y)
        alone = sklearn.clone(sgd).partial_fit(X, y > 0, classes=[False, True])
        np.testing.assert_array_equal(part.coef_, alone.coef_)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_functions_of_blocks_and_of_reductions(scheduler):
    x = la.ones((8, 2), chunks=(1, 2))
    with lazyflow.config.set(scheduler=scheduler):
        for make in (_closure, Counter):
            own = [functools.partial(_counted_block, make()) for _ in range(3)]
            maps = [x.map_blocks(f, dtype=float) for f in own]
            assert [m.min(axis=1).compute().min() for m in maps] == [1, 1, 1]

        def merged():
            seen = []
            return lambda a, b: a + b + 0 * len(_appended(seen, 1))

        sums = [lazyflow.tree_reduce(merged(), [delayed(abs)(k) for k in range(8)]) for _ in "ab"]
        assert compute(*sums) == (28, 28)


@pytest.mark.parametrize("scheduler", ELSEWHERE)
def test_tasks_of_one_callable_each_begin_with_its_state_as_it_was(scheduler):
    """As said in ``help(lazyflow.schedulers)``; on threads they share the object."""
    counter = Counter()
    counter.add("before")
    with lazyflow.config.set(scheduler=scheduler):
        for _ in range(2):
            found = compute(*[delayed(counter.add)(k) for k in range(6)])
            assert list(found) == [["before", k] for k in range(6)]
    assert counter.seen == ["before"]


@pytest.mark.parametrize("scheduler", ELSEWHERE)
def test_large_arrays_of_functions_are_there_once_and_read_only(scheduler):
    table, steps = np.arange(100_000.0), []

    def looked_up(k):
        steps.append(k)
        return table[k], table.flags.writeable, (os.getpid(), table.ctypes.data), steps

    with lazyflow.config.set(scheduler=scheduler):
        found = compute(*[delayed(looked_up)(k) for k in range(8)])
    assert [(value, writeable, n) for value, writeable, _, n in found] == [
        (k, False, [k]) for k in range(8)
    ]


_SIMPLE = lambda x: x  # noqa: E731


def _around_number(n):
    return lambda x: x + n


def _recursive():
    def factorial(n):
        return n * factorial(n - 1) if n else 1

    return factorial


CODE = [
    len, np.sin, np.sum, np.float64, int.from_bytes, str.upper, "a".join, operator.itemgetter(1),
    Counter, _SIMPLE, _around_number(1), _around_number((1, "a", (None, 2.5, b"", slice(3)))),
    _around_number(np.float32(1)), _around_number(np), _around_number(_around_number(3)),
    _around_number(np.dtype("f8")), _recursive(), functools.partial(_around_number, 1),
    functools.partial(len), functools.lru_cache(_SIMPLE), dict.fromkeys, _around,
    _around_number(np.zeros(100_000)),
]
STATE = [
    [].append, {}.get, iter([1]).__next__, Counter(), Counter().add, _around_number([]),
    _around_number(([],)), _around_number(np.zeros(3)), functools.partial(len, []),
    functools.partial(len, key={}), functools.partial(_closure()), sys.stdout.write,
    functools.lru_cache(_closure()), _around_number(np.ma.zeros(100_000)),
    _around_number(np.array([None])), _around_number(random.Random(1)), random.Random(1).random,
]


@pytest.mark.parametrize("value", CODE, ids=lambda v: getattr(v, "__name__", type(v).__name__))
def test_code_may_be_shared(value):
    assert not carries_state(value, is_importable)


@pytest.mark.parametrize("value", STATE, ids=lambda v: getattr(v, "__name__", type(v).__name__))
def test_state_may_not(value):
    assert carries_state(value, is_importable)
