"""Identity, depth and cycles of arguments, and that the graph keeps what it was given."""

import copy
from collections import OrderedDict, defaultdict, deque

import numpy as np
import pandas as pd
import pytest
from argument_tools import Box, given_to_call, given_to_task, one, pair, same, two

from lazyflow import compute, delayed

# -- identity, depth, cycles ----------------------------------------------------------------


def test_a_container_used_twice_arrives_once():
    for inner in ([one], [5]):
        ((a, b), k) = pair(inner, inner, k=[inner, inner]).compute()
        assert a is b
        assert k["k"][0] is k["k"][1]
    assert (a, k["k"]) == ([5], [[5], [5]])
    it = iter([1, 2])
    ((a, b), _) = pair(it, it).compute()
    assert a is b


def test_one_input_used_twice_is_one_object():
    x = delayed(object)()
    ((a, b), k) = pair(x, [x], k={"x": x}).compute()
    assert a is b[0] is k["k"]["x"]


def test_nesting_to_any_depth():
    wraps = [lambda x: [x], lambda x: (x, 1), lambda x: {"k": x}, Box, lambda x: deque([x])]
    deep = one
    for i in range(50_000):
        deep = wraps[i % 5](deep)
    for got in (given_to_task(deep), compute(deep, scheduler="sync")[0]):
        for i in reversed(range(50_000)):
            got = got.inside if i % 5 == 3 else got["k"] if i % 5 == 2 else got[0]
        assert got == 1


def test_deep_nesting_without_lazy_parts():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert compute(deep)[0] is deep
    got = given_to_task(deep)
    assert got is not deep
    for _ in range(100_000):
        (got,) = got
    assert got == []


def test_a_list_that_holds_itself_passes_intact():
    xs = [1]
    xs.append(xs)
    got = given_to_task(xs)
    assert got is xs
    assert got[1] is got
    assert compute(xs)[0] is xs


def test_cycles_through_other_containers():
    d = {"a": 1}
    box = Box([d, np.ones(2)])
    d["box"] = box
    got = given_to_task(d)
    assert got is d
    assert got["box"].inside[0] is got
    xs = [5]
    xs.append((xs,))
    ((a, b), k), returned = given_to_call(xs, [xs, 1], k=one)
    assert a is xs
    assert b[0] is xs
    assert k == {"k": 1}
    (a, b), k = returned  # the caller's own: xs is held by the call
    assert a is not xs
    assert a[1][0] is a is b[0]
    assert (a[0], b[1], k) == (5, 1, {"k": 1})


def test_a_cycle_for_a_mutating_function_is_copied_with_its_cycle():
    xs = [5]
    xs.append(xs)
    edit = delayed(lambda a: a.append(6) or a, mutates=True)
    for _ in range(2):
        got = edit(xs).compute()
        assert got is not xs
        assert got[1] is got
        assert got[2:] == [6]
    assert len(xs) == 2


def test_lazy_values_beside_a_cycle_are_found():
    xs = []
    xs.append(xs)
    ((a, b, c), _), ((own, *_), _) = given_to_call(xs, one, [two, xs])
    assert a is xs
    assert b == 1
    assert c[0] == 2
    assert c[1] is xs
    assert own is not xs
    assert own[0] is own
    assert compute(xs, one) == (xs, 1)


@pytest.mark.parametrize("inside", [one, [one], iter([1]), {"k": (one,)}])
def test_lazy_values_inside_a_cycle_are_refused(inside):
    xs = [inside]
    xs.append(xs)
    with pytest.raises(TypeError, match=r"holds itself and also lazy values.*arguments of their"):
        same(xs)


def test_many_back_references_are_no_problem():
    root = []
    deep = root
    for _ in range(20_000):
        deep.append([root])
        deep = deep[-1]
    assert given_to_task(root) is root


# -- the graph keeps its arguments ----------------------------------------------------------


@pytest.mark.parametrize(
    "container", [[1, 2], {1: 2}, {1, 2}, deque([1, 2]), OrderedDict(a=1), defaultdict(list, a=1)]
)
def test_a_container_changed_after_the_call_does_not_change_the_graph(container):
    before = copy.copy(container)
    x, y = same(container), same([container, one])
    container.clear()
    assert x.compute() == before
    assert y.compute()[1] == 1


def test_a_task_that_edits_its_own_list_changes_nothing_for_the_next():
    for argument in ([1, 2], [one, 2]):
        x = delayed(lambda xs: xs.append(9) or xs)(argument)
        assert x.compute() == [1, 2, 9]
        assert x.compute() == [1, 2, 9]
    assert argument == [one, 2]
    xs = delayed(lambda: [1, 2])()
    edit = delayed(lambda xs: xs.append(9) or xs)
    assert compute(edit(xs), edit(xs), xs) == ([1, 2, 9], [1, 2, 9], [1, 2])


def test_arrays_arrive_read_only():
    a = np.ones(2)
    for argument in (a, [a], {"k": a}, (a, one), Box(a), delayed(a), delayed(np.ones)(2)):
        with pytest.raises(ValueError, match="read-only"):
            delayed(_edit_array)(argument).compute()
    np.testing.assert_array_equal(a, 1)
    assert a.flags.writeable


def _edit_array(x):
    while not isinstance(x, np.ndarray):
        x = x.inside if isinstance(x, Box) else x["k"] if isinstance(x, dict) else x[0]
    x[0] = 5
    return x


def test_mutates_gives_private_writable_values():
    a = np.ones(2)
    edit = delayed(_edit_array, mutates=True)
    for argument in (a, [a], {"k": a}, delayed(a), delayed(np.ones)(2)):
        for _ in range(2):
            assert edit(argument).compute()[0] == 5
    np.testing.assert_array_equal(a, 1)


def test_pandas_objects_are_private():
    df = pd.DataFrame({"a": [1, 2]})

    @delayed
    def edit(x):
        x["b"] = 5
        return x

    for argument in (df, delayed(df)):
        assert list(edit(argument).compute().columns) == ["a", "b"]
    assert list(df.columns) == ["a"]
    x = delayed(df)
    df["c"] = 1
    assert list(x.compute().columns) == ["a"]
