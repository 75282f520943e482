"""Names of tasks: labels and keys, pure calls that merge, and conflicts."""

import inspect
import operator
import os
import random
import subprocess
import sys
import threading
from collections import OrderedDict

import numpy as np
import pytest
from engine_schedulers import SCHEDULERS
from hypothesis import given
from hypothesis import strategies as st

from lazyflow import KeyConflict, annotate, compute, config, delayed, optimize, persist
from lazyflow.graph.plan import make_plan


def inc(x):
    return x + 1


class Counted:
    """A function that counts its calls; pure only as far as its results go."""

    def __init__(self, func):
        self.func = func
        self.calls = []

    def __call__(self, *args, **kwargs):
        self.calls.append(args)
        return self.func(*args, **kwargs)

    def __lazyflow_tokenize__(self):
        return self.func


# -- pure calls -----------------------------------------------------------------------------


def test_equal_pure_calls_run_once():
    counted = Counted(inc)
    f = delayed(counted, pure=True)
    xs = [f(1), f(1), f(2), f(x=1), f(x=1), f([1, 2][0])]
    assert compute(xs) == ([2, 2, 3, 2, 2, 2],)
    assert sorted(counted.calls) == [(), (1,), (2,)]


def test_calls_that_are_not_pure_stay_apart():
    counted = Counted(inc)
    f = delayed(counted)
    assert compute(f(1), f(1)) == (2, 2)
    assert len(counted.calls) == 2


def test_chains_of_pure_calls_merge():
    counted = Counted(inc)
    f = delayed(counted, pure=True)

    def chain():
        x = f(0)
        for _ in range(50):
            x = f(x)
        return x

    assert compute(*[chain() for _ in range(5)]) == (51,) * 5
    assert len(counted.calls) == 51


def test_a_pure_call_on_impure_inputs_is_as_unique_as_they_are():
    counted = Counted(operator.neg)
    f, unique = delayed(counted, pure=True), delayed(inc)
    x, y = unique(1), unique(1)
    assert compute(f(x), f(x), f(y)) == (-2, -2, -2)
    assert len(counted.calls) == 2


def test_operators_on_pure_values_merge():
    f = delayed(np.arange, pure=True)

    def expression():
        x = f(4)
        return (x + 1)[3] * x[2] - x.size

    results = [expression() for _ in range(3)]
    assert len(make_plan(results)) == 7
    assert compute(*results) == (4, 4, 4)
    assert len({x.key for x in results}) == 1
    assert len({x.key for x in (f(4) + 1, 1 + f(4), f(4) - 1, f(4)[1], f(4).size)}) == 5


def test_operators_on_other_values_stay_apart():
    x, f = delayed(np.arange)(4), delayed(np.arange, pure=True)
    assert len(make_plan([x + 1, x + 1, f(1)])) == len(make_plan([x + 1, x + 1])) + 1 == 4
    assert compute(x[1] + f(3)[1], f(3)[1]) == (2, 1)


def test_method_calls_do_not_merge():
    x = delayed(random.Random, pure=True)(0)
    a, b = x.random(), x.random()
    assert a.key != b.key
    assert len(set(compute(a, b))) == 2


def test_items_of_pure_calls_merge():
    counted = Counted(lambda x: (x, -x))
    f = delayed(counted, pure=True, nout=2)
    a, b = f(1)
    c, d = f(1)
    assert compute(a, b, c, d) == (1, -1, 1, -1)
    assert a.key == c.key != b.key
    assert len(counted.calls) == 1


def test_without_optimisation_pure_calls_run_each():
    counted = Counted(inc)
    f = delayed(counted, pure=True)
    assert compute(f(1), f(1), optimize_graph=False) == (2, 2)
    assert len(counted.calls) == 2


def test_optimize_merges_for_good():
    f = delayed(inc, pure=True)
    a, (b, c) = optimize(f(f(1)), [f(f(1)), f(2)])
    assert a is b
    assert c is not a
    assert compute(a, b, c) == (3, 3, 3)


def test_merged_results_stay_private():
    f = delayed(lambda: [1], pure=True)
    edit = delayed(lambda xs, x: xs.append(x) or xs)
    assert compute(f(), edit(f(), 2), edit(f(), 3), f()) == ([1], [1, 2], [1, 3], [1])


def test_a_label_does_not_make_pure_calls_differ():
    counted = Counted(inc)
    f = delayed(counted, pure=True)
    with annotate(name="labelled"):
        x = f(1)
    assert compute(x, f(1), delayed(counted, pure=True, name="other")(1)) == (2, 2, 2)
    assert len(counted.calls) == 1


