"""Lazy values through pickle: what they compute, what they share, how deep they are."""

import collections
import copy
import dataclasses
import gc
import inspect
import operator
import os
import pickle
import subprocess
import sys
import textwrap
import weakref

import cloudpickle
import numpy as np
import pytest

from lazyflow import Delayed, annotate, compute, delayed, optimize, persist
from lazyflow.finalizers import WeakValues
from lazyflow.graph.plan import in_order, make_plan


def inc(x):
    return x + 1


def elsewhere(data):
    """Return a pickled value as another process would see it: nothing of it is known there."""
    from lazyflow.api import graph_pickle

    known, graph_pickle._known = graph_pickle._known, WeakValues()
    try:
        return pickle.loads(data)
    finally:
        graph_pickle._known = known


def sent(x, protocol=pickle.HIGHEST_PROTOCOL):
    return elsewhere(pickle.dumps(x, protocol))


# -- what comes back ------------------------------------------------------------------------


@dataclasses.dataclass
class Box:
    inside: object


f = delayed(inc)
GRAPHS = {
    "value": lambda: delayed([1, 2]),
    "call": lambda: f(1),
    "lambda": lambda: delayed(lambda x, y=2: x * y)(3),
    "chain": lambda: f(f(f(1))),
    "operators": lambda: -(f(1) * 3 + f(2)) ** 2,
    "item": lambda: delayed([1, [2, 3]])[1][f(0)],
    "nout": lambda: list(delayed(divmod, nout=2)(7, 2))[1],
    "attribute": lambda: f(1j).imag,
    "method": lambda: delayed("a,b").split(","),
    "nested": lambda: delayed(dict)({"a": [f(1), (f(2), {f(3)})]}, k=slice(f(1))),
    "kept containers": lambda: delayed(list)(collections.deque([f(1), 2], maxlen=5)),
    "dataclass": lambda: delayed(lambda b: b.inside)(Box([f(1)])),
    "iterator": lambda: delayed(list)(iter([f(1), 2])),
    "object array": lambda: delayed(list)(np.array([f(1), None], object)[:1]),
    "array": lambda: delayed(np.sum)(np.arange(5)),
    "delayed function": lambda: delayed(lambda g, x: g(x))(f, 1),
    "delayed functions": lambda: delayed(lambda gs, x: gs[0](x))([f], 1),
    "options": lambda: delayed(inc, retries=2, name="n", pure=True, priority=0)(1),
    "priority": lambda: delayed(inc, priority=5)(1),
    "key": lambda: f(1, dask_key_name="my key"),
    "none": lambda: delayed(None),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_it_computes_the_same(name, protocol):
    x = GRAPHS[name]()
    y = sent(x, protocol)
    assert y is not x
    assert type(y) is type(x)
    assert y.compute(scheduler="sync") == x.compute(scheduler="sync")
    assert y.key == x.key
    assert repr(y) == repr(x)
    assert y._repr_html_() == x._repr_html_()


@pytest.mark.parametrize("name", GRAPHS)
def test_in_the_same_process_it_is_the_same_task(name):
    x = GRAPHS[name]()
    y = pickle.loads(pickle.dumps(x))
    assert y is x or name == "key"
    assert y.compute(scheduler="sync") == x.compute(scheduler="sync")


def test_a_pickled_attribute_can_still_be_called():
    upper = sent(delayed("a").upper)
    assert upper().compute() == "A"
    assert repr(upper) == "<Delayed .upper(<value>)>"


def test_further_work_on_what_came_back():
    x = sent(f(1))
    assert compute(x + 1, f(x), [x]) == (3, 3, [2])
    assert sent(sent(x)).compute() == 2


def test_delayed_functions():
    @delayed(nout=2, pure=True, name="label", traverse=False)
    def g(x):
        """Twice."""
        return x, x

    h = sent(g)
    assert type(h) is type(g)
    assert h.__doc__ == "Twice."
    assert repr(h(1)) == "<Delayed label(1)>"
    assert compute(*h(1)) == (1, 1)
    assert h(1).key == g(1).key
    inner = delayed(1)
    assert h([inner]).compute()[0][0] is inner
    assert sent(delayed(lambda x: x + 1))(1).compute() == 2
    assert cloudpickle.loads(cloudpickle.dumps(delayed(inc)))(1).compute() == 2


def test_parts_of_graphs_in_the_state_of_objects():
    x = f(1)
    box, other = sent((Box(x), Box(x)))
    assert box.inside is other.inside
    assert box.inside.compute() == 2
    assert copy.deepcopy(Box([x])).inside[0] is x


def test_where_it_was_made_and_errors():
    x = delayed(operator.truediv)(1, 0)
    line = inspect.currentframe().f_lineno - 1
    with pytest.raises(ZeroDivisionError) as caught:
        sent(x).compute()
    assert caught.value.__notes__ == [
        f"in lazyflow task truediv(1, 0), made at {__file__}:{line} in "
        "test_where_it_was_made_and_errors"
    ]


def test_options_survive():
    calls = []

    def flaky():
        calls.append(1)
        if len(calls) < 3:
            raise OSError
        return 5

    flaky_here = globals()["_flaky"] = flaky  # by reference, so that `calls` is this one
    flaky.__module__, flaky.__qualname__ = __name__, "_flaky"
    with annotate(retries=2):
        x = delayed(flaky_here)()
    assert sent(x).compute(scheduler="sync") == 5
    assert len(list(sent(delayed(lambda: (1, 2), nout=2)()))) == 2
    for x in (delayed(inc)(1), delayed(inc)(1) + 1, delayed(1, name="one")):
        assert sent(x)._options is x._options
    said = {"priority": 3, "resources": {"GPU": 1}, "crash_retries": 4, "workers": ("big",)}
    options = sent(delayed(inc, **said)(1))._options
    assert {name: getattr(options, name) for name in said} == said


def test_pure_tasks_still_merge():
    g = delayed(inc, pure=True)
    x, y = sent(g(1)), sent(g(1))
    assert x.key == g(1).key
    calls = in_order([x, y, g(1)])[0]
    assert len(calls) == 3
    assert len(make_plan([x, y, g(1)])) == 1


def test_a_given_key_that_is_another_tasks_content():
    x = delayed(inc, pure=True)(1)
    y = delayed(inc)(5, dask_key_name=x.key)
    for data in (pickle.dumps((x, y)), pickle.dumps((y, x))):
        assert sorted(v.compute(scheduler="sync") for v in pickle.loads(data)) == [2, 6]


# -- what is shared -------------------------------------------------------------------------


def test_what_two_values_share_stays_shared():
    base = delayed(object)()
    x, y = delayed(lambda o: o)(base), delayed(lambda o: [o])(base)
    for a, b in (sent((x, y)), elsewhere_each(x, y)):
        one, (other,) = compute(a, b)
        assert one is other
    assert len(in_order([x, y])[0]) == 3


def elsewhere_each(*values):
    """Send values one after the other to one other process."""
    from lazyflow.api import graph_pickle

    data = [pickle.dumps(v) for v in values]
    known, graph_pickle._known = graph_pickle._known, WeakValues()
    try:
        return tuple([pickle.loads(d) for d in data])
    finally:
        graph_pickle._known = known


def test_a_shared_task_inside_one_graph_runs_once():
    calls = []
    globals()["_count"] = _count = lambda: calls.append(1) or 1
    _count.__module__, _count.__qualname__, _count.__name__ = __name__, "_count", "_count"
    base = delayed(_count)()
    x = sent(delayed(lambda a, b, c: a + b + c[0])(base, base + 1, [base]))
    assert x.compute() == 4
    assert calls == [1]


def test_diamonds_do_not_grow():
    x = delayed(1)
    for _ in range(200):
        x = x + x
    data = pickle.dumps(x)
    assert len(data) < 200_000
    assert elsewhere(data).compute(scheduler="sync") == 2**200


@pytest.mark.parametrize(
    "wrap",
    [Box, lambda x: [x], lambda x: np.array([x, None], object)[:1],
     lambda x: collections.OrderedDict(k=x), lambda x: collections.deque([x])],
)  # fmt: skip
def test_tasks_inside_containers_are_pickled_once(wrap):
    step = delayed(lambda x: len(repr(type(x))))
    x = step(wrap(f(1)))
    sizes = []
    for _ in range(2):
        for _ in range(50):
            x = step(wrap(x))
        sizes.append(len(pickle.dumps(x)))
    assert sizes[1] < 2.5 * sizes[0]
    assert type(elsewhere(pickle.dumps(x)).compute(scheduler="sync")) is int


def test_optimized_graphs():
    pure = delayed(lambda x: x, pure=True)
    x = f(pure(1)) + f(pure(1))
    for _ in range(100):
        x = f(x)
    (better,) = optimize(x)
    data = pickle.dumps(better)
    assert len(data) < len(pickle.dumps(x))
    assert elsewhere(data).compute(scheduler="sync") == x.compute(scheduler="sync") == 104


def test_nothing_is_kept_alive_by_having_been_pickled():
    x = f(object())
    reference = weakref.ref(x)
    pickle.dumps(x)
    del x
    gc.collect()
    assert reference() is None


# -- persisted values, depth, failures ------------------------------------------------------


def test_persisted_values_go_as_values():
    calls = []
    (x,) = persist(delayed(lambda: calls.append(1) or np.arange(3))())
    y = sent(delayed(np.sum)(x))
    assert y.compute() == 3
    np.testing.assert_array_equal(sent(x).compute(), [0, 1, 2])
    assert calls == [1]
    assert sent(persist(f(1, dask_key_name="k"))[0]).key == "k"


def test_a_persisted_failure_is_raised_when_pickled():
    (x,) = persist(delayed(operator.truediv)(1, 0), scheduler="sync")
    with pytest.raises(ZeroDivisionError):
        pickle.dumps(f(x))


def test_a_deep_chain():
    n = 100_000
    x = f(0)
    for _ in range(n - 1):
        x = f(x)
    data = pickle.dumps(x)
    del x
    y = elsewhere(data)
    assert repr(y) == "<Delayed inc(<inc>)>"
    assert y.compute(scheduler="sync") == n


def test_what_cannot_be_pickled():
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickle.dumps(f(sys._getframe()))


def test_in_another_process(tmp_path):
    here = {name: make() for name, make in GRAPHS.items()}
    script = textwrap.dedent("""
        import pickle, sys
        from lazyflow import compute, delayed
        # defined in __main__: lambdas and functions go by value
        def twice(x):
            return 2 * x
        x = delayed(twice)(delayed(lambda x: x + 1)(4))
        graphs = pickle.load(open(sys.argv[1], "rb"))
        found = compute(graphs, scheduler="sync")[0]
        keys = {k: v.key for k, v in graphs.items()}
        pickle.dump((x, found, keys), open(sys.argv[2], "wb"))
    """)
    into, back = tmp_path / "into", tmp_path / "back"
    into.write_bytes(pickle.dumps(here))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    subprocess.run([sys.executable, "-c", script, into, back], check=True, env=environ)
    x, found, keys = pickle.loads(back.read_bytes())
    assert type(x) is Delayed
    assert x.compute() == 10
    assert found == compute(here, scheduler="sync")[0]
    assert keys == {k: v.key for k, v in here.items()}
