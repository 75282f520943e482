"""`tree_reduce`: the same sum on every scheduler."""

import operator
from collections.abc import Iterator

import pytest
from engine_schedulers import SCHEDULERS
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow
from lazyflow import config, delayed, put, tree_reduce
from lazyflow.testing.signals import Tally


@pytest.fixture(params=SCHEDULERS)
def scheduler(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.set(scheduler=request.param, num_workers=2):
        yield request.param


@given(st.lists(st.text(max_size=2), min_size=1, max_size=200), st.integers(2, 9))
@settings(max_examples=50, deadline=None)
def test_tree_reduce_keeps_the_order(parts: list[str], split_every: int) -> None:
    found = tree_reduce(operator.add, [delayed(str)(p) for p in parts], split_every)
    assert found.compute(scheduler="sync") == "".join(parts)


def test_tree_reduce_is_the_same_sum_everywhere(scheduler: str) -> None:
    values = [10.0 ** (i % 17) * (-1) ** i for i in range(100)]
    expected = tree_reduce(operator.add, values).compute(scheduler="sync")
    assert tree_reduce(operator.add, lazyflow.map(float, values)).compute() == expected
    assert tree_reduce(operator.add, [put(3)]).compute() == 3


def test_mistakes_of_tree_reduce() -> None:
    with pytest.raises(ValueError, match="no parts"):
        tree_reduce(operator.add, [])
    with pytest.raises(ValueError, match="split_every must be a whole number, 2 or more; got 1"):
        tree_reduce(operator.add, [1, 2], 1)
    with pytest.raises(TypeError, match="got list of 2 as the function"):
        tree_reduce([1, 2], operator.add)  # type: ignore[arg-type]


def test_options_of_a_delayed_function_are_those_of_each_fold():
    calls = Tally()

    def add(x, y):
        calls.add(x)
        return x + y

    pure = delayed(add, pure=True, name="sum")
    folds = [tree_reduce(pure, range(20), split_every=3) for _ in range(2)]
    assert lazyflow.compute(*folds, scheduler="sync") == (190, 190)
    assert len(calls) == 19
    assert "reduce by sum" in repr(folds[0])
    with pytest.raises(ValueError, match=r"asks for workers=\['w3'\]"):
        tree_reduce(delayed(add, workers="w3"), [1, 2]).compute(scheduler="threads")


def test_coroutines_reduce():
    async def add(x, y):
        return x + y

    for op in (add, delayed(add)):
        assert tree_reduce(op, range(20), split_every=3).compute() == 190