# What makes a key: equal in the first list of each pair, different from the second.
g = delayed(lambda *a, **k: (a, k), pure=True)
h = delayed(inc, pure=True)
SAME = [
    lambda: g(1, "a", 2.5, None, True, b"x"),
    lambda: g([1, 2], (3, 4), {"k": {5, 6}}),
    lambda: g(x=1, y=2),
    lambda: g(h(1), 2, k=h(3)),
    lambda: g({h(i) for i in range(20)} | {"a", "b"}),
    lambda: g({h(1): h(2), "k": [h(3)]}),
    lambda: g(np.arange(10), np.zeros((2, 3))),
    lambda: g(i for i in range(3)),
    lambda: g(iter([h(1), 2])),
    lambda: g({"a": 1}.items(), {h(1): 2}.values()),
    lambda: g(OrderedDict(a=h(1))),
    lambda: g(slice(h(1), 2)),
    lambda: h(1) + h(2),
    lambda: h(1) + 1,
    lambda: g(h(1)).something,
    lambda: g(inc, len, str, g),
    lambda: delayed([1, h(1)], pure=True),
    lambda: delayed([1, 2], pure=True),
]


@pytest.mark.parametrize("make", SAME)
def test_equal_calls_have_one_key(make):
    assert make().key == make().key


def test_keys_of_different_calls_differ():
    keys = [make().key for make in SAME]
    assert len(set(keys)) == len(keys)


def test_the_order_of_keywords_and_of_building_does_not_count():
    assert g(x=1, y=h(2)).key == g(y=h(2), x=1).key
    x = h(1)
    x.key
    assert g(x, h(x)).key == g(h(1), h(h(1))).key
    with annotate(priority=1):
        assert g(h(1), h(2)).key == g(h(1), h(2)).key
        inside = g(h(1), h(2)).key
    assert inside == g(h(1), h(2)).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: g(1), lambda: g(1.0)),
        (lambda: g(1), lambda: g(True)),
        (lambda: g(1), lambda: g("1")),
        (lambda: g(1), lambda: g([1])),
        (lambda: g([1]), lambda: g((1,))),
        (lambda: g(1, 2), lambda: g((1, 2))),
        (lambda: g(1, 2), lambda: g(2, 1)),
        (lambda: g(1, x=2), lambda: g(1, 2)),
        (lambda: g(x=1), lambda: g(y=1)),
        (lambda: g(h(1)), lambda: g(h(2))),
        (lambda: g(h(1)), lambda: g(h(1).key)),
        (lambda: g([h(1)]), lambda: g([h(1).key])),
        (lambda: g(h(1), None), lambda: g(None, h(1))),
        (lambda: g(h(1), h(2)), lambda: g(h(2), h(1))),
        (lambda: g([h(1)], h(2)), lambda: g([h(2)], h(1))),
        (lambda: g({h(1): h(2)}), lambda: g({h(2): h(1)})),
        (lambda: g({h(1), h(2)}), lambda: g({h(1), h(3)})),
        (lambda: g(np.zeros(2)), lambda: g(np.zeros(2, int))),
        (lambda: g(np.zeros(2)), lambda: g(np.zeros((2, 1)))),
        (lambda: h(1), lambda: delayed(lambda x: x + 2, pure=True)(1)),
        (lambda: h(1) + 1, lambda: 1 + h(1)),
        (lambda: h(1)[0], lambda: h(1)[1]),
        (lambda: h(1).a, lambda: h(1).b),
    ],
)
def test_keys_tell_calls_apart(one, other):
    assert one().key != other().key


def test_closures_count():
    def make(n):
        return delayed(lambda x: x + n, pure=True)

    assert make(1)(5).key == make(1)(5).key != make(2)(5).key
    assert compute(make(1)(5), make(2)(5)) == (6, 7)


def test_keys_are_the_same_in_every_process():
    code = (
        "from lazyflow import delayed\n"
        "import operator\n"
        "f = delayed(operator.add, pure=True); s = delayed(sorted, pure=True)\n"
        "x = f(1, 2)\n"
        "for y in (x, f(x, 1) * 2, s({x, f(2, 3), 'a', 'b', 'c'}), f(x=[x], y={'k': x, 'l': 1}),\n"
        "          delayed({'a', 'b', 'c'}, pure=True), s(key=len, reverse=True)):\n"
        "    print(y.key)\n"
    )
    found = set()
    for seed in ("0", "1"):
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        out = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
        )
        found.add(out.stdout)
    assert len(found) == 1
    assert found.pop().count("\n") == 6


def test_keys_of_other_tasks_are_unique():
    xs = [delayed(inc)(1) for _ in range(100)] + [delayed([1]) for _ in range(100)]
    assert len({x.key for x in xs}) == 200
    assert all(x.key.startswith(("inc-", "list-")) for x in xs)


# -- given keys -----------------------------------------------------------------------------


def test_given_keys():
    f = delayed(inc)
    assert f(1, dask_key_name="k").key == "k"
    assert delayed([1], name="value").key == "value"
    assert (f(1, dask_key_name="k") + 1).compute() == 3
    assert repr(f(1, dask_key_name="k")) == "<Delayed k(1)>"
    odd = "schlüssel 'quoted' \udc80\n" * 3
    assert f(1, dask_key_name=odd).key == odd
    assert compute(f(1, dask_key_name=""), f(1, dask_key_name=odd)) == (2, 2)


def test_the_same_key_on_equal_calls_merges():
    counted = Counted(inc)
    f = delayed(counted)
    x, y = f(1, dask_key_name="k"), f(1, dask_key_name="k")
    for optimize_graph in (True, False):
        assert compute(x, y, x + y, optimize_graph=optimize_graph) == (2, 2, 4)
    assert len(counted.calls) == 2
    assert compute(delayed([1], name="v"), delayed([1], name="v")) == ([1], [1])


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
@pytest.mark.parametrize("optimize_graph", [True, False])
def test_the_same_key_on_different_calls_is_a_conflict(scheduler, optimize_graph):
    ran = []
    f = delayed(ran.append)
    x = f(1, dask_key_name="same")
    first = inspect.currentframe().f_lineno - 1
    y = f(2, dask_key_name="same")
    with pytest.raises(KeyConflict) as caught:
        compute(f(0), x, [y], scheduler=scheduler, optimize_graph=optimize_graph)
    told = str(caught.value)
    assert told.startswith("the key 'same' was given to two different tasks:\n  append, made at ")
    assert f"{__file__}:{first} in test_the_same_key_on_different_calls_is_a_conflict" in told
    assert f"{__file__}:{first + 2} in" in told
    assert "dask_key_name=" in told
    assert "lazyflow.annotate(name=...)" in told
    assert ran == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: delayed(inc)(1, dask_key_name="k"), lambda: delayed(abs)(1, dask_key_name="k")),
        (lambda: delayed(inc)(1, dask_key_name="k"), lambda: delayed(1, name="k")),
        (lambda: delayed(2, name="k"), lambda: delayed(1, name="k")),
        (lambda: delayed(inc)(delayed(1), dask_key_name="k"),
         lambda: delayed(inc)(delayed(1), dask_key_name="k")),
        (lambda: delayed(inc)(object(), dask_key_name="k"),
         lambda: delayed(inc)(object(), dask_key_name="k")),
        (lambda: h(1), lambda: delayed(inc)(2, dask_key_name=h(1).key)),
        (lambda: delayed("a").upper(dask_key_name="k"),
         lambda: delayed("a").lower(dask_key_name="k")),
        (lambda: delayed(1, name="k") + 1, lambda: delayed(2, name="k") + 1),
    ],
)  # fmt: skip
def test_conflicts(one, other):
    for make in (make_plan, compute, persist, optimize):
        for both in ([one(), other()], [other(), one()]):
            with pytest.raises(KeyConflict):
                make(both)


def test_a_conflict_is_found_between_tasks_far_apart():
    x = delayed(inc)(1, dask_key_name="k")
    y = delayed(inc)(2, dask_key_name="k")
    for _ in range(100):
        x, y = delayed(inc)(x), y + 1
    with pytest.raises(KeyConflict):
        compute(x + y)
    assert compute(x) == (102,)
    assert compute(y) == (103,)


def test_threads_that_ask_at_once_get_one_key():
    xs, found = [delayed(inc)(i) for i in range(300)], []
    barrier = threading.Barrier(4, timeout=30)

    def work():
        barrier.wait()
        found.append([x.key for x in xs])

    threads = [threading.Thread(target=work) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert found == [[x.key for x in xs]] * 4


def test_a_value_without_content_and_its_persisted_form_are_one_key():
    x = delayed(id)(object(), dask_key_name="k")
    (p,) = persist(x, scheduler="sync")
    a, b = compute(x, p)
    assert a == b


def test_a_value_and_its_persisted_form_are_one_key():
    counted = Counted(inc)
    x = delayed(counted)(1, dask_key_name="k")
    (p,) = persist(x, scheduler="sync")
    assert p.key == "k"
    assert compute(p, x + 1, p + 1) == (2, 3, 3)
    with pytest.raises(KeyConflict):
        compute(p, delayed(counted)(5, dask_key_name="k"))
    other = persist(delayed(counted)(5, dask_key_name="k"), scheduler="sync")
    with pytest.raises(KeyConflict):
        compute(p, other)


# -- a property -----------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_pure_calls_run_once_each(calls):
    counted = Counted(lambda a, b: (a, b))
    f = delayed(counted, pure=True)
    with config.set(scheduler="sync"):
        assert compute([f(*c) for c in calls]) == (calls,)
    random.shuffle(calls)
    assert sorted(counted.calls) == sorted(set(calls))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("pure", [True, False])
def test_text_that_looks_like_a_key_stays_data(scheduler, pure):
    """In dask's graphs as data such text stands for the result of the task with the key."""
    x = delayed(abs, name="x", pure=True)(-5, dask_key_name="x")
    assert x.key == "x"
    names = np.array(["x", "y"]), np.array(["x", x.key], dtype=object)

    def f(*given, **named):
        return given, named

    y = delayed(f, pure=pure)("x", x, ["x", x], {"x": x, "y": "x"}, ("x", [x, "x"]), *names, x="x")
    (text, value, pair, by_name, nested, fixed, objects), named = y.compute(scheduler=scheduler)
    assert (text, value, pair, by_name, nested, named) == (
        "x", 5, ["x", 5], {"x": 5, "y": "x"}, ("x", [5, "x"]), {"x": "x"})
    assert fixed.tolist() == ["x", "y"] and objects.tolist() == ["x", "x"]
    assert fixed.dtype == names[0].dtype and objects.dtype == object
